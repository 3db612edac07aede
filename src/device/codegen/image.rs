//! Generates the text of an image's kernels: its fused ops, in order, for eight pixels at a time.
//!
//! ```text
//! p0_pixels<PASS>(row, y, x)   loads through the pass's map, then the ops; a reduction stops before its own op
//! p0_read1, p0_read2, ..       kernels: the sum of the greys that an op needs, in integers
//! p0_mixed0(row, y, x)         pixels as they are stored
//! p0_mixed1, ..                the same pixels mixed with the partner's, by each mixing op
//! p0_store(row)                all groups of a row, to the tensor
//! ```
//!
//! The records and the arguments say which ops run, in which order, and all sizes: one text serves all
//! samples, epochs and sizes. All threads of a block work on the same sample, so threads that run
//! together never diverge.

use super::translate::function;
use super::translation::Translation;
use super::{KernelBuilder, Untranslatable};
use crate::device::record::{DeviceRecordLayout, Needed};
use crate::plan::{Block, ImagePlan, OpKind};
use fuseloop_ops::DType;
use fuseloop_ops::author::Layout as Channels;
use fuseloop_ops::author::{Emit, Pixels, Statistic};
use std::fmt::Write as _;

/// The input of the code generation for one image.
pub(crate) struct ImageCode<'a> {
    pub(crate) plan: &'a ImagePlan,
    pub(crate) block: &'a Block,
    pub(crate) layout: &'a DeviceRecordLayout,
    pub(crate) means: &'a [Needed],
    pub(crate) mixers: usize,
}

/// The indices of an image in the program.
pub(super) struct ProgramRange {
    /// The image's tensor.
    pub(super) tensor: usize,
    /// The image's first word of the arguments' constants: bytes of a staged row, offset of the record,
    /// rows and columns as staged, rows and columns of the output.
    pub(super) sizes: usize,
    /// The image's first sum in a row's scratch.
    pub(super) sum: usize,
}

/// The words at [`ProgramRange::sizes`].
pub(crate) const SIZES: usize = 6;

