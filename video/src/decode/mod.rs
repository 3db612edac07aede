//! Frames from packets.
//!
//! | file           |                                                                       |
//! |----------------|-----------------------------------------------------------------------|
//! | `frame`        | a decoded picture                                                     |
//! | `h264`         | H.264 in Rust                                                         |
//! | `libav`        | all other codecs, by libavcodec, which is loaded at run time          |
//! | `motion_jpeg`  | JPEG files from the packets of Motion JPEG                            |
//! | `starts`       | packets at which decoding can start                                   |
//!
//! A decoder takes the runs of a plan one after another. It forgets all pictures before a run, reads the packets, and leaves
//! out those that are neither wanted nor needed by others. If decoding can't start at the first packet, whatever the container
//! says, or its pictures turn out not to be exact, it starts at a key packet before.
//!
//! A picture that refers to a missing one is an error where the stream shows it: by frame numbers of H.264, and by the lists
//! of references of HEVC. Pictures of MPEG-2, MPEG-4, VP8, VP9 and AV1 have no numbers that would show a missing packet.

mod frame;
mod h264;
mod libav;
mod motion_jpeg;
mod starts;

pub use frame::{Frame, Subsampling};
pub use libav::{Libavcodec, NoLibavcodec};
pub use motion_jpeg::jpeg_of_packet;

use crate::error::{over_limit, unsupported};
use crate::{
    Codec, Color, DecodePlan, DecodeRun, MatrixCoefficients, Packet, ReadExactAt, VideoError,
    VideoErrorKind, VideoIndex, VideoLimits,
};
use h264::{Decoded, Framing, Gaps, H264};
use libav::Libav;
use starts::{Start, start};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;

/// The decoders of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Backend {
    /// [`Libavcodec`](Self::Libavcodec) where it is found, and [`Rust`](Self::Rust) otherwise. Both give the same frames, and
    /// refuse streams of H.264 in which pictures are missing.
    #[default]
    Auto,
    /// Decoders in Rust: H.264.
    Rust,
    /// libavcodec of FFmpeg 4 to 8, which is loaded at run time; see [`struct@Libavcodec`].
    Libavcodec,
}

/// A decoder of the packets of one file, for one thread.
///
/// ```no_run
/// use fuseloop_video::{Backend, VideoDecoder, VideoIndex, VideoLimits};
///
/// let file = std::fs::File::open("clip.mp4")?;
/// let index = VideoIndex::read(&file, &VideoLimits::DEFAULT)?;
/// let mut decoder = VideoDecoder::open(&index, Backend::Auto, &VideoLimits::DEFAULT)?;
/// for start in [0, 120] {
///     let plan = index.plan(&[start, start + 4, start + 8])?;
///     decoder.decode(&index, &plan, &file, &mut |number, frame| {
///         println!("frame {number}: {}x{}", frame.width, frame.height);
///         Ok(())
///     })?;
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct VideoDecoder {
    codec: Inner,
    limits: VideoLimits,
    packet: Vec<u8>,
}

enum Inner {
    H264(Box<H264>),
    /// With what is read of H.264 before libavcodec gets it.
    Libav(Box<Libav>, Option<Watch>),
}

/// Reads the headers of H.264: which packets no other needs, and whether pictures are missing.
struct Watch {
    framing: Framing,
    gaps: Gaps,
}

/// The reason for which a run stopped.
enum Stop {
    /// The pictures are not exact: decoding has to start earlier.
    Unrecovered,
    Error(VideoError),
}

impl Stop {
    fn at(self, offset: u64) -> Self {
        match self {
            Self::Unrecovered => self,
            Self::Error(error) => Self::Error(error.at(offset)),
        }
    }
}

impl From<VideoError> for Stop {
    fn from(error: VideoError) -> Self {
        Self::Error(error)
    }
}

/// Maximum number of times that a run is decoded again, from an earlier packet each.
const MAX_RESTARTS: usize = 4;

