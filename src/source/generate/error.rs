//! Why a queue gave no item.

use super::flow::Busy;
use crate::source::{BoxError, Escaped};
use crate::threads::ThreadsError;
use std::fmt::Write as _;
use std::io;
use std::time::Duration;

/// Why a generator could not be started, or gave no item. Each names its queue.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GenerateError {
    /// The user's function refused a ticket.
    #[error("queue {}: ticket {ticket}: {source}", Escaped(queue))]
    Failed {
        /// The queue.
        queue: String,
        /// What the function was called with.
        ticket: u64,
        /// What it said.
        source: BoxError,
    },
    /// The user's function panicked.
    #[error("queue {}: ticket {ticket}: panic: {message}", Escaped(queue))]
    Panicked {
        /// The queue.
        queue: String,
        /// What the function was called with.
        ticket: u64,
        /// The panic's message.
        message: String,
    },
    /// Nothing came in time. The queue can be asked again.
    #[error(
        "queue {}: {} is not there after {waited:?}; {}",
        Escaped(queue), awaited(*ticket), inside(busy, *producers)
    )]
    TimedOut {
        /// The queue.
        queue: String,
        /// What it waited for; `None` where any item would have done.
        ticket: Option<u64>,
        /// How long the call waited.
        waited: Duration,
        /// Producers there are.
        producers: usize,
        /// Those inside the user's function.
        busy: Vec<Busy>,
    },
    /// A producer or room for an item is missing.
    #[error(
        "queue {}: {producers} producers and room for {capacity} items: give 1 or more of both",
        Escaped(queue)
    )]
    Settings {
        /// The queue.
        queue: String,
        /// Producers asked for.
        producers: usize,
        /// Items there should be room for.
        capacity: usize,
    },
    /// More producers than may be asked for, or those of a process that this one was forked from.
    #[error("queue {}: {error}", Escaped(queue))]
    Threads {
        /// The queue.
        queue: String,
        /// Which of both.
        error: ThreadsError,
    },
    /// The system gave no thread.
    #[error("queue {}: no thread for producer {producer}: {source}", Escaped(queue))]
    Spawn {
        /// The queue.
        queue: String,
        /// Which, from 0.
        producer: usize,
        /// What the system said.
        source: io::Error,
    },
    /// No producer is left though the stream has not ended: never to be seen.
    #[error("queue {}: all its producers are gone", Escaped(queue))]
    Stopped {
        /// The queue.
        queue: String,
    },
}

fn awaited(ticket: Option<u64>) -> String {
    ticket.map_or_else(|| "an item".to_owned(), |ticket| format!("ticket {ticket}"))
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
        let told = |error: GenerateError, text: &str| assert_eq!(error.to_string(), text);
        let queue = || "train".to_owned();
        told(
            GenerateError::Failed { queue: queue(), ticket: 7, source: "no row".into() },
            "queue train: ticket 7: no row",
        );
        told(
            GenerateError::Panicked { queue: queue(), ticket: 7, message: "oh".into() },
            "queue train: ticket 7: panic: oh",
        );
        let busy = |ticket, ms| Busy { ticket, elapsed: Duration::from_millis(ms) };
        let waited = Duration::from_millis(1500);
        told(
            GenerateError::TimedOut {
                queue: queue(),
                ticket: Some(7),
                waited,
                producers: 4,
                busy: vec![busy(7, 1600), busy(9, 200)],
            },
            "queue train: ticket 7 is not there after 1.5s; 2 of 4 producers are inside the \
             function: ticket 7 for 1.6s, ticket 9 for 200.0ms",
        );
        let (ticket, busy) = (None, vec![]);
        told(
            GenerateError::TimedOut { queue: queue(), ticket, waited, producers: 1, busy },
            "queue train: an item is not there after 1.5s; 0 of 1 producers are inside the \
             function",
        );
        told(
            GenerateError::Settings { queue: queue(), producers: 0, capacity: 3 },
            "queue train: 0 producers and room for 3 items: give 1 or more of both",
        );
        let source = io::Error::other("too many");
        told(
            GenerateError::Spawn { queue: queue(), producer: 3, source },
            "queue train: no thread for producer 3: too many",
        );
        told(GenerateError::Stopped { queue: queue() }, "queue train: all its producers are gone");
    }
}
