//! The pixels of an entropy-coded image (RFC 9649, sections 3.6 and 5): colours, copies of pixels before, and colours of the
//! cache.
//!
//! | symbol of green | meaning                                                                               |
//! |-----------------|---------------------------------------------------------------------------------------|
//! | 0..256          | a pixel: this green; red, blue and alpha follow                                       |
//! | 256..280        | a length: that many pixels are copied from a distance, which follows                     |
//! | 280..           | a pixel of the colour cache, which has the last pixel of each value of a hash           |
//!
//! Distances of 1 to 120 are codes of the nearest pixels, those in the rows above and to the left in the same row. Larger ones
//! are 120 more than the number of pixels.

use crate::LosslessError;
use crate::bits::BitReader;
use crate::prefix::{COLORS, Group, LENGTHS, MISS, NO_COLOR, Tables};
use fuseloop_kernels::vp8l::Bgra;
use fuseloop_kernels::{CpuWork, for_cpu};
use fuseloop_ops::internals::memory;

/// The pixels that a copy may write after its last one.
pub(crate) const PADDING: usize = 8;

/// The part of an image that a missing byte is in.
const PART: &str = "its pixels";

/// The distances of codes from 1 on, as columns to the left and rows above: the nearest ones first, of equal ones those of
/// fewer columns, and those to the left before those to the right.
const NEAR: [(i8, i8); 120] = {
    let mut near = [(0, 0); 120];
    let (mut square, mut count) = (1, 0);
    while count < near.len() {
        let mut columns = 0;
        while columns <= 8 {
            let mut rows = 0;
            while rows < 8 {
                if columns * columns + rows * rows == square {
                    near[count] = (columns as i8, rows as i8);
                    count += 1;
                    if columns > 0 && columns < 8 && rows > 0 {
                        near[count] = (-columns as i8, rows as i8);
                        count += 1;
                    }
                }
                rows += 1;
            }
            columns += 1;
        }
        square += 1;
    }
    near
};

/// The last pixel of each value of a hash.
#[derive(Debug, Default)]
pub(crate) struct ColorCache {
    /// None if the image has no cache.
    colors: Vec<Bgra>,
    shift: u32,
}

impl ColorCache {
    /// Reads the size of the cache, and empties it.
    pub(crate) fn read(&mut self, bits: &mut BitReader<'_>) -> Result<(), LosslessError> {
        self.colors.clear();
        if bits.flag() {
            let log = bits.read(4);
            if log == 0 || log > 11 {
                return Err(bits.damaged("its colour cache does not have 2 to 2048 colours"));
            }
            self.colors.resize(1 << log, [0; 4]);
            self.shift = 32 - log;
        }
        Ok(())
    }

    pub(crate) fn len(&self) -> usize {
        self.colors.len()
    }

    #[inline(always)]
    fn insert(&mut self, pixel: Bgra) {
        let hash = u32::from_le_bytes(pixel).wrapping_mul(0x1e35_a7bd) >> self.shift;
        self.colors[hash as usize] = pixel;
    }
}

/// The groups of prefix codes by squares of pixels.
#[derive(Debug, Default)]
pub(crate) struct Squares {
    /// The group of each square.
    pub(crate) groups: Vec<u16>,
    /// The logarithm of the side of a square.
    pub(crate) bits: u32,
    /// The squares of a row.
    pub(crate) columns: usize,
}

/// An image whose prefix codes are read, and whose pixels are not, or not all.
#[derive(Debug, Default)]
pub(crate) struct CodedImage {
    pub(crate) width: usize,
    /// The pixels of the whole image.
    pub(crate) pixels: usize,
    pub(crate) groups: Vec<Group>,
    /// `None` if there is one group.
    pub(crate) squares: Option<Squares>,
    pub(crate) cache: ColorCache,
    /// The pixels that are read.
    pub(crate) at: usize,
}

