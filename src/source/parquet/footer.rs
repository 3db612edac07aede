//! The footer of a Parquet file: its schema, its features, and where the chunks of its columns lie.
//!
//! ```text
//! "PAR1"  row groups ...  metadata (Thrift)  [u32 its length]  "PAR1"
//! ```

use super::pages::{Chunk, Codec};
use super::schema::{Column, Plan};
use super::thrift;
use crate::error::{Error, fail};
use crate::panicked::call_decoder;
use crate::sample::Limits;
use crate::source::shards::Shard;
use crate::source::starts::Starts;
use crate::source::{OBJECTS_KEY, ObjectFields};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, ParquetMetaDataReader};
use parquet::schema::types::SchemaDescPtr;
use serde_json::Value as Json;
use std::sync::{Arc, OnceLock};

const MAGIC: &[u8; 4] = b"PAR1";

/// The magic of files whose footer is encrypted.
const ENCRYPTED: &[u8; 4] = b"PARE";

/// The number of bytes that are read first, from the end.
const TAIL: u64 = 64 << 10;

/// The key of the metadata of `datasets`.
pub(crate) const FEATURES: &str = "huggingface";

/// The metadata of an open file.
pub(super) struct Footer {
    metadata: ParquetMetaData,
    /// The JSON text of the features.
    pub(super) features: Option<String>,
    /// The JSON text of what the fields of objects are, which `convert` writes.
    pub(super) objects: Option<String>,
    /// A checksum of the metadata.
    pub(super) checksum: u32,
}

/// A file whose fields are known.
pub(super) struct File {
    pub(super) shard: Shard,
    pub(super) plan: Arc<Plan>,
    pub(super) schema: SchemaDescPtr,
    /// The rows of the row groups.
    pub(super) groups: Starts,
    /// The chunks of the leaves of all fields, row group by row group.
    chunks: Vec<Chunk>,
    /// The index of the first leaf of each field among those of a row group, and their number.
    first_leaves: Vec<usize>,
    leaves: usize,
}

impl Footer {
    /// Reads the footer.
    ///
    /// # Errors
    ///
    /// Fails if the file is no Parquet file, is not complete, or is damaged.
    pub(super) fn read(shard: &Shard, limits: &Limits) -> Result<Self, Error> {
        Self::parse(shard, limits).map_err(|error| error.at(&shard.location))
    }

    fn parse(shard: &Shard, limits: &Limits) -> Result<Self, Error> {
        let len = shard.bytes.len();
        let start = len.saturating_sub(TAIL);
        let mut tail = shard.bytes.copy(start, len - start)?;
        let (rest, magic) = tail.split_last_chunk::<4>().unwrap_or((&[], &[0; 4]));
        if magic == ENCRYPTED {
            return Err(fail!(Unsupported, "the footer is encrypted: decrypt the file first"));
        }
        let size = match rest.split_last_chunk::<4>() {
            Some((_, size)) if magic == MAGIC && len >= 12 => u64::from(u32::from_le_bytes(*size)),
            _ => {
                return Err(fail!(
                    Format,
                    "no Parquet file, or one that was not finished: its last bytes are not `PAR1`"
                ));
            }
        };
        if size > len - 12 || size > limits.max_table_bytes {
            let most = (len - 12).min(limits.max_table_bytes);
            return Err(fail!(Format, "metadata of {size} bytes, at most {most} are possible"));
        }
        let from = len - 8 - size;
        if from < start {
            tail = shard.bytes.copy(from, size)?;
        } else {
            tail.drain(..(from - start) as usize);
            tail.truncate(size as usize);
        }
        let damaged = |reason: String| fail!(Format, "damaged metadata: {reason}").byte(from);
        if !thrift::has_sound_schema(&tail) {
            return Err(damaged("the schema".to_owned()));
        }
        let metadata = call_decoder("parquet", || ParquetMetaDataReader::decode_metadata(&tail));
        let metadata = metadata.map_err(damaged)?;
        let pairs = metadata.file_metadata().key_value_metadata().into_iter().flatten();
        let text = |key: &str| {
            pairs.clone().filter(|pair| pair.key == key).find_map(|pair| pair.value.clone())
        };
        let (features, objects) = (text(FEATURES), text(OBJECTS_KEY));
        Ok(Self { features, objects, checksum: crc32c::crc32c(&tail), metadata })
    }

