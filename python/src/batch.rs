//! Batches: their tensors, and what is known of their samples.

use crate::call::{Owner, detached, numpy};
use crate::errors;
use crate::tensor::Tensor;
use fuseloop::SampleId;
use fuseloop::batch::{SharedBytes, TensorRows, TensorSpec};
use pyo3::exceptions::{PyBufferError, PyIndexError, PyKeyError, PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyDict, PyIterator, PyList, PyString};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A batch that its tensors share, until it is released.
pub(crate) struct Shared {
    batch: Mutex<Option<Arc<fuseloop::Batch>>>,
    owner: Owner,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Option<Arc<fuseloop::Batch>>> {
        self.batch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self) -> PyResult<Arc<fuseloop::Batch>> {
        self.lock().clone().ok_or_else(|| PyRuntimeError::new_err("the batch was released"))
    }

    /// Returns the memory of a tensor.
    pub(crate) fn memory(&self, name: &str) -> PyResult<SharedBytes> {
        let memory = self.get()?.share_memory(name);
        memory.map_err(|error| PyBufferError::new_err(error.to_string()))
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // The pool that the memory returns to has locks.
        let batch = self.batch.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        drop(batch.and_then(|batch| self.owner.unless_forked(batch)));
    }
}

/// A batch: a sequence of its tensors, in the order of the outputs, which is also read by name.
///
/// ``images, labels = batch`` unpacks it, ``batch["image"]`` is one tensor, ``dict(batch)`` has all. While
/// the batch, a tensor of it or an array that shares its memory lives, nothing else is written there.
#[pyclass(frozen, sequence, module = "fuseloop", weakref)]
pub(crate) struct Batch {
    shared: Arc<Shared>,
}

impl Batch {
    pub(crate) fn new(batch: fuseloop::Batch) -> Self {
        let batch = Mutex::new(Some(Arc::new(batch)));
        Self { shared: Arc::new(Shared { batch, owner: Owner::current() }) }
    }

    pub(crate) fn get(&self) -> PyResult<Arc<fuseloop::Batch>> {
        self.shared.get()
    }

    pub(crate) fn tensor<'py>(&self, py: Python<'py>, k: usize) -> PyResult<Bound<'py, PyAny>> {
        let batch = self.shared.get()?;
        let spec = &batch.specs()[k];
        let shared = || Arc::clone(&self.shared);
        match spec.rows {
            TensorRows::List { sizes, .. } => {
                let rows = rows(&batch, k, sizes)?.into_iter().map(|(start, shape)| {
                    Bound::new(py, Tensor::on_host(shared(), &spec.name, spec.dtype, &shape, start))
                });
                Ok(PyList::new(py, rows.collect::<PyResult<Vec<_>>>()?)?.into_any())
            }
            TensorRows::Ragged { sizes } => {
                let (mut total, mut offsets) = (0, vec![0]);
                for (_, shape) in rows(&batch, k, sizes)? {
                    total += shape.first().copied().unwrap_or(1);
                    offsets.push(total as i64);
                }
                let lengths = &batch.specs()[sizes];
                let frames = lengths.shape.iter().product();
                let lengths = batch.tensor::<i64>(&lengths.name);
                let lengths = lengths.map_err(|error| PyBufferError::new_err(error.to_string()))?;
                let mut of_frames = vec![0];
                of_frames.extend(lengths.as_slice().iter().scan(0_i64, |end, length| {
                    *end += *length;
                    Some(*end)
                }));
                let shape = with_rows(total, spec.shape.get(1..).unwrap_or_default());
                let values = Tensor::on_host(shared(), &spec.name, spec.dtype, &shape, 0);
                let values = Py::new(py, values)?;
                let tensor = RaggedTensor { values, offsets, of_frames, frames };
                Ok(Bound::new(py, tensor)?.into_any())
            }
            TensorRows::Device { .. } => {
                let shape = with_rows(batch.len(), &spec.shape);
                let device = batch.device().unwrap_or(0);
                let tensor = Tensor::on_device(shared(), &spec.name, spec.dtype, &shape, device);
                Ok(Bound::new(py, tensor)?.into_any())
            }
            _ => {
                let shape = batch.shape(&spec.name);
                let shape = shape.map_err(|error| errors::raised(py, &error.into()))?;
                let tensor = Tensor::on_host(shared(), &spec.name, spec.dtype, &shape, 0);
                Ok(Bound::new(py, tensor)?.into_any())
            }
        }
    }
}

