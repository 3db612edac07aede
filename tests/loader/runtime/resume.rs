//! A run resumed from any batch yields the rest of the whole run.

use super::{Rows, SEED, all, builder, crops, pictures};
use fuseloop::ops::*;
use fuseloop::{Cursor, LoaderBuilder, Order};
use std::path::Path;

/// Takes a cursor after every batch of two epochs with 7 threads, and resumes with 1 and with 2, each twice.
fn assert_resumes_everywhere(make: impl Fn() -> LoaderBuilder) {
    let noted = make().workers(7).build().unwrap();
    for epoch in 0..2 {
        let whole = all(noted.epoch(epoch).unwrap());
        assert_eq!(whole.len() as u64, noted.len());
        let others = [1, 2].map(|workers| make().workers(workers).build().unwrap());
        let mut batches = noted.epoch(epoch).unwrap();
        for taken in 0..=whole.len() {
            let cursor = batches.cursor().unwrap();
            assert_eq!(noted.cursor().unwrap(), cursor);
            let text = cursor.to_string();
            assert!(text.len() <= 256, "{text}");
            let cursor: Cursor = text.parse().unwrap();
            for other in &others {
                for _ in 0..2 {
                    let rest = other.resume(&cursor).unwrap();
                    assert_eq!(rest.cursor().unwrap(), cursor);
                    assert!(all(rest) == whole[taken..], "epoch {epoch}, {taken} batches taken");
                }
            }
            assert_eq!(batches.next().is_some(), taken < whole.len());
        }
    }
}

#[test]
fn after_every_batch_of_every_order() {
    let (_dir, path) = pictures(31);
    let orders = [Order::Sequential, Order::Random, Order::QuasiRandom { open_pages: 2 }];
    for order in orders {
        assert_resumes_everywhere(|| builder(&path).order(order.clone()));
        assert_resumes_everywhere(|| builder(&path).order(order.clone()).drop_last(true));
    }
}

#[test]
fn with_mixed_batches_and_a_plan_for_each_epoch() {
    let (_dir, path) = pictures(31);
    assert_resumes_everywhere(|| {
        builder(&path)
            .pipeline_by_epoch("image", |epoch| {
                let mut ops = crops(8 + 8 * epoch.index());
                ops.extend(ops![Normalize::imagenet(), MixUp::new(0.4)?]);
                Ok::<_, ParamError>(ops)
            })
            .pipeline("label", ops![OneHot::new(10).unwrap(), MixUp::new(0.4).unwrap()])
    });
}

#[test]
fn a_cursor_of_something_else_is_refused_by_name() {
    let (_dir, path) = pictures(12);
    let (_other_dir, other_path) = pictures(13);
    let cursor = {
        let loader = builder(&path).build().unwrap();
        let mut batches = loader.epoch(0).unwrap();
        batches.next().unwrap().unwrap();
        loader.cursor().unwrap()
    };
    let message = |builder: LoaderBuilder| {
        builder.build().unwrap().resume(&cursor).err().unwrap().to_string()
    };
    let is_of = |text: String, what: &str| {
        assert!(text.starts_with(&format!("the cursor belongs to another {what}: ")), "{text}");
    };
    is_of(message(builder(&other_path)), "dataset");
    is_of(message(builder(&path).seed(SEED + 1)), "seed");
    assert_eq!(
        message(builder(&path).order(Order::Sequential)),
        "the cursor belongs to another order: random of all 12 samples, expected sequential of all 12 samples: resume with the same order, or start the epoch again"
    );
    assert_eq!(
        message(builder(&path).indices(0..11)),
        "the cursor belongs to another order: random of all 12 samples, expected random of the first 11 samples: resume with the same order, or start the epoch again"
    );
    let text = message(builder(&path).pipeline("image", crops(17)));
    assert!(text.contains("another plan: op 0 of output image, RandomResizedCrop was"), "{text}");
    is_of(text, "plan");
    // The output after the list is the same.
    let text = message(builder(&path).pipeline("image", [crops(16), ops![D4]].concat()));
    assert!(text.contains("another plan: it has no op 2 of output image, D4: resume"), "{text}");
    is_of(message(builder(&path).number_rule(NumberRule::Exact)), "plan");
    is_of(message(builder(&path).without("label")), "plan");
    assert_eq!(
        message(builder(&path).batch_size(5)),
        "the cursor is at row 6 of the epoch, which is not between two batches of 5 rows: keep the product of batch size and ranks unchanged"
    );
    assert!(message(builder(&path).batch_size(4)).contains("batches of 4 rows"));
    // The cursor is between two batches of this size too.
    let loader = builder(&path).batch_size(3).build().unwrap();
    let whole: Rows = all(builder(&path).build().unwrap().epoch(0).unwrap()).concat();
    assert!(all(loader.resume(&cursor).unwrap()).concat() == whole[6..]);
}

