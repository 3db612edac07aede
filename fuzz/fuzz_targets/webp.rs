//! Fuzzes a WebP of arbitrary bytes.
#![no_main]

use fuseloop::fuzzing::{count, webp};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| count(webp(bytes)));
