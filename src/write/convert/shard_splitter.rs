//! Writes shards one after another: several threads encode samples, one thread lays them out and splits
//! them.
//!
//! A shard ends before a sample
//!
//! | if                                       | option                                 |
//! |------------------------------------------|----------------------------------------|
//! | the shard has its share of the samples   | `shards`, `max_samples`                |
//! | the sample would exceed the maximum size | `max_bytes`, if the shard has a sample |
//!
//! Keys need only be unique within their shard. So the content of a shard depends on nothing but the
//! sample it begins at.

use super::journal::{ConversionId, OutputChunk, folder_of};
use super::layout::{EncodedSample, SamplePieces, ShardLayout};
use super::{
    DatasetConversion, ImageFiles, Journal, OutputFormat, ProgressCounter, WriteOptions,
    WriteReport,
};
use crate::error::{Error, fail};
use crate::panicked::caught;
use crate::sample::SampleId;
#[cfg(feature = "parquet")]
use crate::source::FieldKind;
use crate::source::{OwnedValue, begins_as_image};
use crate::threads::ThreadsError;
use crate::write::atomic_file::{AtomicFile, sync_dir};
use crate::write::cancel;
use crate::write::encode_threads::EncodeThreads;
use crate::write::error::{cancelled, io_error, write_error};
use crate::write::shards::{FirstValues, MOST_MDS_BYTES, MdsLayout, MdsShard, Member, Template};
#[cfg(feature = "parquet")]
use crate::write::shards::{ParquetLayout, ParquetShard};
use crate::write::step::StepObserver;
use crate::write::value::WriteSampleError;
use std::collections::HashSet;
use std::fs;
use std::io::{self, Write as _};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The size of the write buffer in bytes.
const BUFFER: usize = 1 << 20;

/// The default number of samples in a shard, as in WebDataset's `ShardWriter`.
const MAX_SAMPLES: u64 = 100_000;
/// The default size of a shard in bytes, as in WebDataset's `ShardWriter`.
const MAX_BYTES: u64 = 3_000_000_000;
/// The default size of a Parquet file in bytes, as in `push_to_hub`.
const MAX_PARQUET_BYTES: u64 = 500_000_000;
/// The default size of an MDS shard in bytes, as in `MDSWriter`.
const MAX_MDS_BYTES: u64 = 1 << 26;
/// The number of samples that are looked at before Parquet files or MDS shards are written.
const FIRST_SAMPLES: u64 = 100;

/// The limits of shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ShardLimits {
    samples: u64,
    cut: ShardEnd,
    /// The number of shards, as far as their names contain it.
    count: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ShardEnd {
    /// This number of shards, whose sample counts differ by at most one.
    Even(u64),
    Most {
        samples: u64,
        bytes: u64,
    },
}

impl ShardLimits {
    fn new(template: &Template, samples: u64, options: &WriteOptions) -> Result<Self, Error> {
        let WriteOptions { max_samples, max_bytes, shards, .. } = *options;
        let refused = |reason: &str| Err(fail!(Parameter, "{reason}"));
        let is_beton = template.has_extension("beton");
        let (is_parquet, is_mds) =
            (template.has_extension("parquet"), template.has_extension("mds"));
        let most_samples = if is_parquet || is_mds { u64::MAX } else { MAX_SAMPLES };
        let most_bytes = match (is_beton, is_parquet, is_mds) {
            (true, ..) => u64::MAX,
            (_, true, _) => MAX_PARQUET_BYTES,
            (.., true) => MAX_MDS_BYTES,
            _ => MAX_BYTES,
        };
        let format_most = if is_mds { MOST_MDS_BYTES } else { u64::MAX };
        let even = |shards: u64| ShardEnd::Even(shards.clamp(1, samples.max(1)));
        let cut = match (max_samples, max_bytes, shards) {
            (None, None, None) if !template.has_number() => ShardEnd::Even(1),
            (None, None, Some(1)) => ShardEnd::Even(1),
            _ if !template.has_number() => {
                return refused(
                    "several shards need a number in the name, such as train-{000000}.tar",
                );
            }
            (None, None, Some(shards)) => even(shards),
            (_, Some(_), _) if is_beton => {
                return refused(
                    "several .beton files are cut by samples: set shards or max_samples, not max_bytes",
                );
            }
            (None, ..) | (_, Some(_), _) if template.has_count() => {
                return refused(
                    "{N} needs a known number of shards: set shards, or max_samples without max_bytes",
                )
                .map_err(|error: Error| {
                    error.help("give `--shards`, or `--max-samples` without `--max-bytes`")
                });
            }
            (None, None, None) => ShardEnd::Most { samples: most_samples, bytes: most_bytes },
            (samples, bytes, _) => ShardEnd::Most {
                samples: samples.unwrap_or(u64::MAX),
                bytes: bytes.unwrap_or(u64::MAX).min(format_most),
            },
        };
        let count = match cut {
            ShardEnd::Even(shards) => shards,
            ShardEnd::Most { samples: most, .. } => samples.div_ceil(most).max(1),
        };
        Ok(Self { samples, cut, count })
    }

