//! Random crop: a window of fixed size at a random position.

use crate::author::{GeometryOp, GeometryStep, ObjectMotion, Rng, RowProducer, Type};
use crate::error::output_size;
use crate::op::{ImageType, Op, class};
use crate::pad::{self, Border};
use crate::registry::{Recipe, built, recipe};
use crate::{PaddingMode, ParamError, Sides, Size, TypeError};

/// Cuts a window of fixed size at a random position.
///
#[cfg_attr(doc, doc = include_str!("../pictures/RandomCrop.md"))]
///
/// torchvision's `RandomCrop(size, padding, pad_if_needed, fill, padding_mode)`: the image is padded
/// first; then `top` is drawn uniformly from the positions where the window fits, then `left`. If the
/// padded image is still too small,
///
/// ```text
/// by default          the border grows just enough, equally on both sides (torchvision: an error)
/// pad_if_needed       the missing pixels are added to the border on both sides, as in torchvision:
///                     the image may be anywhere in the window
/// ```
///
/// | | |
/// |--------|----------------------------------------------------------------------|
/// | input  | image of any element type; u8 for a border of the image's own pixels |
/// | output | as the input, of the given size                                      |
/// | random | the row, then the column, of the window                              |
/// | cost   | nothing: other pixels are read; for a border see [`Pad`](crate::Pad) |
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![RandomCrop::new(32)?.padding(4)?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq, Eq)]
#[op(GEOMETRY, "cuts a window of fixed size at a random position", constructor = new, recipes = RECIPES)]
#[param(size: Size, size)]
#[param(padding: Sides, "pixels first put on each side", default = 0)]
#[param(pad_if_needed: bool, "whether an image that is too small may lie anywhere in the window", flag, default = false)]
#[param(fill: [u8; 3], fill)]
#[param(padding_mode: PaddingMode, "what a frame shows: `fill`, the pixels at the edge, or the mirrored image",
    default = PaddingMode::Constant)]
pub struct RandomCrop {
    size: Size,
    border: Border,
    pad_if_needed: bool,
}

impl RandomCrop {
    /// A window of `size` (one number of pixels for a square, or height and width), inside the image.
    ///
    /// # Errors
    ///
    /// If a side is not in `1..=65535`.
    pub fn new(size: impl Into<Size>) -> Result<Self, ParamError> {
        let size = output_size("RandomCrop", size.into())?;
        Ok(Self { size, border: Border::default(), pad_if_needed: false })
    }

    /// Pads the image first, by `padding` pixels: see [`Sides`] for the accepted forms. 4 black pixels
    /// are usual for CIFAR.
    ///
    /// # Errors
    ///
    /// If a side is above 65535.
    pub fn padding(mut self, padding: impl Into<Sides>) -> Result<Self, ParamError> {
        self.border.sides = padding.into().checked("RandomCrop")?;
        Ok(self)
    }

    /// Sets the colour of a constant border. Default black.
    #[must_use]
    pub const fn fill(mut self, fill: [u8; 3]) -> Self {
        self.border.fill = fill;
        self
    }

    /// Sets the contents of the border. Default [`PaddingMode::Constant`].
    #[must_use]
    pub const fn padding_mode(mut self, mode: PaddingMode) -> Self {
        self.border.mode = mode;
        self
    }

    /// Pads an image that is too small as torchvision does: so much that the image may be anywhere
    /// in the window.
    #[must_use]
    pub const fn pad_if_needed(mut self) -> Self {
        self.pad_if_needed = true;
        self
    }

    /// Draws the window along one axis of an image that gets a border of `before` and `behind`
    /// pixels.
    fn axis(&self, rng: &mut Rng, input: u32, output: u32, before: u32, behind: u32) -> Axis {
        let missing = output.saturating_sub(input + before + behind);
        let (more_before, more_behind) = match self.pad_if_needed {
            true => (missing, missing),
            false => (missing / 2, missing - missing / 2),
        };
        let (before, behind) = (before + more_before, behind + more_behind);
        let first = rng.below(input + before + behind - output + 1);
        Axis { start: first as i32 - before as i32, before, behind }
    }
}

/// A window along one axis.
struct Axis {
    /// The first pixel of the window, counted from the first pixel of the unpadded image.
    start: i32,
    /// Pixels of the border before the image.
    before: u32,
    /// Pixels of the border behind the image.
    behind: u32,
}

#[class(Geometry)]
impl Op for RandomCrop {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        self.border.output(self.name(), input, |image| image.with_size(self.size))
    }
}

impl GeometryOp for RandomCrop {
    fn draw(&self, rng: &mut Rng, size: Size, out: &mut Vec<GeometryStep>) {
        let Sides { left, top, right, bottom } = self.border.sides;
        let rows = self.axis(rng, size.height, self.size.height, top, bottom);
        let columns = self.axis(rng, size.width, self.size.width, left, right);
        let sides = Sides {
            left: columns.before,
            top: rows.before,
            right: columns.behind,
            bottom: rows.behind,
        };
        let border = Border { sides, ..self.border };
        border.window((rows.start, columns.start), self.size, out);
    }

