//! A JPEG of any bytes is decoded or refused, and its windows are parts of the whole.
#![no_main]

use fuseloop::fuzzing::{count, jpeg_window};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| count(jpeg_window(bytes)));
