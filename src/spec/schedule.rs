//! A number that follows the epoch: progressive resizing, growing magnitudes.
//!
//! ```text
//! { from, to, epochs, step }
//!
//! first, last = epochs              if it is a pair
//!               0, epochs - 1       if it is a number: that many epochs, the last one has `to`
//! t     = clamp((epoch - first) / (last - first), 0, 1)
//! value = from + (to - from) * t
//! value = round_half_even(value / step) * step      if there is a step
//! ```
//!
//! The value is a whole number (rounded half to even) if `from`, `to` and `step` are; otherwise it is a
//! float. FFCV's ImageNet recipe is `{ from = 160, to = 192, epochs = [65, 76], step = 32 }`.

use crate::sample::Epoch;
use fuseloop_ops::ParamError;
use fuseloop_ops::internals::registry::{
    OpArgs, ParamInfo, ParamKind, ParamValue, SpecData, SpecEntry, SpecError, SpecTable, SpecValue,
    optional, required,
};
use std::collections::BTreeSet;

/// Most epochs of a file in which numbers start or stop changing; the ops are built once for each of
/// them.
const MAX_CHANGE_EPOCHS: usize = 128;

const PARAMS: &[ParamInfo] = &[
    required("from", ParamKind::Number, ParamValue::Int(128), "the first value"),
    required("to", ParamKind::Number, ParamValue::Int(224), "the last value"),
    required(
        "epochs",
        ParamKind::NumberOrRange,
        ParamValue::Int(16),
        "number of epochs, or [first, last]",
    ),
    optional("step", ParamKind::Number, "values are multiples of it"),
];

/// The name in error messages.
const OWNER: &str = "a number that follows the epoch";

/// A number that follows the epoch; see the module's documentation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Schedule {
    from: f64,
    to: f64,
    first: u32,
    last: u32,
    step: Option<f64>,
    whole: bool,
}

impl Schedule {
    /// Returns a schedule from `from`, in epoch `first` and before, to `to`, in epoch `last` and after.
    ///
    /// # Errors
    ///
    /// If a number is not within `-1e9..=1e9`, or `last` is not after `first`.
    pub fn new(from: f64, to: f64, first: u32, last: u32) -> Result<Self, ParamError> {
        for (param, value) in [("from", from), ("to", to)] {
            if !(-LARGEST..=LARGEST).contains(&value) {
                return Err(ParamError::new(OWNER, param, value, "-1e9..=1e9"));
            }
        }
        if first >= last {
            let found = format!("[{first}, {last}]");
            let expected = "2 or more, or [first, last] with first < last";
            return Err(ParamError::new(OWNER, "epochs", found, expected));
        }
        Ok(Self { from, to, first, last, step: None, whole: false })
    }

    /// Restricts the values to multiples of `step`.
    ///
    /// # Errors
    ///
    /// If `step` is not in `1e-9..=1e9`.
    pub fn step(mut self, step: f64) -> Result<Self, ParamError> {
        if !(1.0 / LARGEST..=LARGEST).contains(&step) {
            return Err(ParamError::new(OWNER, "step", step, "1e-9..=1e9"));
        }
        self.step = Some(step);
        Ok(self)
    }

    /// Returns the value in an epoch.
    #[must_use]
    pub fn at(&self, epoch: Epoch) -> f64 {
        let (epoch, first, last) = (epoch.index(), self.first, self.last);
        let value = match epoch {
            epoch if epoch <= first => self.from,
            epoch if epoch >= last => self.to,
            _ => {
                let t = f64::from(epoch - first) / f64::from(last - first);
                self.from + (self.to - self.from) * t
            }
        };
        self.step.map_or(value, |step| (value / step).round_ties_even() * step)
    }

    fn datum(&self, epoch: Epoch) -> SpecData {
        let value = self.at(epoch);
        #[expect(clippy::cast_possible_truncation, reason = "at most 1e9 by its check")]
        let rounded = || value.round_ties_even() as i64;
        if self.whole { SpecData::Int(rounded()) } else { SpecData::Float(value) }
    }

    fn of(args: &OpArgs<'_>, whole: bool) -> Result<Self, SpecError> {
        let (first, last) = if args.is_list("epochs")? {
            args.pair_u32("epochs").map(|[first, last]| (first, last))?
        } else {
            (0, args.u32("epochs")?.saturating_sub(1))
        };
        let schedule = Self::new(args.float("from")?, args.float("to")?, first, last)?;
        let schedule = match args.if_given("step", OpArgs::float)? {
            Some(step) => schedule.step(step)?,
            None => schedule,
        };
        Ok(Self { whole, ..schedule })
    }
}

/// Far above every size and factor, and exact as an integer.
const LARGEST: f64 = 1e9;

