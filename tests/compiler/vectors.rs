//! Loops with vectors of 256 and 512 bits: bugs planted in their code are caught, outputs are streamed where they are
//! aligned, and `explain` says which vectors run.
//!
//! The code is run by an emulator, so it is tested on CPUs without AVX-512, too.

use crate::common::interpreter::interpret;
use crate::common::lists::{List, first_difference, view};
use crate::interpreted::{Case, is_skipped};
use fuseloop::internals::jit::check::{BlockRun, VectorBits, run_with, with_settings};
use fuseloop::internals::jit::{DecodedPixels, Kernel};
use fuseloop_kernels::bytes::has_tables;
use fuseloop_ops::author::{Dim, ImageType};
use fuseloop_ops::*;
use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, Register};

const WIDER: [VectorBits; 2] = [VectorBits::V256, VectorBits::V512];

/// An instruction, where its bytes begin, and where those of its displacement and its immediate do.
struct Found {
    inst: Instruction,
    start: usize,
    displacement: usize,
    immediate: usize,
}

fn all(code: &[u8]) -> Vec<Found> {
    let mut decoder = Decoder::with_ip(64, code, 0, DecoderOptions::NONE);
    let mut found = vec![];
    while decoder.can_decode() {
        let inst = decoder.decode();
        let (start, offsets) = (inst.ip() as usize, decoder.get_constant_offsets(&inst));
        let displacement = start + offsets.displacement_offset();
        let immediate = start + offsets.immediate_offset();
        found.push(Found { inst, start, displacement, immediate });
    }
    found
}

/// A planted bug: changes the bytes of an instruction of a loop, if it has one to change.
type Plant = fn(&mut [u8]);

/// Adds to the displacement of the first instruction that `is_it` finds.
fn displace(code: &mut [u8], by: i32, is_it: impl Fn(&Instruction) -> bool) {
    let found = all(code).into_iter().find(|found| {
        found.inst.memory_displ_size() == 8
            && found.inst.memory_displacement64() != 0
            && is_it(&found.inst)
    });
    if let Some(Found { displacement, .. }) = found {
        let bytes = &mut code[displacement..displacement + 4];
        let number = i32::from_le_bytes(bytes.try_into().unwrap()) + by;
        bytes.copy_from_slice(&number.to_le_bytes());
    }
}

/// Replaces the first addition of `from` to `to`.
fn remove_add(code: &mut [u8], to: Register, from: Register) {
    let is_it = |found: &Found| {
        let registers = [found.inst.op_register(0), found.inst.op_register(1)];
        found.inst.mnemonic() == Mnemonic::Add && registers == [to, from]
    };
    if let Some(found) = all(code).into_iter().find(is_it) {
        code[found.start..][..found.inst.len()].fill(0x90);
    }
}

const PLANTS: [(&str, &[VectorBits], Plant); 7] = [
    ("a channel is shuffled as the one before", &WIDER, |code| {
        let is_shuffle = |inst: &Instruction| {
            inst.memory_base() == Register::R13 && inst.memory_index() == Register::None
        };
        let bytes = all(code).iter().any(|found| found.inst.mnemonic() == Mnemonic::Vpshufb);
        displace(code, if bytes { -32 } else { -64 }, is_shuffle);
    }),
    ("a parameter is the next one", &WIDER, |code| {
        let is_vector = |inst: &Instruction| inst.op_register(0).is_vector_register();
        displace(code, 16, |inst| inst.memory_base() == Register::RDI && is_vector(inst));
    }),
    ("rounding is to zero", &WIDER, |code| {
        let rounds = [Mnemonic::Vroundps, Mnemonic::Vrndscaleps];
        for found in all(code).into_iter().filter(|found| rounds.contains(&found.inst.mnemonic())) {
            code[found.immediate] = 11;
        }
    }),
    ("a minimum is a maximum", &WIDER, |code| {
        let minima = |found: &Found| found.inst.mnemonic() == Mnemonic::Vminps;
        if let Some(Found { inst, start, .. }) = all(code).into_iter().find(minima) {
            // The opcode follows the prefix, whose length the first byte tells.
            let prefix = if inst.op_register(0).is_zmm() { 4 } else { 3 };
            assert_eq!(code[start + prefix], 0x5D);
            code[start + prefix] = 0x5F;
        }
    }),
    ("the last pixels are stored without a mask", &[VectorBits::V512], |code| {
        let is_store = |found: &Found| {
            found.inst.op_mask() == Register::K7 && found.inst.mnemonic() == Mnemonic::Vmovups
        };
        if let Some(found) = all(code).into_iter().find(is_store) {
            code[found.start + 3] &= !7;
        }
    }),
    ("a row in view has the masks of one that is not", &[VectorBits::V512], |code| {
        remove_add(code, Register::R13, Register::R15);
    }),
    ("the last group is not moved back", &[VectorBits::V256], |code| {
        remove_add(code, Register::RAX, Register::R14);
    }),
];

