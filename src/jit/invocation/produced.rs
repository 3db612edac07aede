//! Blocks that read produced rows: a resize in compiled code, or a row function such as a warp.
//!
//! One row is produced at a time, unless statistics are counted before the loop: then all are stored.

use super::{Base, Invocation, SLACK, TOO_LARGE, WorkerScratch, set};
use crate::jit::call::{BodyRunner, ProducedWindow, RowFunctionKind, RowFunctionState};
use crate::jit::param_block::{GRAY_GROUP, GRAY_ROWS, HeaderWord};
use crate::plan::compose::{AxisMap, PassMap, Rect};
use fuseloop_ops::author::{GeometryStep, RowProducer};
use fuseloop_ops::internals::area::{AreaRows, AreaTables};
use fuseloop_ops::internals::bilinear::AxisPart;
use fuseloop_ops::internals::memory::NoMemory;
use fuseloop_ops::internals::{ImageView, geometry_step, memory};
use std::panic::resume_unwind;

impl<R: BodyRunner> Invocation<'_, R> {
    /// Runs the block on rows that `motion` makes of the pixels of `stage`.
    pub(super) fn run_with_produced_rows(
        &self,
        memory: &mut WorkerScratch,
        stage: &PassMap,
        motion: &GeometryStep,
    ) -> Result<(), NoMemory> {
        let wanted = self.composed.reads();
        let stores_all = self.has_reductions();
        let pixel = self.block.source_format().pixel_bytes();
        let row_bytes = (wanted.size().width as usize).next_multiple_of(4) * pixel + SLACK;
        let rows = if stores_all { wanted.size().height as usize } else { 1 };
        memory::resize(
            &mut memory.resized,
            rows.checked_mul(row_bytes).expect(TOO_LARGE),
            "a resized image",
        )?;
        let stride = if stores_all { row_bytes } else { 0 };
        set(&mut memory.record, HeaderWord::ProducesRows, 1);
        set(&mut memory.record, HeaderWord::Resized, memory.resized.as_mut_ptr() as u64);
        set(&mut memory.record, HeaderWord::ResizedStride, stride as u64);
        set(&mut memory.record, HeaderWord::ResizedRows, rows as u64);

        let base = Base { pixels: &memory.resized, stride: row_bytes, rect: wanted };
        let shown = self.composed.passes().map(|pass| (pass, wanted));
        self.set_masks(&mut memory.record, &mut memory.masks, shown)?;
        for (index, pass) in self.composed.passes().enumerate() {
            if stores_all {
                let record = &mut memory.record;
                self.set_pass(record, index, (pass, wanted), base, row_bytes as i64);
            } else {
                // All rows share one buffer: the resize tables select the row instead.
                let along =
                    PassMap { rows: AxisMap { sign: 1, offset: wanted.top }, ..pass.clone() };
                self.set_pass(&mut memory.record, index, (&along, wanted), base, 0);
                let first = pass.rows.offset - wanted.top;
                set(&mut memory.record, HeaderWord::FirstRow, first as u64);
                set(&mut memory.record, HeaderWord::RowStep, pass.rows.sign as u64);
            }
        }
        self.prepare_rows(memory, stage, motion, wanted)
    }

    /// Sets up the producer of the rows and runs the block.
    fn prepare_rows(
        &self,
        memory: &mut WorkerScratch,
        stage: &PassMap,
        motion: &GeometryStep,
        wanted: Rect,
    ) -> Result<(), NoMemory> {
        let reads = stage.reads();
        let upright = stage.rows.sign == 1 && stage.columns.sign == 1;
        let mut framed = std::mem::take(&mut memory.framed);
        let view = if upright && self.shown().contains(&reads) {
            let part = fuseloop_ops::author::Window {
                top: (reads.top - i64::from(self.source.top)) as u32,
                left: (reads.left - i64::from(self.source.left)) as u32,
                height: stage.size.height,
                width: stage.size.width,
            };
            self.source.view.crop(part)
        } else {
            self.copy_padded(&mut framed, stage.rows, stage.columns, stage.size)?;
            ImageView::packed_format(&framed, stage.size, self.block.source_format())
        };
        let view = view.expect("the part was checked to lie inside the pixels");
        match self.block.rows {
            Some(RowProducer::Compiled) => self.resize_bilinear(memory, view, motion, wanted)?,
            _ => self.call_row_producer(memory, view, motion, wanted)?,
        }
        memory.framed = framed;
        Ok(())
    }

    /// Runs the block, whose code resizes: writes the taps and weights of its rows and columns.
    fn resize_bilinear(
        &self,
        memory: &mut WorkerScratch,
        view: ImageView<'_>,
        motion: &GeometryStep,
        wanted: Rect,
    ) -> Result<(), NoMemory> {
        let (from, to) = (view.size(), geometry_step::output(motion, view.size()));
        let [down, across] = match *motion {
            GeometryStep::ResizePart { part: [rows, columns], .. } => [
                AxisPart { pixels: from.height, part: rows },
                AxisPart { pixels: from.width, part: columns },
            ],
            _ => [from.height.into(), from.width.into()],
        };
        // Above 4 taps there is code for even numbers only; a source this much taller has enough rows
        // for it.
        let group = if to.height > 2 && from.height > 2 * to.height { 2 } else { 1 };
        memory.rows.set(down, to.height, wanted.top..wanted.bottom, group, 1);
        assert!(memory.rows.count() <= from.height as usize, "taps would leave the source");
        // Four rows of one channel are made together, as if they were channels.
        let channels = self.block.channels;
        let together = if channels == 1 { GRAY_ROWS } else { channels };
        let columns = wanted.left..wanted.right;
        memory.columns.set(across, to.width, columns, 2, 2 * together as i32);
        memory.columns.pad_to((wanted.size().width as usize).next_multiple_of(4));
        let pairs = memory.columns.weights().as_chunks::<2>().0.iter();
        memory.column_pairs.clear();
        memory.column_pairs.extend(pairs.map(|&[a, b]| [a, b, a, b, a, b, a, b]));
        let widest = (from.width as usize).max(memory.columns.count());
        memory::resize(&mut memory.wide, together * widest + SLACK, "a wide row")?;
        if channels == 1 {
            memory.rows.pad_to(memory.rows.first().len().next_multiple_of(GRAY_ROWS));
            let row = memory.columns.first().len().next_multiple_of(16) + 2 * from.width as usize;
            memory::resize(&mut memory.gray_rows, GRAY_GROUP + GRAY_ROWS * row, "gray rows")?;
            memory.gray_rows[..8].copy_from_slice(&(-1_i64).to_ne_bytes());
            let gray_rows = memory.gray_rows.as_mut_ptr() as u64;
            set(&mut memory.record, HeaderWord::GrayRows, gray_rows);
        }
        let words = [
            (HeaderWord::Source, view.data().as_ptr() as u64),
            (HeaderWord::Stride, view.stride() as u64),
            (HeaderWord::LastVector, channels as u64 * u64::from(from.width) - 16),
            (HeaderWord::RowFirst, memory.rows.first().as_ptr() as u64),
            (HeaderWord::RowWeights, memory.rows.weights().as_ptr() as u64),
            (HeaderWord::RowTaps, memory.rows.count() as u64),
            (HeaderWord::ColumnFirst, memory.columns.first().as_ptr() as u64),
            (HeaderWord::ColumnWeights, memory.column_pairs.as_ptr() as u64),
            (HeaderWord::ColumnPairs, (memory.columns.count() / 2) as u64),
            (HeaderWord::Columns, memory.columns.first().len() as u64),
            (HeaderWord::Wide, memory.wide.as_mut_ptr() as u64),
        ];
        for (word, value) in words {
            set(&mut memory.record, word, value);
        }
        self.call(memory, view.data().as_ptr_range(), None);
        Ok(())
    }

    /// Runs the block with a row function that produces its rows.
    fn call_row_producer(
        &self,
        memory: &mut WorkerScratch,
        view: ImageView<'_>,
        motion: &GeometryStep,
        wanted: Rect,
    ) -> Result<(), NoMemory> {
        let to = geometry_step::output(motion, view.size());
        let inside = |column: i64| column.clamp(0, i64::from(to.width)) as u32;
        let columns = inside(wanted.left)..inside(wanted.right);
        let format = self.block.source_format();
        let lead = (i64::from(columns.start) - wanted.left) as usize * format.pixel_bytes();
        let lead = if columns.is_empty() { 0 } else { lead };
        let bytes = columns.len() * format.pixel_bytes();
        let window = ProducedWindow { height: to.height, top: wanted.top, lead, bytes };
        match geometry_step::row_filter(motion) {
            _ if !format.is_bytes() => {
                let mut scratch = std::mem::take(&mut memory.floats);
                let rows = scratch.rows(motion, view, columns)?;
                self.call_with(memory, window, RowFunctionKind::Floats(rows));
                memory.floats = scratch;
            }
            Some(filter) => {
                let mut scratch = std::mem::take(&mut memory.filter);
                let rows = filter.rows(view, columns, &mut scratch)?;
                self.call_with(memory, window, RowFunctionKind::Filter(rows));
                memory.filter = scratch;
            }
            None => {
                let tables = memory.area_tables.take();
                let mut tables = tables
                    .unwrap_or_else(|| AreaTables::new(view.size(), to).expect("no side is 0"));
                tables.rebuild(view.size(), to).expect("no side is 0");
                let mut scratch = std::mem::take(&mut memory.area);
                let rows = AreaRows::new(&tables, view, columns, &mut scratch);
                let rows = rows.expect("the tables are of this size, the columns cut to it");
                self.call_with(memory, window, RowFunctionKind::Area(rows));
                memory.area = scratch;
                memory.area_tables = Some(tables);
            }
        }
        Ok(())
    }

    /// Runs the block, whose rows `maker` produces.
    fn call_with(
        &self,
        memory: &mut WorkerScratch,
        window: ProducedWindow,
        maker: RowFunctionKind<'_>,
    ) {
        let mut state = RowFunctionState { maker, window, panic: None };
        let at = std::ptr::from_mut(&mut state) as u64;
        set(&mut memory.record, HeaderWord::Maker, at);
        let row = (window.lead + window.bytes) as u64;
        self.call(memory, [].as_ptr_range(), Some((at, row)));
        if let Some(panic) = state.panic.take() {
            resume_unwind(panic);
        }
    }
}
