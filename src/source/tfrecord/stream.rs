//! TFRecord files read one after another, like tf.data's `TFRecordDataset`.
//!
//! | a shard is              | its items are                                          |
//! |-------------------------|--------------------------------------------------------|
//! | plain and local         | references: lengths are read when the shard's turn comes, records by the loader's workers |
//! | compressed or remote    | records, read in sequence                             |
//!
//! GZIP and ZLIB are detected by a file's first bytes. For the shards that a rank reads, and their
//! order, see `shards/shards_of_rank.rs`.

use super::features::{FeatureColumns, OTHERS, TfOptions, completed};
use super::frame::{self, Compression};
use super::sequence::{Data, Sequence};
use super::{TfRecords, index, no_records, parse, record_location};
use crate::error::{Error, ErrorKind};
use crate::sample::{Limits, SampleId, UNKNOWN};
use crate::source::samples::UnreadableRecord;
use crate::source::shards::{PackedIndex, Shard, facts_of};
use crate::source::stream::{Item, Items, Pass, Stream, Streamed, shards_of_rank};
use crate::source::{BoxError, Facts, Fingerprint, Location, SampleLocation, Source, classes};
use std::sync::{Arc, OnceLock};

/// The records of TFRecord files in sequence: plain, GZIP or ZLIB.
///
/// ```no_run
/// use fuseloop::source::{Stream, TfOptions, TfRecordStream};
///
/// let records = TfRecordStream::open("train-{000..255}.tfrecord.gz", &TfOptions::default())?;
/// let stream = Stream::from(records.shuffle_shards().split_by_rank(0, 8)?);
/// # Ok::<(), fuseloop::source::BoxError>(())
/// ```
///
/// If the data of a record is damaged, only its sample has an error. A wrong length, or a file that is
/// cut short, ends the stream with an error: no later record can be found. A file that was cut between two
/// records before it was opened counts as complete: TFRecord does not store the number of records.
#[derive(Clone)]
pub struct TfRecordStream {
    facts: Facts,
    shards: Arc<[Location]>,
    /// The indexes of plain shards that were read before.
    indexes: Arc<[OnceLock<Arc<PackedIndex>>]>,
    features: Arc<FeatureColumns>,
    limits: Limits,
    is_shuffled: bool,
    /// The rank, and the number of ranks.
    rank: (usize, usize),
}

