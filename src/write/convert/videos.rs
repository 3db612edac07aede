//! The frames of videos as samples: what [`convert_videos`] writes to a clip store.
//!
//! ```text
//! videos of any codec ──▶ segments of consecutive frames ──▶ workers: decode and encode each frame ──▶ rows in order
//! ```
//!
//! A segment begins where decoding can start, if it can, so that each picture is decoded once and a long video keeps all
//! workers busy. Of a segment one decoded frame is in memory, and its encoded ones. A group of pictures whose frames would take
//! more than [`SEGMENT_BYTES`] is cut nevertheless, and its first pictures are decoded again for each part.
//!
//! A row has the values of its frame, its mask and its boxes, where the dataset has values for frames, and those of its video
//! otherwise. The row of a frame depends on the video and its number alone, as a frame of a clip does, and so does its damage: a frame is
//! damaged if the packets that it needs are. After two frames that are damaged in sequence, those up to the next start of
//! decoding are taken as damaged as well, since decoding up to the damage for each of them would take long.

use super::beton::stored_row;
use super::pictures::ImageFiles;
use super::{DatasetConversion, OutputFormat, check_extension, check_local};
use crate::amounts::Decimal;
use crate::error::{BoxError, Error, fail};
use crate::parallel;
use crate::sample::{Limits, SampleId};
use crate::source::{
    Buffer, Escaped, Facts, FieldKind, FieldSpec, Fingerprint, FrameError, FrameImage, FramePixels,
    FrameRows, FrameTimes, Frames, ObjectField, OwnedImage, OwnedValue, PTS, Record,
    SampleLocation, Source, VIDEO_INDEX, fields_of_frames, frame_folders, is_clip_store, upright,
    video_files,
};
#[cfg(feature = "video")]
use crate::source::{frame_size, frame_window};
use crate::write::cancel;
use crate::write::engine::{Rows, TakeRow};
use crate::write::mode::{ImageOptions, WriteMode};
use crate::write::pixels::PixelReader;
use crate::write::progress::ProgressCounter;
use crate::write::step::unwatched;
use crate::write::value::WriteSampleError;
use crate::write::{WriteOptions, WriteReport};
use fuseloop_ops::Size;
use std::num::NonZeroU32;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The name of the field of the frames of video files.
const IMAGE: &str = "image";

/// The least frames of a segment, unless the video ends.
const SEGMENT_FRAMES: u32 = 32;

/// The bytes at which a segment is cut where decoding can't start.
const SEGMENT_BYTES: u64 = 64 << 20;

/// The settings by which the frames of videos are stored; see [`convert_videos`].
///
/// ```
/// use fuseloop::write::VideoOptions;
///
/// // Every second frame of folders of frames that were extracted at 12 frames per second.
/// let videos = VideoOptions {
///     source_fps: Some(12.0),
///     frame_stride: 2.try_into().ok(),
///     ..VideoOptions::default()
/// };
/// # let _ = videos;
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct VideoOptions {
    /// The field that has the videos: one of images, of which those of a folder are a video, or one of bytes that are video
    /// files. `None` is the only one of images or of video files.
    pub field: Option<String>,
    /// The frames per second of folders of frames. Without it their store has no times, and
    /// [`Clips::source_fps`](crate::loader::Clips::source_fps) may state the rate later.
    pub source_fps: Option<f64>,
    /// The number of frames from one that is stored to the next. `None` is 1: all frames.
    pub frame_stride: Option<NonZeroU32>,
    /// A file that lists the videos to store; see [`Clips::list`](crate::loader::Clips::list).
    pub list: Option<PathBuf>,
}

