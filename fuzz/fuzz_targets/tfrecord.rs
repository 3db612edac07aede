//! A TFRecord file of any bytes.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuseloop::fuzzing::tfrecord(bytes));
