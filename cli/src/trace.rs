//! Writes a trace of one epoch as a file for ui.perfetto.dev and chrome://tracing: Google's Trace Event
//! Format, a JSON object whose `traceEvents` are
//!
//! | `ph` | event                             | track (`tid`)                                      |
//! |------|-----------------------------------|----------------------------------------------------|
//! | `M`  | names of the process and its tracks |                                                  |
//! | `X`  | a span: `ts` and `dur` in µs      | 0 the epoch, 1 the consumer, from 2 on the workers |
//! | `s`  | a batch begins: an arrow's start  | the worker that opened it                          |
//! | `f`  | a batch is delivered: an arrow's end | the consumer                                       |
//!
//! Times count from the beginning of the epoch. Spans of a track do not overlap. The file is written
//! while the epoch runs, after each batch, so that only the disk limits its length, and it gets its name
//! when it is complete. The consumer has a separate span for writing.

use super::output::{self, Existing};
use super::problem::Problem;
use fuseloop::Loader;
use fuseloop::internals::run::{Trace, TraceEvent};
use fuseloop::loader::Phase;
use serde_json::{Value, json};
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

/// The number of spans of a thread that can be recorded between two batches.
const CAPACITY: usize = 1 << 17;

const EPOCH: usize = 0;
const CONSUMER: usize = 1;
const FIRST_WORKER: usize = 2;

/// The counts of a written trace.
pub(super) struct Traced {
    pub(super) spans: u64,
    /// The number of spans lost because a buffer was full.
    pub(super) lost: u64,
    pub(super) took: Duration,
}

/// Runs at most `batches` batches of an epoch and writes what every thread did to `path`.
pub(super) fn write(
    loader: &Loader,
    epoch: u32,
    batches: u64,
    path: &Path,
) -> Result<Traced, Problem> {
    let run = Run { loader, path };
    output::write(path, Existing::Replace, |out| {
        loader.trace(CAPACITY);
        let traced = run.epoch(epoch, batches, out);
        loader.trace(0);
        traced
    })
}

struct Run<'a> {
    loader: &'a Loader,
    path: &'a Path,
}

impl Run<'_> {
    fn epoch(&self, epoch: u32, batches: u64, out: impl Write) -> Result<Traced, Problem> {
        let begin = self.loader.clock();
        let mut file = TraceFile { out, begin, spans: 0, lost: 0, is_first: true };
        file.head(self.loader.utilization().workers.len()).map_err(self.io())?;
        let mut run = self.loader.epoch(epoch)?;
        let mut last = self.loader.clock();
        for number in 0..batches {
            let asked = self.loader.clock();
            let Some(batch) = run.next() else { break };
            let (batch, came) = (batch?, self.loader.clock());
            let args = json!({ "batch": batch.index(), "samples": batch.len() });
            // A real program would use the batch here.
            drop(batch);
            let done = self.loader.clock();
            let spans = [
                (if number == 0 { "begin" } else { "write this trace" }, last..asked, json!({})),
                (Phase::Consumer.name(), asked..came, args.clone()),
                ("have a batch", came..done, args.clone()),
            ];
            for (name, time, args) in spans {
                file.span(name, CONSUMER, time, &args).map_err(self.io())?;
            }
            file.arrives(&args["batch"], came).map_err(self.io())?;
            file.workers(&self.loader.take_trace(), Duration::MAX).map_err(self.io())?;
            last = done;
        }
        drop(run);
        let end = self.loader.clock();
        file.workers(&self.loader.take_trace(), end).map_err(self.io())?;
        file.span("end", CONSUMER, last..end, &json!({})).map_err(self.io())?;
        file.span("epoch", EPOCH, begin..end, &json!({ "epoch": epoch })).map_err(self.io())?;
        file.end().map_err(self.io())?;
        Ok(Traced { spans: file.spans, lost: file.lost, took: end.saturating_sub(begin) })
    }

    fn io(&self) -> impl FnOnce(io::Error) -> Problem {
        Problem::io(self.path)
    }
}

