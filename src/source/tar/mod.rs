//! WebDataset's shards: samples in tar files.
//!
//! ```text
//!             header.rs ─ pax.rs        a block; what is told beside it
//! feed.rs ──▶ members.rs ─▶ group.rs    bytes in sequence ─▶ files ─▶ which files are a sample
//!                              ├──────▶ scan.rs ─▶ Tar        where samples lie: read in any order
//!                              └──────▶ walk.rs ─▶ TarStream  samples in sequence, also unpacked
//! ```
//!
//! [`Tar`] wants to know where samples lie: by the index file beside a shard, or else by reading the
//! headers of all members, of all shards at a time. [`TarStream`] wants to know nothing: it reads shards
//! from their beginning on. Both give the same samples with the same values.

mod error;
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

#[cfg(test)]
mod tests;

pub use error::{Damage, PartPlace, TarError};
pub use options::TarOptions;
pub use stream::TarStream;

pub(in crate::source) use scan::scan;

use super::columns::{Cell, ended};
use super::file::LengthCheck;
use super::shards::{Shard, ShardIndex, Shards};
use super::{
    BoxError, Buffer, ClassNames, FieldSpec, Record, RunPlan, SampleLocation, Source, Value,
    classes, sidecar,
};
use crate::parallel;
use crate::sample::{Limits, SampleId};
use plan::{Located, Plan};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Samples in plain tar files, read in any order: the shards of a WebDataset.
///
/// A sample is what lies side by side under one name: `0001.jpg`, `0001.cls`. Without
/// [declared fields](TarOptions::field) each extension of the first sample is a field of that name; see
/// [`As::of_extension`](super::As::of_extension) for what it becomes.
///
/// Nothing is unpacked to a disk, no link is followed, and a member's name is only ever a key. The
/// shards should not be changed while they are open.
///
/// ```no_run
/// use fuseloop::source::{As, Source, Tar, TarOptions};
/// let fields = TarOptions::default().field("image", "jpg;jpeg", As::Image).field("label", "cls", As::Int);
/// let tar = Tar::open_with("train-{000..255}.tar", &fields)?;
/// println!("{} samples", tar.len());
/// # Ok::<(), fuseloop::source::TarError>(())
/// ```
#[derive(Clone)]
pub struct Tar {
    shards: Shards,
    plan: Arc<Plan>,
}

impl Tar {
    /// Opens the shards that a text names: see [`Location::parse`](super::Location::parse).
    ///
    /// Of a shard with an index file (`train-000.tar.fidx`, see
    /// [`index_shards`](super::index_shards)) that is read; of others the headers of all members are,
    /// several shards at a time. No file is written.
    ///
    /// # Errors
    ///
    /// See [`TarError`]: a shard that can't be opened, is damaged or compressed; an index file that is
    /// not of its shard; no sample at all.
    pub fn open(spec: &str) -> Result<Self, TarError> {
        Self::open_with(spec, &TarOptions::default())
    }

    /// Opens shards with declared fields, or with limits of their own.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open); and if a field can't be had as it is declared.
    pub fn open_with(spec: &str, options: &TarOptions) -> Result<Self, TarError> {
        Self::of(Shards::open(spec).map_err(TarError::Open)?, options)
    }

