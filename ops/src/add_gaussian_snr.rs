//! Gaussian noise of a drawn signal-to-noise ratio.

use crate::author::ImageType;
use crate::author::{Emit, Eval, PixelOp, Pixels, Rng, Statistic, Type, apply_rule};
use crate::default_floats::nearest_f32;
use crate::noise::{self, SEEDS};
use crate::op::{Op, class, is_whole};
use crate::registry::{BuiltOp, OpArgs, SpecError};
use crate::registry::{built, recipe};
use crate::signal::{self, on_signal};
use crate::{ParamError, Size, TypeError};
use std::sync::Arc;

/// Adds normal noise to a share `p` of the signals, so much quieter than the signal as is drawn in decibels.
///
#[cfg_attr(doc, doc = include_str!("../pictures/AddGaussianSNR.md"))]
///
/// ```text
/// out = in + n * rms * 10^(-dB / 20)        dB = U(min_snr_db, max_snr_db)
/// rms = sqrt(mean of in^2)                  over the whole signal
/// ```
///
/// where `n` is normal and independent for each value.
///
/// | | |
/// |--------|-------------------------------------------------------------------------------------------|
/// | input  | image of i16, f16, bf16 or f32, with up to 4 channels: the samples of audio `[channels, samples]` |
/// | output | as the input                                                                              |
/// | random | a coin `p`, the decibels, then two words; `n` is a hash of them and of the value's row, column and channel |
/// | cost   | one more pass over the signal for the squares, then about forty operations per value      |
///
/// audiomentations' `AddGaussianSNR`, with its defaults: a ratio of 5 to 40 decibels for half of the signals. Of a
/// signal of several channels, audiomentations takes the mean of the channels' root mean squares; here, the noise
/// follows the root mean square of all values, which is the same for one channel and for channels of equal
/// loudness. The noise is this crate's: see [`GaussianNoise`](crate::GaussianNoise).
///
/// The squares are summed as `f64`, in the same order whatever runs the op. An infinity or a NaN in the signal makes
/// the root an infinity or NaN, and then every value of the signal becomes one, as in audiomentations. Silence stays
/// silent. Floats are not clipped; results of i16 saturate and are rounded as those of [`Gain`](crate::Gain).
///
/// ```
/// # use fuseloop_ops::*;
/// let signal = ScaleIntensityRange::new(0.0..=255.0, -1.0..=1.0)?;
/// let list = ops![signal, AddGaussianSNR::new().max_snr_db(30.0)?.p(1.0)?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq)]
#[op(SIGNALS, "adds noise of a drawn signal-to-noise ratio to a share p of the signals", build = build, draw = random, new = "Builds noise with audiomentations' defaults: 5 to 40 decibels, for half of the signals.")]
pub struct AddGaussianSNR {
    #[param("the least ratio in decibels", by_hand, default = 5.0)]
    min_snr_db: f32,
    #[param("the largest ratio in decibels", by_hand, default = 40.0)]
    max_snr_db: f32,
    /// Sets the share of the signals that get noise.
    #[param(share)]
    p: f64,
    /// True if values are those of an integer type.
    #[init(false)]
    whole: bool,
}

const NAME: &str = "AddGaussianSNR";

/// The largest ratio in either direction: a factor of 10^10.
const MOST_DB: f64 = 200.0;

/// The indices of the drawn parameters after the seeds.
const FACTOR: usize = SEEDS;
const ROOT_MEAN_SQUARE: usize = SEEDS + 1;

impl AddGaussianSNR {
    /// Sets the least ratio of signal to noise in decibels: that of the loudest noise. Default 5.
    ///
    /// # Errors
    ///
    /// If `min_snr_db` is not in `-200.0..=200.0`, or above the largest ratio: to raise both, set
    /// [`max_snr_db`](Self::max_snr_db) first.
    pub fn min_snr_db(self, min_snr_db: f64) -> Result<Self, ParamError> {
        if !(-MOST_DB..=f64::from(self.max_snr_db)).contains(&min_snr_db) {
            let expected = "at least -200.0, and not above max_snr_db";
            return Err(ParamError::new(NAME, "min_snr_db", min_snr_db, expected));
        }
        Ok(Self { min_snr_db: nearest_f32(min_snr_db), ..self })
    }

    /// Sets the largest ratio of signal to noise in decibels: that of the quietest noise. Default 40.
    ///
    /// # Errors
    ///
    /// If `max_snr_db` is not in `-200.0..=200.0`, or below the least ratio: to lower both, set
    /// [`min_snr_db`](Self::min_snr_db) first.
    pub fn max_snr_db(self, max_snr_db: f64) -> Result<Self, ParamError> {
        if !(f64::from(self.min_snr_db)..=MOST_DB).contains(&max_snr_db) {
            let expected = "at most 200.0, and not below min_snr_db";
            return Err(ParamError::new(NAME, "max_snr_db", max_snr_db, expected));
        }
        Ok(Self { max_snr_db: nearest_f32(max_snr_db), ..self })
    }

