//! Decoding of a window of a lossless image (RFC 9649, section 3).
//!
//! | bits   | contents                                                                                    |
//! |-------:|---------------------------------------------------------------------------------------------|
//! |   0..8 | 2f                                                                                          |
//! |  8..22 | width, less 1                                                                               |
//! | 22..36 | height, less 1                                                                              |
//! |     36 | 1: pixels have alpha                                                                        |
//! | 37..40 | the version, 0                                                                              |
//! | 40..   | transforms, each after a 1; a 0; the prefix codes; the pixels                                 |
//!
//! A pixel may be a copy of any pixel before it, so that all rows above the window are read, and none below it. Of the inverse
//! transforms, the prediction is undone in the rows above as well, from the left edge to the right of the window, and the others
//! in the window only.

use crate::bits::BitReader;
use crate::entropy::{CodedImage, PADDING, Squares, count_groups};
use crate::error::LosslessError;
use crate::prefix::Tables;
use crate::transform::{Transform, no_memory};
use fuseloop_kernels::vp8l::{Bgra, rgb_row, rgba_row};
use fuseloop_ops::Size;
use fuseloop_ops::author::Window;
use fuseloop_ops::internals::memory;

/// The bytes of the header.
const HEADER: usize = 5;

/// The pixels that are read before their transforms are undone: these are then in a cache.
const READ_AT_ONCE: usize = 2048;

/// The kinds of transforms, of which an image has each at most once.
const KINDS: usize = 4;

/// The header of a lossless image.
///
/// ```
/// use fuseloop_ops::Size;
/// use fuseloop_webp::LosslessHeader;
///
/// let header = LosslessHeader::parse(&[0x2f, 0xf3, 0xc1, 0x5d, 0x10])?;
/// assert_eq!(header, LosslessHeader { size: Size::new(376, 500), has_alpha: true });
/// # Ok::<(), fuseloop_webp::LosslessError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LosslessHeader {
    /// The size of the image.
    pub size: Size,
    /// True if the image says that its pixels have alpha. Otherwise all of them are opaque.
    pub has_alpha: bool,
}

impl LosslessHeader {
    /// Reads the header from the first bytes of the chunk "VP8L".
    ///
    /// # Errors
    ///
    /// If the bytes do not begin with such a header.
    pub fn parse(image: &[u8]) -> Result<Self, LosslessError> {
        let cut = LosslessError::Truncated { part: "its header", len: image.len() };
        let &[signature, bits @ ..] = image.first_chunk::<HEADER>().ok_or(cut)?;
        if signature != 0x2f {
            return Err(LosslessError::Signature { found: signature });
        }
        let bits = u32::from_le_bytes(bits);
        let version = (bits >> 29) as u8;
        if version != 0 {
            return Err(LosslessError::Version { found: version });
        }
        let size = Size::new((bits >> 14 & 0x3fff) + 1, (bits & 0x3fff) + 1);
        Ok(Self { size, has_alpha: bits >> 28 & 1 == 1 })
    }
}

/// The channels that are written of a lossless image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LosslessPixels {
    /// Red, green and blue.
    Rgb,
    /// Red, green, blue and alpha; an alpha of 255 if the image says that it has none.
    RgbAlpha,
}

impl LosslessPixels {
    /// Returns the bytes of a pixel.
    const fn bytes(self) -> usize {
        match self {
            Self::Rgb => 3,
            Self::RgbAlpha => 4,
        }
    }
}

/// Returns true if a window has pixels, all of which are inside an image of this size.
pub(crate) fn is_inside(window: Window, size: Size) -> bool {
    let is_inside = |first: u32, len: u32, side: u32| {
        len > 0 && u64::from(first) + u64::from(len) <= u64::from(side)
    };
    is_inside(window.top, window.height, size.height)
        && is_inside(window.left, window.width, size.width)
}

/// Decodes lossless WebP images: the chunk "VP8L". Buffers are used again from image to image; they take four bytes for each
/// pixel of the rows down to the last one of a window, and the tables of prefix codes.
///
/// ```no_run
/// use fuseloop_ops::author::Window;
/// use fuseloop_webp::{LosslessDecoder, LosslessHeader, LosslessPixels};
///
/// # fn show(chunk: &[u8]) -> Result<(), Box<dyn std::error::Error>> {
/// // `chunk` holds the bytes of a file's chunk "VP8L".
/// let size = LosslessHeader::parse(chunk)?.size;
/// let window = Window { top: 0, left: 0, height: size.height.div_ceil(2), width: size.width };
/// let mut rgb = vec![0; 3 * window.height as usize * window.width as usize];
/// LosslessDecoder::default().decode(chunk, window, LosslessPixels::Rgb, &mut rgb)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Default)]
pub struct LosslessDecoder {
    tables: Tables,
    /// The pixels before the inverse transforms.
    coded: Vec<Bgra>,
    /// A row in two states.
    rows: [Vec<Bgra>; 2],
}

