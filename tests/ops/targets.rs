//! Boxes and points against torchvision's, and against the pixels that the evaluator moves.
//! `tests/golden/targets/make_vectors.py` writes the golden.

use fuseloop::internals::jit::evaluate;
use fuseloop::internals::plan::{Draws, ImagePlan};
use fuseloop_ops::author::{GeometryStep, ImageType, Op, Rng};
use fuseloop_ops::internals::rows::{
    Map, RowFilter, Warp, affine_matrix, perspective_coefficients,
};
use fuseloop_ops::internals::targets::{BoundingBox, PointMap};
use fuseloop_ops::internals::{ImageView, SampleKey, geometry_step};
use fuseloop_ops::*;
use serde_json::Value as Json;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

/// The cases whose names begin with `prefix`.
fn cases(prefix: &str) -> Vec<Json> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/targets/vectors.json");
    let Json::Array(cases) = serde_json::from_slice(&fs::read(path).unwrap()).unwrap() else {
        panic!("the golden is no list");
    };
    let is_wanted = |case: &Json| case["name"].as_str().unwrap().starts_with(prefix);
    let cases: Vec<_> = cases.into_iter().filter(is_wanted).collect();
    assert!(!cases.is_empty(), "{prefix}");
    cases
}

fn case(name: &str) -> Json {
    cases(name).into_iter().find(|case| case["name"] == name).unwrap()
}

fn numbers(value: &Json) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

fn pair(value: &Json) -> [f64; 2] {
    numbers(value).try_into().unwrap()
}

fn singles(value: &Json) -> Vec<f32> {
    numbers(value).into_iter().map(|number| number as f32).collect()
}

/// The size that a list of height and width names.
fn size(value: &Json) -> Size {
    let [height, width] = pair(value);
    Size::new(height as u32, width as u32)
}

/// The formats of a case, with their rows before and after.
fn formats(case: &Json) -> Vec<(BoxFormat, &Json, &Json)> {
    let rows = |format: BoxFormat| {
        let name = format.name().to_uppercase();
        Some((format, case["in"].get(&name)?, case["out"].get(&name)?))
    };
    BoxFormat::ALL.into_iter().filter_map(rows).collect()
}

fn written(own: BoundingBox, format: BoxFormat) -> Vec<f32> {
    let mut values = vec![f32::NAN; format.columns()];
    own.write(format, &mut values);
    values
}

/// Checks that numbers differ by at most `tolerance`, relative to those above 1; angles may differ by 360 degrees.
fn assert_near(format: BoxFormat, ours: &[f32], theirs: &Json, tolerance: f32, context: &str) {
    let theirs = singles(theirs);
    assert_eq!(ours.len(), theirs.len());
    for (column, (&ours, &expected)) in ours.iter().zip(&theirs).enumerate() {
        let is_angle = column == 4 && format.columns() == 5;
        let apart = (ours - expected).abs();
        let apart = if is_angle { apart.min((apart - 360.0).abs()) } else { apart };
        let near = apart <= tolerance * expected.abs().max(1.0);
        assert!(near, "{context} {}: {ours}, not {expected} of {theirs:?}", format.name());
    }
}

/// The box after steps, clamped where the maps say so.
fn followed(
    own: BoundingBox,
    steps: &[GeometryStep],
    mut canvas: Size,
    mode: ClampingMode,
) -> BoundingBox {
    let is_rotated = matches!(own, BoundingBox::Corners(_));
    steps.iter().fold(own, |own, step| {
        let map = PointMap::of(step, canvas).unwrap();
        canvas = geometry_step::output(step, canvas);
        let own = own.mapped(&map);
        if map.clamps_boxes(is_rotated) { own.clamped(canvas, mode) } else { own }
    })
}

fn followed_point(mut point: [f64; 2], steps: &[GeometryStep], mut canvas: Size) -> [f64; 2] {
    for step in steps {
        point = PointMap::of(step, canvas).unwrap().point(point);
        canvas = geometry_step::output(step, canvas);
    }
    point
}

