//! Where the outputs of a loader are made: which device, why, and the way there.
//!
//! ```text
//! LoaderBuilder::device, or what the lists' ToDevice say ──▶ Device
//!
//! cpu       lists run as if ToDevice were not there
//! cuda:N    what stands after it runs on that GPU, or the loader is not made
//! auto      on the first GPU; if there is none, or it can't run the lists, on the CPU: Placement says why
//! ```
//!
//! Decided once, when a list with the op is first met, usually when the loader is built: epochs
//! whose pipelines are made anew stay where the first one was, and what can't run there is an
//! error. A batch is made of the same numbers wherever it is made.

#[cfg(test)]
mod tests;

use super::works::OutputWork;
use super::{LoadError, Loader, LoaderBuilder};
use crate::batch::RowsMut;
use crate::device::{DeviceError, DeviceStats, Gpu, GpuInfo, Lane, Part, Program};
use fuseloop_ops::{Class, Device, Op, Ops, ParamError, ToDevice};
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where the batches of a loader are made and lie. See [`Loader::device`](super::Loader::device).
///
/// Its `Display` is one line: `cuda:0 (NVIDIA H100)`, `cpu`, or `cpu, since ...` with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Placement {
    /// The device: never [`Device::Auto`].
    pub device: Device,
    /// What its maker calls it, if it is a GPU.
    pub gpu: Option<String>,
    /// Why the CPU runs what a GPU was wanted for, if it does.
    pub fallback: Option<String>,
}

impl Placement {
    /// The CPU, since nothing else was asked for.
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
    /// Where what stands after [`ToDevice`](fuseloop_ops::ToDevice) is computed, in all lists that
    /// have it: `"cuda:0"`, `"auto"` (the first GPU, and the CPU if that can't be used), or
    /// `"cpu"`. Default: as each list's own `ToDevice` says.
    ///
    /// The numbers are the same everywhere, bit for bit; only where the tensors lie differs. Those
    /// of outputs with the op lie on the device, the others in the host's memory.
    /// [`Loader::device`] says what was chosen. Without `ToDevice` in any list no GPU is touched,
    /// and naming one here is an error.
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
    ///             ToDevice::new("auto")?, // what crosses the bus is bytes
    ///             Normalize::imagenet(),
    ///             Convert::to(DType::F16),
    ///             ToChannelsFirst,
    ///         ])
    ///     })
    ///     .pipeline("label", |_| Ok(ops![Squeeze, ToDevice::new("auto")?]))
    ///     .device("cuda:0") // for the whole loader: this GPU, or an error that says why not
    ///     .build()?;
    /// println!("batches are made on {}", loader.device());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn device(mut self, device: &str) -> Self {
        self.wish.device = Some(device.parse());
        self
    }

    /// Most batches on the device at a time: those ahead and those that are held. Work waits at
    /// the limit; who holds all of them and asks for one more gets an error. Default:
    /// [`batches_ahead`](Self::batches_ahead) and 4 more.
    #[must_use]
    pub fn device_batches(mut self, batches: usize) -> Self {
        self.wish.batches = Some(batches);
        self
    }
}

impl Loader {
    /// Where what stands after [`ToDevice`] is computed, and so where those tensors lie; the CPU where no list has the op. If it is the CPU in place of a GPU, it says
    /// why. Decided when the loader is built, for all epochs.
    #[must_use]
    pub fn device(&self) -> Placement {
        self.shared.site.placement()
    }

    /// What has gone to the device, since the plan of the last epoch was first run; `None` on the
    /// CPU.
    #[must_use]
    pub fn device_stats(&self) -> Option<DeviceStats> {
        self.shared.site.stats()
    }
}

/// What a builder was told.
#[derive(Default)]
pub(super) struct Wish {
    device: Option<Result<Device, ParamError>>,
    batches: Option<usize>,
}

/// Batches on a device beside those ahead: the one in use, the one before it, and two that are
/// kept for some time.
const HELD: usize = 4;

impl Wish {
    /// What decides for batches of `rows`, `ahead` of which are begun before they are asked for.
    pub(super) fn site(&self, rows: usize, ahead: usize) -> Result<Site, LoadError> {
        let asked = self.device.clone().transpose().map_err(LoadError::DeviceName)?;
        let batches = self.batches.unwrap_or(ahead.saturating_add(HELD));
        let batches = NonZeroUsize::new(batches).ok_or(LoadError::DeviceBatches)?;
        Ok(Site { asked, rows, batches, decided: Mutex::new(None) })
    }
}

/// What decides where the lists of a loader run, and what was decided.
pub(super) struct Site {
    /// What the builder was told.
    asked: Option<Device>,
    /// Most rows of a batch.
    rows: usize,
    /// Most batches on a device at a time.
    batches: NonZeroUsize,
    decided: Mutex<Option<Decided>>,
}

/// What a device that was asked for has come to.
struct Decided {
    asked: Device,
    on: On,
}

enum On {
    /// With the reason.
    Host(String),
    Gpu {
        gpu: Arc<Gpu>,
        /// The way that the last epoch took, and what it is for.
        last: Option<(Program, Arc<Lane>)>,
    },
}

/// The way of finished batches to a device.
#[derive(Clone)]
pub(super) struct Way {
    lane: Arc<Lane>,
    /// The outputs that take it, in the order of the program's tensors.
    outputs: Arc<[usize]>,
}

impl Way {
    /// Sends a finished batch on its way.
    pub(super) fn submit(&self, rows: &mut RowsMut<'_>) -> Result<(), DeviceError> {
        self.lane.submit(rows, &self.outputs)
    }
}

