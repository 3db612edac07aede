//! Sources: datasets, and how their samples are read.

// The order in which these modules may import each other is in `tests/repository/layers.rs`.

mod annotations;
pub(crate) mod atomic_file;
pub(crate) mod audio_format;
mod beside;
pub(crate) mod beton;
mod bmp_file;
pub(crate) mod class_counts;
mod classes;
mod columnar;
#[cfg(feature = "tar")]
mod columns;
mod common_names;
mod concat;
pub(crate) mod destination;
mod dtype;
pub(crate) mod error;
#[cfg(test)]
#[cfg(all(feature = "tar", feature = "tfrecord"))]
mod faults;
#[cfg(not(all(
    feature = "mds",
    feature = "parquet",
    feature = "remote",
    feature = "tables",
    feature = "tar",
    feature = "tfrecord",
    feature = "video"
)))]
mod feature;
pub(crate) mod fetch_ahead;
mod field_kind;
mod file;
pub(crate) mod file_format;
mod file_pool;
mod fixed_length;
pub(crate) mod folder;
mod frame_folders;
mod frame_rows;
mod frames;
pub(crate) mod generate;
mod gif_file;
#[cfg(feature = "heic")]
mod heic_file;
#[cfg_attr(not(feature = "remote"), allow(dead_code, reason = "fuzz checks need half of it"))]
pub(crate) mod hub_api;
mod image_format;
mod image_header;
mod image_names;
mod image_size;
mod image_stats;
mod in_memory;
#[cfg(any(feature = "tar", feature = "tfrecord"))]
pub(crate) mod index_file;
#[cfg(any(feature = "tar", feature = "tfrecord"))]
pub(crate) mod index_shards;
#[cfg(feature = "jxl")]
mod jxl_file;
#[cfg(all(feature = "parquet", feature = "video"))]
mod lerobot;
mod location;
mod lru_cache;
mod mask_runs;
#[cfg(feature = "mds")]
mod mds;
mod media;
mod names;
#[cfg_attr(not(feature = "tar"), allow(dead_code, reason = "read in tar shards alone"))]
pub(crate) mod npy;
#[cfg_attr(
    not(all(feature = "tar", feature = "write")),
    allow(dead_code, reason = "half of it is for what writes datasets")
)]
pub(crate) mod object_fields;
pub(crate) mod open;
pub(crate) mod open_videos;
mod other_formats;
mod packed_images;
#[cfg(feature = "parquet")]
pub(crate) mod parquet;
mod pnm_file;
#[cfg(any(feature = "cuda", feature = "remote"))]
pub(crate) mod private;
pub mod remote;
mod run_plan;
mod sample_location;
mod samples;
#[cfg(feature = "video")]
pub(crate) mod saved_videos;
mod selected;
#[cfg_attr(
    not(feature = "tar"),
    allow(dead_code, unused_imports, reason = "only tar files need all of it")
)]
mod shards;
mod shared_values;
mod starts;
mod still;
pub mod stream;
#[cfg(feature = "tar")]
mod tar;
#[cfg(feature = "tfrecord")]
mod tfrecord;
#[cfg(feature = "tiff")]
mod tiff_file;
#[cfg(feature = "tiff")]
mod tiff_lzw;
pub(crate) mod unfinished;
#[cfg(any(feature = "video", feature = "write"))]
mod upright;
mod value;
#[cfg(feature = "video")]
mod video_files;
pub(crate) mod video_format;
#[cfg(feature = "video")]
mod video_frame;
mod video_list;
mod video_parts;
#[cfg(feature = "webp")]
mod webp_file;
#[cfg(test)]
mod wrapper_laws;