    /// Opens a shard that is in memory.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn from_bytes(bytes: &[u8], limits: &Limits) -> Result<Self, TarError> {
        Self::from_bytes_with(bytes, &TarOptions::default().limits(*limits))
    }

    /// Opens a shard that is in memory, with declared fields.
    ///
    /// # Errors
    ///
    /// As [`open_with`](Self::open_with).
    pub fn from_bytes_with(bytes: &[u8], options: &TarOptions) -> Result<Self, TarError> {
        Self::of(Shards::new(vec![Shard::held("memory.tar", bytes)]), options)
    }

    /// The samples of open shards.
    pub(in crate::source) fn of(shards: Shards, options: &TarOptions) -> Result<Self, TarError> {
        let indexed = |shard: &Shard| indexed(shard, options.limits_of());
        let indexes = parallel::map(shards.all(), indexed)?;
        let indexes = indexes.into_iter().collect::<Result<Vec<ShardIndex>, TarError>>()?;
        let plan = Arc::new(Plan::new(&shards, indexes, options)?);
        Ok(Self { shards, plan })
    }

    /// A part's bytes: lent, or in the buffer.
    fn bytes<'a>(
        &'a self,
        located: &Located<'_>,
        buffer: &'a mut Vec<u8>,
        check: Option<&mut LengthCheck>,
    ) -> Result<&'a [u8], TarError> {
        self.plan.check_size(located)?;
        let (shard, part) = (&self.shards.all()[located.shard], &located.part);
        let got = shard.bytes.get_with((part.offset, part.len), buffer, check);
        got.map_err(|error| self.plan.error(located, &error))
    }

    fn lent<'a>(
        &'a self,
        sample: SampleId,
        field: usize,
        buffer: &'a mut Buffer,
    ) -> Result<Value<'a>, TarError> {
        let located = self.plan.locate(sample, field)?;
        let Buffer { bytes, check, held, .. } = buffer;
        let bytes = self.bytes(&located, bytes, check.as_mut())?;
        let cell = located.column.cell(located.ext, bytes);
        Ok(match cell.map_err(|error| self.plan.error(&located, &error))? {
            Cell::Here(value) => value,
            Cell::Text(text) => Value::Json((**held.insert(Arc::new(ended(text)))).as_ref()),
            Cell::Elements(bytes) => Value::NdArray((**held.insert(Arc::new(bytes))).as_ref()),
        })
    }

    fn record(&self, sample: SampleId) -> Result<Record, TarError> {
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

/// Where a shard's samples lie, by its index file or by its headers.
fn indexed(shard: &Shard, limits: &Limits) -> Result<ShardIndex, TarError> {
    let kept = sidecar::load(shard, sidecar::Kind::Tar).map_err(TarError::Open)?;
    kept.map_or_else(|| scan(shard, limits), Ok)
}

impl Source for Tar {
    fn fields(&self) -> &[FieldSpec] {
        &self.plan.fields
    }

    fn len(&self) -> u64 {
        self.plan.len()
    }

    fn read(&self, sample: SampleId) -> Result<Record, BoxError> {
        Ok(self.record(sample)?)
    }

    fn name(&self) -> String {
        self.shards.name()
    }

    fn path(&self) -> Option<&Path> {
        self.shards.path()
    }

    fn paths(&self) -> Box<dyn Iterator<Item = PathBuf> + '_> {
        Box::new(self.shards.paths())
    }

    fn value<'a>(
        &'a self,
        sample: SampleId,
        field: usize,
        buffer: &'a mut Buffer,
    ) -> Result<Value<'a>, BoxError> {
        Ok(self.lent(sample, field, buffer)?)
    }

    fn longest(&self, field: usize) -> Option<u64> {
        Some(self.plan.longest(field))
    }

    /// Of files of this machine.
    fn is_cheap_to_read_again(&self) -> bool {
        self.shards.are_local()
    }

    fn locate(&self, sample: SampleId, field: usize) -> Option<SampleLocation> {
        self.plan.location(sample, field)
    }

    fn class_names(&self) -> Result<Option<ClassNames>, BoxError> {
        classes::of_shards(self.shards.locations())
    }

    /// The shard's number.
    fn page(&self, sample: SampleId) -> Option<u64> {
        self.plan.place(sample).ok().map(|(shard, _)| shard as u64)
    }

    fn fingerprint(&self) -> u64 {
        self.plan.fingerprint
    }

    fn begin(self: Arc<Self>, run: &RunPlan) -> Result<Option<Arc<dyn Source>>, BoxError> {
        let ahead = self.shards.ahead(run, Arc::clone(&self.plan) as _)?;
        let begun = |shards| Arc::new(Self { shards, plan: Arc::clone(&self.plan) }) as _;
        Ok(ahead.map(begun))
    }
}
