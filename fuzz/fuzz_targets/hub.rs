//! Fuzzes answers of the Hugging Face Hub: pages of files, and the links between them.
#![no_main]

use fuseloop::fuzzing::{count, hub};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| count(hub(bytes)));
