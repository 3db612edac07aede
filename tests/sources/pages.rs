//! The process cache's promises: it returns the values of plain reads, for any schedule, number of
//! threads, budget and disk; it stays within the memory budget; it reads each page once if there is
//! room; it leaves no thread behind, and no reader waits for ever.

use crate::common::paged::{Disk, Faults, Pages, Rng, run_over};
use fuseloop::SampleId;
use fuseloop::internals::source::beton::PageStats;
use fuseloop::internals::source::beton::PagedBeton;
use fuseloop::source::{
    Beton, Buffer, OpenOptions, OwnedValue, ProcessCache, Run, RunPlan, Source,
};
use fuseloop_counts::rounds;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

fn open(disk: &Disk) -> Beton {
    Beton::from_reader(disk.clone(), &OpenOptions::default()).unwrap()
}

fn paged(disk: &Disk, budget_bytes: u64, io_threads: usize) -> Arc<PagedBeton> {
    let io_threads = NonZeroUsize::new(io_threads).unwrap();
    Arc::new(PagedBeton::new(open(disk), ProcessCache { budget_bytes, io_threads }))
}

fn begin(source: &Arc<PagedBeton>, run: &RunPlan) -> Run {
    Arc::clone(source).begin(run).unwrap().expect("a run over pages")
}

type Outcome = Result<OwnedValue, String>;

fn value(source: &dyn Source, sample: usize, field: usize, buffer: &mut Buffer) -> Outcome {
    let value = source.value(SampleId(sample as u64), field, buffer);
    value.map(OwnedValue::from).map_err(|error| error.to_string())
}

/// Reads a run as a loader's workers do, a few samples at a time, and passes on all outcomes.
fn work(
    source: &dyn Source,
    samples: &[usize],
    workers: usize,
    each: impl Fn(usize, usize, Outcome) + Sync,
) {
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for worker in 0..workers {
            let (next, each) = (&next, &each);
            scope.spawn(move || {
                let mut buffer = Buffer::default();
                let chunk = 1 + worker % 3;
                loop {
                    let first = next.fetch_add(chunk, Ordering::Relaxed).min(samples.len());
                    if first == samples.len() {
                        return;
                    }
                    for &sample in &samples[first..samples.len().min(first + chunk)] {
                        buffer.forget();
                        for field in 0..3 {
                            each(sample, field, value(source, sample, field, &mut buffer));
                        }
                    }
                }
            });
        }
    });
}

/// All values of a file without faults.
fn contents(beton: &Beton) -> Vec<Vec<OwnedValue>> {
    let fields = |sample| (0..3).map(move |field| beton.owned(sample, field).unwrap()).collect();
    beton.samples().map(fields).collect()
}

fn written(page_size: u32, samples: usize, size: usize) -> Pages {
    let mut pages = Pages::new(page_size);
    (0..samples).for_each(|_| pages.add([size, 0]));
    pages
}

/// The order of `Order::QuasiRandom`: samples of `open` pages, drawn one by one.
fn quasi_random(beton: &Beton, open: usize, rng: &mut Rng) -> Vec<usize> {
    let mut pages: Vec<Vec<usize>> = vec![];
    for sample in 0..beton.facts().samples as usize {
        let page = Source::locality_group(beton, SampleId(sample as u64)).unwrap() as usize;
        pages.resize_with(pages.len().max(page + 1), Vec::new);
        pages[page].push(sample);
    }
    pages.retain(|page| !page.is_empty());
    pages.iter_mut().for_each(|page| rng.shuffle(page));
    rng.shuffle(&mut pages);
    let mut order = vec![];
    while !pages.is_empty() {
        let page = rng.below(open.min(pages.len()));
        order.extend(pages[page].pop());
        if pages[page].is_empty() {
            pages.swap_remove(page);
        }
    }
    order
}

// --- Any schedule, threads, budget, disk ------------------------------------------------------

/// A random file.
fn random_pages(rng: &mut Rng) -> Pages {
    let page_size = rng.of(&[256u32, 1024, 4096]);
    let mut pages = Pages::new(page_size);
    let most = rng.of(&[page_size as usize / 8, page_size as usize / 2]);
    for _ in 0..1 + rng.below(60) {
        let sizes = [rng.below(most + 1), rng.below(most + 1)];
        match rng.below(16) {
            0 => pages.add_here(sizes),
            1 if pages.len() > 0 => pages.add_again(rng.below(pages.len())),
            _ => pages.add(sizes),
        }
    }
    pages
}

