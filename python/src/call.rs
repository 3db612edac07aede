//! Calls of the library from Python: detached from the interpreter, with errors and panics as exceptions; and the
//! process that an object belongs to, for checks after a fork.

use crate::errors::{self, Raised};
use crate::warnings;
use fuseloop::ops::internals::DefaultFloats;
use fuseloop::source::BoxError;
use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use std::any::Any;
use std::cell::Cell;
use std::mem;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Set when the interpreter ends: no function is called from then on.
static ENDED: AtomicBool = AtomicBool::new(false);

/// The number of functions that run, on all threads.
static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// How long the end of the interpreter waits for functions that run.
const PATIENCE: Duration = Duration::from_secs(5);

/// Lets no thread of the library call a function any more, and waits for those that run. Called before the interpreter
/// is torn down, which ends daemon threads where they ask for it: inside of a function, that aborts the process.
#[pyfunction]
pub(crate) fn end_functions(py: Python<'_>) {
    ENDED.store(true, Ordering::SeqCst);
    py.detach(|| {
        let start = Instant::now();
        while RUNNING.load(Ordering::SeqCst) > 0 && start.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(1));
        }
    });
}

/// Counts a function that runs, until it is dropped.
struct Running;

impl Running {
    fn begin() -> Self {
        RUNNING.fetch_add(1, Ordering::SeqCst);
        Self
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        RUNNING.fetch_sub(1, Ordering::SeqCst);
    }
}

thread_local! {
    static FUNCTIONS: Cell<u32> = const { Cell::new(0) };
}

/// Returns how many functions that the library called are nested on this thread.
pub(crate) fn functions_on_this_thread() -> u32 {
    FUNCTIONS.get()
}

/// Sets the number of functions on this thread, until it is dropped.
pub(crate) struct Inside(u32);

impl Inside {
    pub(crate) fn of(functions: u32) -> Self {
        Self(FUNCTIONS.replace(functions))
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        FUNCTIONS.set(self.0);
    }
}

/// Runs `work` attached to the interpreter, on a thread of the library. An exception becomes an error, which is
/// raised again as it is, unless it would end a loop: see [`errors::of_function`].
pub(crate) fn attached<T>(work: impl FnOnce(Python<'_>) -> PyResult<T>) -> Result<T, BoxError> {
    // Counted first: what end_functions does not wait for, sees that it was called.
    let _running = Running::begin();
    let is_ended = ENDED.load(Ordering::SeqCst);
    let _inside = Inside::of(functions_on_this_thread() + 1);
    let called = |py: Python<'_>| work(py).map_err(|error| errors::of_function(py, error));
    let done = if is_ended { None } else { Python::try_attach(called) };
    Ok(done.ok_or("the interpreter is exiting")?.map_err(Raised)?)
}

/// Runs `work` while other threads of Python run. An error becomes an exception, and so does a panic, which is
/// always a defect of Fuseloop.
pub(crate) fn detached<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T, fuseloop::Error> + Send,
) -> PyResult<T> {
    calling(py, work)?.map_err(|error| errors::raised(py, &error))
}

/// Does the same, and leaves the library's warnings to a later call.
pub(crate) fn detached_quietly<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T, fuseloop::Error> + Send,
) -> PyResult<T> {
    let done = py.detach(|| caught(work)).map_err(|panic| errors::internal(py, &panic))?;
    done.map_err(|error| errors::raised(py, &error))
}

/// Runs `work` while other threads of Python run, and raises the library's warnings. The error is the exception for a
/// panic.
pub(crate) fn calling<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> PyResult<T> {
    let (done, own) = py.detach(|| warnings::collected(|| caught(work)));
    let done = done.map_err(|panic| errors::internal(py, &panic))?;
    warnings::raise_own(py, own)?;
    Ok(done)
}

/// Runs `work` in the default floating-point mode, which `torch.set_flush_denormal` changes. The error is the message of
/// a panic.
pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    let work = || DefaultFloats::during(work);
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| text(&*panic))
}

/// Drops something that may wait for threads, which may be waiting for the interpreter.
pub(crate) fn drop_detached<T: Send>(value: T) {
    // Without an interpreter, nobody waits for it.
    let mut value = Some(value);
    let dropped = Python::try_attach(|py| py.detach(|| drop(value.take())));
    if dropped.is_none() {
        drop(value);
    }
}

/// A value that is dropped by [`drop_detached`].
pub(crate) struct DetachedDrop<T: Send>(Option<T>);

impl<T: Send> DetachedDrop<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Some(value))
    }
}

impl<T: Send> Deref for DetachedDrop<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // Only `drop` takes it.
        self.0.as_ref().expect("a value that is not dropped")
    }
}

impl<T: Send> Drop for DetachedDrop<T> {
    fn drop(&mut self) {
        drop_detached(self.0.take());
    }
}

/// Returns the module `numpy`.
pub(crate) fn numpy(py: Python<'_>) -> PyResult<&Bound<'_, PyModule>> {
    static NUMPY: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let import = || PyModule::import(py, "numpy").map(Bound::unbind);
    Ok(NUMPY.get_or_try_init(py, import)?.bind(py))
}

/// Refuses to be imported by a second interpreter of a process, which would share types and modules with the first.
pub(crate) fn refuse_subinterpreters(py: Python<'_>) -> PyResult<()> {
    static FIRST: AtomicUsize = AtomicUsize::new(0);
    // Each interpreter has a module of its own of this name.
    let this = py.import("builtins")?.as_ptr().addr();
    match FIRST.compare_exchange(0, this, Ordering::SeqCst, Ordering::SeqCst) {
        Err(first) if first != this => Err(PyImportError::new_err(
            "fuseloop can't be imported by a second interpreter of a process",
        )),
        _ => Ok(()),
    }
}

fn text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without a message").to_owned()
}

/// The process that something belongs to, for checks after a fork: threads and locks are the parent's then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner(u32);

impl Owner {
    pub(crate) fn current() -> Self {
        Self(process::id())
    }

    pub(crate) fn is_forked(self) -> bool {
        self.0 != process::id()
    }

    /// Returns a value that is about to be dropped. In a forked process, where its threads do not exist and its
    /// locks may be held for ever, it is forgotten.
    pub(crate) fn unless_forked<T>(self, value: T) -> Option<T> {
        if self.is_forked() {
            mem::forget(value);
            return None;
        }
        Some(value)
    }
}
