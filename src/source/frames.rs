//! Videos as sources: samples with many images of one field, and the times at which these are shown.
//!
//! | videos                                      | a sample               | times                       |
//! |---------------------------------------------|------------------------|-----------------------------|
//! | [`FrameFolders`](super::FrameFolders)        | a folder of images     | frame number / frame rate   |
//! | `VideoFiles`, with the feature `video`      | a video file           | those of the container      |
//! | [`FrameRows`](super::FrameRows)              | rows of a clip store   | those of the rows           |
//!
//! A dataset that chooses the frames of its samples itself has [`FrameFields`](super::FrameFields) instead.

use super::{
    BoxError, Buffer, FrameError, FrameImage, FramePixels, SampleLocation, SecondsRange, Source,
    TakeFrame, Value,
};
use crate::amounts::Decimal;
use crate::error::{Damage, Error, fail};
use crate::sample::SampleId;
use fuseloop_ops::Size;
use std::sync::Arc;

/// The seconds by which a frame may begin after a time at which it is shown: times are sums of rounded numbers. Frames that
/// are closer to each other are not told apart by times.
pub(crate) const ROUNDING: f64 = 1e-6;

/// The duration of the only frame of a video, in seconds.
const ONLY_FRAME: f64 = 0.04;

/// A dataset of videos. The frames of a video are values of one field.
///
/// [`Source::value`] returns the first frame, so that a dataset of videos can be looked at as one of images.
pub(crate) trait Frames: Source {
    /// Returns the field that has the frames.
    fn field(&self) -> usize;

    /// Returns the number of frames of a video, and their times.
    ///
    /// # Errors
    ///
    /// Fails as [`Source::value`] does.
    fn times(&self, video: SampleId) -> Result<FrameTimes, BoxError>;

    /// Reads frames of a video, which are ascending, and hands each to `take` with its number: as it is stored, unless frames
    /// are decoded.
    ///
    /// # Errors
    ///
    /// Fails as [`Source::value`] does, with the errors of `take`, and if the video has no such frame.
    fn read_frames(
        &self,
        video: SampleId,
        frames: &[u32],
        buffer: &mut Buffer,
        take: TakeFrame<'_>,
    ) -> Result<(), FrameError> {
        for &frame in frames {
            let mut read = || {
                let value = self.frame_value((video, frame), self.field(), buffer)?;
                take(frame, FrameImage { pixels: FramePixels::Stored(value), orientation: 1 })
            };
            read().map_err(|error| FrameError { frame: Some(frame), error })?;
        }
        Ok(())
    }

    /// Returns true if reading frames decodes them.
    fn decodes(&self) -> bool {
        false
    }

    /// Returns the frames of a video at which decoding starts; `None` if each frame is read without others.
    ///
    /// # Errors
    ///
    /// Fails as [`times`](Self::times) does.
    #[cfg_attr(not(feature = "write"), expect(dead_code, reason = "conversions read whole videos"))]
    fn groups(&self, video: SampleId) -> Result<Option<FrameGroups>, BoxError> {
        let _ = video;
        Ok(None)
    }

    /// Returns whether each frame has values of all fields: its own mask and boxes. False if they are values of the video.
    fn has_values_of_frames(&self) -> bool {
        false
    }

    /// Reads the value that a frame has of a field. A field whose frames have none has the value of the video.
    ///
    /// # Errors
    ///
    /// Fails as [`Source::value`] does, and if the video has no such frame.
    fn frame_value<'a>(
        &'a self,
        (video, frame): (SampleId, u32),
        field: usize,
        buffer: &'a mut Buffer,
    ) -> Result<Value<'a>, BoxError> {
        let _ = frame;
        self.value(video, field, buffer)
    }

    /// Returns the size of the picture that the annotations of a frame are of, if they have one.
    fn annotated_frame_size(&self, at: (SampleId, u32)) -> Option<Size> {
        let _ = at;
        None
    }

    /// Returns where the value that a frame has of a field is stored; `None` if it has no file of its own.
    fn locate_frame(&self, at: (SampleId, u32), field: usize) -> Option<SampleLocation>;
}

/// How the frames of a video depend on each other.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(all(feature = "video", feature = "write")),
    allow(dead_code, reason = "conversions read whole videos")
)]
pub(crate) struct FrameGroups {
    /// The frames at which decoding starts, ascending.
    pub(crate) starts: Vec<u32>,
    /// The number of pixels of a frame.
    pub(crate) pixels: u64,
}

