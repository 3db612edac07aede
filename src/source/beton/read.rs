//! The reader: opens a file, checks it, and looks up its values.
//!
//! Opening checks the header, the field descriptors and the positions of the tables; it sorts the
//! allocation table only if a field needs the table and the table is not in order. The sample table is
//! kept in memory; values are read on request. A sample's cells are checked when that sample is read:
//! one damaged sample does not cost the others.

use super::{
    Allocation, Cell, CustomRow, CustomRows, FieldError, Header, HeaderError, ImageCell, OpenError,
    ReadError, RowLayout, SourceError,
    index::{ImageRow, ImageSizes, SizeIndex},
    parse_fields,
};
use crate::error::Error;
use crate::sample::{Limits, SampleId};
use crate::source::fetch_ahead::fetch_ahead;
use crate::source::file::{FileBytes, ReadAt};
use crate::source::shards::Shard;
use crate::source::{
    BoxError, Buffer, EncodedImage, Facts, FieldKind, FieldSpec, Fingerprint, ImageExtent,
    ImageMode, ImageStats, Location, ObjectFields, OwnedValue, ReadCause, Record, SampleLocation,
    Source, StoredValues, Value, classes,
};
use fuseloop_ops::Size;
use fuseloop_ops::internals::RGB;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// An open `.beton` file.
///
/// ```no_run
/// use fuseloop::source::{Beton, OpenOptions, Source};
///
/// let beton = Beton::open("train.beton", &OpenOptions::default())?;
/// let facts = beton.facts();
/// println!("{} samples of {:?}", facts.samples, facts.fields);
/// # Ok::<(), fuseloop::Error>(())
/// ```
pub struct Beton {
    /// Where the file is; `None` if it is read by a reader of the user's.
    location: Option<Location>,
    pub(super) bytes: FileBytes,
    pub(super) table: Arc<SampleTable>,
    facts: OnceLock<Facts>,
}

/// The sample table of a file, and what is needed to look up a value in it.
pub(super) struct SampleTable {
    /// The rows.
    rows: Vec<u8>,
    header: Header,
    fields: Arc<[FieldSpec]>,
    layout: RowLayout,
    index: SizeIndex,
    limits: Limits,
    /// The sizes of each field's images, found on first use.
    image_sizes: Vec<OnceLock<ImageSizes>>,
    /// The result for each field, computed on first use.
    image_stats: Vec<OnceLock<ImageStats>>,
    /// The result for each field, computed on first use.
    longest: Vec<OnceLock<u64>>,
}

/// How to open a file.
///
/// ```no_run
/// use fuseloop::Limits;
/// use fuseloop::source::{Beton, OpenOptions};
///
/// // A file of unknown origin may not ask for much memory.
/// let options = OpenOptions { limits: Limits::SMALL, ..OpenOptions::default() };
/// let beton = Beton::open("upload.beton", &options)?;
/// # Ok::<(), fuseloop::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// The limits on what the file may ask for.
    pub limits: Limits,
    /// The sizes of user-defined fields, by name. A name that is given here overrides the kind in the
    /// file, as in FFCV.
    pub custom_fields: BTreeMap<String, CustomRow>,
}

/// The limits, for a file without user-defined fields.
impl From<Limits> for OpenOptions {
    fn from(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }
}

/// The header and the fields of a file. Reading rows requires the sizes of user-defined fields; reading
/// the head does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BetonHead {
    /// The header.
    pub header: Header,
    /// The name and the kind of each field; `None` for a user-defined field whose size is not known.
    pub fields: Vec<(String, Option<FieldKind>)>,
    /// The size of the file in bytes.
    pub file_bytes: u64,
}

impl BetonHead {
    /// Reads the head of a file. From `options`, only the sizes of user-defined fields are used.
    ///
    /// # Errors
    ///
    /// Fails if the file can't be read, or if its header or a field descriptor is damaged.
    pub fn open(path: impl AsRef<Path>, options: &OpenOptions) -> Result<Self, SourceError> {
        let path = path.as_ref();
        let head = FileBytes::open(path).map_err(OpenError::from);
        let head = head.and_then(|bytes| Self::of(&bytes, &options.custom_fields));
        head.map_err(|error| SourceError { path: path.to_owned(), kind: error.into() })
    }

