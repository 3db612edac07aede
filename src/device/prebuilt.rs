//! The pipelines whose kernels are shipped prebuilt, for machines without NVRTC.
//!
//! Sizes, crops, flips, probabilities and `Normalize`'s numbers are not part of a kernel's text, and
//! MixUp and CutMix have the same text: these few kernels serve what most training runs do on a device.

use super::{DeviceImage, DeviceOneHot, DeviceOutput, DeviceProgram};
use crate::plan::{ElementPlan, ImagePlan};
use fuseloop_ops::author::{Dim, ImageType, Layout};
use fuseloop_ops::*;
use std::sync::Arc;

/// Returns the names of the prebuilt kernels and their texts.
///
/// # Panics
///
/// Never: all lists of ops here are valid.
#[doc(hidden)]
#[must_use]
pub fn prebuilt() -> Vec<(String, String)> {
    let mut all = vec![];
    for layout in [Layout::ChannelsFirst, Layout::ChannelsLast] {
        let channels = if layout == Layout::ChannelsFirst { "first" } else { "last" };
        all.push((format!("u8_{channels}"), source(DType::U8, layout, false, false)));
        for dtype in [DType::F32, DType::F16, DType::Bf16] {
            let name = format!("normalize_{dtype}_{channels}");
            all.push((name, source(dtype, layout, false, false)));
        }
    }
    for dtype in [DType::F32, DType::F16] {
        let name = |with: &str| format!("normalize_{dtype}_first_{with}");
        let text = |mixed, label| source(dtype, Layout::ChannelsFirst, mixed, label);
        all.push((name("mixed"), text(true, false)));
        all.push((name("mixed_onehot"), text(true, true)));
    }
    all
}

/// Returns the text of a pipeline: normalized unless its elements are bytes, optionally mixed by one op,
/// and optionally with a one-hot label.
fn source(dtype: DType, layout: Layout, mixed: bool, with_label: bool) -> String {
    let mixup = || MixUp::new(1.0).expect("1 is above 0");
    let to_device = ToDevice::to(Device::Cuda(0));
    let mut ops = ops![to_device];
    if dtype != DType::U8 {
        ops.push(Arc::new(Normalize::imagenet()));
        ops.push(Arc::new(Convert::to(dtype)));
    } else {
        // The device needs at least one op: a flip is not part of the text.
        ops.push(Arc::new(RandomHorizontalFlip::new(0.5).expect("a probability")));
    }
    if layout == Layout::ChannelsFirst {
        ops.push(Arc::new(ToChannelsFirst));
    }
    let mut labels = ops![to_device, OneHot::new(10).expect("above 0")];
    if mixed {
        ops.push(Arc::new(mixup()));
        labels.push(Arc::new(mixup()));
    }
    let input = ImageType::decoded(Dim::fixed(8), Dim::fixed(8));
    let plan = ImagePlan::on_device(ops, input, NumberRule::Fused).expect("a plan of the usual");
    let image = DeviceImage::new(&Arc::new(plan)).expect("a device runs the usual");
    let mut parts = vec![DeviceOutput::Image(image)];
    if with_label {
        let plan = ElementPlan::of_label(labels, DType::I64).expect("a plan of the usual");
        parts.extend(DeviceOneHot::new(&plan).map(DeviceOutput::OneHot));
    }
    let parts: Vec<&DeviceOutput> = parts.iter().collect();
    DeviceProgram::new(&parts).expect("few arguments").source
}
