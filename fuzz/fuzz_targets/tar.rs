//! Fuzzes a tar file of arbitrary bytes, as it is and with corrected checksums.
#![no_main]

use fuseloop::fuzzing::{count, resummed, tar};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| count(tar(bytes) | tar(&resummed(bytes))));