    fn of(bytes: &FileBytes, custom: &CustomRows) -> Result<Self, OpenError> {
        let header = read_header(bytes)?;
        let (mut custom, mut unknown) = (custom.clone(), vec![]);
        let fields = loop {
            match read_fields(bytes, &header, &custom) {
                // Any size will do here: all descriptors have the same length.
                Err(OpenError::Field(FieldError::CustomUnknown { name })) => {
                    custom.insert(name.clone(), CustomRow { row_size: 1, align: 1 });
                    unknown.push(name);
                }
                fields => break fields?,
            }
        };
        let known = |FieldSpec { name, kind }: FieldSpec| {
            let kind = Some(kind).filter(|_| !unknown.contains(&name));
            (name, kind)
        };
        let fields = fields.into_iter().map(known).collect();
        Ok(Self { header, fields, file_bytes: bytes.len() })
    }

    /// Returns the number of values that are stored in pages: the records of the allocation table.
    #[doc(hidden)]
    #[must_use]
    pub fn stored_values(&self) -> u64 {
        self.file_bytes.saturating_sub(self.header.alloc_table_ptr) / Allocation::SIZE as u64
    }
}

fn read_header(bytes: &FileBytes) -> Result<Header, OpenError> {
    let head = bytes.copy(0, bytes.len().min(Header::SIZE as u64))?;
    Ok(Header::parse(&head, bytes.len())?)
}

impl Beton {
    /// Opens a file, with the sizes of its user-defined fields if it has any.
    ///
    /// The file should not be changed while it is open: a read then returns old or new bytes, and values
    /// may be damaged. If the file is cut short, also during a read, its missing bytes are an error. (A
    /// file that was cut and has grown again by then is like one that was written over.) To replace the
    /// file, rename another over it, which leaves the open file as it is.
    ///
    /// # Errors
    ///
    /// Fails if the file can't be read, is not a `.beton` file, is damaged in its head or its tables, or
    /// exceeds the limits.
    pub fn open(path: impl AsRef<Path>, options: &OpenOptions) -> Result<Self, Error> {
        Ok(Self::open_file(path.as_ref(), options)?)
    }

    pub(crate) fn open_file(path: &Path, options: &OpenOptions) -> Result<Self, SourceError> {
        FileBytes::open(path)
            .map_err(OpenError::from)
            .and_then(|bytes| Self::new(bytes, options))
            .map(|beton| Self { location: Some(Location::Path(path.to_owned())), ..beton })
            .map_err(|error| SourceError { path: path.to_owned(), kind: error.into() })
    }

    /// Opens one of several files of a dataset.
    pub(in crate::source) fn of_shard(
        shard: &Shard,
        options: &OpenOptions,
    ) -> Result<Self, SourceError> {
        let opened = match shard.bytes.reader() {
            Some(reader) => FileBytes::from_reader(Arc::clone(reader)).map_err(OpenError::from),
            None => shard
                .bytes
                .copy(0, shard.bytes.len())
                .map_err(OpenError::from)
                .map(|bytes| FileBytes::InMemory(bytes.into())),
        };
        let opened = opened.and_then(|bytes| Self::new(bytes, options));
        match opened {
            Ok(beton) => Ok(Self { location: Some(shard.location.clone()), ..beton }),
            Err(error) => Err(SourceError { path: named(&shard.location), kind: error.into() }),
        }
    }

    /// Opens a file that is held in memory.
    ///
    /// # Errors
    ///
    /// See [`OpenError`].
    pub(crate) fn from_bytes(
        bytes: impl Into<Arc<[u8]>>,
        options: &OpenOptions,
    ) -> Result<Self, OpenError> {
        Self::new(FileBytes::InMemory(bytes.into()), options)
    }

