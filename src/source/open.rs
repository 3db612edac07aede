//! Opens a dataset by its name, which tells the format.
//!
//! | named                                            | opened as                           |
//! |--------------------------------------------------|-------------------------------------|
//! | a folder; `photos/**/*.jpg` (jpeg, png, webp, tiff) | a [`Folder`]: class = folder's name |
//! | the same of audio files or video files           | the same                            |
//! | a folder with `metadata.jsonl` or `metadata.csv` | a [`Folder`]: that table              |
//! | a folder with the files of MNIST or CIFAR        | their training split, in any order  |
//! | `t10k-images-idx3-ubyte`, `test_batch.bin`, ...  | that file of MNIST or CIFAR         |
//! | a folder in COCO's layout; its `instances_*.json` | an [`Annotated`]: images with objects |
//! | a folder in the layout of Pascal VOC             | the same                            |
//! | `.csv`, `.tsv`, `.jsonl`                         | a [`Folder`]: a table of paths      |
//! | `.tar`: one, or by braces, `::` and `*`          | a [`Tar`], in any order             |
//! | `.tar.gz`, `.tgz`, `.tar.zst`                    | a [`TarStream`], in sequence        |
//! | `.tfrecord(s)`, `.tfrec`, `train-00000-of-01024` | [`TfRecords`], in any order         |
//! | the same with `.gz`                              | a [`TfRecordStream`], in sequence   |
//! | a folder with the `index.json` of MDS shards, or that file | an [`Mds`], in any order  |
//! | a folder with `meta/info.json` and `data`         | a `LeRobot`: its rows, in any order |
//! | `.parquet`: one, or by braces, `::` and `*`; a folder of them | their rows, in any order |
//! | `hf://datasets/ORG/NAME`, or a folder in it      | its Parquet files                   |
//! | `.beton`, and anything else                      | a [`Beton`]                         |
//! | several `.beton`, by braces, `::` and `*`        | their [`Concat`], in any order      |
//!
//! Tables, tar files and TFRecord files need the features `tables`, `tar` and `tfrecord`; without them, the
//! error names the feature.
//!
//! All files of a name have one format, which the end of the name tells.

use super::annotations::{self, Annotated};
use super::beton::IS_IT_BETON;
#[cfg(not(all(
    feature = "mds",
    feature = "parquet",
    feature = "tar",
    feature = "tfrecord",
    feature = "video"
)))]
use super::feature::NeedsFeature;
use super::file_format::{FileFormat, LEROBOT_INFO, MDS_INDEX, MDS_SPLITS};
use super::fixed_length;
use super::other_formats;
#[cfg(feature = "parquet")]
use super::parquet::{self, Parquet};
use super::shards::{Shard, Shards};
use super::{
    Beton, Concat, Escaped, Folder, FolderOptions, Location, OpenOptions, Source, Stream,
    file_pool, location,
};
#[cfg(all(feature = "parquet", feature = "video"))]
use super::{LeRobot, LeRobotOptions};
#[cfg(feature = "mds")]
use super::{Mds, MdsOptions};
#[cfg(feature = "tar")]
use super::{Tar, TarOptions, TarStream};
#[cfg(feature = "tfrecord")]
use super::{TfOptions, TfRecordStream, TfRecords};
use crate::error::{Damage, Error, ErrorKind, fail};
use crate::parallel;
use fuseloop_ops::internals::DefaultFloats;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An open dataset, by how it can be read.
///
/// ```no_run
/// use fuseloop::Loader;
/// use fuseloop::source::{Dataset, Source};
///
/// let dataset = Dataset::open("train-{000..127}.tar")?;
/// if let Some(source) = dataset.source() {
///     println!("{} samples of {:?}", source.len(), source.fields());
/// }
/// let loader = Loader::from_dataset(dataset).batch_size(256).build()?;
/// # Ok::<(), fuseloop::Error>(())
/// ```
#[derive(Clone)]
pub enum Dataset {
    /// A `.beton` file, in any order, page by page.
    Beton(Arc<Beton>),
    /// A folder, a table or a pattern of images, in any order.
    Folder(Arc<Folder>),
    /// Anything else that can be read in any order.
    Source(Arc<dyn Source>),
    /// A dataset that can only be read from its beginning to its end.
    Stream(Stream),
}

