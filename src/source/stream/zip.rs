//! Zip: streams side by side, their fields joined.
//!
//! ```text
//! [a b c] [x y] ─▶ ax by              ends with the shortest, as tf.data's
//! ```

use super::{Item, Items, LazyRecord, Pass, Stream, Streamed, fingerprint_of};
use crate::error::{Error, fail};
use crate::sample::UNKNOWN;
use crate::source::{BoxError, Facts, FieldSpec, Record, SampleLocation};
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
        let facts = joined(&parts, fields);
        Ok(Self::new(Zip { facts, parts }))
    }
}

struct Zip {
    facts: Facts,
    parts: Vec<Stream>,
}

/// Returns the facts of streams side by side. What the only stream with objects says of its fields holds for all: the
/// objects of two streams are not each other's.
fn joined(streams: &[Stream], fields: Vec<FieldSpec>) -> Facts {
    let parts: Arc<[Facts]> = streams.iter().map(|part| part.facts().clone()).collect();
    let names: Vec<&str> = parts.iter().map(|part| &*part.name).collect();
    let starts = parts.iter().scan(0, |fields, part| {
        let start = *fields;
        *fields += part.fields.len();
        Some((start, part))
    });
    let audio = starts
        .flat_map(|(start, part)| part.audio.iter().map(move |(field, one)| (start + field, *one)));
    let facts = Facts {
        audio: audio.collect(),
        name: names.join(" with "),
        is_exact: parts.iter().all(|part| part.is_exact),
        fingerprint: fingerprint_of("zip", &[], streams),
        ..Facts::new(fields, UNKNOWN)
    };
    let [of_images, of_bytes, of_paths, of_objects] = [(); 4].map(|()| Arc::clone(&parts));
    facts
        .with_image_stats(move |field| {
            let (part, field) = part_of(&of_images, field)?;
            part.image_stats(field)
        })
        .with_longest(move |field| {
            let (part, field) = part_of(&of_bytes, field)?;
            part.longest(field)
        })
        .with_paths(move || Facts::paths_of(&of_paths))
        .with_object_fields(move || {
            let mut found = None;
            for part in &*of_objects {
                match (part.object_fields()?, &found) {
                    (Some(_), Some(_)) => return Ok(None),
                    (Some(fields), None) => found = Some(fields),
                    (None, _) => {}
                }
            }
            Ok(found)
        })
}

/// Returns the stream that a field belongs to, and the field's index in that stream.
fn part_of(parts: &[Facts], field: usize) -> Option<(&Facts, usize)> {
    let mut left = field;
    for part in parts {
        match left.checked_sub(part.fields.len()) {
            None => return Some((part, left)),
            Some(beyond) => left = beyond,
        }
    }
    None
}

impl Streamed for Zip {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn open(&self, pass: &Pass) -> Result<Box<dyn Items>, BoxError> {
        let parts = self.parts.iter().enumerate();
        let items: Result<Vec<_>, _> =
            parts.map(|(index, part)| part.open(&pass.for_component(index))).collect();
        let widths = self.parts.iter().map(|part| part.fields().len()).collect();
        let fields = Arc::clone(&self.facts.fields);
        Ok(Box::new(SideBySide { items: items?, fields, widths, is_over: false }))
    }

    fn known_len(&self) -> Option<u64> {
        let lens = self.parts.iter().map(Stream::known_len);
        lens.reduce(|a, b| a.zip(b).map(|(a, b)| a.min(b))).flatten()
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
        Ok(Some(Item::Lazy(Arc::new(Joined { items: joined, fields, widths }))))
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

impl LazyRecord for Joined {
    fn fields(&self) -> &[FieldSpec] {
        &self.fields
    }

    fn read(&self) -> Result<Record, BoxError> {
        let records: Result<Vec<Record>, BoxError> = self.items.iter().map(Item::read).collect();
        Ok(records?.concat())
    }

    fn name(&self) -> String {
        self.items.iter().map(Item::name).collect::<Vec<_>>().join(" with ")
    }

    /// The location of the item that the field belongs to.
    fn locate(&self, field: usize) -> Option<SampleLocation> {
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
