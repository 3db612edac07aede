//! Fuzzes a cursor of arbitrary bytes.
#![no_main]

use fuseloop::fuzzing::{count, cursor};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| count(cursor(bytes)));
