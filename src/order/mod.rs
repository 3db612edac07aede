//! The order of the samples in an epoch: pure functions, no threads.
//!
//! ```text
//! Order ── prepare(dataset, subset) ─▶ PreparedOrder ── epoch(seed, epoch, ranks) ─▶ EpochOrder
//!                                      once                                            samples at positions
//! ```
//!
//! | order | an epoch is | random by |
//! |---|---|---|
//! | [`Sequential`](Order::Sequential) | the subset as given | |
//! | [`Random`](Order::Random) | each sample once, shuffled | numpy, torch if there are ranks |
//! | [`Permuted`](Order::Permuted) | each once, shuffled without a list in memory | own |
//! | [`QuasiRandom`](Order::QuasiRandom) | each once, shuffled over a few pages at a time | own |
//! | [`Weighted`](Order::Weighted) | a given number of samples, by weight | own |
//! | [`ClassBalanced`](Order::ClassBalanced) | every class equally often | own |
//! | [`RepeatedAugment`](Order::RepeatedAugment) | each sample several times in a row | torch |
//! | [`Bucketed`](Order::Bucketed) | each once, each batch with images of one size | own |
//! | [`Mixture`](Order::Mixture) | samples of several components, by weights that may change with time | own |
//! | [`Custom`](Order::Custom) | the samples that a [`Sampler`] returns | |
//!
//! If a sample comes several times, [`SampleRef::repeat`](crate::SampleRef) counts its occurrences, so
//! that each has its own draws. Ranks take turns at the global order ([`Ranks`]): the samples that all
//! ranks together process in one step do not depend on the number of ranks.

mod balanced;
pub(crate) mod bucketed;
mod custom;
pub(crate) mod epoch;
mod fingerprint;
mod groups;
mod launcher;
mod memory;
mod mixed;
mod mixture;
mod numpy;
mod permuted;
pub(crate) mod prepare;
mod quasi;
mod random;
mod ranks;
mod repeated;
mod subset;
mod torch;
mod weighted;

pub use custom::Sampler;
pub(crate) use epoch::EpochOrder;
pub(crate) use memory::reserved;
pub use mixture::{DataMixture, Stopping};
pub(crate) use prepare::{DatasetInfo, PreparedOrder};
pub use ranks::{Ranks, Uneven};
pub use subset::Subset;

use std::sync::Arc;

