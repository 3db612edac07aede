//! The stage of a loader: reads a sample once, draws for each output, decodes once, and runs the
//! compiled loops.

mod image_outputs;
mod images_together;
mod opened_image;
mod partly_read;

use super::cache::{CacheLookup, CachedSample, SampleCache};
use super::collate::Collated;
use super::columns::Column;
use super::compile::{CompiledEpoch, compile, fingerprint, plan_prints};
use super::compile_context::CompileContext;
use super::cursor::PlanPrint;
use super::damaged::{DamageLog, MAX_SUBSTITUTES, OnDamaged};
use super::device::{DeviceChoice, Upload};
use super::error::{LoadCause, LoadSampleError, SampleCause};
use super::outputs::OutputSpec;
use super::target_rows::{TargetGroup, TargetMember, TargetScratch};
use super::targets::{Target, TargetCause, check_orientation};
use super::work::{FieldPlan, OutputPlan, open_image, tensors};
use crate::batch::{RowsMut, TensorSpec};
use crate::decode::{Decoder, ImageReadMode, Opened};
use crate::device::PageLocker;
use crate::error::Cause as _;
use crate::jit::{DecodedPixels, Kernel, KernelCache, Scratch};
use crate::order::Subset;
use crate::plan::element_steps::{RowError, StepScratch};
use crate::plan::{Draws, OpKind};
use crate::run::{FillError, OnFailure, Phase, Progress, Stage};
use crate::sample::{Epoch, Limits, SampleId, SampleRef};
use crate::source::fetch_ahead::fetch_ahead;
use crate::source::stream::StreamEnd;
use crate::source::{Buffer, FieldKind, Source, Value};
use fuseloop_engine::batch::pack;
use fuseloop_ops::Size;
use fuseloop_ops::author::Objects;
use fuseloop_ops::internals::{BatchKey, SampleKey, stream};
use images_together::runs_together;
use opened_image::StoredImage;
use partly_read::{PartialField, PartialReads};
use std::error::Error;
use std::fmt::Write as _;
use std::mem;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The output whose image has targets, and what the worker keeps of them.
type FollowedImage<'a> = Option<(usize, &'a mut TargetScratch)>;

/// A sample that could not be loaded.
type StageError = FillError<LoadSampleError>;

/// Fills the rows of batches from a source.
#[derive(Clone)]
pub(super) struct LoaderStage {
    source: Arc<dyn Source>,
    outputs: Arc<[OutputPlan]>,
    /// The fields that are read, each with the outputs computed from it.
    fields: Vec<(usize, Vec<usize>)>,
    /// Those of them, by their place in `fields`, whose values the source is told of before they are read.
    fields_ahead: Vec<usize>,
    /// Those of them, by their place in `fields`, whose images run together if they lie in memory.
    images_together: Vec<usize>,
    /// For each of them, of which images only what a sample needs is read.
    partial_fields: Vec<PartialField>,
    /// The images whose targets follow them.
    targets: Arc<[TargetGroup]>,
    tensors: Vec<TensorSpec>,
    /// For each output, the index of the tensor with the sizes of its samples, if they differ.
    sizes: Vec<Option<usize>>,
    /// The upload to a device, if some outputs are on one.
    upload: Option<Upload>,
    epoch: Epoch,
    chunk: NonZeroUsize,
    setup: CompileContext,
    /// True if the plan of an output depends on the component of the dataset that a sample belongs to.
    has_components: bool,
    fingerprint: u64,
    prints: Arc<[PlanPrint]>,
    shared: StageShared,
}

/// The state shared by the stages of all epochs.
#[derive(Clone)]
pub(super) struct StageShared {
    /// The number of images decoded.
    pub(super) decoded: Arc<AtomicU64>,
    /// The damaged samples found.
    pub(super) damage_log: Arc<DamageLog>,
    /// The cache of decoded samples, if there is one.
    pub(super) cache: Option<Arc<SampleCache>>,
    /// Where outputs are computed.
    pub(super) device_choice: Arc<DeviceChoice>,
    /// Locks the memory of batches on the host, if that is asked for.
    pub(super) page_locker: Option<Arc<PageLocker>>,
    /// The samples that substitutes are drawn from.
    subset: Subset,
}

impl StageShared {
    pub(super) fn new(
        subset: Subset,
        cache: Option<Arc<SampleCache>>,
        site: DeviceChoice,
        page_locker: Option<PageLocker>,
    ) -> Self {
        Self {
            decoded: Arc::default(),
            damage_log: Arc::default(),
            cache,
            device_choice: Arc::new(site),
            page_locker: page_locker.map(Arc::new),
            subset,
        }
    }
}

