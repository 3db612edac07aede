//! Datasets of columns: what a folder, a table, annotations and records of one length are once they are parsed.
//!
//! ```text
//! labels, tables, annotations ─▶ values in memory ─┐
//! images/*.jpg, masks/*.png   ─▶ files             ├─▶ Columnar: a Source
//! MNIST, CIFAR                ─▶ records of files ─┘
//! ```
//!
//! A format is a parser that returns its columns. Values in memory have the bytes that a loader reads, so that they are
//! borrowed; the others are read when they are asked for.

use super::file::{FileBytes, read_file};
use super::image_header::ImageHeader;
use super::media::Media;
use super::names::{Names, Packed};
use super::shared_values::{EvenValues, SharedValues};
use super::starts::Starts;
use super::{
    BoxError, Buffer, EncodedImage, Facts, FieldKind, FieldSpec, Fingerprint, ImageMode,
    ImageStats, OwnedImage, Record, SampleLocation, Source, StoredValues, Value, read_values,
};
use crate::error::{AtPath as _, Error, fail};
use crate::sample::SampleId;
use crate::source::error::too_long;
use fuseloop_ops::Size;
use fuseloop_ops::internals::RGB;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The bytes of a column of arrays or pixels that are read to identify it.
const MOST_IDENTIFIED: usize = 256 << 20;

/// A dataset of columns.
pub(super) struct Columnar {
    pub(super) facts: Facts,
    pub(super) columns: Vec<Column>,
    /// The samples that can't be read.
    pub(super) damaged: BTreeMap<usize, Damage>,
    /// The index of the first object of each sample, and the number of objects; empty without [`Values::Rows`] and
    /// [`Values::Lists`].
    pub(super) starts: Vec<usize>,
    /// The file of the annotations of all samples, or the one of each sample that has one.
    pub(super) origins: Vec<Option<PathBuf>>,
    /// The size of the picture that the annotations of each sample are of; without pixels if it is not known. Empty if
    /// none is.
    pub(super) sizes: Vec<Size>,
    /// True if the annotations have these sizes of their own, so that they may contradict their images.
    pub(super) has_own_sizes: bool,
    /// The most bytes of a value.
    pub(super) most_bytes: u64,
}

/// The values of one field.
#[derive(Default)]
pub(super) struct Column {
    pub(super) values: Values,
    /// The samples whose value can't be read.
    pub(super) damaged: BTreeMap<usize, Damage>,
}

/// Why a sample can't be read.
#[derive(Clone)]
pub(super) struct Damage {
    /// The file that is damaged.
    pub(super) file: PathBuf,
    pub(super) reason: String,
    /// Where the sample is in that file, if it has no file of its own.
    pub(super) key: Option<String>,
}

/// Values, one after another.
pub(super) enum Values {
    Ints(Vec<i64>),
    Floats(Vec<f64>),
    Bytes(Packed),
    /// JSON texts, each with a final NUL.
    Json(Packed),
    Images(Vec<OwnedImage>),
    /// RGB images of one size.
    Pixels(Size, EvenValues),
    /// Arrays of one kind.
    Arrays(FieldKind, EvenValues),
    /// Image files in memory.
    Encoded(Box<dyn SharedValues>),
    /// Bytes in the memory of others.
    Shared(Box<dyn SharedValues>),
    /// A row of as many bytes for each object of a sample.
    Rows(usize, Vec<u8>),
    /// A list of JSON texts, with one text for each object of a sample.
    Lists(Texts),
    /// An image, an audio file or a video file for each sample.
    Files(Files),
    /// Values at even distances in a file.
    Records(Records),
}

/// Image, audio or video files, by their paths in a folder.
#[derive(Clone)]
pub(super) struct Files {
    pub(super) media: Media,
    pub(super) root: PathBuf,
    pub(super) names: Arc<Names>,
}

/// JSON texts in a file, one for each object.
pub(super) struct Texts {
    pub(super) path: PathBuf,
    pub(super) bytes: FileBytes,
    /// Where the texts are. An empty range stands for `null`.
    pub(super) ranges: Vec<Range<u64>>,
}

/// Values at even distances in files of records.
pub(super) struct Records {
    pub(super) files: Arc<RecordFiles>,
    /// The index of the file; `None` for the file that has the sample.
    pub(super) file: Option<usize>,
    /// The offset of the first value, the distance of two values, and the size of one.
    pub(super) start: u64,
    pub(super) stride: u64,
    pub(super) size: u64,
    pub(super) stored: Stored,
}

/// Files of records, and the number of samples in each.
pub(super) struct RecordFiles {
    pub(super) files: Vec<RecordFile>,
    pub(super) starts: Starts,
}

