//! Code shared by containers: the type of their output, and masks of outcomes.

use crate::author::{ChoiceBranch, ChoiceOp, Rng, Type};
use crate::op::ImageType;
use crate::registry::{BuiltOp, OpInfo};
use crate::{
    Cutout, Ops, ParamError, RandomBrightness, RandomContrast, RandomHorizontalFlip,
    RandomSaturation, RandomTranslate, RandomVerticalFlip, TypeError, random_apply, random_choice,
};

/// Returns the output type of the ops of every outcome, which must be the same type.
///
/// # Errors
///
/// If an op does not accept its input in some outcome, or if two outcomes have different output types.
pub(crate) fn output(
    name: &'static str,
    choice: &dyn ChoiceOp,
    input: &Type,
) -> Result<Type, TypeError> {
    let of = |outcome: usize| {
        let runs = |member: &&ChoiceBranch| member.when >> outcome & 1 == 1;
        let mut ops = choice.branches().iter().filter(runs).flat_map(|member| &member.ops);
        ops.try_fold(input.clone(), |current, op| op.output(&current))
    };
    let first = of(0)?;
    for outcome in 1..choice.outcomes() {
        let other = of(outcome)?;
        if other != first {
            let found = format!("{first} or {other}, depending on the draw");
            return Err(TypeError { op: name, expected: "lists with the same output type", found });
        }
    }
    Ok(first)
}

/// Returns the mask of one outcome.
pub(crate) const fn only(outcome: usize) -> u128 {
    1 << outcome
}

/// Returns branches of which exactly one runs: outcome `k` runs list `k`.
pub(crate) fn alternatives(lists: impl IntoIterator<Item = Ops>) -> Vec<ChoiceBranch> {
    let lists = lists.into_iter().enumerate();
    lists.map(|(outcome, ops)| ChoiceBranch { ops, when: only(outcome) }).collect()
}

/// Draws up to `most` ops that leave the type of an image as it is, for a container that is in
/// `depth` others.
pub(crate) fn random_ops(
    rng: &mut Rng,
    before: &ImageType,
    most: u32,
    depth: u32,
) -> Result<Ops, ParamError> {
    (0..rng.below(most + 1)).map(|_| random_op(rng, before, depth)).collect()
}

fn random_op(rng: &mut Rng, before: &ImageType, depth: u32) -> Result<BuiltOp, ParamError> {
    /// The maximum number of containers around an op.
    const DEEPEST: u32 = 3;
    const PLAIN: [OpInfo; 7] = [
        RandomHorizontalFlip::ENTRY,
        RandomVerticalFlip::ENTRY,
        RandomTranslate::ENTRY,
        Cutout::ENTRY,
        RandomBrightness::ENTRY,
        RandomContrast::ENTRY,
        RandomSaturation::ENTRY,
    ];
    match rng.below(if depth + 1 < DEEPEST { 9 } else { 7 }) {
        7 => random_apply::random(rng, before, depth + 1),
        8 => random_choice::random(rng, before, depth + 1),
        plain => (PLAIN[plain as usize].recipes.all()[0].draw)(rng, before),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::op::{Dim, ImageType};
    use crate::{Normalize, RandomApply, RandomChoice, Squeeze, ops};

    /// Returns the type of a small decoded image.
    pub(crate) fn photo() -> Type {
        Type::Image(ImageType::decoded(Dim::fixed(16), Dim::fixed(20)))
    }

    #[test]
    fn outcomes_of_different_types_are_refused_by_name() {
        let choice = RandomChoice::new(vec![ops![], ops![Normalize::imagenet()]]).unwrap();
        let error = crate::author::Op::output(&choice, &photo()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "RandomChoice takes lists with the same output type, but gets a u8 image [16, 20, 3] \
             or a f32 image [16, 20, 3], depending on the draw"
        );
    }

    #[test]
    fn what_an_op_inside_refuses_is_refused() {
        let error =
            crate::author::Op::output(&RandomApply::new(ops![Squeeze]).p(1.0).unwrap(), &photo());
        assert_eq!(error.unwrap_err().op, "Squeeze");
    }
}
