//! One sample of one image output, opened up: its draws, its decoded pixels, its row of a batch.
//!
//! An [`Inspector`] runs what a worker runs, with the same seed, so that any sample of any epoch
//! can be made again, bit for bit, without the ones before it.

use super::error::{SampleCause, SampleError};
use super::stage::LoaderStage;
use super::{LoadError, Loader};
use crate::decode::Decoder;
use crate::jit::{Kernel, Scratch, Source, try_evaluate};
use crate::plan::Draws;
use crate::sample::{Epoch, SampleId};
use crate::source::{Buffer, EncodedImage, Source as Dataset, Upcoming, Value};
use fuseloop_ops::{ImageView, SampleKey, Size, Window, memory};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A run that asks for nothing: samples of it are read as they are asked for.
struct Nothing;

impl Upcoming for Nothing {
    fn samples(&self) -> u64 {
        0
    }

    fn at(&self, _: Range<u64>, _: &mut Vec<SampleId>) {}
}

/// Opens samples of one image field in one epoch; see [`Loader::inspect`].
pub struct Inspector {
    source: Arc<dyn Dataset>,
    stage: Arc<LoaderStage>,
    kernel: Arc<Kernel>,
    output: usize,
    field: usize,
    epoch: Epoch,
    decoder: Decoder,
    scratch: Scratch,
    buffer: Buffer,
}

/// One sample, as a worker has it before its ops run.
#[derive(Clone, Debug)]
pub struct Inspected {
    /// What was drawn for it.
    pub draws: Draws,
    /// The window of the picture that is decoded for these draws.
    pub wanted: Window,
    /// The whole decoded picture, packed.
    pub pixels: Vec<u8>,
    /// Its row of the batch.
    pub row: Vec<u8>,
}

impl Inspected {
    /// The decoded picture.
    ///
    /// # Panics
    ///
    /// Never: the pixels are of the draws' size.
    #[must_use]
    pub fn picture(&self) -> ImageView<'_> {
        ImageView::packed(&self.pixels, self.draws.source).expect("decoded whole")
    }
}

/// What a sample took, stage by stage, and the bytes that moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Phases {
    /// Reading the stored bytes.
    pub read: Duration,
    /// Its size, from the headers.
    pub headers: Duration,
    /// The draws of all ops.
    pub draw: Duration,
    /// Decoding what the draws want.
    pub decode: Duration,
    /// The compiled loops.
    pub compiled: Duration,
    /// Bytes stored in the file.
    pub stored_bytes: usize,
    /// The picture.
    pub picture: Size,
    /// What was decoded of it, at least what the draws want.
    pub decoded: Size,
}

impl Phases {
    /// All of it.
    #[must_use]
    pub fn total(&self) -> Duration {
        self.read + self.headers + self.draw + self.decode + self.compiled
    }
}

impl Loader {
    /// Opens samples of the image output `field` (a field's, a view or a branch) as epoch `epoch`
    /// makes them; `None` if the batches have no such image.
    ///
    /// # Errors
    ///
    /// As [`epoch`](Self::epoch).
    pub fn inspect(&self, field: &str, epoch: u32) -> Result<Option<Inspector>, LoadError> {
        let epoch = Epoch(epoch);
        let stage = self.stage(epoch)?;
        let Some((output, field, kernel)) = stage.image(field) else { return Ok(None) };
        let pass = if self.stream.is_some() {
            self.reading_ahead(&stage, epoch, Arc::new(Nothing))?
        } else {
            None
        };
        Ok(Some(Inspector {
            source: pass.unwrap_or_else(|| Arc::clone(&self.source)),
            decoder: stage.decoder(),
            stage,
            kernel,
            output,
            field,
            epoch,
            scratch: Scratch::default(),
            buffer: Buffer::default(),
        }))
    }
}

impl Inspector {
    /// The compiled plan; where parts of the dataset have others, that of the rest.
    #[must_use]
    pub fn kernel(&self) -> &Arc<Kernel> {
        &self.kernel
    }

    /// Opens a sample.
    ///
    /// # Errors
    ///
    /// If there is no such sample, or it is damaged.
    pub fn sample(&mut self, sample: u64) -> Result<Inspected, SampleError> {
        self.open(SampleId(sample)).map_err(|cause| self.error(sample, cause))
    }

