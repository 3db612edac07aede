//! A table of images, and a saved listing, of any bytes.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuseloop::fuzzing::folder(bytes));
