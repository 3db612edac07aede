//! The composed geometry of one sample: which bytes of the source become each output pixel.
//!
//! Crops, flips and shifts along an axis compose to `source = sign * output + offset`. A pass goes over
//! the stored image, or over an image that a reduction reads first. It consists of such a map for each
//! axis, a size, and the rectangles that were painted before it, in its own coordinates.

use super::{Block, Draws, FusedOp};
use fuseloop_ops::Size;
use fuseloop_ops::author::{GeometryStep, Window};
use fuseloop_ops::internals::geometry_step;
use std::ops::Range;

/// The map `source = sign * output + offset` along one axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AxisMap {
    pub(crate) sign: i64,
    pub(crate) offset: i64,
}

impl Default for AxisMap {
    fn default() -> Self {
        Self::IDENTITY
    }
}

impl AxisMap {
    pub(crate) const IDENTITY: Self = Self { sign: 1, offset: 0 };

    /// Returns the map after a frame that begins at `start`.
    pub(super) fn framed(self, start: i32) -> Self {
        Self { offset: self.offset + self.sign * i64::from(start), ..self }
    }

    /// Returns the map after `len` pixels are mirrored.
    pub(super) fn flipped(self, len: u32) -> Self {
        Self { sign: -self.sign, offset: self.offset + self.sign * (i64::from(len) - 1) }
    }

    /// Returns the pixels of `0..len` whose source pixel is in `source`.
    pub(crate) fn taken_from(self, source: Range<i64>, len: u32) -> Range<i64> {
        let Range { start, end } = match self.sign {
            1 => source.start - self.offset..source.end - self.offset,
            _ => self.offset - source.end + 1..self.offset - source.start + 1,
        };
        let len = i64::from(len);
        let start = start.clamp(0, len);
        start..end.clamp(start, len)
    }

    /// Returns the source pixels of `0..len`, as a range.
    pub(super) fn range(self, len: u32) -> (i64, i64) {
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
    /// Returns the rectangle that an image of `size` covers.
    pub(crate) fn of(size: Size) -> Self {
        let (bottom, right) = (i64::from(size.height), i64::from(size.width));
        Self { top: 0, bottom, left: 0, right }
    }

    /// Returns whether all of `inner` is inside.
    pub(crate) fn contains(&self, inner: &Self) -> bool {
        self.top <= inner.top
            && inner.bottom <= self.bottom
            && self.left <= inner.left
            && inner.right <= self.right
    }

    /// Returns the pixels that are in both.
    pub(crate) fn intersection(&self, other: &Self) -> Self {
        Self {
            top: self.top.max(other.top),
            bottom: self.bottom.min(other.bottom),
            left: self.left.max(other.left),
            right: self.right.min(other.right),
        }
    }

    /// Returns the smallest rectangle that contains both.
    pub(crate) fn union(&self, other: &Self) -> Self {
        Self {
            top: self.top.min(other.top),
            bottom: self.bottom.max(other.bottom),
            left: self.left.min(other.left),
            right: self.right.max(other.right),
        }
    }

    /// Returns the rows and columns.
    ///
    /// # Panics
    ///
    /// If a side is longer than any image's.
    pub(crate) fn size(&self) -> Size {
        let side = |from, to| u32::try_from(to - from).expect("a side has less than 2^32 pixels");
        Size::new(side(self.top, self.bottom), side(self.left, self.right))
    }
}

/// One image that compiled code goes over.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PassMap {
    pub(crate) rows: AxisMap,
    pub(crate) columns: AxisMap,
    pub(crate) size: Size,
    /// The regions painted so far, by number; those that are painted later are empty.
    pub(crate) regions: Vec<(usize, Rect)>,
    /// For ops that use a pixel's position, by the number of their map: the pixel's row and column for
    /// the op.
    pub(crate) maps: Vec<(usize, [AxisMap; 2])>,
}

impl PassMap {
    /// Returns the pass that reads an image of `size` as it is.
    pub(crate) fn new(size: Size) -> Self {
        Self { size, ..Self::default() }
    }

    /// Makes this another pass. Memory is reused.
    pub(crate) fn set(&mut self, Self { rows, columns, size, regions, maps }: &Self) {
        (self.rows, self.columns, self.size) = (*rows, *columns, *size);
        self.regions.clone_from(regions);
        self.maps.clone_from(maps);
    }

    /// Makes this the pass that reads an image of `size` as it is.
    fn restart(&mut self, size: Size) {
        (self.rows, self.columns, self.size) = (AxisMap::IDENTITY, AxisMap::IDENTITY, size);
        self.regions.clear();
        self.maps.clear();
    }

