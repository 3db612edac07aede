//! Custom ops in safe Rust that violate the rules for ops: whatever they do, no memory outside their
//! buffers is accessed, and no op runs the code of another one.
//!
//! Each attack runs in a process of its own, so that a successful one fails a single test and does not
//! end all of them.

use crate::common::random_ops::{Function, Maths};
use crate::common::{lists, random_ops};
use fuseloop::internals::jit::{self, DecodedPixels, Kernel, KernelCache, Scratch};
use fuseloop::internals::plan::{Draws, ImagePlan};
use fuseloop_ops::author::{
    ChoiceBranch, ChoiceOp, Dim, Emit, Eval, GeometryOp, GeometryStep, ImageType, Op, OpClass,
    PixelOp, Pixels, RegionOp, Rng, Statistic, Type, Window, clamp,
};
use fuseloop_ops::internals::{ImageView, SampleKey};
use fuseloop_ops::*;
use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, UnwindSafe, catch_unwind};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Runs `attack` in a process of its own, by running the test of this name again.
///
/// # Panics
///
/// If `attack` panics, or a signal ends the process.
fn alone(test: &str, attack: impl FnOnce()) {
    if std::env::var_os("FUSELOOP_ATTACK").is_some() {
        return attack();
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    child
        .args(["--exact", &format!("own_ops::{test}"), "--nocapture"])
        .env("FUSELOOP_ATTACK", test);
    let output = child.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", output.status);
    let run = String::from_utf8_lossy(&output.stdout);
    assert!(run.contains("1 passed"), "the attack did not run: {run}");
}

const SIZE: Size = Size { height: 16, width: 24 };

fn input() -> ImageType {
    ImageType::decoded(Dim::fixed(SIZE.height), Dim::fixed(SIZE.width))
}

fn plan(ops: Ops) -> Result<ImagePlan, fuseloop::Error> {
    ImagePlan::new(ops, input(), NumberRule::Fused)
}

fn pixels() -> Vec<u8> {
    (0..3 * SIZE.pixels()).map(|k| (k * 7 % 256) as u8).collect()
}

/// Runs a kernel on one image, and returns its output and the oracle's.
fn run(kernel: &Kernel, sample: u64) -> (Vec<u8>, Vec<u8>) {
    let (pixels, mut draws) = (pixels(), Draws::default());
    let view = ImageView::packed(&pixels, SIZE).unwrap();
    kernel.plan().draw(SampleKey::new(1, 0, sample), SIZE, &mut draws);
    let mut out = vec![0xAA; kernel.plan().sample_bytes()];
    kernel.run(&mut Scratch::default(), DecodedPixels::whole(view), &draws, &mut out);
    let evaluated = jit::evaluate(kernel.plan(), &view, &draws);
    (out, evaluated)
}

/// The message of a panic.
fn panic_of(work: impl FnOnce() + UnwindSafe) -> String {
    let panic = catch_unwind(work).unwrap_err();
    let said = panic.downcast_ref::<String>().cloned();
    said.or(panic.downcast_ref::<&str>().map(|&said| said.to_owned())).unwrap()
}

/// The methods of a pixel op that may change their answers.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Method {
    OpClass,
    ParamCount,
    Statistic,
    UsesPlace,
    MaySkip,
    Normalizes,
    IsPerChannel,
    Output,
    Emit,
}

const METHODS: [Method; 9] = [
    Method::OpClass,
    Method::ParamCount,
    Method::Statistic,
    Method::UsesPlace,
    Method::MaySkip,
    Method::Normalizes,
    Method::IsPerChannel,
    Method::Output,
    Method::Emit,
];

/// An op that passes pixels on unchanged, and changes the answer of one method from some call on.
#[derive(Debug)]
struct Turncoat {
    method: Method,
    /// The number of calls that are answered honestly.
    honest: usize,
    calls: AtomicUsize,
    other: Convert,
}

impl Turncoat {
    fn lies(&self, method: Method) -> bool {
        self.method == method && self.calls.fetch_add(1, Ordering::Relaxed) >= self.honest
    }
}

