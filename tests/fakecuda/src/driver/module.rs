//! Modules: the images that the driver accepts, and the reasons for which it refuses others.
//!
//! | image                                   | becomes                     | refused if                      |
//! |-----------------------------------------|-----------------------------|---------------------------------|
//! | a CUBIN of the fake NVRTC ([`image`])   | the host build in it        | for another compute capability  |
//! | PTX of the fake NVRTC                   | the host build in it        | like other PTX                  |
//! | PTX                                     | what the interpreter parsed | `.version` newer than the       |
//! |                                         |                             | driver's, `.target` newer than  |
//! |                                         |                             | the device, or not covered      |
//!
//! The driver of CUDA 12.x accepts PTX up to 8.x, the driver of 13.x up to 9.x.

use super::code::Code;
use super::driver;
use crate::abi::{Host, Text};
use crate::host_build::{HostBuild, HostEntry};
use crate::{image, ptx};
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Module {
    pub(crate) device: usize,
    code: Kernels,
}

#[derive(Debug)]
enum Kernels {
    Ptx(ptx::Program),
    Host(HostBuild),
}

/// A kernel of a module.
#[derive(Debug)]
pub(crate) struct Function {
    /// The handle of the module: the function becomes invalid with the module.
    pub(crate) of: u64,
    pub(crate) module: Arc<Module>,
    pub(crate) entry: Entry,
}

#[derive(Debug)]
pub(crate) enum Entry {
    /// The kernel's name in the module's PTX.
    Ptx {
        name: String,
        sizes: Vec<usize>,
    },
    Host(HostEntry),
}

impl Entry {
    /// Returns the size of each argument.
    pub(crate) fn sizes(&self) -> Vec<usize> {
        match self {
            Self::Ptx { sizes, .. } => sizes.clone(),
            Self::Host(entry) => vec![entry.bytes],
        }
    }
}

/// The reason for which a module was refused: the code, and the line for the log.
type Refusal = (Code, String);

impl Module {
    pub(crate) fn load(device: usize, bytes: Host) -> Result<Arc<Self>, Refusal> {
        let null = |_| (Code::INVALID_VALUE, "no image".to_owned());
        let first = bytes.span(1).map_err(null)?.to_vec();
        let code = if first == image::MAGIC[..1] {
            cubin(bytes)?
        } else {
            ptx(&Text::from(bytes).read().map_err(null)?)?
        };
        Ok(Arc::new(Self { device, code }))
    }

    pub(crate) fn entry(&self, name: &str) -> Option<Entry> {
        match &self.code {
            Kernels::Host(build) => build.entry(name).map(Entry::Host),
            Kernels::Ptx(program) => {
                let sizes = program.entry(name)?.params().iter().map(|param| param.size).collect();
                Some(Entry::Ptx { name: name.to_owned(), sizes })
            }
        }
    }

    /// Returns the parsed text of a module that is PTX.
    pub(crate) fn program(&self) -> Option<&ptx::Program> {
        if let Kernels::Ptx(program) = &self.code { Some(program) } else { None }
    }
}

fn cubin(bytes: Host) -> Result<Kernels, Refusal> {
    let invalid = |_| (Code::INVALID_IMAGE, "this CUBIN is none of the fake NVRTC".to_owned());
    let header = bytes.span(image::HEADER).map_err(|_| invalid(()))?.to_vec();
    let header = image::Header::parse(&header).ok_or(()).map_err(invalid)?;
    let here = driver().settings.sm;
    if header.sm / 10 != here / 10 || header.sm > here {
        return Err((Code::NO_BINARY_FOR_GPU, format!("sm_{} on an sm_{here}", header.sm)));
    }
    let whole = bytes.span(image::HEADER + header.len).map_err(|_| invalid(()))?.to_vec();
    host(&whole[image::HEADER..])
}

fn host(library: &[u8]) -> Result<Kernels, Refusal> {
    HostBuild::load(library).map(Kernels::Host).map_err(|error| (Code::INVALID_IMAGE, error))
}

fn ptx(text: &str) -> Result<Kernels, Refusal> {
    let (version, target) = ptx::heading(text).map_err(|error| (Code::INVALID_PTX, error))?;
    let newest = newest_ptx();
    if version > newest {
        let (major, minor) = version;
        let knows = format!("current version is '{}.{}'", newest.0, newest.1);
        let line = format!("Unsupported .version {major}.{minor}; {knows}");
        return Err((Code::UNSUPPORTED_PTX_VERSION, line));
    }
    let here = driver().settings.sm;
    if target > here {
        return Err((Code::NO_BINARY_FOR_GPU, format!(".target sm_{target} on an sm_{here}")));
    }
    if let Some(library) = image::from_text(text) {
        return host(&library);
    }
    ptx::Program::parse(text).map(Kernels::Ptx).map_err(|error| (Code::INVALID_PTX, error))
}

/// Returns the newest PTX version that a driver of the configured version accepts.
fn newest_ptx() -> (u32, u32) {
    let version = driver().settings.driver.unsigned_abs();
    (version / 1000 - 4, version % 1000 / 10)
}
