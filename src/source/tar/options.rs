//! Options for opening tar shards: the fields of their samples, and limits.

use crate::error::Error;
use crate::sample::Limits;
use crate::source::ObjectFields;
use crate::source::columns::{ArrayRows, As, FieldRequest};
use crate::source::shards::Shards;

/// The fields of the samples of tar shards, and the limits on what the shards may ask for.
///
/// By default each extension of the first sample is a field, and each that it lacks and the next three samples all have.
///
/// ```no_run
/// use fuseloop::source::{As, Tar, TarOptions};
///
/// let options = TarOptions::default().field("image", "jpg", As::Image).field("caption", "txt", As::Bytes);
/// let shards = Tar::open("train-{000..127}.tar", &options)?;
/// # Ok::<(), fuseloop::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct TarOptions {
    fields: Vec<FieldRequest>,
    limits: Limits,
}

impl TarOptions {
    /// Adds a field. `exts` lists the extensions that can hold it, separated by `;`; the first that a
    /// sample has is read. `features.npz:mean` is the array `mean` of a member with several arrays.
    ///
    /// Once a field is declared, only declared fields are read.
    #[must_use]
    pub fn field(mut self, name: &str, exts: &str, how: As) -> Self {
        self.fields.push(FieldRequest::declared(name, exts, how));
        self
    }

    /// Sets the limits on what the shards may ask for.
    #[must_use]
    pub fn limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    pub(super) fn limits_of(&self) -> &Limits {
        &self.limits
    }

    /// The declared fields, or those of a first sample with these extensions. What the fields of objects
    /// are is read beside the shards.
    ///
    /// # Errors
    ///
    /// If the file beside the shards is damaged.
    pub(super) fn wanted<'a>(
        &self,
        first: impl Iterator<Item = &'a str>,
        shards: &Shards,
    ) -> Result<Vec<FieldRequest>, Error> {
        if !self.fields.is_empty() {
            return Ok(self.fields.clone());
        }
        let mut all = FieldRequest::of_sample(first);
        if all.iter().any(|wanted| wanted.how == As::NdArray) {
            let objects = ObjectFields::beside_shards(shards.locations())?;
            for wanted in all.iter_mut().filter(|wanted| wanted.how == As::NdArray) {
                let row = objects.as_ref().and_then(|objects| objects.get(&wanted.name)?.row());
                wanted.rows = row.map(|(dtype, row)| ArrayRows { dtype, row, is_bare: true });
            }
        }
        Ok(all)
    }

    /// Returns whether fields are declared.
    pub(super) fn asks(&self) -> bool {
        !self.fields.is_empty()
    }

    /// Returns a name that two declared fields share.
    pub(super) fn doubled(&self) -> Option<&str> {
        let name = |index: usize| self.fields[index].name.as_str();
        (1..self.fields.len())
            .find(|&index| (0..index).any(|before| name(before) == name(index)))
            .map(name)
    }
}
