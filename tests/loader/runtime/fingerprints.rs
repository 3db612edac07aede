//! Batches that are the same have the same fingerprint, those that differ have others; a batch of any rank is rebuilt from
//! a cursor; and skipping batches is the same as throwing them away.

use super::{Rows, SEED, all, builder, crops, pictures, rows};
use crate::common::dataset;
use fuseloop::loader::FingerprintLog;
use fuseloop::ops::*;
use fuseloop::order::{Ranks, Uneven};
use fuseloop::source::{Facts, FieldKind, InMemory, OwnedValue, ProcessCache};
use fuseloop::{Cursor, Loader, LoaderBuilder, OnDamaged, Order};
use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;

/// The fingerprint and the rows of every batch of an epoch.
fn epoch(builder: LoaderBuilder, epoch: u32) -> Vec<(u64, Rows)> {
    let batches = builder.build().unwrap().epoch(epoch).unwrap();
    batches.map(|batch| batch.unwrap()).map(|batch| (batch.fingerprint(), rows(&batch))).collect()
}

fn mixed(path: &Path) -> LoaderBuilder {
    let image = [crops(16), ops![Normalize::imagenet(), MixUp::new(0.4).unwrap()]].concat();
    let label = ops![OneHot::new(10).unwrap(), MixUp::new(0.4).unwrap()];
    builder(path).pipeline("image", image).pipeline("label", label)
}

fn on(builder: LoaderBuilder, rank: u32, world: u32) -> LoaderBuilder {
    builder.ranks(Ranks::new(rank, world, Uneven::Pad).unwrap())
}

#[test]
fn equal_batches_have_equal_fingerprints_and_others_do_not() {
    let (_dir, path) = pictures(31);
    let (_other_dir, other) = dataset::write(31, fuseloop::write::WriteMode::Raw, |sample| {
        let Size { height, width } = dataset::varied(sample);
        Size::new(height + 1, width)
    });
    let flipped = || builder(&path).pipeline("image", [crops(16), ops![D4]].concat());
    let kinds: [&dyn Fn() -> LoaderBuilder; 9] = [
        &|| builder(&path),
        &|| builder(&path).seed(SEED + 1),
        &|| builder(&path).order(Order::Sequential),
        &|| builder(&path).batch_size(7),
        &flipped,
        &|| builder(&other),
        &|| mixed(&path),
        &|| on(mixed(&path), 0, 2),
        &|| on(mixed(&path), 1, 2),
    ];
    let mut known: HashMap<u64, Rows> = HashMap::new();
    for kind in kinds {
        for number in 0..2 {
            let first = epoch(kind().workers(1), number);
            assert_eq!(
                first.iter().map(|(print, _)| print).collect::<HashSet<_>>().len(),
                first.len()
            );
            for (workers, ahead) in [(2, 1), (7, 5)] {
                assert!(epoch(kind().workers(workers).batches_ahead(ahead), number) == first);
            }
            for (print, rows) in first {
                assert!(
                    known.insert(print, rows).is_none(),
                    "batches that differ have one fingerprint"
                );
            }
        }
    }
    // Samples that are asked for by their numbers.
    let loader = builder(&path).build().unwrap();
    let print = |ids: &[u64]| loader.get(ids, 3).unwrap().fingerprint();
    assert!(print(&[5, 0]) == print(&[5, 0]) && print(&[5, 0]) != print(&[0, 5]));
}