/// A random order of some of its samples, some of which occur more than once.
fn random_schedule(beton: &Beton, rng: &mut Rng) -> Vec<usize> {
    let count = beton.facts().samples as usize;
    let mut all: Vec<usize> = (0..count).collect();
    match rng.below(5) {
        0 => {}
        1 => rng.shuffle(&mut all),
        2 => all = quasi_random(beton, 3, rng),
        3 => all = (0..count * 2).map(|_| rng.below(count)).collect(),
        _ => all.retain(|_| rng.below(8) == 0),
    }
    all[rng.below(all.len().div_ceil(2).max(1)).min(all.len())..].to_vec()
}

fn random_faults(pages: &Pages, end: u64, rng: &mut Rng) -> Faults {
    let start = pages.start();
    let somewhere = |rng: &mut Rng| start + rng.below((end - start).max(1) as usize) as u64;
    let mut faults = Faults::default();
    match rng.below(6) {
        0 => {
            let at = somewhere(rng);
            faults.broken = Some(at..at + 1 + rng.below(300) as u64);
        }
        1 => faults.cut = Some(somewhere(rng)),
        2 => faults.at_once = Some(1 + rng.below(700)),
        3 if rng.below(8) == 0 => faults.delay = Some(Duration::from_micros(50)),
        _ => {}
    }
    faults
}

/// One random case: every value is the plain reader's, or fails where the plain reader fails, or is
/// stored behind a broken position of its page.
fn check_case(seed: u64) {
    let rng = &mut Rng::new(seed);
    let pages = random_pages(rng);
    let disk = Disk::new(pages.bytes());
    let plain = open(&disk);
    let (want, end) = (contents(&plain), plain.header().alloc_table_ptr);
    let page_size = u64::from(plain.header().page_size);
    let budget = rng.of(&[0, page_size / 2, page_size, 3 * page_size, 1 << 20]);
    let source = paged(&disk, budget, rng.of(&[1, 2, 4]));
    let schedule = random_schedule(&plain, rng);
    let run = run_over(&schedule, 1 + rng.below(8));
    let faults = random_faults(&pages, end, rng);
    disk.set(faults.clone());
    let Some(view) = Arc::clone(&source).begin(&run).unwrap() else { return };
    let mut asked = schedule.clone();
    if rng.below(4) == 0 {
        rng.shuffle(&mut asked); // readers need not keep to the schedule
    }
    work(&**view, &asked, rng.of(&[1, 2, 8]), |sample, field, got| {
        let plainly = value(&plain, sample, field, &mut Buffer::default());
        match (&got, &plainly) {
            (Ok(got), _) => assert_eq!(*got, want[sample][field]),
            (Err(got), Err(plainly)) if faults.broken.is_none() => assert_eq!(got, plainly),
            (Err(_), Err(_)) => {}
            (Err(got), Ok(_)) => {
                assert!(faults.broken.is_some() && got.contains("a bad sector"), "{got}");
            }
        }
    });
    let stats = source.stats();
    assert!(stats.peak_held_bytes <= budget, "{} of {budget}", stats.peak_held_bytes);
    drop(view);
}

#[test]
fn values_are_those_of_plain_reads_whatever_happens() {
    let cases = rounds("FUSELOOP_PAGES");
    let seed = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let seed = seed.fetch_add(1, Ordering::Relaxed);
                    if seed >= cases {
                        return;
                    }
                    let case = std::panic::catch_unwind(|| check_case(seed as u64));
                    assert!(case.is_ok(), "case {seed}");
                }
            });
        }
    });
}

// --- How often, and how much --------------------------------------------------------------------

/// Reads a run without faults, and returns the statistics and the ranges that were read.
fn read_through(
    pages: &Pages,
    budget: u64,
    workers: usize,
    schedule: impl FnOnce(&Beton) -> Vec<usize>,
) -> (PageStats, Vec<Range<u64>>) {
    let disk = Disk::new(pages.bytes());
    let source = paged(&disk, budget, 4);
    let want = contents(source.beton());
    let schedule = schedule(source.beton());
    disk.take_reads();
    let view = begin(&source, &run_over(&schedule, 16));
    work(&**view, &schedule, workers, |sample, field, got| {
        assert_eq!(got.unwrap(), want[sample][field]);
    });
    drop(view);
    (source.stats(), disk.take_reads())
}

