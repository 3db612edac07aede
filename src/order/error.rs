//! Why there is no order.

use crate::sample::SampleId;
use crate::source::BoxError;

/// Why an order could not be made of a dataset, or a rank not be found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OrderError {
    /// A subset names a sample that there is not.
    #[error("the subset has sample {sample}, but the dataset has {samples} samples")]
    Outside {
        /// The sample.
        sample: SampleId,
        /// Samples of the dataset.
        samples: u64,
    },
    /// An order that must be held in memory, of more samples than it can count.
    #[error("order {order}: {samples} samples; it can hold at most {most}: take sequential")]
    TooMany {
        /// The order's name.
        order: String,
        /// Samples asked for.
        samples: u64,
        /// Most it can hold.
        most: u64,
    },
    /// The system gives no memory for the order.
    #[error("no memory for an order of {samples} samples")]
    Memory {
        /// Samples to hold.
        samples: u64,
    },
    /// A number that must be at least 1.
    #[error("order {order}: {param} is 0, it must be at least 1")]
    Zero {
        /// The order's name.
        order: &'static str,
        /// The parameter.
        param: &'static str,
    },
    /// Not one weight for each sample of the dataset.
    #[error("order weighted: {weights} weights for a dataset of {samples} samples")]
    WeightCount {
        /// Weights given.
        weights: u64,
        /// Samples of the dataset.
        samples: u64,
    },
    /// A weight that is none.
    #[error(
        "order weighted: sample {sample} has the weight {weight}, it must be finite and at least 0"
    )]
    Weight {
        /// The sample.
        sample: SampleId,
        /// Its weight.
        weight: f64,
    },
    /// Fewer samples with a chance than are to be drawn.
    #[error("order weighted: {drawn} samples to draw, but {weighed} have a weight above 0")]
    TooFewWeights {
        /// Samples to draw: each once, or any number of times of 1.
        drawn: u64,
        /// Samples of the subset whose weight is above 0.
        weighed: u64,
    },
    /// The dataset does not say the class of a sample.
    #[error("order class_balanced: sample {sample} has no class: {source}")]
    Class {
        /// The sample.
        sample: SampleId,
        /// Why not.
        source: BoxError,
    },
    /// A sampler of the user's own failed.
    #[error("order {order}: {source}")]
    Custom {
        /// The sampler's name.
        order: String,
        /// What it says.
        source: BoxError,
    },
    /// A sampler of the user's own gave another number of samples than it said.
    #[error("order {order}: it gave {found} samples, and said that it gives {said}")]
    CustomCount {
        /// The sampler's name.
        order: String,
        /// Samples it gave.
        found: u64,
        /// Samples it said.
        said: u64,
    },
    /// A sampler of the user's own gave a sample that it was not given.
    #[error("order {order}: it gave sample {sample}, which is not in the subset")]
    Stray {
        /// The sampler's name.
        order: String,
        /// The sample.
        sample: SampleId,
    },
    /// A rank in a world that has no such rank.
    #[error("rank {rank} of {world} ranks: ranks go from 0 to one less than there are")]
    Rank {
        /// The rank.
        rank: u32,
        /// Ranks there are.
        world: u32,
    },
    /// A launcher set one of a pair of variables.
    #[error("{found} is set and {missing} is not: set both, or neither")]
    HalfSet {
        /// The variable that is set.
        found: &'static str,
        /// The one that is not.
        missing: &'static str,
    },
    /// A launcher's variable that is no number.
    #[error("{variable} is {value:?}: expected a whole number below 2^32")]
    NotANumber {
        /// The variable.
        variable: &'static str,
        /// Its value.
        value: String,
    },
    /// A launcher's pair of variables that contradict each other.
    #[error("{rank_variable} is {rank} and {world_variable} is {world}: the rank must be below")]
    Contradiction {
        /// The variable of the rank.
        rank_variable: &'static str,
        /// Its value.
        rank: u32,
        /// The variable of the number of ranks.
        world_variable: &'static str,
        /// Its value.
        world: u32,
    },
}
