//! The plan of each output: the ops of an epoch, planned and compiled, or a plain copy.

use super::collate::{self, Collated};
use super::component_ops;
use super::cursor;
use super::device;
use super::error::SampleCause;
use super::mixing::{self, OutputMixer};
use super::outputs::{DrawsOf, OutputSpec};
use super::stage::{LoaderStage, StageShared};
use super::{LoadError, OnDamaged};
use crate::batch::{TensorRows, TensorSpec};
use crate::decode::DecodeOptions;
use crate::device::{DeviceImage, DeviceOneHot, DeviceOutput};
use crate::jit::{Kernel, KernelCache};
use crate::plan::label::{LabelError, Scalar};
use crate::plan::{ArrayPlan, ImagePlan, LabelPlan};
use crate::sample::{Epoch, SampleId};
use crate::source::{FieldKind, Source, Value};
use fuseloop_ops::author::{Dim, ImageType};
use fuseloop_ops::{DType, NumberRule, Ops};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The settings that all outputs are compiled with.
#[derive(Clone, Copy, Debug)]
pub(super) struct CompileContext {
    pub(super) seed: u64,
    pub(super) rule: NumberRule,
    pub(super) batch_size: usize,
    pub(super) decode: DecodeOptions,
    pub(super) on_damaged: OnDamaged,
    /// The rank of this process; `world` is the number of ranks.
    pub(super) rank: u64,
    pub(super) world: u64,
    /// The number of batches that [`Limits::max_batch_bytes`](crate::sample::Limits::max_batch_bytes)
    /// covers; `None` if the user set a memory limit of the engine.
    pub(super) counted_batches: Option<u64>,
}

/// How a field becomes one output.
#[derive(Debug)]
pub(super) enum FieldPlan {
    /// An image, decoded and run through a kernel.
    Image(Arc<Kernel>),
    /// A number, through scalar ops.
    Label(LabelPlan),
    /// An array, through element-wise ops.
    Array(ArrayPlan),
    /// Copied, padded with zeros to the longest.
    Copied { dtype: DType, shape: Vec<usize> },
    /// Samples of different sizes, collated.
    Collated(Collated),
}

impl FieldPlan {
    pub(super) fn dtype(&self) -> DType {
        match self {
            Self::Image(kernel) => kernel.plan().dtype(),
            Self::Label(plan) => plan.dtype(),
            Self::Array(plan) => plan.dtype(),
            Self::Copied { dtype, .. } => *dtype,
            Self::Collated(collated) => collated.dtype,
        }
    }

    pub(super) fn shape(&self) -> Vec<usize> {
        match self {
            Self::Image(kernel) => kernel.plan().shape(),
            Self::Label(plan) => plan.shape().to_vec(),
            Self::Array(plan) => plan.shape().to_vec(),
            Self::Copied { shape, .. } => shape.clone(),
            Self::Collated(collated) => collated.shape.clone(),
        }
    }

    /// Returns the ops, in order.
    pub(super) fn ops(&self) -> &Ops {
        const NONE: &Ops = &Ops::new();
        match self {
            Self::Image(kernel) => kernel.plan().ops(),
            Self::Label(plan) => plan.ops(),
            Self::Array(plan) => plan.ops(),
            Self::Copied { .. } | Self::Collated(_) => NONE,
        }
    }

    /// Describes the plan in lines of text.
    pub(super) fn explain(&self) -> String {
        match self {
            Self::Image(kernel) => kernel.explain(),
            Self::Label(_) | Self::Array(_) if self.ops().is_empty() => {
                "scalar code: copied\n".to_owned()
            }
            Self::Label(_) | Self::Array(_) => {
                let ops: Vec<&str> = self.ops().iter().map(|op| op.name()).collect();
                format!("scalar code: {}\n", ops.join(", "))
            }
            Self::Copied { .. } => "copied\n".to_owned(),
            Self::Collated(collated) => collated.explain(),
        }
    }

    /// Returns the bytes of one sample.
    pub(super) fn row_bytes(&self) -> usize {
        let bytes = self.shape().iter().try_fold(self.dtype().bytes(), |a, &n| a.checked_mul(n));
        bytes.unwrap_or(usize::MAX)
    }
}

/// One output: its field, and the plan for it.
#[derive(Debug)]
pub(super) struct OutputPlan {
    pub(super) name: String,
    /// The name that its field is stored under, if that differs.
    pub(super) alias: Option<String>,
    pub(super) field: usize,
    pub(super) draws: DrawsOf,
    pub(super) title: String,
    pub(super) work: FieldPlan,
    /// The plans for the samples of some components of the dataset, instead of `work`.
    pub(super) of_parts: BTreeMap<usize, FieldPlan>,
    /// How finished batches are mixed, if the output is mixed.
    pub(super) mix: Option<OutputMixer>,
    /// The device's share of the output, if the output is on a device.
    pub(super) part: Option<DeviceOutput>,
}

