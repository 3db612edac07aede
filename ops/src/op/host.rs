//! Ops that are functions of the host, called for a finished sample or a finished batch.

use crate::author::{BoxError, Rng};
use crate::{DType, Size};
use std::fmt;

/// An op in plain Rust on the whole image of some samples. It ends a block: the image before the op
/// is stored as u8 (rounded half to even), channels last, and the next block reads that buffer.
/// This applies to all samples, changed or not.
///
/// ```
/// # use fuseloop_ops::*;
/// # use fuseloop_ops::author::*;
/// /// Reverses the bytes of each image.
/// #[derive(Clone, Copy, Debug)]
/// struct Reverse;
///
/// impl HostOp for Reverse {
///     fn apply(&self, _host: HostSample<'_>, pixels: &mut [u8]) -> Result<(), BoxError> {
///         pixels.reverse();
///         Ok(())
///     }
/// }
/// ```
pub trait HostOp: fmt::Debug + Send + Sync {
    /// Returns whether the op changes `sample`.
    fn applies_to(&self, sample: u64) -> bool {
        let _ = sample;
        true
    }

    /// Changes the image in place: `[height, width, channels]`.
    ///
    /// # Errors
    ///
    /// An error ends the epoch, whatever becomes of damaged samples.
    fn apply(&self, host: HostSample<'_>, pixels: &mut [u8]) -> Result<(), BoxError>;

    /// Returns the size of the op's images, if they are of one size of their own, which
    /// [`output`](super::Op::output) must return, too. [`apply_sized`](Self::apply_sized) then takes the place
    /// of `apply`, for every sample.
    fn output_size(&self) -> Option<Size> {
        None
    }

    /// Writes the new image, `[height, width, channels]` of [`output_size`](Self::output_size), to `out`, which
    /// is black. `host` has the size of the old one.
    ///
    /// # Errors
    ///
    /// See [`apply`](Self::apply).
    fn apply_sized(
        &self,
        host: HostSample<'_>,
        pixels: &[u8],
        out: &mut [u8],
    ) -> Result<(), BoxError> {
        let _ = (host, pixels, out);
        Ok(())
    }
}

/// The arguments of [`HostOp::apply`] besides the pixels.
///
/// ```
/// # use fuseloop_ops::*;
/// let noise = Lambda::new("noise", |host: HostSample<'_>, pixels: &mut [u8]| {
///     for level in pixels {
///         *level = level.saturating_add(host.rng.below(8) as u8);
///     }
/// });
/// # let _ = noise;
/// ```
#[derive(Debug)]
pub struct HostSample<'a> {
    /// The sample's index in its dataset.
    pub sample: u64,
    /// The epoch, from 0.
    pub epoch: u32,
    /// The image's size.
    pub size: Size,
    /// The image's channels: 3 for RGB.
    pub channels: usize,
    /// The op's own generator for this sample: the only source of randomness it should have.
    pub rng: &'a mut Rng,
}

/// An op in plain Rust on all rows of a finished batch, in place. Only ops on batches may follow it. It must
/// keep the [type](super::Op::output) of the rows, and it can't run on a device.
///
/// ```
/// # use fuseloop_ops::*;
/// # use fuseloop_ops::author::*;
/// /// Sets the bytes of a batch to those of its first row.
/// #[derive(Clone, Copy, Debug)]
/// struct FirstRow;
///
/// impl HostBatchOp for FirstRow {
///     fn apply(&self, host: HostRows<'_>, rows: &mut [u8]) -> Result<(), BoxError> {
///         let row = rows.len() / host.samples.len().max(1);
///         (1..host.samples.len()).for_each(|k| rows.copy_within(..row, k * row));
///         Ok(())
///     }
/// }
/// ```
pub trait HostBatchOp: fmt::Debug + Send + Sync {
    /// Changes the rows, one after the other in `rows`.
    ///
    /// # Errors
    ///
    /// An error ends the epoch.
    fn apply(&self, host: HostRows<'_>, rows: &mut [u8]) -> Result<(), BoxError>;
}

/// The arguments of [`HostBatchOp::apply`] besides the rows.
///
/// ```
/// # use fuseloop_ops::*;
/// let darker = Lambda::batch("darker", |host: HostRows<'_>, rows: &mut [u8]| {
///     assert_eq!((host.dtype, rows.len() % host.samples.len()), (DType::U8, 0));
///     rows.iter_mut().for_each(|level| *level /= 2);
/// });
/// # let _ = darker;
/// ```
#[derive(Debug)]
pub struct HostRows<'a> {
    /// For each row, the sample's index in its dataset.
    pub samples: &'a [u64],
    /// The epoch, from 0.
    pub epoch: u32,
    /// The type of an element.
    pub dtype: DType,
    /// The number of elements along each axis of a row.
    pub shape: &'a [usize],
    /// The op's own generator for this batch: the only source of randomness it should have.
    pub rng: &'a mut Rng,
}
