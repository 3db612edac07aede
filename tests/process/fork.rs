//! A process that is forked while a loader is alive: `fork` copies its memory, but none of its threads.
//!
//! In the child, whatever would wait for such a thread returns an error at once, dropping any object
//! returns at once, and a dataset opened there is read as anywhere else. Other threads may hold locks
//! when the process is forked, so each promise is tested at several moments of an epoch, several times
//! each: `FUSELOOP_FORKS` is the number of times, 4 by default.
#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "fork, and the exit and the wait that go with it")]

use crate::common::dataset;
#[cfg(feature = "remote")]
use crate::common::server;
use crate::passed_alone;
use fuseloop::internals::source::beton::PagedBeton;
use fuseloop::internals::workload::imagenet;
use fuseloop::source::OpenOptions;
use fuseloop::source::stream::Interleave;
use fuseloop::source::{
    Beton, BoxError, Buffer, FieldKind, FieldSpec, Generator, OwnedValue, ProcessCache, RunPlan,
    Source, Stream, Tar, TarOptions, Upcoming, Value,
};
use fuseloop::write::{WriteMode, WriteOptions, convert};
use fuseloop::{Loader, LoaderBuilder, SampleId};
use fuseloop_counts::rounds;
use std::io::Write as _;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// A child that takes longer than this is hung: it has milliseconds of work.
const LONGEST: Duration = Duration::from_secs(20);

/// Runs `child` in a forked process.
///
/// # Panics
///
/// If `child` panics in the forked process, or does not end.
fn in_a_child(child: impl FnOnce()) {
    // SAFETY: the child runs on this thread alone. It allocates, which glibc allows after a fork, and
    // takes no lock of the test harness: its messages go to file descriptor 2.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "no process can be forked");
    if pid == 0 {
        std::panic::set_hook(Box::new(|info| {
            let _ = std::fs::File::options()
                .append(true)
                .open("/proc/self/fd/2")
                .and_then(|mut stderr| writeln!(stderr, "in the child: {info}"));
        }));
        let code = i32::from(catch_unwind(AssertUnwindSafe(child)).is_err());
        // SAFETY: ends the process at once, as it must, because its `main` belongs to the harness.
        unsafe { libc::_exit(code) };
    }
    let (begun, mut status) = (Instant::now(), 0);
    loop {
        // SAFETY: `status` is valid for writing, and `pid` is a child of ours that nothing else waits for.
        match unsafe { libc::waitpid(pid, &raw mut status, libc::WNOHANG) } {
            0 if begun.elapsed() < LONGEST => thread::sleep(Duration::from_millis(1)),
            0 => {
                // SAFETY: `pid` is a child of ours that has not been waited for, so its number is not reused.
                unsafe { libc::kill(pid, libc::SIGKILL) };
                // SAFETY: as above; the child is killed, so this call returns.
                unsafe { libc::waitpid(pid, &raw mut status, 0) };
                panic!("the child hangs");
            }
            _ => break,
        }
    }
    let is_fine = libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0;
    assert!(is_fine, "the child ended with status {status:#x}");
}

/// The number of times each moment is tested.
fn forks() -> usize {
    rounds("FUSELOOP_FORKS")
}

#[track_caller]
fn assert_says_forked(error: &impl ToString) {
    let text = error.to_string();
    assert!(text.contains("forked") && text.contains("after the fork"), "{text}");
}

fn builder(path: &Path) -> LoaderBuilder {
    Loader::open(path).unwrap().batch_size(8).workers(3).pipeline("image", imagenet(32).unwrap())
}

/// The labels of an epoch.
fn labels(loader: &Loader) -> Vec<i64> {
    let batches = loader.epoch(0).unwrap().map(|batch| batch.unwrap());
    batches.flat_map(|batch| batch.tensor::<i64>("label").unwrap().as_slice().to_vec()).collect()
}

/// Forks at several moments of an epoch. The child gets an error, its iterator ends at once, and it may
/// drop things in any order; the parent continues to read as if nothing had happened.
fn assert_epochs_end_in_children(loader: &Loader) {
    let want = labels(loader);
    for taken in [0, 1, 3, 6] {
        for round in 0..forks() {
            let mut batches = loader.epoch(0).unwrap();
            let mut got: Vec<_> = batches.by_ref().take(taken).map(Result::unwrap).collect();
            let mut batches = Some(batches);
            in_a_child(|| {
                let mut held = std::mem::take(&mut got);
                if round.is_multiple_of(2) {
                    let batches = batches.as_mut().unwrap();
                    assert_says_forked(&batches.next().unwrap().unwrap_err());
                    assert!(batches.next().is_none(), "it goes on after an error");
                    assert_says_forked(&loader.epoch(1).err().unwrap());
                    let _ = (loader.utilization(), loader.stats().to_string(), loader.take_trace());
                }
                assert!(held.iter().all(|batch| batch.len() == 8));
                held.truncate(1);
                drop(batches.take());
                drop(held);
            });
            got.extend(batches.take().unwrap().map(Result::unwrap));
            let labels =
                got.iter().flat_map(|batch| batch.tensor::<i64>("label").unwrap().as_slice());
            assert!(labels.eq(&want), "the parent after {taken} batches");
        }
    }
}

