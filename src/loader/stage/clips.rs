//! The rows of clips: the frames of a sample are read and run one after another, each as an image of its own, and all by the
//! draws of their clip.
//!
//! ```text
//! draw the frames ──▶ for each: read ─▶ draw (the same) ─▶ decode the window ─▶ compiled loop ─▶ its part of the row
//! ```
//!
//! A loop is called once for each frame, with equal parameters: the frames of a clip are in different files, and reading
//! and decoding them takes hundreds of times as long as a call. Frames of one video that differ in size draw for their
//! sizes, as images of one sample that differ in size do.

use super::{LoaderStage, OneOf, SampleRows, StageError, Worker};
use crate::loader::clips::ClipSource;
use crate::loader::opened_image::StoredImage;
use crate::loader::work::ClipRow;
use crate::run::Phase;
use crate::sample::SampleId;
use fuseloop_ops::internals::SampleKey;
use std::mem;

impl LoaderStage {
    /// Writes all outputs of the frames of a sample, whose clips are chosen.
    pub(super) fn fill_clip(
        &self,
        worker: &mut Worker,
        clips: &ClipSource,
        key: SampleKey,
        place: usize,
        rows: &mut SampleRows<'_, '_>,
    ) -> Result<(), StageError> {
        let (field, outputs) = &self.fields[place];
        let name = &self.source.fields()[*field].name;
        let sample = SampleId(key.sample());
        let chosen = mem::take(&mut worker.clip);
        let count = chosen.frames.len();
        let mut last = None;
        for (index, &frame) in chosen.frames.iter().enumerate() {
            let own = clips.key(key, index);
            let before = last.replace((frame, own));
            if before == last {
                for &k in outputs {
                    rows.image = OneOf { index: index - 1, count };
                    let bytes = rows.of(k).len();
                    rows.image = OneOf::ALONE;
                    rows.of(k).copy_within((index - 1) * bytes..index * bytes, index * bytes);
                }
                continue;
            }
            rows.image = OneOf { index, count };
            worker.pictures.watch.phase(Phase::Read);
            let value = clips.frame(sample, frame, &mut worker.buffer);
            let filled = value.map_err(Into::into).and_then(|value| {
                let image = StoredImage::Value(value);
                self.fill_images(&mut worker.pictures, (None, None), own, image, outputs, rows)
            });
            rows.image = OneOf::ALONE;
            worker.pictures.decoded += u64::from(filled.is_ok());
            filled.map_err(|cause| {
                self.error(sample, name, *field, clips.of_frame(sample, frame, cause))
            })?;
        }
        worker.clip = chosen;
        for &k in outputs {
            if let Some(clip) = &self.outputs[k].clip {
                order_planes(clip, rows.of(k), &mut worker.planes);
            }
        }
        Ok(())
    }
}

/// Puts the channels of each clip before its frames, if the layout is that.
fn order_planes(clip: &ClipRow, row: &mut [u8], spare: &mut Vec<u8>) {
    let (frames, Some(channels)) = (clip.clips.frames(), clip.channels) else { return };
    let plane = row.len() / (clip.images() * channels).max(1);
    if plane == 0 {
        return;
    }
    for clip in row.chunks_exact_mut(frames * channels * plane) {
        spare.clear();
        spare.extend_from_slice(clip);
        for (index, plane) in spare.chunks_exact(plane).enumerate() {
            let (frame, channel) = (index / channels, index % channels);
            clip[(channel * frames + frame) * plane.len()..][..plane.len()].copy_from_slice(plane);
        }
    }
}
