//! Sources: what samples there are and where their bytes lie.

pub mod beton;
mod escape;
mod map;

pub use beton::{
    Beton, CustomRow, CustomRows, EncodedImage, FieldKind, FieldSpec, ImageMode, NdType, OpenError,
    OpenOptions, ReadError, SourceError, Value,
};
pub use escape::Escaped;