impl CodedImage {
    /// Reads pixels until there are `end` of them, or a few more. `out` has the pixels that may be needed, and
    /// [`PADDING`].
    pub(crate) fn read(
        &mut self,
        bits: &mut BitReader<'_>,
        tables: &Tables,
        out: &mut [Bgra],
        end: usize,
    ) -> Result<(), LosslessError> {
        let found = if self.cache.len() > 0 {
            for_cpu(Pixels::<true> { image: self, bits, tables, out, end })
        } else {
            for_cpu(Pixels::<false> { image: self, bits, tables, out, end })
        };
        bits.check(PART)?;
        found
    }
}

/// The work of [`CodedImage::read`].
struct Pixels<'a, 'b, const HAS_CACHE: bool> {
    image: &'a mut CodedImage,
    bits: &'a mut BitReader<'b>,
    tables: &'a Tables,
    out: &'a mut [Bgra],
    end: usize,
}

impl<const HAS_CACHE: bool> CpuWork for Pixels<'_, '_, HAS_CACHE> {
    type Output = Result<(), LosslessError>;

    #[inline(always)]
    fn run(self) -> Result<(), LosslessError> {
        let Self { image, bits: reader, tables, out, end } = self;
        let mut bits = *reader;
        let (width, mut at) = (image.width, image.at);
        let (mut y, mut x) = (at / width, at % width);
        while at < end {
            let (group, span) = match &image.squares {
                None => (0, end - at),
                Some(squares) => {
                    let column = x >> squares.bits;
                    let group = squares.groups[(y >> squares.bits) * squares.columns + column];
                    (usize::from(group), ((column + 1) << squares.bits).min(width) - x)
                }
            };
            let group = &image.groups[group];
            let span_end = (at + span).min(end);
            let before = at;
            let result = read_span::<HAS_CACHE>(Span {
                bits: &mut bits,
                group,
                tables,
                cache: &mut image.cache,
                out,
                at: &mut at,
                end: span_end,
                width,
                pixels: image.pixels,
            });
            if result.is_err() {
                *reader = bits;
                return result;
            }
            x += at - before;
            while x >= width {
                (x, y) = (x - width, y + 1);
            }
        }
        image.at = at;
        *reader = bits;
        Ok(())
    }
}

/// Pixels of one group.
struct Span<'a, 'b> {
    bits: &'a mut BitReader<'b>,
    group: &'a Group,
    tables: &'a Tables,
    cache: &'a mut ColorCache,
    out: &'a mut [Bgra],
    at: &'a mut usize,
    end: usize,
    width: usize,
    pixels: usize,
}

#[inline(always)]
fn read_span<const HAS_CACHE: bool>(span: Span<'_, '_>) -> Result<(), LosslessError> {
    let Span { bits: reader, group, tables, cache, out, at: place, end, width, pixels } = span;
    let (green, rest) = (tables.of(group.green), tables.of(group.rest));
    let (mut bits, mut at) = (*reader, *place);
    let mut is_inside = true;
    while at < end {
        bits.fill();
        let mut entry = green.first(&bits);
        if entry >= NO_COLOR {
            entry = green.last(entry, &mut bits);
        }
        bits.skip(entry & 0xff);
        if entry < NO_COLOR {
            let mut others = rest.first(&bits);
            if others & MISS == 0 {
                bits.skip(others & 0xff);
            } else {
                others = read_others(&mut bits, tables, group);
            }
            let number = others & 0xffff_0000 | (entry >> 16) << 8 | others >> 8 & 0xff;
            let pixel = number.to_le_bytes();
            out[at] = pixel;
            at += 1;
            if HAS_CACHE {
                cache.insert(pixel);
            }
            continue;
        }
        let symbol = (entry >> 16) as usize - COLORS;
        if symbol >= LENGTHS {
            if let Some(&pixel) = cache.colors.get(symbol - LENGTHS) {
                out[at] = pixel;
                at += 1;
                // It is there already, unless the place was empty: black and transparent then goes to the place of its hash.
                cache.insert(pixel);
            }
            continue;
        }
        let length = prefixed(symbol as u32, &mut bits);
        let code = tables.of(group.distance).symbol(&mut bits);
        bits.fill();
        let distance = distance(prefixed(code, &mut bits), width);
        if distance > at || length > pixels - at {
            is_inside = false;
            break;
        }
        let last = (at + length).min(out.len() - PADDING);
        copy(out, at, distance, last);
        if HAS_CACHE && distance > 1 {
            for &pixel in &out[at..last] {
                cache.insert(pixel);
            }
        }
        at = last;
    }
    (*reader, *place) = (bits, at);
    if !is_inside {
        return Err(
            reader.damaged("it copies pixels from before its first or to beyond its last one")
        );
    }
    Ok(())
}