    /// Opens a file that is not read by the system but by a reader: of a store, an archive, a test.
    ///
    /// # Errors
    ///
    /// Fails as [`open`](Self::open) does.
    pub fn from_reader(reader: impl ReadAt, options: &OpenOptions) -> Result<Self, Error> {
        Ok(Self::of_reader(reader, options)?)
    }

    pub(crate) fn of_reader(reader: impl ReadAt, options: &OpenOptions) -> Result<Self, OpenError> {
        Self::new(FileBytes::from_reader(Arc::new(reader))?, options)
    }

    fn new(bytes: FileBytes, options: &OpenOptions) -> Result<Self, OpenError> {
        let header = read_header(&bytes)?;
        let fields = read_fields(&bytes, &header, &options.custom_fields)?;
        let layout = RowLayout::new(fields.iter().map(|field| &field.kind))?;
        let indexed = fields.iter().any(|field| sized_by_table(&field.kind));
        check_tables(&header, &layout, bytes.len(), indexed, &options.limits)?;
        let start = header.sample_table_start();
        let rows = bytes.copy(start, header.num_samples * layout.size() as u64)?;
        let index = if indexed {
            SizeIndex::new(&allocation_table(&bytes, &header)?)?
        } else {
            SizeIndex::EMPTY
        };
        let image_sizes = fields.iter().map(|_| OnceLock::new()).collect();
        let image_stats = fields.iter().map(|_| OnceLock::new()).collect();
        let longest = fields.iter().map(|_| OnceLock::new()).collect();
        let (limits, fields) = (options.limits, fields.into());
        let table = SampleTable {
            rows,
            header,
            fields,
            layout,
            index,
            limits,
            image_sizes,
            image_stats,
            longest,
        };
        Ok(Self { location: None, bytes, table: Arc::new(table), facts: OnceLock::new() })
    }

    /// Returns the path of the file, if it was opened by its path.
    pub(crate) fn path(&self) -> Option<&Path> {
        match &self.location {
            Some(Location::Path(path)) => Some(path),
            Some(Location::Url(_)) | None => None,
        }
    }

    /// Returns the path or the address of the file, for errors.
    pub(crate) fn shown(&self) -> PathBuf {
        self.location.as_ref().map_or_else(|| "memory".into(), named)
    }

    /// Returns the number of samples.
    pub(crate) fn len(&self) -> u64 {
        self.table.header.num_samples
    }

    /// Returns the number of every sample, in the file's order.
    pub(crate) fn samples(&self) -> impl Iterator<Item = SampleId> + use<> {
        self.table.samples()
    }

    /// Returns the fields, in the file's order.
    pub(crate) fn fields(&self) -> &[FieldSpec] {
        &self.table.fields
    }

    /// Returns the header, as it is stored in the file.
    pub(crate) fn header(&self) -> &Header {
        &self.table.header
    }

