//! AutoAugment: one of 25 pairs of actions, which were found by search.

use crate::TypeError;
use crate::author::{ChoiceBranch, ChoiceOp, Rng, Type};
use crate::op::{Op, class, on_levels};
use crate::policy::{Action, Sampling, Space, Strength, WarpOptions};
use crate::registry::{Given, OpArgs, ParamKind, SpecError};
use crate::rows::WarpInterpolation;
use Action::{
    AutoContrast, Brightness, Color, Contrast, Equalize, Invert, Posterize, Rotate, Sharpness,
    ShearX, ShearY, Solarize, TranslateX, TranslateY,
};

/// The data set that the policy was found for.
///
/// ```
/// # use fuseloop_ops::*;
/// let cifar = AutoAugment::new().policy(Policy::Cifar10);
/// # let _ = cifar;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Policy {
    /// ImageNet: mostly colour changes and rotations.
    ImageNet,
    /// CIFAR-10: colour changes, shears, translations.
    Cifar10,
    /// SVHN (street view house numbers): shears, inversions.
    Svhn,
}

/// An action, the share of the samples for which it runs, and the entry of its table.
type Step = (Action, f64, u32);

/// Two steps, applied one after the other.
type SubPolicy = [Step; 2];

/// Returns the 25 pairs of actions of a policy, each action with its probability and its entry in the
/// table of magnitudes, which is 0 if the action has no table.
#[must_use]
pub const fn sub_policies(policy: Policy) -> &'static [[(Action, f64, u32); 2]; 25] {
    match policy {
        Policy::ImageNet => &IMAGENET,
        Policy::Cifar10 => &CIFAR10,
        Policy::Svhn => &SVHN,
    }
}

/// Runs one of 25 pairs of actions, which were found by search and are drawn for each sample.
///
#[cfg_attr(doc, doc = include_str!("../pictures/AutoAugment.md"))]
///
/// The method is by Cubuk et al., arXiv:1805.09501; the details are those of torchvision's
/// `AutoAugment`.
///
/// ```text
/// draw one of the 25 sub-policies; run its first action if a uniform number is at most its probability,
/// then its second likewise. A magnitude is an entry of a table of 10; a coin negates it if signed
/// ```
///
/// | | |
/// |--------|-------------------------------------------------------|
/// | input  | image of levels                                              |
/// | output | as the input                                          |
/// | random | the sub-policy, two coins; then each action's sign    |
/// | cost   | that of the actions: at most two loops over the image |
///
/// The draw has 100 outcomes,
/// `4 * sub-policy + 2 * first + second`. If several sub-policies have the same action with the same
/// magnitude at the same position, it is one op, which runs for the outcomes of all of them.
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![AutoAugment::new().policy(Policy::Cifar10)];
/// # Ok::<(), ParamError>(())
/// ```
///
/// # Actions
///
/// The actions of all policies, and the effect of each at magnitude `m`:
///
/// | action                     | effect at magnitude `m`                                         |
/// |----------------------------|-----------------------------------------------------------------|
/// | Identity                   | nothing                                                         |
/// | ShearX, ShearY             | row `y` is moved by `m * (y + 1/2)` columns to the left; likewise down |
/// | TranslateX, TranslateY     | moved by `trunc(m)` pixels to the right; likewise down          |
/// | Rotate                     | rotated by `m` degrees, counter-clockwise, about the middle     |
/// | Brightness, Color, Contrast, Sharpness | the factor is `1 + m`; Color is the saturation      |
/// | Posterize                  | `m` bits are kept                                               |
/// | Solarize                   | values at or above `255 * m` are inverted                       |
/// | AutoContrast, Equalize, Invert | no magnitude                                                |
///
/// They are defined in `_apply_image_or_video_transform` of torchvision's `transforms.v2.AutoAugment`.
#[derive(Op, Clone, Debug)]
#[op(POLICY, "runs one of 25 pairs of actions, found by search for a data set", constructor = new)]
#[param(policy: Policy, "whose pairs", default = Policy::ImageNet, draw = recipe::pick(rng, POLICIES).1)]
#[param(interpolation: WarpInterpolation, "interpolation of warps; default: nearest", optional,
    draw = Some(recipe::warp_interpolation(rng)))]
