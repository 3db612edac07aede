//! Generated kernels on a real GPU: for any list that the device accepts, the kernels produce the bits
//! of the ops' plain definitions, both by launches alone and through a loader's batches.
//!
//! | variable | |
//! |---|---|
//! | `REQUIRE_GPU=1` | without a GPU the tests fail; otherwise they print a line and end |
//! | `FUSELOOP_GPU_PROGRAMS` | the number of random lists, 200 by default |
//! | `FUSELOOP_NVRTC=/nowhere` | no compiler: `usual_lists` runs the shipped code, the others end |
//!
//! The binary reads no file, so that it runs on any machine it is copied to: `scripts/gpu_check.sh`.

use crate::common::trials::{every_width, random, usual};
use fuseloop::device::bench::{Bench, Resident};
use fuseloop::device::check::CheckBatch;
use fuseloop::internals::device::Gpu;
use fuseloop_counts::rounds;
use fuseloop_ops::Size;

/// The GPU. Without one, prints a line and returns `None`, unless a GPU is required.
fn gpu() -> Option<Bench> {
    match Bench::open(0) {
        Ok(bench) => Some(bench),
        Err(error) => {
            assert!(std::env::var_os("REQUIRE_GPU").is_none_or(|v| v == "0"), "{error}");
            println!("skipped: {error}");
            None
        }
    }
}

/// The GPU and a compiler for kernels of any list.
fn gpu_and_compiler() -> Option<Bench> {
    let bench = gpu()?;
    let compiler = Gpu::compiler();
    if let Err(error) = &compiler {
        println!("skipped: {error}");
    }
    compiler.is_ok().then_some(bench)
}

/// Runs all trials; panics with all that fail.
fn try_all(bench: &Bench, trials: impl Iterator<Item = (String, CheckBatch)>) {
    let (mut count, mut wrong) = (0, vec![]);
    for (words, trial) in trials {
        count += 1;
        let launched = Resident::new(bench, &trial, 1)
            .map_err(|error| error.to_string())
            .and_then(|resident| resident.check().map_err(|failure| failure.to_string()));
        if let Err(failure) = launched {
            wrong.push(format!("{words}: {failure}"));
        } else if let Err(failure) = bench.pipelined(&trial, 4) {
            wrong.push(format!("{words}, as batches: {failure}"));
        }
    }
    println!("{count} programs on {}: {} wrong", bench.info(), wrong.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn random_lists_give_the_bits_of_the_cpu() {
    let Some(bench) = gpu_and_compiler() else { return };
    let count = rounds("FUSELOOP_GPU_PROGRAMS");
    try_all(&bench, (0..count).map(random));
}

#[test]
fn every_width_and_offset_is_right() {
    let Some(bench) = gpu_and_compiler() else { return };
    try_all(&bench, every_width().into_iter());
}

/// Images from one pixel up, in batches of one row and of more rows than one block of the grid's first
/// axis covers.
#[test]
fn usual_lists() {
    let Some(bench) = gpu() else { return };
    for (height, width, count) in [(1, 1, 1), (1, 1, 300), (1, 7, 3), (9, 1, 2), (61, 61, 8)] {
        try_all(&bench, usual(Size::new(height, width), count).into_iter());
    }
}

/// Checks that the tests above can fail: bytes that differ from the oracle's are detected.
#[test]
fn a_wrong_byte_is_seen() {
    let (_, trial) = usual(Size::new(2, 3), 2).remove(0);
    let outcome = trial.run(|launch| {
        let _ = launch;
        Ok(())
    });
    assert!(outcome.is_err(), "nothing was written");
}
