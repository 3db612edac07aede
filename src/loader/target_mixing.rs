//! Plans how the targets of images are mixed when a batch is finished.

use super::error::of_field;
use super::mixing::{LaterPass, MixedImage, ObjectMaskPass, ObjectRows, TargetMixer};
use super::targets::{Target, TargetRequest};
use super::work::{FieldPlan, OutputPlan, tensors};
use crate::error::{Error, fail};
use crate::plan::batch_ops::{self, BatchStep};
use std::sync::Arc;

/// Returns for each output how the targets of its batches are mixed, before its first later pass and after each; nothing
/// if there are none, or they are not.
///
/// # Errors
///
/// If a target that the ops need is left out of the batches, is on a device, or has less room than another one.
pub(super) fn plan_target_mixers(plans: &[OutputPlan]) -> Result<Vec<Vec<TargetMixer>>, Error> {
    let (_, lengths) = tensors(plans);
    let one = |(index, output): (usize, &OutputPlan)| match (&output.targets, &output.work) {
        (Some(request), FieldPlan::Image(_)) if mixes(output) => {
            let passes = 0..=output.later.len();
            let of_pass = |pass| plan_mixer((index, output, pass), request, plans, &lengths);
            passes.map(of_pass).filter_map(Result::transpose).collect()
        }
        _ => Ok(vec![]),
    };
    plans.iter().enumerate().map(one).collect()
}

/// Returns for each output the later passes over its batches.
pub(super) fn plan_later_passes(plans: &[OutputPlan]) -> Vec<Vec<LaterPass>> {
    let kernel = |output: &OutputPlan, pass: usize| match output.pass(pass) {
        FieldPlan::Image(kernel) => Some(Arc::clone(kernel)),
        _ => None,
    };
    let of_output = |output: &OutputPlan| {
        let fields = output.targets.iter().flat_map(|targets| &targets.fields);
        let members = fields.filter_map(|(field, _)| {
            let mut all = plans.iter().enumerate();
            all.find(|(_, plan)| plan.field == *field && plan.target.is_some())
        });
        let members: Vec<(usize, &OutputPlan)> = members.collect();
        let pass = |pass: usize| {
            let masks = members.iter().filter_map(|(k, plan)| Some((*k, kernel(plan, pass)?)));
            let object_masks = members.iter().find_map(|(output, plan)| {
                let kernel = plan.target.as_ref()?.later_object_masks.get(pass - 1)?;
                Some(ObjectMaskPass { output: *output, kernel: Arc::clone(kernel) })
            });
            Some(LaterPass { kernel: kernel(output, pass)?, masks: masks.collect(), object_masks })
        };
        match output.target {
            // A mask runs with its image.
            Some(_) => vec![],
            None => (1..=output.later.len()).filter_map(pass).collect(),
        }
    };
    plans.iter().map(of_output).collect()
}

fn mixes(output: &OutputPlan) -> bool {
    let is_mixer = |step| matches!(step, BatchStep::Mix(_) | BatchStep::MultiImage(_));
    batch_ops::steps(output.work.ops()).any(is_mixer)
}

/// Plans the mixing of the targets that follow the image of output `index`, after pass `pass`.
fn plan_mixer(
    (index, output, pass): (usize, &OutputPlan, usize),
    request: &TargetRequest,
    plans: &[OutputPlan],
    lengths: &[Option<usize>],
) -> Result<Option<TargetMixer>, Error> {
    let FieldPlan::Image(kernel) = output.pass(pass) else { return Ok(None) };
    let mut mixer = TargetMixer {
        size: kernel.plan().output_size(),
        images: vec![MixedImage { output: index, image: kernel.plan().output() }],
        objects: vec![],
    };
    for (field, declared) in &request.fields {
        let own = plans.iter().enumerate().find_map(|(member, plan)| {
            (plan.field == *field).then_some((member, plan, plan.target.as_ref()?))
        });
        let Some((member, plan, planned)) = own else {
            if batch_ops::steps(output.work.ops()).any(|step| needs(step, declared)) {
                let error = fail!(
                    Pipeline,
                    "an op of its image works on the objects of a finished batch, for which it needs their boxes, masks \
                     or keypoints in the batch: don't leave this field out (`without`), or don't declare it"
                );
                return Err(of_field(error, &output.name));
            }
            continue;
        };
        if plan.device_output.is_some() {
            let error = fail!(
                Pipeline,
                "an op of its image mixes samples, which is done on the host: leave ToDevice out of its list"
            );
            return Err(of_field(error, &plan.name));
        }
        match (plan.pass(pass), lengths[member]) {
            (FieldPlan::Image(mask), _) => {
                mixer.images.push(MixedImage { output: member, image: mask.plan().output() });
            }
            (FieldPlan::Collated(collated), Some(lengths)) => {
                let (target, collated) = (planned.target.clone(), collated.clone());
                mixer.objects.push(ObjectRows { output: member, lengths, target, collated });
            }
            _ => {}
        }
    }
    let room = |rows: &ObjectRows| (rows.collated.shape[0], rows.collated.truncate);
    if let [first, others @ ..] = &mixer.objects[..]
        && let Some(other) = others.iter().find(|other| room(other) != room(first))
    {
        let error = fail!(
            Pipeline,
            "an op of its image mixes samples, and all its boxes, keypoints, columns and instance masks must have room \
             for the same number of objects: give them the same `to` and `truncate` in their `collate`"
        );
        return Err(of_field(error, &plans[other.output].name));
    }
    Ok(Some(mixer))
}

/// Returns whether an op on batches needs a target in the batch.
fn needs(step: BatchStep<'_>, target: &Target) -> bool {
    match step {
        BatchStep::MultiImage(_) => matches!(target, Target::Boxes(_) | Target::InstanceMasks),
        BatchStep::Objects { op, .. } if op.needs_boxes() => matches!(target, Target::Boxes(_)),
        BatchStep::Objects { .. } => matches!(target, Target::KeyPoints(_)),
        // Objects without these would not follow.
        BatchStep::Samples { .. } => matches!(target, Target::Boxes(_) | Target::KeyPoints(_)),
        BatchStep::Mix(_) | BatchStep::Host { .. } => false,
    }
}
