//! What a loader shows of its samples: sheets of pictures, and what was drawn for one sample.

use crate::call::detached;
use crate::loader::Loader;
use crate::task::Task;
use fuseloop::internals::jit::unsupported;
use fuseloop::internals::loader::{Inspected, no_image_output, of_number};
use fuseloop::internals::plan::{DrawnOp, OpOutcome};
use fuseloop::ops::author::Type;
use fuseloop::preview as library;
use fuseloop::{CancelFlag, Error};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

/// A sheet of pictures with captions.
#[pyclass(frozen, module = "fuseloop._fuseloop")]
pub(crate) struct Sheet(library::Sheet);

#[pymethods]
impl Sheet {
    #[getter]
    fn width(&self) -> u32 {
        self.0.width()
    }

    #[getter]
    fn height(&self) -> u32 {
        self.0.height()
    }

    #[getter]
    fn damaged(&self) -> Vec<u64> {
        self.0.damaged().to_vec()
    }

    /// Returns the sheet as a PNG file.
    fn png<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &detached(py, || self.0.png())?))
    }

    /// Returns the sheet as a JPEG file.
    fn jpeg<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &detached(py, || self.0.jpeg())?))
    }

    /// Returns the pixels, row by row, as red, green, blue.
    fn rgb<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.0.rgb())
    }
}

/// Draws a sheet of samples. `lists` has the lists by epoch of each epoch.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "fuseloop/_preview.py has names for them")]
pub(crate) fn preview(
    py: Python<'_>,
    loader: &Loader,
    samples: usize,
    epoch: u32,
    epochs: u32,
    each_op: bool,
    output: Option<String>,
    bands: Vec<usize>,
    lists: Vec<Bound<'_, PyDict>>,
) -> PyResult<Sheet> {
    let given_lists = loader.lists.give_from(epoch, &lists)?;
    let (loader, cancel) = (loader.get(py)?, CancelFlag::new());
    let given = cancel.clone();
    let options =
        library::PreviewOptions { samples, epoch, epochs, each_op, output, bands, cancel: given };
    let task = Task::start(cancel, move || {
        let _given = given_lists;
        loader.preview(&options)
    })?;
    task.left_behind().wait(py, || Ok(())).map(Sheet)
}

/// An inspected sample: all that does not need Python.
struct Found {
    output: String,
    inspected: Inspected,
    ops: Vec<DrawnOp>,
    labels: Vec<String>,
    /// The type of the output, in words.
    description: String,
    /// True if compiled and evaluated pixels are the same.
    agrees: bool,
    /// The objects before and after the ops, in lines of words and as JSON, if the output has targets.
    targets: Option<(Vec<String>, String)>,
}

/// Returns what was drawn for a sample, and the stored image.
#[pyfunction]
pub(crate) fn inspect<'py>(
    py: Python<'py>,
    loader: &Loader,
    sample: u64,
    epoch: u32,
    output: Option<String>,
    lists: Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyDict>> {
    let _given = loader.lists.give(epoch, &lists)?;
    let loader = loader.get(py)?;
    let found = detached(py, || found(&loader, sample, epoch, output.as_deref()))?;
    let dict = PyDict::new(py);
    let Inspected { wanted, pixels, .. } = &found.inspected;
    let size = found.inspected.draws.source;
    let decoded = found.inspected.run_draws().source;
    dict.set_item("field", found.output)?;
    dict.set_item("size", (size.height, size.width))?;
    dict.set_item("decoded", (decoded.height, decoded.width))?;
    dict.set_item("window", (wanted.top, wanted.left, wanted.height, wanted.width))?;
    let ops = found.ops.into_iter().map(|op| (op.name, outcome(op.outcome), op.words));
    dict.set_item("ops", ops.collect::<Vec<_>>())?;
    dict.set_item("labels", found.labels)?;
    dict.set_item("output", found.description)?;
    dict.set_item("agrees", found.agrees)?;
    let (objects, targets) = found.targets.unzip();
    dict.set_item("objects", objects.unwrap_or_default())?;
    dict.set_item("targets", targets)?;
    dict.set_item("not_compiled", unsupported().map(|reason| reason.to_string()))?;
    dict.set_item("image", PyBytes::new(py, pixels))?;
    Ok(dict)
}

fn found(
    loader: &fuseloop::Loader,
    sample: u64,
    epoch: u32,
    output: Option<&str>,
) -> Result<Found, Error> {
    let output = loader.image_output(output)?;
    let Some(mut inspector) = loader.inspect(&output, epoch)? else {
        return Err(no_image_output(&output));
    };
    let failed = |error| of_number(sample, error);
    let inspected = inspector.sample(sample).map_err(failed)?;
    let plan = inspected.kernel.plan();
    let ops = inspected.draws.describe(plan);
    let agrees = inspector.agrees(&inspected).map_err(failed)?;
    let targets = inspector.targets(&inspected).map_err(failed)?;
    let targets = targets.map(|targets| (targets.describe(), targets.to_json().to_string()));
    let (labels, description) = (loader.labels(sample), Type::Image(plan.output()).to_string());
    Ok(Found { output, ops, labels, description, agrees, targets, inspected })
}

fn outcome(outcome: OpOutcome) -> &'static str {
    match outcome {
        OpOutcome::Runs => "runs",
        OpOutcome::Skipped => "skipped",
        OpOutcome::NotChosen => "not chosen",
    }
}
