//! Fuzzes a PNG of arbitrary bytes, as it is and with corrected checksums.
#![no_main]

use fuseloop::fuzzing::{count, png, rechecked};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| count(png(bytes) | png(&rechecked(bytes))));
