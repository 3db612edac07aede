//! The outputs of an epoch as data: what each output is, and what workers need to write its rows.

use super::array_images::ArrayRequest;
use super::clips::Clips;
use super::collate::Collated;
use super::elements::Elements;
use super::image_lists::ImageList;
use super::mixing::{BatchScratch, LaterPass, OutputMixer, PassRows, TargetMixer};
use super::outputs::DrawsOf;
use super::targets::{PlannedTarget, TargetRequest};
use crate::batch::{RowsMut, TensorRows, TensorSpec};
use crate::decode::{AudioOptions, Decoder, ImageReadMode, Opened};
use crate::device::DeviceOutput;
use crate::error::{Error, fail};
use crate::jit::image_out::ImageOut;
use crate::jit::{DecodedPixels, Kernel, Scratch};
use crate::plan::batch_ops::{self, BatchStep, Mixer};
use crate::plan::element_steps::StepScratch;
use crate::plan::label::Scalar;
use crate::plan::{Draws, ElementPlan, function};
use crate::sample::{Epoch, Limits};
use crate::source::Value;
use crate::source::npy::{self, NpyArray, NpyError};
use fuseloop_ops::author::{Dim, ImageType, Layout, OpClass, Type};
use fuseloop_ops::internals::{BatchKey, ImageView, PixelFormat, SampleKey};
use fuseloop_ops::{DType, HostRows, Ops, Size};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// How a field becomes one output.
#[derive(Debug)]
pub(super) enum FieldPlan {
    /// An image, decoded and run through a kernel.
    Image(Arc<Kernel>),
    /// A number, through the steps of its plan.
    Label(ElementPlan),
    /// An array, through the steps of its plan.
    Array(ElementPlan),
    /// Copied, padded with zeros to the longest.
    Copied { dtype: DType, shape: Vec<usize>, elements: Elements },
    /// Samples of different sizes, collated.
    Collated(Collated),
}

impl FieldPlan {
    pub(super) fn dtype(&self) -> DType {
        match self {
            Self::Image(kernel) => kernel.plan().dtype(),
            Self::Label(plan) | Self::Array(plan) => plan.dtype(),
            Self::Copied { dtype, .. } => *dtype,
            Self::Collated(collated) => collated.dtype,
        }
    }

    pub(super) fn shape(&self) -> Vec<usize> {
        match self {
            Self::Image(kernel) => kernel.plan().shape(),
            Self::Label(plan) | Self::Array(plan) => plan.shape().to_vec(),
            Self::Copied { shape, .. } => shape.clone(),
            Self::Collated(collated) => collated.shape.clone(),
        }
    }

    /// Returns the ops, in order.
    pub(super) fn ops(&self) -> &Ops {
        const NONE: &Ops = &Ops::new();
        match self {
            Self::Image(kernel) => kernel.plan().ops(),
            Self::Label(plan) => plan.ops(),
            Self::Array(plan) => plan.ops(),
            Self::Copied { .. } | Self::Collated(_) => NONE,
        }
    }

    /// Describes the plan in lines of text.
    pub(super) fn explain(&self) -> String {
        match self {
            Self::Image(kernel) => kernel.explain(),
            Self::Label(plan) => self.explain_elements(plan.rows().to_string()),
            Self::Array(plan) => self.explain_elements(plan.rows().to_string()),
            Self::Copied { .. } => "copied\n".to_owned(),
            Self::Collated(collated) => collated.explain(),
        }
    }

    /// Describes the steps of a label or an array, and the ops on batches.
    fn explain_elements(&self, mut steps: String) -> String {
        let on_batches = |class| matches!(class, OpClass::Batch(_) | OpClass::HostBatch(_));
        for op in self.ops().iter().filter(|op| on_batches(op.class())) {
            steps += &format!(", {} on the finished batch", op.name());
        }
        format!("loops over samples: {steps}\n")
    }

    /// Returns the bytes of one sample.
    pub(super) fn row_bytes(&self) -> usize {
        let bytes = self.shape().iter().try_fold(self.dtype().bytes(), |a, &n| a.checked_mul(n));
        bytes.unwrap_or(usize::MAX)
    }
}