/// Returns the schedule that a table describes, if it is one: it has a `from`, and is no op.
fn schedule(value: &SpecValue) -> Option<Result<Schedule, SpecError>> {
    let SpecData::Table(table) = &value.datum else { return None };
    if table.get("from").is_none() || table.get("op").is_some() {
        return None;
    }
    let is_whole =
        |name| matches!(table.get(name).map(|v| &v.datum), None | Some(SpecData::Int(_)));
    let whole = ["from", "to", "step"].into_iter().all(is_whole);
    Some(OpArgs::with(OWNER, PARAMS, table, value.at, |args| Schedule::of(args, whole)))
}

/// Adds the epochs in which numbers start and stop changing.
pub(super) fn change_epochs(
    value: &SpecValue,
    epochs: &mut BTreeSet<u32>,
) -> Result<(), SpecError> {
    if let Some(schedule) = schedule(value) {
        let Schedule { first, last, .. } = schedule?;
        epochs.extend([first, last]);
        if epochs.len() > MAX_CHANGE_EPOCHS {
            let found = format!("[{first}, {last}]");
            let expected = "at most 128 different epochs in a file";
            return Err(
                SpecError::from(ParamError::new(OWNER, "epochs", found, expected)).at(value.at)
            );
        }
        return Ok(());
    }
    match &value.datum {
        SpecData::List(values) => values.iter().try_for_each(|value| change_epochs(value, epochs)),
        SpecData::Table(table) => {
            table.0.iter().try_for_each(|entry| change_epochs(&entry.value, epochs))
        }
        _ => Ok(()),
    }
}

/// Returns true if a number follows the epoch.
pub(super) fn changes(value: &SpecValue) -> bool {
    match &value.datum {
        _ if schedule(value).is_some() => true,
        SpecData::List(values) => values.iter().any(changes),
        SpecData::Table(table) => table.0.iter().any(|entry| changes(&entry.value)),
        _ => false,
    }
}

/// Returns the same value with every schedule replaced by its number in `epoch`.
pub(super) fn at_epoch(value: &SpecValue, epoch: Epoch) -> Result<SpecValue, SpecError> {
    let datum = match (schedule(value), &value.datum) {
        (Some(schedule), _) => schedule?.datum(epoch),
        (None, SpecData::List(values)) => SpecData::List(
            values.iter().map(|value| at_epoch(value, epoch)).collect::<Result<_, _>>()?,
        ),
        (None, SpecData::Table(table)) => {
            let at_epoch = |entry: &SpecEntry| {
                Ok(SpecEntry { value: at_epoch(&entry.value, epoch)?, ..entry.clone() })
            };
            SpecData::Table(SpecTable(
                table.0.iter().map(at_epoch).collect::<Result<_, SpecError>>()?,
            ))
        }
        (None, datum) => datum.clone(),
    };
    Ok(SpecValue { datum, at: value.at })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(schedule: Schedule, epochs: impl IntoIterator<Item = u32>) -> Vec<f64> {
        epochs.into_iter().map(|epoch| schedule.at(Epoch(epoch))).collect()
    }

    #[test]
    fn the_first_epoch_has_from_and_the_last_and_all_after_have_to() {
        let schedule = Schedule::new(128.0, 224.0, 0, 3).unwrap();
        assert_eq!(
            values(schedule, [0, 1, 2, 3, 4, u32::MAX]),
            [128.0, 160.0, 192.0, 224.0, 224.0, 224.0]
        );
        let down = Schedule::new(0.9, 0.1, 2, 4).unwrap();
        assert_eq!(values(down, [0, 2, 3, 4]), [0.9, 0.9, 0.5, 0.1]);
    }

    /// `np.interp([epoch], [65, 76], [160, 192])`, then `int(np.round(x / 32)) * 32`.
    #[test]
    fn ffcv_s_recipe_gives_ffcv_s_sizes() {
        let schedule = Schedule::new(160.0, 192.0, 65, 76).unwrap().step(32.0).unwrap();
        assert_eq!(
            values(schedule, [0, 65, 70, 71, 76, 90]),
            [160.0, 160.0, 160.0, 192.0, 192.0, 192.0]
        );
    }

    #[test]
    fn halves_are_rounded_to_the_even_multiple() {
        let schedule = Schedule::new(0.0, 96.0, 0, 6).unwrap().step(32.0).unwrap();
        assert_eq!(values(schedule, 0..=6), [0.0, 0.0, 32.0, 64.0, 64.0, 64.0, 96.0]);
    }

    #[test]
    fn what_does_not_go_from_one_epoch_to_a_later_is_refused() {
        assert!(Schedule::new(0.0, 1.0, 3, 3).is_err() && Schedule::new(0.0, 1.0, 4, 3).is_err());
        assert!(Schedule::new(f64::NAN, 1.0, 0, 3).is_err());
        let schedule = Schedule::new(0.0, 1.0, 0, 3).unwrap();
        for step in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(schedule.step(step).is_err(), "{step}");
        }
    }
}
