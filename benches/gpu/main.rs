//! GPU performance relative to the machine's limits: each yardstick is measured in the same run, in
//! turn with the contender.
//!
//! | group | contender | yardstick |
//! |---|---|---|
//! | copies | a batch to the device: pageable, page-locked as slots are, allocated by the driver | the last |
//! | kernels | the kernels of a batch in device memory, by the device's own time | its bytes at the rate of a copy inside the device |
//! | pipelined | batches through the uploader, three in flight | the copy alone |
//! | code | a program's code: compiled, loaded, shipped | |
//! | loader | whole epochs of raw images in memory, images per second | the same list on the CPU |
//!
//! A kernel's bytes are the least that it must move: the pixels it reads of each image (twice if it
//! also reads a partner's or needs an earlier pass over the image) and the values it writes. Before
//! a kernel is timed, its whole output is compared with the oracle.
//!
//! ```text
//! cargo bench --bench gpu                 a table
//! cargo bench --bench gpu -- --json       a line of JSON for each row of the table
//! cargo bench --bench gpu -- --test       each case once, with a small batch: for the fake driver
//! ```
//!
//! If no GPU can be opened, the benchmark prints one line that says so. With `CUDA_CACHE_DISABLE=1`
//! the driver compiles the shipped code each time.

#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

mod cases;
mod loaders;
mod table;

use cases::{Case, MIB};
use fuseloop::device::bench::{Bench, HostPages, Resident};
use fuseloop::device::check::CheckBatch;
use std::time::{Duration, Instant};
use table::{Aim, Table};

/// The extent of the measurements.
pub(crate) struct Size {
    pub(crate) rows: usize,
    pub(crate) side: u32,
    /// Runs between two readings of the clock.
    pub(crate) times: usize,
    /// Rounds; their median counts.
    pub(crate) rounds: usize,
    /// The bytes of the copy inside the device that serves as the yardstick.
    pub(crate) large: usize,
    /// The batches of an epoch, and of a pipeline.
    pub(crate) batches: u32,
}

const FULL: Size =
    Size { rows: 256, side: 224, times: 20, rounds: 9, large: 512 * MIB, batches: 60 };
const SMALL: Size = Size { rows: 8, side: 61, times: 2, rounds: 1, large: MIB, batches: 4 };

fn main() {
    let has = |word: &str| std::env::args().any(|arg| arg == word);
    let small = has("--test") || has("nothing");
    let bench = match Bench::open(0) {
        Ok(bench) => bench,
        Err(reason) => return println!("skipped: {reason}"),
    };
    let (size, mut table) = (if small { SMALL } else { FULL }, Table::new(has("--json")));
    table.says(&bench.info().to_string());
    table.says(&format!("batches of {} x {side} x {side} x 3", size.rows, side = size.side));
    if !small {
        warm(&bench, &size);
    }
    copies(&bench, &size, &mut table);
    let mut kept = vec![];
    for case in cases::all(&size) {
        let trial = case.trial(&size);

        kernels(&bench, &size, &case, &trial, &mut table);
        kept.extend(case.pipelined.then_some((case, trial)));
    }
    for (case, trial) in &kept {
        pipelined(&bench, &size, case, trial, &mut table);
    }
    code(&bench, &size, &mut table);
    loaders::compare(&size, &mut table);
}

/// Raises the device's clocks to their working frequency.
fn warm(bench: &Bench, size: &Size) {
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(500) {
        bench.copy(size.large, 20).unwrap();
    }
}

/// Returns the median.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Returns the GB/s of `bytes` in `millis` milliseconds.
fn rate(bytes: usize, millis: f64) -> f64 {
    bytes as f64 / millis / 1e6
}

fn copies(bench: &Bench, size: &Size, table: &mut Table) {
    let bytes = size.rows * size.side as usize * size.side as usize * 3;
    let kinds = [
        ("pageable", HostPages::Pageable),
        ("locked, as slots are", HostPages::Registered),
        ("made by the driver", HostPages::Allocated),
    ];
    let mut rates = [vec![], vec![], vec![]];
    for _ in 0..size.rounds {
        for (rates, (_, pages)) in rates.iter_mut().zip(kinds) {
            rates.push(rate(bytes, bench.upload(pages, bytes, size.times).unwrap()));
        }
    }
    let over = |k: usize| median(rates[k].iter().zip(&rates[2]).map(|(a, b)| a / b).collect());
    for (k, (name, pages)) in kinds.into_iter().enumerate() {
        let aim = (pages == HostPages::Registered).then_some(Aim::AtLeast(0.9));
        let name = format!("to the device, {name}");
        table.row("copies", &name, median(rates[k].clone()), "GB/s", Some(over(k)), aim);
    }
    let inside = (0..size.rounds).map(|_| inside(bench, size)).collect();
    table.row("copies", "inside the device, read + written", median(inside), "GB/s", None, None);
}

/// Returns the GB/s of a copy inside the device, counting bytes read and written.
fn inside(bench: &Bench, size: &Size) -> f64 {
    rate(2 * size.large, bench.copy(size.large, size.times).unwrap())
}

fn kernels(bench: &Bench, size: &Size, case: &Case, trial: &CheckBatch, table: &mut Table) {
    // Three inputs in turn, so that caches hold little of the next one.
    let resident = Resident::new(bench, trial, 3).unwrap();
    resident.check().unwrap_or_else(|failure| panic!("{}: {failure}", case.name));
    let (mut micros, mut shares) = (vec![], vec![]);
    for _ in 0..size.rounds {
        let millis = resident.time(size.times).unwrap();
        micros.push(millis * 1e3);
        shares.push(rate(case.bytes(size), millis) / inside(bench, size));
    }
    let aim = Some(Aim::AtLeast(0.85));
    table.row("kernels", &case.name, median(micros), "us", Some(median(shares)), aim);
}

fn pipelined(bench: &Bench, size: &Size, case: &Case, trial: &CheckBatch, table: &mut Table) {
    let (mut each, mut over) = (vec![], vec![]);
    for _ in 0..size.rounds {
        let (millis, stats) = bench.pipelined(trial, size.batches).unwrap();
        let bytes = (stats.bytes_copied / stats.batches) as usize;
        let alone = bench.upload(HostPages::Registered, bytes, size.times).unwrap();
        assert_eq!(stats.pageable_copies, 0, "the system locks no pages: see `ulimit -l`");
        each.push(millis);
        over.push(millis / alone);
    }
    let aim = Some(Aim::AtMost(1.1));
    table.row("pipelined", &case.name, median(each), "ms", Some(median(over)), aim);
}

fn code(bench: &Bench, size: &Size, table: &mut Table) {
    let case = cases::all(size).remove(0);
    let loads = bench.loads(&case.trial(&SMALL)).unwrap();
    let rows = [
        ("compiled by NVRTC", loads.compile),
        ("what it made, loaded", loads.compiled),
        ("what is shipped, loaded", loads.shipped),
    ];
    for (name, millis) in rows {
        if let Some(millis) = millis {
            let name = format!("{}: {name}", case.name);
            table.row("code", &name, millis, "ms", None, None);
        }
    }
}
