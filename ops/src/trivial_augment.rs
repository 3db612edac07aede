//! TrivialAugment: one action of random strength for each sample.

use crate::author::{ChoiceBranch, ChoiceOp, Rng, Type};
use crate::op::{Op, class, on_levels};
use crate::policy::magnitude::checked_bins;
use crate::policy::{Pick, Sampling, Space, Strength, WarpOptions};
use crate::rows::WarpInterpolation;
use crate::{ParamError, TypeError};

/// Runs one random action of random strength for each sample.
///
#[cfg_attr(doc, doc = include_str!("../pictures/TrivialAugmentWide.md"))]
///
/// Müller and Hutter, arXiv:2103.10158, as in torchvision's `TrivialAugmentWide`.
///
/// ```text
/// one of 14 actions; if it has a table, one of its `num_magnitude_bins` entries; negated by a coin
/// if it is signed
/// ```
///
/// | | |
/// |--------|----------------------------------------------------------------------|
/// | input  | image of levels                                                             |
/// | output | as the input                                                         |
/// | random | the action, the magnitude, the sign                                  |
/// | cost   | the action's cost; an extra loop only if a warp needs a whole image  |
///
/// The actions are listed at [`AutoAugment`](crate::AutoAugment#actions).
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![TrivialAugmentWide::new()];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Debug)]
#[op(POLICY, "runs one random action of random strength", constructor = new)]
#[param(num_magnitude_bins: u32, "how many magnitudes there are", default = 31, draw = 2..=31)]
#[param(interpolation: WarpInterpolation, "interpolation of warps; default: nearest", optional,
    draw = Some(recipe::warp_interpolation(rng)))]
#[param(fill: [u8; 3], "fill colour outside the image; default: black", optional,
    draw = rng.coin(0.5).then(|| recipe::color(rng)))]
pub struct TrivialAugmentWide {
    bins: u32,
    look: WarpOptions,
    pick: Pick,
}

impl TrivialAugmentWide {
    /// Magnitudes have 31 bins, torchvision's default.
    #[must_use]
    pub fn new() -> Self {
        Self::of(SPACE.default_bins(), WarpOptions::default())
    }

    /// Sets the number of bins of the magnitudes. Default 31.
    ///
    /// # Errors
    ///
    /// If `num_magnitude_bins` is not in `2..=1000`.
    pub fn num_magnitude_bins(self, num_magnitude_bins: u32) -> Result<Self, ParamError> {
        let bins = checked_bins("TrivialAugmentWide", num_magnitude_bins)?;
        Ok(Self::of(bins, self.look))
    }

    /// Sets how warps interpolate: nearest by default.
    #[must_use]
    pub fn interpolation(self, interpolation: WarpInterpolation) -> Self {
        Self::of(self.bins, WarpOptions { sampling: Sampling::Fixed(interpolation), ..self.look })
    }

    /// Sets the fill colour of warps: black by default.
    #[must_use]
    pub fn fill(self, fill: [u8; 3]) -> Self {
        Self::of(self.bins, WarpOptions { fill: Some(fill), ..self.look })
    }

    fn of(bins: u32, look: WarpOptions) -> Self {
        let strength = Strength::AnyEntry { space: SPACE, bins, below: bins };
        let lists = SPACE.actions().iter().map(|action| action.ops(strength, look));
        Self { bins, look, pick: Pick::new("TrivialAugmentWide", lists, None, 1.0) }
    }
}

const SPACE: Space = Space::TrivialAugmentWide;

impl Default for TrivialAugmentWide {
    fn default() -> Self {
        Self::new()
    }
}

#[class(Choice)]
impl Op for TrivialAugmentWide {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_levels(self.name(), input)
    }
}

impl ChoiceOp for TrivialAugmentWide {
    fn outcomes(&self) -> usize {
        self.pick.outcomes()
    }

    fn branches(&self) -> &[ChoiceBranch] {
        self.pick.branches()
    }

    fn draw(&self, rng: &mut Rng) -> usize {
        self.pick.draw(rng)
    }
}
