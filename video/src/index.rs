//! The index of a video file: its packets, its frames, and the packets to decode for given frames.
//!
//! Packets are in decoding order, frames in presentation order. Frame n is the n-th picture that a player shows; it names
//! its packet and its time. A plan starts at the key packet before a frame and leaves out the leading packets of that
//! key packet: they follow it, are shown before it, and refer to pictures before it (open groups of pictures). A frame of
//! a leading packet is decoded from one group of pictures earlier.

use crate::error::{format_error, over_limit, unsupported};
use crate::read_at::{Headers, ReadExactAt};
use crate::{Codec, VideoError, VideoErrorKind, avi, matroska, mp4, undecodable};

/// Maximum of [`VideoIndex::max_reordering`]: decoders of H.264 and HEVC hold at most this number of pictures.
pub(crate) const MAX_REORDERING: u32 = 16;

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

/// The colours of pictures, as far as the container states them.
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

impl MatrixCoefficients {
    /// Returns the matrix of a number in ITU-T H.273, table 4.
    pub(crate) fn of_number(number: u64) -> Self {
        match number {
            1 => Self::Bt709,
            2 => Self::Unknown,
            5 | 6 => Self::Bt601,
            9 => Self::Bt2020,
            other => u8::try_from(other).map_or(Self::Unknown, Self::Other),
        }
    }
}

impl Rotation {
    /// Returns the rotation by quarter turns clockwise.
    pub(crate) fn of_quarter_turns(turns: i64) -> Self {
        match turns.rem_euclid(4) {
            0 => Self::None,
            1 => Self::Clockwise90,
            2 => Self::Clockwise180,
            _ => Self::Clockwise270,
        }
    }
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
/// ```
/// use fuseloop_video::{Codec, VideoIndex, VideoLimits};
///
/// # let path = "tests/golden/containers/b_pictures.mp4";
/// let file = std::fs::File::open(path)?;
/// let index = VideoIndex::read(&file, &VideoLimits::DEFAULT)?;
/// assert_eq!(index.codec, Codec::H264);
/// assert_eq!((index.width, index.height), (48, 32));
/// assert_eq!(index.frame_count(), 20);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VideoIndex {
    /// The codec.
    pub codec: Codec,
    /// The four-character code that the container has for it; zeros in Matroska, which has names. Decoders of MPEG-4 tell
    /// encoders by it, whose inverse DCTs differ.
    pub four_cc: [u8; 4],
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
    /// The colours, as far as the container states them.
    pub color: Color,
    /// A unit of time in seconds, as a fraction: numerator and denominator, neither of them 0.
    pub time_base: (u32, u32),
    /// Number of packets after its own that a frame may need before a decoder returns it. It is 0 unless the container
    /// states no presentation times for a codec that reorders pictures, such as H.264 in AVI: then the times of packets
    /// are those of decoding, and frame n after a key packet is the n-th picture that a decoder returns.
    pub max_reordering: u32,
    pub(crate) packets: Vec<Packet>,
    pub(crate) frames: Vec<FrameEntry>,
    /// The numbers of the key packets, ascending. `check` finds them.
    pub(crate) keys: Vec<u32>,
}

/// Packets to decode for given frames. [`VideoIndex::plan`] has an example.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DecodePlan {
    /// Independent runs of packets, in the order of their frames. A decoder is reset between them.
    pub runs: Vec<DecodeRun>,
}

/// A run of packets that begins with a key packet. [`VideoIndex::plan`] has an example.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DecodeRun {
    /// Numbers of the packets to decode, ascending: the decoding order. Each whose [`Packet::is_shown`] is true gives one
    /// picture, after the decoder was drained at the end of the run.
    pub packets: Vec<u32>,
    /// The distinct frames that were asked for and come from these packets, ascending.
    pub frames: Vec<u32>,
}

/// A frame that is asked for.
struct Wanted {
    /// The packet at which decoding starts for it.
    start: u32,
    /// The last packet that it needs.
    end: u32,
    /// Its own packet.
    packet: u32,
    frame: u32,
}

