//! Selects the shards that a rank reads in one pass, and their order.
//!
//! ```text
//! shards 0..count  --shuffle by (seed, epoch, turn), the same on every rank-->  s0 s1 s2 s3 ...
//! rank r of w reads  s[r], s[r + w], s[r + 2w] ...
//! ```

use super::Pass;
use fuseloop_ops::internals::SampleKey;

/// Returns the shards of one rank, in order. Over all ranks of one pass, each shard comes once.
pub(in crate::source) fn shards_of_rank(
    count: usize,
    pass: &Pass,
    shuffled: bool,
    (rank, world): (usize, usize),
) -> Vec<usize> {
    let mut shards: Vec<usize> = (0..count).collect();
    if shuffled {
        // A salt of its own, so that no other draw uses the same random numbers.
        let salt = u64::from_le_bytes(*b"shards\0\0");
        let mut rng = SampleKey::new(pass.seed, pass.epoch.index(), pass.turn).op(salt);
        for last in (1..count).rev() {
            let below = u32::try_from(last + 1).unwrap_or(u32::MAX);
            shards.swap(last, rng.below(below) as usize);
        }
    }
    shards.into_iter().skip(rank).step_by(world.max(1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Epoch;

    fn pass(seed: u64, epoch: u32, turn: u64) -> Pass {
        Pass { seed, epoch: Epoch(epoch), turn }
    }

    #[test]
    fn ranks_share_the_shards_of_a_pass() {
        for world in 1..5 {
            for shuffled in [false, true] {
                let of_rank = |rank| shards_of_rank(11, &pass(1, 2, 3), shuffled, (rank, world));
                let mut all: Vec<usize> = (0..world).flat_map(of_rank).collect();
                let longest = (0..world).map(|rank| of_rank(rank).len()).max();
                assert_eq!(longest, Some(11_usize.div_ceil(world)));
                all.sort_unstable();
                assert_eq!(all, (0..11).collect::<Vec<_>>());
            }
        }
        assert_eq!(shards_of_rank(5, &pass(1, 2, 3), false, (1, 2)), [1, 3]);
        assert!(shards_of_rank(0, &pass(1, 2, 3), true, (0, 1)).is_empty());
    }

    #[test]
    fn a_pass_has_its_own_order_and_always_the_same() {
        let order = |pass| shards_of_rank(100, &pass, true, (0, 1));
        let first = order(pass(1, 2, 3));
        assert_eq!(first, order(pass(1, 2, 3)));
        for other in [pass(2, 2, 3), pass(1, 3, 3), pass(1, 2, 4)] {
            assert_ne!(first, order(other));
        }
    }
}
