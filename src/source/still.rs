//! A picture as its file stores it: what the readers of BMP, GIF, PNM and other small formats return.

use fuseloop_ops::Size;

/// The colours of a palette, red, green, blue and alpha. Indices that a file has no colour for are black, as in Pillow.
pub(crate) type Palette = Box<[[u8; 4]; 256]>;

/// The header of a picture, checked, and how its samples are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Still {
    /// The size as stored.
    pub(crate) size: Size,
    /// The samples of a pixel: 1 gray or an index, 2 gray and alpha, 3 RGB, 4 RGB and alpha.
    pub(crate) channels: u8,
    /// The level of white. Samples have two bytes, in the CPU's order, if it is over 255.
    pub(crate) white: u16,
    pub(crate) palette: Option<Palette>,
    /// The EXIF orientation, from 1 to 8. 1 is upright.
    pub(crate) orientation: u8,
    /// True if the file stores approximate colours, not exact numbers.
    pub(crate) is_lossy: bool,
    /// The fewest bytes that a file with these pixels has.
    pub(crate) least_bytes: u64,
}

impl Still {
    /// Returns a picture of samples of 8 bits, upright, exact and without a palette.
    pub(crate) fn of(size: Size, channels: u8) -> Self {
        let (white, orientation) = (255, 1);
        Self { size, channels, white, palette: None, orientation, is_lossy: false, least_bytes: 0 }
    }

    /// Returns the bytes of a stored pixel.
    pub(crate) fn pixel_bytes(&self) -> usize {
        usize::from(self.channels) * if self.white > 255 { 2 } else { 1 }
    }

    /// Returns whether pixels have alpha: a channel of it, or a palette that has a colour which is not opaque.
    #[cfg(feature = "write")]
    pub(crate) fn has_alpha(&self) -> bool {
        let is_clear = |palette: &Palette| palette.iter().any(|colour| colour[3] != u8::MAX);
        self.channels.is_multiple_of(2) || self.palette.as_ref().is_some_and(is_clear)
    }
}

/// Decodes a file of which this is the header.
type ReadPixels = fn(&[u8], &Still, &mut [u8]) -> Result<(), String>;

/// A format of such pictures.
#[derive(Clone, Copy)]
pub(crate) struct StillFormat {
    /// Reads and checks the header, of a file or of its first bytes.
    pub(crate) header: fn(&[u8]) -> Result<Still, String>,
    /// Decodes the pixels of a file, of whose header this is, into exactly as many bytes as they have.
    pub(crate) pixels: ReadPixels,
    /// Returns whether the file has pictures after the first, which is the one that is read.
    pub(crate) has_more: fn(&[u8]) -> bool,
}

/// Returns a palette of these colours, of which only the first 256 count.
pub(crate) fn palette(colours: impl Iterator<Item = [u8; 3]>) -> Palette {
    let mut palette = Box::new([[0, 0, 0, u8::MAX]; 256]);
    for (slot, [r, g, b]) in palette.iter_mut().zip(colours) {
        *slot = [r, g, b, u8::MAX];
    }
    palette
}

/// The error of a file that ends early.
pub(crate) fn cut(whole: &str) -> String {
    format!("it ends inside its {whole}")
}
