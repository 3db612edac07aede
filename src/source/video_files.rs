//! Video files: a dataset of bytes, each value of which is a video file.
//!
//! ```text
//! times    value ─▶ index of packets (in memory for as many videos as fit) ─▶ times of the frames
//! frames   index ─▶ packets to decode ─▶ decoder ─▶ planes of each frame that is asked for
//!          index ─▶ packet of each frame that is asked for ─▶ a JPEG                          (Motion JPEG)
//! ```
//!
//! A value that is a local file of its own is read in parts: the tables for its index, and the packets that frames need.
//! Any other value, such as a member of a tar shard, is read whole. Each reading of frames has a decoder of its own, so that
//! its frames, and its errors, depend on nothing that was decoded before.

use super::frames::{FrameGroups, FrameTimes, Frames};
use super::lru_cache::LruCache;
use super::saved_videos::{SavedVideos, video_limits};
use super::video_list::{ListLabels, VideoList};
use super::{
    BoxError, Buffer, EncodedImage, Facts, FieldKind, FieldSpec, Fingerprint, FrameError,
    FrameImage, FramePixels, ImageMode, Record, SampleLocation, SecondsRange, Source, TakeFrame,
    Value, file_pool, frame_size, frame_window, read_values, upright,
};
use crate::error::{AtPath as _, Damage, Error, fail};
use crate::sample::{Limits, SampleId};
use fuseloop_kernels::YuvRows;
use fuseloop_ops::Size;
use fuseloop_video::{
    Backend, Codec, Frame, FrameEntry, Libavcodec, Packet, ReadExactAt, Rotation, VideoDecoder,
    VideoError, VideoErrorKind, VideoIndex, VideoLimits, jpeg_of_packet,
};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::Path;
#[cfg(feature = "parquet")]
use std::path::PathBuf;
use std::sync::Arc;

/// The bytes of the indexes that stay in memory. Those of ten seconds at 30 frames per second are 17 KB.
const INDEX_BYTES: u64 = 128 << 20;

/// Video files whose frames are the values of a field. The other fields are those of the dataset.
pub(crate) struct VideoFiles {
    facts: Facts,
    files: Arc<dyn Source>,
    /// The field of `files` that has the video files.
    field: usize,
    limits: VideoLimits,
    indexed: LruCache<u64, IndexedVideo>,
    saved: SavedVideos,
    /// The sample of each video; empty if that is its number.
    order: Vec<u64>,
    /// The first sample of the file of each sample; empty if every sample has a file of its own.
    first_of_file: Vec<u64>,
    labels: Option<ListLabels>,
}

/// The index of a video, which has frames, and their times.
struct IndexedVideo {
    index: VideoIndex,
    times: FrameTimes,
}

/// The bytes of a video file.
enum VideoBytes<'a> {
    File(File),
    Memory(&'a [u8]),
}

impl<'a> VideoBytes<'a> {
    /// Opens the file that a value is, or reads the value into `buffer`.
    fn open(
        files: &'a dyn Source,
        (sample, field): (SampleId, usize),
        buffer: &'a mut Buffer,
    ) -> Result<Self, Error> {
        let stored = files.stored();
        if let Some(path) = stored.and_then(|stored| stored.value_file(sample, field)) {
            file_pool::regular(&path).at(&path)?;
            return Ok(Self::File(file_pool::open(&path).at(&path)?));
        }
        Ok(Self::Memory(files.value(sample, field, buffer)?.bytes()))
    }
}

impl ReadExactAt for VideoBytes<'_> {
    fn byte_len(&self) -> io::Result<u64> {
        match self {
            Self::File(file) => file.byte_len(),
            Self::Memory(bytes) => bytes.byte_len(),
        }
    }

    fn read_exact_at(&self, offset: u64, to: &mut [u8]) -> io::Result<()> {
        match self {
            Self::File(file) => file.read_exact_at(offset, to),
            Self::Memory(bytes) => bytes.read_exact_at(offset, to),
        }
    }
}

impl IndexedVideo {
    fn of(bytes: &VideoBytes<'_>, limits: &VideoLimits) -> Result<Self, Error> {
        Self::new(VideoIndex::read(bytes, limits).map_err(|error| failed(&error))?)
    }

