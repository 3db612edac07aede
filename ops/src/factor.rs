//! The factor of brightness, contrast and saturation: its parameters and its draw.

use crate::author::Rng;
use crate::default_floats::DefaultFloats;
use crate::error::{positive_or_zero, probability, range_from_zero};
use crate::registry::{OpArgs, P, ParamInfo, ParamKind, ParamValue, SpecError, required};
use crate::{NumberOrRange, ParamError};

/// A factor uniform in a range, for a share `p` of the samples; 1 for the others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Factor {
    p: f64,
    low: f32,
    high: f32,
}

impl Factor {
    /// A factor of 1, which changes nothing.
    pub(crate) const ONE: Self = Self { p: 1.0, low: 1.0, high: 1.0 };

    /// Builds a factor for all samples: in `max(0, 1 - value)..1 + value` for one number, or in a range.
    /// If the bounds are equal, the factor is fixed.
    pub(crate) fn new(
        op: &'static str,
        param: &'static str,
        value: NumberOrRange,
    ) -> Result<Self, ParamError> {
        let ends = match value {
            NumberOrRange::Number(value) => {
                let value = positive_or_zero(op, param, value)?;
                DefaultFloats::during(|| ((1.0 - value).max(0.0), 1.0 + value))
            }
            NumberOrRange::Range(range) => range.into_inner(),
        };
        let [low, high] = range_from_zero(op, param, ends)?;
        Ok(Self { p: 1.0, low, high })
    }

    /// Builds a factor in `low..high` for all samples, from bounds that need no check.
    pub(crate) const fn always((low, high): (f32, f32)) -> Self {
        Self { p: 1.0, low, high }
    }

    /// Sets a share that was checked before.
    pub(crate) const fn with_share(self, p: f64) -> Self {
        Self { p, ..self }
    }

    /// Sets the share of the samples that have the factor.
    pub(crate) fn p(self, op: &'static str, p: f64) -> Result<Self, ParamError> {
        Ok(Self { p: probability(op, p)?, ..self })
    }

    /// Returns true if every draw returns 1.
    pub(crate) fn is_one(&self) -> bool {
        self.p == 0.0 || (self.low, self.high) == (1.0, 1.0)
    }

    /// Draws the coin first, then the factor. Both are drawn for every sample, as in FFCV.
    pub(crate) fn draw(&self, rng: &mut Rng) -> f32 {
        let applies = rng.coin(self.p);
        let factor = rng.uniform(self.low, self.high);
        if applies { factor } else { 1.0 }
    }
}

/// Returns `1 - factor`, computed in double precision as in torchvision, then rounded.
pub(crate) fn one_minus(factor: f32) -> f32 {
    (1.0 - f64::from(factor)) as f32
}

/// The parameters of an op with a factor: FFCV's.
pub(crate) const MAGNITUDE_AND_P: &[ParamInfo] = &[
    required(
        "magnitude",
        ParamKind::NumberOrRange,
        ParamValue::Float(0.4),
        "the factor is in max(0, 1 - magnitude)..1 + magnitude, or in low..high",
    ),
    P,
];

/// Builds an op with a random factor: around 1 by a magnitude, or in a range.
pub(crate) fn by_magnitude<T>(
    args: &OpArgs<'_>,
    new: fn(NumberOrRange) -> Result<T, ParamError>,
    p: fn(T, f64) -> Result<T, ParamError>,
) -> Result<T, SpecError> {
    Ok(p(new(args.number_or_range("magnitude")?)?, args.float("p")?)?)
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
        assert!((0..1000).all(|_| (0.6..1.4).contains(&sure.draw(&mut rng))));
        let never = of(0.4.into()).p("op", 0.0).unwrap();
        assert!((0..1000).all(|_| never.draw(&mut rng) == 1.0));
        let wide = of(3.0.into());
        assert!((0..1000).all(|_| (0.0..4.0).contains(&wide.draw(&mut rng))));
        let range = of((1.5..=1.75).into());
        assert!((0..1000).all(|_| (1.5..1.75).contains(&range.draw(&mut rng))));
        let fixed = of((1.3..=1.3).into());
        assert!((0..1000).all(|_| fixed.draw(&mut rng) == 1.3));
    }

    #[test]
    fn bad_parameters_are_refused() {
        for magnitude in [-0.1, f64::NAN, f64::INFINITY] {
            assert!(Factor::new("op", "magnitude", magnitude.into()).is_err(), "{magnitude}");
        }
        for range in [-0.1..=0.5, 0.5..=0.4, f64::NAN..=1.0, 0.0..=f64::NAN, 0.0..=1e39] {
            assert!(Factor::new("op", "magnitude", range.clone().into()).is_err(), "{range:?}");
        }
        assert!(Factor::ONE.p("op", 1.5).is_err());
    }
}
