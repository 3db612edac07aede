//! Polarity inversion: turns signals upside down.

use crate::author::{Emit, Eval, PixelOp, Pixels, Rng, Type};
use crate::op::{Op, class};
use crate::signal::{self, on_signal};
use crate::{Size, TypeError};

/// Multiplies a share `p` of the signals by -1.
///
#[cfg_attr(doc, doc = include_str!("../pictures/PolarityInversion.md"))]
///
/// ```text
/// out = -in
/// ```
///
/// | | |
/// |--------|------------------------------------------------------------------------|
/// | input  | image of i16, f16, bf16 or f32: the samples of audio                   |
/// | output | as the input                                                           |
/// | random | a coin `p`                                                             |
/// | cost   | one operation per value                                                |
///
/// audiomentations' `PolarityInversion`, with its default `p` of 0.5. Results of i16 saturate when they are stored:
/// -32768 becomes 32767. Unsigned types are refused: silence is not 0 there, and
/// [`RandomInvert`](crate::RandomInvert) inverts images of u8.
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![
///     ScaleIntensityRange::new(0.0..=255.0, -1.0..=1.0)?,
///     PolarityInversion::new().p(0.3)?,
/// ];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq)]
#[op(SIGNALS, "turns a share p of the signals upside down", new = "Builds the op for half of the signals.", placed = signal::on_any)]
pub struct PolarityInversion {
    /// Sets the share of the signals that the op changes.
    #[param(share)]
    p: f64,
}

const NAME: &str = "PolarityInversion";

#[class(Pixel)]
impl Op for PolarityInversion {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_signal(NAME, input)
    }

    fn does_nothing(&self, _: &Type) -> bool {
        self.p == 0.0
    }
}

/// Parameter: a factor, which is -1 if the coin is heads, else 1.
impl PixelOp for PolarityInversion {
    fn param_count(&self) -> usize {
        1
    }

    fn param_names(&self) -> &'static [&'static str] {
        &["-"]
    }

    fn draw(&self, rng: &mut Rng, _: Size, params: &mut [f32]) -> bool {
        params[0] = if rng.coin(self.p) { -1.0 } else { 1.0 };
        true
    }

    fn is_per_channel(&self) -> bool {
        true
    }

    fn eval(&self, cx: &Eval<'_>, pixel: &mut [f32]) {
        for v in pixel {
            *v *= cx.params[0];
        }
    }

    fn emit(&self, e: &mut Emit, pixels: Pixels) -> Pixels {
        e.each(pixels, |e, _, v| {
            let factor = e.param(0);
            e.mul(v, factor)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::evaluated;
    use crate::rng::SampleKey;
    use crate::signal::tests::image;
    use crate::{DType, NumberRule};

    fn inverted(p: f64, sample: u64) -> [f32; 3] {
        let op = PolarityInversion::new().p(p).unwrap();
        let mut params = [0.0];
        op.draw(&mut SampleKey::new(0, 0, sample).op(0), Size::new(1, 1), &mut params);
        evaluated(&op, &Eval::new(NumberRule::Exact, &params), [0.25, -32_768.0, 0.0])
    }

    #[test]
    fn heads_turns_a_signal_upside_down_and_tails_does_not() {
        assert_eq!(inverted(1.0, 0), [-0.25, 32_768.0, 0.0]);
        assert_eq!(inverted(0.0, 0), [0.25, -32_768.0, 0.0]);
        let heads = (0..2000).filter(|&sample| inverted(0.3, sample)[0] < 0.0).count();
        assert!((500..700).contains(&heads), "{heads}");
        assert!(PolarityInversion::new().p(f64::NAN).is_err());
    }

    #[test]
    fn unsigned_values_are_refused() {
        assert!(PolarityInversion::new().output(&image(DType::U8)).is_err());
        assert!(PolarityInversion::new().output(&image(DType::I16)).is_ok());
    }
}
