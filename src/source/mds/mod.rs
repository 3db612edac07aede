//! MDS: the shards of mosaicml-streaming (`StreamingDataset`), read in any order.
//!
//! ```text
//! index.json ─▶ columns, shards ─▶ offsets.rs   where samples lie in a plain shard; read at opening
//!                              └─▶ unpacked.rs  a compressed shard, unpacked when it is needed
//! sample: u32 size of each column without a fixed one, then the values in the order of the columns
//!         value ─▶ encoding.rs ─▶ fields, with what known.rs says of them
//! ```

mod encoding;
mod hashes;
mod index;
mod known;
mod offsets;
#[cfg(test)]
mod tests;
mod unpacked;

use super::file::{LengthCheck, read_file};
use super::file_format::{MDS_INDEX as INDEX, MDS_INDEX_BYTES, MDS_SPLITS};
use super::file_pool;
use super::image_format::begins_as_image;
use super::lru_cache::LruCache;
use super::shards::{Extents, Shard, Shards};
use super::starts::Starts;
use super::{
    BoxError, Buffer, EncodedImage, Escaped, Facts, FieldKind, FieldSpec, Fingerprint, ImageMode,
    Location, NdType, Record, Run, RunPlan, SampleLocation, Source, StoredValues, Value, location,
    npy,
};
use crate::error::{AtPath as _, Error, ErrorKind, fail};
use crate::escape::shown;
use crate::parallel;
use crate::sample::{Limits, SampleId};
use crate::warnings;
use encoding::{ArrayBytes, Decoded, Encoding, Reading};
use index::{Column, Index, ListedFile, ListedShard, Packing};
use known::Known;
use offsets::Offsets;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use unpacked::{PackedShard, UnpackedShard};

/// The bytes that unpacked shards may take by default.
const CACHE_BYTES: u64 = 2 << 30;

/// The number of first samples that are read for the fields of columns whose type is that of their values.
const FIRST: u64 = 8;

/// The most samples whose sizes are read to find the longest value of a column.
const MOST_MEASURED: u64 = 1 << 18;

/// The most images of a list.
const MOST_IMAGES: usize = 256;

/// The memory that compressed shards of [`Mds`] may take, and limits on what a dataset may ask for.
///
/// ```no_run
/// use fuseloop::source::{Mds, MdsOptions};
///
/// let dataset = Mds::open("imagenet/train", &MdsOptions::default().cache_bytes(16 << 30))?;
/// # Ok::<(), fuseloop::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct MdsOptions {
    cache_bytes: u64,
    limits: Limits,
}

impl Default for MdsOptions {
    fn default() -> Self {
        Self { cache_bytes: CACHE_BYTES, limits: Limits::DEFAULT }
    }
}

impl MdsOptions {
    /// Sets how many bytes unpacked shards may take, 2 GiB by default. Beyond them, the shard that was read least recently
    /// is given up, and unpacked again when it is needed.
    #[must_use]
    pub fn cache_bytes(self, cache_bytes: u64) -> Self {
        Self { cache_bytes, ..self }
    }

    /// Sets the limits on what the dataset may ask for.
    #[must_use]
    pub fn limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }
}

/// Samples in MDS shards, read in any order.
///
/// Each column is a field; the table at the top of `source/mds/encoding.rs` lists the kinds. A list of images is a field
/// for each of its images: `frames_0`, `frames_1`. Shards are plain, or packed with zstd or gzip: a packed shard is
/// unpacked into memory as a whole ([`MdsOptions::cache_bytes`]), unless the plain one lies next to it. The order of
/// samples is that of the loader, not that of `StreamingDataset`.
///
/// ```no_run
/// use fuseloop::Loader;
/// use fuseloop::source::{Mds, MdsOptions, Source};
///
/// let dataset = Mds::open("imagenet/train", &MdsOptions::default())?;
/// println!("{} samples of {:?}", dataset.facts().samples, dataset.facts().fields);
/// let loader = Loader::from_source(dataset).batch_size(256).build()?;
/// # Ok::<(), fuseloop::Error>(())
/// ```
#[derive(Clone)]
pub struct Mds {
    facts: Facts,
    fields: Arc<[Field]>,
    store: Store,
}

