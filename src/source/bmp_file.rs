//! BMP: the bitmaps of Windows and OS/2.
//!
//! ```text
//! "BM"  file size, 0, offset of the pixels
//! header of 12 (OS/2), 40, 52, 56, 64, 108 or 124 bytes: size, bits, compression
//! [masks of the colours]  [palette]  rows, from the last to the first unless the height is negative
//! ```
//!
//! | stored as                            | is read as                                                    |
//! |--------------------------------------|---------------------------------------------------------------|
//! | 1, 4, 8 bits                         | indices of a palette                                          |
//! | 4, 8 bits with run lengths (RLE)     | the same; pixels that no run covers have index 0              |
//! | 16 bits, 5 a colour or 5, 6 and 5    | RGB: `level * 255 / largest`, rounded down                    |
//! | 24 bits, 32 bits                     | RGB; the fourth byte counts only if a mask of alpha declares it |
//!
//! That is what Pillow's `BmpImagePlugin` reads. Other masks, and JPEGs and PNGs inside a BMP, are refused. A row that is
//! not compressed is padded to four bytes, and all rows must be in the file.

use super::still::{Still, StillFormat, cut, palette};
use fuseloop_ops::Size;

pub(super) const BMP: StillFormat = StillFormat { header, pixels, has_more: |_| false };

/// The bytes before the header.
const FILE_HEADER: usize = 14;

/// How the bytes of the pixels are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Packing {
    /// Indices of this number of bits.
    Index(u8),
    Runs4,
    Runs8,
    /// 5 bits a colour, or 6 of green.
    Words {
        has_6_bits_of_green: bool,
    },
    /// The number of bytes of a pixel, and the positions of red, green, blue and, if there are four, alpha.
    Bytes(usize, &'static [usize]),
}

/// The contents of the header.
struct Bitmap {
    size: Size,
    is_top_down: bool,
    packing: Packing,
    /// The offset of the palette, the number of its colours, and the bytes of each.
    palette: (usize, usize, usize),
    /// The offset of the pixels.
    pixels: usize,
}

fn le16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|two| u16::from_le_bytes(*two))
}

fn le32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|four| u32::from_le_bytes(*four))
}

impl Bitmap {
    fn parse(file: &[u8]) -> Result<Self, String> {
        let short = || cut("header");
        if !file.starts_with(b"BM") {
            return Err("it does not begin as a BMP".into());
        }
        let word = |at| le32(file, at).ok_or_else(short);
        let half = |at| le16(file, at).ok_or_else(short);
        let (offset, length) = (word(10)? as usize, word(14)? as usize);
        let (size, is_top_down, bits, compression, colours, colour) = match length {
            12 => {
                let size = Size::new(half(20)?.into(), half(18)?.into());
                (size, false, half(24)?, 0, 0, 3)
            }
            40 | 52 | 56 | 64 | 108 | 124 => {
                let [width, height] = [word(18)?.cast_signed(), word(22)?.cast_signed()];
                let width = u32::try_from(width).map_err(|_| format!("its width is {width}"))?;
                let size = Size::new(height.unsigned_abs(), width);
                (size, height < 0, half(28)?, word(30)?, word(46)? as usize, 4)
            }
            other => return Err(format!("its header has {other} bytes, which no kind of BMP has")),
        };
        let after = FILE_HEADER + length;
        // Masks follow a header of 40 bytes, and are the next values of longer ones.
        let masks = || -> Result<[u32; 4], String> {
            let alpha = if length >= 56 { word(66)? } else { 0 };
            Ok([word(54)?, word(58)?, word(62)?, alpha])
        };
        let packing = packing(bits, compression, masks)?;
        let has_palette = bits <= 8;
        let colours = match (has_palette, colours) {
            (true, 0) => 1 << bits,
            (true, 1..=0xffff) => colours,
            (true, _) => return Err(format!("its palette has {colours} colours")),
            (false, _) => 0,
        };
        let masks_end = if length == 40 && compression == 3 { after + 12 } else { after };
        let behind = masks_end + colours * colour;
        // Pillow corrects an offset that forgets the palette, too.
        let pixels = if offset == 0 || (has_palette && offset == after) { behind } else { offset };
        let palette = (masks_end, colours.min(256), colour);
        Ok(Self { size, is_top_down, packing, palette, pixels })
    }

    /// Returns the bytes of a row, for pixels that are not compressed.
    fn row_bytes(&self) -> Option<u64> {
        let bits: u64 = match self.packing {
            Packing::Index(bits) => bits.into(),
            Packing::Words { .. } => 16,
            Packing::Bytes(bytes, _) => 8 * bytes as u64,
            Packing::Runs4 | Packing::Runs8 => return None,
        };
        Some((u64::from(self.size.width) * bits).div_ceil(32) * 4)
    }
}

