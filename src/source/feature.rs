//! Formats that a build leaves out: what an error says when one is asked for.

use std::fmt;

/// Says that this build can't read something, and which feature would let it.
#[derive(Clone, Copy)]
pub(super) struct NeedsFeature {
    /// Completes "this build can't read".
    pub(super) what: &'static str,
    pub(super) feature: &'static str,
}

impl fmt::Display for NeedsFeature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, feature } = self;
        write!(f, "this build can't read {what}: build fuseloop with the feature `{feature}`")
    }
}