    /// Returns the end of a shard that begins at `first`, unless it reaches its maximum size before.
    fn end(&self, shard: u64, first: u64) -> u64 {
        match self.cut {
            ShardEnd::Even(shards) => share(shard + 1, shards, self.samples),
            ShardEnd::Most { samples, .. } => first.saturating_add(samples),
        }
    }

    /// Returns true if the number of shards does not depend on the sizes of the samples.
    fn knows_count(&self) -> bool {
        self.max_bytes() == u64::MAX
    }

    fn max_bytes(&self) -> u64 {
        match self.cut {
            ShardEnd::Even(_) => u64::MAX,
            ShardEnd::Most { bytes, .. } => bytes,
        }
    }
}

/// Returns where part `part` of `parts` begins among `count` things.
fn share(part: u64, parts: u64, count: u64) -> u64 {
    // At most `count`.
    (u128::from(part) * u128::from(count) / u128::from(parts)) as u64
}

impl DatasetConversion<'_> {
    /// Returns the shards of `count` that this process writes.
    fn shards_of_rank(&self, count: u64) -> Range<u64> {
        let Some(ranks) = self.options.ranks else { return 0..count };
        let (rank, world) = (u64::from(ranks.rank()), u64::from(ranks.world_size()));
        share(rank, world, count)..share(rank + 1, world, count)
    }

    /// Returns the samples that are converted: those of the part, or of this process.
    pub(super) fn samples(&self) -> Range<u64> {
        self.part.clone().unwrap_or_else(|| self.own_samples())
    }

    /// Returns the samples that this process converts.
    pub(super) fn own_samples(&self) -> Range<u64> {
        let samples = self.source.len();
        let (Some(_), Some(shards)) = (self.options.ranks, self.options.shards) else {
            return 0..samples;
        };
        let shards = shards.clamp(1, samples.max(1));
        let own = self.shards_of_rank(shards);
        share(own.start, shards, samples)..share(own.end, shards, samples)
    }

    /// Writes tar or TFRecord shards, or several `.beton` files.
    pub(super) fn shards(
        &self,
        template: &Template,
        print: &ConversionId,
    ) -> Result<WriteReport, Error> {
        let first = self.first_samples(template)?;
        let shards = first.as_ref().and_then(|first| first.shards).or(self.options.shards);
        let options = WriteOptions { shards, ..self.options.clone() };
        let plan = ShardLimits::new(template, self.source.len(), &options)?;
        let own = self.shards_of_rank(plan.count);
        let has_index =
            || self.form == OutputFormat::Mds && fs::symlink_metadata(&self.dst).is_ok();
        let taken = || match self.options.ranks {
            None if has_index() => Ok(Some(self.dst.clone())),
            None => Ok(other_shards(template, &[])?.pop()),
            Some(_) => {
                let mut own = own.clone().map(|shard| template.path(shard, plan.count));
                Ok(own.find(|path| fs::symlink_metadata(path).is_ok()))
            }
        };
        // Readers of MDS shards take those that the index lists.
        let has_others = self.form != OutputFormat::Mds;
        if (self.options.overwrite || self.options.ranks.is_some()) && has_others {
            // Checked before anything is written, as far as the number of shards is known by then.
            let all = (0..plan.count).map(|shard| template.path(shard, plan.count));
            plan.knows_count()
                .then(|| refuse_others(template, &all.collect::<Vec<_>>()))
                .transpose()?;
        }
        if self.form == OutputFormat::Beton {
            return self.with_journal(print, taken, |journal| {
                self.write_betons(template, plan, print, journal)
            });
        }
        let layout = match first {
            None => ShardLayout::new(self.form, &self.fields, &self.beside)?,
            Some(first) if self.form == OutputFormat::Mds => {
                let FirstSamples { texts, jpegs, pictures, .. } = &first;
                let audio = &self.audio_fields();
                let first = FirstValues { texts, jpegs, pictures, audio };
                let most = Some(plan.max_bytes()).filter(|&bytes| bytes < MOST_MDS_BYTES);
                MdsLayout::new(&self.fields, &self.beside, &first, most).map(ShardLayout::Mds)?
            }
            Some(first) => self.table_layout(&first)?,
        };
        let beside = layout.beside(&self.fields, &self.beside);
        if let Some(path) = beside.of_others(template, &template.path(own.start, plan.count)) {
            let reason = "readers would take it for a file of the new shards, because it is named \
                          after shards like them: choose another name, or delete this file";
            return Err(super::refused(&path, reason));
        }
        self.with_journal(print, taken, |journal| {
            self.write_shards(template, &layout, plan, journal)
        })
    }

    /// Writes several `.beton` files, each by a conversion of its own.
    fn write_betons(
        &self,
        template: &Template,
        plan: ShardLimits,
        print: &ConversionId,
        journal: &mut Journal<'_>,
    ) -> Result<WriteReport, Error> {
        let own = self.shards_of_rank(plan.count);
        let path = |shard: usize| template.path(own.start + shard as u64, plan.count);
        journal.check(|shard, unit| is_whole(&path(shard), unit))?;
        let (resumed, samples) = (journal.end(), self.samples());
        // What is there without an entry in the journal was written by an attempt that was interrupted.
        let options = WriteOptions {
            max_samples: None,
            shards: None,
            overwrite: true,
            ..self.options.clone()
        };
        while journal.end() < samples.end || (journal.chunks().is_empty() && !own.is_empty()) {
            let number = journal.chunks().len();
            let first = journal.end();
            let part = first..plan.end(own.start + number as u64, first).min(samples.end);
            let one = DatasetConversion {
                dst: path(number),
                options: &options,
                part: Some(part.clone()),
                fields: self.fields.clone(),
                images: self.images.clone(),
                beside: self.beside.clone(),
                ..*self
            };
            let print = ConversionId { samples: part, ..print.clone() };
            journal.add(one.beton(&print)?.0)?;
        }
        Ok(journal.report(resumed))
    }

    fn write_shards(
        &self,
        template: &Template,
        layout: &ShardLayout,
        plan: ShardLimits,
        journal: &mut Journal<'_>,
    ) -> Result<WriteReport, Error> {
        let own = self.shards_of_rank(plan.count);
        let path = |shard: usize| template.path(own.start + shard as u64, plan.count);
        journal.check(|shard, unit| is_whole(&path(shard), unit))?;
        let samples = self.samples();
        let (first, end) = (journal.end(), samples.end);
        let progress = self.progress(journal);
        let pictures = self.image_files();
        let mut cutter = ShardSplitter {
            job: self,
            layout,
            plan,
            template,
            journal,
            progress,
            own: &own,
            open: None,
        };
        let threads = self.threads()?;
        EncodeThreads { first, end, threads }.run(
            |id| {
                cancel::check(&self.options.cancel)?;
                layout.make(self.source, &self.fields, &pictures, id)
            },
            EncodedSample::held,
            |id, encoded| cutter.take(id, encoded),
            |source| ThreadsError::Refused { wanted: threads, source }.into(),
        )?;
        cutter.finish_all(end)?;
        let journal = cutter.journal;
        if self.options.ranks.is_none_or(|ranks| ranks.rank() == 0) {
            layout.beside(&self.fields, &self.beside).put(&template.named(), &self.watch)?;
        }
        let written: Vec<PathBuf> = (0..journal.chunks().len()).map(path).collect();
        let mut report = journal.report(first);
        if let ShardLayout::Mds(layout) = layout {
            let bytes = self.write_index(layout, &written, journal)?;
            (report.files, report.bytes) = (report.files + 1, report.bytes + bytes);
            report.notes.extend(note_of_others(template, &written)?);
        } else if self.options.overwrite && self.options.ranks.is_none() {
            refuse_others(template, &written)?;
        }
        report.notes.splice(0..0, template.note_of_order(own.start + written.len() as u64));
        report.notes.splice(0..0, layout.notes().iter().cloned());
        Ok(report)
    }

    /// Writes the index of MDS shards, which makes them a dataset, and returns its size. A shard whose samples were all left
    /// out is not listed, unless there is no other.
    fn write_index(
        &self,
        layout: &MdsLayout,
        shards: &[PathBuf],
        journal: &Journal<'_>,
    ) -> Result<u64, Error> {
        let is_empty = journal.chunks().iter().all(|unit| unit.samples == 0);
        let listed = shards.iter().zip(journal.chunks());
        let listed = listed.filter(|(_, unit)| unit.samples > 0 || is_empty).map(|(path, unit)| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            (name, unit.samples, unit.bytes)
        });
        let text = layout.index(listed)?;
        let target = AtomicFile::create(&self.dst)?;
        let at_target = write_error(target.partial_path());
        target.file(&self.watch).write_all(&text).map_err(at_target)?;
        target.commit(&self.watch)?;
        Ok(text.len() as u64)
    }

    /// Deletes the index of MDS shards that are about to be replaced, so that no dataset has some shards of each.
    fn delete_index(&self) -> Result<(), Error> {
        match fs::remove_file(&self.dst) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            deleted => {
                deleted.map_err(io_error("delete it", &self.dst))?;
                let folder = folder_of(&self.dst);
                sync_dir(folder).map_err(io_error("sync", folder))
            }
        }
    }

    /// Looks at the first samples of what becomes Parquet files or MDS shards; `None` for other formats.
    fn first_samples(&self, template: &Template) -> Result<Option<FirstSamples>, Error> {
        match self.form {
            OutputFormat::Parquet if !cfg!(feature = "parquet") => {
                return Err(fail!(
                    Unsupported,
                    "this build can't write Parquet files: build fuseloop with the feature `parquet`"
                ));
            }
            OutputFormat::Parquet | OutputFormat::Mds => {}
            _ => return Ok(None),
        }
        if self.images.iter().any(|image| image.bit_planes) {
            let reason = "Parquet files and MDS shards hold images that other programs read: bit planes are stored in .beton \
                          files and tar shards";
            return Err(fail!(Parameter, "{reason}"));
        }
        let samples = self.source.len();
        let (mut read, mut bytes) = (0, 0);
        // Whether a field's bytes are texts; none if it has had none.
        let mut texts = vec![None; self.fields.len()];
        let (mut jpegs, mut pictures) = (None, vec![false; self.fields.len()]);
        let files = ImageFiles::new(&self.images, self.has_targets(), self.options.limits);
        for id in (0..samples.min(FIRST_SAMPLES)).map(SampleId) {
            cancel::check(&self.options.cancel).map_err(|_| cancelled())?;
            // An error of a sample is that of its row.
            let Ok(Ok(mut record)) = caught(|| self.source.read(id)) else { continue };
            read += 1;
            for ((value, text), picture) in record.iter().zip(&mut texts).zip(&mut pictures) {
                let found = value.borrowed().bytes();
                bytes += found.len().max(8) as u64;
                if !found.is_empty() {
                    *text = Some(text.unwrap_or(true) && std::str::from_utf8(found).is_ok());
                    *picture |= begins_as_image(found);
                }
            }
            if self.form == OutputFormat::Mds && jpegs.is_none() {
                let stored =
                    caught(|| files.to_files(&mut record, &self.fields, id).map(|_| record));
                jpegs = stored
                    .ok()
                    .and_then(Result::ok)
                    .map(|record| record.iter().map(is_jpeg).collect());
            }
        }
        let WriteOptions { max_samples, max_bytes, shards, .. } = self.options;
        let is_counted =
            template.has_count() && (max_samples, max_bytes, shards) == (&None, &None, &None);
        let all = u128::from(bytes) * u128::from(samples) / u128::from(read.max(1_u64));
        let shards = is_counted.then(|| all.div_ceil(u128::from(MAX_PARQUET_BYTES)).max(1) as u64);
        let texts = texts.into_iter().map(|text| text == Some(true)).collect();
        Ok(Some(FirstSamples { texts, jpegs: jpegs.unwrap_or_default(), pictures, shards }))
    }

    /// Returns the columns of Parquet files.
    #[cfg(feature = "parquet")]
    fn table_layout(&self, first: &FirstSamples) -> Result<ShardLayout, Error> {
        let label = self.source.field_index("label");
        let is_int = |index: &usize| self.fields[*index].kind == FieldKind::Int;
        // Other names may mean a number that is none of a class, where the names of classes are those of objects.
        let has_objects = self.has_positions;
        let is_named = |index: &usize| {
            let name = self.source.fields()[*index].name.rsplit(['/', '.']).next();
            !has_objects || matches!(name, Some("label" | "cls" | "class"))
        };
        let label = label.filter(is_int).filter(is_named);
        let audio = self.audio_fields();
        ParquetLayout::new(&self.fields, &self.beside, (&first.texts, &audio), label)
            .map(ShardLayout::Parquet)
    }

    #[cfg(not(feature = "parquet"))]
    fn table_layout(&self, _: &FirstSamples) -> Result<ShardLayout, Error> {
        ShardLayout::new(self.form, &self.fields, &self.beside)
    }
}