fn crop(top: i32, left: i32, size: Size) -> GeometryStep {
    GeometryStep::CropPad { top, left, size, fill: [0; 3] }
}

fn resize(size: Size) -> GeometryStep {
    GeometryStep::Resize { size, interpolation: Interpolation::Nearest }
}

fn warp(map: Map, size: Size) -> Vec<GeometryStep> {
    let interpolation = WarpInterpolation::Nearest;
    vec![GeometryStep::Rows(RowFilter::Warp(Warp { size, map, interpolation, fill: None }))]
}

fn drawn(op: &dyn author::GeometryOp, canvas: Size) -> Vec<GeometryStep> {
    let mut steps = vec![];
    op.draw(&mut SampleKey::new(0, 0, 0).op(0), canvas, &mut steps);
    steps
}

fn rotation(args: &Json, canvas: Size) -> Vec<GeometryStep> {
    let angle = args["angle"].as_f64().unwrap();
    let mut op = RandomRotation::new(angle..=angle).unwrap();
    if args["expand"] == true {
        op = op.expand();
    }
    if !args["center"].is_null() {
        let [x, y] = pair(&args["center"]);
        op = op.center(x, y).unwrap();
    }
    drawn(&op, canvas)
}

/// The steps of a case, and their output's size.
fn steps_of(case: &Json) -> Vec<GeometryStep> {
    let (args, canvas) = (&case["args"], size(&case["canvas"]));
    let number = |name: &str| args[name].as_f64().unwrap();
    let window = || {
        let size = Size::new(number("height") as u32, number("width") as u32);
        crop(number("top") as i32, number("left") as i32, size)
    };
    match case["call"].as_str().unwrap() {
        "horizontal_flip" => vec![GeometryStep::FlipHorizontal],
        "vertical_flip" => vec![GeometryStep::FlipVertical],
        "resize" => vec![resize(size(&case["out"]["image.canvas"]))],
        "crop" => vec![window()],
        "center_crop" => drawn(&CenterCrop::new(size(&args["output_size"])).unwrap(), canvas),
        "pad" => {
            let padding = numbers(&args["padding"]);
            vec![crop(
                -(padding[1] as i32),
                -(padding[0] as i32),
                size(&case["out"]["image.canvas"]),
            )]
        }
        "resized_crop" => vec![window(), resize(size(&args["size"]))],
        "rotate" => rotation(args, canvas),
        "affine" => {
            let [translate, shear] = ["translate", "shear"].map(|name| pair(&args[name]));
            let matrix =
                affine_matrix(number("angle"), translate, number("scale"), shear, [0.0; 2]);
            warp(Map::affine(matrix, canvas, canvas), canvas)
        }
        "perspective" => {
            let [start, end] = ["startpoints", "endpoints"]
                .map(|name| [0, 1, 2, 3].map(|corner| pair(&args[name][corner])));
            let coefficients = perspective_coefficients(start, end).unwrap();
            warp(Map::perspective(coefficients, canvas, canvas), canvas)
        }
        other => panic!("no steps for {other}"),
    }
}

const OPS: [&str; 16] = [
    "horizontal_flip",
    "vertical_flip",
    "resize",
    "resize.short",
    "crop",
    "crop.outside",
    "center_crop",
    "center_crop.larger",
    "pad",
    "resized_crop",
    "rotate",
    "rotate.center",
    "rotate.90.expand",
    "rotate.30.expand",
    "affine",
    "perspective",
];

/// The ops whose boxes torchvision moves by other numbers than the pixels.
const DIFFERENT: [&str; 2] = ["center_crop.larger", "rotate.30.expand"];

#[test]
fn formats_are_converted_as_torchvision_converts_them() {
    for case in cases("convert.").iter().filter(|case| case["dtype"] != "int64") {
        let [(name, rows)] = case["in"].as_object().unwrap().iter().collect::<Vec<_>>()[..] else {
            panic!("{case}");
        };
        let from = BoxFormat::from_name(name).unwrap();
        for (name, expected) in case["out"].as_object().unwrap() {
            let to = BoxFormat::from_name(name).unwrap();
            for (row, expected) in rows.as_array().unwrap().iter().zip(expected.as_array().unwrap())
            {
                let own = BoundingBox::read(from, &singles(row));
                assert_near(to, &written(own, to), expected, 1e-5, "conversion");
            }
        }
    }
}

