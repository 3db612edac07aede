//! A stream as a source: one pass counts its items, then it is read from its start.
//!
//! ```text
//! several threads: read(7), read(5), read(6) --> one pass, in its order: .. 5 6 7 --> to who asked
//!                                                 └ what is passed over waits for who asks for it
//! ```
//!
//! It is meant for a caller whose threads ask for every sample once and in order, and for a sample's key
//! before its record: a conversion. Any other order is correct too, but each step back begins the pass
//! from its start.

use super::pass_cursor::PassCursor;
use super::{ENDLESS, Item, Pass, Stream, StreamEnd};
use crate::cancel::CancelFlag;
use crate::error::{Error, ErrorKind};
use crate::sample::{Epoch, SampleId};
use crate::source::{BoxError, Buffer, Facts, Record, SampleLocation, Source};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// The number of items between two calls of the progress function while the stream is counted.
const STEP: u64 = 1000;

/// The largest number of items that wait until they are asked for: the most threads of a conversion.
const WAITING: usize = 1024;

/// A position that is further ahead than this is reached by skipping items, not by reading them.
const FAR: u64 = 1024;

/// The number of items before such a position that are read all the same: threads ask in nearly the
/// order of the items.
const BEFORE: u64 = 32;

const PASS: Pass = Pass { seed: 0, epoch: Epoch(0), turn: 0 };

/// The samples of a [`Stream`] by number, for a caller that reads them once and in order.
///
/// ```
/// use fuseloop::source::stream::{SequentialSource, Stream};
///
/// fn counted(stream: Stream) -> fuseloop::Result<SequentialSource> {
///     stream.counted(|items| println!("{items} samples counted"))
/// }
/// ```
pub struct SequentialSource {
    facts: Facts,
    stream: Stream,
    state: Mutex<PassState>,
}

impl Stream {
    /// Turns the stream into a source that several threads can read in order at a low cost; each step
    /// back begins the pass from its start. If the number of items is not known, one pass counts them,
    /// and `progress` is called with the count so far.
    ///
    #[cfg_attr(all(feature = "tar", feature = "write"), doc = "```no_run")]
    #[cfg_attr(not(all(feature = "tar", feature = "write")), doc = "```ignore")]
    /// use fuseloop::source::{Stream, TarOptions, TarStream};
    /// use fuseloop::write::{WriteOptions, convert};
    ///
    /// let shards = Stream::from(TarStream::open("train-{000..255}.tar.gz", &TarOptions::default())?);
    /// convert(&shards.counted(|_| ())?, "train.beton", &WriteOptions::default())?;
    /// # Ok::<(), fuseloop::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the items can't be counted, the stream never ends, or its items differ from pass to pass.
    pub fn counted(self, progress: impl FnMut(u64)) -> Result<SequentialSource, Error> {
        self.counted_until(&CancelFlag::default(), progress)
    }

    /// [`counted`](Self::counted), which a flag can end.
    #[doc(hidden)]
    pub fn counted_until(
        self,
        cancel: &CancelFlag,
        mut progress: impl FnMut(u64),
    ) -> Result<SequentialSource, Error> {
        if !self.facts().is_exact {
            let what = "items differ from pass to pass, so they can't be numbered";
            return Err(unsupported(format!("{}: {what}", self.facts().name)));
        }
        let len = match self.known_len() {
            Some(ENDLESS) => {
                return Err(unsupported(format!("{}: the stream never ends", self.facts().name)));
            }
            Some(len) => len,
            None => {
                let (mut items, mut len) = (self.open(&PASS)?, 0);
                loop {
                    let passed = items.skip(STEP)?;
                    len += passed;
                    progress(len);
                    if cancel.is_cancelled() {
                        let reason = format!("{}: the count was cancelled", self.facts().name);
                        return Err(Error::boxed(reason.into(), ErrorKind::Cancelled));
                    }
                    if passed < STEP {
                        break len;
                    }
                }
            }
        };
        let facts = Facts { samples: len, ..self.facts().clone() };
        Ok(SequentialSource { facts, stream: self, state: Mutex::default() })
    }
}

