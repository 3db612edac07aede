//! The coefficients of a component, as the scans of a progressive image refine them.
//!
//! ```text
//! nonzero   a mask for each block down to the window's last row: bit k is set once AC coefficient k, in zigzag order, is not 0
//! blocks    64 coefficients for each block of the window, in the order of ORDER
//! ```
//!
//! A scan that refines coefficients has a bit for each that is not 0, so that of blocks outside the window at least the
//! masks must be known to read past them.

use crate::error::JpegError;
use crate::sample_plane::PlaneLayout;
use std::ops::Range;

/// The coefficients of a component. Each decoder reuses its buffers unless they are large.
#[derive(Debug, Default)]
pub(crate) struct CoefficientPlane {
    pub layout: PlaneLayout,
    /// Rows and columns of the blocks whose coefficients are stored, those that fill up MCUs with them.
    pub stored: [Range<u64>; 2],
    blocks: Vec<[i16; 64]>,
    nonzero: Vec<u64>,
    /// Quantization steps, once a scan of the component has begun.
    pub steps: Option<[i16; 64]>,
}

/// A row of adjacent blocks: the masks of their coefficients that are not 0, and, if they are stored, the coefficients.
pub(crate) struct BlockRow<'a> {
    pub nonzero: &'a mut [u64],
    pub blocks: Option<&'a mut [[i16; 64]]>,
}

impl CoefficientPlane {
    /// Makes room for an image, with all coefficients 0: for those of `stored`, which are rows and columns of blocks.
    pub(crate) fn begin(
        &mut self,
        layout: PlaneLayout,
        stored: [Range<u64>; 2],
    ) -> Result<(), JpegError> {
        let [rows, columns] = &stored;
        let blocks = (rows.end - rows.start).saturating_mul(columns.end - columns.start);
        let masks = rows.end.saturating_mul(layout.padded[1] as u64);
        renew(&mut self.blocks, blocks, [0; 64])?;
        renew(&mut self.nonzero, masks, 0)?;
        (self.layout, self.stored, self.steps) = (layout, stored, None);
        Ok(())
    }

    /// Returns the bytes of its buffers.
    pub(crate) fn bytes(&self) -> usize {
        let [blocks, masks] = [self.blocks.capacity(), self.nonzero.capacity()];
        blocks * size_of::<[i16; 64]>() + masks * size_of::<u64>()
    }

    /// Returns blocks of a row, all of which are stored or none; `None` for blocks that the image does not have.
    #[inline(always)]
    pub(crate) fn row_mut(
        &mut self,
        row: u64,
        columns: Range<u64>,
        are_stored: bool,
    ) -> Option<BlockRow<'_>> {
        let first = row as usize * self.layout.padded[1];
        let masks = first + columns.start as usize..first + columns.end as usize;
        let blocks = match are_stored {
            true => {
                let stored = self.index(row, columns.clone())?;
                Some(self.blocks.get_mut(stored)?)
            }
            false => None,
        };
        Some(BlockRow { nonzero: self.nonzero.get_mut(masks)?, blocks })
    }

    /// Returns a block of the image's; `None` if it is not stored.
    #[inline(always)]
    pub(crate) fn block_mut(&mut self, row: u64, column: u64) -> Option<&mut [i16; 64]> {
        let index = self.index(row, column..column + 1)?;
        self.blocks.get_mut(index.start)
    }

    /// Returns stored blocks of a row, and the masks of their AC coefficients that are not 0.
    #[inline(always)]
    pub(crate) fn row(&self, row: u64) -> Option<(&[[i16; 64]], &[u64])> {
        let columns = self.stored[1].clone();
        let first = row as usize * self.layout.padded[1];
        let masks = first + columns.start as usize..first + columns.end as usize;
        Some((self.blocks.get(self.index(row, columns)?)?, self.nonzero.get(masks)?))
    }

    /// Returns where stored blocks of a row are; `None` if one of them is not stored.
    #[inline(always)]
    fn index(&self, row: u64, columns: Range<u64>) -> Option<Range<usize>> {
        let [rows, all] = &self.stored;
        if !rows.contains(&row) || columns.start < all.start || columns.end > all.end {
            return None;
        }
        let first = (row - rows.start) * (all.end - all.start);
        let [start, end] = [columns.start, columns.end].map(|at| (first + at - all.start) as usize);
        Some(start..end)
    }
}

/// Fills a buffer with `count` values.
fn renew<T: Copy>(buffer: &mut Vec<T>, count: u64, value: T) -> Result<(), JpegError> {
    let bytes = usize::try_from(count.saturating_mul(size_of::<T>() as u64)).unwrap_or(usize::MAX);
    let count = bytes / size_of::<T>();
    buffer.clear();
    buffer.try_reserve_exact(count).map_err(|_| JpegError::NoMemory { bytes })?;
    buffer.resize(count, value);
    Ok(())
}
