//! Matroska and WebM files (RFC 9559), in EBML (RFC 8794).
//!
//! | element                              | what it gives                                                    |
//! |--------------------------------------|------------------------------------------------------------------|
//! | `Info`: `TimestampScale`             | the unit of time in nanoseconds                                  |
//! | `Tracks`: `TrackEntry`               | the codec, `CodecPrivate`, the size, `Colour`, `Projection`        |
//! | `Cluster`: `Timestamp`               | the time that blocks count from                                  |
//! | `SimpleBlock`, `BlockGroup`: `Block` | a packet: the track's number, its time, flags                    |
//!
//! The headers of all blocks are read, and the payloads between them are left out: `Cues` list key frames only, and not
//! always all of them. Segments and clusters may have an unknown size, as live recordings do.

use crate::error::{format_error, unsupported};
use crate::fields::Fields;
use crate::index::{MAX_REORDERING, PacketList, frames_by_time};
use crate::mpeg4::{self, Slot};
use crate::read_at::Headers;
use crate::{
    Codec, Color, FrameEntry, MatrixCoefficients, Packet, Rotation, VideoError, VideoIndex,
    VideoLimits,
};

mod id {
    pub(super) const EBML: u32 = 0x1a45_dfa3;
    pub(super) const SEGMENT: u32 = 0x1853_8067;
    pub(super) const INFO: u32 = 0x1549_a966;
    pub(super) const TRACKS: u32 = 0x1654_ae6b;
    pub(super) const CLUSTER: u32 = 0x1f43_b675;
    pub(super) const SEEK_HEAD: u32 = 0x114d_9b74;
    pub(super) const CUES: u32 = 0x1c53_bb6b;
    pub(super) const CHAPTERS: u32 = 0x1043_a770;
    pub(super) const TAGS: u32 = 0x1254_c367;
    pub(super) const ATTACHMENTS: u32 = 0x1941_a469;
    pub(super) const TIMESTAMP: u32 = 0xe7;
    pub(super) const SIMPLE_BLOCK: u32 = 0xa3;
    pub(super) const BLOCK_GROUP: u32 = 0xa0;
    pub(super) const BLOCK: u32 = 0xa1;
    pub(super) const REFERENCE_BLOCK: u32 = 0xfb;
    pub(super) const ENCRYPTED_BLOCK: u32 = 0xaf;
    pub(super) const TIMESTAMP_SCALE: u32 = 0x2a_d7b1;
    pub(super) const TRACK_ENTRY: u32 = 0xae;
    pub(super) const TRACK_NUMBER: u32 = 0xd7;
    pub(super) const TRACK_TYPE: u32 = 0x83;
    pub(super) const CODEC_ID: u32 = 0x86;
    pub(super) const CODEC_PRIVATE: u32 = 0x63a2;
    pub(super) const CONTENT_ENCODINGS: u32 = 0x6d80;
    pub(super) const VIDEO: u32 = 0xe0;
    pub(super) const PIXEL_WIDTH: u32 = 0xb0;
    pub(super) const PIXEL_HEIGHT: u32 = 0xba;
    pub(super) const COLOUR: u32 = 0x55b0;
    pub(super) const MATRIX: u32 = 0x55b1;
    pub(super) const RANGE: u32 = 0x55b9;
    pub(super) const PROJECTION: u32 = 0x7670;
    pub(super) const POSE_ROLL: u32 = 0x7675;
}

/// Returns true if the first bytes of a file are those of an EBML file.
pub(crate) fn is_matroska(head: &[u8]) -> bool {
    head.starts_with(&id::EBML.to_be_bytes())
}

