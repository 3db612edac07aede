//! Memory and copies.
//!
//! The addresses of a copy are checked during the call and again when the stream gets to the copy.

use super::stream::synchronize;
use crate::abi::{Handle, Host, Out, export};
use crate::driver::code::Code;
use crate::driver::world::{Allocation, Locked};
use crate::driver::{call, driver, linger, on_device};
use crate::memory::{Mapping, Span};
use std::sync::Arc;

export! { call => i32;
    fn cuMemAlloc_v2(address: Out<u64>, len: usize) {
        let mut world = driver().world();
        let device = world.here()?;
        if len == 0 {
            return Err(Code::INVALID_VALUE);
        }
        let used = world.devices[device].used.saturating_add(len as u64);
        if used > driver().settings.memory {
            return Err(Code::OUT_OF_MEMORY);
        }
        world.allocated += 1;
        let at_end = world.allocated % 2 == 1;
        let mapping = Mapping::new(len, at_end).ok_or(Code::OUT_OF_MEMORY)?;
        address.put(mapping.start())?;
        world.devices[device].used = used;
        world.allocations.insert(mapping.start(), Allocation { device, mapping });
        Ok(())
    }

    fn cuMemFree_v2(address: u64) {
        if address == 0 {
            return Ok(());
        }
        let mut world = driver().world();
        world.here()?;
        let freed = world.allocations.remove(&address).ok_or(Code::INVALID_VALUE)?;
        let len = freed.mapping.len() as u64;
        world.devices[freed.device].used -= len;
        world.freed.push((address, address + len));
        freed.mapping.whole().fill(0xDD);
        Ok(())
    }

    fn cuMemGetInfo_v2(free: Out<usize>, total: Out<usize>) {
        let world = driver().world();
        let device = world.here()?;
        let memory = driver().settings.memory;
        free.put((memory - world.devices[device].used) as usize)?;
        Ok(total.put(memory as usize)?)
    }

    fn cuMemHostRegister_v2(start: Host, len: usize, _flags: u32) {
        let mut world = driver().world();
        world.here()?;
        if start.address() == 0 || len == 0 {
            return Err(Code::INVALID_VALUE);
        }
        if world.is_locked(start.address(), len) != Ok(false) {
            return Err(Code::ALREADY_REGISTERED);
        }
        world.locked.insert(start.address(), Locked { len, own: None });
        Ok(())
    }

    fn cuMemHostUnregister(start: Host) {
        let mut world = driver().world();
        world.here()?;
        match world.locked.get(&start.address()) {
            Some(Locked { own: None, .. }) => world.locked.remove(&start.address()),
            _ => return Err(Code::NOT_REGISTERED),
        };
        Ok(())
    }

    fn cuMemHostAlloc(address: Out<u64>, len: usize, _flags: u32) {
        let mut world = driver().world();
        world.here()?;
        if len == 0 {
            return Err(Code::INVALID_VALUE);
        }
        let own = Mapping::new(len, false).ok_or(Code::OUT_OF_MEMORY)?;
        address.put(own.start())?;
        world.locked.insert(own.start(), Locked { len, own: Some(own) });
        Ok(())
    }

    fn cuMemFreeHost(start: Host) {
        let mut world = driver().world();
        world.here()?;
        match world.locked.get(&start.address()) {
            Some(Locked { own: Some(_), .. }) => world.locked.remove(&start.address()),
            _ => return Err(Code::INVALID_VALUE),
        };
        Ok(())
    }

    fn cuMemcpyHtoDAsync_v2(to: u64, from: Host, len: usize, stream: Handle) {
        to_device(to, from, len, stream)
    }

    fn cuMemcpyHtoD_v2(to: u64, from: Host, len: usize) {
        to_device(to, from, len, 0)?;
        wait(0)
    }

    fn cuMemcpyDtoHAsync_v2(to: Host, from: u64, len: usize, stream: Handle) {
        if to_host(to, from, len, stream)? { Ok(()) } else { wait(stream) }
    }

    fn cuMemcpyDtoH_v2(to: Host, from: u64, len: usize) {
        to_host(to, from, len, 0)?;
        wait(0)
    }

    fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, len: usize, stream: Handle) {
        device_span(from, len)?;
        let source = Device { address: from, len };
        later("copy", stream, Device { address: to, len }, move |device, to| {
            source.on(device).map(|from| from.copy_to(to))
        })
    }

    fn cuMemsetD8Async(to: u64, value: u8, len: usize, stream: Handle) {
        later("copy", stream, Device { address: to, len }, move |_, to| {
            to.fill(value);
            Ok(())
        })
    }

    fn cuMemsetD32Async(to: u64, value: u32, words: usize, stream: Handle) {
        let len = words.checked_mul(4).ok_or(Code::INVALID_VALUE)?;
        if !to.is_multiple_of(4) {
            return Err(Code::INVALID_VALUE);
        }
        later("copy", stream, Device { address: to, len }, move |_, to| {
            to.write(&value.to_le_bytes().repeat(words));
            Ok(())
        })
    }
}