/// The outputs, and the way that those on a device take.
type Made = (Vec<OutputWork>, Option<Way>);

impl Site {
    /// What was decided; the CPU as long as there was nothing to decide.
    pub(super) fn placement(&self) -> Placement {
        match self.decided().as_ref().map(|decided| &decided.on) {
            None => Placement::CPU,
            Some(On::Host(reason)) => {
                Placement { fallback: Some(reason.clone()), ..Placement::CPU }
            }
            Some(On::Gpu { gpu, .. }) => {
                let GpuInfo { ordinal, name, .. } = gpu.info();
                let device = Device::Cuda(*ordinal);
                Placement { device, gpu: Some(name.clone()), fallback: None }
            }
        }
    }

    /// What has gone to a device, if any of it is on one.
    fn stats(&self) -> Option<DeviceStats> {
        match &self.decided().as_ref()?.on {
            On::Host(_) => None,
            On::Gpu { last, .. } => last.as_ref().map(|(_, lane)| lane.stats()),
        }
    }

    /// Refuses a GPU that was asked for by number when no list leaves it anything.
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

    /// Most slots of batches, if they are on a device now: no more than there is room for there.
    pub(super) fn max_slots(&self) -> Option<NonZeroUsize> {
        let decided = self.decided();
        matches!(decided.as_ref()?.on, On::Gpu { .. }).then_some(self.batches)
    }

    /// Makes the outputs of an epoch where they belong. `make` is told for each list whether its
    /// end is left to a device.
    ///
    /// # Errors
    ///
    /// If lists name several devices, a GPU asked for by number can't be had or can't run them; and
    /// those of `make`.
    pub(super) fn make(
        &self,
        lists: &[Ops],
        mut make: impl FnMut(&[bool]) -> Result<Vec<OutputWork>, LoadError>,
    ) -> Result<Made, LoadError> {
        let staged = lists.iter().map(|ops| self.leaves_host(ops)).collect::<Vec<_>>();
        let none = vec![false; lists.len()];
        let Some(asked) = self.one_device(lists)? else { return Ok((make(&none)?, None)) };
        let mut decided = self.decided();
        if let Some(known) = decided.as_mut().filter(|decided| decided.asked == asked) {
            return match &mut known.on {
                On::Host(_) => Ok((make(&none)?, None)),
                On::Gpu { gpu, last, .. } => self.on_gpu(gpu, last, make(&staged)?),
            };
        }
        let number = if let Device::Cuda(number) = asked { number } else { 0 };
        let mut last = None;
        let tried = Gpu::open(number).map_err(LoadError::Device).and_then(|gpu| {
            let made = self.on_gpu(&gpu, &mut last, make(&staged)?)?;
            Ok((gpu, made))
        });
        let (on, made) = match tried {
            Ok((gpu, made)) => (On::Gpu { gpu, last }, made),
            Err(error) if asked == Device::Auto && error.is_of_device() => {
                (On::Host(error.to_string()), (make(&none)?, None))
            }
            Err(error) => return Err(error),
        };
        *decided = Some(Decided { asked, on });
        Ok(made)
    }

    /// The way of `works` to a GPU: the last one's, if it does for them.
    fn on_gpu(
        &self,
        gpu: &Arc<Gpu>,
        last: &mut Option<(Program, Arc<Lane>)>,
        works: Vec<OutputWork>,
    ) -> Result<Made, LoadError> {
        let parts =
            || works.iter().enumerate().filter_map(|(k, work)| Some((k, work.part.as_ref()?)));
        let program = Program::new(&parts().map(|(_, part)| part).collect::<Vec<&Part>>())?;
        let lane = match last.take().filter(|(known, _)| *known == program) {
            Some((_, lane)) => lane,
            None => Lane::new(gpu, program.clone(), self.rows, self.batches.get())?,
        };
        let outputs = parts().map(|(k, _)| k).collect();
        *last = Some((program, Arc::clone(&lane)));
        Ok((works, Some(Way { lane, outputs })))
    }

    /// Whether the end of a list is for a device.
    fn leaves_host(&self, ops: &Ops) -> bool {
        devices(ops).any(|own| self.asked.unwrap_or(own) != Device::Cpu)
    }

    /// The device of all lists that are for one.
    fn one_device(&self, lists: &[Ops]) -> Result<Option<Device>, LoadError> {
        let named = lists.iter().flat_map(devices).map(|own| self.asked.unwrap_or(own));
        let mut named = named.filter(|device| *device != Device::Cpu);
        let Some(first) = named.next() else { return Ok(None) };
        match named.find(|other| *other != first) {
            Some(other) => Err(LoadError::TwoDevices { devices: [first, other] }),
            None => Ok(Some(first)),
        }
    }

    fn decided(&self) -> MutexGuard<'_, Option<Decided>> {
        self.decided.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn of_op(op: &Arc<dyn Op>) -> Option<Device> {
    match op.class() {
        Class::Device(device) => Some(device),
        _ => None,
    }
}

/// The devices that a list names.
fn devices(ops: &Ops) -> impl Iterator<Item = Device> {
    ops.iter().filter_map(of_op)
}

/// Whether a list only says where its field is to lie.
pub(super) fn only_moves(ops: &Ops) -> bool {
    ops.iter().all(|op| of_op(op).is_some())
}

/// The list without the names of devices: where it runs changes no number.
pub(super) fn anywhere(ops: &Ops) -> Ops {
    let unnamed = |op: &Arc<dyn Op>| match of_op(op) {
        Some(_) => Arc::new(ToDevice::to(Device::Auto)),
        None => Arc::clone(op),
    };
    ops.iter().map(unnamed).collect()
}
