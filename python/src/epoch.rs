//! The batches of one epoch.
//!
//! Python handles signals on its main thread, between a call and what follows it. A batch that was returned to
//! `fuseloop/loader.py` may therefore be lost to a KeyboardInterrupt before the program has it. So the epoch keeps the
//! batch until the caller says, by an assignment that no signal follows, that it hands it out; until then, `next`
//! returns it again.

use crate::batch::Batch;
use crate::call::{Owner, detached, detached_quietly, drop_detached};
use crate::errors;
use crate::warnings;
use fuseloop::Batches;
use fuseloop::loader::Cursor;
use fuseloop::sample::UNKNOWN;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use std::cell::OnceCell;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

/// How long a thread waits before it looks at signals: Ctrl-C ends a wait within this time.
const STEP: Duration = Duration::from_millis(50);

/// The batches of one epoch.
#[pyclass(frozen, module = "fuseloop", weakref)]
pub(crate) struct Epoch {
    /// `None` when it was closed.
    batches: Mutex<Option<Batches>>,
    /// A batch that the main thread has taken and not handed out yet, and the position before it.
    unhanded: Mutex<Option<(Py<Batch>, Option<Cursor>)>>,
    /// The names of the tensors.
    names: Vec<String>,
    owner: Owner,
}

impl Epoch {
    pub(crate) fn new(loader: &fuseloop::Loader, batches: Batches) -> Self {
        let (batches, unhanded) = (Mutex::new(Some(batches)), Mutex::new(None));
        let names = loader.tensors().into_iter().map(|spec| spec.name).collect();
        Self { batches, unhanded, names, owner: Owner::current() }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Batches>> {
        self.batches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_unhanded(&self) -> MutexGuard<'_, Option<(Py<Batch>, Option<Cursor>)>> {
        self.unhanded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check(&self, py: Python<'_>) -> PyResult<()> {
        if self.owner.is_forked() { Err(errors::forked(py, "epoch")) } else { Ok(()) }
    }

    /// Returns the batches, for a loader that continues them from the first that was not handed out.
    pub(crate) fn take_batches(&self, py: Python<'_>) -> PyResult<Option<Batches>> {
        self.check(py)?;
        let unhanded = self.lock_unhanded().take();
        let Some(batches) = py.detach(|| self.lock().take()) else { return Ok(None) };
        if let Some((batch, _)) = unhanded {
            batches.take_back(&*batch.get().get()?);
        }
        Ok(Some(batches))
    }
}

#[pymethods]
impl Epoch {
    /// Returns the next batch; `None` after the last. Raises what a signal handler raises, such as
    /// KeyboardInterrupt; the batch then comes with the next call.
    fn next(&self, py: Python<'_>) -> PyResult<Option<Py<Batch>>> {
        self.check(py)?;
        let is_main = is_main_thread(py)?;
        if let (true, Some((batch, _))) = (is_main, &*self.lock_unhanded()) {
            return Ok(Some(batch.clone_ref(py)));
        }
        // A filter may turn a warning into an exception, which must not come with a batch that has been taken.
        warnings::raise(py)?;
        loop {
            let delivered = detached_quietly(py, || {
                let mut batches = self.lock();
                let Some(batches) = batches.as_mut() else { return Ok(Poll::Ready(None)) };
                let before = batches.cursor().ok();
                match batches.next_within(STEP) {
                    Poll::Ready(next) => {
                        Ok(Poll::Ready(next.transpose()?.map(|batch| (batch, before))))
                    }
                    Poll::Pending => Ok(Poll::Pending),
                }
            })?;
            match delivered {
                Poll::Ready(None) => {
                    warnings::raise(py)?;
                    return Ok(None);
                }
                Poll::Ready(Some((batch, before))) => {
                    let batch = Py::new(py, Batch::new(batch))?;
                    if is_main {
                        *self.lock_unhanded() = Some((batch.clone_ref(py), before));
                    }
                    return Ok(Some(batch));
                }
                Poll::Pending => py.check_signals()?,
            }
        }
    }

    /// True is set when the batch of the last call is handed out.
    #[setter]
    fn set_handed(&self, py: Python<'_>, _handed: bool) -> PyResult<()> {
        if is_main_thread(py)? {
            let handed = self.lock_unhanded().take();
            drop(handed);
        }
        Ok(())
    }

    /// Steps over batches without decoding them. Returns how many there were.
    fn skip(&self, py: Python<'_>, batches: u64) -> PyResult<u64> {
        self.check(py)?;
        let unhanded = self.lock_unhanded().take();
        // A batch that was not handed out is the first to skip.
        let taken = u64::from(unhanded.is_some() && batches > 0);
        if let (Some(unhanded), 0) = (unhanded, batches) {
            *self.lock_unhanded() = Some(unhanded);
            return Ok(0);
        }
        detached(py, || {
            let mut batches_left = self.lock();
            let Some(epoch) = batches_left.as_mut() else { return Ok(0) };
            let before = epoch.remaining();
            epoch.skip_batches(batches - taken)?;
            let skipped =
                if before == UNKNOWN { batches - taken } else { before - epoch.remaining() };
            Ok(taken + skipped)
        })
    }

    /// The number of batches left; `None` if it is not known.
    fn remaining(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        self.check(py)?;
        let remaining = py.detach(|| self.lock().as_ref().map_or(0, Batches::remaining));
        let unhanded = u64::from(self.lock_unhanded().is_some());
        Ok(Some(remaining).filter(|&remaining| remaining != UNKNOWN).map(|left| left + unhanded))
    }

    /// The position after the batches taken, as a text.
    fn cursor(&self, py: Python<'_>) -> PyResult<Option<String>> {
        self.check(py)?;
        if let Some((_, Some(before))) = &*self.lock_unhanded() {
            return Ok(Some(before.to_string()));
        }
        detached(py, || {
            let cursor = self.lock().as_ref().map(Batches::cursor).transpose()?;
            Ok(cursor.map(|cursor| cursor.to_string()))
        })
    }

    /// Ends the work of the epoch.
    fn close(&self, py: Python<'_>) {
        if !self.owner.is_forked() {
            let unhanded = self.lock_unhanded().take();
            drop(unhanded);
            py.detach(|| {
                let batches = self.lock().take();
                drop(batches);
            });
        }
    }
}

/// Returns true on the thread that handles signals.
fn is_main_thread(py: Python<'_>) -> PyResult<bool> {
    static MAIN: PyOnceLock<u64> = PyOnceLock::new();
    let threading = || py.import("threading");
    let main = MAIN.get_or_try_init(py, || {
        threading()?.call_method0("main_thread")?.getattr("ident")?.extract::<u64>()
    })?;
    thread_local!(static THIS: OnceCell<u64> = const { OnceCell::new() });
    let this = THIS.with(|this| this.get().copied());
    let this = match this {
        Some(this) => this,
        None => {
            let found = threading()?.call_method0("get_ident")?.extract::<u64>()?;
            THIS.with(|this| *this.get_or_init(|| found))
        }
    };
    Ok(this == *main)
}

/// The errors that Python raises when it unpacks values into another number of names.
const UNPACKINGS: [&str; 2] = ["too many values to unpack", "not enough values to unpack"];

impl Epoch {
    /// Adds the names of the tensors to the exception that is being raised, if it ends a loop such as
    /// `for images, labels in loader` because the batches have more tensors, or fewer. The exception is pending while
    /// the interpreter drops the iterator of the loop.
    fn explain_unpacking(&self, py: Python<'_>) {
        let Some(error) = PyErr::take(py) else { return };
        let text = error.value(py).to_string();
        let count = self.names.len();
        let is_unpacking = error.is_instance_of::<PyValueError>(py)
            && UNPACKINGS.iter().any(|unpacking| text.starts_with(unpacking))
            && !text.contains(&format!("expected {count}"));
        if is_unpacking && count > 0 {
            let names = self.names.join(", ");
            let first = &self.names[0];
            let note = format!(
                "fuseloop: a batch has {count} tensors, in this order: {names}. Take them by name, \
                 `for batch in loader: batch[\"{first}\"]`, or leave one out of the batches: \
                 fuseloop.Loader(..., ops={{\"{}\": None}})",
                self.names[count - 1]
            );
            // An exception that takes no note stays without.
            let _ = error.value(py).call_method1("add_note", (note,));
        }
        error.restore(py);
    }
}

impl Drop for Epoch {
    fn drop(&mut self) {
        if !self.owner.is_forked() {
            let _ = Python::try_attach(|py| self.explain_unpacking(py));
        }
        let batches = self.batches.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(batches) = batches.and_then(|batches| self.owner.unless_forked(batches)) {
            drop_detached(batches);
        }
    }
}
