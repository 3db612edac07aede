//! A frame of a video, opened: its size upright, and its windows.
//!
//! ```text
//! window of the upright picture ─▶ window as stored ─▶ JPEG, or planes to RGB ─▶ turned
//! ```

use super::orientation::Orientation;
use super::{Decoded, Decoder, ImageReadMode, Opened, check_window, outside};
use crate::error::{Error, fail};
#[cfg(feature = "video")]
use crate::source::{EncodedImage, ImageMode, frame_size, frame_window};
use crate::source::{FrameImage, FramePixels, Value};
use fuseloop_ops::Size;
use fuseloop_ops::author::Window;

/// Memory for the pixels of frames. Each worker has its own.
#[derive(Debug, Default)]
pub(crate) struct FrameScratch {
    #[cfg(feature = "video")]
    rows: fuseloop_kernels::YuvRows,
    #[cfg(feature = "video")]
    rgb: Vec<u8>,
    turned: Vec<u8>,
}

/// A frame whose size is known.
pub(crate) struct OpenedFrame<'a> {
    pixels: OpenedPixels<'a>,
    mode: ImageReadMode,
    orientation: Orientation,
    /// The size before the picture is turned.
    stored: Size,
    scratch: &'a mut FrameScratch,
}

enum OpenedPixels<'a> {
    Coded(Box<Opened<'a>>),
    #[cfg(feature = "video")]
    Planes(&'a fuseloop_video::Frame, &'a mut Decoder),
}

impl<'a> OpenedFrame<'a> {
    /// Opens a frame: reads the headers of its stored image, or takes its planes.
    ///
    /// # Errors
    ///
    /// Fails as [`Decoder::open_as`] does.
    pub(crate) fn new(
        decoder: &'a mut Decoder,
        frame: FrameImage<'a>,
        mode: ImageReadMode,
        scratch: &'a mut FrameScratch,
    ) -> Result<Self, Error> {
        let (pixels, stored) = match frame.pixels {
            FramePixels::Stored(value) => {
                let Value::Image(image) = value else {
                    return Err(fail!(Field, "the frame is not stored as an image"));
                };
                let opened = decoder.open_as(&image, mode)?;
                let size = opened.size();
                (OpenedPixels::Coded(Box::new(opened)), size)
            }
            #[cfg(feature = "video")]
            FramePixels::Planes(picture) => {
                (OpenedPixels::Planes(picture, decoder), frame_size(picture))
            }
        };
        let orientation = Orientation::of_value(frame.orientation);
        Ok(Self { pixels, mode, orientation, stored, scratch })
    }

    /// Returns the size of the upright picture.
    pub(crate) fn size(&self) -> Size {
        self.orientation.turned(self.stored)
    }

    /// Decodes `wanted`, a window of the upright picture.
    ///
    /// # Errors
    ///
    /// If the window is empty or outside the picture, or if the pixels are damaged or can't be read in this mode.
    pub(crate) fn decode(&mut self, wanted: Window) -> Result<Decoded<'_>, Error> {
        check_window(wanted, self.size())?;
        let Self { pixels, mode, orientation, stored, scratch } = self;
        let part = orientation.stored(wanted, *stored);
        let view = match pixels {
            OpenedPixels::Coded(opened) => {
                opened.decode(part)?.window(part).ok_or_else(|| outside(part, *stored))?
            }
            #[cfg(feature = "video")]
            OpenedPixels::Planes(picture, decoder) => {
                frame_window(picture, part, &mut scratch.rows, &mut scratch.rgb)?;
                let Window { height, width, .. } = part;
                let image =
                    EncodedImage { mode: ImageMode::Raw, width, height, bytes: &scratch.rgb };
                let headers = decoder.headers(&image, *mode)?;
                let whole = Window { top: 0, left: 0, ..part };
                let decoded = decoder.decode_opened(image.bytes, &headers, *mode, whole)?;
                decoded.window(whole).ok_or_else(|| outside(part, *stored))?
            }
        };
        let Window { top, left, .. } = wanted;
        if *orientation == Orientation::UPRIGHT {
            return Ok(Decoded { view, top, left });
        }
        orientation.turn(view, &mut scratch.turned);
        let view = mode.view(&scratch.turned, wanted.size());
        let view = view.ok_or_else(|| outside(wanted, *stored))?;
        Ok(Decoded { view, top, left })
    }
}
