//! Runs one sample through one block: fills the parameter block, checks every address, runs the code.
//!
//! Everything that compiled code reads and writes is decided here, from slices of known length:
//!
//! ```text
//! source pixels ─┬───────────────▶ passes                         (no rows are produced)
//!                └─▶ row producer ──▶ produced rows ─▶ passes
//! ```
//!
//! An image that a shift moves partly out of view is read in place under masks, if the loop has them. Otherwise, and
//! if its columns are mirrored before a resize, it is first copied into a padded image of its own: the only pass over
//! memory outside the loop itself.

mod bytes;
mod chunk;
mod produced;
mod regions;

pub(super) use bytes::ByteLinks;
pub use chunk::ChunkRun;
pub(super) use chunk::WaitingSamples;

use super::body::CompiledBody;
use super::call::{BodyCall, BodyRunner, LevelsState, States};
use super::frame::{self, Framed};
use super::image_out::ImageOut;
use super::param_block::{HEADER, HeaderWord, ParamBlocks, PassWord};
use super::shuffle_tables::shuffles_for;
use crate::error::Error;
use crate::plan::block::{Reduction, pixel_op};
use crate::plan::compose::{AxisMap, Composed, PassMap, Rect};
use crate::plan::{Block, Draws, FusedOp, ImagePlan};
use fuseloop_kernels::bytes::ByteMap;
use fuseloop_ops::author::{GeometryStep, Layout};
use fuseloop_ops::internals::area::{AreaScratch, AreaTables};
use fuseloop_ops::internals::bilinear::Taps;
use fuseloop_ops::internals::memory::NoMemory;
use fuseloop_ops::internals::rows::{FloatScratch, RowScratch};
use fuseloop_ops::internals::{
    Histograms, ImageView, LevelTables, MAX_CHANNELS, RGB, geometry_step, memory,
};
use fuseloop_ops::{DType, Size};
use std::ops::Range;
use std::panic::resume_unwind;

/// The minimum width that compiled code accepts: one group of pixels.
const NARROWEST: u32 = 8;

/// The minimum bytes of a row to resize: a vector.
const NARROWEST_RESIZE: u32 = 16;

/// The bytes after a row that a vector may overwrite or read.
const SLACK: usize = 64;

/// The working memory of one worker. It grows to what the largest sample needs and is reused.
#[derive(Debug, Default)]
pub(super) struct WorkerScratch {
    record: ParamBlocks,
    rows: Taps,
    columns: Taps,
    /// The columns' weights: in pairs, each pair four times.
    column_pairs: Vec<[i16; 8]>,
    wide: Vec<i16>,
    /// A group of gray rows: its number, the rows, and their rows of `i16`.
    gray_rows: Vec<u8>,
    resized: Vec<u8>,
    float_row: Vec<f32>,
    framed: Vec<u8>,
    area_tables: Option<AreaTables>,
    area: AreaScratch,
    filter: RowScratch,
    floats: FloatScratch,
    tables: Vec<LevelTables>,
    counts: Option<Box<[Histograms; 4]>>,
    byte_row: Vec<u8>,
    masks: Vec<u64>,
    levels: Vec<u8>,
    of_levels: Composed,
    byte_map: ByteMap,
    counted: Vec<(usize, usize)>,
}

/// Decoded pixels: a whole image, or the region around the pixels that are read.
#[derive(Clone, Copy, Debug)]
pub struct DecodedPixels<'a> {
    /// The pixels.
    pub view: ImageView<'a>,
    /// Row of the whole image that the view begins with.
    pub top: u32,
    /// Column of the whole image that the view begins with.
    pub left: u32,
    /// Size of the whole image.
    pub whole: Size,
}

impl<'a> DecodedPixels<'a> {
    /// A whole image.
    #[must_use]
    pub fn whole(view: ImageView<'a>) -> Self {
        Self { view, top: 0, left: 0, whole: view.size() }
    }

    /// Returns the region of the whole image that was decoded.
    fn rect(&self) -> Rect {
        let (top, left) = (i64::from(self.top), i64::from(self.left));
        let Size { height, width } = self.view.size();
        Rect { top, bottom: top + i64::from(height), left, right: left + i64::from(width) }
    }
}

/// The pixels that passes load from.
#[derive(Clone, Copy, Debug)]
struct Base<'a> {
    pixels: &'a [u8],
    stride: usize,
    /// The pixels that passes may read. The first of them begins `pixels`.
    rect: Rect,
}

