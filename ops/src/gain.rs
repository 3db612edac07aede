//! Gain: makes signals louder or quieter.

use crate::author::ImageType;
use crate::author::{Emit, Eval, PixelOp, Pixels, Rng, Type, apply_rule};
use crate::default_floats::nearest_f32;
use crate::op::{Op, class, is_whole};
use crate::registry::BuiltOp;
use crate::registry::recipe;
use crate::signal::{self, on_signal};
use crate::{ParamError, Size, TypeError};
use std::sync::Arc;

/// Multiplies a share `p` of the signals by a gain that is uniform in decibels.
///
#[cfg_attr(doc, doc = include_str!("../pictures/Gain.md"))]
///
/// ```text
/// out = in * 10^(dB / 20)        dB = U(min_gain_db, max_gain_db)
/// ```
///
/// | | |
/// |--------|------------------------------------------------------------------------------|
/// | input  | image of i16, f16, bf16 or f32: the samples of audio, or a spectrogram       |
/// | output | as the input                                                                 |
/// | random | a coin `p`, then the gain                                                    |
/// | cost   | one operation per value                                                      |
///
/// audiomentations' `Gain`, with its default `p` of 0.5. 6 decibels are about a factor of 2, -6 about a half. Floats
/// are not clipped, as there: list a [`Clip`](crate::Clip) after it if they must be.
///
/// Results of i16 saturate when they are stored: what is above 32767 becomes 32767. Between ops they do not, so
/// a second gain can bring them back. They are rounded half to even when they are stored, or truncated after the op
/// under the [Exact](crate::NumberRule::Exact) rule. Unsigned types are refused: silence is not 0 there.
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![ScaleIntensityRange::new(0.0..=255.0, -1.0..=1.0)?, Gain::new(-12.0, 12.0)?.p(1.0)?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq)]
#[op(SIGNALS, "makes a share p of the signals louder or quieter", constructor = new, draw = random)]
pub struct Gain {
    #[param("the least gain in decibels", new, default = -12.0)]
    min_gain_db: f32,
    #[param("the largest gain in decibels", new, default = 12.0)]
    max_gain_db: f32,
    /// Sets the share of the signals that the op changes.
    #[param(share)]
    p: f64,
    /// True if values are those of an integer type.
    whole: bool,
}

const NAME: &str = "Gain";

/// The largest gain in either direction: a factor of 10^10.
const MOST_DB: f64 = 200.0;

impl Gain {
    /// Builds the op for gains from `min_gain_db` to `max_gain_db` decibels. audiomentations' defaults are -12 and 12.
    ///
    /// # Errors
    ///
    /// If a bound is not in `-200.0..=200.0`, or `min_gain_db` is above `max_gain_db`.
    pub fn new(min_gain_db: f64, max_gain_db: f64) -> Result<Self, ParamError> {
        let is_gain = |db| (-MOST_DB..=MOST_DB).contains(db);
        if !is_gain(&min_gain_db) {
            return Err(ParamError::new(NAME, "min_gain_db", min_gain_db, "-200.0..=200.0"));
        }
        if !(is_gain(&max_gain_db) && min_gain_db <= max_gain_db) {
            let expected = "at most 200.0, and not below min_gain_db";
            return Err(ParamError::new(NAME, "max_gain_db", max_gain_db, expected));
        }
        Ok(Self {
            min_gain_db: nearest_f32(min_gain_db),
            max_gain_db: nearest_f32(max_gain_db),
            p: 0.5,
            whole: false,
        })
    }
}

fn random(rng: &mut Rng, before: &ImageType) -> Result<BuiltOp, ParamError> {
    let (low, high) = recipe::range(rng, -30.0, 20.0, 20.0).into_inner();
    signal::on_any(Gain::new(low, high)?.p(recipe::share(rng))?, before)
}

#[class(Pixel)]
impl Op for Gain {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_signal(NAME, input)
    }

    fn does_nothing(&self, _: &Type) -> bool {
        self.p == 0.0 || (self.min_gain_db, self.max_gain_db) == (0.0, 0.0)
    }

    fn for_input(&self, input: &Type) -> Option<Arc<dyn Op>> {
        is_whole(input).then(|| Arc::new(Self { whole: true, ..*self }) as Arc<dyn Op>)
    }
}