impl VideoDecoder {
    /// Opens a decoder for the packets of an index.
    ///
    /// # Errors
    ///
    /// Fails if the backend does not decode the codec of the index, with what to do; if the bytes for the decoder are damaged;
    /// or if they ask for more than `limits` allow.
    pub fn open(
        index: &VideoIndex,
        backend: Backend,
        limits: &VideoLimits,
    ) -> Result<Self, VideoError> {
        let libavcodec =
            || Libavcodec::find().map_err(|none| needs_libavcodec(&index.codec, none, none.cure()));
        let codec = match (backend, &index.codec) {
            (_, codec @ Codec::Other(_)) => return Err(not_read(codec)),
            (Backend::Rust, Codec::H264) => Inner::H264(Box::new(H264::open(index, limits)?)),
            (Backend::Auto, Codec::H264) if Libavcodec::find().is_err() => {
                Inner::H264(Box::new(H264::open(index, limits)?))
            }
            (Backend::Rust, codec) => {
                let reason = "the backend is the one in Rust";
                return Err(needs_libavcodec(codec, &reason, libav::INSTALL));
            }
            (Backend::Auto | Backend::Libavcodec, codec) => {
                let watch = || Watch {
                    framing: Framing::of(&index.extradata),
                    gaps: Gaps::new(&index.extradata),
                };
                let watch = (*codec == Codec::H264).then(watch);
                Inner::Libav(Box::new(Libav::open(libavcodec()?, index, limits)?), watch)
            }
        };
        Ok(Self { codec, limits: *limits, packet: vec![] })
    }

    /// Returns the backend: never [`Backend::Auto`].
    #[must_use]
    pub fn backend(&self) -> Backend {
        match self.codec {
            Inner::H264(_) => Backend::Rust,
            Inner::Libav(..) => Backend::Libavcodec,
        }
    }

    /// Decodes the frames of a plan and hands them to `take` with their numbers, in the order of the runs, and ascending in
    /// each run. `index` and `file` are those of the decoder.
    ///
    /// # Errors
    ///
    /// Fails with the offset of the packet if a packet can't be read or decoded, if a frame exceeds the limits or has another
    /// size than the ones before, and with the errors of `take`.
    pub fn decode(
        &mut self,
        index: &VideoIndex,
        plan: &DecodePlan,
        file: &dyn ReadExactAt,
        take: &mut dyn FnMut(u32, &Frame) -> Result<(), VideoError>,
    ) -> Result<(), VideoError> {
        plan.runs.iter().try_for_each(|run| self.run(index, run, file, take))
    }

    fn run(
        &mut self,
        index: &VideoIndex,
        run: &DecodeRun,
        file: &dyn ReadExactAt,
        take: &mut dyn FnMut(u32, &Frame) -> Result<(), VideoError>,
    ) -> Result<(), VideoError> {
        let mut out = Ordered::new(index, &run.frames, take)?;
        let mut packets = run.packets.clone();
        let mut fault = None;
        for _ in 0..=MAX_RESTARTS {
            let Some(start) = self.find_start(index, &run.frames, &mut packets, file)? else {
                break;
            };
            match self.attempt(index, &packets, start, file, &mut out) {
                Ok(()) => return Ok(()),
                // It may be a reference that a start within a stream leaves out.
                Err(Stop::Error(error))
                    if error.kind() == VideoErrorKind::Damaged && start != Start::Closed =>
                {
                    fault.get_or_insert(error);
                }
                Err(Stop::Error(error)) => return Err(self.damage_or(error, index, file)),
                Err(Stop::Unrecovered) => {}
            }
            if !start_earlier(index, &mut packets) {
                break;
            }
        }
        if let Some(error) = fault {
            return Err(error);
        }
        let number = out.frames.get(out.done).map_or(0, |&(number, _)| number);
        let message = format!(
            "frame {number} can't be decoded from its packets: the stream is damaged, or begins within a group of pictures"
        );
        let error = VideoError::new(VideoErrorKind::Damaged, message);
        let first = packets.first().and_then(|&first| index.packets.get(first as usize));
        Err(match first {
            Some(first) => error.at(first.offset),
            None => error,
        })
    }

