//! Collation: how samples that differ in size become one batch.
//!
//! | | tensor | size tensor | name in PyTorch and TensorFlow |
//! |---|---|---|---|
//! | [`pad`](Collate::pad), bytes | `[batch, max, inner...]` | `NAME.length` i64 `[batch]` | `pad_sequence`, `padded_batch` |
//! | [`pad`](Collate::pad), images | `[batch, max h, max w, channels]`, or channels first | `NAME.size` i64 `[batch, 2]` | `padded_batch` |
//! | [`ragged`](Collate::ragged), bytes | values `[total, inner...]`, offsets | `NAME.length` | nested tensor, `ragged_batch` |
//! | [`list`](Collate::list), bytes | one slice per sample | `NAME.length` | a `collate_fn` that returns a list |
//! | [`list`](Collate::list), images | one slice per sample | `NAME.size` | a `collate_fn` that returns a list |
//!
//! Images are collated as they are stored, or as their ops leave them: in the type and layout of the list's end.
//!
//! A length counts elements, or items of the inner shape, never bytes; a size is (height, width). Size
//! tensors are ordinary tensors, and come after those of the outputs. Random: nothing. Cost: one copy of
//! a sample, for ragged ones another one when the batch is finished; memory is the batch size times the
//! largest sample ([`TensorRows`](crate::batch::TensorRows)).

use crate::batch::{TensorRows, TensorSpec};
use crate::decode::ImageReadMode;
use crate::error::{Error, fail};
use crate::plan::ImagePlan;
use crate::plan::batch_ops;
use crate::source::{FieldKind, Value};
use fuseloop_engine::batch::ImagePadding;
use fuseloop_ops::author::{Layout, OpClass, Window};
use fuseloop_ops::internals::ImageView;
use fuseloop_ops::{DType, Ops, Size};
use half::{bf16, f16};

/// How the samples of a field that differ in size become a batch; see
/// [`LoaderBuilder::collate`](super::LoaderBuilder::collate).
///
/// ```
/// use fuseloop::loader::Collate;
/// use fuseloop::ops::DType;
///
/// let tokens = Collate::pad().of(DType::I64, &[]).to(512).truncate().fill(-100.0);
/// let boxes = Collate::ragged().of(DType::F32, &[4]);
/// let pictures = Collate::list();
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Collate {
    form: CollateForm,
    most: Option<MaxSize>,
    elements: Option<(DType, Vec<usize>)>,
    value: Option<f64>,
    truncate: bool,
    multiple: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CollateForm {
    Pad,
    Ragged,
    List,
}

/// The maximum size of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MaxSize {
    Length(usize),
    Size(Size),
}

impl Collate {
    /// Pads all rows to the size of the dataset's largest sample: bytes at the end, an image at the
    /// right and the bottom.
    #[must_use]
    pub fn pad() -> Self {
        Self::new(CollateForm::Pad)
    }

    /// Packs the samples one after the other, without gaps:
    #[must_use]
    pub fn ragged() -> Self {
        Self::new(CollateForm::Ragged)
    }

    /// Keeps each sample as its own slice: [`Batch::list`](fuseloop_engine::batch::HostBatch::list).
    #[must_use]
    pub fn list() -> Self {
        Self::new(CollateForm::List)
    }

    fn new(form: CollateForm) -> Self {
        Self { form, most: None, elements: None, value: None, truncate: false, multiple: None }
    }

    /// Sets the type that bytes are read as: elements of `dtype`, in native byte order, with `inner` of
    /// them per item. Token ids are `(DType::I64, &[])`, boxes `(DType::F32, &[4])`. Default: bytes.
    #[must_use]
    pub fn of(mut self, dtype: DType, inner: &[usize]) -> Self {
        self.elements = Some((dtype, inner.to_vec()));
        self
    }

    /// Sets the maximum number of items of a sample, which is also the size that rows are padded to.
    /// Default: the length of the dataset's longest sample; images are padded to the largest of their
    /// batch. A longer sample is an error, unless it is [truncated](Self::truncate).
    #[must_use]
    pub fn to(mut self, max: usize) -> Self {
        self.most = Some(MaxSize::Length(max));
        self
    }

    /// Sets the maximum size of an image (one number of pixels for a square, or height and width); see
    /// [`to`](Self::to).
    #[must_use]
    pub fn to_size(mut self, size: impl Into<Size>) -> Self {
        self.most = Some(MaxSize::Size(size.into()));
        self
    }

    /// Truncates larger samples: the end of a sample, the right and the bottom of an image.
    #[must_use]
    pub fn truncate(mut self) -> Self {
        self.truncate = true;
        self
    }

