//! CRC-64/NVME, with the interface that object_store uses.
//!
//! ```text
//! polynomial 0xad93d23594c93659, bits reflected, all ones before and after
//! ```

/// The polynomial, with its bits in reverse order.
const POLYNOMIAL: u64 = 0x9a6c_9329_ac4b_c9b5;

/// The checksums that there are.
#[derive(Clone, Copy, Debug)]
pub enum CrcAlgorithm {
    /// CRC-64/NVME.
    Crc64Nvme,
}

/// A checksum of the bytes so far.
#[derive(Clone, Copy, Debug)]
pub struct Digest {
    state: u64,
}

impl Digest {
    /// Returns the checksum of no bytes.
    #[must_use]
    pub const fn new(algorithm: CrcAlgorithm) -> Self {
        match algorithm {
            CrcAlgorithm::Crc64Nvme => Self { state: u64::MAX },
        }
    }

    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.state ^= u64::from(byte);
            for _ in 0..8 {
                let carry = self.state & 1 == 1;
                self.state = (self.state >> 1) ^ if carry { POLYNOMIAL } else { 0 };
            }
        }
    }

    /// Returns the checksum.
    #[must_use]
    pub const fn finalize(&self) -> u64 {
        !self.state
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_of_nine_digits_is_that_of_the_catalogue() {
        let mut digest = Digest::new(CrcAlgorithm::Crc64Nvme);
        digest.update(b"12345");
        digest.update(b"6789");
        assert_eq!(digest.finalize(), 0xae8b_1486_0a79_9888);
    }
}
