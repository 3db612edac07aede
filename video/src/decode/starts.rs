//! Packets at which decoding can start, by their own bytes: what containers say of them is often wrong.
//!
//! | codec            | decoding can start at                                                              |
//! |------------------|------------------------------------------------------------------------------------|
//! | H.264            | an IDR picture, or intra slices with a recovery point that is exact at once          |
//! | HEVC             | a picture of NAL unit types 16 to 21: IDR, BLA, CRA                                  |
//! | MPEG-4, MPEG-2   | an I picture                                                                       |
//! | VP8, VP9, AV1    | a key frame                                                                        |
//! | others           | any packet that the container says                                                 |

use super::h264::{Framing, Nal};
use crate::fields::Fields;
use crate::{Codec, mpeg4};

/// How a decoder can start at a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// All later pictures can be decoded, but for those that decoders leave out by themselves.
    Closed,
    /// The picture is exact, and so are those that are shown after it: an open group of pictures of H.264.
    Open,
    /// As for `Open`, but the stream does not say so. Later pictures may refer to earlier ones.
    Unstated,
    /// Pictures are not exact before some more were decoded.
    Gradual,
    /// The packet refers to earlier ones.
    Never,
}

/// Returns how a decoder can start at a packet of a codec. `extradata` are the bytes that the container has for it.
pub(super) fn start(codec: &Codec, extradata: &[u8], packet: &[u8]) -> Start {
    let can_start = match codec {
        Codec::H264 => return Framing::of(extradata).start(packet),
        Codec::Hevc => hevc(extradata, packet),
        Codec::Mpeg4 => mpeg4::vop(packet, None).map(|vop| vop.is_intra),
        Codec::MsMpeg4V2 | Codec::MsMpeg4V3 => packet.first().map(|byte| byte >> 6 == 0),
        Codec::Mpeg2 => mpeg2(packet),
        Codec::Vp8 => packet.first().map(|byte| byte & 1 == 0),
        Codec::Vp9 => packet.first().map(vp9),
        Codec::Av1 => av1(packet),
        Codec::MotionJpeg | Codec::Other(_) => None,
    };
    if can_start.unwrap_or(true) { Start::Closed } else { Start::Never }
}

/// Returns true if the first slice of a packet is of a picture without references (ITU-T H.265, table 7-1).
fn hevc(extradata: &[u8], packet: &[u8]) -> Option<bool> {
    let framing = match extradata {
        [1, ..] => Framing::Lengths(usize::from(extradata.get(21)? & 3) + 1),
        _ => Framing::StartCodes,
    };
    // A header of two bytes, whose first one has the type where H.264 has other bits.
    let kind = |unit: &Nal<'_>| (unit.ref_idc << 5 | unit.kind) >> 1 & 0x3f;
    let units = framing.split(packet).ok()?;
    units.iter().map(kind).find(|&kind| kind < 32).map(|kind| matches!(kind, 16..=21))
}

/// Reads `picture_coding_type` of the first picture of a packet (ISO/IEC 13818-2, 6.2.3), after 10 bits of its number.
fn mpeg2(packet: &[u8]) -> Option<bool> {
    let header = packet.windows(6).find(|bytes| bytes.starts_with(&[0, 0, 1, 0]))?;
    Some(header[5] >> 3 & 7 == 1)
}

/// Reads `show_existing_frame` and `frame_type` of VP9 (bitstream specification, section 6.2).
fn vp9(first: &u8) -> bool {
    let after_profile = if first & 0x30 == 0x30 { first << 1 } else { *first };
    after_profile & 0x0c == 0
}

/// Reads `show_existing_frame` and `frame_type` of the first frame of AV1 (bitstream specification, 5.3 and 5.9.2).
fn av1(packet: &[u8]) -> Option<bool> {
    let mut fields = Fields(packet);
    loop {
        let header = fields.u8()?;
        if header & 4 != 0 {
            fields.u8()?;
        }
        if header & 2 == 0 {
            return None;
        }
        let mut size = 0;
        for shift in (0..56).step_by(7) {
            let byte = fields.u8()?;
            size |= usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
        let unit = fields.bytes(size)?;
        // OBU_FRAME_HEADER and OBU_FRAME.
        if matches!(header >> 3 & 15, 3 | 6) {
            return unit.first().map(|byte| byte & 0xe0 == 0);
        }
    }
}
