//! The settings of a loader, from the dict that `fuseloop/loader.py` makes of its arguments.

use crate::call::{attached, numpy};
use crate::errors;
use crate::values;
use fuseloop::loader::{Cache, Pipeline};
use fuseloop::ops::Ops;
use fuseloop::order::{DataMixture, Order, Ranks, Sampler, Stopping, Subset, Uneven};
use fuseloop::sample::Epoch;
use fuseloop::source::{BoxError, ProcessCache};
use fuseloop::spec::Settings;
use fuseloop::{LoaderBuilder, SampleId};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The lists by epoch: what Python's functions returned for the epochs that a call is about.
///
/// The functions are called before the library is, on the caller's thread: their exceptions come out as they
/// are, and no lock is held while they run.
#[derive(Clone, Default)]
pub(crate) struct EpochLists(Arc<Mutex<HashMap<EpochOutput, Given>>>);

/// An epoch, and the name of an output.
type EpochOutput = (u32, String);

/// A list, and the number of calls that have given it and still run.
struct Given {
    ops: Ops,
    calls: usize,
}

impl EpochLists {
    /// Gives the lists of an epoch to a call, until the guard is dropped.
    pub(crate) fn give(&self, epoch: u32, lists: &Bound<'_, PyDict>) -> PyResult<GivenLists> {
        self.give_from(epoch, std::slice::from_ref(lists))
    }

