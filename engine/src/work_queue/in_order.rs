//! Tasks that are claimed in order and whose results are taken in order, with a bound on the memory of the
//! results that wait.
//!
//! ```text
//! ahead           bytes of results that are entered and not yet released by the consumer
//! a task starts   if ahead <= budget, or if its result is the next to be released
//! ```
//!
//! So at most `budget` bytes and one result per worker wait, however much the results differ in size.
//! Tasks are claimed in order, so the next result to be released is entered, in progress, or that of the
//! next task to be claimed. Since that task never waits for the budget, there is no deadlock.

use std::collections::{BTreeMap, VecDeque};

use super::{Claim, WorkState};

/// The state of a queue whose results are taken in the order of its tasks. See the top of the file.
///
/// Tasks are submitted in groups; `I` iterates over the tasks of one group, under the queue's lock.
pub struct InOrder<I, R> {
    /// The groups with tasks that are not claimed yet.
    groups: VecDeque<I>,
    /// The largest number of groups.
    most_groups: usize,
    /// No more groups are submitted.
    is_closed: bool,
    /// No task from this one on is claimed.
    limit: u64,
    budget: usize,
    ahead: usize,
    /// The tasks `0..claimed` are claimed.
    claimed: u64,
    /// The results `0..taken` are taken.
    taken: u64,
    /// The results `0..released` are released: all that are taken, except possibly the last one.
    released: u64,
    /// The bytes of the result that is taken and not released.
    held: usize,
    ready: BTreeMap<u64, (R, usize)>,
}

/// A task, with its number in the queue, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberedTask<T> {
    /// The number.
    pub number: u64,
    /// The task.
    pub task: T,
}

/// The result of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskResult<R> {
    /// The number of the task.
    pub number: u64,
    /// The result.
    pub result: R,
    /// The bytes of memory that the result uses.
    pub bytes: usize,
    /// True if no task after this one needs to be claimed.
    pub is_last: bool,
}

/// The answer to a consumer that takes the next result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken<R> {
    /// The next result.
    Result(R),
    /// There are no more results.
    End,
}

impl<I: ExactSizeIterator, R> InOrder<I, R> {
    /// Creates a state for results of `budget` bytes and `most_groups` groups of tasks that wait.
    pub fn new(budget: usize, most_groups: usize) -> Self {
        Self {
            groups: VecDeque::new(),
            most_groups,
            is_closed: false,
            limit: u64::MAX,
            budget,
            ahead: 0,
            claimed: 0,
            taken: 0,
            released: 0,
            held: 0,
            ready: BTreeMap::new(),
        }
    }

    /// Takes a group of tasks out of `group`. Returns `None` if there is no space for it, and
    /// `Some(false)` if no more tasks are needed.
    pub fn push(&mut self, group: &mut Option<I>) -> Option<bool> {
        if self.limit < u64::MAX {
            return Some(false);
        }
        if !self.has_space() {
            return None;
        }
        self.groups.extend(group.take().filter(|group| group.len() > 0));
        Some(true)
    }

    /// Records that no more groups are submitted.
    pub fn close(&mut self) {
        self.is_closed = true;
    }

    /// Releases the result that was taken before, and returns the next one; `None` if it is not entered
    /// yet.
    pub fn take(&mut self) -> Option<Taken<R>> {
        self.ahead -= std::mem::take(&mut self.held);
        self.released = self.taken;
        if let Some((result, bytes)) = self.ready.remove(&self.taken) {
            self.taken += 1;
            self.held = bytes;
            return Some(Taken::Result(result));
        }
        let is_over = self.claims_are_over() && self.taken >= self.claimed.min(self.limit);
        is_over.then_some(Taken::End)
    }

    fn claims_are_over(&self) -> bool {
        self.claimed >= self.limit || (self.is_closed && self.groups.is_empty())
    }

    /// Returns true if the next task would have to wait for the consumer.
    fn is_gated(&self) -> bool {
        self.ahead > self.budget && self.claimed != self.released
    }
}

impl<I: ExactSizeIterator, R> WorkState for InOrder<I, R> {
    type Task = NumberedTask<I::Item>;
    type Product = TaskResult<R>;
    type Surplus = (VecDeque<I>, BTreeMap<u64, (R, usize)>);

    fn claim(&mut self) -> Claim<Self::Task> {
        if self.claims_are_over() {
            return Claim::Over;
        }
        if self.is_gated() {
            return Claim::Full;
        }
        let Some(task) = self.groups.front_mut().and_then(Iterator::next) else {
            return Claim::Full;
        };
        if self.groups.front().is_some_and(|group| group.len() == 0) {
            self.groups.pop_front();
        }
        let number = self.claimed;
        self.claimed += 1;
        Claim::Task(NumberedTask { number, task })
    }