fn unsupported(message: String) -> Error {
    Error::boxed(message.into(), ErrorKind::Unsupported)
}

/// A pass and the items that it has yielded.
#[derive(Default)]
struct PassState {
    cursor: PassCursor,
    /// Items that were pulled and not read yet.
    given: BTreeMap<u64, Item>,
    /// Items that were read, without their records: their location is needed if one turns out to be
    /// damaged.
    read: BTreeMap<u64, Item>,
    /// The reason why the pass can't continue.
    halt: Option<StreamEnd>,
}

impl PassState {
    /// Continues the pass, or begins it from its start, until it has yielded item `number`.
    fn reach(&mut self, stream: &Stream, number: u64) -> Result<(), StreamEnd> {
        if let Some(halt) = &self.halt {
            return Err(halt.clone());
        }
        if number < self.cursor.next() {
            *self = Self::default();
        }
        let next = self.cursor.next();
        let first = if number - next > FAR { number - BEFORE } else { next };
        for position in first..=number {
            let item = self.cursor.at(stream, &PASS, position);
            let item = item.inspect_err(|halt| self.halt = Some(halt.clone()))?;
            self.given.insert(position, item);
        }
        while self.given.len() > WAITING {
            self.given.pop_first();
        }
        Ok(())
    }
}

impl PassState {
    /// Removes a waiting item and remembers its location.
    fn take(&mut self, number: u64) -> Option<Item> {
        let item = self.given.remove(&number)?;
        self.read.insert(number, item.without_record());
        while self.read.len() > WAITING {
            self.read.pop_first();
        }
        Some(item)
    }

    /// Returns a waiting item, or the rest of one that was read.
    fn get(&self, number: u64) -> Option<&Item> {
        self.given.get(&number).or_else(|| self.read.get(&number))
    }
}

/// The error message for a sample that can't be read.
fn read_error(halt: StreamEnd) -> BoxError {
    match halt {
        StreamEnd::End { items } => {
            format!("the stream ends before sample {items}: it had more items when counted; did a shard change?").into()
        }
        StreamEnd::Broke { error, .. } => error.into(),
    }
}

impl SequentialSource {
    /// Returns the result of `found` on the items that were pulled. If it is `None`, moves the pass to
    /// the sample and calls `found` again.
    fn at<T>(
        &self,
        SampleId(number): SampleId,
        found: impl Fn(&mut PassState) -> Option<T>,
    ) -> Result<T, BoxError> {
        let samples = self.facts.samples;
        if number >= samples {
            return Err(format!("sample {number} of {samples}").into());
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = found(&mut state) {
            return Ok(found);
        }
        state.reach(&self.stream, number).map_err(read_error)?;
        found(&mut state).ok_or_else(|| format!("sample {number} was passed over").into())
    }
}

impl Source for SequentialSource {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn read(&self, sample: SampleId) -> Result<Record, BoxError> {
        let item = self.at(sample, |state| state.take(sample.0))?;
        item.check(&self.facts.fields)?;
        item.into_record()
    }

    fn locate(&self, sample: SampleId, field: usize) -> Option<SampleLocation> {
        self.at(sample, |state| state.get(sample.0).map(|item| item.locate(field))).ok().flatten()
    }

