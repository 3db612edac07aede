//! Parquet files, read in any order: the datasets of the Hugging Face Hub, and tables of pyarrow, Spark and img2dataset.
//!
//! ```text
//!  hub.rs          footer.rs ─ schema.rs        thrift.rs            extents.rs ──▶ one read of an image
//!  names ─▶ files ─▶ chunks of columns ─▶ pages.rs: pages ─▶ where values lie ◀── positions.rs, an index file
//!                                                                    leaf.rs, tree.rs ─▶ span.rs ─ ../lru_cache.rs
//! ```
//!
//! `arrow.rs` has the same columns in memory: those of a `datasets.Dataset`.
//!
//! Opening reads the footers, and of columns whose type does not say what they are the first values. A column of bytes
//! whose pages are neither compressed nor coded, as `datasets` writes images, needs 12 bytes of memory a sample for the
//! positions of its values, which are found when its row group is read first; a value is then one read of its bytes. All
//! other columns are decoded page by page, or those with lists row group by row group, and the pages that were read last
//! stay in memory ([`CACHE_BYTES`]). Row groups are the locality groups of `Order::QuasiRandom`.
//!
//! A run fetches ahead, of remote files, the values whose positions are known, and the whole chunks of columns of the row
//! groups that it reads first.
//!
//! The crate `parquet` parses footers and decodes values. It is called for one file, page or column at a time, and a
//! panic in it is an error of that.

mod arrow;
mod classes;
mod extents;
mod footer;
mod hub;
mod leaf;
mod pages;
mod positions;
mod schema;
mod span;
#[cfg(test)]
mod tests;
mod thrift;
mod tree;

#[doc(hidden)]
pub use arrow::{ArrowArray, ArrowTable, Memory};
pub(super) use hub::{all_files, is_folder};
pub(super) use positions::scan;

use super::file::LengthCheck;
use super::image_format::begins_as_image;
use super::lru_cache::LruCache;
use super::packed_images;
use super::shards::{Extents, Shard, Shards};
use super::starts::Starts;
use super::{
    BoxError, Buffer, ClassNames, EncodedImage, Facts, FieldSpec, Fingerprint, ImageExtent,
    ImageMode, Location, OwnedValue, Record, Run, RunPlan, SampleLocation, Source, StoredValues,
    Value, location,
};
use crate::error::{Error, fail};
use crate::parallel;
use crate::sample::{Limits, SampleId};
use crate::warnings::warn;
use ::parquet::schema::types::SchemaDescPtr;
#[cfg(feature = "write")]
pub(crate) use footer::FEATURES;
use footer::{File, Footer};
use fuseloop_ops::Size;
use pages::{Chunk, Directory};
use schema::{Column, How, Plan};
use span::{HeldRow, Span};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The most bytes of decoded pages in memory.
const CACHE_BYTES: u64 = 256 << 20;

/// The most bytes of a column of lists that are read to find out whether all of them are of one shape.
const CHECKED_BYTES: u64 = 64 << 20;

/// The number of row groups whose first values are looked at until one is not null.
const MOST_TRIED: usize = 4;

/// The most bytes of a chunk that is fetched as a whole ahead of its samples: a quarter of what is fetched ahead.
const MOST_AHEAD: u64 = 64 << 20;

/// Says whether the column of a name is read.
type IsRead<'a> = &'a dyn Fn(&str) -> bool;

/// The samples of Parquet files. A clone shares all but the files that values are read from.
#[derive(Clone)]
pub(crate) struct Parquet {
    facts: Facts,
    /// What values are read from: the files, or in a run the files with what is fetched ahead.
    shards: Shards,
    files: Arc<[File]>,
    starts: Arc<Starts>,
    /// The number of the first row group of each file.
    first_groups: Arc<[u64]>,
    /// The pages that were decoded, or all pages of a column in a row group, by the file, the row group, the field and
    /// the page.
    cache: Arc<LruCache<(u32, u32, u32, u32), Span>>,
    limits: Limits,
}

/// Where a sample's value is.
struct Cell<'a> {
    file: &'a File,
    /// What the file is read from.
    shard: &'a Shard,
    column: &'a Column,
    key: (u32, u32, u32),
    chunks: &'a [Chunk],
    row: usize,
    rows: u64,
}

/// A value as it is found.
enum Found<'a> {
    /// Bytes in the file.
    Stored { offset: u64, len: u64 },
    /// A row of decoded values.
    Decoded { span: Arc<Span>, row: usize, column: &'a Column },
}

