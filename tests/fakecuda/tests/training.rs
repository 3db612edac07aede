//! The whole path of batches to a GPU, except the GPU itself: the loader, the generated kernels,
//! streams that run late, events, the memory of batches.
//!
//! | kernels run on | source of the kernels |
//! |---|---|
//! | the host, built by g++ | the fake NVRTC |
//! | the PTX interpreter | shipped with the crate, compiled by NVIDIA's NVRTC |
//! | the PTX interpreter | NVIDIA's NVRTC during the test, if `FUSELOOP_NVRTC` names it: see interpreted.rs |

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails with what it unwraps")]

mod common;

use common::gpu;
use common::training::{LISTS, Trainer, builder, epoch, file, on_cpu};
use fuseloop::Loader;
use fuseloop::device::{DeviceStream, KernelOrigin};
use fuseloop::internals::device::Gpu;
use fuseloop_fakecuda::{Report, has_host_compiler, on_fake_gpu};

/// No compiler: only shipped kernels run.
const NO_COMPILER: (&str, &str) = ("FUSELOOP_NVRTC", "/nowhere/libnvrtc.so.12");

/// No cache is shared between tests.
const NO_CACHE: (&str, &str) = ("FUSELOOP_KERNEL_CACHE", "off");

#[test]
fn batches_are_those_of_the_cpu() {
    if !has_host_compiler() {
        return;
    }
    for (seed, delay) in [("1", "400"), ("2", "0"), ("3", "1500")] {
        let settings = [NO_CACHE, ("FAKE_CUDA_SEED", seed), ("FAKE_CUDA_DELAY_US", delay)];
        on_fake_gpu("batches_are_those_of_the_cpu", &settings, || {
            let (_dir, path) = file(44);
            for list in LISTS {
                assert_eq!(epoch(&path, list, 1), 0, "{list}");
            }
            assert_eq!(Report::now(), Report::default(), "all is given back");
        });
    }
}

/// The PTX that is shipped, with every access of every thread checked.
#[test]
fn shipped_kernels_need_no_compiler() {
    on_fake_gpu("shipped_kernels_need_no_compiler", &[NO_COMPILER, NO_CACHE], || {
        let (_dir, path) = file(20);
        for list in ["normalize", "copied"] {
            assert_eq!(epoch(&path, list, 1), 0, "{list}");
        }
        // A list that has no shipped kernel: the error says what to do.
        let error = builder(&path, "jitter").build().err().unwrap();
        assert_eq!(error.kind(), fuseloop::ErrorKind::Device, "{error}");
        assert!(error.to_string().contains("and NVRTC was not found: "), "{error}");
        assert!(error.to_string().contains("pip install nvidia-cuda-nvrtc-cu12"), "{error}");
        let auto = builder(&path, "jitter").device("auto").build().unwrap();
        assert!(auto.device().to_string().starts_with("cpu, since "), "{}", auto.device());
    });
}

/// A driver may refuse the output of a newer compiler: the usual kernels still run, from the
/// shipped PTX.
#[test]
fn shipped_kernels_stand_in_for_refused_ones() {
    if !has_host_compiler() {
        return;
    }
    let settings = [NO_CACHE, ("FAKE_CUDA_FAIL", "cuModuleLoadDataEx:1:222")];
    on_fake_gpu("shipped_kernels_stand_in_for_refused_ones", &settings, || {
        let (_dir, path) = file(9);
        let want = on_cpu(&path, "normalize");
        let loader = builder(&path, "normalize").build().unwrap();
        let origin = loader.device_stats().and_then(|stats| stats.kernels);
        assert_eq!(origin, Some(KernelOrigin::Shipped));
        for (batch, want) in loader.epoch(0).unwrap().zip(&want) {
            assert_eq!(batch.unwrap().to_host("image").unwrap(), want[0]);
        }
    });
}

/// Each wait that orders a batch with the work before and after it is left out in turn: streams 1
/// and 2 are the loader's copies and kernels, 3 is the trainer's, 0 the host.
#[test]
fn a_forgotten_wait_shows() {
    if !has_host_compiler() {
        return;
    }
    // The work that is slowed down, so that other work overtakes it.
    let slow = |deaf| match deaf {
        "2<1" | "0<1" => "upload:9000",
        "2<3" => "download:9000",
        _ => "kernel:9000",
    };
    for deaf in ["1<2", "2<1", "2<3", "3<2", "0<1"] {
        let slow = slow(deaf);
        let settings = [NO_CACHE, ("FAKE_CUDA_DEAF", deaf), ("FAKE_CUDA_SLOW", slow)];
        on_fake_gpu("a_forgotten_wait_shows", &settings, || {
            let (_dir, path) = file(44);
            // A kernel that runs before its records are there would look for an arbitrary partner.
            let list = if deaf == "2<1" { "normalize" } else { "mixed" };
            let want = on_cpu(&path, list);
            let batches = if deaf == "1<2" { 6 } else { 2 };
            let loader = builder(&path, list).device_batches(batches).build().unwrap();
            gpu::enter(0).unwrap();
            let mut trainer = Trainer::new(4);
            for batch in loader.epoch(0).unwrap() {
                trainer.take(batch.unwrap()).unwrap();
            }
            let wrong = trainer.wrong(&want);
            assert!(wrong > 0, "nobody saw that {deaf} did not wait");
        });
    }
}

