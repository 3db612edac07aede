//! Encodes a sample for a shard, on any thread, and lays out its bytes in the file.

use super::{ImageFiles, OutputFormat};
use crate::error::Error;
use crate::sample::SampleId;
use crate::source::{BoxError, FieldSpec, ObjectField, Record, Source, mask_extensions};
use crate::write::beside::Beside;
use crate::write::report::ImageCounts;
use crate::write::shards::{
    Columns, END, ExampleLayout, MOST_MDS_BYTES, MdsLayout, Member, encode_record, extension,
    file_bytes, frame, member_header, padding, rows_file, safe_key,
};
#[cfg(feature = "parquet")]
use crate::write::shards::{ParquetLayout, last_part};
use crate::write::value::WriteSampleError;
use std::collections::HashSet;

/// How samples are laid out in shards.
pub(super) enum ShardLayout {
    Tar(Columns),
    TfRecord(ExampleLayout),
    Mds(MdsLayout),
    #[cfg(feature = "parquet")]
    Parquet(ParquetLayout),
}

/// An encoded sample.
pub(super) struct EncodedSample {
    key: String,
    pub(super) members: Vec<Member>,
    pub(super) images: ImageCounts,
}

/// The pieces of a sample in the order in which they are written.
pub(super) struct SamplePieces<'a> {
    /// The sample's key; empty in formats without keys.
    pub(super) key: String,
    pub(super) pieces: Vec<(Vec<u8>, &'a [u8], &'static [u8])>,
}

impl SamplePieces<'_> {
    pub(super) fn size(&self) -> u64 {
        self.pieces.iter().map(|(a, b, c)| (a.len() + b.len() + c.len()) as u64).sum()
    }
}

impl EncodedSample {
    /// Returns the bytes of memory that the sample uses.
    pub(super) fn held(&self) -> usize {
        self.members.iter().map(|member| member.bytes.len()).sum()
    }
}

impl ShardLayout {
    /// Returns the layout of tar or TFRecord shards.
    pub(super) fn new(
        form: OutputFormat,
        fields: &[FieldSpec],
        beside: &Beside,
    ) -> Result<Self, Error> {
        if form == OutputFormat::Tar {
            return Columns::new(fields, beside.objects.as_ref()).map(Self::Tar);
        }
        ExampleLayout::new(fields, beside).map(Self::TfRecord)
    }

    /// Returns what is written beside the shards: of a tar, with the names of its members. An example
    /// itself says what the fields of objects are, and a Parquet file and the index of MDS shards have all of it.
    pub(super) fn beside(&self, fields: &[FieldSpec], beside: &Beside) -> Beside {
        let objects = match self {
            Self::Tar(columns) => beside.objects.as_ref().and_then(|objects| {
                let members = fields.iter().zip(&columns.names).flat_map(|(field, name)| {
                    let names = match objects.get(&field.name) {
                        Some(ObjectField::Mask) => {
                            mask_extensions().map(|end| format!("{name}{end}")).collect()
                        }
                        _ => vec![name.clone()],
                    };
                    names.into_iter().map(|name| (&*field.name, name))
                });
                let members: Vec<(&str, String)> = members.collect();
                objects.renamed(members.iter().map(|(field, name)| (*field, &**name)))
            }),
            Self::TfRecord(_) => None,
            Self::Mds(_) => return Beside::default(),
            #[cfg(feature = "parquet")]
            Self::Parquet(_) => return Beside::default(),
        };
        Beside { objects, ..beside.clone() }
    }

    /// Reads a sample and encodes it.
    pub(super) fn make(
        &self,
        source: &dyn Source,
        fields: &[FieldSpec],
        pictures: &ImageFiles<'_>,
        id: SampleId,
    ) -> Result<EncodedSample, WriteSampleError> {
        match self {
            Self::Tar(columns) => {
                let (key, mut record) = read_keyed(source, id)?;
                let images = pictures.to_files(&mut record, fields, id)?;
                let members = members(record, fields, columns)?;
                Ok(EncodedSample { key: safe_key(key.as_deref(), id), members, images })
            }
            Self::TfRecord(layout) => {
                let mut record = read(source, id)?;
                let images = pictures.to_files(&mut record, fields, id)?;
                let others = layout.others(&record, fields, |image| pictures.size(image))?;
                let example = encode_record(record, fields, others)?;
                let record = Member { extension: String::new(), bytes: frame(&example) };
                Ok(EncodedSample { key: String::new(), members: vec![record], images })
            }
            Self::Mds(layout) => {
                let mut record = read(source, id)?;
                let images = pictures.to_files(&mut record, fields, id)?;
                let bytes = layout.sample(record, fields)?;
                let sample = Member { extension: String::new(), bytes };
                Ok(EncodedSample { key: String::new(), members: vec![sample], images })
            }
            #[cfg(feature = "parquet")]
            Self::Parquet(layout) => {
                let (key, mut record) = read_keyed(source, id)?;
                let images = pictures.to_files(&mut record, fields, id)?;
                let stem = key.map(|key| last_part(&safe_key(Some(&key), id)).to_owned());
                let members = layout.row(record, fields, stem.as_deref())?;
                Ok(EncodedSample { key: String::new(), members, images })
            }
        }
    }

