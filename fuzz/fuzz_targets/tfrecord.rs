//! Fuzzes a TFRecord file of arbitrary bytes, as it is and with corrected checksums.
#![no_main]

use fuseloop::fuzzing::{count, reframed, tfrecord};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| count(tfrecord(bytes) | tfrecord(&reframed(bytes))));
