//! Loaders: built from settings, and what they tell of themselves.

use crate::batch::Batch;
use crate::call::{Owner, detached, drop_detached};
use crate::dataset::{Dataset, class_names};
use crate::epoch::Epoch;
use crate::errors;
use crate::settings::{self, EpochLists};
use crate::tensor::dtype_name;
use fuseloop::Spec;
use fuseloop::loader::{Cursor, FingerprintLog, Phase};
use fuseloop::sample::UNKNOWN;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// The damaged samples (number, epoch, error), the number of rows lost, and whether there are more.
type Quarantine = (Vec<(u64, u32, String)>, u64, bool);

/// A dataset and its pipelines.
#[pyclass(frozen, module = "fuseloop._fuseloop", weakref)]
pub(crate) struct Loader {
    /// `None` when it was closed.
    loader: Mutex<Option<Arc<fuseloop::Loader>>>,
    pub(crate) lists: EpochLists,
    owner: Owner,
}

impl Loader {
    pub(crate) fn get(&self, py: Python<'_>) -> PyResult<Arc<fuseloop::Loader>> {
        if self.owner.is_forked() {
            return Err(errors::forked(py, "loader"));
        }
        let loader = self.loader.lock().unwrap_or_else(PoisonError::into_inner).clone();
        loader.ok_or_else(|| errors::setting(py, "the loader was closed"))
    }
}

#[pymethods]
impl Loader {
    /// Builds a loader of `dataset`. `pipeline` is a pipeline file, whose settings come first.
    #[new]
    #[pyo3(signature = (dataset, settings, epoch_lists, pipeline = None))]
    fn new(
        py: Python<'_>,
        dataset: &Dataset,
        settings: &Bound<'_, PyDict>,
        epoch_lists: &Bound<'_, PyDict>,
        pipeline: Option<PathBuf>,
    ) -> PyResult<Self> {
        let lists = EpochLists::default();
        let _given = lists.give(0, epoch_lists)?;
        let mut builder = fuseloop::Loader::from_dataset(dataset.dataset.clone());
        if let Some(path) = pipeline {
            let spec = detached(py, || Spec::open(&path))?;
            builder = spec.apply(builder);
        }
        let builder = settings::apply(builder, settings, &lists)?;
        let loader = detached(py, || builder.build())?;
        let loader = Mutex::new(Some(Arc::new(loader)));
        Ok(Self { loader, lists, owner: Owner::current() })
    }

    /// Starts an epoch.
    fn epoch(&self, py: Python<'_>, epoch: u32, lists: &Bound<'_, PyDict>) -> PyResult<Epoch> {
        let loader = self.get(py)?;
        let _given = self.lists.give(epoch, lists)?;
        let batches = detached(py, || loader.epoch(epoch))?;
        Ok(Epoch::new(&loader, batches))
    }

    /// Starts the rest of an epoch.
    fn resume(&self, py: Python<'_>, cursor: &str, lists: &Bound<'_, PyDict>) -> PyResult<Epoch> {
        let loader = self.get(py)?;
        let cursor: Cursor = cursor.parse().map_err(|error| errors::raised(py, &error))?;
        let _given = self.lists.give(cursor.epoch, lists)?;
        let batches = detached(py, || loader.resume(&cursor))?;
        Ok(Epoch::new(&loader, batches))
    }

    /// Continues an epoch with the current pipelines.
    fn renew(
        &self,
        py: Python<'_>,
        epoch: &Epoch,
        lists: &Bound<'_, PyDict>,
    ) -> PyResult<Option<Epoch>> {
        let loader = self.get(py)?;
        let Some(batches) = epoch.take_batches(py)? else { return Ok(None) };
        let _given = self.lists.give(batches.epoch().index(), lists)?;
        let batches = detached(py, || loader.renew(batches))?;
        Ok(Some(Epoch::new(&loader, batches)))
    }

    /// Replaces the ops of outputs: each by a list, or by the list of each epoch if it is None. `lists` are those of
    /// `epoch`, which comes next.
    fn set_ops(
        &self,
        py: Python<'_>,
        changes: Vec<(String, Bound<'_, PyAny>)>,
        epoch: u32,
        lists: &Bound<'_, PyDict>,
    ) -> PyResult<()> {
        let loader = self.get(py)?;
        let _given = self.lists.give(epoch, lists)?;
        let pipelines = changes.iter().map(|(output, list)| {
            self.lists.pipeline(output, list).map(|pipeline| (output.clone(), pipeline))
        });
        let pipelines = pipelines.collect::<PyResult<Vec<_>>>()?;
        detached(py, || {
            let changes = pipelines.iter().map(|(output, list)| (&**output, list.clone()));
            loader.set_pipelines_for(epoch, changes)
        })
    }

    /// Returns any samples as one batch.
    fn get_samples(
        &self,
        py: Python<'_>,
        indices: &Bound<'_, PyAny>,
        epoch: u32,
        lists: &Bound<'_, PyDict>,
    ) -> PyResult<Batch> {
        let (loader, ids) = (self.get(py)?, settings::ids(indices)?);
        let _given = self.lists.give(epoch, lists)?;
        Ok(Batch::new(detached(py, || loader.get(&ids, epoch))?))
    }

    /// Returns the cursor of the beginning of epoch 0.
    fn beginning(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.get(py)?.beginning().to_string())
    }

    /// Returns the epoch of a cursor, unless it is of another dataset, order or seed. If it is the next epoch, which has not
    /// begun, other ops are no reason to refuse it.
    fn epoch_of(&self, py: Python<'_>, cursor: &str, next_epoch: u64) -> PyResult<u32> {
        let loader = self.get(py)?;
        let checked = cursor.parse::<Cursor>().and_then(|cursor| {
            match u64::from(cursor.epoch) == next_epoch {
                true => loader.check_beginning(&cursor)?,
                false => loader.check_cursor(&cursor)?,
            }
            Ok(cursor.epoch)
        });
        checked.map_err(|error| errors::raised(py, &error))
    }