    /// Lays out a sample for a shard that already has the keys `taken`.
    pub(super) fn lay<'a>(
        &self,
        encoded: &'a EncodedSample,
        id: SampleId,
        taken: &HashSet<String>,
    ) -> SamplePieces<'a> {
        let Self::Tar(_) = self else {
            let pieces = encoded.members.iter().map(|record| (vec![], &*record.bytes, &[][..]));
            return SamplePieces { key: String::new(), pieces: pieces.collect() };
        };
        let key = unique(&encoded.key, id, taken);
        let pieces = encoded.members.iter().map(|Member { extension, bytes }| {
            let size = bytes.len() as u64;
            (member_header(&format!("{key}.{extension}"), size), &**bytes, padding(size))
        });
        let pieces = pieces.collect();
        SamplePieces { key, pieces }
    }

    /// Returns what readers of the shards should know.
    pub(super) fn notes(&self) -> &[String] {
        match self {
            Self::Tar(_) | Self::TfRecord(_) | Self::Mds(_) => &[],
            #[cfg(feature = "parquet")]
            Self::Parquet(layout) => &layout.notes,
        }
    }

    /// Returns the bytes that end a shard.
    pub(super) fn end(&self) -> &'static [u8] {
        match self {
            Self::Tar(_) => &END,
            // Held samples end with what their format needs.
            _ => &[],
        }
    }

    /// Returns the number of bytes that a sample takes among the held samples of a shard.
    pub(super) fn held_bytes(&self, encoded: &EncodedSample) -> u64 {
        let bytes = encoded.held() as u64;
        match self {
            Self::Mds(layout) => layout.bytes_of(bytes),
            _ => bytes,
        }
    }

    /// Returns the most bytes that a shard may have.
    pub(super) fn most_bytes(&self) -> u64 {
        match self {
            Self::Mds(_) => MOST_MDS_BYTES,
            _ => u64::MAX,
        }
    }
}

/// Reads a sample's record.
pub(super) fn read(source: &dyn Source, id: SampleId) -> Result<Record, WriteSampleError> {
    let read = |error: BoxError| WriteSampleError::Source(error);
    let record = source.read(id).map_err(read)?;
    let expected = source.fields().len();
    if record.len() != expected {
        return Err(WriteSampleError::Count { found: record.len(), expected });
    }
    Ok(record)
}

/// Reads a sample's key and its record. The key is read first, because sequential sources release a
/// sample once it is read.
pub(super) fn read_keyed(
    source: &dyn Source,
    id: SampleId,
) -> Result<(Option<String>, Record), WriteSampleError> {
    let key = source.locate(id, 0).and_then(|location| location.key);
    Ok((key.map(|key| key.to_string()), read(source, id)?))
}

fn members(
    record: Record,
    fields: &[FieldSpec],
    columns: &Columns,
) -> Result<Vec<Member>, WriteSampleError> {
    let columns = columns.names.iter().zip(&columns.rows);
    let values = record.into_iter().zip(fields).zip(columns);
    let member = |((value, field), (name, row)): ((_, _), (&String, &Option<_>))| {
        let mut bytes = file_bytes(value, field)?;
        if let Some(row) = row {
            bytes = rows_file(&bytes, row, field)?;
        }
        let is_picture = field.kind.is_image();
        let ending = if is_picture { extension(&bytes) } else { "" };
        Ok(Member { extension: format!("{name}{ending}"), bytes })
    };
    values.map(member).collect()
}

/// Returns a key that no other sample of the shard has.
fn unique(key: &str, id: SampleId, taken: &HashSet<String>) -> String {
    let mut key = key.to_owned();
    while taken.contains(&key) {
        key.push_str(&format!("-{id}"));
    }
    key
}
