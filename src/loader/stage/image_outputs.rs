//! The outputs of one image: all of them draw, one decode serves them all, and their loops run.
//!
//! ```text
//! size ──▶ draws of each output ──▶ scale, window ──▶ pixels ──▶ rows of all outputs
//! ```
//!
//! The window that is decoded is the smallest rectangle around those of all outputs.

use super::{FollowedImage, ImageScratch, LoaderStage, SampleRows};
use crate::decode::{AudioOptions, ImageReadMode, Opened, OpenedFrame, ScaledImage};
use crate::device::DeviceOutput;
use crate::error::Error;
use crate::jit::DecodedPixels;
use crate::loader::cache::PendingEntry;
use crate::loader::image_run;
use crate::loader::opened_image::{OpenedImage, StoredImage};
use crate::loader::target_rows::TargetValues;
use crate::loader::work::open_image;
use crate::plan::{Draws, ImagePlan};
use crate::run::Phase;
use crate::sample::SampleId;
use crate::source::Value;
use fuseloop_ops::author::Window;
use fuseloop_ops::internals::SampleKey;
use std::mem;

impl LoaderStage {
    /// Writes the outputs of an image. All outputs draw first, so that one decode serves them all.
    pub(super) fn fill_images(
        &self,
        image_scratch: &mut ImageScratch,
        (keeper, followed): (Option<(usize, &mut PendingEntry<'_>)>, FollowedImage<'_>),
        key: SampleKey,
        image: StoredImage<'_>,
        outputs: &[usize],
        rows: &mut SampleRows<'_, '_>,
    ) -> Result<(), Error> {
        let ImageScratch { watch, decoder, frame, scratch, draws, scaled, .. } = image_scratch;
        let is_coded = match &image {
            StoredImage::Value(Value::Image(image)) => image.mode.is_coded(),
            StoredImage::Parts(_) | StoredImage::Frame(_) => true,
            StoredImage::Value(_) | StoredImage::Rows(_) => false,
        };
        // Collated bytes are not images.
        let is_stored_image =
            !matches!(image, StoredImage::Value(value) if !matches!(value, Value::Image(_)));
        let collated_images = || {
            outputs.iter().filter(|_| is_stored_image).filter_map(|&k| self.outputs[k].collated(k))
        };
        let audio = outputs.first().and_then(|&k| self.audio(k));
        if is_coded || audio.is_some() {
            watch.phase(Phase::Decode);
        }
        let component = rows.component;
        let kernels = || outputs.iter().filter_map(|&k| self.outputs[k].kernel(k, component));
        let mode = outputs.first().map_or(ImageReadMode::Rgb, |&k| self.outputs[k].read_mode);
        let input = kernels().next().map(|(_, kernel)| kernel.plan().input());
        let mut opened = match image {
            StoredImage::Value(value) => {
                OpenedImage::Value(open_image(decoder, value, mode, (input, audio))?)
            }
            StoredImage::Parts(parts) => OpenedImage::Value(decoder.open_partly(parts, mode)?),
            StoredImage::Rows(rows) => OpenedImage::Rows(rows),
            StoredImage::Frame(image) => {
                OpenedImage::Frame(OpenedFrame::new(decoder, image, mode, frame)?)
            }
        };
        if let OpenedImage::Value(opened) = &opened {
            self.shared.forms.add(opened.form());
            let sample = SampleId(key.sample());
            let values = match (self.clips(), rows.frame) {
                (Some(clips), Some(frame)) => TargetValues::Frame(clips, sample, frame),
                _ => TargetValues::Sample(&*self.source, sample),
            };
            self.check_orientation(values, outputs, opened)?;
        }
        let size = opened.size();
        draws.resize_with(outputs.len(), Draws::default);
        let mut followed = followed;
        for ((k, kernel), draws) in kernels().zip(draws.iter_mut()) {
            draws.objects.clear();
            if let Some((_, targets)) = followed.as_mut().filter(|(image, _)| *image == k) {
                mem::swap(&mut draws.objects, &mut targets.objects);
            }
            let key = self.outputs[k].draws.key(key);
            image_run::draw(kernel.plan(), (key, size), self.limits(), draws)?;
        }
        let alone = kernels().next().filter(|_| outputs.len() == 1).map(|(_, kernel)| kernel);
        let smaller = alone.and_then(|kernel| {
            let (draws, scaled) = (&draws[0], &mut scaled[0]);
            image_run::scale_down(&mut opened, kernel.plan(), draws, &self.setup, scaled)
        });
        let (run_draws, run_size) = match smaller {
            Some(size) => (&scaled[..], size),
            None => (&draws[..], size),
        };
        let wanted =
            kernels().zip(run_draws).fold(None, |wanted: Option<Window>, (kernel, draws)| {
                let own = kernel.1.plan().needed_window(draws);
                Some(wanted.map_or(own, |wanted| around(wanted, own)))
            });
        let wanted = collated_images().try_fold(wanted, |wanted, (_, collated)| {
            let own = collated.window(size)?;
            Ok::<_, Error>(Some(wanted.map_or(own, |wanted| around(wanted, own))))
        })?;
        let Some(wanted) = wanted else { return Ok(()) };
        if let OpenedImage::Value(opened) = &mut opened
            && opened.is_partly_read()
        {
            watch.phase(Phase::Read);
            opened.read(wanted)?;
            watch.phase(Phase::Decode);
        }
        let decoded = match (&mut opened, keeper) {
            (OpenedImage::Value(opened), Some((field, keeper))) => {
                keeper.decode(field, opened, is_coded, wanted)?
            }
            (opened, _) => opened.decode(wanted)?,
        };
        watch.phase(Phase::Kernel);
        let (top, left) = (decoded.top, decoded.left);
        for (((k, kernel), draws), run_draws) in kernels().zip(draws.iter()).zip(run_draws) {
            let source = DecodedPixels { view: decoded.view, top, left, whole: run_size };
            let output = &self.outputs[k];
            let (image, row) = (rows.image, rows.of(k));
            output.run(kernel, scratch, (source, run_draws), (image, row))?;
            if let Some(DeviceOutput::Image(image)) = &output.device_output {
                image.record(draws, row);
            }
            self.write_image_size(k, draws.output, rows);
        }
        let image = followed.and_then(|(image, targets)| {
            let index = kernels().position(|(k, _)| k == image)?;
            Some((&mut draws[index], targets))
        });
        if let Some((draws, targets)) = image {
            mem::swap(draws, &mut targets.image);
        }
        for (k, collated) in collated_images() {
            let picture = decoded.window(collated.window(size)?).expect("decoded, as wanted");
            collated.copy_image(&picture, rows.of(k));
            self.write_image_size(k, picture.size(), rows);
        }
        Ok(())
    }

    /// Returns what the audio files of output `k` are decoded to; `None` if they are none.
    pub(in crate::loader) fn audio(&self, k: usize) -> Option<AudioOptions> {
        self.outputs[k].array.audio
    }

    /// Returns true if images are decoded at their own scale, whatever is drawn.
    pub(in crate::loader) fn decodes_whole(&self) -> bool {
        !self.setup.scaled_decode
    }

    /// Returns the smaller image that is decoded for the draws of a field's only output; `None` if it is decoded whole.
    pub(in crate::loader) fn scaled_image(
        &self,
        opened: &Opened<'_>,
        plan: &ImagePlan,
        draws: &Draws,
    ) -> Option<ScaledImage> {
        image_run::scaled_image(opened, plan, draws, &self.setup)
    }

    /// Has an image decoded at a smaller scale, as for a run, and returns the draws of output `k` for that; `None` if it
    /// is decoded whole.
    pub(in crate::loader) fn scaled_draws(
        &self,
        k: usize,
        opened: &mut Opened<'_>,
        plan: &ImagePlan,
        draws: &Draws,
    ) -> Option<Draws> {
        let is_alone = self.fields.iter().any(|(_, outputs)| outputs[..] == [k]);
        let image = self.scaled_image(opened, plan, draws).filter(|_| is_alone)?;
        opened.set_scale(&image);
        let mut scaled = Draws::default();
        plan.scale_draws(draws, &image, &mut scaled);
        Some(scaled)
    }
}

/// Returns the smallest window that contains both.
fn around(a: Window, b: Window) -> Window {
    let (top, left) = (a.top.min(b.top), a.left.min(b.left));
    let bottom = (a.top + a.height).max(b.top + b.height);
    let right = (a.left + a.width).max(b.left + b.width);
    Window { top, left, height: bottom - top, width: right - left }
}