/// What the first samples tell of all.
struct FirstSamples {
    /// True of the fields whose bytes are texts.
    texts: Vec<bool>,
    /// True of the fields whose first image is stored as a JPEG; empty where that does not matter.
    jpegs: Vec<bool>,
    /// True of the fields that have bytes which begin as an image.
    pictures: Vec<bool>,
    /// The number of shards, if their names have it and no option says it.
    shards: Option<u64>,
}

/// Returns true if a shard is at its path as the journal has recorded it.
fn is_whole(path: &Path, unit: &OutputChunk) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_file() && found.len() == unit.bytes)
}

/// Refuses files that readers would take for further shards of a set that is `written` under the template. They are not
/// deleted: what wrote them is not known.
fn refuse_others(template: &Template, written: &[PathBuf]) -> Result<(), Error> {
    if !template.folder().exists() {
        return Ok(());
    }
    let Some(path) = other_shards(template, written)?.into_iter().min() else { return Ok(()) };
    let reason = format!(
        "readers would take it for another of the {} new files, because it is named like them: delete it, or choose another \
         name",
        written.len()
    );
    Err(super::refused(&path, &reason))
}

/// Returns what a user must know of files that are named like MDS shards and that their index does not list.
fn note_of_others(template: &Template, written: &[PathBuf]) -> Result<Option<String>, Error> {
    let others = other_shards(template, written)?;
    let count = others.len();
    Ok(others.into_iter().min().map(|path| match count {
        1 => format!("{path:?} is not in the new index: delete it"),
        _ => format!("{count} files such as {path:?} are not in the new index: delete them"),
    }))
}

