//! Pixel dropout: single pixels overwritten.

use crate::author::{Emit, Eval, PixelOp, Pixels, Rng, Type};
use crate::fill_value::FillValue;
use crate::noise::{self, SEEDS};
use crate::op::{Op, class, on_numbers};
use crate::shape::MAX_CHANNELS;
use crate::{Size, TypeError};
use std::sync::Arc;

/// Overwrites random pixels, or random values, of a share `p` of the images.
///
#[cfg_attr(doc, doc = include_str!("../pictures/PixelDropout.md"))]
///
/// ```text
/// out = drop_value      with probability dropout_prob, for each pixel, or for each value if per_channel
/// out = in              otherwise
/// ```
///
/// | | |
/// |--------|----------------------------------------------------------------------------------------|
/// | input  | image of u8, u16, i16, f16, bf16 or f32; of at most 4 channels if `per_channel`        |
/// | output | as the input                                                                           |
/// | random | a coin `p`, then two words; a pixel is dropped by a hash of them and of its row and column |
/// | cost   | about fifteen operations per pixel, and one per value                                  |
///
/// Albumentations' `PixelDropout`, whose `drop_value` may also be a tuple or None, for random colours: here it is one
/// number, in the units of the values. Masks stay as they are.
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![PixelDropout::new().dropout_prob(0.05)?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq)]
#[op(
    OVERWRITE,
    "overwrites random pixels of a share p of the images",
    new = "Builds the op with Albumentations' defaults: 0.01 of the pixels of half of the images become 0.",
    golden = "pixels from this crate's generator: their share is tested"
)]
pub struct PixelDropout {
    /// Sets the share of the pixels that are dropped.
    #[param("share of the pixels that are dropped", 0.0..=1.0, default = 0.01, draw = recipe::share(rng))]
    dropout_prob: f64,
    /// Sets whether values are dropped by themselves, and not all values of a pixel together.
    #[param("whether values are dropped by themselves", default = false, draw = rng.coin(0.5) && before.channels <= 4)]
    per_channel: bool,
    /// Sets the value of dropped pixels, in the units of the values. Default 0.
    #[param("value of dropped pixels, in units of the values", check = FillValue::new, default = 0.0,
        errors = "If the value is not finite", draw = recipe::fill(rng, before))]
    #[init(FillValue::ZERO)]
    drop_value: FillValue,
    #[param(share)]
    p: f64,
}

#[class(Pixel)]
impl Op for PixelDropout {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        self.drop_value.check(self.name(), input)?;
        match on_numbers(self.name(), input, |image| image)? {
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
        self.p == 0.0 || self.dropout_prob == 0.0
    }

    fn for_input(&self, input: &Type) -> Option<Arc<dyn Op>> {
        let Type::Image(image) = input else { return None };
        Some(Arc::new(Self { drop_value: self.drop_value.stored_as(image.dtype), ..*self }))
    }
}

/// Drawn parameters: two seeds, and the number that the uniform numbers of dropped pixels are below.
const LIMIT: usize = SEEDS;

impl PixelOp for PixelDropout {
    fn param_count(&self) -> usize {
        SEEDS + 1
    }

    fn param_names(&self) -> &'static [&'static str] {
        &["-", "-", "-"]
    }

    fn draw(&self, rng: &mut Rng, _: Size, params: &mut [f32]) -> bool {
        let runs = rng.coin(self.p);
        params[..SEEDS].copy_from_slice(&noise::seeds(rng));
        // The uniform numbers are in -1..1.
        params[LIMIT] = (2.0 * self.dropout_prob - 1.0) as f32;
        runs
    }

    fn may_skip(&self) -> bool {
        self.p < 1.0
    }

    fn uses_position(&self) -> bool {
        true
    }

    fn eval(&self, cx: &Eval<'_>, pixel: &mut [f32]) {
        let uniforms = noise::uniforms([cx.params[0], cx.params[1]], cx.at);
        for (c, v) in pixel.iter_mut().enumerate() {
            if uniforms[if self.per_channel { c } else { 0 }] < cx.params[LIMIT] {
                *v = self.drop_value.number();
            }
        }
    }

    fn emit(&self, e: &mut Emit, pixels: Pixels) -> Pixels {
        let fill = e.splat(self.drop_value.number());
        if self.per_channel {
            let uniforms = noise::emit_uniforms(e, 0, pixels);
            return e.each(pixels, |e, c, v| {
                let limit = e.param(LIMIT);
                let is_dropped = e.less(uniforms.channels()[c], limit);
                e.select(is_dropped, fill, v)
            });
        }
        let first = Pixels::from([pixels.channels()[0]]);
        let uniform = noise::emit_uniforms(e, 0, first).channels()[0];
        let limit = e.param(LIMIT);
        let is_dropped = e.less(uniform, limit);
        e.select_pixels(is_dropped, pixels.filled(fill), pixels)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NumberRule;
    use crate::op::evaluated;
    use crate::rng::SampleKey;

    /// Returns how many of 10000 pixels have a first value of 9, and how many have three equal values.
    fn counted(op: &PixelDropout) -> [usize; 2] {
        let mut params = [0.0; SEEDS + 1];
        op.draw(&mut SampleKey::new(1, 2, 3).op(4), Size::new(100, 100), &mut params);
        let pixels = (0..10_000).map(|i| {
            let cx = Eval { rule: NumberRule::Fused, params: &params, at: [i / 100, i % 100] };
            evaluated(op, &cx, [7.0; 3])
        });
        let pixels: Vec<_> = pixels.collect();
        let first = pixels.iter().filter(|pixel| pixel[0] == 9.0).count();
        [first, pixels.iter().filter(|[r, g, b]| r == g && g == b).count()]
    }

    #[test]
    fn a_share_of_the_pixels_or_of_the_values_is_dropped() {
        for share in [0.0, 0.01, 0.3, 1.0] {
            for per_channel in [false, true] {
                let op = PixelDropout::new().dropout_prob(share).unwrap().per_channel(per_channel);
                let [dropped, equal] = counted(&op.drop_value(9.0).unwrap());
                let [least, most] = [share - 0.02, share + 0.02].map(|share| 10_000.0 * share);
                assert!((least..=most).contains(&(dropped as f64)), "{op:?}: {dropped}");
                let is_mixed = per_channel && 0.0 < share && share < 1.0;
                assert_eq!(equal < 10_000, is_mixed, "{op:?}: {equal}");
            }
        }
    }
}
