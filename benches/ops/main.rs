//! Every op: compiled alone, as plain Rust, and its added cost within a list. One table, in
//! nanoseconds per pixel of the output.
//!
//! | column | |
//! |---|---|
//! | compiled | the op alone on an image of 256x256, bytes to bytes |
//! | plain | the same as a pass over memory in plain Rust, compiled by rustc for AVX2: [`plain`] |
//! | ratio | compiled divided by plain: below 1, compiled is faster |
//! | normalized | the op, then normalize and channels first to f32: only for ops on a single pixel |
//! | added | crop 224, flip, the op, normalize, channels first, minus the same list without the op |
//!
//! The aim is below 0.4 added by an op on a single pixel; a row above the aim says so.
//!
//! All contenders of a row run in turn, round by round, on an image that stays in the cache, with
//! the same [`DRAWS`] draws in each run; figures are medians over the rounds. First, each output is
//! compared with the oracle's; the output of the plain passes is compared with the oracle's values
//! under [`NumberRule::Exact`]: plain Rust truncates after each op, which costs the same as
//! rounding.
//!
//! `cargo bench --bench ops -- Random` measures the ops whose name contains `Random`; with
//! `--test`, outputs are compared and nothing is measured.

#[path = "../common/mod.rs"]
mod common;
mod list;
#[path = "../common/plain.rs"]
mod plain;

use common::figures::record;
use common::{Bytes, Contender, median, noise, rounds};
use fuseloop::internals::jit::{self, DecodedPixels, Kernel, Scratch};
use fuseloop::internals::plan::{Draws, ImagePlan};
use fuseloop_ops::author::{Dim, ImageType};
use fuseloop_ops::internals::{ImageView, SampleKey};
use fuseloop_ops::*;
use list::{Entry, Kind, Plain, entries};
use plain::{Memory, Pass};
use std::hint::black_box;

/// The size of the image.
const SIZE: Size = Size::new(256, 256);

/// Samples of one run: enough to vary the draws of an op, and few enough to stay in the cache.
const DRAWS: u64 = 8;

/// The aim for the added cost of an op on a single pixel, in nanoseconds per pixel.
const AIM: f64 = 0.4;

/// The largest difference of a normalized value if products are added without fma.
const ROUNDING: f32 = 1e-4;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let measures = arguments.iter().any(|argument| argument == "--bench")
        && !arguments.iter().any(|argument| argument == "--test");
    let filter = arguments.iter().find(|argument| !argument.starts_with('-'));
    let is_asked = |entry: &Entry| filter.is_none_or(|part| entry.name.contains(part.as_str()));
    assert!(jit::unsupported().is_none(), "there is nothing to measure on this machine");

    let picture = noise(SIZE, 1);
    if measures {
        println!("{:<30} {:^25} {:^25} {:>7}", "ns/pixel", "alone", "normalized", "added");
        let columns = format!("{:>8} {:>8} {:>7}", "compiled", "plain", "ratio");
        println!("{:<30} {columns} {columns}", "");
    }
    for entry in entries().into_iter().filter(is_asked) {
        let mut line = Line::new(&entry, &picture);
        if measures {
            println!("{}", line.measured());
        }
    }
}

/// A list of ops under one rule, with its draws.
struct Drawn {
    kernel: Kernel,
    draws: Vec<Draws>,
}

impl Drawn {
    fn new(ops: Ops, rule: NumberRule) -> Self {
        let input = ImageType::decoded(Dim::fixed(SIZE.height), Dim::fixed(SIZE.width));
        let plan = ImagePlan::new(ops, input, rule).expect("the list makes a plan");
        let kernel = Kernel::compile(plan).expect("the plan compiles");
        let draw = |sample| {
            let mut draws = Draws::default();
            kernel.plan().draw(SampleKey::new(1, 0, sample), SIZE, &mut draws);
            draws
        };
        let draws = (0..DRAWS).map(draw).collect();
        Self { kernel, draws }
    }

    /// Returns the oracle's output for each sample.
    fn wanted(&self, picture: &[u8]) -> Vec<Vec<u8>> {
        let evaluate = |draws| jit::evaluate(self.kernel.plan(), &view(picture), draws);
        self.draws.iter().map(evaluate).collect()
    }

