//! Tensors of a batch, lent to NumPy, torch and JAX without a copy.
//!
//! A tensor is a name for a part of its batch. What is exported, by DLPack or the buffer protocol, owns the
//! memory of the batch together with it: that memory is used again when the last of them is gone.

#![allow(unsafe_code, reason = "structures of C that others own")]

use crate::batch::Shared;
use crate::call;
use fuseloop::batch::SharedBytes;
use fuseloop::device::{DeviceStream, DlpackCapsule, ManagedTensor, ManagedTensorVersioned};
use fuseloop::internals::batch::capsule;
use fuseloop::ops::DType;
use pyo3::exceptions::{PyBufferError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyDict, PyIterator, PyMemoryView, PyTuple};
use std::ffi::{CStr, c_int, c_void};
use std::sync::Arc;

/// DLPack's kind and number of host memory.
const HOST: (i32, i32) = (1, 0);

/// A tensor of a batch.
///
/// ``numpy.asarray(tensor)``, ``torch.from_dlpack(tensor)`` and ``jax.dlpack.from_dlpack(tensor)`` take it
/// without a copy. What they return may outlive the batch and the loader, and can be written to: the memory
/// belongs to this batch alone.
///
/// A tensor on a GPU stays there for torch and JAX; arrays of NumPy are copies of it in host memory.
#[pyclass(frozen, module = "fuseloop", weakref)]
pub(crate) struct Tensor {
    batch: Arc<Shared>,
    name: String,
    dtype: DType,
    place: Place,
    /// For the buffer protocol, whose views point to these.
    shape: Vec<isize>,
    strides: Vec<isize>,
}

/// Where the elements of a tensor are.
#[derive(Clone, Copy)]
enum Place {
    /// In host memory, this number of bytes after the start of the batch's tensor.
    Host { start: usize },
    /// On a GPU.
    Device(u32),
}

impl Tensor {
    /// Makes a tensor of elements without gaps in host memory, from byte `start` of the batch's tensor.
    pub(crate) fn on_host(
        batch: Arc<Shared>,
        name: &str,
        dtype: DType,
        shape: &[usize],
        start: usize,
    ) -> Self {
        Self::new(batch, name, dtype, shape, Place::Host { start })
    }

    pub(crate) fn on_device(
        batch: Arc<Shared>,
        name: &str,
        dtype: DType,
        shape: &[usize],
        device: u32,
    ) -> Self {
        Self::new(batch, name, dtype, shape, Place::Device(device))
    }

    fn new(batch: Arc<Shared>, name: &str, dtype: DType, shape: &[usize], place: Place) -> Self {
        // A batch is smaller than half of the address space.
        let shape: Vec<isize> = shape.iter().map(|&n| n.cast_signed()).collect();
        let item = dtype.bytes().cast_signed();
        let strides = (1..=shape.len()).map(|k| shape[k..].iter().product::<isize>() * item);
        let strides = strides.collect();
        Self { batch, name: name.to_owned(), dtype, place, shape, strides }
    }

    fn sizes(&self) -> Vec<usize> {
        self.shape.iter().map(|n| n.cast_unsigned()).collect()
    }

    /// Returns the memory, and the first byte in it.
    fn memory(&self) -> PyResult<(SharedBytes, usize)> {
        match self.place {
            Place::Host { start } => {
                let memory = self.batch.memory(&self.name)?;
                let is_inside = start
                    .checked_add(self.nbytes())
                    .is_some_and(|end| end <= memory.as_slice().len());
                assert!(is_inside, "a tensor beyond the memory of its batch");
                Ok((memory, start))
            }
            Place::Device(number) => Err(PyBufferError::new_err(format!(
                "tensor '{}' is on cuda:{number}: torch.from_dlpack(tensor) takes it there, and \
                 tensor.numpy() copies it to host memory",
                self.name
            ))),
        }
    }

    fn is_on_device(&self) -> bool {
        matches!(self.place, Place::Device(_))
    }

    /// Each row of a tensor on a GPU would cost a copy of the whole tensor.
    fn refuse_index_on_device(&self) -> PyResult<()> {
        if !self.is_on_device() {
            return Ok(());
        }
        Err(PyTypeError::new_err(format!(
            "tensor '{}' is on {}: index tensor.torch() there, or tensor.numpy(), which copies it once",
            self.name,
            self.device()
        )))
    }

