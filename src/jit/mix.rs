//! Mixing: a picture, and what chains of ops make of it, weighed and summed.
//!
//! The chains' steps are kernels of their own, or the oracle's evaluations; the sum is the same.

use crate::plan::{Draws, ImagePlan};
use fuseloop_ops::{NumberRule, to_u8};

/// What a worker keeps from sample to sample: pages that are new each time cost more than sums.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    sums: Vec<f32>,
    from: Vec<u8>,
    to: Vec<u8>,
}

/// Changes `pixels` by the op that mixes at `leaf`. `step` makes one step of a chain: from bytes
/// to as many bytes.
pub(super) fn mix(
    plan: &ImagePlan,
    leaf: usize,
    draws: &Draws,
    pixels: &mut [u8],
    buffers: &mut Buffers,
    mut step: impl FnMut(&ImagePlan, &Draws, &[u8], &mut Vec<u8>),
) {
    let mixed = draws.mixes.iter().find(|(of, _)| *of == leaf);
    let (Some((_, mixed)), Some(step_plan)) = (mixed, &plan.leaves()[leaf].step) else { return };
    let Buffers { sums, from, to } = buffers;
    sums.clear();
    sums.extend(pixels.iter().map(|&v| f32::from(v) * mixed.mixture.keep));
    to.resize(pixels.len(), 0);
    let mut steps = mixed.steps.iter();
    for &(weight, length) in &mixed.mixture.chains {
        from.clear();
        from.extend_from_slice(pixels);
        for draws in steps.by_ref().take(length as usize) {
            step(step_plan, draws, from, to);
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
}
