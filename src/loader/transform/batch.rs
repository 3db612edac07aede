//! Several images at once, on several threads.

use super::{Image, Key, OutputShape, Tensor, Transform};
use crate::batch::Element;
use crate::cancel::CancelFlag;
use crate::error::{Error, fail};
use crate::parallel::pool;
use fuseloop_engine::batch::bytes_of_mut;
use fuseloop_ops::DType;
use rayon::ThreadPool;
use rayon::prelude::*;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::{mem, process, thread};

/// The threads of batches, which start with the first batch.
#[derive(Default)]
pub(super) struct Workers {
    count: Option<usize>,
    /// The threads, and the process that they belong to.
    started: Mutex<Option<(u32, Arc<ThreadPool>)>>,
}

impl Workers {
    pub(super) fn new(count: usize) -> Self {
        Self { count: Some(count.max(1)), started: Mutex::default() }
    }

    fn count(&self) -> usize {
        let cores = || thread::available_parallelism().map_or(1, NonZeroUsize::get);
        self.count.unwrap_or_else(cores)
    }

    /// Returns `count` threads. A forked child starts its own.
    fn threads(&self, count: usize) -> Result<Arc<ThreadPool>, Error> {
        let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((process, pool)) = &*started
            && *process == process::id()
            && pool.current_num_threads() == count
        {
            return Ok(Arc::clone(pool));
        }
        let new = Arc::new(pool(count, "fuseloop-batch")?);
        let old = started.replace((process::id(), Arc::clone(&new)));
        // The threads of a parent process can't be waited for.
        mem::forget(old.filter(|(process, _)| *process != process::id()));
        Ok(new)
    }
}

