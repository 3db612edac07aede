//! Random affine transform: a rotation, a translation, a scale and a shear in one.

use crate::author::{GeometryOp, GeometryStep, Rng, RowProducer, Type};
use crate::number_or_range::around_zero;
use crate::op::{ImageType, Op, check_fill, class, on_numbers};
use crate::registry::{BuiltOp, OpArgs, ParamKind, SpecError, built, recipe};
use crate::rows::{Map, WarpInterpolation, affine_matrix};
use crate::warping::{self, Center};
use crate::{NumberOrRange, ParamError, Size, TypeError};

/// Rotates, translates, scales and shears an image at random, in one step.
///
#[cfg_attr(doc, doc = include_str!("../pictures/RandomAffine.md"))]
///
/// torchvision's `RandomAffine(degrees, translate, scale, shear, interpolation, fill, center)`:
///
/// ```text
/// angle = U(degrees)                                                   clockwise on the screen
/// tx = round_half_even(U(-fx * width, fx * width)); ty likewise with fy * height    if translate
/// scale = U(scale)                                                     if scale, else 1
/// shear along x = U(x); along y = U(y)                                 if given, else 0
/// ```
///
/// These are combined into one inverse matrix, as in torchvision's `_get_inverse_affine_matrix`:
///
/// ```text
/// M = [d, -b; -c, a] / scale       t = angle, p = shear along x, q = shear along y
/// a = cos(t - q) / cos(q)          b = -cos(t - q) tan(p) / cos(q) - sin(t)
/// c = sin(t - q) / cos(q)          d = -sin(t - q) tan(p) / cos(q) + cos(t)
/// ```
///
/// [`WarpInterpolation`] describes how a pixel is computed.
///
/// | | |
/// |--------|-----------------------------------------------------------------------------|
/// | input  | image of u8, u16, i16, f16, bf16 or f32                                                                    |
/// | output | as the input                                                                |
/// | random | the numbers above, in this order                                            |
/// | cost   | a pixel: its position, then 1, 4 or 16 pixels read                          |
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![RandomAffine::new(15.0)?.translate(0.1, 0.1)?.scale(0.9..=1.1)?.shear(5.0)?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq)]
#[op(GEOMETRY, "turns, shifts, scales and shears an image at random", build = |args| Ok(built(affine(args)?)), draw = random)]
pub struct RandomAffine {
    /// A rotation by an angle in `degrees`, clockwise, about the middle; the area outside the input
    /// is black. One number `d` is the range `-d..=d`, and 0.0 no rotation.
    #[param("range of the angle; a number d is -d..d", given = NumberOrRange, check = around_zero, example = 15,
        errors = "If a number is negative, or the range is empty or not finite")]
    degrees: (f32, f32),
    // Shares along x and along y.
    #[param("largest shift, as shares of width and height", optional, by_hand, given = (f64, f64))]
    translate: Option<[f64; 2]>,
    /// Scales by a factor in a range.
    #[param("range of the factor", optional, positive)]
    scale: Option<(f32, f32)>,
    // Ranges along x and along y.
    #[param("degrees; a number s is -s..s along x", optional, by_hand, kind = ParamKind::Shear)]
    #[init([None; 2])]
    shear: [Option<(f32, f32)>; 2],
    #[param(warp_interpolation, default = WarpInterpolation::Nearest)]
    interpolation: WarpInterpolation,
    #[param(warp_fill)]
    fill: Option<[u8; 3]>,
    #[param("in pixels from the top left corner; default: the middle", optional, by_hand, given = (f64, f64))]
    #[init(Center::default())]
    center: Center,
}

const OP: &str = "RandomAffine";

impl RandomAffine {
    /// Translates by up to a share `across` of the width and `down` of the height, in both
    /// directions.
    ///
    /// # Errors
    ///
    /// If a share is not in `0.0..=1.0`.
    pub fn translate(mut self, across: f64, down: f64) -> Result<Self, ParamError> {
        match [across, down].into_iter().find(|share| !(0.0..=1.0).contains(share)) {
            Some(share) => Err(ParamError::new(OP, "translate", share, "0.0..=1.0")),
            None => {
                self.translate = Some([across, down]);
                Ok(self)
            }
        }
    }