/// The state of a worker.
pub(super) struct Worker {
    /// The buffer that values are read into.
    buffer: Buffer,
    /// The buffer that cached values are read into.
    cached_bytes: Vec<u8>,
    pictures: ImageScratch,
    partial_reads: PartialReads,
    /// For each output, the gathered values of the chunk.
    columns: Vec<Column>,
    targets: TargetScratch,
    elements: StepScratch,
    /// For each field that is read, whether the outputs of all samples of the chunk are written.
    is_written: Vec<bool>,
    /// Scratch memory for one row of a batch that is mixed.
    spare: Vec<u8>,
}

/// The scratch state for decoding and running images.
struct ImageScratch {
    /// Reports the worker's phase.
    watch: Progress,
    decoder: Decoder,
    scratch: Scratch,
    /// The draws of each output of a field.
    draws: Vec<Draws>,
    /// Those of an output whose image is decoded at a smaller scale.
    scaled: [Draws; 1],
    /// The number of images decoded in this call.
    decoded: u64,
}

/// The number of bytes that a worker writes before it claims another chunk, if samples are small: enough
/// that claiming costs nothing, few enough that workers finish a batch together.
const CHUNK_BYTES: usize = 192 << 10;

/// How many samples before a value is read the processor is asked for its bytes.
const SAMPLES_AHEAD: usize = 4;

/// The maximum number of samples of a chunk.
const CHUNK_SAMPLES: usize = 32;

impl LoaderStage {
    /// Plans and compiles the stage of an epoch.
    pub(super) fn compile(
        source: &Arc<dyn Source>,
        outputs: &[OutputSpec],
        epoch: Epoch,
        setup: &CompileContext,
        cache: &mut KernelCache,
        shared: &StageShared,
    ) -> Result<Self, LoadCause> {
        let choice = &shared.device_choice;
        let compiled = compile(&**source, outputs, epoch, setup, cache, choice)?;
        Ok(Self::new(Arc::clone(source), compiled, epoch, setup, shared.clone()))
    }

    pub(super) fn new(
        source: Arc<dyn Source>,
        (outputs, upload): CompiledEpoch,
        epoch: Epoch,
        setup: &CompileContext,
        shared: StageShared,
    ) -> Self {
        let (tensors, sizes) = tensors(&outputs);
        let row: usize =
            outputs.iter().fold(0, |row, output| row.saturating_add(output.work.row_bytes()));
        let has_jpeg = outputs.iter().any(|output| {
            let is_image = source.fields()[output.field].kind.is_image();
            is_image && source.image_stats(output.field).is_none_or(|stats| stats.jpegs() > 0)
        });
        let fitting = (CHUNK_BYTES / row.max(1)).clamp(1, CHUNK_SAMPLES);
        // After an error, the engine passes the samples of a chunk again, one by one: a function that failed once
        // must not be called again.
        let chunk = if has_jpeg || outputs.iter().any(calls_host_ops) { 1 } else { fitting };
        let chunk = NonZeroUsize::new(chunk).unwrap_or(NonZeroUsize::MIN);
        let fields = by_field(&outputs);
        let is_number =
            |field: usize| matches!(source.fields()[field].kind, FieldKind::Int | FieldKind::Float);
        let mut fields_ahead: Vec<usize> = (0..fields.len()).collect();
        fields_ahead.retain(|&place| chunk.get() > 1 && !is_number(fields[place].0));
        let targets: Arc<[_]> = TargetGroup::of_outputs(&outputs).into();
        let mut images_together: Vec<usize> = (0..fields.len()).collect();
        images_together.retain(|&place| {
            let (field, of_field) = &fields[place];
            let is_alone = shared.cache.is_none() && targets.iter().all(|own| own.field != *field);
            is_alone && of_field.iter().all(|&k| runs_together(&outputs[k]))
        });
        let partial_field = |(field, of_field): &(usize, Vec<usize>)| {
            let is_rgb = of_field.iter().all(|&k| outputs[k].read_mode == ImageReadMode::Rgb);
            PartialField::of(&*source, *field, is_rgb, shared.cache.is_some())
        };
        let partial_fields = fields.iter().map(partial_field).collect();
        let has_components = outputs.iter().any(|output| !output.by_component.is_empty());
        let (outputs, setup): (Arc<[_]>, _) = (outputs.into(), setup.clone());
        let fingerprint = fingerprint(&outputs, &setup);
        let prints = plan_prints(&outputs).into();
        Self {
            source,
            outputs,
            fields,
            fields_ahead,
            images_together,
            partial_fields,
            targets,
            tensors,
            sizes,
            upload,
            epoch,
            chunk,
            setup,
            has_components,
            fingerprint,
            prints,
            shared,
        }
    }

