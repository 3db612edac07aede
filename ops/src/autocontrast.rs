//! Autocontrast: each channel stretched from its darkest and brightest value to 0 and 255.

use crate::author::{Histogram, LevelTable, Rng, TableOp, Type};
use crate::op::{Op, class, on_levels};
use crate::{NumberRule, TypeError};

/// Stretches each channel from its darkest and brightest value to 0 and 255, in a share `p` of the
/// images.
///
#[cfg_attr(doc, doc = include_str!("../pictures/RandomAutocontrast.md"))]
///
/// ```text
/// out = (in - low) * 255 / (high - low)     truncated where the rule is Exact
/// out = in                                  where a channel has one value only
/// ```
///
/// | | |
/// |--------|------------------------------------------------------------------------------|
/// | input  | image of levels                                                                     |
/// | output | as the input                                                                 |
/// | random | a coin `p`                                                                   |
/// | cost   | one more pass over the image to count its levels, then one look-up per value |
///
/// Under the Exact rule this is torchvision's `RandomAutocontrast` on tensors, to the bit: the scale
/// `f32((high - low) * f32(1 / 255))`, a division by the scale, truncation. The brightest value may
/// therefore become 254; under the Fused rule, `(in - low) * 255 / (high - low)`, it becomes 255.
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![RandomAutocontrast::new(0.5)?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq)]
#[op(COLOR, "stretches the channels of a share p of the images to 0..255")]
pub struct RandomAutocontrast {
    /// Builds the op for a share `p` of the images. torchvision's default is 0.5.
    #[param(share, new)]
    p: f64,
}

impl RandomAutocontrast {
    /// Builds the op for all images, as a policy uses it.
    pub(crate) const fn always() -> Self {
        Self { p: 1.0 }
    }
}

#[class(Table)]
impl Op for RandomAutocontrast {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_levels(self.name(), input)
    }

    fn does_nothing(&self, _: &Type) -> bool {
        self.p == 0.0
    }
}

impl TableOp for RandomAutocontrast {
    fn draw(&self, rng: &mut Rng, _: &mut [f32]) -> bool {
        rng.coin(self.p)
    }

    fn may_skip(&self) -> bool {
        self.p < 1.0
    }

    fn needs_histogram(&self) -> bool {
        true
    }

    fn table(&self, rule: NumberRule, _: &[f32], histograms: &[Histogram], out: &mut [LevelTable]) {
        for (levels, table) in histograms.iter().zip(out) {
            *table = stretched(rule, levels);
        }
    }
}

/// Returns the table of one channel.
fn stretched(rule: NumberRule, levels: &[u32; 256]) -> [f32; 256] {
    let low = levels.iter().position(|&count| count > 0).unwrap_or(0) as f32;
    let high = levels.iter().rposition(|&count| count > 0).unwrap_or(0) as f32;
    if low == high {
        return std::array::from_fn(|level| level as f32);
    }
    std::array::from_fn(|level| {
        let above = level as f32 - low;
        let v = match rule {
            NumberRule::Exact => (above / ((high - low) * (1.0 / 255.0))).trunc(),
            NumberRule::Fused | NumberRule::Relaxed => above * 255.0 / (high - low),
        };
        v.clamp(0.0, 255.0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_torchvision_stretches() {
        let mut levels = [0; 256];
        for level in [50, 60, 100, 150] {
            levels[level] = 1;
        }
        let table = stretched(NumberRule::Exact, &levels);
        assert_eq!([50, 60, 100, 150].map(|level| table[level]), [0.0, 25.0, 127.0, 254.0]);
        let table = stretched(NumberRule::Fused, &levels);
        assert_eq!([50, 60, 100, 150].map(|level| table[level]), [0.0, 25.5, 127.5, 255.0]);
    }

    #[test]
    fn a_channel_of_one_value_stays() {
        let mut levels = [0; 256];
        levels[77] = 12;
        assert_eq!(stretched(NumberRule::Exact, &levels)[77], 77.0);
    }
}