/// One run of a block for one sample. `R` runs the code: natively, except in tests.
pub(super) struct Invocation<'a, R> {
    plan: &'a ImagePlan,
    block: &'a Block,
    compiled: &'a CompiledBody,
    draws: &'a Draws,
    source: DecodedPixels<'a>,
    body: LoopBody<'a>,
    composed: &'a Composed,
    runner: &'a R,
}

/// The loop body that a sample runs: its fused ops, the flat op that each comes from, and the tables
/// that are the same for every sample, by flat op.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoopBody<'a> {
    pub(super) links: &'a [FusedOp],
    pub(super) leaves: &'a [usize],
    pub(super) fixed: &'a [(usize, Box<LevelTables>)],
}

/// The reason why compiled code did not run. The contents of the output are undefined then.
#[derive(Debug)]
pub(super) enum NotRun {
    /// The image is too small for vectors, or its code could not be compiled: the oracle can run
    /// instead.
    Evaluate,
    /// An op failed, or the system has no memory for an intermediate image.
    Failed(Error),
}

impl<E: Into<Error>> From<E> for NotRun {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

impl<'a, R: BodyRunner> Invocation<'a, R> {
    /// Prepares the block at `index` of `plan` for the sample of `draws` and `source`, whose geometry is composed in
    /// `composed`.
    pub(super) fn new(
        (plan, index): (&'a ImagePlan, usize),
        compiled: &'a CompiledBody,
        (draws, source): (&'a Draws, DecodedPixels<'a>),
        body: LoopBody<'a>,
        composed: &'a mut Composed,
        runner: &'a R,
    ) -> Self {
        let block = &plan.blocks()[index];
        let leaf = |(_, position): &(Reduction, usize)| body.leaves[*position];
        composed.set(block, draws, &compiled.readings.iter().map(leaf), source.whole);
        Self { plan, block, compiled, draws, source, body, composed, runner }
    }

    /// Returns the size of the block's output for this sample.
    pub(super) fn output(&self) -> Size {
        self.composed.output
    }

    /// Returns the channels of the block's output.
    fn stored_channels(&self) -> usize {
        self.block.channels_after(self.plan.flat_ops(), self.body.links)
    }

    /// Returns the bytes of the block's output for this sample.
    pub(super) fn output_bytes(&self) -> usize {
        bytes_of(self.composed.output, self.stored_channels() * self.block.dtype.bytes())
    }

    /// Runs the block, writing `out`.
    ///
    /// # Panics
    ///
    /// If `out` does not have the length and alignment of the output, or the source lacks pixels that
    /// the draws need.
    pub(super) fn run(&self, memory: &mut WorkerScratch, out: ImageOut<'_>) -> Result<(), NotRun> {
        let mut out = out;
        if self.run_bytes(memory, &mut out)? {
            return Ok(());
        }
        if self.is_too_narrow() {
            let (source, composed) = self.as_one_row().ok_or(NotRun::Evaluate)?;
            let row = Invocation { source, composed: &composed, ..*self };
            return if row.is_too_narrow() {
                Err(NotRun::Evaluate)
            } else {
                row.run_wide(memory, out)
            };
        }
        self.run_wide(memory, out)
    }

    /// Like [`run`](Self::run), for images that are wide enough.
    fn run_wide(&self, memory: &mut WorkerScratch, out: ImageOut<'_>) -> Result<(), NotRun> {
        memory.record.reset(self.compiled.layout);
        self.set_all(memory, out)?;
        match &self.composed.resampled {
            Some((stage, motion)) => self.run_with_produced_rows(memory, stage, motion)?,
            None => self.run_plain(memory)?,
        }
        Ok(())
    }

    /// Writes all but the passes to the parameter block, which was zeroed.
    fn set_all(&self, memory: &mut WorkerScratch, out: ImageOut<'_>) -> Result<(), NoMemory> {
        self.set_output(memory, out)?;
        self.set_byte_row(memory)?;
        self.set_params(&mut memory.record);
        self.set_tables(memory);
        Ok(())
    }

    /// Returns the pixels and the geometry with all rows one after the other as a single row, for images of few
    /// columns, such as points. Returns `None` if it matters where a row begins: rows are produced, mirrored, cut or
    /// not adjacent in memory, or the fused ops use the position of a pixel or reduce the image.
    fn as_one_row(&self) -> Option<(DecodedPixels<'a>, Composed)> {
        let (Composed { stored, resampled, reductions, .. }, source) = (self.composed, self.source);
        let (width, view) = (source.whole.width, source.view);
        let is_whole = view.size().width == width
            && stored.size.width == width
            && stored.columns == AxisMap::IDENTITY
            && stored.rows.sign == 1;
        let is_packed = view.stride() == width as usize * view.format().pixel_bytes();
        let is_plain = resampled.is_none() && reductions.is_empty();
        let is_anywhere = stored.regions.is_empty() && stored.maps.is_empty();
        let is_inside = self.shown().contains(&stored.reads());
        if !(is_whole && is_packed && is_plain && is_anywhere && is_inside) {
            return None;
        }
        let row = |size: Size| Some(Size::new(1, size.height.checked_mul(size.width)?));
        let pixels = row(view.size())?;
        let source = DecodedPixels {
            view: ImageView::packed_format(view.data(), pixels, view.format())?,
            top: 0,
            left: source.top.checked_mul(width)?,
            whole: row(source.whole)?,
        };
        let offset = stored.rows.offset * i64::from(width);
        let columns = AxisMap { sign: 1, offset };
        let stored = PassMap { columns, ..PassMap::new(row(stored.size)?) };
        let output = stored.size;
        let composed =
            Composed { resampled: None, stored, reductions: vec![], frame: None, output };
        Some((source, composed))
    }

    /// Returns the number of values of the row of floats that row functions store; 0 if they store none.
    fn row_of_floats(&self) -> usize {
        if self.block.streams || !matches!(self.block.dtype, DType::U8 | DType::F32) {
            self.stored_channels() * self.composed.output.width as usize
        } else {
            0
        }
    }

    fn set_output(&self, memory: &mut WorkerScratch, out: ImageOut<'_>) -> Result<(), NoMemory> {
        let element = self.block.dtype.bytes();
        let planar = self.block.layout == Layout::ChannelsFirst;
        let planes = if planar { self.stored_channels() } else { 1 };
        let (out, apart) = out.parts(planes, self.output_bytes());
        let record = &mut memory.record;
        set(record, HeaderWord::Out, out.as_mut_ptr() as u64);
        set(record, HeaderWord::Plane, if planar { apart as u64 } else { 0 });
        let values = self.row_of_floats();
        if values > 0 {
            // Row functions store whole elements.
            assert!((out.as_ptr() as usize).is_multiple_of(element), "an element's address");
            memory::resize(&mut memory.float_row, values, "a row of floats")?;
            set(record, HeaderWord::FloatRow, memory.float_row.as_mut_ptr() as u64);
        }
        Ok(())
    }

    fn set_params(&self, record: &mut ParamBlocks) {
        let params = self.compiled.layout.params();
        let numbers = &self.draws.params[self.block.params.clone()];
        for (index, number) in numbers.iter().enumerate() {
            record.set_param(params + 16 * index as i32, *number);
        }
    }

    /// Computes the tables that need no counted levels, and sets the addresses of all tables.
    fn set_tables(&self, memory: &mut WorkerScratch) {
        if self.block.tables == 0 {
            return;
        }
        memory.tables.resize(self.block.tables, [[0.0; 256]; MAX_CHANNELS]);
        for (link, leaf) in self.body.links.iter().zip(self.body.leaves) {
            let FusedOp::Table { table, counted } = *link else { continue };
            let fixed = self.body.fixed.iter().find(|(of, _)| of == leaf);
            let address = match fixed {
                Some((_, fixed)) => fixed.as_ptr(),
                None => memory.tables[table].as_ptr(),
            };
            memory.record.set(self.compiled.layout.table(table), address as u64);
            if fixed.is_none()
                && !counted
                && let Some(step) = self.block.groups.iter().find(|step| step.flat_ops[0] == *leaf)
            {
                let channels = self.plan.flat_ops()[*leaf].channels();
                let none = &[[0; 256]; MAX_CHANNELS][..channels];
                let tables = &mut memory.tables[table][..channels];
                self.plan.table(&step.flat_ops, self.draws, none, tables);
            }
        }
    }

    /// Returns true if reduction number `index` changes anything for these draws.
    fn reading_runs(&self, index: usize) -> bool {
        let (reading, position) = self.compiled.readings[index];
        let Reduction::Statistic { part, param, .. } = reading else { return true };
        let leaf = self.body.leaves[position];
        let kind = self.plan.flat_ops()[leaf].kind.pixel(part);
        pixel_op(self.plan.flat_ops(), leaf, part).zip(kind).is_some_and(|(op, kind)| {
            let first = param + 1 - kind.param_count;
            !op.is_identity(&self.draws.params[first..=param])
        })
    }

    /// Returns true if the image is too narrow for vectors.
    fn is_too_narrow(&self) -> bool {
        let narrowest_resize = NARROWEST_RESIZE.div_ceil(self.block.channels as u32);
        let is_narrow = |(stage, motion): &(PassMap, GeometryStep)| {
            geometry_step::produces_rows(motion) && stage.size.width < narrowest_resize
        };
        let mut passes = self.composed.passes();
        passes.any(|pass| pass.size.width < NARROWEST || pass.size.height == 0)
            || self.composed.resampled.as_ref().is_some_and(is_narrow)
    }

    /// Returns true if passes read the image before it is stored.
    fn has_reductions(&self) -> bool {
        !self.compiled.readings.is_empty()
    }

    /// Returns the pixels of the source that were decoded and that no padding hides.
    fn shown(&self) -> Rect {
        let decoded = self.source.rect();
        self.composed.frame.map_or(decoded, |(shown, _)| shown.intersection(&decoded))
    }

    /// Copies the image that `rows` and `columns` map to the source into `memory`. Returns the bytes of a row.
    fn copy_padded(
        &self,
        memory: &mut Vec<u8>,
        rows: AxisMap,
        columns: AxisMap,
        size: Size,
    ) -> Result<usize, NoMemory> {
        let DecodedPixels { view, top, left, .. } = self.source;
        let fill = self.composed.frame.map_or([0; 3], |(_, fill)| fill);
        let (corner, shown) = ([top, left].map(i64::from), self.shown());
        frame::copy_padded(Framed { view, corner, shown, fill }, [rows, columns], size, memory)
    }

    /// Returns the pixels that `passes` load from, of which they read those of a rectangle: the source in place, or a
    /// padded copy in `framed`. `wanted` are all pixels that they read.
    fn base<'m>(
        &'m self,
        framed: &'m mut Vec<u8>,
        wanted: Rect,
        mut passes: impl Iterator<Item = &'m PassMap>,
    ) -> Result<(Base<'m>, Rect), NoMemory> {
        let (view, shown) = (self.source.view, self.shown());
        let in_place =
            Base { pixels: view.data(), stride: view.stride(), rect: self.source.rect() };
        let mut can_mask = || {
            let has_addresses = |pass| self.first_addresses(pass, in_place, view.stride() as i64);
            self.compiled.masks_all(self.block) && passes.all(|pass| has_addresses(pass).is_some())
        };
        if shown.contains(&wanted) || can_mask() {
            return Ok((in_place, shown));
        }
        let [rows, columns] = [wanted.top, wanted.left].map(|offset| AxisMap { sign: 1, offset });
        let stride = self.copy_padded(framed, rows, columns, wanted.size())?;
        Ok((Base { pixels: framed, stride, rect: wanted }, wanted))
    }

