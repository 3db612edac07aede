//! Fuzzes a BMP, GIF, PNM, JPEG XL or HEIC of arbitrary bytes.
#![no_main]

use fuseloop::fuzzing::{count, pass_caught_panics, still};

libfuzzer_sys::fuzz_target!(init: pass_caught_panics(), |bytes: &[u8]| count(still(bytes)));