/// Parameter: the factor.
impl PixelOp for Gain {
    fn param_count(&self) -> usize {
        1
    }

    fn draw(&self, rng: &mut Rng, _: Size, params: &mut [f32]) -> bool {
        let runs = rng.coin(self.p);
        let db = rng.uniform(self.min_gain_db, self.max_gain_db);
        params[0] = if runs { libm::pow(10.0, f64::from(db) / 20.0) as f32 } else { 1.0 };
        true
    }

    fn is_per_channel(&self) -> bool {
        true
    }

    fn eval(&self, cx: &Eval<'_>, pixel: &mut [f32]) {
        for v in pixel {
            let product = *v * cx.params[0];
            *v = if self.whole { apply_rule(cx.rule, product) } else { product };
        }
    }

    fn emit(&self, e: &mut Emit, pixels: Pixels) -> Pixels {
        e.each(pixels, |e, _, v| {
            let factor = e.param(0);
            let product = e.mul(v, factor);
            if self.whole { e.apply_rule(product) } else { product }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::author::OpClass;
    use crate::op::evaluated;
    use crate::rng::SampleKey;
    use crate::signal::tests::image;
    use crate::{DType, NumberRule};

    fn factor(op: &Gain, sample: u64) -> f32 {
        let mut params = [0.0];
        op.draw(&mut SampleKey::new(0, 0, sample).op(0), Size::new(1, 1), &mut params);
        params[0]
    }

    #[test]
    fn decibels_are_factors_of_the_amplitude() {
        for (db, want) in
            [(0.0, 1.0), (20.0, 10.0), (-20.0, 0.1), (-40.0, 0.01), (6.0, 1.995_262_3)]
        {
            assert_eq!(factor(&Gain::new(db, db).unwrap().p(1.0).unwrap(), 0), want, "{db}");
        }
    }

    #[test]
    fn gains_are_uniform_in_decibels_for_a_share_p() {
        let op = Gain::new(-12.0, 12.0).unwrap().p(0.7).unwrap();
        let drawn: Vec<f32> = (0..4000).map(|sample| factor(&op, sample)).collect();
        let changed = drawn.iter().filter(|factor| **factor != 1.0).count();
        assert!((2650..2950).contains(&changed), "{changed}");
        let db: Vec<f32> = drawn.iter().map(|factor| 20.0 * factor.log10()).collect();
        assert!(db.iter().all(|db| (-12.001..12.001).contains(db)));
        let loud = db.iter().filter(|db| **db > 6.0).count();
        assert!((600..800).contains(&loud), "{loud}, expected 700");
    }

    #[test]
    fn floats_keep_their_fractions_and_integers_lose_them_under_the_exact_rule() {
        let op = Gain::new(0.0, 1.0).unwrap();
        assert!(op.for_input(&image(DType::F16)).is_none());
        let on_i16 = op.for_input(&image(DType::I16)).unwrap();
        let OpClass::Pixel(on_i16) = on_i16.class() else { panic!("it is a pixel op") };
        let exact = Eval::new(NumberRule::Exact, &[1.5]);
        assert_eq!(evaluated(&op, &exact, [-3.0, 0.5, 1.0]), [-4.5, 0.75, 1.5]);
        assert_eq!(evaluated(on_i16, &exact, [-3.0, 30_000.0]), [-4.0, 45_000.0]);
        let fused = Eval::new(NumberRule::Fused, &[1.5]);
        assert_eq!(evaluated(on_i16, &fused, [-3.0]), [-4.5]);
    }

    #[test]
    fn no_gain_does_nothing_and_bad_parameters_are_refused() {
        assert!(Gain::new(0.0, 0.0).unwrap().does_nothing(&image(DType::F32)));
        assert!(!Gain::new(0.0, 1.0).unwrap().does_nothing(&image(DType::F32)));
        for (low, high) in [(f64::NAN, 1.0), (0.0, f64::NAN), (1.0, 0.0), (-201.0, 0.0), (0.0, 1e9)]
        {
            assert!(Gain::new(low, high).is_err(), "{low}, {high}");
        }
        assert!(Gain::new(0.0, 1.0).unwrap().p(-0.1).is_err());
    }
}
