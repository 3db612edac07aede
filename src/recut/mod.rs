//! Lossless re-cutting of JPEGs: the same coefficients as an interleaved baseline file with
//! optimal Huffman tables and restart markers every tile, so that the loader decodes a window
//! and not the picture.

use crate::sample::Limits;

/// How far apart restart markers stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tile {
    /// A tile of so many columns, or the next width that suits the picture.
    Pixels(u16),
    /// A row of MCUs.
    Row,
}

impl Default for Tile {
    /// 32 pixels.
    fn default() -> Self {
        Self::Pixels(32)
    }
}

/// Why a JPEG is kept as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Kept {
    /// Not built yet.
    #[error("not built yet")]
    NotBuilt,
}

/// Re-cuts JPEGs. One for each thread: it keeps its buffers.
#[derive(Debug)]
pub struct Recutter {
    tile: Tile,
    limits: Limits,
}

impl Recutter {
    /// Cuts tiles of `tile`; pictures over `limits` are kept as they are.
    #[must_use]
    pub fn new(tile: Tile, limits: Limits) -> Self {
        Self { tile, limits }
    }

    /// The same picture as an interleaved baseline JPEG with restart markers.
    ///
    /// # Errors
    ///
    /// Why it is to be kept as it is.
    pub fn recut(&mut self, jpeg: &[u8]) -> Result<Vec<u8>, Kept> {
        let _ = (self.tile, &self.limits, jpeg);
        Err(Kept::NotBuilt)
    }
}
