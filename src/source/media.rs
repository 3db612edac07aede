//! The two kinds of files that are samples of folders and tables: images and audio files.
//!
//! The extension of a name tells the kind. The first bytes of a file tell its format.

use super::{audio_format, image_names};
use std::ffi::OsStr;
use std::path::Path;

/// The kind of the files of a folder or a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Media {
    #[default]
    Image,
    Audio,
}

impl Media {
    /// Returns the kind of a file by its name, or why it is of neither.
    pub(super) fn of(path: &Path) -> Result<Self, &'static str> {
        let extension = path.extension().and_then(OsStr::to_str);
        match extension.and_then(audio_format::of_extension) {
            Some(_) if cfg!(feature = "audio") => Ok(Self::Audio),
            Some(_) => Err("audio, which needs a build of fuseloop with the feature `audio`"),
            None => image_names::why_not(extension).map_or(Ok(Self::Image), Err),
        }
    }

    /// Returns the name of the field that the files are stored in.
    pub(super) fn field(self) -> &'static str {
        match self {
            Self::Image => "image",
            Self::Audio => "audio",
        }
    }

    /// Returns the noun for this many files.
    pub(super) fn noun(self, count: u64) -> &'static str {
        match (self, count) {
            (Self::Image, 1) => "image",
            (Self::Image, _) => "images",
            (Self::Audio, 1) => "audio file",
            (Self::Audio, _) => "audio files",
        }
    }

    /// Returns the noun for several files.
    pub(super) fn nouns(self) -> &'static str {
        self.noun(2)
    }
}

/// Returns why a file is not a sample; `None` if it has the name of an image or of an audio file.
pub(super) fn why_not(path: &Path) -> Option<&'static str> {
    Media::of(path).err()
}
