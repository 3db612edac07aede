//! Generated GPU kernels, built for the host: for any list that the device accepts, its kernels produce
//! the bits of the ops' plain definitions, and access no byte outside their tensors.
//!
//! The host's C++ compiler compiles the exact text that NVRTC compiles, with `kernels/cuda/host_cuda.h`
//! in place of the device, many programs in one library. Threads run one after the other, then once more
//! in the opposite order. Misaligned accesses, which fault on a device, are counted.
//! `FUSELOOP_KERNELS=2000` tries more programs.

#![allow(unsafe_code, reason = "kernels are called by address")]

use crate::common::random_ops::{self, Function, Maths};
use crate::common::trials::{device, every_width, pictures, random};
use fuseloop::device::check::{CheckBatch, Launch};
use fuseloop::internals::plan::ImagePlan;
use fuseloop_counts::rounds;
use fuseloop_ops::author::{Dim, ImageType};
use fuseloop_ops::internals::SampleKey;
use fuseloop_ops::*;
use libloading::Library;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

/// The number of programs compiled together.
const TOGETHER: usize = 30;

/// The type of the entry points that `KERNEL` of host_cuda.h defines.
type Entry = unsafe extern "C" fn(*const c_void, u32, u32, u32, u32) -> i32;

/// A text and its replacement, applied everywhere.
type Bug = (&'static str, &'static str);

/// Programs as one library.
struct Built {
    library: Library,
    _folder: tempfile::TempDir,
}

/// Compiles the sources as one file. Without a compiler, prints a line and returns `None`.
fn build(sources: &[(usize, &CheckBatch)], bug: Option<Bug>) -> Option<Built> {
    let folder = tempfile::tempdir().unwrap();
    let host = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels/cuda");
    let mut text = fuseloop_kernels::CUDA_PRELUDE.to_owned();
    for (number, trial) in sources {
        let _ = writeln!(text, "#undef SUMS\nnamespace program{number} {{");
        let kernel = format!("KERNEL(program{number}_");
        text.push_str(&body(trial).replace("KERNEL(", &kernel));
        text.push_str("}\n");
    }
    let (cpp, library) = (folder.path().join("kernels.cpp"), folder.path().join("kernels.so"));
    if let Some((from, to)) = bug {
        assert!(text.contains(from), "no kernel has `{from}`");
        text = text.replace(from, to);
    }
    std::fs::write(&cpp, text).unwrap();
    let flags = [
        "-std=c++17",
        "-O1",
        "-ffp-contract=off",
        "-fno-strict-aliasing",
        "-w",
        "-shared",
        "-fPIC",
    ];
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "g++".into());
    let output = Command::new(&compiler)
        .args(flags)
        .args(if std::is_x86_feature_detected!("fma") { vec!["-mfma"] } else { vec![] })
        .arg("-I")
        .arg(host)
        .arg(&cpp)
        .arg("-o")
        .arg(&library)
        .output();
    let Ok(output) = output else {
        println!("skipped: no C++ compiler ({compiler})");
        return None;
    };
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}", log.lines().take(40).collect::<Vec<_>>().join("\n"));
    // SAFETY: the library was just built from our own kernels, and runs no code when loaded.
    let library = unsafe { Library::new(&library) }.unwrap();
    Some(Built { library, _folder: folder })
}

impl Built {
    /// Runs a program in both orders of threads; returns the first failure, if any.
    fn wrong(&self, number: usize, trial: &CheckBatch) -> Option<String> {
        [0, 1].into_iter().find_map(|backwards| {
            let launch = |launch: Launch<'_>| self.launch(number, &launch, backwards);
            let failed = trial.run(launch).err()?;
            Some(format!("backwards {backwards}: {failed}"))
        })
    }

