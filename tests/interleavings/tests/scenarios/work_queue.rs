//! Scenarios of a work queue whose results are taken in order, and of one that reads streams ahead, for random
//! and for all orders of its threads.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

use fuseloop_interleavings::work_queue::{
    InOrder, NumberedStream, NumberedTask, StreamRead, Streams, Taken, TaskResult, WaitError,
    WorkQueue, Worker,
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

/// The settings of streams that are read ahead. Stream `i` has `i + items` items.
#[derive(Clone, Copy)]
pub(crate) struct StreamsScenario {
    pub(crate) workers: usize,
    pub(crate) streams: usize,
    pub(crate) items: usize,
    pub(crate) capacity: usize,
    /// True if the consumer takes an item of each stream in turn, false if it takes any that is ready.
    pub(crate) in_turn: bool,
    /// The number of items that are taken of each stream before it is removed.
    pub(crate) removed_after: usize,
    /// The stream at whose first item the worker panics.
    pub(crate) panics: Option<usize>,
}

/// The items of a stream that are not read, and the number of items that the consumer took.
struct Items {
    stream: usize,
    left: Range<usize>,
    taken: Arc<AtomicUsize>,
}

impl StreamsScenario {
    /// Reads all streams, and checks that the items of each come in order and once, that no more are read
    /// ahead than allowed, and that all threads end.
    pub(crate) fn run(self) {
        let queue = Arc::new(WorkQueue::new(Streams::<Items, usize>::new(self.capacity)));
        let threads: Vec<_> = (0..self.workers)
            .map(|_| {
                let worker = Worker::new(Arc::clone(&queue));
                thread::spawn(move || {
                    let worked =
                        catch_unwind(AssertUnwindSafe(|| worker.work(|from| self.read(from))));
                    assert!(worked.is_ok() || self.panics.is_some());
                })
            })
            .collect();
        let all_came = self.take_all(&queue);
        assert!(all_came || self.panics.is_some());
        queue.stop();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(queue.is_over());
    }

    fn read(self, mut from: NumberedStream<Items>) -> StreamRead<Items, usize> {
        let Items { stream, left, taken } = &mut from.stream;
        let item = left.next();
        if (self.panics, item) == (Some(*stream), Some(0)) {
            resume_unwind(Box::new("planted"));
        }
        let most = taken.load(Ordering::Relaxed) + self.capacity;
        assert!(item.is_none_or(|item| item < most), "too far ahead");
        StreamRead { from, item, is_over: item.is_none() }
    }

    /// Takes the items of all streams; false if the workers ended before.
    fn take_all(self, queue: &WorkQueue<Streams<Items, usize>>) -> bool {
        let mut open: Vec<(u64, Arc<AtomicUsize>, usize)> = (0..self.streams)
            .map(|stream| {
                let (left, taken) = (0..stream + self.items, Arc::new(AtomicUsize::new(0)));
                let items = Items { stream, left, taken: Arc::clone(&taken) };
                (queue.with(|state| state.add(items)).unwrap(), taken, stream + self.items)
            })
            .collect();
        let mut turn = 0;
        while !open.is_empty() {
            turn = (turn + 1) % open.len();
            let next = queue.take(None, |state| {
                let is_ready = |(number, ..): &(u64, _, _)| state.is_ready(*number);
                let at = if self.in_turn { turn } else { open.iter().position(is_ready)? };
                let (number, taken, _) = &open[at];
                let next = state.take(*number)?;
                taken.fetch_add(1, Ordering::Relaxed);
                Some((at, next))
            });
            let (at, is_over) = match next {
                Ok((at, Taken::Result(item))) => {
                    let taken = open[at].1.load(Ordering::Relaxed);
                    assert_eq!(item + 1, taken);
                    (at, taken == self.removed_after)
                }
                Ok((at, Taken::End)) => {
                    assert_eq!(open[at].1.load(Ordering::Relaxed), open[at].2 + 1);
                    (at, true)
                }
                Err(WaitError::WorkersEnded) => return false,
                Err(_) => panic!("neither an item nor an end"),
            };
            if is_over {
                drop(queue.with(|state| state.remove(open[at].0)).unwrap());
                open.remove(at);
            }
        }
        true
    }
}
