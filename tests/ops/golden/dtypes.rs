//! Geometry, resizes, warps and blurs of elements that are not bytes, for any number of channels.
//! `tests/golden/ops/dtypes.py` writes the goldens.

use super::support::{cases_and_bytes, noise, number};
use fuseloop::internals::jit::{self, DecodedPixels, Kernel, Scratch};
use fuseloop::internals::plan::{Draws, ImagePlan};
use fuseloop_ops::author::{ImageType, Layout};
use fuseloop_ops::internals::{ImageView, PixelFormat, SampleKey};
use fuseloop_ops::*;
use half::f16;
use serde_json::Value as Json;

const SIZE: Size = Size::new(14, 17);

/// The channels of the goldens.
const KEPT: [usize; 3] = [0, 2, 12];

/// Returns the value of an element of the picture, and the range of all values.
fn value(dtype: DType, y: u32, x: u32, c: u32) -> (f64, f64) {
    let word = noise(5, y, x, c);
    match dtype {
        DType::U16 => (f64::from(word & 0xFFFF), 65_535.0),
        DType::I16 => (f64::from(word & 0xFFFF) - 32_768.0, 65_535.0),
        DType::F16 => ((f64::from(word & 2047) - 1024.0) / 8.0, 256.0),
        _ => ((f64::from(word & 0xFF_FFFF) - 8_388_608.0) / 256.0, 65_536.0),
    }
}

fn bytes(dtype: DType, value: f64) -> Vec<u8> {
    match dtype {
        DType::U16 => (value as u16).to_le_bytes().to_vec(),
        DType::I16 => (value as i16).to_le_bytes().to_vec(),
        DType::F16 => f16::from_f64(value).to_le_bytes().to_vec(),
        _ => (value as f32).to_le_bytes().to_vec(),
    }
}

fn values(dtype: DType, bytes: &[u8]) -> Vec<f64> {
    let pair = |chunk: &[u8]| [chunk[0], chunk[1]];
    let elements = bytes.chunks_exact(dtype.bytes());
    elements
        .map(|element| match dtype {
            DType::U16 => u16::from_le_bytes(pair(element)).into(),
            DType::I16 => i16::from_le_bytes(pair(element)).into(),
            DType::F16 => f16::from_le_bytes(pair(element)).into(),
            _ => f32::from_le_bytes(element.try_into().unwrap()).into(),
        })
        .collect()
}

/// Returns the ops of a case, and the largest difference from its values as a share of their range: none where pixels
/// are moved, and otherwise the roundings of sums of products in another order.
fn ops_of(case: &Json) -> (Ops, f64) {
    let text = |name: &str| case[name].as_str().unwrap();
    let exact = |op: Ops| (op, 0.0);
    match text("op") {
        "hflip" => exact(ops![RandomHorizontalFlip::new(1.0).unwrap()]),
        "vflip" => exact(ops![RandomVerticalFlip::new(1.0).unwrap()]),
        "center_crop" => exact(ops![CenterCrop::new((9, 11)).unwrap()]),
        "pad" => {
            let mode = match text("mode") {
                "constant" => PaddingMode::Constant,
                _ => PaddingMode::Reflect,
            };
            // Left, top, right, bottom.
            exact(ops![Pad::new([2, 1, 3, 2]).unwrap().padding_mode(mode)])
        }
        "rot90" => exact(ops![Rot90::new(1)]),
        "transpose" => exact(ops![Transpose::new(1.0).unwrap()]),
        "gaussian_blur" => (ops![GaussianBlur::new(5).unwrap().sigma(1.3).unwrap()], 1e-6),
        "rotate" => {
            let rotation = RandomRotation::new(30.0..=30.0).unwrap();
            match text("interpolation") {
                "nearest" => exact(ops![rotation.interpolation(WarpInterpolation::Nearest)]),
                _ => (ops![rotation.interpolation(WarpInterpolation::Bilinear)], 2e-6),
            }
        }
        _ => {
            let size = &case["size"];
            let (interpolation, most) = match text("interpolation") {
                "nearest" => (Interpolation::Nearest, 0.0),
                "nearest-exact" => (Interpolation::NearestExact, 0.0),
                "bilinear" => (Interpolation::BilinearAliased, 1e-6),
                "bilinear-antialias" => (Interpolation::Bilinear, 1e-6),
                "bicubic" => (Interpolation::BicubicAliased, 1e-6),
                _ => (Interpolation::Bicubic, 1e-6),
            };
            let resize = Resize::new((number(&size[0]), number(&size[1]))).unwrap();
            (ops![resize.interpolation(interpolation)], most)
        }
    }
}

