//! The plan of a mask that follows an image: the geometry of the image's ops, by the nearest pixel.
//!
//! ```text
//! image   RandomResizedCrop ─▶ ColorJitter ─▶ RandomHorizontalFlip ─▶ Normalize
//!               │ the same draws                     │
//! mask    RandomResizedCrop, nearest ─────────▶ RandomHorizontalFlip ─▶ the mask's own ops
//! ```
//!
//! The mask draws nothing for these ops: it gets the steps that were drawn for the image, so both move alike
//! whatever the ops are. Ops on colours and blurs are left out. A pixel outside the image gets the mask's own fill.
//! An op that no target can follow is refused, such as one that mixes copies that are moved differently.

use super::flatten::{Choice, FlatOp, flatten};
use super::kind::OpKind;
use super::mask::check_mask_op;
use super::{Draws, ImagePlan, of_op, refused};
use crate::error::Error;
use fuseloop_ops::author::{
    Dim, GeometryOp, GeometryStep, ImageType, Layout, ObjectMotion, Op, OpClass, Rng, RowProducer,
    Type,
};
use fuseloop_ops::internals::geometry_step;
use fuseloop_ops::internals::rows::{Resampling, RowFilter, Warp, WarpInterpolation};
use fuseloop_ops::{DType, Interpolation, Ops, Size, TypeError};
use std::sync::Arc;

/// The part of a plan that says which draws of an image it follows.
#[derive(Debug)]
pub(super) struct Followed {
    /// For each flat op that follows, the index of the flat op of the image's plan.
    flat_ops: Vec<usize>,
    fill: u8,
}

const IN_RUST: &str = "changes the size of images in plain Rust, which no mask, box or keypoint can follow: use an op of \
    this crate, or leave out the targets";
const MIXES: &str = "mixes copies of an image that are moved differently, so no mask, box or keypoint can follow: use \
    its colour ops only, or another op";
const OWN: &str = "would move the mask, but a mask that is a target follows the ops of its image: put it into the list \
    of the image";
const CONTAINER: &str =
    "is a container, which the ops of a mask that is a target can't be in: list the ops themselves";
const COPIES: &str = "repeats parts of the image, or moves them apart, so that no box or keypoint can follow: leave it \
    out, or if it has a padding mode, set padding_mode = \"constant\"";
const BATCH: &str = "cuts other images into an image without their masks, boxes and keypoints: use Mosaic, SimpleCopyPaste \
    or MixUp, or leave it out";
const BLENDS: &str = "blends two images, and so would give a mask of class numbers values of no class: leave out the mask, \
    or use Mosaic or SimpleCopyPaste";
const NO_TARGETS: &str = "puts several images into one, which is for images with boxes, keypoints or masks: declare them in \
    `targets`, or leave it out";
const NO_INSTANCES: &str =
    "cuts objects out by their masks: declare `instance_masks` in `targets`, or leave it out";
const DEVICE: &str =
    "mixes an image with targets, which is done on the host: leave ToDevice out of the list";
const NO_BOXES: &str =
    "has no effect without bounding boxes: declare them in `targets`, or leave it out";
const NO_KEYPOINTS: &str =
    "has no effect without keypoints: declare them in `targets`, or leave it out";

/// The kinds of targets that an image has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TargetKinds {
    /// Masks, boxes or keypoints.
    pub(crate) any: bool,
    pub(crate) boxes: bool,
    pub(crate) keypoints: bool,
    /// Masks of the objects.
    pub(crate) instance_masks: bool,
    /// Masks of the whole image.
    pub(crate) masks: bool,
    /// Ops that change objects only have nothing to do, instead of being an error.
    pub(crate) may_lack_objects: bool,
}

