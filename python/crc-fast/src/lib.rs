//! CRC-64/NVME by the interface of the crate `crc-fast`, as far as `object_store` uses it.

/// The checksum to compute.
pub enum CrcAlgorithm {
    /// The CRC-64 of the NVM Express specification, which S3 calls `CRC64NVME`.
    Crc64Nvme,
}

/// A checksum of the bytes so far.
pub struct Digest(u64);

/// The polynomial, its lowest coefficient in the highest bit.
const POLYNOMIAL: u64 = 0x9a6c_9329_ac4b_c9b5;

impl Digest {
    /// Creates the checksum of no bytes.
    pub fn new(CrcAlgorithm::Crc64Nvme: CrcAlgorithm) -> Self {
        Self(u64::MAX)
    }

    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 ^= u64::from(*byte);
            for _ in 0..8 {
                let is_odd = self.0 & 1 == 1;
                self.0 = self.0 >> 1 ^ if is_odd { POLYNOMIAL } else { 0 };
            }
        }
    }

    /// Returns the checksum.
    pub fn finalize(self) -> u64 {
        !self.0
    }
}

#[cfg(test)]
mod tests {
    use super::{CrcAlgorithm, Digest};

    /// The check value of the catalogue of parametrised CRC algorithms.
    #[test]
    fn the_checksum_of_nine_digits_is_the_catalogues() {
        let mut digest = Digest::new(CrcAlgorithm::Crc64Nvme);
        digest.update(b"1234");
        digest.update(b"56789");
        assert_eq!(digest.finalize(), 0xae8b_1486_0a79_9888);
    }
}
