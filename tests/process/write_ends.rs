//! The end of a write that can't succeed: it ends with an error or the iterator's own panic within a
//! second, and with no thread left, however slow samples are and however many are still to come.

use crate::passed_alone;
use fuseloop::sample::SampleId;
use fuseloop::source::{FieldKind, FieldSpec};
use fuseloop::write::{
    FieldValue, ImageOptions, Samples, WriteMode, WriteOptions, WriteReport, try_write_iter, write,
    write_iter,
};
use std::fs;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Mutex;
use std::thread::sleep;
use std::time::{Duration, Instant};

type Row = Vec<FieldValue>;
type Error = Box<dyn std::error::Error + Send + Sync>;

fn fields() -> [FieldSpec; 2] {
    let field = |name: &str, kind| FieldSpec { name: name.to_owned(), kind };
    [field("i", FieldKind::Int), field("b", FieldKind::Bytes)]
}

fn row(sample: u64) -> Row {
    vec![FieldValue::Int(sample as i64), FieldValue::Bytes(vec![1; 100])]
}

fn options(threads: usize) -> WriteOptions {
    let threads = NonZeroUsize::new(threads);
    WriteOptions { page_size: Some(4096), threads, overwrite: true, ..WriteOptions::default() }
}

/// The number of the writer's threads that are alive.
fn threads() -> usize {
    let Ok(tasks) = fs::read_dir("/proc/self/task") else { return 0 };
    // The name of a thread that has just ended can't be read.
    let name = |task: fs::DirEntry| fs::read_to_string(task.path().join("comm")).ok();
    tasks.flatten().filter_map(name).filter(|name| name.starts_with("fuseloop-write")).count()
}

/// Waits until no thread is left: a thread that has finished stays listed for a moment.
fn assert_no_threads_left() {
    let start = Instant::now();
    while threads() > 0 {
        assert!(start.elapsed() < Duration::from_secs(5), "{} threads left", threads());
        sleep(Duration::from_millis(1));
    }
}

/// Asserts that `act` ends within a second of the failure recorded in `failed_at`, and leaves no file.
fn assert_ends<T>(failed_at: &Mutex<Option<Instant>>, act: impl FnOnce(&Path) -> T) -> T {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.beton");
    fs::write(&path, "old").unwrap();
    let outcome = act(&path);
    let late = failed_at.lock().unwrap().unwrap().elapsed();
    assert!(late < Duration::from_secs(1), "{late:?} late");
    assert_no_threads_left();
    assert_eq!(fs::read(&path).unwrap(), b"old");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "a leftover");
    outcome
}

/// An endless sequence of samples, one of which fails in a given way.
struct Failing<F> {
    at: u64,
    how: F,
    failed_at: Mutex<Option<Instant>>,
}

impl<F: Fn(u64) -> Result<Row, Error>> Failing<F> {
    fn new(at: u64, how: F) -> Self {
        Self { at, how, failed_at: Mutex::new(None) }
    }

    fn row(&self, sample: u64) -> Result<Row, Error> {
        if sample != self.at {
            return Ok(row(sample));
        }
        self.failed_at.lock().unwrap().get_or_insert_with(Instant::now);
        (self.how)(sample)
    }
}

impl<F: Fn(u64) -> Result<Row, Error> + Sync> Samples for Failing<F> {
    fn count(&self) -> u64 {
        1 << 30
    }

    fn sample(&self, id: SampleId) -> Result<Row, Error> {
        self.row(id.0)
    }
}

fn message(outcome: fuseloop::Result<WriteReport>) -> String {
    outcome.unwrap_err().to_string()
}

/// Positions in the first group, at its edges, and far behind it.
const PLACES: [u64; 7] = [0, 1, 63, 64, 127, 1000, 20_000];

const THREADS: [usize; 3] = [1, 2, 8];

