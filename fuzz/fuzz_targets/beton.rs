//! Fuzzes a `.beton` file of arbitrary bytes.
#![no_main]

use fuseloop::fuzzing::{count, beton};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| count(beton(bytes)));
