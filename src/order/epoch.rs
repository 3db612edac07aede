//! The order of one epoch: what comes at a place.
//!
//! ```text
//! place of a rank ─▶ place of all ─▶ / repeats ─▶ row ─▶ sample
//!                                                └▶ copy = rows of the sample before * repeats
//!                                                          + place mod repeats
//! ```
//!
//! 4 bytes a row where an order is drawn, none where it is sequential; 4 more where samples come
//! several times, unless each comes equally often in a row.

use super::memory::reserved;
use super::{OrderError, Ranks, Subset};
use crate::sample::Visit;
use std::ops::Range;
use std::sync::Arc;

/// The visits of one epoch, on one rank. A clone shares its memory.
#[derive(Clone, Debug)]
pub struct EpochOrder {
    all: Arc<Global>,
    ranks: Option<Ranks>,
    samples: u64,
}

/// The order of all ranks.
#[derive(Debug)]
pub(super) struct Global {
    pub(super) subset: Subset,
    /// How many visits.
    pub(super) places: u64,
    /// The row of each place, or of each `repeats` places; `None` where it is the place.
    pub(super) rows: Option<Vec<u32>>,
    /// How many times each row's sample came in rows before; `None` where never.
    pub(super) copies: Option<Vec<u32>>,
    /// Times that each row comes, one after the other: at least 1.
    pub(super) repeats: u32,
}

impl EpochOrder {
    pub(super) fn new(all: Global, ranks: Option<Ranks>) -> Self {
        let samples = ranks.map_or(all.places, |ranks| ranks.rows(all.places));
        Self { all: Arc::new(all), ranks, samples }
    }

    /// Visits of this rank.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// Visits in the order of all ranks, before they are shared out: none left out, no padding.
    #[must_use]
    pub fn global_samples(&self) -> u64 {
        self.all.places
    }

    /// Appends this rank's visits at `places` to `visits`: those below [`samples`](Self::samples).
    pub fn visits(&self, places: Range<u64>, visits: &mut Vec<Visit>) {
        let places = places.start..places.end.min(self.samples);
        visits.extend(places.map(|place| match self.ranks {
            None => self.all.visit(place),
            Some(ranks) => {
                let (place, is_padding) = ranks.place(place, self.all.places);
                Visit { is_padding, ..self.all.visit(place) }
            }
        }));
    }

    /// All visits of this rank.
    #[must_use]
    pub fn visits_vec(&self) -> Vec<Visit> {
        let mut visits = vec![];
        self.visits(0..self.samples, &mut visits);
        visits
    }

    /// Bytes that the order holds, without those of its [`Subset`].
    #[must_use]
    pub fn bytes(&self) -> usize {
        let of = |list: &Option<Vec<u32>>| list.as_ref().map_or(0, Vec::capacity);
        (of(&self.all.rows) + of(&self.all.copies)) * size_of::<u32>()
    }
}

impl Global {
    /// What comes at a place below `places`.
    fn visit(&self, place: u64) -> Visit {
        let (turn, again) = match self.repeats {
            1 => (place, 0),
            repeats => (place / u64::from(repeats), (place % u64::from(repeats)) as u32),
        };
        let row = self.rows.as_ref().map_or(turn, |rows| u64::from(rows[turn as usize]));
        let before = self.copies.as_ref().map_or(0, |copies| copies[turn as usize]);
        Visit {
            sample: self.subset.at(row),
            copy: before * self.repeats + again,
            is_padding: false,
        }
    }
}

/// How often the sample of each row came before; `None` if none comes twice.
///
/// `twins` maps a row to the first row of its sample, if a sample is listed several times.
pub(super) fn copies(
    rows: Option<&[u32]>,
    twins: Option<&[u32]>,
    subset: &Subset,
) -> Result<Option<Vec<u32>>, OrderError> {
    let turns = rows.map_or(subset.len(), |rows| rows.len() as u64);
    let mut seen = reserved(subset.len())?;
    seen.resize(subset.len() as usize, 0u32);
    let mut copies = reserved(turns)?;
    copies.extend((0..turns as usize).map(|turn| {
        let row = rows.map_or(turn as u32, |rows| rows[turn]);
        let times = &mut seen[twins.map_or(row, |twins| twins[row as usize]) as usize];
        let before = *times;
        *times += 1;
        before
    }));
    Ok(copies.iter().any(|&copy| copy > 0).then_some(copies))
}