impl Op for Turncoat {
    fn name(&self) -> &'static str {
        "Turncoat"
    }

    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        match input {
            Type::Image(image) if self.lies(Method::Output) => {
                Ok(Type::Image(image.with_size(Size::new(60_000, 60_000))))
            }
            _ => Ok(input.clone()),
        }
    }

    fn class(&self) -> OpClass<'_> {
        if self.lies(Method::OpClass) { self.other.class() } else { OpClass::Pixel(self) }
    }
}

impl PixelOp for Turncoat {
    fn param_count(&self) -> usize {
        if self.lies(Method::ParamCount) { 1 << 24 } else { 2 }
    }

    fn statistic(&self) -> Option<Statistic> {
        self.lies(Method::Statistic).then_some(Statistic::GreyMean)
    }

    fn uses_position(&self) -> bool {
        self.lies(Method::UsesPlace)
    }

    fn may_skip(&self) -> bool {
        self.lies(Method::MaySkip)
    }

    fn is_per_channel(&self) -> bool {
        self.lies(Method::IsPerChannel)
    }

    fn normalizes(&self) -> Option<Vec<[f32; 4]>> {
        (!self.lies(Method::Normalizes)).then(|| vec![[0.0, 1.0, 0.0, 0.0]; 3])
    }

    fn draw(&self, _: &mut Rng, _: Size, params: &mut [f32]) -> bool {
        params.fill(1.0);
        false // the op may be skipped, which only `may_skip` permits
    }

    fn eval(&self, _: &Eval<'_>, _: &mut [f32]) {}

    fn emit(&self, e: &mut Emit, pixels: Pixels) -> Pixels {
        if self.lies(Method::Emit) {
            let wild = e.param(1 << 23);
            return e.each(pixels, |e, _, v| e.add(v, wild));
        }
        pixels
    }
}

/// For any method and any call from which it changes: the list is refused, the op's own code panics, or
/// the result equals the oracle's.
#[test]
fn an_op_that_changes_its_answers_is_held_to_the_first() {
    alone("an_op_that_changes_its_answers_is_held_to_the_first", || {
        for (method, honest) in METHODS.iter().flat_map(|m| (1..16).map(|honest| (*m, honest))) {
            for (dtype, before) in [(DType::U8, true), (DType::F16, true), (DType::F16, false)] {
                let (calls, other) = (AtomicUsize::new(0), Convert::to(DType::F32));
                let turncoat = Turncoat { method, honest, calls, other };
                let mut list = ops![turncoat, Convert::to(dtype), ToChannelsFirst];
                if before {
                    list.insert(0, Arc::new(RandomPosterize::new(4).unwrap().p(1.0).unwrap()));
                }
                let Ok(plan) = plan(list) else { continue };
                let kernel = Kernel::compile(plan).unwrap();
                for sample in 0..3 {
                    let ran = catch_unwind(AssertUnwindSafe(|| run(&kernel, sample)));
                    if let Ok((out, evaluated)) = ran {
                        assert_eq!(out, evaluated, "{method:?} after {honest} calls");
                    } else {
                        assert_eq!(method, Method::OpClass, "after {honest} calls");
                    }
                }
            }
        }
    });
}

/// An op that always returns the same answers.
#[derive(Debug)]
struct Constant {
    param_count: usize,
    statistic: Option<Statistic>,
    emits: fn(&mut Emit, Pixels) -> Pixels,
}

impl Op for Constant {
    fn name(&self) -> &'static str {
        "Constant"
    }

    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        Ok(input.clone())
    }

    fn class(&self) -> OpClass<'_> {
        OpClass::Pixel(self)
    }
}

impl PixelOp for Constant {
    fn param_count(&self) -> usize {
        self.param_count
    }

    fn statistic(&self) -> Option<Statistic> {
        self.statistic
    }

