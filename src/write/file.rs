//! Builds a `.beton` file of rows, pages and tables, one sample at a time.
//!
//! The pages come after the sample table, so the table's length must be known before the first value is
//! written. Space is reserved for the announced number of samples. If more come, the pages are moved at
//! the end; if fewer come, up to a few zero pages precede the first used one. Every reader skips these,
//! because pointers are absolute. The pages are moved, too, if they have grown for a large sample, because
//! the first begins at a multiple of their size.

use super::pages::{PageWriter, move_up};
use super::value::{StoredValue, room};
use crate::error::{Error, ErrorKind, fail};
use crate::source::FieldSpec;
use crate::source::beton::{
    Allocation, Cell, Header, ImageCell, RowLayout, check_custom, same_name,
};
use std::collections::HashMap;
use std::io::{self, Read, Seek, SeekFrom, Write};

/// The fields of a file, and what follows from them.
#[derive(Debug)]
pub(super) struct Schema<'a> {
    fields: &'a [FieldSpec],
    descriptors: Vec<u8>,
    layout: RowLayout,
    /// The size of the first pages; a sample that takes more makes them grow.
    page_size: u32,
}

impl<'a> Schema<'a> {
    /// Checks the fields.
    ///
    /// # Errors
    ///
    /// If the format can't hold them.
    pub(super) fn new(fields: &'a [FieldSpec], page_size: u32) -> Result<Self, Error> {
        if fields.is_empty() || u16::try_from(fields.len()).is_err() {
            return Err(fail!(Field, "{} fields, expected 1 to 65535", fields.len()));
        }
        let mut descriptors = Vec::new();
        let mut indices = HashMap::new();
        for (index, field) in fields.iter().enumerate() {
            check_field(field, index)?;
            if let Some(first) = indices.insert(&field.name, index) {
                return Err(refused(same_name(&field.name, first, index)));
            }
            descriptors.extend_from_slice(&field.to_bytes()?);
        }
        let layout = RowLayout::new(fields.iter().map(|field| &field.kind)).map_err(refused)?;
        Ok(Self { fields, descriptors, layout, page_size })
    }

    fn header(&self, page_size: u32, num_samples: u64, alloc_table_ptr: u64) -> Header {
        // `new` has checked that the count fits.
        let num_fields = self.fields.len() as u16;
        Header { num_fields, page_size, num_samples, alloc_table_ptr }
    }

    /// Returns the size of a sample's row.
    pub(super) fn row_bytes(&self) -> usize {
        self.layout.size()
    }

    /// Returns the size of the first pages.
    pub(super) fn page_size(&self) -> u32 {
        self.page_size
    }

    /// Returns the offset of the sample table.
    pub(super) fn rows_start(&self) -> u64 {
        (Header::SIZE + self.descriptors.len()) as u64
    }

    /// Returns the offset of the first page for a file of `num_samples` samples.
    fn data_start(&self, page_size: u32, num_samples: u64) -> io::Result<u64> {
        let start = self.header(page_size, num_samples, 0).data_start(self.layout.size());
        start.ok_or_else(|| io::Error::other("the sample table is over 2^64 bytes long"))
    }
}

/// Returns the error of a field that the format can't hold.
fn refused(error: Error) -> Error {
    error.of_kind(ErrorKind::Field)
}

/// Refuses a field that a descriptor can hold but FFCV can't read.
fn check_field(field: &FieldSpec, index: usize) -> Result<(), Error> {
    use crate::source::FieldKind::{Custom, NdArray, TorchTensor};
    let FieldSpec { name, kind } = field;
    if name.is_empty() {
        return Err(fail!(Field, "field {index} has no name"));
    }
    match kind {
        NdArray { shape, .. } | TorchTensor { shape, .. } if shape.is_empty() => Err(fail!(
            Field,
            "field {name:?} has no dimensions: give a single element the shape [1]"
        )),
        Custom { row_size: 0, .. } => {
            Err(fail!(Field, "field {name:?}: a user-defined row of 0 bytes"))
        }
        Custom { row_size, align } => check_custom(name, *row_size, *align).map_err(refused),
        _ => Ok(()),
    }
}

