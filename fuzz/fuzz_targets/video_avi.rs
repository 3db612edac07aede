//! Fuzzes an AVI file of arbitrary bytes.
#![no_main]

use fuseloop::fuzzing::count;
use fuseloop_video::fuzzing::avi;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| count(avi(bytes)));
