//! The fake NVRTC compiles kernels to code of the host, which the fake driver runs.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod common;

use common::gpu;
use common::nvrtc::Nvrtc;
use fuseloop_fakecuda::{Report, has_host_compiler, on_fake_gpu};

const INCREMENT: &str = include_str!("../ptx/increment.cu");
const OPTIONS: [&str; 3] = ["--gpu-architecture=sm_90", "--fmad=false", "--std=c++17"];

/// Returns the arguments of `increment`.
fn arguments(from: u64, to: u64, count: u32) -> Vec<u8> {
    let count = u64::from(count);
    [from, to, count].iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn words(range: std::ops::Range<u32>) -> Vec<u8> {
    range.flat_map(u32::to_le_bytes).collect()
}

/// Runs `increment` of an image on 1000 words.
fn incremented(image: &[u8]) -> Vec<u8> {
    let module = gpu::load(image).unwrap();
    let increment = gpu::function(module, "increment").unwrap();
    let (from, to) = (gpu::alloc(4000).unwrap(), gpu::alloc(4000).unwrap());
    let stream = gpu::stream().unwrap();
    gpu::upload(from, &words(0..1000), stream).unwrap();
    gpu::launch(increment, [1, 2], &arguments(from, to, 1000), stream).unwrap();
    gpu::finish(stream).unwrap();
    let made = gpu::download(to, 4000).unwrap();
    gpu::free(from).unwrap();
    gpu::free(to).unwrap();
    gpu::destroy_stream(stream).unwrap();
    gpu::unload(module).unwrap();
    made
}

#[test]
fn a_kernel_runs_from_a_cubin_and_from_ptx() {
    if !has_host_compiler() {
        return;
    }
    on_fake_gpu("a_kernel_runs_from_a_cubin_and_from_ptx", &[], || {
        gpu::open(0).unwrap();
        let compiled = Nvrtc::fake().compile(INCREMENT, &OPTIONS).unwrap();
        assert_eq!(incremented(&compiled.cubin), words(1..1001));
        assert_eq!(incremented(compiled.ptx.as_bytes()), words(1..1001));
        gpu::release(0).unwrap();
        assert_eq!(Report::now(), Report::default());
    });
}

#[test]
fn a_program_that_does_not_compile_says_why() {
    if !has_host_compiler() {
        return;
    }
    on_fake_gpu("a_program_that_does_not_compile_says_why", &[], || {
        let (code, log) = Nvrtc::fake().compile("KERNEL(k, Missing) {}", &OPTIONS).unwrap_err();
        assert_eq!(code, 6);
        assert!(log.contains("Missing"), "{log}");
        let (code, log) = Nvrtc::fake().compile(INCREMENT, &["--fmad=true"]).unwrap_err();
        assert_eq!(code, 5);
        assert!(log.contains("--fmad=true"), "{log}");
    });
}

#[test]
fn a_cubin_is_for_its_own_kind_of_gpu_and_ptx_for_newer_drivers() {
    let name = "a_cubin_is_for_its_own_kind_of_gpu_and_ptx_for_newer_drivers";
    if !has_host_compiler() {
        return;
    }
    let settings =
        [("FAKE_CUDA_SM", "86"), ("FAKE_CUDA_DRIVER", "12040"), ("FAKE_NVRTC_VERSION", "12080")];
    on_fake_gpu(name, &settings, || {
        gpu::open(0).unwrap();
        let compile = |arch: &str| {
            let arch = format!("--gpu-architecture={arch}");
            Nvrtc::fake().compile(INCREMENT, &[&arch, "--fmad=false"]).unwrap()
        };
        assert!(compile("compute_75").cubin.is_empty());
        assert_eq!(gpu::load(&compile("sm_90").cubin).unwrap_err().0, 209);
        assert_eq!(gpu::load(compile("compute_75").ptx.as_bytes()).unwrap_err().0, 222);
        assert_eq!(incremented(&compile("sm_80").cubin), words(1..1001));
    });
}

#[test]
fn threads_of_a_kernel_must_not_meet() {
    let name = "threads_of_a_kernel_must_not_meet";
    if !has_host_compiler() {
        return;
    }
    on_fake_gpu(name, &[], || {
        gpu::open(0).unwrap();
        // The thread that writes last depends on their order, which changes with each launch.
        let source = INCREMENT.replace("a.to[i] =", "a.to[0] =");
        let compiled = Nvrtc::fake().compile(&source, &OPTIONS).unwrap();
        let runs: Vec<Vec<u8>> =
            (0..2).map(|_| incremented(&compiled.cubin)[..4].to_vec()).collect();
        assert_ne!(runs[0], runs[1]);
    });
}

#[test]
fn a_host_build_that_runs_out_of_memory_that_is_there_is_found() {
    let name = "a_host_build_that_runs_out_of_memory_that_is_there_is_found";
    if !has_host_compiler() {
        return;
    }
    let run = |count: u32, at: fn(u64) -> u64| {
        gpu::open(0).unwrap();
        let compiled = Nvrtc::fake().compile(INCREMENT, &OPTIONS).unwrap();
        let increment = gpu::function(gpu::load(&compiled.cubin).unwrap(), "increment").unwrap();
        let (from, to) = (gpu::alloc(4096).unwrap(), gpu::alloc(4000).unwrap());
        let stream = gpu::stream().unwrap();
        gpu::launch(increment, [1, 1], &arguments(at(from), to, count), stream).unwrap();
        gpu::finish(stream)
    };
    // Writes between the end of the allocation and the next multiple of 256.
    on_fake_gpu(name, &[("FAKE_CUDA_SEED", "1")], || {
        assert_eq!(run(1001, |from| from), Err(700));
    });
    on_fake_gpu(name, &[("FAKE_CUDA_SEED", "2")], || {
        assert_eq!(run(1, |from| from + 2), Err(716));
    });
    // Writes after the last memory page: a crash.
    let crash = || {
        on_fake_gpu(name, &[("FAKE_CUDA_SEED", "3")], || {
            let _ = run(1025, |from| from);
        });
    };
    let failed = std::panic::catch_unwind(crash);
    if std::env::var_os("FAKE_CUDA_CHILD").is_none() {
        let text = failed.unwrap_err().downcast_ref::<String>().cloned().unwrap_or_default();
        assert!(text.contains("by signal"), "{text}");
    }
}

#[test]
fn freed_memory_in_an_argument_is_found() {
    let name = "freed_memory_in_an_argument_is_found";
    if !has_host_compiler() {
        return;
    }
    on_fake_gpu(name, &[], || {
        gpu::open(0).unwrap();
        let compiled = Nvrtc::fake().compile(INCREMENT, &OPTIONS).unwrap();
        let increment = gpu::function(gpu::load(&compiled.cubin).unwrap(), "increment").unwrap();
        let (from, to) = (gpu::alloc(4).unwrap(), gpu::alloc(4).unwrap());
        let stream = gpu::stream().unwrap();
        gpu::free(from).unwrap();
        gpu::launch(increment, [1, 1], &arguments(from, to, 1), stream).unwrap();
        assert_eq!(gpu::finish(stream), Err(700));
    });
}
