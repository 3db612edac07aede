//! The index as bytes, so that thousands of files open without being read.
//!
//! ```text
//! "FLVI", version (1 byte)
//! length of the video file
//! codec (1 byte; a name with its length after 255), its four-character code, width, height, quarter turns, matrix, range
//! numerator and denominator of the unit of time, maximum reordering
//! length of the extradata, the extradata
//! number of packets; for each: size * 4 + is_key * 2 + is_shown, distance from the end of the packet before, distance from
//!     its time
//! number of frames; for each: distance from the packet of the frame before, difference of its time from that of its packet
//!     as a distance from that of the frame before
//! CRC-32C of all before (4 bytes, little-endian)
//! ```
//!
//! Numbers are LEB128. Distances have a sign and are zigzag-coded. A packet takes 5 to 8 bytes, its frame 2.

use crate::error::{format_error, over_limit};
use crate::fields::Fields;
use crate::index::{MAX_REORDERING, PacketList};
use crate::{
    Codec, Color, FrameEntry, MatrixCoefficients, Rotation, VideoError, VideoIndex, VideoLimits,
};

const MAGIC: &[u8; 4] = b"FLVI";
const VERSION: u8 = 1;

/// Codecs by their numbers in the bytes.
const CODECS: [Codec; 10] = [
    Codec::MotionJpeg,
    Codec::H264,
    Codec::Hevc,
    Codec::Mpeg4,
    Codec::MsMpeg4V2,
    Codec::MsMpeg4V3,
    Codec::Mpeg2,
    Codec::Vp8,
    Codec::Vp9,
    Codec::Av1,
];
const OTHER_CODEC: u8 = 255;

impl VideoIndex {
    /// Returns the index as bytes. `file_len` is the length of the video file.
    ///
    /// ```
    /// use fuseloop_video::{VideoIndex, VideoLimits};
    ///
    /// # let path = "tests/golden/containers/b_pictures.mp4";
    /// let file = std::fs::File::open(path)?;
    /// let file_len = file.metadata()?.len();
    /// let index = VideoIndex::read(&file, &VideoLimits::DEFAULT)?;
    /// let bytes = index.to_bytes(file_len);
    /// assert_eq!(VideoIndex::from_bytes(&bytes, file_len, &VideoLimits::DEFAULT)?, index);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn to_bytes(&self, file_len: u64) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.push(VERSION);
        put(&mut bytes, file_len);
        match (CODECS.iter().position(|codec| *codec == self.codec), &self.codec) {
            (None, Codec::Other(name)) => {
                bytes.push(OTHER_CODEC);
                put(&mut bytes, name.len() as u64);
                bytes.extend(name.as_bytes());
            }
            (number, _) => bytes.push(number.map_or(OTHER_CODEC, |number| number as u8)),
        }
        bytes.extend(self.four_cc);
        put(&mut bytes, self.width.into());
        put(&mut bytes, self.height.into());
        bytes.push(self.rotation as u8);
        let [matrix, number] = match self.color.matrix {
            MatrixCoefficients::Unknown => [0, 0],
            MatrixCoefficients::Bt601 => [1, 0],
            MatrixCoefficients::Bt709 => [2, 0],
            MatrixCoefficients::Bt2020 => [3, 0],
            MatrixCoefficients::Other(number) => [4, number],
        };
        bytes.extend([matrix, number, self.color.is_full_range.map_or(2, u8::from)]);
        for number in [self.time_base.0, self.time_base.1, self.max_reordering] {
            put(&mut bytes, number.into());
        }
        put(&mut bytes, self.extradata.len() as u64);
        bytes.extend(&self.extradata);
        put(&mut bytes, self.packets.len() as u64);
        let (mut end, mut pts) = (0, 0);
        for packet in &self.packets {
            let flags = u64::from(packet.is_key) << 1 | u64::from(packet.is_shown);
            put(&mut bytes, u64::from(packet.size) << 2 | flags);
            put_distance(&mut bytes, packet.offset.wrapping_sub(end) as i64);
            put_distance(&mut bytes, packet.pts.wrapping_sub(pts));
            (end, pts) = (packet.offset + u64::from(packet.size), packet.pts);
        }
        put(&mut bytes, self.frames.len() as u64);
        let (mut packet, mut difference) = (0, 0);
        for frame in &self.frames {
            put_distance(&mut bytes, i64::from(frame.packet) - i64::from(packet));
            let own = frame.pts.wrapping_sub(self.packets[frame.packet as usize].pts);
            put_distance(&mut bytes, own.wrapping_sub(difference));
            (packet, difference) = (frame.packet, own);
        }
        let sum = crc32c::crc32c(&bytes);
        bytes.extend(sum.to_le_bytes());
        bytes
    }

    /// Returns the index of bytes that [`to_bytes`](Self::to_bytes) returned for a file of the same length.
    ///
    /// # Errors
    ///
    /// Fails if the bytes are damaged or of another version, exceed a limit, or are of a file with another length: then the
    /// video file has changed, and its index has to be read again. A changed file of the same length is not noticed here.
    pub fn from_bytes(
        bytes: &[u8],
        file_len: u64,
        limits: &VideoLimits,
    ) -> Result<Self, VideoError> {
        let damaged = || {
            format_error!("the saved index of a video is damaged: delete it, and it is made again")
        };
        let (body, sum) = bytes.split_last_chunk().ok_or_else(damaged)?;
        let mut fields = Fields(body);
        if fields.array().ok_or_else(damaged)? != *MAGIC {
            return Err(format_error!("the bytes are no saved index of a video"));
        }
        let version = fields.u8().ok_or_else(damaged)?;
        if version != VERSION {
            return Err(format_error!(
                "the saved index of a video has version {version}, this program reads version {VERSION}: delete it, and it \
                 is made again"
            ));
        }
        if crc32c::crc32c(body) != u32::from_le_bytes(*sum) {
            return Err(damaged());
        }
        let saved_len = take(&mut fields).ok_or_else(damaged)?;
        if saved_len != file_len {
            return Err(format_error!(
                "the saved index is of a video file with {saved_len} bytes, but the file has {file_len}: delete the index, \
                 and it is made again"
            ));
        }
        let mut index = head(&mut fields).ok_or_else(damaged)?;
        let mut list = PacketList::new(file_len, 1, limits);
        let count = take(&mut fields).ok_or_else(damaged)?;
        list.check_count(count)?;
        // A packet takes at least 3 bytes, a frame 2.
        list.packets.reserve_exact(reserved(count, 3, &fields));
        let (mut end, mut pts) = (0_u64, 0_i64);
        for _ in 0..count {
            let size = take(&mut fields).ok_or_else(damaged)?;
            let offset = end.wrapping_add(take_distance(&mut fields).ok_or_else(damaged)? as u64);
            pts = pts.wrapping_add(take_distance(&mut fields).ok_or_else(damaged)?);
            list.push(offset, size >> 2, pts, size & 2 != 0)?;
            if let Some(packet) = list.packets.last_mut().filter(|packet| packet.size > 0) {
                packet.is_shown = size & 1 != 0;
                end = offset + u64::from(packet.size);
            } else {
                return Err(damaged());
            }
        }
        index.packets = list.packets;
        let count = take(&mut fields).ok_or_else(damaged)?;
        if count > limits.max_packets {
            let most = limits.max_packets;
            return Err(over_limit!(
                "the saved index of a video has {count} frames, the limit is {most}"
            ));
        }
        index.frames.reserve_exact(reserved(count, 2, &fields));
        let (mut packet, mut difference) = (0_i64, 0_i64);
        for _ in 0..count {
            packet = packet.wrapping_add(take_distance(&mut fields).ok_or_else(damaged)?);
            difference = difference.wrapping_add(take_distance(&mut fields).ok_or_else(damaged)?);
            let number = u32::try_from(packet).map_err(|_| damaged())?;
            let own = index.packets.get(number as usize).filter(|packet| packet.is_shown);
            let own = own.ok_or_else(damaged)?;
            index.frames.push(FrameEntry { packet: number, pts: own.pts.wrapping_add(difference) });
        }
        if !fields.0.is_empty() || index.frames.is_empty() {
            return Err(damaged());
        }
        index.check(limits)?;
        Ok(index)
    }
}

