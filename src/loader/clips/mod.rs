//! Clips: the settings by which frames of videos are chosen; see [`Clips`].

mod choose;
mod source;

pub(super) use choose::ClipFrames;
pub(super) use source::{ClipSource, VIDEO, VideosOf};

use crate::amounts::Decimal;
use crate::error::{Error, fail};
use crate::source::Escaped;
use fuseloop_ops::internals::{SampleKey, stream};
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Makes clips of videos the samples of a loader: some frames of a video, in the order of time, all of which an op treats
/// alike.
///
/// | sampler | the first frame of a clip |
/// |---------|---------------------------|
/// | [`random`](Self::random) | is drawn for each sample and epoch, and is the same for any number of workers |
/// | [`regular`](Self::regular) | makes the clips of a video evenly spread; a single clip is in the middle |
/// | [`segments`](Self::segments) | each frame is drawn from a segment of the video, after TSN |
/// | [`all`](Self::all) | follows the clip before, and each clip of a video is a sample of its own |
///
/// The frames of a clip are [`stride`](Self::stride) frames apart, or follow each other in time at a rate
/// ([`fps`](Self::fps)). TorchCodec's samplers have other names and differ: a single regular clip begins with the video
/// there, and a range restricts the starts of clips alone.
///
/// An output of images `[C, H, W]` becomes `[T, C, H, W]`, and the batch `[N, T, C, H, W]`. The batch has one tensor more:
/// `pts`, the presentation times of the frames in seconds, f64 `[N, T]`.
///
/// [Targets](super::Targets) follow each frame by the draws of its clip, where frames have masks and boxes of their own:
/// in folders of frames and in clip stores. A mask is `[N, T, H, W, 1]`; boxes, keypoints, columns and instance masks are
/// ragged, with the rows of the frames of a sample one after another
/// ([`Ragged::frame`](crate::batch::Ragged::frame)).
///
/// ```no_run
/// use fuseloop::{Loader, loader::{Clips, Targets}, ops::*, source::Annotated};
///
/// let davis = Annotated::masks("DAVIS/JPEGImages/480p", "DAVIS/Annotations/480p")?;
/// let loader = Loader::from_source(davis)
///     .batch_size(8)
///     .clips(Clips::random(16))
///     .targets("video", Targets::new().mask("mask", 255))
///     .pipeline("video", ops![RandomResizedCrop::new(112)?, ToChannelsFirst])
///     .build()?;
/// for batch in loader.epoch(0)? {
///     let masks = batch?.tensor::<u8>("mask")?.shape().to_vec(); // [8, 16, 112, 112, 1]
/// #   let _ = masks;
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```no_run
/// use fuseloop::{Loader, Order, loader::Clips, ops::*};
///
/// // clips/CLASS/VIDEO.mp4, or clips/CLASS/VIDEO/img_00001.jpg
/// let loader = Loader::open("clips")?
///     .batch_size(8)
///     .order(Order::Random)
///     .clips(Clips::random(16).stride(4))
///     .pipeline("video", ops![RandomResizedCrop::new(112)?, RandomHorizontalFlip::new(0.5)?, ToChannelsFirst])
///     .build()?;
/// for batch in loader.epoch(0)? {
///     let batch = batch?;
///     let clips = batch.tensor::<u8>("video")?; // [8, 16, 3, 112, 112]
///     let seconds = batch.tensor::<f64>("pts")?; // [8, 16]
/// #   let _ = (clips, seconds);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Clips {
    sampler: Sampler,
    frames: usize,
    clips: usize,
    stride: Option<u32>,
    fps: Option<f64>,
    range: Option<(f64, f64)>,
    start_field: Option<String>,
    end_field: Option<String>,
    on_short: Option<OnShort>,
    middle: bool,
    per_frame: bool,
    layout: ClipLayout,
    source_fps: Option<f64>,
    field: Option<String>,
    list: Option<PathBuf>,
}

/// Returns the key of the draws of image `number` of a sample whose images draw for themselves. `what` is the name of its
/// stream.
pub(super) fn key_of_image(sample: SampleKey, what: &str, number: usize) -> SampleKey {
    let mut rng = sample.op(stream(what, number));
    let seed = u64::from(rng.word()) << 32 | u64::from(rng.word());
    SampleKey::new(seed, sample.epoch(), sample.sample())
}

/// How the frames of a clip are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sampler {
    Random,
    Regular,
    Segments,
    All,
}

impl Sampler {
    fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::Regular => "regular",
            Self::Segments => "segments",
            Self::All => "all",
        }
    }
}

/// The distance of two frames of a clip.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    Stride(u32),
    Fps(f64),
}

/// The choice of frames for a clip that would end behind its video.
///
/// ```
/// use fuseloop::loader::{Clips, OnShort};
///
/// let clips = Clips::random(64).on_short(OnShort::Wrap);
/// assert_eq!("repeat_last".parse::<OnShort>()?, OnShort::RepeatLast);
/// # let _ = clips;
/// # Ok::<(), fuseloop::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnShort {
    /// The last frame of the clip that is inside the video, again and again.
    #[default]
    RepeatLast,
    /// The frames of the clip that are inside the video, from its first on.
    Wrap,
    /// None: the video is a damaged sample, with which [`OnDamaged`](crate::OnDamaged) deals.
    Error,
}

