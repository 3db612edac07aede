//! The memory that a call may read or write, for runners that check every access.

use super::{Invocation, WorkerScratch, bytes, chunk};
use crate::jit::call::{BodyRunner, MemoryRegion};
use crate::jit::param_block::HeaderWord;
use crate::jit::shuffle_tables::shuffles_for;
use fuseloop_ops::author::Layout;
use std::ops::Range;

impl<R: BodyRunner> Invocation<'_, R> {
    /// Returns the slices that the parameter block's addresses point into.
    pub(super) fn regions(
        &self,
        memory: &mut WorkerScratch,
        pixels: Range<*const u8>,
    ) -> Vec<MemoryRegion> {
        let is_planar = self.block.layout == Layout::ChannelsFirst;
        let planes = if is_planar { self.stored_channels() as u64 } else { 1 };
        let [out, apart] =
            [HeaderWord::Out, HeaderWord::Plane].map(|word| memory.record.get(8 * word as i32));
        let output = (0..planes).map(|plane| MemoryRegion {
            name: "output",
            address: out + plane * apart,
            bytes: self.output_bytes() as u64 / planes,
            writable: true,
        });
        let (address, end) = (pixels.start as u64, pixels.end as u64);
        let mut regions = vec![
            MemoryRegion { name: "pixels", address, bytes: end - address, writable: false },
            MemoryRegion::write(chunk::RECORD, memory.record.words()),
            MemoryRegion::read("constants", &self.compiled.constants),
            MemoryRegion::read("shuffles", shuffles_for(self.block.source_format(), false)),
            MemoryRegion::read("shuffles", shuffles_for(self.block.source_format(), true)),
            MemoryRegion::read("rows' taps", memory.rows.first()),
            MemoryRegion::read("rows' weights", memory.rows.weights()),
            MemoryRegion::read("columns' taps", memory.columns.first()),
            MemoryRegion::read("columns' weights", &memory.column_pairs),
            MemoryRegion::write("wide row", &mut memory.wide),
            MemoryRegion::write("gray rows", &mut memory.gray_rows),
            MemoryRegion::write("made rows", &mut memory.resized),
            MemoryRegion::write("row of floats", &mut memory.float_row),
            MemoryRegion::write("row of bytes", &mut memory.byte_row),
            MemoryRegion::read("tables", &memory.tables),
            MemoryRegion::read("masks", &memory.masks),
            MemoryRegion::read("levels", bytes::levels(self.block.channels)),
        ];
        let fixed = self.body.fixed.iter().filter(|(leaf, _)| self.body.leaves.contains(leaf));
        regions.extend(output);
        regions.extend(fixed.map(|(_, table)| MemoryRegion::read("fixed table", table.as_slice())));
        regions
    }
}
