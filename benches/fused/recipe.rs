//! The draws for one sample, in the form that the yardsticks use.

use crate::plain::{MEAN, STD};
use fuseloop::internals::plan::Draws;
use fuseloop_ops::author::GeometryStep;

/// The number of rows and columns of the output.
pub(crate) const SIDE: usize = 224;

/// A crop of [`SIDE`], optionally mirrored, optionally jittered.
pub(crate) struct Recipe {
    pub(crate) stride: usize,
    pub(crate) top: usize,
    pub(crate) left: usize,
    pub(crate) flipped: bool,
    /// The index of the order of brightness, contrast and saturation, if there is a jitter.
    pub(crate) order: Option<usize>,
    /// The factor, and one minus the factor, of brightness, contrast and saturation.
    pub(crate) factors: [[f32; 2]; 3],
    /// `m1, s1, s0, bias` of each channel, as `Normalize` splits its constants.
    pub(crate) normalize: [[f32; 4]; 3],
}

impl Recipe {
    pub(crate) fn new(draws: &Draws) -> Self {
        let Some((_, GeometryStep::CropPad { top, left, .. })) = draws.geometry.first() else {
            panic!("the list begins with a crop");
        };
        let order = draws.orders.first().map(|(_, order)| *order);
        let factors = match draws.params.as_slice() {
            // A parameter for the mean is stored between contrast and saturation.
            &[b, c, c_rest, _, s, s_rest] => [[b, 0.0], [c, c_rest], [s, s_rest]],
            _ => [[1.0, 0.0]; 3],
        };
        let normalize = std::array::from_fn(|c| split(MEAN[c], STD[c]));
        Self {
            stride: 3 * draws.source.width as usize,
            top: *top as usize,
            left: *left as usize,
            flipped: draws.geometry.iter().any(|(_, m)| *m == GeometryStep::FlipHorizontal),
            order,
            factors,
            normalize,
        }
    }

    /// The offset of the end of the crop in the source.
    pub(crate) fn last_byte(&self) -> usize {
        (self.top + SIDE - 1) * self.stride + 3 * (self.left + SIDE)
    }
}

fn split(mean: f64, std: f64) -> [f32; 4] {
    let m1 = ((mean * 65_536.0).round() / 65_536.0) as f32;
    let s1 = (1.0 / std) as f32;
    [m1, s1, (1.0 / std - f64::from(s1)) as f32, (-(mean - f64::from(m1)) / std) as f32]
}
