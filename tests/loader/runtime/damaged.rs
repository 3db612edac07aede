//! Damaged samples: an error, a row less, or another sample instead; the rest of the stream is
//! unchanged.

use super::{Rows, all, builder, pictures};
use fuseloop::source::{Beton, Concat, OpenOptions, Source};
use fuseloop::{Loader, LoaderBuilder, OnDamaged, Order};
use std::path::Path;
use std::sync::Arc;

/// The offset of the byte in the sample table that holds the mode of a sample's image.
pub(crate) fn mode_of(path: &Path, sample: u64) -> usize {
    let beton = Beton::open(path, &OpenOptions::default()).unwrap();
    let row = beton.header().sample_table_start() + sample * beton.row_bytes() as u64;
    row as usize
}

/// Damages the images of these samples.
pub(super) fn damage(path: &Path, samples: &[u64]) {
    let offsets: Vec<usize> = samples.iter().map(|&sample| mode_of(path, sample)).collect();
    crate::common::dataset::damage(path, |bytes| offsets.iter().for_each(|&at| bytes[at] = 9));
}

/// An epoch of 31 samples in the file's order, in batches of 6.
fn sequential(path: &Path) -> LoaderBuilder {
    builder(path).order(Order::Sequential)
}

const BAD: [u64; 9] = [0, 5, 7, 12, 13, 14, 15, 16, 17];

fn epoch(builder: LoaderBuilder) -> Vec<Rows> {
    all(builder.build().unwrap().epoch(0).unwrap())
}

#[test]
fn skipping_leaves_the_rest_as_it_was() {
    let (_dir, path) = pictures(31);
    let whole = epoch(sequential(&path));
    damage(&path, &BAD);
    let undamaged = |batch: &Rows| -> Rows {
        batch.iter().filter(|(id, _)| !BAD.contains(&id.0)).cloned().collect()
    };
    // The third batch has lost all its rows, and is not delivered.
    let want: Vec<Rows> = whole.iter().map(undamaged).filter(|batch| !batch.is_empty()).collect();
    assert_eq!(want.iter().map(Vec::len).collect::<Vec<_>>(), [4, 5, 6, 6, 1]);
    for workers in [1, 2, 8] {
        let loader = sequential(&path).workers(workers).on_damaged(OnDamaged::Skip);
        let loader = loader.build().unwrap();
        assert!(all(loader.epoch(0).unwrap()) == want, "{workers} workers");
        let report = loader.quarantine();
        assert_eq!(report.samples.iter().map(|bad| bad.sample.0).collect::<Vec<_>>(), BAD);
        assert_eq!(report.rows, 9);
        let text = report.to_string();
        assert!(text.contains("pictures.beton (image): ") && text.contains("at byte"), "{text}");
        for bad in &report.samples {
            assert_eq!(bad.error.matches("pictures.beton").count(), 1, "{}", bad.error);
        }
    }
}

#[test]
fn an_error_in_the_second_of_two_files_names_it_once() {
    let ((_first_dir, first), (_second_dir, second)) = (pictures(5), pictures(5));
    damage(&second, &[3]);
    let parts = [&first, &second].map(|path| {
        Arc::new(Beton::open(path, &OpenOptions::default()).unwrap()) as Arc<dyn Source>
    });
    let loader = Loader::from_source(Concat::new(parts).unwrap()).order(Order::Sequential);
    let loader = loader.batch_size(10).pipeline("image", super::crops(16)).build().unwrap();
    let error = loader.epoch(0).unwrap().find_map(Result::err).unwrap();
    let text = error.to_string();
    assert_eq!(text.matches(second.to_str().unwrap()).count(), 1, "{text}");
    // The number of the sample in its own file.
    assert!(text.contains("sample 3 (image): image mode 9"), "{text}");
    assert_eq!(error.path(), Some(&*second));
}

#[test]
fn a_resume_agrees_where_samples_are_skipped() {
    let (_dir, path) = pictures(31);
    damage(&path, &BAD);
    let make = || sequential(&path).on_damaged(OnDamaged::Skip);
    let whole = epoch(make());
    let loader = make().workers(7).build().unwrap();
    let mut batches = loader.epoch(0).unwrap();
    for taken in 0..=whole.len() {
        let rest = make().build().unwrap();
        assert!(all(rest.resume(&batches.cursor().unwrap()).unwrap()) == whole[taken..], "{taken}");
        assert_eq!(batches.next().is_some(), taken < whole.len());
    }
}

#[test]
fn a_substitute_is_the_same_for_any_number_of_workers() {
    let (_dir, path) = pictures(31);
    let whole = epoch(sequential(&path));
    damage(&path, &BAD);
    let make = || sequential(&path).on_damaged(OnDamaged::Substitute);
    let first = epoch(make().workers(1));
    assert_eq!(first.iter().map(Vec::len).collect::<Vec<_>>(), [6, 6, 6, 6, 6, 1]);
    for (found, was) in first.iter().flatten().zip(whole.iter().flatten()) {
        let is_bad = BAD.contains(&was.0.0);
        assert_eq!(found != was, is_bad, "sample {}", was.0);
        assert!(!BAD.contains(&found.0.0));
    }
    for workers in [2, 8] {
        assert!(epoch(make().workers(workers)) == first, "{workers} workers");
    }
    assert!(epoch(make().seed(7)) != first, "substitutes follow the seed");
}

#[test]
fn where_everything_is_damaged_no_substitute_is_found() {
    let (_dir, path) = pictures(8);
    damage(&path, &[0, 1, 2, 3, 4, 5, 6]);
    let only_bad = sequential(&path).indices(0..7).on_damaged(OnDamaged::Substitute);
    let loader = only_bad.build().unwrap();
    assert!(loader.epoch(0).unwrap().next().unwrap().is_err());
    let skipping = sequential(&path).indices(0..7).on_damaged(OnDamaged::Skip).build().unwrap();
    assert!(skipping.epoch(0).unwrap().next().unwrap().is_err());
    assert_eq!(skipping.quarantine().rows, 7);
}

#[test]
fn failing_is_what_happens_if_nothing_is_said() {
    let (_dir, path) = pictures(31);
    damage(&path, &[13]);
    let loader = sequential(&path).build().unwrap();
    let batches: Vec<_> = loader.epoch(0).unwrap().collect();
    assert_eq!(batches.len(), 3);
    let error = batches[2].as_ref().err().unwrap().to_string();
    assert!(error.starts_with("batch 2: sample 13: "), "{error}");
    assert!(loader.quarantine().samples.is_empty());
}