impl Parquet {
    /// Opens the files that a name stands for: a file, a pattern, a folder in a layout of the Hub.
    ///
    /// # Errors
    ///
    /// Fails if there is no such file or split, if there are several splits and none is named, if a file can't be read or is
    /// damaged, or if the files have different fields.
    pub(super) fn open(
        path: &Path,
        split: Option<&str>,
        classes: Option<&ClassNames>,
        limits: &Limits,
    ) -> Result<Self, Error> {
        Self::of(&Shards::at(&files(path, split)?)?, (classes, None), limits)
    }

    /// Opens local files, and reads those of their columns whose names `is_read` accepts. Fields have the names of their
    /// columns.
    ///
    /// # Errors
    ///
    /// Fails as [`open`](Self::open) does.
    #[cfg(feature = "video")]
    pub(super) fn of_columns(
        paths: &[PathBuf],
        is_read: IsRead<'_>,
        limits: &Limits,
    ) -> Result<Self, Error> {
        let files: Vec<_> = paths.iter().cloned().map(Location::Path).collect();
        Self::of(&Shards::at(&files)?, (None, Some(is_read)), limits)
    }

    /// Returns the numbers of the first samples of the files.
    #[cfg(feature = "video")]
    pub(super) fn starts(&self) -> &Starts {
        &self.starts
    }

    /// Returns the type of the numbers of a field; `None` if its values are none.
    #[cfg(feature = "video")]
    pub(super) fn dtype(&self, field: usize) -> Option<super::NdType> {
        self.files.first()?.plan.columns.get(field)?.leaf.dtype()
    }

