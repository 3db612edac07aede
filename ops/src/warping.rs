//! The options that rotation, affine transforms and perspective share: how an image is
//! interpolated, and the fill colour of the area outside it.

use crate::author::GeometryStep;
use crate::author::Rng;
use crate::registry::recipe;
use crate::rows::{Map, RowFilter, Warp, WarpInterpolation};
use crate::{ParamError, Size};

/// Returns the step that warps by `map`, which must be built for an output of `size`. A `fill` of `None` is black
/// without blending at the edge: torchvision's `fill=None`.
pub(crate) const fn warp(
    map: Map,
    size: Size,
    interpolation: WarpInterpolation,
    fill: Option<[u8; 3]>,
) -> GeometryStep {
    GeometryStep::Rows(RowFilter::Warp(Warp { size, map, interpolation, fill }))
}

/// The point that an image is rotated about, `[x, y]` in pixels from its top left corner; `None` is
/// the middle.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Center(Option<[f64; 2]>);

impl Center {
    /// Checks a point. If it were farther away than the longest image reaches, f32 could not
    /// distinguish pixels.
    pub(crate) fn at(op: &'static str, x: f64, y: f64) -> Result<Self, ParamError> {
        match [x, y].into_iter().find(|v| !(-65_535.0..=65_535.0).contains(v)) {
            Some(v) => Err(ParamError::new(op, "center", v, "-65535..=65535")),
            None => Ok(Self(Some([x, y]))),
        }
    }

    /// Returns true if the point is the middle of every image.
    pub(crate) const fn is_middle(self) -> bool {
        self.0.is_none()
    }

    /// Returns the point in pixels from the middle of an image of `size`.
    pub(crate) fn relative_to_middle(self, size: Size) -> [f64; 2] {
        match self.0 {
            None => [0.0; 2],
            Some([x, y]) => [x - f64::from(size.width) / 2.0, y - f64::from(size.height) / 2.0],
        }
    }
}

/// Draws a colour outside the image, or none.
pub(crate) fn random_fill(rng: &mut Rng) -> Option<[u8; 3]> {
    let fill = recipe::color(rng);
    rng.coin(0.6).then_some(fill)
}
