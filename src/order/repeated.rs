//! Repeated augmentation: each sample several times in a row, so that ranks see the same one at
//! once, each with draws of its own (Hoffer et al., arXiv:1901.09335; Berman et al.,
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
//! timm's `RepeatAugSampler` with its `num_repeats` and `selected_round` of 256. timm has no seed,
//! as seed 0 here. What differs: the multiple of 256 is timm's share of a rank times the ranks, so
//! with [`Uneven::Drop`](super::Uneven) ranks have what timm gives them; below 256 samples timm
//! goes on in the order where a rank has too few, and `Pad` begins again. timm's fractions of a
//! repeat are left out.

use super::{OrderError, torch};
use crate::sample::Epoch;

pub(super) const NAME: &str = "repeated_augment";

/// What an epoch's length is a multiple of.
const ROUND: u64 = 256;

/// Rows of an epoch of `samples`.
pub(super) fn len(samples: u64) -> u64 {
    if samples < ROUND { samples } else { samples / ROUND * ROUND }
}

/// The samples of an epoch, each once: it is [`Global`](super::epoch::Global) that repeats them.
pub(super) fn rows(
    seed: u64,
    epoch: Epoch,
    samples: u32,
    repeats: u32,
) -> Result<Vec<u32>, OrderError> {
    let mut rows = torch::permutation(torch::seed(seed, epoch), samples)?;
    rows.truncate(len(u64::from(samples)).div_ceil(u64::from(repeats)) as usize);
    rows.shrink_to_fit();
    Ok(rows)
}