    /// Opens a file that is in memory.
    #[cfg(any(
        test,
        all(feature = "spec", feature = "tables", feature = "tar", feature = "write")
    ))]
    pub(crate) fn from_bytes(bytes: &[u8], limits: &Limits) -> Result<Self, Error> {
        Self::of(&Shards::new(vec![Shard::held("memory.parquet", bytes)]), (None, None), limits)
    }

    fn of(
        shards: &Shards,
        (classes, is_read): (Option<&ClassNames>, Option<IsRead<'_>>),
        limits: &Limits,
    ) -> Result<Self, Error> {
        let footers = parallel::map(shards.all(), |shard| Footer::read(shard, limits))?;
        let footers = footers.into_iter().collect::<Result<Vec<_>, Error>>()?;
        let mut print = Fingerprint::default();
        print.text("parquet");
        for (shard, footer) in shards.all().iter().zip(&footers) {
            print.text(shard.location.file_name());
            print.number(shard.bytes.len());
            print.number(footer.checksum.into());
        }
        let mut files: Vec<File> = vec![];
        // The schema, the features and the objects of the file before, and its plan.
        let mut known: Option<(SchemaDescPtr, [Option<String>; 2], Arc<Plan>)> = None;
        for (shard, footer) in shards.all().iter().zip(footers) {
            let schema = footer.schema();
            let features = [footer.features.clone(), footer.objects.clone()];
            let same = known.as_ref().filter(|(other, of_other, _)| {
                *of_other == features && schema.root_schema() == other.root_schema()
            });
            let plan = match same {
                Some((.., plan)) => Arc::clone(plan),
                None => {
                    let mut plan = footer.plan();
                    if let Some(is_read) = is_read {
                        plan.choose(&schema, is_read);
                    }
                    Arc::new(plan)
                }
            };
            known = Some((schema, features, Arc::clone(&plan)));
            files.push(footer.file(shard, &plan)?);
        }
        for loaded in parallel::map(&files, positions::load)? {
            loaded?;
        }
        resolve(&mut files, &shards.name(), classes, limits)?;
        warn_of_missing(shards);
        let starts: Starts = files.iter().map(|file| file.groups.samples()).collect();
        let Some(first) = files.first() else {
            return Err(fail!(NotFound, "no Parquet files"));
        };
        let (samples, name) = (starts.samples(), shards.name());
        check_count(&name, samples, limits)?;
        check_plan(&name, &first.plan)?;
        let facts = facts(shards, &first.plan, samples, print);
        let groups = files
            .iter()
            .scan(0, |next, file| Some(std::mem::replace(next, *next + file.group_count() as u64)));
        let first_groups = groups.collect();
        // A slot needs memory itself, too.
        let cache = LruCache::new(CACHE_BYTES, |span: &Span| span.memory() as u64 + 192);
        Ok(Self {
            facts,
            shards: shards.clone(),
            files: files.into(),
            starts: Arc::new(starts),
            first_groups,
            cache: Arc::new(cache),
            limits: *limits,
        })
    }

    /// Returns where a value is.
    fn cell(&self, sample: SampleId, field: usize) -> Result<Cell<'_>, Error> {
        let samples = self.facts.samples;
        let (number, row) = self.starts.locate(sample).ok_or_else(|| no_sample(sample, samples))?;
        let (file, shard) = (&self.files[number], &self.shards.all()[number]);
        let fields = file.plan.columns.len();
        let column = file.plan.columns.get(field).ok_or_else(|| no_field(field, fields))?;
        let (group, row) = file.groups.locate(row).unwrap_or((0, row));
        let rows = file.groups.len_of(group);
        let key = (number as u32, group as u32, field as u32);
        let (chunks, row) = (file.chunks(group, field), row.0 as usize);
        Ok(Cell { file, shard, column, key, chunks, row, rows })
    }

    /// Finds a value: its position in the file, or its row among decoded values.
    fn find<'a>(&self, cell: &Cell<'a>) -> Result<Found<'a>, Error> {
        let Cell { file, shard, column, key, chunks, row, .. } = *cell;
        let limits = &self.limits;
        let failed = |error: Error| file.failed(column, error);
        if column.how.is_of_group() {
            let key = (key.0, key.1, key.2, 0);
            let span = self.cache.get(key, || decode_group(cell, limits)).map_err(failed)?;
            return Ok(Found::Decoded { span, row, column });
        }
        let chunk = &chunks[0];
        match directory(shard, chunk, column, limits).map_err(failed)? {
            Directory::Extents { offsets, lens } => match (offsets.get(row), lens.get(row)) {
                (Some(offset), Some(len)) if *len != Directory::NULL => {
                    let len = u64::from(*len);
                    if len > limits.max_sample_bytes {
                        let most = limits.max_sample_bytes;
                        let error = fail!(Damaged, "{len} bytes, the limit is {most}");
                        return Err(failed(error.byte(*offset)));
                    }
                    Ok(Found::Stored { offset: *offset, len })
                }
                _ => Err(failed(fail!(Damaged, "it is null"))),
            },
            Directory::Pages { dictionary, pages } => {
                let page = pages.partition_point(|(_, first)| *first as usize <= row);
                let Some((page, (at, first))) = page.checked_sub(1).map(|page| (page, pages[page]))
                else {
                    return Err(failed(fail!(Damaged, "no page has row {row} of its row group")));
                };
                let decode = || {
                    let loaded = chunk.load_one(shard, *dictionary, at, limits)?;
                    let span = Span::of_page(&column.leaf, loaded);
                    span.map_err(|reason| fail!(Damaged, "{reason}").byte(at))
                };
                let key = (key.0, key.1, key.2, page as u32);
                let span = self.cache.get(key, decode).map_err(failed)?;
                Ok(Found::Decoded { span, row: row - first as usize, column })
            }
        }
    }

    fn borrowed_value<'a>(
        &'a self,
        sample: SampleId,
        field: usize,
        buffer: &'a mut Buffer,
    ) -> Result<Value<'a>, Error> {
        let cell = self.cell(sample, field)?;
        let found = self.found_value(&cell, buffer);
        found.map_err(|error| error.of_value(sample, &cell.column.name))
    }

    fn found_value<'a>(
        &'a self,
        cell: &Cell<'a>,
        buffer: &'a mut Buffer,
    ) -> Result<Value<'a>, Error> {
        let Buffer { bytes, check, held, .. } = buffer;
        match self.find(cell)? {
            Found::Stored { offset, len } => {
                let bytes = read(cell, (offset, len), bytes, check.as_mut())?;
                match cell.column.how {
                    How::Json => {
                        let text = json(bytes).map_err(|reason| cell.failed(&reason))?;
                        Ok(Value::Json((**held.insert(Arc::new(text))).as_ref()))
                    }
                    _ => value(&cell.column.how, bytes).map_err(|reason| cell.failed(&reason)),
                }
            }
            Found::Decoded { span, row, column } => {
                let failed = |reason: String| cell.failed(&reason);
                match column.how {
                    How::Int(dtype) => {
                        return Ok(Value::Int(span.int(row, dtype).map_err(failed)?));
                    }
                    How::Float => return Ok(Value::Float(span.float(row).map_err(failed)?)),
                    How::Json => {
                        let text = json(span.bytes(row).map_err(failed)?).map_err(failed)?;
                        return Ok(Value::Json((**held.insert(Arc::new(text))).as_ref()));
                    }
                    How::Images => {
                        let files = span.files(row).map_err(failed)?;
                        pack(&files, &self.limits, bytes).map_err(failed)?;
                        return Ok(Value::Bytes(bytes));
                    }
                    _ => {}
                }
                // Checks that there is a value, so that the one that is held is it.
                span.bytes(row).map_err(failed)?;
                let bytes = (**held.insert(Arc::new(HeldRow { span, row }))).as_ref();
                value(&column.how, bytes).map_err(failed)
            }
        }
    }
}

