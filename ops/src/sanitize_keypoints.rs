//! Sanitize keypoints: removes objects with a keypoint outside the image.

use crate::author::{ObjectOp, Objects, Type};
use crate::op::{Op, class, on_image};
use crate::{Size, TypeError};

/// Removes objects with a keypoint outside the image.
///
#[cfg_attr(doc, doc = include_str!("../pictures/SanitizeKeyPoints.md"))]
///
/// ```text
/// kept: all its points have 0 <= x < W and 0 <= y < H
/// ```
///
/// torchvision's `SanitizeKeyPoints`, in continuous coordinates: the middle of the first pixel is (1/2, 1/2). Points that
/// are not labelled do not count.
///
/// | | |
/// |--------|------------------------------------------------------------------|
/// | input  | image, with keypoints declared as its targets                    |
/// | output | the same image, with fewer objects or as many                    |
/// | random | nothing                                                          |
/// | cost   | four comparisons per point                                       |
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![RandomCrop::new(224)?, SanitizeKeyPoints];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq, Eq)]
#[op(
    TARGETS,
    "removes objects with a keypoint outside the image",
    golden = "the points that torchvision keeps are in the unit tests"
)]
pub struct SanitizeKeyPoints;

const NAME: &str = "SanitizeKeyPoints";

#[class(Objects)]
impl Op for SanitizeKeyPoints {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_image(NAME, input, |image| image)
    }
}

impl ObjectOp for SanitizeKeyPoints {
    fn apply(&self, size: Size, objects: &mut Objects) {
        let sides = [size.width, size.height].map(f64::from);
        let each = objects.keypoints_each();
        objects.retain(|objects, index| {
            let mut points = objects.keypoints()[index * each..][..each].iter();
            points.all(|point| {
                let mut places = point.at.iter().zip(sides);
                point.visibility == 0.0 || places.all(|(place, side)| (0.0..side).contains(place))
            })
        });
    }

    fn needs_boxes(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ClampKeyPoints;
    use crate::author::Keypoint;

    fn points() -> Objects {
        let mut objects = Objects::default();
        objects.reset(5);
        let at = |x, y| Keypoint { at: [x, y], visibility: 2.0 };
        let points = [at(30.0, 20.0), at(-1.0, 5.0), at(29.9, 19.99), at(0.0, 0.0)];
        objects.set_keypoints(points.into_iter().chain([Keypoint::default()]), 1, &[]);
        objects
    }

    /// In an image of 20 x 30; torchvision 0.29.2 has the same answers for the first four.
    #[test]
    fn points_outside_are_removed() {
        let mut objects = points();
        SanitizeKeyPoints.apply(Size::new(20, 30), &mut objects);
        assert_eq!(objects.rows(), [2, 3, 4]);
    }

    #[test]
    fn clamped_points_are_in_the_outermost_pixels() {
        let mut objects = points();
        ClampKeyPoints.apply(Size::new(20, 30), &mut objects);
        let at: Vec<_> = objects.keypoints().iter().map(|point| point.at).collect();
        assert_eq!(at, [[29.5, 19.5], [0.5, 5.0], [29.5, 19.5], [0.5, 0.5], [0.0, 0.0]]);
    }
}
