//! Repeated augmentation: each sample several times in a row, so that ranks see the same sample at the
//! same time, each with its own draws (Hoffer et al., arXiv:1901.09335; Berman et al.,
//! arXiv:1902.05509).
//!
//! ```text
//! order    torch's randperm of the samples, each `repeats` times, then the first L of these
//! L        n rounded down to a multiple of 256, if n is at least 256; else n
//! ```
//!
//! | | |
//! |---|---|
//! | input | n samples |
//! | output | L rows: an epoch is as long as the dataset, and sees 1 / `repeats` of it |
//! | random | seed + epoch, as torch's generator is seeded |
//! | cost | 4 bytes a sample seen |
//!
//! This is timm's `RepeatAugSampler` with its `num_repeats` and `selected_round` of 256; timm has no
//! seed, which is seed 0 here. Differences: timm's share of a rank times the number of ranks is the
//! multiple of 256, so with [`Uneven::Drop`](super::Uneven) every rank has the same samples as with
//! timm; below 256 samples, where a rank has too few, timm continues in the order, and `Pad` starts
//! again from the beginning. timm's fractional repeats are not supported.

use super::torch;
use crate::error::Error;
use crate::sample::Epoch;

pub(super) const NAME: &str = "repeated_augment";

/// The length of an epoch is a multiple of this.
const ROUND: u64 = 256;

/// Returns the number of rows of an epoch of `samples`.
pub(super) fn len(samples: u64) -> u64 {
    if samples < ROUND { samples } else { samples / ROUND * ROUND }
}

/// Returns the samples of an epoch, each once; [`Global`](super::epoch::Global) repeats them.
pub(super) fn rows(seed: u64, epoch: Epoch, samples: u32, repeats: u32) -> Result<Vec<u32>, Error> {
    let mut rows = torch::permutation(torch::seed(seed, epoch), samples)?;
    rows.truncate(len(u64::from(samples)).div_ceil(u64::from(repeats)) as usize);
    rows.shrink_to_fit();
    Ok(rows)
}
