//! Ops that mix the samples of a finished batch.

use crate::Size;
use crate::author::{BoundingBox, ImageMix, Rng, RowMix};
use std::fmt;

/// The longest side of a box that is empty, in pixels.
const LEAST_SIDE: f64 = 0.01;

/// An op that mixes the samples of a finished batch, in place. Only ops on batches, and ops on objects, may follow it.
///
/// ```
/// # use fuseloop_ops::*;
/// # use fuseloop_ops::author::*;
/// /// Mixes each sample with the next one, half and half.
/// #[derive(Clone, Copy, Debug)]
/// struct Halves;
///
/// impl BatchOp for Halves {
///     fn draw(&self, _rng: &mut Rng, rows: usize, _size: Size) -> Vec<RowMix> {
///         let next = |row| RowMix { partner: (row + 1) % rows, share: 0.5, window: None };
///         (0..rows).map(next).collect()
///     }
/// }
/// ```
pub trait BatchOp: fmt::Debug + Send + Sync {
    /// Draws how each of `rows` samples, with images of `size`, is mixed. All outputs of the batch
    /// that list an equal op get the same draws. Partners are a permutation of the rows.
    fn draw(&self, rng: &mut Rng, rows: usize, size: Size) -> Vec<RowMix>;

    /// Returns true if a row's share depends on the size of its image. Arrays of several axes are then pictures, into
    /// which a window is pasted; in all others every element is mixed.
    fn needs_size(&self) -> bool {
        false
    }

    /// Returns true if a mixed image shows the objects of both images. The op is then allowed for images with bounding
    /// boxes and other targets: a mixed row gets the objects of its partner after its own.
    fn joins_objects(&self) -> bool {
        false
    }
}

/// An op that makes an image, with its objects, of several images of a finished batch. Only ops on batches,
/// and ops on objects, may follow it. The images have targets, and one size.
///
/// ```
/// # use fuseloop_ops::*;
/// # use fuseloop_ops::author::*;
/// /// Puts each image beside and above the three that follow it in the batch.
/// #[derive(Clone, Copy, Debug)]
/// struct InFours;
///
/// impl MultiImageOp for InFours {
///     fn draw(&self, _rng: &mut Rng, objects: &[usize], size: Size) -> Vec<ImageMix> {
///         let center = [size.height / 2, size.width / 2];
///         let row = |row| [0, 1, 2, 3].map(|k| (row + k) % objects.len());
///         (0..objects.len()).map(|k| ImageMix::Mosaic { rows: row(k), center }).collect()
///     }
///
///     fn growth(&self) -> usize {
///         4
///     }
/// }
/// ```
pub trait MultiImageOp: fmt::Debug + Send + Sync {
    /// Draws how each row is made. `objects` has the number of objects of each row, and `size` is that of the images.
    fn draw(&self, rng: &mut Rng, objects: &[usize], size: Size) -> Vec<ImageMix>;

    /// Returns how many times as many objects an image may have after the op: 2 if it gets those of another one.
    fn growth(&self) -> usize;

    /// Returns true if an object stays whose box, cut at the part of its image that is shown, is `bounds`. Without boxes,
    /// it is the smallest box around the pixels of the object's mask that are shown. By default an object stays if both
    /// sides are longer than a hundredth of a pixel: a box that was stored as f32 may end this far from its edge.
    fn keeps(&self, bounds: BoundingBox) -> bool {
        bounds.width() > LEAST_SIDE && bounds.height() > LEAST_SIDE
    }

    /// Returns true if the op needs the masks of the objects.
    fn needs_instance_masks(&self) -> bool {
        false
    }
}
