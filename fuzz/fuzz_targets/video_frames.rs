//! Fuzzes frames of a video file of arbitrary bytes, by the decoders in Rust.
#![no_main]

use fuseloop::fuzzing::count;
use fuseloop_video::fuzzing::frames;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| count(frames(bytes)));
