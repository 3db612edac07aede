//! The state of the driver: contexts, allocations, streams, events, modules, and errors.

use super::code::Code;
use super::module::{Function, Module};
use super::stream::{Event, Stream};
use super::{driver, on_device};
use crate::abi::Handle;
use crate::memory::{Mapping, Span};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

thread_local! {
    /// The stack of this thread's contexts, by device; the last is current. `None` is a null
    /// context.
    static CONTEXTS: RefCell<Vec<Option<usize>>> = const { RefCell::new(vec![]) };
}

/// The handle of a context is this number plus the device's.
const CONTEXT: Handle = 0xC0_0000;

#[derive(Debug, Default)]
pub(crate) struct Device {
    /// The number of times that its context was retained and not released.
    pub(crate) retained: usize,
    pub(crate) flags: u32,
    /// Bytes of its memory in use.
    pub(crate) used: u64,
    /// The error that the device returns for every call, once it is broken.
    broken: Option<Code>,
    /// The default stream, and the per-thread default stream.
    defaults: [Option<Arc<Stream>>; 2],
}

/// Memory of a device.
#[derive(Debug)]
pub(crate) struct Allocation {
    pub(crate) device: usize,
    pub(crate) mapping: Arc<Mapping>,
}

/// Page-locked memory of the host.
#[derive(Debug)]
pub(crate) struct Locked {
    pub(crate) len: usize,
    /// The memory, if the driver allocated it.
    pub(crate) own: Option<Arc<Mapping>>,
}

#[derive(Debug, Default)]
pub(crate) struct World {
    pub(crate) initialised: bool,
    pub(crate) devices: Vec<Device>,
    pub(crate) allocations: BTreeMap<u64, Allocation>,
    /// The ranges of freed memory, which must not be touched again.
    pub(crate) freed: Vec<(u64, u64)>,
    pub(crate) locked: BTreeMap<u64, Locked>,
    pub(crate) streams: HashMap<Handle, Arc<Stream>>,
    pub(crate) events: HashMap<Handle, Arc<Event>>,
    pub(crate) modules: HashMap<Handle, Arc<Module>>,
    pub(crate) functions: HashMap<Handle, Arc<Function>>,
    pub(crate) faults: Vec<String>,
    pub(crate) log: Vec<String>,
    /// The number of allocations so far: every second one ends at the end of a memory page.
    pub(crate) allocated: u64,
    calls: HashMap<&'static str, u64>,
    handles: Handle,
    started: u64,
}

impl World {
    pub(crate) fn new(devices: usize) -> Self {
        let devices = (0..devices).map(|_| Device::default()).collect();
        Self { devices, handles: 0xF_0000, ..Self::default() }
    }

    /// Returns a handle that has never been handed out.
    pub(crate) fn handle(&mut self) -> Handle {
        self.handles += 8;
        self.handles
    }

    pub(crate) fn count_call(&mut self, name: &'static str) -> u64 {
        let count = self.calls.entry(name).or_default();
        *count += 1;
        *count
    }

    pub(crate) fn broken(&self, device: usize) -> Option<Code> {
        self.devices[device].broken
    }

    /// Marks a device as broken, and records the reason.
    pub(crate) fn fault(&mut self, device: usize, code: Code, text: String) {
        let code = if code.is_sticky() { code } else { Code::LAUNCH_FAILED };
        self.devices[device].broken.get_or_insert(code);
        self.faults.push(text);
    }

    /// Returns the index of the device of that number, if it exists.
    pub(crate) fn device(&self, number: i32) -> Result<usize, Code> {
        if !self.initialised {
            return Err(Code::NOT_INITIALIZED);
        }
        let number = usize::try_from(number).map_err(|_| Code::INVALID_DEVICE)?;
        if number < self.devices.len() { Ok(number) } else { Err(Code::INVALID_DEVICE) }
    }

    /// Returns the device of the current context, if the context is alive and the device not
    /// broken.
    pub(crate) fn here(&self) -> Result<usize, Code> {
        if !self.initialised {
            return Err(Code::NOT_INITIALIZED);
        }
        let device = current().ok_or(Code::INVALID_CONTEXT)?;
        if self.devices[device].retained == 0 {
            return Err(Code::CONTEXT_IS_DESTROYED);
        }
        self.broken(device).map_or(Ok(device), Err)
    }

