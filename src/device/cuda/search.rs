//! The paths where NVRTC may be installed.
//!
//! | tried, in order | content |
//! |---|---|
//! | `$FUSELOOP_NVRTC` | a library, or a folder of libraries; if set, nothing else is tried |
//! | `libnvrtc.so.13`, `.12`, `libnvrtc.so` | the library that the system or PyTorch has loaded or would load; the driver's own version first, since an older driver may reject what a newer compiler emits |
//! | `nvidia/*/lib` of the site-packages of `$VIRTUAL_ENV` and `$CONDA_PREFIX` | the packages that pip installs |

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// Returns true if the file's name starts with `with`.
pub(super) fn starts(path: &Path, with: &str) -> bool {
    path.file_name().and_then(OsStr::to_str).is_some_and(|name| name.starts_with(with))
}

/// Returns the paths in a folder, in order; none if the folder does not exist.
pub(super) fn entries(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return vec![] };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort_unstable();
    paths
}

/// The configuration of the search.
pub(super) struct Search {
    named: Option<PathBuf>,
    /// The prefixes of Python installations.
    prefixes: Vec<PathBuf>,
    driver: u32,
}

impl Search {
    /// Reads the configuration from the environment.
    pub(super) fn of_environment(driver: u32) -> Self {
        let path = |name| env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from);
        let prefixes = ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(path).collect();
        Self { named: path("FUSELOOP_NVRTC"), prefixes, driver }
    }

    /// Returns the file names of NVRTC, that of the driver's version first.
    fn names(&self) -> [&'static str; 3] {
        match self.driver {
            ..13 => ["libnvrtc.so.12", "libnvrtc.so.13", "libnvrtc.so"],
            _ => ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"],
        }
    }

    /// Returns all paths to try, in order.
    pub(super) fn candidates(&self) -> Vec<PathBuf> {
        let names = self.names();
        let in_folder = |folder: PathBuf| names.map(|name| folder.join(name));
        match &self.named {
            Some(named) if named.is_dir() => {
                let below = [named.clone()].into_iter().chain(nvidia(named));
                let found: Vec<_> = below.flat_map(in_folder).filter(|p| p.exists()).collect();
                // If there is none, the error lists the paths that were tried.
                if found.is_empty() { in_folder(named.clone()).to_vec() } else { found }
            }
            Some(named) => vec![named.clone()],
            None => {
                let installed = self.prefixes.iter().flat_map(|prefix| site_packages(prefix));
                let installed = installed.flat_map(|site| nvidia(&site)).flat_map(in_folder);
                let system = names.into_iter().map(PathBuf::from);
                system.chain(installed.filter(|path| path.exists())).collect()
            }
        }
    }
}

/// Returns the library folders of NVIDIA's packages in `site`.
fn nvidia(site: &Path) -> Vec<PathBuf> {
    entries(&site.join("nvidia")).into_iter().map(|package| package.join("lib")).collect()
}

/// Returns the `site-packages` folders of the Pythons installed at `prefix`.
fn site_packages(prefix: &Path) -> Vec<PathBuf> {
    let pythons = entries(&prefix.join("lib")).into_iter().filter(|path| starts(path, "python"));
    pythons.map(|python| python.join("site-packages")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(named: Option<&Path>, prefix: &Path, driver: u32) -> Vec<PathBuf> {
        let (named, prefixes) = (named.map(Path::to_owned), vec![prefix.to_owned()]);
        Search { named, prefixes, driver }.candidates()
    }

    /// Creates an empty file at `path` in `folder`.
    fn put(folder: &Path, path: &str) -> PathBuf {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "").unwrap();
        path
    }

    #[test]
    fn the_system_comes_first_and_the_drivers_version_before_others() {
        let dir = tempfile::tempdir().unwrap();
        let twelve = ["libnvrtc.so.12", "libnvrtc.so.13", "libnvrtc.so"].map(PathBuf::from);
        assert_eq!(search(None, dir.path(), 12), twelve);
        let thirteen = ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"].map(PathBuf::from);
        assert_eq!(search(None, dir.path(), 13), thirteen);
    }

    #[test]
    fn what_pip_installed_comes_after() {
        let dir = tempfile::tempdir().unwrap();
        let site = "lib/python3.12/site-packages/nvidia";
        let old = put(dir.path(), &format!("{site}/cuda_nvrtc/lib/libnvrtc.so.12"));
        let new = put(dir.path(), &format!("{site}/cu13/lib/libnvrtc.so.13"));
        put(dir.path(), "lib/ruby/site-packages/nvidia/cu13/lib/libnvrtc.so.13");
        assert_eq!(search(None, dir.path(), 13)[3..], [new, old]);
    }

    #[test]
    fn what_is_named_is_all_that_is_tried() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("mine.so");
        assert_eq!(search(Some(&file), dir.path(), 12), [file]);
        let none = search(Some(dir.path()), dir.path(), 12);
        assert_eq!(none[0], dir.path().join("libnvrtc.so.12"));
        let wheel = put(dir.path(), "nvidia/cuda_nvrtc/lib/libnvrtc.so.12");
        assert_eq!(search(Some(dir.path()), dir.path(), 12), [wheel]);
        let plain = put(dir.path(), "libnvrtc.so");
        assert_eq!(search(Some(dir.path()), dir.path(), 12)[0], plain);
    }
}