/// A `.beton` file that is being written.
pub(super) struct BetonBuilder<'a, F: Write> {
    schema: &'a Schema<'a>,
    pages: PageWriter<F>,
    samples: u64,
    rows: Vec<u8>,
    allocations: Vec<Allocation>,
    /// The rows, in bytes, and the allocations at the last checkpoint.
    recorded: (usize, usize),
}

/// The samples of an unfinished file up to which it can be truncated and continued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Checkpoint {
    pub(super) samples: u64,
    /// The number of values in pages.
    pub(super) allocations: u64,
    /// The size of a page.
    pub(super) page_size: u32,
    /// The length of the file.
    pub(super) len: u64,
}

/// Sizes of a finished file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileSizes {
    pub(super) samples: u64,
    pub(super) pages: u64,
    pub(super) bytes: u64,
}

impl<'a, F: Read + Write + Seek> BetonBuilder<'a, F> {
    /// Creates an empty file with space for the rows of `announced` samples.
    pub(super) fn new(schema: &'a Schema<'a>, file: F, announced: u64) -> io::Result<Self> {
        let page_size = schema.page_size;
        let pages = PageWriter::new(file, page_size, schema.data_start(page_size, announced)?)?;
        let (rows, allocations) = (Vec::new(), Vec::new());
        Ok(Self { schema, pages, samples: 0, rows, allocations, recorded: (0, 0) })
    }

    /// Continues the file of an interrupted write, which has been truncated to a checkpoint with these rows and
    /// allocations.
    pub(super) fn resume(
        schema: &'a Schema<'a>,
        file: F,
        announced: u64,
        at: Checkpoint,
        (rows, allocations): (Vec<u8>, &[u8]),
    ) -> io::Result<Self> {
        let start = schema.data_start(schema.page_size, announced)?;
        let pages = PageWriter::resume(file, at.page_size, start, at.len.max(start))?;
        let allocations: Vec<_> = Allocation::parse_table(allocations).collect();
        let recorded = (rows.len(), allocations.len());
        Ok(Self { schema, pages, samples: at.samples, rows, allocations, recorded })
    }

    /// Writes the rows since the last checkpoint to their place before the pages. Returns the checkpoint, and the bytes
    /// of these rows and of the allocations since then. The caller stores the allocations, because their table comes
    /// after the pages.
    pub(super) fn checkpoint(&mut self) -> io::Result<(Checkpoint, &[u8], Vec<u8>)> {
        let (row, allocation) = self.recorded;
        self.recorded = (self.rows.len(), self.allocations.len());
        let rows = &self.rows[row..];
        self.pages.put_before(self.schema.rows_start() + row as u64, rows)?;
        let allocations = self.allocations[allocation..].iter().flat_map(Allocation::to_bytes);
        let (page_size, end) = self.pages.position();
        // Without values, the file ends behind the rows.
        let rows_end = self.schema.rows_start() + self.rows.len() as u64;
        let len = if end > self.pages.start() { end } else { rows_end };
        let count = self.allocations.len() as u64;
        let at = Checkpoint { samples: self.samples, allocations: count, page_size, len };
        Ok((at, rows, allocations.collect()))
    }

    /// Returns the number of samples so far.
    pub(super) fn samples(&self) -> u64 {
        self.samples
    }

    /// Returns true if [`finish`](Self::finish) moves the values, after which the file can't be truncated to a checkpoint.
    pub(super) fn moves_values(&self) -> io::Result<bool> {
        let (page_size, end) = self.pages.position();
        let start = self.pages.start();
        Ok(end > start && self.first_page(page_size)? > start)
    }

    /// Returns where the first page of the finished file begins.
    fn first_page(&self, page_size: u32) -> io::Result<u64> {
        let needed = self.schema.data_start(page_size, self.samples)?;
        Ok(needed.max(self.pages.start().next_multiple_of(page_size.into())))
    }

