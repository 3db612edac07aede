//! The value of a field of a sample: borrowed while it is processed, or owned.

use super::field_kind::FieldKind;
use super::packed_images;
use fuseloop_ops::Size;

/// One field of one sample.
///
/// ```no_run
/// use fuseloop::{Loader, source::Value};
///
/// let loader = Loader::open("train.beton")?
///     .filter("image", |image| matches!(image, Value::Image(image) if image.width >= 224))
///     .build()?;
/// # Ok::<(), fuseloop::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value<'a> {
    /// A 64-bit float.
    Float(f64),
    /// A 64-bit integer.
    Int(i64),
    /// An image, as stored.
    Image(EncodedImage<'a>),
    /// Bytes of any length.
    Bytes(&'a [u8]),
    /// An array's elements in C order, in the field's own dtype and byte order.
    NdArray(&'a [u8]),
    /// JSON text with the final NUL that FFCV stores.
    Json(&'a [u8]),
    /// The bytes of a user-defined field in the row of the sample table.
    Custom(&'a [u8]),
}

impl<'a> Value<'a> {
    /// Returns the bytes that the value is stored in; none for a number.
    pub(crate) fn bytes(&self) -> &'a [u8] {
        match *self {
            Self::Float(_) | Self::Int(_) => &[],
            Self::Image(image) => image.bytes,
            Self::Bytes(bytes) | Self::NdArray(bytes) | Self::Json(bytes) | Self::Custom(bytes) => {
                bytes
            }
        }
    }
}

/// How an image's bytes are coded.
///
/// ```
/// use fuseloop::source::{ImageMode, OwnedImage};
///
/// assert_eq!(OwnedImage::jpeg(vec![0xff, 0xd8]).mode, ImageMode::Jpeg);
/// assert_eq!(OwnedImage::rgb(1, vec![0, 0, 0]).mode, ImageMode::Raw);
/// assert_eq!(ImageMode::Webp.name(), "webp");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ImageMode {
    /// A whole JPEG file; 0 in the sample table.
    Jpeg,
    /// `height * width * 3` bytes RGB, rows top down; 1 in the sample table.
    Raw,
    /// A whole PNG file. A `.beton` file has none: its writer stores the decoded pixels, and no cell is
    /// read as a PNG.
    Png,
    /// A whole WebP file, lossy or lossless. A `.beton` file has none, as of PNG.
    Webp,
    /// A whole TIFF file, whose first image is read. A `.beton` file has none, as of PNG.
    Tiff,
    /// A JPEG whose coefficients are stored as bit planes, with everything else of the file; 2 in the sample table.
    BitPlanes,
    /// A whole BMP file. A `.beton` file has none, as of PNG.
    Bmp,
    /// A whole GIF file, whose first image is read. A `.beton` file has none, as of PNG.
    Gif,
    /// A whole PBM, PGM, PPM or PAM file. A `.beton` file has none, as of PNG.
    Pnm,
    /// A whole JPEG XL file, whose first frame is read. A `.beton` file has none, as of PNG.
    JpegXl,
    /// A whole HEIC file, whose primary image is read. A `.beton` file has none, as of PNG.
    Heic,
}

impl ImageMode {
    /// Returns whether the bytes must be decoded, which is true of all but raw images.
    pub(crate) fn is_coded(self) -> bool {
        self != Self::Raw
    }

    /// Returns the name in small letters, as reports of Python and of JSON have it: `"jpeg"`, `"raw"`, `"png"`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Jpeg => "jpeg",
            Self::Raw => "raw",
            Self::Png => "png",
            Self::Webp => "webp",
            Self::Tiff => "tiff",
            Self::BitPlanes => "planes",
            Self::Bmp => "bmp",
            Self::Gif => "gif",
            Self::Pnm => "pnm",
            Self::JpegXl => "jxl",
            Self::Heic => "heic",
        }
    }
}

/// An image, as stored.
///
/// ```no_run
/// use fuseloop::{Loader, source::Value};
///
/// // Photographs of more than 2 bits a pixel.
/// let loader = Loader::open("train.beton")?
///     .filter("image", |value| match value {
///         Value::Image(image) => image.bytes.len() as u64 > u64::from(image.width) * u64::from(image.height) / 4,
///         _ => false,
///     })
///     .build()?;
/// # Ok::<(), fuseloop::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncodedImage<'a> {
    /// How `bytes` are coded.
    pub mode: ImageMode,
    /// The number of columns, according to the sample table: the file's own header may differ.
    pub width: u32,
    /// The number of rows, according to the sample table: the file's own header may differ.
    pub height: u32,
    /// A whole file of an image format, or exactly `height * width * 3` bytes RGB, rows top down.
    pub bytes: &'a [u8],
}

/// One field of one sample, owned: a user's source returns such values.
///
/// ```
/// use fuseloop::source::{OwnedImage, OwnedValue};
///
/// let black = OwnedValue::Image(OwnedImage::rgb(32, vec![0; 32 * 32 * 3]));
/// let caption = OwnedValue::Json(br#"{"text": "a cat"}"#.to_vec());
/// assert_ne!(black, caption);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum OwnedValue {
    /// A 64-bit float.
    Float(f64),
    /// A 64-bit integer.
    Int(i64),
    /// An image, as stored.
    Image(OwnedImage),
    /// Bytes of any length.
    Bytes(Vec<u8>),
    /// An array's elements in C order, in the field's own dtype and byte order.
    NdArray(Vec<u8>),
    /// JSON text with the final NUL that FFCV stores.
    Json(Vec<u8>),
    /// The bytes of a user-defined field in the row of the sample table.
    Custom(Vec<u8>),
}