impl Extents for Parquet {
    /// Nothing is read here: where positions are not known yet, the chunks are needed whole.
    fn extents(&self, sample: SampleId, fields: &[usize], out: &mut Vec<(usize, Range<u64>)>) {
        for field in fields {
            let Ok(cell) = self.cell(sample, *field) else { continue };
            let (shard, key, chunks) = (cell.key.0 as usize, cell.key, cell.chunks);
            let page = |page: u32| (key.0, key.1, key.2, page);
            let known = chunks[0].directory.get().filter(|_| !cell.column.how.is_of_group());
            match known {
                Some(Directory::Extents { offsets, lens }) => {
                    if let (Some(offset), Some(len)) = (offsets.get(cell.row), lens.get(cell.row))
                        && *len != Directory::NULL
                    {
                        out.push((shard, *offset..offset.saturating_add((*len).into())));
                    }
                }
                Some(Directory::Pages { dictionary, pages }) => {
                    let after = pages.partition_point(|(_, first)| *first as usize <= cell.row);
                    if let Some(number) = after.checked_sub(1)
                        && !self.cache.has(page(number as u32))
                    {
                        let end = pages.get(after).map_or(chunks[0].end, |(next, _)| *next);
                        out.push((shard, pages[number].0..end));
                        out.extend(dictionary.map(|at| (shard, at..pages[0].0)));
                    }
                }
                None if self.cache.has(page(0)) => {}
                None => {
                    let whole = chunks.iter().map(|chunk| chunk.start..chunk.end);
                    let whole = whole.filter(|range| range.end - range.start <= MOST_AHEAD);
                    out.extend(whole.map(|range| (shard, range)));
                }
            }
        }
    }
}

impl Cell<'_> {
    fn failed(&self, reason: &str) -> Error {
        self.file.failed(self.column, fail!(Damaged, "{reason}"))
    }
}

/// Reads the bytes of a value.
fn read<'a>(
    cell: &Cell<'a>,
    range: (u64, u64),
    buffer: &'a mut Vec<u8>,
    check: Option<&mut LengthCheck>,
) -> Result<&'a [u8], Error> {
    let found = cell.shard.bytes.get_with(range, buffer, check);
    found.map_err(|error| cell.file.failed(cell.column, error.byte(range.0)))
}

/// Returns the value that is stored in bytes.
fn value<'a>(how: &How, bytes: &'a [u8]) -> Result<Value<'a>, String> {
    Ok(match how {
        How::Image if bytes.is_empty() => return Err("an image of no bytes".to_owned()),
        How::Image => {
            let mode = ImageMode::of_file(bytes);
            Value::Image(EncodedImage { mode, width: 0, height: 0, bytes })
        }
        How::Array(..) => Value::NdArray(bytes),
        How::Classes(texts) => Value::Int(classes::number(texts, bytes)?),
        How::Tree(_) => Value::Json(bytes),
        _ => Value::Bytes(bytes),
    })
}

/// Packs a list of images, which may be as large as a sample.
fn pack(files: &[&[u8]], limits: &Limits, to: &mut Vec<u8>) -> Result<(), String> {
    let (size, most) = (packed_images::packed_size(files), limits.max_sample_bytes);
    if size > most {
        return Err(format!("a list of images of {size} bytes, the limit is {most}"));
    }
    to.clear();
    packed_images::pack(files, to);
    Ok(())
}

/// Returns a text of JSON with its final NUL.
fn json(text: &[u8]) -> Result<Vec<u8>, String> {
    match text.iter().position(|byte| *byte == 0) {
        Some(at) => Err(format!("JSON with a NUL at its byte {at}")),
        None => Ok([text, &[0]].concat()),
    }
}

/// Returns where the values of a chunk lie, which is found once.
fn directory<'a>(
    shard: &Shard,
    chunk: &'a Chunk,
    column: &Column,
    limits: &Limits,
) -> Result<&'a Directory, Error> {
    if let Some(known) = chunk.directory.get() {
        return Ok(known);
    }
    let (leaf, pages) = (&column.leaf, chunk.walk(shard)?);
    // Texts of classes are short, and read page by page.
    let found = match leaf.has_lengths() && !matches!(column.how, How::Classes(_)) {
        true => extents::find(shard, chunk, &pages, leaf.defined(), limits)?,
        false => None,
    };
    let found = found.unwrap_or_else(|| pages::directory_of(&pages));
    // Another thread may have been faster.
    Ok(chunk.directory.get_or_init(|| found))
}

