//! One sample: read once, drawn for each output, decoded once, and run through the compiled loops.

use super::cache::{Keeper, SampleCache, Seat};
use super::collate;
use super::damaged::{MAX_SUBSTITUTES, OnDamaged, Ward};
use super::device::{Site, Way};
use super::error::{SampleCause, SampleError};
use super::mixing;
use super::works::{FieldWork, OutputWork, Setup, fingerprint};
use crate::batch::{self, RowsMut, TensorSpec};
use crate::decode::Decoder;
use crate::device::Part;
use crate::jit::{Kernel, Scratch, Source};
use crate::order::Subset;
use crate::plan::Draws;
use crate::run::{Damaged, FillError, Phase, Stage, Watch};
use crate::sample::{Epoch, Limits, SampleId, Visit};
use crate::source::stream::Halt;
use crate::source::{Buffer, EncodedImage, FieldKind, Source as Dataset, Value};
use fuseloop_ops::{BatchKey, SampleKey, Size, Window, stream};
use std::error::Error;
use std::fmt::Write as _;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Fills the rows of batches from a source.
#[derive(Clone)]
pub(super) struct LoaderStage {
    source: Arc<dyn Dataset>,
    outputs: Arc<[OutputWork]>,
    /// The fields that are read, each with the outputs made of it.
    fields: Vec<(usize, Vec<usize>)>,
    tensors: Vec<TensorSpec>,
    /// For each output, the tensor with the sizes of its samples, if they differ.
    sizes: Vec<Option<usize>>,
    /// The way to a device, if some outputs lie on one.
    way: Option<Way>,
    epoch: Epoch,
    chunk: NonZeroUsize,
    setup: Setup,
    /// Whether what is done depends on the part of the dataset that a sample is of.
    has_parts: bool,
    fingerprint: u64,
    shared: Shared,
}

/// What the stages of all epochs share.
#[derive(Clone)]
pub(super) struct Shared {
    /// Pictures decoded.
    pub(super) decoded: Arc<AtomicU64>,
    /// Damaged samples met.
    pub(super) ward: Arc<Ward>,
    /// Decoded samples, if they are kept.
    pub(super) cache: Option<Arc<SampleCache>>,
    /// Where outputs are made.
    pub(super) site: Arc<Site>,
    /// The samples that substitutes are drawn from.
    subset: Subset,
}

impl Shared {
    pub(super) fn new(subset: Subset, cache: Option<Arc<SampleCache>>, site: Site) -> Self {
        let site = Arc::new(site);
        Self { decoded: Arc::default(), ward: Arc::default(), cache, site, subset }
    }
}

/// What a worker keeps.
pub(super) struct Worker {
    /// What a value is read into.
    buffer: Buffer,
    /// What a kept value is read into.
    kept: Vec<u8>,
    pictures: PictureDesk,
    /// A row of a batch that is mixed.
    spare: Vec<u8>,
}

/// What pictures are worked at with.
struct PictureDesk {
    /// Tells what the worker is at.
    watch: Watch,
    decoder: Decoder,
    scratch: Scratch,
    /// Of each output of a field.
    draws: Vec<Draws>,
    /// Pictures decoded in this call.
    decoded: u64,
}

/// Bytes that a worker makes before it asks for more work, where samples are small: enough that
/// asking costs nothing, few enough that workers end a batch together.
const CHUNK_BYTES: usize = 64 << 10;

/// Most samples at once.
const CHUNK_SAMPLES: usize = 32;

