//! Ops that move pixels, and ops that change the objects of an image.

use super::ImageType;
use crate::Size;
use crate::author::{GeometryStep, Objects, Rng};
use std::fmt;

/// An op that moves pixels: crops, resizes, flips, warps, blurs.
///
/// ```
/// # use fuseloop_ops::*;
/// # use fuseloop_ops::author::*;
/// /// Mirrors half of the images.
/// #[derive(Clone, Copy, Debug)]
/// struct Mirror;
///
/// impl GeometryOp for Mirror {
///     fn draw(&self, rng: &mut Rng, _size: Size, out: &mut Vec<GeometryStep>) {
///         if rng.coin(0.5) {
///             out.push(GeometryStep::FlipHorizontal);
///         }
///     }
/// }
/// ```
pub trait GeometryOp: fmt::Debug + Send + Sync {
    /// Draws the steps for a sample of `size` and appends them to `out`, in order.
    fn draw(&self, rng: &mut Rng, size: Size, out: &mut Vec<GeometryStep>);

    /// Returns how the op produces its output rows, if it reads a whole u8 image to do so; `None`
    /// if it only changes the addresses that pixels are read from.
    fn row_producer(&self) -> Option<RowProducer> {
        None
    }

    /// Returns true if the op may compute a pixel from several others, so that a mask would get values that
    /// stand for no class. By default it may if it produces its own rows.
    fn blends(&self) -> bool {
        self.row_producer().is_some()
    }

    /// Returns the colour that fills areas outside the image, given the input type; `None` if no
    /// such area can appear, or if the op produces its own rows. For an image that is not RGB, its three
    /// numbers must be equal.
    fn fill_color(&self, input: &ImageType) -> Option<[u8; 3]> {
        let _ = input;
        None
    }

    /// Like [`draw`](Self::draw), for an image whose bounding boxes and keypoints follow it. `objects` are where they
    /// are before this op; an op that crops around boxes may remove some, and none is moved here: each step
    /// moves them. By default the same as `draw`.
    fn draw_around(
        &self,
        rng: &mut Rng,
        size: Size,
        objects: &mut Objects,
        out: &mut Vec<GeometryStep>,
    ) {
        let _ = objects;
        self.draw(rng, size, out);
    }

    /// Returns true if the op has no effect without bounding boxes.
    fn needs_boxes(&self) -> bool {
        false
    }

    /// Returns what the op does to the objects of an image. By default they follow the pixels.
    fn object_motion(&self) -> ObjectMotion {
        ObjectMotion::Follow
    }
}

/// The effect of a geometry op on the bounding boxes, keypoints and masks of an image.
///
/// ```
/// # use fuseloop_ops::*;
/// # use fuseloop_ops::author::*;
/// let blur = GaussianBlur::new(5)?;
/// assert_eq!(blur.object_motion(), ObjectMotion::Stay);
/// assert_eq!(RandomHorizontalFlip::new(0.5)?.object_motion(), ObjectMotion::Follow);
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectMotion {
    /// They follow the pixels, step by step.
    Follow,
    /// They stay, because pixels do: a blur.
    Stay,
    /// A pixel has no single place in the output (a border that mirrors the image), or neighbours are moved apart (tiles
    /// in another order). Masks follow, but boxes and keypoints cannot.
    Copied,
}

/// An op that changes or removes the objects of an image, and no pixel.
///
/// ```
/// # use fuseloop_ops::*;
/// # use fuseloop_ops::author::*;
/// /// Removes boxes of less than 16 pixels.
/// #[derive(Clone, Copy, Debug)]
/// struct WithoutSmall;
///
/// impl ObjectOp for WithoutSmall {
///     fn apply(&self, _size: Size, objects: &mut Objects) {
///         objects.retain(|objects, k| objects.boxes()[k].area() >= 16.0);
///     }
/// }
/// ```
pub trait ObjectOp: fmt::Debug + Send + Sync {
    /// Changes the objects of an image of `size`.
    fn apply(&self, size: Size, objects: &mut Objects);

    /// Returns true if the op has no effect without bounding boxes, and false if it has none without keypoints.
    fn needs_boxes(&self) -> bool {
        true
    }
}

/// The code that produces the rows of an op such as a resize or a warp.
///
/// ```
/// # use fuseloop_ops::*;
/// # use fuseloop_ops::author::*;
/// assert_eq!(Resize::new(Size::new(224, 224))?.row_producer(), Some(RowProducer::Compiled));
/// assert_eq!(GaussianBlur::new(5)?.row_producer(), Some(RowProducer::Called));
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RowProducer {
    /// Compiled code, for every sample: the antialiased bilinear resize.
    Compiled,
    /// A row function, called once for each row if the sample's draws need it.
    Called,
}
