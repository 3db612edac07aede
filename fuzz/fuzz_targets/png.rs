//! A PNG of any bytes, as it is and with its checksums put right.
#![no_main]

use fuseloop::fuzzing::{count, png, rechecked};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| count(png(bytes) | png(&rechecked(bytes))));
