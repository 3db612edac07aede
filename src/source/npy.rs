//! Arrays in NumPy's files, `.npy`.
//!
//! ```text
//! 0   \x93NUMPY            magic
//! 6   1 0 | 2 0 | 3 0      version
//! 8   u16 | u32 | u32      bytes of the header
//!     {'descr': '<f4', 'fortran_order': False, 'shape': (3, 224), }   spaces, newline
//!     elements
//! ```
//!
//! The format is from NEP 1. It is parsed here and not by a parser of Python literals: the text comes
//! from outside, and there are only three keys. Everything that `np.save` writes is accepted, with the
//! keys in any order. Refused are types of other things than numbers, and `object`, which is a pickle.
//!
//! [`parse`] returns numbers in the machine's byte order and in C order, whatever the file has. [`parse_stored`] lends
//! the elements as they are in the file, and refuses arrays in column order (`fortran_order`; there is no difference
//! for one dimension or none).

use super::dtype::{ByteOrder, NdKind};
use super::{Escaped, NdType};
use std::borrow::Cow;

/// An array in a file.
pub(crate) struct NpyArray<'a> {
    pub(crate) dtype: NdType,
    pub(crate) shape: Vec<u64>,
    pub(crate) elements: &'a [u8],
}

/// An array whose elements are in the machine's byte order and in C order.
pub(crate) struct NativeArray<'a> {
    pub(crate) dtype: NdType,
    pub(crate) shape: Vec<u64>,
    pub(crate) elements: Cow<'a, [u8]>,
}

/// Why bytes are not an array, as a sentence.
pub(crate) type NpyError = Cow<'static, str>;

/// The first bytes of a file.
const MAGIC: &[u8] = b"\x93NUMPY";

/// The most bytes of a header's text: NumPy's own limit.
const MOST_HEADER: usize = 10_000;

/// The most dimensions: NumPy's own limit.
const MOST_DIMS: usize = 64;

/// Returns whether bytes begin as a `.npy` file does.
pub(crate) fn is_npy(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// Reads the array in a `.npy` file, and brings its elements into the machine's byte order and into C order.
///
/// # Errors
///
/// If the bytes are no such file, or have elements that are no numbers.
pub(crate) fn parse(bytes: &[u8]) -> Result<NativeArray<'_>, NpyError> {
    let (NpyArray { dtype, shape, elements }, is_fortran) = parsed(bytes)?;
    let mut elements = Cow::Borrowed(elements);
    if is_fortran {
        elements = Cow::Owned(in_c_order(&elements, dtype.item_size() as usize, &shape));
    }
    let dtype = match dtype.order {
        ByteOrder::Single | ByteOrder::Little => dtype,
        ByteOrder::Big => {
            // A complex number is two floats, each of which has an order of its own.
            let parts = if dtype.kind == NdKind::Complex { 2 } else { 1 };
            let number = dtype.item_size() as usize / parts;
            elements.to_mut().chunks_exact_mut(number).for_each(<[u8]>::reverse);
            dtype.little_endian()
        }
    };
    Ok(NativeArray { dtype, shape, elements })
}

/// Copies elements whose first axis varies fastest to an order in which the last does.
fn in_c_order(elements: &[u8], item: usize, shape: &[u64]) -> Vec<u8> {
    let mut out = Vec::with_capacity(elements.len());
    let mut strides = Vec::with_capacity(shape.len());
    let mut stride = item;
    for &dim in shape {
        strides.push(stride);
        stride *= dim as usize;
    }
    let mut index = vec![0; shape.len()];
    let mut at = 0;
    // The product of the shape was compared with the bytes, so that all of this is inside of them.
    for _ in 0..elements.len() / item {
        out.extend_from_slice(&elements[at..at + item]);
        for axis in (0..shape.len()).rev() {
            index[axis] += 1;
            at += strides[axis];
            if index[axis] < shape[axis] as usize {
                break;
            }
            at -= strides[axis] * index[axis];
            index[axis] = 0;
        }
    }
    out
}

/// Returns an array of elements in C order as NumPy saves it, with format 1.0.
#[cfg(any(feature = "tar", feature = "write"))]
pub(crate) fn file(dtype: NdType, shape: &[u64], elements: &[u8]) -> Vec<u8> {
    const PREAMBLE: usize = MAGIC.len() + 4;
    let sides: String = shape.iter().map(|side| format!("{side}, ")).collect();
    let dict = format!("{{'descr': '{dtype}', 'fortran_order': False, 'shape': ({sides}), }}");
    let header = (PREAMBLE + dict.len() + 1).next_multiple_of(64);
    let mut bytes = Vec::with_capacity(header + elements.len());
    bytes.extend(MAGIC);
    bytes.extend([1, 0]);
    // A file has at most 32 dimensions of 20 digits; a user's own source may have more, which NumPy
    // itself does not support.
    bytes.extend(u16::try_from(header - PREAMBLE).unwrap_or(u16::MAX).to_le_bytes());
    bytes.extend(dict.bytes());
    bytes.resize(header - 1, b' ');
    bytes.push(b'\n');
    bytes.extend(elements);
    bytes
}

/// Reads the array in a `.npy` file without a change of its elements.
///
/// # Errors
///
/// If the bytes are no such file, have elements that are no numbers, or are in Fortran's order.
pub(crate) fn parse_stored(bytes: &[u8]) -> Result<NpyArray<'_>, NpyError> {
    match parsed(bytes)? {
        (array, false) => Ok(array),
        _ => Err(NpyError::from("an array in Fortran's order: save it with np.ascontiguousarray")),
    }
}