/// Writes the frames of videos to a `.beton` file, the clip store: a row a frame, with the fields of its video, the number of
/// the video (`video_index`) and the time of the frame in seconds (`pts`). Masks, boxes and other values of the frames of
/// folders and stores are those of each frame.
///
/// [`Loader::clips`](crate::LoaderBuilder::clips) of the file gives the clips of the videos, at the cost of decoding images.
/// Without clips it is a dataset of images, also for FFCV unless they are bit planes. Each video is decoded once, whatever its
/// codec, and several at a time.
///
/// Frames of video files are turned upright, and stored as JPEGs of quality 90 unless the options say otherwise:
/// [`WriteMode::Lossless`] is [`WriteMode::Jpg`] for them. Frames that are files, in folders and in Motion JPEG, are stored as
/// [`convert()`](super::convert()) stores images. Videos may be files, folders of frames, or those of another store.
///
/// A sample is a frame here, and progress is recorded after 100,000 of them. Of a damaged video [`OnUnreadable::Skip`](crate::write::OnUnreadable) leaves out the frames that
/// do not decode, and a file that is no video is one sample.
///
/// ```
/// use fuseloop::loader::Clips;
/// use fuseloop::recut::Tile;
/// use fuseloop::source::{Folder, FolderOptions, Labels};
/// use fuseloop::write::{ImageOptions, VideoOptions, WriteOptions, convert_videos};
/// use fuseloop::{Loader, ops::*};
/// use std::sync::Arc;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # if cfg!(not(feature = "video")) {
/// #     return Ok(());
/// # }
/// # let folder = tempfile::tempdir()?;
/// # let (clips, store) = ("video/tests/golden/frames/high.*", folder.path().join("clips.beton"));
/// let clips = Arc::new(Folder::open(clips, &FolderOptions::default().label(Labels::None))?);
/// let image = ImageOptions { tile: Some(Tile::default()), ..ImageOptions::default() };
/// let options = WriteOptions { image, ..WriteOptions::default() };
/// let report = convert_videos(clips, &store, &VideoOptions::default(), &options)?;
/// println!("{} frames", report.samples);
///
/// let loader = Loader::open(&store)?.batch_size(3).clips(Clips::random(4));
/// let loader = loader.pipeline("video", ops![CenterCrop::new(32)?]).build()?;
/// let batch = loader.epoch(0)?.next().ok_or("no batch")??;
/// assert_eq!(batch.tensor::<u8>("video")?.shape(), [3, 4, 32, 32, 3]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// See [`convert()`](super::convert()). It also fails if `dst` is no single `.beton` file, or the dataset has no videos.
pub fn convert_videos(
    dataset: Arc<dyn Source>,
    dst: impl AsRef<Path>,
    videos: &VideoOptions,
    options: &WriteOptions,
) -> Result<WriteReport, Error> {
    let dst = dst.as_ref();
    check_local(dst)?;
    check_extension(dst)?;
    let frames = VideoFrames::new(dataset, videos, &options.limits)?;
    let options = frames.write_options(options);
    let form = OutputFormat::of(dst);
    let conversion = DatasetConversion::new(&frames, dst, &options, &unwatched, form)?;
    let conversion = DatasetConversion { videos: Some(&frames), ..conversion };
    if form != OutputFormat::Beton || conversion.template()?.is_some() {
        return Err(fail!(
            Parameter,
            "{dst:?}: the frames of videos are written to a single .beton file: name the output x.beton, and convert that \
             file if another format is needed"
        )
        .named_path(dst));
    }
    conversion.run()
}

/// Converts a dataset: the frames of its videos if `frames` is true, and the dataset as it is if it is false. Without it,
/// [`stores_frames`] decides.
///
/// # Errors
///
/// See [`convert_videos`]. It also fails if `videos` has settings and no frames are written.
pub fn convert_any(
    source: Arc<dyn Source>,
    dst: &Path,
    (frames, videos): (Option<bool>, &VideoOptions),
    options: &WriteOptions,
) -> Result<WriteReport, Error> {
    if frames.unwrap_or_else(|| stores_frames(&*source, dst)) {
        return convert_videos(source, dst, videos, options);
    }
    if *videos != VideoOptions::default() {
        let error = fail!(
            Parameter,
            "source_fps, frame_stride and a list of videos are for the frames of videos, and here none are written: ask for \
             frames (`videos`), and name the output x.beton"
        );
        return Err(error.help("add `--videos frames`, or leave these options out"));
    }
    super::convert(&*source, dst, options)
}