fn packing(
    bits: u16,
    compression: u32,
    masks: impl Fn() -> Result<[u32; 4], String>,
) -> Result<Packing, String> {
    const BGR: &[usize] = &[2, 1, 0];
    Ok(match (bits, compression) {
        (1 | 4 | 8, 0) => Packing::Index(bits as u8),
        (8, 1) => Packing::Runs8,
        (4, 2) => Packing::Runs4,
        (16, 0) => Packing::Words { has_6_bits_of_green: false },
        (24, 0) => Packing::Bytes(3, BGR),
        (32, 0) => Packing::Bytes(4, BGR),
        (16 | 24 | 32, 3) => match (bits, masks()?) {
            (16, [0xf800, 0x7e0, 0x1f, _]) => Packing::Words { has_6_bits_of_green: true },
            (16, [0x7c00, 0x3e0, 0x1f, _]) => Packing::Words { has_6_bits_of_green: false },
            (24, [0xff_0000, 0xff00, 0xff, _]) => Packing::Bytes(3, BGR),
            (32, [0xff_0000, 0xff00, 0xff, 0]) => Packing::Bytes(4, BGR),
            (32, [0xff00_0000, 0xff_0000, 0xff00, 0]) => Packing::Bytes(4, &[3, 2, 1]),
            (32, [0xff00_0000, 0xff00, 0xff, 0]) => Packing::Bytes(4, &[3, 1, 0]),
            (32, [0xff00_0000, 0xff_0000, 0xff00, 0xff]) => Packing::Bytes(4, &[3, 2, 1, 0]),
            (32, [0xff, 0xff00, 0xff_0000, 0xff00_0000]) => Packing::Bytes(4, &[0, 1, 2, 3]),
            (32, [0xff_0000, 0xff00, 0xff, 0xff00_0000] | [0, 0, 0, 0]) => {
                Packing::Bytes(4, &[2, 1, 0, 3])
            }
            (32, [0xff00_0000, 0xff00, 0xff, 0xff_0000]) => Packing::Bytes(4, &[3, 1, 0, 2]),
            (_, [r, g, b, a]) => {
                return Err(format!(
                    "the masks of its colours are {r:08x}, {g:08x}, {b:08x} and {a:08x}, which are not decoded"
                ));
            }
        },
        (1 | 4 | 8 | 16 | 24 | 32, _) => {
            let name = match compression {
                4 => " (JPEG)",
                5 => " (PNG)",
                _ => "",
            };
            return Err(format!(
                "its compression is {compression}{name}, which is not decoded for {bits} bits a pixel"
            ));
        }
        _ => return Err(format!("{bits} bits a pixel, expected 1, 4, 8, 16, 24 or 32")),
    })
}

fn header(file: &[u8]) -> Result<Still, String> {
    let bitmap = Bitmap::parse(file)?;
    let channels = match bitmap.packing {
        Packing::Index(_) | Packing::Runs4 | Packing::Runs8 => 1,
        Packing::Words { .. } => 3,
        Packing::Bytes(_, positions) => positions.len() as u8,
    };
    let mut still = Still::of(bitmap.size, channels);
    let (at, colours, bytes) = bitmap.palette;
    if colours > 0 {
        let stored = file.get(at..at + colours * bytes).ok_or_else(|| cut("palette"))?;
        let colour = |bgr: &[u8]| [bgr[2], bgr[1], bgr[0]];
        still.palette = Some(palette(stored.chunks_exact(bytes).map(colour)));
    }
    if let Some(row) = bitmap.row_bytes() {
        // The padding of the last row is often missing.
        let rows = row.saturating_mul(bitmap.size.height.into());
        still.least_bytes = rows.saturating_sub(3);
    }
    Ok(still)
}

fn pixels(file: &[u8], still: &Still, out: &mut [u8]) -> Result<(), String> {
    let bitmap = Bitmap::parse(file)?;
    let stored = file.get(bitmap.pixels..).ok_or_else(|| cut("pixels"))?;
    let width = still.size.width as usize;
    let out_row = width * still.pixel_bytes();
    let Some(row) = bitmap.row_bytes() else {
        expand(stored, width, bitmap.packing == Packing::Runs4, out)
            .ok_or_else(|| cut("pixels"))?;
        return reverse_rows(out, out_row, bitmap.is_top_down);
    };
    let row = usize::try_from(row).map_err(|_| cut("pixels"))?;
    for (y, out) in out.chunks_exact_mut(out_row).enumerate() {
        let y = if bitmap.is_top_down { y } else { still.size.height as usize - 1 - y };
        let stored = y.checked_mul(row).and_then(|at| stored.get(at..)).unwrap_or_default();
        let is_whole = match bitmap.packing {
            Packing::Index(bits) => indices(stored, bits, out),
            Packing::Words { has_6_bits_of_green } => words(stored, has_6_bits_of_green, out),
            Packing::Bytes(bytes, positions) => colours(stored, bytes, positions, out),
            Packing::Runs4 | Packing::Runs8 => true,
        };
        if !is_whole {
            return Err(cut("pixels"));
        }
    }
    Ok(())
}