impl Dataset {
    /// Opens the dataset of this name. The table at the top of `source/open.rs` lists the formats by
    /// name.
    ///
    /// # Errors
    ///
    /// Fails if nothing is there, or if the dataset does not have the format that its name tells.
    pub fn open(name: impl AsRef<Path>) -> Result<Self, Error> {
        open_dataset(name.as_ref(), &FolderOptions::default())
    }

    /// Returns the dataset as a [`Source`], which can be read in any order; `None` for a stream.
    #[must_use]
    pub fn source(&self) -> Option<Arc<dyn Source>> {
        match self {
            Self::Beton(beton) => Some(Arc::clone(beton) as _),
            Self::Folder(folder) => Some(Arc::clone(folder) as _),
            Self::Source(source) => Some(Arc::clone(source)),
            Self::Stream(_) => None,
        }
    }

    /// Joins files one after another.
    fn of_betons(files: Vec<Beton>) -> Result<Self, Error> {
        Ok(match <[Beton; 1]>::try_from(files) {
            Ok([one]) => Self::Beton(Arc::new(one)),
            Err(files) => {
                let parts = files.into_iter().map(|file| Arc::new(file) as Arc<dyn Source>);
                Self::Source(Arc::new(Concat::new(parts)?))
            }
        })
    }

    fn of_format(
        format: FileFormat,
        (path, more): (&Path, &[PathBuf]),
        options: &FolderOptions,
    ) -> Result<Self, Error> {
        // Numbers in texts are read by arithmetic.
        DefaultFloats::during(|| Self::read_format(format, (path, more), options))
    }

    /// Opens the dataset of a name; `more` are names of other shards of it.
    #[cfg_attr(
        not(any(feature = "tar", feature = "tfrecord")),
        allow(unused_variables, reason = "no format that this build reads has shards")
    )]
    fn read_format(
        format: FileFormat,
        (path, more): (&Path, &[PathBuf]),
        options: &FolderOptions,
    ) -> Result<Self, Error> {
        Ok(match format {
            FileFormat::Beton => match several(path) {
                None => Self::Beton(Arc::new(beton(path)?)),
                Some(names) => Self::of_betons(betons(names)?)?,
            },
            FileFormat::Folder => {
                let options = options.clone().listing_or(saved_listing(path));
                Self::Folder(Arc::new(Folder::open(path, &options)?))
            }
            FileFormat::FixedLength => {
                Self::Source(Arc::new(fixed_length::open(path, &options.limits)?))
            }
            FileFormat::Annotated => {
                Self::Source(Arc::new(Annotated::open(path, &options.limits)?))
            }
            #[cfg(feature = "parquet")]
            FileFormat::Parquet => Self::Source(Arc::new(Parquet::open(
                path,
                options.take_split().0,
                options.class_numbers(),
                &options.limits,
            )?)),
            #[cfg(not(feature = "parquet"))]
            FileFormat::Parquet => {
                let reason = NeedsFeature { what: "Parquet files", feature: "parquet" };
                return Err(left_out(path, reason));
            }
            #[cfg(feature = "tar")]
            FileFormat::Tar => {
                let shards = located(path, more)?;
                Self::Source(Arc::new(Tar::at(&shards, &TarOptions::default())?))
            }
            #[cfg(feature = "tar")]
            FileFormat::TarStream => {
                let shards = located(path, more)?;
                Self::Stream(TarStream::at(&shards, &TarOptions::default())?.into())
            }
            #[cfg(not(feature = "tar"))]
            FileFormat::Tar | FileFormat::TarStream => {
                return Err(left_out(path, NeedsFeature { what: "tar files", feature: "tar" }));
            }
            #[cfg(feature = "tfrecord")]
            FileFormat::TfRecords => {
                let shards = located(path, more)?;
                Self::Source(Arc::new(TfRecords::at(&shards, &TfOptions::default())?))
            }
            #[cfg(feature = "tfrecord")]
            FileFormat::TfRecordStream => {
                let shards = located(path, more)?;
                Self::Stream(TfRecordStream::at(&shards, &TfOptions::default())?.into())
            }
            #[cfg(feature = "mds")]
            FileFormat::Mds => {
                let mds = MdsOptions::default().limits(options.limits);
                Self::Source(Arc::new(Mds::open(path, &mds)?))
            }
            #[cfg(not(feature = "mds"))]
            FileFormat::Mds => {
                return Err(left_out(path, NeedsFeature { what: "MDS shards", feature: "mds" }));
            }
            #[cfg(all(feature = "parquet", feature = "video"))]
            FileFormat::LeRobot => {
                let lerobot = LeRobotOptions::default().limits(options.limits);
                Self::Source(Arc::new(LeRobot::open(path, &lerobot)?))
            }
            #[cfg(not(all(feature = "parquet", feature = "video")))]
            FileFormat::LeRobot => {
                let feature = if cfg!(feature = "parquet") { "video" } else { "parquet" };
                return Err(left_out(path, NeedsFeature { what: "LeRobot's datasets", feature }));
            }
            #[cfg(not(feature = "tfrecord"))]
            FileFormat::TfRecords | FileFormat::TfRecordStream => {
                let reason = NeedsFeature { what: "TFRecord files", feature: "tfrecord" };
                return Err(left_out(path, reason));
            }
        })
    }
}

