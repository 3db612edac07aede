//! A list of ops as a function on images that Python holds.
//!
//! ```text
//! array, bytes, path ──▶ its memory, or a copy without gaps ──▶ fuseloop::Transform ──▶ a new array of NumPy
//! ```
//!
//! `fuseloop/_images.py` says which image is which, and hands over an array with its channels last, the memory of a
//! tensor with its channels first, or a file. The interpreter is free from the first draw to the last pixel.

use crate::batch::{Batch, int64};
use crate::call::{attached, calling, detached, functions_on_this_thread};
use crate::errors;
use crate::memory::{Lent, NewArray, arguments};
use crate::task::interruptible;
use crate::values;
use fuseloop::internals::spec::transform_of_spec;
use fuseloop::internals::transform::{ImageExt as _, OutputShape, TransformExt as _};
use fuseloop::ops::DType;
use fuseloop::ops::author::Layout;
use fuseloop::sample::Limits;
use fuseloop::spec::{Settings, Spec, TargetFields};
use fuseloop::transform::{Image, Key, TargetValue, Tensor};
use fuseloop::write::CancelFlag;
use fuseloop::{Error, ImageReadMode};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{fs, io};

/// What an image came as, as `fuseloop/_images.py` numbers it.
const TORCH: u8 = 1;

/// A list of ops as a function.
#[pyclass(frozen, module = "fuseloop._fuseloop")]
pub(crate) struct Transform {
    transform: fuseloop::Transform,
    seed: Option<u64>,
    /// The arrays that calls return, if all so far were alike.
    expected: Mutex<Expected>,
}

/// The array of an image, those of its targets, and the numbers of the objects that stay.
type WithTargets<'py> = (Bound<'py, PyAny>, Vec<Bound<'py, PyAny>>, Bound<'py, PyAny>);

/// The arrays that calls return.
#[derive(Default)]
enum Expected {
    #[default]
    Unknown,
    Like(ArrayType),
    Differing,
}

/// The type of an array's elements, and the arguments that make it.
struct ArrayType {
    dtype: DType,
    for_torch: bool,
    arguments: Py<PyTuple>,
}

/// An image as Python gave it.
enum Given {
    Pixels(Pixels),
    /// The bytes of an image file: memory, or a copy if it has gaps.
    File(Lent, Option<Vec<u8>>),
    /// The path of an image file.
    Path(PathBuf),
}

/// Pixels: the memory of an array, or a copy of its elements in the order of rows.
struct Pixels {
    lent: Lent,
    copy: Option<Vec<u8>>,
    dtype: DType,
    /// Height, width and channels.
    axes: (usize, usize, usize),
    layout: Layout,
}

/// Why a call has failed.
enum Failed {
    Library(Error),
    /// The same, for the file of a path.
    InFile(PathBuf, Error),
    File(PathBuf, io::Error),
}

impl Failed {
    fn raised(self, py: Python<'_>) -> PyErr {
        match self {
            Self::Library(error) => errors::raised(py, &error),
            Self::InFile(path, error) => errors::of_path(py, &path, &error),
            Self::File(path, error) => errors::of_file(py, &path, &error),
        }
    }
}

#[pymethods]
impl Transform {
    /// Makes a transform of a list of ops, or of a pipeline file: its path and its text.
    #[new]
    #[pyo3(signature = (ops, settings, spec = None))]
    fn new(
        ops: &Bound<'_, PyAny>,
        settings: &Bound<'_, PyDict>,
        spec: Option<(PathBuf, String)>,
    ) -> PyResult<Self> {
        let py = ops.py();
        let table = values::table_of(settings)?;
        let settings = Settings::of_table("Transform", &table)
            .map_err(|error| errors::of_op(py, "Transform", &error))?;
        let (transform, seed) = match spec {
            None => {
                let transform = fuseloop::Transform::new(values::ops(ops)?);
                (transform.map_err(|error| errors::raised(py, &error))?, None)
            }
            Some((path, text)) => {
                let spec = detached(py, || Spec::parse(&text, &path))?;
                let transform = transform_of_spec(&spec);
                let failed = |error| errors::of_path(py, &path, &error);
                (transform.map_err(failed)?, spec.settings().seed)
            }
        };
        let transform = applied(&settings, transform);
        let transform = transform.map_err(|error| errors::raised(py, &error))?;
        Ok(Self { transform, seed, expected: Mutex::default() })
    }