    /// Returns the rectangle of the base image that the pass reads.
    pub(crate) fn reads(&self) -> Rect {
        let (top, bottom) = self.rows.range(self.size.height);
        let (left, right) = self.columns.range(self.size.width);
        Rect { top, bottom, left, right }
    }

    /// Applies a change of one axis to the map of the pixels, and to the maps of ops.
    fn change(&mut self, axis: usize, change: impl Fn(AxisMap) -> AxisMap) {
        let own = if axis == 0 { &mut self.rows } else { &mut self.columns };
        *own = change(*own);
        for (_, map) in &mut self.maps {
            map[axis] = change(map[axis]);
        }
    }

    pub(super) fn apply(&mut self, motion: &GeometryStep) {
        let Size { height, width } = self.size;
        match *motion {
            GeometryStep::CropPad { top, left, size, .. } => {
                self.change(0, |rows| rows.framed(top));
                self.change(1, |columns| columns.framed(left));
                self.size = size;
                let (top, left) = (i64::from(top), i64::from(left));
                for (_, r) in &mut self.regions {
                    (r.top, r.bottom) = (r.top - top, r.bottom - top);
                    (r.left, r.right) = (r.left - left, r.right - left);
                }
            }
            GeometryStep::FlipHorizontal => {
                self.change(1, |columns| columns.flipped(width));
                let width = i64::from(width);
                for (_, r) in &mut self.regions {
                    (r.left, r.right) = (width - r.right, width - r.left);
                }
            }
            GeometryStep::FlipVertical => {
                self.change(0, |rows| rows.flipped(height));
                let height = i64::from(height);
                for (_, r) in &mut self.regions {
                    (r.top, r.bottom) = (height - r.bottom, height - r.top);
                }
            }
            GeometryStep::Resize { .. }
            | GeometryStep::ResizePart { .. }
            | GeometryStep::Rows(_) => {
                self.restart(geometry_step::output(motion, self.size));
            }
        }
    }
}

/// The composed geometry of one sample in one block.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Composed {
    /// The pass that rows are resampled from, in coordinates of the source, and the step that does it,
    /// if any.
    pub(crate) resampled: Option<(PassMap, GeometryStep)>,
    /// The stored image, in coordinates of the resampled image, or of the source if nothing is resampled.
    pub(crate) stored: PassMap,
    /// One pass for each reduction, in the same coordinates.
    pub(crate) reductions: Vec<PassMap>,
    /// The rectangle of the source that a frame may show; the area around it has the frame's colour.
    pub(crate) frame: Option<(Rect, [u8; 3])>,
    /// Rows and columns of the block's output.
    pub(crate) output: Size,
}

impl Composed {
    /// Returns the pass of the stored image, then those of the reductions.
    pub(crate) fn passes(&self) -> impl Iterator<Item = &PassMap> + Clone {
        std::iter::once(&self.stored).chain(&self.reductions)
    }

    /// Returns the smallest rectangle of the base image that contains all pixels that passes read.
    pub(crate) fn reads(&self) -> Rect {
        let stored = self.stored.reads();
        self.reductions.iter().fold(stored, |all, pass| all.union(&pass.reads()))
    }

    /// Composes what `draws` does to an image of size `source` in `block`. `readings` are the flat ops that need a
    /// reduction over the image first, in the order of their passes: all of them run. Memory is reused.
    pub(crate) fn set(
        &mut self,
        block: &Block,
        draws: &Draws,
        readings: &(impl ExactSizeIterator<Item = usize> + Clone),
        source: Size,
    ) {
        let Self { resampled, stored: now, reductions, frame, output } = self;
        (*resampled, *frame) = (None, None);
        now.restart(source);
        reductions.resize_with(readings.len(), PassMap::default);
        for leaf in block.ops.clone().filter(|&leaf| draws.active[leaf]) {
            let passes = reductions.iter_mut().zip(readings.clone());
            passes.filter(|(_, reading)| *reading == leaf).for_each(|(pass, _)| pass.set(now));
            if let Some(map) = map_of(block, leaf) {
                now.maps.push((map, [AxisMap::IDENTITY; 2]));
            }
            if let Some((_, fill)) = block.padded_copy.filter(|framed| framed.0 == leaf) {
                *frame = Some((now.reads(), fill));
            }
            let before = Rect::of(now.size);
            let region = block.regions.iter().position(|region| region.leaf == leaf);
            if let Some(region) = region.filter(|region| block.regions[*region].outside) {
                now.regions.push((region, before)); // a shift, if one is drawn: the pixels inside `before` stay
            }
            for (_, motion) in draws.geometry.iter().filter(|(of, _)| *of == leaf) {
                if geometry_step::produces_rows(motion) {
                    *resampled = Some((now.clone(), motion.clone()));
                }
                now.apply(motion);
            }
            for (_, window) in draws.windows.iter().filter(|(of, _)| *of == leaf) {
                now.regions.extend(region.map(|region| (region, rect(*window))));
            }
        }
        *output = now.size;
    }
}