/// Returns whether a value is a JPEG file.
fn is_jpeg(value: &OwnedValue) -> bool {
    matches!(value, OwnedValue::Image(image) if image.bytes.starts_with(b"\xff\xd8\xff"))
}

/// Returns the files whose names match the template, other than those in `known`.
pub(super) fn other_shards(template: &Template, known: &[PathBuf]) -> Result<Vec<PathBuf>, Error> {
    let known: HashSet<&Path> = known.iter().map(PathBuf::as_path).collect();
    let list = io_error("list", template.folder());
    let listing = fs::read_dir(template.folder()).map_err(list)?;
    let named = listing
        .flatten()
        .filter(|entry| entry.file_name().to_str().is_some_and(|name| template.matches(name)));
    let paths = named.map(|entry| template.folder().join(entry.file_name()));
    Ok(paths.filter(|path| !known.contains(&**path)).collect())
}

/// Writes samples to shards, in order.
struct ShardSplitter<'a, 'j> {
    job: &'a DatasetConversion<'a>,
    layout: &'a ShardLayout,
    plan: ShardLimits,
    template: &'a Template,
    journal: &'a mut Journal<'j>,
    progress: ProgressCounter<'a>,
    /// The shards that this process writes.
    own: &'a Range<u64>,
    open: Option<OpenShard<'a>>,
}

