//! Letterbox: scales an image to fit into a size, and adds borders.

use crate::author::{
    ChoiceBranch, ChoiceOp, GeometryOp, GeometryStep, OpClass, Rng, RowProducer, Type,
};
use crate::container;
use crate::error::output_size;
use crate::op::{Dim, ImageType, Op, class, on_image, on_numbers};
use crate::registry::{BuiltOp, built, recipe};
use crate::{Interpolation, ParamError, Size, TypeError, geometry_step, ops};

/// Scales an image, with its aspect ratio, to fit into a size, and adds borders on two sides.
///
#[cfg_attr(doc, doc = include_str!("../pictures/Letterbox.md"))]
///
/// Ultralytics' `LetterBox(new_shape, scaleup, center, padding_value, interpolation)`:
///
/// ```text
/// r    = min(out height / height, out width / width)       at most 1 without scale_up
/// size = round_half_even(height * r) x round_half_even(width * r)
/// top  = floor((out height - size height) / 2)             or 0 without center; left likewise
/// ```
///
/// Numbers are computed in f64. No side is shorter than 1 pixel. Ultralytics moves boxes by
/// `(out height - size height) / 2`, which is half a pixel more than the image where that number is odd; here boxes
/// move as the image does.
///
/// | | |
/// |--------|-----------------------------------------------------------------------------|
/// | input  | image of u8, u16, i16, f16, bf16 or f32                                     |
/// | output | as the input, of the given size                                             |
/// | random | nothing                                                                     |
/// | cost   | the resize, and a mask                                                      |
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![Letterbox::new(640)?.scale_up(false)];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Debug)]
#[op(GEOMETRY, "scales an image to fit into a size, and adds borders", constructor = new, draw = random, golden = "a Resize and a Pad, which have goldens, of sizes that are tested")]
#[param(size: Size, size)]
#[param(scale_up: bool, "whether smaller images are enlarged", default = true)]
#[param(center: bool, "whether the image is in the middle, or top left", default = true)]
#[param(fill: [u8; 3], "colour of the borders", default = 114)]
#[param(interpolation: Interpolation, "how pixels are weighed", default = Interpolation::BilinearAliased)]
pub struct Letterbox {
    fit: Fit,
    border: Border,
    /// The two steps, for the one outcome.
    list: [ChoiceBranch; 1],
}

const OP: &str = "Letterbox";

impl Letterbox {
    /// Fits images into `size` (one number of pixels for a square, or height and width), in the middle of gray of the
    /// level 114; smaller images are enlarged.
    ///
    /// # Errors
    ///
    /// If a side is not in `1..=65535`.
    pub fn new(size: impl Into<Size>) -> Result<Self, ParamError> {
        let size = output_size(OP, size.into())?;
        let fit = Fit { size, scale_up: true, interpolation: Interpolation::BilinearAliased };
        Ok(Self::of(fit, Border { size, center: true, fill: [114; 3] }))
    }

    fn of(fit: Fit, border: Border) -> Self {
        Self { fit, border, list: [ChoiceBranch { ops: ops![fit, border], when: 1 }] }
    }

    /// Sets whether smaller images are enlarged. Default true.
    #[must_use]
    pub fn scale_up(self, scale_up: bool) -> Self {
        Self::of(Fit { scale_up, ..self.fit }, self.border)
    }

    /// Sets whether the image is in the middle, or in the top left corner. Default true.
    #[must_use]
    pub fn center(self, center: bool) -> Self {
        Self::of(self.fit, Border { center, ..self.border })
    }

    /// Sets the colour of the borders. Default gray of the level 114.
    #[must_use]
    pub fn fill(self, fill: [u8; 3]) -> Self {
        Self::of(self.fit, Border { fill, ..self.border })
    }

    /// Sets how pixels are weighted. Default [`BilinearAliased`](Interpolation::BilinearAliased): OpenCV's
    /// `INTER_LINEAR`, as in Ultralytics.
    #[must_use]
    pub fn interpolation(self, interpolation: Interpolation) -> Self {
        Self::of(Fit { interpolation, ..self.fit }, self.border)
    }
}

#[class(Choice)]
impl Op for Letterbox {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        container::output(self.name(), self, input)
    }
}

impl ChoiceOp for Letterbox {
    fn outcomes(&self) -> usize {
        1
    }

    fn branches(&self) -> &[ChoiceBranch] {
        &self.list
    }

    fn draw(&self, _: &mut Rng) -> usize {
        0
    }
}

/// Scales an image to fit into a size.
#[derive(Clone, Copy, Debug)]
struct Fit {
    size: Size,
    scale_up: bool,
    interpolation: Interpolation,
}

