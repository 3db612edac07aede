//! One tensor's way to a device: what the host stages for a sample, and what a kernel makes of it.
//!
//! | part | staged for a sample | on the device |
//! |---|---|---|
//! | image | its pixels as u8, channels last, then its [record](super::record) | a kernel does the ops after `ToDevice` |
//! | one-hot | its class, and how it is mixed | the vector, smoothed, converted, mixed |
//! | copied | the tensor's own bytes | the same |

use super::record::{Layout, Needed, Words, needed};
use super::text::{hot, image};
use super::{DeviceError, text};
use crate::plan::label::{HotValues, LabelError, Scalar};
use crate::plan::{Block, Draws, ImagePlan, LabelPlan, Leaf, batch_ops};
use fuseloop_ops::{DType, Mixed, Size};
use std::sync::Arc;

/// Most ops that mix batches: each doubles what is computed for a pixel.
const MAX_MIXERS: usize = 2;

/// One tensor of a batch that lies on a device.
#[derive(Debug)]
pub(crate) enum Part {
    /// A picture: staged as bytes, finished by a kernel.
    Image(ImagePart),
    /// A one-hot vector: staged as a class.
    OneHot(OneHotPart),
    /// Anything else: staged as it is.
    Copied {
        /// Type of an element.
        dtype: DType,
        /// Elements along each axis of one sample.
        shape: Vec<usize>,
    },
}

/// The end of a picture's list of ops, from [`ToDevice`](fuseloop_ops::ToDevice) on.
#[derive(Debug)]
pub(crate) struct ImagePart {
    plan: Arc<ImagePlan>,
    /// The number of its block.
    block: usize,
    staged: Size,
    layout: Layout,
    means: Vec<Needed>,
    mixers: usize,
}

/// A label that becomes a one-hot vector on a device.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OneHotPart {
    values: HotValues,
    mixers: usize,
}

impl ImagePart {
    /// Of a plan that was made [for a device](ImagePlan::on_device) and leaves something to it.
    ///
    /// # Errors
    ///
    /// If it leaves what a device can't run.
    pub(crate) fn new(plan: &Arc<ImagePlan>) -> Result<Self, DeviceError> {
        let block = plan.host_blocks();
        let staged = plan.staged().and_then(|image| image.size()).unwrap_or_default();
        let of_device = &plan.blocks()[block..];
        let refuse = |leaf: &Leaf, reason: String| {
            let (place, op) = (leaf.place, leaf.op.name());
            Err(DeviceError::CannotRun { place, op, reason })
        };
        let leaves = plan.leaves();
        if let Some(refused) = of_device.iter().find_map(|block| image::refused(plan, block)) {
            return refuse(&leaves[refused.leaf], refused.reason);
        }
        let [own] = of_device else {
            let leaf = of_device.get(1).map_or(0, |block| block.ops.start.min(leaves.len() - 1));
            return refuse(
                &leaves[leaf],
                "it needs what is before it stored: put it before ToDevice".into(),
            );
        };
        let means = needed(plan, own).unwrap_or_default(); // `refused` has seen the levels
        let mixers = batch_ops::mixers(plan.ops()).count();
        if mixers > MAX_MIXERS {
            let reason = format!("at most {MAX_MIXERS} ops that mix batches run on a device");
            return refuse(&leaves[leaves.len() - 1], reason);
        }
        let layout = Layout::new(own, means.len(), mixers);
        Ok(Self { plan: Arc::clone(plan), block, staged, layout, means, mixers })
    }

    fn block(&self) -> &Block {
        &self.plan.blocks()[self.block]
    }

    /// The plan it is the end of.
    pub(crate) fn plan(&self) -> &ImagePlan {
        &self.plan
    }

    /// Where the record begins in a staged row: kernels read words.
    fn record_at(&self) -> usize {
        self.plan.host_bytes().next_multiple_of(16)
    }

    /// Bytes of a staged row: [`ImagePlan::host_bytes`] of pixels first, then the sample's record.
    pub(crate) fn staged_bytes(&self) -> usize {
        self.record_at() + 4 * self.layout.words()
    }

    /// Writes the sample's record behind the pixels of its row.
    pub(crate) fn record(&self, draws: &Draws, row: &mut [u8]) {
        let (words, _) = row[self.record_at()..].as_chunks_mut();
        let (plan, block) = (&*self.plan, self.block());
        Words(words).write(plan, block, &self.layout, &self.means, draws, self.staged);
    }