/// A shard that is being written.
struct OpenShard<'a> {
    target: AtomicFile,
    watch: StepObserver<'a>,
    buffer: Vec<u8>,
    /// The number of bytes passed to the system.
    written: u64,
    /// The end of the shard, unless it reaches its maximum size before.
    end: u64,
    unit: OutputChunk,
    keys: HashSet<String>,
    held: Option<HeldSamples<'a>>,
}

/// The samples of a shard that are not written one by one.
enum HeldSamples<'a> {
    Mds(MdsShard<'a>),
    /// The rows of a Parquet file.
    #[cfg(feature = "parquet")]
    Parquet(Box<ParquetShard<'a>>),
}

impl<'a> HeldSamples<'a> {
    /// Returns none for a format whose samples are written one by one.
    fn new(layout: &'a ShardLayout) -> io::Result<Option<Self>> {
        Ok(match layout {
            ShardLayout::Tar(_) | ShardLayout::TfRecord(_) => None,
            ShardLayout::Mds(layout) => Some(Self::Mds(MdsShard::new(layout))),
            #[cfg(feature = "parquet")]
            ShardLayout::Parquet(layout) => {
                Some(Self::Parquet(Box::new(ParquetShard::new(layout)?)))
            }
        })
    }

    /// Returns the number of bytes that are not written yet.
    fn bytes(&self) -> u64 {
        match self {
            Self::Mds(shard) => shard.held(),
            #[cfg(feature = "parquet")]
            Self::Parquet(shard) => shard.held(),
        }
    }

    /// Adds a sample, and returns what is to be written.
    fn add(&mut self, members: Vec<Member>) -> io::Result<Vec<u8>> {
        match self {
            Self::Mds(shard) => {
                members.into_iter().for_each(|sample| shard.add(sample.bytes));
                Ok(vec![])
            }
            #[cfg(feature = "parquet")]
            Self::Parquet(shard) => shard.add(members),
        }
    }

    /// Returns the pieces that are to be written at the end.
    fn finish(self) -> io::Result<Box<dyn Iterator<Item = Vec<u8>> + 'a>> {
        Ok(match self {
            Self::Mds(shard) => Box::new(shard.finish()),
            #[cfg(feature = "parquet")]
            Self::Parquet(shard) => Box::new(std::iter::once(shard.finish()?)),
        })
    }
}

