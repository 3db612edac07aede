//! Map: a function of each record, called by whoever reads the item: the loader's workers, side by
//! side.

use super::{Item, Items, Pass, Stream, Streamed, print};
use crate::sample::SampleId;
use crate::source::{BoxError, FieldSpec, Record, SampleLocation, Source};
use std::path::PathBuf;
use std::sync::Arc;

type Function = Arc<dyn Fn(Record) -> Result<Record, BoxError> + Send + Sync>;

impl Stream {
    /// Each record as `function` makes it, of the fields given. It may be called again for the same
    /// item, and must then give the same. Its error is the item's.
    ///
    /// Two streams that differ in `function` alone are one to a cursor.
    #[must_use]
    pub fn map(
        self,
        fields: Vec<FieldSpec>,
        function: impl Fn(Record) -> Result<Record, BoxError> + Send + Sync + 'static,
    ) -> Self {
        Self::new(Map { from: self, fields: fields.into(), function: Arc::new(function) })
    }
}

struct Map {
    from: Stream,
    fields: Arc<[FieldSpec]>,
    function: Function,
}

impl Streamed for Map {
    fn fields(&self) -> &[FieldSpec] {
        &self.fields
    }

    fn open(&self, pass: &Pass) -> Result<Box<dyn Items>, BoxError> {
        let (fields, function) = (Arc::clone(&self.fields), Arc::clone(&self.function));
        let has_parts = self.part_count() > 1;
        Ok(Box::new(Mapped { items: self.from.open(pass)?, fields, function, has_parts }))
    }

    fn known_len(&self) -> Option<u64> {
        self.from.known_len()
    }

    fn part_count(&self) -> usize {
        self.from.part_count()
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
        print("map", &[], std::slice::from_ref(&self.from))
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
        let part = if self.has_parts { Some(item.part()?) } else { None };
        let (fields, function) = (Arc::clone(&self.fields), Arc::clone(&self.function));
        let source = Arc::new(Made { item, fields, function });
        let made = Item::At { source, sample: SampleId(0) };
        Ok(Some(if let Some(part) = part { made.of_part(part) } else { made }))
    }

    fn skip(&mut self, count: u64) -> Result<u64, BoxError> {
        self.items.skip(count)
    }
}

/// An item, mapped when it is read.
struct Made {
    item: Item,
    fields: Arc<[FieldSpec]>,
    function: Function,
}

impl Source for Made {
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

    /// Of the item that it is made of: no value lies anywhere as it is.
    fn locate(&self, _: SampleId, _: usize) -> Option<SampleLocation> {
        self.item.locate(0).map(SampleLocation::of_sample)
    }
}