impl ImageCode<'_> {
    /// Generates the image's functions and the kernels of its reductions. Returns those kernels' names.
    pub(super) fn write(
        &self,
        to: &mut KernelBuilder,
        at: &ProgramRange,
    ) -> Result<Vec<String>, Untranslatable> {
        let p = at.tensor;
        to.text.push_str("\n// a picture\n");
        self.accessors(to, at);
        let calls = self.steps(to, p)?;
        let _ = writeln!(
            to.text,
            "template <int PASS> DEV void p{p}_pixels(const Arguments& a, u32 row, i32 y, i32 x, Group& g)\n{{\n    \
             const u8* record = p{p}_record(a, row);\n    \
             const u8* pass = record + 4 * (PASS * {pass_words});\n    \
             i32 map[4] = {{ (i32)load_word(pass), (i32)load_word(pass + 4), (i32)load_word(pass + 8), (i32)load_word(pass + 12) }};\n    \
             load_mapped(p{p}_staged(a, row), (i32)a.k[{h}], (i32)a.k[{w}], map, y, x, g);\n{calls}}}",
            pass_words = self.layout.pass(1),
            h = at.sizes + 2,
            w = at.sizes + 3,
        );
        let readings = self.readings(to, at)?;
        self.store(to, at);
        Ok(readings)
    }

    fn accessors(&self, to: &mut KernelBuilder, at: &ProgramRange) {
        let (p, k) = (at.tensor, at.sizes);
        let _ = writeln!(
            to.text,
            "DEV const u8* p{p}_staged(const Arguments& a, u32 row) {{ return (const u8*)a.staged{p} + (u64)row * a.k[{k}]; }}\n\
             DEV const u8* p{p}_record(const Arguments& a, u32 row) {{ return p{p}_staged(a, row) + a.k[{}]; }}",
            k + 1
        );
        for (n, mean) in self.means.iter().enumerate() {
            let (size, param) = (4 * self.layout.size(1 + n), 4 * self.param(mean.param));
            let _ = writeln!(
                to.text,
                "DEV float p{p}_mean{n}(const Arguments& a, u32 row)\n{{\n    \
                 const u8* record = p{p}_record(a, row);\n    \
                 u32 height = load_word(record + {size}), width = load_word(record + {});\n    \
                 if (height == 0) return float_of(load_word(record + {param}));\n    \
                 i64 sum = sum_at((const u64*)a.scratch + (u64)row * SUMS + {});\n    \
                 return div_rn(float_of_i64(sum), float_of_i64((i64)height * width));\n}}",
                size + 4,
                at.sum + n
            );
        }
    }

    /// Generates the kernels that sum greys.
    fn readings(
        &self,
        to: &mut KernelBuilder,
        at: &ProgramRange,
    ) -> Result<Vec<String>, Untranslatable> {
        let p = at.tensor;
        let Some(first) = self.means.first() else { return Ok(vec![]) };
        let name = format!("p{p}_grey");
        let frame = Translation::of(&name);
        let grey = |e: &mut Emit, pixels: Pixels| {
            let grey = e.grey(pixels);
            pixels.filled(grey)
        };
        let refused = |reason| Untranslatable { leaf: first.leaf, reason };
        let grey = frame.record(self.plan.rule(), grey);
        to.text.push_str(&function(frame, &grey).map_err(refused)?.0);
        let mut names = vec![];
        for n in 0..self.means.len() {
            let name = format!("p{p}_read{}", n + 1);
            let size = 4 * self.layout.size(1 + n);
            let _ = writeln!(
                to.text,
                "KERNEL({name}, Arguments)\n{{\n    \
                 const u32 row = row_of();\n    \
                 const u8* record = p{p}_record(a, row);\n    \
                 const u32 height = load_word(record + {size}), width = load_word(record + {});\n    \
                 const u32 per_row = (width + 7u) / 8u, groups = per_row * height;\n    \
                 u64 sum = 0;\n    \
                 for (u32 k = first_group(); k < groups; k += group_step()) {{\n        \
                 const i32 y = (i32)(k / per_row), x = (i32)(8u * (k % per_row));\n        \
                 Group g;\n        \
                 p{p}_pixels<{}>(a, row, y, x, g);\n        \
                 EACH_PIXEL {{\n            \
                 p{p}_grey(a, record, 0.0f, y, x, g.v[0][i], g.v[1][i], g.v[2][i]);\n            \
                 if (x + i < (i32)width) sum += (u64)(i64)int_of(g.v[0][i]);\n        \
                 }}\n    }}\n    \
                 if (sum) add_to((u64*)a.scratch + (u64)row * SUMS + {}, sum);\n}}",
                size + 4,
                n + 1,
                at.sum + n
            );
            names.push(name);
        }
        Ok(names)
    }

    /// Generates the functions of the pixels as stored and as mixed, and the loop over a row's groups.
    fn store(&self, to: &mut KernelBuilder, at: &ProgramRange) {
        let (p, k) = (at.tensor, at.sizes);
        let element = element(self.block.dtype).unwrap_or_default();
        let _ = writeln!(
            to.text,
            "DEV void p{p}_mixed0(const Arguments& a, u32 row, i32 y, i32 x, u32 bits[3][8])\n{{\n    \
             Group g;\n    p{p}_pixels<0>(a, row, y, x, g);\n    \
             EACH_CHANNEL EACH_PIXEL bits[c][i] = {element}::bits(g.v[c][i]);\n}}"
        );
        for n in 0..self.mixers {
            let _ = writeln!(
                to.text,
                "DEV void p{p}_mixed{}(const Arguments& a, u32 row, i32 y, i32 x, u32 bits[3][8])\n{{\n    \
                 p{p}_mixed{n}(a, row, y, x, bits);\n    \
                 const u8* m = p{p}_record(a, row) + {};\n    \
                 const Mix mix = mix_at(m);\n    \
                 if (!is_mixed(mix, y, x)) return;\n    \
                 u32 other[3][8];\n    \
                 p{p}_mixed{n}(a, mix.partner, y, x, other);\n    \
                 if (mix.how == 1u) {{\n        \
                 EACH_CHANNEL EACH_PIXEL bits[c][i] = {element}::mixed(m, mix, bits[c][i], other[c][i]);\n    \
                 }} else {{\n        \
                 EACH_CHANNEL EACH_PIXEL if (x + i >= mix.x0 && x + i < mix.x1) bits[c][i] = other[c][i];\n    \
                 }}\n}}",
                n + 1,
                4 * self.layout.mix(n)
            );
        }
        let store = match self.block.layout {
            Channels::ChannelsFirst => format!("store_planes<{element}>(to, height, width,"),
            Channels::ChannelsLast | Channels::Plane => {
                format!("store_pixels<{element}>(to, width,")
            }
        };
        let _ = writeln!(
            to.text,
            "DEV void p{p}_store(const Arguments& a, u32 row)\n{{\n    \
             const u32 height = a.k[{}], width = a.k[{}];\n    \
             const u32 per_row = (width + 7u) / 8u, groups = per_row * height;\n    \
             void* to = (u8*)a.tensor{p} + (u64)row * height * width * 3u * sizeof({element}::Stored);\n    \
             for (u32 k = first_group(); k < groups; k += group_step()) {{\n        \
             const u32 y = k / per_row, x = 8u * (k % per_row);\n        \
             const u32 left = width - x, count = left < 8u ? left : 8u;\n        \
             u32 bits[3][8];\n        \
             p{p}_mixed{}(a, row, (i32)y, (i32)x, bits);\n        \
             {store} y, x, count, bits);\n    }}\n}}",
            k + 4,
            k + 5,
            self.mixers
        );
        let _ = writeln!(to.body, "    p{p}_store(a, row);");
    }
}

