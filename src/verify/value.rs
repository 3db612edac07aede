//! Checks one sample: reads each of its values, and decodes whole images.

use super::json;
use super::objects::ObjectChecker;
use super::report::{DamageKind, DamagedValue, DegenerateObject, Tally, ValueError};
use super::{Checks, FieldCheck};
use crate::decode::{DecodeOptions, Decoder, ImageReadMode, UnreadParts};
#[cfg(feature = "video")]
use crate::decode::{FrameScratch, OpenedFrame};
use crate::panicked::caught;
use crate::sample::{Limits, SampleId};
use crate::source::{Buffer, EncodedImage, Source, Value};
#[cfg(feature = "video")]
use crate::source::{FrameError, check_video, part_of_video};
use fuseloop_ops::Size;
#[cfg(feature = "video")]
use fuseloop_video::VideoIndex;
use std::collections::HashMap;
use std::sync::Arc;

/// The state of one checking thread.
pub(super) struct Checker<'s> {
    source: &'s dyn Source,
    objects: Option<&'s ObjectChecker>,
    checks: &'s Checks,
    /// What is wrong with files, by their first samples.
    changed: &'s HashMap<SampleId, String>,
    limits: Limits,
    unread: Arc<UnreadParts>,
    scratch: CheckScratch,
}

/// Buffers that are reused from value to value.
struct CheckScratch {
    buffer: Buffer,
    decoder: Decoder,
    #[cfg(feature = "video")]
    limits: Limits,
    #[cfg(feature = "video")]
    frame: FrameScratch,
}

/// The sizes of an intact value.
#[derive(Default)]
struct IntactValue {
    bytes: u64,
    /// The size of an image.
    image: Option<Size>,
    /// The size of its upright picture.
    upright: Option<Size>,
    /// True if it is an audio file that was decoded.
    is_audio: bool,
    /// True if it is a video file that was decoded.
    is_video: bool,
    /// True if it begins as a video file does and was not decoded.
    is_undecoded_video: bool,
}

impl<'s> Checker<'s> {
    pub(super) fn new(
        source: &'s dyn Source,
        objects: Option<&'s ObjectChecker>,
        (checks, changed): (&'s Checks, &'s HashMap<SampleId, String>),
        limits: Limits,
        unread: &Arc<UnreadParts>,
    ) -> Self {
        let scratch = CheckScratch::new(limits, unread);
        Self { source, objects, checks, changed, limits, unread: Arc::clone(unread), scratch }
    }

    /// Checks all values of a sample and counts them; returns false if one is damaged.
    pub(super) fn sample(&mut self, sample: SampleId, tally: &mut Tally) -> bool {
        self.scratch.buffer.forget();
        let (mut is_good, mut size, mut masks) = (true, None, vec![]);
        if let Some(text) = self.changed.get(&sample) {
            is_good = false;
            tally.damaged(self.damaged(sample, 0, ValueError::of_source(&text.clone().into())));
        }
        for field in 0..self.source.fields().len() {
            tally.values += 1;
            let error = match self.value(sample, field) {
                Ok(whole) => {
                    tally.bytes += whole.bytes;
                    tally.pictures += u64::from(whole.image.is_some());
                    tally.audio_files += u64::from(whole.is_audio);
                    tally.video_files += u64::from(whole.is_video);
                    if whole.is_undecoded_video {
                        *tally.undecoded_videos.entry(field).or_default() += 1;
                    }
                    tally.pixels += whole.image.map_or(0, Size::pixels);
                    if self.objects.is_some_and(|objects| objects.image() == field) {
                        // The objects may be of the upright picture.
                        let annotated = self.source.annotated_size(sample);
                        let upright = whole.upright.filter(|upright| annotated == Some(*upright));
                        size = upright.or(whole.image);
                    }
                    if self.checks.fields[field] == FieldCheck::Mask {
                        masks.extend(whole.image.map(|size| (field, size)));
                    }
                    continue;
                }
                Err(error) => error,
            };
            is_good = false;
            // A source of records returns one error for the whole record.
            let is_last = error.kind == DamageKind::Source;
            tally.damaged(self.damaged(sample, field, error));
            if is_last {
                break;
            }
        }
        // Only whole values are compared with each other.
        if let (Some(objects), Some(size), true) = (self.objects, size, is_good) {
            let other = masks.into_iter().find(|(_, mask)| *mask != size);
            let found = match other {
                Some((field, mask)) => {
                    let text =
                        format!("a mask of {mask} for an image of {size}: both must have one size");
                    Err((field, ValueError::of_objects(text)))
                }
                None => self.objects(objects, sample, size),
            };
            match found {
                Ok(degenerate) => degenerate.into_iter().for_each(|found| tally.degenerate(found)),
                Err((field, error)) => {
                    is_good = false;
                    tally.damaged(self.damaged(sample, field, error));
                }
            }
        }
        tally.damaged_samples += u64::from(!is_good);
        is_good
    }

