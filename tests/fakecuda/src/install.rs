//! Runs a test on the fake GPU: starts the test's binary again, for that test alone.
//!
//! ```text
//! parent: cargo's test ──▶ Install: folder of links ──▶ child: FAKE_CUDA_CHILD=name --exact name
//!                             ◀── exit code, the mark that the body ran to its end ──┘
//! ```
//!
//! A child process, because a process loads `libcuda.so.1` once, reads its settings once, and may
//! crash.

use std::env;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Names the test that a child runs.
const CHILD: &str = "FAKE_CUDA_CHILD";

/// Printed by a child when the test's body has finished.
const DONE: &str = "the body on the fake GPU has come to its end";

/// A child that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(240);

/// A folder that holds the fake under the names of the driver and of NVRTC.
#[derive(Debug)]
pub struct Install {
    folder: TempDir,
}

impl Install {
    /// Creates the folder.
    ///
    /// # Panics
    ///
    /// If the fake was not built next to the test binary, or the links cannot be created.
    #[must_use]
    pub fn new() -> Self {
        let library = library();
        let folder = tempfile::tempdir().expect("a temporary folder");
        for name in ["libcuda.so.1", "libcuda.so", "libnvrtc.so.12"] {
            symlink(&library, folder.path().join(name)).expect("a link in our own folder");
        }
        Self { folder }
    }

    /// Returns the folder of the libraries.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the command that runs test `name` of this binary once more, on the fake.
    ///
    /// # Panics
    ///
    /// If the path of this binary is unknown.
    #[must_use]
    pub fn child(&self, name: &str) -> Command {
        let mut command = Command::new(env::current_exe().expect("the path of this binary"));
        command.args(["--exact", name, "--nocapture", "--test-threads=1"]);
        command.env(CHILD, name).env("LD_LIBRARY_PATH", self.path());
        // NVIDIA's compiler emits code for GPUs: the loader must find the fake's NVRTC instead.
        if let Some(real) = env::var_os("FUSELOOP_NVRTC") {
            command.env("REAL_NVRTC", real).env_remove("FUSELOOP_NVRTC");
        }
        command
    }

    /// Returns the search path of libraries, with our folder in front.
    fn path(&self) -> String {
        let before = env::var("LD_LIBRARY_PATH").unwrap_or_default();
        format!("{}:{before}", self.folder().display())
    }
}

impl Default for Install {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns the path of the fake as cargo built it: in the folder of the test binary, or in its
/// parent.
fn library() -> PathBuf {
    let binary = env::current_exe().expect("the path of this binary");
    let folders = binary.ancestors().skip(1).take(2);
    let candidates: Vec<PathBuf> =
        folders.map(|folder| folder.join("libfuseloop_fakecuda.so")).collect();
    let found = candidates.iter().find(|path| path.exists());
    found.unwrap_or_else(|| panic!("the fake driver was not built: {candidates:?}")).clone()
}

/// Returns true if kernels can be compiled for the host, so that the fake NVRTC works. Otherwise
/// prints that the test is skipped.
#[must_use]
pub fn has_host_compiler() -> bool {
    let found = crate::nvrtc::host_compiler().is_some();
    if !found {
        eprintln!("skipped: there is no C++ compiler (g++, or what CXX names)");
    }
    found
}

/// Runs `body` on the fake GPU. `name` is the test's own name, with its modules, as `cargo test`
/// prints it; `settings` are environment variables, including the fake's. A test may call this
/// function more than once with different settings: each child runs the body whose settings it has.
///
/// # Panics
///
/// If the body panics, with everything that it printed; if the child crashes or hangs, or `name` is
/// not a test that calls this function.
pub fn on_fake_gpu(name: &str, settings: &[(&str, &str)], body: impl FnOnce()) {
    if env::var_os(CHILD).is_some() {
        if settings.iter().all(|(name, value)| env::var(name).as_deref() == Ok(value)) {
            body();
            println!("\n{DONE}");
        }
        return;
    }
    let install = Install::new();
    let said = install.folder().join("said");
    let file = File::create(&said).expect("a file in our own folder");
    let mut command = install.child(name);
    command.envs(settings.iter().copied());
    command.stdout(file.try_clone().expect("a second handle")).stderr(file);
    let status = wait(&mut command);
    let text = String::from_utf8_lossy(&fs::read(&said).unwrap_or_default()).into_owned();
    match status {
        None => panic!("{name} on the fake GPU with {settings:?} hangs\n{text}"),
        Some(status) if !status.success() => {
            let signal = status.signal().map_or_else(String::new, |n| format!(" by signal {n}"));
            panic!("{name} on the fake GPU with {settings:?} failed{signal}\n{text}")
        }
        Some(_) => assert!(text.contains(DONE), "{name} is no test that ran its body\n{text}"),
    }
}

/// Returns the exit status; `None` if the child did not end in time.
fn wait(command: &mut Command) -> Option<ExitStatus> {
    let mut child = command.spawn().expect("this binary starts once more");
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        if let Some(status) = child.try_wait().expect("a child of ours") {
            return Some(status);
        }
        thread::sleep(Duration::from_millis(5));
    }
    let _ = child.kill();
    let _ = child.wait();
    None
}