    /// The seed of the pipeline file.
    #[getter]
    fn seed(&self) -> Option<u64> {
        self.seed
    }

    /// Whether the channels come first after the ops; `None` if no op changes their place.
    #[getter]
    fn channels_first(&self) -> Option<bool> {
        let place = |name| match name {
            "ToChannelsFirst" => Some(true),
            "ToChannelsLast" => Some(false),
            _ => None,
        };
        self.transform.ops().iter().rev().find_map(|op| place(op.name()))
    }

    /// What image files are read as.
    #[getter]
    fn read_mode(&self) -> &'static str {
        match self.transform.image_read_mode() {
            ImageReadMode::Gray => "gray",
            ImageReadMode::Gray16 => "gray16",
            ImageReadMode::RgbAlpha => "rgb_alpha",
            ImageReadMode::Index => "index",
            _ => "rgb",
        }
    }

    /// Runs the ops on an image, and returns a new array.
    fn apply<'py>(
        &self,
        py: Python<'py>,
        image: &Bound<'py, PyAny>,
        kind: u8,
        seed: u64,
        epoch: u32,
        sample: u64,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (key, for_torch) = (Key::new(seed, epoch, sample), kind == TORCH);
        let given = Given::of(image, for_torch)?;
        let mut array = self.ready(py, for_torch)?;
        let (given, memory) = (&given, &mut array);
        nested_calls(py)?;
        let done = calling(py, move || {
            given.with(|image| {
                self.transform.apply_to(image, key, move |shape| {
                    if !memory
                        .as_ref()
                        .is_some_and(|array| array.is_like(shape.dtype(), &shape.shape()))
                    {
                        *memory = Some(attached(|py| self.made(py, &shape, for_torch))?);
                    }
                    Ok(memory.as_mut().expect("it was made before, or just now").bytes_mut())
                })
            })
        });
        done?.map_err(|failed| failed.raised(py))?;
        Ok(array.expect("a call that succeeds has asked for its memory").into_array(py))
    }

    /// The list has ``ToDevice``, so that batches are those of a device.
    #[getter]
    fn on_device(&self) -> bool {
        self.transform.has_to_device()
    }

    /// The device of the batches so far.
    fn device(&self) -> String {
        self.transform.placement().device.to_string()
    }

    /// Runs the ops on several images, each with whether it is a tensor, and the last ops on a device. Returns the tensor
    /// of the batch.
    fn batch_on_device<'py>(
        &self,
        py: Python<'py>,
        images: Vec<(Bound<'py, PyAny>, bool)>,
        seed: u64,
        epoch: u32,
        samples: Vec<u64>,
        threads: Option<NonZeroUsize>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let given = SeveralImages::of(py, &images, (seed, epoch), &samples, threads)?;
        let batch = given.run(py, |images, keys, threads, cancel| {
            self.transform.batch_on_device_by(images, keys, threads, cancel)
        })?;
        Batch::new(batch).tensor(py, 0)
    }

    /// Runs the ops on several images, and returns one new array. Of each image, it is told whether it is a tensor.
    #[expect(clippy::too_many_arguments, reason = "fuseloop/transform.py has names for them")]
    fn batch<'py>(
        &self,
        py: Python<'py>,
        images: Vec<(Bound<'py, PyAny>, bool)>,
        kind: u8,
        seed: u64,
        epoch: u32,
        samples: Vec<u64>,
        threads: Option<NonZeroUsize>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let given = SeveralImages::of(py, &images, (seed, epoch), &samples, threads)?;
        let mut array = None;
        let memory = &mut array;
        given.run(py, move |images, keys, threads, cancel| {
            self.transform.batch_to(images, keys, threads, cancel, move |dtype, shape| {
                let made = attached(|py| {
                    NewArray::new(&arguments(py, shape, dtype, kind == TORCH)?, dtype)
                });
                Ok(memory.insert(made?).bytes_mut())
            })
        })?;
        Ok(array.expect("a call that succeeds has asked for its memory").into_array(py))
    }

    /// Runs the ops on an image and its targets: of each its name and its value, an array, a text of JSON, or an array with
    /// a mask. Returns the image, the targets, and the numbers of the objects that stay.
    #[expect(clippy::too_many_arguments, reason = "fuseloop/transform.py has names for them")]
    fn apply_targets<'py>(
        &self,
        py: Python<'py>,
        image: &Bound<'py, PyAny>,
        kind: u8,
        seed: u64,
        epoch: u32,
        sample: u64,
        values: Vec<(String, Bound<'py, PyAny>)>,
    ) -> PyResult<WithTargets<'py>> {
        let (key, for_torch) = (Key::new(seed, epoch, sample), kind == TORCH);
        let given = Given::of(image, for_torch)?;
        let targets = values.iter().map(|(name, value)| Ok((&**name, GivenTarget::of(value)?)));
        let targets = targets.collect::<PyResult<Vec<(&str, GivenTarget)>>>()?;
        let targets = &targets;
        nested_calls(py)?;
        let done = calling(py, || {
            given.with(|image| {
                let values = targets.iter().map(|(name, target)| Ok((*name, target.value()?)));
                let values = values.collect::<Result<Vec<_>, Error>>()?;
                self.transform.apply_with(image, &values, key)
            })
        });
        let found = done?.map_err(|failed| failed.raised(py))?;
        let objects: Vec<i64> =
            found.objects().iter().map(|&object| (object as u64).cast_signed()).collect();
        let (image, mut arrays) = found.into_parts();
        let mut in_order = vec![];
        for (name, _) in &values {
            let index = arrays.iter().position(|(own, _)| own == name);
            let index =
                index.ok_or_else(|| errors::internal(py, "a target that was not returned"))?;
            in_order.push(array_of(py, &arrays.swap_remove(index).1, false)?);
        }
        Ok((array_of(py, &image, for_torch)?, in_order, int64(py, &objects)?))
    }

    /// Describes how the ops were planned and compiled.
    fn explain(&self, py: Python<'_>) -> PyResult<String> {
        calling(py, || self.transform.explain())
    }
}