    fn component(&self, sample: SampleId, _: &mut Buffer) -> Result<usize, BoxError> {
        self.at(sample, |state| state.get(sample.0).map(Item::component))?
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::stream::{Items, Streamed};
    use crate::source::{FieldKind, OwnedValue};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Streams `lens[0]` numbers in its first pass and `lens[1]` in every later one; counts its passes.
    struct SampleNumbers {
        facts: Facts,
        lens: [u64; 2],
        passes: Arc<AtomicU64>,
    }

    struct From(std::ops::Range<u64>);

    impl Items for From {
        fn next(&mut self) -> Result<Option<Item>, BoxError> {
            let held = |n: u64| {
                let record = Arc::new(vec![OwnedValue::Int(n.cast_signed())]);
                let location = Arc::new(SampleLocation::of_key(format!("number {n}")));
                Item::Held { record, location }
            };
            Ok(self.0.next().map(held))
        }
    }

    impl Streamed for SampleNumbers {
        fn facts(&self) -> &Facts {
            &self.facts
        }

        fn open(&self, _: &Pass) -> Result<Box<dyn Items>, BoxError> {
            let pass = self.passes.fetch_add(1, Ordering::Relaxed);
            Ok(Box::new(From(0..self.lens[usize::from(pass > 0)])))
        }
    }

    fn numbers(lens: [u64; 2]) -> (Stream, Arc<AtomicU64>) {
        let passes = Arc::new(AtomicU64::new(0));
        let facts = Facts::new([("n", FieldKind::Int)], 0).named("the stream");
        (Stream::new(SampleNumbers { facts, lens, passes: Arc::clone(&passes) }), passes)
    }

    fn check(source: &SequentialSource, n: u64) {
        let location = SampleLocation::of_key(format!("number {n}"));
        assert_eq!(source.locate(SampleId(n), 0), Some(location));
        assert_eq!(source.read(SampleId(n)).unwrap(), [OwnedValue::Int(n.cast_signed())]);
    }

    #[test]
    fn a_count_can_be_cancelled() {
        let (cancel, mut reported) = (CancelFlag::new(), vec![]);
        let count = numbers([5003; 2]).0.counted_until(&cancel, |n| {
            reported.push(n);
            if n == 2000 {
                cancel.cancel();
            }
        });
        assert_eq!(count.err().map(|error| error.kind()), Some(ErrorKind::Cancelled));
        assert_eq!(reported, [1000, 2000]);
    }

    #[test]
    fn threads_that_go_in_order_share_one_pass() {
        let (stream, passes) = numbers([5003; 2]);
        let mut reported = vec![];
        let source = stream.counted(|n| reported.push(n)).unwrap();
        assert_eq!(
            (source.facts().samples, reported),
            (5003, vec![1000, 2000, 3000, 4000, 5000, 5003])
        );
        let next = AtomicU64::new(2000);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    loop {
                        let n = next.fetch_add(1, Ordering::Relaxed);
                        if n >= 5003 {
                            break;
                        }
                        check(&source, n);
                    }
                });
            }
        });
        assert_eq!(passes.load(Ordering::Relaxed), 2, "one that counts, one that is read");
        let state = source.state.lock().unwrap();
        assert!(state.given.keys().all(|&n| n < 2000), "what was read is kept");
    }

    #[test]
    fn an_item_that_was_read_is_located_without_a_step_back() {
        let (stream, passes) = numbers([40; 2]);
        let source = stream.counted(|_| ()).unwrap();
        (0..40).for_each(|n| check(&source, n));
        let location = SampleLocation::of_key("number 7");
        assert_eq!(source.locate(SampleId(7), 0), Some(location));
        assert_eq!(passes.load(Ordering::Relaxed), 2, "one that counts, one that is read");
    }

    #[test]
    fn any_order_is_right() {
        let (stream, passes) = numbers([3000; 2]);
        let source = stream.counted(|_| ()).unwrap();
        for n in (0..300).map(|n| n * 1777 % 3000) {
            check(&source, n);
            assert!(source.state.lock().unwrap().given.len() <= WAITING);
        }
        check(&source, 7);
        check(&source, 7);
        assert!(passes.load(Ordering::Relaxed) > 3);
        assert!(source.read(SampleId(3000)).is_err());
    }

    #[test]
    fn a_pass_that_ends_early_is_told_of_every_sample_behind() {
        let (stream, passes) = numbers([2000, 1500]);
        let source = stream.counted(|_| ()).unwrap();
        check(&source, 1499);
        for n in [1500, 1999, 1501] {
            let error = source.read(SampleId(n)).unwrap_err().to_string();
            assert_eq!(
                error,
                "the stream ends before sample 1500: it had more items when counted; did a shard change?"
            );
        }
        assert_eq!(passes.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn what_has_no_end_is_refused() {
        let error = numbers([5; 2]).0.repeat_forever().counted(|_| ()).err().unwrap();
        assert_eq!(error.to_string(), "the stream: the stream never ends");
    }
}
