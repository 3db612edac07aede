//! Names of image files: the extensions by which folders and tables recognize images.
//!
//! [`FORMATS`] lists them. The first bytes of a file, not its name, decide its format ([`ImageMode`](super::ImageMode)).

pub(super) use super::image_format::is_picture;
use super::image_format::{FORMATS, ImageFormat, of_extension};
use super::{audio_format, video_format};
use std::sync::LazyLock;

/// Returns the number of extensions of the formats that this build reads.
const fn count(masks_only: bool) -> usize {
    let (mut count, mut at) = (0, 0);
    while at < FORMATS.len() {
        if is_listed(&FORMATS[at], masks_only) {
            count += FORMATS[at].extensions.len();
        }
        at += 1;
    }
    count
}

const fn is_listed(format: &ImageFormat, masks_only: bool) -> bool {
    format.is_built && (format.is_for_masks || !masks_only)
}

const fn extensions<const N: usize>(masks_only: bool) -> [&'static str; N] {
    let mut all = [""; N];
    let (mut count, mut at) = (0, 0);
    while at < FORMATS.len() {
        let mut one = 0;
        while is_listed(&FORMATS[at], masks_only) && one < FORMATS[at].extensions.len() {
            all[count] = FORMATS[at].extensions[one];
            (count, one) = (count + 1, one + 1);
        }
        at += 1;
    }
    all
}

/// The extensions of images that this build reads.
pub(crate) const IMAGE_EXTENSIONS: &[&str] = &extensions::<{ count(false) }>(false);

/// The extensions of masks: of formats that store exact numbers.
pub(super) const MASK_EXTENSIONS: &[&str] = &extensions::<{ count(true) }>(true);

/// The extensions of JPEGs.
#[cfg(feature = "write")]
pub(super) const JPEG_EXTENSIONS: &[&str] = FORMATS[0].extensions;

/// The extensions of images as an error lists them, those of images, audio and videos, and the reason why a file with another
/// one is none of them.
static LISTED: LazyLock<[String; 3]> = LazyLock::new(|| {
    let listed = |extensions: &mut dyn Iterator<Item = &'static str>| {
        let all: Vec<String> = extensions.map(|one| format!(".{one}")).collect();
        let (last, others) = all.split_last().expect("every build reads JPEGs");
        format!("{} or {last}", others.join(", "))
    };
    let images = || IMAGE_EXTENSIONS.iter().copied();
    let all =
        listed(&mut images().chain(audio_format::extensions()).chain(video_format::extensions()));
    let not_called = format!("not called {all}");
    [listed(&mut images()), all, not_called]
});

/// Returns the extensions of images as an error lists them.
pub(super) fn listed() -> &'static str {
    &LISTED[0]
}

/// Returns the extensions of images, audio files and video files as an error lists them.
pub(super) fn listed_with_others() -> &'static str {
    &LISTED[1]
}

/// Returns whether a name ends in one of these extensions, whatever their case.
pub(super) fn has_extension(name: &str, extensions: &[&str]) -> bool {
    let extension = name.rsplit_once('.').map(|(_, extension)| extension);
    extension.is_some_and(|found| extensions.iter().any(|one| found.eq_ignore_ascii_case(one)))
}

/// Returns why a file with this extension is no image; `None` if it has the extension of one.
pub(super) fn why_not(extension: Option<&str>) -> Option<&'static str> {
    match extension.and_then(of_extension) {
        Some(format) if format.is_built => None,
        Some(ImageFormat { left_out, .. }) => Some(left_out),
        None => Some(&LISTED[2]),
    }
}

/// Returns the feature that would let this build read files with this extension; `None` if none would.
pub(super) fn feature_for(extension: &str) -> Option<&'static str> {
    of_extension(extension).filter(|format| !format.is_built)?.feature
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_formats_that_a_build_leaves_out_name_their_feature() {
        for name in ["jpg", "JPEG", "Png", "jfif", "bmp", "GIF", "ppm", "PAM"] {
            assert_eq!(why_not(Some(name)), None);
        }
        let other = why_not(Some("jp2")).unwrap();
        assert!(other.starts_with("not called .jpg, .jpeg"), "{other}");
        assert!(
            is_picture("HEIC") && is_picture("JFIF") && is_picture("AVIF") && !is_picture("txt")
        );
        assert_eq!(why_not(None), Some(other));
        for (name, feature, is_read) in [
            ("webp", "`webp`", cfg!(feature = "webp")),
            ("TIF", "`tiff`", cfg!(feature = "tiff")),
            ("tiff", "`tiff`", cfg!(feature = "tiff")),
            ("jxl", "`jxl`", cfg!(feature = "jxl")),
            ("HEIC", "`heic`", cfg!(feature = "heic")),
        ] {
            let reason = why_not(Some(name));
            assert_eq!(reason.is_none(), is_read, "{name}: {reason:?}");
            assert!(reason.is_none_or(|reason| reason.contains(feature)), "{name}: {reason:?}");
        }
        assert!(IMAGE_EXTENSIONS.iter().all(|one| listed().contains(one)));
        assert!(MASK_EXTENSIONS.contains(&"png") && !MASK_EXTENSIONS.contains(&"jpg"));
    }
}