    /// Returns the size of the file in bytes.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.bytes.len()
    }

    /// Returns the size of a row of the sample table in bytes.
    pub(crate) fn row_bytes(&self) -> usize {
        self.table.layout.size()
    }

    /// Returns the number of values that are stored in pages: the records of the allocation table.
    pub(crate) fn stored_values(&self) -> u64 {
        self.bytes.len().saturating_sub(self.table.header.alloc_table_ptr) / Allocation::SIZE as u64
    }

    /// Reads the records of the allocation table, in the file's order.
    ///
    /// # Errors
    ///
    /// Fails if the table can't be read.
    pub(crate) fn allocations(&self) -> Result<Vec<Allocation>, ReadCause> {
        Ok(Allocation::parse_table(&allocation_table(&self.bytes, &self.table.header)?).collect())
    }

    /// Returns the value of a field of a sample, read into `buffer` or borrowed from a file in memory.
    ///
    /// The size of an image is in the allocation table, the size of Bytes and JSON in the row; the size
    /// of an array follows from its dtype and shape. A value of no bytes is an empty slice, whatever its
    /// pointer.
    ///
    /// # Errors
    ///
    /// See [`ReadCause`]. Never panics, whatever the file holds.
    pub(crate) fn value<'a>(
        &'a self,
        sample: SampleId,
        field: usize,
        buffer: &'a mut Buffer,
    ) -> Result<Value<'a>, ReadError> {
        let value = self.table.located(sample, field).and_then(|located| match located {
            ValueLocation::InRow(value) => Ok(value),
            ValueLocation::InPages(stored) => {
                let (extent, Buffer { bytes, check, .. }) = ((stored.ptr, stored.size), buffer);
                Ok(stored.value(self.bytes.get_with(extent, bytes, check.as_mut())?))
            }
        });
        value.map_err(|kind| self.read_error(sample, field, kind))
    }

    /// Returns the value of a field of a sample, owned.
    ///
    /// # Errors
    ///
    /// Fails as [`value`](Self::value) does.
    pub(crate) fn owned(&self, sample: SampleId, field: usize) -> Result<OwnedValue, ReadError> {
        self.value(sample, field, &mut Buffer::default()).map(OwnedValue::from)
    }

    /// Adds the path of the file to the error of a value, if the file has one.
    fn in_own_file(&self, error: ReadError) -> BoxError {
        match &self.location {
            Some(location) => error.in_file(named(location)).into(),
            None => error.kind.into(),
        }
    }

    /// Returns the height and width of an image, from its row alone: the image itself is not read.
    ///
    /// # Errors
    ///
    /// Fails as [`value`](Self::value) does for the row, or if the field is not an image.
    pub(crate) fn image_size(&self, sample: SampleId, field: usize) -> Result<Size, ReadError> {
        let size = || {
            let (kind, at, cell) = self.table.cell(sample, field)?;
            match cell {
                Cell::Image(cell) => self.table.checked_size(&cell, at),
                _ => Err(ReadCause::NotAnImage { found: kind.word() }),
            }
        };
        size().map_err(|kind| self.read_error(sample, field, kind))
    }

    /// Returns the statistics of a field's images, from the rows; `None` if the field is not an image.
    pub(crate) fn image_stats(&self, field: usize) -> Option<&ImageStats> {
        self.table.image_stats(field)
    }

    /// Returns the range of a value's bytes in the pages, according to the tables; `None` for a value without bytes there,
    /// and for one that the tables do not allow.
    pub(crate) fn stored_at(&self, sample: SampleId, field: usize) -> Option<Range<u64>> {
        self.table.stored_at(sample, field)
    }

    /// Returns the bytes that a user-defined field's pointer leads to. Their number is in the allocation
    /// table.
    ///
    /// # Errors
    ///
    /// Fails if no record begins there, or if its bytes are outside the data. The allocation table is
    /// loaded only if the file has an image or a user-defined field; in other files no record is found.
    pub(crate) fn stored<'a>(
        &'a self,
        ptr: u64,
        buffer: &'a mut Buffer,
    ) -> Result<&'a [u8], ReadCause> {
        let stored = self.table.data(ptr, self.table.stored_size(ptr)?, StoredKind::Bytes)?;
        self.bytes.get(stored.ptr, stored.size, &mut buffer.bytes)
    }

    fn read_error(&self, sample: SampleId, field: usize, kind: ReadCause) -> ReadError {
        let name = self.table.fields.get(field).map(|spec| spec.name.clone());
        ReadError { sample, field: name.unwrap_or_else(|| format!("#{field}")), kind }
    }
}

impl SampleTable {
    /// Returns the number of samples.
    pub(super) fn len(&self) -> u64 {
        self.header.num_samples
    }

    /// Returns the number of every sample, in the file's order.
    pub(super) fn samples(&self) -> impl Iterator<Item = SampleId> + use<> {
        (0..self.header.num_samples).map(SampleId)
    }

    /// Returns the size in bytes of the longest readable value of a Bytes or JSON field; 0 if there is
    /// none.
    ///
    /// The first call reads the whole sample table, the others are free.
    pub(super) fn longest(&self, field: usize) -> u64 {
        self.longest
            .get(field)
            .map_or(0, |longest| *longest.get_or_init(|| self.scan_longest(field)))
    }

