//! Fuzzes a saved index of a video of arbitrary bytes.
#![no_main]

use fuseloop::fuzzing::count;
use fuseloop_video::fuzzing::saved_video_index;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| count(saved_video_index(bytes)));
