//! Names of compiled functions for `perf`: `/tmp/perf-PID.map`, as the kernel's
//! `tools/perf/Documentation/jit-interface.txt` has it.
//!
//! ```text
//! START SIZE name        in hexadecimal, a line a function
//! ```
//!
//! Written only if `FUSELOOP_PERF` is set: `FUSELOOP_PERF=1 perf record fuseloop bench x.beton`.
//! A function whose code was freed keeps its line; a later one at its place is listed after it.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::OnceLock;

/// Where names go, if anybody asked for them.
fn map() -> Option<&'static PathBuf> {
    static MAP: OnceLock<Option<PathBuf>> = OnceLock::new();
    let path = || {
        std::env::var_os("FUSELOOP_PERF")?;
        Some(PathBuf::from(format!("/tmp/perf-{}.map", std::process::id())))
    };
    MAP.get_or_init(path).as_ref()
}

/// Notes a function of `bytes` at `entry`. A map that can't be written costs the names, not the run.
pub(super) fn note(name: &str, entry: *const u8, bytes: usize) {
    if let Some(path) = map()
        && let Ok(mut file) = OpenOptions::new().append(true).create(true).open(path)
    {
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