    /// Returns an error, as that of a damaged packet if only this packet needs libavcodec, and the first one of the file does not.
    fn damage_or(
        &self,
        error: VideoError,
        index: &VideoIndex,
        file: &dyn ReadExactAt,
    ) -> VideoError {
        let Inner::H264(decoder) = &self.codec else { return error };
        let mut first = vec![];
        if error.kind() != VideoErrorKind::NeedsLibavcodec
            || read_packet(index, file, &self.limits, 0, &mut first).is_err()
            || !decoder.contradicts(index, &first)
        {
            return error;
        }
        let found = error.message().split(", which needs").next().unwrap_or_default();
        let message = format!("{found}, unlike the first packet of the stream");
        let damaged = VideoError::new(VideoErrorKind::Damaged, message);
        match error.offset() {
            Some(offset) => damaged.at(offset),
            None => damaged,
        }
    }

    /// Begins the packets of a run earlier until decoding can start at the first one. Returns nothing if it can nowhere.
    fn find_start(
        &mut self,
        index: &VideoIndex,
        frames: &[u32],
        packets: &mut Vec<u32>,
        file: &dyn ReadExactAt,
    ) -> Result<Option<Start>, VideoError> {
        let is_ordered = index.max_reordering == 0;
        let pts = |packet: u32| index.packets.get(packet as usize).map(|packet| packet.pts);
        let wanted = frames.iter().filter_map(|&frame| index.frames.get(frame as usize));
        let earliest = wanted.filter_map(|frame| pts(frame.packet)).min();
        loop {
            let Some(&first) = packets.first() else { return Ok(None) };
            read_packet(index, file, &self.limits, first, &mut self.packet)?;
            let found = start(&index.codec, &index.extradata, &self.packet);
            // Frames that are shown before an open group of pictures refer to the group before.
            let leads = pts(first) > earliest;
            let is_first = index.keys.first().is_none_or(|&key| first <= key);
            let is_usable = match found {
                Start::Closed => !is_ordered || !leads || is_first,
                Start::Open => is_ordered && !leads,
                Start::Unstated => is_ordered && !leads && is_first,
                Start::Gradual => is_ordered && is_first,
                Start::Never => false,
            };
            if is_usable {
                return Ok(Some(found));
            }
            if !start_earlier(index, packets) {
                return Ok(None);
            }
        }
    }

    /// Decodes packets until all wanted frames are out.
    fn attempt(
        &mut self,
        index: &VideoIndex,
        packets: &[u32],
        start: Start,
        file: &dyn ReadExactAt,
        out: &mut Ordered<'_>,
    ) -> Result<(), Stop> {
        // Without times of presentation, pictures are numbered in the order in which a decoder returns them.
        let order = (index.max_reordering > 0).then(|| index.presentation_order(packets));
        let Self { codec, limits, packet } = self;
        let mut source = Packets {
            index,
            file,
            limits,
            numbers: packets.iter(),
            bytes: packet,
            first: packets.first().copied().unwrap_or_default(),
            previous: None,
            left_out: 0,
        };
        match (codec, order) {
            (Inner::H264(decoder), None) => h264_by_packets(decoder, &mut source, out)?,
            (Inner::H264(decoder), Some(order)) => {
                h264_by_order(decoder, &mut source, &order, out)?;
            }
            (Inner::Libav(decoder, watch), None) => {
                // All pictures of such a start have to come out, and not only those that libavcodec counts as exact.
                let is_tolerant = matches!(start, Start::Open | Start::Unstated);
                decoder.tolerate_missing_references(is_tolerant)?;
                match libav_by_packets(decoder, watch.as_mut(), &mut source, out) {
                    Err(Stop::Error(fault))
                        if fault.kind() == VideoErrorKind::Damaged
                            && !out.is_stopped
                            && !out.is_complete() =>
                    {
                        // The decoder holds pictures back for their order, and loses them at a damaged packet. Those of the
                        // packets before come if the stream ends there.
                        source = source.before_last(packets);
                        let decoded = libav_by_packets(decoder, watch.as_mut(), &mut source, out);
                        match decoded {
                            Err(stop) if out.is_stopped => return Err(stop),
                            _ if out.is_complete() => {}
                            _ => return Err(fault.into()),
                        }
                    }
                    decoded => decoded?,
                }
            }
            (Inner::Libav(decoder, watch), Some(order)) => {
                decoder.tolerate_missing_references(false)?;
                libav_by_order(decoder, watch.as_mut(), &mut source, &order, out)?;
            }
        }
        if out.is_complete() { Ok(()) } else { Err(Stop::Unrecovered) }
    }
}

