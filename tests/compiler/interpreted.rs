//! The compiler's second oracle: Cranelift's interpreter runs the code of random lists.
//!
//! The interpreter and the ops' plain definitions must agree in every bit, and the code may access no
//! byte outside the regions that the host declares. Guard pages detect accesses past a page; the
//! interpreter checks every byte. `FUSELOOP_INTERPRETED=2000` tries more lists, `FUSELOOP_SETTINGS=500` tries
//! more of them with other settings of the code generator, and `FUSELOOP_SLICE=1/5` runs the second
//! fifth of both.
//!
//! Lists take turns at vectors of 128, 256 and 512 bits. Loops of the last two run in an emulator, on any CPU. In every
//! other list, ops on bytes become tables of bytes, which the code computes.

use crate::common::interpreter::interpret;
use crate::common::lists::{List, first_difference, noise, view};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I8X16;
use cranelift_codegen::ir::{Function, Inst, InstructionData, Opcode};
use fuseloop::internals::jit::check::{
    BlockRun, CodegenSettings, VectorBits, run_with, widest_vectors, with_settings,
};
use fuseloop::internals::jit::{self, DecodedPixels, Kernel, Scratch};
use fuseloop::internals::plan::Draws;
use fuseloop_counts::numbers;
use fuseloop_ops::author::{Dim, ImageType, Layout};
use fuseloop_ops::internals::SampleKey;
use fuseloop_ops::*;

/// Runs a sample with the interpreter in place of native code, after `change`. Returns the number of
/// runs and instructions, or the access that was refused, and the output.
fn interpreted(
    kernel: &Kernel,
    source: DecodedPixels<'_>,
    draws: &Draws,
    mut change: impl FnMut(&mut BlockRun),
) -> (Result<(u64, u64), String>, Vec<u8>) {
    let mut seen = Ok((0, 0));
    let mut out = vec![0xAA; kernel.plan().sample_bytes()];
    let mut hook = |run: &mut BlockRun| {
        change(run);
        let Ok((runs, instructions)) = seen else { return };
        seen = interpret(run).map(|count| (runs + 1, instructions + count));
    };
    run_with(kernel, source, draws, &mut out, &mut hook).unwrap();
    (seen, out)
}

/// A list, its kernel, an image for it and the draws.
pub(crate) struct Case {
    pub(crate) settings: CodegenSettings,
    list: List,
    pub(crate) kernel: Kernel,
    pub(crate) size: Size,
    pub(crate) pixels: Vec<u8>,
    pub(crate) draws: Draws,
    pub(crate) want: Vec<u8>,
}

impl Case {
    /// List number `number`, with each width in turn.
    fn random(number: u64) -> Self {
        let bits = [VectorBits::V128, VectorBits::V256, VectorBits::V512];
        Self::with_vectors(number, bits[number as usize % 3])
    }

    pub(crate) fn with_vectors(number: u64, bits: VectorBits) -> Self {
        let mut rng = SampleKey::new(31, 0, number).op(0);
        let size = Size::new(1 + rng.below(24), 1 + rng.below(48));
        let (list, _) = List::random(&mut rng, size, 6);
        let pixels = noise(&mut rng, size, &list.input);
        Self::new(list, size, pixels, number, bits)
    }

    pub(crate) fn new(
        list: List,
        size: Size,
        pixels: Vec<u8>,
        number: u64,
        bits: VectorBits,
    ) -> Self {
        let byte_maps_from = Some(if number.is_multiple_of(2) { 0 } else { u64::MAX });
        let settings =
            CodegenSettings { bits: Some(bits), byte_maps_from, ..CodegenSettings::default() };
        let compile = || Kernel::compile(list.plan().unwrap()).unwrap();
        let kernel = with_settings(settings, compile);
        let mut draws = Draws::default();
        kernel.plan().draw(SampleKey::new(1, 2, number), size, &mut draws);
        let view = view(kernel.plan(), &pixels, size);
        let want = jit::evaluate(kernel.plan(), &view, &draws);
        Self { settings, list, kernel, size, pixels, draws, want }
    }

    pub(crate) fn interpreted(
        &self,
        change: impl FnMut(&mut BlockRun),
    ) -> (Result<(u64, u64), String>, Vec<u8>) {
        let source = DecodedPixels::whole(view(self.kernel.plan(), &self.pixels, self.size));
        with_settings(self.settings, || interpreted(&self.kernel, source, &self.draws, change))
    }