    /// Rounds the size that the images of a batch are padded to up to a multiple of `pixels` in height and width, as
    /// networks with strides want it: 32 in torchvision's detectors.
    #[must_use]
    pub fn to_multiple(mut self, pixels: usize) -> Self {
        self.multiple = Some(pixels);
        self
    }

    /// Sets the padding value. Default 0, which is the mean after `Normalize`: images are padded after their ops.
    #[must_use]
    pub fn fill(mut self, value: f64) -> Self {
        self.value = Some(value);
        self
    }

    /// Plans the collation of a field of this kind, with these ops, as far as the dataset is not needed:
    /// in the result, the shape of the largest sample is only the inner shape. Images are read as `mode`.
    pub(super) fn plan(
        &self,
        kind: &FieldKind,
        mode: ImageReadMode,
        ops: &Ops,
    ) -> Result<Collated, Error> {
        self.check(kind, ops)?;
        let stored = if kind.is_image() { mode.dtype() } else { DType::U8 };
        let (dtype, inner) = self.elements.clone().unwrap_or((stored, vec![]));
        let value = self.value.unwrap_or(0.0);
        let pad = element(value, dtype)
            .ok_or_else(|| fail!(Parameter, "the padding value {value} does not fit {dtype}"))?;
        let item = inner.iter().try_fold(dtype.bytes(), |bytes, &n| bytes.checked_mul(n));
        let Some(item) = item.filter(|&bytes| bytes > 0) else {
            return Err(fail!(
                Parameter,
                "an inner shape of {inner:?}: give 1 or more along each dimension, or &[]"
            ));
        };
        let axes = if kind.is_image() { 2 } else { 1 };
        let is_fixed = self.most.is_some() || axes == 1;
        let Self { form, truncate, .. } = *self;
        let multiple = self.multiple.unwrap_or(1);
        let first = 0;
        Ok(Collated {
            form,
            dtype,
            shape: inner,
            first,
            axes,
            item,
            pad,
            truncate,
            is_fixed,
            multiple,
        })
    }

    /// Plans the collation of images as the ops of `plan` leave them.
    pub(super) fn plan_images(&self, plan: &ImagePlan) -> Result<Collated, Error> {
        if let Some(op) = batch_ops::steps(plan.ops()).next() {
            return Err(fail!(
                Parameter,
                "{op} works on batches of one size, but the images differ: remove it, or end the list with one size",
                op = op.names()
            ));
        }
        if plan.ops().iter().any(|op| matches!(op.class(), OpClass::Device(_))) {
            return Err(fail!(
                Parameter,
                "images of differing sizes are collated on the host: remove ToDevice, or end the list with one size"
            ));
        }
        if self.truncate {
            return Err(fail!(
                Parameter,
                "`truncate` is for images without ops: add CenterCrop or FixedSizeCrop to the list"
            ));
        }
        let dtype = plan.dtype();
        // Everything else about the form is the same for images as they are stored.
        let kind = FieldKind::RgbImage;
        self.check(&kind, &Ops::new())?;
        let unpadded = Self { value: None, ..self.clone() };
        let mut collated = unpadded.plan(&kind, ImageReadMode::Rgb, &Ops::new())?;
        let value = self.value.unwrap_or(0.0);
        collated.pad = element(value, dtype)
            .ok_or_else(|| fail!(Parameter, "the padding value {value} does not fit {dtype}"))?;
        collated.dtype = dtype;
        let largest = self.max_size().unwrap_or_else(|| plan.output_size());
        let up = |side: u32| u64::from(side).next_multiple_of(collated.multiple as u64);
        let [height, width] = [largest.height, largest.width].map(|side| u32::try_from(up(side)));
        let too_large = |_| {
            fail!(
                Parameter,
                "a multiple of {multiple} pixels, expected 1 to 65535",
                multiple = collated.multiple
            )
        };
        let largest = Size::new(height.map_err(too_large)?, width.map_err(too_large)?);
        collated.shape = plan.shape_of(largest);
        collated.first = usize::from(plan.output().layout == Layout::ChannelsFirst);
        if collated.shape.len() != 2 + usize::from(plan.output().layout != Layout::Plane) {
            return Err(fail!(
                Parameter,
                "collate after ops is for images [height, width, channels], [channels, height, width] or [height, \
                 width]"
            ));
        }
        Ok(collated)
    }

