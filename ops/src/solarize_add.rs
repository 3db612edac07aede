//! Solarize-add: adds a constant to values below a threshold.

use crate::author::{Emit, Eval, PixelOp, Pixels, Rng, Type};
use crate::emit::{apply_rule, min};
use crate::op::{Op, class, on_levels};
use crate::{Size, TypeError};

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
#[derive(Op, Clone, Copy, Debug, PartialEq)]
#[op(COLOR, "brightens what is dark")]
pub struct SolarizeAdd {
    /// Adds `add` to values below 128.
    #[param("what is added", 0.0..=255.0, example = 64)]
    add: f32,
    /// Sets the threshold below which values change.
    #[param("values below it are changed", 0.0..=256.0, default = 128)]
    threshold: f32,
}

impl SolarizeAdd {
    /// The op as an action of a policy, with timm's threshold.
    pub(crate) const fn below_128(add: f32) -> Self {
        Self { add, threshold: 128.0 }
    }
}

#[class(Pixel)]
impl Op for SolarizeAdd {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_levels(self.name(), input)
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
}
