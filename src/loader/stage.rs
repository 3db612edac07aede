//! The stage of a loader: reads a sample once, draws for each output, decodes once, and runs the
//! compiled loops.

mod clips;
mod facts;
mod frames;
mod image_lists;
mod image_outputs;
mod images_together;
mod partly_read;
mod targets;

use super::cache::{CacheLookup, CachedSample, SampleCache};
use super::clips::{ClipFrames, ClipSource};
use super::columns::Column;
use super::compile::{CompiledEpoch, compile, fingerprint, plan_prints};
use super::compile_context::CompileContext;
use super::cursor::PlanPrint;
use super::damaged::{DamageLog, MAX_SUBSTITUTES, OnDamaged};
use super::decoded_forms::DecodedForms;
use super::device::{DeviceChoice, Upload};
use super::error::{of_output, of_sample};
use super::mixing::BatchScratch;
use super::opened_image::StoredImage;
use super::outputs::OutputSpec;
use super::target_rows::{TargetGroup, TargetScratch};
use super::work::{FieldPlan, OutputPlan, tensors};
use crate::batch::{RowsMut, TensorRows, TensorSpec};
use crate::decode::{Decoder, FrameScratch, ImageReadMode};
use crate::device::PageLocker;
use crate::error::{Error, fail};
use crate::jit::{KernelCache, Scratch};
use crate::order::PreparedOrder;
use crate::plan::element_steps::{RowError, StepScratch};
use crate::plan::{Draws, OpKind};
use crate::run::{FillError, OnFailure, Phase, Progress, Stage};
use crate::sample::{Epoch, SampleId, SampleRef};
use crate::source::fetch_ahead::fetch_ahead;
use crate::source::stream::StreamEnd;
use crate::source::{BoxError, Buffer, FieldKind, Source, StoredValues, Value};
pub(super) use frames::ReadFrames;
use fuseloop_engine::batch::pack;
use fuseloop_ops::Size;
use fuseloop_ops::internals::{BatchKey, SampleKey, stream};
use images_together::runs_together;
use partly_read::{PartialField, PartialReads};
use std::mem;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The output whose image has targets, and what the worker keeps of them.
type FollowedImage<'a> = Option<(usize, &'a mut TargetScratch)>;

/// A sample that could not be loaded.
type StageError = FillError<Error>;

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
    /// The forms of the images that were decoded.
    pub(super) forms: Arc<DecodedForms>,
    /// The damaged samples found.
    pub(super) damage_log: Arc<DamageLog>,
    /// The cache of decoded samples, if there is one.
    pub(super) cache: Option<Arc<SampleCache>>,
    /// Where outputs are computed.
    pub(super) device_choice: Arc<DeviceChoice>,
    /// Locks the memory of batches on the host, if that is asked for.
    pub(super) page_locker: Option<Arc<PageLocker>>,
    /// The order, which substitutes are drawn from; `None` while the pipelines are checked, before it is prepared.
    order: Option<Arc<PreparedOrder>>,
}

impl StageShared {
    pub(super) fn new(
        damage_log: Arc<DamageLog>,
        cache: Option<Arc<SampleCache>>,
        site: DeviceChoice,
        page_locker: Option<PageLocker>,
    ) -> Self {
        Self {
            decoded: Arc::default(),
            forms: Arc::default(),
            damage_log,
            cache,
            device_choice: Arc::new(site),
            page_locker: page_locker.map(Arc::new),
            order: None,
        }
    }

    /// Returns the same state with the order.
    pub(super) fn ordered(self, order: Arc<PreparedOrder>) -> Self {
        Self { order: Some(order), ..self }
    }
}

/// The state of a worker.
pub(super) struct Worker {
    /// The buffer that values are read into.
    buffer: Buffer,
    /// The buffer that the targets of a frame are read into, while the frame is in the other one.
    target_buffer: Buffer,
    /// The buffer that cached values are read into.
    cached_bytes: Vec<u8>,
    pictures: ImageScratch,
    partial_reads: PartialReads,
    /// For each output, the gathered values of the chunk.
    columns: Vec<Column>,
    targets: TargetScratch,
    elements: StepScratch,
    clip: ClipFrames,
    /// For each field that is read, whether the outputs of all samples of the chunk are written.
    is_written: Vec<bool>,
    /// The memory for changing finished batches.
    batch: BatchScratch,
}

