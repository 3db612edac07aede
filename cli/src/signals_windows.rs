//! Events of the console that end the command: what is unfinished is deleted before they do.
//!
//! | event                                           | effect                                                      |
//! |-------------------------------------------------|-------------------------------------------------------------|
//! | Ctrl-C, Ctrl-Break, a closed window, a shutdown | unfinished files are deleted, then the system ends the process |
//!
//! The system calls the handler on a thread of its own, which may call any function. A Ctrl-C that was ignored when the
//! command began stays ignored.
#![allow(unsafe_code, reason = "functions of Windows")]

use fuseloop::internals::source::delete_unfinished;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use windows_sys::Win32::System::Console::SetConsoleCtrlHandler;
use windows_sys::core::BOOL;

/// True once an event was taken.
static IS_ENDING: AtomicBool = AtomicBool::new(false);

/// Waits for the end of the process if an event is about to end it: errors of files that are gone by then are not shown.
pub(super) fn wait_if_ending() {
    while IS_ENDING.load(Ordering::SeqCst) {
        thread::park();
    }
}

/// Deletes unfinished files when an event ends the process. If the system refuses the handler, events only end the
/// process.
pub(super) fn delete_unfinished_at_end() {
    // SAFETY: the handler is a function of the program, which lives as long as the process, and does not unwind: it
    // stores a flag and deletes files.
    let _ = unsafe { SetConsoleCtrlHandler(Some(take), 1) };
}

/// Takes an event. The result 0 leaves the event to the handler before, and the last of these ends the process.
unsafe extern "system" fn take(_event: u32) -> BOOL {
    IS_ENDING.store(true, Ordering::SeqCst);
    delete_unfinished();
    0
}
