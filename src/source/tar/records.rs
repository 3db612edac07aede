//! Turns the members of a shard into records.
//!
//! The fields are declared, or those of the first samples of all shards. An error in one sample becomes
//! an item that returns the error when it is read, so the other samples are not affected.

use super::TarOptions;
use super::plan::{OTHERS, at_least_half, exts_of_fields, may_be_audio, spec};
use super::walk::{FoundMember, FoundSample, SampleWalk};
use crate::error::{Error, fail};
use crate::sample::{Limits, UNKNOWN};
use crate::source::audio_format;
use crate::source::columns::{FieldColumn, FieldRequest};
use crate::source::samples::UnreadableRecord;
use crate::source::shards::{Shard, Shards, facts_of};
use crate::source::stream::Item;
use crate::source::{Facts, FieldSpec, Fingerprint, Location, OwnedValue, Record, SampleLocation};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The state that all passes over the shards share.
pub(super) struct TarInner {
    pub(super) shards: Vec<Known>,
    columns: Vec<FieldColumn>,
    pub(super) fields: Arc<[FieldSpec]>,
    /// The fields that are audio files.
    audio: Vec<usize>,
    limits: Limits,
    pub(super) name: String,
    /// True if it was told that a shard may have been cut short.
    pub(super) has_warned: AtomicBool,
}

/// A shard that exists.
pub(super) struct Known {
    pub(super) location: Location,
    /// The location as text, which the items of the shard share.
    file: Arc<str>,
    len: u64,
    /// The shard, if it is in memory: others are opened when a pass reaches them.
    held: Option<Shard>,
}

impl TarInner {
    /// Reads the fields from open shards. A pass opens each shard again when it reaches it.
    pub(super) fn new(shards: &Shards, options: &TarOptions, is_held: bool) -> Result<Self, Error> {
        let known = |shard: &Shard| Known {
            location: shard.location.clone(),
            file: shard.location.text().into(),
            len: shard.bytes.len(),
            held: is_held.then(|| shard.clone()),
        };
        let (columns, met) = columns(shards, options)?;
        let is_audio = |field: &usize| {
            let column = &columns[*field];
            let parts = met.iter().filter_map(|sample| {
                let exts = &mut column.wanted.exts.iter();
                exts.find_map(|(ext, _)| sample.parts.iter().find(|part| part.ext == *ext))
            });
            let firsts = parts.filter_map(|part| part.bytes.as_deref());
            may_be_audio(column) && at_least_half(firsts.map(audio_format::may_begin))
        };
        Ok(Self {
            audio: (0..columns.len()).filter(is_audio).collect(),
            shards: shards.all().iter().map(known).collect(),
            fields: columns.iter().map(spec).collect(),
            columns,
            limits: *options.limits_of(),
            name: shards.name(),
            has_warned: AtomicBool::new(false),
        })
    }

    pub(super) fn locations(&self) -> impl Iterator<Item = Location> {
        self.shards.iter().map(|shard| shard.location.clone())
    }

    /// Returns the facts of a stream of these files.
    pub(super) fn facts(&self, files: Arc<[Location]>) -> Facts {
        facts_of(files, Arc::clone(&self.fields), UNKNOWN)
            .with_audio(self.audio.iter().map(|field| (*field, None)))
    }

    pub(super) fn fingerprint(&self) -> Fingerprint {
        let mut print = Fingerprint::default();
        print.text("tar stream");
        print.fields(&self.fields);
        self.columns.iter().for_each(|column| print.text(&column.wanted.text()));
        for shard in &self.shards {
            print.text(shard.location.file_name());
            print.number(shard.len);
        }
        print
    }

    pub(super) fn walk(&self, shard: usize) -> Result<SampleWalk, Error> {
        let Known { location, held, .. } = &self.shards[shard];
        let opened = held.clone().map_or_else(|| Shard::open(location.clone()), Ok)?;
        SampleWalk::new(&opened, longest(&self.limits)).map_err(|error| error.at(location))
    }

    /// Returns true if a member must be read: a field uses it, and it is not over the limit.
    pub(super) fn is_wanted(&self, ext: &str, size: u64) -> bool {
        size <= self.limits.max_sample_bytes
            && self.columns.iter().any(|column| column.wanted.exts.iter().any(|(e, _)| e == ext))
    }

    pub(super) fn item(&self, shard: usize, met: FoundSample) -> Item {
        let key: Arc<str> = String::from_utf8_lossy(&met.key).into();
        let file = Arc::clone(&self.shards[shard].file);
        let location = Arc::new(SampleLocation::in_file(file, Some(Arc::clone(&key))));
        match self.record(shard, &key, met.parts) {
            Ok(record) => Item::Held { record: Arc::new(record), location },
            Err(error) => {
                let (fields, name) = (Arc::clone(&self.fields), self.name.clone());
                Item::Lazy(Arc::new(UnreadableRecord { fields, name, location, error }))
            }
        }
    }

