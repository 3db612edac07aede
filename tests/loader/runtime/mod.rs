//! The stream is the same for any threads and ranks, after a resume from any batch, with damaged
//! samples, and when a plan is replaced in the middle of an epoch.

mod choose;
mod damaged;
mod fingerprints;
mod pages;
mod ranks;
mod resume;
mod swap;

use crate::common::dataset;
use fuseloop::ops::*;
use fuseloop::write::WriteMode;
use fuseloop::{Batch, Batches, Loader, LoaderBuilder, Order, SampleId};
use std::path::{Path, PathBuf};

const SEED: u64 = 42;

/// The contents of a batch: each row's sample and its bytes, in all tensors.
type Rows = Vec<(SampleId, Vec<u8>)>;

/// A dataset of `count` raw images of different sizes.
fn pictures(count: u64) -> (tempfile::TempDir, PathBuf) {
    dataset::write(count, WriteMode::Raw, dataset::varied)
}

/// Random crops and flips, whose rows show the draws.
fn crops(side: u32) -> Ops {
    let crop =
        RandomResizedCrop::new(side).unwrap().scale(0.3..=1.0).unwrap().ratio(0.8..=1.2).unwrap();
    ops![crop, RandomHorizontalFlip::new(0.5).unwrap()]
}

fn builder(path: &Path) -> LoaderBuilder {
    Loader::open(path)
        .unwrap()
        .seed(SEED)
        .order(Order::Random)
        .drop_last(false)
        .batch_size(6)
        .workers(2)
        .pipeline("image", crops(16))
}

fn rows(batch: &Batch) -> Rows {
    let row = |index: usize| {
        let of = |name: &str| {
            let bytes = batch.bytes(name).unwrap();
            let size = bytes.len() / batch.len();
            bytes[index * size..][..size].to_vec()
        };
        batch.names().flat_map(of).collect()
    };
    batch.ids().iter().enumerate().map(|(index, &id)| (id, row(index))).collect()
}

fn all(batches: Batches) -> Vec<Rows> {
    batches.map(|batch| rows(&batch.unwrap())).collect()
}
