//! The rows of frames: the frames of a sample are read and run one after another, each as an image of its own.
//!
//! ```text
//! for each frame: read ─▶ draw ─▶ decode the window ─▶ compiled loop ─▶ its part of the row
//! ```
//!
//! Frames are read in the order of time, each once, and written to all places that they have in the row.
//!
//! A loop is called once for each frame, with equal parameters: reading and decoding a frame takes hundreds of times as
//! long as a call. Frames of one sample that differ in size draw for their sizes, as images of one sample that differ in
//! size do.

use super::{LoaderStage, SampleRows, StageError, Worker};
use crate::loader::opened_image::StoredImage;
use crate::run::Phase;
use crate::sample::SampleId;
use crate::source::{Buffer, FrameError, FrameFields, FrameImage, FramePixels, TakeFrame};
use fuseloop_ops::internals::SampleKey;
use std::mem;

/// A function that reads frames, which are ascending, and hands each to a function.
pub(in crate::loader) type ReadFrames<'a> =
    &'a dyn Fn(&[u32], &mut Buffer, TakeFrame<'_>) -> Result<(), FrameError>;

/// The frames of a sample, and how they are read.
pub(super) struct FrameReader<'a> {
    /// The numbers of the frames, in the order of the row.
    pub(super) frames: &'a [u32],
    /// Returns the key of the draws of a frame by its place in the row.
    pub(super) key: &'a dyn Fn(usize) -> SampleKey,
    pub(super) read: ReadFrames<'a>,
    /// The phase that reading is reported as.
    pub(super) phase: Phase,
}

impl LoaderStage {
    /// Writes all outputs of the frames that the dataset chooses for a sample.
    pub(super) fn fill_frames_of(
        &self,
        worker: &mut Worker,
        source: &dyn FrameFields,
        key: SampleKey,
        place: usize,
        rows: &mut SampleRows<'_, '_>,
    ) -> Result<(), StageError> {
        let field = self.fields[place].0;
        let sample = SampleId(key.sample());
        let of_field = |error| self.error(sample, &self.source.fields()[field].name, field, error);
        worker.pictures.watch.phase(Phase::Read);
        let mut frames = mem::take(&mut worker.clip.frames);
        let chosen = source.choose_frames((sample, field), &mut worker.buffer, &mut frames);
        chosen.map_err(|error| of_field(error.into()))?;
        let reader = FrameReader {
            frames: &frames,
            key: &|_| key,
            read: &|frames, buffer, take| {
                source.read_frames_of((sample, field), frames, buffer, take)
            },
            phase: Phase::Decode,
        };
        let filled = self.fill_frames(worker, &reader, place, rows);
        worker.clip.frames = frames;
        filled.map_err(|fault| of_field(fault.numbered()))
    }

    /// Reads the frames of a sample, and writes all outputs of each.
    pub(super) fn fill_frames(
        &self,
        worker: &mut Worker,
        reader: &FrameReader<'_>,
        place: usize,
        rows: &mut SampleRows<'_, '_>,
    ) -> Result<(), FrameError> {
        let (_, outputs) = &self.fields[place];
        // The places of each frame in the row.
        let mut places: Vec<(u32, usize)> = reader.frames.iter().copied().zip(0..).collect();
        places.sort_unstable();
        let mut frames: Vec<u32> = places.iter().map(|(frame, _)| *frame).collect();
        frames.dedup();
        let Worker { buffer, pictures, .. } = worker;
        pictures.watch.phase(reader.phase);
        let mut take = |frame: u32, image: FrameImage<'_>| {
            let first = places.partition_point(|(other, _)| *other < frame);
            let own = places[first..].iter().take_while(|(other, _)| *other == frame);
            let mut last = None;
            for &(_, index) in own {
                let draws = (reader.key)(index);
                match last.replace((index, draws)) {
                    Some((before, same)) if same == draws => {
                        for &k in outputs {
                            if let Some(images) = &self.outputs[k].images {
                                let row = rows.of(k);
                                let [from, to] =
                                    [before, index].map(|index| images.planes(index, row.len()));
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
            pictures.watch.phase(reader.phase);
            Ok(())
        };
        (reader.read)(&frames, buffer, &mut take)
    }
}