    /// True if this CPU can run the native code.
    fn is_native(&self) -> bool {
        self.settings.bits.is_some_and(|bits| bits.count() <= widest_vectors().count())
    }

    /// The number of runs and instructions, or the failure.
    fn checked(&self) -> Result<(u64, u64), String> {
        let (seen, out) = self.interpreted(|_| {});
        let seen = seen?;
        let mut native = vec![0xAA; out.len()];
        let source = DecodedPixels::whole(view(self.kernel.plan(), &self.pixels, self.size));
        let run = || self.kernel.run(&mut Scratch::default(), source, &self.draws, &mut native);
        if self.is_native() {
            with_settings(self.settings, run);
        } else {
            native.copy_from_slice(&out);
        }
        if let Some(difference) = first_difference(self.kernel.plan(), &native, &out) {
            return Err(format!("native code is not what was interpreted: {difference}"));
        }
        match first_difference(self.kernel.plan(), &out, &self.want) {
            Some(difference) => Err(difference),
            None => Ok(seen),
        }
    }
}

pub(crate) fn is_skipped() -> bool {
    jit::unsupported().inspect(|reason| println!("skipped: {reason}")).is_some()
}

#[test]
fn the_interpreter_gives_the_bits_of_the_ops_and_touches_no_other_byte() {
    if is_skipped() {
        return;
    }
    let numbers = numbers("FUSELOOP_INTERPRETED");
    let lists = numbers.len() as u64;
    let (mut runs, mut instructions) = (0, 0);
    for number in numbers {
        let case = Case::random(number);
        let (more_runs, more) = case.checked().unwrap_or_else(|wrong| {
            let Case { list, size, pixels, settings, .. } = case;
            let bits = settings.bits.unwrap();
            let again = |list: &List| Case::new(list.clone(), size, pixels.clone(), number, bits);
            let shortest = list.shortest(|list| again(list).checked().is_err());
            panic!("list {number}, {size}, {bits:?}: {wrong}\nshortest: {shortest:#?}");
        });
        runs += more_runs;
        instructions += more;
    }
    println!("{lists} lists: {runs} blocks, {instructions} instructions");
    assert!(runs >= lists / 2, "most pictures are wide enough for code");
}

/// Where it does not matter where a row begins, the rows of an array of few columns are one row for the code.
#[test]
fn arrays_of_few_columns_run_as_one_row() {
    if is_skipped() {
        return;
    }
    let values = || Normalize::values([100.0], [50.0]).unwrap();
    let flip = || RandomHorizontalFlip::new(1.0).unwrap();
    let contrast = || RandomContrast::new(0.4).unwrap().p(1.0).unwrap();
    let rows = |rows| RandomCrop::new((rows, 3)).unwrap();
    let (as_one_row, op_by_op) = (1, 0);
    let lists = [
        (ops![values()], 11, as_one_row),
        (ops![values(), ToChannelsFirst, Convert::to(DType::F16)], 11, as_one_row),
        (ops![rows(5), values()], 11, as_one_row),
        (ops![rows(5), values()], 5, as_one_row),
        (ops![values()], 2, op_by_op),
        (ops![rows(2), values()], 11, op_by_op),
        (ops![RandomCrop::new((5, 2)).unwrap(), values()], 11, op_by_op),
        (ops![flip(), values()], 11, op_by_op),
        (ops![RandomVerticalFlip::new(1.0).unwrap(), values()], 11, op_by_op),
        (ops![Pad::new(1).unwrap(), values()], 11, op_by_op),
        (ops![Resize::new((11, 3)).unwrap(), values()], 12, op_by_op),
    ];
    let of_bytes = [
        (ops![GaussianNoise::new(), values()], 11, op_by_op),
        (ops![contrast(), values()], 11, op_by_op),
        (ops![Cutout::new(2).unwrap(), values()], 11, op_by_op),
        (ops![RandomBrightness::new(0.4).unwrap().p(1.0).unwrap()], 11, as_one_row),
    ];
    let images = [(1, Layout::Plane), (3, Layout::ChannelsLast), (5, Layout::ChannelsFirst)];
    let of_any = [DType::U8, DType::U16, DType::F32].map(|dtype| (dtype, &lists[..], &images[..]));
    let of_bytes = (DType::U8, &of_bytes[..], &images[..2]);
    for (dtype, lists, images) in of_any.into_iter().chain([of_bytes]) {
        for &(channels, layout) in images {
            for (ops, height, want) in lists {
                let size = Size::new(*height, 3);
                let input = ImageType { layout, ..ImageType::array(size, channels, dtype) };
                let list =
                    List { ops: ops.clone(), input, rule: NumberRule::Fused, streams: false };
                let rng = &mut SampleKey::new(5, 0, 0).op(0);
                let pixels = noise(rng, size, &input);
                let case = Case::new(list, size, pixels, 3, VectorBits::V128);
                let (runs, _) = case.checked().unwrap();
                let want = if channels == 5 { 5 * want } else { *want };
                assert_eq!(runs, want, "{ops:?}, {input:?}");
            }
        }
    }
}