fn reverse_rows(out: &mut [u8], row: usize, is_top_down: bool) -> Result<(), String> {
    if !is_top_down {
        let mut rows = out.chunks_exact_mut(row);
        while let (Some(first), Some(last)) = (rows.next(), rows.next_back()) {
            first.swap_with_slice(last);
        }
    }
    Ok(())
}

/// Unpacks a row of indices, the first in the upper bits. The result is false if the row is cut, as of the next two.
fn indices(stored: &[u8], bits: u8, out: &mut [u8]) -> bool {
    let (bits, of_byte) = (usize::from(bits), 8 / usize::from(bits));
    let bytes = out.len().div_ceil(of_byte);
    for (byte, out) in stored.iter().zip(out.chunks_mut(of_byte)) {
        for (place, out) in (1..).zip(out) {
            *out = byte >> (8 - place * bits) & ((1_u16 << bits) - 1) as u8;
        }
    }
    stored.len() >= bytes
}

fn words(stored: &[u8], has_6_bits_of_green: bool, out: &mut [u8]) -> bool {
    let scaled = |level: u16, largest: u16| (level * 255 / largest) as u8;
    let (green, largest) = if has_6_bits_of_green { (6, 63) } else { (5, 31) };
    let (out, stored) = (out.as_chunks_mut::<3>().0, stored.as_chunks::<2>().0);
    for (out, word) in out.iter_mut().zip(stored) {
        let word = u16::from_le_bytes(*word);
        *out = [
            scaled(word >> (5 + green) & 31, 31),
            scaled(word >> 5 & largest, largest),
            scaled(word & 31, 31),
        ];
    }
    stored.len() >= out.len()
}

fn colours(stored: &[u8], bytes: usize, positions: &[usize], out: &mut [u8]) -> bool {
    let pixels = out.len() / positions.len();
    for (pixel, out) in stored.chunks_exact(bytes).zip(out.chunks_exact_mut(positions.len())) {
        for (out, position) in out.iter_mut().zip(positions) {
            *out = pixel[*position];
        }
    }
    stored.len() / bytes >= pixels
}

/// Expands run lengths, in the order of the file's rows. The rest of a bitmap that ends early has index 0. Returns `None`
/// if the data are cut.
///
/// | bytes          | meaning                                                          |
/// |----------------|------------------------------------------------------------------|
/// | `n`, `v`       | `n` pixels of index `v`, or of its two halves in turn; of a row  |
/// | 0, 0           | the row ends                                                     |
/// | 0, 1           | the bitmap ends                                                  |
/// | 0, 2, `x`, `y` | `x + y * width` pixels of index 0                                |
/// | 0, `n`, …      | `n` indices, padded to an even number of bytes                   |
fn expand(stored: &[u8], width: usize, has_halves: bool, out: &mut [u8]) -> Option<()> {
    out.fill(0);
    let half = |byte: u8, second: bool| if second { byte & 15 } else { byte >> 4 };
    let (mut at, mut x, mut rest) = (0, 0_usize, stored);
    while at < out.len() {
        let [first, second, after @ ..] = rest else { return None };
        rest = after;
        match (*first, *second) {
            (0, 0) => (at, x) = (at.next_multiple_of(width), 0),
            (0, 1) => break,
            (0, 2) => {
                let [right, up, after @ ..] = rest else { return None };
                rest = after;
                at += usize::from(*right) + usize::from(*up) * width;
                x = at.min(out.len()) % width;
            }
            (0, count) => {
                let count = usize::from(count).min(out.len() - at);
                let bytes = if has_halves { count.div_ceil(2) } else { count };
                let (indices, after) = rest.split_at_checked(bytes)?;
                for (i, out) in out[at..at + count].iter_mut().enumerate() {
                    let byte = indices[if has_halves { i / 2 } else { i }];
                    *out = if has_halves { half(byte, i % 2 == 1) } else { byte };
                }
                (at, x) = (at + count, x + usize::from(*second));
                rest = after.get(bytes % 2..).unwrap_or_default();
            }
            (count, index) => {
                let count = usize::from(count).min(width.saturating_sub(x)).min(out.len() - at);
                for (i, out) in out[at..at + count].iter_mut().enumerate() {
                    *out = if has_halves { half(index, i % 2 == 1) } else { index };
                }
                (at, x) = (at + count, x + count);
            }
        }
    }
    Some(())
}
