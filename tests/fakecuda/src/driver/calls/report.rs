//! Functions for tests: live objects, errors, and the log of calls.
//!
//! `fake_cuda_report` writes lines of a name and a number, then a line `fault ..` for each error on
//! a device. Both functions write as much as fits, and a NUL, and return the length of the whole
//! text in bytes.

use crate::abi::Host;
use crate::driver::driver;
use crate::driver::world::World;
use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};

crate::abi::export! { answer => i32;
    fn fake_cuda_report(to: Host, room: usize) {
        give(to, room, &report(&driver().world()))
    }

    fn fake_cuda_log(to: Host, room: usize) {
        give(to, room, &driver().world().log.join("\n"))
    }
}

/// Catches panics like [`call`](crate::driver::call), for functions that the real driver does not
/// have.
fn answer(_: &'static str, _: &[&dyn Debug], body: impl FnOnce() -> i32) -> i32 {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(-1)
}

fn give(to: Host, room: usize, text: &str) -> i32 {
    if let (Some(kept), Ok(span)) = (room.checked_sub(1), to.span(room)) {
        let kept = text.len().min(kept);
        span.write(&[&text.as_bytes()[..kept], &[0]].concat());
    }
    i32::try_from(text.len()).unwrap_or(i32::MAX)
}

fn report(world: &World) -> String {
    let own = world.locked.values().filter(|locked| locked.own.is_some()).count();
    let bytes: u64 = world.devices.iter().map(|device| device.used).sum();
    let contexts: usize = world.devices.iter().map(|device| device.retained).sum();
    let numbers = [
        ("allocations", world.allocations.len() as u64),
        ("bytes", bytes),
        ("streams", world.streams.len() as u64),
        ("events", world.events.len() as u64),
        ("modules", world.modules.len() as u64),
        ("registered", (world.locked.len() - own) as u64),
        ("pinned", own as u64),
        ("contexts", contexts as u64),
    ];
    let numbers = numbers.iter().map(|(name, number)| format!("{name} {number}"));
    let faults = world.faults.iter().map(|fault| format!("fault {fault}"));
    numbers.chain(faults).collect::<Vec<_>>().join("\n")
}
