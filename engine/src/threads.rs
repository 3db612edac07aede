//! Limits on a process's threads: how many an object may start, and in which process they exist.
//!
//! | | |
//! |---|---|
//! | how many | An object starts at most `MOST` threads for one purpose: far more than help, and far fewer than a system refuses. A process that starts tens of thousands gets no error but dies: each thread takes four mappings of the 65,530 that Linux allows, and a thread that gets no stack for its signal handler ends the process. |
//! | where | `fork` copies an object with threads into the child, with its locks in their state, but copies none of its threads. Code that waits for such a thread waits for ever, so each object stores the `Process` that created it and checks it before it takes a lock. |

use crate::sync::mpsc;
use fuseloop_ops::internals::DefaultFloats;
use memmap2::MmapMut;
use std::convert::Infallible;
use std::{io, thread};

/// The most threads that one object starts for one purpose.
pub const MOST: usize = 1024;

/// Why threads can't be started or waited for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ThreadsError {
    /// More threads than one object may start.
    #[error("{found} {what}: the limit is {MOST}, and more than one per core rarely help")]
    TooMany {
        /// The noun for the threads in the message, such as `workers`.
        what: &'static str,
        /// How many were asked for.
        found: usize,
    },
    /// The system starts no more threads.
    #[error(
        "cannot start {wanted} threads ({source}): allow more processes (`ulimit -u`) or more memory (`ulimit -v`)"
    )]
    Refused {
        /// How many were to be started.
        wanted: usize,
        /// The system's error.
        source: io::Error,
    },
    /// The threads belong to the process that this one was forked from.
    #[error(
        "this process was forked from process {parent}, which owns the worker threads: open the dataset after the fork, or start workers by spawn"
    )]
    Forked {
        /// The process that has the threads.
        parent: u32,
    },
}

/// Refuses more than [`MOST`] threads.
pub fn check(what: &'static str, found: usize) -> Result<(), ThreadsError> {
    if found > MOST { Err(ThreadsError::TooMany { what, found }) } else { Ok(()) }
}

/// A thread's stack of 2 MiB, and as much as several threads allocate while they start.
const START: usize = 3 << 20;

/// Returns the builder of a thread.
///
/// # Errors
///
/// If the system has no memory for the thread. The standard library ends the process where a thread has a
/// stack but finds no memory for what it allocates before its function is called.
pub fn builder(name: String) -> io::Result<Builder> {
    check_memory(1)?;
    Ok(Builder(thread::Builder::new().name(name)))
}

/// The builder of a thread that computes in the default floating-point mode, and not in that of the thread that
/// starts it.
///
/// The thread that starts another waits until that one runs, so that it allocates nothing in the meantime: see
/// [`builder`].
#[derive(Debug)]
pub struct Builder(thread::Builder);

impl Builder {
    /// Sets the bytes of the thread's stack.
    #[must_use]
    pub fn stack_size(self, bytes: usize) -> Self {
        Self(self.0.stack_size(bytes))
    }

    /// Starts the thread, which runs `work`.
    ///
    /// # Errors
    ///
    /// If the system starts no thread.
    pub fn spawn<T: Send + 'static>(
        self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<thread::JoinHandle<T>> {
        let (begun, wait) = mpsc::channel();
        let thread = self.0.spawn(by_default(work, begun))?;
        wait_for_start(&wait);
        Ok(thread)
    }

    /// Starts the thread, which runs `work` and ends before `scope` does.
    ///
    /// # Errors
    ///
    /// If the system starts no thread.
    pub fn spawn_scoped<'scope, T: Send + 'scope>(
        self,
        scope: &'scope thread::Scope<'scope, '_>,
        work: impl FnOnce() -> T + Send + 'scope,
    ) -> io::Result<thread::ScopedJoinHandle<'scope, T>> {
        let (begun, wait) = mpsc::channel();
        let thread = self.0.spawn_scoped(scope, by_default(work, begun))?;
        wait_for_start(&wait);
        Ok(thread)
    }
}

/// Waits until the new thread has dropped the other end of `wait`, through which nothing is sent.
fn wait_for_start(wait: &mpsc::Receiver<Infallible>) {
    let Err(mpsc::RecvError) = wait.recv();
}

/// Returns `work` for a thread of its own, which drops `begun` and keeps the default floating-point mode.
fn by_default<T>(work: impl FnOnce() -> T, begun: mpsc::Sender<Infallible>) -> impl FnOnce() -> T {
    || {
        drop(begun);
        DefaultFloats::keep();
        work()
    }
}

/// Fails if the system has no memory for `count` more threads.
///
/// # Errors
///
/// If the system has no memory for them.
pub fn check_memory(count: usize) -> io::Result<()> {
    // Memory that is not touched takes addresses only.
    MmapMut::map_anon(count.saturating_mul(START)).map(drop)
}

/// The process in which an object with threads was created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process(u32);

impl Process {
    /// Returns this process.
    pub fn current() -> Self {
        Self(std::process::id())
    }

    /// Returns whether the current process is another one: a child forked since, which has none of the
    /// threads.
    pub fn is_forked(self) -> bool {
        self != Self::current()
    }

    /// Fails in a child forked since.
    pub fn check(self) -> Result<(), ThreadsError> {
        if self.is_forked() { Err(ThreadsError::Forked { parent: self.0 }) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_say_what_to_do() {
        assert!(check("workers", MOST).is_ok());
        let text = check("workers", usize::MAX).unwrap_err().to_string();
        assert_eq!(
            text,
            "18446744073709551615 workers: the limit is 1024, and more than one per core rarely \
             help"
        );
        let source = io::Error::from(io::ErrorKind::WouldBlock);
        let text = ThreadsError::Refused { wanted: 2, source }.to_string();
        assert!(text.starts_with("cannot start 2 threads ("), "{text}");
        assert!(check_memory(1).is_ok() && check_memory(usize::MAX).is_err());
        assert!(!Process::current().is_forked());
        let parent = Process(0);
        let text = parent.check().unwrap_err().to_string();
        assert!(text.starts_with("this process was forked from process 0, which"), "{text}");
    }
}
