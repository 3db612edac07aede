//! The order of an epoch is the one FFCV gives for the same seed.

use fuseloop::order::{Order, epoch_order};
use fuseloop::sample::{Epoch, SampleId};
use sha2::{Digest, Sha256};

fn ids(count: u64) -> Vec<SampleId> {
    (0..count).map(SampleId).collect()
}

fn random(seed: u64, epoch: u32, count: u64) -> Vec<u64> {
    let order = epoch_order(Order::Random, seed, Epoch(epoch), ids(count));
    order.into_iter().map(|id| id.0).collect()
}

#[test]
fn random_is_numpys_permutation() {
    let text = include_str!("golden/beton/order_vectors.json");
    let vectors: serde_json::Value = serde_json::from_str(text).unwrap();
    let vectors = vectors["numpy_generator_permutation"].as_array().unwrap();
    assert!(vectors.len() > 10);
    for vector in vectors {
        let (seed, count) = (vector["seed"].as_u64().unwrap(), vector["n"].as_u64().unwrap());
        let want: Vec<u64> =
            vector["order"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap()).collect();
        assert_eq!(random(seed, 0, count), want, "seed {seed}, {count} samples");
    }
}

/// The number of ImageNet's training images, as numpy shuffles them with seed 42.
#[test]
fn random_is_numpys_permutation_at_imagenets_size() {
    let order = random(42, 0, 1_281_167);
    assert_eq!(order[..5], [65762, 58882, 1_166_204, 285_108, 1_148_797]);
    let bytes: Vec<u8> = order.iter().flat_map(|id| id.to_le_bytes()).collect();
    let digest: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(digest, "1f00a502d9b39be89757145fc438e5daa56f6d19906bfe6752505d2b3ecb4e5f");
}

#[test]
fn the_epoch_is_added_to_the_seed() {
    assert_eq!(random(3, 4, 100), random(7, 0, 100));
    assert_ne!(random(3, 4, 100), random(3, 5, 100));
}

#[test]
fn a_seed_beyond_64_bits_is_pythons_sum() {
    // default_rng(2**64 + 7).permutation(10)
    assert_eq!(random(u64::MAX, 8, 10), [8, 2, 4, 1, 3, 7, 9, 0, 6, 5]);
}

#[test]
fn random_shuffles_the_ids_it_is_given_not_their_places() {
    let evens: Vec<SampleId> = ids(50).iter().map(|id| SampleId(id.0 * 2)).collect();
    let order = epoch_order(Order::Random, 1, Epoch(0), evens);
    let doubled: Vec<u64> = random(1, 0, 50).iter().map(|id| id * 2).collect();
    assert_eq!(order.iter().map(|id| id.0).collect::<Vec<_>>(), doubled);
}

#[test]
fn sequential_is_as_given_in_every_epoch() {
    for epoch in [0, 1, 9] {
        assert_eq!(epoch_order(Order::Sequential, 5, Epoch(epoch), ids(7)), ids(7));
    }
}

#[test]
fn no_samples_and_one_sample_have_an_order() {
    assert!(random(0, 0, 0).is_empty());
    assert_eq!(random(0, 0, 1), [0]);
}
