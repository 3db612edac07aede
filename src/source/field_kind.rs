//! The columns of a dataset: their names, and the kinds of their values.

use super::dtype::NdType;

/// A column of a dataset.
///
/// ```
/// use fuseloop::source::{FieldKind, FieldSpec};
///
/// let image = FieldSpec { name: "image".to_owned(), kind: FieldKind::RgbImage };
/// let points = FieldKind::NdArray { dtype: "<f4".parse().unwrap(), shape: vec![17, 2] };
/// let points = FieldSpec { name: "points".to_owned(), kind: points };
/// assert!(image.kind.is_image() && !points.kind.is_image());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldSpec {
    /// The name, at most 16 ASCII characters. In a hostile file they may be control characters: show the
    /// name with `{:?}`, which escapes them.
    pub name: String,
    /// The kind of the column's values.
    pub kind: FieldKind,
}

/// Makes a column of its name and its kind.
impl<N: Into<String>> From<(N, FieldKind)> for FieldSpec {
    fn from((name, kind): (N, FieldKind)) -> Self {
        Self { name: name.into(), kind }
    }
}

/// The kind of a column's values.
///
/// | type id | kind          | bytes of a row      | align |
/// |--------:|---------------|---------------------|------:|
/// |       0 | `Float`       | 8: the value        |     8 |
/// |       1 | `Int`         | 8: the value        |     8 |
/// |       2 | `RgbImage`    | 13: see `ImageCell` |     1 |
/// |       3 | `Bytes`       | 16: pointer, size   |     1 |
/// |       4 | `NdArray`     | 8: pointer          |     8 |
/// |       5 | `Json`        | 16: pointer, size   |     1 |
/// |       6 | `TorchTensor` | 8: pointer          |     8 |
/// |     255 | `Custom`      | the user says       |       |
/// |     255 | `BitPlaneImage` | 13: see `ImageCell` |     1 |
///
/// The arguments of a `BitPlaneImage` distinguish it from a user-defined field.
///
/// ```no_run
/// use fuseloop::source::{Beton, FieldKind, OpenOptions, Source};
///
/// let beton = Beton::open("train.beton", &OpenOptions::default())?;
/// let labels = beton.facts().fields.iter().filter(|field| field.kind == FieldKind::Int);
/// println!("{} fields of numbers", labels.count());
/// # Ok::<(), fuseloop::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FieldKind {
    /// A 64-bit float.
    Float,
    /// A 64-bit integer.
    Int,
    /// An image, raw or JPEG.
    RgbImage,
    /// Bytes of any length.
    Bytes,
    /// An array of one shape for all samples.
    NdArray {
        /// The type of an element.
        dtype: NdType,
        /// Dimensions, outermost first; empty for a single element.
        shape: Vec<u64>,
    },
    /// JSON text.
    Json,
    /// An array like `NdArray`, written from a torch tensor.
    TorchTensor {
        /// The type of an element.
        dtype: NdType,
        /// Dimensions, outermost first; empty for a single element.
        shape: Vec<u64>,
    },
    /// A user-defined field.
    Custom {
        /// The size of the field's cell in a row, in bytes.
        row_size: usize,
        /// The alignment of the field's cell in a row, a power of two.
        align: usize,
    },
    /// An image, raw, JPEG or bit planes. FFCV does not read such a field.
    BitPlaneImage,
}

impl FieldKind {
    /// Returns the kind in a word, for messages.
    #[doc(hidden)]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Float => "float",
            Self::Int => "int",
            Self::RgbImage | Self::BitPlaneImage => "image",
            Self::Bytes => "bytes",
            Self::NdArray { .. } => "array",
            Self::Json => "json",
            Self::TorchTensor { .. } => "tensor",
            Self::Custom { .. } => "custom",
        }
    }

    /// Returns the kind as an error states it: `array of <f4 of shape [2, 3]`.
    pub(crate) fn described(&self) -> String {
        match self {
            Self::NdArray { dtype, shape } | Self::TorchTensor { dtype, shape } => {
                format!("{} of {dtype} of shape {shape:?}", self.word())
            }
            Self::Custom { row_size, .. } => format!("{} of {row_size} bytes a row", self.word()),
            _ => self.word().to_owned(),
        }
    }

    /// Returns whether the values are images.
    #[must_use]
    pub fn is_image(&self) -> bool {
        matches!(self, Self::RgbImage | Self::BitPlaneImage)
    }

    /// Returns the size of one array in bytes; `None` for other kinds, and for a product beyond 2^64.
    #[doc(hidden)]
    pub fn array_bytes(&self) -> Option<u64> {
        match self {
            Self::NdArray { dtype, shape } | Self::TorchTensor { dtype, shape } => {
                array_bytes(*dtype, shape)
            }
            _ => None,
        }
    }
}

/// Returns the size of an array in bytes; `None` for a product beyond 2^64.
pub(super) fn array_bytes(dtype: NdType, shape: &[u64]) -> Option<u64> {
    shape.iter().try_fold(dtype.item_size(), |bytes, &dim| bytes.checked_mul(dim))
}
