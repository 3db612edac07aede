//! One tensor's way to a device: what the host stages for a sample, and what a kernel makes of it.

use super::{DeviceError, Program};
use crate::plan::label::{LabelError, Scalar};
use crate::plan::{Draws, ImagePlan, LabelPlan};
use fuseloop_ops::{DType, Mixed};
use std::sync::Arc;

/// One tensor of a batch that lies on a device.
#[derive(Debug)]
pub(crate) enum Part {
    /// A picture: staged as bytes, finished by a kernel.
    Image(ImagePart),
    /// A one-hot vector: staged as a class.
    OneHot(OneHotPart),
    /// Anything else: staged as it is.
    Copied {
        /// Type of an element.
        dtype: DType,
        /// Elements along each axis of one sample.
        shape: Vec<usize>,
    },
}

/// The end of a picture's list of ops, from [`ToDevice`](fuseloop_ops::ToDevice) on.
#[derive(Debug)]
pub(crate) struct ImagePart {
    plan: Arc<ImagePlan>,
}

/// A label that becomes a one-hot vector on a device.
#[derive(Debug)]
pub(crate) struct OneHotPart {
    classes: u32,
}

impl ImagePart {
    /// Of a plan that was made [for a device](ImagePlan::on_device) and leaves something to it.
    ///
    /// # Errors
    ///
    /// If it leaves what a device can't run.
    pub(crate) fn new(plan: &Arc<ImagePlan>) -> Result<Self, DeviceError> {
        Ok(Self { plan: Arc::clone(plan) })
    }

    /// Bytes of a staged row: [`ImagePlan::host_bytes`] of pixels first, then the sample's record.
    pub(crate) fn staged_bytes(&self) -> usize {
        self.plan.host_bytes()
    }

    /// Writes the sample's record behind the pixels of its row.
    pub(crate) fn record(&self, draws: &Draws, row: &mut [u8]) {
        let _ = (draws, row);
    }

    /// Tells all staged rows of a batch how op number `mixer` of those that mix batches was drawn.
    pub(crate) fn mix(&self, mixer: usize, mixed: &[Mixed], rows: &mut [u8]) {
        let _ = (mixer, mixed, rows);
    }
}

impl OneHotPart {
    /// Of a plan with [`ToDevice`](fuseloop_ops::ToDevice); `None` if it makes no one-hot vector after it.
    pub(crate) fn new(plan: &LabelPlan) -> Option<Self> {
        let _ = plan;
        None
    }

    /// Bytes of a staged row.
    pub(crate) fn staged_bytes(&self) -> usize {
        self.classes as usize
    }

    /// Writes the class of `sample`, as the label's ops make it.
    ///
    /// # Errors
    ///
    /// If the vector has no such class.
    pub(crate) fn fill(
        &self,
        plan: &LabelPlan,
        sample: u64,
        value: Scalar,
        row: &mut [u8],
    ) -> Result<(), LabelError> {
        let _ = (sample, value, row, plan);
        Ok(())
    }

    /// As [`ImagePart::mix`].
    pub(crate) fn mix(&self, mixer: usize, mixed: &[Mixed], rows: &mut [u8]) {
        let _ = (mixer, mixed, rows);
    }
}

impl Program {
    /// What a device does for a batch of `parts`.
    ///
    /// # Errors
    ///
    /// If they ask for more than one kernel takes.
    pub(crate) fn new(parts: &[&Part]) -> Result<Self, DeviceError> {
        let _ = parts;
        Err(DeviceError::NoDriver)
    }
}
