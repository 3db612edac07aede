//! `index.json`: the shards of an MDS dataset and its columns, as mosaicml-streaming writes them (version 2).
//!
//! ```text
//! {"version": 2, "shards": [{"format": "mds", "version": 2, "samples": 24, "compression": "zstd:3" | null,
//!   "column_names": [..], "column_encodings": [..], "column_sizes": [8, null, ..],
//!   "raw_data": {"basename": "shard.00000.mds",      "bytes": 117893, "hashes": {"sha1": ".."}},
//!   "zip_data": {"basename": "shard.00000.mds.zstd", "bytes": 103146, "hashes": {..}} | null}, ..],
//!   "fuseloop": see known.rs}
//! ```
//!
//! All shards have the columns of the first one. A name of a file is a path below the folder of the index.

use super::encoding::Encoding;
use super::known::Known;
use crate::error::{Error, fail};
use crate::escape::shown;
use crate::source::Escaped;
use serde_json::{Map, Value};
use std::path::{Component, Path};

/// The most columns of a sample.
const MOST_COLUMNS: usize = 1 << 12;

/// The contents of `index.json`.
pub(super) struct Index {
    pub(super) columns: Vec<Column>,
    pub(super) shards: Vec<ListedShard>,
    pub(super) known: Known,
}

/// A column of all samples.
#[derive(Debug, PartialEq)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) encoding: Encoding,
    /// The bytes of every value; `None` for values that have their size in the sample.
    pub(super) size: Option<u32>,
}

/// A shard, as the index lists it.
pub(super) struct ListedShard {
    pub(super) samples: u64,
    pub(super) raw: ListedFile,
    /// The compressed file, and what it is compressed with.
    pub(super) packed: Option<(Packing, ListedFile)>,
}

/// A file, as the index lists it.
#[derive(Clone)]
pub(super) struct ListedFile {
    pub(super) name: String,
    pub(super) bytes: u64,
    /// Its hashes in hexadecimal digits, by the names of their algorithms.
    pub(super) hashes: Vec<(String, String)>,
}

/// How a shard is compressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Packing {
    Gzip,
    Zstd,
    /// A format that is not read.
    Other(String),
}

impl Index {
    /// Parses the text of an index.
    ///
    /// # Errors
    ///
    /// Fails if it is not the JSON of an MDS dataset, or has a column that is not read.
    pub(super) fn parse(text: &[u8]) -> Result<Self, Error> {
        let all: Value = serde_json::from_slice(text)
            .map_err(|error| fail!(Format, "the index is not JSON: {error}"))?;
        version(&all)?;
        let listed = all.get("shards").and_then(Value::as_array);
        let listed = listed.ok_or_else(|| fail!(Format, "the index has no list `shards`"))?;
        let mut columns: Option<Vec<Column>> = None;
        let mut shards = vec![];
        for (number, shard) in listed.iter().enumerate() {
            let of_shard =
                |error: Error| error.context(format_args!("shard {number} of the index"));
            let (own, shard) = parse_shard(shard).map_err(of_shard)?;
            match &columns {
                None => columns = Some(own),
                Some(first) if *first == own => {}
                Some(_) => {
                    return Err(of_shard(fail!(
                        Format,
                        "its columns are not those of shard 0: open the shards as two datasets"
                    )));
                }
            }
            shards.push(shard);
        }
        let columns = columns.ok_or_else(|| fail!(Format, "the index lists no shards"))?;
        Ok(Self { columns, shards, known: Known::parse(&all)? })
    }
}

fn version(of: &Value) -> Result<(), Error> {
    match of.get("version") {
        Some(version) if version.as_u64() == Some(2) => Ok(()),
        Some(version) => Err(fail!(Format, "version {}, expected 2", shown(&version.to_string()))),
        None => Err(fail!(Format, "no `version`, expected 2")),
    }
}

fn parse_shard(shard: &Value) -> Result<(Vec<Column>, ListedShard), Error> {
    version(shard)?;
    let shard = shard.as_object().ok_or_else(|| fail!(Format, "not an object"))?;
    let format = text(shard, "format")?;
    if format != "mds" {
        let format = shown(format);
        let format = Escaped(&format);
        return Err(fail!(
            Unsupported,
            "the format is {format}, expected mds: write the samples again with MDSWriter"
        ));
    }
    let samples = number(shard, "samples")?;
    let raw = file(shard, "raw_data")?
        .ok_or_else(|| fail!(Format, "`raw_data` is missing, expected a file"))?;
    let packed = match file(shard, "zip_data")? {
        None => None,
        Some(file) => Some((packing(text(shard, "compression")?), file)),
    };
    Ok((columns(shard)?, ListedShard { samples, raw, packed }))
}