    /// Returns the number of pixels in the outputs of one run.
    fn pixels(&self) -> f64 {
        (self.kernel.plan().output_size().pixels() * DRAWS) as f64
    }
}

fn view(picture: &[u8]) -> ImageView<'_> {
    ImageView::packed(picture, SIZE).expect("of this size")
}

/// One contender of a row, and the output of a run.
struct Timed<'a> {
    column: Column,
    pixels: f64,
    contender: Contender<'a>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Column {
    Compiled,
    Plain,
    CompiledNormalized,
    PlainNormalized,
    Without,
    With,
}

/// A row of the table: contenders whose outputs have been compared.
struct Line<'a> {
    name: &'static str,
    kind: Kind,
    timed: Vec<Timed<'a>>,
}

impl<'a> Line<'a> {
    fn new(entry: &Entry, picture: &'a [u8]) -> Self {
        let tail = ops![Normalize::imagenet(), ToChannelsFirst];
        let head = ops![
            RandomCrop::new(224).expect("fixed parameters"),
            RandomHorizontalFlip::new(0.5).expect("fixed parameters"),
        ];
        let normalized = [&entry.ops[..], &tail].concat();
        let mut timed = vec![compiled(entry, Column::Compiled, entry.ops.clone(), picture)];
        timed.extend(plain_bytes(entry, picture));
        if entry.kind == Kind::Pointwise {
            let column = Column::CompiledNormalized;
            timed.push(compiled(entry, column, normalized.clone(), picture));
            timed.extend(plain_normalized(entry, normalized, picture));
        }
        if entry.kind != Kind::Resizing {
            let without = [&head[..], &tail].concat();
            let with = [&head[..], &entry.ops, &tail].concat();
            timed.push(compiled(entry, Column::Without, without, picture));
            timed.push(compiled(entry, Column::With, with, picture));
        }
        Self { name: entry.name, kind: entry.kind, timed }
    }

    /// Measures the contenders now and returns the row's text.
    fn measured(&mut self) -> String {
        let (contenders, pixels): (Vec<_>, Vec<_>) = self
            .timed
            .drain(..)
            .map(|timed| (timed.contender, (timed.column, timed.pixels)))
            .unzip();
        let mut contenders: Vec<Contender<'a>> = contenders;
        let times = rounds(&mut contenders, &mut []);
        let per_pixel = |wanted: Column| {
            let mut columns = pixels.iter().zip(&times);
            let ((_, pixels), times) = columns.find(|((column, _), _)| *column == wanted)?;
            Some(times.iter().map(|nanos| nanos / pixels).collect::<Vec<f64>>())
        };
        let alone = pair(per_pixel(Column::Compiled), per_pixel(Column::Plain));
        let normalized =
            pair(per_pixel(Column::CompiledNormalized), per_pixel(Column::PlainNormalized));
        let added = per_pixel(Column::With).zip(per_pixel(Column::Without));
        let added =
            added.map(|(with, without)| median(with.iter().zip(&without).map(|(a, b)| a - b)));
        let figures = [
            ("compiled", per_pixel(Column::Compiled)),
            ("plain", per_pixel(Column::Plain)),
            ("compiled, normalized", per_pixel(Column::CompiledNormalized)),
            ("plain, normalized", per_pixel(Column::PlainNormalized)),
        ];
        for (how, times) in figures {
            if let Some(times) = times {
                record(self.name, how, median(times.into_iter()), "ns/pixel");
            }
        }
        if let Some(added) = added {
            record(self.name, "added", added, "ns/pixel");
        }
        let is_above = self.kind == Kind::Pointwise && added.is_some_and(|added| added >= AIM);
        let remark = if is_above { "  above the aim" } else { "" };
        format!("{:<30} {alone} {normalized} {}{remark}", self.name, cell(added, 7))
    }
}

/// Formats the columns `compiled plain ratio`.
fn pair(compiled: Option<Vec<f64>>, plain: Option<Vec<f64>>) -> String {
    let middle = |times: &Option<Vec<f64>>| times.as_ref().map(|t| median(t.iter().copied()));
    let (first, second) = (middle(&compiled), middle(&plain));
    let ratio = compiled.zip(plain).map(|(a, b)| median(a.iter().zip(&b).map(|(a, b)| a / b)));
    format!("{} {} {}", cell(first, 8), cell(second, 8), cell(ratio, 7))
}

