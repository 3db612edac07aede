//! Fuzzes windows of a lossless WebP image of arbitrary bytes, and the same image as alpha.
#![no_main]

use fuseloop::fuzzing::count;
use fuseloop_webp::fuzzing::lossless_image;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| count(lossless_image(bytes)));
