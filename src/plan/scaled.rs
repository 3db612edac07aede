//! The draws of an image that is decoded at a smaller scale.
//!
//! ```text
//! stored   3000 x 4000 ──crop 1798 x 2400──▶ resize to 224                drawn
//! at 1/4    750 x 1000 ──crop  450 x  600──▶ resize of a part to 224      run: 449.5 rows of the crop's 450
//! ```
//!
//! An image is decoded at a smaller scale only if its resize still averages: at least [`GAP`] rows and columns of the
//! smaller image for each that it writes, as with Pillow's `reducing_gap`. Only crops and flips may run before that
//! resize. They are drawn in pixels of the stored image, like everything else; the crop then begins and ends inside
//! pixels of the smaller image.

use super::ImagePlan;
use super::compose::{AxisMap, PassMap};
use super::draws::Draws;
use super::kind::OpKind;
use crate::decode::ScaledImage;
use fuseloop_ops::Size;
use fuseloop_ops::author::{GeometryStep, RowProducer, Window};
use fuseloop_ops::internals::geometry_step;

/// The factors by which an image may be decoded smaller.
const FACTORS: [u32; 3] = [8, 4, 2];

/// The smallest number of rows or columns that a resize reads for each that it writes, after the image was decoded
/// at a smaller scale.
const GAP: f64 = 2.0;

/// The smallest side of a resized image: narrower ones have taps of their own.
const NARROWEST: u32 = 8;

impl ImagePlan {
    /// Returns the index of the step that resizes the image of these draws, and the crops and flips before it as one
    /// map; `None` if something else reads the image first.
    fn first_resize(&self, draws: &Draws) -> Option<(usize, PassMap)> {
        let first = &self.blocks()[0];
        if first.rows != Some(RowProducer::Compiled) {
            return None;
        }
        let mut steps = draws.geometry.iter();
        let index = steps.position(|(_, step)| geometry_step::produces_rows(step))?;
        let (leaf, GeometryStep::Resize { .. }) = draws.geometry[index] else { return None };
        let only_moves = |leaf: usize| {
            matches!(self.flat_ops()[leaf].kind, OpKind::Geometry { .. }) || !draws.active[leaf]
        };
        if leaf >= first.ops.end || !(0..leaf).all(only_moves) {
            return None;
        }
        let mut pass = PassMap::new(draws.source);
        draws.geometry[..index].iter().for_each(|(_, step)| pass.apply(step));
        let (reads, source) = (pass.reads(), draws.source);
        let is_inside = reads.top >= 0
            && reads.left >= 0
            && reads.bottom <= i64::from(source.height)
            && reads.right <= i64::from(source.width);
        is_inside.then_some((index, pass))
    }

    /// Returns the largest factor by which the image of these draws may be decoded smaller, if there is one.
    pub(crate) fn decode_factor(&self, draws: &Draws) -> Option<u32> {
        let (index, pass) = self.first_resize(draws)?;
        let (_, GeometryStep::Resize { size, .. }) = draws.geometry[index] else { return None };
        let leaves_enough = |factor: u32, from: u32, to: u32| {
            to >= NARROWEST && f64::from(from) >= GAP * f64::from(factor) * f64::from(to)
        };
        FACTORS.into_iter().find(|&factor| {
            leaves_enough(factor, pass.size.height, size.height)
                && leaves_enough(factor, pass.size.width, size.width)
        })
    }

    /// Sets `scaled` to the draws of the same sample for an image that is decoded at a smaller scale, by at most its
    /// [factor](Self::decode_factor). They give the same output size.
    pub(crate) fn scale_draws(&self, draws: &Draws, image: &ScaledImage, scaled: &mut Draws) {
        scaled.clone_from(draws);
        scaled.source = image.size;
        let Some((index, pass)) = self.first_resize(draws) else { return };
        let (leaf, GeometryStep::Resize { size, .. }) = draws.geometry[index] else { return };
        let reads = pass.reads();
        let rows = Part::new([reads.top, reads.bottom], image, 0);
        let columns = Part::new([reads.left, reads.right], image, 1);
        let window = Window {
            top: rows.pixels[0],
            left: columns.pixels[0],
            height: rows.pixels[1] - rows.pixels[0],
            width: columns.pixels[1] - columns.pixels[0],
        };
        let part = [rows.in_crop(pass.rows), columns.in_crop(pass.columns)];
        scaled.geometry.truncate(0);
        // Steps are run with their ops, so the crop belongs to the first op that moved anything.
        let first = draws.geometry[0].0;
        if window != image.size.full() {
            scaled.geometry.push((first, geometry_step::crop(window)));
        }
        for (map, flip) in
            [(pass.columns, GeometryStep::FlipHorizontal), (pass.rows, GeometryStep::FlipVertical)]
        {
            if map.sign < 0 {
                scaled.geometry.push((first, flip));
            }
        }
        scaled.geometry.push((leaf, GeometryStep::ResizePart { size, part }));
        scaled.geometry.extend_from_slice(&draws.geometry[index + 1..]);
    }
}

/// The rows or columns of a smaller image that a crop of the stored image covers.
struct Part {
    /// Where the crop begins and ends.
    ends: [f64; 2],
    /// The pixels that it covers, at least in part.
    pixels: [u32; 2],
}

impl Part {
    /// Returns the part for `ends` in pixels of the stored image, along an axis: 0 for rows, 1 for columns.
    fn new(ends: [i64; 2], image: &ScaledImage, axis: usize) -> Self {
        let Size { height, width } = image.size;
        let side = f64::from([height, width][axis]);
        let place = |at: i64| at as f64 / f64::from(image.factor) + image.origin[axis];
        let ends = ends.map(|at| place(at).clamp(0.0, side));
        Self { ends, pixels: [ends[0].floor() as u32, ends[1].ceil() as u32] }
    }

    /// Returns where the crop begins and ends in the image of its pixels, after they were mirrored if `map` says so.
    fn in_crop(&self, map: AxisMap) -> [f64; 2] {
        let [first, end] = self.pixels.map(f64::from);
        let [start, stop] = self.ends;
        if map.sign < 0 { [end - stop, end - start] } else { [start - first, stop - first] }
    }
}
