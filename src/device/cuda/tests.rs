//! Tests of batches on a GPU. Without a driver, a real one or a fake, these tests print so and end.

use crate::error::{Error, ErrorKind};
use std::num::NonZeroUsize;
use std::sync::Arc;

use fuseloop_engine::batch::{BatchSpec, HostBatch, SlotPool};
use fuseloop_ops::DType;

use super::{Gpu, Uploader};
use crate::batch::{Batch, TensorError, TensorRows, TensorSpec};
use crate::device::program::{KernelLaunch, Tensor, TensorOrigin};
use crate::device::{DeviceProgram, DeviceStream, KernelOrigin};
use crate::sample::{Epoch, SampleId, SampleRef};

/// The bytes of an image; not a multiple of anything.
const IMAGE: usize = 1001;
const ROWS: usize = 128;

/// An image whose bytes grow by one on the device, and a label that is copied.
fn program(kernel: bool) -> DeviceProgram {
    let source = concat!(
        include_str!("../../../kernels/cuda/fuseloop.cuh"),
        "struct Arguments { u64 scratch, rows, staged, made; };\n",
        "KERNEL(grow, Arguments) {\n",
        "    const u8* from = (const u8*)a.staged + (u64)row_of() * 1001;\n",
        "    u8* to = (u8*)a.made + (u64)row_of() * 1001;\n",
        "    for (u32 i = first_group(); i < 1001; i += group_step()) to[i] = (u8)(from[i] + 1);\n",
        "}\n"
    );
    let tensor = |staged, dtype, shape: &[usize], origin| {
        let shape = shape.to_vec();
        Tensor { staged, dtype, shape, origin }
    };
    let origin = if kernel { TensorOrigin::Computed } else { TensorOrigin::Copied };
    let kernels = vec![KernelLaunch { entry: "grow".to_owned(), parts: 2 }];
    DeviceProgram {
        source: source.to_owned(),
        tensors: vec![
            tensor(IMAGE, DType::U8, &[7, 143], origin),
            tensor(8, DType::I64, &[], TensorOrigin::Copied),
        ],
        kernels: kernels.into_iter().filter(|_| kernel).collect(),
        scratch: 16,
        computed: if kernel { vec![0] } else { vec![] },
        constants: vec![],
    }
}

/// An uploader and the pool of the host's slots.
struct Port {
    lane: Arc<Uploader>,
    pool: Arc<SlotPool>,
}

impl Port {
    /// `None` where there is no GPU, or no compiler for a kernel.
    fn open(kernel: bool, device_batches: usize) -> Option<Self> {
        let lane = Gpu::open(0)
            .and_then(|gpu| Uploader::new(&gpu, program(kernel), ROWS, device_batches))
            .map_err(|error| eprintln!("skipped: {error}"))
            .ok()?;
        let tensors = [("label", 8), ("other", 1), ("image", IMAGE)].map(|(name, staged)| {
            let rows = if staged == 1 { TensorRows::Even } else { TensorRows::Device { staged } };
            TensorSpec { rows, ..TensorSpec::new(name, DType::U8, []) }
        });
        let spec = BatchSpec::new(&tensors, NonZeroUsize::new(ROWS).unwrap()).unwrap();
        let pool = Arc::new(SlotPool::new(Arc::new(spec), None, 2, Box::new(|| {})));
        Some(Self { lane, pool })
    }

    /// Sends batch number `n`.
    fn send(&self, n: u8, rows: usize) -> Result<Batch, Error> {
        let mut slot = self.pool.redeem(self.pool.take().unwrap()).unwrap();
        slot.visits_mut().extend((0..rows as u64).map(|id| SampleRef::once(SampleId(id))));
        let mut all = slot.rows_mut();
        all.output(0).fill(n);
        all.output(2).fill(n.wrapping_mul(3));
        let outcome = self.lane.submit(&mut all, &[2, 0]);
        let batch = Batch::from(HostBatch::new(slot, &self.pool, Epoch(0), u64::from(n)));
        outcome.map(|()| batch)
    }
}

