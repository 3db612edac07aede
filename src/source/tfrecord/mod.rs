//! TFRecord files of `tf.train.Example` and `SequenceExample`.
//!
//! ```text
//! names ─▶ shards ─▶ frame::scan (lengths) ─▶ where records lie ─▶ TfRecords: a Source, in any order
//!             └────▶ one after another, also compressed ────────▶ TfRecordStream
//! record: frame (both CRCs) ─▶ Example (protobuf) ─▶ features ─▶ fields
//! ```

#[cfg_attr(
    not(feature = "write"),
    allow(dead_code, reason = "half of it is for what writes such files")
)]
pub(crate) mod detection;
pub(crate) mod example;
mod features;
mod frame;
#[cfg_attr(
    not(feature = "write"),
    allow(dead_code, reason = "half of it is for what writes such files")
)]
pub(crate) mod marks;
mod sequence;
mod stream;
#[cfg(test)]
mod tests;

use crate::error::{Error, ErrorKind, fail};
pub use features::{Feature, TfOptions};
pub(crate) use frame::masked_crc32c;
pub(in crate::source) use frame::scan;
pub use stream::TfRecordStream;

use super::index_file::{IndexedShards, Kind, Scanned, load, pack};
use super::samples::address;
use super::shards::{Extents, PackedIndex, Shard, Shards};
use super::starts::Starts;
use super::{
    BoxError, Buffer, Facts, Fingerprint, Location, Record, Run, RunPlan, SampleLocation, Source,
    Value, classes,
};
use crate::sample::{Limits, SampleId};
use example::Example;
use features::{FeatureColumns, OTHERS, completed};
use prost::Message as _;
use std::ops::Range;
use std::sync::Arc;

/// Records of TFRecord files, read in any order.
///
/// Opening reads the length of every record: one short read per record, several files at a time; or an index
/// ([`index_shards`](super::index_shards), [`join_index`](super::join_index)). A file
/// that is cut short, or has a wrong length, is refused at that point; data is checked by its CRC when
/// it is read. Compressed files can't be read in any order: see [`TfRecordStream`].
///
/// Each field is a feature; see [`TfOptions`]. If a feature is missing, or has another type or number of
/// values, reading its sample is an error.
///
/// ```no_run
/// use fuseloop::Loader;
/// use fuseloop::source::{Feature, TfOptions, TfRecords};
///
/// let options = TfOptions::default().feature("image/encoded", Feature::Image);
/// let records = TfRecords::open("train-*.tfrecord", &options)?;
/// let loader = Loader::from_source(records).batch_size(256).build()?;
/// # Ok::<(), fuseloop::Error>(())
/// ```
#[derive(Clone)]
pub struct TfRecords {
    facts: Facts,
    shards: Shards,
    index: Arc<RecordIndex>,
    features: Arc<FeatureColumns>,
    limits: Limits,
}

/// The offsets of all records.
struct RecordIndex {
    indexes: Vec<Arc<PackedIndex>>,
    starts: Starts,
}

impl RecordIndex {
    fn new(indexes: Vec<Arc<PackedIndex>>) -> Self {
        let starts = indexes.iter().map(|index| index.len() as u64).collect();
        Self { indexes, starts }
    }

    /// Returns a sample's shard, its number in the shard, and the byte range of its data.
    ///
    /// # Errors
    ///
    /// Fails if there is no such sample, or if the index is damaged.
    fn locate(&self, sample: SampleId) -> Result<(usize, u64, Range<u64>), Error> {
        let none = || fail!(Parameter, "sample {sample} does not exist");
        let (shard, record) = self.starts.locate(sample).ok_or_else(none)?;
        let number = usize::try_from(record.0).map_err(|_| none())?;
        let members = self.indexes[shard].members(number)?;
        let part = members.first().ok_or_else(none)?;
        Ok((shard, record.0, part.range()))
    }
}

impl Extents for RecordIndex {
    fn extents(&self, sample: SampleId, _: &[usize], out: &mut Vec<(usize, Range<u64>)>) {
        if let Ok((shard, _, data)) = self.locate(sample) {
            let start = data.start.saturating_sub(frame::HEADER);
            out.push((shard, start..data.end.saturating_add(frame::FOOTER)));
        }
    }
}

