//! Plans and compiles the outputs that follow an image.

use super::collate::Collate;
use super::compile_context::{
    CompileContext, compile_image, compile_plan, image_input, within_limits,
};
use super::error::{of_field, of_output};
use super::outputs::{OutputSpec, known_fields, named};
use super::targets::{PlannedTarget, Target};
use super::work::{FieldPlan, OutputPlan};
use crate::error::{Error, fail};
use crate::jit::KernelCache;
use crate::plan::{ImagePlan, VaryingSizes, batch_ops};
use crate::source::{Escaped, FieldKind, ObjectField, Source};
use crate::warnings::warn;
use fuseloop_ops::author::OpClass;
use fuseloop_ops::{DType, NumberRule, Ops, Size, Squeeze};
use std::sync::Arc;

/// An image that has targets, planned once for all of them.
pub(super) struct FollowedImage<'a> {
    output: &'a OutputSpec,
    plan: ImagePlan,
}

impl<'a> FollowedImage<'a> {
    /// Plans the images that have targets; `lists` are the ops of all outputs.
    pub(super) fn of_outputs(
        source: &dyn Source,
        outputs: &'a [OutputSpec],
        lists: &[Ops],
        setup: &CompileContext,
    ) -> Result<Vec<Self>, Error> {
        let images = outputs.iter().zip(lists);
        let images = images.filter(|(output, ops)| {
            output.targets.is_some() && (output.collate.is_none() || !ops.is_empty())
        });
        let planned = images.map(|(output, ops)| {
            let refused = |error| of_output(error, &output.name);
            let input = image_input(source, output, setup)?;
            let new = match output.collate {
                Some(_) => ImagePlan::of_any_size,
                None => ImagePlan::new,
            };
            let plan = new(ops.clone(), input, setup.rule).map_err(refused)?;
            Ok(Self { output, plan })
        });
        planned.collect()
    }

    /// Returns how a mask of the image is collated, if the images differ in size. Its padding is what the tables of the
    /// mask's `ops` make of `fill`, as they do where the image was moved away.
    pub(super) fn collate_of_mask(&self, fill: u8, ops: &Ops, rule: NumberRule) -> Option<Collate> {
        let filled = ops.iter().fold(fill, |class, op| match op.class() {
            OpClass::Table(op) => {
                let mut levels = [[0.0; 256]];
                op.table(rule, &[], &[], &mut levels);
                levels[0][usize::from(class)].round() as u8
            }
            _ => class,
        });
        Some(self.output.collate.as_ref()?.of_mask(filled))
    }

    /// Returns the image among `images` that an output follows, if the output is a target. `outputs` are all outputs.
    pub(super) fn of_target<'b>(
        images: &'b [Self],
        outputs: &[OutputSpec],
        output: &OutputSpec,
    ) -> Result<Option<&'b Self>, Error> {
        let Some((of, _)) = &output.target else { return Ok(None) };
        if let Some(image) = images.iter().find(|image| image.output.field == *of) {
            return Ok(Some(image));
        }
        let is_image = |other: &OutputSpec| other.field == *of && other.targets.is_some();
        let error = if outputs.iter().any(is_image) {
            fail!(Pipeline, "its image is collated as it is stored: give the image a list of ops")
        } else {
            fail!(Pipeline, "its image is left out of the batches: leave this field out as well")
        };
        Err(of_field(error, &output.name))
    }
}

/// Refuses masks, and fields of objects that are read as tensors, that don't follow their image, although the ops of the
/// image move pixels, or remove some of the objects that are targets. A view is asked for by name, and may have the stored
/// values.
pub(super) fn check_followed(
    source: &dyn Source,
    outputs: &[OutputSpec],
    plans: &[OutputPlan],
) -> Result<(), Error> {
    let all = || outputs.iter().zip(plans).filter(|(output, _)| output.target.is_none());
    let kind = |output: &OutputSpec| &source.fields()[output.field].kind;
    let mut images = all().filter(|(output, _)| kind(output).is_image() && !output.is_mask);
    let moves = |(_, plan): &(&OutputSpec, &OutputPlan)| match &plan.work {
        FieldPlan::Image(kernel) => kernel.plan().moves_objects(),
        _ => false,
    };
    // A mask that is moved has ops of its own, which may share the draws of its image.
    let is_still_mask = |pair: &(&OutputSpec, &OutputPlan)| {
        pair.0.is_mask && is_field(source, pair.0) && !moves(pair)
    };
    let stays =
        |pair: &(&OutputSpec, &OutputPlan)| may_be_objects(source, *pair) || is_still_mask(pair);
    let mut objects = all().filter(stays).peekable();
    let Some((image, plan)) = images.clone().next() else { return Ok(()) };
    // Objects may also belong to an image that no op moves.
    if objects.peek().is_none() || !images.all(|image| moves(&image)) {
        return Ok(());
    }
    let known = known_fields(source)?;
    for (output, _) in objects {
        let field = known.get(&source.fields()[output.field].name);
        let is_moved = match field {
            None | Some(ObjectField::ImageId) => false,
            Some(ObjectField::Classes | ObjectField::Column(_)) => plan.targets.is_some(),
            Some(_) => true,
        };
        if let Some(field) = field.filter(|_| is_moved) {
            let (content, image) = (field.to_string(), image.name.clone());
            let error = fail!(
                Pipeline,
                "it holds {content}, and does not follow the ops of {image}: declare it in `targets`, or leave it out \
                 of the batches; a view of it has the stored values"
            );
            return Err(of_field(error, &output.name));
        }
    }
    Ok(())
}

