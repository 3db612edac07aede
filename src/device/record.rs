//! The record of a sample: what was drawn for it, as words that a kernel reads after its pixels.
//!
//! ```text
//! for each pass:            row sign, row offset, column sign, column offset   map to the source's pixels
//!                           rows, columns                                      0 if the pass is skipped
//!   for each rectangle:     x0, x1, y0, y1                                     the painted pixels
//!   for each op with a map: row sign, row offset, column sign, column offset   map to the op's coordinates
//! for each 32 op groups:    one bit per group                                  1 if the group runs
//! for each shuffled group:  its order, 4 bits per op
//! op parameters
//! for each mixing op:       kind, partner, own and partner's weight as f32,
//!                           x0, x1, y0, y1, the same weights as f64
//! tables, 3 x 256 f32 each
//! ```
//!
//! Pass 0 computes what is stored; each reduction (a mean) is a pass of its own that runs before pass 0.

use crate::plan::block::{FusedOp, OpGroup, Reduction, nth_order, pixel_op, reduction};
use crate::plan::compose::{Composed, PassMap};
use crate::plan::{Block, Draws, ImagePlan};
use fuseloop_ops::Size;
use fuseloop_ops::author::{LevelTable, RowMix, Statistic, Window};
use fuseloop_ops::internals::RGB;

/// The words of a mixing op.
pub(super) const MIX_WORDS: usize = 12;

/// How a row is mixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MixKind {
    /// The row is not mixed.
    Kept = 0,
    /// All values are blended with the partner's, by weight.
    Shares = 1,
    /// A rectangle is taken from the partner.
    Window = 2,
}

/// The layout of a record, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DeviceRecordLayout {
    regions: usize,
    maps: usize,
    passes: usize,
    steps: usize,
    shuffled: usize,
    param_count: usize,
    mixers: usize,
    tables: usize,
}

impl DeviceRecordLayout {
    pub(super) fn new(block: &Block, readings: usize, mixers: usize) -> Self {
        Self {
            regions: block.regions.len(),
            maps: block.position_ops.len(),
            passes: 1 + readings,
            steps: block.groups.len(),
            shuffled: block.groups.iter().filter(|step| step.fused_ops.len() > 1).count(),
            param_count: block.params.len(),
            mixers,
            tables: block.tables,
        }
    }

    fn pass_words(&self) -> usize {
        6 + 4 * (self.regions + self.maps)
    }

    /// Returns the offset of the map of a pass.
    pub(super) fn pass(&self, pass: usize) -> usize {
        pass * self.pass_words()
    }

    /// Returns the offset of the rows and columns of a pass.
    pub(super) fn size(&self, pass: usize) -> usize {
        self.pass(pass) + 4
    }

    /// Returns the offset of a rectangle of a pass.
    pub(super) fn region(&self, pass: usize, region: usize) -> usize {
        self.pass(pass) + 6 + 4 * region
    }

    /// Returns the offset of the map of an op in a pass.
    pub(super) fn map(&self, pass: usize, map: usize) -> usize {
        self.region(pass, self.regions + map)
    }

    /// Returns the offset of the word whose bits say whether `step` runs.
    pub(super) fn active(&self, step: usize) -> usize {
        self.pass(self.passes) + step / 32
    }

    /// Returns the offset of the order of shuffled op group number `shuffled`.
    pub(super) fn order(&self, shuffled: usize) -> usize {
        self.pass(self.passes) + self.steps.div_ceil(32) + shuffled
    }

    /// Returns the offset of the block's op parameter number `param`.
    pub(super) fn param(&self, param: usize) -> usize {
        self.order(self.shuffled) + param
    }

    /// Returns the offset of mixing op number `mixer`, a multiple of 2 words.
    pub(super) fn mix(&self, mixer: usize) -> usize {
        self.param(self.param_count).next_multiple_of(2) + MIX_WORDS * mixer
    }

    /// Returns the offset of a table.
    pub(super) fn table(&self, table: usize) -> usize {
        self.mix(self.mixers) + 3 * 256 * table
    }

    /// Returns the number of words of a record, a multiple of 4.
    pub(super) fn words(&self) -> usize {
        self.table(self.tables).next_multiple_of(4)
    }
}

/// A mean that an op needs of the whole image first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Needed {
    /// The flat op that needs the mean.
    pub(super) leaf: usize,
    /// The index of the op within a shuffled op.
    pub(super) part: Option<usize>,
    /// The op parameter of the plan that the mean is stored in.
    pub(super) param: usize,
}