impl LoaderStage {
    pub(super) fn new(
        source: Arc<dyn Dataset>,
        outputs: Vec<OutputWork>,
        way: Option<Way>,
        epoch: Epoch,
        setup: &Setup,
        shared: Shared,
    ) -> Self {
        let (tensors, sizes) = collate::tensors(&outputs);
        let row: usize =
            outputs.iter().fold(0, |row, output| row.saturating_add(output.work.row_bytes()));
        let has_jpeg = outputs.iter().any(|output| {
            let is_image = source.fields()[output.field].kind == FieldKind::RgbImage;
            is_image && source.image_stats(output.field).is_none_or(|stats| stats.jpeg > 0)
        });
        let fitting = (CHUNK_BYTES / row.max(1)).clamp(1, CHUNK_SAMPLES);
        let chunk = if has_jpeg { 1 } else { fitting };
        let chunk = NonZeroUsize::new(chunk).unwrap_or(NonZeroUsize::MIN);
        let fields = by_field(&outputs);
        let has_parts = outputs.iter().any(|output| !output.of_parts.is_empty());
        let (outputs, setup): (Arc<[_]>, _) = (outputs.into(), *setup);
        let fingerprint = fingerprint(&outputs, &setup);
        Self {
            source,
            outputs,
            fields,
            tensors,
            sizes,
            way,
            epoch,
            chunk,
            setup,
            has_parts,
            fingerprint,
            shared,
        }
    }

    /// The same work, over the source as one run reads it.
    pub(super) fn over(&self, source: Arc<dyn Dataset>) -> Self {
        Self { source, ..self.clone() }
    }

    /// The fields that are read.
    pub(super) fn fields(&self) -> impl Iterator<Item = usize> {
        self.fields.iter().map(|(field, _)| *field)
    }

    /// What tells its plan from others: the outputs, their ops and the rules they run by.
    pub(super) fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// Another sample for the row of `visit`, number `attempt` of those it would have.
    fn substitute(&self, epoch: Epoch, visit: Visit, attempt: u32) -> Option<Visit> {
        let mut rng = self.visit_key(epoch, visit).op(stream("substitute", attempt as usize));
        let word = u64::from(rng.word()) << 32 | u64::from(rng.word());
        let place = word.checked_rem(self.shared.subset.len())?;
        Some(Visit { sample: self.shared.subset.at(place), ..visit })
    }

    /// The epoch that the pipelines were made for.
    pub(super) fn epoch(&self) -> Epoch {
        self.epoch
    }

    pub(super) fn tensors(&self) -> &[TensorSpec] {
        &self.tensors
    }

    pub(super) fn compile_time(&self) -> Duration {
        let works = self.outputs.iter().flat_map(OutputWork::all_works);
        let times = works.map(|work| match work {
            FieldWork::Image(kernel) => kernel.compile_time(),
            _ => Duration::ZERO,
        });
        times.sum()
    }

    /// The image output of this name: its number, its field's place in the file, and what it runs.
    pub(super) fn image(&self, name: &str) -> Option<(usize, usize, Arc<Kernel>)> {
        self.outputs.iter().enumerate().find_map(|(k, output)| match &output.work {
            FieldWork::Image(kernel)
                if output.name == name || output.alias.as_deref() == Some(name) =>
            {
                Some((k, output.field, Arc::clone(kernel)))
            }
            _ => None,
        })
    }

    /// What output `k`, an image, runs for samples of a part.
    pub(super) fn kernel_of(&self, k: usize, part: usize) -> Option<Arc<Kernel>> {
        match self.outputs[k].work_of(part) {
            FieldWork::Image(kernel) => Some(Arc::clone(kernel)),
            _ => None,
        }
    }

    /// The part of the dataset, here `source`, that a sample is of: 0 where it is all the same.
    pub(super) fn part(
        &self,
        source: &dyn Dataset,
        sample: SampleId,
        buffer: &mut Buffer,
    ) -> Result<usize, SampleCause> {
        if self.has_parts { Ok(source.part(sample, buffer)?) } else { Ok(0) }
    }

    /// What pictures may ask for.
    pub(super) fn limits(&self) -> &Limits {
        &self.setup.decode.limits
    }

    /// A decoder as workers have it.
    pub(super) fn decoder(&self) -> Decoder {
        Decoder::new(self.setup.decode)
    }

    /// What all draws of an output of a sample are a function of.
    pub(super) fn key(&self, epoch: Epoch, sample: SampleId, output: usize) -> SampleKey {
        self.outputs[output].draws.key(self.visit_key(epoch, Visit::once(sample)))
    }

