//! Converts images to files: unchanged, or as the options require.
//!
//! | given    | `Lossless`  | stored as JPEG (`Jpg`, ..)              | stored raw (`Raw`, ..)  |
//! |----------|-------------|-----------------------------------------|-------------------------|
//! | JPEG     | its bytes   | its bytes, or encoded if a size or a quality is set | a PNG of its pixels |
//! | PNG      | its bytes   | encoded: lossy                          | its bytes, or a smaller PNG             |
//! | WebP, TIFF | its bytes | encoded: lossy                          | a PNG of its pixels |
//! | pixels   | a PNG       | encoded: lossy                          | a PNG                   |
//!
//! The rules are those of a `.beton` (`image.rs`), except that raw pixels become a PNG, because a file
//! needs a header.

use crate::decode::DecodeError;
use crate::sample::{Limits, SampleId};
use crate::source::{FieldSpec, ImageMode, OwnedImage, OwnedValue};
use crate::write::cut::StoredImage;
use crate::write::image::{self, InputPosition};
use crate::write::mode::ImageOptions;
use crate::write::pixels::{PixelReader, PixelsError};
use crate::write::shards::png_file;
use crate::write::value::WriteSampleError;
use crate::write::{ImageError, ImageInput, Reencoded};
use fuseloop_ops::Size;
use std::sync::{Mutex, PoisonError};

/// Converts images to files, for several threads.
pub(super) struct ImageFiles<'a> {
    options: &'a ImageOptions,
    /// The decoders that no thread is using.
    idle: Mutex<Vec<PixelReader>>,
}

impl<'a> ImageFiles<'a> {
    pub(super) fn new(options: &'a ImageOptions) -> Self {
        Self { options, idle: Mutex::default() }
    }

    /// Converts every image of a sample to a JPEG or PNG file. Returns which images were encoded.
    ///
    /// # Errors
    ///
    /// If an image that must be decoded is damaged, or an image can't be encoded.
    pub(super) fn to_files(
        &self,
        record: &mut [OwnedValue],
        fields: &[FieldSpec],
        sample: SampleId,
    ) -> Result<Vec<Reencoded>, WriteSampleError> {
        let mut reencoded = vec![];
        for (field, (value, spec)) in record.iter_mut().zip(fields).enumerate() {
            // A value whose kind is not its field's is refused when it is written.
            if !value.fits(&spec.kind) {
                continue;
            }
            if let OwnedValue::Image(image) = value {
                let name = || spec.name.clone();
                let change = self.to_file(image, InputPosition { sample, field }, name)?;
                Reencoded::count(&mut reencoded, change);
            }
        }
        Ok(reencoded)
    }

    fn to_file(
        &self,
        image: &mut OwnedImage,
        position: InputPosition,
        field: impl Fn() -> String,
    ) -> Result<Option<Reencoded>, WriteSampleError> {
        let from = image.mode;
        let (mut change, mut original) = (None, None);
        if !self.options.is_untouched() || from == ImageMode::BitPlanes {
            original = (from == ImageMode::Png).then(|| image.bytes.clone());
            let given = std::mem::replace(image, OwnedImage::png(vec![]));
            let stored = match (self.stored(given, position), &original) {
                // Pixels can't hold the class numbers of this mask, but its own file can.
                (
                    Err(ImageError::Pixels(PixelsError::Decode(DecodeError::NoIndex { .. }))),
                    Some(file),
                ) if self.is_small_enough(file) => {
                    *image = OwnedImage::png(file.clone());
                    return Ok(None);
                }
                (stored, _) => stored,
            };
            let stored =
                stored.map_err(|cause| WriteSampleError::Image { field: field(), cause })?;
            change = stored.reencoded;
            let (width, height) = (u32::from(stored.width), u32::from(stored.height));
            *image = OwnedImage { mode: stored.mode, width, height, bytes: stored.bytes };
        }
        if image.mode != ImageMode::Raw {
            return Ok(change);
        }
        // A PNG that is not made smaller stays byte for byte, with its alpha and its samples of 16 bits.
        if let Some(file) = original.filter(|file| self.is_small_enough(file)) {
            *image = OwnedImage::png(file);
            return Ok(None);
        }
        let is_lossy = change.is_some_and(|change| change.is_lossy);
        let png = png_file(image).map_err(|error| {
            WriteSampleError::Source(format!("field {:?}: {error}", field()).into())
        })?;
        *image = OwnedImage::png(png);
        Ok(Some(Reencoded { from, to: ImageMode::Png, is_lossy, images: 1 }))
    }

    /// Converts the image to the form that a `.beton` would store.
    fn stored(
        &self,
        image: OwnedImage,
        position: InputPosition,
    ) -> Result<StoredImage, ImageError> {
        self.with_decoder(|pixels| {
            image::store(to_input(image), self.options, position, &Limits::DEFAULT, pixels)
        })
    }

    /// Returns true if the options do not make an image file smaller.
    fn is_small_enough(&self, file: &[u8]) -> bool {
        let size = self.with_decoder(|pixels| pixels.size(file));
        size.is_ok_and(|size| self.options.stored_size(size) == size)
    }

    /// Reads the size in the header of a JPEG or PNG.
    pub(super) fn size(&self, image: &OwnedImage) -> Result<Size, PixelsError> {
        self.with_decoder(|pixels| pixels.size(&image.bytes))
    }

    fn with_decoder<T, E>(
        &self,
        work: impl FnOnce(&mut PixelReader) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let mut pixels = idle.pop().unwrap_or_else(|| PixelReader::new(Limits::DEFAULT));
        drop(idle);
        // After an error or a panic the decoder is not returned to the pool, because its state is unknown.
        let done = work(&mut pixels)?;
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(pixels);
        Ok(done)
    }
}

/// Converts a stored image to an input image, which is stored as the options say.
pub(super) fn to_input(image: OwnedImage) -> ImageInput {
    let OwnedImage { mode, width, height, bytes } = image;
    match mode {
        ImageMode::Raw => ImageInput::Rgb { pixels: bytes, width, height },
        ImageMode::Jpeg
        | ImageMode::Png
        | ImageMode::Webp
        | ImageMode::Tiff
        | ImageMode::BitPlanes => ImageInput::JpegBytes(bytes),
    }
}