    /// Tells all staged rows of a batch how op number `mixer` of those that mix batches was drawn.
    pub(crate) fn mix(&self, mixer: usize, mixed: &[Mixed], rows: &mut [u8]) {
        let (record, at) = (self.record_at(), self.layout.mix(mixer));
        tell(rows, record, at, mixed);
    }

    /// Words of the arguments: see [`image::Place::sizes`].
    fn sizes(&self) -> [u32; image::SIZES] {
        let (to, from) = (self.plan.output_size(), self.staged);
        let bytes = [self.staged_bytes() as u32, self.record_at() as u32];
        [bytes[0], bytes[1], from.height, from.width, to.height, to.width]
    }

    /// What its text is made of.
    pub(super) fn piece(&self) -> text::Piece<'_> {
        let (plan, layout, means, mixers) = (&*self.plan, &self.layout, &*self.means, self.mixers);
        let image = image::Image { plan, block: self.block(), layout, means, mixers };
        text::Piece::Image(image, self.sizes())
    }

    /// Groups of eight pixels of the output, or of what is read first.
    pub(super) fn groups(&self) -> u64 {
        let groups = |size: Size| u64::from(size.height) * u64::from(size.width.div_ceil(8));
        groups(self.plan.output_size()).max(groups(self.staged))
    }

    /// The op of a leaf, for an error.
    pub(super) fn leaf(&self, leaf: usize) -> &Leaf {
        &self.plan.leaves()[leaf]
    }
}

/// Writes how each row is mixed, at word `at` of what begins at byte `record` of the row.
fn tell(rows: &mut [u8], record: usize, at: usize, mixed: &[Mixed]) {
    let bytes = rows.len() / mixed.len().max(1);
    for (row, (bytes, mixed)) in rows.chunks_exact_mut(bytes.max(1)).zip(mixed).enumerate() {
        let (words, _) = bytes[record..].as_chunks_mut();
        Words(words).mix(at, row, mixed);
    }
}

impl OneHotPart {
    /// Of a plan with [`ToDevice`](fuseloop_ops::ToDevice); `None` if it makes no one-hot vector
    /// after it, of a type that kernels store.
    pub(crate) fn new(plan: &LabelPlan) -> Option<Self> {
        let values = plan.hot_on_device()?;
        let mixers = batch_ops::mixers(plan.ops()).count();
        let fits = image::element(values.dtype).is_some() && values.dtype != DType::U8;
        (fits && mixers <= MAX_MIXERS).then_some(Self { values, mixers })
    }

    /// Bytes of a staged row.
    pub(crate) fn staged_bytes(&self) -> usize {
        4 * hot::mix_at(self.mixers)
    }

    /// Writes the class of `sample`, as the label's ops make it.
    ///
    /// # Errors
    ///
    /// If the vector has no such class.
    pub(crate) fn fill(
        &self,
        plan: &LabelPlan,
        sample: u64,
        value: Scalar,
        row: &mut [u8],
    ) -> Result<(), LabelError> {
        let class = plan.class(sample, value)?;
        row.fill(0);
        row[..4].copy_from_slice(&class.to_le_bytes());
        Ok(())
    }

    /// As [`ImagePart::mix`].
    pub(crate) fn mix(&self, mixer: usize, mixed: &[Mixed], rows: &mut [u8]) {
        tell(rows, 0, hot::mix_at(mixer), mixed);
    }

    fn words(&self) -> [u32; hot::WORDS] {
        let HotValues { classes, cold, hot, .. } = self.values;
        [self.staged_bytes() as u32, classes, cold, hot]
    }

    /// What its text is made of.
    pub(super) fn piece(&self) -> text::Piece<'_> {
        let one_hot = hot::OneHot { dtype: self.values.dtype, mixers: self.mixers };
        text::Piece::OneHot(one_hot, self.words())
    }

    /// Elements of a row.
    pub(super) fn groups(&self) -> u64 {
        self.values.classes.into()
    }

    /// The vector's type and length.
    pub(super) fn tensor(&self) -> (DType, Vec<usize>) {
        (self.values.dtype, vec![self.values.classes as usize])
    }
}
