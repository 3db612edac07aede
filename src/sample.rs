//! The words every stage shares: a sample's place, an epoch's number, the limits on what a file may ask for.

use std::fmt;

/// A number of samples, or of batches, that is not known before their end has come.
pub const UNKNOWN: u64 = u64::MAX;

/// A sample's place in its dataset, from 0. Not its place in the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SampleId(pub u64);

impl fmt::Display for SampleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One row of an epoch: a sample, and which time it comes.
///
/// An order that takes a sample several times in an epoch (with replacement, repeated augmentation)
/// numbers these times, so that each has draws of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Visit {
    /// The sample.
    pub sample: SampleId,
    /// How often it came before in this epoch: 0 where it comes once.
    pub copy: u32,
    /// Only there to fill up a batch: a sample that belongs to another rank's row as well. Not to
    /// be counted in an evaluation.
    pub is_padding: bool,
}

impl Visit {
    /// The only time that `sample` comes.
    #[must_use]
    pub const fn once(sample: SampleId) -> Self {
        Self { sample, copy: 0, is_padding: false }
    }
}

/// Which pass over the dataset, from 0. It seeds the order and every draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u32);

impl Epoch {
    /// The epoch's number, from 0.
    #[must_use]
    pub fn index(self) -> u32 {
        self.0
    }
}

/// What a file, and the ops of a pipeline, may ask for before it is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most pixels of one image, width times height: as it is stored, and after every op.
    pub max_pixels: u64,
    /// Most bytes of one stored value, as it lies in the file.
    pub max_sample_bytes: u64,
    /// Most bytes that one compressed value may unpack to: a member of a compressed tar file, an array
    /// in a `.npz`, a record of a compressed TFRecord file.
    pub max_unpacked_bytes: u64,
    /// Most samples of one dataset.
    pub max_samples: u64,
    /// Most bytes of the tables that opening a file reads.
    pub max_table_bytes: u64,
    /// Most bytes of one sample in one output of a batch.
    pub max_row_bytes: u64,
    /// Most bytes of the batches that a loader makes ahead, and the one in use: those of outputs
    /// whose samples are all of one size. A loader's `memory_limit` takes its place.
    pub max_batch_bytes: u64,
}

impl Limits {
    /// The default: 178 Mpixel (Pillow's own bound), 1 GiB a value, 256 MiB one that is unpacked, 2^40
    /// samples, 16 GiB of tables, 1 GiB a row, 64 GiB of batches.
    pub const DEFAULT: Self = Self {
        max_pixels: 178_956_970,
        max_sample_bytes: 1 << 30,
        max_unpacked_bytes: 256 << 20,
        max_samples: 1 << 40,
        max_table_bytes: 16 << 30,
        max_row_bytes: 1 << 30,
        max_batch_bytes: 64 << 30,
    };
    /// For tests and fuzzing: 1 Mpixel, 4 MiB a value, 65,536 samples, 64 MiB of tables, 16 MiB a
    /// row, 256 MiB of batches.
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
