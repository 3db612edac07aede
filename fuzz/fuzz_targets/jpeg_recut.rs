//! Fuzzes re-cutting a JPEG of arbitrary bytes.
#![no_main]

use fuseloop::fuzzing::{count, jpeg_recut, pass_caught_panics};

libfuzzer_sys::fuzz_target!(init: pass_caught_panics(), |bytes: &[u8]| count(jpeg_recut(bytes)));
