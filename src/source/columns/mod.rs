//! Values by their extension: how the bytes of a sample's member are read.
//!
//! | extension (its last part)        | kind      | value                                                   |
//! |----------------------------------|-----------|---------------------------------------------------------|
//! | jpg, png and the other extensions of images; fplanes | `Image` | the file, decoded when the loader wants its pixels |
//! | tif tiff, declared as an array   | `NdArray` | the samples, as stored                                  |
//! | cls cls2 class count id index inx | `Int`    | a decimal number, spaces around it                      |
//! | json jsn                         | `Json`    | the text with a NUL behind it; not parsed, NUL-free     |
//! | npy                              | `NdArray` | the elements; dtype and shape are the first sample's    |
//! | npy of rows, see [`ArrayRows`]   | `Bytes`   | as many rows as each sample has                         |
//! | npz                              | `NdArray` | its only array, or the one named by `ext:name`; needs the feature `tables` |
//! | others: txt, bin, pkl, pth, …    | `Bytes`   | as they are. Nothing is ever unpickled                  |
//!
//! The rule is that of `basichandlers` in webdataset 1.0.2, according to its documentation. `Float` is
//! only used where it is declared.

mod array;
mod image;
mod number;

use super::npy::{self, NativeArray};
use super::{EncodedImage, FieldKind, NdType, OwnedImage, OwnedValue, Value, format_name};
use crate::error::{Error, fail};
use crate::sample::Limits;
use array::Array;
use std::borrow::Cow;

/// The kind of value that the bytes of a sample's member are read as.
///
/// ```no_run
/// use fuseloop::source::{As, Tar, TarOptions};
///
/// let options = TarOptions::default().field("image", "jpg;png", As::Image).field("label", "cls", As::Int);
/// let shards = Tar::open("train-{000..127}.tar", &options)?;
/// # Ok::<(), fuseloop::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum As {
    /// An image file: its first bytes tell its format.
    Image,
    /// A decimal number with or without a sign.
    Int,
    /// A decimal number such as `-1.5e3`.
    Float,
    /// Bytes of any length, as they are.
    Bytes,
    /// JSON text.
    Json,
    /// An array in a `.npy` or a `.npz` file, or the samples of a TIFF. All arrays of a field have one dtype and shape.
    NdArray,
}

impl As {
    /// Returns the kind that an extension stands for: `seg.npy` is an array, as `npy` is.
    pub(super) fn of_extension(ext: &str) -> Self {
        match ext.rsplit('.').next().unwrap_or(ext) {
            ext if image::is_read(ext) => Self::Image,
            "cls" | "cls2" | "class" | "count" | "id" | "index" | "inx" => Self::Int,
            "json" | "jsn" => Self::Json,
            "npy" | "npz" => Self::NdArray,
            _ => Self::Bytes,
        }
    }
}

/// A field that is asked for, and its possible extensions: the first that a sample has is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FieldRequest {
    pub(super) name: String,
    /// Each extension with the name of the array to read, if the file is an archive of several arrays.
    pub(super) exts: Vec<(String, Option<String>)>,
    pub(super) how: As,
    /// Set if the arrays have as many rows as a sample has objects.
    pub(super) rows: Option<ArrayRows>,
}

/// Arrays of one type whose first axis differs between samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ArrayRows {
    pub(super) dtype: NdType,
    /// The shape without the first axis.
    pub(super) row: Vec<u64>,
    /// True if values are the elements alone, false if they are the whole `.npy` file, which says its
    /// type.
    pub(super) is_bare: bool,
}

impl ArrayRows {
    /// Returns the rows of two arrays that differ in nothing but the first axis.
    pub(super) fn of_two(one: &[u8], other: &[u8]) -> Option<Self> {
        let [one, other] = [npy::parse(one).ok()?, npy::parse(other).ok()?];
        let (first, row) = one.shape.split_first()?;
        let (second, other_row) = other.shape.split_first()?;
        let is_one_type = one.dtype == other.dtype && row == other_row;
        let rows = Self { dtype: one.dtype, row: row.to_vec(), is_bare: false };
        (is_one_type && first != second).then_some(rows)
    }

    /// Returns the value of a `.npy` file.
    fn value<'a>(&self, file: &'a [u8]) -> Result<Cow<'a, [u8]>, Error> {
        let array = npy::parse(file).map_err(|reason| fail!(Damaged, "{reason}"))?;
        let NativeArray { dtype, shape, .. } = array;
        if dtype != self.dtype || shape.split_first().is_none_or(|(_, row)| *row != self.row) {
            let (expected, row) = (self.dtype, self.row.clone());
            return Err(fail!(
                Damaged,
                "an array of shape {shape:?} and dtype {dtype}, expected {expected} and {row:?} for each object"
            ));
        }
        Ok(match array.elements {
            elements if self.is_bare => elements,
            Cow::Borrowed(_) => Cow::Borrowed(file),
            elements => Cow::Owned(npy::file(dtype, &shape, &elements)),
        })
    }
}

