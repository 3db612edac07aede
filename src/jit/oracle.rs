//! The oracle: evaluates a pipeline op by op, one pixel at a time.
//!
//! Compiled code must return the same bits as the oracle. The oracle runs in place of compiled code
//! where code can't be compiled or an image is too narrow for vectors.

use super::mix;
use crate::error::Error;
use crate::plan::block::nth_order;
use crate::plan::{DrawnOp, Draws, FlatOp, FusedOp, ImagePlan, OpKind, PixelKind};
use fuseloop_ops::author::{Eval, Layout, OpClass, PixelOp, Statistic, TableOp, clamp};
use fuseloop_ops::internals::DefaultFloats;
use fuseloop_ops::internals::emit::{grey_mean, root_mean_square};
use fuseloop_ops::internals::memory::NoMemory;
use fuseloop_ops::internals::{ElementValue, FloatImage, ImageView, MAX_CHANNELS, memory, to_u8};
use fuseloop_ops::{DType, NumberRule};

/// Computes the output of one sample from its whole decoded image.
///
/// # Panics
///
/// If `draws` were not drawn by `plan` for an image of this size, or an op returns an error, or the system has no
/// memory for the images between the ops.
#[must_use]
pub fn evaluate(plan: &ImagePlan, source: &ImageView<'_>, draws: &Draws) -> Vec<u8> {
    try_evaluate(plan, source, draws).expect("the ops of a sample")
}

/// Like [`evaluate`], but returns an error if an op does or memory runs out: both depend on the user.
///
/// # Errors
///
/// If an op returns an error, or the system has no memory for the images between the ops.
pub fn try_evaluate(
    plan: &ImagePlan,
    source: &ImageView<'_>,
    draws: &Draws,
) -> Result<Vec<u8>, Error> {
    DefaultFloats::during(|| {
        let picture = walk(plan, plan.flat_ops().len(), source, draws, |_, _| Ok(()))?;
        Ok(store(&picture, plan.stored_dtype(), plan.output().layout)?)
    })
}

/// Computes the output of the host's blocks: the image that is sent to a device, or the plan's output.
///
/// # Errors
///
/// See [`try_evaluate`].
pub(crate) fn try_evaluate_host(
    plan: &ImagePlan,
    source: &ImageView<'_>,
    draws: &Draws,
) -> Result<Vec<u8>, Error> {
    if plan.staged().is_none() {
        return try_evaluate(plan, source, draws);
    }
    let end = plan.blocks()[plan.host_blocks() - 1].ops.end;
    DefaultFloats::during(|| {
        let picture = walk(plan, end, source, draws, |_, _| Ok(()))?;
        Ok(store(&picture, DType::U8, Layout::ChannelsLast)?)
    })
}

/// An intermediate image: the result of one op.
#[derive(Clone, Debug)]
pub struct EvaluatedStep {
    /// The op, and what was drawn for it.
    pub drawn: DrawnOp,
    /// The image after the op, in the op's own units.
    pub picture: FloatImage,
    scale: Scale,
}

/// The mapping from an image's values back to levels.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Scale {
    /// `level = (value - offset) / factor`, for each channel; 1 and 0 until a `Normalize`.
    Affine([[f32; 2]; MAX_CHANNELS]),
    /// The mapping is unknown: the smallest value is shown as black and the largest as white.
    Stretch,
}

impl EvaluatedStep {
    /// Returns the image for display. Normalized values are mapped back to levels by the inverse of the
    /// normalization. Shows the channels `bands`, or the first ones if there are none or the image does not have
    /// them.
    ///
    /// # Errors
    ///
    /// If the system has no memory for the levels.
    pub fn shown(&self, bands: &[usize]) -> Result<ShownLevels, NoMemory> {
        displayed(&self.picture, self.scale, bands)
    }
}