/// The order of the samples in an epoch.
///
/// ```
/// use fuseloop::Order;
///
/// let balanced = Order::ClassBalanced { field: "label".to_owned(), replacement: true };
/// let weighted = Order::Weighted { weights: [1.0, 1.0, 4.0].into(), samples: 3, replacement: true };
/// assert_eq!(Order::Random.name(), "random");
/// # let _ = (balanced, weighted);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum Order {
    /// The order of the subset, the same in every epoch.
    #[default]
    Sequential,
    /// Shuffled in every epoch, exactly as by FFCV's `OrderOption.RANDOM`: on one process by numpy's
    /// `default_rng(seed + epoch).permutation(ids)`, on several by torch's `DistributedSampler`. An
    /// experiment moved from FFCV keeps its order.
    ///
    /// Epoch 1 of seed 7 is therefore epoch 0 of seed 8: choose seeds that are far apart.
    Random,
    /// Shuffled in every epoch, by a function that computes the sample at a position: for datasets of which a list of
    /// all samples would not fit in memory. It holds less than 300 KB, whatever the number of samples, and begins and
    /// resumes at any position at once. [`Random`](Self::Random) holds 4 bytes a sample, of at most 4 billion.
    ///
    /// A subset that is a list of samples stays a list, of 8 bytes a sample.
    Permuted,
    /// Shuffled within a few pages of the file: for a file that does not fit in memory, on storage where
    /// seeking is slow.
    ///
    /// The next sample is drawn from those left in the open pages. When a page has no sample left, the
    /// next page is opened, in random order.
    QuasiRandom {
        /// The number of pages open at the same time: memory use is this number times the file's page
        /// size.
        open_pages: u32,
    },
    /// A given number of samples, drawn by weight, as by torch's `WeightedRandomSampler`.
    Weighted {
        /// One weight for each sample of the dataset, whatever the subset. The weights need not sum to
        /// 1.
        weights: Arc<[f64]>,
        /// The number of samples of an epoch.
        samples: u64,
        /// True if a sample may come several times.
        replacement: bool,
    },
    /// Every class equally often.
    ClassBalanced {
        /// The int field that holds the class.
        field: String,
        /// With replacement, an epoch is as long as the dataset: each sample is drawn by drawing a class
        /// evenly, then one of its samples. Without, every class has as many samples as the smallest
        /// class, none twice.
        replacement: bool,
    },
    /// Each sample several times in a row, so that several ranks see the same sample at once with
    /// different draws: timm's `RepeatAugSampler`. An epoch is as long as the dataset, rounded down to a
    /// multiple of 256.
    RepeatedAugment {
        /// How often each sample comes; 3 is usual.
        repeats: u32,
    },
    /// Shuffled in every epoch, in batches whose images have one size: those of samples that the ops of their lists
    /// leave at the same size. With [`ResizeToBucket`](fuseloop_ops::ResizeToBucket), these are the aspect ratio buckets
    /// of diffusion models.
    ///
    /// ```no_run
    /// use fuseloop::{Loader, Order, ops::*};
    ///
    /// let loader = Loader::open("photos.tar")?
    ///     .batch_size(16)
    ///     .order(Order::Bucketed)
    ///     .pipeline("jpg", ops![
    ///         ResizeToBucket::of_area(1024, 512..=2048, 64)?,
    ///         RandomHorizontalFlip::new(0.5)?,
    ///         ToChannelsFirst,
    ///     ])
    ///     .build()?;
    /// for batch in loader.epoch(0)? {
    ///     let batch = batch?;
    ///     let images = batch.tensor::<u8>("jpg")?; // [16, 3, 832, 1216], the next one [16, 3, 1024, 1024]
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// The sizes of the stored images are read from the dataset's tables or the headers of the files when the loader is
    /// built. A sample whose size can't be read is an error, or is left out and listed in
    /// [`quarantine`](crate::Loader::quarantine) if damaged samples are
    /// [skipped or substituted](crate::LoaderBuilder::on_damaged).
    ///
    /// The images of an output that differ in size are collated by [`Collate::pad`](crate::loader::Collate::pad), which
    /// has nothing to pad, unless the output has another `collate`: their sizes are the tensor `NAME.size`.
    ///
    /// The samples that are left of each bucket make a shorter batch, or are left out with
    /// [`drop_last`](crate::LoaderBuilder::drop_last), others in each epoch. On several ranks all have the same bucket in
    /// each step, and samples of the bucket come again to fill it, unless [`Uneven::Drop`] leaves out those that are left.
    Bucketed,
    /// Samples of several components, by weights that may change with the epoch or the step: Hugging Face's
    /// `interleave_datasets` with shares that are exact instead of drawn. The components are the datasets that
    /// [`Concat`](crate::source::Concat) joins.
    ///
    /// Each component is shuffled, and so is each block of at least 64 samples, in which each component has its share,
    /// rounded to a whole number; the next block makes up for what rounding added or took. It has less than one sample
    /// more or less than its share at the end of any block. [`Loader::drawn`](crate::Loader::drawn) counts the samples
    /// of each component.
    Mixture(DataMixture),
    /// The order of a sampler of your own.
    Custom(Arc<dyn Sampler>),
}

impl Order {
    /// Returns the name used in a pipeline file; for a custom order, the sampler's name.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Sequential => "sequential",
            Self::Random => "random",
            Self::Permuted => permuted::NAME,
            Self::QuasiRandom { .. } => quasi::NAME,
            Self::Weighted { .. } => weighted::NAME,
            Self::ClassBalanced { .. } => balanced::NAME,
            Self::RepeatedAugment { .. } => repeated::NAME,
            Self::Bucketed => bucketed::NAME,
            Self::Mixture(_) => mixed::NAME,
            Self::Custom(sampler) => sampler.name(),
        }
    }
}
