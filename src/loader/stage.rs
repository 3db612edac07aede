//! One sample: read once, drawn for each output, decoded once, and run through the compiled loops.

use super::builder::Setup;
use super::error::{SampleCause, SampleError};
use super::mixing::Mix;
use super::outputs::DrawsOf;
use crate::batch::{RowsMut, TensorSpec};
use crate::decode::Decoder;
use crate::jit::{Kernel, Scratch, Source};
use crate::plan::label::Scalar;
use crate::plan::{ArrayPlan, Draws, LabelPlan};
use crate::run::{FillError, Stage};
use crate::sample::{Epoch, SampleId, Visit};
use crate::source::{Buffer, EncodedImage, FieldKind, Source as Dataset, Value};
use fuseloop_ops::{BatchKey, DType, Ops, SampleKey, Window};
use std::error::Error;
use std::fmt::Write as _;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What is done to a field for one output.
#[derive(Debug)]
pub(super) enum FieldWork {
    /// Decoded and run through a kernel.
    Image(Arc<Kernel>),
    /// A number through scalar ops.
    Label(LabelPlan),
    /// An array, element by element.
    Array(ArrayPlan),
    /// Copied, with zeros after what is shorter than the longest.
    Copied { dtype: DType, shape: Vec<usize> },
}

impl FieldWork {
    fn dtype(&self) -> DType {
        match self {
            Self::Image(kernel) => kernel.plan().dtype(),
            Self::Label(plan) => plan.dtype(),
            Self::Array(plan) => plan.dtype(),
            Self::Copied { dtype, .. } => *dtype,
        }
    }

    fn shape(&self) -> Vec<usize> {
        match self {
            Self::Image(kernel) => kernel.plan().shape(),
            Self::Label(plan) => plan.shape().to_vec(),
            Self::Array(plan) => plan.shape().to_vec(),
            Self::Copied { shape, .. } => shape.clone(),
        }
    }

    /// The ops, in order.
    pub(super) fn ops(&self) -> &Ops {
        const NONE: &Ops = &Ops::new();
        match self {
            Self::Image(kernel) => kernel.plan().ops(),
            Self::Label(plan) => plan.ops(),
            Self::Array(plan) => plan.ops(),
            Self::Copied { .. } => NONE,
        }
    }

    /// Bytes of one sample.
    pub(super) fn row_bytes(&self) -> usize {
        let bytes = self.shape().iter().try_fold(self.dtype().bytes(), |a, &n| a.checked_mul(n));
        bytes.unwrap_or(usize::MAX)
    }
}

/// One output: the field it is made of, and what is done to that.
#[derive(Debug)]
pub(super) struct OutputWork {
    pub(super) name: String,
    pub(super) field: usize,
    pub(super) draws: DrawsOf,
    pub(super) title: String,
    pub(super) work: FieldWork,
    /// How finished batches are mixed, if they are.
    pub(super) mix: Option<Mix>,
}

/// Fills the rows of batches from a source.
pub(super) struct LoaderStage {
    source: Arc<dyn Dataset>,
    outputs: Arc<[OutputWork]>,
    /// The fields that are read, each with the outputs made of it.
    fields: Vec<(usize, Vec<usize>)>,
    tensors: Vec<TensorSpec>,
    epoch: Epoch,
    chunk: NonZeroUsize,
    setup: Setup,
    /// Pictures decoded, over all epochs.
    decoded: Arc<AtomicU64>,
}

/// What a worker keeps.
pub(super) struct Worker {
    /// What a value is read into.
    buffer: Buffer,
    pictures: PictureDesk,
    /// A row of a batch that is mixed.
    spare: Vec<u8>,
}