/// Returns the number of the map of `leaf`, if that op uses a pixel's position.
fn map_of(block: &Block, leaf: usize) -> Option<usize> {
    if block.position_ops.is_empty() {
        return None;
    }
    let step = block.groups.iter().find(|step| step.flat_ops.contains(&leaf))?;
    match step.fused_ops[0] {
        FusedOp::Value { map, .. } => map,
        _ => None,
    }
}

fn rect(window: Window) -> Rect {
    let (top, left) = (i64::from(window.top), i64::from(window.left));
    let (bottom, right) = (top + i64::from(window.height), left + i64::from(window.width));
    Rect { top, bottom, left, right }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::ImagePlan;
    use fuseloop_ops::author::{Dim, ImageType};
    use fuseloop_ops::internals::SampleKey;
    use fuseloop_ops::{
        CenterCrop, Cutout, GaussianNoise, NumberRule, Ops, Pad, RandomHorizontalFlip,
        RandomVerticalFlip, Resize, ops,
    };

    /// Composes what a list does to an image of 20 x 30 pixels.
    fn composed(ops: Ops) -> Composed {
        let input = ImageType::decoded(Dim::fixed(20), Dim::fixed(30));
        let plan = ImagePlan::new(ops, input, NumberRule::Fused).unwrap();
        let (size, mut draws) = (Size::new(20, 30), Draws::default());
        plan.draw(SampleKey::new(0, 0, 0), size, &mut draws);
        let mut composed = Composed::default();
        composed.set(&plan.blocks()[0], &draws, &[].into_iter(), size);
        composed
    }

    fn mirror() -> RandomHorizontalFlip {
        RandomHorizontalFlip::new(1.0).unwrap()
    }

    #[test]
    fn crops_and_flips_are_one_map_an_axis() {
        let upside_down = RandomVerticalFlip::new(1.0).unwrap();
        let pass = &composed(ops![mirror(), CenterCrop::new(10).unwrap(), upside_down]).stored;
        // Column 0 of the crop is column 10 of the mirrored image, which is 29 - 10.
        assert_eq!(pass.columns, AxisMap { sign: -1, offset: 19 });
        assert_eq!(pass.rows, AxisMap { sign: -1, offset: 14 });
        assert_eq!(pass.reads(), Rect { top: 5, bottom: 15, left: 10, right: 20 });
    }

    #[test]
    fn two_flips_are_none() {
        let pass = &composed(ops![mirror(), mirror()]).stored;
        assert_eq!((pass.rows, pass.columns), (AxisMap::IDENTITY, AxisMap::IDENTITY));
    }

    #[test]
    fn a_frame_leaves_the_picture() {
        let composed = composed(ops![Pad::new(2).unwrap()]);
        assert_eq!(composed.output, Size::new(24, 34));
        assert_eq!(composed.stored.reads(), Rect { top: -2, bottom: 22, left: -2, right: 32 });
        assert_eq!(composed.frame, Some((Rect::of(Size::new(20, 30)), [0; 3])));
    }

    #[test]
    fn rectangles_and_places_move_with_what_comes_after() {
        let noise = GaussianNoise::new();
        let crop = CenterCrop::new((20, 10)).unwrap();
        let composed = composed(ops![Cutout::new(30).unwrap(), noise, crop, mirror()]);
        let pass = &composed.stored;
        let whole = Rect { top: 0, bottom: 20, left: -10, right: 20 };
        assert_eq!(pass.regions, [(0, whole)]);
        assert_eq!(pass.maps, [(0, [AxisMap::IDENTITY, AxisMap { sign: -1, offset: 19 }])]);
    }

    #[test]
    fn what_comes_after_made_rows_maps_to_them() {
        let composed = composed(ops![mirror(), Resize::new((8, 16)).unwrap(), mirror()]);
        let (stage, _) = composed.resampled.unwrap();
        assert_eq!(stage.columns, AxisMap { sign: -1, offset: 29 });
        assert_eq!(composed.stored.columns, AxisMap { sign: -1, offset: 15 });
    }
}
