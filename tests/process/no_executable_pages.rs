//! A process in which the system makes nothing executable that was written, as under systemd's
//! `MemoryDenyWriteExecute=yes`: pipelines are evaluated, the bits are those of compiled code, and one warning says why.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(unsafe_code, reason = "gives up the right to make pages executable")]

use crate::passed_alone;
use fuseloop::Loader;
use fuseloop::internals::recorded_warnings;
use fuseloop::ops::*;
use fuseloop::source::{Column, InMemory, OwnedImage};
use std::process::Command;

/// Tells the process that it runs the pipeline, and whether it gives up the right before.
const REFUSED: &str = "FUSELOOP_TEST_REFUSED";

/// `PR_SET_MDWE` and its flag `PR_MDWE_REFUSE_EXEC_GAIN`, of Linux 6.3.
const PR_SET_MDWE: libc::c_int = 65;
const REFUSE_EXEC_GAIN: libc::c_ulong = 1;

/// Returns the bytes of an epoch as text, `explain`, and the warnings.
fn epoch() -> (String, String, Vec<String>) {
    let ((bytes, explained), warnings) = recorded_warnings(|| {
        let pixels = |sample| (0..16 * 16 * 3).map(move |index| (index * (sample + 3) % 251) as u8);
        let images = (0..8).map(|sample| OwnedImage::rgb(16, pixels(sample).collect()));
        let images = InMemory::new([("image", Column::images(images.collect()))]).unwrap();
        let crop = RandomResizedCrop::new(9).unwrap();
        let jitter = ColorJitter::new(0.4, 0.4, 0.4).unwrap();
        let list = ops![crop, jitter, Normalize::imagenet()];
        let loader = Loader::from_source(images).batch_size(4).pipeline("image", list);
        let loader = loader.build().unwrap();
        let mut bytes = String::new();
        for batch in loader.epoch(0).unwrap() {
            bytes += &format!("{:?}", batch.unwrap().bytes("image").unwrap());
        }
        (bytes, loader.explain())
    });
    (bytes, explained, warnings)
}

#[test]
fn pipelines_are_evaluated_with_one_warning_where_no_page_becomes_executable() {
    const NAME: &str = "no_executable_pages::pipelines_are_evaluated_with_one_warning_where_no_page_becomes_executable";
    if let Some(refused) = std::env::var_os(REFUSED) {
        if refused == "yes" {
            // SAFETY: the call changes what later mappings may be, and no memory.
            let answer = unsafe { libc::prctl(PR_SET_MDWE, REFUSE_EXEC_GAIN, 0, 0, 0) };
            if answer != 0 {
                println!("skipped: the kernel is older than 6.3");
                return;
            }
        }
        let (bytes, explained, warnings) = epoch();
        println!("bytes {bytes}");
        assert_eq!(warnings.len(), usize::from(refused == "yes"), "{warnings:?}");
        if refused == "yes" {
            assert!(warnings[0].contains("the system refuses executable memory"), "{warnings:?}");
            assert!(warnings[0].contains("MemoryDenyWriteExecute"), "{warnings:?}");
            let said = "not compiled (the system refuses executable memory): evaluated op by op";
            assert!(explained.contains(said), "{explained}");
        } else if fuseloop::internals::jit::unsupported().is_none() {
            assert!(!explained.contains("evaluated op by op"), "{explained}");
        }
        return;
    }
    if passed_alone(NAME) {
        return;
    }
    let outputs = ["yes", "no"].map(|refused| {
        let mut child = Command::new(std::env::current_exe().unwrap());
        let output = child.args(["--exact", NAME, "--nocapture"]).env(REFUSED, refused).output();
        let output = output.unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{refused}: {said}{errors}");
        said
    });
    let bytes =
        |said: &str| said.lines().find_map(|line| Some(line.split_once("bytes ")?.1.to_owned()));
    match bytes(&outputs[0]) {
        None => assert!(outputs[0].contains("skipped"), "{}", outputs[0]),
        evaluated => assert_eq!(evaluated, bytes(&outputs[1])),
    }
}