/// Reads the index of a file.
pub(crate) fn read(
    headers: &mut Headers<'_>,
    limits: &VideoLimits,
) -> Result<VideoIndex, VideoError> {
    let segment = segment(headers)?;
    let (scale, track) = descriptions(segment, headers, limits)?;
    let blocks = Blocks::read(segment, track.number, headers, limits)?;
    let is_in_decoding_order = track.is_in_decoding_order;
    let (packets, frames) = if is_in_decoding_order && track.codec == Codec::Mpeg4 {
        let slot = |packet: &Packet| Slot {
            offset: packet.offset,
            size: packet.size.into(),
            time: packet.pts,
            is_key: packet.is_key,
        };
        let slots: Vec<Slot> = blocks.iter().map(slot).collect();
        mpeg4::in_presentation_order(headers, &track.extradata, &slots, limits)?
    } else {
        let frames: Vec<FrameEntry> = frames_by_time(&blocks);
        (blocks, frames)
    };
    Ok(VideoIndex {
        max_reordering: if is_in_decoding_order && track.codec.reorders() {
            MAX_REORDERING
        } else {
            0
        },
        codec: track.codec,
        four_cc: track.four_cc,
        width: track.width,
        height: track.height,
        rotation: track.rotation,
        extradata: track.extradata,
        color: track.color,
        time_base: (scale, 1_000_000_000),
        packets,
        frames,
        keys: vec![],
    })
}

/// An element: its contents begin at `start`, and `end` is nothing if its size is unknown.
#[derive(Clone, Copy)]
struct Element {
    id: u32,
    start: u64,
    end: Option<u64>,
}

impl Element {
    /// Reads the header of an element. There is none at the end of the file.
    fn read(headers: &mut Headers<'_>, at: u64) -> Result<Option<Self>, VideoError> {
        let mut fields = Fields(headers.up_to(at, 12)?);
        let count = fields.0.len();
        let Some((id, size)) = header(&mut fields) else {
            if count < 12 {
                return Ok(None);
            }
            return Err(
                format_error!("the Matroska file has no element here: it is damaged").at(at)
            );
        };
        let start = at + (count - fields.0.len()) as u64;
        let end = size.map(|size| start.saturating_add(size));
        Ok(Some(Self { id, start, end }))
    }

    /// Reads the contents.
    fn contents(
        self,
        headers: &mut Headers<'_>,
        limits: &VideoLimits,
        name: &str,
    ) -> Result<Vec<u8>, VideoError> {
        let end = self.end.ok_or_else(|| {
            format_error!("the element {name} has an unknown size").at(self.start)
        })?;
        headers.table(self.start, end - self.start, limits.max_table_bytes, name)
    }

    /// Returns the unsigned integer that the element contains.
    fn number(self, headers: &mut Headers<'_>) -> Result<u64, VideoError> {
        let size = self.end.map_or(9, |end| end - self.start);
        if size > 8 {
            return Err(
                format_error!("an element with an integer has more than 8 bytes").at(self.start)
            );
        }
        Ok(number(headers.up_to(self.start, size as usize)?))
    }
}

/// Reads a name and a size, which is nothing if it is unknown.
fn header(fields: &mut Fields<'_>) -> Option<(u32, Option<u64>)> {
    let count = fields.0.first()?.leading_zeros() as usize + 1;
    if count > 4 {
        return None;
    }
    let id = fields.bytes(count)?.iter().fold(0, |id, byte| id << 8 | u32::from(*byte));
    let (size, is_unknown) = variable_number(fields)?;
    Some((id, (!is_unknown).then_some(size)))
}

/// Reads a number of 1 to 8 bytes, and whether all its bits are set.
fn variable_number(fields: &mut Fields<'_>) -> Option<(u64, bool)> {
    let first = *fields.0.first()?;
    let count = first.leading_zeros() as usize + 1;
    let bytes = fields.bytes(count).filter(|_| count <= 8)?;
    let most = (1_u64 << (7 * count)) - 1;
    let value = number(bytes) & most;
    Some((value, value == most))
}

/// Returns an unsigned integer of at most 8 bytes.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Returns the number of an element with a floating-point number of 4 or 8 bytes.
fn float(bytes: &[u8]) -> f64 {
    match (bytes.first_chunk(), bytes.first_chunk()) {
        (_, Some(eight)) => f64::from_be_bytes(*eight),
        (Some(four), None) => f32::from_be_bytes(*four).into(),
        (None, None) => 0.0,
    }
}

