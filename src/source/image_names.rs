//! Names of image files: the extensions by which folders and tables recognize images.
//!
//! | extension       | format | in builds with   |
//! |-----------------|--------|------------------|
//! | jpg, jpeg, jpe, jfif | JPEG | any features  |
//! | png             | PNG    | any features     |
//! | webp            | WebP   | the feature `webp` |
//! | tif, tiff       | TIFF   | the feature `tiff` |
//!
//! The format itself is told by the first bytes of a file ([`ImageMode`](super::ImageMode)).

#[cfg(all(feature = "tiff", feature = "webp"))]
macro_rules! listed {
    () => {
        ".jpg, .jpeg, .jpe, .jfif, .png, .webp, .tif or .tiff"
    };
}
#[cfg(all(feature = "tiff", not(feature = "webp")))]
macro_rules! listed {
    () => {
        ".jpg, .jpeg, .jpe, .jfif, .png, .tif or .tiff"
    };
}
#[cfg(all(not(feature = "tiff"), feature = "webp"))]
macro_rules! listed {
    () => {
        ".jpg, .jpeg, .jpe, .jfif, .png or .webp"
    };
}
#[cfg(not(any(feature = "tiff", feature = "webp")))]
macro_rules! listed {
    () => {
        ".jpg, .jpeg, .jpe, .jfif or .png"
    };
}

/// The extensions of images that this build reads.
pub(crate) const IMAGE_EXTENSIONS: &[&str] = &[
    "jpg",
    "jpeg",
    "jpe",
    "jfif",
    "png",
    #[cfg(feature = "webp")]
    "webp",
    #[cfg(feature = "tiff")]
    "tif",
    #[cfg(feature = "tiff")]
    "tiff",
];

/// The extensions of JPEGs, which come first.
#[cfg(feature = "write")]
pub(super) const JPEG_EXTENSIONS: &[&str] = IMAGE_EXTENSIONS.split_at(4).0;

/// The extensions of pictures in formats that no build reads, or not every one: pictures that are left out are probably
/// missed. The last line has the raw files of cameras.
const OTHER_PICTURES: &[&str] = &[
    "webp", "tif", "tiff", "heic", "heif", "hif", "avif", "bmp", "dib", "gif", "apng", "jxl",
    "jp2", "j2k", "jpf", "jpx", "jxr", "ppm", "pgm", "pbm", "pnm", "pam", "pfm", "ico", "svg",
    "tga", "psd", "exr", "hdr", "dcm", "qoi", "jls", "dng", "cr2", "cr3", "crw", "nef", "nrw",
    "arw", "srf", "sr2", "raf", "orf", "rw2", "pef", "srw", "raw", "3fr", "iiq",
];

/// The extensions of masks: of formats that store exact numbers.
pub(super) const MASK_EXTENSIONS: &[&str] = &[
    "png",
    #[cfg(feature = "webp")]
    "webp",
    #[cfg(feature = "tiff")]
    "tif",
    #[cfg(feature = "tiff")]
    "tiff",
];

/// The extensions as an error lists them.
pub(super) const LISTED: &str = listed!();

/// Returns whether a name ends in one of these extensions, whatever their case.
pub(super) fn has_extension(name: &str, extensions: &[&str]) -> bool {
    let extension = name.rsplit_once('.').map(|(_, extension)| extension);
    extension.is_some_and(|found| extensions.iter().any(|one| found.eq_ignore_ascii_case(one)))
}

/// Returns why a file with this extension is no image; `None` if it has the extension of one.
pub(super) fn why_not(extension: Option<&str>) -> Option<&'static str> {
    let is = |one: &str| extension.is_some_and(|found| found.eq_ignore_ascii_case(one));
    if IMAGE_EXTENSIONS.iter().any(|one| is(one)) {
        return None;
    }
    Some(if is("webp") {
        "a WebP, which needs a build of fuseloop with the feature `webp`"
    } else if is("tif") || is("tiff") {
        "a TIFF, which needs a build of fuseloop with the feature `tiff`"
    } else {
        concat!("not called ", listed!())
    })
}

/// Returns whether files with this extension are pictures, of any format.
pub(super) fn is_picture(extension: &str) -> bool {
    let mut known = IMAGE_EXTENSIONS.iter().chain(OTHER_PICTURES);
    known.any(|one| extension.eq_ignore_ascii_case(one))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_formats_that_a_build_leaves_out_name_their_feature() {
        for name in ["jpg", "JPEG", "Png", "jfif"] {
            assert_eq!(why_not(Some(name)), None);
        }
        let other = why_not(Some("gif")).unwrap();
        assert!(other.starts_with("not called .jpg, .jpeg"), "{other}");
        assert!(is_picture("HEIC") && is_picture("JFIF") && !is_picture("txt"));
        assert_eq!(why_not(None), Some(other));
        for (name, feature, is_read) in [
            ("webp", "`webp`", cfg!(feature = "webp")),
            ("TIF", "`tiff`", cfg!(feature = "tiff")),
            ("tiff", "`tiff`", cfg!(feature = "tiff")),
        ] {
            let reason = why_not(Some(name));
            assert_eq!(reason.is_none(), is_read, "{name}: {reason:?}");
            assert!(reason.is_none_or(|reason| reason.contains(feature)), "{name}: {reason:?}");
        }
        assert!(IMAGE_EXTENSIONS.iter().all(|one| LISTED.contains(one)));
    }
}
