//! Options for opening tar shards: the fields of their samples, and limits.

use crate::sample::Limits;
use crate::source::columns::{As, FieldRequest};

/// The fields of the samples of tar shards, and the limits on what the shards may ask for.
///
/// By default each extension of the first sample is a field.
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

    /// The declared fields, or those of a first sample with these extensions.
    pub(super) fn wanted<'a>(&self, first: impl Iterator<Item = &'a str>) -> Vec<FieldRequest> {
        if self.fields.is_empty() {
            return FieldRequest::of_sample(first);
        }
        self.fields.clone()
    }

    /// Returns a name that two declared fields share.
    pub(super) fn doubled(&self) -> Option<&str> {
        let name = |index: usize| self.fields[index].name.as_str();
        (1..self.fields.len())
            .find(|&index| (0..index).any(|before| name(before) == name(index)))
            .map(name)
    }
}