/// How a field is read: its column, and the values of it.
#[derive(Debug)]
struct Field {
    column: usize,
    reading: Reading,
}

/// The values of columns, as they are stored.
#[derive(Clone)]
struct Store {
    shards: Shards,
    plan: Arc<Plan>,
}

/// The positions of all samples.
struct Plan {
    columns: Vec<Column>,
    /// The bytes of a sample before its values.
    head_bytes: u64,
    starts: Starts,
    tables: Vec<Table>,
    unpacked: LruCache<usize, UnpackedShard>,
    limits: Limits,
}

/// A shard.
enum Table {
    Plain { name: String, offsets: Offsets, listed: ListedFile },
    Packed { shard: PackedShard, listed: ListedFile },
}

/// Where the files of an index are.
enum Folder {
    Path(PathBuf),
    Url(String),
}

impl Folder {
    /// Returns the folder that a name stands for: its own, or that of the index.
    fn of(name: &Path) -> Result<Self, Error> {
        match name.to_str().filter(|text| text.contains("://")) {
            Some(url) => {
                if Location::Url(url.to_owned()).has_query() {
                    return Err(fail!(
                        Unsupported,
                        "an address with a query, which may be a signature of the index alone: copy the dataset, or open it \
                         without"
                    )
                    .at(Location::Url(url.to_owned())));
                }
                let folder = url.strip_suffix(INDEX).filter(|folder| folder.ends_with('/'));
                let folder = folder.unwrap_or(url).trim_end_matches('/');
                Ok(Self::Url(folder.to_owned()))
            }
            None if name.file_name().is_some_and(|name| name == INDEX) => {
                Ok(Self::Path(name.parent().unwrap_or(Path::new("")).to_owned()))
            }
            None => Ok(Self::Path(name.to_owned())),
        }
    }

    /// Returns the location of a file of the dataset.
    fn file(&self, name: &str) -> Location {
        match self {
            Self::Path(path) => Location::Path(path.join(name)),
            Self::Url(url) if url.starts_with("http") => {
                Location::Url(format!("{url}/{}", percent_encoded(name)))
            }
            Self::Url(url) => Location::Url(format!("{url}/{name}")),
        }
    }

    /// Reads the index.
    fn index(&self) -> Result<Vec<u8>, Error> {
        let location = self.file(INDEX);
        let mut text = vec![];
        match &location {
            Location::Path(path) => read_file(path, MDS_INDEX_BYTES, &mut text).at(path)?,
            Location::Url(_) => {
                let file = Shard::open(location.clone())?;
                let (len, most) = (file.bytes.len(), MDS_INDEX_BYTES);
                if len > most {
                    return Err(fail!(Memory, "{len} bytes, the limit is {most}").at(&location));
                }
                text = file.bytes.copy(0, len).at(&location)?;
            }
        }
        Ok(text)
    }

    fn name(&self) -> String {
        match self {
            Self::Path(path) => Escaped(&path.to_string_lossy()).to_string(),
            Self::Url(url) => Escaped(url).to_string(),
        }
    }
}