    /// Returns the same stage with another source: the one that a run reads from.
    pub(super) fn over(&self, source: Arc<dyn Source>) -> Self {
        Self { source, ..self.clone() }
    }

    /// Returns the fields that are read.
    pub(super) fn fields(&self) -> impl Iterator<Item = usize> {
        let members = self.targets.iter().flat_map(|group| &group.members);
        self.fields.iter().map(|(field, _)| *field).chain(members.map(|member| member.field))
    }

    /// Returns the plans of the outputs.
    pub(super) fn plans(&self) -> &[OutputPlan] {
        &self.outputs
    }

    /// Returns the fingerprint of the plan: the outputs, their ops and the rules they run by.
    pub(super) fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// Returns the short fingerprints of the outputs and their ops.
    pub(super) fn prints(&self) -> &[PlanPrint] {
        &self.prints
    }

    /// Returns another sample for the row of `visit`; `attempt` numbers the substitutes tried.
    fn substitute(&self, epoch: Epoch, visit: SampleRef, attempt: u32) -> Option<SampleRef> {
        let mut rng = self.visit_key(epoch, visit).op(stream("substitute", attempt as usize));
        let word = u64::from(rng.word()) << 32 | u64::from(rng.word());
        let index = word.checked_rem(self.shared.subset.len())?;
        Some(SampleRef { sample: self.shared.subset.at(index), ..visit })
    }

    /// Returns the epoch that the pipelines were built for.
    pub(super) fn epoch(&self) -> Epoch {
        self.epoch
    }

    pub(super) fn tensors(&self) -> &[TensorSpec] {
        &self.tensors
    }

    /// Returns the number of loop bodies that could not be compiled.
    pub(super) fn failed_loops(&self) -> usize {
        let plans = self.outputs.iter().flat_map(OutputPlan::all_plans);
        let failed = plans.map(|work| match work {
            FieldPlan::Image(kernel) => kernel.failed_loops().0,
            _ => 0,
        });
        failed.sum()
    }

    pub(super) fn compile_time(&self) -> Duration {
        let plans = self.outputs.iter().flat_map(OutputPlan::all_plans);
        let times = plans.map(|work| match work {
            FieldPlan::Image(kernel) => kernel.compile_time(),
            _ => Duration::ZERO,
        });
        times.sum()
    }

    /// Returns the image output of this name: its index, the index of its field, and its kernel.
    pub(super) fn image(&self, name: &str) -> Option<(usize, usize, Arc<Kernel>)> {
        self.outputs.iter().enumerate().find_map(|(k, output)| match &output.work {
            FieldPlan::Image(kernel)
                if output.name == name || output.alias.as_deref() == Some(name) =>
            {
                Some((k, output.field, Arc::clone(kernel)))
            }
            _ => None,
        })
    }

    /// Returns what the images of output `k` are read as.
    pub(super) fn read_mode(&self, k: usize) -> ImageReadMode {
        self.outputs[k].read_mode
    }

    /// Returns the names of the outputs that are images.
    pub(super) fn images(&self) -> impl Iterator<Item = &str> {
        let images =
            self.outputs.iter().filter(|output| matches!(output.work, FieldPlan::Image(_)));
        images.map(|output| &*output.name)
    }

