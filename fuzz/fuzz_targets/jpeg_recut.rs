//! Fuzzes re-cutting a JPEG of arbitrary bytes.
#![no_main]

use fuseloop::fuzzing::{count, jpeg_recut};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| count(jpeg_recut(bytes)));