/// Returns the means that the ops of a block need, in the order of the ops; `Err` with the flat op if
/// one needs its levels counted or a statistic that no kernel computes.
pub(super) fn needed(plan: &ImagePlan, block: &Block) -> Result<Vec<Needed>, usize> {
    let links =
        block.groups.iter().flat_map(|step| step.fused_ops.iter().map(move |link| (step, *link)));
    let of_link = |(step, link): (&OpGroup, FusedOp)| match reduction(plan.flat_ops(), link)? {
        Reduction::Statistic { statistic: Statistic::GreyMean, part, param, .. } => {
            Some(Ok(Needed { leaf: step.flat_ops[0], part, param }))
        }
        Reduction::Statistic { statistic: Statistic::RootMeanSquare, .. }
        | Reduction::Levels { .. } => Some(Err(step.flat_ops[0])),
    };
    links.filter_map(of_link).collect()
}

/// The largest offset of a map from an image's first row or column. A pixel outside an image has the
/// value of its nearest pixel inside, so a larger offset means the same as this one, and kernels can add
/// a row or a column to it in 32 bits.
const FARTHEST: i64 = 1 << 30;

/// The words of one record while it is written.
pub(super) struct Words<'a>(pub(super) &'a mut [[u8; 4]]);

impl Words<'_> {
    fn set(&mut self, at: usize, word: u32) {
        self.0[at] = word.to_le_bytes();
    }

    fn set_all(&mut self, at: usize, words: impl IntoIterator<Item = i64>) {
        for (k, word) in words.into_iter().enumerate() {
            self.set(at + k, word.clamp(i32::MIN.into(), i32::MAX.into()) as i32 as u32);
        }
    }

    /// Writes everything that is drawn for a single sample. No row is mixed until [`mix`](Self::mix) is
    /// called.
    pub(super) fn write(
        &mut self,
        plan: &ImagePlan,
        block: &Block,
        layout: &DeviceRecordLayout,
        means: &[Needed],
        draws: &Draws,
        staged: Size,
    ) {
        self.0.fill([0; 4]);
        let active = |means: &&Needed| draws.active[means.leaf];
        let leaves: Vec<usize> = means.iter().filter(active).map(|mean| mean.leaf).collect();
        let mut composed = Composed::default();
        composed.set(block, draws, &leaves.into_iter(), staged);
        let mut passes = composed.passes();
        self.pass(layout, 0, passes.next(), true);
        for (k, mean) in means.iter().enumerate() {
            let pass = if active(&mean) { passes.next() } else { None };
            self.pass(layout, 1 + k, pass, changes_something(plan, mean, draws));
        }
        self.steps(plan, block, layout, draws);
        for (k, param) in draws.params[block.params.clone()].iter().enumerate() {
            self.set(layout.param(k), param.to_bits());
        }
    }

    /// Writes one pass; a skipped pass is all zeros.
    fn pass(
        &mut self,
        layout: &DeviceRecordLayout,
        number: usize,
        pass: Option<&PassMap>,
        runs: bool,
    ) {
        let Some(pass) = pass.filter(|_| runs) else { return };
        let PassMap { rows, columns, size, .. } = pass;
        let near = |offset: i64| offset.clamp(-FARTHEST, FARTHEST);
        let numbers = [rows.sign, near(rows.offset), columns.sign, near(columns.offset)];
        let size = [i64::from(size.height), i64::from(size.width)];
        self.set_all(layout.pass(number), numbers.into_iter().chain(size));
        for (region, r) in &pass.regions {
            self.set_all(layout.region(number, *region), [r.left, r.right, r.top, r.bottom]);
        }
        for (map, [rows, columns]) in &pass.maps {
            let numbers = [rows.sign, rows.offset, columns.sign, columns.offset];
            self.set_all(layout.map(number, *map), numbers);
        }
    }

    /// Writes which op groups run, their orders, and their tables.
    fn steps(
        &mut self,
        plan: &ImagePlan,
        block: &Block,
        layout: &DeviceRecordLayout,
        draws: &Draws,
    ) {
        let runs = |step: &OpGroup| draws.active[step.flat_ops[0]];
        for (k, steps) in block.groups.chunks(32).enumerate() {
            let bit = |bits, step| bits << 1 | u32::from(runs(step));
            self.set(layout.active(32 * k), steps.iter().rev().fold(0, bit));
        }
        let mut shuffled = 0;
        for step in &block.groups {
            let leaf = step.flat_ops[0];
            if step.fused_ops.len() > 1 {
                let order = draws.orders.iter().find(|(of, _)| *of == leaf);
                let order = order.map_or(0, |(_, order)| *order);
                let parts = nth_order(step.fused_ops.len(), order).zip(0..);
                let packed = parts.fold(0, |word, (part, at)| word | (part as u32) << (4 * at));
                self.set(layout.order(shuffled), packed);
                shuffled += 1;
            }
            if let (FusedOp::Table { table, .. }, true) = (step.fused_ops[0], runs(step)) {
                let mut values: Vec<LevelTable> = vec![[0.0; 256]; RGB];
                plan.table(&step.flat_ops, draws, &[[0; 256]; RGB], &mut values);
                for (i, value) in values.iter().flatten().enumerate() {
                    self.set(layout.table(table) + i, value.to_bits());
                }
            }
        }
    }

    /// Writes how row number `row` is mixed, at word `at`.
    pub(super) fn mix(&mut self, at: usize, row: usize, mixed: &RowMix) {
        let RowMix { partner, share, window } = *mixed;
        let how = match window {
            _ if share == 1.0 || partner == row => MixKind::Kept,
            Some(_) => MixKind::Window,
            None => MixKind::Shares,
        };
        let Window { top, left, height, width } =
            window.unwrap_or(Window { top: 0, left: 0, height: 0, width: 0 });
        let rest = 1.0 - share;
        let words = [how as u32, partner as u32, (share as f32).to_bits(), (rest as f32).to_bits()];
        let window = [left, left + width, top, top + height];
        let doubles = [share, rest].map(f64::to_bits);
        let doubles = doubles.iter().flat_map(|bits| [*bits as u32, (*bits >> 32) as u32]);
        for (k, word) in words.into_iter().chain(window).chain(doubles).enumerate() {
            self.set(at + k, word);
        }
    }
}