    fn scan_longest(&self, field: usize) -> u64 {
        let sizes = self.samples().map(|sample| match self.located(sample, field) {
            Ok(ValueLocation::InPages(StoredBytes {
                size,
                kind: StoredKind::Bytes | StoredKind::Json,
                ..
            })) => size,
            _ => 0,
        });
        sizes.max().unwrap_or(0)
    }

    /// Returns the statistics of a field's images, from the rows; `None` if the field is not an image.
    ///
    /// The first call reads the whole sample table, the others are free.
    pub(super) fn image_stats(&self, field: usize) -> Option<&ImageStats> {
        if !self.fields.get(field)?.kind.is_image() {
            return None;
        }
        Some(self.image_stats.get(field)?.get_or_init(|| ImageStats::scan(self, field)))
    }

    /// Returns the range of a value's bytes in the pages, according to the tables; `None` for a value
    /// without bytes there, and for one that the tables do not allow.
    pub(super) fn stored_at(&self, sample: SampleId, field: usize) -> Option<Range<u64>> {
        match self.located(sample, field) {
            Ok(ValueLocation::InPages(stored)) if stored.size > 0 => {
                Some(stored.ptr..stored.ptr + stored.size)
            }
            _ => None,
        }
    }

    /// Returns where a field of a sample is stored: in its row, or in the pages.
    pub(super) fn located(
        &self,
        sample: SampleId,
        field: usize,
    ) -> Result<ValueLocation<'_>, ReadCause> {
        let (kind, at, cell) = self.cell(sample, field)?;
        let stored = match (cell, kind) {
            (Cell::Float(value), _) => return Ok(ValueLocation::InRow(Value::Float(value))),
            (Cell::Int(value), _) => return Ok(ValueLocation::InRow(Value::Int(value))),
            (Cell::Custom(bytes), _) => return Ok(ValueLocation::InRow(Value::Custom(bytes))),
            (Cell::Image(cell), _) => self.image(&cell, at, (sample, field)),
            (Cell::Bytes { ptr, size }, FieldKind::Json) => self.data(ptr, size, StoredKind::Json),
            (Cell::Bytes { ptr, size }, _) => self.data(ptr, size, StoredKind::Bytes),
            // `parse_fields` has refused a product beyond 2^64.
            (Cell::Array { ptr }, kind) => {
                self.data(ptr, kind.array_bytes().unwrap_or(u64::MAX), StoredKind::NdArray)
            }
        };
        stored.map(ValueLocation::InPages)
    }

    /// Returns a field's kind, the file offset of its cell, and the cell.
    pub(super) fn cell(
        &self,
        sample: SampleId,
        field: usize,
    ) -> Result<(&FieldKind, u64, Cell<'_>), ReadCause> {
        let kind = match self.fields.get(field) {
            Some(spec) => &spec.kind,
            None => return Err(ReadCause::NoSuchField { fields: self.fields.len() }),
        };
        let samples = self.header.num_samples;
        let outside = ReadCause::NoSuchSample { samples };
        if sample.0 >= samples {
            return Err(outside);
        }
        // Neither product overflows: the whole table is known to be inside the file.
        let at = self.header.sample_table_start() + sample.0 * self.layout.size() as u64;
        let row =
            slice(&self.rows, sample.0 * self.layout.size() as u64, self.layout.size() as u64);
        let row = row.ok_or(outside)?;
        let at = at + self.layout.offset(field).unwrap_or_default() as u64;
        let cell = self.layout.cell(row, field).unwrap_or_default();
        let cell = Cell::parse(kind, cell).map_err(|kind| ReadCause::Cell { kind, at })?;
        Ok((kind, at, cell))
    }

    fn image(
        &self,
        cell: &ImageCell,
        at: u64,
        (sample, field): (SampleId, usize),
    ) -> Result<StoredBytes, ReadCause> {
        let Size { height, width } = self.checked_size(cell, at)?;
        let row @ ImageRow { mode, ptr, pixel_bytes } = ImageRow::of(cell);
        let sizes = self.image_sizes[field]
            .get_or_init(|| ImageSizes::new(&self.index, self.image_rows(field)));
        let found = sizes.size_of(&self.index, sample.0, row);
        let found = found.ok_or(ReadCause::NoAllocation { ptr })?;
        if mode == ImageMode::Raw && found != pixel_bytes {
            let expected = pixel_bytes;
            return Err(ReadCause::RawSize { width, height, ptr, found, expected });
        }
        self.data(ptr, found, StoredKind::Image { mode, width, height })
    }

    /// Returns the images of a field as their rows describe them; `None` for a row that can't be read.
    fn image_rows(&self, field: usize) -> impl Iterator<Item = Option<ImageRow>> {
        self.samples().map(move |sample| match self.cell(sample, field) {
            Ok((_, _, Cell::Image(cell))) => Some(ImageRow::of(&cell)),
            _ => None,
        })
    }

    pub(super) fn checked_size(&self, cell: &ImageCell, at: u64) -> Result<Size, ReadCause> {
        let size = Size::new(u32::from(cell.height), u32::from(cell.width));
        let (Size { height, width }, limit) = (size, self.limits.max_pixels);
        match size.pixels() {
            0 => Err(ReadCause::EmptyImage { width, height, at }),
            pixels if pixels > limit => Err(ReadCause::Pixels { width, height, limit }),
            _ => Ok(size),
        }
    }

    fn stored_size(&self, ptr: u64) -> Result<u64, ReadCause> {
        self.index.size_at(ptr).ok_or(ReadCause::NoAllocation { ptr })
    }

    /// Returns the `size` bytes at `ptr` as a stored value, if they are between the two tables.
    fn data(&self, ptr: u64, size: u64, kind: StoredKind) -> Result<StoredBytes, ReadCause> {
        let limit = self.limits.max_sample_bytes;
        if size == 0 {
            // FFCV may store any pointer for a value of no bytes.
            return Ok(StoredBytes { ptr: 0, size: 0, kind });
        }
        if size > limit {
            return Err(ReadCause::Bytes { found: size, limit });
        }
        let Range { start, end } = self.data_range();
        let inside = ptr >= start && ptr.checked_add(size).is_some_and(|last| last <= end);
        if inside {
            Ok(StoredBytes { ptr, size, kind })
        } else {
            Err(ReadCause::OutOfBounds { ptr, size, start, end })
        }
    }

    /// Returns the range from the sample table's end to the allocation table. FFCV writes zeros up to
    /// the first page; another writer may use that space.
    pub(super) fn data_range(&self) -> Range<u64> {
        let end = self.header.alloc_table_ptr;
        self.header.sample_table_end(self.layout.size()).unwrap_or(end)..end
    }
}

