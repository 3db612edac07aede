//! Streams that are read ahead: each has a queue of its own, of items that are read and not taken.
//!
//! ```text
//! stream a ─┐                ┌─▶ queue a ─▶
//! stream b ─┼─▶ any worker ──┼─▶ queue b ─▶   consumers
//! stream c ─┘                └─▶ queue c ─▶
//! ```
//!
//! A task is a stream: the worker that claims it reads one item, and enters both. So only one worker at a
//! time reads a stream, and each queue is in the order of its stream. A queue that a consumer is blocked on
//! goes first, then the emptiest queue, then the next one in turn.

use std::collections::{BTreeMap, VecDeque};

use super::{Claim, Taken, WorkState};

/// The state of a queue whose tasks are streams of type `S` with items of type `T`. See the top of the file.
pub struct Streams<S, T> {
    streams: BTreeMap<u64, StreamQueue<S, T>>,
    /// The number of streams that were added.
    added: u64,
    /// The capacity of each queue, in items.
    capacity: usize,
    /// The stream that a consumer is blocked on.
    awaited: Option<u64>,
    /// The stream that an item was taken from last.
    last: u64,
}

/// A stream and its items that are read and not taken.
pub struct StreamQueue<S, T> {
    /// `None` while a worker reads the stream, and after its end.
    stream: Option<S>,
    items: VecDeque<T>,
    is_over: bool,
}

/// A stream, with its number: the number of streams that were added before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberedStream<S> {
    /// The number.
    pub number: u64,
    /// The stream.
    pub stream: S,
}

/// The result of one read of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamRead<S, T> {
    /// The stream.
    pub from: NumberedStream<S>,
    /// Its next item, if there is one.
    pub item: Option<T>,
    /// True if the stream has no items after this one.
    pub is_over: bool,
}

impl<S, T> Streams<S, T> {
    /// Creates a state without streams, for at most `capacity` items of each, but at least one.
    pub fn new(capacity: usize) -> Self {
        let capacity = capacity.max(1);
        Self { streams: BTreeMap::new(), added: 0, capacity, awaited: None, last: 0 }
    }

    /// Returns the number of streams that were added.
    pub fn added(&self) -> u64 {
        self.added
    }

    /// Adds a stream and returns its number.
    pub fn add(&mut self, stream: S) -> u64 {
        let number = self.added;
        self.added += 1;
        let queue = StreamQueue { stream: Some(stream), items: VecDeque::new(), is_over: false };
        self.streams.insert(number, queue);
        number
    }

    /// Removes a stream, which is to be dropped after the lock is released.
    pub fn remove(&mut self, number: u64) -> Option<StreamQueue<S, T>> {
        self.streams.remove(&number)
    }

    /// Takes the next item of a stream; `None` if it is not read yet. A stream that was never added or is
    /// removed has no items.
    pub fn take(&mut self, number: u64) -> Option<Taken<T>> {
        let Some(queue) = self.streams.get_mut(&number) else { return Some(Taken::End) };
        if let Some(item) = queue.items.pop_front() {
            (self.awaited, self.last) = (None, number);
            return Some(Taken::Result(item));
        }
        if queue.is_over {
            return Some(Taken::End);
        }
        self.awaited = Some(number);
        None
    }

    /// Returns true if [`take`](Self::take) would return an item or the end of the stream.
    pub fn is_ready(&self, number: u64) -> bool {
        let queue = self.streams.get(&number);
        queue.is_none_or(|queue| queue.is_over || !queue.items.is_empty())
    }

    /// The number of the stream to read next; `None` if no stream has room.
    fn next(&self) -> Option<u64> {
        let has_room = |queue: &StreamQueue<S, T>| queue.has_room(self.capacity);
        // A blocked consumer may not have woken up yet to take an item that is ready.
        let awaited = self.awaited.filter(|number| {
            let queue = self.streams.get(number);
            queue.is_some_and(|queue| has_room(queue) && queue.items.is_empty())
        });
        // The emptiest queue; among equals, the next one in turn after `last`.
        let open = self.streams.iter().filter(|(_, queue)| has_room(queue));
        let emptiest =
            open.min_by_key(|(number, queue)| (queue.items.len(), **number <= self.last));
        awaited.or(emptiest.map(|(number, _)| *number))
    }
}