/// Reads red, blue and alpha one after the other. Returns them as an entry of [`Group::rest`].
#[inline(always)]
fn read_others(bits: &mut BitReader<'_>, tables: &Tables, group: &Group) -> u32 {
    let red = tables.of(group.red).symbol(bits);
    let blue = tables.of(group.blue).symbol(bits);
    bits.fill();
    let alpha = tables.of(group.alpha).symbol(bits);
    alpha << 24 | red << 16 | blue << 8
}

/// Reads the bits that follow the symbol of a length or a distance: up to 18.
#[inline(always)]
fn prefixed(symbol: u32, bits: &mut BitReader<'_>) -> usize {
    if symbol < 4 {
        return symbol as usize + 1;
    }
    let count = (symbol - 2) >> 1;
    let first = (2 + (symbol & 1)) << count;
    (first + bits.take(count)) as usize + 1
}

/// Returns the distance of a code.
#[inline(always)]
fn distance(code: usize, width: usize) -> usize {
    let Some(&(columns, rows)) = NEAR.get(code - 1) else { return code - NEAR.len() };
    (width * rows as usize).saturating_add_signed(columns.into()).max(1)
}

/// Copies pixels to `from..to` from `distance` before. Writes up to [`PADDING`] pixels more.
#[inline(always)]
fn copy(out: &mut [Bgra], from: usize, distance: usize, to: usize) {
    if distance >= PADDING {
        let mut at = from;
        while at < to {
            let eight: [Bgra; PADDING] =
                std::array::from_fn(|i| out[at - distance..][..PADDING][i]);
            out[at..][..PADDING].copy_from_slice(&eight);
            at += PADDING;
        }
    } else if distance == 1 {
        let pixel = out[from - 1];
        out[from..to].fill(pixel);
    } else {
        for at in from..to {
            out[at] = out[at - distance];
        }
    }
}

/// Returns the number of squares of each group.
pub(crate) fn count_groups(groups: &[u16]) -> Result<Vec<u32>, LosslessError> {
    let most = groups.iter().max().map_or(0, |&group| usize::from(group) + 1);
    let what = "the groups of prefix codes of a WebP";
    let mut counts = memory::with_capacity(most, what)
        .map_err(|error| LosslessError::NoMemory { bytes: error.bytes })?;
    counts.resize(most, 0);
    for &group in groups {
        counts[usize::from(group)] += 1;
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_distances_are_those_of_the_standard() {
        // The first and the last ones of its table, and one of the middle.
        assert_eq!(NEAR[..8], [(0, 1), (1, 0), (1, 1), (-1, 1), (0, 2), (2, 0), (1, 2), (-1, 2)]);
        assert_eq!(NEAR[34..40], [(0, 5), (3, 4), (-3, 4), (4, 3), (-4, 3), (5, 0)]);
        assert_eq!(NEAR[115..], [(8, 5), (7, 7), (-7, 7), (8, 6), (8, 7)]);
        assert_eq!([1, 2, 4, 120, 121, 200].map(|code| distance(code, 10)), [10, 1, 9, 78, 1, 80]);
        assert_eq!(distance(4, 1), 1, "a distance of 0 is 1");
    }

    #[test]
    fn copies_repeat_their_own_pixels() {
        for distance in 1..20 {
            for length in 1..40 {
                let mut out: Vec<Bgra> = (0..80).map(|i| [i, 0, 0, 0]).collect();
                let mut want = out.clone();
                copy(&mut out, 25, distance, 25 + length);
                for at in 25..25 + length {
                    want[at] = want[at - distance];
                }
                assert_eq!(out[..25 + length], want[..25 + length], "{length} from {distance}");
            }
        }
    }
}
