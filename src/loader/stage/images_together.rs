//! Images of a chunk that lie in memory as they are read: all of them draw, and then their loops run by one call.
//!
//! ```text
//! sample 7: find, draw ──▶ parameter block ─┐
//! sample 9: find, draw ──▶ parameter block ─┴──▶ one call of the loop writes both rows
//! ```
//!
//! So nothing is looked up, measured or allocated for each sample that can be for each chunk.

use super::{ImageScratch, LoaderStage, SAMPLES_AHEAD, StageError};
use crate::decode::Decoder;
use crate::error::Error;
use crate::jit::{ChunkRun, DecodedPixels, Kernel};
use crate::loader::work::{FieldPlan, OutputPlan, stored_pixels};
use crate::plan::Draws;
use crate::run::Phase;
use crate::sample::{Epoch, SampleRef};
use crate::source::fetch_ahead::fetch_ahead;
use fuseloop_ops::internals::{ImageView, SampleKey};

/// Returns whether the rows of an output are images alone: of one plan and one size, computed on the host.
pub(super) fn runs_together(output: &OutputPlan) -> bool {
    let is_alone = output.by_component.is_empty() && output.targets.is_none();
    let is_image = matches!(output.work, FieldPlan::Image(_));
    let is_plain = output.collation.is_none() && output.images.is_none();
    is_alone && is_image && is_plain && output.device_output.is_none()
}

impl LoaderStage {
    /// Writes all outputs of a field of images for the samples of a chunk, and returns true; false if an image does not
    /// lie in memory as it is read. `place` is the field's place among those that are read, `rows` are the rows of all
    /// outputs of the batch.
    pub(super) fn run_images_together(
        &self,
        scratch: &mut ImageScratch,
        (epoch, visits): (Epoch, &[SampleRef]),
        place: usize,
        rows: &mut [&mut [u8]],
    ) -> Result<bool, StageError> {
        let (field, outputs) = &self.fields[place];
        let ImageScratch { watch, decoder, scratch, draws, decoded, .. } = scratch;
        let (Some(first), Some(&k)) = (visits.first(), outputs.first()) else { return Ok(false) };
        watch.start(first.sample, Phase::Read);
        let Some(images) = self.images_in_memory(decoder, visits, *field, &self.outputs[k]) else {
            return Ok(false);
        };
        watch.phase(Phase::Kernel);
        draws.resize_with(outputs.len(), Draws::default);
        for &k in outputs {
            let output = &self.outputs[k];
            let FieldPlan::Image(kernel) = &output.work else { continue };
            let row_bytes = rows[k].len() / visits.len();
            let mut run = kernel.run_chunk(scratch);
            let rows = rows[k].chunks_exact_mut(row_bytes.max(1));
            images.iter().take(SAMPLES_AHEAD).for_each(|image| fetch_ahead(image.data()));
            for (index, (visit, row)) in visits.iter().zip(rows).enumerate() {
                fetch_ahead(images.get(index + SAMPLES_AHEAD).map_or(&[], ImageView::data));
                // Reads no clock: the phase is the same.
                watch.start(visit.sample, Phase::Kernel);
                let key = output.draws.key(self.visit_key(epoch, *visit));
                let added =
                    self.draw_and_add(kernel, &mut run, key, images[index], &mut draws[0], row);
                added.map_err(|cause| {
                    let name = &self.source.fields()[*field].name;
                    self.error(visit.sample, name, *field, cause)
                })?;
            }
            run.end();
        }
        *decoded += visits.len() as u64;
        Ok(true)
    }

    /// Returns the images of samples for an output, if all of them lie in memory as they are read.
    fn images_in_memory(
        &self,
        decoder: &Decoder,
        visits: &[SampleRef],
        field: usize,
        output: &OutputPlan,
    ) -> Option<Vec<ImageView<'_>>> {
        let FieldPlan::Image(kernel) = &output.work else { return None };
        let (mode, input) = (output.read_mode, kernel.plan().input());
        let stored = self.source.stored()?;
        let image = |visit: &SampleRef| {
            let value = stored.value_in_memory(visit.sample, field)?;
            stored_pixels(decoder, value, mode, input)
        };
        visits.iter().map(image).collect()
    }

    fn draw_and_add<'r>(
        &self,
        kernel: &Kernel,
        run: &mut ChunkRun<'r>,
        key: SampleKey,
        image: ImageView<'r>,
        draws: &mut Draws,
        row: &'r mut [u8],
    ) -> Result<(), Error> {
        let plan = kernel.plan();
        plan.draw(key, image.size(), draws);
        plan.check_draws(draws, self.limits())?;
        let row = &mut row[..plan.drawn_bytes(draws)];
        run.add(DecodedPixels::whole(image), draws, row)
    }
}
