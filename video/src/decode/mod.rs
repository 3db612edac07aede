//! Frames from packets.
//!
//! | file           |                                                                       |
//! |----------------|-----------------------------------------------------------------------|
//! | `frame`        | a decoded picture                                                     |
//! | `h264`         | H.264 in Rust                                                         |
//! | `libav`        | all other codecs, by libavcodec, which is loaded at run time          |
//! | `motion_jpeg`  | JPEG files from the packets of Motion JPEG                            |
//!
//! A decoder takes the runs of a plan one after another. It forgets all pictures before a run, reads the packets, and leaves
//! out those that are neither wanted nor needed by others. If pictures are not exact because decoding started too late, such
//! as in a stream that is refreshed bit by bit instead of by key frames, it starts again at the key packet before.

mod frame;
mod h264;
mod libav;
mod motion_jpeg;

pub use frame::{Frame, Subsampling};
pub use libav::Libavcodec;
pub use motion_jpeg::jpeg_of_packet;

use crate::error::{over_limit, unsupported};
use crate::{
    Codec, Color, DecodePlan, DecodeRun, MatrixCoefficients, Packet, ReadExactAt, VideoError,
    VideoErrorKind, VideoIndex, VideoLimits,
};
use h264::{Decoded, Framing, H264, Start};
use libav::Libav;
use std::collections::BTreeMap;

/// What decodes packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Backend {
    /// [`Libavcodec`](Self::Libavcodec) where it is found, and [`Rust`](Self::Rust) otherwise. Both give the same frames.
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
    /// True if libavcodec began the last run of H.264 at a picture that others may look back behind.
    began_within: bool,
}

enum Inner {
    H264(Box<H264>),
    /// With the framing of H.264, by which packets are found that no other needs.
    Libav(Box<Libav>, Option<Framing>),
}

/// Why a run stopped.
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

