//! Random rotation: rotates an image by a random angle.

use crate::author::{GeometryOp, GeometryStep, Rng, RowProducer, Type};
use crate::error::LONGEST;
use crate::number_or_range::around_zero;
use crate::op::{Dim, ImageType, Op, check_fill, class, on_numbers};
use crate::registry::{BuiltOp, built, recipe};
use crate::rot90::turn;
use crate::rows::{Map, WarpInterpolation, expanded_size, rotation_matrix};
use crate::warping::{self, Center};
use crate::{NumberOrRange, ParamError, Size, TypeError};

/// Rotates an image by a random angle.
///
#[cfg_attr(doc, doc = include_str!("../pictures/RandomRotation.md"))]
///
/// torchvision's `RandomRotation(degrees, interpolation, expand, center, fill)`: the angle is
/// uniform, counter-clockwise on the screen. `expand` makes the output large enough for the whole
/// rotated image; it is meant for rotations about the middle. Quarter turns about the middle copy pixels
/// if the output has their shape, as torchvision's do. [`WarpInterpolation`] describes how a pixel is
/// computed.
///
/// ```text
/// out[y, x] = in[M (y, x)]     M: the inverse rotation by U(degrees) about the centre
/// ```
///
/// | | |
/// |--------|-----------------------------------------------------------------------------|
/// | input  | image of u8, u16, i16, f16, bf16 or f32                                                                    |
/// | output | u8 image of the same size; with `expand`, the size differs from sample to sample (at most 65535 a side): a resize or a crop must follow |
/// | random | the angle                                                                   |
/// | cost   | a pixel: its position, then 1, 4 or 16 pixels read                          |
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![RandomRotation::new(15.0)?.interpolation(WarpInterpolation::Bilinear)];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq)]
#[op(GEOMETRY, "turns an image by a random angle", draw = random)]
pub struct RandomRotation {
    /// A rotation by an angle in `degrees`, counter-clockwise, about the middle; the area outside
    /// the input is black. One number `d` is the range `-d..=d`.
    #[param("range of the angle; a number d is -d..d", given = NumberOrRange, check = around_zero, example = 15,
        errors = "If a number is negative, or the range is empty or not finite")]
    degrees: (f32, f32),
    #[param(warp_interpolation, default = WarpInterpolation::Nearest)]
    interpolation: WarpInterpolation,
    /// Makes the output large enough for the whole rotated image.
    #[param(
        "whether the output is enlarged to hold the whole turned image",
        flag,
        default = false
    )]
    expand: bool,
    #[param("in pixels from the top left corner; default: the middle", optional, by_hand, given = (f64, f64))]
    #[init(Center::default())]
    center: Center,
    #[param(warp_fill)]
    fill: Option<[u8; 3]>,
}

impl RandomRotation {
    /// Rotates about `(x, y)`, in pixels from the top left corner.
    ///
    /// # Errors
    ///
    /// If one is not in `-65535.0..=65535.0`.
    pub fn center(mut self, x: f64, y: f64) -> Result<Self, ParamError> {
        self.center = Center::at("RandomRotation", x, y)?;
        Ok(self)
    }

    /// Appends the steps that rotate one sample, and returns the output size.
    fn turned(&self, angle: f32, size: Size, out: &mut Vec<GeometryStep>) -> Size {
        let angle = f64::from(angle).rem_euclid(360.0);
        if let Some(quarters) = self.quarters(angle, size) {
            turn(quarters, out);
            return if quarters % 2 == 1 { Size::new(size.width, size.height) } else { size };
        }
        let matrix = rotation_matrix(angle, self.center.relative_to_middle(size));
        let to = if self.expand { shortened(expanded_size(matrix, size)) } else { size };
        out.push(warping::warp(Map::affine(matrix, size, to), to, self.interpolation, self.fill));
        to
    }

    /// Returns the number of quarter turns, if quarter turns alone perform the rotation.
    fn quarters(&self, angle: f64, size: Size) -> Option<u32> {
        let keeps_shape = self.expand || size.height == size.width;
        let quarters = (angle / 90.0) as u32;
        let is_whole = angle == f64::from(90 * quarters) && quarters < 4;
        (self.center.is_middle() && is_whole && (quarters.is_multiple_of(2) || keeps_shape))
            .then_some(quarters)
    }

    /// Returns the type of a rotated image: the range of sizes that it may have.
    fn expanded(&self, image: ImageType) -> ImageType {
        if let (Some(size), true) = (image.size(), self.degrees.0 == self.degrees.1) {
            return image.with_size(self.turned(self.degrees.0, size, &mut vec![]));
        }
        let (h, w) = (image.height, image.width);
        // Each end is rounded outwards, and one more pixel allows for the rounding of f32.
        let diagonal = libm::hypot(f64::from(h.max), f64::from(w.max)).ceil() as u32 + 3;
        let least = h.min.min(w.min).saturating_sub(1).max(1);
        let side = Dim { min: least.min(LONGEST), max: diagonal.min(LONGEST) };
        ImageType { height: side, width: side, ..image }
    }
}

