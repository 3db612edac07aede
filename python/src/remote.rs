//! How this process reads remote objects, and what it has requested.

use crate::call::detached;
use crate::settings::get;
use fuseloop::source::remote::{self, RemoteOptions};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;

/// Sets the options of the environment, and those that are passed, by their names in Rust.
#[pyfunction]
pub(crate) fn set_remote(py: Python<'_>, given: &Bound<'_, PyDict>) -> PyResult<()> {
    let mut options = detached(py, RemoteOptions::from_env)?;
    if let Some(most) = get::<NonZeroUsize>(given, "max_requests")? {
        options.max_requests = Some(most);
    }
    if let Some(rate) = get::<NonZeroU32>(given, "requests_per_second")? {
        options.requests_per_second = Some(rate);
    }
    if let Some(budget) = get::<f64>(given, "retry_budget")? {
        options.retry_budget = budget;
    }
    if let Some(budget) = get::<f64>(given, "hedge_budget")? {
        options.hedge_budget = budget;
    }
    if let Some(folder) = get::<PathBuf>(given, "cache_dir")? {
        options.cache_dir = Some(folder);
    }
    if let Some(bytes) = get::<u64>(given, "cache_bytes")? {
        options.cache_bytes = Some(bytes);
    }
    detached(py, || remote::set_options(&options))
}

/// Returns the counts of requests by their names.
#[pyfunction]
pub(crate) fn remote_stats(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let stats = remote::stats();
    let counts = PyDict::new(py);
    counts.set_item("requests", stats.requests)?;
    counts.set_item("bytes", stats.bytes)?;
    counts.set_item("retries", stats.retries)?;
    counts.set_item("hedges", stats.hedges)?;
    counts.set_item("hedges_won", stats.hedges_won)?;
    counts.set_item("cached_bytes", stats.cached_bytes)?;
    counts.set_item("awaited_blocks", stats.awaited_blocks)?;
    Ok(counts)
}
