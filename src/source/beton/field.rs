//! Field descriptors: the columns of a dataset.
//!
//! | offset | size | field     | meaning                                             |
//! |-------:|-----:|-----------|-----------------------------------------------------|
//! |      0 |    1 | `type_id` | see [`FieldKind`]                                   |
//! |      1 |   16 | `name`    | ASCII, padded with NULs to 16 bytes                 |
//! |     17 | 1024 | arguments | zero, except for arrays and user-defined fields     |
//!
//! An array's arguments (type ids 4 and 6):
//!
//! | offset | size | field   | meaning                                                   |
//! |-------:|-----:|---------|-----------------------------------------------------------|
//! |      0 |  256 | `shape` | 32 dimensions of 8 B; trailing zeros are not dimensions   |
//! |    256 |    8 | `len`   | bytes of the text that follows                            |
//! |    264 |  len | `dtype` | JSON of numpy's `dtype.descr`: `[["", "<f4"]]`            |
//!
//! A field of images that may be bit planes has the type id 255, too, so that FFCV refuses it. Its arguments begin with
//! "fuseloop bit planes".
//!
//! Arguments of the other kinds are ignored, as FFCV does: they leave room for extensions.

use super::take;
use crate::error::{Error, fail};
use crate::source::field_kind::array_bytes;
use crate::source::{FieldKind, FieldSpec, NdType};
use std::collections::{BTreeMap, HashMap};

/// The cell of a user-defined field in a row: what FFCV learns from the field's Python class.
///
/// ```no_run
/// use fuseloop::source::{Beton, CustomRow, OpenOptions};
///
/// // A field of a Python class whose rows have two 4-byte numbers.
/// let row = CustomRow { row_size: 8, align: 4 };
/// let options = OpenOptions { custom_fields: [("pose".to_owned(), row)].into(), ..OpenOptions::default() };
/// let beton = Beton::open("train.beton", &options)?;
/// # Ok::<(), fuseloop::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CustomRow {
    /// The size of the cell in bytes, at least 1.
    pub row_size: usize,
    /// The alignment of the cell, a power of two.
    pub align: usize,
}

/// User-defined fields by name.
pub(crate) type CustomRows = BTreeMap<String, CustomRow>;

const NAME_SIZE: usize = 16;
const ARGUMENTS_SIZE: usize = 1024;
const MAX_DIMS: usize = 32;
const DTYPE_OFFSET: usize = MAX_DIMS * 8 + 8;

/// The first arguments of a field of images that may be bit planes.
const BIT_PLANES: &[u8] = b"fuseloop bit planes";

impl FieldSpec {
    /// The size of a descriptor in bytes.
    pub(crate) const SIZE: usize = 1 + NAME_SIZE + ARGUMENTS_SIZE;

    /// Reads the name and the kind in the descriptor at file offset `at`. The kind is `None` for a user-defined field whose
    /// size is not known.
    ///
    /// # Errors
    ///
    /// If the descriptor is damaged. Never panics, whatever the bytes.
    fn parse(
        descriptor: &[u8],
        at: u64,
        custom: &CustomRows,
    ) -> Result<(String, Option<FieldKind>), Error> {
        let (type_id, name, arguments) = split(descriptor).ok_or_else(|| {
            let (found, size) = (descriptor.len(), Self::SIZE);
            fail!(Format, "the field descriptor at byte {at} has {found} bytes of {size}")
        })?;
        let name = parse_name(&name, at)?;
        let kind = match (custom.get(&name), type_id) {
            (Some(&CustomRow { row_size, align }), _) => {
                check_custom(&name, row_size, align)?;
                FieldKind::Custom { row_size, align }
            }
            (None, 0) => FieldKind::Float,
            (None, 1) => FieldKind::Int,
            (None, 2) => FieldKind::RgbImage,
            (None, 3) => FieldKind::Bytes,
            (None, 5) => FieldKind::Json,
            (None, 4 | 6) => {
                let (dtype, shape) = parse_array(&arguments, &name, at)?;
                if type_id == 4 {
                    FieldKind::NdArray { dtype, shape }
                } else {
                    FieldKind::TorchTensor { dtype, shape }
                }
            }
            (None, 255) if arguments.starts_with(BIT_PLANES) => FieldKind::BitPlaneImage,
            (None, 255) => return Ok((name, None)),
            (None, found) => {
                return Err(fail!(
                    Format,
                    "field {name:?}: type id {found} at byte {at}, expected 0 to 6 or 255"
                ));
            }
        };
        Ok((name, Some(kind)))
    }

    /// Returns the field of a name and a kind that were read.
    ///
    /// # Errors
    ///
    /// If it is a user-defined field whose size is not known.
    pub(super) fn known((name, kind): (String, Option<FieldKind>)) -> Result<Self, Error> {
        match kind {
            Some(kind) => Ok(Self { name, kind }),
            None => Err(fail!(
                Format,
                "field {name:?} is user-defined (type id 255): its row size and alignment must be given"
            )
            .help(
                "`fuseloop info FILE --custom NAME=BYTES:ALIGN` shows it; in a program, declare it in `OpenOptions::custom_fields`",
            )),
        }
    }

