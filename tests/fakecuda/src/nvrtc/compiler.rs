//! Compiles a program with the host's C++ compiler.
//!
//! ```text
//! g++ -std=c++17 -O1 -ffp-contract=off -fno-strict-aliasing -fno-math-errno -shared -fPIC
//!     [-march=x86-64-v3, if this CPU supports it: fma is then one instruction]
//! ```
//!
//! The compiler's folder holds the source, the headers that came with it, and host_cuda.h.

use super::{Code, Program};
use crate::image;
use std::path::{Component, Path};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::{env, fs, io};

const HOST_CUDA: &str = include_str!("../../../../kernels/cuda/host_cuda.h");

/// The architectures of NVRTC 12.0 that the fake supports.
pub(crate) const ARCHITECTURES: [u32; 6] = [75, 80, 86, 87, 89, 90];

/// Options that have no effect here.
const IGNORED: [&str; 11] = [
    "--std=",
    "-std=",
    "--fmad=false",
    "-fmad=false",
    "--ftz=false",
    "--prec-div=true",
    "--prec-sqrt=true",
    "--device-as-default-execution-space",
    "-default-device",
    "--disable-warnings",
    "--extra-device-vectorization",
];

/// Returns the CUDA version that the fake reports.
pub(crate) fn version() -> (u32, u32) {
    let asked = env::var("FAKE_NVRTC_VERSION").ok().and_then(|text| text.parse::<u32>().ok());
    let version = asked.unwrap_or(12000);
    (version / 1000, version % 1000 / 10)
}

/// Returns the compiler to call; `None` if this machine has none.
pub(crate) fn host_compiler() -> Option<&'static str> {
    static FOUND: OnceLock<Option<String>> = OnceLock::new();
    let look = || {
        let name = env::var("CXX").unwrap_or_else(|_| "g++".to_owned());
        let runs = Command::new(&name).arg("--version").output().is_ok_and(|o| o.status.success());
        runs.then_some(name)
    };
    FOUND.get_or_init(look).as_deref()
}

pub(super) fn compile(program: &mut Program, options: &[String]) -> Result<(), Code> {
    let target = Target::of(options).map_err(|log| {
        program.log = format!("nvrtc: error: {log}");
        Code::INVALID_OPTION
    })?;
    let library = build(program, &target.defines).map_err(|log| {
        program.log = log;
        Code::COMPILATION
    })?;
    let (major, minor) = version();
    program.ptx = image::text((major - 4, minor), target.sm, &library).into_bytes();
    program.ptx.push(0);
    // Only a real architecture has machine code.
    program.cubin = if target.real { image::cubin(target.sm, &library) } else { vec![] };
    Ok(())
}

/// The values of the options.
#[derive(Debug, PartialEq, Eq)]
struct Target {
    sm: u32,
    real: bool,
    defines: Vec<String>,
}

impl Target {
    fn of(options: &[String]) -> Result<Self, String> {
        let mut target = Self { sm: 75, real: false, defines: vec![] };
        for option in options {
            let architecture = ["--gpu-architecture=", "-arch="].iter();
            if let Some(name) = architecture.filter_map(|name| option.strip_prefix(name)).next() {
                (target.sm, target.real) = architecture_of(name)?;
            } else if option.starts_with("-D") {
                target.defines.push(option.clone());
            } else if !IGNORED.iter().any(|known| option.starts_with(known)) {
                return Err(format!("unrecognized option {option} found"));
            }
        }
        if !options.iter().any(|option| option.ends_with("-fmad=false")) {
            return Err("--fmad=false is missing: bits would not be the host's".to_owned());
        }
        Ok(target)
    }
}

fn architecture_of(name: &str) -> Result<(u32, bool), String> {
    let (digits, real) = match name.strip_prefix("sm_") {
        Some(digits) => (digits, true),
        None => (name.strip_prefix("compute_").unwrap_or(""), false),
    };
    let known = digits.parse().ok().filter(|sm| ARCHITECTURES.contains(sm));
    let known = known.ok_or_else(|| format!("invalid value for --gpu-architecture ({name})"))?;
    Ok((known, real))
}

/// Returns the shared object, or the compiler's messages.
fn build(program: &Program, defines: &[String]) -> Result<Vec<u8>, String> {
    let compiler = host_compiler().ok_or("there is no C++ compiler (g++, or what CXX names)")?;
    let wrong = |error: io::Error| error.to_string();
    let folder = tempfile::tempdir().map_err(wrong)?;
    let at = |name: &str| folder.path().join(name);
    fs::write(at("kernels.cu"), &program.source).map_err(wrong)?;
    fs::write(at("host_cuda.h"), HOST_CUDA).map_err(wrong)?;
    for (name, text) in &program.headers {
        let inside = Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
        if !inside || name.contains('/') {
            return Err(format!("header {name:?} is no name of a file"));
        }
        fs::write(at(name), text).map_err(wrong)?;
    }
    let said = run(compiler, folder.path(), defines).map_err(wrong)?;
    if !said.status.success() {
        return Err(String::from_utf8_lossy(&said.stderr).into_owned());
    }
    fs::read(at("kernels.so")).map_err(wrong)
}

fn run(compiler: &str, folder: &Path, defines: &[String]) -> io::Result<Output> {
    let mut command = Command::new(compiler);
    command.current_dir(folder).args(["-std=c++17", "-O1", "-ffp-contract=off", "-w"]);
    command.args(["-fno-strict-aliasing", "-fno-math-errno", "-shared", "-fPIC", "-I."]);
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        command.args(["-mavx2", "-mfma"]);
    }
    command.args(defines).args(["-x", "c++", "kernels.cu", "-o", "kernels.so"]).output()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(options: &[&str]) -> Result<Target, String> {
        Target::of(&options.iter().map(|&option| option.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn only_a_real_architecture_has_machine_code() {
        let of = |arch| target(&[arch, "--fmad=false"]).unwrap();
        assert_eq!(of("--gpu-architecture=sm_86"), Target { sm: 86, real: true, defines: vec![] });
        assert!(!of("-arch=compute_75").real);
    }

    #[test]
    fn options_that_change_bits_or_are_unknown_are_refused() {
        for options in [
            &["--gpu-architecture=sm_90"][..],
            &["--fmad=false", "--use_fast_math"],
            &["--fmad=false", "--ftz=true"],
            &["--fmad=false", "--gpu-architecture=sm_52"],
            &["--fmad=false", "--nonsense"],
        ] {
            assert!(target(options).is_err(), "{options:?}");
        }
    }
}