impl ImagePlan {
    /// Refuses ops that the targets of an image can't follow, and ops on targets that the image does not have.
    pub(crate) fn check_targets(&self, kinds: TargetKinds) -> Result<(), Error> {
        let is_on_device = self.ops().iter().any(|op| matches!(op.class(), OpClass::Device(_)));
        let check = |leaf: &FlatOp| {
            let reason = match leaf.op.class() {
                OpClass::Geometry(op) if op.needs_boxes() && !kinds.boxes => NO_BOXES,
                OpClass::Geometry(op)
                    if op.object_motion() == ObjectMotion::Copied
                        && (kinds.boxes || kinds.keypoints) =>
                {
                    COPIES
                }
                OpClass::Objects(_) if kinds.may_lack_objects => return Ok(()),
                OpClass::Objects(op) if op.needs_boxes() && !kinds.boxes => NO_BOXES,
                OpClass::Objects(op) if !op.needs_boxes() && !kinds.keypoints => NO_KEYPOINTS,
                OpClass::Host(_) if kinds.any && leaf.kind.host_size().is_some() => IN_RUST,
                OpClass::Mix(_) if kinds.any && moves_chains(leaf) => MIXES,
                OpClass::Batch(op) if kinds.any && !op.joins_objects() => BATCH,
                OpClass::Batch(_) if kinds.masks => BLENDS,
                OpClass::MultiImage(_) if !kinds.any => NO_TARGETS,
                OpClass::MultiImage(op) if op.needs_instance_masks() && !kinds.instance_masks => {
                    NO_INSTANCES
                }
                OpClass::Batch(_) | OpClass::MultiImage(_) if kinds.any && is_on_device => DEVICE,
                _ => return Ok(()),
            };
            Err(refused(leaf.op_index, &*leaf.op, reason))
        };
        self.passes().flat_map(Self::flat_ops).try_for_each(check)
    }

    /// Returns whether an op moves pixels or cuts others in: objects that don't follow the image are then wrong.
    pub(crate) fn moves_objects(&self) -> bool {
        let moves = |leaf: &FlatOp| match leaf.op.class() {
            OpClass::Geometry(op) => op.object_motion() != ObjectMotion::Stay,
            OpClass::Host(_) => leaf.kind.host_size().is_some(),
            OpClass::Mix(_) => moves_chains(leaf),
            OpClass::Batch(_) | OpClass::MultiImage(_) => true,
            _ => false,
        };
        self.passes().flat_map(Self::flat_ops).any(moves)
    }

    /// Returns whether the draws of a sample decide where an op moves its pixels: an output with other draws is then
    /// moved otherwise.
    pub(crate) fn moves_by_draws(&self) -> bool {
        self.passes().flat_map(Self::flat_ops).any(|leaf| match leaf.op.class() {
            OpClass::Geometry(op) => {
                op.object_motion() != ObjectMotion::Stay
                    && (!leaf.guards.is_empty() || draws_differ(op, &leaf.input))
            }
            OpClass::Mix(_) => moves_chains(leaf),
            OpClass::Batch(_) | OpClass::MultiImage(_) => true,
            _ => false,
        })
    }

    /// Plans a mask of one channel of `dtype` that follows images of this plan; `own` are its own ops, which come
    /// after those of the image. Pixels outside the image become `fill`.
    ///
    /// # Errors
    ///
    /// If an op can't be followed, or the mask's own ops move it or don't take its type.
    pub(crate) fn for_mask(&self, dtype: DType, fill: u8, own: &Ops) -> Result<Self, Error> {
        let (last, none) = (self.later().len(), Ops::new());
        let passes = self.passes().enumerate();
        let of_pass = |(pass, plan): (usize, &Self)| {
            plan.pass_for_mask(dtype, fill, if pass == last { own } else { &none })
        };
        let mut passes = passes.map(of_pass).collect::<Result<Vec<_>, _>>()?;
        let later = passes.drain(1..).map(Arc::new).collect();
        Ok(passes.remove(0).followed_by(later))
    }

