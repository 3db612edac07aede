//! The interpreter: PTX from NVRTC yields the bits of the host build, and forbidden actions of a
//! kernel are detected.
//!
//! NVRTC 12.0.76 compiled `ptx/*.ptx` from `ptx/*.cu` after fuseloop.cuh. With FUSELOOP_NVRTC (a
//! file or a folder) the PTX is compiled again and compared; BLESS=1 writes it.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod common;

use common::gpu;
use common::nvrtc::Nvrtc;
use fuseloop_fakecuda::ptx::{Fault, Grid, Memory, Program};
use fuseloop_fakecuda::{has_host_compiler, on_fake_gpu};
use std::path::PathBuf;
use std::{env, fs};

const INCREMENT: &str = include_str!("../ptx/increment.ptx");
const MAPPED: &str = include_str!("../ptx/mapped.cu");

/// Kernels: name, source, and the PTX from NVRTC.
const GOLDENS: [(&str, &str, &str); 3] = [
    ("increment", include_str!("../ptx/increment.cu"), INCREMENT),
    ("arithmetic", include_str!("../ptx/arithmetic.cu"), include_str!("../ptx/arithmetic.ptx")),
    ("pixels", include_str!("../ptx/pixels.cu"), include_str!("../ptx/pixels.ptx")),
];

const PTX: [&str; 3] = ["--gpu-architecture=compute_75", "--fmad=false", "--std=c++17"];
const CUBIN: [&str; 2] = ["--gpu-architecture=sm_90", "--fmad=false"];

/// A launch: blocks, bytes to read, bytes to write, and the arguments after the two addresses.
struct Launch {
    blocks: [u32; 2],
    input: Vec<u8>,
    output: usize,
    rest: Vec<u8>,
}

impl Launch {
    /// Returns the output of an image's kernel on the fake driver.
    fn run(&self, image: &[u8], name: &str) -> Vec<u8> {
        let function = gpu::function(gpu::load(image).unwrap(), name).unwrap();
        let (from, to) =
            (gpu::alloc(self.input.len()).unwrap(), gpu::alloc(self.output + 8).unwrap());
        gpu::upload(from, &self.input, 0).unwrap();
        gpu::fill(to, 0, self.output + 8, 0).unwrap();
        // `pixels` adds to a sum: the last eight bytes. The other kernels have all their arguments
        // in `rest`.
        let sum = to + self.output as u64;
        let mut argument = [from, to].map(u64::to_le_bytes).concat();
        if ["pixels", "mapped"].contains(&name) {
            argument.extend(sum.to_le_bytes());
        }
        argument.extend(&self.rest);
        argument.resize(argument.len().next_multiple_of(8), 0);
        gpu::launch(function, self.blocks, &argument, 0).unwrap();
        gpu::finish(0).unwrap();
        gpu::download(to, self.output + 8).unwrap()
    }
}

/// Returns words in a fixed pseudo-random order.
fn noise(count: usize) -> Vec<u32> {
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u32
    };
    std::iter::repeat_with(next).take(count).collect()
}

fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Returns pairs of words: all pairs of special values, and many others.
fn pairs() -> Vec<u32> {
    let floats = [
        0.0,
        1.0,
        0.5,
        1.5,
        2.5,
        -0.5,
        254.5,
        255.0,
        256.0,
        65504.0,
        65520.0,
        1e-8,
        6e-8,
        1e-40,
        3e9,
        -3e9,
        1e20,
        f32::MAX,
        f32::MIN_POSITIVE,
        f32::INFINITY,
        f32::NAN,
    ];
    let special: Vec<u32> =
        floats.iter().flat_map(|f: &f32| [f.to_bits(), (-f).to_bits()]).collect();
    let all = special.iter().flat_map(|&x| special.iter().flat_map(move |&y| [x, y])).collect();
    [all, noise(4000)].concat()
}

fn arithmetic() -> Launch {
    let words = pairs();
    let count = words.len() as u32 / 2;
    Launch {
        blocks: [1, count.div_ceil(256)],
        output: 160 * count as usize,
        input: bytes(&words),
        rest: count.to_le_bytes().to_vec(),
    }
}