/// Returns true if a mean changes anything for these draws.
fn changes_something(plan: &ImagePlan, mean: &Needed, draws: &Draws) -> bool {
    let op = pixel_op(plan.flat_ops(), mean.leaf, mean.part);
    op.zip(plan.flat_ops()[mean.leaf].kind.pixel(mean.part)).is_some_and(|(op, kind)| {
        !op.is_identity(&draws.params[mean.param + 1 - kind.param_count..=mean.param])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_record_lie_behind_each_other() {
        let layout = DeviceRecordLayout {
            regions: 2,
            maps: 1,
            passes: 3,
            steps: 33,
            shuffled: 1,
            param_count: 5,
            mixers: 2,
            tables: 1,
        };
        assert_eq!([layout.pass(1), layout.size(1)], [18, 22]);
        assert_eq!([layout.region(1, 1), layout.map(1, 0), layout.pass(2)], [28, 32, 36]);
        assert_eq!([layout.active(0), layout.active(32), layout.order(0)], [54, 55, 56]);
        assert_eq!([layout.param(0), layout.param(4), layout.mix(0)], [57, 61, 62]);
        assert_eq!([layout.mix(1), layout.table(0), layout.words()], [74, 86, 856]);
    }

    /// A user's op may draw any offset: a sum that wrapped would make a kernel read outside the image.
    #[test]
    fn a_map_leads_no_farther_than_32_bits_hold_with_a_column() {
        let layout = DeviceRecordLayout {
            regions: 0,
            maps: 0,
            passes: 1,
            steps: 0,
            shuffled: 0,
            param_count: 0,
            mixers: 0,
            tables: 0,
        };
        let mut words = vec![[0; 4]; layout.words()];
        for (offset, found) in [(7, 7), (i64::from(i32::MAX), FARTHEST), (i64::MIN, -FARTHEST)] {
            let axis = crate::plan::compose::AxisMap { sign: 1, offset };
            let size = Size::new(8, 8);
            let pass = PassMap { rows: axis, columns: axis, size, regions: vec![], maps: vec![] };
            Words(&mut words).pass(&layout, 0, Some(&pass), true);
            let written = [1, 3].map(|k| i64::from(i32::from_le_bytes(words[k])));
            assert_eq!(written, [found; 2], "{offset}");
        }
    }

    #[test]
    fn a_row_that_keeps_its_own_is_not_mixed() {
        let mut words = [[0; 4]; MIX_WORDS];
        let mut written = |row, share, window| {
            Words(&mut words).mix(0, row, &RowMix { partner: 3, share, window });
            words.map(u32::from_le_bytes)
        };
        assert_eq!(written(1, 1.0, None)[0], MixKind::Kept as u32);
        assert_eq!(written(3, 0.5, None)[0], MixKind::Kept as u32);
        let half = 0.5f32.to_bits();
        assert_eq!(written(1, 0.5, None)[..4], [MixKind::Shares as u32, 3, half, half]);
        let window = Window { top: 1, left: 2, height: 3, width: 4 };
        let with_window = written(1, 0.75, Some(window));
        assert_eq!(with_window[0], MixKind::Window as u32);
        assert_eq!(with_window[4..8], [2, 6, 1, 4]);
        assert_eq!(with_window[8..10], [0, (0.75f64.to_bits() >> 32) as u32]);
    }
}