/// A file with values.
pub(super) struct RecordFile {
    pub(super) path: PathBuf,
    pub(super) bytes: FileBytes,
    /// True for a `.gz` file, whose bytes have no offsets that a user could look at.
    pub(super) is_packed: bool,
}

/// What the bytes of a value in a record are.
pub(super) enum Stored {
    /// The elements of an array.
    Array(FieldKind),
    /// The red, the green and the blue plane of an image.
    Planes(Size),
    /// The number of a class, less than `classes` if that is known.
    Label { classes: Option<u8>, cure: &'static str },
}

impl Default for Values {
    fn default() -> Self {
        Self::Ints(vec![])
    }
}

impl From<Values> for Column {
    fn from(values: Values) -> Self {
        Self { values, damaged: BTreeMap::new() }
    }
}

impl Values {
    pub(super) fn kind(&self) -> FieldKind {
        match self {
            Self::Ints(_) => FieldKind::Int,
            Self::Floats(_) => FieldKind::Float,
            Self::Bytes(_) | Self::Shared(_) | Self::Rows(..) => FieldKind::Bytes,
            Self::Json(_) | Self::Lists(_) => FieldKind::Json,
            Self::Files(Files { media: Media::Audio | Media::Video, .. }) => FieldKind::Bytes,
            Self::Images(_) | Self::Pixels(..) | Self::Encoded(_) | Self::Files(_) => {
                FieldKind::RgbImage
            }
            Self::Arrays(kind, _) => kind.clone(),
            Self::Records(records) => match &records.stored {
                Stored::Array(kind) => kind.clone(),
                Stored::Planes(_) => FieldKind::RgbImage,
                Stored::Label { .. } => FieldKind::Int,
            },
        }
    }

    /// Returns a value that lies in memory; `None` for one that must be read, and beyond the last.
    fn in_memory(&self, index: usize, starts: &[usize]) -> Option<Value<'_>> {
        Some(match self {
            Self::Ints(values) => Value::Int(*values.get(index)?),
            Self::Floats(values) => Value::Float(*values.get(index)?),
            Self::Bytes(values) => Value::Bytes(values.get(index)?),
            Self::Json(texts) => Value::Json(texts.get(index)?),
            Self::Images(images) => {
                let OwnedImage { mode, width, height, bytes } = images.get(index)?;
                Value::Image(EncodedImage { mode: *mode, width: *width, height: *height, bytes })
            }
            Self::Pixels(size, bytes) => raw(*size, bytes.get(index, size.pixels() * RGB as u64)?),
            Self::Arrays(kind, bytes) => Value::NdArray(bytes.get(index, kind.array_bytes()?)?),
            Self::Encoded(images) => {
                let bytes = images.value(index)?;
                let mode = ImageMode::of_file(bytes);
                Value::Image(EncodedImage { mode, width: 0, height: 0, bytes })
            }
            Self::Shared(values) => Value::Bytes(values.value(index)?),
            Self::Rows(row, bytes) => {
                let objects = objects_of(starts, index)?;
                Value::Bytes(bytes.get(objects.start * row..objects.end * row)?)
            }
            Self::Lists(_) | Self::Files(_) | Self::Records(_) => return None,
        })
    }

    /// Returns the sizes of the images, if all are raw: the size of a file is in its header.
    fn image_stats(&self, samples: u64) -> Option<ImageStats> {
        let of = |size: Size, raw: u64| ImageStats {
            raw,
            min: Some(size),
            max: Some(size),
            max_pixels: size.pixels(),
            ..ImageStats::default()
        };
        match self {
            Self::Pixels(size, _) => Some(of(*size, samples)),
            Self::Records(Records { stored: Stored::Planes(size), .. }) => Some(of(*size, samples)),
            Self::Images(images) => images.iter().try_fold(ImageStats::default(), |all, image| {
                let one = of(Size::new(image.height, image.width), 1);
                (image.mode == ImageMode::Raw).then(|| all.merged(&one))
            }),
            _ => None,
        }
    }

    /// Returns the size of the longest value of bytes or JSON.
    fn longest(&self, starts: &[usize]) -> Option<u64> {
        let objects = starts.windows(2).map(|pair| pair[0]..pair[1]);
        match self {
            Self::Bytes(values) | Self::Json(values) => values.longest(),
            Self::Shared(values) => values.longest(),
            Self::Rows(row, _) => objects.map(|objects| (objects.len() * row) as u64).max(),
            Self::Lists(texts) => objects.map(|objects| texts.size(objects)).max(),
            _ => None,
        }
    }
}