/// A row with several images, one after another.
#[derive(Clone, Debug)]
pub(super) enum ImageRow {
    /// The frames of clips.
    Clip {
        clips: Clips,
        /// The number of channels, if the planes of a clip are in the order of these.
        channels: Option<usize>,
    },
    /// This number of frames, which the dataset chooses.
    Frames(usize),
    /// The images of a list, and zeros.
    List(ImageList),
}

impl ImageRow {
    /// Returns the number of images.
    pub(super) fn count(&self) -> usize {
        match self {
            Self::Clip { clips, .. } => clips.images(),
            Self::Frames(count) => *count,
            Self::List(list) => list.max(),
        }
    }

    /// Returns the planes of image number `index` in a row of `bytes` bytes. An image is one plane if its bytes follow each
    /// other.
    pub(super) fn planes(&self, index: usize, bytes: usize) -> ImagePlanes {
        let image = bytes / self.count();
        match self {
            Self::Clip { clips, channels: Some(channels @ 2..) } => {
                let (frames, plane) = (clips.frames(), image / channels);
                let (clip, frame) = (index / frames, index % frames);
                let first = clip * frames * image + frame * plane;
                ImagePlanes { first, plane, count: *channels, apart: frames * plane }
            }
            Self::Clip { .. } | Self::Frames(_) | Self::List(_) => {
                ImagePlanes { first: index * image, plane: image, count: 1, apart: image }
            }
        }
    }

    /// Returns the shape of a row whose images have shape `image`.
    pub(super) fn shape(&self, image: &[usize]) -> Vec<usize> {
        match self {
            Self::Clip { clips, channels } => {
                let (channels, image) = image.split_at(usize::from(channels.is_some()));
                let axes = clips.axes();
                let (clips, frames) = axes.split_at(axes.len() - 1);
                [clips, channels, frames, image].concat()
            }
            Self::Frames(count) => [&[*count], image].concat(),
            Self::List(list) => [&[list.max()], image].concat(),
        }
    }

    /// Returns the settings that identify what a row has.
    pub(super) fn print(&self) -> String {
        match self {
            Self::Clip { clips, .. } => format!("{:?}", clips.of_any_list()),
            Self::Frames(count) => format!("{count} frames"),
            Self::List(list) => format!("{list:?}"),
        }
    }
}

/// Where an image lies in a row that has several: `count` planes of `plane` bytes, of which the first begins at byte `first`
/// and each other `apart` bytes after the one before.
#[derive(Clone, Copy, Debug)]
pub(super) struct ImagePlanes {
    first: usize,
    plane: usize,
    count: usize,
    apart: usize,
}

impl ImagePlanes {
    /// Returns the memory of the image.
    pub(super) fn of(self, row: &mut [u8]) -> ImageOut<'_> {
        let bytes = &mut row[self.first..][..(self.count - 1) * self.apart + self.plane];
        if self.count == 1 { bytes.into() } else { ImageOut::planes(bytes, self.apart) }
    }

    /// Returns the bytes of an image that is one plane.
    pub(super) fn of_bytes(self, row: &mut [u8]) -> &mut [u8] {
        &mut row[self.first..][..self.plane]
    }

    /// Copies the image to another place of its row.
    pub(super) fn copy_to(self, other: Self, row: &mut [u8]) {
        for plane in 0..self.count {
            let from = self.first + plane * self.apart;
            row.copy_within(from..from + self.plane, other.first + plane * other.apart);
        }
    }
}

/// Describes the images: `random clips of 16 frames, stride 4`.
impl fmt::Display for ImageRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Clip { clips, .. } => clips.fmt(f),
            Self::Frames(count) => write!(f, "{count} frames, one draw for a sample"),
            Self::List(list) => list.fmt(f),
        }
    }
}

