//! Memory that objects of Python lend: arrays and bytes that are read, and new arrays that are written.
//!
//! A buffer keeps its object alive and its memory in place. What is read may be written to by other threads of Python,
//! as with all functions of NumPy that let them run: `fuseloop.Transform` says that it must not be.

#![allow(unsafe_code, reason = "memory that objects of Python own")]

use crate::call::numpy;
use crate::errors;
use crate::tensor::dtype_name;
use fuseloop::ops::DType;
use fuseloop::sample::Limits;
use pyo3::buffer::PyUntypedBuffer;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyMemoryView, PyTuple};
use std::slice;

/// The memory of an object, and what its elements are.
pub(crate) struct Lent {
    buffer: PyUntypedBuffer,
    /// The byte before the memory's lowest element, from the first element.
    lowest: isize,
    /// The number of bytes from the lowest to the end of the highest element.
    span: usize,
}

impl Lent {
    /// Borrows the memory of an object. The error is a sentence that says why it is not possible.
    pub(crate) fn of(object: &Bound<'_, PyAny>) -> Result<Self, String> {
        let buffer = PyUntypedBuffer::get(object).map_err(|error| error.to_string())?;
        if buffer.suboffsets().is_some() {
            return Err("its memory is in several pieces".to_owned());
        }
        let (mut lowest, mut highest) = (0_isize, 0_isize);
        for (&n, &stride) in buffer.shape().iter().zip(buffer.strides()) {
            let last = n.saturating_sub(1).cast_signed().checked_mul(stride);
            let end = if stride < 0 { &mut lowest } else { &mut highest };
            *end = last.and_then(|last| end.checked_add(last)).ok_or("its strides overflow")?;
        }
        let is_empty = buffer.shape().contains(&0);
        let span = highest.checked_sub(lowest).ok_or("its strides overflow")?;
        let span = if is_empty { 0 } else { span.cast_unsigned() + buffer.item_size() };
        Ok(Self { buffer, lowest, span })
    }

    pub(crate) fn shape(&self) -> &[usize] {
        self.buffer.shape()
    }

    /// Returns the number of bytes from one element to the next along each axis.
    pub(crate) fn strides(&self) -> &[isize] {
        self.buffer.strides()
    }

    pub(crate) fn item_size(&self) -> usize {
        self.buffer.item_size()
    }

    /// Returns whether the elements lie in the order of rows, without gaps.
    pub(crate) fn is_packed(&self) -> bool {
        self.buffer.is_c_contiguous()
    }

    /// Returns the letter of Python's module `struct` for the elements, and whether their bytes are in the order of
    /// another machine; `None` for elements of several values.
    pub(crate) fn letter(&self) -> Option<(u8, bool)> {
        let (order, letter) = match *self.buffer.format().to_bytes() {
            [letter] => (b'@', letter),
            [order, letter] => (order, letter),
            _ => return None,
        };
        let is_swapped = match order {
            b'<' => cfg!(target_endian = "big"),
            b'>' | b'!' => cfg!(target_endian = "little"),
            _ => false,
        };
        Some((letter, is_swapped && self.item_size() > 1))
    }

    /// Returns the type of the elements, if ops know it.
    pub(crate) fn dtype(&self) -> Option<DType> {
        let (letter, is_swapped) = self.letter()?;
        let dtype = match letter {
            b'B' => DType::U8,
            b'H' => DType::U16,
            b'h' => DType::I16,
            b'e' => DType::F16,
            b'f' => DType::F32,
            _ => return None,
        };
        (!is_swapped && dtype.bytes() == self.item_size()).then_some(dtype)
    }

    /// Returns a copy of the elements in the order of rows, of at most three axes. The error is a sentence.
    pub(crate) fn gathered(&self) -> Result<Vec<u8>, String> {
        let (item, bytes) = (self.item_size(), self.bytes());
        let mut axes = [(1, 0_isize); 3];
        let known = self.shape().iter().copied().zip(self.strides().iter().copied());
        let before = axes.len().checked_sub(known.len()).ok_or("it has too many axes")?;
        axes.iter_mut().skip(before).zip(known).for_each(|(axis, known)| *axis = known);
        let [(planes, plane), (rows, row), (columns, column)] = axes;
        let count =
            [planes, rows, columns, item].iter().try_fold(1_usize, |n, &m| n.checked_mul(m));
        let count = count.ok_or("it has too many elements")?;
        let most = Limits::DEFAULT.max_sample_bytes;
        if count as u64 > most {
            return Err(format!(
                "a copy of its elements has {count} bytes, and the limit is {most}"
            ));
        }
        let mut copy = vec![];
        copy.try_reserve_exact(count).map_err(|_| format!("no memory for {count} bytes"))?;
        copy.resize(count, 0);
        // Between the lowest and the highest element, so that no sum leaves the range of addresses.
        let at = |plane_number: usize, row_number: usize| {
            let (plane_number, row_number) = (plane_number.cast_signed(), row_number.cast_signed());
            plane_number * plane + row_number * row - self.lowest
        };
        let Some(row_bytes) = columns.checked_mul(item).filter(|&bytes| bytes > 0) else {
            return Ok(copy);
        };
        for (number, out) in copy.chunks_exact_mut(row_bytes).enumerate() {
            let start = at(number / rows, number % rows).cast_unsigned();
            if column == item.cast_signed() || columns == 1 {
                out.copy_from_slice(&bytes[start..][..row_bytes]);
                continue;
            }
            if let (1, &mut [ref mut red, ref mut green, ref mut blue]) = (item, &mut *out) {
                let next = |n: isize| bytes[(start.cast_signed() + n * column).cast_unsigned()];
                (*red, *green, *blue) = (next(0), next(1), next(2));
                continue;
            }
            for (number, out) in out.chunks_exact_mut(item).enumerate() {
                let start = (start.cast_signed() + number.cast_signed() * column).cast_unsigned();
                out.copy_from_slice(&bytes[start..][..item]);
            }
        }
        Ok(copy)
    }

