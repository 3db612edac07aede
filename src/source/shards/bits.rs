//! Numbers in few bits: one after another, or as a column from which any can be read.
//!
//! | number | bytes                                                                                         |
//! |--------|-----------------------------------------------------------------------------------------------|
//! | varint | 7 bits a byte, the lowest first; the high bit says that another byte follows (LEB128)          |
//! | signed | a varint of `(n << 1) ^ (n >> 63)`                                                            |
//! | column | width 1 B; the smallest value, signed; then of each value the distance to it in `width` bits, the lowest first |
//!
//! Nothing is read beyond the bytes that there are, whatever they claim.

/// Appends a varint.
pub(in crate::source) fn put_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn put_signed(value: i64, out: &mut Vec<u8>) {
    put_varint(((value << 1) ^ (value >> 63)).cast_unsigned(), out);
}

/// Appends a length and the bytes.
pub(in crate::source) fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    put_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// Returns the width and the smallest value of a column. Values are compared as signed numbers.
fn frame(values: &[u64]) -> (u32, i64) {
    let signed = || values.iter().map(|value| value.cast_signed());
    let (least, most) = (signed().min().unwrap_or(0), signed().max().unwrap_or(0));
    (u64::BITS - most.wrapping_sub(least).cast_unsigned().leading_zeros(), least)
}

/// Returns the number of bits of each value in a column of these values.
pub(super) fn width(values: &[u64]) -> u32 {
    frame(values).0
}

/// Appends a column.
pub(super) fn put_column(values: &[u64], out: &mut Vec<u8>) {
    let (width, least) = frame(values);
    out.push(width as u8);
    put_signed(least, out);
    let (mut held, mut bits) = (0_u128, 0);
    for value in values.iter().filter(|_| width > 0) {
        held |= u128::from(value.wrapping_sub(least.cast_unsigned())) << bits;
        bits += width;
        while bits >= 8 {
            out.push(held as u8);
            held >>= 8;
            bits -= 8;
        }
    }
    if bits > 0 {
        out.push(held as u8);
    }
}

/// Takes the next byte.
pub(super) fn take_byte(rest: &mut &[u8]) -> Option<u8> {
    let (&first, tail) = rest.split_first()?;
    *rest = tail;
    Some(first)
}

/// Takes the next `count` bytes.
pub(in crate::source) fn take<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (head, tail) = rest.split_at_checked(count)?;
    *rest = tail;
    Some(head)
}

/// Takes the next `N` bytes.
pub(in crate::source) fn take_array<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (head, tail) = rest.split_first_chunk()?;
    *rest = tail;
    Some(*head)
}

/// Takes a varint.
pub(in crate::source) fn take_varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let byte = take_byte(rest)?;
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 {
            return None;
        }
        value |= bits << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// Takes a varint that counts something in memory.
pub(in crate::source) fn take_count(rest: &mut &[u8]) -> Option<usize> {
    usize::try_from(take_varint(rest)?).ok()
}

/// Takes bytes behind their length.
pub(in crate::source) fn take_bytes<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let count = take_count(rest)?;
    take(rest, count)
}

/// A column of numbers, any of which can be read.
#[derive(Clone, Copy)]
pub(super) struct Column<'a> {
    /// The bits of the values, and what follows them.
    bits: &'a [u8],
    width: usize,
    least: u64,
}

impl<'a> Column<'a> {
    /// Takes a column of `count` values.
    pub(super) fn take(rest: &mut &'a [u8], count: usize) -> Option<Self> {
        let width = usize::from(take_byte(rest)?);
        let signed = take_varint(rest)?;
        let least = (signed >> 1) ^ (signed & 1).wrapping_neg();
        if width > 64 {
            return None;
        }
        let bits = *rest;
        take(rest, count.checked_mul(width)?.div_ceil(8))?;
        Some(Self { bits, width, least })
    }

    /// Returns a value. Beyond the column's count it may be any number.
    #[inline]
    pub(super) fn get(&self, index: usize) -> u64 {
        if self.width == 0 {
            return self.least;
        }
        let bit = index.saturating_mul(self.width);
        let (rest, shift) = (self.bits.get(bit / 8..).unwrap_or_default(), bit % 8);
        let bits = match rest.first_chunk() {
            Some(window) if shift + self.width <= 64 => u64::from_le_bytes(*window) >> shift,
            _ => wide(rest, shift),
        };
        self.least.wrapping_add(bits & (u64::MAX >> (64 - self.width)))
    }
}

/// Returns the 64 bits behind `shift` bits, with zeros beyond the end.
fn wide(rest: &[u8], shift: usize) -> u64 {
    let mut window = [0; size_of::<u128>()];
    let count = rest.len().min(window.len());
    window[..count].copy_from_slice(&rest[..count]);
    (u128::from_le_bytes(window) >> shift) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_read_back() {
        for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut bytes = vec![];
            put_varint(value, &mut bytes);
            let mut rest = &bytes[..];
            assert_eq!((take_varint(&mut rest), rest.len()), (Some(value), 0));
            assert_eq!(take_varint(&mut &bytes[..bytes.len() - 1]), None);
        }
        assert_eq!(take_varint(&mut &[0xff; 9][..]), None);
        let over = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2];
        assert_eq!(take_varint(&mut &over[..]), None);
    }

    #[test]
    fn columns_read_back_at_any_width() {
        let mut state = 7_u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state
        };
        for width in 0..=64_u32 {
            for count in [0, 1, 2, 7, 8, 9, 63, 130] {
                let mask = u64::MAX.checked_shr(64 - width).unwrap_or(0);
                let base = random();
                let values: Vec<u64> =
                    (0..count).map(|_| base.wrapping_add(random().rotate_left(9) & mask)).collect();
                let mut bytes = vec![];
                put_column(&values, &mut bytes);
                let size = bytes.len();
                bytes.extend([0xaa; 3]);
                let mut rest = &bytes[..];
                let column = Column::take(&mut rest, count).unwrap();
                assert_eq!(rest, [0xaa; 3]);
                let read: Vec<u64> = (0..count).map(|index| column.get(index)).collect();
                assert_eq!(read, values, "{width} bits");
                for cut in 0..size {
                    assert!(Column::take(&mut &bytes[..cut], count).is_none());
                }
                let _ = column.get(usize::MAX);
            }
        }
    }
}
