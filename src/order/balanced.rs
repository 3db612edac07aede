//! Class balanced: each class as often as any other.
//!
//! ```text
//! with replacement      each of n draws: a class, each as likely; then a sample of it, each as likely
//! without               of each class as many samples as the smallest has, none twice; shuffled
//! ```
//!
//! | | |
//! |---|---|
//! | input | the class of each sample: the value of an int field |
//! | output | with: as many rows as the subset has. Without: classes times the smallest of them |
//! | random | seed and epoch |
//! | cost | at most 4 bytes a sample held |
//!
//! Classes are those of the subset. Without replacement, other samples of a large class come in
//! each epoch.

use super::OrderError;
use super::groups::Groups;
use super::memory::reserved;
use super::random::{generator, shuffle};
use crate::sample::Epoch;
use fuseloop_ops::Rng;

pub(super) const NAME: &str = "class_balanced";

/// The classes, and how they are drawn from.
#[derive(Debug)]
pub(super) struct Balanced {
    classes: Groups,
    replacement: bool,
}

impl Balanced {
    /// Of the class of each row.
    pub(super) fn new(classes: &[i64], replacement: bool) -> Result<Self, OrderError> {
        Ok(Self { classes: Groups::by(classes)?, replacement })
    }

    /// Rows of an epoch.
    pub(super) fn len(&self) -> u32 {
        if self.replacement { self.classes.rows() } else { self.smallest() * self.classes.len() }
    }

    pub(super) fn rows(&self, seed: u64, epoch: Epoch) -> Result<Vec<u32>, OrderError> {
        let mut rng = generator(seed, epoch, NAME);
        if self.replacement {
            self.with_replacement(&mut rng)
        } else {
            self.without_replacement(&mut rng)
        }
    }

    /// Whether a row may come twice.
    pub(super) fn may_repeat(&self) -> bool {
        self.replacement
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> usize {
        self.classes.bytes()
    }

    fn smallest(&self) -> u32 {
        (0..self.classes.len())
            .map(|class| self.classes.places(class).len() as u32)
            .min()
            .unwrap_or(0)
    }

    fn with_replacement(&self, rng: &mut Rng) -> Result<Vec<u32>, OrderError> {
        let mut rows = reserved(u64::from(self.len()))?;
        rows.extend((0..self.len()).map(|_| {
            let places = self.classes.places(rng.below(self.classes.len()));
            self.classes.row(places.start + rng.below(places.end - places.start))
        }));
        Ok(rows)
    }

    fn without_replacement(&self, rng: &mut Rng) -> Result<Vec<u32>, OrderError> {
        let smallest = self.smallest() as usize;
        let mut rows = reserved(u64::from(self.len()))?;
        let mut class: Vec<u32> = vec![];
        for places in (0..self.classes.len()).map(|class| self.classes.places(class)) {
            class.clear();
            class.extend(places.map(|place| self.classes.row(place)));
            for taken in 0..smallest {
                let left = (class.len() - taken) as u32;
                class.swap(taken, taken + rng.below(left) as usize);
            }
            rows.extend_from_slice(&class[..smallest]);
        }
        shuffle(rng, &mut rows);
        Ok(rows)
    }
}