    fn new(index: VideoIndex) -> Result<Self, Error> {
        let times: Arc<[f64]> = (0..index.frame_count()).filter_map(|n| index.time(n)).collect();
        let times = FrameTimes::listed(times);
        let times = times.ok_or_else(|| fail!(Damaged, "the video has no frames"))?;
        Ok(Self { index, times })
    }

    /// Returns the bytes that the index takes in memory.
    fn bytes(&self) -> u64 {
        let frame = size_of::<FrameEntry>() + size_of::<f64>();
        let packets = self.index.packets().len() * (size_of::<Packet>() + size_of::<u32>());
        let all = packets + self.index.frame_count() * frame + self.index.extradata.len();
        (all + size_of::<Self>()) as u64
    }

    /// Returns the EXIF orientation that turns pictures as a player does.
    fn orientation(&self) -> u8 {
        match self.index.rotation {
            Rotation::None => 1,
            Rotation::Clockwise90 => 6,
            Rotation::Clockwise180 => 3,
            Rotation::Clockwise270 => 8,
        }
    }

    /// Reads frames, which are ascending.
    fn read_frames(
        &self,
        frames: &[u32],
        bytes: &VideoBytes<'_>,
        limits: &VideoLimits,
        take: TakeFrame<'_>,
    ) -> Result<(), FrameError> {
        match self.index.codec {
            Codec::MotionJpeg => self.read_jpegs(frames, bytes, limits, take),
            _ => self.decode(frames, bytes, limits, take),
        }
    }

    /// Writes a frame to `to`: upright RGB pixels, or a JPEG. Returns which of them, and the size of pixels.
    fn read_image(
        &self,
        frame: u32,
        bytes: &VideoBytes<'_>,
        limits: &VideoLimits,
        to: &mut Vec<u8>,
    ) -> Result<(ImageMode, Size), Error> {
        let mut found = None;
        let read = self.read_frames(&[frame], bytes, limits, &mut |_, image| {
            found = Some(match image.pixels {
                FramePixels::Stored(value) => {
                    to.clear();
                    to.extend_from_slice(value.bytes());
                    (ImageMode::Jpeg, Size::default())
                }
                FramePixels::Planes(frame) => {
                    (ImageMode::Raw, upright_pixels(frame, image.orientation, to)?)
                }
            });
            Ok(())
        });
        read.map_err(|fault| fault.error)?;
        found.ok_or_else(|| fail!(Damaged, "the video has no frame {frame}"))
    }

    /// Reads the packets of frames, each of which is a JPEG.
    fn read_jpegs(
        &self,
        frames: &[u32],
        bytes: &VideoBytes<'_>,
        limits: &VideoLimits,
        take: TakeFrame<'_>,
    ) -> Result<(), FrameError> {
        let (index, mut packet) = (&self.index, vec![]);
        for &frame in frames {
            let mut read = || {
                read_packet(index, frame, bytes, limits, &mut packet)?;
                let jpeg = jpeg_of_packet(&packet);
                let jpeg = jpeg.map_err(|error| failed(&error))?;
                let image =
                    EncodedImage { mode: ImageMode::Jpeg, width: 0, height: 0, bytes: &jpeg };
                let pixels = FramePixels::Stored(Value::Image(image));
                take(frame, FrameImage { pixels, orientation: self.orientation() })
            };
            read().map_err(|error| FrameError { frame: Some(frame), error })?;
        }
        Ok(())
    }