impl ImageRow {
    fn of(cell: &ImageCell) -> Self {
        let pixel_bytes = u64::from(cell.height) * u64::from(cell.width) * RGB as u64;
        Self { mode: cell.mode, ptr: cell.ptr, pixel_bytes }
    }
}

/// Where a value is stored.
pub(super) enum ValueLocation<'a> {
    /// In the sample's row.
    InRow(Value<'a>),
    /// In the pages.
    InPages(StoredBytes),
}

/// The range of a value's bytes in the pages: inside the data, but not read yet.
#[derive(Clone, Copy)]
pub(super) struct StoredBytes {
    pub(super) ptr: u64,
    pub(super) size: u64,
    kind: StoredKind,
}

/// The kind of stored bytes.
#[derive(Clone, Copy)]
enum StoredKind {
    Image { mode: ImageMode, width: u32, height: u32 },
    Bytes,
    NdArray,
    Json,
}

impl StoredBytes {
    /// Returns the extent of an image.
    fn extent(&self) -> Option<ImageExtent> {
        match self.kind {
            StoredKind::Image { mode, width, height } => Some(ImageExtent {
                mode: Some(mode),
                size: Size::new(height, width),
                start: self.ptr,
                bytes: self.size,
            }),
            _ => None,
        }
    }

    /// Returns the value, given its bytes.
    pub(super) fn value(self, bytes: &[u8]) -> Value<'_> {
        match self.kind {
            StoredKind::Image { mode, width, height } => {
                Value::Image(EncodedImage { mode, width, height, bytes })
            }
            StoredKind::Bytes => Value::Bytes(bytes),
            StoredKind::NdArray => Value::NdArray(bytes),
            StoredKind::Json => Value::Json(bytes),
        }
    }
}

