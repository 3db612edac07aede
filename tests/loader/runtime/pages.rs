//! A file read by pages yields the same values as a file read sample by sample.

use super::{SEED, all, builder, pictures};
use fuseloop::source::{Facts, FieldKind, InMemory, OwnedValue, ProcessCache};
use fuseloop::{Loader, Order};

fn cache(budget_bytes: u64) -> ProcessCache {
    ProcessCache { budget_bytes, ..ProcessCache::default() }
}

#[test]
fn for_every_order_budget_and_place_to_begin() {
    let (_dir, path) = pictures(60);
    for order in [Order::Sequential, Order::Random, Order::QuasiRandom { open_pages: 2 }] {
        let make = || builder(&path).order(order.clone());
        let plain = all(make().build().unwrap().epoch(1).unwrap());
        for budget in [0, 3 << 20, 1 << 30] {
            let paged = make().process_cache(cache(budget)).build().unwrap();
            let mut batches = paged.epoch(1).unwrap();
            assert!(batches.next().is_some() && batches.next().is_some());
            let rest = paged.resume(&batches.cursor().unwrap()).unwrap();
            assert!(all(rest) == plain[2..], "{order:?} with {budget} bytes");
            assert!(all(paged.epoch(1).unwrap()) == plain);
            let stats = paged.page_stats().unwrap();
            assert!(stats.peak_held_bytes <= budget + (4 << 21), "{stats:?}");
        }
    }
    let held =
        Loader::open(&path).unwrap().in_memory(true).seed(SEED).batch_size(6).drop_last(false);
    let held = held.order(Order::Random).pipeline("image", super::crops(16)).build().unwrap();
    assert!(all(held.epoch(1).unwrap()) == all(builder(&path).build().unwrap().epoch(1).unwrap()));
    let seen = builder(&path).os_cache(false).build().unwrap();
    assert!(seen.page_stats().is_some() && seen.source().path() == Some(&path));
}

/// A cursor belongs to the dataset, however the dataset is read.
#[test]
fn a_cursor_may_change_the_way_of_reading() {
    let (_dir, path) = pictures(30);
    let plain = builder(&path).build().unwrap();
    let mut batches = plain.epoch(0).unwrap();
    assert!(batches.next().is_some());
    let paged = builder(&path).os_cache(false).build().unwrap();
    let rest = all(paged.resume(&plain.cursor().unwrap()).unwrap());
    assert!(rest == all(batches));
}

#[test]
fn a_source_without_pages_says_so() {
    let numbers = || {
        let facts = Facts::new([("n", FieldKind::Int)], 50);
        InMemory::from_fn(facts, |sample| Ok(vec![OwnedValue::Int(sample.0 as i64)]))
    };
    let builder = || Loader::from_source(numbers()).seed(SEED).batch_size(10);
    let message = builder().os_cache(false).build().err().unwrap().to_string();
    assert_eq!(
        message,
        "the source: only a single .beton file has pages for a process cache: join several by `fuseloop convert`, or remove `process_cache`"
    );
    // A quasi-random order treats the source as a single page.
    let quasi = builder().order(Order::QuasiRandom { open_pages: 4 }).build().unwrap();
    let mut ids: Vec<u64> =
        all(quasi.epoch(0).unwrap()).concat().iter().map(|row| row.0.0).collect();
    assert!(!ids.is_sorted());
    ids.sort_unstable();
    assert!(ids.into_iter().eq(0..50));
}
