//! [`Source`], the trait that every later stage reads samples through, and the memory that a read needs.
//!
//! ```text
//! user's source:  read(sample)  -> Record                       stored in the buffer, serves all fields
//! .beton file:    value(sample, field, buffer) -> Value         read into the buffer, or borrowed
//! ```

mod facts;
mod frame_fields;
mod item;
mod partial_image;

pub use facts::Facts;
pub use frame_fields::FrameSource;
pub(crate) use frame_fields::{
    FrameCount, FrameError, FrameFields, FrameImage, FramePixels, TakeFrame,
};
#[cfg(any(feature = "tar", feature = "tfrecord"))]
pub(super) use item::UnreadableRecord;
pub use item::{Item, LazyRecord};
pub use partial_image::ImageExtent;
pub(crate) use partial_image::{PartialImage, read_image_part};

use super::file::LengthCheck;
use super::{
    BoxError, ClassNames, FieldKind, FieldSpec, ImageStats, ObjectFields, OwnedValue, RunPlan,
    SampleLocation, Value,
};
use crate::sample::SampleId;
use fuseloop_ops::Size;
use std::fmt;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The fields of one sample, in the order of [`Facts::fields`].
///
/// ```
/// use fuseloop::source::{OwnedImage, OwnedValue, Record};
///
/// let record: Record = vec![OwnedValue::Image(OwnedImage::rgb(8, vec![0; 8 * 8 * 3])), OwnedValue::Int(3)];
/// assert_eq!(record.len(), 2);
/// ```
pub type Record = Vec<OwnedValue>;

/// Reads the values of all fields of a sample, one after another: [`Source::read`] of a source that has its own
/// [`Source::value`].
pub(crate) fn read_values(source: &impl Source, sample: SampleId) -> Result<Record, BoxError> {
    let mut buffer = Buffer::default();
    let fields = 0..source.facts().fields.len();
    fields.map(|field| Ok(OwnedValue::from(source.value(sample, field, &mut buffer)?))).collect()
}

/// Samples that can be read in any order, by several threads at once: a dataset.
///
/// A `.beton` file is a source; so is any type that implements [`facts`](Self::facts) and [`read`](Self::read). Reading a
/// sample again must return the same values. [`InMemory`](super::InMemory) is a source of columns or of a function,
/// without a type of its own.
///
/// ```
/// use fuseloop::{Loader, SampleId, ops::*};
/// use fuseloop::source::{BoxError, Facts, FieldKind, OwnedImage, OwnedValue, Record, Source};
///
/// /// Squares in shades of gray.
/// struct Squares(Facts);
///
/// impl Source for Squares {
///     fn facts(&self) -> &Facts {
///         &self.0
///     }
///
///     fn read(&self, sample: SampleId) -> Result<Record, BoxError> {
///         let shade = u8::try_from(sample.0)?;
///         let square = OwnedImage::rgb(8, vec![shade; 8 * 8 * 3]);
///         Ok(vec![OwnedValue::Image(square), OwnedValue::Int(i64::from(shade))])
///     }
/// }
///
/// let fields = [("image", FieldKind::RgbImage), ("label", FieldKind::Int)];
/// let loader = Loader::from_source(Squares(Facts::new(fields, 256)))
///     .batch_size(16)
///     .pipeline("image", ops![RandomCrop::new(6)?])
///     .build()?;
/// let batch = loader.epoch(0)?.next().ok_or("an epoch has batches")??;
/// assert_eq!(batch.tensor::<i64>("label")?.as_slice()[3], 3);
/// # Ok::<(), BoxError>(())
/// ```
pub trait Source: Send + Sync + 'static {
    /// Returns what is known without reading a sample: the fields, the number of samples, the name, and more. A source
    /// that wraps another one returns that source's facts, or a changed clone of them.
    fn facts(&self) -> &Facts;

    /// Reads all fields of a sample.
    ///
    /// # Errors
    ///
    /// Returns the reason why the sample can't be read. Loaders add the sample's number and its location
    /// to the message.
    fn read(&self, sample: SampleId) -> Result<Record, BoxError>;

    /// Reads one field of a sample. The value is borrowed from the source or from `buffer`. The default
    /// reads the whole record once and serves all fields from it, so a source that returns records need
    /// not override it.
    ///
    /// # Errors
    ///
    /// Fails as [`read`](Self::read) does, and if a record does not match the source's fields.
    fn value<'a>(
        &'a self,
        sample: SampleId,
        field: usize,
        buffer: &'a mut Buffer,
    ) -> Result<Value<'a>, BoxError> {
        value_of_record(self, sample, field, buffer)
    }

    /// Returns where a value of a sample is stored: its file, the sample's key there, and the byte
    /// range. Errors and damage reports name a sample by its location, and a converted dataset takes
    /// over the key. A location does not imply that the bytes are intact. `None` for a sample that the
    /// source does not have, and where nothing is known.
    fn locate(&self, sample: SampleId, field: usize) -> Option<SampleLocation> {
        let _ = (sample, field);
        None
    }

    /// Returns the index of the component that a sample belongs to; see
    /// [`Facts::components`]. A source with several components must override it.
    ///
    /// # Errors
    ///
    /// Fails as [`value`](Self::value) does, in a source that must read the sample to find its
    /// component.
    fn component(&self, sample: SampleId, buffer: &mut Buffer) -> Result<usize, BoxError> {
        let _ = (sample, buffer);
        match self.facts().components {
            0 | 1 => Ok(0),
            several => {
                Err(format!("a source of {several} components must implement `component`").into())
            }
        }
    }

    /// Returns the number of the storage unit, such as a page or a shard, that holds a sample, if
    /// reading a whole unit is cheaper than reading its samples one by one.
    /// [`Order::QuasiRandom`](crate::order::Order) reads samples unit by unit.
    fn locality_group(&self, sample: SampleId) -> Option<u64> {
        let _ = sample;
        None
    }

    /// Begins a run, for a source that can use the order of the samples to read ahead. `None`, the default, means that
    /// the run reads the source itself.
    ///
    /// # Errors
    ///
    /// Fails if the run can't begin, for example for lack of memory.
    fn begin(self: Arc<Self>, run: &RunPlan) -> Result<Option<Run>, BoxError> {
        let _ = run;
        Ok(None)
    }

    /// Returns what only the files that this crate reads can do.
    #[doc(hidden)]
    fn stored(&self) -> Option<&dyn StoredValues> {
        None
    }
}

