//! The order of pictures of MPEG-4 Part 2 (ISO/IEC 14496-2), for containers that state no presentation times.
//!
//! AVI numbers packets in decoding order. A picture that others refer to (I, P, S) is shown when the next one of these
//! comes; a B picture is shown at once. The types of pictures (VOPs) are read from the first bytes of each packet.
//!
//! | a packet with                          | becomes                                                          |
//! |----------------------------------------|------------------------------------------------------------------|
//! | one VOP                                | a packet                                                         |
//! | several VOPs ("packed bitstream")      | several packets; the N-VOPs that follow as placeholders are left out |
//! | an N-VOP (`vop_coded` is 0), or nothing | a frame that repeats the last I, P or S picture                  |
//!
//! Packed streams announce themselves: their user data begin with `DivX` and end with `p`. Only then are all bytes of the
//! packets read.

use crate::index::PacketList;
use crate::read_at::Headers;
use crate::{FrameEntry, Packet, VideoError, VideoLimits};

/// A packet as a container without presentation times lists it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    pub(crate) offset: u64,
    /// 0 for a frame that repeats the one before.
    pub(crate) size: u64,
    /// The time of decoding.
    pub(crate) time: i64,
    pub(crate) is_key: bool,
}

/// The header of a video object layer: its part that describes times in VOPs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Vol {
    /// Number of bits of `vop_time_increment`.
    increment_bits: u32,
}

/// The header of a video object plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Vop {
    pub(crate) is_intra: bool,
    is_bidirectional: bool,
    /// False for an N-VOP, which has no picture.
    pub(crate) is_coded: bool,
}

/// Maximum number of bytes at the beginning of a packet in which the header of its VOP is searched.
const HEAD_BYTES: usize = 1024;

const VOP: u8 = 0xb6;
const USER_DATA: u8 = 0xb2;

/// Returns the frames of slots, and their packets in decoding order, with the slots' times in presentation order.
pub(crate) fn in_presentation_order(
    headers: &mut Headers<'_>,
    extradata: &[u8],
    slots: &[Slot],
    limits: &VideoLimits,
) -> Result<(Vec<Packet>, Vec<FrameEntry>), VideoError> {
    let mut list = PacketList::new(headers.len(), 1, limits);
    let mut order = Order::default();
    let mut vol = Vol::find(extradata);
    let mut is_packed = is_packed(extradata);
    let mut placeholders = 0;
    for slot in slots {
        let size = list.check_place(slot.offset, slot.size)? as usize;
        if size == 0 {
            order.repeat();
            continue;
        }
        let head = headers.up_to(slot.offset, size.min(HEAD_BYTES))?;
        if list.packets.is_empty() {
            vol = Vol::find(head).or(vol);
            is_packed |= self::is_packed(head);
        }
        let found = vop(head, vol);
        // A packet without a VOP is passed on: the decoder may know what it is.
        let found =
            found.unwrap_or(Vop { is_intra: slot.is_key, is_bidirectional: false, is_coded: true });
        if !found.is_coded {
            if placeholders > 0 {
                placeholders -= 1;
            } else {
                order.repeat();
            }
            continue;
        }
        let mut start = 0;
        if is_packed {
            let bytes = headers.table(slot.offset, slot.size, limits.max_packet_bytes, "packet")?;
            let vops: Vec<usize> =
                start_codes(&bytes).filter(|(_, code)| *code == VOP).map(|(at, _)| at).collect();
            for (&at, &next) in vops.iter().zip(vops.iter().skip(1)) {
                let first = vop(&bytes[at..], vol).unwrap_or(found);
                push(&mut list, &mut order, slot.offset + start as u64, next - start, first)?;
                start = next;
                placeholders += 1;
            }
            if let Some(last) = vops.last().filter(|_| start > 0) {
                let last = vop(&bytes[*last..], vol).unwrap_or(found);
                push(&mut list, &mut order, slot.offset + start as u64, size - start, last)?;
                continue;
            }
        }
        push(&mut list, &mut order, slot.offset, size, found)?;
    }
    let mut packets = list.packets;
    let frames = order.frames(slots, &mut packets);
    Ok((packets, frames))
}

/// Returns the frames of slots of a codec that does not reorder pictures, and their packets. An empty slot repeats the
/// frame before.
pub(crate) fn in_order(
    slots: &[Slot],
    file_len: u64,
    limits: &VideoLimits,
) -> Result<(Vec<Packet>, Vec<FrameEntry>), VideoError> {
    let mut list = PacketList::new(file_len, 1, limits);
    let mut frames = vec![];
    for slot in slots {
        if slot.size > 0 {
            list.push(slot.offset, slot.size, slot.time, slot.is_key)?;
        }
        if let Some(packet) = list.packets.len().checked_sub(1) {
            frames.push(FrameEntry { packet: packet as u32, pts: slot.time });
        }
    }
    Ok((list.packets, frames))
}