impl<'a> ShardSplitter<'a, '_> {
    /// Takes the next sample.
    fn take(
        &mut self,
        id: SampleId,
        encoded: Result<EncodedSample, WriteSampleError>,
    ) -> Result<(), Error> {
        if self.job.options.cancel.is_cancelled() {
            return Err(cancelled());
        }
        if self.open.as_ref().is_some_and(|shard| shard.end <= id.0) {
            self.finish(id.0)?;
        }
        match encoded {
            Ok(encoded) => self.put(id, encoded),
            Err(cause) => {
                let entry = self.job.skipped_entry(id, cause)?;
                self.open(id.0)?.unit.skipped.add(entry);
                self.progress.add(0);
                Ok(())
            }
        }
    }

    fn put(&mut self, id: SampleId, encoded: EncodedSample) -> Result<(), Error> {
        let (layout, most) = (self.layout, self.plan.max_bytes());
        let shard = self.open(id.0)?;
        if shard.held.is_some() {
            let size = layout.held_bytes(&encoded);
            if shard.len().saturating_add(size) > most && shard.unit.samples > 0 {
                self.finish(id.0)?;
            }
            self.progress.add(size);
            let shard = self.open(id.0)?;
            let most = layout.most_bytes();
            if shard.len().saturating_add(size) > most {
                return Err(fail!(
                    Parameter,
                    "sample {id} does not fit into its shard, which has at most {most} bytes: set more shards, or max_bytes \
                     instead"
                )
                .of_sample(id));
            }
            shard.unit.images.add(&encoded.images);
            return shard.hold(encoded.members);
        }
        let mut laid = layout.lay(&encoded, id, &shard.keys);
        let grown = shard.len() + laid.size() + layout.end().len() as u64;
        if grown > most && shard.unit.samples > 0 {
            self.finish(id.0)?;
            laid = layout.lay(&encoded, id, &HashSet::new());
        }
        self.progress.add(laid.size());
        let shard = self.open(id.0)?;
        shard.unit.images.add(&encoded.images);
        shard.add(laid)
    }

    /// Returns the shard for the next sample; a new shard begins at sample `first`.
    fn open(&mut self, first: u64) -> Result<&mut OpenShard<'a>, Error> {
        let shard = match self.open.take() {
            Some(shard) => shard,
            None => {
                let number = self.own.start + self.journal.chunks().len() as u64;
                let target = AtomicFile::create(&self.template.path(number, self.plan.count))?;
                let end = self.plan.end(number, first);
                OpenShard::new(target, self.layout, self.job.watch, (first, end))?
            }
        };
        Ok(self.open.insert(shard))
    }

    /// Finishes the open shard, which has the samples up to `end`.
    fn finish(&mut self, end: u64) -> Result<(), Error> {
        let Some(shard) = self.open.take() else { return Ok(()) };
        if self.job.form == OutputFormat::Mds && self.journal.chunks().is_empty() {
            self.job.delete_index()?;
        }
        let unit = shard.finish(self.layout.end(), end)?;
        self.journal.add(unit)
    }

    /// Finishes the last shard. A dataset without samples has one shard as well.
    fn finish_all(&mut self, end: u64) -> Result<(), Error> {
        if self.journal.chunks().is_empty() && !self.own.is_empty() {
            self.open(0)?;
        }
        self.finish(end)
    }
}