    /// Gives the lists of each epoch from `first` on to a call that takes all of them, until the guard is dropped.
    pub(crate) fn give_from(
        &self,
        first: u32,
        epochs: &[Bound<'_, PyDict>],
    ) -> PyResult<GivenLists> {
        let mut given = GivenLists { lists: self.clone(), keys: vec![] };
        for (epoch, lists) in (first..=u32::MAX).zip(epochs) {
            for (output, list) in lists.iter() {
                let (key, ops) = ((epoch, output.extract::<String>()?), values::ops(&list)?);
                let mut all = self.lock();
                let calls = all.get(&key).map_or(0, |given| given.calls) + 1;
                let before = all.insert(key.clone(), Given { ops, calls });
                // Python code may run when a list is freed, and must not find the lock held.
                drop(all);
                drop(before);
                given.keys.push(key);
            }
        }
        Ok(given)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<EpochOutput, Given>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the pipeline of an output: the list given, or that of the epoch where it is None.
    pub(crate) fn pipeline(&self, output: &str, list: &Bound<'_, PyAny>) -> PyResult<Pipeline> {
        if !list.is_none() {
            return Ok(values::ops(list)?.into());
        }
        let (lists, output) = (self.clone(), output.to_owned());
        Ok(Pipeline::by_epoch(move |epoch: Epoch| -> Result<Ops, BoxError> {
            let lists = lists.lock();
            let given = lists.get(&(epoch.index(), output.clone()));
            let ops = given.map(|given| given.ops.clone());
            ops.ok_or_else(|| format!("no list for output {output}").into())
        }))
    }
}

/// Takes the lists of a call back, when it is dropped.
pub(crate) struct GivenLists {
    lists: EpochLists,
    keys: Vec<EpochOutput>,
}

impl Drop for GivenLists {
    fn drop(&mut self) {
        let mut unused = vec![];
        let mut all = self.lists.lock();
        for key in self.keys.drain(..) {
            if let Entry::Occupied(mut entry) = all.entry(key) {
                entry.get_mut().calls -= 1;
                if entry.get().calls == 0 {
                    unused.push(entry.remove());
                }
            }
        }
        // The lists are freed without the lock, as above.
        drop(all);
    }
}

/// A sampler that is an object of Python.
struct PySampler {
    name: String,
    samples: u64,
    /// Called with (seed, epoch), returns the samples.
    order: Py<PyAny>,
}

impl Sampler for PySampler {
    fn name(&self) -> &str {
        &self.name
    }

    fn samples(&self, _: &Subset) -> u64 {
        self.samples
    }

    fn order(&self, seed: u64, epoch: Epoch, _: &Subset) -> Result<Vec<SampleId>, BoxError> {
        // The caller of the loader waits, detached; it is not called from other threads.
        attached(|py| {
            let samples = self.order.call1(py, (seed, epoch.index()))?;
            Ok(ids(samples.bind(py))?.into_iter().map(SampleId).collect())
        })
    }
}

/// Returns numbers of samples: of an array of NumPy, or anything that iterates over whole numbers.
pub(crate) fn ids(given: &Bound<'_, PyAny>) -> PyResult<Vec<u64>> {
    let py = given.py();
    let array = numpy(py)?.call_method1("asarray", (given,))?;
    let kind: String = array.getattr("dtype")?.getattr("kind")?.extract()?;
    let empty = array.getattr("size")?.extract::<usize>()? == 0;
    if !empty && !matches!(&*kind, "i" | "u") {
        let dtype = array.getattr("dtype")?.str()?;
        return Err(errors::setting(
            py,
            &format!("numbers of samples are {dtype}, expected whole numbers"),
        ));
    }
    let words = array.call_method1("astype", ("int64",))?.call_method0("tobytes")?;
    let words = words.cast_into::<pyo3::types::PyBytes>()?;
    let (words, _) = words.as_bytes().as_chunks();
    let ids = words.iter().map(|&word| {
        let id = i64::from_ne_bytes(word);
        u64::try_from(id).map_err(|_| {
            errors::setting(py, &format!("sample {id}: numbers of samples begin at 0"))
        })
    });
    ids.collect()
}

/// Returns a setting, if it is given and not None.
pub(crate) fn get<'py, T>(settings: &Bound<'py, PyDict>, name: &str) -> PyResult<Option<T>>
where
    T: for<'a> FromPyObject<'a, 'py>,
{
    let Some(value) = settings.get_item(name)?.filter(|value| !value.is_none()) else {
        return Ok(None);
    };
    value.extract().map(Some).map_err(|_| {
        let found = value.repr().map(|repr| repr.to_string()).unwrap_or_default();
        errors::setting(
            settings.py(),
            &format!("{name} is {found}, which is of the wrong type or out of range"),
        )
    })
}

/// Returns the value of a word.
pub(crate) fn word<T: Copy>(
    py: Python<'_>,
    name: &str,
    found: &str,
    words: &[(&str, T)],
) -> PyResult<T> {
    let found_word = words.iter().find(|(word, _)| *word == found);
    found_word.map(|(_, value)| *value).ok_or_else(|| {
        let mut known: Vec<String> = words.iter().map(|(word, _)| format!("'{word}'")).collect();
        let last = known.pop().unwrap_or_default();
        let known = known.join(", ");
        errors::setting(py, &format!("{name} is '{found}', expected {known} or {last}"))
    })
}

/// Applies the settings to a builder.
pub(crate) fn apply(
    mut builder: LoaderBuilder,
    settings: &Bound<'_, PyDict>,
    lists: &EpochLists,
) -> PyResult<LoaderBuilder> {
    let py = settings.py();
    if let Some(data) = settings.get_item("data")? {
        let table = values::table_of(&data.cast_into::<PyDict>()?)?;
        let found = Settings::of_table("Loader", &table)
            .map_err(|error| errors::of_op(py, "Loader", &error))?;
        builder = found.apply(builder);
    }
    if get::<bool>(settings, "stored_elements")?.unwrap_or_default() {
        builder = builder.stored_elements(true);
    }
    if let Some((bytes, folder)) = get::<(u64, Option<PathBuf>)>(settings, "cache")? {
        builder = builder.cache(match folder {
            Some(folder) => Cache::disk(folder, bytes),
            None => Cache::memory(bytes),
        });
    }
    if let Some((budget_bytes, threads)) = get::<(u64, usize)>(settings, "process_cache")? {
        let io_threads = NonZeroUsize::new(threads)
            .ok_or_else(|| errors::setting(py, "process_cache: 0 threads: give 1 or more"))?;
        builder = builder.process_cache(ProcessCache { budget_bytes, io_threads });
    }
    if let Some(indices) = settings.get_item("indices")?.filter(|indices| !indices.is_none()) {
        builder = builder.indices(ids(&indices)?);
    }
    if let Some(order) = settings.get_item("order")?.filter(|order| !order.is_none()) {
        builder = builder.order(self::order(&order)?);
    }
    if let Some(given) = settings.get_item("ranks")?.filter(|ranks| !ranks.is_none()) {
        builder = builder.ranks(ranks(&given)?);
    }
    if let Some(names) = get::<Vec<(i64, String)>>(settings, "expect_classes")? {
        builder = builder.expect_classes(names.into_iter().collect());
    }
    for item in items(settings, "lists")? {
        let (output, list): (String, Bound<'_, PyAny>) = item.extract()?;
        builder = builder.pipeline(&output, lists.pipeline(&output, &list)?);
    }
    for item in items(settings, "views")? {
        let (name, of, after, list): (String, String, Option<usize>, Bound<'_, PyAny>) =
            item.extract()?;
        let pipeline = lists.pipeline(&name, &list)?;
        builder = match after {
            None => builder.view(&name, &of, pipeline),
            Some(after) => builder.branch(&name, &of, after, pipeline),
        };
    }
    for item in items(settings, "component_ops")? {
        let (component, output, list): (usize, String, Bound<'_, PyAny>) = item.extract()?;
        builder = builder.component_ops(component, &output, Pipeline::from(values::ops(&list)?));
    }
    Ok(builder)
}

fn items<'py>(settings: &Bound<'py, PyDict>, name: &str) -> PyResult<Vec<Bound<'py, PyAny>>> {
    match settings.get_item(name)? {
        Some(items) => Ok(items.cast_into::<PyList>()?.iter().collect()),
        None => Ok(vec![]),
    }
}

/// Returns an order, from a tuple of its word and its parameters.
fn order(given: &Bound<'_, PyAny>) -> PyResult<Order> {
    let py = given.py();
    let given = given.cast::<PyTuple>()?;
    let kind: String = given.get_item(0)?.extract()?;
    Ok(match &*kind {
        "sequential" => Order::Sequential,
        "random" => Order::Random,
        "permuted" => Order::Permuted,
        "bucketed" => Order::Bucketed,
        "quasi_random" => Order::QuasiRandom { open_pages: given.get_item(1)?.extract()? },
        "weighted" => {
            let weights: Vec<f64> = given.get_item(1)?.extract()?;
            let (samples, replacement) =
                (given.get_item(2)?.extract()?, given.get_item(3)?.extract()?);
            Order::Weighted { weights: weights.into(), samples, replacement }
        }
        "class_balanced" => {
            let (field, replacement) =
                (given.get_item(1)?.extract()?, given.get_item(2)?.extract()?);
            Order::ClassBalanced { field, replacement }
        }
        "repeated_augment" => Order::RepeatedAugment { repeats: given.get_item(1)?.extract()? },
        "mixture" => Order::Mixture(mixture(&given.get_item(1)?)?),
        "custom" => Order::Custom(Arc::new(PySampler {
            name: given.get_item(1)?.extract()?,
            samples: given.get_item(2)?.extract()?,
            order: given.get_item(3)?.unbind(),
        })),
        _ => return Err(errors::setting(py, &format!("no order '{kind}'"))),
    })
}

/// Returns a mixture, from a tuple of its temperature or points, whether weights change in a line, the end of an epoch, its
/// number of samples, and changes.
fn mixture(given: &Bound<'_, PyAny>) -> PyResult<DataMixture> {
    type Points = Vec<(String, f64, Vec<f64>)>;
    type Parts<'py> = (Option<f64>, Points, bool, String, u64, Vec<(u32, u64, Bound<'py, PyAny>)>);
    let py = given.py();
    let (temperature, points, is_linear, stopping, samples, changes): Parts<'_> =
        given.extract()?;
    let mut points = points.into_iter();
    let first = match (temperature, points.next()) {
        (Some(temperature), _) => DataMixture::by_temperature(temperature),
        (None, Some((_, _, weights))) => DataMixture::new(weights),
        (None, None) => return Err(errors::setting(py, "DataMixture: there are no weights")),
    };
    let mut mixture = points.fold(first, |mixture, (unit, time, weights)| match &*unit {
        "step" => mixture.at_step(time as u64, weights),
        _ => mixture.at_epoch(time, weights),
    });
    if is_linear {
        mixture = mixture.linear();
    }
    for (epoch, position, to) in changes {
        mixture = mixture.changed_at(epoch, position, self::mixture(&to)?);
    }
    let words = [
        ("dataset_size", Stopping::DatasetSize),
        ("samples", Stopping::Samples(samples)),
        ("first_exhausted", Stopping::FirstExhausted),
        ("all_exhausted", Stopping::AllExhausted),
        ("all_exhausted_without_replacement", Stopping::AllExhaustedWithoutReplacement),
    ];
    Ok(mixture.stopping(word(py, "stopping_strategy", &stopping, &words)?))
}

/// Returns the ranks, of `"env"` or a tuple of rank, number of ranks and what happens to uneven samples.
pub(crate) fn ranks(given: &Bound<'_, PyAny>) -> PyResult<Option<Ranks>> {
    let py = given.py();
    let raised = |error: fuseloop::Error| errors::raised(py, &error);
    if given.extract::<String>().is_ok_and(|word| word == "env") {
        return Ranks::from_env().map_err(raised);
    }
    let (rank, world_size, uneven): (u32, u32, String) = given.extract()?;
    let words = [("drop", Uneven::Drop), ("pad", Uneven::Pad), ("exact", Uneven::Exact)];
    let uneven = word(py, "uneven", &uneven, &words)?;
    Ranks::new(rank, world_size, uneven).map(Some).map_err(raised)
}
