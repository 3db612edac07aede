//! Batches of a transform on a GPU: the kernels, streams and memory of a loader's, without a dataset.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails with what it unwraps")]

mod common;

use common::training::SIDE;
use fuseloop::device::DeviceStream;
use fuseloop::ops::*;
use fuseloop::source::{Column, InMemory, OwnedImage};
use fuseloop::transform::{Image, Key, Transform};
use fuseloop::{ErrorKind, Loader};
use fuseloop_fakecuda::{Report, has_host_compiler, on_fake_gpu};

/// No compiler: only shipped kernels run.
const NO_COMPILER: (&str, &str) = ("FUSELOOP_NVRTC", "/nowhere/libnvrtc.so.12");

/// No cache is shared between tests.
const NO_CACHE: (&str, &str) = ("FUSELOOP_KERNEL_CACHE", "off");

const SEED: u64 = 5;

/// The ops of a training; those of `"normalize"` have a shipped kernel.
fn list(name: &str, device: &str) -> Ops {
    let mut ops = ops![
        RandomResizedCrop::new(SIDE).unwrap(),
        ToDevice::new(device).unwrap(),
        RandomHorizontalFlip::new(0.5).unwrap(),
    ];
    if name == "jitter" {
        ops.extend(ops![ColorJitter::new(0.4, 0.4, 0.4).unwrap(), RandomErasing::new()]);
    }
    ops.extend(ops![Normalize::imagenet(), ToChannelsFirst]);
    ops
}

/// Images of differing sizes.
fn pictures(count: u32) -> Vec<(Size, Vec<u8>)> {
    let picture = |number: u32| {
        let size = Size::new(70 + 3 * number, 90 - 2 * number);
        let pixels = (0..3 * size.pixels() as u32).map(|i| (i * (7 + number) / 5) as u8);
        (size, pixels.collect())
    };
    (0..count).map(picture).collect()
}

fn images(pictures: &[(Size, Vec<u8>)]) -> Vec<Image<'_>> {
    let images = pictures.iter().map(|(size, pixels)| {
        Image::rgb(pixels, size.height as usize, size.width as usize).unwrap()
    });
    images.collect()
}

fn keys(count: usize) -> Vec<Key> {
    (0..count as u64).map(|sample| Key::new(SEED, 1, sample)).collect()
}

/// The rows that a loader gives the images on the CPU.
fn of_loader(name: &str, pictures: &[(Size, Vec<u8>)]) -> Vec<u8> {
    let owned = pictures.iter().map(|(size, pixels)| OwnedImage::rgb(*size, pixels.clone()));
    let source = InMemory::new([("image", Column::images(owned.collect()))]).unwrap();
    let loader = Loader::from_source(source).seed(SEED).batch_size(pictures.len()).device("cpu");
    let loader = loader.pipeline("image", list(name, "auto")).build().unwrap();
    let batch = loader.epoch(1).unwrap().next().unwrap().unwrap();
    batch.bytes("image").unwrap().to_vec()
}