    /// Returns the cursor that is a number of batches later.
    fn advanced(&self, py: Python<'_>, cursor: &str, batches: u64) -> PyResult<String> {
        let loader = self.get(py)?;
        let advanced = detached(py, || loader.advanced(&cursor.parse::<Cursor>()?, batches))?;
        Ok(advanced.to_string())
    }

    /// Returns the fingerprint of the batch that was delivered last.
    fn last_fingerprint(&self, py: Python<'_>) -> PyResult<Option<String>> {
        Ok(self.get(py)?.last_fingerprint().map(|print| format!("{print:016x}")))
    }

    /// Appends a line for each batch to a file, or ends that.
    fn log_fingerprints(&self, py: Python<'_>, path: Option<PathBuf>, ids: bool) -> PyResult<()> {
        let loader = self.get(py)?;
        detached(py, || {
            let log = path.map(FingerprintLog::open).transpose()?;
            loader.log_fingerprints(log.map(|log| if ids { log.with_ids() } else { log }));
            Ok(())
        })
    }

    /// Returns the number of samples of each component before a cursor, or in a whole epoch; `None` without a mixture.
    fn drawn(
        &self,
        py: Python<'_>,
        cursor: Option<&str>,
        epoch: u32,
    ) -> PyResult<Option<Vec<u64>>> {
        let loader = self.get(py)?;
        let at = match cursor {
            None => Ok((epoch, u64::MAX)),
            Some(cursor) => cursor.parse::<Cursor>().map(|cursor| (cursor.epoch, cursor.position)),
        };
        let (epoch, position) = at.map_err(|error| errors::raised(py, &error))?;
        Ok(py.detach(|| loader.drawn(epoch, position)))
    }

    /// Returns the number of batches of an epoch; `None` if it is not known.
    fn batches(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        let batches = self.get(py)?.len();
        Ok(Some(batches).filter(|&batches| batches != UNKNOWN))
    }

    /// Returns the number of samples of an epoch; `None` if it is not known.
    fn samples(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        let samples = self.get(py)?.samples();
        Ok(Some(samples).filter(|&samples| samples != UNKNOWN))
    }

    fn batch_size(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.get(py)?.batch_size())
    }

    /// Returns for each output its name, that in the file if it differs, the type of its elements and the shape of
    /// a sample.
    fn outputs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let tensors = self.get(py)?.tensors();
        let outputs = tensors
            .into_iter()
            .map(|spec| (spec.name, spec.alias, dtype_name(spec.dtype), spec.shape));
        PyList::new(py, outputs.collect::<Vec<_>>())
    }

    fn explain(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.get(py)?.explain())
    }

    /// Returns why the memory of batches is not page-locked, if it should be.
    fn pin_failure(&self, py: Python<'_>) -> PyResult<Option<String>> {
        Ok(self.get(py)?.pin_failure())
    }

    fn device(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.get(py)?.device().device.to_string())
    }

    /// Returns the reason why the CPU is used instead of a requested GPU.
    fn fallback(&self, py: Python<'_>) -> PyResult<Option<String>> {
        Ok(self.get(py)?.device().fallback.clone())
    }

    fn classes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let loader = self.get(py)?;
        class_names(py, &detached(py, || loader.classes())?)
    }

    /// Returns where the time went, in seconds and in a sentence.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let loader = self.get(py)?;
        let (stats, utilization) = (loader.stats(), loader.utilization());
        let found = PyDict::new(py);
        found.set_item("samples", stats.samples)?;
        found.set_item("batches", stats.batches)?;
        found.set_item("workers", stats.workers)?;
        found.set_item("wall", stats.wall.as_secs_f64())?;
        found.set_item("consumer_waited", stats.consumer_waited.as_secs_f64())?;
        let phases = PyDict::new(py);
        for phase in Phase::ALL {
            phases.set_item(phase.name(), stats.time(phase).as_secs_f64())?;
        }
        found.set_item("phases", phases)?;
        found.set_item("verdict", stats.verdict())?;
        found.set_item("cache_stopped", &stats.cache_stopped)?;
        found.set_item("stalls", stats.stalls)?;
        found.set_item("batches_ready", utilization.ready)?;
        found.set_item("batch_bytes", utilization.slot_bytes)?;
        let waits = utilization.waits.cumulative();
        let waits = waits.map(|(bound, batches)| (bound.as_secs_f64(), batches));
        found.set_item("waits", PyTuple::new(py, waits.collect::<Vec<_>>())?)?;
        Ok(found)
    }

    /// Returns the rank of this process.
    fn rank(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.get(py)?.rank()[0])
    }

    /// Returns the damaged samples: the number, the epoch and the error of each, the number of rows lost, and
    /// whether there are more.
    fn quarantine(&self, py: Python<'_>) -> PyResult<Quarantine> {
        let found = self.get(py)?.quarantine();
        let samples = found.samples.into_iter();
        let samples = samples.map(|one| (one.sample.0, one.epoch.index(), one.error)).collect();
        Ok((samples, found.rows, found.is_cut))
    }

    /// Ends the threads. Epochs that still run end with their own last use.
    fn close(&self, py: Python<'_>) {
        if !self.owner.is_forked() {
            let loader = self.loader.lock().unwrap_or_else(PoisonError::into_inner).take();
            // It may wait for threads; meanwhile, other calls find that the loader is closed.
            py.detach(|| drop(loader));
        }
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        let loader = self.loader.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(loader) = loader.and_then(|loader| self.owner.unless_forked(loader)) {
            drop_detached(loader);
        }
    }
}
