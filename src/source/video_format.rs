//! Names of video files: the extensions by which folders and tables recognize them.
//!
//! The first bytes of a file, not its name, decide its format.

/// The extensions of the containers that are read.
const VIDEO_EXTENSIONS: [&str; 6] = ["avi", "m4v", "mkv", "mov", "mp4", "webm"];

/// The extensions of video files in formats that no build reads: videos that are left out are probably missed.
const OTHER_VIDEOS: [&str; 10] =
    ["3gp", "asf", "flv", "m2ts", "mpeg", "mpg", "mts", "ogv", "ts", "wmv"];

/// Returns the extension of video files that this one is, in small letters.
pub(super) fn of_extension(extension: &str) -> Option<&'static str> {
    VIDEO_EXTENSIONS.into_iter().find(|known| extension.eq_ignore_ascii_case(known))
}

/// Returns the extension of a video file by its first bytes; `None` of a format that is not read.
#[cfg(feature = "write")]
pub(crate) fn of_file(file: &[u8]) -> Option<&'static str> {
    /// The bytes in which a header of Matroska names the type of the document.
    const HEADER: usize = 64;
    let has =
        |offset: usize, name: &[u8]| file.get(offset..).is_some_and(|at| at.starts_with(name));
    if has(0, b"RIFF") && has(8, b"AVI ") {
        return Some("avi");
    }
    if has(0, &[0x1a, 0x45, 0xdf, 0xa3]) {
        let is_webm = file.windows(4).take(HEADER).any(|name| name == b"webm");
        return Some(if is_webm { "webm" } else { "mkv" });
    }
    match file.get(4..8)? {
        b"ftyp" if !has(8, b"qt  ") => Some("mp4"),
        b"styp" | b"moof" | b"uuid" => Some("mp4"),
        b"ftyp" | b"moov" | b"mdat" | b"free" | b"skip" | b"wide" | b"pnot" => Some("mov"),
        _ => None,
    }
}

/// Returns the name of a video without its extension. Lists have `mpg`, too, for videos that a dataset has as other files.
pub(super) fn stem(name: &str) -> &str {
    match name.rsplit_once('.') {
        Some((stem, end)) if end == "mpg" || VIDEO_EXTENSIONS.contains(&end) => stem,
        _ => name,
    }
}

/// Returns the extensions of video files that this build reads.
pub(super) fn extensions() -> impl Iterator<Item = &'static str> {
    VIDEO_EXTENSIONS.into_iter().filter(|_| cfg!(feature = "video"))
}

/// Returns whether files with this extension are videos of a format that is not read.
pub(super) fn is_unread_video(extension: &str) -> bool {
    OTHER_VIDEOS.iter().any(|one| extension.eq_ignore_ascii_case(one))
}

#[cfg(all(test, feature = "write"))]
mod tests {
    use super::*;

    #[test]
    fn the_first_bytes_tell_the_format() {
        let matroska = |kind: &[u8]| [&[0x1a, 0x45, 0xdf, 0xa3, 0xa3], kind].concat();
        for (file, extension) in [
            (&b"RIFF\0\0\0\0AVI LIST"[..], Some("avi")),
            (b"RIFF\0\0\0\0WAVEfmt ", None),
            (&matroska(b"\x42\x82\x84webm"), Some("webm")),
            (&matroska(b"\x42\x82\x88matroska"), Some("mkv")),
            (b"\0\0\0\x20ftypisom", Some("mp4")),
            (b"\0\0\0\x14ftypqt  ", Some("mov")),
            (b"\0\0\0\x08wide\0\0\0\0mdat", Some("mov")),
            (b"\0\0", None),
            (b"", None),
        ] {
            assert_eq!(of_file(file), extension, "{file:?}");
        }
    }
}
