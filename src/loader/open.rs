//! How a loader begins: a dataset, by its name or open already, and the builder for it.

use super::Loader;
use super::builder::LoaderBuilder;
use crate::decode::DecodeOptions;
use crate::error::Error;
use crate::source::{Dataset, Source, Stream};
use std::path::Path;
use std::sync::Arc;

impl Loader {
    /// Opens a dataset and returns a builder: a `.beton` file, a folder of images, a table of labels,
    /// tar or TFRecord shards, local or remote, the files of MNIST or CIFAR. The name determines the kind:
    ///
    /// ```no_run
    /// # use fuseloop::{Error, Loader};
    /// Loader::open("train.beton")?;
    /// Loader::open("imagenet/train")?; // a folder a class
    /// Loader::open("train-{000..015}.beton")?; // several files, one after another
    /// Loader::open("shards/train-{000..255}.tar")?; // WebDataset's
    /// Loader::open("train-*.tfrecord")?;
    /// Loader::open("mnist/")?; // train-images-idx3-ubyte and its labels
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// Compressed shards can only be read in sequence; see [`from_stream`](Self::from_stream). To set
    /// the options of one kind of dataset, open the dataset yourself and pass it to
    /// [`from_source`](Self::from_source).
    ///
    /// # Errors
    ///
    /// If the dataset can't be opened, or is not of the kind that its name says.
    pub fn open(path: impl AsRef<Path>) -> Result<LoaderBuilder, Error> {
        Ok(LoaderBuilder::of_dataset(Dataset::open(path)?))
    }

    /// Returns the builder of a loader for an open dataset.
    #[must_use]
    pub fn from_dataset(dataset: Dataset) -> LoaderBuilder {
        LoaderBuilder::of_dataset(dataset)
    }

    /// Returns the builder of a loader for a source of your own.
    #[must_use]
    pub fn from_source(source: impl Source) -> LoaderBuilder {
        LoaderBuilder::of(Arc::new(source), DecodeOptions::default())
    }

    /// Returns the builder of a loader for samples that can only be read in sequence; see
    /// [`stream`](crate::source::stream) for how streams are built.
    ///
    /// Each epoch is one pass. A sample's position in the pass takes the role of the sample number: in
    /// errors, in cursors, and as the number that random draws depend on. The order is the stream's
    /// ([`Order::Sequential`](crate::Order)): [`Stream::shuffle`] shuffles it, `take` cuts it, `filter`
    /// filters it, `cache_in_memory` caches it.
    ///
    /// The length need not be known: an epoch ends with the stream, and its last batch is short or
    /// dropped. Until then [`len`](Self::len), [`samples`](Self::samples) and
    /// [`remaining`](super::Batches::remaining) are [`UNKNOWN`](crate::sample::UNKNOWN). Several ranks take
    /// turns at the positions of a stream whose length is known; each rank skips the positions of the
    /// others.
    ///
    /// ```
    /// use fuseloop::Loader;
    /// use fuseloop::source::{BoxError, FieldKind, FieldSpec, Generator, OwnedValue, Stream};
    ///
    /// let fields = vec![FieldSpec { name: "label".to_owned(), kind: FieldKind::Int }];
    /// let numbers = Generator::new(1, 4).source(fields, 100, |_, sample| {
    ///     Ok::<_, BoxError>(vec![OwnedValue::Int(sample as i64)])
    /// })?;
    /// let stream = Stream::of(std::sync::Arc::new(numbers));
    /// let loader = Loader::from_stream(stream).batch_size(32).build()?;
    /// assert_eq!(loader.epoch(0)?.map(|batch| batch.map(|b| b.len())).sum::<Result<usize, _>>()?, 100);
    /// # Ok::<(), BoxError>(())
    /// ```
    #[must_use]
    pub fn from_stream(stream: Stream) -> LoaderBuilder {
        LoaderBuilder::of_stream(stream)
    }
}
