//! An image before it is decoded: opened by the decoder, or a raw image of which only some rows are read.

use crate::decode::{DecodeError, Decoded, Opened};
use crate::loader::error::SampleCause;
use crate::sample::SampleId;
use crate::source::{Buffer, Source, Value};
use fuseloop_ops::Size;
use fuseloop_ops::author::Window;
use fuseloop_ops::internals::{ImageView, RGB};

/// An image that was read, or whose rows are read when it is known which are needed.
pub(super) enum StoredImage<'a> {
    Value(Value<'a>),
    Rows(RawRows<'a>),
}

/// A raw image that was not read.
pub(super) struct RawRows<'a> {
    pub(super) source: &'a dyn Source,
    pub(super) sample: SampleId,
    pub(super) field: usize,
    pub(super) size: Size,
    pub(super) buffer: &'a mut Buffer,
}

/// An image whose size is known.
pub(super) enum OpenedImage<'a> {
    Value(Opened<'a>),
    Rows(RawRows<'a>),
}

impl OpenedImage<'_> {
    pub(super) fn size(&self) -> Size {
        match self {
            Self::Value(opened) => opened.size(),
            Self::Rows(rows) => rows.size,
        }
    }

    /// Decodes at least `wanted`, or reads its rows.
    pub(super) fn decode(&mut self, wanted: Window) -> Result<Decoded<'_>, SampleCause> {
        match self {
            Self::Value(opened) => Ok(opened.decode(wanted)?),
            Self::Rows(rows) => rows.read(wanted),
        }
    }
}

impl RawRows<'_> {
    fn read(&mut self, wanted: Window) -> Result<Decoded<'_>, SampleCause> {
        let Self { source, sample, field, size, buffer } = self;
        let Window { top, height, .. } = wanted;
        let bytes = source.raw_rows(*sample, *field, top..top.saturating_add(height), buffer)?;
        let part = Size { height, ..*size };
        let expected = part.pixels() * RGB as u64;
        let view = ImageView::packed(bytes, part).filter(|_| bytes.len() as u64 == expected);
        let view = view.ok_or(DecodeError::Window { wanted, size: *size })?;
        Ok(Decoded { view, top, left: 0 })
    }
}
