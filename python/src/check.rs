//! What a dataset holds, and whether it is whole.

use crate::batch::int64;
use crate::dataset::{Dataset, kind};
use crate::errors;
use crate::task::Task;
use fuseloop::internals::source::BetonExt as _;
use fuseloop::internals::source::beton::{Allocation, FieldStats, OpenError, SourceError};
use fuseloop::internals::source::{ClassCounts, has_labels_apart};
use fuseloop::internals::verify::{
    DamageKindExt as _, DegenerateKindExt as _, Finding, LayoutReport, layout,
};
use fuseloop::sample::UNKNOWN;
use fuseloop::source::{self, Beton, BoxError, ClassNames, Source};
use fuseloop::verify::{
    DamagedValue, DegenerateObject, VerifyOptions, VerifyReport, verify as check,
};
use fuseloop::{CancelFlag, Error};
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict as _, PyDict, PyList};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What the tables of a dataset say.
#[derive(Default)]
struct Info {
    stats: Vec<Option<FieldStats>>,
    /// The number and the name of each class and, if the labels are in a table, how many samples or objects it has.
    classes: Vec<(i64, String, Option<u64>, Option<u64>)>,
    /// The fields of objects, and what each is.
    objects: Vec<(String, String)>,
}

/// Returns what a dataset holds, from its tables alone.
#[pyfunction]
pub(crate) fn dataset_info<'py>(
    py: Python<'py>,
    dataset: &Dataset,
) -> PyResult<Bound<'py, PyDict>> {
    let opened = source::Dataset::clone(&dataset.dataset);
    let (names, objects, samples) = match &opened {
        source::Dataset::Stream(stream) => {
            (stream.facts().class_names(), stream.facts().object_fields(), stream.known_len())
        }
        _ => {
            let source = dataset.source(py)?;
            let samples = Some(source.len()).filter(|&samples| samples != UNKNOWN);
            (source.class_names(), source.object_fields(), samples)
        }
    };
    let damaged = |error: BoxError| errors::setting(py, &error.to_string());
    let names = names.map_err(damaged)?.unwrap_or_default();
    let objects = objects.map_err(damaged)?.unwrap_or_default();
    let objects: Vec<_> =
        objects.iter().map(|(name, field)| (name.to_owned(), field.to_string())).collect();
    let found = PyDict::new(py);
    found.set_item("name", &dataset.name)?;
    if let source::Dataset::Folder(folder) = &opened {
        found.set_item("ignored", folder.ignored().extensions.clone())?;
    }
    found.set_item("samples", samples)?;
    if let source::Dataset::Beton(beton) = &opened {
        found.set_item("bytes", beton.file_bytes())?;
        found.set_item("page_size", beton.header().page_size)?;
    }
    let work = move || Ok(Info { objects, ..info(&opened, &names) });
    let info = Task::start(CancelFlag::new(), work)?.left_behind().wait(py, || Ok(()))?;
    let fields = PyList::empty(py);
    for (index, field) in dataset.fields.iter().enumerate() {
        let stats = info.stats.get(index).and_then(Option::as_ref);
        let stats = stats.map(|stats| stats_dict(py, stats)).transpose()?;
        fields.append((&field.name, kind(&field.kind), stats))?;
    }
    found.set_item("fields", fields)?;
    found.set_item("classes", info.classes)?;
    found.set_item("objects", info.objects.into_py_dict(py)?)?;
    Ok(found)
}

fn info(dataset: &source::Dataset, names: &ClassNames) -> Info {
    let counted = |source: &dyn Source| ClassCounts::new(source).ok().flatten();
    let is_named = names.iter().next().is_some();
    let (stats, counts) = match dataset {
        source::Dataset::Beton(beton) => {
            let stats =
                (0..beton.facts().fields.len()).map(|field| beton.field_stats(field)).collect();
            (stats, is_named.then(|| counted(&**beton)).flatten())
        }
        source::Dataset::Folder(folder) => (vec![], is_named.then(|| counted(&**folder)).flatten()),
        source::Dataset::Source(source) if is_named && has_labels_apart(source.name().as_ref()) => {
            (vec![], counted(&**source))
        }
        _ => (vec![], None),
    };
    let class = |(number, name): (i64, &str)| {
        let (samples, objects) = counts
            .as_ref()
            .map_or((None, None), |counts| (counts.samples(number), counts.objects(number)));
        (number, name.to_owned(), samples, objects)
    };
    Info { stats, classes: names.iter().map(class).collect(), objects: vec![] }
}

/// Returns the statistics of a field; an empty dict if there is nothing to say.
fn stats_dict<'py>(py: Python<'py>, stats: &FieldStats) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    match stats {
        FieldStats::Image(stats) => {
            let (min, max) = (stats.min, stats.max);
            dict.set_item("jpeg", stats.jpeg)?;
            dict.set_item("raw", stats.raw)?;
            dict.set_item("bit_planes", stats.bit_planes)?;
            dict.set_item("unreadable", stats.unreadable)?;
            dict.set_item("min_size", min.map(|size| (size.height, size.width)))?;
            dict.set_item("max_size", max.map(|size| (size.height, size.width)))?;
        }
        FieldStats::Int { min, max } => {
            dict.set_item("min", min)?;
            dict.set_item("max", max)?;
        }
        FieldStats::Float { min, max } => {
            dict.set_item("min", min)?;
            dict.set_item("max", max)?;
        }
        FieldStats::Bytes { min, max } => {
            dict.set_item("min_bytes", min)?;
            dict.set_item("max_bytes", max)?;
        }
        _ => {}
    }
    Ok(dict)
}