/// Decodes the values of a field for all rows of a row group.
fn decode_group(cell: &Cell<'_>, limits: &Limits) -> Result<Span, Error> {
    let Cell { file, shard, column, chunks, rows, .. } = cell;
    let loaded = chunks.iter().map(|chunk| chunk.load_all(shard, limits));
    let mut loaded = loaded.collect::<Result<Vec<_>, Error>>()?;
    let span = match (&column.how, loaded.pop()) {
        (How::Tree(root), Some(last)) => {
            loaded.push(last);
            match tree::Schema::of(&file.schema, *root) {
                Some(schema) => Span::of_tree(loaded, *rows, &schema),
                None => Err("its schema is damaged".to_owned()),
            }
        }
        (How::Array(dtype, shape), Some(pages)) => {
            Span::of_lists(&column.leaf, pages, (*dtype, shape, true))
        }
        (How::Rows(dtype, row), Some(pages)) => {
            Span::of_lists(&column.leaf, pages, (*dtype, row, false))
        }
        (How::Images, Some(pages)) => Span::of_files(&column.leaf, pages),
        _ => Err("its shape is unknown".to_owned()),
    };
    let at = chunks.first().map_or(0, |chunk| chunk.start);
    let span = span.map_err(|reason| fail!(Damaged, "{reason}").byte(at))?;
    match span.rows() as u64 == *rows {
        true => Ok(span),
        false => {
            let found = span.rows();
            Err(fail!(Damaged, "{found} rows in a row group of {rows}").byte(at))
        }
    }
}

/// Returns the files that a name stands for.
fn files(path: &Path, split: Option<&str>) -> Result<Vec<Location>, Error> {
    let local = |files: Vec<PathBuf>| files.into_iter().map(Location::Path).collect();
    if path.is_dir() {
        return hub::files_of_folder(path, split).map(local);
    }
    let text = path
        .to_str()
        .ok_or_else(|| fail!(Parameter, "the names of Parquet files are in UTF-8").at(path))?;
    if location::is_folder_of_hub(text) && !location::is_several(text) {
        return hub::files_of_hub_folder(text, split);
    }
    let found = Location::parse(text)?;
    let is_pattern = !path.is_file() && location::parts(text).any(location::is_pattern);
    if !is_pattern && split.is_none() {
        return Ok(found);
    }
    let paths = found.iter().map(|file| file.as_ref().to_owned()).collect();
    let chosen = hub::files_of_pattern(paths, text, split)?;
    Ok(found.into_iter().filter(|file| chosen.iter().any(|path| path == file.as_ref())).collect())
}

/// Returns the error of a sample that a dataset does not have.
fn no_sample(sample: SampleId, samples: u64) -> Error {
    fail!(Parameter, "sample {sample} does not exist: the dataset has {samples} samples")
}

/// Returns the error of a field that a dataset does not have.
fn no_field(field: usize, fields: usize) -> Error {
    fail!(Field, "field {field} does not exist: the dataset has {fields} fields")
}

/// Refuses a number of samples that is none or too large.
fn check_count(name: &str, samples: u64, limits: &Limits) -> Result<(), Error> {
    let most = limits.max_samples;
    match samples {
        0 => Err(fail!(Format, "{name}: no rows: a dataset needs at least one sample")),
        _ if samples > most => Err(fail!(Memory, "{name}: {samples} rows, the limit is {most}")),
        _ => Ok(()),
    }
}

/// Refuses a plan without fields, and warns of columns that are left out.
fn check_plan(name: &str, plan: &Plan) -> Result<(), Error> {
    if plan.columns.is_empty() {
        return Err(fail!(Format, "{name}: none of its columns can be read"));
    }
    if !plan.left_out.is_empty() {
        let names = plan.left_out.join(", ");
        warn(format_args!(
            "{name}: columns that are left out, since no field holds their values: {}",
            super::Escaped(&names)
        ));
    }
    Ok(())
}

/// Refuses two fields of one name.
fn check_names(plan: &Plan) -> Result<(), Error> {
    let mut names: Vec<&str> = plan.columns.iter().map(|column| &*column.name).collect();
    names.sort_unstable();
    match names.array_windows().find(|[one, next]| one == next) {
        Some([name, _]) => {
            Err(fail!(Format, "two fields would be called {name:?}: rename a column"))
        }
        None => Ok(()),
    }
}

