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
