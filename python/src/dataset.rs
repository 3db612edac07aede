//! Datasets: what they hold, and their values as Python's.

use crate::batch::{int64, position};
use crate::call::{DetachedDrop, calling, detached, numpy};
use crate::errors;
use crate::task::Task;
use fuseloop::SampleId;
use fuseloop::internals::source::open_dataset;
use fuseloop::recut::BitPlaneCodec;
use fuseloop::sample::Limits;
use fuseloop::source::{
    self, BoxError, Buffer, ClassNames, FieldKind, FieldSpec, FolderOptions, OwnedValue, Source,
    Value,
};
use fuseloop::write::CancelFlag;
use pyo3::exceptions::{PyIndexError, PyTypeError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyString, PyTuple};
use std::path::PathBuf;
use std::sync::Arc;

/// A dataset: named fields, and samples that are read by their number.
#[pyclass(frozen, module = "fuseloop", weakref, subclass)]
pub(crate) struct Dataset {
    pub(crate) dataset: DetachedDrop<source::Dataset>,
    pub(crate) name: String,
    pub(crate) fields: Vec<FieldSpec>,
    /// The name that it was opened by, if there are no options.
    opened: Option<String>,
    /// The function and the arguments that make it anew, if it was made by options.
    recipe: Option<Py<PyTuple>>,
}

impl Dataset {
    pub(crate) fn new(dataset: source::Dataset) -> Self {
        let (name, fields) = match (&dataset, dataset.source()) {
            (source::Dataset::Stream(stream), _) => {
                (stream.facts().name.clone(), stream.fields().to_vec())
            }
            (_, Some(source)) => (source.name().to_owned(), source.fields().to_vec()),
            (_, None) => (String::new(), vec![]),
        };
        let dataset = DetachedDrop::new(dataset);
        Self { dataset, name, fields, opened: None, recipe: None }
    }

    pub(crate) fn source(&self, py: Python<'_>) -> PyResult<Arc<dyn Source>> {
        self.dataset.source().ok_or_else(|| {
            let text =
                format!("{}: a stream has no samples by number: iterate over a loader", self.name);
            errors::setting(py, &text)
        })
    }
}

#[pymethods]
impl Dataset {
    /// Returns the same dataset, which `recipe` makes anew: a function and its arguments.
    #[new]
    fn of(dataset: &Self, recipe: Option<Py<PyTuple>>) -> Self {
        Self { recipe, ..Self::new(dataset.dataset.clone()) }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.recipe.as_ref().map_or(Ok(()), |recipe| visit.call(recipe))
    }

    /// Opens the dataset of this name.
    #[staticmethod]
    fn open(py: Python<'_>, name: PathBuf) -> PyResult<Self> {
        let opened = name.to_str().map(str::to_owned);
        let cancel = CancelFlag::new();
        let options = FolderOptions::default().cancel(cancel.clone());
        let task = Task::start(cancel, move || open_dataset(&name, &options))?;
        Ok(Self { opened, ..Self::new(task.wait(py, || Ok(()))?) })
    }