fn push(
    list: &mut PacketList,
    order: &mut Order,
    offset: u64,
    size: usize,
    vop: Vop,
) -> Result<(), VideoError> {
    let number = list.packets.len() as u32;
    list.push(offset, size as u64, 0, vop.is_intra)?;
    if vop.is_bidirectional {
        order.show_at_once(number);
    } else {
        order.show_later(number);
    }
    Ok(())
}

/// The pictures in presentation order; nothing for a repeat of a picture that the file does not have.
#[derive(Default)]
struct Order {
    shown: Vec<Option<u32>>,
    /// The last I, P or S picture, which is shown when the next one comes.
    held: Option<Option<u32>>,
}

impl Order {
    fn show_at_once(&mut self, packet: u32) {
        self.shown.push(Some(packet));
    }

    fn show_later(&mut self, packet: u32) {
        self.shown.extend(self.held.replace(Some(packet)));
    }

    fn repeat(&mut self) {
        let last = self.held.flatten();
        self.shown.extend(self.held.replace(last));
    }

    /// Returns the frames, which have the sorted times of the slots, and sets those of the packets.
    fn frames(mut self, slots: &[Slot], packets: &mut [Packet]) -> Vec<FrameEntry> {
        self.shown.extend(self.held);
        let mut times: Vec<i64> = slots.iter().map(|slot| slot.time).collect();
        times.sort_unstable();
        // Packed pictures whose placeholders are missing come after the last slot.
        let after = times.last().copied().unwrap_or_default();
        let times = times.into_iter().chain((1..).map(|count| after.saturating_add(count)));
        let mut frames: Vec<FrameEntry> = vec![];
        let mut is_timed = vec![false; packets.len()];
        for (packet, pts) in self.shown.into_iter().zip(times) {
            let Some(packet) = packet else { continue };
            if !std::mem::replace(&mut is_timed[packet as usize], true) {
                packets[packet as usize].pts = pts;
            }
            frames.push(FrameEntry { packet, pts });
        }
        frames
    }
}

/// Returns the start codes in bytes: the offset of each prefix, and the byte after it.
fn start_codes(bytes: &[u8]) -> impl Iterator<Item = (usize, u8)> {
    bytes
        .windows(4)
        .enumerate()
        .filter(|(_, window)| window.starts_with(&[0, 0, 1]))
        .map(|(at, window)| (at, window[3]))
}

/// Returns true if user data announce that packets have several VOPs.
fn is_packed(bytes: &[u8]) -> bool {
    start_codes(bytes).filter(|(_, code)| *code == USER_DATA).any(|(at, _)| {
        let text = &bytes[at + 4..];
        let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
        text[..end].starts_with(b"DivX") && text[..end].ends_with(b"p")
    })
}

/// Reads the header of the first VOP in bytes. Without a layer's header, it counts as coded.
pub(crate) fn vop(bytes: &[u8], vol: Option<Vol>) -> Option<Vop> {
    let (at, _) = start_codes(bytes).find(|(_, code)| *code == VOP)?;
    let mut bits = Bits::new(&bytes[at + 4..]);
    let kind = bits.take(2)?;
    let is_coded = vol.and_then(|vol| bits.is_coded(vol)).unwrap_or(true);
    Some(Vop { is_intra: kind == 0, is_bidirectional: kind == 2, is_coded })
}

impl Vol {
    /// Reads the header of the first video object layer in bytes (section 6.2.3).
    pub(crate) fn find(bytes: &[u8]) -> Option<Self> {
        let (at, _) = start_codes(bytes).find(|(_, code)| (0x20..=0x2f).contains(code))?;
        let mut bits = Bits::new(&bytes[at + 4..]);
        // random_accessible_vol, video_object_type_indication
        bits.take(9)?;
        // is_object_layer_identifier
        let version = if bits.take(1)? == 1 { bits.take(7)? >> 3 } else { 1 };
        // aspect_ratio_info, extended_PAR
        if bits.take(4)? == 15 {
            bits.take(16)?;
        }
        // vol_control_parameters
        if bits.take(1)? == 1 {
            // chroma_format, low_delay
            bits.take(3)?;
            // vbv_parameters
            if bits.take(1)? == 1 {
                bits.take(32)?;
                bits.take(32)?;
                bits.take(15)?;
            }
        }
        // video_object_layer_shape; 3 is grayscale
        if bits.take(2)? == 3 && version != 1 {
            bits.take(4)?;
        }
        // marker_bit, vop_time_increment_resolution
        bits.take(1)?;
        let resolution = bits.take(16)?;
        let increment_bits = (u32::BITS - resolution.saturating_sub(1).leading_zeros()).max(1);
        Some(Self { increment_bits })
    }
}