#[test]
fn each_page_is_read_once_where_the_budget_allows() {
    let pages = written(4096, 400, 400);
    for workers in [1, 2, 8] {
        for (open, budget) in [(1, 16 << 12), (8, 40 << 12), (1000, 1 << 20)] {
            let (stats, mut reads) = read_through(&pages, budget, workers, |beton| {
                quasi_random(beton, open, &mut Rng::new(3))
            });
            let case = format!("{workers} workers, {open} open: {stats:?}");
            assert_eq!((stats.pages_read, stats.pages_read_again), (40, 0), "{case}");
            assert_eq!((stats.values_read_directly, stats.bytes_needed), (0, 160_000), "{case}");
            assert_eq!(stats.bytes_read, 160_000, "{case}");
            reads.sort_by_key(|read| read.start);
            assert!(reads.is_sorted_by(|a, b| a.end <= b.start), "{reads:?}");
        }
    }
}

#[test]
fn a_page_goes_at_its_last_use() {
    // 40 pages one after the other, 10 samples each: batches of 16, two of them read ahead.
    let pages = written(4096, 400, 400);
    let (stats, _) = read_through(&pages, 1 << 30, 1, |_| (0..400).collect());
    assert!(stats.peak_held_bytes <= 16 << 12, "{stats:?}");
    assert_eq!(stats.held_bytes, 0, "nothing is left of a run that is over");
}

/// Pages 0, 1, 2, then 0 and 1 again, with room for two: one of them, or
/// both, must be read again, because page 2 arrives when a varying part
/// of page 0 has been used. With room for three, none is read again.
#[test]
fn pages_make_room_and_are_read_again() {
    let pages = written(4096, 30, 400);
    let order = || (0..5).chain(10..15).chain(20..30).chain(5..10).chain(15..20);
    for _ in 0..20 {
        let (stats, _) = read_through(&pages, 2 << 12, 1, |_| order().collect());
        assert!(stats.pages_read_again <= 2, "{stats:?}");
        assert_eq!(stats.pages_read, 3 + stats.pages_read_again, "{stats:?}");
        assert!(stats.peak_held_bytes <= 2 << 12 && stats.bytes_read <= 5 << 12, "{stats:?}");
        let (stats, _) = read_through(&pages, 3 << 12, 1, |_| order().collect());
        assert_eq!((stats.pages_read, stats.pages_read_again), (3, 0), "{stats:?}");
    }
}

#[test]
fn a_shuffle_on_a_small_budget_does_not_read_a_page_for_each_value() {
    let pages = written(4096, 400, 400);
    let (stats, _) = read_through(&pages, 8 << 12, 2, |_| {
        let mut all: Vec<usize> = (0..400).collect();
        Rng::new(5).shuffle(&mut all);
        all
    });
    // At least a quarter of the bytes read are used; reading a page for each value would take ten times
    // as many.
    assert!(stats.bytes_read <= 4 * stats.bytes_needed, "{stats:?}");
}

#[test]
fn of_a_page_that_is_needed_in_part_only_that_part_is_read() {
    // Pages of 1 MiB hold 64 values of 16 KiB each; the run has every 16th value, with 240 KiB between two.
    let pages = written(1 << 20, 64 * 4, 16 << 10);
    let share: Vec<usize> = (0..64 * 4).step_by(16).collect();
    let (stats, reads) = read_through(&pages, 1 << 30, 2, |_| share);
    assert_eq!((stats.pages_read, stats.values_read_directly), (4, 0), "{stats:?}");
    assert_eq!((stats.bytes_read, reads.len()), (16 * (16 << 10), 16), "{stats:?}");
    assert!(stats.peak_held_bytes <= 4 * (64 << 10), "{stats:?}");
    // The run has every fourth value: the 48 KiB between two are read as well.
    let share: Vec<usize> = (0..64 * 4).step_by(4).collect();
    let (stats, reads) = read_through(&pages, 1 << 30, 2, |_| share);
    assert_eq!((stats.pages_read, reads.len()), (4, 4), "{stats:?}");
}

