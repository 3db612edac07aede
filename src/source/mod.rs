//! Sources: what samples there are, and reading them.

pub mod beton;
mod columns;
mod concat;
mod escape;
mod file;
mod folder;
mod generate;
mod location;
mod open;
pub mod remote;
mod samples;
mod shards;
mod sidecar;
mod starts;
pub mod stream;
mod tar;
mod tfrecord;
mod value;
mod whole;

pub use beton::{
    Beton, CustomRow, CustomRows, FieldKind, FieldSpec, FieldStats, ImageMode, ImageStats, NdType,
    OpenError, OpenOptions, PageStats, PagedBeton, ProcessCache, ReadError, ReadErrorKind,
    SourceError, SourceErrorKind,
};
pub use columns::{As, ColumnError};
pub use concat::Concat;
pub use escape::Escaped;
pub use file::ReadAt;
pub(crate) use file::refuse_cut;
pub(crate) use folder::{Dir, Rules, Walk, is_jpeg_name};
pub use folder::{
    Folder, FolderOptions, Ignored, ImageList, Labelled, LinkCounts, Links, ListError,
};
pub use generate::{Busy, Flow, GenerateError, Generated, Generator, Queue};
pub use location::{Location, LocationError};
pub use open::{Dataset, DatasetError, saved_listing};
pub use samples::{BoxError, Buffer, Fingerprint, Record, RunPlan, Source, Upcoming};
pub use sidecar::{IndexReport, index_shards};
pub use stream::{Stream, StreamError};
pub use tar::{Damage, PartPlace, Tar, TarError, TarOptions, TarStream};
pub use tfrecord::{Feature, TfOptions, TfRecordCause, TfRecordError, TfRecordStream, TfRecords};
pub(crate) use tfrecord::{example, good_in_sequence, masked_crc32c};
pub use value::{EncodedImage, OwnedImage, OwnedValue, Value};
