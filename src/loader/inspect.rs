//! Inspects one sample of one image output: its draws, its decoded pixels, its row of a batch.
//!
//! An [`Inspector`] runs the same code as a worker, with the same seed, so any sample of any epoch can
//! be reproduced, bit for bit, without the samples before it.

mod frame_times;
mod strip;

pub use strip::StripImage;
pub(crate) use strip::WholeFrame;

use super::Loader;
use super::classes;
use super::error::{no_image_output, of_sample};
use super::inspected_targets::{InspectedTargets, TargetPlans, TargetReader};
use super::opened_image::OpenedImage;
use super::outputs::listed;
use super::stage::LoaderStage;
use super::target_rows::TargetValues;
use super::targets::other_size;
use super::work::{ImageRow, open_image};
use crate::decode::{Decoder, ImageReadMode};
use crate::error::{Error, fail};
use crate::jit::{
    self, DecodedPixels, EvaluatedStep, Kernel, Scratch, ShownLevels, evaluate_steps, try_evaluate,
};
use crate::order::Subset;
use crate::plan::{Draws, ImagePlan};
use crate::sample::{Epoch, Limits, SampleId, UNKNOWN};
use crate::source::{Buffer, Escaped, Source, Upcoming, Value};
use fuseloop_kernels::planes;
use fuseloop_ops::Size;
use fuseloop_ops::author::{ImageType, Objects, Window};
use fuseloop_ops::internals::DefaultFloats;
use fuseloop_ops::internals::memory::NoMemory;
use fuseloop_ops::internals::{ImageView, PixelFormat, SampleKey, memory};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A run without upcoming samples: each sample is read when it is requested.
struct EmptyRun;

impl Upcoming for EmptyRun {
    fn samples(&self) -> u64 {
        0
    }

    fn at(&self, _: Range<u64>, _: &mut Vec<SampleId>) {}
}

/// Inspects samples of one image field in one epoch; see `Loader::inspect`.
pub struct Inspector {
    source: Arc<dyn Source>,
    stage: Arc<LoaderStage>,
    kernel: Arc<Kernel>,
    output: usize,
    field: usize,
    mode: ImageReadMode,
    targets: Option<Arc<TargetPlans>>,
    epoch: Epoch,
    decoder: Decoder,
    scratch: Scratch,
    buffer: Buffer,
    /// The most pixels of an image that ops produce, unless the stored image has more.
    most_made: u64,
}

/// One inspected sample.
#[derive(Clone)]
pub struct Inspected {
    /// The sample.
    pub sample: SampleId,
    /// The draws of the sample, in pixels of the stored image.
    pub draws: Draws,
    /// The same draws for the image that was decoded, if its scale is smaller.
    pub scaled: Option<Box<Draws>>,
    /// The window of the image that is decoded for these draws.
    pub wanted: Window,
    /// The whole decoded image, packed, channels last.
    pub pixels: Vec<u8>,
    /// The elements of a pixel.
    pub format: PixelFormat,
    /// The sample's row of the batch.
    pub row: Vec<u8>,
    /// The compiled plan that the sample runs.
    pub kernel: Arc<Kernel>,
}

/// The draws of a sample and its row, computed from an image that was decoded before.
#[derive(Clone)]
pub struct DrawnRow {
    /// The draws of the sample.
    pub draws: Draws,
    /// The sample's row of the batch.
    pub row: Vec<u8>,
    /// The compiled plan that the sample runs.
    pub kernel: Arc<Kernel>,
}