/// A source as one run reads it. Dropping it tells the source that the run is over, so that reading ahead may stop; reads
/// of the source still succeed.
///
/// ```
/// use fuseloop::source::{BoxError, Run, RunPlan, Source};
/// use std::sync::Arc;
///
/// /// Begins a run, and says when it is over.
/// fn announced(source: Arc<dyn Source>, plan: &RunPlan) -> Result<Run, BoxError> {
///     let run = match Arc::clone(&source).begin(plan)? {
///         Some(run) => run,
///         None => Run::new(source),
///     };
///     Ok(Run::new(Arc::clone(&run)).on_end(move || {
///         drop(run);
///         println!("the run is over");
///     }))
/// }
/// ```
#[must_use]
pub struct Run {
    source: Arc<dyn Source>,
    end: Option<Box<dyn FnOnce() + Send + Sync>>,
}

impl Run {
    /// Returns a run that reads `source`.
    pub fn new(source: Arc<dyn Source>) -> Self {
        Self { source, end: None }
    }

    /// Sets a function that is called when the run is dropped.
    pub fn on_end(mut self, end: impl FnOnce() + Send + Sync + 'static) -> Self {
        self.end = Some(Box::new(end));
        self
    }
}

/// Returns the source that the run reads.
impl Deref for Run {
    type Target = Arc<dyn Source>;

    fn deref(&self) -> &Arc<dyn Source> {
        &self.source
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if let Some(end) = self.end.take() {
            end();
        }
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("source", &self.source.facts()).finish_non_exhaustive()
    }
}

/// The abilities of files that this crate itself reads. Other crates can't name this trait.
#[doc(hidden)]
pub trait StoredValues: Send + Sync {
    /// Returns the size of the picture that the annotations of a sample are of, if they have one.
    fn annotated_size(&self, sample: SampleId) -> Option<Size> {
        let _ = sample;
        None
    }

    /// Compares the files with the hashes that the dataset lists. Returns the first sample of each file that differs, and
    /// a sentence that says how.
    fn changed_files(&self) -> Vec<(SampleId, String)> {
        vec![]
    }