#[test]
fn a_capsule_outlives_its_batch_and_its_loader() {
    on_fake_gpu("a_capsule_outlives_its_batch_and_its_loader", &[NO_COMPILER, NO_CACHE], || {
        let (_dir, path) = file(44);
        let want = on_cpu(&path, "normalize");
        let loader = builder(&path, "normalize").build().unwrap();
        gpu::enter(0).unwrap();
        let trainer = Trainer::new(1);
        let mut capsules = vec![];
        for batch in loader.epoch(0).unwrap().take(3) {
            capsules.push(batch.unwrap().dlpack("image", trainer.stream()).unwrap());
        }
        drop(loader);
        for (capsule, want) in capsules.into_iter().zip(&want) {
            let to = gpu::Pinned::new(want[0].len()).unwrap();
            to.download(capsule_address(&capsule), trainer.handle()).unwrap();
            drop(capsule); // before the copy runs: the memory stays valid until then
            gpu::finish(trainer.handle()).unwrap();
            assert_eq!(to.bytes(), want[0]);
            to.free().unwrap();
        }
        assert_eq!(trainer.wrong(&[]), 0);
        gpu::release(0).unwrap();
        assert_eq!(Report::now(), Report::default());
    });
}

#[allow(unsafe_code, reason = "a structure of C")]
fn capsule_address(capsule: &fuseloop::device::DlpackCapsule) -> u64 {
    // SAFETY: the capsule is alive.
    unsafe { (*capsule.as_ptr()).tensor.data as u64 }
}

