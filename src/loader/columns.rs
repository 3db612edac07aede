//! The stored numbers of the samples of a chunk, gathered so that one call writes all their rows.
//!
//! ```text
//! sample 7: 3      sample 9: 5  ──gather──▶  [3, 5]  ──one call──▶  rows of samples 7 and 9
//! ```
//!
//! Labels are gathered, and arrays of at most [`GATHERED_BYTES`] bytes. A larger array is not copied: it is
//! converted from where it is stored, by a call of its own.

use super::work::{FieldPlan, OutputPlan};
use crate::device::DeviceOutput;
use crate::plan::ElementPlan;
use crate::plan::element_steps::{RowError, StepScratch};
use crate::source::Value;
use fuseloop_ops::internals::SampleKey;

/// The largest array that is gathered: to copy it takes less time than a call.
const GATHERED_BYTES: usize = 256;

/// The values of one output for consecutive rows of a chunk.
#[derive(Default)]
pub(super) struct Column {
    /// The first of the rows.
    pub(super) first: usize,
    /// The number of rows.
    pub(super) rows: usize,
    /// The component of the dataset that the samples belong to, and so the plan of the output.
    component: usize,
    stored: Vec<u8>,
    /// The keys of the samples, if ops draw for each of them.
    keys: Vec<SampleKey>,
}

impl OutputPlan {
    /// Returns the plan for the samples of a component if their values are gathered.
    pub(super) fn column_plan(&self, component: usize) -> Option<&ElementPlan> {
        match self.work_of(component) {
            // The host only writes the class.
            FieldPlan::Label(_) if matches!(self.device_output, Some(DeviceOutput::OneHot(_))) => {
                None
            }
            FieldPlan::Label(plan) => Some(plan),
            FieldPlan::Array(plan) if plan.rows().stored_bytes() <= GATHERED_BYTES => Some(plan),
            _ => None,
        }
    }
}

impl Column {
    /// Returns whether the value of a row can be added: it is the first, or the next one of its component.
    pub(super) fn takes(&self, row: usize, component: usize) -> bool {
        self.rows == 0 || (self.first + self.rows, self.component) == (row, component)
    }

    /// Adds the value of a row, for the sample of `key`.
    ///
    /// # Panics
    ///
    /// If the value does not have the bytes that the plan expects.
    pub(super) fn add(
        &mut self,
        plan: &ElementPlan,
        (row, component): (usize, usize),
        key: impl FnOnce() -> SampleKey,
        value: Value<'_>,
    ) {
        if self.rows == 0 {
            (self.first, self.component) = (row, component);
        }
        self.rows += 1;
        match value {
            Value::Int(label) => self.stored.extend_from_slice(&label.to_le_bytes()),
            Value::Float(number) => self.stored.extend_from_slice(&number.to_le_bytes()),
            Value::NdArray(elements) => self.stored.extend_from_slice(elements),
            other => unreachable!("a field's kind does not change: {other:?}"),
        }
        let rows = plan.rows();
        assert_eq!(self.stored.len(), self.rows * rows.stored_bytes(), "elements of an array");
        if rows.draws() {
            self.keys.push(key());
        }
    }

    /// Writes the rows of all values, and forgets them.
    ///
    /// # Errors
    ///
    /// If an op refuses the value of a row; rows count from the column's first.
    pub(super) fn write(
        &mut self,
        output: &OutputPlan,
        scratch: &mut StepScratch,
        rows: &mut [u8],
    ) -> Result<(), RowError> {
        let Self { stored, keys, .. } = self;
        let written = match output.column_plan(self.component) {
            Some(plan) => plan.run((self.rows, keys), stored, scratch, rows),
            None => Ok(()),
        };
        self.clear();
        written
    }

    /// Forgets all values.
    pub(super) fn clear(&mut self) {
        self.rows = 0;
        self.stored.clear();
        self.keys.clear();
    }
}
