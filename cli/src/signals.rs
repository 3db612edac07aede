//! Signals that end the command: what is unfinished is deleted before they do.
//!
//! | signal                  | effect                                                                  |
//! |-------------------------|-------------------------------------------------------------------------|
//! | SIGINT, SIGTERM, SIGHUP | unfinished files are deleted, then the signal ends the process as usual |
//! | SIGXFSZ                 | ignored: a write beyond `ulimit -f` is an error with its path            |
//!
//! A handler wakes a thread of its own, which may call any function. A signal that was ignored when the command began,
//! as after `nohup`, stays ignored.
#![allow(unsafe_code, reason = "functions of C")]

use fuseloop::internals::source::delete_unfinished;
use fuseloop::internals::threads::builder;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use std::mem::MaybeUninit;
use std::ptr::null;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;

/// True once a signal was taken.
static IS_ENDING: AtomicBool = AtomicBool::new(false);

/// Turns a write beyond the largest file size into an error.
pub(super) fn ignore_file_size() {
    // SAFETY: no handler is installed.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Waits for the end of the process if a signal is about to end it: errors of files that are gone by then are not shown.
pub(super) fn wait_if_ending() {
    while IS_ENDING.load(Ordering::SeqCst) {
        thread::park();
    }
}

/// Deletes unfinished files when a signal ends the process. Without the memory for it, signals only end the process.
pub(super) fn delete_unfinished_at_end() {
    let Ok(thread) = builder("fuseloop-signals".to_owned()) else { return };
    let (ready, is_ready) = mpsc::channel();
    let wait = move || {
        // Only where there is a thread that waits: a signal with a handler no longer ends the process by itself.
        let ending = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|&signal| !is_ignored(signal));
        let mut signals = Signals::new(ending);
        drop(ready);
        for signal in signals.iter_mut().flat_map(Signals::forever) {
            IS_ENDING.store(true, Ordering::SeqCst);
            delete_unfinished();
            // It fails for signals without a default action only.
            let _ = emulate_default_handler(signal);
        }
    };
    if thread.stack_size(64 << 10).spawn(wait).is_ok() {
        // Ends when `ready` is dropped.
        let _: Result<(), _> = is_ready.recv();
    }
}

fn is_ignored(signal: libc::c_int) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: a null pointer changes nothing; the other is to a value that lives here.
    let found = unsafe { libc::sigaction(signal, null(), action.as_mut_ptr()) };
    // SAFETY: zeros are a valid value of this structure of numbers.
    found == 0 && unsafe { action.assume_init() }.sa_sigaction == libc::SIG_IGN
}
