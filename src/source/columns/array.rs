//! Arrays in NumPy's files: `.npy`, and `.npz`, which is a zip file of `.npy` files; and in TIFFs.

use crate::error::{Error, fail};
#[cfg(feature = "tables")]
use crate::source::Escaped;
#[cfg(not(all(feature = "tables", feature = "tiff")))]
use crate::source::feature::NeedsFeature;
use crate::source::npy::{self, NativeArray};
use crate::source::{ImageMode, NdType};
use std::borrow::Cow;
use std::fmt;
#[cfg(feature = "tables")]
use std::io::{Cursor, Read};

/// An array in a file.
pub(super) struct Array<'a> {
    pub(super) dtype: NdType,
    pub(super) shape: Vec<u64>,
    pub(super) elements: Cow<'a, [u8]>,
}

impl<'a> Array<'a> {
    /// Reads the array in a `.npy`; in a `.npz` its only array, or the array called `inside`. An array
    /// in a `.npz` may unpack to `most` bytes at most.
    pub(super) fn parse(bytes: &'a [u8], inside: Option<&str>, most: u64) -> Result<Self, Error> {
        if ImageMode::of_file(bytes) == ImageMode::Tiff {
            return tiff(bytes, most);
        }
        if !bytes.starts_with(b"PK") {
            return npy(bytes);
        }
        let mut file = unpacked(bytes, inside, most)?;
        let Array { dtype, shape, elements } = npy(&file)?;
        let elements = match elements {
            Cow::Owned(elements) => elements,
            Cow::Borrowed(elements) => {
                let header = file.len() - elements.len();
                file.drain(..header);
                file
            }
        };
        Ok(Self { dtype, shape, elements: Cow::Owned(elements) })
    }
}

/// Reads the samples of a TIFF.
#[cfg(feature = "tiff")]
fn tiff(bytes: &[u8], most: u64) -> Result<Array<'_>, Error> {
    let array = crate::source::TiffFile::array(bytes, most);
    let (dtype, shape, elements) = array.map_err(|reason| wrong(format!("a TIFF: {reason}")))?;
    Ok(Array { dtype, shape, elements: Cow::Owned(elements) })
}

#[cfg(not(feature = "tiff"))]
fn tiff(_: &[u8], _: u64) -> Result<Array<'_>, Error> {
    Err(wrong(NeedsFeature { what: "TIFF files", feature: "tiff" }.to_string()))
}

fn wrong(message: impl fmt::Display) -> Error {
    fail!(Damaged, "{message}")
}

/// Reads the array in a `.npy` file.
fn npy(bytes: &[u8]) -> Result<Array<'_>, Error> {
    let NativeArray { dtype, shape, elements } = npy::parse(bytes).map_err(wrong)?;
    Ok(Array { dtype, shape, elements })
}

/// Unpacks a file of a zip file, to `most` bytes at most.
#[cfg(feature = "tables")]
fn unpacked(bytes: &[u8], inside: Option<&str>, most: u64) -> Result<Vec<u8>, Error> {
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
fn unpacked(_: &[u8], _: Option<&str>, _: u64) -> Result<Vec<u8>, Error> {
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

    #[cfg(feature = "tiff")]
    #[test]
    fn pages_after_the_first_of_a_tiff_are_warned_of_once() {
        use crate::source::TiffFile;
        use std::sync::atomic::AtomicBool;
        let golden = |name: &str| {
            let path = format!("{}/tests/golden/tiff/{name}.tif", env!("CARGO_MANIFEST_DIR"));
            TiffFile::parse(&std::fs::read(path).unwrap(), 1 << 20).unwrap()
        };
        let (has_warned, pages) = (AtomicBool::new(false), golden("pages"));
        let ((), warnings) = crate::warnings::recorded(|| {
            golden("gray").warn_of_pages(&has_warned);
            pages.warn_of_pages(&has_warned);
            pages.warn_of_pages(&has_warned);
        });
        let warned = warnings.iter().filter(|text| text.contains("are read as arrays")).count();
        assert!((1..=2).contains(&warned), "another test may warn, too: {warnings:?}");
        assert!(has_warned.into_inner());
    }

    #[test]
    fn what_numpy_writes_is_read() {
        let ok = |header, bytes: usize, wanted: &str| {
            assert_eq!(parsed(header, &vec![7; bytes]).as_deref(), Ok(wanted));
        };
        ok("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }   \n", 24, "<f4 [2, 3]");
        ok("{'descr': '|u1', 'fortran_order': False, 'shape': (5,), }\n", 5, "|u1 [5]");
        ok("{'shape': (), 'fortran_order': False, 'descr': '<i8'}", 8, "<i8 []");
        ok("{\"descr\":\"<i2\",\"fortran_order\":True,\"shape\":(4L,)}", 8, "<i2 [4]");
        ok("{'descr': '<f8', 'fortran_order': False, 'shape': (0, 3), }", 0, "<f8 [0, 3]");
    }

    #[test]
    fn elements_come_in_the_machines_byte_order_and_in_c_order() {
        let values = |header, elements: &[u8]| {
            let file = file(header, elements);
            let array = Array::parse(&file, None, 1 << 20).unwrap();
            (array.dtype.to_string(), array.shape, array.elements.into_owned())
        };
        let big = "{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }\n";
        let stored = [1.5f32.to_be_bytes(), (-2f32).to_be_bytes()].concat();
        let native = [1.5f32.to_le_bytes(), (-2f32).to_le_bytes()].concat();
        assert_eq!(values(big, &stored), ("<f4".to_owned(), vec![2], native.clone()));
        let complex = "{'descr': '>c8', 'fortran_order': False, 'shape': (), }\n";
        assert_eq!(values(complex, &stored), ("<c8".to_owned(), vec![], native));
        // np.asfortranarray([[0, 1, 2], [3, 4, 5]])
        let fortran = "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }\n";
        let want = ("|u1".to_owned(), vec![2, 3], vec![0, 1, 2, 3, 4, 5]);
        assert_eq!(values(fortran, &[0, 3, 1, 4, 2, 5]), want);
        // np.asfortranarray(np.arange(8, dtype=">u2").reshape(2, 2, 2))
        let both = "{'descr': '>u2', 'fortran_order': True, 'shape': (2, 2, 2), }\n";
        let stored: Vec<u8> = [0, 4, 2, 6, 1, 5, 3, 7].iter().flat_map(|&n| [0, n]).collect();
        let want: Vec<u8> = (0..8).flat_map(|n| [n, 0]).collect();
        assert_eq!(values(both, &stored), ("<u2".to_owned(), vec![2, 2, 2], want));
        let empty = "{'descr': '<f8', 'fortran_order': True, 'shape': (0, 3), }";
        assert_eq!(values(empty, &[]), ("<f8".to_owned(), vec![0, 3], vec![]));
    }

    #[test]
    fn a_file_of_an_array_is_read_as_that_array() {
        for shape in [vec![], vec![3], vec![1, 3]] {
            let array = NativeArray {
                dtype: "<i2".parse().unwrap(),
                elements: vec![7; 2 * shape.iter().product::<u64>() as usize].into(),
                shape,
            };
            let file = npy::file(array.dtype, &array.shape, &array.elements);
            let read = npy::parse_stored(&file).unwrap();
            assert_eq!((read.dtype, &read.shape), (array.dtype, &array.shape));
            assert_eq!(read.elements, &*array.elements);
            assert!((file.len() - read.elements.len()).is_multiple_of(64));
        }
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
