//! Which datasets are read into memory when a loader is built: those of small samples that fit.
//!
//! A system call for a sample of 3 KB takes as long as the work on it. Larger samples gain nothing: the system holds
//! what was read lately, and a large value that lies in memory is waited for as well.

use crate::error::{Error, fail};
use crate::source::Source;
use std::fs;

/// The most bytes of a small sample, on average.
const SMALL: u64 = 16 << 10;

/// The most bytes of a dataset that is held without being asked for.
const MOST: u64 = 2 << 30;

/// The memory that is taken for free if the system does not tell.
const UNKNOWN: u64 = 1 << 30;

/// Reads the dataset into memory if that is `wanted`, or if nothing is said and its samples are small and fit beside
/// those of the other processes of a `world`. Returns the number of bytes that are held.
pub(super) fn hold(
    source: &dyn Source,
    wanted: Option<bool>,
    world: u64,
) -> Result<Option<u64>, Error> {
    let (Some(bytes), Some(stored)) = (source.stored_bytes(), source.stored()) else {
        let dataset = source.name();
        return if wanted == Some(true) {
            Err(fail!(
                Unsupported,
                "{dataset} can't be read into memory, which only .beton files can: remove `in_memory`"
            ))
        } else {
            Ok(None)
        };
    };
    match wanted {
        Some(false) => Ok(None),
        Some(true) => {
            stored.hold_in_memory().map_err(Error::from)?;
            Ok(Some(bytes))
        }
        None => {
            let is_local = source.path().is_some();
            let is_small = bytes.checked_div(source.len()).is_some_and(|mean| mean <= SMALL);
            let fits = is_local && is_small && bytes <= budget(free(), world);
            // A file that can't be read whole may still have samples that can be read.
            Ok(Some(bytes).filter(|_| fits && stored.hold_in_memory().is_ok()))
        }
    }
}

fn budget(free: u64, world: u64) -> u64 {
    (free / 4).min(MOST) / world.max(1)
}

/// Returns how many bytes of memory the system and this process' group have left.
fn free() -> u64 {
    let number = |path: &str| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let group = number("/sys/fs/cgroup/memory.max")
        .zip(number("/sys/fs/cgroup/memory.current"))
        .map(|(most, used)| most.saturating_sub(used));
    let system = fs::read_to_string("/proc/meminfo").ok().and_then(|text| available(&text));
    system.into_iter().chain(group).min().unwrap_or(UNKNOWN)
}

/// Returns the bytes that Linux' `/proc/meminfo` says are available.
fn available(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_of_what_is_free_and_at_most_2_gib_are_shared_by_the_ranks() {
        assert_eq!(budget(1000, 1), 250);
        assert_eq!(budget(u64::MAX, 1), MOST);
        assert_eq!(budget(u64::MAX, 8), MOST / 8);
    }

    #[test]
    fn the_systems_line_is_read() {
        let text = "MemTotal:       24683652 kB\nMemFree:  1 kB\nMemAvailable:   23655936 kB\n";
        assert_eq!(available(text), Some(23_655_936 << 10));
        assert_eq!(available("MemTotal: 5 kB"), None);
        assert_eq!(available("MemAvailable: many kB"), None);
    }
}
