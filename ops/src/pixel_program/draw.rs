//! The numbers that a pixel program draws for each image.

use crate::author::Rng;
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// The maximum number of numbers of a choice.
const MAX_CHOICES: usize = 256;

/// Whole numbers up to this one, of either sign, are all `f32`.
const MAX_INTEGER: f32 = 16_777_216.0;

/// How a number is drawn.
#[derive(Debug, PartialEq)]
pub(super) enum Draw {
    /// Uniform in `low..high`.
    Uniform(f32, f32),
    /// Of the normal distribution with this mean and deviation.
    Normal(f32, f32),
    /// A whole number from `low` on, one of `count`.
    Integers(f32, u32),
    /// One of these numbers.
    Choice(Vec<f32>),
}

impl Draw {
    /// Reads a draw; `None` if the numbers do not fit it.
    pub(super) fn read(kind: &str, numbers: &[f32]) -> Option<Self> {
        if !numbers.iter().all(|number| number.is_finite()) {
            return None;
        }
        match (kind, numbers) {
            ("uniform", &[low, high]) if low <= high && (high - low).is_finite() => {
                Some(Self::Uniform(low, high))
            }
            ("normal", &[mean, deviation]) if 0.0 <= deviation => {
                Some(Self::Normal(mean, deviation))
            }
            ("integers", &[low, high])
                if low < high
                    && numbers.iter().all(|n| n.fract() == 0.0 && n.abs() <= MAX_INTEGER) =>
            {
                Some(Self::Integers(low, (high - low) as u32))
            }
            ("choice", _) if (1..=MAX_CHOICES).contains(&numbers.len()) => {
                Some(Self::Choice(numbers.to_vec()))
            }
            _ => None,
        }
    }

    /// Returns the least and the largest number that may be drawn; `None` if there is none.
    pub(super) fn range(&self) -> Option<[f32; 2]> {
        match self {
            // The sum that draws a number may be rounded beyond `high`.
            Self::Uniform(low, high) => Some([*low, high.max(low + (high - low))]),
            Self::Normal(..) => None,
            Self::Integers(low, count) => Some([*low, low + (count - 1) as f32]),
            Self::Choice(numbers) => Some([
                numbers.iter().copied().fold(f32::INFINITY, f32::min),
                numbers.iter().copied().fold(f32::NEG_INFINITY, f32::max),
            ]),
        }
    }

    /// Draws a number.
    pub(super) fn number(&self, rng: &mut Rng) -> f32 {
        match self {
            Self::Uniform(low, high) => rng.uniform(*low, *high),
            Self::Normal(mean, deviation) => mean + rng.normal() * deviation,
            Self::Integers(low, count) => low + rng.below(*count) as f32,
            Self::Choice(numbers) => numbers[rng.below(numbers.len() as u32) as usize],
        }
    }
}

/// Returns names as plans keep them. Each distinct list is stored once and never freed.
pub(super) fn param_names(names: Vec<&'static str>) -> &'static [&'static str] {
    static LISTS: Mutex<BTreeSet<&'static [&'static str]>> = Mutex::new(BTreeSet::new());
    let mut lists = LISTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = lists.get(&names[..]) {
        return known;
    }
    let names: &'static [&'static str] = names.leak();
    lists.insert(names);
    names
}