/// A field whose kind is known.
#[derive(Clone, Debug)]
pub(super) struct FieldColumn {
    pub(super) wanted: FieldRequest,
    pub(super) kind: FieldKind,
    /// The most bytes that an array may unpack to.
    max_bytes: u64,
}

/// A value, borrowed from the bytes that it was read from or stored separately.
#[derive(Debug, PartialEq)]
pub(super) enum ColumnValue<'a> {
    /// A value that is borrowed from the bytes.
    Borrowed(Value<'a>),
    /// JSON text, to which a final NUL must be added.
    Text(&'a [u8]),
    /// An array's elements, unpacked.
    Elements(Vec<u8>),
    /// The rows of an array, rearranged.
    Bytes(Vec<u8>),
}

impl FieldRequest {
    /// Returns the field of an extension that was not declared.
    fn of_extension(ext: &str) -> Self {
        let exts = vec![(ext.to_owned(), None)];
        Self { name: ext.to_owned(), exts, how: As::of_extension(ext), rows: None }
    }

    /// Returns the fields of a sample with these extensions, if none were declared. If exactly one of
    /// them is an image, it gets the other extensions of images too: PNGs among JPEGs are one field.
    pub(super) fn of_sample<'a>(exts: impl Iterator<Item = &'a str>) -> Vec<Self> {
        let mut all: Vec<Self> = exts.map(Self::of_extension).collect();
        let mut pictures = all.iter_mut().filter(|wanted| image::is_read(&wanted.name));
        if let (Some(only), None) = (pictures.next(), pictures.next()) {
            let others = image::extensions().filter(|ext| *ext != only.name);
            let others: Vec<_> = others.map(|ext| (ext.to_owned(), None)).collect();
            only.exts.extend(others);
        }
        all
    }

    /// Returns a field as it is declared: `jpg;jpeg;png`, `features.npz:mean`.
    pub(super) fn declared(name: &str, exts: &str, how: As) -> Self {
        let ext = |text: &str| match text.trim().split_once(':') {
            Some((ext, inside)) => (ext.to_lowercase(), Some(inside.to_owned())),
            None => (text.trim().to_lowercase(), None),
        };
        Self { name: name.to_owned(), exts: exts.split(';').map(ext).collect(), how, rows: None }
    }

    /// Returns the extensions, as they were declared.
    pub(super) fn text(&self) -> String {
        let exts = self.exts.iter().map(|(ext, inside)| match inside {
            Some(inside) => format!("{ext}:{inside}"),
            None => ext.clone(),
        });
        exts.collect::<Vec<_>>().join(";")
    }

    /// Returns whether the kind of the field is known without a sample's bytes.
    pub(super) fn is_plain(&self) -> bool {
        self.how != As::NdArray || self.rows.is_some()
    }

    /// Returns the column, given the bytes of the first sample's member for it.
    pub(super) fn column(
        self,
        inside: Option<&str>,
        first: &[u8],
        limits: &Limits,
    ) -> Result<FieldColumn, Error> {
        let max_bytes = limits.max_unpacked_bytes.min(limits.max_sample_bytes);
        let kind = match self.how {
            As::Image => FieldKind::RgbImage,
            As::Int => FieldKind::Int,
            As::Float => FieldKind::Float,
            As::Bytes => FieldKind::Bytes,
            As::Json => FieldKind::Json,
            As::NdArray if self.rows.is_some() => FieldKind::Bytes,
            As::NdArray => {
                let Array { dtype, shape, .. } = Array::parse(first, inside, max_bytes)?;
                FieldKind::NdArray { dtype, shape }
            }
        };
        Ok(FieldColumn { wanted: self, kind, max_bytes })
    }
}

