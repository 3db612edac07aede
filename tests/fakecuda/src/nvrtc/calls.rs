//! The exported functions of NVRTC.

use super::compiler::{ARCHITECTURES, version};
use super::{Code, Program, compiler, programs};
use crate::abi::{Array, Handle, Host, Out, Text, export};
use std::ffi::{CStr, c_char};
use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};

export! { call => i32;
    fn nvrtcVersion(major: Out<i32>, minor: Out<i32>) {
        let (newest, second) = version();
        major.put(newest as i32)?;
        Ok(minor.put(second as i32)?)
    }

    fn nvrtcGetNumSupportedArchs(count: Out<i32>) {
        Ok(count.put(ARCHITECTURES.len() as i32)?)
    }

    fn nvrtcGetSupportedArchs(architectures: Out<[i32; ARCHITECTURES.len()]>) {
        Ok(architectures.put(ARCHITECTURES.map(|sm| sm as i32))?)
    }

    fn nvrtcCreateProgram(
        program: Out<Handle>,
        source: Text,
        _name: Text,
        count: i32,
        headers: Array<Text>,
        names: Array<Text>,
    ) {
        let count = usize::try_from(count).map_err(|_| Code::INVALID_INPUT)?;
        let (headers, names) = (headers.read(count)?, names.read(count)?);
        let pairs = names.iter().zip(headers);
        let headers = pairs.map(|(name, text)| Ok((name.read()?, text.read()?)));
        let headers = headers.collect::<Result<_, Code>>()?;
        let mut programs = programs();
        programs.made += 1;
        let handle = programs.made;
        program.put(handle)?;
        let new = Program { source: source.read()?, headers, ..Program::default() };
        programs.by_handle.insert(handle, new);
        Ok(())
    }

    fn nvrtcCompileProgram(program: Handle, count: i32, options: Array<Text>) {
        let count = usize::try_from(count).map_err(|_| Code::INVALID_INPUT)?;
        let options = options.read(count)?.into_iter().map(Text::read);
        let options: Vec<String> = options.collect::<Result<_, _>>()?;
        let mut compiled = with(program, Program::clone)?;
        let outcome = compiler::compile(&mut compiled, &options);
        programs().by_handle.insert(program, compiled);
        outcome
    }

    fn nvrtcDestroyProgram(program: Out<Handle>) {
        let destroyed = programs().by_handle.remove(&program.get()?);
        destroyed.ok_or(Code::INVALID_PROGRAM)?;
        Ok(program.put(0)?)
    }

    fn nvrtcGetProgramLogSize(program: Handle, size: Out<usize>) {
        Ok(size.put(with(program, |program| program.log.len() + 1)?)?)
    }

    fn nvrtcGetProgramLog(program: Handle, to: Host) {
        give(to, with(program, |program| [program.log.as_bytes(), &[0]].concat())?)
    }

    fn nvrtcGetPTXSize(program: Handle, size: Out<usize>) {
        Ok(size.put(with(program, |program| program.ptx.len())?)?)
    }

    fn nvrtcGetPTX(program: Handle, to: Host) {
        give(to, with(program, |program| program.ptx.clone())?)
    }

    fn nvrtcGetCUBINSize(program: Handle, size: Out<usize>) {
        Ok(size.put(with(program, |program| program.cubin.len())?)?)
    }

    fn nvrtcGetCUBIN(program: Handle, to: Host) {
        give(to, with(program, |program| program.cubin.clone())?)
    }
}

export! { as_it_is => *const c_char;
    fn nvrtcGetErrorString(code: i32) {
        words(code).as_ptr()
    }
}

fn words(code: i32) -> &'static CStr {
    match code {
        0 => c"NVRTC_SUCCESS",
        3 => c"NVRTC_ERROR_INVALID_INPUT",
        4 => c"NVRTC_ERROR_INVALID_PROGRAM",
        5 => c"NVRTC_ERROR_INVALID_OPTION",
        6 => c"NVRTC_ERROR_COMPILATION",
        11 => c"NVRTC_ERROR_INTERNAL_ERROR",
        _ => c"NVRTC_ERROR unknown",
    }
}

/// Runs one call from C, and catches a panic.
fn call(_: &'static str, _: &[&dyn Debug], body: impl FnOnce() -> Result<(), Code>) -> i32 {
    let answer = catch_unwind(AssertUnwindSafe(body)).unwrap_or(Err(Code::INTERNAL_ERROR));
    answer.map_or_else(|code| code.0, |()| 0)
}

fn as_it_is<T>(_: &'static str, _: &[&dyn Debug], body: impl FnOnce() -> T) -> T {
    body()
}

fn with<T>(program: Handle, look: impl FnOnce(&Program) -> T) -> Result<T, Code> {
    programs().by_handle.get(&program).map(look).ok_or(Code::INVALID_PROGRAM)
}

/// Writes the bytes to the caller's buffer; the caller has asked for the size before.
#[expect(clippy::needless_pass_by_value, reason = "made for this")]
fn give(to: Host, bytes: Vec<u8>) -> Result<(), Code> {
    to.span(bytes.len())?.write(&bytes);
    Ok(())
}
