//! Warnings: the one channel by which the library reports what is probably wrong and not an error.
//!
//! Rust prints them to stderr unless [`set_warning_handler`] says otherwise; Python raises them as
//! `fuseloop.FuseloopWarning`, and the command prints them as `warning: ...`. Whoever warns does so once: for each
//! dataset that is opened, for each loader that is built.

use std::fmt::Display;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

type Handler = Arc<dyn Fn(&str) + Send + Sync>;

static HANDLER: RwLock<Option<Handler>> = RwLock::new(None);

/// The warnings that [`recorded`] collects; `None` while nothing is recorded.
static RECORD: Mutex<Option<Vec<String>>> = Mutex::new(None);

/// Sets the function that receives the library's warnings, each a sentence without a line break. Without one, they
/// are printed to stderr. The function is called on the thread that warns, which may be a worker.
///
/// ```
/// fuseloop::set_warning_handler(|warning| println!("be careful: {warning}"));
/// ```
pub fn set_warning_handler(handler: impl Fn(&str) + Send + Sync + 'static) {
    *HANDLER.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(handler));
}

/// Warns of something that is probably wrong: what was found, where, and what to do about it.
pub(crate) fn warn(message: impl Display) {
    let message = message.to_string();
    if let Some(record) = lock(&RECORD).as_mut() {
        record.push(message);
        return;
    }
    let handler = HANDLER.read().unwrap_or_else(PoisonError::into_inner).clone();
    match handler {
        Some(handler) => handler(&message),
        // Not `eprintln!`, which panics where stderr is closed.
        None => {
            use std::io::Write as _;
            let _ = writeln!(std::io::stderr(), "fuseloop: warning: {message}");
        }
    }
}

/// Returns what `work` returns, and the warnings of all threads meanwhile: for tests, of which one records at a time.
pub fn recorded<T>(work: impl FnOnce() -> T) -> (T, Vec<String>) {
    /// Ends the recording, also where `work` panics.
    struct Recording(#[expect(dead_code, reason = "held")] MutexGuard<'static, ()>);

    impl Drop for Recording {
        fn drop(&mut self) {
            *lock(&RECORD) = None;
        }
    }

    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let recording = Recording(lock(&ONE_AT_A_TIME));
    *lock(&RECORD) = Some(vec![]);
    let value = work();
    let warnings = lock(&RECORD).take().unwrap_or_default();
    drop(recording);
    (value, warnings)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_recorded_while_work_runs() {
        let (value, warnings) = recorded(|| {
            warn("labels.csv: the column `id` is not read");
            7
        });
        assert_eq!(value, 7);
        assert!(warnings.iter().any(|warning| warning.starts_with("labels.csv: ")), "{warnings:?}");
    }
}
