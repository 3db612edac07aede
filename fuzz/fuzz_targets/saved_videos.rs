//! Fuzzes a file of saved indexes of videos.
#![no_main]

use fuseloop::fuzzing::{count, saved_videos};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| count(saved_videos(bytes)));