/// Returns the objects of a sample.
fn objects_of(starts: &[usize], index: usize) -> Option<Range<usize>> {
    Some(*starts.get(index)?..*starts.get(index + 1)?)
}

fn raw(Size { height, width }: Size, bytes: &[u8]) -> Value<'_> {
    Value::Image(EncodedImage { mode: ImageMode::Raw, width, height, bytes })
}

impl Columnar {
    /// Returns a dataset of columns, whose facts are known but for the sizes of images and values, and the paths.
    pub(super) fn new(columns: Vec<(&str, Column)>, samples: u64, starts: Vec<usize>) -> Self {
        let field =
            |(name, column): &(&str, Column)| FieldSpec::from((*name, column.values.kind()));
        let fields: Vec<FieldSpec> = columns.iter().map(field).collect();
        let columns: Vec<Column> = columns.into_iter().map(|(_, column)| column).collect();
        let each = || columns.iter().map(|column| &column.values);
        let images: Vec<_> = each().map(|values| values.image_stats(samples)).collect();
        let longest: Vec<_> = each().map(|values| values.longest(&starts)).collect();
        let facts = Facts { rereads_cheaply: true, ..Facts::new(fields, samples) }
            .with_image_stats(move |field| images.get(field)?.clone())
            .with_longest(move |field| *longest.get(field)?);
        Self {
            facts,
            columns,
            damaged: BTreeMap::new(),
            starts,
            origins: vec![],
            sizes: vec![],
            has_own_sizes: false,
            most_bytes: u64::MAX,
        }
    }

    /// Returns the files that a column of files has, by sample; `None` for other columns.
    pub(super) fn files(&self, field: usize) -> Option<&Files> {
        match &self.columns.get(field)?.values {
            Values::Files(files) => Some(files),
            _ => None,
        }
    }

    /// Sets the paths of the dataset: these, then every file of a sample.
    pub(super) fn with_paths(mut self, first: Vec<PathBuf>) -> Self {
        let files: Vec<Files> =
            (0..self.columns.len()).filter_map(|field| self.files(field)).cloned().collect();
        self.facts = self.facts.with_paths(move || {
            let files = files.clone().into_iter().flat_map(|files| {
                (0..files.names.len()).filter_map(move |index| files.path(index))
            });
            Box::new(first.clone().into_iter().chain(files))
        });
        self
    }

    /// Adds the values that lie in memory; of large columns only some, since reading all of them would take seconds.
    pub(super) fn hash_values(&self, print: &mut Fingerprint) {
        let samples = self.facts.samples as usize;
        for Column { values, .. } in &self.columns {
            // The values of files are read when they are asked for.
            if values.in_memory(0, &self.starts).is_none() {
                continue;
            }
            let bytes = match values {
                Values::Pixels(_, values) | Values::Arrays(_, values) => values.bytes(),
                _ => 0,
            };
            for index in (0..samples).step_by(bytes / MOST_IDENTIFIED + 1) {
                print.number(match values.in_memory(index, &self.starts) {
                    Some(Value::Int(value)) => value.cast_unsigned(),
                    Some(Value::Float(value)) => value.to_bits(),
                    value => value.map_or(0, |value| crc32c::crc32c(value.bytes()).into()),
                });
            }
        }
    }

    /// Returns the index of a sample, and the column of a field.
    ///
    /// # Errors
    ///
    /// Fails if one of them does not exist or is damaged.
    pub(super) fn find(&self, sample: SampleId, field: usize) -> Result<(usize, &Values), Error> {
        let samples = self.facts.samples;
        if sample.0 >= samples {
            return Err(fail!(Parameter, "no such sample: the dataset has {samples}")
                .help("samples are numbered from 0"));
        }
        let index = sample.0 as usize;
        let refused =
            |Damage { file, reason, .. }: &Damage| Err(fail!(Format, "{reason}").at(file));
        if let Some(damage) = self.damaged.get(&index) {
            return refused(damage);
        }
        let fields = self.columns.len();
        let column = self.columns.get(field);
        let column =
            column.ok_or_else(|| fail!(Field, "no such field: the dataset has {fields}"))?;
        column.damaged.get(&index).map_or(Ok((index, &column.values)), refused)
    }

    /// Returns the file of the annotations of a sample.
    pub(super) fn origin(&self, index: usize) -> Option<&Path> {
        self.origins.get(index).or(self.origins.first()).and_then(Option::as_deref)
    }

