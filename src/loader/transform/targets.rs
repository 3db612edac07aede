//! Boxes, keypoints, columns and masks that follow an image, with its draws.

use super::{Image, Key, Memory, Tensor, Transform};
use crate::batch::Element;
use crate::decode::ImageReadMode;
use crate::error::{Error, fail};
use crate::jit::{DecodedPixels, Kernel, KernelCache, Scratch};
use crate::loader::image_run;
use crate::loader::opened_image::OpenedImage;
use crate::loader::target_rows::{TargetScratch, read_first};
use crate::loader::targets::{PlannedTarget, Target, TargetRequest, check_orientation};
use crate::plan::{ImagePlan, TargetKinds};
use crate::source::{Escaped, Value};
use fuseloop_engine::batch::bytes_of;
use fuseloop_ops::{DType, Ops, Squeeze};
use std::sync::Arc;

/// The value of a target of one image.
///
/// | declared by | value |
/// |---|---|
/// | [`boxes`](crate::loader::Targets::boxes), [`keypoints`](crate::loader::Targets::keypoints), [`column`](crate::loader::Targets::column) | [`elements`](Self::elements) or [`Bytes`](Self::Bytes) |
/// | [`instance_masks`](crate::loader::Targets::instance_masks) | [`Json`](Self::Json) or [`Masks`](Self::Masks) |
/// | [`mask`](crate::loader::Targets::mask) | [`Mask`](Self::Mask) |
///
/// ```
/// use fuseloop::transform::{Image, TargetValue};
///
/// let pixels = vec![1_u8; 10 * 20];
/// let values = [
///     ("boxes", TargetValue::elements(&[2.0_f32, 1.0, 6.0, 5.0])),
///     ("mask", TargetValue::Mask(Image::plane(&pixels, [10, 20])?)),
/// ];
/// # assert_eq!(values.len(), 2);
/// # Ok::<(), fuseloop::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum TargetValue<'a> {
    /// The elements of all objects, one object after the other, in little-endian order, or a `.npy` file of them: f32 for
    /// boxes and keypoints, and the declared type for a column.
    Bytes(&'a [u8]),
    /// The value of [`elements`](Self::elements): the elements in native order, and their type.
    #[doc(hidden)]
    Typed(&'a [u8], DType),
    /// JSON: a list of COCO's `segmentation` values, one for each object.
    Json(&'a str),
    /// The mask of each object, one after the other: a byte for each pixel of the image.
    Masks(&'a [u8]),
    /// A mask of the whole image: u8 pixels of one channel, or a PNG of indices or gray levels.
    Mask(Image<'a>),
}

impl<'a> TargetValue<'a> {
    /// The elements of all objects, one object after the other: f32 for boxes and keypoints, and the declared type for a
    /// column. Elements of another type are an error of the call.
    #[must_use]
    pub fn elements<T: Element>(elements: &'a [T]) -> Self {
        Self::Typed(bytes_of(elements), T::DTYPE)
    }

    /// Returns the value as one of a dataset's field; `None` for an image.
    fn stored(self) -> Option<Value<'a>> {
        match self {
            Self::Bytes(bytes) | Self::Typed(bytes, _) => Some(Value::Bytes(bytes)),
            Self::Json(text) => Some(Value::Json(text.as_bytes())),
            Self::Masks(pixels) => Some(Value::NdArray(pixels)),
            Self::Mask(_) => None,
        }
    }

    /// Returns whether the value is one of a target.
    fn is_of(&self, target: &Target) -> bool {
        match target {
            Target::Boxes(_) | Target::KeyPoints(_) | Target::Column(_) => {
                matches!(self, Self::Bytes(_) | Self::Typed(..))
            }
            Target::InstanceMasks => matches!(self, Self::Json(_) | Self::Masks(_)),
            Target::Mask { .. } => matches!(self, Self::Mask(_)),
        }
    }
}

/// An image and its targets after a call.
///
/// ```
/// use fuseloop::loader::Targets;
/// use fuseloop::ops::*;
/// use fuseloop::transform::{Image, Key, TargetValue, Transform};
///
/// let list = ops![RandomHorizontalFlip::new(1.0)?];
/// let transform = Transform::new(list)?.targets(&Targets::new().boxes("boxes", BoxFormat::Xyxy))?;
/// let pixels = vec![0; 10 * 20 * 3];
/// let image = Image::rgb(&pixels, 10, 20)?;
/// let boxes = TargetValue::elements(&[2.0_f32, 1.0, 6.0, 5.0]);
/// let out = transform.apply_with(&image, &[("boxes", boxes)], Key::new(0, 0, 0))?;
/// assert_eq!(out.image().shape(), [10, 20, 3]);
/// assert_eq!(out.objects(), [0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Transformed {
    image: Tensor,
    targets: Vec<(String, Tensor)>,
    objects: Vec<usize>,
}

impl Transformed {
    /// Returns the array of the image.
    #[must_use]
    pub fn image(&self) -> &Tensor {
        &self.image
    }

    /// Returns a target after the ops, by its name: the rows of the objects that stay, or the mask of the image, u8
    /// `[height, width, 1]`. `None` if no value was given for it.
    #[must_use]
    pub fn target(&self, name: &str) -> Option<&Tensor> {
        self.targets.iter().find(|(own, _)| own == name).map(|(_, tensor)| tensor)
    }

    /// Returns the indices of the objects that stay, in order: the rows of all targets but masks of the image.
    #[must_use]
    pub fn objects(&self) -> &[usize] {
        &self.objects
    }

    /// Returns the image and the targets with their names.
    #[must_use]
    pub fn into_parts(self) -> (Tensor, Vec<(String, Tensor)>) {
        (self.image, self.targets)
    }
}

/// How a target follows images of a type.
pub(super) struct CompiledTarget {
    planned: PlannedTarget,
    /// The kernel of a mask of the whole image.
    mask: Option<Kernel>,
}

impl CompiledTarget {
    /// Plans and compiles how a target follows images of a plan.
    pub(super) fn new(
        target: &Target,
        plan: &ImagePlan,
        kernels: &mut KernelCache,
    ) -> Result<Self, Error> {
        let mut compile =
            |fill, own: &Ops| kernels.compile(plan.for_mask(DType::U8, fill, own)?.named("mask"));
        let (mut target, mut mask, mut object_masks) = (target.clone(), None, None);
        match &mut target {
            Target::Mask { fill } => mask = Some(compile(*fill, &Ops::new())?),
            Target::InstanceMasks => {
                let squeeze: Ops = vec![Arc::new(Squeeze)];
                object_masks = Some(Arc::new(compile(0, &squeeze)?));
            }
            Target::Boxes(boxes) => *boxes = boxes.after(plan)?,
            Target::KeyPoints(_) | Target::Column(_) => {}
        }
        let planned = PlannedTarget { target, object_masks, later_object_masks: vec![] };
        Ok(Self { planned, mask })
    }
}

impl Transform {
    /// Runs the list on an image, and has its [targets](Self::targets) follow it, with the draws of the image. `values` are
    /// names of targets and their values; a target may be left out, as if it were not declared.
    ///
    /// ```
    /// use fuseloop::loader::Targets;
    /// use fuseloop::ops::*;
    /// use fuseloop::transform::{Image, Key, TargetValue, Transform};
    ///
    /// let targets = Targets::new().boxes("boxes", BoxFormat::Xyxy).column("labels", DType::I64);
    /// let transform = Transform::new(ops![RandomHorizontalFlip::new(1.0)?])?.targets(&targets)?;
    /// let pixels = vec![0; 10 * 20 * 3];
    /// let values = [
    ///     ("boxes", TargetValue::elements(&[2.0_f32, 1.0, 6.0, 5.0])),
    ///     ("labels", TargetValue::elements(&[7_i64])),
    /// ];
    /// let out = transform.apply_with(&Image::rgb(&pixels, 10, 20)?, &values, Key::new(0, 0, 0))?;
    /// let boxes = out.target("boxes").expect("a value was given");
    /// assert_eq!((boxes.shape(), boxes.as_slice::<f32>()?), (&[1, 4][..], &[14.0, 1.0, 18.0, 5.0][..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// | target | array |
    /// |---|---|
    /// | boxes | f32 `[objects, 4]`, or 5 or 8 numbers each if rotated |
    /// | keypoints | f32 `[objects, K, 3]`, or 2 numbers each without a visibility |
    /// | column | `[objects]` of its type |
    /// | instance masks | u8 `[objects, height, width]` |
    /// | mask | u8 `[height, width, 1]` |
    ///
    /// # Errors
    ///
    /// If a name was not declared, or a value is not of the kind of its target; if targets have different numbers of
    /// objects, or a mask has another size than the image; if the image file has an EXIF orientation and
    /// [`exif_orientation`](Self::exif_orientation) was not set; see [`apply`](Self::apply).
    pub fn apply_with(
        &self,
        image: &Image<'_>,
        values: &[(&str, TargetValue<'_>)],
        key: Key,
    ) -> Result<Transformed, Error> {
        self.on_device.check_host(&self.ops)?;
        let values = self.in_order(values)?;
        let mut array = None;
        let (targets, objects) = self.in_memory(|worker| {
            let (list, _) = self.run_with(worker, image, &values, key, false, |out| {
                Ok(array.insert(Tensor::zeros(out.dtype(), out.shape())?).bytes_mut())
            })?;
            let mut targets = vec![];
            for (number, value) in &values {
                let name = &self.members[*number].0;
                let target = &list.targets[*number];
                let tensor = self.target(worker, target, *value);
                targets.push((name.clone(), tensor.map_err(|error| of_target(error, name))?));
            }
            Ok((targets, worker.targets.image.objects.rows().to_vec()))
        })?;
        let image = array.expect("a call that succeeds has asked for its memory");
        Ok(Transformed { image, targets, objects })
    }

    /// Returns the values with the numbers of their targets, in the order that they are read in.
    fn in_order<'a>(
        &self,
        values: &[(&str, TargetValue<'a>)],
    ) -> Result<Vec<(usize, TargetValue<'a>)>, Error> {
        let mut ordered: Vec<(usize, TargetValue<'a>)> = vec![];
        for (name, value) in values {
            let number = self.members.iter().position(|(own, _)| own == name);
            let Some(number) = number else {
                let known: Vec<&str> = self.members.iter().map(|(name, _)| &**name).collect();
                let (name, known) = (Escaped(name), known.join(", "));
                return Err(fail!(Field, "no target named {name}; declared: {known}"));
            };
            if ordered.iter().any(|(other, _)| *other == number) {
                return Err(fail!(Parameter, "target {} has two values", Escaped(name)));
            }
            if !value.is_of(&self.members[number].1.target) {
                let error = fail!(
                    Parameter,
                    "a value of another kind than was declared: boxes, keypoints and columns are bytes, instance masks \
                     JSON or masks, and a mask is an image"
                );
                return Err(of_target(error, name));
            }
            let expected = match self.members[number].1.target {
                Target::Column(dtype) => dtype,
                _ => DType::F32,
            };
            if let TargetValue::Typed(_, found) = value
                && *found != expected
            {
                let error =
                    fail!(Parameter, "its elements are of type {found}, expected {expected}");
                return Err(of_target(error, name));
            }
            ordered.push((number, *value));
        }
        ordered.sort_by_key(|(number, _)| *number);
        Ok(ordered)
    }

    /// Returns the kinds of targets that an image has.
    pub(super) fn kinds(&self, values: &[(usize, TargetValue<'_>)]) -> TargetKinds {
        let field = |(number, _): &(usize, _)| {
            let member = &self.members[*number].1;
            (member.field, member.target.clone())
        };
        kinds(&TargetRequest { fields: values.iter().map(field).collect() })
    }

    /// Reads the objects of an image that draws afterwards.
    pub(super) fn read_objects(
        &self,
        opened: &OpenedImage<'_>,
        values: &[(usize, TargetValue<'_>)],
        targets: &mut TargetScratch,
    ) -> Result<(), Error> {
        targets.clear();
        if values.is_empty() {
            return Ok(());
        }
        if let OpenedImage::Value(opened) = opened
            && let Some(turned) = opened.turned()
        {
            check_orientation(turned, None, self.setup.exif_orientation)?;
        }
        let members = || values.iter().map(|(number, _)| &self.members[*number].1);
        for first in read_first(members()) {
            let value = members().position(|member| std::ptr::eq(member, first));
            let Some((number, value)) = value.map(|index| values[index]) else { continue };
            let Some(stored) = value.stored() else { continue };
            let read = first.read(stored, Some(opened.size()), targets);
            read.map_err(|error| of_target(error, &self.members[number].0))?;
        }
        Ok(())
    }

    /// Returns a target of an image that has drawn.
    fn target(
        &self,
        worker: &mut Memory,
        compiled: &CompiledTarget,
        value: TargetValue<'_>,
    ) -> Result<Tensor, Error> {
        let Memory { decoder, scratch, targets, .. } = worker;
        if let (TargetValue::Mask(mask), Some(kernel)) = (value, &compiled.mask) {
            if !mask.is_index() {
                return Err(fail!(
                    Parameter,
                    "a mask is u8 pixels of one channel, or an image file"
                ));
            }
            let mut opened = mask.open(decoder, ImageReadMode::Index)?;
            return self.mask(kernel, &mut opened, targets, scratch);
        }
        let (size, count) = (targets.image.output, targets.image.objects.len());
        let (dtype, mut shape) = compiled.planned.target.row(size);
        shape.insert(0, count);
        let rows = targets.rows(&compiled.planned, value.stored(), scratch)?;
        let mut tensor = Tensor::zeros(dtype, shape)?;
        tensor.bytes_mut().copy_from_slice(rows);
        Ok(tensor)
    }

    /// Returns the mask of an image that has drawn.
    fn mask(
        &self,
        kernel: &Kernel,
        opened: &mut OpenedImage<'_>,
        targets: &mut TargetScratch,
        scratch: &mut Scratch,
    ) -> Result<Tensor, Error> {
        image_run::draw_mask(opened, kernel, targets, &self.setup)?;
        let (plan, draws, whole) = (kernel.plan(), &targets.mask, opened.size());
        let decoded = opened.decode(plan.needed_window(draws))?;
        let (view, top, left) = (decoded.view, decoded.top, decoded.left);
        let mut tensor = Tensor::zeros(plan.dtype(), plan.shape_of(draws.output))?;
        let pixels = DecodedPixels { view, top, left, whole };
        kernel.try_run(scratch, pixels, draws, tensor.bytes_mut())?;
        Ok(tensor)
    }
}

/// Returns the kinds of targets. A call without objects is one whose ops on objects have nothing to do.
pub(super) fn kinds(request: &TargetRequest) -> TargetKinds {
    let is_object = |(_, target): &(usize, Target)| !matches!(target, Target::Mask { .. });
    TargetKinds { may_lack_objects: !request.fields.iter().any(is_object), ..request.kinds() }
}

/// Names the target that an error is about.
fn of_target(error: Error, name: &str) -> Error {
    error.context(format_args!("target {}", Escaped(name))).of_field(name)
}
