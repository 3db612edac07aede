//! Fuzzes annotations in Pascal VOC's format.
#![no_main]

use fuseloop::fuzzing::{count, voc};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| count(voc(bytes)));