    /// Decodes frames, from the key packets before them.
    fn decode(
        &self,
        frames: &[u32],
        bytes: &VideoBytes<'_>,
        limits: &VideoLimits,
        take: TakeFrame<'_>,
    ) -> Result<(), FrameError> {
        let index = &self.index;
        let failed = |error: VideoError, frame| {
            let error = failed(&error);
            FrameError { frame, error }
        };
        let plan = index.plan(frames).map_err(|error| failed(error, None))?;
        let decoder = VideoDecoder::open(index, Backend::Auto, limits);
        let mut decoder = decoder.map_err(|error| failed(error, None))?;
        let (mut taken, mut fault) = (0, None);
        let decoded = decoder.decode(index, &plan, bytes, &mut |frame, picture| {
            let pixels = FramePixels::Planes(picture);
            let image = FrameImage { pixels, orientation: self.orientation() };
            taken += 1;
            take(frame, image).map_err(|error| {
                fault = Some(FrameError { frame: Some(frame), error });
                VideoError::new(VideoErrorKind::Parameter, "the frame was refused")
            })
        });
        match (fault, decoded) {
            (Some(fault), _) => Err(fault),
            (None, Ok(())) => Ok(()),
            (None, Err(error)) => {
                let next = plan.runs.iter().flat_map(|run| &run.frames).nth(taken);
                Err(failed(error, next.copied()))
            }
        }
    }
}

impl VideoFiles {
    /// Makes the values of `field`, which are bytes, videos.
    pub(crate) fn new(files: Arc<dyn Source>, field: usize, limits: &Limits) -> Self {
        let mut print = Fingerprint::default();
        print.text("videos");
        print.number(field as u64);
        print.number(files.fingerprint());
        let mut fields: Vec<FieldSpec> = files.fields().to_vec();
        fields[field].kind = FieldKind::RgbImage;
        let facts = Facts {
            fields: fields.into(),
            fingerprint: print.value(),
            stored_bytes: None,
            page_size: None,
            ..files.facts().clone()
        }
        .with_videos([]);
        let limits = video_limits(limits);
        let indexed = LruCache::new(INDEX_BYTES, IndexedVideo::bytes);
        let saved = SavedVideos::new(limits);
        Self {
            facts,
            files,
            field,
            limits,
            indexed,
            saved,
            order: vec![],
            first_of_file: vec![],
            labels: None,
        }
    }

    /// Finds the samples that are parts of one file, which then have one index.
    pub(crate) fn sharing_files(mut self) -> Self {
        let (stored, mut first) = (self.files.stored(), HashMap::new());
        let first_of = |sample| {
            let path = stored.and_then(|stored| stored.value_file(SampleId(sample), self.field));
            path.map_or(sample, |path| *first.entry(path).or_insert(sample))
        };
        self.first_of_file = (0..self.facts.samples).map(first_of).collect();
        self
    }

    /// Returns the videos that a file lists, in its order, with its labels unless the dataset has labels of its own.
    ///
    /// # Errors
    ///
    /// If the file can't be read, if it lists none of the videos, or if its labels contradict those of the dataset.
    pub(crate) fn listed(mut self, list: &Path, max_bytes: u64) -> Result<Self, Error> {
        let list = VideoList::read(list, max_bytes)?;
        let path = |video| {
            let location = self.files.locate(SampleId(video), self.field);
            let name = location.and_then(|location| location.key.or(location.file));
            name.map_or_else(String::new, |name| name.replace('\\', "/"))
        };
        let paths: Vec<String> = (0..self.facts.samples).map(path).collect();
        let (videos, labels) = list.choose(&paths, &self.facts.name)?;
        self.facts = VideoList::facts(&self.facts, &videos, labels.as_deref());
        self.order = videos.into_iter().map(|video| video as u64).collect();
        let Some(labels) = labels else { return Ok(self) };
        self.labels = list.labels_of(&self, self.files.field_index("label"), labels)?;
        if let Some(own) = &self.labels {
            own.add_to(&mut self.facts);
        }
        Ok(self)
    }

    /// Returns the sample of the dataset that is a video.
    fn sample(&self, video: SampleId) -> Result<SampleId, Error> {
        if video.0 >= self.facts.samples {
            return Err(fail!(Parameter, "no such video: there are {}", self.facts.samples));
        }
        Ok(SampleId(self.order.get(video.0 as usize).copied().unwrap_or(video.0)))
    }

