//! Describes what is done with a batch on a device: the data, and the text of the kernels.
//!
//! ```text
//! staged row of tensor k:   the bytes copied to the device: pixels and the sample's record, or the row itself
//! row of tensor k:          the row that training reads
//! scratch:                  words of all rows that one kernel passes to the next, zeroed before
//! ```
//!
//! All kernels of a program take one struct by value, the program's [`arguments`](DeviceProgram::arguments),
//! and run in order, each with a grid of `(rows, parts)` blocks of [`THREADS`](DeviceProgram::THREADS).

use super::codegen::{self, Piece, Untranslatable};
use super::device_output::DeviceOutput;
use crate::device::error::cannot_run;
use crate::error::Error;
use fuseloop_ops::DType;

/// The work of a device for batches of one kind.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DeviceProgram {
    /// The kernels' complete text, which needs no header. Empty if there is no kernel.
    pub(crate) source: String,
    /// The tensors, in order: what is staged for each and what it becomes.
    pub(crate) tensors: Vec<Tensor>,
    /// The kernels, in order.
    pub(crate) kernels: Vec<KernelLaunch>,
    /// The bytes of scratch for each row.
    pub(crate) scratch: usize,
    /// The indices of the tensors that kernels compute, in the order of the arguments.
    pub(crate) computed: Vec<usize>,
    /// The words that follow the addresses in the arguments.
    pub(crate) constants: Vec<u32>,
}

/// One tensor of a batch.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tensor {
    /// The bytes of a row as it is staged.
    pub(crate) staged: usize,
    /// The type of an element.
    pub(crate) dtype: DType,
    /// The elements along each axis of one sample.
    pub(crate) shape: Vec<usize>,
    /// How the tensor is produced.
    pub(crate) origin: TensorOrigin,
}

/// How a tensor is produced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TensorOrigin {
    /// The staged bytes are the tensor: they are copied to its address.
    Copied,
    /// Kernels compute the tensor from the staged bytes.
    Computed,
}

/// One launch of a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KernelLaunch {
    /// The name of the kernel function.
    pub(crate) entry: String,
    /// The blocks for each row of the batch.
    pub(crate) parts: u32,
}

/// The addresses of a batch on the device.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Addresses<'a> {
    /// The number of rows in use.
    pub(crate) rows: u32,
    /// The staged bytes of each tensor; any number for a tensor that is copied. Multiples of 256.
    pub(crate) staged: &'a [u64],
    /// Each tensor. Multiples of 256.
    pub(crate) tensors: &'a [u64],
    /// The scratch of all rows. A multiple of 256.
    pub(crate) scratch: u64,
}

impl Tensor {
    /// Returns the bytes of a row on the device.
    pub(crate) fn row_bytes(&self) -> usize {
        self.shape.iter().product::<usize>() * self.dtype.bytes()
    }
}

/// The number of groups that one thread computes, if there are enough: it reads the record's values once
/// for all of them.
const GROUPS_A_THREAD: u64 = 4;

impl DeviceProgram {
    /// The threads of a block.
    pub(crate) const THREADS: u32 = 256;

    /// Builds the program for a batch of `parts`.
    ///
    /// # Errors
    ///
    /// If an output needs an op that no kernel implements.
    pub(crate) fn new(parts: &[&DeviceOutput]) -> Result<Self, Error> {
        let computed = computed(parts);
        let pieces: Vec<Piece<'_>> = computed.iter().filter_map(|&k| piece(parts[k])).collect();
        let refused = |(tensor, Untranslatable { leaf, reason }): (usize, Untranslatable)| {
            let (op_index, op) = match parts[computed[tensor]] {
                DeviceOutput::Image(image) => {
                    (image.leaf(leaf).op_index, image.leaf(leaf).op.name())
                }
                DeviceOutput::OneHot(_) | DeviceOutput::Copied { .. } => (0, "ToDevice"),
            };
            cannot_run(op_index, op, &reason)
        };
        let written = codegen::write(&pieces).map_err(refused)?;
        let most = parts.iter().map(|part| groups(part)).max().unwrap_or(0);
        let kernel = |(entry, tensor): (String, Option<usize>)| {
            let groups = tensor.map_or(most, |tensor| groups(parts[computed[tensor]]));
            let blocks = groups.div_ceil(GROUPS_A_THREAD * u64::from(Self::THREADS));
            KernelLaunch { entry, parts: blocks.clamp(1, 65_535) as u32 }
        };
        Ok(Self {
            source: written.source,
            tensors: parts.iter().map(|part| tensor(part)).collect(),
            kernels: written.entries.into_iter().map(kernel).collect(),
            scratch: 8 * written.sums,
            computed,
            constants: written.constants,
        })
    }

