//! What is kept beside the slot of a batch that goes to a device.
//!
//! ```text
//!   slot is filled ──submit──▶ pages locked, copies asked for, `copied` behind them ──▶ batch
//!   batch dropped  ──let_go──▶ its readers' streams noted, the device's memory given back
//!   slot is taken  ──reclaim─▶ waits for `copied`: then it may be written again
//!   slot dropped   ──drop────▶ the same, and the pages unlocked
//! ```

#![allow(unsafe_code, reason = "pages of memory that others write to")]

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};

use fuseloop_ops::DType;

use super::context::Context;
use super::handles::{Event, PageLock, Queue};
use super::held::{Held, Use};
use crate::batch::Companion;
use crate::device::{DeviceError, Stream};

/// What is kept beside a slot.
pub(crate) struct Freight {
    pub(super) context: Arc<Context>,
    ordinal: u32,
    copied: Event,
    /// Whether copies were asked for that nobody has waited for.
    copying: bool,
    /// The locked pages of each of the slot's tensors that has some.
    locks: Vec<(usize, PageLock)>,
    /// The system would not lock pages. It is not asked again.
    refused: bool,
    cargo: Option<Cargo>,
}

/// The batch on the device.
pub(super) struct Cargo {
    pub(super) held: Arc<Held>,
    pub(super) places: Arc<[Place]>,
    /// The batch's number of each tensor in `places`.
    pub(super) outputs: Vec<usize>,
    pub(super) rows: usize,
    pub(super) uses: Mutex<Vec<Use>>,
}

/// Where one tensor lies in the memory of a batch.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) offset: usize,
    pub(super) row_bytes: usize,
    pub(super) dtype: DType,
    /// Of one sample.
    pub(super) shape: Vec<usize>,
}

/// A tensor on the device.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) address: u64,
    /// The batch first.
    pub(crate) shape: Vec<usize>,
    pub(crate) dtype: DType,
    pub(crate) device: u32,
    offset: usize,
    bytes: usize,
}

impl Freight {
    /// From so many bytes on locked pages are worth it: the driver copies less through its own.
    const WORTH_LOCKING: usize = 64 << 10;

    pub(super) fn new(context: &Arc<Context>, ordinal: u32) -> Result<Self, DeviceError> {
        Ok(Self {
            context: Arc::clone(context),
            ordinal,
            copied: Event::new(context)?,
            copying: false,
            locks: Vec::new(),
            refused: false,
            cargo: None,
        })
    }

    /// What is beside a batch, if it is this.
    pub(crate) fn of(companion: &dyn Companion) -> Option<&Self> {
        (companion as &dyn Any).downcast_ref()
    }

    /// Locks the pages of the slot's tensor `output`, whose rows in use are `memory`. `false` if
    /// the system won't have it: then copies from there are slower, and no worse.
    ///
    /// # Safety
    ///
    /// `memory` is the slot's beside which this is kept, from its beginning.
    pub(super) unsafe fn lock_pages(&mut self, output: usize, memory: &[u8]) -> bool {
        if memory.len() < Self::WORTH_LOCKING {
            return true;
        }
        if self.locks.iter().any(|(of, lock)| *of == output && lock.covers(memory)) {
            return true;
        }
        if self.refused {
            return false;
        }
        // A batch with fewer rows came first: its lock goes before a longer one is made.
        self.locks.retain(|(of, _)| *of != output);
        // SAFETY: memory of a slot begins at a page and is mapped for as long as the slot, which
        // drops this before.
        match unsafe { PageLock::new(&self.context, memory) } {
            Ok(lock) => self.locks.push((output, lock)),
            Err(_) => self.refused = true,
        }
        !self.refused
    }

    /// Copies out of the slot begin now.
    pub(super) fn begin_copies(&mut self) {
        self.copying = true;
    }

    /// All copies were asked of `queue`.
    pub(super) fn end_copies(&self, queue: &Queue) -> Result<(), DeviceError> {
        self.copied.record(queue)
    }

    /// All copies are done.
    pub(super) fn copied(&self) -> &Event {
        &self.copied
    }

    /// What came of it: the batch, or nothing, and then no copy is left.
    pub(super) fn settle(&mut self, cargo: Option<Cargo>) {
        self.copying = cargo.is_some();
        self.cargo = cargo;
    }

    /// The GPU's number.
    pub(crate) fn ordinal(&self) -> u32 {
        self.ordinal
    }

    /// Where the batch's tensor number `output` lies; `None` if it is none of the device's.
    pub(crate) fn find(&self, output: usize) -> Option<Found> {
        let cargo = self.cargo.as_ref()?;
        let k = cargo.outputs.iter().position(|of| *of == output)?;
        let place = &cargo.places[k];
        Some(Found {
            address: cargo.held.buffer().memory.address() + place.offset as u64,
            shape: std::iter::once(cargo.rows).chain(place.shape.iter().copied()).collect(),
            dtype: place.dtype,
            device: self.ordinal,
            offset: place.offset,
            bytes: cargo.rows * place.row_bytes,
        })
    }

    /// Has `stream` wait for the batch, and the batch note that `stream` reads it, until the batch
    /// is dropped.
    pub(crate) fn hand_over(&self, stream: Stream) -> Result<(), DeviceError> {
        let Some(cargo) = &self.cargo else { return Ok(()) };
        let mut uses = cargo.uses.lock().unwrap_or_else(PoisonError::into_inner);
        if !uses.iter().any(|begun| begun.is_of(stream)) {
            uses.push(Use::begin(&cargo.held, stream)?);
        }
        Ok(())
    }

    /// The same, until what is returned is dropped; `None` if there is nothing on the device.
    pub(crate) fn lend(&self, stream: Stream) -> Option<Result<Use, DeviceError>> {
        self.cargo.as_ref().map(|cargo| Use::begin(&cargo.held, stream))
    }

    /// The bytes of a tensor; waits for them.
    pub(crate) fn read(&self, found: &Found) -> Result<Vec<u8>, DeviceError> {
        let Some(cargo) = &self.cargo else { return Ok(Vec::new()) };
        let mut bytes = vec![0; found.bytes];
        let queue = Queue::new(&self.context)?;
        queue.wait(&cargo.held.buffer().ready)?;
        queue.download(&cargo.held.buffer().memory, found.offset, &mut bytes)?;
        Ok(bytes)
    }
}

impl Companion for Freight {
    fn let_go(&mut self) {
        self.cargo = None;
    }

    fn reclaim(&mut self) {
        self.cargo = None;
        if self.copying {
            // A context that is lost copies nothing any more: an error is as good as an end.
            let _ = self.copied.synchronize();
            self.copying = false;
        }
    }
}

impl Drop for Freight {
    fn drop(&mut self) {
        self.reclaim();
    }
}