/// A test of the tests: each bug in the machine code gives other bits, or an access that is refused.
#[test]
fn bugs_planted_in_machine_code_are_caught() {
    if is_skipped() {
        return;
    }
    for (name, widths, plant) in PLANTS {
        for bits in widths {
            let caught = (0..1500).find(|number| {
                let case = Case::with_vectors(*number, *bits);
                let (seen, out) = case.interpreted(move |run| {
                    run.row_loops.iter_mut().flatten().for_each(|code| plant(code));
                });
                seen.is_err() || first_difference(case.kernel.plan(), &out, &case.want).is_some()
            });
            println!("{name}, {bits:?}: caught by list {caught:?}");
            assert!(caught.is_some(), "{name}, {bits:?}: not caught");
        }
    }
}

/// A list whose output is stored around the caches.
fn streamed(size: Size, bits: VectorBits) -> Case {
    let list = List {
        ops: ops![RandomHorizontalFlip::new(1.0).unwrap(), Normalize::imagenet(), ToChannelsFirst],
        input: ImageType::decoded(Dim::fixed(size.height), Dim::fixed(size.width)),
        rule: NumberRule::Fused,
        streams: true,
    };
    let pixels = (0..3 * size.pixels()).map(|byte| (byte * 7 % 251) as u8).collect();
    Case::new(list, size, pixels, 3, bits)
}

#[test]
fn aligned_outputs_are_streamed_from_registers() {
    if is_skipped() {
        return;
    }
    // Rows of 40 floats are no multiple of a line of the cache.
    for (width, offset, want) in [(32, 0, true), (16, 0, true), (32, 16, false), (40, 0, false)] {
        for bits in WIDER {
            let case = streamed(Size::new(4, width), bits);
            let mut buffer = vec![0xAA; case.want.len() + 128];
            let start = buffer.as_ptr().align_offset(64) + offset;
            let run = |buffer: &mut [u8], takes_loop: bool| {
                let mut seen = Ok(0);
                let mut hook = |run: &mut BlockRun| {
                    assert!(
                        run.row_loops.last().unwrap().is_some(),
                        "there is a loop that streams"
                    );
                    if takes_loop {
                        *run.row_loops.last_mut().unwrap() = None;
                    }
                    seen = interpret(run);
                };
                let source =
                    DecodedPixels::whole(view(case.kernel.plan(), &case.pixels, case.size));
                let out = &mut buffer[start..][..case.want.len()];
                with_settings(case.settings, || {
                    run_with(&case.kernel, source, &case.draws, out, &mut hook).unwrap();
                });
                seen
            };
            run(&mut buffer, false).unwrap();
            let out = &buffer[start..][..case.want.len()];
            assert_eq!(
                first_difference(case.kernel.plan(), out, &case.want),
                None,
                "{width} {bits:?}"
            );
            assert_eq!(
                run(&mut buffer, true).is_err(),
                want,
                "{width} columns at {offset}, {bits:?}"
            );
        }
    }
}