    /// Returns the schema.
    pub(super) fn schema(&self) -> SchemaDescPtr {
        self.metadata.file_metadata().schema_descr_ptr()
    }

    /// Returns the fields that the schema and the features describe.
    pub(super) fn plan(&self) -> Plan {
        let features = self.features.as_deref();
        let features = features.and_then(|text| serde_json::from_str::<Json>(text).ok());
        let features = features.as_ref().and_then(|all| all.get("info")?.get("features"));
        // Objects of a later version are no objects.
        let objects = self.objects.as_ref();
        let objects = objects.and_then(|text| ObjectFields::parse(text.as_bytes()).ok());
        Plan::new(&self.schema(), features, objects)
    }

    /// Returns the file with the chunks of the fields of a plan.
    ///
    /// # Errors
    ///
    /// Fails if a chunk can't be read: it lies elsewhere, is encrypted, or is compressed by a codec that is not read.
    pub(super) fn file(self, shard: &Shard, plan: &Arc<Plan>) -> Result<File, Error> {
        let mut file = File {
            shard: shard.clone(),
            plan: Arc::clone(plan),
            schema: self.schema(),
            groups: Starts::from_iter([]),
            chunks: vec![],
            first_leaves: vec![],
            leaves: 0,
        };
        for column in &plan.columns {
            file.first_leaves.push(file.leaves);
            file.leaves += column.leaves;
        }
        let mut rows = vec![];
        for (number, group) in self.metadata.row_groups().iter().enumerate() {
            let in_group = u64::try_from(group.num_rows()).ok().filter(|rows| *rows < 1 << 31);
            let damaged =
                |what: &str| fail!(Format, "row group {number}: {what}").at(&shard.location);
            let in_group = in_group.ok_or_else(|| damaged("its number of rows is damaged"))?;
            rows.push(in_group);
            for column in &plan.columns {
                for leaf in column.leaf.index..column.leaf.index + column.leaves {
                    let found = group.columns().get(leaf);
                    let found = found.ok_or_else(|| damaged("a column is missing"))?;
                    let chunk = chunk(found, shard.bytes.len(), in_group)
                        .map_err(|error| error.of_field(&column.name).at(&shard.location))?;
                    file.chunks.push(chunk);
                }
            }
        }
        file.groups = rows.into_iter().collect();
        Ok(file)
    }
}

/// Returns where a chunk lies.
fn chunk(found: &ColumnChunkMetaData, file_len: u64, rows: u64) -> Result<Chunk, Error> {
    let name = found.column_path().string();
    if found.file_path().is_some() {
        return Err(fail!(Unsupported, "column {name} is stored in another file"));
    }
    let codec = Codec::new(found.compression()).map_err(|codec| {
        fail!(
            Unsupported,
            "column {name} is compressed by {codec}, expected snappy, gzip, lz4, zstd or none: write it again, or leave the \
             column out"
        )
    })?;
    // Some writers say 0 for a dictionary that there is not.
    let dictionary = found.dictionary_page_offset().filter(|at| *at > 0);
    let start = dictionary.map_or(found.data_page_offset(), |at| at.min(found.data_page_offset()));
    let place = u64::try_from(start).ok().and_then(|start| {
        let end = start.checked_add(u64::try_from(found.compressed_size()).ok()?)?;
        (end <= file_len).then_some((start, end))
    });
    let (start, end) = place.ok_or_else(|| {
        fail!(Format, "column {name} lies outside of the file, which has {file_len} bytes")
    })?;
    let values = u64::try_from(found.num_values()).unwrap_or(u64::MAX);
    if found.column_descr().max_rep_level() == 0 && values != rows {
        let found = found.num_values();
        return Err(fail!(
            Format,
            "column {name} has {found} values in a row group of {rows} rows"
        ));
    }
    Ok(Chunk { start, end, values, codec, directory: OnceLock::new() })
}

impl File {
    /// Returns the chunks of a field in a row group: one for each of its leaves.
    pub(super) fn chunks(&self, group: usize, field: usize) -> &[Chunk] {
        let first = group * self.leaves + self.first_leaves[field];
        &self.chunks[first..first + self.plan.columns[field].leaves]
    }

    /// Returns the number of row groups.
    pub(super) fn group_count(&self) -> usize {
        self.groups.parts()
    }

    /// Returns a field and the shard's name with an error of it.
    pub(super) fn failed(&self, column: &Column, error: Error) -> Error {
        error.of_field(&column.name).at(&self.shard.location)
    }
}
