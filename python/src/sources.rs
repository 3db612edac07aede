//! Datasets with options, streams, and datasets whose samples come from Python.

use crate::call::{attached, detached};
use crate::dataset::{Dataset, to_python};
use crate::errors;
use crate::memory::{Held, Lent};
use crate::rows;
use crate::settings::get;
use crate::task::Task;
use crate::write::links;
use fuseloop::internals::source::{ArrowArray, ArrowTable, Memory, open_dataset, open_shards};
use fuseloop::ops::Size;
use fuseloop::source::stream::{Interleave, MixEnd, Stream};
use fuseloop::source::{
    self, Annotated, As, ClassNames, CocoOptions, Column, Concat, CustomRow, Facts, Feature,
    FieldSpec, Folder, FolderOptions, Generator, InMemory, Labels, LeRobot, LeRobotOptions, Mds,
    MdsOptions, OpenOptions, OwnedValue, Tar, TarOptions, TarStream, TfOptions, TfRecordStream,
    TfRecords, VocOptions, YoloOptions,
};
use fuseloop::write::CancelFlag;
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyDict;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

/// Returns the options of a folder or a table: by name, those that are given.
fn folder_options(py: Python<'_>, given: &Bound<'_, PyDict>) -> PyResult<FolderOptions> {
    let mut options = FolderOptions::default();
    if let Some(word) = get::<String>(given, "links")? {
        options = options.links(links(py, Some(&word))?);
    }
    if let Some(listing) = get::<PathBuf>(given, "listing")? {
        options = options.listing(listing);
    }
    if let Some(label) = get::<String>(given, "label")? {
        options = options.label(match get::<bool>(given, "label_is_column")? {
            Some(true) => Labels::Column(label),
            _ => label.parse().unwrap_or_default(),
        });
    }
    if let Some(split) = get::<String>(given, "split")? {
        options = options.split(split);
    }
    if let Some(names) = get::<Vec<(i64, String)>>(given, "classes")? {
        options = options.classes(names.into_iter().collect());
    }
    if let Some(file) = get::<PathBuf>(given, "classes_file")? {
        options = options.classes(detached(py, || ClassNames::open(file))?);
    }
    if let Some(column) = get::<String>(given, "image")? {
        options = options.image(column);
    }
    if let Some(root) = get::<PathBuf>(given, "root")? {
        options = options.root(root);
    }
    if let Some(suffix) = get::<String>(given, "suffix")? {
        options = options.suffix(suffix);
    }
    if let Some(delimiter) = get::<char>(given, "delimiter")? {
        options = options.delimiter(delimiter);
    }
    if let Some(quotes) = get::<bool>(given, "quotes")? {
        options = options.quotes(quotes);
    }
    Ok(options.missing_as_nan(get::<bool>(given, "missing_as_nan")?.unwrap_or_default()))
}

/// Opens the columns of a table that is no file: of each its name, and its values as a list of JSON.
#[pyfunction]
pub(crate) fn open_columns(
    py: Python<'_>,
    name: &str,
    columns: Vec<(String, String)>,
    options: &Bound<'_, PyDict>,
) -> PyResult<Dataset> {
    let options = folder_options(py, options)?;
    let folder = detached(py, || Folder::of_columns(name, columns, &options))?;
    Ok(Dataset::new(source::Dataset::Folder(Arc::new(folder))))
}

/// Opens a folder or a table of images.
#[pyfunction]
pub(crate) fn open_folder(
    py: Python<'_>,
    path: PathBuf,
    options: &Bound<'_, PyDict>,
) -> PyResult<Dataset> {
    let cancel = CancelFlag::new();
    let options = folder_options(py, options)?.cancel(cancel.clone());
    let task = Task::start(cancel, move || source::Folder::open(&path, &options))?;
    Ok(Dataset::new(source::Dataset::Folder(Arc::new(task.wait(py, || Ok(()))?))))
}

/// Opens a split of a dataset that has several.
#[pyfunction]
pub(crate) fn open_split(py: Python<'_>, path: PathBuf, split: &str) -> PyResult<Dataset> {
    let options = FolderOptions::default().split(split);
    Ok(Dataset::new(detached(py, || open_dataset(&path, &options))?))
}

