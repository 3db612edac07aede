//! The samples of a component, and the rows of the image that they become.
//!
//! ```text
//! out[y, x] = sample[y / down, x / across]             down, across: rows and columns of the image for a sample
//! ```
//!
//! With `down` and `across` of 1 or 2 a triangle filter takes the place of the copies ([`upsample`](crate::upsample)).
//! So it is in libjpeg (`jinit_upsampler` in jdsample.c), which refuses other ratios than whole ones. The samples that
//! only fill up the last blocks do not belong to the image, and no pixel is computed from them.

use crate::colours::Colours;
use crate::error::JpegError;
use crate::headers::{Component, Headers};
use crate::scale::BLOCK;
use crate::scans::{Grid, max_factors};
use crate::upsample;
use fuseloop_ops::Size;
use fuseloop_ops::author::Window;
use std::ops::Range;

/// The grid of a component's blocks, and its samples.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PlaneLayout {
    /// Columns and rows of blocks in an MCU of all components.
    pub h: usize,
    pub v: usize,
    /// Columns and rows of blocks that hold samples of the image: those of a scan of this component alone.
    pub columns: u64,
    pub rows: u64,
    /// The number of its quantization table.
    pub table: usize,
    /// Rows and columns of blocks, those that fill up MCUs with them.
    pub padded: [usize; 2],
    /// Rows and columns of samples.
    shown: [usize; 2],
    /// Rows and columns of the image for a sample.
    ratio: [usize; 2],
}

impl PlaneLayout {
    /// Returns the layout of a component of an image, whose factors were checked.
    pub(crate) fn of(headers: &Headers, component: &Component) -> Self {
        let ((h_max, v_max), grid) = (max_factors(headers), Grid::of(headers));
        // Alone, a component's factors mean nothing (T.81, A.2.2).
        let (h, v) =
            if headers.components.len() == 1 { (1, 1) } else { (component.h, component.v) };
        let ratio = match headers.components.len() {
            1 => [1; 2],
            _ => [usize::from(v_max / v.max(1)), usize::from(h_max / h.max(1))],
        };
        let Size { height, width } = headers.size;
        let shown = [height.div_ceil(ratio[0] as u32), width.div_ceil(ratio[1] as u32)];
        let [rows, columns] = shown.map(|side| side.div_ceil(BLOCK).into());
        let padded = [grid.rows as usize * usize::from(v), grid.columns as usize * usize::from(h)];
        Self {
            h: h.into(),
            v: v.into(),
            columns,
            rows,
            table: component.table.into(),
            padded,
            shown: shown.map(|side| side as usize),
            ratio,
        }
    }

    /// Returns whether both ratios are 1 or 2, so that samples are interpolated.
    fn is_filtered(&self) -> bool {
        self.ratio.iter().all(|&ratio| ratio <= 2)
    }
}

/// The samples of some rows of blocks of a component. Each decoder reuses its buffers.
#[derive(Debug, Default)]
pub(crate) struct SamplePlane {
    layout: PlaneLayout,
    /// The rows of blocks.
    rows: Range<u64>,
    samples: Vec<u8>,
    /// A row between two, and a row as wide as the image.
    between: Vec<u8>,
    wide: Vec<u8>,
}

impl SamplePlane {
    /// Makes room for rows of blocks.
    pub(crate) fn begin(&mut self, layout: PlaneLayout, rows: Range<u64>) -> Result<(), JpegError> {
        let block_rows = (rows.end - rows.start) as usize;
        let bytes = (block_rows * layout.padded[1]).saturating_mul((BLOCK * BLOCK) as usize);
        let width = layout.padded[1] * BLOCK as usize;
        for (buffer, bytes) in [
            (&mut self.samples, bytes),
            (&mut self.between, width),
            (&mut self.wide, layout.ratio[1] * width),
        ] {
            buffer.clear();
            buffer.try_reserve_exact(bytes).map_err(|_| JpegError::NoMemory { bytes })?;
            buffer.resize(bytes, 0);
        }
        (self.layout, self.rows) = (layout, rows);
        Ok(())
    }

    /// Returns where the samples of a block are written, and the distance between rows; `None` for a block of another row.
    #[inline(always)]
    pub(crate) fn block_mut(&mut self, row: u64, column: u64) -> Option<(&mut [u8], usize)> {
        let stride = self.layout.padded[1] * BLOCK as usize;
        let row = usize::try_from(row.checked_sub(self.rows.start)?).ok()?;
        let start = row * BLOCK as usize * stride + column as usize * BLOCK as usize;
        Some((self.samples.get_mut(start..)?, stride))
    }

    /// Returns the row of samples `y`, without those that fill up blocks.
    fn row(&self, y: usize) -> &[u8] {
        let stride = self.layout.padded[1] * BLOCK as usize;
        let first = self.rows.start as usize * BLOCK as usize;
        &self.samples[(y - first) * stride..][..self.layout.shown[1]]
    }

    /// Returns row `y` of the image.
    pub(crate) fn image_row(&mut self, y: usize) -> &[u8] {
        let PlaneLayout { ratio: [down, across], shown, .. } = self.layout;
        let near = y / down;
        if [down, across] == [1, 1] {
            return self.row(near);
        }
        let (mut between, mut wide) =
            (std::mem::take(&mut self.between), std::mem::take(&mut self.wide));
        if !self.layout.is_filtered() {
            for (out, sample) in wide.chunks_mut(across).zip(self.row(near)) {
                out.fill(*sample);
            }
        } else {
            let row = if down == 1 {
                self.row(near)
            } else {
                let far = match y % 2 {
                    0 => near.saturating_sub(1),
                    _ => (near + 1).min(shown[0] - 1),
                };
                upsample::rows(self.row(near), self.row(far), &mut between);
                &between[..shown[1]]
            };
            match across {
                1 => wide[..shown[1]].copy_from_slice(row),
                _ => upsample::columns(row, &mut wide),
            }
        }
        (self.between, self.wide) = (between, wide);
        &self.wide
    }
}

/// The samples of all components of an image. Each decoder reuses its buffers.
#[derive(Debug, Default)]
pub(crate) struct ImagePlanes {
    pub planes: [SamplePlane; 4],
    rgb: Vec<u8>,
}

impl ImagePlanes {
    /// Returns how many components the pixels of an image are computed from.
    pub(crate) fn needed(headers: &Headers, gray: bool) -> usize {
        match (headers.colours, gray) {
            (Colours::YCbCr, true) => 1,
            _ => headers.components.len(),
        }
    }

    /// Writes the pixels of a window to `pixels`, packed: gray levels, or RGB.
    pub(crate) fn write(
        &mut self,
        headers: &Headers,
        (window, gray): (Window, bool),
        pixels: &mut [u8],
    ) {
        let needed = Self::needed(headers, gray);
        let columns = window.left as usize..(window.left + window.width) as usize;
        let width = pixels.len() / window.height as usize;
        let Self { planes, rgb } = self;
        for (y, out) in (window.top..).zip(pixels.chunks_exact_mut(width.max(1))) {
            let mut lines: [&[u8]; 4] = [&[]; 4];
            for (line, plane) in lines.iter_mut().zip(planes[..needed].iter_mut()) {
                *line = &plane.image_row(y as usize)[columns.clone()];
            }
            headers.colours.write_row(&lines, gray, rgb, out);
        }
    }
}