/// Opens the dataset of this name as [`Dataset::open`] does, with options for a folder. The
/// [saved listing](saved_listing) beside a folder is used unless the options name another.
///
/// # Errors
///
/// Fails as [`Dataset::open`] does.
pub fn open_dataset(path: &Path, options: &FolderOptions) -> Result<Dataset, Error> {
    let of_url = location::path_of_url(path)?;
    let path = of_url.as_deref().unwrap_or(path);
    check_name(path)?;
    let format = FileFormat::of(path);
    if let (Some(split), options) = options.take_split()
        && format != FileFormat::Parquet
    {
        let whole = path.join(split);
        if !whole.is_dir() {
            let reason = format!("no folder {:?} for `split`", whole.display().to_string());
            return Err(Error::boxed(reason.into(), ErrorKind::Parameter));
        }
        return open_dataset(&whole, &options);
    }
    let has_classes = options.class_numbers().is_some() && format != FileFormat::Parquet;
    if format != FileFormat::Folder && (has_classes || options.are_of_folders()) {
        let dataset = Escaped(&path.to_string_lossy()).to_string();
        let reason = format!(
            "{dataset} is neither a folder of images nor a table: `label` and the column options are only for these, and \
             `classes` also for Parquet files"
        );
        return Err(Error::boxed(reason.into(), ErrorKind::Parameter));
    }
    // A single file has no links in it, and its name may be one.
    let has_files = format == FileFormat::Annotated || path.is_dir();
    if format != FileFormat::Folder && has_files && options.links_are_restricted() {
        let dataset = Escaped(&path.to_string_lossy()).to_string();
        let reason = format!(
            "{dataset} is neither a folder of images, audio or videos nor a table: `links` is only for these, and the files of \
             this dataset are read through links. `find FOLDER -type l` lists its links: remove those, and leave the setting \
             out"
        );
        return Err(Error::boxed(reason.into(), ErrorKind::Parameter));
    }
    Dataset::of_format(format, (path, &[]), options)
}

/// Opens shards of tar or TFRecord files by a list of their names, each of which may stand for several: the list means what
/// the names mean with `::` between them. Returns `None` if these are not shards of one format.
///
/// # Errors
///
/// Fails as [`Dataset::open`] does.
pub fn open_shards(names: &[PathBuf]) -> Result<Option<Dataset>, Error> {
    let [first, more @ ..] = names else { return Ok(None) };
    let format = FileFormat::of(first);
    let is_of_shards = matches!(
        format,
        FileFormat::Tar
            | FileFormat::TarStream
            | FileFormat::TfRecords
            | FileFormat::TfRecordStream
    );
    if !is_of_shards || more.iter().any(|name| FileFormat::of(name) != format) {
        return Ok(None);
    }
    names.iter().try_for_each(|name| check_name(name))?;
    Dataset::of_format(format, (first, more), &FolderOptions::default()).map(Some)
}

