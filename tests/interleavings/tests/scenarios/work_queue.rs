//! Scenarios of a work queue whose results are taken in order, for random and for all orders of its threads.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

use fuseloop_interleavings::work_queue::{
    InOrder, NumberedTask, Taken, TaskResult, WaitError, WorkQueue, Worker,
};
use shuttle::sync::Arc;
use shuttle::thread;

type Queue = WorkQueue<InOrder<Range<usize>, usize>>;

/// The event at one task.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum At {
    Fine,
    /// No task after this one is needed.
    Last,
    /// The worker panics.
    Panic,
}

/// The settings of a queue, and what happens to it.
#[derive(Clone, Copy)]
pub(crate) struct QueueScenario {
    pub(crate) workers: usize,
    pub(crate) tasks: usize,
    /// The number of tasks that are submitted together.
    pub(crate) group: usize,
    pub(crate) budget: usize,
    /// The task at which something happens.
    pub(crate) at: (usize, At),
    /// The number of results after which the consumer leaves.
    pub(crate) leaves_after: usize,
}

impl QueueScenario {
    /// Submits all tasks on one thread and takes their results on another, and checks that they come in
    /// order and once, that no more memory is used than allowed, and that all threads end.
    pub(crate) fn run(self) {
        let Self { workers, tasks, group, budget, at: (special, at), leaves_after } = self;
        let queue = Arc::new(Queue::new(InOrder::new(budget, workers)));
        let held = Arc::new(AtomicUsize::new(0));
        let mut threads: Vec<_> = (0..workers)
            .map(|_| {
                let (worker, held) = (Worker::new(Arc::clone(&queue)), Arc::clone(&held));
                thread::spawn(move || {
                    let run = |task: NumberedTask<usize>| work(task, special, at, &held);
                    let worked = catch_unwind(AssertUnwindSafe(|| worker.work(run)));
                    assert!(worked.is_ok() || at == At::Panic);
                })
            })
            .collect();
        let consumer = Arc::clone(&queue);
        threads.push(thread::spawn(move || {
            let _stop = consumer.stop_on_drop();
            let most = budget + workers * LARGEST;
            let taken = take_all(&consumer, leaves_after, &held, most);
            match at {
                _ if leaves_after <= taken => {}
                At::Fine => assert_eq!(taken, tasks),
                At::Last => assert_eq!(taken, special + 1),
                At::Panic => assert!(taken <= special),
            }
        }));
        for first in (0..tasks).step_by(group) {
            let mut group = Some(first..tasks.min(first + group));
            if queue.submit(|state| state.push(&mut group)) != Some(true) {
                break;
            }
        }
        queue.with(InOrder::close).unwrap();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(queue.is_over());
    }
}

/// The largest number of bytes of a result.
const LARGEST: usize = 3;

fn bytes(number: usize) -> usize {
    number % (LARGEST + 1)
}

fn work(
    NumberedTask { number, task }: NumberedTask<usize>,
    special: usize,
    at: At,
    held: &AtomicUsize,
) -> TaskResult<usize> {
    assert_eq!(number, task as u64);
    if (task, at) == (special, At::Panic) {
        // Not `panic!`: its hook would print the schedule of each panic.
        resume_unwind(Box::new("planted"));
    }
    held.fetch_add(bytes(task), Ordering::Relaxed);
    let is_last = (task, at) == (special, At::Last);
    TaskResult { number, result: task, bytes: bytes(task), is_last }
}

/// Takes up to `most` results and returns their number.
fn take_all(queue: &Queue, most: usize, held: &AtomicUsize, most_held: usize) -> usize {
    let mut before = 0;
    for taken in 0..most {
        let next = queue.take(None, |state| {
            let next = state.take();
            assert!(held.fetch_sub(before, Ordering::Relaxed) <= most_held, "over the budget");
            before = 0;
            next
        });
        match next {
            Ok(Taken::Result(result)) => {
                assert_eq!(result, taken);
                before = bytes(result);
            }
            Ok(Taken::End) | Err(WaitError::WorkersEnded) => return taken,
            Err(_) => panic!("neither a result nor an end"),
        }
    }
    most
}
