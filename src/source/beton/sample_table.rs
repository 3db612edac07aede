//! The sample table: what a row says about a value, checked when its sample is asked for. One damaged sample does not cost
//! the others.

use super::index::{ImageRow, ImageSizes, SizeIndex};
use super::{Cell, Header, ImageCell, RowLayout};
use crate::error::{Damage, Error, fail};
use crate::sample::{Limits, SampleId};
use crate::source::error::{no_such_field, no_such_sample, too_long};
use crate::source::{
    EncodedImage, FieldKind, FieldSpec, ImageExtent, ImageMode, ImageStats, Value,
};
use fuseloop_ops::Size;
use fuseloop_ops::internals::RGB;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// The sample table of a file, and what is needed to look up a value in it.
pub(super) struct SampleTable {
    /// The rows.
    pub(super) rows: Vec<u8>,
    pub(super) header: Header,
    pub(super) fields: Arc<[FieldSpec]>,
    pub(super) layout: RowLayout,
    index: SizeIndex,
    limits: Limits,
    /// The sizes of each field's images, found on first use.
    image_sizes: Vec<OnceLock<ImageSizes>>,
    /// The result for each field, computed on first use.
    image_stats: Vec<OnceLock<ImageStats>>,
    /// The result for each field, computed on first use.
    longest: Vec<OnceLock<u64>>,
}

impl SampleTable {
    pub(super) fn new(
        (header, fields): (Header, Vec<FieldSpec>),
        (layout, rows): (RowLayout, Vec<u8>),
        index: SizeIndex,
        limits: Limits,
    ) -> Self {
        Self {
            image_sizes: fields.iter().map(|_| OnceLock::new()).collect(),
            image_stats: fields.iter().map(|_| OnceLock::new()).collect(),
            longest: fields.iter().map(|_| OnceLock::new()).collect(),
            rows,
            header,
            fields: fields.into(),
            layout,
            index,
            limits,
        }
    }

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
    ) -> Result<ValueLocation<'_>, Error> {
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
    ) -> Result<(&FieldKind, u64, Cell<'_>), Error> {
        let kind = match self.fields.get(field) {
            Some(spec) => &spec.kind,
            None => return Err(no_such_field(self.fields.len())),
        };
        let samples = self.header.num_samples;
        if sample.0 >= samples {
            return Err(no_such_sample(samples));
        }
        // Neither product overflows: the whole table is known to be inside the file.
        let at = self.header.sample_table_start() + sample.0 * self.layout.size() as u64;
        let row =
            slice(&self.rows, sample.0 * self.layout.size() as u64, self.layout.size() as u64);
        let row = row.ok_or_else(|| no_such_sample(samples))?;
        let at = at + self.layout.offset(field).unwrap_or_default() as u64;
        let cell = self.layout.cell(row, field).unwrap_or_default();
        let cell = Cell::parse(kind, cell).map_err(|error| {
            let message = format!("{error}, in the sample table at byte {at}");
            error.reworded(message).named_byte(at).damage(Damage::Cell)
        })?;
        Ok((kind, at, cell))
    }

    fn image(
        &self,
        cell: &ImageCell,
        at: u64,
        (sample, field): (SampleId, usize),
    ) -> Result<StoredBytes, Error> {
        let Size { height, width } = self.checked_size(cell, at)?;
        let row @ ImageRow { mode, ptr, pixel_bytes } = ImageRow::of(cell);
        let sizes = self.image_sizes[field]
            .get_or_init(|| ImageSizes::new(&self.index, self.image_rows(field)));
        let found = sizes.size_of(&self.index, sample.0, row);
        let found = found.ok_or_else(|| no_record(ptr))?;
        if mode == ImageMode::Raw && found != pixel_bytes {
            return Err(fail!(
                Damaged,
                "a raw image of {width} x {height} pixels has {found} bytes at byte {ptr}, expected {pixel_bytes}"
            )
            .named_byte(ptr)
            .damage(Damage::OtherSize));
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

    pub(super) fn checked_size(&self, cell: &ImageCell, at: u64) -> Result<Size, Error> {
        let size = Size::new(u32::from(cell.height), u32::from(cell.width));
        let (Size { height, width }, limit) = (size, self.limits.max_pixels);
        match size.pixels() {
            0 => Err(fail!(
                Damaged,
                "an image of {width} x {height} pixels, in the sample table at byte {at}"
            )
            .named_byte(at)
            .damage(Damage::Cell)),
            pixels if pixels > limit => Err(fail!(
                Memory,
                "an image of {width} x {height} pixels, the limit is {limit} pixels"
            )
            .damage(Damage::OverLimit)),
            _ => Ok(size),
        }
    }

    /// Returns the size of the value at a pointer, which is in the allocation table.
    pub(super) fn stored_size(&self, ptr: u64) -> Result<u64, Error> {
        self.index.size_at(ptr).ok_or_else(|| no_record(ptr))
    }

    /// Returns the `size` bytes at `ptr` as a stored value, if they are between the two tables.
    pub(super) fn data(&self, ptr: u64, size: u64, kind: StoredKind) -> Result<StoredBytes, Error> {
        let limit = self.limits.max_sample_bytes;
        if size == 0 {
            // FFCV may store any pointer for a value of no bytes.
            return Ok(StoredBytes { ptr: 0, size: 0, kind });
        }
        if size > limit {
            return Err(too_long(size, limit));
        }
        let Range { start, end } = self.data_range();
        let inside = ptr >= start && ptr.checked_add(size).is_some_and(|last| last <= end);
        if inside {
            Ok(StoredBytes { ptr, size, kind })
        } else {
            Err(fail!(
                Damaged,
                "{size} bytes at byte {ptr} lie outside the data, bytes {start} to {end}"
            )
            .named_byte(ptr)
            .damage(Damage::Pointer))
        }
    }

    /// Returns the range from the sample table's end to the allocation table. FFCV writes zeros up to
    /// the first page; another writer may use that space.
    pub(super) fn data_range(&self) -> Range<u64> {
        let end = self.header.alloc_table_ptr;
        self.header.sample_table_end(self.layout.size()).unwrap_or(end)..end
    }
}

/// Returns the error of a pointer at which no value begins, so that the number of its bytes is not known.
fn no_record(ptr: u64) -> Error {
    fail!(Damaged, "no record of the allocation table begins at byte {ptr}")
        .named_byte(ptr)
        .damage(Damage::Pointer)
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
pub(super) enum StoredKind {
    Image { mode: ImageMode, width: u32, height: u32 },
    Bytes,
    NdArray,
    Json,
}

impl StoredBytes {
    /// Returns the extent of an image.
    pub(super) fn extent(&self) -> Option<ImageExtent> {
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

/// Returns `len` bytes from `start` on; `None` if there are fewer.
pub(super) fn slice(bytes: &[u8], start: u64, len: u64) -> Option<&[u8]> {
    let start = usize::try_from(start).ok()?;
    bytes.get(start..)?.get(..usize::try_from(len).ok()?)
}