#[test]
fn every_batch_of_every_rank_is_rebuilt_from_a_cursor() {
    let (_dir, path) = pictures(61);
    for (world, size) in [(1, 6), (2, 5), (3, 4)] {
        let make = |rank, workers| {
            let loader = on(mixed(&path).batch_size(size), rank, world).workers(workers);
            loader.build().unwrap()
        };
        let delivered = |rank| epoch(on(mixed(&path).batch_size(size), rank, world), 1);
        let whole: Vec<_> = (0..world).map(delivered).collect();
        let saver = make(0, 2);
        let mut run = saver.epoch(1).unwrap();
        for taken in 0..=whole[0].len() {
            let cursor: Cursor = run.cursor().unwrap().to_string().parse().unwrap();
            let last = taken.checked_sub(1).map(|last| whole[0][last].0);
            assert_eq!(cursor.fingerprint, last);
            for rank in 0..world {
                let loader = make(rank, 1);
                for number in [0, 1, 3] {
                    let mut rest = loader.resume(&cursor).unwrap();
                    rest.skip_batches(number).unwrap();
                    let found = rest.next().transpose().unwrap();
                    let found = found.map(|batch| (batch.fingerprint(), rows(&batch)));
                    let expected = whole[rank as usize].get(taken + number as usize);
                    assert!(
                        found.as_ref() == expected,
                        "rank {rank} of {world}, {taken} + {number}"
                    );
                }
            }
            run.next();
        }
    }
}

/// Skips 0 to 4 batches at every batch of two epochs, and compares what follows with a run that took them all.
fn assert_skips_as_thrown_away(make: impl Fn() -> LoaderBuilder) {
    let loader = make().build().unwrap();
    for number in 0..2 {
        let whole = epoch(make(), number);
        let mut cursors = vec![];
        let mut run = loader.epoch(number).unwrap();
        for _ in 0..whole.len() {
            cursors.push(run.cursor().unwrap());
            run.next().unwrap().unwrap();
        }
        cursors.push(run.cursor().unwrap());
        // A run that asks for more than there is has passed the rows that `drop_last` leaves out.
        assert!(run.next().is_none());
        let ended = run.cursor().unwrap();
        for taken in [0, 1, whole.len() - 1, whole.len()] {
            for skipped in [0, 1, 2, 40] {
                let mut run = loader.epoch(number).unwrap();
                run.by_ref().take(taken).for_each(|batch| drop(batch.unwrap()));
                run.skip_batches(skipped as u64).unwrap();
                let at = (taken + skipped).min(whole.len());
                let expected = if taken + skipped > at { ended } else { cursors[at] };
                assert_eq!(run.cursor().unwrap(), expected, "{taken} taken, {skipped} skipped");
                assert_eq!(loader.cursor().unwrap(), expected);
                assert_eq!(run.remaining(), (whole.len() - at) as u64);
                let rest: Vec<_> = run
                    .map(|batch| batch.unwrap())
                    .map(|batch| (batch.fingerprint(), rows(&batch)))
                    .collect();
                assert!(rest == whole[at..], "{taken} taken, {skipped} skipped");
            }
        }
    }
}

#[test]
fn skipping_is_throwing_away() {
    let (_dir, path) = pictures(31);
    for order in [Order::Sequential, Order::Random, Order::QuasiRandom { open_pages: 2 }] {
        assert_skips_as_thrown_away(|| builder(&path).order(order.clone()));
    }
    assert_skips_as_thrown_away(|| mixed(&path));
    assert_skips_as_thrown_away(|| on(mixed(&path).batch_size(4), 2, 3));
    assert_skips_as_thrown_away(|| builder(&path).drop_last(true));
    let cache = ProcessCache { budget_bytes: 3 << 20, ..ProcessCache::default() };
    assert_skips_as_thrown_away(|| builder(&path).process_cache(cache));
}

#[test]
fn skipped_batches_are_not_decoded() {
    let (_dir, path) = pictures(60);
    let loader = builder(&path).batches_ahead(1).workers(1).build().unwrap();
    let mut run = loader.epoch(0).unwrap();
    run.skip_batches(8).unwrap();
    assert_eq!(run.count(), 2);
    // Those of the batch that was prepared before the call, and of the two that were taken.
    assert!(loader.decoded() <= 3 * 6, "{}", loader.decoded());
}

