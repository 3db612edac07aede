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

use crate::batch::RowsMut;
use crate::device::{DeviceProgram, DeviceStats, Gpu, GpuInfo, Uploader};
use crate::error::{Error, ErrorKind, fail};
use fuseloop_ops::author::{Op, OpClass};
use fuseloop_ops::{Device, Ops, ParamError, ToDevice};
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where the batches of a loader are computed and stored; see [`Loader::device`](super::Loader::device).
///
/// Its `Display` is one line: `cuda:0 (NVIDIA H100)`, `cpu`, or `cpu, since ...` with the reason.
///
/// ```no_run
/// # let loader = fuseloop::Loader::open("train.beton")?.build()?;
/// let placement = loader.device();
/// match (&placement.gpu, &placement.fallback) {
///     (Some(gpu), _) => println!("batches are on {gpu}"),
///     (None, Some(reason)) => println!("batches are in host memory: {reason}"),
///     (None, None) => println!("batches are in host memory"),
/// }
/// # Ok::<(), fuseloop::Error>(())
/// ```
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

/// The CPU, because no other device was requested.
impl Default for Placement {
    fn default() -> Self {
        Self { device: Device::Cpu, gpu: None, fallback: None }
    }
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

/// The device settings of a builder.
#[derive(Clone, Default)]
pub(super) struct DeviceRequest {
    pub(super) device: Option<Result<Device, ParamError>>,
    pub(super) batches: Option<usize>,
}

/// The number of batches on a device in addition to those ahead: the one in use, the previous one, and
/// two that are held for some time.
pub(super) const HELD: usize = 4;

impl DeviceRequest {
    /// Creates the device choice. By default, `batches` batches may be on a device at the same time.
    pub(super) fn choice(&self, batches: usize) -> Result<DeviceChoice, Error> {
        let asked = self.device.clone().transpose();
        let asked = asked.map_err(|error| fail!(Parameter, "device: {error}"))?;
        let batches = self.batches.unwrap_or(batches);
        let batches = NonZeroUsize::new(batches).ok_or_else(|| {
            fail!(Parameter, "0 batches on the device: give 1 or more (`device_batches`)")
        })?;
        Ok(DeviceChoice { asked, batches, decided: Mutex::new(None) })
    }
}

/// Decides where the lists of a loader or of a transform run, and stores the decision.
pub(super) struct DeviceChoice {
    /// The device set on the builder.
    asked: Option<Device>,
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
    /// Returns the number of batches that are held.
    pub(super) fn batches_held(&self) -> usize {
        self.lane.batches_held()
    }

    /// Starts the upload of a finished batch.
    pub(super) fn submit(&self, rows: &mut RowsMut<'_>) -> Result<(), Error> {
        self.lane.submit(rows, &self.outputs)
    }
}

/// The decision that the last ops of some lists run on a GPU.
pub(super) struct DeviceDecision {
    /// For each list, whether its last ops are left to the GPU.
    pub(super) staged: Vec<bool>,
    asked: Device,
    gpu: Arc<Gpu>,
    /// True if an error can't change the decision any more.
    is_final: bool,
}

impl DeviceChoice {
    /// Returns the chosen device; the CPU as long as nothing was decided.
    pub(super) fn placement(&self) -> Placement {
        match self.decided().as_ref().map(|decided| &decided.on) {
            None => Placement::default(),
            Some(ChosenDevice::Host(reason)) => {
                Placement { fallback: Some(reason.clone()), ..Placement::default() }
            }
            Some(ChosenDevice::Gpu { gpu, .. }) => {
                let GpuInfo { ordinal, name, .. } = gpu.info();
                let device = Device::Cuda(*ordinal);
                Placement { device, gpu: Some(name.clone()), fallback: None }
            }
        }
    }

    /// Returns the transfers to the device, if there is one.
    pub(super) fn stats(&self) -> Option<DeviceStats> {
        match &self.decided().as_ref()?.on {
            ChosenDevice::Host(_) => None,
            ChosenDevice::Gpu { last, .. } => last.as_ref().map(|(_, lane)| lane.stats()),
        }
    }

    /// Refuses a GPU requested by number if no list has anything for it to do.
    pub(super) fn check_asked(&self, lists: &[Ops]) -> Result<(), Error> {
        match self.asked {
            Some(device @ Device::Cuda(_))
                if lists.iter().all(|ops| devices(ops).next().is_none()) =>
            {
                Err(fail!(
                    Parameter,
                    "{device} was asked for, but no list of ops has ToDevice: put it into the image's list, before \
                     Normalize"
                ))
            }
            _ => Ok(()),
        }
    }

