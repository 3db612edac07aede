//! Generates the text of a one-hot vector: a class for each row, and two values.
//!
//! ```text
//! staged row:  class, 0, then the record's words of each mixing op        words
//! element k  = hot if k is the class, else cold; mixed as record.rs says
//! ```

use super::KernelBuilder;
use super::image::element;
use crate::device::record::MIX_WORDS;
use fuseloop_ops::DType;
use std::fmt::Write as _;

/// A one-hot vector.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct OneHotCode {
    pub(crate) dtype: DType,
    pub(crate) mixers: usize,
}

/// The vector's words of the arguments: bytes of a staged row, classes, the bits of the cold and of the
/// hot value.
pub(crate) const WORDS: usize = 4;

/// Returns the offset of the words of mixing op number `mixer`, in words.
pub(crate) const fn mix_at(mixer: usize) -> usize {
    2 + MIX_WORDS * mixer
}

impl OneHotCode {
    /// Generates the vector's functions. `k` is the index of its first word in the arguments.
    pub(super) fn write(&self, to: &mut KernelBuilder, p: usize, k: usize) {
        let element = element(self.dtype).unwrap_or_default();
        let _ = writeln!(
            to.text,
            "\n// a one-hot vector\n\
             DEV const u8* p{p}_staged(const Arguments& a, u32 row) {{ return (const u8*)a.staged{p} + (u64)row * a.k[{k}]; }}\n\
             DEV u32 p{p}_mixed0(const Arguments& a, u32 row, u32 class_) {{ return load_word(p{p}_staged(a, row)) == class_ ? a.k[{}] : a.k[{}]; }}",
            k + 3,
            k + 2
        );
        for n in 0..self.mixers {
            let _ = writeln!(
                to.text,
                "DEV u32 p{p}_mixed{}(const Arguments& a, u32 row, u32 class_)\n{{\n    \
                 const u32 own = p{p}_mixed{n}(a, row, class_);\n    \
                 const u8* m = p{p}_staged(a, row) + {};\n    \
                 const Mix mix = mix_at(m);\n    \
                 if (mix.how == 0u) return own;\n    \
                 const u32 other = p{p}_mixed{n}(a, mix.partner, class_);\n    \
                 return {element}::value(own) == {element}::value(other) ? own : {element}::mixed(m, mix, own, other);\n}}",
                n + 1,
                4 * mix_at(n)
            );
        }
        let _ = writeln!(
            to.text,
            "DEV void p{p}_store(const Arguments& a, u32 row)\n{{\n    \
             {element}::Stored* to = ({element}::Stored*)a.tensor{p} + (u64)row * a.k[{}];\n    \
             for (u32 k = first_group(); k < a.k[{}]; k += group_step()) to[k] = ({element}::Stored)p{p}_mixed{}(a, row, k);\n}}",
            k + 1,
            k + 1,
            self.mixers
        );
        let _ = writeln!(to.body, "    p{p}_store(a, row);");
    }
}
