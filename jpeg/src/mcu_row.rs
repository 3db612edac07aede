//! A row of MCUs as samples, and the pixels of that row.
//!
//! ```text
//! blocks -> planes of samples -> chroma upsampled -> RGB, directly in the output
//! ```
//!
//! Above its own rows, each plane stores the last row of the previous row of MCUs. With half the rows of
//! chroma, the last row of pixels of an MCU row needs chroma of the next MCU row, so those pixels are
//! written together with the next one's.
//!
//! Chroma has half as many samples as the image has columns or rows, rounded up; the encoder fills up
//! the last MCU with others. Those others do not belong to the image, and no pixel is computed from
//! them: as in libjpeg, the last sample has no neighbour beyond it (`compptr->downsampled_width` in
//! jdsample.c, `set_bottom_pointers` in jdmainct.c).

use crate::scale::{BLOCK, Scale};
use crate::scans::Grid;
use crate::upsample;
use fuseloop_kernels::{gray_row, ycbcr_row};
use fuseloop_ops::Size;
use fuseloop_ops::author::Window;
use fuseloop_ops::internals::RGB;
use std::ops::Range;

/// Samples of a component, by rows.
#[derive(Debug, Default)]
struct Plane {
    /// Columns and rows of blocks that the component has in an MCU.
    h: usize,
    v: usize,
    /// Rows and columns of samples in a block.
    block: [usize; 2],
    columns: usize,
    /// Columns that belong to the image; the columns after them only fill up its last MCU.
    shown: usize,
    /// The last row of the previous row of MCUs, then the rows of this one.
    samples: Vec<u8>,
}

/// A row of MCUs. Each decoder has its own, which reuses its buffers.
#[derive(Debug, Default)]
pub(crate) struct McuRow {
    planes: [Plane; 3],
    channels: usize,
    /// The bytes of a pixel that is written.
    pixel: usize,
    /// For each chroma component, an interpolated row, and one with as many columns as luma has.
    scratch: [[Vec<u8>; 2]; 2],
}

/// The region of an image that is decoded.
#[derive(Clone, Debug)]
pub(crate) struct DecodeRegion {
    pub grid: Grid,
    /// The size of an MCU at the scale of the region.
    pub mcu: Size,
    pub scale: Scale,
    /// True for rows, and for columns, if chroma has half as many as luma.
    pub upsampled: [bool; 2],
    /// Rows and columns of MCUs.
    pub rows: Range<u64>,
    pub columns: Range<u64>,
    /// The pixels to write; all of them are in those MCUs.
    pub wanted: Window,
    /// The size of the image at this scale, and as it is stored.
    pub size: Size,
    pub whole: Size,
}

/// Returns whether chroma has half as many rows, and half as many columns, as luma at a scale: at a smaller one, its
/// blocks have more samples instead.
pub(crate) fn upsampled(grid: &Grid, scale: Scale) -> [bool; 2] {
    if scale == Scale::FULL { halves(grid) } else { [false; 2] }
}

/// Returns whether chroma is stored with half as many rows, and half as many columns, as luma.
fn halves(grid: &Grid) -> [bool; 2] {
    [grid.mcu_height > BLOCK, grid.mcu_width > BLOCK]
}

impl Plane {
    fn row(&self, row: usize) -> &[u8] {
        &self.samples[row * self.columns..][..self.columns]
    }
}

impl McuRow {
    /// Sizes the buffers for the rows of a region. `channels` are the columns and rows of blocks that the components
    /// that are decoded have in an MCU; if `gray` is set, pixels of one byte are written.
    pub(crate) fn begin(&mut self, part: &DecodeRegion, channels: &[[usize; 2]], gray: bool) {
        self.pixel = if gray { 1 } else { RGB };
        let mcus = (part.columns.end - part.columns.start) as usize;
        self.channels = channels.len();
        let side = (BLOCK / part.scale.factor()) as usize;
        // Chroma with half as many rows or columns that is not upsampled has blocks of twice as many.
        let halves = halves(&part.grid);
        let doubled = [0, 1].map(|axis: usize| halves[axis] && !part.upsampled[axis]);
        for (index, (plane, &[h, v])) in self.planes.iter_mut().zip(channels).enumerate() {
            plane.block = doubled.map(|is| if is && index > 0 { 2 * side } else { side });
            (plane.h, plane.v) = (h, v);
            plane.columns = plane.block[1] * h * mcus;
            // Columns of the stored image are shown by as many samples as their part of an MCU has.
            let in_mcu = (plane.block[1] * h) as u64;
            let columns =
                (u64::from(part.whole.width) * in_mcu).div_ceil(part.grid.mcu_width.into());
            let before = in_mcu * part.columns.start;
            plane.shown = plane.columns.min((columns - before) as usize);
            // Old samples are overwritten before they are read, except for the row before the image's
            // first.
            plane.samples.resize((1 + plane.block[0] * v) * plane.columns, 0);
        }
        for [between, wide] in &mut self.scratch {
            between.resize(8 * mcus, 0);
            wide.resize(16 * mcus, 0);
        }
    }

