//! Some images of a sample that has several: its frames, or images of its list, evenly spread.
//!
//! ```text
//! all images ──▶ at most `most` ──▶ for each: read ─▶ draw ─▶ decode the window ─▶ compiled loop
//! ```
//!
//! The images are those of a batch, bit for bit. Only those that are shown are decoded, and one is in memory at a time.

use super::{Inspector, check_shown, op_limits, packed};
use crate::decode::{Decoder, FrameScratch, ImageReadMode, OpenedFrame};
use crate::error::Error;
use crate::jit::{DecodedPixels, Kernel, Scratch, ShownLevels, shown};
use crate::loader::clips::ClipFrames;
use crate::loader::image_lists::{ImageList, image, stored_list};
use crate::loader::inspected_targets::{InspectedTargets, TargetPlans, TargetReader};
use crate::loader::opened_image::OpenedImage;
use crate::loader::stage::{LoaderStage, ReadFrames};
use crate::loader::target_rows::TargetValues;
use crate::loader::work::open_image;
use crate::plan::Draws;
use crate::sample::{Epoch, SampleId};
use crate::source::{Buffer, FrameError, FrameImage, FramePixels, Source, Value};
use fuseloop_ops::Size;
use fuseloop_ops::internals::memory::NoMemory;
use fuseloop_ops::internals::{DefaultFloats, ImageView, PixelFormat, memory};
use std::sync::Arc;

/// An image of a sample that has several, as a batch has it.
pub struct StripImage {
    /// The image's number in the sample.
    pub index: usize,
    /// The presentation time of a frame of a clip in seconds; `None` for other images, and of videos without times.
    pub time: Option<f64>,
    /// The number of a frame in its video; `None` for other images.
    pub frame: Option<u32>,
    /// The compiled plan that the image runs.
    pub kernel: Arc<Kernel>,
    /// The draws of the image, in pixels of the stored image.
    pub draws: Draws,
    /// The pixels of the image, in the layout of its plan.
    pub row: Vec<u8>,
    /// The targets of a frame of a clip, if some were declared.
    pub targets: Option<InspectedTargets>,
    /// The whole frame, if the image is the first frame of the sample and was asked for whole.
    pub(crate) whole: Option<WholeFrame>,
}

/// A frame before its ops.
pub(crate) struct WholeFrame {
    size: Size,
    pixels: Vec<u8>,
    format: PixelFormat,
}

impl WholeFrame {
    /// Returns the size of the frame.
    pub(crate) fn size(&self) -> Size {
        self.size
    }

    /// Returns the frame for display, as [`Inspected::shown`](super::Inspected::shown) does.
    ///
    /// # Errors
    ///
    /// If the system has no memory for the levels.
    pub(crate) fn shown(&self, bands: &[usize]) -> Result<ShownLevels, NoMemory> {
        let view = ImageView::packed_format(&self.pixels, self.size, self.format);
        shown(&view.expect("the pixels have this size"), bands)
    }
}

/// A function that is given images of a sample, in any order.
type TakeImage<'a> = &'a mut dyn FnMut(StripImage) -> Result<(), Error>;

impl Inspector {
    /// Computes at most `most` images of a sample that has several, evenly spread, and hands each to `take`, in any order.
    /// The first image is one of them, unless a list has none.
    ///
    /// # Errors
    ///
    /// If there is no such sample, if one of these images is damaged, and with the errors of `take`.
    pub fn strip(
        &mut self,
        sample: u64,
        most: usize,
        take: &mut dyn FnMut(StripImage) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.strip_with(sample, (most, false), take)
    }

    /// Computes a strip, and the first frame before its ops as well.
    ///
    /// # Errors
    ///
    /// See [`strip`](Self::strip). It also fails if that frame is too large to be shown.
    pub(crate) fn strip_with_whole(
        &mut self,
        sample: u64,
        most: usize,
        take: TakeImage<'_>,
    ) -> Result<(), Error> {
        self.strip_with(sample, (most, true), take)
    }

    fn strip_with(
        &mut self,
        sample: u64,
        wanted: (usize, bool),
        take: TakeImage<'_>,
    ) -> Result<(), Error> {
        let done = DefaultFloats::during(|| self.run_strip(SampleId(sample), wanted, take));
        done.map_err(|cause| self.error(sample, cause))
    }

