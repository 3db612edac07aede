//! Long calls of the library that Ctrl-C can end.

use crate::call::{Inside, caught, functions_on_this_thread};
use crate::errors;
use crate::warnings;
use fuseloop::internals::threads::builder;
use fuseloop::write::CancelFlag;
use pyo3::prelude::*;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

/// How long a call waits before it looks for signals.
pub(crate) const STEP: Duration = Duration::from_millis(50);

/// How long a cancelled call is waited for. Most end within the time for one image; one that opens shards, or scans
/// a large one for its index, goes on, writes nothing more than that index, and ends by itself.
const PATIENCE: Duration = Duration::from_secs(5);

/// The result of a call or the message of its panic, and the warnings of the call.
type Outcome<T> = (Result<T, String>, Vec<String>);

/// A call of the library on a thread of its own.
pub(crate) struct Task<T> {
    outcome: Receiver<Outcome<Result<T, fuseloop::Error>>>,
    cancel: CancelFlag,
    patience: Duration,
}

impl<T: Send + 'static> Task<T> {
    /// Starts `work`, which `cancel` can end.
    pub(crate) fn start(
        cancel: CancelFlag,
        work: impl FnOnce() -> Result<T, fuseloop::Error> + Send + 'static,
    ) -> PyResult<Self> {
        let (sender, outcome) = sync_channel(1);
        let work = move || {
            // The receiver is gone if nobody waits any more.
            let _ = sender.send(warnings::collected(|| caught(work)));
        };
        builder("fuseloop-call".to_owned())?.spawn(work)?;
        Ok(Self { outcome, cancel, patience: PATIENCE })
    }

    /// Leaves the call behind when it is cancelled: it changes nothing, and ends by itself after its sample.
    pub(crate) fn left_behind(mut self) -> Self {
        self.patience = STEP;
        self
    }

    /// Waits for the result. Between steps, signals are handled and `each_step` is called: an exception of either
    /// cancels the call.
    pub(crate) fn wait(
        mut self,
        py: Python<'_>,
        mut each_step: impl FnMut() -> PyResult<()>,
    ) -> PyResult<T> {
        loop {
            let outcome = &mut self.outcome;
            match py.detach(move || outcome.recv_timeout(STEP)) {
                Ok((Ok(done), own)) => {
                    warnings::raise_own(py, own)?;
                    return done.map_err(|error| errors::raised(py, &error));
                }
                Ok((Err(panic), _)) => return Err(errors::internal(py, &panic)),
                Err(RecvTimeoutError::Timeout) => {
                    if let Err(raised) = py.check_signals().and_then(|()| each_step()) {
                        let raised = errors::of_function(py, raised);
                        self.abort(py);
                        return Err(raised);
                    }
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(errors::internal(py, "a thread ended without its result"));
                }
            }
        }
    }

    /// Cancels the call and waits for its end.
    pub(crate) fn abort(mut self, py: Python<'_>) {
        self.cancel.cancel();
        let (outcome, patience) = (&mut self.outcome, self.patience);
        // Its error is that it was cancelled.
        let _ = py.detach(move || outcome.recv_timeout(patience));
    }
}

/// Runs `work`, which borrows what it needs, on a thread of its own. An exception of a signal sets `cancel`, at which `work`
/// is to end soon.
pub(crate) fn interruptible<T: Send>(
    py: Python<'_>,
    cancel: &CancelFlag,
    work: impl FnOnce() -> T + Send,
) -> PyResult<T> {
    let (mut raised, functions) = (None, functions_on_this_thread());
    let done = py.detach(|| {
        thread::scope(|scope| {
            let (sender, outcome) = sync_channel(1);
            let work = move || {
                let _inside = Inside::of(functions);
                // The receiver waits for it.
                let _ = sender.send(warnings::collected(|| caught(work)));
            };
            builder("fuseloop-call".to_owned())?.spawn_scoped(scope, work)?;
            loop {
                match outcome.recv_timeout(STEP) {
                    Ok(done) => return Ok(done),
                    Err(RecvTimeoutError::Timeout) if raised.is_none() => {
                        raised = Python::try_attach(|py| py.check_signals().err()).flatten();
                        if raised.is_some() {
                            cancel.cancel();
                        }
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => {
                        let ended = "a thread ended without its result".to_owned();
                        return Ok((Err(ended), vec![]));
                    }
                }
            }
        })
    });
    if let Some(raised) = raised {
        return Err(errors::of_function(py, raised));
    }
    let done: io::Result<Outcome<T>> = done;
    let (done, own) = done?;
    let done = done.map_err(|panic| errors::internal(py, &panic))?;
    warnings::raise_own(py, own)?;
    Ok(done)
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}
