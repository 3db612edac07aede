//! The formats of image files: each is declared here once, and the rest of the crate asks this table.
//!
//! A new format is a file with a [`StillFormat`] and a row of [`FORMATS`]. The format of a file is that of its first
//! bytes, whatever its name is: one of ImageNet's `.JPEG` files is a PNG.

use super::bmp_file::BMP;
use super::gif_file::GIF;
#[cfg(feature = "heic")]
use super::heic_file::HEIC;
#[cfg(feature = "jxl")]
use super::jxl_file::JXL;
use super::pnm_file::PNM;
use super::still::StillFormat;
use super::value::ImageMode;
use fuseloop_jpeg::BIT_PLANES_MAGIC;

/// A format of image files.
pub(crate) struct ImageFormat {
    pub(crate) mode: ImageMode,
    /// The name with its article, as in "it is a BMP".
    pub(crate) name: &'static str,
    /// The extensions of its files in small letters. The first is that of files that are written.
    pub(crate) extensions: &'static [&'static str],
    begins: fn(&[u8]) -> bool,
    /// The feature of this crate that reads the format; `None` if every build does.
    pub(crate) feature: Option<&'static str>,
    pub(crate) is_built: bool,
    /// Says what a file of the format is, in a build that leaves it out.
    pub(crate) left_out: &'static str,
    /// True if its files can store exact numbers, as masks need.
    pub(crate) is_for_masks: bool,
    /// Reads the files, unless the format has a decoder of its own.
    pub(crate) still: Option<StillFormat>,
}

/// A format of files that have a decoder of their own and that every build reads.
const OWN: ImageFormat = ImageFormat {
    mode: ImageMode::Jpeg,
    name: "a JPEG",
    extensions: &["jpg", "jpeg", "jpe", "jfif"],
    begins: |bytes| bytes.starts_with(&[0xff, 0xd8]),
    feature: None,
    is_built: true,
    left_out: "",
    is_for_masks: true,
    still: None,
};

/// The format of a feature that this build lacks.
#[cfg(not(all(feature = "heic", feature = "jxl")))]
const LEFT_OUT: Option<StillFormat> = None;

