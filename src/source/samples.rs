//! What every stage after it reads samples by: [`Source`], and the memory a read needs.
//!
//! ```text
//! user's source:  read(sample)  -> Record                       kept in the buffer for all fields
//! .beton file:    value(sample, field, buffer) -> Value         read into the buffer, or lent
//! ```

use super::file::LengthCheck;
use super::stream::Item;
use super::{ClassNames, FieldKind, FieldSpec, ImageStats, OwnedValue, SampleLocation, Value};
use crate::sample::{Epoch, SampleId};
use std::error::Error;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Any error, with its message.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// The fields of one sample, in the order of [`Source::fields`].
pub type Record = Vec<OwnedValue>;

/// Samples that can be read in any order, by several threads at once: a dataset.
///
/// A `.beton` file is one; so is whatever implements [`fields`](Self::fields), [`len`](Self::len)
/// and [`read`](Self::read). Reading a sample again must give the same.
///
/// ```
/// use fuseloop::{Loader, SampleId, ops::*};
/// use fuseloop::source::{BoxError, FieldKind, FieldSpec, OwnedImage, OwnedValue, Record, Source};
///
/// /// Squares in shades of gray.
/// struct Squares(Vec<FieldSpec>);
///
/// impl Source for Squares {
///     fn fields(&self) -> &[FieldSpec] {
///         &self.0
///     }
///
///     fn len(&self) -> u64 {
///         256
///     }
///
///     fn read(&self, sample: SampleId) -> Result<Record, BoxError> {
///         let shade = u8::try_from(sample.0)?;
///         let square = OwnedImage::rgb(8, 8, vec![shade; 8 * 8 * 3]);
///         Ok(vec![OwnedValue::Image(square), OwnedValue::Int(i64::from(shade))])
///     }
/// }
///
/// let field = |name: &str, kind| FieldSpec { name: name.to_owned(), kind };
/// let fields = vec![field("image", FieldKind::RgbImage), field("label", FieldKind::Int)];
/// let loader = Loader::from_source(Squares(fields))
///     .batch_size(16)
///     .pipeline("image", |_| Ok(ops![RandomCrop::new(6, 6)?]))
///     .build()?;
/// let batch = loader.epoch(0)?.next().ok_or("an epoch has batches")??;
/// assert_eq!(batch.tensor::<i64>("label")?.as_slice()[3], 3);
/// # Ok::<(), BoxError>(())
/// ```
#[expect(clippy::len_without_is_empty, reason = "a count of samples, not a collection")]
pub trait Source: Send + Sync + 'static {
    /// What a sample has, in order.
    fn fields(&self) -> &[FieldSpec];

    /// Number of samples; of a stream whose end only reading it tells,
    /// [`UNKNOWN`](crate::sample::UNKNOWN).
    fn len(&self) -> u64;

    /// All fields of a sample.
    ///
    /// # Errors
    ///
    /// Why it can't be had. Loaders add the sample's number and where it is from.
    fn read(&self, sample: SampleId) -> Result<Record, BoxError>;

    /// What it is called in errors: a path, an address.
    fn name(&self) -> String {
        "the source".to_owned()
    }

    /// The file it is, if it is one.
    fn path(&self) -> Option<&Path> {
        None
    }

    /// The files and folders of this machine that it is read from, in an order that stays the same. A
    /// conversion tells by the sizes and times of the files whether the source has changed since it was
    /// stopped, and writes nothing over them. By default [`path`](Self::path) alone.
    fn paths(&self) -> Box<dyn Iterator<Item = PathBuf> + '_> {
        Box::new(self.path().map(Path::to_owned).into_iter())
    }

    /// One field of a sample: lent, or in `buffer`. A source of records needs none of its own: the
    /// record is read once for all fields.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read), and if a record is not of the source's fields.
    fn value<'a>(
        &'a self,
        sample: SampleId,
        field: usize,
        buffer: &'a mut Buffer,
    ) -> Result<Value<'a>, BoxError> {
        buffer.of_record((address(self), sample), self.fields(), || self.read(sample))?;
        buffer.recorded(field).ok_or_else(|| format!("it has no field {field}").into())
    }

    /// How many datasets it is put together of; 1 if it is one itself. Each can have ops of its own:
    /// [`LoaderBuilder::pipeline_of`](crate::LoaderBuilder::pipeline_of).
    fn parts(&self) -> usize {
        1
    }

    /// Which of its [`parts`](Self::parts) a sample is of.
    ///
    /// # Errors
    ///
    /// As [`value`](Self::value), where that is only known once the sample is at hand.
    fn part(&self, sample: SampleId, buffer: &mut Buffer) -> Result<usize, BoxError> {
        let _ = (sample, buffer);
        Ok(0)
    }

    /// The sizes of a field's pictures, if they are known without reading them all. Without them
    /// any size is expected, and a pipeline must begin with an op that gives all one size.
    fn image_stats(&self, field: usize) -> Option<ImageStats> {
        let _ = field;
        None
    }

    /// Bytes of the longest value of a Bytes or JSON field, if that is known.
    fn longest(&self, field: usize) -> Option<u64> {
        let _ = field;
        None
    }

    /// Whether reading a sample again costs little more than a copy, as from a file that the system
    /// has in its own cache. Of such a source a loader's cache keeps only what had to be decoded;
    /// of others all that is read, as far as there is room.
    fn is_cheap_to_read_again(&self) -> bool {
        false
    }

    /// Where a value of a sample is stored: its file, the sample's key there, and the bytes. Errors
    /// and lists of damage name a sample by it, and a converted dataset takes the key over. It says
    /// nothing about whether the bytes are whole. `None` for a sample that the source has not, and
    /// where nothing is known.
    fn locate(&self, sample: SampleId, field: usize) -> Option<SampleLocation> {
        let _ = (sample, field);
        None
    }

    /// Names of the classes, by the numbers in the field that is a sample's class; `None` where they
    /// are not known. They are read when they are asked for: opening a dataset does not need them.
    ///
    /// # Errors
    ///
    /// If the file that the names lie in is damaged.
    fn class_names(&self) -> Result<Option<ClassNames>, BoxError> {
        Ok(None)
    }

    /// Which part of the storage a sample lies in, where reading a whole part is cheaper than
    /// reading its samples here and there: a page, a shard. For
    /// [`Order::QuasiRandom`](crate::order::Order).
    fn page(&self, sample: SampleId) -> Option<u64> {
        let _ = sample;
        None
    }

    /// What tells this dataset from another, the same in every process: a cursor of one is refused
    /// by another. By default a function of the fields and the number of samples.
    fn fingerprint(&self) -> u64 {
        let mut print = Fingerprint::default();
        print.number(self.len());
        print.fields(self.fields());
        print.value()
    }

    /// The source as one run reads it, where the order in which samples will be asked for is of
    /// use: to read ahead. `None`, the default: as it is.
    ///
    /// # Errors
    ///
    /// If such a run can't be had, as for want of memory.
    fn begin(self: Arc<Self>, run: &RunPlan) -> Result<Option<Arc<dyn Source>>, BoxError> {
        let _ = run;
        Ok(None)
    }

    /// The run that this was [begun](Self::begin) for is over: what reads ahead may stop. What is
    /// still asked for is given all the same.
    fn end(&self) {}
}

