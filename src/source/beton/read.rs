//! The reader: a file opened, checked, and its values looked up in place.
//!
//! Opening checks the header, the field descriptors and where the tables lie; it sorts the
//! allocation table only if a field needs it and the table is not in order. Reading a value
//! copies nothing. What one sample's cell says is checked when that sample is read: one
//! damaged sample does not cost the others.

use super::{
    Allocation, Cell, CustomRows, EncodedImage, FieldKind, FieldSpec, Header, HeaderError,
    ImageCell, ImageMode, OpenError, ReadError, RowLayout, SourceError, Value,
    error::ReadErrorKind,
    index::{Guess, SizeIndex},
    parse_fields,
    stats::ImageStats,
};
use crate::sample::{Limits, SampleId};
use crate::source::map::FileBytes;
use fuseloop_ops::{RGB, Size};
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// An open `.beton` file.
pub struct Beton {
    path: Option<PathBuf>,
    bytes: FileBytes,
    header: Header,
    fields: Vec<FieldSpec>,
    layout: RowLayout,
    index: SizeIndex,
    guess: Guess,
    limits: Limits,
    /// By field, filled when first asked for.
    image_stats: Vec<OnceLock<ImageStats>>,
}

/// How to open a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// What the file may ask for.
    pub limits: Limits,
    /// How wide user-defined fields are.
    pub custom_fields: CustomRows,
}

impl Beton {
    /// Opens a file by mapping it.
    ///
    /// The file must not be changed in place while it is open: overwritten, what is read is
    /// undefined; truncated, the process ends when the missing part is touched. Replace it by
    /// renaming another over it, which leaves the open one as it is.
    ///
    /// # Errors
    ///
    /// See [`OpenError`]; the path is added.
    pub fn open(path: impl AsRef<Path>, limits: &Limits) -> Result<Self, SourceError> {
        Self::open_with(path, &OpenOptions { limits: *limits, ..OpenOptions::default() })
    }

    /// Opens a file with user-defined fields, by mapping it as [`open`](Self::open) does.
    ///
    /// # Errors
    ///
    /// See [`OpenError`]; the path is added.
    pub fn open_with(path: impl AsRef<Path>, options: &OpenOptions) -> Result<Self, SourceError> {
        let path = path.as_ref();
        FileBytes::map(path)
            .map_err(OpenError::from)
            .and_then(|bytes| Self::new(bytes, options))
            .map(|beton| Self { path: Some(path.to_owned()), ..beton })
            .map_err(|error| SourceError { path: path.to_owned(), kind: error.into() })
    }

    /// Opens a file that is in memory.
    ///
    /// # Errors
    ///
    /// See [`OpenError`].
    pub fn from_bytes(bytes: impl Into<Arc<[u8]>>, limits: &Limits) -> Result<Self, OpenError> {
        let options = OpenOptions { limits: *limits, ..OpenOptions::default() };
        Self::from_bytes_with(bytes, &options)
    }

    /// Opens a file with user-defined fields that is in memory.
    ///
    /// # Errors
    ///
    /// See [`OpenError`].
    pub fn from_bytes_with(
        bytes: impl Into<Arc<[u8]>>,
        options: &OpenOptions,
    ) -> Result<Self, OpenError> {
        Self::new(FileBytes::Held(bytes.into()), options)
    }

    fn new(bytes: FileBytes, options: &OpenOptions) -> Result<Self, OpenError> {
        let header = Header::parse(&bytes, bytes.len() as u64)?;
        let fields = read_fields(&bytes, &header, &options.custom_fields)?;
        let layout = RowLayout::new(fields.iter().map(|field| &field.kind))?;
        check_tables(&header, &layout, bytes.len() as u64, &options.limits)?;
        let index = if fields.iter().any(|field| sized_by_table(&field.kind)) {
            SizeIndex::new(allocation_table(&bytes, &header))?
        } else {
            SizeIndex::EMPTY
        };
        let guess = Guess::new(&fields, index.len(), header.num_samples);
        let image_stats = fields.iter().map(|_| OnceLock::new()).collect();
        let limits = options.limits;
        Ok(Self { path: None, bytes, header, fields, layout, index, guess, limits, image_stats })
    }

    /// The file, if it was opened by its path.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Number of samples.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a count of samples, not a collection")]
    pub fn len(&self) -> u64 {
        self.header.num_samples
    }

    /// Every sample, in the file's order.
    pub fn samples(&self) -> impl Iterator<Item = SampleId> + use<> {
        (0..self.header.num_samples).map(SampleId)
    }

    /// The fields, in the file's order.
    #[must_use]
    pub fn fields(&self) -> &[FieldSpec] {
        &self.fields
    }