/// Returns the output of `ops` for the first `channels` channels of the picture: its planes.
fn run(ops: &Ops, dtype: DType, channels: usize, layout: Layout) -> Vec<Vec<f64>> {
    let element = |y, x, c: usize| bytes(dtype, value(dtype, y, x, c as u32).0);
    let pixels = (0..SIZE.height).flat_map(|y| (0..SIZE.width).map(move |x| (y, x)));
    let picture: Vec<u8> = match layout {
        Layout::ChannelsFirst => (0..channels)
            .flat_map(|c| pixels.clone().flat_map(move |(y, x)| element(y, x, c)))
            .collect(),
        _ => pixels.flat_map(|(y, x)| (0..channels).flat_map(move |c| element(y, x, c))).collect(),
    };
    let format = PixelFormat { channels, dtype };
    let view = match layout {
        Layout::ChannelsFirst => ImageView::planes(&picture, SIZE, format),
        _ => ImageView::packed_format(&picture, SIZE, format),
    };
    let view = view.unwrap();
    let input = ImageType { layout, ..ImageType::array(SIZE, channels as u16, dtype) };
    let plan = ImagePlan::new(ops.clone(), input, NumberRule::Exact).unwrap();
    let kernel = Kernel::compile(plan).unwrap();
    let mut draws = Draws::default();
    kernel.plan().draw(SampleKey::new(0, 0, 0), SIZE, &mut draws);
    let mut found = vec![0xAA; kernel.plan().sample_bytes()];
    kernel.run(&mut Scratch::default(), DecodedPixels::whole(view), &draws, &mut found);
    assert!(found == jit::evaluate(kernel.plan(), &view, &draws), "compiled and evaluated differ");
    let found = values(dtype, &found);
    let count = found.len() / channels;
    let at = |c: usize, pixel: usize| match layout {
        Layout::ChannelsFirst => found[c * count + pixel],
        _ => found[pixel * channels + c],
    };
    (0..channels).map(|c| (0..count).map(|pixel| at(c, pixel)).collect()).collect()
}

#[test]
fn elements_of_any_type_are_moved_and_resized_as_torchvision_does() {
    let cases = cases_and_bytes("dtypes");
    assert_eq!(cases.len(), 88);
    for (case, theirs) in cases {
        let dtype = match case["dtype"].as_str().unwrap() {
            "u16" => DType::U16,
            "i16" => DType::I16,
            "f16" => DType::F16,
            _ => DType::F32,
        };
        let (ops, share) = ops_of(&case);
        // Half of the last place, where a sum is rounded to another neighbour.
        let rounding = match dtype {
            _ if share == 0.0 => 0.0,
            DType::U16 | DType::I16 => 1.0,
            DType::F16 => 0.125,
            _ => 0.0,
        };
        let most = share * value(dtype, 0, 0, 0).1 + rounding;
        let theirs = values(dtype, &theirs);
        let theirs: Vec<&[f64]> = theirs.chunks_exact(theirs.len() / KEPT.len()).collect();
        // OpenCV's results on the type itself are as near to torchvision's.
        let opencv = case.get("opencv_max").map_or(0.0, |max| max.as_f64().unwrap());
        assert!(opencv * value(dtype, 0, 0, 0).1 <= most, "{case}");
        for channels in [1, 2, 3, 4, 5, 13] {
            for layout in [Layout::ChannelsLast, Layout::ChannelsFirst] {
                if layout == Layout::ChannelsFirst && channels < 5 {
                    continue; // such arrays become channels last before they are processed
                }
                let ours = run(&ops, dtype, channels, layout);
                for (kept, theirs) in KEPT.iter().zip(&theirs).filter(|(c, _)| **c < channels) {
                    let pairs = ours[*kept].iter().zip(*theirs);
                    let worst = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                    assert!(ours[*kept].len() == theirs.len(), "{case}");
                    assert!(worst <= most, "{case}: {channels} channels, {kept}: {worst} > {most}");
                }
            }
        }
    }
}