    /// Returns the maximum number of batches on a device at the same time.
    pub(super) fn max_batches(&self) -> usize {
        self.batches.get()
    }

    /// Returns the maximum number of slots, if batches are on a device: the number that fits there.
    pub(super) fn max_slots(&self) -> Option<NonZeroUsize> {
        let decided = self.decided();
        matches!(decided.as_ref()?.on, ChosenDevice::Gpu { .. }).then_some(self.batches)
    }

    /// Decides where the lists of an epoch run: on the GPU that is returned, or on the CPU if there is none.
    ///
    /// # Errors
    ///
    /// If lists name several devices, or a GPU requested by number is not available.
    pub(super) fn decide(&self, lists: &[Ops]) -> Result<Option<DeviceDecision>, Error> {
        self.check_asked(lists)?;
        let Some(asked) = self.one_device(lists)? else { return Ok(None) };
        let staged = lists.iter().map(|ops| self.leaves_host(ops)).collect();
        if let Some(known) = self.decided().as_ref().filter(|known| known.asked == asked) {
            let ChosenDevice::Gpu { gpu, .. } = &known.on else { return Ok(None) };
            let gpu = Arc::clone(gpu);
            return Ok(Some(DeviceDecision { staged, asked, gpu, is_final: true }));
        }
        let number = if let Device::Cuda(number) = asked { number } else { 0 };
        match Gpu::open(number) {
            Ok(gpu) => Ok(Some(DeviceDecision { staged, asked, gpu, is_final: false })),
            Err(error) => self.use_cpu(asked, error).map(|()| None),
        }
    }

    /// Replaces the GPU by the CPU, because of this error. Returns the error if the GPU was requested by
    /// number or is in use, or if the error is not the GPU's.
    pub(super) fn fall_back(&self, decision: &DeviceDecision, error: Error) -> Result<(), Error> {
        if decision.is_final { Err(error) } else { self.use_cpu(decision.asked, error) }
    }

    fn use_cpu(&self, asked: Device, error: Error) -> Result<(), Error> {
        if asked != Device::Auto || error.kind() != ErrorKind::Device {
            return Err(error);
        }
        let on = ChosenDevice::Host(error.to_string());
        *self.decided() = Some(RequestOutcome { asked, on });
        Ok(())
    }

    /// Creates the upload of batches of up to `rows` rows, of these outputs by their index, by a program for them. Makes
    /// the decision final. Reuses the last uploader if its program is the same and it has room.
    pub(super) fn upload(
        &self,
        decision: &DeviceDecision,
        rows: usize,
        outputs: impl Iterator<Item = usize>,
        program: DeviceProgram,
    ) -> Result<Upload, Error> {
        let DeviceDecision { asked, gpu, .. } = decision;
        let mut decided = self.decided();
        let last = match decided.as_mut().map(|known| &mut known.on) {
            Some(ChosenDevice::Gpu { last, .. }) if decision.is_final => last.take(),
            _ => None,
        };
        let lane = match last.filter(|(known, lane)| *known == program && lane.rows() >= rows) {
            Some((_, lane)) => lane,
            None => Uploader::new(gpu, program.clone(), rows, self.batches.get())?,
        };
        let last = Some((program, Arc::clone(&lane)));
        let on = ChosenDevice::Gpu { gpu: Arc::clone(gpu), last };
        *decided = Some(RequestOutcome { asked: *asked, on });
        Ok(Upload { lane, outputs: outputs.collect() })
    }

    /// Returns true if the last ops of a list are for a device.
    pub(super) fn leaves_host(&self, ops: &Ops) -> bool {
        devices(ops).any(|own| self.asked.unwrap_or(own) != Device::Cpu)
    }

    /// Returns the common device of all lists that use one.
    fn one_device(&self, lists: &[Ops]) -> Result<Option<Device>, Error> {
        let named = lists.iter().flat_map(devices).map(|own| self.asked.unwrap_or(own));
        let mut named = named.filter(|device| *device != Device::Cpu);
        let Some(first) = named.next() else { return Ok(None) };
        match named.find(|other| *other != first) {
            Some(other) => Err(fail!(
                Parameter,
                "lists name both {first} and {other} in ToDevice: a loader has only one device: set it with `device`"
            )),
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

/// Returns the index of the op in a list that names a device.
pub(super) fn to_device(ops: &Ops) -> Option<usize> {
    ops.iter().position(|op| of_op(op).is_some())
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