impl VideoIndex {
    /// Returns all packets, in decoding order.
    ///
    /// ```
    /// # use fuseloop_video::{VideoIndex, VideoLimits};
    /// # let file = std::fs::File::open("tests/golden/containers/b_pictures.mp4")?;
    /// # let index = VideoIndex::read(&file, &VideoLimits::DEFAULT)?;
    /// let keys = index.packets().iter().filter(|packet| packet.is_key).count();
    /// assert_eq!((index.packets().len(), keys), (20, 3));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn packets(&self) -> &[Packet] {
        &self.packets
    }

    /// Returns the frames, in presentation order. Packets that an edit list hides are not among them, nor are pictures that
    /// can't be decoded because the pictures that they refer to are missing.
    ///
    /// ```
    /// # use fuseloop_video::{VideoIndex, VideoLimits};
    /// # let file = std::fs::File::open("tests/golden/containers/b_pictures.mp4")?;
    /// # let index = VideoIndex::read(&file, &VideoLimits::DEFAULT)?;
    /// // The second frame is the third packet: packets are in decoding order.
    /// assert_eq!(index.frames()[1].packet, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn frames(&self) -> &[FrameEntry] {
        &self.frames
    }

    /// Returns the number of frames that a player shows.
    ///
    /// ```
    /// # use fuseloop_video::{VideoIndex, VideoLimits};
    /// # let file = std::fs::File::open("tests/golden/containers/b_pictures.mp4")?;
    /// # let index = VideoIndex::read(&file, &VideoLimits::DEFAULT)?;
    /// assert_eq!(index.frame_count(), index.frames().len());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn frame_count(&self) -> usize {
        self.frames.len()
    }

    /// Returns the presentation time of a frame in seconds, or nothing if there is no such frame.
    ///
    /// ```
    /// # use fuseloop_video::{VideoIndex, VideoLimits};
    /// # let file = std::fs::File::open("tests/golden/containers/b_pictures.mp4")?;
    /// # let index = VideoIndex::read(&file, &VideoLimits::DEFAULT)?;
    /// assert_eq!(index.time(5), Some(0.2));
    /// assert_eq!(index.time(20), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a time in seconds, as double precision has it")]
    pub fn time(&self, frame: usize) -> Option<f64> {
        let (numerator, denominator) = self.time_base;
        let frame = self.frames.get(frame)?;
        Some(frame.pts as f64 * f64::from(numerator) / f64::from(denominator))
    }

    /// Returns the packets to decode for frames, which may repeat and need no order.
    ///
    /// Frames of one group of pictures share a run, and so do frames of adjacent ones. Packets between two runs are not
    /// decoded.
    ///
    /// ```
    /// # use fuseloop_video::{VideoIndex, VideoLimits};
    /// # let file = std::fs::File::open("tests/golden/containers/b_pictures.mp4")?;
    /// # let index = VideoIndex::read(&file, &VideoLimits::DEFAULT)?;
    /// let plan = index.plan(&[1, 17])?;
    /// // Frame 1 is packet 2, and frame 17 is packet 18, after the key packet 16.
    /// assert_eq!(plan.runs[0].packets, [0, 1, 2]);
    /// assert_eq!(plan.runs[1].packets, [16, 17, 18]);
    /// assert_eq!(plan.runs[1].frames, [17]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Fails if the video does not have one of the frames.
    pub fn plan(&self, frames: &[u32]) -> Result<DecodePlan, VideoError> {
        let mut wanted = vec![];
        for &frame in frames {
            let entry = self.frames.get(frame as usize).ok_or_else(|| {
                let count = self.frames.len();
                let message =
                    format!("frame {frame} does not exist: the video has {count} frames, from 0");
                VideoError::new(VideoErrorKind::Parameter, message)
            })?;
            let last = (self.packets.len() - 1) as u32;
            let end = entry.packet.saturating_add(self.max_reordering).min(last);
            wanted.push(Wanted {
                start: self.start_for(entry.packet),
                end,
                packet: entry.packet,
                frame,
            });
        }
        wanted.sort_unstable_by_key(|next: &Wanted| (next.start, next.frame));
        wanted.dedup_by_key(|next| next.frame);
        let (mut runs, mut rest) = (vec![], &wanted[..]);
        while let Some(first) = rest.first() {
            let (mut end, mut count) = (first.end, 0);
            while let Some(next) =
                rest.get(count).filter(|next| next.start <= end.saturating_add(1))
            {
                end = end.max(next.end);
                count += 1;
            }
            let (group, others) = rest.split_at(count);
            runs.push(self.run(group, end));
            rest = others;
        }
        Ok(DecodePlan { runs })
    }

    /// Returns the number of the packet at which decoding starts for a packet: the last key packet that is not shown after
    /// it, or the first one of the file.
    fn start_for(&self, packet: u32) -> u32 {
        let before = &self.keys[..self.keys.partition_point(|key| *key <= packet)];
        let pts = |number: u32| self.packets[number as usize].pts;
        let start = before.iter().rev().find(|key| pts(**key) <= pts(packet)).or(before.first());
        start.copied().unwrap_or_default()
    }

    /// Returns the leading packets of a key packet: those before the next one that are shown before it.
    pub(crate) fn leading(&self, key: u32) -> impl Iterator<Item = u32> {
        let next = self.keys.partition_point(|other| *other <= key);
        let end = self.keys.get(next).map_or(self.packets.len(), |end| *end as usize);
        let pts = self.packets[key as usize].pts;
        let following = self.packets[..end].iter().zip(0..).skip(key as usize + 1);
        following.filter(move |(packet, _)| packet.pts < pts).map(|(_, number)| number)
    }

    /// Returns the run for frames that are sorted by the packets at which decoding starts for them, up to packet `end`.
    fn run(&self, group: &[Wanted], end: u32) -> DecodeRun {
        let start = group[0].start;
        let mut packets: Vec<u32> = (start..=end).collect();
        // The first packets of a file may be leading ones that can be decoded, and have no group before them.
        let pts = |number: u32| self.packets[number as usize].pts;
        if !group.iter().any(|next| next.start == start && pts(next.packet) < pts(start)) {
            let leading: Vec<u32> = self.leading(start).collect();
            packets.retain(|packet| leading.binary_search(packet).is_err());
        }
        let mut frames: Vec<u32> = group.iter().map(|next| next.frame).collect();
        frames.sort_unstable();
        DecodeRun { packets, frames }
    }

    /// Returns the numbers of packets that give a picture, sorted by presentation time: the order in which a decoder
    /// returns the pictures of a [`DecodeRun`].
    ///
    /// ```
    /// # use fuseloop_video::{VideoIndex, VideoLimits};
    /// # let file = std::fs::File::open("tests/golden/containers/b_pictures.mp4")?;
    /// # let index = VideoIndex::read(&file, &VideoLimits::DEFAULT)?;
    /// let run = &index.plan(&[2])?.runs[0];
    /// assert_eq!(run.packets, [0, 1, 2, 3]);
    /// assert_eq!(index.presentation_order(&run.packets), [0, 2, 3, 1]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn presentation_order(&self, packets: &[u32]) -> Vec<u32> {
        let shown = |number: &u32| self.packets.get(*number as usize).is_some_and(|p| p.is_shown);
        let mut order: Vec<u32> = packets.iter().copied().filter(shown).collect();
        order.sort_unstable_by_key(|&number| (self.packets[number as usize].pts, number));
        order
    }

    /// Returns true if a file whose first bytes are `head` has a container that is read; 12 bytes are enough.
    ///
    /// ```
    /// use fuseloop_video::VideoIndex;
    ///
    /// assert!(VideoIndex::is_container(b"\0\0\0\x20ftypisom"));
    /// assert!(!VideoIndex::is_container(b"no video"));
    /// ```
    #[must_use]
    pub fn is_container(head: &[u8]) -> bool {
        avi::is_avi(head) || mp4::is_mp4(head) || matroska::is_matroska(head)
    }

    /// Reads the index of a file. The container is recognized by its bytes.
    ///
    /// Parts of the file are read: the tables of MP4 and MOV, the index of AVI, or the headers of its chunks if there is
    /// none, and the headers of the blocks of Matroska. For some codecs, the first bytes of packets are read as well: all of
    /// MPEG-4 in AVI, of VP8 and VP9, and a key packet of H.264.
    ///
    /// ```
    /// use fuseloop_video::{Codec, VideoIndex, VideoLimits};
    ///
    /// # let path = "tests/golden/containers/live.webm";
    /// let bytes = std::fs::read(path)?;
    /// let index = VideoIndex::read(&bytes, &VideoLimits::DEFAULT)?;
    /// assert_eq!(index.codec, Codec::Vp9);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Fails if the file can't be read, is no video file, is damaged or cut, exceeds a limit, or has no video track.
    pub fn read(file: &dyn ReadExactAt, limits: &VideoLimits) -> Result<Self, VideoError> {
        let mut headers = Headers::new(file)?;
        let head = headers.up_to(0, 16)?.to_vec();
        let mut index = if avi::is_avi(&head) {
            avi::read(&mut headers, limits)?
        } else if mp4::is_mp4(&head) {
            mp4::read(&mut headers, limits)?
        } else if matroska::is_matroska(&head) {
            matroska::read(&mut headers, limits)?
        } else {
            return Err(other_format(&head));
        };
        index.check(limits)?;
        undecodable::mark(&mut index, &mut headers)?;
        if index.frames.is_empty() {
            return Err(format_error!("the video track has no frame that can be decoded"));
        }
        Ok(index)
    }

    /// Checks what all containers have to hold, and finds the key packets.
    pub(crate) fn check(&mut self, limits: &VideoLimits) -> Result<(), VideoError> {
        let (width, height, most) = (self.width, self.height, limits.max_pixels);
        if width == 0 || height == 0 {
            return Err(format_error!("the size of the pictures is {width}x{height}"));
        }
        if u64::from(width) * u64::from(height) > most {
            return Err(over_limit!(
                "the pictures have {width}x{height} pixels, the limit is {most} pixels"
            ));
        }
        if self.time_base.0 == 0 || self.time_base.1 == 0 {
            let (numerator, denominator) = self.time_base;
            return Err(format_error!("the unit of time is {numerator}/{denominator} seconds"));
        }
        if self.packets.is_empty() {
            return Err(format_error!("the video track has no packets"));
        }
        if self.codec == Codec::MotionJpeg || !self.packets.iter().any(|packet| packet.is_key) {
            let all = self.codec == Codec::MotionJpeg;
            let count = if all { self.packets.len() } else { 1 };
            self.packets.iter_mut().take(count).for_each(|packet| packet.is_key = true);
        }
        self.keys = (0..)
            .zip(&self.packets)
            .filter(|(_, packet)| packet.is_key)
            .map(|(number, _)| number)
            .collect();
        Ok(())
    }
}