    /// Reads all bytes of the dataset into memory, from where values are borrowed from then on. Does nothing to a
    /// dataset that can't be held.
    fn hold_in_memory(&self) -> Result<(), BoxError> {
        Ok(())
    }

    /// Asks the processor for the memory that finding a value will need, if it is known. A hint that waits for nothing.
    fn expect_read(&self, sample: SampleId, field: usize) {
        let _ = (sample, field);
    }

    /// Returns a value that lies in memory, so that it is read without a buffer; `None` for all others, and for values
    /// that can't be read.
    fn value_in_memory(&self, sample: SampleId, field: usize) -> Option<Value<'_>> {
        let _ = (sample, field);
        None
    }

    /// Returns the path of a local file that is a stored value as a whole.
    fn value_file(&self, sample: SampleId, field: usize) -> Option<PathBuf> {
        let _ = (sample, field);
        None
    }

    /// Returns the dataset with its fields of frames, if it has some, as loaders read it.
    fn frame_fields(&self) -> Option<FrameSource> {
        None
    }

    /// Returns the extent of a stored image of which parts can be read without the others; `None` for all other values,
    /// for those that lie in memory, and for those of which a part costs as much as all bytes.
    fn image_extent(&self, sample: SampleId, field: usize) -> Option<ImageExtent> {
        let _ = (sample, field);
        None
    }

    /// Reads bytes of an image that has an [extent](Self::image_extent), as many as there is room for, from a byte of
    /// the image on. Of the buffer only the check of lengths is used.
    ///
    /// # Errors
    ///
    /// Fails as [`Source::value`] does, and if the image ends before.
    fn image_part(
        &self,
        sample: SampleId,
        field: usize,
        to: (u64, &mut [u8]),
        buffer: &mut Buffer,
    ) -> Result<(), BoxError> {
        let _ = (to, buffer);
        Err(format!("sample {sample} has no image in field {field} that is read in parts").into())
    }
}

/// The facts of a source, one by one.
impl dyn Source {
    /// Returns the fields of a sample, in order.
    #[must_use]
    pub fn fields(&self) -> &[FieldSpec] {
        &self.facts().fields
    }

    /// Returns the number of samples, or [`UNKNOWN`](crate::sample::UNKNOWN).
    #[must_use]
    pub fn len(&self) -> u64 {
        self.facts().samples
    }

    /// Returns the name of the source for errors: a path or an address.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.facts().name
    }

    /// Returns the path of the source, if it is a single file.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.facts().path.as_deref()
    }

    /// Returns the local files and folders that the source is read from.
    pub fn paths(&self) -> Box<dyn Iterator<Item = PathBuf>> {
        self.facts().paths()
    }

    /// Returns the number of component datasets that the source is built from.
    #[must_use]
    pub fn components(&self) -> usize {
        self.facts().components
    }

    /// Returns the sizes of a field's images, if they are known without reading all of them.
    #[must_use]
    pub fn image_stats(&self, field: usize) -> Option<ImageStats> {
        self.facts().image_stats(field)
    }

    /// Returns the size in bytes of the longest value of a Bytes or JSON field, if it is known.
    #[must_use]
    pub fn longest(&self, field: usize) -> Option<u64> {
        self.facts().longest(field)
    }

    /// Reads the names of the classes; `None` if they are not known.
    ///
    /// # Errors
    ///
    /// Fails if the file that holds the names is damaged.
    pub fn class_names(&self) -> Result<Option<ClassNames>, BoxError> {
        self.facts().class_names()
    }

    /// Reads what the fields of annotated objects are; `None` if it is not known.
    #[doc(hidden)]
    pub fn object_fields(&self) -> Result<Option<ObjectFields>, BoxError> {
        self.facts().object_fields()
    }

    /// Returns a number that identifies the dataset, the same in every process.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        self.facts().fingerprint
    }

    /// Returns the number of bytes that are read to hold the dataset in memory; `None` if it can't be held.
    pub(crate) fn stored_bytes(&self) -> Option<u64> {
        self.facts().stored_bytes
    }

    /// Returns the size of the picture that the annotations of a sample are of, if they have one.
    #[doc(hidden)]
    #[must_use]
    pub fn annotated_size(&self, sample: SampleId) -> Option<Size> {
        self.stored()?.annotated_size(sample)
    }
}

