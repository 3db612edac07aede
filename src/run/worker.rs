//! What a thread of the engine does: open batches, fill chunks of them, until the engine stops.

use super::Phase;
use super::job::{Desk, Finished, Job};
use super::ring::Work;
use super::shared::Shared;
use super::stage::Stage;
use crate::sync::Arc;

/// Opens and fills batches until the engine stops.
pub(super) fn work<S: Stage>(shared: &Shared<S>, index: usize) {
    let _discharged = Discharge(shared);
    let mut desk = Desk::new(Arc::clone(&shared.meters[index]));
    while let Some(work) = shared.find(&desk.meter) {
        if let Some(job) = open(shared, work, &desk) {
            job.work(&mut desk);
            shared.retire(job, &mut desk);
        }
    }
    desk.meter.phase(Phase::Idle);
}

/// The batch to fill, opened first if need be; `None` if that failed, which is settled.
fn open<S: Stage>(shared: &Shared<S>, work: Work<S>, desk: &Desk<S>) -> Option<Arc<Job<S>>> {
    let (run, batch, lease) = match work {
        Work::Fill(job) => return Some(job),
        Work::Open { run, batch, lease } => (run, batch, lease),
        Work::Nothing(_) => return None,
    };
    let id = run.id;
    desk.meter.phase(Phase::Open);
    desk.meter.at(batch, None);
    match Job::open(run, batch, lease) {
        Ok(job) => {
            let job = Arc::new(job);
            shared.publish(&job);
            Some(job)
        }
        Err(error) => {
            shared.settle(Finished::failed(id, batch, error));
            None
        }
    }
}

/// Notes the end of a thread, however it ends.
struct Discharge<'a, S: Stage>(&'a Shared<S>);

impl<S: Stage> Drop for Discharge<'_, S> {
    fn drop(&mut self) {
        self.0.discharge();
    }
}
