//! Fuzzes a WebP of arbitrary bytes.
#![no_main]

use fuseloop::fuzzing::{count, webp};

libfuzzer_sys::fuzz_target!(init: allow_panics_of_image_webp(), |bytes: &[u8]| count(webp(bytes)));

/// libFuzzer ends at any panic, but those of image-webp are caught, and are errors.
fn allow_panics_of_image_webp() {
    let end = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !panic.location().is_some_and(|at| at.file().contains("/image-webp-")) {
            end(panic);
        }
    }));
}
