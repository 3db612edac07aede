//! Re-cutting a JPEG of any bytes.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuseloop::fuzzing::tar(bytes));
