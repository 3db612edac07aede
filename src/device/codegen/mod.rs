//! Generates the text of a program's kernels, as CUDA C, from plans: one function for each fused op.
//!
//! ```text
//! fuseloop.cuh                       loads, stores, rounding: kernels/cuda
//! struct Arguments                   addresses of all tensors, and words
//! p0_.., p1_..                       each tensor's functions, and the kernels of its reductions
//! batch                              the kernel: every tensor of a row, one after the other
//! ```
//!
//! The text contains no sizes, no probabilities and none of `Normalize`'s numbers: those are arguments.
//! So it is compiled once for a pipeline, and the texts that many users share are shipped prebuilt.

pub(crate) mod image;
mod links;
pub(crate) mod one_hot;
#[cfg_attr(not(feature = "jit"), path = "untranslated.rs")]
mod translate;
mod translation;

use image::ImageCode;
use one_hot::OneHotCode;
use std::fmt::Write as _;

/// The text that every kernel's source starts with.
const PRELUDE: &str = fuseloop_kernels::CUDA_PRELUDE;

/// The name of the kernel that writes a batch.
const BATCH: &str = "batch";

/// The maximum bytes of arguments: a device accepts 4096.
const MAX_ARGUMENTS: usize = 4000;

/// A tensor that kernels compute.
pub(crate) enum Piece<'a> {
    Image(ImageCode<'a>, [u32; image::SIZES]),
    OneHot(OneHotCode, [u32; one_hot::WORDS]),
}

/// A flat op that can't be translated, and why.
#[derive(Debug)]
pub(crate) struct Untranslatable {
    pub(crate) leaf: usize,
    pub(crate) reason: String,
}

/// The text of all kernels.
#[derive(Default)]
pub(crate) struct KernelText {
    pub(crate) source: String,
    /// The kernels, in order, each with the tensor that it is for; the last is for all tensors.
    pub(crate) entries: Vec<(String, Option<usize>)>,
    /// The number of sums in a row's scratch.
    pub(crate) sums: usize,
    pub(crate) constants: Vec<u32>,
}

/// The text while it is generated.
#[derive(Default)]
pub(crate) struct KernelBuilder {
    text: String,
    /// The body of the kernel that writes a batch.
    body: String,
    constants: Vec<u32>,
}

/// Generates the kernels of a program.
///
/// # Errors
///
/// The tensor and the flat op that can't be translated.
pub(crate) fn write(pieces: &[Piece<'_>]) -> Result<KernelText, (usize, Untranslatable)> {
    let (mut to, mut entries, mut sums) = (KernelBuilder::default(), vec![], 0);
    for (tensor, piece) in pieces.iter().enumerate() {
        let first = to.constants.len();
        match piece {
            Piece::OneHot(hot, words) => {
                to.constants.extend(words);
                hot.write(&mut to, tensor, first);
            }
            Piece::Image(image, sizes) => {
                to.constants.extend(sizes);
                let at = image::ProgramRange { tensor, sizes: first, sum: sums };
                let readings = image.write(&mut to, &at).map_err(|refused| (tensor, refused))?;
                sums += readings.len();
                entries.extend(readings.into_iter().map(|name| (name, Some(tensor))));
            }
        }
        if 16 * (pieces.len() + 1) + 4 * to.constants.len() > MAX_ARGUMENTS {
            let reason = "the outputs have more numbers than a kernel takes".to_owned();
            return Err((tensor, Untranslatable { leaf: 0, reason }));
        }
    }
    if to.body.is_empty() {
        return Ok(KernelText::default());
    }
    entries.push((BATCH.to_owned(), None));
    let source = complete(&to, pieces.len(), sums);
    Ok(KernelText { source, entries, sums, constants: to.constants })
}

/// Joins the prelude, the arguments, the functions and the kernel.
fn complete(to: &KernelBuilder, tensors: usize, sums: usize) -> String {
    let mut pairs = String::new();
    for k in 0..tensors {
        let _ = write!(pairs, " u64 staged{k}, tensor{k};");
    }
    let KernelBuilder { text, body, constants } = to;
    format!(
        "{PRELUDE}\n#define SUMS {sums}u\nstruct Arguments {{ u64 scratch, rows;{pairs} u32 k[{}]; }};\n{text}\n\
         KERNEL({BATCH}, Arguments)\n{{\n    const u32 row = row_of();\n{body}}}\n",
        constants.len().max(1),
    )
}
