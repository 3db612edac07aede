//! Later passes: the ops on samples that follow ops that mix, such as a warp after a mosaic.
//!
//! ```text
//! row of the mixed batch ──copy──▶ pixels ──▶ loops of the pass ──▶ the same row
//! rows of its objects    ──read──▶ draws ──▶ where they are then ──▶ the same rows
//! ```
//!
//! A pass draws with the key of the row's sample, as the first pass does, and with the streams of its own ops. Boxes and
//! keypoints are read as the batch has them, which is in f32. The worker that finishes a batch runs its later passes, while
//! others fill the next one.

use super::TargetMixer;
use super::targets::image_bytes;
use crate::error::Error;
use crate::jit::{DecodedPixels, Kernel, Scratch};
use crate::loader::targets::Target;
use crate::plan::{Draws, ImagePlan};
use crate::sample::Limits;
use fuseloop_ops::author::Objects;
use fuseloop_ops::internals::{ImageView, PixelFormat, SampleKey, memory};
use std::sync::Arc;

/// The ops on samples of one pass over a finished batch, for an image and its targets.
#[derive(Debug)]
pub(in crate::loader) struct LaterPass {
    pub(in crate::loader) kernel: Arc<Kernel>,
    /// The masks of the image, by their output.
    pub(in crate::loader) masks: Vec<(usize, Arc<Kernel>)>,
    pub(in crate::loader) object_masks: Option<ObjectMaskPass>,
}

/// How the masks of objects are moved in a pass.
#[derive(Debug)]
pub(in crate::loader) struct ObjectMaskPass {
    pub(in crate::loader) output: usize,
    pub(in crate::loader) kernel: Arc<Kernel>,
}

/// The memory of a worker for changing finished batches.
#[derive(Default)]
pub(in crate::loader) struct BatchScratch {
    /// Rows before they are changed.
    pub(in crate::loader) spare: Vec<u8>,
    draws: Draws,
    mask: Draws,
}

/// The rows of a finished batch, for a pass.
pub(in crate::loader) struct PassRows<'a, 'b> {
    /// The index of the image's output.
    pub(in crate::loader) image: usize,
    /// The key of each row's sample.
    pub(in crate::loader) keys: &'a [SampleKey],
    /// All outputs.
    pub(in crate::loader) outputs: &'a mut [&'b mut [u8]],
}

impl LaterPass {
    /// Changes the samples of a finished batch. `targets` are those before the pass and after it, if the image has any.
    ///
    /// # Errors
    ///
    /// If an op in plain Rust returns one, or an image is over the limits, or there is not enough memory.
    pub(in crate::loader) fn run(
        &self,
        targets: Option<[&TargetMixer; 2]>,
        rows: PassRows<'_, '_>,
        limits: &Limits,
        (kernels, scratch): (&mut Scratch, &mut BatchScratch),
    ) -> Result<(), Error> {
        let PassRows { image, keys, outputs } = rows;
        let BatchScratch { spare, draws, mask } = scratch;
        let counts =
            targets.map_or(vec![0; keys.len()], |[before, _]| before.counts(keys.len(), outputs));
        let plan = self.kernel.plan();
        for (row, key) in keys.iter().enumerate() {
            let of_row = (row, keys.len());
            let before = targets.map(|[before, _]| before.objects_of((row, counts[row]), outputs));
            match &before {
                Some(objects) => draws.objects.clone_from(objects),
                None => draws.objects.clear(),
            }
            plan.draw_around_objects(*key, plan.input().size().unwrap_or_default(), draws);
            plan.check_draws(draws, limits)?;
            let own = row_of(outputs[image], of_row);
            run_in_place(&self.kernel, draws, own, (kernels, spare))?;
            for (output, kernel) in &self.masks {
                kernel.plan().follow(draws, mask);
                let own = row_of(outputs[*output], of_row);
                run_in_place(kernel, mask, own, (kernels, spare))?;
            }
            if let Some(ObjectMaskPass { output, kernel }) = &self.object_masks {
                kernel.plan().follow(draws, mask);
                let own = row_of(outputs[*output], of_row);
                let objects = (counts[row], draws.objects.rows());
                move_masks(kernel, mask, objects, own, (kernels, spare))?;
            }
            if let (Some([_, after]), Some(before)) = (targets, &before) {
                write_objects(after, (before, draws), of_row, outputs, spare)?;
            }
        }
        Ok(())
    }
}