    fn openings(&self) -> usize {
        if self.claims_are_over() {
            return usize::MAX;
        }
        let tasks = self.groups.iter().map(ExactSizeIterator::len).sum();
        // Over the budget, only the next task to be released starts.
        let most =
            if self.ahead <= self.budget { usize::MAX } else { usize::from(!self.is_gated()) };
        most.min(tasks)
    }

    fn enter(&mut self, product: TaskResult<R>) -> Self::Surplus {
        let TaskResult { number, result, bytes, is_last } = product;
        if is_last {
            self.limit = self.limit.min(number + 1);
        }
        self.ahead += bytes;
        self.ready.insert(number, (result, bytes));
        if self.limit == u64::MAX {
            return Self::Surplus::default();
        }
        // Results of tasks after the last one, which were in progress.
        let surplus = self.ready.split_off(&self.limit);
        self.ahead -= surplus.values().map(|(_, bytes)| bytes).sum::<usize>();
        (VecDeque::new(), surplus)
    }

    fn clear(&mut self) -> Self::Surplus {
        (std::mem::take(&mut self.groups), std::mem::take(&mut self.ready))
    }

    /// Also true where no more tasks are needed, so that submitters learn it.
    fn has_space(&self) -> bool {
        self.limit < u64::MAX || self.groups.len() < self.most_groups
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::Range;

    fn state(budget: usize, tasks: usize) -> InOrder<Range<usize>, usize> {
        let mut state = InOrder::new(budget, 1);
        assert_eq!(state.push(&mut Some(0..tasks)), Some(true));
        state.close();
        state
    }

    fn claim(state: &mut InOrder<Range<usize>, usize>) -> Option<u64> {
        match state.claim() {
            Claim::Task(NumberedTask { number, task }) => {
                assert_eq!(number, task as u64);
                Some(number)
            }
            Claim::Full | Claim::Over => None,
        }
    }

    fn enter(state: &mut InOrder<Range<usize>, usize>, number: u64, bytes: usize) {
        let result = number as usize;
        state.enter(TaskResult { number, result, bytes, is_last: false });
    }

    #[test]
    fn over_the_budget_only_the_next_result_to_be_released_is_begun() {
        let mut state = state(10, 9);
        assert_eq!([claim(&mut state), claim(&mut state)], [Some(0), Some(1)]);
        enter(&mut state, 1, 11);
        assert_eq!((claim(&mut state), state.openings()), (None, 0));
        enter(&mut state, 0, 3);
        assert_eq!(state.take(), Some(Taken::Result(0)));
        assert_eq!(claim(&mut state), None, "result 0 is not released");
        assert_eq!(state.take(), Some(Taken::Result(1)));
        assert_eq!(claim(&mut state), None, "result 1 is not released");
        assert_eq!(state.take(), None);
        assert_eq!((state.openings(), claim(&mut state)), (7, Some(2)));
        enter(&mut state, 2, 11);
        assert_eq!(claim(&mut state), None);
        assert_eq!(state.take(), Some(Taken::Result(2)));
        assert_eq!(state.take(), None);
        assert_eq!(claim(&mut state), Some(3));
    }

    #[test]
    fn no_task_is_begun_after_the_last_and_results_before_it_are_taken() {
        let mut state = state(10, 9);
        (0..3).for_each(|number| assert_eq!(claim(&mut state), Some(number)));
        state.enter(TaskResult { number: 1, result: 1, bytes: 0, is_last: true });
        assert_eq!((state.claim(), state.openings()), (Claim::Over, usize::MAX));
        assert_eq!(state.push(&mut Some(0..1)), Some(false));
        assert_eq!(state.take(), None);
        enter(&mut state, 0, 0);
        assert_eq!(state.take(), Some(Taken::Result(0)));
        assert_eq!(state.take(), Some(Taken::Result(1)));
        assert_eq!(state.take(), Some(Taken::End));
    }

    #[test]
    fn groups_wait_up_to_their_limit_and_empty_ones_take_no_space() {
        let mut state = InOrder::<Range<usize>, usize>::new(10, 1);
        assert_eq!(state.push(&mut Some(0..0)), Some(true));
        assert_eq!(state.push(&mut Some(0..2)), Some(true));
        let mut third = Some(2..3);
        assert_eq!((state.push(&mut third), state.openings()), (None, 2));
        assert_eq!([claim(&mut state), claim(&mut state)], [Some(0), Some(1)]);
        assert_eq!((state.push(&mut third), third), (Some(true), None));
        assert_eq!(claim(&mut state), Some(2));
        assert_eq!(state.claim(), Claim::Full, "more may be submitted");
        state.close();
        assert_eq!(state.claim(), Claim::Over);
        (0..3).for_each(|number| enter(&mut state, number, 0));
        (0..3).for_each(|number| assert_eq!(state.take(), Some(Taken::Result(number))));
        assert_eq!(state.take(), Some(Taken::End));
    }
}