    fn eval(&self, _: &Eval<'_>, _: &mut [f32]) {}

    fn emit(&self, e: &mut Emit, pixels: Pixels) -> Pixels {
        (self.emits)(e, pixels)
    }
}

#[test]
fn an_op_that_asks_for_what_it_has_not_is_refused_by_name() {
    let refused = |param_count, statistic, emits: fn(&mut Emit, Pixels) -> Pixels| {
        let op = Constant { param_count, statistic, emits };
        plan(ops![RandomEqualize::new(1.0).unwrap(), op]).unwrap_err().to_string()
    };
    let far: fn(&mut Emit, Pixels) -> Pixels = |e, pixels| {
        e.param(1 << 23);
        pixels
    };
    assert_eq!(
        refused(1, None, far),
        "op 1 of the list (Constant): instruction 0 of its code reads parameter 8388608, but the \
         op has 1 parameter(s)"
    );
    assert_eq!(
        refused(1 << 24, None, far),
        "op 1 of the list (Constant): it needs 16777216 parameters; the limit is 4096"
    );
    assert_eq!(
        refused(0, Some(Statistic::GreyMean), |_, pixels| pixels),
        "op 1 of the list (Constant): it needs a statistic of the image, which is stored in its \
         last parameter, but it declares no parameter"
    );
    let placed = refused(1, None, |e, pixels| {
        let [row, column] = e.position();
        e.add_i32(row, column);
        pixels
    });
    assert!(placed.contains("instruction 0 of its code takes a value"), "{placed}");
}

/// A choice that draws an outcome that does not exist.
#[derive(Debug)]
struct Beyond {
    members: Vec<ChoiceBranch>,
    outcome: usize,
}

impl Op for Beyond {
    fn name(&self) -> &'static str {
        "Beyond"
    }

    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        Ok(input.clone())
    }

    fn class(&self) -> OpClass<'_> {
        OpClass::Choice(self)
    }
}

impl ChoiceOp for Beyond {
    fn outcomes(&self) -> usize {
        2
    }

    fn branches(&self) -> &[ChoiceBranch] {
        &self.members
    }

    fn draw(&self, _: &mut Rng) -> usize {
        self.outcome
    }
}

#[test]
fn an_outcome_that_a_choice_has_not_is_a_panic_that_says_so() {
    for outcome in [2, 127, 128, usize::MAX] {
        let said = panic_of(move || {
            let crop: Ops = ops![CenterCrop::new(8).unwrap()];
            // The outcomes that the plan never examined crop; those that it examined do not.
            let members = vec![ChoiceBranch { ops: crop, when: !3 }];
            let plan = plan(ops![Beyond { members, outcome }]).unwrap();
            plan.draw(SampleKey::new(0, 0, 0), SIZE, &mut Draws::default());
        });
        assert_eq!(said, format!("Beyond drew outcome {outcome}, but has 2"));
    }
}

/// A geometry op that draws the given steps, and claims that it never produces rows.
#[derive(Debug)]
struct Mover(Vec<GeometryStep>);

impl Op for Mover {
    fn name(&self) -> &'static str {
        "Mover"
    }

    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        Ok(input.clone())
    }

    fn class(&self) -> OpClass<'_> {
        OpClass::Geometry(self)
    }
}

impl GeometryOp for Mover {
    fn draw(&self, _: &mut Rng, _: Size, out: &mut Vec<GeometryStep>) {
        out.extend(self.0.iter().cloned());
    }
}

fn frame(top: i32, left: i32, height: u32, width: u32) -> GeometryStep {
    GeometryStep::CropPad { top, left, size: Size::new(height, width), fill: [9; 3] }
}

#[test]
fn motions_that_lead_outside_read_nothing_outside() {
    alone("motions_that_lead_outside_read_nothing_outside", || {
        let (height, width) = (SIZE.height, SIZE.width);
        let back = frame(0, 0, height, width);
        // The byte counts of the last two overflow to a small number in 64 bits.
        let wild = [
            vec![frame(-5, 1 << 30, height, width)],
            vec![frame(i32::MIN, i32::MIN, height, width)],
            vec![frame(i32::MAX, i32::MAX, height, width), frame(i32::MAX, 1, height, width)],
            vec![frame(1000, 0, height, width), back.clone()],
            vec![frame(0, 0, 2_863_311_531, 1 << 31)],
            vec![frame(0, 0, u32::MAX, u32::MAX)],
        ];
        for motions in wild {
            let ops = ops![
                Mover(motions.clone()),
                RandomContrast::new(0.5).unwrap().p(1.0).unwrap(),
                Mover(vec![back.clone()]),
            ];
            let Ok(plan) = plan(ops) else { continue };
            let kernel = Kernel::compile(plan).unwrap();
            let mut draws = Draws::default();
            kernel.plan().draw(SampleKey::new(1, 0, 0), SIZE, &mut draws);
            let (pixels, mut out) = (pixels(), vec![0; kernel.plan().sample_bytes()]);
            let view = ImageView::packed(&pixels, SIZE).unwrap();
            let ran = catch_unwind(AssertUnwindSafe(|| {
                kernel.run(&mut Scratch::default(), DecodedPixels::whole(view), &draws, &mut out);
            }));
            println!("{motions:?}: {}", if ran.is_ok() { "ran" } else { "panicked" });
        }
    });
}

