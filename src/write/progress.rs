//! The progress of writing, for a caller that shows it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The progress of a write.
///
/// ```
/// use fuseloop::write::{ProgressFn, WriteOptions, WriteProgress};
///
/// let show = |progress: WriteProgress| println!("{} of {:?} samples", progress.done, progress.total);
/// let options = WriteOptions { progress: ProgressFn::new(show), ..WriteOptions::default() };
/// # let _ = options;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WriteProgress {
    /// The number of samples that are done, including `resumed`; for a folder that is copied, of files.
    pub done: u64,
    /// The number of samples that an interrupted run of the same conversion had done.
    pub resumed: u64,
    /// The number of all samples or files; `None` if an iterator does not tell.
    pub total: Option<u64>,
    /// The bytes written so far by a conversion; 0 for other writes.
    pub bytes: u64,
}

/// A function that receives the progress of a write, or none.
///
/// ```
/// use fuseloop::write::{ProgressFn, WriteOptions};
///
/// let progress = ProgressFn::new(|progress| eprintln!("{} done", progress.done));
/// let options = WriteOptions { progress, ..WriteOptions::default() };
/// ```
#[derive(Clone, Default)]
pub struct ProgressFn(Option<Arc<dyn Fn(WriteProgress) + Send + Sync>>);

impl ProgressFn {
    /// Calls `function` after each sample, from several threads, so it should return fast. Two calls may
    /// arrive in another order than their numbers.
    pub fn new(function: impl Fn(WriteProgress) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(function)))
    }
}

impl fmt::Debug for ProgressFn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "ProgressFn(set)" } else { "ProgressFn(none)" })
    }
}

impl PartialEq for ProgressFn {
    /// True for the same function, or two times none.
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(own), Some(other)) => Arc::ptr_eq(own, other),
            (own, other) => own.is_none() && other.is_none(),
        }
    }
}

/// Counts what is done and reports it.
pub(super) struct ProgressCounter<'a> {
    function: &'a ProgressFn,
    total: Option<u64>,
    resumed: u64,
    done: AtomicU64,
    bytes: AtomicU64,
}

impl<'a> ProgressCounter<'a> {
    pub(super) fn new(function: &'a ProgressFn, total: Option<u64>) -> Self {
        Self::resumed(function, total, 0, 0)
    }

    /// Continues a count: `done` samples were written in `bytes` bytes by an interrupted run.
    pub(super) fn resumed(
        function: &'a ProgressFn,
        total: Option<u64>,
        done: u64,
        bytes: u64,
    ) -> Self {
        let (resumed, done, bytes) = (done, AtomicU64::new(done), AtomicU64::new(bytes));
        Self { function, total, resumed, done, bytes }
    }

    /// Counts and reports one more sample, of `bytes` bytes.
    pub(super) fn add(&self, bytes: u64) {
        let Some(function) = &self.function.0 else { return };
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        let bytes = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        function(WriteProgress { done, resumed: self.resumed, total: self.total, bytes });
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test ends where it fails")]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn each_sample_is_reported_and_a_resumed_count_continues() {
        let seen = Arc::new(Mutex::new(vec![]));
        let list = Arc::clone(&seen);
        let function = ProgressFn::new(move |progress| list.lock().unwrap().push(progress));
        let counter = ProgressCounter::resumed(&function, Some(10), 7, 700);
        counter.add(50);
        counter.add(0);
        let report = |done, bytes| WriteProgress { done, resumed: 7, total: Some(10), bytes };
        assert_eq!(*seen.lock().unwrap(), [report(8, 750), report(9, 750)]);
        ProgressCounter::new(&ProgressFn::default(), None).add(1); // nothing is called
    }

    #[test]
    fn functions_are_equal_only_to_themselves() {
        let (one, none) = (ProgressFn::new(|_| ()), ProgressFn::default());
        assert!(one == one.clone() && none == ProgressFn::default());
        assert!(one != none && one != ProgressFn::new(|_| ()));
        assert_eq!(format!("{one:?} {none:?}"), "ProgressFn(set) ProgressFn(none)");
    }
}