#[test]
fn explain_says_which_vectors_run_and_why_others_do_not() {
    if is_skipped() {
        return;
    }
    let size = Size::new(32, 32);
    let explained = |ops: Ops, input: ImageType, bits| {
        let settings = streamed(size, bits).settings;
        with_settings(settings, || {
            let plan = fuseloop::internals::plan::ImagePlan::new(ops, input, NumberRule::Fused);
            Kernel::compile(plan.unwrap()).unwrap().explain()
        })
    };
    let bytes = ImageType::from(size);
    let floats = ImageType::array(size, 3, DType::F32);
    let jitter =
        || ops![ColorJitter::new(0.4, 0.4, 0.4).unwrap(), Normalize::imagenet(), ToChannelsFirst];
    let invert = || RandomInvert::new(1.0).unwrap();
    for (ops, input, bits, want) in [
        (jitter(), bytes, VectorBits::V512, "vectors of 512 bits in 2 passes\n"),
        (jitter(), bytes, VectorBits::V256, "vectors of 256 bits in 2 passes\n"),
        (jitter(), bytes, VectorBits::V128, "vectors of 128 bits in 2 passes\n"),
        (ops![Normalize::imagenet()], bytes, VectorBits::V512, "vectors of 512 bits in 1 pass\n"),
        (ops![ToChannelsFirst], bytes, VectorBits::V512, "in 1 pass (bytes are copied)\n"),
        (
            ops![CenterCrop::new(9).unwrap()],
            bytes,
            VectorBits::V512,
            "bytes are copied without the loop",
        ),
        (ops![invert()], bytes, VectorBits::V256, "bytes are looked up in tables of 256, which"),
        (ops![ToChannelsFirst], floats, VectorBits::V512, "in 1 pass (elements of f32 are read)\n"),
    ] {
        let text = explained(ops, input, bits);
        assert!(text.contains(want), "{bits:?}, {want}: {text}");
    }
}

/// Ops that change each byte by itself run on pixels of all levels, and the image is looked up.
#[test]
fn tables_of_bytes_are_computed_by_the_loop() {
    if is_skipped() {
        return;
    }
    let size = Size::new(11, 23);
    let invert = || RandomInvert::new(1.0).unwrap();
    let contrast = || RandomContrast::new(0.4).unwrap().p(1.0).unwrap();
    let cutout = || Cutout::new(4).unwrap();
    let hue = || RandomHue::new(0.1).unwrap().p(1.0).unwrap();
    let all_levels = Some(256 * 3);
    // An op whose table is of the image needs a CPU that looks bytes up in registers.
    let by_tables = if has_tables() { all_levels } else { Some(11 * 23 * 3) };
    // The bytes that the loop writes; none if it does not run.
    for (ops, number, want) in [
        (ops![invert()], 2, all_levels),
        (ops![contrast(), RandomEqualize::new(1.0).unwrap(), cutout()], 2, by_tables),
        (ops![RandomCrop::new(20).unwrap().padding(8).unwrap(), invert()], 2, all_levels),
        (ops![RandomHorizontalFlip::new(1.0).unwrap(), cutout()], 3, None),
        (ops![invert()], 3, Some(11 * 23 * 3)), // odd lists have no tables
        (ops![hue()], 2, Some(11 * 23 * 3)),
        (ops![cutout(), invert()], 2, Some(11 * 23 * 3)),
        (ops![invert(), ToChannelsFirst], 2, Some(11 * 23 * 3)),
    ] {
        let list = List {
            ops: ops.clone(),
            input: ImageType::decoded(Dim::fixed(size.height), Dim::fixed(size.width)),
            rule: NumberRule::Fused,
            streams: false,
        };
        let pixels = (0..3 * size.pixels()).map(|byte| (byte * 7 % 251) as u8).collect();
        let case = Case::new(list, size, pixels, number, VectorBits::V512);
        let mut written = None;
        let (seen, out) = case.interpreted(|run| {
            // One region for each plane.
            let output = run.regions().iter().filter(|region| region.name == "output");
            written = output.map(|region| region.bytes).reduce(|all, plane| all + plane);
        });
        seen.unwrap();
        assert_eq!(first_difference(case.kernel.plan(), &out, &case.want), None, "{ops:?}");
        assert_eq!(written, want, "{ops:?}");
    }
}