/// Limits the size to the longest allowed sides: the image is cropped around its middle.
fn shortened(size: Size) -> Size {
    Size::new(size.height.min(LONGEST), size.width.min(LONGEST))
}

#[class(Geometry)]
impl Op for RandomRotation {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        check_fill(self.name(), input, self.fill)?;
        on_numbers(
            self.name(),
            input,
            |image| {
                if self.expand { self.expanded(image) } else { image }
            },
        )
    }

    fn does_nothing(&self, _: &Type) -> bool {
        self.degrees == (0.0, 0.0) && self.center.is_middle()
    }
}

impl GeometryOp for RandomRotation {
    fn draw(&self, rng: &mut Rng, size: Size, out: &mut Vec<GeometryStep>) {
        let angle = rng.uniform(self.degrees.0, self.degrees.1);
        self.turned(angle, size, out);
    }

    fn row_producer(&self) -> Option<RowProducer> {
        Some(RowProducer::Called)
    }

    fn blends(&self) -> bool {
        self.interpolation.blends()
    }
}

/// Draws a rotation: sometimes by whole quarters, sometimes about a point far outside the image.
fn random(rng: &mut Rng, _: &ImageType) -> Result<BuiltOp, ParamError> {
    let quarter = f64::from(90 * rng.below(5));
    let degrees = if rng.coin(0.2) { quarter..=quarter } else { -200.0..=200.0 };
    let mut op = RandomRotation::new(degrees)?.interpolation(recipe::warp_interpolation(rng));
    op = op.fill(warping::random_fill(rng));
    if rng.coin(0.3) {
        op = op.expand();
    }
    if rng.coin(0.2) {
        op = op.center(recipe::number(rng, -99.0, 99.0), 3.0)?;
    }
    Ok(built(op))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::SampleKey;
    use crate::rows::RowFilter;

    fn by(degrees: f64) -> RandomRotation {
        RandomRotation::new(degrees..=degrees).unwrap()
    }

    fn motions(op: &RandomRotation, size: Size) -> Vec<GeometryStep> {
        let mut out = vec![];
        op.draw(&mut SampleKey::new(0, 0, 0).op(0), size, &mut out);
        out
    }

    #[test]
    fn quarter_turns_copy_where_the_shape_allows() {
        let (square, wide) = (Size::new(4, 4), Size::new(4, 6));
        assert_eq!(motions(&by(360.0), wide), []);
        assert_eq!(
            motions(&by(-180.0), wide),
            [GeometryStep::FlipVertical, GeometryStep::FlipHorizontal]
        );
        let quarter = [GeometryStep::Rows(RowFilter::Transpose), GeometryStep::FlipVertical];
        assert_eq!(motions(&by(90.0), square), quarter);
        assert_eq!(motions(&by(90.0).expand(), wide), quarter);
        let is_warp = |op: RandomRotation| {
            matches!(motions(&op, wide)[..], [GeometryStep::Rows(RowFilter::Warp(_))])
        };
        assert!(is_warp(by(90.0)));
        assert!(is_warp(by(180.0).center(1.0, 2.0).unwrap()));
        let output = |angle| by(0.0).expand().turned(angle, wide, &mut vec![]);
        assert_eq!([90.0, 180.0, 270.0].map(output), [Size::new(6, 4), wide, Size::new(6, 4)]);
    }

    #[test]
    fn the_type_says_how_large_an_expanded_picture_may_be() {
        let size = Size::new(100, 60);
        let input = Type::Image(ImageType::decoded(Dim::fixed(100), Dim::fixed(60)));
        let output = by(45.0).expand().output(&input).unwrap().to_string();
        assert_eq!(output, "a u8 image [114, 114, 3]");
        let any = RandomRotation::new(-180.0..=180.0).unwrap().expand();
        assert_eq!(any.output(&input).unwrap().to_string(), "a u8 image [59..=120, 59..=120, 3]");
        for angle in -1800..1800 {
            let Size { height, width } = any.turned(angle as f32 / 10.0, size, &mut vec![]);
            assert!((60..=118).contains(&height.min(width)) && height.max(width) <= 118, "{angle}");
        }
    }

    #[test]
    fn bad_parameters_are_refused() {
        for degrees in [10.0..=-10.0, f64::NAN..=1.0, 0.0..=f64::INFINITY] {
            assert!(RandomRotation::new(degrees.clone()).is_err(), "{degrees:?}");
        }
        assert!(by(1.0).center(f64::NAN, 0.0).is_err());
    }
}