/// Returns a sample's row for display, as [`EvaluatedStep::shown`] shows its last step. A row of `f16` or `bf16` is
/// rounded, so that a level of it may differ by 1.
///
/// # Errors
///
/// If the system has no memory for the levels.
///
/// # Panics
///
/// If `draws` were not drawn by `plan`.
pub fn shown_row(
    plan: &ImagePlan,
    draws: &Draws,
    row: &[u8],
    bands: &[usize],
) -> Result<ShownLevels, NoMemory> {
    let mut scale = if plan.input().is_levels { Scale::LEVELS } else { Scale::Stretch };
    for (leaf, _) in plan.flat_ops().iter().zip(&draws.active).filter(|(_, runs)| **runs) {
        scale = scale.after(leaf, plan, draws);
    }
    let (output, size) = (plan.output(), draws.output);
    let (dtype, channels) = (plan.stored_dtype(), usize::from(output.channels));
    let is_packed = output.layout != Layout::ChannelsFirst || channels == 1;
    if is_packed
        && dtype == DType::U8
        && scale == Scale::LEVELS
        && channels <= MAX_CHANNELS
        && bands.is_empty()
    {
        let mut pixels = memory::with_capacity(row.len(), "a picture")?;
        pixels.extend_from_slice(row);
        return Ok(ShownLevels { pixels, channels, is_stretched: false });
    }
    let bytes = dtype.bytes();
    let count = size.pixels() as usize;
    let mut packed = vec![];
    if !is_packed {
        memory::resize(&mut packed, row.len(), "an image")?;
        for (c, plane) in row.chunks_exact(count * bytes).enumerate() {
            let places = packed.chunks_exact_mut(channels * bytes);
            for (place, value) in places.zip(plane.chunks_exact(bytes)) {
                place[c * bytes..][..bytes].copy_from_slice(value);
            }
        }
    }
    let row = if packed.is_empty() { row } else { &packed };
    let mut values = memory::with_capacity(count * channels, "an f32 image")?;
    ElementValue::append_floats(dtype, row, &mut values);
    let picture = FloatImage::of_values(size, channels, values);
    displayed(&picture, scale, bands)
}

/// An image for display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownLevels {
    /// The levels, `[height, width, channels]`.
    pub pixels: Vec<u8>,
    /// The number of channels: 1 to 4.
    pub channels: usize,
    /// True if the smallest value is shown as black and the largest as white, because the values are no levels.
    pub is_stretched: bool,
}

/// Returns the levels of the channels `bands` for display. Without bands, all of up to four channels are shown, and
/// the first three of more.
fn displayed(picture: &FloatImage, scale: Scale, bands: &[usize]) -> Result<ShownLevels, NoMemory> {
    let all = picture.channels();
    let (affine, is_stretched) = match scale {
        Scale::Affine(affine) => (affine, false),
        Scale::Stretch => ([stretch(picture); MAX_CHANNELS], true),
    };
    let first: Vec<usize> = (0..if all > MAX_CHANNELS { 3 } else { all }).collect();
    let has_bands = !bands.is_empty() && bands.iter().all(|band| *band < all);
    let bands = if has_bands { bands } else { &first };
    let channels = bands.len();
    let count = picture.size().pixels() as usize * channels;
    let mut pixels = memory::with_capacity(count, "a picture")?;
    for pixel in picture.pixels() {
        pixels.extend(bands.iter().map(|&band| {
            // More channels than four share one scale.
            let [factor, offset] = affine[if all > MAX_CHANNELS { 0 } else { band }];
            to_u8((pixel[band] - offset) / factor)
        }));
    }
    Ok(ShownLevels { pixels, channels, is_stretched })
}

/// Returns an image for display: the bytes of an image of bytes, and otherwise the smallest value as black and the
/// largest as white. Shows the channels `bands`, or the first ones if there are none.
///
/// # Errors
///
/// If the system has no memory for the levels.
pub(crate) fn shown(view: &ImageView<'_>, bands: &[usize]) -> Result<ShownLevels, NoMemory> {
    let scale = if view.format().is_bytes() { Scale::LEVELS } else { Scale::Stretch };
    displayed(&FloatImage::from_view(view)?, scale, bands)
}

