//! The fake NVRTC: `libnvrtc.so.12` for machines without CUDA.
//!
//! ```text
//! CUDA C with helpers of fuseloop.cuh ──g++, host_cuda.h──▶ shared object ──▶ "CUBIN", "PTX" (see `image`)
//! ```
//!
//! The version is 12.0, or `FAKE_NVRTC_VERSION` (for example 12080). Unknown options are refused,
//! as by the real NVRTC; so is a program without `--fmad=false`, because its results could not
//! match the host's bit for bit.

mod calls;
mod compiler;

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

pub(crate) use compiler::host_compiler;

/// NVRTC's return codes, by number (`nvrtcResult` of nvrtc.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Code(i32);

impl Code {
    const INVALID_INPUT: Self = Self(3);
    const INVALID_PROGRAM: Self = Self(4);
    const INVALID_OPTION: Self = Self(5);
    const COMPILATION: Self = Self(6);
    const INTERNAL_ERROR: Self = Self(11);
}

impl From<crate::abi::Null> for Code {
    fn from(crate::abi::Null: crate::abi::Null) -> Self {
        Self::INVALID_INPUT
    }
}

/// A program: its source and the compiled output.
#[derive(Debug, Default, Clone)]
struct Program {
    source: String,
    /// Headers, by the name that `#include` uses.
    headers: Vec<(String, String)>,
    log: String,
    ptx: Vec<u8>,
    cubin: Vec<u8>,
}

/// The programs that have not been destroyed, by handle.
#[derive(Debug, Default)]
struct Programs {
    made: u64,
    by_handle: HashMap<u64, Program>,
}

fn programs() -> MutexGuard<'static, Programs> {
    static PROGRAMS: LazyLock<Mutex<Programs>> = LazyLock::new(Mutex::default);
    PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner)
}
