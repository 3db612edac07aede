//! AugMix: an image mixed with the results of a few random chains of ops.

use crate::author::ImageType;
use crate::author::{Rng, Type};
use crate::beta::{dirichlet, symmetric_beta};
use crate::op::{MixOp, Mixture, Op, class, on_u8_image};
use crate::policy::{Pick, Sampling, Space, Strength, WarpOptions};
use crate::registry::BuiltOp;
use crate::registry::built;
use crate::registry::recipe;
use crate::registry::{Checked, ParamLimits};
use crate::rows::WarpInterpolation;
use crate::{Ops, ParamError, TypeError};
use std::sync::Arc;

/// Mixes an image with the results of a few random chains of ops.
///
#[cfg_attr(doc, doc = include_str!("../pictures/AugMix.md"))]
///
/// Hendrycks et al., arXiv:1912.02781.
///
/// ```text
/// out = m0 * in + sum over chains of w_k * m1 * chain_k(in)
/// (m0, m1) ~ Dirichlet(alpha, alpha)          w ~ Dirichlet(alpha, ..), one for each chain
/// ```
///
/// This is torchvision's `AugMix`: each chain has `chain_depth` steps, or 1 to 3 drawn uniformly; each
/// step applies one of 13 actions (or one of the first 9), with a magnitude index in `0..severity` out
/// of 10.
///
/// | | |
/// |--------|--------------------------------------------------------------------------------------|
/// | input  | u8 image                                                                             |
/// | output | as the input; truncated under the Exact rule, else rounded half to even              |
/// | random | the weights, then each chain's length; then each step an action, a magnitude, a sign |
/// | cost   | ends its block; a loop over the image for each step, and the sum                     |
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![AugMix::new().severity(5)?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Debug)]
#[op(POLICY, "mixes the image with the results of random chains of actions", constructor = new, draw = random)]
#[param(severity: u32, "magnitudes are below it, of 1..=10", 1..=10, default = 3)]
#[param(mixture_width: u32, "how many chains", 1..=16, default = 3)]
#[param(chain_depth: u32, "steps of every chain; default: 1 to 3", 1..=16, optional)]
#[param(alpha: f64, "of the Dirichlet distributions", positive, default = 1.0)]
#[param(all_ops: bool, "whether colours are changed too", default = true)]
#[param(interpolation: WarpInterpolation, "interpolation of warps; default: nearest", optional)]
#[param(fill: [u8; 3], "fill colour outside the image; default: black", optional)]
pub struct AugMix {
    severity: u32,
    mixture_width: u32,
    chain_depth: Option<u32>,
    alpha: f64,
    all_ops: bool,
    look: WarpOptions,
    step: Ops,
}

/// The largest number of chains, and of steps in a chain.
const MAX_COUNT: u32 = 16;

impl Default for AugMix {
    fn default() -> Self {
        Self::new()
    }
}

impl AugMix {
    /// Builds the op with torchvision's defaults: a severity of 3, three chains of one to three steps, an
    /// alpha of 1, all 13 actions, bilinear warps.
    #[must_use]
    pub fn new() -> Self {
        let look = WarpOptions {
            sampling: Sampling::Fixed(WarpInterpolation::Bilinear),
            ..WarpOptions::default()
        };
        let (severity, mixture_width, chain_depth, alpha, all_ops) = (3, 3, None, 1.0, true);
        let op = Self { severity, mixture_width, chain_depth, alpha, all_ops, look, step: vec![] };
        op.with_step()
    }

    /// Sets the severity: magnitudes, of 1 to 10, are below it. Default 3.
    ///
    /// # Errors
    ///
    /// If `severity` is not in `1..=10`.
    pub fn severity(self, severity: u32) -> Result<Self, ParamError> {
        if (1..=10).contains(&severity) {
            Ok(Self { severity, ..self }.with_step())
        } else {
            Err(ParamError::new("AugMix", "severity", severity, "1..=10"))
        }
    }

    /// Sets the number of chains.
    ///
    /// # Errors
    ///
    /// If the number is not in `1..=16`.
    pub fn mixture_width(self, chains: u32) -> Result<Self, ParamError> {
        let mixture_width = checked_count("mixture_width", chains)?;
        Ok(Self { mixture_width, ..self })
    }

    /// Sets the number of steps of every chain.
    ///
    /// # Errors
    ///
    /// If the number is not in `1..=16`.
    pub fn chain_depth(self, steps: u32) -> Result<Self, ParamError> {
        let chain_depth = Some(checked_count("chain_depth", steps)?);
        Ok(Self { chain_depth, ..self })
    }

