//! The actions that move pixels: warps, shifts by whole pixels, and two filters, sharpness and
//! blur.
//!
//! A shift by whole pixels changes addresses and adds a mask; the others are row filters
//! ([`rows`](crate::rows)).

use super::Argument;
use crate::author::{GeometryOp, GeometryStep, ObjectMotion, Op, OpClass, Rng, RowProducer, Type};
use crate::op::{ImageType, check_fill, on_image, on_numbers};
use crate::rows::{Map, RowFilter, Warp, WarpInterpolation, affine_matrix, rotation_matrix};
use crate::{Size, TypeError};
use std::sync::Arc;

/// The options of warps: the interpolation, and the fill colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WarpOptions {
    /// How a warp interpolates between pixels.
    pub sampling: Sampling,
    /// The colour outside the image; `None` is black without blending at the edge.
    pub fill: Option<[u8; 3]>,
}

/// How a warp interpolates between pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampling {
    /// Always this interpolation.
    Fixed(WarpInterpolation),
    /// Bilinear or bicubic, by a coin for each warp: timm's default.
    BilinearOrBicubic,
}

/// torchvision's defaults: nearest, no fill.
impl Default for WarpOptions {
    fn default() -> Self {
        Self { sampling: Sampling::Fixed(WarpInterpolation::Nearest), fill: None }
    }
}

impl Sampling {
    fn blends(self) -> bool {
        !matches!(self, Self::Fixed(WarpInterpolation::Nearest))
    }

    fn draw(self, rng: &mut Rng) -> WarpInterpolation {
        match self {
            Self::Fixed(interpolation) => interpolation,
            Self::BilinearOrBicubic if rng.coin(0.5) => WarpInterpolation::Bilinear,
            Self::BilinearOrBicubic => WarpInterpolation::Bicubic,
        }
    }
}

/// A shift by whole pixels, to the right or down.
#[derive(Clone, Debug)]
pub(super) struct Shift {
    pub(super) name: &'static str,
    pub(super) is_vertical: bool,
    pub(super) argument: Arc<dyn Argument>,
    pub(super) look: WarpOptions,
}

impl Op for Shift {
    fn name(&self) -> &'static str {
        self.name
    }

    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_image(self.name, input, |image| image)
    }

    fn class(&self) -> OpClass<'_> {
        OpClass::Geometry(self)
    }
}

impl GeometryOp for Shift {
    fn draw(&self, rng: &mut Rng, size: Size, out: &mut Vec<GeometryStep>) {
        // A shift by the whole side already moves the entire image out, so larger shifts are
        // clamped.
        let farthest = f64::from(if self.is_vertical { size.height } else { size.width });
        let back = -(self.argument.draw(rng, size).clamp(-farthest, farthest) as i32);
        let (top, left) = if self.is_vertical { (back, 0) } else { (0, back) };
        // A shift by 0 pixels is pushed too: the step records that the fill's mask has nothing to
        // paint.
        out.push(GeometryStep::CropPad {
            top,
            left,
            size,
            fill: self.look.fill.unwrap_or_default(),
        });
    }

    fn fill_color(&self, _: &ImageType) -> Option<[u8; 3]> {
        Some(self.look.fill.unwrap_or_default())
    }
}

/// A row filter: computes each output row from several input rows.
#[derive(Clone, Debug)]
pub(super) struct Filter {
    pub(super) name: &'static str,
    pub(super) kind: FilterKind,
    pub(super) argument: Arc<dyn Argument>,
    pub(super) look: WarpOptions,
}

/// The kind of a [`Filter`]: see [`Effect`](super::Effect).
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
        check_fill(self.name, input, self.look.fill)?;
        on_numbers(self.name, input, |image| image)
    }

    fn class(&self) -> OpClass<'_> {
        OpClass::Geometry(self)
    }
}

impl GeometryOp for Filter {
    fn draw(&self, rng: &mut Rng, size: Size, out: &mut Vec<GeometryStep>) {
        let argument = self.argument.draw(rng, size);
        let neutral = if self.kind == FilterKind::Sharpness { 1.0 } else { 0.0 };
        if argument == neutral {
            return;
        }
        out.push(GeometryStep::Rows(match self.kind {
            FilterKind::Sharpness => RowFilter::Sharpen { factor: argument },
            FilterKind::Blur => blur(argument),
            kind => RowFilter::Warp(Warp {
                size,
                map: map(kind, argument, size),
                interpolation: self.look.sampling.draw(rng),
                fill: self.look.fill,
            }),
        }));
    }

    fn row_producer(&self) -> Option<RowProducer> {
        Some(RowProducer::Called)
    }

    fn blends(&self) -> bool {
        let is_warp = !matches!(self.kind, FilterKind::Sharpness | FilterKind::Blur);
        !is_warp || self.look.sampling.blends()
    }

    fn object_motion(&self) -> ObjectMotion {
        match self.kind {
            FilterKind::Sharpness | FilterKind::Blur => ObjectMotion::Stay,
            _ => ObjectMotion::Follow,
        }
    }
}

/// Returns the map of a warp.
fn map(kind: FilterKind, argument: f64, size: Size) -> Map {
    let affine = |translate, shear: [f64; 2], center| {
        let matrix = affine_matrix(0.0, translate, 1.0, shear, center);
        Map::affine(matrix, size, size).with_shear_y(shear[1])
    };
    let corner = [size.width, size.height].map(|side| -f64::from(side) * 0.5);
    let slant = libm::atan(argument).to_degrees();
    match kind {
        FilterKind::ShearX => affine([0.0; 2], [slant, 0.0], corner),
        FilterKind::ShearY => affine([0.0; 2], [0.0, slant], corner),
        FilterKind::MoveX => affine([argument, 0.0], [0.0; 2], [0.0; 2]),
        FilterKind::MoveY => affine([0.0, argument], [0.0; 2], [0.0; 2]),
        _ => Map::affine(rotation_matrix(argument, [0.0; 2]), size, size),
    }
}

/// Returns a Gaussian blur whose kernel is cut off at three deviations.
fn blur(deviation: f64) -> RowFilter {
    let side = 2 * (3.0 * deviation).ceil() as u32 + 1;
    RowFilter::GaussianBlur { kernel: [side; 2], sigma: [deviation as f32; 2] }
}
