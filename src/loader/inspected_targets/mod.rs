//! The targets of an inspected sample: where its objects and masks are before its ops, and after each of them.
//!
//! ```text
//! step 0       before the ops: as they are stored
//! step k + 1   after the flat op of index k
//! ```
//!
//! Objects are those of a second drawing with the key of the sample, which is the same. Masks are moved by the
//! evaluator. The masks of the objects are painted into maps of one byte per pixel, of up to 255 objects each, which
//! move like one mask; where two objects overlap, the smaller one is seen.

mod read;

pub(super) use read::{TargetPlans, TargetReader};

use super::targets::{BoundingBoxes, KeyPoints};
use crate::source::Escaped;
use fuseloop_ops::Size;
use fuseloop_ops::author::Objects;
use serde_json::json;
use std::sync::Arc;

/// The most objects in one map: a byte has one number for each, and 0 for none.
const MAP_OBJECTS: usize = 255;

/// The targets of an inspected sample.
#[derive(Clone, Debug)]
pub struct InspectedTargets {
    /// Before the ops, and after each flat op.
    steps: Vec<TargetStep>,
    /// The name of each flat op.
    ops: Vec<&'static str>,
    /// False if only masks of the image are declared.
    has_objects: bool,
    /// The stored objects.
    stored: Vec<StoredObject>,
    /// The stored object that each number in the maps of the objects stands for, map by map.
    painted: Vec<usize>,
    /// The declaration of the boxes as they come in a batch.
    boxes: Option<BoundingBoxes>,
    keypoints: Option<KeyPoints>,
}

/// Where the targets of an image are before its ops, or after one of them.
#[derive(Clone, Debug)]
pub struct TargetStep {
    /// The size of the image.
    pub size: Size,
    /// The objects.
    pub objects: Arc<Objects>,
    /// The mask of the image: a number of a class for each pixel, and the number outside the stored image.
    pub mask: Option<(Arc<[u8]>, u8)>,
    /// The maps of the objects.
    maps: Vec<Arc<[u8]>>,
}

/// An object as it is stored.
#[derive(Clone, Debug, Default)]
struct StoredObject {
    class: Option<i64>,
    name: Option<String>,
    /// The numbers of its box.
    bounds: Vec<f32>,
    /// The numbers of its keypoints.
    keypoints: Vec<f32>,
    /// The index of the flat op that removed it.
    removed_by: Option<usize>,
}

impl InspectedTargets {
    /// Returns where the targets are before the ops, and after each flat op.
    #[must_use]
    pub fn steps(&self) -> &[TargetStep] {
        &self.steps
    }

    /// Returns the number of the class of a stored object.
    pub(crate) fn class(&self, object: usize) -> Option<i64> {
        self.stored.get(object)?.class
    }

    /// Returns the name of the class of a stored object, or its number if it has no name.
    pub(crate) fn label(&self, object: usize) -> Option<String> {
        let StoredObject { class, name, .. } = self.stored.get(object)?;
        name.clone().or_else(|| class.map(|class| class.to_string()))
    }

    /// Returns the stored object whose mask covers a pixel in a step, which is the index of the pixel in its image.
    /// Objects that `has` does not have are left out.
    pub(crate) fn object_at(
        &self,
        step: &TargetStep,
        pixel: usize,
        has: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let numbers = step.maps.iter().enumerate().rev();
        let mut objects = numbers.filter_map(|(map, pixels)| {
            let number = usize::from(*pixels.get(pixel)?).checked_sub(1)?;
            self.painted.get(map * MAP_OBJECTS + number).copied()
        });
        objects.find(|object| has(*object))
    }

