//! The ops on whole batches of a list, and the ops that follow them.
//!
//! ```text
//! [flip, Mosaic, Sanitize, affine, Normalize, MixUp]
//!  pass 0              │   pass 1             │
//!  flip ──▶ batch ──▶ Mosaic, Sanitize ──▶ batch ──▶ affine, Normalize ──▶ batch ──▶ MixUp
//! ```
//!
//! Ops on batches do not belong to a sample's own plan: the ops before them produce the sample's row, and then the
//! finished batch is mixed row by row, or changed by a function of the user. Ops on the samples of an image may follow
//! those that mix: each row of the batch is then the source of another plan, a *later pass*, which draws with the key of
//! the row's sample as every plan does. Ops on objects that directly follow ops that mix change the rows of the batch.

use fuseloop_ops::author::{
    BatchOp, HostBatchOp, ImageMix, MultiImageOp, ObjectOp, Op, OpClass, Rng, RowMix, Type,
};
use fuseloop_ops::internals::BatchKey;
use fuseloop_ops::{DType, Ops, Size, TypeError};
use std::sync::Arc;

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
    /// These ops change each sample of the batch: later pass number `pass`, from 1.
    Samples { pass: usize, ops: &'a [Arc<dyn Op>] },
    /// It changes them in plain Rust.
    Host {
        op: &'a dyn Op,
        host_op: &'a dyn HostBatchOp,
        /// How many ops of the same name come before it.
        occurrence: usize,
    },
}

impl BatchStep<'_> {
    /// Returns the names of the ops.
    pub(crate) fn names(&self) -> String {
        match self {
            Self::Mix(mixer) => mixer.name.to_owned(),
            Self::MultiImage(mixer) => mixer.name.to_owned(),
            Self::Objects { name, .. } => (*name).to_owned(),
            Self::Samples { ops, .. } => {
                ops.iter().map(|op| op.name()).collect::<Vec<_>>().join(", ")
            }
            Self::Host { op, .. } => op.name().to_owned(),
        }
    }
}

/// Returns the index of the first op of each later pass.
pub(crate) fn later_passes(ops: &[Arc<dyn Op>]) -> Vec<usize> {
    let (mut starts, mut is_mixed) = (vec![], false);
    for (op_index, op) in ops.iter().enumerate() {
        if is_on_batches(&**op) {
            is_mixed = true;
        } else if is_mixed && !matches!(op.class(), OpClass::Objects(_)) {
            is_mixed = false;
            starts.push(op_index);
        }
    }
    starts
}

/// Returns the ops of a later pass, which begins with those given, and is followed by ops on batches or nothing.
fn samples_of(ops: &[Arc<dyn Op>]) -> &[Arc<dyn Op>] {
    let end = ops.iter().position(|op| is_on_batches(&**op));
    &ops[..end.unwrap_or(ops.len())]
}

/// Returns the steps that change a finished batch, in order.
pub(crate) fn steps(ops: &Ops) -> impl Iterator<Item = BatchStep<'_>> {
    let passes = later_passes(ops);
    ops.iter().enumerate().filter_map(move |(op_index, op)| {
        let pass = passes.partition_point(|start| *start <= op_index);
        let own = &ops[pass.checked_sub(1).map_or(0, |index| passes[index])..op_index];
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
            _ if own.is_empty() && pass > 0 => {
                Some(BatchStep::Samples { pass, ops: samples_of(&ops[op_index..]) })
            }
            OpClass::Objects(object_op) if own.iter().any(|op| is_mixer(&**op)) => {
                Some(BatchStep::Objects { op: object_op, name: op.name() })
            }
            OpClass::HostBatch(host_op) => {
                Some(BatchStep::Host { op: &**op, host_op, occurrence: occurrence() })
            }
            _ => None,
        }
    })
}

/// Says why there is later pass number `pass` over the finished batch of a list.
pub(crate) fn why_later(ops: &Ops, pass: usize) -> String {
    let each: Vec<BatchStep<'_>> = steps(ops).collect();
    let is_own =
        |step: &BatchStep<'_>| matches!(step, BatchStep::Samples { pass: own, .. } if *own == pass);
    let own = each.iter().position(is_own).unwrap_or(0);
    let is_mixer =
        |step: &&BatchStep<'_>| matches!(step, BatchStep::Mix(_) | BatchStep::MultiImage(_));
    let Some(mixer) = each[..own].iter().rfind(is_mixer) else {
        return format!(
            "pass {} over the memory of the batch, as over that of its image",
            pass + 1
        );
    };
    format!(
        "pass {} over the memory of the batch: {} mixes finished samples, so the ops after it read them once more",
        pass + 1,
        mixer.names()
    )
}

/// Returns the ops that mix batches of a list, in order.
pub fn mixers(ops: &Ops) -> impl Iterator<Item = Mixer<'_>> {
    steps(ops).filter_map(|step| match step {
        BatchStep::Mix(mixer) => Some(mixer),
        BatchStep::MultiImage(_)
        | BatchStep::Objects { .. }
        | BatchStep::Samples { .. }
        | BatchStep::Host { .. } => None,
    })
}