    /// Returns an array of the elements, of a type that NumPy has: in the memory of the batch, or a copy of
    /// those on a GPU.
    fn array<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let (py, this) = (slf.py(), slf.get());
        let numpy = call::numpy(py)?;
        if !this.is_on_device() {
            // NumPy hides an error of the buffer protocol, unless it gets a memoryview.
            return numpy.call_method1("asarray", (PyMemoryView::from(slf.as_any())?,));
        }
        let batch = this.batch.get()?;
        let bytes = call::detached(py, || batch.to_host(&this.name))?;
        let bytes = PyByteArray::new(py, &bytes);
        numpy.call_method1("ndarray", (PyTuple::new(py, &this.shape)?, this.dtype(), bytes))
    }

    /// Returns the letter of Python's module `struct` for an element.
    fn format(&self) -> PyResult<&'static CStr> {
        Ok(match self.dtype {
            DType::U8 => c"B",
            DType::U16 => c"H",
            DType::I16 => c"h",
            DType::I32 => c"i",
            DType::I64 => c"q",
            DType::F16 => c"e",
            DType::F32 => c"f",
            DType::F64 => c"d",
            _ => {
                let text = "NumPy has no bfloat16 of its own: use tensor.numpy(), which takes that of the \
                            package ml_dtypes, or torch.from_dlpack(tensor)";
                return Err(PyBufferError::new_err(text));
            }
        })
    }

    fn capsule(&self, py: Python<'_>, stream: Option<i64>) -> PyResult<DlpackCapsule> {
        match self.place {
            Place::Host { .. } => {
                let (memory, start) = self.memory()?;
                Ok(capsule(memory, start, self.dtype, &self.sizes()))
            }
            Place::Device(_) => {
                let batch = self.batch.get()?;
                // SAFETY: DLPack has the caller promise that the stream is one of its own that lives.
                let stream = unsafe { DeviceStream::from_dlpack(stream) };
                let stream = stream.map_err(|error| crate::errors::raised(py, &error))?;
                call::detached(py, || batch.dlpack(&self.name, stream))
            }
        }
    }
}

