//! Arrays in NumPy's files: `.npy`, and `.npz`, which is a zip file of `.npy` files.
//!
//! ```text
//! 0   \x93NUMPY            magic
//! 6   1 0 | 2 0 | 3 0      version
//! 8   u16 | u32 | u32      bytes of the header
//!     {'descr': '<f4', 'fortran_order': False, 'shape': (3, 224), }   spaces, newline
//!     elements, in C order
//! ```
//!
//! The format is from NEP 1. It is parsed here and not by a parser of Python literals: the text comes
//! from outside, and there are only three keys. Everything that `np.save` writes is accepted, with the
//! keys in any order. Refused are arrays in column order (`fortran_order`; there is no difference for
//! one dimension or none), dtypes that no tensor holds, and `object`, which is a pickle.

use super::ColumnError;
#[cfg(not(feature = "tables"))]
use crate::source::feature::NeedsFeature;
use crate::source::{Escaped, NdType};
use std::borrow::Cow;
#[cfg(feature = "tables")]
use std::io::{Cursor, Read};

/// An array in a file.
pub(super) struct Array<'a> {
    pub(super) dtype: NdType,
    pub(super) shape: Vec<u64>,
    pub(super) elements: Cow<'a, [u8]>,
}

/// The first bytes of a `.npy` file.
const MAGIC: &[u8] = b"\x93NUMPY";

/// The most bytes of a header's text: NumPy's own limit.
const MOST_HEADER: usize = 10_000;

/// The most dimensions: NumPy's own limit.
const MOST_DIMS: usize = 64;

impl<'a> Array<'a> {
    /// Reads the array in a `.npy`; in a `.npz` its only array, or the array called `inside`. An array
    /// in a `.npz` may unpack to `most` bytes at most.
    pub(super) fn parse(
        bytes: &'a [u8],
        inside: Option<&str>,
        most: u64,
    ) -> Result<Self, ColumnError> {
        if !bytes.starts_with(b"PK") {
            return npy(bytes);
        }
        let mut file = unpacked(bytes, inside, most)?;
        let Array { dtype, shape, elements } = npy(&file)?;
        let header = file.len() - elements.len();
        file.drain(..header);
        Ok(Self { dtype, shape, elements: Cow::Owned(file) })
    }
}

/// The type, the shape and the elements of an array.
type NpyArray<'a> = (NdType, Vec<u64>, &'a [u8]);

/// Returns the array of a `.npy` file; `None` if the bytes are no such file.
///
/// # Errors
///
/// If the file is damaged, or has elements that no tensor holds. The error is a sentence for people.
pub(crate) fn npy_array(bytes: &[u8]) -> Option<Result<NpyArray<'_>, String>> {
    bytes.starts_with(MAGIC).then(|| match npy(bytes) {
        Ok(Array { dtype, shape, elements: Cow::Borrowed(elements) }) => {
            Ok((dtype, shape, elements))
        }
        Ok(_) => unreachable!("nothing is packed in a .npy file"),
        Err(error) => Err(error.to_string()),
    })
}

fn wrong(message: impl Into<Cow<'static, str>>) -> ColumnError {
    ColumnError::Array(message.into())
}

fn npy(bytes: &[u8]) -> Result<Array<'_>, ColumnError> {
    let rest = bytes.strip_prefix(MAGIC).ok_or_else(|| wrong("not a .npy or .npz file"))?;
    let short = || wrong("a .npy file that ends within its header");
    let (len, rest) = match rest {
        [1, _, rest @ ..] => {
            let (len, rest) = rest.split_first_chunk::<2>().ok_or_else(short)?;
            (usize::from(u16::from_le_bytes(*len)), rest)
        }
        [2 | 3, _, rest @ ..] => {
            let (len, rest) = rest.split_first_chunk::<4>().ok_or_else(short)?;
            (usize::try_from(u32::from_le_bytes(*len)).unwrap_or(usize::MAX), rest)
        }
        _ => return Err(wrong("a .npy file of an unknown version")),
    };
    if len > MOST_HEADER {
        return Err(wrong(format!("a .npy header of {len} bytes, the limit is {MOST_HEADER}")));
    }
    let (header, elements) = rest.split_at_checked(len).ok_or_else(short)?;
    let (dtype, shape) = described(header)?;
    let size = shape.iter().try_fold(dtype.item_size(), |size, &dim| size.checked_mul(dim));
    if size != Some(elements.len() as u64) {
        let found = elements.len();
        return Err(wrong(format!("an array of {shape:?} of {dtype} with {found} bytes")));
    }
    Ok(Array { dtype, shape, elements: Cow::Borrowed(elements) })
}