    /// Returns the bytes of the struct that every kernel takes:
    ///
    /// ```text
    /// u64 scratch; u64 rows; { u64 staged, tensor; } for each computed tensor; u32 for each constant
    /// ```
    ///
    /// Images come before vectors, so that the order of outputs in the batch does not change the text.
    pub(crate) fn arguments(&self, at: &Addresses<'_>) -> Vec<u8> {
        let pairs = self.computed.iter().flat_map(|&k| [&at.staged[k], &at.tensors[k]]);
        let words = [at.scratch, u64::from(at.rows)];
        let mut bytes: Vec<u8> = words.iter().chain(pairs).flat_map(|w| w.to_le_bytes()).collect();
        bytes.extend(self.constants.iter().flat_map(|word| word.to_le_bytes()));
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes
    }
}

/// Returns the indices of the outputs that kernels compute: images, then vectors.
fn computed(parts: &[&DeviceOutput]) -> Vec<usize> {
    let of = |is: fn(&DeviceOutput) -> bool| (0..parts.len()).filter(move |&k| is(parts[k]));
    let images = of(|part| matches!(part, DeviceOutput::Image(_)));
    images.chain(of(|part| matches!(part, DeviceOutput::OneHot(_)))).collect()
}

fn piece(part: &DeviceOutput) -> Option<Piece<'_>> {
    match part {
        DeviceOutput::Image(image) => Some(image.piece()),
        DeviceOutput::OneHot(hot) => Some(hot.piece()),
        DeviceOutput::Copied { .. } => None,
    }
}

/// Returns the number of groups of elements that kernels loop over.
fn groups(part: &DeviceOutput) -> u64 {
    match part {
        DeviceOutput::Image(image) => image.groups(),
        DeviceOutput::OneHot(hot) => hot.groups(),
        DeviceOutput::Copied { .. } => 0,
    }
}

fn tensor(part: &DeviceOutput) -> Tensor {
    match part {
        DeviceOutput::Image(image) => Tensor {
            staged: image.staged_bytes(),
            dtype: image.plan().dtype(),
            shape: image.plan().shape(),
            origin: TensorOrigin::Computed,
        },
        DeviceOutput::OneHot(hot) => {
            let (dtype, shape) = hot.tensor();
            Tensor { staged: hot.staged_bytes(), dtype, shape, origin: TensorOrigin::Computed }
        }
        DeviceOutput::Copied { dtype, shape } => {
            let staged = shape.iter().product::<usize>() * dtype.bytes();
            Tensor { staged, dtype: *dtype, shape: shape.clone(), origin: TensorOrigin::Copied }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_words_in_order() {
        let tensor = Tensor {
            staged: 8,
            dtype: DType::F32,
            shape: vec![3, 2],
            origin: TensorOrigin::Computed,
        };
        assert_eq!(tensor.row_bytes(), 24);
        let program = DeviceProgram {
            source: String::new(),
            tensors: vec![tensor],
            kernels: vec![],
            scratch: 0,
            computed: vec![0],
            constants: vec![7],
        };
        let at = Addresses { rows: 5, staged: &[256], tensors: &[512], scratch: 768 };
        let words: Vec<u64> = program
            .arguments(&at)
            .as_chunks()
            .0
            .iter()
            .map(|word| u64::from_le_bytes(*word))
            .collect();
        assert_eq!(words, [768, 5, 256, 512, 7]);
    }
}