impl Source for Beton {
    fn facts(&self) -> &Facts {
        self.facts.get_or_init(|| self.found_facts())
    }

    fn read(&self, sample: SampleId) -> Result<Record, BoxError> {
        let fields = 0..self.table.fields.len();
        let owned = |field| self.owned(sample, field).map_err(|error| self.in_own_file(error));
        fields.map(owned).collect()
    }

    fn value<'a>(
        &'a self,
        sample: SampleId,
        field: usize,
        buffer: &'a mut Buffer,
    ) -> Result<Value<'a>, BoxError> {
        self.value(sample, field, buffer).map_err(|error| self.in_own_file(error))
    }

    fn locate(&self, sample: SampleId, field: usize) -> Option<SampleLocation> {
        let file = self.location.as_ref().map(|file| named(file).to_string_lossy().into());
        let is_there = sample.0 < self.len();
        is_there.then(|| SampleLocation { file, key: None, bytes: self.stored_at(sample, field) })
    }

    /// Returns the page of the sample's first value that is stored in a page; page 0 for a sample
    /// without such a value.
    fn locality_group(&self, sample: SampleId) -> Option<u64> {
        let SampleTable { header, layout, fields, .. } = &*self.table;
        let start = header.data_start(layout.size()).unwrap_or_default();
        let stored = (0..fields.len()).find_map(|field| self.stored_at(sample, field));
        Some(
            stored.map_or(0, |bytes| bytes.start).saturating_sub(start)
                / u64::from(header.page_size.max(1)),
        )
    }

    fn stored(&self) -> Option<&dyn StoredValues> {
        Some(self)
    }
}

impl Beton {
    /// Finds the facts. The fingerprint hashes the header, the length of the file, the fields and all rows: the values that
    /// are stored in rows, and the pointers to the others. Stored bytes are not read.
    fn found_facts(&self) -> Facts {
        let SampleTable { header, fields, rows, .. } = &*self.table;
        let mut print = Fingerprint::default();
        print.bytes(&header.to_bytes());
        print.number(self.bytes.len());
        print.fields(fields);
        print.number(u64::from(crc32c::crc32c(rows)));
        let [of_images, of_bytes] = [(); 2].map(|()| Arc::clone(&self.table));
        let (of_names, of_objects) = (self.location.clone(), self.location.clone());
        let known = Arc::clone(fields);
        Facts {
            name: self.shown().display().to_string(),
            path: self.path().map(Path::to_owned),
            rereads_cheaply: true,
            stored_bytes: Some(self.bytes.len()),
            page_size: Some(header.page_size),
            fingerprint: print.value(),
            ..Facts::of(Arc::clone(fields), self.len())
        }
        .with_image_stats(move |field| of_images.image_stats(field).cloned())
        .with_longest(move |field| Some(of_bytes.longest(field)))
        .with_class_names(move || classes::names_beside_file(of_names.as_ref()))
        .with_object_fields(move || Ok(ObjectFields::beside_file(of_objects.as_ref(), &known)?))
    }
}

impl StoredValues for Beton {
    fn hold_in_memory(&self) -> Result<(), BoxError> {
        let held = self.bytes.hold();
        Ok(held.map_err(|kind| SourceError {
            path: self.shown(),
            kind: OpenError::from(kind).into(),
        })?)
    }

    fn expect_read(&self, sample: SampleId, _: usize) {
        if self.bytes.in_memory().is_some() {
            let row = self.table.layout.size() as u64;
            let row = slice(&self.table.rows, sample.0.saturating_mul(row), row);
            fetch_ahead(row.unwrap_or_default());
        }
    }