/// Returns the elements in bytes, up to the first that does not fit.
fn elements(bytes: &[u8]) -> impl Iterator<Item = (u32, &[u8])> {
    let mut fields = Fields(bytes);
    std::iter::from_fn(move || {
        let (id, size) = header(&mut fields)?;
        let size = size.map_or(Some(fields.0.len()), |size| usize::try_from(size).ok())?;
        Some((id, fields.bytes(size)?))
    })
}

fn find(bytes: &[u8], id: u32) -> Option<&[u8]> {
    elements(bytes).find(|(found, _)| *found == id).map(|(_, contents)| contents)
}

/// Returns the first segment. A file that was cut is refused: one of an unknown size may end anywhere.
fn segment(headers: &mut Headers<'_>) -> Result<Element, VideoError> {
    let (mut at, len) = (0, headers.len());
    while let Some(element) = Element::read(headers, at)? {
        if element.id == id::SEGMENT {
            let end = element.end.unwrap_or(len);
            if end > len {
                return Err(format_error!(
                    "the segment ends at offset {end}, the file at {len}: it was cut"
                )
                .at(at));
            }
            return Ok(Element { end: Some(end), ..element });
        }
        let Some(end) = element.end else { break };
        at = end;
    }
    Err(format_error!("the Matroska file has no segment"))
}

/// True for elements that stand in a segment, and so end a cluster of an unknown size.
fn is_top(id: u32) -> bool {
    let all = [
        id::INFO,
        id::TRACKS,
        id::CLUSTER,
        id::SEEK_HEAD,
        id::CUES,
        id::CHAPTERS,
        id::TAGS,
        id::ATTACHMENTS,
        id::SEGMENT,
        id::EBML,
    ];
    all.contains(&id)
}

/// Returns the unit of time in nanoseconds, and the first video track.
fn descriptions(
    segment: Element,
    headers: &mut Headers<'_>,
    limits: &VideoLimits,
) -> Result<(u32, Track), VideoError> {
    let (mut scale, mut track) = (None, None);
    let (mut at, end) = (segment.start, segment.end.unwrap_or_default());
    while at < end && (scale.is_none() || track.is_none()) {
        let Some(element) = Element::read(headers, at)? else { break };
        match element.id {
            id::INFO => {
                let info = element.contents(headers, limits, "`Info`")?;
                let found = find(&info, id::TIMESTAMP_SCALE).map_or(1_000_000, number);
                let wide =
                    || unsupported!("the unit of time is {found} nanoseconds").at(element.start);
                scale = Some(u32::try_from(found).map_err(|_| wide())?);
            }
            id::TRACKS => {
                let tracks = element.contents(headers, limits, "`Tracks`")?;
                let entries = elements(&tracks)
                    .filter(|(id, _)| *id == id::TRACK_ENTRY)
                    .map(|(_, entry)| entry);
                let is_video = |entry: &&[u8]| find(entry, id::TRACK_TYPE).map(number) == Some(1);
                let entry = { entries }.find(is_video);
                let none = || format_error!("the Matroska file has no video track");
                let found = Track::read(entry.ok_or_else(none)?);
                track = Some(found.map_err(|error| error.at(element.start))?);
            }
            _ => {}
        }
        // The elements in a cluster of an unknown size are looked at one by one.
        at = element.end.unwrap_or(element.start);
    }
    let track = track.ok_or_else(|| format_error!("the Matroska file has no element `Tracks`"))?;
    Ok((scale.unwrap_or(1_000_000), track))
}

struct Track {
    number: u64,
    codec: Codec,
    four_cc: [u8; 4],
    /// True if the times of blocks are those of decoding, as in AVI.
    is_in_decoding_order: bool,
    extradata: Vec<u8>,
    width: u32,
    height: u32,
    color: Color,
    rotation: Rotation,
}