/// The times at which the frames of a video are shown, in seconds.
#[derive(Clone, Debug)]
pub(crate) enum FrameTimes {
    /// Frames at a constant rate, the first at 0.
    Constant {
        /// The number of frames.
        count: u32,
        /// The number of frames per second.
        fps: f64,
    },
    /// Frames at any times.
    Listed {
        /// The time of each frame; no time is less than the one before it.
        times: Arc<[f64]>,
        /// The time at which the last frame is no longer shown.
        end: f64,
    },
}

impl FrameTimes {
    /// Returns the times of frames, of which none is less than the one before it; `None` without a frame. The last frame is
    /// shown as long as the others are on average.
    pub(crate) fn listed(times: Arc<[f64]>) -> Option<Self> {
        let (first, last) = (times.first()?, times.last()?);
        let frame = match times.len() {
            1 => ONLY_FRAME,
            frames => (last - first) / (frames - 1) as f64,
        };
        let end = last + frame;
        Some(Self::Listed { times, end })
    }

    /// Returns the number of frames.
    pub(crate) fn count(&self) -> u32 {
        match self {
            Self::Constant { count, .. } => *count,
            Self::Listed { times, .. } => u32::try_from(times.len()).unwrap_or(u32::MAX),
        }
    }

    /// Returns the time from which on a frame is shown.
    ///
    /// # Panics
    ///
    /// If the times are listed and there is no such frame.
    pub(crate) fn time(&self, frame: u32) -> f64 {
        match self {
            Self::Constant { fps, .. } => f64::from(frame) / fps,
            Self::Listed { times, .. } => times[frame as usize],
        }
    }

    /// Returns the time at which the last frame is no longer shown.
    pub(crate) fn end(&self) -> f64 {
        match self {
            Self::Constant { count, fps } => f64::from(*count) / fps,
            Self::Listed { end, .. } => *end,
        }
    }

    /// Returns the number of frames that begin before a time, which is the first frame that begins at it or later.
    pub(crate) fn frames_before(&self, seconds: f64) -> u32 {
        let is_before = |frame: u32| self.time(frame) < seconds - ROUNDING;
        let (mut low, mut high) = (0, self.count());
        while low < high {
            let middle = low + (high - low) / 2;
            if is_before(middle) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Returns the first of the frames that begin in a range of seconds, and the one behind the last; all without a range.
    ///
    /// # Errors
    ///
    /// If none begins there.
    pub(crate) fn frames_in(&self, range: Option<SecondsRange>) -> Result<(u32, u32), Error> {
        let Some((start, end)) = range else {
            return match self.count() {
                0 => Err(fail!(Damaged, "the video has no frames")),
                count => Ok((0, count)),
            };
        };
        let (low, high) = (self.frames_before(start), self.frames_before(end));
        if low < high {
            return Ok((low, high));
        }
        let (count, length) = (self.count(), self.end());
        let error = fail!(
            Damaged,
            "no frame begins from {} to {} seconds: the video has {count} frames and ends at {} seconds",
            Decimal(start),
            Decimal(end),
            Decimal(length)
        );
        Err(error.damage(Damage::Part))
    }

    /// Returns the frame that is shown at a time: the last one that has begun, or the first frame.
    pub(crate) fn frame_at(&self, seconds: f64) -> u32 {
        self.frames_before(seconds + 2.0 * ROUNDING).saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_frame_at_a_time_is_the_last_one_that_has_begun() {
        let times = FrameTimes::Listed { times: [0.5, 0.6, 2.0, 2.0].into(), end: 2.5 };
        let shown = [0.0, 0.5, 0.59, 0.6, 1.9, 2.0, 9.0].map(|seconds| times.frame_at(seconds));
        assert_eq!(shown, [0, 0, 0, 1, 1, 3, 3]);
        let before = [0.0, 0.5, 0.55, 2.0, 2.1].map(|seconds| times.frames_before(seconds));
        assert_eq!(before, [0, 0, 1, 2, 4]);
        assert_eq!((times.count(), times.end()), (4, 2.5));
    }

    #[test]
    fn rounding_hides_no_frame() {
        for fps in [23.976, 25.0, 29.97, 30.0, 60.0, 1000.0] {
            let times = FrameTimes::Constant { count: 3000, fps };
            for frame in 0..3000 {
                assert_eq!(times.frame_at(times.time(frame)), frame, "{fps}");
                assert_eq!(times.frames_before(times.time(frame)), frame, "{fps}");
            }
            // Each third frame, whose times are sums of other numbers.
            let third = |n: u32| times.frame_at(f64::from(n) / (fps / 3.0));
            assert!((0..1000).all(|n| third(n) == 3 * n), "{fps}");
        }
    }
}
