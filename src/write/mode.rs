//! How images are stored: the options, and what they mean for an image of a given size.
//!
//! ```text
//! size    longest side <= max_resolution: unchanged
//!         else r = max_resolution / longest side, (trunc(r * width), trunc(r * height))
//! raw     size of the raw pixels in bytes, 3 * width * height of that size
//! JPEG    Lossless: if given as JPEG, gray or colour, or with a quality | Raw, Mask: never | Jpg: always
//!         Smart: raw > threshold | Proportion: u < probability
//! u       (mix(mix(mix(seed) ^ sample) ^ field) >> 11) / 2^53, mix a step of SplitMix64
//! ```
//!
//! Names and arithmetic are those of FFCV's `RGBImageField`, with two differences: FFCV has no
//! `Lossless`, and its `u` depends on the number of workers, all of which draw the same sequence.
//!
//! Storing a PNG or raw pixels as JPEG is lossy. It happens only in the modes whose name or rule says
//! JPEG (`Jpg`, `Smart`, `Proportion`), or where a quality is given, and is counted in
//! [`WriteReport::reencoded`](super::WriteReport::reencoded).

use super::image::InputPosition;
use crate::error::{Error, fail};
use crate::recut::Tile;
use crate::sample::SampleId;
use fuseloop_ops::Size;

/// When an image is stored as a JPEG.
///
/// ```
/// use fuseloop::write::{ImageOptions, WriteMode};
///
/// // Raw images, but JPEGs where an image has more than 100 kB.
/// let write_mode = WriteMode::Smart { smart_threshold: Some(100_000) };
/// let options = ImageOptions { write_mode, jpeg_quality: Some(95), ..ImageOptions::default() };
/// # let _ = options;
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum WriteMode {
    /// A JPEG is stored byte for byte. A PNG, a JPEG of CMYK and raw pixels are stored as raw pixels (in files that
    /// [`convert`](super::convert()) writes: unchanged, and raw pixels as PNG). RGB pixels have no alpha and 8 bits a sample; nothing else is lost. With a [quality](ImageOptions::jpeg_quality), all are
    /// encoded as JPEGs.
    #[default]
    Lossless,
    /// Never: every image takes `3 * width * height` bytes, and nothing needs decoding.
    Raw,
    /// Raw, for masks, whose values are numbers of classes: indices into the palette, or gray levels as stored, in all
    /// three channels. In files that [`convert`](super::convert()) writes, a PNG, a lossless WebP, a TIFF, a BMP, a GIF and a PNM stay as
    /// they are, and pixels become a gray PNG. A JPEG, a lossy WebP and pixels of no class are refused, and an image
    /// above [`max_resolution`](ImageOptions::max_resolution) is scaled down to the nearest pixels. The dataset then
    /// knows that the field is a mask (of `x.beton`, `x.beton.objects.json` says it), so that a loader reads the classes.
    Mask,
    /// Always. This is lossy for a PNG, a JPEG of CMYK and raw pixels, which are encoded.
    Jpg,
    /// If `3 * width * height`, after resizing, is above `smart_threshold`; `None` is never. Like FFCV, this
    /// ignores how the image was given: it is lossy for a PNG above the threshold.
    Smart {
        /// The largest number of bytes stored as raw pixels.
        smart_threshold: Option<u64>,
    },
    /// For a share of the images, chosen by ([`ImageOptions::seed`], the sample's index in the input,
    /// the field's index), not by thread or time. Like FFCV, this ignores how the image was given: it is
    /// lossy for that share of the PNGs.
    Proportion {
        /// The share of the images, 0 to 1.
        compress_probability: f64,
    },
}