/// Asserts that a loader can be dropped in the child.
fn assert_is_dropped_in_children(make: impl Fn() -> Loader) {
    for taken in [0, 2] {
        for _ in 0..forks() {
            let mut loader = Some(make());
            let mut batches = Some(loader.as_ref().unwrap().epoch(0).unwrap());
            let held: Vec<_> = batches.as_mut().unwrap().take(taken).collect();
            in_a_child(|| {
                if taken == 0 {
                    drop(batches.take());
                    drop(loader.take());
                } else {
                    drop(loader.take());
                    drop(batches.take());
                }
            });
            drop((held, batches, loader));
        }
    }
}

#[test]
fn a_loader_is_an_error_in_a_child_and_dropped_at_once() {
    if passed_alone("fork::a_loader_is_an_error_in_a_child_and_dropped_at_once") {
        return;
    }
    let (_dir, path) = dataset::write(64, WriteMode::Jpg, dataset::varied);
    assert_epochs_end_in_children(&builder(&path).build().unwrap());
    assert_is_dropped_in_children(|| builder(&path).build().unwrap());
}

#[test]
fn a_loader_with_a_process_cache_is_an_error_in_a_child() {
    if passed_alone("fork::a_loader_with_a_process_cache_is_an_error_in_a_child") {
        return;
    }
    let (_dir, path) = dataset::write(64, WriteMode::Jpg, dataset::varied);
    let paged = || builder(&path).process_cache(ProcessCache::default()).build().unwrap();
    assert_epochs_end_in_children(&paged());
    assert_is_dropped_in_children(paged);
}

fn numbers(producers: usize) -> impl Source {
    let fields = vec![FieldSpec { name: "label".to_owned(), kind: FieldKind::Int }];
    let made = |_, sample: u64| {
        thread::sleep(Duration::from_micros(sample % 5 * 50));
        Ok::<_, BoxError>(vec![OwnedValue::Int(sample as i64)])
    };
    Generator::new(producers, 4).source(fields, 64, made).unwrap()
}

#[test]
fn a_loader_of_a_generator_is_an_error_in_a_child() {
    if passed_alone("fork::a_loader_of_a_generator_is_an_error_in_a_child") {
        return;
    }
    let make = || Loader::from_source(numbers(2)).batch_size(8).workers(2).build().unwrap();
    assert_epochs_end_in_children(&make());
    assert_is_dropped_in_children(make);
}

/// Two streams of numbers.
fn streams() -> [Stream; 2] {
    [2, 1].map(|producers| Stream::of(Arc::new(numbers(producers))))
}

#[test]
fn a_loader_of_streams_that_read_ahead_is_an_error_in_a_child() {
    if passed_alone("fork::a_loader_of_streams_that_read_ahead_is_an_error_in_a_child") {
        return;
    }
    let how = Interleave { cycle_length: 2, reads: 2, ..Interleave::default() };
    let stream = || Stream::interleave(streams(), how).unwrap().prefetch(8);
    let make = || Loader::from_stream(stream()).batch_size(8).workers(2).build().unwrap();
    assert_epochs_end_in_children(&make());
    assert_is_dropped_in_children(make);
}

#[test]
fn a_stream_that_reads_ahead_is_an_error_in_a_child() {
    if passed_alone("fork::a_stream_that_reads_ahead_is_an_error_in_a_child") {
        return;
    }
    for _ in 0..forks() {
        let [stream, _] = streams();
        let mut stream = Some(stream.prefetch(4).counted(|_| ()).unwrap());
        let read = |stream: &dyn Source, sample| stream.read(SampleId(sample));
        assert!(read(stream.as_ref().unwrap(), 0).is_ok());
        in_a_child(|| {
            // Items that are already there may be yielded; items that would have to be waited for may not.
            let error = (1..64).find_map(|sample| read(stream.as_ref().unwrap(), sample).err());
            assert_says_forked(&error.unwrap());
            drop(stream.take());
        });
        assert!((1..64).all(|sample| read(stream.as_ref().unwrap(), sample).is_ok()));
    }
}

#[test]
fn a_queue_is_an_error_in_a_child() {
    if passed_alone("fork::a_queue_is_an_error_in_a_child") {
        return;
    }
    for round in 0..4 * forks() {
        let busy = |ticket| {
            thread::sleep(Duration::from_micros(ticket % 7 * 30));
            Ok::<_, BoxError>((ticket < 100).then_some(ticket))
        };
        let mut queue = Some(Generator::new(3, 4).start(busy).unwrap());
        let taken = queue.as_mut().unwrap().take(round % 16).count();
        in_a_child(|| {
            if round.is_multiple_of(2) {
                let queue = queue.as_mut().unwrap();
                assert_says_forked(&queue.next().unwrap().unwrap_err());
                assert!(queue.next().is_none());
                let _ = format!("{queue:?}");
            }
            drop(queue.take());
        });
        let rest = queue.take().unwrap().map(Result::unwrap);
        assert!(rest.eq(taken as u64..100), "the parent's queue");
    }
}

