//! Fuzzes a bit-plane image of arbitrary bytes, as it is and with corrected checksums: it is decoded or refused, its
//! windows equal the same regions of the whole image, and a JPEG that is restored has its pixels.
#![no_main]

use fuseloop::fuzzing::{bit_planes, count, pass_caught_panics, resealed};

libfuzzer_sys::fuzz_target!(init: pass_caught_panics(), |bytes: &[u8]| count(bit_planes(bytes) | bit_planes(&resealed(bytes))));
