//! RandAugment: a few actions of one strength, drawn for each sample.

use crate::author::{ChoiceBranch, ChoiceOp, Rng, Type};
use crate::container::only;
use crate::op::{Op, class, on_levels};
use crate::policy::magnitude::checked_bins;
use crate::policy::{Pick, Sampling, Space, Strength, WarpOptions};
use crate::registry::BuiltOp;
use crate::registry::{OpArgs, ParamKind, Recipe, SpecError, built, recipe};
use crate::rows::WarpInterpolation;
use crate::timm::Config;
use crate::{ParamError, TypeError};
use std::sync::Arc;

/// The maximum number of actions for a sample: each is a loop over the image.
const MOST_OPS: u32 = 16;

/// Runs a few random actions of one strength, drawn for each sample.
///
#[cfg_attr(doc, doc = include_str!("../pictures/RandAugment.md"))]
///
/// Cubuk et al., arXiv:1909.13719, as in torchvision's `RandAugment`; also timm's, from its
/// configuration strings: [`RandAugment::timm`].
///
/// ```text
/// num_ops times:  one of 14 actions; its magnitude is entry `magnitude` of `num_magnitude_bins`,
///                 negated by a coin if it is signed
/// ```
///
/// | | |
/// |--------|----------------------------------------------------------------------|
/// | input  | image of levels                                                             |
/// | output | as the input                                                         |
/// | random | for each of the `num_ops`: the action, then its sign                 |
/// | cost   | the actions' cost: at most one loop over the image for each of the `num_ops`; the last loop is the final one |
///
/// The actions are listed at [`AutoAugment`](crate::AutoAugment#actions).
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![RandAugment::new().num_ops(2)?.magnitude(9)?];
/// let timm = ops![RandAugment::timm("rand-m9-mstd0.5-inc1")?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Debug)]
#[op(POLICY, "runs a few random actions of one strength", constructor = new, build = build, recipes = RECIPES)]
#[param(num_ops: u32, "how many actions", 0..=16, default = 2)]
#[param(magnitude: u32, "how strong, below the bins", default = 9)]
#[param(num_magnitude_bins: u32, "how many magnitudes there are", default = 31)]
#[param(config: Vec<f64>, "in place of these a string as timm has it: rand-m9-mstd0.5-inc1", kind = ParamKind::Text,
    optional)]
#[param(interpolation: WarpInterpolation,
    "interpolation of warps; default: nearest, or with a config one of the others at random", optional)]
#[param(fill: [u8; 3], "fill colour outside the image; default: black, or 128 with a config", optional)]
pub struct RandAugment {
    settings: Settings,
    look: WarpOptions,
    picks: [ChoiceBranch; 1],
}

/// The configuration that actions are drawn from.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Settings {
    /// torchvision's arguments.
    Torchvision { num_ops: u32, magnitude: u32, bins: u32 },
    /// timm's configuration string.
    Timm(Config),
}

const OP: &str = "RandAugment";

impl Default for RandAugment {
    fn default() -> Self {
        Self::new()
    }
}

impl RandAugment {
    /// Builds the op with torchvision's defaults: two actions of strength 9, of 0 to 30.
    #[must_use]
    pub fn new() -> Self {
        let bins = Space::RandAugment.default_bins();
        let settings = Settings::Torchvision { num_ops: 2, magnitude: 9, bins };
        Self::of(settings, WarpOptions::default())
    }

    /// Sets the number of actions for a sample. Default 2.
    ///
    /// # Errors
    ///
    /// If `num_ops` is above 16, or the op has a configuration of timm.
    pub fn num_ops(self, num_ops: u32) -> Result<Self, ParamError> {
        let [_, magnitude, bins] = self.numbers("num_ops")?;
        self.with_numbers(num_ops, magnitude, bins)
    }

    /// Sets the strength of the actions. Default 9.
    ///
    /// # Errors
    ///
    /// If `magnitude` is not below the number of bins, or the op has a configuration of timm.
    pub fn magnitude(self, magnitude: u32) -> Result<Self, ParamError> {
        let [num_ops, _, bins] = self.numbers("magnitude")?;
        self.with_numbers(num_ops, magnitude, bins)
    }

    /// Sets the number of bins: magnitudes are in `0..num_magnitude_bins`. Default 31. A magnitude above
    /// 30 is set after the bins.
    ///
    /// # Errors
    ///
    /// If `num_magnitude_bins` is not in `2..=1000` or not above the magnitude, or the op has a
    /// configuration of timm.
    pub fn num_magnitude_bins(self, num_magnitude_bins: u32) -> Result<Self, ParamError> {
        let [num_ops, magnitude, _] = self.numbers("num_magnitude_bins")?;
        self.with_numbers(num_ops, magnitude, num_magnitude_bins)
    }

