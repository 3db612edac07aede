//! Frames that no decoder returns: hidden packets, and packets whose references are not in the file.
//!
//! Packets that begin a gradual refresh of H.264 are not key packets, though containers list them as such.
//! In containers without presentation times, such as AVI with H.264, nor are packets at which a decoder drops pictures.
//!
//! | codec         | packet                                                     | its frame                 |
//! |---------------|------------------------------------------------------------|---------------------------|
//! | VP8, VP9      | an alternate reference: its header says that it is not shown | is left out               |
//! | MPEG-4 Part 2 | an N-VOP, which has no picture                             | repeats the one before    |
//! | all           | packets before the first key packet                        | is left out               |
//! | all           | leading packets of the first key packet                    | is left out               |
//! | HEVC          | the same, if they are RADL pictures                        | stays: they can be decoded |

use crate::fields::Fields;
use crate::mpeg4::{self, Vol};
use crate::read_at::Headers;
use crate::{Codec, Packet, VideoError, VideoIndex};

/// Maximum size of an N-VOP in bytes: a start code, two bits, a time and a flag.
const N_VOP_BYTES: u32 = 32;

/// Marks the packets of an index that give no picture, and takes the frames out that no decoder returns.
pub(crate) fn mark(index: &mut VideoIndex, headers: &mut Headers<'_>) -> Result<(), VideoError> {
    if index.max_reordering > 0 {
        keep_closed_keys(index, headers)?;
    }
    match index.codec {
        Codec::Vp8 => mark_hidden(index, headers, is_shown_vp8)?,
        Codec::Vp9 => mark_hidden(index, headers, is_shown_vp9)?,
        Codec::Mpeg4 => repeat_n_vops(index, headers)?,
        Codec::H264 => drop_gradual_keys(index, headers)?,
        _ => {}
    }
    drop_before_first_key(index, headers)
}

