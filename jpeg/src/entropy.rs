//! A block's coefficients from its bits (T.81, F.2.2).
//!
//! ```text
//! DC code, difference | AC code, value | ... | AC code, value | end        at most 63 values
//! ```
//!
//! Anything that is not a block is an error, here and in [`skip`](Codes::skip): bits that are no code,
//! more than 63 values, bits that end early. The end of the bits is noticed late, because zeros are read
//! past it: the blocks of a segment are valid only once [`Bits::is_inside`] returns true.

use crate::bits::Bits;
use crate::huffman::{CodeEntry, CodeTable, Rare};
use fuseloop_kernels::POSITIONS;

/// A component's tables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Codes<'a> {
    /// The codes of DC differences.
    pub dc: &'a CodeTable,
    /// The codes of AC coefficients.
    pub ac: &'a CodeTable,
}

impl Codes<'_> {
    /// Reads a block into `block`, which must be zeros, and adds the DC difference to `dc`.
    ///
    /// Returns the index after the last coefficient: 1 if the block is DC alone.
    #[inline(always)]
    pub(crate) fn read(
        self,
        bits: &mut Bits<'_>,
        dc: &mut i32,
        block: &mut [i16; 64],
    ) -> Option<usize> {
        add_difference(self.dc, bits, dc)?;
        block[0] = i16::try_from(*dc).ok()?;
        let store =
            |at: usize, value: i32| block[usize::from(POSITIONS[at & 63] & 63)] = value as i16;
        read_values(self.ac, bits, (1, 63), store).map(|(next, _)| next)
    }

    /// Skips a block, and adds its DC difference to `dc`.
    #[inline(always)]
    pub(crate) fn skip(self, bits: &mut Bits<'_>, dc: &mut i32) -> Option<()> {
        add_difference(self.dc, bits, dc)?;
        read_values(self.ac, bits, (1, 63), |_, _| ()).map(|_| ())
    }
}

/// Reads a DC difference with the codes of `table`, and adds it to `dc`.
#[inline(always)]
pub(crate) fn add_difference(table: &CodeTable, bits: &mut Bits<'_>, dc: &mut i32) -> Option<()> {
    bits.refill()?;
    let mut entry = table.look(bits.peek());
    if entry.run() > 0 {
        let Rare::Value(found) = table.rare(bits.peek(), entry)? else { return None };
        entry = found;
    }
    *dc = dc.wrapping_add(entry.value(bits.peek()));
    bits.consume(entry.bits());
    Some(())
}

/// Reads the coefficients from index `next` to index `last` with the codes of `table`. The caller has refilled enough
/// bits for one lookup.
///
/// Returns the index after the last coefficient that is not 0, and how many bits follow that count further blocks.
#[inline(always)]
pub(crate) fn read_values(
    table: &CodeTable,
    bits: &mut Bits<'_>,
    (mut next, last): (usize, usize),
    mut store: impl FnMut(usize, i32),
) -> Option<(usize, u32)> {
    loop {
        // The lookup runs while the refill loads further bits; these are enough for two lookups.
        let first = table.look(bits.peek());
        bits.refill()?;
        if next + first.run() > last {
            match rare(table, bits, first, (&mut next, last), &mut store)? {
                None => continue,
                Some(end_bits) => return Some((next, end_bits)),
            }
        }
        take(bits, first, &mut next, &mut store);
        let second = table.look(bits.peek());
        if next + second.run() > last {
            match rare(table, bits, second, (&mut next, last), &mut store)? {
                None => continue,
                Some(end_bits) => return Some((next, end_bits)),
            }
        }
        take(bits, second, &mut next, &mut store);
    }
}

/// Reads a code that a lookup does not resolve, or whose value would lie behind `last`. Needs at
/// least 32 valid bits, and leaves enough for one lookup. If the block ends, returns how many bits follow that count
/// further blocks.
#[inline(always)]
fn rare(
    table: &CodeTable,
    bits: &mut Bits<'_>,
    entry: CodeEntry,
    (next, last): (&mut usize, usize),
    store: &mut impl FnMut(usize, i32),
) -> Option<Option<u32>> {
    if *next > last {
        return Some(Some(0));
    }
    if entry.is_end() {
        bits.consume(entry.bits());
        return Some(Some(entry.end_bits()));
    }
    match table.rare(bits.peek(), entry)? {
        Rare::Value(found) if *next + found.run() <= last => take(bits, found, next, store),
        Rare::Zeros(found) if *next + 16 <= last => {
            bits.consume(found.bits());
            *next += 16;
        }
        Rare::End(found) => {
            bits.consume(found.bits());
            return Some(Some(found.end_bits()));
        }
        _ => return None,
    }
    bits.refill()?;
    Some(None)
}