    fn row_producer(&self) -> Option<RowProducer> {
        self.border.row_producer()
    }

    fn object_motion(&self) -> ObjectMotion {
        self.border.object_motion()
    }

    fn blends(&self) -> bool {
        false
    }

    fn fill_color(&self, input: &ImageType) -> Option<[u8; 3]> {
        let smaller = input.height.min < self.size.height || input.width.min < self.size.width;
        self.border.color().filter(|_| !self.border.sides.is_none() || smaller)
    }
}

const RECIPES: [Recipe; 2] = [
    Recipe {
        name: "RandomCrop",
        draw: |rng, _| {
            let op = RandomCrop::new(recipe::size(rng))?;
            let padding = if rng.coin(0.5) { rng.below(6) } else { 0 };
            Ok(built(op.padding(padding)?.fill(recipe::color(rng))))
        },
    },
    Recipe {
        name: "RandomCrop(framed)",
        draw: |rng, _| {
            let op = RandomCrop::new(recipe::size(rng))?.padding(pad::random_sides(rng))?;
            let op = op.fill(recipe::color(rng)).padding_mode(pad::random_mode(rng));
            Ok(built(if rng.coin(0.5) { op.pad_if_needed() } else { op }))
        },
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::author::Dim;
    use crate::rng::SampleKey;
    use crate::rows::RowFilter;

    fn drawn(crop: &RandomCrop, rng: &mut Rng, size: Size) -> Vec<GeometryStep> {
        let mut out = vec![];
        crop.draw(rng, size, &mut out);
        out
    }

    /// Counts how often each first row and each first column was drawn, starting at `-least`.
    fn corners(crop: &RandomCrop, size: Size, least: i32) -> ([u32; 12], [u32; 12]) {
        let mut rng = SampleKey::new(1, 1, 1).op(0);
        let (mut tops, mut lefts) = ([0; 12], [0; 12]);
        for _ in 0..2000 {
            let GeometryStep::CropPad { top, left, .. } = drawn(crop, &mut rng, size)[0] else {
                panic!("a crop is a frame")
            };
            tops[(top + least) as usize] += 1;
            lefts[(left + least) as usize] += 1;
        }
        (tops, lefts)
    }

    #[test]
    fn every_place_is_reached_and_none_beyond() {
        let crop = RandomCrop::new((32, 30)).unwrap().padding(4).unwrap();
        let (tops, lefts) = corners(&crop, Size::new(32, 32), 4);
        assert!(tops[..9].iter().chain(&lefts[..11]).all(|&n| n > 100), "{tops:?} {lefts:?}");
    }

    #[test]
    fn a_small_image_is_centred_or_lies_anywhere_as_asked() {
        let crop = RandomCrop::new(10).unwrap();
        let small = Size::new(7, 10);
        let (tops, lefts) = corners(&crop, small, 3);
        assert_eq!((tops[2], lefts[3]), (2000, 2000), "one row above, two below");
        let (tops, lefts) = corners(&crop.pad_if_needed(), small, 3);
        assert!(tops[..4].iter().all(|&n| n > 400) && lefts[3] == 2000, "{tops:?} {lefts:?}");
    }

    #[test]
    fn a_mirrored_frame_is_made_before_the_window_and_only_where_there_is_one() {
        let crop = RandomCrop::new(8).unwrap().padding_mode(PaddingMode::Reflect);
        let mut rng = SampleKey::new(1, 1, 1).op(0);
        let motions = drawn(&crop, &mut rng, Size::new(5, 8));
        assert!(
            matches!(motions[0], GeometryStep::Rows(RowFilter::Pad(p)) if (p.top, p.bottom) == (1, 2))
        );
        assert!(matches!(motions[1], GeometryStep::CropPad { top: 0, left: 0, .. }));
        assert_eq!(drawn(&crop, &mut rng, Size::new(9, 9)).len(), 1);
    }

    #[test]
    fn an_image_that_may_be_smaller_than_the_crop_needs_a_fill_colour() {
        let crop = RandomCrop::new((8, 10)).unwrap();
        let needs = |height, width| crop.fill_color(&ImageType::decoded(height, width)).is_some();
        let up_to_20 = |min| Dim { min, max: 20 };
        assert!(!needs(Dim::fixed(8), Dim::fixed(10)) && !needs(up_to_20(8), up_to_20(10)));
        assert!(
            needs(up_to_20(7), up_to_20(10))
                && needs(up_to_20(8), up_to_20(9))
                && needs(up_to_20(1), up_to_20(1))
        );
        let padded = crop.padding(1).unwrap();
        assert!(padded.fill_color(&ImageType::decoded(up_to_20(8), up_to_20(10))).is_some());
    }
}
