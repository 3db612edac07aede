//! For `benches/remote`: reads values at known offsets of objects, with or without a run's plan.

use super::ahead;
use crate::sample::{Epoch, SampleId};
use crate::source::shards::{Extents, Shard, Shards};
use crate::source::{BoxError, Location, RunPlan, Upcoming};
use std::ops::Range;
use std::sync::Arc;

/// For each sample's value: the index of its object, and its byte range.
pub type ObjectRanges = Vec<(usize, Range<u64>)>;

/// Remote objects that hold values.
pub struct TestObjects {
    shards: Shards,
    places: Arc<ObjectRanges>,
}

/// The samples of a run.
struct InOrder(Vec<u64>);

impl Upcoming for InOrder {
    fn samples(&self) -> u64 {
        self.0.len() as u64
    }

    fn at(&self, places: Range<u64>, samples: &mut Vec<SampleId>) {
        let places = places.start as usize..places.end as usize;
        samples.extend(self.0[places].iter().copied().map(SampleId));
    }
}

impl Extents for ObjectRanges {
    fn extents(&self, sample: SampleId, _: &[usize], out: &mut Vec<(usize, Range<u64>)>) {
        out.extend(self.get(sample.0 as usize).cloned());
    }
}

impl TestObjects {
    /// Opens objects.
    ///
    /// # Errors
    ///
    /// See [`object`](super::object).
    pub fn open(urls: &[String], places: ObjectRanges) -> Result<Self, BoxError> {
        let shards = urls.iter().map(|url| Shard::open(Location::Url(url.clone())));
        let shards: Result<Vec<Shard>, BoxError> = shards.collect();
        Ok(Self { shards: Shards::new(shards?), places: Arc::new(places) })
    }

    /// Returns the same objects with read-ahead for a run over `order`.
    ///
    /// # Errors
    ///
    /// See [`Source::begin`](crate::source::Source::begin).
    pub fn planned(&self, order: Vec<u64>, batch_size: usize) -> Result<Self, BoxError> {
        let run = RunPlan {
            seed: 0,
            epoch: Epoch(0),
            upcoming: Arc::new(InOrder(order)),
            batch_size,
            batches_ahead: 2,
            fields: vec![0],
        };
        let places: Arc<ObjectRanges> = Arc::clone(&self.places);
        let view = ahead(&self.shards, &run, places)?;
        let shards = view.unwrap_or_else(|| self.shards.clone());
        Ok(Self { shards, places: Arc::clone(&self.places) })
    }

    /// Reads a sample's value.
    ///
    /// # Errors
    ///
    /// If the value can't be read.
    pub fn read<'a>(&'a self, sample: u64, buffer: &'a mut Vec<u8>) -> Result<&'a [u8], BoxError> {
        let (shard, range) = self.places.get(sample as usize).ok_or("there is no such sample")?;
        let shard = self.shards.all().get(*shard).ok_or("there is no such object")?;
        shard.get(range, buffer)
    }
}