/// Returns how many times as many objects an image may have after the ops on batches of its list.
pub(crate) fn growth(ops: &Ops) -> usize {
    let each = steps(ops).map(|step| match step {
        BatchStep::Mix(mixer) if mixer.op.joins_objects() => 2,
        BatchStep::MultiImage(mixer) => mixer.op.growth(),
        BatchStep::Mix(_)
        | BatchStep::Objects { .. }
        | BatchStep::Samples { .. }
        | BatchStep::Host { .. } => 1,
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

/// Draws for every op that mixes batches of a list, in order, for `rows` samples with images of the size that `size`
/// returns for the op's number; calls `each` with this number and its draws.
pub(crate) fn draw_each(
    ops: &Ops,
    key: BatchKey,
    rows: usize,
    size: impl Fn(usize) -> Size,
    mut each: impl FnMut(usize, &[RowMix]),
) {
    for (number, mixer) in mixers(ops).enumerate() {
        each(number, &mixer.draw(key, rows, size(number)));
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

/// Refuses the op at `op_index` if it works on one sample and can't follow an op before it that works on batches, or if
/// it changes batches on the host that are on a device. Ops on samples may follow ops that mix images.
pub(super) fn check_order(
    ops: &Ops,
    op_index: usize,
    are_images: bool,
) -> Result<(), crate::error::Error> {
    let (own, before) = (&*ops[op_index], &ops[..op_index]);
    let refused = |expected, found: &str| {
        let error = TypeError { op: own.name(), expected, found: found.to_owned() };
        Err(super::of_type(op_index, error))
    };
    let is_device = |op: &dyn Op| matches!(op.class(), OpClass::Device(_));
    let is_on_device = before.iter().any(|op| is_device(&**op));
    if matches!(own.class(), OpClass::HostBatch(_)) && is_on_device {
        let expected = "batches in the memory of the host (leave ToDevice out of its list)";
        return refused(expected, "a batch on a device");
    }
    match before.iter().rev().find(|op| is_on_batches(&***op)).map(|before| before.class()) {
        _ if is_on_batches(own) => Ok(()),
        Some(OpClass::Batch(_) | OpClass::MultiImage(_)) if are_images && is_on_device => refused(
            "a sample in the memory of the host (put it before the ops that mix samples, or leave ToDevice out of the \
             list)",
            "a mixed batch on a device",
        ),
        Some(OpClass::Batch(_) | OpClass::MultiImage(_)) if are_images && !is_device(own) => Ok(()),
        Some(OpClass::Batch(_) | OpClass::MultiImage(_)) => refused(
            "one sample at a time (put it before the ops that mix samples)",
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
    use fuseloop_ops::{
        CenterCrop, Convert, CutMix, Device, MixUp, Normalize, NumberRule, RandomHorizontalFlip,
        ToChannelsFirst, ToDevice, ops,
    };

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
                let ops = ops![FixedPartner(partner)];
                draw_each(&ops, key, 4, |_| Size::new(8, 8), |_, _| {});
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
        let error = plan(ops![cutmix(), ToDevice::to(Device::Auto)]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "op 1 of the list: ToDevice takes one sample at a time (put it before the ops that mix samples), but gets a \
             mixed batch"
        );
    }

    #[test]
    fn ops_after_those_that_mix_are_later_passes_with_draws_of_their_own() {
        let input = ImageType::decoded(Dim::fixed(8), Dim::fixed(8));
        let (cutmix, flip) =
            (|| CutMix::new(1.0).unwrap(), || RandomHorizontalFlip::new(0.5).unwrap());
        let crop = CenterCrop::new(4).unwrap();
        let ops = ops![flip(), cutmix(), flip(), crop, cutmix(), Normalize::imagenet()];
        let names = |step: BatchStep<'_>| step.names();
        let found: Vec<_> = steps(&ops).map(names).collect();
        assert_eq!(found, ["CutMix", "RandomHorizontalFlip, CenterCrop", "CutMix", "Normalize"]);
        let plan = ImagePlan::new(ops, input, NumberRule::Fused).unwrap();
        let passes: Vec<&ImagePlan> = plan.passes().collect();
        let outputs: Vec<_> =
            passes.iter().map(|plan| (plan.output_size().height, plan.dtype())).collect();
        assert_eq!(outputs, [(8, DType::U8), (4, DType::U8), (4, DType::F32)]);
        let streams = |pass: usize| passes[pass].flat_ops()[0].stream;
        assert_ne!(streams(0), streams(1));
        assert_eq!(passes[1].flat_ops()[0].op_index, 2);
    }

    #[test]
    fn a_later_pass_reads_what_loops_can_read() {
        let error = |ops: Ops, side: Dim| {
            let input = ImageType::decoded(side, side);
            ImagePlan::new(ops, input, NumberRule::Fused).unwrap_err().to_string()
        };
        let flip = || RandomHorizontalFlip::new(0.5).unwrap();
        let mixup = || MixUp::new(1.0).unwrap();
        let floats = || ops![Normalize::imagenet(), Convert::to(DType::F64), mixup(), flip()];
        for list in [ops![ToChannelsFirst, mixup(), flip()], floats()] {
            let error = error(list, Dim::fixed(8));
            assert!(error.contains("after the ops that mix samples"), "{error}");
        }
        let any = Dim { min: 4, max: 8 };
        let error = error(ops![mixup(), CenterCrop::new(4).unwrap()], any);
        assert!(error.contains("before MixUp"), "{error}");
    }
}
