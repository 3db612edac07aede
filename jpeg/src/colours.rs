//! The colours that a JPEG's components are, and the pixels of a row of them.
//!
//! The rule is libjpeg's (`default_decompress_parms` in jdapimin.c). Markers count if they come before the first scan:
//!
//! | components | a JFIF segment | else an Adobe segment's transform | else the components' ids |
//! |------------|----------------|-----------------------------------|--------------------------|
//! | 1          | gray           | gray                              | gray                     |
//! | 3          | YCbCr          | 0: RGB, others: YCbCr             | "RGB": RGB, others: YCbCr |
//! | 4          | (no meaning)   | 0: CMYK, others: YCCK             | CMYK                     |
//!
//! A JFIF segment has 14 bytes or more after its length, an Adobe segment 12; shorter ones are neither. Inks are stored
//! inverted, as Adobe does, whether the file says so or not. They become RGB as in Pillow:
//!
//! ```text
//! red = k - round((255 - c) k / 255)        CMYK: c, k are the stored samples; YCCK: c = 255 - (y + 1.402 (cr - 128))
//! ```

use fuseloop_kernels::{gray_row, ycbcr_row};
use fuseloop_ops::internals::RGB;

/// The bytes of a segment, after its length, up to the last that is looked at.
const JFIF_BYTES: usize = 14;
const ADOBE_BYTES: usize = 12;

/// The colours of an image's components.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colours {
    Gray,
    YCbCr,
    Rgb,
    Cmyk,
    Ycck,
}

/// The segments before the first scan that say which colours the components are.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ColourSegments {
    has_jfif: bool,
    /// The transform that the last Adobe segment names.
    adobe: Option<u8>,
}

impl ColourSegments {
    /// Looks at an APP0 segment.
    pub(crate) fn see_app0(&mut self, payload: &[u8]) {
        self.has_jfif |= payload.len() >= JFIF_BYTES && payload.starts_with(b"JFIF\0");
    }

    /// Looks at an APP14 segment.
    pub(crate) fn see_app14(&mut self, payload: &[u8]) {
        if payload.starts_with(b"Adobe")
            && let Some(&transform) = payload.get(ADOBE_BYTES - 1)
        {
            self.adobe = Some(transform);
        }
    }

    /// Returns the colours of components with these ids.
    pub(crate) fn colours(self, ids: &[u8]) -> Colours {
        match (ids, self.has_jfif, self.adobe) {
            ([_], ..) => Colours::Gray,
            ([_, _, _, _], _, None | Some(0)) => Colours::Cmyk,
            ([_, _, _, _], ..) => Colours::Ycck,
            (_, true, _) => Colours::YCbCr,
            (_, false, Some(0)) => Colours::Rgb,
            (b"RGB", false, None) => Colours::Rgb,
            _ => Colours::YCbCr,
        }
    }
}

/// Returns the level of a colour as Pillow's `convert("L")` computes it: ITU-R 601-2, rounded.
#[inline]
pub fn gray_level([r, g, b]: [u8; RGB]) -> u8 {
    let [r, g, b] = [r, g, b].map(u32::from);
    ((19_595 * r + 38_470 * g + 7_471 * b + 0x8000) >> 16) as u8
}

impl Colours {
    /// Writes the pixels of rows of samples, one of each component: gray levels, or RGB. `rgb` is scratch.
    pub fn write_row(self, rows: &[&[u8]; 4], gray: bool, rgb: &mut Vec<u8>, out: &mut [u8]) {
        match (self, gray) {
            (Self::Gray | Self::YCbCr, true) => out.copy_from_slice(rows[0]),
            (Self::Gray, false) => gray_row(rows[0], out),
            (_, false) => self.write_rgb(rows, out),
            (_, true) => {
                rgb.resize(RGB * out.len(), 0);
                self.write_rgb(rows, rgb);
                for (level, colour) in out.iter_mut().zip(rgb.as_chunks::<RGB>().0) {
                    *level = gray_level(*colour);
                }
            }
        }
    }

