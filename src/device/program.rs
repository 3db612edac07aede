//! What is done with a batch on a device: data, and the text of kernels.
//!
//! ```text
//! staged row of tensor k:   what crosses the bus: pixels and the sample's record, or the row itself
//! row of tensor k:          what training reads
//! scratch:                  words of all rows that one kernel leaves to the next, zeroed before
//! ```
//!
//! All kernels of a program take one struct by value, the program's [`arguments`](Program::arguments),
//! and run in order, each with a grid of `(rows, parts)` blocks of [`THREADS`](Program::THREADS).

use super::DeviceError;
use super::part::Part;
use super::text::{self, Piece, Refused};
use fuseloop_ops::DType;

/// The work of a device for batches of one kind.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Program {
    /// The kernels' text, complete: no header is missing. Empty if there is no kernel.
    pub(crate) source: String,
    /// What is staged, and what is made of it, in order.
    pub(crate) tensors: Vec<Tensor>,
    /// The kernels, in order.
    pub(crate) kernels: Vec<Kernel>,
    /// Bytes of scratch for each row.
    pub(crate) scratch: usize,
    /// The tensors that kernels make, in the order of the arguments.
    pub(crate) computed: Vec<usize>,
    /// What follows the addresses in the arguments.
    pub(crate) constants: Vec<u32>,
}

/// One tensor of a batch.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tensor {
    /// Bytes of a row as it is staged.
    pub(crate) staged: usize,
    /// Type of an element.
    pub(crate) dtype: DType,
    /// Elements along each axis of one sample.
    pub(crate) shape: Vec<usize>,
    /// Who makes it.
    pub(crate) made: Made,
}

/// Who makes a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Made {
    /// What is staged is the tensor: copied to its place.
    Copied,
    /// Kernels, from what is staged.
    Computed,
}

/// One launch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kernel {
    /// The function.
    pub(crate) entry: String,
    /// Blocks for each row of the batch.
    pub(crate) parts: u32,
}

/// Where a batch lies on the device.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Addresses<'a> {
    /// Rows in use.
    pub(crate) rows: u32,
    /// Of each tensor, what is staged; any number for one that is copied. Multiples of 256.
    pub(crate) staged: &'a [u64],
    /// Of each tensor, itself. Multiples of 256.
    pub(crate) tensors: &'a [u64],
    /// The scratch of all rows; a multiple of 256.
    pub(crate) scratch: u64,
}

impl Tensor {
    /// Bytes of a row on the device.
    pub(crate) fn row_bytes(&self) -> usize {
        self.shape.iter().product::<usize>() * self.dtype.bytes()
    }
}

/// Groups that one thread makes, where there are many: what it reads of the record is read once.
const GROUPS_A_THREAD: u64 = 4;

impl Program {
    /// Threads of a block.
    pub(crate) const THREADS: u32 = 256;

    /// What a device does for a batch of `parts`.
    ///
    /// # Errors
    ///
    /// If they ask for what no kernel does.
    pub(crate) fn new(parts: &[&Part]) -> Result<Self, DeviceError> {
        let computed = computed(parts);
        let pieces: Vec<Piece<'_>> = computed.iter().filter_map(|&k| piece(parts[k])).collect();
        let refused = |(tensor, Refused { leaf, reason }): (usize, Refused)| {
            let (place, op) = match parts[computed[tensor]] {
                Part::Image(image) => (image.leaf(leaf).place, image.leaf(leaf).op.name()),
                Part::OneHot(_) | Part::Copied { .. } => (0, "ToDevice"),
            };
            DeviceError::CannotRun { place, op, reason }
        };
        let written = text::write(&pieces).map_err(refused)?;
        let most = parts.iter().map(|part| groups(part)).max().unwrap_or(0);
        let kernel = |(entry, tensor): (String, Option<usize>)| {
            let groups = tensor.map_or(most, |tensor| groups(parts[computed[tensor]]));
            let blocks = groups.div_ceil(GROUPS_A_THREAD * u64::from(Self::THREADS));
            Kernel { entry, parts: blocks.clamp(1, 65_535) as u32 }
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

    /// The bytes of the one struct that every kernel takes:
    ///
    /// ```text
    /// u64 scratch; u64 rows; { u64 staged, tensor; } for each computed tensor; u32 for each constant
    /// ```
    ///
    /// Pictures come before vectors, so that their order in the batch makes no other text.
    pub(crate) fn arguments(&self, at: &Addresses<'_>) -> Vec<u8> {
        let pairs = self.computed.iter().flat_map(|&k| [&at.staged[k], &at.tensors[k]]);
        let words = [at.scratch, u64::from(at.rows)];
        let mut bytes: Vec<u8> = words.iter().chain(pairs).flat_map(|w| w.to_le_bytes()).collect();
        bytes.extend(self.constants.iter().flat_map(|word| word.to_le_bytes()));
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes
    }
}

/// The parts that kernels make: pictures, then vectors.
fn computed(parts: &[&Part]) -> Vec<usize> {
    let of = |is: fn(&Part) -> bool| (0..parts.len()).filter(move |&k| is(parts[k]));
    let images = of(|part| matches!(part, Part::Image(_)));
    images.chain(of(|part| matches!(part, Part::OneHot(_)))).collect()
}

fn piece(part: &Part) -> Option<Piece<'_>> {
    match part {
        Part::Image(image) => Some(image.piece()),
        Part::OneHot(hot) => Some(hot.piece()),
        Part::Copied { .. } => None,
    }
}

/// How many groups of elements kernels go over.
fn groups(part: &Part) -> u64 {
    match part {
        Part::Image(image) => image.groups(),
        Part::OneHot(hot) => hot.groups(),
        Part::Copied { .. } => 0,
    }
}

fn tensor(part: &Part) -> Tensor {
    match part {
        Part::Image(image) => Tensor {
            staged: image.staged_bytes(),
            dtype: image.plan().dtype(),
            shape: image.plan().shape(),
            made: Made::Computed,
        },
        Part::OneHot(hot) => {
            let (dtype, shape) = hot.tensor();
            Tensor { staged: hot.staged_bytes(), dtype, shape, made: Made::Computed }
        }
        Part::Copied { dtype, shape } => {
            let staged = shape.iter().product::<usize>() * dtype.bytes();
            Tensor { staged, dtype: *dtype, shape: shape.clone(), made: Made::Copied }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_words_in_order() {
        let tensor =
            Tensor { staged: 8, dtype: DType::F32, shape: vec![3, 2], made: Made::Computed };
        assert_eq!(tensor.row_bytes(), 24);
        let program = Program {
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
