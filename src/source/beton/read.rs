//! The reader: looks up the values of an open file. The sample table is in memory; values are read on request.

use super::open::allocation_table;
use super::sample_table::{SampleTable, StoredKind, ValueLocation, slice};
use super::{Allocation, Cell, Header};
use crate::error::{AtPath as _, Error, fail};
use crate::sample::SampleId;
use crate::source::fetch_ahead::fetch_ahead;
use crate::source::file::FileBytes;
use crate::source::{
    BoxError, Buffer, Facts, FieldKind, FieldSpec, Fingerprint, ImageExtent, ImageStats, Location,
    ObjectFields, OwnedValue, Record, SampleLocation, Source, StoredValues, Value, classes,
};
use fuseloop_ops::Size;
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
    pub(super) location: Option<Location>,
    pub(super) bytes: FileBytes,
    pub(super) table: Arc<SampleTable>,
    pub(super) facts: OnceLock<Facts>,
}

impl Beton {
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
    #[doc(hidden)]
    pub fn samples(&self) -> impl Iterator<Item = SampleId> + use<> {
        self.table.samples()
    }

    /// Returns the fields, in the file's order.
    pub(crate) fn fields(&self) -> &[FieldSpec] {
        &self.table.fields
    }

    /// Returns the header, as it is stored in the file.
    #[doc(hidden)]
    pub fn header(&self) -> &Header {
        &self.table.header
    }

    /// Returns the size of the file in bytes.
    #[doc(hidden)]
    pub fn file_bytes(&self) -> u64 {
        self.bytes.len()
    }

    /// Returns the size of a row of the sample table in bytes.
    #[doc(hidden)]
    pub fn row_bytes(&self) -> usize {
        self.table.layout.size()
    }

    /// Returns the number of values that are stored in pages: the records of the allocation table.
    #[doc(hidden)]
    pub fn stored_values(&self) -> u64 {
        self.bytes.len().saturating_sub(self.table.header.alloc_table_ptr) / Allocation::SIZE as u64
    }

    /// Reads the records of the allocation table, in the file's order.
    ///
    /// # Errors
    ///
    /// Fails if the table can't be read.
    #[doc(hidden)]
    pub fn allocations(&self) -> Result<Vec<Allocation>, Error> {
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
    /// If the sample or the field does not exist, the value is damaged, over a limit or can't be read. Never panics, whatever
    /// the file holds.
    pub(crate) fn value<'a>(
        &'a self,
        sample: SampleId,
        field: usize,
        buffer: &'a mut Buffer,
    ) -> Result<Value<'a>, Error> {
        let value = self.table.located(sample, field).and_then(|located| match located {
            ValueLocation::InRow(value) => Ok(value),
            ValueLocation::InPages(stored) => {
                let (extent, Buffer { bytes, check, .. }) = ((stored.ptr, stored.size), buffer);
                Ok(stored.value(self.bytes.get_with(extent, bytes, check.as_mut())?))
            }
        });
        value.map_err(|error| self.of_value(error, sample, field))
    }

    /// Returns the value of a field of a sample, owned.
    ///
    /// # Errors
    ///
    /// Fails as [`value`](Self::value) does.
    #[doc(hidden)]
    pub fn owned(&self, sample: SampleId, field: usize) -> Result<OwnedValue, Error> {
        self.value(sample, field, &mut Buffer::default()).map(OwnedValue::from)
    }

    /// Adds the file, if it has a path, the sample and the field to the error of a value.
    pub(super) fn of_value(&self, error: Error, sample: SampleId, field: usize) -> Error {
        let error = match self.table.fields.get(field) {
            Some(spec) => error.of_value(sample, &spec.name),
            None => error.of_value(sample, &format!("#{field}")),
        };
        match &self.location {
            Some(location) => error.at(named(location)),
            None => error,
        }
    }

    /// Returns the height and width of an image, from its row alone: the image itself is not read.
    ///
    /// # Errors
    ///
    /// Fails as [`value`](Self::value) does for the row, or if the field is not an image.
    #[doc(hidden)]
    pub fn image_size(&self, sample: SampleId, field: usize) -> Result<Size, Error> {
        let size = || {
            let (kind, at, cell) = self.table.cell(sample, field)?;
            match cell {
                Cell::Image(cell) => self.table.checked_size(&cell, at),
                _ => Err(no_image(kind)),
            }
        };
        size().map_err(|error| self.of_value(error, sample, field))
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
    #[doc(hidden)]
    pub fn bytes_at<'a>(&'a self, ptr: u64, buffer: &'a mut Buffer) -> Result<&'a [u8], Error> {
        let stored = self.table.data(ptr, self.table.stored_size(ptr)?, StoredKind::Bytes)?;
        self.bytes.get(stored.ptr, stored.size, &mut buffer.bytes)
    }
}

impl Source for Beton {
    fn facts(&self) -> &Facts {
        self.facts.get_or_init(|| self.found_facts())
    }

    fn read(&self, sample: SampleId) -> Result<Record, BoxError> {
        let fields = 0..self.table.fields.len();
        fields.map(|field| Ok(self.owned(sample, field)?)).collect()
    }

    fn value<'a>(
        &'a self,
        sample: SampleId,
        field: usize,
        buffer: &'a mut Buffer,
    ) -> Result<Value<'a>, BoxError> {
        Ok(self.value(sample, field, buffer)?)
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
        Ok(self.bytes.hold().at(self.shown())?)
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
        let read = self.table.located(sample, field).and_then(|located| match located {
            ValueLocation::InPages(stored) => {
                self.bytes.read_part((stored.ptr, stored.size), to, buffer.check.as_mut())
            }
            ValueLocation::InRow(_) => Err(no_image(&self.table.fields[field].kind)),
        });
        Ok(read.map_err(|error| self.of_value(error, sample, field))?)
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

fn no_image(found: &FieldKind) -> Error {
    fail!(Field, "the field is {}, not an image", found.word())
}

/// Returns the path of a file, or its address without a query, which may hold a signature.
pub(super) fn named(location: &Location) -> PathBuf {
    match location {
        Location::Path(path) => path.clone(),
        Location::Url(_) => location.to_string().into(),
    }
}