    /// Sets the parameter of the Dirichlet distributions.
    ///
    /// # Errors
    ///
    /// If `alpha` is not above 0, or not finite.
    pub fn alpha(self, alpha: f64) -> Result<Self, ParamError> {
        Ok(Self { alpha: alpha.checked("AugMix", "alpha", ParamLimits::POSITIVE)?, ..self })
    }

    /// Sets whether brightness, colour, contrast and sharpness are among the actions. ImageNet-C tests
    /// robustness to these changes, so the paper leaves them out.
    #[must_use]
    pub fn all_ops(self, all_ops: bool) -> Self {
        Self { all_ops, ..self }.with_step()
    }

    /// Sets how warps interpolate between pixels. The default is bilinear.
    #[must_use]
    pub fn interpolation(self, interpolation: WarpInterpolation) -> Self {
        let look = WarpOptions { sampling: Sampling::Fixed(interpolation), ..self.look };
        Self { look, ..self }.with_step()
    }

    /// Sets the colour of pixels from outside the image. The default is black.
    #[must_use]
    pub fn fill(self, fill: [u8; 3]) -> Self {
        let look = WarpOptions { fill: Some(fill), ..self.look };
        Self { look, ..self }.with_step()
    }

    /// Builds the step op from the parameters.
    fn with_step(self) -> Self {
        const SPACE: Space = Space::AugMix;
        let below = self.severity;
        let strength = Strength::AnyEntry { space: SPACE, bins: SPACE.default_bins(), below };
        let actions = SPACE.actions();
        let action_count = if self.all_ops { actions.len() } else { 9 };
        let lists = actions[..action_count].iter().map(|action| action.ops(strength, self.look));
        let pick = Pick::new("AugMix step", lists, None, 1.0);
        Self { step: vec![Arc::new(pick)], ..self }
    }
}

fn checked_count(param: &'static str, value: u32) -> Result<u32, ParamError> {
    if (1..=MAX_COUNT).contains(&value) {
        Ok(value)
    } else {
        Err(ParamError::new("AugMix", param, value, "1..=16"))
    }
}

#[class(Mix)]
impl Op for AugMix {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_u8_image(self.name(), input, |image| image)
    }
}

impl MixOp for AugMix {
    fn step(&self) -> &Ops {
        &self.step
    }

    fn draw(&self, rng: &mut Rng) -> Mixture {
        let keep = symmetric_beta(rng, self.alpha);
        let weights = dirichlet(rng, self.alpha, self.mixture_width as usize);
        let chain = |weight: f64| {
            let steps = self.chain_depth.unwrap_or_else(|| 1 + rng.below(3));
            ((weight * (1.0 - keep)) as f32, steps)
        };
        Mixture { keep: keep as f32, chains: weights.into_iter().map(chain).collect() }
    }
}

fn random(rng: &mut Rng, _: &ImageType) -> Result<BuiltOp, ParamError> {
    let op = AugMix::new().severity(1 + rng.below(10))?.all_ops(rng.coin(0.7));
    let op = op.mixture_width(1 + rng.below(3))?;
    let op = op.interpolation(recipe::warp_interpolation(rng));
    Ok(built(if rng.coin(0.5) { op.fill(recipe::color(rng)) } else { op }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::author::ImageType;
    use crate::rng::SampleKey;
    use crate::{DType, Size};

    #[test]
    fn weights_sum_to_one_and_chains_have_one_to_three_steps() {
        let op = AugMix::new();
        let mut lengths = [0; 4];
        for sample in 0..500 {
            let mixture = op.draw(&mut SampleKey::new(1, 0, sample).op(0));
            let weights: f32 = mixture.chains.iter().map(|(weight, _)| weight).sum();
            assert!((mixture.keep + weights - 1.0).abs() < 1e-5, "{mixture:?}");
            assert!(mixture.chains.iter().all(|(weight, _)| *weight >= 0.0), "{mixture:?}");
            assert_eq!(mixture.chains.len(), 3);
            mixture.chains.iter().for_each(|(_, steps)| lengths[*steps as usize] += 1);
        }
        assert!(lengths[0] == 0 && lengths[1..].iter().all(|n| *n > 400), "{lengths:?}");
    }

    #[test]
    fn bad_parameters_are_refused() {
        let op = AugMix::new;
        assert!(op().severity(0).is_err() && op().severity(11).is_err());
        assert!(op().mixture_width(0).is_err() && op().mixture_width(17).is_err());
        assert!(op().chain_depth(0).is_err() && op().alpha(0.0).is_err());
        assert!(op().alpha(f64::NAN).is_err());
    }

    #[test]
    fn images_of_floats_are_refused() {
        let image = ImageType { dtype: DType::F32, ..ImageType::from(Size::new(4, 4)) };
        let error = AugMix::new().output(&Type::Image(image)).unwrap_err();
        assert_eq!(error.expected, "a u8 image (put it before Normalize and Convert)");
    }
}