    /// Returns the names of all outputs.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.outputs.iter().map(|output| &*output.name)
    }

    /// Returns the kernel of output `k`, an image, for the samples of a component.
    pub(super) fn kernel_of(&self, k: usize, component: usize) -> Option<Arc<Kernel>> {
        match self.outputs[k].work_of(component) {
            FieldPlan::Image(kernel) => Some(Arc::clone(kernel)),
            _ => None,
        }
    }

    /// Returns the component of the dataset, here `source`, that a sample belongs to; 0 if all have the
    /// same plan.
    pub(super) fn component(
        &self,
        source: &dyn Source,
        sample: SampleId,
        buffer: &mut Buffer,
    ) -> Result<usize, SampleCause> {
        if self.has_components { Ok(source.component(sample, buffer)?) } else { Ok(0) }
    }

    /// Reads the objects that follow output `k`, an image, for an [`Inspector`](super::inspect::Inspector). There are none
    /// if nothing was declared to follow it.
    pub(super) fn objects(
        &self,
        (source, k): (&dyn Source, usize),
        sample: SampleId,
        buffer: &mut Buffer,
    ) -> Result<Objects, SampleCause> {
        let mut targets = TargetScratch::default();
        if let Some(group) = self.targets_of(k) {
            for member in group.read_first() {
                member.read(source.value(sample, member.field, buffer)?, &mut targets)?;
            }
        }
        Ok(targets.objects)
    }

    /// Returns the targets that follow output `k`, an image, if any were declared.
    pub(super) fn targets_of(&self, k: usize) -> Option<&TargetGroup> {
        self.targets.iter().find(|group| group.image == k)
    }

    /// Returns the image that output `k` follows: its output and its field; `None` if the output follows none.
    pub(super) fn followed_by(&self, k: usize) -> Option<(usize, usize)> {
        let follows = |group: &&TargetGroup| group.members.iter().any(|own| own.output == Some(k));
        self.targets.iter().find(follows).map(|group| (group.image, group.field))
    }

    /// Refuses an image of these outputs that is not stored upright, if it has targets and is not known to be the picture
    /// that they are of. `source` has the sample.
    pub(super) fn check_orientation(
        &self,
        (source, sample): (&dyn Source, SampleId),
        outputs: &[usize],
        image: &Opened<'_>,
    ) -> Result<(), TargetCause> {
        let Some(turned) = image.turned() else { return Ok(()) };
        if !outputs.iter().any(|&k| self.outputs[k].is_annotated) {
            return Ok(());
        }
        check_orientation(turned, source.annotated_size(sample), self.setup.exif_orientation)
    }

    /// Returns the limits on images.
    pub(super) fn limits(&self) -> &Limits {
        &self.setup.decode.limits
    }

    /// Creates a decoder with the workers' options.
    pub(super) fn decoder(&self) -> Decoder {
        Decoder::new(self.setup.decode).warning(&self.setup.unread)
    }

    /// Returns the key that determines all draws of an output for a sample.
    pub(super) fn key(&self, epoch: Epoch, sample: SampleId, output: usize) -> SampleKey {
        self.outputs[output].draws.key(self.visit_key(epoch, SampleRef::once(sample)))
    }

    /// Asks the processor for the values of a field that are read next, if they lie in memory.
    fn fetch_values(&self, place: usize, visits: &[SampleRef]) {
        for visit in visits {
            let value = self.source.value_in_memory(visit.sample, self.fields[place].0);
            fetch_ahead(value.map_or(&[], |value| value.bytes()));
        }
    }

    /// Returns the key that determines all draws of a row.
    fn visit_key(&self, epoch: Epoch, visit: SampleRef) -> SampleKey {
        SampleKey::new(self.setup.seed, epoch.0, visit.sample.0).copy(visit.repeat)
    }

    pub(super) fn explain(&self) -> String {
        let mut text = self.device_words();
        if self.setup.scaled_decode {
            text += "scaled decode: large JPEGs at 1/2, 1/4 or 1/8 of their size, where a resize comes first\n";
        }
        for output in self.outputs.iter() {
            let _ = writeln!(text, "{}:", output.title);
            if let Some(target) = self.target_words(&output.name) {
                let end = if matches!(output.work, FieldPlan::Image(_)) { "\n" } else { ", " };
                text += &target;
                text += end;
            }
            text.push_str(&output.work.explain());
            text.extend(output.collation.as_ref().map(Collated::explain));
            for (component, work) in &output.by_component {
                let _ = write!(
                    text,
                    "{}, samples of component {component}:\n{}",
                    output.title,
                    work.explain()
                );
            }
        }
        text
    }

    /// Describes the output of this name, if it is a target of an image.
    pub(super) fn target_words(&self, name: &str) -> Option<String> {
        let k = self.outputs.iter().position(|output| output.name == name)?;
        let planned = self.outputs[k].target.as_ref()?;
        let (image, _) = self.followed_by(k)?;
        Some(planned.target.describe(&self.outputs[image].name))
    }

    /// Describes where outputs with [`ToDevice`](fuseloop_ops::ToDevice) are computed; empty if there
    /// are none.
    fn device_words(&self) -> String {
        let placement = self.shared.device_choice.placement();
        let on = self.outputs.iter().filter(|output| output.device_output.is_some());
        let on = on.map(|output| output.name.as_str()).collect::<Vec<_>>().join(", ");
        match (&placement.fallback, on.is_empty()) {
            (None, true) => String::new(),
            (Some(_), _) => format!("device: {placement}\n"),
            (None, false) => format!("device: {placement} ({on})\n"),
        }
    }

    /// Writes all outputs of one field of a sample, or gathers their values. `rows` are the rows of all outputs of
    /// the batch.
    fn fill_field(
        &self,
        worker: &mut Worker,
        lookup: &mut CacheLookup<'_>,
        key: SampleKey,
        place: usize,
        rows: &mut SampleRows<'_, '_>,
    ) -> Result<(), StageError> {
        let (field, outputs) = &self.fields[place];
        let sample = SampleId(key.sample());
        let spec = &self.source.fields()[*field];
        let of_field = |cause| self.error(sample, &spec.name, *field, cause);
        let group = self.targets.iter().find(|group| group.field == *field);
        if let Some(group) = group {
            self.read_objects(worker, lookup, sample, group)?;
        }
        let Worker { buffer, pictures, partial_reads, targets, .. } = &mut *worker;
        // Reading the clock would cost more than reading a number.
        if !matches!(spec.kind, FieldKind::Int | FieldKind::Float) {
            pictures.watch.phase(Phase::Read);
        }
        let (reads, limits) = (&mut *partial_reads, self.limits());
        let part = self.partial_fields[place];
        if let Some(image) = reads.begin(part, &*self.source, (sample, *field), limits, buffer) {
            let is_coded = matches!(image, StoredImage::Parts(_));
            let followed = group.map(|group| (group.image, &mut *targets));
            let filled = self.fill_images(pictures, (None, followed), key, image, outputs, rows);
            pictures.decoded += u64::from(filled.is_ok());
            if !(is_coded && filled.as_ref().is_err_and(SampleCause::is_of_bytes)) {
                filled.map_err(of_field)?;
                return group.map_or(Ok(()), |group| {
                    self.fill_targets(worker, lookup, sample, group, rows)
                });
            }
            // The whole image is read instead, whose error counts if there is one.
            if let Some(group) = group {
                self.read_objects(worker, lookup, sample, group)?;
            }
        }
        let Worker { buffer, cached_bytes, pictures, columns, elements, targets, .. } = worker;
        let CacheLookup { found, keeper } = &mut *lookup;
        let value = self.read_value((sample, *field), (buffer, cached_bytes), found.as_ref());
        let (value, is_cached) = value.map_err(of_field)?;
        if matches!(value, Value::Image(_)) {
            let keeper = keeper.as_mut().map(|keeper| (*field, keeper));
            let followed = group.map(|group| (group.image, targets));
            let image = StoredImage::Value(value);
            let filled = self.fill_images(pictures, (keeper, followed), key, image, outputs, rows);
            pictures.decoded += u64::from(filled.is_ok() && !is_cached);
            filled.map_err(of_field)?;
            return group
                .map_or(Ok(()), |group| self.fill_targets(worker, lookup, sample, group, rows));
        }
        if let Some(keeper) = keeper {
            keeper.keep(*field, value);
        }
        let is_array = matches!(value, Value::NdArray(_) | Value::Bytes(_));
        let component = rows.component;
        let is_image = |k: usize| is_array && self.outputs[k].kernel(k, component).is_some();
        if outputs.iter().any(|&k| is_image(k)) {
            let image = StoredImage::Value(value);
            let filled = self.fill_images(pictures, (None, None), key, image, outputs, rows);
            filled.map_err(of_field)?;
        }
        for &k in outputs.iter().filter(|k| !is_image(**k)) {
            let output = &self.outputs[k];
            if let Some(plan) = output.column_plan(component) {
                if !columns[k].takes(rows.index, component) {
                    self.write_column(k, &mut columns[k], elements, rows)?;
                }
                columns[k].add(&plan, (rows.index, component), || output.draws.key(key), value);
                continue;
            }
            let length = output
                .fill((key, component), value, elements, rows.of(k))
                .map_err(|cause| self.error(sample, &output.name, *field, cause))?;
            self.write_sizes(k, &[length], rows);
        }
        Ok(())
    }

    /// Writes the rows of output `k` whose values were gathered.
    fn write_column(
        &self,
        k: usize,
        column: &mut Column,
        scratch: &mut StepScratch,
        rows: &mut SampleRows<'_, '_>,
    ) -> Result<(), StageError> {
        let (output, first) = (&self.outputs[k], column.first);
        let to = rows.range(k, first, column.rows);
        column.write(output, scratch, to).map_err(|RowError { row, error }| {
            let sample = rows.visits[first + row].sample;
            self.error(sample, &output.name, output.field, error.into())
        })
    }

    /// Returns the component of the dataset that a sample belongs to.
    fn component_of(&self, sample: SampleId, buffer: &mut Buffer) -> Result<usize, StageError> {
        let component = self.component(&*self.source, sample, buffer);
        component.map_err(|cause| self.sample_error(sample, cause))
    }

    /// Writes the size of the sample of output `k`, if its samples differ in size.
    fn write_sizes(&self, k: usize, sizes: &[i64], rows: &mut SampleRows<'_, '_>) {
        let Some(tensor) = self.sizes[k] else { return };
        let (row, _) = rows.of(tensor).as_chunks_mut();
        row.iter_mut().zip(sizes).for_each(|(to, size)| *to = size.to_ne_bytes());
    }

    /// Writes the size of the image of output `k`, if its images differ in size.
    fn write_image_size(
        &self,
        k: usize,
        Size { height, width }: Size,
        rows: &mut SampleRows<'_, '_>,
    ) {
        self.write_sizes(k, &[height.into(), width.into()], rows);
    }

    /// Reads the objects of a sample, whose image draws afterwards.
    fn read_objects(
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
            let read = read.and_then(|value| Ok(member.read(value, targets)?));
            read.map_err(|cause| self.member_error(member, sample, cause))?;
        }
        Ok(())
    }

    /// Writes the targets of a sample, whose image has drawn.
    fn fill_targets(
        &self,
        worker: &mut Worker,
        lookup: &mut CacheLookup<'_>,
        sample: SampleId,
        group: &TargetGroup,
        rows: &mut SampleRows<'_, '_>,
    ) -> Result<(), StageError> {
        for member in &group.members {
            let Some(k) = member.output else { continue };
            let filled = self.fill_target(worker, lookup, sample, (member, k), rows);
            filled.map_err(|cause| self.member_error(member, sample, cause))?;
        }
        Ok(())
    }

    /// Writes the row of one target, output `k`.
    fn fill_target(
        &self,
        worker: &mut Worker,
        lookup: &mut CacheLookup<'_>,
        sample: SampleId,
        (member, k): (&TargetMember, usize),
        rows: &mut SampleRows<'_, '_>,
    ) -> Result<(), SampleCause> {
        let Worker { buffer, cached_bytes, pictures, targets, .. } = worker;
        let output = &self.outputs[k];
        let Some(plan) = &output.target else { return Ok(()) };
        let value = if member.is_read_last() {
            Some(self.member_value(member, sample, (buffer, cached_bytes), lookup)?)
        } else {
            None
        };
        if let (Target::Mask { .. }, Some((_, kernel)), Some(value)) =
            (&plan.target, output.kernel(k, 0), value)
        {
            self.fill_mask(pictures, targets, (output, kernel, value), rows.of(k))?;
            self.write_image_size(k, targets.image.output, rows);
            return Ok(());
        }
        let bytes = targets.rows(plan, value, &mut pictures.scratch)?;
        let Some((_, collated)) = output.collated(k) else { return Ok(()) };
        if collated.is_object_masks() {
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
        row: &mut [u8],
    ) -> Result<(), SampleCause> {
        let ImageScratch { watch, decoder, scratch, .. } = pictures;
        watch.phase(Phase::Decode);
        let TargetScratch { image, mask, .. } = targets;
        let mut opened = open_image(decoder, value, ImageReadMode::Index, None)?;
        if let Some(turned) = opened.turned() {
            check_orientation(turned, None, self.setup.exif_orientation)?;
        }
        let size = opened.size();
        if size != image.source {
            return Err(TargetCause::MaskSize { mask: size, image: image.source }.into());
        }
        kernel.plan().follow(image, mask);
        kernel.plan().check_draws(mask, &self.setup.decode.limits)?;
        let decoded = opened.decode(kernel.plan().needed_window(mask))?;
        watch.phase(Phase::Kernel);
        let (top, left) = (decoded.top, decoded.left);
        let pixels = DecodedPixels { view: decoded.view, top, left, whole: size };
        output.run(kernel, scratch, (pixels, mask), row)
    }

    /// Reads the value of a target, and keeps it for the cache.
    fn member_value<'b>(
        &'b self,
        member: &TargetMember,
        sample: SampleId,
        buffers: (&'b mut Buffer, &'b mut Vec<u8>),
        lookup: &'b mut CacheLookup<'_>,
    ) -> Result<Value<'b>, SampleCause> {
        let CacheLookup { found, keeper } = lookup;
        let (value, _) = self.read_value((sample, member.field), buffers, found.as_ref())?;
        if let Some(keeper) = keeper {
            keeper.keep(member.field, value);
        }
        Ok(value)
    }

    /// Reads the value of a field: the cached one, if there is one, and otherwise the source's. Returns whether it is
    /// cached.
    fn read_value<'b>(
        &'b self,
        (sample, field): (SampleId, usize),
        (buffer, cached_bytes): (&'b mut Buffer, &'b mut Vec<u8>),
        cached: Option<&'b CachedSample<'_>>,
    ) -> Result<(Value<'b>, bool), SampleCause> {
        match cached.and_then(|cached| cached.value(field, cached_bytes)) {
            Some(value) => Ok((value, true)),
            None => Ok((self.source.value(sample, field, buffer)?, false)),
        }
    }

    fn member_error(
        &self,
        member: &TargetMember,
        sample: SampleId,
        cause: SampleCause,
    ) -> StageError {
        let name = &self.source.fields()[member.field].name;
        self.error(sample, name, member.field, cause)
    }

    /// Creates the error of a whole sample, which is reported at its first field.
    fn sample_error(&self, sample: SampleId, cause: SampleCause) -> StageError {
        let field = self.fields().next().unwrap_or(0);
        self.error(sample, &self.source.fields()[field].name, field, cause)
    }

    fn error(&self, sample: SampleId, name: &str, field: usize, cause: SampleCause) -> StageError {
        let error = LoadSampleError::of(&*self.source, sample, (name, field), cause);
        StageError { sample, source: error }
    }
}