/// Returns one of `count` rows.
fn row_of(bytes: &mut [u8], (row, count): (usize, usize)) -> &mut [u8] {
    let room = bytes.len() / count;
    &mut bytes[row * room..][..room]
}

/// Returns the image in `bytes` that a plan reads.
fn source_of<'a>(plan: &ImagePlan, bytes: &'a [u8]) -> DecodedPixels<'a> {
    let input = plan.input();
    let format = PixelFormat { channels: input.channels.into(), dtype: input.dtype };
    let view = ImageView::packed_format(bytes, input.size().unwrap_or_default(), format);
    DecodedPixels::whole(view.expect("the bytes of an image of the plan's input"))
}

/// Returns the bytes of the images that a plan reads.
fn source_bytes(plan: &ImagePlan) -> usize {
    image_bytes(plan.input(), plan.input().size().unwrap_or_default())
}

/// Runs the ops of a pass on the image at the beginning of a row.
fn run_in_place(
    kernel: &Kernel,
    draws: &Draws,
    row: &mut [u8],
    (kernels, spare): (&mut Scratch, &mut Vec<u8>),
) -> Result<(), Error> {
    let plan = kernel.plan();
    copy(&row[..source_bytes(plan)], spare, "a copy of an image of a batch")?;
    let to = &mut row[..plan.drawn_bytes(draws)];
    kernel.try_run(kernels, source_of(plan, spare), draws, to)
}

/// Moves the masks of the objects that stay, which are `rows` of `count`.
fn move_masks(
    kernel: &Kernel,
    draws: &Draws,
    (count, rows): (usize, &[usize]),
    row: &mut [u8],
    (kernels, spare): (&mut Scratch, &mut Vec<u8>),
) -> Result<(), Error> {
    let plan = kernel.plan();
    let (from, to) = (source_bytes(plan), plan.drawn_bytes(draws));
    copy(&row[..count * from], spare, "a copy of the masks of the objects")?;
    for (&object, to) in rows.iter().zip(row.chunks_exact_mut(to.max(1))) {
        let source = source_of(plan, &spare[object * from..][..from]);
        kernel.try_run(kernels, source, draws, to)?;
    }
    Ok(())
}

/// Writes the objects of a row, which were `before`, as they are after the draws of its image. Their masks are written
/// already.
fn write_objects(
    after: &TargetMixer,
    (before, draws): (&Objects, &Draws),
    (row, count): (usize, usize),
    outputs: &mut [&mut [u8]],
    spare: &mut Vec<u8>,
) -> Result<(), Error> {
    let objects = &draws.objects;
    for own in &after.objects {
        let (item, bytes) = (own.collated.item, own.collated.row_bytes());
        let to = row_of(outputs[own.output], (row, count));
        let is_mask = matches!(own.target, Target::InstanceMasks);
        if !is_mask {
            copy(&to[..before.len() * item], spare, "a copy of the targets of a sample")?;
        }
        let (filled, rest) = to[..bytes].split_at_mut(objects.len() * item);
        let each = filled.chunks_exact_mut(item.max(1)).zip(objects.rows()).enumerate();
        for (index, (to, &object)) in each.filter(|_| !is_mask) {
            let from = &spare[object * item..][..item];
            match &own.target {
                Target::Boxes(boxes)
                    if draws.output != draws.source
                        || before.boxes().get(object) != objects.boxes().get(index) =>
                {
                    boxes.write_row(objects.boxes()[index], draws.output, to);
                }
                Target::KeyPoints(points) => points.write_object(objects, index, to),
                _ => to.copy_from_slice(from),
            }
        }
        own.collated.pad(rest);
        let lengths = outputs[own.lengths].as_chunks_mut().0;
        lengths[row] = (objects.len() as i64).to_ne_bytes();
    }
    Ok(())
}

/// Copies bytes to `spare`.
fn copy(bytes: &[u8], spare: &mut Vec<u8>, what: &'static str) -> Result<(), Error> {
    spare.clear();
    memory::reserve(spare, bytes.len(), what)?;
    spare.extend_from_slice(bytes);
    Ok(())
}
