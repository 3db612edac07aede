//! Samples that run together have the bits of single samples: the code loops over their parameter blocks, and what
//! these refer to stays where it is until the call.
//!
//! The code of random lists runs in the interpreter, which checks every access, and natively. Images differ in size
//! where the list takes them, so that buffers grow while samples wait. `FUSELOOP_CHUNKS=2000` tries more lists.

use crate::common::guarded::{Guard, Guarded};
use crate::common::interpreter::interpret;
use crate::common::lists::{List, first_difference, noise, view};
use crate::interpreted::is_skipped;
use fuseloop::internals::jit::check::{
    BlockRun, CodegenSettings, VectorBits, run_chunk_with, widest_vectors, with_settings,
};
use fuseloop::internals::jit::{self, DecodedPixels, Kernel, Scratch};
use fuseloop::internals::plan::Draws;
use fuseloop_counts::numbers;
use fuseloop_ops::author::{Dim, ImageType};
use fuseloop_ops::internals::SampleKey;
use fuseloop_ops::*;

/// The samples of a chunk.
const SAMPLES: u64 = 5;

/// A sample, and the row that it must have.
struct Sample {
    size: Size,
    pixels: Vec<u8>,
    draws: Draws,
    want: Vec<u8>,
}

impl Sample {
    fn new(kernel: &Kernel, list: &List, size: Size, key: SampleKey) -> Self {
        let plan = kernel.plan();
        let pixels = noise(&mut key.op(99), size, &list.input);
        let mut draws = Draws::default();
        plan.draw(key, size, &mut draws);
        let want = jit::evaluate(plan, &view(plan, &pixels, size), &draws);
        Self { size, pixels, draws, want }
    }

    fn source(&self, kernel: &Kernel) -> DecodedPixels<'_> {
        DecodedPixels::whole(view(kernel.plan(), &self.pixels, self.size))
    }
}

/// Returns the list for images of any smaller size too, if it takes them.
fn of_any_size(list: List) -> List {
    let any = |side: Dim| Dim { min: 1, ..side };
    let input =
        ImageType { height: any(list.input.height), width: any(list.input.width), ..list.input };
    let ranged = List { input, ..list.clone() };
    if ranged.plan().is_some() { ranged } else { list }
}

/// Runs the samples of a list together, and returns the number of calls of compiled code that the interpreter counted,
/// or the first failure.
fn checked(number: u64) -> Result<usize, String> {
    let bits = [VectorBits::V128, VectorBits::V256, VectorBits::V512][number as usize % 3];
    let byte_maps_from = Some(if number.is_multiple_of(2) { 0 } else { u64::MAX });
    let settings =
        CodegenSettings { bits: Some(bits), byte_maps_from, ..CodegenSettings::default() };
    let mut rng = SampleKey::new(53, 0, number).op(0);
    let size = Size::new(1 + rng.below(24), 1 + rng.below(48));
    let list = of_any_size(List::random(&mut rng, size, 5).0);
    with_settings(settings, || {
        let kernel = Kernel::compile(list.plan().unwrap()).unwrap();
        let input = kernel.plan().input();
        let samples: Vec<Sample> = (0..SAMPLES)
            .map(|sample| {
                let [height, width] = [input.height, input.width]
                    .map(|side| side.min + rng.below(side.max - side.min + 1));
                let key = SampleKey::new(7, number as u32, sample);
                Sample::new(&kernel, &list, Size::new(height, width), key)
            })
            .collect();
        let mut calls = 0;
        let mut seen = Ok(());
        let mut hook = |run: &mut BlockRun| {
            calls += 1;
            let refused = interpret(run).err();
            seen = seen.clone().and(refused.map_or(Ok(()), Err));
        };
        let together = rows(&samples, |rows| {
            let each = samples.iter().zip(rows);
            let each = each.map(|(own, row)| (&own.draws, own.source(&kernel), row));
            run_chunk_with(&kernel, each, &mut hook).unwrap();
        });
        seen?;
        compare(&kernel, &samples, &together)?;
        if bits.count() <= widest_vectors().count() {
            // Memory is used again, with the addresses of samples before in it.
            let mut scratch = Scratch::default();
            for _ in 0..2 {
                let together = rows(&samples, |rows| {
                    let mut run = kernel.run_chunk(&mut scratch);
                    for (own, row) in samples.iter().zip(rows) {
                        run.add(own.source(&kernel), &own.draws, row).unwrap();
                    }
                    run.end();
                });
                compare(&kernel, &samples, &together)?;
            }
        }
        Ok(calls)
    })
}

/// Returns the rows that `write` writes, each before a page without access.
fn rows<'s>(samples: &'s [Sample], write: impl FnOnce(Vec<&mut [u8]>)) -> Vec<Guarded> {
    let row = |own: &'s Sample| Guarded::filled(own.want.len(), 0xAA, Guard::After);
    let mut rows: Vec<Guarded> = samples.iter().map(row).collect();
    write(rows.iter_mut().map(|row| &mut row[..]).collect());
    rows
}

fn compare(kernel: &Kernel, samples: &[Sample], rows: &[Guarded]) -> Result<(), String> {
    for (index, (own, row)) in samples.iter().zip(rows).enumerate() {
        if let Some(found) = first_difference(kernel.plan(), row, &own.want) {
            return Err(format!("sample {index} of the chunk: {found}, {:?}", own.draws));
        }
    }
    Ok(())
}

#[test]
fn samples_of_a_chunk_have_the_bits_of_single_samples() {
    if is_skipped() {
        return;
    }
    let (mut shared, mut lists) = (0, 0);
    for number in numbers("FUSELOOP_CHUNKS") {
        let calls = checked(number).unwrap_or_else(|failure| panic!("list {number}: {failure}"));
        lists += 1;
        shared += usize::from(calls > 0 && calls < SAMPLES as usize);
    }
    assert!(4 * shared > lists, "samples shared calls in {shared} of {lists} lists only");
}

#[test]
fn loop_bodies_take_the_samples_that_draw_them() {
    if is_skipped() {
        return;
    }
    let maybe = RandomApply::new(ops![RandomGrayscale::new(1.0).unwrap()]);
    let list = ops![maybe, Normalize::cifar10(), ToChannelsFirst];
    let size = Size::new(9, 33);
    let input = ImageType::decoded(Dim::fixed(size.height), Dim::fixed(size.width));
    let list = List { ops: list, input, rule: NumberRule::Fused, streams: false };
    let kernel = Kernel::compile(list.plan().unwrap()).unwrap();
    let samples: Vec<Sample> = (0..32)
        .map(|sample| Sample::new(&kernel, &list, size, SampleKey::new(3, 0, sample)))
        .collect();
    let mut calls = 0;
    let mut hook = |run: &mut BlockRun| {
        calls += 1;
        interpret(run).unwrap();
    };
    let together = rows(&samples, |rows| {
        let each = samples.iter().zip(rows);
        let each = each.map(|(own, row)| (&own.draws, own.source(&kernel), row));
        run_chunk_with(&kernel, each, &mut hook).unwrap();
    });
    assert_eq!(compare(&kernel, &samples, &together), Ok(()));
    assert_eq!(calls, 2, "one call with gray values and one without");
}
