//! An image of which only parts are read.

use crate::decode::{Decoder, ImageReadMode};
use crate::internals::decode::window_of_parts;
use crate::sample::SampleId;
use crate::source::{
    BoxError, Buffer, Facts, FieldKind, ImageExtent, ImageMode, Record, Source, StoredValues,
};
use fuseloop_ops::Size;
use fuseloop_ops::author::Window;

/// One image.
struct ImageInParts {
    facts: Facts,
    mode: ImageMode,
    bytes: Vec<u8>,
}

/// Decodes a window from the parts that it needs; `None` if it is refused, or if the image must be read whole.
pub(super) fn window(
    decoder: &mut Decoder,
    (mode, bytes): (ImageMode, &[u8]),
    wanted: Window,
) -> Option<Vec<u8>> {
    let facts = Facts::new([("image", FieldKind::RgbImage)], 1);
    let source = ImageInParts { facts, mode, bytes: bytes.to_vec() };
    let how = (ImageReadMode::Rgb, 1);
    window_of_parts(decoder, (&source, SampleId(0), 0), how, wanted).ok().flatten()
}

impl Source for ImageInParts {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn read(&self, sample: SampleId) -> Result<Record, BoxError> {
        Err(format!("sample {sample} is read in parts").into())
    }

    fn stored(&self) -> Option<&dyn StoredValues> {
        Some(self)
    }
}

impl StoredValues for ImageInParts {
    fn image_extent(&self, _: SampleId, _: usize) -> Option<ImageExtent> {
        let (mode, bytes) = (Some(self.mode), self.bytes.len() as u64);
        Some(ImageExtent { mode, size: Size::new(0, 0), start: 0, bytes })
    }

    fn image_part(
        &self,
        _: SampleId,
        _: usize,
        (at, to): (u64, &mut [u8]),
        _: &mut Buffer,
    ) -> Result<(), BoxError> {
        let rest = usize::try_from(at).ok().and_then(|at| self.bytes.get(at..));
        // A part beyond the image would be an error of the decoder.
        to.copy_from_slice(&rest.expect("inside the image")[..to.len()]);
        Ok(())
    }
}
