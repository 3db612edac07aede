//! Batches whose last ops a device runs.
//!
//! ```text
//! images ──▶ rows of a slot: bytes and records ──▶ one copy, one kernel ──▶ tensor on the device
//! ```
//!
//! The slots, the streams and the kernels are those of a loader. The device is chosen for the first batch. A call never
//! waits for a batch that the caller holds: if too many are held, it is an error.

use super::{Image, Key, OutputShape, Transform};
use crate::batch::{Batch, TensorRows, TensorSpec};
use crate::cancel::CancelFlag;
use crate::device::error::all_in_use;
use crate::device::{DeviceOutput, DeviceProgram};
use crate::error::{Error, ErrorKind, fail};
use crate::loader::Placement;
use crate::loader::device::{DeviceChoice, DeviceDecision, DeviceRequest, Upload, to_device};
use crate::plan::ImagePlan;
use crate::run::RunError;
use crate::sample::{Epoch, SampleId, SampleRef};
use crate::source::Escaped;
use fuseloop_engine::batch::{BatchSpec, HostBatch, SlotPool};
use fuseloop_ops::author::{ImageType, Layout};
use fuseloop_ops::internals::RGB;
use fuseloop_ops::{Ops, ToChannelsFirst};
use std::num::NonZeroUsize;
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The name of the tensor in a batch.
const NAME: &str = "image";

/// The most batches on the device at the same time, unless the user sets another number.
const DEVICE_BATCHES: usize = 16;

/// The number of free slots that are kept for each kind of batches.
const FREE_SLOTS: usize = 3;

/// The most kinds of batches whose memory is kept, and those of which batches are held.
const MOST_KINDS: usize = 4;

/// Where the batches of a transform are computed.
pub(super) struct BatchDevice {
    /// The index of [`ToDevice`](fuseloop_ops::ToDevice) in the list.
    op_index: Option<usize>,
    request: DeviceRequest,
    choice: DeviceChoice,
    /// The kinds of batches, the last one used at the end. Its holder chooses the device.
    kinds: Mutex<Vec<Arc<BatchKind>>>,
    /// The number of batches so far.
    batches: AtomicU64,
}

/// The end of a list that a device runs, for images of a type.
#[derive(Debug)]
pub(super) struct DeviceShare {
    pub(super) output: DeviceOutput,
    program: DeviceProgram,
}

/// Batches of one shape that are made in the same way: their memory, and their upload.
struct BatchKind {
    tensor: TensorSpec,
    /// The maximum number of rows.
    rows: usize,
    pool: Arc<SlotPool>,
    /// The device's program, and the upload; `None` for batches in host memory.
    upload: Option<(DeviceProgram, Upload)>,
}

impl BatchDevice {
    pub(super) fn new(ops: &Ops) -> Result<Self, Error> {
        let request = DeviceRequest::default();
        let choice = request.choice(DEVICE_BATCHES)?;
        let (kinds, batches) = (Mutex::default(), AtomicU64::new(0));
        Ok(Self { op_index: to_device(ops), request, choice, kinds, batches })
    }

    /// Returns the same with another request.
    fn requested(self, change: impl FnOnce(&mut DeviceRequest)) -> Result<Self, Error> {
        let mut request = self.request;
        change(&mut request);
        let choice = request.choice(DEVICE_BATCHES)?;
        Ok(Self { request, choice, kinds: Mutex::default(), ..self })
    }

    /// Returns true if the list has [`ToDevice`](fuseloop_ops::ToDevice).
    pub(super) fn is_in_list(&self) -> bool {
        self.op_index.is_some()
    }

    /// Refuses a call whose array would be in host memory, although the list asks for a device.
    pub(super) fn check_host(&self, ops: &Ops) -> Result<(), Error> {
        match self.op_index {
            None => self.choice.check_asked(slice::from_ref(ops)),
            Some(op_index) if self.choice.leaves_host(ops) => Err(fail!(
                Pipeline,
                "op {op_index} of the list: ToDevice finishes whole batches on a GPU, and this call returns arrays in \
                 host memory: give several images at once (`batch_on_device`, in Python `batch`), set the device \"cpu\", \
                 or leave ToDevice out"
            )
            .of_op(op_index)),
            Some(_) => Ok(()),
        }
    }