/// One output: its field, and the plan for it.
#[derive(Debug)]
pub(super) struct OutputPlan {
    pub(super) name: String,
    /// The name that its field is stored under, if that differs.
    pub(super) alias: Option<String>,
    pub(super) field: usize,
    pub(super) draws: DrawsOf,
    /// What the field's images are read as.
    pub(super) read_mode: ImageReadMode,
    /// The declarations about the field's arrays.
    pub(super) array: ArrayRequest,
    pub(super) title: String,
    pub(super) work: FieldPlan,
    /// The plans of the later passes over the finished batch; none if the rows stay as `work` has planned them.
    pub(super) later: Vec<FieldPlan>,
    /// How the images are collated, if they have ops and differ in size.
    pub(super) collation: Option<Collated>,
    /// The images of a row that has several.
    pub(super) images: Option<ImageRow>,
    /// The plans for the samples of some components of the dataset, instead of `work`.
    pub(super) by_component: BTreeMap<usize, FieldPlan>,
    /// How finished batches are mixed, if the output is mixed.
    pub(super) mix: Option<OutputMixer>,
    /// How the targets of the output are mixed with it, before the first later pass and after each, if it is an image that
    /// has them.
    pub(super) mix_targets: Vec<TargetMixer>,
    /// The later passes over the finished batch, of the output and its targets.
    pub(super) passes: Vec<LaterPass>,
    /// The device's share of the output, if the output is on a device.
    pub(super) device_output: Option<DeviceOutput>,
    /// How the rows are computed, if the output is a target of an image.
    pub(super) target: Option<PlannedTarget>,
    /// The targets that follow the output, if it is an image.
    pub(super) targets: Option<Arc<TargetRequest>>,
    /// True for an image whose batches have targets, or boxes, keypoints and masks as they are stored, and for such a mask.
    pub(super) is_annotated: bool,
}

impl OutputPlan {
    /// Returns the bytes of a row as it is filled.
    pub(super) fn filled_bytes(&self) -> usize {
        let images = self.images.as_ref().map_or(1, ImageRow::count);
        self.work.row_bytes().saturating_mul(images)
    }

    /// Returns the plan for the samples of a component of the dataset.
    pub(super) fn work_of(&self, component: usize) -> &FieldPlan {
        self.by_component.get(&component).unwrap_or(&self.work)
    }

    /// Returns the plans for all components, and those of later passes.
    pub(super) fn all_plans(&self) -> impl Iterator<Item = &FieldPlan> {
        std::iter::once(&self.work).chain(self.by_component.values()).chain(&self.later)
    }

    /// Returns the plan of the rows after later pass number `pass`, or before all of them if it is 0.
    pub(super) fn pass(&self, pass: usize) -> &FieldPlan {
        pass.checked_sub(1).and_then(|index| self.later.get(index)).unwrap_or(&self.work)
    }

    /// Returns the plan of the rows as they are in a batch.
    pub(super) fn last(&self) -> &FieldPlan {
        self.later.last().unwrap_or(&self.work)
    }

    /// Returns the bytes that a row needs while its batch is filled and changed: those of the largest pass, rounded up so
    /// that the elements of each are aligned; 0 if there is one pass.
    fn room(&self) -> usize {
        /// A cache line, at which every tensor begins.
        const ALIGNED: usize = 64;
        let largest = self.later.iter().map(FieldPlan::row_bytes).max();
        largest.map_or(0, |later| {
            let largest = later.max(self.work.row_bytes());
            largest.checked_next_multiple_of(ALIGNED).unwrap_or(usize::MAX)
        })
    }

    /// Returns the kernel for the samples of a component, together with the output's index `k`, if the
    /// output is an image.
    pub(super) fn kernel(&self, k: usize, component: usize) -> Option<(usize, &Kernel)> {
        match self.work_of(component) {
            FieldPlan::Image(kernel) => Some((k, kernel)),
            _ => None,
        }
    }

    /// Returns how the output is collated, together with its index `k`; `None` if it is not.
    pub(super) fn collated(&self, k: usize) -> Option<(usize, &Collated)> {
        match &self.work {
            FieldPlan::Collated(collated) => Some((k, collated)),
            _ => None,
        }
    }

    /// Returns the tensor of the output.
    pub(super) fn tensor(&self) -> TensorSpec {
        let rows = match &self.device_output {
            None => TensorRows::Even,
            Some(_) => TensorRows::Device { staged: self.staged_bytes() },
        };
        let shape = match (&self.collation, &self.images, self.last()) {
            (Some(collated), ..) => collated.shape.clone(),
            // The rows of all frames follow each other.
            (None, Some(images), FieldPlan::Collated(collated)) if collated.is_ragged() => {
                let mut shape = collated.shape.clone();
                shape[0] = shape[0].saturating_mul(images.count());
                shape
            }
            (None, Some(images), last) => images.shape(&last.shape()),
            (None, None, last) => last.shape(),
        };
        let spec = TensorSpec::new(&*self.name, self.last().dtype(), shape);
        TensorSpec { rows, alias: self.alias.clone(), room: self.room(), ..spec }
    }