    fn run_plain(&self, memory: &mut WorkerScratch) -> Result<(), NoMemory> {
        let pixels = self.set_passes(memory)?;
        self.call(memory, pixels, None);
        Ok(())
    }

    /// Writes the passes over the source to the parameter block. Returns the bytes that they read.
    fn set_passes(&self, memory: &mut WorkerScratch) -> Result<Range<*const u8>, NoMemory> {
        let (wanted, passes) = (self.composed.reads(), self.composed.passes());
        let (base, shown) = self.base(&mut memory.framed, wanted, passes)?;
        let passes = self.composed.passes().map(|pass| (pass, shown));
        self.set_masks(&mut memory.record, &mut memory.masks, passes.clone())?;
        for (index, pass) in passes.enumerate() {
            self.set_pass(&mut memory.record, index, pass, base, base.stride as i64);
        }
        Ok(base.pixels.as_ptr_range())
    }

    /// Writes the masks of the pixels in view to the parameter block, if loops read them. Pixels of a pass are in view
    /// if their source is in its rectangle.
    fn set_masks<'p>(
        &self,
        record: &mut ParamBlocks,
        masks: &mut Vec<u64>,
        passes: impl Iterator<Item = (&'p PassMap, Rect)> + Clone,
    ) -> Result<(), NoMemory> {
        if !self.compiled.reads_masks(self.block) {
            return Ok(());
        }
        let to = (record, self.compiled.layout);
        frame::set_masks(to, masks, passes, self.block.channels)
    }

