//! Fuzzes a `.beton` file of arbitrary bytes.
#![no_main]

use fuseloop::fuzzing::{beton, count};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| count(beton(bytes)));
