//! The ops on whole batches at the end of a list.
//!
//! They do not belong to a sample's own plan: the ops before them produce the sample's row, and then the
//! finished batch is mixed row by row, or changed by a function of the user. So no op that works on
//! the pixels of one sample may follow. Ops on objects may follow those that mix: they change the rows of the batch.

use fuseloop_ops::author::{
    BatchOp, HostBatchOp, ImageMix, MultiImageOp, ObjectOp, Op, OpClass, Rng, RowMix, Type,
};
use fuseloop_ops::internals::BatchKey;
use fuseloop_ops::{DType, Ops, Size, TypeError};

/// An op that mixes batches, with the name and number that its draws depend on.
#[derive(Debug, Clone, Copy)]
pub struct Mixer<'a> {
    /// The op.
    pub op: &'a dyn BatchOp,
    /// The op's name.
    pub name: &'static str,
    /// How many ops of the same name come before it.
    pub occurrence: usize,
}

/// An op that makes images of several, with the name and number that its draws depend on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MultiImageMixer<'a> {
    /// The op.
    pub(crate) op: &'a dyn MultiImageOp,
    name: &'static str,
    occurrence: usize,
}

/// An op on whole batches.
#[derive(Debug, Clone, Copy)]
pub(crate) enum BatchStep<'a> {
    /// It mixes the rows.
    Mix(Mixer<'a>),
    /// It makes images, with their objects, of several.
    MultiImage(MultiImageMixer<'a>),
    /// It changes or removes the objects of mixed images.
    Objects { op: &'a dyn ObjectOp, name: &'static str },
    /// It changes them in plain Rust.
    Host {
        op: &'a dyn Op,
        host_op: &'a dyn HostBatchOp,
        /// How many ops of the same name come before it.
        occurrence: usize,
    },
}

impl BatchStep<'_> {
    /// Returns the name of the op.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Mix(mixer) => mixer.name,
            Self::MultiImage(mixer) => mixer.name,
            Self::Objects { name, .. } => name,
            Self::Host { op, .. } => op.name(),
        }
    }
}

/// Returns the ops on whole batches of a list, in order.
pub(crate) fn steps(ops: &Ops) -> impl Iterator<Item = BatchStep<'_>> {
    ops.iter().enumerate().filter_map(|(op_index, op)| {
        let before = ops[..op_index].iter();
        let occurrence = || before.clone().filter(|before| before.name() == op.name()).count();
        match op.class() {
            OpClass::Batch(batch_op) => Some(BatchStep::Mix(Mixer {
                op: batch_op,
                name: op.name(),
                occurrence: occurrence(),
            })),
            OpClass::MultiImage(multi_op) => Some(BatchStep::MultiImage(MultiImageMixer {
                op: multi_op,
                name: op.name(),
                occurrence: occurrence(),
            })),
            OpClass::Objects(object_op) if before.clone().any(|op| is_mixer(&**op)) => {
                Some(BatchStep::Objects { op: object_op, name: op.name() })
            }
            OpClass::HostBatch(host_op) => {
                Some(BatchStep::Host { op: &**op, host_op, occurrence: occurrence() })
            }
            _ => None,
        }
    })
}

/// Returns the ops that mix batches of a list, in order.
pub fn mixers(ops: &Ops) -> impl Iterator<Item = Mixer<'_>> {
    steps(ops).filter_map(|step| match step {
        BatchStep::Mix(mixer) => Some(mixer),
        BatchStep::MultiImage(_) | BatchStep::Objects { .. } | BatchStep::Host { .. } => None,
    })
}

/// Returns how many times as many objects an image may have after the ops on batches of its list.
pub(crate) fn growth(ops: &Ops) -> usize {
    let each = steps(ops).map(|step| match step {
        BatchStep::Mix(mixer) if mixer.op.joins_objects() => 2,
        BatchStep::MultiImage(mixer) => mixer.op.growth(),
        BatchStep::Mix(_) | BatchStep::Objects { .. } | BatchStep::Host { .. } => 1,
    });
    each.fold(1, usize::saturating_mul)
}

