//! Converts images to files: unchanged, or as the options require.
//!
//! | given    | `Lossless`  | stored as JPEG (`Jpg`, ..)              | stored raw (`Raw`, ..)  |
//! |----------|-------------|-----------------------------------------|-------------------------|
//! | JPEG     | its bytes   | its bytes, or encoded if a size or a quality is set | a PNG of its pixels |
//! | PNG      | its bytes   | encoded: lossy                          | its bytes, or a smaller PNG             |
//! | another format | its bytes | encoded: lossy                          | a PNG of its pixels |
//! | pixels   | a PNG       | encoded: lossy                          | a PNG                   |
//!
//! The rules are those of a `.beton` (`image.rs`), except that raw pixels become a PNG, because a file
//! needs a header. The file of a mask (`Mask`) stays, unless it is made smaller; the pixels of a mask become a gray PNG
//! of its class numbers.

use crate::sample::{Limits, SampleId};
use crate::source::{EncodedImage, FieldSpec, ImageMode, OwnedImage, OwnedValue};
use crate::write::cut::StoredImage;
use crate::write::image::{self, InputPosition};
use crate::write::mode::{ImageOptions, WriteMode};
use crate::write::pixels::{PixelReader, PixelsError};
use crate::write::report::{ImageCounts, SizeChange};
use crate::write::shards::{gray_png, png_file, wrong};
use crate::write::value::WriteSampleError;
use crate::write::{ImageError, ImageInput, Reencoded};
use fuseloop_ops::Size;
use fuseloop_ops::internals::RGB;
use std::sync::{Mutex, PoisonError};

/// Converts images to files, for several threads.
pub(super) struct ImageFiles<'a> {
    /// The options of each field, in the order of the fields.
    options: &'a [ImageOptions],
    /// True if images have objects or masks beside them.
    has_targets: bool,
    /// The fields whose files of audio are decoded only to find errors.
    checked_audio: Vec<usize>,
    limits: Limits,
    /// The decoders that no thread is using.
    idle: Mutex<Vec<PixelReader>>,
}

impl<'a> ImageFiles<'a> {
    /// `has_targets` is true if images have objects or masks beside them.
    pub(super) fn new(options: &'a [ImageOptions], has_targets: bool, limits: Limits) -> Self {
        Self { options, has_targets, checked_audio: vec![], limits, idle: Mutex::default() }
    }

    /// Also decodes the files of the fields that are audio, if their options say `verify`.
    pub(super) fn checking(self, is_audio: impl Fn(usize) -> bool) -> Self {
        let is_checked = |field: &usize| self.options[*field].verify && is_audio(*field);
        // A build without audio does not decode it.
        let fields = if cfg!(feature = "audio") { self.options.len() } else { 0 };
        Self { checked_audio: (0..fields).filter(is_checked).collect(), ..self }
    }

    /// Checks the audio files of a sample that stay unchanged, if their options say `verify`.
    ///
    /// # Errors
    ///
    /// If a file is damaged, or of a kind that is not read.
    pub(super) fn check_audio(
        &self,
        record: &[OwnedValue],
        fields: &[FieldSpec],
    ) -> Result<(), WriteSampleError> {
        for &index in &self.checked_audio {
            if let Some(OwnedValue::Bytes(file)) = record.get(index) {
                let checked = self.with_decoder(|pixels| pixels.check_audio(file));
                checked.map_err(|error| wrong(&fields[index], error))?;
            }
        }
        Ok(())
    }

    /// Refuses an image of a row of a `.beton` whose EXIF orientation would be lost, though its targets depend on it: only
    /// JPEGs are stored as files.
    ///
    /// # Errors
    ///
    /// If it is another than upright. A damaged image is refused where it is converted.
    pub(super) fn check_orientation(
        &self,
        image: &OwnedImage,
        options: &ImageOptions,
    ) -> Result<(), ImageError> {
        let is_jpeg = matches!(image.mode, ImageMode::Jpeg | ImageMode::BitPlanes);
        if is_jpeg && options.keeps_headers() && !image::is_other_jpeg(image) {
            return Ok(());
        }
        self.orientation(image).map_or(Ok(()), |found| Err(lost(found)))
    }

    /// Returns the EXIF orientation, from 2 to 8, that the targets of an image may depend on.
    fn orientation(&self, image: &OwnedImage) -> Option<u32> {
        if !self.has_targets || image.mode == ImageMode::Raw {
            return None;
        }
        let OwnedImage { mode, width, height, ref bytes } = *image;
        let image = EncodedImage { mode, width, height, bytes };
        self.with_decoder(|pixels| pixels.orientation(&image)).ok().flatten()
    }

    /// Converts every image of a sample to a JPEG or PNG file. Returns how they are stored.
    ///
    /// # Errors
    ///
    /// If an image that must be decoded is damaged, or an image can't be encoded.
    pub(super) fn to_files(
        &self,
        record: &mut [OwnedValue],
        fields: &[FieldSpec],
        sample: SampleId,
    ) -> Result<ImageCounts, WriteSampleError> {
        self.check_audio(record, fields)?;
        let mut counts = ImageCounts::default();
        let values = record.iter_mut().zip(fields).zip(self.options).enumerate();
        for (field, ((value, spec), options)) in values {
            // A value whose kind is not its field's is refused when it is written.
            if !value.fits(&spec.kind) {
                continue;
            }
            if let OwnedValue::Image(image) = value {
                let name = || spec.name.clone();
                let orientation = self.orientation(image);
                let before = image.bytes.len() as u64;
                let position = InputPosition { sample, field };
                let change = self.to_file(image, options, position, name, &mut counts)?;
                if let (Some(found), Some(_)) = (orientation, change) {
                    return Err(WriteSampleError::Image { field: name(), cause: lost(found) });
                }
                if change.is_some() {
                    counts
                        .reencoded_bytes
                        .add(SizeChange { before, after: image.bytes.len() as u64 });
                }
                Reencoded::count(&mut counts.reencoded, change);
            }
        }
        Ok(counts)
    }