/// The scratch state for decoding and running images.
struct ImageScratch {
    /// Reports the worker's phase.
    watch: Progress,
    decoder: Decoder,
    frame: FrameScratch,
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
    ) -> Result<Self, Error> {
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
            outputs.iter().fold(0, |row, output| row.saturating_add(output.filled_bytes()));
        let has_jpeg = outputs.iter().any(|output| {
            let is_image = source.fields()[output.field].kind.is_image();
            is_image && source.image_stats(output.field).is_none_or(|stats| stats.jpegs() > 0)
        });
        let fitting = (CHUNK_BYTES / row.max(1)).clamp(1, CHUNK_SAMPLES);
        // After an error, the engine passes the samples of a chunk again, one by one: a function that failed once
        // must not be called again.
        let has_frames = setup.frames.is_some();
        let chunk =
            if has_jpeg || has_frames || outputs.iter().any(calls_host_ops) { 1 } else { fitting };
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

    /// Returns the same stage with another shared state: the one that has the order.
    pub(super) fn sharing(self, shared: StageShared) -> Self {
        Self { shared, ..self }
    }

    /// Returns the same stage for batches of any samples, whose images may differ in size.
    pub(super) fn for_any_samples(&self) -> Self {
        let setup = CompileContext { is_bucketed: false, ..self.setup.clone() };
        Self { setup, ..self.clone() }
    }

    /// Returns another sample for the row of `visit`; `attempt` numbers the substitutes tried.
    fn substitute(&self, epoch: Epoch, visit: SampleRef, attempt: u32) -> Option<SampleRef> {
        let mut rng = self.visit_key(epoch, visit).op(stream("substitute", attempt as usize));
        let word = u64::from(rng.word()) << 32 | u64::from(rng.word());
        let sample = self.shared.order.as_ref()?.substitute(visit.sample, word)?;
        Some(SampleRef { sample, ..visit })
    }

    /// Returns the component of the dataset, here `source`, that a sample belongs to; 0 if all have the
    /// same plan.
    pub(super) fn component(
        &self,
        source: &dyn Source,
        sample: SampleId,
        buffer: &mut Buffer,
    ) -> Result<usize, Error> {
        if self.has_components { Ok(source.component(sample, buffer)?) } else { Ok(0) }
    }

    /// Refuses a batch of a bucketed order whose images differ in size, which would be padded.
    fn check_one_size(&self, rows: &mut RowsMut<'_>) -> Result<(), Error> {
        for (tensor, sizes) in self.tensors.iter().zip(&self.sizes) {
            let (TensorRows::Padded { .. }, Some(sizes)) = (&tensor.rows, sizes) else { continue };
            let samples: Vec<SampleId> = rows.visits().iter().map(|visit| visit.sample).collect();
            let (sides, _) = rows.output(*sizes).as_chunks::<{ size_of::<i64>() }>();
            let sides: Vec<i64> = sides.iter().map(|side| i64::from_ne_bytes(*side)).collect();
            let mut sizes = sides.chunks(sides.len() / samples.len().max(1));
            let Some(first) = sizes.next() else { continue };
            let other = sizes.zip(&samples[1..]).find(|(size, _)| *size != first);
            let Some((other, sample)) = other else { continue };
            let error = fail!(
                Parameter,
                "order bucketed: its ops leave sample {sample} at {} x {} pixels and others of its batch at {} x {}: the \
                 list or the stored image is another than when the loader was built; build another loader",
                other[1],
                other[0],
                first[1],
                first[0]
            );
            return Err(of_output(error, &tensor.name));
        }
        Ok(())
    }

    /// Returns the key that determines all draws of an output for a sample.
    pub(super) fn key(&self, epoch: Epoch, sample: SampleId, output: usize) -> SampleKey {
        self.outputs[output].draws.key(self.visit_key(epoch, SampleRef::once(sample)))
    }

    /// Asks the processor for the values of a field that are read next, if they lie in memory.
    fn fetch_values(&self, stored: &dyn StoredValues, place: usize, visits: &[SampleRef]) {
        for visit in visits {
            let value = stored.value_in_memory(visit.sample, self.fields[place].0);
            fetch_ahead(value.map_or(&[], |value| value.bytes()));
        }
    }

    /// Returns the key that determines all draws of a row.
    fn visit_key(&self, epoch: Epoch, visit: SampleRef) -> SampleKey {
        SampleKey::new(self.setup.seed, epoch.0, visit.sample.0).copy(visit.repeat)
    }

    /// Writes all outputs of one field of a sample, or gathers their values. `rows` are the rows of all outputs of
    /// the batch.
    fn fill_field(
        &self,
        worker: &mut Worker,
        lookup: &mut CacheLookup<'_>,
        key: SampleKey,
        (place, stored): (usize, Option<&dyn StoredValues>),
        rows: &mut SampleRows<'_, '_>,
    ) -> Result<(), StageError> {
        let (field, outputs) = &self.fields[place];
        let sample = SampleId(key.sample());
        if let Some(clips) = self.setup.clips.as_deref().filter(|clips| clips.has_frames(*field)) {
            return self.fill_clip(worker, clips, key, place, rows);
        }
        if let Some(frames) = self.setup.frames.as_ref().filter(|frames| frames.has(*field)) {
            return self.fill_frames_of(worker, &*frames.0, key, place, rows);
        }
        if let Some(list) = self.setup.lists.iter().position(|(list, _)| list == field) {
            return self.fill_list(worker, list, key, place, rows);
        }
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
        if let Some(image) = reads.begin(part, stored, (sample, *field), limits, buffer) {
            let is_coded = matches!(image, StoredImage::Parts(_));
            let followed = group.map(|group| (group.image, &mut *targets));
            let filled = self.fill_images(pictures, (None, followed), key, image, outputs, rows);
            pictures.decoded += u64::from(filled.is_ok());
            if !(is_coded && filled.as_ref().is_err_and(|error| !error.is_not_damage())) {
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
        let Worker { buffer, cached_bytes, pictures, columns, elements, targets, clip, .. } =
            worker;
        let CacheLookup { found, keeper } = &mut *lookup;
        let has_times = |clips: &ClipSource| clips.has_times(*field);
        let value = if self.setup.clips.as_deref().is_some_and(has_times) {
            Ok((Value::NdArray(&clip.pts), false))
        } else {
            self.read_value((sample, *field), (buffer, cached_bytes), found.as_ref())
        };
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
                columns[k].add(plan, (rows.index, component), || output.draws.key(key), value);
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
            self.error(sample, &output.name, output.field, error)
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

    /// Reads the value of a field: the cached one, if there is one, and otherwise the source's. Returns whether it is
    /// cached.
    fn read_value<'b>(
        &'b self,
        (sample, field): (SampleId, usize),
        (buffer, cached_bytes): (&'b mut Buffer, &'b mut Vec<u8>),
        cached: Option<&'b CachedSample<'_>>,
    ) -> Result<(Value<'b>, bool), Error> {
        match cached.and_then(|cached| cached.value(field, cached_bytes)) {
            Some(value) => Ok((value, true)),
            None => Ok((self.source.value(sample, field, buffer)?, false)),
        }
    }

    /// Creates the error of a whole sample, which is reported at its first field.
    fn sample_error(&self, sample: SampleId, cause: Error) -> StageError {
        let field = self.fields().next().unwrap_or(0);
        self.error(sample, &self.source.fields()[field].name, field, cause)
    }

    fn error(&self, sample: SampleId, name: &str, field: usize, cause: Error) -> StageError {
        let error = of_sample(&*self.source, sample, (name, field), cause);
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
    /// The number of the image that is written, where a row has several.
    image: Option<usize>,
    /// The number in its video of the frame that is written, if the sample has frames.
    frame: Option<u32>,
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
    type Error = Error;

    fn outputs(&self) -> &[TensorSpec] {
        &self.tensors
    }

    fn chunk(&self) -> NonZeroUsize {
        self.chunk
    }

    fn worker(&self, watch: Progress) -> Worker {
        Worker {
            buffer: Buffer::default(),
            target_buffer: Buffer::default(),
            cached_bytes: vec![],
            pictures: ImageScratch {
                watch,
                decoder: self.decoder(),
                frame: FrameScratch::default(),
                scratch: Scratch::default(),
                draws: vec![],
                scaled: Default::default(),
                decoded: 0,
            },
            partial_reads: PartialReads::default(),
            columns: self.outputs.iter().map(|_| Column::default()).collect(),
            targets: TargetScratch::default(),
            elements: StepScratch::default(),
            clip: ClipFrames::default(),
            is_written: vec![],
            batch: BatchScratch::default(),
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
        let stored = self.source.stored();
        if let Some(stored) = stored {
            for visit in visits {
                for place in &self.fields_ahead {
                    stored.expect_read(visit.sample, self.fields[*place].0);
                }
            }
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
        let fetch = |visits: &[SampleRef]| {
            if let Some(stored) = stored {
                others_ahead().for_each(|place| self.fetch_values(stored, *place, visits));
            }
        };
        fetch(first);
        for (index, visit) in visits.iter().enumerate() {
            let next = visits.get(index + SAMPLES_AHEAD).map_or(&[][..], std::slice::from_ref);
            fetch(next);
            let key = self.visit_key(epoch, *visit);
            worker.pictures.watch.start(visit.sample, Phase::Read);
            worker.buffer.forget();
            worker.target_buffer.forget();
            let component = self.component_of(visit.sample, &mut worker.buffer)?;
            if let Some(clips) = &self.setup.clips {
                let chosen = clips.choose(key, &mut worker.buffer, &mut worker.clip);
                let name = &self.source.fields()[clips.field()].name;
                chosen.map_err(|cause| self.error(visit.sample, name, clips.field(), cause))?;
            }
            let mut rows = SampleRows {
                outputs: &mut *outputs,
                visits,
                index,
                component,
                image: None,
                frame: None,
            };
            let cache = self.shared.cache.as_ref();
            let mut lookup = cache.map_or(CacheLookup::EMPTY, |cache| cache.look(visit.sample));
            for place in (0..self.fields.len()).filter(|place| !is_written[*place]) {
                self.fill_field(worker, &mut lookup, key, (place, stored), &mut rows)?;
            }
            lookup.end();
        }
        worker.is_written = is_written;
        let mut rows =
            SampleRows { outputs, visits, index: 0, component: 0, image: None, frame: None };
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
            _ if let Some(halt) = error.source.cause::<StreamEnd>() => {
                // The end of a stream is not a damaged sample: no sample follows.
                return if matches!(halt, StreamEnd::End { .. }) {
                    OnFailure::End
                } else {
                    OnFailure::Fail
                };
            }
            // A lack of memory, a wrong setting and the error of a function of the user are no damage.
            _ if error.source.lacks_memory() || error.source.is_not_damage() => {
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
    ) -> Result<(), BoxError> {
        // Each rank mixes with its own shares; a single process mixes as if there were no ranks.
        let batch = batch * self.setup.world + self.setup.rank;
        let key = BatchKey::new(self.setup.seed, epoch.0, batch);
        // Targets are mixed with their images, before functions of the user change them.
        let (first, others): (Vec<_>, Vec<_>) =
            self.outputs.iter().enumerate().partition(|(_, output)| !output.mix_targets.is_empty());
        let (limits, mut keys) = (self.limits(), vec![]);
        for (k, output) in first.into_iter().chain(others) {
            keys.clear();
            if !output.passes.is_empty() {
                let key = |visit: &SampleRef| output.draws.key(self.visit_key(epoch, *visit));
                keys.extend(rows.visits().iter().map(key));
            }
            let scratch = (&mut worker.pictures.scratch, &mut worker.batch);
            output.finish_batch(k, (key, epoch, &keys), rows, limits, scratch)?;
        }
        if self.setup.is_bucketed {
            self.check_one_size(rows)?;
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
