//! The rows of clips: the frames of a sample are read and run one after another, each as an image of its own, and all by the
//! draws of their clip.
//!
//! ```text
//! draw the frames ──▶ for each: read ─▶ draw (the same) ─▶ decode the window ─▶ compiled loop ─▶ its part of the row
//! ```
//!
//! Frames are read in the order of time, each once, and written to all places that they have in the row.
//!
//! A loop is called once for each frame, with equal parameters: reading and decoding a frame takes hundreds of times as
//! long as a call. Frames of one video that differ in size draw for their sizes, as images of one sample that differ in
//! size do.

use super::{LoaderStage, SampleRows, StageError, Worker};
use crate::loader::clips::ClipSource;
use crate::loader::opened_image::StoredImage;
use crate::run::Phase;
use crate::sample::SampleId;
use crate::source::{FrameError, FrameImage, FramePixels};
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
        // The places of each frame in the row.
        let mut places: Vec<(u32, usize)> = chosen.frames.iter().copied().zip(0..).collect();
        places.sort_unstable();
        let mut frames: Vec<u32> = places.iter().map(|(frame, _)| *frame).collect();
        frames.dedup();
        let Worker { buffer, pictures, .. } = worker;
        let phase = if clips.decodes() { Phase::Decode } else { Phase::Read };
        pictures.watch.phase(phase);
        let mut take = |frame: u32, image: FrameImage<'_>| {
            let first = places.partition_point(|(other, _)| *other < frame);
            let own = places[first..].iter().take_while(|(other, _)| *other == frame);
            let mut last = None;
            for &(_, index) in own {
                let draws = clips.key(key, index);
                match last.replace((index, draws)) {
                    Some((before, same)) if same == draws => {
                        for &k in outputs {
                            if let Some(images) = &self.outputs[k].images {
                                let row = rows.of(k);
                                let [from, to] =
                                    [before, index].map(|i| images.planes(i, row.len()));
                                from.copy_to(to, row);
                            }
                        }
                    }
                    _ => {
                        rows.image = Some(index);
                        let image = match image {
                            FrameImage { pixels: FramePixels::Stored(value), orientation: 1 } => {
                                StoredImage::Value(value)
                            }
                            turned => StoredImage::Frame(turned),
                        };
                        let filled =
                            self.fill_images(pictures, (None, None), draws, image, outputs, rows);
                        rows.image = None;
                        pictures.decoded += u64::from(filled.is_ok());
                        filled?;
                    }
                }
            }
            pictures.watch.phase(phase);
            Ok(())
        };
        clips.read_frames(sample, &frames, buffer, &mut take).map_err(
            |FrameError { frame, error }| {
                let error = match frame {
                    Some(frame) => clips.of_frame(sample, frame, error),
                    None => error,
                };
                self.error(sample, name, *field, error)
            },
        )?;
        worker.clip = chosen;
        Ok(())
    }
}