/// Returns the shape of a number of rows, of the shape of one.
pub(crate) fn with_rows(rows: usize, shape: &[usize]) -> Vec<usize> {
    [&[rows], shape].concat()
}

/// Returns where each row starts, in bytes, and its shape, for a tensor whose rows differ.
fn rows(batch: &fuseloop::Batch, k: usize, sizes: usize) -> PyResult<Vec<(usize, Vec<usize>)>> {
    let (spec, sizes): (&TensorSpec, &TensorSpec) = (&batch.specs()[k], &batch.specs()[sizes]);
    let found = batch.tensor::<i64>(&sizes.name);
    let found = found.map_err(|error| PyBufferError::new_err(error.to_string()))?;
    let whole = spec.shape.iter().product::<usize>() * spec.dtype.bytes();
    let rows =
        (0..batch.len()).map(|i| (i * whole, spec.shape_of(found.row(i).unwrap_or_default())));
    Ok(rows.collect())
}

#[pymethods]
impl Batch {
    /// The number of samples. It is smaller than the batch size in the last batch of an epoch, and where
    /// damaged samples were skipped.
    #[getter]
    fn samples(&self) -> PyResult<usize> {
        Ok(self.shared.get()?.len())
    }

    /// The epoch.
    #[getter]
    fn epoch(&self) -> PyResult<u32> {
        Ok(self.shared.get()?.epoch().index())
    }

    /// The number of the batch in its epoch, from 0.
    #[getter]
    fn index(&self) -> PyResult<u64> {
        Ok(self.shared.get()?.index())
    }

    /// A hash of what decides the bits of the batch, as 16 hexadecimal digits: the dataset, the plan, the seed, the epoch,
    /// ``index``, the rank and ``ids``. The draws are functions of these. Threads and the machine change nothing.
    #[getter]
    fn fingerprint(&self) -> PyResult<String> {
        Ok(format!("{:016x}", self.shared.get()?.fingerprint()))
    }

    /// The sample of each row: an array of int64.
    #[getter]
    fn ids<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        numbers(py, self.shared.get()?.ids().iter().copied())
    }

    /// True for each row that counts, and false for one that only pads the batch: an array of bool.
    #[getter]
    fn mask<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let mask: Vec<u8> = self.shared.get()?.mask().map(u8::from).collect();
        let bytes = PyByteArray::new(py, &mask);
        numpy(py)?.call_method1("frombuffer", (bytes, "bool"))
    }

    /// The samples that were left out because they are damaged: an array of int64.
    #[getter]
    fn skipped<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        numbers(py, self.shared.get()?.skipped().iter().map(|skipped| skipped.sample))
    }

    /// The samples that are damaged and were replaced by others: an array of int64.
    #[getter]
    fn replaced<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        numbers(py, self.shared.get()?.replaced().iter().map(|replaced| replaced.sample))
    }

    /// The names of the tensors, in the order of the outputs.
    fn keys(&self) -> PyResult<Vec<String>> {
        Ok(self.shared.get()?.names().map(str::to_owned).collect())
    }

    /// The tensors by name.
    fn items<'py>(&self, py: Python<'py>) -> PyResult<Vec<(String, Bound<'py, PyAny>)>> {
        let names = self.keys()?.into_iter().enumerate();
        names.map(|(k, name)| Ok((name, self.tensor(py, k)?))).collect()
    }

    fn __len__(&self) -> PyResult<usize> {
        Ok(self.shared.get()?.specs().len())
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        let tensors = (0..self.__len__()?).map(|k| self.tensor(py, k));
        PyList::new(py, tensors.collect::<PyResult<Vec<_>>>()?)?.try_iter()
    }

    fn __getitem__<'py>(&self, which: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let (py, batch) = (which.py(), self.shared.get()?);
        if let Ok(name) = which.cast::<PyString>() {
            let name: String = name.extract()?;
            let k = batch
                .specs()
                .iter()
                .position(|spec| spec.name == name || spec.alias.as_deref() == Some(name.as_str()));
            let known = || batch.names().collect::<Vec<_>>().join(", ");
            let k = k.ok_or_else(|| {
                PyKeyError::new_err(format!(
                    "no tensor '{name}' in this batch, which has {}",
                    known()
                ))
            })?;
            return self.tensor(py, k);
        }
        let (k, tensors) = (which.extract::<i64>()?, batch.specs().len());
        match position(k, tensors as u64) {
            Some(found) => self.tensor(py, found as usize),
            None => Err(PyIndexError::new_err(format!("no tensor {k} in a batch of {tensors}"))),
        }
    }

    /// Returns the tensors as arrays of NumPy, by name. They share the memory of the batch, unless ``copy`` is
    /// true. Tensors on a GPU are copied.
    #[pyo3(signature = (copy = false))]
    fn numpy<'py>(&self, py: Python<'py>, copy: bool) -> PyResult<Bound<'py, PyDict>> {
        self.each(py, |tensor| tensor.call_method1("numpy", (copy,)))
    }

    /// Returns the tensors as those of torch, by name. They share the memory of the batch, unless ``copy`` is
    /// true.
    #[pyo3(signature = (copy = false))]
    fn torch<'py>(&self, py: Python<'py>, copy: bool) -> PyResult<Bound<'py, PyDict>> {
        self.each(py, |tensor| tensor.call_method1("torch", (copy,)))
    }

    /// Returns the tensors as arrays of JAX, by name.
    fn jax<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.each(py, |tensor| tensor.call_method0("jax"))
    }

    /// Returns the memory of the batch to the loader. The batch and its tensors can't be used after it.
    ///
    /// Raises BufferError while an array shares the memory.
    fn release(&self) -> PyResult<()> {
        let mut held = self.shared.lock();
        let Some(batch) = held.take() else { return Ok(()) };
        let views = batch.owners().saturating_sub(1);
        if views == 0 {
            return Ok(());
        }
        *held = Some(batch);
        let (are, arrays) = if views == 1 { ("is", "array") } else { ("are", "arrays") };
        Err(PyBufferError::new_err(format!(
            "there {are} still {views} {arrays} in the memory of this batch: drop them first, or take copies"
        )))
    }

    fn __repr__(&self) -> String {
        let Ok(batch) = self.shared.get() else { return "Batch(released)".to_owned() };
        let tensors = batch.specs().iter().map(|spec| {
            format!("{}: {} {:?}", spec.name, crate::tensor::dtype_name(spec.dtype), spec.shape)
        });
        let tensors = tensors.collect::<Vec<_>>().join(", ");
        let (epoch, index, samples) = (batch.epoch().index(), batch.index(), batch.len());
        format!("Batch(epoch={epoch}, index={index}, samples={samples}, {tensors})")
    }

    fn __reduce__(&self) -> PyResult<()> {
        let text = "a batch can't be pickled: pickle batch.numpy(copy=True), or start a loader in the other process";
        Err(PyTypeError::new_err(text))
    }
}

