//! Fuzzes a joined index of shards.
#![no_main]

use fuseloop::fuzzing::{count, joined_index};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| count(joined_index(bytes)));
