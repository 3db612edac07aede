//! The contents of a dataset, and whether it is whole.

use crate::batch::int64;
use crate::dataset::Dataset;
use crate::errors;
use crate::task::Task;
use fuseloop::CancelFlag;
use fuseloop::internals::info::DatasetSummary;
use fuseloop::internals::verify::{report_json, verify_with_tables};
use fuseloop::source;
use fuseloop::verify::VerifyOptions;
use pyo3::prelude::*;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Returns what a dataset holds, from its tables alone: as text, and as JSON.
#[pyfunction]
pub(crate) fn dataset_info(py: Python<'_>, dataset: &Dataset) -> PyResult<(String, String)> {
    let opened = source::Dataset::clone(&dataset.dataset);
    let work = move || Ok(DatasetSummary::of(&opened));
    let info = Task::start(CancelFlag::new(), work)?.left_behind().wait(py, || Ok(()))?;
    let info = info.map_err(|error| errors::setting(py, &error.to_string()))?;
    Ok((info.to_string(), info.to_json().to_string()))
}

/// Checks every value of a dataset. Returns the report as text and as JSON, and the samples without damage.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "fuseloop/_checks.py has names for them")]
pub(crate) fn verify<'py>(
    py: Python<'py>,
    dataset: &Dataset,
    limit: Option<u64>,
    threads: Option<usize>,
    audio: Vec<String>,
    video: Vec<String>,
    part: [Option<String>; 2],
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<(String, String, Bound<'py, PyAny>)> {
    let source = dataset.dataset.source().ok_or_else(|| {
        let text = format!("{}: it can only be read in sequence: unpack it first", dataset.name);
        errors::setting(py, &text)
    })?;
    let none = || errors::setting(py, "threads is 0: give 1 or more");
    let threads = threads.map(|threads| NonZeroUsize::new(threads).ok_or_else(none)).transpose()?;
    let opened = source::Dataset::clone(&dataset.dataset);
    let cancel = CancelFlag::new();
    let (cancels, [start_field, end_field]) = (cancel.clone(), part);
    let options = VerifyOptions {
        threads,
        limit,
        audio,
        video,
        start_field,
        end_field,
        cancel: cancels,
        ..VerifyOptions::default()
    };
    let total = source.len().min(limit.unwrap_or(u64::MAX));
    let done = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&done);
    let work = move || {
        let add = |samples| {
            counter.fetch_add(samples, Ordering::Relaxed);
        };
        verify_with_tables(&opened, &*source, &options, &add)
    };
    let tell = || {
        let Some(progress) = progress else { return Ok(()) };
        progress.call1((done.load(Ordering::Relaxed), total)).map(drop)
    };
    let report = Task::start(cancel, work)?.left_behind().wait(py, tell)?;
    tell()?;
    let good: Vec<i64> = report.good().map(|sample| sample.0.cast_signed()).collect();
    Ok((report.to_string(), report_json(&report).to_string(), int64(py, &good)?))
}