    /// Refuses an image of another size than its annotations have. A header that can't be read is refused where the image
    /// is decoded.
    fn check_size(&self, index: usize, file: &Path, image: &[u8]) -> Result<(), Error> {
        let Some(annotated) = self.size(index).filter(|_| self.has_own_sizes) else {
            return Ok(());
        };
        let Ok(header) = ImageHeader::parse(image) else { return Ok(()) };
        if header.is_of(annotated) {
            return Ok(());
        }
        let size = header.size;
        Err(fail!(
            Format,
            "the annotations of {} are of an image of width {} and height {}, and it has width {} and height {}: correct \
             the size, or annotate this image (boxes that are drawn on another size lie elsewhere)",
            file.display(),
            annotated.width,
            annotated.height,
            size.width,
            size.height
        )
        .at(self.origin(index).unwrap_or(file)))
    }

    fn size(&self, index: usize) -> Option<Size> {
        self.sizes.get(index).copied().filter(|size| size.pixels() > 0)
    }
}

impl Source for Columnar {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn read(&self, sample: SampleId) -> Result<Record, BoxError> {
        read_values(self, sample)
    }

    fn value<'a>(
        &'a self,
        sample: SampleId,
        field: usize,
        buffer: &'a mut Buffer,
    ) -> Result<Value<'a>, BoxError> {
        let (index, values) = self.find(sample, field)?;
        if let Some(value) = values.in_memory(index, &self.starts) {
            return Ok(value);
        }
        match values {
            Values::Files(files) => {
                let (bytes, name) = (&mut buffer.bytes, files.names.path(index));
                let path = files.path(index);
                let path = path.ok_or_else(|| format!("sample {sample} has no file"))?;
                read_file(&path, self.most_bytes, bytes).at(&path)?;
                if files.media != Media::Image {
                    return Ok(Value::Bytes(bytes));
                }
                if field == 0 {
                    self.check_size(index, &name.unwrap_or_default(), bytes)?;
                }
                let (mode, bytes) = (ImageMode::of_file(bytes), &bytes[..]);
                Ok(Value::Image(EncodedImage { mode, width: 0, height: 0, bytes }))
            }
            Values::Lists(texts) => {
                let objects = objects_of(&self.starts, index).unwrap_or_default();
                let (size, max) = (texts.size(objects.clone()), self.most_bytes);
                if size > max {
                    return Err(too_long(size, max).into());
                }
                texts.list(objects, &mut buffer.bytes)?;
                Ok(Value::Json(&buffer.bytes))
            }
            Values::Records(records) => records.value(sample, buffer),
            _ => Err(format!("sample {sample} has no value in field {field}").into()),
        }
    }

    fn locate(&self, sample: SampleId, field: usize) -> Option<SampleLocation> {
        let index = usize::try_from(sample.0).ok()?;
        let values = &self.columns.get(field)?.values;
        if let Values::Records(records) = values {
            return records.locate(sample);
        }
        let image = self.files(0)?;
        let name = image.names.path(index)?;
        let damage = self.damaged.get(&index);
        if let Some(Damage { file, key: Some(key), .. }) = damage {
            return Some(SampleLocation::in_file(file.to_string_lossy(), Some(key.clone().into())));
        }
        let own = match values {
            Values::Files(files) => Some(files.root.join(files.names.path(index)?)),
            _ => None,
        };
        let origin = self.origin(index).filter(|_| damage.is_some() || own.is_none());
        let file = origin.map(Path::to_owned).or(own).unwrap_or_else(|| image.root.join(&name));
        Some(SampleLocation::in_file(file.to_string_lossy(), Some(name.to_string_lossy().into())))
    }

    fn stored(&self) -> Option<&dyn StoredValues> {
        let is_read =
            |column: &Column| matches!(column.values, Values::Lists(_) | Values::Records(_));
        (!self.sizes.is_empty() || !self.columns.iter().any(is_read)).then_some(self)
    }
}

impl StoredValues for Columnar {
    fn annotated_size(&self, sample: SampleId) -> Option<Size> {
        self.size(usize::try_from(sample.0).ok()?)
    }

    fn value_file(&self, sample: SampleId, field: usize) -> Option<PathBuf> {
        let index =
            usize::try_from(sample.0).ok().filter(|index| !self.damaged.contains_key(index))?;
        self.files(field)?.path(index)
    }

    fn value_in_memory(&self, sample: SampleId, field: usize) -> Option<Value<'_>> {
        let (index, values) = self.find(sample, field).ok()?;
        values.in_memory(index, &self.starts)
    }
}

/// Shows no values.
impl fmt::Debug for Columnar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Columnar").field("facts", &self.facts).finish_non_exhaustive()
    }
}

