//! One sample: read, drawn, decoded, and run through the compiled loop, for each output.

use super::builder::Setup;
use super::error::{SampleCause, SampleError};
use crate::batch::{RowsMut, TensorSpec};
use crate::decode::Decoder;
use crate::jit::{Kernel, Scratch, Source};
use crate::plan::label::Scalar;
use crate::plan::{Draws, LabelPlan};
use crate::run::{FillError, Stage};
use crate::sample::{Epoch, SampleId};
use crate::source::{Beton, EncodedImage, Value};
use fuseloop_ops::{DType, SampleKey};
use std::fmt::Write as _;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// What is done to one field.
#[derive(Debug)]
pub(super) enum FieldWork {
    /// Decoded and run through a kernel.
    Image(Arc<Kernel>),
    /// A number through scalar ops.
    Label(LabelPlan),
    /// Copied, with zeros after what is shorter than the longest.
    Copied { dtype: DType, shape: Vec<usize> },
}

impl FieldWork {
    fn dtype(&self) -> DType {
        match self {
            Self::Image(kernel) => kernel.plan().dtype(),
            Self::Label(plan) => plan.dtype(),
            Self::Copied { dtype, .. } => *dtype,
        }
    }

    fn shape(&self) -> Vec<usize> {
        match self {
            Self::Image(kernel) => kernel.plan().shape(),
            Self::Label(plan) => plan.shape().to_vec(),
            Self::Copied { shape, .. } => shape.clone(),
        }
    }

    /// Bytes of one sample.
    pub(super) fn row_bytes(&self) -> usize {
        let bytes = self.shape().iter().try_fold(self.dtype().bytes(), |a, &n| a.checked_mul(n));
        bytes.unwrap_or(usize::MAX)
    }
}

/// A field and what is done to it.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) field: usize,
    pub(super) name: String,
    pub(super) work: FieldWork,
}

/// Fills the rows of batches from a `.beton` file.
#[derive(Debug)]
pub(super) struct LoaderStage {
    source: Arc<Beton>,
    fields: Vec<Field>,
    tensors: Vec<TensorSpec>,
    epoch: Epoch,
    chunk: NonZeroUsize,
    setup: Setup,
}

/// What a worker keeps.
pub(super) struct Worker {
    decoder: Decoder,
    scratch: Scratch,
    draws: Draws,
}

/// Bytes that a worker makes before it asks for more work, where samples are small: enough that
/// asking costs nothing, few enough that workers end a batch together.
const CHUNK_BYTES: usize = 64 << 10;

/// Most samples at once.
const CHUNK_SAMPLES: usize = 32;

impl LoaderStage {
    pub(super) fn new(source: Arc<Beton>, fields: Vec<Field>, epoch: Epoch, setup: &Setup) -> Self {
        let tensors = fields.iter().map(|field| TensorSpec {
            name: field.name.clone(),
            dtype: field.work.dtype(),
            shape: field.work.shape(),
        });
        let tensors = tensors.collect();
        let row: usize = fields.iter().map(|field| field.work.row_bytes()).sum();
        let has_jpeg =
            fields.iter().any(|f| source.image_stats(f.field).is_some_and(|stats| stats.jpeg > 0));
        let fitting = (CHUNK_BYTES / row.max(1)).clamp(1, CHUNK_SAMPLES);
        let chunk = if has_jpeg { 1 } else { fitting };
        let chunk = NonZeroUsize::new(chunk).unwrap_or(NonZeroUsize::MIN);
        Self { source, fields, tensors, epoch, chunk, setup: *setup }
    }

    /// The epoch that the pipelines were made for.
    pub(super) fn epoch(&self) -> Epoch {
        self.epoch
    }

    pub(super) fn tensors(&self) -> &[TensorSpec] {
        &self.tensors
    }

    pub(super) fn compile_time(&self) -> Duration {
        let times = self.fields.iter().map(|field| match &field.work {
            FieldWork::Image(kernel) => kernel.compile_time(),
            _ => Duration::ZERO,
        });
        times.sum()
    }

