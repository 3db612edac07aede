//! The values of a sample, and the bytes stored for them.
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
use super::image::{self, ImageError, ImageInput, InputPosition};
use super::json;
use super::mode::ImageOptions;
use super::pixels::PixelReader;
use super::report::UnchangedCause;
use crate::decode::UnreadParts;
use crate::error::{Cause, Details, Error, ErrorKind};
use crate::sample::{Limits, SampleId};
use crate::source::{FieldKind, FieldSpec, ImageMode, NdType};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// One field of one sample, to be written.
///
/// ```no_run
/// use fuseloop::source::{FieldKind, FieldSpec};
/// use fuseloop::write::{FieldValue, ImageInput, WriteOptions, write_iter};
///
/// let field = |name: &str, kind| FieldSpec { name: name.to_owned(), kind };
/// let fields = [field("image", FieldKind::RgbImage), field("label", FieldKind::Int)];
/// let rows = [("cat.jpg", 0), ("dog.jpg", 1)].map(|(path, label)| {
///     vec![FieldValue::Image(ImageInput::Path(path.into())), FieldValue::Int(label)]
/// });
/// write_iter(rows, &fields, "pets.beton", &WriteOptions::default())?;
/// # Ok::<(), fuseloop::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub enum FieldValue {
    /// For [`FieldKind::Float`].
    Float(f64),
    /// For [`FieldKind::Int`].
    Int(i64),
    /// For [`FieldKind::RgbImage`] and [`FieldKind::BitPlaneImage`].
    Image(ImageInput),
    /// For [`FieldKind::Bytes`].
    Bytes(Vec<u8>),
    /// For [`FieldKind::NdArray`]: the field's dtype, and exactly the number of bytes that its shape
    /// requires.
    NdArray {
        /// The element type, which must be the field's.
        dtype: NdType,
        /// The elements in C order.
        bytes: Vec<u8>,
    },
    /// For [`FieldKind::Json`].
    Json(serde_json::Value),
    /// For [`FieldKind::Json`]: text from a `.beton` file with its final NUL, stored unchanged.
    StoredJson(Vec<u8>),
    /// For [`FieldKind::TorchTensor`]: like [`NdArray`](Self::NdArray).
    TorchTensor {
        /// The element type, which must be the field's.
        dtype: NdType,
        /// The elements in C order.
        bytes: Vec<u8>,
    },
    /// For [`FieldKind::Custom`]: the field's bytes in the row, as many as the field declares.
    Custom(Vec<u8>),
}

impl FieldValue {
    /// Returns the name of the value's kind, for messages.
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

    /// Returns the approximate number of bytes of memory that the value uses.
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

/// Returns the first image path among a sample's values, which identifies the sample to a person.
pub(super) fn first_path(row: &[FieldValue]) -> Option<&Path> {
    row.iter().find_map(|value| match value {
        FieldValue::Image(ImageInput::Path(path)) => Some(path.as_path()),
        _ => None,
    })
}

/// Why a sample can't be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteSampleError {
    /// The number of values is not the number of fields.
    #[error("{found} values for {expected} fields")]
    Count {
        /// The number of values given.
        found: usize,
        /// The number of fields.
        expected: usize,
    },
    /// A value whose kind is not its field's.
    #[error("field {field:?} is {expected}, the value is {found}")]
    Kind {
        /// The field's name.
        field: String,
        /// The field's kind.
        expected: &'static str,
        /// The value's kind.
        found: &'static str,
    },
    /// An array whose element type is not its field's.
    #[error("field {field:?} is of dtype {expected}, the value is of {found}")]
    DType {
        /// The field's name.
        field: String,
        /// The field's dtype.
        expected: NdType,
        /// The value's dtype.
        found: NdType,
    },
    /// An array or a user-defined row whose length is not its field's.
    #[error("field {field:?} takes {expected} bytes, the value has {found}")]
    Length {
        /// The field's name.
        field: String,
        /// The length of every value of the field in bytes.
        expected: u64,
        /// The length of this value in bytes.
        found: usize,
    },
    /// JSON nested too deeply for FFCV to read back.
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
        /// The cause.
        cause: ImageError,
    },
    /// A sample that does not fit a page.
    #[error("it takes {size} bytes, a page has {page_size}: {}", cure(*size))]
    TooLarge {
        /// The size of all values of the sample in bytes.
        size: u64,
        /// The size of a page in bytes.
        page_size: u32,
    },
    /// The source of the samples failed.
    #[error("{0}")]
    Source(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The write was cancelled before this sample.
    #[error("the write was cancelled")]
    Cancelled,
    /// The source of the samples, or this writer, panicked.
    #[error("panicked: {message}")]
    Panicked {
        /// The panic's message.
        message: String,
    },
}