type IsShown = fn(&Packet, &mut Headers<'_>) -> Result<bool, VideoError>;

fn mark_hidden(
    index: &mut VideoIndex,
    headers: &mut Headers<'_>,
    is_shown: IsShown,
) -> Result<(), VideoError> {
    for packet in &mut index.packets {
        packet.is_shown = is_shown(packet, headers)?;
    }
    let packets = &index.packets;
    index.frames.retain(|frame| packets[frame.packet as usize].is_shown);
    Ok(())
}

/// Reads the flag `show_frame` of VP8: bit 4 of the first byte (RFC 6386, section 9.1).
fn is_shown_vp8(packet: &Packet, headers: &mut Headers<'_>) -> Result<bool, VideoError> {
    let first = headers.up_to(packet.offset, 1)?.first().copied();
    Ok(first.is_none_or(|byte| byte & 0x10 != 0))
}

/// Reads the flags `show_existing_frame` and `show_frame` of VP9 (bitstream specification, section 6.2). A superframe
/// contains hidden frames and one that is shown; the last byte of the packet marks it (Annex B).
fn is_shown_vp9(packet: &Packet, headers: &mut Headers<'_>) -> Result<bool, VideoError> {
    let Some(first) = headers.up_to(packet.offset, 1)?.first().copied() else { return Ok(true) };
    // frame_marker (2 bits), profile (2 bits, and one that is 0 for profile 3), show_existing_frame, frame_type,
    // show_frame.
    let after_profile = if first & 0x30 == 0x30 { first << 1 } else { first };
    if after_profile & 0x08 != 0 || after_profile & 0x02 != 0 {
        return Ok(true);
    }
    let last = packet.offset + u64::from(packet.size) - 1;
    let last = headers.up_to(last, 1)?.first().copied();
    Ok(last.is_some_and(|byte| byte & 0xe0 == 0xc0))
}

/// Lets the frames of N-VOPs repeat the frames before them. A container that states presentation times has them seldom.
fn repeat_n_vops(index: &mut VideoIndex, headers: &mut Headers<'_>) -> Result<(), VideoError> {
    let vol = Vol::find(&index.extradata);
    for packet in index.packets.iter_mut().filter(|packet| packet.size <= N_VOP_BYTES) {
        let bytes = headers.up_to(packet.offset, packet.size as usize)?;
        packet.is_shown = mpeg4::vop(bytes, vol).is_none_or(|vop| vop.is_coded);
    }
    let mut before = None;
    for frame in &mut index.frames {
        if index.packets[frame.packet as usize].is_shown {
            before = Some(frame.packet);
        } else {
            frame.packet = before.unwrap_or(frame.packet);
        }
    }
    let packets = &index.packets;
    index.frames.retain(|frame| packets[frame.packet as usize].is_shown);
    Ok(())
}

/// Number of bytes at the beginning of a packet in which its kind is searched. Messages of encoders come first.
const KIND_BYTES: usize = 4096;

/// Leaves only the key packets of closed groups of pictures, for containers without presentation times. A decoder that starts
/// at another one drops the pictures that are shown before it, and frames are found by counting pictures. The first key packet
/// stays, because the file begins with it.
fn keep_closed_keys(index: &mut VideoIndex, headers: &mut Headers<'_>) -> Result<(), VideoError> {
    let mut closed = vec![];
    for &key in &index.keys {
        let packet = &mut index.packets[key as usize];
        let bytes = headers.up_to(packet.offset, KIND_BYTES.min(packet.size as usize))?;
        packet.is_key = closed.is_empty() || starts_closed(&index.codec, bytes);
        if packet.is_key {
            closed.push(key);
        }
    }
    index.keys = closed;
    Ok(())
}

/// Returns true if a packet with start codes begins a closed group of pictures: an IDR picture of H.264 (NAL units of type 5)
/// or HEVC (19, 20), a group header of MPEG-2 that says so.
fn starts_closed(codec: &Codec, bytes: &[u8]) -> bool {
    bytes.windows(8).filter(|window| window.starts_with(&[0, 0, 1])).any(|window| match codec {
        Codec::H264 => window[3] & 0x1f == 5,
        Codec::Hevc => matches!(window[3] >> 1 & 0x3f, 19 | 20),
        // After a time of 25 bits.
        Codec::Mpeg2 => window[3] == 0xb8 && window[7] & 0x40 != 0,
        _ => true,
    })
}

/// Takes the key packets out that begin a gradual refresh of H.264: several pictures follow until the last part of the picture
/// is renewed, and decoders return none before. The second key packet of the file shows whether it has such ones.
fn drop_gradual_keys(index: &mut VideoIndex, headers: &mut Headers<'_>) -> Result<(), VideoError> {
    let length_bytes = match index.extradata[..] {
        [1, _, _, _, lengths, ..] => Some(usize::from(lengths & 3) + 1),
        _ => None,
    };
    let mut is_gradual = |packet: &Packet| {
        let bytes = headers.up_to(packet.offset, KIND_BYTES.min(packet.size as usize))?;
        Ok(begins_gradual_refresh(bytes, length_bytes))
    };
    let Some(&second) = index.keys.get(1) else { return Ok(()) };
    if !is_gradual(&index.packets[second as usize])? {
        return Ok(());
    }
    for &key in &index.keys[1..] {
        let packet = &mut index.packets[key as usize];
        packet.is_key = !is_gradual(packet)?;
    }
    let packets = &index.packets;
    index.keys.retain(|key| packets[*key as usize].is_key);
    Ok(())
}

/// Returns true if a packet of H.264 has a message with a recovery point some pictures later (ITU-T H.264, sections D.1.8 and
/// 7.3.1). NAL units have a length of `length_bytes` in front of them, or start codes.
fn begins_gradual_refresh(mut bytes: &[u8], length_bytes: Option<usize>) -> bool {
    loop {
        let found = match length_bytes {
            Some(count) => bytes.split_at_checked(count).map(|(length, rest)| {
                let length = length.iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
                rest.split_at(length.min(rest.len()))
            }),
            None => bytes.windows(3).position(|window| window == [0, 0, 1]).map(|at| {
                let rest = &bytes[at + 3..];
                let end = rest.windows(3).position(|window| window == [0, 0, 1]);
                rest.split_at(end.unwrap_or(rest.len()))
            }),
        };
        let Some((unit, rest)) = found else { return false };
        match unit.first().map(|header| header & 0x1f) {
            // A slice: the messages come before it.
            Some(1..=5) => return false,
            Some(6) if recovers_later(&unit[1..]) => return true,
            _ => bytes = rest,
        }
    }
}

/// Reads the messages of a NAL unit. A recovery point has type 6, and begins with the number of pictures until it: a single bit
/// 1 for none.
fn recovers_later(unit: &[u8]) -> bool {
    // A byte 3 after two zeros was inserted.
    let mut messages = Vec::with_capacity(unit.len());
    for &byte in unit {
        if byte != 3 || !messages.ends_with(&[0, 0]) {
            messages.push(byte);
        }
    }
    let mut fields = Fields(&messages);
    // Types and sizes are sums of bytes up to the first that is not 255.
    let sum = |fields: &mut Fields<'_>| {
        let mut sum = 0;
        loop {
            let byte = fields.u8()?;
            sum += usize::from(byte);
            if byte != 255 {
                return Some(sum);
            }
        }
    };
    loop {
        let (Some(kind), Some(size)) = (sum(&mut fields), sum(&mut fields)) else { return false };
        let Some(message) = fields.bytes(size) else { return false };
        if kind == 6 {
            return message.first().is_some_and(|byte| byte & 0x80 == 0);
        }
    }
}

