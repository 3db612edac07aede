//! Producers and one consumer, with the figures of a parallel loader in tutorials divided by
//! twenty.
//!
//! Producing an item sleeps 50 ms (there 1 s), consuming one 10 ms (there 0.2 s); 60 items; 1, 10
//! and 30 threads. Nothing is computed, so the aim follows from the sleeps:
//!
//! ```text
//! items/s = min(threads / 50 ms, 1 / 10 ms)        reached: the 60 items, from the first to the last
//! ```
//!
//! The first items arrive after 50 ms at the earliest, which is start-up time and not part of the
//! rate: the clock starts at the first item, and counts the items after it.
//!
//! The yardstick is a plain loop that sleeps as long and does nothing else: on a busy machine a
//! sleep takes longer than requested, and no queue can make up for that.
//!
//! ```text
//! cargo bench --bench producers              all
//! cargo bench --bench producers -- --test    a few items of each, unmeasured
//! ```

#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

#[path = "common/figures.rs"]
mod figures;

use figures::record;
use fuseloop::Loader;
use fuseloop::source::{BoxError, FieldKind, FieldSpec, Generator, OwnedValue};
use std::thread;
use std::time::{Duration, Instant};

const PRODUCE: Duration = Duration::from_millis(50);
const CONSUME: Duration = Duration::from_millis(10);
const ITEMS: u64 = 60;
const CAPACITY: usize = 8;

/// The percentage of the aim that must be reached.
const WANTED: f64 = 95.0;

fn main() {
    let once = std::env::args().any(|word| word == "--test" || word == "nothing");
    let items = if once { 3 } else { ITEMS };
    let heads = ["threads", "aim/s", "reached/s", "loop/s", "of aim", "of loop"];
    println!("{:>9} {}", "how", heads.map(|head| format!("{head:>9}")).join(" "));
    for threads in [1, 10, 30] {
        let generator = Generator::new(threads, CAPACITY);
        report("in order", threads, items, queue(generator.clone(), items));
        report("unordered", threads, items, queue(generator.clone().unordered(), items));
        report("loader", threads, items, loader(generator, items));
    }
}

fn report(how: &str, threads: usize, items: u64, reached: f64) {
    let produced = threads as f64 / PRODUCE.as_secs_f64();
    let consumed = 1.0 / CONSUME.as_secs_f64();
    let (aim, nap) = if produced < consumed { (produced, PRODUCE) } else { (consumed, CONSUME) };
    let bare = naps(nap, items);
    let [of_aim, of_bare] = [aim, bare].map(|whole| reached / whole * 100.0);
    record(&format!("{threads} threads, {how}"), "of the most that is possible", of_aim, "%");
    let verdict = if of_aim >= WANTED { "" } else { "  aim: 95 %" };
    println!(
        "{how:>9} {threads:>9} {aim:>9.1} {reached:>9.1} {bare:>9.1} {of_aim:>7.1} % \
         {of_bare:>7.1} %{verdict}"
    );
}

/// Returns the sleeps per second of a loop that does nothing else.
fn naps(nap: Duration, count: u64) -> f64 {
    let begun = Instant::now();
    (0..count).for_each(|_| thread::sleep(nap));
    count as f64 / begun.elapsed().as_secs_f64()
}

/// Returns items per second, counted from the first item on.
fn queue(generator: Generator, items: u64) -> f64 {
    let queue = generator.start(move |ticket| {
        if ticket >= items {
            return Ok(None);
        }
        thread::sleep(PRODUCE);
        Ok::<_, BoxError>(Some(vec![ticket as u8; 1 << 12]))
    });
    rate(queue.unwrap().map(Result::unwrap))
}

/// Measures the same through a loader, in batches of one.
fn loader(generator: Generator, items: u64) -> f64 {
    let fields = vec![FieldSpec { name: "int".into(), kind: FieldKind::Int }];
    let made = |_, sample: u64| {
        thread::sleep(PRODUCE);
        Ok::<_, BoxError>(vec![OwnedValue::Int(sample as i64)])
    };
    let source = generator.source(fields, items, made).unwrap();
    let loader = Loader::from_source(source).batch_size(1).workers(2).build().unwrap();
    rate(loader.epoch(0).unwrap().map(Result::unwrap))
}

/// Takes all items, and sleeps for one training step after each.
fn rate<T>(mut items: impl Iterator<Item = T>) -> f64 {
    drop(items.next());
    let begun = Instant::now();
    let mut count = 0;
    for item in items {
        thread::sleep(CONSUME);
        drop(item);
        count += 1;
    }
    f64::from(count) / begun.elapsed().as_secs_f64()
}