#[pymethods]
impl Tensor {
    /// The number of elements along each dimension; the first is the batch.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.shape)
    }

    /// The type of an element, by NumPy's name.
    #[getter]
    fn dtype(&self) -> &'static str {
        dtype_name(self.dtype)
    }

    /// The name of the output.
    #[getter]
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// ``"cpu"`` or ``"cuda:N"``.
    #[getter]
    fn device(&self) -> String {
        match self.place {
            Place::Host { .. } => "cpu".to_owned(),
            Place::Device(number) => format!("cuda:{number}"),
        }
    }

    /// The number of bytes.
    #[getter]
    fn nbytes(&self) -> usize {
        self.sizes().iter().product::<usize>() * self.dtype.bytes()
    }

    /// The address of the first element, in host memory.
    #[getter]
    fn ptr(&self) -> PyResult<usize> {
        let (memory, start) = self.memory()?;
        Ok(memory.start().addr() + start)
    }

    fn __len__(&self) -> usize {
        self.shape.first().map_or(0, |n| n.cast_unsigned())
    }

    /// Returns rows or elements, as an array of NumPy indexes them: in the memory of the batch.
    fn __getitem__<'py>(
        slf: &Bound<'py, Self>,
        index: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        slf.get().refuse_index_on_device()?;
        Self::numpy(slf, false)?.get_item(index)
    }

    /// Returns the rows, as arrays in the memory of the batch.
    fn __iter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyIterator>> {
        slf.get().refuse_index_on_device()?;
        Self::numpy(slf, false)?.try_iter()
    }

    fn __repr__(&self) -> String {
        let (shape, dtype, device) = (&self.shape, self.dtype(), self.device());
        format!("Tensor('{}', shape={shape:?}, dtype={dtype}, device={device})", self.name)
    }

    /// Returns the tensor as an array. It shares the memory of the batch, unless ``copy`` is true or the tensor
    /// is on a GPU.
    #[pyo3(signature = (copy = false))]
    pub(crate) fn numpy<'py>(slf: &Bound<'py, Self>, copy: bool) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let this = slf.get();
        let array = if this.dtype == DType::Bf16 {
            let Ok(types) = py.import("ml_dtypes") else {
                return Err(PyTypeError::new_err(
                    "NumPy has no bfloat16: install ml_dtypes, or take torch.from_dlpack(tensor)",
                ));
            };
            let words = Self { dtype: DType::I16, strides: this.strides.clone(), ..this.renamed() };
            let words = Self::array(&words.into_pyobject(py)?)?;
            words.call_method1("view", (types.getattr("bfloat16")?,))?
        } else {
            Self::array(slf)?
        };
        if copy && !this.is_on_device() { array.call_method0("copy") } else { Ok(array) }
    }

    /// Returns the tensor as an array, for NumPy.
    #[pyo3(signature = (dtype = None, copy = None))]
    fn __array__<'py>(
        slf: &Bound<'py, Self>,
        dtype: Option<Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let this = slf.get();
        if copy == Some(false) && this.is_on_device() {
            let text =
                format!("tensor '{}' is on {}: an array is a copy", this.name, this.device());
            return Err(PyValueError::new_err(text));
        }
        let array = Self::numpy(slf, copy == Some(true))?;
        let Some(dtype) = dtype else { return Ok(array) };
        let options = PyDict::new(slf.py());
        options.set_item("copy", false)?;
        array.call_method("astype", (dtype,), Some(&options))
    }

    /// Returns the tensor as one of torch. It shares the memory of the batch, unless ``copy`` is true.
    #[pyo3(signature = (copy = false))]
    pub(crate) fn torch<'py>(slf: &Bound<'py, Self>, copy: bool) -> PyResult<Bound<'py, PyAny>> {
        let tensor = slf.py().import("torch")?.call_method1("from_dlpack", (slf,))?;
        if copy { tensor.call_method0("clone") } else { Ok(tensor) }
    }

    /// Returns the tensor as an array of JAX, on its default device, or on the GPU where the tensor is. On the
    /// CPU it shares the memory of the batch. Numbers of 64 bits become such of 32, as everywhere in JAX, unless
    /// ``jax_enable_x64`` is set; a whole number that does not fit is an error.
    fn jax<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("fuseloop.jax")?.call_method1("_array", (slf,))
    }

    /// Exports the tensor: see the array API standard.
    #[pyo3(signature = (*, stream = None, max_version = None, dl_device = None, copy = None))]
    fn __dlpack__<'py>(
        slf: &Bound<'py, Self>,
        stream: Option<i64>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (py, this) = (slf.py(), slf.get());
        let is_elsewhere = dl_device.is_some_and(|asked| asked != this.__dlpack_device__());
        let to_host = is_elsewhere && dl_device == Some(HOST) && copy != Some(false);
        if is_elsewhere && !to_host {
            let text = format!("the tensor is on {}: copy it from there", this.device());
            return Err(PyBufferError::new_err(text));
        }
        if copy == Some(true) && this.is_on_device() && !to_host {
            let text = format!(
                "the tensor is on {}: take it without a copy, and copy that",
                this.device()
            );
            return Err(PyBufferError::new_err(text));
        }
        if to_host || copy == Some(true) {
            let options = PyDict::new(py);
            options.set_item("max_version", max_version)?;
            return Self::numpy(slf, true)?.call_method("__dlpack__", (), Some(&options));
        }
        let capsule = this.capsule(py, stream)?;
        if max_version.is_some_and(|version| version >= (1, 0)) {
            new_capsule(py, capsule.into_raw_versioned().cast(), VERSIONED, delete_versioned)
        } else {
            new_capsule(py, capsule.into_raw().cast(), UNVERSIONED, delete_unversioned)
        }
    }

    /// The kind and the number of the device: (1, 0) is host memory, (2, N) CUDA.
    fn __dlpack_device__(&self) -> (i32, i32) {
        match self.place {
            Place::Host { .. } => HOST,
            Place::Device(number) => (2, number.cast_signed()),
        }
    }

    fn __reduce__(&self) -> PyResult<()> {
        let text = "a tensor of a batch can't be pickled: pickle tensor.numpy(copy=True)";
        Err(PyTypeError::new_err(text))
    }

    /// # Safety
    ///
    /// CPython passes a `view` that it owns.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let this = slf.get();
        let (memory, start) = this.memory()?;
        let format = this.format()?;
        let asked = |flag: c_int| flags & flag == flag;
        // A consumer that asks for columns one after another alone gets none: rows are. Of one dimension they are both.
        let are_both = this.shape.iter().filter(|&&n| n > 1).count() < 2 || this.nbytes() == 0;
        if asked(ffi::PyBUF_F_CONTIGUOUS) && !asked(ffi::PyBUF_ANY_CONTIGUOUS) && !are_both {
            return Err(PyBufferError::new_err(
                "the elements of a tensor are in the order of rows",
            ));
        }
        let shown = |sizes: &[isize], shown: bool| match shown {
            true => sizes.as_ptr().cast_mut(),
            false => std::ptr::null_mut(),
        };
        // SAFETY: `view` is CPython's. What it points to is in the tensor, which `obj` keeps alive, and in the
        // memory, which `internal` owns until `__releasebuffer__`.
        unsafe {
            (*view).buf = memory.start().add(start).cast();
            (*view).len = this.nbytes().cast_signed();
            (*view).readonly = 0;
            (*view).itemsize = this.dtype.bytes().cast_signed();
            (*view).format = match asked(ffi::PyBUF_FORMAT) {
                true => format.as_ptr().cast_mut(),
                false => std::ptr::null_mut(),
            };
            (*view).ndim = this.shape.len() as c_int;
            (*view).shape = shown(&this.shape, asked(ffi::PyBUF_ND));
            (*view).strides = shown(&this.strides, asked(ffi::PyBUF_STRIDES));
            (*view).suboffsets = std::ptr::null_mut();
            (*view).internal = Box::into_raw(Box::new(memory)).cast();
            (*view).obj = slf.into_ptr();
        }
        Ok(())
    }

    /// # Safety
    ///
    /// CPython passes a `view` that `__getbuffer__` has filled, once.
    unsafe fn __releasebuffer__(&self, view: *mut ffi::Py_buffer) {
        // SAFETY: `__getbuffer__` leaked this box.
        drop(unsafe { Box::from_raw((*view).internal.cast::<SharedBytes>()) });
    }
}

