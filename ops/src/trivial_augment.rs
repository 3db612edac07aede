//! TrivialAugment: one action of random strength for each sample.
//!
//! Müller and Hutter, arXiv:2103.10158, as torchvision's `TrivialAugmentWide` does it.
//!
//! ```text
//! one of 14 actions; if it has a table, any of its `num_magnitude_bins` entries; negated by a coin
//! if it is signed
//! ```
//!
//! | | |
//! |--------|----------------------------------------------------------------------|
//! | input  | u8 image                                                             |
//! | output | as the input                                                         |
//! | random | the action, the magnitude, the sign                                  |
//! | cost   | of the action: no loop of its own but where a warp needs a whole picture |
//!
//! Actions and tables: [`policy`](crate::policy).

use crate::op::on_u8_image;
use crate::policy::magnitude::checked_bins;
use crate::policy::{Look, Pick, Sampling, Space, Strength};
use crate::rows::WarpInterpolation;
use crate::{ChoiceOp, Class, Member, Op, ParamError, Rng, Type, TypeError};

/// Runs one random action of random strength.
#[derive(Clone, Debug)]
pub struct TrivialAugmentWide {
    bins: u32,
    look: Look,
    pick: Pick,
}

impl TrivialAugmentWide {
    /// With magnitudes of 31 bins, torchvision's default.
    #[must_use]
    pub fn new() -> Self {
        Self::of(SPACE.default_bins(), Look::default())
    }

    /// With magnitudes of so many bins.
    ///
    /// # Errors
    ///
    /// If `num_magnitude_bins` is not in `2..=1000`.
    pub fn with_bins(num_magnitude_bins: u32) -> Result<Self, ParamError> {
        let bins = checked_bins("TrivialAugmentWide", num_magnitude_bins)?;
        Ok(Self::of(bins, Look::default()))
    }

    /// How warps read between pixels: nearest by default.
    #[must_use]
    pub fn interpolation(self, interpolation: WarpInterpolation) -> Self {
        Self::of(self.bins, Look { sampling: Sampling::Fixed(interpolation), ..self.look })
    }

    /// The colour of what comes in from outside: black by default.
    #[must_use]
    pub fn fill(self, fill: [u8; 3]) -> Self {
        Self::of(self.bins, Look { fill: Some(fill), ..self.look })
    }

    fn of(bins: u32, look: Look) -> Self {
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

impl Op for TrivialAugmentWide {
    fn name(&self) -> &'static str {
        "TrivialAugmentWide"
    }

    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_u8_image(self.name(), input, |image| image)
    }

    fn class(&self) -> Class<'_> {
        Class::Choice(self)
    }
}

impl ChoiceOp for TrivialAugmentWide {
    fn outcomes(&self) -> usize {
        self.pick.outcomes()
    }

    fn members(&self) -> &[Member] {
        self.pick.members()
    }

    fn draw(&self, rng: &mut Rng) -> usize {
        self.pick.draw(rng)
    }
}
