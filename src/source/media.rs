//! The three kinds of files that are samples of folders and tables: images, audio files and video files.
//!
//! The extension of a name tells the kind. The first bytes of a file tell its format.

use super::{audio_format, image_names, video_format};
use std::ffi::OsStr;
use std::path::Path;

/// The kind of the files of a folder or a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Media {
    #[default]
    Image,
    Audio,
    Video,
}

impl Media {
    pub(super) const ALL: [Self; 3] = [Self::Image, Self::Audio, Self::Video];

    /// Returns the kind of a file by its name, or why it is of none.
    pub(super) fn of(path: &Path) -> Result<Self, &'static str> {
        let extension = path.extension().and_then(OsStr::to_str);
        match extension.and_then(Self::of_extension) {
            Some((Self::Audio, _)) if !cfg!(feature = "audio") => {
                Err("audio, which needs a build of fuseloop with the feature `audio`")
            }
            Some((Self::Video, _)) if !cfg!(feature = "video") => {
                Err("video, which needs a build of fuseloop with the feature `video`")
            }
            Some((media, _)) => Ok(media),
            None => image_names::why_not(extension).map_or(Ok(Self::Image), Err),
        }
    }

    /// Returns audio or video for an extension of such files, and the usual extension of the same format.
    pub(super) fn of_extension(extension: &str) -> Option<(Self, &'static str)> {
        let audio = audio_format::of_extension(extension);
        let audio = audio.map(|format| (Self::Audio, format.extensions[0]));
        audio.or_else(|| Some((Self::Video, video_format::of_extension(extension)?)))
    }

    /// Returns the name of the field that the files are stored in.
    pub(super) fn field(self) -> &'static str {
        match self {
            Self::Image => "image",
            Self::Audio => "audio",
            Self::Video => "video",
        }
    }

    /// Returns the noun for this many files.
    pub(super) fn noun(self, count: u64) -> &'static str {
        match (self, count) {
            (Self::Image, 1) => "image",
            (Self::Image, _) => "images",
            (Self::Audio, 1) => "audio file",
            (Self::Audio, _) => "audio files",
            (Self::Video, 1) => "video file",
            (Self::Video, _) => "video files",
        }
    }

    /// Returns the noun for several files.
    pub(super) fn nouns(self) -> &'static str {
        self.noun(2)
    }
}

/// Returns why a file is not a sample; `None` if it has the name of an image, of an audio file or of a video file.
pub(super) fn why_not(path: &Path) -> Option<&'static str> {
    Media::of(path).err()
}
