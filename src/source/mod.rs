//! Sources: datasets, and how their samples are read.

mod atomic_file;
pub(crate) mod beton;
mod classes;
mod columns;
mod common_names;
mod concat;
mod escape;
#[cfg(test)]
mod faults;
mod file;
mod folder;
mod generate;
mod index_file;
mod location;
mod open;
#[cfg(any(feature = "cuda", feature = "remote"))]
pub(crate) mod private;
pub mod remote;
mod sample_location;
mod samples;
mod shards;
mod starts;
pub mod stream;
mod tar;
mod tfrecord;
mod value;
#[cfg(test)]
mod wrapper_laws;

pub use beton::{
    Beton, BetonHead, ByteOrder, CustomRow, CustomRows, FieldError, FieldKind, FieldSpec,
    FieldStats, HeaderError, ImageMode, ImageStats, NdKind, NdType, OpenError, OpenOptions,
    PageStats, PagedBeton, ProcessCache, ReadError, ReadErrorKind, SourceError, SourceErrorKind,
};
pub use classes::ClassNames;
pub(crate) use classes::{ClassEntry, ClassTable, FOLDER_FILE_NAME, beside, is_class_file};
pub use columns::{As, ColumnError};
pub use concat::Concat;
pub use escape::Escaped;
pub use file::ReadAt;
pub(crate) use file::refuse_cut;
pub use folder::{
    Folder, FolderOptions, Ignored, ImageList, Labelled, LinkCounts, Links, ListError,
};
pub(crate) use folder::{FolderWalk, PendingDir, Rules, is_jpeg_name};
pub use generate::{Busy, GenerateError, Generated, Generator, Queue, QueueStats};
pub use index_file::{IndexReport, index_shards};
pub use location::{Location, LocationError};
pub use open::{Dataset, DatasetError, saved_listing};
pub use sample_location::SampleLocation;
pub use samples::{BoxError, Buffer, Fingerprint, Record, RunPlan, Source, Upcoming};
pub use stream::{Stream, StreamError};
pub use tar::{MemberLocation, Tar, TarDamage, TarError, TarOptions, TarStream};
pub use tfrecord::{Feature, TfOptions, TfRecordCause, TfRecordError, TfRecordStream, TfRecords};
pub(crate) use tfrecord::{example, good_in_sequence, looks_like_a_picture, marks, masked_crc32c};
pub use value::{EncodedImage, OwnedImage, OwnedValue, Value};