/// torchvision rounds halves of integer boxes down or towards zero, by the format; ours keep them.
#[test]
fn integer_boxes_keep_their_halves() {
    let own = BoundingBox::read(BoxFormat::Xyxy, &[1.0, 2.0, 6.0, 9.0]);
    assert_eq!(written(own, BoxFormat::Cxcywh), [3.5, 5.5, 5.0, 7.0]);
    let own = BoundingBox::read(BoxFormat::Cxcywh, &[3.0, 5.0, 5.0, 7.0]);
    assert_eq!(written(own, BoxFormat::Xyxy), [0.5, 1.5, 5.5, 8.5]);
    for case in cases("convert.int.") {
        let from = BoxFormat::from_name(&case["name"].as_str().unwrap()[12..]).unwrap();
        let rows = case["in"][from.name().to_uppercase()].as_array().unwrap();
        for (name, theirs) in case["out"].as_object().unwrap() {
            let to = BoxFormat::from_name(name).unwrap();
            for (row, theirs) in rows.iter().zip(theirs.as_array().unwrap()) {
                let ours = written(BoundingBox::read(from, &singles(row)), to);
                let apart = ours.iter().zip(singles(theirs)).map(|(a, b)| (a - b).abs());
                assert!(apart.fold(0.0, f32::max) <= 1.0, "{case}: {ours:?}");
            }
        }
    }
    let case = case("resize.int");
    let steps = [resize(Size::new(10, 21))];
    let own = BoundingBox::read(BoxFormat::Xyxy, &singles(&case["in"]["XYXY"][0]));
    let ours =
        written(followed(own, &steps, size(&case["canvas"]), ClampingMode::Soft), BoxFormat::Xyxy);
    assert_eq!(ours, [0.7, 1.0, 3.5, 4.5]);
    let truncated: Vec<f32> = ours.iter().map(|number| number.trunc()).collect();
    assert_eq!(truncated, singles(&case["out"]["XYXY"][0]));
}

#[test]
fn boxes_follow_each_op_as_in_torchvision() {
    for name in OPS.into_iter().filter(|name| !DIFFERENT.contains(name)) {
        let case = case(name);
        let (steps, canvas) = (steps_of(&case), size(&case["canvas"]));
        let after = steps.iter().fold(canvas, |canvas, step| geometry_step::output(step, canvas));
        assert_eq!(after, size(&case["out"]["boxes.canvas"]), "{name}");
        assert_eq!(formats(&case).len(), 6);
        for (format, rows, expected) in formats(&case) {
            let tolerance = if format.is_rotated() { 1e-4 } else { 1e-5 };
            for (row, expected) in rows.as_array().unwrap().iter().zip(expected.as_array().unwrap())
            {
                let own = BoundingBox::read(format, &singles(row));
                let own = followed(own, &steps, canvas, ClampingMode::Soft);
                assert_near(format, &written(own, format), expected, tolerance, name);
            }
        }
    }
}

/// Points of torchvision are indices of pixels under flips, and places on the plane otherwise.
#[test]
fn points_follow_each_op_as_in_torchvision() {
    for name in OPS.into_iter().filter(|name| !DIFFERENT.contains(name)) {
        let case = case(name);
        let (steps, canvas) = (steps_of(&case), size(&case["canvas"]));
        let half = if name.ends_with("flip") { 0.5 } else { 0.0 };
        let points = case["in"]["points"].as_array().unwrap();
        for (point, expected) in points.iter().zip(case["out"]["points"].as_array().unwrap()) {
            let [x, y] = followed_point(pair(point).map(|v| v + half), &steps, canvas);
            let ours = [x - half, y - half].map(|v| v as f32);
            assert_near(BoxFormat::Xyxy, &ours, expected, 1e-5, name);
        }
    }
}