/// Stores a value and skips its bits.
#[inline(always)]
fn take(
    bits: &mut Bits<'_>,
    entry: CodeEntry,
    next: &mut usize,
    store: &mut impl FnMut(usize, i32),
) {
    *next += entry.run();
    store(*next, entry.value(bits.peek()));
    bits.consume(entry.bits());
    *next += 1;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bits::{BitPosition, unstuff};
    use crate::huffman::TableKind;

    /// DC sizes 0, 1, 2 as `00`, `01`, `10`; AC end, 0/1, 3/2, sixteen zeros as `00`, `01`, `100`,
    /// `101`.
    fn tables() -> (CodeTable, CodeTable) {
        let mut dc = [0; 16];
        dc[1] = 3;
        let mut ac = [0; 16];
        (ac[1], ac[2]) = (2, 2);
        let dc = CodeTable::new(TableKind::Dc, &dc, &[0, 1, 2]).unwrap();
        (dc, CodeTable::new(TableKind::Ac, &ac, &[0, 0x01, 0x32, 0xf0]).unwrap())
    }

    /// Reads a block of `code`, and skips it: returns the block, its length and the DC value.
    fn read(code: &str) -> Option<([i16; 64], usize, i32)> {
        let code: Vec<char> = code.chars().filter(|c| *c != ' ').collect();
        let coded: Vec<u8> = code
            .chunks(8)
            .map(|bits| {
                bits.iter().enumerate().map(|(i, bit)| u8::from(*bit == '1') << (7 - i)).sum()
            })
            .collect();
        let mut bytes = Vec::new();
        unstuff(&coded, &mut bytes).unwrap();
        let (dc, ac) = tables();
        let codes = Codes { dc: &dc, ac: &ac };
        let mut bits = Bits::new(&bytes, BitPosition::default());
        let mut passing = bits;
        let (mut sum, mut other) = (100, 100);
        let mut block = [0; 64];
        let length = codes.read(&mut bits, &mut sum, &mut block);
        assert_eq!(codes.skip(&mut passing, &mut other).is_some(), length.is_some());
        if length.is_some() {
            assert_eq!((passing.is_inside(), other), (bits.is_inside(), sum));
        }
        bits.is_inside().then_some((block, length?, sum))
    }

    #[test]
    fn a_block_is_read_in_the_order_of_the_zigzag() {
        let mut expected = [0; 64];
        (expected[0], expected[POSITIONS[1] as usize], expected[POSITIONS[5] as usize]) =
            (97, 1, -2);
        assert_eq!(
            read("10 00, 01 1, 100 01, 00".replace(',', "").as_str()),
            Some((expected, 6, 97))
        );
        let mut expected = [0; 64];
        expected[0] = 100;
        assert_eq!(read("00 00"), Some((expected, 1, 100)));
        (expected[POSITIONS[17] as usize], expected[POSITIONS[34] as usize]) = (-1, 1);
        assert_eq!(read("00 101 01 0 101 01 1 00"), Some((expected, 35, 100)));
    }

    #[test]
    fn a_full_block_needs_no_end() {
        let (block, length, _) = read(&("00 ".to_string() + &"01 1".repeat(63))).unwrap();
        assert_eq!((length, block[1..].iter().all(|&value| value == 1)), (64, true));
    }

    #[test]
    fn what_is_no_block_is_refused() {
        assert_eq!(read("11"), None, "no DC code");
        assert_eq!(read("00 11"), None, "no AC code");
        assert_eq!(read(&("00".to_string() + &"011".repeat(60) + "100 11")), None, "too many");
        assert_eq!(read(&("00".to_string() + &"101".repeat(4))), None, "too many zeros");
        assert_eq!(read("00 011 011"), None, "bits end");
        assert_eq!(read(""), None, "no bits");
    }
}