/// Refuses names that can't be meant as they stand, unless something is called so.
///
/// | name          | what was meant                                                              |
/// |---------------|-----------------------------------------------------------------------------|
/// | ``            | a variable that is not set                                                  |
/// | `~/x`         | the home folder, by which a shell replaces `~` unless it is quoted          |
/// | `s3:/bucket/x` | an address that went through Python's `pathlib`, which drops a slash       |
fn check_name(path: &Path) -> Result<(), Error> {
    let text = path.to_string_lossy();
    let starts = |begin: &str| text.starts_with(begin) && !text[begin.len()..].starts_with('/');
    let advice = if text.is_empty() {
        "the name of the dataset is empty".to_owned()
    } else if text == "~" || text.starts_with("~/") {
        format!(
            "{}: no such file or folder: `~` is not replaced by the home folder here, write the whole path",
            Escaped(&text)
        )
    } else if ["s3:/", "gs:/", "hf:/", "http:/", "https:/", "file:/"].into_iter().any(starts) {
        format!(
            "{}: no such file or folder: an address has two slashes after the colon (Python's `Path` drops one: pass a text)",
            Escaped(&text)
        )
    } else {
        return Ok(());
    };
    let first = path.components().next().map(|first| Path::new(first.as_os_str()).exists());
    if first == Some(true) {
        return Ok(());
    }
    Err(Error::boxed(advice.into(), ErrorKind::NotFound))
}

/// Returns whether this is the name of a dataset of MNIST's or CIFAR's files, whose labels are read without its
/// images.
#[must_use]
pub fn is_fixed_length(path: &Path) -> bool {
    FileFormat::of(path) == FileFormat::FixedLength
}

/// Returns whether this is the name of a dataset of images with annotated objects, whose classes are read without
/// the images.
#[must_use]
pub fn is_annotated(path: &Path) -> bool {
    FileFormat::of(path) == FileFormat::Annotated
}

/// Returns whether this is the name of Parquet files.
#[must_use]
pub fn is_parquet(path: &Path) -> bool {
    FileFormat::of(path) == FileFormat::Parquet
}

/// Returns whether this is the name of a dataset, but no `.beton` file or folder of classes, whose labels are read without
/// the rest of their samples.
#[must_use]
pub fn has_labels_apart(path: &Path) -> bool {
    matches!(FileFormat::of(path), FileFormat::FixedLength | FileFormat::Annotated)
}

/// Returns the files that names of shards stand for.
#[cfg(any(feature = "tar", feature = "tfrecord"))]
fn located(first: &Path, more: &[PathBuf]) -> Result<Vec<Location>, Error> {
    let mut found = vec![];
    for name in std::iter::once(first).chain(more.iter().map(PathBuf::as_path)) {
        let text = name.to_str().ok_or_else(|| {
            let reason = format!("{}: shards need names in UTF-8", name.display());
            Error::boxed(reason.into(), ErrorKind::Parameter)
        })?;
        found.extend(Location::parse(text)?);
    }
    Ok(found)
}

/// Returns the error for a dataset in a format that this build leaves out.
#[cfg(not(all(
    feature = "mds",
    feature = "parquet",
    feature = "tar",
    feature = "tfrecord",
    feature = "video"
)))]
fn left_out(path: &Path, reason: NeedsFeature) -> Error {
    let reason = format!("{}: {reason}", Escaped(&path.to_string_lossy()));
    Error::boxed(reason.into(), ErrorKind::Unsupported)
}

/// Returns the path where the [listing](Folder::save_listing) of a folder is looked for: beside the
/// folder, as `FOLDER.fidx`.
#[must_use]
pub fn saved_listing(folder: &Path) -> PathBuf {
    // `photos/` and `photos` have the same listing.
    let mut path = folder.components().collect::<PathBuf>().into_os_string();
    path.push(".fidx");
    path.into()
}

/// Opens a `.beton` file by its path or its address.
fn beton(path: &Path) -> Result<Beton, Error> {
    let options = OpenOptions::default();
    let Some(url) = path.to_str().filter(|text| text.contains("://")) else {
        return Beton::open(path, &options).map_err(unknown);
    };
    let shard = Shard::open(Location::Url(url.to_owned()))?;
    Beton::of_shard(&shard, &options).map_err(unknown)
}

