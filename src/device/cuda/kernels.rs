//! Loads a program's kernels, as code for one GPU.
//!
//! ```text
//! text ──▶ this process compiled it? ──▶ a file of the cache? ──▶ NVRTC ──▶ shipped PTX ──▶ an error
//! ```
//!
//! The code is a CUBIN for exactly the GPU's architecture, so that the driver need not compile it and
//! can't be too old for it; or PTX, if NVRTC is older than the GPU, and for prebuilt kernels.

use crate::error::Error;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::cache::{CubinCache, CubinKey};
use super::gpu::Gpu;
use super::module::{KernelFunction, Module};
use super::nvrtc::{CompileTarget, Nvrtc};
use crate::device::KernelOrigin;
use crate::device::program::DeviceProgram;

/// A program's kernels.
pub(super) struct Kernels {
    /// The functions, each with its blocks for each row.
    pub(super) functions: Vec<(KernelFunction, u32)>,
    pub(super) origin: Option<KernelOrigin>,
    pub(super) took: Duration,
}

/// The kernels that this process compiled.
static COMPILED: Mutex<Option<HashMap<CubinKey, Arc<[u8]>>>> = Mutex::new(None);

/// Loads the kernels of `program` on `gpu`.
///
/// # Errors
///
/// If the kernels can't be compiled and are not prebuilt, or the driver rejects them.
pub(super) fn load(gpu: &Gpu, program: &DeviceProgram) -> Result<Kernels, Error> {
    let began = Instant::now();
    if program.kernels.is_empty() {
        return Ok(Kernels { functions: vec![], origin: None, took: Duration::ZERO });
    }
    let (module, origin) = module(gpu, &program.source)?;
    let functions = program.kernels.iter().map(|kernel| {
        let function = module.function(&kernel.entry)?;
        Ok((function, kernel.parts))
    });
    let functions = functions.collect::<Result<_, Error>>()?;
    Ok(Kernels { functions, origin: Some(origin), took: began.elapsed() })
}

/// Loads the code of `source` and returns its origin. Prebuilt code replaces a compiler that is missing,
/// or one that is newer than the driver, which rejects what it emits.
fn module(gpu: &Gpu, source: &str) -> Result<(Arc<Module>, KernelOrigin), Error> {
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
    target: CompileTarget,
    source: &str,
) -> Result<(Arc<[u8]>, KernelOrigin), Error> {
    let options = target.options();
    let key = CubinKey::of(source, &options, nvrtc.version());
    if let Some(image) = remembered(&key) {
        return Ok((image, KernelOrigin::Memory));
    }
    let folder = CubinCache::of_environment();
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

fn remembered(key: &CubinKey) -> Option<Arc<[u8]>> {
    let compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    compiled.as_ref()?.get(key).cloned()
}

fn remember(key: CubinKey, image: &Arc<[u8]>) {
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    compiled.get_or_insert_default().insert(key, Arc::clone(image));
}