/// Finds out what only values tell, from the first file that has some, and compares the fields of all files.
fn resolve(
    files: &mut [File],
    dataset: &str,
    classes: Option<&ClassNames>,
    limits: &Limits,
) -> Result<(), Error> {
    let Some(first) = files.iter().find(|file| file.groups.samples() > 0).or(files.first()) else {
        return Ok(());
    };
    let mut plan = (*first.plan).clone();
    for field in 0..plan.columns.len() {
        plan.columns[field].how = match &plan.columns[field].how {
            How::Binary => binary(first, field, limits),
            How::Lists(dtype, lens) => lists(&first.plan.columns[field], *dtype, lens, || {
                shape_of(files, first, field, limits)
            }),
            _ => continue,
        };
    }
    plan.find_objects();
    classes::find(&mut plan, dataset, classes, |column| {
        classes::of_files(files, &column.name, limits)
    })?;
    let first_name = first.shard.location.clone();
    let first_plan = Arc::clone(&first.plan);
    let resolved = Arc::new(plan);
    let of_first: Vec<_> = resolved.columns.iter().map(field_spec).collect();
    check_names(&resolved).map_err(|error| error.at(&first_name))?;
    for file in files {
        if Arc::ptr_eq(&file.plan, &first_plan) {
            file.plan = Arc::clone(&resolved);
            continue;
        }
        let mut plan = (*file.plan).clone();
        for column in &mut plan.columns {
            let same = resolved.columns.iter().find(|other| other.name == column.name);
            if let Some(same) = same.filter(|same| same.leaf.is_alike(&column.leaf)) {
                column.how = match &same.how {
                    How::Tree(_) => How::Tree(column.root),
                    how => how.clone(),
                };
                column.object = same.object;
                if let How::Classes(_) = column.how {
                    column.names.clone_from(&same.names);
                }
            }
        }
        let fields: Vec<_> = plan.columns.iter().map(field_spec).collect();
        if fields != of_first {
            return Err(fail!(
                Format,
                "other columns than {first_name} has: {}, expected {}",
                described(&fields),
                described(&of_first)
            )
            .at(&file.shard.location));
        }
        for (column, of_first) in plan.columns.iter().zip(&resolved.columns) {
            let is_same = match (&column.how, &of_first.how) {
                // Integers of each size are read alike.
                (How::Tree(_), How::Tree(_)) | (How::Int(_), How::Int(_)) => true,
                (how, other) => how == other,
            };
            let what = match (&column.names, &of_first.names) {
                (Some(names), Some(others)) if names != others => "names other classes",
                _ if !is_same => "has values of another type",
                _ if column.leaf.time_unit() != of_first.leaf.time_unit() => {
                    "has times of another unit"
                }
                _ => continue,
            };
            let error = fail!(
                Format,
                "its column {} {what} than in {first_name}: open the files as datasets of their own",
                super::Escaped(&column.name)
            );
            return Err(error.at(&file.shard.location));
        }
        file.plan = Arc::new(plan);
    }
    Ok(())
}

/// Warns of files that the names of others count, `train-00000-of-00003`, and that are not there.
fn warn_of_missing(shards: &Shards) {
    let mut found: BTreeMap<(&str, usize), usize> = BTreeMap::new();
    for shard in shards.all() {
        let name = shard.location.file_name();
        let Some((before, after)) = name.split_once("-of-") else { continue };
        let digits = after.bytes().take_while(u8::is_ascii_digit).count();
        let (Some((start, _)), Ok(count)) = (before.rsplit_once('-'), after[..digits].parse())
        else {
            continue;
        };
        *found.entry((start, count)).or_default() += 1;
    }
    for ((start, count), found) in found {
        // One file alone was asked for by its name.
        if found != count && shards.all().len() > 1 {
            warn(format_args!(
                "{}: {found} of the {count} files of {:?} are there: their samples are missing",
                shards.name(),
                format!("{start}-*-of-{count:05}")
            ));
        }
    }
}

fn field_spec(column: &Column) -> FieldSpec {
    FieldSpec { name: column.name.clone(), kind: column.how.kind() }
}

fn described(fields: &[FieldSpec]) -> String {
    let field =
        |field: &FieldSpec| format!("{} ({})", super::Escaped(&field.name), field.kind.described());
    fields.iter().map(field).collect::<Vec<_>>().join(", ")
}