/// Opens images with annotations: of a kind, by its paths, with the options that are given by name.
#[pyfunction]
pub(crate) fn open_annotated(
    py: Python<'_>,
    kind: &str,
    paths: Vec<PathBuf>,
    options: &Bound<'_, PyDict>,
) -> PyResult<Dataset> {
    let is_set = |name: &str| Ok::<_, PyErr>(get::<bool>(options, name)?.unwrap_or_default());
    let classes = get::<Vec<String>>(options, "classes")?;
    let opened = match (kind, &paths[..]) {
        ("coco", [images, annotations]) => {
            let options = CocoOptions::default()
                .keep_category_ids(is_set("keep_category_ids")?)
                .skip_crowds(is_set("skip_crowds")?)
                .without_empty(is_set("without_empty")?);
            detached(py, || Annotated::coco(images, annotations, &options))?
        }
        ("voc", [path]) => {
            let mut voc = VocOptions::default().keep_coordinates(is_set("keep_coordinates")?);
            if let Some(name) = get::<String>(options, "image_set")? {
                voc = voc.image_set(name);
            }
            if let Some(names) = classes {
                voc = voc.class_names(names);
            }
            detached(py, || Annotated::voc(path, &voc))?
        }
        ("yolo", [path]) => {
            let mut yolo = YoloOptions::default().exif_orientation(is_set("exif_orientation")?);
            if let Some((points, values)) = get::<(usize, usize)>(options, "keypoints")? {
                yolo = yolo.keypoints(points, values);
            }
            if let Some(names) = classes {
                yolo = yolo.class_names(names);
            }
            detached(py, || Annotated::yolo(path, &yolo))?
        }
        ("masks", [images, masks]) => detached(py, || Annotated::masks(images, masks))?,
        _ => return Err(errors::setting(py, &format!("no annotations of kind '{kind}'"))),
    };
    Ok(Dataset::new(source::Dataset::Source(Arc::new(opened))))
}

/// Opens a `.beton` file, whatever it is called. `custom_fields` has the size and the alignment of the rows of
/// fields of its author's own.
#[pyfunction]
pub(crate) fn open_beton(
    py: Python<'_>,
    path: PathBuf,
    custom_fields: HashMap<String, (usize, usize)>,
) -> PyResult<Dataset> {
    let rows = custom_fields.into_iter();
    let custom_fields =
        rows.map(|(name, (row_size, align))| (name, CustomRow { row_size, align })).collect();
    let options = OpenOptions { custom_fields, ..OpenOptions::default() };
    let open = || source::Beton::open(&path, &options);
    Ok(Dataset::new(source::Dataset::Beton(Arc::new(detached(py, open)?))))
}

/// Opens tar shards: of each field its name, the extensions that may have it, and its kind.
#[pyfunction]
pub(crate) fn open_tar(
    py: Python<'_>,
    name: &str,
    fields: Vec<(String, String, String)>,
    is_packed: bool,
) -> PyResult<Dataset> {
    let mut options = TarOptions::default();
    for (field, extensions, kind) in fields {
        let kind = match kind.as_str() {
            "image" => As::Image,
            "int" => As::Int,
            "float" => As::Float,
            "bytes" => As::Bytes,
            "json" => As::Json,
            "array" => As::NdArray,
            other => return Err(unknown(py, &field, other)),
        };
        options = options.field(&field, &extensions, kind);
    }
    Ok(Dataset::new(if is_packed {
        source::Dataset::Stream(detached(py, || TarStream::open(name, &options))?.into())
    } else {
        source::Dataset::Source(Arc::new(detached(py, || Tar::open(name, &options))?))
    }))
}

/// Opens TFRecord files: of each feature its name, its kind, the number of its values, and the number of steps of a
/// list of features.
#[pyfunction]
pub(crate) fn open_tfrecord(
    py: Python<'_>,
    name: &str,
    features: Vec<(String, String, Option<u64>)>,
    is_packed: bool,
) -> PyResult<Dataset> {
    let mut options = TfOptions::default();
    for (field, kind, len) in features {
        let feature = match (kind.as_str(), len) {
            ("image", None) => Feature::Image,
            ("bytes", None) => Feature::Bytes,
            ("int", None) => Feature::Int,
            ("float", None) => Feature::Float,
            ("ints", None) => Feature::RaggedInts,
            ("floats", None) => Feature::RaggedFloats,
            ("ints", Some(len)) => Feature::Ints { len },
            ("floats", Some(len)) => Feature::Floats { len },
            (other, _) => return Err(unknown(py, &field, other)),
        };
        options = options.feature(&field, feature);
    }
    Ok(Dataset::new(if is_packed {
        source::Dataset::Stream(detached(py, || TfRecordStream::open(name, &options))?.into())
    } else {
        source::Dataset::Source(Arc::new(detached(py, || TfRecords::open(name, &options))?))
    }))
}