/// Decodes packets whose pictures are known by their packets.
fn h264_by_packets(
    decoder: &mut H264,
    source: &mut Packets<'_>,
    out: &mut Ordered<'_>,
) -> Result<(), Stop> {
    decoder.reset()?;
    while !out.is_complete()
        && let Some((number, packet)) = source.next()?
    {
        let decoded = decoder.decode(source.bytes, source.left_out, out.is_wanted(number));
        if let Some(Decoded { frame, .. }) = decoded.map_err(|stop| stop.at(packet.offset))? {
            out.put(number, frame)?;
        }
    }
    Ok(())
}

/// Decodes packets whose pictures are numbered by the order of their presentation. Each packet gives one.
fn h264_by_order(
    decoder: &mut H264,
    source: &mut Packets<'_>,
    order: &[u32],
    out: &mut Ordered<'_>,
) -> Result<(), Stop> {
    decoder.reset()?;
    if order.len() != source.numbers.len() {
        return Err(Stop::Unrecovered);
    }
    let depth = source.index.max_reordering as usize;
    let mut numbers = order.iter();
    // Pictures that one with an earlier place may still follow.
    let mut waiting = BTreeMap::new();
    loop {
        let next = source.next()?;
        if let Some((number, packet)) = next {
            let decoded = decoder.decode(source.bytes, 0, true);
            let decoded = decoded.map_err(|stop| stop.at(packet.offset))?;
            waiting.extend(decoded.map(|picture| ((picture.place, number), picture.frame)));
            if !decoder.began_with_idr() {
                return Err(Stop::Unrecovered);
            }
        }
        while next.is_none() || waiting.len() > depth {
            let (Some((_, frame)), Some(&number)) = (waiting.pop_first(), numbers.next()) else {
                return Ok(());
            };
            if out.is_wanted(number) {
                out.put(number, frame)?;
            }
        }
    }
}

/// Decodes packets whose pictures come with the numbers of their packets.
fn libav_by_packets(
    decoder: &mut Libav,
    mut watch: Option<&mut Watch>,
    source: &mut Packets<'_>,
    out: &mut Ordered<'_>,
) -> Result<(), Stop> {
    decoder.reset();
    if let Some(watch) = &mut watch {
        watch.gaps.reset();
    }
    let (mut offset, mut is_at_end) = (0, false);
    while !out.is_complete() && !is_at_end {
        if let Some((number, packet)) = source.next()? {
            offset = packet.offset;
            if let Some(watch) = &mut watch {
                if !out.is_wanted(number) && !watch.framing.has_reference(source.bytes) {
                    continue;
                }
                let checked = watch.gaps.check(source.bytes, source.left_out);
                checked.map_err(|error| error.at(offset))?;
            }
            decoder.send(Some((source.bytes, number))).map_err(|error| error.at(offset))?;
        } else {
            is_at_end = true;
            decoder.send(None).map_err(|error| error.at(offset))?;
        }
        while let Some(number) = decoder.receive().map_err(|error| error.at(offset))? {
            if out.is_wanted(number) {
                out.put(number, decoder.frame().map_err(|error| error.at(offset))?)?;
            }
        }
    }
    Ok(())
}

