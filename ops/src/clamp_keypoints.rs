//! Clamp keypoints: moves points outside the image to its outermost pixels.

use crate::author::{ObjectOp, Objects, Type};
use crate::op::{Op, class, on_image};
use crate::{Size, TypeError};

/// Moves keypoints outside the image to the middle of its outermost pixels.
///
#[cfg_attr(doc, doc = include_str!("../pictures/ClampKeyPoints.md"))]
///
/// ```text
/// x -> min(max(x, 0), W - 1)        y -> min(max(y, 0), H - 1)        as indices of pixels
/// ```
///
/// torchvision's `ClampKeyPoints`. Points that are not labelled stay without a position.
///
/// | | |
/// |--------|------------------------------------------------------------------|
/// | input  | image, with keypoints declared as its targets                    |
/// | output | the same image                                                   |
/// | random | nothing                                                          |
/// | cost   | two comparisons per point                                        |
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![RandomCrop::new(224)?, ClampKeyPoints];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq, Eq)]
#[op(
    TARGETS,
    "moves keypoints outside the image to its outermost pixels",
    golden = "torchvision's points are in the unit tests of SanitizeKeyPoints"
)]
pub struct ClampKeyPoints;

const NAME: &str = "ClampKeyPoints";

#[class(Objects)]
impl Op for ClampKeyPoints {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_image(NAME, input, |image| image)
    }
}

impl ObjectOp for ClampKeyPoints {
    fn apply(&self, size: Size, objects: &mut Objects) {
        let sides = [size.width, size.height].map(|side| f64::from(side.max(1)));
        for point in objects.keypoints_mut().iter_mut().filter(|point| point.visibility != 0.0) {
            for (place, side) in point.at.iter_mut().zip(sides) {
                *place = place.clamp(0.5, side - 0.5);
            }
        }
    }

    fn needs_boxes(&self) -> bool {
        false
    }
}
