//! The time of each phase of the frames of a sample, as a worker decodes them: the mean of one frame.
//!
//! Reading video files decodes their frames. What the frames of a clip need beside them, such as those between a key frame
//! and the first one, is part of their time.

use super::{Inspector, Phases, time_image};
use crate::decode::{FrameScratch, OpenedFrame};
use crate::error::Error;
use crate::jit::DecodedPixels;
use crate::loader::clips::ClipFrames;
use crate::loader::opened_image::OpenedImage;
use crate::loader::stage::{LoaderStage, ReadFrames};
use crate::loader::work::open_image;
use crate::plan::Draws;
use crate::sample::SampleId;
use crate::source::{FrameError, FrameImage, FramePixels};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The number of times that the frames of a sample are read. The last one counts: the first one reads the index of a video
/// file, and bytes that are not in memory.
const PASSES: usize = 2;

impl Inspector {
    /// Returns true if a sample has frames of this output.
    #[must_use]
    pub fn has_frames(&self) -> bool {
        let (clips, fields) = (self.stage.clips(), self.stage.frame_fields());
        clips.is_some_and(|clips| clips.has_frames(self.field))
            || fields.is_some_and(|fields| fields.has(self.field))
    }

    /// Times the frames that a batch has of a sample, each run once. `each` is called with the input of the compiled loop
    /// of one of them.
    pub(super) fn frame_phases(
        &mut self,
        sample: SampleId,
        each: impl FnOnce(DecodedPixels<'_>, &Draws),
    ) -> Result<Phases, Error> {
        let (stage, field) = (Arc::clone(&self.stage), self.field);
        if let Some(clips) = stage.clips() {
            let mut chosen = ClipFrames::default();
            let key = stage.key_of_sample(self.epoch, sample);
            clips.choose(key, &mut self.buffer, &mut chosen)?;
            let read: ReadFrames<'_> =
                &|frames, buffer, take| clips.read_frames(sample, frames, buffer, take);
            let timed = self.time_frames((&stage, sample), (&chosen.frames, read), each);
            return timed.map_err(|fault| clips.of_frame((sample, field), fault));
        }
        let Some(fields) = stage.frame_fields() else { return Ok(Phases::default()) };
        let (mut chosen, at) = (vec![], (sample, field));
        fields.0.choose_frames(at, &mut self.buffer, &mut chosen)?;
        let read: ReadFrames<'_> =
            &|frames, buffer, take| fields.0.read_frames_of(at, frames, buffer, take);
        self.time_frames((&stage, sample), (&chosen, read), each).map_err(FrameError::numbered)
    }

    fn time_frames(
        &mut self,
        (stage, sample): (&LoaderStage, SampleId),
        (chosen, read): (&[u32], ReadFrames<'_>),
        each: impl FnOnce(DecodedPixels<'_>, &Draws),
    ) -> Result<Phases, FrameError> {
        let of_sample = |error| FrameError { frame: None, error };
        let kernel = self.kernel_of(sample).map_err(of_sample)?;
        let before = self.drawn_before(sample).map_err(of_sample)?;
        let (plan, mut each) = (kernel.plan(), Some(each));
        // The places of frames in the sample, of which each frame is read for its first one.
        let mut places: Vec<(u32, usize)> = chosen.iter().copied().zip(0..).collect();
        places.sort_unstable();
        places.dedup_by_key(|(frame, _)| *frame);
        let frames: Vec<u32> = places.iter().map(|(frame, _)| *frame).collect();
        let Self { decoder, scratch, buffer, mode, output, epoch, most_made, .. } = self;
        let (mode, output, epoch, most_made) = (*mode, *output, *epoch, *most_made);
        let (mut frame_scratch, mut draws, mut row) =
            (FrameScratch::default(), Draws::default(), vec![]);
        let mut phases = Phases::default();
        for pass in 1..=PASSES {
            phases = Phases::default();
            let (mut is_decoded, mut inside, begun) = (false, Duration::ZERO, Instant::now());
            let mut take = |frame: u32, image: FrameImage<'_>| {
                let start = Instant::now();
                let first = places.partition_point(|(other, _)| *other < frame);
                let index = places.get(first).map_or(0, |(_, index)| *index);
                let mut opened = match image {
                    FrameImage { pixels: FramePixels::Stored(value), orientation: 1 } => {
                        phases.stored_bytes += value.bytes().len();
                        let input = (Some(plan.input()), None);
                        OpenedImage::Value(open_image(decoder, value, mode, input)?)
                    }
                    turned => {
                        is_decoded |= !matches!(turned.pixels, FramePixels::Stored(_));
                        let opened = OpenedFrame::new(decoder, turned, mode, &mut frame_scratch)?;
                        OpenedImage::Frame(opened)
                    }
                };
                let timed = time_image(
                    (stage, output, most_made),
                    (&*kernel, &before, stage.key_of_image((epoch, sample), output, index)),
                    (start, &mut opened),
                    (scratch, &mut draws, &mut row),
                    each.take_if(|_| pass == PASSES),
                )?;
                let [headers, draw, decode, compiled] = timed.times;
                phases.headers += headers;
                phases.draw += draw;
                phases.decode += decode;
                phases.compiled += compiled;
                (phases.picture, phases.decoded) = (timed.picture, timed.decoded);
                phases.is_scaled = timed.is_scaled;
                inside += start.elapsed();
                Ok(())
            };
            read(&frames, buffer, &mut take)?;
            let outside = begun.elapsed().saturating_sub(inside);
            *(if is_decoded { &mut phases.decode } else { &mut phases.read }) += outside;
        }
        let count = u32::try_from(frames.len().max(1)).unwrap_or(u32::MAX);
        let Phases { read, headers, draw, decode, compiled, stored_bytes, .. } = phases;
        let [read, headers, draw, decode, compiled] =
            [read, headers, draw, decode, compiled].map(|time| time / count);
        let stored_bytes = stored_bytes / frames.len().max(1);
        Ok(Phases { read, headers, draw, decode, compiled, stored_bytes, ..phases })
    }
}