/// torchvision moves the boxes of a centre crop that is larger than the image by another number of pixels than the
/// image: here by 2 instead of 1.
#[test]
fn boxes_of_a_larger_centre_crop_follow_the_pixels() {
    let case = case("center_crop.larger");
    let steps = steps_of(&case);
    let point = followed_point([0.0; 2], &steps, size(&case["canvas"]));
    assert_eq!(point, [1.0, 1.0]);
    assert_eq!(singles(&case["out"]["points"][0]), [2.0, 2.0]);
}

/// torchvision's boxes of an expanded rotation have another canvas than the image.
#[test]
fn boxes_of_an_expanded_rotation_have_the_middle_of_the_image() {
    let case = case("rotate.30.expand");
    let (steps, canvas) = (steps_of(&case), size(&case["canvas"]));
    assert_eq!(geometry_step::output(&steps[0], canvas), size(&case["out"]["image.canvas"]));
    assert_ne!(case["out"]["image.canvas"], case["out"]["boxes.canvas"]);
    let [x, y] = followed_point([15.0, 10.0], &steps, canvas);
    assert!((x - 18.0).abs() < 1e-9 && (y - 17.0).abs() < 1e-9, "{x} {y}");
    // The boxes differ by a shift alone.
    let mut shifts = vec![];
    for (point, theirs) in case["in"]["points"]
        .as_array()
        .unwrap()
        .iter()
        .zip(case["out"]["points"].as_array().unwrap())
    {
        let (ours, theirs) = (followed_point(pair(point), &steps, canvas), pair(theirs));
        shifts.push([ours[0] - theirs[0], ours[1] - theirs[1]]);
    }
    for [x, y] in shifts {
        assert!((x - 0.0096).abs() < 1e-3 && (y - 0.8397).abs() < 1e-3, "{x} {y}");
    }
}

/// torchvision takes the height of a rotated box from the wrong corners, which keeps this one.
#[test]
fn the_height_of_a_rotated_box_is_that_of_its_side() {
    let flat = BoundingBox::read(BoxFormat::Xywhr, &[5.0, 5.0, 6.0, 0.5, 0.0]);
    assert_eq!([flat.width(), flat.height(), flat.area()], [6.0, 0.5, 3.0]);
}

#[test]
fn boxes_are_clamped_as_in_torchvision() {
    for mode in ClampingMode::ALL {
        let name = if mode == ClampingMode::None { "None" } else { mode.name() };
        for format in [BoxFormat::Xyxy, BoxFormat::Cxcywhr] {
            let case = case(&format!("clamp.{}.{name}", format.name().to_uppercase()));
            let canvas = size(&case["canvas"]);
            let tolerance =
                if format.is_rotated() && mode != ClampingMode::None { 1e-3 } else { 1e-5 };
            let rows = case["in"][format.name().to_uppercase()].as_array().unwrap();
            for (i, row) in rows.iter().enumerate() {
                let own = BoundingBox::read(format, &singles(row));
                let checks = [
                    ("clamp", own.clamped(canvas, mode)),
                    ("crop", followed(own, &[crop(2, 3, Size::new(12, 16))], canvas, mode)),
                    ("resize", followed(own, &[resize(Size::new(10, 60))], canvas, mode)),
                ];
                for (call, own) in checks {
                    let context = format!("{call} {name} of {row}");
                    assert_near(
                        format,
                        &written(own, format),
                        &case["out"][call][i],
                        tolerance,
                        &context,
                    );
                }
            }
        }
    }
    let own = BoundingBox::Edges([f64::NAN, -1.0, 40.0, 3.0])
        .clamped(Size::new(2, 30), ClampingMode::Soft);
    let BoundingBox::Edges([x1, rest @ ..]) = own else { panic!("{own:?}") };
    assert!(x1.is_nan());
    assert_eq!(rest, [0.0, 30.0, 2.0]);
}

