//! What is done to each field: the ops of an epoch, planned and compiled, or what stands for them.

use super::collate::{self, Collated};
use super::cursor;
use super::device;
use super::error::SampleCause;
use super::mixing::{self, Mix};
use super::outputs::{DrawsOf, Output};
use super::parts;
use super::stage::{LoaderStage, Shared};
use super::{LoadError, OnDamaged};
use crate::batch::{Rows, TensorSpec};
use crate::decode::DecodeOptions;
use crate::device::{ImagePart, OneHotPart, Part};
use crate::jit::{Kernel, KernelCache};
use crate::plan::label::{LabelError, Scalar};
use crate::plan::{ArrayPlan, ImagePlan, LabelPlan};
use crate::sample::{Epoch, SampleId};
use crate::source::{FieldKind, Source, Value};
use fuseloop_ops::{DType, Dim, ImageType, NumberRule, Ops};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What every field's work is made with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup {
    pub(super) seed: u64,
    pub(super) rule: NumberRule,
    pub(super) batch_size: usize,
    pub(super) decode: DecodeOptions,
    pub(super) on_damaged: OnDamaged,
    /// Which of how many processes this is.
    pub(super) rank: u64,
    pub(super) world: u64,
    /// Batches that [`Limits::max_batch_bytes`](crate::sample::Limits::max_batch_bytes) must hold;
    /// `None` where the engine has a limit of the user's.
    pub(super) counted_batches: Option<u64>,
}

/// What is done to a field for one output.
#[derive(Debug)]
pub(super) enum FieldWork {
    /// Decoded and run through a kernel.
    Image(Arc<Kernel>),
    /// A number through scalar ops.
    Label(LabelPlan),
    /// An array, element by element.
    Array(ArrayPlan),
    /// Copied, with zeros after what is shorter than the longest.
    Copied { dtype: DType, shape: Vec<usize> },
    /// Of differing sizes.
    Collated(Collated),
}

impl FieldWork {
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

    /// The ops, in order.
    pub(super) fn ops(&self) -> &Ops {
        const NONE: &Ops = &Ops::new();
        match self {
            Self::Image(kernel) => kernel.plan().ops(),
            Self::Label(plan) => plan.ops(),
            Self::Array(plan) => plan.ops(),
            Self::Copied { .. } | Self::Collated(_) => NONE,
        }
    }

    /// The work in words, in lines.
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

    /// Bytes of one sample.
    pub(super) fn row_bytes(&self) -> usize {
        let bytes = self.shape().iter().try_fold(self.dtype().bytes(), |a, &n| a.checked_mul(n));
        bytes.unwrap_or(usize::MAX)
    }
}

/// One output: the field it is made of, and what is done to that.
#[derive(Debug)]
pub(super) struct OutputWork {
    pub(super) name: String,
    /// The name that its field is stored under, where that is another one.
    pub(super) alias: Option<String>,
    pub(super) field: usize,
    pub(super) draws: DrawsOf,
    pub(super) title: String,
    pub(super) work: FieldWork,
    /// What is done instead to samples of some parts of the dataset.
    pub(super) of_parts: BTreeMap<usize, FieldWork>,
    /// How finished batches are mixed, if they are.
    pub(super) mix: Option<Mix>,
    /// Its way to a device, if it lies on one.
    pub(super) part: Option<Part>,
}

impl OutputWork {
    /// What is done to samples of a part of the dataset.
    pub(super) fn work_of(&self, part: usize) -> &FieldWork {
        self.of_parts.get(&part).unwrap_or(&self.work)
    }

    /// All that is done, to samples of any part.
    pub(super) fn all_works(&self) -> impl Iterator<Item = &FieldWork> {
        std::iter::once(&self.work).chain(self.of_parts.values())
    }

    /// Its kernel for samples of a part, if it is made of images, with the output's own number `k`.
    pub(super) fn kernel(&self, k: usize, part: usize) -> Option<(usize, &Kernel)> {
        match self.work_of(part) {
            FieldWork::Image(kernel) => Some((k, kernel)),
            _ => None,
        }
    }

    /// How it is collated, if it is, with the output's own number `k`.
    pub(super) fn collated(&self, k: usize) -> Option<(usize, &Collated)> {
        match &self.work {
            FieldWork::Collated(collated) => Some((k, collated)),
            _ => None,
        }
    }