#[test]
fn rows_that_nobody_planned_are_a_panic_that_says_so() {
    let resize =
        || GeometryStep::Resize { size: SIZE, interpolation: Interpolation::BilinearAliased };
    for motions in [vec![resize()], vec![resize(), resize()]] {
        let said = panic_of(move || {
            let plan = plan(ops![Mover(motions)]).unwrap();
            plan.draw(SampleKey::new(0, 0, 0), SIZE, &mut Draws::default());
        });
        assert!(said.starts_with("Mover drew steps whose rows are produced by [Called"), "{said}");
        assert!(said.ends_with("but its `row_producer` returned None"), "{said}");
    }
}

/// A region op that draws any rectangle it is given.
#[derive(Debug)]
struct Painter(Window);

impl Op for Painter {
    fn name(&self) -> &'static str {
        "Painter"
    }

    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        Ok(input.clone())
    }

    fn class(&self) -> OpClass<'_> {
        OpClass::Region(self)
    }
}

impl RegionOp for Painter {
    fn draw(&self, _: &mut Rng, _: Size) -> Window {
        self.0
    }

    fn fill(&self) -> [f32; 3] {
        [3.0; 3]
    }
}

#[test]
fn a_rectangle_outside_of_the_picture_paints_nothing_outside() {
    alone("a_rectangle_outside_of_the_picture_paints_nothing_outside", || {
        let most = u32::MAX;
        for (top, left, height, width) in [(0, 0, 1 << 20, 1 << 20), (4, 4, most - 4, most - 4)] {
            let kernel = plan(ops![Painter(Window { top, left, height, width })]).unwrap();
            let (out, evaluated) = run(&Kernel::compile(kernel).unwrap(), 0);
            assert_eq!(out, evaluated);
        }
    });
}

/// Ops whose visible properties are all the same.
mod alike {
    use super::*;

    /// Multiplies by a number that is part of its type only.
    pub(crate) struct Gain<const N: u32>;