    /// Returns the addresses that the first and the last four pixels of a pass's first group are loaded from. There are
    /// none if they are not in the address space: pixels out of view are not read, but have addresses.
    fn first_addresses(&self, pass: &PassMap, base: Base<'_>, row_bytes: i64) -> Option<[u64; 2]> {
        let pixel = self.block.source_format().pixel_bytes();
        let is_mirrored = pass.columns.sign == -1;
        let group = if is_mirrored { i64::from(NARROWEST) - 1 } else { 0 };
        let row = i128::from(pass.rows.offset - base.rect.top) * i128::from(row_bytes);
        let column = pixel as i128 * i128::from(pass.columns.offset - base.rect.left - group);
        let low = u64::try_from(base.pixels.as_ptr() as i128 + row + column).ok()?;
        let high = low.checked_add(if pixel == RGB { 8 } else { 4 * pixel as u64 })?;
        Some(if is_mirrored { [high, low] } else { [low, high] })
    }

    /// Writes a pass to the parameter block. It reads pixels of `shown` only, as it reads no others or masks them.
    fn set_pass(
        &self,
        record: &mut ParamBlocks,
        index: usize,
        (pass, shown): (&PassMap, Rect),
        base: Base<'_>,
        row_bytes: i64,
    ) {
        let is_masked = self.compiled.masks_all(self.block);
        assert!(is_masked || shown.contains(&pass.reads()), "a pass would read hidden pixels");
        let reads = pass.reads().intersection(&shown);
        let rows_used = if row_bytes == 0 { 1 } else { reads.bottom - base.rect.top };
        // An op may draw any size or offset: the products may not fit in 64 bits.
        let last_row = i128::from(rows_used - 1) * base.stride as i128;
        let format = self.block.source_format();
        let pixel = format.pixel_bytes();
        let end = last_row + pixel as i128 * i128::from(reads.right - base.rect.left);
        let is_inside = base.rect.contains(&reads) && end <= base.pixels.len() as i128;
        let is_empty = reads.top >= reads.bottom || reads.left >= reads.right;
        assert!(is_inside || is_empty, "a pass would read outside its pixels: {reads:?}");
        let at = self.compiled.layout.pass(index);
        let mirrored = pass.columns.sign == -1;
        let first = self.first_addresses(pass, base, row_bytes);
        let [first, last] = first.expect("pixels that are read have addresses");
        let step = pixel as i64 * pass.columns.sign;
        let words = [
            (PassWord::First, first),
            (PassWord::Last, last),
            (PassWord::RowStep, (pass.rows.sign * row_bytes) as u64),
            (PassWord::PixelStep, step as u64),
            (PassWord::Rows, u64::from(pass.size.height)),
            (PassWord::LastGroup, u64::from(pass.size.width - NARROWEST)),
            (PassWord::Shuffles, shuffles_for(format, mirrored).as_ptr() as u64),
            (PassWord::Runs, u64::from(index == 0 || self.reading_runs(index - 1))),
        ];
        for (word, value) in words {
            record.set(at + 8 * word as i32, value);
        }
        for (number, r) in &pass.regions {
            let numbers = [r.left, r.right, r.top, r.bottom].map(clamp_i32);
            record.set_region(self.compiled.layout.region(index, *number), numbers);
        }
        for (number, [rows, columns]) in &pass.maps {
            let numbers = [columns.sign, columns.offset, rows.sign, rows.offset].map(clamp_i32);
            record.set_region(self.compiled.layout.map(index, *number), numbers);
        }
    }

