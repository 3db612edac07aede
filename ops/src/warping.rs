//! What rotation, affine transforms and perspective share: how a picture is read between its
//! pixels, and the colour of what comes in from outside.

use crate::rows::{Map, RowFilter, Warp, WarpInterpolation};
use crate::{Motion, ParamError, Size};

/// How a warped picture is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Warping {
    /// Between pixels.
    pub(crate) interpolation: WarpInterpolation,
    /// Outside. `None` is black that is not blended: torchvision's `fill=None`.
    pub(crate) fill: Option<[u8; 3]>,
}

impl Warping {
    /// torchvision's default fill, black.
    pub(crate) const fn new(interpolation: WarpInterpolation) -> Self {
        Self { interpolation, fill: Some([0; 3]) }
    }

    /// The warp by a map made for an output of `size`.
    pub(crate) const fn motion(self, map: Map, size: Size) -> Motion {
        let Self { interpolation, fill } = self;
        Motion::Rows(RowFilter::Warp(Warp { size, map, interpolation, fill }))
    }
}

/// The place a picture is turned about, `[x, y]` in pixels from its top left corner; without one
/// it is the middle.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Center(Option<[f64; 2]>);

impl Center {
    /// Checks a place. Farther away than the longest picture reaches, f32 would not tell pixels
    /// apart.
    pub(crate) fn at(op: &'static str, x: f64, y: f64) -> Result<Self, ParamError> {
        match [x, y].into_iter().find(|v| !(-65_535.0..=65_535.0).contains(v)) {
            Some(v) => Err(ParamError::new(op, "center", v, "-65535..=65535")),
            None => Ok(Self(Some([x, y]))),
        }
    }

    /// Whether it is the middle, whatever the picture.
    pub(crate) const fn is_middle(self) -> bool {
        self.0.is_none()
    }

    /// The place in pixels from the middle of a picture of `size`.
    pub(crate) fn relative_to_middle(self, size: Size) -> [f64; 2] {
        match self.0 {
            None => [0.0; 2],
            Some([x, y]) => [x - f64::from(size.width) / 2.0, y - f64::from(size.height) / 2.0],
        }
    }
}