    /// The name that the dataset was opened by.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// The fields, and the kind of each.
    #[getter]
    fn fields<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let fields = PyDict::new(py);
        for field in &self.fields {
            fields.set_item(&field.name, kind(&field.kind))?;
        }
        Ok(fields)
    }

    /// True if the dataset can only be read from its beginning to its end.
    #[getter]
    fn is_stream(&self) -> bool {
        matches!(*self.dataset, source::Dataset::Stream(_))
    }

    /// A number that changes with the dataset's contents, as far as they are known without reading all.
    #[getter]
    fn fingerprint(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("{:016x}", self.source(py)?.fingerprint()))
    }

    /// The names of the classes by their numbers; empty if they are not known.
    #[getter]
    fn classes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let source = self.source(py)?;
        let names = detached(py, || Ok(source.class_names()?))?;
        class_names(py, &names.unwrap_or_default())
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        usize::try_from(self.source(py)?.len())
            .map_err(|_| PyTypeError::new_err("the dataset has no known length"))
    }

    /// The values of a sample by field: ints and floats, arrays of NumPy, bytes, what JSON holds. Of an image
    /// the bytes of its JPEG or PNG file, or its pixels as an array ``[height, width, 3]``.
    fn __getitem__<'py>(&self, py: Python<'py>, index: i64) -> PyResult<Bound<'py, PyDict>> {
        let source = self.source(py)?;
        let samples = source.len();
        let id = position(index, samples)
            .map(SampleId)
            .ok_or_else(|| PyIndexError::new_err(format!("sample {index} of {samples}")))?;
        let record = calling(py, || source.read(id))?
            .map_err(|error| errors::of_sample(py, &*source, (id, None), error))?;
        let values = PyDict::new(py);
        for (field, value) in self.fields.iter().zip(record) {
            values.set_item(&field.name, to_python(py, field, &value)?)?;
        }
        Ok(values)
    }

    /// Reads all samples in order. Python's own loop over ``dataset[i]`` would take an IndexError of a user's dataset for
    /// its end.
    fn __iter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("fuseloop._checks")?.call_method1("samples", (slf,))
    }

    /// Reads a field of ints or floats of all samples, or of those in ``indices``, as an array.
    #[pyo3(signature = (field, indices = None))]
    fn column<'py>(
        &self,
        py: Python<'py>,
        field: &str,
        indices: Option<Vec<u64>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let source = self.source(py)?;
        let Some(k) = self.fields.iter().position(|spec| spec.name == field) else {
            let known = self.fields.iter().map(|spec| &*spec.name).collect::<Vec<_>>().join(", ");
            let text = format!("{}: no field '{field}'; the fields are {known}", self.name);
            return Err(errors::setting(py, &text));
        };
        let is_float = match self.fields[k].kind {
            FieldKind::Int => false,
            FieldKind::Float => true,
            _ => {
                let text = format!("{}: field '{field}' has no single numbers", self.name);
                return Err(errors::setting(py, &text));
            }
        };
        let samples = source.len();
        if let Some(index) = indices.iter().flatten().find(|&&index| index >= samples) {
            return Err(PyIndexError::new_err(format!("sample {index} of {samples}")));
        }
        let count = indices.as_ref().map_or(samples, |ids| ids.len() as u64);
        let mut words = vec![];
        let mut buffer = Buffer::default();
        for start in (0..count).step_by(AT_ONCE) {
            let end = count.min(start + AT_ONCE as u64);
            let read = || -> Result<(), (SampleId, BoxError)> {
                for i in start..end {
                    let id = SampleId(indices.as_ref().map_or(i, |ids| ids[i as usize]));
                    buffer.forget();
                    let value = source.value(id, k, &mut buffer);
                    words.push(match value.map_err(|error| (id, error))? {
                        Value::Int(value) => value,
                        Value::Float(value) => value.to_bits().cast_signed(),
                        _ => return Err((id, "the value is of another kind".into())),
                    });
                }
                Ok(())
            };
            calling(py, read)?
                .map_err(|(id, error)| errors::of_sample(py, &*source, (id, Some(k)), error))?;
            py.check_signals()?;
        }
        let words = int64(py, &words)?;
        if is_float { words.call_method1("view", ("float64",)) } else { Ok(words) }
    }

    /// Tells what the dataset holds, from its tables alone: the fields, the classes, and of a ``.beton`` file the sizes
    /// of images and the ranges of numbers. Its text is readable.
    fn info<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("fuseloop._checks")?.call_method1("info", (slf,))
    }

    /// Reads every value, decodes every image, audio file and video file to its end, and reports what is damaged.
    ///
    /// ``limit`` checks only so many samples, from the first on; ``threads`` is one a core by default. ``audio`` names
    /// further fields of bytes that are audio files; those of a folder of audio are decoded anyway. ``video`` names further
    /// fields of bytes that are video files; those of which at least half of the first eight values begin as video files do
    /// are decoded anyway.
    /// ``start_field`` and ``end_field`` name the seconds of the part of each video that is checked, as in ``fuseloop.Clips``.
    /// ``progress`` is that of ``fuseloop.write``. Ctrl-C ends the check.
    #[pyo3(
        signature = (**options),
        text_signature = "($self, *, limit=None, threads=None, audio=(), video=(), start_field=None, end_field=None, progress='auto')"
    )]
    fn verify<'py>(
        slf: &Bound<'py, Self>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("fuseloop._checks")?.call_method("verify", (slf,), options)
    }

    /// A dataset is pickled as the name that it was opened by.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let (py, this) = (slf.py(), slf.get());
        if let Some(recipe) = &this.recipe {
            return Ok(recipe.bind(py).clone().into_any());
        }
        let opened = this.opened.clone().ok_or_else(|| {
            PyTypeError::new_err(
                "this dataset can't be pickled: it was opened with more than a name",
            )
        })?;
        Ok((py.get_type::<Self>().getattr("open")?, (opened,)).into_pyobject(py)?.into_any())
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let (this, class) = (slf.get(), slf.get_type().name()?);
        let fields =
            this.fields.iter().map(|field| format!("{}: {}", field.name, kind(&field.kind)));
        let fields = fields.collect::<Vec<_>>().join(", ");
        Ok(match this.dataset.source() {
            Some(source) => {
                format!("{class}('{}', samples={}, {fields})", this.name, source.len())
            }
            None => format!("{class}('{}', a stream, {fields})", this.name),
        })
    }
}

