//! Code shared by containers: the type of their output, and masks of outcomes.

use crate::author::{ChoiceBranch, ChoiceOp, Type};
use crate::{Ops, TypeError};

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

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{Dim, ImageType, Normalize, RandomApply, RandomChoice, Squeeze, ops};

    /// Returns the type of a small decoded image.
    pub(crate) fn photo() -> Type {
        Type::Image(ImageType::decoded(Dim::fixed(16), Dim::fixed(20)))
    }

    #[test]
    fn outcomes_of_different_types_are_refused_by_name() {
        let choice = RandomChoice::uniform(vec![ops![], ops![Normalize::imagenet()]]).unwrap();
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
            crate::author::Op::output(&RandomApply::new(ops![Squeeze], 1.0).unwrap(), &photo());
        assert_eq!(error.unwrap_err().op, "Squeeze");
    }
}