    impl<const N: u32> fmt::Debug for Gain<N> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("Gain")
        }
    }

    impl<const N: u32> Op for Gain<N> {
        fn name(&self) -> &'static str {
            "Gain"
        }

        fn output(&self, input: &Type) -> Result<Type, TypeError> {
            Ok(input.clone())
        }

        fn class(&self) -> OpClass<'_> {
            OpClass::Pixel(self)
        }
    }

    impl<const N: u32> PixelOp for Gain<N> {
        fn eval(&self, _: &Eval<'_>, pixel: &mut [f32]) {
            pixel.iter_mut().for_each(|v| *v = clamp(*v * N as f32));
        }

        fn emit(&self, e: &mut Emit, pixels: Pixels) -> Pixels {
            e.each(pixels, |e, _, v| {
                let factor = e.splat(N as f32);
                let v = e.mul(v, factor);
                e.clamp(v)
            })
        }
    }

    /// Two types with the same name, in two modules.
    macro_rules! tone {
        ($module:ident, $eval:expr, $emit:ident) => {
            pub(crate) mod $module {
                use super::super::*;

                #[derive(Debug)]
                pub(crate) struct Tone;

                impl Op for Tone {
                    fn name(&self) -> &'static str {
                        "Tone"
                    }

                    fn output(&self, input: &Type) -> Result<Type, TypeError> {
                        Ok(input.clone())
                    }

                    fn class(&self) -> OpClass<'_> {
                        OpClass::Pixel(self)
                    }
                }

                impl PixelOp for Tone {
                    fn eval(&self, _: &Eval<'_>, pixel: &mut [f32]) {
                        pixel.iter_mut().for_each(|v| *v = clamp($eval(*v, 40.0)));
                    }

                    fn emit(&self, e: &mut Emit, pixels: Pixels) -> Pixels {
                        let change = e.splat(40.0);
                        e.each(pixels, |e, _, v| {
                            let v = e.$emit(v, change);
                            e.clamp(v)
                        })
                    }
                }
            }
        };
    }

    tone!(a, |v: f32, change: f32| v + change, add);
    tone!(b, |v: f32, change: f32| v - change, sub);

    /// An op that looks the same whatever pixel op it wraps.
    pub(crate) struct Veiled(pub(crate) Arc<dyn Op>);

    impl Veiled {
        fn op(&self) -> &dyn PixelOp {
            let OpClass::Pixel(op) = self.0.class() else { panic!("a pixel op") };
            op
        }
    }

    impl fmt::Debug for Veiled {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_struct("Veiled").finish_non_exhaustive()
        }
    }

    impl Op for Veiled {
        fn name(&self) -> &'static str {
            "Veiled"
        }

        fn output(&self, input: &Type) -> Result<Type, TypeError> {
            self.0.output(input)
        }

        fn class(&self) -> OpClass<'_> {
            OpClass::Pixel(self)
        }
    }

    impl PixelOp for Veiled {
        fn param_count(&self) -> usize {
            self.op().param_count()
        }

        fn draw(&self, rng: &mut Rng, size: Size, params: &mut [f32]) -> bool {
            self.op().draw(rng, size, params)
        }

        fn may_skip(&self) -> bool {
            self.op().may_skip()
        }

        fn statistic(&self) -> Option<Statistic> {
            self.op().statistic()
        }

        fn is_identity(&self, params: &[f32]) -> bool {
            self.op().is_identity(params)
        }

        fn normalizes(&self) -> Option<Vec<[f32; 4]>> {
            self.op().normalizes()
        }

        fn uses_position(&self) -> bool {
            self.op().uses_position()
        }

        fn is_per_channel(&self) -> bool {
            self.op().is_per_channel()
        }

        fn matrix(&self, params: &[f32]) -> Option<[[f32; 4]; 3]> {
            self.op().matrix(params)
        }

        fn eval(&self, cx: &Eval<'_>, pixel: &mut [f32]) {
            self.op().eval(cx, pixel);
        }

        fn emit(&self, e: &mut Emit, pixels: Pixels) -> Pixels {
            self.op().emit(e, pixels)
        }
    }
}

use alike::{Gain, Veiled};

/// Compiles a list with a cache that holds others, and compares its output with the oracle's.
fn assert_own_code(cache: &mut KernelCache, list: Ops) -> Kernel {
    let shown = format!("{list:?}");
    let kernel = cache.compile(plan(list).unwrap()).unwrap();
    for sample in 0..2 {
        let (out, evaluated) = run(&kernel, sample);
        let difference = lists::first_difference(kernel.plan(), &out, &evaluated);
        assert!(difference.is_none(), "{shown}: {}", difference.unwrap());
    }
    kernel
}

#[test]
fn two_types_that_show_the_same_run_their_own_code() {
    let cache = &mut KernelCache::default();
    let one = assert_own_code(cache, ops![Gain::<1>]);
    let hundred = assert_own_code(cache, ops![Gain::<100>]);
    let again = assert_own_code(cache, ops![Gain::<1>]);
    let [a, b] = [ops![alike::a::Tone], ops![alike::b::Tone]];
    let (a, b) = (assert_own_code(cache, a), assert_own_code(cache, b));
    if jit::unsupported().is_none() {
        assert!(!one.shares_code_with(&hundred) && !a.shares_code_with(&b));
        assert!(again.shares_code_with(&one), "equal code is shared");
    }
}

/// Flat ops of one list that exclude each other share a fused op if their code is the same.
#[test]
fn alternatives_that_show_the_same_run_their_own_code() {
    for outcome in 0..2 {
        let first = ChoiceBranch { ops: ops![Gain::<2>], when: 1 };
        let second = ChoiceBranch { ops: ops![Gain::<3>], when: 2 };
        let list = ops![Beyond { members: vec![first, second], outcome }];
        assert_own_code(&mut KernelCache::default(), list);
    }
}

