//! Images on their way into files: as they are, or as the options ask.
//!
//! | given    | `Lossless`  | stored as JPEG (`Jpg`, ..)              | stored raw (`Raw`, ..)  |
//! |----------|-------------|-----------------------------------------|-------------------------|
//! | JPEG     | its bytes   | its bytes, or encoded if size or quality are asked for | a PNG of its pixels |
//! | PNG      | its bytes   | encoded: lossy                          | its bytes, or a PNG of it made smaller |
//! | pixels   | a PNG       | encoded: lossy                          | a PNG                   |
//!
//! The rules are those of a `.beton` (`image.rs`), but that raw pixels are a PNG: a file needs a header.

use crate::sample::{Limits, SampleId};
use crate::source::{FieldSpec, ImageMode, OwnedImage, OwnedValue};
use crate::write::cut::StoredImage;
use crate::write::image::{self, Place};
use crate::write::mode::ImageOptions;
use crate::write::pixels::Pixels;
use crate::write::shards::png_file;
use crate::write::value::SampleError;
use crate::write::{ImageError, ImageInput, Reencoded};
use std::sync::{Mutex, PoisonError};

/// What makes files of images, for several threads.
pub(super) struct Pictures<'a> {
    options: &'a ImageOptions,
    /// Decoders that no thread is using.
    idle: Mutex<Vec<Pixels>>,
}

impl<'a> Pictures<'a> {
    pub(super) fn new(options: &'a ImageOptions) -> Self {
        Self { options, idle: Mutex::default() }
    }

    /// Makes a JPEG or PNG file of every image of a sample. Says what was encoded.
    ///
    /// # Errors
    ///
    /// If an image is damaged where it must be decoded, or can't be encoded.
    pub(super) fn to_files(
        &self,
        record: &mut [OwnedValue],
        fields: &[FieldSpec],
        sample: SampleId,
    ) -> Result<Vec<Reencoded>, SampleError> {
        let mut reencoded = vec![];
        for (field, (value, spec)) in record.iter_mut().zip(fields).enumerate() {
            // A value of another kind than its field is refused where it is written.
            if !value.fits(&spec.kind) {
                continue;
            }
            if let OwnedValue::Image(image) = value {
                let name = || spec.name.clone();
                let change = self.to_file(image, Place { sample, field }, name)?;
                Reencoded::count(&mut reencoded, change);
            }
        }
        Ok(reencoded)
    }

    fn to_file(
        &self,
        image: &mut OwnedImage,
        place: Place,
        field: impl Fn() -> String,
    ) -> Result<Option<Reencoded>, SampleError> {
        let from = image.mode;
        let (mut change, mut original) = (None, None);
        if !self.options.is_untouched() {
            original = (from == ImageMode::Png).then(|| image.bytes.clone());
            let given = std::mem::replace(image, OwnedImage::png(vec![]));
            let stored = self.stored(given, place);
            let stored = stored.map_err(|cause| SampleError::Image { field: field(), cause })?;
            change = stored.reencoded;
            let (width, height) = (u32::from(stored.width), u32::from(stored.height));
            *image = OwnedImage { mode: stored.mode, width, height, bytes: stored.bytes };
        }
        if image.mode != ImageMode::Raw {
            return Ok(change);
        }
        let is_lossy = change.is_some_and(|change| change.is_lossy);
        if let Some(bytes) = original.filter(|_| !is_lossy) {
            *image = OwnedImage::png(bytes);
            return Ok(None);
        }
        let png = png_file(image)
            .map_err(|error| SampleError::Source(format!("field {:?}: {error}", field()).into()))?;
        *image = OwnedImage::png(png);
        Ok(Some(Reencoded { from, to: ImageMode::Png, is_lossy, images: 1 }))
    }

    /// What a `.beton` would store of it.
    fn stored(&self, image: OwnedImage, place: Place) -> Result<StoredImage, ImageError> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let mut pixels = idle.pop().unwrap_or_else(|| Pixels::new(Limits::DEFAULT));
        drop(idle);
        // After a panic it is not given back: nobody knows what state it is in.
        let stored = image::store(anew(image), self.options, place, &Limits::DEFAULT, &mut pixels)?;
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(pixels);
        Ok(stored)
    }
}

/// An image to be stored as the options say, whatever it was stored as before.
pub(super) fn anew(image: OwnedImage) -> ImageInput {
    let OwnedImage { mode, width, height, bytes } = image;
    match mode {
        ImageMode::Raw => ImageInput::Rgb { pixels: bytes, width, height },
        ImageMode::Jpeg | ImageMode::Png => ImageInput::JpegBytes(bytes),
    }
}
