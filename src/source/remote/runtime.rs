//! The threads that requests wait on: two for the whole process, started with the first request.
//!
//! The threads only wait for the network; other threads process the fetched bytes. A caller that needs
//! the result of an async task waits for it on a channel, outside of the runtime. That is allowed on any
//! thread, including the threads of a user's own runtime.

use crate::threads::{Process, ThreadsError};
use fuseloop_ops::internals::DefaultFloats;
use std::future::Future;
use std::io;
use std::sync::{OnceLock, mpsc};
use tokio::runtime::{Builder, Runtime};

const THREADS: usize = 2;

/// The process that started the runtime.
static PROCESS: OnceLock<Process> = OnceLock::new();

/// Refuses a process that was forked from the one that started the runtime: the threads do not exist in
/// it, and locks that they take may be held. Code that takes such a lock calls this function first.
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
/// If the system can't start threads, or this process was forked from the one that started the runtime.
pub(super) fn runtime() -> io::Result<&'static Runtime> {
    PROCESS.get_or_init(Process::current).check().map_err(io::Error::other)?;
    static RUNTIME: OnceLock<Result<Runtime, (io::ErrorKind, String)>> = OnceLock::new();
    let runtime = RUNTIME.get_or_init(|| {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(THREADS).thread_name("fuseloop-remote").enable_all();
        // The thread that opens a dataset may have any mode. Tokio's threads for blocking calls are started so, too.
        builder.on_thread_start(DefaultFloats::keep);
        builder.build().map_err(|error| (error.kind(), error.to_string()))
    });
    runtime.as_ref().map_err(|(kind, error)| {
        io::Error::new(*kind, format!("can't start the threads for requests: {error}"))
    })
}

/// Blocks until a future has a result.
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
        // Sending fails only if the thread that waits has ended.
        let _ = sender.send(outcome);
    });
    receiver.recv().map_err(|_| io::Error::other("a request ended without an outcome"))
}
