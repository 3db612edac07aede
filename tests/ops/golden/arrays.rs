//! Ops on the values of arrays: clips, scaled intensities, gains, dropped channels, and the masks of spectrograms.
//! `tests/golden/ops/arrays.py` writes the goldens.

use super::support::{Image, cases_and_bytes, numbers, run, sha256};
use fuseloop_ops::author::{Eval, OpClass, Rng};
use fuseloop_ops::*;
use serde_json::Value as Json;
use std::sync::Arc;

/// The cases of `op` with their bytes; `count` is their number.
fn cases(op: &str, count: usize) -> Vec<(Json, Vec<u8>)> {
    let cases = cases_and_bytes("arrays").into_iter();
    let found: Vec<_> = cases.filter(|(case, _)| case["op"] == op).collect();
    assert_eq!(found.len(), count, "cases of {op}");
    found
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

fn values() -> Vec<f32> {
    floats(&cases("values", 1)[0].1)
}

fn float(value: &Json) -> f64 {
    value.as_f64().unwrap()
}

/// An image of all levels in order: 0 to 255 in each channel.
fn levels() -> Image {
    Image { pixels: (0..=255).flat_map(|level| [level; 3]).collect(), size: Size::new(8, 32) }
}

/// The values after the definition of a pixel op on floats, with its first draws.
fn evaluated(op: &Arc<dyn author::Op>, values: &[f32]) -> Vec<f32> {
    let OpClass::Pixel(op) = op.class() else { panic!("{op:?} is no pixel op") };
    let mut params = vec![0.0; op.param_count()];
    op.draw(&mut Rng::new(0), Size::new(1, 1), &mut params);
    let mut values = values.to_vec();
    op.eval(&Eval::new(NumberRule::Fused, &params), &mut values);
    values
}

/// MONAI rounds four times, so that its last bits differ: those of the differences and of the product, which may
/// cancel.
#[test]
fn scaled_intensities_are_monais_but_for_its_roundings() {
    for (case, theirs) in cases("scale_intensity_range", 20) {
        let [a_min, a_max, b_min, b_max] =
            ["a_min", "a_max", "b_min", "b_max"].map(|name| float(&case[name]));
        let clip = case["clip"].as_bool().unwrap();
        let op = ScaleIntensityRange::new(a_min..=a_max, b_min..=b_max).unwrap().clip(clip);
        let (inputs, ours) = match case["input"].as_str().unwrap() {
            "levels" => {
                let out = floats(&run(ops![op], &levels(), |_| ()));
                assert!(out.as_chunks().0.iter().all(|[r, g, b]| r == g && g == b));
                (
                    (0..=255).map(|level| level as f32).collect(),
                    out.into_iter().step_by(3).collect(),
                )
            }
            _ => (values(), evaluated(&ops![op][0], &values())),
        };
        let theirs = floats(&theirs);
        assert_eq!(ours.len(), theirs.len());
        let ulp = 2f64.powi(-23);
        for ((input, ours), theirs) in inputs.into_iter().zip(ours).zip(theirs) {
            let product =
                (f64::from(input).abs() + a_min.abs()) * (b_max - b_min) / (a_max - a_min);
            let most = 2.0 * ulp * (product + b_min.abs());
            let is_near = f64::from((ours - theirs).abs()) <= most;
            let is_same = ours == theirs || ours.is_nan() && theirs.is_nan();
            assert!(is_same || is_near, "{case}: {input} became {ours}, theirs is {theirs}");
        }
    }
}

#[test]
fn clipped_values_are_numpys() {
    for (case, theirs) in cases("clip", 7) {
        let low = case["low"].as_f64().unwrap_or(f64::NEG_INFINITY);
        let op = Clip::new(low, float(&case["high"])).unwrap();
        if case["input"] == "levels" {
            let out = run(ops![op], &levels(), |_| ());
            let out: Vec<u8> = out.into_iter().step_by(3).collect();
            assert_eq!(out, theirs, "{case}");
            continue;
        }
        // NumPy may return either of 0 and -0, which are equal.
        for ((input, ours), theirs) in
            values().iter().zip(evaluated(&ops![op][0], &values())).zip(floats(&theirs))
        {
            let is_same = ours == theirs || ours.is_nan() && theirs.is_nan();
            assert!(is_same, "{case}: {input} became {ours}, theirs is {theirs}");
        }
    }
}

fn bits(values: &[f32]) -> Vec<u32> {
    // A product of NaN is NaN, of either sign.
    values.iter().map(|v| if v.is_nan() { f32::NAN } else { *v }.to_bits()).collect()
}

#[test]
fn gains_and_inverted_polarities_are_those_of_audiomentations() {
    for (case, theirs) in cases("gain", 7) {
        let db = float(&case["db"]);
        let op = ops![Gain::new(db, db).unwrap().p(1.0).unwrap()];
        assert_eq!(bits(&evaluated(&op[0], &values())), bits(&floats(&theirs)), "{case}");
    }
    for (case, theirs) in cases("polarity_inversion", 1) {
        let op = ops![PolarityInversion::new().p(1.0).unwrap()];
        assert_eq!(bits(&evaluated(&op[0], &values())), bits(&floats(&theirs)), "{case}");
    }
}

#[test]
fn dropped_channels_are_those_of_albumentations() {
    for (case, _) in cases("channel_dropout", 10) {
        let channels: Vec<u64> =
            case["channels"].as_array().unwrap().iter().map(|c| c.as_u64().unwrap()).collect();
        let pixels = (0..=255).flat_map(|level: u8| [level, 255 - level, level ^ 0x55]).collect();
        let image = Image { pixels, size: Size::new(8, 32) };
        let op = ChannelDropout::new().channel_drop_range(1..=2).unwrap();
        let op = op.fill(float(&case["fill"]) as f32).unwrap().p(1.0).unwrap();
        let out = run(ops![op], &image, |draws| {
            let is_dropped = |c| if channels.contains(&c) { 1.0 } else { 0.0 };
            draws.params = (0..3).map(is_dropped).collect();
        });
        assert_eq!(sha256(&out), case["sha256"], "{case}");
    }
}

#[test]
fn masks_of_spectrograms_are_those_of_torchaudio() {
    for (case, _) in cases("mask_along_axis", 216) {
        let whole = |name: &str| u32::try_from(case[name].as_u64().unwrap()).unwrap();
        let (param, len, p) = (whole("mask_param"), whole("len"), float(&case["p"]));
        let seed = u64::from(whole("seed"));
        let mut rng = Rng::new(seed);
        let drawn = [rng.unit(), rng.unit()].map(|unit| f64::from(unit * 16_777_216.0));
        assert_eq!(drawn, numbers(&case["draws"]), "the script has another generator: {case}");

        let is_frequency = whole("axis") == 0;
        let op = match is_frequency {
            // torchaudio's FrequencyMasking has no `p`.
            true if p < 1.0 => continue,
            true => ops![FrequencyMasking::new(param).unwrap()],
            false => ops![TimeMasking::new(param).unwrap().p(p).unwrap()],
        };
        let size = if is_frequency { Size::new(len, 2) } else { Size::new(2, len) };
        let OpClass::Region(op) = op[0].class() else { panic!("a mask is a region") };
        let window = op.draw(&mut Rng::new(seed), size);
        let [found, across] = match is_frequency {
            true => [[window.top, window.height], [window.left, window.width]],
            false => [[window.left, window.width], [window.top, window.height]],
        };
        assert_eq!(found.map(f64::from), numbers(&case["band"]), "{case}");
        assert_eq!(across, if found[1] == 0 { [0, 0] } else { [0, 2] }, "{case}");
    }
}