/// Every pixel op of the registry, with several parameters, behind the same `Debug` output.
#[test]
fn every_op_runs_its_own_code_whatever_it_shows() {
    let cache = &mut KernelCache::default();
    let mut keys = BTreeMap::new();
    let mut tried = 0;
    for name in random_ops::names() {
        for number in 0..6 {
            let mut rng = SampleKey::new(15, 0, number).op(7);
            let op = random_ops::op(name, &mut rng, &input());
            let is_pixel_op = matches!(op.class(), OpClass::Pixel(_));
            let Ok(plain) = plan(vec![Arc::clone(&op)]) else { continue };
            // The code is the same with its own `Debug` and without, so the key is the same.
            keys.entry(plain.code_key()).or_insert_with(Vec::new).push(format!("{op:?}"));
            assert_own_code(cache, vec![Arc::clone(&op)]);
            let twin = op.for_input(&Type::Image(input())).unwrap_or(op);
            if is_pixel_op && !plain.flat_ops().is_empty() {
                let veiled = plan(ops![Veiled(Arc::clone(&twin))]).unwrap();
                assert_eq!(veiled.code_key(), plain.code_key(), "{name}");
                assert_own_code(cache, ops![Veiled(twin)]);
                tried += 1;
            }
        }
    }
    println!("{} keys; {tried} veiled ops", keys.len());
    assert!(tried >= 60 && keys.len() >= 20, "{tried} veiled ops, {} keys", keys.len());
}

#[test]
fn functions_of_any_bits_have_the_same_bits_compiled_and_evaluated() {
    for function in Function::ALL {
        let list = ops![Maths { function, of_bits: true }, Convert::to(DType::F32)];
        fuseloop::check_ops(&list, Size::new(60, 80), 10).unwrap();
    }
}

/// The text of a program with one code, for images of 3 channels.
fn program(draws: &str, code: &str) -> PixelProgram {
    let text = format!("fuseloop pixel program 1\nmine\n{draws}channels 3\n{code}");
    PixelProgram::new(text.lines()).unwrap()
}

/// The formulas of built-in ops as programs.
fn formulas() -> Vec<(Arc<dyn Op>, Arc<dyn Op>)> {
    let solarize = "less c0 128\nsub 255 c0\nwhere %0 c0 %1\nless c1 128\nsub 255 c1\nwhere %3 c1 %4\n\
        less c2 128\nsub 255 c2\nwhere %6 c2 %7\nreturn %2 %5 %8";
    let brightness = "mul c0 1.25\nmul c1 1.25\nmul c2 1.25\nreturn %0 %1 %2";
    let matrix = "fma c2 0.1 4\nfma c1 0.1 %0\nfma c0 0.8 %1\nfma c2 0.2 -3\nfma c1 0.7 %3\nfma c0 0.1 %4\n\
        fma c2 0.9 1\nfma c1 0.2 %6\nfma c0 0 %7\nreturn %2 %5 %8";
    let rows = [[0.8, 0.1, 0.1, 4.0], [0.1, 0.7, 0.2, -3.0], [0.0, 0.2, 0.9, 1.0]];
    vec![
        (
            Arc::new(program("", solarize)),
            Arc::new(RandomSolarize::new(128.0).unwrap().p(1.0).unwrap()),
        ),
        (
            Arc::new(program("", brightness)),
            Arc::new(RandomBrightness::new(1.25..=1.25).unwrap().p(1.0).unwrap()),
        ),
        (Arc::new(program("", matrix)), Arc::new(ColorMatrix::new(rows).unwrap())),
    ]
}

#[test]
fn a_program_returns_what_the_built_in_op_of_its_formula_returns() {
    for (own, built_in) in formulas() {
        for rule in [NumberRule::Fused, NumberRule::Exact] {
            let around = |op: &Arc<dyn Op>| -> Ops {
                let flip = RandomHorizontalFlip::new(0.5).unwrap();
                vec![Arc::new(flip), Arc::clone(op), Arc::new(Convert::to(DType::F32))]
            };
            let [own, built_in] = [&own, &built_in].map(|op| {
                Kernel::compile(ImagePlan::new(around(op), input(), rule).unwrap()).unwrap()
            });
            for sample in 0..20 {
                assert_eq!(run(&own, sample).0, run(&built_in, sample).0, "{rule:?}");
            }
        }
    }
}

