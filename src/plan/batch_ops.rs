//! The ops on whole batches at the end of a list.
//!
//! They are no part of a sample's own plan: its row is made by the ops before them, and a finished
//! batch is mixed row by row. So nothing that works on one sample may follow.

use super::PlanError;
use fuseloop_ops::{BatchKey, BatchOp, Class, Mixed, Ops, Size, TypeError};

/// An op on whole batches, with what its draws depend on.
#[derive(Debug, Clone, Copy)]
pub struct Mixer<'a> {
    /// The op.
    pub op: &'a dyn BatchOp,
    /// The op's name.
    pub name: &'static str,
    /// How many ops of its name stand before it.
    pub occurrence: usize,
}

/// The ops on whole batches of a list, in order.
pub fn mixers(ops: &Ops) -> impl Iterator<Item = Mixer<'_>> {
    ops.iter().enumerate().filter_map(|(place, op)| {
        let Class::Batch(batch_op) = op.class() else { return None };
        let name = op.name();
        let occurrence = ops[..place].iter().filter(|before| before.name() == name).count();
        Some(Mixer { op: batch_op, name, occurrence })
    })
}

/// Draws for every op on whole batches of a list, in order, for `rows` samples with images of
/// `size`; tells `each` the op's number and its draws.
pub(crate) fn draw_each(
    ops: &Ops,
    key: BatchKey,
    rows: usize,
    size: Size,
    mut each: impl FnMut(usize, &[Mixed]),
) {
    for (number, Mixer { op, name, occurrence }) in mixers(ops).enumerate() {
        each(number, &op.draw(&mut key.op(name, occurrence), rows, size));
    }
}

/// Refuses the op at `place` if it works on one sample and the one before it on batches.
pub(super) fn check_last(ops: &Ops, place: usize) -> Result<(), PlanError> {
    let Some(before) = place.checked_sub(1).map(|before| &ops[before]) else { return Ok(()) };
    let mixes = |class: Class<'_>| matches!(class, Class::Batch(_));
    if mixes(before.class()) && !mixes(ops[place].class()) {
        let expected = "one sample at a time (put it before the ops that mix samples)";
        let (op, found) = (ops[place].name(), "a mixed batch".to_owned());
        return Err(PlanError::Type { place, error: TypeError { op, expected, found } });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::ImagePlan;
    use fuseloop_ops::{
        CutMix, Dim, ImageType, MixUp, Normalize, NumberRule, RandomHorizontalFlip, ops,
    };

    #[test]
    fn mixers_are_found_with_their_occurrence() {
        let mixup = || MixUp::new(1.0).unwrap();
        let ops = ops![Normalize::imagenet(), mixup(), CutMix::new(1.0).unwrap(), mixup()];
        let found: Vec<_> = mixers(&ops).map(|mixer| (mixer.name, mixer.occurrence)).collect();
        assert_eq!(found, [("MixUp", 0), ("CutMix", 0), ("MixUp", 1)]);
    }

    #[test]
    fn an_image_that_is_mixed_is_done() {
        let input = ImageType::decoded(Dim::fixed(8), Dim::fixed(8));
        let plan = |ops| ImagePlan::new(ops, input, NumberRule::Fused);
        let cutmix = || CutMix::new(1.0).unwrap();
        let last = plan(ops![Normalize::imagenet(), cutmix()]).unwrap();
        assert!(last.explain().contains("on the finished batch, in place"));
        let error = plan(ops![cutmix(), RandomHorizontalFlip::new(0.5).unwrap()]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "op 1 of the list: RandomHorizontalFlip takes one sample at a time (put it before \
             the ops that mix samples), but gets a mixed batch"
        );
    }
}
