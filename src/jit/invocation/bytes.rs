//! Images of bytes whose ops change each byte by itself: the ops become a table of 256 bytes for each channel.
//!
//! ```text
//! 256 pixels, one of each level ──[the compiled loop]──▶ tables ──▶ [map_rows] over the image
//! ```
//!
//! The loop that is compiled for the image runs on the levels instead, after the reductions over the image. So the
//! tables have its bits, whatever the ops are, and no op needs a second form for bytes. Rows are then copied, inverted
//! or looked up 32 or 64 bytes at a time, without conversions to `f32`. Rectangles that the last ops paint are painted
//! afterwards.

use super::{Base, Invocation, NotRun, WorkerScratch};
use crate::jit::body::BodySpec;
use crate::jit::call::BodyRunner;
use crate::jit::frame::paint;
use crate::jit::image_out::ImageOut;
use crate::jit::settings::settings;
use crate::jit::vector_bits::VectorBits;
use crate::plan::FusedOp;
use crate::plan::compose::{Composed, PassMap, Rect};
use fuseloop_kernels::bytes::{ByteMap, ByteRows, has_tables, map_rows};
use fuseloop_ops::author::Layout;
use fuseloop_ops::internals::{MAX_CHANNELS, channel_of, memory, to_u8};
use fuseloop_ops::{DType, Size};

/// The levels of a byte.
const LEVELS: usize = 256;

/// The fewest pixels of an image that make computing tables worthwhile, with and without look-ups in registers.
const FEWEST: [u64; 2] = [4_096, 16_384];

/// The pixels of all levels, by the number of channels.
static PIXELS: [[u8; LEVELS * MAX_CHANNELS]; MAX_CHANNELS] =
    [pixels(1), pixels(2), pixels(3), pixels(4)];

const fn pixels(channels: usize) -> [u8; LEVELS * MAX_CHANNELS] {
    let mut bytes = [0; LEVELS * MAX_CHANNELS];
    let mut i = 0;
    while i < LEVELS * channels {
        bytes[i] = (i / channels) as u8;
        i += 1;
    }
    bytes
}

/// Returns the pixels of all levels.
pub(super) fn levels(channels: usize) -> &'static [u8] {
    &PIXELS[channels - 1][..LEVELS * channels]
}

/// A list of fused ops that is a map of each byte.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ByteLinks {
    /// The number of fused ops that are a map. All after them paint rectangles.
    mapped: usize,
    /// True if tables are looked up in registers of 512 bits.
    is_wide: bool,
    /// The fewest pixels of an image for which the map is computed.
    fewest: u64,
}

impl ByteLinks {
    /// Returns `None` if the fused ops are no map of bytes.
    pub(crate) fn of(spec: BodySpec<'_>) -> Option<Self> {
        let BodySpec { block, links, leaves, .. } = spec;
        let is_packed = block.layout != Layout::ChannelsFirst || block.channels == 1;
        if [block.source, block.dtype] != [DType::U8; 2] || !is_packed {
            return None;
        }
        let is_paint = |link: &FusedOp| matches!(link, FusedOp::Paint { .. });
        let mapped = links.iter().position(is_paint).unwrap_or(links.len());
        let (maps, paints) = links.split_at(mapped);
        let is_map = |link: &FusedOp| match *link {
            FusedOp::Value { leaf, part, map: None, .. } => {
                let kind = leaves[leaf].kind.pixel(part);
                kind.is_some_and(|kind| kind.program.is_per_channel(block.channels))
            }
            FusedOp::Table { .. } | FusedOp::Round => true,
            _ => false,
        };
        let looks_up = maps.iter().any(|link| matches!(link, FusedOp::Table { .. }));
        let is_wide = has_tables() && spec.bits == VectorBits::V512;
        let of_cpu = FEWEST[usize::from(!is_wide)];
        let fewest = settings().byte_maps_from.unwrap_or(of_cpu);
        // Without look-ups in registers, only maps without tables are worthwhile, which these are not.
        let needs_tables = looks_up || spec.readings().next().is_some();
        let are_so = maps.iter().all(is_map) && paints.iter().all(is_paint);
        (are_so && (is_wide || !needs_tables)).then_some(Self { mapped, is_wide, fewest })
    }

    /// Returns the fewest pixels of an image for which the loop is not run.
    pub(crate) fn fewest(self) -> u64 {
        if self.mapped == 0 { 0 } else { self.fewest }
    }
}