impl Inspected {
    /// Returns the decoded image.
    ///
    /// # Panics
    ///
    /// Never: the pixels have the size in the draws.
    #[must_use]
    pub fn picture(&self) -> ImageView<'_> {
        let size = self.run_draws().source;
        let view = ImageView::packed_format(&self.pixels, size, self.format);
        view.expect("decoded whole")
    }

    /// Returns the draws that ran: those for the image that was decoded.
    #[must_use]
    pub fn run_draws(&self) -> &Draws {
        self.scaled.as_deref().unwrap_or(&self.draws)
    }

    /// Returns the size of the stored image in words, and that of the decoded one if its scale is smaller.
    #[must_use]
    pub fn size_words(&self) -> String {
        let stored = self.draws.source;
        match &self.scaled {
            Some(scaled) => format!("{stored}, decoded at {}", scaled.source),
            None => stored.to_string(),
        }
    }

    /// Returns the decoded image for display: its bytes, or the smallest value of another array as black and the
    /// largest as white. Shows the channels `bands`, or the first ones if there are none.
    ///
    /// # Errors
    ///
    /// If the system has no memory for the levels.
    pub fn shown(&self, bands: &[usize]) -> Result<ShownLevels, NoMemory> {
        jit::shown(&self.picture(), bands)
    }
}

/// The time of each phase of a sample, or of one of its frames, and the bytes that were read and decoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Phases {
    /// Reading the stored bytes.
    pub read: Duration,
    /// Reading the size of the image from its headers.
    pub headers: Duration,
    /// Drawing for all ops.
    pub draw: Duration,
    /// Decoding the window that the draws need.
    pub decode: Duration,
    /// Running the compiled loops.
    pub compiled: Duration,
    /// Bytes stored in the file; 0 of a frame that is decoded from packets.
    pub stored_bytes: usize,
    /// The size of the image.
    pub picture: Size,
    /// The size of the decoded part, at least the window that the draws need.
    pub decoded: Size,
    /// True if the image was decoded at a smaller scale.
    pub is_scaled: bool,
}

impl Phases {
    /// Returns the total time.
    #[must_use]
    pub fn total(&self) -> Duration {
        self.read + self.headers + self.draw + self.decode + self.compiled
    }
}

impl Loader {
    /// Returns an inspector of the image output `name` (a field's output, a view or a branch) in epoch
    /// `epoch`; `None` if there is no such image output.
    ///
    /// # Errors
    ///
    /// See [`epoch`](Self::epoch).
    #[doc(hidden)]
    pub fn inspect(&self, name: &str, epoch: u32) -> Result<Option<Inspector>, Error> {
        let epoch = Epoch(epoch);
        let stage = self.stage(epoch)?;
        let Some((output, field, kernel)) = stage.image(name) else { return Ok(None) };
        let mode = stage.read_mode(output);
        let targets = stage.targets_of(output).map(|group| {
            let (source, names) = (&*self.source, classes::names(&*self.source)?);
            let plans = TargetPlans::new(source, name, group, kernel.plan(), names)?;
            Ok::<_, Error>(Arc::new(plans))
        });
        let targets = targets.transpose()?;
        let pass = if self.stream.is_some() {
            // The order of a stream is no list.
            self.run_start(self.order(epoch)?, epoch, &stage).reading_ahead(Arc::new(EmptyRun))?
        } else {
            None
        };
        Ok(Some(Inspector {
            source: Arc::clone(pass.as_deref().unwrap_or(&self.source)),
            decoder: stage.decoder(),
            most_made: u64::MAX,
            stage,
            kernel,
            output,
            field,
            mode,
            targets,
            epoch,
            scratch: Scratch::default(),
            buffer: Buffer::default(),
        }))
    }
}

/// The image outputs of a loader, and what is shown beside a sample.
impl Loader {
    /// Returns the name of the image output that is asked for, or of the first one.
    ///
    /// # Errors
    ///
    /// If there is no such output, or it has no images.
    #[doc(hidden)]
    pub fn image_output(&self, asked: Option<&str>) -> Result<String, Error> {
        let stage = Arc::clone(&self.compiled().stage);
        let Some(name) = asked else {
            let first = stage.images().next().map(str::to_owned);
            return first.ok_or_else(|| no_image_output(&listed(stage.names())));
        };
        if stage.image(name).is_some() {
            return Ok(name.to_owned());
        }
        let known = listed(stage.images());
        Err(match stage.names().any(|other| *other == *name) {
            true => fail!(Field, "output {name} has no images; available: {known}").of_field(name),
            false => fail!(Field, "no output named {name}; available: {known}").of_field(name),
        })
    }

