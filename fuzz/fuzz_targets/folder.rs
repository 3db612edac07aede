//! Fuzzes a table of images, and a saved listing, of arbitrary bytes.
#![no_main]

use fuseloop::fuzzing::{count, folder};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| count(folder(bytes)));