/// Decodes packets whose pictures are numbered by the order in which they come.
fn libav_by_order(
    decoder: &mut Libav,
    mut watch: Option<&mut Watch>,
    source: &mut Packets<'_>,
    order: &[u32],
    out: &mut Ordered<'_>,
) -> Result<(), Stop> {
    decoder.reset();
    if let Some(watch) = &mut watch {
        watch.gaps.reset();
    }
    let depth = source.index.max_reordering as usize;
    let (mut offset, mut is_at_end) = (0, false);
    // A picture's place is known only when those of all packets before it came, and of those that may be shown before it.
    let mut has_come = vec![false; order.len()];
    let (mut all_before, mut come) = (0, 0);
    let mut waiting: VecDeque<(usize, Frame)> = VecDeque::new();
    while !is_at_end {
        if let Some((number, packet)) = source.next()? {
            offset = packet.offset;
            if let Some(watch) = &mut watch {
                watch.gaps.check(source.bytes, 0).map_err(|error| error.at(offset))?;
            }
            decoder.send(Some((source.bytes, number))).map_err(|error| error.at(offset))?;
        } else {
            is_at_end = true;
            decoder.send(None).map_err(|error| error.at(offset))?;
        }
        while let Some(packet) = decoder.receive().map_err(|error| error.at(offset))? {
            let (Some(&number), Ok(place)) = (order.get(come), order.binary_search(&packet)) else {
                return Err(Stop::Unrecovered);
            };
            if std::mem::replace(&mut has_come[place], true) {
                return Err(Stop::Unrecovered);
            }
            if out.is_wanted(number) {
                waiting.push_back((come, decoder.frame().map_err(|error| error.at(offset))?));
            }
            come += 1;
            all_before += has_come[all_before..].iter().take_while(|&&has_come| has_come).count();
            while let Some((place, _)) = waiting.front()
                && all_before > (place + depth).min(order.len() - 1)
                && let Some((place, frame)) = waiting.pop_front()
            {
                out.put(order[place], frame)?;
            }
        }
    }
    Ok(())
}

/// Begins packets at the key packet before the first one, and returns false if there is none.
fn start_earlier(index: &VideoIndex, packets: &mut Vec<u32>) -> bool {
    let (Some(&first), Some(&last)) = (packets.first(), packets.last()) else { return false };
    let before = index.keys.partition_point(|&key| key < first);
    let Some(&key) = before.checked_sub(1).and_then(|before| index.keys.get(before)) else {
        return false;
    };
    *packets = (key..=last).collect();
    true
}

/// Reads a packet.
fn read_packet(
    index: &VideoIndex,
    file: &dyn ReadExactAt,
    limits: &VideoLimits,
    number: u32,
    bytes: &mut Vec<u8>,
) -> Result<Packet, VideoError> {
    let no_packet =
        || VideoError::new(VideoErrorKind::Parameter, format!("the index has no packet {number}"));
    let packet = *index.packets.get(number as usize).ok_or_else(no_packet)?;
    let (size, most) = (u64::from(packet.size), limits.max_packet_bytes);
    if size > most {
        return Err(
            over_limit!("a packet of {size} bytes: the limit is {most} bytes").at(packet.offset)
        );
    }
    bytes.clear();
    bytes
        .try_reserve_exact(packet.size as usize)
        .map_err(|_| over_limit!("no memory for a packet of {size} bytes").at(packet.offset))?;
    bytes.resize(packet.size as usize, 0);
    let read = file.read_exact_at(packet.offset, bytes);
    read.map_err(|error| VideoError::io(error, packet.offset))?;
    Ok(packet)
}

