//! The factor of brightness, contrast and saturation: its parameters and its draw.

use crate::author::Rng;
use crate::default_floats::DefaultFloats;
use crate::registry::{Checked, ParamLimits};
use crate::{NumberOrRange, ParamError};

/// A factor uniform in a range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Factor {
    low: f32,
    high: f32,
}

impl Factor {
    /// A factor of 1, which changes nothing.
    pub(crate) const ONE: Self = Self { low: 1.0, high: 1.0 };

    /// Builds a factor: in `max(0, 1 - value)..1 + value` for one number, or in a range.
    /// If the bounds are equal, the factor is fixed.
    pub(crate) fn new(
        op: &'static str,
        param: &'static str,
        value: NumberOrRange,
    ) -> Result<Self, ParamError> {
        let ends = match value {
            NumberOrRange::Number(value) => {
                let value: f64 = value.checked(op, param, ParamLimits::NOT_NEGATIVE)?;
                DefaultFloats::during(|| ((1.0 - value).max(0.0), 1.0 + value))
            }
            NumberOrRange::Range(range) => range.into_inner(),
        };
        let (low, high) = (ends.0..=ends.1).checked(op, param, ParamLimits::NOT_NEGATIVE_RANGE)?;
        Ok(Self { low, high })
    }

    /// Builds a factor in `low..high`, from bounds that need no check.
    pub(crate) const fn always((low, high): (f32, f32)) -> Self {
        Self { low, high }
    }

    /// Returns true if every draw returns 1.
    pub(crate) fn is_one(&self) -> bool {
        (self.low, self.high) == (1.0, 1.0)
    }

    /// Draws a factor for a share `p` of the samples, and 1 for the others: the coin first, then the factor. Both are
    /// drawn for every sample, as in FFCV.
    pub(crate) fn draw(&self, rng: &mut Rng, p: f64) -> f32 {
        let applies = rng.coin(p);
        let factor = rng.uniform(self.low, self.high);
        if applies { factor } else { 1.0 }
    }
}

/// Returns `1 - factor`, computed in double precision as in torchvision, then rounded.
pub(crate) fn one_minus(factor: f32) -> f32 {
    (1.0 - f64::from(factor)) as f32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::SampleKey;

    #[test]
    fn factors_stay_in_their_range_and_tails_gives_one() {
        let mut rng = SampleKey::new(1, 2, 3).op(4);
        let of = |value: NumberOrRange| Factor::new("op", "magnitude", value).unwrap();
        let sure = of(0.4.into());
        assert!((0..1000).all(|_| (0.6..1.4).contains(&sure.draw(&mut rng, 1.0))));
        assert!((0..1000).all(|_| sure.draw(&mut rng, 0.0) == 1.0));
        let wide = of(3.0.into());
        assert!((0..1000).all(|_| (0.0..4.0).contains(&wide.draw(&mut rng, 1.0))));
        let range = of((1.5..=1.75).into());
        assert!((0..1000).all(|_| (1.5..1.75).contains(&range.draw(&mut rng, 1.0))));
        let fixed = of((1.3..=1.3).into());
        assert!((0..1000).all(|_| fixed.draw(&mut rng, 1.0) == 1.3));
    }

    #[test]
    fn bad_parameters_are_refused() {
        for magnitude in [-0.1, f64::NAN, f64::INFINITY] {
            assert!(Factor::new("op", "magnitude", magnitude.into()).is_err(), "{magnitude}");
        }
        for range in [-0.1..=0.5, 0.5..=0.4, f64::NAN..=1.0, 0.0..=f64::NAN, 0.0..=1e39] {
            assert!(Factor::new("op", "magnitude", range.clone().into()).is_err(), "{range:?}");
        }
    }
}
