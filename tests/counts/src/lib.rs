//! How much the tests do: every count that a test takes, with its number in each tier.
//!
//! | `FUSELOOP_TIER`       | where                                                |
//! |-----------------------|------------------------------------------------------|
//! | `quick`, or unset     | `cargo test`                                         |
//! | `slow`                | `.ci/run`, with the tests that have a larger number there |
//! | `soak`                | the steps of `scripts/soak.sh`                       |
//!
//! The variable of a count, such as `FUSELOOP_LISTS=7`, sets that count alone, in any tier.

use std::env;
use std::fmt::Debug;

/// A count that a test takes.
#[derive(Clone, Copy, Debug)]
pub struct Count {
    /// The environment variable that sets it.
    pub name: &'static str,
    /// The numbers of the tiers: quick, slow, soak.
    pub tiers: [u64; 3],
    /// The number of slices that the slow tier cuts the cases into. It runs one of them a day.
    pub slices: u64,
    /// The tests that take it: a target of cargo and a filter.
    pub tests: (&'static str, &'static str),
    /// The thing that is counted.
    pub what: &'static str,
}

const fn count(
    name: &'static str,
    tiers: [u64; 3],
    slices: u64,
    tests: (&'static str, &'static str),
    what: &'static str,
) -> Count {
    Count { name, tiers, slices, tests, what }
}