/// Returns a path as an address has it.
fn percent_encoded(path: &str) -> String {
    let of = |byte: u8| match byte {
        b'/' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    path.bytes().map(of).collect()
}

impl Mds {
    /// Opens the dataset in a folder, local or at an address, with the file `index.json`; or the dataset of such a file.
    ///
    /// The table at the beginning of each plain shard is read, several at a time.
    ///
    /// # Errors
    ///
    /// Fails if the index or a shard is missing or damaged, if a shard is packed in a format that is not read (br, bz2,
    /// snappy), or if a column is pickled.
    pub fn open(path: impl AsRef<Path>, options: &MdsOptions) -> Result<Self, Error> {
        let of_url = location::path_of_url(path.as_ref())?;
        let folder = Folder::of(of_url.as_deref().unwrap_or(path.as_ref()))?;
        if let Folder::Path(path) = &folder
            && let Some(split) = splits(path).next()
            && !path.join(INDEX).exists()
        {
            let all: Vec<&str> = splits(path).collect();
            return Err(fail!(
                Parameter,
                "the folder has splits and no {INDEX} of its own: open one of them, such as {} (found: {})",
                path.join(split).display(),
                all.join(", ")
            )
            .at(path));
        }
        let location = folder.file(INDEX);
        let index = Index::parse(&folder.index()?).at(&location)?;
        Self::of_index(&folder, index, options)
    }

    /// Opens a dataset whose only shard is in memory.
    #[cfg(any(test, all(feature = "spec", feature = "tables", feature = "write")))]
    pub(crate) fn from_bytes(
        index: &[u8],
        shard: &[u8],
        options: &MdsOptions,
    ) -> Result<Self, Error> {
        let Index { columns, shards, known } = Index::parse(index)?;
        let [listed] = <[ListedShard; 1]>::try_from(shards)
            .map_err(|shards| fail!(Format, "{} shards, expected 1", shards.len()))?;
        let held = Shards::new(vec![Shard::held(&listed.raw.name, shard)]);
        let chosen = match listed.packed {
            Some((packing, file)) => (Some(packing), file, listed.raw, listed.samples),
            None => (None, listed.raw.clone(), listed.raw, listed.samples),
        };
        Self::of_shards("held in memory", held, (columns, known), vec![chosen], options)
    }

    fn of_index(folder: &Folder, index: Index, options: &MdsOptions) -> Result<Self, Error> {
        let chosen: Vec<Chosen> =
            index.shards.into_iter().map(|shard| choose(folder, shard)).collect();
        let files: Vec<Location> =
            chosen.iter().map(|(_, file, ..)| folder.file(&file.name)).collect();
        let shards = Shards::at(&files).map_err(|error| match error.kind() {
            ErrorKind::NotFound => error.help(
                "the index lists this shard: copy the whole dataset (the local folder of a StreamingDataset has only the \
                 shards that it has read)",
            ),
            _ => error,
        })?;
        let columns = (index.columns, index.known);
        let mut opened = Self::of_shards(&folder.name(), shards, columns, chosen, options)?;
        if let Location::Path(path) = folder.file(INDEX) {
            let shards = opened.store.shards.clone();
            opened.facts = opened.facts.with_paths(move || {
                let files = shards.locations().filter_map(|location| match location {
                    Location::Path(path) => Some(path.clone()),
                    Location::Url(_) => None,
                });
                let all: Vec<PathBuf> = std::iter::once(path.clone()).chain(files).collect();
                Box::new(all.into_iter())
            });
        }
        Ok(opened)
    }

    fn of_shards(
        name: &str,
        shards: Shards,
        (columns, known): (Vec<Column>, Known),
        chosen: Vec<Chosen>,
        options: &MdsOptions,
    ) -> Result<Self, Error> {
        let mut print = Fingerprint::default();
        print.text("mds");
        for (_, _, raw, samples) in &chosen {
            print.text(&raw.name);
            print.number(raw.bytes);
            print.number(*samples);
            raw.hashes.iter().for_each(|(_, digest)| print.text(digest));
        }
        let unpacked_bytes = chosen
            .iter()
            .filter(|(packing, ..)| packing.is_some())
            .fold(0_u64, |sum, (_, _, raw, _)| sum.saturating_add(raw.bytes));
        let budget = options.cache_bytes;
        if unpacked_bytes > budget {
            warnings::warn(format_args!(
                "{name}: its packed shards unpack to {unpacked_bytes} bytes, and {budget} are kept: with a random order \
                 shards are unpacked again and again. Raise cache_bytes, unpack the shards next to their packed files, or \
                 take the order quasi_random, which reads shard by shard"
            ));
        }
        let store = Store::new(shards, columns, chosen, options)?;
        let samples = store.plan.starts.samples();
        if samples == 0 {
            return Err(fail!(Format, "{name}: no samples found"));
        }
        if samples > options.limits.max_samples {
            let max = options.limits.max_samples;
            return Err(fail!(Memory, "{name}: {samples} samples, the limit is {max}"));
        }
        let (specs, fields): (Vec<FieldSpec>, Vec<Field>) =
            store.fields(&known)?.into_iter().unzip();
        let fields: Arc<[Field]> = fields.into();
        print.fields(&specs);
        let facts = store.shards.facts(specs.into(), samples);
        let rereads_cheaply = facts.rereads_cheaply && unpacked_bytes <= budget;
        let mut facts = Facts {
            name: name.to_owned(),
            path: None,
            fingerprint: print.value(),
            rereads_cheaply,
            ..facts
        };
        let names = facts.fields.iter().enumerate();
        let audio = names.filter(|(_, field)| known.audio.contains(&field.name));
        let audio: Vec<_> = audio.map(|(field, _)| (field, None)).collect();
        facts = facts.with_audio(audio);
        if let Some(classes) = known.classes {
            facts = facts.with_class_names(move || Ok(Some(classes.clone())));
        }
        if let Some(objects) = known.objects.and_then(|objects| objects.among(&facts.fields)) {
            facts = facts.with_object_fields(move || Ok(Some(objects.clone())));
        }
        let facts = facts.with_longest(longest(store.clone(), Arc::clone(&fields)));
        Ok(Self { facts, fields, store })
    }

    /// Returns a value as its column has it, and what is said of it in errors.
    fn stored<'a>(
        &'a self,
        sample: SampleId,
        field: usize,
        buffer: &'a mut Vec<u8>,
        check: Option<&mut LengthCheck>,
    ) -> Result<Decoded<'a>, Error> {
        let fields = self.fields.len();
        let Field { column, reading } = self.fields.get(field).ok_or_else(|| {
            fail!(Field, "field {field} does not exist: the dataset has {fields} fields")
        })?;
        let bytes = self.store.value(sample, *column, buffer, check)?;
        let encoding = &self.store.plan.columns[*column].encoding;
        encoding.value(reading, bytes).map_err(|error| self.store.failed(sample, *column, &error))
    }
}

