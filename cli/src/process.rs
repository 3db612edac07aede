//! The processor time of this process, and its memory from `/proc`.

use std::fs;
use std::time::Duration;

/// Returns the processor time of all threads so far, also of those that have ended; `None` on Windows.
#[cfg(unix)]
pub(super) fn cpu_time() -> Option<Duration> {
    rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime).try_into().ok()
}

/// See the function for Unix.
#[cfg(not(unix))]
pub(super) fn cpu_time() -> Option<Duration> {
    None
}

/// The memory of this process in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Memory {
    /// The peak of resident memory, including pages of mapped files.
    pub(super) peak: u64,
    /// The resident pages of mapped files: the program itself. The system can reclaim them when needed.
    pub(super) mapped: u64,
}

/// Reads the resident memory from `/proc/self/status`; `None` if there is no such file, as outside Linux.
pub(super) fn memory() -> Option<Memory> {
    let text = fs::read_to_string("/proc/self/status").ok()?;
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kib * 1024)
    };
    Some(Memory { peak: field("VmHWM:")?, mapped: field("RssFile:")? })
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    /// The times of threads that have ended are counted, too: those of other tests may end meanwhile.
    #[test]
    fn work_costs_processor_time_and_memory_is_counted() {
        let before = cpu_time().unwrap();
        let work = || (0..200_000_000u64).fold(0, |a, b| std::hint::black_box(a ^ b));
        let sum = std::thread::scope(|threads| threads.spawn(work).join().unwrap());
        assert!(cpu_time().unwrap() > before, "{sum}");
        assert!(memory().unwrap().peak > 100_000);
    }
}