/// Reads the whole record of a sample, once for all fields, and returns one of its values.
pub(super) fn value_of_record<'a, S: Source + ?Sized>(
    source: &S,
    sample: SampleId,
    field: usize,
    buffer: &'a mut Buffer,
) -> Result<Value<'a>, BoxError> {
    let read = || source.read(sample);
    buffer.load_record((address(source), sample), &source.facts().fields, read)?;
    buffer.record_value(field).ok_or_else(|| format!("field {field} does not exist").into())
}

/// Returns the address of a source, which distinguishes the sources that share one buffer.
pub(super) fn address<S: ?Sized>(source: &S) -> usize {
    std::ptr::from_ref(source).cast::<()>().addr()
}

/// Memory that values are read into. Each thread has a buffer and reuses it from sample to sample.
///
/// ```no_run
/// use fuseloop::SampleId;
/// use fuseloop::source::{BoxError, Buffer, Source, Value};
///
/// fn sum_of_labels(source: &dyn Source, field: usize) -> Result<i64, BoxError> {
///     let (mut buffer, mut sum) = (Buffer::default(), 0);
///     for sample in 0..source.len() {
///         if let Value::Int(label) = source.value(SampleId(sample), field, &mut buffer)? {
///             sum += label;
///         }
///     }
///     Ok(sum)
/// }
/// ```
#[derive(Default)]
pub struct Buffer {
    pub(super) bytes: Vec<u8>,
    /// If set, the lengths of files are checked once after several reads, not after each read.
    pub(super) check: Option<LengthCheck>,
    /// The memory that a value is borrowed from, held for as long as the value.
    pub(super) held: Option<Arc<dyn AsRef<[u8]> + Send + Sync>>,
    /// The record that was read last, with the address of its source and its sample.
    record: Option<((usize, SampleId), Record)>,
    /// An item of a stream. `inner` is the memory that reading the item needs.
    item: Option<(SampleId, Item)>,
    inner: Option<Box<Buffer>>,
}

impl Buffer {
    /// Makes the next value be read again, even if it belongs to the same sample. Borrowed memory is
    /// released.
    #[doc(hidden)]
    pub fn forget(&mut self) {
        self.held = None;
        self.record = None;
        self.item = None;
        if let Some(inner) = &mut self.inner {
            inner.forget();
        }
    }

    /// Sets whether the lengths of files are checked by [`check_lengths`](Self::check_lengths), once
    /// after several reads, or after each read. Reads noted before are forgotten.
    pub(crate) fn check_lengths_later(&mut self, later: bool) {
        match &mut self.check {
            Some(check) if later => check.forget(),
            check => *check = later.then(LengthCheck::default),
        }
    }

    /// Checks the length of the file that was read. After an error, no value that was read since
    /// [`check_lengths_later`](Self::check_lengths_later) may be used.
    ///
    /// # Errors
    ///
    /// Fails if the file was cut short.
    pub(crate) fn check_lengths(&mut self) -> Result<(), BoxError> {
        Ok(self.check.as_mut().map_or(Ok(()), LengthCheck::pass)?)
    }

    /// Stores an item of a stream in the buffer, unless the item of `sample` is already there.
    pub(super) fn store_item(
        &mut self,
        sample: SampleId,
        item: impl FnOnce() -> Result<Item, BoxError>,
    ) -> Result<(), BoxError> {
        if self.item.as_ref().is_none_or(|(of, _)| *of != sample) {
            self.forget();
            self.item = Some((sample, item()?));
        }
        Ok(())
    }

    /// Reads one field of the stored item.
    pub(super) fn item_value(&mut self, field: usize) -> Result<Value<'_>, BoxError> {
        let Some((_, item)) = &self.item else { return Err("no item is held".into()) };
        item.value(field, self.inner.get_or_insert_default())
    }

    /// Returns the component of the stream that the stored item belongs to.
    pub(super) fn item_component(&self) -> Result<usize, BoxError> {
        let Some((_, item)) = &self.item else { return Err("no item is held".into()) };
        item.component()
    }

    /// Reads a sample's record, unless it is the record that was read last.
    pub(super) fn load_record(
        &mut self,
        sample: (usize, SampleId),
        fields: &[FieldSpec],
        read: impl FnOnce() -> Result<Record, BoxError>,
    ) -> Result<(), BoxError> {
        if self.record.as_ref().is_some_and(|(of, _)| *of == sample) {
            return Ok(());
        }
        let record = read()?;
        check_record(&record, fields)?;
        self.record = Some((sample, record));
        Ok(())
    }

    pub(super) fn record_value(&self, field: usize) -> Option<Value<'_>> {
        let (_, record) = self.record.as_ref()?;
        record.get(field).map(OwnedValue::borrowed)
    }
}

