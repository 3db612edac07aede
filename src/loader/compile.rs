//! Plans and compiles the outputs of an epoch, on the device that was chosen for them.

use super::array_images::{ArrayImages, ArrayRequest};
use super::clips::{ClipSource, Clips};
use super::collate::{Collate, Collated};
use super::compile_context::{
    CompileContext, compile_image, compile_plan, image_input, image_type, within_limits,
};
use super::component_ops::{check_lists, check_rows};
use super::cursor::{self, PlanPrint};
use super::device::{self, DeviceChoice, Upload};
use super::elements::{Elements, TensorElements};
use super::error::{of_field, of_output};
use super::mix_plan::plan_mixes;
use super::outputs::{OutputSpec, name_taken, of_component};
use super::target_mixing::{plan_later_passes, plan_target_mixers};
use super::target_plan::{
    FollowedImage, as_target_instead, check_followed, how_to_follow, mark_annotated, plan_target,
};
use super::targets::Target;
use super::work::{FieldPlan, ImageRow, OutputPlan, tensors};
use crate::batch::TensorSpec;
use crate::decode::{AudioOptions, ImageReadMode};
use crate::device::{DeviceOneHot, DeviceOutput, DeviceProgram};
use crate::error::{Error, fail};
use crate::jit::KernelCache;
use crate::plan::batch_ops::{is_on_batches, mixers};
use crate::plan::{ElementPlan, FlatOp, ImagePlan, SampleAxes, TargetKinds, VaryingSizes};
use crate::sample::Epoch;
use crate::source::{Escaped, FieldKind, FieldSpec, FrameCount, Source};
use fuseloop_ops::author::{ImageType, Layout, Op, OpClass};
use fuseloop_ops::internals::is_loaded;
use fuseloop_ops::{DType, Ops, Size};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The outputs of an epoch, and the upload of those on a device.
pub(super) type CompiledEpoch = (Vec<OutputPlan>, Option<Upload>);

/// Plans and compiles the outputs of an epoch.
pub(super) fn compile(
    source: &dyn Source,
    outputs: &[OutputSpec],
    epoch: Epoch,
    setup: &CompileContext,
    cache: &mut KernelCache,
    choice: &DeviceChoice,
) -> Result<CompiledEpoch, Error> {
    let lists = outputs.iter().map(|output| output.ops(epoch)).collect::<Result<Vec<_>, _>>()?;
    let (mut plans, upload) = plan_on_device(source, outputs, &lists, setup, cache, choice)?;
    add_components(source, outputs, &mut plans, epoch, setup, cache)?;
    check_batches(&tensors(&plans).0, setup)?;
    Ok((plans, upload))
}

/// Plans all outputs, whose ops are `lists`, for the device that `choice` decides on. If the choice is
/// free and the GPU can't run the lists, the CPU takes its place.
fn plan_on_device(
    source: &dyn Source,
    outputs: &[OutputSpec],
    lists: &[Ops],
    setup: &CompileContext,
    cache: &mut KernelCache,
    choice: &DeviceChoice,
) -> Result<CompiledEpoch, Error> {
    if let Some(decision) = choice.decide(lists)? {
        let planned = plan_outputs(source, outputs, lists, &decision.staged, setup, cache);
        let planned = planned.and_then(|plans| {
            let on_device = plans.iter().enumerate();
            let (indices, parts): (Vec<_>, Vec<_>) =
                on_device.filter_map(|(k, work)| Some((k, work.device_output.as_ref()?))).unzip();
            let program = DeviceProgram::new(&parts)?;
            let rows = setup.batch_size;
            let upload = choice.upload(&decision, rows, indices.into_iter(), program)?;
            Ok((plans, Some(upload)))
        });
        match planned {
            Ok(planned) => return Ok(planned),
            Err(error) => choice.fall_back(&decision, error)?,
        }
    }
    let on_host = vec![false; lists.len()];
    Ok((plan_outputs(source, outputs, lists, &on_host, setup, cache)?, None))
}

