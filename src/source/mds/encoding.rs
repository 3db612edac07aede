//! The encodings of MDS columns, as mosaicml-streaming 0.13 has them in `mds/encodings.py`.
//!
//! | encoding                    | bytes of a value                                        | kind            |
//! |-----------------------------|---------------------------------------------------------|-----------------|
//! | `int`, `uint8` .. `int64`   | the number                                              | `Int`           |
//! | `float16`, `float32`, `float64` | the number                                          | `Float`         |
//! | `str_int`                   | decimal digits                                          | `Int`           |
//! | `str_float`, `str_decimal`  | decimal digits                                          | `Float`         |
//! | `str`                       | UTF-8                                                   | `Bytes`         |
//! | `bytes`                     | as they are                                             | `Bytes`, or an image if the first ones begin as images |
//! | `json`                      | UTF-8                                                   | `Json`          |
//! | `jpeg`, `png`               | the file                                                | an image        |
//! | `pil`                       | u32 width, u32 height, u32 n, n bytes of mode, pixels   | an image        |
//! | `ndarray:dtype:shape`       | the elements                                            | an array        |
//! | `ndarray[:dtype]`           | [u8 dtype], u8 `ndim << 2 \| log2(bytes of a length)`, lengths, elements | an array, or `.npy` files as `Bytes` if the first axes differ; rows of objects are the elements as `Bytes` |
//! | `jpegarray`, `jpeg_array`   | u32 n, n sizes (u32), n files                           | n images        |
//! | `list[jpeg]`, `list[png]`, `list[pil]` | u32 0, u32 n, n sizes (u32), n elements      | n images        |
//! | `pkl`                       | never loaded                                            | refused         |
//!
//! All numbers are little-endian.

use crate::error::{Error, fail};
use crate::escape::shown;
use crate::source::dtype::{ByteOrder, NdKind};
use crate::source::field_kind::array_bytes;
use crate::source::image_format::begins_as_image;
use crate::source::{EncodedImage, Escaped, ImageMode, NdType, OwnedValue, Value, npy};
use half::f16;

/// The most axes of an array: NumPy's own limit.
const MOST_AXES: usize = 64;

/// The encoding of a column.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Encoding {
    /// A whole number of as many bytes.
    Int {
        bytes: u8,
        is_signed: bool,
    },
    /// A float of as many bytes.
    Float {
        bytes: u8,
    },
    /// Digits of a whole number.
    IntText,
    /// Digits of a number.
    FloatText,
    Str,
    Bytes,
    Json,
    /// An image file.
    File,
    Pil,
    Array {
        dtype: Option<NdType>,
        shape: Option<Vec<u64>>,
    },
    /// A list of elements, whose number follows `skipped` bytes.
    List {
        skipped: usize,
        of: Box<Encoding>,
    },
}

/// How the values of a field are read from those of its column.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Reading {
    /// By the encoding alone.
    Plain,
    /// Bytes that are image files.
    Files,
    /// Arrays of one type and shape.
    Arrays(NdType, Vec<u64>),
    /// Arrays of one type that differ in the first axis, as `.npy` files; and the shape without that axis.
    Rows(NdType, Vec<u64>),
    /// Rows of objects: arrays of one type, as the bytes of their elements; and the shape of a row.
    Objects(NdType, Vec<u64>),
    /// An element of a list.
    Element(usize),
}

/// A value, borrowed from the bytes that it was read from or made of them.
#[derive(Debug)]
pub(super) enum Decoded<'a> {
    Borrowed(Value<'a>),
    Json(Vec<u8>),
    Bytes(Vec<u8>),
    /// RGB pixels: width, height.
    Pixels(u32, u32, Vec<u8>),
}

impl Encoding {
    /// Parses the name of an encoding.
    ///
    /// # Errors
    ///
    /// Fails for one that is not known, and for pickles.
    pub(super) fn parse(text: &str) -> Result<Self, Error> {
        let int = |bytes, is_signed| Self::Int { bytes, is_signed };
        let list = |skipped, of| Self::List { skipped, of: Box::new(of) };
        Ok(match text {
            "int" | "int64" => int(8, true),
            "int8" => int(1, true),
            "int16" => int(2, true),
            "int32" => int(4, true),
            "uint8" => int(1, false),
            "uint16" => int(2, false),
            "uint32" => int(4, false),
            "uint64" => int(8, false),
            "float16" => Self::Float { bytes: 2 },
            "float32" => Self::Float { bytes: 4 },
            "float64" => Self::Float { bytes: 8 },
            "str_int" => Self::IntText,
            "str_float" | "str_decimal" => Self::FloatText,
            "str" => Self::Str,
            "bytes" => Self::Bytes,
            "json" => Self::Json,
            "jpeg" | "png" => Self::File,
            "pil" => Self::Pil,
            "jpegarray" | "jpeg_array" => list(0, Self::File),
            "list[jpeg]" | "list[png]" => list(4, Self::File),
            "list[pil]" => list(4, Self::Pil),
            "pkl" => {
                return Err(fail!(
                    Unsupported,
                    "its encoding is pkl, and pickles are never loaded: write it again as json, ndarray or bytes"
                ));
            }
            _ => match text.strip_prefix("ndarray") {
                Some("") => Self::Array { dtype: None, shape: None },
                Some(rest) if rest.starts_with(':') => array(text, &rest[1..])?,
                _ => return Err(unknown(text)),
            },
        })
    }

