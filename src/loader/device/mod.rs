//! Where the outputs of a loader are computed: the choice of the device, its reason, and the upload.
//!
//! ```text
//! LoaderBuilder::device, or the ToDevice of the lists ──▶ Device
//!
//! cpu       lists run as if they had no ToDevice
//! cuda:N    the ops after it run on that GPU; an error if they can't
//! auto      on the first GPU; if there is none, or it can't run the lists, on the CPU: Placement has the reason
//! ```
//!
//! The choice is made once, at the first list with the op, usually when the loader is built. Later
//! epochs whose pipelines are rebuilt stay on that device; ops that can't run there are an error. The
//! numbers in a batch do not depend on the device.

#[cfg(test)]
mod tests;

use super::compile::OutputPlan;
use super::{LoadError, Loader, LoaderBuilder};
use crate::batch::RowsMut;
use crate::device::{
    DeviceError, DeviceOutput, DeviceProgram, DeviceStats, Gpu, GpuInfo, Uploader,
};
use fuseloop_ops::author::{Op, OpClass};
use fuseloop_ops::{Device, Ops, ParamError, ToDevice};
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where the batches of a loader are computed and stored. See
///
/// Its `Display` is one line: `cuda:0 (NVIDIA H100)`, `cpu`, or `cpu, since ...` with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Placement {
    /// The device: never [`Device::Auto`].
    pub device: Device,
    /// The product name, if the device is a GPU.
    pub gpu: Option<String>,
    /// The reason why the CPU is used instead of a requested GPU, if it is.
    pub fallback: Option<String>,
}

impl Placement {
    /// The CPU, because no other device was requested.
    pub const CPU: Self = Self { device: Device::Cpu, gpu: None, fallback: None };
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.device.fmt(f)?;
        if let Some(name) = &self.gpu {
            write!(f, " ({name})")?;
        }
        match &self.fallback {
            None => Ok(()),
            Some(reason) => write!(f, ", since {reason}"),
        }
    }
}

impl LoaderBuilder {
    /// Sets the device that runs the ops after [`ToDevice`](fuseloop_ops::ToDevice), in all lists that
    /// have it: `"cuda:0"`, `"auto"` (the first GPU, or the CPU if no GPU can be used), or `"cpu"`.
    /// Default: the device in each list's own `ToDevice`.
    ///
    /// The numbers are the same on every device, bit for bit; only the location of the tensors differs.
    /// The tensors of outputs with the op are on the device, the others in host memory.
    /// [`Loader::device`] returns the chosen device. If no list has `ToDevice`, no GPU is used, and
    /// naming one here is an error.
    ///
    /// ```no_run
    /// use fuseloop::{Loader, ops::*};
    ///
    /// let loader = Loader::open("train.beton")?
    ///     .batch_size(256)
    ///     .pipeline("image", |_| {
    ///         Ok(ops![
    ///             RandomResizedCrop::new(224, 0.08..=1.0, 0.75..=1.3333)?,
    ///             RandomHorizontalFlip::new(0.5)?,
    ///             ToDevice::new("auto")?, // bytes cross the bus, not floats
    ///             Normalize::imagenet(),
    ///             Convert::to(DType::F16),
    ///             ToChannelsFirst,
    ///         ])
    ///     })
    ///     .pipeline("label", |_| Ok(ops![Squeeze, ToDevice::new("auto")?]))
    ///     .device("cuda:0") // for the whole loader: this GPU, or an error with the reason
    ///     .build()?;
    /// println!("batches are made on {}", loader.device());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn device(mut self, device: &str) -> Self {
        self.device_request.device = Some(device.parse());
        self
    }

    /// Sets the maximum number of batches on the device: those ahead and those held. Work pauses at the
    /// limit; a user who holds all of them and asks for another gets an error. Default:
    /// [`batches_ahead`](Self::batches_ahead) plus 4.
    #[must_use]
    pub fn device_batches(mut self, batches: usize) -> Self {
        self.device_request.batches = Some(batches);
        self
    }
}

impl Loader {
    /// Returns the device that runs the ops after [`ToDevice`] and holds their tensors; the CPU if no
    /// list has the op. If the CPU replaces a GPU, the result holds the reason. Chosen when the loader
    /// is built, for all epochs.
    #[must_use]
    pub fn device(&self) -> Placement {
        self.shared.device_choice.placement()
    }