fn cell(value: Option<f64>, width: usize) -> String {
    match value {
        Some(value) => format!("{value:>width$.3}"),
        None => format!("{:>width$}", "-"),
    }
}

/// Returns the compiled list, after checking its output against the oracle's.
fn compiled<'a>(entry: &Entry, column: Column, ops: Ops, picture: &'a [u8]) -> Timed<'a> {
    let drawn = Drawn::new(ops, NumberRule::Fused);
    let mut scratch = Scratch::default();
    let mut out = Bytes::new(drawn.kernel.plan().sample_bytes());
    let source = DecodedPixels::whole(view(picture));
    for (sample, want) in drawn.wanted(picture).iter().enumerate() {
        drawn.kernel.run(&mut scratch, source, &drawn.draws[sample], out.get());
        assert!(out.get() == want, "{} compiled, sample {sample}", entry.name);
    }
    let pixels = drawn.pixels();
    let contender = Contender::new("compiled", move || {
        for draws in &drawn.draws {
            drawn.kernel.run(&mut scratch, source, draws, out.get());
        }
        black_box(&mut out);
    });
    Timed { column, pixels, contender }
}

/// Returns the passes of each draw, and the number of levels by which their values may be off.
fn passes(entry: &Entry, drawn: &Drawn) -> Option<(Vec<Vec<Pass>>, u8)> {
    match &entry.plain {
        Plain::None => None,
        Plain::Fixed(passes, off) => Some((vec![passes.clone(); drawn.draws.len()], *off)),
        Plain::Drawn => {
            let passes = |draws| plain::passes(drawn.kernel.plan(), draws);
            let passes: Option<Vec<_>> = drawn.draws.iter().map(passes).collect();
            Some((passes.expect("each op has a pass"), 0))
        }
    }
}

/// Returns the plain passes from bytes to bytes, after checking their output against the oracle's.
fn plain_bytes<'a>(entry: &Entry, picture: &'a [u8]) -> Option<Timed<'a>> {
    let drawn = Drawn::new(entry.ops.clone(), NumberRule::Exact);
    let (passes, off) = passes(entry, &drawn)?;
    let mut memory = Memory::default();
    for (sample, (passes, want)) in passes.iter().zip(drawn.wanted(picture)).enumerate() {
        let (made, _) = plain::run(passes, picture, SIZE, &mut memory);
        assert_eq!(made.len(), want.len());
        for (index, (got, want)) in made.iter().zip(&want).enumerate() {
            let is_right = got.abs_diff(*want) <= off;
            assert!(is_right, "{} plain, {sample}, byte {index}: {got}, not {want}", entry.name);
        }
    }
    let contender = Contender::new("plain", move || {
        for passes in &passes {
            black_box(plain::run(passes, picture, SIZE, &mut memory));
        }
    });
    Some(Timed { column: Column::Plain, pixels: drawn.pixels(), contender })
}

/// Returns the plain passes followed by normalization, after checking their output against the
/// oracle's.
fn plain_normalized<'a>(entry: &Entry, ops: Ops, picture: &'a [u8]) -> Option<Timed<'a>> {
    let drawn = Drawn::new(ops, NumberRule::Exact);
    let (passes, _) = passes(entry, &drawn)?;
    let mut memory = Memory::default();
    let mut out = vec![0.0; drawn.kernel.plan().sample_bytes() / 4];
    for (sample, (passes, want)) in passes.iter().zip(drawn.wanted(picture)).enumerate() {
        plain::run_normalized(passes, picture, SIZE, &mut memory, &mut out);
        for (index, (got, want)) in out.iter().zip(want.as_chunks::<4>().0).enumerate() {
            let want = f32::from_le_bytes(*want);
            let is_right = (got - want).abs() <= ROUNDING;
            assert!(is_right, "{} plain, {sample}, float {index}: {got}, not {want}", entry.name);
        }
    }
    let pixels = drawn.pixels();
    let contender = Contender::new("plain, normalized", move || {
        for passes in &passes {
            plain::run_normalized(passes, picture, SIZE, &mut memory, &mut out);
        }
        black_box(&mut out);
    });
    Some(Timed { column: Column::PlainNormalized, pixels, contender })
}