/// Returns the error of a mask whose samples differ in size, if an image comes with it: a list of its own with the ops of
/// the image would move it by other draws.
pub(super) fn as_target_instead(
    source: &dyn Source,
    outputs: &[OutputSpec],
    mask: &OutputSpec,
    error: Error,
) -> Error {
    let is_alone = mask.is_mask
        && mask.target.is_none()
        && outputs.iter().any(|output| is_picture(source, output));
    match error.cause() {
        Some(VaryingSizes { samples, .. }) if is_alone => {
            let (samples, how) = (samples.clone(), how_to_follow(source, mask));
            let cure = format!(
                "a mask gets the size of its image, and follows its draws, as its target: {how}"
            );
            of_output(VaryingSizes { samples, cure: cure.into() }.into(), &mask.name)
        }
        _ => error,
    }
}

/// Returns how a mask becomes a target of its image, which depends on whether the dataset knows that it is a mask.
pub(super) fn how_to_follow(source: &dyn Source, mask: &OutputSpec) -> &'static str {
    let known = known_fields(source).unwrap_or_default();
    match known.get(&source.fields()[mask.field].name) {
        Some(ObjectField::Mask) => {
            "set `auto_targets()`, or `Targets::mask` in `targets`; in a pipeline file `targets = \"auto\"`"
        }
        _ => {
            "set `Targets::mask` in `targets`; in a pipeline file `\"mask\"` in the table of the image in `[targets]`"
        }
    }
}

/// Returns whether an output is an image that is no mask.
fn is_picture(source: &dyn Source, output: &OutputSpec) -> bool {
    source.fields()[output.field].kind.is_image() && !output.is_mask
}

/// Warns of masks that are moved by other draws than the images with them: such a mask no longer covers the objects of
/// its image. A view of a mask may have its own ops, as long as these are not random.
pub(super) fn warn_of_other_draws(
    source: &dyn Source,
    outputs: &[OutputSpec],
    plans: &[OutputPlan],
) {
    let is_random = |plan: &OutputPlan| match &plan.work {
        FieldPlan::Image(kernel) => kernel.plan().moves_by_draws(),
        _ => false,
    };
    let all = || outputs.iter().zip(plans);
    let pictures = || all().filter(|(output, _)| is_picture(source, output));
    let is_mask = |(output, _): &(&OutputSpec, &OutputPlan)| {
        output.is_mask
            && output.target.is_none()
            && pictures().all(|(image, _)| image.draws != output.draws)
    };
    let mut masks = all().filter(is_mask).peekable();
    let Some((image, _)) = pictures().next().filter(|_| masks.peek().is_some()) else { return };
    let is_image_random = pictures().any(|(_, plan)| is_random(plan));
    for (mask, _) in
        masks.filter(|(mask, plan)| is_random(plan) || (is_image_random && is_field(source, mask)))
    {
        let (mask_name, image) = (Escaped(&mask.name), Escaped(&image.name));
        warn(format_args!(
            "{}{mask_name} is moved by its own draws, so it does not fit {image}: let it follow {image} as its target \
             ({}); a list of its own needs `share_draws` with the image, and the same random ops",
            named(source),
            how_to_follow(source, mask),
        ));
    }
}

/// Returns whether an output is a tensor of a field that can have objects.
fn may_be_objects(source: &dyn Source, (output, plan): (&OutputSpec, &OutputPlan)) -> bool {
    let kind = &source.fields()[output.field].kind;
    let is_of_objects = matches!(kind, FieldKind::Bytes | FieldKind::Json);
    is_field(source, output) && is_of_objects && !matches!(plan.work, FieldPlan::Copied { .. })
}

/// Returns whether an output is a field itself, and not a view of it.
fn is_field(source: &dyn Source, output: &OutputSpec) -> bool {
    output.name == source.field_name(output.field)
}

/// Marks the images that come with masks, boxes or keypoints which follow no image: these are of all images beside them.
/// A mask is marked, too, since it may have an orientation of its own.
pub(super) fn mark_annotated(
    source: &dyn Source,
    outputs: &[OutputSpec],
    plans: &mut [OutputPlan],
) -> Result<(), Error> {
    let all = || outputs.iter().zip(&*plans).filter(|(output, _)| output.target.is_none());
    let mut tensors = all().filter(|pair| may_be_objects(source, *pair)).peekable();
    let mut has_annotations = all().any(|(output, _)| output.is_mask);
    if !has_annotations && tensors.peek().is_some() {
        let known = known_fields(source)?;
        has_annotations = tensors.any(|(output, _)| {
            let field = known.get(&source.fields()[output.field].name);
            field.is_some_and(ObjectField::has_positions)
        });
    }
    let is_image = |output: &OutputSpec| source.fields()[output.field].kind.is_image();
    let has_picture = outputs.iter().any(|output| is_image(output) && !output.is_mask);
    for (output, plan) in outputs.iter().zip(plans).filter(|(output, _)| is_image(output)) {
        plan.is_annotated |= if output.is_mask { has_picture } else { has_annotations };
    }
    Ok(())
}