/// Returns the text of a name that stands for several files; `None` if it is the name of one file.
fn several(path: &Path) -> Option<&str> {
    let text = path.to_str().filter(|_| !path.exists())?;
    location::is_several(text).then_some(text)
}

/// Opens all `.beton` files that a text names, several at a time. Of many files, a few are open at a time.
fn betons(names: &str) -> Result<Vec<Beton>, Error> {
    let shards = Shards::open(names)?;
    let options = OpenOptions::default();
    let open = |shard: &Shard| Beton::of_shard(shard, &options);
    let opened = parallel::map(shards.all(), open)?;
    opened.into_iter().map(|file| file.map_err(unknown)).collect()
}

/// Says of a file that is no `.beton` file, and not called one, what it is, or that its extension tells no other format.
fn unknown(error: Error) -> Error {
    let is_named_so = |path: &Path| path.extension().is_some_and(|extension| extension == "beton");
    let Some(path) = error.path().filter(|path| !is_named_so(path)) else { return error };
    if error.damage_found() != Some(Damage::OtherFormat) {
        return error;
    }
    match other_formats::what_to_do(path) {
        Some(what) => fail!(Format, "no dataset: {what}")
            .help("`fuseloop info --help` lists the kinds of datasets")
            .at(path),
        None => fail!(
            Format,
            "{}, and its extension is not one of .tar, .tfrecord, .csv, .tsv and .jsonl",
            error.text()
        )
        .help(IS_IT_BETON)
        .at(path),
    }
}

impl FileFormat {
    fn of(path: &Path) -> Self {
        if path.is_dir() {
            return match () {
                () if fixed_length::is_folder(path) => Self::FixedLength,
                () if has_mds_index(path) => Self::Mds,
                () if path.join(LEROBOT_INFO).is_file() && path.join("data").is_dir() => {
                    Self::LeRobot
                }
                () if annotations::is_folder(path) => Self::Annotated,
                #[cfg(feature = "parquet")]
                () if parquet::is_folder(path) => Self::Parquet,
                () => Self::Folder,
            };
        }
        if fixed_length::is_file(path) {
            return Self::FixedLength;
        }
        if path.file_name().is_some_and(|name| name == MDS_INDEX) && is_mds_index(path) {
            return Self::Mds;
        }
        if annotations::is_file(path) {
            return Self::Annotated;
        }
        let Some(text) = path.to_str().filter(|_| !path.is_file()) else {
            return Self::of_name(&path.file_name().unwrap_or_default().to_string_lossy());
        };
        // The end of a pattern tells the format, as the files that it finds do.
        let last = location::parts(text).next_back().unwrap_or(text);
        if location::is_folder_of_hub(last) {
            return Self::Parquet;
        }
        // `*.{wav,mp3}` ends as its last choice does.
        let choices = last.strip_suffix('}').and_then(|last| last.rsplit_once('{'));
        let last = match choices {
            Some((begin, choices)) => {
                format!("{begin}{}", choices.rsplit(',').next().unwrap_or_default())
            }
            None => last.to_owned(),
        };
        Self::of_name(Location::Url(last).file_name())
    }
}

/// Returns whether a folder, or one of its splits, has the index of MDS shards.
fn has_mds_index(folder: &Path) -> bool {
    let split = |split: &&str| is_mds_index(&folder.join(split).join(MDS_INDEX));
    is_mds_index(&folder.join(MDS_INDEX)) || MDS_SPLITS.iter().any(split)
}

