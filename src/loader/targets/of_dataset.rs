//! The targets of a dataset that knows what its fields of objects and its masks are.

use super::{KeyPoints, Targets};
use crate::source::{BoxError, FieldSpec, ObjectField, Source};
use fuseloop_ops::DType;

/// The value of pixels outside the image, which losses ignore.
const IGNORED: u8 = 255;

/// The number of keypoints of COCO's persons.
const PERSON: u64 = 17;

impl Targets {
    /// Returns the targets that a dataset knows of, and the name of their image: the only image that is no mask, or the
    /// field `image`. `None` if it knows of none.
    ///
    /// # Errors
    ///
    /// If the description of the fields is damaged.
    pub(in crate::loader) fn of_dataset(
        source: &dyn Source,
    ) -> Result<Option<(String, Self)>, BoxError> {
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
                ObjectField::Column(dtype) => match dtype.element_type() {
                    Some(dtype) => targets.column(name, dtype),
                    None => targets,
                },
                ObjectField::ImageId => targets,
            };
        }
        if targets.fields.is_empty() {
            return Ok(None);
        }
        let is_target = |name: &str| targets.names().any(|target| target == name);
        let is_own = |field: &&FieldSpec| field.kind.is_image() && !is_target(&field.name);
        let mut images = source.fields().iter().filter(is_own);
        let image = match (images.next(), images.next()) {
            (Some(only), None) => only.name.clone(),
            _ => "image".to_owned(),
        };
        Ok(Some((image, targets)))
    }

    /// Adds the targets of `others` whose fields are not declared.
    pub(in crate::loader) fn add_missing(&mut self, others: Self) {
        let is_missing = |name: &str| self.names().all(|known| known != name);
        let missing: Vec<_> =
            others.fields.into_iter().filter(|(name, _)| is_missing(name)).collect();
        self.fields.extend(missing);
    }
}
