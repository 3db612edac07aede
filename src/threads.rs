//! What may be asked of a process's threads: how many of them, and in which process.
//!
//! | | |
//! |---|---|
//! | how many | at most `MOST` for one purpose of one object: far more than help, and far fewer than a system refuses. A process that starts tens of thousands does not get an error but dies: each thread takes four mappings of the 65,530 that Linux allows, and one that gets no stack for its signal handler ends the process |
//! | where | `fork` copies an object with threads into the child, and its locks as they were, but none of its threads. Whatever waits for such a thread waits for ever, so each object keeps the `Process` that it was made in and asks it before it takes a lock |

use std::io;

/// The most threads that one object starts for one purpose.
pub(crate) const MOST: usize = 1024;

/// Why threads can't do what is asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ThreadsError {
    /// More threads than one object may start.
    #[error(
        "{found} {what}: at most {MOST} can be asked for, and more than one a core rarely help"
    )]
    TooMany {
        /// What they are called where they are asked for.
        what: &'static str,
        /// How many were asked for.
        found: usize,
    },
    /// The system starts none.
    #[error(
        "cannot start {wanted} threads ({source}): allow more processes (`ulimit -u`) or more memory (`ulimit -v`)"
    )]
    Refused {
        /// How many were to be started.
        wanted: usize,
        /// The system's answer.
        source: io::Error,
    },
    /// The threads belong to the process that this one was forked from.
    #[error(
        "this process was forked from process {parent}, which has the threads that this waits for: open the dataset after the fork, or start workers by spawn"
    )]
    Forked {
        /// The process that has the threads.
        parent: u32,
    },
}

/// Refuses more than [`MOST`] threads.
pub(crate) fn check(what: &'static str, found: usize) -> Result<(), ThreadsError> {
    if found > MOST { Err(ThreadsError::TooMany { what, found }) } else { Ok(()) }
}

/// The process that an object with threads was made in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process(u32);

impl Process {
    /// This process.
    pub(crate) fn current() -> Self {
        Self(std::process::id())
    }

    /// Whether this is another process: a child forked since, which has none of the threads.
    pub(crate) fn is_forked(self) -> bool {
        self != Self::current()
    }

    /// Refuses a child forked since.
    pub(crate) fn check(self) -> Result<(), ThreadsError> {
        if self.is_forked() { Err(ThreadsError::Forked { parent: self.0 }) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_say_what_to_do() {
        assert!(check("workers", MOST).is_ok());
        let text = check("workers", usize::MAX).unwrap_err().to_string();
        assert_eq!(
            text,
            "18446744073709551615 workers: at most 1024 can be asked for, and more than one a core \
             rarely help"
        );
        let source = io::Error::from(io::ErrorKind::WouldBlock);
        let text = ThreadsError::Refused { wanted: 2, source }.to_string();
        assert!(text.starts_with("cannot start 2 threads ("), "{text}");
        assert!(!Process::current().is_forked());
        let parent = Process(0);
        let text = parent.check().unwrap_err().to_string();
        assert!(text.starts_with("this process was forked from process 0, which"), "{text}");
    }
}