    /// Returns the size of a value in bytes, if all have one.
    pub(super) fn size(&self) -> Option<u64> {
        match self {
            Self::Int { bytes, .. } | Self::Float { bytes } => Some((*bytes).into()),
            Self::Array { dtype: Some(dtype), shape: Some(shape) } => array_bytes(*dtype, shape),
            _ => None,
        }
    }

    /// Reads a value.
    ///
    /// # Errors
    ///
    /// Fails if the bytes are not a value of this encoding.
    pub(super) fn value<'a>(
        &self,
        reading: &Reading,
        bytes: &'a [u8],
    ) -> Result<Decoded<'a>, Error> {
        Ok(Decoded::Borrowed(match self {
            Self::Int { is_signed, .. } => Value::Int(int(bytes, *is_signed)?),
            Self::Float { .. } => Value::Float(float(bytes)?),
            Self::IntText => Value::Int(number(bytes, "a whole number of 64 bits")?),
            Self::FloatText => Value::Float(number(bytes, "a number")?),
            Self::Str => match std::str::from_utf8(bytes) {
                Ok(text) => Value::Bytes(text.as_bytes()),
                Err(error) => {
                    let at = error.valid_up_to();
                    return Err(fail!(Damaged, "the text is not UTF-8 from its byte {at} on"));
                }
            },
            Self::Bytes if *reading != Reading::Files => Value::Bytes(bytes),
            Self::Bytes | Self::File => image(bytes)?,
            Self::Json => {
                if let Some(at) = bytes.iter().position(|&byte| byte == 0) {
                    return Err(fail!(Damaged, "JSON with a NUL at its byte {at}"));
                }
                return Ok(Decoded::Json([bytes, &[0]].concat()));
            }
            Self::Pil => return pil(bytes),
            Self::Array { dtype, shape } => {
                let found = ArrayBytes::parse(*dtype, shape.as_deref(), bytes)?;
                return found.value(reading);
            }
            Self::List { skipped, of } => {
                let Reading::Element(nth) = *reading else {
                    return Err(fail!(Damaged, "a list without an element"));
                };
                let elements = elements(*skipped, bytes)?;
                let count = elements.len();
                let Some(&element) = elements.get(nth) else {
                    return Err(fail!(Damaged, "a list of {count}, which has no element {nth}"));
                };
                return of.value(&Reading::Plain, element);
            }
        }))
    }
}

/// The parts of an array's bytes.
#[derive(Debug, PartialEq)]
pub(super) struct ArrayBytes<'a> {
    pub(super) dtype: NdType,
    pub(super) shape: Vec<u64>,
    elements: &'a [u8],
}

impl<'a> ArrayBytes<'a> {
    /// Reads what the column does not say, then the elements.
    pub(super) fn parse(
        dtype: Option<NdType>,
        shape: Option<&[u64]>,
        bytes: &'a [u8],
    ) -> Result<Self, Error> {
        let cut = || fail!(Damaged, "an array of {} bytes ends in its header", bytes.len());
        let mut rest = bytes;
        let dtype = match dtype {
            Some(dtype) => dtype,
            None => {
                let (&number, after) = rest.split_first().ok_or_else(cut)?;
                rest = after;
                dtype_of(number)
                    .ok_or_else(|| fail!(Damaged, "an array whose dtype is {number}"))?
            }
        };
        let shape = match shape {
            Some(shape) => shape.to_vec(),
            None => {
                let (&head, after) = rest.split_first().ok_or_else(cut)?;
                let (axes, each) = (usize::from(head >> 2), 1_usize << (head % 4));
                let (lengths, after) = after.split_at_checked(axes * each).ok_or_else(cut)?;
                rest = after;
                lengths.chunks_exact(each).map(little_endian).collect()
            }
        };
        let (wanted, found) = (array_bytes(dtype, &shape), rest.len() as u64);
        if wanted != Some(found) {
            return Err(fail!(
                Damaged,
                "an array of shape {shape:?} and dtype {dtype} with {found} bytes of elements"
            ));
        }
        Ok(Self { dtype, shape, elements: rest })
    }