/// Returns the factor and offset that map the levels 0..=255 to the image's range of values.
fn stretch(picture: &FloatImage) -> [f32; 2] {
    let values = || picture.values().iter().copied().filter(|v| v.is_finite());
    let (low, high) = (values().fold(f32::MAX, f32::min), values().fold(f32::MIN, f32::max));
    if high > low { [(high - low) / 255.0, low] } else { [1.0, low] }
}

impl Scale {
    const LEVELS: Self = Self::Affine([[1.0, 0.0]; MAX_CHANNELS]);

    /// Returns the scale after a flat op that ran.
    fn after(self, leaf: &FlatOp, plan: &ImagePlan, draws: &Draws) -> Self {
        if leaf.output.dtype == DType::U8 {
            return Self::LEVELS;
        }
        let (OpClass::Pixel(op), Self::Affine(before)) = (leaf.op.class(), self) else {
            return self;
        };
        if let Some(selected) = op.selected_channels()
            && usize::from(leaf.input.channels) <= MAX_CHANNELS
        {
            let of =
                |c: usize| selected.get(c).map_or(before[c], |from| before[usize::from(*from)]);
            return Self::Affine(std::array::from_fn(of));
        }
        if !op.is_per_channel() || usize::from(leaf.input.channels) > MAX_CHANNELS {
            return Self::Stretch;
        }
        let params = &draws.params[leaf.first_param..leaf.first_param + leaf.kind.param_count()];
        let cx = Eval::new(plan.rule(), params);
        let channels = usize::from(leaf.input.channels);
        let at = |level: f32| {
            let mut pixel = before.map(|[factor, offset]| level * factor + offset);
            op.eval(&cx, &mut pixel[..channels]);
            pixel
        };
        let (black, white) = (at(0.0), at(255.0));
        let of_channel = |c| match c < channels {
            true => [(white[c] - black[c]) / 255.0, black[c]],
            false => before[c],
        };
        let affine = std::array::from_fn(of_channel);
        let is_known = affine.iter().flatten().all(|v: &f32| v.is_finite())
            && affine.iter().all(|[factor, _]| *factor != 0.0);
        if is_known { Self::Affine(affine) } else { Self::Stretch }
    }
}

/// Returns the image after each op, in order, including ops that do not run for these draws.
///
/// Ops that were folded into one matrix all take effect at the first of them.
///
/// # Errors
///
/// If an op returns an error, or the system has no memory for all images: 12 bytes a pixel each.
///
/// # Panics
///
/// If `draws` were not drawn by `plan` for an image of this size.
pub fn evaluate_steps(
    plan: &ImagePlan,
    source: &ImageView<'_>,
    draws: &Draws,
) -> Result<Vec<EvaluatedStep>, Error> {
    let is_levels = plan.input().is_levels;
    let (mut steps, mut scale) = (vec![], if is_levels { Scale::LEVELS } else { Scale::Stretch });
    let mut drawn = draws.describe(plan).into_iter();
    let each = |index: usize, picture: &FloatImage| {
        if draws.active[index] {
            scale = scale.after(&plan.flat_ops()[index], plan, draws);
        }
        if let Some(drawn) = drawn.next() {
            steps.push(EvaluatedStep { drawn, picture: picture.copied()?, scale });
        }
        Ok(())
    };
    DefaultFloats::during(|| walk(plan, plan.flat_ops().len(), source, draws, each))?;
    Ok(steps)
}

