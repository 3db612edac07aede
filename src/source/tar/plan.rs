//! Numbers the samples of several shards, and locates each of their fields.
//!
//! ```text
//! columns: image = jpg;png   the first of its extensions that the sample has
//! ```

use super::TarOptions;
use crate::error::{Error, fail};
use crate::sample::{Limits, SampleId};
use crate::source::audio_format;
use crate::source::columns::{ArrayRows, As, FieldColumn, FieldRequest};
use crate::source::index_file::IndexedShards;
use crate::source::shards::{Extents, MemberNames, PackedIndex, ShardMember, Shards};
use crate::source::starts::Starts;
use crate::source::video_format;
use crate::source::{FieldKind, FieldSpec, Fingerprint, Location, SampleLocation};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// The index of a dataset's shards.
pub(super) struct ShardPlan {
    shards: Shards,
    indexes: Vec<PackedIndex>,
    starts: Starts,
    pub(super) fields: Arc<[FieldSpec]>,
    /// The fields that are audio files.
    pub(super) audio: Vec<usize>,
    columns: Vec<FieldColumn>,
    /// By column.
    numbers: Vec<ExtNumbers>,
    limits: Limits,
    pub(super) fingerprint: u64,
}

/// The extensions of a column that members have: their numbers in [`MemberNames`], and their indices in the column.
struct ExtNumbers {
    numbers: Vec<u32>,
    exts: Vec<usize>,
}

impl ExtNumbers {
    fn new(wanted: &FieldRequest, names: &MemberNames) -> Self {
        let exts = wanted.exts.iter().enumerate();
        let known = exts.filter_map(|(nth, (ext, _))| Some((names.number(ext)?, nth)));
        let (numbers, exts) = known.unzip();
        Self { numbers, exts }
    }

    /// Returns the member of a sample that holds the column, and the index of its extension.
    fn find(
        &self,
        index: &PackedIndex,
        sample: usize,
    ) -> Result<Option<(ShardMember, usize)>, Error> {
        let found = index.find(sample, &self.numbers)?;
        Ok(found.and_then(|(member, place)| Some((member, *self.exts.get(place)?))))
    }
}

/// The location of a sample's field.
pub(super) struct FieldLocation<'a> {
    pub(super) shard: usize,
    /// The sample's number in the shard.
    sample: usize,
    pub(super) column: &'a FieldColumn,
    /// The index of the extension among those of the column.
    pub(super) ext: usize,
    pub(super) part: ShardMember,
}

impl ShardPlan {
    pub(super) fn new(indexed: IndexedShards, options: &TarOptions) -> Result<Self, Error> {
        let IndexedShards { shards, indexes, names, .. } = indexed;
        let limits = *options.limits_of();
        let starts: Starts = indexes.iter().map(|index| index.len() as u64).collect();
        check_count(&shards, starts.samples(), limits.max_samples)?;
        let columns = columns(&shards, (&indexes, &names), options)?;
        let numbers =
            columns.iter().map(|column| ExtNumbers::new(&column.wanted, &names)).collect();
        let fields: Arc<[FieldSpec]> = columns.iter().map(spec).collect();
        let fingerprint = fingerprint(&shards, &indexes, &fields, &columns);
        let audio = vec![];
        let plan =
            Self { shards, indexes, starts, fields, audio, columns, numbers, limits, fingerprint };
        Ok(Self { audio: plan.audio(), ..plan })
    }

    /// Returns the fields that are called as video files are.
    pub(super) fn videos(&self) -> impl Iterator<Item = usize> {
        let is_called = |(ext, inside): &(String, Option<String>)| {
            let last = ext.rsplit('.').next().unwrap_or(ext);
            inside.is_none() && video_format::of_extension(last).is_some()
        };
        let is_video = move |(_, column): &(usize, &FieldColumn)| {
            let FieldRequest { exts, rows, .. } = &column.wanted;
            column.kind == FieldKind::Bytes && rows.is_none() && exts.iter().any(is_called)
        };
        let columns = self.columns.iter().enumerate().filter(move |_| cfg!(feature = "video"));
        columns.filter(is_video).map(|(field, _)| field)
    }