/// Applies the settings that a transform has. Those by field are of the field `image`.
fn applied(
    settings: &Settings,
    mut transform: fuseloop::Transform,
) -> Result<fuseloop::Transform, Error> {
    if let Some((_, mode)) = settings.read_mode.iter().flatten().next() {
        transform = transform.read_mode(*mode);
    }
    if let Some(rule) = settings.number_rule {
        transform = transform.number_rule(rule);
    }
    if let Some(turn) = settings.exif_orientation {
        transform = transform.exif_orientation(turn);
    }
    if let Some(scaled) = settings.scaled_decode {
        transform = transform.scaled_decode(scaled);
    }
    if let Some(device) = settings.device {
        transform = transform.device(&device.to_string())?;
    }
    if let Some(batches) = settings.device_batches {
        transform = transform.device_batches(batches)?;
    }
    match &settings.targets {
        Some(TargetFields::Of(fields)) => match fields.first() {
            Some((_, targets)) => transform.targets(targets),
            None => Ok(transform),
        },
        _ => Ok(transform),
    }
}

impl Transform {
    /// Returns an array as calls have returned so far, made while the interpreter is at hand; `None` if they differ.
    fn ready(&self, py: Python<'_>, for_torch: bool) -> PyResult<Option<NewArray>> {
        let (arguments, dtype) = match &*self.expected() {
            Expected::Like(like) if like.for_torch == for_torch => {
                (like.arguments.clone_ref(py), like.dtype)
            }
            _ => return Ok(None),
        };
        NewArray::new(arguments.bind(py), dtype).map(Some)
    }

    /// Makes the array that a call writes, and remembers what it is like.
    fn made(&self, py: Python<'_>, shape: &OutputShape<'_>, for_torch: bool) -> PyResult<NewArray> {
        let (dtype, shape) = (shape.dtype(), shape.shape());
        let arguments = arguments(py, &shape, dtype, for_torch)?;
        let array = NewArray::new(&arguments, dtype)?;
        let like = ArrayType { dtype, for_torch, arguments: arguments.unbind() };
        let mut expected = self.expected();
        *expected = match &*expected {
            Expected::Unknown => Expected::Like(like),
            _ => Expected::Differing,
        };
        Ok(array)
    }