    /// Sets both ratios.
    fn between(self, low: f64, high: f64) -> Result<Self, ParamError> {
        Self { max_snr_db: MOST_DB as f32, ..self }.min_snr_db(low)?.max_snr_db(high)
    }
}

fn build(args: &OpArgs<'_>) -> Result<BuiltOp, SpecError> {
    let [low, high] = [args.float("min_snr_db")?, args.float("max_snr_db")?];
    Ok(built(AddGaussianSNR::new().between(low, high)?.p(args.float("p")?)?))
}

fn random(rng: &mut Rng, before: &ImageType) -> Result<BuiltOp, ParamError> {
    let (low, high) = recipe::range(rng, -10.0, 40.0, 20.0).into_inner();
    let op = AddGaussianSNR::new().between(low, high)?.p(recipe::share(rng))?;
    signal::on_any(op, before)
}

#[class(Pixel)]
impl Op for AddGaussianSNR {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_signal(NAME, input)
    }

    fn does_nothing(&self, _: &Type) -> bool {
        self.p == 0.0
    }

    fn for_input(&self, input: &Type) -> Option<Arc<dyn Op>> {
        is_whole(input).then(|| Arc::new(Self { whole: true, ..*self }) as Arc<dyn Op>)
    }
}

/// Parameters: two seeds, the noise's share of the root mean square, the root mean square.
impl PixelOp for AddGaussianSNR {
    fn param_count(&self) -> usize {
        SEEDS + 2
    }