/// How the images of a field are stored.
///
/// These options produce JPEGs of which a loader decodes little more than the window it needs. The
/// pixels do not change:
///
/// ```
/// use fuseloop::recut::Tile;
/// use fuseloop::write::{ImageOptions, WriteOptions};
///
/// let image = ImageOptions { tile: Some(Tile::default()), ..ImageOptions::default() };
/// let options = WriteOptions { image, ..WriteOptions::default() };
/// # let _ = options;
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ImageOptions {
    /// When an image is stored as a JPEG; it is stored raw otherwise.
    pub write_mode: WriteMode,
    /// The largest allowed longer side in pixels, at least 1. Larger images are scaled down to it.
    pub max_resolution: Option<u32>,
    /// Encodes every stored JPEG with this quality, 1 to 100, and with [`WriteMode::Lossless`] stores all images as JPEGs,
    /// but for masks. `None` stores JPEGs unchanged where possible, and encodes other images with 90.
    pub jpeg_quality: Option<u8>,
    /// Also decodes the JPEGs that are stored unchanged, and the files of fields that the source knows to be audio, so
    /// that a damaged one is found now and not during training.
    pub verify: bool,
    /// Re-cuts every stored JPEG without loss: the coefficients are the same, with restart markers at
    /// this distance. A JPEG that can't be re-cut is stored as it would be without this option, and
    /// listed in [`WriteReport::unchanged`](super::WriteReport::unchanged). `None` does not re-cut.
    pub tile: Option<Tile>,
    /// Stores every stored JPEG as bit planes instead, in tiles of `tile` or 32 pixels: windows decode in half the time
    /// of re-cut JPEGs, for 8 % more bytes. In a `.beton` file this makes fields of
    /// [`FieldKind::BitPlaneImage`](crate::source::FieldKind::BitPlaneImage), which FFCV does not read.
    /// [`convert`](super::convert()) without this option restores the JPEGs, byte for byte. A JPEG of which no bit planes can be
    /// made is stored unchanged, and listed in [`WriteReport::unchanged`](super::WriteReport::unchanged).
    pub bit_planes: bool,
    /// The seed of [`WriteMode::Proportion`].
    pub seed: u64,
}

impl Default for ImageOptions {
    /// JPEGs unchanged, other images as RGB pixels of 8 bits a sample.
    fn default() -> Self {
        Self {
            write_mode: WriteMode::default(),
            max_resolution: None,
            jpeg_quality: None,
            verify: false,
            tile: None,
            bit_planes: false,
            seed: 0,
        }
    }
}

impl ImageOptions {
    /// Returns the settings that have other values than their defaults.
    pub(super) fn settings(&self) -> impl Iterator<Item = (&'static str, String)> + use<> {
        let Self { write_mode, max_resolution, jpeg_quality, verify, tile, bit_planes, seed } =
            self;
        let mode = match *write_mode {
            WriteMode::Lossless => None,
            WriteMode::Raw => Some("raw".to_owned()),
            WriteMode::Mask => Some("mask".to_owned()),
            WriteMode::Jpg => Some("jpg".to_owned()),
            WriteMode::Smart { smart_threshold: None } => Some("smart".to_owned()),
            WriteMode::Smart { smart_threshold: Some(bytes) } => {
                Some(format!("smart above {bytes} bytes"))
            }
            WriteMode::Proportion { compress_probability } => {
                Some(format!("proportion {compress_probability}"))
            }
        };
        [
            ("write_mode", mode),
            ("max_resolution", max_resolution.map(|pixels| pixels.to_string())),
            ("jpeg_quality", jpeg_quality.map(|quality| quality.to_string())),
            ("verify", verify.then(|| "on".to_owned())),
            ("tile", tile.map(|tile| tile.to_string())),
            ("bit_planes", bit_planes.then(|| "on".to_owned())),
            ("seed", (*seed != 0).then(|| seed.to_string())),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
    }

    /// Checks the options for the images of a field.
    ///
    /// # Errors
    ///
    /// If one of them is out of range.
    pub(super) fn check(&self, field: &str) -> Result<(), Error> {
        let images = format!("images of field {field:?}");
        if let Some(found) = self.jpeg_quality.filter(|quality| !(1..=100).contains(quality)) {
            return Err(fail!(Parameter, "{images}: jpeg_quality {found}, expected 1 to 100")
                .of_field(field)
                .help("without `--jpeg-quality`, JPEGs are stored unchanged"));
        }
        if self.max_resolution == Some(0) {
            let error = fail!(Parameter, "{images}: max_resolution 0, expected at least 1");
            return Err(error.of_field(field));
        }
        match self.write_mode {
            WriteMode::Proportion { compress_probability: found }
                if !(0.0..=1.0).contains(&found) =>
            {
                Err(fail!(Parameter, "{images}: compress_probability {found}, expected 0 to 1")
                    .of_field(field))
            }
            _ => Ok(()),
        }
    }

    /// Returns the size as stored: FFCV's arithmetic, but with at least one pixel per side.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "ratio is in 0..1, so the products are in 0..2^32"
    )]
    pub(super) fn stored_size(&self, size: Size) -> Size {
        let Some(max) = self.max_resolution.filter(|&max| max < size.width.max(size.height)) else {
            return size;
        };
        let ratio = f64::from(max) / f64::from(size.width.max(size.height));
        let side = |pixels: u32| ((ratio * f64::from(pixels)) as u32).max(1);
        Size::new(side(size.height), side(size.width))
    }

    /// Returns how the images of a mask are stored, whatever the options of other images are.
    pub(super) fn of_mask() -> Self {
        Self { write_mode: WriteMode::Mask, ..Self::default() }
    }

    /// Returns true if no image is changed: all are stored as given, or as raw pixels.
    pub(super) fn is_untouched(&self) -> bool {
        let Self { write_mode, max_resolution, jpeg_quality, verify, tile, bit_planes, seed: _ } =
            self;
        let is_asked =
            max_resolution.is_some() || jpeg_quality.is_some() || tile.is_some() || *bit_planes;
        *write_mode == WriteMode::Lossless && !verify && !is_asked
    }

    /// Returns true if an image in the form of a `.beton` keeps this form, though its JPEG may be re-cut.
    pub(super) fn keeps_stored(&self) -> bool {
        self.write_mode == WriteMode::Lossless
            && self.max_resolution.is_none()
            && self.jpeg_quality.is_none()
    }

    /// Returns true if a JPEG keeps its headers, and its EXIF orientation with them.
    pub(super) fn keeps_headers(&self) -> bool {
        let is_jpeg = matches!(self.write_mode, WriteMode::Lossless | WriteMode::Jpg);
        is_jpeg && self.max_resolution.is_none() && self.jpeg_quality.is_none()
    }

    /// Returns true if an image of stored size `size` is stored as a JPEG.
    pub(super) fn wants_jpeg(&self, is_jpeg: bool, size: Size, position: InputPosition) -> bool {
        match self.write_mode {
            WriteMode::Lossless => is_jpeg || self.jpeg_quality.is_some(),
            WriteMode::Raw | WriteMode::Mask => false,
            WriteMode::Jpg => true,
            WriteMode::Smart { smart_threshold } => {
                smart_threshold.is_some_and(|most| raw_bytes(size) > most)
            }
            WriteMode::Proportion { compress_probability } => {
                uniform(self.seed, position.sample, position.field) < compress_probability
            }
        }
    }
}

