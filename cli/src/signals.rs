//! Signals that end the command: what is unfinished is deleted before they do.
//!
//! | signal                  | effect                                                                  |
//! |-------------------------|-------------------------------------------------------------------------|
//! | SIGINT, SIGTERM, SIGHUP | unfinished files are deleted, then the signal ends the process as usual |
//! | SIGXFSZ                 | ignored: a write beyond `ulimit -f` is an error with its path            |
//!
//! The signals are blocked in all threads and taken by a thread of their own, which may call any function. A signal that
//! was ignored when the command began, as after `nohup`, stays ignored.
#![allow(unsafe_code, reason = "functions of C")]

use fuseloop::internals::source::delete_unfinished;
use fuseloop::internals::threads::builder;
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// True once a signal was taken.
static IS_ENDING: AtomicBool = AtomicBool::new(false);

const ENDING: [libc::c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// Turns a write beyond the largest file size into an error. To be called before there are threads.
pub(super) fn ignore_file_size() {
    // SAFETY: no handler is installed, and no other thread runs yet.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Waits for the end of the process if a signal is about to end it: errors of files that are gone by then are not shown.
pub(super) fn wait_if_ending() {
    while IS_ENDING.load(Ordering::SeqCst) {
        thread::park();
    }
}

/// Deletes unfinished files when a signal ends the process. To be called before there are threads: they inherit which
/// signals are blocked.
pub(super) fn delete_unfinished_at_end() {
    let signals = set(ENDING.into_iter().filter(|&signal| !is_ignored(signal)));
    mask(libc::SIG_BLOCK, &signals);
    let wait = move || {
        let mut signal = 0;
        // SAFETY: both pointers are to values that live here.
        if unsafe { libc::sigwait(&raw const signals, &raw mut signal) } == 0 {
            IS_ENDING.store(true, Ordering::SeqCst);
            delete_unfinished();
        }
        mask(libc::SIG_UNBLOCK, &signals);
        // SAFETY: the function takes a number. The signal has its default action, which ends the process.
        unsafe { libc::raise(signal) };
    };
    let thread = builder("fuseloop-signals".to_owned());
    if thread.and_then(|thread| thread.stack_size(64 << 10).spawn(wait)).is_err() {
        mask(libc::SIG_UNBLOCK, &signals);
    }
}

fn is_ignored(signal: libc::c_int) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: a null pointer changes nothing; the other is to a value that lives here.
    let found = unsafe { libc::sigaction(signal, null(), action.as_mut_ptr()) };
    // SAFETY: zeros are a valid value of this structure of numbers.
    found == 0 && unsafe { action.assume_init() }.sa_sigaction == libc::SIG_IGN
}

fn set(signals: impl Iterator<Item = libc::c_int>) -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: the function makes an empty set of the value that lives here.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    // SAFETY: the function before has made the whole value.
    let mut set = unsafe { set.assume_init() };
    for signal in signals {
        // SAFETY: the pointer is to a value that lives here.
        unsafe { libc::sigaddset(&raw mut set, signal) };
    }
    set
}

fn mask(how: libc::c_int, signals: &libc::sigset_t) {
    // SAFETY: the set lives as long as the call; a null pointer asks for no earlier mask.
    unsafe { libc::pthread_sigmask(how, signals, null_mut()) };
}
