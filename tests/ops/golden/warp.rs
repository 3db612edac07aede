//! Rotation, affine transforms, perspective: nearest matches torchvision to the bit, bilinear is at most
//! one level off in 1% of an image's values.

use super::support::{Image, cases_and_bytes, color, distance, number, numbers, run, sha256};
use fuseloop_ops::author::GeometryOp as _;
use fuseloop_ops::author::GeometryStep;
use fuseloop_ops::internals::SampleKey;
use fuseloop_ops::internals::rows::{
    Displacement, Map, RowFilter, Warp, affine_matrix, perspective_coefficients, rotation_matrix,
};
use fuseloop_ops::*;
use serde_json::Value as Json;

/// Checks all cases of `op`, and that there are `count` of them.
fn assert_all(op: &str, count: usize, made: impl Fn(&Json, &Image) -> Vec<u8>) {
    let mut seen = 0;
    for (case, bytes) in cases_and_bytes("warp").iter().filter(|(case, _)| case["op"] == op) {
        let out = made(case, &Image::of(case));
        if let Some(sha) = case["sha256"].as_str() {
            assert_eq!(sha256(&out), sha, "{case}");
        } else {
            let (most, share) = distance(&out, bytes);
            assert!(most <= 1 && share <= 0.01, "{case}: {most} level(s), {share}");
        }
        seen += 1;
    }
    assert_eq!(seen, count, "cases of {op}");
}

fn interpolation(case: &Json) -> WarpInterpolation {
    match case["interpolation"].as_str().unwrap() {
        "nearest" => WarpInterpolation::Nearest,
        "bilinear" => WarpInterpolation::Bilinear,
        other => panic!("no interpolation {other}"),
    }
}

/// Numbers stored as the bits of their f32.
fn singles<const N: usize>(value: &Json) -> [f32; N] {
    let bits: Vec<f32> =
        value.as_array().unwrap().iter().map(|bits| f32::from_bits(number(bits))).collect();
    bits.try_into().unwrap()
}

/// The centre of a case's rotation, in pixels from the middle.
fn center(case: &Json, size: Size) -> [f64; 2] {
    if case["center"].is_null() {
        return [0.0; 2];
    }
    let [x, y] = numbers(&case["center"]);
    [x - f64::from(size.width) / 2.0, y - f64::from(size.height) / 2.0]
}

fn assert_same_matrix(case: &Json, ours: [f64; 6]) {
    if case.get("matrix").is_some() {
        assert_eq!(ours.map(|m| m as f32), singles(&case["matrix"]), "{case}");
    }
}

#[test]
fn rotations_are_torchvisions() {
    assert_all("rotate", 68, |case, image| {
        let angle = case["angle"].as_f64().unwrap();
        assert_same_matrix(case, rotation_matrix(angle, center(case, image.size)));
        let mut op = RandomRotation::new(angle..=angle).unwrap();
        op = op.interpolation(interpolation(case)).fill(color(&case["fill"]));
        if case["expand"] == true {
            op = op.expand();
        }
        if !case["center"].is_null() {
            let [x, y] = numbers(&case["center"]);
            op = op.center(x, y).unwrap();
        }
        run(ops![op], image, |_| ())
    });
}

/// A warp of a case, by a map known to the test.
fn warp(case: &Json, size: Size, map: Map) -> GeometryStep {
    let (interpolation, fill) = (interpolation(case), color(&case["fill"]));
    GeometryStep::Rows(RowFilter::Warp(Warp { size, map, interpolation, fill }))
}

#[test]
fn affine_transforms_are_torchvisions() {
    assert_all("affine", 35, |case, image| {
        let [angle, scale] = ["angle", "scale"].map(|name| case[name].as_f64().unwrap());
        let (translate, [x, y]) = (numbers(&case["translate"]), numbers(&case["shear"]));
        let about = center(case, image.size);
        let matrix = affine_matrix(angle, translate, scale, [x, y], about);
        assert_same_matrix(case, matrix);
        let map = Map::affine(matrix, image.size, image.size).with_shear_y(y);

        let mut op = RandomAffine::new(angle..=angle).unwrap().scale(scale..=scale).unwrap();
        op = op.shear_both(x..=x, y..=y).unwrap();
        op = op.interpolation(interpolation(case)).fill(color(&case["fill"]));
        if !case["center"].is_null() {
            let [x, y] = numbers(&case["center"]);
            op = op.center(x, y).unwrap();
        }
        // Only shifts have symmetric ranges, so the test sets the draws itself.
        op = op.translate(1.0, 1.0).unwrap();
        run(ops![op], image, |draws| {
            if translate == [0.0; 2] {
                let mut drawn = vec![];
                let still = op.translate(0.0, 0.0).unwrap();
                still.draw(&mut SampleKey::new(0, 0, 0).op(0), image.size, &mut drawn);
                assert_eq!(drawn, [warp(case, image.size, map.clone())], "{case}");
            }
            draws.geometry = vec![(0, warp(case, image.size, map))];
        })
    });
}

fn points(value: &Json) -> [[f64; 2]; 4] {
    [0, 1, 2, 3].map(|corner| numbers(&value[corner]))
}

/// torchvision solves for the coefficients by least squares, Fuseloop by Gaussian elimination: the last
/// bits differ.
#[test]
fn perspectives_are_torchvisions() {
    assert_all("perspective", 13, |case, image| {
        let theirs: [f32; 8] = singles(&case["coefficients"]);
        let [start, end] = ["startpoints", "endpoints"].map(|name| points(&case[name]));
        let ours = perspective_coefficients(start, end).unwrap();
        for (a, b) in ours.iter().zip(&theirs) {
            assert!((a - b).abs() <= 1e-6 * b.abs().max(1.0), "{case}: {ours:?}, not {theirs:?}");
        }
        let map = Map::perspective(theirs, image.size, image.size);
        run(ops![RandomPerspective::new().p(1.0).unwrap()], image, |draws| {
            draws.geometry = vec![(0, warp(case, image.size, map))];
        })
    });
}

/// The displacements are torchvision's to a thousandth of a pixel: it blurs with one two-dimensional kernel, so a pixel
/// near the middle of two may come from the other one.
#[test]
fn elastic_transforms_are_torchvisions() {
    for (case, bytes) in &cases_and_bytes("elastic") {
        let image = Image::of(case);
        let [alpha, sigma] = ["alpha", "sigma"].map(|name| numbers(&case[name]).map(|v| v as f32));
        let seed = case["seed"].as_u64().unwrap();
        let displacement = Displacement::new(seed, alpha, sigma, image.size);
        for pair in case["points"].as_array().unwrap() {
            let [[x, y], [from_x, from_y]] = [0, 1].map(|i| numbers(&pair[i]));
            let [dx, dy] = displacement.at([x, y]);
            assert!((x + dx - from_x).hypot(y + dy - from_y) < 1e-3, "{case}");
        }
        let map = Map::elastic(displacement, image.size);
        let op = ElasticTransform::new().interpolation(interpolation(case));
        let out = run(ops![op.fill(color(&case["fill"]))], &image, |draws| {
            draws.geometry = vec![(0, warp(case, image.size, map))];
        });
        let (most, share) = distance(&out, bytes);
        let is_nearest = case["interpolation"] == "nearest";
        assert!((most <= 1 || is_nearest) && share <= 0.001, "{case}: {most} level(s), {share}");
    }
}
