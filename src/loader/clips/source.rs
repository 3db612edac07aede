//! The samples of a loader with clips: a wrapper of a dataset of videos.
//!
//! | field            | value of a sample                                                     |
//! |------------------|-----------------------------------------------------------------------|
//! | that of the clip | the first frame of the video; a loader reads those of the clip        |
//! | targets          | that of the first frame; a loader reads those of the clip's frames    |
//! | the others       | those of the video                                                    |
//! | `pts`            | the times of the clip's frames, which are chosen when it is loaded    |
//! | `video_index`, if every clip is a sample | the index of the video                        |
//!
//! The field of the frames is called `video`, whatever the dataset calls it, so that all datasets of videos have one name.
//! The loader takes its other names too.

use super::{ClipFrames, Clips, key_of_image};
use crate::error::{Error, fail};
use crate::parallel;
use crate::sample::{Limits, SampleId};
use crate::source::{
    BoxError, Buffer, Escaped, Facts, FieldKind, FieldSpec, Fingerprint, FrameError, FrameTimes,
    Frames, NdType, PTS, PartFields, Record, SampleLocation, Source, TakeFrame, VIDEO_INDEX, Value,
    part_of_video, read_values,
};
use fuseloop_ops::Size;
use fuseloop_ops::internals::{SampleKey, stream};
use std::fmt;
use std::sync::Arc;

/// The name of the field of the frames.
pub(in crate::loader) const VIDEO: &str = "video";

/// Clips of videos as samples.
pub(in crate::loader) struct ClipSource {
    clips: Clips,
    dataset: VideosOf,
    facts: Facts,
    videos: Arc<dyn Frames>,
    /// The number of clips before each video, and that of all clips, if every clip is a sample.
    starts: Option<Vec<u64>>,
    /// The field of the presentation times. The one of the video's index follows it.
    pts: usize,
    /// The fields with the seconds from which and before which frames of each video are chosen.
    range: PartFields,
}

/// The dataset, the field and the limits of videos, which these depend on beside the clips.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::loader) struct VideosOf {
    /// The fingerprint of the dataset.
    pub(in crate::loader) dataset: u64,
    /// The field of the dataset that has the frames.
    pub(in crate::loader) field: usize,
    pub(in crate::loader) limits: Limits,
}

impl fmt::Debug for ClipSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClipSource").field("clips", &self.clips).finish_non_exhaustive()
    }
}

impl ClipSource {
    /// Makes clips the samples of a dataset of videos. `range` are the fields with the seconds from which and before
    /// which frames of each video are chosen.
    ///
    /// # Errors
    ///
    /// If a field of the dataset has a name that clips need, or the system starts no threads.
    pub(in crate::loader) fn new(
        dataset: VideosOf,
        videos: Arc<dyn Frames>,
        clips: Clips,
        range: PartFields,
    ) -> Result<Self, Error> {
        let known = videos.facts();
        let mut fields: Vec<FieldSpec> = known.fields.to_vec();
        let frames = videos.field();
        if fields.iter().all(|field| field.name != VIDEO) {
            fields[frames].name = VIDEO.to_owned();
        }
        let pts = fields.len();
        let shape = clips.axes().into_iter().map(|n| n as u64).collect();
        fields.push(FieldSpec::from((PTS, FieldKind::NdArray { dtype: NdType::F64, shape })));
        if clips.is_all() {
            fields.push(FieldSpec::from((VIDEO_INDEX, FieldKind::Int)));
        }
        for own in &fields[pts..] {
            if known.fields.iter().any(|field| field.name == own.name) {
                let (dataset, name) = (Escaped(&known.name), &own.name);
                let error = fail!(
                    Field,
                    "{dataset}: a field is called {name}, which is the name of a tensor of clips: rename the field"
                );
                return Err(error.of_field(name));
            }
        }
        let starts = if clips.is_all() {
            let all: Vec<u64> = (0..known.samples).collect();
            // A video whose times can't be read has a single clip, which can't be read.
            let clips_of = |video: &u64| {
                let video = SampleId(*video);
                let own = part_of_video(&*videos, video, range, &mut Buffer::default());
                let times = own.and_then(|own| Ok((videos.times(video)?, own)));
                times.map_or(1, |(times, own)| clips.count_all(&times, own))
            };
            let counts = parallel::map(&all, clips_of)?;
            let (mut starts, mut end) = (vec![0], 0_u64);
            starts.extend(counts.into_iter().map(|count| {
                end = end.saturating_add(count);
                end
            }));
            Some(starts)
        } else {
            None
        };
        let mut print = Fingerprint::default();
        print.text("clips");
        print.number(known.fingerprint);
        if let Some(starts) = &starts {
            starts.iter().for_each(|start| print.number(*start));
        }
        let mut facts = known.clone();
        facts.fields = fields.into();
        facts.samples = starts.as_ref().map_or(known.samples, |starts| starts[starts.len() - 1]);
        facts.fingerprint = print.value();
        Ok(Self { clips, dataset, facts, videos, starts, pts, range })
    }

    /// Returns true if these are the clips of a dataset. Those of a list file are not: the file may have changed.
    pub(in crate::loader) fn are_clips_of(&self, dataset: VideosOf, clips: &Clips) -> bool {
        self.dataset == dataset && self.clips == *clips && clips.list_file().is_none()
    }

    pub(in crate::loader) fn clips(&self) -> &Clips {
        &self.clips
    }