impl TfRecords {
    /// Opens the files that `spec` names: paths or addresses, with braces, `::` and `*` for several. The
    /// fields are the features that the options list, or else those of the first record.
    ///
    /// # Errors
    ///
    /// Fails if a file can't be opened, is compressed or cut short, or has a damaged length, if there is no
    /// record, if the options list no valid fields, or if one number means different classes in two files, by the names
    /// of their classes.
    pub fn open(spec: &str, options: &TfOptions) -> Result<Self, Error> {
        Self::at(&Location::parse(spec)?, options)
    }

    /// Opens the files of a list.
    ///
    /// # Errors
    ///
    /// Fails as [`open`](Self::open) does.
    pub(in crate::source) fn at(
        locations: &[Location],
        options: &TfOptions,
    ) -> Result<Self, Error> {
        classes::check_shards(locations.iter())?;
        let limits = &options.limits;
        IndexedShards::at(locations, Kind::TfRecord, limits, scan_with(limits))
            .and_then(|indexed| Self::of_indexes(indexed, options))
            .map_err(|error| Error::boxed(error, ErrorKind::Format))
    }

    /// Opens a file that is in memory.
    #[cfg(any(
        test,
        all(feature = "spec", feature = "tables", feature = "tar", feature = "write")
    ))]
    pub(crate) fn from_bytes(bytes: &[u8], options: &TfOptions) -> Result<Self, BoxError> {
        Self::of_shards(Shards::new([Shard::held("held in memory", bytes)]), options)
    }

    /// Indexes the records of open files.
    #[cfg(any(
        test,
        all(feature = "spec", feature = "tables", feature = "tar", feature = "write")
    ))]
    pub(in crate::source) fn of_shards(
        shards: Shards,
        options: &TfOptions,
    ) -> Result<Self, BoxError> {
        let scan = scan_with(&options.limits);
        Self::of_indexes(IndexedShards::of(shards, Kind::TfRecord, scan)?, options)
    }

    fn of_indexes(indexed: IndexedShards, options: &TfOptions) -> Result<Self, BoxError> {
        let IndexedShards { shards, indexes, .. } = indexed;
        let limits = options.limits;
        let lies = RecordIndex::new(indexes.into_iter().map(Arc::new).collect());
        if lies.starts.samples() > limits.max_samples {
            let (name, count, max) = (shards.name(), lies.starts.samples(), limits.max_samples);
            return Err(format!("{name}: {count} records, the limit is {max}").into());
        }
        let features = if options.asks() {
            FeatureColumns::asked(options)?
        } else {
            let at = |located| example_at(&shards, located, &limits, &mut vec![]);
            if lies.starts.samples() == 0 {
                return Err(no_records(&shards.name()));
            }
            let first = at(lies.locate(SampleId(0))?)?;
            let others = (1..=OTHERS as u64).map_while(|n| lies.locate(SampleId(n)).ok());
            let others = others.map(|(shard, record, data)| {
                let mut buffer = vec![];
                let frame = frame::read_at(&shards.all()[shard], record, &data, &mut buffer)?;
                // Damage of another record is an error when it is read.
                Ok(frame::checked(frame, &limits).and_then(parse).ok())
            });
            let others = others.collect::<Result<Vec<_>, Error>>()?;
            FeatureColumns::of(&completed(
                first,
                &others.into_iter().flatten().collect::<Vec<_>>(),
            ))?
        };
        Ok(Self::of_index(shards, lies, Arc::new(features), limits))
    }

    /// The records of one open file whose index is known.
    fn of_indexed(
        shard: Shard,
        index: Arc<PackedIndex>,
        features: Arc<FeatureColumns>,
        limits: Limits,
    ) -> Self {
        Self::of_index(Shards::new([shard]), RecordIndex::new(vec![index]), features, limits)
    }

    fn of_index(
        shards: Shards,
        index: RecordIndex,
        features: Arc<FeatureColumns>,
        limits: Limits,
    ) -> Self {
        let mut print = Fingerprint::default();
        print.text("tfrecord");
        print.fields(&features.fields);
        for (shard, index) in shards.all().iter().zip(&index.indexes) {
            print.text(shard.location.file_name());
            print.number(index.shard_len);
            print.number(index.len() as u64);
        }
        let objects = features.objects.clone();
        let facts = shards.facts(Arc::clone(&features.fields), index.starts.samples());
        let facts = Facts { fingerprint: print.value(), ..facts }
            .with_object_fields(move || Ok(objects.clone()));
        Self { facts, shards, index: Arc::new(index), features, limits }
    }

    fn record(&self, sample: SampleId, buffer: &mut Vec<u8>) -> Result<Record, BoxError> {
        let located = self.index.locate(sample)?;
        let (shard, record, data) = located.clone();
        let example = example_at(&self.shards, located, &self.limits, buffer)?;
        let at = frame::at(&self.shards.all()[shard], record, data.start - frame::HEADER);
        Ok(self.features.record(example, &self.limits).map_err(at)?)
    }
}

