//! The table of an index file: where the values of columns of bytes lie that are neither compressed nor coded.
//!
//! | of each chunk | bytes                                        |
//! |---------------|----------------------------------------------|
//! | row group     | its number, 4 B                              |
//! | column        | the index of its leaf in the schema, 4 B     |
//! | rows          | their number, 4 B                            |
//! | offsets       | 8 B a row, little-endian as all numbers      |
//! | lengths       | 4 B a row; `0xffff_ffff` for a null          |
//!
//! Without an index, they are found when a row group is read first: from the lengths before the values.

use super::footer::{File, Footer};
use super::pages::{Chunk, Directory};
use crate::error::{Error, ErrorKind};
use crate::sample::Limits;
use crate::source::BoxError;
use crate::source::index_file::{Kind, load_with};
use crate::source::shards::Shard;
use std::sync::Arc;

/// Finds the positions of a file's values; returns them as a table, and the number of the file's samples. A chunk whose
/// part of the table would be larger than the chunk is left out: values of a dictionary, or very short ones.
///
/// The file may be one of several of a dataset: it may have no rows, and its texts alone do not tell the classes.
///
/// # Errors
///
/// Fails if the file can't be opened, or if a column is damaged.
pub(in crate::source) fn scan(shard: &Shard, limits: &Limits) -> Result<(Vec<u8>, u64), Error> {
    let footer = Footer::read(shard, limits)?;
    let plan = Arc::new(footer.plan());
    // Its index is not loaded: it may be that of an older file.
    let file = footer.file(shard, &plan)?;
    let mut table = vec![];
    for group in 0..file.group_count() {
        for (field, column) in plan.columns.iter().enumerate() {
            if column.how.is_of_group() || !column.leaf.has_lengths() {
                continue;
            }
            let chunk = &file.chunks(group, field)[0];
            if chunk.values.saturating_mul(12).saturating_add(12) > chunk.end - chunk.start {
                continue;
            }
            let found = super::directory(&file.shard, chunk, column, limits);
            let found = found.map_err(|error| file.failed(column, error))?;
            if let Directory::Extents { offsets, lens } = found {
                for number in [group, column.leaf.index, lens.len()] {
                    table.extend((number as u32).to_le_bytes());
                }
                offsets.iter().for_each(|offset| table.extend(offset.to_le_bytes()));
                lens.iter().for_each(|len| table.extend(len.to_le_bytes()));
            }
        }
    }
    Ok((table, file.groups.samples()))
}

/// Takes the positions of a file's values from the index file beside it, if there is one.
///
/// # Errors
///
/// Fails if the index is damaged, or belongs to another file.
pub(super) fn load(file: &File) -> Result<(), Error> {
    let taken = load_with(&file.shard, Kind::Parquet, |table, _| take_all(file, table));
    taken.map(drop).map_err(|error: BoxError| Error::boxed(error, ErrorKind::Format))
}

/// Takes all chunks of a table; `None` if the table is not of the file.
fn take_all(file: &File, mut table: &[u8]) -> Option<()> {
    while !table.is_empty() {
        let [group, leaf, rows] = [0; 3].map(|_: u32| take(&mut table).map(u32::from_le_bytes));
        let (group, leaf, rows) = (group? as usize, leaf? as usize, rows? as usize);
        let (offsets, rest) = table.split_at_checked(rows.checked_mul(8)?)?;
        let (lens, rest) = rest.split_at_checked(rows.checked_mul(4)?)?;
        table = rest;
        let is_it = |column: &super::Column| {
            column.leaf.index == leaf && column.leaf.has_lengths() && !column.how.is_of_group()
        };
        let field = file.plan.columns.iter().position(is_it)?;
        if group >= file.group_count() || file.groups.len_of(group) != rows as u64 {
            return None;
        }
        let offsets = offsets.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes));
        let lens = lens.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes));
        let (offsets, lens): (Box<[u64]>, Box<[u32]>) = (offsets.collect(), lens.collect());
        let chunk = &file.chunks(group, field)[0];
        let lie_inside =
            offsets.iter().zip(&lens).all(|(offset, len)| is_inside(chunk, *offset, *len));
        lie_inside.then_some(())?;
        // A second table of the same chunk would be ignored.
        let _ = chunk.directory.set(Directory::Extents { offsets, lens });
    }
    Some(())
}

fn is_inside(chunk: &Chunk, offset: u64, len: u32) -> bool {
    let end = offset.checked_add(len.into());
    len == Directory::NULL || offset >= chunk.start && end.is_some_and(|end| end <= chunk.end)
}

/// Takes the next `N` bytes.
fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (head, tail) = rest.split_first_chunk()?;
    *rest = tail;
    Some(*head)
}

#[cfg(test)]
mod tests {
    use super::super::Parquet;
    use super::*;
    use crate::sample::SampleId;
    use crate::source::index_file::save;
    use crate::source::{Buffer, Location, OwnedValue, Source as _};
    use std::path::{Path, PathBuf};

    /// Copies a file of the goldens to a folder, and returns its path and the table of its positions.
    fn copied(dir: &Path, name: &str) -> (PathBuf, Vec<u8>) {
        let path = dir.join(name);
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/parquet");
        let found = ["hub/data", ""].map(|folder| golden.join(folder).join(name));
        std::fs::copy(found.iter().find(|path| path.exists()).unwrap(), &path).unwrap();
        let table = scan(&shard(&path), &Limits::SMALL).unwrap().0;
        (path, table)
    }

    fn shard(path: &Path) -> Shard {
        Shard::open(Location::Path(path.to_owned())).unwrap()
    }