    /// Returns torchvision's numbers, which a configuration of timm replaces.
    fn numbers(&self, param: &'static str) -> Result<[u32; 3], ParamError> {
        match self.settings {
            Settings::Torchvision { num_ops, magnitude, bins } => Ok([num_ops, magnitude, bins]),
            Settings::Timm(_) => Err(ParamError::new(
                OP,
                param,
                "given together with timm's configuration",
                "one of the two",
            )),
        }
    }

    fn with_numbers(&self, num_ops: u32, magnitude: u32, bins: u32) -> Result<Self, ParamError> {
        let bins = checked_bins(OP, bins)?;
        if magnitude >= bins {
            let expected = "below num_magnitude_bins";
            return Err(ParamError::new(OP, "magnitude", magnitude, expected));
        }
        let num_ops = checked_count("num_ops", num_ops)?;
        Ok(Self::of(Settings::Torchvision { num_ops, magnitude, bins }, self.look))
    }

    /// timm's `rand_augment_transform(config_str)`: `"rand-m9-mstd0.5-inc1"`.
    ///
    /// A configuration string is `rand`, then sections in any order, separated by dashes. A section is
    /// letters and a number, or `t` and a name. A section without a digit is ignored.
    ///
    /// | section  | default | meaning                                                            |
    /// |----------|--------:|--------------------------------------------------------------------|
    /// | `m9`     |      10 | the magnitude `m`                                                  |
    /// | `n2`     |       2 | actions for a sample                                               |
    /// | `p0.5`   |     0.5 | an action runs if a uniform number is at most this                 |
    /// | `mstd0.5`|       0 | deviation of a normal magnitude; above 100, the magnitude is uniform in `0..m` |
    /// | `mmax10` |      10 | upper limit of the magnitude; 0 means 10                           |
    /// | `inc1`   |       0 | if not 0, the increasing set is used                               |
    /// | `tweights` | –     | the set: `weights`, `3a`, `3aw`; any other name selects the plain or the increasing set |
    ///
    /// If a section is repeated, the last one counts for `m`, `n`, `p` and `inc`, and the first one for
    /// `mstd`, `mmax` and `t`.
    ///
    /// Each of the `n` actions draws: the action, uniformly with replacement, or by weight without; the
    /// coin `p`; the magnitude, clamped to `0..=mmax`; a sign, negative if a uniform number is above 1/2;
    /// and for a warp whether it is bilinear or bicubic. With `l = magnitude / 10`:
    ///
    /// | increasing set                   | argument             | plain set        | argument   |
    /// |----------------------------------|----------------------|------------------|------------|
    /// | Rotate                           | ±30 l degrees        | the same         |            |
    /// | PosterizeIncreasing              | 4 - trunc(4 l) bits  | Posterize        | trunc(4 l) |
    /// | SolarizeIncreasing               | from 256 - min(256, trunc(256 l)) on | Solarize | min(256, trunc(256 l)) |
    /// | SolarizeAdd                      | min(128, trunc(110 l)) to values below 128 | the same |  |
    /// | Color, Contrast, Brightness, Sharpness + Increasing | factor max(0.1, 1 ± 0.9 l) | without | 1.8 l + 0.1 |
    /// | ShearX, ShearY                   | `x_source = x ± 0.3 l (y + 1/2)` | the same |          |
    /// | TranslateXRel, TranslateYRel     | ∓0.45 l of the side, not rounded | the same |         |
    /// | AutoContrast, Equalize, Invert   |                      | the same         |            |
    /// | Desaturate (3a, 3aw)             | factor 1 - (0.5 + 0.5 l), `0..=1` |     |            |
    /// | GaussianBlur (3a, 3aw)           | deviation 0.1 + 1.9 l pixels, `0.1..=2` | |          |
    ///
    /// Draws and arguments are those of timm 1.0 (`timm/data/auto_augment.py`). The actions themselves
    /// are this crate's, which follow torchvision on tensors, while timm uses Pillow. Levels differ by
    /// at most one, with two exceptions: the edge of the area that a warp fills, which Pillow does not
    /// blend, and GaussianBlur, which Pillow approximates by boxes.
    ///
    /// # Errors
    ///
    /// If the string is not a valid configuration, or has more than 16 ops, or more than 2 ops of a
    /// weighted set.
    pub fn timm(config: &str) -> Result<Self, ParamError> {
        let config = Config::parse(config)?;
        checked_count("n", config.n)?;
        config.check_weighted()?;
        Ok(Self::of(Settings::Timm(config), crate::timm::LOOK))
    }