    /// Shears along x by degrees in `x`; one number `s` is the range `-s..=s`.
    ///
    /// # Errors
    ///
    /// If a number is negative, or the range is empty or not finite.
    pub fn shear(mut self, x: impl Into<NumberOrRange>) -> Result<Self, ParamError> {
        self.shear = [Some(around_zero(OP, "shear", x.into())?), None];
        Ok(self)
    }

    /// Shears along both axes: torchvision's shear of four numbers.
    ///
    /// # Errors
    ///
    /// If a number is negative, or a range is empty or not finite.
    pub fn shear_both(
        mut self,
        x: impl Into<NumberOrRange>,
        y: impl Into<NumberOrRange>,
    ) -> Result<Self, ParamError> {
        self.shear =
            [Some(around_zero(OP, "shear", x.into())?), Some(around_zero(OP, "shear", y.into())?)];
        Ok(self)
    }

    /// Rotates, scales and shears about `(x, y)`, in pixels from the top left corner.
    ///
    /// # Errors
    ///
    /// If one is not in `-65535.0..=65535.0`.
    pub fn center(mut self, x: f64, y: f64) -> Result<Self, ParamError> {
        self.center = Center::at(OP, x, y)?;
        Ok(self)
    }

    /// Draws the inverse matrix of one sample. Returns it and the shear along y.
    fn matrix(&self, rng: &mut Rng, size: Size) -> ([f64; 6], f64) {
        let mut uniform = |(low, high)| f64::from(rng.uniform(low, high));
        let angle = uniform(self.degrees);
        let translate = match self.translate {
            Some([across, down]) => {
                [(across, size.width), (down, size.height)].map(|(share, side)| {
                    let most = (share * f64::from(side)) as f32;
                    uniform((-most, most)).round_ties_even()
                })
            }
            None => [0.0; 2],
        };
        let scale = self.scale.map_or(1.0, &mut uniform);
        let shear = self.shear.map(|range| range.map_or(0.0, &mut uniform));
        let center = self.center.relative_to_middle(size);
        (affine_matrix(angle, translate, scale, shear, center), shear[1])
    }
}

#[class(Geometry)]
impl Op for RandomAffine {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        check_fill(self.name(), input, self.fill)?;
        on_numbers(self.name(), input, |image| image)
    }

    fn does_nothing(&self, _: &Type) -> bool {
        self.degrees == (0.0, 0.0)
            && self.translate.is_none_or(|shares| shares == [0.0; 2])
            && self.scale.is_none_or(|scale| scale == (1.0, 1.0))
            && self.shear.iter().flatten().all(|shear| *shear == (0.0, 0.0))
    }
}

impl GeometryOp for RandomAffine {
    fn draw(&self, rng: &mut Rng, size: Size, out: &mut Vec<GeometryStep>) {
        let (matrix, shear_y) = self.matrix(rng, size);
        let map = Map::affine(matrix, size, size).with_shear_y(shear_y);
        out.push(warping::warp(map, size, self.interpolation, self.fill));
    }

    fn row_producer(&self) -> Option<RowProducer> {
        Some(RowProducer::Called)
    }

    fn blends(&self) -> bool {
        self.interpolation.blends()
    }
}

fn affine(args: &OpArgs<'_>) -> Result<RandomAffine, SpecError> {
    let mut op = RandomAffine::new(args.number_or_range("degrees")?)?
        .interpolation(args.warp_interpolation("interpolation")?)
        .fill(args.color("fill")?);
    if let Some((across, down)) = args.if_given("translate", OpArgs::pair)? {
        op = op.translate(across, down)?;
    }
    if let Some(scale) = args.if_given("scale", OpArgs::range)? {
        op = op.scale(scale)?;
    }
    if let Some((x, y)) = args.if_given("center", OpArgs::pair)? {
        op = op.center(x, y)?;
    }
    if args.given("shear") { sheared(args, op) } else { Ok(op) }
}

