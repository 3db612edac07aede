//! Frames of videos, and fields whose samples have frames that the dataset chooses.

use super::{Buffer, Source};
use crate::error::Error;
use crate::sample::SampleId;
use crate::source::{BoxError, Value};
use std::fmt;
use std::sync::Arc;

/// A dataset with fields of frames.
#[doc(hidden)]
#[derive(Clone)]
pub struct FrameSource(pub(crate) Arc<dyn FrameFields>);

impl FrameSource {
    /// Returns whether a field has frames.
    pub(crate) fn has(&self, field: usize) -> bool {
        self.0.frame_count(field).is_some()
    }
}

impl fmt::Debug for FrameSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FrameSource").field(self.0.facts()).finish()
    }
}

/// A dataset with fields whose values are frames: one frame of each sample, or several.
///
/// [`Source::value`] returns the first frame.
#[cfg_attr(
    not(all(feature = "parquet", feature = "video")),
    allow(dead_code, reason = "only datasets of LeRobot have such fields")
)]
pub(crate) trait FrameFields: Source {
    /// Returns the number of frames that each sample has in a field; `None` for a field of other values.
    fn frame_count(&self, field: usize) -> Option<FrameCount>;

    /// Sets `frames` to the numbers of a sample's frames in a field, in the order of its row. A frame may be there several
    /// times.
    ///
    /// # Errors
    ///
    /// Fails as [`Source::value`] does.
    fn choose_frames(
        &self,
        value: (SampleId, usize),
        buffer: &mut Buffer,
        frames: &mut Vec<u32>,
    ) -> Result<(), BoxError>;

    /// Reads frames that were chosen, ascending and each once, and hands each to `take` with its number.
    ///
    /// # Errors
    ///
    /// Fails as [`Source::value`] does, and with the errors of `take`.
    fn read_frames_of(
        &self,
        value: (SampleId, usize),
        frames: &[u32],
        buffer: &mut Buffer,
        take: TakeFrame<'_>,
    ) -> Result<(), FrameError>;
}

/// The number of frames that a sample has in a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(all(feature = "parquet", feature = "video")),
    allow(dead_code, reason = "only datasets of LeRobot have such fields")
)]
pub(crate) enum FrameCount {
    /// One, which is an image without an axis of frames.
    One,
    /// This number of frames, along an axis of frames.
    Several(usize),
}

/// A function that is given frames with their numbers.
pub(crate) type TakeFrame<'a> = &'a mut dyn FnMut(u32, FrameImage<'_>) -> Result<(), Error>;

/// A frame that was read.
#[derive(Clone, Copy)]
pub(crate) struct FrameImage<'a> {
    pub(crate) pixels: FramePixels<'a>,
    /// How the picture is turned to be upright: an EXIF orientation.
    pub(crate) orientation: u8,
}

/// The pixels of a frame.
#[derive(Clone, Copy)]
pub(crate) enum FramePixels<'a> {
    /// A stored image.
    Stored(Value<'a>),
    /// The planes of a picture.
    #[cfg(feature = "video")]
    Planes(&'a fuseloop_video::Frame),
}

/// The error of reading a frame.
pub(crate) struct FrameError {
    /// The number of the frame; `None` if the error is of the whole video.
    pub(crate) frame: Option<u32>,
    pub(crate) error: Error,
}

impl FrameError {
    /// Returns the error, which names the frame by its number.
    pub(crate) fn numbered(self) -> Error {
        match self.frame {
            Some(frame) => self.error.context(format_args!("frame {frame}")),
            None => self.error,
        }
    }
}
