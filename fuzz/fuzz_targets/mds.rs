//! Fuzzes the index of MDS shards, and a shard.
#![no_main]

use fuseloop::fuzzing::{count, mds};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| count(mds(bytes)));
