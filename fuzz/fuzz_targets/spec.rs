//! Fuzzes a pipeline file of arbitrary bytes.
#![no_main]

use fuseloop::fuzzing::{count, spec_toml};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| count(spec_toml(bytes)));