    /// Checks everything that does not need the dataset.
    fn check(&self, kind: &FieldKind, ops: &Ops) -> Result<(), Error> {
        let is_image = match kind {
            FieldKind::RgbImage | FieldKind::BitPlaneImage => true,
            FieldKind::Bytes | FieldKind::Json => false,
            _ => {
                return Err(fail!(
                    Parameter,
                    "collate is for bytes, JSON and images; this field is {kind}: its samples all have one size",
                    kind = kind.word()
                ));
            }
        };
        match self.multiple {
            Some(_) if !is_image || self.form != CollateForm::Pad || self.most.is_some() => {
                return Err(fail!(
                    Parameter,
                    "`to_multiple` rounds up the size of the largest image of a batch: use it with `pad`, for images, \
                     and without `to_size`"
                ));
            }
            Some(multiple @ (0 | 65_536..)) => {
                return Err(fail!(
                    Parameter,
                    "a multiple of {multiple} pixels, expected 1 to 65535"
                ));
            }
            _ => {}
        }
        if !ops.is_empty() {
            let ops = ops.iter().map(|op| op.name()).collect::<Vec<_>>().join(", ");
            return Err(fail!(
                Parameter,
                "collate takes ops only for images, and this field has none: remove the ops, {ops}"
            ));
        }
        if self.elements.is_some() && *kind != FieldKind::Bytes {
            return Err(fail!(
                Parameter,
                "`of` is for bytes; this field is {kind}: its elements have a type",
                kind = kind.word()
            ));
        }
        if self.value.is_some() && self.form != CollateForm::Pad {
            return Err(fail!(
                Parameter,
                "`fill` sets the padding value, but nothing is padded: use `pad`"
            ));
        }
        match (self.most, is_image) {
            (_, true) if self.form == CollateForm::Ragged => Err(fail!(
                Parameter,
                "images differ in height and width, ragged has one length: use `pad` or `list`"
            )),
            (Some(MaxSize::Length(_)), true) => Err(fail!(
                Parameter,
                "`to` is a length, but this field has images: use `to_size((height, width))`"
            )),
            (Some(MaxSize::Size(_)), false) => {
                Err(fail!(Parameter, "`to_size` is for images: use `to(max)`"))
            }
            (Some(MaxSize::Length(0)), _) => {
                Err(fail!(Parameter, "a limit of 0 elements, expected at least 1"))
            }
            (Some(MaxSize::Size(size)), _) if size.pixels() == 0 => {
                Err(fail!(Parameter, "a limit of 0 elements, expected at least 1"))
            }
            _ => Ok(()),
        }
    }

    /// Returns the form in which a mask of such images is collated, whose padding is `fill`.
    pub(super) fn of_mask(&self, fill: u8) -> Self {
        let value = (self.form == CollateForm::Pad).then(|| f64::from(fill));
        Self { value, ..self.clone() }
    }

    /// Returns the collation of masks `[objects, height, width]` whose three sizes differ; `shape` is the largest.
    pub(super) fn object_masks(&self, shape: [usize; 3]) -> Result<Collated, Error> {
        if self.form != CollateForm::List {
            return Err(fail!(
                Parameter,
                "instance masks differ in size like their images: use `list`, or leave out `collate`"
            ));
        }
        let kind = FieldKind::Bytes;
        let collated = Self::list().plan(&kind, ImageReadMode::Index, &Ops::new())?;
        Ok(Collated { shape: shape.to_vec(), axes: 3, ..collated })
    }

    /// Returns true if the user set the type of the elements.
    pub(super) fn has_elements(&self) -> bool {
        self.elements.is_some()
    }

    /// Returns the maximum length that the user set.
    pub(super) fn max_length(&self) -> Option<usize> {
        match self.most {
            Some(MaxSize::Length(max)) => Some(max),
            _ => None,
        }
    }

    /// Returns the maximum size of an image that the user set.
    pub(super) fn max_size(&self) -> Option<Size> {
        match self.most {
            Some(MaxSize::Size(size)) => Some(size),
            _ => None,
        }
    }
}

/// Returns the bytes of a number; `None` if `dtype` can't hold the number. A float is rounded to the
/// nearest.
fn element(value: f64, dtype: DType) -> Option<Vec<u8>> {
    // At most 2^63 - 1: a larger float saturates to this and then no longer compares equal.
    let whole = Some(value as i64).filter(|&whole| whole as f64 == value && whole != i64::MAX);
    let finite = |is_finite: bool| is_finite || !value.is_finite();
    match dtype {
        DType::U8 => Some(vec![u8::try_from(whole?).ok()?]),
        DType::U16 => Some(u16::try_from(whole?).ok()?.to_ne_bytes().to_vec()),
        DType::I16 => Some(i16::try_from(whole?).ok()?.to_ne_bytes().to_vec()),
        DType::I32 => Some(i32::try_from(whole?).ok()?.to_ne_bytes().to_vec()),
        DType::I64 => Some(whole?.to_ne_bytes().to_vec()),
        DType::F16 => {
            let number = f16::from_f64(value);
            finite(number.is_finite()).then(|| number.to_ne_bytes().to_vec())
        }
        DType::Bf16 => {
            let number = bf16::from_f64(value);
            finite(number.is_finite()).then(|| number.to_ne_bytes().to_vec())
        }
        DType::F32 => {
            let number = value as f32;
            finite(number.is_finite()).then(|| number.to_ne_bytes().to_vec())
        }
        DType::F64 => Some(value.to_ne_bytes().to_vec()),
        _ => None,
    }
}

