//! Fuzzes a WebP of arbitrary bytes.
#![no_main]

use fuseloop::fuzzing::{count, pass_caught_panics, webp};

libfuzzer_sys::fuzz_target!(init: pass_caught_panics(), |bytes: &[u8]| count(webp(bytes)));