    /// Runs a sample `rounds` times and gives the median of each phase; of reading the first.
    /// `each` is then given what the compiled loop gets.
    ///
    /// # Errors
    ///
    /// As [`sample`](Self::sample).
    pub fn time(
        &mut self,
        sample: u64,
        rounds: usize,
        each: impl FnOnce(Source<'_>, &Draws),
    ) -> Result<Phases, SampleError> {
        self.phases(SampleId(sample), rounds, each).map_err(|cause| self.error(sample, cause))
    }

    fn error(&self, sample: u64, cause: SampleCause) -> SampleError {
        let name = self.source.fields()[self.field].name.as_str();
        SampleError::of(&*self.source, SampleId(sample), (name, self.field), cause)
    }

    fn key(&self, sample: SampleId) -> SampleKey {
        self.stage.key(self.epoch, sample, self.output)
    }

    /// What the sample runs. It is read anew from here on.
    fn kernel_of(&mut self, sample: SampleId) -> Result<Arc<Kernel>, SampleCause> {
        self.buffer.forget();
        let part = self.stage.part(&*self.source, sample, &mut self.buffer)?;
        let own = self.stage.kernel_of(self.output, part);
        Ok(own.unwrap_or_else(|| Arc::clone(&self.kernel)))
    }

    fn open(&mut self, sample: SampleId) -> Result<Inspected, SampleCause> {
        let (source, key) = (Arc::clone(&self.source), self.key(sample));
        let kernel = self.kernel_of(sample)?;
        let image = image(&*source, sample, self.field, &mut self.buffer)?;
        let size = self.decoder.size(&image)?;
        let plan = kernel.plan();
        let mut draws = Draws::default();
        plan.draw(key, size, &mut draws);
        plan.check_draws(&draws, self.stage.limits())?;
        let wanted = plan.wanted(&draws);
        let decoded = self.decoder.decode(&image, wanted)?;
        let part = Source { view: decoded.view, top: decoded.top, left: decoded.left, whole: size };
        let mut row = vec![];
        memory::resize(&mut row, plan.host_bytes(), "a row")?;
        kernel.try_run(&mut self.scratch, part, &draws, &mut row)?;
        let whole = self.decoder.decode(&image, size.full())?;
        if plan.staged().is_some() {
            row = try_evaluate(plan, &whole.view, &draws)?; // what a device makes, bit for bit
        }
        let mut pixels = memory::with_capacity((3 * size.pixels()) as usize, "a picture")?;
        (0..size.height).for_each(|y| pixels.extend_from_slice(whole.view.row(y)));
        Ok(Inspected { draws, wanted, pixels, row })
    }

    fn phases(
        &mut self,
        sample: SampleId,
        rounds: usize,
        each: impl FnOnce(Source<'_>, &Draws),
    ) -> Result<Phases, SampleCause> {
        let (source, key) = (Arc::clone(&self.source), self.key(sample));
        let start = Instant::now();
        let kernel = self.kernel_of(sample)?;
        let image = image(&*source, sample, self.field, &mut self.buffer)?;
        let read = start.elapsed();
        let plan = kernel.plan();
        let mut times = [const { vec![] }; 4];
        let (mut draws, mut row) = (Draws::default(), vec![]);
        memory::resize(&mut row, plan.host_bytes(), "a row")?;
        let mut size = Size::default();
        for _ in 0..rounds.max(1) {
            let start = Instant::now();
            size = self.decoder.size(&image)?;
            let headers = Instant::now();
            plan.draw(key, size, &mut draws);
            plan.check_draws(&draws, self.stage.limits())?;
            let wanted = plan.wanted(&draws);
            let drawn = Instant::now();
            let decoded = self.decoder.decode(&image, wanted)?;
            let decoding = Instant::now();
            let part =
                Source { view: decoded.view, top: decoded.top, left: decoded.left, whole: size };
            kernel.try_run(&mut self.scratch, part, &draws, &mut row)?;
            let ends = [start, headers, drawn, decoding, Instant::now()];
            for (times, pair) in times.iter_mut().zip(ends.windows(2)) {
                times.push(pair[1] - pair[0]);
            }
        }
        let decoded = self.decoder.decode(&image, plan.wanted(&draws))?;
        let part = Source { view: decoded.view, top: decoded.top, left: decoded.left, whole: size };
        each(part, &draws);
        let [headers, draw, decode, compiled] = times.map(median);
        let (stored_bytes, decoded) = (image.bytes.len(), decoded.view.size());
        Ok(Phases { read, headers, draw, decode, compiled, stored_bytes, picture: size, decoded })
    }
}

fn image<'a>(
    source: &'a dyn Dataset,
    sample: SampleId,
    field: usize,
    buffer: &'a mut Buffer,
) -> Result<EncodedImage<'a>, SampleCause> {
    match source.value(sample, field, buffer)? {
        Value::Image(image) => Ok(image),
        other => unreachable!("a field's kind does not change: {other:?}"),
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
