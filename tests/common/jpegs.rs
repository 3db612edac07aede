//! JPEGs of all kinds, the windows to test on them, and plain decoding to compare with.

use fuseloop::Error;
use fuseloop::internals::decode::{DecodeOptions, Decoder, JpegBackend};
use fuseloop::source::{EncodedImage, ImageMode};
use fuseloop_ops::Size;
use fuseloop_ops::author::Window;
use fuseloop_ops::internals::ImageView;
use libjpeg_turbo_rs::{ColorSpace, Encoder, PixelFormat, Subsampling};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// A JPEG whose size the source does not know.
pub fn unmeasured(bytes: &[u8]) -> EncodedImage<'_> {
    EncodedImage { mode: ImageMode::Jpeg, width: 0, height: 0, bytes }
}

/// The pixels of `window`, packed.
pub fn pixels(decoder: &mut Decoder, bytes: &[u8], window: Window) -> Result<Vec<u8>, Error> {
    let decoded = decoder.decode(&unmeasured(bytes), window)?;
    Ok(packed(decoded.window(window).expect("at least the window")))
}

fn packed(view: ImageView<'_>) -> Vec<u8> {
    (0..view.size().height).flat_map(|y| view.row(y).to_vec()).collect()
}

/// An image as zune-jpeg decodes it, without any code of ours.
pub struct Plain {
    pub size: Size,
    pub rgb: Vec<u8>,
}

impl Plain {
    pub fn decode(bytes: &[u8]) -> Self {
        let options = zune_core::options::DecoderOptions::new_fast()
            .jpeg_set_out_colorspace(zune_core::colorspace::ColorSpace::RGB);
        let cursor = zune_core::bytestream::ZCursor::new(bytes);
        let mut decoder = zune_jpeg::JpegDecoder::new_with_options(cursor, options);
        let rgb = decoder.decode().unwrap();
        let (width, height) = decoder.dimensions().unwrap();
        Self { size: Size::new(height as u32, width as u32), rgb }
    }

    /// The image as the loader decodes it: zune-jpeg's pixels, except for [`Edges`].
    pub fn loaded(bytes: &[u8]) -> Self {
        let mut plain = Self::decode(bytes);
        let (size, edges) = (plain.size, Edges::of(bytes, plain.size));
        let mut core = Decoder::with_backend(JpegBackend::Core, DecodeOptions::default());
        let Ok(own) = pixels(&mut core, bytes, size.full()) else { return plain };
        let positions = (0..size.height).flat_map(|y| (0..size.width).map(move |x| (y, x)));
        let rgb = plain.rgb.as_chunks_mut::<3>().0.iter_mut();
        for ((position, zune), own) in positions.zip(rgb).zip(own.as_chunks::<3>().0) {
            assert!(
                zune == own || edges.has(position),
                "{position:?} of {size}: {own:?}, not {zune:?}"
            );
            *zune = *own;
        }
        plain
    }

    /// The image as the loader decodes it, and as zune-jpeg does.
    pub fn both(bytes: &[u8]) -> [Self; 2] {
        [Self::loaded(bytes), Self::decode(bytes)]
    }

    pub fn crop(&self, window: Window) -> Vec<u8> {
        packed(ImageView::packed(&self.rgb, self.size).unwrap().crop(window).unwrap())
    }
}

/// The pixels whose chroma zune-jpeg interpolates with the padding of the last block, while the core,
/// like libjpeg, does not. Where chroma has half the columns, these are the last column of an image
/// whose width is even but no multiple of 16; the same applies to rows.
#[derive(Clone, Copy, Debug)]
pub struct Edges {
    size: Size,
    pub last_column: bool,
    pub last_row: bool,
}

impl Edges {
    pub fn of(jpeg: &[u8], size: Size) -> Self {
        let [h, v] = factors(jpeg).unwrap_or([1, 1]);
        let differs =
            |side: u32, factor| factor == 2 && side.is_multiple_of(2) && !side.is_multiple_of(16);
        let (last_column, last_row) = (differs(size.width, h), differs(size.height, v));
        Self { size, last_column, last_row }
    }

    pub fn has(&self, (y, x): (u32, u32)) -> bool {
        let Size { height, width } = self.size;
        (self.last_column && x + 1 == width) || (self.last_row && y + 1 == height)
    }
}

/// The sampling factors of the first of several components.
fn factors(jpeg: &[u8]) -> Option<[u8; 2]> {
    let mut at = 2;
    loop {
        while *jpeg.get(at)? == 0xff {
            at += 1;
        }
        let (marker, body) = (jpeg[at], jpeg.get(at + 1..)?);
        let length = usize::from(u16::from_be_bytes(*body.first_chunk()?));
        if matches!(marker, 0xc0..=0xc2) {
            let factors = *body.get(9)?;
            return matches!(*body.get(7)?, 3 | 4).then_some([factors >> 4, factors & 15]);
        }
        at += 1 + length;
    }
}

pub fn random(seed: u64) -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(seed)
}