    /// Returns the transfers to the device since the plan of the last epoch was first run; `None` on the
    /// CPU.
    #[must_use]
    pub fn device_stats(&self) -> Option<DeviceStats> {
        self.shared.device_choice.stats()
    }
}

/// The device settings of a builder.
#[derive(Default)]
pub(super) struct DeviceRequest {
    device: Option<Result<Device, ParamError>>,
    batches: Option<usize>,
}

/// The number of batches on a device in addition to those ahead: the one in use, the previous one, and
/// two that are held for some time.
const HELD: usize = 4;

impl DeviceRequest {
    /// Creates the device choice for batches of `rows` rows, `ahead` of which are started ahead.
    pub(super) fn choice(&self, rows: usize, ahead: usize) -> Result<DeviceChoice, LoadError> {
        let asked = self.device.clone().transpose().map_err(LoadError::DeviceName)?;
        let batches = self.batches.unwrap_or(ahead.saturating_add(HELD));
        let batches = NonZeroUsize::new(batches).ok_or(LoadError::DeviceBatches)?;
        Ok(DeviceChoice { asked, rows, batches, decided: Mutex::new(None) })
    }
}

/// Decides where the lists of a loader run, and stores the decision.
pub(super) struct DeviceChoice {
    /// The device set on the builder.
    asked: Option<Device>,
    /// The maximum number of rows of a batch.
    rows: usize,
    /// The maximum number of batches on a device at the same time.
    batches: NonZeroUsize,
    decided: Mutex<Option<RequestOutcome>>,
}

/// The decision for a requested device.
struct RequestOutcome {
    asked: Device,
    on: ChosenDevice,
}

enum ChosenDevice {
    /// The CPU, with the reason.
    Host(String),
    Gpu {
        gpu: Arc<Gpu>,
        /// The program of the last epoch, and its uploader.
        last: Option<(DeviceProgram, Arc<Uploader>)>,
    },
}

/// The upload of finished batches to a device.
#[derive(Clone)]
pub(super) struct Upload {
    lane: Arc<Uploader>,
    /// The uploaded outputs, in the order of the program's tensors.
    outputs: Arc<[usize]>,
}

impl Upload {
    /// Starts the upload of a finished batch.
    pub(super) fn submit(&self, rows: &mut RowsMut<'_>) -> Result<(), DeviceError> {
        self.lane.submit(rows, &self.outputs)
    }
}

/// The outputs, and the upload of those on a device.
type PlacedOutputs = (Vec<OutputPlan>, Option<Upload>);

impl DeviceChoice {
    /// Returns the chosen device; the CPU as long as nothing was decided.
    pub(super) fn placement(&self) -> Placement {
        match self.decided().as_ref().map(|decided| &decided.on) {
            None => Placement::CPU,
            Some(ChosenDevice::Host(reason)) => {
                Placement { fallback: Some(reason.clone()), ..Placement::CPU }
            }
            Some(ChosenDevice::Gpu { gpu, .. }) => {
                let GpuInfo { ordinal, name, .. } = gpu.info();
                let device = Device::Cuda(*ordinal);
                Placement { device, gpu: Some(name.clone()), fallback: None }
            }
        }
    }

    /// Returns the transfers to the device, if there is one.
    fn stats(&self) -> Option<DeviceStats> {
        match &self.decided().as_ref()?.on {
            ChosenDevice::Host(_) => None,
            ChosenDevice::Gpu { last, .. } => last.as_ref().map(|(_, lane)| lane.stats()),
        }
    }

    /// Refuses a GPU requested by number if no list has anything for it to do.
    pub(super) fn check_asked(&self, lists: &[Ops]) -> Result<(), LoadError> {
        match self.asked {
            Some(device @ Device::Cuda(_))
                if lists.iter().all(|ops| devices(ops).next().is_none()) =>
            {
                Err(LoadError::NothingForDevice { device })
            }
            _ => Ok(()),
        }
    }

    /// Returns the maximum number of slots, if batches are on a device: the number that fits there.
    pub(super) fn max_slots(&self) -> Option<NonZeroUsize> {
        let decided = self.decided();
        matches!(decided.as_ref()?.on, ChosenDevice::Gpu { .. }).then_some(self.batches)
    }