impl Track {
    fn read(entry: &[u8]) -> Result<Self, VideoError> {
        if find(entry, id::CONTENT_ENCODINGS).is_some() {
            return Err(unsupported!(
                "the packets of the video track are compressed or encrypted by the container: copy them into a new file with \
                 `mkvmerge --compression -1:none` or `ffmpeg -c copy`"
            ));
        }
        let name = String::from_utf8_lossy(find(entry, id::CODEC_ID).unwrap_or_default());
        let name = name.trim_end_matches('\0');
        let private = find(entry, id::CODEC_PRIVATE).unwrap_or_default();
        let (mut codec, mut four_cc, mut extradata) = (codec(name), [0; 4], private);
        let is_in_decoding_order = name == "V_MS/VFW/FOURCC";
        if is_in_decoding_order {
            // A `BITMAPINFOHEADER`, and the extradata.
            let (header, rest) = private.split_at_checked(40).ok_or_else(|| {
                format_error!("the private bytes of the codec {name} are too short")
            })?;
            four_cc = Fields(&header[16..]).array().unwrap_or_default();
            codec = Codec::of_four_cc(four_cc);
            extradata = rest;
        }
        let video = find(entry, id::VIDEO).unwrap_or_default();
        let size = |id| {
            find(video, id).map_or(0, |bytes| u32::try_from(number(bytes)).unwrap_or(u32::MAX))
        };
        let colour = find(video, id::COLOUR).unwrap_or_default();
        let color = Color {
            matrix: find(colour, id::MATRIX).map_or(MatrixCoefficients::Unknown, |bytes| {
                MatrixCoefficients::of_number(number(bytes))
            }),
            is_full_range: match find(colour, id::RANGE).map(number) {
                Some(1) => Some(false),
                Some(2) => Some(true),
                _ => None,
            },
        };
        let roll =
            find(video, id::PROJECTION).and_then(|projection| find(projection, id::POSE_ROLL));
        Ok(Self {
            number: find(entry, id::TRACK_NUMBER).map_or(1, number),
            codec,
            four_cc,
            is_in_decoding_order,
            extradata: extradata.to_vec(),
            width: size(id::PIXEL_WIDTH),
            height: size(id::PIXEL_HEIGHT),
            color,
            rotation: rotation(roll.map_or(0.0, float))?,
        })
    }
}

/// Returns the rotation of a roll in degrees, counterclockwise.
fn rotation(roll: f64) -> Result<Rotation, VideoError> {
    let turns = roll / 90.0;
    if !turns.is_finite() || (turns - turns.round()).abs() > 0.01 || turns.abs() > 4.0 {
        return Err(unsupported!(
            "the pictures are turned by {roll} degrees: only multiples of 90 are supported"
        ));
    }
    Ok(Rotation::of_quarter_turns(-(turns.round() as i64)))
}

/// Returns the codec of a name of Matroska.
fn codec(name: &str) -> Codec {
    match name {
        "V_MJPEG" => Codec::MotionJpeg,
        "V_MPEG4/ISO/AVC" => Codec::H264,
        "V_MPEGH/ISO/HEVC" => Codec::Hevc,
        "V_MPEG4/ISO/SP" | "V_MPEG4/ISO/ASP" | "V_MPEG4/ISO/AP" => Codec::Mpeg4,
        "V_MPEG4/MS/V2" => Codec::MsMpeg4V2,
        "V_MPEG4/MS/V3" => Codec::MsMpeg4V3,
        "V_MPEG1" | "V_MPEG2" => Codec::Mpeg2,
        "V_VP8" => Codec::Vp8,
        "V_VP9" => Codec::Vp9,
        "V_AV1" => Codec::Av1,
        other => Codec::Other(other.to_owned()),
    }
}

/// The packets of a track.
struct Blocks {
    list: PacketList,
    track: u64,
}

impl Blocks {
    fn read(
        segment: Element,
        track: u64,
        headers: &mut Headers<'_>,
        limits: &VideoLimits,
    ) -> Result<Vec<Packet>, VideoError> {
        // A block has at least the name, the size, the track's number, the time and the flags.
        let mut blocks = Self { list: PacketList::new(headers.len(), 6, limits), track };
        let (mut at, end) = (segment.start, segment.end.unwrap_or_default());
        while at < end {
            let Some(element) = Element::read(headers, at)? else { break };
            at = match (element.id, element.end) {
                // Another segment follows one of an unknown size.
                (id::EBML | id::SEGMENT, _) => break,
                (id::CLUSTER, _) => blocks.cluster(element, end, headers)?,
                (_, Some(end)) => end,
                (_, None) => return Err(format_error!("an element has an unknown size").at(at)),
            };
        }
        Ok(blocks.list.packets)
    }

