//! Ops that look each value up in a table.

use super::NumberRule;
use crate::author::Rng;
use crate::shape::MAX_CHANNELS;
use std::fmt;

/// The new value of each level of one channel.
///
/// ```
/// # use fuseloop_ops::author::*;
/// let inverted: LevelTable = std::array::from_fn(|level| 255.0 - level as f32);
/// assert_eq!(inverted[0], 255.0);
/// ```
pub type LevelTable = [f32; 256];

/// The number of times each level occurs in one channel of an image.
///
/// ```
/// # use fuseloop_ops::author::*;
/// let mut histogram: Histogram = [0; 256];
/// [7_u8, 7, 9].iter().for_each(|&level| histogram[usize::from(level)] += 1);
/// assert_eq!(histogram[7], 2);
/// ```
pub type Histogram = [u32; 256];

/// The tables of an image's channels; those of channels that the image does not have are not used.
pub type LevelTables = [LevelTable; MAX_CHANNELS];

/// The histograms of an image's channels; those of channels that the image does not have are zeros.
pub type Histograms = [Histogram; MAX_CHANNELS];

/// An op that looks values up: each value is rounded half to even to a level and replaced by its
/// channel's table entry for that level.
///
/// ```
/// # use fuseloop_ops::*;
/// # use fuseloop_ops::author::*;
/// /// Inverts every level.
/// #[derive(Clone, Copy, Debug)]
/// struct Negative;
///
/// impl TableOp for Negative {
///     fn table(&self, _: NumberRule, _: &[f32], _: &[Histogram], out: &mut [LevelTable]) {
///         out.fill(std::array::from_fn(|level| 255.0 - level as f32));
///     }
/// }
///
/// let mut out = [[0.0; 256]; 3];
/// Negative.table(NumberRule::Exact, &[], &[[0; 256]; 3], &mut out);
/// assert_eq!(out[2][255], 0.0);
/// ```
pub trait TableOp: fmt::Debug + Send + Sync {
    /// Returns the number of the op's parameters: `f32` numbers that are drawn for each sample.
    fn param_count(&self) -> usize {
        0
    }

    /// Returns the names of the parameters, in order, for displaying draws to people. If any
    /// parameter has a name, only those with names are displayed. An empty name marks a number that
    /// the op's name explains, and the name `-` one that is not displayed, such as a seed.
    fn param_names(&self) -> &'static [&'static str] {
        &[]
    }

    /// Draws the parameters. Returns whether the op runs for this sample: `false` only if
    /// [`may_skip`](Self::may_skip).
    fn draw(&self, rng: &mut Rng, params: &mut [f32]) -> bool {
        let _ = (rng, params);
        true
    }

    /// Returns true if a draw may skip the op.
    fn may_skip(&self) -> bool {
        false
    }

    /// Returns true if the table depends on the image, so that its levels must be counted first.
    fn needs_histogram(&self) -> bool {
        false
    }

    /// The definition of the op: writes the table of each channel to `out`, which has as many entries as
    /// `histograms`. These are all zeros unless [`needs_histogram`](Self::needs_histogram). Table values
    /// must be in `0.0..=255.0`, and whole under [`NumberRule::Exact`].
    fn table(
        &self,
        rule: NumberRule,
        params: &[f32],
        histograms: &[Histogram],
        out: &mut [LevelTable],
    );
}
