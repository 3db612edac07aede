//! Errors of drawing a sheet.

use crate::error::{Cause, Details, ErrorKind};

/// Why there is no sheet.
#[derive(Debug, thiserror::Error)]
pub enum PreviewCause {
    /// No sample or no epoch was asked for.
    #[error("0 samples or 0 epochs: give 1 or more")]
    Nothing,
    /// The images after each op are those of one epoch.
    #[error("`each_op` shows a single epoch, got {epochs}: drop one of the two options")]
    EachOp {
        /// The number of epochs.
        epochs: u32,
    },
    /// The sheet would have too many images.
    #[error("a sheet of {cells} images, the limit is {most}")]
    Cells {
        /// The number of images.
        cells: usize,
        /// The most that a sheet has.
        most: usize,
    },
    /// A picture has one channel or three.
    #[error("{found} bands: give one (shown as gray) or three (red, green and blue)")]
    Bands {
        /// The number of bands.
        found: usize,
    },
    /// The images do not have a band.
    #[error("there is no band {band}: the images have {channels} channels, numbered from 0")]
    Band {
        /// The band.
        band: usize,
        /// The number of channels.
        channels: usize,
    },
    /// Another thread has cancelled the call.
    #[error("the preview was cancelled")]
    Cancelled,
    /// The sheet can't be encoded as a PNG.
    #[error("the sheet as a PNG: {0}")]
    Png(png::EncodingError),
    /// The sheet can't be encoded as a JPEG.
    #[cfg(feature = "write")]
    #[error("the sheet as a JPEG: {0}")]
    Jpeg(jpeg_encoder::EncodingError),
    /// A side is longer than a JPEG can have.
    #[cfg(feature = "write")]
    #[error(
        "a sheet of {height} x {width} pixels, a JPEG has at most 65535 a side: save it as a PNG"
    )]
    JpegSize {
        /// The height in pixels.
        height: u32,
        /// The width in pixels.
        width: u32,
    },
}

impl Cause for PreviewCause {
    fn details(&self) -> Details<'_> {
        Details::of(match self {
            Self::Nothing
            | Self::EachOp { .. }
            | Self::Cells { .. }
            | Self::Bands { .. }
            | Self::Band { .. } => ErrorKind::Parameter,
            Self::Cancelled => ErrorKind::Cancelled,
            Self::Png(_) => ErrorKind::Io,
            #[cfg(feature = "write")]
            Self::Jpeg(_) => ErrorKind::Io,
            #[cfg(feature = "write")]
            Self::JpegSize { .. } => ErrorKind::Parameter,
        })
    }
}