impl TfRecordStream {
    /// Opens the files that `spec` names: paths or addresses, with braces, `::` and `*` for several. The
    /// fields are the features that the options list, and no file is opened before a pass; if they list
    /// none, the fields are those of the first record.
    ///
    /// # Errors
    ///
    /// Fails if `spec` names no files, if the options list no valid fields, or if the first file has no
    /// record, or a damaged one.
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
        let shards: Arc<[Location]> = locations.into();
        let limits = options.limits;
        let features = match shards.first() {
            Some(first) if !options.asks() => features_of(first, limits),
            _ => FeatureColumns::asked(options),
        };
        let features = features.map_err(|error| Error::boxed(error, ErrorKind::Format))?;
        let indexes = shards.iter().map(|_| OnceLock::new()).collect();
        let features = Arc::new(features);
        let objects = features.objects.clone();
        let facts = facts_of(Arc::clone(&shards), Arc::clone(&features.fields), UNKNOWN)
            .with_object_fields(move || Ok(objects.clone()));
        let opened =
            Self { facts, shards, indexes, features, limits, is_shuffled: false, rank: (0, 1) };
        Ok(opened.with_fingerprint())
    }

    /// Sets the fingerprint, which depends on how the shards are read.
    fn with_fingerprint(mut self) -> Self {
        let mut print = Fingerprint::default();
        print.text("tfrecord stream");
        print.fields(&self.features.fields);
        self.shards.iter().for_each(|shard| print.text(shard.file_name()));
        let (rank, world) = self.rank;
        [u64::from(self.is_shuffled), rank as u64, world as u64]
            .into_iter()
            .for_each(|number| print.number(number));
        self.facts.fingerprint = print.value();
        self
    }

    /// Lets every pass read the shards in a random order, drawn from the loader's seed and the epoch.
    /// The order of the records within a shard is unchanged.
    #[must_use]
    pub fn shuffle_shards(mut self) -> Self {
        self.is_shuffled = true;
        self.with_fingerprint()
    }

    /// Assigns shard `k` of a pass to rank `k mod world`, after the shuffle, which is the same on all
    /// ranks with the same seed.
    ///
    /// # Errors
    ///
    /// If `rank` is not below `world`, or there are fewer shards than ranks.
    pub fn split_by_rank(mut self, rank: usize, world: usize) -> Result<Self, Error> {
        let count = self.shards.len();
        if rank >= world {
            let reason = format!("rank {rank} of {world}: ranks are 0 to world - 1");
            return Err(Error::boxed(reason.into(), ErrorKind::Parameter));
        }
        if count < world {
            let message = "some would have no shard: write more shards";
            let reason = format!("{count} shards for {world} ranks: {message}");
            return Err(Error::boxed(reason.into(), ErrorKind::Parameter));
        }
        self.rank = (rank, world);
        Ok(self.with_fingerprint())
    }

    /// Returns a stream for each shard of this rank, in the order of their names, to be interleaved. A
    /// rank's shards are the same in every pass; `Interleave::shuffle` changes their order from pass to
    /// pass.
    #[must_use]
    pub fn shards(&self) -> Vec<Stream> {
        let one = |shard: usize| {
            let shards: Arc<[Location]> = [self.shards[shard].clone()].into();
            let fields = Arc::clone(&self.features.fields);
            // The stream of all shards has the names of the classes.
            let facts = Facts {
                class_names: None,
                object_fields: self.facts.object_fields.clone(),
                ..facts_of(Arc::clone(&shards), fields, UNKNOWN)
            };
            let indexes = [self.indexes[shard].clone()].into();
            let one =
                Self { facts, shards, indexes, is_shuffled: false, rank: (0, 1), ..self.clone() };
            one.with_fingerprint()
        };
        let (rank, world) = self.rank;
        let own = (0..self.shards.len()).skip(rank).step_by(world);
        own.map(|shard| Stream::new(one(shard))).collect()
    }

    fn begin(&self, shard: usize) -> Result<ShardReader, BoxError> {
        let opened = Shard::open(self.shards[shard].clone())?;
        let is_file = matches!(opened.location, Location::Path(_));
        if !is_file || Compression::of_shard(&opened)? != Compression::None {
            return Ok(ShardReader::Sequence(Sequence::open(&opened, self.limits)?));
        }
        let known = &self.indexes[shard];
        let found = match known.get() {
            Some(found) => Arc::clone(found),
            None => {
                let found = Arc::new(index(&opened, &self.limits)?);
                Arc::clone(known.get_or_init(|| found))
            }
        };
        let source = TfRecords::of_indexed(opened, found, Arc::clone(&self.features), self.limits);
        Ok(ShardReader::Indexed { source: Arc::new(source), next: 0 })
    }
}

/// The fields of a file's first record.
fn features_of(location: &Location, limits: Limits) -> Result<FeatureColumns, BoxError> {
    let shard = Shard::open(location.clone())?;
    let mut sequence = Sequence::open(&shard, limits)?;
    let first = sequence.next()?.ok_or_else(|| no_records(&location.to_string()))?;
    let (record, at, data) = first;
    let example = parse(data?).map_err(frame::at(&shard, record, at))?;
    let mut others = vec![];
    // Damage of another record is an error when it is read.
    while others.len() < OTHERS
        && let Ok(Some((.., Ok(data)))) = sequence.next()
        && let Ok(other) = parse(data)
    {
        others.push(other);
    }
    FeatureColumns::of(&completed(example, &others))
}

impl From<TfRecordStream> for Stream {
    fn from(records: TfRecordStream) -> Self {
        Self::new(records)
    }
}