/// Returns the name of an element type in the text; `None` for a type that no kernel stores.
pub(crate) fn element(dtype: DType) -> Option<&'static str> {
    match dtype {
        DType::U8 => Some("OfU8"),
        DType::F16 => Some("OfF16"),
        DType::Bf16 => Some("OfBf16"),
        DType::F32 => Some("OfF32"),
        _ => None,
    }
}

/// Returns true if an op, or a part of it, needs the squares of all values first.
fn needs_squares(kind: &OpKind) -> bool {
    let parts = match kind {
        OpKind::Pixel(part) => std::slice::from_ref(part),
        OpKind::Shuffled(parts) => parts,
        _ => &[],
    };
    parts.iter().any(|part| part.statistic == Some(Statistic::RootMeanSquare))
}

/// Returns why a device can't run the block, or `None` if it can: the first flat op that it can't run,
/// and what to do.
pub(crate) fn refused(plan: &ImagePlan, block: &Block) -> Option<Untranslatable> {
    let refuse = |leaf, reason: &str| Some(Untranslatable { leaf, reason: reason.to_owned() });
    let leaves = plan.flat_ops().iter().enumerate().skip(block.ops.start);
    for (index, leaf) in leaves {
        match &leaf.kind {
            OpKind::Geometry { rows: Some(_), .. } => {
                return refuse(index, "it resamples a whole image: put it before ToDevice");
            }
            OpKind::Table { counted: true, .. } => {
                return refuse(index, "it counts levels first: put it before ToDevice");
            }
            kind if needs_squares(kind) => {
                return refuse(index, "it sums squares first: put it before ToDevice");
            }
            OpKind::Host { .. } | OpKind::Mix => {
                return refuse(index, "it is plain Rust: put it before ToDevice");
            }
            OpKind::Shuffled(parts) if parts.len() > 8 => {
                return refuse(index, "it shuffles more than eight ops: put it before ToDevice");
            }
            _ => {}
        }
    }
    if element(block.dtype).is_none() {
        return refuse(
            plan.flat_ops().len() - 1,
            "a kernel stores u8, f16, bf16 and f32: convert to one of them, or put ToDevice last",
        );
    }
    None
}
