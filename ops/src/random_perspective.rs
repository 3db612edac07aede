//! Random perspective: moves the image's corners inwards at random.

use crate::author::{GeometryOp, GeometryStep, Op, OpClass, Rng, RowProducer, Type};
use crate::error::probability;
use crate::op::{check_fill, on_numbers};
use crate::registry::{
    FILL, GEOMETRY, Golden, OpInfo, P, ParamKind, ParamValue, Recipe, Recipes, built, recipe,
    with_default,
};
use crate::rows::{Map, WarpInterpolation, perspective_coefficients};
use crate::warping::{self, Warping};
use crate::{ParamError, Size, TypeError};

/// Moves the corners of a share `p` of the images inwards.
///
#[cfg_attr(doc, doc = include_str!("../pictures/RandomPerspective.md"))]
///
/// torchvision's `RandomPerspective(distortion_scale, p, interpolation, fill)`, for a sample whose
/// coin is heads: each corner moves towards the middle, by less than
/// `bw = floor(distortion_scale * floor(width / 2)) + 1` columns and `bh` rows alike:
///
/// ```text
/// top left      U{0..bw}, U{0..bh}                 top right     U{width-bw..width}, U{0..bh}
/// bottom right  U{width-bw..width}, U{height-bh..height}     bottom left   U{0..bw}, U{height-bh..height}
/// ```
///
/// The image is warped accordingly, by torchvision's `_get_perspective_coeffs`. If three corners end up on
/// one line (as in an image one pixel wide), there is no such warp, and the image stays unchanged.
/// [`WarpInterpolation`] describes how a pixel is computed.
///
/// | | |
/// |--------|-----------------------------------------------------------------------------|
/// | input  | image of u8, u16, i16, f16, bf16 or f32                                                                    |
/// | output | as the input                                                                |
/// | random | a coin `p`, then the corners in the order above, each with its column first |
/// | cost   | a pixel: its position and two divisions, then 1, 4 or 16 pixels read        |
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![RandomPerspective::new().distortion_scale(0.3)?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RandomPerspective {
    distortion_scale: f64,
    p: f64,
    warping: Warping,
}

const OP: &str = "RandomPerspective";

impl Default for RandomPerspective {
    fn default() -> Self {
        Self::new()
    }
}

impl RandomPerspective {
    /// Builds the op with torchvision's defaults: corners move by up to half of the distance to the
    /// middle, in half of the images; the area outside the input is black.
    #[must_use]
    pub const fn new() -> Self {
        let warping = Warping::new(WarpInterpolation::Bilinear);
        Self { distortion_scale: 0.5, p: 0.5, warping }
    }

    /// Sets the largest share of the distance to the middle that a corner moves by. Default 0.5.
    ///
    /// # Errors
    ///
    /// If the share is not in `0.0..=1.0`.
    pub fn distortion_scale(self, distortion_scale: f64) -> Result<Self, ParamError> {
        if (0.0..=1.0).contains(&distortion_scale) {
            Ok(Self { distortion_scale, ..self })
        } else {
            Err(ParamError::new(OP, "distortion_scale", distortion_scale, "0.0..=1.0"))
        }
    }

    /// Sets the share of the images that the op changes. Default 0.5.
    ///
    /// # Errors
    ///
    /// If `p` is not in `0.0..=1.0`.
    pub fn p(self, p: f64) -> Result<Self, ParamError> {
        Ok(Self { p: probability(OP, p)?, ..self })
    }

    /// Sets how the image is interpolated: bilinear by default.
    #[must_use]
    pub const fn interpolation(mut self, interpolation: WarpInterpolation) -> Self {
        self.warping.interpolation = interpolation;
        self
    }

    /// Sets the fill colour of the area outside the input; `None` is black without blending at the
    /// edge.
    #[must_use]
    pub fn fill(mut self, fill: impl Into<Option<[u8; 3]>>) -> Self {
        self.warping.fill = fill.into();
        self
    }

    /// Draws the new positions of the four corners, each as `[x, y]`.
    fn ends(&self, rng: &mut Rng, size: Size) -> [[f64; 2]; 4] {
        let bound = |side: u32| (self.distortion_scale * f64::from(side / 2)) as u32 + 1;
        let mut near = |side: u32| f64::from(rng.below(bound(side)));
        let Size { height, width } = size;
        // The draw counts from the start of the last `bound` pixels, which is pixel `side - bound`.
        let far = |side: u32, step: f64| f64::from(side - bound(side)) + step;
        let top_left = [near(width), near(height)];
        let top_right = [far(width, near(width)), near(height)];
        let bottom_right = [far(width, near(width)), far(height, near(height))];
        let bottom_left = [near(width), far(height, near(height))];
        [top_left, top_right, bottom_right, bottom_left]
    }
}

/// Returns the pixels of the corners, each as `[x, y]`: top left, top right, bottom right, bottom
/// left.
fn corners(size: Size) -> [[f64; 2]; 4] {
    let [right, bottom] = [size.width, size.height].map(|side| f64::from(side) - 1.0);
    [[0.0, 0.0], [right, 0.0], [right, bottom], [0.0, bottom]]
}

impl Op for RandomPerspective {
    fn name(&self) -> &'static str {
        "RandomPerspective"
    }

    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        check_fill(self.name(), input, self.warping.fill)?;
        on_numbers(self.name(), input, |image| image)
    }

    fn class(&self) -> OpClass<'_> {
        OpClass::Geometry(self)
    }

    fn does_nothing(&self, _: &Type) -> bool {
        self.p == 0.0 || self.distortion_scale == 0.0
    }
}

