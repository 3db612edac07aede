//! Damaged and hostile JPEGs, with and without restart markers and an index of them: each gives pixels
//! or an error, within a bounded time. There is never a panic, and never memory allocated because a
//! number in the file asks for it.

mod bombs;
mod damage;
mod indexes;
mod loader;

use crate::common::jpegs::{pixels, unmeasured};
use fuseloop::Error;
use fuseloop::internals::decode::Decoder;

/// All pixels, or the error.
fn whole(decoder: &mut Decoder, bytes: &[u8]) -> Result<Vec<u8>, Error> {
    let size = decoder.size(&unmeasured(bytes))?;
    pixels(decoder, bytes, size.full())
}

/// Fuzzing found this file: a damaged segment ends inside a coefficient's value. Where a window's cut ended
/// with that segment, its pixels were other ones than those of the whole image.
#[test]
fn a_window_that_ends_with_a_damaged_segment_has_the_pixels_of_the_whole() {
    let path =
        concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/jpeg/hostile/ends_in_a_value.jpg");
    let bytes = std::fs::read(path).unwrap();
    assert!(fuseloop::fuzzing::jpeg_window(&bytes), "the whole image is decoded");
}