    /// Opens a video file, or reads it into `buffer`.
    fn open<'a>(
        &'a self,
        sample: SampleId,
        buffer: &'a mut Buffer,
    ) -> Result<VideoBytes<'a>, Error> {
        VideoBytes::open(&*self.files, (sample, self.field), buffer)
    }

    /// Returns the index of a video: the one in memory, the one that was saved, or that of its bytes.
    fn indexed(&self, video: SampleId) -> Result<Arc<IndexedVideo>, Error> {
        let sample = self.sample(video)?;
        let first = self.first_of_file.get(sample.0 as usize).copied().unwrap_or(sample.0);
        self.indexed.get(first, || {
            let path = self.files.stored().and_then(|it| it.value_file(sample, self.field));
            if let Some(index) = path.and_then(|path| self.saved.index(&path)) {
                return IndexedVideo::new(index);
            }
            let mut buffer = Buffer::default();
            IndexedVideo::of(&self.open(sample, &mut buffer)?, &self.limits)
        })
    }
}

/// Local video files whose frames are read by their numbers.
#[cfg(feature = "parquet")]
pub(super) struct VideoPaths {
    paths: Vec<PathBuf>,
    limits: VideoLimits,
    indexed: LruCache<u64, IndexedVideo>,
}

#[cfg(feature = "parquet")]
impl VideoPaths {
    /// Takes files, none of which is opened before its frames are needed.
    pub(super) fn new(paths: Vec<PathBuf>, limits: &Limits) -> Self {
        let indexed = LruCache::new(INDEX_BYTES, IndexedVideo::bytes);
        Self { paths, limits: video_limits(limits), indexed }
    }

    /// Returns all files.
    pub(super) fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    fn open(&self, file: usize) -> Result<VideoBytes<'static>, Error> {
        let path = &self.paths[file];
        file_pool::regular(path).at(path)?;
        Ok(VideoBytes::File(file_pool::open(path).at(path)?))
    }

    /// Returns the index of a file: the one in memory, or that of its bytes.
    fn indexed(&self, file: usize) -> Result<Arc<IndexedVideo>, Error> {
        let path = &self.paths[file];
        self.indexed
            .get(file as u64, || IndexedVideo::of(&self.open(file)?, &self.limits))
            .map_err(|error: Error| error.at(path))
    }

    /// Returns the times of the frames of a file.
    ///
    /// # Errors
    ///
    /// If the file can't be read.
    pub(super) fn times(&self, file: usize) -> Result<FrameTimes, Error> {
        Ok(self.indexed(file)?.times.clone())
    }

    /// Reads frames of a file, which are ascending, and hands each to `take` with its number.
    ///
    /// # Errors
    ///
    /// If the file or a frame can't be read, and with the errors of `take`.
    pub(super) fn read_frames(
        &self,
        file: usize,
        frames: &[u32],
        take: TakeFrame<'_>,
    ) -> Result<(), FrameError> {
        let opened = || Ok((self.indexed(file)?, self.open(file)?));
        let (indexed, bytes) = opened().map_err(|error| FrameError { frame: None, error })?;
        indexed.read_frames(frames, &bytes, &self.limits, take)
    }

    /// Writes a frame of a file to `to`: upright RGB pixels, or a JPEG. Returns which of them, and the size of pixels.
    ///
    /// # Errors
    ///
    /// If the file or the frame can't be read.
    pub(super) fn read_image(
        &self,
        file: usize,
        frame: u32,
        to: &mut Vec<u8>,
    ) -> Result<(ImageMode, Size), Error> {
        let (indexed, bytes) = (self.indexed(file)?, self.open(file)?);
        indexed.read_image(frame, &bytes, &self.limits, to)
    }
}

/// Decodes the frames of a video file that begin in a range of seconds, or all, and hands each to `take`.
///
/// # Errors
///
/// If the file is damaged, over the limits or not supported, or has no frame in the range, and with the errors of `take`.
pub(crate) fn check_video(
    bytes: &[u8],
    part: Option<SecondsRange>,
    limits: &Limits,
    take: TakeFrame<'_>,
) -> Result<(), FrameError> {
    let (bytes, limits) = (VideoBytes::Memory(bytes), video_limits(limits));
    let whole = |error| FrameError { frame: None, error };
    let video = IndexedVideo::of(&bytes, &limits).map_err(whole)?;
    let (low, high) = video.times.frames_in(part).map_err(whole)?;
    let frames: Vec<u32> = (low..high).collect();
    video.read_frames(&frames, &bytes, &limits, take)
}