impl<R: BodyRunner> Invocation<'_, R> {
    /// Writes `out` without a loop over the image's values, and returns true; false if a loop is needed or is faster.
    pub(super) fn run_bytes(
        &self,
        memory: &mut WorkerScratch,
        out: &mut ImageOut<'_>,
    ) -> Result<bool, NotRun> {
        let Some(ByteLinks { mapped, is_wide, fewest }) = self.compiled.byte_links else {
            return Ok(false);
        };
        if self.composed.resampled.is_some() {
            return Ok(false);
        }
        let map = if mapped == 0 {
            ByteMap::IDENTITY
        } else {
            let is_small = self.composed.output.pixels() < fewest;
            if is_small || self.has_reductions() && self.is_too_narrow() {
                return Ok(false);
            }
            self.run_levels(memory)?;
            memory.byte_map.set(&memory.levels, self.block.channels);
            if !memory.byte_map.is_simple() && !is_wide {
                return Ok(false);
            }
            &memory.byte_map
        };
        let (out, _) = out.reborrow().parts(1, self.output_bytes());
        self.map_image(map, is_wide, out);
        for link in &self.body.links[mapped..] {
            if let FusedOp::Paint { region } = *link {
                self.paint_region(region, out);
            }
        }
        Ok(true)
    }

    /// Runs the compiled code, whose last pass goes over pixels of all levels in place of the image. They are stored in
    /// `memory.levels`.
    fn run_levels(&self, memory: &mut WorkerScratch) -> Result<(), NotRun> {
        let size = Size::new(1, LEVELS as u32);
        let all = Rect::of(size);
        // Nothing is painted over the levels.
        let outside = self.block.regions.iter().enumerate().filter(|(_, region)| region.outside);
        let mut composed = std::mem::take(&mut memory.of_levels);
        composed.stored.set(&PassMap::new(size));
        composed.stored.regions.extend(outside.map(|(number, _)| (number, all)));
        composed.reductions.resize_with(self.composed.reductions.len(), PassMap::default);
        composed
            .reductions
            .iter_mut()
            .zip(&self.composed.reductions)
            .for_each(|(to, of)| to.set(of));
        (composed.frame, composed.output) = (self.composed.frame, size);
        let levels = Invocation { composed: &composed, ..*self };
        let mut out = std::mem::take(&mut memory.levels);
        memory::resize(&mut out, levels.output_bytes(), "a table of bytes")?;
        memory.record.reset(self.compiled.layout);
        levels.set_all(memory, (&mut out[..]).into())?;
        let reductions = &levels.composed.reductions;
        let pixels = self::levels(self.block.channels);
        let of_levels = Base { pixels, stride: pixels.len(), rect: all };
        let mut shown = all;
        let mut base = of_levels;
        let reads = reductions.iter().map(PassMap::reads);
        if let Some(wanted) = reads.reduce(|all, own| all.union(&own)) {
            (base, shown) = levels.base(&mut memory.framed, wanted, reductions.iter())?;
        }
        let passes = || {
            let first = [(&levels.composed.stored, all)].into_iter();
            first.chain(reductions.iter().map(|pass| (pass, shown)))
        };
        levels.set_masks(&mut memory.record, &mut memory.masks, passes())?;
        for (index, pass) in passes().enumerate() {
            let base = if index == 0 { of_levels } else { base };
            levels.set_pass(&mut memory.record, index, pass, base, base.stride as i64);
        }
        let pixels = base.pixels.as_ptr_range();
        levels.call(memory, pixels, None);
        memory.levels = out;
        memory.of_levels = composed;
        Ok(())
    }

    /// Writes the image, of whose bytes each becomes what `map` says.
    fn map_image(&self, map: &ByteMap, wide: bool, out: &mut [u8]) {
        let (Composed { stored, frame, .. }, shown) = (self.composed, self.shown());
        let (Size { height, width }, channels) = (stored.size, self.block.channels);
        let rows = stored.rows.taken_from(shown.top..shown.bottom, height);
        let columns = stored.columns.taken_from(shown.left..shown.right, width);
        let bytes = width as usize * channels;
        let [top, bottom] = [rows.start, rows.end].map(|row| row as usize * bytes);
        let [left, right] = [columns.start, columns.end].map(|column| column as usize * channels);
        if !shown.contains(&stored.reads()) {
            let fill = frame.map_or([0; 3], |(_, fill)| fill);
            let fill: [u8; MAX_CHANNELS] = std::array::from_fn(|c| map.of(channel_of(fill, c), c));
            let fill = &fill[..channels];
            paint(&mut out[..top], fill);
            paint(&mut out[bottom..], fill);
            for row in out[top..bottom].chunks_exact_mut(bytes.max(1)) {
                paint(&mut row[..left], fill);
                paint(&mut row[right..], fill);
            }
        }
        if rows.is_empty() || columns.is_empty() {
            return;
        }
        let view = self.source.view;
        let row = stored.rows.sign * rows.start + stored.rows.offset - i64::from(self.source.top);
        let mirrored = stored.columns.sign == -1;
        let column = if mirrored {
            stored.columns.offset - (columns.end - 1)
        } else {
            stored.columns.offset + columns.start
        };
        let column = column - i64::from(self.source.left);
        let stride = view.stride();
        let from = ByteRows {
            pixels: view.data(),
            first: row as usize * stride + column as usize * channels,
            step: stored.rows.sign as isize * stride as isize,
            bytes: right - left,
            channels,
            mirrored,
            wide,
        };
        map_rows(map, from, rows.count(), (&mut out[top + left..], bytes));
    }

    /// Paints a rectangle of the output, or all but the rectangle.
    fn paint_region(&self, region: usize, out: &mut [u8]) {
        let (stored, painted) = (&self.composed.stored, &self.block.regions[region]);
        let (Size { height, width }, channels) = (stored.size, self.block.channels);
        let drawn = stored.regions.iter().rev().find(|(number, _)| *number == region);
        let rect = drawn.map_or(Rect::of(Size::new(0, 0)), |(_, rect)| *rect);
        let inside = |at: i64, len: u32| at.clamp(0, i64::from(len)) as usize;
        let (top, bottom) = (inside(rect.top, height), inside(rect.bottom, height));
        let (left, right) = (inside(rect.left, width), inside(rect.right, width));
        let (left, right) = (left * channels, right.max(left) * channels);
        let fill: [u8; MAX_CHANNELS] = std::array::from_fn(|c| to_u8(channel_of(painted.fill, c)));
        let fill = &fill[..channels];
        let rows = out.chunks_exact_mut((width as usize * channels).max(1));
        for (y, row) in rows.enumerate() {
            match ((top..bottom).contains(&y), painted.outside) {
                (true, false) => paint(&mut row[left..right], fill),
                (true, true) => {
                    paint(&mut row[..left], fill);
                    paint(&mut row[right..], fill);
                }
                (false, true) => paint(row, fill),
                (false, false) => {}
            }
        }
    }
}
