//! Fuzzes COCO's annotations, and the masks in them.
#![no_main]

use fuseloop::fuzzing::{coco, count};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| count(coco(bytes)));