    /// Returns the samples that an epoch chooses from; `None` for a stream of unknown length.
    pub(crate) fn chosen(&self) -> Option<&Subset> {
        Some(self.order.subset()).filter(|chosen| chosen.len() != UNKNOWN)
    }

    /// Returns the number of images that each sample of an output has, or the maximum of lists; `None` if it is one image.
    #[doc(hidden)]
    #[must_use]
    pub fn images_of_sample(&self, output: &str) -> Option<usize> {
        let stage = Arc::clone(&self.compiled().stage);
        let (output, ..) = stage.image(output)?;
        // Masks of frames are seen over these.
        let row = stage.image_row(output).filter(|_| stage.followed_by(output).is_none());
        row.map(ImageRow::count)
    }

    /// Returns true if the samples are read in sequence.
    pub(crate) fn is_stream(&self) -> bool {
        self.stream.is_some()
    }

    /// Returns the numbers stored with a sample, such as `label 3`.
    #[doc(hidden)]
    pub fn labels(&self, sample: u64) -> Vec<String> {
        let source = &self.source;
        let label = |(index, _)| {
            let name = Escaped(source.field_name(index));
            match source.value(SampleId(sample), index, &mut Buffer::default()).ok()? {
                Value::Int(label) => Some(format!("{name} {label}")),
                Value::Float(number) => Some(format!("{name} {number}")),
                _ => None,
            }
        };
        source.fields().iter().enumerate().filter_map(label).collect()
    }
}

/// Returns the pixels of an image without gaps, channels last.
fn packed(view: &ImageView<'_>) -> Result<Vec<u8>, NoMemory> {
    let mut pixels = vec![];
    if view.plane(0).is_some() {
        planes::joined(view, &mut pixels)?;
    } else {
        let size = view.size();
        let bytes = view.format().pixel_bytes() * size.pixels() as usize;
        memory::reserve(&mut pixels, bytes, "an image")?;
        (0..size.height).for_each(|y| pixels.extend_from_slice(view.row(y)));
    }
    Ok(pixels)
}

/// The most pixels of an image that is inspected: a file of some bytes may have a hundred million, of which each step
/// and each copy takes up to 4 bytes a pixel, so that a dozen copies take about 3 GB.
const MOST_SHOWN: u64 = 1 << 26;

/// Returns the values of a sample, or of the first frame of its video if the samples are clips.
fn first_values<'a>(
    stage: &'a LoaderStage,
    source: &'a dyn Source,
    sample: SampleId,
) -> TargetValues<'a> {
    match stage.clips() {
        Some(clips) => TargetValues::Frame(clips, sample, 0),
        None => TargetValues::Sample(source, sample),
    }
}

/// Refuses to show an image that is too large.
fn check_shown(size: Size) -> Result<(), Error> {
    if size.pixels() <= MOST_SHOWN {
        return Ok(());
    }
    let error = fail!(
        Memory,
        "an image of {size} has {} pixels, and the maximum for an image that is shown is {MOST_SHOWN}, because every step \
         keeps a copy: scale the stored image down, or cut it into tiles",
        size.pixels()
    );
    Err(error.not_damage())
}

impl Inspector {
    /// Returns the compiled plan; if components of the dataset have their own, the output's own plan.
    #[must_use]
    pub fn kernel(&self) -> &Arc<Kernel> {
        &self.kernel
    }

    /// Limits the images that ops produce to `most` pixels, or those of the stored image if it has more, for this
    /// inspector. Stored images have the limit of the loader.
    ///
    /// # Errors
    ///
    /// If an op produces a larger image for every sample.
    pub fn limit_pixels(&mut self, most: u64) -> Result<(), Error> {
        self.most_made = most;
        let ImageType { height, width, .. } = self.kernel.plan().input();
        let smallest = Size::new(height.min, width.min);
        self.kernel.plan().check_pixels(&op_limits(&self.stage, most, smallest))
    }