/// Batches that a trainer holds are never overwritten: the loader waits, or returns an error.
#[test]
fn kept_batches_stay_as_they_are() {
    on_fake_gpu("kept_batches_stay_as_they_are", &[NO_COMPILER, NO_CACHE], || {
        let (_dir, path) = file(36);
        let want = on_cpu(&path, "normalize");
        let loader = builder(&path, "normalize").device_batches(6).build().unwrap();
        let kept: Vec<_> = loader.epoch(0).unwrap().map(Result::unwrap).collect();
        for (batch, want) in kept.iter().zip(&want) {
            assert_eq!(batch.to_host("image").unwrap(), want[0]);
            assert_eq!(batch.to_host("label").unwrap(), want[1]);
        }
        drop((kept, loader));

        // Capsules hold no slot, so waiting for them is impossible: the error names the remedy.
        let loader = builder(&path, "normalize").device_batches(3).build().unwrap();
        let mut capsules = vec![];
        let mut failed = None;
        for batch in loader.epoch(0).unwrap() {
            match batch {
                Ok(batch) => capsules.push(batch.dlpack("image", DeviceStream::Unordered).unwrap()),
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        let failed = failed.expect("three are held");
        let words =
            std::iter::successors(Some(&failed as &dyn std::error::Error), |error| error.source());
        let words: Vec<String> = words.map(ToString::to_string).collect();
        assert!(words.join(": ").contains("device_batches"), "{words:?}");
        assert!(capsules.len() <= 3);
        drop((capsules, loader));
        assert_eq!(Report::now(), Report::default());
    });
}

/// Epochs allocate no new memory, and loaders release all of theirs.
#[test]
fn memory_is_constant_over_epochs_and_comes_back() {
    on_fake_gpu("memory_is_constant_over_epochs_and_comes_back", &[NO_COMPILER, NO_CACHE], || {
        let (_dir, path) = file(20);
        for _ in 0..5 {
            let loader = builder(&path, "normalize").recompile(true).build().unwrap();
            let mut after_first = None;
            for number in 0..4 {
                for batch in loader.epoch(number).unwrap() {
                    let _ = batch.unwrap().to_host("image").unwrap();
                }
                let now = Report::now();
                let first = after_first.get_or_insert_with(|| now.clone());
                assert!(now.bytes <= first.bytes + (first.bytes / 2), "{first:?} {now:?}");
                if number >= 2 {
                    assert_eq!(now.modules, first.modules, "the kernels are the same");
                }
            }
            drop(loader);
            assert_eq!(Report::now(), Report::default());
        }
    });
}

fn refusal(settings: &[(&str, &str)], name: &str, device: &'static str, words: &'static str) {
    on_fake_gpu(name, settings, || {
        let (_dir, path) = file(12);
        let error = builder(&path, "normalize").device(device).build().err().unwrap();
        assert!(error.to_string().contains(words), "{error}");
        assert!(!error.to_string().contains('\n'), "one line: {error}");
        let auto = builder(&path, "normalize").device("auto").build().unwrap();
        if device == "cuda:0" {
            assert!(auto.device().to_string().contains(words), "{}", auto.device());
            assert_eq!(auto.epoch(0).unwrap().count(), 2);
        }
    });
}

#[test]
fn no_device() {
    refusal(&[("FAKE_CUDA_DEVICES", "0")], "no_device", "cuda:0", "CUDA_VISIBLE_DEVICES");
}

#[test]
fn an_old_driver() {
    refusal(&[("FAKE_CUDA_DRIVER", "11080")], "an_old_driver", "cuda:0", "supports CUDA 11.8");
}

#[test]
fn no_such_device() {
    refusal(&[], "no_such_device", "cuda:3", "cuda:3 was requested, but this process sees 1 GPU");
}

#[test]
fn no_memory() {
    let settings = [NO_COMPILER, NO_CACHE, ("FAKE_CUDA_MEMORY", "100000")];
    refusal(&settings, "no_memory", "cuda:0", "of GPU memory");
}

/// Two GPUs: the loader uses the requested one, and leaves the other alone.
#[test]
fn any_device_will_do() {
    let settings = [NO_COMPILER, NO_CACHE, ("FAKE_CUDA_DEVICES", "2")];
    on_fake_gpu("any_device_will_do", &settings, || {
        assert_eq!(Gpu::all().unwrap().len(), 2);
        assert_eq!(Report::now().contexts, 0, "looking makes no context");
        let (_dir, path) = file(12);
        let want = on_cpu(&path, "normalize");
        assert_eq!(Report::now().contexts, 0, "the CPU needs none");
        let loaders: Vec<Loader> = ["cuda:1", "cuda:0"]
            .map(|device| builder(&path, "normalize").device(device).build().unwrap())
            .into();
        for (loader, number) in loaders.iter().zip([1, 0]) {
            for (batch, want) in loader.epoch(0).unwrap().zip(&want) {
                let batch = batch.unwrap();
                assert_eq!(batch.device(), Some(number));
                assert_eq!(batch.to_host("image").unwrap(), want[0]);
            }
        }
    });
}

/// Every call of the driver fails once: the result is an error or a fallback, never a panic, a
/// hang, or a wrong batch.
#[test]
fn whatever_call_fails_it_is_an_error() {
    const CALLS: [(&str, u32); 14] = [
        ("cuDevicePrimaryCtxRetain", 2),
        ("cuStreamCreate", 3),
        ("cuEventCreate", 6),
        ("cuMemAlloc_v2", 6),
        ("cuModuleLoadDataEx", 2),
        ("cuModuleGetFunction", 2),
        ("cuMemHostRegister_v2", 4),
        ("cuMemcpyHtoDAsync_v2", 6),
        ("cuStreamWaitEvent", 8),
        ("cuEventRecord", 8),
        ("cuLaunchKernel", 4),
        ("cuEventSynchronize", 3),
        ("cuMemcpyDtoHAsync_v2", 3),
        ("cuStreamSynchronize", 3),
    ];
    for (call, most) in CALLS {
        for number in 1..=most {
            // Out of memory or an invalid value; and an illegal address, after which every call
            // fails.
            let code = if number % 2 == 0 { 700 } else { 2 };
            let fail = format!("{call}:{number}:{code}");
            let settings = [NO_COMPILER, NO_CACHE, ("FAKE_CUDA_FAIL", fail.as_str())];
            on_fake_gpu("whatever_call_fails_it_is_an_error", &settings, || {
                let (_dir, path) = file(9);
                let want = on_cpu(&path, "normalize");
                let Ok(loader) = builder(&path, "normalize").build() else { return };
                let Ok(epoch) = loader.epoch(0) else { return };
                for (batch, want) in epoch.zip(&want) {
                    let Ok(batch) = batch else { return };
                    let Ok(image) = batch.to_host("image") else { return };
                    assert_eq!(image, want[0]);
                }
            });
        }
    }
}
