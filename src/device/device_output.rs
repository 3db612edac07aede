//! How one tensor gets to a device: what the host stages for a sample, and what a kernel computes from
//! it.
//!
//! | output | staged for a sample | on the device |
//! |---|---|---|
//! | image | its pixels as u8, channels last, then its [record](super::record) | a kernel runs the ops after `ToDevice` |
//! | one-hot | its class, and how it is mixed | the vector, smoothed, converted, mixed |
//! | copied | the tensor's own bytes | the same bytes |

use super::codegen;
use super::codegen::{image, one_hot};
use super::record::{DeviceRecordLayout, Needed, Words, needed};
use crate::device::error::cannot_run;
use crate::error::Error;
use crate::plan::label::{OneHotValues, Scalar};
use crate::plan::{Block, Draws, ElementPlan, FlatOp, ImagePlan, batch_ops};
use fuseloop_ops::author::RowMix;
use fuseloop_ops::internals::SampleKey;
use fuseloop_ops::{DType, Size};
use std::sync::Arc;

/// The maximum number of ops that mix batches: each doubles what is computed for a pixel.
const MAX_MIXERS: usize = 2;

/// One tensor of a batch on a device.
#[derive(Debug)]
pub(crate) enum DeviceOutput {
    /// An image: staged as bytes, finished by a kernel.
    Image(DeviceImage),
    /// A one-hot vector: staged as a class.
    OneHot(DeviceOneHot),
    /// Any other tensor: staged as it is.
    Copied {
        /// The type of an element.
        dtype: DType,
        /// The elements along each axis of one sample.
        shape: Vec<usize>,
    },
}

/// The end of an image's list of ops, after [`ToDevice`](fuseloop_ops::ToDevice).
#[derive(Debug)]
pub(crate) struct DeviceImage {
    plan: Arc<ImagePlan>,
    /// The index of the block that the device runs.
    block: usize,
    staged: Size,
    layout: DeviceRecordLayout,
    means: Vec<Needed>,
    mixers: usize,
}

/// A label that becomes a one-hot vector on a device.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DeviceOneHot {
    values: OneHotValues,
    mixers: usize,
}

impl DeviceOutput {
    /// Creates the device's share of an image's plan: the ops that are left to it, or a copy of the host's rows.
    ///
    /// # Errors
    ///
    /// If a device can't run one of the ops that are left to it.
    pub(crate) fn of_image(plan: &Arc<ImagePlan>) -> Result<Self, Error> {
        Ok(match plan.staged() {
            Some(_) => Self::Image(DeviceImage::new(plan)?),
            None => Self::Copied { dtype: plan.dtype(), shape: plan.shape() },
        })
    }
}

impl DeviceImage {
    /// Creates the device's share of a plan that was built [for a device](ImagePlan::on_device) and
    /// leaves ops to it.
    ///
    /// # Errors
    ///
    /// If a device can't run one of those ops.
    pub(crate) fn new(plan: &Arc<ImagePlan>) -> Result<Self, Error> {
        let block = plan.host_blocks();
        let staged = plan.staged().and_then(|image| image.size()).unwrap_or_default();
        let of_device = &plan.blocks()[block..];
        let refuse =
            |leaf: &FlatOp, reason: &str| Err(cannot_run(leaf.op_index, leaf.op.name(), reason));
        let leaves = plan.flat_ops();
        if let Some(refused) = of_device.iter().find_map(|block| image::refused(plan, block)) {
            return refuse(&leaves[refused.leaf], &refused.reason);
        }
        let [own] = of_device else {
            let leaf = of_device.get(1).map_or(0, |block| block.ops.start.min(leaves.len() - 1));
            return refuse(
                &leaves[leaf],
                "it needs the image before it in memory: put it before ToDevice",
            );
        };
        let means = needed(plan, own).unwrap_or_default(); // `refused` rejected ops that need more than means
        let mixers = batch_ops::mixers(plan.ops()).count();
        if mixers > MAX_MIXERS {
            let reason = format!("at most {MAX_MIXERS} ops that mix batches run on a device");
            return refuse(&leaves[leaves.len() - 1], &reason);
        }
        let layout = DeviceRecordLayout::new(own, means.len(), mixers);
        Ok(Self { plan: Arc::clone(plan), block, staged, layout, means, mixers })
    }

    fn block(&self) -> &Block {
        &self.plan.blocks()[self.block]
    }

    /// Returns the plan whose end this is.
    pub(crate) fn plan(&self) -> &ImagePlan {
        &self.plan
    }

    /// Returns the offset of the record in a staged row, aligned because kernels read whole words.
    fn record_at(&self) -> usize {
        self.plan.host_bytes().next_multiple_of(16)
    }

    /// Returns the bytes of a staged row: [`ImagePlan::host_bytes`] of pixels, then the sample's record.
    pub(crate) fn staged_bytes(&self) -> usize {
        self.record_at() + 4 * self.layout.words()
    }

