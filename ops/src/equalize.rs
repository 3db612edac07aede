//! Equalize: each channel's levels spread so that all levels are about equally frequent.

use crate::author::{Histogram, LevelTable, Rng, TableOp, Type};
use crate::op::{Op, class, on_levels};
use crate::{NumberRule, TypeError};

/// Spreads each channel's levels so that all are about equally frequent, in a share `p` of the
/// images.
///
#[cfg_attr(doc, doc = include_str!("../pictures/RandomEqualize.md"))]
///
/// ```text
/// step    = floor((pixels - count[last]) / 255)             last: the brightest level that occurs
/// out     = min(255, floor((below + floor(step / 2)) / step))    below: pixels darker than in
/// out     = in                                              where step is 0; 0 stays 0
/// ```
///
/// | | |
/// |--------|------------------------------------------------------------------------------|
/// | input  | image of levels                                                                     |
/// | output | as the input                                                                 |
/// | random | a coin `p`                                                                   |
/// | cost   | one more pass over the image to count its levels, then one look-up per value |
///
/// The formula is that of torchvision's `RandomEqualize` and of Pillow. Results are integers under any
/// rule.
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![RandomEqualize::new(0.5)?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq)]
#[op(COLOR, "equalizes the histograms of a share p of the images")]
pub struct RandomEqualize {
    /// Builds the op for a share `p` of the images. torchvision's default is 0.5.
    #[param(share, new)]
    p: f64,
}

impl RandomEqualize {
    /// Builds the op for all images, as a policy uses it.
    pub(crate) const fn always() -> Self {
        Self { p: 1.0 }
    }
}

#[class(Table)]
impl Op for RandomEqualize {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_levels(self.name(), input)
    }

    fn does_nothing(&self, _: &Type) -> bool {
        self.p == 0.0
    }
}

impl TableOp for RandomEqualize {
    fn draw(&self, rng: &mut Rng, _: &mut [f32]) -> bool {
        rng.coin(self.p)
    }

    fn may_skip(&self) -> bool {
        self.p < 1.0
    }

    fn needs_histogram(&self) -> bool {
        true
    }

    fn table(&self, _: NumberRule, _: &[f32], histograms: &[Histogram], out: &mut [LevelTable]) {
        for (levels, table) in histograms.iter().zip(out) {
            *table = spread(levels);
        }
    }
}

/// Returns the table of one channel.
fn spread(levels: &[u32; 256]) -> [f32; 256] {
    let pixels: u64 = levels.iter().copied().map(u64::from).sum();
    let last = levels.iter().rfind(|&&count| count > 0).copied().map_or(0, u64::from);
    let step = (pixels - last) / 255;
    if step == 0 {
        return std::array::from_fn(|level| level as f32);
    }
    let mut below = 0;
    levels.map(|count| {
        let level = ((below + step / 2) / step).min(255);
        below += u64::from(count);
        level as f32
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_torchvision_equalizes() {
        let mut levels = [0; 256];
        for level in [0, 20, 40, 60] {
            levels[level] = 256;
        }
        let table = spread(&levels);
        assert_eq!([0, 20, 40, 60].map(|level| table[level]), [0.0, 85.0, 171.0, 255.0]);
    }

    #[test]
    fn small_and_constant_pictures_stay() {
        let mut levels = [0; 256];
        levels[77] = 10_000;
        assert_eq!(spread(&levels)[77], 77.0);
        levels[3] = 254;
        assert_eq!(spread(&levels)[3], 3.0);
        assert_eq!(spread(&[0; 256])[9], 9.0);
    }
}
