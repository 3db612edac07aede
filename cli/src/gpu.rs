//! `fuseloop info --gpu`: shows what `ToDevice` finds on this machine.
//!
//! ```text
//! cuda:0  NVIDIA H100, sm_90, 80.0 GiB, 132 multiprocessors, at 0000:1B:00.0, driver for CUDA 12.4
//! compiler: NVRTC 12.4, /usr/lib/libnvrtc.so.12
//! kernels: 1.2 MB in /home/me/.cache/fuseloop/kernels
//! ```
//!
//! A missing component is reported with its reason and is not an error: the CPU can do all that a GPU
//! would.

use super::print::{bytes, say, say_json};
use super::problem::Problem;
use fuseloop::Error;
use fuseloop::internals::device::{Compiler, Gpu, GpuInfo};
use fuseloop::internals::source::Escaped;
use serde_json::{Value, json};
use std::path::PathBuf;

/// The complete report.
struct Report {
    gpus: Result<Vec<GpuInfo>, Error>,
    compiler: Result<Compiler, Error>,
    kernels: Option<(PathBuf, u64)>,
}

pub(super) fn run(as_json: bool) -> Result<(), Problem> {
    let (gpus, compiler, kernels) = (Gpu::all(), Gpu::compiler(), Gpu::kernel_cache());
    let report = Report { gpus, compiler, kernels };
    if as_json { say_json(&report.json()) } else { say(&report.words()) }
}

impl Report {
    fn words(&self) -> String {
        let gpus: String = match &self.gpus {
            Ok(gpus) => gpus.iter().map(|gpu| format!("{}\n", Escaped(&gpu.to_string()))).collect(),
            Err(reason) => format!("no GPU: {reason}\n"),
        };
        let compiler = match &self.compiler {
            Ok(found) => format!("compiler: {}\n", Escaped(&found.to_string())),
            Err(reason) => format!("no compiler: {reason}\n"),
        };
        let kernels = match &self.kernels {
            Some((folder, size)) => {
                let folder = folder.display().to_string();
                format!("kernels: {} in {}\n", bytes(*size), Escaped(&folder))
            }
            None => "kernels: not kept on disk\n".to_owned(),
        };
        gpus + &compiler + &kernels
    }

    fn json(&self) -> Value {
        let reason = |error: &Error| error.to_string();
        let gpus = self.gpus.as_deref().unwrap_or_default();
        json!({
            "gpus": gpus.iter().map(gpu_json).collect::<Vec<_>>(),
            "no_gpu": self.gpus.as_ref().err().map(reason),
            "compiler": self.compiler.as_ref().ok().map(Compiler::to_string),
            "no_compiler": self.compiler.as_ref().err().map(reason),
            "kernel_cache": self.kernels.as_ref().map(|(folder, _)| folder.to_string_lossy()),
            "kernel_cache_bytes": self.kernels.as_ref().map(|(_, size)| size),
        })
    }
}

fn gpu_json(gpu: &GpuInfo) -> Value {
    let version = |(major, minor): (u32, u32)| format!("{major}.{minor}");
    json!({
        "device": format!("cuda:{}", gpu.ordinal),
        "name": gpu.name,
        "capability": version(gpu.capability),
        "memory": gpu.memory,
        "multiprocessors": gpu.multiprocessors,
        "pci_bus_id": gpu.pci_bus_id,
        "driver": version(gpu.driver),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn what_is_missing_is_told_with_its_reason() {
        let none = Report {
            gpus: Err(io::Error::other("a GPU was requested, but there is no driver").into()),
            compiler: Err(io::Error::other("NVRTC was not found (tried libnvrtc.so.12)").into()),
            kernels: None,
        };
        let text = none.words();
        assert!(
            text.starts_with("no GPU: a GPU was requested, but there is no driver\n"),
            "{text}"
        );
        assert!(text.contains("no compiler: ") && text.contains("tried libnvrtc.so.12"), "{text}");
        assert_eq!(none.json()["gpus"], json!([]));
        assert_eq!(none.json()["no_gpu"], "a GPU was requested, but there is no driver");
    }
}