/// Returns whether the videos of a dataset become frames unless something else is asked for: video files, and clip stores that
/// are joined, whose videos get new numbers, in a `.beton`.
#[must_use]
pub fn stores_frames(dataset: &dyn Source, dst: &Path) -> bool {
    let has_videos = (0..dataset.fields().len()).any(|field| dataset.facts().is_video(field));
    let joins_stores = dataset.components() > 1 && is_clip_store(dataset);
    (has_videos || joins_stores) && OutputFormat::of(dst) == OutputFormat::Beton
}

/// The frames of videos as samples.
pub(super) struct VideoFrames {
    facts: Facts,
    videos: Arc<dyn Frames>,
    /// The number of frames before each video, and of all.
    starts: Vec<u64>,
    stride: u32,
    has_times: bool,
    limits: Limits,
}

/// Consecutive frames of a video, which one worker decodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Segment {
    video: SampleId,
    /// The frames, counted without those that are left out by the stride.
    frames: Range<u32>,
    /// The sample that the first of them is.
    first: SampleId,
}

impl Rows for Segment {
    fn first(&self) -> SampleId {
        self.first
    }
}

impl VideoFrames {
    fn new(
        dataset: Arc<dyn Source>,
        options: &VideoOptions,
        limits: &Limits,
    ) -> Result<Self, Error> {
        let VideoOptions { source_fps, frame_stride, .. } = options;
        if let Some(fps) = source_fps.filter(|fps| !(1e-6..=1e6).contains(fps)) {
            return Err(fail!(
                Parameter,
                "source_fps is {}, expected a number from 0.000001 to 1000000",
                Decimal(fps)
            ));
        }
        let name = dataset.name().to_owned();
        let (videos, has_times) = open(dataset, options, limits)?;
        let stride = frame_stride.map_or(1, NonZeroU32::get);
        let all: Vec<u64> = (0..videos.facts().samples).collect();
        // A video whose times can't be read is a frame that can't be read.
        let counts = parallel::map(&all, |video| {
            let times = videos.times(SampleId(*video));
            times.map_or(1, |times| u64::from(times.count().div_ceil(stride)))
        })?;
        let (mut starts, mut end) = (vec![0], 0_u64);
        starts.extend(counts.into_iter().map(|count| {
            end = end.saturating_add(count);
            end
        }));
        let mut facts = videos.facts().clone();
        let mut fields: Vec<FieldSpec> = facts.fields.to_vec();
        if fields.iter().all(|field| field.name != IMAGE) {
            fields[videos.field()].name = IMAGE.to_owned();
        }
        let own = [(VIDEO_INDEX, FieldKind::Int), (PTS, FieldKind::Float)];
        for (own, kind) in own.into_iter().take(1 + usize::from(has_times)) {
            if fields.iter().any(|field| field.name == own) {
                let error = fail!(
                    Field,
                    "{}: a field is called {own}, which a clip store has of its own: rename the field",
                    Escaped(&name)
                );
                return Err(error.of_field(own));
            }
            fields.push(FieldSpec { name: own.to_owned(), kind });
        }
        let mut print = Fingerprint::default();
        print.text("frames of videos");
        print.number(facts.fingerprint);
        print.text(&format!("{source_fps:?} {stride}"));
        facts.fields = fields.into();
        facts.samples = end;
        facts.fingerprint = print.value();
        let facts = facts.with_image_stats(|_| None);
        Ok(Self { facts, videos, starts, stride, has_times, limits: *limits })
    }

