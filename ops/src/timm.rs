//! timm's RandAugment: its configuration strings, its actions and their strengths. The grammar and the
//! tables are in the documentation of [`RandAugment::timm`](crate::RandAugment::timm).

use crate::author::{Op, Rng};
use crate::policy::{Argument, Effect, Pick, Sampling, WarpOptions, leaf};
use crate::random_choice::Weights;
use crate::registry::nearest;
use crate::{Ops, ParamError, Size};
use std::str::FromStr;
use std::sync::Arc;

const OP: &str = "RandAugment";

/// timm's defaults for warps.
pub(crate) const LOOK: WarpOptions =
    WarpOptions { sampling: Sampling::BilinearOrBicubic, fill: Some([128; 3]) };

/// A parsed configuration string.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// Actions for a sample.
    pub n: u32,
    /// The magnitude.
    pub m: u32,
    /// The probability that a drawn action runs.
    pub p: f64,
    /// The magnitude's standard deviation; infinite if the magnitude is uniform.
    pub mstd: f64,
    /// The largest magnitude, if one was given.
    pub mmax: Option<u32>,
    /// The set that actions are drawn from.
    pub set: Set,
}

/// A set of actions, and the probability that each is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Set {
    /// The set in which some actions are weaker for a larger magnitude.
    Plain,
    /// The set in which all actions are stronger for a larger magnitude.
    Increasing,
    /// `tweights`.
    Weights,
    /// `t3a`.
    ThreeAugment,
    /// `t3aw`.
    ThreeAugmentWeights,
}

impl Config {
    /// Reads a configuration string.
    ///
    /// # Errors
    ///
    /// If the string does not begin with `rand`, if a key is none of those above, or if a section's
    /// number is malformed.
    pub fn parse(text: &str) -> Result<Self, ParamError> {
        let mut sections = text.split('-');
        if sections.next() != Some("rand") {
            return Err(refused(&format!("`{text}`")));
        }
        let (mut config, mut mstd, mut set, mut inc) =
            (Self { n: 2, m: 10, p: 0.5, mstd: 0.0, mmax: None, set: Set::Plain }, None, None, 0);
        for section in sections {
            if let Some(name) = section.strip_prefix('t') {
                set = set.or(Some(name));
                continue;
            }
            let Some(digit) = section.find(|c: char| c.is_ascii_digit()) else { continue };
            let (key, value) = section.split_at(digit);
            match key {
                "m" => config.m = number(text, section, value)?,
                "n" => config.n = number(text, section, value)?,
                "p" => config.p = number(text, section, value)?,
                "inc" => inc = number::<u32>(text, section, value)?,
                "mstd" => mstd = mstd.or(Some(number(text, section, value)?)),
                "mmax" => config.mmax = config.mmax.or(Some(number(text, section, value)?)),
                _ => return Err(refused(&format!("`{text}`, with the key `{key}`{}", hint(key)))),
            }
        }
        let mstd: f64 = mstd.unwrap_or(0.0);
        config.mstd = if mstd > 100.0 { f64::INFINITY } else { mstd };
        config.set = match set {
            Some("weights") => Set::Weights,
            Some("3a") => Set::ThreeAugment,
            Some("3aw") => Set::ThreeAugmentWeights,
            _ if inc != 0 => Set::Increasing,
            _ => Set::Plain,
        };
        Ok(config)
    }

    /// Checks that a weighted set has at most two draws. These are without replacement, so the
    /// second draw depends on the first: there is one choice for each first action. A third draw
    /// would need one for each pair.
    pub(crate) fn check_weighted(&self) -> Result<(), ParamError> {
        if self.n > 2 && self.set.weights().is_some() {
            return Err(ParamError::new(OP, "n", self.n, "0..=2 with a weighted set"));
        }
        Ok(())
    }

