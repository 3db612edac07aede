//! Work that is spread over all cores and waited for, such as opening a dataset.
//!
//! The work runs in a thread pool of its own, which ends with the work. rayon's global pool would panic
//! where the system starts no thread, and a forked child would wait for the global pool's threads, which
//! the child does not have.

use crate::threads::{MOST, ThreadsError, check_memory};
use fuseloop_ops::internals::DefaultFloats;
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::num::NonZeroUsize;
use std::{io, thread};

/// Calls `work` with each of `items`, several at a time, and returns the results in the order of
/// `items`.
///
/// # Errors
///
/// If the system starts no threads. A single item needs none.
pub(crate) fn map<I: Sync, T: Send>(
    items: &[I],
    work: impl Fn(&I) -> T + Sync + Send,
) -> Result<Vec<T>, ThreadsError> {
    if let [item] = items {
        return Ok(vec![DefaultFloats::during(|| work(item))]);
    }
    on_all_cores(items.len(), || items.par_iter().map(work).collect())
}

/// Runs `work`, which uses rayon's iterators over `pieces` pieces. Uses one thread a core, but no more
/// threads than pieces.
///
/// # Errors
///
/// If the system starts no threads.
pub(crate) fn on_all_cores<R: Send>(
    pieces: usize,
    work: impl FnOnce() -> R + Send,
) -> Result<R, ThreadsError> {
    let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    Ok(pool(cores.min(pieces).clamp(1, MOST), "fuseloop-open")?.install(work))
}

/// Returns a pool of `threads` threads, each named `name` and its number.
///
/// # Errors
///
/// If the system starts no threads.
pub(crate) fn pool(threads: usize, name: &'static str) -> Result<ThreadPool, ThreadsError> {
    let builder = ThreadPoolBuilder::new()
        .num_threads(threads)
        .start_handler(|_| DefaultFloats::keep())
        .thread_name(move |index| format!("{name}-{index}"));
    let built = check_memory(threads).and_then(|()| builder.build().map_err(io::Error::other));
    built.map_err(|source| ThreadsError::Refused { wanted: threads, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_of_items_comes_in_their_order() {
        for count in [0, 1, 2, 1000] {
            let items: Vec<usize> = (0..count).collect();
            let twice: Vec<usize> = items.iter().map(|item| 2 * item).collect();
            assert_eq!(map(&items, |item| 2 * item).unwrap(), twice);
        }
    }

    #[test]
    fn no_more_threads_than_pieces_are_started() {
        assert_eq!(on_all_cores(1, rayon::current_num_threads).unwrap(), 1);
    }
}
