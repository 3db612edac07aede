//! The text files of YOLO's format: the objects of an image.
//!
//! ```text
//! 45 0.479492 0.688771 0.955609 0.5955                        a box: class, centre, width and height
//! 0 0.782 0.014 0.937 0.348 0.9 0.5                           a polygon: class, and x and y of each point
//! 0 0.67 0.617 0.645 0.726 0.519 0.381 2 0.55 0.349 0         a pose: a box, and x, y and visibility of each point
//! ```

use super::problems::Problems;
use super::yolo_data::KeypointShape;
use super::{MOST_OBJECTS, MOST_POINTS};
use std::collections::BTreeSet;

/// How far outside the image a coordinate may be: labels are often rounded.
const OUTSIDE: f64 = 0.01;

/// The most classes that are not named.
const MOST_CLASSES: f64 = 10_000.0;

/// An object. Coordinates are fractions of the image's width and height.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct YoloObject {
    pub class: i64,
    /// The left, top, right and bottom edge.
    pub edges: [f64; 4],
    /// x and y of each point, if the object is a polygon.
    pub polygon: Vec<f64>,
    /// x, y and visibility of each point.
    pub keypoints: Vec<f64>,
}

/// Reads the objects of an image. As in Ultralytics, a line that is repeated counts once.
///
/// # Errors
///
/// If lines are damaged: the error has the number and the problem of each.
pub(super) fn objects(
    text: &str,
    classes: Option<usize>,
    shape: Option<KeypointShape>,
) -> Result<Vec<YoloObject>, Problems> {
    let mut objects: Vec<YoloObject> = vec![];
    let mut problems = Problems::default();
    let mut lines = BTreeSet::new();
    let mut points = 0;
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || !lines.insert(line) {
            continue;
        }
        if objects.len() as u64 == MOST_OBJECTS {
            return Err(format!("line {number}: more than {MOST_OBJECTS} objects").into());
        }
        let object = match object(line, classes, shape) {
            Ok(object) => object,
            Err(reason) => {
                problems.add(format!("line {number}: {reason}"));
                continue;
            }
        };
        points += object.polygon.len() / 2;
        if points > MOST_POINTS {
            return Err(format!("line {number}: more than {MOST_POINTS} points of polygons").into());
        }
        objects.push(object);
    }
    if problems.count() > 0 { Err(problems) } else { Ok(objects) }
}

fn object(
    line: &str,
    classes: Option<usize>,
    shape: Option<KeypointShape>,
) -> Result<YoloObject, String> {
    let parse = |word: &str| {
        let number = word.parse().ok().filter(|number: &f64| number.is_finite());
        number.ok_or_else(|| format!("{word:?} is not a number"))
    };
    let mut words = line.split_whitespace();
    let class = class(parse(words.next().unwrap_or_default())?, classes)?;
    let numbers = words.map(parse).collect::<Result<Vec<f64>, _>>()?;
    if let Some(shape) = shape {
        let expected = 4 + shape.points * shape.values;
        if numbers.len() != expected {
            let each = if shape.values == 3 { "x y visibility" } else { "x y" };
            return Err(format!(
                "{} numbers, expected {}: `class cx cy w h`, and `{each}` of {} points",
                numbers.len() + 1,
                expected + 1,
                shape.points
            ));
        }
        let edges = edges(&numbers[..4])?;
        let mut keypoints = vec![];
        for point in numbers[4..].chunks_exact(shape.values) {
            let &[x, y, ref rest @ ..] = point else { continue };
            keypoints.extend(match rest {
                [visibility] => {
                    if !(0.0..=2.0).contains(visibility) {
                        return Err(format!("visibility {visibility}, expected 0, 1 or 2"));
                    }
                    let is_labelled = *visibility > 0.0;
                    let labelled = |value| if is_labelled { fraction(value) } else { Ok(0.0) };
                    [labelled(x)?, labelled(y)?, *visibility]
                }
                // As in Ultralytics, a negative coordinate stands for a point that is not labelled.
                _ if x < 0.0 || y < 0.0 => [0.0; 3],
                _ => [fraction(x)?, fraction(y)?, 2.0],
            });
        }
        return Ok(YoloObject { class, edges, polygon: vec![], keypoints });
    }
    match numbers.len() {
        4 => {
            let edges = edges(&numbers)?;
            Ok(YoloObject { class, edges, polygon: vec![], keypoints: vec![] })
        }
        count if count >= 6 && count.is_multiple_of(2) => {
            let mut edges = [f64::INFINITY, f64::INFINITY, f64::NEG_INFINITY, f64::NEG_INFINITY];
            for point in numbers.chunks_exact(2) {
                for (axis, &value) in point.iter().enumerate() {
                    let value = fraction(value)?;
                    edges[axis] = edges[axis].min(value);
                    edges[axis + 2] = edges[axis + 2].max(value);
                }
            }
            Ok(YoloObject { class, edges, polygon: numbers, keypoints: vec![] })
        }
        count => Err(format!(
            "{} numbers, expected `class cx cy w h`, or a class and at least 3 points of a polygon; keypoints need \
             `kpt_shape` in data.yaml, or `YoloOptions::keypoints`",
            count + 1
        )),
    }
}

fn class(number: f64, classes: Option<usize>) -> Result<i64, String> {
    let most = classes.map_or(MOST_CLASSES, |count| count as f64);
    if number.fract() != 0.0 || !(0.0..most).contains(&number) {
        let named = if classes.is_some() { "the classes that are named" } else { "classes" };
        return Err(format!(
            "class {number}, expected a whole number: {named} are 0 to {}",
            most - 1.0
        ));
    }
    Ok(number as i64)
}

fn fraction(value: f64) -> Result<f64, String> {
    if !(-OUTSIDE..=1.0 + OUTSIDE).contains(&value) {
        return Err(format!(
            "coordinate {value}, expected 0 to 1: a fraction of the image's width or height, not pixels"
        ));
    }
    Ok(value)
}

/// Returns the edges of a box of which the centre and the size are given.
fn edges(bbox: &[f64]) -> Result<[f64; 4], String> {
    let values = bbox.iter().map(|&value| fraction(value)).collect::<Result<Vec<_>, _>>()?;
    let &[x, y, width, height] = &values[..] else { return Ok([0.0; 4]) };
    if width < 0.0 || height < 0.0 {
        return Err(format!("a box of {width} x {height}, expected a size that is not negative"));
    }
    Ok([x - width / 2.0, y - height / 2.0, x + width / 2.0, y + height / 2.0])
}