    /// Sets how warps interpolate: nearest by default; for timm's, bilinear or bicubic by a coin.
    #[must_use]
    pub fn interpolation(self, interpolation: WarpInterpolation) -> Self {
        Self::of(
            self.settings,
            WarpOptions { sampling: Sampling::Fixed(interpolation), ..self.look },
        )
    }

    /// Sets the fill colour of warps: black by default, (128, 128, 128) for timm's.
    #[must_use]
    pub fn fill(self, fill: [u8; 3]) -> Self {
        Self::of(self.settings, WarpOptions { fill: Some(fill), ..self.look })
    }

    fn of(settings: Settings, look: WarpOptions) -> Self {
        let ops = match settings {
            Settings::Timm(config) => config.picks(look),
            Settings::Torchvision { num_ops, magnitude, bins } => {
                let space = Space::RandAugment;
                let strength = Strength::Entry { space, bins, index: magnitude };
                let lists = space.actions().iter().map(|action| action.ops(strength, look));
                let pick = Arc::new(Pick::new("RandAugment pick", lists, None, 1.0));
                (0..num_ops).map(|_| pick.clone() as Arc<dyn Op>).collect()
            }
        };
        Self { settings, look, picks: [ChoiceBranch { ops, when: only(0) }] }
    }
}

fn checked_count(param: &'static str, count: u32) -> Result<u32, ParamError> {
    if count <= MOST_OPS { Ok(count) } else { Err(ParamError::new(OP, param, count, "0..=16")) }
}

#[class(Choice)]
impl Op for RandAugment {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_levels(self.name(), input)
    }
}

/// The only outcome runs all picks; each pick is itself a choice.
impl ChoiceOp for RandAugment {
    fn outcomes(&self) -> usize {
        1
    }

    fn branches(&self) -> &[ChoiceBranch] {
        &self.picks
    }

    fn draw(&self, _: &mut Rng) -> usize {
        0
    }
}

/// Builds a `RandAugment` from timm's string or from torchvision's numbers, but not both.
fn rand_augment(args: &OpArgs<'_>) -> Result<RandAugment, SpecError> {
    let [num_ops, magnitude, bins] = ["num_ops", "magnitude", "num_magnitude_bins"];
    let Some(config) = args.if_given("config", OpArgs::text)? else {
        let [num_ops, magnitude] = [args.u32(num_ops)?, args.u32(magnitude)?];
        return Ok(RandAugment::new().with_numbers(num_ops, magnitude, args.u32(bins)?)?);
    };
    if let Some(other) = [num_ops, magnitude, bins].into_iter().find(|name| args.given(name)) {
        let found = format!("given together with {other}");
        return Err(ParamError::new(OP, "config", found, "one of the two").into());
    }
    Ok(RandAugment::timm(&config)?)
}

const RECIPES: [Recipe; 2] = [
    Recipe {
        name: "RandAugment",
        draw: |rng, _| {
            let op = RandAugment::new().num_ops(rng.below(4))?.magnitude(rng.below(31))?;
            let op = op.interpolation(recipe::warp_interpolation(rng));
            Ok(built(if rng.coin(0.5) { op.fill(recipe::color(rng)) } else { op }))
        },
    },
    Recipe {
        name: "RandAugment(timm)",
        draw: |rng, _| {
            let configs = [
                "rand-m9-mstd0.5-inc1",
                "rand-m20-mmax30-p0.9",
                "rand-n3-m5-mstd101",
                "rand-n1-p1-tweights",
                "rand-n2-p0.8-tweights",
                "rand-n2-t3a-p1-mstd3",
                "rand-n2-t3aw-p1",
                "rand-n0",
            ];
            Ok(built(RandAugment::timm(recipe::pick(rng, configs))?))
        },
    },
];

fn build(args: &OpArgs<'_>) -> Result<BuiltOp, SpecError> {
    let mut op = rand_augment(args)?;
    if let Some(given) = args.if_given("interpolation", OpArgs::warp_interpolation)? {
        op = op.interpolation(given);
    }
    if let Some(given) = args.if_given("fill", OpArgs::color)? {
        op = op.fill(given);
    }
    Ok(built(op))
}