impl Mixer<'_> {
    /// Draws for `rows` samples with images of `size`.
    pub(crate) fn draw(&self, key: BatchKey, rows: usize, size: Size) -> Vec<RowMix> {
        let mixed = self.op.draw(&mut key.op(self.name, self.occurrence), rows, size);
        check_partners(self.name, &mixed, rows);
        mixed
    }
}

impl MultiImageMixer<'_> {
    /// Draws for rows with `objects` objects each and images of `size`.
    ///
    /// # Panics
    ///
    /// If the op draws for another number of rows, or refers to a row, an object or a pixel that does not exist.
    pub(crate) fn draw(&self, key: BatchKey, objects: &[usize], size: Size) -> Vec<ImageMix> {
        let rng: &mut Rng = &mut key.op(self.name, self.occurrence);
        let mixes = self.op.draw(rng, objects, size);
        let exists = |mix: &ImageMix| match mix {
            ImageMix::Unchanged => true,
            ImageMix::Paste { .. } if !self.op.needs_instance_masks() => false,
            ImageMix::Paste { partner, objects: chosen } => objects
                .get(*partner)
                .is_some_and(|count| chosen.iter().all(|object| object < count)),
            ImageMix::Mosaic { rows, center: [y, x] } => {
                let are_rows = rows.iter().all(|row| *row < objects.len());
                are_rows && *y <= size.height && *x <= size.width
            }
        };
        let is_valid = mixes.len() == objects.len() && mixes.iter().all(exists);
        assert!(
            is_valid,
            "{} drew {mixes:?} for {objects:?} objects in images of {size}",
            self.name
        );
        mixes
    }
}

/// Draws for every op that mixes batches of a list, in order, for `rows` samples with images of `size`;
/// calls `each` with the op's number and its draws.
pub(crate) fn draw_each(
    ops: &Ops,
    key: BatchKey,
    rows: usize,
    size: Size,
    mut each: impl FnMut(usize, &[RowMix]),
) {
    for (number, mixer) in mixers(ops).enumerate() {
        each(number, &mixer.draw(key, rows, size));
    }
}

/// Checks that the partners are a permutation of the rows: a device reads a row's partner at the
/// partner's number without a check, and a host mixes along the cycles of the permutation.
///
/// # Panics
///
/// If the partners are no permutation of the rows.
fn check_partners(name: &str, mixed: &[RowMix], rows: usize) {
    let mut partners: Vec<usize> = mixed.iter().map(|mixed| mixed.partner).collect();
    partners.sort_unstable();
    assert!(partners.into_iter().eq(0..rows), "{name} drew no permutation of {rows} rows");
}

/// Returns true if an op mixes the samples of a finished batch.
pub(crate) fn is_mixer(op: &dyn Op) -> bool {
    matches!(op.class(), OpClass::Batch(_) | OpClass::MultiImage(_))
}

/// Returns true if an op works on whole batches.
pub(crate) fn is_on_batches(op: &dyn Op) -> bool {
    matches!(op.class(), OpClass::Batch(_) | OpClass::MultiImage(_) | OpClass::HostBatch(_))
}

/// Refuses an op that mixes a label or an array in another way than rows are mixed: floats, which keep their type, or
/// one i64, which becomes two classes and a share.
pub(super) fn check_mixed(op: &dyn Op, before: &Type, after: &Type) -> Result<(), TypeError> {
    let OpClass::Batch(_) = op.class() else { return Ok(()) };
    let is_mixed = match (before, after) {
        (Type::Tensor { dtype: DType::F16 | DType::Bf16 | DType::F32 | DType::F64, .. }, _) => {
            before == after
        }
        (
            Type::Tensor { dtype: DType::I64, shape },
            Type::Tensor { dtype: DType::F32, shape: mixed },
        ) => shape.iter().product::<usize>() == 1 && mixed[..] == [3],
        _ => false,
    };
    if is_mixed {
        return Ok(());
    }
    let expected = "floats, whose type it keeps (put Convert or OneHot before it), or one i64, which becomes f32 [3]";
    let found = match before == after {
        true => format!("{before}, which stays unchanged"),
        false => format!("{before}, which becomes {after}"),
    };
    Err(TypeError { op: op.name(), expected, found })
}

