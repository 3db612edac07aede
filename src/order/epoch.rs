//! The order of one epoch: the sample at each position.
//!
//! ```text
//! position in a rank ─▶ global position ─▶ / repeats ─▶ row ─▶ sample
//!                                                       └▶ repeat = earlier rows of the sample * repeats
//!                                                                 + global position mod repeats
//! ```
//!
//! Cost: 4 bytes per row if the order is a list, none if it is sequential or permuted; 4 more if samples come several
//! times, unless all come equally often in a row.

use super::bucketed::Filling;
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
    /// How often the sample of each row came in earlier rows; `None` if never.
    pub(super) copies: Option<Vec<u32>>,
    /// How often each row comes in a row, at least 1.
    pub(super) repeats: u32,
    /// The positions that only fill a step, in order.
    pub(super) fillings: Vec<Filling>,
}

/// The row of each turn.
#[derive(Debug)]
pub(super) enum Rows {
    /// The turn itself.
    Turns,
    Listed(Vec<u32>),
    Permuted(Permutation),
}

impl Rows {
    fn at(&self, turn: u64) -> u64 {
        match self {
            Self::Turns => turn,
            Self::Listed(rows) => u64::from(rows[turn as usize]),
            Self::Permuted(permutation) => permutation.at(turn),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Turns => 0,
            Self::Listed(rows) => rows.capacity() * size_of::<u32>(),
            Self::Permuted(permutation) => permutation.bytes(),
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
        let is_alone = self.ranks.is_none_or(|ranks| ranks.world_size() == 1);
        visits.extend(positions.filter_map(|position| {
            let (position, is_padding) = self.global(position);
            let filling = self.all.filling(position);
            if filling.is_some() && is_alone {
                return None;
            }
            let is_marked = self.ranks.is_some_and(Ranks::marks_padding);
            let is_padding = is_padding || filling.is_some() && is_marked;
            let visit = self.all.visit(position);
            let repeat = filling.unwrap_or(visit.repeat);
            Some(SampleRef { is_padding, repeat, ..visit })
        }));
    }

    /// Appends this rank's samples at `positions`, one for each position, for readers that read ahead.
    pub(crate) fn samples_at(&self, positions: Range<u64>, samples: &mut Vec<SampleId>) {
        let positions = positions.start..positions.end.min(self.samples);
        samples.extend(positions.map(|position| self.all.visit(self.global(position).0).sample));
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
        let copies = self.all.copies.as_ref().map_or(0, Vec::capacity) * size_of::<u32>();
        let fillings = self.all.fillings.capacity() * size_of::<Filling>();
        self.all.rows.bytes() + copies + fillings
    }
}

impl Global {
    /// Returns how often the bucket's samples came before, at a position that only fills a step.
    fn filling(&self, position: u64) -> Option<u32> {
        let next = self.fillings.partition_point(|filling| filling.positions.end <= position);
        let filling = self.fillings.get(next).filter(|of| of.positions.contains(&position))?;
        let before = (position - filling.positions.start) / filling.bucket_rows.max(1);
        Some(u32::try_from(before + 1).unwrap_or(u32::MAX))
    }

    /// Returns the sample at a global position below `len`.
    fn visit(&self, position: u64) -> SampleRef {
        let (turn, again) = match self.repeats {
            1 => (position, 0),
            repeats => (position / u64::from(repeats), (position % u64::from(repeats)) as u32),
        };
        let row = self.rows.at(turn);
        let before = self.copies.as_ref().map_or(0, |copies| copies[turn as usize]);
        SampleRef {
            sample: self.subset.at(row),
            repeat: before * self.repeats + again,
            is_padding: false,
        }
    }
}

/// Returns how often the sample of each row came before; `None` if none comes twice.
///
/// `duplicates` maps a row to the first row of its sample, if a sample is listed several times.
pub(super) fn copies(
    rows: &Rows,
    duplicates: Option<&[u32]>,
    subset: &Subset,
) -> Result<Option<Vec<u32>>, Error> {
    let turns = if let Rows::Listed(rows) = rows { rows.len() as u64 } else { subset.len() };
    let mut seen = reserved(subset.len())?;
    seen.resize(subset.len() as usize, 0u32);
    let mut copies = reserved(turns)?;
    copies.extend((0..turns).map(|turn| {
        // The order was prepared, which checks that its rows can be counted.
        let row = rows.at(turn) as u32;
        let times =
            &mut seen[duplicates.map_or(row, |duplicates| duplicates[row as usize]) as usize];
        let before = *times;
        *times += 1;
        before
    }));
    Ok(copies.iter().any(|&copy| copy > 0).then_some(copies))
}
