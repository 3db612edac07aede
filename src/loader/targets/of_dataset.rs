//! The targets of a dataset that knows what its fields of objects and its masks are.

use super::{KeyPoints, Targets};
use crate::source::{BoxError, ObjectField, Source};
use fuseloop_ops::DType;

/// The value of pixels outside the image, which losses ignore.
const IGNORED: u8 = 255;

/// The number of keypoints of COCO's persons.
const PERSON: u64 = 17;

impl Targets {
    /// Returns the targets that a dataset has for its image; `None` if it knows of none. Of the columns, only the
    /// classes are declared.
    ///
    /// # Errors
    ///
    /// If the description of the fields is damaged.
    pub(in crate::loader) fn of_dataset(source: &dyn Source) -> Result<Option<Self>, BoxError> {
        let mut targets = Self::new();
        let known = source.object_fields()?.unwrap_or_default();
        for (name, field) in known.iter() {
            targets = match field {
                ObjectField::Boxes(format) => targets.boxes(name, format),
                ObjectField::Classes => targets.column(name, DType::I64),
                ObjectField::Keypoints(each) => {
                    let layout = known.keypoints(name).cloned().unwrap_or_default();
                    let mut points = KeyPoints::new(each as usize);
                    if !layout.flip_pairs.is_empty() {
                        points = points.flip_pairs(&layout.flip_pairs);
                    } else if each == PERSON {
                        points = KeyPoints::coco_person();
                    }
                    targets.keypoints(
                        name,
                        if layout.is_continuous { points.continuous() } else { points },
                    )
                }
                ObjectField::Segmentation => targets.instance_masks(name),
                ObjectField::Mask => targets.mask(name, IGNORED),
                ObjectField::Column(_) | ObjectField::ImageId => targets,
            };
        }
        Ok((!targets.fields.is_empty()).then_some(targets))
    }
}