impl Fit {
    fn scaled(&self, size: Size) -> Size {
        let ratio = |to: u32, from: u32| f64::from(to) / f64::from(from);
        let fits = ratio(self.size.height, size.height).min(ratio(self.size.width, size.width));
        let fits = if self.scale_up { fits } else { fits.min(1.0) };
        let side = |side: u32, most: u32| {
            ((f64::from(side) * fits).round_ties_even() as u32).clamp(1, most)
        };
        Size::new(side(size.height, self.size.height), side(size.width, self.size.width))
    }
}

impl Op for Fit {
    fn name(&self) -> &'static str {
        OP
    }

    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_numbers(self.name(), input, |image| match image.size() {
            Some(size) => image.with_size(self.scaled(size)),
            None => ImageType {
                height: Dim { min: 1, max: self.size.height },
                width: Dim { min: 1, max: self.size.width },
                ..image
            },
        })
    }

    fn class(&self) -> OpClass<'_> {
        OpClass::Geometry(self)
    }
}

impl GeometryOp for Fit {
    fn draw(&self, _: &mut Rng, size: Size, out: &mut Vec<GeometryStep>) {
        let scaled = self.scaled(size);
        if scaled != size {
            let interpolation = self.interpolation;
            out.push(GeometryStep::Resize { size: scaled, interpolation });
        }
    }

    fn row_producer(&self) -> Option<RowProducer> {
        Some(geometry_step::resize_producer(self.interpolation))
    }

    fn blends(&self) -> bool {
        self.interpolation.blends()
    }
}

/// Adds borders up to a size.
#[derive(Clone, Copy, Debug)]
struct Border {
    size: Size,
    center: bool,
    fill: [u8; 3],
}

impl Op for Border {
    fn name(&self) -> &'static str {
        OP
    }

    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_image(self.name(), input, |image| image.with_size(self.size))
    }

    fn class(&self) -> OpClass<'_> {
        OpClass::Geometry(self)
    }
}

impl GeometryOp for Border {
    fn draw(&self, _: &mut Rng, size: Size, out: &mut Vec<GeometryStep>) {
        let offset = |to: u32, from: u32| match self.center {
            true => -((to.saturating_sub(from) / 2) as i32),
            false => 0,
        };
        let top = offset(self.size.height, size.height);
        let left = offset(self.size.width, size.width);
        out.push(GeometryStep::CropPad { top, left, size: self.size, fill: self.fill });
    }

    fn fill_color(&self, input: &ImageType) -> Option<[u8; 3]> {
        (input.size() != Some(self.size)).then_some(self.fill)
    }
}

fn random(rng: &mut Rng, _: &ImageType) -> Result<BuiltOp, ParamError> {
    let op = Letterbox::new(recipe::size(rng))?.scale_up(rng.coin(0.6)).center(rng.coin(0.7));
    Ok(built(op.fill(recipe::color(rng)).interpolation(recipe::interpolation(rng))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::SampleKey;

    /// The scaled size, the top and the left border.
    fn boxed(op: &Letterbox, size: Size) -> (Size, [i32; 2]) {
        let rng = &mut SampleKey::new(0, 0, 0).op(0);
        let mut steps = vec![];
        op.fit.draw(rng, size, &mut steps);
        let scaled = steps.first().map_or(size, |step| geometry_step::output(step, size));
        steps.clear();
        op.border.draw(rng, scaled, &mut steps);
        let [GeometryStep::CropPad { top, left, .. }] = steps[..] else { panic!("{steps:?}") };
        (scaled, [-top, -left])
    }

    #[test]
    fn sizes_and_borders_are_ultralytics() {
        let op = Letterbox::new(640).unwrap();
        assert_eq!(boxed(&op, Size::new(480, 640)), (Size::new(480, 640), [80, 0]));
        assert_eq!(boxed(&op, Size::new(1080, 810)), (Size::new(640, 480), [0, 80]));
        // 427 rows leave 213, an odd number: 106 above, 107 below.
        assert_eq!(boxed(&op, Size::new(333, 499)), (Size::new(427, 640), [106, 0]));
        assert_eq!(boxed(&op.clone().center(false), Size::new(333, 499)).1, [0, 0]);
        let small = Size::new(100, 200);
        assert_eq!(boxed(&op.scale_up(false), small), (small, [270, 220]));
    }

    #[test]
    fn a_thin_image_keeps_a_pixel() {
        let op = Letterbox::new((10, 10)).unwrap();
        assert_eq!(boxed(&op, Size::new(1, 1000)), (Size::new(1, 10), [4, 0]));
        assert!(Letterbox::new(0).is_err());
    }

    #[test]
    fn the_output_has_the_given_size() {
        let input = Type::Image(ImageType::decoded(Dim { min: 1, max: 9 }, Dim::fixed(7)));
        let output = Letterbox::new((30, 40)).unwrap().output(&input).unwrap();
        assert_eq!(output.to_string(), "a u8 image [30, 40, 3]");
    }
}
