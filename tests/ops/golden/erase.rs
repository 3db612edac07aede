//! Erased rectangles, in u8 and in float images.

use super::support::{Image, cases, number, run, sha256};
use fuseloop_ops::author::{Emit, Eval, ImageType, Op, OpClass, PixelOp, Pixels, Type, Window};
use fuseloop_ops::*;
use serde_json::Value as Json;

/// Scales levels by 1/255, as torchvision's `to_dtype(scale=True)`
/// does: this is the input of the float cases.
#[derive(Debug)]
struct ToShares;

const SHARE: f32 = 1.0 / 255.0;

impl Op for ToShares {
    fn name(&self) -> &'static str {
        "ToShares"
    }

    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        let Type::Image(image) = input else { panic!("the test gives it images") };
        Ok(Type::Image(ImageType { dtype: DType::F32, ..*image }))
    }

    fn class(&self) -> OpClass<'_> {
        OpClass::Pixel(self)
    }
}

impl PixelOp for ToShares {
    fn eval(&self, _: &Eval<'_>, pixel: &mut [f32]) {
        pixel.iter_mut().for_each(|v| *v *= SHARE);
    }

    fn emit(&self, e: &mut Emit, pixels: Pixels) -> Pixels {
        let share = e.splat(SHARE);
        e.each(pixels, |e, _, v| e.mul(v, share))
    }
}

fn erasing(case: &Json) -> RandomErasing {
    let values: Vec<f32> =
        case["values"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap() as f32).collect();
    let op = RandomErasing::new().p(1.0).unwrap();
    match values[..] {
        [value] => op.value(value).unwrap(),
        [r, g, b] => op.values([r, g, b]).unwrap(),
        _ => panic!("one value, or one a channel: {case}"),
    }
}

#[test]
fn erased_rectangles_are_torchvisions() {
    let mut seen = 0;
    for case in cases("erase.json").iter().filter(|case| case["op"] == "erase") {
        let ops = match case["dtype"].as_str().unwrap() {
            "u8" => ops![erasing(case)],
            "f32" => ops![ToShares, erasing(case)],
            dtype => panic!("no pictures of {dtype}"),
        };
        let leaf = ops.len() - 1;
        let [top, left, height, width] = ["i", "j", "h", "w"].map(|name| number(&case[name]));
        let out = run(ops, &Image::of(case), |draws| {
            draws.windows = vec![(leaf, Window { top, left, height, width })];
            draws.active[leaf] = true;
        });
        assert_eq!(sha256(&out), case["sha256"], "{case}");
        seen += 1;
    }
    assert_eq!(seen, 54, "six rectangles, five values on u8 and four on floats");
}