    fn open(path: &Path) -> Result<Parquet, Error> {
        Parquet::open(path, None, None, &Limits::SMALL)
    }

    fn known(source: &Parquet) -> usize {
        let file = &source.files[0];
        let chunks = (0..file.group_count()).map(|group| {
            let fields = 0..file.plan.columns.len();
            fields.filter(|field| file.chunks(group, *field)[0].directory.get().is_some()).count()
        });
        chunks.sum()
    }

    fn values(source: &Parquet) -> Vec<String> {
        let mut buffer = Buffer::default();
        let fields = source.facts.fields.len();
        let cells = (0..source.facts.samples)
            .flat_map(|sample| (0..fields).map(move |field| (sample, field)));
        cells
            .map(|(sample, field)| match source.value(SampleId(sample), field, &mut buffer) {
                Ok(value) => format!("{:?}", OwnedValue::from(value)),
                Err(error) => error.to_string(),
            })
            .collect()
    }

    #[test]
    fn an_index_has_the_positions_and_changes_no_value() {
        let dir = tempfile::tempdir().unwrap();
        for name in [
            "train-00000-of-00002.parquet",
            "plain-none.parquet",
            "plain-v2.parquet",
            "plain-zstd.parquet",
        ] {
            let (path, table) = copied(dir.path(), name);
            let without = open(&path).unwrap();
            let before = known(&without);
            save(&shard(&path), Kind::Parquet, &table).unwrap();
            let with = open(&path).unwrap();
            let is_packed = ["plain-v2.parquet", "plain-zstd.parquet"].contains(&name);
            assert_eq!(table.is_empty(), is_packed, "{name}");
            assert!(known(&with) > before || table.is_empty(), "{name}");
            assert_eq!(values(&with), values(&without), "{name}");
        }
    }

    /// Writes an uncompressed file with one column, of two texts in turn.
    fn write_texts(path: &Path, name: &str, rows: usize) {
        use parquet::{data_type::ByteArrayType, file::writer::SerializedFileWriter};
        let schema = format!("message schema {{ required binary {name} (UTF8); }}");
        let schema = parquet::schema::parser::parse_message_type(&schema).unwrap();
        let mut file = SerializedFileWriter::new(vec![], Arc::new(schema), Arc::default()).unwrap();
        if rows > 0 {
            let mut group = file.next_row_group().unwrap();
            let mut column = group.next_column().unwrap().unwrap();
            let texts: Vec<_> = (0..rows).map(|row| ["cat", "dog"][row % 2].into()).collect();
            column.typed::<ByteArrayType>().write_batch(&texts, None, None).unwrap();
            column.close().unwrap();
            group.close().unwrap();
        }
        std::fs::write(path, file.into_inner().unwrap()).unwrap();
    }

    #[test]
    fn an_index_is_not_larger_than_the_columns_of_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("texts.parquet");
        write_texts(&path, "caption", 20_000);
        let (table, samples) = scan(&shard(&path), &Limits::SMALL).unwrap();
        save(&shard(&path), Kind::Parquet, &table).unwrap();
        let source = open(&path).unwrap();
        assert_eq!((table.len(), samples, source.facts.samples), (0, 20_000, 20_000));
        // The positions are found without it.
        let mut buffer = Buffer::default();
        let value = source.value(SampleId(19_999), 0, &mut buffer).unwrap();
        assert_eq!(OwnedValue::from(value), OwnedValue::Bytes(b"dog".to_vec()));
    }

    #[test]
    fn a_scan_needs_no_rows_and_warns_of_no_classes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("scanned-alone.parquet");
        for rows in [0, 4] {
            write_texts(&path, "label", rows);
            let scanned = || scan(&shard(&path), &Limits::SMALL).unwrap();
            let (found, warnings) = crate::warnings::recorded(scanned);
            assert_eq!(found, (vec![], rows as u64));
            let is_of_file = |warning: &String| warning.contains("scanned-alone");
            assert!(!warnings.iter().any(is_of_file), "{warnings:?}");
        }
    }

    #[test]
    fn an_index_of_another_file_is_refused_and_written_again() {
        let dir = tempfile::tempdir().unwrap();
        let (path, table) = copied(dir.path(), "train-00000-of-00002.parquet");
        save(&shard(&path), Kind::Parquet, &table).unwrap();
        let (other, _) = copied(dir.path(), "train-00001-of-00002.parquet");
        std::fs::rename(&other, &path).unwrap();
        let refused = open(&path).err().unwrap().to_string();
        assert!(
            refused.contains("the index belongs to another file: run `fuseloop index` again"),
            "{refused}"
        );
        let (table, _) = scan(&shard(&path), &Limits::SMALL).unwrap();
        save(&shard(&path), Kind::Parquet, &table).unwrap();
        open(&path).unwrap();
    }

    /// The checksum of the index is right, so that the table itself is checked.
    #[test]
    fn a_table_changed_anywhere_is_refused_or_lies_in_its_column() {
        let dir = tempfile::tempdir().unwrap();
        let (path, table) = copied(dir.path(), "train-00000-of-00002.parquet");
        let mut refused = 0;
        for bit in 0..table.len() * 8 {
            let mut table = table.clone();
            table[bit / 8] ^= 1 << (bit % 8);
            save(&shard(&path), Kind::Parquet, &table).unwrap();
            match open(&path) {
                Ok(source) => drop(values(&source)),
                Err(_) => refused += 1,
            }
        }
        assert!(refused > table.len() * 4, "{refused} of {}", table.len() * 8);
    }
}
