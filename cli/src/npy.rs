//! Writes NumPy's `.npy` files, version 1.0 (numpy/lib/format.py): a header and the elements in C order.
//!
//! ```text
//! 0   6   b"\x93NUMPY"
//! 6   2   1, 0
//! 8   2   bytes of the header, little-endian
//! 10  ..  {'descr': '<f4', 'fortran_order': False, 'shape': (64, 3, 224, 224), }
//!         spaces and a line feed, so that the elements begin at a multiple of 64
//! ```
//!
//! NumPy has no bf16: it is stored as its 16 bits, `<u2`.

use fuseloop::ops::DType;

/// Returns the bytes before the elements of an array of `shape`.
pub(super) fn header(dtype: DType, shape: &[usize]) -> Vec<u8> {
    const PREAMBLE: usize = 10;
    let sides: String = shape.iter().map(|side| format!("{side}, ")).collect();
    let descr = descr(dtype);
    let dict = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({sides}), }}");
    let total = (PREAMBLE + dict.len() + 1).next_multiple_of(64);
    let length = u16::try_from(total - PREAMBLE).expect("a tensor has few dimensions");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend(length.to_le_bytes());
    bytes.extend(dict.bytes());
    bytes.resize(total - 1, b' ');
    bytes.push(b'\n');
    bytes
}

/// Returns NumPy's name of the type, in this machine's byte order.
fn descr(dtype: DType) -> String {
    let order = match dtype {
        DType::U8 => '|',
        _ if cfg!(target_endian = "big") => '>',
        _ => '<',
    };
    let kind = match dtype {
        DType::U8 => "u1",
        DType::U16 | DType::Bf16 => "u2",
        DType::I16 => "i2",
        DType::I32 => "i4",
        DType::I64 => "i8",
        DType::F16 => "f2",
        DType::F32 => "f4",
        DType::F64 => "f8",
        other => unreachable!("{other} has no NumPy name here"),
    };
    format!("{order}{kind}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_as_numpy_reads_them() {
        let bytes = header(DType::F32, &[64, 3, 224, 224]);
        assert_eq!(bytes.len(), 128);
        let text = "{'descr': '<f4', 'fortran_order': False, 'shape': (64, 3, 224, 224, ), }";
        assert!(bytes[10..].starts_with(text.as_bytes()));
        assert_eq!((&bytes[..10], bytes[127]), (&b"\x93NUMPY\x01\x00\x76\x00"[..], b'\n'));
        assert!(header(DType::U16, &[2]).windows(15).any(|w| w == b"{'descr': '<u2'"));
        assert!(header(DType::I64, &[]).windows(4).any(|w| w == b"(), "));
    }
}