    /// Runs at most `most` images, and decodes the first frame whole if `with_whole` is true.
    fn run_strip(
        &mut self,
        sample: SampleId,
        (most, with_whole): (usize, bool),
        take: TakeImage<'_>,
    ) -> Result<(), Error> {
        let (stage, kernel) = (Arc::clone(&self.stage), self.kernel_of(sample)?);
        if let Some(clips) = stage.clips().filter(|clips| clips.has_frames(self.field)) {
            let mut chosen = ClipFrames::default();
            let key = stage.key_of_sample(self.epoch, sample);
            clips.choose(key, &mut self.buffer, &mut chosen)?;
            let (times, _) = chosen.pts.as_chunks::<{ size_of::<f64>() }>();
            let times = times.iter().map(|time| f64::from_le_bytes(*time));
            let times: Vec<f64> = times.filter(|_| chosen.has_seconds).collect();
            let read: ReadFrames<'_> =
                &|frames, buffer, take| clips.read_frames(sample, frames, buffer, take);
            let (frames, wanted) = ((&*chosen.frames, &*times, read), (most, with_whole));
            let ran = self.run_frames(frames, (sample, kernel), wanted, take);
            return ran.map_err(|fault| clips.of_frame((sample, self.field), fault));
        }
        if let Some(fields) = stage.frame_fields().filter(|fields| fields.has(self.field)) {
            let (mut chosen, at) = (vec![], (sample, self.field));
            fields.0.choose_frames(at, &mut self.buffer, &mut chosen)?;
            let read: ReadFrames<'_> =
                &|frames, buffer, take| fields.0.read_frames_of(at, frames, buffer, take);
            let (frames, wanted) = ((&*chosen, &[][..], read), (most, with_whole));
            let ran = self.run_frames(frames, (sample, kernel), wanted, take);
            return ran.map_err(FrameError::numbered);
        }
        match stage.list_of(self.field) {
            Some((number, list)) => self.run_list((number, list, sample), kernel, most, take),
            None => Ok(()),
        }
    }

    /// Runs frames of a sample, each of which is read once. The times are those of the frames, or none.
    fn run_frames(
        &mut self,
        (chosen, times, read): (&[u32], &[f64], ReadFrames<'_>),
        (sample, kernel): (SampleId, Arc<Kernel>),
        (most, with_whole): (usize, bool),
        take: TakeImage<'_>,
    ) -> Result<(), FrameError> {
        let places = spread(chosen.len(), most).map(|index| (chosen[index], index));
        let mut places: Vec<(u32, usize)> = places.collect();
        places.sort_unstable();
        let mut frames: Vec<u32> = places.iter().map(|(frame, _)| *frame).collect();
        frames.dedup();
        let (mut runner, buffer) = self.runner(sample, kernel);
        let mut take_frame = |frame: u32, image: FrameImage<'_>| {
            let first = places.partition_point(|(other, _)| *other < frame);
            for &(_, index) in places[first..].iter().take_while(|(other, _)| *other == frame) {
                let mut ran = runner.run((index, Some(frame)), times.get(index).copied(), image)?;
                if index == 0 && with_whole {
                    ran.whole = Some(runner.whole(image)?);
                }
                take(ran)?;
            }
            Ok(())
        };
        read(&frames, buffer, &mut take_frame)
    }

    /// Runs images of the list of a sample.
    fn run_list(
        &mut self,
        (number, list, sample): (usize, ImageList, SampleId),
        kernel: Arc<Kernel>,
        most: usize,
        take: TakeImage<'_>,
    ) -> Result<(), Error> {
        let source = Arc::clone(&self.source);
        let (mut runner, buffer) = self.runner(sample, kernel);
        let value = source.value(sample, stored_list(&*source, number), buffer)?;
        let images = list.of_value(&value)?;
        let mut shown = spread(images.count().min(list.max()), most).peekable();
        for (index, file) in images.files().enumerate() {
            if shown.next_if_eq(&index).is_none() {
                continue;
            }
            let value = image(file).map(Value::Image);
            let ran = value.and_then(|value| {
                let pixels = FramePixels::Stored(value);
                runner.run((index, None), None, FrameImage { pixels, orientation: 1 })
            });
            take(ran.map_err(|error| error.context(format_args!("image {index}")))?)?;
        }
        Ok(())
    }

    fn runner(&mut self, sample: SampleId, kernel: Arc<Kernel>) -> (Runner<'_>, &mut Buffer) {
        let Self { source, stage, decoder, scratch, buffer, targets, .. } = self;
        let (frame, output, mode) = (FrameScratch::default(), self.output, self.mode);
        let (epoch, most_made) = (self.epoch, self.most_made);
        let source = &**source;
        let runner = Runner {
            source,
            stage,
            kernel,
            decoder,
            scratch,
            frame,
            output,
            mode,
            epoch,
            sample,
            most_made,
            targets: targets.as_deref(),
            target_buffer: Buffer::default(),
        };
        (runner, buffer)
    }
}