    /// Returns the choices that draw the actions, one after the other.
    pub(crate) fn picks(&self, look: WarpOptions) -> Ops {
        let Some(weights) = self.set.weights() else {
            let pick: Arc<dyn Op> = Arc::new(self.pick(look, None));
            return (0..self.n).map(|_| Arc::clone(&pick)).collect();
        };
        let first = self.pick(look, Weights::new(weights));
        match self.n {
            0 => vec![],
            1 => vec![Arc::new(first)],
            _ => {
                let others = (0..weights.len()).map(|drawn| {
                    let mut left = weights.to_vec();
                    left[drawn] = 0.0;
                    vec![Arc::new(self.pick(look, Weights::new(&left))) as Arc<dyn Op>]
                });
                vec![Arc::new(first.then(others))]
            }
        }
    }

    fn pick(&self, look: WarpOptions, weights: Option<Weights>) -> Pick {
        let lists = self.set.actions().iter().map(|&action| {
            let level = Level { action, m: self.m, mstd: self.mstd, mmax: self.mmax };
            vec![leaf(action.name(), action.effect(), Arc::new(level), look)]
        });
        Pick::new("RandAugment pick", lists, weights, self.p)
    }
}

/// The keys of sections, except `t`.
const KEYS: [&str; 6] = ["m", "n", "p", "mstd", "mmax", "inc"];

/// Returns a suggestion for a misspelt key, or an empty string.
fn hint(key: &str) -> String {
    let meant = if key.len() > 1 { nearest(key, KEYS) } else { None };
    meant.map_or_else(String::new, |meant| format!(" (did you mean `{meant}`?)"))
}

fn number<T: FromStr>(text: &str, section: &str, value: &str) -> Result<T, ParamError> {
    let read = value.parse();
    read.map_err(|_| refused(&format!("`{text}`, with `{section}`, which has no valid number")))
}

fn refused(found: &str) -> ParamError {
    const EXPECTED: &str = "`rand` and sections like -m9 -n2 -p0.5 -mstd0.5 -mmax10 -inc1 -tweights, m, n, mmax and \
         inc with whole numbers";
    ParamError::new(OP, "config", found, EXPECTED)
}

/// One of timm's actions, by timm's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the table above says what each does")]
pub enum TimmAction {
    AutoContrast,
    Equalize,
    Invert,
    Rotate,
    Posterize,
    PosterizeIncreasing,
    Solarize,
    SolarizeIncreasing,
    SolarizeAdd,
    Color,
    ColorIncreasing,
    Contrast,
    ContrastIncreasing,
    Brightness,
    BrightnessIncreasing,
    Sharpness,
    SharpnessIncreasing,
    ShearX,
    ShearY,
    TranslateXRel,
    TranslateYRel,
    Desaturate,
    GaussianBlur,
}

use TimmAction::{
    AutoContrast, Brightness, BrightnessIncreasing, Color, ColorIncreasing, Contrast,
    ContrastIncreasing, Desaturate, Equalize, GaussianBlur, Invert, Posterize, PosterizeIncreasing,
    Rotate, Sharpness, SharpnessIncreasing, ShearX, ShearY, Solarize, SolarizeAdd,
    SolarizeIncreasing, TranslateXRel, TranslateYRel,
};

#[rustfmt::skip]
const PLAIN: [TimmAction; 15] = [
    AutoContrast, Equalize, Invert, Rotate, Posterize, Solarize, SolarizeAdd, Color, Contrast,
    Brightness, Sharpness, ShearX, ShearY, TranslateXRel, TranslateYRel,
];

#[rustfmt::skip]
const INCREASING: [TimmAction; 15] = [
    AutoContrast, Equalize, Invert, Rotate, PosterizeIncreasing, SolarizeIncreasing, SolarizeAdd,
    ColorIncreasing, ContrastIncreasing, BrightnessIncreasing, SharpnessIncreasing, ShearX, ShearY,
    TranslateXRel, TranslateYRel,
];