#[param(fill: [u8; 3], "fill colour outside the image; default: black", optional,
    draw = rng.coin(0.5).then(|| recipe::color(rng)))]
pub struct AutoAugment {
    policy: Policy,
    look: WarpOptions,
    members: Vec<ChoiceBranch>,
}

impl Default for AutoAugment {
    fn default() -> Self {
        Self::new()
    }
}

impl AutoAugment {
    /// Builds the op with the policy that was found for ImageNet.
    #[must_use]
    pub fn new() -> Self {
        Self::of(Policy::ImageNet, WarpOptions::default())
    }

    /// Sets the data set whose policy is used. Default [`Policy::ImageNet`].
    #[must_use]
    pub fn policy(self, policy: Policy) -> Self {
        Self::of(policy, self.look)
    }

    /// Sets how warps interpolate between pixels. The default is nearest.
    #[must_use]
    pub fn interpolation(self, interpolation: WarpInterpolation) -> Self {
        Self::of(self.policy, WarpOptions { sampling: Sampling::Fixed(interpolation), ..self.look })
    }

    /// Sets the colour of pixels from outside the image. The default is black.
    #[must_use]
    pub fn fill(self, fill: [u8; 3]) -> Self {
        Self::of(self.policy, WarpOptions { fill: Some(fill), ..self.look })
    }

    fn of(policy: Policy, look: WarpOptions) -> Self {
        let steps = sub_policies(policy);
        let members = [0, 1].iter().flat_map(|&position| {
            let mut found: Vec<(Action, u32, u128)> = vec![];
            for (index, sub_policy) in steps.iter().enumerate() {
                let (action, _, entry) = sub_policy[position];
                let when = outcomes_with(index, position);
                match found.iter_mut().find(|(a, e, _)| (*a, *e) == (action, entry)) {
                    Some((_, _, mask)) => *mask |= when,
                    None => found.push((action, entry, when)),
                }
            }
            found
        });
        let members = members.map(|(action, index, when)| {
            let (space, bins) = (Space::AutoAugment, Space::AutoAugment.default_bins());
            let ops = action.ops(Strength::Entry { space, bins, index }, look);
            ChoiceBranch { ops, when }
        });
        Self { policy, look, members: members.collect() }
    }
}

/// Returns the mask of the outcomes in which action `position` of a sub-policy runs.
fn outcomes_with(sub_policy: usize, position: usize) -> u128 {
    let runs = [0b1100, 0b1010][position];
    runs << (4 * sub_policy)
}

#[class(Choice)]
impl Op for AutoAugment {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_levels(self.name(), input)
    }
}

impl ChoiceOp for AutoAugment {
    fn outcomes(&self) -> usize {
        100
    }

    fn branches(&self) -> &[ChoiceBranch] {
        &self.members
    }

    fn draw(&self, rng: &mut Rng) -> usize {
        let index = rng.below(25) as usize;
        let coins = sub_policies(self.policy)[index]
            .map(|(_, p, _)| usize::from(f64::from(rng.unit()) <= p));
        4 * index + 2 * coins[0] + coins[1]
    }
}

/// The policy of the paper for ImageNet.
#[rustfmt::skip]
const IMAGENET: [SubPolicy; 25] = [
    [(Posterize, 0.4, 8), (Rotate, 0.6, 9)],
    [(Solarize, 0.6, 5), (AutoContrast, 0.6, 0)],
    [(Equalize, 0.8, 0), (Equalize, 0.6, 0)],
    [(Posterize, 0.6, 7), (Posterize, 0.6, 6)],
    [(Equalize, 0.4, 0), (Solarize, 0.2, 4)],
    [(Equalize, 0.4, 0), (Rotate, 0.8, 8)],
    [(Solarize, 0.6, 3), (Equalize, 0.6, 0)],
    [(Posterize, 0.8, 5), (Equalize, 1.0, 0)],
    [(Rotate, 0.2, 3), (Solarize, 0.6, 8)],
    [(Equalize, 0.6, 0), (Posterize, 0.4, 6)],
    [(Rotate, 0.8, 8), (Color, 0.4, 0)],
    [(Rotate, 0.4, 9), (Equalize, 0.6, 0)],
    [(Equalize, 0.0, 0), (Equalize, 0.8, 0)],
    [(Invert, 0.6, 0), (Equalize, 1.0, 0)],
    [(Color, 0.6, 4), (Contrast, 1.0, 8)],
    [(Rotate, 0.8, 8), (Color, 1.0, 2)],
    [(Color, 0.8, 8), (Solarize, 0.8, 7)],
    [(Sharpness, 0.4, 7), (Invert, 0.6, 0)],
    [(ShearX, 0.6, 5), (Equalize, 1.0, 0)],
    [(Color, 0.4, 0), (Equalize, 0.6, 0)],
    [(Equalize, 0.4, 0), (Solarize, 0.2, 4)],
    [(Solarize, 0.6, 5), (AutoContrast, 0.6, 0)],
    [(Invert, 0.6, 0), (Equalize, 1.0, 0)],
    [(Color, 0.6, 4), (Contrast, 1.0, 8)],
    [(Equalize, 0.8, 0), (Equalize, 0.6, 0)],
];

