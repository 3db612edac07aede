//! A TFRecord file of any bytes, as it is and with its checksums put right.
#![no_main]

use fuseloop::fuzzing::{count, reframed, tfrecord};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| count(tfrecord(bytes) | tfrecord(&reframed(bytes))));
