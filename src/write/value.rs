//! A sample's values, and the bytes stored for them.
//!
//! | field        | value                            | in the row            | in the pages           |
//! |--------------|----------------------------------|-----------------------|------------------------|
//! | float, int   | [`Float`], [`Int`]               | 8 bytes               |                        |
//! | image        | [`Image`]                        | mode, sides, pointer  | see [`ImageOptions`]   |
//! | bytes        | [`Bytes`]                        | pointer, size         | the bytes              |
//! | json         | [`Json`], [`StoredJson`]         | pointer, size         | Python's text and a NUL|
//! | array, tensor| [`NdArray`], [`TorchTensor`]     | pointer               | the elements, C order  |
//! | custom       | [`Custom`]                       | the bytes             |                        |
//!
//! [`Float`]: FieldValue::Float
//! [`Int`]: FieldValue::Int
//! [`Image`]: FieldValue::Image
//! [`Bytes`]: FieldValue::Bytes
//! [`Json`]: FieldValue::Json
//! [`StoredJson`]: FieldValue::StoredJson
//! [`NdArray`]: FieldValue::NdArray
//! [`TorchTensor`]: FieldValue::TorchTensor
//! [`Custom`]: FieldValue::Custom

use super::cut::StoredImage;
use super::image::{self, ImageError, ImageInput, Place};
use super::json;
use super::mode::ImageOptions;
use super::pixels::Pixels;
use super::report::KeptCause;
use crate::sample::{Limits, SampleId};
use crate::source::{FieldKind, FieldSpec, NdType};
use std::path::{Path, PathBuf};

/// One field of one sample, to be written.
#[derive(Debug, Clone, PartialEq)]
pub enum FieldValue {
    /// For [`FieldKind::Float`].
    Float(f64),
    /// For [`FieldKind::Int`].
    Int(i64),
    /// For [`FieldKind::RgbImage`].
    Image(ImageInput),
    /// For [`FieldKind::Bytes`].
    Bytes(Vec<u8>),
    /// For [`FieldKind::NdArray`]: the field's dtype and as many bytes as its shape has.
    NdArray {
        /// Type of an element, the field's own.
        dtype: NdType,
        /// The elements in C order.
        bytes: Vec<u8>,
    },
    /// For [`FieldKind::Json`].
    Json(serde_json::Value),
    /// For [`FieldKind::Json`]: the text of a `.beton` file with its final NUL, stored as it is.
    StoredJson(Vec<u8>),
    /// For [`FieldKind::TorchTensor`]: as [`NdArray`](Self::NdArray).
    TorchTensor {
        /// Type of an element, the field's own.
        dtype: NdType,
        /// The elements in C order.
        bytes: Vec<u8>,
    },
    /// For [`FieldKind::Custom`]: its part of the row, as long as the field says.
    Custom(Vec<u8>),
}

impl FieldValue {
    /// The kind in a word, for messages.
    fn word(&self) -> &'static str {
        match self {
            Self::Float(_) => "float",
            Self::Int(_) => "int",
            Self::Image(_) => "image",
            Self::Bytes(_) => "bytes",
            Self::NdArray { .. } => "array",
            Self::Json(_) | Self::StoredJson(_) => "json",
            Self::TorchTensor { .. } => "tensor",
            Self::Custom(_) => "custom",
        }
    }

    /// About how many bytes of memory it holds.
    pub(super) fn held(&self) -> usize {
        match self {
            Self::Float(_) | Self::Int(_) | Self::Json(_) => size_of::<Self>(),
            Self::Image(input) => input.held(),
            Self::Bytes(bytes)
            | Self::StoredJson(bytes)
            | Self::Custom(bytes)
            | Self::NdArray { bytes, .. }
            | Self::TorchTensor { bytes, .. } => bytes.len(),
        }
    }
}

/// The first image file among a sample's values: what a person would call the sample.
pub(super) fn first_path(row: &[FieldValue]) -> Option<&Path> {
    row.iter().find_map(|value| match value {
        FieldValue::Image(ImageInput::Path(path)) => Some(path.as_path()),
        _ => None,
    })
}