    /// Runs the ops on batches, and those that follow them, on the rows of a finished batch. `k` is the index of the
    /// output, and `keys` are those of the samples.
    ///
    /// # Errors
    ///
    /// If an op returns an error, or there is not enough memory for one additional row.
    pub(super) fn finish_batch(
        &self,
        k: usize,
        (key, epoch, keys): (BatchKey, Epoch, &[SampleKey]),
        rows: &mut RowsMut<'_>,
        limits: &Limits,
        (kernels, scratch): (&mut Scratch, &mut BatchScratch),
    ) -> Result<(), Error> {
        let ops = self.work.ops();
        let (visits, count) = (rows.visits(), rows.len());
        let (mut passes, mut mixers) = (0, 0..);
        if let (Some(mix), Some(on_device)) = (&self.mix, &self.device_output)
            && mix.record(ops, on_device, key, (count, rows.output(k)))
        {
            return Ok(());
        }
        for step in batch_ops::steps(ops) {
            let done: Result<(), Error> = match step {
                BatchStep::Mix(mixer) => {
                    let numbered = (mixers.next().unwrap_or(0), mixer);
                    self.mix_rows(numbered, passes, (k, key), rows, &mut scratch.spare)
                }
                BatchStep::MultiImage(mixer) => match self.mix_targets.get(passes) {
                    Some(targets) => targets.mix(mixer, key, rows, &mut scratch.spare),
                    None => Ok(()),
                },
                BatchStep::Objects { op, .. } => match self.mix_targets.get(passes) {
                    Some(targets) => targets.change_objects(op, rows, &mut scratch.spare),
                    None => Ok(()),
                },
                BatchStep::Samples { pass, .. } => {
                    passes = pass;
                    let targets = match &self.mix_targets[..] {
                        [] => None,
                        each => Some([&each[pass - 1], &each[pass]]),
                    };
                    let mut outputs: Vec<&mut [u8]> = rows.outputs().collect();
                    let rows = PassRows { image: k, keys, outputs: &mut outputs };
                    self.passes[pass - 1].run(targets, rows, limits, (kernels, scratch))
                }
                BatchStep::Host { op, host_op, occurrence } => {
                    let samples: Vec<u64> = visits.iter().map(|visit| visit.sample.0).collect();
                    let work = self.pass(passes);
                    let (shape, rng) = (work.shape(), &mut key.op(op.name(), occurrence));
                    let (epoch, dtype) = (epoch.index(), work.dtype());
                    let host = HostRows { samples: &samples, epoch, dtype, shape: &shape, rng };
                    let done = without_gaps(rows.output(k), (count, work.row_bytes()), |bytes| {
                        host_op.apply(host, bytes)
                    });
                    done.map_err(function::failed(op, epoch))
                }
            };
            done.map_err(|error| {
                error.context(format_args!("{}", self.name)).of_field(&self.name)
            })?;
        }
        Ok(())
    }