/// A shard's file, how it is packed, its plain file, and the number of its samples.
type Chosen = (Option<Packing>, ListedFile, ListedFile, u64);

/// Returns which file of a shard is read: the plain one if it is there, else the packed one.
fn choose(folder: &Folder, shard: ListedShard) -> Chosen {
    let ListedShard { samples, raw, packed } = shard;
    let is_unpacked = || match folder.file(&raw.name) {
        Location::Path(path) => {
            file_pool::regular(&path).is_ok_and(|found| found.len() == raw.bytes)
        }
        Location::Url(_) => false,
    };
    match packed {
        Some((packing, file)) if !is_unpacked() => (Some(packing), file, raw, samples),
        _ => (None, raw.clone(), raw, samples),
    }
}

/// Returns the folders in a folder that have an index and the name of a split.
fn splits(folder: &Path) -> impl Iterator<Item = &'static str> {
    MDS_SPLITS.into_iter().filter(|split| folder.join(split).join(INDEX).is_file())
}

impl Store {
    fn new(
        shards: Shards,
        columns: Vec<Column>,
        chosen: Vec<Chosen>,
        options: &MdsOptions,
    ) -> Result<Self, Error> {
        let budget = options.cache_bytes;
        let together: Vec<(&Shard, Chosen)> = shards.all().iter().zip(chosen).collect();
        let table = |(shard, chosen): &(&Shard, Chosen)| {
            table(shard, chosen, budget).map_err(|error| error.at(&shard.location))
        };
        let tables = parallel::map(&together, table)?.into_iter().collect::<Result<Vec<_>, _>>()?;
        let counts: Vec<u64> = together.iter().map(|(_, (.., samples))| *samples).collect();
        let starts = counts.into_iter().collect();
        let head_bytes = 4 * columns.iter().filter(|column| column.size.is_none()).count() as u64;
        let unpacked = LruCache::new(budget, |shard: &UnpackedShard| shard.bytes.len() as u64);
        let limits = options.limits;
        drop(together);
        let plan = Plan { columns, head_bytes, starts, tables, unpacked, limits };
        Ok(Self { shards, plan: Arc::new(plan) })
    }