    /// What all draws of a row are a function of.
    fn visit_key(&self, epoch: Epoch, visit: Visit) -> SampleKey {
        SampleKey::new(self.setup.seed, epoch.0, visit.sample.0).copy(visit.copy)
    }

    pub(super) fn explain(&self) -> String {
        let mut text = self.device_words();
        for output in self.outputs.iter() {
            let _ = writeln!(text, "{}:", output.title);
            text.push_str(&output.work.explain());
            for (part, work) in &output.of_parts {
                let _ =
                    write!(text, "{}, samples of part {part}:\n{}", output.title, work.explain());
            }
        }
        text
    }

    /// Where outputs with [`ToDevice`](fuseloop_ops::ToDevice) are made; nothing without any.
    fn device_words(&self) -> String {
        let placement = self.shared.site.placement();
        let on = self.outputs.iter().filter(|output| output.part.is_some());
        let on = on.map(|output| output.name.as_str()).collect::<Vec<_>>().join(", ");
        match (&placement.fallback, on.is_empty()) {
            (None, true) => String::new(),
            (Some(_), _) => format!("device: {placement}\n"),
            (None, false) => format!("device: {placement} ({on})\n"),
        }
    }

    /// Makes all outputs of one field of a sample. `rows` are those of all outputs of the batch.
    fn fill_field(
        &self,
        worker: &mut Worker,
        seat: &mut Seat<'_>,
        key: SampleKey,
        (field, outputs): &(usize, Vec<usize>),
        rows: &mut SampleRows<'_, '_>,
    ) -> Result<(), FillError> {
        let sample = SampleId(key.sample());
        let spec = &self.source.fields()[*field];
        let of_field = |cause| self.error(sample, &spec.name, *field, cause);
        let Worker { buffer, kept: kept_bytes, pictures, .. } = worker;
        // A number is in the table: looking at the clock would cost more than reading it.
        if !matches!(spec.kind, FieldKind::Int | FieldKind::Float) {
            pictures.watch.phase(Phase::Read);
        }
        let Seat { kept, keeper } = seat;
        let kept = kept.as_ref().and_then(|kept| kept.value(*field, kept_bytes));
        let is_kept = kept.is_some();
        let value = kept.map_or_else(|| self.source.value(sample, *field, buffer), Ok);
        let value = value.map_err(|error| of_field(error.into()))?;
        if let Value::Image(image) = value {
            let keeper = keeper.as_mut().map(|keeper| (*field, keeper));
            let filled = self.fill_images(pictures, keeper, key, &image, outputs, rows);
            pictures.decoded += u64::from(filled.is_ok() && !is_kept);
            return filled.map_err(of_field);
        }
        if let Some(keeper) = keeper {
            keeper.keep(*field, value);
        }
        for &k in outputs {
            let output = &self.outputs[k];
            let length = output
                .fill((sample, rows.part), value, rows.of(k))
                .map_err(|cause| self.error(sample, &output.name, *field, cause))?;
            self.tell_sizes(k, &[length], rows);
        }
        Ok(())
    }

    /// The part of the dataset that a sample is of.
    fn part_of(&self, sample: SampleId, buffer: &mut Buffer) -> Result<usize, FillError> {
        let part = self.part(&*self.source, sample, buffer);
        part.map_err(|cause| {
            let field = self.fields().next().unwrap_or(0);
            self.error(sample, &self.source.fields()[field].name, field, cause)
        })
    }

    /// Writes how large the sample of output `k` is, if its samples differ.
    fn tell_sizes(&self, k: usize, sizes: &[i64], rows: &mut SampleRows<'_, '_>) {
        let Some(tensor) = self.sizes[k] else { return };
        let (row, _) = rows.of(tensor).as_chunks_mut();
        row.iter_mut().zip(sizes).for_each(|(to, size)| *to = size.to_ne_bytes());
    }