    /// Runs the kernel of an image for a sample, and pads the image if rows are padded to one size.
    pub(super) fn run(
        &self,
        kernel: &Kernel,
        scratch: &mut Scratch,
        (source, draws): (DecodedPixels<'_>, &Draws),
        (image, row): (Option<usize>, &mut [u8]),
    ) -> Result<(), Error> {
        if let (Some(images), Some(index)) = (&self.images, image) {
            let out = images.planes(index, row.len()).of(row);
            return kernel.try_run_into(scratch, source, draws, out);
        }
        if let Some(collated) = &self.collation {
            collated.check_fits(draws.output)?;
        }
        kernel.try_run(scratch, source, draws, &mut row[..kernel.plan().drawn_bytes(draws)])?;
        if let Some(collated) = &self.collation {
            collated.pad_image(draws.output, row);
        }
        Ok(())
    }

    /// Mixes the rows of a finished batch by one op, and joins the objects of those that are mixed.
    fn mix_rows(
        &self,
        (number, mixer): (usize, Mixer<'_>),
        pass: usize,
        (k, key): (usize, BatchKey),
        rows: &mut RowsMut<'_>,
        spare: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let Some(mix) = &self.mix else { return Ok(()) };
        let count = rows.len();
        let len = self.pass(pass).row_bytes();
        mix.mix((number, mixer), key, (count, len, rows.output(k)), spare)?;
        match self.mix_targets.get(pass) {
            Some(targets) => targets.join(&mixer.draw(key, count, mix.each[number].1), rows, spare),
            None => Ok(()),
        }
    }

    /// Returns the bytes of a sample that the host writes.
    fn staged_bytes(&self) -> usize {
        match &self.device_output {
            Some(DeviceOutput::Image(image)) => image.staged_bytes(),
            Some(DeviceOutput::OneHot(label)) => label.staged_bytes(),
            Some(DeviceOutput::Copied { .. }) | None => self.work.row_bytes(),
        }
    }

    /// Writes the row of the sample of `key`, of a given component, for outputs other than images and those that
    /// are [gathered](Self::column_plan). Returns the length of the sample, or 1 if all samples have the same
    /// size.
    pub(super) fn fill(
        &self,
        (key, component): (SampleKey, usize),
        value: Value<'_>,
        scratch: &mut StepScratch,
        row: &mut [u8],
    ) -> Result<i64, Error> {
        match (self.work_of(component), value) {
            (FieldPlan::Collated(collated), value) => return collated.fill(value, row),
            (FieldPlan::Label(plan), value) => {
                let value = match value {
                    Value::Int(label) => Scalar::Int(label),
                    Value::Float(number) => Scalar::Float(number),
                    other => unreachable!("a field's kind does not change: {other:?}"),
                };
                let key = self.draws.key(key);
                match &self.device_output {
                    Some(DeviceOutput::OneHot(label)) => label.fill(plan, key, value, row)?,
                    _ => plan.evaluate(key, &value.to_bytes(), row)?,
                }
            }
            (FieldPlan::Array(plan), Value::NdArray(stored)) => {
                let keys = [self.draws.key(key)];
                plan.run((1, &keys), stored, scratch, row).map_err(|refused| refused.error)?;
            }
            (
                FieldPlan::Copied { elements, .. },
                Value::Bytes(b) | Value::Json(b) | Value::NdArray(b) | Value::Custom(b),
            ) => {
                if !elements.fill(b, row) {
                    return Err(fail!(
                        Custom,
                        "a value of {} bytes is longer than the longest that the source reported, {}: fix \
                         `Source::longest`",
                        b.len(),
                        row.len()
                    ));
                }
            }
            (work, value) => unreachable!("a field's kind does not change: {work:?}, {value:?}"),
        }
        Ok(1)
    }
}

/// Calls `change` with the first `len` bytes of each of `count` rows, one after the other.
fn without_gaps<E>(
    bytes: &mut [u8],
    (count, len): (usize, usize),
    change: impl FnOnce(&mut [u8]) -> Result<(), E>,
) -> Result<(), E> {
    let room = bytes.len() / count.max(1);
    if room == len {
        return change(bytes);
    }
    (1..count).for_each(|row| bytes.copy_within(row * room..row * room + len, row * len));
    let done = change(&mut bytes[..count * len]);
    (1..count).rev().for_each(|row| bytes.copy_within(row * len..(row + 1) * len, row * room));
    done
}

/// Opens a value whose pixels ops work on: an image, an array of the type `input`, or such an array that is stored as
/// audio.
pub(super) fn open_image<'a>(
    decoder: &'a mut Decoder,
    value: Value<'a>,
    mode: ImageReadMode,
    (input, audio): (Option<ImageType>, Option<AudioOptions>),
) -> Result<Opened<'a>, Error> {
    match (value, input) {
        (Value::Image(image), _) => decoder.open_as(&image, mode),
        (Value::Bytes(bytes), Some(_)) if let Some(audio) = audio => {
            decoder.open_audio(bytes, audio)
        }
        (Value::NdArray(bytes) | Value::Bytes(bytes), Some(input)) => {
            let is_array = matches!(value, Value::NdArray(_));
            let bytes = if is_array { bytes } else { elements_of(bytes, input)? };
            let format = PixelFormat { channels: input.channels.into(), dtype: input.dtype };
            decoder.open_array(bytes, array_size(bytes.len(), input)?, format, input.layout)
        }
        (other, _) => unreachable!("a field's kind does not change: {other:?}"),
    }
}

