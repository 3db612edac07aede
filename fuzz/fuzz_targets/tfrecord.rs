//! Fuzzes a TFRecord file of arbitrary bytes, as it is and with corrected checksums.
#![no_main]

use fuseloop::fuzzing::{count, pass_caught_panics, reframed, tfrecord};

libfuzzer_sys::fuzz_target!(init: pass_caught_panics(), |bytes: &[u8]| count(tfrecord(bytes) | tfrecord(&reframed(bytes))));