impl OutputPlan {
    /// Returns the plan for the samples of a component of the dataset.
    pub(super) fn work_of(&self, part: usize) -> &FieldPlan {
        self.of_parts.get(&part).unwrap_or(&self.work)
    }

    /// Returns the plans for all components.
    pub(super) fn all_works(&self) -> impl Iterator<Item = &FieldPlan> {
        std::iter::once(&self.work).chain(self.of_parts.values())
    }

    /// Returns the kernel for the samples of a component, together with the output's index `k`, if the
    /// output is an image.
    pub(super) fn kernel(&self, k: usize, part: usize) -> Option<(usize, &Kernel)> {
        match self.work_of(part) {
            FieldPlan::Image(kernel) => Some((k, kernel)),
            _ => None,
        }
    }

    /// Returns how the output is collated, together with its index `k`; `None` if it is not.
    pub(super) fn collated(&self, k: usize) -> Option<(usize, &Collated)> {
        match &self.work {
            FieldPlan::Collated(collated) => Some((k, collated)),
            _ => None,
        }
    }

    /// Returns the tensor of the output.
    pub(super) fn tensor(&self) -> TensorSpec {
        let rows = match &self.part {
            None => TensorRows::Even,
            Some(_) => TensorRows::Device { staged: self.staged_bytes() },
        };
        let spec = TensorSpec::new(&*self.name, self.work.dtype(), self.work.shape());
        TensorSpec { rows, alias: self.alias.clone(), ..spec }
    }

    /// Returns the bytes of a sample that the host writes.
    fn staged_bytes(&self) -> usize {
        match &self.part {
            Some(DeviceOutput::Image(part)) => part.staged_bytes(),
            Some(DeviceOutput::OneHot(part)) => part.staged_bytes(),
            Some(DeviceOutput::Copied { .. }) | None => self.work.row_bytes(),
        }
    }

    /// Writes the row of a sample of a given component, for outputs other than images. Returns the
    /// length of the sample, or 1 if all samples have the same size.
    pub(super) fn fill(
        &self,
        (sample, part): (SampleId, usize),
        value: Value<'_>,
        row: &mut [u8],
    ) -> Result<i64, SampleCause> {
        match (self.work_of(part), value) {
            (FieldPlan::Collated(collated), value) => return Ok(collated.fill(value, row)?),
            (FieldPlan::Label(plan), Value::Int(label)) => {
                self.fill_label(plan, sample, Scalar::Int(label), row)?;
            }
            (FieldPlan::Label(plan), Value::Float(number)) => {
                self.fill_label(plan, sample, Scalar::Float(number), row)?;
            }
            (FieldPlan::Array(plan), Value::NdArray(stored)) => plan.run(stored, row),
            (
                FieldPlan::Copied { .. },
                Value::Bytes(b) | Value::Json(b) | Value::NdArray(b) | Value::Custom(b),
            ) => {
                let Some((head, tail)) = row.split_at_mut_checked(b.len()) else {
                    return Err(SampleCause::TooLong { found: b.len(), longest: row.len() });
                };
                head.copy_from_slice(b);
                tail.fill(0);
            }
            (work, value) => unreachable!("a field's kind does not change: {work:?}, {value:?}"),
        }
        Ok(1)
    }

    fn fill_label(
        &self,
        plan: &LabelPlan,
        sample: SampleId,
        value: Scalar,
        row: &mut [u8],
    ) -> Result<(), LabelError> {
        match &self.part {
            Some(DeviceOutput::OneHot(part)) => part.fill(plan, sample.0, value, row),
            _ => plan.run(sample.0, value, row),
        }
    }
}

/// Plans and compiles the outputs for an epoch.
pub(super) fn stage(
    source: &Arc<dyn Source>,
    outputs: &[OutputSpec],
    epoch: Epoch,
    setup: &CompileContext,
    cache: &mut KernelCache,
    shared: &StageShared,
) -> Result<LoaderStage, LoadError> {
    let lists = outputs.iter().map(|output| output.ops(epoch)).collect::<Result<Vec<_>, _>>()?;
    shared.device_choice.check_asked(&lists)?;
    let (mut works, way) = shared
        .device_choice
        .make(&lists, |staged| plan_outputs(&**source, outputs, &lists, staged, setup, cache))?;
    component_ops::add(&**source, outputs, &mut works, epoch, setup, cache)?;
    let stage = LoaderStage::new(Arc::clone(source), works, way, epoch, setup, shared.clone());
    check_batches(stage.tensors(), setup)?;
    Ok(stage)
}

