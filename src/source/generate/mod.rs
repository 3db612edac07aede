//! Generators: threads call a function of the user's, and its results are taken in order.
//!
//! ```text
//! ticket 0, 1, 2, ... ─▶ function, on any of N threads ─▶ bounded queue ─▶ one consumer   (Queue)
//!                                                                       ─▶ a loader      (Generated)
//! ```
//!
//! A *ticket* is the sequence number that the function is called with.
//!
//! | | |
//! |----------|------------------------------------------------------------------------------|
//! | full     | a ticket is begun only while fewer than `capacity + N` are begun and not taken: `capacity` items wait, and each producer works on one |
//! | empty    | the consumer sleeps until an item is ready, or until a timeout                 |
//! | order    | by tickets: the same stream for any N, if the function depends on the ticket alone; or in the order of completion ([`unordered`](Generator::unordered)) |
//! | end      | `Ok(None)` ends the stream at its ticket                                       |
//! | error    | an error or panic of the function is returned at its ticket, after all items before it; the stream then ends |
//! | drop     | producers end: those without a ticket at once, those inside the function when it returns |
//!
//! Queues share nothing, so queues for training, validation and testing do not wait for each other.

mod error;
mod flow;
mod generated;
mod lookahead;
mod ordered_queue;
mod producers;
mod queue;

use crate::error::Error;
pub use flow::QueueStats;
pub use generated::Generated;
pub use queue::Queue;

use super::{BoxError, FieldSpec, Record};
use crate::sample::Epoch;
use crate::threads;
use std::sync::Arc;
use std::time::Duration;

/// Configures threads that generate items, for [`start`](Self::start) or [`source`](Self::source).
///
/// ```
/// use fuseloop::source::{BoxError, Generator};
///
/// let squares = Generator::new(4, 8).name("squares").start(|ticket| {
///     Ok::<_, BoxError>((ticket < 5).then(|| ticket * ticket))
/// })?;
/// assert_eq!(squares.collect::<Result<Vec<u64>, _>>()?, [0, 1, 4, 9, 16]);
/// # Ok::<(), BoxError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generator {
    name: String,
    producers: usize,
    capacity: usize,
    in_order: bool,
    patience: Duration,
}

/// How long dropping a queue waits for a function that does not return.
const PATIENCE: Duration = Duration::from_secs(5);

impl Generator {
    /// Configures `producers` threads, at most 1024, and a queue of `capacity` items. Each producer also
    /// works on one item beyond the capacity.
    #[must_use]
    pub fn new(producers: usize, capacity: usize) -> Self {
        let name = "generator".to_owned();
        Self { name, producers, capacity, in_order: true, patience: PATIENCE }
    }

    /// Sets the queue's name in error messages. Default: "generator".
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// Delivers the items of a [`Queue`] in the order of completion, so that a slow item does not hold
    /// up the others. All generated items are then delivered, including those of tickets later than the
    /// one that ended the stream. A [`source`](Self::source) returns the record that was asked for in
    /// any case.
    #[must_use]
    pub fn unordered(mut self) -> Self {
        self.in_order = false;
        self
    }

    /// Sets how long dropping the queue waits for a function that does not return. After that time the
    /// function's thread is left to end by itself. Default: 5 s.
    #[must_use]
    pub fn patience(mut self, longest: Duration) -> Self {
        self.patience = longest;
        self
    }

    /// Starts the producers. They call `function` with the tickets 0, 1, 2, ..., once each and several
    /// at a time; `None` ends the stream.
    ///
    /// # Errors
    ///
    /// If there is no producer or no capacity, there are too many producers, or the system can't start a
    /// thread.
    pub fn start<T, E>(
        self,
        function: impl Fn(u64) -> Result<Option<T>, E> + Send + Sync + 'static,
    ) -> Result<Queue<T>, Error>
    where
        T: Send + 'static,
        E: Into<BoxError>,
    {
        self.check()?;
        Queue::start(
            &self,
            Arc::new(move |job: producers::ProducerTask| function(job.ticket).map_err(Into::into)),
        )
    }

    /// A dataset of `samples` records for [`Loader::from_source`](crate::Loader::from_source):
    /// `function` generates the record of a sample in an epoch, and the loader decodes, augments and
    /// batches it.
    ///
    /// Each run has its own producers, which generate the records in the order in which the loader will
    /// ask for them. The loader's batches are bit-identical for any number of producers, if the function
    /// depends on the epoch and the sample alone.
    ///
    /// ```
    /// use fuseloop::source::{BoxError, FieldKind, FieldSpec, Generator, OwnedImage, OwnedValue};
    /// use fuseloop::{Loader, ops::*};
    ///
    /// let field = |name: &str, kind| FieldSpec { name: name.to_owned(), kind };
    /// let fields = vec![field("image", FieldKind::RgbImage), field("label", FieldKind::Int)];
    /// let source = Generator::new(2, 16).name("train").source(fields, 64, |_epoch, sample| {
    ///     let square = OwnedImage::rgb(8, vec![u8::try_from(sample)?; 8 * 8 * 3]);
    ///     Ok::<_, BoxError>(vec![OwnedValue::Image(square), OwnedValue::Int(sample as i64)])
    /// })?;
    /// let loader = Loader::from_source(source)
    ///     .batch_size(16)
    ///     .pipeline("image", ops![RandomCrop::new(6)?])
    ///     .build()?;
    /// assert_eq!(loader.epoch(0)?.count(), 4);
    /// # Ok::<(), BoxError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If there is no producer or no capacity, or there are too many producers.
    pub fn source<E: Into<BoxError>>(
        self,
        fields: Vec<FieldSpec>,
        samples: u64,
        function: impl Fn(Epoch, u64) -> Result<Record, E> + Send + Sync + 'static,
    ) -> Result<Generated, Error> {
        self.check()?;
        let function = move |epoch, ticket| function(epoch, ticket).map_err(Into::into);
        Ok(Generated::new(self, fields, samples, Arc::new(function)))
    }

    fn check(&self) -> Result<(), Error> {
        let Self { producers, capacity, .. } = *self;
        if producers == 0 || capacity == 0 {
            return Err(error::no_room(&self.name, producers, capacity));
        }
        threads::check("producers", producers)
            .map_err(|error| Error::from(error).context(format_args!("queue {}", self.name)))
    }

    /// The largest number of items begun and not taken.
    fn bound(&self) -> usize {
        self.producers.saturating_add(self.capacity)
    }
}
