//! For `benches/remote`: reads values at known offsets of objects, with or without a run's plan.

use super::{Extents, ahead, object};
use crate::sample::{Epoch, SampleId};
use crate::source::file::FileBytes;
use crate::source::{BoxError, ReadAt, RunPlan, Upcoming};
use std::ops::Range;
use std::sync::Arc;

/// For each sample's value: the index of its object, and its byte range.
pub type ObjectRanges = Vec<(usize, Range<u64>)>;

/// Remote objects that hold values.
pub struct TestObjects {
    readers: Vec<Arc<dyn ReadAt>>,
    objects: Vec<FileBytes>,
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
        let readers: Result<Vec<_>, BoxError> = urls.iter().map(|url| object(url)).collect();
        Self::over(readers?, Arc::new(places))
    }

    fn over(readers: Vec<Arc<dyn ReadAt>>, places: Arc<ObjectRanges>) -> Result<Self, BoxError> {
        let objects = readers.iter().cloned().map(FileBytes::from_reader);
        Ok(Self { objects: objects.collect::<Result<_, _>>()?, readers, places })
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
        let readers: Vec<_> = self.readers.iter().cloned().map(Some).collect();
        let places: Arc<ObjectRanges> = Arc::clone(&self.places);
        let views = ahead(&readers, &run, places)?.unwrap_or(readers);
        Self::over(views.into_iter().flatten().collect(), Arc::clone(&self.places))
    }

    /// Reads a sample's value.
    ///
    /// # Errors
    ///
    /// If the value can't be read.
    pub fn read<'a>(&'a self, sample: u64, buffer: &'a mut Vec<u8>) -> Result<&'a [u8], BoxError> {
        let (shard, range) = self.places.get(sample as usize).ok_or("there is no such sample")?;
        let object = self.objects.get(*shard).ok_or("there is no such object")?;
        Ok(object.get(range.start, range.end - range.start, buffer)?)
    }
}