/// All samples, in order.
struct All(u64);

impl Upcoming for All {
    fn samples(&self) -> u64 {
        self.0
    }

    fn at(&self, positions: Range<u64>, samples: &mut Vec<SampleId>) {
        samples.extend(positions.map(SampleId));
    }
}

/// A run's view of a file needs no thread: its threads only read pages ahead.
#[test]
fn pages_are_read_directly_in_a_child() {
    if passed_alone("fork::pages_are_read_directly_in_a_child") {
        return;
    }
    let (_dir, path) = dataset::write(64, WriteMode::Jpg, dataset::varied);
    let beton = Arc::new(Beton::open(&path, &OpenOptions::default()).unwrap());
    let stored = |source: &dyn Source, sample| {
        let mut buffer = Buffer::default();
        match source.value(SampleId(sample), 0, &mut buffer).unwrap() {
            Value::Image(image) => image.bytes.to_vec(),
            other => panic!("{other:?}"),
        }
    };
    for round in 0..2 * forks() {
        let paged = Arc::new(PagedBeton::new(Arc::clone(&beton), ProcessCache::default()));
        let upcoming = Arc::new(All(64));
        let run = RunPlan {
            seed: 0,
            epoch: fuseloop::Epoch(0),
            upcoming,
            batch_size: 8,
            batches_ahead: 3,
            fields: vec![0],
        };
        let mut view = Source::begin(paged, &run).unwrap();
        // The pages have been read in even rounds, and are still being read in odd ones.
        let first = round.is_multiple_of(2).then(|| stored(&***view.as_ref().unwrap(), 0));
        in_a_child(|| {
            let view = view.take().unwrap();
            assert!((0..64).all(|k| stored(&**view, k) == stored(&*beton, k)));
            drop(view);
        });
        assert!(first.is_none_or(|first| first == stored(&*beton, 0)));
    }
}

#[test]
fn a_child_reads_what_it_opens_itself() {
    if passed_alone("fork::a_child_reads_what_it_opens_itself") {
        return;
    }
    let (dir, path) = dataset::write(64, WriteMode::Jpg, dataset::varied);
    // The parent first reads datasets that the library reads with several threads: a folder and shards.
    let (folder, shards) = (dir.path().join("folder"), dir.path().join("a-{0}.tar"));
    let beton = Beton::open(&path, &OpenOptions::default()).unwrap();
    convert(&beton, &folder, &WriteOptions::default()).unwrap();
    let four = WriteOptions { shards: Some(4), ..WriteOptions::default() };
    convert(&beton, &shards, &four).unwrap();
    let shards = dir.path().join("a-{0..3}.tar");
    let all = || {
        let of = |path: &Path| labels(&builder(path).build().unwrap());
        (
            of(&path),
            of(&folder),
            Tar::open(shards.to_str().unwrap(), &TarOptions::default()).unwrap().facts().samples,
        )
    };
    let want = all();
    let loader = builder(&path).build().unwrap();
    let mut batches = loader.epoch(0).unwrap();
    assert!(batches.next().unwrap().is_ok());
    for _ in 0..forks() {
        in_a_child(|| assert_eq!(all(), want));
    }
}

#[cfg(feature = "remote")]
#[test]
fn an_object_at_an_address_is_an_error_in_a_child() {
    if passed_alone("fork::an_object_at_an_address_is_an_error_in_a_child") {
        return;
    }
    use fuseloop::source::{OpenOptions, ReadAt as _, remote};
    let (_dir, path) = dataset::write(64, WriteMode::Jpg, dataset::varied);
    let server = server::Server::start();
    let url = server.put("/a.beton", std::fs::read(&path).unwrap());
    for round in (0..4).cycle().take(forks()) {
        let mut object = Some(remote::object(&url).unwrap());
        let beton = Beton::from_reader(remote::object(&url).unwrap(), &OpenOptions::default());
        let loader = Loader::from_source(beton.unwrap())
            .batch_size(8)
            .workers(2)
            .pipeline("image", imagenet(32).unwrap())
            .build()
            .unwrap();
        let mut loader = Some(loader);
        let mut batches = Some(loader.as_ref().unwrap().epoch(0).unwrap());
        let held: Vec<_> = batches.as_mut().unwrap().take(round).collect();
        in_a_child(|| {
            let read = |at| object.as_ref().unwrap().read_at(&mut [0; 16], at);
            assert_says_forked(&read(2000 * round as u64).unwrap_err());
            assert_says_forked(&remote::object(&url).err().unwrap());
            assert_says_forked(&batches.as_mut().unwrap().next().unwrap().unwrap_err());
            drop((object.take(), batches.take(), loader.take()));
        });
        let rest = batches.take().unwrap();
        assert!(
            held.into_iter().chain(rest).map(|batch| batch.unwrap().len()).sum::<usize>() == 64
        );
    }
}
