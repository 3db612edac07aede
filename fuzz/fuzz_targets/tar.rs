//! A tar file of any bytes, as it is and with its sums put right.
#![no_main]

use fuseloop::fuzzing::{count, resummed, tar};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| count(tar(bytes) | tar(&resummed(bytes))));
