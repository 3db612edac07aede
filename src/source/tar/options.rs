//! How shards are opened: which fields their samples have, and what they may ask for.

use crate::sample::Limits;
use crate::source::columns::{As, Wanted};

/// Which fields the samples of tar shards have, and what the shards may ask for.
///
/// By default each extension of the first sample is a field.
#[derive(Clone, Debug, Default)]
pub struct TarOptions {
    fields: Vec<Wanted>,
    limits: Limits,
}

impl TarOptions {
    /// Adds a field: `exts` are the extensions it may come by, with `;` between them, the first
    /// that a sample has. `features.npz:mean` is the array `mean` of a member with several.
    ///
    /// Once a field is declared, only those that are declared are read.
    #[must_use]
    pub fn field(mut self, name: &str, exts: &str, how: As) -> Self {
        self.fields.push(Wanted::declared(name, exts, how));
        self
    }

    /// What the shards may ask for.
    #[must_use]
    pub fn limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    pub(super) fn limits_of(&self) -> &Limits {
        &self.limits
    }

    /// The declared fields, or those of a first sample with these extensions.
    pub(super) fn wanted<'a>(&self, first: impl Iterator<Item = &'a str>) -> Vec<Wanted> {
        if self.fields.is_empty() {
            return Wanted::of_sample(first);
        }
        self.fields.clone()
    }

    /// The name of two declared fields.
    pub(super) fn doubled(&self) -> Option<&str> {
        let name = |place: usize| self.fields[place].name.as_str();
        (1..self.fields.len())
            .find(|&place| (0..place).any(|before| name(before) == name(place)))
            .map(name)
    }
}