    /// Its tensor.
    pub(super) fn tensor(&self) -> TensorSpec {
        let rows = match &self.part {
            None => Rows::Even,
            Some(_) => Rows::Device { staged: self.staged_bytes() },
        };
        let spec = TensorSpec::new(&*self.name, self.work.dtype(), self.work.shape());
        TensorSpec { rows, alias: self.alias.clone(), ..spec }
    }

    /// Bytes of a sample that the host makes.
    fn staged_bytes(&self) -> usize {
        match &self.part {
            Some(Part::Image(part)) => part.staged_bytes(),
            Some(Part::OneHot(part)) => part.staged_bytes(),
            Some(Part::Copied { .. }) | None => self.work.row_bytes(),
        }
    }

    /// Makes what is not an image, of a sample and the part that it is of. Gives the length of a sample, or 1 where all have one size.
    pub(super) fn fill(
        &self,
        (sample, part): (SampleId, usize),
        value: Value<'_>,
        row: &mut [u8],
    ) -> Result<i64, SampleCause> {
        match (self.work_of(part), value) {
            (FieldWork::Collated(collated), value) => return Ok(collated.fill(value, row)?),
            (FieldWork::Label(plan), Value::Int(label)) => {
                self.fill_label(plan, sample, Scalar::Int(label), row)?;
            }
            (FieldWork::Label(plan), Value::Float(number)) => {
                self.fill_label(plan, sample, Scalar::Float(number), row)?;
            }
            (FieldWork::Array(plan), Value::NdArray(stored)) => plan.run(stored, row),
            (
                FieldWork::Copied { .. },
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
            Some(Part::OneHot(part)) => part.fill(plan, sample.0, value, row),
            _ => plan.run(sample.0, value, row),
        }
    }
}

/// Plans and compiles the outputs for an epoch.
pub(super) fn stage(
    source: &Arc<dyn Source>,
    outputs: &[Output],
    epoch: Epoch,
    setup: &Setup,
    cache: &mut KernelCache,
    shared: &Shared,
) -> Result<LoaderStage, LoadError> {
    let lists = outputs.iter().map(|output| output.ops(epoch)).collect::<Result<Vec<_>, _>>()?;
    shared.site.check_asked(&lists)?;
    let (mut works, way) = shared
        .site
        .make(&lists, |staged| works(&**source, outputs, &lists, staged, setup, cache))?;
    parts::add(&**source, outputs, &mut works, epoch, setup, cache)?;
    let stage = LoaderStage::new(Arc::clone(source), works, way, epoch, setup, shared.clone());
    check_batches(stage.tensors(), setup)?;
    Ok(stage)
}

/// Refuses batches that would take more memory than the limits allow. Tensors whose samples differ
/// in size do not count: the system gives memory for what samples reach alone.
fn check_batches(tensors: &[TensorSpec], setup: &Setup) -> Result<(), LoadError> {
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

/// What is done for each output, whose ops are `lists`; the ends of those that are `staged` are
/// left to a device.
pub(super) fn works(
    source: &dyn Source,
    outputs: &[Output],
    lists: &[Ops],
    staged: &[bool],
    setup: &Setup,
    cache: &mut KernelCache,
) -> Result<Vec<OutputWork>, LoadError> {
    let each = outputs.iter().zip(lists).zip(staged);
    let works = each.map(|((output, ops), staged)| {
        output_work(source, output, ops.clone(), *staged, setup, cache)
    });
    let mut works = works.collect::<Result<Vec<_>, _>>()?;
    let mixes = mixing::resolve(&works)?;
    works.iter_mut().zip(mixes).for_each(|(work, mix)| work.mix = mix);
    collate::check_names(&works)?;
    Ok(works)
}

/// Plans and compiles one output; `staged`, if it lies on a device.
fn output_work(
    source: &dyn Source,
    output: &Output,
    ops: Ops,
    staged: bool,
    setup: &Setup,
    cache: &mut KernelCache,
) -> Result<OutputWork, LoadError> {
    let work = field_work(source, output, ops, staged, setup, cache)?;
    let part = if staged { Some(part(&work, &output.name)?) } else { None };
    let (name, title) = (output.name.clone(), output.title.clone());
    let alias = output.alias.clone();
    let (field, draws) = (output.field, output.draws);
    let of_parts = BTreeMap::new();
    Ok(OutputWork { name, alias, field, draws, title, work, of_parts, mix: None, part })
}

/// Plans and compiles a list of ops for an output's field.
pub(super) fn field_work(
    source: &dyn Source,
    output: &Output,
    ops: Ops,
    staged: bool,
    setup: &Setup,
    cache: &mut KernelCache,
) -> Result<FieldWork, LoadError> {
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
            FieldWork::Image(Arc::new(kernel))
        }
        FieldKind::Int => FieldWork::Label(LabelPlan::new(ops, DType::I64).map_err(plan)?),
        FieldKind::Float => FieldWork::Label(LabelPlan::new(ops, DType::F64).map_err(plan)?),
        kind => match plain_work(source, output.field, kind, setup)? {
            plain if device::only_moves(&ops) => plain,
            FieldWork::Copied { dtype, shape } if is_array(kind, &shape) => {
                FieldWork::Array(ArrayPlan::new(ops, dtype, shape).map_err(plan)?)
            }
            _ => {
                return Err(LoadError::NoPipeline { field: spec.name.clone(), kind: kind.word() });
            }
        },
    })
}

