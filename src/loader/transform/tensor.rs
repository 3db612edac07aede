//! The array that a call returns.

use crate::batch::Element;
use crate::error::{Error, fail};
use fuseloop_engine::batch::{bytes_of, bytes_of_mut, elements_of};
use fuseloop_ops::DType;
use fuseloop_ops::internals::memory;
use std::fmt;

/// An array that owns its elements, row-major, without gaps.
///
/// ```
/// use fuseloop::ops::*;
/// use fuseloop::transform::{Image, Key, Transform};
///
/// let transform = Transform::new(ops![CenterCrop::new(2)?, Convert::to(DType::F32)])?;
/// let tensor = transform.apply(&Image::rgb(&[7; 4 * 4 * 3], 4, 4)?, Key::new(0, 0, 0))?;
/// assert_eq!((tensor.dtype(), tensor.shape()), (DType::F32, &[2, 2, 3][..]));
/// assert_eq!(tensor.as_slice::<f32>()?, [7.0; 12]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq)]
pub struct Tensor {
    dtype: DType,
    shape: Vec<usize>,
    /// The elements, in words of the largest alignment of one.
    words: Vec<i64>,
    len: usize,
}

impl Tensor {
    /// Returns zeros.
    pub(super) fn zeros(dtype: DType, shape: Vec<usize>) -> Result<Self, Error> {
        let len = shape.iter().try_fold(dtype.bytes(), |len, &side| len.checked_mul(side));
        let len = len.unwrap_or(usize::MAX);
        let mut words = vec![];
        memory::resize(&mut words, len.div_ceil(size_of::<i64>()), "an array")?;
        Ok(Self { dtype, shape, words, len })
    }

    /// Returns the number of elements along each axis.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Returns the type of an element.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns all elements, as bytes in native order.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &bytes_of(&self.words)[..self.len]
    }

    /// Returns all elements: `shape().iter().product()` of them.
    ///
    /// # Errors
    ///
    /// If the elements are of another type.
    pub fn as_slice<T: Element>(&self) -> Result<&[T], Error> {
        match elements_of(self.as_bytes()) {
            Some(elements) if T::DTYPE == self.dtype => Ok(elements),
            _ => Err(fail!(
                Field,
                "the array holds {}, but was requested as {}",
                self.dtype,
                T::DTYPE
            )),
        }
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut bytes_of_mut(&mut self.words)[..self.len]
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tensor")
            .field("dtype", &self.dtype)
            .field("shape", &self.shape)
            .finish_non_exhaustive()
    }
}