fn packing(name: &str) -> Packing {
    match name.split(':').next().unwrap_or(name) {
        "gz" => Packing::Gzip,
        "zstd" => Packing::Zstd,
        other => Packing::Other(other.to_owned()),
    }
}

fn columns(shard: &Map<String, Value>) -> Result<Vec<Column>, Error> {
    let [names, encodings, sizes] =
        ["column_names", "column_encodings", "column_sizes"].map(|key| {
            let list = shard.get(key).and_then(Value::as_array);
            list.ok_or_else(|| fail!(Format, "no list `{key}`"))
        });
    let (names, encodings, sizes) = (names?, encodings?, sizes?);
    if names.len() != encodings.len() || names.len() != sizes.len() || names.is_empty() {
        let (n, e, s) = (names.len(), encodings.len(), sizes.len());
        return Err(fail!(
            Format,
            "{n} names, {e} encodings and {s} sizes of columns, expected as many of each"
        ));
    }
    if names.len() > MOST_COLUMNS {
        return Err(fail!(Memory, "{} columns, the limit is {MOST_COLUMNS}", names.len()));
    }
    let mut columns: Vec<Column> = vec![];
    for ((name, encoding), size) in names.iter().zip(encodings).zip(sizes) {
        let name = name.as_str().ok_or_else(|| fail!(Format, "a column's name is not a text"))?;
        if columns.iter().any(|column| column.name == name) {
            return Err(fail!(Format, "two columns have the name {}", Escaped(&shown(name))));
        }
        let column = encoding
            .as_str()
            .ok_or_else(|| fail!(Format, "its encoding is not a text"))
            .and_then(Encoding::parse)
            .and_then(|encoding| Ok((size_of(size, &encoding)?, encoding)));
        let (size, encoding) = column
            .map_err(|error| error.context(format_args!("column {}", Escaped(&shown(name)))))?;
        columns.push(Column { name: name.to_owned(), encoding, size });
    }
    Ok(columns)
}

/// Returns the size of a column's values. streaming takes 0 for a size that is not fixed, too.
fn size_of(size: &Value, encoding: &Encoding) -> Result<Option<u32>, Error> {
    let found = match size {
        Value::Null => None,
        size => match size.as_u64().and_then(|size| u32::try_from(size).ok()) {
            Some(0) => None,
            Some(size) => Some(size),
            None => {
                let size = size.to_string();
                return Err(fail!(Format, "its size is {}, expected bytes or null", shown(&size)));
            }
        },
    };
    let wanted = encoding.size();
    if found.is_some() && found.map(u64::from) != wanted {
        let found = found.unwrap_or_default();
        let wanted = wanted.map_or("null".to_owned(), |size| size.to_string());
        return Err(fail!(Format, "its size is {found}, expected {wanted} for its encoding"));
    }
    Ok(found)
}

fn file(shard: &Map<String, Value>, key: &str) -> Result<Option<ListedFile>, Error> {
    let file = match shard.get(key) {
        None | Some(Value::Null) => return Ok(None),
        Some(file) => file.as_object(),
    };
    let file = file.ok_or_else(|| fail!(Format, "`{key}` is not an object"))?;
    let name = text(file, "basename")?;
    let is_below = Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
    if name.is_empty() || !is_below || name.contains(['\0', '\\']) {
        return Err(fail!(
            Format,
            "{:?} is not the name of a file in the folder of the index",
            shown(name)
        ));
    }
    let hashes = match file.get("hashes").and_then(Value::as_object) {
        None => vec![],
        Some(hashes) => {
            let text = |(name, digest): (&String, &Value)| {
                Some((name.clone(), digest.as_str()?.to_ascii_lowercase()))
            };
            hashes.iter().filter_map(text).collect()
        }
    };
    Ok(Some(ListedFile { name: name.to_owned(), bytes: number(file, "bytes")?, hashes }))
}

fn text<'a>(of: &'a Map<String, Value>, key: &str) -> Result<&'a str, Error> {
    let text = of.get(key).and_then(Value::as_str);
    text.ok_or_else(|| fail!(Format, "`{key}` is missing, expected a text"))
}

fn number(of: &Map<String, Value>, key: &str) -> Result<u64, Error> {
    let number = of.get(key).and_then(Value::as_u64);
    number.ok_or_else(|| fail!(Format, "`{key}` is missing, expected a whole number"))
}