    /// Returns the fields that are audio files. Only the first bytes of members with the extensions of audio are read.
    fn audio(&self) -> Vec<usize> {
        let begins = |sample: u64, field: usize| {
            let FieldLocation { shard, part, .. } = self.locate(SampleId(sample), field).ok()?;
            let size = part.len.min(audio_format::FIRST_BYTES);
            let first = self.shards.all()[shard].bytes.copy(part.offset, size).ok()?;
            Some(audio_format::may_begin(&first))
        };
        let samples = self.len().min(1 + OTHERS as u64);
        let is_audio = |field: &usize| {
            may_be_audio(&self.columns[*field])
                && at_least_half((0..samples).filter_map(|sample| begins(sample, *field)))
        };
        (0..self.columns.len()).filter(is_audio).collect()
    }

    pub(super) fn len(&self) -> u64 {
        self.starts.samples()
    }

    /// Returns the shard of a sample and the sample's number in it.
    pub(super) fn shard_and_index(&self, sample: SampleId) -> Result<(usize, usize), Error> {
        let none = || {
            fail!(
                Parameter,
                "sample {sample} does not exist: the shards have {samples} samples",
                sample = sample.0,
                samples = self.len()
            )
        };
        let (shard, sample) = self.starts.locate(sample).ok_or_else(none)?;
        Ok((shard, sample.0 as usize))
    }

    /// Returns the location of a sample, and the byte range of one of its fields if the sample has that
    /// field.
    pub(super) fn location(&self, sample: SampleId, field: usize) -> Option<SampleLocation> {
        let bytes = self.locate(sample, field).ok().map(|located| located.part.range());
        let (shard, sample) = self.shard_and_index(sample).ok()?;
        let key = self.indexes[shard].key(sample).ok();
        let key = key.map(|key| String::from_utf8_lossy(&key).into());
        Some(SampleLocation {
            bytes,
            ..SampleLocation::in_file(self.location_of(shard).text(), key)
        })
    }

    /// Returns the location of a sample's field.
    pub(super) fn locate(
        &self,
        sample: SampleId,
        field: usize,
    ) -> Result<FieldLocation<'_>, Error> {
        let (shard, sample) = self.shard_and_index(sample)?;
        let fields = self.fields.len();
        let column = self.columns.get(field).ok_or_else(|| {
            fail!(Field, "field {field} does not exist: the shards have {fields} fields")
        })?;
        let found = self.numbers[field].find(&self.indexes[shard], sample)?;
        let (part, ext) = found.ok_or_else(|| {
            let (key, wanted) = (self.key(shard, sample), column.wanted.text());
            fail!(Damaged, "sample {key}: it has no {wanted}").at(self.location_of(shard))
        })?;
        Ok(FieldLocation { shard, sample, column, ext, part })
    }

    /// Refuses a member that is larger than a value may be.
    pub(super) fn check_size(&self, located: &FieldLocation<'_>) -> Result<(), Error> {
        let (found, limit) = (located.part.len, self.limits.max_sample_bytes);
        if found <= limit {
            return Ok(());
        }
        Err(self.error(located, &format!("{found} bytes, the limit is {limit}")))
    }

    /// Adds the location of a member to a message.
    pub(super) fn error(&self, located: &FieldLocation<'_>, message: &impl fmt::Display) -> Error {
        let FieldLocation { shard, sample, column, ext, part } = located;
        let (key, ext, at) = (self.key(*shard, *sample), &column.wanted.exts[*ext].0, part.offset);
        fail!(Damaged, "sample {key}, {ext} at byte {at}: {message}")
            .at(self.location_of(*shard))
            .named_byte(at)
    }

    /// Returns a sample's key; its number in the shard if the index can't be read.
    fn key(&self, shard: usize, sample: usize) -> String {
        let key = self.indexes[shard].key(sample);
        key.map_or_else(|_| sample.to_string(), |key| String::from_utf8_lossy(&key).into_owned())
    }

    fn location_of(&self, shard: usize) -> &Location {
        &self.shards.all()[shard].location
    }

    /// The length in bytes of a column's longest value: for JSON, including its NUL.
    pub(super) fn longest(&self, field: usize) -> u64 {
        let Some(ExtNumbers { numbers, .. }) = self.numbers.get(field) else { return 0 };
        let named = self.indexes.iter().flat_map(|index| &index.names);
        let ours = named.filter(|named| numbers.contains(&named.name));
        let longest = ours.map(|named| named.longest).max();
        let nul = u64::from(self.columns.get(field).is_some_and(|c| c.kind == FieldKind::Json));
        longest.map_or(0, |longest| longest + nul)
    }
}

