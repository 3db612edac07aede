//! Pad: adds a border around an image.

use crate::author::{GeometryOp, GeometryStep, ObjectMotion, Rng, RowProducer, Type};
use crate::op::{Dim, ImageType, Op, class, on_image, on_numbers};
use crate::registry::Given;
use crate::registry::{OpArgs, ParamKind, SpecError, recipe};
use crate::rows::{PadMode, Padding, RowFilter};
use crate::{ParamError, Size, TypeError};

/// The numbers of pixels on each side of an image.
///
/// Converts from the forms that torchvision accepts: one number for all sides,
/// `[horizontal, vertical]`, or `[left, top, right, bottom]`.
///
/// ```
/// # use fuseloop_ops::*;
/// assert_eq!(Sides::from(4), Sides { left: 4, top: 4, right: 4, bottom: 4 });
/// let below = Pad::new(Sides { left: 0, top: 0, right: 0, bottom: 16 })?;
/// # Ok::<(), fuseloop_ops::ParamError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sides {
    /// Columns to the left.
    pub left: u32,
    /// Rows above.
    pub top: u32,
    /// Columns to the right.
    pub right: u32,
    /// Rows below.
    pub bottom: u32,
}

impl From<u32> for Sides {
    fn from(all: u32) -> Self {
        Self::from([all; 4])
    }
}

impl From<[u32; 2]> for Sides {
    fn from([across, down]: [u32; 2]) -> Self {
        Self::from([across, down, across, down])
    }
}

impl From<[u32; 4]> for Sides {
    fn from([left, top, right, bottom]: [u32; 4]) -> Self {
        Self { left, top, right, bottom }
    }
}

impl Sides {
    /// Checks that every side has at most 65535 pixels.
    pub(crate) fn checked(self, op: &'static str) -> Result<Self, ParamError> {
        let sides = [self.left, self.top, self.right, self.bottom];
        match sides.into_iter().find(|&side| side > 65_535) {
            Some(side) => Err(ParamError::new(op, "padding", side, "0..=65535")),
            None => Ok(self),
        }
    }

    /// Returns true if there is no border.
    pub(crate) fn is_none(self) -> bool {
        self == Self::default()
    }
}

/// The contents of a border.
///
/// ```
/// # use fuseloop_ops::*;
/// let mirrored = Pad::new(4)?.padding_mode(PaddingMode::Reflect);
/// # Ok::<(), fuseloop_ops::ParamError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PaddingMode {
    /// The fill colour.
    #[default]
    Constant,
    /// The nearest edge pixel.
    Edge,
    /// The mirrored image, without repeating the edge pixels.
    Reflect,
    /// The mirrored image, with the edge pixels repeated.
    Symmetric,
}

/// A border, and its contents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Border {
    pub(crate) sides: Sides,
    pub(crate) mode: PaddingMode,
    pub(crate) fill: [u8; 3],
}

impl Border {
    /// Returns the colour of a constant border.
    pub(crate) fn color(self) -> Option<[u8; 3]> {
        (self.mode == PaddingMode::Constant).then_some(self.fill)
    }

    /// Returns the row filter's mode, if the border is filled from the image's own pixels.
    const fn own(self) -> Option<PadMode> {
        match self.mode {
            PaddingMode::Constant => None,
            PaddingMode::Edge => Some(PadMode::Edge),
            PaddingMode::Reflect => Some(PadMode::Reflect),
            PaddingMode::Symmetric => Some(PadMode::Symmetric),
        }
    }

    /// Returns how the border's rows are produced; `None` if only the addresses that pixels are
    /// read from change.
    pub(crate) fn row_producer(self) -> Option<RowProducer> {
        self.own().map(|_| RowProducer::Called)
    }

    /// Returns what the border does to objects: one of the image's own pixels shows them more than once.
    pub(crate) fn object_motion(self) -> ObjectMotion {
        if self.own().is_some() { ObjectMotion::Copied } else { ObjectMotion::Follow }
    }