/// Returns true if an output has an op in plain Rust on samples of images.
fn calls_host_ops(output: &OutputPlan) -> bool {
    let mut plans = output.all_plans();
    plans.any(|work| match work {
        FieldPlan::Image(kernel) => {
            let mut flat_ops = kernel.plan().flat_ops().iter();
            flat_ops.any(|flat| matches!(flat.kind, OpKind::Host { .. }))
        }
        _ => false,
    })
}

/// Groups the outputs by field, in the order of the fields' first outputs.
fn by_field(outputs: &[OutputPlan]) -> Vec<(usize, Vec<usize>)> {
    let mut fields: Vec<(usize, Vec<usize>)> = vec![];
    for (k, output) in outputs.iter().enumerate().filter(|(_, output)| output.target.is_none()) {
        match fields.iter_mut().find(|(field, _)| *field == output.field) {
            Some((_, outputs)) => outputs.push(k),
            None => fields.push((output.field, vec![k])),
        }
    }
    fields
}

/// The rows of one sample, in every output.
struct SampleRows<'a, 'b> {
    outputs: &'a mut [&'b mut [u8]],
    /// The samples of all rows.
    visits: &'a [SampleRef],
    /// The sample's index among them.
    index: usize,
    /// The component of the dataset that the sample belongs to.
    component: usize,
}