    /// Draws for every output first, so that one decode serves them all.
    fn fill_images(
        &self,
        desk: &mut PictureDesk,
        keeper: Option<(usize, &mut Keeper<'_>)>,
        key: SampleKey,
        image: &EncodedImage<'_>,
        outputs: &[usize],
        rows: &mut SampleRows<'_, '_>,
    ) -> Result<(), SampleCause> {
        let PictureDesk { watch, decoder, scratch, draws, .. } = desk;
        if image.mode.is_coded() {
            watch.phase(Phase::Decode);
        }
        let (size, part) = (decoder.size(image)?, rows.part);
        let kernels = || outputs.iter().filter_map(|&k| self.outputs[k].kernel(k, part));
        draws.resize_with(outputs.len(), Draws::default);
        let mut wanted: Option<Window> = None;
        for ((k, kernel), draws) in kernels().zip(draws.iter_mut()) {
            kernel.plan().draw(self.outputs[k].draws.key(key), size, draws);
            kernel.plan().check_draws(draws, &self.setup.decode.limits)?;
            let own = kernel.plan().wanted(draws);
            wanted = Some(wanted.map_or(own, |wanted| around(wanted, own)));
        }
        let mut kept = outputs.iter().filter_map(|&k| self.outputs[k].collated(k));
        wanted = kept.try_fold(wanted, |wanted, (_, collated)| {
            let own = collated.window(size)?;
            Ok::<_, SampleCause>(Some(wanted.map_or(own, |wanted| around(wanted, own))))
        })?;
        let Some(wanted) = wanted else { return Ok(()) };
        let decoded = match keeper {
            Some((field, keeper)) => keeper.decode(field, decoder, image, (size, wanted))?,
            None => decoder.decode(image, wanted)?,
        };
        watch.phase(Phase::Kernel);
        let (top, left) = (decoded.top, decoded.left);
        for ((k, kernel), draws) in kernels().zip(draws.iter()) {
            let (source, row) = (Source { view: decoded.view, top, left, whole: size }, rows.of(k));
            let Some(Part::Image(part)) = &self.outputs[k].part else {
                kernel.try_run(scratch, source, draws, row)?;
                continue;
            };
            kernel.try_run(scratch, source, draws, &mut row[..kernel.plan().host_bytes()])?;
            part.record(draws, row);
        }
        for (k, collated) in outputs.iter().filter_map(|&k| self.outputs[k].collated(k)) {
            let picture = decoded.window(collated.window(size)?).expect("decoded, as wanted");
            collated.place(&picture, rows.of(k));
            let Size { height, width } = picture.size();
            self.tell_sizes(k, &[height.into(), width.into()], rows);
        }
        Ok(())
    }

    fn error(&self, sample: SampleId, name: &str, field: usize, cause: SampleCause) -> FillError {
        let error = SampleError::of(&*self.source, sample, (name, field), cause);
        FillError { sample, source: Box::new(error) }
    }
}

/// The outputs by the field they are made of, in the order of the fields' first outputs.
fn by_field(outputs: &[OutputWork]) -> Vec<(usize, Vec<usize>)> {
    let mut fields: Vec<(usize, Vec<usize>)> = vec![];
    for (k, output) in outputs.iter().enumerate() {
        match fields.iter_mut().find(|(field, _)| *field == output.field) {
            Some((_, outputs)) => outputs.push(k),
            None => fields.push((output.field, vec![k])),
        }
    }
    fields
}

/// The smallest window that holds both.
fn around(a: Window, b: Window) -> Window {
    let (top, left) = (a.top.min(b.top), a.left.min(b.left));
    let bottom = (a.top + a.height).max(b.top + b.height);
    let right = (a.left + a.width).max(b.left + b.width);
    Window { top, left, height: bottom - top, width: right - left }
}

/// The rows of one sample, in every output.
struct SampleRows<'a, 'b> {
    outputs: &'a mut [&'b mut [u8]],
    /// The sample's place among `count` whose rows these are.
    place: usize,
    count: usize,
    /// The part of the dataset that the sample is of.
    part: usize,
}

