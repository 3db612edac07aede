//! Sources: what samples there are, and reading them.

pub mod beton;
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
mod location;
mod open;
#[cfg(any(feature = "cuda", feature = "remote"))]
pub(crate) mod private;
pub mod remote;
mod sample_location;
mod samples;
mod shards;
mod sidecar;
mod starts;
pub mod stream;
mod tar;
mod tfrecord;
mod value;
mod whole;
#[cfg(test)]
mod wrapper_laws;

pub use beton::{
    Beton, BetonHead, CustomRow, CustomRows, FieldKind, FieldSpec, FieldStats, ImageMode,
    ImageStats, NdType, OpenError, OpenOptions, PageStats, PagedBeton, ProcessCache, ReadError,
    ReadErrorKind, SourceError, SourceErrorKind,
};
pub use classes::ClassNames;
pub(crate) use classes::{Class, ClassTable, IN_FOLDER, beside, is_ours};
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
pub use sample_location::SampleLocation;
pub use samples::{BoxError, Buffer, Fingerprint, Record, RunPlan, Source, Upcoming};
pub use sidecar::{IndexReport, index_shards};
pub use stream::{Stream, StreamError};
pub use tar::{Damage, PartPlace, Tar, TarError, TarOptions, TarStream};
pub use tfrecord::{Feature, TfOptions, TfRecordCause, TfRecordError, TfRecordStream, TfRecords};
pub(crate) use tfrecord::{example, good_in_sequence, looks_like_a_picture, marks, masked_crc32c};
pub use value::{EncodedImage, OwnedImage, OwnedValue, Value};
