//! The targets of a dataset that is opened from its annotations, whose fields are known.

use super::{KeyPoints, Targets};
use crate::source::Source;
use fuseloop_ops::{BoxFormat, DType};

/// The field with the mask of an image.
pub(in crate::loader) const MASK: &str = "mask";

/// The value of pixels outside the image, which losses ignore.
const IGNORED: u8 = 255;

/// The number of keypoints of COCO's persons.
const PERSON: u64 = 17;

impl Targets {
    /// Returns the targets that a dataset in the format of COCO or Pascal VOC, or with a folder of masks, has for its
    /// image; `None` if it has no such fields.
    pub(in crate::loader) fn of_annotations(source: &dyn Source) -> Option<Self> {
        let has = |name: &str| source.fields().iter().any(|field| field.name == name);
        let mut targets = Self::new();
        if has("bbox") && has("category_id") {
            let format = if has("iscrowd") { BoxFormat::Xywh } else { BoxFormat::Xyxy };
            targets = targets.boxes("bbox", format).column("category_id", DType::I64);
        }
        targets = match keypoints_each(source) {
            Some(PERSON) => targets.keypoints("keypoints", KeyPoints::coco_person()),
            Some(each) => targets.keypoints("keypoints", KeyPoints::new(each as usize)),
            None => targets,
        };
        if has("segmentation") {
            targets = targets.instance_masks("segmentation");
        }
        if has(MASK) {
            targets = targets.mask(MASK, IGNORED);
        }
        (!targets.fields.is_empty()).then_some(targets)
    }
}

/// Returns how many keypoints an object has: each is three numbers, and a box is four.
fn keypoints_each(source: &dyn Source) -> Option<u64> {
    let longest =
        |name: &str| source.longest(source.fields().iter().position(|field| field.name == name)?);
    let (points, boxes) = (longest("keypoints")?, longest("bbox")?);
    let each = (4 * points).checked_div(3 * boxes)?;
    (each > 0).then_some(each)
}