/// Opens a dataset of LeRobot, with the seconds at which its features have values, by their keys.
#[pyfunction]
pub(crate) fn open_lerobot(
    py: Python<'_>,
    path: PathBuf,
    deltas: Vec<(String, Vec<f64>)>,
    episodes: Option<Vec<u64>>,
    tolerance_s: f64,
) -> PyResult<Dataset> {
    let mut options = LeRobotOptions::default().tolerance(tolerance_s);
    for (key, seconds) in deltas {
        options = options.delta_timestamps(key, seconds);
    }
    if let Some(episodes) = episodes {
        options = options.episodes(episodes);
    }
    let opened = detached(py, || LeRobot::open(&path, &options))?;
    Ok(Dataset::new(source::Dataset::Source(Arc::new(opened))))
}

/// Opens MDS shards, with the bytes that unpacked ones may take.
#[pyfunction]
pub(crate) fn open_mds(
    py: Python<'_>,
    path: PathBuf,
    cache_bytes: Option<u64>,
) -> PyResult<Dataset> {
    let options = MdsOptions::default();
    let options = match cache_bytes {
        Some(bytes) => options.cache_bytes(bytes),
        None => options,
    };
    let opened = detached(py, || Mds::open(&path, &options))?;
    Ok(Dataset::new(source::Dataset::Source(Arc::new(opened))))
}

fn unknown(py: Python<'_>, field: &str, kind: &str) -> PyErr {
    errors::setting(py, &format!("field {field}: no kind '{kind}'"))
}

/// Opens shards of tar or TFRecord files by a list of their names; None if these are not shards of one format.
#[pyfunction]
pub(crate) fn shards(py: Python<'_>, names: Vec<PathBuf>) -> PyResult<Option<Dataset>> {
    Ok(detached(py, || open_shards(&names))?.map(Dataset::new))
}

/// Joins datasets one after another.
#[pyfunction]
pub(crate) fn join(py: Python<'_>, parts: Vec<PyRef<'_, Dataset>>) -> PyResult<Dataset> {
    let sources = parts.iter().map(|part| part.dataset.source()).collect::<Option<Vec<_>>>();
    let sources = sources.ok_or_else(|| {
        errors::setting(
            py,
            "one of the datasets is a stream: concatenate streams with Stream.concat",
        )
    })?;
    Ok(Dataset::new(source::Dataset::Source(Arc::new(detached(py, || Concat::new(sources))?))))
}

fn stream_of(dataset: &Dataset) -> Stream {
    match (&*dataset.dataset, dataset.dataset.source()) {
        (source::Dataset::Stream(stream), _) => stream.clone(),
        (_, Some(source)) => Stream::of(source),
        // Whatever is no stream is a source.
        (_, None) => unreachable!("a dataset is a stream or a source"),
    }
}

fn option<'py, T>(options: &Bound<'py, PyDict>, name: &str) -> PyResult<T>
where
    T: for<'a> FromPyObject<'a, 'py, Error = PyErr>,
{
    match options.get_item(name)? {
        Some(value) => value.extract::<T>(),
        None => Err(errors::setting(options.py(), &format!("no value of {name}"))),
    }
}

/// A function of Python that gets the values of a sample by field.
struct Function {
    call: Py<PyAny>,
    fields: Vec<FieldSpec>,
}

impl Function {
    fn call<'py>(&self, py: Python<'py>, record: &[OwnedValue]) -> PyResult<Bound<'py, PyAny>> {
        let values = PyDict::new(py);
        for (field, value) in self.fields.iter().zip(record) {
            values.set_item(&field.name, to_python(py, field, value)?)?;
        }
        self.call.bind(py).call1((values,))
    }
}

fn function(options: &Bound<'_, PyDict>) -> PyResult<Py<PyAny>> {
    match options.get_item("function")? {
        Some(function) => Ok(function.unbind()),
        None => Err(errors::setting(options.py(), "no function")),
    }
}

