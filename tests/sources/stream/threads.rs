//! Read-ahead, caches, and failures during a pass.

use super::loader::builder;
use super::support::{At, all, fields, number, numbers, pass, record};
use fuseloop::source::stream::{Interleave, MixEnd, Stream};
use fuseloop::source::{Facts, FieldKind, InMemory, OwnedValue, Source};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Returns numbers, and how often they were read.
fn counted(count: u64) -> (Arc<dyn Source>, Arc<AtomicU64>) {
    let reads = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&reads);
    let source = InMemory::from_fn(Facts::new(fields(), count), move |sample| {
        counter.fetch_add(1, Ordering::Relaxed);
        Ok(record(sample.0))
    });
    (Arc::new(source), reads)
}

fn weave(reads: usize, deterministic: bool) -> Interleave {
    Interleave { cycle_length: 3, block_length: 2, reads, deterministic, shuffle: false }
}

/// The items before the first error, and the error.
fn until_error(stream: &Stream) -> (Vec<u64>, String) {
    let mut items = stream.open(&pass(0, 0)).unwrap();
    let mut seen = vec![];
    loop {
        match items.next() {
            Ok(Some(item)) => seen.push(number(&item)),
            Ok(None) => panic!("no error"),
            Err(error) => return (seen, error.to_string()),
        }
    }
}

#[test]
fn readers_end_when_nobody_takes_any_more() {
    for deterministic in [true, false] {
        for taken in [0, 1, 20] {
            let (source, reads) = counted(1000);
            let parts = (0..5).map(|_| Stream::of(Arc::clone(&source)));
            let stream = Stream::interleave(parts, weave(3, deterministic)).unwrap().prefetch(4);
            let mut items = stream.open(&pass(0, 0)).unwrap();
            (0..taken).for_each(|_| drop(items.next().unwrap().unwrap()));
            drop((items, stream));
            let begun = Instant::now();
            while Arc::strong_count(&source) > 1 {
                assert!(begun.elapsed() < Duration::from_secs(20), "a reader lives on");
                thread::sleep(Duration::from_millis(1));
            }
            assert!(reads.load(Ordering::Relaxed) < 200, "it reads without bound");
        }
    }
}

#[test]
fn an_error_at_some_item_comes_at_its_place_with_and_without_threads() {
    let observed = |reads| {
        let bad = numbers(100, 50).bad(At::Stream(7)).stream();
        let parts = [numbers(0, 50).stream(), bad, numbers(200, 50).stream()];
        until_error(&Stream::interleave(parts, weave(reads, true)).unwrap())
    };
    let plain = observed(0);
    assert_eq!(plain.1, "the shard is cut off");
    assert_eq!(plain.0.len(), 8 + 7 + 6);
    for reads in [1, 2, 8] {
        assert_eq!(observed(reads), plain);
    }
    let (seen, error) = until_error(&numbers(0, 9).bad(At::Panic(4)).stream().prefetch(3));
    assert_eq!((seen, error.as_str()), (vec![0, 1, 2, 3], "panic: planted"));
}

#[test]
fn a_panic_of_a_function_or_a_source_is_told_at_its_place() {
    let filtered = numbers(0, 20).stream().filter(|record| match record[1] {
        fuseloop::source::OwnedValue::Int(9) => resume_unwind(Box::new("planted")),
        _ => true,
    });
    let panicking = InMemory::from_fn(Facts::new(fields(), 20), |sample| match sample.0 {
        9 => resume_unwind(Box::new("planted")),
        number => Ok(record(number)),
    });
    let read = Stream::of(Arc::new(panicking)).prefetch(2);
    for stream in [filtered, read] {
        let loader = builder(&stream).build().unwrap();
        let mut run = loader.epoch(0).unwrap();
        assert_eq!(run.by_ref().take(2).map(|batch| batch.unwrap().len()).sum::<usize>(), 8);
        let error = run.next().unwrap().unwrap_err().to_string();
        assert!(error.starts_with("batch 2: sample 9: ") && error.contains("planted"), "{error}");
        assert!(run.next().is_none());
    }
}

#[test]
fn what_is_read_as_it_is_ready_is_all_there_once_and_has_no_cursor() {
    let lengths = [3, 0, 11, 7, 1, 5, 0];
    let parts = || lengths.iter().zip(0..).map(|(&count, i)| numbers(100 * i, count).stream());
    let wanted = all(&Stream::concat(parts()).unwrap(), &pass(0, 0));
    for reads in [1, 2, 5] {
        let stream = Stream::interleave(parts(), weave(reads, false)).unwrap();
        let mut found = all(&stream, &pass(0, 0));
        found.sort_unstable();
        assert_eq!(found, wanted);
        assert!(!stream.clone().shuffle(3).facts().is_exact);
        let loader = builder(&stream).build().unwrap();
        let mut run = loader.epoch(0).unwrap();
        assert_eq!(run.by_ref().map(|batch| batch.unwrap().len()).sum::<usize>(), wanted.len());
        assert_eq!(run.cursor().unwrap_err().kind(), fuseloop::ErrorKind::Cursor);
    }
}

