//! Opening a file: its header, its field descriptors and the positions of its tables are checked. The allocation table is
//! sorted only if a field needs it and it is not in order.

use super::field::parse_fields;
use super::index::SizeIndex;
use super::sample_table::SampleTable;
use super::{
    Allocation, Beton, CustomRow, CustomRows, Header, INCOMPLETE, RowLayout, header, read::named,
};
use crate::error::{AtPath as _, Error, fail};
use crate::sample::Limits;
use crate::source::file::{FileBytes, ReadAt};
use crate::source::shards::Shard;
use crate::source::{FieldKind, FieldSpec, Location};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};

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
    pub fn open(path: impl AsRef<Path>, options: &OpenOptions) -> Result<Self, Error> {
        let head = opened(path.as_ref()).and_then(|bytes| {
            let header = read_header(&bytes)?;
            let fields = read_fields(&bytes, &header, &options.custom_fields)?;
            Ok(Self { header, fields, file_bytes: bytes.len() })
        });
        head.at(path)
    }

    /// Returns the number of values that are stored in pages: the records of the allocation table.
    #[doc(hidden)]
    #[must_use]
    pub fn stored_values(&self) -> u64 {
        self.file_bytes.saturating_sub(self.header.alloc_table_ptr) / Allocation::SIZE as u64
    }
}

fn opened(path: &Path) -> Result<FileBytes, Error> {
    FileBytes::open(path).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidInput => {
            Error::from(error).help("`fuseloop write FOLDER OUT.beton` converts a folder of JPEGs")
        }
        _ => error.into(),
    })
}

fn read_header(bytes: &FileBytes) -> Result<Header, Error> {
    let head = bytes.copy(0, bytes.len().min(Header::SIZE as u64))?;
    Header::parse(&head, bytes.len()).map_err(|error| error.help(IS_IT_BETON))
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
        let path = path.as_ref();
        let beton = opened(path).and_then(|bytes| Self::new(bytes, options)).at(path)?;
        Ok(Self { location: Some(Location::Path(path.to_owned())), ..beton })
    }

    /// Opens one of several files of a dataset.
    pub(in crate::source) fn of_shard(shard: &Shard, options: &OpenOptions) -> Result<Self, Error> {
        let opened = || {
            let bytes = match shard.bytes.reader() {
                Some(reader) => FileBytes::from_reader(Arc::clone(reader))?,
                None => FileBytes::InMemory(shard.bytes.copy(0, shard.bytes.len())?.into()),
            };
            Self::new(bytes, options)
        };
        let beton = opened().at(named(&shard.location))?;
        Ok(Self { location: Some(shard.location.clone()), ..beton })
    }

    /// Opens a file that is held in memory.
    ///
    /// # Errors
    ///
    /// Fails as [`open`](Self::open) does.
    #[doc(hidden)]
    pub fn from_bytes(bytes: impl Into<Arc<[u8]>>, options: &OpenOptions) -> Result<Self, Error> {
        Self::new(FileBytes::InMemory(bytes.into()), options)
    }

    /// Opens a file that is not read by the system but by a reader: of a store, an archive, a test.
    ///
    /// # Errors
    ///
    /// Fails as [`open`](Self::open) does.
    pub fn from_reader(reader: impl ReadAt, options: &OpenOptions) -> Result<Self, Error> {
        Self::new(FileBytes::from_reader(Arc::new(reader))?, options)
    }

    fn new(bytes: FileBytes, options: &OpenOptions) -> Result<Self, Error> {
        let header = read_header(&bytes)?;
        let fields = read_fields(&bytes, &header, &options.custom_fields)?.into_iter();
        let fields = fields.map(FieldSpec::known).collect::<Result<Vec<_>, _>>()?;
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
        let table = SampleTable::new((header, fields), (layout, rows), index, options.limits);
        Ok(Self { location: None, bytes, table: Arc::new(table), facts: OnceLock::new() })
    }
}

/// The advice for a file whose header or fields are wrong.
pub(crate) const IS_IT_BETON: &str =
    "is it a .beton file? `fuseloop write FOLDER OUT.beton` writes one";

/// Returns whether only the allocation table has the size of a value of this kind.
fn sized_by_table(kind: &FieldKind) -> bool {
    kind.is_image() || matches!(kind, FieldKind::Custom { .. })
}

fn read_fields(
    bytes: &FileBytes,
    header: &Header,
    custom: &CustomRows,
) -> Result<Vec<(String, Option<FieldKind>)>, Error> {
    let start = Header::SIZE as u64;
    let size = header.sample_table_start() - start;
    if start + size > bytes.len() {
        return Err(header::truncated().help(IS_IT_BETON));
    }
    let fields = parse_fields(&bytes.copy(start, size)?, start, custom);
    fields.map_err(|error| error.help(IS_IT_BETON))
}

/// Checks that the sample table ends before the allocation table begins, that the allocation table is
/// whole, and that the tables are not too large. The allocation table counts only if `indexed`.
fn check_tables(
    header: &Header,
    layout: &RowLayout,
    file_len: u64,
    indexed: bool,
    limits: &Limits,
) -> Result<(), Error> {
    let (samples, row_size) = (header.num_samples, layout.size());
    let end = header.alloc_table_ptr;
    let start = header.sample_table_start();
    let Some(table_end) = header.sample_table_end(row_size).filter(|&last| last <= end) else {
        return Err(fail!(
            Format,
            "a sample table of {samples} rows of {row_size} bytes at byte {start} does not fit before the allocation table at byte {end}"
        )
        .named_byte(start)
        .help(INCOMPLETE));
    };
    let limit = limits.max_samples;
    if samples > limit {
        return Err(fail!(Memory, "{samples} samples at byte 8, the limit is {limit}"));
    }
    let found = file_len.saturating_sub(end);
    if !found.is_multiple_of(Allocation::SIZE as u64) {
        return Err(fail!(
            Format,
            "the allocation table at byte {end} has {found} bytes to the end of the file, expected a multiple of 24"
        )
        .named_byte(end)
        .help(INCOMPLETE));
    }
    let (found, limit) = (table_end + if indexed { found } else { 0 }, limits.max_table_bytes);
    if found > limit {
        return Err(fail!(Memory, "tables of {found} bytes, the limit is {limit}"));
    }
    Ok(())
}

/// Reads the allocation table: from `alloc_table_ptr` to the end of the file.
pub(super) fn allocation_table(bytes: &FileBytes, header: &Header) -> Result<Vec<u8>, Error> {
    let start = header.alloc_table_ptr;
    bytes.copy(start, bytes.len().saturating_sub(start))
}