    fn value_in_memory(&self, sample: SampleId, field: usize) -> Option<Value<'_>> {
        let all = self.bytes.in_memory()?;
        match self.table.located(sample, field).ok()? {
            ValueLocation::InRow(value) => Some(value),
            ValueLocation::InPages(stored) => {
                let bytes = slice(all, stored.ptr, stored.size)?;
                Some(stored.value(bytes))
            }
        }
    }

    /// Only of a local file parts are read: a remote object is read in the ranges that were planned.
    fn image_extent(&self, sample: SampleId, field: usize) -> Option<ImageExtent> {
        if self.path().is_none() || self.bytes.in_memory().is_some() {
            return None;
        }
        match self.table.located(sample, field) {
            Ok(ValueLocation::InPages(stored)) => stored.extent(),
            _ => None,
        }
    }

    fn image_part(
        &self,
        sample: SampleId,
        field: usize,
        to: (u64, &mut [u8]),
        buffer: &mut Buffer,
    ) -> Result<(), BoxError> {
        let stored = self.table.located(sample, field).and_then(|located| match located {
            ValueLocation::InPages(stored) => Ok(stored),
            ValueLocation::InRow(_) => {
                Err(ReadCause::NotAnImage { found: self.table.fields[field].kind.word() })
            }
        })?;
        Ok(self.bytes.read_part((stored.ptr, stored.size), to, buffer.check.as_mut())?)
    }
}

impl fmt::Debug for Beton {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Beton")
            .field("location", &self.location)
            .field("header", &self.table.header)
            .field("fields", &self.table.fields)
            .finish_non_exhaustive()
    }
}

/// Returns the path of a file, or its address without a query, which may hold a signature.
fn named(location: &Location) -> PathBuf {
    match location {
        Location::Path(path) => path.clone(),
        Location::Url(_) => location.to_string().into(),
    }
}

/// Returns whether only the allocation table has the size of a value of this kind.
fn sized_by_table(kind: &FieldKind) -> bool {
    kind.is_image() || matches!(kind, FieldKind::Custom { .. })
}

fn read_fields(
    bytes: &FileBytes,
    header: &Header,
    custom: &CustomRows,
) -> Result<Vec<FieldSpec>, OpenError> {
    let start = Header::SIZE as u64;
    let size = header.sample_table_start() - start;
    if start + size > bytes.len() {
        return Err(HeaderError::Truncated.into());
    }
    Ok(parse_fields(&bytes.copy(start, size)?, start, custom)?)
}

/// Checks that the sample table ends before the allocation table begins, that the allocation table is
/// whole, and that the tables are not too large. The allocation table counts only if `indexed`.
fn check_tables(
    header: &Header,
    layout: &RowLayout,
    file_len: u64,
    indexed: bool,
    limits: &Limits,
) -> Result<(), OpenError> {
    let (samples, row_size) = (header.num_samples, layout.size());
    let end = header.alloc_table_ptr;
    let start = header.sample_table_start();
    let Some(table_end) = header.sample_table_end(row_size).filter(|&last| last <= end) else {
        return Err(OpenError::SampleTable { samples, row_size, start, end });
    };
    if samples > limits.max_samples {
        return Err(OpenError::Samples { found: samples, limit: limits.max_samples });
    }
    let found = file_len.saturating_sub(end);
    if !found.is_multiple_of(Allocation::SIZE as u64) {
        return Err(OpenError::AllocationTable { start: end, found });
    }
    let (found, limit) = (table_end + if indexed { found } else { 0 }, limits.max_table_bytes);
    if found > limit { Err(OpenError::TableBytes { found, limit }) } else { Ok(()) }
}

/// Reads the allocation table: from `alloc_table_ptr` to the end of the file.
fn allocation_table(bytes: &FileBytes, header: &Header) -> Result<Vec<u8>, ReadCause> {
    let start = header.alloc_table_ptr;
    bytes.copy(start, bytes.len().saturating_sub(start))
}

/// Returns `len` bytes from `start` on; `None` if there are fewer.
fn slice(bytes: &[u8], start: u64, len: u64) -> Option<&[u8]> {
    let start = usize::try_from(start).ok()?;
    bytes.get(start..)?.get(..usize::try_from(len).ok()?)
}