/// Applies the flat ops before `end` and returns the last image. `each` is called after every flat op
/// with its index and the image.
fn walk(
    plan: &ImagePlan,
    end: usize,
    source: &ImageView<'_>,
    draws: &Draws,
    mut each: impl FnMut(usize, &FloatImage) -> Result<(), NoMemory>,
) -> Result<FloatImage, Error> {
    let mut picture = FloatImage::from_view(source)?;
    // Blocks pass images of their source's type to each other.
    let begins = |index| {
        let mut blocks = plan.blocks()[1..].iter();
        blocks.find(|block| block.ops.start == index).map(|block| block.source)
    };
    for (index, leaf) in plan.flat_ops()[..end].iter().enumerate() {
        if let Some(dtype) = begins(index) {
            picture.round(dtype);
        }
        match matrix_of(plan, index) {
            _ if !draws.active[index] => {}
            None => picture = after(plan, index, leaf, draws, picture)?,
            Some((first, param)) if first == index => {
                let matrix = &draws.params[param..param + 12];
                picture.pixels_mut().for_each(|pixel| multiply(matrix, pixel));
            }
            Some(_) => {}
        }
        each(index, &picture)?;
    }
    if let Some(dtype) = begins(end) {
        picture.round(dtype);
    }
    Ok(picture)
}

/// Returns the image after one flat op.
fn after(
    plan: &ImagePlan,
    index: usize,
    leaf: &FlatOp,
    draws: &Draws,
    mut picture: FloatImage,
) -> Result<FloatImage, Error> {
    match leaf.op.class() {
        OpClass::Geometry(_) => {
            for (_, motion) in draws.geometry.iter().filter(|(of, _)| *of == index) {
                picture = picture.moved(motion, plan.rule(), leaf.input.dtype)?;
            }
        }
        OpClass::Region(op) => {
            for (_, window) in draws.windows.iter().filter(|(of, _)| *of == index) {
                picture = picture.painted(*window, op.fill())?;
            }
        }
        OpClass::Pixel(op) => {
            let channels = leaf.output.channels.into();
            let op = (op, leaf.kind.pixel(None));
            picture = apply(plan.rule(), op, (picture, channels), &draws.params, leaf.first_param)?;
        }
        OpClass::Shuffled(parts) => {
            let order = draws.orders.iter().find(|(of, _)| *of == index);
            let order = order.map_or(0, |(_, order)| *order);
            for part in nth_order(parts.len(), order) {
                let before = (0..part).filter_map(|part| leaf.kind.pixel(Some(part)));
                let param = leaf.first_param + before.map(|kind| kind.param_count).sum::<usize>();
                let op = (parts[part].as_ref(), leaf.kind.pixel(Some(part)));
                let channels = picture.channels();
                picture = apply(plan.rule(), op, (picture, channels), &draws.params, param)?;
            }
        }
        OpClass::Table(op) => {
            let params =
                &draws.params[leaf.first_param..leaf.first_param + leaf.kind.param_count()];
            look_up(plan.rule(), (op, &leaf.kind), &mut picture, params);
        }
        OpClass::Cast(DType::U8) if leaf.input.dtype != DType::U8 => {
            picture.round(DType::U8);
        }
        OpClass::Host(_) => {
            let mut pixels = picture.to_u8()?;
            let size = plan.run_host_op(index, draws, picture.size(), &mut pixels)?;
            let view = ImageView::packed_channels(&pixels, size, picture.channels());
            let view = view.expect("an op in plain Rust keeps the channels");
            picture = FloatImage::from_view(&view)?;
        }
        OpClass::Mix(_) => {
            let (size, channels) = (picture.size(), picture.channels());
            let step = |plan: &ImagePlan, draws: &Draws, from: &[u8], to: &mut Vec<u8>| {
                let view = ImageView::packed_channels(from, size, channels);
                let view = view.expect("a step keeps the size and the channels");
                *to = try_evaluate(plan, &view, draws)?;
                Ok(())
            };
            let buffers = &mut mix::MixBuffers::default();
            picture =
                picture.changed(|pixels| mix::mix(plan, index, draws, pixels, buffers, step))?;
        }
        // Images are sent to a device as bytes.
        OpClass::Device(_) if leaf.input.dtype == DType::U8 => picture.round(DType::U8),
        OpClass::Cast(_)
        | OpClass::View(_)
        | OpClass::Layout(_)
        | OpClass::Device(_)
        | OpClass::Label(_)
        | OpClass::Choice(_)
        | OpClass::Batch(_)
        | OpClass::MultiImage(_)
        | OpClass::HostBatch(_)
        | OpClass::Objects(_) => {}
    }
    Ok(picture)
}

