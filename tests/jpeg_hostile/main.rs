//! Damaged and hostile JPEGs, with and without restart markers and an index of them: pixels or an
//! error, soon. Never a panic, never memory on a number's word.

#![allow(clippy::unwrap_used, reason = "a test fails with what it unwraps")]

mod bombs;
#[path = "../common/counting.rs"]
mod counting;
mod damage;
mod indexes;
#[path = "../common/jpegs.rs"]
#[allow(dead_code, unreachable_pub, clippy::unwrap_used, reason = "each binary uses its own part")]
mod jpegs;
mod loader;
#[path = "../common/photographs.rs"]
mod photographs;
#[path = "../common/rounds.rs"]
mod rounds;

use fuseloop::decode::{DecodeError, Decoder};
use jpegs::{pixels, unmeasured};

/// All pixels, if the file is not refused.
fn whole(decoder: &mut Decoder, bytes: &[u8]) -> Result<Vec<u8>, DecodeError> {
    let size = decoder.size(&unmeasured(bytes))?;
    pixels(decoder, bytes, size.full())
}
