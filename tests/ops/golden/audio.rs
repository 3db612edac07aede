//! Ops on audio: noise of a signal-to-noise ratio, and the mean of channels. `tests/golden/ops/audio.py` writes the goldens.

use super::support::cases_and_bytes;
use fuseloop::internals::jit::{DecodedPixels, Kernel, Scratch, evaluate};
use fuseloop::internals::plan::{Draws, ImagePlan};
use fuseloop_ops::author::{Eval, ImageType, Layout, OpClass};
use fuseloop_ops::internals::{ImageView, PixelFormat, SampleKey};
use fuseloop_ops::*;
use serde_json::Value as Json;
use std::sync::Arc;

/// The cases of `op` with their bytes; `count` is their number.
fn cases(op: &str, count: usize) -> Vec<(Json, Vec<u8>)> {
    let cases = cases_and_bytes("audio").into_iter();
    let found: Vec<_> = cases.filter(|(case, _)| case["op"] == op).collect();
    assert_eq!(found.len(), count, "cases of {op}");
    found
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

/// The bytes that a list makes of audio of `channels` rows, and its draws. The compiled kernel must agree with the
/// oracle.
fn run(ops: Ops, dtype: DType, channels: usize, audio: &[u8]) -> (Vec<u8>, Draws) {
    let samples = audio.len() / (channels * dtype.bytes());
    let size = Size::new(channels as u32, samples as u32);
    let input = ImageType { layout: Layout::Plane, ..ImageType::array(size, 1, dtype) };
    let kernel = Kernel::compile(ImagePlan::new(ops, input, NumberRule::Exact).unwrap()).unwrap();
    let mut draws = Draws::default();
    kernel.plan().draw(SampleKey::new(0, 0, 0), size, &mut draws);
    let view = ImageView::packed_format(audio, size, PixelFormat { channels: 1, dtype }).unwrap();
    let mut out = vec![0xAA; kernel.plan().sample_bytes()];
    kernel.run(&mut Scratch::default(), DecodedPixels::whole(view), &draws, &mut out);
    assert!(out == evaluate(kernel.plan(), &view, &draws), "compiled and evaluated differ");
    (out, draws)
}

/// The normal number of each value of audio, given the two seeds: the noise whose deviation is 1.
fn normals(op: &Arc<dyn author::Op>, seeds: &[f32], channels: usize, samples: usize) -> Vec<f64> {
    let OpClass::Pixel(op) = op.class() else { panic!("{op:?} is no pixel op") };
    let params = [seeds[0], seeds[1], 1.0, 1.0];
    let normal = |at: usize| {
        let at = [at / samples, at % samples].map(|place| place as i32);
        let mut value = [0.0];
        op.eval(&Eval { rule: NumberRule::Exact, params: &params, at }, &mut value);
        f64::from(value[0])
    };
    (0..channels * samples).map(normal).collect()
}

/// audiomentations computes the deviation in f32, and so do we: they differ in the last places.
#[test]
fn noise_has_the_deviation_that_audiomentations_gives_it() {
    for (case, audio) in cases("add_gaussian_snr", 4) {
        let signal = floats(&audio);
        let channels = case["channels"].as_u64().unwrap() as usize;
        for pair in case["deviations"].as_array().unwrap() {
            let [ratio, deviation] = [0, 1].map(|k| pair[k].as_f64().unwrap());
            let op = AddGaussianSNR::new().min_snr_db(-200.0).unwrap();
            let op = op.max_snr_db(ratio).unwrap().min_snr_db(ratio).unwrap().p(1.0).unwrap();
            let list = ops![op];
            let (out, draws) = run(list.clone(), DType::F32, channels, &audio);
            let normals = normals(&list[0], &draws.params, channels, signal.len() / channels);
            for ((before, after), normal) in signal.iter().zip(floats(&out)).zip(normals) {
                let want = f64::from(*before) + normal * deviation;
                let most = 2e-6 * (normal * deviation).abs() + 1.2e-7 * want.abs();
                let difference = (f64::from(after) - want).abs();
                assert!(difference <= most, "{case}, {ratio}: {before} became {after}, not {want}");
            }
        }
    }
}

/// NumPy makes 0 of the mean of several -0, which are equal.
#[test]
fn the_mean_of_channels_is_that_of_librosa_and_numpy() {
    for (case, both) in cases("to_mono", 10) {
        let channels = case["channels"].as_u64().unwrap() as usize;
        let (audio, mono) = both.split_at(both.len() / (channels + 1) * channels);
        let dtype = if case["dtype"] == "int16" { DType::I16 } else { DType::F32 };
        let (out, _) = run(ops![ToMono], dtype, channels, audio);
        match dtype {
            DType::I16 => assert!(out == mono, "{case}"),
            _ => assert_eq!(floats(&out), floats(mono), "{case}"),
        }
    }
}
