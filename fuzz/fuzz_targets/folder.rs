//! Fuzzes a table of images, and a saved listing, of arbitrary bytes.
#![no_main]

use fuseloop::fuzzing::{count, folder, pass_caught_panics};

libfuzzer_sys::fuzz_target!(init: pass_caught_panics(), |bytes: &[u8]| count(folder(bytes)));
