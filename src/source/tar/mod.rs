//! WebDataset shards: samples in tar files.
//!
//! ```text
//!             header.rs ─ pax.rs        a block; its extended headers
//! feed.rs ──▶ members.rs ─▶ group.rs    bytes in sequence ─▶ files ─▶ which files are a sample
//!                              ├──────▶ scan.rs ─▶ Tar        where samples lie: read in any order
//!                              └──────▶ walk.rs ─▶ TarStream  samples in sequence, also unpacked
//! ```
//!
//! [`Tar`] needs the offsets of all samples. It reads the joined index of a folder, or the index file beside a shard; without
//! one, it reads the headers of all members, several shards at a time. [`TarStream`] needs no offsets: it reads
//! each shard from its start. Both return the same samples with the same values.

mod feed;
mod group;
mod header;
mod members;
mod options;
mod pax;
mod plan;
mod records;
mod scan;
mod stream;
mod walk;
mod zstd;

#[cfg(test)]
mod tests;

use crate::error::Error;
pub use options::TarOptions;
pub use stream::TarStream;

pub(in crate::source) use scan::{scan, warn_of_open};
#[cfg(feature = "mds")]
pub(in crate::source) use zstd::ZstdReader;

use super::columns::{ColumnValue, with_nul};
use super::file::LengthCheck;
use super::index_file::{IndexedShards, Kind, Scanned};
use super::shards::{Shard, Shards};
use super::{
    BoxError, Buffer, Facts, ImageExtent, Location, ObjectFields, Record, Run, RunPlan,
    SampleLocation, Source, StoredValues, Value, classes,
};
use crate::sample::{Limits, SampleId};
use fuseloop_ops::Size;
use plan::{FieldLocation, ShardPlan};
use std::sync::Arc;

/// Samples in plain tar files, read in any order: the shards of a WebDataset.
///
/// Consecutive members with the same name before the extension are one sample: `0001.jpg`, `0001.cls`.
/// Without [declared fields](TarOptions::field), each extension of the first sample is a field of that
/// name: `jpg` and `png` are images, `cls` and `id` are ints, `json` is JSON, `npy` is an array, and others
/// are bytes.
///
/// No member is unpacked to disk, no link is followed, and a member's name is only used as a key. The
/// shards must not be changed while they are open.
///
/// ```no_run
/// use fuseloop::source::{As, Source, Tar, TarOptions};
/// let fields = TarOptions::default().field("image", "jpg;jpeg", As::Image).field("label", "cls", As::Int);
/// let tar = Tar::open("train-{000..255}.tar", &fields)?;
/// println!("{} samples", tar.facts().samples);
/// # Ok::<(), fuseloop::Error>(())
/// ```
#[derive(Clone)]
pub struct Tar {
    facts: Facts,
    shards: Shards,
    plan: Arc<ShardPlan>,
}

impl Tar {
    /// Opens the shards that a text names: paths or addresses, with braces, `::` and `*` for several.
    ///
    /// If the folder of a shard has an index that lists the shard (`joined.fjdx`, see
    /// [`join_index`](super::join_index)), or the shard has an index file (`train-000.tar.fidx`, see
    /// [`index_shards`](super::index_shards)), that is read. For other shards the headers of all members are read,
    /// several shards at a time. No file is written.
    ///
    /// # Errors
    ///
    /// Fails if a shard can't be opened, is damaged or is compressed, if an index file does not match its
    /// shard, if there is no sample, if a field can't be read as it is declared, or if one number means different classes
    /// in two shards, by the names of their classes.
    pub fn open(spec: &str, options: &TarOptions) -> Result<Self, Error> {
        Self::open_shards(spec, options)
    }

    pub(in crate::source) fn open_shards(spec: &str, options: &TarOptions) -> Result<Self, Error> {
        Self::at(&Location::parse(spec)?, options)
    }

    /// Opens the shards of a list.
    ///
    /// # Errors
    ///
    /// Fails as [`open`](Self::open) does.
    pub(in crate::source) fn at(
        locations: &[Location],
        options: &TarOptions,
    ) -> Result<Self, Error> {
        classes::check_shards(locations.iter())?;
        let limits = options.limits_of();
        Self::of_indexed(
            IndexedShards::at(locations, Kind::Tar, limits, scan_with(limits))?,
            options,
        )
    }

