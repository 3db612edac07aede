//! Fuzzes a PNG of arbitrary bytes, as it is and with corrected checksums.
#![no_main]

use fuseloop::fuzzing::{count, pass_caught_panics, png, rechecked};

libfuzzer_sys::fuzz_target!(init: pass_caught_panics(), |bytes: &[u8]| count(png(bytes) | png(&rechecked(bytes))));