/// The number of values that are read before signals are looked at.
const AT_ONCE: usize = 1 << 14;

pub(crate) fn class_names<'py>(
    py: Python<'py>,
    names: &ClassNames,
) -> PyResult<Bound<'py, PyDict>> {
    let classes = PyDict::new(py);
    for (number, name) in names.iter() {
        classes.set_item(number, name)?;
    }
    Ok(classes)
}

/// Describes the kind of a field.
pub(crate) fn kind(kind: &FieldKind) -> String {
    match kind {
        FieldKind::Float => "float".to_owned(),
        FieldKind::Int => "int".to_owned(),
        FieldKind::RgbImage | FieldKind::BitPlaneImage => "image".to_owned(),
        FieldKind::Bytes => "bytes".to_owned(),
        FieldKind::Json => "json".to_owned(),
        FieldKind::NdArray { dtype, shape } | FieldKind::TorchTensor { dtype, shape } => {
            format!("{dtype} {shape:?}")
        }
        FieldKind::Custom { row_size, .. } => format!("custom, {row_size} bytes"),
        _ => "other".to_owned(),
    }
}

pub(crate) fn to_python<'py>(
    py: Python<'py>,
    field: &FieldSpec,
    value: &OwnedValue,
) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        OwnedValue::Int(value) => value.into_pyobject(py)?.into_any(),
        OwnedValue::Float(value) => value.into_pyobject(py)?.into_any(),
        OwnedValue::Bytes(bytes) | OwnedValue::Custom(bytes) => PyBytes::new(py, bytes).into_any(),
        OwnedValue::Json(bytes) => {
            let text = bytes.strip_suffix(b"\0").unwrap_or(bytes);
            py.import("json")?.call_method1("loads", (PyBytes::new(py, text),))?
        }
        OwnedValue::Image(image) if image.mode == source::ImageMode::Raw => {
            let pixels = numpy(py)?
                .call_method1("frombuffer", (PyByteArray::new(py, &image.bytes), "uint8"))?;
            pixels.call_method1("reshape", ((image.height, image.width, 3),))?
        }
        OwnedValue::Image(image) if image.mode == source::ImageMode::BitPlanes => {
            let jpeg = BitPlaneCodec::new(Limits::DEFAULT).unpack(&image.bytes);
            PyBytes::new(py, &jpeg.map_err(|error| errors::raised(py, &error))?).into_any()
        }
        OwnedValue::Image(image) => PyBytes::new(py, &image.bytes).into_any(),
        OwnedValue::NdArray(bytes) => {
            let (FieldKind::NdArray { dtype, shape } | FieldKind::TorchTensor { dtype, shape }) =
                &field.kind
            else {
                return Ok(PyBytes::new(py, bytes).into_any());
            };
            let dtype = PyString::new(py, &dtype.to_string());
            let flat =
                numpy(py)?.call_method1("frombuffer", (PyByteArray::new(py, bytes), dtype))?;
            flat.call_method1("reshape", (shape.clone(),))?
        }
        _ => py.None().into_bound(py),
    })
}