/// What is known of a run before it begins.
#[derive(Clone)]
pub struct RunPlan {
    /// The loader's seed.
    pub seed: u64,
    /// The epoch.
    pub epoch: Epoch,
    /// The samples in the order in which rows will be made of them.
    pub upcoming: Arc<dyn Upcoming>,
    /// Rows of a batch.
    pub batch_size: usize,
    /// Batches begun before they are asked for.
    pub batches_ahead: usize,
    /// The fields that are read.
    pub fields: Vec<usize>,
}

/// The samples of a run, in order.
pub trait Upcoming: Send + Sync {
    /// How many there are.
    fn samples(&self) -> u64;

    /// Appends those at `places`, which end at or before `samples()`.
    fn at(&self, places: Range<u64>, samples: &mut Vec<SampleId>);
}

/// What tells a source from others that one buffer is used for.
pub(super) fn address<S: ?Sized>(source: &S) -> usize {
    std::ptr::from_ref(source).cast::<()>().addr()
}

/// Memory that values are read into: one for each thread, used again from sample to sample.
#[derive(Default)]
pub struct Buffer {
    pub(super) bytes: Vec<u8>,
    /// If it is there, the lengths of files are looked at after several reads, not after each.
    pub(super) check: Option<LengthCheck>,
    /// What a value is lent from, kept as long as that.
    pub(super) held: Option<Arc<dyn AsRef<[u8]> + Send + Sync>>,
    /// The record read last: of which source, by its address, and sample.
    record: Option<((usize, SampleId), Record)>,
    /// An item of a stream, and the memory that reading it needs.
    item: Option<(SampleId, Item)>,
    inner: Option<Box<Buffer>>,
}