/// The formats that are read, in the order in which a file's first bytes are compared.
pub(crate) const FORMATS: &[ImageFormat] = &[
    ImageFormat { is_for_masks: false, ..OWN },
    ImageFormat {
        mode: ImageMode::Png,
        name: "a PNG",
        extensions: &["png"],
        begins: |bytes| bytes.starts_with(b"\x89PNG\r\n\x1a\n"),
        ..OWN
    },
    ImageFormat {
        mode: ImageMode::Webp,
        name: "a WebP",
        extensions: &["webp"],
        begins: |bytes| bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP"),
        feature: Some("webp"),
        is_built: cfg!(feature = "webp"),
        left_out: "a WebP, which needs a build of fuseloop with the feature `webp`",
        ..OWN
    },
    ImageFormat {
        mode: ImageMode::Tiff,
        name: "a TIFF",
        extensions: &["tif", "tiff"],
        begins: |bytes| {
            [b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"].iter().any(|four| bytes.starts_with(*four))
        },
        feature: Some("tiff"),
        is_built: cfg!(feature = "tiff"),
        left_out: "a TIFF, which needs a build of fuseloop with the feature `tiff`",
        ..OWN
    },
    ImageFormat {
        mode: ImageMode::Bmp,
        name: "a BMP",
        extensions: &["bmp", "dib"],
        // Two letters alone would be the beginning of many a text; the length of a header is not.
        begins: |bytes| bytes.starts_with(b"BM") && bytes.get(15..18) == Some(&[0; 3]),
        still: Some(BMP),
        ..OWN
    },
    ImageFormat {
        mode: ImageMode::Gif,
        name: "a GIF",
        extensions: &["gif"],
        begins: |bytes| bytes.starts_with(b"GIF87a") || bytes.starts_with(b"GIF89a"),
        still: Some(GIF),
        ..OWN
    },
    ImageFormat {
        mode: ImageMode::Pnm,
        name: "a PNM",
        extensions: &["ppm", "pgm", "pbm", "pnm", "pam"],
        begins: |bytes| {
            matches!(
                bytes,
                [b'P', b'1'..=b'6', b' ' | b'\t'..=b'\r', b'#' | b'0'..=b'9' | b' ', ..]
                    | [b'P', b'1'..=b'6', b'\r', b'\n', b'#' | b'0'..=b'9' | b' ', ..]
            ) || matches!(bytes, [b'P', b'7', b'\r' | b'\n', b'#' | b'\n' | b'A'..=b'Z', ..])
        },
        still: Some(PNM),
        ..OWN
    },
    ImageFormat {
        mode: ImageMode::JpegXl,
        name: "a JPEG XL",
        extensions: &["jxl"],
        begins: |bytes| {
            bytes.starts_with(&[0xff, 0x0a]) || bytes.starts_with(b"\0\0\0\x0cJXL \r\n\x87\n")
        },
        feature: Some("jxl"),
        is_built: cfg!(feature = "jxl"),
        left_out: "a JPEG XL, which needs a build of fuseloop with the feature `jxl`",
        is_for_masks: false,
        #[cfg(feature = "jxl")]
        still: Some(JXL),
        #[cfg(not(feature = "jxl"))]
        still: LEFT_OUT,
    },
    ImageFormat {
        mode: ImageMode::Heic,
        name: "a HEIC",
        extensions: &["heic", "heif", "hif"],
        begins: |bytes| {
            let brand = bytes.get(4..12).and_then(|brand| brand.strip_prefix(b"ftyp"));
            brand.is_some_and(|brand| {
                matches!(brand, b"heic" | b"heix" | b"heim" | b"heis" | b"mif1") && !is_avif(bytes)
            })
        },
        feature: Some("heic"),
        is_built: cfg!(feature = "heic"),
        left_out: "a HEIC, which needs a build of fuseloop with the feature `heic`",
        is_for_masks: false,
        #[cfg(feature = "heic")]
        still: Some(HEIC),
        #[cfg(not(feature = "heic"))]
        still: LEFT_OUT,
    },
];

/// Returns whether a file of boxes lists the brand of AVIF among those that it is compatible with.
fn is_avif(bytes: &[u8]) -> bool {
    let length = bytes.first_chunk().map_or(0, |four| u32::from_be_bytes(*four) as usize);
    let brands = bytes.get(8..length.min(bytes.len())).unwrap_or_default();
    brands.as_chunks::<4>().0.iter().any(|brand| brand == b"avif" || brand == b"avis")
}

/// The extensions of pictures in formats that no build reads: pictures that are left out are probably missed. The last
/// line has the raw files of cameras.
const OTHER_PICTURES: &[&str] = &[
    "avif", "apng", "jp2", "j2k", "jpf", "jpx", "jxr", "pfm", "ico", "svg", "tga", "psd", "exr",
    "hdr", "dcm", "qoi", "jls", "dng", "cr2", "cr3", "crw", "nef", "nrw", "arw", "srf", "sr2",
    "raf", "orf", "rw2", "pef", "srw", "raw", "3fr", "iiq",
];

impl ImageMode {
    /// Returns the kind of an image file by its first bytes; a JPEG if they are not known.
    pub(crate) fn of_file(bytes: &[u8]) -> Self {
        if bytes.starts_with(&BIT_PLANES_MAGIC) {
            return Self::BitPlanes;
        }
        FORMATS
            .iter()
            .find(|format| (format.begins)(bytes))
            .map_or(Self::Jpeg, |format| format.mode)
    }

    /// Returns the format of image files with this mode; `None` for pixels and bit planes.
    pub(crate) fn file_format(self) -> Option<&'static ImageFormat> {
        FORMATS.iter().find(|format| format.mode == self)
    }

    /// Returns true for a whole image file that is no JPEG: a `.beton` file stores the pixels of these.
    #[must_use]
    pub fn is_other_file(self) -> bool {
        self != Self::Jpeg && self.file_format().is_some()
    }
}

/// Returns whether bytes begin as an image file of any known format, bit planes included. Columns of bytes whose first values
/// do are read as images, and writers ask the same to foresee it.
#[cfg(any(feature = "mds", feature = "parquet", feature = "tfrecord"))]
pub(crate) fn begins_as_image(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0xff, 0xd8, 0xff]) || ImageMode::of_file(bytes) != ImageMode::Jpeg
}

impl ImageFormat {
    /// Returns the name without its article.
    pub(crate) fn noun(&self) -> &'static str {
        self.name.split_once(' ').map_or(self.name, |(_, noun)| noun)
    }

    /// Says that this build can't read the format, and which feature would let it; `None` if it can.
    pub(crate) fn needs_feature(&self) -> Option<String> {
        let feature = self.feature.filter(|_| !self.is_built)?;
        let noun = self.noun();
        Some(format!(
            "this build can't read {noun} images: build fuseloop with the feature `{feature}`"
        ))
    }
}

