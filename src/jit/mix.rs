//! Mixing: a picture, and what chains of ops make of it, weighed and summed.
//!
//! The chains' steps are kernels of their own, or the oracle's evaluations; the sum is the same.

use crate::plan::{Draws, ImagePlan};
use fuseloop_ops::NumberRule;

/// Changes `pixels` by the op that mixes at `leaf`. `step` makes one step of a chain: from bytes
/// to as many bytes.
pub(super) fn mix(
    plan: &ImagePlan,
    leaf: usize,
    draws: &Draws,
    pixels: &mut [u8],
    mut step: impl FnMut(&ImagePlan, &Draws, &[u8], &mut Vec<u8>),
) {
    let mixed = draws.mixes.iter().find(|(of, _)| *of == leaf);
    let (Some((_, mixed)), Some(step_plan)) = (mixed, &plan.leaves()[leaf].step) else { return };
    let mut sums: Vec<f32> = pixels.iter().map(|&v| f32::from(v) * mixed.mixture.keep).collect();
    let (mut from, mut to) = (vec![], vec![0; pixels.len()]);
    let mut steps = mixed.steps.iter();
    for &(weight, length) in &mixed.mixture.chains {
        from.clear();
        from.extend_from_slice(pixels);
        for draws in steps.by_ref().take(length as usize) {
            step(step_plan, draws, &from, &mut to);
            std::mem::swap(&mut from, &mut to);
        }
        for (sum, &v) in sums.iter_mut().zip(&from) {
            *sum += f32::from(v) * weight;
        }
    }
    let is_exact = plan.rule() == NumberRule::Exact;
    for (v, sum) in pixels.iter_mut().zip(sums) {
        *v = if is_exact { sum } else { sum.round_ties_even() } as u8;
    }
}