    /// Returns the options by which frames are stored: those of video files become JPEGs unless another mode is asked for.
    fn write_options(&self, options: &WriteOptions) -> WriteOptions {
        let mut options = options.clone();
        let as_jpeg = |image: &mut ImageOptions| {
            if image.write_mode == WriteMode::Lossless {
                image.write_mode = WriteMode::Jpg;
            }
        };
        if self.videos.decodes() {
            as_jpeg(&mut options.image);
            let frames = &self.facts.fields[self.videos.field()].name;
            if let Some(image) = options.images.get_mut(frames) {
                as_jpeg(image);
            }
        }
        options
    }

    /// Returns the video that a sample is a frame of, and the number of the frame among those that are stored.
    fn frame(&self, sample: SampleId) -> Option<(SampleId, u32)> {
        let video = self.starts.partition_point(|start| *start <= sample.0).checked_sub(1)?;
        let is_there = sample.0 < self.facts.samples;
        let frame = u32::try_from(sample.0 - self.starts[video]).ok().filter(|_| is_there)?;
        Some((SampleId(video as u64), frame))
    }

    /// Returns segments of the samples from `from` to before `to`. `most` returns the most frames of a segment, by the pixels of
    /// a frame.
    pub(super) fn segments<'a>(
        &'a self,
        Range { start: from, end: to }: Range<u64>,
        most: impl Fn(u64) -> u32 + 'a,
    ) -> impl Iterator<Item = Segment> + 'a {
        let first = self.frame(SampleId(from)).map_or(0, |(video, _)| video.0 as usize);
        let is_before = move |video: &usize| self.starts[*video] < to;
        let videos = (first..self.starts.len() - 1).take_while(is_before);
        videos.flat_map(move |video| {
            let [start, end] = [self.starts[video], self.starts[video + 1]];
            let number = |sample: u64| (sample.clamp(start, end) - start) as u32;
            let frames = number(from)..number(to);
            let video = SampleId(video as u64);
            let cuts = match self.videos.groups(video) {
                Ok(Some(groups)) => {
                    let of_start = |frame: &u32| frame.div_ceil(self.stride);
                    let starts: Vec<u32> = groups.starts.iter().map(of_start).collect();
                    cut(frames, Some(&starts), most(groups.pixels))
                }
                // An error is that of reading the frame.
                Ok(None) | Err(_) => cut(frames, None, u32::MAX),
            };
            cuts.into_iter().map(move |frames| {
                let first = SampleId(start + u64::from(frames.start));
                Segment { video, frames, first }
            })
        })
    }

    /// Reads the frames of a segment one after another and hands each, or its error, to `take`, which returns false if the
    /// others are not needed.
    fn read_segment(
        &self,
        segment: &Segment,
        take: &mut dyn FnMut(Result<Record, BoxError>) -> bool,
    ) {
        let Segment { video, frames: Range { start, end }, .. } = *segment;
        let known = self.videos.times(video).map_err(Error::from).and_then(|times| {
            // Values of frames are read with each frame.
            let record = match self.videos.has_values_of_frames() {
                true => vec![],
                false => self.others((video, 0), &mut Buffer::default())?,
            };
            Ok((times, record))
        });
        let (times, record) = match known {
            Ok(known) => known,
            Err(error) => {
                let _ = (start..end).all(|_| take(Err(error.copy().into())));
                return;
            }
        };
        let (mut next, mut goes_on, mut failed) = (start, true, 0);
        let (mut buffer, mut own, mut pixels) = (Buffer::default(), Buffer::default(), None);
        while next < end && goes_on {
            let (begun, mut fault) = (next, None);
            let numbers: Vec<u32> = (next..end).map(|frame| frame * self.stride).collect();
            let read =
                self.videos.read_frames(video, &numbers, &mut buffer, &mut |frame, image| {
                    let image = self.stored_image(image, &mut pixels);
                    let row = image.and_then(|image| {
                        let record = match self.videos.has_values_of_frames() {
                            true => self.others((video, frame), &mut own)?,
                            false => record.clone(),
                        };
                        Ok(self.row(record, (video, frame), &times, image))
                    });
                    match row {
                        Ok(row) => {
                            next += 1;
                            goes_on = take(Ok(row));
                        }
                        Err(error) => fault = Some(error),
                    }
                    match goes_on && fault.is_none() {
                        true => Ok(()),
                        false => Err(fail!(Cancelled, "no more frames are needed")),
                    }
                });
            if !goes_on {
                return;
            }
            let (is_whole, error) = match (fault, read) {
                (Some(error), _) => (false, error),
                (None, Err(FrameError { frame, error })) => (frame.is_none(), error),
                (None, Ok(())) if next < end => {
                    (true, fail!(Damaged, "the video has fewer frames"))
                }
                (None, Ok(())) => return,
            };
            failed = if next == begun { failed + 1 } else { 1 };
            let until = match is_whole {
                true => end,
                false if failed > 1 => self.next_start(video, next).min(end),
                false => next + 1,
            };
            while next < until && goes_on {
                let error = match is_whole {
                    true => error.copy(),
                    false => error.copy().context(format_args!("frame {}", next * self.stride)),
                };
                next += 1;
                goes_on = take(Err(error.into()));
            }
        }
    }

    /// Returns the first frame after one at which decoding starts.
    fn next_start(&self, video: SampleId, frame: u32) -> u32 {
        match self.videos.groups(video) {
            Ok(Some(groups)) => {
                let starts = groups.starts.iter().map(|start| start.div_ceil(self.stride));
                starts.filter(|start| *start > frame).min().unwrap_or(u32::MAX)
            }
            _ => frame + 1,
        }
    }

    /// Reads the values of a frame of all fields but that of the frames, which is left empty.
    fn others(&self, at: (SampleId, u32), buffer: &mut Buffer) -> Result<Record, Error> {
        let fields = self.videos.facts().fields.iter().enumerate();
        fields
            .map(|(field, FieldSpec { name, .. })| match field == self.videos.field() {
                true => Ok(OwnedValue::Bytes(vec![])),
                false => match self.videos.frame_value(at, field, buffer) {
                    Ok(value) => Ok(OwnedValue::from(value)),
                    Err(error) => {
                        let error = Error::from(error).context(format_args!("field {name}"));
                        Err(error.of_field(name))
                    }
                },
            })
            .collect()
    }

    /// Returns the row of a frame, whose other values are in `row`.
    fn row(
        &self,
        mut row: Record,
        (video, frame): (SampleId, u32),
        times: &FrameTimes,
        image: OwnedImage,
    ) -> Record {
        row[self.videos.field()] = OwnedValue::Image(image);
        row.push(OwnedValue::Int(video.0.cast_signed()));
        if self.has_times {
            row.push(OwnedValue::Float(times.time(frame)));
        }
        row
    }

    /// Returns a frame as an upright image: a file that is stored upright stays as it is.
    fn stored_image(
        &self,
        FrameImage { pixels, orientation }: FrameImage<'_>,
        reader: &mut Option<PixelReader>,
    ) -> Result<OwnedImage, Error> {
        match pixels {
            FramePixels::Stored(value) => {
                let OwnedValue::Image(image) = OwnedValue::from(value) else {
                    return Err(fail!(Damaged, "the frame is no image"));
                };
                if orientation == 1 {
                    return Ok(image);
                }
                let reader = reader.get_or_insert_with(|| PixelReader::new(self.limits));
                let size = reader.size(&image.bytes).map_err(|error| fail!(Damaged, "{error}"))?;
                let rgb = reader.decode(&image.bytes, size, size);
                let rgb = rgb.map_err(|error| fail!(Damaged, "{error}"))?;
                upright_image(rgb, size, orientation)
            }
            #[cfg(feature = "video")]
            FramePixels::Planes(frame) => {
                let (size, mut rgb) = (frame_size(frame), vec![]);
                frame_window(
                    frame,
                    size.full(),
                    &mut fuseloop_kernels::YuvRows::default(),
                    &mut rgb,
                )?;
                upright_image(rgb, size, orientation)
            }
        }
    }
}