    /// Appends the packets of a cluster, and returns the offset after it.
    fn cluster(
        &mut self,
        cluster: Element,
        most: u64,
        headers: &mut Headers<'_>,
    ) -> Result<u64, VideoError> {
        let end = cluster.end.unwrap_or(most).min(most);
        let (mut at, mut time) = (cluster.start, 0);
        while at < end {
            let Some(element) = Element::read(headers, at)? else { return Ok(end) };
            if cluster.end.is_none() && is_top(element.id) {
                return Ok(at);
            }
            let Some(next) = element.end else {
                return Err(format_error!("an element in a cluster has an unknown size").at(at));
            };
            // The last packet of a recording that was not finished.
            if next > headers.len() {
                return Ok(end);
            }
            match element.id {
                id::TIMESTAMP => time = i64::try_from(element.number(headers)?).unwrap_or(i64::MAX),
                id::SIMPLE_BLOCK => self.block(element.start, next, time, None, headers)?,
                id::BLOCK_GROUP => self.group(element.start, next, time, headers)?,
                id::ENCRYPTED_BLOCK => return Err(unsupported!("the video is encrypted").at(at)),
                _ => {}
            }
            at = next;
        }
        Ok(end)
    }

    /// Appends the block of a group. It is a key packet if it refers to no other.
    fn group(
        &mut self,
        mut at: u64,
        end: u64,
        time: i64,
        headers: &mut Headers<'_>,
    ) -> Result<(), VideoError> {
        let (mut block, mut is_key) = (None, true);
        while at < end {
            let Some(element) = Element::read(headers, at)? else { break };
            let next = element.end.filter(|next| *next <= end);
            let next =
                next.ok_or_else(|| format_error!("an element ends after its block group").at(at))?;
            match element.id {
                id::BLOCK => block = Some((element.start, next)),
                id::REFERENCE_BLOCK => is_key = false,
                _ => {}
            }
            at = next;
        }
        match block {
            Some((start, end)) => self.block(start, end, time, Some(is_key), headers),
            None => Ok(()),
        }
    }