/// Why a sample can't be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SampleError {
    /// Not one value a field.
    #[error("{found} values for {expected} fields")]
    Count {
        /// Values given.
        found: usize,
        /// Fields there are.
        expected: usize,
    },
    /// A value of another kind than its field.
    #[error("field {field:?} is {expected}, the value is {found}")]
    Kind {
        /// The field's name.
        field: String,
        /// The field's kind.
        expected: &'static str,
        /// The value's kind.
        found: &'static str,
    },
    /// An array of another element type than its field.
    #[error("field {field:?} is of dtype {expected}, the value is of {found}")]
    DType {
        /// The field's name.
        field: String,
        /// The field's dtype.
        expected: NdType,
        /// The value's dtype.
        found: NdType,
    },
    /// An array or a user-defined row of another length than its field's.
    #[error("field {field:?} takes {expected} bytes, the value has {found}")]
    Length {
        /// The field's name.
        field: String,
        /// Bytes of every value of the field.
        expected: u64,
        /// Bytes of this one.
        found: usize,
    },
    /// JSON that FFCV could not read back.
    #[error("field {field:?}: JSON nested deeper than {}", json::MAX_DEPTH)]
    TooDeep {
        /// The field's name.
        field: String,
    },
    /// An image that can't be stored.
    #[error("field {field:?}: {cause}")]
    Image {
        /// The field's name.
        field: String,
        /// Why.
        cause: ImageError,
    },
    /// More bytes than a page has.
    #[error("it takes {size} bytes, a page has {page_size}: {}", cure(*size))]
    TooLarge {
        /// Bytes of all its values.
        size: u64,
        /// Bytes of a page.
        page_size: u32,
    },
    /// The source of the samples failed.
    #[error("{0}")]
    Source(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The source of the samples, or this writer, panicked.
    #[error("panicked: {message}")]
    Panicked {
        /// What the panic said.
        message: String,
    },
}

/// What helps against a sample of `size` bytes.
fn cure(size: u64) -> String {
    match size.checked_next_power_of_two().filter(|&page| page <= super::MAX_PAGE_SIZE.into()) {
        Some(page) => format!("a page size of {page} would do"),
        None => "no page size would do, store smaller values".to_owned(),
    }
}

impl SampleError {
    /// Whether the sample itself is broken: then it may be left out. The other errors say that
    /// the program or its options are wrong, and are never passed over.
    pub(super) fn is_damage(&self) -> bool {
        match self {
            Self::Image { cause, .. } => cause.is_damage(),
            Self::Source(_) => true,
            _ => false,
        }
    }
}

/// A sample that can't be written, and its name if it has one.
#[derive(Debug)]
pub(super) struct Failed {
    pub(super) path: Option<PathBuf>,
    pub(super) cause: SampleError,
}

/// What is stored of a value.
#[derive(Debug)]
pub(super) enum Stored {
    Float(f64),
    Int(i64),
    Image(StoredImage),
    Bytes(Vec<u8>),
    Array(Vec<u8>),
    Custom(Vec<u8>),
}

impl Stored {
    /// What goes into the pages, if anything does.
    pub(super) fn in_pages(&self) -> Option<&[u8]> {
        match self {
            Self::Image(image) => Some(&image.bytes),
            Self::Bytes(bytes) | Self::Array(bytes) => Some(bytes),
            Self::Float(_) | Self::Int(_) | Self::Custom(_) => None,
        }
    }
}

/// The fields of a dataset, and what turns values into what is stored of them.
#[derive(Debug)]
pub(super) struct Encoding<'a> {
    pub(super) fields: &'a [FieldSpec],
    /// What the first sample is numbered in the input: see [`WriteMode::Proportion`](super::WriteMode).
    pub(super) first: u64,
    /// Options of each field's images; those of other fields are not looked at.
    pub(super) images: Vec<ImageOptions>,
    pub(super) limits: Limits,
    pub(super) page_size: u32,
}

