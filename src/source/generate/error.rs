//! Errors of a queue.

use super::flow::Busy;
use crate::error::{BoxError, Cause, Details, ErrorKind};
use crate::source::Escaped;
use crate::threads::ThreadsError;
use std::fmt::Write as _;
use std::io;
use std::time::Duration;

/// The reason why a generator could not be started, or has no item. Each error names its queue.
#[derive(Debug, thiserror::Error)]
pub enum GenerateCause {
    /// The user's function returned an error.
    #[error("queue {}: ticket {ticket}: {source}", Escaped(queue))]
    Failed {
        /// The queue.
        queue: String,
        /// The argument of the function.
        ticket: u64,
        /// The function's error.
        source: BoxError,
    },
    /// The user's function panicked.
    #[error("queue {}: ticket {ticket}: panic: {message}", Escaped(queue))]
    Panicked {
        /// The queue.
        queue: String,
        /// The argument of the function.
        ticket: u64,
        /// The panic's message.
        message: String,
    },
    /// No item was ready in time. The queue can be asked again.
    #[error(
        "queue {}: {} is not ready after {waited:?}; {}",
        Escaped(queue), awaited(*ticket), inside(busy, *producers)
    )]
    TimedOut {
        /// The queue.
        queue: String,
        /// The ticket waited for; `None` if any item would have done.
        ticket: Option<u64>,
        /// How long the call waited.
        waited: Duration,
        /// The number of producers.
        producers: usize,
        /// The producers inside the user's function.
        busy: Vec<Busy>,
    },
    /// There is no producer, or no capacity.
    #[error(
        "queue {}: {producers} producers and room for {capacity} items: give 1 or more of both",
        Escaped(queue)
    )]
    Settings {
        /// The queue.
        queue: String,
        /// The number of producers asked for.
        producers: usize,
        /// The capacity asked for, in items.
        capacity: usize,
    },
    /// Too many producers were asked for, or the producers run in the process that this one was forked
    /// from.
    #[error("queue {}: {error}", Escaped(queue))]
    Threads {
        /// The queue.
        queue: String,
        /// The cause: one of the two.
        error: ThreadsError,
    },
    /// The system could not start a thread.
    #[error("queue {}: can't start a thread for producer {producer}: {source}", Escaped(queue))]
    Spawn {
        /// The queue.
        queue: String,
        /// The index of the producer, from 0.
        producer: usize,
        /// The system's error.
        source: io::Error,
    },
    /// All producers have ended although the stream has not. This should never happen.
    #[error("queue {}: all producers have ended", Escaped(queue))]
    Stopped {
        /// The queue.
        queue: String,
    },
}

impl Cause for GenerateCause {
    fn details(&self) -> Details<'_> {
        match self {
            Self::Failed { source, .. } => Details::of_custom(source),
            Self::Panicked { .. } => Details::of(ErrorKind::Panic),
            Self::TimedOut { .. } => Details::of(ErrorKind::Timeout),
            Self::Settings { .. } => Details::of(ErrorKind::Parameter),
            Self::Threads { error, .. } => error.details(),
            Self::Spawn { .. } | Self::Stopped { .. } => Details::of(ErrorKind::Threads),
        }
    }
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
        let assert_text = |error: GenerateCause, text: &str| assert_eq!(error.to_string(), text);
        let queue = || "train".to_owned();
        assert_text(
            GenerateCause::Failed { queue: queue(), ticket: 7, source: "no row".into() },
            "queue train: ticket 7: no row",
        );
        assert_text(
            GenerateCause::Panicked { queue: queue(), ticket: 7, message: "oh".into() },
            "queue train: ticket 7: panic: oh",
        );
        let busy = |ticket, ms| Busy { ticket, elapsed: Duration::from_millis(ms) };
        let waited = Duration::from_millis(1500);
        assert_text(
            GenerateCause::TimedOut {
                queue: queue(),
                ticket: Some(7),
                waited,
                producers: 4,
                busy: vec![busy(7, 1600), busy(9, 200)],
            },
            "queue train: ticket 7 is not ready after 1.5s; 2 of 4 producers are inside the \
             function: ticket 7 for 1.6s, ticket 9 for 200.0ms",
        );
        let (ticket, busy) = (None, vec![]);
        assert_text(
            GenerateCause::TimedOut { queue: queue(), ticket, waited, producers: 1, busy },
            "queue train: an item is not ready after 1.5s; 0 of 1 producers are inside the \
             function",
        );
        assert_text(
            GenerateCause::Settings { queue: queue(), producers: 0, capacity: 3 },
            "queue train: 0 producers and room for 3 items: give 1 or more of both",
        );
        let source = io::Error::other("too many");
        assert_text(
            GenerateCause::Spawn { queue: queue(), producer: 3, source },
            "queue train: can't start a thread for producer 3: too many",
        );
        assert_text(
            GenerateCause::Stopped { queue: queue() },
            "queue train: all producers have ended",
        );
    }
}