    /// Plans the outputs of an epoch for the chosen device. `make` receives for each list whether its
    /// last ops are left to a device.
    ///
    /// # Errors
    ///
    /// If lists name several devices, or a GPU requested by number is not available or can't run the
    /// lists; and the errors of `make`.
    pub(super) fn make(
        &self,
        lists: &[Ops],
        mut make: impl FnMut(&[bool]) -> Result<Vec<OutputPlan>, LoadError>,
    ) -> Result<PlacedOutputs, LoadError> {
        let staged = lists.iter().map(|ops| self.leaves_host(ops)).collect::<Vec<_>>();
        let none = vec![false; lists.len()];
        let Some(asked) = self.one_device(lists)? else { return Ok((make(&none)?, None)) };
        let mut decided = self.decided();
        if let Some(known) = decided.as_mut().filter(|decided| decided.asked == asked) {
            return match &mut known.on {
                ChosenDevice::Host(_) => Ok((make(&none)?, None)),
                ChosenDevice::Gpu { gpu, last, .. } => self.on_gpu(gpu, last, make(&staged)?),
            };
        }
        let number = if let Device::Cuda(number) = asked { number } else { 0 };
        let mut last = None;
        let tried = Gpu::open(number).map_err(LoadError::Device).and_then(|gpu| {
            let made = self.on_gpu(&gpu, &mut last, make(&staged)?)?;
            Ok((gpu, made))
        });
        let (on, made) = match tried {
            Ok((gpu, made)) => (ChosenDevice::Gpu { gpu, last }, made),
            Err(error) if asked == Device::Auto && error.is_of_device() => {
                (ChosenDevice::Host(error.to_string()), (make(&none)?, None))
            }
            Err(error) => return Err(error),
        };
        *decided = Some(RequestOutcome { asked, on });
        Ok(made)
    }

    /// Creates the upload of `compile` to a GPU, reusing the last uploader if its program is the same.
    fn on_gpu(
        &self,
        gpu: &Arc<Gpu>,
        last: &mut Option<(DeviceProgram, Arc<Uploader>)>,
        works: Vec<OutputPlan>,
    ) -> Result<PlacedOutputs, LoadError> {
        let parts =
            || works.iter().enumerate().filter_map(|(k, work)| Some((k, work.part.as_ref()?)));
        let program =
            DeviceProgram::new(&parts().map(|(_, part)| part).collect::<Vec<&DeviceOutput>>())?;
        let lane = match last.take().filter(|(known, _)| *known == program) {
            Some((_, lane)) => lane,
            None => Uploader::new(gpu, program.clone(), self.rows, self.batches.get())?,
        };
        let outputs = parts().map(|(k, _)| k).collect();
        *last = Some((program, Arc::clone(&lane)));
        Ok((works, Some(Upload { lane, outputs })))
    }

    /// Returns true if the last ops of a list are for a device.
    fn leaves_host(&self, ops: &Ops) -> bool {
        devices(ops).any(|own| self.asked.unwrap_or(own) != Device::Cpu)
    }

    /// Returns the common device of all lists that use one.
    fn one_device(&self, lists: &[Ops]) -> Result<Option<Device>, LoadError> {
        let named = lists.iter().flat_map(devices).map(|own| self.asked.unwrap_or(own));
        let mut named = named.filter(|device| *device != Device::Cpu);
        let Some(first) = named.next() else { return Ok(None) };
        match named.find(|other| *other != first) {
            Some(other) => Err(LoadError::TwoDevices { devices: [first, other] }),
            None => Ok(Some(first)),
        }
    }

    fn decided(&self) -> MutexGuard<'_, Option<RequestOutcome>> {
        self.decided.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn of_op(op: &Arc<dyn Op>) -> Option<Device> {
    match op.class() {
        OpClass::Device(device) => Some(device),
        _ => None,
    }
}

/// Iterates over the devices that a list names.
fn devices(ops: &Ops) -> impl Iterator<Item = Device> {
    ops.iter().filter_map(of_op)
}

/// Returns true if a list only moves its field to a device.
pub(super) fn only_moves(ops: &Ops) -> bool {
    ops.iter().all(|op| of_op(op).is_some())
}

/// Returns the list without the names of devices, which do not change any number.
pub(super) fn without_device_names(ops: &Ops) -> Ops {
    let unnamed = |op: &Arc<dyn Op>| match of_op(op) {
        Some(_) => Arc::new(ToDevice::to(Device::Auto)),
        None => Arc::clone(op),
    };
    ops.iter().map(unnamed).collect()
}