/// All counts, by name. CONTRIBUTING.md has them as a table.
#[rustfmt::skip]
pub const COUNTS: &[Count] = &[
    count("FUSELOOP_ARCHIVES", [500, 10_000, 100_000], 1, ("lib", "tar::tests::second"),
        "tar archives, read as the tar crate reads them"),
    count("FUSELOOP_BATCHES", [300, 10_000, 100_000], 1, ("process", "run_memory::"),
        "batches that a slow reader takes in flat memory"),
    count("FUSELOOP_CACHE_EPOCHS", [8, 8, 200], 1, ("loader", "cache::"),
        "epochs over a cache in flat memory"),
    count("FUSELOOP_CALL_ROUNDS", [24, 1_000, 1_000], 1, ("compiler", "jit_threads::"),
        "kernels that sixteen threads call at once"),
    count("FUSELOOP_CHUNKS", [300, 2_000, 2_000], 4, ("compiler", "chunks::"),
        "random lists of ops, for the samples of a chunk"),
    count("FUSELOOP_COMPILE_ROUNDS", [8, 1_000, 1_000], 1, ("compiler", "jit_threads::"),
        "kernels that sixteen threads compile at once"),
    count("FUSELOOP_CONVERT_KILLS", [8, 60, 1_000], 4, ("write", "kill::"),
        "conversions killed, for each destination"),
    count("FUSELOOP_CRASHES", [500, 10_000, 100_000], 1, ("lib", "a_power_cut"),
        "images of a disk after a power cut"),
    count("FUSELOOP_CYCLES", [500, 10_000, 100_000], 1, ("process", "jit_memory::"),
        "kernels compiled and dropped"),
    count("FUSELOOP_DATASETS", [60, 1_000, 1_000], 4, ("write", "datasets::"),
        "random datasets, written and read"),
    count("FUSELOOP_DROPS", [100, 1_000, 10_000], 1, ("process", "run_threads::"),
        "moments at which the engine is dropped"),
    count("FUSELOOP_EPOCHS", [10_000, 10_000, 100_000], 1, ("loader", "order"),
        "epochs whose orders are counted; 100,000 also try large datasets"),
    count("FUSELOOP_FAULTS", [40, 1_000, 1_000], 1, ("lib", "source::faults::"),
        "reads that fail, for each format"),
    count("FUSELOOP_FLIPS", [6, 100, 100], 16, ("hostile", "jpeg::damage::"),
        "changed bits for each JPEG; more than 6 are tried on every photograph"),
    count("FUSELOOP_FORKS", [4, 50, 500], 1, ("process", "fork::"),
        "forks at each moment"),
    count("FUSELOOP_FUZZ_INPUTS", [3_000, 30_000, 60_000], 1, ("lib", "fuzzing::"),
        "inputs of each fuzz check"),
    count("FUSELOOP_FUZZ_SECONDS", [0, 0, 300], 1, ("lib", "fuzzing::"),
        "seconds of new inputs for each fuzz check, instead of the same ones"),
    count("FUSELOOP_GPU_PROGRAMS", [200, 200, 200], 1, ("gpu", "device::"),
        "random programs on a GPU"),
    count("FUSELOOP_INTERPRETED", [300, 2_000, 2_000], 1, ("compiler", "interpreted::"),
        "random lists of ops, interpreted"),
    count("FUSELOOP_JOINED_SHARDS", [200, 20_000, 100_000], 1, ("lib", "tar::tests::joined"),
        "shards of 10,000 samples that one index lists"),
    count("FUSELOOP_JPEGS", [300, 2_000, 20_000], 1, ("jpeg", "core::"),
        "JPEGs of noise, by two decoders"),
    count("FUSELOOP_JPEG_EDGES", [300, 2_000, 2_000], 1, ("jpeg", "edges::"),
        "JPEGs of noise, at their edges"),
    count("FUSELOOP_JPEG_SCANS", [100, 6_000, 6_000], 4, ("jpeg", "scans::"),
        "JPEGs of noise, in every order of their scans"),
    count("FUSELOOP_KERNELS", [120, 400, 4_000], 1, ("gpu", "kernels::"),
        "GPU programs, by their host build"),
    count("FUSELOOP_KILLS", [50, 1_000, 1_000], 4, ("write", "kill::"),
        "writers killed"),
    count("FUSELOOP_LISTS", [400, 5_000, 200_000], 2, ("compiler", "fused_equals_evaluated::"),
        "random lists of ops, compiled and evaluated"),
    count("FUSELOOP_MEMCHECK", [10, 200, 200], 1, ("compiler", "memcheck::"),
        "random lists of ops, under valgrind in `scripts/valgrind.sh`"),
    count("FUSELOOP_MOMENTS", [8, 200, 16_000], 1, ("hostile", "changing::"),
        "moments at which a file changes, for each way to read it"),
    count("FUSELOOP_PAGES", [2_000, 2_000, 2_000], 1, ("sources", "pages::"),
        "random runs over the process cache"),
    count("FUSELOOP_PARTS", [200, 2_000, 20_000], 1, ("jpeg", "parts::"),
        "JPEGs of noise, of which parts are read"),
    count("FUSELOOP_PLANES", [200, 2_000, 20_000], 1, ("jpeg", "planes::"),
        "JPEGs of noise, as bit planes"),
    count("FUSELOOP_PREEMPTIONS", [1, 2, 2], 12, ("exhaustive", ""),
        "preemptions, at most, in every order of the engine's threads"),
    count("FUSELOOP_PTX_PROGRAMS", [12, 12, 400], 1, ("interpreted", "random_programs"),
        "GPU programs, by their PTX"),
    count("FUSELOOP_RECORD_DATASETS", [20, 1_000, 1_000], 4, ("write", "datasets::"),
        "random datasets, written from records"),
    count("FUSELOOP_RECUT_KILLS", [10, 10, 10], 1, ("cli", "writing::"),
        "re-cuts of a folder killed"),
    count("FUSELOOP_SAMPLES", [2_000_000, 100_000_000, 1_000_000_000], 1, ("loader", "thousand_ranks::"),
        "samples that 1,024 ranks share"),
    count("FUSELOOP_SCALED", [60, 600, 6_000], 1, ("jpeg", "scaled::"),
        "JPEGs, decoded at smaller scales"),
    count("FUSELOOP_SCHEDULES", [2_000, 100_000, 100_000], 10, ("engine", ""),
        "random orders of the engine's threads, for each scenario"),
    count("FUSELOOP_SETTINGS", [100, 500, 500], 1, ("compiler", "interpreted::"),
        "random lists of ops, for each set of code generation settings"),
    count("FUSELOOP_STEP_FAULTS", [8, 1_000, 1_000], 20, ("lib", "convert::tests::the_nth_step"),
        "steps of a conversion that fail"),
    count("FUSELOOP_TARGET_LISTS", [40, 1_000, 10_000], 1, ("loader", "targets::"),
        "random lists of ops whose images have targets"),
    count("FUSELOOP_THREADS", [0, 16, 16], 1, ("run", "order::the_stream"),
        "threads, at most, that give the same stream; 0: 1, 2 and 7 threads"),
    count("FUSELOOP_WINDOWS", [20, 30, 300], 1, ("jpeg", "windows::"),
        "windows of each JPEG"),
];

/// Returns the entry of a count.
///
/// # Panics
///
/// If [`COUNTS`] has no such name.
fn entry(name: &str) -> &'static Count {
    COUNTS.iter().find(|count| count.name == name).unwrap_or_else(|| panic!("{name} is no count"))
}

