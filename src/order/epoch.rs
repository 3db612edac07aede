//! The order of one epoch: the sample at each position.
//!
//! ```text
//! position in a rank ─▶ global position ─▶ / repeats ─▶ row ─▶ sample
//!                                                       └▶ repeat = earlier rows of the sample * repeats
//!                                                                 + global position mod repeats
//! ```
//!
//! A position of a bucketed order that only fills a step has a row of the step's bucket again, and
//! repeat = earlier rows of the sample + how often the bucket has come * most rows of one sample.
//!
//! Cost: 4 bytes per row if the order is a list or has buckets, none if it is sequential or permuted; 4 more if samples
//! come several times, unless all come equally often in a row; 12 for each step of a bucketed order.

use super::bucketed::StepRows;
use super::memory::reserved;
use super::permuted::Permutation;
use super::{Ranks, Subset};
use crate::error::Error;
use crate::sample::{SampleId, SampleRef};
use std::ops::Range;
use std::sync::Arc;

/// The samples of one epoch, on one rank. A clone shares the memory.
#[derive(Clone, Debug)]
pub struct EpochOrder {
    all: Arc<Global>,
    ranks: Option<Ranks>,
    samples: u64,
}

/// The global order of all ranks.
#[derive(Debug)]
pub(super) struct Global {
    pub(super) subset: Subset,
    /// The number of positions.
    pub(super) len: u64,
    /// The row of each position, or of each `repeats` positions.
    pub(super) rows: Rows,
    /// How often the sample of each turn came in earlier turns; `None` if never.
    pub(super) copies: Option<Copies>,
    /// How often each row comes in a row, at least 1.
    pub(super) repeats: u32,
}

/// The row of each turn.
#[derive(Debug)]
pub(super) enum Rows {
    /// The turn itself.
    Turns,
    Listed(Vec<u32>),
    Permuted(Permutation),
    /// In steps, some of which are filled up. A turn is the index of a row.
    Steps(StepRows),
}

impl Rows {
    fn at(&self, turn: u64) -> u64 {
        match self {
            Self::Turns => turn,
            Self::Listed(rows) => u64::from(rows[turn as usize]),
            Self::Permuted(permutation) => permutation.at(turn),
            Self::Steps(steps) => u64::from(steps.listed()[turn as usize]),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Turns => 0,
            Self::Listed(rows) => rows.capacity() * size_of::<u32>(),
            Self::Permuted(permutation) => permutation.bytes(),
            Self::Steps(steps) => steps.bytes(),
        }
    }
}

impl EpochOrder {
    pub(super) fn new(all: Global, ranks: Option<Ranks>) -> Self {
        let samples = ranks.map_or(all.len, |ranks| ranks.rows(all.len));
        Self { all: Arc::new(all), ranks, samples }
    }

    /// Returns the number of samples of this rank.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// Returns the number of samples in the global order, before it is divided: none left out, no
    /// padding.
    #[must_use]
    pub fn global_samples(&self) -> u64 {
        self.all.len
    }

    /// Appends this rank's samples at `positions` to `visits`. Positions at or above
    /// [`samples`](Self::samples) are ignored, and on a single process those that only fill a step.
    pub fn visits(&self, positions: Range<u64>, visits: &mut Vec<SampleRef>) {
        let positions = positions.start..positions.end.min(self.samples);
        let is_alone = self.is_alone();
        visits.extend(positions.filter_map(|position| {
            let (position, is_padding) = self.global(position);
            let (visit, is_filling) = self.all.visit(position);
            let is_marked = self.ranks.is_some_and(Ranks::marks_padding);
            let is_padding = is_padding || is_filling && is_marked;
            (!is_filling || !is_alone).then_some(SampleRef { is_padding, ..visit })
        }));
    }

    /// Returns true if [`visits`](Self::visits) may return fewer samples than positions.
    pub(crate) fn may_be_short(&self) -> bool {
        self.is_alone() && matches!(self.all.rows, Rows::Steps(_))
    }

    /// Appends this rank's samples at `positions`, one for each position, for readers that read ahead: for a position
    /// without a row the sample of the last one before it.
    pub(crate) fn samples_at(&self, positions: Range<u64>, samples: &mut Vec<SampleId>) {
        let positions = positions.start..positions.end.min(self.samples);
        let is_alone = self.is_alone();
        samples.extend(positions.map(|position| match &self.all.rows {
            Rows::Steps(steps) if is_alone => {
                let row = self.all.rows.at(steps.own_place(self.global(position).0));
                self.all.subset.at(row)
            }
            _ => self.all.visit(self.global(position).0).0.sample,
        }));
    }

    fn is_alone(&self) -> bool {
        self.ranks.is_none_or(|ranks| ranks.world_size() == 1)
    }

    /// Returns the global position of a position in this rank, and whether it is padding.
    fn global(&self, position: u64) -> (u64, bool) {
        self.ranks.map_or((position, false), |ranks| ranks.position(position, self.all.len))
    }

    /// Returns all samples of this rank.
    #[must_use]
    pub fn visits_vec(&self) -> Vec<SampleRef> {
        let mut visits = vec![];
        self.visits(0..self.samples, &mut visits);
        visits
    }

    /// Returns the bytes that the order holds, without those of its [`Subset`].
    #[must_use]
    pub fn bytes(&self) -> usize {
        let copies = self.all.copies.as_ref().map_or(0, |copies| copies.before.capacity());
        let copies = copies * size_of::<u32>();
        self.all.rows.bytes() + copies
    }
}