/// The policy of the paper for CIFAR-10.
#[rustfmt::skip]
const CIFAR10: [SubPolicy; 25] = [
    [(Invert, 0.1, 0), (Contrast, 0.2, 6)],
    [(Rotate, 0.7, 2), (TranslateX, 0.3, 9)],
    [(Sharpness, 0.8, 1), (Sharpness, 0.9, 3)],
    [(ShearY, 0.5, 8), (TranslateY, 0.7, 9)],
    [(AutoContrast, 0.5, 0), (Equalize, 0.9, 0)],
    [(ShearY, 0.2, 7), (Posterize, 0.3, 7)],
    [(Color, 0.4, 3), (Brightness, 0.6, 7)],
    [(Sharpness, 0.3, 9), (Brightness, 0.7, 9)],
    [(Equalize, 0.6, 0), (Equalize, 0.5, 0)],
    [(Contrast, 0.6, 7), (Sharpness, 0.6, 5)],
    [(Color, 0.7, 7), (TranslateX, 0.5, 8)],
    [(Equalize, 0.3, 0), (AutoContrast, 0.4, 0)],
    [(TranslateY, 0.4, 3), (Sharpness, 0.2, 6)],
    [(Brightness, 0.9, 6), (Color, 0.2, 8)],
    [(Solarize, 0.5, 2), (Invert, 0.0, 0)],
    [(Equalize, 0.2, 0), (AutoContrast, 0.6, 0)],
    [(Equalize, 0.2, 0), (Equalize, 0.6, 0)],
    [(Color, 0.9, 9), (Equalize, 0.6, 0)],
    [(AutoContrast, 0.8, 0), (Solarize, 0.2, 8)],
    [(Brightness, 0.1, 3), (Color, 0.7, 0)],
    [(Solarize, 0.4, 5), (AutoContrast, 0.9, 0)],
    [(TranslateY, 0.9, 9), (TranslateY, 0.7, 9)],
    [(AutoContrast, 0.9, 0), (Solarize, 0.8, 3)],
    [(Equalize, 0.8, 0), (Invert, 0.1, 0)],
    [(TranslateY, 0.7, 9), (AutoContrast, 0.9, 0)],
];

/// The policy of the paper for SVHN.
#[rustfmt::skip]
const SVHN: [SubPolicy; 25] = [
    [(ShearX, 0.9, 4), (Invert, 0.2, 0)],
    [(ShearY, 0.9, 8), (Invert, 0.7, 0)],
    [(Equalize, 0.6, 0), (Solarize, 0.6, 6)],
    [(Invert, 0.9, 0), (Equalize, 0.6, 0)],
    [(Equalize, 0.6, 0), (Rotate, 0.9, 3)],
    [(ShearX, 0.9, 4), (AutoContrast, 0.8, 0)],
    [(ShearY, 0.9, 8), (Invert, 0.4, 0)],
    [(ShearY, 0.9, 5), (Solarize, 0.2, 6)],
    [(Invert, 0.9, 0), (AutoContrast, 0.8, 0)],
    [(Equalize, 0.6, 0), (Rotate, 0.9, 3)],
    [(ShearX, 0.9, 4), (Solarize, 0.3, 3)],
    [(ShearY, 0.8, 8), (Invert, 0.7, 0)],
    [(Equalize, 0.9, 0), (TranslateY, 0.6, 6)],
    [(Invert, 0.9, 0), (Equalize, 0.6, 0)],
    [(Contrast, 0.3, 3), (Rotate, 0.8, 4)],
    [(Invert, 0.8, 0), (TranslateY, 0.0, 2)],
    [(ShearY, 0.7, 6), (Solarize, 0.4, 8)],
    [(Invert, 0.6, 0), (Rotate, 0.8, 4)],
    [(ShearY, 0.3, 7), (TranslateX, 0.9, 3)],
    [(ShearX, 0.1, 6), (Invert, 0.6, 0)],
    [(Solarize, 0.7, 2), (TranslateY, 0.6, 7)],
    [(ShearY, 0.8, 4), (Invert, 0.8, 0)],
    [(ShearX, 0.7, 9), (TranslateY, 0.8, 3)],
    [(ShearY, 0.8, 5), (AutoContrast, 0.7, 0)],
    [(ShearX, 0.7, 2), (Invert, 0.1, 0)],
];