#[test]
fn an_unordered_run_is_not_skipped() {
    let (_dir, path) = pictures(20);
    let loader = builder(&path).unordered(true).build().unwrap();
    let mut run = loader.epoch(0).unwrap();
    let refused = run.skip_batches(1).unwrap_err().to_string();
    assert!(refused.starts_with("batches are delivered unordered"), "{refused}");
    assert_eq!(run.count(), 4);
}

#[test]
fn the_samples_that_were_delivered_decide_where_some_are_damaged() {
    let (_dir, path) = pictures(31);
    super::damaged::damage(&path, &[3, 17]);
    let [skipped, replaced] = [OnDamaged::Skip, OnDamaged::Substitute].map(|policy| {
        let loader = builder(&path).on_damaged(policy).build().unwrap();
        let mut run = loader.epoch(0).unwrap();
        let mut found = vec![];
        while let Some(batch) = run.next() {
            let batch = batch.unwrap();
            assert_eq!(run.cursor().unwrap().fingerprint, Some(batch.fingerprint()));
            let is_damaged = !batch.skipped().is_empty() || !batch.replaced().is_empty();
            found.push((batch.fingerprint(), batch.ids().to_vec(), is_damaged));
        }
        // What would be delivered is not known without decoding.
        let mut run = loader.epoch(0).unwrap();
        run.skip_batches(2).unwrap();
        assert_eq!(run.cursor().unwrap().fingerprint, None);
        found
    });
    assert_eq!(skipped.len(), replaced.len());
    for ((one, ids, is_damaged), (other, other_ids, _)) in skipped.iter().zip(&replaced) {
        assert_eq!(one == other, ids == other_ids);
        assert_eq!(one != other, *is_damaged);
    }
    assert!(skipped.iter().any(|(_, _, is_damaged)| *is_damaged));
}

fn logged(builder: LoaderBuilder, path: &Path, epochs: u32) -> Vec<u64> {
    let loader = builder.build().unwrap();
    loader.log_fingerprints(FingerprintLog::open(path).unwrap().with_ids());
    let batches = (0..epochs).flat_map(|epoch| loader.epoch(epoch).unwrap());
    batches.map(|batch| batch.unwrap().fingerprint()).collect()
}

#[test]
fn a_log_has_every_batch_and_differences_are_named() {
    let (dir, path) = pictures(31);
    let log = |name: &str| dir.path().join(name);
    let prints = logged(builder(&path), &log("a"), 2);
    assert_eq!(prints.len(), 12);
    let text = fs::read_to_string(log("a")).unwrap();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 13, "one header");
    for (number, (line, print)) in lines[1..].iter().zip(&prints).enumerate() {
        assert_eq!(line["fingerprint"], format!("{print:016x}"));
        assert_eq!((&line["epoch"], &line["batch"]), (&(number / 6).into(), &(number % 6).into()));
        assert_eq!(line["position"], number % 6 * 6);
        assert_eq!(line["ids"].as_array().unwrap().len(), if number % 6 == 5 { 1 } else { 6 });
    }
    let differs = |name: &str| {
        let found = fuseloop::internals::loader::diff(&log("a"), &log(name)).unwrap();
        found.difference.map(|found| ((found.epoch, found.batch), found.causes))
    };
    // A run that is resumed appends to its log.
    let loader = builder(&path).workers(5).build().unwrap();
    loader.log_fingerprints(FingerprintLog::open(log("b")).unwrap());
    let mut run = loader.epoch(0).unwrap();
    run.by_ref().take(4).for_each(|batch| drop(batch.unwrap()));
    let cursor = loader.epoch_from(0, 2).unwrap().cursor().unwrap();
    let other = builder(&path).build().unwrap();
    other.log_fingerprints(FingerprintLog::open(log("b")).unwrap());
    other
        .resume(&cursor)
        .unwrap()
        .chain(other.epoch(1).unwrap())
        .for_each(|batch| drop(batch.unwrap()));
    assert_eq!(differs("b"), None);

    logged(builder(&path).seed(7), &log("seed"), 1);
    let ((number, batch), causes) = differs("seed").unwrap();
    assert_eq!((number, batch), (0, 0));
    assert_eq!(causes[0], "the seed: 42 in the first log and 7 in the second");
    assert!(causes.last().unwrap().starts_with("the samples: row "), "{causes:?}");
    let other_ops = builder(&path).pipeline("image", [crops(16), ops![D4]].concat());
    logged(other_ops, &log("ops"), 1);
    let (key, causes) = differs("ops").unwrap();
    assert_eq!(key, (0, 0));
    assert_eq!(causes.len(), 1);
    assert!(causes[0].contains("op 2 of output image, D4 in the second"), "{causes:?}");
    logged(builder(&path), &log("short"), 1);
    let (key, causes) = differs("short").unwrap();
    assert_eq!((key, &*causes[0]), ((1, 0), "the second log ends after 6 equal batches"));

    // The ops change in an epoch: a header before the first batch of the other plan.
    let loader = builder(&path).build().unwrap();
    loader.log_fingerprints(FingerprintLog::open(log("renewed")).unwrap());
    let mut run = loader.epoch(0).unwrap();
    run.next().unwrap().unwrap();
    loader.set_pipeline("image", crops(20)).unwrap();
    let mut run = loader.renew(run).unwrap();
    run.next().unwrap().unwrap();
    let (key, causes) = differs("renewed").unwrap();
    assert_eq!(key, (0, 1));
    assert!(causes[0].contains("RandomResizedCrop has other parameters"), "{causes:?}");
}