    /// Opens a shard that is in memory.
    #[cfg(any(
        test,
        all(feature = "spec", feature = "tables", feature = "tar", feature = "write")
    ))]
    pub(crate) fn from_bytes(bytes: &[u8], options: &TarOptions) -> Result<Self, Error> {
        Self::of(Shards::new(vec![Shard::held("memory.tar", bytes)]), options)
    }

    /// Indexes the samples of open shards.
    #[cfg(any(
        test,
        all(feature = "spec", feature = "tables", feature = "tar", feature = "write")
    ))]
    pub(in crate::source) fn of(shards: Shards, options: &TarOptions) -> Result<Self, Error> {
        classes::check_shards(shards.locations())?;
        let scan = scan_with(options.limits_of());
        Self::of_indexed(IndexedShards::of(shards, Kind::Tar, scan)?, options)
    }

    fn of_indexed(indexed: IndexedShards, options: &TarOptions) -> Result<Self, Error> {
        warn_of_open(indexed.unended.iter());
        let shards = indexed.shards.clone();
        let plan = Arc::new(ShardPlan::new(indexed, options)?);
        Ok(Self { facts: facts(&shards, &plan), shards, plan })
    }

    /// Returns a member's bytes: borrowed from the file, or read into the buffer.
    fn bytes<'a>(
        &'a self,
        located: &FieldLocation<'_>,
        buffer: &'a mut Vec<u8>,
        check: Option<&mut LengthCheck>,
    ) -> Result<&'a [u8], Error> {
        self.plan.check_size(located)?;
        let (shard, part) = (&self.shards.all()[located.shard], &located.part);
        let got = shard.bytes.get_with((part.offset, part.len), buffer, check);
        got.map_err(|error| self.plan.error(located, &error))
    }

    fn borrowed_value<'a>(
        &'a self,
        sample: SampleId,
        field: usize,
        buffer: &'a mut Buffer,
    ) -> Result<Value<'a>, Error> {
        let located = self.plan.locate(sample, field)?;
        let Buffer { bytes, check, held, .. } = buffer;
        let bytes = self.bytes(&located, bytes, check.as_mut())?;
        let cell = located.column.cell(located.ext, bytes);
        Ok(match cell.map_err(|error| self.plan.error(&located, &error))? {
            ColumnValue::Borrowed(value) => value,
            ColumnValue::Text(text) => {
                Value::Json((**held.insert(Arc::new(with_nul(text)))).as_ref())
            }
            ColumnValue::Bytes(rows) => Value::Bytes((**held.insert(Arc::new(rows))).as_ref()),
            ColumnValue::Elements(bytes) => {
                Value::NdArray((**held.insert(Arc::new(bytes))).as_ref())
            }
        })
    }

    fn record(&self, sample: SampleId) -> Result<Record, Error> {
        let value = |field| {
            let located = self.plan.locate(sample, field)?;
            self.plan.check_size(&located)?;
            let shard = &self.shards.all()[located.shard];
            let bytes = shard.bytes.copy(located.part.offset, located.part.len);
            let bytes = bytes.map_err(|error| self.plan.error(&located, &error))?;
            let value = located.column.owned(located.ext, bytes);
            value.map_err(|error| self.plan.error(&located, &error))
        };
        (0..self.plan.fields.len()).map(value).collect()
    }
}

/// Returns a function that finds the samples of a shard by its headers.
fn scan_with(limits: &Limits) -> impl Fn(&Shard) -> Result<Scanned, Error> + Sync + Send {
    |shard| scan(shard, limits)
}

fn facts(shards: &Shards, plan: &Arc<ShardPlan>) -> Facts {
    let (of_bytes, of_fields) = (Arc::clone(plan), Arc::clone(&plan.fields));
    Facts { fingerprint: plan.fingerprint, ..shards.facts(Arc::clone(&plan.fields), plan.len()) }
        .with_audio(plan.audio.iter().map(|field| (*field, None)))
        .with_videos(plan.videos())
        .with_longest(move |field| Some(of_bytes.longest(field)))
        .with_object_fields({
            let shards = shards.clone();
            move || {
                let objects = ObjectFields::beside_shards(shards.locations())?;
                Ok(objects.and_then(|objects| objects.among(&of_fields)))
            }
        })
}

impl Source for Tar {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn read(&self, sample: SampleId) -> Result<Record, BoxError> {
        Ok(self.record(sample)?)
    }

    fn value<'a>(
        &'a self,
        sample: SampleId,
        field: usize,
        buffer: &'a mut Buffer,
    ) -> Result<Value<'a>, BoxError> {
        Ok(self.borrowed_value(sample, field, buffer)?)
    }

    fn locate(&self, sample: SampleId, field: usize) -> Option<SampleLocation> {
        self.plan.location(sample, field)
    }

    /// The index of the shard.
    fn locality_group(&self, sample: SampleId) -> Option<u64> {
        self.plan.shard_and_index(sample).ok().map(|(shard, _)| shard as u64)
    }

    fn begin(self: Arc<Self>, run: &RunPlan) -> Result<Option<Run>, BoxError> {
        let ahead = self.shards.ahead(run, Arc::clone(&self.plan) as _)?;
        let begun = |shards| Run::new(Arc::new(Self { shards, ..(*self).clone() }));
        Ok(ahead.map(begun))
    }

    fn stored(&self) -> Option<&dyn StoredValues> {
        Some(self)
    }
}

impl StoredValues for Tar {
    /// Only of local files parts are read: a remote object is read in the ranges that were planned.
    fn image_extent(&self, sample: SampleId, field: usize) -> Option<ImageExtent> {
        let located = self.plan.locate(sample, field).ok()?;
        self.plan.check_size(&located).ok()?;
        let (shard, member) = (&self.shards.all()[located.shard], &located.part);
        let is_local = matches!(shard.location, Location::Path(_));
        let is_read = is_local && shard.bytes.in_memory().is_none();
        let is_inside = member.range().end <= shard.bytes.len();
        (is_read && is_inside && located.column.kind.is_image()).then_some(ImageExtent {
            mode: None,
            size: Size::new(0, 0),
            start: member.offset,
            bytes: member.len,
        })
    }

    fn image_part(
        &self,
        sample: SampleId,
        field: usize,
        to: (u64, &mut [u8]),
        buffer: &mut Buffer,
    ) -> Result<(), BoxError> {
        let located = self.plan.locate(sample, field)?;
        let (shard, member) = (&self.shards.all()[located.shard], &located.part);
        let read = shard.bytes.read_part((member.offset, member.len), to, buffer.check.as_mut());
        Ok(read.map_err(|error| self.plan.error(&located, &error))?)
    }
}