    /// An image field of this name: its place in the file, and what it runs.
    pub(super) fn kernel(&self, name: &str) -> Option<(usize, Arc<Kernel>)> {
        self.fields.iter().find_map(|field| match &field.work {
            FieldWork::Image(kernel) if field.name == name => {
                Some((field.field, Arc::clone(kernel)))
            }
            _ => None,
        })
    }

    /// A decoder as workers have it.
    pub(super) fn decoder(&self) -> Decoder {
        Decoder::new(self.setup.decode)
    }

    /// What all draws of a field of a sample are a function of.
    pub(super) fn key(&self, epoch: Epoch, sample: SampleId, field: usize) -> SampleKey {
        SampleKey::new(self.setup.seed, epoch.0, sample.0).field(field)
    }

    pub(super) fn explain(&self) -> String {
        let mut text = String::new();
        for field in &self.fields {
            let _ = writeln!(text, "field {}:", crate::source::Escaped(&field.name));
            match &field.work {
                FieldWork::Image(kernel) => text.push_str(&kernel.explain()),
                FieldWork::Label(plan) => {
                    let ops: Vec<&str> = plan.ops().iter().map(|op| op.name()).collect();
                    let ops = if ops.is_empty() { "copied".into() } else { ops.join(", ") };
                    let _ = writeln!(text, "scalar code: {ops}");
                }
                FieldWork::Copied { .. } => text.push_str("copied\n"),
            }
        }
        text
    }

    fn fill_row(
        &self,
        worker: &mut Worker,
        epoch: Epoch,
        sample: SampleId,
        field: &Field,
        row: &mut [u8],
    ) -> Result<(), SampleCause> {
        let value = self.source.value(sample, field.field).map_err(|error| error.kind)?;
        match (&field.work, value) {
            (FieldWork::Image(kernel), Value::Image(image)) => {
                image_row(worker, kernel, self.key(epoch, sample, field.field), &image, row)
            }
            (FieldWork::Label(plan), Value::Int(label)) => {
                Ok(plan.run(sample.0, Scalar::Int(label), row)?)
            }
            (FieldWork::Label(plan), Value::Float(number)) => {
                Ok(plan.run(sample.0, Scalar::Float(number), row)?)
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

    fn error(&self, sample: SampleId, field: &Field, cause: SampleCause) -> FillError {
        FillError { sample, source: Box::new(self.sample_error(&field.name, cause)) }
    }

    pub(super) fn sample_error(&self, field: &str, cause: SampleCause) -> SampleError {
        let path = self.source.path().unwrap_or_else(|| Path::new("memory")).to_path_buf();
        SampleError { path, field: field.to_owned(), cause }
    }
}

fn image_row(
    worker: &mut Worker,
    kernel: &Kernel,
    key: SampleKey,
    image: &EncodedImage<'_>,
    row: &mut [u8],
) -> Result<(), SampleCause> {
    let size = worker.decoder.size(image)?;
    kernel.plan().draw(key, size, &mut worker.draws);
    let wanted = kernel.plan().wanted(&worker.draws);
    let decoded = worker.decoder.decode(image, wanted)?;
    let source = Source { view: decoded.view, top: decoded.top, left: decoded.left, whole: size };
    kernel.run(&mut worker.scratch, source, &worker.draws, row);
    Ok(())
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
        Worker { decoder: self.decoder(), scratch: Scratch::default(), draws: Draws::default() }
    }

    fn fill(
        &self,
        worker: &mut Worker,
        epoch: Epoch,
        samples: &[SampleId],
        rows: &mut RowsMut<'_>,
    ) -> Result<(), FillError> {
        let mut outputs: Vec<&mut [u8]> = rows.outputs().collect();
        for (i, &sample) in samples.iter().enumerate() {
            for (field, out) in self.fields.iter().zip(&mut outputs) {
                let bytes = out.len() / samples.len();
                let row = &mut out[i * bytes..(i + 1) * bytes];
                self.fill_row(worker, epoch, sample, field, row)
                    .map_err(|cause| self.error(sample, field, cause))?;
            }
        }
        Ok(())
    }
}