#[test]
fn pages_are_read_before_they_are_needed_and_not_all_at_once() {
    let pages = written(4096, 4000, 400);
    let disk = Disk::new(pages.bytes());
    let source = paged(&disk, 1 << 30, 4);
    let all: Vec<usize> = (0..4000).collect();
    let view = begin(&source, &run_over(&all, 20));
    let settled = || {
        let deadline = Instant::now() + Duration::from_secs(10);
        let mut last = u64::MAX;
        while last != source.stats().pages_read && Instant::now() < deadline {
            last = source.stats().pages_read;
            thread::sleep(Duration::from_millis(20));
        }
        last
    };
    // Three batches ahead are 6 pages; at least 8 are read, and each thread may read one more.
    let before = settled();
    assert!((8..=12).contains(&before), "{before}");
    work(&**view, &all[..1000], 1, |_, _, got| drop(got.unwrap()));
    let after = settled();
    assert!((108..=112).contains(&after), "{after}");
}

// --- Failures ---------------------------------------------------------------------------------

#[test]
fn a_page_that_cannot_be_read_fails_for_its_own_samples_alone() {
    let pages = written(4096, 30, 400);
    let disk = Disk::new(pages.bytes());
    let source = paged(&disk, 1 << 20, 2);
    let at = pages.start() + 4096 + 1000;
    disk.set(Faults { broken: Some(at..at + 1), ..Faults::default() });
    let all: Vec<usize> = (0..30).collect();
    let view = begin(&source, &run_over(&all, 4));
    let failed = Mutex::new(vec![]);
    work(&**view, &all, 2, |sample, field, got| {
        if let Err(message) = got {
            failed.lock().unwrap().push((sample, field, message));
        }
    });
    let mut failed = failed.into_inner().unwrap();
    failed.sort();
    // There are 10 samples per page, and the third one of page 1 holds the broken byte.
    let samples: Vec<usize> = failed.iter().map(|&(sample, ..)| sample).collect();
    assert_eq!(samples, (12..20).collect::<Vec<_>>());
    let ptr = pages.start() + 4096 + 800;
    let text = format!(
        "sample 12 (first): 400 bytes at byte {ptr}: page 1 can't be read from byte {at} on: a bad sector"
    );
    assert_eq!(failed[0], (12, 0, text));
    assert_eq!(disk.take_reads().iter().filter(|read| read.start == at).count(), 0);
}

#[test]
fn a_reader_that_panics_is_an_error_of_the_page() {
    let pages = written(4096, 30, 400);
    let disk = Disk::new(pages.bytes());
    let source = paged(&disk, 1 << 20, 2);
    disk.set(Faults { panics: Some(pages.start() + 5000), ..Faults::default() });
    let all: Vec<usize> = (0..30).collect();
    let view = begin(&source, &run_over(&all, 4));
    work(&**view, &all, 3, |sample, field, got| match got {
        Ok(_) => assert!(sample / 10 != 1 || field > 0, "{sample}"),
        Err(message) => {
            assert_eq!(sample / 10, 1);
            assert!(message.ends_with("the reader panicked: out of order"), "{message}");
        }
    });
}

#[test]
fn one_who_holds_a_page_can_ask_for_another() {
    let pages = written(4096, 30, 400);
    let disk = Disk::new(pages.bytes());
    let source = paged(&disk, 4096, 1);
    let want = contents(source.beton());
    let all: Vec<usize> = (0..30).collect();
    let view = begin(&source, &run_over(&all, 4));
    let mut buffers: Vec<Buffer> = (0..30).map(|_| Buffer::default()).collect();
    let values = buffers
        .iter_mut()
        .enumerate()
        .map(|(sample, buffer)| view.value(SampleId(sample as u64), 0, buffer).unwrap());
    let values: Vec<_> = values.collect();
    for (value, want) in values.into_iter().zip(want) {
        assert_eq!(OwnedValue::from(value), want[0]);
    }
    assert!(source.stats().peak_held_bytes <= 4096);
}

