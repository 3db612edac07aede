//! Fuzzes the files of MNIST and CIFAR: idx files, packed or not, and batches of records.
#![no_main]

use fuseloop::fuzzing::{count, fixed_length};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| count(fixed_length(bytes)));
