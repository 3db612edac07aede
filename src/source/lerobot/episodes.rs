//! The tables in `meta/` of a LeRobot dataset: where each episode lies in the files, and the texts of the tasks.
//!
//! | column of `meta/episodes/chunk-*/file-*.parquet`     | meaning                                                |
//! |------------------------------------------------------|--------------------------------------------------------|
//! | `episode_index`                                      | the number of the episode, which is that of its row    |
//! | `dataset_from_index`, `dataset_to_index`             | its rows, among those of the whole dataset             |
//! | `data/chunk_index`, `data/file_index`                | the file of its rows                                   |
//! | `videos/KEY/chunk_index`, `videos/KEY/file_index`    | the file of its frames of a camera                     |
//! | `videos/KEY/from_timestamp`                          | the seconds in that file at which the episode begins   |
//!
//! `meta/tasks.parquet` has the text of each `task_index`.

use super::info::{FileNumber, Info};
use crate::error::{AtPath as _, Error, fail};
use crate::sample::{Limits, SampleId};
use crate::source::parquet::Parquet;
use crate::source::{Buffer, FieldKind, Source, Value};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The folder of the episodes, below that of the dataset.
const EPISODES: &str = "meta/episodes";

/// The file of the tasks, below the folder of the dataset.
const TASKS: &str = "meta/tasks.parquet";

/// The bytes that a task takes in memory beside its text.
const TASK_BYTES: u64 = 64;

/// An episode.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Episode {
    /// Its rows, among those of the whole dataset.
    pub(super) rows: Range<u64>,
    /// The file of its rows.
    pub(super) data: FileNumber,
    /// Its frames of each camera.
    pub(super) videos: Vec<EpisodeVideo>,
}

/// The frames of an episode in a video file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct EpisodeVideo {
    pub(super) file: FileNumber,
    /// The seconds at which the episode begins in the file.
    pub(super) start: f64,
}

/// A table of whose columns some are read.
struct Table {
    rows: Parquet,
    columns: HashMap<String, usize>,
    /// The file or the folder of the table.
    path: PathBuf,
}

impl Table {
    fn open(
        path: PathBuf,
        files: &[PathBuf],
        is_read: &dyn Fn(&str) -> bool,
        limits: &Limits,
    ) -> Result<Self, Error> {
        let rows = Parquet::of_columns(files, is_read, limits)?;
        let columns = rows.facts().fields.iter().map(|field| field.name.clone()).zip(0..).collect();
        Ok(Self { rows, columns, path })
    }

    fn column(&self, name: &str) -> Result<usize, Error> {
        self.columns.get(name).copied().ok_or_else(|| {
            fail!(Format, "no column {name:?}: the dataset is damaged, or not of version 3")
                .at(&self.path)
        })
    }

