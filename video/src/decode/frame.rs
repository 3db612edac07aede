//! A decoded picture: its planes and what they mean.

use crate::MatrixCoefficients;
use crate::VideoError;
use crate::error::over_limit;

/// The layout of the chroma planes of a [`Frame`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Subsampling {
    /// Luma alone.
    Gray,
    /// Chroma at half the width and half the height: 4:2:0.
    Yuv420,
    /// Chroma at half the width: 4:2:2.
    Yuv422,
    /// Chroma for each pixel: 4:4:4.
    Yuv444,
}

impl Subsampling {
    /// Returns the width and height of a chroma plane, rounded up; zeros if there is none.
    ///
    /// ```
    /// use fuseloop_video::Subsampling;
    ///
    /// assert_eq!(Subsampling::Yuv420.chroma_size(5, 4), (3, 2));
    /// ```
    #[must_use]
    pub fn chroma_size(self, width: u32, height: u32) -> (u32, u32) {
        match self {
            Self::Gray => (0, 0),
            Self::Yuv420 => (width.div_ceil(2), height.div_ceil(2)),
            Self::Yuv422 => (width.div_ceil(2), height),
            Self::Yuv444 => (width, height),
        }
    }
}

/// A decoded picture. Samples have 8 bits; those of streams with more are rounded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Width in pixels, as the codec's bytes state it; a container may state another one.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// The layout of the chroma planes.
    pub subsampling: Subsampling,
    /// The matrix: that of the stream, or else of the container, or else [`MatrixCoefficients::Bt601`], as players of
    /// FFmpeg assume.
    pub matrix: MatrixCoefficients,
    /// True for luma from 0 to 255, false for 16 to 235.
    pub is_full_range: bool,
    /// Rows without padding: luma, blue-difference and red-difference chroma.
    planes: [Vec<u8>; 3],
}

/// The properties of a [`Frame`] without its samples.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) subsampling: Subsampling,
    pub(super) matrix: MatrixCoefficients,
    pub(super) is_full_range: bool,
}

impl Shape {
    /// Returns the width and height of each plane.
    pub(super) fn plane_sizes(&self) -> [(usize, usize); 3] {
        let chroma = self.subsampling.chroma_size(self.width, self.height);
        [(self.width, self.height), chroma, chroma]
            .map(|(width, height)| (width as usize, height as usize))
    }
}

impl Frame {
    /// Makes a frame of planes without padding; nothing if they are not of the right sizes.
    pub(super) fn new(shape: Shape, planes: [Vec<u8>; 3]) -> Option<Self> {
        let sizes = shape.plane_sizes();
        let fits =
            planes.iter().zip(sizes).all(|(plane, (width, height))| plane.len() == width * height);
        let Shape { width, height, subsampling, matrix, is_full_range } = shape;
        fits.then_some(Self { width, height, subsampling, matrix, is_full_range, planes })
    }

    /// Returns a plane: 0 for luma, 1 and 2 for chroma. Chroma planes of gray frames are empty.
    ///
    /// # Panics
    ///
    /// If `plane` is above 2.
    #[must_use]
    pub fn plane(&self, plane: usize) -> &[u8] {
        &self.planes[plane]
    }

    /// Returns the number of bytes from the start of a row of a plane to the next.
    ///
    /// # Panics
    ///
    /// If `plane` is above 2.
    #[must_use]
    pub fn stride(&self, plane: usize) -> usize {
        match plane {
            0 => self.width as usize,
            1 | 2 => self.subsampling.chroma_size(self.width, self.height).0 as usize,
            _ => panic!("a frame has 3 planes, not {plane}"),
        }
    }
}

/// Rounds samples of more than 8 bits, two little-endian bytes each.
pub(super) fn eight_bits(samples: &[u8], depth: u32) -> Vec<u8> {
    let shift = depth - 8;
    let half = (1 << shift) >> 1;
    let rounded = |bytes: &[u8; 2]| (u32::from(u16::from_le_bytes(*bytes)) + half) >> shift;
    samples.as_chunks().0.iter().map(|bytes| rounded(bytes).min(255) as u8).collect()
}

/// Checks that a picture has not more pixels than `max`.
pub(super) fn check_pixels(width: u64, height: u64, max: u64) -> Result<(), VideoError> {
    if width.checked_mul(height).is_none_or(|pixels| pixels > max) {
        return Err(over_limit!("frames of {width}x{height} pixels: the limit is {max} pixels"));
    }
    Ok(())
}
