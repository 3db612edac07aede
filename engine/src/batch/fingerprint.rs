//! The fingerprint of a batch: 64 bits that stand for what decides its bits.
//!
//! ```text
//! start        =  mix(mix(origin ^ epoch) ^ index of the batch)
//! lane k of 4  =  fold over the rows k, k + 4, k + 8 ... from start + k:  mix(lane ^ (sample + repeat * ODD))
//! fingerprint  =  fold over the lanes from start:  mix(print ^ lane)
//! ```
//!
//! `origin` stands for the dataset, the plan, the seed and the rank. A draw is a function of the seed, the epoch, the sample and its
//! repeat, and of the index of the batch where samples are mixed, so that the draws are covered. The rows are those
//! that were delivered: a damaged sample that was left out is missing, one that was replaced is its substitute. Nothing
//! else is hashed: neither pixels nor threads. `mix` is the finaliser of SplitMix64, and `ODD` the step of its counter.
//! The lanes are for speed: a processor computes them at the same time.
//!
//! Two batches that differ have the same fingerprint with a chance of about 2^-64. It is no cryptographic hash.

use crate::sample::{Epoch, SampleRef};
use fuseloop_ops::internals::mix;

/// Returns the fingerprint of batch `index` of an epoch with the rows `visits`. `origin` stands for everything else that
/// decides the batch's bits.
#[must_use]
pub fn fingerprint(origin: u64, epoch: Epoch, index: u64, visits: &[SampleRef]) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let start = mix(mix(origin ^ u64::from(epoch.0)) ^ index);
    let mut lanes = [0, 1, 2, 3].map(|lane| start.wrapping_add(lane));
    for rows in visits.chunks(lanes.len()) {
        for (lane, visit) in lanes.iter_mut().zip(rows) {
            let repeat = u64::from(visit.repeat).wrapping_mul(ODD);
            *lane = mix(*lane ^ visit.sample.0.wrapping_add(repeat));
        }
    }
    lanes.into_iter().fold(start, |print, lane| mix(print ^ lane))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::SampleId;
    use std::collections::HashSet;

    fn of(ids: &[u64]) -> u64 {
        let visits: Vec<_> = ids.iter().map(|&id| SampleRef::once(SampleId(id))).collect();
        fingerprint(7, Epoch(1), 2, &visits)
    }

    /// Logs of other machines and releases are compared with these numbers.
    #[test]
    fn it_is_the_same_everywhere() {
        // `scripts/batch_fingerprint.py` computes them.
        assert_eq!(of(&[]), 0x2bb3_44e0_5ea4_3708);
        assert_eq!(of(&[5, 0, 1 << 40, 7, 6]), 0x23f4_b840_7f24_86e5);
        let repeated = SampleRef { repeat: 3, ..SampleRef::once(SampleId(5)) };
        assert_eq!(fingerprint(u64::MAX, Epoch(0), 0, &[repeated]), 0x389c_fb5f_78de_5fdc);
    }

    #[test]
    fn every_part_changes_it() {
        let visits = [4, 9].map(|id| SampleRef::once(SampleId(id)));
        let again = [visits[0], SampleRef { repeat: 1, ..visits[1] }];
        let padded = [visits[0], SampleRef { is_padding: true, ..visits[1] }];
        let base = fingerprint(7, Epoch(1), 2, &visits);
        let others = [
            fingerprint(8, Epoch(1), 2, &visits),
            fingerprint(7, Epoch(2), 2, &visits),
            fingerprint(7, Epoch(1), 3, &visits),
            fingerprint(7, Epoch(1), 2, &again),
            fingerprint(7, Epoch(1), 2, &visits[..1]),
            of(&[9, 4]),
            of(&[4, 4, 4, 4, 9]),
            of(&[4, 9, 0]),
        ];
        assert_eq!(HashSet::from(others).len(), others.len());
        assert!(!others.contains(&base));
        // The mask is no part of a row's bits.
        assert_eq!(fingerprint(7, Epoch(1), 2, &padded), base);
    }

    #[test]
    fn a_million_batches_differ() {
        let prints: HashSet<u64> = (0..1000)
            .flat_map(|a| (0..1000).map(move |b| (a, b)))
            .map(|(a, b)| of(&[a, b]))
            .collect();
        assert_eq!(prints.len(), 1_000_000);
    }
}