    /// Place of the field of this name.
    #[must_use]
    pub fn field_index(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|field| field.name == name)
    }

    /// The header, as it lies in the file.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Bytes of the whole file.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Bytes of a row of the sample table.
    #[must_use]
    pub fn row_bytes(&self) -> usize {
        self.layout.size()
    }

    /// The records of the allocation table, in the file's order.
    pub fn allocations(&self) -> impl ExactSizeIterator<Item = Allocation> {
        Allocation::parse_table(allocation_table(&self.bytes, &self.header))
    }

    /// What a field of a sample holds, borrowed from the file.
    ///
    /// An image's bytes are as many as the allocation table says; those of Bytes and JSON as
    /// the row says; an array's as its dtype and shape say. A value of no bytes is an empty
    /// slice, whatever its pointer.
    ///
    /// # Errors
    ///
    /// See [`ReadErrorKind`]. Never panics, whatever the file holds.
    pub fn value(&self, sample: SampleId, field: usize) -> Result<Value<'_>, ReadError> {
        self.read_value(sample, field).map_err(|kind| self.read_error(sample, field, kind))
    }

    /// Height and width of a picture, from its row alone: no byte of the picture is touched.
    ///
    /// # Errors
    ///
    /// As [`value`](Self::value) for the row; or if the field is no image.
    pub fn image_size(&self, sample: SampleId, field: usize) -> Result<Size, ReadError> {
        let size = || {
            let (kind, at, cell) = self.cell(sample, field)?;
            match cell {
                Cell::Image(cell) => self.checked_size(&cell, at),
                _ => Err(ReadErrorKind::NotAnImage { found: kind.word() }),
            }
        };
        size().map_err(|kind| self.read_error(sample, field, kind))
    }

    /// What the rows say of a field's pictures; `None` if the field is no image.
    ///
    /// The first call reads the whole sample table, the others are free.
    #[must_use]
    pub fn image_stats(&self, field: usize) -> Option<&ImageStats> {
        if self.fields.get(field)?.kind != FieldKind::RgbImage {
            return None;
        }
        Some(self.image_stats.get(field)?.get_or_init(|| ImageStats::scan(self, field)))
    }

    /// The size that all readable pictures of a field share, if they do; as costly as
    /// [`image_stats`](Self::image_stats).
    #[must_use]
    pub fn uniform_image_size(&self, field: usize) -> Option<Size> {
        self.image_stats(field)?.uniform()
    }

    /// The bytes that a user-defined field's pointer leads to: as many as the allocation table
    /// says.
    ///
    /// # Errors
    ///
    /// If no record begins there, or its bytes lie outside the data. The table is at hand only
    /// if the file has an image or a user-defined field: without one, there is no record.
    pub fn stored(&self, ptr: u64) -> Result<&[u8], ReadErrorKind> {
        self.data(ptr, self.stored_size(ptr, 0)?)
    }

    fn read_value(&self, sample: SampleId, field: usize) -> Result<Value<'_>, ReadErrorKind> {
        let (kind, at, cell) = self.cell(sample, field)?;
        Ok(match (cell, kind) {
            (Cell::Float(value), _) => Value::Float(value),
            (Cell::Int(value), _) => Value::Int(value),
            (Cell::Image(cell), _) => {
                Value::Image(self.image(&cell, at, self.guess.place(sample, field))?)
            }
            (Cell::Bytes { ptr, size }, FieldKind::Json) => Value::Json(self.data(ptr, size)?),
            (Cell::Bytes { ptr, size }, _) => Value::Bytes(self.data(ptr, size)?),
            // `parse_fields` refused a product that has no number.
            (Cell::Array { ptr }, kind) => {
                Value::NdArray(self.data(ptr, kind.array_bytes().unwrap_or(u64::MAX))?)
            }
            (Cell::Custom(bytes), _) => Value::Custom(bytes),
        })
    }

    /// A field's kind, its cell's file offset, and the cell.
    pub(super) fn cell(
        &self,
        sample: SampleId,
        field: usize,
    ) -> Result<(&FieldKind, u64, Cell<'_>), ReadErrorKind> {
        let kind = match self.fields.get(field) {
            Some(spec) => &spec.kind,
            None => return Err(ReadErrorKind::NoSuchField { fields: self.fields.len() }),
        };
        let samples = self.header.num_samples;
        let outside = ReadErrorKind::NoSuchSample { samples };
        if sample.0 >= samples {
            return Err(outside);
        }
        // Neither overflows: the whole table was found to lie in the file.
        let at = self.header.sample_table_start() + sample.0 * self.layout.size() as u64;
        let row = slice(&self.bytes, at, self.layout.size() as u64).ok_or(outside)?;
        let at = at + self.layout.offset(field).unwrap_or_default() as u64;
        let cell = self.layout.cell(row, field).unwrap_or_default();
        let cell = Cell::parse(kind, cell).map_err(|kind| ReadErrorKind::Cell { kind, at })?;
        Ok((kind, at, cell))
    }

    fn image(
        &self,
        cell: &ImageCell,
        at: u64,
        guess: usize,
    ) -> Result<EncodedImage<'_>, ReadErrorKind> {
        let size = self.checked_size(cell, at)?;
        let Size { height, width } = size;
        let (mode, ptr, found) = (cell.mode, cell.ptr, self.stored_size(cell.ptr, guess)?);
        let expected = size.pixels() * RGB as u64;
        if mode == ImageMode::Raw && found != expected {
            return Err(ReadErrorKind::RawSize { width, height, ptr, found, expected });
        }
        Ok(EncodedImage { mode, width, height, bytes: self.data(ptr, found)? })
    }

    pub(super) fn checked_size(&self, cell: &ImageCell, at: u64) -> Result<Size, ReadErrorKind> {
        let size = Size::new(u32::from(cell.height), u32::from(cell.width));
        let (Size { height, width }, limit) = (size, self.limits.max_pixels);
        match size.pixels() {
            0 => Err(ReadErrorKind::EmptyImage { width, height, at }),
            pixels if pixels > limit => Err(ReadErrorKind::Pixels { width, height, limit }),
            _ => Ok(size),
        }
    }

    fn stored_size(&self, ptr: u64, guess: usize) -> Result<u64, ReadErrorKind> {
        self.index.size_at(ptr, guess).ok_or(ReadErrorKind::NoAllocation { ptr })
    }

    /// `size` bytes at `ptr`, if they lie between the two tables.
    fn data(&self, ptr: u64, size: u64) -> Result<&[u8], ReadErrorKind> {
        let limit = self.limits.max_sample_bytes;
        if size == 0 {
            // FFCV may leave any pointer with a value of no bytes.
            return Ok(&[]);
        }
        if size > limit {
            return Err(ReadErrorKind::Bytes { found: size, limit });
        }
        let Range { start, end } = self.data_range();
        let inside = ptr >= start && ptr.checked_add(size).is_some_and(|last| last <= end);
        let bytes = if inside { slice(&self.bytes, ptr, size) } else { None };
        bytes.ok_or(ReadErrorKind::OutOfBounds { ptr, size, start, end })
    }

    /// From the sample table's end to the allocation table. FFCV leaves zeros up to the first
    /// page; another writer may use that room.
    pub(super) fn data_range(&self) -> Range<u64> {
        let end = self.header.alloc_table_ptr;
        self.header.sample_table_end(self.layout.size()).unwrap_or(end)..end
    }

    fn read_error(&self, sample: SampleId, field: usize, kind: ReadErrorKind) -> ReadError {
        let name = self.fields.get(field).map(|spec| spec.name.clone());
        ReadError { sample, field: name.unwrap_or_else(|| format!("#{field}")), kind }
    }
}

