//! Solarize-add: adds a constant to values below a threshold.

use crate::author::{Emit, Eval, Op, OpClass, PixelOp, Pixels, Rng, Type};
use crate::emit::{apply_rule, min};
use crate::error::range_in;
use crate::op::on_levels;
use crate::registry::{
    COLOR, Golden, OpInfo, ParamKind, ParamValue, Recipe, Recipes, built, recipe, required,
    with_default,
};
use crate::{ParamError, Size, TypeError};

/// Adds a constant to the values below a threshold.
///
#[cfg_attr(doc, doc = include_str!("../pictures/SolarizeAdd.md"))]
///
/// ```text
/// out = min(255, in + add)    where in < threshold
/// out = in                    elsewhere
/// ```
///
/// | | |
/// |--------|------------------------------------|
/// | input  | image of levels                           |
/// | output | as the input                       |
/// | random | nothing                            |
/// | cost   | four operations a value            |
///
/// timm's `solarize_add`, an op of its `RandAugment`.
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![SolarizeAdd::new(110.0)?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SolarizeAdd {
    add: f32,
    threshold: f32,
}

impl SolarizeAdd {
    /// Adds `add` to values below 128.
    ///
    /// # Errors
    ///
    /// If `add` is not in `0.0..=255.0`.
    pub fn new(add: f64) -> Result<Self, ParamError> {
        let [add, _] = range_in("SolarizeAdd", "add", (add, add), 0.0..=255.0, "0.0..=255.0")?;
        Ok(Self { add, threshold: 128.0 })
    }

    /// Sets the threshold below which values change. Default 128.
    ///
    /// # Errors
    ///
    /// If `threshold` is not in `0.0..=256.0`.
    pub fn threshold(self, threshold: f64) -> Result<Self, ParamError> {
        let both = (threshold, threshold);
        let [threshold, _] =
            range_in("SolarizeAdd", "threshold", both, 0.0..=256.0, "0.0..=256.0")?;
        Ok(Self { threshold, ..self })
    }

    /// The op as an action of a policy, with timm's threshold.
    pub(crate) const fn below_128(add: f32) -> Self {
        Self { add, threshold: 128.0 }
    }
}

impl Op for SolarizeAdd {
    fn name(&self) -> &'static str {
        "SolarizeAdd"
    }

    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_levels(self.name(), input)
    }

    fn class(&self) -> OpClass<'_> {
        OpClass::Pixel(self)
    }

    fn does_nothing(&self, _: &Type) -> bool {
        self.add == 0.0 || self.threshold == 0.0
    }
}

/// Parameters: the addend, the threshold.
impl PixelOp for SolarizeAdd {
    fn param_count(&self) -> usize {
        2
    }

    fn param_names(&self) -> &'static [&'static str] {
        &["add", "threshold"]
    }

    fn draw(&self, _: &mut Rng, _: Size, params: &mut [f32]) -> bool {
        params.copy_from_slice(&[self.add, self.threshold]);
        true
    }

    fn is_per_channel(&self) -> bool {
        true
    }

    fn eval(&self, cx: &Eval<'_>, pixel: &mut [f32]) {
        let [add, threshold] = [cx.params[0], cx.params[1]];
        for v in pixel {
            let brighter = apply_rule(cx.rule, min(*v + add, 255.0));
            *v = if *v < threshold { brighter } else { *v };
        }
    }

    fn emit(&self, e: &mut Emit, pixels: Pixels) -> Pixels {
        e.each(pixels, |e, _, v| {
            let (add, threshold, white) = (e.param(0), e.param(1), e.splat(255.0));
            let brighter = e.add(v, add);
            let brighter = e.min(brighter, white);
            let brighter = e.apply_rule(brighter);
            let is_dark = e.less(v, threshold);
            e.select(is_dark, brighter, v)
        })
    }
}

impl SolarizeAdd {
    pub(crate) const ENTRY: OpInfo = OpInfo {
        name: "SolarizeAdd",
        class: COLOR,
        summary: "brightens what is dark",
        params: &[
            required("add", ParamKind::Number, ParamValue::Int(64), "what is added"),
            with_default(
                "threshold",
                ParamKind::Number,
                ParamValue::Int(128),
                "values below it are changed",
            ),
        ],
        aliases: &[],
        build: |args| {
            Ok(built(SolarizeAdd::new(args.float("add")?)?.threshold(args.float("threshold")?)?))
        },
        recipes: Recipes::Drawn(&[Recipe {
            name: "SolarizeAdd",
            draw: |rng, _| {
                let (add, threshold) =
                    (recipe::number(rng, 0.0, 255.0), recipe::number(rng, 0.0, 256.0));
                Ok(built(SolarizeAdd::new(add)?.threshold(threshold)?))
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

    #[test]
    fn only_what_is_dark_becomes_brighter() {
        let op = SolarizeAdd::new(99.0).unwrap();
        let cx = Eval::new(NumberRule::Exact, &[99.0, 128.0]);
        assert_eq!(evaluated(&op, &cx, [0.0, 127.0, 128.0]), [99.0, 226.0, 128.0]);
        let cx = Eval::new(NumberRule::Exact, &[200.0, 128.0]);
        assert_eq!(evaluated(&op, &cx, [0.0, 127.0, 128.0]), [200.0, 255.0, 128.0]);
    }

    #[test]
    fn bad_parameters_are_refused() {
        for bad in [-1.0, 257.0, f64::NAN] {
            assert!(SolarizeAdd::new(bad).is_err(), "{bad}");
            assert!(SolarizeAdd::new(1.0).and_then(|op| op.threshold(bad)).is_err(), "{bad}");
        }
    }
}