/// Every policy, by the name a user writes.
const POLICIES: [(&str, Policy); 3] =
    [("imagenet", Policy::ImageNet), ("cifar10", Policy::Cifar10), ("svhn", Policy::Svhn)];

impl Policy {
    /// Returns the name that a user writes.
    pub(crate) const fn word(self) -> &'static str {
        POLICIES[self as usize].0
    }
}

impl Given for Policy {
    const KIND: ParamKind = ParamKind::Word(&[POLICIES[0].0, POLICIES[1].0, POLICIES[2].0]);

    fn read(args: &OpArgs<'_>, name: &str) -> Result<Self, SpecError> {
        args.choice(name, &POLICIES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::SampleKey;

    const POLICIES: [Policy; 3] = [Policy::ImageNet, Policy::Cifar10, Policy::Svhn];

    /// Returns the name of the op that implements an action.
    const fn op_of(action: Action) -> &'static str {
        match action {
            AutoContrast => "RandomAutocontrast",
            Equalize => "RandomEqualize",
            Invert => "RandomInvert",
            action => action.name(),
        }
    }

    /// Returns the ops that an outcome runs.
    fn run_by(op: &AutoAugment, outcome: usize) -> Vec<&'static str> {
        let runs = op.branches().iter().filter(|member| member.when >> outcome & 1 == 1);
        runs.flat_map(|member| &member.ops).map(|op| op.name()).collect()
    }

    #[test]
    fn every_outcome_runs_what_its_sub_policy_and_coins_say() {
        for policy in POLICIES {
            let op = AutoAugment::new().policy(policy);
            for (index, [(first, ..), (second, ..)]) in sub_policies(policy).iter().enumerate() {
                let names = |coins| run_by(&op, 4 * index + coins);
                assert_eq!(names(0b00), [] as [&str; 0]);
                assert_eq!(names(0b01), [op_of(*second)]);
                assert_eq!(names(0b10), [op_of(*first)]);
                assert_eq!(names(0b11), [op_of(*first), op_of(*second)]);
            }
        }
    }

    #[test]
    fn equal_actions_in_one_place_are_one_op() {
        let op = AutoAugment::new();
        let equalizes =
            op.branches().iter().filter(|member| member.ops[0].name() == "RandomEqualize");
        assert_eq!(equalizes.count(), 2, "one in each place");
    }

    #[test]
    fn actions_run_as_often_as_the_policy_says() {
        let op = AutoAugment::new().policy(Policy::Svhn);
        let draws: Vec<usize> =
            (0..20_000).map(|sample| op.draw(&mut SampleKey::new(1, 2, sample).op(3))).collect();
        for (index, [(_, first, _), (_, second, _)]) in
            sub_policies(Policy::Svhn).iter().enumerate()
        {
            let drawn: Vec<usize> = draws.iter().copied().filter(|d| d / 4 == index).collect();
            let share = |bit: usize| {
                drawn.iter().filter(|d| *d & bit != 0).count() as f64 / drawn.len() as f64
            };
            assert!((650..950).contains(&drawn.len()), "{}", drawn.len());
            assert!((share(0b10) - first).abs() < 0.07 && (share(0b01) - second).abs() < 0.07);
        }
    }
}
