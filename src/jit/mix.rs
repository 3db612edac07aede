//! Mixing: the weighted sum of an image and of the results of chains of ops.
//!
//! The chains' steps are run by separate kernels or by the oracle; the sum is the same code.

use crate::error::Error;
use crate::plan::{Draws, ImagePlan};
use fuseloop_ops::NumberRule;
use fuseloop_ops::internals::{memory, to_u8};

/// The buffers of one worker, reused from sample to sample: newly mapped pages cost more than the sums.
#[derive(Debug, Default)]
pub(super) struct MixBuffers {
    sums: Vec<f32>,
    from: Vec<u8>,
    to: Vec<u8>,
}

/// Applies the mixing op at `leaf` to `pixels`. `step` runs one step of a chain: it reads bytes and
/// writes the same number of bytes.
///
/// # Errors
///
/// If a step fails, or the system has no memory for the sums and the images of the chains.
pub(super) fn mix(
    plan: &ImagePlan,
    leaf: usize,
    draws: &Draws,
    pixels: &mut [u8],
    buffers: &mut MixBuffers,
    mut step: impl FnMut(&ImagePlan, &Draws, &[u8], &mut Vec<u8>) -> Result<(), Error>,
) -> Result<(), Error> {
    let mixed = draws.mixes.iter().find(|(of, _)| *of == leaf);
    let (Some((_, mixed)), Some(step_plan)) = (mixed, &plan.flat_ops()[leaf].step) else {
        return Ok(());
    };
    let MixBuffers { sums, from, to } = buffers;
    sums.clear();
    memory::reserve(sums, pixels.len(), "the sums of a mixed image")?;
    sums.extend(pixels.iter().map(|&v| f32::from(v) * mixed.mixture.keep));
    memory::resize(to, pixels.len(), "an image of a chain")?;
    memory::resize(from, pixels.len(), "an image of a chain")?;
    let mut steps = mixed.steps.iter();
    for &(weight, length) in &mixed.mixture.chains {
        from.copy_from_slice(pixels);
        for draws in steps.by_ref().take(length as usize) {
            step(step_plan, draws, from, to)?;
            std::mem::swap(from, to);
        }
        for (sum, &v) in sums.iter_mut().zip(from.iter()) {
            *sum += f32::from(v) * weight;
        }
    }
    let is_exact = plan.rule() == NumberRule::Exact;
    if is_exact {
        pixels.iter_mut().zip(sums.iter()).for_each(|(v, sum)| *v = *sum as u8);
    } else {
        pixels.iter_mut().zip(sums.iter()).for_each(|(v, sum)| *v = to_u8(*sum));
    }
    Ok(())
}
