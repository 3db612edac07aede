//! Map: a function of each record, called by the thread that reads the item: the loader's workers, in
//! parallel.

use super::{Item, Items, LazyRecord, Pass, Stream, Streamed, fingerprint_of};
use crate::source::{BoxError, Facts, FieldSpec, Record, SampleLocation};
use std::slice;
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
        let own = self.facts().clone();
        let facts = Facts {
            name: own.name.clone(),
            components: own.components,
            is_exact: own.is_exact,
            fingerprint: fingerprint_of("map", &[], slice::from_ref(&self)),
            ..Facts::new(fields, own.samples)
        };
        let facts = facts.with_paths(move || own.paths());
        Self::new(MapStream { facts, from: self, function: Arc::new(function) })
    }
}

struct MapStream {
    facts: Facts,
    from: Stream,
    function: Function,
}

impl Streamed for MapStream {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn open(&self, pass: &Pass) -> Result<Box<dyn Items>, BoxError> {
        let (fields, function) = (Arc::clone(&self.facts.fields), Arc::clone(&self.function));
        let has_parts = self.facts.components > 1;
        Ok(Box::new(Mapped { items: self.from.open(pass)?, fields, function, has_parts }))
    }

    fn known_len(&self) -> Option<u64> {
        self.from.known_len()
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
        let mapped = Item::Lazy(Arc::new(MappedItem { item, fields, function }));
        Ok(Some(if let Some(part) = part { mapped.of_component(part) } else { mapped }))
    }

    fn skip(&mut self, count: u64) -> Result<u64, BoxError> {
        self.items.skip(count)
    }
}

/// An item that is mapped when it is read.
struct MappedItem {
    item: Item,
    fields: Arc<[FieldSpec]>,
    function: Function,
}

impl LazyRecord for MappedItem {
    fn fields(&self) -> &[FieldSpec] {
        &self.fields
    }

    fn read(&self) -> Result<Record, BoxError> {
        (self.function)(self.item.read()?)
    }

    fn name(&self) -> String {
        self.item.name()
    }

    /// The location of the original item; no stored bytes correspond to a mapped value.
    fn locate(&self, _: usize) -> Option<SampleLocation> {
        self.item.locate(0).map(SampleLocation::of_sample)
    }
}