fn no_longest() -> Error {
    fail!(
        Pipeline,
        "the source does not report how many objects a sample has at most: use `collate` with `to(max)`"
    )
}

/// The plan of the output of a target.
pub(super) struct TargetWork {
    pub(super) work: FieldPlan,
    pub(super) target: PlannedTarget,
    /// The rows after each later pass over the finished batch, if they are no longer those of `work`.
    pub(super) later: Vec<FieldPlan>,
}

/// Plans and compiles the output of a target, whose own ops are `ops`. `image` is the image that it follows.
pub(super) fn plan_target(
    source: &dyn Source,
    output: &OutputSpec,
    (target, ops): (&Target, Ops),
    image: &FollowedImage<'_>,
    setup: &CompileContext,
    cache: &mut KernelCache,
) -> Result<TargetWork, Error> {
    let refused = |error| of_field(error, &output.name);
    let own = |error| of_output(error, &output.name);
    let FollowedImage { output: image, plan } = image;
    let mut compiled = |mask: ImagePlan| {
        mask.check_size(&setup.decode.limits).map_err(own)?;
        compile_image(mask, &output.name, setup, cache)
    };
    let (mut target, mut object_masks) = (target.clone(), None);
    let mut later_object_masks = vec![];
    match &mut target {
        Target::Mask { .. } if output.collate.is_some() => {
            return Err(refused(fail!(
                Pipeline,
                "a mask has the size of its image: leave out its `collate`"
            )));
        }
        Target::Mask { fill } => {
            let mask = plan.for_mask(DType::U8, *fill, &ops).map_err(own)?;
            let work = FieldPlan::Image(compiled(mask)?);
            let target = PlannedTarget { target, object_masks, later_object_masks };
            return Ok(TargetWork { work, target, later: vec![] });
        }
        Target::InstanceMasks => {
            let squeeze: Ops = vec![Arc::new(Squeeze)];
            let mask = plan.for_mask(DType::U8, 0, &squeeze).map_err(own)?;
            let kernel = compiled(mask)?;
            for pass in kernel.plan().later() {
                later_object_masks.push(compile_plan(Arc::clone(pass), &output.name, cache)?);
            }
            object_masks = Some(kernel);
        }
        Target::Boxes(boxes) => *boxes = boxes.after(plan).map_err(refused)?,
        Target::KeyPoints(_) | Target::Column(_) => {}
    }
    let of_collate = |error| of_output(error, &output.name);
    let most = image.targets.as_ref().and_then(|targets| targets.most_objects(source));
    let most = most.map(|most| most.saturating_mul(batch_ops::growth(plan.ops())));
    let name = &source.fields()[output.field].name;
    if image.collate.is_some() && matches!(target, Target::InstanceMasks) {
        let collate = output.collate.clone().unwrap_or_else(Collate::list);
        let most = collate.max_length().or(most).ok_or_else(|| refused(no_longest()))?;
        let Size { height, width } = plan.output_size();
        let largest = [most, height as usize, width as usize];
        let collated = collate.object_masks(largest).map_err(of_collate)?;
        let work = within_limits(FieldPlan::Collated(collated), name, setup)?;
        let target = PlannedTarget { target, object_masks, later_object_masks };
        return Ok(TargetWork { work, target, later: vec![] });
    }
    let collate = output.collate.clone().unwrap_or_else(Collate::ragged);
    if collate.has_elements() {
        return Err(refused(fail!(
            Pipeline,
            "the type of a target follows from its declaration: leave the element type out of its `collate`"
        )));
    }
    let most = collate.max_length().or(most).ok_or_else(|| refused(no_longest()))?;
    let rows = |pass: &ImagePlan| {
        let (dtype, inner) = target.row(pass.output_size());
        let collate = collate.clone().of(dtype, &inner);
        let mut collated =
            collate.plan(&FieldKind::Bytes, output.read_mode, &ops).map_err(of_collate)?;
        collated.shape.insert(0, most);
        within_limits(FieldPlan::Collated(collated), name, setup)
    };
    let work = rows(plan)?;
    // All other rows have the same bytes in each pass.
    let has_masks = matches!(target, Target::InstanceMasks);
    let passes = plan.later().iter().filter(|_| has_masks);
    let later = passes.map(|pass| rows(pass)).collect::<Result<_, _>>()?;
    Ok(TargetWork {
        work,
        target: PlannedTarget { target, object_masks, later_object_masks },
        later,
    })
}