    /// Returns the descriptor's bytes.
    ///
    /// # Errors
    ///
    /// Fails if the format can't hold the name or the shape.
    #[doc(hidden)]
    pub fn to_bytes(&self) -> Result<[u8; Self::SIZE], Error> {
        let Self { name, kind } = self;
        if name.len() > NAME_SIZE || !name.bytes().all(|b| (1..128).contains(&b)) {
            return Err(fail!(
                Field,
                "field name {name:?}: expected at most 16 ASCII characters and no NUL"
            ));
        }
        let mut bytes = [0; Self::SIZE];
        bytes[0] = kind.type_id();
        bytes[1..1 + name.len()].copy_from_slice(name.as_bytes());
        if let FieldKind::NdArray { dtype, shape } | FieldKind::TorchTensor { dtype, shape } = kind
        {
            // FFCV's reader drops trailing zeros, which would make it another shape.
            if shape.len() > MAX_DIMS || shape.last() == Some(&0) {
                return Err(fail!(
                    Field,
                    "field {name:?}: shape {shape:?}, expected at most 32 dimensions, the last not 0"
                ));
            }
            put_array(&mut bytes[1 + NAME_SIZE..], *dtype, shape);
        }
        if *kind == FieldKind::BitPlaneImage {
            bytes[1 + NAME_SIZE..][..BIT_PLANES.len()].copy_from_slice(BIT_PLANES);
        }
        Ok(bytes)
    }
}

impl FieldKind {
    /// Returns the number that stands for the kind in a file.
    #[doc(hidden)]
    pub fn type_id(&self) -> u8 {
        match self {
            Self::Float => 0,
            Self::Int => 1,
            Self::RgbImage => 2,
            Self::Bytes => 3,
            Self::NdArray { .. } => 4,
            Self::Json => 5,
            Self::TorchTensor { .. } => 6,
            Self::Custom { .. } | Self::BitPlaneImage => 255,
        }
    }
}

/// Reads descriptors that are stored one after another from file offset `at` on. The kind is `None` for a user-defined field
/// whose size is not known.
///
/// # Errors
///
/// If a descriptor is damaged, or two fields share a name.
pub(super) fn parse_fields(
    descriptors: &[u8],
    at: u64,
    custom: &CustomRows,
) -> Result<Vec<(String, Option<FieldKind>)>, Error> {
    let mut fields = Vec::new();
    let mut indices: HashMap<String, usize> = HashMap::new();
    let offsets = (at..).step_by(FieldSpec::SIZE);
    for (descriptor, at) in descriptors.chunks(FieldSpec::SIZE).zip(offsets) {
        let (name, kind) = FieldSpec::parse(descriptor, at, custom)?;
        if let Some(first) = indices.insert(name.clone(), fields.len()) {
            return Err(same_name(&name, first, fields.len()));
        }
        fields.push((name, kind));
    }
    Ok(fields)
}

/// Returns the error of two fields, by their indices, that have one name. FFCV cuts names to 16 characters without a
/// warning.
pub(crate) fn same_name(name: &str, first: usize, second: usize) -> Error {
    fail!(Format, "fields {first} and {second} are both named {name:?}")
}

/// Refuses a size or an alignment that a user-defined field can't have.
pub(crate) fn check_custom(name: &str, row_size: usize, align: usize) -> Result<(), Error> {
    if row_size == 0 || !align.is_power_of_two() {
        return Err(fail!(
            Format,
            "field {name:?}: a user-defined row of {row_size} bytes aligned to {align}, expected at least 1 byte and a power of two"
        ));
    }
    Ok(())
}

/// Splits a descriptor into type id, name and arguments; `None` if there are too few bytes.
fn split(mut descriptor: &[u8]) -> Option<(u8, [u8; NAME_SIZE], [u8; ARGUMENTS_SIZE])> {
    let rest = &mut descriptor;
    Some((u8::from_le_bytes(take(rest)?), take(rest)?, take(rest)?))
}

fn parse_name(padded: &[u8; NAME_SIZE], at: u64) -> Result<String, Error> {
    let name = padded.split(|&b| b == 0).next().unwrap_or_default();
    if !name.is_ascii() {
        let (found, at) = (name.escape_ascii(), at.saturating_add(1));
        return Err(fail!(Format, "field name \"{found}\" at byte {at} is not ASCII"));
    }
    Ok(String::from_utf8_lossy(name).into_owned())
}

