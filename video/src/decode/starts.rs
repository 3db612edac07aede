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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{VideoIndex, VideoLimits};

    /// Returns whether decoding can start at each packet of a golden file, and whether its container says so.
    fn starts(name: &str) -> Option<Vec<(bool, bool)>> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/");
        let file = std::fs::read(format!("{folder}{name}")).ok()?;
        let index = VideoIndex::read(&file, &VideoLimits::DEFAULT).unwrap();
        let found = index.packets().iter().map(|packet| {
            let bytes = &file[packet.offset as usize..][..packet.size as usize];
            (start(&index.codec, &index.extradata, bytes) != Start::Never, packet.is_key)
        });
        Some(found.collect())
    }

    #[test]
    fn decoding_can_start_where_correct_containers_say() {
        let names = [
            "frames/high.mp4",
            "frames/main.mp4",
            "frames/open_gop.mp4",
            "frames/annex_b.avi",
            "frames/hevc.mp4",
            "containers/hevc_radl.mp4",
            "frames/mpeg4.mp4",
            "frames/xvid.avi",
            "frames/mpeg2.mp4",
            "frames/vp8.webm",
            "frames/vp9.webm",
            "frames/motion_jpeg.avi",
        ];
        for name in names {
            let found = starts(name).unwrap();
            assert!(found.iter().all(|(found, stated)| found == stated), "{name} {found:?}");
        }
        for name in ["av1_video.mkv", "h265_video.mp4", "bikes.mp4"] {
            match starts(&format!("../../../../shared/data/video/{name}")) {
                Some(found) => {
                    assert!(found.iter().all(|(found, stated)| found == stated), "{name}");
                }
                None => println!("{name} is left out: it is not there"),
            }
        }
    }

    #[test]
    fn types_of_pictures_are_read() {
        let key = |codec, bytes: &[u8]| start(&codec, &[], bytes) == Start::Closed;
        let mpeg2 = |kind: u8| key(Codec::Mpeg2, &[9, 0, 0, 1, 0, 0xff, 0xc0 | kind << 3, 0]);
        assert_eq!([mpeg2(1), mpeg2(2), mpeg2(3)], [true, false, false]);
        assert!(key(Codec::MsMpeg4V3, &[0x3f]) && !key(Codec::MsMpeg4V3, &[0x40]));
        // After a temporal delimiter: a key frame, an inter frame, a frame that exists.
        let av1 = |first: u8| key(Codec::Av1, &[0x12, 0, 0x32, 2, first, 0]);
        assert_eq!([av1(0x10), av1(0x30), av1(0x80)], [true, false, false]);
        // Profile 3 of VP9 has one more bit.
        assert!(key(Codec::Vp9, &[0x82]) && !key(Codec::Vp9, &[0x86]));
        assert!(key(Codec::Vp9, &[0xb1]) && !key(Codec::Vp9, &[0xb2]));
        // Bytes that end too early are left to the decoder.
        assert!(key(Codec::Av1, &[0x12]) && key(Codec::Mpeg2, &[]) && key(Codec::Hevc, &[]));
    }
}
