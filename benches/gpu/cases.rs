//! The lists whose kernels are measured.

use crate::Size;
use fuseloop::device::check::CheckBatch;
use fuseloop::internals::plan::{ElementPlan, ImagePlan};
use fuseloop_ops::author::{Dim, ImageType, Layout};
use fuseloop_ops::internals::SampleKey;
use fuseloop_ops::*;
use std::sync::Arc;

pub(crate) const MIB: usize = 1 << 20;

/// The number of classes of the labels, as in ImageNet.
const CLASSES: u32 = 1000;

/// A list that runs on the device as a whole.
pub(crate) struct Case {
    pub(crate) name: String,
    ops: Ops,
    label: Option<Ops>,
    /// The number of pixels by which an input is wider and higher than its output.
    more: u32,
    /// The number of times that a kernel reads each pixel.
    reads: usize,
    dtype: DType,
    /// True if the case is also measured as a pipeline of several batches in flight.
    pub(crate) pipelined: bool,
}

impl Case {
    /// Returns a batch of this case.
    pub(crate) fn trial(&self, size: &Size) -> CheckBatch {
        let side = size.side + self.more;
        let (pictures_of, input) = (
            fuseloop_ops::Size::new(side, side),
            ImageType::decoded(Dim::fixed(side), Dim::fixed(side)),
        );
        let plan = ImagePlan::on_device(self.ops.clone(), input, NumberRule::Fused).unwrap();
        let label = self.label.clone().map(|ops| ElementPlan::of_label(ops, DType::I64).unwrap());
        let noise = |row| (pictures_of, noise(side, row));
        let pictures: Vec<_> = (0..size.rows as u64).map(noise).collect();
        CheckBatch::new(plan, label.as_ref(), &pictures, 3).unwrap()
    }

    /// Returns the smallest number of bytes that must be moved for a batch.
    pub(crate) fn bytes(&self, size: &Size) -> usize {
        let elements = size.side as usize * size.side as usize * 3;
        let label = if self.label.is_some() { 4 * CLASSES as usize } else { 0 };
        size.rows * (elements * (self.reads + self.dtype.bytes()) + label)
    }
}

/// Returns the pixels of an image.
pub(crate) fn noise(side: u32, row: u64) -> Vec<u8> {
    let mut rng = SampleKey::new(8, side, row).op(0);
    let words = (0..(side * side * 3).div_ceil(4)).flat_map(|_| rng.below(u32::MAX).to_le_bytes());
    words.take((side * side * 3) as usize).collect()
}

fn normalized(before: Ops, dtype: DType, layout: Layout) -> Ops {
    let mut ops = ops![ToDevice::to(Device::Cuda(0))];
    ops.extend(before);
    ops.push(Arc::new(Normalize::imagenet()));
    ops.push(Arc::new(Convert::to(dtype)));
    if layout == Layout::ChannelsFirst {
        ops.push(Arc::new(ToChannelsFirst));
    }
    ops
}

fn case(name: &str, before: Ops, dtype: DType, layout: Layout) -> Case {
    let channels = if layout == Layout::ChannelsFirst { "first" } else { "last" };
    let name = format!("{name}, {dtype}, channels {channels}");
    let ops = normalized(before, dtype, layout);
    Case { name, ops, label: None, more: 0, reads: 1, dtype, pipelined: false }
}

/// Returns all cases; the code of the first one is shipped with the crate.
pub(crate) fn all(size: &Size) -> Vec<Case> {
    let (first, last) = (Layout::ChannelsFirst, Layout::ChannelsLast);
    let mut all = vec![];
    for dtype in [DType::F16, DType::Bf16, DType::F32] {
        for layout in [first, last] {
            let pipelined = dtype == DType::F16 && layout == first;
            all.push(Case { pipelined, ..case("normalize", ops![], dtype, layout) });
        }
    }
    let flip = || RandomHorizontalFlip::new(0.5).unwrap();
    let crop = ops![RandomCrop::new(size.side).unwrap(), flip()];
    let crop = case("crop + flip + normalize", crop, DType::F16, first);
    all.push(Case { more: 32, ..crop });
    let mut mixed = case("MixUp + one-hot", ops![flip()], DType::F16, first);
    mixed.ops.push(Arc::new(MixUp::new(0.2).unwrap()));
    let label = ops![
        ToDevice::to(Device::Cuda(0)),
        OneHot::new(CLASSES).unwrap(),
        MixUp::new(0.2).unwrap(),
    ];
    all.push(Case { label: Some(label), reads: 2, pipelined: true, ..mixed });
    let jitter = ops![flip(), ColorJitter::new(0.4, 0.4, 0.4).unwrap()];
    let jitter = case("flip + ColorJitter + normalize", jitter, DType::F16, first);
    // Contrast needs the image's mean first, so the image is read twice.
    all.push(Case { reads: 2, pipelined: true, ..jitter });
    all
}