/// A cursor at the end yields no batches, which is valid. A position beyond the end never existed.
#[test]
fn a_cursor_beyond_the_epoch_is_refused() {
    let (_dir, path) = pictures(12);
    let loader = builder(&path).build().unwrap();
    let mut batches = loader.epoch(0).unwrap();
    batches.by_ref().for_each(|batch| drop(batch.unwrap()));
    let end = batches.cursor().unwrap();
    assert_eq!(end.position, 12);
    assert!(all(loader.resume(&end).unwrap()).is_empty());
    for position in [13, 18, u64::MAX] {
        let mut beyond = end;
        beyond.position = position;
        let message = loader.resume(&beyond).err().unwrap().to_string();
        let begin = format!("the cursor is at row {position} of an epoch of 12 rows: ");
        assert!(message.starts_with(&begin), "{message}");
    }
}

#[test]
fn the_place_after_an_error_is_before_its_batch() {
    let (_dir, path) = pictures(20);
    let at = damaged_at(&path, 13);
    let loader = builder(&path).order(Order::Sequential).build().unwrap();
    let mut batches = loader.epoch(0).unwrap();
    assert!(batches.by_ref().take(2).all(|batch| batch.is_ok()));
    assert!(batches.next().unwrap().is_err() && batches.next().is_none());
    assert_eq!(batches.cursor().unwrap().position, 12);
    // After the damage is repaired, the run continues where it ended.
    crate::common::dataset::damage(&path, |bytes| bytes[at] ^= 0xff);
    let mended = builder(&path).order(Order::Sequential).build().unwrap();
    let mut cursor = loader.cursor().unwrap();
    cursor.dataset = mended_dataset(&mended);
    assert!(all(mended.resume(&cursor).unwrap()) == all(mended.epoch(0).unwrap())[2..]);
}

/// The fingerprint of the repaired dataset: the damage is in the sample table, which is part of the
/// fingerprint.
fn mended_dataset(loader: &fuseloop::Loader) -> u64 {
    loader.source().fingerprint()
}

/// Damages the mode of an image in the sample table; returns the offset of the byte.
fn damaged_at(path: &Path, sample: u64) -> usize {
    let at = super::damaged::mode_of(path, sample);
    crate::common::dataset::damage(path, |bytes| bytes[at] ^= 0xff);
    at
}

#[test]
fn there_is_no_place_without_an_epoch_or_without_order() {
    let (_dir, path) = pictures(12);
    let loader = builder(&path).unordered(true).build().unwrap();
    let message = loader.cursor().unwrap_err().to_string();
    assert_eq!(message, "no epoch was started: call `epoch` first");
    let batches = loader.epoch(0).unwrap();
    let message = batches.cursor().unwrap_err().to_string();
    assert_eq!(message, "batches are delivered unordered: a cursor needs them in order");
    let mut unordered: Rows = all(batches).concat();
    let mut ordered: Rows = all(builder(&path).build().unwrap().epoch(0).unwrap()).concat();
    unordered.sort();
    ordered.sort();
    assert!(unordered == ordered);
}
