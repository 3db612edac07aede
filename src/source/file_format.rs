//! The formats of datasets, and the endings of the names of their files.

use super::image_format::of_extension;
use super::{audio_format, video_format};

/// The format of the files of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileFormat {
    Beton,
    Folder,
    FixedLength,
    Annotated,
    Parquet,
    Tar,
    TarStream,
    TfRecords,
    TfRecordStream,
    Mds,
    LeRobot,
}

/// The file by which a folder is known as a dataset of LeRobot.
pub(super) const LEROBOT_INFO: &str = "meta/info.json";

/// The name of the index of MDS shards.
pub const MDS_INDEX: &str = "index.json";

/// The most bytes of the index of MDS shards: 60,000 shards take about 64 MiB.
#[cfg(any(feature = "mds", feature = "write"))]
pub(crate) const MDS_INDEX_BYTES: u64 = 64 << 20;

/// The names of splits that folders of MDS shards have.
pub(super) const MDS_SPLITS: [&str; 6] = ["train", "val", "valid", "validation", "eval", "test"];

/// The endings of names, in small letters, without those of images, audio files and video files.
const ENDINGS: [(&str, FileFormat); 15] = [
    (".beton", FileFormat::Beton),
    (".tar", FileFormat::Tar),
    (".tar.gz", FileFormat::TarStream),
    (".tgz", FileFormat::TarStream),
    (".tar.zst", FileFormat::TarStream),
    (".tfrecord", FileFormat::TfRecords),
    (".tfrecords", FileFormat::TfRecords),
    (".tfrec", FileFormat::TfRecords),
    (".tfrecord.gz", FileFormat::TfRecordStream),
    (".tfrecords.gz", FileFormat::TfRecordStream),
    (".tfrec.gz", FileFormat::TfRecordStream),
    (".csv", FileFormat::Folder),
    (".tsv", FileFormat::Folder),
    (".jsonl", FileFormat::Folder),
    (".parquet", FileFormat::Parquet),
];

impl FileFormat {
    /// Returns the known ending of a name, that of an image, audio or video file without its dot, and its format.
    pub(super) fn ending(name: &str) -> Option<(&'static str, Self)> {
        let name = name.to_ascii_lowercase();
        let known = ENDINGS.into_iter().find(|(ending, _)| name.ends_with(ending));
        known.or_else(|| {
            let extension = name.rsplit_once('.')?.1;
            if let Some(video) = video_format::of_extension(extension) {
                return Some((video, Self::Folder));
            }
            let audio = audio_format::of_extension(extension).map(|format| format.extensions);
            let known = audio.or_else(|| Some(of_extension(extension)?.extensions))?;
            known.iter().find(|one| **one == extension).map(|one| (*one, Self::Folder))
        })
    }

    /// Returns the format that a file's own name tells, without the folders that it is in.
    pub(super) fn of_name(name: &str) -> Self {
        let name = name.to_ascii_lowercase();
        let is_tf_shard = |stem: &str| {
            stem.rsplit_once("-of-")
                .is_some_and(|(_, of)| !of.is_empty() && of.bytes().all(|b| b.is_ascii_digit()))
        };
        match Self::ending(&name) {
            None if name == MDS_INDEX => Self::Mds,
            Some((_, format)) => format,
            None if !is_tf_shard(name.trim_end_matches(".gz")) => Self::Beton,
            None if name.ends_with(".gz") => Self::TfRecordStream,
            None => Self::TfRecords,
        }
    }
}
