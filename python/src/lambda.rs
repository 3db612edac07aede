//! Functions of Python in lists of ops.
//!
//! ```text
//! worker ─▶ attach to the interpreter ─▶ copy to an array of NumPy ─▶ f(array, ids, rng) ─▶ copy back
//! ```
//!
//! A function gets an array that owns its memory, and may keep it: batches and buffers of workers are used
//! again. Arrays are used again too, unless the function kept them.

use crate::batch::with_rows;
use crate::call::{attached, numpy};
use crate::errors;
use crate::tensor::dtype_name;
use fuseloop::ops::author::{
    BoxError, Dim, HostBatchOp, HostOp, ImageType, Op, OpClass, Rng, Type, op_name,
};
use fuseloop::ops::{DType, HostRows, HostSample, Size, TypeError};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// The maximum number of arrays that a function keeps for its next calls.
const MAX_ARRAYS: usize = 64;

/// A function of Python as an op.
#[pyclass(frozen, module = "fuseloop._fuseloop")]
pub(crate) struct Function(Arc<PythonOp>);

impl Function {
    pub(crate) fn op(&self) -> Arc<dyn Op> {
        Arc::<PythonOp>::clone(&self.0)
    }
}

#[pymethods]
impl Function {
    /// Makes an op of `f`. `code` stands for its code in the fingerprints of plans. `takes_ids` says whether it
    /// is called with the numbers of samples.
    #[new]
    fn new(
        f: Py<PyAny>,
        name: &str,
        code: String,
        rng: bool,
        per_sample: bool,
        output: Option<(u32, u32)>,
        takes_ids: bool,
    ) -> Self {
        let output = output.map(|(height, width)| Size::new(height, width));
        let (name, arrays) = (op_name(name), Mutex::default());
        Self(Arc::new(PythonOp { name, code, f, rng, per_sample, output, takes_ids, arrays }))
    }
}

struct PythonOp {
    name: &'static str,
    code: String,
    f: Py<PyAny>,
    rng: bool,
    per_sample: bool,
    output: Option<Size>,
    takes_ids: bool,
    /// Arrays of bytes that nothing else refers to.
    arrays: Mutex<Vec<Py<PyAny>>>,
}

/// The text that fingerprints of plans contain.
impl fmt::Debug for PythonOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, code, rng, per_sample, output, .. } = self;
        write!(f, "Lambda({name:?}, {code}, {rng}, {per_sample}, {output:?})")
    }
}

impl Op for PythonOp {
    fn name(&self) -> &'static str {
        self.name
    }

    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        let refused =
            |expected| Err(TypeError { op: self.name, expected, found: input.to_string() });
        match (input, self.per_sample) {
            (Type::Image(ImageType { dtype: DType::Bf16, .. }), false)
            | (Type::Tensor { dtype: DType::Bf16, .. }, false) => {
                refused("elements of a type of NumPy's, which has no bf16 (take f16 or f32)")
            }
            (_, false) => Ok(input.clone()),
            (Type::Image(image), true) if image.dtype == DType::U8 => {
                Ok(Type::Image(match self.output {
                    Some(Size { height, width }) => {
                        let (height, width) = (Dim::fixed(height), Dim::fixed(width));
                        ImageType { height, width, ..*image }
                    }
                    None => *image,
                }))
            }
            (Type::Image(_), true) => refused("a u8 image (put it before Normalize and Convert)"),
            (Type::Tensor { .. }, true) => refused(
                "an image (leave per_sample out: the function then gets the labels of a batch)",
            ),
        }
    }

    fn class(&self) -> OpClass<'_> {
        if self.per_sample { OpClass::Host(self) } else { OpClass::HostBatch(self) }
    }
}

impl HostOp for PythonOp {
    fn apply(&self, host: HostSample<'_>, pixels: &mut [u8]) -> Result<(), BoxError> {
        attached(|py| {
            let shape = image_shape(host.size, host.channels);
            let (array, bytes) = self.array(py, pixels, DType::U8, &shape)?;
            let id = host.sample.into_pyobject(py)?.into_any();
            let returned = self.call(py, &array, id, host.rng)?;
            self.finish(py, array, returned, bytes, (DType::U8, &shape), pixels)
        })
    }

    fn output_size(&self) -> Option<Size> {
        self.output
    }

    fn apply_sized(
        &self,
        host: HostSample<'_>,
        pixels: &[u8],
        out: &mut [u8],
    ) -> Result<(), BoxError> {
        let Some(size) = self.output else { return Ok(()) };
        attached(|py| {
            let shape = image_shape(host.size, host.channels);
            let (array, bytes) = self.array(py, pixels, DType::U8, &shape)?;
            let id = host.sample.into_pyobject(py)?.into_any();
            let returned = self.call(py, &array, id, host.rng)?;
            let shape = image_shape(size, host.channels);
            self.take(py, &returned, (DType::U8, &shape), out)?;
            drop((array, returned));
            self.keep(bytes);
            Ok(())
        })
    }
}