impl Streamed for TfRecordStream {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn open(&self, pass: &Pass) -> Result<Box<dyn Items>, BoxError> {
        let mut order = shards_of_rank(self.shards.len(), pass, self.is_shuffled, self.rank);
        order.reverse();
        Ok(Box::new(TfPass { stream: self.clone(), left: order, now: None }))
    }
}

/// One pass.
struct TfPass {
    stream: TfRecordStream,
    /// The shards still to be read, the next one last.
    left: Vec<usize>,
    now: Option<(usize, ShardReader)>,
}

/// The shard that is being read.
enum ShardReader {
    Indexed { source: Arc<TfRecords>, next: u64 },
    Sequence(Sequence),
}

impl TfPass {
    /// Calls `ask` on the current shard, then on the next ones, until one returns an answer. An error
    /// ends the pass.
    fn ask<T>(
        &mut self,
        mut ask: impl FnMut(&TfRecordStream, usize, &mut ShardReader) -> Result<Option<T>, BoxError>,
    ) -> Result<Option<T>, BoxError> {
        loop {
            let outcome = match &mut self.now {
                Some((shard, reader)) => ask(&self.stream, *shard, reader),
                None => match self.left.pop() {
                    None => return Ok(None),
                    Some(shard) => match self.stream.begin(shard) {
                        Ok(reader) => {
                            self.now = Some((shard, reader));
                            continue;
                        }
                        Err(error) => Err(error),
                    },
                },
            };
            match outcome {
                Ok(Some(answer)) => return Ok(Some(answer)),
                Ok(None) => self.now = None,
                Err(error) => {
                    (self.now, self.left) = (None, vec![]);
                    return Err(error);
                }
            }
        }
    }
}

impl Items for TfPass {
    fn next(&mut self) -> Result<Option<Item>, BoxError> {
        self.ask(|stream, shard, reader| match reader {
            ShardReader::Indexed { source, next } => {
                let sample = SampleId(*next);
                *next += 1;
                let source = Arc::clone(source) as Arc<dyn Source>;
                Ok((sample.0 < source.facts().samples).then_some(Item::At { source, sample }))
            }
            ShardReader::Sequence(sequence) => {
                let Some((record, at, data)) = sequence.next()? else { return Ok(None) };
                let location = &stream.shards[shard];
                let error = |error| frame::located(error, location, record, at);
                let at = Arc::new(record_location(location, record));
                let item = held(stream, Arc::clone(&at), data, error);
                Ok(Some(item.unwrap_or_else(|error| damaged(stream, error, at))))
            }
        })
    }

    fn skip(&mut self, count: u64) -> Result<u64, BoxError> {
        let mut done = 0;
        while done < count {
            let passed = self.ask(|_, _, reader| {
                let passed = match reader {
                    ShardReader::Indexed { source, next } => {
                        let passed =
                            (count - done).min(source.facts().samples.saturating_sub(*next));
                        *next += passed;
                        passed
                    }
                    ShardReader::Sequence(sequence) => u64::from(sequence.skip()?),
                };
                Ok((passed > 0).then_some(passed))
            })?;
            let Some(passed) = passed else { break };
            done += passed;
        }
        Ok(done)
    }
}

/// Decodes a record into an item.
fn held(
    stream: &TfRecordStream,
    location: Arc<SampleLocation>,
    data: Data<'_>,
    error: impl Fn(Error) -> Error + Copy,
) -> Result<Item, Error> {
    let example = parse(data?).map_err(error)?;
    let record = stream.features.record(example, &stream.limits).map_err(error)?;
    Ok(Item::Held { record: Arc::new(record), location })
}

/// An item that returns an error when it is read.
fn damaged(stream: &TfRecordStream, error: Error, location: Arc<SampleLocation>) -> Item {
    let fields = Arc::clone(&stream.features.fields);
    let name = location.file.as_deref().unwrap_or_default().to_owned();
    Item::Lazy(Arc::new(UnreadableRecord { fields, name, location, error }))
}