#[test]
fn a_whole_pass_is_kept_and_nothing_less() {
    let (source, reads) = counted(10);
    let reads = || reads.load(Ordering::Relaxed);
    let stream = Stream::of(Arc::clone(&source)).cache_in_memory(1 << 20);
    let mut left = stream.open(&pass(0, 0)).unwrap();
    (0..4).for_each(|_| drop(left.next().unwrap()));
    drop(left);
    assert_eq!(stream.open(&pass(0, 0)).unwrap().skip(4).unwrap(), 4);
    assert_eq!(reads(), 4);
    let whole: Vec<u64> = (0..10).collect();
    assert_eq!(all(&stream, &pass(0, 0)), whole);
    assert_eq!(reads(), 14);
    assert_eq!(all(&stream, &pass(5, 3)), whole);
    assert_eq!(super::support::rest(&stream, &pass(5, 3), 8), [8, 9]);
    assert_eq!(reads(), 14, "what is kept is read again");
    let tight = Stream::of(source).cache_in_memory(500);
    assert_eq!([all(&tight, &pass(0, 0)), all(&tight, &pass(0, 0))], [whole.clone(), whole]);
    assert_eq!(reads(), 14 + 20, "more was kept than there is room for");
}

#[test]
fn an_epoch_of_a_loader_fills_a_cache() {
    for is_known in [true, false] {
        let (source, reads) = counted(10);
        let mut stream = Stream::of(source);
        if !is_known {
            stream = stream.filter(|_| true);
        }
        let loader = builder(&stream.cache_in_memory(1 << 20)).build().unwrap();
        for epoch in 0..3 {
            assert_eq!(loader.epoch(epoch).unwrap().map(|b| b.unwrap().len()).sum::<usize>(), 10);
        }
        assert_eq!(reads.load(Ordering::Relaxed), 10, "known: {is_known}");
    }
}

#[test]
fn an_error_of_a_filter_keeps_its_type() {
    let fails = |record: &[OwnedValue]| match record {
        [_, OwnedValue::Int(4)] => Err("seven".parse::<u32>().unwrap_err().into()),
        _ => Ok(true),
    };
    let loader = builder(&numbers(0, 10).stream().try_filter(fails)).build().unwrap();
    let error = loader.epoch(0).unwrap().find_map(Result::err).unwrap();
    assert!(error.to_string().ends_with("invalid digit found in string"), "{error}");
    let cause = error.get_ref().unwrap();
    let cause = cause.source().unwrap_or(cause);
    assert!(cause.is::<std::num::ParseIntError>(), "{error}");
}

#[test]
fn what_does_not_fit_together_is_refused_in_words() {
    let one = numbers(0, 3).stream();
    let mut other = numbers(0, 3);
    let image = fields()[0].clone();
    other.facts.fields = [image, ("label", FieldKind::Float).into()].into();
    let other = other.stream();
    let message = |made: fuseloop::Result<Stream>| made.err().unwrap().to_string();
    assert_eq!(message(Stream::concat([])), "concat: no streams, expected at least 1");
    assert_eq!(
        message(Stream::concat([one.clone(), other.clone()])),
        "concat: stream 1 (numbers from 0) has [image: image, label: float], stream 0 has \
         [image: image, label: int]"
    );
    assert_eq!(
        message(Stream::zip([one.clone(), other])),
        "zip: two of the streams have a field image"
    );
    let none = Interleave { block_length: 0, ..Interleave::default() };
    assert_eq!(
        message(Stream::interleave([one.clone()], none)),
        "interleave: block_length is 0: give 1 or more"
    );
    for weight in [-1.0, f64::NAN, f64::INFINITY, 0.0] {
        let error = message(Stream::mix([(one.clone(), weight)], MixEnd::First));
        assert!(error.starts_with("mix: stream 0 has weight"), "{error}");
    }
    let empty = numbers(0, 0).held().stream().repeat_forever();
    assert_eq!(until_error(&empty).1, "numbers from 0 has no items: it can't be repeated forever");
}

#[test]
fn shares_are_as_the_weights_say() {
    let parts = [(numbers(0, 100_000).stream(), 3.0), (numbers(1_000_000, 100_000).stream(), 1.0)];
    let mixed = Stream::mix(parts, MixEnd::First).unwrap().take(20_000);
    let mut items = mixed.open(&pass(4, 0)).unwrap();
    let mut first = 0;
    while let Some(item) = items.next().unwrap() {
        let is_first = item.name().starts_with("numbers from 0");
        assert_eq!(item.component().unwrap() == 0, is_first);
        first += u32::from(is_first);
    }
    // Six standard deviations, of 61 items each.
    assert!((14_600..15_400).contains(&first), "{first}");
}