impl HostBatchOp for PythonOp {
    fn apply(&self, host: HostRows<'_>, rows: &mut [u8]) -> Result<(), BoxError> {
        attached(|py| {
            let shape = with_rows(host.samples.len(), host.shape);
            let (array, bytes) = self.array(py, rows, host.dtype, &shape)?;
            let ids: Vec<u8> = host.samples.iter().flat_map(|id| id.to_ne_bytes()).collect();
            let ids = numpy(py)?.call_method1("frombuffer", (PyBytes::new(py, &ids), "int64"))?;
            let returned = self.call(py, &array, ids, host.rng)?;
            self.finish(py, array, returned, bytes, (host.dtype, &shape), rows)
        })
    }
}

impl PythonOp {
    /// Returns a copy of `bytes` as an array, and the array of bytes that it is a view of.
    fn array<'py>(
        &self,
        py: Python<'py>,
        bytes: &[u8],
        dtype: DType,
        shape: &[usize],
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let free = {
            let mut arrays = self.arrays.lock().unwrap_or_else(PoisonError::into_inner);
            arrays.pop()
        };
        let free = free.map(|free| free.into_bound(py));
        let is_as_long = |free: &Bound<'_, PyAny>| free.len().is_ok_and(|len| len == bytes.len());
        let memory = match free.filter(is_as_long) {
            Some(free) => free,
            None => numpy(py)?.call_method1("empty", (bytes.len(), "uint8"))?,
        };
        PyBuffer::<u8>::get(&memory)?.copy_from_slice(py, bytes)?;
        let shape = PyTuple::new(py, shape)?;
        let array = match dtype {
            DType::U8 => memory.call_method1("reshape", (shape,))?,
            _ => memory
                .call_method1("view", (dtype_name(dtype),))?
                .call_method1("reshape", (shape,))?,
        };
        Ok((array, memory))
    }

    /// Calls the function.
    fn call<'py>(
        &self,
        py: Python<'py>,
        array: &Bound<'py, PyAny>,
        ids: Bound<'py, PyAny>,
        rng: &mut Rng,
    ) -> PyResult<Bound<'py, PyAny>> {
        let mut arguments = vec![array.clone()];
        if self.takes_ids {
            arguments.push(ids);
        }
        if self.rng {
            let seed = PyTuple::new(py, [rng.word(), rng.word(), rng.word(), rng.word()])?;
            let random = numpy(py)?.getattr("random")?;
            arguments.push(random.call_method1("default_rng", (seed,))?);
        }
        self.f.bind(py).call1(PyTuple::new(py, arguments)?)
    }

    /// Copies what the function changed or returned to `out`.
    fn finish(
        &self,
        py: Python<'_>,
        array: Bound<'_, PyAny>,
        returned: Bound<'_, PyAny>,
        memory: Bound<'_, PyAny>,
        of: (DType, &[usize]),
        out: &mut [u8],
    ) -> PyResult<()> {
        if returned.is_none() || returned.is(&array) {
            PyBuffer::<u8>::get(&memory)?.copy_to_slice(py, out)?;
        } else {
            self.take(py, &returned, of, out)?;
        }
        drop((array, returned));
        self.keep(memory);
        Ok(())
    }

    /// Copies an array that the function returned to `out`.
    fn take(
        &self,
        py: Python<'_>,
        returned: &Bound<'_, PyAny>,
        (dtype, shape): (DType, &[usize]),
        out: &mut [u8],
    ) -> PyResult<()> {
        let numpy = numpy(py)?;
        let array = numpy.call_method1("asarray", (returned,))?;
        let (wanted, expected) = (PyTuple::new(py, shape)?, dtype_name(dtype));
        let found = (array.getattr("shape")?, array.getattr("dtype")?);
        if !found.0.eq(&wanted)? || found.1.getattr("name")?.extract::<String>()? != expected {
            let what = if returned.is_none() {
                "None".to_owned()
            } else {
                format!("an array of {} and shape {}", found.1, found.0)
            };
            let cure = if self.per_sample && self.output.is_none() && !found.0.eq(&wanted)? {
                "; declare another size of the returned images with output=(height, width)"
            } else if found.0.eq(&wanted)? {
                "; round and clip the result, and convert it with .astype"
            } else {
                ""
            };
            let message = format!(
                "{} returned {what}, expected {expected} and shape {wanted}{cure}",
                self.name
            );
            return Err(errors::pipeline(py, &message));
        }
        let array = numpy.call_method1("ascontiguousarray", (array,))?;
        let bytes = array.call_method1("reshape", (-1,))?.call_method1("view", ("uint8",))?;
        PyBuffer::<u8>::get(&bytes)?.copy_to_slice(py, out)
    }

    /// Keeps an array for the next call, if the function did not.
    #[expect(
        deprecated,
        reason = "the count, which only saves memory here, has no other safe function"
    )]
    fn keep(&self, memory: Bound<'_, PyAny>) {
        let mut arrays = self.arrays.lock().unwrap_or_else(PoisonError::into_inner);
        if arrays.len() < MAX_ARRAYS && memory.get_refcnt() == 1 {
            arrays.push(memory.unbind());
        }
    }
}

fn image_shape(size: Size, channels: usize) -> [usize; 3] {
    [size.height as usize, size.width as usize, channels]
}