/// Returns the extensions of the files of masks that are written, one of each format that stores exact numbers.
#[cfg(feature = "write")]
pub(crate) fn mask_extensions() -> impl Iterator<Item = &'static str> {
    FORMATS.iter().filter(|format| format.is_for_masks).map(|format| format.extensions[0])
}

/// Returns whether a format has files with this extension, whether this build reads it or not.
#[cfg(feature = "write")]
pub(crate) fn is_image_extension(extension: &str) -> bool {
    of_extension(extension).is_some()
}

/// Returns the format of files with this extension, whether this build reads it or not.
pub(super) fn of_extension(extension: &str) -> Option<&'static ImageFormat> {
    let is = |known: &&str| extension.eq_ignore_ascii_case(known);
    FORMATS.iter().find(|format| format.extensions.iter().any(&is))
}

/// Returns whether files with this extension are pictures, of any format.
pub(super) fn is_picture(extension: &str) -> bool {
    of_extension(extension).is_some()
        || OTHER_PICTURES.iter().any(|one| extension.eq_ignore_ascii_case(one))
}

/// The bytes at the beginning of a file that name its format.
pub(crate) const FORMAT_BYTES: usize = 64;

/// Names the format of a file by its first bytes, and says so if it is not read; `None` if it is unknown.
pub(crate) fn format_name(bytes: &[u8]) -> Option<&'static str> {
    if let Some(format) = FORMATS.iter().find(|format| (format.begins)(bytes)) {
        return Some(format.name);
    }
    Some(match *bytes {
        // The end of the line after these letters is often what is damaged.
        [0x89, b'P', b'N', b'G', ..] => "a PNG",
        [_, _, _, _, b'f', b't', b'y', b'p', ..] if is_avif(bytes) => AVIF,
        [_, _, _, _, b'f', b't', b'y', b'p', ..] => {
            "a video or another file of boxes, which is not read"
        }
        [0, 0, 0, 12, b'j', b'P', b' ', b' ', ..] | [0xff, 0x4f, 0xff, 0x51, ..] => {
            "a JPEG 2000, which is not read"
        }
        [b'P', b'f' | b'F', b'\n', ..] => "a PFM of floats, which is not read",
        [b'8', b'B', b'P', b'S', ..] => "a file of Photoshop, which is not read",
        [b'<', ..] => "text that begins with `<`, such as HTML or SVG",
        _ => return None,
    })
}

/// The description of an AVIF, and what to do with it.
const AVIF: &str =
    "an AVIF, which is not read: convert it, for example by `magick in.avif out.png`";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_the_docs_has_every_format() {
        let docs = include_str!("../../docs/sources.md");
        for ImageFormat { name, extensions, feature, .. } in FORMATS {
            let (_, noun) = name.split_once(' ').unwrap();
            let extensions = extensions.join("`, `");
            let feature = feature.map_or_else(String::new, |feature| format!("`{feature}` "));
            let row = format!("\n| {noun} | `{extensions}` | {feature}| ");
            assert!(docs.contains(&row), "docs/sources.md lacks {row:?}");
        }
    }

    #[test]
    fn first_bytes_tell_the_format_and_a_text_is_none() {
        for (bytes, name) in [
            (&b"\xff\xd8\xff"[..], Some("a JPEG")),
            (b"\x89PNG\n", Some("a PNG")),
            (b"BM\x36\x0c\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0", Some("a BMP")),
            (b"BMW sells cars, and more", None),
            (b"P5 2 2 255\n", Some("a PNM")),
            (b"P7\nWIDTH 1\n", Some("a PNM")),
            (b"P5\r\n2 2\r\n255\r\n", Some("a PNM")),
            (b"P.S. more", None),
            (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", Some("a HEIC")),
            (b"\0\0\0\x18ftypmif1\0\0\0\0mif1avif", Some(AVIF)),
            (
                b"\0\0\0\x18ftypisom\0\0\0\0mp41isom",
                Some("a video or another file of boxes, which is not read"),
            ),
            (b"\xff\x0a\0", Some("a JPEG XL")),
        ] {
            assert_eq!(format_name(bytes), name, "{bytes:?}");
        }
    }
}