/// Bits, the most significant of each byte first.
struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Bits<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Takes at most 32 bits.
    fn take(&mut self, count: u32) -> Option<u32> {
        let mut value = 0;
        for _ in 0..count {
            let byte = self.bytes.get(self.at / 8)?;
            value = value << 1 | u32::from(byte >> (7 - self.at % 8) & 1);
            self.at += 1;
        }
        Some(value)
    }

    /// Reads `vop_coded`, after the type of the VOP: `modulo_time_base`, a marker, `vop_time_increment`, a marker.
    fn is_coded(&mut self, vol: Vol) -> Option<bool> {
        while self.take(1)? == 1 {}
        self.take(1)?;
        self.take(vol.increment_bits)?;
        self.take(1)?;
        Some(self.take(1)? == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the header of a layer with 25 ticks a second.
    fn layer() -> Vec<u8> {
        // random_accessible_vol 0, type 1, no identifier, square pixels, no control parameters, rectangular, marker,
        // 25 ticks.
        let bits = "0 00000001 0 0001 0 00 1 0000000000011001 1 0".replace(' ', "");
        [&[0, 0, 1, 0x20][..], &packed_bits(&bits)].concat()
    }

    fn picture(kind: &str, is_coded: bool) -> Vec<u8> {
        let bits = format!("{kind} 0 1 00000 1 {}", u8::from(is_coded)).replace(' ', "");
        [&[0, 0, 1, VOP][..], &packed_bits(&bits)].concat()
    }

    fn packed_bits(bits: &str) -> Vec<u8> {
        let bits: Vec<char> = bits.chars().collect();
        let byte = |bits: &[char]| {
            bits.iter().zip(0..).fold(0, |byte, (bit, at)| byte | u8::from(*bit == '1') << (7 - at))
        };
        bits.chunks(8).map(byte).collect()
    }

    #[test]
    fn headers_of_layers_and_pictures_are_read() {
        let vol = Vol::find(&layer());
        assert_eq!(vol, Some(Vol { increment_bits: 5 }));
        let found = |kind, is_coded| vop(&picture(kind, is_coded), vol).unwrap();
        assert_eq!(
            found("00", true),
            Vop { is_intra: true, is_bidirectional: false, is_coded: true }
        );
        assert_eq!(
            found("10", true),
            Vop { is_intra: false, is_bidirectional: true, is_coded: true }
        );
        assert!(!found("01", false).is_coded);
        assert_eq!(vop(&layer(), vol), None);
    }

    /// Returns the packets of frames in presentation order for packets of bytes in decoding order.
    fn order(packets: &[Vec<u8>]) -> (usize, Vec<(u32, i64)>) {
        let (mut file, mut slots) = (vec![], vec![]);
        for (packet, time) in packets.iter().zip(0..) {
            slots.push(Slot {
                offset: file.len() as u64,
                size: packet.len() as u64,
                time,
                is_key: time == 0,
            });
            file.extend(packet);
        }
        let mut headers = Headers::new(&file).unwrap();
        let (packets, frames) =
            in_presentation_order(&mut headers, &[], &slots, &VideoLimits::SMALL).unwrap();
        (packets.len(), frames.iter().map(|frame| (frame.packet, frame.pts)).collect())
    }

    #[test]
    fn b_pictures_are_shown_before_the_picture_that_precedes_them() {
        let first = [layer(), picture("00", true)].concat();
        let (i, p, b) = (picture("00", true), picture("01", true), picture("10", true));
        let packets = [first, p.clone(), b.clone(), b.clone(), i, b];
        assert_eq!(order(&packets), (6, vec![(0, 0), (2, 1), (3, 2), (1, 3), (5, 4), (4, 5)]));
    }

    #[test]
    fn empty_packets_and_n_vops_repeat_the_last_picture() {
        let first = [layer(), picture("00", true)].concat();
        let p = picture("01", true);
        let packets = [first, vec![], p.clone(), picture("01", false), p];
        assert_eq!(order(&packets), (3, vec![(0, 0), (0, 1), (1, 2), (1, 3), (2, 4)]));
        // There is nothing to repeat before the first picture.
        assert_eq!(order(&[vec![], packets[0].clone()]), (1, vec![(0, 1)]));
    }

    #[test]
    fn packed_pictures_become_packets_and_their_placeholders_are_left_out() {
        let user_data = [&[0, 0, 1, USER_DATA][..], b"DivX503b1393p"].concat();
        let first = [layer(), user_data, picture("00", true)].concat();
        let pair = [picture("01", true), picture("10", true)].concat();
        let placeholder = picture("01", false);
        let packets =
            [first, pair.clone(), placeholder.clone(), pair, placeholder.clone(), placeholder];
        let (count, frames) = order(&packets);
        // The last placeholder follows no pair: it is a repeated picture.
        assert_eq!(count, 5);
        assert_eq!(frames, [(0, 0), (2, 1), (1, 2), (4, 3), (3, 4), (3, 5)]);
    }
}
