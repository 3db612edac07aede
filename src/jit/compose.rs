//! One sample's geometry, composed: which bytes of the source each output pixel is.
//!
//! Crops, flips and shifts along an axis compose to `source = sign * output + offset`. A pass (the
//! stored picture, or the picture whose mean is needed) is such a map for each axis, a size, and
//! the rectangles that were painted before it, in its own coordinates.

use crate::plan::{Block, Draws};
use fuseloop_ops::{Motion, Size, Window};

/// `source = sign * output + offset` along one axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Axis {
    pub(crate) sign: i64,
    pub(crate) offset: i64,
}

impl Axis {
    const IDENTITY: Self = Self { sign: 1, offset: 0 };

    /// The map after a frame that begins at `start`.
    fn framed(self, start: i32) -> Self {
        Self { offset: self.offset + self.sign * i64::from(start), ..self }
    }

    /// The map after `len` pixels are mirrored.
    fn flipped(self, len: u32) -> Self {
        Self { sign: -self.sign, offset: self.offset + self.sign * (i64::from(len) - 1) }
    }

    /// The source pixels of `0..len`, as a range.
    fn range(self, len: u32) -> (i64, i64) {
        let ends = (self.offset, self.offset + self.sign * (i64::from(len) - 1));
        (ends.0.min(ends.1), ends.0.max(ends.1) + 1)
    }
}

/// A rectangle in signed coordinates: `top..bottom`, `left..right`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rect {
    pub(crate) top: i64,
    pub(crate) bottom: i64,
    pub(crate) left: i64,
    pub(crate) right: i64,
}

impl Rect {
    /// The rectangle of a picture.
    pub(crate) fn of(size: Size) -> Self {
        let (bottom, right) = (i64::from(size.height), i64::from(size.width));
        Self { top: 0, bottom, left: 0, right }
    }

    /// Whether all of `inner` lies in it.
    pub(crate) fn contains(&self, inner: &Self) -> bool {
        self.top <= inner.top
            && inner.bottom <= self.bottom
            && self.left <= inner.left
            && inner.right <= self.right
    }

    /// The smallest rectangle around both.
    pub(crate) fn union(&self, other: &Self) -> Self {
        Self {
            top: self.top.min(other.top),
            bottom: self.bottom.max(other.bottom),
            left: self.left.min(other.left),
            right: self.right.max(other.right),
        }
    }

    /// Rows and columns.
    pub(crate) fn size(&self) -> Size {
        Size::new((self.bottom - self.top) as u32, (self.right - self.left) as u32)
    }
}

/// One picture that compiled code goes over.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PassMap {
    pub(crate) rows: Axis,
    pub(crate) columns: Axis,
    pub(crate) size: Size,
    /// The regions painted so far; those to come are empty.
    pub(crate) regions: Vec<Rect>,
}

impl PassMap {
    fn new(size: Size) -> Self {
        Self { rows: Axis::IDENTITY, columns: Axis::IDENTITY, size, regions: vec![] }
    }

    /// The part of the base picture that the pass reads.
    pub(crate) fn reads(&self) -> Rect {
        let (top, bottom) = self.rows.range(self.size.height);
        let (left, right) = self.columns.range(self.size.width);
        Rect { top, bottom, left, right }
    }

    fn apply(&mut self, motion: &Motion) {
        let Size { height, width } = self.size;
        match *motion {
            Motion::Frame { top, left, size, .. } => {
                self.rows = self.rows.framed(top);
                self.columns = self.columns.framed(left);
                self.size = size;
                let (top, left) = (i64::from(top), i64::from(left));
                for r in &mut self.regions {
                    (r.top, r.bottom) = (r.top - top, r.bottom - top);
                    (r.left, r.right) = (r.left - left, r.right - left);
                }
            }
            Motion::FlipHorizontal => {
                self.columns = self.columns.flipped(width);
                let width = i64::from(width);
                for r in &mut self.regions {
                    (r.left, r.right) = (width - r.right, width - r.left);
                }
            }
            Motion::FlipVertical => {
                self.rows = self.rows.flipped(height);
                let height = i64::from(height);
                for r in &mut self.regions {
                    (r.top, r.bottom) = (height - r.bottom, height - r.top);
                }
            }
            Motion::Resize { size, .. } => *self = Self::new(size),
        }
    }
}

/// The composed geometry of one sample in one block.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Composed {
    /// What is resized, in coordinates of the source, if the block resizes.
    pub(crate) resize: Option<(PassMap, Size)>,
    /// The stored picture, then one pass for each mean: in coordinates of the resized picture, or
    /// of the source.
    pub(crate) passes: Vec<PassMap>,
    /// The part of the source that a frame may show; the frame's colour lies around it.
    pub(crate) frame: Option<(Rect, [u8; 3])>,
    /// Rows and columns of the block's output.
    pub(crate) output: Size,
}

/// Composes what `draws` does to a picture of size `source` in `block`.
pub(crate) fn compose(block: &Block, draws: &Draws, source: Size) -> Composed {
    let mut now = PassMap::new(source);
    let mut composed = Composed { resize: None, passes: vec![], frame: None, output: source };
    let mut means: Vec<(usize, PassMap)> = vec![];
    for place in block.ops.clone() {
        let needed = block.means.iter().enumerate().filter(|(_, mean)| mean.place == place);
        means.extend(needed.map(|(index, _)| (index, now.clone())));
        if let Some((_, fill)) = block.framed.filter(|framed| framed.0 == place) {
            composed.frame = Some((now.reads(), fill));
        }
        let before = Rect::of(now.size);
        for (_, motion) in draws.motions.iter().filter(|(of, _)| *of == place) {
            let masked = block.regions.iter().any(|region| region.place == place);
            if masked {
                now.regions.push(before); // a shift: what the picture was, everything else is new
            }
            if let Motion::Resize { size, .. } = *motion {
                composed.resize = Some((now.clone(), size));
            }
            now.apply(motion);
        }
        for (_, window) in draws.windows.iter().filter(|(of, _)| *of == place) {
            now.regions.push(rect(*window));
        }
    }
    composed.output = now.size;
    composed.passes.push(now);
    composed.passes.extend(means.into_iter().map(|(_, pass)| pass));
    composed
}

fn rect(window: Window) -> Rect {
    let (top, left) = (i64::from(window.top), i64::from(window.left));
    let (bottom, right) = (top + i64::from(window.height), left + i64::from(window.width));
    Rect { top, bottom, left, right }
}