#[test]
fn samples_of_which_not_all_is_asked_for_hold_nobody_up() {
    let mut pages = Pages::new(4096);
    (0..400).for_each(|_| pages.add([200, 200]));
    let disk = Disk::new(pages.bytes());
    let source = paged(&disk, 8 << 12, 2);
    let all: Vec<usize> = (0..400).collect();
    let view = begin(&source, &run_over(&all, 4));
    let mut buffer = Buffer::default();
    for sample in all {
        value(&**view, sample, 0, &mut buffer).unwrap(); // field 2 is never read
    }
    let stats = source.stats();
    assert_eq!((stats.pages_read_again, stats.values_read_directly), (0, 0), "{stats:?}");
}

// --- Endings ----------------------------------------------------------------------------------

/// Waits until no thread of a cache holds the file any more.
fn assert_threads_end(disk: &Disk, before: usize) {
    let begun = Instant::now();
    while disk.readers() > before {
        assert!(begun.elapsed() < Duration::from_secs(5), "{} read on", disk.readers() - before);
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_run_dropped_at_any_moment_leaves_no_thread() {
    let pages = written(1024, 300, 100);
    let disk = Disk::new(pages.bytes());
    let source = paged(&disk, 20 << 10, 4);
    let all: Vec<usize> = (0..300).collect();
    let before = disk.readers();
    let rng = &mut Rng::new(1);
    for _ in 0..300 {
        let view = begin(&source, &run_over(&all, 8));
        let stop = rng.below(2 * all.len());
        work(&**view, &all[..stop.saturating_sub(300)], 2, |_, _, got| drop(got.unwrap()));
        if rng.below(2) == 0 {
            thread::sleep(Duration::from_micros(rng.below(200) as u64));
        }
        drop(view);
    }
    assert_threads_end(&disk, before);
    assert_eq!(source.stats().held_bytes, 0);
}

#[test]
fn dropping_a_run_does_not_wait_for_a_slow_read() {
    let pages = written(1024, 300, 100);
    let disk = Disk::new(pages.bytes());
    let source = paged(&disk, 1 << 20, 4);
    let before = disk.readers();
    disk.set(Faults { delay: Some(Duration::from_millis(2000)), ..Faults::default() });
    let all: Vec<usize> = (0..300).collect();
    let view = begin(&source, &run_over(&all, 8));
    thread::sleep(Duration::from_millis(20));
    let begun = Instant::now();
    drop(view);
    assert!(begun.elapsed() < Duration::from_millis(1000), "{:?}", begun.elapsed());
    assert_threads_end(&disk, before);
}

#[test]
fn runs_may_overlap_and_their_pages_outlive_them() {
    let pages = written(1024, 60, 100);
    let disk = Disk::new(pages.bytes());
    let source = paged(&disk, 1 << 20, 2);
    let want = contents(source.beton());
    let all: Vec<usize> = (0..60).collect();
    let (first, second) = (begin(&source, &run_over(&all, 8)), begin(&source, &run_over(&all, 8)));
    let mut buffer = Buffer::default();
    for (sample, want) in want.iter().enumerate() {
        for view in [&first, &second] {
            assert_eq!(value(&***view, sample, 0, &mut buffer).unwrap(), want[0]);
        }
    }
    drop((first, second));
    assert_eq!(value(&*source, 7, 0, &mut buffer).unwrap(), want[7][0], "outside a run");
}

#[test]
fn where_there_is_nothing_to_gain_a_file_is_read_as_it_is() {
    let bytes = written(1024, 6, 100).bytes();
    let held = Beton::from_bytes(bytes.clone(), &OpenOptions::default()).unwrap();
    let held = Arc::new(PagedBeton::new(held, ProcessCache::default()));
    assert!(Arc::clone(&held).begin(&run_over(&[0, 1], 2)).unwrap().is_none(), "in memory");
    let disk = Disk::new(bytes);
    let source = paged(&disk, 1 << 20, 1);
    assert!(Arc::clone(&source).begin(&run_over(&[], 2)).unwrap().is_none(), "no sample");
    let numbers = RunPlan { fields: vec![1], ..run_over(&[0, 1], 2) };
    assert!(Arc::clone(&source).begin(&numbers).unwrap().is_none(), "no stored value");
    assert_eq!(source.facts().fingerprint, source.beton().facts().fingerprint);
}