fn parse_array(
    arguments: &[u8; ARGUMENTS_SIZE],
    name: &str,
    at: u64,
) -> Result<(NdType, Vec<u64>), Error> {
    let (dims, rest) = arguments.split_at(MAX_DIMS * 8);
    let mut shape: Vec<u64> =
        dims.as_chunks().0.iter().map(|&dim| u64::from_le_bytes(dim)).collect();
    shape.truncate(shape.iter().rposition(|&dim| dim != 0).map_or(0, |last| last + 1));

    let at = at.saturating_add(1 + (NAME_SIZE + DTYPE_OFFSET) as u64);
    let (len, text) = rest.split_at(8);
    let len = len.try_into().map_or(u64::MAX, u64::from_le_bytes);
    let text = usize::try_from(len).ok().and_then(|len| text.get(..len)).ok_or_else(|| {
        let (at, most) = (at - 8, ARGUMENTS_SIZE - DTYPE_OFFSET);
        fail!(
            Format,
            "field {name:?}: a dtype text of {len} bytes at byte {at}, at most {most} fit"
        )
    })?;
    let dtype = parse_descr(text).ok_or_else(|| {
        let found = text.escape_ascii();
        fail!(
            Format,
            "field {name:?}: dtype \"{found}\" at byte {at}, expected one plain type like [[\"\", \"<f4\"]]"
        )
    })?;
    if array_bytes(dtype, &shape).is_none() {
        return Err(fail!(
            Format,
            "field {name:?}: an array {shape:?} of {dtype} is over 2^64 bytes"
        ));
    }
    Ok((dtype, shape))
}

/// Parses the only dtype of `[["", "<f4"]]`; `None` for a structure, which has several dtypes or a third
/// member.
fn parse_descr(json: &[u8]) -> Option<NdType> {
    let [(_, dtype)]: [(String, String); 1] = serde_json::from_slice(json).ok()?;
    dtype.parse().ok()
}

fn put_array(arguments: &mut [u8], dtype: NdType, shape: &[u64]) {
    for (bytes, dim) in arguments.as_chunks_mut().0.iter_mut().zip(shape) {
        *bytes = dim.to_le_bytes();
    }
    let descr = format!("[[\"\", \"{dtype}\"]]");
    arguments[MAX_DIMS * 8..DTYPE_OFFSET].copy_from_slice(&(descr.len() as u64).to_le_bytes());
    arguments[DTYPE_OFFSET..][..descr.len()].copy_from_slice(descr.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(bytes: &[u8], custom: &CustomRows) -> Result<FieldSpec, Error> {
        FieldSpec::known(FieldSpec::parse(bytes, 24, custom)?)
    }

    fn array(dtype: &str, shape: &[u64]) -> FieldSpec {
        let kind = FieldKind::NdArray { dtype: dtype.parse().unwrap(), shape: shape.to_vec() };
        FieldSpec { name: "nd".to_owned(), kind }
    }

    #[test]
    fn every_kind_comes_back_as_it_was_written() {
        let FieldKind::NdArray { dtype, shape } = array(">i4", &[2, 3]).kind else {
            unreachable!()
        };
        let kinds = [
            FieldKind::Float,
            FieldKind::Int,
            FieldKind::RgbImage,
            FieldKind::Bytes,
            FieldKind::NdArray { dtype, shape: shape.clone() },
            FieldKind::Json,
            FieldKind::TorchTensor { dtype, shape },
            FieldKind::BitPlaneImage,
        ];
        for kind in kinds {
            let field = FieldSpec { name: "sixteen_letters_".to_owned(), kind };
            let bytes = field.to_bytes().unwrap();
            assert_eq!(parse(&bytes, &CustomRows::new()), Ok(field));
        }
    }

    #[test]
    fn a_user_defined_field_needs_its_row() {
        let kind = FieldKind::Custom { row_size: 12, align: 4 };
        let field = FieldSpec { name: "mine".to_owned(), kind };
        let bytes = field.to_bytes().unwrap();
        let known = CustomRows::from([("mine".to_owned(), CustomRow { row_size: 12, align: 4 })]);
        assert_eq!(parse(&bytes, &known), Ok(field));
        let unknown = FieldSpec::parse(&bytes, 24, &CustomRows::new());
        assert_eq!(unknown, Ok(("mine".to_owned(), None)));
        assert_eq!(
            parse(&bytes, &CustomRows::new()).unwrap_err().to_string(),
            "field \"mine\" is user-defined (type id 255): its row size and alignment must be given"
        );
    }

    #[test]
    fn a_shape_without_dimensions_is_one_element() {
        let field = array("<f8", &[]);
        let bytes = field.to_bytes().unwrap();
        assert_eq!(parse(&bytes, &CustomRows::new()), Ok(field.clone()));
        assert_eq!(field.kind.array_bytes(), Some(8));
    }

    #[test]
    fn names_and_shapes_the_format_cannot_hold_are_not_written() {
        for name in ["seventeen_letters", "nul\0", "größe"] {
            let field = FieldSpec { name: name.to_owned(), kind: FieldKind::Int };
            assert_eq!(
                field.to_bytes().unwrap_err().to_string(),
                format!("field name {name:?}: expected at most 16 ASCII characters and no NUL")
            );
        }
        assert!(array("<f4", &[3, 0]).to_bytes().is_err());
        assert!(array("<f4", &[1; 33]).to_bytes().is_err());
        assert!(array("<f4", &[1; 32]).to_bytes().is_ok());
    }
}