impl Encoding<'_> {
    /// What is stored of a sample.
    ///
    /// # Errors
    ///
    /// See [`SampleError`].
    pub(super) fn sample(
        &self,
        sample: SampleId,
        row: Vec<FieldValue>,
        pixels: &mut Pixels,
    ) -> Result<Vec<Stored>, SampleError> {
        if row.len() != self.fields.len() {
            return Err(SampleError::Count { found: row.len(), expected: self.fields.len() });
        }
        let sample = SampleId(self.first.saturating_add(sample.0));
        let mut stored = Vec::with_capacity(row.len());
        for (field, value) in row.into_iter().enumerate() {
            stored.push(self.value(Place { sample, field }, value, pixels)?);
        }
        self.fit(&mut stored)?;
        Ok(stored)
    }

    /// Sees to it that a sample fits a page, by less re-cutting if need be.
    fn fit(&self, sample: &mut [Stored]) -> Result<(), SampleError> {
        let page_size = self.page_size;
        let size = room(sample);
        if size > u64::from(page_size) {
            let cause = KeptCause::Page { size, page_size };
            images(sample).for_each(|image| image.shorten(&cause));
        }
        let size = room(sample);
        if size > u64::from(page_size) {
            return Err(SampleError::TooLarge { size, page_size });
        }
        images(sample).for_each(StoredImage::settle);
        Ok(())
    }

    fn value(
        &self,
        place: Place,
        value: FieldValue,
        pixels: &mut Pixels,
    ) -> Result<Stored, SampleError> {
        let FieldSpec { name, kind } = &self.fields[place.field];
        match (kind, value) {
            (FieldKind::Float, FieldValue::Float(value)) => Ok(Stored::Float(value)),
            (FieldKind::Int, FieldValue::Int(value)) => Ok(Stored::Int(value)),
            (FieldKind::Bytes, FieldValue::Bytes(bytes))
            | (FieldKind::Json, FieldValue::StoredJson(bytes)) => Ok(Stored::Bytes(bytes)),
            (FieldKind::Json, FieldValue::Json(value)) => json::stored_bytes(&value)
                .map(Stored::Bytes)
                .ok_or_else(|| SampleError::TooDeep { field: name.clone() }),
            (FieldKind::RgbImage, FieldValue::Image(input)) => {
                image::store(input, &self.images[place.field], place, &self.limits, pixels)
                    .map(Stored::Image)
                    .map_err(|cause| SampleError::Image { field: name.clone(), cause })
            }
            (FieldKind::NdArray { dtype, .. }, FieldValue::NdArray { dtype: found, bytes })
            | (
                FieldKind::TorchTensor { dtype, .. },
                FieldValue::TorchTensor { dtype: found, bytes },
            ) => {
                if *dtype != found {
                    return Err(SampleError::DType {
                        field: name.clone(),
                        expected: *dtype,
                        found,
                    });
                }
                check_length(name, kind.array_bytes().unwrap_or(u64::MAX), &bytes)?;
                Ok(Stored::Array(bytes))
            }
            (FieldKind::Custom { row_size, .. }, FieldValue::Custom(bytes)) => {
                check_length(name, *row_size as u64, &bytes)?;
                Ok(Stored::Custom(bytes))
            }
            (kind, value) => Err(SampleError::Kind {
                field: name.clone(),
                expected: kind.word(),
                found: value.word(),
            }),
        }
    }
}

fn images(sample: &mut [Stored]) -> impl Iterator<Item = &mut StoredImage> {
    sample.iter_mut().filter_map(|stored| match stored {
        Stored::Image(image) => Some(image),
        _ => None,
    })
}

fn check_length(field: &str, expected: u64, bytes: &[u8]) -> Result<(), SampleError> {
    if bytes.len() as u64 != expected {
        return Err(SampleError::Length { field: field.to_owned(), expected, found: bytes.len() });
    }
    Ok(())
}

/// Bytes of a page that a sample takes: at least one for each value, see [`super::pages`].
pub(super) fn room(sample: &[Stored]) -> u64 {
    sample.iter().filter_map(Stored::in_pages).map(|bytes| bytes.len().max(1) as u64).sum()
}
