//! Decoding of a window of a frame.
//!
//! The predictions of all rows are read first: they say which pixels are needed. Coefficients are read row by row, since the
//! probability of each depends on those before it. Rows below the window are not read. Of the others, these macroblocks are
//! made and filtered:
//!
//! | step               | macroblocks                                                                        |
//! |--------------------|------------------------------------------------------------------------------------|
//! | prediction         | those that the window needs: where a block needs pixels above it and to the right, one more column in the rows above |
//! | normal loop filter | from the left edge of the image to one column right of the window, since each filter reads what those to the left and above wrote |
//! | simple loop filter | those of the window, and the pixels of two more rows and columns                      |
//! | colour             | the pixels of the window                                                           |
//!
//! Predictions read pixels that are not filtered. Their last rows are kept apart, so that a row of macroblocks is filtered
//! as soon as it is made. The filter of the next row changes its last pixels, so that rows are converted to RGB when these
//! can't change any more: the planes hold one row of macroblocks and the 8 rows of pixels above it.

use crate::LossyError;
use crate::bool_decoder::BoolDecoder;
use crate::header::{Filter, Frame};
use crate::lossless::is_inside;
use crate::modes::{self, Luma, Macroblock, ModeEdge};
use crate::predict::{LastRow, Workspace};
use crate::tokens::{Coefficients, Edge};
use fuseloop_kernels::vp8::{
    ChromaRows, Edges, FilterPlanes, filter_normal, filter_simple, rgb_row,
};
use fuseloop_kernels::{CpuWork, for_cpu};
use fuseloop_ops::author::Window;
use fuseloop_ops::internals::memory::{self, NoMemory};

/// The rows of luma above the row of macroblocks in the planes.
const ABOVE: usize = 8;

/// Decodes lossy WebP images: VP8 key frames. Buffers are used again from image to image; they take about 50 bytes for
/// each column of pixels, and one byte for ten pixels of the rows that a window needs.
///
/// ```no_run
/// use fuseloop_ops::author::Window;
/// use fuseloop_webp::{LossyDecoder, frame_size};
///
/// # fn show(chunk: &[u8]) -> Result<(), Box<dyn std::error::Error>> {
/// // `chunk` holds the bytes of a file's chunk "VP8 ".
/// let size = frame_size(chunk)?;
/// let window = Window { top: 0, left: 0, height: size.height / 2, width: size.width };
/// let mut rgb = vec![0; 3 * window.height as usize * window.width as usize];
/// LossyDecoder::default().decode(chunk, window, &mut rgb)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Default)]
pub struct LossyDecoder {
    /// The modes that the first partition states for the rows of macroblocks that are read.
    macroblocks: Vec<Macroblock>,
    /// The number of columns of each row that are made.
    made: Vec<usize>,
    /// The state of each column of macroblocks.
    columns: Vec<Column>,
    /// The strengths of the macroblocks of a row that are filtered.
    edges: Vec<Edges>,
    luma: Vec<u8>,
    chroma: [Vec<u8>; 2],
    workspace: Workspace,
    coefficients: Coefficients,
    chroma_rows: ChromaRows,
}

/// The state of a column of macroblocks.
#[derive(Clone, Copy, Debug, Default)]
struct Column {
    modes: ModeEdge,
    edge: Edge,
    last_row: LastRow,
}

/// The macroblocks that a window needs.
#[derive(Clone, Copy, Debug)]
struct Needed {
    /// The columns and rows of macroblocks of the image.
    columns: usize,
    /// The rows of macroblocks that are read.
    rows: usize,
    /// The columns that are filtered.
    filtered: usize,
    /// The first column and row that are filtered.
    first: [usize; 2],
    /// The pixels at the bottom of a row of macroblocks that the next one may change, directly or by chroma.
    unfinished: usize,
}

impl Needed {
    fn new(frame: &Frame<'_>, window: Window) -> Self {
        let count = |pixels: u32| pixels.div_ceil(16) as usize;
        let (columns, rows) = (count(frame.size.width), count(frame.size.height));
        // Pixels that a pixel of the window depends on: the next sample of chroma, and those that the filter of an edge
        // changes together with it.
        let (reach, unfinished) = match frame.filter {
            Filter::Normal => (2, 7),
            Filter::Simple | Filter::None => (2, 1),
        };
        let (bottom, right) = (window.top + window.height, window.left + window.width);
        let rows_read = count(bottom + unfinished as u32).min(rows);
        // The macroblock right of the last one that is needed changes its last pixels.
        let filtered = (count(right + reach) + 1).min(columns);
        let first = match frame.filter {
            Filter::Simple => {
                [window.left, window.top].map(|first| (first.saturating_sub(4) / 16) as usize)
            }
            Filter::Normal | Filter::None => [0; 2],
        };
        Self { columns, rows: rows_read, filtered, first, unfinished }
    }
}