/// Returns the frames of packets that are all shown, sorted by presentation time.
pub(crate) fn frames_by_time(packets: &[Packet]) -> Vec<FrameEntry> {
    let mut frames: Vec<FrameEntry> = packets
        .iter()
        .zip(0..)
        .filter(|(packet, _)| packet.is_shown)
        .map(|(packet, number)| FrameEntry { packet: number, pts: packet.pts })
        .collect();
    frames.sort_unstable_by_key(|frame| (frame.pts, frame.packet));
    frames
}

/// Packets as a container lists them, checked against the file and the limits.
pub(crate) struct PacketList {
    pub(crate) packets: Vec<Packet>,
    file_len: u64,
    most: u64,
    most_bytes: u64,
}

impl PacketList {
    /// Returns an empty list. Each packet of the container takes at least `least` bytes of the file, with its header.
    pub(crate) fn new(file_len: u64, least: u64, limits: &VideoLimits) -> Self {
        // Numbers of packets are `u32`.
        let most = limits.max_packets.min(u64::from(u32::MAX)).min(file_len / least);
        Self { packets: vec![], file_len, most, most_bytes: limits.max_packet_bytes }
    }

    /// Returns an error if the list can't have more packets.
    pub(crate) fn check_count(&self, count: u64) -> Result<(), VideoError> {
        if count > self.most {
            let most = self.most;
            return Err(over_limit!(
                "the container lists {count} packets or more, the maximum for this file is {most}"
            ));
        }
        Ok(())
    }