#[rustfmt::skip]
const WEIGHTED: ([TimmAction; 15], [f64; 15]) = (
    [
        Rotate, ShearX, ShearY, TranslateXRel, TranslateYRel, ColorIncreasing, SharpnessIncreasing,
        AutoContrast, SolarizeIncreasing, SolarizeAdd, ContrastIncreasing, BrightnessIncreasing,
        Equalize, PosterizeIncreasing, Invert,
    ],
    [3.0, 2.0, 2.0, 1.0, 1.0, 0.25, 0.25, 0.25, 0.05, 0.05, 0.05, 0.05, 0.05, 0.05, 0.05],
);

#[rustfmt::skip]
const THREE_WEIGHTED: ([TimmAction; 14], [f64; 14]) = (
    [
        SolarizeIncreasing, Desaturate, GaussianBlur, Rotate, ShearX, ShearY, PosterizeIncreasing,
        AutoContrast, ColorIncreasing, SharpnessIncreasing, ContrastIncreasing,
        BrightnessIncreasing, Equalize, Invert,
    ],
    [6.0, 6.0, 6.0, 3.0, 2.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0],
);

impl Set {
    /// Returns the actions, in timm's order.
    #[must_use]
    pub const fn actions(self) -> &'static [TimmAction] {
        match self {
            Self::Plain => &PLAIN,
            Self::Increasing => &INCREASING,
            Self::Weights => &WEIGHTED.0,
            Self::ThreeAugment => &[SolarizeIncreasing, Desaturate, GaussianBlur],
            Self::ThreeAugmentWeights => &THREE_WEIGHTED.0,
        }
    }

    /// Returns the relative probabilities of the actions; `None` if all are equal.
    #[must_use]
    pub const fn weights(self) -> Option<&'static [f64]> {
        match self {
            Self::Weights => Some(&WEIGHTED.1),
            Self::ThreeAugmentWeights => Some(&THREE_WEIGHTED.1),
            Self::Plain | Self::Increasing | Self::ThreeAugment => None,
        }
    }
}

impl TimmAction {
    /// Returns timm's name of the action.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            AutoContrast => "AutoContrast",
            Equalize => "Equalize",
            Invert => "Invert",
            Rotate => "Rotate",
            Posterize => "Posterize",
            PosterizeIncreasing => "PosterizeIncreasing",
            Solarize => "Solarize",
            SolarizeIncreasing => "SolarizeIncreasing",
            SolarizeAdd => "SolarizeAdd",
            Color => "Color",
            ColorIncreasing => "ColorIncreasing",
            Contrast => "Contrast",
            ContrastIncreasing => "ContrastIncreasing",
            Brightness => "Brightness",
            BrightnessIncreasing => "BrightnessIncreasing",
            Sharpness => "Sharpness",
            SharpnessIncreasing => "SharpnessIncreasing",
            ShearX => "ShearX",
            ShearY => "ShearY",
            TranslateXRel => "TranslateXRel",
            TranslateYRel => "TranslateYRel",
            Desaturate => "Desaturate",
            GaussianBlur => "GaussianBlur",
        }
    }

    /// Returns timm's argument of the action at a magnitude; `None` if the action has no argument.
    #[must_use]
    pub fn argument(self, magnitude: f64, negated: bool) -> Option<f64> {
        let level = magnitude / 10.0;
        let signed = |value: f64| if negated { -value } else { value };
        Some(match self {
            AutoContrast | Equalize | Invert => return None,
            Rotate => signed(level * 30.0),
            Posterize => (level * 4.0).trunc(),
            PosterizeIncreasing => 4.0 - (level * 4.0).trunc(),
            Solarize => (level * 256.0).trunc().min(256.0),
            SolarizeIncreasing => 256.0 - (level * 256.0).trunc().min(256.0),
            SolarizeAdd => (level * 110.0).trunc().min(128.0),
            Color | Contrast | Brightness | Sharpness => level * 1.8 + 0.1,
            ColorIncreasing | ContrastIncreasing | BrightnessIncreasing | SharpnessIncreasing => {
                (1.0 + signed(level * 0.9)).max(0.1)
            }
            ShearX | ShearY => signed(level * 0.3),
            TranslateXRel | TranslateYRel => signed(level * 0.45),
            Desaturate => (0.5 + (1.0 - 0.5) * level).clamp(0.5, 1.0),
            GaussianBlur => (0.1 + (2.0 - 0.1) * level).clamp(0.1, 2.0),
        })
    }

    const fn is_signed(self) -> bool {
        matches!(
            self,
            Rotate
                | ColorIncreasing
                | ContrastIncreasing
                | BrightnessIncreasing
                | SharpnessIncreasing
                | ShearX
                | ShearY
                | TranslateXRel
                | TranslateYRel
        )
    }

    const fn effect(self) -> Effect {
        match self {
            AutoContrast => Effect::Autocontrast,
            Equalize => Effect::Equalize,
            Invert => Effect::Invert,
            Rotate => Effect::Rotate,
            Posterize | PosterizeIncreasing => Effect::Posterize,
            Solarize | SolarizeIncreasing => Effect::Solarize,
            SolarizeAdd => Effect::SolarizeAdd,
            Color | ColorIncreasing | Desaturate => Effect::Saturation,
            Contrast | ContrastIncreasing => Effect::Contrast,
            Brightness | BrightnessIncreasing => Effect::Brightness,
            Sharpness | SharpnessIncreasing => Effect::Sharpness,
            ShearX => Effect::ShearX,
            ShearY => Effect::ShearY,
            TranslateXRel => Effect::MoveX,
            TranslateYRel => Effect::MoveY,
            GaussianBlur => Effect::Blur,
        }
    }
}

