//! Collating: how samples that differ in size become one batch.
//!
//! | | tensor | with it | what PyTorch and TensorFlow call it |
//! |---|---|---|---|
//! | [`pad`](Collate::pad), bytes | `[batch, max, inner...]` | `NAME.length` i64 `[batch]` | `pad_sequence`, `padded_batch` |
//! | [`pad`](Collate::pad), images | u8 `[batch, max h, max w, 3]` | `NAME.size` i64 `[batch, 2]` | `padded_batch` |
//! | [`ragged`](Collate::ragged), bytes | values `[total, inner...]`, offsets | `NAME.length` | nested tensor, `ragged_batch` |
//! | [`list`](Collate::list), bytes | a slice a sample | `NAME.length` | a `collate_fn` that gives a list |
//! | [`list`](Collate::list), images | a slice a sample | `NAME.size` | a `collate_fn` that gives a list |
//!
//! A length counts elements, or items of the inner shape, never bytes; a size is (height, width).
//! They are tensors as all others, and come after those of the outputs.
//! Random: nothing. Cost: one copy of a sample, for ragged ones another when the batch is finished;
//! memory is the batch size times the largest sample ([`Rows`](crate::batch::Rows)).

use super::LoadError;
use super::works::{FieldWork, OutputWork, Setup, image_type};
use crate::batch::{Rows, TensorSpec};
use crate::source::{FieldKind, Source, Value};
use fuseloop_ops::{DType, ImageView, Ops, Size, Window};
use half::{bf16, f16};

/// How the samples of a field that differ in size become a batch; see
/// [`LoaderBuilder::collate`](super::LoaderBuilder::collate).
///
/// ```
/// use fuseloop::loader::Collate;
/// use fuseloop::ops::DType;
///
/// let tokens = Collate::pad().of(DType::I64, &[]).to(512).truncate().with(-100.0);
/// let boxes = Collate::ragged().of(DType::F32, &[4]);
/// let pictures = Collate::list();
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Collate {
    form: Form,
    most: Option<Most>,
    elements: Option<(DType, Vec<usize>)>,
    value: Option<f64>,
    truncate: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Pad,
    Ragged,
    List,
}

/// The largest sample there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Most {
    Length(usize),
    Size(Size),
}

impl Collate {
    /// Rows of one size, that of the dataset's largest sample: what is shorter is padded at its
    /// end, a picture at its right and bottom.
    #[must_use]
    pub fn pad() -> Self {
        Self::new(Form::Pad)
    }

    /// The samples packed one after the other, without gaps:
    /// [`Batch::ragged`](crate::Batch::ragged).
    #[must_use]
    pub fn ragged() -> Self {
        Self::new(Form::Ragged)
    }

    /// Each sample for itself: [`Batch::list`](crate::Batch::list).
    #[must_use]
    pub fn list() -> Self {
        Self::new(Form::List)
    }

    fn new(form: Form) -> Self {
        Self { form, most: None, elements: None, value: None, truncate: false }
    }

    /// What bytes are read as: elements of `dtype`, in the machine's byte order, `inner` of them an
    /// item. Token ids are `(DType::I64, &[])`, boxes `(DType::F32, &[4])`. Default: bytes.
    #[must_use]
    pub fn of(mut self, dtype: DType, inner: &[usize]) -> Self {
        self.elements = Some((dtype, inner.to_vec()));
        self
    }

    /// Most items of a sample, and so what rows are padded to. Default: those of the dataset's
    /// longest; pictures are padded to the largest of their batch. A longer one is an error, unless it is [cut off](Self::truncate).
    #[must_use]
    pub fn to(mut self, max: usize) -> Self {
        self.most = Some(Most::Length(max));
        self
    }

    /// As [`to`](Self::to), for pictures.
    #[must_use]
    pub fn to_size(mut self, height: u32, width: u32) -> Self {
        self.most = Some(Most::Size(Size::new(height, width)));
        self
    }

    /// Cuts off what is larger: the end of a sample, the right and bottom of a picture.
    #[must_use]
    pub fn truncate(mut self) -> Self {
        self.truncate = true;
        self
    }

    /// What is padded with. Default 0.
    #[must_use]
    pub fn with(mut self, value: f64) -> Self {
        self.value = Some(value);
        self
    }

