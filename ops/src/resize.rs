//! Resize: scale an image to a size.
//!
//! | | |
//! |--------|--------------------------------------------------------------------------|
//! | input  | u8 image                                                                 |
//! | output | u8 image; `height x width`, or the short side given and the long side `floor(short * long / short side of the input)` |
//! | random | nothing                                                                  |
//! | cost   | a few operations for each source pixel; only what later crops keep is computed |
//!
//! Sizes as torchvision's `Resize`; an image that has the size already is left as it is.

use crate::RowMaker;
use crate::error::side;
use crate::op::on_u8_image;
use crate::{
    Class, Dim, GeometryOp, ImageType, Interpolation, Motion, Op, ParamError, Rng, Size, Type,
    TypeError,
};

/// Scales an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resize {
    to: Target,
    interpolation: Interpolation,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Exact(Size),
    ShortSide(u32),
}

impl Resize {
    /// To exactly `height x width`, whatever the aspect ratio.
    ///
    /// # Errors
    ///
    /// If a side is not in `1..=65535`.
    pub fn new(height: u32, width: u32) -> Result<Self, ParamError> {
        const OP: &str = "Resize";
        let size = Size::new(side(OP, "height", height)?, side(OP, "width", width)?);
        Ok(Self { to: Target::Exact(size), interpolation: Interpolation::default() })
    }

    /// Until the short side is `short` pixels, keeping the aspect ratio.
    ///
    /// # Errors
    ///
    /// If `short` is not in `1..=65535`.
    pub fn short_side(short: u32) -> Result<Self, ParamError> {
        let short = side("Resize", "short_side", short)?;
        Ok(Self { to: Target::ShortSide(short), interpolation: Interpolation::default() })
    }

    /// How pixels are weighed.
    #[must_use]
    pub const fn interpolation(mut self, interpolation: Interpolation) -> Self {
        self.interpolation = interpolation;
        self
    }

    /// The output's size for an input of `size`.
    fn size(&self, size: Size) -> Size {
        let short = match self.to {
            Target::Exact(size) => return size,
            Target::ShortSide(short) => short,
        };
        let scaled = |long: u32, of: u32| {
            (f64::from(short) * f64::from(long) / f64::from(of)).min(LONGEST) as u32
        };
        if size.width <= size.height {
            Size::new(scaled(size.height, size.width), short)
        } else {
            Size::new(short, scaled(size.width, size.height))
        }
    }
}

/// No side grows beyond this, however thin the image: what a `.beton` can hold.
const LONGEST: f64 = 65_535.0;

impl Op for Resize {
    fn name(&self) -> &'static str {
        "Resize"
    }

    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_u8_image(self.name(), input, |image| match (self.to, image.size()) {
            (Target::Exact(size), _) => image.with_size(size),
            (Target::ShortSide(_), Some(size)) => image.with_size(self.size(size)),
            (Target::ShortSide(short), None) => {
                let side = Dim { min: short, max: LONGEST as u32 };
                ImageType { height: side, width: side, ..image }
            }
        })
    }

    fn class(&self) -> Class<'_> {
        Class::Geometry(self)
    }
}

impl GeometryOp for Resize {
    fn draw(&self, _: &mut Rng, size: Size, out: &mut Vec<Motion>) {
        out.push(Motion::Resize { size: self.size(size), interpolation: self.interpolation });
    }

    fn makes_rows(&self) -> Option<RowMaker> {
        Some(self.interpolation.maker())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_torchvisions() {
        let of = |h, w, short| Resize::short_side(short).unwrap().size(Size::new(h, w));
        assert_eq!(of(375, 500, 256), Size::new(256, 341));
        assert_eq!(of(501, 333, 224), Size::new(337, 224));
        assert_eq!(of(224, 224, 224), Size::new(224, 224));
        assert_eq!(of(1, 65_535, 300), Size::new(300, 65_535), "bounded");
    }
}