    fn value<T>(
        &self,
        (row, column): (u64, usize),
        buffer: &mut Buffer,
        of: impl Fn(Value<'_>) -> Option<T>,
    ) -> Result<T, Error> {
        buffer.forget();
        let found = of(self.rows.value(SampleId(row), column, buffer)?);
        found.ok_or_else(|| {
            let name = &self.rows.facts().fields[column].name;
            fail!(Damaged, "row {row}, column {name:?}: an impossible value").at(&self.path)
        })
    }
}

/// Returns a number that is not negative.
fn index(value: Value<'_>) -> Option<u64> {
    match value {
        Value::Int(index) => u64::try_from(index).ok(),
        _ => None,
    }
}

/// Returns seconds, which are not negative.
fn seconds(value: Value<'_>) -> Option<f64> {
    let seconds = match value {
        Value::Float(seconds) => seconds,
        Value::Int(seconds) => seconds as f64,
        _ => return None,
    };
    (seconds.is_finite() && seconds >= 0.0).then_some(seconds)
}

/// Reads all episodes of a dataset, in the order of their numbers.
///
/// # Errors
///
/// Fails if the tables can't be read, or contradict themselves.
pub(super) fn read(dir: &Path, info: &Info, limits: &Limits) -> Result<Vec<Episode>, Error> {
    let folder = dir.join(EPISODES);
    let files = parquet_files(&folder)?;
    let mut names: HashSet<String> = HashSet::from_iter(
        [
            "episode_index",
            "dataset_from_index",
            "dataset_to_index",
            "data/chunk_index",
            "data/file_index",
        ]
        .map(str::to_owned),
    );
    let of_camera = |key: &str| {
        ["chunk_index", "file_index", "from_timestamp"].map(|name| format!("videos/{key}/{name}"))
    };
    names.extend(info.cameras.iter().flat_map(|camera| of_camera(&camera.key)));
    let table = Table::open(folder, &files, &|name| names.contains(name), limits)?;
    let number = table.column("episode_index")?;
    let [from, to] = [table.column("dataset_from_index")?, table.column("dataset_to_index")?];
    let data = [table.column("data/chunk_index")?, table.column("data/file_index")?];
    let mut cameras = vec![];
    for camera in &info.cameras {
        let [chunk, file, start] = of_camera(&camera.key);
        cameras.push([table.column(&chunk)?, table.column(&file)?, table.column(&start)?]);
    }
    let count = table.rows.facts().samples;
    let each = size_of::<Episode>() + cameras.len() * size_of::<EpisodeVideo>();
    if count.saturating_mul(each as u64) > limits.max_table_bytes {
        let most = limits.max_table_bytes;
        return Err(fail!(
            Memory,
            "{count} episodes: a table of them takes more than {most} bytes, the limit"
        )
        .at(&table.path));
    }
    let (mut episodes, mut buffer) = (vec![], Buffer::default());
    for row in 0..count {
        let mut int = |column| table.value((row, column), &mut buffer, index);
        let found = int(number)?;
        if found != row {
            return Err(fail!(
                Format,
                "row {row} is of episode {found}: the rows are not in the order of the episodes from 0 on"
            )
            .at(&table.path));
        }
        let (from, to) = (int(from)?, int(to)?);
        if from >= to {
            return Err(fail!(
                Format,
                "episode {row} has the rows from {from} to {to}, which are none"
            )
            .at(&table.path));
        }
        let data = FileNumber { chunk: int(data[0])?, file: int(data[1])? };
        let mut videos = vec![];
        for [chunk, file, start] in &cameras {
            let file = FileNumber {
                chunk: table.value((row, *chunk), &mut buffer, index)?,
                file: table.value((row, *file), &mut buffer, index)?,
            };
            let start = table.value((row, *start), &mut buffer, seconds)?;
            videos.push(EpisodeVideo { file, start });
        }
        episodes.push(Episode { rows: from..to, data, videos });
    }
    Ok(episodes)
}

/// Reads the texts of the tasks by their numbers; none if the dataset has no table of them.
///
/// # Errors
///
/// Fails if the table can't be read.
pub(super) fn read_tasks(dir: &Path, limits: &Limits) -> Result<BTreeMap<i64, Vec<u8>>, Error> {
    let path = dir.join(TASKS);
    if !path.is_file() {
        return Ok(BTreeMap::new());
    }
    let table = Table::open(path.clone(), &[path], &|_| true, limits)?;
    let number = table.column("task_index")?;
    let fields = &table.rows.facts().fields;
    // pandas calls its index `__index_level_0__`, unless it has a name.
    let text = fields.iter().position(|field| field.kind == FieldKind::Bytes);
    let text = text.ok_or_else(|| fail!(Format, "no column of texts").at(&table.path))?;
    let (mut tasks, mut buffer) = (BTreeMap::new(), Buffer::default());
    let mut bytes = 0_u64;
    for row in 0..table.rows.facts().samples {
        let number = table.value((row, number), &mut buffer, |value| match value {
            Value::Int(number) => Some(number),
            _ => None,
        })?;
        let text = table.value((row, text), &mut buffer, |value| match value {
            Value::Bytes(text) => Some(text.to_vec()),
            _ => None,
        })?;
        bytes = bytes.saturating_add(text.len() as u64 + TASK_BYTES);
        if bytes > limits.max_table_bytes {
            let most = limits.max_table_bytes;
            return Err(fail!(Memory, "texts of more than {most} bytes, the limit").at(&table.path));
        }
        tasks.insert(number, text);
    }
    Ok(tasks)
}

/// Returns the files `*/*.parquet` in a folder, in the order of their names.
fn parquet_files(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut files = vec![];
    for chunk in entries(folder)?.into_iter().filter(|chunk| chunk.is_dir()) {
        let of_chunk = entries(&chunk)?;
        files.extend(of_chunk.into_iter().filter(|file| {
            file.extension().is_some_and(|extension| extension == "parquet") && file.is_file()
        }));
    }
    if files.is_empty() {
        return Err(
            fail!(NotFound, "no files chunk-000/file-000.parquet with the episodes").at(folder)
        );
    }
    Ok(files)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = fs::read_dir(folder).at(folder)?;
    let mut paths = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>, std::io::Error>>()
        .at(folder)?;
    paths.sort_unstable();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_indices_are_not_negative() {
        assert_eq!(index(Value::Int(3)), Some(3));
        assert!(index(Value::Int(-1)).is_none() && index(Value::Float(1.0)).is_none());
        assert_eq!(seconds(Value::Float(2.5)), Some(2.5));
        assert_eq!(seconds(Value::Int(2)), Some(2.0));
        for bad in [f64::NAN, f64::INFINITY, -0.5] {
            assert!(seconds(Value::Float(bad)).is_none(), "{bad}");
        }
    }
}