impl<'a> OpenShard<'a> {
    fn new(
        target: AtomicFile,
        layout: &'a ShardLayout,
        watch: StepObserver<'a>,
        (first, end): (u64, u64),
    ) -> Result<Self, Error> {
        let held = HeldSamples::new(layout).map_err(write_error(target.partial_path()))?;
        Ok(Self {
            target,
            watch,
            buffer: vec![],
            written: 0,
            end,
            unit: OutputChunk { first, files: 1, ..OutputChunk::default() },
            keys: HashSet::new(),
            held,
        })
    }

    /// Returns the size of the shard so far in bytes.
    fn len(&self) -> u64 {
        let held = self.held.as_ref().map_or(0, HeldSamples::bytes);
        self.written + self.buffer.len() as u64 + held
    }

    /// Adds a sample that is written later.
    fn hold(&mut self, members: Vec<Member>) -> Result<(), Error> {
        let Some(held) = &mut self.held else { return Ok(()) };
        let bytes = held.add(members).map_err(write_error(self.target.partial_path()))?;
        self.unit.samples += 1;
        self.write(&bytes)
    }

    fn add(&mut self, laid: SamplePieces<'_>) -> Result<(), Error> {
        for (before, bytes, after) in &laid.pieces {
            [before, *bytes, after].into_iter().try_for_each(|piece| self.write(piece))?;
        }
        if !laid.key.is_empty() {
            self.keys.insert(laid.key);
        }
        self.unit.samples += 1;
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if self.buffer.len() + bytes.len() > BUFFER {
            self.flush()?;
        }
        if bytes.len() > BUFFER {
            return self.give(bytes);
        }
        if self.buffer.try_reserve(bytes.len()).is_err() {
            self.flush()?;
            return self.give(bytes);
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        let mut buffer = std::mem::take(&mut self.buffer);
        self.give(&buffer)?;
        buffer.clear();
        self.buffer = buffer;
        Ok(())
    }

    fn give(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.target
            .rest(self.written, &self.watch)
            .write_all(bytes)
            .map_err(write_error(self.target.partial_path()))?;
        self.written += bytes.len() as u64;
        Ok(())
    }

    /// Finishes the shard, which has the samples up to `end`, and moves it to its path.
    fn finish(mut self, ending: &[u8], end: u64) -> Result<OutputChunk, Error> {
        if let Some(held) = self.held.take() {
            let mut pieces = held.finish().map_err(write_error(self.target.partial_path()))?;
            pieces.try_for_each(|piece| self.write(&piece))?;
        }
        self.write(ending)?;
        self.flush()?;
        self.target.commit(&self.watch)?;
        Ok(OutputChunk { end, bytes: self.written, ..self.unit })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(name: &str, samples: u64, options: &WriteOptions) -> Result<ShardLimits, Error> {
        ShardLimits::new(&Template::parse(Path::new(name)).unwrap(), samples, options)
    }

    fn limits(samples: u64, bytes: u64, shards: u64) -> WriteOptions {
        let some = |n| (n > 0).then_some(n);
        WriteOptions {
            max_samples: some(samples),
            max_bytes: some(bytes),
            shards: some(shards),
            ..WriteOptions::default()
        }
    }

    #[test]
    fn even_shards_share_all_samples() {
        for (samples, shards) in [(10, 3), (9, 3), (2, 5), (0, 4), (u64::MAX, 7)] {
            let plan = plan("x-{0}-of-{N}.tar", samples, &limits(0, 0, shards)).unwrap();
            let ends: Vec<u64> = (0..plan.count).map(|k| plan.end(k, 0)).collect();
            assert_eq!(*ends.last().unwrap(), samples);
            let sizes: Vec<u64> =
                ends.iter().scan(0, |at, end| Some(end - std::mem::replace(at, *end))).collect();
            let (least, most) = (sizes.iter().min().unwrap(), sizes.iter().max().unwrap());
            assert!(most - least <= 1 && (samples == 0 || *least > 0), "{sizes:?}");
        }
    }

    #[test]
    fn names_and_limits_go_together() {
        assert!(plan("x.tar", 9, &limits(0, 0, 0)).is_ok());
        assert!(plan("x.tar", 9, &limits(5, 0, 0)).is_err());
        assert!(plan("x.tar", 9, &limits(0, 0, 2)).is_err());
        assert!(plan("x-{0}-of-{N}.tar", 9, &limits(0, 5, 0)).is_err());
        assert!(plan("x-{0}-of-{N}.tar", 9, &limits(0, 0, 0)).is_err());
        assert_eq!(plan("x-{0}-of-{N}.tar", 9, &limits(4, 0, 0)).unwrap().count, 3);
        assert_eq!(plan("x-{0}.tar", 9, &limits(4, 0, 0)).unwrap().end(2, 8), 12);
    }
}