    /// Appends a sample. Pages grow if its [`room`] is more than a page.
    pub(super) fn push(&mut self, sample: &[StoredValue]) -> io::Result<()> {
        self.pages.begin_sample(room(sample))?;
        let row_start = self.rows.len();
        self.rows.resize(row_start + self.schema.layout.size(), 0);
        for (field, stored) in sample.iter().enumerate() {
            let (ptr, size) = self.put_value(stored)?;
            let row = &mut self.rows[row_start..];
            if let Some(bytes) = self.schema.layout.cell_mut(row, field) {
                cell(stored, ptr, size).put(bytes);
            }
        }
        self.samples += 1;
        Ok(())
    }

    /// Writes the part of a value that goes into the pages. Returns its offset and size, both 0 if there
    /// is none.
    fn put_value(&mut self, stored: &StoredValue) -> io::Result<(u64, u64)> {
        let Some(bytes) = stored.in_pages() else { return Ok((0, 0)) };
        let ptr = self.pages.put(bytes)?;
        let size = bytes.len() as u64;
        self.allocations.push(Allocation { sample: self.samples, ptr, size });
        Ok((ptr, size))
    }

    /// Writes the tables.
    pub(super) fn finish(mut self) -> io::Result<FileSizes> {
        let mut start = self.pages.start();
        let needed = self.first_page(self.pages.position().0)?;
        let (mut file, page_size, mut end) = self.pages.finish()?;
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
        out.write_all(&self.schema.header(page_size, self.samples, alloc_table_ptr).to_bytes())?;
        out.write_all(&self.schema.descriptors)?;
        out.write_all(&self.rows)?;
        if used {
            // Zeros overwrite what the moved pages left behind.
            io::copy(&mut io::repeat(0).take(start - tables_end as u64), &mut out)?;
        }
        out.seek(SeekFrom::Start(alloc_table_ptr))?;
        for record in &self.allocations {
            out.write_all(&record.to_bytes())?;
        }
        out.flush()?;
        Ok(FileSizes {
            samples: self.samples,
            pages: (end - start) / u64::from(page_size),
            bytes: alloc_table_ptr + (self.allocations.len() * Allocation::SIZE) as u64,
        })
    }
}

/// Returns the sample table's cell for a value stored at `ptr`.
fn cell(stored: &StoredValue, ptr: u64, size: u64) -> Cell<'_> {
    match stored {
        StoredValue::Float(value) => Cell::Float(*value),
        StoredValue::Int(value) => Cell::Int(*value),
        StoredValue::Image(image) => Cell::Image(ImageCell {
            mode: image.mode,
            width: image.width,
            height: image.height,
            ptr,
        }),
        StoredValue::Bytes(_) => Cell::Bytes { ptr, size },
        StoredValue::Array(_) => Cell::Array { ptr },
        StoredValue::Custom(bytes) => Cell::Custom(bytes),
    }
}

