//! The figures of a benchmark as lines of JSON, which `scripts/performance.py` makes tables and charts of.

use std::io::Write as _;

/// Appends a figure to the file that the environment variable `FUSELOOP_FIGURES` names, and does nothing without it.
/// `work` is what was done, and `how` is the contender that did it.
pub(crate) fn record(work: &str, how: &str, value: f64, unit: &str) {
    let Some(path) = std::env::var_os("FUSELOOP_FIGURES") else { return };
    let line = serde_json::json!({ "work": work, "how": how, "value": value, "unit": unit });
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    let written = file.and_then(|mut file| writeln!(file, "{line}"));
    written.expect("the file of figures takes a line");
}