fn upright_image(rgb: Vec<u8>, size: Size, orientation: u8) -> Result<OwnedImage, Error> {
    if orientation == 1 {
        return Ok(OwnedImage::rgb(size, rgb));
    }
    let mut turned = vec![];
    let size = upright(&rgb, size, orientation, &mut turned)?;
    Ok(OwnedImage::rgb(size, turned))
}

/// Opens the videos of a dataset. Returns whether their frames have times.
fn open(
    dataset: Arc<dyn Source>,
    options: &VideoOptions,
    limits: &Limits,
) -> Result<(Arc<dyn Frames>, bool), Error> {
    let name = Escaped(dataset.name()).to_string();
    let field = field_of_videos(&*dataset, options.field.as_deref())?;
    let fps = options.source_fps.unwrap_or(1.0);
    let list = options.list.as_deref();
    if !dataset.fields()[field].kind.is_image() {
        return Ok((video_files((&dataset, field), false, list, limits)?, true));
    }
    if is_clip_store(&*dataset) {
        if list.is_some() {
            return Err(fail!(
                Unsupported,
                "{name}: the videos of a clip store have no names, by which a list would find them: convert the videos of the \
                 list"
            ));
        }
        let has_times = dataset.field_index(PTS).is_some() || options.source_fps.is_some();
        return Ok((Arc::new(FrameRows::new(dataset, field, fps)?), has_times));
    }
    let videos = frame_folders((&dataset, field), fps, list, limits)?;
    Ok((videos, options.source_fps.is_some()))
}