    /// Describes the objects before and after the ops: a line about all of them, and one for each. Nothing if only
    /// masks of the image are declared.
    #[must_use]
    pub fn describe(&self) -> Vec<String> {
        if !self.has_objects {
            return vec![];
        }
        let [_, after] = self.ends();
        let (stored, left) = (self.stored.len(), after.objects.len());
        let mut lines = vec![format!("objects: {stored} stored, {left} after the ops")];
        let batch = self.rows_after();
        for (row, object) in self.stored.iter().enumerate() {
            let label = self.label(row).map(|label| format!(" {}", Escaped(&label)));
            let mut line = format!("{row}{}:", label.unwrap_or_default());
            let after = after.objects.rows().binary_search(&row).ok().map(|index| &batch[index]);
            if let Some(boxes) = self.boxes {
                let [stored, output] = boxes.formats();
                line += &format!(" {} {}", stored.name(), numbers(&object.bounds));
                if let Some((bounds, _)) = after {
                    line += &format!(" -> {} {}", output.name(), numbers(bounds));
                }
            }
            if let Some(points) = &self.keypoints {
                let comma = if self.boxes.is_some() { "," } else { "" };
                let visible = visible(points, &object.keypoints);
                line += &format!("{comma} {visible} of {} keypoints visible", points.each());
                if let Some((_, moved)) = after {
                    line += &format!(" -> {}", self::visible(points, moved));
                }
            }
            if let Some(op) = object.removed_by {
                line += &format!(", removed by {}", self.ops[op]);
            }
            lines.push(line);
        }
        lines
    }

    /// Returns the objects before and after the ops as JSON: the numbers that are stored, and those of a batch.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        let object = |row: usize, format: usize, (bounds, points): (&[f32], &[f32])| {
            let mut object = serde_json::Map::new();
            if let Some(boxes) = self.boxes {
                object.insert("box".to_owned(), json!(bounds));
                object.insert("format".to_owned(), json!(boxes.formats()[format].name()));
            }
            if let Some(class) = self.class(row) {
                object.insert("class".to_owned(), json!(class));
            }
            if let Some(name) = &self.stored[row].name {
                object.insert("name".to_owned(), json!(name));
            }
            if let Some(declared) = &self.keypoints {
                let points: Vec<&[f32]> = points.chunks(declared.columns()).collect();
                object.insert("keypoints".to_owned(), json!(points));
            }
            object
        };
        let side = |step: &TargetStep, objects: Vec<_>| {
            let size = [step.size.height, step.size.width];
            json!({"size": size, "objects": objects})
        };
        let [first, last] = self.ends();
        let stored = self.stored.iter().enumerate().map(|(row, stored)| {
            let mut object = object(row, 0, (&stored.bounds, &stored.keypoints));
            if let Some(op) = stored.removed_by {
                object.insert("removed_by".to_owned(), json!(self.ops[op]));
            }
            object
        });
        let before = side(first, stored.collect());
        let rows = last.objects.rows().iter().zip(self.rows_after());
        let after = rows.map(|(&row, (bounds, points))| {
            let mut object = object(row, 1, (&bounds, &points));
            object.insert("before".to_owned(), json!(row));
            object
        });
        let mut after = side(last, after.collect());
        if self.boxes.is_some_and(|boxes| boxes.is_normalized()) {
            after["normalized"] = json!(true);
        }
        json!({"before": before, "after": after})
    }

    /// Returns the first and the last step.
    fn ends(&self) -> [&TargetStep; 2] {
        [&self.steps[0], &self.steps[self.steps.len() - 1]]
    }

    /// Returns the boxes and the keypoints of the objects after the ops, with the numbers of a batch.
    fn rows_after(&self) -> Vec<(Vec<f32>, Vec<f32>)> {
        let [_, TargetStep { size, objects, .. }] = self.ends();
        let (mut boxes, mut points) = (vec![], vec![]);
        if let Some(declared) = self.boxes {
            declared.write(objects, *size, &mut boxes);
        }
        if let Some(declared) = &self.keypoints {
            declared.write(objects, &mut points);
        }
        let count = objects.len().max(1);
        let [each_box, each_points] = [&boxes, &points].map(|bytes| bytes.len() / count);
        let of = |bytes: &[u8], each: usize, row: usize| {
            bytes[row * each..][..each]
                .as_chunks()
                .0
                .iter()
                .map(|b| f32::from_ne_bytes(*b))
                .collect()
        };
        let row = |row| (of(&boxes, each_box, row), of(&points, each_points, row));
        (0..objects.len()).map(row).collect()
    }
}

/// Returns numbers in brackets, rounded to thousandths.
fn numbers(values: &[f32]) -> String {
    let rounded = values.iter().map(|value| ((f64::from(*value) * 1e3).round() / 1e3).to_string());
    format!("[{}]", rounded.collect::<Vec<_>>().join(", "))
}

/// Returns how many of an object's keypoints are visible.
fn visible(points: &KeyPoints, numbers: &[f32]) -> usize {
    numbers.chunks(points.columns()).filter(|point| point.get(2).is_none_or(|v| *v == 2.0)).count()
}
