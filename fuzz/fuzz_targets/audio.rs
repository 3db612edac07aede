//! Fuzzes an audio file of arbitrary bytes.
#![no_main]

use fuseloop::fuzzing::{audio, count, pass_caught_panics};

libfuzzer_sys::fuzz_target!(init: pass_caught_panics(), |bytes: &[u8]| count(audio(bytes)));
