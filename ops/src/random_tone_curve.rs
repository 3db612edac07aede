//! Tone curve: every value changed by a random curve.

use crate::author::{Histogram, LevelTable, Rng, TableOp, Type};
use crate::op::{Op, class, on_levels};
use crate::shape::MAX_CHANNELS;
use crate::{NumberRule, TypeError};

/// Changes the relation of bright and dark values of a share `p` of the images by a random curve.
///
#[cfg_attr(doc, doc = include_str!("../pictures/RandomToneCurve.md"))]
///
/// ```text
/// out = 255 * (3 (1 - t)^2 t low + 3 (1 - t) t^2 high + t^3)        t = in / 255
/// low = clamp(1/4 + scale * n)   high = clamp(3/4 + scale * n')     clamped to 0..=1; n, n' normal
/// ```
///
/// | | |
/// |--------|-----------------------------------------------------------------------------------|
/// | input  | image of levels; of at most 4 channels if `per_channel`                           |
/// | output | as the input                                                                      |
/// | random | a coin `p`, then `low` and `high`, for each of 4 channels if `per_channel`         |
/// | cost   | one look-up per value, and 256 curve points per sample and channel                |
///
/// Albumentations' `RandomToneCurve`, to the bit under the Exact rule for the same `low` and `high`: the curve is computed
/// in double precision and rounded to nearest. Under the Fused rule it is not rounded.
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![RandomToneCurve::new().scale(0.2)?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq)]
#[op(
    COLOR,
    "changes the values of a share p of the images by a random curve",
    new = "Builds the op with Albumentations' defaults: a scale of 0.1, one curve for all channels, for half of the images."
)]
pub struct RandomToneCurve {
    /// Sets the standard deviation of the two points that bend the curve.
    #[param("standard deviation of the points that bend the curve", 0.0..=1.0, default = 0.1)]
    scale: f32,
    /// Sets whether each channel has a curve of its own.
    #[param("whether each channel has a curve of its own", default = false, draw = rng.coin(0.5) && before.channels <= 4)]
    per_channel: bool,
    #[param(share)]
    p: f64,
}

#[class(Table)]
impl Op for RandomToneCurve {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        match on_levels(self.name(), input)? {
            Type::Image(image)
                if self.per_channel && usize::from(image.channels) > MAX_CHANNELS =>
            {
                Err(TypeError {
                    op: self.name(),
                    expected: "an image of at most 4 channels if per_channel is true",
                    found: input.to_string(),
                })
            }
            image => Ok(image),
        }
    }

    fn does_nothing(&self, _: &Type) -> bool {
        self.p == 0.0
    }
}

/// Drawn parameters: `low` and `high`, for each channel.
impl TableOp for RandomToneCurve {
    fn param_count(&self) -> usize {
        if self.per_channel { 2 * MAX_CHANNELS } else { 2 }
    }

    fn param_names(&self) -> &'static [&'static str] {
        &["low", "high"]
    }

    fn draw(&self, rng: &mut Rng, params: &mut [f32]) -> bool {
        let runs = rng.coin(self.p);
        for [low, high] in params.as_chunks_mut().0 {
            for (point, middle) in [(low, 0.25), (high, 0.75)] {
                *point = (middle + self.scale * rng.normal()).clamp(0.0, 1.0);
            }
        }
        runs
    }

    fn may_skip(&self) -> bool {
        self.p < 1.0
    }

    fn table(&self, rule: NumberRule, params: &[f32], _: &[Histogram], out: &mut [LevelTable]) {
        let (points, _) = params.as_chunks();
        if let ([points], false) = (points, self.per_channel) {
            return out.fill(curve(rule, *points));
        }
        for (table, points) in out.iter_mut().zip(points) {
            *table = curve(rule, *points);
        }
    }
}

/// Returns the table of a curve that the points bend.
fn curve(rule: NumberRule, points: [f32; 2]) -> LevelTable {
    let [low, high] = points.map(f64::from);
    std::array::from_fn(|level| {
        let t = level as f64 / 255.0;
        let rest = 1.0 - t;
        let v = 3.0 * (rest * rest) * t * low + 3.0 * rest * (t * t) * high + t * t * t;
        let v = (v * 255.0).clamp(0.0, 255.0);
        match rule {
            NumberRule::Exact => v.round_ties_even() as f32,
            NumberRule::Fused | NumberRule::Relaxed => v as f32,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_stay_and_the_points_bend_the_middle() {
        for points in [[0.0, 0.0], [0.25, 0.75], [1.0, 1.0]] {
            let table = curve(NumberRule::Exact, points);
            assert_eq!([table[0], table[255]], [0.0, 255.0]);
        }
        let middle = |points| curve(NumberRule::Exact, points)[128];
        assert!(
            middle([0.1, 0.6]) < middle([0.25, 0.75]) && middle([0.25, 0.75]) < middle([0.4, 0.9])
        );
    }

    #[test]
    fn channels_have_curves_of_their_own_if_asked_for() {
        let params = [0.1, 0.6, 0.2, 0.7, 0.3, 0.8, 0.4, 0.9];
        let mut out = [[0.0; 256]; 3];
        let op = RandomToneCurve::new().per_channel(true);
        op.table(NumberRule::Exact, &params, &[[0; 256]; 3], &mut out);
        assert_eq!(out[1], curve(NumberRule::Exact, [0.2, 0.7]));
        RandomToneCurve::new().table(NumberRule::Exact, &params[..2], &[[0; 256]; 3], &mut out);
        assert_eq!(out, [curve(NumberRule::Exact, [0.1, 0.6]); 3]);
    }
}
