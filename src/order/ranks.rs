//! Which rows of an epoch are whose, where several processes train together.
//!
//! ```text
//! rank r of W takes the places r, r + W, r + 2W, ... of the order of all
//!
//! steps of a rank   Drop         floor(n / W)     the rest is left out
//!                   Pad, Exact   ceil(n / W)      place p >= n is place p mod n once more
//! ```
//!
//! As torch's `DistributedSampler`, whose `drop_last` is `Drop`. The order of all is one for every
//! W, so step s of G samples, each rank taking G / W, has the same samples for every W that
//! divides G: a run may go on with more or fewer ranks.

use super::OrderError;

/// One process of several, and what happens to samples that can't be shared out evenly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ranks {
    rank: u32,
    world: u32,
    uneven: Uneven,
}

/// What happens where the ranks don't divide the samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Uneven {
    /// The last few samples are left out. Others each epoch, if the order is random.
    Drop,
    /// The first few samples come once more, as in FFCV.
    #[default]
    Pad,
    /// As `Pad`, but what comes once more says so: [`Visit::is_padding`](crate::Visit). For
    /// evaluation, where each sample must count once.
    Exact,
}

impl Ranks {
    /// Rank `rank` of `world`, from 0.
    ///
    /// # Errors
    ///
    /// If `rank` is not below `world`.
    pub fn new(rank: u32, world: u32, uneven: Uneven) -> Result<Self, OrderError> {
        if rank < world {
            Ok(Self { rank, world, uneven })
        } else {
            Err(OrderError::Rank { rank, world })
        }
    }

    /// The same rank, with `uneven` samples treated otherwise.
    #[must_use]
    pub const fn uneven(self, uneven: Uneven) -> Self {
        Self { uneven, ..self }
    }

    /// This process, from 0.
    #[must_use]
    pub const fn rank(self) -> u32 {
        self.rank
    }

    /// Processes there are, at least 1.
    #[must_use]
    pub const fn world(self) -> u32 {
        self.world
    }

    /// What happens where they don't divide the samples.
    #[must_use]
    pub const fn on_uneven(self) -> Uneven {
        self.uneven
    }

    /// Rows of each rank, of `places` in all.
    pub(super) fn rows(self, places: u64) -> u64 {
        match self.uneven {
            Uneven::Drop => places / u64::from(self.world),
            Uneven::Pad | Uneven::Exact => places.div_ceil(u64::from(self.world)),
        }
    }

    /// The place in the order of all `places` of this rank's row, and whether it is padding.
    pub(super) fn place(self, row: u64, places: u64) -> (u64, bool) {
        let place = row * u64::from(self.world) + u64::from(self.rank);
        if place < places {
            return (place, false);
        }
        (place % places, self.uneven == Uneven::Exact)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(rank: u32, world: u32, uneven: Uneven, all: u64) -> Vec<(u64, bool)> {
        let ranks = Ranks::new(rank, world, uneven).unwrap();
        (0..ranks.rows(all)).map(|row| ranks.place(row, all)).collect()
    }

    #[test]
    fn five_samples_for_two_ranks() {
        let of = |rank, uneven| places(rank, 2, uneven, 5);
        assert_eq!(of(1, Uneven::Drop), [(1, false), (3, false)]);
        assert_eq!(of(0, Uneven::Pad), [(0, false), (2, false), (4, false)]);
        assert_eq!(of(1, Uneven::Pad), [(1, false), (3, false), (0, false)]);
        assert_eq!(of(1, Uneven::Exact), [(1, false), (3, false), (0, true)]);
    }

    #[test]
    fn more_ranks_than_samples_go_round() {
        let rows: Vec<u64> = (0..5).map(|rank| places(rank, 5, Uneven::Pad, 2)[0].0).collect();
        assert_eq!(rows, [0, 1, 0, 1, 0]);
        assert!(places(0, 5, Uneven::Drop, 2).is_empty());
        assert!(places(0, 5, Uneven::Exact, 0).is_empty());
    }

    #[test]
    fn a_rank_must_be_of_its_world() {
        for (rank, world) in [(0, 0), (4, 4), (u32::MAX, 1)] {
            assert!(Ranks::new(rank, world, Uneven::Drop).is_err(), "{rank} of {world}");
        }
    }
}