    /// Returns the fields of all columns. The first samples are read for those whose values say what they are.
    fn fields(&self, known: &Known) -> Result<Vec<(FieldSpec, Field)>, Error> {
        let mut fields = vec![];
        for (column, Column { name, encoding, .. }) in self.plan.columns.iter().enumerate() {
            let mut add = |name: String, kind, reading| {
                fields.push((FieldSpec { name, kind }, Field { column, reading }));
            };
            let name = name.clone();
            match encoding {
                Encoding::Int { .. } | Encoding::IntText => {
                    add(name, FieldKind::Int, Reading::Plain);
                }
                Encoding::Float { .. } | Encoding::FloatText => {
                    add(name, FieldKind::Float, Reading::Plain);
                }
                Encoding::Str => add(name, FieldKind::Bytes, Reading::Plain),
                Encoding::Json => add(name, FieldKind::Json, Reading::Plain),
                Encoding::File | Encoding::Pil => add(name, FieldKind::RgbImage, Reading::Plain),
                Encoding::Bytes => {
                    let are_images = || {
                        self.first(column, |bytes| Ok(begins_as_image(bytes)))
                            .is_ok_and(|all| all.iter().all(|is_image| *is_image))
                    };
                    match !known.bytes.contains(&name) && are_images() {
                        true => add(name, FieldKind::RgbImage, Reading::Files),
                        false => add(name, FieldKind::Bytes, Reading::Plain),
                    }
                }
                Encoding::Array { dtype, shape } => {
                    let row = known.objects.as_ref().and_then(|objects| objects.get(&name)?.row());
                    let reading = match (dtype, shape, row) {
                        (Some(dtype), Some(shape), _) => Reading::Arrays(*dtype, shape.clone()),
                        (Some(dtype), None, Some((of, row))) if *dtype == of => {
                            Reading::Objects(of, row)
                        }
                        _ => arrays(&self.first(column, |bytes| {
                            let found = ArrayBytes::parse(*dtype, shape.as_deref(), bytes)?;
                            Ok((found.dtype, found.shape))
                        })?),
                    };
                    let kind = match &reading {
                        Reading::Arrays(dtype, shape) => {
                            FieldKind::NdArray { dtype: *dtype, shape: shape.clone() }
                        }
                        _ => FieldKind::Bytes,
                    };
                    add(name, kind, reading);
                }
                Encoding::List { skipped, .. } => {
                    let counts =
                        self.first(column, |bytes| Ok(encoding::elements(*skipped, bytes)?.len()))?;
                    let count = counts.into_iter().max().unwrap_or_default();
                    if !(1..=MOST_IMAGES).contains(&count) {
                        return Err(fail!(
                            Field,
                            "column {}: lists of {count} images in the first samples, expected 1 to {MOST_IMAGES}",
                            Escaped(&shown(&name))
                        )
                        .of_field(&name));
                    }
                    for nth in 0..count {
                        let name = format!("{name}_{nth}");
                        add(name, FieldKind::RgbImage, Reading::Element(nth));
                    }
                }
            }
        }
        Ok(fields)
    }

