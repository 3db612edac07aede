//! The forms of the images that a loader has decoded, by which advice differs.

use crate::decode::DecodedForm;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of images of each form, which workers count.
#[derive(Debug, Default)]
pub(super) struct DecodedForms([AtomicU64; DecodedForm::ALL.len()]);

impl DecodedForms {
    /// Counts an image.
    pub(super) fn add(&self, form: DecodedForm) {
        self.0[form as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the form that most images have, the first of several; `None` if there are no images.
    pub(super) fn most(&self) -> Option<DecodedForm> {
        let count = |form: &DecodedForm| self.0[*form as usize].load(Ordering::Relaxed);
        let most = DecodedForm::ALL.into_iter().rev().max_by_key(count)?;
        (count(&most) > 0).then_some(most)
    }
}
