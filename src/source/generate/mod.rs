//! Generators: threads call a function of the user's, and what it gives is taken in order.
//!
//! ```text
//! ticket 0, 1, 2, ... ─▶ function, on any of N threads ─▶ bounded queue ─▶ one consumer   (Queue)
//!                                                                       ─▶ a loader      (Generated)
//! ```
//!
//! | | |
//! |----------|------------------------------------------------------------------------------|
//! | full     | a ticket is begun only while fewer than `capacity + N` are begun and not taken: `capacity` items wait and each producer has one in hand |
//! | empty    | the consumer sleeps until an item is there, or for a given time                |
//! | order    | by tickets: the same stream for any N, if the function is one of the ticket; or as made ([`unordered`](Generator::unordered)) |
//! | end      | `Ok(None)` ends the stream at its ticket                                       |
//! | error    | of the function, or its panic: comes at its ticket, after all before it; then nothing |
//! | drop     | producers end: those without a ticket at once, those inside the function when it returns |
//!
//! Queues share nothing, so one for training, one for validation and one for testing do not wait
//! for each other.

mod crew;
mod error;
mod flow;
mod generated;
mod line;
mod queue;
mod window;

pub use error::GenerateError;
pub use flow::{Busy, Flow};
pub use generated::Generated;
pub use queue::Queue;

use super::{BoxError, FieldSpec, Record};
use crate::sample::Epoch;
use crate::threads;
use std::sync::Arc;
use std::time::Duration;

/// Sets up threads that make items, for [`start`](Self::start) or [`source`](Self::source).
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

/// How long the drop of a queue waits for a function that does not return.
const PATIENCE: Duration = Duration::from_secs(5);

impl Generator {
    /// `producers` threads, at most 1024, and room for `capacity` items besides the one each of them has in hand.
    #[must_use]
    pub fn new(producers: usize, capacity: usize) -> Self {
        let name = "generator".to_owned();
        Self { name, producers, capacity, in_order: true, patience: PATIENCE }
    }

    /// What the queue is called in errors. Default "generator".
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// Items of a [`Queue`] come as they are made, so that a slow one holds up none. Then all that
    /// is made is delivered, also what later tickets than the last one gave. A
    /// [`source`](Self::source) gives the record asked for in any case.
    #[must_use]
    pub fn unordered(mut self) -> Self {
        self.in_order = false;
        self
    }

    /// How long the drop of the queue waits for a function that does not return. Its thread is left
    /// behind then, and ends when it does. Default 5 s.
    #[must_use]
    pub fn patience(mut self, longest: Duration) -> Self {
        self.patience = longest;
        self
    }

    /// Starts the producers. `function` is called with the tickets 0, 1, 2, ..., each once, several
    /// at a time; `None` ends the stream.
    ///
    /// # Errors
    ///
    /// If there is no producer or no room, there are too many producers, or the system gives no thread.
    pub fn start<T, E>(
        self,
        function: impl Fn(u64) -> Result<Option<T>, E> + Send + Sync + 'static,
    ) -> Result<Queue<T>, GenerateError>
    where
        T: Send + 'static,
        E: Into<BoxError>,
    {
        self.check()?;
        Queue::start(
            &self,
            Arc::new(move |job: crew::Job| function(job.ticket).map_err(Into::into)),
        )
    }

    /// A dataset of `samples` records for [`Loader::from_source`](crate::Loader::from_source):
    /// `function` makes the record of a sample in an epoch, which the loader decodes, augments and
    /// batches.
    ///
    /// Each run has its own producers, which make the records in the order in which they will be
    /// asked for. The loader's bits are the same for any number of them, if the function is one of
    /// the epoch and the sample.
    ///
    /// ```
    /// use fuseloop::source::{BoxError, FieldKind, FieldSpec, Generator, OwnedImage, OwnedValue};
    /// use fuseloop::{Loader, ops::*};
    ///
    /// let field = |name: &str, kind| FieldSpec { name: name.to_owned(), kind };
    /// let fields = vec![field("image", FieldKind::RgbImage), field("label", FieldKind::Int)];
    /// let source = Generator::new(2, 16).name("train").source(fields, 64, |_epoch, sample| {
    ///     let square = OwnedImage::rgb(8, 8, vec![u8::try_from(sample)?; 8 * 8 * 3]);
    ///     Ok::<_, BoxError>(vec![OwnedValue::Image(square), OwnedValue::Int(sample as i64)])
    /// })?;
    /// let loader = Loader::from_source(source)
    ///     .batch_size(16)
    ///     .pipeline("image", |_| Ok(ops![RandomCrop::new(6, 6)?]))
    ///     .build()?;
    /// assert_eq!(loader.epoch(0)?.count(), 4);
    /// # Ok::<(), BoxError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If there is no producer or no room, or there are too many producers.
    pub fn source<E: Into<BoxError>>(
        self,
        fields: Vec<FieldSpec>,
        samples: u64,
        function: impl Fn(Epoch, u64) -> Result<Record, E> + Send + Sync + 'static,
    ) -> Result<Generated, GenerateError> {
        self.check()?;
        let function = move |epoch, ticket| function(epoch, ticket).map_err(Into::into);
        Ok(Generated::new(self, fields, samples, Arc::new(function)))
    }

    fn check(&self) -> Result<(), GenerateError> {
        let Self { producers, capacity, .. } = *self;
        if producers == 0 || capacity == 0 {
            let queue = self.name.clone();
            return Err(GenerateError::Settings { queue, producers, capacity });
        }
        threads::check("producers", producers)
            .map_err(|error| GenerateError::Threads { queue: self.name.clone(), error })
    }

    /// Most items begun and not taken.
    fn bound(&self) -> usize {
        self.producers.saturating_add(self.capacity)
    }
}
