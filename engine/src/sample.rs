//! The types that all stages share: a sample's index, an epoch's number, and limits on what a file may
//! ask for.

use std::fmt;

/// Stands for a number of samples or batches that is unknown until their end is reached.
pub const UNKNOWN: u64 = u64::MAX;

/// A sample's index in its dataset, from 0. It is not the sample's position in the epoch.
///
/// ```
/// # use fuseloop_engine::sample::SampleId;
/// let sample = SampleId(17);
/// assert_eq!(sample.0, 17);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SampleId(pub u64);

impl fmt::Display for SampleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One row of an epoch: a sample, and how often the epoch had the sample before.
///
/// An order that takes a sample several times in an epoch (with replacement, repeated augmentation)
/// numbers the repeats, so that each has its own draws.
///
/// ```
/// # use fuseloop_engine::sample::{SampleId, SampleRef};
/// let row = SampleRef::once(SampleId(17));
/// assert_eq!((row.sample, row.repeat, row.is_padding), (SampleId(17), 0, false));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SampleRef {
    /// The sample.
    pub sample: SampleId,
    /// How often the sample came before in this epoch: 0 for its first or only time.
    pub repeat: u32,
    /// True if the row only fills up a batch: its sample also belongs to a row of another rank, and must
    /// not be counted in an evaluation.
    pub is_padding: bool,
}

impl SampleRef {
    /// The only occurrence of `sample` in an epoch.
    #[must_use]
    #[inline]
    #[doc(hidden)]
    pub const fn once(sample: SampleId) -> Self {
        Self { sample, repeat: 0, is_padding: false }
    }
}

/// The number of a pass over the dataset, from 0. It seeds the order and every draw.
///
/// ```
/// # use fuseloop_engine::sample::Epoch;
/// // Images grow with the epochs.
/// let side = |epoch: Epoch| (128 + 4 * epoch.index()).min(224);
/// assert_eq!((side(Epoch(0)), side(Epoch(30))), (128, 224));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u32);

impl Epoch {
    /// The epoch's number, from 0.
    #[must_use]
    #[inline]
    pub fn index(self) -> u32 {
        self.0
    }
}

/// Limits on what a file, and the ops of a pipeline, may ask for. Anything over a limit is refused.
///
/// ```
/// # use fuseloop_engine::sample::Limits;
/// let limits = Limits { max_pixels: 1 << 20, ..Limits::DEFAULT };
/// assert!(Limits::SMALL.max_pixels < Limits::DEFAULT.max_pixels);
/// # let _ = limits;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most pixels of one image, width times height, both as stored and after every op.
    pub max_pixels: u64,
    /// Most bytes of one value as stored in the file.
    pub max_sample_bytes: u64,
    /// Most bytes that one compressed value may unpack to: a member of a compressed tar file, an array
    /// in a `.npz`, a record of a compressed TFRecord file, a compressed file of MNIST.
    pub max_unpacked_bytes: u64,
    /// Most samples of one dataset.
    pub max_samples: u64,
    /// Most bytes of the tables that opening a file reads.
    pub max_table_bytes: u64,
    /// Most bytes of one sample in one output of a batch.
    pub max_row_bytes: u64,
    /// Most bytes of the batches that a loader prepares ahead plus the one in use. Only outputs whose
    /// samples all have one size count. A loader's `memory_limit` replaces this limit.
    pub max_batch_bytes: u64,
}

impl Limits {
    /// The default: 178 Mpixel (Pillow's own bound), 1 GiB for a value, 256 MiB for an unpacked value,
    /// 2^40 samples, 16 GiB of tables, 1 GiB for a row, 64 GiB of batches.
    pub const DEFAULT: Self = Self {
        max_pixels: 178_956_970,
        max_sample_bytes: 1 << 30,
        max_unpacked_bytes: 256 << 20,
        max_samples: 1 << 40,
        max_table_bytes: 16 << 30,
        max_row_bytes: 1 << 30,
        max_batch_bytes: 64 << 30,
    };
    /// Limits for tests and fuzzing: 1 Mpixel, 4 MiB for a value, 65,536 samples, 64 MiB of tables, 16
    /// MiB for a row, 256 MiB of batches.
    pub const SMALL: Self = Self {
        max_pixels: 1 << 20,
        max_sample_bytes: 4 << 20,
        max_unpacked_bytes: 4 << 20,
        max_samples: 1 << 16,
        max_table_bytes: 64 << 20,
        max_row_bytes: 16 << 20,
        max_batch_bytes: 256 << 20,
    };
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}