    /// Appends a block. A simple block states itself whether it is a key packet.
    fn block(
        &mut self,
        start: u64,
        end: u64,
        cluster_time: i64,
        is_key: Option<bool>,
        headers: &mut Headers<'_>,
    ) -> Result<(), VideoError> {
        let most = usize::try_from(end - start).unwrap_or(usize::MAX).min(12);
        let mut fields = Fields(headers.up_to(start, most)?);
        let count = fields.0.len();
        let head =
            (variable_number(&mut fields), fields.array().map(i16::from_be_bytes), fields.u8());
        let (Some((track, _)), Some(time), Some(flags)) = head else {
            return Err(format_error!("a block is too short").at(start));
        };
        if track != self.track {
            return Ok(());
        }
        // Bits 1 and 2: lacing.
        if flags & 0x06 != 0 {
            return Err(unsupported!(
                "several frames of the video track share a block (lacing): copy the streams into a new file with `ffmpeg -i IN \
                 -c copy OUT.mkv`"
            )
            .at(start));
        }
        let offset = start + (count - fields.0.len()) as u64;
        if offset == end {
            return Ok(());
        }
        let is_key = is_key.unwrap_or(flags & 0x80 != 0);
        self.list.push(offset, end - offset, cluster_time.saturating_add(time.into()), is_key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns an element, with its size in 8 bytes.
    fn element(id: u32, contents: &[&[u8]]) -> Vec<u8> {
        let contents = contents.concat();
        let size = contents.len() as u64 | 1 << 56;
        let name = id.to_be_bytes();
        let name = &name[id.leading_zeros() as usize / 8..];
        [name, &size.to_be_bytes(), &contents].concat()
    }

    fn block(id: u32, track: u8, time: i16, flags: u8) -> Vec<u8> {
        element(id, &[&[0x80 | track], &time.to_be_bytes(), &[flags], b"packet"])
    }

    /// Returns a file with track 2 of H.264 in 64x48 pixels, and what is added to the track, its video and the cluster.
    fn file(track: &[u8], video: &[u8], blocks: &[Vec<u8>]) -> Vec<u8> {
        let size =
            [element(id::PIXEL_WIDTH, &[&[64]]), element(id::PIXEL_HEIGHT, &[&[48]])].concat();
        let entry = element(
            id::TRACK_ENTRY,
            &[
                &element(id::TRACK_NUMBER, &[&[2]]),
                &element(id::TRACK_TYPE, &[&[1]]),
                &element(id::CODEC_ID, &[b"V_MPEG4/ISO/AVC"]),
                &element(id::VIDEO, &[&size, video]),
                track,
            ],
        );
        let cluster = element(id::CLUSTER, &[&element(id::TIMESTAMP, &[&[100]]), &blocks.concat()]);
        let segment = element(id::SEGMENT, &[&element(id::TRACKS, &[&entry]), &cluster]);
        [element(id::EBML, &[]), segment].concat()
    }

    fn read(file: &[u8]) -> Result<VideoIndex, VideoError> {
        super::read(&mut Headers::new(&file)?, &VideoLimits::SMALL)
    }

    fn key_block() -> Vec<u8> {
        block(id::SIMPLE_BLOCK, 2, 0, 0x80)
    }

    #[test]
    fn blocks_of_the_track_are_packets_with_times_and_key_flags() {
        let reference = element(id::REFERENCE_BLOCK, &[&[0xfe]]);
        let blocks = [
            key_block(),
            block(id::SIMPLE_BLOCK, 1, 5, 0x80),
            block(id::SIMPLE_BLOCK, 2, 30, 0),
            element(id::BLOCK_GROUP, &[&block(id::BLOCK, 2, -20, 0), &reference]),
            element(id::BLOCK_GROUP, &[&block(id::BLOCK, 2, 40, 0)]),
        ];
        let bytes = file(&[], &[], &blocks);
        let index = read(&bytes).unwrap();
        let found: Vec<_> =
            index.packets.iter().map(|packet| (packet.pts, packet.is_key)).collect();
        assert_eq!(found, [(100, true), (130, false), (80, false), (140, true)]);
        for packet in &index.packets {
            let start = packet.offset as usize;
            assert_eq!(&bytes[start..start + packet.size as usize], b"packet");
        }
        assert_eq!(
            (index.time_base, index.width, index.height),
            ((1_000_000, 1_000_000_000), 64, 48)
        );
    }

    #[test]
    fn a_roll_is_a_rotation_counterclockwise() {
        let rolled = |roll: f32| {
            let projection =
                element(id::PROJECTION, &[&element(id::POSE_ROLL, &[&roll.to_be_bytes()])]);
            read(&file(&[], &projection, &[key_block()])).map(|index| index.rotation)
        };
        assert_eq!(rolled(0.0).unwrap(), Rotation::None);
        assert_eq!(rolled(-90.0).unwrap(), Rotation::Clockwise90);
        assert_eq!(rolled(180.0).unwrap(), Rotation::Clockwise180);
        assert_eq!(rolled(90.0).unwrap(), Rotation::Clockwise270);
        for roll in [45.0, f32::NAN, f32::INFINITY, 1e30] {
            assert!(rolled(roll).unwrap_err().to_string().contains("degrees"));
        }
    }

    #[test]
    fn packets_that_the_container_changed_are_refused_by_name() {
        let compressed = read(&file(&element(id::CONTENT_ENCODINGS, &[]), &[], &[key_block()]));
        assert!(compressed.unwrap_err().to_string().contains("mkvmerge --compression"));
        let laced = read(&file(&[], &[], &[block(id::SIMPLE_BLOCK, 2, 0, 0x84)]));
        assert!(laced.unwrap_err().to_string().contains("lacing"));
        let other = read(&file(&[], &[], &[block(id::SIMPLE_BLOCK, 1, 0, 0x84)]));
        assert!(other.unwrap().packets.is_empty());
    }
}