    fn param_names(&self) -> &'static [&'static str] {
        &["-", "-", "noise to signal"]
    }

    fn draw(&self, rng: &mut Rng, _: Size, params: &mut [f32]) -> bool {
        let runs = rng.coin(self.p);
        let db = rng.uniform(self.min_snr_db, self.max_snr_db);
        params[FACTOR] = libm::pow(10.0, f64::from(db) / -20.0) as f32;
        params[..SEEDS].copy_from_slice(&noise::seeds(rng));
        runs
    }

    fn may_skip(&self) -> bool {
        self.p < 1.0
    }

    fn statistic(&self) -> Option<Statistic> {
        Some(Statistic::RootMeanSquare)
    }

    fn uses_position(&self) -> bool {
        true
    }

    fn eval(&self, cx: &Eval<'_>, pixel: &mut [f32]) {
        let normals = noise::normals_of_array([cx.params[0], cx.params[1]], cx.at);
        let deviation = cx.params[ROOT_MEAN_SQUARE] * cx.params[FACTOR];
        for (v, normal) in pixel.iter_mut().zip(normals) {
            let sum = *v + normal * deviation;
            *v = if self.whole { apply_rule(cx.rule, sum) } else { sum };
        }
    }

    fn emit(&self, e: &mut Emit, pixels: Pixels) -> Pixels {
        let normals = noise::emit_normals_of_array(e, 0, pixels);
        let (factor, root_mean_square) = (e.param(FACTOR), e.param(ROOT_MEAN_SQUARE));
        let deviation = e.mul(root_mean_square, factor);
        e.each(pixels, |e, c, v| {
            let z = e.mul(normals.channels()[c], deviation);
            let sum = e.add(v, z);
            if self.whole { e.apply_rule(sum) } else { sum }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::author::OpClass;
    use crate::emit::root_mean_square;
    use crate::op::evaluated;
    use crate::rng::SampleKey;
    use crate::signal::tests::image;
    use crate::{DType, NumberRule};

    fn drawn(op: &AddGaussianSNR, sample: u64) -> Option<[f32; SEEDS + 2]> {
        let mut params = [0.0; SEEDS + 2];
        let runs = op.draw(&mut SampleKey::new(0, 0, sample).op(0), Size::new(1, 1), &mut params);
        runs.then_some(params)
    }

    #[test]
    fn the_noise_has_the_ratio_that_was_drawn() {
        let signal: Vec<f32> = (0..40_000).map(|k| (k as f32 * 0.1).sin() * 0.3).collect();
        let loudness = root_mean_square(&signal, 40_000, 1);
        for db in [-10.0, 0.0, 20.0] {
            let op = AddGaussianSNR::new().between(db, db).unwrap().p(1.0).unwrap();
            let mut params = drawn(&op, 1).unwrap();
            params[ROOT_MEAN_SQUARE] = loudness;
            let noise: Vec<f32> = (0..)
                .zip(&signal)
                .map(|(column, v)| {
                    let cx = Eval { rule: NumberRule::Exact, params: &params, at: [0, column] };
                    evaluated(&op, &cx, [*v])[0] - v
                })
                .collect();
            let found = 20.0 * (loudness / root_mean_square(&noise, 40_000, 1)).log10();
            // Five deviations of the noise's own root mean square.
            assert!((f64::from(found) - db).abs() < 0.16, "{found} for {db}");
        }
    }

    #[test]
    fn squares_are_summed_without_rounding_or_overflow() {
        assert_eq!(root_mean_square(&[3.0, -4.0], 2, 1), 12.5f32.sqrt());
        assert_eq!(root_mean_square(&[3.0, -4.0], 1, 2), 12.5f32.sqrt());
        assert_eq!(root_mean_square(&[f32::MAX; 22], 11, 2), f32::MAX);
        assert_eq!(root_mean_square(&[1e-45; 22], 11, 1), 1e-45);
        assert_eq!(root_mean_square(&[0.0; 9], 9, 1), 0.0);
        assert_eq!(root_mean_square(&[1.0, f32::INFINITY], 2, 1), f32::INFINITY);
        assert!(root_mean_square(&[1.0, f32::NAN, f32::INFINITY], 3, 1).is_nan());
    }

    /// Of 11 columns, the last three belong to the lanes 5, 6 and 7, behind the first eight.
    #[test]
    fn the_order_of_the_sum_is_that_of_the_lanes() {
        let values: Vec<f32> = (0..22).map(|k| 1.1f32.powi(k * 7 % 22)).collect();
        let lanes =
            [vec![0], vec![1], vec![2], vec![3], vec![4], vec![5, 8], vec![6, 9], vec![7, 10]];
        let square = |at: usize| f64::from(values[at]) * f64::from(values[at]);
        let sum = lanes.iter().fold(0.0, |sum, columns| {
            let both = [0, 11].into_iter().flat_map(|row| columns.iter().map(move |c| row + c));
            sum + both.fold(0.0, |sum, at| sum + square(at))
        });
        assert_eq!(root_mean_square(&values, 11, 1), (sum / 22.0).sqrt() as f32);
    }

    #[test]
    fn ratios_are_uniform_in_decibels_for_a_share_p() {
        let op = AddGaussianSNR::new().p(0.7).unwrap();
        let drawn: Vec<_> = (0..4000).filter_map(|sample| drawn(&op, sample)).collect();
        assert!((2650..2950).contains(&drawn.len()), "{}", drawn.len());
        let db: Vec<f32> = drawn.iter().map(|params| -20.0 * params[FACTOR].log10()).collect();
        assert!(db.iter().all(|db| (4.999..40.001).contains(db)));
        let loud = db.iter().filter(|db| **db < 12.0).count();
        assert!((480..640).contains(&loud), "{loud}, expected 560");
        assert_ne!(drawn[0][..SEEDS], drawn[1][..SEEDS], "samples have noise of their own");
    }

    #[test]
    fn integers_lose_their_fractions_under_the_exact_rule() {
        let op = AddGaussianSNR::new().between(0.0, 0.0).unwrap().p(1.0).unwrap();
        assert!(op.for_input(&image(DType::Bf16)).is_none());
        let on_i16 = op.for_input(&image(DType::I16)).unwrap();
        let OpClass::Pixel(on_i16) = on_i16.class() else { panic!("it is a pixel op") };
        let mut params = drawn(&op, 3).unwrap();
        params[ROOT_MEAN_SQUARE] = 100.0;
        let exact = Eval::new(NumberRule::Exact, &params);
        let [sum] = evaluated(&op, &exact, [1000.0]);
        assert_ne!(sum, sum.trunc());
        assert_eq!(evaluated(on_i16, &exact, [1000.0]), [sum.trunc()]);
        let fused = Eval::new(NumberRule::Fused, &params);
        assert_eq!(evaluated(on_i16, &fused, [1000.0]), [sum]);
    }

    #[test]
    fn bad_parameters_are_refused() {
        let op = AddGaussianSNR::new();
        for bad in [f64::NAN, -201.0, 40.5] {
            assert!(op.min_snr_db(bad).is_err(), "{bad}");
        }
        for bad in [f64::NAN, 201.0, 4.5] {
            assert!(op.max_snr_db(bad).is_err(), "{bad}");
        }
        assert!(op.p(1.1).is_err());
        assert!(op.max_snr_db(60.0).unwrap().min_snr_db(50.0).is_ok());
        assert!(op.between(50.0, 60.0).is_ok() && op.between(-20.0, -10.0).is_ok());
        assert!(op.p(0.0).unwrap().does_nothing(&image(DType::F32)));
    }
}
