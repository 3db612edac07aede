//! The `.beton` file as a whole: rows, pages and tables, put together one sample at a time.
//!
//! The pages come after the sample table, so its length must be known before the first value
//! is written. Room is left for the samples announced. If more come, the pages are moved at
//! the end; if fewer come, up to a few zero pages lie before the first used one, which every
//! reader steps over, since pointers are absolute.

use super::pages::{Pages, move_up};
use super::value::{Stored, room};
use crate::source::FieldSpec;
use crate::source::beton::{
    Allocation, Cell, FieldError, Header, ImageCell, LayoutError, RowLayout,
};
use std::collections::HashMap;
use std::io::{self, Read, Seek, SeekFrom, Write};

/// What every file of these fields has in common.
#[derive(Debug)]
pub(super) struct Schema<'a> {
    fields: &'a [FieldSpec],
    descriptors: Vec<u8>,
    layout: RowLayout,
    page_size: u32,
}

/// Why fields make no file.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum SchemaError {
    /// None, or more than the header can count.
    #[error("{found} fields, expected 1 to 65535")]
    Count {
        /// How many.
        found: usize,
    },
    /// A name or a shape that the format can't hold.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// A field without a name.
    #[error("field {place} has no name")]
    NoName {
        /// Its place, from 0.
        place: usize,
    },
    /// An array without dimensions, which FFCV can't read back.
    #[error("field {name:?} has no dimensions: give a single element the shape [1]")]
    NoDimensions {
        /// Its name.
        name: String,
    },
    /// A user-defined field without bytes in the row.
    #[error("field {name:?}: a user-defined row of 0 bytes")]
    EmptyCustom {
        /// Its name.
        name: String,
    },
    /// A row too long for the machine.
    #[error(transparent)]
    Layout(#[from] LayoutError),
}

impl<'a> Schema<'a> {
    /// Checks the fields.
    ///
    /// # Errors
    ///
    /// See [`SchemaError`].
    pub(super) fn new(fields: &'a [FieldSpec], page_size: u32) -> Result<Self, SchemaError> {
        if fields.is_empty() || u16::try_from(fields.len()).is_err() {
            return Err(SchemaError::Count { found: fields.len() });
        }
        let mut descriptors = Vec::new();
        let mut places = HashMap::new();
        for (place, field) in fields.iter().enumerate() {
            check_field(field, place)?;
            if let Some(first) = places.insert(&field.name, place) {
                let name = field.name.clone();
                return Err(FieldError::NameCollision { name, first, second: place }.into());
            }
            descriptors.extend_from_slice(&field.to_bytes()?);
        }
        let layout = RowLayout::new(fields.iter().map(|field| &field.kind))?;
        Ok(Self { fields, descriptors, layout, page_size })
    }

    fn header(&self, num_samples: u64, alloc_table_ptr: u64) -> Header {
        // `new` has checked that the count fits.
        let num_fields = self.fields.len() as u16;
        Header { num_fields, page_size: self.page_size, num_samples, alloc_table_ptr }
    }

    /// Where the pages begin if there are so many samples.
    fn data_start(&self, num_samples: u64) -> io::Result<u64> {
        let start = self.header(num_samples, 0).data_start(self.layout.size());
        start.ok_or_else(|| io::Error::other("the sample table is over 2^64 bytes long"))
    }
}

/// What a descriptor can say and FFCV can't read.
fn check_field(field: &FieldSpec, place: usize) -> Result<(), SchemaError> {
    use crate::source::FieldKind::{Custom, NdArray, TorchTensor};
    let FieldSpec { name, kind } = field;
    if name.is_empty() {
        return Err(SchemaError::NoName { place });
    }
    match kind {
        NdArray { shape, .. } | TorchTensor { shape, .. } if shape.is_empty() => {
            Err(SchemaError::NoDimensions { name: name.clone() })
        }
        Custom { row_size: 0, .. } => Err(SchemaError::EmptyCustom { name: name.clone() }),
        _ => Ok(()),
    }
}

/// A file being put together.
pub(super) struct Builder<'a, F: Write> {
    schema: &'a Schema<'a>,
    pages: Pages<F>,
    samples: u64,
    rows: Vec<u8>,
    allocations: Vec<Allocation>,
}

/// Sizes of a finished file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Finished {
    pub(super) samples: u64,
    pub(super) pages: u64,
    pub(super) bytes: u64,
}