#[test]
fn a_failing_sample_ends_the_write() {
    if passed_alone("write_ends::a_failing_sample_ends_the_write") {
        return;
    }
    for (at, threads) in PLACES.iter().flat_map(|at| THREADS.map(|threads| (*at, threads))) {
        let panicking = Failing::new(at, |n| panic!("no sample {n}"));
        let found = assert_ends(&panicking.failed_at, |path| {
            message(write(&panicking, &fields(), path, &options(threads)))
        });
        assert_eq!(found, format!("sample {at}: panicked: no sample {at}"));

        // The sample itself is wrong: encoding fails.
        let short = Failing::new(at, |_| Ok(vec![FieldValue::Int(1)]));
        let found = assert_ends(&short.failed_at, |path| {
            message(write(&short, &fields(), path, &options(threads)))
        });
        assert_eq!(found, format!("sample {at}: 1 values for 2 fields"));

        let gone = Failing::new(at, |_| Err("gone".into()));
        let found = assert_ends(&gone.failed_at, |path| {
            let rows = (0..).map(|sample| gone.row(sample));
            message(try_write_iter(rows, &fields(), path, &options(threads)))
        });
        assert_eq!(found, format!("sample {at}: gone"));
    }
}

/// The panic is the caller's own, on the caller's thread: it propagates.
#[test]
fn a_panicking_iterator_ends_the_write() {
    if passed_alone("write_ends::a_panicking_iterator_ends_the_write") {
        return;
    }
    for (at, threads) in PLACES.iter().flat_map(|at| THREADS.map(|threads| (*at, threads))) {
        let failing = Failing::new(at, |n| panic!("no sample {n}"));
        let panic = assert_ends(&failing.failed_at, |path| {
            let rows = (0..).map(|sample| failing.row(sample).unwrap());
            let write = || write_iter(rows, &fields(), path, &options(threads));
            catch_unwind(AssertUnwindSafe(write)).unwrap_err()
        });
        assert_eq!(panic.downcast_ref::<String>(), Some(&format!("no sample {at}")));
    }
}

/// Samples that were handed out but not started when the iterator panics are not encoded.
#[test]
fn a_panicking_iterator_does_not_wait_for_slow_samples() {
    if passed_alone("write_ends::a_panicking_iterator_does_not_wait_for_slow_samples") {
        return;
    }
    for threads in THREADS {
        let failed_at = Mutex::new(None);
        let pixels = vec![127; 3 * 1500 * 1500];
        let image = fuseloop::write::ImageInput::Rgb { pixels, width: 1500, height: 1500 };
        let field = FieldSpec { name: "x".to_owned(), kind: FieldKind::RgbImage };
        assert_ends(&failed_at, |path| {
            let rows = (0..40).map(|sample| {
                if sample == 30 {
                    *failed_at.lock().unwrap() = Some(Instant::now());
                    panic!("on purpose");
                }
                vec![FieldValue::Image(image.clone())]
            });
            let image = ImageOptions { write_mode: WriteMode::Jpg, ..ImageOptions::default() };
            let options = WriteOptions { page_size: Some(1 << 23), image, ..options(threads) };
            let write = || write_iter(rows, &[field], path, &options);
            catch_unwind(AssertUnwindSafe(write)).unwrap_err()
        });
    }
}

/// One sample per 20 ms: a group of 64 would take longer than a second to fill.
#[test]
fn a_failing_sample_of_a_slow_iterator_ends_the_write() {
    if passed_alone("write_ends::a_failing_sample_of_a_slow_iterator_ends_the_write") {
        return;
    }
    for (at, threads) in [(0, 1), (0, 8), (3, 2), (20, 8)] {
        let failing = Failing::new(at, |_| Ok(vec![]));
        let found = assert_ends(&failing.failed_at, |path| {
            let rows = (0..).map(|sample| {
                sleep(Duration::from_millis(20));
                failing.row(sample).unwrap()
            });
            message(write_iter(rows, &fields(), path, &options(threads)))
        });
        assert_eq!(found, format!("sample {at}: 0 values for 2 fields"));
    }
}

#[test]
fn as_many_threads_as_the_limit_may_be_asked_for_and_no_more() {
    if passed_alone("write_ends::as_many_threads_as_the_limit_may_be_asked_for_and_no_more") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.beton");
    let write = |threads| write_iter((0..10).map(row), &fields(), &path, &options(threads));
    assert_eq!(write(1024).unwrap().samples, 10);
    let message = write(usize::MAX).unwrap_err().to_string();
    assert!(message.contains("the limit is 1024"), "{message}");
    assert_no_threads_left();
}
