//! The same epoch on every machine: one hash of 1,024 decoded, resampled, jittered and normalized samples.

use fuseloop::internals::workload::jitter;
use fuseloop::{Loader, Order};
use sha2::{Digest as _, Sha256};
use std::fs;
use std::path::{Path, PathBuf};

const SAMPLES: usize = 1024;

/// The hash of the epoch's batches, labels included.
const HASH: &str = "0f27852ee4b47265751a893fdb10f5b19e49b7a57c31055166ad461cc494af57";

/// Writes a folder of 1,024 JPEGs in four classes: the goldens that are decoded, in turn.
fn write(folder: &Path) {
    let goldens = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/jpeg");
    let mut goldens: Vec<PathBuf> =
        fs::read_dir(goldens).unwrap().map(|entry| entry.unwrap().path()).collect();
    goldens.retain(|path| {
        path.extension().is_some_and(|it| it == "jpg") && path.with_extension("rgb").exists()
    });
    goldens.sort();
    for number in 0..SAMPLES {
        let class = folder.join(format!("class{}", number % 4));
        fs::create_dir_all(&class).unwrap();
        let golden = &goldens[number % goldens.len()];
        fs::copy(golden, class.join(format!("{number:04}.jpg"))).unwrap();
    }
}

#[test]
fn an_epoch_of_1024_samples_has_the_literal_hash() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    let loader = Loader::open(folder.path())
        .unwrap()
        .batch_size(64)
        .seed(42)
        .order(Order::Random)
        .pipeline("image", jitter(48).unwrap())
        .build()
        .unwrap();
    let (mut hash, mut samples) = (Sha256::new(), 0);
    for batch in loader.epoch(1).unwrap() {
        let batch = batch.unwrap();
        samples += batch.len();
        for name in batch.names() {
            hash.update(batch.bytes(name).unwrap());
        }
    }
    let hash: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    println!("{samples} samples on {}: {hash}", std::env::consts::ARCH);
    assert_eq!((samples, &*hash), (SAMPLES, HASH));
}
