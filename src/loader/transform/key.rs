//! What the draws of a call depend on.

use crate::loader::outputs::DrawsOf;
use fuseloop_ops::internals::SampleKey;

/// What the draws of a call depend on: those of a loader with this seed, for this sample in this epoch.
///
/// A loader's draws also depend on the index of the field, from 0, in the dataset. A key is of field 0 unless
/// [`field`](Self::field) sets another, and of the field's own output unless [`view`](Self::view) does.
///
/// ```
/// use fuseloop::transform::Key;
///
/// // The draws of sample 17 in epoch 3, for images that are the second field of a dataset.
/// let key = Key::new(42, 3, 17).field(1);
/// assert_ne!(key, Key::new(42, 3, 17));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    sample: SampleKey,
    draws: DrawsOf,
}

impl Key {
    /// The key of a sample in an epoch of a loader with a seed.
    #[must_use]
    pub fn new(seed: u64, epoch: u32, sample: u64) -> Self {
        Self { sample: SampleKey::new(seed, epoch, sample), draws: DrawsOf { field: 0, view: 0 } }
    }

    /// Sets the index of the image's field in the dataset, from 0. Default 0.
    #[must_use]
    pub fn field(mut self, index: usize) -> Self {
        self.draws.field = index;
        self
    }

    /// Sets the number of the field's output: 0, the default, is the field itself, 1 its first
    /// [`view`](crate::LoaderBuilder::view).
    #[must_use]
    pub fn view(mut self, number: usize) -> Self {
        self.draws.view = number;
        self
    }

    /// Returns the key that determines the draws of the ops.
    pub(super) fn of_ops(self) -> SampleKey {
        self.draws.key(self.sample)
    }
}
