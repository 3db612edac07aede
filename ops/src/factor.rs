//! The factor of brightness, contrast and saturation: its parameters and its draw.

use crate::ParamError;
use crate::author::Rng;
use crate::error::{positive_or_zero, probability, range_from_zero};
use crate::registry::{OpArgs, P, ParamInfo, ParamKind, ParamValue, SpecError, required};

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

    /// Builds a factor in `max(0, 1 - magnitude)..1 + magnitude` for a share `p` of the samples.
    pub(crate) fn new(
        op: &'static str,
        param: &'static str,
        magnitude: f64,
        p: f64,
    ) -> Result<Self, ParamError> {
        let p = probability(op, p)?;
        let magnitude = positive_or_zero(op, param, magnitude)?;
        Ok(Self { p, low: (1.0 - magnitude).max(0.0) as f32, high: (1.0 + magnitude) as f32 })
    }

    /// Builds a factor in `low..high` for a share `p` of the samples. If the bounds are equal, the
    /// factor is fixed.
    pub(crate) fn range(
        op: &'static str,
        param: &'static str,
        range: (f64, f64),
        p: f64,
    ) -> Result<Self, ParamError> {
        let p = probability(op, p)?;
        let [low, high] = range_from_zero(op, param, range)?;
        Ok(Self { p, low, high })
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
    around: fn(f64, f64) -> Result<T, ParamError>,
    within: fn(f64, f64, f64) -> Result<T, ParamError>,
) -> Result<T, SpecError> {
    let p = args.float("p")?;
    if !args.is_list("magnitude")? {
        return Ok(around(args.float("magnitude")?, p)?);
    }
    let (low, high) = args.pair("magnitude")?;
    Ok(within(low, high, p)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::SampleKey;

    #[test]
    fn factors_stay_in_their_range_and_tails_gives_one() {
        let mut rng = SampleKey::new(1, 2, 3).op(4);
        let sure = Factor::new("op", "magnitude", 0.4, 1.0).unwrap();
        assert!((0..1000).all(|_| (0.6..1.4).contains(&sure.draw(&mut rng))));
        let never = Factor::new("op", "magnitude", 0.4, 0.0).unwrap();
        assert!((0..1000).all(|_| never.draw(&mut rng) == 1.0));
        let wide = Factor::new("op", "magnitude", 3.0, 1.0).unwrap();
        assert!((0..1000).all(|_| (0.0..4.0).contains(&wide.draw(&mut rng))));
        let range = Factor::range("op", "factor", (1.5, 1.75), 1.0).unwrap();
        assert!((0..1000).all(|_| (1.5..1.75).contains(&range.draw(&mut rng))));
        let fixed = Factor::range("op", "factor", (1.3, 1.3), 1.0).unwrap();
        assert!((0..1000).all(|_| fixed.draw(&mut rng) == 1.3));
    }

    #[test]
    fn bad_parameters_are_refused() {
        for (magnitude, p) in [(-0.1, 0.5), (f64::NAN, 0.5), (f64::INFINITY, 0.5), (0.1, 1.5)] {
            assert!(Factor::new("op", "magnitude", magnitude, p).is_err(), "{magnitude} {p}");
        }
        for range in [(-0.1, 0.5), (0.5, 0.4), (f64::NAN, 1.0), (0.0, f64::NAN), (0.0, 1e39)] {
            assert!(Factor::range("op", "factor", range, 1.0).is_err(), "{range:?}");
        }
    }
}