    /// Reads a column of the first samples. Damaged values are passed over, unless all are.
    fn first<T>(
        &self,
        column: usize,
        read: impl Fn(&[u8]) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        let (mut found, mut failed, mut buffer) = (vec![], None, vec![]);
        for sample in (0..self.plan.starts.samples().min(FIRST)).map(SampleId) {
            let value = self.value(sample, column, &mut buffer, None);
            match value
                .and_then(|bytes| read(bytes).map_err(|error| self.failed(sample, column, &error)))
            {
                Ok(value) => found.push(value),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        match failed {
            Some(error) if found.is_empty() => Err(error),
            _ => Ok(found),
        }
    }

    /// Returns the shard of a sample, and its number there.
    fn locate(&self, sample: SampleId) -> Result<(usize, usize), Error> {
        let samples = self.plan.starts.samples();
        let (shard, number) = self.plan.starts.locate(sample).ok_or_else(|| {
            fail!(Parameter, "sample {} does not exist: the dataset has {samples}", sample.0)
        })?;
        Ok((shard, usize::try_from(number.0).unwrap_or(usize::MAX)))
    }

    /// Reads the bytes of a column's value.
    fn value<'a>(
        &'a self,
        sample: SampleId,
        column: usize,
        buffer: &'a mut Vec<u8>,
        mut check: Option<&mut LengthCheck>,
    ) -> Result<&'a [u8], Error> {
        let (shard, number) = self.locate(sample)?;
        let failed = |error: Error| self.failed(sample, column, &error);
        let none = || fail!(Damaged, "the shard has no such sample");
        let file = &self.shards.all()[shard];
        let plan = &*self.plan;
        match &plan.tables[shard] {
            Table::Plain { offsets, .. } => {
                let all = offsets.range(number).ok_or_else(none).map_err(failed)?;
                let len = all.end - all.start;
                let head = len.min(plan.head_bytes);
                let head = file
                    .bytes
                    .get_with((all.start, head), buffer, check.as_deref_mut())
                    .map_err(failed)?;
                let Range { start, end } = plan.range(column, head, len).map_err(failed)?;
                let at = (all.start + start, end - start);
                file.bytes.get_with(at, buffer, check).map_err(failed)
            }
            Table::Packed { shard: packed, .. } => {
                let unpacked = plan.unpacked.get(shard, || packed.unpack(file))?;
                let all = unpacked.offsets.range(number).ok_or_else(none).map_err(failed)?;
                let all = &unpacked.bytes[all.start as usize..all.end as usize];
                let head = &all[..all.len().min(plan.head_bytes as usize)];
                let range = plan.range(column, head, all.len() as u64).map_err(failed)?;
                buffer.clear();
                buffer.extend_from_slice(&all[range.start as usize..range.end as usize]);
                Ok(buffer)
            }
        }
    }

    /// Says which value of which file an error is about.
    fn failed(&self, sample: SampleId, column: usize, error: &Error) -> Error {
        let Ok((shard, number)) = self.locate(sample) else { return error.copy() };
        let name = shown(&self.plan.columns[column].name);
        let name = Escaped(&name);
        let text = format_args!("sample {number} of the shard, {name}");
        let location = &self.shards.all()[shard].location;
        match &self.plan.tables[shard] {
            Table::Plain { offsets, .. } => {
                let at = offsets.range(number).map_or(0, |range| range.start);
                fail!(Damaged, "{text} (from byte {at} on): {error}").at(location).named_byte(at)
            }
            Table::Packed { .. } => fail!(Damaged, "{text}: {error}").at(location),
        }
    }
}

/// Reads the table of a shard.
fn table(file: &Shard, chosen: &Chosen, budget: u64) -> Result<Table, Error> {
    let (packing, listed, raw, samples) = chosen;
    let (len, wanted) = (file.bytes.len(), listed.bytes);
    if let Some(Packing::Other(name)) = packing {
        return Err(fail!(
            Unsupported,
            "packed by {}, and only zstd and gz are read: unpack it next to the packed file, as StreamingDataset does, or \
             write the dataset again",
            Escaped(&shown(name))
        ));
    }
    if len != wanted {
        return Err(fail!(
            Damaged,
            "{len} bytes, and the index lists {wanted}: copy the shard again"
        ));
    }
    let listed = listed.clone();
    if let Some(packing) = packing {
        if raw.bytes > budget {
            let unpacked = raw.bytes;
            return Err(fail!(
                Memory,
                "it unpacks to {unpacked} bytes, and unpacked shards may take {budget}: raise cache_bytes, or unpack it \
                 next to the packed file"
            ));
        }
        let (packing, raw) = (packing.clone(), raw.clone());
        let shard = PackedShard { packing, raw, samples: *samples };
        return Ok(Table::Packed { shard, listed });
    }
    let bytes = Offsets::table_bytes(*samples, len).unwrap_or_default();
    let offsets = Offsets::parse(&file.bytes.copy(0, bytes)?, *samples, len)?;
    Ok(Table::Plain { name: listed.name.clone(), offsets, listed })
}