    fn value(self, reading: &Reading) -> Result<Decoded<'a>, Error> {
        let Self { dtype, shape, elements } = self;
        let (wanted_type, wanted) = match reading {
            Reading::Arrays(wanted_type, wanted) => (wanted_type, wanted),
            Reading::Rows(wanted_type, row)
                if dtype == *wanted_type
                    && shape.split_first().is_some_and(|(_, found)| found == row) =>
            {
                return Ok(Decoded::Bytes(npy::file(dtype, &shape, elements)));
            }
            Reading::Objects(wanted_type, row)
                if dtype == *wanted_type
                    && shape.split_first().is_some_and(|(_, found)| found == row) =>
            {
                return Ok(Decoded::Borrowed(Value::Bytes(elements)));
            }
            Reading::Rows(wanted_type, row) | Reading::Objects(wanted_type, row) => {
                (wanted_type, row)
            }
            _ => return Ok(Decoded::Borrowed(Value::NdArray(elements))),
        };
        if dtype == *wanted_type && shape == *wanted {
            return Ok(Decoded::Borrowed(Value::NdArray(elements)));
        }
        let has_rows = matches!(reading, Reading::Rows(..) | Reading::Objects(..));
        let more = if has_rows { " after the first axis" } else { "" };
        Err(fail!(
            Damaged,
            "an array of shape {shape:?} and dtype {dtype}, expected {wanted:?}{more} and {wanted_type} as in the first \
             samples: write arrays of other shapes to a column of bytes"
        ))
    }
}

/// Returns the dtype of an array's first byte.
fn dtype_of(number: u8) -> Option<NdType> {
    let kind = match number {
        8 | 16 | 32 | 64 => NdKind::UInt,
        9 | 17 | 33 | 65 => NdKind::Int,
        18 | 34 | 66 => NdKind::Float,
        _ => return None,
    };
    NdType::new(kind, number / 8, ByteOrder::Little)
}

/// Parses what follows `ndarray:`.
fn array(text: &str, rest: &str) -> Result<Encoding, Error> {
    let (dtype, shape) = rest.split_once(':').map_or((rest, None), |(a, b)| (a, Some(b)));
    let kind = match dtype.trim_end_matches(|c: char| c.is_ascii_digit()) {
        "uint" => Some(NdKind::UInt),
        "int" => Some(NdKind::Int),
        "float" => Some(NdKind::Float),
        _ => None,
    };
    let bits = dtype.trim_start_matches(|c: char| !c.is_ascii_digit()).parse::<u8>().ok();
    let bytes = bits.filter(|bits| bits % 8 == 0).map(|bits| bits / 8);
    let dtype =
        kind.zip(bytes).and_then(|(kind, bytes)| NdType::new(kind, bytes, ByteOrder::Little));
    let dtype = dtype.ok_or_else(|| unknown(text))?;
    let side = |side: &str| side.parse::<u64>().ok().filter(|&side| side > 0);
    let shape = match shape {
        None => None,
        Some(shape) => {
            let shape: Option<Vec<u64>> = shape.split(',').map(side).collect();
            let shape = shape.filter(|shape| shape.len() <= MOST_AXES);
            let shape = shape.filter(|shape| array_bytes(dtype, shape).is_some());
            Some(shape.ok_or_else(|| unknown(text))?)
        }
    };
    Ok(Encoding::Array { dtype: Some(dtype), shape })
}

fn unknown(text: &str) -> Error {
    let text = shown(text);
    let text = Escaped(&text);
    fail!(Format, "its encoding is {text}, which mosaicml-streaming 0.13 does not have")
}

/// Returns the number of up to eight bytes.
fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

fn int(bytes: &[u8], is_signed: bool) -> Result<i64, Error> {
    if !matches!(bytes.len(), 1..=8) {
        return Err(fail!(Damaged, "an integer of {} bytes", bytes.len()));
    }
    let number = little_endian(bytes);
    if is_signed {
        let unused = 64 - 8 * bytes.len();
        return Ok(number.cast_signed() << unused >> unused);
    }
    i64::try_from(number).map_err(|_| fail!(Damaged, "{number} is over the largest int64"))
}