/// An action whose strength is drawn for each sample.
#[derive(Clone, Copy, Debug)]
struct Level {
    action: TimmAction,
    m: u32,
    mstd: f64,
    mmax: Option<u32>,
}

impl Level {
    fn magnitude(&self, rng: &mut Rng) -> f64 {
        let m = f64::from(self.m);
        let drawn = if self.mstd.is_infinite() {
            f64::from(rng.unit()) * m
        } else if self.mstd > 0.0 {
            m + self.mstd * f64::from(rng.normal())
        } else {
            m
        };
        let most = self.mmax.filter(|most| *most > 0).unwrap_or(10);
        drawn.clamp(0.0, f64::from(most))
    }
}

impl Argument for Level {
    fn draw(&self, rng: &mut Rng, size: Size) -> f64 {
        let magnitude = self.magnitude(rng);
        let negated = self.action.is_signed() && rng.unit() > 0.5;
        let argument = self.action.argument(magnitude, negated).unwrap_or_default();
        match self.action {
            // timm's argument is the offset of the source pixel, so the image moves in the opposite
            // direction.
            TranslateXRel => -argument * f64::from(size.width),
            TranslateYRel => -argument * f64::from(size.height),
            Desaturate => 1.0 - argument,
            _ => argument,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RandAugment;
    use crate::author::{ChoiceOp, OpClass};
    use crate::rng::SampleKey;

    #[test]
    fn a_usual_string_is_read() {
        let config = Config::parse("rand-m9-mstd0.5-inc1").unwrap();
        let set = Set::Increasing;
        assert_eq!(config, Config { n: 2, m: 9, p: 0.5, mstd: 0.5, mmax: None, set });
    }

    #[test]
    fn a_wrong_key_is_named_with_the_one_that_was_meant() {
        let message = |text| Config::parse(text).unwrap_err().to_string();
        assert_eq!(
            message("rand-m9-mst0.5"),
            "RandAugment: config is `rand-m9-mst0.5`, with the key `mst` (did you mean `mstd`?), \
             expected `rand` and sections like -m9 -n2 -p0.5 -mstd0.5 -mmax10 -inc1 -tweights, m, \
             n, mmax and inc with whole numbers"
        );
        assert!(message("rand-w0").contains("with the key `w`, expected"));
        assert!(message("rand-m9x").contains("with `m9x`, which has no valid number"));
        assert!(message("augmix-m3").contains("config is `augmix-m3`, expected"));
    }

    #[test]
    fn magnitudes_are_normal_or_uniform_and_clamped() {
        let draw = |config: &str| -> Vec<f64> {
            let Config { m, mstd, mmax, .. } = Config::parse(config).unwrap();
            let level = Level { action: Rotate, m, mstd, mmax };
            let rng = |sample| SampleKey::new(1, 2, sample).op(3);
            (0..4000).map(|sample| level.magnitude(&mut rng(sample))).collect()
        };
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        assert_eq!(draw("rand-m20")[0], 10.0);
        assert_eq!(draw("rand-m20-mmax0")[0], 10.0);
        assert_eq!(draw("rand-m20-mmax30")[0], 20.0);
        let normal = draw("rand-m5-mstd0.5");
        let variance = mean(&normal.iter().map(|v| (v - 5.0).powi(2)).collect::<Vec<_>>());
        assert!((mean(&normal) - 5.0).abs() < 0.05 && (variance - 0.25).abs() < 0.03);
        let uniform = draw("rand-m8-mstd101");
        assert!((mean(&uniform) - 4.0).abs() < 0.15 && uniform.iter().all(|v| *v < 8.0));
        assert!(draw("rand-m9-mstd5").iter().all(|v| (0.0..=10.0).contains(v)));
    }

    #[test]
    fn an_action_runs_for_a_share_p_of_the_samples() {
        let config = Config::parse("rand-p0.25").unwrap();
        let pick = config.pick(LOOK, None);
        let draw = |sample| pick.draw(&mut SampleKey::new(1, 2, sample).op(3));
        let ran = (0..4000).filter(|sample| draw(*sample) < 15).count();
        assert!((900..1100).contains(&ran), "{ran}");
    }

    #[test]
    fn weighted_actions_are_drawn_without_replacement() {
        let config = Config::parse("rand-tweights-p1").unwrap();
        let picks = config.picks(LOOK);
        let OpClass::Choice(first) = picks[0].class() else { panic!("a choice") };
        for (index, member) in first.branches()[15..].iter().enumerate() {
            assert_eq!(member.when, 1 << index | 1 << (15 + index));
            let OpClass::Choice(second) = member.ops[0].class() else { panic!("a choice") };
            let draw = |sample| second.draw(&mut SampleKey::new(1, 2, sample).op(3));
            assert!((0..500).all(|sample| draw(sample) != index));
        }
    }

    #[test]
    fn more_than_can_be_compiled_is_refused() {
        assert!(RandAugment::timm("rand-n16").is_ok());
        assert!(RandAugment::timm("rand-n17").is_err());
        assert!(RandAugment::timm("rand-n2-t3aw").is_ok());
        assert!(RandAugment::timm("rand-n3-t3aw").is_err());
    }

    /// timm's argument is a share of the width or of the height. Both signs are equally frequent.
    #[test]
    fn a_translation_is_a_share_of_its_own_side() {
        for (action, side) in [(TranslateXRel, 200.0), (TranslateYRel, 100.0)] {
            let level = Level { action, m: 10, mstd: 0.0, mmax: None };
            let rng = |sample| SampleKey::new(1, 2, sample).op(3);
            let draw = |sample| level.draw(&mut rng(sample), Size::new(100, 200));
            let drawn: Vec<f64> = (0..1000).map(draw).collect();
            assert!(drawn.iter().all(|by| (by.abs() - 0.45 * side).abs() < 1e-9), "{:?}", drawn[0]);
            let left = drawn.iter().filter(|by| **by < 0.0).count();
            assert!((420..580).contains(&left), "{left}");
        }
    }
}
