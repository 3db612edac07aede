//! The state of a queue: the tickets begun, the items generated and not delivered, and where the stream
//! ends.
//!
//! An item's *position* is its ticket or, in an unordered queue, the number of items generated before
//! it. Items are delivered by position in both cases.
//!
//! | stream ends with       | in order                        | unordered                          |
//! |------------------------|---------------------------------|------------------------------------|
//! | `None` at ticket t     | after the item of ticket t - 1  | after every item that was begun    |
//! | an error at ticket t   | after the item of ticket t - 1  | when no ticket below t is in progress and all generated items are delivered |
//! | several of them        | the one with the lowest ticket  | the error with the lowest ticket   |

use super::producers::{ProducerTask, Product, QueueState, TakeOutcome};
use crate::error::Error;
use fuseloop_engine::work_queue::Claim;
use std::collections::BTreeMap;
use std::mem;

/// See the top of the file.
pub(super) struct OrderedQueue<T> {
    in_order: bool,
    /// The largest number of tickets begun and not delivered.
    bound: usize,
    /// The tickets `0..begun` are begun.
    begun: u64,
    /// No ticket from this one on is begun.
    limit: u64,
    /// The tickets in progress, at most one per producer.
    making: Vec<u64>,
    /// The items ready, by position.
    ready: BTreeMap<u64, T>,
    /// The number of items generated: the next position in an unordered queue.
    generated: u64,
    /// The positions `0..delivered` are delivered to the consumer.
    delivered: u64,
    /// The lowest ticket that returned `None`.
    ended: Option<u64>,
    /// The lowest ticket that returned an error, with the error.
    failed: Option<(u64, Error)>,
}

impl<T> OrderedQueue<T> {
    pub(super) fn new(in_order: bool, bound: usize) -> Self {
        Self {
            in_order,
            bound,
            begun: 0,
            limit: u64::MAX,
            making: vec![],
            ready: BTreeMap::new(),
            generated: 0,
            delivered: 0,
            ended: None,
            failed: None,
        }
    }

    /// Returns the next item, or the end of the stream.
    pub(super) fn take(&mut self) -> TakeOutcome<Product<T>> {
        if let Some(item) = self.ready.remove(&self.delivered) {
            self.delivered += 1;
            return TakeOutcome::Item(Ok(Some(item)));
        }
        if let Some((_, error)) = self.failed.take_if(|(ticket, _)| match self.in_order {
            true => *ticket == self.delivered,
            false => !self.making.iter().any(|making| making < ticket),
        }) {
            return TakeOutcome::None(Err(error));
        }
        let is_over = self.ended.is_some_and(|ticket| match self.in_order {
            true => ticket == self.delivered,
            false => self.making.is_empty(),
        });
        if is_over { TakeOutcome::None(Ok(None)) } else { TakeOutcome::Wait }
    }

    /// The ticket that the consumer waits for; `None` if any item would do.
    pub(super) fn awaited(&self) -> Option<u64> {
        self.in_order.then_some(self.delivered)
    }

    fn held(&self) -> usize {
        self.making.len() + self.ready.len()
    }

    /// Begins no ticket from `ticket` on. In order, the items of later tickets are no longer needed and
    /// are returned.
    fn stop_at(&mut self, ticket: u64) -> Vec<Product<T>> {
        self.limit = self.limit.min(ticket);
        if !self.in_order {
            return vec![];
        }
        self.ready.split_off(&ticket).into_values().map(|item| Ok(Some(item))).collect()
    }
}

