//! What several test binaries share.
#![allow(dead_code, unreachable_pub, reason = "each binary uses its own part")]

pub mod dataset;
pub mod guarded;
