//! A ring of buffers on the fake driver: with all waits no batch is wrong; without any one of them
//! many are.
//!
//! ```text
//! host ─fill─▶ staging[3] ─upload─▶ sources[3] ─kernel─▶ outputs[2] ─download─▶ seen
//!                 ▲ Refilled          ▲ Read    Copied      ▲ Released
//! ```
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod common;

use common::gpu::{self, Handle, Pinned};
use fuseloop_fakecuda::on_fake_gpu;

const PTX: &str = include_str!("../ptx/increment.ptx");

/// A wait of the host or of a stream that the ring needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wait {
    /// The kernel waits for the copy of its source.
    Copied,
    /// The copy waits for the kernel that last read the slot.
    Read,
    /// The kernel waits for the consumer of the previous output.
    Released,
    /// The host waits for the copy that last read the staging memory.
    Refilled,
}

/// Bytes of a batch.
const BYTES: usize = 256;
const BATCHES: usize = 24;

/// Memory and events of a ring: slots of staging and of sources, outputs, and the downloaded
/// results.
struct Ring {
    streams: [Handle; 3],
    increment: Handle,
    staging: Vec<Pinned>,
    sources: Vec<u64>,
    outputs: Vec<u64>,
    seen: Vec<Pinned>,
    /// Two events per slot (copied, read) and two per output (ready, released).
    events: [Vec<Handle>; 4],
}

impl Ring {
    const SLOTS: usize = 3;
    const OUTPUTS: usize = 2;

    fn new() -> Self {
        let streams = [(); 3].map(|()| gpu::stream().unwrap());
        let events = |n| (0..n).map(|_| gpu::event().unwrap()).collect();
        let memory = |n| (0..n).map(|_| gpu::alloc(BYTES).unwrap()).collect();
        let pinned = |n| (0..n).map(|_| Pinned::new(BYTES).unwrap()).collect();
        Self {
            streams,
            increment: gpu::function(gpu::load(PTX.as_bytes()).unwrap(), "increment").unwrap(),
            staging: pinned(Self::SLOTS),
            sources: memory(Self::SLOTS),
            outputs: memory(Self::OUTPUTS),
            seen: pinned(BATCHES),
            events: [events(Self::SLOTS), events(Self::SLOTS), events(2), events(Self::OUTPUTS)],
        }
    }

    /// Sends one batch through the ring, with all waits except `without`.
    fn send(&self, batch: usize, without: Option<Wait>) {
        let (slot, output) = (batch % Self::SLOTS, batch % Self::OUTPUTS);
        let [copies, kernels, consumer] = self.streams;
        let [copied, read, ready, released] = &self.events;
        let wait = |which, stream, event| {
            if without != Some(which) {
                gpu::wait(stream, event).unwrap();
            }
        };
        if without != Some(Wait::Refilled) {
            gpu::wait_on_host(copied[slot]).unwrap();
        }
        self.staging[slot].fill(batch as u8);
        wait(Wait::Read, copies, read[slot]);
        self.staging[slot].upload(self.sources[slot], copies).unwrap();
        gpu::record(copied[slot], copies).unwrap();
        wait(Wait::Copied, kernels, copied[slot]);
        wait(Wait::Released, kernels, released[output]);
        let argument = [self.sources[slot], self.outputs[output], BYTES as u64 / 4];
        let argument = argument.map(u64::to_le_bytes).concat();
        gpu::launch(self.increment, [1, 1], &argument, kernels).unwrap();
        gpu::record(read[slot], kernels).unwrap();
        gpu::record(ready[output], kernels).unwrap();
        gpu::wait(consumer, ready[output]).unwrap();
        self.seen[batch].download(self.outputs[output], consumer).unwrap();
        gpu::record(released[output], consumer).unwrap();
    }

    /// Returns the number of wrong batches.
    fn wrong(&self, without: Option<Wait>) -> usize {
        (0..BATCHES).for_each(|batch| self.send(batch, without));
        gpu::finish(self.streams[2]).unwrap();
        let expected = |batch: usize| (u32::from_le_bytes([batch as u8; 4]) + 1).to_le_bytes();
        let right = |batch: &usize| self.seen[*batch].bytes() == expected(*batch).repeat(BYTES / 4);
        BATCHES - (0..BATCHES).filter(right).count()
    }
}

/// Each case slows down the work that a wait is for, so that leaving out the wait has an effect.
#[test]
fn a_wait_that_is_missing_shows() {
    for (slow, without) in [
        ("upload:3000", Wait::Copied),
        ("kernel:3000", Wait::Read),
        ("download:3000", Wait::Released),
        ("upload:2999", Wait::Refilled),
    ] {
        on_fake_gpu("a_wait_that_is_missing_shows", &[("FAKE_CUDA_SLOW", slow)], || {
            gpu::open(0).unwrap();
            let wrong = Ring::new().wrong(Some(without));
            assert!(wrong > BATCHES / 2, "without {without:?} only {wrong} of {BATCHES} wrong");
        });
    }
}

#[test]
fn with_all_waits_nothing_goes_wrong() {
    for (seed, slow) in [
        ("1", "upload:3000"),
        ("2", "kernel:3000"),
        ("3", "download:3000"),
        ("4", "copy:1"),
        ("5", "copy:1"),
    ] {
        let settings = [("FAKE_CUDA_SEED", seed), ("FAKE_CUDA_SLOW", slow)];
        on_fake_gpu("with_all_waits_nothing_goes_wrong", &settings, || {
            gpu::open(0).unwrap();
            assert_eq!(Ring::new().wrong(None), 0);
        });
    }
}
