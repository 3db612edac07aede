//! The threads that requests wait on: two for the whole process, begun with the first request.
//!
//! They only wait for the network; what was fetched is worked at elsewhere. Whoever wants the
//! outcome of something async waits outside of it, on a channel: that is allowed on any thread,
//! also on one of a runtime of the user's own.

use crate::threads::{Process, ThreadsError};
use std::future::Future;
use std::io;
use std::sync::{OnceLock, mpsc};
use tokio::runtime::{Builder, Runtime};

const THREADS: usize = 2;

/// The process that began the runtime.
static PROCESS: OnceLock<Process> = OnceLock::new();

/// Refuses a process that was forked from the one that began the runtime: its threads are not here, and
/// locks that they take may be held. For whatever takes such a lock, before it does.
///
/// # Errors
///
/// [`ThreadsError::Forked`].
pub(super) fn check() -> Result<(), ThreadsError> {
    PROCESS.get().map_or(Ok(()), |process| process.check())
}

/// The process's runtime.
///
/// # Errors
///
/// If the system gives no threads, or this process was forked from the one that began it.
pub(super) fn runtime() -> io::Result<&'static Runtime> {
    PROCESS.get_or_init(Process::current).check().map_err(io::Error::other)?;
    static RUNTIME: OnceLock<Result<Runtime, (io::ErrorKind, String)>> = OnceLock::new();
    let made = RUNTIME.get_or_init(|| {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(THREADS).thread_name("fuseloop-remote").enable_all();
        builder.build().map_err(|error| (error.kind(), error.to_string()))
    });
    made.as_ref().map_err(|(kind, error)| {
        io::Error::new(*kind, format!("no threads to wait for requests on: {error}"))
    })
}

/// Waits for a future's outcome.
///
/// # Errors
///
/// If there is no runtime, or the future panicked.
pub(super) fn wait<T: Send + 'static>(
    future: impl Future<Output = T> + Send + 'static,
) -> io::Result<T> {
    let (sender, receiver) = mpsc::sync_channel(1);
    let _task = runtime()?.spawn(async move {
        let outcome = future.await;
        // Nobody waits any more only if that thread has ended.
        let _ = sender.send(outcome);
    });
    receiver.recv().map_err(|_| io::Error::other("a request ended without an outcome"))
}
