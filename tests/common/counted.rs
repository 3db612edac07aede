//! A dataset whose reads are counted. `benches/partly_read.rs` uses it, too.

use fuseloop::internals::source::StoredValues;
use fuseloop::sample::SampleId;
use fuseloop::source::{
    BoxError, Buffer, Facts, ImageExtent, Record, SampleLocation, Source, Value,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The numbers of reads of a dataset.
#[derive(Default)]
pub struct Reads {
    whole: AtomicU64,
    whole_bytes: AtomicU64,
    parts: AtomicU64,
    part_bytes: AtomicU64,
}

impl Reads {
    /// Returns how many values were read whole, how many parts of images, and the bytes of these parts.
    pub fn counts(&self) -> [u64; 3] {
        [&self.whole, &self.parts, &self.part_bytes].map(|count| count.load(Ordering::Relaxed))
    }

    /// Returns the bytes of images, whole and in parts.
    pub fn bytes(&self) -> u64 {
        [&self.whole_bytes, &self.part_bytes]
            .map(|count| count.load(Ordering::Relaxed))
            .iter()
            .sum()
    }
}

/// The first field of a dataset. Its reads are counted; no parts are read unless `in_parts`.
pub struct Counted {
    facts: Facts,
    source: Arc<dyn Source>,
    in_parts: bool,
    reads: Arc<Reads>,
}

impl Counted {
    pub fn new(source: Arc<dyn Source>, in_parts: bool, reads: &Arc<Reads>) -> Self {
        let of_images = source.facts().clone();
        let facts = Facts::new([source.fields()[0].clone()], source.len())
            .with_image_stats(move |field| of_images.image_stats(field));
        Self { facts, source, in_parts, reads: Arc::clone(reads) }
    }
}

impl Source for Counted {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn read(&self, sample: SampleId) -> Result<Record, BoxError> {
        self.reads.whole.fetch_add(1, Ordering::Relaxed);
        self.source.read(sample)
    }

    fn value<'a>(
        &'a self,
        sample: SampleId,
        field: usize,
        buffer: &'a mut Buffer,
    ) -> Result<Value<'a>, BoxError> {
        self.reads.whole.fetch_add(1, Ordering::Relaxed);
        let value = self.source.value(sample, field, buffer)?;
        if let Value::Image(image) = value {
            self.reads.whole_bytes.fetch_add(image.bytes.len() as u64, Ordering::Relaxed);
        }
        Ok(value)
    }

    fn locate(&self, sample: SampleId, field: usize) -> Option<SampleLocation> {
        self.source.locate(sample, field)
    }

    fn stored(&self) -> Option<&dyn StoredValues> {
        self.in_parts.then_some(self as _)
    }
}

impl StoredValues for Counted {
    fn image_extent(&self, sample: SampleId, field: usize) -> Option<ImageExtent> {
        self.source.stored()?.image_extent(sample, field)
    }

    fn image_part(
        &self,
        sample: SampleId,
        field: usize,
        (at, bytes): (u64, &mut [u8]),
        buffer: &mut Buffer,
    ) -> Result<(), BoxError> {
        self.reads.parts.fetch_add(1, Ordering::Relaxed);
        self.reads.part_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        let stored = self.source.stored().ok_or("nothing is stored")?;
        stored.image_part(sample, field, (at, bytes), buffer)
    }
}