/// Reads the array in a `.npy` file, and whether it is in Fortran's order.
fn parsed(bytes: &[u8]) -> Result<(NpyArray<'_>, bool), NpyError> {
    let rest =
        bytes.strip_prefix(MAGIC).ok_or_else(|| NpyError::from("not a .npy or .npz file"))?;
    let short = || NpyError::from("a .npy file that ends within its header");
    let (len, rest) = match rest {
        [1, _, rest @ ..] => {
            let (len, rest) = rest.split_first_chunk::<2>().ok_or_else(short)?;
            (usize::from(u16::from_le_bytes(*len)), rest)
        }
        [2 | 3, _, rest @ ..] => {
            let (len, rest) = rest.split_first_chunk::<4>().ok_or_else(short)?;
            (usize::try_from(u32::from_le_bytes(*len)).unwrap_or(usize::MAX), rest)
        }
        _ => return Err(NpyError::from("a .npy file of an unknown version")),
    };
    if len > MOST_HEADER {
        return Err(NpyError::from(format!(
            "a .npy header of {len} bytes, the limit is {MOST_HEADER}"
        )));
    }
    let (header, elements) = rest.split_at_checked(len).ok_or_else(short)?;
    let (dtype, shape, is_fortran) = described(header)?;
    let size = shape.iter().try_fold(dtype.item_size(), |size, &dim| size.checked_mul(dim));
    if size != Some(elements.len() as u64) {
        let found = elements.len();
        return Err(NpyError::from(format!("an array of {shape:?} of {dtype} with {found} bytes")));
    }
    Ok((NpyArray { dtype, shape, elements }, is_fortran))
}

/// Parses a header's text: see the top of this file. Returns the type, the shape, and whether the first axis varies
/// fastest.
fn described(header: &[u8]) -> Result<(NdType, Vec<u64>, bool), NpyError> {
    let bad = || NpyError::from("a .npy header that is not as NumPy writes it");
    let text = std::str::from_utf8(header).map_err(|_| bad())?;
    let text = text.trim().strip_prefix('{').and_then(|text| text.strip_suffix('}'));
    let mut rest = text.ok_or_else(bad)?;
    let (mut descr, mut fortran, mut shape) = (None, None, None);
    while !rest.trim().is_empty() {
        let (key, after) = pair(rest).ok_or_else(bad)?;
        let value;
        (value, rest) = value_of(after).ok_or_else(bad)?;
        let known = match key {
            "descr" => descr.replace(value),
            "fortran_order" => fortran.replace(value),
            "shape" => shape.replace(value),
            _ => return Err(bad()),
        };
        if known.is_some() {
            return Err(bad());
        }
    }
    let dtype = dtype(descr.ok_or_else(bad)?)?;
    let shape = dims(shape.ok_or_else(bad)?).ok_or_else(bad)?;
    match fortran {
        Some("False") => Ok((dtype, shape, false)),
        Some("True") => {
            let is_fortran = shape.len() > 1;
            Ok((dtype, shape, is_fortran))
        }
        _ => Err(bad()),
    }
}

/// Splits off `'key':`, and returns the key and the rest.
fn pair(text: &str) -> Option<(&str, &str)> {
    let (key, rest) = quoted(text.trim_start())?;
    Some((key, rest.trim_start().strip_prefix(':')?))
}

/// Splits off a value up to its comma, which the last value may lack. A value is quoted, in parentheses
/// or brackets, or a word.
fn value_of(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start();
    let end = match text.as_bytes().first()? {
        b'\'' | b'"' => text.len() - quoted(text)?.1.len(),
        b'(' => text.find(')')? + 1,
        b'[' => text.rfind(']')? + 1,
        _ => text.find(',').unwrap_or(text.len()),
    };
    let (value, rest) = text.split_at(end);
    let rest = rest.trim_start();
    match rest.strip_prefix(',') {
        Some(rest) => Some((value.trim(), rest)),
        None => rest.is_empty().then_some((value.trim(), rest)),
    }
}

/// Returns the text between the quotes that a text begins with, and the rest.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let quote = text.chars().next().filter(|quote| matches!(quote, '\'' | '"'))?;
    text[1..].split_once(quote)
}

fn dtype(descr: &str) -> Result<NdType, NpyError> {
    let text = quoted(descr).map_or(descr, |(text, _)| text);
    if text.starts_with("|O") {
        return Err(NpyError::from("an array of objects is a pickle, which is never unpacked"));
    }
    let unknown =
        |_| NpyError::from(format!("an array of {}, which no tensor holds", Escaped(text)));
    text.parse().map_err(unknown)
}

fn dims(text: &str) -> Option<Vec<u64>> {
    let inside = text.strip_prefix('(')?.strip_suffix(')')?.trim();
    let inside = inside.strip_suffix(',').unwrap_or(inside);
    if inside.is_empty() {
        return Some(vec![]);
    }
    // Old versions of NumPy on 64-bit Windows wrote `3L`.
    let dim = |text: &str| text.trim().trim_end_matches('L').parse().ok();
    let dims: Vec<u64> = inside.split(',').map(dim).collect::<Option<_>>()?;
    (dims.len() <= MOST_DIMS).then_some(dims)
}
