//! Masks against pycocotools, and what differs from it on purpose.

use super::*;
use serde_json::Value;

fn golden(name: &str) -> Value {
    let path = format!("{}/tests/golden/targets/{name}", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn size_of(value: &Value) -> Size {
    let side = |index: usize| value[index].as_u64().unwrap() as u32;
    Size::new(side(0), side(1))
}

fn filled(mask: &ObjectMask, size: Size) -> Vec<u8> {
    // What was in memory before is not part of the mask.
    let mut pixels = vec![0xff; size.pixels() as usize];
    mask.fill(size, &mut pixels).unwrap();
    pixels
}

fn counts(mask: &ObjectMask, size: Size) -> String {
    let json: Value = serde_json::from_str(&mask.to_rle_json(size).unwrap()).unwrap();
    json["counts"].as_str().unwrap().to_owned()
}

fn square() -> Vec<f64> {
    vec![1.0, 1.0, 1.0, 4.0, 5.0, 4.0, 5.0, 1.0]
}

/// The beginning of the message for JSON of another form.
const OTHER_FORM: &str = "expected a list of polygons or an object with `size` and `counts`: ";

fn refused(json: &str) -> Error {
    ObjectMask::parse(json.as_bytes()).unwrap_err()
}

#[test]
fn shapes_are_pycocotools() {
    for case in golden("rle.json").as_array().unwrap() {
        let (name, given, out) = (&case["name"], &case["in"], &case["out"]);
        let size = size_of(&case["canvas"]);
        let json = match case["call"].as_str().unwrap() {
            "rleFrPoly" => Value::from(vec![given["polygon"].clone()]),
            "rleFrUncompressed" => given.clone(),
            "rleMerge" => given["polygons"].clone(),
            _ => {
                let [x1, y1, x2, y2] = [0, 1, 2, 3].map(|i| given["XYXY"][0][i].as_u64().unwrap());
                let inside = |i| (y1..y2).contains(&(i / 50)) && (x1..x2).contains(&(i % 50));
                let pixels: Vec<u8> = (0..size.pixels()).map(|i| u8::from(inside(i))).collect();
                let mask = ObjectMask::encode(&pixels, size).unwrap();
                mask.to_rle_json(size).unwrap().parse().unwrap()
            }
        };
        let mask = ObjectMask::parse(json.to_string().as_bytes()).unwrap();
        let pixels = filled(&mask, size);
        if let Some(rows) = out["mask"].as_array() {
            let expected = rows.iter().flat_map(|row| row.as_array().unwrap());
            let expected: Vec<u8> = expected.map(|pixel| pixel.as_u64().unwrap() as u8).collect();
            assert_eq!(pixels, expected, "{name}");
        }
        if let Some(expected) = out["counts"].as_str() {
            assert_eq!(counts(&mask, size), expected, "{name}");
        }
        if let Some(expected) = out.get("area").or_else(|| out.get("union")) {
            assert_eq!(Value::from(mask.area(size).unwrap()), *expected, "{name}");
        }
        if let Some(expected) = out.get("bbox.XYWH") {
            let found = mask.bounding_box(size).unwrap().map(f64::from);
            assert_eq!(Value::from(found.to_vec()), *expected, "{name}");
        }
    }
}

/// SplitMix64, as `masks.py` has it.
struct Draws(u64);

impl Draws {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }

    /// A number in parts, from `least` to `least + count` of them.
    fn coordinate(&mut self, least: i64, count: u64, parts: u64) -> f64 {
        (self.below(count + 1) as i64 + least) as f64 / parts as f64
    }

    fn size(&mut self) -> Size {
        let height = 1 + self.below(40) as u32;
        Size::new(height, 1 + self.below(40) as u32)
    }
}

fn random_polygons(draws: &mut Draws) -> (Size, ObjectMask) {
    let size = draws.size();
    let kind = draws.below(400);
    let around: u64 = if kind == 0 { 1 << 20 } else { if kind < 20 { 1 << 13 } else { 60 } };
    let mut parts = [1, 2, 5, 10, 100, 1000][draws.below(6) as usize];
    if around > 1 << 13 {
        parts = 1;
    }
    let polygons = (0..1 + draws.below(3)).map(|_| {
        let points = 3 + draws.below(if kind == 0 { 3 } else { 10 });
        let points = (0..points).flat_map(|_| {
            let is_far = draws.below(4) == 0;
            [size.width, size.height].map(|side| {
                let side = u64::from(side) * parts;
                match is_far {
                    true => draws.coordinate(-((around * parts) as i64), 2 * around * parts, parts),
                    false => draws.coordinate(-((side / 2) as i64), 2 * side, parts),
                }
            })
        });
        points.collect()
    });
    let polygons = polygons.collect();
    (size, ObjectMask::from_polygons(polygons).unwrap())
}

fn random_runs(draws: &mut Draws) -> (Size, ObjectMask) {
    let size = draws.size();
    let (mut left, longest, mut counts) = (size.pixels(), 1 + draws.below(200), vec![]);
    while left > 0 {
        counts.push(draws.below(longest + 1).min(left));
        left -= counts[counts.len() - 1];
    }
    let json = format!(r#"{{"counts":{counts:?},"size":[{},{}]}}"#, size.height, size.width);
    (size, ObjectMask::parse(json.as_bytes()).unwrap())
}

/// Everything that is known of a mask, as `masks.py` has it.
fn facts(size: Size, mask: &ObjectMask) -> Vec<u8> {
    let mut bytes = filled(mask, size);
    let again = ObjectMask::encode(&bytes, size).unwrap();
    let [x, y, width, height] = again.bounding_box(size).unwrap();
    assert_eq!(mask.bounding_box(size).unwrap(), [x, y, width, height]);
    let (area, counts) = (mask.area(size).unwrap(), counts(&again, size));
    let text = format!("{area} {counts} {x} {y} {width} {height}");
    let json = again.to_rle_json(size).unwrap();
    assert_eq!(ObjectMask::parse(json.as_bytes()).unwrap(), again, "{json}");
    bytes.extend(text.bytes());
    bytes
}

#[test]
fn random_masks_are_pycocotools() {
    let golden = golden("masks.json");
    type Make = fn(&mut Draws) -> (Size, ObjectMask);
    let kinds: [(&str, u64, Make); 2] =
        [("polygons", 1, random_polygons), ("runs", 2, random_runs)];
    for (kind, seed, make) in kinds {
        let mut draws = Draws(seed);
        for (index, expected) in golden[kind].as_array().unwrap().iter().enumerate() {
            let mut state = 0xcbf2_9ce4_8422_2325_u64;
            for _ in 0..golden["in_hash"].as_u64().unwrap() {
                let (size, mask) = make(&mut draws);
                for byte in facts(size, &mask) {
                    state = (state ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
                }
            }
            assert_eq!(format!("{state:016x}"), *expected, "hash {index} of {kind}");
        }
    }
}

#[test]
fn a_coordinate_that_is_not_finite_is_refused() {
    for found in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let mut polygon = square();
        polygon[5] = found;
        let error = ObjectMask::from_polygons(vec![square(), polygon]).unwrap_err();
        let message = format!("coordinate 5 of polygon 1 is {found}, expected -1048576 to 1048576");
        assert_eq!(error.to_string(), message);
    }
    for literal in ["NaN", "Infinity", "1e999"] {
        let error = refused(&format!("[[1, 1, 1, 4, 5, {literal}, 5, 1]]"));
        assert!(error.to_string().starts_with(OTHER_FORM), "{error}");
    }
}

#[test]
fn a_far_coordinate_is_refused_beyond_the_limit_and_costs_nothing_below_it() {
    let far = 1_048_576.0;
    let polygons = vec![vec![-far, -far, far, -far, far, far, -far, far + 1.0]];
    let error = ObjectMask::from_polygons(polygons).unwrap_err();
    assert_eq!(
        error.to_string(),
        "coordinate 7 of polygon 0 is 1048577, expected -1048576 to 1048576"
    );
    // pycocotools takes 32 bytes for each of the five steps in a pixel: 1.3 GB for each edge here.
    let corners = [-far, -far, far, -far, far, far, -far, far];
    let polygon: Vec<f64> = corners.into_iter().cycle().take(400_000).collect();
    // The same square 50,000 times in one polygon: an even number of turns is outside.
    let mask = ObjectMask::from_polygons(vec![polygon]).unwrap();
    assert_eq!(mask.area(Size::new(3, 4)).unwrap(), 0);
    let mask = ObjectMask::from_polygons(vec![corners.to_vec(); 2]).unwrap();
    assert_eq!(mask.area(Size::new(3, 4)).unwrap(), 12);
}

#[test]
fn an_odd_number_of_coordinates_is_refused() {
    let error = refused("[[1, 1, 1, 4, 5, 4, 5]]");
    assert_eq!(error.to_string(), "polygon 0 has 7 coordinates, expected x and y for each point");
}

#[test]
fn fewer_than_three_points_are_refused() {
    for (json, found) in [("[[]]", 0), ("[[1, 1]]", 1), ("[[1, 1, 4, 3]]", 2)] {
        let error = refused(json);
        let message = format!("polygon 0 has {found} points, expected at least 3");
        assert_eq!(error.to_string(), message, "{json}");
    }
    assert_eq!(
        refused("[]").to_string(),
        "the list of polygons is empty: write null for an object without a mask"
    );
}

#[test]
fn runs_of_another_sum_than_the_size_are_refused() {
    for (counts, found) in [("[2, 3, 1, 4]", 10), ("[2, 3, 1, 4, 3]", 13), ("[]", 0)] {
        let error = refused(&format!(r#"{{"size": [3, 4], "counts": {counts}}}"#));
        let message = format!("the runs have {found} pixels, a mask of 4x3 has 12");
        assert_eq!(error.to_string(), message);
    }
    let error = refused(r#"{"size": [3, 4], "counts": "2311"}"#);
    assert_eq!(error.to_string(), "the runs have 10 pixels, a mask of 4x3 has 12");
}

#[test]
fn damaged_counts_are_refused() {
    let message =
        |counts: &str| refused(&format!(r#"{{"size": [3, 4], "counts": "{counts}"}}"#)).to_string();
    assert_eq!(message("23P"), "`counts` is damaged at byte 3: the text ends inside a number");
    assert_eq!(
        message("2 3"),
        "`counts` is damaged at byte 1: expected a character from `0` to `o`"
    );
    assert_eq!(
        message("2p"),
        "`counts` is damaged at byte 1: expected a character from `0` to `o`"
    );
    assert_eq!(message("2@"), "`counts` is damaged at byte 1: a length outside 0..=4294967295");
    assert_eq!(
        message("2ooooooo0"),
        "`counts` is damaged at byte 1: a number of more than 35 bits"
    );
    assert!(message("\\u00e9").contains("expected a list of lengths or a compressed string"));
}

#[test]
fn values_of_another_form_are_refused() {
    let values = [
        "3",
        "null",
        "\"a\"",
        "[3]",
        "[[\"a\"]]",
        "{}",
        r#"{"size": [3, 4]}"#,
        r#"{"counts": [12]}"#,
        r#"{"size": [3], "counts": [12]}"#,
        r#"{"size": [3, 4], "counts": [-1, 13]}"#,
        r#"{"size": [3, 4], "counts": [1.5]}"#,
        r#"{"size": [3, 4], "counts": null}"#,
        "[[1, 1, 1, 4, 5, 4",
        "",
    ];
    for json in values {
        let error = refused(json);
        assert!(error.to_string().starts_with(OTHER_FORM), "{json}: {error}");
    }
    let error = ObjectMask::parse_list(b"[null, [[1, 1, 2]]]").unwrap_err();
    let message = "object 1: polygon 0 has 3 coordinates, expected x and y for each point";
    assert_eq!(error.to_string(), message);
}

#[test]
fn a_mask_is_drawn_at_its_own_size_into_memory_of_that_size() {
    let runs = ObjectMask::parse(br#"{"size": [3, 4], "counts": [12], "other": 1}"#).unwrap();
    let error = runs.fill(Size::new(4, 3), &mut [0; 12]).unwrap_err();
    assert_eq!(error.to_string(), "the mask is 4x3, the image is 3x4");
    let error = runs.fill(Size::new(3, 4), &mut [0; 11]).unwrap_err();
    assert_eq!(error.to_string(), "11 bytes for a mask of 4x3, expected 12");
    assert!(ObjectMask::encode(&[0; 11], Size::new(3, 4)).is_err());
    let polygon = ObjectMask::from_polygons(vec![square()]).unwrap();
    let huge = Size::new(1 << 31, 1 << 31);
    assert_eq!(
        polygon.area(huge).unwrap_err().to_string(),
        "2147483648x2147483648 is 4611686018427387904 pixels, the limit is 4294967295"
    );
    for none in [Size::new(0, 4), Size::new(3, 0), Size::new(0, 0)] {
        assert_eq!(filled(&polygon, none), [0; 0]);
        assert_eq!(polygon.area(none), Ok(0));
        assert_eq!(polygon.bounding_box(none), Ok([0; 4]));
    }
}

#[test]
fn points_have_a_limit() {
    let polygons = vec![vec![0.0; 2 * 600_000]; 2];
    let error = ObjectMask::from_polygons(polygons).unwrap_err();
    assert_eq!(error.to_string(), "the polygons have 1200000 points, the limit is 1000000");
}

/// A coordinate is the double nearest to its digits, as in Python: another may be another point of the finer grid.
#[test]
fn coordinates_are_read_exactly() {
    let digits = "8.1000000000000005329070518200751394033432006835937";
    let Shape::Polygons(polygons) =
        ObjectMask::parse(format!("[[{digits}, 0, 1, 1, 0, 1]]").as_bytes()).unwrap().0
    else {
        unreachable!("polygons were given");
    };
    assert_eq!(polygons[0][0].to_bits(), digits.parse::<f64>().unwrap().to_bits());
}

/// Points outside the mask cost no more than points inside: no edge costs a column more, and no polygon the mask.
#[test]
fn points_far_outside_take_no_time() {
    let size = Size::new(1000, 1000);
    let start = std::time::Instant::now();
    // Triangles that each hold the whole mask.
    let far = FARTHEST;
    let triangle = |k: usize| vec![-far, -far + k as f64, far, -far, 0.0, far];
    let many = ObjectMask::from_polygons((0..2_000).map(triangle).collect()).unwrap();
    assert!(filled(&many, size).iter().all(|pixel| *pixel == 1));
    // A line that goes to and fro above the mask and below it, and encloses nothing of it.
    let to_and_fro = (0..MOST_POINTS / 2 - 8).flat_map(|k| {
        let x = if k % 2 == 0 { -far } else { far };
        [x, if k < 200_000 { -5.0 } else { 2000.0 }]
    });
    let lines = ObjectMask::from_polygons(vec![to_and_fro.collect()]).unwrap();
    // It passes the mask when it goes down, and when it returns to its first point.
    assert!(filled(&lines, size).iter().filter(|pixel| **pixel == 1).count() < 1_000_000);
    assert!(start.elapsed() < std::time::Duration::from_secs(5), "{:?}", start.elapsed());
}