    /// Inspects a sample.
    ///
    /// # Errors
    ///
    /// If there is no such sample, or the sample is damaged.
    pub fn sample(&mut self, sample: u64) -> Result<Inspected, Error> {
        let inspected = DefaultFloats::during(|| self.open(SampleId(sample)));
        inspected.map_err(|cause| self.error(sample, cause))
    }

    /// Returns true if images are decoded at their own scale, whatever is drawn.
    #[must_use]
    pub fn decodes_whole(&self) -> bool {
        self.stage.decodes_whole()
    }

    /// Returns the window of the stored image that the draws of a sample need.
    ///
    /// # Errors
    ///
    /// If there is no such sample, or its headers or objects are damaged.
    pub fn stored_window(&mut self, sample: u64) -> Result<Window, Error> {
        let sample = SampleId(sample);
        let size = self.read_size(sample);
        let drawn = size.and_then(|size| self.draw_for(sample, size));
        let (kernel, draws) = drawn.map_err(|cause| self.error(sample.0, cause))?;
        Ok(kernel.plan().needed_window(&draws))
    }

    /// Draws for a sample whose whole image is decoded already, and runs its ops on it: the draws and the row are
    /// those of [`sample`](Self::sample), if images are [decoded whole](Self::decodes_whole). The image has at most
    /// four channels, and was decoded for an output with the same settings and the same type of input.
    ///
    /// # Errors
    ///
    /// If the sample's objects are damaged, or an op returns an error.
    pub fn row_of(&mut self, sample: u64, whole: &ImageView<'_>) -> Result<DrawnRow, Error> {
        let row = DefaultFloats::during(|| self.draw_row(SampleId(sample), whole));
        row.map_err(|cause| self.error(sample, cause))
    }

    /// Returns the size of a sample's stored image, from its headers.
    ///
    /// # Errors
    ///
    /// If there is no such sample, or its headers are damaged.
    pub fn stored_size(&mut self, sample: u64) -> Result<Size, Error> {
        self.read_size(SampleId(sample)).map_err(|cause| self.error(sample, cause))
    }

    /// Returns the image of an inspected sample after each op.
    ///
    /// # Errors
    ///
    /// If an op returns an error, or the system has no memory for the images.
    pub fn steps(&self, inspected: &Inspected) -> Result<Vec<EvaluatedStep>, Error> {
        let plan = inspected.kernel.plan();
        let steps = evaluate_steps(plan, &inspected.picture(), inspected.run_draws());
        let mut steps = steps.map_err(|error| self.error(inspected.sample.0, error))?;
        if inspected.scaled.is_some() {
            // The draws for the smaller image give all moves to the first op.
            let drawn = inspected.draws.describe(plan);
            steps.iter_mut().zip(drawn).for_each(|(step, drawn)| step.drawn = drawn);
        }
        Ok(steps)
    }

    /// Returns where the targets of an inspected sample are before its ops and after each; `None` if none are declared
    /// for the output.
    ///
    /// # Errors
    ///
    /// If a target is damaged, or the system has no memory for the masks.
    pub fn targets(&mut self, inspected: &Inspected) -> Result<Option<InspectedTargets>, Error> {
        let Some(plans) = self.targets.clone() else { return Ok(None) };
        let source = Arc::clone(&self.source);
        let (sample, plan) = (inspected.sample, inspected.kernel.plan());
        let reader = TargetReader {
            values: TargetValues::Sample(&*source, sample),
            buffer: &mut self.buffer,
            decoder: &mut self.decoder,
        };
        let found = DefaultFloats::during(|| plans.read(reader, plan, &inspected.draws));
        let found = found.map_err(|(field, cause)| {
            let name = source.fields()[field].name.as_str();
            of_sample(&*source, sample, (name, field), cause)
        });
        found.map(Some)
    }