pub use crate::error::BoxError;
pub(crate) use crate::escape::Escaped;
pub use annotations::{Annotated, CocoOptions, VocOptions, YoloOptions};
#[cfg(feature = "write")]
pub(crate) use atomic_file::{keep_mode, without_path};
#[cfg(any(feature = "audio", feature = "write"))]
pub(crate) use audio_format::AudioFormat;
pub use beton::{Beton, CustomRow, OpenOptions, ProcessCache};
pub(crate) use beton::{PageStats, PagedBeton};
pub use classes::ClassNames;
#[cfg(feature = "write")]
pub(crate) use classes::{ClassEntry, classes_beside, classes_of_others, is_class_file};
pub(crate) use classes::{ClassTable, FOLDER_FILE_NAME};
#[cfg(feature = "tar")]
pub use columns::As;
pub use concat::Concat;
pub(crate) use destination::check_destination;
pub use dtype::NdType;
pub use field_kind::{FieldKind, FieldSpec};
pub use file::ReadAt;
pub(crate) use file::refuse_cut;
#[cfg(feature = "write")]
pub(crate) use file_format::{MDS_INDEX, MDS_INDEX_BYTES};
pub use folder::{Folder, FolderOptions, Ignored, Labels, LinkCounts, Links};
#[cfg(feature = "write")]
pub(crate) use folder::{FolderWalk, PendingDir, Rules, is_jpeg_name};
pub(crate) use frame_folders::FrameFolders;
pub(crate) use frame_rows::{FrameRows, PTS, VIDEO_INDEX, is_clip_store};
pub(crate) use frames::{FrameTimes, Frames, ROUNDING};
pub use generate::{Generated, Generator, Queue, QueueStats};
pub(crate) use image_format::{FORMAT_BYTES, ImageFormat, format_name};
#[cfg(feature = "write")]
pub(crate) use image_format::{FORMATS, begins_as_image, is_image_extension, mask_extensions};
#[cfg(feature = "write")]
pub(crate) use image_header::SampleFormat;
#[cfg(feature = "write")]
pub(crate) use image_names::IMAGE_EXTENSIONS;
pub(crate) use image_size::stored_size;
pub use image_stats::ImageStats;
pub use in_memory::{Column, InMemory};
#[cfg(any(feature = "tar", feature = "tfrecord"))]
pub use index_shards::{IndexReport, index_shards, join_index};
#[cfg(all(feature = "parquet", feature = "video"))]
pub(crate) use lerobot::files_of_episodes;
#[cfg(all(feature = "parquet", feature = "video"))]
pub use lerobot::{LeRobot, LeRobotOptions};
pub(crate) use location::Location;
pub(crate) use mask_runs::column_runs;
#[cfg(feature = "mds")]
pub use mds::{Mds, MdsOptions};
#[cfg(feature = "parquet")]
pub(crate) use object_fields::OBJECTS_KEY;
pub(crate) use object_fields::{KeypointLayout, ObjectField, ObjectFields};
#[cfg(feature = "write")]
pub(crate) use object_fields::{is_object_file, objects_beside, objects_of_others};
pub use open::Dataset;
#[cfg(not(feature = "video"))]
pub(crate) use open_videos::no_video;
pub(crate) use open_videos::{fields_of_frames, fields_of_videos, frame_folders, video_files};
pub(crate) use packed_images::PackedImages;
#[cfg(all(
    feature = "parquet",
    feature = "spec",
    feature = "tables",
    feature = "tar",
    feature = "write"
))]
pub(crate) use parquet::Parquet;
pub use run_plan::{RunPlan, Upcoming};
pub use sample_location::SampleLocation;
pub(crate) use samples::Fingerprint;
pub use samples::{Buffer, Facts, Record, Run, Source};
pub(crate) use samples::{
    FrameCount, FrameError, FrameFields, FrameImage, FramePixels, PartialImage, TakeFrame,
    read_image_part, read_values,
};
#[doc(hidden)]
pub use samples::{FrameSource, ImageExtent, LazyRecord, StoredValues};
pub use selected::Selected;
pub(crate) use still::{Still, StillFormat};
pub use stream::Stream;
#[cfg(feature = "tar")]
pub use tar::{Tar, TarOptions, TarStream};
#[cfg(feature = "tfrecord")]
pub use tfrecord::{Feature, TfOptions, TfRecordStream, TfRecords};
#[cfg(feature = "tfrecord")]
#[cfg_attr(
    not(all(feature = "spec", feature = "tables", feature = "tar", feature = "write")),
    allow(unused_imports, reason = "for what writes such files, and for the fuzz checks")
)]
pub(crate) use tfrecord::{detection, example, good_in_sequence, marks, masked_crc32c};
#[cfg(feature = "tiff")]
pub(crate) use tiff_file::{Photometric, SampleKind, TiffFile};
#[cfg(feature = "write")]
pub(crate) use unfinished::{keep_unfinished, note_unfinished};
#[cfg(any(feature = "video", feature = "write"))]
pub(crate) use upright::upright;
pub use value::{EncodedImage, ImageMode, OwnedImage, OwnedValue, Value};
#[cfg(feature = "video")]
pub(crate) use video_files::{VideoFiles, VideoSummary, check_video};
#[cfg(feature = "video")]
pub(crate) use video_frame::{frame_size, frame_window};
pub(crate) use video_parts::{PartFields, SecondsRange, check_part_field, part_of_video};
#[cfg(feature = "webp")]
pub(crate) use webp_file::{WebpFrame, WebpHeader, WebpImage};