fn float(bytes: &[u8]) -> Result<f64, Error> {
    match *bytes {
        [a, b] => Ok(f16::from_le_bytes([a, b]).into()),
        [a, b, c, d] => Ok(f32::from_le_bytes([a, b, c, d]).into()),
        [a, b, c, d, e, f, g, h] => Ok(f64::from_le_bytes([a, b, c, d, e, f, g, h])),
        _ => Err(fail!(Damaged, "a float of {} bytes", bytes.len())),
    }
}

fn number<T: std::str::FromStr>(bytes: &[u8], expected: &'static str) -> Result<T, Error> {
    let text = std::str::from_utf8(bytes).ok().and_then(|text| text.trim().parse().ok());
    text.ok_or_else(|| {
        let shown: String = String::from_utf8_lossy(&bytes[..bytes.len().min(40)]).into_owned();
        fail!(Damaged, "\"{}\" is not {expected}", Escaped(&shown))
    })
}

fn image(bytes: &[u8]) -> Result<Value<'_>, Error> {
    if !begins_as_image(bytes) {
        return Err(fail!(Damaged, "an image in no format that is read"));
    }
    let mode = ImageMode::of_file(bytes);
    Ok(Value::Image(EncodedImage { mode, width: 0, height: 0, bytes }))
}

/// Reads an image of PIL. Gray levels become equal red, green and blue, and alpha is left out.
fn pil(bytes: &[u8]) -> Result<Decoded<'_>, Error> {
    let cut = || fail!(Damaged, "an image of PIL of {} bytes ends in its header", bytes.len());
    let (head, rest) = bytes.split_first_chunk::<12>().ok_or_else(cut)?;
    let [width, height, mode] = [0, 4, 8]
        .map(|at| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]));
    let (mode, pixels) = rest.split_at_checked(mode as usize).ok_or_else(cut)?;
    let channels: usize = match mode {
        b"L" => 1,
        b"RGB" => 3,
        b"RGBA" | b"RGBX" => 4,
        _ => {
            let mode = String::from_utf8_lossy(&mode[..mode.len().min(16)]).into_owned();
            let mode = Escaped(&mode);
            return Err(fail!(
                Unsupported,
                "an image of PIL's mode {mode}, expected RGB, RGBA or L: write it as RGB"
            ));
        }
    };
    let wanted = u64::from(width).checked_mul(height.into());
    let wanted = wanted.and_then(|pixels| pixels.checked_mul(channels as u64));
    if wanted != Some(pixels.len() as u64) || pixels.is_empty() {
        let found = pixels.len();
        return Err(fail!(
            Damaged,
            "an image of PIL of width {width} and height {height} with {found} bytes of pixels"
        ));
    }
    Ok(match channels {
        1 => {
            let rgb = pixels.iter().flat_map(|&level| [level; 3]).collect();
            Decoded::Pixels(width, height, rgb)
        }
        3 => Decoded::Borrowed(Value::Image(EncodedImage {
            mode: ImageMode::Raw,
            width,
            height,
            bytes: pixels,
        })),
        _ => {
            let rgb = pixels.chunks_exact(4).flat_map(|pixel| [pixel[0], pixel[1], pixel[2]]);
            Decoded::Pixels(width, height, rgb.collect())
        }
    })
}

/// Returns the elements of a list.
pub(super) fn elements(skipped: usize, bytes: &[u8]) -> Result<Vec<&[u8]>, Error> {
    let cut = || fail!(Damaged, "a list of {} bytes ends before its elements", bytes.len());
    let rest = bytes.get(skipped..).ok_or_else(cut)?;
    let (count, rest) = rest.split_first_chunk::<4>().ok_or_else(cut)?;
    let sizes = (u32::from_le_bytes(*count) as usize).checked_mul(4).ok_or_else(cut)?;
    let (sizes, mut rest) = rest.split_at_checked(sizes).ok_or_else(cut)?;
    let mut elements = vec![];
    for size in sizes.chunks_exact(4) {
        let (element, after) =
            rest.split_at_checked(little_endian(size) as usize).ok_or_else(cut)?;
        elements.push(element);
        rest = after;
    }
    match rest.len() {
        0 => Ok(elements),
        more => Err(fail!(Damaged, "a list with {more} bytes after its last element")),
    }
}

impl From<Decoded<'_>> for OwnedValue {
    fn from(decoded: Decoded<'_>) -> Self {
        match decoded {
            Decoded::Borrowed(value) => value.into(),
            Decoded::Json(text) => Self::Json(text),
            Decoded::Bytes(bytes) => Self::Bytes(bytes),
            Decoded::Pixels(width, height, bytes) => Self::Image(crate::source::OwnedImage {
                mode: ImageMode::Raw,
                width,
                height,
                bytes,
            }),
        }
    }
}
