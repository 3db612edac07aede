//! The oracle: a pipeline's meaning, op by op, one pixel at a time.
//!
//! What the compiled code must equal bit for bit, and what runs in its place where code can't be
//! compiled or a picture is too narrow for its vectors.

use crate::plan::block::nth_order;
use crate::plan::{Draws, ImagePlan};
use fuseloop_ops::{
    Class, DType, Element, ImageView, Layout, NumberRule, Picture, PixelOp, grey_mean, to_u8,
};

/// The output of one sample, from its whole decoded image.
///
/// # Panics
///
/// If `draws` were not made by `plan` for an image of this size.
#[must_use]
pub fn evaluate(plan: &ImagePlan, source: &ImageView<'_>, draws: &Draws) -> Vec<u8> {
    let mut picture = Picture::from_view(source);
    let mut slot = 0;
    for (place, op) in plan.ops().iter().enumerate() {
        match op.class() {
            Class::Geometry(_) => {
                for (_, motion) in draws.motions.iter().filter(|(of, _)| *of == place) {
                    picture = picture.moved(motion);
                }
            }
            Class::Region(op) => {
                for (_, window) in draws.windows.iter().filter(|(of, _)| *of == place) {
                    picture = picture.painted(*window, op.fill());
                }
            }
            Class::Pixel(op) => slot = apply(plan.rule(), op, &mut picture, &draws.slots, slot),
            Class::Shuffled(parts) => {
                let order = draws.orders.iter().find(|(of, _)| *of == place);
                let order = order.map_or(0, |(_, order)| *order);
                let starts: Vec<usize> = starts(parts, slot);
                for part in nth_order(parts.len(), order) {
                    let op = parts[part].as_ref();
                    apply(plan.rule(), op, &mut picture, &draws.slots, starts[part]);
                }
                slot = starts[parts.len()];
            }
            Class::Cast(DType::U8) if plan.input_of(place).dtype != DType::U8 => {
                for pixel in picture.pixels_mut() {
                    *pixel = pixel.map(|v| f32::from(to_u8(v)));
                }
            }
            Class::Host(op) => {
                picture = picture.changed(|pixels| {
                    if op.applies_to(draws.sample) {
                        op.apply(pixels);
                    }
                });
            }
            Class::Cast(_) | Class::View(_) | Class::Layout(_) | Class::Label(_) => {}
        }
    }
    store(&picture, plan.stored_dtype(), plan.output().layout)
}

/// The first slot of each part, and the first after them.
fn starts(parts: &[Box<dyn PixelOp>], first: usize) -> Vec<usize> {
    let mut starts = vec![first];
    for part in parts {
        starts.push(starts[starts.len() - 1] + part.slots());
    }
    starts
}

/// Applies a pixel op whose slots begin at `slot`. Gives where the next op's begin.
fn apply(
    rule: NumberRule,
    op: &dyn PixelOp,
    picture: &mut Picture,
    slots: &[f32],
    slot: usize,
) -> usize {
    let next = slot + op.slots();
    let mut numbers = slots[slot..next].to_vec();
    if op.needs_mean()
        && !op.is_identity(&numbers)
        && let Some(last) = numbers.last_mut()
    {
        *last = grey_mean(picture.pixels());
    }
    for pixel in picture.pixels_mut() {
        *pixel = op.eval(rule, *pixel, &numbers);
    }
    next
}

/// The picture as bytes of the output's type and layout.
fn store(picture: &Picture, dtype: DType, layout: Layout) -> Vec<u8> {
    let pixels = picture.pixels();
    let values: Vec<f32> = match layout {
        Layout::ChannelsLast => pixels.iter().flatten().copied().collect(),
        Layout::ChannelsFirst => (0..3).flat_map(|c| pixels.iter().map(move |p| p[c])).collect(),
    };
    values.into_iter().flat_map(|v| Element::from(v).converted(dtype).bytes()).collect()
}