impl Batch {
    /// Converts each tensor; of a list of tensors, each of them.
    fn each<'py>(
        &self,
        py: Python<'py>,
        convert: impl Fn(&Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let all = PyDict::new(py);
        for (name, tensor) in self.items(py)? {
            if let Ok(list) = tensor.cast::<PyList>() {
                let rows = list.iter().map(|row| convert(&row));
                all.set_item(name, rows.collect::<PyResult<Vec<_>>>()?)?;
                continue;
            }
            // A tensor on a GPU is copied from there where the other library can't take it.
            let converted = match convert(&tensor) {
                Err(error) if error.is_instance_of::<PyBufferError>(py) => {
                    self.copied_from_device(py, &name)?.ok_or(error)?
                }
                converted => converted?,
            };
            all.set_item(name, converted)?;
        }
        Ok(all)
    }

    /// Returns a copy of a tensor on a GPU as an array of NumPy.
    fn copied_from_device<'py>(
        &self,
        py: Python<'py>,
        name: &str,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let batch = self.shared.get()?;
        let Some(spec) = batch.specs().iter().find(|spec| spec.name == name) else {
            return Ok(None);
        };
        if !matches!(spec.rows, TensorRows::Device { .. }) {
            return Ok(None);
        }
        let bytes = detached(py, || batch.to_host(name))?;
        let bytes = PyByteArray::new(py, &bytes);
        let dtype = match spec.dtype {
            fuseloop::ops::DType::Bf16 => py.import("ml_dtypes")?.getattr("bfloat16")?,
            dtype => PyString::new(py, crate::tensor::dtype_name(dtype)).into_any(),
        };
        let flat = numpy(py)?.call_method1("frombuffer", (bytes, dtype))?;
        Ok(Some(flat.call_method1("reshape", (with_rows(batch.len(), &spec.shape),))?))
    }
}