/// The trace file, written from beginning to end.
struct TraceFile<W> {
    out: W,
    /// The time at which the epoch began: time 0 of the file.
    begin: Duration,
    spans: u64,
    lost: u64,
    is_first: bool,
}

impl<W: Write> TraceFile<W> {
    fn head(&mut self, workers: usize) -> io::Result<()> {
        write!(self.out, "{{\"displayTimeUnit\": \"ms\", \"traceEvents\": [")?;
        self.name("process_name", EPOCH, "fuseloop")?;
        self.name("thread_name", EPOCH, "epoch")?;
        self.name("thread_name", CONSUMER, "consumer")?;
        (0..workers)
            .try_for_each(|k| self.name("thread_name", FIRST_WORKER + k, &format!("worker {k}")))
    }

    fn name(&mut self, what: &str, track: usize, name: &str) -> io::Result<()> {
        self.put(
            &json!({ "ph": "M", "name": what, "pid": 1, "tid": track, "args": { "name": name } }),
        )?;
        let sort = json!({ "sort_index": track });
        let sorts =
            json!({ "ph": "M", "name": "thread_sort_index", "pid": 1, "tid": track, "args": sort });
        if what == "thread_name" { self.put(&sorts) } else { Ok(()) }
    }

    /// Writes a span, clipped to the epoch; writes nothing if nothing is left.
    fn span(
        &mut self,
        name: &str,
        track: usize,
        time: std::ops::Range<Duration>,
        args: &Value,
    ) -> io::Result<()> {
        let start = time.start.max(self.begin);
        if time.end <= start {
            return Ok(());
        }
        self.spans += 1;
        let (ts, dur) = (self.micros(start), micros(time.end - start));
        self.put(&json!({
            "ph": "X", "name": name, "pid": 1, "tid": track, "ts": ts, "dur": dur, "args": args,
        }))
    }

    /// Writes the workers' spans, clipped at `end`.
    fn workers(&mut self, trace: &Trace, end: Duration) -> io::Result<()> {
        self.lost += trace.lost;
        for (worker, events) in trace.workers.iter().enumerate() {
            for event in events {
                self.event(event, FIRST_WORKER + worker, end)?;
            }
        }
        Ok(())
    }

    fn event(&mut self, event: &TraceEvent, track: usize, end: Duration) -> io::Result<()> {
        let TraceEvent { phase, start, batch, sample, .. } = event;
        let mut args = serde_json::Map::new();
        args.extend(batch.map(|batch| ("batch".to_owned(), json!(batch))));
        args.extend(sample.map(|sample| ("sample".to_owned(), json!(sample.0))));
        self.span(phase.name(), track, *start..event.end.min(end), &args.into())?;
        if let (Phase::Open, Some(batch)) = (phase, batch)
            && *start >= self.begin
        {
            let ts = self.micros(*start);
            return self.put(&json!({
                "ph": "s", "name": "batch", "cat": "batch", "id": batch, "pid": 1, "tid": track, "ts": ts,
            }));
        }
        Ok(())
    }

    /// Writes the end of a batch's arrow.
    fn arrives(&mut self, batch: &Value, at: Duration) -> io::Result<()> {
        let ts = self.micros(at);
        self.put(&json!({
            "ph": "f", "bp": "e", "name": "batch", "cat": "batch", "id": batch, "pid": 1,
            "tid": CONSUMER, "ts": ts,
        }))
    }

    fn put(&mut self, event: &Value) -> io::Result<()> {
        let comma = if std::mem::take(&mut self.is_first) { "\n" } else { ",\n" };
        write!(self.out, "{comma}{event}")
    }

    fn end(&mut self) -> io::Result<()> {
        write!(self.out, "\n], \"otherData\": {{\"lost spans\": {}}}}}\n", self.lost)?;
        self.out.flush()
    }

    fn micros(&self, time: Duration) -> f64 {
        micros(time.saturating_sub(self.begin))
    }
}

/// Returns the time in microseconds with nanosecond precision, so that the end of a span is the start of
/// the next.
fn micros(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e3
}
