//! Flips, rotations by right angles, pads, crops, and resizes of every interpolation: all of them match
//! torchvision to the bit.

use super::support::{Image, cases, color, number, run, sha256};
use fuseloop_ops::author::GeometryStep;
use fuseloop_ops::*;
use serde_json::Value as Json;

/// Checks all cases of `op`, and that there are `count` of them.
fn assert_all(op: &str, count: usize, made: impl Fn(&Json, &Image) -> Vec<u8>) {
    let cases: Vec<Json> =
        cases("geometry.json").into_iter().filter(|case| case["op"] == op).collect();
    assert_eq!(cases.len(), count, "cases of {op}");
    for case in cases {
        assert_eq!(sha256(&made(&case, &Image::of(&case))), case["sha256"], "{case}");
    }
}

/// Checks all cases of `op` against a list of one op.
fn assert_op(op: &str, count: usize, ops: impl Fn(&Json) -> Ops) {
    assert_all(op, count, |case, image| run(ops(case), image, |_| ()));
}

#[test]
fn flips_are_torchvisions() {
    assert_op("horizontal_flip", 4, |_| ops![RandomHorizontalFlip::new(1.0).unwrap()]);
    assert_op("vertical_flip", 4, |_| ops![RandomVerticalFlip::new(1.0).unwrap()]);
}

#[test]
fn turns_are_torchs() {
    assert_op("transpose", 4, |_| ops![Transpose::new(1.0).unwrap()]);
    assert_op("rot90", 16, |case| ops![Rot90::new(number(&case["k"]) as i32)]);
}

fn sides(padding: &Json) -> Sides {
    let Json::Array(sides) = padding else { return Sides::from(number(padding)) };
    match sides.iter().map(number).collect::<Vec<_>>()[..] {
        [across, down] => Sides::from([across, down]),
        [left, top, right, bottom] => Sides::from([left, top, right, bottom]),
        _ => panic!("two or four sides: {padding}"),
    }
}

fn padding_mode(case: &Json) -> PaddingMode {
    match case["padding_mode"].as_str().unwrap() {
        "constant" => PaddingMode::Constant,
        "edge" => PaddingMode::Edge,
        "reflect" => PaddingMode::Reflect,
        "symmetric" => PaddingMode::Symmetric,
        mode => panic!("no mode {mode}"),
    }
}

#[test]
fn pads_are_torchvisions_in_all_modes() {
    assert_op("pad", 78, |case| {
        let pad = Pad::new(sides(&case["padding"])).unwrap().padding_mode(padding_mode(case));
        ops![pad.fill(color(&case["fill"]).unwrap_or_default())]
    });
}

/// A crop of the whole frame shows all of the frame.
#[test]
fn random_crops_are_framed_as_pads_are() {
    assert_all("pad", 78, |case, image| {
        let sides = sides(&case["padding"]);
        let height = image.size.height + sides.top + sides.bottom;
        let width = image.size.width + sides.left + sides.right;
        let crop = RandomCrop::new((height, width)).unwrap();
        let crop = crop.padding(sides).unwrap().padding_mode(padding_mode(case));
        run(ops![crop.fill(color(&case["fill"]).unwrap_or_default())], image, |_| ())
    });
}

#[test]
fn centre_crops_are_torchvisions() {
    assert_op("center_crop", 33, |case| {
        let [height, width] = [0, 1].map(|side| number(&case["output_size"][side]));
        ops![CenterCrop::new((height, width)).unwrap()]
    });
}

#[test]
fn crops_are_torchvisions_also_where_they_leave_the_image() {
    assert_all("crop", 10, |case, image| {
        let [top, left] = ["top", "left"].map(|name| case[name].as_i64().unwrap() as i32);
        let size = Size::new(number(&case["height"]), number(&case["width"]));
        // The padding is needed for the output type only: it declares that black may come in.
        let crop = RandomCrop::new(size).unwrap().padding(1).unwrap();
        run(ops![crop], image, |draws| {
            draws.geometry = vec![(0, GeometryStep::CropPad { top, left, size, fill: [0; 3] })];
        })
    });
}

fn interpolation(case: &Json) -> Interpolation {
    let antialias = case["antialias"].as_bool().unwrap();
    match (case["interpolation"].as_str().unwrap(), antialias) {
        ("nearest", _) => Interpolation::Nearest,
        ("nearest-exact", _) => Interpolation::NearestExact,
        ("bilinear", false) => Interpolation::BilinearAliased,
        ("bilinear", true) => Interpolation::Bilinear,
        ("bicubic", false) => Interpolation::BicubicAliased,
        ("bicubic", true) => Interpolation::Bicubic,
        (other, _) => panic!("no interpolation {other}"),
    }
}

#[test]
fn resizes_are_torchvisions_by_size_by_short_side_and_by_long_side() {
    assert_op("resize", 151, |case| {
        let most = &case["max_size"];
        let resize = match &case["size"] {
            Json::Null => Resize::long_side(number(most)),
            Json::Array(sides) => match sides.iter().map(number).collect::<Vec<_>>()[..] {
                [short] if most.is_null() => Resize::new(short),
                [short] => Resize::new(short).unwrap().max_size(number(most)),
                [height, width] => Resize::new((height, width)),
                _ => panic!("one or two sides: {case}"),
            },
            _ => panic!("a size is a list: {case}"),
        };
        ops![resize.unwrap().interpolation(interpolation(case))]
    });
}