/// Returns whether a column may have `each` values in every row of all files that is not null, by the numbers of values:
/// a row that is null counts as one.
fn fits_all(files: &[File], field: usize, each: u64) -> bool {
    files.iter().all(|file| {
        let fits = |group: usize| {
            let rows = file.groups.len_of(group);
            let all = rows.checked_mul(each);
            let missing = all.and_then(|all| all.checked_sub(file.chunks(group, field)[0].values));
            missing.is_some_and(|missing| match each.saturating_sub(1) {
                0 => missing == 0,
                of_null => missing.is_multiple_of(of_null) && missing / of_null <= rows,
            })
        };
        file.plan.columns.len() > field && (0..file.group_count()).all(fits)
    })
}

/// Returns whether the rows of a column have this shape: all of them, or those of row groups all over the files, as far as
/// [`CHECKED_BYTES`] go.
fn is_regular(files: &[File], field: usize, shape: &[u64], limits: &Limits) -> bool {
    let groups =
        files.iter().flat_map(|file| (0..file.group_count()).map(move |group| (file, group)));
    let groups: Vec<_> = groups.collect();
    let bytes = |(file, group): &(&File, usize)| {
        let chunk = &file.chunks(*group, field)[0];
        chunk.end - chunk.start
    };
    let all: u64 = groups.iter().map(bytes).sum();
    let step = all.div_ceil(CHECKED_BYTES).max(1) as usize;
    let chosen: Vec<_> = groups.into_iter().step_by(step).collect();
    let is_so = |(file, group): &(&File, usize)| {
        let leaf = &file.plan.columns[field].leaf;
        // A damaged row group is an error when its samples are read.
        let Ok(pages) = file.chunks(*group, field)[0].load_all(&file.shard, limits) else {
            return true;
        };
        let Ok(decoded) = leaf.decode(pages) else { return true };
        span::has_shape(leaf, &decoded, shape)
    };
    parallel::map(&chosen, is_so).is_ok_and(|found| found.into_iter().all(|is_so| is_so))
}

/// Returns how binary values are read: as images, if the first value that is not null begins as one.
fn binary(file: &File, field: usize, limits: &Limits) -> How {
    let column = &file.plan.columns[field];
    let first_of = |group: usize| -> Option<Vec<u8>> {
        let chunk = file.chunks(group, field).first()?;
        match directory(&file.shard, chunk, column, limits).ok()? {
            Directory::Extents { offsets, lens } => {
                let row = lens.iter().position(|len| *len != Directory::NULL && *len > 0)?;
                let size = u64::from(lens[row]).min(super::FORMAT_BYTES as u64);
                file.shard.bytes.copy(offsets[row], size).ok()
            }
            Directory::Pages { dictionary, pages } => {
                let (at, _) = pages.first()?;
                let loaded = chunk.load_one(&file.shard, *dictionary, *at, limits).ok()?;
                let span = Span::of_page(&column.leaf, loaded).ok()?;
                let first = (0..span.rows()).find_map(|row| span.bytes(row).ok())?;
                Some(first.iter().take(super::FORMAT_BYTES).copied().collect())
            }
        }
    };
    // Other row groups are looked at if the first ones are damaged or null.
    let first = (0..file.group_count().min(MOST_TRIED)).find_map(first_of);
    if first.is_some_and(|first| begins_as_image(&first)) { How::Image } else { How::Bytes }
}

/// Returns the shape of lists: as the features have it, or as values tell: all of a shape, or it without the first axis.
fn lists(
    column: &Column,
    dtype: super::NdType,
    lens: &[Option<u64>],
    of_values: impl FnOnce() -> Option<(Vec<u64>, bool)>,
) -> How {
    if let Some(shape) = lens.iter().copied().collect::<Option<Vec<u64>>>() {
        return How::Array(dtype, shape);
    }
    if let Some(row) = lens[1..].iter().copied().collect::<Option<Vec<u64>>>()
        && (lens.len() > 1 || column.is_of_objects)
    {
        return How::Rows(dtype, row);
    }
    let axes = column.leaf.axes.len();
    match of_values() {
        Some((shape, true)) => How::Array(dtype, shape),
        Some((row, false)) => How::Rows(dtype, row),
        // Inner lists that differ in length have no form as rows. Of several leaves, each row says so.
        None if column.is_of_several || axes == 1 => How::Rows(dtype, vec![1; axes - 1]),
        None => How::Tree(column.root),
    }
}