/// Replaces every NaN by one NaN in the f32 results, which are the first 13 of every 40 words.
fn without_payloads(made: &[u8]) -> Vec<u32> {
    let words = made.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap()));
    let one = |(k, word): (usize, u32)| {
        if k % 40 < 13 && f32::from_bits(word).is_nan() { 0x7fff_ffff } else { word }
    };
    words.enumerate().map(one).collect()
}

#[test]
fn arithmetic_is_that_of_the_host() {
    if !has_host_compiler() {
        return;
    }
    on_fake_gpu("arithmetic_is_that_of_the_host", &[], || {
        gpu::open(0).unwrap();
        let (name, source, ptx) = GOLDENS[1];
        let host = Nvrtc::fake().compile(source, &CUBIN).unwrap().cubin;
        let expected = without_payloads(&arithmetic().run(&host, name));
        let got = without_payloads(&arithmetic().run(ptx.as_bytes(), name));
        let different = expected.iter().zip(&got).position(|(a, b)| a != b);
        let words = pairs();
        let results = different.map(|at| {
            let pair = &words[at / 40 * 2..][..2];
            (at % 40, pair.to_vec(), expected[at], got[at])
        });
        assert_eq!(results, None, "the result, the pair, the host's, the interpreter's");
    });
}

/// The comparison above detects a change of one rounding, one comparison and one shift.
#[test]
fn arithmetic_that_is_not_the_hosts_is_found() {
    if !has_host_compiler() {
        return;
    }
    on_fake_gpu("arithmetic_that_is_not_the_hosts_is_found", &[], || {
        gpu::open(0).unwrap();
        let (name, source, ptx) = GOLDENS[1];
        let host = Nvrtc::fake().compile(source, &CUBIN).unwrap().cubin;
        let expected = without_payloads(&arithmetic().run(&host, name));
        for (from, to) in [
            ("cvt.rni.f32.f32", "cvt.rmi.f32.f32"),
            ("cvt.rzi.s32.f32", "cvt.rni.s32.f32"),
            ("setp.geu.f32", "setp.ge.f32"),
            ("shr.s32", "shr.u32"),
            ("mul.wide.s32", "mul.wide.u32"),
            ("cvt.s32.s8", "cvt.u32.u8"),
        ] {
            assert!(ptx.contains(from), "{from}");
            let got = arithmetic().run(ptx.replacen(from, to, 1).as_bytes(), name);
            assert_ne!(without_payloads(&got), expected, "{from} as {to}");
        }
    });
}

#[test]
fn pixels_from_any_place_are_those_of_the_host() {
    if !has_host_compiler() {
        return;
    }
    on_fake_gpu("pixels_from_any_place_are_those_of_the_host", &[], || {
        gpu::open(0).unwrap();
        let (name, source, ptx) = GOLDENS[2];
        let host = Nvrtc::fake().compile(source, &CUBIN).unwrap().cubin;
        for first in 0..4 {
            let groups = 5u32;
            let launch = Launch {
                blocks: [3, 1],
                input: bytes(&noise(3 * 6 * groups as usize + 3)),
                output: 3 * 24 * groups as usize,
                rest: [groups, first].map(u32::to_le_bytes).concat(),
            };
            let made = launch.run(ptx.as_bytes(), name);
            assert_ne!(made, vec![0; made.len()]);
            assert_eq!(made, launch.run(&host, name), "first {first}");
        }
    });
}

/// Images through maps, of each type: crops, mirrors, edges, widths of every residue.
fn mapped(width: u32, map: [i32; 4]) -> Launch {
    let height = 3u32;
    let row_bytes = 3 * width * height + 12;
    let map = map.map(|value| value as u32);
    let numbers = [height, width, row_bytes, map[0], map[1], map[2], map[3]];
    let floats = [1.7f32, -20.25].map(f32::to_bits);
    Launch {
        blocks: [2, 1],
        input: bytes(&noise((2 * row_bytes as usize + 8).div_ceil(4))),
        output: 2 * 12 * 3 * (height * width) as usize,
        rest: bytes(&[&numbers[..], &floats].concat()),
    }
}

