//! What the pixels of an image are read as: colours, gray, colours with alpha, or numbers of classes.

use super::buffer::{image_bytes, room};
use super::error::no_index;
use crate::error::Error;
use fuseloop_jpeg::gray_level;
use fuseloop_kernels::{CpuWork, for_cpu};
use fuseloop_ops::internals::{ImageView, PixelFormat, RGB};
use fuseloop_ops::{DType, Size};

/// What the pixels of a field's images are read as. The names are those of torchvision's `ImageReadMode`.
///
/// | mode | pixels | JPEG and lossy WebP | PNG, TIFF, lossless WebP, and raw RGB pixels |
/// |---|---|---|---|
/// | [`Rgb`](Self::Rgb) | 3 u8 | RGB; gray is R = G = B | RGB; alpha is dropped |
/// | [`Gray`](Self::Gray) | 1 u8 | JPEG: the luma that the file stores; chroma is not decoded. WebP: that of its RGB | gray as stored, the upper 8 of 16 bits; RGB by Pillow's `convert("L")` |
/// | [`Gray16`](Self::Gray16) | 1 u16 | refused | the levels of a PNG or a TIFF of 16-bit gray as stored; any other is refused |
/// | [`RgbAlpha`](Self::RgbAlpha) | 4 u8 | JPEG: RGB, and an alpha of 255. WebP: RGB and alpha | RGB and alpha; 255 where the file has none |
/// | [`Index`](Self::Index) | 1 u8 | refused | the index into the palette, or the gray level as stored |
///
/// Where 8 bits are read, samples of 16 bits keep their upper 8, gray and colours alike, as in OpenCV. `Gray16` keeps
/// all bits: it is for depth maps and medical images, whose levels are measurements. `Index` is for masks: a value is
/// the number of a class. RGB pixels are accepted where red, green and blue are the same number.
///
/// ```
/// use fuseloop::{ImageReadMode, ops::DType};
///
/// assert_eq!(ImageReadMode::default(), ImageReadMode::Rgb);
/// let depth = ImageReadMode::Gray16;
/// assert_eq!((depth.channels(), depth.dtype()), (1, DType::U16));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ImageReadMode {
    /// Red, green and blue.
    #[default]
    Rgb,
    /// One channel of gray levels.
    Gray,
    /// One channel of 16-bit gray levels, which are not scaled.
    Gray16,
    /// Red, green, blue and alpha.
    RgbAlpha,
    /// One channel of numbers: indices into a palette, or gray levels as stored.
    Index,
}

impl ImageReadMode {
    /// Returns the number of channels: 1, 3 or 4.
    #[must_use]
    pub const fn channels(self) -> u16 {
        match self {
            Self::Rgb => 3,
            Self::Gray | Self::Gray16 | Self::Index => 1,
            Self::RgbAlpha => 4,
        }
    }

    /// Returns the type of an element: u16 or u8.
    #[must_use]
    pub const fn dtype(self) -> DType {
        match self {
            Self::Gray16 => DType::U16,
            Self::Rgb | Self::Gray | Self::RgbAlpha | Self::Index => DType::U8,
        }
    }

    /// Returns the format of the pixels.
    pub(crate) const fn format(self) -> PixelFormat {
        PixelFormat { channels: self.channels() as usize, dtype: self.dtype() }
    }

    /// Returns a view of packed pixels that were read as this; `None` if `data` ends before the last one does.
    pub(crate) fn view(self, data: &[u8], size: Size) -> Option<ImageView<'_>> {
        ImageView::packed_format(data, size, self.format())
    }

    /// Writes the pixel that an RGB pixel is read as. Returns false if there is none, as there never is in 16 bits.
    pub(super) fn read(self, [r, g, b]: [u8; RGB], out: &mut [u8]) -> bool {
        match self {
            Self::Rgb => out.copy_from_slice(&[r, g, b]),
            Self::Gray => out[0] = gray_level([r, g, b]),
            Self::RgbAlpha => out.copy_from_slice(&[r, g, b, u8::MAX]),
            Self::Index => out[0] = r,
            Self::Gray16 => return false,
        }
        self != Self::Index || (r == g && g == b)
    }

    /// Writes what an image of RGB pixels is read as to `out`, packed.
    pub(super) fn convert(self, rgb: &ImageView<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
        let (size, channels) = (rgb.size(), usize::from(self.channels()));
        let out = room(out, image_bytes(size, channels)?)?;
        let rows = out.chunks_exact_mut((size.width as usize * channels).max(1));
        for (y, row) in (0..size.height).zip(rows) {
            let pixels = rgb.row(y).as_chunks::<RGB>().0;
            if self == Self::Index && for_cpu(CopyIndex { pixels, out: row }) {
                continue;
            }
            for (x, (pixel, out)) in pixels.iter().zip(row.chunks_exact_mut(channels)).enumerate() {
                if !self.read(*pixel, out) {
                    let pixel = pixel.map(u16::from);
                    return Err(no_index(y, x as u32, pixel));
                }
            }
        }
        Ok(())
    }
}

/// Copies the first channel of pixels. The result is false if the channels of one differ; the loop has no branch for
/// that, so it is compiled to vectors.
struct CopyIndex<'a> {
    pixels: &'a [[u8; RGB]],
    out: &'a mut [u8],
}

impl CpuWork for CopyIndex<'_> {
    type Output = bool;

    #[inline(always)]
    fn run(self) -> bool {
        let pairs = self.pixels.iter().zip(self.out);
        let differing = pairs.fold(0, |differing, (&[r, g, b], out)| {
            *out = r;
            differing | (r ^ g) | (r ^ b)
        });
        differing == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_equal_numbers_are_an_index() {
        let view = |pixels: &'static [u8; 6]| ImageView::packed(pixels, Size::new(1, 2)).unwrap();
        let mut out = vec![];
        ImageReadMode::Index.convert(&view(&[7, 7, 7, 0, 0, 0]), &mut out).unwrap();
        assert_eq!(out, [7, 0]);
        let refused = ImageReadMode::Index.convert(&view(&[7, 7, 7, 7, 7, 8]), &mut out);
        assert_eq!(refused, Err(no_index(0, 1, [7, 7, 8])));
    }

    /// Rows longer than vectors: whichever byte differs, its pixel is named.
    #[test]
    fn no_differing_byte_of_a_long_row_is_missed() {
        let mut pixels: Vec<u8> = (0..71).flat_map(|x| [x; RGB]).collect();
        let mut out = vec![];
        let mut read = |pixels: &[u8]| {
            let view = ImageView::packed(pixels, Size::new(1, 71)).unwrap();
            ImageReadMode::Index.convert(&view, &mut out).map(|()| out.clone())
        };
        assert_eq!(read(&pixels), Ok((0..71).collect()));
        for at in 0..pixels.len() {
            pixels[at] ^= 1;
            let x = at / RGB;
            let pixel = [0, 1, 2].map(|channel| u16::from(pixels[x * RGB + channel]));
            let refused = no_index(0, x as u32, pixel);
            assert_eq!(read(&pixels), Err(refused));
            pixels[at] ^= 1;
        }
    }
}