    /// What it comes to for a field, whose ops in this epoch are `ops`.
    pub(super) fn work(
        &self,
        source: &dyn Source,
        field: usize,
        output: &str,
        ops: &Ops,
        setup: &Setup,
    ) -> Result<FieldWork, LoadError> {
        let refused = |error| LoadError::Collate { output: output.to_owned(), error };
        let kind = &source.fields()[field].kind;
        self.check(kind, ops).map_err(refused)?;
        let (dtype, inner) = self.elements.clone().unwrap_or((DType::U8, vec![]));
        let value = self.value.unwrap_or(0.0);
        let pad = element(value, dtype).ok_or(CollateError::Value { value, dtype });
        let pad = pad.map_err(refused)?;
        let item = inner.iter().try_fold(dtype.bytes(), |bytes, &n| bytes.checked_mul(n));
        let item = item.filter(|&bytes| bytes > 0);
        let item = item.ok_or_else(|| refused(CollateError::Inner { inner: inner.clone() }))?;
        let mut shape = match kind {
            FieldKind::RgbImage => {
                let Size { height, width } = self.largest(source, field, setup, refused)?;
                vec![height as usize, width as usize, 3]
            }
            _ => vec![self.longest(source, field, item).map_err(refused)?],
        };
        let axes = if *kind == FieldKind::RgbImage { 2 } else { 1 };
        shape.extend(inner);
        let Self { form, truncate, .. } = *self;
        let is_fixed = self.most.is_some() || axes == 1;
        let work = FieldWork::Collated(Collated {
            form,
            dtype,
            shape,
            axes,
            item,
            pad,
            truncate,
            is_fixed,
        });
        let (bytes, max) = (work.row_bytes() as u64, setup.decode.limits.max_sample_bytes);
        if bytes > max {
            let field = source.fields()[field].name.clone();
            return Err(LoadError::TooLarge { field, bytes, max });
        }
        Ok(work)
    }

    /// What can be said without the dataset.
    fn check(&self, kind: &FieldKind, ops: &Ops) -> Result<(), CollateError> {
        let is_image = match kind {
            FieldKind::RgbImage => true,
            FieldKind::Bytes | FieldKind::Json => false,
            _ => return Err(CollateError::Kind { kind: kind.word() }),
        };
        if !ops.is_empty() {
            let ops = ops.iter().map(|op| op.name()).collect::<Vec<_>>().join(", ");
            return Err(CollateError::Ops { ops });
        }
        if self.elements.is_some() && *kind != FieldKind::Bytes {
            return Err(CollateError::Elements { kind: kind.word() });
        }
        if self.value.is_some() && self.form != Form::Pad {
            return Err(CollateError::Nothing);
        }
        match (self.most, is_image) {
            (_, true) if self.form == Form::Ragged => Err(CollateError::Ragged),
            (Some(Most::Length(_)), true) => Err(CollateError::Length),
            (Some(Most::Size(_)), false) => Err(CollateError::Size),
            (Some(Most::Length(0)), _) => Err(CollateError::Empty),
            (Some(Most::Size(size)), _) if size.pixels() == 0 => Err(CollateError::Empty),
            _ => Ok(()),
        }
    }

    /// Items of the longest sample.
    fn longest(
        &self,
        source: &dyn Source,
        field: usize,
        item: usize,
    ) -> Result<usize, CollateError> {
        if let Some(Most::Length(max)) = self.most {
            return Ok(max);
        }
        let bytes = source.longest(field).ok_or(CollateError::NoLongest)?;
        Ok(usize::try_from(bytes).unwrap_or(usize::MAX) / item)
    }

    /// Height of the highest picture, width of the widest.
    fn largest(
        &self,
        source: &dyn Source,
        field: usize,
        setup: &Setup,
        refused: impl Fn(CollateError) -> LoadError,
    ) -> Result<Size, LoadError> {
        if let Some(Most::Size(size)) = self.most {
            return Ok(size);
        }
        if source.image_stats(field).is_none() {
            return Err(refused(CollateError::NoSize));
        }
        let image = image_type(source, field, setup)?;
        Ok(Size::new(image.height.max, image.width.max))
    }
}