/// What pictures are worked at with.
struct PictureDesk {
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
        epoch: Epoch,
        setup: &Setup,
        decoded: Arc<AtomicU64>,
    ) -> Self {
        let tensors = outputs.iter().map(|output| TensorSpec {
            name: output.name.clone(),
            dtype: output.work.dtype(),
            shape: output.work.shape(),
        });
        let tensors = tensors.collect();
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
        let outputs = outputs.into();
        Self { source, outputs, fields, tensors, epoch, chunk, setup: *setup, decoded }
    }

    /// The same, reading its samples from `source`.
    pub(super) fn reading(&self, source: Arc<dyn Dataset>) -> Self {
        Self {
            source,
            outputs: Arc::clone(&self.outputs),
            fields: self.fields.clone(),
            tensors: self.tensors.clone(),
            decoded: Arc::clone(&self.decoded),
            ..*self
        }
    }

    /// The fields that are read.
    pub(super) fn fields_read(&self) -> Vec<usize> {
        self.fields.iter().map(|(field, _)| *field).collect()
    }

    /// The epoch that the pipelines were made for.
    pub(super) fn epoch(&self) -> Epoch {
        self.epoch
    }

    pub(super) fn tensors(&self) -> &[TensorSpec] {
        &self.tensors
    }

    pub(super) fn compile_time(&self) -> Duration {
        let times = self.outputs.iter().map(|output| match &output.work {
            FieldWork::Image(kernel) => kernel.compile_time(),
            _ => Duration::ZERO,
        });
        times.sum()
    }

    /// The image output of this name: its number, its field's place in the file, and what it runs.
    pub(super) fn image(&self, name: &str) -> Option<(usize, usize, Arc<Kernel>)> {
        self.outputs.iter().enumerate().find_map(|(k, output)| match &output.work {
            FieldWork::Image(kernel) if output.name == name => {
                Some((k, output.field, Arc::clone(kernel)))
            }
            _ => None,
        })
    }

    /// A decoder as workers have it.
    pub(super) fn decoder(&self) -> Decoder {
        Decoder::new(self.setup.decode)
    }

    /// What all draws of an output of a sample are a function of.
    pub(super) fn key(&self, epoch: Epoch, sample: SampleId, output: usize) -> SampleKey {
        self.outputs[output].draws.key(SampleKey::new(self.setup.seed, epoch.0, sample.0))
    }

    pub(super) fn explain(&self) -> String {
        let mut text = String::new();
        for output in self.outputs.iter() {
            let _ = writeln!(text, "{}:", output.title);
            match &output.work {
                FieldWork::Image(kernel) => text.push_str(&kernel.explain()),
                FieldWork::Label(_) | FieldWork::Array(_) => {
                    let ops = output.work.ops();
                    let ops: Vec<&str> = ops.iter().map(|op| op.name()).collect();
                    let ops = if ops.is_empty() { "copied".into() } else { ops.join(", ") };
                    let _ = writeln!(text, "scalar code: {ops}");
                }
                FieldWork::Copied { .. } => text.push_str("copied\n"),
            }
        }
        text
    }

    /// Makes all outputs of one field of a sample. `rows` are those of all outputs of the batch.
    fn fill_field(
        &self,
        worker: &mut Worker,
        key: SampleKey,
        (field, outputs): &(usize, Vec<usize>),
        rows: &mut SampleRows<'_, '_>,
    ) -> Result<(), FillError> {
        let sample = SampleId(key.sample());
        let of_field = |cause| self.error(sample, &self.source.fields()[*field].name, cause);
        let Worker { buffer, pictures, .. } = worker;
        let value = self.source.value(sample, *field, buffer);
        let value = value.map_err(|error| of_field(error.into()))?;
        if let Value::Image(image) = value {
            return self.fill_images(pictures, key, &image, outputs, rows).map_err(of_field);
        }
        for &k in outputs {
            let output = &self.outputs[k];
            output
                .fill(sample, value, rows.of(k))
                .map_err(|cause| self.error(sample, &output.name, cause))?;
        }
        Ok(())
    }

    /// Draws for every output first, so that one decode serves them all.
    fn fill_images(
        &self,
        desk: &mut PictureDesk,
        key: SampleKey,
        image: &EncodedImage<'_>,
        outputs: &[usize],
        rows: &mut SampleRows<'_, '_>,
    ) -> Result<(), SampleCause> {
        let PictureDesk { decoder, scratch, draws, decoded: count } = desk;
        let size = decoder.size(image)?;
        let kernels = || outputs.iter().filter_map(|&k| self.outputs[k].kernel(k));
        draws.resize_with(outputs.len(), Draws::default);
        let mut wanted: Option<Window> = None;
        for ((k, kernel), draws) in kernels().zip(draws.iter_mut()) {
            kernel.plan().draw(self.outputs[k].draws.key(key), size, draws);
            let own = kernel.plan().wanted(draws);
            wanted = Some(wanted.map_or(own, |wanted| around(wanted, own)));
        }
        let Some(wanted) = wanted else { return Ok(()) };
        let decoded = decoder.decode(image, wanted)?;
        *count += 1;
        let (top, left) = (decoded.top, decoded.left);
        for ((k, kernel), draws) in kernels().zip(draws.iter()) {
            let source = Source { view: decoded.view, top, left, whole: size };
            kernel.run(scratch, source, draws, rows.of(k));
        }
        Ok(())
    }

    fn error(&self, sample: SampleId, field: &str, cause: SampleCause) -> FillError {
        FillError { sample, source: Box::new(self.sample_error(field, cause)) }
    }

    pub(super) fn sample_error(&self, field: &str, cause: SampleCause) -> SampleError {
        SampleError { dataset: self.source.name(), field: field.to_owned(), cause }
    }
}