    /// Returns a stream by its handle; the default streams are those of `device`.
    pub(crate) fn stream(&mut self, handle: Handle, device: usize) -> Result<Arc<Stream>, Code> {
        let index = match handle {
            0 | 1 => 0,
            2 => 1,
            _ => return self.streams.get(&handle).cloned().ok_or(Code::INVALID_HANDLE),
        };
        if let Some(stream) = &self.devices[device].defaults[index] {
            return Ok(Arc::clone(stream));
        }
        let stream = self.start_stream(device);
        self.devices[device].defaults[index] = Some(Arc::clone(&stream));
        Ok(stream)
    }

    /// Returns a stream of the current context's device, for new work.
    pub(crate) fn stream_here(&mut self, handle: Handle) -> Result<Arc<Stream>, Code> {
        let device = self.here()?;
        let stream = self.stream(handle, device)?;
        if stream.device == device { Ok(stream) } else { Err(Code::INVALID_HANDLE) }
    }

    pub(crate) fn start_stream(&mut self, device: usize) -> Arc<Stream> {
        self.started += 1;
        let settings = &driver().settings;
        Stream::start(device, self.started, settings, |device| {
            on_device(device, || Err((Code::LAUNCH_FAILED, "a piece of work panicked".to_owned())));
        })
    }

    /// Returns all streams of a device.
    pub(crate) fn streams_of(&self, device: usize) -> Vec<Arc<Stream>> {
        let own = self.streams.values().filter(|stream| stream.device == device);
        own.chain(self.devices[device].defaults.iter().flatten()).cloned().collect()
    }

    pub(crate) fn event(&self, handle: Handle) -> Result<Arc<Event>, Code> {
        self.events.get(&handle).cloned().ok_or(Code::INVALID_HANDLE)
    }

    /// Returns a range of a device's memory, if it is within one live allocation.
    pub(crate) fn span(&self, device: usize, address: u64, len: usize) -> Option<Span> {
        let (_, found) = self.allocations.range(..=address).next_back()?;
        if found.device == device { found.mapping.span(address, len) } else { None }
    }

    /// Returns the live memory of a device.
    pub(crate) fn mappings(&self, device: usize) -> Vec<Arc<Mapping>> {
        let own = self.allocations.values().filter(|allocation| allocation.device == device);
        own.map(|allocation| Arc::clone(&allocation.mapping)).collect()
    }

    /// Returns true if `address` is in freed memory, or in memory of another device.
    pub(crate) fn is_out_of_bounds(&self, device: usize, address: u64) -> bool {
        let dead = self.freed.iter().any(|&(start, end)| (start..end).contains(&address));
        let found = self.allocations.range(..=address).next_back();
        let foreign = found
            .is_some_and(|(_, found)| found.device != device && found.mapping.holds(address, 1));
        dead || foreign
    }

    /// Returns true if `len` bytes of the host are page-locked; an error if only some of them are.
    pub(crate) fn is_locked(&self, address: u64, len: usize) -> Result<bool, Code> {
        let end = address.saturating_add(len as u64);
        let ends = |(start, locked): (&u64, &Locked)| (*start, start + locked.len as u64);
        let Some((start, stop)) = self.locked.range(..end).next_back().map(ends) else {
            return Ok(false);
        };
        match (address >= start && end <= stop, stop > address) {
            (true, _) => Ok(true),
            (false, true) => Err(Code::INVALID_VALUE),
            (false, false) => Ok(false),
        }
    }
}

/// Returns the device whose context is current on this thread.
pub(crate) fn current() -> Option<usize> {
    CONTEXTS.with_borrow(|contexts| contexts.last().copied().flatten())
}

pub(crate) fn context(device: usize) -> Handle {
    CONTEXT + device as Handle
}

pub(crate) fn push_context(device: Option<usize>) {
    CONTEXTS.with_borrow_mut(|contexts| contexts.push(device));
}

pub(crate) fn pop_context() -> Result<Option<usize>, Code> {
    CONTEXTS.with_borrow_mut(Vec::pop).ok_or(Code::INVALID_CONTEXT)
}

impl World {
    /// Returns the device of a context handle.
    pub(crate) fn of_context(&self, handle: Handle) -> Result<usize, Code> {
        let device = usize::try_from(handle.wrapping_sub(CONTEXT));
        let device = device.map_err(|_| Code::INVALID_CONTEXT)?;
        match self.devices.get(device) {
            None => Err(Code::INVALID_CONTEXT),
            Some(found) if found.retained == 0 => Err(Code::CONTEXT_IS_DESTROYED),
            Some(_) => Ok(device),
        }
    }
}