    fn expected(&self) -> MutexGuard<'_, Expected> {
        self.expected.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Given {
    /// Returns an image of Python: an array, whose channels come first if it is a tensor's, the bytes of a file, or a path.
    fn of(object: &Bound<'_, PyAny>, is_tensor: bool) -> PyResult<Self> {
        if object.is_instance_of::<PyString>() {
            return Ok(Self::Path(object.extract()?));
        }
        let failed = |error: String| {
            let text = format!("an image is {}: {error}", described(object));
            errors::setting(object.py(), &text)
        };
        let is_scalar = || object.getattr("ndim").is_ok_and(|axes| axes.eq(0).unwrap_or(false));
        let lent = match Lent::of(object) {
            Err(_) if is_scalar() => return Err(failed(expected_axes(is_tensor).to_owned())),
            lent => lent.map_err(failed)?,
        };
        if lent.shape().len() == 1 && lent.item_size() == 1 && !is_tensor {
            let copy = if lent.is_packed() { None } else { Some(lent.gathered().map_err(failed)?) };
            return Ok(Self::File(lent, copy));
        }
        Pixels::of(lent, is_tensor).map(Self::Pixels).map_err(failed)
    }

    /// Reads the file of a path; nothing of others.
    fn read(&self) -> Result<Vec<u8>, Failed> {
        match self {
            Self::Path(path) => read(path).map_err(|error| Failed::File(path.clone(), error)),
            _ => Ok(vec![]),
        }
    }

    /// Returns the image for a call. `read` is the file of a path.
    fn image<'a>(&'a self, read: &'a [u8]) -> Result<Image<'a>, Error> {
        match self {
            Self::Pixels(pixels) => pixels.image(),
            Self::File(lent, None) => Ok(Image::encoded(lent.bytes())),
            Self::File(_, Some(copy)) => Ok(Image::encoded(copy)),
            Self::Path(_) => Ok(Image::encoded(read)),
        }
    }

    /// Calls `run` with the image; reads the file of a path before.
    fn with<T>(&self, run: impl FnOnce(&Image<'_>) -> Result<T, Error>) -> Result<T, Failed> {
        let read = self.read()?;
        let done = self.image(&read).and_then(|image| run(&image));
        done.map_err(|error| match self {
            Self::Path(path) => Failed::InFile(path.clone(), error),
            _ => Failed::Library(error),
        })
    }
}

/// Reads an image file.
///
/// # Errors
///
/// If the path is none of a file, such as that of a pipe, which might never end, or the file is over the limit of samples.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let invalid = |text| Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    let (found, most) = (fs::metadata(path)?, Limits::DEFAULT.max_sample_bytes);
    if !found.is_file() {
        return invalid(
            "expected an image file, but it is a folder, a pipe or a device".to_owned(),
        );
    }
    if found.len() > most {
        return invalid(format!("the file has {} bytes, and the limit is {most}", found.len()));
    }
    fs::read(path)
}

impl Pixels {
    /// Returns the pixels of an array. The error is a sentence that says what is wrong with it.
    fn of(lent: Lent, is_tensor: bool) -> Result<Self, String> {
        let Some(dtype) = lent.dtype() else { return Err(other_elements(&lent, is_tensor)) };
        let (axes, layout) = match (lent.shape(), is_tensor) {
            (&[height, width], _) => ((height, width, 1), Layout::Plane),
            (&[height, width, channels], false) => {
                if is_colors(height) && width.min(channels) >= LEAST_SIDE {
                    return Err(
                        "its first axis looks like channels, which come last in an array: \
                                image.transpose(1, 2, 0)"
                            .to_owned(),
                    );
                }
                ((height, width, channels), Layout::ChannelsLast)
            }
            (&[channels, height, width], true) => {
                if is_colors(width) && height.min(channels) >= LEAST_SIDE {
                    return Err(
                        "its last axis looks like channels, which come first in a tensor: \
                                image.permute(2, 0, 1)"
                            .to_owned(),
                    );
                }
                ((height, width, channels), Layout::ChannelsFirst)
            }
            (shape, _) => {
                let several = if shape.len() == 4 { ": batch(images) takes several" } else { "" };
                return Err(format!("{}{several}", expected_axes(is_tensor)));
            }
        };
        let pixels = axes.0.saturating_mul(axes.1) as u64;
        let most = Limits::DEFAULT.max_pixels;
        if pixels > most {
            return Err(format!("{pixels} pixels, and the limit is {most}: cut it into tiles"));
        }
        let is_whole = lent.is_packed() || has_whole_rows(&lent, layout);
        let copy = if is_whole { None } else { Some(lent.gathered()?) };
        Ok(Self { lent, copy, dtype, axes, layout })
    }