    fn write_rgb(self, [a, b, c, k]: &[&[u8]; 4], out: &mut [u8]) {
        match self {
            Self::Gray => gray_row(a, out),
            Self::YCbCr | Self::Ycck => ycbcr_row(a, b, c, out),
            Self::Rgb | Self::Cmyk => {
                let pixels = out.as_chunks_mut::<RGB>().0.iter_mut();
                for (((out, a), b), c) in pixels.zip(*a).zip(*b).zip(*c) {
                    *out = [*a, *b, *c];
                }
            }
        }
        if matches!(self, Self::Cmyk | Self::Ycck) {
            for (pixel, &k) in out.as_chunks_mut::<RGB>().0.iter_mut().zip(*k) {
                let flip = if self == Self::Ycck { u8::MAX } else { 0 };
                *pixel = pixel.map(|ink| inked(ink ^ flip, k));
            }
        }
    }
}

/// Returns the level that an ink and black leave, both stored inverted (Pillow's `cmyk2rgb`).
fn inked(ink: u8, k: u8) -> u8 {
    let product = u32::from(255 - ink) * u32::from(k) + 128;
    k - (((product >> 8) + product) >> 8) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of Pillow 13.0.0: `Image.new("RGB", (1, 1), pixel).convert("L").getpixel((0, 0))`.
    #[test]
    fn gray_is_pillows() {
        let pixels = [([255, 0, 0], 76), ([0, 255, 0], 150), ([0, 0, 255], 29), ([1, 2, 3], 2)];
        for (pixel, level) in pixels {
            assert_eq!(gray_level(pixel), level, "{pixel:?}");
        }
        assert!((0..=255).all(|level| gray_level([level; 3]) == level));
    }

    const JFIF: &[u8] = b"JFIF\0\x01\x01\0\0\x01\0\x01\0\0";

    /// The colours of components after an APP0 and an APP14 segment; none if they are empty.
    fn colours(ids: &[u8], app0: &[u8], app14: &[u8]) -> Colours {
        let mut segments = ColourSegments::default();
        segments.see_app0(app0);
        segments.see_app14(app14);
        segments.colours(ids)
    }

    fn adobe(transform: u8) -> Vec<u8> {
        [&b"Adobe\0\x64\0\0\0\0"[..], &[transform]].concat()
    }

    #[test]
    fn jfif_counts_before_adobe_and_adobe_before_ids() {
        use Colours as C;
        for (ids, app0, app14, expected) in [
            (&[1, 2, 3], JFIF, adobe(0), C::YCbCr),
            (b"RGB", JFIF, vec![], C::YCbCr),
            (b"RGB", &[], adobe(1), C::YCbCr),
            (b"RGB", &[], adobe(7), C::YCbCr),
            (b"RGB", &[], vec![], C::Rgb),
            (&[1, 2, 3], &[], adobe(0), C::Rgb),
            (&[1, 2, 3], &[], vec![], C::YCbCr),
            (&[7, 7, 9], &[], vec![], C::YCbCr),
            (b"RGB", &JFIF[..13], adobe(0)[..11].to_vec(), C::Rgb),
        ] {
            assert_eq!(colours(ids, app0, &app14), expected, "{ids:?} {app0:?} {app14:?}");
        }
    }

    #[test]
    fn four_components_are_inks_and_ycck_if_adobe_names_a_transform() {
        use Colours as C;
        let expected =
            [(None, C::Cmyk), (Some(0), C::Cmyk), (Some(1), C::Ycck), (Some(2), C::Ycck)];
        for (transform, expected) in expected {
            let app14 = transform.map_or(vec![], adobe);
            assert_eq!(colours(b"CMYK", JFIF, &app14), expected, "{transform:?}");
        }
        assert_eq!(colours(&[1], &[], &adobe(2)), C::Gray);
    }

    /// Values of Pillow 13.0.0: `Image.new("CMYK", (1, 1), (255 - c, 0, 0, 255 - k)).convert("RGB")`.
    #[test]
    fn inks_are_mixed_as_in_pillow() {
        for (c, k, red) in
            [(255, 255, 255), (0, 255, 0), (100, 200, 78), (255, 0, 0), (37, 141, 20)]
        {
            assert_eq!(inked(c, k), red, "{c} {k}");
        }
    }
}