/// Copies a field's samples into the rows of a batch.
#[derive(Clone, Debug)]
pub(super) struct Collated {
    form: CollateForm,
    pub(super) dtype: DType,
    /// The shape of the largest sample: `[max, inner...]`, or `[height, width, channels]` in any order of channels.
    pub(super) shape: Vec<usize>,
    /// The first dimension of `shape` that differs from sample to sample.
    first: usize,
    /// The number of dimensions that differ.
    axes: usize,
    /// The bytes of one item that a length counts.
    pub(super) item: usize,
    /// The bytes of one padding element.
    pad: Vec<u8>,
    pub(super) truncate: bool,
    /// True if padded rows have `shape` in every batch, and false if they have the size of the batch's
    /// largest image.
    is_fixed: bool,
    /// The number that the size of the batch's largest image is rounded up to a multiple of.
    multiple: usize,
}

impl Collated {
    /// Returns the bytes of the largest row.
    pub(super) fn row_bytes(&self) -> usize {
        let bytes = self.dtype.bytes();
        let bytes = self.shape.iter().try_fold(bytes, |bytes, &n| bytes.checked_mul(n));
        bytes.unwrap_or(usize::MAX)
    }

    /// Returns the tensor that holds the sizes of the samples of an output with this tensor.
    pub(super) fn size_tensor(&self, output: &TensorSpec) -> TensorSpec {
        let (what, shape) =
            if self.axes == 1 { ("length", vec![]) } else { ("size", vec![self.axes]) };
        let spec = TensorSpec::new(format!("{}.{what}", output.name), DType::I64, shape);
        let alias = output.alias.as_ref().map(|alias| format!("{alias}.{what}"));
        TensorSpec { alias, ..spec }
    }

    /// Returns true if the samples are packed one after the other.
    pub(super) fn is_ragged(&self) -> bool {
        self.form == CollateForm::Ragged
    }

    /// Returns true if each sample is its own slice.
    pub(super) fn is_list(&self) -> bool {
        self.form == CollateForm::List
    }

    /// Returns the layout of the tensor's rows, whose sizes are in tensor `sizes`.
    pub(super) fn rows(&self, sizes: usize) -> TensorRows {
        match self.form {
            CollateForm::Pad if self.is_fixed => TensorRows::Even,
            CollateForm::Pad => {
                let mut pad = [0; 8];
                pad[..self.pad.len()].copy_from_slice(&self.pad);
                TensorRows::Padded { sizes, axis: self.first, multiple: self.multiple, pad }
            }
            CollateForm::Ragged => TensorRows::Ragged { sizes },
            CollateForm::List => TensorRows::List { sizes, axis: self.first },
        }
    }

    /// Describes the collation.
    pub(super) fn explain(&self) -> String {
        let form = match self.form {
            CollateForm::Pad if self.is_fixed => "padded to",
            CollateForm::Pad => "padded to the largest of each batch, at most",
            CollateForm::Ragged => "ragged, each at most",
            CollateForm::List => "a list, each at most",
        };
        let cut = if self.truncate { ", larger ones are cut" } else { "" };
        let multiple = match self.multiple {
            1 => String::new(),
            multiple => format!(", in multiples of {multiple} pixels"),
        };
        format!("{form} {} {:?}{multiple}{cut}\n", self.dtype, self.shape)
    }

    /// Copies a sample, except for the final NUL of a JSON text. Returns the length of the sample.
    pub(super) fn fill(&self, value: Value<'_>, row: &mut [u8]) -> Result<i64, Error> {
        let bytes = match value {
            Value::Json(text) => text.strip_suffix(&[0]).unwrap_or(text),
            Value::Bytes(bytes) => bytes,
            other => unreachable!("a field's kind does not change: {other:?}"),
        };
        let (found, max) = (bytes.len() / self.item, self.shape[0]);
        if !bytes.len().is_multiple_of(self.item) {
            let (bytes, item) = (bytes.len(), self.item);
            return Err(fail!(
                Damaged,
                "{bytes} bytes are not a whole number of items of {item} bytes"
            ));
        }
        if found > max && !self.truncate {
            return Err(too_long(found, max));
        }
        let len = found.min(max);
        let (head, tail) = row.split_at_mut(len * self.item);
        head.copy_from_slice(&bytes[..head.len()]);
        self.pad(tail);
        Ok(len as i64)
    }