    /// Runs the block on the parameter block, which has the block's layout, was zeroed and then filled
    /// by the functions above for one sample:
    ///
    /// 1. `set_output` asserted that the output has rows x columns x channels elements, of which planes may lie apart,
    ///    and the passes count those rows and columns;
    /// 2. `set_pass` asserted that every pixel of a pass that is in view is in its base's slice, and groups access
    ///    no byte outside the pass, which is at least a group of eight pixels wide (`is_too_narrow`); where a loop
    ///    has larger groups, masks leave out pixels that are not in the row; pixels that are not in view are left out
    ///    by the masks of `set_masks`, and there are none if a loop reads no masks;
    /// 3. a resize reads rows `first..first + taps` of its view, which end inside it (tested in
    ///    `bilinear`), at columns of its width, at least 16 bytes; it writes rows of `resized` and
    ///    `wide`, which were sized for it with slack for the last vector;
    /// 4. a row function writes `lead + bytes` bytes, a row of `resized`; a function that stores rows stores
    ///    aligned elements (`set_output`);
    /// 5. levels are counted in rows of `byte_row`, which is sized for the widest pass;
    ///    tables are in `memory` or fixed, and are only indexed by 0..=255;
    /// 6. the states of row functions live in this frame and the caller's.
    ///
    /// `pixels` are the bytes that the block reads besides those of `memory`. `maker` is the address of
    /// the row producer's state and the bytes of a row, if a row function produces the rows.
    #[allow(unsafe_code, reason = "the record was filled just before")]
    fn call(
        &self,
        memory: &mut WorkerScratch,
        pixels: Range<*const u8>,
        maker: Option<(u64, u64)>,
    ) {
        let regions = if R::NEEDS_REGIONS { self.regions(memory, pixels) } else { vec![] };
        let WorkerScratch { record, tables, counts, counted, .. } = memory;
        counted.clear();
        counted.extend(self.counted_tables());
        let counts = counts.get_or_insert_with(|| Box::new([[[0; 256]; MAX_CHANNELS]; 4]));
        let (plan, draws) = (self.plan, self.draws);
        let (readings, computed) = (&*counted, 0);
        let mut state =
            LevelsState { plan, draws, counts, tables, readings, computed, panic: None };
        let levels = std::ptr::from_mut(&mut state) as u64;
        if self.has_reductions() {
            set(record, HeaderWord::Levels, levels);
        }
        let Self { plan, block, compiled, body: LoopBody { links, .. }, .. } = *self;
        let levels = self.has_reductions().then_some(levels);
        let states = States { maker, levels };
        let call = BodyCall { plan, block, links, compiled, records: record, regions, states };
        // SAFETY: by 1 to 6 above, every address in the parameter block is valid for what the block reads
        // and writes there, and the regions are those slices; the callers of this function borrow all of
        // them until it returns.
        unsafe { self.runner.run(call) };
        if self.block.streams {
            fuseloop_kernels::end_streams();
        }
        if let Some(panic) = state.panic.take() {
            resume_unwind(panic);
        }
    }