    fn to_file(
        &self,
        image: &mut OwnedImage,
        options: &ImageOptions,
        position: InputPosition,
        field: impl Fn() -> String,
        counts: &mut ImageCounts,
    ) -> Result<Option<Reencoded>, WriteSampleError> {
        let from = image.mode;
        let is_mask = options.write_mode == WriteMode::Mask;
        if is_mask && image::is_exact(image) && self.is_small_enough(options, &image.bytes) {
            return Ok(None);
        }
        let keeps_jpeg = matches!(options.write_mode, WriteMode::Lossless | WriteMode::Jpg);
        if keeps_jpeg
            && options.jpeg_quality.is_none()
            && image::is_other_jpeg(image)
            && self.is_small_enough(options, &image.bytes)
        {
            counts.passed_through += 1;
            return self.check(image, options, field);
        }
        let (mut change, mut original) = (None, None);
        if !options.is_untouched() || from == ImageMode::BitPlanes {
            let is_kept = match from {
                ImageMode::Png => true,
                // Raw pixels are asked for, and a PNG is the file that has these.
                other => other.is_other_file() && options.write_mode != WriteMode::Raw,
            };
            original = is_kept.then(|| image.bytes.clone());
            let given = std::mem::replace(image, OwnedImage::png(vec![]));
            let stored = self
                .stored(given, options, position)
                .map_err(|cause| WriteSampleError::Image { field: field(), cause })?;
            change = stored.reencoded;
            counts.count(position.sample, &field(), &stored);
            let (width, height) = (u32::from(stored.width), u32::from(stored.height));
            *image = OwnedImage { mode: stored.mode, width, height, bytes: stored.bytes };
        } else if from == ImageMode::Jpeg {
            counts.passed_through += 1;
        }
        if image.mode != ImageMode::Raw {
            return Ok(change);
        }
        // A file that is not made smaller stays byte for byte, with its alpha and its samples of 16 bits.
        if let Some(bytes) = original.filter(|file| self.is_small_enough(options, file)) {
            *image = OwnedImage { mode: from, ..OwnedImage::png(bytes) };
            return Ok(None);
        }
        let is_lossy = change.is_some_and(|change| change.is_lossy);
        let png = if is_mask { mask_file(image) } else { png_file(image) };
        let png = png.map_err(|error| {
            WriteSampleError::Source(format!("field {:?}: {error}", field()).into())
        })?;
        *image = OwnedImage::png(png);
        let lost_orientations = change.map_or(0, |change| change.lost_orientations);
        Ok(Some(Reencoded { from, to: ImageMode::Png, is_lossy, images: 1, lost_orientations }))
    }

    /// Checks an image file that stays unchanged, if `options` ask for that.
    fn check(
        &self,
        image: &OwnedImage,
        options: &ImageOptions,
        field: impl Fn() -> String,
    ) -> Result<Option<Reencoded>, WriteSampleError> {
        if options.verify {
            let verify = |pixels: &mut PixelReader| {
                let size = pixels.size(&image.bytes)?;
                pixels.verify(&image.bytes, size)
            };
            let verified = self.with_decoder(verify).map_err(ImageError::from);
            verified.map_err(|cause| WriteSampleError::Image { field: field(), cause })?;
        }
        Ok(None)
    }

    /// Converts the image to the form that a `.beton` would store.
    fn stored(
        &self,
        image: OwnedImage,
        options: &ImageOptions,
        position: InputPosition,
    ) -> Result<StoredImage, ImageError> {
        self.with_decoder(|pixels| {
            image::store(to_input(image), options, position, &self.limits, pixels)
        })
    }

    /// Returns true if the options do not make an image file smaller.
    fn is_small_enough(&self, options: &ImageOptions, file: &[u8]) -> bool {
        let size = || self.with_decoder(|pixels| pixels.size(file));
        options.max_resolution.is_none()
            || size().is_ok_and(|size| options.stored_size(size) == size)
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
        let mut pixels = idle.pop().unwrap_or_else(|| PixelReader::new(self.limits));
        drop(idle);
        // After an error or a panic the decoder is not returned to the pool, because its state is unknown.
        let done = work(&mut pixels)?;
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(pixels);
        Ok(done)
    }
}

/// Returns the error for an image whose EXIF orientation would be lost.
fn lost(orientation: u32) -> ImageError {
    ImageError::Orientation { orientation }
}

/// Encodes the raw pixels of a mask, whose channels are equal, as a gray PNG.
fn mask_file(image: &OwnedImage) -> Result<Vec<u8>, png::EncodingError> {
    let classes: Vec<u8> = image.bytes.iter().copied().step_by(RGB).collect();
    gray_png(Size::new(image.height, image.width), &classes)
}

/// Converts a stored image to an input image, which is stored as the options say.
pub(super) fn to_input(image: OwnedImage) -> ImageInput {
    let OwnedImage { mode, width, height, bytes } = image;
    match mode {
        ImageMode::Raw => ImageInput::Rgb { pixels: bytes, width, height },
        _ => ImageInput::JpegBytes(bytes),
    }
}
