//! Produces samples on several threads, and takes them in order on one.
//!
//! ```text
//! threads: the next number -> make ---> InOrder ---> caller: take
//! ```
//!
//! The caller takes samples one after another, so what it writes is the same for any number of threads.
//! [`InOrder`] bounds the bytes that wait for the caller. The first error that the caller returns ends the
//! work.

use super::value::WriteSampleError;
use crate::panicked::caught;
use crate::sample::SampleId;
use crate::threads;
use fuseloop_engine::work_queue::{InOrder, NumberedTask, Taken, TaskResult, WorkQueue, Worker};
use std::io;
use std::thread;

/// The number of bytes that may be produced but not yet taken.
const BUDGET: usize = 64 << 20;

/// A range of samples, and the number of threads that produce them.
#[derive(Clone, Copy)]
pub(super) struct EncodeThreads {
    pub(super) first: u64,
    pub(super) end: u64,
    pub(super) threads: usize,
}

impl EncodeThreads {
    /// Calls `make` for all samples on several threads, and `take` for each in order. `held` returns the
    /// bytes of memory that a sample uses. A panic in `make` becomes the sample's error.
    ///
    /// # Errors
    ///
    /// The first error of `take`, or `no_threads` of the system's error if a thread can't be started.
    pub(super) fn run<T: Send, E>(
        self,
        make: impl Fn(SampleId) -> Result<T, WriteSampleError> + Sync,
        held: impl Fn(&T) -> usize + Sync,
        mut take: impl FnMut(SampleId, Result<T, WriteSampleError>) -> Result<(), E>,
        no_threads: impl Fn(io::Error) -> E,
    ) -> Result<(), E> {
        let Self { first, end, threads } = self;
        let mut state = InOrder::new(BUDGET, 1);
        let _ = state.push(&mut Some(0..end.saturating_sub(first) as usize));
        state.close();
        let queue = WorkQueue::new(state);
        let run = |NumberedTask { number, task }: NumberedTask<usize>| {
            let made = caught(|| make(SampleId(first + task as u64)));
            let result = made.unwrap_or_else(|message| Err(WriteSampleError::Panicked { message }));
            let size = size_of::<Result<T, WriteSampleError>>();
            let bytes = size + result.as_ref().map_or(0, &held);
            TaskResult { number, result, bytes, is_last: false }
        };
        thread::scope(|scope| {
            // However the scope ends, no thread keeps waiting.
            let _stop = queue.stop_on_drop();
            for number in 0..threads.max(1) {
                let (worker, run) = (Worker::new(&queue), &run);
                threads::builder(format!("fuseloop-convert-{number}"))
                    .and_then(|builder| builder.spawn_scoped(scope, move || worker.work(run)))
                    .map_err(&no_threads)?;
            }
            for number in first.. {
                match queue.take(None, InOrder::take) {
                    Ok(Taken::Result(encoded)) => take(SampleId(number), encoded)?,
                    Ok(Taken::End) => break,
                    // An error of a sample is a result, and so is a panic.
                    Err(_) => panic!("a thread ended without its result"),
                }
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(first: u64, end: u64, threads: usize) -> Result<Vec<u64>, String> {
        let mut taken = vec![];
        let make = |id: SampleId| match id.0 {
            77 => panic!("on purpose"),
            n => Ok(vec![0_u8; (n as usize * 7919) % 50_000]),
        };
        let take = |id: SampleId, encoded: Result<Vec<u8>, WriteSampleError>| {
            taken.push(id.0);
            encoded.map(drop).map_err(|error| format!("{id}: {error}"))
        };
        EncodeThreads { first, end, threads }.run(make, Vec::len, take, |e| e.to_string())?;
        Ok(taken)
    }

    #[test]
    fn samples_are_taken_in_order() {
        for threads in [1, 2, 5] {
            assert_eq!(run(100, 4000, threads).unwrap(), (100..4000).collect::<Vec<_>>());
            assert!(run(9, 9, threads).unwrap().is_empty());
        }
    }

    #[test]
    fn the_first_error_in_order_ends_it_and_a_panic_is_one() {
        for threads in [1, 5] {
            assert_eq!(run(0, 10_000, threads).unwrap_err(), "77: panicked: on purpose");
        }
    }
}
