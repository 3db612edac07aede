//! Fuzzes a TIFF of arbitrary bytes.
#![no_main]

use fuseloop::fuzzing::{count, pass_caught_panics, tiff};

libfuzzer_sys::fuzz_target!(init: pass_caught_panics(), |bytes: &[u8]| count(tiff(bytes)));
