//! A thread of the engine: opens batches and fills chunks of them, until the engine stops.

use super::Phase;
use super::job::{BatchInFlight, FinishedBatch, WorkerState};
use super::ring::WorkItem;
use super::shared::EngineShared;
use super::stage::Stage;
use crate::sync::Arc;
use fuseloop_ops::internals::DefaultFloats;

/// Opens and fills batches until the engine stops.
pub(super) fn work<S: Stage>(shared: &EngineShared<S>, index: usize) {
    let _discharged = ThreadExit(shared);
    // The thread that builds a loader may have any mode.
    DefaultFloats::keep();
    shared.enter();
    let mut worker_state = WorkerState::new(Arc::clone(&shared.meters[index]));
    while let Some(work) = shared.find(&worker_state.meter) {
        if let Some(job) = open(shared, work, &worker_state) {
            job.work(&mut worker_state);
            shared.release(job, &mut worker_state);
        }
    }
    worker_state.meter.phase(Phase::Idle);
}

/// Returns the batch to fill, opening it if necessary; `None` if that failed and was recorded.
fn open<S: Stage>(
    shared: &EngineShared<S>,
    work: WorkItem<S>,
    worker_state: &WorkerState<S>,
) -> Option<Arc<BatchInFlight<S>>> {
    let (run, batch, lease) = match work {
        WorkItem::Fill(job) => return Some(job),
        WorkItem::Open { run, batch, lease } => (run, batch, lease),
        WorkItem::Nothing(_) => return None,
    };
    let id = run.id;
    worker_state.meter.phase(Phase::Open);
    worker_state.meter.at(batch, None);
    match BatchInFlight::open(run, batch, lease) {
        Ok(job) => {
            let job = Arc::new(job);
            shared.publish(&job);
            Some(job)
        }
        Err(error) => {
            shared.settle(FinishedBatch::failed(id, batch, error));
            None
        }
    }
}

/// Counts the end of a thread, also after a panic.
struct ThreadExit<'a, S: Stage>(&'a EngineShared<S>);

impl<S: Stage> Drop for ThreadExit<'_, S> {
    fn drop(&mut self) {
        self.0.thread_exited();
    }
}