/// torchvision turns some boxes by 180 degrees when it clamps them. It also removes one box that is partly inside the
/// image.
#[test]
fn random_rotated_boxes_are_clamped_as_in_torchvision() {
    for mode in [ClampingMode::Soft, ClampingMode::Hard] {
        let case = case(&format!("clamp.random.{}", mode.name()));
        let [(format, rows, expected)] = formats(&case)[..] else { panic!("{case}") };
        let mut removed = vec![];
        for (row, expected) in rows.as_array().unwrap().iter().zip(expected.as_array().unwrap()) {
            let own = BoundingBox::read(format, &singles(row)).clamped(size(&case["canvas"]), mode);
            let (mut ours, theirs) = (written(own, format), singles(expected));
            if theirs[2..4] == [0.0; 2] && ours[2..4] != [0.0; 2] {
                removed.push(singles(row));
                continue;
            }
            if (ours[4] - theirs[4]).abs() > 90.0 {
                ours[4] -= 180.0 * (ours[4] - theirs[4]).signum();
            }
            assert_near(format, &ours, expected, 1e-3, &format!("{} of {row}", mode.name()));
        }
        assert_eq!(removed, [[1.2, 1.27, 18.71, 1.53, 177.91]]);
    }
}

#[test]
fn the_iou_is_torchvisions() {
    let case = case("box_iou");
    let rows = |name: &str| -> Vec<BoundingBox> {
        let rows = case["in"][name].as_array().unwrap();
        rows.iter().map(|row| BoundingBox::read(BoxFormat::Xyxy, &singles(row))).collect()
    };
    for (i, a) in rows("a").into_iter().enumerate() {
        for (j, b) in rows("b").into_iter().enumerate() {
            let theirs = case["out"]["iou"][i][j].as_f64().unwrap();
            assert!((a.iou(b).unwrap() - theirs).abs() < 1e-6, "{a:?} {b:?}");
        }
    }
    let empty = BoundingBox::Edges([1.0; 4]);
    assert_eq!(empty.iou(empty), Some(0.0));
    assert_eq!(empty.iou(BoundingBox::Corners([[0.0; 2]; 4])), None);
}

/// An op that moves pixels without mixing them. Areas outside the image are black.
fn moving(rng: &mut Rng) -> Arc<dyn Op> {
    let nearest = WarpInterpolation::Nearest;
    let size = (20 + rng.below(60), 20 + rng.below(60));
    match rng.below(15) {
        0 => Arc::new(RandomHorizontalFlip::new(0.7).unwrap()),
        1 => Arc::new(RandomVerticalFlip::new(0.7).unwrap()),
        2 => Arc::new(Resize::new(size).unwrap().interpolation(Interpolation::NearestExact)),
        3 => Arc::new(CenterCrop::new(size).unwrap()),
        4 => Arc::new(Pad::new(rng.below(9)).unwrap()),
        5 => Arc::new(RandomTranslate::new(9).unwrap()),
        6 => Arc::new(RandomZoomOut::new().side_range(1.0..=1.5).unwrap()),
        7 => Arc::new(FixedSizeCrop::new(size).unwrap()),
        8 => Arc::new(Transpose::new(0.8).unwrap()),
        9 => Arc::new(D4),
        10 => Arc::new(RandomRotation::new(180.0).unwrap()),
        11 => Arc::new(RandomRotation::new(180.0).unwrap().expand()),
        12 => {
            let op = RandomAffine::new(90.0).unwrap().translate(0.1, 0.1).unwrap();
            Arc::new(op.scale(0.8..=1.3).unwrap().shear(20.0).unwrap().center(5.0, 9.0).unwrap())
        }
        13 => Arc::new(RandomPerspective::new().p(0.9).unwrap().interpolation(nearest)),
        _ => {
            // Weak enough not to fold the image: a point of a fold is in several places.
            let op = ElasticTransform::new().alpha(20.0, 15.0).unwrap().sigma(4.0, 4.0).unwrap();
            Arc::new(op.interpolation(nearest))
        }
    }
}