impl fmt::Debug for Beton {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Beton")
            .field("path", &self.path)
            .field("header", &self.header)
            .field("fields", &self.fields)
            .finish_non_exhaustive()
    }
}

/// Whether the size of a value of this kind is found in the allocation table alone.
fn sized_by_table(kind: &FieldKind) -> bool {
    matches!(kind, FieldKind::RgbImage | FieldKind::Custom { .. })
}

fn read_fields(
    bytes: &[u8],
    header: &Header,
    custom: &CustomRows,
) -> Result<Vec<FieldSpec>, OpenError> {
    let start = Header::SIZE as u64;
    let descriptors =
        slice(bytes, start, header.sample_table_start() - start).ok_or(HeaderError::Truncated)?;
    Ok(parse_fields(descriptors, start, custom)?)
}

/// Checks that the sample table ends before the allocation table begins, and that the latter
/// is whole.
fn check_tables(
    header: &Header,
    layout: &RowLayout,
    file_len: u64,
    limits: &Limits,
) -> Result<(), OpenError> {
    let (samples, row_size) = (header.num_samples, layout.size());
    let end = header.alloc_table_ptr;
    if header.sample_table_end(row_size).is_none_or(|table_end| table_end > end) {
        let start = header.sample_table_start();
        return Err(OpenError::SampleTable { samples, row_size, start, end });
    }
    if samples > limits.max_samples {
        return Err(OpenError::Samples { found: samples, limit: limits.max_samples });
    }
    let found = file_len.saturating_sub(end);
    if !found.is_multiple_of(Allocation::SIZE as u64) {
        return Err(OpenError::AllocationTable { start: end, found });
    }
    Ok(())
}

/// From `alloc_table_ptr` to the end of the file.
fn allocation_table<'b>(bytes: &'b [u8], header: &Header) -> &'b [u8] {
    usize::try_from(header.alloc_table_ptr)
        .ok()
        .and_then(|start| bytes.get(start..))
        .unwrap_or_default()
}

/// `len` bytes at file offset `start`, if the file has them.
fn slice(bytes: &[u8], start: u64, len: u64) -> Option<&[u8]> {
    let start = usize::try_from(start).ok()?;
    bytes.get(start..)?.get(..usize::try_from(len).ok()?)
}