/// The facts that the index of a video file states.
#[derive(Debug)]
pub(crate) struct VideoSummary {
    pub(crate) codec: String,
    /// The size of the upright picture.
    pub(crate) size: Size,
    pub(crate) frames: u64,
    pub(crate) seconds: f64,
    /// The most packets from one at which decoding starts to the next.
    pub(crate) longest_group: u64,
    /// Why no decoder here reads the file, if none does.
    pub(crate) no_decoder: Option<Error>,
}

impl VideoSummary {
    /// Reads the index of a video file, the value of a sample in a field.
    ///
    /// # Errors
    ///
    /// If it can't be read.
    pub(crate) fn read(
        files: &dyn Source,
        value: (SampleId, usize),
        limits: &Limits,
    ) -> Result<Self, Error> {
        let mut buffer = Buffer::default();
        let bytes = VideoBytes::open(files, value, &mut buffer)?;
        let limits = video_limits(limits);
        let video = IndexedVideo::of(&bytes, &limits)?;
        let (index, packets) = (&video.index, video.index.packets());
        let keys = packets.iter().zip(0..).filter(|(packet, _)| packet.is_key);
        let keys: Vec<u64> = keys.map(|(_, number)| number).collect();
        let ends = keys.iter().skip(1).copied().chain([packets.len() as u64]);
        let (height, width) = match index.rotation {
            Rotation::None | Rotation::Clockwise180 => (index.height, index.width),
            Rotation::Clockwise90 | Rotation::Clockwise270 => (index.width, index.height),
        };
        let opened = match index.codec {
            Codec::MotionJpeg => Ok(()),
            _ => VideoDecoder::open(index, Backend::Auto, &limits).map(drop),
        };
        Ok(Self {
            no_decoder: opened.err().map(|error| failed(&error)),
            codec: index.codec.to_string(),
            size: Size::new(height, width),
            frames: video.times.count().into(),
            seconds: video.times.end() - video.times.time(0),
            longest_group: keys.iter().zip(ends).map(|(key, end)| end - key).max().unwrap_or(0),
        })
    }
}

/// Reads the packet of a frame into `to`.
fn read_packet(
    index: &VideoIndex,
    frame: u32,
    bytes: &VideoBytes<'_>,
    limits: &VideoLimits,
    to: &mut Vec<u8>,
) -> Result<(), Error> {
    let entry = index.frames().get(frame as usize);
    let packet = entry.and_then(|entry| index.packets().get(entry.packet as usize));
    let Some(&Packet { offset, size, .. }) = packet else {
        let frames = index.frame_count();
        return Err(fail!(Parameter, "no such frame: the video has {frames}"));
    };
    let length = bytes.byte_len()?;
    if offset.checked_add(size.into()).is_none_or(|end| end > length) {
        let error = fail!(
            Damaged,
            "the packet of {size} bytes ends after the file, which has {length} bytes: the file was cut"
        );
        return Err(error.damage(Damage::FileCut).byte(offset));
    }
    if u64::from(size) > limits.max_packet_bytes {
        let max = limits.max_packet_bytes;
        let error = fail!(Damaged, "a packet of {size} bytes: the limit is {max} bytes");
        return Err(error.damage(Damage::OverLimit).byte(offset));
    }
    to.clear();
    if to.try_reserve(size as usize).is_err() {
        return Err(fail!(Memory, "no memory for a packet of {size} bytes").out_of_memory());
    }
    to.resize(size as usize, 0);
    Ok(bytes.read_exact_at(offset, to)?)
}