fn assert_is(batch: &Batch, n: u8, grown: u8) {
    let image = n.wrapping_mul(3).wrapping_add(grown);
    assert_eq!(batch.to_host("image").unwrap(), vec![image; batch.len() * IMAGE], "batch {n}");
    assert_eq!(batch.to_host("label").unwrap(), vec![n; batch.len() * 8], "batch {n}");
}

#[test]
fn batches_are_what_was_sent_however_many_are_under_way() {
    for kernel in [false, true] {
        let Some(port) = Port::open(kernel, 3) else { return };
        let mut held = std::collections::VecDeque::new();
        for n in 0..60 {
            // The first batch is short, so that the locked range has to grow.
            let batch = port.send(n, if n % 7 == 0 { 70 } else { ROWS }).unwrap();
            let tensor = batch.device_tensor("image", DeviceStream::Legacy).unwrap();
            assert_eq!(tensor.shape(), [batch.len(), 7, 143]);
            assert_eq!((tensor.dtype(), tensor.device()), (DType::U8, 0));
            assert_eq!(tensor.ptr() % 256, 0);
            held.push_back((n, batch));
            if held.len() == 3 {
                let (n, batch) = held.pop_front().unwrap();
                assert_is(&batch, n, u8::from(kernel));
            }
        }
        let stats = port.lane.stats();
        assert_eq!((stats.batches, stats.buffers), (60, 3));
        assert_eq!(stats.bytes_copied, (51 * ROWS + 9 * 70) as u64 * (IMAGE + 8) as u64);
        assert_eq!(stats.kernels.is_some(), kernel);
        assert_ne!(stats.kernels, Some(KernelOrigin::Shipped));
    }
}

#[test]
fn a_lane_gives_no_more_than_was_agreed_and_goes_on_after() {
    let Some(port) = Port::open(false, 2) else { return };
    let (first, second) = (port.send(1, ROWS).unwrap(), port.send(2, ROWS).unwrap());
    let capsule = first.dlpack("image", DeviceStream::PerThread).unwrap();
    let is_full = |error: Error| {
        let text = "all 2 device buffers are in use: drop or copy the batches you hold";
        error.kind() == ErrorKind::Device && error.to_string().starts_with(text)
    };
    assert!(port.send(3, ROWS).is_err_and(is_full));
    drop(first);
    assert!(port.send(4, ROWS).is_err_and(is_full));
    // On another thread, which has another default stream.
    std::thread::spawn(move || drop(capsule)).join().unwrap();
    let fifth = port.send(5, ROWS).unwrap();
    assert_is(&fifth, 5, 0);
    assert_is(&second, 2, 0);
}

#[test]
fn what_is_lent_outlives_everything() {
    let Some(port) = Port::open(false, 2) else { return };
    let batch = port.send(1, 3).unwrap();
    let streams = [DeviceStream::Legacy, DeviceStream::Unordered];
    let capsules = streams.map(|stream| batch.dlpack("label", stream).unwrap());
    let address = batch.device_ptr("label", DeviceStream::Legacy).unwrap();
    drop(port);
    assert_is(&batch, 1, 0);
    drop(batch);
    for capsule in &capsules {
        assert!(!capsule.as_ptr().is_null());
    }
    assert_ne!(address, 0);
    drop(capsules);
}

#[test]
fn what_is_not_on_the_device_is_said_to_be_on_the_host() {
    let Some(port) = Port::open(false, 2) else { return };
    let batch = port.send(1, ROWS).unwrap();
    assert_eq!(batch.device(), Some(0));
    let error = batch.to_host("other").unwrap_err();
    assert!(error.cause::<TensorError>().is_some(), "{error}");
    let error = batch.device_tensor("nothing", DeviceStream::Legacy).unwrap_err();
    assert_eq!(error.to_string(), "no tensor named 'nothing'; available: label, other, image");
}