/// Returns whether a file begins as the index of MDS shards.
fn is_mds_index(path: &Path) -> bool {
    let begins = |mut file: std::fs::File| {
        let mut head = [0; 256];
        let count = file.read(&mut head).unwrap_or_default();
        let text = String::from_utf8_lossy(&head[..count]).into_owned();
        let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        text.starts_with("{\"shards\":[") || text.starts_with("{\"version\":2,\"shards\":[")
    };
    file_pool::regular(path).and_then(|_| file_pool::open(path)).is_ok_and(begins)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_is_told_by_the_name() {
        let kinds = [
            ("a/train-{000..255}.tar", FileFormat::Tar),
            ("a.tar::b.tar", FileFormat::Tar),
            ("s3://bucket/x-{0..9}.tar.gz", FileFormat::TarStream),
            ("x.tgz", FileFormat::TarStream),
            ("X.TAR.ZST", FileFormat::TarStream),
            ("d/*.tfrecord", FileFormat::TfRecords),
            ("train-*-of-01024", FileFormat::TfRecords),
            ("train-00000-of-01024.gz", FileFormat::TfRecordStream),
            ("x.tfrec.gz", FileFormat::TfRecordStream),
            ("labels.tsv", FileFormat::Folder),
            ("photos/**/*.JPEG", FileFormat::Folder),
            ("photos/**/*.{jpg,png}", FileFormat::Folder),
            ("speech/**/*.{wav,Flac}", FileFormat::Folder),
            ("word.mp3", FileFormat::Folder),
            ("clips/**/*.{avi,Mp4}", FileFormat::Folder),
            ("https://host/a.beton?version=x.tar", FileFormat::Beton),
            ("train-{000..015}.beton", FileFormat::Beton),
            ("a.beton::b.beton", FileFormat::Beton),
            ("s3://bucket/train/index.json", FileFormat::Mds),
            ("train", FileFormat::Beton),
        ];
        for (name, kind) in kinds {
            assert_eq!(FileFormat::of(Path::new(name)), kind, "{name}");
        }
        assert_eq!(FileFormat::of(tempfile::tempdir().unwrap().path()), FileFormat::Folder);
    }

    #[test]
    fn names_that_cannot_be_meant_are_refused_with_what_was_meant() {
        let said = |name: &str| Dataset::open(name).map(drop).unwrap_err().to_string();
        assert_eq!(said(""), "the name of the dataset is empty");
        assert!(said("~/no/such").starts_with("~/no/such: no such file or folder: `~` is not"));
        let address = said("s3:/bucket/x.tar");
        assert!(address.contains("an address has two slashes after the colon"), "{address}");
        assert!(!said("s3x:/bucket/x.tar").contains("two slashes"));
    }

    #[test]
    fn a_list_of_other_names_than_shards_is_none_of_shards() {
        for names in [&["a.beton", "b.beton"][..], &["a.tar", "b.tar.gz"], &["a.tar", "b"], &[]] {
            let names: Vec<PathBuf> = names.iter().map(PathBuf::from).collect();
            assert!(open_shards(&names).unwrap().is_none(), "{names:?}");
        }
        let missing = ["no/a.tar", "no/b.tar"].map(PathBuf::from);
        assert!(open_shards(&missing).is_err());
    }

    #[cfg(not(all(
        feature = "mds",
        feature = "parquet",
        feature = "tar",
        feature = "tfrecord",
        feature = "tables"
    )))]
    #[test]
    fn a_format_that_is_left_out_is_an_error_that_names_its_feature() {
        let dir = tempfile::tempdir().unwrap();
        let text = r#"{"version": 2, "shards": []}"#;
        for (name, feature, is_built) in [
            ("x.tar", "tar", cfg!(feature = "tar")),
            ("x.tar.zst", "tar", cfg!(feature = "tar")),
            ("x.tfrecord", "tfrecord", cfg!(feature = "tfrecord")),
            ("x-00000-of-00001.gz", "tfrecord", cfg!(feature = "tfrecord")),
            ("x.parquet", "parquet", cfg!(feature = "parquet")),
            ("x.csv", "tables", cfg!(feature = "tables")),
            ("x.jsonl", "tables", cfg!(feature = "tables")),
            ("index.json", "mds", cfg!(feature = "mds")),
        ] {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            let outcome = Dataset::open(&path).map(drop).map_err(|error| error.to_string());
            let is_named = outcome.is_err_and(|message| {
                message.contains(name)
                    && message.ends_with(&format!("build fuseloop with the feature `{feature}`"))
            });
            assert_eq!(is_named, !is_built, "{name}");
        }
    }
}
