//! The steps of an image from its headers to its row. A loader's stage takes them for all outputs of a field, for which
//! one window is decoded; a [`Transform`](super::transform::Transform) takes them for its list.
//!
//! ```text
//! size ──▶ draws ──▶ scale ──▶ window ──▶ pixels ──▶ compiled loops
//! ```

use super::compile_context::CompileContext;
use super::opened_image::OpenedImage;
use super::target_rows::TargetScratch;
use super::targets::{check_orientation, other_size};
use crate::decode::{Opened, ScaledImage};
use crate::error::Error;
use crate::jit::Kernel;
use crate::plan::{Draws, ImagePlan};
use crate::sample::Limits;
use fuseloop_ops::Size;
use fuseloop_ops::internals::SampleKey;

/// Draws for an image of `size`, whose objects are in `draws`.
pub(super) fn draw(
    plan: &ImagePlan,
    (key, size): (SampleKey, Size),
    limits: &Limits,
    draws: &mut Draws,
) -> Result<(), Error> {
    plan.draw_around_objects(key, size, draws);
    Ok(plan.check_draws(draws, limits)?)
}

/// Returns the smaller image that is decoded for these draws; `None` if the image is decoded whole.
pub(super) fn scaled_image(
    opened: &Opened<'_>,
    plan: &ImagePlan,
    draws: &Draws,
    setup: &CompileContext,
) -> Option<ScaledImage> {
    if !setup.scaled_decode {
        return None;
    }
    opened.scaled(plan.decode_factor(draws)?)
}

/// Has an image decoded at a smaller scale, if the draws allow it: sets `scaled` to the draws for that, and returns the
/// size of the smaller image.
pub(super) fn scale_down(
    opened: &mut OpenedImage<'_>,
    plan: &ImagePlan,
    draws: &Draws,
    setup: &CompileContext,
    scaled: &mut Draws,
) -> Option<Size> {
    let OpenedImage::Value(opened) = opened else { return None };
    let image = scaled_image(opened, plan, draws, setup)?;
    opened.set_scale(&image);
    plan.scale_draws(draws, &image, scaled);
    Some(image.size)
}

/// Sets the draws of a mask to those of its image, which has drawn.
///
/// # Errors
///
/// If the mask has another size than its image, or may be of another picture than it.
pub(super) fn draw_mask(
    opened: &OpenedImage<'_>,
    kernel: &Kernel,
    targets: &mut TargetScratch,
    setup: &CompileContext,
) -> Result<(), Error> {
    let TargetScratch { image, mask, .. } = targets;
    if let OpenedImage::Value(opened) = opened
        && let Some(turned) = opened.turned()
    {
        check_orientation(turned, None, setup.exif_orientation)?;
    }
    let size = opened.size();
    if size != image.source {
        return Err(other_size(size, image.source));
    }
    kernel.plan().follow(image, mask);
    Ok(kernel.plan().check_draws(mask, &setup.decode.limits)?)
}