/// An image, as stored, that owns its bytes.
///
/// ```
/// use fuseloop::ops::Size;
/// use fuseloop::source::OwnedImage;
///
/// let red = OwnedImage::rgb(Size::new(2, 3), [255, 0, 0].repeat(2 * 3));
/// assert_eq!((red.height, red.width, red.bytes.len()), (2, 3, 18));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedImage {
    /// How `bytes` are coded.
    pub mode: ImageMode,
    /// The number of columns; 0 for a file whose header was not read.
    pub width: u32,
    /// The number of rows; 0 for a file whose header was not read.
    pub height: u32,
    /// A whole file of an image format, or exactly `height * width * 3` bytes RGB, rows top down.
    pub bytes: Vec<u8>,
}

impl OwnedImage {
    /// Wraps a whole JPEG file.
    #[must_use]
    pub fn jpeg(bytes: Vec<u8>) -> Self {
        Self { mode: ImageMode::Jpeg, width: 0, height: 0, bytes }
    }

    /// Wraps a whole PNG file.
    #[must_use]
    pub fn png(bytes: Vec<u8>) -> Self {
        Self { mode: ImageMode::Png, width: 0, height: 0, bytes }
    }

    /// Wraps a whole file of any image format, which its first bytes tell.
    #[must_use]
    pub fn file(bytes: Vec<u8>) -> Self {
        Self { mode: ImageMode::of_file(&bytes), width: 0, height: 0, bytes }
    }

    /// Wraps `height * width * 3` bytes RGB, rows top down. One number as the size is a square.
    #[must_use]
    pub fn rgb(size: impl Into<Size>, bytes: Vec<u8>) -> Self {
        let Size { height, width } = size.into();
        Self { mode: ImageMode::Raw, width, height, bytes }
    }
}

impl OwnedValue {
    /// Packs the files of several images, any number of them, into the bytes of one value of a field of bytes, which
    /// [`LoaderBuilder::image_lists`](crate::LoaderBuilder::image_lists) loads.
    ///
    /// ```
    /// use fuseloop::source::OwnedValue;
    ///
    /// let views = [vec![0xff, 0xd8], vec![0xff, 0xd8]];
    /// assert!(matches!(OwnedValue::images(&views), OwnedValue::Bytes(_)));
    /// ```
    #[must_use]
    pub fn images<F: AsRef<[u8]>>(files: &[F]) -> Self {
        let mut bytes = vec![];
        packed_images::pack(files, &mut bytes);
        Self::Bytes(bytes)
    }

    /// Borrows the value.
    #[doc(hidden)]
    pub fn borrowed(&self) -> Value<'_> {
        match self {
            Self::Float(value) => Value::Float(*value),
            Self::Int(value) => Value::Int(*value),
            Self::Image(OwnedImage { mode, width, height, bytes }) => {
                Value::Image(EncodedImage { mode: *mode, width: *width, height: *height, bytes })
            }
            Self::Bytes(bytes) => Value::Bytes(bytes),
            Self::NdArray(bytes) => Value::NdArray(bytes),
            Self::Json(bytes) => Value::Json(bytes),
            Self::Custom(bytes) => Value::Custom(bytes),
        }
    }

    /// Returns whether the value fits a field of this kind: the kind of the value, the size of an array,
    /// the size of a raw image.
    pub(crate) fn fits(&self, kind: &FieldKind) -> bool {
        match (self, kind) {
            (Self::Float(_), FieldKind::Float)
            | (Self::Int(_), FieldKind::Int)
            | (Self::Bytes(_), FieldKind::Bytes)
            | (Self::Json(_), FieldKind::Json) => true,
            (Self::Image(image), FieldKind::RgbImage | FieldKind::BitPlaneImage) => {
                let bytes = (u64::from(image.height) * u64::from(image.width)).checked_mul(3);
                image.mode != ImageMode::Raw || bytes == Some(image.bytes.len() as u64)
            }
            (Self::NdArray(bytes), FieldKind::NdArray { .. } | FieldKind::TorchTensor { .. }) => {
                kind.array_bytes() == Some(bytes.len() as u64)
            }
            (Self::Custom(bytes), FieldKind::Custom { row_size, .. }) => bytes.len() == *row_size,
            _ => false,
        }
    }
}

/// Copies the value.
impl From<Value<'_>> for OwnedValue {
    fn from(value: Value<'_>) -> Self {
        match value {
            Value::Float(value) => Self::Float(value),
            Value::Int(value) => Self::Int(value),
            Value::Image(EncodedImage { mode, width, height, bytes }) => {
                Self::Image(OwnedImage { mode, width, height, bytes: bytes.to_vec() })
            }
            Value::Bytes(bytes) => Self::Bytes(bytes.to_vec()),
            Value::NdArray(bytes) => Self::NdArray(bytes.to_vec()),
            Value::Json(bytes) => Self::Json(bytes.to_vec()),
            Value::Custom(bytes) => Self::Custom(bytes.to_vec()),
        }
    }
}