/// Refuses batches that would take more memory than the limits allow. Tensors whose samples differ in
/// size do not count: the system only allocates the memory that samples reach.
fn check_batches(tensors: &[TensorSpec], setup: &CompileContext) -> Result<(), LoadError> {
    let Some(batches) = setup.counted_batches else { return Ok(()) };
    let counted = tensors.iter().filter(|tensor| tensor.rows.sizes().is_none());
    let row_bytes = counted.fold(0, |sum: u64, tensor| {
        sum.saturating_add(tensor.row_bytes().map_or(u64::MAX, |bytes| bytes as u64))
    });
    let (batch_size, max) = (setup.batch_size, setup.decode.limits.max_batch_bytes);
    let bytes = row_bytes.saturating_mul(batch_size as u64).saturating_mul(batches);
    if bytes > max {
        return Err(LoadError::BatchBytes { bytes, batches, batch_size, row_bytes, max });
    }
    Ok(())
}

/// Plans all outputs, whose ops are `lists`; the last ops of those that are `staged` are left to a
/// device.
pub(super) fn plan_outputs(
    source: &dyn Source,
    outputs: &[OutputSpec],
    lists: &[Ops],
    staged: &[bool],
    setup: &CompileContext,
    cache: &mut KernelCache,
) -> Result<Vec<OutputPlan>, LoadError> {
    let each = outputs.iter().zip(lists).zip(staged);
    let works = each.map(|((output, ops), staged)| {
        plan_output(source, output, ops.clone(), *staged, setup, cache)
    });
    let mut works = works.collect::<Result<Vec<_>, _>>()?;
    let mixes = mixing::resolve(&works)?;
    works.iter_mut().zip(mixes).for_each(|(work, mix)| work.mix = mix);
    collate::check_names(&works)?;
    Ok(works)
}

/// Plans and compiles one output, which is on a device if `staged` is true.
fn plan_output(
    source: &dyn Source,
    output: &OutputSpec,
    ops: Ops,
    staged: bool,
    setup: &CompileContext,
    cache: &mut KernelCache,
) -> Result<OutputPlan, LoadError> {
    let work = plan_field(source, output, ops, staged, setup, cache)?;
    let part = if staged { Some(part(&work, &output.name)?) } else { None };
    let (name, title) = (output.name.clone(), output.title.clone());
    let alias = output.alias.clone();
    let (field, draws) = (output.field, output.draws);
    let of_parts = BTreeMap::new();
    Ok(OutputPlan { name, alias, field, draws, title, work, of_parts, mix: None, part })
}

/// Plans and compiles a list of ops for an output's field.
pub(super) fn plan_field(
    source: &dyn Source,
    output: &OutputSpec,
    ops: Ops,
    staged: bool,
    setup: &CompileContext,
    cache: &mut KernelCache,
) -> Result<FieldPlan, LoadError> {
    let spec = &source.fields()[output.field];
    let name = || output.name.clone();
    let plan = |error| LoadError::Plan { output: name(), error };
    Ok(match &spec.kind {
        _ if let Some(collate) = &output.collate => {
            collate.work(source, output.field, &output.name, &ops, setup)?
        }
        FieldKind::RgbImage => {
            let input = image_type(source, output.field, setup)?;
            let new = if staged { ImagePlan::on_device } else { ImagePlan::new };
            let image = new(ops, input, setup.rule).map_err(plan)?;
            image.check_size(&setup.decode.limits).map_err(plan)?;
            let image = image.named(&output.name).for_batches_of(setup.batch_size);
            let kernel = cache.compile(image);
            let kernel = kernel.map_err(|error| LoadError::Compile { output: name(), error })?;
            FieldPlan::Image(Arc::new(kernel))
        }
        FieldKind::Int => FieldPlan::Label(LabelPlan::new(ops, DType::I64).map_err(plan)?),
        FieldKind::Float => FieldPlan::Label(LabelPlan::new(ops, DType::F64).map_err(plan)?),
        kind => match plan_copy(source, output.field, kind, setup)? {
            plain if device::only_moves(&ops) => plain,
            FieldPlan::Copied { dtype, shape } if is_array(kind, &shape) => {
                FieldPlan::Array(ArrayPlan::new(ops, dtype, shape).map_err(plan)?)
            }
            _ => {
                return Err(LoadError::NoPipeline { field: spec.name.clone(), kind: kind.word() });
            }
        },
    })
}

