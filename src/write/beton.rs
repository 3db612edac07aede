//! Copies a `.beton` file and re-cuts its JPEGs, stores them as bit planes, or restores them from bit planes.
//!
//! | part of the file        | in the new file                                             |
//! |-------------------------|-------------------------------------------------------------|
//! | fields, order, page size| the same                                                    |
//! | JPEGs of image fields   | re-cut ([`crate::recut`]) or bit planes; unchanged if they can't be; restored |
//! | every other value       | unchanged                                                   |
//! | user-defined fields     | refused: their rows may point to offsets that have moved    |
//!
//! Applying this to its own output produces the same bytes.

use super::atomic_file::check_free;
use super::beside::{Beside, refuse_input};
use super::step::unwatched;
use super::{
    FieldValue, ImageInput, ImageOptions, Samples, WriteOptions, WriteReport, write_samples,
};
use crate::error::{Error, ErrorKind};
use crate::sample::SampleId;
use crate::source::{Beton, FieldKind, FieldSpec, OwnedValue};
use std::path::Path;

/// Copies a `.beton` file and re-cuts its JPEGs, so that windows of them are cheap to decode. No pixel
/// changes.
///
/// A JPEG that can't be re-cut is copied unchanged and listed in [`WriteReport::unchanged`]. A sample that
/// can't be read is an error, or is left out: see [`WriteOptions::on_damaged`].
///
/// ```no_run
/// use fuseloop::write::{WriteOptions, recut_beton};
///
/// let report = recut_beton("train.beton", "tiled.beton", &WriteOptions::default())?;
/// println!("{} re-cut, {} kept as they are", report.recut, report.unchanged.count);
/// # Ok::<(), fuseloop::Error>(())
/// ```
///
/// # Errors
///
/// If a file can't be read or written, or if `out` exists and [`WriteOptions::overwrite`] is not set. `out` is then
/// unchanged, unless only its class names could not be written.
pub fn recut_beton(
    src: impl AsRef<Path>,
    out: impl AsRef<Path>,
    options: &WriteOptions,
) -> Result<WriteReport, Error> {
    recut(src.as_ref(), out.as_ref(), options)
}

fn recut(src: &Path, out: &Path, options: &WriteOptions) -> Result<WriteReport, Error> {
    let ImageOptions { tile, bit_planes, .. } = options.image;
    let tile = Some(tile.unwrap_or_default());
    let image = ImageOptions { tile, bit_planes, ..ImageOptions::default() };
    copy(src, out, options.copying(image), <[FieldSpec]>::to_vec)
}

/// Copies a file in pages of its own size, with what is beside it. `fields` returns the fields to write for those of the
/// file.
fn copy(
    src: &Path,
    out: &Path,
    options: WriteOptions,
    fields: fn(&[FieldSpec]) -> Vec<FieldSpec>,
) -> Result<WriteReport, Error> {
    refuse_input(src, out)?;
    check_free(out, options.overwrite)?;
    let beton = Beton::open(src, &options.limits.into()).map_err(|error| {
        let error = Error::from(error);
        match error.kind() {
            ErrorKind::NotFound => error.help("check the path: no such file or folder"),
            _ => error,
        }
    })?;
    let options = WriteOptions { page_size: Some(beton.header().page_size), ..options };
    let beside = Beside::of(&beton)?;
    let report = write_samples(&StoredSamples(&beton), &fields(beton.fields()), out, &options)?;
    beside.put(out, &unwatched)?;
    Ok(report)
}

/// Copies a `.beton` file and restores the JPEGs that are stored as bit planes, byte for byte, so that FFCV reads the
/// file.
///
/// ```no_run
/// use fuseloop::write::{WriteOptions, unpack_beton};
///
/// unpack_beton("planes.beton", "train.beton", &WriteOptions::default())?;
/// # Ok::<(), fuseloop::Error>(())
/// ```
///
/// # Errors
///
/// If a file can't be read or written, or if `out` exists and [`WriteOptions::overwrite`] is not set. `out` is then
/// unchanged, unless only its class names could not be written.
pub fn unpack_beton(
    src: impl AsRef<Path>,
    out: impl AsRef<Path>,
    options: &WriteOptions,
) -> Result<WriteReport, Error> {
    unpack(src.as_ref(), out.as_ref(), options)
}

fn unpack(src: &Path, out: &Path, options: &WriteOptions) -> Result<WriteReport, Error> {
    copy(src, out, options.copying(ImageOptions::default()), restored_fields)
}

/// Returns the fields of a file without bit planes.
pub(super) fn restored_fields(fields: &[FieldSpec]) -> Vec<FieldSpec> {
    let restored = |field: &FieldSpec| match field.kind {
        FieldKind::BitPlaneImage => FieldSpec { kind: FieldKind::RgbImage, ..field.clone() },
        _ => field.clone(),
    };
    fields.iter().map(restored).collect()
}

/// The samples of a file, to be written as stored.
struct StoredSamples<'a>(&'a Beton);

impl Samples for StoredSamples<'_> {
    fn count(&self) -> u64 {
        self.0.len()
    }

    fn sample(
        &self,
        id: SampleId,
    ) -> Result<Vec<FieldValue>, Box<dyn std::error::Error + Send + Sync>> {
        stored_values(self.0, id).map_err(Into::into)
    }
}

/// Reads a sample's values, to be written as stored.
pub(super) fn stored_values(beton: &Beton, id: SampleId) -> Result<Vec<FieldValue>, String> {
    let value = |(index, field): (usize, &FieldSpec)| {
        // Only the kind of the error: the writer adds the sample.
        let message = |error: Error| format!("field {:?}: {}", field.name, error.text());
        Ok(FieldValue::from_stored(beton.owned(id, index).map_err(message)?, &field.kind))
    };
    beton.fields().iter().enumerate().map(value).collect()
}

impl FieldValue {
    /// Converts a stored value of a field of this kind, to be written unchanged.
    pub(crate) fn from_stored(stored: OwnedValue, kind: &FieldKind) -> Self {
        match (stored, kind) {
            (OwnedValue::Float(value), _) => Self::Float(value),
            (OwnedValue::Int(value), _) => Self::Int(value),
            (OwnedValue::Image(image), _) => Self::Image(ImageInput::Stored(image)),
            (OwnedValue::Json(text), _) => Self::StoredJson(text),
            (OwnedValue::Custom(row), _) => Self::Custom(row),
            (OwnedValue::NdArray(bytes), FieldKind::NdArray { dtype, .. }) => {
                Self::NdArray { dtype: *dtype, bytes }
            }
            (OwnedValue::NdArray(bytes), FieldKind::TorchTensor { dtype, .. }) => {
                Self::TorchTensor { dtype: *dtype, bytes }
            }
            // An array in another kind of field is refused when it is written.
            (OwnedValue::Bytes(bytes) | OwnedValue::NdArray(bytes), _) => Self::Bytes(bytes),
        }
    }
}
