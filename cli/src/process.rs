//! The processor time and memory of this process, from `/proc`.
//!
//! Everything is `None` if there is no such file, as outside Linux.

use std::fs;
use std::time::Duration;

/// The length of a tick in `/proc/self/stat`, on every 64-bit Linux.
const TICK: Duration = Duration::from_millis(10);

/// Returns the processor time of all threads so far.
///
/// The time comes from the scheduler, to the nanosecond, over the threads that are alive; if that is not
/// available, from `/proc/self/stat`, to 10 ms. Differences are right as long as no thread ends in
/// between, and a loader's threads live as long as the loader.
pub(super) fn cpu_time() -> Option<Duration> {
    scheduled().or_else(ticks)
}

fn scheduled() -> Option<Duration> {
    let mut total = 0;
    for task in fs::read_dir("/proc/self/task").ok()? {
        let path = task.ok()?.path().join("schedstat");
        // A thread that has just ended has no file: its time is lost, but not that of the others.
        let Ok(text) = fs::read_to_string(path) else { continue };
        total += text.split_ascii_whitespace().next()?.parse::<u64>().ok()?;
    }
    (total > 0).then(|| Duration::from_nanos(total))
}

/// Reads `utime` and `stime`, the 14th and 15th words; the second word may contain spaces and ends with
/// `)`.
fn ticks() -> Option<Duration> {
    let text = fs::read_to_string("/proc/self/stat").ok()?;
    let (_, after_name) = text.rsplit_once(')')?;
    let words = after_name.split_ascii_whitespace().skip(11).take(2);
    let ticks = words.map(|word| word.parse::<u32>().ok()).sum::<Option<u32>>()?;
    Some(TICK * ticks)
}

/// The memory of this process in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Memory {
    /// The peak of resident memory, including pages of mapped files.
    pub(super) peak: u64,
    /// The resident pages of mapped files: the program itself. The system can reclaim them when needed.
    pub(super) mapped: u64,
}

/// Reads the resident memory from `/proc/self/status`.
pub(super) fn memory() -> Option<Memory> {
    let text = fs::read_to_string("/proc/self/status").ok()?;
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kib * 1024)
    };
    Some(Memory { peak: field("VmHWM:")?, mapped: field("RssFile:")? })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn work_costs_processor_time_and_memory_is_counted() {
        let before = cpu_time().unwrap();
        let sum = (0..200_000_000u64).fold(0, |a, b| std::hint::black_box(a ^ b));
        assert!(cpu_time().unwrap() > before, "{sum}");
        assert!(ticks().is_some());
        assert!(memory().unwrap().peak > 100_000);
    }
}