impl Global {
    /// Returns the sample at a global position below `len`, and whether it only fills a step.
    fn visit(&self, position: u64) -> (SampleRef, bool) {
        let (turn, again, filling) = match (&self.rows, self.repeats) {
            (Rows::Steps(steps), _) => {
                let (turn, times) = steps.place(position);
                (turn, 0, times)
            }
            (_, 1) => (position, 0, 0),
            (_, repeats) => {
                (position / u64::from(repeats), (position % u64::from(repeats)) as u32, 0)
            }
        };
        let row = self.rows.at(turn);
        let before = self.copies.as_ref().map_or(0, |copies| copies.before[turn as usize]);
        let most = self.copies.as_ref().map_or(1, |copies| copies.most);
        let repeat = (before * self.repeats + again).saturating_add(filling.saturating_mul(most));
        let visit = SampleRef { sample: self.subset.at(row), repeat, is_padding: false };
        (visit, filling > 0)
    }
}

/// The rows of samples that come in several rows.
#[derive(Debug)]
pub(super) struct Copies {
    /// How often the sample of each turn came in earlier turns; 0 for a turn that does not come.
    before: Vec<u32>,
    /// The most rows of one sample.
    most: u32,
}

/// Returns how often the sample of each turn came before; `None` if none comes twice.
///
/// `duplicates` maps a row to the first row of its sample, if a sample is listed several times.
pub(super) fn copies(
    rows: &Rows,
    duplicates: Option<&[u32]>,
    subset: &Subset,
) -> Result<Option<Copies>, Error> {
    let turns = match rows {
        Rows::Listed(rows) => rows.len() as u64,
        Rows::Steps(steps) => steps.listed().len() as u64,
        Rows::Turns | Rows::Permuted(_) => subset.len(),
    };
    let mut seen = reserved(subset.len())?;
    seen.resize(subset.len() as usize, 0u32);
    let mut before: Vec<u32> = reserved(turns)?;
    before.resize(turns as usize, 0);
    let mut count = |turn: u64| {
        // The order was prepared, which checks that its rows can be counted.
        let row = rows.at(turn) as u32;
        let times =
            &mut seen[duplicates.map_or(row, |duplicates| duplicates[row as usize]) as usize];
        before[turn as usize] = *times;
        *times += 1;
    };
    match rows {
        Rows::Steps(steps) => steps.own_places().for_each(&mut count),
        _ => (0..turns).for_each(&mut count),
    }
    let most = before.iter().max().map_or(1, |before| before + 1);
    Ok((most > 1).then_some(Copies { before, most }))
}

#[cfg(test)]
mod tests {
    use crate::order::bucketed::Steps;
    use crate::order::prepare::SampleCount;
    use crate::order::{Order, Ranks, Subset, Uneven};
    use crate::sample::{Epoch, SampleId};

    /// Samples that are listed twice come as often, and each time with other draws, also where they fill a step.
    #[test]
    fn every_time_of_a_sample_has_its_own_number() {
        let steps = Steps { samples: 8, drops_rest: false };
        let listed = Subset::Listed([5, 5, 2].into());
        let prepared = Order::Bucketed.prepare_steps(&SampleCount(6), listed, steps).unwrap();
        let visits = |rank| {
            let ranks = Ranks::new(rank, 2, Uneven::Pad).unwrap();
            prepared.epoch(1, Epoch(0), Some(&ranks)).unwrap().visits_vec()
        };
        let all = [visits(0), visits(1)].concat();
        let mut numbered: Vec<_> = all.iter().map(|visit| (visit.sample, visit.repeat)).collect();
        numbered.sort_unstable();
        numbered.dedup();
        assert_eq!(numbered.len(), 8, "{all:?}");
        let alone = prepared.epoch(1, Epoch(0), None).unwrap().visits_vec();
        let mut alone: Vec<_> = alone.iter().map(|visit| (visit.sample.0, visit.repeat)).collect();
        alone.sort_unstable();
        assert_eq!(alone, [(2, 0), (5, 0), (5, 1)]);
    }

    /// Positions that become no row are told to readers ahead as the row before them, which is at hand.
    #[test]
    fn readers_ahead_get_the_rows_of_each_step_and_no_other_sample() {
        let order = |world| {
            let ranks = Ranks::new(0, world, Uneven::Pad).unwrap();
            let steps = Steps { samples: 4, drops_rest: false };
            let prepared =
                Order::Bucketed.prepare_steps(&SampleCount(11), Subset::All(11), steps).unwrap();
            prepared.epoch(1, Epoch(0), Some(&ranks)).unwrap()
        };
        let alone = order(1);
        assert!(alone.may_be_short());
        let (mut short, mut all) = (0, vec![]);
        for first in [0, 4, 8] {
            let (mut visits, mut ahead) = (vec![], vec![]);
            alone.visits(first..first + 4, &mut visits);
            alone.samples_at(first..first + 4, &mut ahead);
            let rows: Vec<SampleId> = visits.iter().map(|visit| visit.sample).collect();
            assert_eq!(ahead[..rows.len()], rows);
            assert!(
                ahead.len() == 4 && ahead[rows.len()..].iter().all(|id| rows.last() == Some(id))
            );
            short += usize::from(rows.len() == 3);
            all.extend(rows);
        }
        all.sort_unstable();
        assert!(short == 1 && all.iter().map(|id| id.0).eq(0..11));
        let shared = order(2);
        assert!(!shared.may_be_short());
        let mut ahead = vec![];
        shared.samples_at(0..6, &mut ahead);
        assert_eq!(ahead, shared.visits_vec().iter().map(|visit| visit.sample).collect::<Vec<_>>());
    }
}