impl Files {
    /// Returns the image files of these names.
    pub(super) fn new(root: PathBuf, files: &[Box<str>]) -> Self {
        let mut names = Names::default();
        let dir = names.add_dir(PathBuf::new(), i64::MIN);
        for file in files {
            // There is one directory, whose number is not too large.
            let _ = names.push(dir, (**file).as_ref());
        }
        Self { media: Media::Image, root, names: Arc::new(names) }
    }

    /// Returns the path of a sample's file; `None` for a sample without one.
    pub(super) fn path(&self, index: usize) -> Option<PathBuf> {
        let path = self.names.path(index)?;
        (!path.as_os_str().is_empty()).then(|| self.root.join(path))
    }
}

impl Texts {
    /// Writes a list of texts to `bytes`, with the final NUL that JSON has in a dataset.
    fn list(&self, objects: Range<usize>, bytes: &mut Vec<u8>) -> Result<(), Error> {
        bytes.clear();
        bytes.push(b'[');
        for (index, range) in self.ranges[objects].iter().enumerate() {
            if index > 0 {
                bytes.push(b',');
            }
            if range.is_empty() {
                bytes.extend(b"null");
                continue;
            }
            let start = bytes.len();
            let read = self.bytes.append(range.start, range.end - range.start, bytes);
            read.at(&self.path)?;
            // The text was read once, so that it can only differ if the file does.
            let text = bytes[start..].trim_ascii();
            if !matches!(text, [b'[', .., b']'] | [b'{', .., b'}']) {
                return Err(fail!(
                    Damaged,
                    "the file has changed since it was opened: open it again"
                )
                .at(&self.path)
                .byte(range.start));
            }
        }
        bytes.extend(b"]\0");
        Ok(())
    }

    /// Returns the size of the list of these objects.
    fn size(&self, objects: Range<usize>) -> u64 {
        let of = |range: &Range<u64>| if range.is_empty() { 4 } else { range.end - range.start };
        let texts: u64 = self.ranges[objects.clone()].iter().map(of).sum();
        texts + 3 + objects.len().saturating_sub(1) as u64
    }
}

impl Records {
    /// Returns the file of a value, and its offset there.
    fn find(&self, sample: SampleId) -> Option<(&RecordFile, u64)> {
        let (batch, SampleId(index)) = self.files.starts.locate(sample)?;
        // The length of the file was checked for all of its values.
        let file = &self.files.files[self.file.unwrap_or(batch)];
        Some((file, self.start + index * self.stride))
    }

    fn value<'a>(
        &'a self,
        sample: SampleId,
        buffer: &'a mut Buffer,
    ) -> Result<Value<'a>, BoxError> {
        let (file, at) = self.find(sample).ok_or("no file has the sample")?;
        let failed = |error: Error| error.at(&file.path);
        let Buffer { bytes, check, .. } = buffer;
        match &self.stored {
            Stored::Array(_) => {
                let found = file.bytes.get_with((at, self.size), bytes, check.as_mut());
                Ok(Value::NdArray(found.map_err(failed)?))
            }
            Stored::Planes(size) => {
                let found = file.bytes.load(at, self.size, bytes).map_err(failed)?;
                let (end, len) = (found.end, found.len());
                if bytes.len() < end + len {
                    bytes.resize(end + len, 0);
                }
                let (planes, pixels) = bytes.split_at_mut(end);
                let pixels = &mut pixels[..len];
                interleave(&planes[found], pixels);
                Ok(raw(*size, pixels))
            }
            Stored::Label { classes, cure } => {
                let found = file.bytes.get_with((at, 1), bytes, check.as_mut());
                let label = found.map_err(failed)?[0];
                match classes {
                    Some(classes) if label >= *classes => {
                        let last = classes - 1;
                        let error = fail!(Damaged, "label {label}, expected 0 to {last}{cure}");
                        Err(error.at(&file.path).byte(at).into())
                    }
                    _ => Ok(Value::Int(label.into())),
                }
            }
        }
    }

    fn locate(&self, sample: SampleId) -> Option<SampleLocation> {
        let (file, at) = self.find(sample)?;
        let location = SampleLocation::in_file(file.path.to_string_lossy(), None);
        let bytes = (!file.is_packed).then(|| at..at + self.size);
        Some(SampleLocation { bytes, ..location })
    }
}

/// Interleaves the planes of an image: red, green and blue.
fn interleave(planes: &[u8], pixels: &mut [u8]) {
    let (red, rest) = planes.split_at(planes.len() / RGB);
    let (green, blue) = rest.split_at(rest.len() / 2);
    let planes = red.iter().zip(green).zip(blue);
    for (pixel, ((red, green), blue)) in pixels.chunks_exact_mut(RGB).zip(planes) {
        pixel.copy_from_slice(&[*red, *green, *blue]);
    }
}
