//! Samples made on several threads, taken in order on one.
//!
//! ```text
//! threads: the next number -> Flow: not too far ahead -> make ---> caller: sort -> take
//! ```
//!
//! The caller takes samples one after another, so what it writes of them is the same for any number
//! of threads; what waits for it is bounded by [`Flow`]. The first sample that it refuses ends the
//! work.

use super::flow::Flow;
use super::value::SampleError;
use crate::panicked::message;
use crate::sample::SampleId;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

/// Bytes that may be made and not yet taken.
const BUDGET: usize = 64 << 20;

/// Which samples, and by how many threads.
#[derive(Clone, Copy)]
pub(super) struct Crew {
    pub(super) first: u64,
    pub(super) end: u64,
    pub(super) threads: usize,
}

impl Crew {
    /// Makes all samples and has them taken. `held` says how much memory one takes. A panic of
    /// `make` is its sample's error.
    ///
    /// # Errors
    ///
    /// The first of `take`, or `no_threads` of the system's answer.
    pub(super) fn run<T: Send, E>(
        self,
        make: impl Fn(SampleId) -> Result<T, SampleError> + Sync,
        held: impl Fn(&T) -> usize + Sync,
        take: impl FnMut(SampleId, Result<T, SampleError>) -> Result<(), E>,
        no_threads: impl Fn(io::Error) -> E,
    ) -> Result<(), E> {
        let Self { first, end, threads } = self;
        let flow = Flow::new(BUDGET);
        let next = AtomicU64::new(first);
        let size = |made: &Result<T, SampleError>| {
            size_of::<Result<T, SampleError>>() + made.as_ref().map_or(0, &held)
        };
        let work = |send: Sender<(u64, Result<T, SampleError>)>| {
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
            // Whichever way this ends, nobody waits to be let in.
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

/// Takes samples in order, as they come.
fn take_in_order<T, E>(
    samples: Range<u64>,
    receive: &Receiver<(u64, Result<T, SampleError>)>,
    flow: &Flow,
    size: impl Fn(&Result<T, SampleError>) -> usize,
    mut take: impl FnMut(SampleId, Result<T, SampleError>) -> Result<(), E>,
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

/// A panic becomes the sample's error.
fn caught<T>(make: impl FnOnce() -> Result<T, SampleError>) -> Result<T, SampleError> {
    catch_unwind(AssertUnwindSafe(make))
        .unwrap_or_else(|panic| Err(SampleError::Panicked { message: message(&*panic) }))
}

/// Stops the flow when it is let go.
struct Stop<'a>(&'a Flow);

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
        let take = |id: SampleId, made: Result<Vec<u8>, SampleError>| {
            taken.push(id.0);
            made.map(drop).map_err(|error| format!("{id}: {error}"))
        };
        Crew { first, end, threads }.run(make, Vec::len, take, |e| e.to_string())?;
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