impl<S, T> StreamQueue<S, T> {
    fn has_room(&self, capacity: usize) -> bool {
        self.stream.is_some() && self.items.len() < capacity
    }
}

impl<S, T> WorkState for Streams<S, T> {
    type Task = NumberedStream<S>;
    type Product = StreamRead<S, T>;
    type Surplus = Vec<StreamQueue<S, T>>;

    fn claim(&mut self) -> Claim<Self::Task> {
        let next = self.next().and_then(|number| {
            let stream = self.streams.get_mut(&number)?.stream.take()?;
            Some(NumberedStream { number, stream })
        });
        next.map_or(Claim::Full, Claim::Task)
    }

    fn openings(&self) -> usize {
        self.streams.values().filter(|queue| queue.has_room(self.capacity)).count()
    }

    fn enter(&mut self, product: Self::Product) -> Self::Surplus {
        let StreamRead { from: NumberedStream { number, stream }, item, is_over } = product;
        let Some(queue) = self.streams.get_mut(&number) else {
            // It was removed while it was read.
            let items = item.into_iter().collect();
            return vec![StreamQueue { stream: Some(stream), items, is_over }];
        };
        queue.is_over = is_over;
        queue.items.extend(item);
        if is_over {
            return vec![StreamQueue { stream: Some(stream), items: VecDeque::new(), is_over }];
        }
        queue.stream = Some(stream);
        vec![]
    }

    fn clear(&mut self) -> Self::Surplus {
        std::mem::take(&mut self.streams).into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(state: &mut Streams<char, u32>) -> Option<NumberedStream<char>> {
        match state.claim() {
            Claim::Task(task) => Some(task),
            Claim::Full | Claim::Over => None,
        }
    }

    /// Reads one item of the stream that is next, and returns the stream.
    fn read(state: &mut Streams<char, u32>, item: u32) -> Option<char> {
        let from = claim(state)?;
        assert!(state.enter(StreamRead { from, item: Some(item), is_over: false }).is_empty());
        Some(from.stream)
    }

    fn state(capacity: usize) -> Streams<char, u32> {
        let mut state = Streams::new(capacity);
        assert_eq!(['a', 'b', 'c'].map(|stream| state.add(stream)), [0, 1, 2]);
        state
    }

    #[test]
    fn the_awaited_stream_goes_first_then_the_emptiest_then_the_next_in_turn() {
        let mut state = state(2);
        assert_eq!(state.take(2), None);
        assert_eq!([0; 4].map(|item| read(&mut state, item)), ['c', 'b', 'a', 'b'].map(Some));
        assert_eq!(state.take(2), Some(Taken::Result(0)));
        assert_eq!(state.openings(), 2);
        assert_eq!(
            [0; 4].map(|item| read(&mut state, item)),
            [Some('c'), Some('a'), Some('c'), None]
        );
        assert_eq!((state.openings(), state.claim()), (0, Claim::Full));
    }

    #[test]
    fn one_worker_at_a_time_reads_a_stream() {
        let mut state = Streams::new(2);
        state.add('a');
        let from = claim(&mut state).unwrap();
        assert_eq!((claim(&mut state), state.openings()), (None, 0));
        state.enter(StreamRead { from, item: Some(7), is_over: false });
        assert_eq!(state.openings(), 1);
        assert_eq!([state.take(0), state.take(0)], [Some(Taken::Result(7)), None]);
    }

    #[test]
    fn a_stream_that_ends_or_is_removed_is_returned_to_be_dropped() {
        let mut state = state(2);
        let from = claim(&mut state).unwrap();
        let surplus = state.enter(StreamRead { from, item: Some(1), is_over: true });
        assert_eq!(
            surplus.iter().map(|queue| queue.stream).collect::<Vec<_>>(),
            [Some(from.stream)]
        );
        let number = from.number;
        assert_eq!(
            [state.take(number), state.take(number)],
            [Some(Taken::Result(1)), Some(Taken::End)]
        );

        let from = claim(&mut state).unwrap();
        assert!(state.remove(from.number).is_some());
        let surplus = state.enter(StreamRead { from, item: Some(2), is_over: false });
        assert_eq!((surplus[0].stream, surplus[0].items.len()), (Some(from.stream), 1));
        assert_eq!(
            (state.take(from.number), state.is_ready(from.number)),
            (Some(Taken::End), true)
        );
        assert_eq!((state.clear().len(), state.openings()), (2, 0));
    }
}
