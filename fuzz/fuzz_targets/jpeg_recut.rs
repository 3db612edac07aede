//! Re-cutting a JPEG of any bytes.
#![no_main]

use fuseloop::fuzzing::{count, jpeg_recut};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| count(jpeg_recut(bytes)));
