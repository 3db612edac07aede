//! Fuzzes images, their shapes and their targets as a transform takes them.
#![no_main]

use fuseloop::fuzzing::{count, pass_caught_panics, transform};

libfuzzer_sys::fuzz_target!(init: pass_caught_panics(), |bytes: &[u8]| count(transform(bytes)));
