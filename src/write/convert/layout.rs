//! A sample in a shard: what is made of it on any thread, and how that lies in the file.

use super::{Form, Pictures};
use crate::sample::SampleId;
use crate::source::{BoxError, FieldKind, FieldSpec, Record, Source};
use crate::write::Reencoded;
use crate::write::shards::{
    ColumnError, Columns, END, Member, check_fields, encode_record, extension, file_bytes, frame,
    member_header, padding, safe_key,
};
use crate::write::value::SampleError;
use std::collections::HashSet;

/// How samples lie in shards.
pub(super) enum Layout {
    Tar(Columns),
    TfRecord,
}

/// A sample, ready to be written.
pub(super) struct Made {
    key: String,
    members: Vec<Member>,
    pub(super) reencoded: Vec<Reencoded>,
}

/// Pieces of a sample in the order in which they are written.
pub(super) struct Laid<'a> {
    /// Under which key; empty where samples have none.
    pub(super) key: String,
    pub(super) pieces: Vec<(Vec<u8>, &'a [u8], &'static [u8])>,
}

impl Laid<'_> {
    pub(super) fn size(&self) -> u64 {
        self.pieces.iter().map(|(a, b, c)| (a.len() + b.len() + c.len()) as u64).sum()
    }
}

impl Made {
    /// Bytes of memory it holds.
    pub(super) fn held(&self) -> usize {
        self.members.iter().map(|member| member.bytes.len()).sum()
    }
}

impl Layout {
    pub(super) fn new(form: Form, fields: &[FieldSpec]) -> Result<Self, ColumnError> {
        if form == Form::Tar {
            return Columns::new(fields).map(Self::Tar);
        }
        check_fields(fields).map(|()| Self::TfRecord)
    }

    /// Reads a sample and encodes it.
    pub(super) fn make(
        &self,
        source: &dyn Source,
        fields: &[FieldSpec],
        pictures: &Pictures<'_>,
        id: SampleId,
    ) -> Result<Made, SampleError> {
        match self {
            Self::Tar(columns) => {
                let (key, mut record) = read_keyed(source, id)?;
                let reencoded = pictures.to_files(&mut record, fields, id)?;
                let members = members(record, fields, columns)?;
                Ok(Made { key: safe_key(key.as_deref(), id), members, reencoded })
            }
            Self::TfRecord => {
                let mut record = read(source, id)?;
                let reencoded = pictures.to_files(&mut record, fields, id)?;
                let example = encode_record(record, fields)?;
                let record = Member { extension: String::new(), bytes: frame(&example) };
                Ok(Made { key: String::new(), members: vec![record], reencoded })
            }
        }
    }

    /// How a sample lies in a shard that has samples of the keys `taken`.
    pub(super) fn lay<'a>(
        &self,
        made: &'a Made,
        id: SampleId,
        taken: &HashSet<String>,
    ) -> Laid<'a> {
        let Self::Tar(_) = self else {
            let pieces = made.members.iter().map(|record| (vec![], &*record.bytes, &[][..]));
            return Laid { key: String::new(), pieces: pieces.collect() };
        };
        let key = unique(&made.key, id, taken);
        let pieces = made.members.iter().map(|Member { extension, bytes }| {
            let size = bytes.len() as u64;
            (member_header(&format!("{key}.{extension}"), size), &**bytes, padding(size))
        });
        let pieces = pieces.collect();
        Laid { key, pieces }
    }

    /// What ends a shard.
    pub(super) fn end(&self) -> &'static [u8] {
        match self {
            Self::Tar(_) => &END,
            Self::TfRecord => &[],
        }
    }
}

/// A sample's record.
pub(super) fn read(source: &dyn Source, id: SampleId) -> Result<Record, SampleError> {
    let read = |error: BoxError| SampleError::Source(error);
    let record = source.read(id).map_err(read)?;
    let expected = source.fields().len();
    if record.len() != expected {
        return Err(SampleError::Count { found: record.len(), expected });
    }
    Ok(record)
}

/// With what it is called: asked for first, as what is read in sequence is let go when it is read.
pub(super) fn read_keyed(
    source: &dyn Source,
    id: SampleId,
) -> Result<(Option<String>, Record), SampleError> {
    let key = source.locate(id, 0).and_then(|location| location.key);
    Ok((key.map(|key| key.to_string()), read(source, id)?))
}

fn members(
    record: Record,
    fields: &[FieldSpec],
    columns: &Columns,
) -> Result<Vec<Member>, SampleError> {
    let values = record.into_iter().zip(fields).zip(&columns.0);
    let member = |((value, field), name): ((_, _), &String)| {
        let bytes = file_bytes(value, field)?;
        let is_picture = field.kind == FieldKind::RgbImage;
        let ending = if is_picture { extension(&bytes) } else { "" };
        Ok(Member { extension: format!("{name}{ending}"), bytes })
    };
    values.map(member).collect()
}

/// A key that no other sample of the shard has.
fn unique(key: &str, id: SampleId, taken: &HashSet<String>) -> String {
    let mut key = key.to_owned();
    while taken.contains(&key) {
        key.push_str(&format!("-{id}"));
    }
    key
}