#[test]
fn pictures_by_an_nvrtc_are_those_of_the_host() {
    if !has_host_compiler() || Nvrtc::real().is_none() {
        return;
    }
    on_fake_gpu("pictures_by_an_nvrtc_are_those_of_the_host", &[], || {
        gpu::open(0).unwrap();
        let ptx = Nvrtc::real().unwrap().compile(MAPPED, &PTX).unwrap().ptx;
        let host = Nvrtc::fake().compile(MAPPED, &CUBIN).unwrap().cubin;
        for width in 16..25 {
            for map in [[1, 0, 1, 0], [1, 1, 1, 5], [1, 0, -1, width as i32 - 1], [-1, 2, -1, 3]] {
                let launch = mapped(width, map);
                let made = launch.run(ptx.as_bytes(), "mapped");
                assert_eq!(made, launch.run(&host, "mapped"), "width {width}, map {map:?}");
            }
        }
    });
}

#[test]
fn the_goldens_are_what_nvrtc_makes() {
    let Some(nvrtc) = Nvrtc::real() else { return };
    for (name, source, golden) in GOLDENS {
        let made = nvrtc.compile(source, &PTX).unwrap().ptx;
        if env::var_os("BLESS").is_some() {
            let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("ptx");
            fs::write(folder.join(format!("{name}.ptx")), &made).unwrap();
            continue;
        }
        let other = "made by another NVRTC than 12.0.76?";
        assert!(made == golden, "{name}: BLESS=1 writes it anew; {other}");
    }
}

/// Runs `increment` on `count` words from byte `skip` on of the 32 bytes of input.
fn increment(skip: u64, count: u64, writable: bool) -> Result<u64, Fault> {
    let program = Program::parse(INCREMENT).unwrap();
    // Memory of the allocator: its addresses are multiples of 16.
    let (from, mut to) = (vec![7; 32], vec![0; 64]);
    let mut memory = Memory::default();
    let from = memory.lend(&from);
    let to = if writable { memory.lend_mut(&mut to) } else { from };
    let argument = [from + skip, to, count].map(u64::to_le_bytes).concat();
    let grid = Grid { blocks: [1, 1, 1], block: [256, 1, 1] };
    program.run("increment", grid, &[&argument], &memory)
}

#[test]
fn what_a_kernel_must_not_do_is_found() {
    assert!(increment(0, 8, true).unwrap() > 8 * 8);
    assert!(matches!(increment(0, 9, true), Err(Fault::Illegal(_))), "a read behind");
    assert!(matches!(increment(2, 1, true), Err(Fault::Misaligned(_))));
    let fault = increment(0, 1, false).unwrap_err().to_string();
    assert!(fault.contains("illegal write") && fault.contains("st.global"), "{fault}");
}

#[test]
fn a_kernel_that_does_not_end_is_stopped() {
    let text = ".version 8.0\n.target sm_75\n.entry k()\n{\n$L:\nbra.uni $L;\n}\n";
    let program = Program::parse(text).unwrap();
    let grid = Grid { blocks: [1, 1, 1], block: [1, 1, 1] };
    let fault = program.run("k", grid, &[], &Memory::default()).unwrap_err();
    assert!(fault.to_string().contains("does not end"), "{fault}");
}

#[test]
fn arguments_and_blocks_are_as_declared() {
    let program = Program::parse(INCREMENT).unwrap();
    let run = |threads, argument: &[u8]| {
        let grid = Grid { blocks: [1, 1, 1], block: [threads, 1, 1] };
        program.run("increment", grid, &[argument], &Memory::default())
    };
    assert!(run(256, &[0; 24]).is_ok(), "no words");
    assert!(run(256, &[0; 16]).is_err());
    assert!(run(512, &[0; 24]).is_err());
}

