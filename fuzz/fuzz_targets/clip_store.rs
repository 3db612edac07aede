//! Fuzzes rows of a clip store.
#![no_main]

use fuseloop::fuzzing::{clip_store, count};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| count(clip_store(bytes)));