impl Buffer {
    /// Has the next value read anew, also if it is of the same sample. What was lent is given up.
    pub fn forget(&mut self) {
        self.held = None;
        self.record = None;
        self.item = None;
        if let Some(inner) = &mut self.inner {
            inner.forget();
        }
    }

    /// Says whether the lengths of files are looked at by [`check_lengths`](Self::check_lengths), after
    /// several reads, or after each read. Reads noted before are forgotten.
    pub(crate) fn check_lengths_later(&mut self, later: bool) {
        match &mut self.check {
            Some(check) if later => check.forget(),
            check => *check = later.then(LengthCheck::default),
        }
    }

    /// Looks at the length of the file that was read. After an error, no value that was read since
    /// [`check_lengths_later`](Self::check_lengths_later) may be used.
    ///
    /// # Errors
    ///
    /// If the file was cut short.
    pub(crate) fn check_lengths(&mut self) -> Result<(), BoxError> {
        Ok(self.check.as_mut().map_or(Ok(()), LengthCheck::pass)?)
    }

    /// Has it hold an item of a stream, unless it is the one it holds.
    pub(super) fn of_item(
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

    /// One field of the item it holds.
    pub(super) fn of_its_item(&mut self, field: usize) -> Result<Value<'_>, BoxError> {
        let Some((_, item)) = &self.item else { return Err("no item is held".into()) };
        item.value(field, self.inner.get_or_insert_default())
    }

    /// The part of the stream that the item it holds is of.
    pub(super) fn part_of_its_item(&self) -> Result<usize, BoxError> {
        let Some((_, item)) = &self.item else { return Err("no item is held".into()) };
        item.part()
    }

    /// Reads a sample's record, unless it is the one read last.
    pub(super) fn of_record(
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

    pub(super) fn recorded(&self, field: usize) -> Option<Value<'_>> {
        let (_, record) = self.record.as_ref()?;
        record.get(field).map(OwnedValue::borrowed)
    }
}

/// Refuses a record whose values are not what the fields say.
pub(super) fn check_record(record: &Record, fields: &[FieldSpec]) -> Result<(), BoxError> {
    if record.len() != fields.len() {
        let (found, wanted) = (record.len(), fields.len());
        return Err(format!("a record of {found} values, there are {wanted} fields").into());
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
    format!("field {name} is {kind:?}, the record has {found}")
}

/// FNV-1a over numbers and texts: not against malice, but the same everywhere and for ever.
#[derive(Clone, Copy, Debug)]
pub struct Fingerprint(u64);

impl Default for Fingerprint {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fingerprint {
    /// Adds bytes, as many as there are.
    pub fn bytes(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// Adds a number.
    pub fn number(&mut self, number: u64) {
        self.bytes(&number.to_le_bytes());
    }

    /// Adds a text, and that it ends here.
    pub fn text(&mut self, text: &str) {
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

    /// Of all that was added.
    #[must_use]
    pub fn value(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Two {
        fields: Vec<FieldSpec>,
        record: Record,
    }

    impl Source for Two {
        fn fields(&self) -> &[FieldSpec] {
            &self.fields
        }

        fn len(&self) -> u64 {
            2
        }

        fn read(&self, sample: SampleId) -> Result<Record, BoxError> {
            if sample.0 == 1 { Err("it is gone".into()) } else { Ok(self.record.clone()) }
        }
    }

    fn two(record: Record) -> Two {
        let field = |name: &str, kind| FieldSpec { name: name.to_owned(), kind };
        Two { fields: vec![field("a", FieldKind::Int), field("b", FieldKind::Bytes)], record }
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
        let told = |record| {
            let mut buffer = Buffer::default();
            two(record).value(SampleId(0), 0, &mut buffer).unwrap_err().to_string()
        };
        assert_eq!(told(vec![]), "a record of 0 values, there are 2 fields");
        let error = told(vec![OwnedValue::Int(4), OwnedValue::Int(5)]);
        assert_eq!(error, "field b is Bytes, the record has an int");
    }

    #[test]
    fn fingerprints_are_fnv_1a() {
        let mut print = Fingerprint::default();
        print.bytes(b"foobar");
        assert_eq!(print.value(), 0x8594_4171_f739_67e8);
    }
}