    fn launch(&self, number: usize, launch: &Launch<'_>, backwards: u32) -> Result<(), String> {
        let name = format!("program{number}_{}\0", launch.entry);
        // SAFETY: `KERNEL` of host_cuda.h declares every entry with this type.
        let entry =
            unsafe { self.library.get::<Entry>(name.as_bytes()) }.map_err(|e| e.to_string())?;
        let arguments = launch.arguments.as_ptr().cast();
        // Two blocks and 64 threads, so that loops run more than once.
        let (parts, threads) = (launch.parts.clamp(1, 2), 64);
        // SAFETY: the arguments are the struct that the program declares, and point to memory of the
        // trial, which outlives the call.
        match unsafe { entry(arguments, launch.rows, parts, threads, backwards) } {
            0 => Ok(()),
            count => Err(format!("{count} misaligned accesses")),
        }
    }
}

/// Runs all programs, [`TOGETHER`] of them per library; panics with the first that fails.
fn try_all(trials: &[(String, CheckBatch)]) {
    let numbered: Vec<_> = trials.iter().enumerate().collect();
    for some in numbered.chunks(TOGETHER) {
        let sources: Vec<_> = some.iter().map(|(number, (_, trial))| (*number, trial)).collect();
        let Some(built) = build(&sources, None) else { return };
        for (number, (words, trial)) in some {
            if let Some(wrong) = built.wrong(*number, trial) {
                panic!("{words}: {wrong}\n{}", body(trial));
            }
        }
    }
}

fn body(trial: &CheckBatch) -> &str {
    trial.source().strip_prefix(fuseloop_kernels::CUDA_PRELUDE).unwrap()
}

#[test]
fn random_lists_give_the_same_bits_in_kernels_and_evaluated() {
    let count = rounds("FUSELOOP_KERNELS");
    let trials: Vec<_> = (0..count).map(random).collect();
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for (words, _) in &trials {
        let after = words.split("ToDevice").nth(1).unwrap();
        for name in random_ops::names().iter().filter(|name| after.contains(**name)) {
            *seen.entry(name).or_default() += 1;
        }
    }
    println!("{count} programs; on the device: {seen:?}");
    try_all(&trials);
}

/// Every width modulo 8, and every offset at which a flipped, shifted row may start.
#[test]
fn every_width_and_offset_is_right() {
    try_all(&every_width());
}

/// Parameters and sizes are arguments: pipelines that differ only in them share one text.
#[test]
fn one_text_serves_all_sizes_and_numbers() {
    let source = |side: u32, normalize: Normalize, p: f64| {
        let flip = RandomHorizontalFlip::new(p).unwrap();
        let ops = ops![device(), flip, normalize, Convert::to(DType::F16), ToChannelsFirst];
        let input = ImageType::decoded(Dim::fixed(side), Dim::fixed(side));
        let plan = ImagePlan::on_device(ops, input, NumberRule::Fused).unwrap();
        let size = Size::new(side, side);
        let pictures = [(size, vec![0; 3 * size.pixels() as usize])];
        CheckBatch::new(plan, None, &pictures, 0).unwrap().source().to_owned()
    };
    let half = Normalize::levels([127.5; 3], [127.5; 3]).unwrap();
    assert_eq!(source(16, Normalize::imagenet(), 0.5), source(31, half, 1.0));
}

/// An op that a device can't run is refused, with the op's position and the next step.
#[test]
fn what_no_kernel_does_is_refused() {
    let refused = |ops: Ops| {
        let input = ImageType::decoded(Dim::fixed(20), Dim::fixed(20));
        let plan = ImagePlan::on_device(ops, input, NumberRule::Fused).unwrap();
        let picture = [(Size::new(20, 20), vec![0; 1200])];
        CheckBatch::new(plan, None, &picture, 0).unwrap_err().to_string()
    };
    let resize = Resize::new((8, 8)).unwrap();
    assert_eq!(
        refused(ops![device(), resize, Normalize::imagenet()]),
        "op 1 of the list, Resize, can't run on a device: it resamples a whole image: put it before ToDevice"
    );
    let error = refused(ops![device(), RandomEqualize::new(1.0).unwrap()]);
    assert!(
        error.contains("op 1 of the list, RandomEqualize") && error.contains("levels"),
        "{error}"
    );
    let error = refused(ops![device(), Normalize::imagenet(), Convert::to(DType::F64)]);
    assert!(error.contains("u8, f16, bf16 and f32"), "{error}");
}

