//! Resize: scales an image to a size.

use crate::author::{GeometryOp, GeometryStep, Rng, RowProducer, Type};
use crate::error::{LONGEST, output_size, side};
use crate::op::{Dim, ImageType, Op, class, on_numbers};
use crate::registry::ANTIALIAS;
use crate::registry::{OpArgs, ParamKind, Recipe, SpecError, built, recipe};
use crate::{Interpolation, ParamError, Size, TypeError, geometry_step};

/// Scales an image.
///
#[cfg_attr(doc, doc = include_str!("../pictures/Resize.md"))]
///
/// torchvision's `Resize(size, interpolation, max_size, antialias)`. `S` and `L` are the input's
/// short and long side; products and quotients are computed in f64:
///
/// ```text
/// height and width     as given, whatever the aspect ratio
/// short side s         short = s, long = floor(s * L / S)
///   at most m          and if long > m: short = floor(m * short / long), long = m
/// long side m          short = floor(m * S / L), long = m
/// ```
///
/// No side is shorter than 1 pixel, or longer than 65535 even for a very thin image. An image that
/// already has the size is left unchanged.
///
/// | | |
/// |--------|--------------------------------------------------------------------------|
/// | input  | image of u8, u16, i16, f16, bf16 or f32                                                                 |
/// | output | u8 image of that size                                                    |
/// | random | nothing                                                                  |
/// | cost   | a few operations for each source pixel; only pixels that later crops keep are computed |
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![Resize::new(256)?, CenterCrop::new(224)?]; // the short side, as in torchvision
/// let exact = ops![Resize::new((224, 320))?]; // height and width
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq, Eq)]
#[op(GEOMETRY, "scales an image", constructor = new, build = |args| Ok(built(resize(args)?)), recipes = RECIPES)]
#[param(size: Size, "one number: of the side named", example = 256)]
#[param(interpolation: Interpolation, interpolation)]
#[param(max_size: u32, "most pixels of the long side, for a short one", optional)]
#[param(antialias: bool, doc = ANTIALIAS.doc, optional)]
#[param(side: u32, "which one number is for; long is torchvision's size = None with a max_size",
    kind = ParamKind::Word(&["short", "long"]), default = "short")]
pub struct Resize {
    to: Target,
    interpolation: Interpolation,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    /// This size.
    Exact(Size),
    /// The short side, and the limit of the long side.
    ShortSide(u32, Option<u32>),
    /// The long side.
    LongSide(u32),
}

const OP: &str = "Resize";

/// The size of a [`Resize`]: as in torchvision, one number is the short side, and two are height and
/// width.
///
/// ```
/// # use fuseloop_ops::*;
/// assert_eq!(ResizeSize::from(256), ResizeSize::ShortSide(256));
/// assert_eq!(ResizeSize::from((224, 320)), ResizeSize::Exact(Size::new(224, 320)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResizeSize {
    /// The length of the short side; the aspect ratio stays.
    ShortSide(u32),
    /// Both sides.
    Exact(Size),
}

impl From<u32> for ResizeSize {
    fn from(short: u32) -> Self {
        Self::ShortSide(short)
    }
}

impl From<(u32, u32)> for ResizeSize {
    fn from(size: (u32, u32)) -> Self {
        Self::Exact(size.into())
    }
}

impl From<Size> for ResizeSize {
    fn from(size: Size) -> Self {
        Self::Exact(size)
    }
}

impl Resize {
    /// Scales to `size`: one number is the length of the short side and keeps the aspect ratio, two are
    /// exactly the height and the width.
    ///
    /// ```
    /// # use fuseloop_ops::Resize;
    /// let short_side = Resize::new(256)?;
    /// let exact = Resize::new((256, 256))?;
    /// # Ok::<(), fuseloop_ops::ParamError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If a side is not in `1..=65535`.
    pub fn new(size: impl Into<ResizeSize>) -> Result<Self, ParamError> {
        let to = match size.into() {
            ResizeSize::Exact(size) => Target::Exact(output_size(OP, size)?),
            ResizeSize::ShortSide(short) => Target::ShortSide(side(OP, "size", short)?, None),
        };
        Ok(Self { to, interpolation: Interpolation::default() })
    }

    /// Scales so that the long side is `long` pixels, keeping the aspect ratio: torchvision's
    /// `Resize(None, max_size=long)`.
    ///
    /// # Errors
    ///
    /// If `long` is not in `1..=65535`.
    pub fn long_side(long: u32) -> Result<Self, ParamError> {
        let long = side(OP, "size", long)?;
        Ok(Self { to: Target::LongSide(long), interpolation: Interpolation::default() })
    }

    /// Limits the long side of a resize by the short side to `most` pixels: the
    /// output is smaller where the long side would be longer.
    ///
    /// # Errors
    ///
    /// If `most` is not above the short side or is above 65535, or if this is not a resize by the
    /// short side.
    pub fn max_size(mut self, most: u32) -> Result<Self, ParamError> {
        match self.to {
            Target::ShortSide(short, _) if short < most && most <= LONGEST => {
                self.to = Target::ShortSide(short, Some(most));
                Ok(self)
            }
            _ => {
                let expected = "more than a short side that is given, at most 65535";
                Err(ParamError::new(OP, "max_size", most, expected))
            }
        }
    }

    /// Sets how pixels are weighted.
    #[must_use]
    pub const fn interpolation(mut self, interpolation: Interpolation) -> Self {
        self.interpolation = interpolation;
        self
    }