/// Returns `3 * width * height`.
pub(super) fn raw_bytes(size: Size) -> u64 {
    size.pixels().saturating_mul(3)
}

/// Returns a number in 0..1 that depends only on the arguments.
#[expect(clippy::cast_precision_loss, reason = "53 bits are exact in a double")]
fn uniform(seed: u64, sample: SampleId, field: usize) -> f64 {
    let word = mix(mix(mix(seed) ^ sample.0) ^ field as u64);
    (word >> 11) as f64 * 2f64.powi(-53)
}

/// One step of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014, figure 17): a bijection.
fn mix(state: u64) -> u64 {
    let z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected values are Python's: `r = m / max(w, h); int(r * w), int(r * h)`.
    #[test]
    fn sizes_are_ffcvs() {
        for (max, from, want) in [
            (500, (375, 500), (375, 500)),
            (256, (375, 500), (192, 256)),
            (50, (41, 97), (21, 49)), // 50 / 97 * 97 is below 50
            (512, (1200, 1600), (384, 512)),
            (1, (3, 5), (1, 1)), // FFCV computes 0 and fails
            (65_535, (1, u32::MAX), (1, 65_535)),
        ] {
            let options = ImageOptions { max_resolution: Some(max), ..ImageOptions::default() };
            let got = options.stored_size(Size::new(from.0, from.1));
            assert_eq!((got.height, got.width), want, "{from:?} at most {max}");
        }
    }

    #[test]
    fn uniform_numbers_are_spread_evenly_and_differ_by_seed_sample_and_field() {
        let at = |seed, sample, field| uniform(seed, SampleId(sample), field);
        let mut tenths = [0; 10];
        for sample in 0..10_000 {
            let u = at(0, sample, 0);
            assert!((0.0..1.0).contains(&u));
            tenths[(u * 10.0) as usize] += 1;
        }
        // 1000 each in the mean, standard deviation 30.
        assert!(tenths.iter().all(|count| (880..1120).contains(count)), "{tenths:?}");
        assert!(at(0, 1, 0) != at(1, 1, 0) && at(0, 1, 0) != at(0, 0, 1));
    }
}