/// The order of a clip's axes, where an image is `[C, H, W]`.
///
/// ```
/// use fuseloop::loader::{ClipLayout, Clips};
///
/// let clips = Clips::random(16).layout(ClipLayout::Ncthw);
/// assert_eq!("NTCHW".parse::<ClipLayout>()?, ClipLayout::Ntchw);
/// # let _ = clips;
/// # Ok::<(), fuseloop::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ClipLayout {
    /// One image after another: `[N, T, C, H, W]`, or `[N, T, H, W, C]` for images `[H, W, C]`.
    #[default]
    Ntchw,
    /// One channel after another: `[N, C, T, H, W]`, which 3D convolutions take.
    Ncthw,
}

/// The words of [`OnShort`].
pub(crate) const ON_SHORT: [(&str, OnShort); 3] =
    [("repeat_last", OnShort::RepeatLast), ("wrap", OnShort::Wrap), ("error", OnShort::Error)];

/// The words of [`ClipLayout`].
pub(crate) const CLIP_LAYOUTS: [(&str, ClipLayout); 2] =
    [("NTCHW", ClipLayout::Ntchw), ("NCTHW", ClipLayout::Ncthw)];

fn of_word<T: Copy>(words: &[(&str, T)], word: &str) -> Result<T, Error> {
    words.iter().find(|(known, _)| *known == word).map(|(_, value)| *value).ok_or_else(|| {
        let known: Vec<&str> = words.iter().map(|(known, _)| *known).collect();
        fail!(Parameter, "{word:?}, expected one of {}", known.join(", "))
    })
}

impl FromStr for OnShort {
    type Err = Error;

    fn from_str(word: &str) -> Result<Self, Error> {
        of_word(&ON_SHORT, word)
    }
}

impl FromStr for ClipLayout {
    type Err = Error;

    fn from_str(word: &str) -> Result<Self, Error> {
        of_word(&CLIP_LAYOUTS, word)
    }
}

/// The most frames of a sample, those of all of its clips together.
const MOST_FRAMES: usize = 1 << 16;

impl Clips {
    fn new(sampler: Sampler, frames: usize) -> Self {
        Self {
            sampler,
            frames,
            clips: 1,
            stride: None,
            fps: None,
            range: None,
            start_field: None,
            end_field: None,
            on_short: None,
            middle: false,
            per_frame: false,
            layout: ClipLayout::default(),
            source_fps: None,
            field: None,
            list: None,
        }
    }

    /// Clips of `frames` frames whose start is drawn, so that all of the clip is inside the video if it is long enough.
    #[must_use]
    pub fn random(frames: usize) -> Self {
        Self::new(Sampler::Random, frames)
    }

    /// Clips of `frames` frames that are evenly spread, from one that begins with the video to one that ends with it; a
    /// single clip is in the middle.
    #[must_use]
    pub fn regular(frames: usize) -> Self {
        Self::new(Sampler::Regular, frames)
    }

    /// The video in `frames` segments of one length, of each of which one frame is drawn, after temporal segment networks
    /// (Wang et al., arXiv:1608.00859). The segments cover the whole video, where those of its program leave out up to
    /// `frames - 1` frames at the end. A segment of a video with fewer frames has the nearest frame.
    #[must_use]
    pub fn segments(frames: usize) -> Self {
        Self::new(Sampler::Segments, frames)
    }

    /// Every clip of `frames` frames of a video is a sample of its own, one after another; the last one begins earlier if
    /// that keeps it inside. For evaluation: a batch has the tensor `video_index`, the index of each sample's video.
    #[must_use]
    pub fn all(frames: usize) -> Self {
        Self::new(Sampler::All, frames)
    }