    /// Returns where the samples of block (`x`, `y`) of the region's MCU `mcu` in this row are written,
    /// and the distance between rows.
    #[inline(always)]
    pub(crate) fn block_mut(
        &mut self,
        channel: usize,
        mcu: usize,
        [x, y]: [usize; 2],
    ) -> (&mut [u8], usize) {
        let plane = &mut self.planes[channel];
        let [height, width] = plane.block;
        let start = (1 + height * y) * plane.columns + width * (mcu * plane.h + x);
        (&mut plane.samples[start..], plane.columns)
    }

    /// Returns the rows and columns of samples of a component's blocks: 8, or fewer at a smaller scale.
    #[inline(always)]
    pub(crate) fn block_size(&self, channel: usize) -> [usize; 2] {
        self.planes[channel].block
    }

    /// Writes the pixels that this row of MCUs, `row` of the image, completes.
    #[inline(always)]
    pub(crate) fn write(&mut self, part: &DecodeRegion, row: u64, pixels: &mut [u8]) {
        let (mcu, wanted) = (u64::from(part.mcu.height), part.wanted);
        let late = u64::from(self.channels == 3 && part.upsampled[0]);
        let end = (row + 1) * mcu - if row + 1 == part.grid.rows { 0 } else { late };
        let end = end.min((wanted.top + wanted.height).into());
        let width = wanted.width as usize * self.pixel;
        for y in (row * mcu).saturating_sub(late).max(wanted.top.into())..end {
            let at = (y - u64::from(wanted.top)) as usize * width;
            self.write_row(part, row, y, &mut pixels[at..at + width]);
        }
        for plane in &mut self.planes[..self.channels] {
            let last = plane.block[0] * plane.v * plane.columns;
            plane.samples.copy_within(last.., 0);
        }
    }

    #[inline(always)]
    fn write_row(&mut self, part: &DecodeRegion, row: u64, y: u64, out: &mut [u8]) {
        let Self { planes: [luma, chroma @ ..], channels, pixel, scratch } = self;
        let left = part.columns.start * u64::from(part.mcu.width);
        let left = (u64::from(part.wanted.left) - left) as usize;
        let columns = left..left + part.wanted.width as usize;
        let luma_row = luma.row((y + 1 - row * u64::from(part.mcu.height)) as usize);
        if *pixel == 1 {
            return out.copy_from_slice(&luma_row[columns]);
        }
        if *channels == 1 {
            return gray_row(&luma_row[columns], out);
        }
        let rows = chroma_rows(part, chroma[0].block[0] as u64, row, y);
        let [for_cb, for_cr] = scratch;
        let cb = &chroma_row(&chroma[0], part.upsampled, rows, for_cb)[columns.clone()];
        let cr = &chroma_row(&chroma[1], part.upsampled, rows, for_cr)[columns.clone()];
        ycbcr_row(&luma_row[columns], cb, cr, out);
    }
}

/// Returns the rows of the chroma planes that row `y` of the image is computed from: near and far. An MCU has `height`
/// rows of them.
fn chroma_rows(part: &DecodeRegion, height: u64, row: u64, y: u64) -> [usize; 2] {
    let buffer_row = |at: u64| (at + 1 - height * row) as usize;
    if !part.upsampled[0] {
        return [buffer_row(y); 2];
    }
    let near = y / 2;
    let far = if y.is_multiple_of(2) {
        near.saturating_sub(1)
    } else {
        (near + 1).min(u64::from(part.size.height.div_ceil(2)) - 1)
    };
    [buffer_row(near), buffer_row(far)]
}

/// Returns a row of chroma with as many columns as luma.
#[inline(always)]
fn chroma_row<'a>(
    plane: &'a Plane,
    upsampled: [bool; 2],
    [near, far]: [usize; 2],
    [between, wide]: &'a mut [Vec<u8>; 2],
) -> &'a [u8] {
    let row = if !upsampled[0] {
        &plane.row(near)[..plane.shown]
    } else {
        upsample::rows(plane.row(near), plane.row(far), between);
        &between[..plane.shown]
    };
    if !upsampled[1] {
        return row;
    }
    upsample::columns(row, wide);
    wide
}