impl GeometryOp for RandomPerspective {
    fn draw(&self, rng: &mut Rng, size: Size, out: &mut Vec<GeometryStep>) {
        if !rng.coin(self.p) {
            return;
        }
        let ends = self.ends(rng, size);
        if let Some(coefficients) = perspective_coefficients(corners(size), ends) {
            let map = Map::perspective(coefficients, size, size);
            out.push(self.warping.motion(map, size));
        }
    }

    fn row_producer(&self) -> Option<RowProducer> {
        Some(RowProducer::Called)
    }

    fn blends(&self) -> bool {
        self.warping.interpolation.blends()
    }
}

impl RandomPerspective {
    pub(crate) const ENTRY: OpInfo = OpInfo {
        name: "RandomPerspective",
        class: GEOMETRY,
        summary: "moves the corners of a share p of the images inwards",
        params: &[
            with_default(
                "distortion_scale",
                ParamKind::Number,
                ParamValue::Float(0.5),
                "most that corners move, in shares of the way to the middle",
            ),
            P,
            warping::interpolation("bilinear"),
            FILL,
        ],
        aliases: &[],
        build: |args| {
            let op = RandomPerspective::new().distortion_scale(args.float("distortion_scale")?)?;
            let op = op.p(args.float("p")?)?;
            let op = op.interpolation(args.warp_interpolation("interpolation")?);
            Ok(built(op.fill(args.color("fill")?)))
        },
        recipes: Recipes::Drawn(&[Recipe {
            name: "RandomPerspective",
            draw: |rng, _| {
                let op =
                    RandomPerspective::new().distortion_scale(recipe::number(rng, 0.0, 1.0))?;
                let op = op.p(recipe::share(rng))?;
                let op = op.interpolation(recipe::warp_interpolation(rng));
                Ok(built(op.fill(warping::random_fill(rng))))
            },
        }]),
        golden: Golden::Tested,
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::SampleKey;

    #[test]
    fn corners_move_inwards_as_far_as_they_may() {
        let op = RandomPerspective::new();
        let mut rng = SampleKey::new(1, 2, 3).op(0);
        let (mut least, mut most) = ([[f64::MAX; 2]; 4], [[f64::MIN; 2]; 4]);
        for _ in 0..2000 {
            for (corner, end) in op.ends(&mut rng, Size::new(17, 22)).into_iter().enumerate() {
                for axis in 0..2 {
                    least[corner][axis] = least[corner][axis].min(end[axis]);
                    most[corner][axis] = most[corner][axis].max(end[axis]);
                }
            }
        }
        assert_eq!(least, [[0.0, 0.0], [16.0, 0.0], [16.0, 12.0], [0.0, 12.0]]);
        assert_eq!(most, [[5.0, 4.0], [21.0, 4.0], [21.0, 16.0], [5.0, 16.0]]);
    }

    #[test]
    fn corners_on_a_line_leave_the_picture_as_it_is() {
        let op = RandomPerspective::new().p(1.0).unwrap().distortion_scale(1.0).unwrap();
        let mut rng = SampleKey::new(1, 2, 3).op(0);
        let mut out = vec![];
        for (height, width) in [(1, 1), (1, 9), (9, 1)] {
            op.draw(&mut rng, Size::new(height, width), &mut out);
        }
        assert_eq!(out, []);
    }

    #[test]
    fn bad_parameters_are_refused() {
        for share in [-0.1, 1.1, f64::NAN] {
            let op = RandomPerspective::new();
            assert!(op.distortion_scale(share).is_err() && op.p(share).is_err(), "{share}");
        }
    }
}