impl LosslessDecoder {
    /// Writes the pixels of `window`. `image` holds the bytes of the chunk "VP8L".
    ///
    /// # Errors
    ///
    /// If the image is damaged in what the window needs, the window is not inside it, `out` does not have as many bytes as the
    /// window's pixels, or there is not enough memory.
    pub fn decode(
        &mut self,
        image: &[u8],
        window: Window,
        pixels: LosslessPixels,
        out: &mut [u8],
    ) -> Result<(), LosslessError> {
        let header = LosslessHeader::parse(image)?;
        if !is_inside(window, header.size) {
            return Err(LosslessError::Window);
        }
        let row_bytes = pixels.bytes().saturating_mul(window.width as usize);
        let expected = row_bytes.saturating_mul(window.height as usize);
        if out.len() != expected {
            return Err(LosslessError::Buffer { expected, found: out.len() });
        }
        let mut rows = out.chunks_exact_mut(row_bytes);
        self.decode_rows(image, HEADER, header.size, window, |row| {
            if let Some(out) = rows.next() {
                match pixels {
                    LosslessPixels::Rgb => rgb_row(row, out),
                    LosslessPixels::RgbAlpha => rgba_row(row, !header.has_alpha, out),
                }
            }
        })
    }

    /// Decodes the rows of a window that is inside the image, whose transforms begin at byte `start`. `write` takes each row
    /// of the window, from the first one on.
    pub(crate) fn decode_rows(
        &mut self,
        image: &[u8],
        start: usize,
        size: Size,
        window: Window,
        mut write: impl FnMut(&[Bgra]),
    ) -> Result<(), LosslessError> {
        let [width, height] = [size.width, size.height].map(|side| side as usize);
        let [top, left] = [window.top, window.left].map(|side| side as usize);
        let (right, bottom) = (left + window.width as usize, top + window.height as usize);
        let mut bits = BitReader::new(image);
        for _ in 0..start {
            bits.read(8);
        }
        let mut transforms = vec![];
        let mut coded_width = width;
        while bits.flag() {
            let sides = (coded_width, height);
            let transform = Transform::read(&mut bits, sides, |bits, width, height| {
                self.read_data(bits, width, height)
            })?;
            let is_same = |other: &Transform| other.kind() == transform.kind();
            if transforms.iter().any(is_same) {
                return Err(bits.damaged("it has the same transform twice"));
            }
            coded_width = transform.coded_width(coded_width);
            transforms.push(transform);
        }
        let mut coded = self.read_codes(&mut bits, coded_width, height, true)?;
        let needed = coded_width * bottom;
        memory::resize(&mut self.coded, needed + PADDING, "the pixels of a WebP")
            .map_err(no_memory)?;
        for row in &mut self.rows {
            memory::resize(row, width, "a row of a WebP").map_err(no_memory)?;
        }
        let prediction = transforms.iter().position(Transform::is_prediction);
        let [row, other] = &mut self.rows;
        for y in 0..bottom {
            let end = coded_width * (y + 1);
            if coded.at < end {
                let end = (end + READ_AT_ONCE).min(needed);
                coded.read(&mut bits, &self.tables, &mut self.coded, end)?;
            }
            // Above the window, only the prediction is undone, and what was done after it.
            let first_undone = match prediction {
                _ if y >= top => 0,
                Some(prediction) => prediction,
                None => continue,
            };
            // The columns before each transform was done, and those after the last one.
            let mut columns = [const { 0..0 }; KINDS + 1];
            columns[0] = left..right;
            for (i, transform) in transforms.iter().enumerate() {
                columns[i + 1] = transform.needed(columns[i].clone(), bottom - 1 - y);
            }
            let read = columns[transforms.len()].clone();
            row[read.clone()].copy_from_slice(&self.coded[coded_width * y..][read]);
            for (i, transform) in transforms.iter_mut().enumerate().skip(first_undone).rev() {
                transform.undo(y, columns[i].clone(), columns[i + 1].clone(), row, other);
            }
            if y >= top {
                write(&row[left..right]);
            }
        }
        Ok(())
    }

    /// Reads the pixels of an image that is the data of a transform, or the groups of prefix codes.
    fn read_data(
        &mut self,
        bits: &mut BitReader<'_>,
        width: usize,
        height: usize,
    ) -> Result<Vec<Bgra>, LosslessError> {
        let mut coded = self.read_codes(bits, width, height, false)?;
        let mut data = vec![];
        let pixels = width * height;
        memory::resize(&mut data, pixels + PADDING, "the transforms of a WebP")
            .map_err(no_memory)?;
        coded.read(bits, &self.tables, &mut data, pixels)?;
        data.truncate(pixels);
        Ok(data)
    }

    /// Reads the size of the colour cache and the prefix codes of an image; those of the main one may be different from
    /// square to square.
    fn read_codes(
        &mut self,
        bits: &mut BitReader<'_>,
        width: usize,
        height: usize,
        is_main: bool,
    ) -> Result<CodedImage, LosslessError> {
        let pixels = width * height;
        let mut coded = CodedImage { width, pixels, ..CodedImage::default() };
        coded.cache.read(bits)?;
        let mut counts = vec![1];
        let mut square = pixels;
        if is_main && bits.flag() {
            let side = 2 + bits.read(3);
            let count = |pixels: usize| pixels.div_ceil(1 << side);
            let columns = count(width);
            let data = self.read_data(bits, columns, count(height))?;
            let groups = data.iter().map(|&[_, low, high, _]| u16::from_le_bytes([low, high]));
            let groups: Vec<u16> = groups.collect();
            counts = count_groups(&groups)?;
            square = 1 << (2 * side);
            coded.squares = Some(Squares { groups, bits: side, columns });
        }
        self.tables.clear();
        memory::reserve(&mut coded.groups, counts.len(), "the prefix codes of a WebP")
            .map_err(no_memory)?;
        for squares in counts {
            let pixels = square.saturating_mul(squares as usize);
            coded.groups.push(self.tables.read_group(bits, coded.cache.len(), pixels)?);
        }
        Ok(coded)
    }
}
