//! Errors of a queue. Each names its queue.

use super::flow::Busy;
use crate::error::{BoxError, Error, ErrorKind, fail};
use std::fmt::Write as _;
use std::io;
use std::time::Duration;

/// The user's function returned an error for a ticket.
pub(super) fn failed(queue: &str, ticket: u64, error: BoxError) -> Error {
    let error = error.downcast::<Error>().map(|error| *error);
    let error = error.unwrap_or_else(|error| Error::boxed(error, ErrorKind::Custom));
    error.context(format_args!("queue {queue}: ticket {ticket}"))
}

/// The user's function panicked for a ticket.
pub(super) fn panicked(queue: &str, ticket: u64, message: &str) -> Error {
    fail!(Panic, "queue {queue}: ticket {ticket}: panic: {message}")
}

/// No item was ready in time; `ticket` is the one waited for, if any other would not have done. The queue can be asked
/// again.
pub(super) fn timed_out(
    queue: &str,
    ticket: Option<u64>,
    waited: Duration,
    (busy, producers): (&[Busy], usize),
) -> Error {
    let item = ticket.map_or_else(|| "an item".to_owned(), |ticket| format!("ticket {ticket}"));
    let inside = inside(busy, producers);
    fail!(Timeout, "queue {queue}: {item} is not ready after {waited:?}; {inside}")
}

/// There is no producer, or no capacity.
pub(super) fn no_room(queue: &str, producers: usize, capacity: usize) -> Error {
    fail!(
        Parameter,
        "queue {queue}: {producers} producers and room for {capacity} items: give 1 or more of both"
    )
}

/// The system could not start a thread.
pub(super) fn not_started(queue: &str, producer: usize, error: &io::Error) -> Error {
    fail!(Threads, "queue {queue}: can't start a thread for producer {producer}: {error}")
}

/// All producers have ended although the stream has not. This should never happen.
pub(super) fn stopped(queue: &str) -> Error {
    fail!(Threads, "queue {queue}: all producers have ended")
}

fn inside(busy: &[Busy], producers: usize) -> String {
    let mut text = format!("{} of {producers} producers are inside the function", busy.len());
    for (i, Busy { ticket, elapsed }) in busy.iter().enumerate() {
        let between = if i == 0 { ": " } else { ", " };
        let _ = write!(text, "{between}ticket {ticket} for {elapsed:.1?}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_the_queue_and_say_what_to_do() {
        let assert_text = |error: Error, kind, text: &str| {
            assert_eq!((error.kind(), &*error.to_string()), (kind, text));
        };
        let error = failed("train", 7, "no row".into());
        assert!(error.get_ref().is_some());
        assert_text(error, ErrorKind::Custom, "queue train: ticket 7: no row");
        let error = panicked("train", 7, "oh");
        assert_text(error, ErrorKind::Panic, "queue train: ticket 7: panic: oh");
        let busy = |ticket, ms| Busy { ticket, elapsed: Duration::from_millis(ms) };
        let waited = Duration::from_millis(1500);
        assert_text(
            timed_out("train", Some(7), waited, (&[busy(7, 1600), busy(9, 200)], 4)),
            ErrorKind::Timeout,
            "queue train: ticket 7 is not ready after 1.5s; 2 of 4 producers are inside the \
             function: ticket 7 for 1.6s, ticket 9 for 200.0ms",
        );
        assert_text(
            timed_out("train", None, waited, (&[], 1)),
            ErrorKind::Timeout,
            "queue train: an item is not ready after 1.5s; 0 of 1 producers are inside the \
             function",
        );
        assert_text(
            no_room("train", 0, 3),
            ErrorKind::Parameter,
            "queue train: 0 producers and room for 3 items: give 1 or more of both",
        );
        assert_text(
            not_started("train", 3, &io::Error::other("too many")),
            ErrorKind::Threads,
            "queue train: can't start a thread for producer 3: too many",
        );
        assert_text(stopped("train"), ErrorKind::Threads, "queue train: all producers have ended");
    }
}
