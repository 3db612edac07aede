//! Produces samples on several threads, and takes them in order on one.
//!
//! ```text
//! threads: the next number -> EncodeGate -> make ---> caller: sort -> take
//! ```
//!
//! The caller takes samples one after another, so what it writes is the same for any number of threads.
//! [`EncodeGate`] bounds the bytes that wait for the caller. The first error that the caller returns
//! ends the work.

use super::flow::EncodeGate;
use super::value::WriteSampleError;
use crate::panicked::message;
use crate::sample::SampleId;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
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
        take: impl FnMut(SampleId, Result<T, WriteSampleError>) -> Result<(), E>,
        no_threads: impl Fn(io::Error) -> E,
    ) -> Result<(), E> {
        let Self { first, end, threads } = self;
        let flow = EncodeGate::new(BUDGET);
        let next = AtomicU64::new(first);
        let size = |made: &Result<T, WriteSampleError>| {
            size_of::<Result<T, WriteSampleError>>() + made.as_ref().map_or(0, &held)
        };
        let work = |send: Sender<(u64, Result<T, WriteSampleError>)>| {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= end || !flow.enter(SampleId(number - first)) {
                    return;
                }
                let made = caught(|| make(SampleId(number)));
                flow.encoded(size(&made));
                if send.send((number, made)).is_err() {
                    return;
                }
            }
        };
        thread::scope(|scope| {
            // However the scope ends, no thread keeps waiting at the gate.
            let _stop = Stop(&flow);
            let (send, receive) = channel();
            for number in 0..threads.max(1) {
                let (send, work) = (send.clone(), &work);
                thread::Builder::new()
                    .name(format!("fuseloop-convert-{number}"))
                    .spawn_scoped(scope, move || work(send))
                    .map_err(&no_threads)?;
            }
            drop(send);
            take_in_order(first..end, &receive, &flow, size, take)
        })
    }
}

/// Takes samples in order as they arrive.
fn take_in_order<T, E>(
    samples: Range<u64>,
    receive: &Receiver<(u64, Result<T, WriteSampleError>)>,
    flow: &EncodeGate,
    size: impl Fn(&Result<T, WriteSampleError>) -> usize,
    mut take: impl FnMut(SampleId, Result<T, WriteSampleError>) -> Result<(), E>,
) -> Result<(), E> {
    let mut early = BTreeMap::new();
    let mut next = samples.start;
    for (number, made) in receive {
        early.insert(number, made);
        while let Some(made) = early.remove(&next) {
            let bytes = size(&made);
            take(SampleId(next), made)?;
            flow.placed(bytes);
            next += 1;
        }
    }
    Ok(())
}

/// Calls `make`; a panic becomes the sample's error.
fn caught<T>(make: impl FnOnce() -> Result<T, WriteSampleError>) -> Result<T, WriteSampleError> {
    catch_unwind(AssertUnwindSafe(make))
        .unwrap_or_else(|panic| Err(WriteSampleError::Panicked { message: message(&*panic) }))
}

/// Stops the gate when dropped.
struct Stop<'a>(&'a EncodeGate);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.stop();
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
        let take = |id: SampleId, made: Result<Vec<u8>, WriteSampleError>| {
            taken.push(id.0);
            made.map(drop).map_err(|error| format!("{id}: {error}"))
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