impl Extents for ShardPlan {
    fn extents(&self, sample: SampleId, fields: &[usize], out: &mut Vec<(usize, Range<u64>)>) {
        let located = fields.iter().filter_map(|&field| self.locate(sample, field).ok());
        out.extend(located.map(|located| (located.shard, located.part.range())));
    }
}

fn check_count(shards: &Shards, found: u64, limit: u64) -> Result<(), Error> {
    match found {
        0 => Err(fail!(Format, "{shards}: no samples found", shards = shards.name())),
        _ if found > limit => {
            let shards = shards.name();
            Err(fail!(Memory, "{shards}: {found} samples, the limit is {limit}"))
        }
        _ => Ok(()),
    }
}

pub(super) fn spec(column: &FieldColumn) -> FieldSpec {
    FieldSpec { name: column.wanted.name.clone(), kind: column.kind.clone() }
}

/// Returns whether a field of bytes is called as audio files are.
pub(super) fn may_be_audio(column: &FieldColumn) -> bool {
    let FieldRequest { exts, rows, .. } = &column.wanted;
    let is_called = |(ext, inside): &(String, Option<String>)| {
        inside.is_none() && audio_format::of_name(ext).is_some()
    };
    column.kind == FieldKind::Bytes && rows.is_none() && exts.iter().any(is_called)
}

/// Returns whether at least half of the first members begin as audio files do: the others may be damaged.
pub(super) fn at_least_half(begin: impl Iterator<Item = bool>) -> bool {
    let begin: Vec<bool> = begin.collect();
    let audio = begin.iter().filter(|is_audio| **is_audio).count();
    audio > 0 && 2 * audio >= begin.len()
}

/// The number of samples after the first that are compared with it.
pub(super) const OTHERS: usize = 3;

/// Returns the extensions that become fields: those of the first of `samples`, and those that it lacks and all others have.
/// Then the first sample is the damaged one. An image of another extension is no other field.
pub(super) fn exts_of_fields<'a>(samples: &[Vec<&'a str>]) -> Vec<&'a str> {
    let Some((first, others)) = samples.split_first() else { return vec![] };
    let mut exts = first.clone();
    let [second, rest @ ..] = others else { return exts };
    let is_image = |ext: &str| As::of_extension(ext) == As::Image;
    let has_other_image = first.iter().any(|ext| is_image(ext) && !second.contains(ext));
    exts.extend(second.iter().filter(|ext| {
        let is_in_all = !rest.is_empty() && rest.iter().all(|other| other.contains(ext));
        is_in_all && !first.contains(ext) && !(has_other_image && is_image(ext))
    }));
    exts
}

/// The declared fields, or those of the first samples.
fn columns(
    shards: &Shards,
    (indexes, names): (&[PackedIndex], &MemberNames),
    options: &TarOptions,
) -> Result<Vec<FieldColumn>, Error> {
    if let Some(name) = options.doubled() {
        return Err(fail!(Field, "field {name}: declared twice").of_field(name));
    }
    let mut samples: Vec<Vec<&str>> = vec![];
    if let Some(index) = indexes.iter().find(|index| index.len() > 0) {
        let name =
            |part: ShardMember| Some(names.text(index.names.get(usize::from(part.name))?.name));
        for sample in 0..index.len().min(1 + OTHERS) {
            samples.push(index.members(sample)?.into_iter().filter_map(name).collect());
        }
    }
    let exts = exts_of_fields(&samples).into_iter();
    let column = |mut wanted: FieldRequest| {
        let name = wanted.name.clone();
        let Some((shard, part, ext)) = first_with((indexes, names), &wanted)? else {
            let text = wanted.text();
            return Err(fail!(Field, "field {name}: no sample has {text}").of_field(&name));
        };
        let inside = wanted.exts[ext].1.clone();
        let limits = options.limits_of();
        // Only arrays need their first bytes here. The others are not read: any sample may be damaged.
        let size = if wanted.is_plain() { 0 } else { part.len.min(limits.max_sample_bytes) };
        let shard = &shards.all()[shard];
        let bytes = shard.bytes.copy(part.offset, size);
        let failed = |message: &dyn fmt::Display| {
            let (location, at) = (&shard.location, part.offset);
            fail!(Field, "field {name}: {location}, byte {at}: {message}").of_field(&name)
        };
        let bytes = bytes.map_err(|error| failed(&error))?;
        if !options.asks() && !wanted.is_plain() {
            let number = names.number(&wanted.exts[ext].0);
            wanted.rows = number.and_then(|ext| rows(shards, indexes, (ext, &bytes), limits));
        }
        wanted.column(inside.as_deref(), &bytes, limits).map_err(|error| failed(&error))
    };
    options.wanted(exts, shards)?.into_iter().map(column).collect()
}