    /// Checks the place of a packet.
    pub(crate) fn check_place(&self, offset: u64, size: u64) -> Result<u32, VideoError> {
        if offset.checked_add(size).is_none_or(|end| end > self.file_len) {
            let len = self.file_len;
            return Err(format_error!(
                "the container lists a packet of {size} bytes that ends after the file, which has {len} bytes: the file was \
                 cut or is damaged"
            )
            .at(offset));
        }
        let most = self.most_bytes;
        match u32::try_from(size) {
            Ok(size) if u64::from(size) <= most => Ok(size),
            _ => {
                Err(over_limit!("a packet has {size} bytes, the limit is {most} bytes").at(offset))
            }
        }
    }

    /// Appends a packet that is shown.
    pub(crate) fn push(
        &mut self,
        offset: u64,
        size: u64,
        pts: i64,
        is_key: bool,
    ) -> Result<(), VideoError> {
        let size = self.check_place(offset, size)?;
        self.check_count(self.packets.len() as u64 + 1)?;
        self.packets.push(Packet { offset, size, pts, is_key, is_shown: true });
        Ok(())
    }
}

/// Returns the error of a file in none of the containers that are read.
fn other_format(head: &[u8]) -> VideoError {
    let known: [(&[u8], &str); 8] = [
        (b"FLV", "an FLV file"),
        (b"OggS", "an Ogg file"),
        (b"DKIF", "an IVF file"),
        (b"\x30\x26\xb2\x75", "a WMV or ASF file"),
        (b"\0\0\x01\xba", "an MPEG program stream"),
        (b"\0\0\x01", "an elementary stream"),
        (b"\0\0\0\x01", "an elementary stream"),
        (b"\x47", "an MPEG transport stream"),
    ];
    match known.iter().find(|(magic, _)| head.starts_with(magic)) {
        Some((_, name)) => unsupported!(
            "{name} is not read: copy its streams into another container with `ffmpeg -i IN -c copy OUT.mp4`"
        ),
        None => format_error!("no AVI, MP4, MOV, Matroska or WebM file: its first bytes are {head:02x?}"),
    }
    .at(0)
}
