//! Pad if needed: a border around images that are smaller than a size.

use crate::author::{GeometryOp, GeometryStep, ObjectMotion, Rng, RowProducer, Type};
use crate::op::{Dim, ImageType, Op, class};
use crate::pad::{Border, random_mode};
use crate::registry::{Given, OpArgs, ParamKind, SpecError};
use crate::{PaddingMode, Sides, Size, TypeError};

/// Where an image is placed in a larger one.
///
/// ```
/// # use fuseloop_ops::*;
/// let below = PadIfNeeded::new(256)?.position(PadPosition::BottomLeft);
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PadPosition {
    /// In the middle; of an odd number of rows or columns, the last ones get one more.
    #[default]
    Center,
    /// At the top left, so that the border is on the right and below.
    TopLeft,
    /// At the top right.
    TopRight,
    /// At the bottom left.
    BottomLeft,
    /// At the bottom right.
    BottomRight,
    /// Anywhere, drawn for each sample.
    Random,
}

/// Adds a border to images whose height or width is below a size, and leaves other sides as they are.
///
#[cfg_attr(doc, doc = include_str!("../pictures/PadIfNeeded.md"))]
///
/// ```text
/// height = max(in height, size height)        width alike
/// top    = floor((height - in height) / 2)    of a centred image; see [`PadPosition`] for others
/// ```
///
/// | | |
/// |--------|--------------------------------------------------------------------------|
/// | input  | image of any element type for a constant border, else u8                 |
/// | output | as the input, at least of the given size                                 |
/// | random | the position, if it is [`PadPosition::Random`]                           |
/// | cost   | that of [`Pad`](crate::Pad), where images are smaller                    |
///
/// Albumentations' `PadIfNeeded` without its divisors, to the bit. [`Pad`](crate::Pad) shows the contents of a border.
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![PadIfNeeded::new((480, 640))?.padding_mode(PaddingMode::Reflect), CenterCrop::new((480, 640))?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq, Eq)]
#[op(
    GEOMETRY,
    "frames images that are smaller than a size",
    golden = "a Pad, which has goldens, of sides that are tested"
)]
pub struct PadIfNeeded {
    /// Pads to `size` (one number of pixels for a square, or height and width); the border is black.
    #[param(size)]
    size: Size,
    /// Sets where the image is placed. Default the middle.
    #[param("where the image is placed", default = PadPosition::Center, draw = recipe::pick(rng, POSITIONS).1)]
    position: PadPosition,
    /// Sets the colour of a constant border. Default black.
    #[param(fill)]
    fill: [u8; 3],
    /// Sets the contents of the border. Default [`PaddingMode::Constant`].
    #[param("what a frame shows: `fill`, the pixels at the edge, or the mirrored image",
        default = PaddingMode::Constant, draw = random_mode(rng))]
    padding_mode: PaddingMode,
}

impl PadIfNeeded {
    fn output_size(&self, size: Size) -> Size {
        Size::new(size.height.max(self.size.height), size.width.max(self.size.width))
    }

    fn border(&self, sides: Sides) -> Border {
        Border { sides, mode: self.padding_mode, fill: self.fill }
    }

    /// Returns how many rows and columns come before the image, of those that are added.
    fn before(&self, rng: &mut Rng, [rows, columns]: [u32; 2]) -> [u32; 2] {
        match self.position {
            PadPosition::Center => [rows / 2, columns / 2],
            PadPosition::TopLeft => [0, 0],
            PadPosition::TopRight => [0, columns],
            PadPosition::BottomLeft => [rows, 0],
            PadPosition::BottomRight => [rows, columns],
            PadPosition::Random => [rng.below(rows + 1), rng.below(columns + 1)],
        }
    }
}

#[class(Geometry)]
impl Op for PadIfNeeded {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        self.border(Sides::default()).output(self.name(), input, |image| {
            let side =
                |dim: Dim, least: u32| Dim { min: dim.min.max(least), max: dim.max.max(least) };
            ImageType {
                height: side(image.height, self.size.height),
                width: side(image.width, self.size.width),
                ..image
            }
        })
    }
}