/// A number below `count`.
pub fn below(rng: &mut impl Rng, count: usize) -> usize {
    rng.next_u32() as usize % count
}

pub fn random_window(size: Size, rng: &mut impl Rng) -> Window {
    let height = 1 + rng.next_u32() % size.height;
    let width = 1 + rng.next_u32() % size.width;
    let top = rng.next_u32() % (size.height - height + 1);
    let left = rng.next_u32() % (size.width - width + 1);
    Window { top, left, height, width }
}

/// The components of an image.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Colour {
    Gray,
    /// RGB, stored with blue and red differences of this subsampling.
    Rgb(Subsampling),
    Cmyk,
    Ycck,
}

impl Colour {
    pub const ALL: [Self; 11] = {
        use Subsampling as S;
        [
            Self::Gray,
            Self::Rgb(S::S444),
            Self::Rgb(S::S422),
            Self::Rgb(S::S420),
            Self::Rgb(S::S440),
            Self::Rgb(S::S411),
            Self::Rgb(S::S441),
            Self::Rgb(S::S410),
            Self::Rgb(S::S24),
            Self::Cmyk,
            Self::Ycck,
        ]
    };

    /// The height and width of an MCU, in pixels.
    pub fn mcu(self) -> Size {
        use Subsampling as S;
        let (across, down) = match self {
            Self::Rgb(S::S422) => (2, 1),
            Self::Rgb(S::S420) => (2, 2),
            Self::Rgb(S::S440) => (1, 2),
            Self::Rgb(S::S411) => (4, 1),
            Self::Rgb(S::S441) => (1, 4),
            Self::Rgb(S::S410) => (4, 2),
            Self::Rgb(S::S24) => (2, 4),
            _ => (1, 1),
        };
        Size::new(8 * down, 8 * across)
    }
}

/// A JPEG of noise on a gradient: baseline, without restart markers.
pub fn drawn(size: Size, colour: Colour) -> Vec<u8> {
    let (format, values) = match colour {
        Colour::Gray => (PixelFormat::Grayscale, 1),
        Colour::Rgb(_) => (PixelFormat::Rgb, 3),
        Colour::Cmyk | Colour::Ycck => (PixelFormat::Cmyk, 4),
    };
    let mut rng = random(size.pixels());
    let pixels: Vec<u8> = (0..size.pixels() as usize * values)
        .map(|i| (i / 97 % 191) as u8 + rng.next_u32() as u8 % 64)
        .collect();
    let (width, height) = (size.width as usize, size.height as usize);
    let encoder = Encoder::new(&pixels, width, height, format).quality(80);
    let encoder = match colour {
        Colour::Rgb(subsampling) => encoder.subsampling(subsampling),
        Colour::Ycck => encoder.colorspace(ColorSpace::Ycck).subsampling(Subsampling::S444),
        Colour::Gray | Colour::Cmyk => encoder.subsampling(Subsampling::S444),
    };
    encoder.encode().unwrap()
}

/// The same coefficients as a baseline file with a restart marker every `interval` MCUs.
pub fn with_markers(jpeg: &[u8], interval: u16) -> Vec<u8> {
    let mut coefficients = libjpeg_turbo_rs::read_coefficients(jpeg).unwrap();
    coefficients.restart_interval = interval;
    libjpeg_turbo_rs::write_coefficients_optimized(&coefficients).unwrap()
}

/// The same coefficients as a progressive file.
pub fn progressive(jpeg: &[u8]) -> Vec<u8> {
    let coefficients = libjpeg_turbo_rs::read_coefficients(jpeg).unwrap();
    libjpeg_turbo_rs::write_coefficients_progressive(&coefficients, None).unwrap()
}

pub fn with_index(jpeg: &[u8]) -> Vec<u8> {
    let mut bytes = jpeg.to_vec();
    fuseloop::internals::decode::append_segment_index(&mut bytes).unwrap();
    bytes
}

/// The number of bytes of an index of segments: a length for each segment, the bytes of these lengths,
/// their number, and a mark. 0 if there is no index.
pub fn index_len(bytes: &[u8]) -> usize {
    let Some((rest, b"FSEGIDX\x01")) = bytes.split_last_chunk() else { return 0 };
    let Some((rest, _)) = rest.split_last_chunk::<4>() else { return 0 };
    rest.last_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes) as usize + 16)
}

/// Returns `jpeg` with an EXIF segment that records the camera's orientation.
pub fn oriented(jpeg: &[u8], orientation: u8) -> Vec<u8> {
    // Big-endian TIFF with its directory at offset 8: one entry, with tag 274, type u16 and count 1.
    let mut exif = b"\xff\xe1\0\x22Exif\0\0MM\0\x2a\0\0\0\x08".to_vec();
    exif.extend_from_slice(&[0, 1, 1, 0x12, 0, 3, 0, 0, 0, 1, 0, orientation, 0, 0, 0, 0, 0, 0]);
    [&jpeg[..2], &exif, &jpeg[2..]].concat()
}
