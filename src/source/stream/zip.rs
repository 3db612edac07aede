//! Zip: streams side by side, their fields joined.
//!
//! ```text
//! [a b c] [x y] ─▶ ax by              ends with the shortest, as tf.data's
//! ```

use super::{Item, Items, Pass, Stream, Streamed, fingerprint_of};
use crate::error::{Error, fail};
use crate::sample::SampleId;
use crate::source::{
    BoxError, FieldSpec, ImageStats, ObjectFields, Record, SampleLocation, Source,
};
use std::path::PathBuf;
use std::sync::Arc;

impl Stream {
    /// Joins the first items of all streams into one item, then the second ones, to the end of the
    /// shortest stream. An item has the fields of all streams.
    ///
    /// # Errors
    ///
    /// If there is no stream, or two have a field of the same name.
    pub fn zip(streams: impl IntoIterator<Item = Self>) -> Result<Self, Error> {
        let parts: Vec<Self> = streams.into_iter().collect();
        if parts.is_empty() {
            return Err(fail!(Parameter, "zip: no streams, expected at least 1"));
        }
        let mut fields: Vec<FieldSpec> = vec![];
        for field in parts.iter().flat_map(Self::fields) {
            if fields.iter().any(|other| other.name == field.name) {
                return Err(fail!(
                    Field,
                    "zip: two of the streams have a field {name}",
                    name = field.name
                )
                .of_field(&field.name));
            }
            fields.push(field.clone());
        }
        Ok(Self::new(Zip { parts, fields: fields.into() }))
    }
}

struct Zip {
    parts: Vec<Stream>,
    fields: Arc<[FieldSpec]>,
}

impl Zip {
    /// The stream that a field belongs to, and the field's index in that stream.
    fn part(&self, field: usize) -> Option<(&Stream, usize)> {
        let mut left = field;
        for part in &self.parts {
            match left.checked_sub(part.fields().len()) {
                None => return Some((part, left)),
                Some(beyond) => left = beyond,
            }
        }
        None
    }
}

impl Streamed for Zip {
    fn fields(&self) -> &[FieldSpec] {
        &self.fields
    }

    fn open(&self, pass: &Pass) -> Result<Box<dyn Items>, BoxError> {
        let parts = self.parts.iter().enumerate();
        let items: Result<Vec<_>, _> =
            parts.map(|(index, part)| part.open(&pass.for_component(index))).collect();
        let widths = self.parts.iter().map(|part| part.fields().len()).collect();
        let fields = Arc::clone(&self.fields);
        Ok(Box::new(SideBySide { items: items?, fields, widths, is_over: false }))
    }

    fn known_len(&self) -> Option<u64> {
        let lens = self.parts.iter().map(Stream::known_len);
        lens.reduce(|a, b| a.zip(b).map(|(a, b)| a.min(b))).flatten()
    }

    fn image_stats(&self, field: usize) -> Option<ImageStats> {
        let (part, field) = self.part(field)?;
        part.image_stats(field)
    }

    fn longest(&self, field: usize) -> Option<u64> {
        let (part, field) = self.part(field)?;
        part.longest(field)
    }

    /// Returns what the only stream with objects says of its fields. The objects of two streams are not each other's.
    fn object_fields(&self) -> Result<Option<ObjectFields>, BoxError> {
        let mut found = None;
        for part in &self.parts {
            match (part.object_fields()?, &found) {
                (Some(_), Some(_)) => return Ok(None),
                (Some(fields), None) => found = Some(fields),
                (None, _) => {}
            }
        }
        Ok(found)
    }

    fn is_exact(&self) -> bool {
        self.parts.iter().all(Stream::is_exact)
    }

    fn name(&self) -> String {
        self.parts.iter().map(Stream::name).collect::<Vec<_>>().join(" with ")
    }

    fn paths(&self) -> Box<dyn Iterator<Item = PathBuf> + '_> {
        Box::new(self.parts.iter().flat_map(Stream::paths))
    }

    fn fingerprint(&self) -> u64 {
        fingerprint_of("zip", &[], &self.parts)
    }
}

struct SideBySide {
    items: Vec<Box<dyn Items>>,
    fields: Arc<[FieldSpec]>,
    widths: Arc<[usize]>,
    is_over: bool,
}

impl Items for SideBySide {
    fn next(&mut self) -> Result<Option<Item>, BoxError> {
        let mut joined = vec![];
        for items in &mut self.items {
            let item = if self.is_over { None } else { items.next()? };
            let Some(item) = item else {
                self.is_over = true;
                return Ok(None);
            };
            joined.push(item);
        }
        let (fields, widths) = (Arc::clone(&self.fields), Arc::clone(&self.widths));
        let source = Arc::new(Joined { items: joined, fields, widths });
        Ok(Some(Item::At { source, sample: SampleId(0) }))
    }

    fn skip(&mut self, count: u64) -> Result<u64, BoxError> {
        let mut passed = if self.is_over { 0 } else { count };
        for items in &mut self.items {
            passed = passed.min(items.skip(passed)?);
        }
        self.is_over |= passed < count;
        Ok(passed)
    }
}

/// Several items as one sample: a value is read from its item only when it is asked for.
struct Joined {
    items: Vec<Item>,
    fields: Arc<[FieldSpec]>,
    /// The number of fields of each item.
    widths: Arc<[usize]>,
}

impl Source for Joined {
    fn fields(&self) -> &[FieldSpec] {
        &self.fields
    }

    fn len(&self) -> u64 {
        1
    }

    fn read(&self, _: SampleId) -> Result<Record, BoxError> {
        let records: Result<Vec<Record>, BoxError> = self.items.iter().map(Item::read).collect();
        Ok(records?.concat())
    }

    fn name(&self) -> String {
        self.items.iter().map(Item::name).collect::<Vec<_>>().join(" with ")
    }

    /// The location of the item that the field belongs to.
    fn locate(&self, _: SampleId, field: usize) -> Option<SampleLocation> {
        let mut left = field;
        for (item, &fields) in self.items.iter().zip(&*self.widths) {
            match left.checked_sub(fields) {
                None => return item.locate(left),
                Some(beyond) => left = beyond,
            }
        }
        None
    }
}