/// Returns an array of int64 of the numbers of samples.
fn numbers(py: Python<'_>, samples: impl Iterator<Item = SampleId>) -> PyResult<Bound<'_, PyAny>> {
    int64(py, &samples.map(|sample| sample.0.cast_signed()).collect::<Vec<_>>())
}

/// Returns the position of an index, which is counted from the end if it is negative; `None` if it is outside.
pub(crate) fn position(index: i64, len: u64) -> Option<u64> {
    let found = if index < 0 { len.checked_add_signed(index) } else { Some(index.cast_unsigned()) };
    found.filter(|&found| found < len)
}

/// Returns an array of int64.
pub(crate) fn int64<'py>(py: Python<'py>, values: &[i64]) -> PyResult<Bound<'py, PyAny>> {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
    let bytes = PyByteArray::new(py, &bytes);
    numpy(py)?.call_method1("frombuffer", (bytes, "int64"))
}

/// A tensor whose rows differ in length: all values one after the other, and where each row starts.
#[pyclass(frozen, module = "fuseloop")]
pub(crate) struct RaggedTensor {
    #[pyo3(get)]
    values: Py<Tensor>,
    offsets: Vec<i64>,
    /// Where each frame of each sample starts, and the end of the last.
    of_frames: Vec<i64>,
    /// The number of frames of a sample: 1 where samples are no clips.
    frames: usize,
}

#[pymethods]
impl RaggedTensor {
    /// Where each row starts in ``values``, and the end of the last: an array of int64.
    #[getter]
    fn offsets<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        int64(py, &self.offsets)
    }

    fn __len__(&self) -> usize {
        self.offsets.len() - 1
    }

    fn __repr__(&self) -> String {
        format!("RaggedTensor('{}', rows={})", self.values.get().name(), self.__len__())
    }

    /// Returns the row of a sample, which may be counted from the end, as an array that shares the memory of the batch.
    fn __getitem__<'py>(&self, py: Python<'py>, index: i64) -> PyResult<Bound<'py, PyAny>> {
        let rows = self.__len__();
        match position(index, rows as u64) {
            Some(i) => self.row(py, i as usize),
            None => Err(PyIndexError::new_err(format!("no row {index} of {rows}"))),
        }
    }

    /// Returns the rows, as arrays that share the memory of the batch.
    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        let rows = (0..self.__len__()).map(|i| self.row(py, i)).collect::<PyResult<Vec<_>>>()?;
        PyList::new(py, rows)?.try_iter()
    }

    /// Returns a row as an array that shares the memory of the batch. The row of a clip has those of all of its frames.
    fn row<'py>(&self, py: Python<'py>, i: usize) -> PyResult<Bound<'py, PyAny>> {
        let (Some(&start), Some(&end)) = (self.offsets.get(i), self.offsets.get(i + 1)) else {
            return Err(PyIndexError::new_err(format!("no row {i} of {}", self.__len__())));
        };
        self.between(py, start, end)
    }

    /// Returns the values of frame ``t`` of sample ``i``, which is a clip, as an array that shares the memory of the batch.
    /// The frames of several clips of a sample follow each other.
    fn frame<'py>(&self, py: Python<'py>, i: usize, t: usize) -> PyResult<Bound<'py, PyAny>> {
        if t >= self.frames || i >= self.__len__() {
            let (rows, frames) = (self.__len__(), self.frames);
            return Err(PyIndexError::new_err(format!(
                "no frame {t} of row {i}: there are {rows} rows of {frames} frames"
            )));
        }
        let at = i * self.frames + t;
        self.between(py, self.of_frames[at], self.of_frames[at + 1])
    }

    /// Returns the values and the offsets as arrays.
    #[pyo3(signature = (copy = false))]
    fn numpy<'py>(
        &self,
        py: Python<'py>,
        copy: bool,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        Ok((Tensor::numpy(self.values.bind(py), copy)?, self.offsets(py)?))
    }

    /// Returns a nested tensor of torch, of the layout ``torch.jagged``.
    #[pyo3(signature = (copy = false))]
    fn torch<'py>(&self, py: Python<'py>, copy: bool) -> PyResult<Bound<'py, PyAny>> {
        let torch = py.import("torch")?;
        let values = Tensor::torch(self.values.bind(py), copy)?;
        let offsets = torch.call_method1("from_numpy", (self.offsets(py)?,))?;
        let nested = torch.getattr("nested")?;
        nested.call_method1("nested_tensor_from_jagged", (values, offsets))
    }
}

impl RaggedTensor {
    fn between<'py>(&self, py: Python<'py>, start: i64, end: i64) -> PyResult<Bound<'py, PyAny>> {
        let values = Tensor::numpy(self.values.bind(py), false)?;
        let slice = pyo3::types::PySlice::new(py, start as isize, end as isize, 1);
        values.get_item(slice)
    }
}