/// Returns the shape of lists that the first row groups have.
fn shape_of(
    files: &[File],
    file: &File,
    field: usize,
    limits: &Limits,
) -> Option<(Vec<u64>, bool)> {
    let leaf = &file.plan.columns[field].leaf;
    (0..file.group_count().min(MOST_TRIED)).find_map(|group| {
        let chunk = &file.chunks(group, field)[0];
        // A damaged row group is an error when its samples are read.
        let decoded = leaf.decode(chunk.load_all(&file.shard, limits).ok()?).ok()?;
        match span::shape_of(leaf, &decoded, |each| fits_all(files, field, each))? {
            (shape, true) if is_regular(files, field, &shape, limits) => Some((shape, true)),
            (shape, true) => Some((shape[1..].to_vec(), false)),
            (row, false) => (row.len() + 1 == leaf.axes.len()).then_some((row, false)),
        }
    })
}

fn facts(shards: &Shards, plan: &Arc<Plan>, samples: u64, mut print: Fingerprint) -> Facts {
    let fields: Arc<[FieldSpec]> = plan.columns.iter().map(field_spec).collect();
    print.fields(&fields);
    with_names(Facts { fingerprint: print.value(), ..shards.facts(fields, samples) }, plan)
}

/// Adds the names of classes, the fields of objects, and those of audio.
fn with_names(facts: Facts, plan: &Plan) -> Facts {
    let audio = plan.columns.iter().enumerate().filter(|(_, column)| column.is_audio);
    let mut facts = facts.with_audio(audio.map(|(field, _)| (field, None)));
    if let Some(names) = plan.class_names().cloned() {
        facts = facts.with_class_names(move || Ok(Some(names.clone())));
    }
    if let Some(objects) = plan.object_fields(&facts.fields) {
        facts = facts.with_object_fields(move || Ok(Some(objects.clone())));
    }
    facts
}

impl Source for Parquet {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn read(&self, sample: SampleId) -> Result<Record, BoxError> {
        let mut buffer = Buffer::default();
        let fields = 0..self.facts.fields.len();
        fields
            .map(|field| {
                buffer.forget();
                Ok(OwnedValue::from(self.value(sample, field, &mut buffer)?))
            })
            .collect()
    }

    fn value<'a>(
        &'a self,
        sample: SampleId,
        field: usize,
        buffer: &'a mut Buffer,
    ) -> Result<Value<'a>, BoxError> {
        Ok(self.borrowed_value(sample, field, buffer)?)
    }

    fn locate(&self, sample: SampleId, field: usize) -> Option<SampleLocation> {
        let cell = self.cell(sample, field).ok()?;
        let bytes = match self.find(&cell) {
            Ok(Found::Stored { offset, len }) => Some(offset..offset + len),
            _ => None,
        };
        let location = SampleLocation::in_file(cell.file.shard.location.text(), None);
        Some(SampleLocation { bytes, ..location })
    }

    /// The number of the row group.
    fn locality_group(&self, sample: SampleId) -> Option<u64> {
        let (file, row) = self.starts.locate(sample)?;
        let (group, _) = self.files[file].groups.locate(row)?;
        Some(self.first_groups[file] + group as u64)
    }

    fn begin(self: Arc<Self>, run: &RunPlan) -> Result<Option<Run>, BoxError> {
        let ahead = self.shards.ahead(run, Arc::clone(&self) as _)?;
        let begun = |shards| Run::new(Arc::new(Self { shards, ..(*self).clone() }));
        Ok(ahead.map(begun))
    }

    fn stored(&self) -> Option<&dyn StoredValues> {
        Some(self)
    }
}

impl StoredValues for Parquet {
    /// Parts of images are read of local files alone, as of tar files.
    fn image_extent(&self, sample: SampleId, field: usize) -> Option<ImageExtent> {
        let cell = self.cell(sample, field).ok()?;
        let shard = cell.shard;
        let is_local = matches!(shard.location, Location::Path(_));
        if cell.column.how != How::Image || !is_local || shard.bytes.in_memory().is_some() {
            return None;
        }
        match self.find(&cell) {
            Ok(Found::Stored { offset, len }) => {
                Some(ImageExtent { mode: None, size: Size::new(0, 0), start: offset, bytes: len })
            }
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
        let cell = self.cell(sample, field)?;
        let Found::Stored { offset, len } = self.find(&cell)? else {
            return Err("its page is compressed".into());
        };
        let read = cell.shard.bytes.read_part((offset, len), to, buffer.check.as_mut());
        Ok(read.map_err(|error| {
            cell.file.failed(cell.column, error).of_value(sample, &cell.column.name)
        })?)
    }
}
