//! What the system knows of this process: processor time and memory, from `/proc`.
//!
//! Everything is `None` where there is no such file, as outside Linux.

use std::fs;
use std::time::Duration;

/// Length of a tick of `/proc/self/stat`, on every Linux of 64 bits.
const TICK: Duration = Duration::from_millis(10);

/// Processor time of all threads so far.
///
/// From the scheduler, to the nanosecond, over the threads alive now; else from
/// `/proc/self/stat`, to 10 ms. Differences are right as long as no thread ends in between, and a
/// loader's threads live as long as the loader.
pub(super) fn cpu_time() -> Option<Duration> {
    scheduled().or_else(ticks)
}

fn scheduled() -> Option<Duration> {
    let mut total = 0;
    for task in fs::read_dir("/proc/self/task").ok()? {
        let path = task.ok()?.path().join("schedstat");
        // A thread that has just ended has no file: its time is lost, that of the others is not.
        let Ok(text) = fs::read_to_string(path) else { continue };
        total += text.split_ascii_whitespace().next()?.parse::<u64>().ok()?;
    }
    (total > 0).then(|| Duration::from_nanos(total))
}

/// `utime` and `stime`, the 14th and 15th words; the second may hold blanks and ends in `)`.
fn ticks() -> Option<Duration> {
    let text = fs::read_to_string("/proc/self/stat").ok()?;
    let (_, after_name) = text.rsplit_once(')')?;
    let words = after_name.split_ascii_whitespace().skip(11).take(2);
    let ticks = words.map(|word| word.parse::<u32>().ok()).sum::<Option<u32>>()?;
    Some(TICK * ticks)
}

/// Memory of this process, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Memory {
    /// The most that was ever resident, pages of mapped files included.
    pub(super) peak: u64,
    /// Pages of mapped files now: the program itself. The system takes them back
    /// when it needs them.
    pub(super) mapped: u64,
}

/// What is resident, from `/proc/self/status`.
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
        let sum = (0..20_000_000u64).fold(0, |a, b| std::hint::black_box(a ^ b));
        assert!(cpu_time().unwrap() > before, "{sum}");
        assert!(ticks().is_some());
        assert!(memory().unwrap().peak > 100_000);
    }
}
