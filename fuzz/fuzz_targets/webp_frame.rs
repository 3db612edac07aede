//! Fuzzes windows of a VP8 frame of arbitrary bytes.
#![no_main]

use fuseloop::fuzzing::count;
use fuseloop_webp::fuzzing::lossy_frame;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| count(lossy_frame(bytes)));