    fn record(
        &self,
        shard: usize,
        key: &str,
        mut parts: Vec<FoundMember>,
    ) -> Result<Record, Error> {
        let location = &self.shards[shard].location;
        let value = |index: usize| -> Result<OwnedValue, Error> {
            let column = &self.columns[index];
            let Some((ext, part)) = part_of(column, &mut parts) else {
                let wanted = column.wanted.text();
                return Err(fail!(Damaged, "sample {key}: it has no {wanted}").at(location));
            };
            let (is_last, limit) = (self.is_last(index, &part.ext), self.limits.max_sample_bytes);
            let (ext_of_part, at, size) = (part.ext.clone(), part.at, part.size);
            let damaged = |message: &dyn fmt::Display| {
                fail!(Damaged, "sample {key}, {ext_of_part} at byte {at}: {message}")
                    .at(location)
                    .named_byte(at)
            };
            let bytes = if is_last { part.bytes.take() } else { part.bytes.clone() };
            let bytes = bytes
                .ok_or_else(|| damaged(&format_args!("{size} bytes, the limit is {limit}")))?;
            column.owned(ext, bytes).map_err(|wrong| damaged(&wrong))
        };
        (0..self.columns.len()).map(value).collect()
    }

    /// Returns true if no later column uses the bytes of this extension.
    fn is_last(&self, index: usize, ext: &str) -> bool {
        let mut later = self.columns.iter().skip(index + 1);
        !later.any(|column| column.wanted.exts.iter().any(|(wanted, _)| wanted == ext))
    }
}

/// Returns the first of a column's extensions that a sample has.
fn part_of<'a>(
    column: &FieldColumn,
    parts: &'a mut [FoundMember],
) -> Option<(usize, &'a mut FoundMember)> {
    let mut exts = column.wanted.exts.iter().enumerate();
    let (ext, index) = exts.find_map(|(index, (ext, _))| {
        Some((index, parts.iter().position(|part| part.ext == *ext)?))
    })?;
    Some((ext, &mut parts[index]))
}

/// The declared fields, or those of the first samples, and these samples.
fn columns(
    shards: &Shards,
    options: &TarOptions,
) -> Result<(Vec<FieldColumn>, Vec<FoundSample>), Error> {
    if let Some(name) = options.doubled() {
        return Err(fail!(Field, "field {name}: declared twice").of_field(name));
    }
    let limits = options.limits_of();
    let (location, met) = first(shards, limits, if options.asks() { 0 } else { OTHERS })?;
    let column = |wanted: FieldRequest| {
        let name = wanted.name.clone();
        let part = met.iter().find_map(|sample| {
            wanted.exts.iter().find_map(|(ext, inside)| {
                Some((sample.parts.iter().find(|part| part.ext == *ext)?, inside.clone()))
            })
        });
        let (bytes, inside) = match part {
            Some((part, inside)) => (part.bytes.as_deref().unwrap_or_default(), inside),
            None if wanted.is_plain() => (&[][..], None),
            None => {
                let text = wanted.text();
                let error = fail!(Field, "field {name}: the first sample has no {text}");
                return Err(error.of_field(&name));
            }
        };
        let column = wanted.column(inside.as_deref(), bytes, limits);
        column.map_err(|error| {
            fail!(Field, "field {name}: {location}: the first sample: {error}").of_field(&name)
        })
    };
    let samples: Vec<Vec<&str>> = met
        .iter()
        .map(|sample| sample.parts.iter().map(|part| part.ext.as_str()).collect())
        .collect();
    let wanted = options.wanted(exts_of_fields(&samples).into_iter(), shards)?;
    let columns = wanted.into_iter().map(column).collect::<Result<_, Error>>()?;
    Ok((columns, met))
}

/// The largest member of a compressed shard, in bytes.
fn longest(limits: &Limits) -> u64 {
    limits.max_unpacked_bytes.min(limits.max_sample_bytes)
}

/// Returns the first sample of all shards and up to `others` after it, and their shard's location.
fn first(
    shards: &Shards,
    limits: &Limits,
    others: usize,
) -> Result<(String, Vec<FoundSample>), Error> {
    let most = limits.max_sample_bytes;
    for shard in shards.all() {
        let failed = |error: Error| error.at(&shard.location);
        let mut walk = SampleWalk::new(shard, longest(limits)).map_err(failed)?;
        let Some(met) = walk.sample(|_, size| size <= most).map_err(failed)? else { continue };
        let mut samples = vec![met];
        // Damage after the first sample is an error when it is read.
        while samples.len() <= others
            && let Ok(Some(met)) = walk.sample(|_, size| size <= most)
        {
            samples.push(met);
        }
        return Ok((shard.location.to_string(), samples));
    }
    Err(fail!(Format, "{shards}: no samples found", shards = shards.name()))
}