/// Returns the pixels of a value that is stored as it is read, without a copy; `None` for all others, and for values that
/// can't be [opened](open_image).
pub(super) fn stored_pixels<'a>(
    decoder: &Decoder,
    value: Value<'a>,
    mode: ImageReadMode,
    input: ImageType,
) -> Option<ImageView<'a>> {
    match value {
        Value::Image(image) => decoder.stored_pixels(&image, mode),
        Value::NdArray(bytes) if input.layout != Layout::ChannelsFirst || input.channels == 1 => {
            let size = array_size(bytes.len(), input).ok()?;
            let format = PixelFormat { channels: input.channels.into(), dtype: input.dtype };
            let expected = size.pixels().checked_mul(format.pixel_bytes() as u64)?;
            let is_whole = expected == bytes.len() as u64 && expected > 0;
            is_whole.then(|| ImageView::packed_format(bytes, size, format))?
        }
        _ => None,
    }
}

/// Returns the elements of an array that is stored as bytes: all of them, or those of a `.npy` file.
///
/// # Errors
///
/// If a `.npy` file is damaged, or has another type or shape than was declared.
fn elements_of(bytes: &[u8], input: ImageType) -> Result<&[u8], Error> {
    if !npy::is_npy(bytes) {
        return Ok(bytes);
    }
    let refused = |error: NpyError| fail!(Damaged, "{}", String::from(error));
    let NpyArray { dtype, shape, elements } = npy::parse_stored(bytes).map_err(refused)?;
    if dtype.element_type() != Some(input.dtype) || !is_shape_of(&shape, input) {
        return Err(fail!(
            Damaged,
            "a .npy file of shape {shape:?} and dtype {dtype}, expected {}",
            Type::Image(input)
        ));
    }
    Ok(elements)
}

/// Returns whether a shape is that of arrays which are images of a type.
fn is_shape_of(shape: &[u64], input: ImageType) -> bool {
    let fits = |side: Dim, length: u64| side.min != side.max || u64::from(side.max) == length;
    let is_size = |height, width| fits(input.height, height) && fits(input.width, width);
    let channels = u64::from(input.channels);
    match (input.layout, shape) {
        (Layout::ChannelsLast, &[height, width, last]) => {
            is_size(height, width) && last == channels
        }
        (Layout::Plane, &[height, width]) => is_size(height, width),
        (Layout::Plane, &[width]) => is_size(1, width),
        (Layout::ChannelsFirst, [before @ .., height, width]) => {
            is_size(*height, *width) && before.iter().product::<u64>() == channels
        }
        _ => false,
    }
}

/// Returns the size of an array of `len` bytes, of whose sides one may differ from sample to sample.
fn array_size(len: usize, input: ImageType) -> Result<Size, Error> {
    let pixel = usize::from(input.channels) * input.dtype.bytes();
    let [height, width] = [input.height, input.width];
    let (side, other) = if height.min != height.max { (height, width) } else { (width, height) };
    if side.min == side.max {
        return Ok(Size::new(height.max, width.max));
    }
    let unit = pixel.saturating_mul(other.max as usize);
    let length =
        u32::try_from(len / unit).ok().filter(|n| len.is_multiple_of(unit) && *n <= side.max);
    let Some(length) = length else {
        return Err(fail!(
            Damaged,
            "an array of {len} bytes: its shape needs a multiple of {unit} bytes, at most {} times as many",
            side.max
        ));
    };
    let is_height = height.min != height.max;
    Ok(if is_height { Size::new(length, width.max) } else { Size::new(height.max, length) })
}

/// Returns the tensors of the outputs, in order, followed by the size tensors of collated outputs; and
/// for each output the index of its size tensor.
pub(super) fn tensors(outputs: &[OutputPlan]) -> (Vec<TensorSpec>, Vec<Option<usize>>) {
    let mut tensors: Vec<TensorSpec> = outputs.iter().map(OutputPlan::tensor).collect();
    let sizes = outputs.iter().enumerate().map(|(k, output)| {
        let collated = match output.last() {
            FieldPlan::Collated(collated) => collated,
            _ => output.collation.as_ref()?,
        };
        let index = tensors.len();
        let sizes = collated.size_tensor(&tensors[k]);
        let shape = output.images.as_ref().map(|images| images.shape(&sizes.shape));
        tensors.push(TensorSpec { shape: shape.unwrap_or_else(|| sizes.shape.clone()), ..sizes });
        tensors[k].rows = collated.rows(index);
        Some(index)
    });
    let sizes = sizes.collect();
    (tensors, sizes)
}