impl LossyDecoder {
    /// Writes the pixels of `window` as RGB. `frame` holds the bytes of the chunk "VP8 ".
    ///
    /// # Errors
    ///
    /// If the frame is damaged in what the window needs, the window is not inside it, `out` does not have three bytes for
    /// each pixel, or there is not enough memory.
    pub fn decode(
        &mut self,
        frame: &[u8],
        window: Window,
        out: &mut [u8],
    ) -> Result<(), LossyError> {
        let mut frame = Frame::parse(frame)?;
        if !is_inside(window, frame.size) {
            return Err(LossyError::Window);
        }
        let row_bytes = 3 * window.width as usize;
        let expected = row_bytes.saturating_mul(window.height as usize);
        if out.len() != expected {
            return Err(LossyError::Buffer { expected, found: out.len() });
        }
        let needed = Needed::new(&frame, window);
        self.reserve(&needed).map_err(|error| LossyError::NoMemory { bytes: error.bytes })?;
        for_cpu(Modes { decoder: self, frame: &mut frame, columns: needed.columns })?;
        self.set_made(&needed);
        let stride = 16 * needed.filtered;
        let (mut written, height) = (window.top as usize, frame.size.height as usize);
        let bottom = (window.top + window.height) as usize;
        let chroma_width = frame.size.width.div_ceil(2) as usize;
        let columns = window.left as usize..(window.left + window.width) as usize;
        let mut out = out.chunks_exact_mut(row_bytes);
        for row in 0..needed.rows {
            for_cpu(Row { decoder: self, frame: &mut frame, needed: &needed, row })?;
            let [u, v] = &mut self.chroma;
            let mut planes = FilterPlanes { y: &mut self.luma, uv: [u, v], stride, above: ABOVE };
            let is_top = row == 0;
            match frame.filter {
                Filter::Normal => {
                    filter_normal(&mut planes, &self.edges, needed.first[0], is_top);
                }
                Filter::Simple if row >= needed.first[1] => {
                    filter_simple(&mut planes, &self.edges, needed.first[0], is_top);
                }
                Filter::Simple | Filter::None => {}
            }
            // The rows of the planes, counted from the first row of the image.
            let first = 16 * row;
            let is_last = 16 * (row + 1) >= height;
            let finished = if is_last { height } else { 16 * (row + 1) - needed.unfinished };
            let last_chroma = height.div_ceil(2) - 1;
            while written < finished.min(bottom) {
                let luma = &self.luma[(written + ABOVE - first) * stride..][..stride];
                let near = written / 2;
                let next = if written % 2 == 0 { near.saturating_sub(1) } else { near + 1 };
                let chroma = [0, 1].map(|i| {
                    [near, next.min(last_chroma)].map(|y| {
                        let at = (y + ABOVE / 2 - first / 2) * stride / 2;
                        &self.chroma[i][at..][..chroma_width.min(stride / 2)]
                    })
                });
                let Some(out) = out.next() else { break };
                rgb_row(luma, chroma, columns.clone(), &mut self.chroma_rows, out);
                written += 1;
            }
            self.luma.copy_within(16 * stride.., 0);
            for plane in &mut self.chroma {
                plane.copy_within(8 * stride / 2.., 0);
            }
        }
        Ok(())
    }

    /// Finds the columns of each row that are made, from the last row on: those of the row below, and one more where the
    /// last of them needs pixels above it and to the right.
    fn set_made(&mut self, needed: &Needed) {
        let mut made = needed.filtered;
        for (row, out) in self.made.iter_mut().enumerate().take(needed.rows).rev() {
            *out = made;
            let last = &self.macroblocks[needed.columns * row + made - 1];
            made = (made + usize::from(last.needs_above_right())).min(needed.columns);
        }
    }

