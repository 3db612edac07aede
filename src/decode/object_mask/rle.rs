//! Runs of a mask: their lengths down the columns, the first of zeros.
//!
//! Compressed, each length from the fourth on is the difference to the one two before. A number has five bits
//! in a character, the low ones first: `48 + bits`, and 32 more if another character follows. Bit 4 of the
//! last character is the sign.

use super::raster::Raster;
use crate::error::{Error, fail};
use crate::source::column_runs;
use fuseloop_ops::Size;

/// The bits of a number in one character.
const BITS: i64 = 0x1f;

/// The flag of a character that is not a number's last.
const MORE: i64 = 0x20;

/// The sign in the bits of a number's last character.
const SIGN: i64 = 0x10;

/// The character of no bits.
const ZERO: u8 = b'0';

/// The most characters of a number: 35 bits hold the difference of any two lengths.
const MOST_CHARACTERS: usize = 7;

/// The runs of a mask, as many pixels as it has.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Runs {
    size: Size,
    counts: Vec<u32>,
}

impl Runs {
    pub(super) fn new(size: Size, counts: Vec<u32>) -> Result<Self, Error> {
        let found: u64 = counts.iter().map(|&count| u64::from(count)).sum();
        if found != size.pixels() {
            let expected = size.pixels();
            return Err(fail!(
                Damaged,
                "the runs have {found} pixels, a mask of {size} has {expected}"
            ));
        }
        Ok(Self { size, counts })
    }

    /// Finds the runs of a mask with one byte for each pixel.
    pub(super) fn encode(pixels: &[u8], size: Size) -> Result<Self, Error> {
        if size.pixels() > u64::from(u32::MAX) {
            return Err(too_large(size));
        }
        Ok(Self { size, counts: column_runs(pixels, size) })
    }

    pub(super) fn check_size(&self, expected: Size) -> Result<(), Error> {
        let found = self.size;
        if found == expected {
            return Ok(());
        }
        Err(fail!(Damaged, "the mask is {found}, the image is {expected}"))
    }

    /// Toggles the pixels at which the runs of ones begin and end, in each column.
    pub(super) fn toggle(&self, raster: &mut Raster<'_>) {
        let height = u64::from(self.size.height);
        for (start, end) in self.inside() {
            for column in start / height..end.div_ceil(height) {
                let top = column * height;
                raster.toggle(column as u32, (start.max(top) - top) as u32);
                raster.toggle(column as u32, (end.min(top + height) - top) as u32);
            }
        }
    }

    pub(super) fn area(&self) -> u64 {
        self.inside().map(|(start, end)| end - start).sum()
    }

    pub(super) fn bounding_box(&self) -> [u32; 4] {
        let height = u64::from(self.size.height);
        let (mut columns, mut rows) = ((u64::MAX, 0), (u64::MAX, 0));
        for (start, end) in self.inside() {
            let (first, last) = (start / height, (end - 1) / height);
            let spans = first != last;
            let (top, bottom) =
                if spans { (0, height - 1) } else { (start % height, (end - 1) % height) };
            columns = (columns.0.min(first), columns.1.max(last));
            rows = (rows.0.min(top), rows.1.max(bottom));
        }
        if columns.0 == u64::MAX {
            return [0; 4];
        }
        let [x, y] = [columns.0, rows.0];
        [x, y, columns.1 - x + 1, rows.1 - y + 1].map(|value| value as u32)
    }

    /// Returns where each run of ones begins and ends, counted down the columns.
    fn inside(&self) -> impl Iterator<Item = (u64, u64)> {
        let mut end = 0;
        let runs = self.counts.iter().enumerate().map(move |(index, &count)| {
            let start = end;
            end += u64::from(count);
            (index % 2 == 1, start, end)
        });
        runs.filter_map(|(is_inside, start, end)| {
            (is_inside && start < end).then_some((start, end))
        })
    }

    /// Returns the lengths as a text.
    pub(super) fn compressed(&self) -> String {
        let mut text = String::new();
        for (index, &count) in self.counts.iter().enumerate() {
            let mut left = i64::from(count);
            if index > 2 {
                left -= i64::from(self.counts[index - 2]);
            }
            loop {
                let bits = left & BITS;
                left >>= 5;
                let is_last = left == if bits & SIGN == 0 { 0 } else { -1 };
                let flag = if is_last { 0 } else { MORE };
                text.push(char::from(ZERO + (bits | flag) as u8));
                if is_last {
                    break;
                }
            }
        }
        text
    }
}

/// Returns the error of a mask that is too large for the lengths of runs, which have 32 bits.
pub(super) fn too_large(size: Size) -> Error {
    fail!(Damaged, "{size} is {} pixels, the limit is {}", size.pixels(), u32::MAX)
}

/// Reads the lengths from a text.
pub(super) fn uncompressed(text: &[u8]) -> Result<Vec<u32>, Error> {
    let mut counts: Vec<u32> = vec![];
    let mut at = 0;
    while at < text.len() {
        let start = at;
        let error = |offset: usize, reason: &str| {
            fail!(Damaged, "`counts` is damaged at byte {offset}: {reason}")
        };
        let mut number = 0;
        for index in 0.. {
            let Some(character) = text.get(at) else {
                return Err(error(at, "the text ends inside a number"));
            };
            let bits = i64::from(character.wrapping_sub(ZERO));
            if bits > BITS | MORE {
                return Err(error(at, "expected a character from `0` to `o`"));
            }
            if index == MOST_CHARACTERS {
                return Err(error(start, "a number of more than 35 bits"));
            }
            number |= (bits & BITS) << (5 * index);
            at += 1;
            if bits & MORE == 0 {
                if bits & SIGN != 0 {
                    number |= -1 << (5 * (index + 1));
                }
                break;
            }
        }
        if counts.len() > 2 {
            number += i64::from(counts[counts.len() - 2]);
        }
        let count = u32::try_from(number);
        counts.push(count.map_err(|_| error(start, "a length outside 0..=4294967295"))?);
    }
    Ok(counts)
}