    /// Sets the number of frames from one frame of a clip to the next, instead of [`fps`](Self::fps). Default 1.
    #[must_use]
    pub fn stride(mut self, frames: u32) -> Self {
        self.stride = Some(frames);
        self
    }

    /// Sets the number of frames per second of a clip: the frames are those that are shown at these times, whatever the
    /// rate of the video, and whether it is constant or not. Folders of frames need their [`source_fps`](Self::source_fps).
    #[must_use]
    pub fn fps(mut self, fps: f64) -> Self {
        self.fps = Some(fps);
        self
    }

    /// Sets the number of clips of a sample. With more than one, an output is `[K, T, C, H, W]` and `pts` is `[K, T]`, and
    /// ops draw for each clip. Default 1.
    #[must_use]
    pub fn clips(mut self, clips: usize) -> Self {
        self.clips = clips;
        self
    }

    /// Restricts clips to the frames from `start` to before `end`, in seconds. Folders of frames need their
    /// [`source_fps`](Self::source_fps). Default: all frames.
    #[must_use]
    pub fn range(mut self, start: f64, end: f64) -> Self {
        self.range = Some((start, end));
        self
    }

    /// Sets the field that has the second from which on frames of each video are chosen: a column of a table such as
    /// `videos.csv`, or another field of numbers. Several samples may be parts of one file. Default: the first frame,
    /// whatever the fields are called: the times in Kinetics' tables are those of longer videos.
    ///
    /// ```no_run
    /// use fuseloop::{Loader, loader::Clips, ops::*};
    ///
    /// // path,label,start,end
    /// // cooking/0001.mp4,3,12.5,19
    /// let loader = Loader::open("videos.csv")?
    ///     .clips(Clips::random(16).stride(4).start_field("start").end_field("end"))
    ///     .pipeline("video", ops![RandomResizedCrop::new(112)?, ToChannelsFirst])
    ///     .build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn start_field(mut self, name: &str) -> Self {
        self.start_field = Some(name.to_owned());
        self
    }

    /// Sets the field that has the second before which frames of each video are chosen, as
    /// [`start_field`](Self::start_field). Default: the end of the video.
    #[must_use]
    pub fn end_field(mut self, name: &str) -> Self {
        self.end_field = Some(name.to_owned());
        self
    }

    /// Sets the frames that a video is too short for. Default [`OnShort::RepeatLast`]. Segments have the nearest frame, and
    /// only [`OnShort::Error`] can be set for them.
    #[must_use]
    pub fn on_short(mut self, what: OnShort) -> Self {
        self.on_short = Some(what);
        self
    }

    /// If true, [`segments`](Self::segments) take their middle frames and draw nothing: for evaluation. Default false.
    #[must_use]
    pub fn middle(mut self, is_middle: bool) -> Self {
        self.middle = is_middle;
        self
    }

    /// If true, ops draw for each frame. Default false: one draw for a clip.
    #[must_use]
    pub fn per_frame(mut self, per_frame: bool) -> Self {
        self.per_frame = per_frame;
        self
    }

    /// Sets the order of the axes. Default [`ClipLayout::Ntchw`].
    #[must_use]
    pub fn layout(mut self, layout: ClipLayout) -> Self {
        self.layout = layout;
        self
    }

    /// Sets the rate of videos that have no times of their own, such as folders of frames, in frames per second. Without it
    /// the time of a frame in `pts` is its number, and [`fps`](Self::fps) and [`range`](Self::range) are refused.
    #[must_use]
    pub fn source_fps(mut self, fps: f64) -> Self {
        self.source_fps = Some(fps);
        self
    }

    /// Sets the field that has the frames: one of images, or one of bytes that are video files. Default: the only field of
    /// images or of video files, or else the only one of bytes most of which begin as video
    /// files do.
    #[must_use]
    pub fn field(mut self, field: &str) -> Self {
        self.field = Some(field.to_owned());
        self
    }

    /// Restricts the dataset to the videos of a list file, in its order: those of UCF-101 and Kinetics, those of HMDB-51 that
    /// MMAction2's tools write, and those of TSN with the path, the number of frames and the label of a video in each line.
    /// Videos that the dataset lacks are left out with a warning. Default: all videos.
    ///
    /// Labels of the list become the field `label` of a dataset without labels. A dataset keeps its own labels, and those of
    /// the list must be the same, or count from another number, as UCF-101's count from 1. Kinetics' labels are words, and
    /// not read.
    #[must_use]
    pub fn list(mut self, path: impl Into<PathBuf>) -> Self {
        self.list = Some(path.into());
        self
    }

    /// Checks everything that does not need the dataset.
    pub(super) fn check(&self) -> Result<(), Error> {
        let sampler = self.sampler.name();
        let images = self.frames.saturating_mul(self.clips);
        if images == 0 || images > MOST_FRAMES {
            return Err(fail!(
                Parameter,
                "clips: {} clips of {} frames, expected at least 1 frame and at most {MOST_FRAMES} of all clips together",
                self.clips,
                self.frames
            ));
        }
        if self.stride == Some(0) {
            return Err(fail!(Parameter, "clips: a stride of 0 frames, expected 1 or more"));
        }
        if self.stride.is_some() && self.fps.is_some() {
            return Err(fail!(
                Parameter,
                "clips: `fps` is given with `stride`, expected one of the two"
            ));
        }
        for (name, fps) in [("fps", self.fps), ("source_fps", self.source_fps)] {
            if let Some(fps) = fps.filter(|fps| !(1e-6..=1e6).contains(fps)) {
                return Err(fail!(
                    Parameter,
                    "clips: `{name}` is {}, expected a number from 0.000001 to 1000000",
                    Decimal(fps)
                ));
            }
        }
        let is_segments = self.sampler == Sampler::Segments;
        if is_segments && (self.stride.is_some() || self.fps.is_some()) {
            return Err(fail!(
                Parameter,
                "clips: segments have one frame each, so that there is no stride or fps: leave it out"
            ));
        }
        if self.middle && !is_segments {
            return Err(fail!(
                Parameter,
                "clips: `middle` is for segments, and the sampler is {sampler}: leave it out"
            ));
        }
        if is_segments && self.on_short.is_some_and(|what| what != OnShort::Error) {
            return Err(fail!(
                Parameter,
                "clips: segments of a short video have the nearest frame: leave out `on_short`, or set it to `error`"
            ));
        }
        if self.clips > 1 && (self.middle || self.is_all()) {
            return Err(fail!(
                Parameter,
                "clips: {} clips of a sample, but sampler {sampler} makes one, the same each time: use random, regular or \
                 segments that are drawn",
                self.clips
            ));
        }
        if self.range.is_some() && (self.start_field.is_some() || self.end_field.is_some()) {
            return Err(fail!(
                Parameter,
                "clips: `range` is given with `start_field` or `end_field`, expected one of the two"
            ));
        }
        match self.range {
            Some((start, end)) if !(start >= 0.0 && start < end) => Err(fail!(
                Parameter,
                "clips: a range from {} to {} seconds, expected one that begins at 0 or later and ends after that",
                Decimal(start),
                Decimal(end)
            )),
            _ => Ok(()),
        }
    }

    /// Checks that settings of videos without times count no seconds of theirs unless their rate is set.
    ///
    /// # Errors
    ///
    /// If they do.
    pub(super) fn check_rate(&self) -> Result<(), Error> {
        let range = self.range.map(|_| "range");
        let start = self.start_field.as_ref().map(|_| "start_field");
        let end = self.end_field.as_ref().map(|_| "end_field");
        let seconds = self.fps.map(|_| "fps").or(range).or(start).or(end);
        match seconds.filter(|_| self.source_fps.is_none()) {
            None => Ok(()),
            Some(name) => Err(fail!(
                Parameter,
                "clips: `{name}` counts seconds, and folders of frames have no times: set `source_fps`, the frames per second \
                 that they were extracted at"
            )),
        }
    }

    /// Returns the distance of two frames.
    fn step(&self) -> Step {
        self.fps.map_or(Step::Stride(self.stride.unwrap_or(1)), Step::Fps)
    }

    /// Returns the fields that have the first and the last second of each video, as far as they are set.
    pub(super) fn range_fields(&self) -> [Option<&str>; 2] {
        [self.start_field.as_deref(), self.end_field.as_deref()]
    }

    /// Returns the field that has the frames, if it is set.
    pub(super) fn field_name(&self) -> Option<&str> {
        self.field.as_deref()
    }

    /// Returns the file that lists the videos.
    pub(super) fn list_file(&self) -> Option<&Path> {
        self.list.as_deref()
    }

    /// Returns the settings without the list, whose videos identify the dataset wherever the file is.
    pub(super) fn of_any_list(&self) -> Self {
        Self { list: None, ..self.clone() }
    }

    /// Returns the settings that are not left out, without the list: `sampler=random,frames=16,stride=4`.
    pub(super) fn settings(&self) -> String {
        fn word<T: PartialEq>(words: &[(&'static str, T)], value: &T) -> Option<String> {
            words.iter().find(|(_, known)| known == value).map(|(word, _)| (*word).to_owned())
        }
        let is_true = |is: bool| is.then(|| "true".to_owned());
        let settings = [
            ("sampler", Some(self.sampler.name().to_owned())),
            ("frames", Some(self.frames.to_string())),
            ("stride", self.stride.map(|stride| stride.to_string())),
            ("fps", self.fps.map(|fps| Decimal(fps).to_string())),
            ("clips", (self.clips > 1).then(|| self.clips.to_string())),
            (
                "range",
                self.range.map(|(start, end)| format!("{}-{}", Decimal(start), Decimal(end))),
            ),
            ("start_field", self.start_field.clone()),
            ("end_field", self.end_field.clone()),
            ("on_short", self.on_short.and_then(|what| word(&ON_SHORT, &what))),
            ("middle", is_true(self.middle)),
            ("per_frame", is_true(self.per_frame)),
            ("layout", word(&CLIP_LAYOUTS, &self.layout).filter(|_| self.is_channels_first())),
            ("source_fps", self.source_fps.map(|fps| Decimal(fps).to_string())),
            ("field", self.field.clone()),
        ];
        let settings = settings.into_iter().filter_map(|(name, value)| Some((name, value?)));
        let settings: Vec<_> = settings.map(|(name, value)| format!("{name}={value}")).collect();
        settings.join(",")
    }

    /// Returns true if each clip of a video is a sample.
    pub(super) fn is_all(&self) -> bool {
        self.sampler == Sampler::All
    }

    /// Returns the number of images of a sample.
    pub(super) fn images(&self) -> usize {
        self.frames * self.clips
    }

    /// Returns the dimensions that a sample has before those of an image: frames, or clips and frames.
    pub(super) fn axes(&self) -> Vec<usize> {
        if self.clips == 1 { vec![self.frames] } else { vec![self.clips, self.frames] }
    }

    /// Returns the number of frames of each clip.
    pub(super) fn frames(&self) -> usize {
        self.frames
    }

    /// Returns the rate of videos without times: one frame per second if it is not set.
    pub(super) fn rate(&self) -> f64 {
        self.source_fps.unwrap_or(1.0)
    }

    /// Returns true if the rate of videos without times is set.
    pub(super) fn has_rate(&self) -> bool {
        self.source_fps.is_some()
    }

    /// Returns the number of the draws of an image of a sample; 0 is that of the sample itself.
    pub(super) fn draw_of(&self, image: usize) -> usize {
        if self.per_frame { image } else { image / self.frames }
    }

    /// Returns true if ops draw for each frame.
    pub(super) fn draws_for_frames(&self) -> bool {
        self.per_frame
    }

    /// Returns true if the channels of a clip come before its frames.
    pub(super) fn is_channels_first(&self) -> bool {
        self.layout == ClipLayout::Ncthw
    }
}

/// Describes the clips: `random clips of 16 frames, stride 4`.
impl fmt::Display for Clips {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sampler, frames, clips, .. } = self;
        match sampler {
            Sampler::Segments if self.middle => {
                write!(f, "{frames} frames, the middle of each segment")?;
            }
            Sampler::Segments => {
                write!(f, "{frames} frames, one drawn of each segment")?;
            }
            _ => {
                write!(f, "{} clips of {frames} frames, ", sampler.name())?;
                match self.step() {
                    Step::Stride(stride) => write!(f, "stride {stride}")?,
                    Step::Fps(fps) => write!(f, "{} per second", Decimal(fps))?,
                }
            }
        }
        if *clips > 1 {
            write!(f, ", {clips} of each video")?;
        }
        if let Some((start, end)) = self.range {
            write!(f, ", from {} to {} s", Decimal(start), Decimal(end))?;
        }
        if let Some(start) = &self.start_field {
            write!(f, ", from the second in {}", Escaped(start))?;
        }
        if let Some(end) = &self.end_field {
            write!(f, ", to the second in {}", Escaped(end))?;
        }
        f.write_str(if self.per_frame { ", draws for each frame" } else { ", one draw for a clip" })
    }
}
