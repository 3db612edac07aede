//! Sanitize bounding boxes: removes objects whose box is too small or outside the image.

use crate::author::{ObjectOp, Objects, Type};
use crate::op::{Op, class, on_image};
use crate::{Size, TypeError};

/// Removes objects whose bounding box is too small, or not inside the image.
///
#[cfg_attr(doc, doc = include_str!("../pictures/SanitizeBoundingBoxes.md"))]
///
/// torchvision's `SanitizeBoundingBoxes(min_size, min_area)`. Kept are boxes with
///
/// ```text
/// width >= min_size, height >= min_size, width * height >= min_area, all edges or corners inside the image
/// ```
///
/// The classes, keypoints, instance masks and other columns of a removed object are removed with it. The height of
/// a rotated box is the length of its side; torchvision takes it from the wrong corners.
///
/// | | |
/// |--------|------------------------------------------------------------------|
/// | input  | image, with bounding boxes declared as its targets               |
/// | output | the same image, with fewer objects or as many                    |
/// | random | nothing                                                          |
/// | cost   | a few comparisons per object                                     |
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![RandomIoUCrop::new(), Resize::new(300)?, SanitizeBoundingBoxes::new()];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq)]
#[op(
    TARGETS,
    "removes objects whose box is too small or outside the image",
    new = "torchvision's defaults: sides of 1 pixel or more, and an area of 1 or more.",
    golden = "the boxes that torchvision keeps are in the unit tests"
)]
pub struct SanitizeBoundingBoxes {
    /// Sets the least width and height, in pixels.
    #[param("least width and height, in pixels", positive, default = 1.0)]
    min_size: f64,
    /// Sets the least area, in pixels.
    #[param("least area, in pixels", positive, default = 1.0)]
    min_area: f64,
}

const NAME: &str = "SanitizeBoundingBoxes";

#[class(Objects)]
impl Op for SanitizeBoundingBoxes {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_image(NAME, input, |image| image)
    }
}

impl ObjectOp for SanitizeBoundingBoxes {
    fn apply(&self, size: Size, objects: &mut Objects) {
        let Self { min_size, min_area } = *self;
        objects.retain(|objects, index| {
            let bounds = objects.boxes()[index];
            let is_large = bounds.width() >= min_size && bounds.height() >= min_size;
            is_large && bounds.area() >= min_area && bounds.is_inside(size)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::author::BoundingBox;
    use crate::{BoxFormat, ClampingMode};

    /// Returns which boxes stay in an image of 20 x 30: torchvision 0.29.2 has the same answers.
    fn kept<const N: usize>(
        op: SanitizeBoundingBoxes,
        format: BoxFormat,
        boxes: &[[f32; N]],
    ) -> Vec<usize> {
        let mut objects = Objects::default();
        objects.reset(boxes.len());
        let boxes = boxes.iter().map(|values| BoundingBox::read(format, values));
        objects.set_boxes(boxes, format, ClampingMode::Soft);
        op.apply(Size::new(20, 30), &mut objects);
        objects.rows().to_vec()
    }

    #[test]
    fn the_boxes_that_stay_are_torchvisions() {
        let boxes = [
            [1.0, 2.0, 5.0, 9.0],
            [3.0, 3.0, 3.0, 9.0],
            [3.0, 3.0, 3.5, 9.0],
            [3.0, 3.0, 4.0, 3.9],
            [-1.0, 0.0, 5.0, 5.0],
            [25.0, 5.0, 30.0, 20.0],
            [25.0, 5.0, 30.1, 20.0],
            [9.0, 9.0, 5.0, 5.0],
            [f32::NAN, 0.0, 5.0, 5.0],
        ];
        let new = SanitizeBoundingBoxes::new;
        assert_eq!(kept(new(), BoxFormat::Xyxy, &boxes), [0, 5]);
        assert_eq!(kept(new().min_size(4.0).unwrap(), BoxFormat::Xyxy, &boxes), [0, 5]);
        assert_eq!(kept(new().min_area(20.0).unwrap(), BoxFormat::Xyxy, &boxes), [0, 5]);
        assert_eq!(kept(new().min_area(30.0).unwrap(), BoxFormat::Xyxy, &boxes), [5]);
    }

    /// torchvision keeps the first one: it takes the height from the wrong corners.
    #[test]
    fn the_height_of_a_rotated_box_is_that_of_its_side() {
        let boxes = [
            [5.0, 5.0, 6.0, 0.5, 0.0],
            [5.0, 5.0, 0.5, 6.0, 0.0],
            [5.0, 5.0, 6.0, 4.0, 0.0],
            [10.0, 10.0, 6.0, 4.0, 20.0],
        ];
        assert_eq!(kept(SanitizeBoundingBoxes::new(), BoxFormat::Xywhr, &boxes), [2, 3]);
    }

    #[test]
    fn limits_are_positive() {
        assert!(SanitizeBoundingBoxes::new().min_size(0.0).is_err());
        assert!(SanitizeBoundingBoxes::new().min_area(f64::NAN).is_err());
    }
}