/// Returns an error if the values of a record do not match the fields.
pub(super) fn check_record(record: &Record, fields: &[FieldSpec]) -> Result<(), BoxError> {
    if record.len() != fields.len() {
        let (found, wanted) = (record.len(), fields.len());
        return Err(
            format!("the record has {found} values, expected {wanted} (one per field)").into()
        );
    }
    match record.iter().zip(fields).find(|(value, field)| !value.fits(&field.kind)) {
        None => Ok(()),
        Some((value, FieldSpec { name, kind })) => Err(misfit(name, kind, value).into()),
    }
}

fn misfit(name: &str, kind: &FieldKind, value: &OwnedValue) -> String {
    let name = super::Escaped(name);
    let found = match value {
        OwnedValue::Float(_) => "a float".to_owned(),
        OwnedValue::Int(_) => "an int".to_owned(),
        OwnedValue::Image(image) => {
            format!("an image of {} x {}, {} bytes", image.width, image.height, image.bytes.len())
        }
        OwnedValue::Bytes(bytes) => format!("{} bytes", bytes.len()),
        OwnedValue::NdArray(bytes) => format!("an array of {} bytes", bytes.len()),
        OwnedValue::Json(bytes) => format!("JSON of {} bytes", bytes.len()),
        OwnedValue::Custom(bytes) => format!("{} bytes of a user's type", bytes.len()),
    };
    format!("field {name} is of the kind {}, the record has {found}", kind.described())
}

/// An FNV-1a hash of numbers and texts. It does not withstand deliberate collisions, but it is the same
/// on every machine and will never change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fingerprint(u64);

impl Default for Fingerprint {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fingerprint {
    /// Adds bytes, without their number.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// Adds a number.
    pub(crate) fn number(&mut self, number: u64) {
        self.bytes(&number.to_le_bytes());
    }

    /// Adds the length of a text, then its bytes.
    pub(crate) fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.bytes(text.as_bytes());
    }

    /// Adds the names and kinds of fields.
    pub(super) fn fields(&mut self, fields: &[FieldSpec]) {
        for field in fields {
            self.text(&field.name);
            self.text(&format!("{:?}", field.kind));
        }
    }

    /// Returns the hash of everything that was added.
    #[must_use]
    pub(crate) fn value(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::InMemory;

    fn two(record: Record) -> InMemory {
        let fields = [("a", FieldKind::Int), ("b", FieldKind::Bytes)];
        InMemory::from_fn(Facts::new(fields, 2), move |sample| match sample.0 {
            1 => Err("it is gone".into()),
            _ => Ok(record.clone()),
        })
    }

    #[test]
    fn a_record_serves_all_fields() {
        let source = two(vec![OwnedValue::Int(4), OwnedValue::Bytes(vec![1, 2])]);
        let mut buffer = Buffer::default();
        assert_eq!(source.value(SampleId(0), 0, &mut buffer).unwrap(), Value::Int(4));
        assert_eq!(source.value(SampleId(0), 1, &mut buffer).unwrap(), Value::Bytes(&[1, 2]));
        assert!(source.value(SampleId(0), 2, &mut buffer).is_err());
        let error = source.value(SampleId(1), 0, &mut buffer).unwrap_err();
        assert_eq!(error.to_string(), "it is gone");
    }

    #[test]
    fn a_record_that_is_not_as_the_fields_say_is_refused() {
        let message = |record| {
            let mut buffer = Buffer::default();
            two(record).value(SampleId(0), 0, &mut buffer).unwrap_err().to_string()
        };
        assert_eq!(message(vec![]), "the record has 0 values, expected 2 (one per field)");
        let error = message(vec![OwnedValue::Int(4), OwnedValue::Int(5)]);
        assert_eq!(error, "field b is of the kind bytes, the record has an int");
    }

    #[test]
    fn fingerprints_are_fnv_1a() {
        let mut print = Fingerprint::default();
        print.bytes(b"foobar");
        assert_eq!(print.value(), 0x8594_4171_f739_67e8);
    }
}