/// Returns the device's share of an output: a copy of the host's row, or the ops that are left.
fn part(work: &FieldPlan, output: &str) -> Result<DeviceOutput, LoadError> {
    let refused = |error| LoadError::OnDevice { output: output.to_owned(), error };
    let left = match work {
        FieldPlan::Image(kernel) if kernel.plan().staged().is_some() => {
            Some(DeviceOutput::Image(DeviceImage::new(kernel.shared_plan()).map_err(refused)?))
        }
        FieldPlan::Label(plan) => DeviceOneHot::new(plan).map(DeviceOutput::OneHot),
        _ => None,
    };
    Ok(left.unwrap_or_else(|| DeviceOutput::Copied { dtype: work.dtype(), shape: work.shape() }))
}

/// The largest side of an image of unknown size: JPEG's own limit.
const LARGEST_SIDE: u32 = 65_535;

/// Returns the type of a field's images, as known before they are read.
pub(super) fn image_type(
    source: &dyn Source,
    field: usize,
    setup: &CompileContext,
) -> Result<ImageType, LoadError> {
    let name = || source.fields()[field].name.clone();
    let Some(stats) = source.image_stats(field) else {
        let any = Dim { min: 1, max: LARGEST_SIDE };
        return Ok(ImageType::decoded(any, any));
    };
    let Some((min, max)) = stats.min.zip(stats.max) else {
        return Err(LoadError::NoPictures { field: name() });
    };
    if setup.decode.exif_orientation && stats.jpeg > 0 {
        // Any image may be rotated by 90 degrees.
        let side = Dim { min: min.height.min(min.width), max: max.height.max(max.width) };
        return Ok(ImageType::decoded(side, side));
    }
    let height = Dim { min: min.height, max: max.height };
    Ok(ImageType::decoded(height, Dim { min: min.width, max: max.width }))
}

/// Plans a field that is copied unchanged.
fn plan_copy(
    source: &dyn Source,
    field: usize,
    kind: &FieldKind,
    setup: &CompileContext,
) -> Result<FieldPlan, LoadError> {
    let name = || source.fields()[field].name.clone();
    let work = match kind {
        FieldKind::NdArray { dtype, shape } | FieldKind::TorchTensor { dtype, shape } => {
            let mut shape: Vec<usize> = shape.iter().map(|&n| n as usize).collect();
            let known = match dtype.to_string().as_str() {
                "|u1" | "|b1" => Some(DType::U8),
                "<i2" => Some(DType::I16),
                "<i4" => Some(DType::I32),
                "<i8" => Some(DType::I64),
                "<f2" => Some(DType::F16),
                "<f4" => Some(DType::F32),
                "<f8" => Some(DType::F64),
                _ => None,
            };
            if known.is_none() {
                shape.push(dtype.item_size() as usize);
            }
            FieldPlan::Copied { dtype: known.unwrap_or(DType::U8), shape }
        }
        FieldKind::Custom { row_size, .. } => {
            FieldPlan::Copied { dtype: DType::U8, shape: vec![*row_size] }
        }
        _ => {
            let Some(longest) = source.longest(field) else {
                return Err(LoadError::NoLongest { field: name() });
            };
            let longest = usize::try_from(longest).unwrap_or(usize::MAX);
            FieldPlan::Copied { dtype: DType::U8, shape: vec![longest] }
        }
    };
    let bytes = work.row_bytes() as u64;
    let max = setup.decode.limits.max_sample_bytes;
    if bytes > max { Err(LoadError::TooLarge { field: name(), bytes, max }) } else { Ok(work) }
}

/// Returns true if the type of a field's elements is known here: a field of another type has one more
/// axis, the bytes of its elements.
fn is_array(kind: &FieldKind, shape: &[usize]) -> bool {
    match kind {
        FieldKind::NdArray { shape: stored, .. } | FieldKind::TorchTensor { shape: stored, .. } => {
            stored.len() == shape.len()
        }
        _ => false,
    }
}

/// Returns the fingerprint of everything that changes the numbers a plan produces.
pub(super) fn fingerprint(outputs: &[OutputPlan], setup: &CompileContext) -> u64 {
    let rules = format!("{:?} {}", setup.rule, setup.decode.exif_orientation);
    let output = |output: &OutputPlan| {
        let OutputPlan { name, field, draws, work, of_parts, .. } = output;
        let collated = output.collated(0).map(|(_, collated)| collated);
        let ops = device::without_device_names(work.ops());
        let of_part = |(part, work): (&usize, &FieldPlan)| format!(" {part}: {:?}", work.ops());
        let of_parts: String = of_parts.iter().map(of_part).collect();
        format!("{name:?} {field} {draws:?} {:?} {ops:?} {collated:?}{of_parts}", work.dtype())
    };
    cursor::fingerprint(std::iter::once(rules).chain(outputs.iter().map(output)))
}
