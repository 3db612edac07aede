//! The state of the fake driver in this process, read through its exported functions.
#![allow(unsafe_code, reason = "two functions of a library, by name")]

use libloading::Library;

/// The live objects of the fake driver, and its errors.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Allocations on devices.
    pub allocations: u64,
    /// The bytes of these allocations.
    pub bytes: u64,
    /// Streams.
    pub streams: u64,
    /// Events.
    pub events: u64,
    /// Modules.
    pub modules: u64,
    /// Ranges of host memory that were registered.
    pub registered: u64,
    /// Page-locked allocations of the driver.
    pub pinned: u64,
    /// The number of times that contexts were retained and not released.
    pub contexts: u64,
    /// The errors on devices.
    pub faults: Vec<String>,
}

impl Report {
    /// Reads the current state.
    ///
    /// # Panics
    ///
    /// If this process does not run on the fake driver: see [`on_fake_gpu`](crate::on_fake_gpu).
    #[must_use]
    pub fn now() -> Self {
        Self::parse(&ask("fake_cuda_report"))
    }

    fn parse(text: &str) -> Self {
        let mut report = Self::default();
        for line in text.lines() {
            let (name, value) = line.split_once(' ').unwrap_or((line, ""));
            let number = || value.parse().expect("a number");
            match name {
                "allocations" => report.allocations = number(),
                "bytes" => report.bytes = number(),
                "streams" => report.streams = number(),
                "events" => report.events = number(),
                "modules" => report.modules = number(),
                "registered" => report.registered = number(),
                "pinned" => report.pinned = number(),
                "contexts" => report.contexts = number(),
                // A fault may span several lines.
                "fault" => report.faults.push(value.to_owned()),
                _ => report.faults.push(line.to_owned()),
            }
        }
        report
    }
}

/// Returns the calls of the driver so far, one per line: `name[arguments] = code`. The driver
/// records calls only with `FAKE_CUDA_LOG`.
///
/// # Panics
///
/// The same as for [`Report::now`].
#[must_use]
pub fn calls() -> Vec<String> {
    ask("fake_cuda_log").lines().map(str::to_owned).collect()
}

/// Returns the text that an exported function writes.
fn ask(name: &str) -> String {
    type Ask = unsafe extern "C" fn(*mut u8, usize) -> i32;
    // SAFETY: loading the fake runs no code; another driver is loaded by this process anyway, and
    // lacks the function.
    let library = unsafe { Library::new("libcuda.so.1") }.expect("the fake driver");
    // SAFETY: the fake's functions of these names have this type.
    let ask = unsafe { library.get::<Ask>(name.as_bytes()) }.expect("the fake driver, not another");
    let mut bytes = vec![0; 1 << 20];
    // SAFETY: the buffer has as many bytes as the call says.
    let len = unsafe { ask(bytes.as_mut_ptr(), bytes.len()) };
    let len = usize::try_from(len).expect("a length").min(bytes.len() - 1);
    String::from_utf8_lossy(&bytes[..len]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_as_it_is_written() {
        let report = Report::parse("allocations 2\nbytes 512\ncontexts 1\nfault kernel k: bad");
        assert_eq!((report.allocations, report.bytes, report.contexts), (2, 512, 1));
        assert_eq!(report.faults, ["kernel k: bad"]);
    }
}