    /// Returns the image for a call.
    fn image(&self) -> Result<Image<'_>, Error> {
        let (height, width, channels) = self.axes;
        match (&self.copy, self.layout) {
            (Some(copy), layout) => Image::packed(self.dtype, copy, self.axes, layout),
            (None, Layout::ChannelsLast) => {
                let packed = (width * channels * self.dtype.bytes()).cast_signed();
                let stride = if height > 1 { self.lent.strides()[0] } else { packed };
                let (bytes, shape) = (self.lent.bytes(), [height, width, channels]);
                Image::of_rows(self.dtype, bytes, shape, stride.cast_unsigned())
            }
            (None, layout) => Image::packed(self.dtype, self.lent.bytes(), self.axes, layout),
        }
    }
}

/// The images of a batch as Python gave them.
struct SeveralImages {
    given: Vec<Given>,
    keys: Vec<Key>,
    threads: Option<NonZeroUsize>,
}

impl SeveralImages {
    /// Prepares images, each with whether it is a tensor.
    fn of<'py>(
        py: Python<'py>,
        images: &[(Bound<'py, PyAny>, bool)],
        (seed, epoch): (u64, u32),
        samples: &[u64],
        threads: Option<NonZeroUsize>,
    ) -> PyResult<Self> {
        let of = |(index, (image, is_tensor)): (usize, &(Bound<'py, PyAny>, bool))| {
            Given::of(image, *is_tensor)
                .map_err(|error| errors::noted(py, error, &format!("image {index}")))
        };
        let given = images.iter().enumerate().map(of).collect::<PyResult<_>>()?;
        let keys = samples.iter().map(|&sample| Key::new(seed, epoch, sample)).collect();
        // The threads of a batch may all be in functions, and this call inside one of them.
        let threads = if nested_calls(py)? > 0 { Some(NonZeroUsize::MIN) } else { threads };
        Ok(Self { given, keys, threads })
    }

    /// Calls `run` with the images, their keys and the number of threads; reads the files of paths before.
    fn run<T: Send>(
        &self,
        py: Python<'_>,
        run: impl FnOnce(&[Image<'_>], &[Key], Option<NonZeroUsize>, &CancelFlag) -> Result<T, Error>
        + Send,
    ) -> PyResult<T> {
        let Self { given, keys, threads } = self;
        let cancel = CancelFlag::new();
        let done = interruptible(py, &cancel, || {
            let files = given.iter().map(Given::read).collect::<Result<Vec<_>, _>>()?;
            let images = given.iter().zip(&files).map(|(given, file)| given.image(file));
            let images = images.collect::<Result<Vec<_>, _>>().map_err(Failed::Library)?;
            run(&images, keys, *threads, &cancel).map_err(Failed::Library)
        });
        done?.map_err(|failed| failed.raised(py))
    }
}

/// The value of a target as Python gave it.
enum GivenTarget {
    /// The elements of all objects.
    Elements(Lent),
    Json(String),
    /// A mask of the whole image, or of each object.
    Mask(Lent),
}

impl GivenTarget {
    /// Returns a target that `fuseloop/_objects.py` has prepared: arrays have no gaps, and those of u8 are masks.
    fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        if object.is_instance_of::<PyString>() {
            return Ok(Self::Json(object.extract()?));
        }
        let lent = Lent::of(object).map_err(|error| errors::setting(object.py(), &error))?;
        Ok(if lent.dtype() == Some(DType::U8) { Self::Mask(lent) } else { Self::Elements(lent) })
    }

    fn value(&self) -> Result<TargetValue<'_>, Error> {
        Ok(match self {
            Self::Elements(lent) => TargetValue::Bytes(lent.bytes()),
            Self::Json(text) => TargetValue::Json(text),
            Self::Mask(lent) => match *lent.shape() {
                [height, width] => {
                    let axes = (height, width, 1);
                    let mask = Image::packed(DType::U8, lent.bytes(), axes, Layout::ChannelsLast)?;
                    TargetValue::Mask(mask)
                }
                _ => TargetValue::Masks(lent.bytes()),
            },
        })
    }
}

/// How many functions of Python may are nested on a thread. Each needs some 30 KB of the thread's stack.
const MAX_NESTED: u32 = 16;

/// Returns the number of functions of Python that this call is inside of.
///
/// # Errors
///
/// If functions among the ops nest calls of transforms without end.
fn nested_calls(py: Python<'_>) -> PyResult<u32> {
    let nested = functions_on_this_thread();
    if nested >= MAX_NESTED {
        let text = format!(
            "{MAX_NESTED} calls of transforms are nested: a function among the ops calls the transform that it \
             is in, so give it a transform of its own"
        );
        return Err(errors::pipeline(py, &text));
    }
    Ok(nested)
}

/// Returns an array of the library as one of NumPy.
fn array_of<'py>(py: Python<'py>, tensor: &Tensor, for_torch: bool) -> PyResult<Bound<'py, PyAny>> {
    let arguments = arguments(py, tensor.shape(), tensor.dtype(), for_torch)?;
    let mut array = NewArray::new(&arguments, tensor.dtype())?;
    array.bytes_mut().copy_from_slice(tensor.as_bytes());
    Ok(array.into_array(py))
}

