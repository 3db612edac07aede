//! The text of a program's kernels, as CUDA C: generated from plans, one function a link.
//!
//! ```text
//! fuseloop.cuh                       loads, stores, roundings: kernels/cuda
//! struct Arguments                   addresses of all tensors, and words
//! p0_.., p1_..                       each tensor's functions, and kernels that read ahead for it
//! batch                              the kernel: every tensor of a row, one after the other
//! ```
//!
//! The text holds no size, no probability and none of `Normalize`'s numbers: those are arguments.
//! So it is compiled once for a pipeline, and those that users share are shipped compiled.

pub(crate) mod hot;
pub(crate) mod image;
mod links;
mod translate;

use hot::OneHot;
use image::Image;
use std::fmt::Write as _;

/// What every kernel is written in.
const PRELUDE: &str = fuseloop_kernels::CUDA_PRELUDE;

/// The kernel that writes a batch.
const BATCH: &str = "batch";

/// Most bytes of arguments: a device takes 4096.
const MAX_ARGUMENTS: usize = 4000;

/// A tensor that kernels make.
pub(crate) enum Piece<'a> {
    Image(Image<'a>, [u32; image::SIZES]),
    OneHot(OneHot, [u32; hot::WORDS]),
}

/// A leaf that can't be translated, and why.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) leaf: usize,
    pub(crate) reason: String,
}

/// The text of all kernels.
#[derive(Default)]
pub(crate) struct Written {
    pub(crate) source: String,
    /// The kernels, in order, and the tensor that each is for; the last is for all.
    pub(crate) entries: Vec<(String, Option<usize>)>,
    /// Sums that a row's scratch has.
    pub(crate) sums: usize,
    pub(crate) constants: Vec<u32>,
}

/// The text as it grows.
#[derive(Default)]
pub(crate) struct Builder {
    text: String,
    /// The body of the kernel that writes a batch.
    body: String,
    constants: Vec<u32>,
}

/// Writes the kernels of a program.
///
/// # Errors
///
/// The tensor and the leaf that can't be translated.
pub(crate) fn write(pieces: &[Piece<'_>]) -> Result<Written, (usize, Refused)> {
    let (mut to, mut entries, mut sums) = (Builder::default(), vec![], 0);
    for (tensor, piece) in pieces.iter().enumerate() {
        let first = to.constants.len();
        match piece {
            Piece::OneHot(hot, words) => {
                to.constants.extend(words);
                hot.write(&mut to, tensor, first);
            }
            Piece::Image(image, sizes) => {
                to.constants.extend(sizes);
                let at = image::Place { tensor, sizes: first, sum: sums };
                let readings = image.write(&mut to, &at).map_err(|refused| (tensor, refused))?;
                sums += readings.len();
                entries.extend(readings.into_iter().map(|name| (name, Some(tensor))));
            }
        }
        if 16 * (pieces.len() + 1) + 4 * to.constants.len() > MAX_ARGUMENTS {
            let reason = "the outputs have more numbers than a kernel takes".to_owned();
            return Err((tensor, Refused { leaf: 0, reason }));
        }
    }
    if to.body.is_empty() {
        return Ok(Written::default());
    }
    entries.push((BATCH.to_owned(), None));
    let source = complete(&to, pieces.len(), sums);
    Ok(Written { source, entries, sums, constants: to.constants })
}

/// The prelude, the arguments, the functions and the kernel.
fn complete(to: &Builder, tensors: usize, sums: usize) -> String {
    let mut pairs = String::new();
    for k in 0..tensors {
        let _ = write!(pairs, " u64 staged{k}, tensor{k};");
    }
    let Builder { text, body, constants } = to;
    format!(
        "{PRELUDE}\n#define SUMS {sums}u\nstruct Arguments {{ u64 scratch, rows;{pairs} u32 k[{}]; }};\n{text}\n\
         KERNEL({BATCH}, Arguments)\n{{\n    const u32 row = row_of();\n{body}}}\n",
        constants.len().max(1),
    )
}