/// The way of an output to a device: staged as the host makes it, or with something left to do.
fn part(work: &FieldWork, output: &str) -> Result<Part, LoadError> {
    let refused = |error| LoadError::OnDevice { output: output.to_owned(), error };
    let left = match work {
        FieldWork::Image(kernel) if kernel.plan().staged().is_some() => {
            Some(Part::Image(ImagePart::new(kernel.shared_plan()).map_err(refused)?))
        }
        FieldWork::Label(plan) => OneHotPart::new(plan).map(Part::OneHot),
        _ => None,
    };
    Ok(left.unwrap_or_else(|| Part::Copied { dtype: work.dtype(), shape: work.shape() }))
}

/// What the sides of a picture are at most, where nothing is known of them: JPEG's own limit.
const LARGEST_SIDE: u32 = 65_535;

/// What is known of a field's images before they are read.
pub(super) fn image_type(
    source: &dyn Source,
    field: usize,
    setup: &Setup,
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
        // Any of them may be turned by a quarter.
        let side = Dim { min: min.height.min(min.width), max: max.height.max(max.width) };
        return Ok(ImageType::decoded(side, side));
    }
    let height = Dim { min: min.height, max: max.height };
    Ok(ImageType::decoded(height, Dim { min: min.width, max: max.width }))
}

/// The work of a field that is copied as it is.
fn plain_work(
    source: &dyn Source,
    field: usize,
    kind: &FieldKind,
    setup: &Setup,
) -> Result<FieldWork, LoadError> {
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
            FieldWork::Copied { dtype: known.unwrap_or(DType::U8), shape }
        }
        FieldKind::Custom { row_size, .. } => {
            FieldWork::Copied { dtype: DType::U8, shape: vec![*row_size] }
        }
        _ => {
            let Some(longest) = source.longest(field) else {
                return Err(LoadError::NoLongest { field: name() });
            };
            let longest = usize::try_from(longest).unwrap_or(usize::MAX);
            FieldWork::Copied { dtype: DType::U8, shape: vec![longest] }
        }
    };
    let bytes = work.row_bytes() as u64;
    let max = setup.decode.limits.max_sample_bytes;
    if bytes > max { Err(LoadError::TooLarge { field: name(), bytes, max }) } else { Ok(work) }
}

/// Whether a field's elements are of a type known here: one of another type has an axis more, its
/// bytes.
fn is_array(kind: &FieldKind, shape: &[usize]) -> bool {
    match kind {
        FieldKind::NdArray { shape: stored, .. } | FieldKind::TorchTensor { shape: stored, .. } => {
            stored.len() == shape.len()
        }
        _ => false,
    }
}

/// Of what makes two plans give other numbers.
pub(super) fn fingerprint(outputs: &[OutputWork], setup: &Setup) -> u64 {
    let rules = format!("{:?} {}", setup.rule, setup.decode.exif_orientation);
    let output = |output: &OutputWork| {
        let OutputWork { name, field, draws, work, of_parts, .. } = output;
        let collated = output.collated(0).map(|(_, collated)| collated);
        let ops = device::anywhere(work.ops());
        let of_part = |(part, work): (&usize, &FieldWork)| format!(" {part}: {:?}", work.ops());
        let of_parts: String = of_parts.iter().map(of_part).collect();
        format!("{name:?} {field} {draws:?} {:?} {ops:?} {collated:?}{of_parts}", work.dtype())
    };
    cursor::fingerprint(std::iter::once(rules).chain(outputs.iter().map(output)))
}