/// Returns the first flat op and the first parameter of the folded matrix that contains `leaf`, if one
/// does.
fn matrix_of(plan: &ImagePlan, leaf: usize) -> Option<(usize, usize)> {
    let mut steps = plan.blocks().iter().flat_map(|block| &block.groups);
    let step = steps.find(|step| step.flat_ops.contains(&leaf))?;
    match step.fused_ops[..] {
        [FusedOp::Matrix { param }] => Some((step.flat_ops[0], param)),
        _ => None,
    }
}

/// Multiplies a pixel of red, green and blue by a matrix of three rows, each with the factors of the three
/// and a constant, and clamps the result.
fn multiply(matrix: &[f32], pixel: &mut [f32]) {
    let [r, g, b] = *pixel else { return };
    for (v, row) in pixel.iter_mut().zip(matrix.chunks_exact(4)) {
        *v = clamp(r.mul_add(row[0], g.mul_add(row[1], b.mul_add(row[2], row[3]))));
    }
}

/// Returns the image of `channels` channels that a pixel op makes, whose parameters start at index `param`.
fn apply(
    rule: NumberRule,
    (op, kind): (&dyn PixelOp, Option<&PixelKind>),
    (mut picture, channels): (FloatImage, usize),
    params: &[f32],
    param: usize,
) -> Result<FloatImage, NoMemory> {
    let Some(kind) = kind else { return Ok(picture) };
    let mut numbers = params[param..param + kind.param_count].to_vec();
    let width = picture.size().width as usize;
    if let Some(statistic) = kind.statistic
        && !op.is_identity(&numbers)
        && let Some(last) = numbers.last_mut()
    {
        *last = match statistic {
            Statistic::GreyMean => grey_mean(picture.pixels()),
            Statistic::RootMeanSquare => {
                root_mean_square(picture.values(), width, picture.channels())
            }
        };
    }
    let change = |index: usize, pixel: &mut [f32]| {
        let at = [index / width, index % width].map(|p| p as i32);
        op.eval(&Eval { rule, params: &numbers, at }, pixel);
    };
    if picture.channels() != channels {
        return picture.with_channels(channels, change);
    }
    picture.pixels_mut().enumerate().for_each(|(index, pixel)| change(index, pixel));
    Ok(picture)
}

/// Applies a table op with its parameters.
fn look_up(
    rule: NumberRule,
    (op, kind): (&dyn TableOp, &OpKind),
    picture: &mut FloatImage,
    params: &[f32],
) {
    let channels = picture.channels();
    let (mut levels, mut table) = (vec![[0; 256]; channels], vec![[0.0; 256]; channels]);
    if matches!(kind, OpKind::Table { counted: true, .. }) {
        for pixel in picture.pixels() {
            levels
                .iter_mut()
                .zip(pixel)
                .for_each(|(counts, v)| counts[usize::from(to_u8(*v))] += 1);
        }
    }
    op.table(rule, params, &levels, &mut table);
    for pixel in picture.pixels_mut() {
        pixel.iter_mut().zip(&table).for_each(|(v, table)| *v = table[usize::from(to_u8(*v))]);
    }
}