/// Returns the field that has the videos.
fn field_of_videos(dataset: &dyn Source, named: Option<&str>) -> Result<usize, Error> {
    let (name, fields) = (Escaped(dataset.name()), dataset.fields());
    let index = |field: &str| {
        let index = dataset.field_index(field);
        index.ok_or_else(|| fail!(Field, "{name}: no field named {field}").of_field(field))
    };
    let named = named.map(index).transpose()?;
    let known = dataset.object_fields()?.unwrap_or_default();
    let is_mask = |field: usize| known.get(&fields[field].name) == Some(ObjectField::Mask);
    let found = fields_of_frames(dataset, named, is_mask, "`field`")?;
    if let Some(named) = named {
        return Ok(named);
    }
    let (one, others) = (found[0], &found[1..]);
    let Some(&other) = others.first() else { return Ok(one) };
    let [one, other] = [one, other].map(|field| &fields[field].name);
    Err(fail!(
        Field,
        "{name}: the fields {one} and {other} have images or videos: a program names the one that has the frames (`field`)"
    ))
}

/// Cuts frames into segments of at least [`SEGMENT_FRAMES`] frames, each of which begins at one of `starts`, which ascend, or
/// anywhere without them; but after `most` frames anywhere.
fn cut(
    Range { start, end: last }: Range<u32>,
    starts: Option<&[u32]>,
    most: u32,
) -> Vec<Range<u32>> {
    let (mut cuts, mut begin) = (vec![], start);
    while begin < last {
        let least = begin.saturating_add(SEGMENT_FRAMES);
        let next = match starts {
            None => least,
            Some(starts) => {
                let behind = starts.partition_point(|start| *start < least);
                starts.get(behind).copied().unwrap_or(u32::MAX)
            }
        };
        let end = next.min(begin.saturating_add(most.max(1))).min(last);
        cuts.push(begin..end);
        begin = end;
    }
    cuts
}