fn drop_before_first_key(
    index: &mut VideoIndex,
    headers: &mut Headers<'_>,
) -> Result<(), VideoError> {
    let Some(first) = index.keys.first().copied() else { return Ok(()) };
    let mut undecodable: Vec<u32> = (0..first).collect();
    for packet in index.leading(first) {
        let is_hevc = index.codec == Codec::Hevc;
        if !is_hevc || !is_radl(&index.packets[packet as usize], headers)? {
            undecodable.push(packet);
        }
    }
    if !undecodable.is_empty() {
        index.frames.retain(|frame| undecodable.binary_search(&frame.packet).is_err());
    }
    Ok(())
}

/// Returns true if the first slice of a packet of HEVC is a decodable leading picture (ITU-T H.265, table 7-1). NAL units
/// have four bytes in front of them: their length or a start code.
fn is_radl(packet: &Packet, headers: &mut Headers<'_>) -> Result<bool, VideoError> {
    let end = packet.offset + u64::from(packet.size);
    let mut at = packet.offset;
    // Parameter sets and messages come first. A packet has few of them.
    for _ in 0..16 {
        let Some([a, b, c, d, header]) = headers.array::<5>(at)? else { break };
        let (length, unit) = (u32::from_be_bytes([a, b, c, d]), header >> 1 & 0x3f);
        if unit < 32 {
            return Ok(matches!(unit, 6 | 7));
        }
        at = at.saturating_add(4).saturating_add(u64::from(length));
        if length < 2 || at >= end {
            break;
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns messages of a type with their contents.
    fn messages(all: &[(u8, &[u8])]) -> Vec<u8> {
        let message =
            |(kind, contents): &(u8, &[u8])| [&[*kind, contents.len() as u8], *contents].concat();
        all.iter().flat_map(message).chain([0x80]).collect()
    }

    #[test]
    fn a_recovery_point_some_pictures_later_begins_a_gradual_refresh() {
        let (now, later): (&[u8], &[u8]) = (&[0xc4], &[0x24]);
        assert!(!recovers_later(&messages(&[(5, &[1, 2]), (6, now)])));
        assert!(recovers_later(&messages(&[(5, &[1, 2]), (6, later)])));
        // A byte 3 that was inserted does not count.
        assert!(recovers_later(&[&[5, 3, 0, 0, 3, 1][..], &[6, 1, 0x24, 0x80]].concat()));
        assert!(!recovers_later(&messages(&[(5, later)])));
        assert!(!recovers_later(&[5, 255]));

        let units: [&[u8]; 3] =
            [&[0x67, 1, 2], &[&[6], &messages(&[(6, later)])[..]].concat(), &[0x41, 9]];
        let with_lengths: Vec<u8> =
            units.iter().flat_map(|unit| [&[0, unit.len() as u8], *unit].concat()).collect();
        assert!(begins_gradual_refresh(&with_lengths, Some(2)));
        let with_codes: Vec<u8> =
            units.iter().flat_map(|unit| [&[0, 0, 1], *unit].concat()).collect();
        assert!(begins_gradual_refresh(&with_codes, None));
        // Messages after a slice are those of another picture.
        let other: Vec<u8> =
            [units[2], units[1]].iter().flat_map(|unit| [&[0, 0, 1], *unit].concat()).collect();
        assert!(!begins_gradual_refresh(&other, None));
        assert!(!begins_gradual_refresh(&[], Some(4)));
    }
}
