//! Class balanced: every class equally often.
//!
//! ```text
//! with replacement      each of n draws: a class, uniformly; then one of its samples, uniformly
//! without               as many samples of each class as the smallest class has, none twice; shuffled
//! ```
//!
//! | | |
//! |---|---|
//! | input | the class of each sample: the value of an int field |
//! | output | with: as many rows as the subset. Without: number of classes times the smallest one |
//! | random | seed and epoch |
//! | cost | at most 4 bytes a sample held |
//!
//! Only the classes in the subset count. Without replacement, each epoch has other samples of a large
//! class.

use super::groups::Groups;
use super::memory::reserved;
use super::random::{generator, shuffle};
use crate::error::Error;
use crate::sample::Epoch;
use fuseloop_ops::author::Rng;

pub(super) const NAME: &str = "class_balanced";

/// The classes, and how samples are drawn.
#[derive(Debug)]
pub(super) struct Balanced {
    classes: Groups,
    replacement: bool,
}

impl Balanced {
    /// Groups the rows by their classes.
    pub(super) fn new(classes: &[i64], replacement: bool) -> Result<Self, Error> {
        Ok(Self { classes: Groups::by(classes)?, replacement })
    }

    /// Returns the number of rows of an epoch.
    pub(super) fn len(&self) -> u32 {
        if self.replacement { self.classes.rows() } else { self.smallest() * self.classes.len() }
    }

    pub(super) fn rows(&self, seed: u64, epoch: Epoch) -> Result<Vec<u32>, Error> {
        let mut rng = generator(seed, epoch, NAME);
        if self.replacement {
            self.with_replacement(&mut rng)
        } else {
            self.without_replacement(&mut rng)
        }
    }

    /// Returns true if a row may come twice.
    pub(super) fn may_repeat(&self) -> bool {
        self.replacement
    }

    /// Returns the bytes held.
    pub(super) fn bytes(&self) -> usize {
        self.classes.bytes()
    }

    fn smallest(&self) -> u32 {
        (0..self.classes.len())
            .map(|class| self.classes.indices(class).len() as u32)
            .min()
            .unwrap_or(0)
    }

    fn with_replacement(&self, rng: &mut Rng) -> Result<Vec<u32>, Error> {
        let mut rows = reserved(u64::from(self.len()))?;
        rows.extend((0..self.len()).map(|_| {
            let indices = self.classes.indices(rng.below(self.classes.len()));
            self.classes.row(indices.start + rng.below(indices.end - indices.start))
        }));
        Ok(rows)
    }

    fn without_replacement(&self, rng: &mut Rng) -> Result<Vec<u32>, Error> {
        let smallest = self.smallest() as usize;
        let mut rows = reserved(u64::from(self.len()))?;
        let mut class: Vec<u32> = vec![];
        for indices in (0..self.classes.len()).map(|class| self.classes.indices(class)) {
            class.clear();
            class.extend(indices.map(|index| self.classes.row(index)));
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