/// Returns the value of an environment variable, if it is set.
///
/// # Panics
///
/// If the value is no text.
fn variable(name: &str) -> Option<String> {
    let text = env::var_os(name)?;
    Some(text.into_string().unwrap_or_else(|text| panic!("{name} is {text:?}")))
}

fn number(name: &str, text: &str) -> u64 {
    text.parse().unwrap_or_else(|error| panic!("{name} is {text}, expected a number: {error}"))
}

/// Returns the place of this process's tier in [`Count::tiers`].
fn tier(text: Option<&str>) -> usize {
    match text {
        None | Some("quick") => 0,
        Some("slow") => 1,
        Some("soak") => 2,
        Some(other) => panic!("FUSELOOP_TIER is {other}, expected quick, slow or soak"),
    }
}

/// Returns the number of a count: that of its environment variable, or else that of the tier.
///
/// # Panics
///
/// If [`COUNTS`] has no such name, or if a variable is set to anything else than a number or a tier: a
/// misspelt count must not pass as the default.
pub fn rounds<T: TryFrom<u64, Error: Debug>>(name: &str) -> T {
    let of_tier = entry(name).tiers[tier(variable("FUSELOOP_TIER").as_deref())];
    let number = variable(name).map_or(of_tier, |text| number(name, &text));
    T::try_from(number).unwrap_or_else(|error| panic!("{name} is {number}: {error:?}"))
}

/// Returns true if a count is larger than in the quick tier.
///
/// # Panics
///
/// In the cases of [`rounds`].
pub fn is_raised(name: &str) -> bool {
    rounds::<u64>(name) > entry(name).tiers[0]
}

/// Returns the slice of a count's cases that this process tests, and the number of slices.
///
/// `FUSELOOP_SLICE=1/5` is the second of the slices 0/5 to 4/5, which together are all cases. The slow tier
/// has the number of slices of [`Count::slices`], and the day `FUSELOOP_DAY` determines which one it tests.
/// Otherwise one slice has all cases.
///
/// # Panics
///
/// If [`COUNTS`] has no such name, or if a variable is set to anything else than the above.
pub fn slice(name: &str) -> (usize, usize) {
    if let Some(text) = variable("FUSELOOP_SLICE") {
        return given_slice(&text);
    }
    let slices = match tier(variable("FUSELOOP_TIER").as_deref()) {
        1 => entry(name).slices,
        _ => 1,
    };
    let day = variable("FUSELOOP_DAY").map_or(0, |text| number("FUSELOOP_DAY", &text));
    ((day % slices) as usize, slices as usize)
}

fn given_slice(text: &str) -> (usize, usize) {
    let numbers = text.split_once('/').map(|(slice, of)| (slice.parse(), of.parse()));
    match numbers {
        Some((Ok(slice), Ok(of))) if slice < of => (slice, of),
        _ => {
            panic!("FUSELOOP_SLICE is {text}, expected SLICE/COUNT with SLICE from 0 to COUNT - 1")
        }
    }
}

/// Returns the numbers of the cases in this process's slice: in all slices, those below [`rounds`].
///
/// # Panics
///
/// In the cases of [`rounds`] and [`slice()`].
pub fn numbers(name: &str) -> Vec<u64> {
    let (slice, of) = slice(name);
    (slice as u64..rounds(name)).step_by(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::catch_unwind;

    #[test]
    fn names_are_sorted_and_no_tier_does_less_than_the_one_before() {
        assert!(COUNTS.is_sorted_by(|a, b| a.name < b.name));
        for count in COUNTS {
            assert!(count.tiers.is_sorted() && count.slices > 0, "{count:?}");
        }
    }

    #[test]
    fn what_is_misspelt_is_refused() {
        assert_eq!((number("x", "12"), tier(Some("slow")), given_slice("3/10")), (12, 1, (3, 10)));
        for text in ["", "12k", "-1", "1e3"] {
            assert!(catch_unwind(|| number("x", text)).is_err(), "{text}");
        }
        assert!(catch_unwind(|| tier(Some("Slow"))).is_err());
        for text in ["", "3", "10/10", "a/b"] {
            assert!(catch_unwind(|| given_slice(text)).is_err(), "{text}");
        }
        assert!(catch_unwind(|| rounds::<u64>("FUSELOOP_LIST")).is_err());
    }
}