impl OutputWork {
    /// Its kernel, if it is made of images, with the output's own number `k`.
    fn kernel(&self, k: usize) -> Option<(usize, &Kernel)> {
        match &self.work {
            FieldWork::Image(kernel) => Some((k, kernel)),
            _ => None,
        }
    }

    /// Makes what is not an image.
    fn fill(&self, sample: SampleId, value: Value<'_>, row: &mut [u8]) -> Result<(), SampleCause> {
        match (&self.work, value) {
            (FieldWork::Label(plan), Value::Int(label)) => {
                Ok(plan.run(sample.0, Scalar::Int(label), row)?)
            }
            (FieldWork::Label(plan), Value::Float(number)) => {
                Ok(plan.run(sample.0, Scalar::Float(number), row)?)
            }
            (FieldWork::Array(plan), Value::NdArray(stored)) => {
                plan.run(stored, row);
                Ok(())
            }
            (
                FieldWork::Copied { .. },
                Value::Bytes(b) | Value::Json(b) | Value::NdArray(b) | Value::Custom(b),
            ) => {
                let (head, tail) = row.split_at_mut(b.len().min(row.len()));
                head.copy_from_slice(&b[..head.len()]);
                tail.fill(0);
                Ok(())
            }
            (work, value) => unreachable!("a field's kind does not change: {work:?}, {value:?}"),
        }
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

    fn worker(&self) -> Worker {
        Worker {
            buffer: Buffer::default(),
            pictures: PictureDesk {
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
        let mut outputs: Vec<&mut [u8]> = rows.outputs().collect();
        for (place, visit) in visits.iter().enumerate() {
            let key = SampleKey::new(self.setup.seed, epoch.0, visit.sample.0).copy(visit.copy);
            let mut rows = SampleRows { outputs: &mut outputs, place, count: visits.len() };
            worker.buffer.forget();
            for field in &self.fields {
                self.fill_field(worker, key, field, &mut rows)?;
            }
        }
        self.decoded.fetch_add(worker.pictures.decoded, Ordering::Relaxed);
        Ok(())
    }

    fn finish(
        &self,
        worker: &mut Worker,
        epoch: Epoch,
        batch: u64,
        rows: &mut RowsMut<'_>,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        let (key, count) = (BatchKey::new(self.setup.seed, epoch.0, batch), rows.len());
        for (k, output) in self.outputs.iter().enumerate() {
            if let Some(mix) = &output.mix {
                mix.apply(output.work.ops(), key, count, rows.output(k), &mut worker.spare);
            }
        }
        Ok(())
    }
}
