//! Fuzzes LeRobot's `info.json`, and a Parquet file of its episodes.
#![no_main]

use fuseloop::fuzzing::{count, lerobot};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| count(lerobot(bytes)));