/// Returns how arrays of these types and shapes are read.
fn arrays(found: &[(NdType, Vec<u64>)]) -> Reading {
    let Some((dtype, shape)) = found.first() else { return Reading::Plain };
    let row = shape.split_first().map(|(_, row)| row);
    let differs = found.iter().any(|(_, other)| other.first() != shape.first());
    let is_ragged = found.iter().all(|(other, shape)| {
        other == dtype && row.is_some() && shape.split_first().map(|(_, row)| row) == row
    });
    match row {
        Some(row) if differs && is_ragged => Reading::Rows(*dtype, row.to_vec()),
        _ => Reading::Arrays(*dtype, shape.clone()),
    }
}

impl Plan {
    /// Returns the range of a column's value in a sample of `len` bytes, by the sizes at its beginning.
    fn range(&self, column: usize, head: &[u8], len: u64) -> Result<Range<u64>, Error> {
        if (head.len() as u64) < self.head_bytes {
            return Err(fail!(Damaged, "a sample of {len} bytes has no sizes of its columns"));
        }
        let mut sizes = head.chunks_exact(4);
        let (mut at, mut range) = (self.head_bytes, 0..0);
        for (number, Column { size, .. }) in self.columns.iter().enumerate() {
            let size = size.map_or_else(
                || match sizes.next() {
                    Some(word) => u32::from_le_bytes([word[0], word[1], word[2], word[3]]),
                    None => 0,
                },
                |size| size,
            );
            let end = at + u64::from(size);
            if number == column {
                range = at..end;
            }
            at = end;
        }
        if at != len {
            return Err(fail!(Damaged, "a sample of {len} bytes whose columns have {at}"));
        }
        let (size, max) = (range.end - range.start, self.limits.max_sample_bytes);
        if size > max {
            return Err(fail!(Damaged, "{size} bytes, the limit is {max}"));
        }
        Ok(range)
    }
}

impl Extents for Plan {
    /// A packed shard is read as a whole when it is needed.
    fn extents(&self, sample: SampleId, _: &[usize], out: &mut Vec<(usize, Range<u64>)>) {
        let Some((shard, number)) = self.starts.locate(sample) else { return };
        if let Table::Plain { offsets, .. } = &self.tables[shard] {
            out.extend(offsets.range(number.0 as usize).map(|range| (shard, range)));
        }
    }
}

/// Returns the function that finds the size of a field's longest value: by the sizes in all samples, of local plain
/// shards. It is asked for before a batch has a column of bytes.
fn longest(
    store: Store,
    fields: Arc<[Field]>,
) -> impl Fn(usize) -> Option<u64> + Send + Sync + 'static {
    let known: Vec<OnceLock<Option<u64>>> = fields.iter().map(|_| OnceLock::new()).collect();
    move |field| {
        let Field { column, reading } = fields.get(field)?;
        let is_read = match store.plan.columns[*column].encoding {
            Encoding::Str | Encoding::Json | Encoding::Array { .. } => true,
            Encoding::Bytes => *reading == Reading::Plain,
            _ => false,
        };
        if !is_read {
            return None;
        }
        let bytes = *known[field].get_or_init(|| store.longest(*column));
        Some(match (&store.plan.columns[*column].encoding, reading) {
            (Encoding::Json, _) => bytes? + 1,
            (_, Reading::Rows(dtype, row)) => {
                // The elements have no more bytes than the value, and the header is longest for most rows.
                let shape: Vec<u64> =
                    std::iter::once(u64::MAX).chain(row.iter().copied()).collect();
                bytes? + npy::file(*dtype, &shape, &[]).len() as u64
            }
            _ => bytes?,
        })
    }
}