/// The most likely mistakes of a generator or an author of kernels. Each must be detected.
const BUGS: [Bug; 12] = [
    ("left < 8u ? left : 8u", "8u"),
    ("width % 8u == 0", "true"),
    ("map[2] < 0 ? first - 7 : first", "first"),
    ("first + map[2] * i", "first + i"),
    ("off * 8u", "0u"),
    ("y >= mix.y0 &&", "y > mix.y0 &&"),
    ("mul_rn(partner, mix.rest)", "mul_rn(partner, mix.own)"),
    ("a, mix.partner,", "a, row,"),
    ("if (x + i < (i32)width) sum", "sum"),
    ("order >> (4u * part)", "order >> (4u * 0u)"),
    ("x + i < x1)", "x + i <= x1)"),
    ("larger(lesser(v, 255.0f), 0.0f)", "lesser(v, 255.0f)"),
];

/// A few programs that together use every feature.
fn everything() -> Vec<CheckBatch> {
    let flip = || RandomHorizontalFlip::new(0.5).unwrap();
    let jitter = || ColorJitter::new(0.8, 0.8, 0.8).unwrap();
    let mixup = || MixUp::new(0.4).unwrap().per_sample();
    let cutmix = || CutMix::new(1.0).unwrap().per_sample();
    let translate = || RandomTranslate::new(5).unwrap().fill([9, 8, 7]);
    let negative = ops![device(), Normalize::imagenet(), Convert::to(DType::U8)];
    let lists: [(Size, Ops); 5] = [
        (Size::new(3, 9), negative),
        (
            Size::new(7, 21),
            ops![device(), flip(), RandomCrop::new((5, 19)).unwrap(), ToChannelsFirst],
        ),
        (Size::new(9, 29), ops![device(), translate(), jitter(), Normalize::imagenet(), cutmix()]),
        (Size::new(8, 24), ops![device(), flip(), Normalize::imagenet(), ToChannelsFirst, mixup()]),
        (Size::new(8, 24), ops![device(), jitter(), Convert::to(DType::F16), cutmix(), mixup()]),
    ];
    let trial = |(size, ops): (Size, Ops)| {
        let input = ImageType::decoded(Dim::fixed(size.height), Dim::fixed(size.width));
        let plan = ImagePlan::on_device(ops, input, NumberRule::Fused).unwrap();
        let mut rng = SampleKey::new(8, size.width, 0).op(0);
        CheckBatch::new(plan, None, &pictures(&mut rng, size, 8), 3).unwrap()
    };
    lists.map(trial).into()
}

#[test]
fn functions_of_any_bits_have_the_same_bits_in_kernels_and_evaluated() {
    let trial = |function: Function| {
        let ops = ops![device(), Maths { function, of_bits: true }, Convert::to(DType::F32)];
        let size = Size::new(60, 80);
        let input = ImageType::decoded(Dim::fixed(size.height), Dim::fixed(size.width));
        let plan = ImagePlan::on_device(ops, input, NumberRule::Fused).unwrap();
        let mut rng = SampleKey::new(17, 0, 0).op(0);
        let trial = CheckBatch::new(plan, None, &pictures(&mut rng, size, 8), 3).unwrap();
        (format!("{function:?}"), trial)
    };
    try_all(&Function::ALL.map(trial));
}

#[test]
fn a_planted_bug_is_found() {
    let trials = everything();
    let numbered: Vec<(usize, &CheckBatch)> = trials.iter().enumerate().collect();
    let wrong = |bug| {
        let built = build(&numbered, bug)?;
        Some(numbered.iter().find_map(|(number, trial)| built.wrong(*number, trial)))
    };
    let Some(none) = wrong(None) else { return };
    assert_eq!(none, None, "without a bug");
    for bug in BUGS {
        let found = wrong(Some(bug)).unwrap();
        assert!(found.is_some(), "`{}` in place of `{}` was not found", bug.1, bug.0);
    }
}
