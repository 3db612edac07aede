//! What a thread of the engine does: open batches, fill chunks of them, until the engine stops.

use std::sync::Arc;
use std::time::Instant;

use super::job::{Desk, Finished, Job};
use super::ring::Work;
use super::shared::Shared;
use super::stage::Stage;

/// Opens and fills batches until the engine stops.
pub(super) fn work<S: Stage>(shared: &Shared<S>, index: usize) {
    let _discharged = Discharge(shared);
    let meter = &shared.meters[index];
    let mut desk = Desk::new();
    while let Some(work) = shared.find() {
        let begun = Instant::now();
        if let Some(job) = open(shared, work) {
            job.work(&mut desk, meter);
            shared.retire(job, &mut desk, meter);
        }
        meter.busy.add_since(begun);
    }
}

/// The batch to fill, opened first if need be; `None` if that failed, which is settled.
fn open<S: Stage>(shared: &Shared<S>, work: Work<S>) -> Option<Arc<Job<S>>> {
    let (run, batch, lease) = match work {
        Work::Fill(job) => return Some(job),
        Work::Open { run, batch, lease } => (run, batch, lease),
        Work::Nothing { .. } => return None,
    };
    let id = run.id;
    match Job::open(run, batch, lease) {
        Ok(job) => {
            let job = Arc::new(job);
            shared.publish(&job);
            Some(job)
        }
        Err(error) => {
            shared.settle(Finished { run: id, batch, outcome: Err(error) });
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