    /// Returns the size of an image of `size` whose short side is scaled to `short`.
    pub(crate) fn short_side_of(size: Size, short: u32) -> Size {
        let to = Target::ShortSide(short, None);
        Self { to, interpolation: Interpolation::default() }.size(size)
    }

    /// Returns the output's size for an input of `size`.
    fn size(&self, size: Size) -> Size {
        let (s, l) = (size.height.min(size.width), size.height.max(size.width));
        let (short, long) = match self.to {
            Target::Exact(size) => return size,
            Target::ShortSide(short, most) => match (scaled(short, l, s), most) {
                (long, Some(most)) if long > most => (scaled(most, short, long), most),
                (long, _) => (short, long.min(LONGEST)),
            },
            Target::LongSide(long) => (scaled(long, s, l), long),
        };
        if size.width <= size.height { Size::new(long, short) } else { Size::new(short, long) }
    }
}

/// Returns `floor(side * by / of)`, at least 1.
fn scaled(side: u32, by: u32, of: u32) -> u32 {
    ((f64::from(side) * f64::from(by) / f64::from(of)) as u32).max(1)
}

#[class(Geometry)]
impl Op for Resize {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_numbers(self.name(), input, |image| {
            let side = match (self.to, image.size()) {
                (Target::Exact(size), _) => return image.with_size(size),
                (_, Some(size)) => return image.with_size(self.size(size)),
                (Target::ShortSide(short, None), None) => Dim { min: short, max: LONGEST },
                (Target::ShortSide(_, Some(most)) | Target::LongSide(most), None) => {
                    Dim { min: 1, max: most }
                }
            };
            ImageType { height: side, width: side, ..image }
        })
    }
}

impl GeometryOp for Resize {
    fn draw(&self, _: &mut Rng, size: Size, out: &mut Vec<GeometryStep>) {
        out.push(GeometryStep::Resize { size: self.size(size), interpolation: self.interpolation });
    }

    fn row_producer(&self) -> Option<RowProducer> {
        Some(geometry_step::resize_producer(self.interpolation))
    }

    fn blends(&self) -> bool {
        self.interpolation.blends()
    }
}

/// The side that a single size sets.
#[derive(Clone, Copy, PartialEq)]
enum Side {
    Short,
    Long,
}

/// Builds a resize: two numbers are a size, one number is the length of a side.
fn resize(args: &OpArgs<'_>) -> Result<Resize, SpecError> {
    let size = args.size("size")?;
    let side = args.choice("side", &[("short", Side::Short), ("long", Side::Long)])?;
    let op = match (args.is_list("size")?, side) {
        (true, Side::Long) => {
            let error = ParamError::new(OP, "side", "long", "a size of one number with it");
            return Err(error.into());
        }
        (true, Side::Short) => Resize::new(size)?,
        (false, Side::Short) => Resize::new(size.height)?,
        (false, Side::Long) => Resize::long_side(size.height)?,
    };
    let op = op.interpolation(args.interpolation("interpolation")?);
    Ok(match args.if_given("max_size", OpArgs::u32)? {
        Some(most) => op.max_size(most)?,
        None => op,
    })
}

const RECIPES: [Recipe; 2] = [
    Recipe {
        name: "Resize",
        draw: |rng, _| {
            let (height, width) = recipe::size(rng);
            let op = match rng.coin(0.3) {
                true => Resize::new(height)?,
                false => Resize::new((height, width))?,
            };
            Ok(built(op.interpolation(recipe::interpolation(rng))))
        },
    },
    Recipe {
        name: "Resize(bounded)",
        draw: |rng, _| {
            let (height, width) = recipe::size(rng);
            Ok(built(match rng.coin(0.5) {
                true => Resize::long_side(height)?,
                false => Resize::new(height)?.max_size(height + width)?,
            }))
        },
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_torchvisions() {
        let of = |h, w, short| Resize::new(short).unwrap().size(Size::new(h, w));
        assert_eq!(of(375, 500, 256), Size::new(256, 341));
        assert_eq!(of(501, 333, 224), Size::new(337, 224));
        assert_eq!(of(224, 224, 224), Size::new(224, 224));
        assert_eq!(of(1, 65_535, 300), Size::new(300, 65_535), "bounded");
        let at_most = Resize::new(224).unwrap().max_size(300).unwrap();
        assert_eq!(at_most.size(Size::new(100, 1000)), Size::new(30, 300));
        assert_eq!(at_most.size(Size::new(300, 300)), Size::new(224, 224));
        let long = Resize::long_side(200).unwrap();
        assert_eq!(long.size(Size::new(100, 333)), Size::new(60, 200));
        assert_eq!(long.size(Size::new(1000, 1)), Size::new(200, 1), "never empty");
    }

    #[test]
    fn a_bound_is_of_a_short_side_and_above_it() {
        let short = Resize::new(224).unwrap();
        assert!(short.max_size(224).is_err() && short.max_size(65_536).is_err());
        assert!(Resize::new((3, 4)).unwrap().max_size(9).is_err());
        assert!(Resize::long_side(0).is_err());
    }

    #[test]
    fn the_type_says_what_sides_may_be() {
        let any = Dim { min: 10, max: 90 };
        let input = Type::Image(ImageType::decoded(any, any));
        let side = |op: Resize| match op.output(&input) {
            Ok(Type::Image(image)) => image.height,
            other => panic!("{other:?}"),
        };
        let short = Resize::new(20).unwrap();
        assert_eq!(side(short), Dim { min: 20, max: 65_535 });
        assert_eq!(side(short.max_size(30).unwrap()), Dim { min: 1, max: 30 });
        assert_eq!(side(Resize::long_side(40).unwrap()), Dim { min: 1, max: 40 });
    }
}
