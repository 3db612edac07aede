//! Fuzzes a JPEG of arbitrary bytes: it is decoded or refused, and its windows equal the same
//! regions of the whole image.
#![no_main]

use fuseloop::fuzzing::{count, jpeg_window, pass_caught_panics};

libfuzzer_sys::fuzz_target!(init: pass_caught_panics(), |bytes: &[u8]| count(jpeg_window(bytes)));
