//! Sources: what samples there are and where their bytes lie.

pub mod beton;

pub use beton::{
    CustomRow, CustomRows, EncodedImage, FieldKind, FieldSpec, ImageMode, NdType, Value,
};