/// Converts the image to bytes of the output's type and layout.
fn store(picture: &FloatImage, dtype: DType, layout: Layout) -> Result<Vec<u8>, NoMemory> {
    let mut stored = memory::with_capacity(picture.values().len() * dtype.bytes(), "an output")?;
    let mut store = |value: f32| stored.extend(ElementValue::from(value).converted(dtype).bytes());
    match layout {
        Layout::ChannelsLast | Layout::Plane => {
            picture.values().iter().for_each(|&value| store(value));
        }
        Layout::ChannelsFirst => {
            let channels = 0..picture.channels();
            channels.for_each(|c| picture.pixels().for_each(|pixel| store(pixel[c])));
        }
    }
    Ok(stored)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fuseloop_ops::author::Dim;
    use fuseloop_ops::author::ImageType;
    use fuseloop_ops::internals::SampleKey;
    use fuseloop_ops::*;

    fn steps(ops: Ops) -> (Vec<EvaluatedStep>, Vec<u8>, Vec<u8>) {
        let size = Size::new(20, 30);
        let input = ImageType::decoded(Dim::fixed(20), Dim::fixed(30));
        let plan = ImagePlan::new(ops, input, NumberRule::Fused).unwrap();
        let pixels: Vec<u8> = (0..1800).map(|k| (k * 7 % 256) as u8).collect();
        let view = ImageView::packed(&pixels, size).unwrap();
        let mut draws = Draws::default();
        plan.draw(SampleKey::new(1, 2, 3), size, &mut draws);
        (evaluate_steps(&plan, &view, &draws).unwrap(), evaluate(&plan, &view, &draws), pixels)
    }

    #[test]
    fn the_last_step_is_what_is_stored() {
        let brightness = RandomBrightness::new(0.4).unwrap().p(1.0).unwrap();
        let (steps, stored, _) = steps(ops![CenterCrop::new(8).unwrap(), brightness]);
        let names: Vec<&str> = steps.iter().map(|step| step.drawn.name).collect();
        assert_eq!(names, ["CenterCrop", "RandomBrightness"]);
        assert_eq!(steps[1].shown(&[]).unwrap().pixels, stored);
    }

    #[test]
    fn a_row_is_shown_as_the_last_step() {
        for list in [
            ops![CenterCrop::new(8).unwrap()],
            ops![RandomBrightness::new(0.4).unwrap(), Normalize::imagenet(), ToChannelsFirst],
            ops![Normalize::imagenet(), Resize::new(9).unwrap()],
        ] {
            let size = Size::new(20, 30);
            let input = ImageType::decoded(Dim::fixed(20), Dim::fixed(30));
            let plan = ImagePlan::new(list, input, NumberRule::Fused).unwrap();
            let pixels: Vec<u8> = (0..1800).map(|k| (k * 7 % 256) as u8).collect();
            let view = ImageView::packed(&pixels, size).unwrap();
            let mut draws = Draws::default();
            plan.draw(SampleKey::new(1, 2, 3), size, &mut draws);
            let steps = evaluate_steps(&plan, &view, &draws).unwrap();
            let row = evaluate(&plan, &view, &draws);
            let want = steps.last().unwrap().shown(&[]).unwrap();
            assert_eq!(shown_row(&plan, &draws, &row, &[]).unwrap(), want);
        }
    }

    #[test]
    fn normalized_values_are_shown_as_the_levels_they_were() {
        let (steps, _, pixels) =
            steps(ops![Normalize::imagenet(), Convert::to(DType::F16), ToChannelsFirst]);
        assert!(steps[0].picture.values()[15] < 3.0, "normalized");
        assert!(steps.iter().all(|step| step.shown(&[]).unwrap().pixels == pixels));
    }

    #[test]
    fn selected_values_are_shown_as_the_levels_they_were() {
        let select = SelectChannels::new([2, 0]).unwrap();
        let (steps, _, pixels) = steps(ops![Normalize::imagenet(), select]);
        let want: Vec<u8> = pixels.chunks(3).flat_map(|pixel| [pixel[2], pixel[0]]).collect();
        assert_eq!(steps[1].shown(&[]).unwrap().pixels, want);
    }
}
