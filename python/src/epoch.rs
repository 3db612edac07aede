//! The batches of one epoch.

use crate::batch::Batch;
use crate::call::{Owner, detached, drop_detached};
use crate::errors;
use fuseloop::Batches;
use fuseloop::sample::UNKNOWN;
use pyo3::prelude::*;
use std::sync::{Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

/// How long a thread waits before it looks at signals: Ctrl-C ends a wait within this time.
const STEP: Duration = Duration::from_millis(50);

/// The batches of one epoch.
#[pyclass(frozen, module = "fuseloop", weakref)]
pub(crate) struct Epoch {
    /// `None` when it was closed.
    batches: Mutex<Option<Batches>>,
    owner: Owner,
}

impl Epoch {
    pub(crate) fn new(batches: Batches) -> Self {
        Self { batches: Mutex::new(Some(batches)), owner: Owner::current() }
    }

    fn take(&self) -> Option<Batches> {
        self.batches.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn check(&self, py: Python<'_>) -> PyResult<()> {
        if self.owner.is_forked() { Err(errors::forked(py, "epoch")) } else { Ok(()) }
    }

    /// Gives the batches to a loader that continues them.
    pub(crate) fn into_batches(&self, py: Python<'_>) -> PyResult<Option<Batches>> {
        self.check(py)?;
        Ok(py.detach(|| self.take()))
    }
}

#[pymethods]
impl Epoch {
    /// Returns the next batch; `None` after the last. Raises what a signal handler raises, such as
    /// KeyboardInterrupt; the batch then comes with the next call.
    fn next(&self, py: Python<'_>) -> PyResult<Option<Batch>> {
        self.check(py)?;
        loop {
            let delivered = detached(py, || {
                let mut batches = self.batches.lock().unwrap_or_else(PoisonError::into_inner);
                let Some(batches) = batches.as_mut() else { return Ok(Poll::Ready(None)) };
                match batches.next_within(STEP) {
                    Poll::Ready(next) => next.transpose().map(Poll::Ready),
                    Poll::Pending => Ok(Poll::Pending),
                }
            })?;
            match delivered {
                Poll::Ready(next) => return Ok(next.map(Batch::new)),
                Poll::Pending => py.check_signals()?,
            }
        }
    }

    /// The number of batches left; `None` if it is not known.
    fn remaining(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        self.check(py)?;
        let remaining = py.detach(|| {
            let batches = self.batches.lock().unwrap_or_else(PoisonError::into_inner);
            batches.as_ref().map_or(0, Batches::remaining)
        });
        Ok(Some(remaining).filter(|&remaining| remaining != UNKNOWN))
    }

    /// The position after the batches taken, as a text.
    fn cursor(&self, py: Python<'_>) -> PyResult<Option<String>> {
        self.check(py)?;
        detached(py, || {
            let batches = self.batches.lock().unwrap_or_else(PoisonError::into_inner);
            let cursor = batches.as_ref().map(Batches::cursor).transpose()?;
            Ok(cursor.map(|cursor| cursor.to_string()))
        })
    }

    /// Ends the work of the epoch.
    fn close(&self, py: Python<'_>) {
        if !self.owner.is_forked() {
            py.detach(|| drop(self.take()));
        }
    }
}

impl Drop for Epoch {
    fn drop(&mut self) {
        let batches = self.batches.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        match batches {
            // Its threads and locks are the parent's.
            Some(batches) if self.owner.is_forked() => std::mem::forget(batches),
            Some(batches) => drop_detached(batches),
            None => {}
        }
    }
}
