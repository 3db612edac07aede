//! Plans and compiles the outputs that follow an image.

use super::collate::Collate;
use super::compile_context::{CompileContext, compile_image, image_input, within_limits};
use super::error::LoadCause;
use super::outputs::OutputSpec;
use super::targets::{Target, TargetPlan, TargetsError};
use super::work::FieldPlan;
use crate::jit::KernelCache;
use crate::plan::ImagePlan;
use crate::source::{FieldKind, Source};
use fuseloop_ops::{DType, Ops, Squeeze};
use std::sync::Arc;

/// Plans and compiles the output of a target, whose own ops are `ops`. `image` is the output that the target follows,
/// with its ops.
pub(super) fn plan_target(
    source: &dyn Source,
    output: &OutputSpec,
    (target, ops): (&Target, Ops),
    (image, image_ops): (&OutputSpec, &Ops),
    setup: &CompileContext,
    cache: &mut KernelCache,
) -> Result<(FieldPlan, TargetPlan), LoadCause> {
    let refused = |error| LoadCause::Targets { field: output.name.clone(), error };
    let of_image = |error| LoadCause::Plan { output: image.name.clone(), error };
    let own = |error| LoadCause::Plan { output: output.name.clone(), error };
    if image.collate.is_some() {
        let reason = "its image is collated as it is stored: give the image a list of ops, which ends with one size";
        return Err(refused(TargetsError::Own { reason }));
    }
    let input = image_input(source, image, setup)?;
    let plan = ImagePlan::new(image_ops.clone(), input, setup.rule).map_err(of_image)?;
    let mut compiled = |mask: ImagePlan| {
        mask.check_size(&setup.decode.limits).map_err(own)?;
        compile_image(mask, &output.name, setup, cache)
    };
    let (target, planned) = match target {
        Target::Mask { .. } if output.collate.is_some() => {
            let reason = "a mask has the size of its image: leave out its `collate`";
            return Err(refused(TargetsError::Own { reason }));
        }
        Target::Mask { fill } => {
            let mask = plan.for_mask(DType::U8, *fill, &ops).map_err(own)?;
            return Ok((FieldPlan::Image(compiled(mask)?), TargetPlan::Mask));
        }
        Target::InstanceMasks => {
            let squeeze: Ops = vec![Arc::new(Squeeze)];
            let mask = plan.for_mask(DType::U8, 0, &squeeze).map_err(own)?;
            (target.clone(), TargetPlan::InstanceMasks(compiled(mask)?))
        }
        Target::Boxes(boxes) => {
            let boxes = boxes.after(&plan).map_err(refused)?;
            (Target::Boxes(boxes), TargetPlan::Boxes(boxes))
        }
        Target::KeyPoints(points) => (target.clone(), TargetPlan::KeyPoints(points.clone())),
        Target::Column(dtype) => (target.clone(), TargetPlan::Column(*dtype)),
    };
    let (dtype, inner) = target.row(plan.output_size());
    let collate = output.collate.clone().unwrap_or_else(Collate::ragged);
    let of_collate = |error| LoadCause::Collate { output: output.name.clone(), error };
    if collate.has_elements() {
        let reason =
            "the type of a target follows from its declaration: leave out `of` from its `collate`";
        return Err(refused(TargetsError::Own { reason }));
    }
    let collate = collate.of(dtype, &inner);
    let mut collated =
        collate.plan(&FieldKind::Bytes, output.read_mode, &ops).map_err(of_collate)?;
    let most = image.targets.as_ref().and_then(|targets| targets.most_objects(source));
    let most = collate.max_length().or(most).ok_or_else(|| refused(TargetsError::NoLongest))?;
    collated.shape.insert(0, most);
    let name = &source.fields()[output.field].name;
    Ok((within_limits(FieldPlan::Collated(collated), name, setup)?, planned))
}
