//! The rows of each rank, where several processes train together.
//!
//! ```text
//! rank r of W takes the positions r, r + W, r + 2W, ... of the global order
//!
//! steps of a rank   Drop         floor(n / W)     the rest is left out
//!                   Pad, Exact   ceil(n / W)      position p >= n is position p mod n again
//! ```
//!
//! This is torch's `DistributedSampler`; its `drop_last` is `Drop`. The global order is the same for
//! every W, so step s of G samples, where each rank takes G / W, has the same samples for every W that
//! divides G: a run may be resumed with more or fewer ranks.

use crate::error::{Error, fail};

/// One process of several, and what happens to samples that can't be divided evenly.
///
/// ```
/// use fuseloop::order::{Ranks, Uneven};
///
/// let ranks = Ranks::new(1, 8, Uneven::Pad)?;
/// assert_eq!((ranks.rank(), ranks.world_size()), (1, 8));
/// assert!(Ranks::new(8, 8, Uneven::Pad).is_err());
/// # Ok::<(), fuseloop::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ranks {
    rank: u32,
    world_size: u32,
    uneven: Uneven,
}

/// Determines what happens if the number of ranks does not divide the number of samples.
///
/// ```no_run
/// use fuseloop::order::{Ranks, Uneven};
///
/// // Validation counts each sample once, also where the number of ranks does not divide that of the samples.
/// let ranks = Ranks::from_env()?.map(|ranks| ranks.uneven(Uneven::Exact));
/// # Ok::<(), fuseloop::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Uneven {
    /// The last few samples are left out: different ones in each epoch, if the order is random.
    Drop,
    /// The first few samples come again, as in FFCV.
    #[default]
    Pad,
    /// Like `Pad`, but repeated samples are marked with [`SampleRef::is_padding`](crate::SampleRef). For
    /// evaluation, where each sample must count once.
    Exact,
}

impl Ranks {
    /// Creates rank `rank` of `world_size`, from 0.
    ///
    /// # Errors
    ///
    /// If `rank` is not below `world_size`.
    pub fn new(rank: u32, world_size: u32, uneven: Uneven) -> Result<Self, Error> {
        if rank < world_size {
            Ok(Self { rank, world_size, uneven })
        } else {
            Err(fail!(
                Parameter,
                "rank {rank} of {world_size} ranks: expected a rank below the number of ranks"
            ))
        }
    }

    /// Sets what happens to samples that can't be divided evenly.
    #[must_use]
    pub const fn uneven(self, uneven: Uneven) -> Self {
        Self { uneven, ..self }
    }

    /// Returns the rank of this process, from 0.
    #[must_use]
    pub const fn rank(self) -> u32 {
        self.rank
    }

    /// Returns the number of processes, at least 1.
    #[must_use]
    pub const fn world_size(self) -> u32 {
        self.world_size
    }

    /// Returns true if samples that can't be divided evenly are left out.
    pub(super) fn drops_uneven(self) -> bool {
        self.uneven == Uneven::Drop
    }

    /// Returns true if samples that come again only to fill a rank's rows are marked.
    pub(super) fn marks_padding(self) -> bool {
        self.uneven == Uneven::Exact
    }

    /// Returns the number of rows of each rank, of `len` in total.
    pub(super) fn rows(self, len: u64) -> u64 {
        match self.uneven {
            Uneven::Drop => len / u64::from(self.world_size),
            Uneven::Pad | Uneven::Exact => len.div_ceil(u64::from(self.world_size)),
        }
    }

    /// Returns the position of this rank's row in the global order of `len`, and whether the row is
    /// padding.
    pub(super) fn position(self, row: u64, len: u64) -> (u64, bool) {
        let position = row * u64::from(self.world_size) + u64::from(self.rank);
        if position < len {
            return (position, false);
        }
        (position % len, self.marks_padding())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn positions(rank: u32, world: u32, uneven: Uneven, all: u64) -> Vec<(u64, bool)> {
        let ranks = Ranks::new(rank, world, uneven).unwrap();
        (0..ranks.rows(all)).map(|row| ranks.position(row, all)).collect()
    }

    #[test]
    fn five_samples_for_two_ranks() {
        let of = |rank, uneven| positions(rank, 2, uneven, 5);
        assert_eq!(of(1, Uneven::Drop), [(1, false), (3, false)]);
        assert_eq!(of(0, Uneven::Pad), [(0, false), (2, false), (4, false)]);
        assert_eq!(of(1, Uneven::Pad), [(1, false), (3, false), (0, false)]);
        assert_eq!(of(1, Uneven::Exact), [(1, false), (3, false), (0, true)]);
    }

    #[test]
    fn more_ranks_than_samples_go_round() {
        let rows: Vec<u64> = (0..5).map(|rank| positions(rank, 5, Uneven::Pad, 2)[0].0).collect();
        assert_eq!(rows, [0, 1, 0, 1, 0]);
        assert!(positions(0, 5, Uneven::Drop, 2).is_empty());
        assert!(positions(0, 5, Uneven::Exact, 0).is_empty());
    }

    #[test]
    fn a_rank_must_be_of_its_world() {
        for (rank, world) in [(0, 0), (4, 4), (u32::MAX, 1)] {
            assert!(Ranks::new(rank, world, Uneven::Drop).is_err(), "{rank} of {world}");
        }
    }
}