/// Shears along x by one number or two, along both axes by four.
fn sheared(args: &OpArgs<'_>, op: RandomAffine) -> Result<RandomAffine, SpecError> {
    let sheared: Result<_, ParamError> = match args.array("shear") {
        Ok([x_low, x_high, y_low, y_high]) => op.shear_both(x_low..=x_high, y_low..=y_high),
        Err(_) => op.shear(args.number_or_range("shear")?),
    };
    Ok(sheared?)
}

fn random(rng: &mut Rng, before: &ImageType) -> Result<BuiltOp, ParamError> {
    let mut op = RandomAffine::new(-30.0..=60.0)?.interpolation(recipe::warp_interpolation(rng));
    op = op.fill(warping::random_fill(rng));
    if rng.coin(0.5) {
        op = op.translate(recipe::number(rng, 0.0, 1.0), recipe::number(rng, 0.0, 1.0))?;
    }
    if rng.coin(0.5) {
        op = op.scale(0.4..=1.7)?;
    }
    op = match rng.below(3) {
        0 => op,
        1 => op.shear(-20.0..=90.0)?,
        _ => op.shear_both(-9.0..=9.0, -50.0..=20.0)?,
    };
    if rng.coin(0.2) {
        op = op.center(f64::from(before.width.max), 0.0)?;
    }
    Ok(built(op))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::SampleKey;

    fn matrices(op: &RandomAffine, size: Size) -> Vec<[f64; 6]> {
        let mut rng = SampleKey::new(3, 1, 4).op(0);
        (0..500).map(|_| op.matrix(&mut rng, size).0).collect()
    }

    #[test]
    fn shifts_are_whole_pixels_within_their_share_of_each_side() {
        let op = RandomAffine::new(0.0..=0.0).unwrap().translate(0.1, 0.5).unwrap();
        let all = matrices(&op, Size::new(20, 100));
        let [across, down] = [2, 5].map(|at| all.iter().map(move |m| m[at]).collect::<Vec<_>>());
        let most = |v: &[f64]| v.iter().fold(0f64, |most, shift| most.max(shift.abs()));
        assert!(across.iter().chain(&down).all(|shift| shift.fract() == 0.0));
        assert_eq!((most(&across), most(&down)), (10.0, 10.0));
    }

    #[test]
    fn ranges_of_one_value_make_one_matrix() {
        let op = RandomAffine::new(12.0..=12.0).unwrap().scale(0.8..=0.8).unwrap();
        let op = op.shear_both(5.0..=5.0, -9.0..=-9.0).unwrap().center(4.0, 20.0).unwrap();
        let scale = f64::from(0.8f32);
        let expected = affine_matrix(12.0, [0.0; 2], scale, [5.0, -9.0], [4.0 - 11.0, 20.0 - 8.5]);
        assert!(matrices(&op, Size::new(17, 22)).iter().all(|matrix| *matrix == expected));
        let along_x = op.shear(5.0..=5.0).unwrap();
        assert_ne!(matrices(&along_x, Size::new(17, 22))[0], expected);
    }

    #[test]
    fn a_neutral_transform_does_nothing() {
        let still = RandomAffine::new(0.0..=0.0).unwrap().scale(1.0..=1.0).unwrap();
        let input = Type::Image(crate::op::ImageType::decoded(
            crate::op::Dim::fixed(4),
            crate::op::Dim::fixed(4),
        ));
        assert!(still.does_nothing(&input));
        assert!(!still.shear(0.0..=1.0).unwrap().does_nothing(&input));
        assert!(!still.translate(0.0, 0.1).unwrap().does_nothing(&input));
    }

    #[test]
    fn bad_parameters_are_refused() {
        let op = RandomAffine::new(-5.0..=5.0).unwrap();
        assert!(RandomAffine::new(5.0..=-5.0).is_err());
        assert!(op.translate(0.1, 1.1).is_err());
        assert!(op.scale(0.0..=1.0).is_err());
        assert!(op.shear(f64::NAN..=1.0).is_err());
        assert!(op.shear_both(0.0..=1.0, 1.0..=0.0).is_err());
        assert!(op.center(0.0, f64::INFINITY).is_err());
    }
}