/// Bytes on a device, not checked yet.
#[derive(Clone, Copy)]
struct Device {
    address: u64,
    len: usize,
}

type Outcome<T> = Result<T, (Code, String)>;

impl Device {
    /// Returns the bytes, if they belong to a live allocation.
    fn on(self, device: usize) -> Outcome<Span> {
        let Self { address, len } = self;
        let gone =
            || format!("a copy of {len} bytes at {address:#x}: no live memory of device {device}");
        driver().world().span(device, address, len).ok_or_else(|| (Code::ILLEGAL_ADDRESS, gone()))
    }
}

/// Returns the bytes, if they belong to a live allocation on the current device.
fn device_span(address: u64, len: usize) -> Result<Span, Code> {
    let world = driver().world();
    world.span(world.here()?, address, len).ok_or(Code::INVALID_VALUE)
}

/// Queues work of a kind on a stream, on bytes of the stream's device.
fn later(
    kind: &'static str,
    stream: Handle,
    bytes: Device,
    work: impl FnOnce(usize, &Span) -> Outcome<()> + Send + 'static,
) -> Result<(), Code> {
    if bytes.len == 0 {
        return Ok(());
    }
    device_span(bytes.address, bytes.len)?;
    let stream = driver().world().stream_here(stream)?;
    let device = stream.device;
    stream.push(move || {
        on_device(device, || {
            linger(kind);
            work(device, &bytes.on(device)?)
        });
    })
}

fn to_device(to: u64, from: Host, len: usize, stream: Handle) -> Result<(), Code> {
    let source = from.span(len)?;
    let to = Device { address: to, len };
    if driver().world().is_locked(from.address(), len)? {
        let address = from.address();
        return later("upload", stream, to, move |_, to| {
            let _own = still_locked(address, len)?;
            source.copy_to(to);
            Ok(())
        });
    }
    let bytes = source.to_vec();
    later("upload", stream, to, move |_, to| {
        to.write(&bytes);
        Ok(())
    })
}

/// Queues a copy to the host. Returns true if the copy runs asynchronously; otherwise the caller
/// must wait.
fn to_host(to: Host, from: u64, len: usize, stream: Handle) -> Result<bool, Code> {
    let (address, to) = (to.address(), to.span(len)?);
    let locked = driver().world().is_locked(address, len)?;
    let from = Device { address: from, len };
    later("download", stream, from, move |_, from| {
        let _own = if locked { still_locked(address, len)? } else { None };
        from.copy_to(&to);
        Ok(())
    })?;
    Ok(locked)
}

/// Checks that the page-locked memory of a copy is still page-locked when the copy is done.
fn still_locked(address: u64, len: usize) -> Outcome<Option<Arc<Mapping>>> {
    let world = driver().world();
    if world.is_locked(address, len) != Ok(true) {
        let text = format!("{len} bytes at {address:#x} were unlocked before their copy was done");
        return Err((Code::ILLEGAL_ADDRESS, text));
    }
    let found = world.locked.range(..=address).next_back();
    Ok(found.and_then(|(_, locked)| locked.own.clone()))
}

fn wait(stream: Handle) -> Result<(), Code> {
    let stream = driver().world().stream_here(stream)?;
    synchronize(&stream)
}
