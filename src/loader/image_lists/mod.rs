//! Lists of images: how the images of a sample become one row; see [`ImageList`].

mod source;

pub(super) use source::{ListSource, image, stored_list};

use crate::error::{Error, fail};
use crate::loader::clips::key_of_image;
use crate::source::{PackedImages, Value};
use fuseloop_ops::internals::SampleKey;
use std::fmt;

/// The most images of a list.
const MOST_IMAGES: usize = 1 << 16;

/// Makes a field of lists of images an image output: samples have several images, any number up to a maximum K.
///
/// Such a field is a column of Parquet of the feature `List(Image())` of Hugging Face's `datasets`, or a list of binary, or
/// a field of bytes of a source of your own ([`OwnedValue::images`](crate::source::OwnedValue::images)).
///
/// An output of images `[C, H, W]` becomes `[K, C, H, W]`, and the batch `[N, K, C, H, W]`. Rows behind the last image of a
/// sample are 0. The batch has one tensor more: `NAME.length`, the number of images of each sample, i64 `[N]`.
///
/// Ops draw once for a sample, so that all of its images are treated alike. Images that differ in size draw for their sizes.
///
/// ```no_run
/// use fuseloop::{Loader, loader::ImageList, ops::*};
///
/// let loader = Loader::open("train.parquet")?
///     .batch_size(8)
///     .image_lists("images", ImageList::new(4))
///     .pipeline("images", ops![RandomResizedCrop::new(224)?, ToChannelsFirst])
///     .build()?;
/// for batch in loader.epoch(0)? {
///     let batch = batch?;
///     let images = batch.tensor::<u8>("images")?; // [8, 4, 3, 224, 224]
///     let counts = batch.tensor::<i64>("images.length")?; // [8]
/// #   let _ = (images, counts);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageList {
    max: usize,
    truncate: bool,
    per_image: bool,
}

impl ImageList {
    /// Lists of at most `max` images. A longer list is an error, unless it is [truncated](Self::truncate).
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self { max, truncate: false, per_image: false }
    }

    /// Truncates longer lists to their first images.
    #[must_use]
    pub fn truncate(mut self) -> Self {
        self.truncate = true;
        self
    }

    /// If true, ops draw for each image. Default false: one draw for a sample.
    #[must_use]
    pub fn per_image(mut self, per_image: bool) -> Self {
        self.per_image = per_image;
        self
    }

    /// Checks everything that does not need the dataset.
    fn check(self) -> Result<(), Error> {
        match self.max {
            1..=MOST_IMAGES => Ok(()),
            max => Err(fail!(
                Parameter,
                "image_lists: a maximum of {max} images, expected 1 to {MOST_IMAGES}"
            )),
        }
    }

    /// Returns the number of images of a row.
    pub(super) fn max(self) -> usize {
        self.max
    }

    /// Returns the images of a value that has at most the maximum, or is truncated.
    ///
    /// # Errors
    ///
    /// If the value is no list of images, or too long.
    pub(super) fn of_value<'a>(self, value: &Value<'a>) -> Result<PackedImages<'a>, Error> {
        let images =
            PackedImages::parse(value.bytes()).map_err(|reason| fail!(Damaged, "{reason}"))?;
        let (found, max) = (images.count(), self.max);
        if found > max && !self.truncate {
            return Err(fail!(
                Damaged,
                "a list of {found} images, rows have room for {max}: raise `max` of `image_lists`, or use `truncate`"
            ));
        }
        Ok(images)
    }

    /// Returns the key of the draws of one image of a sample.
    pub(super) fn key(self, sample: SampleKey, image: usize) -> SampleKey {
        if image == 0 || !self.per_image {
            return sample;
        }
        key_of_image(sample, "draws of an image", image)
    }
}

/// Describes the lists: `lists of up to 4 images, one draw for a sample`.
impl fmt::Display for ImageList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lists of up to {} images", self.max)?;
        if self.truncate {
            f.write_str(", truncated")?;
        }
        f.write_str(if self.per_image {
            ", draws for each image"
        } else {
            ", one draw for a sample"
        })
    }
}
