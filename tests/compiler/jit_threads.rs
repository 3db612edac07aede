//! Many threads compile at once, and run one kernel at once: each gets the result of a single thread.
//!
//! `FUSELOOP_COMPILE_ROUNDS=1000` and `FUSELOOP_CALL_ROUNDS=1000` try more lists.

use crate::common::lists::{List, first_difference, noise, view};
use fuseloop::internals::jit::{self, DecodedPixels, Kernel, Scratch};
use fuseloop::internals::plan::Draws;
use fuseloop_counts::numbers;
use fuseloop_ops::internals::{ImageView, SampleKey};
use fuseloop_ops::*;
use std::sync::Barrier;
use std::thread;

/// The number of threads that start together.
const THREADS: u64 = 16;

/// The number of samples in a round: each may need a loop body of its own.
const SAMPLES: u64 = 4;

/// A list, an image for it, and the outputs of its samples by the oracle.
struct Round {
    list: List,
    size: Size,
    pixels: Vec<u8>,
    want: Vec<Vec<u8>>,
}

impl Round {
    fn random(number: u64) -> Self {
        let mut rng = SampleKey::new(16, 0, number).op(0);
        let size = Size::new(8 + rng.below(24), 8 + rng.below(40));
        let (list, _) = List::random(&mut rng, size, 5);
        let pixels = noise(&mut rng, size, &list.input);
        let mut round = Self { list, size, pixels, want: vec![] };
        let plan = round.list.plan().unwrap();
        round.want = (0..SAMPLES)
            .map(|sample| {
                let mut draws = Draws::default();
                plan.draw(SampleKey::new(1, 2, sample), size, &mut draws);
                jit::evaluate(&plan, &round.view(), &draws)
            })
            .collect();
        round
    }

    fn view(&self) -> ImageView<'_> {
        view(&self.list.plan().unwrap(), &self.pixels, self.size)
    }

    /// Runs one sample, and compares the result.
    fn assert_same(&self, kernel: &Kernel, scratch: &mut Scratch, sample: u64) {
        let mut draws = Draws::default();
        kernel.plan().draw(SampleKey::new(1, 2, sample), self.size, &mut draws);
        let mut out = vec![0xAA; kernel.plan().sample_bytes()];
        kernel.run(scratch, DecodedPixels::whole(self.view()), &draws, &mut out);
        let difference = first_difference(kernel.plan(), &out, &self.want[sample as usize]);
        assert!(difference.is_none(), "sample {sample}: {}\n{:#?}", difference.unwrap(), self.list);
    }
}

/// Runs `work` on all threads, which start together; each gets its number.
fn together(work: impl Fn(u64) + Sync) {
    let barrier = Barrier::new(THREADS as usize);
    thread::scope(|scope| {
        for number in 0..THREADS {
            let (work, barrier) = (&work, &barrier);
            scope.spawn(move || {
                barrier.wait();
                work(number);
            });
        }
    });
}

#[test]
fn sixteen_threads_that_compile_at_once_give_what_one_gives() {
    for number in numbers("FUSELOOP_COMPILE_ROUNDS") {
        let round = Round::random(number);
        together(|thread| {
            let kernel = Kernel::compile(round.list.plan().unwrap()).unwrap();
            round.assert_same(&kernel, &mut Scratch::default(), thread % SAMPLES);
        });
    }
}

/// A loop body is compiled when a sample first needs it; no thread waits for another.
#[test]
fn one_kernel_called_by_sixteen_threads_gives_what_one_gives() {
    for number in numbers("FUSELOOP_CALL_ROUNDS") {
        let round = Round::random(number);
        let kernel = Kernel::compile(round.list.plan().unwrap()).unwrap();
        together(|thread| {
            let mut scratch = Scratch::default();
            for turn in 0..2 * SAMPLES {
                round.assert_same(&kernel, &mut scratch, (thread + turn) % SAMPLES);
            }
        });
    }
}
