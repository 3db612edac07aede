//! Fuzzes an MP4 or MOV file of arbitrary bytes.
#![no_main]

use fuseloop::fuzzing::count;
use fuseloop_video::fuzzing::mp4;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| count(mp4(bytes)));