/// Refuses batches that would take more memory than the limits allow. Tensors whose samples differ in
/// size do not count: the system only allocates the memory that samples reach.
fn check_batches(tensors: &[TensorSpec], setup: &CompileContext) -> Result<(), Error> {
    let Some(batches) = setup.counted_batches else { return Ok(()) };
    let counted = tensors.iter().filter(|tensor| tensor.rows.sizes().is_none());
    let row_bytes = counted.fold(0, |sum: u64, tensor| {
        sum.saturating_add(tensor.row_bytes().map_or(u64::MAX, |bytes| bytes as u64))
    });
    let (batch_size, max) = (setup.batch_size, setup.decode.limits.max_batch_bytes);
    let bytes = row_bytes.saturating_mul(batch_size as u64).saturating_mul(batches);
    if bytes > max {
        return Err(fail!(
            Memory,
            "{batches} batches of {batch_size} samples take {bytes} bytes, {row_bytes} a sample; the limit is {max}: \
             use smaller batches, fewer batches ahead or smaller images, or set `memory_limit`"
        ));
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
) -> Result<Vec<OutputPlan>, Error> {
    let images = FollowedImage::of_outputs(source, outputs, lists, setup)?;
    let each = outputs.iter().zip(lists).zip(staged);
    let plans = each.map(|((output, ops), staged)| {
        let followed = FollowedImage::of_target(&images, outputs, output)?;
        let planned = plan_output(source, output, (ops.clone(), followed), *staged, setup, cache);
        planned.map_err(|error| as_target_instead(source, outputs, output, error))
    });
    let mut plans = plans.collect::<Result<Vec<_>, _>>()?;
    let later = plan_later_passes(&plans);
    plans.iter_mut().zip(later).for_each(|(work, passes)| work.passes = passes);
    let mixes = plan_mixes(source, outputs, &plans)?;
    check_followed(source, outputs, &plans)?;
    mark_annotated(source, outputs, &mut plans)?;
    plans.iter_mut().zip(mixes).for_each(|(work, mix)| work.mix = mix);
    let mixers = plan_target_mixers(&plans)?;
    plans.iter_mut().zip(mixers).for_each(|(work, mixer)| work.mix_targets = mixer);
    check_names(&plans)?;
    Ok(plans)
}

/// Refuses size tensors that would have the name of an output.
fn check_names(plans: &[OutputPlan]) -> Result<(), Error> {
    let (tensors, _) = tensors(plans);
    let (outputs, sizes) = tensors.split_at(plans.len());
    match sizes.iter().find(|sizes| outputs.iter().any(|output| output.name == sizes.name)) {
        None => Ok(()),
        Some(taken) => Err(name_taken(&taken.name)),
    }
}

/// Plans and compiles one output, which is on a device if `staged` is true.
fn plan_output(
    source: &dyn Source,
    output: &OutputSpec,
    (ops, followed): (Ops, Option<&FollowedImage<'_>>),
    staged: bool,
    setup: &CompileContext,
    cache: &mut KernelCache,
) -> Result<OutputPlan, Error> {
    let clips = setup.clips.as_deref().filter(|clips| clips.has_frames(output.field));
    let list = setup.lists.iter().find(|(field, _)| *field == output.field).map(|(_, list)| *list);
    let frames = setup.frames.as_ref().and_then(|frames| frames.0.frame_count(output.field));
    let frames = match frames {
        Some(FrameCount::Several(count)) => Some(count),
        Some(FrameCount::One) => {
            check_no_targets("the frames of cameras", output)
                .map_err(|error| of_output(error, &output.name))?;
            None
        }
        None => None,
    };
    // A target follows each frame.
    let followed_clips = setup.clips.as_deref().filter(|_| output.target.is_some());
    let clips = clips.or(followed_clips);
    let several = match (clips, frames, list) {
        (Some(_), ..) => Some("the frames of clips"),
        (None, Some(_), _) => Some("the frames of a sample"),
        (None, None, Some(_)) => Some("the images of a list"),
        (None, None, None) => None,
    };
    if let Some(several) = several {
        check_several((several, clips), output, &ops)
            .map_err(|error| of_output(error, &output.name))?;
    } else if setup.clips.is_some() && source.fields()[output.field].kind.is_image() {
        let error = match output.is_mask {
            true => fail!(
                Pipeline,
                "a mask follows the frames of clips as their target: {}; or leave it out (`without`)",
                how_to_follow(source, output)
            ),
            false => fail!(
                Pipeline,
                "an image next to clips would be that of a video's first frame: leave it out (`without`), and its views too"
            ),
        };
        return Err(of_output(error, &output.name));
    }
    let (work, target, mut later) = match (&output.target, followed) {
        (Some((_, target)), Some(image)) => {
            if output.is_mask {
                check_mask_files(source, output.field)?;
            }
            let planned = plan_target(source, output, (target, ops), image, setup, cache)?;
            (planned.work, Some(planned.target), planned.later)
        }
        _ => (plan_field(source, output, ops, staged, setup, cache)?, None, vec![]),
    };
    if let FieldPlan::Image(kernel) = &work {
        for pass in kernel.plan().later() {
            later.push(FieldPlan::Image(compile_plan(Arc::clone(pass), &output.name, cache)?));
        }
    }
    let collate = match (&output.target, followed) {
        (Some((_, Target::Mask { fill })), Some(image)) => {
            image.collate_of_mask(*fill, work.ops(), setup.rule)
        }
        _ => output.collate.clone(),
    };
    let collation = match (collate, &work) {
        (Some(collate), FieldPlan::Image(kernel)) => {
            Some(plan_collation(source, output, &collate, kernel.plan(), setup)?)
        }
        _ => None,
    };
    let images = match (clips, frames, list, &work) {
        (Some(clips), .., FieldPlan::Image(kernel)) if output.target.is_none() => {
            Some(plan_clip(clips.clips(), kernel.plan()))
        }
        (Some(clips), ..) if output.target.is_some() => {
            Some(plan_clip_target(clips.clips(), &work))
        }
        (None, Some(count), _, FieldPlan::Image(_)) => Some(Ok(ImageRow::Frames(count))),
        (None, None, Some(list), FieldPlan::Image(_)) => Some(Ok(ImageRow::List(list))),
        _ => None,
    };
    let images = images.transpose().and_then(|images| {
        images.iter().try_for_each(|images| check_row(images, &work, setup))?;
        Ok(images)
    });
    let images = images.map_err(|error| of_output(error, &output.name))?;
    let device_output = if staged { Some(device_output(&work, &output.name)?) } else { None };
    let (name, title) = (output.name.clone(), output.title.clone());
    let alias = output.alias.clone();
    let OutputSpec { field, draws, read_mode, .. } = *output;
    let array = output.array.clone();
    let by_component = BTreeMap::new();
    Ok(OutputPlan {
        name,
        alias,
        field,
        draws,
        read_mode,
        array,
        title,
        work,
        later,
        collation,
        images,
        by_component,
        mix: None,
        mix_targets: vec![],
        passes: vec![],
        device_output,
        target,
        targets: output.targets.clone(),
        is_annotated: output.targets.is_some(),
    })
}

/// Plans and compiles a list of ops for an output's field.
fn plan_field(
    source: &dyn Source,
    output: &OutputSpec,
    ops: Ops,
    staged: bool,
    setup: &CompileContext,
    cache: &mut KernelCache,
) -> Result<FieldPlan, Error> {
    let spec = &source.fields()[output.field];
    let plan = |error: Error| of_output(error, &output.name);
    let axes = |error: Error| of_field(error, &spec.name);
    let mut images =
        |input, axes| plan_image(output, ops.clone(), (input, axes), staged, setup, cache);
    Ok(match &spec.kind {
        _ if output.collate.is_some() && output.array.audio.is_some() => {
            let error = fail!(
                Parameter,
                "audio is not collated: make signals of one length by RandomCrop or CenterCrop, with `pad_if_needed`, or \
                 do not declare the field as audio to collate the bytes of its files"
            );
            return Err(of_output(error, &output.name));
        }
        kind if let Some(collate) = &output.collate
            && (ops.is_empty() || !kind.is_image()) =>
        {
            plan_collated(source, output, collate, &ops, setup)?
        }
        FieldKind::RgbImage | FieldKind::BitPlaneImage => {
            let input = image_input(source, output, setup)?;
            if output.is_mask {
                check_mask_files(source, output.field)?;
            }
            images(input, SampleAxes::Image)?
        }
        _ if let Some(declared) = output.array.of_bytes(source.longest(output.field)) => {
            let ArrayImages { input, axes } = declared.map_err(axes)?;
            images(input, axes)?
        }
        FieldKind::Int => FieldPlan::Label(ElementPlan::of_label(ops, DType::I64).map_err(plan)?),
        FieldKind::Float => FieldPlan::Label(ElementPlan::of_label(ops, DType::F64).map_err(plan)?),
        kind => match plan_copy(source, output.field, kind, setup)? {
            plain if device::only_moves(&ops) => plain,
            FieldPlan::Copied { dtype, shape, .. } if is_array(kind) => {
                let is_label = |op: &Arc<dyn Op>| matches!(op.class(), OpClass::Label(op) if !op.keeps_elements());
                let is_image = is_loaded(dtype) && !shape.is_empty() && !ops.iter().any(is_label);
                match ElementPlan::of_array(ops.clone(), dtype, shape.clone()) {
                    Err(_)
                        if is_image
                            && (output.array.axes.is_some() || !is_mixed_vector(&ops, &shape)) =>
                    {
                        let found = output.array.of_shape(dtype, &shape).map_err(axes)?;
                        images(found.input, found.axes)?
                    }
                    array => FieldPlan::Array(array.map_err(plan)?),
                }
            }
            _ => return Err(no_pipeline(spec)),
        },
    })
}

/// Returns whether a list does nothing to a vector but convert and mix it, as it does to a label.
fn is_mixed_vector(ops: &Ops, shape: &[usize]) -> bool {
    let keeps_elements = |op: &Arc<dyn Op>| match op.class() {
        OpClass::Cast(_)
        | OpClass::View(_)
        | OpClass::Device(_)
        | OpClass::Batch(_)
        | OpClass::HostBatch(_) => true,
        OpClass::Label(op) => op.keeps_elements(),
        _ => false,
    };
    let is_vector = shape.iter().filter(|&&side| side > 1).count() < 2;
    is_vector && mixers(ops).next().is_some() && ops.iter().all(keeps_elements)
}

/// Plans and compiles a list of ops for images of type `input`, or for the arrays that are such images.
fn plan_image(
    output: &OutputSpec,
    ops: Ops,
    (input, axes): (ImageType, SampleAxes),
    staged: bool,
    setup: &CompileContext,
    cache: &mut KernelCache,
) -> Result<FieldPlan, Error> {
    let plan = |error: Error| {
        let error = if setup.is_bucketed { not_bucketed(error) } else { error };
        of_output(error, &output.name)
    };
    let new = match &output.collate {
        Some(_) => ImagePlan::of_any_size,
        None if staged => ImagePlan::on_device,
        None => ImagePlan::new,
    };
    let image =
        new(ops, input, setup.rule).and_then(|image| image.with_axes(axes)).map_err(plan)?;
    image.check_size(&setup.decode.limits).map_err(plan)?;
    if output.is_mask {
        image.check_mask().map_err(plan)?;
    }
    let kinds = output.targets.as_ref().map_or(TargetKinds::default(), |targets| targets.kinds());
    image.check_targets(kinds).map_err(plan)?;
    Ok(FieldPlan::Image(compile_image(image, &output.name, setup, cache)?))
}

/// Returns the error of samples that differ in size although the order is bucketed: their sizes were not measured.
fn not_bucketed(error: Error) -> Error {
    match error.cause() {
        Some(VaryingSizes { samples, .. }) => {
            let cure = "the order `bucketed` has batches of images whose list, one for all epochs and all components of \
                        the dataset, leaves several sizes when the loader is built, not of arrays or of lists that are \
                        replaced: add an op that leaves one size, such as RandomCrop or CenterCrop";
            VaryingSizes { samples: samples.clone(), cure: cure.into() }.into()
        }
        _ => error,
    }
}

/// Returns the error for a field that takes no ops.
fn no_pipeline(spec: &FieldSpec) -> Error {
    let (field, kind) = (&spec.name, spec.kind.word());
    let error = match spec.kind {
        FieldKind::NdArray { dtype, .. } | FieldKind::TorchTensor { dtype, .. } => fail!(
            Pipeline,
            "field {field}: its elements are {dtype}, but ops take |u1, |b1, <u2, <i2, <i4, <i8, <f2, <f4 and <f8: store \
             it as one of these, or remove its ops to get its values"
        ),
        FieldKind::Bytes => fail!(
            Pipeline,
            "field {field} is {kind}: only images, ints, floats and arrays take ops: declare what it holds (`arrays`), or, if it \
             has video files, choose clips of them (`clips`)"
        ),
        _ => fail!(
            Pipeline,
            "field {field} is {kind}: only images, ints, floats and arrays take ops"
        ),
    };
    error.of_field(field)
}

/// Refuses masks that are known to be JPEGs.
fn check_mask_files(source: &dyn Source, field: usize) -> Result<(), Error> {
    match source.image_stats(field).map_or(0, |stats| stats.jpegs()) {
        0 => Ok(()),
        jpegs => {
            let field = source.fields()[field].name.clone();
            let error = fail!(
                Format,
                "field {field}: {jpegs} of its masks are JPEGs, which blend the class numbers of neighbours: write the \
                 masks as PNG files, or with `WriteMode::Mask`"
            );
            Err(error.of_field(&field))
        }
    }
}

/// Plans an output whose samples are collated.
fn plan_collated(
    source: &dyn Source,
    output: &OutputSpec,
    collate: &Collate,
    ops: &Ops,
    setup: &CompileContext,
) -> Result<FieldPlan, Error> {
    let refused = |error: Error| of_output(error, &output.name);
    let (field, kind) = (output.field, &source.fields()[output.field].kind);
    let mut collated = collate.plan(kind, output.read_mode, ops).map_err(refused)?;
    let mut shape = match (kind, collate.max_length()) {
        (FieldKind::RgbImage | FieldKind::BitPlaneImage, _) => {
            let Size { height, width } = match collate.max_size() {
                Some(size) => size,
                None if source.image_stats(field).is_none() => {
                    return Err(refused(fail!(
                        Parameter,
                        "the source does not report the sizes of its images: use `to_size((height, width))`, in a \
                         pipeline file `to_size = [height, width]`"
                    )));
                }
                None => {
                    let image = image_type(source, field, setup)?;
                    Size::new(image.height.max, image.width.max)
                }
            };
            vec![height as usize, width as usize, output.read_mode.channels().into()]
        }
        (_, Some(max)) => vec![max],
        (_, None) => {
            let bytes = source.longest(field).ok_or_else(|| {
                refused(fail!(
                    Parameter,
                    "the length of its longest value is unknown: use `to(max)`"
                ))
            })?;
            vec![usize::try_from(bytes).unwrap_or(usize::MAX) / collated.item]
        }
    };
    shape.append(&mut collated.shape);
    collated.shape = shape;
    within_limits(FieldPlan::Collated(collated), &source.fields()[field].name, setup)
}

/// Plans how images are collated that ops leave in differing sizes.
fn plan_collation(
    source: &dyn Source,
    output: &OutputSpec,
    collate: &Collate,
    plan: &ImagePlan,
    setup: &CompileContext,
) -> Result<Collated, Error> {
    let refused = |error: Error| of_output(error, &output.name);
    let collated = collate.plan_images(plan).map_err(refused)?;
    let (bytes, max) = (collated.row_bytes() as u64, setup.decode.limits.max_row_bytes);
    if bytes <= max {
        return Ok(collated);
    }
    let (largest, is_known) = (plan.output_size(), source.image_stats(output.field).is_some());
    let unknown = match is_known {
        true => "",
        false => " (the source does not report the sizes of its images)",
    };
    Err(refused(fail!(
        Parameter,
        "the largest image may have {largest} pixels{unknown}, which is a row of {bytes} bytes; the limit is {max}: \
         set the largest with `to_size((height, width))`, or raise `max_row_bytes` (LoaderBuilder::limits)"
    )))
}

/// Refuses what can't be done yet with several images of a sample, or with the targets of frames of clips.
fn check_several(
    (several, clips): (&str, Option<&ClipSource>),
    output: &OutputSpec,
    ops: &Ops,
) -> Result<(), Error> {
    match clips {
        None => check_no_targets(several, output)?,
        Some(clips) if !clips.has_values_of_frames() && has_targets(output) => {
            return Err(fail!(
                Unsupported,
                "targets follow each frame, and these videos are files, whose frames have no masks or boxes of their own: \
                 extract the frames, or leave out `targets`"
            ));
        }
        Some(_) => {}
    }
    if output.collate.is_some() && output.target.is_none() {
        return Err(fail!(
            Unsupported,
            "{several} have one size: remove its `collate`, and add an op that leaves one size, such as RandomCrop"
        ));
    }
    if let Some(op) = ops.iter().find(|op| is_on_batches(&***op)) {
        return Err(fail!(
            Unsupported,
            "{} works on batches of images, and not yet on {several}: remove it, and mix samples in the training",
            op.name()
        ));
    }
    // A list that is refused where there is a device is refused where there is none.
    if ops.iter().any(|op| matches!(op.class(), OpClass::Device(_))) {
        return Err(fail!(
            Unsupported,
            "{several} are made on the CPU: remove ToDevice, and copy finished batches to the device"
        ));
    }
    Ok(())
}

/// Returns whether an output has targets, or is one.
fn has_targets(output: &OutputSpec) -> bool {
    output.targets.is_some() || output.target.is_some()
}

/// Refuses targets of an output that is no single stored image.
fn check_no_targets(several: &str, output: &OutputSpec) -> Result<(), Error> {
    if has_targets(output) {
        return Err(fail!(
            Unsupported,
            "targets follow an image or the frames of clips, and not yet {several}: leave out `targets`, or load a dataset \
             whose samples have one image"
        ));
    }
    Ok(())
}

/// Refuses ops that draw around the objects of each frame, where all frames of a clip have one draw.
fn check_draws_of_clip(clips: &Clips, plan: &ImagePlan) -> Result<(), Error> {
    let draws_around = |leaf: &&FlatOp| match leaf.op.class() {
        OpClass::Geometry(op) => op.needs_boxes(),
        _ => false,
    };
    let ops = plan.passes().flat_map(ImagePlan::flat_ops);
    match ops.filter(|_| !clips.draws_for_frames()).find(draws_around) {
        None => Ok(()),
        Some(leaf) => Err(fail!(
            Pipeline,
            "{} draws around the boxes of a frame, so that the frames of a clip would not have one window: take \
             RandomResizedCrop, or let each frame draw for itself (`per_frame`)",
            leaf.op.name()
        )),
    }
}

/// Plans the row of a clip, whose images are those of `plan`.
fn plan_clip(clips: &Clips, plan: &ImagePlan) -> Result<ImageRow, Error> {
    check_draws_of_clip(clips, plan)?;
    let (shape, layout) = (plan.shape(), plan.output().layout);
    if clips.is_channels_first() && (layout != Layout::ChannelsFirst || shape.len() != 3) {
        return Err(fail!(
            Pipeline,
            "the layout NCTHW needs images [C, H, W], and these have shape {shape:?}: end the list with ToChannelsFirst"
        ));
    }
    let channels = clips.is_channels_first().then(|| shape[0]);
    Ok(ImageRow::Clip { clips: clips.clone(), channels })
}

/// Plans the row of a target of the frames of clips.
fn plan_clip_target(clips: &Clips, work: &FieldPlan) -> Result<ImageRow, Error> {
    if let FieldPlan::Collated(collated) = work
        && collated.is_list()
    {
        return Err(fail!(
            Unsupported,
            "the targets of clips are no lists: set its `collate` to `pad`, or leave it out for a ragged tensor"
        ));
    }
    let channels = match work {
        FieldPlan::Image(kernel) if clips.is_channels_first() => {
            let is_first = kernel.plan().output().layout == Layout::ChannelsFirst;
            is_first.then_some(1)
        }
        _ => None,
    };
    Ok(ImageRow::Clip { clips: clips.clone(), channels })
}

/// Refuses a row of several images that is larger than rows may be.
fn check_row(images: &ImageRow, image: &FieldPlan, setup: &CompileContext) -> Result<(), Error> {
    let (count, max) = (images.count(), setup.decode.limits.max_row_bytes);
    let bytes = (image.row_bytes() as u64).saturating_mul(count as u64);
    if bytes > max {
        return Err(fail!(
            Memory,
            "a sample of {count} images is a row of {bytes} bytes; the limit is {max}: take fewer or smaller images, or \
             raise `max_row_bytes` (LoaderBuilder::limits)"
        ));
    }
    Ok(())
}

/// Plans and compiles the lists of the dataset's components for an epoch.
///
/// # Errors
///
/// If a list does not fit, or its rows differ in shape, type or layout from those of its output.
fn add_components(
    source: &dyn Source,
    outputs: &[OutputSpec],
    plans: &mut [OutputPlan],
    epoch: Epoch,
    setup: &CompileContext,
    cache: &mut KernelCache,
) -> Result<(), Error> {
    for (output, work) in outputs.iter().zip(plans) {
        for (component, pipeline) in &output.component_ops {
            let refused = |error| of_component(error, &output.name, *component);
            let titled = output.named(format!("{} of component {component}", output.name));
            let ops = pipeline.ops(epoch, &titled.name)?;
            check_lists(&ops, &work.work).map_err(refused)?;
            let own = plan_field(source, &titled, ops, false, setup, cache)?;
            check_rows(&own, &work.work).map_err(refused)?;
            work.by_component.insert(*component, own);
        }
    }
    Ok(())
}

/// Returns the device's share of an output: a copy of the host's row, or the ops that are left.
fn device_output(work: &FieldPlan, output: &str) -> Result<DeviceOutput, Error> {
    let refused = |error| of_output(error, output);
    let left = match work {
        FieldPlan::Image(kernel) => {
            Some(DeviceOutput::of_image(kernel.shared_plan()).map_err(refused)?)
        }
        FieldPlan::Label(plan) => DeviceOneHot::new(plan).map(DeviceOutput::OneHot),
        _ => None,
    };
    Ok(left.unwrap_or_else(|| DeviceOutput::Copied { dtype: work.dtype(), shape: work.shape() }))
}

/// Plans a field that is copied unchanged.
fn plan_copy(
    source: &dyn Source,
    field: usize,
    kind: &FieldKind,
    setup: &CompileContext,
) -> Result<FieldPlan, Error> {
    let name = &source.fields()[field].name;
    let work = match kind {
        FieldKind::NdArray { dtype, shape } | FieldKind::TorchTensor { dtype, shape } => {
            let mut shape: Vec<usize> = shape.iter().map(|&n| n as usize).collect();
            let found = if setup.stored_elements && dtype.element_type().is_none() {
                shape.push(dtype.item_size() as usize);
                TensorElements { dtype: DType::U8, is_pair: false, elements: Elements::Stored }
            } else {
                let found = TensorElements::of(*dtype);
                found.ok_or_else(|| {
                    let error = fail!(
                        Pipeline,
                        "field {name}: its elements are {dtype}, which no tensor can hold: store it as another type, or \
                         leave the field out of the batches (`without`)"
                    );
                    error.of_field(name)
                })?
            };
            if found.is_pair {
                shape.push(2);
            }
            FieldPlan::Copied { dtype: found.dtype, shape, elements: found.elements }
        }
        FieldKind::Custom { row_size, .. } => {
            let elements = Elements::Stored;
            FieldPlan::Copied { dtype: DType::U8, shape: vec![*row_size], elements }
        }
        FieldKind::Bytes if source.facts().is_video(field) => {
            let error = fail!(
                Unsupported,
                "its values are video files, of which clips are loaded: choose them (`clips`, such as 16 frames of each), leave \
                 the field out (`without`), or set its `collate` to have the bytes"
            );
            return Err(of_field(error, name));
        }
        _ => {
            let Some(longest) = source.longest(field) else {
                if source.facts().is_audio(field) {
                    let error = fail!(
                        Unsupported,
                        "its values are audio files, of any length: declare their sample rate (`audio`; in Python and in pipeline \
                         files `arrays`), leave the field out (`without`), or set its `collate`"
                    );
                    return Err(of_field(error, name));
                }
                let error = fail!(
                    Unsupported,
                    "the length of its longest value is unknown: leave the field out (`without`), or set its `collate`, \
                     such as `ragged`, with the largest length (`to`)"
                );
                return Err(of_field(error, name));
            };
            let longest = usize::try_from(longest).unwrap_or(usize::MAX);
            FieldPlan::Copied { dtype: DType::U8, shape: vec![longest], elements: Elements::Stored }
        }
    };
    within_limits(work, name, setup)
}

/// Returns true if ops take the elements of a field as they are stored.
fn is_array(kind: &FieldKind) -> bool {
    match kind {
        FieldKind::NdArray { dtype, .. } | FieldKind::TorchTensor { dtype, .. } => {
            dtype.element_type().is_some()
        }
        _ => false,
    }
}

/// Returns a short fingerprint of each output, followed by those of its ops.
pub(super) fn plan_prints(outputs: &[OutputPlan]) -> Vec<PlanPrint> {
    let mut prints = vec![];
    for output in outputs {
        let OutputPlan { name, field, draws, work, by_component, .. } = output;
        let components: Vec<_> = by_component.iter().map(|(k, work)| (k, work.ops())).collect();
        let mode = mode_print(output);
        let text = format!("{name:?} {field} {draws:?} {components:?}{mode}");
        prints.push(PlanPrint::new(format!("output {}", Escaped(name)), text));
        let ops = device::without_device_names(work.ops());
        prints.extend(ops.iter().enumerate().map(|(k, op)| {
            let title = format!("op {k} of output {}, {}", Escaped(name), op.name());
            PlanPrint::new(title, format!("{op:?}"))
        }));
    }
    prints
}

/// Returns the part of a fingerprint that stands for what a field is read as: nothing for the default, so that states
/// saved before there were others stay valid.
fn mode_print(output: &OutputPlan) -> String {
    let mode = match output.read_mode {
        ImageReadMode::Rgb => String::new(),
        mode => format!(" read as {mode:?}"),
    };
    let mode = match &output.targets {
        None => mode,
        Some(targets) => format!("{mode} {targets:?}"),
    };
    let mode = match &output.images {
        None => mode,
        Some(images) => format!("{mode} {}", images.print()),
    };
    if output.array == ArrayRequest::default() {
        mode
    } else {
        // Without audio, the text is that of states saved before there was audio.
        let ArrayRequest { axes, elements, audio } = &output.array;
        let audio = audio.map_or_else(String::new, |audio| {
            let AudioOptions { sample_rate, num_channels, resample } = audio;
            let resample = if resample { ", resample: true" } else { "" };
            format!(
                ", audio: AudioOptions {{ sample_rate: {sample_rate}, num_channels: {num_channels}{resample} }}"
            )
        });
        format!("{mode} ArrayRequest {{ axes: {axes:?}, elements: {elements:?}{audio} }}")
    }
}

/// Returns the fingerprint of everything that changes the numbers a plan produces.
pub(super) fn fingerprint(outputs: &[OutputPlan], setup: &CompileContext) -> u64 {
    let scaled = if setup.scaled_decode { " scaled" } else { "" };
    let rules = format!("{:?} {}{scaled}", setup.rule, setup.decode.exif_orientation);
    let output = |output: &OutputPlan| {
        let OutputPlan { name, field, draws, work, by_component, .. } = output;
        let collated = output.collated(0).map(|(_, collated)| collated);
        let collated = collated.or(output.collation.as_ref());
        let ops = device::without_device_names(work.ops());
        let one =
            |(component, work): (&usize, &FieldPlan)| format!(" {component}: {:?}", work.ops());
        let by_component: String = by_component.iter().map(one).collect();
        let (dtype, mode) = (work.dtype(), mode_print(output));
        format!("{name:?} {field} {draws:?} {dtype:?} {ops:?} {collated:?}{by_component}{mode}")
    };
    cursor::fingerprint(std::iter::once(rules).chain(outputs.iter().map(output)))
}