/// Checks every value of a dataset.
#[pyfunction]
pub(crate) fn verify<'py>(
    py: Python<'py>,
    dataset: &Dataset,
    limit: Option<u64>,
    threads: Option<usize>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let source = dataset.dataset.source().ok_or_else(|| {
        let text = format!("{}: it can only be read in sequence: unpack it first", dataset.name);
        errors::setting(py, &text)
    })?;
    let none = || errors::setting(py, "threads is 0: give 1 or more");
    let threads = threads.map(|threads| NonZeroUsize::new(threads).ok_or_else(none)).transpose()?;
    let beton = match &*dataset.dataset {
        source::Dataset::Beton(beton) => Some(Arc::clone(beton)),
        _ => None,
    };
    let cancel = CancelFlag::new();
    let options =
        VerifyOptions { threads, limit, cancel: cancel.clone(), ..VerifyOptions::default() };
    let (all, done) = (source.len(), Arc::new(AtomicU64::new(0)));
    let total = all.min(limit.unwrap_or(u64::MAX));
    let counter = Arc::clone(&done);
    let work = move || {
        let tables = beton.map(|beton| tables(&beton)).transpose()?;
        let add = |samples| {
            counter.fetch_add(samples, Ordering::Relaxed);
        };
        Ok((check(&*source, &options, &add)?, tables))
    };
    let tell = || {
        let Some(progress) = progress else { return Ok(()) };
        progress.call1((done.load(Ordering::Relaxed), total)).map(drop)
    };
    let (report, tables) = Task::start(cancel, work)?.left_behind().wait(py, tell)?;
    tell()?;
    report_dict(py, all, &report, tables.as_ref())
}

/// Checks the tables of a file against each other.
fn tables(beton: &Beton) -> Result<LayoutReport, Error> {
    layout(beton).map_err(|kind| {
        let path = beton.facts().name.as_str().into();
        SourceError { path, kind: OpenError::from(kind).into() }.into()
    })
}

fn report_dict<'py>(
    py: Python<'py>,
    all: u64,
    report: &VerifyReport,
    tables: Option<&LayoutReport>,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("of_samples", all)?;
    dict.set_item("samples", report.samples)?;
    dict.set_item("values", report.values)?;
    dict.set_item("images", report.pictures)?;
    dict.set_item("bytes", report.bytes)?;
    dict.set_item("damaged_samples", report.damaged_samples)?;
    dict.set_item("damaged_values", report.damaged_values())?;
    let kinds = report.troubles.iter();
    let kinds = kinds.map(|(kind, count)| (kind.word(), kind.to_string(), *count));
    dict.set_item("kinds", kinds.collect::<Vec<_>>())?;
    let damaged = PyList::empty(py);
    for value in &report.first {
        damaged.append(value_dict(py, value)?)?;
    }
    dict.set_item("damaged", damaged)?;
    let kinds = report.degenerate.iter();
    let kinds = kinds.map(|(kind, count)| (kind.word(), kind.to_string(), *count));
    dict.set_item("degenerate_kinds", kinds.collect::<Vec<_>>())?;
    let degenerate = PyList::empty(py);
    for object in &report.first_degenerate {
        degenerate.append(object_dict(py, object)?)?;
    }
    dict.set_item("degenerate", degenerate)?;
    let tables = tables.map(|tables| tables_dict(py, tables)).transpose()?;
    dict.set_item("tables", tables)?;
    let good: Vec<i64> = report.good().map(|sample| sample.0.cast_signed()).collect();
    dict.set_item("good", int64(py, &good)?)?;
    Ok(dict)
}

fn value_dict<'py>(py: Python<'py>, value: &DamagedValue) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    let location = value.location.as_ref();
    dict.set_item("sample", value.sample.0)?;
    dict.set_item("field", &value.field)?;
    dict.set_item("kind", value.kind.word())?;
    dict.set_item("path", location.and_then(|location| location.file.as_deref()))?;
    dict.set_item("key", location.and_then(|location| location.key.as_deref()))?;
    dict.set_item("offset", value.offset)?;
    dict.set_item("error", &value.error)?;
    dict.set_item("text", value.to_string())?;
    Ok(dict)
}

fn object_dict<'py>(py: Python<'py>, object: &DegenerateObject) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    let location = object.location.as_ref();
    dict.set_item("sample", object.sample.0)?;
    dict.set_item("field", &object.field)?;
    dict.set_item("object", object.object)?;
    dict.set_item("annotation", object.annotation)?;
    dict.set_item("kind", object.kind.word())?;
    dict.set_item("path", location.and_then(|location| location.file.as_deref()))?;
    dict.set_item("key", location.and_then(|location| location.key.as_deref()))?;
    dict.set_item("text", object.to_string())?;
    Ok(dict)
}

/// Returns what was found in the tables of a `.beton` file: for each finding how often, how many bytes it is about,
/// and where the first one is.
fn tables_dict<'py>(py: Python<'py>, tables: &LayoutReport) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    let record = |record: &Allocation| format!("at byte {}", record.ptr);
    let found = [
        ("overlapping", first(&tables.overlapping, |[_, last]| record(last))),
        ("outside", first(&tables.outside, record)),
        ("no_sample", first(&tables.no_sample, record)),
        ("across_pages", first(&tables.across_pages, record)),
        ("several_pages", first(&tables.several_pages, |sample| format!("sample {sample}"))),
        ("shared", first(&tables.shared, |[a, b]| format!("samples {a} and {b}"))),
        ("unreferenced", first(&tables.unreferenced, record)),
    ];
    for (name, finding) in found {
        if let Some(finding) = finding {
            dict.set_item(name, finding)?;
        }
    }
    Ok(dict)
}

fn first<T>(finding: &Finding<T>, words: impl Fn(&T) -> String) -> Option<(u64, u64, String)> {
    let first = finding.first.as_ref()?;
    Some((finding.count, finding.bytes, words(first)))
}