/// Reads and parses a record.
fn example_at(
    shards: &Shards,
    (shard, record, data): (usize, u64, Range<u64>),
    limits: &Limits,
    buffer: &mut Vec<u8>,
) -> Result<Example, Error> {
    let shard = &shards.all()[shard];
    let bytes = frame::get(shard, record, &data, limits, buffer)?;
    parse(bytes).map_err(frame::at(shard, record, data.start - frame::HEADER))
}

/// The file of a record, and the record's key: `x.tfrecord:3`. The key is the same in every source.
fn record_location(file: &Location, record: u64) -> SampleLocation {
    let key = format!("{}:{record}", file.file_name());
    SampleLocation::in_file(file.text(), Some(key.into()))
}

/// Decodes a record's message.
fn parse(data: &[u8]) -> Result<Example, Error> {
    Example::decode(data).map_err(|error| {
        fail!(Damaged, "neither a tf.train.Example nor a SequenceExample: {error}")
    })
}

fn no_records(name: &str) -> BoxError {
    format!("{name}: no records, so the fields are unknown: list features in `TfOptions`").into()
}

/// Returns a function that finds the records of a file by their lengths.
fn scan_with(limits: &Limits) -> impl Fn(&Shard) -> Result<Scanned, BoxError> + Sync + Send {
    |shard| Ok(Scanned { index: scan(shard, limits)?, is_open: false })
}

/// Returns the offsets of a file's records.
fn index(shard: &Shard, limits: &Limits) -> Result<PackedIndex, BoxError> {
    let index = match load(shard, Kind::TfRecord)? {
        Some(index) => index,
        None => scan(shard, limits)?,
    };
    let (packed, _) = pack(shard, Kind::TfRecord, &index)?;
    // A stream locates every record.
    Ok(packed.unpacked(index))
}

/// Counts the intact records of a file that is read in sequence: for fuzzing.
#[cfg_attr(
    not(all(feature = "spec", feature = "tables", feature = "tar", feature = "write")),
    allow(dead_code, reason = "the fuzz checks need all formats")
)]
pub(crate) fn good_in_sequence(bytes: &[u8], limits: Limits) -> u64 {
    let shard = Shard::held("held in memory", bytes);
    let Ok(mut sequence) = sequence::Sequence::open(&shard, limits) else { return 0 };
    let mut good = 0;
    while let Ok(Some((.., data))) = sequence.next() {
        good += u64::from(data.is_ok_and(|data| parse(data).is_ok()));
    }
    good
}

impl Source for TfRecords {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn read(&self, sample: SampleId) -> Result<Record, BoxError> {
        self.record(sample, &mut vec![])
    }

    fn value<'a>(
        &'a self,
        sample: SampleId,
        field: usize,
        buffer: &'a mut Buffer,
    ) -> Result<Value<'a>, BoxError> {
        // The buffer is borrowed while a record is read, so its memory is reused for the next record.
        let mut bytes = std::mem::take(&mut buffer.bytes);
        let read = || self.record(sample, &mut bytes);
        let outcome = buffer.load_record((address(self), sample), &self.features.fields, read);
        buffer.bytes = bytes;
        outcome?;
        buffer.record_value(field).ok_or_else(|| format!("field {field} does not exist").into())
    }

    /// The byte range is that of the whole record.
    fn locate(&self, sample: SampleId, _: usize) -> Option<SampleLocation> {
        let (shard, record, data) = self.index.locate(sample).ok()?;
        let location = &self.shards.all()[shard].location;
        Some(SampleLocation { bytes: Some(data), ..record_location(location, record) })
    }

    fn locality_group(&self, sample: SampleId) -> Option<u64> {
        self.index.starts.locate(sample).map(|(shard, _)| shard as u64)
    }

    fn begin(self: Arc<Self>, run: &RunPlan) -> Result<Option<Run>, BoxError> {
        let extents = Arc::clone(&self.index) as Arc<dyn Extents>;
        let ahead = self.shards.ahead(run, extents)?;
        Ok(ahead.map(|shards| Run::new(Arc::new(Self { shards, ..(*self).clone() }))))
    }
}