/// The packets of a run, read one after another.
struct Packets<'a> {
    index: &'a VideoIndex,
    file: &'a dyn ReadExactAt,
    limits: &'a VideoLimits,
    numbers: std::slice::Iter<'a, u32>,
    /// The bytes of the last packet.
    bytes: &'a mut Vec<u8>,
    /// The number of the first packet, and of the last one.
    first: u32,
    previous: Option<u32>,
    /// Number of packets that the plan leaves out before the last one because they are shown before the first one.
    left_out: u32,
}

impl<'a> Packets<'a> {
    /// Restarts with the packets before the one whose picture failed.
    fn before_last(self, packets: &'a [u32]) -> Self {
        let last = packets.iter().position(|&number| Some(number) == self.previous).unwrap_or(0);
        // A second field has a packet of its own, and no frame.
        let has_frame =
            |number: &u32| self.index.frames.iter().any(|frame| frame.packet == *number);
        let end = packets.iter().take(last + 1).rposition(has_frame).unwrap_or(0);
        Self { numbers: packets[..end].iter(), previous: None, left_out: 0, ..self }
    }

    /// Reads the next packet and returns its number.
    fn next(&mut self) -> Result<Option<(u32, Packet)>, VideoError> {
        let Some(&number) = self.numbers.next() else { return Ok(None) };
        let pts = |number: u32| self.index.packets.get(number as usize).map(|packet| packet.pts);
        let previous = self.previous.replace(number).unwrap_or(number);
        let first = pts(self.first);
        self.left_out =
            (previous.saturating_add(1)..number).filter(|&other| pts(other) < first).count() as u32;
        let packet = read_packet(self.index, self.file, self.limits, number, self.bytes)?;
        Ok(Some((number, packet)))
    }
}

/// Wanted frames, handed out in their order as their pictures come.
struct Ordered<'a> {
    /// The numbers of frames and of their packets.
    frames: Vec<(u32, u32)>,
    /// Number of frames that were handed out.
    done: usize,
    /// Number of frames to come of each packet.
    uses: BTreeMap<u32, usize>,
    held: BTreeMap<u32, Frame>,
    /// True after an error of `take`.
    is_stopped: bool,
    take: &'a mut dyn FnMut(u32, &Frame) -> Result<(), VideoError>,
}

impl<'a> Ordered<'a> {
    fn new(
        index: &VideoIndex,
        wanted: &[u32],
        take: &'a mut dyn FnMut(u32, &Frame) -> Result<(), VideoError>,
    ) -> Result<Self, VideoError> {
        let no_frame = |frame| {
            VideoError::new(VideoErrorKind::Parameter, format!("the index has no frame {frame}"))
        };
        let entry = |&frame: &u32| {
            index.frames.get(frame as usize).map(|entry| (frame, entry.packet)).ok_or(frame)
        };
        let frames: Vec<_> =
            wanted.iter().map(entry).collect::<Result<_, _>>().map_err(no_frame)?;
        let mut uses = BTreeMap::new();
        for (_, packet) in &frames {
            *uses.entry(*packet).or_insert(0) += 1;
        }
        Ok(Self { frames, done: 0, uses, held: BTreeMap::new(), is_stopped: false, take })
    }

    fn is_complete(&self) -> bool {
        self.done == self.frames.len()
    }

    fn is_wanted(&self, packet: u32) -> bool {
        self.uses.contains_key(&packet) && !self.held.contains_key(&packet)
    }

    /// Takes the picture of a wanted packet.
    fn put(&mut self, packet: u32, frame: Frame) -> Result<(), VideoError> {
        self.held.insert(packet, frame);
        while let Some(&(number, packet)) = self.frames.get(self.done) {
            let Some(frame) = self.held.get(&packet) else { break };
            let taken = (self.take)(number, frame);
            self.is_stopped = taken.is_err();
            taken?;
            self.done += 1;
            if let Some(uses) = self.uses.get_mut(&packet) {
                *uses -= 1;
                if *uses == 0 {
                    self.uses.remove(&packet);
                    self.held.remove(&packet);
                }
            }
        }
        Ok(())
    }
}

