//! Sources: what samples there are and where their bytes lie.

pub mod beton;
mod escape;
mod map;

pub use beton::{
    Beton, CustomRow, CustomRows, EncodedImage, FieldKind, FieldSpec, FieldStats, ImageMode,
    ImageStats, NdType, OpenError, OpenOptions, ReadError, ReadErrorKind, SourceError,
    SourceErrorKind, Value,
};
pub use escape::Escaped;
