//! The index of a video file: its packets, its frames, and the packets to decode for given frames.
//!
//! Packets are in decoding order, frames in presentation order. Frame n is the n-th picture that a player shows; it names
//! its packet and its time. A plan starts at the key packet before a frame and leaves out the leading packets of that
//! key packet: they follow it, are shown before it, and refer to pictures before it (open groups of pictures). A frame of
//! a leading packet is decoded from one group of pictures earlier.

use crate::VideoError;
use crate::VideoErrorKind::Parameter;
use crate::read_at::ReadExactAt;

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

/// Quarter turns clockwise that a player applies to the decoded picture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Rotation {
    /// The picture is shown as decoded.
    #[default]
    None,
    /// A quarter turn clockwise.
    Clockwise90,
    /// A half turn.
    Clockwise180,
    /// Three quarter turns clockwise.
    Clockwise270,
}

/// The matrix between RGB and the decoded Y'CbCr values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MatrixCoefficients {
    /// The container states none. The codec's bytes may.
    #[default]
    Unknown,
    /// ITU-R BT.601, and SMPTE 170M and BT.470 BG, whose matrix is the same.
    Bt601,
    /// ITU-R BT.709.
    Bt709,
    /// ITU-R BT.2020 with non-constant luminance.
    Bt2020,
    /// Another matrix, by its number in ITU-T H.273.
    Other(u8),
}

/// What a container states about the colours of its pictures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Color {
    /// The matrix.
    pub matrix: MatrixCoefficients,
    /// True for luma from 0 to 255, false for 16 to 235; nothing if the container does not say so.
    pub is_full_range: Option<bool>,
}

/// A packet: the bytes of one picture of the video track.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Packet {
    /// The offset of its first byte in the file.
    pub offset: u64,
    /// Number of its bytes; never 0.
    pub size: u32,
    /// The presentation time in units of [`VideoIndex::time_base`], before edit lists.
    pub pts: i64,
    /// True if decoding can start at this packet.
    pub is_key: bool,
    /// False if a decoder returns no picture for it, such as for an alternate reference frame of VP8.
    pub is_shown: bool,
}

/// A frame of the presentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FrameEntry {
    /// The packet whose picture is shown. Several frames may show the same packet.
    pub packet: u32,
    /// The time at which it is shown, in units of [`VideoIndex::time_base`].
    pub pts: i64,
}

/// Limits on what the index of a file may need.
///
/// ```
/// use fuseloop_video::VideoLimits;
///
/// let limits = VideoLimits { max_packets: 10_000, ..VideoLimits::DEFAULT };
/// assert!(limits.max_pixels > 3840 * 2160);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VideoLimits {
    /// Maximum number of packets of a file, and of its frames.
    pub max_packets: u64,
    /// Maximum number of pixels of a frame, width times height.
    pub max_pixels: u64,
    /// Maximum size of a packet in bytes.
    pub max_packet_bytes: u64,
    /// Maximum size of each table of a container in bytes.
    pub max_table_bytes: u64,
}

impl VideoLimits {
    /// The default: 2^26 packets (12 days at 60 frames a second), 178 Mpixel, 1 GiB for a packet, 1 GiB for a table.
    pub const DEFAULT: Self = Self {
        max_packets: 1 << 26,
        max_pixels: 178_956_970,
        max_packet_bytes: 1 << 30,
        max_table_bytes: 1 << 30,
    };
    /// Limits for tests and fuzzing: 65,536 packets, 1 Mpixel, 4 MiB for a packet, 16 MiB for a table.
    pub const SMALL: Self = Self {
        max_packets: 1 << 16,
        max_pixels: 1 << 20,
        max_packet_bytes: 4 << 20,
        max_table_bytes: 16 << 20,
    };
}

impl Default for VideoLimits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The index of the first video track of a file.
///
/// ```no_run
/// use fuseloop_video::{VideoIndex, VideoLimits};
///
/// let file = std::fs::File::open("clip.mp4")?;
/// let index = VideoIndex::read(&file, &VideoLimits::DEFAULT)?;
/// println!("{:?} {}x{}: {} frames", index.codec, index.width, index.height, index.frame_count());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VideoIndex {
    /// The codec.
    pub codec: Codec,
    /// Width in pixels as the container states it, before rotation.
    pub width: u32,
    /// Height in pixels as the container states it, before rotation.
    pub height: u32,
    /// Quarter turns that a player applies.
    pub rotation: Rotation,
    /// Bytes that a decoder needs before the first packet: `avcC`, `hvcC`, `av1C` or `vpcC` without their box headers, the
    /// decoder-specific descriptor of MPEG-4, the codec private bytes of Matroska, or the bytes of an AVI file after its
    /// `BITMAPINFOHEADER`.
    pub extradata: Vec<u8>,
    /// What the container states about colours.
    pub color: Color,
    /// A unit of time in seconds, as a fraction: numerator and denominator, neither of them 0.
    pub time_base: (u32, u32),
    /// All packets, in decoding order.
    pub packets: Vec<Packet>,
    /// The frames, in presentation order. Packets that an edit list hides are not among them.
    pub frames: Vec<FrameEntry>,
}

/// Packets to decode for given frames.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DecodePlan {
    /// Independent runs of packets, in the order of their frames. A decoder is reset between them.
    pub runs: Vec<DecodeRun>,
}

/// A run of packets that begins with a key packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DecodeRun {
    /// Numbers of the packets to decode, ascending: the decoding order. Each whose [`Packet::is_shown`] is true gives one
    /// picture, after the decoder was drained at the end of the run.
    pub packets: Vec<u32>,
    /// The distinct frames that were asked for and come from these packets, ascending.
    pub frames: Vec<u32>,
}

impl VideoIndex {
    /// Returns the number of frames that a player shows.
    #[must_use]
    pub fn frame_count(&self) -> usize {
        self.frames.len()
    }

    /// Returns the presentation time of a frame in seconds, or nothing if there is no such frame.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a time in seconds, as double precision has it")]
    pub fn time(&self, frame: usize) -> Option<f64> {
        let (numerator, denominator) = self.time_base;
        let frame = self.frames.get(frame)?;
        Some(frame.pts as f64 * f64::from(numerator) / f64::from(denominator))
    }

    /// Returns the packets to decode for frames, which may repeat and need no order.
    ///
    /// # Errors
    ///
    /// Fails if the video does not have one of the frames.
    pub fn plan(&self, frames: &[u32]) -> Result<DecodePlan, VideoError> {
        let _ = frames;
        Err(VideoError::new(Parameter, "not written yet"))
    }

    /// Returns the numbers of packets that give a picture, sorted by presentation time: the order in which a decoder
    /// returns the pictures of a [`DecodeRun`].
    #[must_use]
    pub fn presentation_order(&self, packets: &[u32]) -> Vec<u32> {
        let shown = |number: &u32| self.packets.get(*number as usize).is_some_and(|p| p.is_shown);
        let mut order: Vec<u32> = packets.iter().copied().filter(shown).collect();
        order.sort_by_key(|&number| (self.packets[number as usize].pts, number));
        order
    }

    /// Reads the index of a file. The container is recognized by its bytes.
    ///
    /// # Errors
    ///
    /// Fails if the file can't be read, is no video file, is damaged or cut, exceeds a limit, or has no video track.
    pub fn read(file: &dyn ReadExactAt, limits: &VideoLimits) -> Result<Self, VideoError> {
        let _ = (file, limits);
        Err(VideoError::new(Parameter, "not written yet"))
    }
}
