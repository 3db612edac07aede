//! The compiler's second oracle: what Cranelift's interpreter makes of the code of random lists.
//!
//! The interpreter and the ops' plain meanings must agree in every bit, and the code may touch no
//! byte that the host does not vouch for: where guard pages see what lies past a page, this sees
//! every byte. `FUSELOOP_LISTS=2000` tries more lists.

#![allow(clippy::unwrap_used, reason = "a test fails with what it unwraps")]

mod common;

use common::interpreter::interpret;
use common::lists::{List, first_difference, noise};
use fuseloop::jit::check::{Run, scratch_with};
use fuseloop::jit::{self, Kernel, Scratch, Source};
use fuseloop::plan::Draws;
use fuseloop_ops::*;
use std::sync::{Arc, Mutex};

/// What was run in place of native code: runs and instructions, or the first thing refused.
type Seen = Arc<Mutex<Result<(u64, u64), String>>>;

/// Runs a sample with the interpreter in place of native code; `change` comes first. Gives the
/// runs and instructions, or what was refused, and the output.
fn interpreted(
    kernel: &Kernel,
    source: Source<'_>,
    draws: &Draws,
    mut change: impl FnMut(&mut Run) + Send + 'static,
) -> (Result<(u64, u64), String>, Vec<u8>) {
    let seen: Seen = Arc::new(Mutex::new(Ok((0, 0))));
    let noted = Arc::clone(&seen);
    let mut scratch = scratch_with(Box::new(move |run| {
        change(run);
        let mut noted = noted.lock().unwrap();
        let Ok((runs, instructions)) = &*noted else { return };
        let (runs, instructions) = (runs + 1, *instructions);
        *noted = interpret(run).map(|count| (runs, instructions + count));
    }));
    let mut out = vec![0xAA; kernel.plan().sample_bytes()];
    kernel.run(&mut scratch, source, draws, &mut out);
    drop(scratch);
    let seen = seen.lock().unwrap().clone();
    (seen, out)
}

/// A list, its kernel, a picture for it and what is drawn.
struct Case {
    list: List,
    kernel: Kernel,
    size: Size,
    pixels: Vec<u8>,
    draws: Draws,
    want: Vec<u8>,
}

impl Case {
    fn random(number: u64) -> Self {
        let mut rng = SampleKey::new(31, 0, number).op(0);
        let size = Size::new(1 + rng.below(24), 1 + rng.below(48));
        let (list, _) = List::random(&mut rng, size, 6);
        let pixels = noise(&mut rng, size);
        Self::new(list, size, pixels, number)
    }

    fn new(list: List, size: Size, pixels: Vec<u8>, number: u64) -> Self {
        let kernel = Kernel::compile(list.plan().unwrap()).unwrap();
        let mut draws = Draws::default();
        kernel.plan().draw(SampleKey::new(1, 2, number), size, &mut draws);
        let view = ImageView::packed(&pixels, size).unwrap();
        let want = jit::evaluate(kernel.plan(), &view, &draws);
        Self { list, kernel, size, pixels, draws, want }
    }

    fn interpreted(
        &self,
        change: impl FnMut(&mut Run) + Send + 'static,
    ) -> (Result<(u64, u64), String>, Vec<u8>) {
        let source = Source::whole(ImageView::packed(&self.pixels, self.size).unwrap());
        interpreted(&self.kernel, source, &self.draws, change)
    }

    /// Runs and instructions, or what is wrong.
    fn checked(&self) -> Result<(u64, u64), String> {
        let (seen, out) = self.interpreted(|_| {});
        let seen = seen?;
        let mut native = vec![0xAA; out.len()];
        let source = Source::whole(ImageView::packed(&self.pixels, self.size).unwrap());
        self.kernel.run(&mut Scratch::default(), source, &self.draws, &mut native);
        if let Some(difference) = first_difference(self.kernel.plan(), &native, &out) {
            return Err(format!("native code is not what was interpreted: {difference}"));
        }
        match first_difference(self.kernel.plan(), &out, &self.want) {
            Some(difference) => Err(difference),
            None => Ok(seen),
        }
    }
}

fn is_skipped() -> bool {
    jit::unsupported().inspect(|reason| println!("skipped: {reason}")).is_some()
}

#[test]
fn the_interpreter_gives_the_bits_of_the_ops_and_touches_no_other_byte() {
    if is_skipped() {
        return;
    }
    let lists =
        std::env::var("FUSELOOP_LISTS").map_or(200, |n| n.parse::<u64>().unwrap().min(2000));
    let (mut runs, mut instructions) = (0, 0);
    for number in 0..lists {
        let case = Case::random(number);
        let (more_runs, more) = case.checked().unwrap_or_else(|wrong| {
            let Case { list, size, pixels, .. } = case;
            let again = |list: &List| Case::new(list.clone(), size, pixels.clone(), number);
            let shortest = list.shortest(|list| again(list).checked().is_err());
            panic!("list {number}, {size}: {wrong}\nshortest: {shortest:#?}");
        });
        runs += more_runs;
        instructions += more;
    }
    println!("{lists} lists: {runs} blocks, {instructions} instructions");
    assert!(runs >= lists / 2, "most pictures are wide enough for code");
}

/// The oracle's own test: the code reaches the end of its pixels and of its output, so that a
/// region shorter by one byte is an error.
#[test]
fn one_byte_cut_from_a_region_is_caught() {
    if is_skipped() {
        return;
    }
    let ops = ops![RandomBrightness::new(0.5, 1.0).unwrap(), Normalize::imagenet()];
    let size = Size::new(5, 19);
    let list = List {
        ops,
        input: ImageType::decoded(Dim::fixed(size.height), Dim::fixed(size.width)),
        rule: NumberRule::Fused,
        streams: false,
    };
    let kernel = Kernel::compile(list.plan().unwrap()).unwrap();
    let pixels = vec![9; 5 * 19 * 3];
    let mut draws = Draws::default();
    kernel.plan().draw(SampleKey::new(1, 2, 3), size, &mut draws);
    for name in ["pixels", "output", "record", "constants"] {
        let cut = move |run: &mut Run| {
            let region = run.regions().iter().position(|region| region.name == name);
            run.cut(region.unwrap());
        };
        let source = Source::whole(ImageView::packed(&pixels, size).unwrap());
        let (seen, _) = interpreted(&kernel, source, &draws, cut);
        let refused = seen.expect_err(name);
        assert!(refused.contains("load") || refused.contains("store"), "{name}: {refused}");
    }
    let source = Source::whole(ImageView::packed(&pixels, size).unwrap());
    assert!(interpreted(&kernel, source, &draws, |_| {}).0.is_ok(), "nothing cut");
}