#[test]
fn batches_are_those_of_a_loader_from_several_threads() {
    let lists: &[&str] =
        if has_host_compiler() { &["normalize", "jitter"] } else { &["normalize"] };
    for (seed, delay) in [("1", "400"), ("2", "0")] {
        for &name in lists {
            let compiler = if name == "normalize" { NO_COMPILER } else { NO_CACHE };
            let settings = [
                compiler,
                NO_CACHE,
                ("FAKE_CUDA_SEED", seed),
                ("FAKE_CUDA_DELAY_US", delay),
                ("LIST", name),
            ];
            on_fake_gpu("batches_are_those_of_a_loader_from_several_threads", &settings, || {
                let pictures = pictures(20);
                let (images, keys) = (images(&pictures), keys(20));
                let want = of_loader(name, &pictures);
                let row = want.len() / 20;
                let transform = Transform::new(list(name, "auto")).unwrap();
                std::thread::scope(|scope| {
                    for thread in 0..5 {
                        let (transform, images, keys, want) = (&transform, &images, &keys, &want);
                        scope.spawn(move || {
                            for round in 0..6 {
                                // Batches of other sizes, so that the memory grows while it is used.
                                let count = 3 + (5 * thread + 7 * round) % 18;
                                let batch =
                                    transform.batch_on_device(&images[..count], &keys[..count]);
                                let batch = batch.unwrap();
                                assert_eq!(batch.device(), Some(0));
                                let tensor =
                                    batch.device_tensor("image", DeviceStream::Legacy).unwrap();
                                assert_eq!(
                                    tensor.shape(),
                                    [count, 3, SIDE as usize, SIDE as usize]
                                );
                                assert!(batch.to_host("image").unwrap() == want[..count * row]);
                            }
                        });
                    }
                });
                assert_eq!(transform.placement().device, Device::Cuda(0));
                drop(transform);
                assert_eq!(Report::now(), Report::default(), "all is given back");
            });
        }
    }
}

#[test]
fn batches_that_are_held_are_an_error_and_no_wait() {
    on_fake_gpu("batches_that_are_held_are_an_error_and_no_wait", &[NO_COMPILER, NO_CACHE], || {
        let pictures = pictures(4);
        let (images, keys) = (images(&pictures), keys(4));
        let want = of_loader("normalize", &pictures);
        let transform =
            Transform::new(list("normalize", "cuda:0")).unwrap().device_batches(3).unwrap();
        let run = || transform.batch_on_device(&images, &keys);
        let refused = || {
            let error = run().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Device);
            let text = error.to_string();
            assert!(text.starts_with("all 3 device buffers are in use"), "{text}");
            assert!(text.ends_with("raise `device_batches`"), "{text}");
        };
        let mut held: Vec<_> = (0..3).map(|_| run().unwrap()).collect();
        refused();
        let capsule = held[0].dlpack("image", DeviceStream::Unordered).unwrap();
        drop(held.remove(0));
        refused(); // the capsule still has the memory
        drop(capsule);
        held.push(run().unwrap());
        refused();
        // Larger batches have memory of their own, but count as the others; those that are held stay as they are.
        let (twice, keys) = ([&images[..], &images[..]].concat(), [&keys[..], &keys[..]].concat());
        let larger = || transform.batch_on_device(&twice, &keys);
        assert!(larger().unwrap_err().to_string().starts_with("all 3 device buffers are in use"));
        drop(held.remove(0));
        held.push(larger().unwrap());
        refused();
        drop(transform);
        for batch in held {
            let found = batch.to_host("image").unwrap();
            assert!(found.chunks(want.len()).all(|half| half == want), "{} images", batch.len());
        }
        assert_eq!(Report::now(), Report::default());
    });
}

#[test]
fn a_gpu_that_is_missing_is_an_error_by_number_and_the_cpu_by_auto() {
    let name = "a_gpu_that_is_missing_is_an_error_by_number_and_the_cpu_by_auto";
    on_fake_gpu(name, &[NO_COMPILER, NO_CACHE], || {
        let pictures = pictures(3);
        let (images, keys) = (images(&pictures), keys(3));
        let missing = Transform::new(list("normalize", "cuda:1")).unwrap();
        for _ in 0..2 {
            let error = missing.batch_on_device(&images, &keys).unwrap_err().to_string();
            assert!(error.contains("cuda:1 was requested, but this process sees 1 GPU"), "{error}");
        }
        // Without NVRTC, this list has no kernel.
        let auto = Transform::new(list("jitter", "auto")).unwrap();
        let batch = auto.batch_on_device(&images, &keys).unwrap();
        assert!(batch.bytes("image").unwrap() == of_loader("jitter", &pictures));
        let placement = auto.placement().to_string();
        assert!(placement.starts_with("cpu, since ") && placement.contains("NVRTC"), "{placement}");
        let asked = Transform::new(list("jitter", "auto")).unwrap().device("cuda:0").unwrap();
        let error = asked.batch_on_device(&images, &keys).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Device);
        let moved = Transform::new(list("normalize", "auto")).unwrap().device("cpu").unwrap();
        let batch = moved.batch_on_device(&images, &keys).unwrap();
        assert!(batch.device().is_none() && Report::now().contexts <= 1);
    });
}