    /// Returns true if the row of an inspected sample is the one that its ops give, evaluated one by one.
    ///
    /// # Errors
    ///
    /// See [`steps`](Self::steps).
    pub fn agrees(&self, inspected: &Inspected) -> Result<bool, Error> {
        let plan = inspected.kernel.plan();
        match try_evaluate(plan, &inspected.picture(), inspected.run_draws()) {
            Ok(row) => Ok(row == inspected.row),
            Err(error) => Err(self.error(inspected.sample.0, error)),
        }
    }

    /// Runs a sample `rounds` times and returns the median of each phase; the sample is only read once. Of a sample that has
    /// frames, each frame is run once, and the phases are the mean of a frame. `each` is then called with the input of the
    /// compiled loop.
    ///
    /// # Errors
    ///
    /// See [`sample`](Self::sample).
    pub fn time(
        &mut self,
        sample: u64,
        rounds: usize,
        each: impl FnOnce(DecodedPixels<'_>, &Draws),
    ) -> Result<Phases, Error> {
        self.phases(SampleId(sample), rounds, each).map_err(|cause| self.error(sample, cause))
    }

    fn error(&self, sample: u64, cause: Error) -> Error {
        let name = self.source.fields()[self.field].name.as_str();
        of_sample(&*self.source, SampleId(sample), (name, self.field), cause)
    }

    fn key(&self, sample: SampleId) -> SampleKey {
        self.stage.key(self.epoch, sample, self.output)
    }

    /// Returns the kernel for the sample, and clears the buffer so that the sample is read again.
    fn kernel_of(&mut self, sample: SampleId) -> Result<Arc<Kernel>, Error> {
        self.buffer.forget();
        let component = self.stage.component(&*self.source, sample, &mut self.buffer)?;
        let own = self.stage.kernel_of(self.output, component);
        Ok(own.unwrap_or_else(|| Arc::clone(&self.kernel)))
    }

    /// Reads the objects of a sample, or draws for the image that the output follows.
    fn drawn_before(&mut self, sample: SampleId) -> Result<DrawnBefore, Error> {
        let source = Arc::clone(&self.source);
        let followed = self.stage.followed_by(self.output);
        let image = followed.map_or(self.output, |(image, _)| image);
        let values = TargetValues::Sample(&*source, sample);
        let objects = self.stage.objects(image, values, &mut self.buffer)?;
        let kernel = followed.and_then(|(image, _)| self.stage.kernel_of(image, 0));
        let (Some((image, field)), Some(kernel)) = (followed, kernel) else {
            return Ok(DrawnBefore::Objects(objects));
        };
        let (plan, mode) = (kernel.plan(), self.stage.read_mode(image));
        let value = source.value(sample, field, &mut self.buffer)?;
        let opened = open_image(&mut self.decoder, value, mode, (Some(plan.input()), None))?;
        self.stage.check_orientation(
            first_values(&self.stage, &*source, sample),
            &[image],
            &opened,
        )?;
        let size = opened.size();
        let mut draws = Draws::default();
        draws.objects = objects;
        plan.draw_around_objects(self.stage.key(self.epoch, sample, image), size, &mut draws);
        plan.check_draws(&draws, &op_limits(&self.stage, self.most_made, draws.source))?;
        Ok(DrawnBefore::Image(Box::new(draws)))
    }

    fn open(&mut self, sample: SampleId) -> Result<Inspected, Error> {
        let (source, key) = (Arc::clone(&self.source), self.key(sample));
        let kernel = self.kernel_of(sample)?;
        let start = self.drawn_before(sample)?;
        let image = source.value(sample, self.field, &mut self.buffer)?;
        let input = (Some(kernel.plan().input()), self.stage.audio(self.output));
        let mut opened = open_image(&mut self.decoder, image, self.mode, input)?;
        self.stage.check_orientation(
            first_values(&self.stage, &*source, sample),
            &[self.output],
            &opened,
        )?;
        let size = opened.size();
        check_shown(size)?;
        let plan = kernel.plan();
        let mut draws = Draws::default();
        draw(plan, &start, (key, size), &mut draws)?;
        plan.check_draws(&draws, &op_limits(&self.stage, self.most_made, draws.source))?;
        let scaled = self.stage.scaled_draws(self.output, &mut opened, plan, &draws).map(Box::new);
        let size = opened.size();
        let run_draws = scaled.as_deref().unwrap_or(&draws);
        let wanted = plan.needed_window(run_draws);
        let decoded = opened.decode(wanted)?;
        let part =
            DecodedPixels { view: decoded.view, top: decoded.top, left: decoded.left, whole: size };
        let mut row = vec![];
        memory::resize(&mut row, plan.drawn_bytes(run_draws), "a row")?;
        kernel.try_run(&mut self.scratch, part, run_draws, &mut row)?;
        let whole = opened.decode(size.full())?;
        if plan.staged().is_some() {
            row = try_evaluate(plan, &whole.view, run_draws)?; // the row that a device produces, bit for bit
        }
        let (pixels, format) = (packed(&whole.view)?, whole.view.format());
        Ok(Inspected { sample, draws, scaled, wanted, pixels, format, row, kernel })
    }

    fn read_size(&mut self, sample: SampleId) -> Result<Size, Error> {
        self.buffer.forget();
        let source = Arc::clone(&self.source);
        let image = source.value(sample, self.field, &mut self.buffer)?;
        let input = (Some(self.kernel.plan().input()), self.stage.audio(self.output));
        let opened = open_image(&mut self.decoder, image, self.mode, input)?;
        self.stage.check_orientation(
            first_values(&self.stage, &*source, sample),
            &[self.output],
            &opened,
        )?;
        Ok(opened.size())
    }

    /// Draws for a sample whose image has this size.
    fn draw_for(&mut self, sample: SampleId, size: Size) -> Result<(Arc<Kernel>, Draws), Error> {
        let kernel = self.kernel_of(sample)?;
        let start = self.drawn_before(sample)?;
        let mut draws = Draws::default();
        draw(kernel.plan(), &start, (self.key(sample), size), &mut draws)?;
        kernel.plan().check_draws(&draws, &op_limits(&self.stage, self.most_made, draws.source))?;
        Ok((kernel, draws))
    }

    fn draw_row(&mut self, sample: SampleId, whole: &ImageView<'_>) -> Result<DrawnRow, Error> {
        let size = whole.size();
        let (kernel, draws) = self.draw_for(sample, size)?;
        let plan = kernel.plan();
        let row = if plan.staged().is_some() {
            try_evaluate(plan, whole, &draws)?
        } else {
            let mut row = vec![];
            memory::resize(&mut row, plan.drawn_bytes(&draws), "a row")?;
            let all = DecodedPixels { view: *whole, top: 0, left: 0, whole: size };
            kernel.try_run(&mut self.scratch, all, &draws, &mut row)?;
            row
        };
        Ok(DrawnRow { draws, row, kernel })
    }

    fn phases(
        &mut self,
        sample: SampleId,
        rounds: usize,
        each: impl FnOnce(DecodedPixels<'_>, &Draws),
    ) -> Result<Phases, Error> {
        if self.has_frames() {
            return self.frame_phases(sample, each);
        }
        let (source, key) = (Arc::clone(&self.source), self.key(sample));
        let start = Instant::now();
        let kernel = self.kernel_of(sample)?;
        let first = self.drawn_before(sample)?;
        let image = source.value(sample, self.field, &mut self.buffer)?;
        let read = start.elapsed();
        let stored_bytes = image.bytes().len();
        let plan = kernel.plan();
        let mut times = [const { vec![] }; 4];
        let (mut draws, mut row) = (Draws::default(), vec![]);
        let (mut timed, mut each) = (TimedImage::default(), Some(each));
        let rounds = rounds.max(1);
        for round in 1..=rounds {
            let start = Instant::now();
            let input = (Some(plan.input()), self.stage.audio(self.output));
            let opened = open_image(&mut self.decoder, image, self.mode, input)?;
            self.stage.shared().forms.add(opened.form());
            timed = time_image(
                (&*self.stage, self.output, self.most_made),
                (&*kernel, &first, key),
                (start, &mut OpenedImage::Value(opened)),
                (&mut self.scratch, &mut draws, &mut row),
                each.take_if(|_| round == rounds),
            )?;
            times.iter_mut().zip(timed.times).for_each(|(times, time)| times.push(time));
        }
        let [headers, draw, decode, compiled] = times.map(median);
        let TimedImage { picture, decoded, is_scaled, .. } = timed;
        Ok(Phases {
            read,
            headers,
            draw,
            decode,
            compiled,
            stored_bytes,
            picture,
            decoded,
            is_scaled,
        })
    }
}

/// The part of a sample that is read or drawn before an output draws.
enum DrawnBefore {
    /// The objects of an image.
    Objects(Objects),
    /// The draws of the image that a mask follows.
    Image(Box<Draws>),
}

/// Returns the limits on the images that ops produce of a stored image.
fn op_limits(stage: &LoaderStage, most_made: u64, stored: Size) -> Limits {
    let limits = stage.limits();
    let max_pixels = limits.max_pixels.min(most_made.max(stored.pixels()));
    Limits { max_pixels, ..*limits }
}

/// The times of an image that a worker ran: of opening, drawing, decoding and the compiled loops.
#[derive(Default)]
struct TimedImage {
    times: [Duration; 4],
    picture: Size,
    decoded: Size,
    is_scaled: bool,
}

/// Runs an image, which is opened since `start`, as a worker does. `each` is called with the input of the compiled loops.
fn time_image(
    (stage, output, most_made): (&LoaderStage, usize, u64),
    (kernel, before, key): (&Kernel, &DrawnBefore, SampleKey),
    (start, opened): (Instant, &mut OpenedImage<'_>),
    (scratch, draws, row): (&mut Scratch, &mut Draws, &mut Vec<u8>),
    each: Option<impl FnOnce(DecodedPixels<'_>, &Draws)>,
) -> Result<TimedImage, Error> {
    let (plan, picture) = (kernel.plan(), opened.size());
    let headers = Instant::now();
    draw(plan, before, (key, picture), draws)?;
    plan.check_draws(draws, &op_limits(stage, most_made, draws.source))?;
    let scaled = match opened {
        OpenedImage::Value(opened) => stage.scaled_draws(output, opened, plan, draws),
        _ => None,
    };
    let run_draws = scaled.as_ref().unwrap_or(draws);
    let wanted = plan.needed_window(run_draws);
    memory::resize(row, plan.drawn_bytes(run_draws), "a row")?;
    let drawn = Instant::now();
    let decoded = opened.decode(wanted)?;
    let decoding = Instant::now();
    let (view, top, left) = (decoded.view, decoded.top, decoded.left);
    let part = || DecodedPixels { view, top, left, whole: run_draws.source };
    kernel.try_run(scratch, part(), run_draws, row)?;
    let ends = [start, headers, drawn, decoding, Instant::now()];
    if let Some(each) = each {
        each(part(), run_draws);
    }
    let times = std::array::from_fn(|k| ends[k + 1] - ends[k]);
    Ok(TimedImage { times, picture, decoded: view.size(), is_scaled: scaled.is_some() })
}

/// Draws for an image of `size`, or sets the draws of a mask to those of its image.
fn draw(
    plan: &ImagePlan,
    before: &DrawnBefore,
    (key, size): (SampleKey, Size),
    draws: &mut Draws,
) -> Result<(), Error> {
    match before {
        DrawnBefore::Objects(objects) => {
            draws.objects.clone_from(objects);
            plan.draw_around_objects(key, size, draws);
        }
        DrawnBefore::Image(image) if image.source == size => plan.follow(image, draws),
        DrawnBefore::Image(image) => {
            return Err(other_size(size, image.source));
        }
    }
    Ok(())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_that_is_too_large_is_not_shown() {
        assert!(check_shown(Size::new(1 << 13, 1 << 13)).is_ok());
        let error = check_shown(Size::new(1 << 13, (1 << 13) + 1)).unwrap_err();
        assert!(error.is_not_damage() && error.to_string().contains("is shown"), "{error}");
    }
}
