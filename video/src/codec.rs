//! Codecs, by the names that containers have for them.

use crate::decode::name;
use std::fmt;

/// The codec of a video track.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Codec {
    /// A JPEG per packet. Files of AVI often omit its Huffman tables, which are then those of the JPEG standard, Annex K.
    MotionJpeg,
    /// MPEG-4 Part 10, AVC. If the extradata begin with 1 they are an `avcC`, and packets have lengths in front of NAL
    /// units; otherwise they have start codes.
    H264,
    /// HEVC, with extradata as for H.264: an `hvcC`.
    Hevc,
    /// MPEG-4 Part 2: XviD, DivX 4 to 6, Simple and Advanced Simple Profile.
    Mpeg4,
    /// Microsoft's MPEG-4 version 2.
    MsMpeg4V2,
    /// Microsoft's MPEG-4 version 3, DivX 3.
    MsMpeg4V3,
    /// MPEG-1 or MPEG-2.
    Mpeg2,
    /// VP8.
    Vp8,
    /// VP9.
    Vp9,
    /// AV1.
    Av1,
    /// Another codec, by the name that the container has for it.
    Other(String),
}

/// The four-character codes of codecs, in upper case. AVI files have most of them, after the programs that wrote them.
const FOUR_CCS: [(Codec, &str); 10] = [
    (
        Codec::MotionJpeg,
        "MJPG JPEG MJPA AVRN AVDJ ADJV ACDV QIVG SLMJ CJPG IJLV MVJP AVI1 AVI2 MTSJ DMB1 ZJPG MMJP IJPG",
    ),
    (Codec::H264, "AVC1 AVC2 AVC3 AVC4 H264 X264 DAVC VSSH Q264 V264 GAVC UMSV DVAV DVA1"),
    (Codec::Hevc, "HVC1 HEV1 HEVC H265 X265 DVH1 DVHE"),
    (
        Codec::Mpeg4,
        "XVID DIVX DX50 FMP4 MP4V MP4S M4S2 DIV1 BLZ0 UMP4 3IV2 WV1F RMP4 HDX4 SEDG DYM4 SMP4 DIGI NDIG INMC PHDV \
         SN40 VX1K LMP4 EPHV HMP4 DCOD MVXM PM4V DXGM VIDM M4T3 GEOX XVIX",
    ),
    (Codec::MsMpeg4V2, "MP42 DIV2"),
    (Codec::MsMpeg4V3, "DIV3 MP43 DIV4 DIV5 DIV6 MPG3 AP41 COL0 COL1 DVX3"),
    (Codec::Mpeg2, "MPG1 MPG2 MPEG M1V1 M2V1 MP1V MP2V PIM1 PIM2 MPG1"),
    (Codec::Vp8, "VP80 VP08"),
    (Codec::Vp9, "VP90 VP09"),
    (Codec::Av1, "AV01"),
];

/// Shows the name of the codec, such as `H.264`.
impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&name(self))
    }
}

impl Codec {
    /// Returns the codec of a four-character code in an AVI, MP4 or MOV file.
    pub(crate) fn of_four_cc(four_cc: [u8; 4]) -> Self {
        let name = four_cc_name(four_cc);
        let upper = name.to_ascii_uppercase();
        let found = FOUR_CCS
            .iter()
            .find(|(_, names)| names.split_ascii_whitespace().any(|known| known == upper));
        found.map_or(Self::Other(name), |(codec, _)| codec.clone())
    }

    /// Returns true if decoders return pictures of this codec in another order than that of its packets.
    pub(crate) fn reorders(&self) -> bool {
        matches!(self, Self::H264 | Self::Hevc | Self::Mpeg2)
    }
}

/// Returns a four-character code as text, in hexadecimal digits if it has other characters.
pub(crate) fn four_cc_name(four_cc: [u8; 4]) -> String {
    match std::str::from_utf8(&four_cc) {
        Ok(text) if text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) => {
            text.trim_end().to_owned()
        }
        _ => format!("0x{:08x}", u32::from_be_bytes(four_cc)),
    }
}