/// Reads everything before the packets.
fn head(fields: &mut Fields<'_>) -> Option<VideoIndex> {
    let codec = match fields.u8()? {
        OTHER_CODEC => {
            let count = usize::try_from(take(fields)?).ok()?;
            Codec::Other(String::from_utf8(fields.bytes(count)?.to_vec()).ok()?)
        }
        number => CODECS.get(usize::from(number))?.clone(),
    };
    let four_cc = fields.array()?;
    let width = u32::try_from(take(fields)?).ok()?;
    let height = u32::try_from(take(fields)?).ok()?;
    let rotation = Rotation::of_quarter_turns(fields.u8()?.into());
    let matrix = match fields.array()? {
        [0, _] => MatrixCoefficients::Unknown,
        [1, _] => MatrixCoefficients::Bt601,
        [2, _] => MatrixCoefficients::Bt709,
        [3, _] => MatrixCoefficients::Bt2020,
        [_, number] => MatrixCoefficients::Other(number),
    };
    let is_full_range = match fields.u8()? {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    };
    let mut number = || u32::try_from(take(fields)?).ok();
    let time_base = (number()?, number()?);
    let max_reordering = Some(number()?).filter(|&most| most <= MAX_REORDERING)?;
    let count = usize::try_from(take(fields)?).ok()?;
    let extradata = fields.bytes(count)?.to_vec();
    let color = Color { matrix, is_full_range };
    let (packets, frames, keys) = (vec![], vec![], vec![]);
    Some(VideoIndex {
        codec,
        four_cc,
        width,
        height,
        rotation,
        extradata,
        color,
        time_base,
        max_reordering,
        packets,
        frames,
        keys,
    })
}

/// Returns how many elements to reserve memory for: `count`, or what the bytes can hold.
fn reserved(count: u64, least_bytes: usize, fields: &Fields<'_>) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX).min(fields.0.len() / least_bytes)
}

fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number > 0x7f {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn put_distance(bytes: &mut Vec<u8>, distance: i64) {
    put(bytes, (distance << 1 ^ distance >> 63) as u64);
}

fn take(fields: &mut Fields<'_>) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = fields.u8()?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

fn take_distance(fields: &mut Fields<'_>) -> Option<i64> {
    let number = take(fields)?;
    Some((number >> 1) as i64 ^ -((number & 1) as i64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_distances_are_read_as_they_were_written() {
        let mut bytes = vec![];
        let distances = [0, 1, -1, 63, -64, 64, i64::MAX, i64::MIN];
        let numbers = [0, 127, 128, 1 << 35, u64::MAX];
        distances.iter().for_each(|&distance| put_distance(&mut bytes, distance));
        numbers.iter().for_each(|&number| put(&mut bytes, number));
        let mut fields = Fields(&bytes);
        assert!(distances.iter().all(|&distance| take_distance(&mut fields) == Some(distance)));
        assert!(numbers.iter().all(|&number| take(&mut fields) == Some(number)));
        assert_eq!(take(&mut fields), None);
    }
}