impl Transform {
    /// Runs the list on several images, on several [threads](Self::workers), and returns one array: `[images, ...]`, with
    /// a key for each image. The rows are those of [`apply`](Self::apply).
    ///
    /// ```
    /// # use fuseloop::ops::*;
    /// # use fuseloop::transform::{Image, Key, Transform};
    /// let transform = Transform::new(ops![RandomResizedCrop::new(24)?, ToChannelsFirst])?;
    /// let (one, other) = (vec![10; 48 * 64 * 3], vec![20; 32 * 32 * 3]);
    /// let images = [Image::rgb(&one, 48, 64)?, Image::rgb(&other, 32, 32)?];
    /// let batch = transform.batch(&images, &[0, 1].map(|sample| Key::new(42, 0, sample)))?;
    /// assert_eq!(batch.shape(), [2, 3, 24, 24]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If there is no image, or not one key for each; if the arrays of the images differ in shape or type; if the system
    /// starts no threads; see [`apply`](Self::apply). Of several errors, that of the first image is returned.
    pub fn batch(&self, images: &[Image<'_>], keys: &[Key]) -> Result<Tensor, Error> {
        let mut tensor = None;
        self.run_batch((images, keys), None, &CancelFlag::new(), |dtype, shape| {
            Ok(tensor.insert(Tensor::zeros(dtype, shape.to_vec())?).bytes_mut())
        })?;
        Ok(tensor.expect("a call that succeeds has asked for its memory"))
    }

    /// Like [`batch`](Self::batch), but writes the array to `out`.
    ///
    /// # Errors
    ///
    /// If `out` has another type or number of elements than the array; see [`batch`](Self::batch). `out` may hold a part
    /// of the array after an error.
    pub fn batch_into<T: Element>(
        &self,
        images: &[Image<'_>],
        keys: &[Key],
        out: &mut [T],
    ) -> Result<(), Error> {
        self.run_batch((images, keys), None, &CancelFlag::new(), |dtype, _| {
            if T::DTYPE != dtype {
                return Err(other_type(dtype, T::DTYPE));
            }
            Ok(bytes_of_mut(out))
        })
    }

    /// Runs the list on several images, and writes the array to the memory that `memory` returns for its type and shape,
    /// aligned to the elements. `threads` overrides the number of workers. `cancel` ends the call before its next image.
    pub(crate) fn run_batch<'o>(
        &self,
        (images, keys): (&[Image<'_>], &[Key]),
        threads: Option<NonZeroUsize>,
        cancel: &CancelFlag,
        memory: impl FnOnce(DType, &[usize]) -> Result<&'o mut [u8], Error>,
    ) -> Result<(), Error> {
        self.on_device.check_host(&self.ops)?;
        let (first, key) = first_of(images, keys)?;
        let (dtype, row_shape) =
            self.array_of(first, key).map_err(|error| error.context(format_args!("image 0")))?;
        let row = row_shape.iter().fold(dtype.bytes(), |bytes, side| bytes.saturating_mul(*side));
        let mut shape = row_shape.clone();
        shape.insert(0, images.len());
        let out = memory(dtype, &shape)?;
        if out.len() != row.saturating_mul(images.len()) {
            return Err(fail!(
                Parameter,
                "the array of shape {shape:?} has {} elements, but `out` has {}",
                row.saturating_mul(images.len()) / dtype.bytes(),
                out.len() / dtype.bytes()
            ));
        }
        self.fill((images, keys), threads, cancel, out, |image, key, out| {
            let ran = self.run(image, key, |own| {
                if (own.dtype(), &own.shape()) != (dtype, &row_shape) {
                    return Err(other_array(&own, dtype, &row_shape));
                }
                Ok(out)
            });
            ran.map(drop)
        })
    }

    /// Calls `run` for each image, its key and its row of `out`, on several threads.
    pub(super) fn fill(
        &self,
        (images, keys): (&[Image<'_>], &[Key]),
        threads: Option<NonZeroUsize>,
        cancel: &CancelFlag,
        out: &mut [u8],
        run: impl Fn(&Image<'_>, Key, &mut [u8]) -> Result<(), Error> + Sync,
    ) -> Result<(), Error> {
        let row = out.len() / images.len();
        let run = |(index, ((image, key), out)): (usize, ((&Image<'_>, &Key), &mut [u8]))| {
            if cancel.is_cancelled() {
                return Some(fail!(Cancelled, "the batch was cancelled"));
            }
            let ran = run(image, *key, out);
            ran.err().map(|error| error.context(format_args!("image {index}")))
        };
        let threads = threads.map_or_else(|| self.workers.count(), NonZeroUsize::get);
        let error = if images.len() == 1 || threads == 1 {
            images.iter().zip(keys).zip(out.chunks_mut(row)).enumerate().find_map(run)
        } else {
            let rows = images.par_iter().zip(keys).zip(out.par_chunks_mut(row)).enumerate();
            self.workers.threads(threads)?.install(|| rows.find_map_first(run))
        };
        error.map_or(Ok(()), Err)
    }
}

/// Returns the first image of a batch, and its key.
pub(super) fn first_of<'i, 'a>(
    images: &'i [Image<'a>],
    keys: &[Key],
) -> Result<(&'i Image<'a>, Key), Error> {
    if images.len() != keys.len() {
        return Err(fail!(
            Parameter,
            "{} image(s) and {} key(s): each image needs a key",
            images.len(),
            keys.len()
        ));
    }
    let first = images.first().zip(keys.first().copied());
    first.ok_or_else(|| fail!(Parameter, "no image is given: a batch has at least one"))
}

/// Returns the error of an image whose array differs from that of the first one.
pub(super) fn other_array(own: &OutputShape<'_>, dtype: DType, shape: &[usize]) -> Error {
    fail!(
        Parameter,
        "its array is {:?} of {}, but that of the first image is {shape:?} of {dtype}: a batch has one shape, so add ops \
         that set it, such as RandomResizedCrop, Resize or CenterCrop",
        own.shape(),
        own.dtype()
    )
}

/// Returns the error of memory for elements of another type.
pub(super) fn other_type(found: DType, out: DType) -> Error {
    fail!(Parameter, "the array has elements of type {found}, but `out` has {out}")
}
