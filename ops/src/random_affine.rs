//! Random affine transform: a rotation, a translation, a scale and a shear in one.

use crate::author::{GeometryOp, GeometryStep, Op, OpClass, Rng, RowProducer, Type};
use crate::default_floats::nearest_f32;
use crate::error::{finite_range, positive_range};
use crate::op::{ImageType, check_fill, on_numbers};
use crate::registry::{
    BuiltOp, FILL, GEOMETRY, Golden, OpArgs, OpInfo, ParamKind, Recipe, Recipes, SpecError, built,
    optional, recipe,
};
use crate::rows::{Map, WarpInterpolation, affine_matrix};
use crate::warping::{self, Center, Warping};
use crate::{NumberOrRange, ParamError, Size, TypeError};
use std::ops::RangeInclusive;

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
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RandomAffine {
    degrees: (f32, f32),
    /// Shares of the width and the height.
    translate: Option<[f64; 2]>,
    scale: Option<(f32, f32)>,
    /// Degrees along x and along y.
    shear: [Option<(f32, f32)>; 2],
    warping: Warping,
    center: Center,
}

const OP: &str = "RandomAffine";

fn degrees(param: &'static str, range: NumberOrRange) -> Result<(f32, f32), ParamError> {
    let (low, high) = range.around_zero();
    let (low, high) = finite_range(OP, param, low, high)?;
    Ok((nearest_f32(low), nearest_f32(high)))
}

impl RandomAffine {
    /// A rotation by an angle in `degrees`, clockwise, about the middle; the area outside the input
    /// is black. One number `d` is the range `-d..=d`, and 0.0 no rotation.
    ///
    /// # Errors
    ///
    /// If a number is negative, or the range is empty or not finite.
    pub fn new(degrees: impl Into<NumberOrRange>) -> Result<Self, ParamError> {
        Ok(Self {
            degrees: self::degrees("degrees", degrees.into())?,
            translate: None,
            scale: None,
            shear: [None; 2],
            warping: Warping::new(WarpInterpolation::Nearest),
            center: Center::default(),
        })
    }

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

    /// Scales by a factor in `range`.
    ///
    /// # Errors
    ///
    /// If the range is empty, not finite or not above 0.
    pub fn scale(mut self, range: RangeInclusive<f64>) -> Result<Self, ParamError> {
        let (low, high) = positive_range(OP, "scale", *range.start(), *range.end())?;
        self.scale = Some((nearest_f32(low), nearest_f32(high)));
        Ok(self)
    }

    /// Shears along x by degrees in `x`; one number `s` is the range `-s..=s`.
    ///
    /// # Errors
    ///
    /// If a number is negative, or the range is empty or not finite.
    pub fn shear(mut self, x: impl Into<NumberOrRange>) -> Result<Self, ParamError> {
        self.shear = [Some(degrees("shear", x.into())?), None];
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
        self.shear = [Some(degrees("shear", x.into())?), Some(degrees("shear", y.into())?)];
        Ok(self)
    }

    /// Sets how the image is interpolated: nearest by default.
    #[must_use]
    pub const fn interpolation(mut self, interpolation: WarpInterpolation) -> Self {
        self.warping.interpolation = interpolation;
        self
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

    /// Sets the fill colour of the area outside the input; `None` is black without blending at the
    /// edge, as in the automatic policies.
    #[must_use]
    pub fn fill(mut self, fill: impl Into<Option<[u8; 3]>>) -> Self {
        self.warping.fill = fill.into();
        self
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

impl Op for RandomAffine {
    fn name(&self) -> &'static str {
        OP
    }

    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        check_fill(self.name(), input, self.warping.fill)?;
        on_numbers(self.name(), input, |image| image)
    }

    fn class(&self) -> OpClass<'_> {
        OpClass::Geometry(self)
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
        out.push(self.warping.motion(map, size));
    }

    fn row_producer(&self) -> Option<RowProducer> {
        Some(RowProducer::Called)
    }

    fn blends(&self) -> bool {
        self.warping.interpolation.blends()
    }
}

impl RandomAffine {
    pub(crate) const ENTRY: OpInfo = OpInfo {
        name: "RandomAffine",
        class: GEOMETRY,
        summary: "turns, shifts, scales and shears an image at random",
        params: &[
            warping::DEGREES,
            optional("translate", ParamKind::Pair, "largest shift, as shares of width and height"),
            optional("scale", ParamKind::Range, "range of the factor"),
            optional("shear", ParamKind::Shear, "degrees; a number s is -s..s along x"),
            warping::interpolation("nearest"),
            FILL,
            warping::CENTER,
        ],
        aliases: &[],
        build: |args| Ok(built(affine(args)?)),
        recipes: Recipes::Drawn(&[Recipe { name: "RandomAffine", draw: random }]),
        golden: Golden::Tested,
    };
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
