//! Three queues, for training, validation and testing: threads that produce samples, one loop that
//! consumes them, and a report of which side waits for the other.
//!
//! The figures are those of a parallel loader in tutorials, divided by twenty: producing a sample
//! takes 50 ms (there 1 s), a step 10 ms (there 0.2 s), with 1, 10 and 30 threads.
//!
//! ```text
//! cargo run --release --example generator
//! ```

use fuseloop::Result;
use fuseloop::source::{BoxError, Generator, Queue};
use std::thread;
use std::time::{Duration, Instant};

const PRODUCE: Duration = Duration::from_millis(50);
const CONSUME: Duration = Duration::from_millis(10);

/// A sample that takes time to produce, such as one from a simulation or from remote storage.
struct Sample {
    number: u64,
    pixels: Vec<u8>,
}

/// Starts a queue that yields samples `0..count`.
fn queue(name: &str, threads: usize, count: u64) -> Result<Queue<Sample>> {
    Generator::new(threads, 8).name(name).start(move |number| {
        if number == count {
            return Ok(None); // the end
        }
        thread::sleep(PRODUCE);
        Ok::<_, BoxError>(Some(Sample { number, pixels: vec![(number % 256) as u8; 64 * 64] }))
    })
}

/// Takes `steps` samples, as a model would.
fn steps(queue: &mut Queue<Sample>, steps: usize) -> Result<()> {
    let begun = Instant::now();
    let (mut taken, mut bytes) = (0, 0);
    let mut last = 0;
    for sample in queue.by_ref().take(steps) {
        let sample = sample?;
        thread::sleep(CONSUME);
        (taken, bytes, last) = (taken + 1, bytes + sample.pixels.len(), sample.number);
    }
    let rate = f64::from(taken) / begun.elapsed().as_secs_f64();
    println!(
        "{:>10}: {taken} samples up to {last}, {bytes} bytes, {rate:.0} a second",
        queue.name()
    );
    Ok(())
}

fn main() -> Result<()> {
    for threads in [1, 10, 30] {
        println!("{threads} threads");
        let mut train = queue("train", threads, 60)?;
        let mut validation = queue("validation", 2, 8)?;
        let mut test = queue("test", 1, 4)?;
        // Each queue has threads of its own: while one is consumed, the others fill up.
        for _ in 0..2 {
            steps(&mut train, 30)?;
            steps(&mut validation, 4)?;
        }
        steps(&mut test, 100)?;
        for queue in [&train, &validation, &test] {
            println!("{:>10}: bottleneck: {}", queue.name(), queue.stats().bottleneck());
        }
    }
    Ok(())
}