    /// Returns the output type of an op with this kind of border, or an error if `input` does not
    /// fit.
    pub(crate) fn output(
        self,
        op: &'static str,
        input: &Type,
        change: impl FnOnce(ImageType) -> ImageType,
    ) -> Result<Type, TypeError> {
        match self.mode {
            PaddingMode::Constant => on_image(op, input, change),
            _ => on_numbers(op, input, change),
        }
    }

    /// Appends the steps that add the border and cut the window of `size` that begins at `(top, left)`.
    /// The corner is counted from the image's own corner, and the window must be inside the border.
    pub(crate) fn window(self, (top, left): (i32, i32), size: Size, out: &mut Vec<GeometryStep>) {
        let Sides { left: before, top: above, right, bottom } = self.sides;
        let framed = match self.own() {
            Some(mode) if !self.sides.is_none() => {
                let padding = Padding { top: above, left: before, bottom, right, mode };
                out.push(GeometryStep::Rows(RowFilter::Pad(padding)));
                (top + above as i32, left + before as i32)
            }
            _ => (top, left),
        };
        let fill = self.color().unwrap_or_default();
        out.push(GeometryStep::CropPad { top: framed.0, left: framed.1, size, fill });
    }
}

/// Adds a border around an image.
///
#[cfg_attr(doc, doc = include_str!("../pictures/Pad.md"))]
///
/// torchvision's `Pad(padding, fill, padding_mode)`. `i` counts pixels from the image's first one, and
/// `n` is the number of pixels along the axis:
///
/// | mode      | `1 2 3 4` padded by 2 | the pixel at `i` outside    |
/// |-----------|-----------------------|-----------------------------|
/// | constant  | `9 9 1 2 3 4 9 9`     | the fill colour             |
/// | edge      | `1 1 1 2 3 4 4 4`     | `i` clamped to `0..n`       |
/// | reflect   | `3 2 1 2 3 4 3 2`     | `-i`, likewise at the end   |
/// | symmetric | `2 1 1 2 3 4 4 3`     | `-i - 1`, likewise at the end |
///
/// ```text
/// out[y, x] = in[y - top, x - left]    inside the image
/// out[y, x] = by the mode              outside
/// ```
///
/// torchvision refuses a reflection longer than the image; this op repeats the reflection.
///
/// | | |
/// |--------|--------------------------------------------------------------------------|
/// | input  | image of any element type for a constant border, else u8                 |
/// | output | as the input, larger by the border                                       |
/// | random | nothing                                                                  |
/// | cost   | constant: a copy of the image if nothing changed it before, else a mask; the others: a copy of each row |
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![Pad::new(4)?.padding_mode(PaddingMode::Reflect)];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq, Eq)]
#[op(GEOMETRY, "frames an image", constructor = new)]
#[param(padding: Sides, "pixels on each side", example = 4, draw = random_sides(rng))]
#[param(fill: [u8; 3], fill)]
#[param(padding_mode: PaddingMode, "what a frame shows: `fill`, the pixels at the edge, or the mirrored image",
    default = PaddingMode::Constant, draw = random_mode(rng))]
pub struct Pad {
    border: Border,
}

impl Pad {
    /// A black border of `padding` pixels: see [`Sides`] for the accepted forms.
    ///
    /// # Errors
    ///
    /// If a side is above 65535.
    pub fn new(padding: impl Into<Sides>) -> Result<Self, ParamError> {
        let sides = padding.into().checked("Pad")?;
        Ok(Self { border: Border { sides, ..Border::default() } })
    }

    /// Sets the colour of a constant border. Default black.
    #[must_use]
    pub fn fill(mut self, fill: [u8; 3]) -> Self {
        self.border.fill = fill;
        self
    }

    /// Sets the contents of the border. Default [`PaddingMode::Constant`].
    #[must_use]
    pub fn padding_mode(mut self, mode: PaddingMode) -> Self {
        self.border.mode = mode;
        self
    }

