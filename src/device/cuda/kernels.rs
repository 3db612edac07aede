//! A program's kernels, as code for one GPU.
//!
//! ```text
//! text ──▶ this process compiled it? ──▶ a file of the cache? ──▶ NVRTC ──▶ shipped PTX ──▶ an error
//! ```
//!
//! The code is a CUBIN for the GPU's very architecture, so that no driver has to compile it, or is
//! too old for it; or PTX, where NVRTC is older than the GPU, and where it is shipped.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::cache::{Folder, Key};
use super::gpu::Gpu;
use super::module::{Function, Module};
use super::nvrtc::{Nvrtc, Target};
use crate::device::program::Program;
use crate::device::{DeviceError, KernelOrigin};

/// A program's kernels.
pub(super) struct Kernels {
    /// With the blocks for each row.
    pub(super) functions: Vec<(Function, u32)>,
    pub(super) origin: Option<KernelOrigin>,
    pub(super) took: Duration,
}

/// What this process compiled.
static COMPILED: Mutex<Option<HashMap<Key, Arc<[u8]>>>> = Mutex::new(None);

/// The kernels of `program`, on `gpu`.
///
/// # Errors
///
/// If they can't be compiled and are not shipped, or the driver refuses them.
pub(super) fn load(gpu: &Gpu, program: &Program) -> Result<Kernels, DeviceError> {
    let began = Instant::now();
    if program.kernels.is_empty() {
        return Ok(Kernels { functions: vec![], origin: None, took: Duration::ZERO });
    }
    let (module, origin) = module(gpu, &program.source)?;
    let functions = program.kernels.iter().map(|kernel| {
        let function = module.function(&kernel.entry)?;
        Ok((function, kernel.parts))
    });
    let functions = functions.collect::<Result<_, DeviceError>>()?;
    Ok(Kernels { functions, origin: Some(origin), took: began.elapsed() })
}

/// The code of `source`, loaded, and where it was got. What is shipped stands in for a compiler
/// that is not there, and for one that is newer than the driver, which refuses what it makes.
fn module(gpu: &Gpu, source: &str) -> Result<(Arc<Module>, KernelOrigin), DeviceError> {
    let info = gpu.info();
    let compiled = Nvrtc::get(info.driver.0)
        .and_then(|nvrtc| compile(nvrtc, nvrtc.target(info.capability), source))
        .and_then(|(image, origin)| Ok((Module::load(&gpu.context, &image)?, origin)));
    compiled.or_else(|error| match fuseloop_kernels::shipped_ptx(source) {
        Some(ptx) => Ok((Module::load(&gpu.context, ptx.as_bytes())?, KernelOrigin::Shipped)),
        None => Err(error),
    })
}

fn compile(
    nvrtc: &Nvrtc,
    target: Target,
    source: &str,
) -> Result<(Arc<[u8]>, KernelOrigin), DeviceError> {
    let options = target.options();
    let key = Key::of(source, &options, nvrtc.version());
    if let Some(image) = remembered(&key) {
        return Ok((image, KernelOrigin::Memory));
    }
    let folder = Folder::of_environment();
    let (image, origin) = match folder.as_ref().and_then(|folder| folder.load(&key)) {
        Some(image) => (image, KernelOrigin::Disk),
        None => (nvrtc.compile(source, &options, target)?, KernelOrigin::Nvrtc),
    };
    if let (Some(folder), KernelOrigin::Nvrtc) = (&folder, origin) {
        folder.store(&key, &image);
    }
    let image: Arc<[u8]> = image.into();
    remember(key, &image);
    Ok((image, origin))
}

fn remembered(key: &Key) -> Option<Arc<[u8]>> {
    let compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    compiled.as_ref()?.get(key).cloned()
}

fn remember(key: Key, image: &Arc<[u8]>) {
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    compiled.get_or_insert_default().insert(key, Arc::clone(image));
}
