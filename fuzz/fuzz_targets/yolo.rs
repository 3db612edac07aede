//! Fuzzes labels in YOLO's format, and the description of their dataset.
#![no_main]

use fuseloop::fuzzing::{count, yolo};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| count(yolo(bytes)));