/// Makes a stream of others.
#[pyfunction]
pub(crate) fn stream(
    py: Python<'_>,
    op: &str,
    parts: Vec<PyRef<'_, Dataset>>,
    options: &Bound<'_, PyDict>,
) -> PyResult<Dataset> {
    let mut streams: Vec<Stream> = parts.iter().map(|part| stream_of(part)).collect();
    let made = match op {
        "concat" => detached(py, || Stream::concat(streams))?,
        "zip" => detached(py, || Stream::zip(streams))?,
        "mix" => {
            let weights: Vec<f64> = option(options, "weights")?;
            let end: String = option(options, "end")?;
            let end = if end == "first" { MixEnd::First } else { MixEnd::Last };
            detached(py, || Stream::mix(streams.into_iter().zip(weights), end))?
        }
        "interleave" => {
            let settings = Interleave {
                cycle_length: option(options, "cycle_length")?,
                block_length: option(options, "block_length")?,
                reads: option(options, "threads")?,
                deterministic: option(options, "deterministic")?,
                shuffle: option(options, "shuffle")?,
            };
            detached(py, || Stream::interleave(streams, settings))?
        }
        _ => {
            let one = streams.pop().ok_or_else(|| errors::setting(py, "no stream"))?;
            changed(py, op, one, options)?
        }
    };
    Ok(Dataset::new(source::Dataset::Stream(made)))
}

/// Makes a stream of one other.
fn changed(
    py: Python<'_>,
    op: &str,
    from: Stream,
    options: &Bound<'_, PyDict>,
) -> PyResult<Stream> {
    Ok(match op {
        "of" => from,
        "shuffle" => from.shuffle(option(options, "buffer_size")?),
        "repeat" => match option::<Option<u64>>(options, "times")? {
            Some(times) => from.repeat(times),
            None => from.repeat_forever(),
        },
        "take" => from.take(option(options, "items")?),
        "skip" => from.skip(option(options, "items")?),
        "with_epoch" => from.with_epoch(option(options, "items")?),
        "prefetch" => from.prefetch(option(options, "items")?),
        "cache_in_memory" => from.cache_in_memory(option(options, "max_bytes")?),
        "cache_file" => {
            let path: PathBuf = option(options, "path")?;
            from.cache_file(path, option(options, "max_bytes")?)
        }
        "filter" => {
            let fields = from.fields().to_vec();
            let keep = Function { call: function(options)?, fields };
            from.try_filter(move |record| attached(|py| keep.call(py, record)?.is_truthy()))
        }
        "map" => {
            let fields = match options.get_item("fields")? {
                Some(given) if !given.is_none() => rows::fields(&given)?,
                _ => from.fields().to_vec(),
            };
            let own = from.fields().to_vec();
            let map = Function { call: function(options)?, fields: own };
            let specs = fields.clone();
            from.map(fields, move |record| {
                attached(|py| rows::record(&specs, &map.call(py, &record)?))
            })
        }
        other => return Err(errors::setting(py, &format!("no stream op '{other}'"))),
    })
}

/// Makes a dataset of a function that returns the row of a sample.
#[pyfunction]
pub(crate) fn python_dataset(
    row: Py<PyAny>,
    fields: &Bound<'_, PyAny>,
    samples: u64,
    name: String,
    classes: Option<Vec<(i64, String)>>,
) -> PyResult<Dataset> {
    let fields = rows::fields(fields)?;
    let classes: Option<ClassNames> = classes.map(|names| names.into_iter().collect());
    let facts = Facts::new(fields.iter().cloned(), samples)
        .named(name)
        .with_class_names(move || Ok(classes.clone()));
    let source = InMemory::from_fn(facts, move |sample| {
        attached(|py| rows::record(&fields, &row.bind(py).call1((sample.0,))?))
    });
    Ok(Dataset::new(source::Dataset::Source(Arc::new(source))))
}

/// Returns a column of an array whose samples are along its first axis. Each of them lies in the order of rows.
fn array_column(dtype: &str, array: &Bound<'_, PyAny>) -> PyResult<Column> {
    let py = array.py();
    let refused = |text: String| errors::setting(py, &text);
    let lent = Lent::of(array).map_err(refused)?;
    let (held, start) = Held::of(array).map_err(refused)?;
    let (Some((&count, shape)), Some(&distance)) =
        (lent.shape().split_first(), lent.strides().first())
    else {
        return Err(refused("an array without axes".to_owned()));
    };
    let shape: Vec<u64> = shape.iter().map(|&side| side as u64).collect();
    let column = match (dtype, &shape[..]) {
        ("|u1", &[height, width, 3]) => {
            let side = |side: u64| u32::try_from(side).unwrap_or(u32::MAX);
            Column::rgb(Size::new(side(height), side(width)), held)
        }
        _ => {
            let dtype = dtype.parse::<source::NdType>();
            Column::arrays(dtype.map_err(|error| errors::raised(py, &error))?, &shape, held)
        }
    };
    Ok(column.at_distance(start, distance, count))
}

