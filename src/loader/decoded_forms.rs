//! The forms of the images that a loader has decoded, by which advice differs.

use crate::decode::DecodedForm;
use std::sync::atomic::{AtomicU8, Ordering};

/// A set of forms, which workers add to.
#[derive(Debug, Default)]
pub(super) struct DecodedForms(AtomicU8);

impl DecodedForms {
    /// Adds a form. Writes only a form that is new: workers share the memory.
    pub(super) fn add(&self, form: DecodedForm) {
        if !self.has(form) {
            self.0.fetch_or(bit(form), Ordering::Relaxed);
        }
    }

    pub(super) fn has(&self, form: DecodedForm) -> bool {
        self.0.load(Ordering::Relaxed) & bit(form) != 0
    }
}

fn bit(form: DecodedForm) -> u8 {
    1 << form as u8
}