/// Returns the most frames of a segment, by the number of pixels of a frame.
fn most_frames(image: &ImageOptions, pixels: u64) -> u32 {
    let most = image.max_resolution.map_or(u64::MAX, |side| u64::from(side).pow(2));
    let pixels = pixels.min(most).max(1);
    // A JPEG of quality 90 has 1 to 3 bits a pixel.
    let bytes = match image.write_mode {
        WriteMode::Jpg => pixels.div_ceil(2),
        _ => pixels.saturating_mul(3),
    };
    u32::try_from(SEGMENT_BYTES / bytes).unwrap_or(u32::MAX).max(SEGMENT_FRAMES / 4)
}

impl DatasetConversion<'_> {
    /// Returns the segments of the frames that are written, and a function that reads one.
    pub(super) fn frames<'a>(
        &'a self,
        videos: &'a VideoFrames,
        samples: Range<u64>,
        (files, progress): (&'a ImageFiles<'a>, &'a ProgressCounter<'a>),
    ) -> (impl Iterator<Item = Segment> + 'a, impl Fn(Segment, TakeRow<'_>) + Sync + 'a) {
        let image = &self.images[videos.videos.field()];
        let rows = move |segment: Segment, take: TakeRow<'_>| {
            videos.read_segment(&segment, &mut |record| {
                let row = cancel::check(&self.options.cancel).and_then(|()| match record {
                    Ok(record) => stored_row(self, record, files, progress),
                    Err(error) => {
                        progress.add(0);
                        Err(WriteSampleError::Source(error))
                    }
                });
                take(row)
            });
        };
        (videos.segments(samples, move |pixels| most_frames(image, pixels)), rows)
    }
}

impl Source for VideoFrames {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn read(&self, sample: SampleId) -> Result<Record, BoxError> {
        let (video, frame) = self.frame(sample).ok_or("no such frame")?;
        let segment = Segment { video, frames: frame..frame + 1, first: sample };
        let mut read = Err(BoxError::from("the frame was not read"));
        self.read_segment(&segment, &mut |record| {
            read = record;
            false
        });
        read
    }

    fn locate(&self, sample: SampleId, field: usize) -> Option<SampleLocation> {
        let (video, frame) = self.frame(sample)?;
        if (field == self.videos.field() || self.videos.has_values_of_frames())
            && let Some(location) = self.videos.locate_frame((video, frame * self.stride), field)
        {
            return Some(location);
        }
        let field =
            if field < self.videos.facts().fields.len() { field } else { self.videos.field() };
        self.videos.locate(video, field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_begin_where_decoding_starts() {
        let starts = [0, 10, 40, 41, 90, 300];
        assert_eq!(cut(0..350, Some(&starts), 1000), [0..40, 40..90, 90..300, 300..350]);
        assert_eq!(cut(45..95, Some(&starts), 1000), [45..90, 90..95]);
        assert_eq!(cut(0..350, Some(&starts), 100)[2..], [90..190, 190..290, 290..350]);
        assert_eq!(cut(5..70, None, u32::MAX), [5..37, 37..69, 69..70]);
        assert_eq!(cut(5..8, Some(&[]), 0), [5..6, 6..7, 7..8]);
        assert!(cut(3..3, None, 9).is_empty());
    }

    #[test]
    fn segments_are_as_long_as_memory_allows() {
        let of = |write_mode, max_resolution, pixels| {
            let image = ImageOptions { write_mode, max_resolution, ..ImageOptions::default() };
            most_frames(&image, pixels)
        };
        let full_hd = 1920 * 1080;
        assert_eq!(of(WriteMode::Jpg, None, 340 * 256), 1542);
        assert_eq!(of(WriteMode::Jpg, None, full_hd), 64);
        assert_eq!(of(WriteMode::Raw, None, full_hd), 10);
        assert_eq!(of(WriteMode::Raw, Some(256), full_hd), 341);
        assert_eq!(of(WriteMode::Jpg, None, 0), 1 << 26);
    }
}