impl SampleRows<'_, '_> {
    /// Returns the row of output `k`.
    fn of(&mut self, k: usize) -> &mut [u8] {
        self.range(k, self.index, 1)
    }

    /// Returns the rows of `count` samples in output `k`, from the sample of index `first` on.
    fn range(&mut self, k: usize, first: usize, count: usize) -> &mut [u8] {
        let bytes = self.outputs[k].len() / self.visits.len();
        &mut self.outputs[k][first * bytes..][..count * bytes]
    }
}

impl Stage for LoaderStage {
    type Worker = Worker;
    type Error = LoadSampleError;

    fn outputs(&self) -> &[TensorSpec] {
        &self.tensors
    }

    fn chunk(&self) -> NonZeroUsize {
        self.chunk
    }

    fn worker(&self, watch: Progress) -> Worker {
        Worker {
            buffer: Buffer::default(),
            cached_bytes: vec![],
            pictures: ImageScratch {
                watch,
                decoder: self.decoder(),
                scratch: Scratch::default(),
                draws: vec![],
                scaled: Default::default(),
                decoded: 0,
            },
            partial_reads: PartialReads::default(),
            columns: self.outputs.iter().map(|_| Column::default()).collect(),
            targets: TargetScratch::default(),
            elements: StepScratch::default(),
            is_written: vec![],
            spare: vec![],
        }
    }

