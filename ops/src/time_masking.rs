//! TimeMasking: overwrites a random band of columns of a spectrogram.

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

/// Overwrites a random band of columns: time steps of a spectrogram `[frequency, time]`.
///
#[cfg_attr(doc, doc = include_str!("../pictures/TimeMasking.md"))]
///
/// Park et al., SpecAugment, arXiv:1904.08779.
///
/// ```text
/// n = W;  F = time_mask_param if p = 1, else min(time_mask_param, trunc(n * p))
/// v = U * F;  lo = trunc(U * (n - v));  hi = lo + trunc(v)
///
/// out[y, x] = fill        for lo <= x < hi
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
/// torchaudio's `TimeMasking`, called for each sample by itself: every sample has its own mask, which all its
/// channels share. The mask has fewer than `time_mask_param` columns. If `v` is not below the number of columns, the
/// mask covers all of them. `p` bounds the share of the columns that a mask covers, as in torchaudio; it is no
/// share of the samples. SpecAugment lists the op several times; each one draws for itself.
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
#[op(SIGNALS, "overwrites a random band of columns, the time steps of a spectrogram", draw = random)]
pub struct TimeMasking {
    /// Builds the op for masks of fewer than `time_mask_param` columns, which become 0. With 0, the op does nothing.
    #[param("upper bound of the number of columns, which no mask reaches", 0..=65_535, example = 100)]
    time_mask_param: u32,
    /// Bounds the share of the columns that a mask covers: it then has fewer than `p` times their number.
    #[param("upper bound of the share of the columns that a mask covers", share, default = 1.0)]
    p: f64,
    /// Sets the value of the masked columns, in the units of the values. Default 0.
    #[param("the value of the band, in units of the values", check = FillValue::new, default = 0.0,
        errors = "If the value is not finite")]
    #[init(FillValue::ZERO)]
    fill: FillValue,
}

fn random(rng: &mut Rng, before: &ImageType) -> Result<BuiltOp, ParamError> {
    let fill = recipe::fill(rng, before);
    let most = recipe::pick(rng, [3, 40, 300]);
    let op = TimeMasking::new(rng.below(most))?;
    let op = op.p(recipe::share(rng))?;
    Ok(built(op.fill(fill)?))
}

impl TimeMasking {
    fn mask(&self) -> AxisMask {
        AxisMask { mask_param: self.time_mask_param, p: self.p, fill: self.fill }
    }
}

#[class(Region)]
impl Op for TimeMasking {
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

impl RegionOp for TimeMasking {
    fn draw(&self, rng: &mut Rng, size: Size) -> Window {
        axis_mask::columns(self.mask().draw(rng, size.width), size.height)
    }

    fn fill(&self) -> [f32; 3] {
        [self.fill.number(); 3]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::axis_mask::tests::{check_bounds, check_fills, check_windows};
    use crate::op::{Dim, ImageType};

    #[test]
    fn masks_are_as_high_as_the_image_and_inside_it() {
        check_windows(&TimeMasking::new(20).unwrap(), |window, size| {
            (window.top, window.height) == (0, size.height) && window.width < 20
        });
    }

    #[test]
    fn a_fill_of_integers_is_truncated_and_in_their_range() {
        check_fills(|fill| TimeMasking::new(2).unwrap().fill(fill));
    }

    #[test]
    fn what_masks_nothing_does_nothing() {
        check_bounds(TimeMasking::new);
        let image = Type::Image(ImageType::decoded(Dim::fixed(4), Dim::fixed(4)));
        assert!(TimeMasking::new(9).unwrap().p(0.0).unwrap().does_nothing(&image));
    }
}