/// The most members of other lengths that are read to find out whether arrays differ in their first axis.
const MOST_COMPARED: usize = 8;

/// Returns the rows of an extension's arrays, if they differ between samples in the first axis. `first` is
/// the first sample's. Arrays whose files have one length have one shape, and nothing more is read.
fn rows(
    shards: &Shards,
    indexes: &[PackedIndex],
    (ext, first): (u32, &[u8]),
    limits: &Limits,
) -> Option<ArrayRows> {
    let mut others: BTreeMap<u64, (usize, u64)> = BTreeMap::new();
    for (shard, index) in indexes.iter().enumerate() {
        let Some(name) = index.names.iter().position(|named| named.name == ext) else { continue };
        let parts = index.arrays.iter().filter(|part| usize::from(part.name) == name);
        for part in parts.filter(|part| part.len != first.len() as u64) {
            if others.len() < MOST_COMPARED && part.len <= limits.max_sample_bytes {
                others.entry(part.len).or_insert((shard, part.offset));
            }
        }
    }
    others.iter().find_map(|(&len, &(shard, offset))| {
        // A damaged member is an error when its sample is read.
        let other = shards.all()[shard].bytes.copy(offset, len).ok()?;
        ArrayRows::of_two(first, &other)
    })
}

/// Returns the first member that can hold a field: its shard, the member, and the index of its
/// extension.
fn first_with(
    (indexes, names): (&[PackedIndex], &MemberNames),
    wanted: &FieldRequest,
) -> Result<Option<(usize, ShardMember, usize)>, Error> {
    let numbers = ExtNumbers::new(wanted, names);
    for (shard, index) in indexes.iter().enumerate() {
        let named = numbers.numbers.iter().filter_map(|number| index.named(*number));
        let Some(first) = named.map(|named| named.first).min() else { continue };
        if let Some((part, ext)) = numbers.find(index, first as usize)? {
            return Ok(Some((shard, part, ext)));
        }
    }
    Ok(None)
}

fn fingerprint(
    shards: &Shards,
    indexes: &[PackedIndex],
    fields: &[FieldSpec],
    columns: &[FieldColumn],
) -> u64 {
    let mut print = Fingerprint::default();
    print.text("tar");
    print.fields(fields);
    columns.iter().for_each(|column| print.text(&column.wanted.text()));
    for (shard, index) in shards.all().iter().zip(indexes) {
        print.text(shard.location.file_name());
        print.number(index.shard_len);
        print.number(u64::from(index.digest));
    }
    print.value()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extension_that_only_the_first_sample_lacks_is_a_field() {
        let fields = |samples: &[&[&'static str]]| {
            exts_of_fields(&samples.iter().map(|exts| exts.to_vec()).collect::<Vec<_>>()).join(" ")
        };
        assert_eq!(fields(&[&["jpg"], &["jpg", "cls"], &["jpg", "cls"]]), "jpg cls");
        assert_eq!(fields(&[&["jpg"], &["jpg", "cls"]]), "jpg", "one other proves nothing");
        assert_eq!(fields(&[&["jpg"], &["jpg", "txt"], &["jpg"]]), "jpg");
        assert_eq!(fields(&[&["jpg"], &["png"], &["png"]]), "jpg");
        assert_eq!(fields(&[&["jpg"], &["jpg", "seg.png"], &["jpg", "seg.png"]]), "jpg seg.png");
        assert_eq!(fields(&[&["jpg", "cls"]]), "jpg cls");
        assert_eq!(fields(&[]), "");
    }
}
