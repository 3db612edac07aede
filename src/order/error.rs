//! Errors of orders and ranks.

use crate::error::{BoxError, Cause, Details, ErrorKind};
use crate::sample::SampleId;

/// Why an order could not be prepared for a dataset, or a rank not be determined.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OrderError {
    /// A subset contains a sample that the dataset does not have.
    #[error("the subset has sample {sample}, but the dataset has {samples} samples")]
    Outside {
        /// The sample.
        sample: SampleId,
        /// The number of samples of the dataset.
        samples: u64,
    },
    /// An order that must be held in memory has too many samples.
    #[error("order {order}: {samples} samples; the limit is {most}: use `sequential`")]
    TooMany {
        /// The order's name.
        order: String,
        /// The number of samples requested.
        samples: u64,
        /// The maximum number of samples.
        most: u64,
    },
    /// There is not enough memory for the order.
    #[error("no memory for an order of {samples} samples")]
    Memory {
        /// The number of samples to hold.
        samples: u64,
    },
    /// A parameter that must be at least 1 is 0.
    #[error("order {order}: {param} is 0, it must be at least 1")]
    Zero {
        /// The order's name.
        order: &'static str,
        /// The parameter.
        param: &'static str,
    },
    /// The number of weights is not the number of samples of the dataset.
    #[error("order weighted: {weights} weights for a dataset of {samples} samples")]
    WeightCount {
        /// The number of weights given.
        weights: u64,
        /// Samples of the dataset.
        samples: u64,
    },
    /// A weight is negative, infinite or NaN.
    #[error(
        "order weighted: sample {sample} has the weight {weight}, it must be finite and at least 0"
    )]
    Weight {
        /// The sample.
        sample: SampleId,
        /// Its weight.
        weight: f64,
    },
    /// Fewer samples have a weight above 0 than are to be drawn.
    #[error("order weighted: {drawn} samples to draw, but {weighed} have a weight above 0")]
    TooFewWeights {
        /// The number of distinct samples needed: all that are drawn, or 1 with replacement.
        drawn: u64,
        /// The number of samples of the subset whose weight is above 0.
        weighed: u64,
    },
    /// The class of a sample can't be read.
    #[error("order class_balanced: sample {sample} has no class: {source}")]
    Class {
        /// The sample.
        sample: SampleId,
        /// The reason.
        source: BoxError,
    },
    /// A [`Sampler`](super::Sampler) failed.
    #[error("order {order}: {source}")]
    Custom {
        /// The sampler's name.
        order: String,
        /// The sampler's error.
        source: BoxError,
    },
    /// A [`Sampler`](super::Sampler) returned a different number of samples than it announced.
    #[error("order {order}: it returned {found} samples, expected {said} as announced")]
    CustomCount {
        /// The sampler's name.
        order: String,
        /// The number of samples returned.
        found: u64,
        /// The number of samples announced.
        said: u64,
    },
    /// A [`Sampler`](super::Sampler) returned a sample that is not in the subset.
    #[error("order {order}: it returned sample {sample}, which is not in the subset")]
    Stray {
        /// The sampler's name.
        order: String,
        /// The sample.
        sample: SampleId,
    },
    /// A rank is not below the number of ranks.
    #[error("rank {rank} of {world} ranks: expected a rank below the number of ranks")]
    Rank {
        /// The rank.
        rank: u32,
        /// The number of ranks.
        world: u32,
    },
    /// A launcher set only one of a pair of variables.
    #[error("{found} is set and {missing} is not: set both, or neither")]
    HalfSet {
        /// The variable that is set.
        found: &'static str,
        /// The variable that is not set.
        missing: &'static str,
    },
    /// A launcher's variable is not a number.
    #[error("{variable} is {value:?}: expected a whole number below 2^32")]
    NotANumber {
        /// The variable.
        variable: &'static str,
        /// Its value.
        value: String,
    },
    /// A launcher's pair of variables contradict each other.
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

impl Cause for OrderError {
    fn details(&self) -> Details<'_> {
        let parameter = Details::of(ErrorKind::Parameter);
        match self {
            Self::Outside { sample, .. } | Self::Weight { sample, .. } => parameter.sample(*sample),
            Self::TooMany { .. } | Self::Memory { .. } => Details::of(ErrorKind::Memory),
            Self::Class { sample, source } => Details::of_custom(source).sample(*sample),
            Self::Custom { source, .. } => Details::of_custom(source),
            Self::CustomCount { .. } => Details::of(ErrorKind::Custom),
            Self::Stray { sample, .. } => Details::of(ErrorKind::Custom).sample(*sample),
            _ => parameter,
        }
    }
}
