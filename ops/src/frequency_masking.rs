//! FrequencyMasking: overwrites a random band of rows of a spectrogram.

use crate::author::{Op, OpClass, RegionOp, Rng, Type};
use crate::axis_mask::{self, AxisMask, FILL};
use crate::registry::{
    Golden, OpInfo, ParamKind, ParamValue, Recipe, Recipes, SIGNALS, built, recipe, required,
};
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
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FrequencyMasking {
    mask: AxisMask,
}

const NAME: &str = "FrequencyMasking";

impl FrequencyMasking {
    /// Builds the op for masks of fewer than `freq_mask_param` rows, which become 0. With 0, the op does nothing.
    ///
    /// # Errors
    ///
    /// If `freq_mask_param` is above 65535.
    pub fn new(freq_mask_param: u32) -> Result<Self, ParamError> {
        Ok(Self { mask: AxisMask::new(NAME, "freq_mask_param", freq_mask_param)? })
    }

    /// Sets the value of the masked rows, in the units of the values. Default 0.
    ///
    /// # Errors
    ///
    /// If the value is not finite.
    pub fn fill(self, fill: f32) -> Result<Self, ParamError> {
        Ok(Self { mask: self.mask.fill(NAME, fill)? })
    }
}

impl Op for FrequencyMasking {
    fn name(&self) -> &'static str {
        NAME
    }

    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        self.mask.output(NAME, input)
    }

    fn class(&self) -> OpClass<'_> {
        OpClass::Region(self)
    }

    fn does_nothing(&self, _: &Type) -> bool {
        self.mask.is_empty()
    }

    fn for_input(&self, input: &Type) -> Option<Arc<dyn Op>> {
        Some(Arc::new(Self { mask: self.mask.for_input(input)? }))
    }
}

impl RegionOp for FrequencyMasking {
    fn draw(&self, rng: &mut Rng, size: Size) -> Window {
        axis_mask::rows(self.mask.draw(rng, size.height), size.width)
    }

    fn fill(&self) -> [f32; 3] {
        [self.mask.fill.number(); 3]
    }
}

impl FrequencyMasking {
    pub(crate) const ENTRY: OpInfo = OpInfo {
        name: NAME,
        class: SIGNALS,
        summary: "overwrites a random band of rows, the frequencies of a spectrogram",
        params: &[
            required(
                "freq_mask_param",
                ParamKind::Whole,
                ParamValue::Int(27),
                "upper bound of the number of rows, which no mask reaches",
            ),
            FILL,
        ],
        aliases: &[],
        build: |args| {
            let op = FrequencyMasking::new(args.u32("freq_mask_param")?)?;
            Ok(built(op.fill(axis_mask::fill(NAME, args)?)?))
        },
        recipes: Recipes::Drawn(&[Recipe {
            name: NAME,
            draw: |rng, before| {
                let fill = recipe::fill(rng, before);
                let most = recipe::pick(rng, [3, 40, 300]);
                let op = FrequencyMasking::new(rng.below(most))?;
                Ok(built(op.fill(fill)?))
            },
        }]),
        golden: Golden::Tested,
    };
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
    fn what_masks_nothing_does_nothing_and_bad_parameters_are_refused() {
        check_bounds(FrequencyMasking::new);
    }
}