    /// Plans one pass of a mask.
    fn pass_for_mask(&self, dtype: DType, fill: u8, own: &Ops) -> Result<Self, Error> {
        let of_mask = |image: ImageType| ImageType {
            channels: 1,
            dtype,
            layout: Layout::ChannelsLast,
            is_levels: false,
            ..image
        };
        let (mut ops, mut flat_ops): (Ops, Vec<FlatOp>) = (vec![], vec![]);
        let mut followed = Followed { flat_ops: vec![], fill };
        for (index, leaf) in self.flat_ops.iter().enumerate() {
            let OpClass::Geometry(geometry) = leaf.op.class() else { continue };
            if geometry.object_motion() == ObjectMotion::Stay {
                continue;
            }
            let (input, output) = (of_mask(leaf.input), of_mask(leaf.output));
            let op: Arc<dyn Op> = Arc::new(MaskGeometry { op: Arc::clone(&leaf.op), fill, output });
            let kind = OpKind::of(op.class(), [&input, &output], self.rule);
            let op_index = leaf.op_index;
            let kind = kind.map_err(|error| of_op(op_index, &*leaf.op, error))?;
            ops.push(Arc::clone(&op));
            followed.flat_ops.push(index);
            flat_ops.push(FlatOp { op, kind, input, output, step: None, ..leaf.clone() });
        }
        // `Lut` takes images of levels, so class numbers of one byte count as levels.
        let is_levels = dtype == DType::U8;
        let before = ImageType { is_levels, ..of_mask(self.sized_output()) };
        let mut list = flatten(own, before, self.rule)?;
        if let Some(Choice { op, op_index, .. }) = list.choices.first() {
            return Err(refused(*op_index, &**op, CONTAINER));
        }
        if let Some(leaf) =
            list.flat_ops.iter().find(|leaf| matches!(leaf.op.class(), OpClass::Geometry(_)))
        {
            return Err(refused(leaf.op_index, &*leaf.op, OWN));
        }
        list.flat_ops.iter().try_for_each(check_mask_op)?;
        flat_ops.append(&mut list.flat_ops);
        ops.extend(own.iter().cloned());
        let output = list.types.last().copied().unwrap_or(before);
        list.flat_ops = flat_ops;
        list.choices = self.choices.clone();
        let plan = Self::of_flat(ops, [of_mask(self.input), output], list, self.rule, None)?;
        Ok(Self { followed: Some(followed), ..plan })
    }

    /// Returns the plan with these plans of later passes.
    fn followed_by(self, later: Vec<Arc<Self>>) -> Self {
        Self { later, ..self }
    }

    /// Returns the type of an image whose size is that of the output.
    fn sized_output(&self) -> ImageType {
        ImageType { height: self.output.height, width: self.output.width, ..self.input }
    }

    /// Sets the draws of a mask to those that its image has drawn, `image`.
    ///
    /// # Panics
    ///
    /// If the plan was not made by [`for_mask`](Self::for_mask).
    pub(crate) fn follow(&self, image: &Draws, draws: &mut Draws) {
        let Followed { flat_ops, fill } = self.followed.as_ref().expect("a plan of a mask");
        draws.restart(image.key, image.source, self.param_count());
        draws.outcomes.extend_from_slice(&image.outcomes);
        draws.active.extend(flat_ops.iter().map(|&index| image.active[index]));
        let mut size = image.source;
        for (index, step) in &image.geometry {
            size = geometry_step::output(step, size);
            if let Ok(own) = flat_ops.binary_search(index) {
                draws.geometry.push((own, nearest(step, *fill)));
            }
        }
        self.draw_ops(flat_ops.len(), &mut size, draws, |_, _| ());
    }

    /// Returns the flat ops of the image's plan that the first flat ops of this plan of a mask follow, in order.
    pub(crate) fn followed_ops(&self) -> &[usize] {
        self.followed.as_ref().map_or(&[], |followed| &followed.flat_ops)
    }
}

/// Returns whether a chain of an op that mixes images may move pixels.
fn moves_chains(leaf: &FlatOp) -> bool {
    let step = leaf.step.iter().flat_map(|plan| plan.flat_ops());
    let mut classes = step.map(|leaf| leaf.op.class());
    classes.any(|class| match class {
        OpClass::Geometry(op) => op.object_motion() != ObjectMotion::Stay,
        _ => false,
    })
}