/// Refuses the op at `op_index` if it works on one sample, other than on its objects, and an op before it on batches, or
/// if it changes batches on the host that are on a device.
pub(super) fn check_last(ops: &Ops, op_index: usize) -> Result<(), crate::error::Error> {
    let (own, before) = (&*ops[op_index], &ops[..op_index]);
    let refused = |expected, found: &str| {
        let error = TypeError { op: own.name(), expected, found: found.to_owned() };
        Err(super::of_type(op_index, error))
    };
    let mut device = before.iter().filter(|op| matches!(op.class(), OpClass::Device(_)));
    if matches!(own.class(), OpClass::HostBatch(_)) && device.next().is_some() {
        let expected = "batches in the memory of the host (leave ToDevice out of its list)";
        return refused(expected, "a batch on a device");
    }
    match before.iter().rev().find(|op| is_on_batches(&***op)).map(|before| before.class()) {
        _ if is_on_batches(own) => Ok(()),
        Some(OpClass::Batch(_) | OpClass::MultiImage(_))
            if matches!(own.class(), OpClass::Objects(_)) =>
        {
            Ok(())
        }
        Some(OpClass::Batch(_) | OpClass::MultiImage(_)) => refused(
            "one sample at a time (put it before the ops that mix samples: only ops on objects, such as \
             SanitizeBoundingBoxes, may follow them)",
            "a mixed batch",
        ),
        Some(OpClass::HostBatch(_)) => refused(
            "one sample at a time (put it before the function on batches, which must be last, or let that \
             function change samples)",
            "a finished batch",
        ),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::ImagePlan;
    use fuseloop_ops::author::{Dim, ImageType, Op, Rng};
    use fuseloop_ops::{CutMix, MixUp, Normalize, NumberRule, RandomHorizontalFlip, ops};

    #[test]
    fn mixers_are_found_with_their_occurrence() {
        let mixup = || MixUp::new(1.0).unwrap();
        let ops = ops![Normalize::imagenet(), mixup(), CutMix::new(1.0).unwrap(), mixup()];
        let found: Vec<_> = mixers(&ops).map(|mixer| (mixer.name, mixer.occurrence)).collect();
        assert_eq!(found, [("MixUp", 0), ("CutMix", 0), ("MixUp", 1)]);
    }

    /// An op that pairs every row with the same partner.
    #[derive(Debug)]
    struct FixedPartner(usize);

    impl Op for FixedPartner {
        fn name(&self) -> &'static str {
            "Favourite"
        }

        fn output(&self, input: &Type) -> Result<Type, TypeError> {
            Ok(input.clone())
        }

        fn class(&self) -> OpClass<'_> {
            OpClass::Batch(self)
        }
    }

    impl BatchOp for FixedPartner {
        fn draw(&self, _: &mut Rng, rows: usize, _: Size) -> Vec<RowMix> {
            vec![RowMix { partner: self.0, share: 0.5, window: None }; rows]
        }
    }

    /// A device would read the row of that number, at any address.
    #[test]
    fn partners_that_are_no_permutation_are_a_panic_that_names_the_op() {
        for partner in [0, 4, usize::MAX] {
            let draw = || {
                let key = BatchKey::new(1, 2, 3);
                draw_each(&ops![FixedPartner(partner)], key, 4, Size::new(8, 8), |_, _| {});
            };
            let panic = std::panic::catch_unwind(draw).unwrap_err();
            let said = panic.downcast_ref::<String>().map(String::as_str);
            assert_eq!(said, Some("Favourite drew no permutation of 4 rows"), "{partner}");
        }
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
             the ops that mix samples: only ops on objects, such as SanitizeBoundingBoxes, may follow them), but gets a \
             mixed batch"
        );
    }
}