    /// Makes room for the planes and forgets the image before.
    fn reserve(&mut self, needed: &Needed) -> Result<(), NoMemory> {
        const WHAT: &str = "a row of a WebP";
        let stride = 16 * needed.filtered;
        self.macroblocks.clear();
        memory::resize(&mut self.macroblocks, needed.columns * needed.rows, WHAT)?;
        memory::resize(&mut self.made, needed.rows, WHAT)?;
        self.columns.clear();
        memory::resize(&mut self.columns, needed.columns, WHAT)?;
        self.edges.clear();
        memory::resize(&mut self.edges, needed.filtered, WHAT)?;
        memory::resize(&mut self.luma, stride * (ABOVE + 16), WHAT)?;
        for plane in &mut self.chroma {
            memory::resize(plane, stride / 2 * (ABOVE / 2 + 8), WHAT)?;
        }
        Ok(())
    }
}

/// Reads the predictions of all macroblocks that are needed.
struct Modes<'a, 'b> {
    decoder: &'b mut LossyDecoder,
    frame: &'b mut Frame<'a>,
    columns: usize,
}

impl CpuWork for Modes<'_, '_> {
    type Output = Result<(), LossyError>;

    #[inline(always)]
    fn run(self) -> Result<(), LossyError> {
        let Self { decoder, frame, columns } = self;
        let mut bits: BoolDecoder<'_> = frame.modes;
        for row in decoder.macroblocks.chunks_exact_mut(columns) {
            let mut left = ModeEdge::default();
            for (macroblock, column) in row.iter_mut().zip(&mut decoder.columns) {
                let (tree, skip) = (frame.segment_tree, frame.skip);
                *macroblock = modes::read(&mut bits, tree, skip, &mut column.modes, &mut left);
            }
            if bits.ended() {
                return Err(LossyError::Truncated { part: "its first partition" });
            }
        }
        frame.modes = bits;
        Ok(())
    }
}

/// Reads and makes a row of macroblocks.
struct Row<'a, 'b> {
    decoder: &'b mut LossyDecoder,
    frame: &'b mut Frame<'a>,
    needed: &'b Needed,
    row: usize,
}

impl CpuWork for Row<'_, '_> {
    type Output = Result<(), LossyError>;

    #[inline(always)]
    fn run(self) -> Result<(), LossyError> {
        let Self { decoder, frame, needed, row } = self;
        let partition = row & (frame.partitions - 1);
        let mut bits = frame.coefficients[partition];
        let mut left = Edge::default();
        let stride = 16 * needed.filtered;
        let made = decoder.made[row];
        let macroblocks = &decoder.macroblocks[needed.columns * row..][..needed.columns];
        decoder.workspace.begin_row(row == 0);
        for (x, macroblock) in macroblocks.iter().enumerate() {
            let column = &mut decoder.columns[x];
            let has_block_modes = matches!(macroblock.luma, Luma::Blocks(_));
            let segment = usize::from(macroblock.segment);
            let edges = [&mut column.edge, &mut left];
            let coefficients = &mut decoder.coefficients;
            let has_coefficients = if macroblock.is_skipped {
                coefficients.skip(has_block_modes, edges);
                false
            } else {
                let steps = &frame.steps[segment];
                coefficients.read(&mut bits, &frame.probabilities, steps, has_block_modes, edges)
            };
            if bits.ended() {
                return Err(LossyError::Truncated { part: "its coefficients" });
            }
            if x >= made {
                continue;
            }
            if x > 0 {
                decoder.workspace.next();
            }
            if row > 0 {
                let above = decoder.columns[x].last_row;
                let next = decoder.columns.get(x + 1).map(|column| &column.last_row);
                decoder.workspace.set_above(&above, next);
            }
            decoder.workspace.make(macroblock, &decoder.coefficients, x == 0, row == 0);
            decoder.columns[x].last_row = decoder.workspace.last_row();
            if let Some(edges) = decoder.edges.get_mut(x) {
                edges.strength = frame.strengths[segment][usize::from(has_block_modes)];
                edges.has_inner = has_block_modes | has_coefficients;
                decoder.workspace.copy_luma(&mut decoder.luma[ABOVE * stride + 16 * x..], stride);
                let [u, v] = &mut decoder.chroma;
                let at = ABOVE / 2 * stride / 2 + 8 * x;
                decoder.workspace.copy_chroma([&mut u[at..], &mut v[at..]], stride / 2);
            }
        }
        frame.coefficients[partition] = bits;
        Ok(())
    }
}