/// The largest factor by which a map stretches distances near a point.
fn stretch(map: &PointMap, [x, y]: [f64; 2]) -> f64 {
    let from = map.point([x, y]);
    let side = |to: [f64; 2]| [0, 1].map(|i| (to[i] - from[i]) * 4.0);
    let (p, q) = (side(map.point([x + 0.25, y])), side(map.point([x, y + 0.25])));
    let (squares, area) =
        (p[0] * p[0] + p[1] * p[1] + q[0] * q[0] + q[1] * q[1], p[0] * q[1] - p[1] * q[0]);
    ((squares + (squares * squares - 4.0 * area * area).max(0.0).sqrt()) / 2.0).sqrt()
}

/// Every pixel of the image that the evaluator makes knows the place that it came from. The middle of that place, moved
/// as a point, is in the pixel, or as near to it as the nearest pixel of each step is to the position that the step reads.
#[test]
fn points_go_where_the_evaluator_moves_their_pixels() {
    let (mut checked, mut worst) = (0, 0.0f64);
    for list in 0..300 {
        let rng = &mut SampleKey::new(1, 0, list).op(0);
        let canvas = Size::new(30 + rng.below(60), 30 + rng.below(60));
        let mut ops: Ops = (0..=rng.below(4)).map(|_| moving(rng)).collect();
        ops.push(Arc::new(CenterCrop::new((50, 60)).unwrap()));
        let places = (0..canvas.height)
            .flat_map(|y| (0..canvas.width).map(move |x| [x as u8, y as u8, 255]));
        let pixels: Vec<u8> = places.flatten().collect();
        let plan = ImagePlan::new(ops, ImageType::from(canvas), NumberRule::Exact).unwrap();
        let mut draws = Draws::default();
        plan.draw(SampleKey::new(2, 0, list), canvas, &mut draws);
        let out = evaluate(&plan, &ImageView::packed(&pixels, canvas).unwrap(), &draws);
        for (at, pixel) in out.as_chunks::<3>().0.iter().enumerate().step_by(37) {
            let [x, y, 255] = *pixel else { continue };
            let (mut point, mut error) = ([x, y].map(|index| f64::from(index) + 0.5), 0.0);
            let mut size = canvas;
            for (_, step) in &draws.geometry {
                let map = PointMap::of(step, size).unwrap();
                let reads_nearest =
                    !matches!(map, PointMap::Shift(_) | PointMap::FlipX(_) | PointMap::FlipY(_));
                if reads_nearest {
                    // Half the diagonal of a pixel, and 0.02 for f32 and a stretch that differs nearby.
                    error = (error + 0.7072 + 0.02) * stretch(&map, point) * 1.05;
                }
                point = map.point(point);
                size = geometry_step::output(step, size);
            }
            let middle = [at % 60, at / 60].map(|index| index as f64 + 0.5);
            let apart = (point[0] - middle[0]).hypot(point[1] - middle[1]);
            assert!(
                apart <= error + 1e-6,
                "{x} {y}: {point:?}, not {middle:?}, {error}: {:?}",
                draws.geometry
            );
            worst = worst.max(apart);
            checked += 1;
        }
    }
    assert!(checked > 5000, "{checked}");
    assert!(worst < 6.0, "{worst}");
}

/// torchvision moves a point by the negated displacement of a pixel beside it, and so cuts its fraction off.
#[test]
fn elastic_points_are_exact_where_torchvisions_lose_their_fraction() {
    let canvas = Size::new(20, 30);
    let op = ElasticTransform::new().alpha(1e-9, 1e-9).unwrap();
    let own = BoundingBox::Edges([4.25, 5.5, 30.0, 20.0]);
    let BoundingBox::Edges(moved) = followed(own, &drawn(&op, canvas), canvas, ClampingMode::Soft)
    else {
        panic!("an upright box stays upright");
    };
    for (ours, before) in moved.into_iter().zip([4.25, 5.5, 30.0, 20.0]) {
        assert!((ours - before).abs() < 1e-6, "{moved:?}");
    }
}
