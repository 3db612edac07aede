//! The targets of one sample: read before the image draws, and written after it.

use super::clips::ClipSource;
use super::targets::{PlannedTarget, Target, of_mask, write_column};
use super::work::OutputPlan;
use crate::decode::ObjectMask;
use crate::decode::object_rows::{other_count, rows_of};
use crate::error::{Error, fail};
use crate::jit::{DecodedPixels, Kernel, Scratch};
use crate::plan::Draws;
use crate::sample::SampleId;
use crate::source::{BoxError, Buffer, Source, Value};
use fuseloop_ops::author::Objects;
use fuseloop_ops::internals::{ImageView, PixelFormat, memory};
use fuseloop_ops::{DType, Size};

/// An image output, and the fields that follow it.
#[derive(Clone, Debug)]
pub(super) struct TargetGroup {
    /// The index of the image's output.
    pub(super) image: usize,
    /// The index of the image's field.
    pub(super) field: usize,
    /// The boxes, the keypoints, and then all others.
    pub(super) members: Vec<TargetMember>,
}

/// A field that follows an image.
#[derive(Clone, Debug)]
pub(super) struct TargetMember {
    pub(super) field: usize,
    pub(super) target: Target,
    /// The index of its output, unless it is left out of the batches.
    pub(super) output: Option<usize>,
}

/// The sample, or the frame of a clip, whose targets are read.
#[derive(Clone, Copy)]
pub(super) enum TargetValues<'a> {
    Sample(&'a dyn Source, SampleId),
    Frame(&'a ClipSource, SampleId, u32),
}

impl TargetValues<'_> {
    /// Reads the value of a field.
    ///
    /// # Errors
    ///
    /// Fails as [`Source::value`] does.
    pub(super) fn read<'b>(
        &'b self,
        field: usize,
        buffer: &'b mut Buffer,
    ) -> Result<Value<'b>, BoxError> {
        match *self {
            Self::Sample(source, sample) => source.value(sample, field, buffer),
            Self::Frame(clips, sample, frame) => clips.frame_value((sample, frame), field, buffer),
        }
    }

    /// Returns the size of the picture that the targets are of, if they have one.
    pub(super) fn annotated_size(&self) -> Option<Size> {
        match *self {
            Self::Sample(source, sample) => source.annotated_size(sample),
            Self::Frame(clips, sample, frame) => clips.annotated_frame_size((sample, frame)),
        }
    }
}

/// The memory of a worker for the targets of a sample.
#[derive(Default)]
pub(super) struct TargetScratch {
    /// The objects as they are stored, until the image draws.
    pub(super) objects: Objects,
    /// How many objects are stored.
    stored: usize,
    /// The draws of the image.
    pub(super) image: Draws,
    /// The draws of a mask.
    pub(super) mask: Draws,
    /// The rows of the target that was written last.
    pub(super) rows: Vec<u8>,
    /// The pixels of an object's mask.
    pixels: Vec<u8>,
}

impl TargetGroup {
    /// Returns the images among `outputs` that have targets.
    pub(super) fn of_outputs(outputs: &[OutputPlan]) -> Vec<Self> {
        let group = |(image, output): (usize, &OutputPlan)| {
            let member = |(field, target): &(usize, Target)| {
                let is_own = |other: &OutputPlan| other.field == *field && other.target.is_some();
                let output = outputs.iter().position(is_own);
                TargetMember { field: *field, target: target.clone(), output }
            };
            let mut members: Vec<_> = output.targets.as_ref()?.fields.iter().map(member).collect();
            members.sort_by_key(TargetMember::rank);
            Some(Self { image, field: output.field, members })
        };
        outputs.iter().enumerate().filter_map(group).collect()
    }

    /// Returns the members that are read before the image draws: those that say where the objects are, or else one that
    /// says how many there are.
    pub(super) fn read_first(&self) -> impl Iterator<Item = &TargetMember> {
        read_first(self.members.iter())
    }
}

/// Returns those of the members of an image that are read before it draws: see [`TargetGroup::read_first`].
pub(super) fn read_first<'a>(
    members: impl Iterator<Item = &'a TargetMember> + Clone,
) -> impl Iterator<Item = &'a TargetMember> {
    let has_places = members.clone().any(TargetMember::has_places);
    let count = members.clone().find(|member| !has_places && member.counts_objects());
    members.filter(|member| member.has_places()).chain(count)
}

impl TargetMember {
    /// Returns the place of the member among those of its image: the boxes, the keypoints, and then all others.
    pub(super) fn rank(&self) -> usize {
        match self.target {
            Target::Boxes(_) => 0,
            Target::KeyPoints(_) => 1,
            _ => 2,
        }
    }

    fn has_places(&self) -> bool {
        matches!(self.target, Target::Boxes(_) | Target::KeyPoints(_))
    }

    fn counts_objects(&self) -> bool {
        matches!(self.target, Target::Column(_) | Target::InstanceMasks)
    }

    /// Returns whether the rows need the field's value once the image is drawn.
    pub(super) fn is_read_last(&self) -> bool {
        !self.has_places()
    }

