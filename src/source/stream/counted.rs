//! A stream as a source: passed over once to count it, then read from its beginning on.
//!
//! ```text
//! several threads: read(7), read(5), read(6) --> one pass, in its order: .. 5 6 7 --> to who asked
//!                                                 └ what is passed over waits for who asks for it
//! ```
//!
//! For what asks for every sample once, in order, by several threads, and for its key before: a
//! conversion. Anything else is right too, but begins the pass again for each step back.

use super::tape::Tape;
use super::{ENDLESS, Halt, Item, Pass, Stream};
use crate::sample::{Epoch, SampleId};
use crate::source::{
    BoxError, Buffer, ClassNames, FieldSpec, ImageStats, Record, SampleLocation, Source,
};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// Items between two words on how far the counting is.
const STEP: u64 = 1000;

/// Most items that wait for who asks for them: as many as a conversion has threads at most.
const WAITING: usize = 1024;

/// So far ahead, items are not read but passed over.
const FAR: u64 = 1024;

/// Of such a place, the items that are read on the way: threads ask in nearly the order of the items.
const BEFORE: u64 = 32;

const PASS: Pass = Pass { seed: 0, epoch: Epoch(0), turn: 0 };

/// The samples of a [`Stream`] by their numbers, for what reads them once and in order.
pub struct Counted {
    stream: Stream,
    len: u64,
    place: Mutex<Place>,
}

impl Stream {
    /// The stream as a source: one that is cheap to read in order, by several threads, and begins
    /// again for each step back. To count its items it is passed over once, unless their number is
    /// known; `told` hears how many there are by then.
    ///
    /// ```no_run
    /// use fuseloop::source::{Stream, TarStream};
    /// use fuseloop::write::{ConvertOptions, convert};
    ///
    /// let shards = Stream::from(TarStream::open("train-{000..255}.tar.gz")?);
    /// convert(&shards.counted(|_| ())?, "train.beton", &ConvertOptions::default())?;
    /// # Ok::<(), fuseloop::source::BoxError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If it can't be passed over, never ends, or is another one each time.
    pub fn counted(self, mut told: impl FnMut(u64)) -> Result<Counted, BoxError> {
        if !self.is_exact() {
            return Err(format!("{}: another one each time, it has no numbers", self.name()).into());
        }
        let len = match self.known_len() {
            Some(ENDLESS) => return Err(format!("{}: it never ends", self.name()).into()),
            Some(len) => len,
            None => {
                let (mut items, mut len) = (self.open(&PASS)?, 0);
                loop {
                    let passed = items.skip(STEP)?;
                    len += passed;
                    told(len);
                    if passed < STEP {
                        break len;
                    }
                }
            }
        };
        Ok(Counted { stream: self, len, place: Mutex::default() })
    }
}

/// A pass, and what it has given.
#[derive(Default)]
struct Place {
    tape: Tape,
    /// Items behind its place, until they are read.
    given: BTreeMap<u64, Item>,
    /// Items that were read, without their records: where they are from is asked when one is damaged.
    read: BTreeMap<u64, Item>,
    /// Why it can't go on.
    halt: Option<Halt>,
}

impl Place {
    /// Goes on, or begins again, until the item is given.
    fn reach(&mut self, stream: &Stream, number: u64) -> Result<(), Halt> {
        if let Some(halt) = &self.halt {
            return Err(halt.clone());
        }
        if number < self.tape.next() {
            *self = Self::default();
        }
        let next = self.tape.next();
        let first = if number - next > FAR { number - BEFORE } else { next };
        for place in first..=number {
            let item = self.tape.at(stream, &PASS, place);
            let item = item.inspect_err(|halt| self.halt = Some(halt.clone()))?;
            self.given.insert(place, item);
        }
        while self.given.len() > WAITING {
            self.given.pop_first();
        }
        Ok(())
    }
}

impl Place {
    /// Gives an item away, and keeps where it is from.
    fn take(&mut self, number: u64) -> Option<Item> {
        let item = self.given.remove(&number)?;
        self.read.insert(number, item.without_record());
        while self.read.len() > WAITING {
            self.read.pop_first();
        }
        Some(item)
    }

    /// An item that waits, or what is kept of one that was read.
    fn get(&self, number: u64) -> Option<&Item> {
        self.given.get(&number).or_else(|| self.read.get(&number))
    }
}