impl Cause for WriteSampleError {
    fn details(&self) -> Details<'_> {
        let field = Details::of(ErrorKind::Field);
        match self {
            Self::Count { .. } => field,
            Self::Kind { field: name, .. }
            | Self::DType { field: name, .. }
            | Self::Length { field: name, .. } => field.field(name),
            Self::Image { field, cause } if cause.lacks_memory() => {
                Details::no_memory().field(field)
            }
            Self::TooDeep { field } | Self::Image { field, .. } => {
                Details::of(ErrorKind::Damaged).field(field)
            }
            Self::TooLarge { .. } => Details::of(ErrorKind::Memory),
            Self::Source(error) => Details::of_custom(error),
            Self::Cancelled => Details::of(ErrorKind::Cancelled),
            Self::Panicked { .. } => Details::of(ErrorKind::Panic),
        }
    }
}

/// Returns the hint for a sample of `size` bytes that is too large.
fn cure(size: u64) -> String {
    match size
        .checked_next_power_of_two()
        .filter(|&page| page <= super::options::MAX_PAGE_SIZE.into())
    {
        Some(page) => format!("a page size of {page} would do"),
        None => "no page size would do, store smaller values".to_owned(),
    }
}

impl WriteSampleError {
    /// Returns true if the sample itself is damaged, so that it may be left out. The other errors mean
    /// that the program or its options are wrong; these are never skipped.
    pub(super) fn is_damage(&self) -> bool {
        match self {
            Self::Image { cause, .. } => cause.is_damage(),
            Self::Source(error) => {
                let is_other =
                    error.downcast_ref::<Error>().is_some_and(|error| error.is_not_damage());
                !is_other && !self.details().lacks_memory()
            }
            _ => false,
        }
    }
}

/// A sample that can't be written, and its image path if it has one.
#[derive(Debug)]
pub(super) struct FailedSample {
    pub(super) path: Option<PathBuf>,
    pub(super) cause: WriteSampleError,
}

/// A value in its stored form.
#[derive(Debug)]
pub(super) enum StoredValue {
    Float(f64),
    Int(i64),
    Image(StoredImage),
    Bytes(Vec<u8>),
    Array(Vec<u8>),
    Custom(Vec<u8>),
}

impl StoredValue {
    /// Returns the bytes that go into the pages, if the value has any.
    pub(super) fn in_pages(&self) -> Option<&[u8]> {
        match self {
            Self::Image(image) => Some(&image.bytes),
            Self::Bytes(bytes) | Self::Array(bytes) => Some(bytes),
            Self::Float(_) | Self::Int(_) | Self::Custom(_) => None,
        }
    }
}

/// Turns the values of a dataset's fields into their stored form.
#[derive(Debug)]
pub(super) struct Encoding<'a> {
    pub(super) fields: &'a [FieldSpec],
    /// The image options of each field, in the order of the fields; not used for other kinds of fields.
    pub(super) images: Vec<ImageOptions>,
    pub(super) limits: Limits,
    /// Gets the parts of images that are stored and not read.
    pub(super) unread: Arc<UnreadParts>,
    /// The largest page size that the file may have.
    pub(super) page_size: u32,
}