/// Number of samples that are drawn to find out whether the draws of an op differ.
const PROBES: u64 = 256;

/// Returns whether an op moves samples of one size differently: an op that reads no random number does not, and neither
/// does one that always runs.
fn draws_differ(op: &dyn GeometryOp, input: &ImageType) -> bool {
    let side = |dim: Dim| PROBED_SIDE.clamp(dim.min, dim.max);
    let size = Size::new(side(input.height), side(input.width));
    let draw = |seed: u64| {
        let (mut rng, mut steps) = (Rng::new(seed), vec![]);
        op.draw(&mut rng, size, &mut steps);
        (steps, rng.word() != Rng::new(seed).word())
    };
    let (first, is_random) = draw(0);
    is_random && (1..PROBES).any(|seed| draw(seed).0 != first)
}

/// The side of the images whose draws are compared, where their size is not fixed.
const PROBED_SIDE: u32 = 256;

/// Returns the step that moves a mask as `step` moves its image: by the nearest pixel. torchvision's two ways to
/// choose it are kept.
fn nearest(step: &GeometryStep, fill: u8) -> GeometryStep {
    let fill = [fill; 3];
    match step.clone() {
        GeometryStep::CropPad { top, left, size, .. } => {
            GeometryStep::CropPad { top, left, size, fill }
        }
        GeometryStep::Resize { size, interpolation } => {
            let interpolation = match interpolation {
                Interpolation::NearestExact => Interpolation::NearestExact,
                _ => Interpolation::Nearest,
            };
            GeometryStep::Resize { size, interpolation }
        }
        GeometryStep::Rows(filter) => GeometryStep::Rows(match filter {
            RowFilter::Resample { size, interpolation } => {
                let interpolation = match interpolation {
                    Resampling::NearestExact => Resampling::NearestExact,
                    _ => Resampling::Nearest,
                };
                RowFilter::Resample { size, interpolation }
            }
            RowFilter::Warp(warp) => RowFilter::Warp(Warp {
                interpolation: WarpInterpolation::Nearest,
                fill: Some(fill),
                ..warp
            }),
            filter => filter,
        }),
        step @ (GeometryStep::FlipHorizontal
        | GeometryStep::FlipVertical
        | GeometryStep::ResizePart { .. }) => step,
    }
}

/// A geometry op as it moves a mask. It draws nothing: the plan of the mask [follows](ImagePlan::follow) the draws of
/// the image.
#[derive(Debug)]
struct MaskGeometry {
    op: Arc<dyn Op>,
    fill: u8,
    /// The size after the op, of images of one channel.
    output: ImageType,
}

impl MaskGeometry {
    fn geometry(&self) -> Option<&dyn GeometryOp> {
        match self.op.class() {
            OpClass::Geometry(op) => Some(op),
            _ => None,
        }
    }
}

impl Op for MaskGeometry {
    fn name(&self) -> &'static str {
        self.op.name()
    }

    fn output(&self, _: &Type) -> Result<Type, TypeError> {
        Ok(Type::Image(self.output))
    }

    fn class(&self) -> OpClass<'_> {
        OpClass::Geometry(self)
    }
}

impl GeometryOp for MaskGeometry {
    fn draw(&self, rng: &mut Rng, size: Size, out: &mut Vec<GeometryStep>) {
        if let Some(op) = self.geometry() {
            op.draw(rng, size, out);
            out.iter_mut().for_each(|step| *step = nearest(step, self.fill));
        }
    }

    fn row_producer(&self) -> Option<RowProducer> {
        self.geometry()?.row_producer().map(|_| RowProducer::Called)
    }

    fn blends(&self) -> bool {
        false
    }

    fn fill_color(&self, input: &ImageType) -> Option<[u8; 3]> {
        self.geometry()?.fill_color(input).map(|_| [self.fill; 3])
    }
}
