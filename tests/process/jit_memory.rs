//! The memory that compiled code leaves behind, and the permissions of its pages.
//! `FUSELOOP_CYCLES=10000` compiles and drops more kernels.
//!
//! There is one test function, because it observes the whole process, which no other test may change
//! meanwhile.

use crate::passed_alone;
use fuseloop::internals::jit::{self, DecodedPixels, Kernel, Scratch};
use fuseloop::internals::plan::{Draws, ImagePlan};
use fuseloop_counts::rounds;
use fuseloop_ops::author::{Dim, ImageType};
use fuseloop_ops::internals::{ImageView, SampleKey};
use fuseloop_ops::*;
use std::fs;
use std::thread;

/// A pipeline with most kinds of code: a resize, means, six orders, a mask, a row function.
fn plan(interpolation: Interpolation) -> ImagePlan {
    let crop = RandomResizedCrop::new(64).unwrap().interpolation(interpolation);
    let ops = ops![
        crop,
        RandomHorizontalFlip::new(0.5).unwrap(),
        ColorJitter::new(0.4, 0.4, 0.4).unwrap(),
        Cutout::new(16).unwrap().fill([9; 3]),
        Normalize::imagenet(),
        Convert::to(DType::F16),
        ToChannelsFirst,
    ];
    let side = Dim { min: 1, max: 65_535 };
    ImagePlan::new(ops, ImageType::decoded(side, side), NumberRule::Fused).unwrap()
}

/// The number of concurrent threads.
const THREADS: u64 = 16;

/// The lines of `/proc/self/maps`: addresses, permissions, mapped file.
fn mappings() -> Vec<String> {
    fs::read_to_string("/proc/self/maps").unwrap().lines().map(str::to_owned).collect()
}

fn permissions(mapping: &str) -> &str {
    mapping.split_whitespace().nth(1).unwrap()
}

/// The number of executable mappings that belong to no file: those of compiled code.
fn code_mappings() -> usize {
    let is_ours = |line: &&String| permissions(line).contains('x') && !line.contains(['/', '[']);
    mappings().iter().filter(is_ours).count()
}

/// Resident memory, in bytes.
fn resident() -> usize {
    let pages = fs::read_to_string("/proc/self/statm").unwrap();
    pages.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

fn compile_and_drop(times: usize) {
    for time in 0..times {
        let interpolation = [Interpolation::Area, Interpolation::Bilinear][time % 2];
        let kernel = Kernel::compile(plan(interpolation)).unwrap();
        assert!(kernel.code_bytes() > 0);
    }
}

/// Runs a sample through a kernel; the result is a function of the sample's number alone.
fn sample(kernel: &Kernel, scratch: &mut Scratch, number: u64) -> Vec<u8> {
    let size = Size::new(40 + number as u32 % 50, 120 - number as u32 % 70);
    let byte = |index: u64| (index.wrapping_mul(number | 1).wrapping_mul(0x9e37_79b9) >> 13) as u8;
    let pixels: Vec<u8> = (0..size.pixels() * 3).map(byte).collect();
    let mut draws = Draws::default();
    kernel.plan().draw(SampleKey::new(5, 0, number), size, &mut draws);
    let mut out = vec![0xAA; kernel.plan().sample_bytes()];
    let view = ImageView::packed(&pixels, size).unwrap();
    kernel.run(scratch, DecodedPixels::whole(view), &draws, &mut out);
    out
}

fn dropped_kernels_leave_nothing_behind() {
    compile_and_drop(50);
    let (mappings_before, code_before, resident_before) =
        (mappings().len(), code_mappings(), resident());
    let cycles = rounds("FUSELOOP_CYCLES");
    compile_and_drop(cycles);
    let grown = resident().saturating_sub(resident_before);
    println!("{cycles} kernels left {grown} bytes");
    assert!(grown < 1 << 20, "{cycles} kernels left {grown} bytes");
    assert_eq!(code_mappings(), code_before, "code stayed mapped");
    // The allocator may split or join a mapping of its own.
    let more = mappings().len().saturating_sub(mappings_before);
    assert!(more <= 2, "{more} more mappings after {cycles} kernels");
}

fn no_page_is_writable_and_executable() {
    let before = code_mappings();
    let kernels: Vec<Kernel> = [Interpolation::Area, Interpolation::Bilinear]
        .map(|interpolation| Kernel::compile(plan(interpolation)).unwrap())
        .into();
    assert!(code_mappings() > before, "the code of living kernels is not seen");
    for mapping in mappings() {
        let permissions = permissions(&mapping);
        assert!(!(permissions.contains('w') && permissions.contains('x')), "{mapping}");
    }
    drop(kernels);
    assert_eq!(code_mappings(), before, "the code of dropped kernels stays mapped");
}

fn one_kernel_gives_equal_bits_from_many_threads() {
    const SAMPLES: u64 = 48;
    for interpolation in [Interpolation::Area, Interpolation::Bilinear] {
        let kernel = Kernel::compile(plan(interpolation)).unwrap();
        let mut scratch = Scratch::default();
        let alone: Vec<Vec<u8>> =
            (0..SAMPLES).map(|number| sample(&kernel, &mut scratch, number)).collect();
        thread::scope(|scope| {
            for first in 0..THREADS {
                let (kernel, alone) = (&kernel, &alone);
                scope.spawn(move || {
                    let mut scratch = Scratch::default();
                    for number in (0..SAMPLES).map(|step| (first * 7 + step * 5) % SAMPLES) {
                        let row = sample(kernel, &mut scratch, number);
                        assert!(row == alone[number as usize], "thread {first}, sample {number}");
                    }
                });
            }
        });
    }
}

fn kernels_compile_in_many_threads_at_once() {
    let alone = Kernel::compile(plan(Interpolation::Area)).unwrap();
    let want = sample(&alone, &mut Scratch::default(), 3);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..4 {
                    let kernel = Kernel::compile(plan(Interpolation::Area)).unwrap();
                    assert!(sample(&kernel, &mut Scratch::default(), 3) == want);
                }
            });
        }
    });
}

#[test]
#[cfg(target_os = "linux")]
fn compiled_code_leaks_nothing_is_never_writable_and_serves_many_threads() {
    if passed_alone(
        "jit_memory::compiled_code_leaks_nothing_is_never_writable_and_serves_many_threads",
    ) {
        return;
    }
    if let Some(reason) = jit::unsupported() {
        println!("skipped: {reason}");
        return;
    }
    dropped_kernels_leave_nothing_behind();
    no_page_is_writable_and_executable();
    one_kernel_gives_equal_bits_from_many_threads();
    kernels_compile_in_many_threads_at_once();
}
