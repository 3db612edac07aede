//! Streams of numbers, and helpers to read them.

use fuseloop::source::stream::{Item, Items, Pass, Stream, Streamed};
use fuseloop::source::{
    BoxError, Facts, FieldKind, FieldSpec, OwnedImage, OwnedValue, Record, SampleLocation, Source,
};
use fuseloop::{Epoch, SampleId};
use std::sync::Arc;

pub(crate) fn fields() -> Vec<FieldSpec> {
    vec![("image", FieldKind::RgbImage).into(), ("label", FieldKind::Int).into()]
}

pub(crate) fn record(number: u64) -> Record {
    let image = OwnedImage::rgb(6, vec![number as u8; 6 * 6 * 3]);
    vec![OwnedValue::Image(image), OwnedValue::Int(number as i64)]
}

/// The fault of a stream of numbers, and its position.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum At {
    Nowhere,
    /// This item can't be read.
    Item(u64),
    /// The stream can't continue after this many items.
    Stream(u64),
    /// The stream panics there.
    Panic(u64),
}

/// Numbers from `first` on.
#[derive(Clone)]
pub(crate) struct Numbers {
    pub(crate) facts: Facts,
    pub(crate) first: u64,
    pub(crate) count: u64,
    /// True if items are records, and the length is not known.
    pub(crate) held: bool,
    pub(crate) bad: At,
}

pub(crate) fn numbers(first: u64, count: u64) -> Numbers {
    let mut facts = Facts::new(fields(), count).named(format!("numbers from {first}"));
    facts.fingerprint = first << 20 | count;
    Numbers { facts, first, count, held: false, bad: At::Nowhere }
}

impl Numbers {
    pub(crate) fn stream(self) -> Stream {
        Stream::new(self)
    }

    /// Makes the stream sequential, with an unknown length.
    pub(crate) fn held(self) -> Self {
        Self { held: true, ..self }
    }

    pub(crate) fn bad(self, bad: At) -> Self {
        Self { bad, ..self }
    }
}

impl Source for Numbers {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn read(&self, sample: SampleId) -> Result<Record, BoxError> {
        if At::Item(sample.0) == self.bad {
            Err("it is bad".into())
        } else {
            Ok(record(self.first + sample.0))
        }
    }
}

impl Streamed for Numbers {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn open(&self, _: &Pass) -> Result<Box<dyn Items>, BoxError> {
        Ok(Box::new(Counting { of: Arc::new(self.clone()), next: 0 }))
    }

    fn known_len(&self) -> Option<u64> {
        (!self.held).then_some(self.count)
    }
}

struct Counting {
    of: Arc<Numbers>,
    next: u64,
}

impl Items for Counting {
    fn next(&mut self) -> Result<Option<Item>, BoxError> {
        match self.of.bad {
            At::Stream(at) if at <= self.next => return Err("the shard is cut off".into()),
            At::Panic(at) if at <= self.next => std::panic::resume_unwind(Box::new("planted")),
            _ if self.next >= self.of.count => return Ok(None),
            _ => {}
        }
        let sample = SampleId(self.next);
        self.next += 1;
        if self.of.held && At::Item(sample.0) != self.of.bad {
            let record = Arc::new(self.of.read(sample)?);
            let location = Arc::new(SampleLocation::of_key(format!("number {sample}")));
            return Ok(Some(Item::Held { record, location }));
        }
        Ok(Some(Item::At { source: Arc::clone(&self.of) as Arc<dyn Source>, sample }))
    }
}

pub(crate) fn pass(seed: u64, epoch: u32) -> Pass {
    Pass { seed, epoch: Epoch(epoch), turn: 0 }
}

/// The number of an item, which is its label.
pub(crate) fn number(item: &Item) -> u64 {
    let record = item.read().unwrap();
    match record.last() {
        Some(OwnedValue::Int(number)) => *number as u64,
        other => panic!("{other:?}"),
    }
}

/// The items of a pass after its first `skipped` items.
pub(crate) fn rest(stream: &Stream, pass: &Pass, skipped: u64) -> Vec<u64> {
    let mut items = stream.open(pass).unwrap();
    items.skip(skipped).unwrap();
    let mut numbers = vec![];
    while let Some(item) = items.next().unwrap() {
        numbers.push(number(&item));
        assert!(numbers.len() < 10_000, "it does not end");
    }
    assert!(items.next().unwrap().is_none(), "it goes on after its end");
    numbers
}

pub(crate) fn all(stream: &Stream, pass: &Pass) -> Vec<u64> {
    rest(stream, pass, 0)
}
