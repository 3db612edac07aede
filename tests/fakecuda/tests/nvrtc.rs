//! The fake NVRTC: kernels become code of the host, which the fake driver runs.

mod common;

use common::gpu;
use common::nvrtc::Nvrtc;
use fuseloop_fakecuda::{Report, has_host_compiler, on_fake_gpu};

const INCREMENT: &str = include_str!("../ptx/increment.cu");
const OPTIONS: [&str; 3] = ["--gpu-architecture=sm_90", "--fmad=false", "--std=c++17"];

/// Arguments of `increment`.
fn arguments(from: u64, to: u64, count: u32) -> Vec<u8> {
    let count = u64::from(count);
    [from, to, count].iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn words(range: std::ops::Range<u32>) -> Vec<u8> {
    range.flat_map(u32::to_le_bytes).collect()
}

/// What `increment` of an image makes of 1000 words.
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
