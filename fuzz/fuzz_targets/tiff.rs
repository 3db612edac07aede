//! Fuzzes a TIFF of arbitrary bytes.
#![no_main]

use fuseloop::fuzzing::{count, tiff};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| count(tiff(bytes)));
