//! GPU kernels that are shipped as PTX, for machines without NVRTC.
//!
//! The first line of each kernel contains the SHA-256 of the source that it was compiled from, so that
//! a stale kernel is never used. `scripts/kernels_ptx.py` builds the kernels.

use hmac_sha256::Hash;
use std::fmt::Write as _;

/// The names of the kernels, and their PTX: version 8.0, for compute capability 7.5 and above.
pub const SHIPPED_PTX: &[(&str, &str)] = include!("shipped_table.in");

/// Returns the PTX of the kernels whose source is `source`, if they are shipped.
#[must_use]
pub fn shipped_ptx(source: &str) -> Option<&'static str> {
    let mut head = "// source ".to_owned();
    for byte in Hash::hash(source.as_bytes()) {
        let _ = write!(head, "{byte:02x}");
    }
    head.push('\n');
    SHIPPED_PTX.iter().map(|(_, ptx)| *ptx).find(|ptx| ptx.starts_with(&head))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_texts_have_none() {
        assert_eq!(shipped_ptx("KERNEL(batch, Arguments) {}"), None);
        assert!(SHIPPED_PTX.iter().all(|(_, ptx)| ptx.starts_with("// source ")));
    }
}