    fn fill(
        &self,
        worker: &mut Worker,
        epoch: Epoch,
        visits: &[SampleRef],
        rows: &mut RowsMut<'_>,
    ) -> Result<(), StageError> {
        worker.pictures.decoded = 0;
        // The file's length is checked once per chunk. If the file was truncated, the engine passes the
        // rows one by one, and then each read is checked; so is each read of a value that the cache will
        // store.
        let is_cached = self.shared.cache.is_some();
        worker.buffer.check_lengths_later(visits.len() > 1 && !is_cached);
        // Those of a call that failed.
        worker.columns.iter_mut().for_each(Column::clear);
        let mut outputs: Vec<&mut [u8]> = rows.outputs().collect();
        let outputs = &mut *outputs;
        for (visit, place) in visits
            .iter()
            .flat_map(|visit| self.fields_ahead.iter().map(move |place| (visit, place)))
        {
            self.source.expect_read(visit.sample, self.fields[*place].0);
        }
        let mut is_written = mem::take(&mut worker.is_written);
        is_written.clear();
        is_written.resize(self.fields.len(), false);
        for &place in &self.images_together {
            is_written[place] =
                self.run_images_together(&mut worker.pictures, (epoch, visits), place, outputs)?;
        }
        let others_ahead = || self.fields_ahead.iter().filter(|place| !is_written[**place]);
        let first = &visits[..visits.len().min(SAMPLES_AHEAD)];
        others_ahead().for_each(|place| self.fetch_values(*place, first));
        for (index, visit) in visits.iter().enumerate() {
            let next = visits.get(index + SAMPLES_AHEAD).map_or(&[][..], std::slice::from_ref);
            others_ahead().for_each(|place| self.fetch_values(*place, next));
            let key = self.visit_key(epoch, *visit);
            worker.pictures.watch.start(visit.sample, Phase::Read);
            worker.buffer.forget();
            let component = self.component_of(visit.sample, &mut worker.buffer)?;
            let mut rows = SampleRows { outputs: &mut *outputs, visits, index, component };
            let cache = self.shared.cache.as_ref();
            let mut lookup = cache.map_or(CacheLookup::EMPTY, |cache| cache.look(visit.sample));
            for place in (0..self.fields.len()).filter(|place| !is_written[*place]) {
                self.fill_field(worker, &mut lookup, key, place, &mut rows)?;
            }
            lookup.end();
        }
        worker.is_written = is_written;
        let mut rows = SampleRows { outputs, visits, index: 0, component: 0 };
        let Worker { columns, elements, .. } = &mut *worker;
        for (k, column) in columns.iter_mut().enumerate().filter(|(_, column)| column.rows > 0) {
            self.write_column(k, column, elements, &mut rows)?;
        }
        if let (Err(error), Some(first)) = (worker.buffer.check_lengths(), visits.first()) {
            return Err(self.sample_error(first.sample, error.into()));
        }
        self.shared.decoded.fetch_add(worker.pictures.decoded, Ordering::Relaxed);
        Ok(())
    }