impl Encoding<'_> {
    /// Encodes a sample.
    ///
    /// # Errors
    ///
    /// See [`WriteSampleError`].
    pub(super) fn sample(
        &self,
        sample: SampleId,
        row: Vec<FieldValue>,
        pixels: &mut PixelReader,
    ) -> Result<Vec<StoredValue>, WriteSampleError> {
        if row.len() != self.fields.len() {
            return Err(WriteSampleError::Count { found: row.len(), expected: self.fields.len() });
        }
        let mut stored = Vec::with_capacity(row.len());
        for (field, value) in row.into_iter().enumerate() {
            stored.push(self.value(InputPosition { sample, field }, value, pixels)?);
        }
        self.fit(&mut stored)?;
        Ok(stored)
    }

    /// Makes a sample fit its page, by undoing re-cuts if necessary.
    fn fit(&self, sample: &mut [StoredValue]) -> Result<(), WriteSampleError> {
        let page_size = self.page_size;
        let size = room(sample);
        if size > u64::from(page_size) {
            let cause = UnchangedCause::Page { size, page_size };
            images(sample).for_each(|image| image.undo_if_shorter(&cause));
        }
        let size = room(sample);
        if size > u64::from(page_size) {
            return Err(WriteSampleError::TooLarge { size, page_size });
        }
        images(sample).for_each(StoredImage::drop_original);
        Ok(())
    }

    fn value(
        &self,
        position: InputPosition,
        value: FieldValue,
        pixels: &mut PixelReader,
    ) -> Result<StoredValue, WriteSampleError> {
        let FieldSpec { name, kind } = &self.fields[position.field];
        match (kind, value) {
            (FieldKind::Float, FieldValue::Float(value)) => Ok(StoredValue::Float(value)),
            (FieldKind::Int, FieldValue::Int(value)) => Ok(StoredValue::Int(value)),
            (FieldKind::Bytes, FieldValue::Bytes(bytes))
            | (FieldKind::Json, FieldValue::StoredJson(bytes)) => Ok(StoredValue::Bytes(bytes)),
            (FieldKind::Json, FieldValue::Json(value)) => json::stored_bytes(&value)
                .map(StoredValue::Bytes)
                .ok_or_else(|| WriteSampleError::TooDeep { field: name.clone() }),
            (FieldKind::RgbImage | FieldKind::BitPlaneImage, FieldValue::Image(input)) => {
                let input = match input {
                    // Such a field holds no bit planes: the JPEG is restored.
                    ImageInput::Stored(image)
                        if image.mode == ImageMode::BitPlanes && *kind == FieldKind::RgbImage =>
                    {
                        ImageInput::JpegBytes(image.bytes)
                    }
                    input => input,
                };
                image::store(input, &self.images[position.field], position, &self.limits, pixels)
                    .map(StoredValue::Image)
                    .map_err(|cause| WriteSampleError::Image { field: name.clone(), cause })
            }
            (FieldKind::NdArray { dtype, .. }, FieldValue::NdArray { dtype: found, bytes })
            | (
                FieldKind::TorchTensor { dtype, .. },
                FieldValue::TorchTensor { dtype: found, bytes },
            ) => {
                if *dtype != found {
                    return Err(WriteSampleError::DType {
                        field: name.clone(),
                        expected: *dtype,
                        found,
                    });
                }
                check_length(name, kind.array_bytes().unwrap_or(u64::MAX), &bytes)?;
                Ok(StoredValue::Array(bytes))
            }
            (FieldKind::Custom { row_size, .. }, FieldValue::Custom(bytes)) => {
                check_length(name, *row_size as u64, &bytes)?;
                Ok(StoredValue::Custom(bytes))
            }
            (kind, value) => Err(WriteSampleError::Kind {
                field: name.clone(),
                expected: kind.word(),
                found: value.word(),
            }),
        }
    }
}

fn images(sample: &mut [StoredValue]) -> impl Iterator<Item = &mut StoredImage> {
    sample.iter_mut().filter_map(|stored| match stored {
        StoredValue::Image(image) => Some(image),
        _ => None,
    })
}

fn check_length(field: &str, expected: u64, bytes: &[u8]) -> Result<(), WriteSampleError> {
    if bytes.len() as u64 != expected {
        return Err(WriteSampleError::Length {
            field: field.to_owned(),
            expected,
            found: bytes.len(),
        });
    }
    Ok(())
}

/// Returns the bytes of a page that a sample takes: at least one per value, see [`super::pages`].
pub(super) fn room(sample: &[StoredValue]) -> u64 {
    sample.iter().filter_map(StoredValue::in_pages).map(|bytes| bytes.len().max(1) as u64).sum()
}