impl Store {
    /// Returns the size of the longest value of a column; `None` if that would take reading whole shards.
    fn longest(&self, column: usize) -> Option<u64> {
        if self.plan.starts.samples() > MOST_MEASURED {
            return None;
        }
        let of_shard = |(file, table): &(&Shard, &Table)| {
            let Table::Plain { offsets, .. } = table else { return None };
            if matches!(file.location, Location::Url(_)) {
                return None;
            }
            let (mut longest, mut buffer) = (0, vec![]);
            let samples = (0..).map_while(|number| offsets.range(number));
            for all in samples {
                let (len, head) = (all.end - all.start, self.plan.head_bytes);
                let head = file.bytes.get(all.start, len.min(head), &mut buffer).ok()?;
                // A damaged sample has no values.
                if let Ok(range) = self.plan.range(column, head, len) {
                    longest = longest.max(range.end - range.start);
                }
            }
            Some(longest)
        };
        let shards: Vec<_> = self.shards.all().iter().zip(&self.plan.tables).collect();
        let all = parallel::map(&shards, of_shard).ok()?;
        all.into_iter().collect::<Option<Vec<u64>>>()?.into_iter().max()
    }
}

impl Source for Mds {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn read(&self, sample: SampleId) -> Result<Record, BoxError> {
        let mut buffer = vec![];
        let value = |field| Ok(self.stored(sample, field, &mut buffer, None)?.into());
        (0..self.fields.len()).map(value).collect()
    }

    fn value<'a>(
        &'a self,
        sample: SampleId,
        field: usize,
        buffer: &'a mut Buffer,
    ) -> Result<Value<'a>, BoxError> {
        let Buffer { bytes, check, held, .. } = buffer;
        Ok(match self.stored(sample, field, bytes, check.as_mut())? {
            Decoded::Borrowed(value) => value,
            Decoded::Json(text) => Value::Json((**held.insert(Arc::new(text))).as_ref()),
            Decoded::Bytes(file) => Value::Bytes((**held.insert(Arc::new(file))).as_ref()),
            Decoded::Pixels(width, height, pixels) => {
                let bytes = (**held.insert(Arc::new(pixels))).as_ref();
                Value::Image(EncodedImage { mode: ImageMode::Raw, width, height, bytes })
            }
        })
    }

    /// The byte range is that of the whole sample; a packed shard has none.
    fn locate(&self, sample: SampleId, _: usize) -> Option<SampleLocation> {
        let (shard, number) = self.store.locate(sample).ok()?;
        let (name, bytes) = match &self.store.plan.tables[shard] {
            Table::Plain { name, offsets, .. } => (name, offsets.range(number)),
            Table::Packed { shard, .. } => (&shard.raw.name, None),
        };
        let key = format!("{name}:{number}");
        let file = self.store.shards.all()[shard].location.text();
        Some(SampleLocation { bytes, ..SampleLocation::in_file(file, Some(key.into())) })
    }

    /// The index of the shard.
    fn locality_group(&self, sample: SampleId) -> Option<u64> {
        self.store.locate(sample).ok().map(|(shard, _)| shard as u64)
    }

    fn begin(self: Arc<Self>, run: &RunPlan) -> Result<Option<Run>, BoxError> {
        let ahead = self.store.shards.ahead(run, Arc::clone(&self.store.plan) as _)?;
        let begun = |shards| {
            let store = Store { shards, plan: Arc::clone(&self.store.plan) };
            Run::new(Arc::new(Self { store, ..(*self).clone() }))
        };
        Ok(ahead.map(begun))
    }

    fn stored(&self) -> Option<&dyn StoredValues> {
        Some(self)
    }
}

impl StoredValues for Mds {
    fn changed_files(&self) -> Vec<(SampleId, String)> {
        let shards: Vec<_> = self.store.shards.all().iter().zip(&self.store.plan.tables).collect();
        let differs = |(file, table): &(&Shard, &Table)| {
            let (Table::Plain { listed, .. } | Table::Packed { listed, .. }) = table;
            hashes::difference(file, &listed.hashes)
        };
        let Ok(found) = parallel::map(&shards, differs) else { return vec![] };
        let first = |(shard, text): (usize, Option<String>)| {
            Some((self.store.plan.starts.first(shard), text?))
        };
        found.into_iter().enumerate().filter_map(first).collect()
    }
}

/// Shows no values.
impl fmt::Debug for Mds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mds").field("facts", &self.facts).finish_non_exhaustive()
    }
}