impl Tensor {
    fn renamed(&self) -> Self {
        let (batch, name) = (Arc::clone(&self.batch), self.name.clone());
        let (shape, strides) = (self.shape.clone(), self.strides.clone());
        Self { batch, name, dtype: self.dtype, place: self.place, shape, strides }
    }
}

/// Returns NumPy's name of a type.
pub(crate) fn dtype_name(dtype: DType) -> &'static str {
    match dtype {
        DType::U8 => "uint8",
        DType::U16 => "uint16",
        DType::I16 => "int16",
        DType::I32 => "int32",
        DType::I64 => "int64",
        DType::F16 => "float16",
        DType::Bf16 => "bfloat16",
        DType::F32 => "float32",
        DType::F64 => "float64",
        _ => "unknown",
    }
}

/// The names of capsules that nobody has taken the tensor from yet.
const VERSIONED: &CStr = c"dltensor_versioned";
const UNVERSIONED: &CStr = c"dltensor";

/// Makes a capsule around a tensor, which it owns until a consumer renames it.
fn new_capsule<'py>(
    py: Python<'py>,
    tensor: *mut c_void,
    name: &'static CStr,
    delete: unsafe extern "C" fn(*mut ffi::PyObject),
) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: the pointer is not null, and the name lives for ever. A capsule that can't be made deletes
    // nothing.
    unsafe {
        let capsule = ffi::PyCapsule_New(tensor, name.as_ptr(), Some(delete));
        Bound::from_owned_ptr_or_err(py, capsule)
    }
}

/// Returns the tensor in a capsule, unless a consumer has taken it and renamed the capsule.
///
/// # Safety
///
/// `capsule` is a capsule, and this thread is attached to the interpreter.
unsafe fn unconsumed(capsule: *mut ffi::PyObject, name: &'static CStr) -> Option<*mut c_void> {
    // SAFETY: the caller's promise. A valid capsule of this name has a pointer, so no error is set.
    unsafe {
        match ffi::PyCapsule_IsValid(capsule, name.as_ptr()) {
            1 => Some(ffi::PyCapsule_GetPointer(capsule, name.as_ptr())),
            _ => None,
        }
    }
}

/// # Safety
///
/// CPython calls it with a capsule that [`new_capsule`] made, once.
unsafe extern "C" fn delete_versioned(capsule: *mut ffi::PyObject) {
    // SAFETY: the tensor is that of `into_raw_versioned`, and nobody has taken it.
    unsafe {
        if let Some(tensor) = unconsumed(capsule, VERSIONED) {
            let tensor = tensor.cast::<ManagedTensorVersioned>();
            if let Some(delete) = (*tensor).deleter {
                delete(tensor);
            }
        }
    }
}

/// # Safety
///
/// See [`delete_versioned`].
unsafe extern "C" fn delete_unversioned(capsule: *mut ffi::PyObject) {
    // SAFETY: the tensor is that of `into_raw`, and nobody has taken it.
    unsafe {
        if let Some(tensor) = unconsumed(capsule, UNVERSIONED) {
            let tensor = tensor.cast::<ManagedTensor>();
            if let Some(delete) = (*tensor).deleter {
                delete(tensor);
            }
        }
    }
}
