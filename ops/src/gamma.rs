//! Gamma: every value raised to a power.

use crate::author::{Histogram, LevelTable, Rng, TableOp, Type};
use crate::op::{Op, class, on_levels};
use crate::{NumberRule, TypeError};

/// Raises every value to a power.
///
#[cfg_attr(doc, doc = include_str!("../pictures/Gamma.md"))]
///
/// ```text
/// out = 255 * clamp(gain * (in / 255)^gamma)      clamped to 0..=1
/// ```
///
/// | | |
/// |--------|--------------------------|
/// | input  | image of levels                 |
/// | output | as the input             |
/// | random | nothing                  |
/// | cost   | one look-up per value    |
///
/// Under the Exact rule this is torchvision's `adjust_gamma` on u8 tensors, to the bit: the value is
/// multiplied by `f32(1 / 255)`, the power is rounded to `f32` and multiplied by the gain and by
/// 255.999, and the product is truncated. Under the Fused rule the result is multiplied by 255 and not
/// truncated.
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![Gamma::new(0.5)?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq)]
#[op(COLOR, "raises every value, of 0 to 1, to a power")]
pub struct Gamma {
    /// Builds the op with the power `gamma`, for values in `0..=1`.
    #[param("the power; above 1 is darker", not_negative, example = 2.2, draw = 0.0..=3.0)]
    gamma: f32,
    /// Sets a factor that the power is multiplied by.
    #[param("a factor after it", not_negative, default = 1.0, draw = 0.5..=2.0)]
    gain: f32,
}

#[class(Table)]
impl Op for Gamma {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_levels(self.name(), input)
    }

    fn does_nothing(&self, _: &Type) -> bool {
        (self.gamma, self.gain) == (1.0, 1.0)
    }
}

impl TableOp for Gamma {
    fn table(&self, rule: NumberRule, _: &[f32], _: &[Histogram], out: &mut [LevelTable]) {
        out.fill(powers(rule, self.gamma, self.gain));
    }
}

/// Raises every value of a share `p` of the images to a random power.
///
#[cfg_attr(doc, doc = include_str!("../pictures/RandomGamma.md"))]
///
/// ```text
/// out = 255 * (in / 255)^gamma
/// ```
///
/// | | |
/// |--------|-----------------------------------------------------|
/// | input  | image of levels                                            |
/// | output | as the input                                        |
/// | random | a coin `p`, then `gamma` uniform in `low..high`     |
/// | cost   | one look-up per value, and 256 powers per sample    |
///
/// The values are rounded in the same way as by [`Gamma`].
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![RandomGamma::new(0.8..=1.25)?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq)]
#[op(
    COLOR,
    "raises the values, of 0 to 1, of a share p of the images to a random power",
    golden = "a Gamma, which has goldens, with a drawn power"
)]
pub struct RandomGamma {
    /// Builds the op with a power in `gamma` for half of the images. If the bounds are equal, the power is
    /// fixed.
    #[param("range of the power", not_negative, example = 0.8..=1.2, draw = recipe::range(rng, 0.0, 2.0, 1.0))]
    gamma: (f32, f32),
    #[param(share)]
    p: f64,
}

#[class(Table)]
impl Op for RandomGamma {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_levels(self.name(), input)
    }

    fn does_nothing(&self, _: &Type) -> bool {
        self.p == 0.0 || self.gamma == (1.0, 1.0)
    }
}

/// Drawn parameters: the power.
impl TableOp for RandomGamma {
    fn param_count(&self) -> usize {
        1
    }

    fn draw(&self, rng: &mut Rng, params: &mut [f32]) -> bool {
        let runs = rng.coin(self.p);
        params[0] = rng.uniform(self.gamma.0, self.gamma.1);
        runs
    }

    fn may_skip(&self) -> bool {
        self.p < 1.0
    }

    fn table(&self, rule: NumberRule, params: &[f32], _: &[Histogram], out: &mut [LevelTable]) {
        out.fill(powers(rule, params[0], 1.0));
    }
}

/// Returns the table of all levels. The powers are computed in double precision.
fn powers(rule: NumberRule, gamma: f32, gain: f32) -> [f32; 256] {
    std::array::from_fn(|level| {
        let v = level as f32 * (1.0 / 255.0);
        let v = libm::pow(f64::from(v), f64::from(gamma)) as f32;
        let v = if gain == 1.0 { v } else { (v * gain).clamp(0.0, 1.0) };
        match rule {
            NumberRule::Exact => (v * 255.999).trunc(),
            NumberRule::Fused | NumberRule::Relaxed => v * 255.0,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_torchvision_raises() {
        let table = powers(NumberRule::Exact, 2.2, 1.0);
        assert_eq!([250, 129, 0, 255].map(|level| table[level]), [245.0, 57.0, 0.0, 255.0]);
    }

    #[test]
    fn a_power_of_one_changes_nothing() {
        for (level, v) in powers(NumberRule::Exact, 1.0, 1.0).into_iter().enumerate() {
            assert_eq!(v, level as f32);
        }
        for (level, v) in powers(NumberRule::Fused, 1.0, 1.0).into_iter().enumerate() {
            assert!((v - level as f32).abs() < 1e-4);
        }
    }

    #[test]
    fn values_stay_in_range_and_bad_parameters_are_refused() {
        for (gamma, gain) in [(0.0, 3.0), (1e30, 1.0), (0.5, 1e38), (0.0, 0.0)] {
            for rule in [NumberRule::Exact, NumberRule::Fused] {
                assert!(powers(rule, gamma, gain).iter().all(|v| (0.0..=255.0).contains(v)));
            }
        }
        for bad in [-0.1, f64::NAN, f64::INFINITY, 1e39] {
            let gain = Gamma::new(1.0).unwrap().gain(bad);
            assert!(Gamma::new(bad).is_err() && gain.is_err(), "{bad}");
            assert!(RandomGamma::new(0.5..=bad).is_err(), "{bad}");
        }
        assert!(RandomGamma::new(1.0..=1.0).unwrap().p(1.5).is_err());
    }
}