#[test]
fn a_line_that_can_not_be_written_ends_the_epoch() {
    let dir = tempfile::tempdir().unwrap();
    let facts = Facts::new([("n", FieldKind::Int)], 300_000);
    let numbers = InMemory::from_fn(facts, |sample| Ok(vec![OwnedValue::Int(sample.0 as i64)]));
    let loader = Loader::from_source(numbers).batch_size(270_000).drop_last(false).build().unwrap();
    let log = dir.path().join("log");
    loader.log_fingerprints(FingerprintLog::open(&log).unwrap().with_ids());
    let mut run = loader.epoch(0).unwrap();
    let refused = run.next().unwrap().err().unwrap();
    assert_eq!(refused.path(), Some(&*log));
    assert!(refused.to_string().contains("a batch of 270000 rows"), "{refused}");
    assert!(run.next().is_none());
    run.skip_batches(1).unwrap();
    assert!(run.next().is_none());
    loader.log_fingerprints(None);
    assert_eq!(loader.epoch(0).unwrap().filter(Result::is_ok).count(), 2);
}

#[test]
fn a_loader_of_clips_has_fingerprints() {
    let dir = crate::clips::folder();
    let make = |workers| {
        let clips = fuseloop::loader::Clips::random(3);
        let loader = Loader::open(dir.path()).unwrap().clips(clips).batch_size(2).seed(SEED);
        let ops = ops![RandomResizedCrop::new(16).unwrap(), ToChannelsFirst];
        loader.order(Order::Random).pipeline("video", ops).workers(workers).build().unwrap()
    };
    let whole: Vec<_> = make(3).epoch(2).unwrap().map(|batch| batch.unwrap()).collect();
    let cursor = make(1).epoch(2).unwrap().cursor().unwrap();
    for (number, batch) in whole.iter().enumerate() {
        let mut run = make(1).resume(&cursor).unwrap();
        run.skip_batches(number as u64).unwrap();
        let found = run.next().unwrap().unwrap();
        assert_eq!(found.fingerprint(), batch.fingerprint());
        assert!(rows(&found) == rows(batch));
    }
    assert!(whole.len() > 1 && !all(make(2).epoch(2).unwrap()).is_empty());
}
