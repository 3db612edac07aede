//! FrequencyMasking: overwrites a random band of rows of a spectrogram.

use crate::author::ImageType;
use crate::author::{RegionOp, Rng, Type};
use crate::axis_mask::{self, AxisMask};
use crate::fill_value::FillValue;
use crate::op::{Op, class};
use crate::registry::BuiltOp;
use crate::registry::{built, recipe};
use crate::shape::Window;
use crate::{ParamError, Size, TypeError};
use std::sync::Arc;

/// Overwrites a random band of rows: frequencies of a spectrogram `[frequency, time]`.
///
#[cfg_attr(doc, doc = include_str!("../pictures/FrequencyMasking.md"))]
///
/// Park et al., SpecAugment, arXiv:1904.08779.
///
/// ```text
/// n = H;  F = freq_mask_param
/// v = U * F;  lo = trunc(U * (n - v));  hi = lo + trunc(v)
///
/// out[y, x] = fill        for lo <= y < hi
/// out[y, x] = in[y, x]    otherwise
/// ```
///
/// | | |
/// |--------|-------------------------------------------------------------|
/// | input  | image of any element type, with any number of channels      |
/// | output | as the input                                                |
/// | random | `v`, then `lo`: each `U` is uniform in `[0, 1)`             |
/// | cost   | a mask                                                      |
///
/// torchaudio's `FrequencyMasking`, called for each sample by itself: every sample has its own mask, which all its
/// channels share. The mask has fewer than `freq_mask_param` rows. If `v` is not below the number of rows, the
/// mask covers all of them. SpecAugment lists the op several times; each one draws for itself.
///
/// `fill` is in the units of the values. For an image of an integer type it is truncated, and must be in the range
/// of the type: 0 to 255 for u8.
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![
///     FrequencyMasking::new(27)?,
///     FrequencyMasking::new(27)?,
///     TimeMasking::new(100)?.p(0.2)?,
///     TimeMasking::new(100)?.p(0.2)?,
/// ];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq)]
#[op(SIGNALS, "overwrites a random band of rows, the frequencies of a spectrogram", draw = random)]
pub struct FrequencyMasking {
    /// Builds the op for masks of fewer than `freq_mask_param` rows, which become 0. With 0, the op does nothing.
    #[param("upper bound of the number of rows, which no mask reaches", 0..=65_535, example = 27)]
    freq_mask_param: u32,
    /// Sets the value of the masked rows, in the units of the values. Default 0.
    #[param("the value of the band, in units of the values", check = FillValue::new, default = 0.0,
        errors = "If the value is not finite")]
    #[init(FillValue::ZERO)]
    fill: FillValue,
}

fn random(rng: &mut Rng, before: &ImageType) -> Result<BuiltOp, ParamError> {
    let fill = recipe::fill(rng, before);
    let most = recipe::pick(rng, [3, 40, 300]);
    let op = FrequencyMasking::new(rng.below(most))?;
    Ok(built(op.fill(fill)?))
}

impl FrequencyMasking {
    fn mask(&self) -> AxisMask {
        AxisMask { mask_param: self.freq_mask_param, p: 1.0, fill: self.fill }
    }
}

#[class(Region)]
impl Op for FrequencyMasking {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        self.mask().output(self.name(), input)
    }

    fn does_nothing(&self, _: &Type) -> bool {
        self.mask().is_empty()
    }

    fn for_input(&self, input: &Type) -> Option<Arc<dyn Op>> {
        Some(Arc::new(Self { fill: self.mask().for_input(input)?.fill, ..*self }))
    }
}

impl RegionOp for FrequencyMasking {
    fn draw(&self, rng: &mut Rng, size: Size) -> Window {
        axis_mask::rows(self.mask().draw(rng, size.height), size.width)
    }

    fn fill(&self) -> [f32; 3] {
        [self.fill.number(); 3]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::axis_mask::tests::{check_bounds, check_fills, check_windows};

    #[test]
    fn masks_are_as_wide_as_the_image_and_inside_it() {
        check_windows(&FrequencyMasking::new(20).unwrap(), |window, size| {
            (window.left, window.width) == (0, size.width) && window.height < 20
        });
    }

    #[test]
    fn a_fill_of_integers_is_truncated_and_in_their_range() {
        check_fills(|fill| FrequencyMasking::new(2).unwrap().fill(fill));
    }

    #[test]
    fn what_masks_nothing_does_nothing() {
        check_bounds(FrequencyMasking::new);
    }
}