    fn size(&self, size: Size) -> Size {
        let Sides { left, top, right, bottom } = self.border.sides;
        let height = size.height.saturating_add(top + bottom);
        Size::new(height, size.width.saturating_add(left + right))
    }
}

#[class(Geometry)]
impl Op for Pad {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        self.border.output(self.name(), input, |image| {
            let min = self.size(Size::new(image.height.min, image.width.min));
            let max = self.size(Size::new(image.height.max, image.width.max));
            let height = Dim { min: min.height, max: max.height };
            ImageType { height, width: Dim { min: min.width, max: max.width }, ..image }
        })
    }

    fn does_nothing(&self, _: &Type) -> bool {
        self.border.sides.is_none()
    }
}

impl GeometryOp for Pad {
    fn draw(&self, _: &mut Rng, size: Size, out: &mut Vec<GeometryStep>) {
        let Sides { top, left, .. } = self.border.sides;
        self.border.window((-(top as i32), -(left as i32)), self.size(size), out);
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

    fn fill_color(&self, _: &ImageType) -> Option<[u8; 3]> {
        self.border.color()
    }
}

/// Every mode, by the name a user writes.
const MODES: [(&str, PaddingMode); 4] = [
    ("constant", PaddingMode::Constant),
    ("edge", PaddingMode::Edge),
    ("reflect", PaddingMode::Reflect),
    ("symmetric", PaddingMode::Symmetric),
];

impl PaddingMode {
    /// Returns the name that a user writes.
    pub(crate) const fn word(self) -> &'static str {
        MODES[self as usize].0
    }
}

impl Given for PaddingMode {
    const KIND: ParamKind = ParamKind::Word(&[MODES[0].0, MODES[1].0, MODES[2].0, MODES[3].0]);

    fn read(args: &OpArgs<'_>, name: &str) -> Result<Self, SpecError> {
        args.choice(name, &MODES)
    }
}

/// Draws the contents of a border.
pub(crate) fn random_mode(rng: &mut Rng) -> PaddingMode {
    recipe::pick(rng, MODES).1
}

/// Draws the widths of a border.
pub(crate) fn random_sides(rng: &mut Rng) -> Sides {
    match rng.below(3) {
        0 => Sides::from(rng.below(6)),
        1 => Sides::from([0; 2].map(|_| rng.below(9))),
        _ => Sides::from([0; 4].map(|_| rng.below(20))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::SampleKey;

    fn motions(pad: &Pad) -> Vec<GeometryStep> {
        let mut out = vec![];
        pad.draw(&mut SampleKey::new(0, 0, 0).op(0), Size::new(3, 5), &mut out);
        out
    }

    #[test]
    fn sides_are_given_as_torchvision_takes_them() {
        assert_eq!(Sides::from(4), Sides::from([4, 4, 4, 4]));
        assert_eq!(Sides::from([3, 2]), Sides { left: 3, top: 2, right: 3, bottom: 2 });
        assert_eq!(Sides::from([1, 2, 3, 4]), Sides { left: 1, top: 2, right: 3, bottom: 4 });
    }

    #[test]
    fn a_constant_frame_is_an_address_and_the_others_are_rows() {
        let pad = Pad::new([1, 2, 3, 4]).unwrap();
        let size = Size::new(9, 9);
        let constant = pad.fill([9; 3]);
        assert_eq!(
            motions(&constant),
            [GeometryStep::CropPad { top: -2, left: -1, size, fill: [9; 3] }]
        );
        assert_eq!(constant.row_producer(), None);
        let edge = pad.padding_mode(PaddingMode::Edge);
        assert!(matches!(motions(&edge)[0], GeometryStep::Rows(RowFilter::Pad(_))));
        assert_eq!(
            motions(&edge)[1],
            GeometryStep::CropPad { top: 0, left: 0, size, fill: [0; 3] }
        );
    }

    #[test]
    fn too_wide_a_frame_is_refused() {
        let error = Pad::new([0, 0, 65_536, 0]).unwrap_err();
        assert_eq!(error.to_string(), "Pad: padding is 65536, expected 0..=65535");
    }
}
