//! The rows of frames: the frames of a sample are read and run one after another, each as an image of its own.
//!
//! ```text
//! for each frame: read ─▶ draw ─▶ decode the window ─▶ compiled loop ─▶ its part of the row
//! its targets:    read the objects before it draws, and write boxes and masks by its draws
//! ```
//!
//! Frames are read in the order of time, each once, and written to all places that they have in the row.
//!
//! A loop is called once for each frame, with equal parameters: reading and decoding a frame takes hundreds of times as
//! long as a call. Frames of one sample that differ in size draw for their sizes, as images of one sample that differ in
//! size do.

use super::{ImageScratch, LoaderStage, SampleRows, StageError, Worker};
use crate::error::Error;
use crate::loader::clips::ClipSource;
use crate::loader::opened_image::StoredImage;
use crate::loader::target_rows::{TargetGroup, TargetScratch};
use crate::run::Phase;
use crate::sample::SampleId;
use crate::source::{Buffer, FrameError, FrameFields, FrameImage, FramePixels, TakeFrame};
use fuseloop_ops::internals::SampleKey;
use std::cell::Cell;
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
    /// The targets that follow each frame.
    pub(super) targets: Option<FrameTargets<'a>>,
}

/// The targets of the frames of a sample.
pub(super) struct FrameTargets<'a> {
    pub(super) clips: &'a ClipSource,
    pub(super) sample: SampleId,
    pub(super) group: &'a TargetGroup,
    /// The field that is read, which an error is about: one of the targets, or that of the frames.
    pub(super) field: &'a Cell<usize>,
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
            targets: None,
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
        let Worker { buffer, target_buffer, pictures, targets, .. } = worker;
        let members = reader.targets.iter().flat_map(|targets| &targets.group.members);
        let followers: Vec<usize> = members.filter_map(|member| member.output).collect();
        pictures.watch.phase(reader.phase);
        let mut take = |frame: u32, image: FrameImage<'_>| {
            let first = places.partition_point(|(other, _)| *other < frame);
            let own = places[first..].iter().take_while(|(other, _)| *other == frame);
            let mut last = None;
            for &(_, index) in own {
                let draws = (reader.key)(index);
                match last.replace((index, draws)) {
                    Some((before, same)) if same == draws => {
                        for &k in outputs.iter().chain(&followers) {
                            if let Some(images) = &self.outputs[k].images {
                                let row = rows.of(k);
                                let [from, to] =
                                    [before, index].map(|index| images.planes(index, row.len()));
                                from.copy_to(to, row);
                            }
                            self.copy_length(k, [before, index], rows);
                        }
                    }
                    _ => {
                        (rows.image, rows.frame) = (Some(index), Some(frame));
                        let image = match image {
                            FrameImage { pixels: FramePixels::Stored(value), orientation: 1 } => {
                                StoredImage::Value(value)
                            }
                            turned => StoredImage::Frame(turned),
                        };
                        if let Some(own) = &reader.targets {
                            own.read_first(frame, targets, target_buffer)?;
                        }
                        let followed = reader.targets.as_ref();
                        let followed = followed.map(|own| (own.group.image, &mut *targets));
                        let filled = self.fill_images(
                            pictures,
                            (None, followed),
                            draws,
                            image,
                            outputs,
                            rows,
                        );
                        pictures.decoded += u64::from(filled.is_ok());
                        filled?;
                        if let Some(own) = &reader.targets {
                            self.fill_frame_targets(
                                pictures,
                                (own, frame),
                                targets,
                                target_buffer,
                                rows,
                            )?;
                        }
                        (rows.image, rows.frame) = (None, None);
                    }
                }
            }
            pictures.watch.phase(reader.phase);
            Ok(())
        };
        (reader.read)(&frames, buffer, &mut take)?;
        followers.iter().for_each(|&k| self.join_frames(k, rows));
        Ok(())
    }

    /// Writes the targets of a frame, which has drawn.
    fn fill_frame_targets(
        &self,
        pictures: &mut ImageScratch,
        (own, frame): (&FrameTargets<'_>, u32),
        targets: &mut TargetScratch,
        buffer: &mut Buffer,
        rows: &mut SampleRows<'_, '_>,
    ) -> Result<(), Error> {
        for member in &own.group.members {
            let Some(k) = member.output else { continue };
            own.field.set(member.field);
            let value = if member.is_read_last() {
                Some(own.clips.frame_value((own.sample, frame), member.field, buffer)?)
            } else {
                None
            };
            self.fill_target(pictures, targets, (value, k), rows)?;
        }
        own.field.set(own.group.field);
        Ok(())
    }

    /// Copies the number of rows that a frame of a sample has in output `k`, if frames differ in it.
    fn copy_length(&self, k: usize, [from, to]: [usize; 2], rows: &mut SampleRows<'_, '_>) {
        let Some(tensor) = self.sizes[k] else { return };
        let (lengths, _) = rows.of(tensor).as_chunks_mut::<{ size_of::<i64>() }>();
        lengths[to] = lengths[from];
    }

    /// Moves the rows of the frames of a sample together in output `k`, if it is ragged.
    fn join_frames(&self, k: usize, rows: &mut SampleRows<'_, '_>) {
        let output = &self.outputs[k];
        let (Some((_, collated)), Some(tensor)) = (output.collated(k), self.sizes[k]) else {
            return;
        };
        if !collated.is_ragged() {
            return;
        }
        let (lengths, _) = rows.of(tensor).as_chunks::<{ size_of::<i64>() }>();
        // `fill` returned them.
        let length = |bytes: &[u8; 8]| i64::from_ne_bytes(*bytes) as usize * collated.item;
        let lengths: Vec<usize> = lengths.iter().map(length).collect();
        let row = rows.of(k);
        let (each, mut end) = (row.len() / lengths.len().max(1), 0);
        for (frame, length) in lengths.into_iter().enumerate() {
            row.copy_within(frame * each..frame * each + length, end);
            end += length;
        }
    }
}

impl FrameTargets<'_> {
    /// Reads the objects of a frame, before it draws.
    fn read_first(
        &self,
        frame: u32,
        targets: &mut TargetScratch,
        buffer: &mut Buffer,
    ) -> Result<(), Error> {
        targets.clear();
        for member in self.group.read_first() {
            self.field.set(member.field);
            let value = self.clips.frame_value((self.sample, frame), member.field, buffer)?;
            member.read(value, None, targets)?;
        }
        self.field.set(self.group.field);
        Ok(())
    }
}