impl<'a, F: Read + Write + Seek> Builder<'a, F> {
    /// An empty file with room for the rows of `announced` samples.
    pub(super) fn new(schema: &'a Schema<'a>, file: F, announced: u64) -> io::Result<Self> {
        let pages = Pages::new(file, schema.page_size, schema.data_start(announced)?)?;
        Ok(Self { schema, pages, samples: 0, rows: Vec::new(), allocations: Vec::new() })
    }

    /// Puts the next sample. Its [`room`] is at most a page.
    pub(super) fn push(&mut self, sample: &[Stored]) -> io::Result<()> {
        self.pages.begin_sample(room(sample))?;
        let row_start = self.rows.len();
        self.rows.resize(row_start + self.schema.layout.size(), 0);
        for (field, stored) in sample.iter().enumerate() {
            let (ptr, size) = self.put_value(stored)?;
            let row = &mut self.rows[row_start..];
            if let Some(place) = self.schema.layout.cell_mut(row, field) {
                cell(stored, ptr, size).put(place);
            }
        }
        self.samples += 1;
        Ok(())
    }

    /// Puts what goes into the pages. Returns its place and size, 0 if nothing does.
    fn put_value(&mut self, stored: &Stored) -> io::Result<(u64, u64)> {
        let Some(bytes) = stored.in_pages() else { return Ok((0, 0)) };
        let ptr = self.pages.put(bytes)?;
        let size = bytes.len() as u64;
        self.allocations.push(Allocation { sample: self.samples, ptr, size });
        Ok((ptr, size))
    }

    /// Writes the tables.
    pub(super) fn finish(mut self) -> io::Result<Finished> {
        let mut start = self.pages.start();
        let (mut file, mut end) = self.pages.finish()?;
        let needed = self.schema.data_start(self.samples)?;
        let used = end > start;
        if used && needed > start {
            move_up(&mut file, start, end, needed)?;
            let by = needed - start;
            shift(self.schema, &mut self.rows, &mut self.allocations, by);
            (start, end) = (needed, end + by);
        }
        let tables_end = Header::SIZE + self.schema.descriptors.len() + self.rows.len();
        let alloc_table_ptr = if used { end } else { tables_end as u64 };

        let mut out = io::BufWriter::new(file);
        out.seek(SeekFrom::Start(0))?;
        out.write_all(&self.schema.header(self.samples, alloc_table_ptr).to_bytes())?;
        out.write_all(&self.schema.descriptors)?;
        out.write_all(&self.rows)?;
        if used {
            // What pages that were moved have left behind.
            io::copy(&mut io::repeat(0).take(start - tables_end as u64), &mut out)?;
        }
        out.seek(SeekFrom::Start(alloc_table_ptr))?;
        for record in &self.allocations {
            out.write_all(&record.to_bytes())?;
        }
        out.flush()?;
        Ok(Finished {
            samples: self.samples,
            pages: (end - start) / u64::from(self.schema.page_size),
            bytes: alloc_table_ptr + (self.allocations.len() * Allocation::SIZE) as u64,
        })
    }
}

/// What the sample table holds of a value that lies at `ptr`.
fn cell(stored: &Stored, ptr: u64, size: u64) -> Cell<'_> {
    match stored {
        Stored::Float(value) => Cell::Float(*value),
        Stored::Int(value) => Cell::Int(*value),
        Stored::Image(image) => Cell::Image(ImageCell {
            mode: image.mode,
            width: image.width,
            height: image.height,
            ptr,
        }),
        Stored::Bytes(_) => Cell::Bytes { ptr, size },
        Stored::Array(_) => Cell::Array { ptr },
        Stored::Custom(bytes) => Cell::Custom(bytes),
    }
}

/// Adds `by` to all pointers.
fn shift(schema: &Schema<'_>, rows: &mut [u8], allocations: &mut [Allocation], by: u64) {
    for record in allocations {
        record.ptr += by;
    }
    for row in rows.chunks_exact_mut(schema.layout.size()) {
        for (field, spec) in schema.fields.iter().enumerate() {
            let Some(place) = schema.layout.cell_mut(row, field) else { continue };
            let moved = match Cell::parse(&spec.kind, place) {
                Ok(Cell::Image(image)) => Cell::Image(ImageCell { ptr: image.ptr + by, ..image }),
                Ok(Cell::Bytes { ptr, size }) => Cell::Bytes { ptr: ptr + by, size },
                Ok(Cell::Array { ptr }) => Cell::Array { ptr: ptr + by },
                _ => continue,
            };
            moved.put(place);
        }
    }
}