    /// Returns the window of an image of this size that is copied: all of the image, unless it may be
    /// truncated.
    pub(super) fn window(&self, size: Size) -> Result<Window, Error> {
        let most = self.size();
        let shown = Size::new(size.height.min(most.height), size.width.min(most.width));
        if shown == size || self.truncate { Ok(shown.full()) } else { Err(too_large(size, most)) }
    }

    /// Returns the size of the largest image.
    fn size(&self) -> Size {
        let side = |axis: usize| u32::try_from(self.shape[self.first + axis]).unwrap_or(u32::MAX);
        Size::new(side(0), side(1))
    }

    /// Copies an image, which fits, to the top left corner of its row, or packed to the start of the row
    /// if the finished batch is padded.
    pub(super) fn copy_image(&self, picture: &ImageView<'_>, row: &mut [u8]) {
        let Size { height, width } = picture.size();
        let pixel = picture.format().pixel_bytes();
        let line = width as usize * pixel;
        let stride = if self.is_padded_here() { self.shape[1] * pixel } else { line };
        let (with_picture, below) = row.split_at_mut(height as usize * stride);
        for (y, to) in (0..height).zip(with_picture.chunks_exact_mut(stride)) {
            let (left, right) = to.split_at_mut(line);
            left.copy_from_slice(picture.row(y));
            self.pad(right);
        }
        self.pad(below);
    }

    /// Copies the masks of a sample, each of `size`. Returns the sizes of the sample.
    pub(super) fn fill_masks(
        &self,
        masks: &[u8],
        size: Size,
        row: &mut [u8],
    ) -> Result<[i64; 3], Error> {
        let each = (size.pixels() as usize).max(1);
        let (found, max) = (masks.len() / each, self.shape[0]);
        let Some(row) = row.get_mut(..masks.len()).filter(|_| found <= max) else {
            return Err(too_long(found, max));
        };
        row.copy_from_slice(masks);
        Ok([found as i64, size.height.into(), size.width.into()])
    }

    /// Returns whether the samples are masks whose number and size differ.
    pub(super) fn is_object_masks(&self) -> bool {
        self.axes == 3
    }

    /// Refuses an image that is larger than rows are.
    pub(super) fn check_fits(&self, size: Size) -> Result<(), Error> {
        let max = self.size();
        let fits = size.height <= max.height && size.width <= max.width;
        if fits { Ok(()) } else { Err(too_large(size, max)) }
    }

    /// Pads an image of `size`, which [fits](Self::check_fits) and is stored at the start of its row, if rows are
    /// padded here.
    pub(super) fn pad_image(&self, size: Size, row: &mut [u8]) {
        if self.is_padded_here() {
            let (first, side) = (self.first, |pixels: u32| pixels as usize);
            let pixel = self.shape[first + 2..].iter().product::<usize>() * self.dtype.bytes();
            let planes = self.shape[..first].iter().product();
            let padding = ImagePadding { planes, pixel, element: &self.pad };
            let to = [self.shape[first], self.shape[first + 1]];
            padding.pad(row, [side(size.height), side(size.width)], to);
        }
    }

    /// Returns true if samples are padded when they are copied, to rows of one shape.
    fn is_padded_here(&self) -> bool {
        self.form == CollateForm::Pad && self.is_fixed
    }

    /// Pads the bytes that the sample does not reach, if rows are padded here.
    pub(super) fn pad(&self, rest: &mut [u8]) {
        match self.pad.as_slice() {
            _ if !self.is_padded_here() => {}
            [first, others @ ..] if others.iter().all(|byte| byte == first) => rest.fill(*first),
            element => rest.chunks_exact_mut(element.len()).for_each(|to| {
                to.copy_from_slice(element);
            }),
        }
    }
}

/// Returns the error of a sample of more items than the rows have room for.
fn too_long(found: usize, max: usize) -> Error {
    fail!(Damaged, "a length of {found}, rows have room for {max}: raise `to`, or use `truncate`")
}

/// Returns the error of an image that is larger than the rows.
fn too_large(found: Size, max: Size) -> Error {
    fail!(
        Damaged,
        "an image of {found}, rows have room for {max}: raise `to_size`, or use `truncate`"
    )
}