    /// Returns each table that needs counted levels and the flat op that computes it, in the order of the code.
    fn counted_tables(&self) -> impl Iterator<Item = (usize, usize)> {
        self.compiled.readings.iter().filter_map(|(reading, position)| match reading {
            Reduction::Levels { table } => Some((*table, self.body.leaves[*position])),
            Reduction::Statistic { .. } => None,
        })
    }

    fn set_byte_row(&self, memory: &mut WorkerScratch) -> Result<(), NoMemory> {
        if self.has_reductions() {
            let widest = self.composed.passes().map(|pass| pass.size.width).max();
            let channels =
                self.counted_tables().map(|(_, leaf)| self.plan.flat_ops()[leaf].channels());
            let bytes = channels.max().unwrap_or(0) * widest.unwrap_or(0) as usize;
            memory::resize(&mut memory.byte_row, bytes, "a row of bytes")?;
            set(&mut memory.record, HeaderWord::ByteRow, memory.byte_row.as_mut_ptr() as u64);
        }
        Ok(())
    }
}

/// The panic message for an image that does not fit in the address space.
const TOO_LARGE: &str = "an image does not fit in the address space";

/// Returns the bytes of an image of `pixel` bytes a pixel.
pub(super) fn bytes_of(size: Size, pixel: usize) -> usize {
    let pixels = usize::try_from(size.pixels()).ok();
    pixels.and_then(|pixels| pixels.checked_mul(pixel)).expect(TOO_LARGE)
}

fn set(record: &mut ParamBlocks, word: HeaderWord, value: u64) {
    debug_assert!(8 * (word as i32) < HEADER);
    record.set(8 * word as i32, value);
}

fn clamp_i32(value: i64) -> i32 {
    value.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32
}