    /// Returns true if a field has the frames of clips.
    pub(in crate::loader) fn has_frames(&self, field: usize) -> bool {
        field == self.videos.field()
    }

    /// Returns true if a field has the presentation times of clips.
    pub(in crate::loader) fn has_times(&self, field: usize) -> bool {
        field == self.pts
    }

    /// Returns the field of the frames.
    pub(in crate::loader) fn field(&self) -> usize {
        self.videos.field()
    }

    /// Chooses the frames of a sample, by the draws of its key.
    ///
    /// # Errors
    ///
    /// Fails as reading the video does, and if its frames are too few.
    pub(in crate::loader) fn choose(
        &self,
        key: SampleKey,
        buffer: &mut Buffer,
        chosen: &mut ClipFrames,
    ) -> Result<(), Error> {
        let (video, number) = self.video(SampleId(key.sample()));
        let own = part_of_video(&*self.videos, video, self.range, buffer)?;
        let times = self.videos.times(video)?;
        let rng = |clip| key.op(stream("clip", clip));
        self.clips.choose((&times, own), number, rng, &mut chosen.frames)?;
        chosen.pts.clear();
        let pts = chosen.frames.iter().map(|frame| times.time(*frame));
        chosen.pts.extend(pts.flat_map(f64::to_le_bytes));
        chosen.has_seconds = self.clips.has_rate() || !matches!(times, FrameTimes::Constant { .. });
        Ok(())
    }

    /// Returns the key of the draws of one image of a sample.
    pub(in crate::loader) fn key(&self, sample: SampleKey, image: usize) -> SampleKey {
        match self.clips.draw_of(image) {
            0 => sample,
            draw => key_of_image(sample, "draws of a clip", draw),
        }
    }

    /// Reads frames of the video of a sample, which are ascending.
    ///
    /// # Errors
    ///
    /// Fails as reading the video does, and with the errors of `take`.
    pub(in crate::loader) fn read_frames(
        &self,
        sample: SampleId,
        frames: &[u32],
        buffer: &mut Buffer,
        take: TakeFrame<'_>,
    ) -> Result<(), FrameError> {
        self.videos.read_frames(self.video(sample).0, frames, buffer, take)
    }

    /// Returns whether each frame has masks and boxes of its own.
    pub(in crate::loader) fn has_values_of_frames(&self) -> bool {
        self.videos.has_values_of_frames()
    }

    /// Reads the value that a frame of the video of a sample has of a field.
    ///
    /// # Errors
    ///
    /// Fails as reading the video does.
    pub(in crate::loader) fn frame_value<'a>(
        &'a self,
        (sample, frame): (SampleId, u32),
        field: usize,
        buffer: &'a mut Buffer,
    ) -> Result<Value<'a>, BoxError> {
        self.videos.frame_value((self.video(sample).0, frame), field, buffer)
    }

    /// Returns the size of the picture that the annotations of a frame of the video of a sample are of, if they have one.
    pub(in crate::loader) fn annotated_frame_size(
        &self,
        (sample, frame): (SampleId, u32),
    ) -> Option<Size> {
        self.videos.annotated_frame_size((self.video(sample).0, frame))
    }

    /// Returns true if reading frames decodes them.
    pub(in crate::loader) fn decodes(&self) -> bool {
        self.videos.decodes()
    }

    /// Names the frame that an error of a field is about: its number, and its file if it has one of its own.
    pub(in crate::loader) fn of_frame(
        &self,
        (sample, field): (SampleId, usize),
        fault: FrameError,
    ) -> Error {
        let FrameError { frame: Some(frame), error } = fault else { return fault.error };
        let location = self.videos.locate_frame((self.video(sample).0, frame), field);
        let file =
            location.as_ref().and_then(|place| place.file.as_deref().or(place.key.as_deref()));
        let name = file.and_then(|file| file.rsplit(['/', std::path::MAIN_SEPARATOR]).next());
        match name.filter(|_| error.path().is_none()) {
            Some(name) => error
                .context(format_args!("frame {frame}, {name}"))
                .named_path(file.unwrap_or(name)),
            None => error.context(format_args!("frame {frame}")),
        }
    }

    /// Returns the video of a sample, and which of its clips the sample is.
    fn video(&self, sample: SampleId) -> (SampleId, u64) {
        match &self.starts {
            None => (sample, 0),
            Some(starts) => {
                let video = starts.partition_point(|start| *start <= sample.0).saturating_sub(1);
                (SampleId(video as u64), sample.0 - starts[video])
            }
        }
    }
}

impl Source for ClipSource {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn read(&self, sample: SampleId) -> Result<Record, BoxError> {
        read_values(self, sample)
    }

    fn value<'a>(
        &'a self,
        sample: SampleId,
        field: usize,
        buffer: &'a mut Buffer,
    ) -> Result<Value<'a>, BoxError> {
        let (video, _) = self.video(sample);
        match field.checked_sub(self.pts) {
            None => self.videos.value(video, field, buffer),
            Some(1) if self.starts.is_some() => Ok(Value::Int(i64::try_from(video.0)?)),
            Some(_) => {
                Err("the frames of a clip, and their times, are chosen when it is loaded".into())
            }
        }
    }

    fn locate(&self, sample: SampleId, field: usize) -> Option<SampleLocation> {
        let field = if field < self.pts { field } else { self.field() };
        self.videos.locate(self.video(sample).0, field)
    }

    fn component(&self, sample: SampleId, buffer: &mut Buffer) -> Result<usize, BoxError> {
        self.videos.component(self.video(sample).0, buffer)
    }
}