    /// Refuses a list that a device finishes, for code that was compiled ahead of time.
    pub(super) fn check_ahead_of_time(&self) -> Result<(), Error> {
        self.op_index.map_or(Ok(()), |op_index| {
            let error = fail!(
                Pipeline,
                "op {op_index} of the list: ToDevice ends on a GPU, whose kernels are not in an object file: leave it out"
            );
            Err(error.of_op(op_index))
        })
    }

    /// Returns the list and the images that it is planned for. A device takes pixels with their channels last, as planes
    /// are decoded; their channels come first again at the end, unless an op says where they are.
    pub(super) fn planned(&self, ops: &Ops, images: ImageType) -> (Ops, ImageType) {
        let is_turned =
            images.layout == Layout::ChannelsFirst && usize::from(images.channels) == RGB;
        if !is_turned || !self.is_in_list() {
            return (ops.clone(), images);
        }
        let mut ops = ops.clone();
        if !ops.iter().any(|op| matches!(op.name(), "ToChannelsFirst" | "ToChannelsLast")) {
            ops.push(Arc::new(ToChannelsFirst));
        }
        (ops, ImageType { layout: Layout::ChannelsLast, ..images })
    }

    fn kinds(&self) -> MutexGuard<'_, Vec<Arc<BatchKind>>> {
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DeviceShare {
    /// Creates the share of a plan that was made [for a device](ImagePlan::on_device).
    pub(super) fn new(plan: &Arc<ImagePlan>) -> Result<Self, Error> {
        let output = DeviceOutput::of_image(plan)?;
        let program = DeviceProgram::new(&[&output])?;
        Ok(Self { output, program })
    }

    /// Returns the bytes of a row that the host writes.
    pub(super) fn staged_bytes(&self) -> usize {
        self.program.tensors.iter().map(|tensor| tensor.staged).sum()
    }
}

impl BatchKind {
    fn new(
        tensor: TensorSpec,
        rows: usize,
        upload: Option<(DeviceProgram, Upload)>,
    ) -> Result<Self, Error> {
        let count = NonZeroUsize::new(rows).unwrap_or(NonZeroUsize::MIN);
        let spec = BatchSpec::new(slice::from_ref(&tensor), count).map_err(RunError::from)?;
        let pool = SlotPool::new(Arc::new(spec), None, FREE_SLOTS, Box::new(|| {}));
        Ok(Self { tensor, rows, pool: Arc::new(pool), upload })
    }

    /// Returns the number of its batches on the device that are held.
    fn held(&self) -> usize {
        self.upload.as_ref().map_or(0, |(_, upload)| upload.batches_held())
    }

    /// Checks that the row of an image is one of such a batch.
    fn check(&self, own: &OutputShape<'_>) -> Result<(), Error> {
        let (dtype, shape) = (self.tensor.dtype, &self.tensor.shape);
        if (own.dtype(), &own.shape()) != (dtype, shape) {
            return Err(super::batch::other_array(own, dtype, shape));
        }
        let program = self.upload.as_ref().map(|(program, _)| program);
        if own.share.map(|share| &share.program) != program {
            return Err(fail!(
                Parameter,
                "it is of another type than the first image, so that the GPU would run another kernel: a batch on a GPU has \
                 images of one type"
            ));
        }
        Ok(())
    }
}

impl Transform {
    /// Sets the device that runs the ops after [`ToDevice`](crate::ops::ToDevice), instead of the one that the op names: see
    /// [`LoaderBuilder::device`](crate::LoaderBuilder::device).
    ///
    /// # Errors
    ///
    /// If `device` is none of `"cuda:N"`, `"auto"` and `"cpu"`. Whether there is such a GPU is checked for the first batch.
    pub fn device(self, device: &str) -> Result<Self, Error> {
        let on_device =
            self.on_device.requested(|request| request.device = Some(device.parse()))?;
        Ok(Self { on_device, ..self })
    }