/// Why a sample can't be had, as who converts is told it.
fn told(halt: Halt) -> BoxError {
    match halt {
        Halt::End { items } => {
            format!("it ends before sample {items}: it was longer when counted").into()
        }
        Halt::Broke { message, .. } => message.into(),
    }
}

impl Counted {
    /// What `found` finds of the items that were given; where it finds nothing, the pass goes there
    /// first.
    fn at<T>(
        &self,
        SampleId(number): SampleId,
        found: impl Fn(&mut Place) -> Option<T>,
    ) -> Result<T, BoxError> {
        if number >= self.len {
            return Err(format!("sample {number} of {}", self.len).into());
        }
        let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = found(&mut place) {
            return Ok(found);
        }
        place.reach(&self.stream, number).map_err(told)?;
        found(&mut place).ok_or_else(|| format!("sample {number} was passed over").into())
    }
}

impl Source for Counted {
    fn fields(&self) -> &[FieldSpec] {
        self.stream.fields()
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn read(&self, sample: SampleId) -> Result<Record, BoxError> {
        let item = self.at(sample, |place| place.take(sample.0))?;
        item.check(self.fields())?;
        item.into_record()
    }

    fn name(&self) -> String {
        self.stream.name()
    }

    fn image_stats(&self, field: usize) -> Option<ImageStats> {
        self.stream.image_stats(field)
    }

    fn longest(&self, field: usize) -> Option<u64> {
        self.stream.longest(field)
    }

    fn locate(&self, sample: SampleId, field: usize) -> Option<SampleLocation> {
        self.at(sample, |place| place.get(sample.0).map(|item| item.locate(field))).ok().flatten()
    }

    fn parts(&self) -> usize {
        self.stream.part_count()
    }

    fn part(&self, sample: SampleId, _: &mut Buffer) -> Result<usize, BoxError> {
        self.at(sample, |place| place.get(sample.0).map(Item::part))?
    }

    fn paths(&self) -> Box<dyn Iterator<Item = PathBuf> + '_> {
        self.stream.paths()
    }

    fn class_names(&self) -> Result<Option<ClassNames>, BoxError> {
        self.stream.class_names()
    }

    fn fingerprint(&self) -> u64 {
        self.stream.fingerprint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::stream::{Items, Streamed};
    use crate::source::{FieldKind, OwnedValue};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// So many numbers, fewer from the second pass on if asked; counts its passes.
    struct Numbers {
        fields: Vec<FieldSpec>,
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

    impl Streamed for Numbers {
        fn fields(&self) -> &[FieldSpec] {
            &self.fields
        }

        fn open(&self, _: &Pass) -> Result<Box<dyn Items>, BoxError> {
            let pass = self.passes.fetch_add(1, Ordering::Relaxed);
            Ok(Box::new(From(0..self.lens[usize::from(pass > 0)])))
        }

        fn fingerprint(&self) -> u64 {
            0
        }
    }

    fn numbers(lens: [u64; 2]) -> (Stream, Arc<AtomicU64>) {
        let passes = Arc::new(AtomicU64::new(0));
        let fields = vec![FieldSpec { name: "n".to_owned(), kind: FieldKind::Int }];
        (Stream::new(Numbers { fields, lens, passes: Arc::clone(&passes) }), passes)
    }

    fn check(source: &Counted, n: u64) {
        let location = SampleLocation::of_key(format!("number {n}"));
        assert_eq!(source.locate(SampleId(n), 0), Some(location));
        assert_eq!(source.read(SampleId(n)).unwrap(), [OwnedValue::Int(n.cast_signed())]);
    }

    #[test]
    fn threads_that_go_in_order_share_one_pass() {
        let (stream, passes) = numbers([5003; 2]);
        let mut told = vec![];
        let source = stream.counted(|n| told.push(n)).unwrap();
        assert_eq!((source.len(), told), (5003, vec![1000, 2000, 3000, 4000, 5000, 5003]));
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
        let place = source.place.lock().unwrap();
        assert!(place.given.keys().all(|&n| n < 2000), "what was read is kept");
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
            assert!(source.place.lock().unwrap().given.len() <= WAITING);
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
            assert_eq!(error, "it ends before sample 1500: it was longer when counted");
        }
        assert_eq!(passes.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn what_has_no_end_is_refused() {
        let error = numbers([5; 2]).0.repeat_forever().counted(|_| ()).err().unwrap();
        assert_eq!(error.to_string(), "the stream: it never ends");
    }
}
