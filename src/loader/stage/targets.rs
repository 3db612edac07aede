//! Targets of a stage: objects are read before their image draws, and written after it with the image's draws.

use super::{ImageScratch, LoaderStage, SampleRows, StageError, Worker};
use crate::decode::{ImageReadMode, Opened};
use crate::error::Error;
use crate::jit::{DecodedPixels, Kernel};
use crate::loader::cache::CacheLookup;
use crate::loader::image_run;
use crate::loader::opened_image::OpenedImage;
use crate::loader::target_rows::{TargetGroup, TargetMember, TargetScratch, TargetValues};
use crate::loader::targets::{Target, check_orientation};
use crate::loader::work::{OutputPlan, open_image};
use crate::run::Phase;
use crate::sample::SampleId;
use crate::source::{Buffer, Value};
use fuseloop_ops::author::Objects;

impl LoaderStage {
    /// Reads the objects that follow output `k`, an image, for an [`Inspector`](crate::loader::inspect::Inspector). There are none
    /// if nothing was declared to follow it.
    pub(in crate::loader) fn objects(
        &self,
        k: usize,
        values: TargetValues<'_>,
        buffer: &mut Buffer,
    ) -> Result<Objects, Error> {
        let mut targets = TargetScratch::default();
        if let Some(group) = self.targets_of(k) {
            for member in group.read_first() {
                member.read(values.read(member.field, buffer)?, None, &mut targets)?;
            }
        }
        Ok(targets.objects)
    }

    /// Refuses an image of these outputs that is not stored upright, if it has targets and is not known to be the picture
    /// that they are of.
    pub(in crate::loader) fn check_orientation(
        &self,
        values: TargetValues<'_>,
        outputs: &[usize],
        image: &Opened<'_>,
    ) -> Result<(), Error> {
        let Some(turned) = image.turned() else { return Ok(()) };
        if !outputs.iter().any(|&k| self.outputs[k].is_annotated) {
            return Ok(());
        }
        check_orientation(turned, values.annotated_size(), self.setup.exif_orientation)
    }

    /// Reads the objects of a sample, whose image draws afterwards.
    pub(super) fn read_objects(
        &self,
        worker: &mut Worker,
        lookup: &mut CacheLookup<'_>,
        sample: SampleId,
        group: &TargetGroup,
    ) -> Result<(), StageError> {
        let Worker { buffer, cached_bytes, targets, .. } = worker;
        targets.clear();
        for member in group.read_first() {
            let read =
                self.member_value(member, sample, (&mut *buffer, &mut *cached_bytes), lookup);
            let read = read.and_then(|value| member.read(value, None, targets));
            read.map_err(|cause| self.member_error(member, sample, cause))?;
        }
        Ok(())
    }

    /// Writes the targets of a sample, whose image has drawn.
    pub(super) fn fill_targets(
        &self,
        worker: &mut Worker,
        lookup: &mut CacheLookup<'_>,
        sample: SampleId,
        group: &TargetGroup,
        rows: &mut SampleRows<'_, '_>,
    ) -> Result<(), StageError> {
        let Worker { buffer, cached_bytes, pictures, targets, .. } = worker;
        for member in &group.members {
            let Some(k) = member.output else { continue };
            let value = member.is_read_last().then(|| {
                self.member_value(member, sample, (&mut *buffer, &mut *cached_bytes), lookup)
            });
            let filled = value.transpose();
            let filled =
                filled.and_then(|value| self.fill_target(pictures, targets, (value, k), rows));
            filled.map_err(|cause| self.member_error(member, sample, cause))?;
        }
        Ok(())
    }

    /// Writes the row of one target, output `k`: of the image that is written, where a row has several. `value` is the
    /// field's, if it is [read last](TargetMember::is_read_last).
    pub(super) fn fill_target(
        &self,
        pictures: &mut ImageScratch,
        targets: &mut TargetScratch,
        (value, k): (Option<Value<'_>>, usize),
        rows: &mut SampleRows<'_, '_>,
    ) -> Result<(), Error> {
        let output = &self.outputs[k];
        let Some(plan) = &output.target else { return Ok(()) };
        let image = rows.image;
        if let (Target::Mask { .. }, Some((_, kernel)), Some(value)) =
            (&plan.target, output.kernel(k, 0), value)
        {
            let row = (image, rows.of(k));
            self.fill_mask(pictures, targets, (output, kernel, value), row)?;
            self.write_image_size(k, targets.image.output, rows);
            return Ok(());
        }
        let bytes = targets.rows(plan, value, &mut pictures.scratch)?;
        let Some((_, collated)) = output.collated(k) else { return Ok(()) };
        if let (Some(images), Some(index)) = (&output.images, image) {
            let row = rows.of(k);
            let own = images.planes(index, row.len()).of_bytes(row);
            let length = collated.fill(Value::Bytes(bytes), own)?;
            if let Some(tensor) = self.sizes[k] {
                let (lengths, _) = rows.of(tensor).as_chunks_mut();
                lengths[index] = length.to_ne_bytes();
            }
        } else if collated.is_object_masks() {
            let size = targets.image.output;
            let sizes = collated.fill_masks(&targets.rows, size, rows.of(k))?;
            self.write_sizes(k, &sizes, rows);
        } else {
            let length = collated.fill(Value::Bytes(bytes), rows.of(k))?;
            self.write_sizes(k, &[length], rows);
        }
        Ok(())
    }

    /// Writes the mask of an image that has drawn.
    fn fill_mask(
        &self,
        pictures: &mut ImageScratch,
        targets: &mut TargetScratch,
        (output, kernel, value): (&OutputPlan, &Kernel, Value<'_>),
        row: (Option<usize>, &mut [u8]),
    ) -> Result<(), Error> {
        let ImageScratch { watch, decoder, scratch, .. } = pictures;
        watch.phase(Phase::Decode);
        let opened = open_image(decoder, value, ImageReadMode::Index, (None, None))?;
        let mut opened = OpenedImage::Value(opened);
        image_run::draw_mask(&opened, kernel, targets, &self.setup)?;
        let (whole, mask) = (opened.size(), &targets.mask);
        let decoded = opened.decode(kernel.plan().needed_window(mask))?;
        watch.phase(Phase::Kernel);
        let (top, left) = (decoded.top, decoded.left);
        let pixels = DecodedPixels { view: decoded.view, top, left, whole };
        output.run(kernel, scratch, (pixels, mask), row)
    }

    /// Reads the value of a target, and keeps it for the cache.
    fn member_value<'b>(
        &'b self,
        member: &TargetMember,
        sample: SampleId,
        buffers: (&'b mut Buffer, &'b mut Vec<u8>),
        lookup: &'b mut CacheLookup<'_>,
    ) -> Result<Value<'b>, Error> {
        let CacheLookup { found, keeper } = lookup;
        let (value, _) = self.read_value((sample, member.field), buffers, found.as_ref())?;
        if let Some(keeper) = keeper {
            keeper.keep(member.field, value);
        }
        Ok(value)
    }

    fn member_error(&self, member: &TargetMember, sample: SampleId, cause: Error) -> StageError {
        let name = &self.source.fields()[member.field].name;
        self.error(sample, name, member.field, cause)
    }
}