    /// Returns the bytes from the lowest to the highest element.
    pub(crate) fn bytes(&self) -> &[u8] {
        if self.span == 0 {
            return &[];
        }
        let first = self.buffer.buf_ptr().cast::<u8>().cast_const();
        // SAFETY: the exporter of a buffer has all elements of its shape, at these strides from the first; `lowest` and
        // `span` reach from the lowest of them to the highest, within one object's memory. The buffer holds it.
        unsafe { slice::from_raw_parts(first.offset(self.lowest), self.span) }
    }
}

/// The memory of an object, which other threads read for as long as this exists. Unlike a [`Lent`], any thread may drop
/// it: a memoryview, which is an object of Python, holds the memory, and is given back when the interpreter runs next.
pub(crate) struct Held {
    _view: Py<PyMemoryView>,
    lowest: *const u8,
    span: usize,
}

// SAFETY: the view, which no other code has, keeps the memory in place, and it is only read. What the object's owner
// writes to it meanwhile is read as it comes: its bytes are pixels and elements, of which all values are valid.
unsafe impl Send for Held {}
// SAFETY: as above.
unsafe impl Sync for Held {}

impl Held {
    /// Holds the memory of an object, with the byte of its first element. The error is a sentence.
    pub(crate) fn of(object: &Bound<'_, PyAny>) -> Result<(Self, usize), String> {
        let view = PyMemoryView::from(object).map_err(|error| error.to_string())?;
        let lent = Lent::of(&view)?;
        let bytes = lent.bytes();
        let held = Self { lowest: bytes.as_ptr(), span: bytes.len(), _view: view.unbind() };
        Ok((held, lent.lowest.unsigned_abs()))
    }
}

/// The bytes from the lowest to the highest element.
impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: `of` took them from a slice of the memory that the view holds.
        unsafe { slice::from_raw_parts(self.lowest, self.span) }
    }
}

/// A new array of NumPy, which no other code has seen yet.
pub(crate) struct NewArray {
    array: Py<PyAny>,
    dtype: DType,
    buffer: PyUntypedBuffer,
}

impl NewArray {
    /// Makes an array of [`arguments`]. Its elements have no values yet that mean anything.
    pub(crate) fn new(arguments: &Bound<'_, PyTuple>, dtype: DType) -> PyResult<Self> {
        let py = arguments.py();
        static EMPTY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let find = || numpy(py)?.getattr("empty").map(Bound::unbind);
        let empty = EMPTY.get_or_try_init(py, find)?.bind(py);
        let array = empty.call1(arguments)?;
        let buffer = PyUntypedBuffer::get(&array)?;
        assert!(buffer.is_c_contiguous() && !buffer.readonly(), "a new array with gaps");
        Ok(Self { array: array.unbind(), dtype, buffer })
    }

    /// Returns whether the array has elements of a type, and a shape.
    pub(crate) fn is_like(&self, dtype: DType, shape: &[usize]) -> bool {
        self.dtype == dtype && self.buffer.shape() == shape
    }

    /// Returns the memory of all elements.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        let (first, len) = (self.buffer.buf_ptr().cast::<u8>(), self.buffer.len_bytes());
        if len == 0 {
            return &mut [];
        }
        // SAFETY: `new` has checked that the memory can be written to and has no gaps. No other code has the array
        // before `into_array`, and `self` is borrowed as long as the slice.
        unsafe { slice::from_raw_parts_mut(first, len) }
    }

    pub(crate) fn into_array(self, py: Python<'_>) -> Bound<'_, PyAny> {
        self.buffer.release(py);
        self.array.into_bound(py)
    }
}

/// Returns the arguments of `numpy.empty` for an array. bfloat16, which NumPy does not have, is that of `ml_dtypes`, or
/// two bytes without a type for torch.
pub(crate) fn arguments<'py>(
    py: Python<'py>,
    shape: &[usize],
    dtype: DType,
    for_torch: bool,
) -> PyResult<Bound<'py, PyTuple>> {
    let shape = PyTuple::new(py, shape)?;
    let name = match dtype {
        DType::Bf16 if for_torch => "V2".into_pyobject(py)?.into_any(),
        DType::Bf16 => match py.import("ml_dtypes") {
            Ok(types) => types.getattr("bfloat16")?,
            Err(_) => {
                let text = "the ops end with bfloat16, which NumPy does not have: install ml_dtypes, give a tensor of \
                            torch, or end with Convert('float32')";
                return Err(errors::setting(py, text));
            }
        },
        _ => dtype_name(dtype).into_pyobject(py)?.into_any(),
    };
    let dtype = numpy(py)?.call_method1("dtype", (name,))?;
    PyTuple::new(py, [shape.into_any(), dtype])
}
