//! Finds out if this machine and this build run compiled code, and with which vectors.

use super::settings::settings;
use super::vector_bits::{self, VectorBits};
use crate::error::Error;
use crate::warnings::warn;
use memmap2::MmapMut;
use std::io;
use std::sync::OnceLock;

/// Returns why this machine can't run compiled code, or `None` if it can. Without compiled code,
/// pipelines run on the scalar evaluator: the same bits, but slower.
#[must_use]
pub fn unsupported() -> Option<&'static str> {
    static REASON: OnceLock<Option<&'static str>> = OnceLock::new();
    *REASON.get_or_init(find_reason)
}

fn find_reason() -> Option<&'static str> {
    if std::env::var_os("FUSELOOP_NO_JIT").is_some() {
        return Some("FUSELOOP_NO_JIT is set");
    }
    let no_compiler = cfg!(not(feature = "jit")).then_some(NO_COMPILER);
    lacks().or(no_compiler).or_else(|| refuses_pages().then_some(NO_PAGES))
}

/// Returns what the CPU lacks for compiled code. Each aarch64 CPU has all of it.
fn lacks() -> Option<&'static str> {
    #[cfg(target_arch = "x86_64")]
    return (!std::arch::is_x86_feature_detected!("sse4.1")).then_some("the CPU has no SSE4.1");
    #[cfg(target_arch = "aarch64")]
    return None;
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    return Some("code is compiled for x86-64 and aarch64 only");
}

/// The reason of a build without the compiler.
const NO_COMPILER: &str = "the crate fuseloop was built without its feature `jit`";

/// The reason of a system that lets no process, or not this one, make executable what it has written.
const NO_PAGES: &str = "the system refuses executable memory";

/// Returns true if the system refuses to make a page executable, as `cranelift-jit` makes those of code. Other faults,
/// such as no memory, are found when code is compiled.
pub(super) fn refuses_pages() -> bool {
    let page = MmapMut::map_anon(1).and_then(MmapMut::make_exec);
    page.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
}

/// Warns that nothing is compiled although the machine could: the user may not know of the policy that is the reason.
pub(crate) fn warn_if_refused() {
    if unsupported() == Some(NO_PAGES) {
        warn(format_args!(
            "{NO_PAGES} (systemd's MemoryDenyWriteExecute, SELinux's execmem, or the policy of a container): pipelines are \
             evaluated op by op, the same bits in many times the time. Allow it for this process, or compile the list \
             ahead of time with `fuseloop compile` and call it as a Transform; FUSELOOP_NO_JIT=1 asks for the evaluator \
             without this warning"
        ));
    }
}

/// Returns the widest vectors that loops may have, or an error if the environment asks for others.
pub(super) fn vector_bits() -> Result<VectorBits, Error> {
    match settings().bits {
        Some(bits) => Ok(bits),
        None => vector_bits::vector_bits(),
    }
}
