//! TFRecord's frames (tensorflow/core/lib/io/record_writer.h).
//!
//! ```text
//! u64   length of the data, little-endian
//! u32   masked CRC-32C of these eight bytes
//! ...   the data
//! u32   masked CRC-32C of the data
//! ```
//!
//! `source/tfrecord/frame.rs` defines the masked CRC.

use crate::source::masked_crc32c;

/// Returns the frame of `data`.
pub(in crate::write) fn frame(data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u64).to_le_bytes();
    let mut bytes = Vec::with_capacity(data.len() + 16);
    bytes.extend(length);
    bytes.extend(masked_crc32c(&length).to_le_bytes());
    bytes.extend(data);
    bytes.extend(masked_crc32c(data).to_le_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computes CRC-32C bit by bit.
    fn plain_crc(bytes: &[u8]) -> u32 {
        let mut crc = u32::MAX;
        for &byte in bytes {
            crc ^= u32::from(byte);
            for _ in 0..8 {
                crc = (crc >> 1) ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 };
            }
        }
        !crc
    }

    #[test]
    #[expect(clippy::manual_rotate, reason = "the format's own words for it")]
    fn a_frame_has_two_checksums() {
        let data: Vec<u8> = (0..1000).map(|n| (n * 31 % 256) as u8).collect();
        let frame = frame(&data);
        let word = |at: usize| u32::from_le_bytes(frame[at..at + 4].try_into().unwrap());
        let masked = |crc: u32| ((crc >> 15) | (crc << 17)).wrapping_add(0xa282_ead8);
        assert_eq!(frame[..8], 1000_u64.to_le_bytes());
        assert_eq!(word(8), masked(plain_crc(&frame[..8])));
        assert_eq!(frame[12..1012], data[..]);
        assert_eq!((word(1012), frame.len()), (masked(plain_crc(&data)), 1016));
        // RFC 3720, B.4: 32 zeros.
        assert_eq!(plain_crc(&[0; 32]), 0x8a91_36aa);
    }
}