/// Returns the matrix of a picture: that of the stream, or else of the container, or else BT.601.
fn matrix(stream: MatrixCoefficients, container: Color) -> MatrixCoefficients {
    let known = [stream, container.matrix]
        .into_iter()
        .find(|&matrix| matrix != MatrixCoefficients::Unknown);
    known.unwrap_or(MatrixCoefficients::Bt601)
}

/// Returns the error of a stream whose pictures have two sizes.
fn size_changes([width, height]: [u32; 2], [other_width, other_height]: [u32; 2]) -> VideoError {
    unsupported!(
        "the size of frames changes from {width}x{height} to {other_width}x{other_height}: cut the file there, as by ffmpeg -ss"
    )
}

/// Returns the name of a codec in messages.
pub(crate) fn name(codec: &Codec) -> String {
    match codec {
        Codec::MotionJpeg => "Motion JPEG".into(),
        Codec::H264 => "H.264".into(),
        Codec::Hevc => "HEVC (H.265)".into(),
        Codec::Mpeg4 => "MPEG-4 Part 2 (XviD, DivX)".into(),
        Codec::MsMpeg4V2 => "Microsoft MPEG-4 version 2".into(),
        Codec::MsMpeg4V3 => "Microsoft MPEG-4 version 3 (DivX 3)".into(),
        Codec::Mpeg2 => "MPEG-1 or MPEG-2".into(),
        Codec::Vp8 => "VP8".into(),
        Codec::Vp9 => "VP9".into(),
        Codec::Av1 => "AV1".into(),
        Codec::Other(name) => match known(name) {
            Some(usual) => format!("{usual} ({name})"),
            None => format!("codec {name}"),
        },
    }
}

/// Returns the usual name of a common codec that is not read, by the name that a container has for it.
fn known(name: &str) -> Option<&'static str> {
    match name {
        "apch" | "apcn" | "apcs" | "apco" | "ap4h" | "ap4x" | "V_PRORES" => Some("ProRes"),
        "V_FFV1" => Some("FFV1"),
        "HFYU" | "FFVH" => Some("HuffYUV"),
        "V_THEORA" => Some("Theora"),
        "WMV1" | "WMV2" | "WMV3" | "WVC1" => Some("Windows Media Video"),
        _ => None,
    }
}

/// The cure that helps any file.
const CONVERT: &str = "convert the file, as by ffmpeg -i IN -c:v libx264 -pix_fmt yuv420p OUT.mp4";

/// Returns the error of a codec that no decoder here reads.
fn not_read(codec: &Codec) -> VideoError {
    unsupported!(
        "{} is not read: H.264 and Motion JPEG are decoded in Rust, and HEVC, MPEG-1, MPEG-2, MPEG-4, VP8, VP9 and AV1 by \
         libavcodec: {CONVERT}",
        name(codec)
    )
}

/// Returns the error of a stream of H.264 that the decoder in Rust does not read.
fn h264_needs_libavcodec(what: &dyn fmt::Display) -> VideoError {
    let message = match Libavcodec::find() {
        Ok(_) => format!("H.264 with {what}, which needs libavcodec"),
        Err(none) => format!(
            "H.264 with {what}, which needs libavcodec of FFmpeg 4 to 8 ({none}): {}, or {CONVERT}",
            none.cure()
        ),
    };
    VideoError::new(VideoErrorKind::NeedsLibavcodec, message)
}

/// Returns the error of a codec that only libavcodec decodes.
fn needs_libavcodec(codec: &Codec, reason: &dyn fmt::Display, cure: &str) -> VideoError {
    let message = format!(
        "{} needs libavcodec of FFmpeg 4 to 8 ({reason}), because only H.264 and Motion JPEG are decoded in Rust: {cure}, or \
         {CONVERT}",
        name(codec)
    );
    VideoError::new(VideoErrorKind::NeedsLibavcodec, message)
}