    fn damaged(&self, sample: SampleId, field: usize, error: ValueError) -> DamagedValue {
        let location = self.source.locate(sample, field);
        let stored = || Some(location.as_ref()?.bytes.as_ref()?.start);
        let ValueError { kind, text: error, offset } = error;
        let offset = offset.or_else(stored);
        let field = self.source.fields()[field].name.clone();
        DamagedValue { sample, field, location, offset, kind, error }
    }

    /// Checks the objects of an image of `size`. A panic becomes the error of the image.
    fn objects(
        &mut self,
        objects: &ObjectChecker,
        sample: SampleId,
        size: Size,
    ) -> Result<Vec<DegenerateObject>, (usize, ValueError)> {
        let (source, buffer) = (self.source, &mut self.scratch.buffer);
        let check = || objects.check(source, (sample, size), buffer);
        caught(check).unwrap_or_else(|message| {
            self.scratch = CheckScratch::new(self.limits, &self.unread);
            Err((objects.image(), ValueError::panicked(&message)))
        })
    }

    /// Checks a value. A panic, in the decoder or in a user's source, becomes this value's error and
    /// does not end the whole check.
    fn value(&mut self, sample: SampleId, field: usize) -> Result<IntactValue, ValueError> {
        let (source, scratch, checks) = (self.source, &mut self.scratch, self.checks);
        let checked = caught(|| scratch.check(source, (sample, field), checks));
        checked.unwrap_or_else(|message| {
            // The buffers may be in any state after a panic, so they are not used again.
            self.scratch = CheckScratch::new(self.limits, &self.unread);
            Err(ValueError::panicked(&message))
        })
    }
}

impl CheckScratch {
    fn new(limits: Limits, unread: &Arc<UnreadParts>) -> Self {
        let options = DecodeOptions { limits, ..DecodeOptions::default() };
        Self {
            buffer: Buffer::default(),
            decoder: Decoder::new(options).warning(unread),
            #[cfg(feature = "video")]
            limits,
            #[cfg(feature = "video")]
            frame: FrameScratch::default(),
        }
    }

    fn check(
        &mut self,
        source: &dyn Source,
        (sample, field): (SampleId, usize),
        checks: &Checks,
    ) -> Result<IntactValue, ValueError> {
        let check = checks.fields[field];
        #[cfg(feature = "video")]
        let part = match check {
            FieldCheck::Video => part_of_video(source, sample, checks.part, &mut self.buffer)
                .map_err(ValueError::of_video)?,
            _ => None,
        };
        let value = source.value(sample, field, &mut self.buffer);
        let value = value.map_err(|error| ValueError::of_source(&error))?;
        let whole = |bytes: &[u8]| IntactValue { bytes: bytes.len() as u64, ..<_>::default() };
        match value {
            Value::Image(image) => {
                let is_mask = check == FieldCheck::Mask;
                let mode = if is_mask { ImageReadMode::Index } else { ImageReadMode::Rgb };
                decode(&mut self.decoder, &image, mode)
            }
            Value::Bytes(bytes) if check == FieldCheck::Audio => {
                self.decoder.check_audio(bytes).map_err(ValueError::of_audio)?;
                Ok(IntactValue { is_audio: true, ..whole(bytes) })
            }
            #[cfg(feature = "video")]
            Value::Bytes(bytes) if check == FieldCheck::Video => {
                let Self { decoder, limits, frame, .. } = self;
                let decoded = check_video(bytes, part, limits, &mut |_, image| {
                    let mut opened = OpenedFrame::new(decoder, image, ImageReadMode::Rgb, frame)?;
                    opened.decode(opened.size().full()).map(|_| ())
                });
                decoded.map_err(|FrameError { frame, error }| {
                    let error = match frame {
                        Some(frame) => error.context(format_args!("frame {frame}")),
                        None => error,
                    };
                    ValueError::of_video(error)
                })?;
                Ok(IntactValue { is_video: true, ..whole(bytes) })
            }
            Value::Json(bytes) => json::check(bytes).map(|()| whole(bytes)),
            Value::Bytes(bytes) => {
                let is_undecoded_video = begins_as_video(bytes);
                Ok(IntactValue { is_undecoded_video, ..whole(bytes) })
            }
            Value::NdArray(bytes) | Value::Custom(bytes) => Ok(whole(bytes)),
            Value::Float(_) | Value::Int(_) => Ok(IntactValue::default()),
        }
    }
}

#[cfg(feature = "video")]
fn begins_as_video(bytes: &[u8]) -> bool {
    VideoIndex::is_container(bytes)
}

/// Returns false: this build does not know video files.
#[cfg(not(feature = "video"))]
fn begins_as_video(_: &[u8]) -> bool {
    false
}

fn decode(
    decoder: &mut Decoder,
    image: &EncodedImage<'_>,
    mode: ImageReadMode,
) -> Result<IntactValue, ValueError> {
    let mut opened = decoder.open_as(image, mode).map_err(ValueError::of_picture)?;
    let (size, upright) = (opened.size(), opened.upright_size());
    opened.decode(size.full()).map_err(ValueError::of_picture)?;
    let bytes = image.bytes.len() as u64;
    let (image, upright) = (Some(size), Some(upright));
    Ok(IntactValue { bytes, image, upright, ..IntactValue::default() })
}