    /// Reads the objects, before the image draws.
    /// `whole` is the size of the image, if it is known.
    pub(super) fn read(
        &self,
        value: Value<'_>,
        whole: Option<Size>,
        scratch: &mut TargetScratch,
    ) -> Result<(), Error> {
        let bytes = bytes_of(value);
        let TargetScratch { objects, stored, .. } = scratch;
        match &self.target {
            Target::Boxes(boxes) => boxes.read(bytes, objects)?,
            Target::KeyPoints(points) => points.read(bytes, objects)?,
            Target::Column(dtype) => {
                objects.reset(rows_of(bytes, *dtype, 1)?.len() / dtype.bytes());
            }
            Target::InstanceMasks => objects.reset(ObjectMasks::of(value, whole)?.len()),
            Target::Mask { .. } => {}
        }
        *stored = objects.len();
        Ok(())
    }
}

impl TargetScratch {
    /// Forgets the objects of another sample.
    pub(super) fn clear(&mut self) {
        self.objects.clear();
        self.stored = 0;
    }

    /// Writes the rows of a ragged target, and returns them. `value` is the field's, if it is
    /// [read last](TargetMember::is_read_last).
    pub(super) fn rows(
        &mut self,
        plan: &PlannedTarget,
        value: Option<Value<'_>>,
        kernels: &mut Scratch,
    ) -> Result<&[u8], Error> {
        self.rows.clear();
        let (objects, bytes) = (&self.image.objects, value.map(bytes_of).unwrap_or_default());
        match (&plan.target, &plan.object_masks) {
            (Target::Boxes(boxes), _) => {
                boxes.write(objects, self.image.output, &mut self.rows);
            }
            (Target::KeyPoints(points), _) => points.write(objects, &mut self.rows),
            (Target::Column(dtype), _) => {
                write_column(bytes, *dtype, (objects, self.stored), &mut self.rows)?;
            }
            (_, Some(kernel)) => self.instance_masks(kernel, value, kernels)?,
            (Target::InstanceMasks | Target::Mask { .. }, None) => {}
        }
        Ok(&self.rows)
    }

    /// Writes the masks of the objects, one after the other.
    fn instance_masks(
        &mut self,
        kernel: &Kernel,
        value: Option<Value<'_>>,
        kernels: &mut Scratch,
    ) -> Result<(), Error> {
        let Self { image, mask, rows, pixels, stored, .. } = self;
        let masks = ObjectMasks::of(value.unwrap_or(Value::Json(b"[]")), Some(image.source))?;
        if masks.len() != *stored {
            let (found, expected) = (masks.len(), *stored);
            return Err(other_count(found, expected));
        }
        kernel.plan().follow(image, mask);
        let (whole, each) = (image.source, kernel.plan().drawn_bytes(mask));
        memory::resize(pixels, whole.pixels() as usize, "the mask of an object")?;
        memory::resize(rows, each * image.objects.len(), "the masks of the objects")?;
        for (&row, out) in image.objects.rows().iter().zip(rows.chunks_exact_mut(each.max(1))) {
            let pixels = masks.pixels(row, whole, pixels)?;
            let format = PixelFormat { channels: 1, dtype: DType::U8 };
            let view =
                ImageView::packed_format(pixels, whole, format).expect("a byte for each pixel");
            kernel.try_run(kernels, DecodedPixels { view, top: 0, left: 0, whole }, mask, out)?;
        }
        Ok(())
    }
}

/// Returns the bytes of a value whose kind was checked when the loader was built.
pub(super) fn bytes_of(value: Value<'_>) -> &[u8] {
    match value {
        Value::Json(text) => text.strip_suffix(&[0]).unwrap_or(text),
        Value::Bytes(bytes) => bytes,
        _ => &[],
    }
}

pub(super) fn masks_of(bytes: &[u8]) -> Result<Vec<Option<ObjectMask>>, Error> {
    ObjectMask::parse_list(bytes)
        .map_err(|error| fail!(Damaged, "the masks of the objects: {error}"))
}

/// The masks of the objects of an image, as they are stored.
enum ObjectMasks<'a> {
    /// Polygons and run lengths.
    Coded(Vec<Option<ObjectMask>>),
    /// A byte for each pixel of the image, mask after mask.
    Pixels { bytes: &'a [u8], each: usize },
}

impl<'a> ObjectMasks<'a> {
    /// `whole` is the size of the image, which masks of pixels need.
    fn of(value: Value<'a>, whole: Option<Size>) -> Result<Self, Error> {
        let (Value::NdArray(bytes), Some(whole)) = (value, whole) else {
            return Ok(Self::Coded(masks_of(bytes_of(value))?));
        };
        let each = whole.pixels() as usize;
        if !bytes.len().is_multiple_of(each.max(1)) {
            return Err(fail!(
                Damaged,
                "the masks of the objects have {} bytes: each must have {each}, as many as an image of {whole} has pixels",
                bytes.len()
            ));
        }
        Ok(Self::Pixels { bytes, each })
    }

    fn len(&self) -> usize {
        match self {
            Self::Coded(masks) => masks.len(),
            Self::Pixels { bytes, each } => bytes.len() / each,
        }
    }

    /// Returns the pixels of the mask of object `row` in an image of size `whole`; those that are coded are drawn in
    /// `drawn`.
    fn pixels<'b>(
        &'b self,
        row: usize,
        whole: Size,
        drawn: &'b mut [u8],
    ) -> Result<&'b [u8], Error> {
        match self {
            Self::Pixels { bytes, each } => return Ok(&bytes[row * each..][..*each]),
            Self::Coded(masks) => match &masks[row] {
                Some(object) => object.fill(whole, drawn).map_err(|error| of_mask(row, &error))?,
                None => drawn.fill(0),
            },
        }
        Ok(drawn)
    }
}
