//! Fuzzes a Matroska or WebM file of arbitrary bytes.
#![no_main]

use fuseloop::fuzzing::count;
use fuseloop_video::fuzzing::matroska;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| count(matroska(bytes)));
