//! AutoAugment: one of 25 pairs of actions, found by search, drawn for each sample.
//!
//! Cubuk et al., arXiv:1805.09501, as torchvision's `AutoAugment` does it.
//!
//! ```text
//! one of the 25 sub-policies; its first action if a uniform number is at most its probability;
//! then its second likewise. A magnitude is an entry of a table of 10, negated by a coin if signed
//! ```
//!
//! | | |
//! |--------|----------------------------------------------------------------------|
//! | input  | u8 image                                                             |
//! | output | as the input                                                         |
//! | random | the sub-policy, two coins; then each action's sign                   |
//! | cost   | of the actions: two loops over the picture at most                   |
//!
//! Actions and tables: [`policy`](crate::policy). The draw has 100 outcomes, `4 * sub-policy + 2 *
//! first + second`. An action of one magnitude that several sub-policies have in the same place is
//! one op, which runs for the outcomes of all of them.

use crate::op::on_u8_image;
use crate::policy::{Action, Look, Sampling, Space, Strength};
use crate::rows::WarpInterpolation;
use crate::{ChoiceOp, Class, Member, Op, Rng, Type, TypeError};
use Action::{
    AutoContrast, Brightness, Color, Contrast, Equalize, Invert, Posterize, Rotate, Sharpness,
    ShearX, ShearY, Solarize, TranslateX, TranslateY,
};

/// Which data set's policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Policy {
    /// ImageNet's: mostly colours, and turns.
    ImageNet,
    /// CIFAR-10's: colours, shears, translations.
    Cifar10,
    /// SVHN's, the street's house numbers: shears, inversions.
    Svhn,
}

/// An action, the share of the samples for which it runs, and the entry of its table.
type Step = (Action, f64, u32);

/// What is done one after the other.
type SubPolicy = [Step; 2];

impl Policy {
    /// Its 25 pairs of actions, each with its probability and the entry of its table, 0 if it has
    /// none.
    #[must_use]
    pub const fn sub_policies(self) -> &'static [[(Action, f64, u32); 2]; 25] {
        match self {
            Self::ImageNet => &IMAGENET,
            Self::Cifar10 => &CIFAR10,
            Self::Svhn => &SVHN,
        }
    }
}

/// Runs one of 25 pairs of actions.
#[derive(Clone, Debug)]
pub struct AutoAugment {
    policy: Policy,
    look: Look,
    members: Vec<Member>,
}

impl AutoAugment {
    /// By the policy that was found for a data set. torchvision's default is ImageNet's.
    #[must_use]
    pub fn new(policy: Policy) -> Self {
        Self::of(policy, Look::default())
    }

    /// How warps read between pixels: nearest by default.
    #[must_use]
    pub fn interpolation(self, interpolation: WarpInterpolation) -> Self {
        Self::of(self.policy, Look { sampling: Sampling::Fixed(interpolation), ..self.look })
    }

    /// The colour of what comes in from outside: black by default.
    #[must_use]
    pub fn fill(self, fill: [u8; 3]) -> Self {
        Self::of(self.policy, Look { fill: Some(fill), ..self.look })
    }

    fn of(policy: Policy, look: Look) -> Self {
        let steps = policy.sub_policies();
        let members = [0, 1].iter().flat_map(|&place| {
            let mut found: Vec<(Action, u32, u128)> = vec![];
            for (index, sub_policy) in steps.iter().enumerate() {
                let (action, _, entry) = sub_policy[place];
                let when = outcomes_with(index, place);
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
            Member { ops, when }
        });
        Self { policy, look, members: members.collect() }
    }
}

/// The outcomes of a sub-policy whose action in `place` runs.
fn outcomes_with(sub_policy: usize, place: usize) -> u128 {
    let runs = [0b1100, 0b1010][place];
    runs << (4 * sub_policy)
}

impl Op for AutoAugment {
    fn name(&self) -> &'static str {
        "AutoAugment"
    }

    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_u8_image(self.name(), input, |image| image)
    }

    fn class(&self) -> Class<'_> {
        Class::Choice(self)
    }
}

impl ChoiceOp for AutoAugment {
    fn outcomes(&self) -> usize {
        100
    }

    fn members(&self) -> &[Member] {
        &self.members
    }

    fn draw(&self, rng: &mut Rng) -> usize {
        let index = rng.below(25) as usize;
        let coins = self.policy.sub_policies()[index]
            .map(|(_, p, _)| usize::from(f64::from(rng.unit()) <= p));
        4 * index + 2 * coins[0] + coins[1]
    }
}

/// Of the paper, for ImageNet.
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

/// Of the paper, for CIFAR-10.
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

/// Of the paper, for SVHN.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SampleKey;

    const POLICIES: [Policy; 3] = [Policy::ImageNet, Policy::Cifar10, Policy::Svhn];

    /// The name of the op that an action is.
    const fn op_of(action: Action) -> &'static str {
        match action {
            AutoContrast => "RandomAutocontrast",
            Equalize => "RandomEqualize",
            Invert => "RandomInvert",
            action => action.name(),
        }
    }

    /// The ops that an outcome runs.
    fn run_by(op: &AutoAugment, outcome: usize) -> Vec<&'static str> {
        let runs = op.members().iter().filter(|member| member.when >> outcome & 1 == 1);
        runs.flat_map(|member| &member.ops).map(|op| op.name()).collect()
    }

    #[test]
    fn every_outcome_runs_what_its_sub_policy_and_coins_say() {
        for policy in POLICIES {
            let op = AutoAugment::new(policy);
            for (index, [(first, ..), (second, ..)]) in policy.sub_policies().iter().enumerate() {
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
        let op = AutoAugment::new(Policy::ImageNet);
        let equalizes =
            op.members().iter().filter(|member| member.ops[0].name() == "RandomEqualize");
        assert_eq!(equalizes.count(), 2, "one in each place");
    }

    #[test]
    fn actions_run_as_often_as_the_policy_says() {
        let op = AutoAugment::new(Policy::Svhn);
        let draws: Vec<usize> =
            (0..20_000).map(|sample| op.draw(&mut SampleKey::new(1, 2, sample).op(3))).collect();
        for (index, [(_, first, _), (_, second, _)]) in
            Policy::Svhn.sub_policies().iter().enumerate()
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