/// Runs the images of a sample as a worker does.
struct Runner<'a> {
    source: &'a dyn Source,
    stage: &'a LoaderStage,
    kernel: Arc<Kernel>,
    decoder: &'a mut Decoder,
    scratch: &'a mut Scratch,
    frame: FrameScratch,
    output: usize,
    mode: ImageReadMode,
    epoch: Epoch,
    sample: SampleId,
    most_made: u64,
    targets: Option<&'a TargetPlans>,
    /// The buffer that targets are read into, while the frame is in another one.
    target_buffer: Buffer,
}

impl Runner<'_> {
    /// Runs image number `index` of the sample, which is this frame of its video if it is one.
    fn run(
        &mut self,
        (index, number): (usize, Option<u32>),
        time: Option<f64>,
        image: FrameImage<'_>,
    ) -> Result<StripImage, Error> {
        let plans = self.targets;
        let frame_of_clip = values_of_frame(self.stage, self.sample, number);
        let targets = plans.and(frame_of_clip);
        let Self { source, stage, decoder, scratch, frame, output, mode, target_buffer, .. } = self;
        let (plan, (output, mode)) = (self.kernel.plan(), (*output, *mode));
        let mut opened = match image {
            FrameImage { pixels: FramePixels::Stored(value), orientation: 1 } => {
                OpenedImage::Value(open_image(decoder, value, mode, (Some(plan.input()), None))?)
            }
            turned => OpenedImage::Frame(OpenedFrame::new(decoder, turned, mode, frame)?),
        };
        if let OpenedImage::Value(opened) = &opened {
            let values = frame_of_clip.unwrap_or(TargetValues::Sample(*source, self.sample));
            stage.check_orientation(values, &[output], opened)?;
        }
        let size = opened.size();
        let mut draws = Draws::default();
        if let Some(values) = targets {
            draws.objects = stage.objects(output, values, target_buffer)?;
        }
        let key = stage.key_of_image((self.epoch, self.sample), output, index);
        plan.draw_around_objects(key, size, &mut draws);
        plan.check_draws(&draws, &op_limits(stage, self.most_made, size))?;
        let scaled = match &mut opened {
            OpenedImage::Value(opened) => stage.scaled_draws(output, opened, plan, &draws),
            _ => None,
        };
        let run_draws = scaled.as_ref().unwrap_or(&draws);
        let decoded = opened.decode(plan.needed_window(run_draws))?;
        let (view, top, left) = (decoded.view, decoded.top, decoded.left);
        let part = DecodedPixels { view, top, left, whole: run_draws.source };
        let mut row = vec![];
        memory::resize(&mut row, plan.drawn_bytes(run_draws), "a row")?;
        self.kernel.try_run(scratch, part, run_draws, &mut row)?;
        let targets = plans.zip(targets).map(|(plans, values)| {
            let reader = TargetReader { values, buffer: target_buffer, decoder };
            plans.read(reader, plan, &draws).map_err(|(_, error)| error)
        });
        let targets = targets.transpose()?;
        let kernel = Arc::clone(&self.kernel);
        Ok(StripImage { index, time, frame: number, kernel, draws, row, targets, whole: None })
    }

    /// Decodes a frame whole.
    fn whole(&mut self, image: FrameImage<'_>) -> Result<WholeFrame, Error> {
        let Self { decoder, frame, mode, .. } = self;
        let mut opened = OpenedFrame::new(decoder, image, *mode, frame)?;
        let size = opened.size();
        check_shown(size)?;
        let view = opened.decode(size.full())?.view;
        Ok(WholeFrame { size, pixels: packed(&view)?, format: view.format() })
    }
}

/// Returns the values of a frame of a clip, if the samples are clips.
fn values_of_frame(
    stage: &LoaderStage,
    sample: SampleId,
    frame: Option<u32>,
) -> Option<TargetValues<'_>> {
    Some(TargetValues::Frame(stage.clips()?, sample, frame?))
}

/// Returns at most `most` numbers below `count`, evenly spread from 0 on.
fn spread(count: usize, most: usize) -> impl Iterator<Item = usize> {
    let shown = count.min(most);
    (0..shown).map(move |k| k * count / shown)
}