/// Returns a body with one instruction and registers of each kind.
fn body(instruction: &str) -> String {
    format!(
        ".version 8.0\n.target sm_75\n.visible .entry k(\n.param .u64 k_param_0\n)\n{{\n\
         .reg .pred %p<4>;\n.reg .b16 %rs<4>;\n.reg .b32 %r<6>;\n.reg .b64 %rd<4>;\n\
         .reg .f32 %f<4>;\n.reg .f64 %fd<4>;\n{instruction}\nret;\n}}\n"
    )
}

#[test]
fn what_is_not_covered_is_refused_by_name() {
    for instruction in [
        "add.f32 %f1, %f2, %f3;",
        "add.rz.f32 %f1, %f2, %f3;",
        "fma.rn.ftz.f32 %f1, %f2, %f3, %f1;",
        "add.rn.sat.f32 %f1, %f2, %f3;",
        "div.approx.f32 %f1, %f2, %f3;",
        "ex2.approx.f32 %f1, %f2;",
        "cvt.rz.f16.f32 %rs1, %f1;",
        "cvt.rn.ftz.f32.f64 %f1, %fd1;",
        "add.cc.u32 %r1, %r2, %r3;",
        "bar.sync 0;",
        "ld.shared.u32 %r1, [%rd1];",
        "ld.volatile.global.u32 %r1, [%rd1];",
        "ld.global.L1::no_allocate.u32 %r1, [%rd1];",
        "atom.global.cas.b32 %r1, [%rd1], %r2, %r3;",
        "atom.global.add.f32 %f1, [%rd1], %f2;",
        "shfl.sync.bfly.b32 %r1, %r2, 1, 31, -1;",
        "mov.u32 %r1, %laneid;",
        "mov.u64 %rd1, some_global;",
        "mov.u32 %r77, 1;",
        "bra $nowhere;",
        "call f, (%r1);",
        ".shared .align 4 .b8 s[64];",
    ] {
        let error = Program::parse(&body(instruction)).unwrap_err();
        let name = instruction.split([' ', ',']).next().unwrap();
        assert!(error.contains(name) && error.starts_with("line "), "{instruction}: {error}");
    }
    Program::parse(&body("add.rn.f32 %f1, %f2, %f3;")).unwrap();
}

#[test]
fn device_functions_are_refused() {
    let text = format!(".func f()\n{{\nret;\n}}\n{}", body("ret;"));
    assert!(Program::parse(&text).unwrap_err().contains(".func is not covered"));
}

/// A handwritten kernel covers vectors, pairs, ranges of parameters and of local memory, and
/// guards.
#[test]
fn words_go_through_vectors_and_local_memory() {
    let text = body(
        ".local .align 16 .b8 depot[32];\n\
         .reg .b64 %SPL;\n\
         mov.u64 %SPL, depot;\n\
         ld.param.u64 %rd1, [k_param_0];\n\
         cvta.to.global.u64 %rd2, %rd1;\n\
         ld.global.v2.u32 {%r1, %r2}, [%rd2];\n\
         st.local.v2.b32 [%SPL+8], {%r2, %r1};\n\
         ld.local.u64 %rd3, [%SPL+8];\n\
         mov.b64 {%r3, %r4}, %rd3;\n\
         mov.b64 %rd3, {%r4, %r4};\n\
         setp.lt.u32 %p1, %r3, %r4;\n\
         @!%p1 st.global.u64 [%rd2+8], %rd3;\n\
         @%p1 st.global.u32 [%rd2+8], 1;\n\
         red.global.add.u32 [%rd2], 5;",
    );
    let program = Program::parse(&text).unwrap();
    let mut words = 0x2_0000_0001u128.to_le_bytes().to_vec();
    let mut memory = Memory::default();
    let at = memory.lend_mut(&mut words);
    let grid = Grid { blocks: [1, 1, 1], block: [1, 1, 1] };
    program.run("k", grid, &[&at.to_le_bytes()], &memory).unwrap();
    drop(memory);
    assert_eq!(
        u128::from_le_bytes(words.try_into().unwrap()),
        (0x1_0000_0001 << 64) | 0x2_0000_0006
    );
}