/// A test of the oracle itself: the code reaches the end of its pixels and of its output, so that a
/// region shorter by one byte is an error.
#[test]
fn one_byte_cut_from_a_region_is_caught() {
    if is_skipped() {
        return;
    }
    let ops = ops![RandomBrightness::new(0.5).unwrap().p(1.0).unwrap(), Normalize::imagenet()];
    let size = Size::new(5, 19);
    let list = List {
        ops,
        input: ImageType::decoded(Dim::fixed(size.height), Dim::fixed(size.width)),
        rule: NumberRule::Fused,
        streams: false,
    };
    for bits in [VectorBits::V128, VectorBits::V256, VectorBits::V512] {
        let case = Case::new(list.clone(), size, vec![9; 5 * 19 * 3], 3, bits);
        for name in ["pixels", "output", "record", "constants"] {
            // A parameter has sixteen bytes, of which wider loops read the first four.
            let bytes = if name == "record" && bits != VectorBits::V128 { 13 } else { 1 };
            let cut = move |run: &mut BlockRun| {
                let region = run.regions().iter().position(|region| region.name == name);
                (0..bytes).for_each(|_| run.cut(region.unwrap()));
            };
            let (seen, _) = case.interpreted(cut);
            let refused = seen.expect_err(name);
            assert!(refused.contains("load") || refused.contains("store"), "{name}: {refused}");
        }
        assert!(case.interpreted(|_| {}).0.is_ok(), "nothing cut");
    }
}

/// A planted bug: changes one instruction. Returns false if there was none to change.
type Plant = fn(&mut Function) -> bool;

const PLANTS: [(&str, Plant); 7] = [
    ("a clamp is dropped", |function| {
        let is_choice = |data: &InstructionData| data.opcode() == Opcode::Bitselect;
        let Some(inst) = find(function, is_choice) else { return false };
        let (result, kept) = (function.dfg.first_result(inst), function.dfg.inst_args(inst)[1]);
        function.dfg.detach_inst_results(inst);
        function.layout.remove_inst(inst);
        function.dfg.change_to_alias(result, kept);
        true
    }),
    ("a group is loaded one pixel too far", |function| {
        let is_load = |data: &InstructionData| matches!(data, InstructionData::Load { opcode: Opcode::Load, offset, .. } if i32::from(*offset) == 0);
        let bytes = |function: &Function, inst| {
            function.dfg.value_type(function.dfg.first_result(inst)) == I8X16
        };
        let inst = all(function)
            .into_iter()
            .find(|inst| is_load(&function.dfg.insts[*inst]) && bytes(function, *inst));
        let Some(inst) = inst else { return false };
        if let InstructionData::Load { offset, .. } = &mut function.dfg.insts[inst] {
            *offset = 3.into();
        }
        true
    }),
    ("two channels are swapped", |function| {
        let shuffles = all(function)
            .into_iter()
            .filter(|inst| function.dfg.insts[*inst].opcode() == Opcode::Swizzle);
        let shuffles: Vec<Inst> = shuffles.take(2).collect();
        let [a, b] = shuffles[..] else { return false };
        let masks = [a, b].map(|inst| function.dfg.inst_args(inst)[1]);
        function.dfg.inst_args_mut(a)[1] = masks[1];
        function.dfg.inst_args_mut(b)[1] = masks[0];
        true
    }),
    ("rounding is to zero", |function| {
        let is_round = |data: &InstructionData| data.opcode() == Opcode::Nearest;
        let Some(inst) = find(function, is_round) else { return false };
        let arg = function.dfg.inst_args(inst)[0];
        function.dfg.insts[inst] = InstructionData::Unary { opcode: Opcode::Trunc, arg };
        true
    }),
    ("a product's terms change places", |function| {
        let is_fma = |data: &InstructionData| data.opcode() == Opcode::Fma;
        let Some(inst) = find(function, is_fma) else { return false };
        function.dfg.inst_args_mut(inst).swap(1, 2);
        true
    }),
    ("a rectangle begins one row late", |function| {
        let at_least = IntCC::SignedGreaterThanOrEqual;
        let is_from = |data: &InstructionData| matches!(data, InstructionData::IntCompare { cond, .. } if *cond == at_least);
        let Some(inst) = find(function, is_from) else { return false };
        if let InstructionData::IntCompare { cond, .. } = &mut function.dfg.insts[inst] {
            *cond = IntCC::SignedGreaterThan;
        }
        true
    }),
    ("the last group is not moved back", |function| {
        let is_smaller = |data: &InstructionData| data.opcode() == Opcode::Smin;
        let Some(inst) = find(function, is_smaller) else { return false };
        let (result, fresh) = (function.dfg.first_result(inst), function.dfg.inst_args(inst)[0]);
        function.dfg.detach_inst_results(inst);
        function.layout.remove_inst(inst);
        function.dfg.change_to_alias(result, fresh);
        true
    }),
];

