//! The width of the vectors of compiled loops: what the CPU has, what the environment asks for, and why a pass has less.

use crate::error::{Error, fail};
use fuseloop_ops::internals::DTYPES;
use std::sync::OnceLock;

/// The width of the vectors of compiled loops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VectorBits {
    /// Cranelift's: 128 bits.
    V128,
    /// 256 bits, with AVX2.
    V256,
    /// 512 bits, with AVX-512 as CPUs with VBMI have it: Intel's since Ice Lake, AMD's since Zen 4.
    V512,
}

impl VectorBits {
    /// Returns the number of bits.
    #[must_use]
    pub const fn count(self) -> u32 {
        match self {
            Self::V128 => 128,
            Self::V256 => 256,
            Self::V512 => 512,
        }
    }

    /// Returns the width of a number of bits.
    #[must_use]
    pub fn of_count(count: u64) -> Option<Self> {
        [Self::V128, Self::V256, Self::V512]
            .into_iter()
            .find(|bits| u64::from(bits.count()) == count)
    }

    /// Returns the widest vectors of this CPU.
    #[must_use]
    pub fn widest() -> Self {
        widest()
    }
}

/// The reason why a loop runs with 128 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Fallback {
    #[error("too many values are in use at once")]
    Registers,
    #[error("elements of {0} are read")]
    Source(fuseloop_ops::DType),
    #[error("bytes are copied")]
    Bytes,
    #[error("a sum of squares is computed")]
    Squares,
}

impl Fallback {
    /// Returns the word for it in the description of an object file.
    pub(super) fn name(self) -> String {
        match self {
            Self::Registers => "registers".to_owned(),
            Self::Source(dtype) => format!("source {dtype}"),
            Self::Bytes => "bytes".to_owned(),
            Self::Squares => "squares".to_owned(),
        }
    }

    /// Returns the reason with a name.
    pub(super) fn named(name: &str) -> Option<Self> {
        let mut all = vec![Self::Registers, Self::Bytes, Self::Squares];
        all.extend(DTYPES.map(Self::Source));
        all.into_iter().find(|reason| reason.name() == name)
    }
}

/// The environment variable that sets the width of vectors.
const VARIABLE: &str = "FUSELOOP_ISA";

/// Returns the width of vectors that this process compiles for, or what is wrong with the environment variable.
pub(super) fn vector_bits() -> Result<VectorBits, Error> {
    static BITS: OnceLock<Result<VectorBits, Error>> = OnceLock::new();
    let find = || match std::env::var_os(VARIABLE) {
        None => Ok(widest()),
        Some(asked) => asked_bits(asked.to_str().unwrap_or_default()),
    };
    BITS.get_or_init(find).as_ref().copied().map_err(Error::copy)
}

fn asked_bits(asked: &str) -> Result<VectorBits, Error> {
    let bits = match asked {
        "128" => VectorBits::V128,
        "256" => VectorBits::V256,
        "512" => VectorBits::V512,
        _ => return Err(fail!(Pipeline, "{VARIABLE} is {asked:?}, but must be 128, 256 or 512")),
    };
    if bits.count() > widest().count() {
        return Err(fail!(
            Pipeline,
            "{VARIABLE} is {asked}, but this CPU has vectors of at most {} bits; unset it",
            widest().count()
        ));
    }
    Ok(bits)
}

/// Returns the widest vectors of this CPU.
#[cfg(target_arch = "x86_64")]
pub(super) fn widest() -> VectorBits {
    use std::arch::is_x86_feature_detected as has;
    let has_512 = has!("avx512f")
        && has!("avx512bw")
        && has!("avx512vl")
        && has!("avx512vbmi")
        && has!("bmi2");
    match (has_512, has!("avx2") && has!("fma") && has!("f16c")) {
        (true, _) => VectorBits::V512,
        (_, true) => VectorBits::V256,
        _ => VectorBits::V128,
    }
}

/// Returns the widest vectors of this CPU.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn widest() -> VectorBits {
    VectorBits::V128
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_sets_a_width_that_the_cpu_has() {
        assert_eq!(asked_bits("128"), Ok(VectorBits::V128));
        let wrong = asked_bits("avx2");
        let text = "FUSELOOP_ISA is \"avx2\", but must be 128, 256 or 512";
        assert_eq!(wrong, Err(fail!(Pipeline, "{text}")));
        for (asked, bits) in [("256", VectorBits::V256), ("512", VectorBits::V512)] {
            match asked_bits(asked) {
                Ok(found) => assert_eq!(found, bits),
                Err(error) => {
                    assert!(widest().count() < bits.count());
                    let text = error.to_string();
                    assert!(text.contains("vectors of at most") && text.ends_with("unset it"));
                }
            }
        }
    }
}