impl GeometryOp for PadIfNeeded {
    fn draw(&self, rng: &mut Rng, size: Size, out: &mut Vec<GeometryStep>) {
        let to = self.output_size(size);
        let added = [to.height - size.height, to.width - size.width];
        let [top, left] = self.before(rng, added);
        let sides = Sides { left, top, right: added[1] - left, bottom: added[0] - top };
        self.border(sides).window((-(top as i32), -(left as i32)), to, out);
    }

    fn row_producer(&self) -> Option<RowProducer> {
        self.border(Sides::default()).row_producer()
    }

    fn object_motion(&self) -> ObjectMotion {
        self.border(Sides::default()).object_motion()
    }

    fn blends(&self) -> bool {
        false
    }

    fn fill_color(&self, input: &ImageType) -> Option<[u8; 3]> {
        let smaller = input.height.min < self.size.height || input.width.min < self.size.width;
        self.border(Sides::default()).color().filter(|_| smaller)
    }
}

/// Every position, by the name a user writes.
const POSITIONS: [(&str, PadPosition); 6] = [
    ("center", PadPosition::Center),
    ("top_left", PadPosition::TopLeft),
    ("top_right", PadPosition::TopRight),
    ("bottom_left", PadPosition::BottomLeft),
    ("bottom_right", PadPosition::BottomRight),
    ("random", PadPosition::Random),
];

impl PadPosition {
    /// Returns the name that a user writes.
    pub(crate) const fn word(self) -> &'static str {
        POSITIONS[self as usize].0
    }
}

impl Given for PadPosition {
    const KIND: ParamKind = ParamKind::Word(&[
        POSITIONS[0].0,
        POSITIONS[1].0,
        POSITIONS[2].0,
        POSITIONS[3].0,
        POSITIONS[4].0,
        POSITIONS[5].0,
    ]);

    fn read(args: &OpArgs<'_>, name: &str) -> Result<Self, SpecError> {
        args.choice(name, &POSITIONS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::SampleKey;

    fn corner(op: &PadIfNeeded, height: u32, width: u32, sample: u64) -> [i32; 2] {
        let mut out = vec![];
        op.draw(&mut SampleKey::new(0, 0, sample).op(0), Size::new(height, width), &mut out);
        let Some(GeometryStep::CropPad { top, left, size, .. }) = out.last() else { panic!() };
        assert_eq!(*size, Size::new(height.max(10), width.max(20)));
        [*top, *left]
    }

    #[test]
    fn smaller_sides_get_a_border_where_the_position_says() {
        let op = PadIfNeeded::new((10, 20)).unwrap();
        assert_eq!(corner(&op, 7, 30, 0), [-1, 0]);
        assert_eq!(corner(&op.position(PadPosition::TopLeft), 7, 15, 0), [0, 0]);
        assert_eq!(corner(&op.position(PadPosition::TopRight), 7, 15, 0), [0, -5]);
        assert_eq!(corner(&op.position(PadPosition::BottomLeft), 7, 15, 0), [-3, 0]);
        assert_eq!(corner(&op.position(PadPosition::BottomRight), 7, 15, 0), [-3, -5]);
        let random = op.position(PadPosition::Random);
        let mut seen: Vec<_> = (0..200).map(|sample| corner(&random, 7, 15, sample)).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 4 * 6);
    }

    #[test]
    fn only_smaller_images_have_a_border() {
        let op = PadIfNeeded::new(10).unwrap().fill([9; 3]);
        let fills = |height, width| op.fill_color(&Size::new(height, width).into());
        assert_eq!([fills(10, 12), fills(9, 12), fills(12, 9)], [None, Some([9; 3]), Some([9; 3])]);
        let image = Type::Image(ImageType::decoded(Dim { min: 3, max: 30 }, Dim::fixed(4)));
        let Type::Image(out) = op.output(&image).unwrap() else { panic!() };
        assert_eq!((out.height, out.width), (Dim { min: 10, max: 30 }, Dim::fixed(10)));
    }
}
