//! The order in which an epoch visits its samples: pure functions, no threads.
//!
//! ```text
//! Order ── prepare(dataset, subset) ─▶ Prepared ── epoch(seed, epoch, ranks) ─▶ EpochOrder
//!                                      once                                     visits(places)
//! ```
//!
//! | order | an epoch is | random by |
//! |---|---|---|
//! | [`Sequential`](Order::Sequential) | the subset as given | |
//! | [`Random`](Order::Random) | each sample once, shuffled | numpy, torch if there are ranks |
//! | [`QuasiRandom`](Order::QuasiRandom) | each once, shuffled over a few pages at a time | own |
//! | [`Weighted`](Order::Weighted) | so many, by weights | own |
//! | [`ClassBalanced`](Order::ClassBalanced) | each class as often as any other | own |
//! | [`RepeatedAugment`](Order::RepeatedAugment) | each several times in a row | torch |
//! | [`Custom`](Order::Custom) | what a [`Sampler`] says | |
//!
//! Where a sample comes several times, [`Visit::copy`](crate::Visit) numbers its times, so that
//! each has draws of its own. Ranks take turns at the order of all ([`Ranks`]): which samples a
//! step of all ranks together has does not depend on how many they are.

mod balanced;
mod custom;
mod epoch;
mod error;
mod fingerprint;
mod groups;
mod launcher;
mod memory;
mod numpy;
mod prepare;
mod quasi;
mod random;
mod ranks;
mod repeated;
mod subset;
mod torch;
mod weighted;

pub use crate::source::BoxError;
pub use custom::Sampler;
pub use epoch::EpochOrder;
pub use error::OrderError;
pub use prepare::{Count, Facts, Prepared};
pub use ranks::{Ranks, Uneven};
pub use subset::Subset;

use std::sync::Arc;

/// How an epoch goes through its samples.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum Order {
    /// As given, the same in every epoch.
    #[default]
    Sequential,
    /// Shuffled anew in every epoch, exactly as FFCV's `OrderOption.RANDOM` does: on one process
    /// numpy's `default_rng(seed + epoch).permutation(ids)`, on several torch's
    /// `DistributedSampler`. An experiment moved here from FFCV keeps its order.
    ///
    /// So epoch 1 of seed 7 is epoch 0 of seed 8: take seeds far apart.
    Random,
    /// Shuffled as far as a few pages of the file allow: for a file that does not fit in memory,
    /// on a disk that does not like to seek.
    ///
    /// The next sample is any of those left in the open pages. A page is opened, in random order,
    /// when another has none left.
    QuasiRandom {
        /// Pages open at once: what is in memory is so many times the file's page size.
        open_pages: u32,
    },
    /// So many samples of an epoch by their weights, as torch's `WeightedRandomSampler`.
    Weighted {
        /// A weight for each sample of the dataset, whatever the subset. They need not sum to 1.
        weights: Arc<[f64]>,
        /// Samples of an epoch.
        samples: u64,
        /// Whether a sample may come several times.
        replacement: bool,
    },
    /// Each class as often as any other.
    ClassBalanced {
        /// The int field that says the class.
        field: String,
        /// With: an epoch is as long as the dataset, each visit a class drawn evenly and then a
        /// sample of it. Without: each class has as many samples as the smallest, none twice.
        replacement: bool,
    },
    /// Each sample several times in a row, so that several ranks see the same one at once with
    /// other draws: timm's `RepeatAugSampler`. An epoch stays as long as the dataset, rounded down
    /// to a multiple of 256.
    RepeatedAugment {
        /// Times that a sample comes; 3 is usual.
        repeats: u32,
    },
    /// What a sampler of the user's own says.
    Custom(Arc<dyn Sampler>),
}

impl Order {
    /// Its name, as a pipeline file has it; a custom one's own.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Sequential => "sequential",
            Self::Random => "random",
            Self::QuasiRandom { .. } => quasi::NAME,
            Self::Weighted { .. } => weighted::NAME,
            Self::ClassBalanced { .. } => balanced::NAME,
            Self::RepeatedAugment { .. } => repeated::NAME,
            Self::Custom(sampler) => sampler.name(),
        }
    }
}
