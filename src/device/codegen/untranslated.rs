//! Takes the place of `translate` in a build without the compiler, whose IR is what is translated.

use super::translation::Translation;
use fuseloop_ops::internals::program::Program;

/// Translates no program.
///
/// # Errors
///
/// Always.
pub(super) fn function(_: Translation<'_>, _: &Program) -> Result<(String, Vec<u32>), String> {
    Err("it needs the feature `jit` of the crate fuseloop".to_owned())
}