/// All instructions, in order.
fn all(function: &Function) -> Vec<Inst> {
    let insts = function.layout.blocks().flat_map(|block| function.layout.block_insts(block));
    insts.collect()
}

fn find(function: &Function, is_it: impl Fn(&InstructionData) -> bool) -> Option<Inst> {
    all(function).into_iter().find(|inst| is_it(&function.dfg.insts[*inst]))
}

/// A test of the comparison itself: each bug is detected within the lists that `cargo test` tries.
#[test]
fn a_planted_bug_is_caught() {
    if is_skipped() {
        return;
    }
    for (name, plant) in PLANTS {
        let caught = (0..300).find(|number| {
            let case = Case::with_vectors(*number, VectorBits::V128);
            let (seen, out) = case.interpreted(move |run| {
                plant(&mut run.function);
            });
            seen.is_err() || first_difference(case.kernel.plan(), &out, &case.want).is_some()
        });
        println!("{name}: caught by list {caught:?}");
        assert!(caught.is_some(), "{name}: not caught");
    }
}

/// CPU features that the code must not depend on: those after SSE4.1.
const AFTER_SSE41: &[&str] = &[
    "has_sse42",
    "has_popcnt",
    "has_bmi1",
    "has_bmi2",
    "has_lzcnt",
    "has_avx",
    "has_avx2",
    "has_fma",
    "has_avx512bitalg",
    "has_avx512dq",
    "has_avx512f",
    "has_avx512vbmi",
    "has_avx512vl",
];

/// Without FMA, code has its steps. Vectors of 128 bits, since wider ones have it.
#[test]
fn other_settings_give_the_same_bits() {
    if is_skipped() {
        return;
    }
    let is_x86 = cfg!(target_arch = "x86_64");
    let without = (VectorBits::V128, if is_x86 { AFTER_SSE41 } else { &[] });
    let widest = (widest_vectors(), &[][..]);
    for (optimized, (bits, without)) in
        [(false, widest), (true, widest), (false, without), (true, without)]
    {
        let bits = Some(bits);
        let settings = CodegenSettings { optimized, without, bits, ..CodegenSettings::default() };
        for number in numbers("FUSELOOP_SETTINGS") {
            let case = Case::random(number);
            let source = DecodedPixels::whole(view(case.kernel.plan(), &case.pixels, case.size));
            let mut out = vec![0xAA; case.want.len()];
            with_settings(settings, || {
                let kernel = Kernel::compile(case.list.plan().unwrap()).unwrap();
                kernel.run(&mut Scratch::default(), source, &case.draws, &mut out);
            });
            if let Some(difference) = first_difference(case.kernel.plan(), &out, &case.want) {
                panic!("list {number}, {settings:?}: {difference}\n{:#?}", case.list);
            }
        }
    }
}