/// Maximum number of key packets from which decoding is tried again.
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
            || Libavcodec::find().map_err(|reason| needs_libavcodec(&index.codec, reason));
        let codec = match (backend, &index.codec) {
            (Backend::Rust, Codec::H264) => Inner::H264(Box::new(H264::open(index, limits)?)),
            (Backend::Auto, Codec::H264) if Libavcodec::find().is_err() => {
                Inner::H264(Box::new(H264::open(index, limits)?))
            }
            (Backend::Rust, codec) => {
                return Err(needs_libavcodec(codec, "the backend is the one in Rust"));
            }
            (Backend::Auto | Backend::Libavcodec, codec) => {
                let framing = (*codec == Codec::H264).then(|| Framing::of(&index.extradata));
                Inner::Libav(Box::new(Libav::open(libavcodec()?, index, limits)?), framing)
            }
        };
        Ok(Self { codec, limits: *limits, packet: vec![], began_within: false })
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
            match self.attempt(index, &packets, file, &mut out) {
                Ok(()) => return Ok(()),
                // It may be a reference that a start within a stream leaves out.
                Err(Stop::Error(error))
                    if error.kind() == VideoErrorKind::Damaged && self.began_within =>
                {
                    fault.get_or_insert(error);
                }
                Err(Stop::Error(error)) => return Err(error),
                Err(Stop::Unrecovered) => {}
            }
            let first = packets.first().copied().unwrap_or(0);
            let is_key = |number: &u32| {
                index.packets.get(*number as usize).is_some_and(|packet| packet.is_key)
            };
            let Some(key) = (0..first).rev().find(is_key) else { break };
            packets = (key..=packets.last().copied().unwrap_or(first)).collect();
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

    /// Decodes packets until all wanted frames are out.
    fn attempt(
        &mut self,
        index: &VideoIndex,
        packets: &[u32],
        file: &dyn ReadExactAt,
        out: &mut Ordered<'_>,
    ) -> Result<(), Stop> {
        // Without times of presentation, pictures are numbered in the order in which a decoder returns them.
        let order = (index.max_reordering > 0).then(|| index.presentation_order(packets));
        let Self { codec, limits, packet, began_within } = self;
        *began_within = false;
        let mut source = Packets { index, file, limits, numbers: packets.iter(), bytes: packet };
        match (codec, order) {
            (Inner::H264(decoder), None) => h264_by_packets(decoder, &mut source, out)?,
            (Inner::H264(decoder), Some(order)) => {
                h264_by_order(decoder, &mut source, &order, out)?;
            }
            (Inner::Libav(decoder, framing), None) => {
                libav_by_packets(decoder, *framing, &mut source, began_within, out)?;
            }
            (Inner::Libav(decoder, framing), Some(order)) => {
                libav_by_order(decoder, *framing, &mut source, &order, out)?;
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
        let decoded = decoder.decode(source.bytes, out.is_wanted(number));
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
            let decoded =
                decoder.decode(source.bytes, true).map_err(|stop| stop.at(packet.offset))?;
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
    framing: Option<Framing>,
    source: &mut Packets<'_>,
    began_within: &mut bool,
    out: &mut Ordered<'_>,
) -> Result<(), Stop> {
    decoder.reset();
    let mut offset = 0;
    let (mut is_first, mut is_at_end) = (true, false);
    while !out.is_complete() && !is_at_end {
        if let Some((number, packet)) = source.next()? {
            offset = packet.offset;
            if std::mem::take(&mut is_first) {
                let start = framing.map_or(Start::Idr, |framing| framing.start(source.bytes));
                decoder.tolerate_missing_references(start == Start::Intra);
                *began_within = start != Start::Idr;
            }
            if !out.is_wanted(number)
                && framing.is_some_and(|framing| !framing.has_reference(source.bytes))
            {
                continue;
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
    framing: Option<Framing>,
    source: &mut Packets<'_>,
    order: &[u32],
    out: &mut Ordered<'_>,
) -> Result<(), Stop> {
    decoder.reset();
    decoder.tolerate_missing_references(false);
    let (mut offset, mut is_first, mut is_at_end) = (0, true, false);
    let (mut numbers, mut frames) = (order.iter(), vec![]);
    while !is_at_end {
        if let Some((number, packet)) = source.next()? {
            offset = packet.offset;
            if std::mem::take(&mut is_first)
                && framing.is_some_and(|framing| framing.start(source.bytes) != Start::Idr)
            {
                return Err(Stop::Unrecovered);
            }
            decoder.send(Some((source.bytes, number))).map_err(|error| error.at(offset))?;
        } else {
            is_at_end = true;
            decoder.send(None).map_err(|error| error.at(offset))?;
        }
        while decoder.receive().map_err(|error| error.at(offset))?.is_some() {
            let &number = numbers.next().ok_or(Stop::Unrecovered)?;
            if out.is_wanted(number) {
                frames.push((number, decoder.frame().map_err(|error| error.at(offset))?));
            }
        }
    }
    if numbers.next().is_some() {
        return Err(Stop::Unrecovered);
    }
    frames.into_iter().try_for_each(|(number, frame)| Ok(out.put(number, frame)?))
}

/// The packets of a run, read one after another.
struct Packets<'a> {
    index: &'a VideoIndex,
    file: &'a dyn ReadExactAt,
    limits: &'a VideoLimits,
    numbers: std::slice::Iter<'a, u32>,
    /// The bytes of the last packet.
    bytes: &'a mut Vec<u8>,
}

impl Packets<'_> {
    /// Reads the next packet and returns its number.
    fn next(&mut self) -> Result<Option<(u32, Packet)>, VideoError> {
        let Some(&number) = self.numbers.next() else { return Ok(None) };
        let no_packet = || {
            VideoError::new(VideoErrorKind::Parameter, format!("the index has no packet {number}"))
        };
        let packet = *self.index.packets.get(number as usize).ok_or_else(no_packet)?;
        let (size, most) = (u64::from(packet.size), self.limits.max_packet_bytes);
        if size > most {
            return Err(over_limit!("a packet of {size} bytes: the limit is {most} bytes")
                .at(packet.offset));
        }
        self.bytes.clear();
        let reserved = self.bytes.try_reserve_exact(packet.size as usize);
        reserved
            .map_err(|_| over_limit!("no memory for a packet of {size} bytes").at(packet.offset))?;
        self.bytes.resize(packet.size as usize, 0);
        let read = self.file.read_exact_at(packet.offset, self.bytes);
        read.map_err(|error| VideoError::io(error, packet.offset))?;
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
        Ok(Self { frames, done: 0, uses, held: BTreeMap::new(), take })
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
            (self.take)(number, frame)?;
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
        Codec::Other(name) => format!("codec {name}"),
    }
}

/// Returns the error of a codec that only libavcodec decodes.
fn needs_libavcodec(codec: &Codec, reason: &str) -> VideoError {
    unsupported!(
        "{} needs libavcodec of FFmpeg 4 to 8 ({reason}): install FFmpeg, set FUSELOOP_LIBAVCODEC to the path of libavcodec, or \
         convert the file, as by ffmpeg -i IN -c:v libx264 -pix_fmt yuv420p OUT.mp4",
        name(codec)
    )
}