#[test]
fn images_of_another_type_are_another_kind_of_batch() {
    on_fake_gpu(
        "images_of_another_type_are_another_kind_of_batch",
        &[NO_COMPILER, NO_CACHE],
        || {
            let pictures = pictures(2);
            let (images, keys) = (images(&pictures), keys(2));
            let transform = Transform::new(list("normalize", "cuda:0")).unwrap();
            let (size, pixels) = &pictures[1];
            let [height, width] = [size.height, size.width].map(|side| side as usize);
            let planes: Vec<u8> =
                (0..3).flat_map(|c| pixels[c..].iter().step_by(3).copied()).collect();
            let planes = Image::planes(&planes, [3, height, width]).unwrap();
            let want = of_loader("normalize", &pictures);
            for images in [[images[0], images[1]], [images[0], planes]] {
                let batch = transform.batch_on_device(&images, &keys).unwrap();
                assert!(batch.to_host("image").unwrap() == want);
            }
            let floats = vec![0.5_f32; 3 * 70 * 70];
            let floats = Image::pixels(&floats, [70, 70, 3]).unwrap();
            let error =
                transform.batch_on_device(&[images[0], floats], &keys).unwrap_err().to_string();
            assert!(error.starts_with("image 1: "), "{error}");
            // A list that sets no size: one kind for each size of images.
            let whole =
                ops![ToDevice::new("cuda:0").unwrap(), Normalize::imagenet(), ToChannelsFirst];
            let whole = Transform::new(whole).unwrap();
            for (image, (size, _)) in images.iter().zip(&pictures) {
                let batch = whole.batch_on_device(&[*image; 2], &keys).unwrap();
                let tensor = batch.device_tensor("image", DeviceStream::Legacy).unwrap();
                assert_eq!(tensor.shape(), [2, 3, size.height as usize, size.width as usize]);
            }
            let error = whole.batch_on_device(&images, &keys).unwrap_err().to_string();
            assert!(error.starts_with("image 1: its array is [3, 73, 88] of f32"), "{error}");
        },
    );
}

/// Every call of the driver fails once: the result is an error, and the next batch is right or an error, too.
#[test]
fn whatever_call_fails_it_is_an_error() {
    const CALLS: [(&str, u32); 8] = [
        ("cuDevicePrimaryCtxRetain", 1),
        ("cuStreamCreate", 2),
        ("cuMemAlloc_v2", 5),
        ("cuMemHostRegister_v2", 2),
        ("cuMemcpyHtoDAsync_v2", 2),
        ("cuEventRecord", 4),
        ("cuLaunchKernel", 2),
        ("cuEventSynchronize", 2),
    ];
    for (call, most) in CALLS {
        for number in 1..=most {
            let code = if number % 2 == 0 { 700 } else { 2 };
            let fail = format!("{call}:{number}:{code}");
            let settings = [NO_COMPILER, NO_CACHE, ("FAKE_CUDA_FAIL", fail.as_str())];
            on_fake_gpu("whatever_call_fails_it_is_an_error", &settings, || {
                let pictures = pictures(4);
                let (images, keys) = (images(&pictures), keys(4));
                let want = of_loader("normalize", &pictures);
                let transform = Transform::new(list("normalize", "cuda:0")).unwrap();
                for _ in 0..4 {
                    let Ok(batch) = transform.batch_on_device(&images, &keys) else { continue };
                    let Ok(found) = batch.to_host("image") else { continue };
                    assert!(found == want);
                }
            });
        }
    }
}
