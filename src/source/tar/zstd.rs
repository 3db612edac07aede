//! Zstandard, decompressed in sequence (RFC 8878).
//!
//! The `ruzstd` crate decodes one frame; this reader goes through all frames of a file, skips those that
//! hold no data, and compares checksums:
//!
//! | bytes                        | what is read                                               |
//! |------------------------------|------------------------------------------------------------|
//! | `28 B5 2F FD`                | a frame: up to [`MAX_WINDOW`] bytes of memory               |
//! | `50..5F 2A 4D 18`, a length  | a skippable frame, which is passed over (RFC 8878, 3.1.2)   |
//! | the end of the file          | the end of the data, if the frame before it is complete     |
//! | anything else                | an error                                                   |

use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::io::{self, BufRead, Read};

/// The largest window that is accepted: 128 MiB, the default limit of the `zstd` tool.
const MAX_WINDOW: u64 = 1 << 27;

/// The data of all frames of `source`.
pub(in crate::source) struct ZstdReader<R> {
    source: R,
    decoder: FrameDecoder,
    is_in_frame: bool,
}

impl<R: BufRead> ZstdReader<R> {
    /// Reads from the start of a frame.
    pub(in crate::source) fn new(source: R) -> Self {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(MAX_WINDOW);
        Self { source, decoder, is_in_frame: false }
    }

    /// Begins the next frame that has data. Returns whether there is one.
    fn begin(&mut self) -> io::Result<bool> {
        while !is_at_end(&mut self.source)? {
            match self.decoder.reset(&mut self.source) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let length = u64::from(length);
                    let skipped = io::copy(&mut (&mut self.source).take(length), &mut io::sink())?;
                    if skipped < length {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(error) => return Err(invalid(error)),
            }
        }
        Ok(false)
    }

    /// Compares the frame's checksum, if it has one, with that of the data.
    fn check(&self) -> io::Result<()> {
        let stored = self.decoder.get_checksum_from_data();
        match (stored, self.decoder.get_calculated_checksum()) {
            (Some(stored), Some(calculated)) if stored != calculated => Err(invalid(format!(
                "the checksum of a zstd frame is {stored:#010x}, its data has {calculated:#010x}"
            ))),
            _ => Ok(()),
        }
    }
}

impl<R: BufRead> Read for ZstdReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            if !self.is_in_frame {
                if !self.begin()? {
                    return Ok(0);
                }
                self.is_in_frame = true;
            }
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                let one = BlockDecodingStrategy::UptoBlocks(1);
                self.decoder.decode_blocks(&mut self.source, one).map_err(invalid)?;
            }
            let count = self.decoder.read(buffer)?;
            if count > 0 {
                return Ok(count);
            }
            self.check()?;
            self.is_in_frame = false;
        }
    }
}

/// Returns whether `source` has no more bytes.
fn is_at_end(source: &mut impl BufRead) -> io::Result<bool> {
    loop {
        match source.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            bytes => return bytes.map(<[u8]>::is_empty),
        }
    }
}

fn invalid(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    /// Bytes that compress well, and some that do not.
    fn data(len: usize) -> Vec<u8> {
        (0..len).map(|i| if i % 7 < 4 { 3 } else { (i * i / 31) as u8 }).collect()
    }

    fn frame(data: &[u8]) -> Vec<u8> {
        compress_to_vec(data, CompressionLevel::Fastest)
    }

    fn unpacked(bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut data = vec![];
        ZstdReader::new(bytes).read_to_end(&mut data).map(|_| data)
    }

    #[test]
    fn frames_follow_each_other_and_skippable_ones_are_passed_over() {
        let (first, second) = (data(300_000), data(10));
        let skippable = [&[0x5a, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"abc"].concat();
        let (one, two) = (frame(&first), frame(&second));
        let file = [&skippable[..], &one, &skippable, &two, &skippable].concat();
        assert!(unpacked(&file).unwrap() == [first, second].concat());
        assert!(unpacked(&[]).unwrap().is_empty());
        assert!(unpacked(&skippable).unwrap().is_empty());
    }

    #[test]
    fn an_incomplete_or_foreign_file_is_an_error() {
        let whole = frame(&data(5000));
        for end in 1..whole.len() {
            assert!(unpacked(&whole[..end]).is_err(), "{end} of {} bytes", whole.len());
        }
        assert!(unpacked(&[&whole[..], b"rubbish"].concat()).is_err());
        assert!(unpacked(&[0x5a, 0x2a, 0x4d, 0x18, 9, 0, 0, 0, 1]).is_err());
    }

    #[test]
    fn a_wrong_checksum_is_an_error() {
        let data = data(5000);
        let mut whole = frame(&data);
        // Bit 2 of the frame header's descriptor says that the last four bytes are a checksum.
        assert!(whole[4] & 4 != 0, "the encoder writes no checksum");
        *whole.last_mut().unwrap() ^= 1;
        let error = unpacked(&whole).unwrap_err().to_string();
        assert!(error.contains("the checksum of a zstd frame is"), "{error}");
    }

    #[test]
    fn changed_bits_are_an_error_or_the_same_data_and_never_a_panic() {
        let data = data(2000);
        let whole = frame(&data);
        for bit in 0..whole.len() * 8 {
            let mut changed = whole.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            if let Ok(read) = unpacked(&changed) {
                // Not seen by the checksum only if the flag that says there is one was changed.
                assert!(read == data || bit / 8 == 4, "bit {bit}");
            }
        }
    }

    #[test]
    fn a_window_over_the_limit_is_refused_before_memory_is_taken() {
        // A frame of several blocks whose window descriptor says 2 ^ (10 + 18) bytes.
        let file = [0x28, 0xb5, 0x2f, 0xfd, 0, 18 << 3, 1, 0, 0];
        let error = unpacked(&file).unwrap_err().to_string();
        assert!(error.to_lowercase().contains("window"), "{error}");
    }
}
