//! The error of a video file.

use std::fmt;
use std::io;

/// The kinds of errors of a video file, on which a program may branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VideoErrorKind {
    /// The system could not read.
    Io,
    /// The file is no video file, or is damaged as a whole.
    Format,
    /// A packet or a frame is damaged.
    Damaged,
    /// The file is intact, but has a codec, a format or a layout that is not supported here.
    Unsupported,
    /// The file is intact, and libavcodec decodes it, which is missing or not used.
    NeedsLibavcodec,
    /// More memory is needed than a limit allows.
    Limit,
    /// A parameter is invalid, such as the number of a frame that the video does not have.
    Parameter,
}

/// An error of a video file: its kind, the offset in the file where it was found, and a sentence that states what was
/// found and what to do about it. It does not know the path of the file: the caller adds it.
///
/// ```
/// use fuseloop_video::{VideoErrorKind, VideoIndex, VideoLimits};
///
/// let error = VideoIndex::read(&b"no video".to_vec(), &VideoLimits::DEFAULT).unwrap_err();
/// assert_eq!(error.kind(), VideoErrorKind::Format);
/// assert!(error.to_string().contains("AVI"), "{error}");
/// ```
#[derive(Debug)]
pub struct VideoError(Box<Cause>);

#[derive(Debug)]
struct Cause {
    kind: VideoErrorKind,
    offset: Option<u64>,
    message: String,
    source: Option<io::Error>,
}

impl VideoError {
    /// Returns an error of a kind with a sentence.
    pub fn new(kind: VideoErrorKind, message: impl Into<String>) -> Self {
        let message = message.into();
        Self(Box::new(Cause { kind, offset: None, message, source: None }))
    }

    /// Returns the error of a read at an offset.
    pub(crate) fn io(source: io::Error, offset: u64) -> Self {
        let message = format!("reading failed: {source}");
        let kind = VideoErrorKind::Io;
        Self(Box::new(Cause { kind, offset: Some(offset), message, source: Some(source) }))
    }

    /// Adds the offset in the file where the error was found. An offset that is known already stays.
    #[must_use]
    pub fn at(mut self, offset: u64) -> Self {
        self.0.offset.get_or_insert(offset);
        self
    }

    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> VideoErrorKind {
        self.0.kind
    }

    /// Returns the offset in the file where the error was found.
    #[must_use]
    pub fn offset(&self) -> Option<u64> {
        self.0.offset
    }

    /// Returns the sentence without the offset.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }
}

impl fmt::Display for VideoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.offset {
            Some(offset) => write!(f, "offset {offset}: {}", self.0.message),
            None => f.write_str(&self.0.message),
        }
    }
}

impl std::error::Error for VideoError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_ref().map(|source| source as _)
    }
}

/// Returns the error of a damaged or unknown file.
macro_rules! format_error {
    ($($arguments:tt)*) => {
        $crate::VideoError::new($crate::VideoErrorKind::Format, format!($($arguments)*))
    };
}

/// Returns the error of an intact file that is not supported.
macro_rules! unsupported {
    ($($arguments:tt)*) => {
        $crate::VideoError::new($crate::VideoErrorKind::Unsupported, format!($($arguments)*))
    };
}

/// Returns the error of a file that exceeds a limit.
macro_rules! over_limit {
    ($($arguments:tt)*) => {
        $crate::VideoError::new($crate::VideoErrorKind::Limit, format!($($arguments)*))
    };
}

pub(crate) use {format_error, over_limit, unsupported};
