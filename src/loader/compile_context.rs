//! The settings that all outputs are compiled with, and the images that their ops get, as known before one is read.

use super::clips::ClipSource;
use super::damaged::OnDamaged;
use super::error::of_output;
use super::image_lists::ImageList;
use super::outputs::OutputSpec;
use super::work::FieldPlan;
use crate::decode::{DecodeOptions, UnreadParts};
use crate::error::{Error, fail};
use crate::jit::{Kernel, KernelCache};
use crate::plan::ImagePlan;
use crate::source::{FrameSource, Source};
use fuseloop_ops::author::{Dim, ImageType};
use fuseloop_ops::{DType, NumberRule};
use std::sync::Arc;

/// The settings that all outputs are compiled with.
#[derive(Clone, Debug)]
pub(super) struct CompileContext {
    pub(super) seed: u64,
    pub(super) rule: NumberRule,
    pub(super) batch_size: usize,
    pub(super) decode: DecodeOptions,
    /// The parts of images that workers have found and do not read.
    pub(super) unread: Arc<UnreadParts>,
    /// True if images are turned as their EXIF orientation says; `None` if the user has not said it. Then they are not, and those
    /// that it matters for are refused beside targets.
    pub(super) exif_orientation: Option<bool>,
    /// True if JPEGs are decoded at a smaller scale where their resize allows it.
    pub(super) scaled_decode: bool,
    /// True if elements of types that tensors lack are bytes, with one more axis: what FFCV's interface asks for.
    pub(super) stored_elements: bool,
    pub(super) on_damaged: OnDamaged,
    /// The source whose samples are clips, if they are.
    pub(super) clips: Option<Arc<ClipSource>>,
    /// The source whose samples have frames that it chooses, if some fields of it have.
    pub(super) frames: Option<FrameSource>,
    /// The fields of lists of images, in the order of their numbers.
    pub(super) lists: Arc<[(usize, ImageList)]>,
    /// True if the order makes batches whose images have one size.
    pub(super) is_bucketed: bool,
    /// The rank of this process; `world` is the number of ranks.
    pub(super) rank: u64,
    pub(super) world: u64,
    /// The number of batches that [`Limits::max_batch_bytes`](crate::sample::Limits::max_batch_bytes)
    /// covers; `None` if the user set a memory limit of the engine.
    pub(super) counted_batches: Option<u64>,
}

impl CompileContext {
    /// Returns the default settings.
    pub(super) fn new(batch_size: usize, decode: DecodeOptions, unread: Arc<UnreadParts>) -> Self {
        Self {
            seed: 0,
            rule: NumberRule::Fused,
            batch_size,
            decode,
            unread,
            exif_orientation: None,
            scaled_decode: false,
            stored_elements: false,
            on_damaged: OnDamaged::Fail,
            clips: None,
            frames: None,
            lists: Arc::default(),
            is_bucketed: false,
            rank: 0,
            world: 1,
            counted_batches: None,
        }
    }
}

/// Compiles the plan of an output, whose code is listed under the output's name.
pub(super) fn compile_image(
    image: ImagePlan,
    output: &str,
    setup: &CompileContext,
    cache: &mut KernelCache,
) -> Result<Arc<Kernel>, Error> {
    compile_plan(image.named(output).for_batches_of(setup.batch_size), output, cache)
}

/// Compiles a plan of an output.
pub(super) fn compile_plan(
    plan: impl Into<Arc<ImagePlan>>,
    output: &str,
    cache: &mut KernelCache,
) -> Result<Arc<Kernel>, Error> {
    let kernel = cache.compile(plan).map_err(|error| of_output(error, output))?;
    Ok(Arc::new(kernel))
}

/// Refuses a plan whose rows are larger than a sample may be.
pub(super) fn within_limits(
    work: FieldPlan,
    field: &str,
    setup: &CompileContext,
) -> Result<FieldPlan, Error> {
    let (bytes, max) = (work.row_bytes() as u64, setup.decode.limits.max_sample_bytes);
    if bytes > max {
        let error =
            fail!(Memory, "field {field}: a value of {bytes} bytes is over the limit of {max}");
        return Err(error.of_field(field));
    }
    Ok(work)
}

/// The largest side of an image of unknown size: JPEG's own limit.
pub(super) const LARGEST_SIDE: u32 = 65_535;

/// Returns the type of the images that the ops of an output get.
pub(super) fn image_input(
    source: &dyn Source,
    output: &OutputSpec,
    setup: &CompileContext,
) -> Result<ImageType, Error> {
    let input = image_type(source, output.field, setup)?;
    let (channels, dtype) = (output.read_mode.channels(), output.read_mode.dtype());
    Ok(ImageType { dtype, is_levels: dtype == DType::U8, ..input.with_channels(channels) })
}

/// Returns the type of a field's images, as known before they are read.
pub(super) fn image_type(
    source: &dyn Source,
    field: usize,
    setup: &CompileContext,
) -> Result<ImageType, Error> {
    let name = || source.fields()[field].name.clone();
    let Some(stats) = source.image_stats(field) else {
        let any = Dim { min: 1, max: LARGEST_SIDE };
        return Ok(ImageType::decoded(any, any));
    };
    let Some((min, max)) = stats.min.zip(stats.max) else {
        return Err(fail!(
            Damaged,
            "field {field} has no readable image, so its size is unknown",
            field = name()
        )
        .of_field(&name()));
    };
    if setup.decode.exif_orientation && stats.jpegs() > 0 {
        // Any image may be rotated by 90 degrees.
        let side = Dim { min: min.height.min(min.width), max: max.height.max(max.width) };
        return Ok(ImageType::decoded(side, side));
    }
    let height = Dim { min: min.height, max: max.height };
    Ok(ImageType::decoded(height, Dim { min: min.width, max: max.width }))
}
