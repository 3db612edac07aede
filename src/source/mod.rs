//! Sources: what samples there are, and reading them.

pub mod beton;
mod concat;
mod escape;
mod file;
mod generate;
mod location;
mod remote;
mod samples;
mod shards;
pub mod stream;
mod value;

pub use beton::{
    Beton, CustomRow, CustomRows, FieldKind, FieldSpec, FieldStats, ImageMode, ImageStats, NdType,
    OpenError, OpenOptions, PageStats, PagedBeton, ProcessCache, ReadError, ReadErrorKind,
    SourceError, SourceErrorKind,
};
pub use concat::Concat;
pub use escape::Escaped;
pub use file::ReadAt;
pub use generate::{Busy, Flow, GenerateError, Generated, Generator, Queue};
pub use location::{Location, LocationError};
pub use samples::{BoxError, Buffer, Fingerprint, Record, RunPlan, Source, Upcoming};
pub use stream::{Stream, StreamError};
pub use value::{EncodedImage, OwnedImage, OwnedValue, Value};