    fn on_failure(
        &self,
        epoch: Epoch,
        visit: SampleRef,
        attempt: u32,
        error: &StageError,
    ) -> OnFailure {
        let substitute = match self.setup.on_damaged {
            _ if let SampleCause::Halt(halt) = &error.source.cause => {
                // The end of a stream is not a damaged sample: no sample follows.
                return if matches!(halt, StreamEnd::End { .. }) {
                    OnFailure::End
                } else {
                    OnFailure::Fail
                };
            }
            // Functions of the user are not data: their errors are no damage.
            _ if matches!(error.source.cause, SampleCause::Function(_)) => return OnFailure::Fail,
            // Nor is a lack of memory, or a wrong setting.
            _ if error.source.details().lacks_memory() || error.source.cause.is_of_setting() => {
                return OnFailure::Fail;
            }
            OnDamaged::Fail => return OnFailure::Fail,
            OnDamaged::Skip => None,
            OnDamaged::Substitute if attempt >= MAX_SUBSTITUTES => return OnFailure::Fail,
            OnDamaged::Substitute => self.substitute(epoch, visit, attempt),
        };
        self.shared.damage_log.note(error.sample, epoch, attempt, &error.source);
        substitute.map_or(OnFailure::Skip, OnFailure::Substitute)
    }

    fn finish(
        &self,
        worker: &mut Worker,
        epoch: Epoch,
        batch: u64,
        rows: &mut RowsMut<'_>,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        // Each rank mixes with its own shares; a single process mixes as if there were no ranks.
        let batch = batch * self.setup.world + self.setup.rank;
        let key = BatchKey::new(self.setup.seed, epoch.0, batch);
        // Targets are mixed with their images, before functions of the user change them.
        let (first, others): (Vec<_>, Vec<_>) =
            self.outputs.iter().enumerate().partition(|(_, output)| output.mix_targets.is_some());
        for (k, output) in first.into_iter().chain(others) {
            output.finish_batch(k, (key, epoch), rows, &mut worker.spare)?;
        }
        pack(rows, &self.tensors);
        if let Some(upload) = &self.upload {
            upload.submit(rows)?;
        }
        if let Some(locker) = &self.shared.page_locker {
            locker.lock(rows, self.tensors.len());
        }
        Ok(())
    }
}