/// Makes a dataset of columns in memory: for each its name, its kind, NumPy's text for the dtype of arrays, and its values.
#[pyfunction]
pub(crate) fn arrays_dataset(
    py: Python<'_>,
    columns: Vec<(String, String, String, Bound<'_, PyAny>)>,
    classes: Option<Vec<(i64, String)>>,
) -> PyResult<Dataset> {
    let column = |(name, kind, dtype, values): (String, String, String, Bound<'_, PyAny>)| {
        let column = match kind.as_str() {
            "ints" => Column::ints(PyBuffer::<i64>::get(&values)?.to_vec(py)?),
            "floats" => Column::floats(PyBuffer::<f64>::get(&values)?.to_vec(py)?),
            "files" => Column::encoded(values.extract::<Vec<PyBackedBytes>>()?),
            "bytes" => Column::shared_bytes(values.extract::<Vec<PyBackedBytes>>()?),
            _ => array_column(&dtype, &values)?,
        };
        Ok((name, column))
    };
    let columns: Vec<(String, Column)> =
        columns.into_iter().map(column).collect::<PyResult<_>>()?;
    let source = detached(py, || InMemory::new(columns))?.named("arrays");
    let source = match classes {
        Some(names) => source.with_class_names(names.into_iter().collect()),
        None => source,
    };
    Ok(Dataset::new(source::Dataset::Source(Arc::new(source))))
}

/// Returns an array of Arrow: the text of its type, its offset, its length, its own buffers, and its children by name.
fn arrow_array(array: &Bound<'_, PyAny>) -> PyResult<ArrowArray> {
    type Children<'py> = Vec<(String, Bound<'py, PyAny>)>;
    type Buffers<'py> = Vec<Option<Bound<'py, PyAny>>>;
    let (layout, offset, len, buffers, children): (String, u64, u64, Buffers<'_>, Children<'_>) =
        array.extract()?;
    let held = |buffer: Bound<'_, PyAny>| -> PyResult<Memory> {
        let held = Held::of(&buffer).map_err(|text| errors::setting(array.py(), &text))?;
        Ok(Box::new(held.0))
    };
    let buffers = buffers.into_iter().map(|buffer| buffer.map(held).transpose());
    let buffers = buffers.collect::<PyResult<Vec<_>>>()?;
    let children = children.into_iter().map(|(name, child)| Ok((name, arrow_array(&child)?)));
    Ok(ArrowArray::new(&layout, (offset, len), buffers, children.collect::<PyResult<_>>()?))
}

/// Makes a dataset of columns of Arrow: the bytes of a Parquet file with their schema, the arrays of each column, those of the
/// rows that are samples, and the files that the memory is of.
#[pyfunction]
pub(crate) fn arrow_dataset(
    py: Python<'_>,
    name: &str,
    schema: PyBackedBytes,
    columns: Vec<Vec<Bound<'_, PyAny>>>,
    indices: Option<Vec<Bound<'_, PyAny>>>,
    files: Vec<PathBuf>,
) -> PyResult<Dataset> {
    let arrays = |of: &Vec<Bound<'_, PyAny>>| -> PyResult<Vec<ArrowArray>> {
        of.iter().map(arrow_array).collect()
    };
    let columns = columns.iter().map(arrays).collect::<PyResult<Vec<_>>>()?;
    let indices = indices.as_ref().map(arrays).transpose()?;
    let table = detached(py, || ArrowTable::new(name, &schema, columns, indices, files))?;
    Ok(Dataset::new(source::Dataset::Source(Arc::new(table))))
}

/// Makes a dataset of a function that returns the row of a sample of an epoch. Threads call it ahead.
#[pyfunction]
pub(crate) fn generated_dataset(
    py: Python<'_>,
    row: Py<PyAny>,
    fields: &Bound<'_, PyAny>,
    samples: u64,
    threads: (usize, usize),
    name: &str,
) -> PyResult<Dataset> {
    let fields = rows::fields(fields)?;
    let specs = fields.clone();
    let make = move |epoch: fuseloop::Epoch, sample: u64| {
        attached(|py| rows::record(&specs, &row.bind(py).call1((epoch.index(), sample))?))
    };
    let (producers, capacity) = threads;
    let generator = Generator::new(producers, capacity).name(name);
    let source = detached(py, || generator.source(fields, samples, make))?;
    Ok(Dataset::new(source::Dataset::Source(Arc::new(source))))
}