impl<T: Send + 'static> QueueState for OrderedQueue<T> {
    type Item = T;

    fn claim(&mut self) -> Claim<ProducerTask> {
        if self.begun >= self.limit {
            return Claim::Over;
        }
        if self.held() >= self.bound {
            return Claim::Full;
        }
        let ticket = self.begun;
        self.begun += 1;
        self.making.push(ticket);
        Claim::Task(ProducerTask { position: ticket, ticket })
    }

    fn openings(&self) -> usize {
        if self.begun >= self.limit { usize::MAX } else { self.bound.saturating_sub(self.held()) }
    }

    fn enter(&mut self, job: ProducerTask, product: Product<T>) -> Vec<Product<T>> {
        let ticket = job.ticket;
        self.making.retain(|&making| making != ticket);
        match product {
            Ok(Some(item)) if self.in_order && ticket > self.limit => vec![Ok(Some(item))],
            Ok(Some(item)) => {
                let position = if self.in_order { ticket } else { self.generated };
                self.generated += 1;
                self.ready.insert(position, item);
                vec![]
            }
            Ok(None) => {
                self.ended = Some(self.ended.map_or(ticket, |ended| ended.min(ticket)));
                self.stop_at(ticket)
            }
            Err(error) => {
                let mut surplus = self.stop_at(ticket);
                let error = (ticket, error);
                let later = match &self.failed {
                    Some((first, _)) if *first < ticket => Some(error),
                    _ => self.failed.replace(error),
                };
                surplus.extend(later.map(|(_, error)| Err(error)));
                surplus
            }
        }
    }

    fn depth(&self) -> usize {
        self.ready.len()
    }

    fn clear(&mut self) -> Vec<Product<T>> {
        let items = mem::take(&mut self.ready).into_values().map(|item| Ok(Some(item)));
        items.chain(self.failed.take().map(|(_, error)| Err(error))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::error;
    use super::*;

    fn job(ticket: u64) -> ProducerTask {
        ProducerTask { position: ticket, ticket }
    }

    fn line(in_order: bool, begun: u64) -> OrderedQueue<u64> {
        let mut line = OrderedQueue::new(in_order, 8);
        (0..begun).for_each(|ticket| assert_eq!(line.claim(), Claim::Task(job(ticket))));
        line
    }

    fn error(ticket: u64) -> Product<u64> {
        Err(error::failed("q", ticket, "bad".into()))
    }

    /// The next item or end, in words.
    fn taken(line: &mut OrderedQueue<u64>) -> Vec<String> {
        let mut outcomes = vec![];
        loop {
            outcomes.push(match line.take() {
                TakeOutcome::Item(Ok(Some(item))) => {
                    outcomes.push(item.to_string());
                    continue;
                }
                TakeOutcome::None(Ok(None)) => "end".to_owned(),
                TakeOutcome::None(Err(error)) | TakeOutcome::Item(Err(error)) => error.to_string(),
                TakeOutcome::Wait | TakeOutcome::Item(Ok(None)) => "wait".to_owned(),
                TakeOutcome::None(Ok(Some(_))) => "an item as the end".to_owned(),
            });
            return outcomes;
        }
    }

    #[test]
    fn no_more_are_begun_than_the_bound() {
        let mut line = line(true, 8);
        assert_eq!(line.claim(), Claim::Full);
        line.enter(job(0), Ok(Some(0)));
        assert_eq!((line.claim(), line.openings()), (Claim::Full, 0));
        assert_eq!(taken(&mut line), ["0", "wait"]);
        assert_eq!(line.openings(), 1);
        assert_eq!(line.claim(), Claim::Task(job(8)));
    }

    #[test]
    fn items_come_by_ticket_or_as_made() {
        for (in_order, wanted) in
            [(true, ["0", "1", "2", "wait"]), (false, ["2", "0", "1", "wait"])]
        {
            let mut line = line(in_order, 4);
            for ticket in [2, 0, 1] {
                assert!(line.enter(job(ticket), Ok(Some(ticket))).is_empty());
            }
            assert_eq!(taken(&mut line), wanted);
        }
    }

    #[test]
    fn in_order_the_lowest_ticket_that_gave_none_or_an_error_ends_it() {
        let mut ends = line(true, 6);
        ends.enter(job(5), error(5));
        ends.enter(job(3), Ok(Some(3)));
        assert_eq!(ends.enter(job(2), Ok(None)).len(), 1, "3 is of no use");
        assert_eq!(ends.claim(), Claim::Over);
        assert_eq!(ends.enter(job(4), Ok(Some(4))).len(), 1, "nor is 4");
        ends.enter(job(1), Ok(Some(1)));
        assert_eq!(taken(&mut ends), ["wait"]);
        ends.enter(job(0), Ok(Some(0)));
        assert_eq!(taken(&mut ends), ["0", "1", "end"]);

        let mut fails = line(true, 4);
        fails.enter(job(3), error(3));
        assert_eq!(fails.enter(job(1), error(1)).len(), 1);
        assert_eq!(fails.enter(job(2), error(2)).len(), 1);
        assert_eq!(taken(&mut fails), ["wait"]);
        fails.enter(job(0), Ok(Some(0)));
        assert_eq!(taken(&mut fails), ["0", "queue q: ticket 1: bad"]);
    }

    #[test]
    fn unordered_all_that_was_made_comes_before_the_end() {
        let mut ends = line(false, 3);
        ends.enter(job(0), Ok(None));
        assert_eq!(ends.claim(), Claim::Over);
        ends.enter(job(2), Ok(Some(2)));
        assert_eq!(taken(&mut ends), ["2", "wait"], "ticket 1 is in work");
        ends.enter(job(1), Ok(Some(1)));
        assert_eq!(taken(&mut ends), ["1", "end"]);

        let mut fails = line(false, 3);
        fails.enter(job(1), error(1));
        assert_eq!(taken(&mut fails), ["wait"], "ticket 0 is in work");
        fails.enter(job(0), Ok(Some(0)));
        assert_eq!(taken(&mut fails), ["0", "queue q: ticket 1: bad"]);
    }
}
