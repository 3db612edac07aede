//! Interleaved streams whose reads are slow: threads that read ahead hide the latency.
//!
//! Reading an item sleeps 50 ms, like remote storage; 16 streams, 1 to 16 threads. Nothing is
//! computed, so the aim follows from the sleeps:
//!
//! ```text
//! items/s = threads / 50 ms            reached: from the first item to the last
//! ```
//!
//! The yardstick is a plain loop that sleeps as long and does nothing else, multiplied by the
//! number of threads: on a busy machine a sleep takes longer than requested.
//!
//! ```text
//! cargo bench --bench interleave              all
//! cargo bench --bench interleave -- --test    a few items of each, unmeasured
//! ```

#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

use fuseloop::Epoch;
use fuseloop::source::stream::{Interleave, Pass, Stream};
use fuseloop::source::{Facts, FieldKind, InMemory, OwnedValue};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

const READ: Duration = Duration::from_millis(50);
const STREAMS: u64 = 16;

/// The percentage of the aim that must be reached.
const WANTED: f64 = 95.0;

fn main() {
    let once = std::env::args().any(|word| word == "--test" || word == "nothing");
    let rounds = if once { 1 } else { 10 };
    let heads = ["threads", "aim/s", "reached/s", "loop/s", "of aim", "of loop"];
    println!("{:>9} {}", "how", heads.map(|head| format!("{head:>9}")).join(" "));
    for threads in [1, 2, 4, 8, 16] {
        let items = threads as u64 * rounds;
        for (how, deterministic) in [("in order", true), ("as ready", false)] {
            report(how, threads, items, rate(threads, items, deterministic));
        }
    }
}

/// Returns items per second, counted from the first item on.
fn rate(reads: usize, items: u64, deterministic: bool) -> f64 {
    let far = || {
        InMemory::from_fn(Facts::new([("label", FieldKind::Int)], items), |sample| {
            thread::sleep(READ);
            Ok(vec![OwnedValue::Int(sample.0 as i64)])
        })
    };
    let of = |_| Stream::of(Arc::new(far()));
    let how = Interleave {
        cycle_length: STREAMS as usize,
        block_length: 1,
        reads,
        deterministic,
        shuffle: false,
    };
    let stream = Stream::interleave((0..STREAMS).map(of), how).unwrap();
    let mut pass = stream.open(&Pass { seed: 0, epoch: Epoch(0), turn: 0 }).unwrap();
    pass.next().unwrap().unwrap();
    let begun = Instant::now();
    (0..items).for_each(|_| drop(pass.next().unwrap().unwrap()));
    items as f64 / begun.elapsed().as_secs_f64()
}

fn report(how: &str, threads: usize, items: u64, reached: f64) {
    let aim = threads as f64 / READ.as_secs_f64();
    let begun = Instant::now();
    let naps = items / threads as u64;
    (0..naps).for_each(|_| thread::sleep(READ));
    let bare = (naps * threads as u64) as f64 / begun.elapsed().as_secs_f64();
    let [of_aim, of_bare] = [aim, bare].map(|whole| reached / whole * 100.0);
    let verdict = if of_aim >= WANTED { "" } else { "  aim: 95 %" };
    println!(
        "{how:>9} {threads:>9} {aim:>9.1} {reached:>9.1} {bare:>9.1} {of_aim:>7.1} % \
         {of_bare:>7.1} %{verdict}"
    );
}