#[test]
fn programs_of_any_operations_have_the_same_bits_compiled_and_evaluated() {
    let operations = [
        "neg", "abs", "sqrt", "floor", "ceil", "trunc", "round", "exp", "log", "sin", "cos", "add",
        "sub", "mul", "div", "min", "max", "pow", "fma",
    ];
    for (index, operation) in operations.iter().enumerate() {
        let operands =
            ["%0", "%0 d0", "%0 d0 x"][usize::from(index >= 11) + usize::from(index == 18)];
        let again = operands.replace("%0", "%1");
        let code = format!(
            "fma c0 d1 d0\n{operation} {operands}\n{operation} {again}\nless_equal %1 %0\nnot %3\nequal c1 y\n\
             or %4 %5\nand %6 %3\nless height width\nwhere %6 %1 c1\nwhere %7 x %2\nwhere %8 %1 %0\nreturn %9 %10 %11"
        );
        let draws = "draw a normal 0 30\ndraw b choice 1 0.01 1e30 -1\n";
        let op = || program(draws, &code);
        for list in
            [ops![op()], ops![Normalize::imagenet(), op()], ops![op(), Convert::to(DType::F32)]]
        {
            fuseloop::check_ops(&list, Size::new(30, 40), 10).unwrap();
        }
    }
}

#[test]
fn the_largest_programs_compile() {
    // Each result is used once more, by the last sum, so that all of them are kept.
    let chain = |step: &str, count: usize| {
        let steps: String = (0..count).map(|k| format!("{step} %{k} %{}\n", k / 2)).collect();
        let sums: String = (0..count).map(|k| format!("add %{k} %{}\n", count + k)).collect();
        format!("mul c0 0.01\n{steps}{sums}return %{} c1 c2", 2 * count)
    };
    for code in [chain("add", 2047), chain("pow", 63)] {
        fuseloop::check_ops(&ops![program("", &code)], SIZE, 2).unwrap();
    }
}

#[test]
fn a_closure_of_another_size_stands_between_ops_that_draw_sizes() {
    let list = ops![
        RandomHorizontalFlip::new(0.5).unwrap(),
        random_ops::sized(Size::new(40, 24)),
        RandomCrop::new((30, 20)).unwrap(),
        random_ops::sized(Size::new(50, 70)),
        RandomHorizontalFlip::new(0.5).unwrap(),
        ToChannelsFirst,
    ];
    fuseloop::check_ops(&list, SIZE, 50).unwrap();
    let plan = plan(list).unwrap();
    assert_eq!(plan.output_size(), Size::new(50, 70));
    let apart = ops![RandomApply::new(ops![random_ops::sized(Size::new(9, 9))])];
    let error = self::plan(apart).unwrap_err().to_string();
    assert!(error.contains("RandomApply"), "{error}");
}

/// A parameter that is a constant in the code is part of the key; a drawn parameter is not.
#[test]
fn a_parameter_changes_the_key_where_it_changes_the_code() {
    let key = |ops: Ops| plan(ops).unwrap().code_key();
    let normalize = |mean: f64| ops![Normalize::levels([mean; 3], [2.0; 3]).unwrap()];
    assert_ne!(key(normalize(1.0)), key(normalize(-1.0)));
    assert_ne!(key(normalize(0.0)), key(normalize(-0.0)), "the bits of a constant count");
    let cutout = |fill: u8| ops![Cutout::new(4).unwrap().fill([fill; 3])];
    assert_ne!(key(cutout(1)), key(cutout(2)));
    let noise = |clip| ops![GaussianNoise::new().clip(clip)];
    assert_ne!(key(noise(true)), key(noise(false)));
    let brightness = |most: f64| ops![RandomBrightness::new(most).unwrap().p(1.0).unwrap()];
    assert_eq!(key(brightness(0.1)), key(brightness(0.4)));
    let exact = ImagePlan::new(brightness(0.1), input(), NumberRule::Exact).unwrap();
    assert_ne!(key(brightness(0.1)), exact.code_key());
}
