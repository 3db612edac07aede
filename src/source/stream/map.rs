//! Map: a function of each record, called by the thread that reads the item: the loader's workers, in
//! parallel.

use super::{Item, Items, Pass, Stream, Streamed, fingerprint_of};
use crate::sample::SampleId;
use crate::source::{BoxError, FieldSpec, Record, SampleLocation, Source};
use std::path::PathBuf;
use std::sync::Arc;

type Function = Arc<dyn Fn(Record) -> Result<Record, BoxError> + Send + Sync>;

impl Stream {
    /// Replaces each record by `function(record)`, whose fields are `fields`. `function` may be called
    /// several times for the same item and must return the same result each time. An error that it
    /// returns is an error of the item.
    ///
    /// A cursor can't distinguish two streams that differ only in `function`.
    #[must_use]
    pub fn map(
        self,
        fields: Vec<FieldSpec>,
        function: impl Fn(Record) -> Result<Record, BoxError> + Send + Sync + 'static,
    ) -> Self {
        Self::new(MapStream { from: self, fields: fields.into(), function: Arc::new(function) })
    }
}

struct MapStream {
    from: Stream,
    fields: Arc<[FieldSpec]>,
    function: Function,
}

impl Streamed for MapStream {
    fn fields(&self) -> &[FieldSpec] {
        &self.fields
    }

    fn open(&self, pass: &Pass) -> Result<Box<dyn Items>, BoxError> {
        let (fields, function) = (Arc::clone(&self.fields), Arc::clone(&self.function));
        let has_parts = self.component_count() > 1;
        Ok(Box::new(Mapped { items: self.from.open(pass)?, fields, function, has_parts }))
    }

    fn known_len(&self) -> Option<u64> {
        self.from.known_len()
    }

    fn component_count(&self) -> usize {
        self.from.component_count()
    }

    fn is_exact(&self) -> bool {
        self.from.is_exact()
    }

    fn name(&self) -> String {
        self.from.name()
    }

    fn paths(&self) -> Box<dyn Iterator<Item = PathBuf> + '_> {
        self.from.paths()
    }

    fn fingerprint(&self) -> u64 {
        fingerprint_of("map", &[], std::slice::from_ref(&self.from))
    }
}

struct Mapped {
    items: Box<dyn Items>,
    fields: Arc<[FieldSpec]>,
    function: Function,
    has_parts: bool,
}

impl Items for Mapped {
    fn next(&mut self) -> Result<Option<Item>, BoxError> {
        let Some(item) = self.items.next()? else { return Ok(None) };
        let part = if self.has_parts { Some(item.component()?) } else { None };
        let (fields, function) = (Arc::clone(&self.fields), Arc::clone(&self.function));
        let source = Arc::new(LazyItem { item, fields, function });
        let mapped = Item::At { source, sample: SampleId(0) };
        Ok(Some(if let Some(part) = part { mapped.of_component(part) } else { mapped }))
    }

    fn skip(&mut self, count: u64) -> Result<u64, BoxError> {
        self.items.skip(count)
    }
}

/// An item that is mapped when it is read.
struct LazyItem {
    item: Item,
    fields: Arc<[FieldSpec]>,
    function: Function,
}

impl Source for LazyItem {
    fn fields(&self) -> &[FieldSpec] {
        &self.fields
    }

    fn len(&self) -> u64 {
        1
    }

    fn read(&self, _: SampleId) -> Result<Record, BoxError> {
        (self.function)(self.item.read()?)
    }

    fn name(&self) -> String {
        self.item.name()
    }

    /// The location of the original item; no stored bytes correspond to a mapped value.
    fn locate(&self, _: SampleId, _: usize) -> Option<SampleLocation> {
        self.item.locate(0).map(SampleLocation::of_sample)
    }
}
