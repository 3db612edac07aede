//! The actions that move pixels: warps, whole shifts, and the two filters of a neighbourhood.
//!
//! A whole shift is addresses and a mask; the others are row filters ([`rows`](crate::rows)).

use super::Argument;
use crate::op::{on_image, on_u8_image};
use crate::rows::{Map, RowFilter, Warp, WarpInterpolation, affine_matrix, rotation_matrix};
use crate::{Class, GeometryOp, ImageType, Motion, Op, Rng, RowMaker, Size, Type, TypeError};
use std::sync::Arc;

/// How warps look: what they read between pixels, and what comes in from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// What is read between pixels.
    pub sampling: Sampling,
    /// The colour outside; black, not blended, without one.
    pub fill: Option<[u8; 3]>,
}

/// How a warp reads between pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampling {
    /// Always so.
    Fixed(WarpInterpolation),
    /// Bilinear or bicubic, by a coin for each warp: timm's default.
    BilinearOrBicubic,
}

/// torchvision's: nearest, no fill.
impl Default for Look {
    fn default() -> Self {
        Self { sampling: Sampling::Fixed(WarpInterpolation::Nearest), fill: None }
    }
}

impl Sampling {
    fn draw(self, rng: &mut Rng) -> WarpInterpolation {
        match self {
            Self::Fixed(interpolation) => interpolation,
            Self::BilinearOrBicubic if rng.coin(0.5) => WarpInterpolation::Bilinear,
            Self::BilinearOrBicubic => WarpInterpolation::Bicubic,
        }
    }
}

/// Moves by whole pixels, to the right or down.
#[derive(Clone, Debug)]
pub(super) struct Shift {
    pub(super) name: &'static str,
    pub(super) is_vertical: bool,
    pub(super) argument: Arc<dyn Argument>,
    pub(super) look: Look,
}

impl Op for Shift {
    fn name(&self) -> &'static str {
        self.name
    }

    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_image(self.name, input, |image| image)
    }

    fn class(&self) -> Class<'_> {
        Class::Geometry(self)
    }
}

impl GeometryOp for Shift {
    fn draw(&self, rng: &mut Rng, size: Size, out: &mut Vec<Motion>) {
        // Farther than the picture is long, nothing of it is left.
        let farthest = f64::from(if self.is_vertical { size.height } else { size.width });
        let back = -(self.argument.draw(rng, size).clamp(-farthest, farthest) as i32);
        let (top, left) = if self.is_vertical { (back, 0) } else { (0, back) };
        // Also a shift of no pixels: it says that the fill's mask has nothing to paint.
        out.push(Motion::Frame { top, left, size, fill: self.look.fill.unwrap_or_default() });
    }

    fn fills(&self, _: &ImageType) -> Option<[u8; 3]> {
        Some(self.look.fill.unwrap_or_default())
    }
}

/// Makes each row out of several.
#[derive(Clone, Debug)]
pub(super) struct Filter {
    pub(super) name: &'static str,
    pub(super) kind: FilterKind,
    pub(super) argument: Arc<dyn Argument>,
    pub(super) look: Look,
}

/// What a [`Filter`] does: see [`Effect`](super::Effect).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FilterKind {
    ShearX,
    ShearY,
    MoveX,
    MoveY,
    Rotate,
    Sharpness,
    Blur,
}

impl Op for Filter {
    fn name(&self) -> &'static str {
        self.name
    }

    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_u8_image(self.name, input, |image| image)
    }

    fn class(&self) -> Class<'_> {
        Class::Geometry(self)
    }
}

impl GeometryOp for Filter {
    fn draw(&self, rng: &mut Rng, size: Size, out: &mut Vec<Motion>) {
        let argument = self.argument.draw(rng, size);
        let neutral = if self.kind == FilterKind::Sharpness { 1.0 } else { 0.0 };
        if argument == neutral {
            return;
        }
        out.push(Motion::Rows(match self.kind {
            FilterKind::Sharpness => RowFilter::Sharpen { factor: argument },
            FilterKind::Blur => blur(argument),
            kind => RowFilter::Warp(Warp {
                size,
                map: Map::affine(matrix(kind, argument, size), size, size),
                interpolation: self.look.sampling.draw(rng),
                fill: self.look.fill,
            }),
        }));
    }

    fn makes_rows(&self) -> Option<RowMaker> {
        Some(RowMaker::Called)
    }
}

/// The inverse matrix of a warp.
fn matrix(kind: FilterKind, argument: f64, size: Size) -> [f64; 6] {
    let affine = |translate, shear, center| affine_matrix(0.0, translate, 1.0, shear, center);
    let corner = [size.width, size.height].map(|side| -f64::from(side) * 0.5);
    let slant = argument.atan().to_degrees();
    match kind {
        FilterKind::ShearX => affine([0.0; 2], [slant, 0.0], corner),
        FilterKind::ShearY => affine([0.0; 2], [0.0, slant], corner),
        FilterKind::MoveX => affine([argument, 0.0], [0.0; 2], [0.0; 2]),
        FilterKind::MoveY => affine([0.0, argument], [0.0; 2], [0.0; 2]),
        _ => rotation_matrix(argument, [0.0; 2]),
    }
}

/// A Gaussian blur, its kernel cut at three deviations.
fn blur(deviation: f64) -> RowFilter {
    let side = 2 * (3.0 * deviation).ceil() as u32 + 1;
    RowFilter::GaussianBlur { kernel: [side; 2], sigma: [deviation as f32; 2] }
}
