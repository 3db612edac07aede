//! Writes the names of compiled functions for `perf`: `/tmp/perf-PID.map`, in the format of the kernel's
//! `tools/perf/Documentation/jit-interface.txt`.
//!
//! ```text
//! START SIZE name        in hexadecimal, one line per function
//! ```
//!
//! The map is written only if `FUSELOOP_PERF` is set: `FUSELOOP_PERF=1 perf record fuseloop bench
//! x.beton`. A function whose code was freed keeps its line; a later function at the same address is
//! listed after it.
//!
//! Another user may create a file of this name first, such as a link to one of our files. So the map is
//! always a new file, created once per process: the map of an earlier process with the same number is
//! deleted, and if another user's file can't be deleted from `/tmp`, no map is written.

use crate::threads::Process;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::OnceLock;

/// Returns the map file, if one was requested. A forked child has another process number, and no map.
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

/// Creates a new file at `path`, replacing what is there. Never follows a link.
fn begin(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => OpenOptions::new().append(true).create_new(true).open(path),
    }
}

/// Records a function of `bytes` at `entry`. If the map can't be written, the names are lost; the run
/// goes on.
pub(super) fn note(name: &str, entry: *const u8, bytes: usize) {
    if let Some(mut file) = map() {
        let _ = file.write_all(line(name, entry.addr(), bytes).as_bytes());
    }
}

/// Formats one line of the map. A name contains a field's name, which is untrusted: characters that
/// could start a new line are replaced.
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