/// Returns the error of a video file.
fn failed(error: &VideoError) -> Error {
    let text = error.message();
    let found = match error.kind() {
        VideoErrorKind::Io => fail!(Io, "{text}").damage(Damage::Unreadable),
        VideoErrorKind::Format => fail!(Damaged, "{text}").damage(Damage::OtherFormat),
        VideoErrorKind::Damaged => fail!(Damaged, "{text}"),
        VideoErrorKind::Limit => fail!(Damaged, "{text}").damage(Damage::OverLimit),
        VideoErrorKind::Parameter => fail!(Parameter, "{text}"),
        // With libavcodec the file can be read: it is not skipped as a damaged one.
        VideoErrorKind::NeedsLibavcodec if Libavcodec::find().is_err() => {
            fail!(Unsupported, "{text}").not_damage().help(
                "`fuseloop info --video` shows the decoders, and the libavcodec that was found",
            )
        }
        VideoErrorKind::Unsupported | VideoErrorKind::NeedsLibavcodec => {
            fail!(Damaged, "{text}").damage(Damage::Unsupported)
        }
    };
    match error.offset() {
        Some(offset) => found.byte(offset),
        None => found,
    }
}

/// Writes the upright RGB pixels of a picture to `to`, and returns their size.
fn upright_pixels(frame: &Frame, orientation: u8, to: &mut Vec<u8>) -> Result<Size, Error> {
    let (size, mut rgb) = (frame_size(frame), vec![]);
    frame_window(frame, size.full(), &mut YuvRows::default(), &mut rgb)?;
    upright(&rgb, size, orientation, to)
}

impl Source for VideoFiles {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn read(&self, video: SampleId) -> Result<Record, BoxError> {
        read_values(self, video)
    }

    /// Returns the first frame in the field of the frames.
    fn value<'a>(
        &'a self,
        video: SampleId,
        field: usize,
        buffer: &'a mut Buffer,
    ) -> Result<Value<'a>, BoxError> {
        if let Some(label) = self.labels.as_ref().and_then(|own| own.value(video, field)) {
            return label;
        }
        if field != self.field {
            return self.files.value(self.sample(video)?, field, buffer);
        }
        let (indexed, mut own) = (self.indexed(video)?, Buffer::default());
        let bytes = self.open(self.sample(video)?, &mut own)?;
        let image = indexed.read_image(0, &bytes, &self.limits, &mut buffer.bytes)?;
        let (mode, Size { height, width }) = image;
        Ok(Value::Image(EncodedImage { mode, width, height, bytes: &buffer.bytes }))
    }

    fn locate(&self, video: SampleId, field: usize) -> Option<SampleLocation> {
        let is_listed = self.labels.as_ref().is_some_and(|own| own.field == field);
        let field = if is_listed { self.field } else { field };
        self.files.locate(self.sample(video).ok()?, field)
    }

    fn component(&self, video: SampleId, buffer: &mut Buffer) -> Result<usize, BoxError> {
        self.files.component(self.sample(video)?, buffer)
    }
}

impl Frames for VideoFiles {
    fn field(&self) -> usize {
        self.field
    }

    fn times(&self, video: SampleId) -> Result<FrameTimes, BoxError> {
        Ok(self.indexed(video)?.times.clone())
    }

    fn read_frames(
        &self,
        video: SampleId,
        frames: &[u32],
        buffer: &mut Buffer,
        take: TakeFrame<'_>,
    ) -> Result<(), FrameError> {
        let whole = |error| FrameError { frame: None, error };
        let indexed = self.indexed(video).map_err(whole)?;
        let sample = self.sample(video).map_err(whole)?;
        let bytes = self.open(sample, buffer).map_err(whole)?;
        indexed.read_frames(frames, &bytes, &self.limits, take)
    }

    fn decodes(&self) -> bool {
        true
    }

    fn groups(&self, video: SampleId) -> Result<Option<FrameGroups>, BoxError> {
        let indexed = self.indexed(video)?;
        let VideoIndex { codec, width, height, .. } = &indexed.index;
        if *codec == Codec::MotionJpeg {
            return Ok(None);
        }
        let packets = indexed.index.packets();
        let is_key = |entry: &FrameEntry| {
            packets.get(entry.packet as usize).is_some_and(|packet| packet.is_key)
        };
        let frames = (0..).zip(indexed.index.frames());
        let starts = frames.filter(|(_, entry)| is_key(entry)).map(|(frame, _)| frame).collect();
        Ok(Some(FrameGroups { starts, pixels: u64::from(*width) * u64::from(*height) }))
    }

    fn locate_frame(&self, _: (SampleId, u32), _: usize) -> Option<SampleLocation> {
        None
    }
}
