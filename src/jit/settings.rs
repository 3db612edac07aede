//! Settings of code generation, which tests change.

use super::vector_bits::VectorBits;
use std::cell::Cell;

/// Settings of code generation. Code that compiles returns the same bits with all settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CodegenSettings {
    /// True if Cranelift's own optimizations run.
    pub optimized: bool,
    /// CPU features to disable, by Cranelift's names.
    pub without: &'static [&'static str],
    /// The widest vectors that loops may have; those of the process if `None`. Code with wider vectors than the
    /// CPU has must not run natively.
    pub bits: Option<VectorBits>,
    /// The fewest pixels of an image of bytes for which ops become tables of bytes; the usual number if `None`.
    pub byte_maps_from: Option<u64>,
}

thread_local! {
    static SETTINGS: Cell<CodegenSettings> = Cell::default();
}

/// Returns the settings that this thread generates code with.
pub(super) fn settings() -> CodegenSettings {
    SETTINGS.get()
}

/// Runs `work` with other settings for the code that this thread generates.
pub fn with_settings<T>(settings: CodegenSettings, work: impl FnOnce() -> T) -> T {
    let before = SETTINGS.replace(settings);
    let result = work();
    SETTINGS.set(before);
    result
}