/// Parses a header's text: see the top of this file.
fn described(header: &[u8]) -> Result<(NdType, Vec<u64>), ColumnError> {
    let bad = || wrong("a .npy header that is not as NumPy writes it");
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
        Some("False") => Ok((dtype, shape)),
        Some("True") if shape.len() < 2 => Ok((dtype, shape)),
        Some("True") => {
            Err(wrong("an array in Fortran's order: save it with np.ascontiguousarray"))
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

fn dtype(descr: &str) -> Result<NdType, ColumnError> {
    let text = quoted(descr).map_or(descr, |(text, _)| text);
    if text.starts_with("|O") {
        return Err(wrong("an array of objects is a pickle, which is never unpacked"));
    }
    let unknown = |_| wrong(format!("an array of {}, which no tensor holds", Escaped(text)));
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

/// Unpacks a file of a zip file, to `most` bytes at most.
#[cfg(feature = "tables")]
fn unpacked(bytes: &[u8], inside: Option<&str>, most: u64) -> Result<Vec<u8>, ColumnError> {
    let bad = |error: zip::result::ZipError| wrong(format!("a .npz file: {error}"));
    let mut archive = zip::ZipArchive::new(Cursor::new(bytes)).map_err(bad)?;
    let index = match inside {
        Some(name) => archive
            .index_for_name(&format!("{name}.npy"))
            .ok_or_else(|| wrong(format!("a .npz file without an array {}", Escaped(name))))?,
        None if archive.len() == 1 => 0,
        None => {
            let message = "a .npz file of several arrays: declare a field of each, as npz:name";
            return Err(wrong(message));
        }
    };
    let file = archive.by_index(index).map_err(bad)?;
    let over = |found: String| {
        let limit = format!("the limit is {most} (`Limits::max_unpacked_bytes`)");
        wrong(format!(
            "{} of a .npz file unpacks to {found} bytes, and {limit}",
            Escaped(file.name())
        ))
    };
    // The size in the archive may be too small, so the memory grows with the bytes that are unpacked.
    if file.size() > most {
        return Err(over(file.size().to_string()));
    }
    let more = over(format!("more than {most}"));
    let mut unpacked = vec![];
    let read = file.take(most.saturating_add(1)).read_to_end(&mut unpacked);
    read.map_err(|error| wrong(format!("a .npz file: {error}")))?;
    if unpacked.len() as u64 > most {
        return Err(more);
    }
    Ok(unpacked)
}

#[cfg(not(feature = "tables"))]
fn unpacked(_: &[u8], _: Option<&str>, _: u64) -> Result<Vec<u8>, ColumnError> {
    let reason = NeedsFeature { what: "arrays in .npz files", feature: "tables" };
    Err(wrong(reason.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(feature = "tables")]
    use std::io::Write as _;

    fn file(header: &str, elements: &[u8]) -> Vec<u8> {
        let len = (header.len() as u16).to_le_bytes();
        [b"\x93NUMPY\x01\0", &len[..], header.as_bytes(), elements].concat()
    }

    fn parsed(header: &str, elements: &[u8]) -> Result<String, String> {
        let file = file(header, elements);
        let array = Array::parse(&file, None, 1 << 20).map_err(|error| error.to_string())?;
        assert_eq!(array.elements, elements);
        Ok(format!("{} {:?}", array.dtype, array.shape))
    }

    #[test]
    fn what_numpy_writes_is_read() {
        let ok = |header, bytes: usize, wanted: &str| {
            assert_eq!(parsed(header, &vec![7; bytes]).as_deref(), Ok(wanted));
        };
        ok("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }   \n", 24, "<f4 [2, 3]");
        ok("{'descr': '|u1', 'fortran_order': False, 'shape': (5,), }\n", 5, "|u1 [5]");
        ok("{'shape': (), 'fortran_order': False, 'descr': '>i8'}", 8, ">i8 []");
        ok("{\"descr\":\"<i2\",\"fortran_order\":True,\"shape\":(4L,)}", 8, "<i2 [4]");
        ok("{'descr': '<f8', 'fortran_order': False, 'shape': (0, 3), }", 0, "<f8 [0, 3]");
    }

    #[test]
    fn what_no_tensor_holds_is_refused() {
        let not = |header, bytes: usize, part: &str| {
            let error = parsed(header, &vec![7; bytes]).unwrap_err();
            assert!(error.contains(part), "{header}: {error}");
        };
        not("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", 8, "pickle");
        not("{'descr': '<U4', 'fortran_order': False, 'shape': (1,), }", 16, "no tensor");
        not("{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (1,), }", 4, "no tensor");
        not("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }", 24, "ascontiguous");
        not("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 23, "with 23 bytes");
        let huge = "{'descr': '<f8', 'fortran_order': False, 'shape': (18446744073709551615, 9), }";
        not(huge, 8, "with 8 bytes");
        for wrong in [
            "",
            "{",
            "{}",
            "{'descr': '<f4'}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': 3}",
            "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': ()}",
            "{'descr': '<f4', 'fortran_order': 0, 'shape': ()}",
            "{'x': (,), 'y'",
            "{'descr: }",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
            "((((((((((",
        ] {
            not(wrong, 4, "header");
        }
    }

    #[test]
    fn an_array_cut_or_changed_anywhere_is_refused_or_read() {
        let whole = file("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n", &[1; 24]);
        for len in 0..whole.len() {
            assert!(Array::parse(&whole[..len], None, 1 << 20).is_err(), "{len} bytes");
        }
        for at in 0..whole.len() * 8 {
            let mut bytes = whole.clone();
            bytes[at / 8] ^= 1 << (at % 8);
            let _ = Array::parse(&bytes, None, 1 << 20);
        }
    }

    #[cfg(feature = "tables")]
    fn packed(files: &[(&str, Vec<u8>)]) -> Vec<u8> {
        let mut writer = zip::ZipWriter::new(Cursor::new(vec![]));
        for (name, bytes) in files {
            writer.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
            writer.write_all(bytes).unwrap();
        }
        writer.finish().unwrap().into_inner()
    }

    #[cfg(feature = "tables")]
    #[test]
    fn one_array_of_a_packed_file_is_read() {
        let array = |dim: u8| {
            let header =
                format!("{{'descr': '|u1', 'fortran_order': False, 'shape': ({dim},), }}\n");
            file(&header, &vec![dim; usize::from(dim)])
        };
        let parse = |bytes: &[u8], inside: Option<&str>, most| {
            let array = Array::parse(bytes, inside, most);
            array.map(|array| array.elements.to_vec()).map_err(|error| error.to_string())
        };
        let one = packed(&[("x.npy", array(3))]);
        assert_eq!(parse(&one, None, 1 << 20), Ok(vec![3; 3]));
        let over = format!(
            "x.npy of a .npz file unpacks to {} bytes, and the limit is 30 (`Limits::max_unpacked_bytes`)",
            array(3).len()
        );
        assert_eq!(parse(&one, None, 30), Err(over));
        let two = packed(&[("x.npy", array(3)), ("y.npy", array(4))]);
        assert_eq!(parse(&two, Some("y"), 1 << 20), Ok(vec![4; 4]));
        assert!(parse(&two, None, 1 << 20).unwrap_err().contains("npz:name"));
        assert!(parse(&two, Some("z"), 1 << 20).unwrap_err().contains("without an array z"));
        for len in 0..two.len() {
            assert!(parse(&two[..len], Some("x"), 1 << 20).is_err(), "{len} bytes");
        }
    }

    /// The archive tells in advance how many bytes a member unpacks to.
    #[cfg(feature = "tables")]
    #[test]
    fn an_array_that_says_it_is_over_the_limit_is_not_unpacked() {
        let mut packed = packed(&[("x.npy", file("{}", &[]))]);
        let central = packed.windows(4).position(|bytes| bytes == b"PK\x01\x02").unwrap();
        packed[central + 24..central + 28].copy_from_slice(&(300u32 << 20).to_le_bytes());
        let wanted = super::super::FieldRequest::declared("x", "npz", super::super::As::NdArray);
        let column = wanted.column(None, &packed, &crate::sample::Limits::DEFAULT);
        let want = "x.npy of a .npz file unpacks to 314572800 bytes, and the limit is 268435456 \
                    (`Limits::max_unpacked_bytes`)";
        assert_eq!(column.unwrap_err().to_string(), want);
    }
}
