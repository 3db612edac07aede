//! The oracle: a pipeline's meaning, op by op, one pixel at a time.
//!
//! What the compiled code must equal bit for bit, and what runs in its place where code can't be
//! compiled or a picture is too narrow for its vectors.

use super::mix;
use crate::plan::block::nth_order;
use crate::plan::{Draws, ImagePlan, Leaf, Link};
use fuseloop_ops::{
    Class, DType, Eval, ImageView, Layout, NumberRule, Picture, PixelOp, TableOp, clamp, grey_mean,
    to_u8,
};
use half::{bf16, f16};

/// The output of one sample, from its whole decoded image.
///
/// # Panics
///
/// If `draws` were not made by `plan` for an image of this size.
#[must_use]
pub fn evaluate(plan: &ImagePlan, source: &ImageView<'_>, draws: &Draws) -> Vec<u8> {
    let mut picture = Picture::from_view(source);
    let begins = |index| plan.blocks()[1..].iter().any(|block| block.ops.start == index);
    for (index, leaf) in plan.leaves().iter().enumerate() {
        if begins(index) {
            picture.round(); // what lies between two blocks is bytes
        }
        match matrix_of(plan, index) {
            _ if !draws.active[index] => {}
            None => picture = after(plan, index, leaf, draws, picture),
            Some((first, slot)) if first == index => {
                let matrix = &draws.slots[slot..slot + 12];
                picture.pixels_mut().iter_mut().for_each(|p| *p = multiplied(matrix, *p));
            }
            Some(_) => {}
        }
    }
    if begins(plan.leaves().len()) {
        picture.round();
    }
    store(&picture, plan.dtype(), plan.output().layout)
}

/// The picture after one leaf.
fn after(
    plan: &ImagePlan,
    index: usize,
    leaf: &Leaf,
    draws: &Draws,
    mut picture: Picture,
) -> Picture {
    match leaf.op.class() {
        Class::Geometry(_) => {
            for (_, motion) in draws.motions.iter().filter(|(of, _)| *of == index) {
                picture = picture.moved(motion, plan.rule());
            }
        }
        Class::Region(op) => {
            for (_, window) in draws.windows.iter().filter(|(of, _)| *of == index) {
                picture = picture.painted(*window, op.fill());
            }
        }
        Class::Pixel(op) => apply(plan.rule(), op, &mut picture, &draws.slots, leaf.slot),
        Class::Shuffled(parts) => {
            let order = draws.orders.iter().find(|(of, _)| *of == index);
            let order = order.map_or(0, |(_, order)| *order);
            for part in nth_order(parts.len(), order) {
                let before: usize = parts[..part].iter().map(|part| part.slots()).sum();
                let op = parts[part].as_ref();
                apply(plan.rule(), op, &mut picture, &draws.slots, leaf.slot + before);
            }
        }
        Class::Table(op) => look_up(plan.rule(), op, &mut picture, &draws.slots[leaf.slot..]),
        Class::Cast(DType::U8) if leaf.input.dtype != DType::U8 => {
            picture.round();
        }
        Class::Host(_) => {
            let size = picture.size();
            picture = picture.changed(|pixels| plan.change(index, draws, size, pixels));
        }
        Class::Mix(_) => {
            let size = picture.size();
            let step = |plan: &ImagePlan, draws: &Draws, from: &[u8], to: &mut Vec<u8>| {
                let view = ImageView::packed(from, size).expect("3 bytes a pixel");
                *to = evaluate(plan, &view, draws);
            };
            picture = picture.changed(|pixels| mix::mix(plan, index, draws, pixels, step));
        }
        Class::Cast(_)
        | Class::Layout(_)
        | Class::Label(_)
        | Class::Choice(_)
        | Class::Batch(_) => {}
    }
    picture
}

/// If a leaf is part of a folded matrix: the first leaf of it, and its first slot.
fn matrix_of(plan: &ImagePlan, leaf: usize) -> Option<(usize, usize)> {
    let mut steps = plan.blocks().iter().flat_map(|block| &block.steps);
    let step = steps.find(|step| step.leaves.contains(&leaf))?;
    match step.links[..] {
        [Link::Matrix { slot }] => Some((step.leaves[0], slot)),
        _ => None,
    }
}

/// A pixel by a matrix of three rows, each of the factors of red, green and blue and a constant;
/// clamped.
pub(super) fn multiplied(matrix: &[f32], pixel: [f32; 3]) -> [f32; 3] {
    std::array::from_fn(|c| {
        let row = &matrix[4 * c..4 * c + 4];
        clamp((0..3).rev().fold(row[3], |sum, k| pixel[k].mul_add(row[k], sum)))
    })
}

/// Applies a pixel op whose slots begin at `slot`.
fn apply(rule: NumberRule, op: &dyn PixelOp, picture: &mut Picture, slots: &[f32], slot: usize) {
    let mut numbers = slots[slot..slot + op.slots()].to_vec();
    if op.needs_mean()
        && !op.is_identity(&numbers)
        && let Some(last) = numbers.last_mut()
    {
        *last = grey_mean(picture.pixels());
    }
    let width = picture.size().width as usize;
    for (place, pixel) in picture.pixels_mut().iter_mut().enumerate() {
        let at = [place / width, place % width].map(|p| p as i32);
        *pixel = op.eval(&Eval { rule, slots: &numbers, at }, *pixel);
    }
}

/// Applies a table op whose slots are the first of `slots`.
fn look_up(rule: NumberRule, op: &dyn TableOp, picture: &mut Picture, slots: &[f32]) {
    let (mut levels, mut table) = ([[0; 256]; 3], [[0.0; 256]; 3]);
    if op.needs_histogram() {
        for pixel in picture.pixels() {
            (0..3).for_each(|c| levels[c][usize::from(to_u8(pixel[c]))] += 1);
        }
    }
    op.table(rule, &slots[..op.slots()], &levels, &mut table);
    for pixel in picture.pixels_mut() {
        *pixel = std::array::from_fn(|c| table[c][usize::from(to_u8(pixel[c]))]);
    }
}

/// The picture as bytes of the output's type and layout.
fn store(picture: &Picture, dtype: DType, layout: Layout) -> Vec<u8> {
    let pixels = picture.pixels();
    let values: Vec<f32> = match layout {
        Layout::ChannelsLast => pixels.iter().flatten().copied().collect(),
        Layout::ChannelsFirst => (0..3).flat_map(|c| pixels.iter().map(move |p| p[c])).collect(),
    };
    match dtype {
        DType::U8 => values.into_iter().map(to_u8).collect(),
        DType::F16 => values.iter().flat_map(|v| f16::from_f32(*v).to_le_bytes()).collect(),
        DType::Bf16 => values.iter().flat_map(|v| bf16::from_f32(*v).to_le_bytes()).collect(),
        _ => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
    }
}
