//! An image before it is decoded: opened by the decoder, a raw image of which only some rows are read, or the pixels
//! themselves.

use crate::decode::{Decoded, Opened, OpenedFrame, PartlyRead, outside};
use crate::error::Error;
use crate::sample::SampleId;
use crate::source::{Buffer, FrameImage, ImageExtent, StoredValues, Value, read_image_part};
use fuseloop_ops::Size;
use fuseloop_ops::author::Window;
use fuseloop_ops::internals::{ImageView, RGB};

/// An image that was read, or whose rows are read when it is known which are needed.
pub(super) enum StoredImage<'a> {
    Value(Value<'a>),
    /// An image of which only the headers were read.
    Parts(PartlyRead<'a>),
    Rows(RawRows<'a>),
    /// A frame of a video, decoded or turned.
    Frame(FrameImage<'a>),
}

/// A raw image that was not read.
pub(super) struct RawRows<'a> {
    pub(super) source: &'a dyn StoredValues,
    pub(super) sample: SampleId,
    pub(super) field: usize,
    pub(super) extent: ImageExtent,
    pub(super) buffer: &'a mut Buffer,
}

/// An image whose size is known.
#[allow(
    clippy::large_enum_variant,
    reason = "made for each image: an allocation costs more than its bytes on the stack"
)]
pub(super) enum OpenedImage<'a> {
    Value(Opened<'a>),
    Rows(RawRows<'a>),
    Frame(OpenedFrame<'a>),
    Pixels(ImageView<'a>),
}

impl OpenedImage<'_> {
    pub(super) fn size(&self) -> Size {
        match self {
            Self::Value(opened) => opened.size(),
            Self::Rows(rows) => rows.extent.size,
            Self::Frame(frame) => frame.size(),
            Self::Pixels(view) => view.size(),
        }
    }

    /// Decodes at least `wanted`, or reads its rows.
    pub(super) fn decode(&mut self, wanted: Window) -> Result<Decoded<'_>, Error> {
        match self {
            Self::Value(opened) => opened.decode(wanted),
            Self::Rows(rows) => rows.read(wanted),
            Self::Frame(frame) => frame.decode(wanted),
            Self::Pixels(view) => Ok(Decoded { view: *view, top: 0, left: 0 }),
        }
    }
}

impl RawRows<'_> {
    fn read(&mut self, wanted: Window) -> Result<Decoded<'_>, Error> {
        let Self { source, sample, field, extent, buffer } = self;
        let (size, Window { top, height, .. }) = (extent.size, wanted);
        if top.checked_add(height).is_none_or(|end| end > size.height) {
            return Err(outside(wanted, size));
        }
        let [first, rows] =
            [top, height].map(|rows| Size { height: rows, ..size }.pixels() * RGB as u64);
        let sample = (*sample, *field);
        let bytes = read_image_part(*source, sample, extent, first..first + rows, buffer)?;
        let view = ImageView::packed(bytes, Size { height, ..size })
            .ok_or_else(|| outside(wanted, size))?;
        Ok(Decoded { view, top, left: 0 })
    }
}