impl SampleRows<'_, '_> {
    /// The row of output `k`.
    fn of(&mut self, k: usize) -> &mut [u8] {
        let bytes = self.outputs[k].len() / self.count;
        &mut self.outputs[k][self.place * bytes..][..bytes]
    }
}

impl Stage for LoaderStage {
    type Worker = Worker;

    fn outputs(&self) -> &[TensorSpec] {
        &self.tensors
    }

    fn chunk(&self) -> NonZeroUsize {
        self.chunk
    }

    fn worker(&self, watch: Watch) -> Worker {
        Worker {
            buffer: Buffer::default(),
            kept: vec![],
            pictures: PictureDesk {
                watch,
                decoder: self.decoder(),
                scratch: Scratch::default(),
                draws: vec![],
                decoded: 0,
            },
            spare: vec![],
        }
    }

    fn fill(
        &self,
        worker: &mut Worker,
        epoch: Epoch,
        visits: &[Visit],
        rows: &mut RowsMut<'_>,
    ) -> Result<(), FillError> {
        worker.pictures.decoded = 0;
        // One look at the file's length serves a chunk of rows. If the file was cut, the engine asks for
        // each row alone, and then each read is checked; so is each read of what the cache will keep.
        let is_cached = self.shared.cache.is_some();
        worker.buffer.check_lengths_later(visits.len() > 1 && !is_cached);
        let mut outputs: Vec<&mut [u8]> = rows.outputs().collect();
        for (place, visit) in visits.iter().enumerate() {
            let key = self.visit_key(epoch, *visit);
            worker.pictures.watch.start(visit.sample, Phase::Read);
            worker.buffer.forget();
            let part = self.part_of(visit.sample, &mut worker.buffer)?;
            let mut rows = SampleRows { outputs: &mut outputs, place, count: visits.len(), part };
            let cache = self.shared.cache.as_ref();
            let mut seat = cache.map_or(Seat::EMPTY, |cache| cache.look(visit.sample));
            for field in &self.fields {
                self.fill_field(worker, &mut seat, key, field, &mut rows)?;
            }
            seat.end();
        }
        if let (Err(error), Some(first)) = (worker.buffer.check_lengths(), visits.first()) {
            return Err(FillError { sample: first.sample, source: error });
        }
        self.shared.decoded.fetch_add(worker.pictures.decoded, Ordering::Relaxed);
        Ok(())
    }

    fn damaged(&self, epoch: Epoch, visit: Visit, attempt: u32, error: &FillError) -> Damaged {
        let of_sample = error.source.downcast_ref::<SampleError>();
        let substitute = match self.setup.on_damaged {
            _ if let Some(SampleError { cause: SampleCause::Halt(halt), .. }) = of_sample => {
                // What a stream can't give is no damaged sample: there is nothing after it.
                return if matches!(halt, Halt::End { .. }) { Damaged::End } else { Damaged::Fail };
            }
            OnDamaged::Fail => return Damaged::Fail,
            OnDamaged::Skip => None,
            OnDamaged::Substitute if attempt >= MAX_SUBSTITUTES => return Damaged::Fail,
            OnDamaged::Substitute => self.substitute(epoch, visit, attempt),
        };
        self.shared.ward.note(error.sample, epoch, attempt, &error.source);
        substitute.map_or(Damaged::Skip, Damaged::Substitute)
    }

    fn finish(
        &self,
        worker: &mut Worker,
        epoch: Epoch,
        batch: u64,
        rows: &mut RowsMut<'_>,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        // Each rank mixes with shares of its own; one process alone, as if there were no ranks.
        let batch = batch * self.setup.world + self.setup.rank;
        let key = BatchKey::new(self.setup.seed, epoch.0, batch);
        mixing::mix_batch(&self.outputs, key, rows, &mut worker.spare)?;
        batch::pack(rows, &self.tensors);
        Ok(self.way.as_ref().map_or(Ok(()), |way| way.submit(rows))?)
    }
}
