//! The kernels that are shipped compiled are the ones that the generator writes now.
//!
//! `scripts/kernels_ptx.py` recompiles them: it has this test write the sources to the folder in
//! `FUSELOOP_KERNEL_SOURCES`.

use fuseloop::device::prebuilt;
use fuseloop_kernels::{SHIPPED_PTX, shipped_ptx};
use std::collections::BTreeSet;
use std::path::PathBuf;

#[test]
fn every_usual_kernel_is_shipped_as_it_is_now() {
    if let Some(folder) = std::env::var_os("FUSELOOP_KERNEL_SOURCES").map(PathBuf::from) {
        for (name, source) in prebuilt() {
            std::fs::write(folder.join(format!("{name}.cu")), source).unwrap();
        }
        return;
    }
    let stale: Vec<_> = prebuilt()
        .into_iter()
        .filter(|(_, source)| shipped_ptx(source).is_none())
        .map(|(name, _)| name)
        .collect();
    assert!(stale.is_empty(), "run scripts/kernels_ptx.py: no PTX of {stale:?} as they are now");
}

#[test]
fn nothing_else_is_shipped() {
    let kernels = prebuilt();
    let names: BTreeSet<&str> = kernels.iter().map(|(name, _)| name.as_str()).collect();
    let shipped: BTreeSet<&str> = SHIPPED_PTX.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, shipped);
    let sources: BTreeSet<&str> = kernels.iter().map(|(_, source)| source.as_str()).collect();
    assert_eq!(sources.len(), kernels.len(), "no two have one text");
}

/// Any driver since 525 accepts PTX 8.0, and any GPU since Turing runs code for sm_75.
#[test]
fn it_runs_on_every_gpu_since_turing() {
    for (name, ptx) in SHIPPED_PTX {
        assert!(ptx.contains(".version 8.0\n") && ptx.contains(".target sm_75\n"), "{name}");
        assert!(ptx.contains(".entry batch("), "{name}");
    }
}