impl FieldColumn {
    /// Returns the value of a member's bytes; `ext` is the index of the member's extension.
    pub(super) fn cell<'a>(&self, ext: usize, bytes: &'a [u8]) -> Result<ColumnValue<'a>, Error> {
        if let Some(rows) = &self.wanted.rows {
            return Ok(match rows.value(bytes)? {
                Cow::Borrowed(rows) => ColumnValue::Borrowed(Value::Bytes(rows)),
                Cow::Owned(rows) => ColumnValue::Bytes(rows),
            });
        }
        Ok(ColumnValue::Borrowed(match self.wanted.how {
            As::Image => {
                let mode = image::mode(bytes).ok_or_else(|| no_image(bytes))?;
                Value::Image(EncodedImage { mode, width: 0, height: 0, bytes })
            }
            As::Int => Value::Int(number::int(bytes)?),
            As::Float => Value::Float(number::float(bytes)?),
            As::Bytes => Value::Bytes(bytes),
            As::Json => return text(bytes),
            As::NdArray => match self.array(ext, bytes)? {
                Cow::Borrowed(elements) => Value::NdArray(elements),
                Cow::Owned(elements) => return Ok(ColumnValue::Elements(elements)),
            },
        }))
    }

    /// Returns the owned value of a member's bytes. Images and bytes take over the memory.
    pub(super) fn owned(&self, ext: usize, bytes: Vec<u8>) -> Result<OwnedValue, Error> {
        match self.wanted.how {
            As::Image => {
                let mode = image::mode(&bytes).ok_or_else(|| no_image(&bytes))?;
                Ok(OwnedValue::Image(OwnedImage { mode, width: 0, height: 0, bytes }))
            }
            As::Bytes => Ok(OwnedValue::Bytes(bytes)),
            _ => Ok(match self.cell(ext, &bytes)? {
                ColumnValue::Borrowed(value) => value.into(),
                ColumnValue::Text(text) => OwnedValue::Json(with_nul(text)),
                ColumnValue::Elements(elements) => OwnedValue::NdArray(elements),
                ColumnValue::Bytes(rows) => OwnedValue::Bytes(rows),
            }),
        }
    }

    fn array<'a>(&self, ext: usize, bytes: &'a [u8]) -> Result<Cow<'a, [u8]>, Error> {
        let inside = self.wanted.exts.get(ext).and_then(|(_, inside)| inside.as_deref());
        let Array { dtype, shape, elements } = Array::parse(bytes, inside, self.max_bytes)?;
        let found = FieldKind::NdArray { dtype, shape };
        if found == self.kind {
            return Ok(elements);
        }
        let FieldKind::NdArray { shape, .. } = found else { return Ok(elements) };
        Err(fail!(
            Damaged,
            "an array of shape {shape:?} and dtype {dtype}, expected an {}: declare a field whose arrays differ as bytes",
            self.kind.described()
        ))
    }
}

fn no_image(bytes: &[u8]) -> Error {
    match format_name(bytes) {
        Some(format) => fail!(Damaged, "not a readable image: it is {format}"),
        None => fail!(Damaged, "an image of a format that is not known"),
    }
}

fn text(bytes: &[u8]) -> Result<ColumnValue<'_>, Error> {
    match bytes.iter().position(|&byte| byte == 0) {
        Some(at) => Err(fail!(Damaged, "JSON with a NUL at its byte {at}")),
        None => Ok(ColumnValue::Text(bytes)),
    }
}

/// Returns a text with a final NUL.
pub(super) fn with_nul(text: &[u8]) -> Vec<u8> {
    [text, &[0]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(how: As) -> FieldColumn {
        let wanted = FieldRequest::declared("x", "x", how);
        wanted.column(None, b"", &Limits::SMALL).unwrap()
    }

    #[test]
    fn extensions_stand_for_kinds() {
        for (ext, how) in [
            ("jpg", As::Image),
            ("seg.jpeg", As::Image),
            ("cls", As::Int),
            ("a.id", As::Int),
            ("json", As::Json),
            ("x.npy", As::NdArray),
            ("npz", As::NdArray),
            ("txt", As::Bytes),
            ("pkl", As::Bytes),
            ("pth", As::Bytes),
            ("", As::Bytes),
            ("jpg.txt", As::Bytes),
        ] {
            assert_eq!(As::of_extension(ext), how, "{ext}");
        }
    }

    #[test]
    fn owned_values_are_those_that_are_lent() {
        for (how, bytes) in [
            (As::Int, &b" -7\n"[..]),
            (As::Float, b"1.5"),
            (As::Bytes, b"\0x"),
            (As::Image, b"\xff\xd8\xff\xe0"),
            (As::Int, b"x"),
            (As::Image, b"GIF8"),
            (As::Json, b"\0"),
        ] {
            let column = column(how);
            let borrowed = column.cell(0, bytes).map(|cell| match cell {
                ColumnValue::Borrowed(value) => OwnedValue::from(value),
                _ => unreachable!(),
            });
            assert_eq!(column.owned(0, bytes.to_vec()), borrowed);
        }
        assert_eq!(column(As::Json).cell(0, b"{}"), Ok(ColumnValue::Text(b"{}")));
        assert_eq!(
            column(As::Json).owned(0, b"{}".to_vec()),
            Ok(OwnedValue::Json(b"{}\0".to_vec()))
        );
    }

    #[test]
    fn fields_are_declared_by_extensions_in_order() {
        let wanted = FieldRequest::declared("image", "JPG; jpeg;f.npz:Mean", As::Image);
        let exts: Vec<_> = wanted.exts.iter().map(|(e, i)| (e.as_str(), i.as_deref())).collect();
        assert_eq!(exts, [("jpg", None), ("jpeg", None), ("f.npz", Some("Mean"))]);
        assert_eq!(wanted.text(), "jpg;jpeg;f.npz:Mean");
    }
}
