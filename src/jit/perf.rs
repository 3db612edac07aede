//! Names of compiled functions for `perf`: `/tmp/perf-PID.map`, as the kernel's
//! `tools/perf/Documentation/jit-interface.txt` has it.
//!
//! ```text
//! START SIZE name        in hexadecimal, a line a function
//! ```
//!
//! Written only if `FUSELOOP_PERF` is set: `FUSELOOP_PERF=1 perf record fuseloop bench x.beton`.
//! A function whose code was freed keeps its line; a later one at its place is listed after it.
//!
//! Anybody may put something under this name before us, such as a link to a file of ours. So the map is
//! a new file, begun once for each process: what an earlier process of this number left is deleted, and
//! if somebody else's lies there, which can't be deleted from `/tmp`, there is no map.

use crate::threads::Process;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::OnceLock;

/// Where names go, if anybody asked for them. A forked child has another number, and no map.
fn map() -> Option<&'static File> {
    static MAP: OnceLock<Option<(Process, File)>> = OnceLock::new();
    let begun = || {
        std::env::var_os("FUSELOOP_PERF")?;
        let path = format!("/tmp/perf-{}.map", std::process::id());
        Some((Process::current(), begin(Path::new(&path)).ok()?))
    };
    let (process, file) = MAP.get_or_init(begun).as_ref()?;
    (!process.is_forked()).then_some(file)
}

/// A new file at `path`, in place of what is there. Never the one that a link leads to.
fn begin(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => OpenOptions::new().append(true).create_new(true).open(path),
    }
}

/// Notes a function of `bytes` at `entry`. A map that can't be written costs the names, not the run.
pub(super) fn note(name: &str, entry: *const u8, bytes: usize) {
    if let Some(mut file) = map() {
        let _ = file.write_all(line(name, entry.addr(), bytes).as_bytes());
    }
}

/// A line of the map. A field's name is a stranger's: it gets no line of its own.
fn line(name: &str, start: usize, bytes: usize) -> String {
    let mut line = format!("{start:x} {bytes:x} ");
    for c in name.chars() {
        if c.is_control() || c.is_whitespace() {
            line.push('_');
        } else {
            line.push(c);
        }
    }
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_start_size_and_name() {
        assert_eq!(line("fuseloop::image", 0x7f00_1000, 784), "7f001000 310 fuseloop::image\n");
        assert_eq!(line("a\n1 2 b", 1, 2), "1 2 a_1_2_b\n");
    }
}
