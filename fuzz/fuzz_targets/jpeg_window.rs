//! A JPEG of any bytes is decoded or refused, and its windows are parts of the whole.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuseloop::fuzzing::jpeg_window(bytes));
