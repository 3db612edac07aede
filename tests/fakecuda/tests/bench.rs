//! The code that measures and checks a real GPU (`benches/gpu`, `tests/gpu/device.rs`), run on the
//! fake: it runs, detects errors, and releases everything.

#![allow(clippy::unwrap_used, reason = "a test fails with what it unwraps")]

use fuseloop::device::bench::{Bench, HostPages, Resident};
use fuseloop::device::check::CheckBatch;
use fuseloop::internals::plan::ImagePlan;
use fuseloop_fakecuda::{Report, on_fake_gpu};
use fuseloop_ops::author::{Dim, ImageType};
use fuseloop_ops::*;

/// No compiler: the shipped kernel runs. No cache is shared between tests.
const SETTINGS: [(&str, &str); 2] =
    [("FUSELOOP_NVRTC", "/nowhere/libnvrtc.so.12"), ("FUSELOOP_KERNEL_CACHE", "off")];

/// Returns a batch whose kernel is shipped.
fn trial() -> CheckBatch {
    let device = ToDevice::to(Device::Cuda(0));
    let ops = ops![device, Normalize::imagenet(), Convert::to(DType::F16), ToChannelsFirst];
    let input = ImageType::decoded(Dim::fixed(9), Dim::fixed(13));
    let plan = ImagePlan::on_device(ops, input, NumberRule::Fused).unwrap();
    let picture = |row: usize| (0..9 * 13 * 3).map(|k| (k * 7 + row * 31) as u8).collect();
    let pictures: Vec<_> = (0..4).map(|row| (Size::new(9, 13), picture(row))).collect();
    CheckBatch::new(plan, None, &pictures, 1).unwrap()
}

#[test]
fn a_trial_is_launched_timed_and_sent_as_batches() {
    on_fake_gpu("a_trial_is_launched_timed_and_sent_as_batches", &SETTINGS, || {
        let trial = trial();
        let bench = Bench::open(0).unwrap();
        let resident = Resident::new(&bench, &trial, 3).unwrap();
        resident.check().unwrap();
        assert!(resident.time(4).unwrap() > 0.0);
        let (millis, stats) = bench.pipelined(&trial, 9).unwrap();
        assert!(millis > 0.0);
        assert_eq!(stats.batches, 6 + 9);
        for pages in [HostPages::Pageable, HostPages::Registered, HostPages::Allocated] {
            assert!(bench.upload(pages, 5000, 2).unwrap() > 0.0, "{pages:?}");
        }
        assert!(bench.copy(5000, 2).unwrap() > 0.0);
        let loads = bench.loads(&trial).unwrap();
        assert!(loads.shipped.is_some() && loads.compile.is_none() && loads.compiled.is_none());
        drop(resident);
        drop(bench);
        assert_eq!(Report::now(), Report::default(), "all is given back");
    });
}

/// A launch that is refused is an error; a launch that never happened is detected by the missing
/// output.
#[test]
fn what_was_not_launched_is_seen() {
    let refusing = [&SETTINGS[..], &[("FAKE_CUDA_FAIL", "cuLaunchKernel:*:1")]].concat();
    on_fake_gpu("what_was_not_launched_is_seen", &refusing, || {
        let trial = trial();
        let bench = Bench::open(0).unwrap();
        let checked = Resident::new(&bench, &trial, 1).unwrap().check();
        let is_refused = |error: fuseloop::Error| {
            error.kind() == fuseloop::ErrorKind::Device
                && error.to_string().starts_with("CUDA: cuLaunchKernel: ")
        };
        assert!(checked.is_err_and(is_refused));
        let sent = bench.pipelined(&trial, 2);
        assert!(sent.is_err_and(is_refused));
    });
    // The same without a device: a launch that does nothing and reports success.
    let nothing = trial().run(|launch| {
        assert_eq!(launch.rows, 4);
        Ok(())
    });
    let error = nothing.unwrap_err().to_string();
    assert!(error.starts_with("tensor ") && error.ends_with(" bytes differ"), "{error}");
}
