//! The gain from a second worker for work that only computes, and the cost of reporting phases.
//!
//! A sample is 100 us of arithmetic on its own numbers: nothing is shared, and hardly any memory is
//! used. So if two workers are less than twice as fast, the cause is the engine or the machine: on
//! a machine with fewer than two idle cores the result means nothing.
//!
//! `-- nothing` runs each measurement once, quickly.
#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

mod common;

use common::figures::record;
use common::median;
use std::convert::Infallible;
use std::env;
use std::hint::black_box;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fuseloop::batch::TensorSpec;
use fuseloop::internals::run::RowsMut;
use fuseloop::internals::run::{
    Engine, EngineOptions, FillError, Phase, Progress, RunRequest, Stage,
};
use fuseloop::sample::{Epoch, SampleId, SampleRef};
use fuseloop_ops::DType;

/// Steps of a random generator that take about 100 us.
const STEPS: u64 = 100_000;

struct Compute {
    tensor: TensorSpec,
    /// The number of times that a sample reports its phase.
    switches: u64,
}

impl Compute {
    fn new(switches: u64) -> Self {
        let tensor = TensorSpec::new("x", DType::U8, [8]);
        Self { tensor, switches }
    }
}

impl Stage for Compute {
    type Worker = Progress;
    type Error = Infallible;

    fn outputs(&self) -> &[TensorSpec] {
        std::slice::from_ref(&self.tensor)
    }

    fn worker(&self, watch: Progress) -> Progress {
        watch
    }

    fn fill(
        &self,
        watch: &mut Progress,
        _epoch: Epoch,
        visits: &[SampleRef],
        rows: &mut RowsMut<'_>,
    ) -> Result<(), FillError<Self::Error>> {
        for i in 0..self.switches {
            watch.phase(if i.is_multiple_of(2) { Phase::Read } else { Phase::Kernel });
        }
        let mut state = visits[0].sample.0;
        for _ in 0..STEPS {
            state = black_box(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
        rows.output(0).copy_from_slice(&state.to_ne_bytes());
        Ok(())
    }
}

/// Returns the time that `samples` samples take.
fn time(workers: usize, switches: u64, samples: u64) -> Duration {
    let workers = NonZeroUsize::new(workers).unwrap();
    let engine = Engine::new(EngineOptions { workers, ..EngineOptions::default() }).unwrap();
    let ids = (0..samples).map(SampleId).collect::<Vec<_>>();
    let size = NonZeroUsize::new(64).unwrap();
    let pass = RunRequest::new(Arc::new(Compute::new(switches)), Epoch(0), Box::new(ids), size);
    let begun = Instant::now();
    assert!(engine.start(pass).unwrap().all(|batch| batch.is_ok()));
    begun.elapsed()
}

fn main() {
    let is_full = env::args().any(|arg| arg == "--bench")
        && !env::args().any(|arg| arg == "nothing" || arg == "--test");
    let (rounds, samples) = if is_full { (15, 3200) } else { (1, 64) };
    let (mut gains, mut switches) = (vec![], vec![]);
    // The contenders take turns, so that a slow moment of the machine affects all of them.
    for _ in 0..rounds {
        let (one, two) = (time(1, 0, samples), time(2, 0, samples));
        gains.push(one.as_secs_f64() / two.as_secs_f64());
        let with_phases = time(1, 1000, samples);
        let more = with_phases.as_secs_f64() - one.as_secs_f64();
        switches.push(more * 1e9 / (samples * 1000) as f64);
        println!(
            "1 worker {:6.1} us a sample, 2 workers {:6.1}, 1 worker that tells 1000 phases {:6.1}",
            one.as_secs_f64() * 1e6 / samples as f64,
            two.as_secs_f64() * 1e6 / samples as f64,
            with_phases.as_secs_f64() * 1e6 / samples as f64,
        );
    }
    let gain = median(gains.into_iter());
    let verdict = if gain >= 1.9 { "reached" } else { "MISSED" };
    println!("2 workers over 1: {gain:.2} times, median of {rounds}; aim: >= 1.90: {verdict}");
    record("two workers over one", "arithmetic", gain, "x");
    println!(
        "telling a phase: {:.0} ns, median of {rounds}; aim: <= 60",
        median(switches.into_iter())
    );
}