/// An axis of 1, 3 or 4 beside two of at least so many elements is that of the channels.
const LEAST_SIDE: usize = 16;

fn expected_axes(is_tensor: bool) -> &'static str {
    if is_tensor { "expected [C, H, W] or [H, W]" } else { "expected [H, W, C] or [H, W]" }
}

/// Returns whether a length is likely to be the number of channels.
fn is_colors(length: usize) -> bool {
    matches!(length, 1 | 3 | 4)
}

/// Returns whether each row has no gaps, and the rows are in order.
fn has_whole_rows(lent: &Lent, layout: Layout) -> bool {
    let (&[height, width, channels], &[row, pixel, channel]) = (lent.shape(), lent.strides())
    else {
        return false;
    };
    let item = lent.item_size();
    let is = |n: usize, stride: isize, expected: usize| n < 2 || stride == expected.cast_signed();
    layout == Layout::ChannelsLast
        && is(channels, channel, item)
        && is(width, pixel, item * channels)
        && (height < 2 || row >= (item * channels * width).cast_signed())
}

/// Returns the sentence for elements that ops do not take.
fn other_elements(lent: &Lent, is_tensor: bool) -> String {
    let cure = match (lent.letter(), is_tensor) {
        (Some((_, true)), _) => "image.astype(image.dtype.newbyteorder('='))",
        (Some((b'd' | b'g', _)), false) => "image.astype('float32')",
        (Some((b'd', _)), true) => "image.float()",
        (_, false) => {
            "image.astype('uint8') if its values are 0 to 255, image * np.uint8(255) if it is of bool"
        }
        (_, true) => {
            "image.to(torch.uint8) if its values are 0 to 255, image * 255 if it is of bool"
        }
    };
    format!(
        "expected elements of uint8, uint16, int16, float16 or float32 in this machine's byte order: {cure}"
    )
}

/// Describes an object: an array by its elements and axes.
fn described(object: &Bound<'_, PyAny>) -> String {
    let word = |name: &str| Some(object.getattr(name).ok()?.str().ok()?.to_string());
    let kind =
        object.get_type().name().map_or_else(|_| "an object".to_owned(), |name| name.to_string());
    match word("dtype").zip(word("shape")) {
        Some((dtype, shape)) => format!("{kind} of {dtype} and shape {shape}"),
        None => kind,
    }
}