/// Adds `by` to all pointers.
fn shift(schema: &Schema<'_>, rows: &mut [u8], allocations: &mut [Allocation], by: u64) {
    for record in allocations {
        record.ptr += by;
    }
    for row in rows.chunks_exact_mut(schema.layout.size()) {
        for (field, spec) in schema.fields.iter().enumerate() {
            let Some(bytes) = schema.layout.cell_mut(row, field) else { continue };
            let moved = match Cell::parse(&spec.kind, bytes) {
                Ok(Cell::Image(image)) => Cell::Image(ImageCell { ptr: image.ptr + by, ..image }),
                Ok(Cell::Bytes { ptr, size }) => Cell::Bytes { ptr: ptr + by, size },
                Ok(Cell::Array { ptr }) => Cell::Array { ptr: ptr + by },
                _ => continue,
            };
            moved.put(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::FieldKind;
    use std::io::Cursor;

    const PAGE: u32 = 4096;

    /// Bytes and an int: 200 samples take two pages of rows and six of values.
    fn fields() -> [FieldSpec; 2] {
        let field = |name: &str, kind| FieldSpec { name: name.to_owned(), kind };
        [field("b", FieldKind::Bytes), field("i", FieldKind::Int)]
    }

    /// A file in memory that fails after `left` calls, and accepts at most `most` bytes per call.
    struct FailingDisk {
        bytes: Cursor<Vec<u8>>,
        left: usize,
        most: usize,
    }

    impl FailingDisk {
        fn call(&mut self) -> io::Result<()> {
            self.left = self.left.checked_sub(1).ok_or(io::ErrorKind::StorageFull)?;
            // Every third call is interrupted by a signal, and must be repeated.
            if self.left % 3 == 1 && self.most < PAGE as usize {
                return Err(io::ErrorKind::Interrupted.into());
            }
            Ok(())
        }
    }

    impl Read for FailingDisk {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            self.call()?;
            let most = self.most.min(buf.len());
            self.bytes.read(&mut buf[..most])
        }
    }

    impl Write for FailingDisk {
        fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
            self.call()?;
            self.bytes.write(&buf[..self.most.min(buf.len())])
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Seek for FailingDisk {
        fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
            self.bytes.seek(to)
        }
    }

    /// Writes 200 samples to a disk for which `announced` were announced.
    fn build(announced: u64, disk: &mut FailingDisk) -> io::Result<FileSizes> {
        let fields = fields();
        let schema = Schema::new(&fields, PAGE).map_err(io::Error::other)?;
        let mut builder = BetonBuilder::new(&schema, disk, announced)?;
        for sample in 0..200_u8 {
            let bytes = vec![sample; usize::from(sample)];
            builder.push(&[StoredValue::Bytes(bytes), StoredValue::Int(sample.into())])?;
        }
        builder.finish()
    }

    fn disk(left: usize, most: usize) -> FailingDisk {
        FailingDisk { bytes: Cursor::default(), left, most }
    }

    fn whole(announced: u64) -> (FileSizes, Vec<u8>) {
        let mut disk = disk(usize::MAX, usize::MAX);
        let finished = build(announced, &mut disk).unwrap();
        (finished, disk.bytes.into_inner())
    }

    #[test]
    fn more_samples_than_announced_give_the_same_file() {
        let (finished, want) = whole(200);
        assert_eq!((finished.samples, finished.bytes), (200, want.len() as u64));
        for announced in [0, 1, 100, 199] {
            assert!(whole(announced).1 == want, "{announced}");
        }
    }

    #[test]
    fn fewer_samples_than_announced_leave_empty_pages_before_the_first() {
        let (_, want) = whole(200);
        let (finished, got) = whole(700);
        let extra = 3 * PAGE as usize;
        assert_eq!((got.len(), finished.bytes), (want.len() + extra, got.len() as u64));
        let pages = |file: &[u8]| (file.len() - 200 * Allocation::SIZE, finished.pages);
        let (end, count) = pages(&want);
        let start = end - count as usize * PAGE as usize;
        assert!(got[start..start + extra].iter().all(|&byte| byte == 0));
        assert!(got[start + extra..end + extra] == want[start..end]);
    }

    #[test]
    fn a_disk_that_takes_little_at_a_time_gets_the_same_file() {
        for announced in [0, 200] {
            let mut slow = disk(usize::MAX, 7);
            build(announced, &mut slow).unwrap();
            assert!(slow.bytes.into_inner() == whole(announced).1, "{announced}");
        }
    }

    #[test]
    fn a_disk_that_is_full_at_any_call_is_an_error() {
        let mut calls = 0;
        while let Err(error) = build(0, &mut disk(calls, PAGE as usize)) {
            assert_eq!(error.kind(), io::ErrorKind::StorageFull, "{calls}");
            calls += 1;
        }
        assert!(calls > 10, "{calls} calls only");
    }
}
