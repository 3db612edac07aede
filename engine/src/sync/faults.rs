//! Bugs planted into the synchronization primitives, to check that the tests find such bugs.

use std::cell::Cell;

/// The bug in the primitives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Every fourth notification wakes no thread.
    LostWakeUp,
    /// Adding to an atomic reads and writes it in two steps.
    TornAdd,
}

thread_local! {
    static FAULT: Cell<Option<Fault>> = const { Cell::new(None) };
    static WAKE_UPS: Cell<u32> = const { Cell::new(0) };
}

/// Plants `fault`, or none, for the schedules that this thread runs from now on. After each call,
/// the same orders see the same faults.
pub fn plant(fault: Option<Fault>) {
    FAULT.set(fault);
    WAKE_UPS.set(0);
}

pub(crate) fn is_planted(fault: Fault) -> bool {
    FAULT.get() == Some(fault)
}

/// Returns true if this wake-up is to be lost.
pub(crate) fn loses_wake_up() -> bool {
    WAKE_UPS.set(WAKE_UPS.get().wrapping_add(1));
    is_planted(Fault::LostWakeUp) && WAKE_UPS.get().is_multiple_of(4)
}
