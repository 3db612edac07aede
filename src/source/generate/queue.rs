//! The consumer's end of a queue.

use super::crew::{Crew, Make, Vain};
use super::line::Line;
use super::{Flow, GenerateError, Generator};
use std::fmt;
use std::time::{Duration, Instant};

/// Items made by threads of its own, in the order of their tickets or as they are made; see
/// [`Generator`].
///
/// After an error it gives nothing more. Dropping it ends its threads.
pub struct Queue<T: Send + 'static> {
    crew: Crew<Line<T>>,
    name: String,
    is_over: bool,
}

impl<T: Send + 'static> Queue<T> {
    pub(super) fn start(generator: &Generator, make: Make<T>) -> Result<Self, GenerateError> {
        let books = Line::new(generator.in_order, generator.bound());
        let crew = Crew::start(generator, books, make)?;
        Ok(Self { crew, name: generator.name.clone(), is_over: false })
    }

    /// What it is called in errors.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The next item, if it is there in time. After [`GenerateError::TimedOut`], which names what is
    /// waited for, it can be asked again.
    pub fn next_timeout(&mut self, longest: Duration) -> Option<Result<T, GenerateError>> {
        self.take(Some(longest))
    }

    /// Where the time went so far: who waits for whom.
    #[must_use]
    pub fn flow(&self) -> Flow {
        self.crew.flow()
    }

    fn take(&mut self, longest: Option<Duration>) -> Option<Result<T, GenerateError>> {
        if self.is_over {
            return None;
        }
        let begun = Instant::now();
        let product = match self.crew.take(longest, Line::take) {
            Ok(product) => product,
            Err(Vain::TimedOut) => return Some(Err(self.timed_out(begun.elapsed()))),
            Err(Vain::Deserted) => Err(GenerateError::Stopped { queue: self.name.clone() }),
            Err(Vain::Forked(error)) => {
                Err(GenerateError::Threads { queue: self.name.clone(), error })
            }
        };
        if !matches!(product, Ok(Some(_))) {
            self.close();
        }
        product.transpose()
    }

    fn timed_out(&self, waited: Duration) -> GenerateError {
        let queue = self.name.clone();
        let ticket = self.crew.with(|line| line.awaited()).flatten();
        let (busy, producers) = self.crew.busy();
        GenerateError::TimedOut { queue, ticket, waited, producers, busy }
    }

    fn close(&mut self) {
        self.is_over = true;
        self.crew.dismiss();
    }
}

impl<T: Send + 'static> Iterator for Queue<T> {
    type Item = Result<T, GenerateError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.take(None)
    }
}

impl<T: Send + 'static> std::iter::FusedIterator for Queue<T> {}

impl<T: Send + 'static> fmt::Debug for Queue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("name", &self.name).field("flow", &self.flow()).finish()
    }
}