    /// Sets the maximum number of batches on the device: those that the caller holds, of all shapes. A call for one more is
    /// an error. Default 16.
    ///
    /// # Errors
    ///
    /// If `batches` is 0.
    pub fn device_batches(self, batches: usize) -> Result<Self, Error> {
        let on_device = self.on_device.requested(|request| request.batches = Some(batches))?;
        Ok(Self { on_device, ..self })
    }

    /// Returns true if the list has [`ToDevice`](crate::ops::ToDevice).
    #[doc(hidden)]
    #[must_use]
    pub fn has_to_device(&self) -> bool {
        self.on_device.is_in_list()
    }

    /// Returns the device of the [batches](Self::batch_on_device), which is chosen for the first one; the CPU before it. If
    /// the CPU replaces a GPU, the result holds the reason.
    #[must_use]
    pub fn placement(&self) -> Placement {
        self.on_device.choice.placement()
    }

    /// Runs the list on several images, and the ops after [`ToDevice`](crate::ops::ToDevice) on a device, as one kernel for
    /// all images. Returns a batch as a loader's, with one tensor, `"image"`, of shape `[images, ...]`: on the GPU, or in host
    /// memory if the device is the CPU. Its bits are those of a loader, on each device.
    ///
    /// The call returns before the GPU is done: [`Batch::device_tensor`] and [`Batch::dlpack`] make your stream wait. Threads
    /// may call it at once. The memory of a batch is reused when it was dropped; if as many batches as
    /// [`device_batches`](Self::device_batches) are held, the call is an error, and waits for none of them.
    ///
    /// ```
    /// # use fuseloop::ops::*;
    /// # use fuseloop::transform::{Image, Key, Transform};
    /// let transform = Transform::new(ops![
    ///     RandomResizedCrop::new(24)?,
    ///     ToDevice::new("auto")?,
    ///     RandomHorizontalFlip::new(0.5)?,
    ///     Normalize::imagenet(),
    ///     ToChannelsFirst,
    /// ])?;
    /// let pixels = vec![128; 48 * 64 * 3];
    /// let images = [Image::rgb(&pixels, 48, 64)?; 2];
    /// let batch = transform.batch_on_device(&images, &[0, 1].map(|sample| Key::new(42, 0, sample)))?;
    /// match batch.device() {
    ///     Some(gpu) => println!("on cuda:{gpu}"),
    ///     None => assert_eq!(batch.tensor::<f32>("image")?.shape(), [2, 3, 24, 24]),
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If a GPU was requested by number, and is missing or can't run the ops; if the transform has
    /// [targets](Self::targets); if the images are not of one type, on a GPU; if too many batches are held; see
    /// [`batch`](Self::batch).
    pub fn batch_on_device(&self, images: &[Image<'_>], keys: &[Key]) -> Result<Batch, Error> {
        self.run_on_device((images, keys), None, &CancelFlag::new())
    }

    /// Like [`batch_on_device`](Self::batch_on_device). `threads` overrides the number of workers. `cancel` ends the call
    /// before its next image.
    pub(crate) fn run_on_device(
        &self,
        (images, keys): (&[Image<'_>], &[Key]),
        threads: Option<NonZeroUsize>,
        cancel: &CancelFlag,
    ) -> Result<Batch, Error> {
        if let Some((name, _)) = self.members.first() {
            return Err(fail!(
                Parameter,
                "a batch on a device has images alone, but the transform declares targets, such as {}: run the images with \
                 their targets in host memory, by a list without ToDevice",
                Escaped(name)
            ));
        }
        let (first, key) = super::batch::first_of(images, keys)?;
        let decision = self.on_device.choice.decide(slice::from_ref(&self.ops))?;
        let kind = self.kind(decision, first, key, images.len());
        let kind = kind.map_err(|error| match error.kind() {
            ErrorKind::Device => error,
            _ => error.context(format_args!("image 0")),
        })?;
        let lease = kind.pool.take().expect("the pool has no limit");
        let mut slot = kind.pool.redeem(lease).map_err(RunError::from)?;
        let visit = |key: &Key| SampleRef::once(SampleId(key.of_ops().sample()));
        slot.visits_mut().extend(keys.iter().map(visit));
        let mut rows = slot.rows_mut();
        let is_staged = kind.upload.is_some();
        let filled =
            self.fill((images, keys), threads, cancel, rows.output(0), |image, key, out| {
                self.in_memory(|worker| {
                    let row = |own: OutputShape<'_>| kind.check(&own).map(|()| out);
                    self.run_with(worker, image, &[], key, is_staged, row).map(drop)
                })
            });
        let done = filled.and_then(|()| match &kind.upload {
            Some((_, upload)) => upload.submit(&mut rows),
            None => Ok(()),
        });
        let index = self.on_device.batches.fetch_add(1, Ordering::Relaxed);
        // The slot returns to its pool by way of the batch, after an error, too.
        let epoch = Epoch(key.of_ops().epoch());
        let batch = Batch::from(HostBatch::new(slot, &kind.pool, epoch, index));
        done.map(|()| batch)
    }

    /// Returns the kind of a batch of `rows` images.
    fn kind(
        &self,
        decision: Option<DeviceDecision>,
        first: &Image<'_>,
        key: Key,
        rows: usize,
    ) -> Result<Arc<BatchKind>, Error> {
        let choice = &self.on_device.choice;
        let mut kinds = self.on_device.kinds();
        if let Some(decision) = decision {
            match self.kind_on_device(&mut kinds, &decision, first, rows) {
                Ok(kind) => return Ok(kind),
                Err(error) => choice.fall_back(&decision, error)?,
            }
        }
        let (dtype, shape) = self.array_of(first, key)?;
        let tensor = TensorSpec::new(NAME, dtype, shape);
        let is_same = |kind: &BatchKind| kind.upload.is_none() && kind.tensor == tensor;
        if let Some(kind) = known(&mut kinds, rows, is_same) {
            return Ok(kind);
        }
        Ok(added(&mut kinds, BatchKind::new(tensor, rows, None)?))
    }

    /// Returns the kind of a batch that a GPU finishes.
    fn kind_on_device(
        &self,
        kinds: &mut Vec<Arc<BatchKind>>,
        decision: &DeviceDecision,
        first: &Image<'_>,
        rows: usize,
    ) -> Result<Arc<BatchKind>, Error> {
        let size =
            self.in_memory(|worker| Ok(first.open(&mut worker.decoder, self.read_mode)?.size()))?;
        let list = self.list(first.pixel_type(self.read_mode), size, true)?;
        let share = list.share.as_ref().expect("a list for a device has a share of it");
        let program = &share.program;
        let is_same =
            |kind: &BatchKind| kind.upload.as_ref().is_some_and(|(own, _)| own == program);
        let choice = &self.on_device.choice;
        if kinds.iter().map(|kind| kind.held()).sum::<usize>() >= choice.max_batches() {
            return Err(all_in_use(choice.max_batches()));
        }
        if let Some(kind) = known(kinds, rows, is_same) {
            return Ok(kind);
        }
        let upload = choice.upload(decision, rows, 0..1, program.clone())?;
        let plan = list.kernel.plan();
        let staged = TensorRows::Device { staged: share.staged_bytes() };
        let tensor =
            TensorSpec { rows: staged, ..TensorSpec::new(NAME, plan.dtype(), plan.shape()) };
        Ok(added(kinds, BatchKind::new(tensor, rows, Some((program.clone(), upload)))?))
    }
}

/// Returns a kind of batches with room for `rows` rows, and moves it to the end.
fn known(
    kinds: &mut Vec<Arc<BatchKind>>,
    rows: usize,
    is_same: impl Fn(&BatchKind) -> bool,
) -> Option<Arc<BatchKind>> {
    let index = kinds.iter().position(|kind| is_same(kind) && kind.rows >= rows)?;
    let kind = kinds.remove(index);
    kinds.push(Arc::clone(&kind));
    Some(kind)
}

/// Adds a kind of batches. If there are too many, it removes the one that was used least recently, unless its batches are held:
/// they count.
fn added(kinds: &mut Vec<Arc<BatchKind>>, kind: BatchKind) -> Arc<BatchKind> {
    if kinds.len() >= MOST_KINDS
        && let Some(index) = kinds.iter().position(|kind| kind.held() == 0)
    {
        kinds.remove(index);
    }
    let kind = Arc::new(kind);
    kinds.push(Arc::clone(&kind));
    kind
}
