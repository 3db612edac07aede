//! Fuzzes a Parquet file of arbitrary bytes.
#![no_main]

use fuseloop::fuzzing::{count, parquet, pass_caught_panics};

libfuzzer_sys::fuzz_target!(init: pass_caught_panics(), |bytes: &[u8]| count(parquet(bytes)));