/// The bytes of a number; `None` if it is none of `dtype`. A float is rounded to the nearest.
fn element(value: f64, dtype: DType) -> Option<Vec<u8>> {
    // At most 2^63 - 1: a larger float is cut to that, and then it is no longer the same.
    let whole = Some(value as i64).filter(|&whole| whole as f64 == value && whole != i64::MAX);
    let finite = |is_finite: bool| is_finite || !value.is_finite();
    match dtype {
        DType::U8 => Some(vec![u8::try_from(whole?).ok()?]),
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

/// A field's samples on their way into the rows of a batch.
#[derive(Debug)]
pub(super) struct Collated {
    form: Form,
    pub(super) dtype: DType,
    /// Of the largest sample: `[max, inner...]`, or `[height, width, 3]`.
    pub(super) shape: Vec<usize>,
    /// The first so many of `shape` differ from sample to sample.
    axes: usize,
    /// Bytes of what a length counts.
    item: usize,
    /// An element of padding.
    pad: Vec<u8>,
    truncate: bool,
    /// Whether padded rows are of `shape` in every batch, and not of its largest picture.
    is_fixed: bool,
}

impl Collated {
    /// The tensor that says how large the samples of an output are.
    fn sizes(&self, output: &OutputWork) -> TensorSpec {
        let (what, shape) =
            if self.axes == 1 { ("length", vec![]) } else { ("size", vec![self.axes]) };
        let spec = TensorSpec::new(format!("{}.{what}", output.name), DType::I64, shape);
        let alias = output.alias.as_ref().map(|alias| format!("{alias}.{what}"));
        TensorSpec { alias, ..spec }
    }

    /// How the rows of the tensor lie, if tensor `sizes` tells their sizes.
    fn rows(&self, sizes: usize) -> Rows {
        match self.form {
            Form::Pad if self.is_fixed => Rows::Even,
            Form::Pad => Rows::Padded { sizes, pad: self.pad[0] },
            Form::Ragged => Rows::Ragged { sizes },
            Form::List => Rows::List { sizes },
        }
    }

    /// What is done, for a reader of the plan.
    pub(super) fn explain(&self) -> String {
        let form = match self.form {
            Form::Pad if self.is_fixed => "padded to",
            Form::Pad => "padded to the largest of each batch, at most",
            Form::Ragged => "ragged, each at most",
            Form::List => "a list, each at most",
        };
        let cut = if self.truncate { ", what is larger is cut" } else { "" };
        format!("{form} {} {:?}{cut}\n", self.dtype, self.shape)
    }

    /// Copies a sample, all but a JSON text's final NUL. Gives its length.
    pub(super) fn fill(&self, value: Value<'_>, row: &mut [u8]) -> Result<i64, CollateCause> {
        let bytes = match value {
            Value::Json(text) => text.strip_suffix(&[0]).unwrap_or(text),
            Value::Bytes(bytes) => bytes,
            other => unreachable!("a field's kind does not change: {other:?}"),
        };
        let (found, max) = (bytes.len() / self.item, self.shape[0]);
        if !bytes.len().is_multiple_of(self.item) {
            return Err(CollateCause::NotWhole { bytes: bytes.len(), item: self.item });
        }
        if found > max && !self.truncate {
            return Err(CollateCause::TooLong { found, max });
        }
        let kept = found.min(max);
        let (head, tail) = row.split_at_mut(kept * self.item);
        head.copy_from_slice(&bytes[..head.len()]);
        self.pad(tail);
        Ok(kept as i64)
    }

    /// The part of a picture of this size that is kept: all of it, unless it may be cut.
    pub(super) fn window(&self, size: Size) -> Result<Window, CollateCause> {
        let most = self.size();
        let kept = Size::new(size.height.min(most.height), size.width.min(most.width));
        if kept == size || self.truncate {
            Ok(kept.full())
        } else {
            Err(CollateCause::TooLarge { found: size, max: most })
        }
    }

    /// The largest picture.
    fn size(&self) -> Size {
        let side = |axis: usize| u32::try_from(self.shape[axis]).unwrap_or(u32::MAX);
        Size::new(side(0), side(1))
    }

    /// Puts a picture, which fits, into the top left corner of its row; or packed at the start of the
    /// row, where the finished batch is padded.
    pub(super) fn place(&self, picture: &ImageView<'_>, row: &mut [u8]) {
        let Size { height, width } = picture.size();
        let line = width as usize * 3;
        let stride = if self.is_padded_here() { self.shape[1] * 3 } else { line };
        let (with_picture, below) = row.split_at_mut(height as usize * stride);
        for (y, to) in (0..height).zip(with_picture.chunks_exact_mut(stride)) {
            let (left, right) = to.split_at_mut(line);
            left.copy_from_slice(picture.row(y));
            self.pad(right);
        }
        self.pad(below);
    }

    /// Whether samples are padded as they come, to rows of one shape.
    fn is_padded_here(&self) -> bool {
        self.form == Form::Pad && self.is_fixed
    }

    /// Pads what no sample reaches, if it is ever seen.
    fn pad(&self, rest: &mut [u8]) {
        match self.pad.as_slice() {
            _ if !self.is_padded_here() => {}
            [first, others @ ..] if others.iter().all(|byte| byte == first) => rest.fill(*first),
            element => rest.chunks_exact_mut(element.len()).for_each(|to| {
                to.copy_from_slice(element);
            }),
        }
    }
}

/// The tensors of the outputs, in order, and after them those of the sizes of collated ones; and
/// which these are, by output.
pub(super) fn tensors(outputs: &[OutputWork]) -> (Vec<TensorSpec>, Vec<Option<usize>>) {
    let mut tensors: Vec<TensorSpec> = outputs.iter().map(OutputWork::tensor).collect();
    let places = outputs.iter().enumerate().map(|(k, output)| {
        let FieldWork::Collated(collated) = &output.work else { return None };
        let place = tensors.len();
        tensors.push(collated.sizes(output));
        tensors[k].rows = collated.rows(place);
        Some(place)
    });
    let places = places.collect();
    (tensors, places)
}

/// Refuses sizes whose tensor would be called as an output is.
pub(super) fn check_names(outputs: &[OutputWork]) -> Result<(), LoadError> {
    let (tensors, _) = tensors(outputs);
    let (outputs, sizes) = tensors.split_at(outputs.len());
    match sizes.iter().find(|sizes| outputs.iter().any(|output| output.name == sizes.name)) {
        None => Ok(()),
        Some(taken) => Err(LoadError::NameTaken { name: taken.name.clone() }),
    }
}

/// Why a field can't be collated so.
#[derive(Clone, Debug, thiserror::Error, PartialEq)]
#[non_exhaustive]
pub enum CollateError {
    /// A field whose samples are all of one size.
    #[error(
        "collate is for bytes, JSON and images, and this is {kind}: its samples are of one size"
    )]
    Kind {
        /// What it is.
        kind: &'static str,
    },
    /// A field with ops.
    #[error("collate takes a field as it is stored, and this has ops: {ops}")]
    Ops {
        /// Its ops.
        ops: String,
    },
    /// A type of elements for something else than bytes.
    #[error("`of` is for bytes, and this is {kind}: its elements are u8")]
    Elements {
        /// What it is.
        kind: &'static str,
    },
    /// An inner shape of nothing, or of more than can be addressed.
    #[error("an inner shape of {inner:?}: give 1 or more along each dimension, or &[]")]
    Inner {
        /// The shape.
        inner: Vec<usize>,
    },
    /// Padding that the elements can't hold.
    #[error("{value} is no {dtype} to pad with")]
    Value {
        /// The number.
        value: f64,
        /// The type of the elements.
        dtype: DType,
    },
    /// A value to pad with, and no padding.
    #[error("`with` is for `pad`: here nothing is padded")]
    Nothing,
    /// Images in one dimension.
    #[error("pictures differ in height and width, ragged is one length: take `pad` or `list`")]
    Ragged,
    /// One number for images.
    #[error("`to` is a length, and these are pictures: give `to_size(height, width)`")]
    Length,
    /// Two numbers for bytes.
    #[error("`to_size` is for pictures: give `to(max)`")]
    Size,
    /// Rows of nothing.
    #[error("at most 0 elements: give 1 or more")]
    Empty,
    /// Bytes from a source that does not say how long they are.
    #[error("the source does not say how long its longest value is: give `to(max)`")]
    NoLongest,
    /// Images from a source that does not say how large they are.
    #[error(
        "the source does not say how large its pictures are: give `to_size(height, width)`, in a \
         pipeline file `to_size = [height, width]`"
    )]
    NoSize,
}

/// Why a sample does not fit into its row.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum CollateCause {
    /// Bytes that are not whole elements.
    #[error("{bytes} bytes are no whole number of items of {item} bytes")]
    NotWhole {
        /// What it has.
        bytes: usize,
        /// What one item takes.
        item: usize,
    },
    /// Longer than the rows.
    #[error("a length of {found}, rows have room for {max}: collate `to` more, or `truncate`")]
    TooLong {
        /// Its items.
        found: usize,
        /// Most there may be.
        max: usize,
    },
    /// Larger than the rows.
    #[error(
        "a picture of {found}, rows have room for {max}: collate `to_size` more, or `truncate`"
    )]
    TooLarge {
        /// Its size.
        found: Size,
        /// The largest there may be.
        max: Size,
    },
}
