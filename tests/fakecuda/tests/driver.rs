//! The fake driver is as strict as documented: each test makes one of the mistakes that the driver
//! must detect.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod common;

use common::gpu::{self, Handle, Pinned};
use fuseloop_fakecuda::{Report, calls, on_fake_gpu};
use std::panic::catch_unwind;

const PTX: &str = include_str!("../ptx/increment.ptx");

/// Error numbers of `CUresult`.
const INVALID_VALUE: i32 = 1;
const OUT_OF_MEMORY: i32 = 2;
const NOT_INITIALIZED: i32 = 3;
const NO_DEVICE: i32 = 100;
const INVALID_DEVICE: i32 = 101;
const INVALID_CONTEXT: i32 = 201;
const NO_BINARY_FOR_GPU: i32 = 209;
const INVALID_PTX: i32 = 218;
const UNSUPPORTED_PTX_VERSION: i32 = 222;
const INVALID_HANDLE: i32 = 400;
const NOT_FOUND: i32 = 500;
const NOT_READY: i32 = 600;
const ILLEGAL_ADDRESS: i32 = 700;
const ALREADY_REGISTERED: i32 = 712;
const NOT_REGISTERED: i32 = 713;
const MISALIGNED_ADDRESS: i32 = 716;

/// Returns the arguments of `increment`.
fn arguments(from: u64, to: u64, count: u32) -> Vec<u8> {
    [from, to, count.into()].iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn increment() -> Handle {
    gpu::function(gpu::load(PTX.as_bytes()).unwrap(), "increment").unwrap()
}

#[test]
fn what_a_call_needs_is_asked_for() {
    on_fake_gpu("what_a_call_needs_is_asked_for", &[], || {
        assert_eq!(gpu::devices(), Err(NOT_INITIALIZED));
        gpu::init().unwrap();
        assert_eq!(gpu::alloc(16), Err(INVALID_CONTEXT));
        assert_eq!(gpu::enter(1), Err(INVALID_DEVICE));
        gpu::enter(0).unwrap();
        assert_eq!(gpu::alloc(0), Err(INVALID_VALUE));
        assert_eq!(gpu::free(64), Err(INVALID_VALUE));
        assert_eq!(gpu::wait(77, 78), Err(INVALID_HANDLE));
        assert_eq!(gpu::unregister(&[1]), Err(NOT_REGISTERED));
        let bytes = [0; 64];
        gpu::register(&bytes).unwrap();
        assert_eq!(gpu::register(&bytes[8..9]), Err(ALREADY_REGISTERED));
        gpu::unregister(&bytes).unwrap();
    });
}

#[test]
fn no_device_is_an_error_of_the_first_call() {
    let none = [("FAKE_CUDA_DEVICES", "0")];
    on_fake_gpu("no_device_is_an_error_of_the_first_call", &none, || {
        assert_eq!(gpu::init(), Err(NO_DEVICE));
    });
}

#[test]
fn memory_has_an_end_and_comes_back() {
    let little = [("FAKE_CUDA_MEMORY", "10000")];
    on_fake_gpu("memory_has_an_end_and_comes_back", &little, || {
        gpu::open(0).unwrap();
        let first = gpu::alloc(6000).unwrap();
        assert_eq!(first % 256, 0);
        assert_eq!(gpu::download(first, 6000).unwrap(), [0xCD; 6000]);
        assert_eq!(gpu::alloc(6000), Err(OUT_OF_MEMORY));
        gpu::free(first).unwrap();
        assert_eq!(gpu::alloc(6000).unwrap() % 256, 0);
    });
}

#[test]
fn page_locked_memory_is_read_late_and_other_at_once() {
    let slow = [("FAKE_CUDA_SLOW", "upload:30000")];
    on_fake_gpu("page_locked_memory_is_read_late_and_other_at_once", &slow, || {
        gpu::open(0).unwrap();
        let (stream, to) = (gpu::stream().unwrap(), gpu::alloc(64).unwrap());
        let (locked, mut other) = (Pinned::new(32).unwrap(), [1; 32]);
        locked.fill(1);
        locked.upload(to, stream).unwrap();
        gpu::upload(to + 32, &other, stream).unwrap();
        let done = gpu::event().unwrap();
        gpu::record(done, stream).unwrap();
        assert_eq!(gpu::is_done(done), Err(NOT_READY));
        assert_eq!(gpu::is_idle(stream), Err(NOT_READY));
        locked.fill(2);
        other.fill(2);
        gpu::finish(stream).unwrap();
        assert_eq!(gpu::is_done(done), Ok(()));
        assert_eq!(gpu::is_idle(gpu::stream().unwrap()), Ok(()));
        let got = gpu::download(to, 64).unwrap();
        assert_eq!((got[0], got[32], other[0]), (2, 1, 2));
    });
}

#[test]
fn a_copy_of_memory_that_was_freed_breaks_the_device() {
    on_fake_gpu("a_copy_of_memory_that_was_freed_breaks_the_device", &[], || {
        gpu::open(0).unwrap();
        let (stream, memory) = (gpu::stream().unwrap(), gpu::alloc(64).unwrap());
        gpu::fill(memory, 1, 64, stream).unwrap();
        gpu::free(memory).unwrap();
        assert_eq!(gpu::finish(stream), Err(ILLEGAL_ADDRESS));
        assert_eq!(gpu::alloc(64), Err(ILLEGAL_ADDRESS), "for good");
        assert_eq!(Report::now().faults.len(), 1);
    });
}

#[test]
fn memory_unlocked_before_its_copy_breaks_the_device() {
    on_fake_gpu("memory_unlocked_before_its_copy_breaks_the_device", &[], || {
        gpu::open(0).unwrap();
        let (stream, to) = (gpu::stream().unwrap(), gpu::alloc(64).unwrap());
        let bytes = [3; 64];
        gpu::register(&bytes).unwrap();
        gpu::upload(to, &bytes, stream).unwrap();
        gpu::unregister(&bytes).unwrap();
        assert_eq!(gpu::finish(stream), Err(ILLEGAL_ADDRESS));
    });
}

#[test]
fn a_copy_that_is_locked_in_part_is_refused() {
    on_fake_gpu("a_copy_that_is_locked_in_part_is_refused", &[], || {
        gpu::open(0).unwrap();
        let (stream, to) = (gpu::stream().unwrap(), gpu::alloc(64).unwrap());
        let bytes = [3; 64];
        gpu::register(&bytes[..32]).unwrap();
        assert_eq!(gpu::upload(to, &bytes, stream), Err(INVALID_VALUE));
        assert_eq!(gpu::upload(to, &bytes[16..], stream), Err(INVALID_VALUE));
        gpu::upload(to, &bytes[..32], stream).unwrap();
        gpu::upload(to, &bytes[32..], stream).unwrap();
        gpu::finish(stream).unwrap();
        gpu::unregister(&bytes[..32]).unwrap();
    });
}

#[test]
fn devices_do_not_share() {
    on_fake_gpu("devices_do_not_share", &[("FAKE_CUDA_DEVICES", "2")], || {
        gpu::open(1).unwrap();
        let (theirs, their_stream, their_event) =
            (gpu::alloc(64).unwrap(), gpu::stream().unwrap(), gpu::event().unwrap());
        gpu::enter(0).unwrap();
        let (stream, function, ours) =
            (gpu::stream().unwrap(), increment(), gpu::alloc(64).unwrap());
        assert_eq!(gpu::fill(theirs, 0, 64, stream), Err(INVALID_VALUE));
        assert_eq!(gpu::fill(ours, 0, 64, their_stream), Err(INVALID_HANDLE));
        assert_eq!(gpu::record(their_event, stream), Err(INVALID_HANDLE));
        let argument = arguments(ours, theirs, 1);
        assert_eq!(gpu::launch(function, [1, 1], &argument, their_stream), Err(INVALID_HANDLE));
        gpu::launch(function, [1, 1], &argument, stream).unwrap();
        assert_eq!(gpu::finish(stream), Err(ILLEGAL_ADDRESS));
        gpu::finish(their_stream).unwrap();
    });
}

#[test]
fn a_kernel_must_stay_within_what_is_there() {
    let name = "a_kernel_must_stay_within_what_is_there";
    for (seed, offset, count, expected) in [
        ("1", 0, 17, Err(ILLEGAL_ADDRESS)),
        ("2", 2, 1, Err(MISALIGNED_ADDRESS)),
        ("3", 0, 16, Ok(())),
    ] {
        on_fake_gpu(name, &[("FAKE_CUDA_SEED", seed)], || {
            gpu::open(0).unwrap();
            let (stream, from, to) =
                (gpu::stream().unwrap(), gpu::alloc(64).unwrap(), gpu::alloc(128).unwrap());
            let argument = arguments(from + offset, to, count);
            gpu::launch(increment(), [1, 1], &argument, stream).unwrap();
            assert_eq!(gpu::finish(stream), expected);
        });
    }
}

#[test]
fn a_module_that_the_driver_does_not_take_is_refused_with_a_reason() {
    let name = "a_module_that_the_driver_does_not_take_is_refused_with_a_reason";
    on_fake_gpu(name, &[("FAKE_CUDA_DRIVER", "12040"), ("FAKE_CUDA_SM", "80")], || {
        gpu::open(0).unwrap();
        let refused =
            |from: &str, to: &str| gpu::load(PTX.replace(from, to).as_bytes()).unwrap_err();
        let (code, log) = refused(".version 8.0", ".version 8.5");
        assert_eq!(code, UNSUPPORTED_PTX_VERSION);
        assert!(log.contains("Unsupported .version 8.5; current version is '8.4'"), "{log}");
        assert_eq!(refused("sm_75", "sm_90").0, NO_BINARY_FOR_GPU);
        let (code, log) = refused("add.s32", "sad.s32");
        assert_eq!(code, INVALID_PTX);
        assert!(log.contains("sad.s32 is not covered"), "{log}");
        let module = gpu::load(PTX.replace(".version 8.0", ".version 8.4").as_bytes()).unwrap();
        assert_eq!(gpu::function(module, "decrement"), Err(NOT_FOUND));
    });
}

#[test]
fn what_is_left_behind_is_counted() {
    on_fake_gpu("what_is_left_behind_is_counted", &[], || {
        gpu::open(0).unwrap();
        let module = gpu::load(PTX.as_bytes()).unwrap();
        let (stream, event) = (gpu::stream().unwrap(), gpu::event().unwrap());
        let (memory, locked) = (gpu::alloc(100).unwrap(), Pinned::new(8).unwrap());
        let bytes = [0; 8];
        gpu::register(&bytes).unwrap();
        let all = Report {
            allocations: 1,
            bytes: 100,
            streams: 1,
            events: 1,
            modules: 1,
            registered: 1,
            pinned: 1,
            contexts: 1,
            faults: vec![],
        };
        assert_eq!(Report::now(), all);
        gpu::unregister(&bytes).unwrap();
        locked.free().unwrap();
        gpu::free(memory).unwrap();
        gpu::destroy_event(event).unwrap();
        gpu::destroy_stream(stream).unwrap();
        gpu::unload(module).unwrap();
        gpu::release(0).unwrap();
        assert_eq!(Report::now(), Report::default());
    });
}

#[test]
fn calls_fail_as_they_are_told_to() {
    let failures = [("FAKE_CUDA_FAIL", "cuMemAlloc_v2:2:2,cuEventCreate:*:304,cuMemFree_v2:1:700")];
    on_fake_gpu("calls_fail_as_they_are_told_to", &failures, || {
        gpu::open(0).unwrap();
        let memory = gpu::alloc(16).unwrap();
        assert_eq!(gpu::alloc(16), Err(OUT_OF_MEMORY));
        assert!(gpu::alloc(16).is_ok());
        assert_eq!((gpu::event(), gpu::event()), (Err(304), Err(304)));
        assert_eq!(gpu::free(memory), Err(ILLEGAL_ADDRESS));
        assert_eq!(gpu::alloc(16), Err(ILLEGAL_ADDRESS), "for good");
    });
}

#[test]
fn calls_are_written_down() {
    on_fake_gpu("calls_are_written_down", &[("FAKE_CUDA_LOG", "1")], || {
        gpu::init().unwrap();
        assert_eq!(gpu::alloc(16), Err(INVALID_CONTEXT));
        let calls = calls();
        assert_eq!(calls[0], "cuInit[0] = 0");
        assert!(calls[1].starts_with("cuMemAlloc_v2[") && calls[1].ends_with("= 201"), "{calls:?}");
    });
}

/// Returns the parent's message about a child that must fail.
fn failure(run: fn()) -> String {
    let panic = catch_unwind(run).expect_err("the child must fail");
    panic.downcast_ref::<String>().cloned().unwrap_or_default()
}

#[test]
fn a_body_that_fails_fails_its_test() {
    let run = || {
        on_fake_gpu("a_body_that_fails_fails_its_test", &[], || panic!("as it must"));
    };
    if std::env::var_os("FAKE_CUDA_CHILD").is_some() {
        run();
    }
    assert!(failure(run).contains("as it must"));
}

#[test]
fn a_name_that_is_no_test_is_found() {
    assert!(failure(|| on_fake_gpu("no_such_test", &[], || {})).contains("is no test"));
}
