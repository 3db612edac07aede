//! The photographs stored beside the repository.

use std::path::{Path, PathBuf};

/// All photographs, if they are there.
pub(crate) fn photographs() -> Vec<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared");
    let shared = std::env::var_os("FUSELOOP_SHARED").map_or(beside, PathBuf::from);
    let Ok(folder) = std::fs::read_dir(shared.join("data/imagenet")) else {
        println!("skipped: no photographs at {}", shared.display());
        return Vec::new();
    };
    let mut paths: Vec<_> = folder.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "JPEG"));
    paths.sort();
    paths
}
