//! The cases, their images, and a function that runs an op list on an image by both implementations.

use fuseloop::internals::jit::{self, DecodedPixels, Kernel, Scratch};
use fuseloop::internals::plan::{Draws, ImagePlan};
use fuseloop_ops::author::{Dim, GeometryStep, ImageType, Layout, Op, OpClass};
use fuseloop_ops::internals::rows::{RowFilter, Warp};
use fuseloop_ops::internals::{ImageView, SampleKey};
use fuseloop_ops::*;
use serde_json::Value as Json;
use sha2::{Digest, Sha256};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

pub fn golden(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/ops").join(name);
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub fn cases(name: &str) -> Vec<Json> {
    let mut file: Json = serde_json::from_slice(&golden(name)).unwrap();
    let Json::Array(cases) = file["cases"].take() else { panic!("{name} has no cases") };
    assert!(!cases.is_empty(), "{name} is empty");
    cases
}

/// The cases of `{family}.json`, each with its bytes in `{family}.bin`; a case with a hash has no bytes.
pub fn cases_and_bytes(family: &str) -> Vec<(Json, Vec<u8>)> {
    let all = golden(&format!("{family}.bin"));
    let mut rest = &all[..];
    let with_bytes = |case: Json| {
        let count = case.get("bytes").map_or(0, number) as usize;
        let (own, after) = rest.split_at(count);
        rest = after;
        (case, own.to_vec())
    };
    let made = cases(&format!("{family}.json")).into_iter().map(with_bytes).collect();
    assert!(rest.is_empty(), "{family}.bin has more than {family}.json");
    made
}

/// The largest difference between two images, in levels, and the share of values that differ.
pub fn distance(a: &[u8], b: &[u8]) -> (u8, f64) {
    assert_eq!(a.len(), b.len());
    let differences = || a.iter().zip(b).map(|(a, b)| a.abs_diff(*b));
    let share = differences().filter(|&d| d > 0).count() as f64 / a.len() as f64;
    (differences().max().unwrap_or(0), share)
}

pub fn number(value: &Json) -> u32 {
    value.as_u64().unwrap().try_into().unwrap()
}

pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A case's colour: one level for all channels, or three; `None` if it is null.
pub fn color(value: &Json) -> Option<[u8; 3]> {
    match value {
        Json::Null => None,
        Json::Array(levels) => Some([0, 1, 2].map(|c| levels[c].as_f64().unwrap() as u8)),
        level => Some([level.as_f64().unwrap() as u8; 3]),
    }
}

/// A case's numbers.
pub fn numbers<const N: usize>(value: &Json) -> [f64; N] {
    let numbers: Vec<f64> = value.as_array().unwrap().iter().map(|n| n.as_f64().unwrap()).collect();
    numbers.try_into().unwrap()
}

/// An image: u8 `[height, width, 3]`.
pub struct Image {
    pub pixels: Vec<u8>,
    pub size: Size,
}

impl Image {
    /// The image of a case, as the script's `picture` generates it: kind, seed, height, width.
    pub fn of(case: &Json) -> Self {
        let spec = &case["picture"];
        let (seed, size) = (number(&spec[1]), Size::new(number(&spec[2]), number(&spec[3])));
        let pixels = match spec[0].as_str().unwrap() {
            "texture" => golden("texture.rgb"),
            "waves" => Self::filled(size, |y, x, c| {
                (3 * y + 5 * x * (c + 1) + 17 * seed) ^ ((y / 7) * (x / 5) * (c + 3))
            }),
            "noise" => Self::filled(size, |y, x, c| noise(seed, y, x, c)),
            "ramp" => Self::filled(size, |y, x, _| size.width * y + x),
            "constant" => Self::filled(size, |_, _, _| seed),
            "steps" => Self::filled(size, |y, x, c| seed + 40 * ((y + 2 * x + c) % 5)),
            "narrow" => Self::filled(size, |y, x, c| {
                20 + 40 * c + (noise(seed, y, x, c) & 255) % (20 + 40 * c)
            }),
            "grey" => {
                Self::filled(size, |y, x, c| noise(seed, y, x, if x % 4 == 3 { c } else { 0 }))
            }
            kind => panic!("no picture {kind}"),
        };
        assert_eq!(pixels.len() as u64, size.pixels() * 3);
        Self { pixels, size }
    }

    fn filled(size: Size, value: impl Fn(u32, u32, u32) -> u32) -> Vec<u8> {
        let positions = (0..size.height).flat_map(|y| (0..size.width).map(move |x| (y, x)));
        positions.flat_map(|(y, x)| [0, 1, 2].map(|c| value(y, x, c) as u8)).collect()
    }
}

pub fn noise(seed: u32, y: u32, x: u32, c: u32) -> u32 {
    let of = |v: u32, next: u32| v.wrapping_mul(8191).wrapping_add(next);
    let v = of(of(of(seed, y), x), c);
    let v = (v ^ (v >> 15)).wrapping_mul(0x2c1b_3c6d);
    let v = (v ^ (v >> 12)).wrapping_mul(0x297a_2d39);
    v ^ (v >> 15)
}

/// The output of `ops` for an image, with the draws that `set` changes, by the compiled kernel, which
/// must agree with the oracle.
pub fn run(ops: Ops, image: &Image, set: impl FnOnce(&mut Draws)) -> Vec<u8> {
    let Size { height, width } = image.size;
    let input = ImageType::decoded(Dim::fixed(height), Dim::fixed(width));
    let plan = ImagePlan::new(ops, input, NumberRule::Exact).unwrap();
    let kernel = Kernel::compile(plan).unwrap();
    let mut draws = Draws::default();
    kernel.plan().draw(SampleKey::new(0, 0, 0), image.size, &mut draws);
    set(&mut draws);

    let view = ImageView::packed(&image.pixels, image.size).unwrap();
    let evaluated = jit::evaluate(kernel.plan(), &view, &draws);
    let mut compiled = vec![0xAA; kernel.plan().sample_bytes()];
    kernel.run(&mut Scratch::default(), DecodedPixels::whole(view), &draws, &mut compiled);
    let differs = compiled.iter().zip(&evaluated).position(|(a, b)| a != b);
    assert_eq!(differs, None, "compiled and evaluated differ: {:?}", kernel.plan().ops());
    assert_channels_alone(kernel.plan(), image, &draws, &compiled);
    compiled
}

/// Checks that ops which treat each channel by itself give the channels of an image of another number of
/// channels what they give those of the RGB image, whose output is `rgb`.
fn assert_channels_alone(plan: &ImagePlan, image: &Image, draws: &Draws, rgb: &[u8]) {
    let is_separate = |op: &Arc<dyn Op>| match op.class() {
        // These draw numbers for each channel, or mix the channels.
        _ if ["ChannelDropout", "JPEG", "MultiplicativeNoise", "RandomToneCurve"]
            .contains(&op.name()) =>
        {
            false
        }
        OpClass::Geometry(_) | OpClass::Table(_) | OpClass::Region(_) => true,
        OpClass::Pixel(op) => op.is_per_channel() && op.statistic().is_none(),
        OpClass::Cast(_) | OpClass::Layout(_) => true,
        _ => false,
    };
    // Cases set the colour of a warp in its draws.
    let is_coloured = |(_, step): &(usize, GeometryStep)| match step {
        GeometryStep::Rows(RowFilter::Warp(Warp { fill: Some([r, g, b]), .. })) => r != g || g != b,
        _ => false,
    };
    if !plan.ops().iter().all(is_separate) || draws.geometry.iter().any(is_coloured) {
        return;
    }
    for channels in [&[0][..], &[1], &[2, 0], &[0, 1, 2, 1]] {
        let input = plan.input().with_channels(channels.len() as u16);
        // Ops with a colour of their own, or constants for three channels.
        let Ok(other) = ImagePlan::new(plan.ops().clone(), input, plan.rule()) else { continue };
        let pixels = image.pixels.as_chunks::<3>().0.iter();
        let pixels: Vec<u8> = pixels.flat_map(|pixel| channels.iter().map(|c| pixel[*c])).collect();
        let view = ImageView::packed_channels(&pixels, image.size, channels.len()).unwrap();
        let kernel = Kernel::compile(other).unwrap();
        let mut found = vec![0xAA; kernel.plan().sample_bytes()];
        kernel.run(&mut Scratch::default(), DecodedPixels::whole(view), draws, &mut found);
        assert!(found == jit::evaluate(kernel.plan(), &view, draws), "{:?}", plan.ops());
        let (of_found, of_rgb) = (planes(kernel.plan(), &found), planes(plan, rgb));
        for (plane, c) in of_found.iter().zip(channels) {
            assert!(*plane == of_rgb[*c], "channel {c} of {channels:?}: {:?}", plan.ops());
        }
    }
}

/// The bytes of each channel.
fn planes(plan: &ImagePlan, bytes: &[u8]) -> Vec<Vec<u8>> {
    let (channels, element) = (usize::from(plan.output().channels), plan.dtype().bytes());
    let plane = |c: usize| match plan.output().layout {
        Layout::ChannelsFirst => {
            bytes.chunks_exact(bytes.len() / channels).nth(c).unwrap().to_vec()
        }
        Layout::ChannelsLast | Layout::Plane => {
            let elements = bytes.chunks_exact(element).skip(c).step_by(channels);
            elements.flatten().copied().collect()
        }
    };
    (0..channels).map(plane).collect()
}
