//! Solarize: inverts the values at or above a threshold.

use crate::author::{Emit, Eval, Op, OpClass, PixelOp, Pixels, Rng, Type};
use crate::error::{probability, range_in};
use crate::op::on_levels;
use crate::registry::{
    COLOR, Golden, OpInfo, P, ParamKind, ParamValue, Recipe, Recipes, built, recipe, required,
};
use crate::{ParamError, Size, TypeError};

/// Inverts the values at or above a threshold, in a share `p` of the images.
///
#[cfg_attr(doc, doc = include_str!("../pictures/RandomSolarize.md"))]
///
/// ```text
/// out = 255 - in    where in >= threshold
/// out = in          elsewhere
/// ```
///
/// | | |
/// |--------|------------------------------------|
/// | input  | image of levels                           |
/// | output | as the input                       |
/// | random | a coin `p`                         |
/// | cost   | three operations a value           |
///
/// torchvision's `RandomSolarize`: the threshold is rounded to `f32` and may have a fraction.
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![RandomSolarize::new(128.0)?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RandomSolarize {
    threshold: f32,
    p: f64,
}

impl RandomSolarize {
    /// Inverts values at or above `threshold`, in half of the images. No value is above 255, so 256
    /// changes nothing, as in Pillow; torchvision's largest threshold is 255.
    ///
    /// # Errors
    ///
    /// If `threshold` is not in `0.0..=256.0`.
    pub fn new(threshold: f64) -> Result<Self, ParamError> {
        let both = (threshold, threshold);
        let [threshold, _] =
            range_in("RandomSolarize", "threshold", both, 0.0..=256.0, "0.0..=256.0")?;
        Ok(Self { threshold, p: 0.5 })
    }

    /// Sets the share of the images that the op changes. Default 0.5.
    ///
    /// # Errors
    ///
    /// If `p` is not in `0.0..=1.0`.
    pub fn p(self, p: f64) -> Result<Self, ParamError> {
        Ok(Self { p: probability("RandomSolarize", p)?, ..self })
    }

    /// The op as an action of a policy: for all images.
    pub(crate) const fn always(threshold: f32) -> Self {
        Self { threshold, p: 1.0 }
    }
}

impl Op for RandomSolarize {
    fn name(&self) -> &'static str {
        "RandomSolarize"
    }

    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_levels(self.name(), input)
    }

    fn class(&self) -> OpClass<'_> {
        OpClass::Pixel(self)
    }

    fn does_nothing(&self, _: &Type) -> bool {
        self.p == 0.0 || self.threshold > 255.0
    }
}

/// Parameters: the threshold; if the coin is tails, a threshold that no value reaches.
impl PixelOp for RandomSolarize {
    fn param_count(&self) -> usize {
        1
    }

    fn draw(&self, rng: &mut Rng, _: Size, params: &mut [f32]) -> bool {
        params[0] = if rng.coin(self.p) { self.threshold } else { f32::INFINITY };
        true
    }

    fn is_per_channel(&self) -> bool {
        true
    }

    fn eval(&self, cx: &Eval<'_>, pixel: &mut [f32]) {
        for v in pixel {
            *v = if *v < cx.params[0] { *v } else { 255.0 - *v };
        }
    }

    fn emit(&self, e: &mut Emit, pixels: Pixels) -> Pixels {
        e.each(pixels, |e, _, v| {
            let (threshold, white) = (e.param(0), e.splat(255.0));
            let is_below = e.less(v, threshold);
            let inverted = e.sub(white, v);
            e.select(is_below, v, inverted)
        })
    }
}

impl RandomSolarize {
    pub(crate) const ENTRY: OpInfo = OpInfo {
        name: "RandomSolarize",
        class: COLOR,
        summary: "inverts what is bright, in a share p of the images",
        params: &[
            required(
                "threshold",
                ParamKind::Number,
                ParamValue::Int(128),
                "values from it on are inverted",
            ),
            P,
        ],
        aliases: &[],
        build: |args| {
            Ok(built(RandomSolarize::new(args.float("threshold")?)?.p(args.float("p")?)?))
        },
        recipes: Recipes::Drawn(&[Recipe {
            name: "RandomSolarize",
            draw: |rng, _| {
                Ok(built(
                    RandomSolarize::new(recipe::number(rng, 0.0, 256.0))?.p(recipe::share(rng))?,
                ))
            },
        }]),
        golden: Golden::Tested,
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NumberRule;
    use crate::op::evaluated;
    use crate::rng::SampleKey;

    fn solarized(threshold: f64, p: f64, pixel: [f32; 3]) -> [f32; 3] {
        let op = RandomSolarize::new(threshold).unwrap().p(p).unwrap();
        let mut params = [0.0];
        op.draw(&mut SampleKey::new(0, 0, 0).op(0), Size::new(1, 1), &mut params);
        evaluated(&op, &Eval::new(NumberRule::Exact, &params), pixel)
    }

    #[test]
    fn as_torchvision_solarizes() {
        assert_eq!(solarized(128.0, 1.0, [250.0, 129.0, 77.0]), [5.0, 126.0, 77.0]);
        assert_eq!(solarized(128.0, 1.0, [128.0, 127.0, 0.0]), [127.0, 127.0, 0.0]);
        assert_eq!(solarized(77.25, 1.0, [77.0, 78.0, 255.0]), [77.0, 177.0, 0.0]);
        assert_eq!(solarized(0.0, 0.0, [77.0, 78.0, 255.0]), [77.0, 78.0, 255.0]);
    }

    #[test]
    fn bad_parameters_are_refused() {
        for threshold in [-1.0, 256.5, f64::NAN] {
            assert!(RandomSolarize::new(threshold).is_err(), "{threshold}");
        }
        assert!(RandomSolarize::new(128.0).and_then(|op| op.p(-0.5)).is_err());
    }
}