    /// Writes the sample's record after the pixels of its row.
    pub(crate) fn record(&self, draws: &Draws, row: &mut [u8]) {
        let (words, _) = row[self.record_at()..].as_chunks_mut();
        let (plan, block) = (&*self.plan, self.block());
        Words(words).write(plan, block, &self.layout, &self.means, draws, self.staged);
    }

    /// Writes to all staged rows of a batch what batch-mixing op number `mixer` drew.
    pub(crate) fn mix(&self, mixer: usize, mixed: &[RowMix], rows: &mut [u8]) {
        let (record, at) = (self.record_at(), self.layout.mix(mixer));
        write_mix(rows, record, at, mixed);
    }

    /// Returns the words of the arguments for the sizes of the image, in the order of `image::SIZES`.
    fn sizes(&self) -> [u32; image::SIZES] {
        let (to, from) = (self.plan.output_size(), self.staged);
        let bytes = [self.staged_bytes() as u32, self.record_at() as u32];
        [bytes[0], bytes[1], from.height, from.width, to.height, to.width]
    }

    /// Returns the input of code generation.
    pub(super) fn piece(&self) -> codegen::Piece<'_> {
        let (plan, layout, means, mixers) = (&*self.plan, &self.layout, &*self.means, self.mixers);
        let image = image::ImageCode { plan, block: self.block(), layout, means, mixers };
        codegen::Piece::Image(image, self.sizes())
    }

    /// Returns the number of groups of eight pixels of the output, or of the staged image if that has
    /// more.
    pub(super) fn groups(&self) -> u64 {
        let groups = |size: Size| u64::from(size.height) * u64::from(size.width.div_ceil(8));
        groups(self.plan.output_size()).max(groups(self.staged))
    }

    /// Returns a flat op, for an error.
    pub(super) fn leaf(&self, leaf: usize) -> &FlatOp {
        &self.plan.flat_ops()[leaf]
    }
}

/// Writes how each row is mixed, at word `at` of the record that starts at byte `record` of the row.
fn write_mix(rows: &mut [u8], record: usize, at: usize, mixed: &[RowMix]) {
    let bytes = rows.len() / mixed.len().max(1);
    for (row, (bytes, mixed)) in rows.chunks_exact_mut(bytes.max(1)).zip(mixed).enumerate() {
        let (words, _) = bytes[record..].as_chunks_mut();
        Words(words).mix(at, row, mixed);
    }
}

impl DeviceOneHot {
    /// Creates the device's share of a label plan; `None` if the plan produces no one-hot vector after
    /// [`ToDevice`](fuseloop_ops::ToDevice), of a type that kernels store.
    pub(crate) fn new(plan: &ElementPlan) -> Option<Self> {
        let values = plan.one_hot_on_device()?;
        let mixers = batch_ops::mixers(plan.ops()).count();
        let fits = image::element(values.dtype).is_some() && values.dtype != DType::U8;
        (fits && mixers <= MAX_MIXERS).then_some(Self { values, mixers })
    }

    /// Returns the bytes of a staged row.
    pub(crate) fn staged_bytes(&self) -> usize {
        4 * one_hot::mix_at(self.mixers)
    }

    /// Writes the class of the sample of `key`, as the label's ops compute it.
    ///
    /// # Errors
    ///
    /// If the vector has no such class.
    pub(crate) fn fill(
        &self,
        plan: &ElementPlan,
        key: SampleKey,
        value: Scalar,
        row: &mut [u8],
    ) -> Result<(), Error> {
        let class = plan.class(key, value)?;
        row.fill(0);
        row[..4].copy_from_slice(&class.to_le_bytes());
        Ok(())
    }

    /// Writes how each row is mixed, like [`DeviceImage::mix`].
    pub(crate) fn mix(&self, mixer: usize, mixed: &[RowMix], rows: &mut [u8]) {
        write_mix(rows, 0, one_hot::mix_at(mixer), mixed);
    }

    fn words(&self) -> [u32; one_hot::WORDS] {
        let OneHotValues { classes, cold, hot, .. } = self.values;
        [self.staged_bytes() as u32, classes, cold, hot]
    }

    /// Returns the input of code generation.
    pub(super) fn piece(&self) -> codegen::Piece<'_> {
        let one_hot = one_hot::OneHotCode { dtype: self.values.dtype, mixers: self.mixers };
        codegen::Piece::OneHot(one_hot, self.words())
    }

    /// Returns the number of elements of a row.
    pub(super) fn groups(&self) -> u64 {
        self.values.classes.into()
    }

    /// Returns the vector's type and shape.
    pub(super) fn tensor(&self) -> (DType, Vec<usize>) {
        (self.values.dtype, vec![self.values.classes as usize])
    }
}
