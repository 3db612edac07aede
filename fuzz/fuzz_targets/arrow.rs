//! Fuzzes columns of Arrow of arbitrary bytes.
#![no_main]

use fuseloop::fuzzing::{arrow, count, pass_caught_panics};

libfuzzer_sys::fuzz_target!(init: pass_caught_panics(), |bytes: &[u8]| count(arrow(bytes)));
