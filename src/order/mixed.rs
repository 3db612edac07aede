//! Mixture: samples of several components by weights that may change with time.
//!
//! ```text
//! epoch       |  block 0  |  block 1  |  block 2  | ...      blocks end where weights change, too
//! counts      weight / sum of weights * block, rounded; what rounding adds or takes is made up in the next block
//! component   pass 0: each of its samples, shuffled; pass 1: again, in another order; ...
//! block       the components of its rows, shuffled; each row is the next sample of its component
//! ```
//!
//! | | |
//! |---|---|
//! | input | the component of each sample, weights for each component |
//! | output | rows of the components in the shares of their weights, exact to one row in each block |
//! | random | seed and epoch: the order in a pass and in a block. The counts are not random |
//! | cost | 8 bytes a sample held at most; a few tens of ns a sample |
//!
//! The counts of all blocks follow from the weights alone, so the length of an epoch is known, and the number of rows of
//! each component up to any position is found without those before it. An epoch has at most some 4,096 blocks.
//!
//! A change after a checkpoint may cut a block: the rows before it stay, so it is random how many of them are of each
//! component, and the shares are exact from the change on.

use super::bucketed::Steps;
use super::groups::Groups;
use super::memory::reserved;
use super::mixture::{DataMixture, Point, Schedule, Stopping, Time, Weights};
use super::permuted::Permutation;
use super::random::{exp, generator, ln, shuffle};
use crate::amounts::counted;
use crate::error::{Error, fail};
use crate::sample::Epoch;
use crate::source::Fingerprint;

pub(super) const NAME: &str = "mixture";

/// The fewest rows of a block, unless weights change.
const BLOCK: u64 = 64;

/// The most blocks of an epoch, without those that end where weights change.
const BLOCKS: u64 = 4096;

/// The rows of each component, and the weights at all times.
#[derive(Debug)]
pub(super) struct Mixed {
    rows: Groups,
    /// The number of rows of each component, and the index of its first one.
    sizes: Vec<u64>,
    firsts: Vec<u64>,
    stopping: Stopping,
    schedules: Vec<KnownSchedule>,
    /// The rows of an epoch.
    len: u64,
    /// The rows of a block.
    block: u64,
}

/// Weights with their times as rows of all epochs, from the row `from` on.
#[derive(Debug)]
struct KnownSchedule {
    from: u64,
    points: Vec<(u64, Vec<f64>)>,
    is_linear: bool,
}

impl Mixed {
    /// Prepares a mixture of rows, whose components are known, for epochs in these steps.
    pub(super) fn new(
        mixture: &DataMixture,
        components: &[u32],
        count: usize,
        steps: Steps,
    ) -> Result<Self, Error> {
        let mut sizes: Vec<u64> = reserved(count as u64)?;
        sizes.resize(count, 0);
        components.iter().for_each(|&component| sizes[component as usize] += 1);
        let firsts = sizes.iter().scan(0, |end, size| {
            let first = *end;
            *end += size;
            Some(first)
        });
        let mut mixed = Self {
            firsts: firsts.collect(),
            rows: Groups::by(components)?,
            sizes,
            stopping: mixture.stopping,
            schedules: vec![],
            len: 0,
            block: BLOCK,
        };
        mixed.set_length(mixture)?;
        mixed.schedules = mixed.known(mixture, steps)?;
        Ok(mixed)
    }

    /// Computes the number of rows of an epoch, from the weights at the beginning.
    fn set_length(&mut self, mixture: &DataMixture) -> Result<(), Error> {
        let all: u64 = self.sizes.iter().sum();
        let weights = self.shares(&mixture.schedule.points[0].weights)?;
        let ends_by_counts =
            matches!(self.stopping, Stopping::FirstExhausted | Stopping::AllExhausted);
        if ends_by_counts && mixture.varies() {
            return Err(fail!(
                Parameter,
                "order mixture: weights that change make epochs of different lengths, if an epoch ends when components \
                 are exhausted: give a number of samples, or let each sample come once"
            ));
        }
        // The rows after which each component is exhausted.
        let ends = || {
            let weighed = self.sizes.iter().zip(&weights).filter(|(_, share)| **share > 0.0);
            weighed.map(|(&size, share)| size as f64 / share)
        };
        let about = match self.stopping {
            Stopping::DatasetSize => all as f64,
            Stopping::AllExhaustedWithoutReplacement => {
                let weighed = self.sizes.iter().zip(&weights).filter(|(_, share)| **share > 0.0);
                weighed.map(|(&size, _)| size).sum::<u64>() as f64
            }
            Stopping::Samples(0) => {
                return Err(fail!(Parameter, "order mixture: samples is 0, it must be at least 1"));
            }
            Stopping::Samples(samples) => samples as f64,
            Stopping::FirstExhausted => ends().fold(f64::INFINITY, f64::min),
            Stopping::AllExhausted => ends().fold(0.0, f64::max),
        };
        let most = u64::from(u32::MAX);
        if about > most as f64 {
            return Err(fail!(
                Memory,
                "order mixture: an epoch of {about:.0} samples; the limit is {most}: give a number of samples"
            ));
        }
        let about = about as u64;
        self.block = about.div_ceil(BLOCKS).max(BLOCK);
        let weighed = |taken: &[u64]| -> Vec<(u64, u64)> {
            let counts = taken.iter().copied().zip(self.sizes.iter().copied());
            counts.zip(&weights).filter(|(_, share)| **share > 0.0).map(|(pair, _)| pair).collect()
        };
        self.len = match self.stopping {
            Stopping::FirstExhausted => self
                .until(&weights, |taken| weighed(taken).iter().any(|(taken, size)| taken > size)),
            Stopping::AllExhausted => {
                let is_end =
                    |taken: &[u64]| weighed(taken).iter().all(|(taken, size)| taken >= size);
                self.until(&weights, is_end) + 1
            }
            _ => about,
        };
        Ok(())
    }

    /// Returns the last position at which an epoch of these weights does not end yet, by the number of rows of each
    /// component up to there.
    fn until(&self, weights: &[f64], ends: impl Fn(&[u64]) -> bool) -> u64 {
        let mut taken = vec![0; self.sizes.len()];
        let mut owed = vec![0.0; self.sizes.len()];
        let mut position = 0;
        loop {
            let after = |len: u64| {
                let mut owed = owed.clone();
                let counts = apportioned(weights, len, &mut owed);
                let sums: Vec<u64> = taken.iter().zip(counts).map(|(a, b)| a + b).collect();
                (ends(&sums), sums, owed)
            };
            let (is_end, sums, still_owed) = after(self.block);
            if is_end {
                let (mut low, mut high) = (0, self.block);
                while high - low > 1 {
                    let middle = low + (high - low) / 2;
                    if after(middle).0 {
                        high = middle;
                    } else {
                        low = middle;
                    }
                }
                return position + low;
            }
            (taken, owed, position) = (sums, still_owed, position + self.block);
        }
    }

    /// Returns the schedules of a mixture, with times in rows.
    fn known(&self, mixture: &DataMixture, steps: Steps) -> Result<Vec<KnownSchedule>, Error> {
        let mut schedules = vec![self.known_schedule(&mixture.schedule, 0, steps)?];
        for change in &mixture.changes {
            let (epoch, position) = (change.epoch, change.position);
            let stopping = change.to.stopping;
            let is_other = stopping != Stopping::default() && stopping != mixture.stopping;
            if is_other || !change.to.changes.is_empty() {
                return Err(fail!(
                    Parameter,
                    "order mixture: the change after row {position} of epoch {epoch} is to a mixture with an end of the \
                     epoch or changes of its own: give it weights only"
                ));
            }
            if position > self.len {
                let len = self.len;
                return Err(fail!(
                    Parameter,
                    "order mixture: a change after row {position} of epoch {epoch}, which has {len} rows"
                ));
            }
            let from = u64::from(epoch) * self.len + position;
            if schedules.last().is_some_and(|last| last.from > from) {
                return Err(fail!(
                    Parameter,
                    "order mixture: the change after row {position} of epoch {epoch} is before the last one: name \
                     changes in the order of time"
                ));
            }
            schedules.push(self.known_schedule(&change.to.schedule, from, steps)?);
        }
        let is_zero = |schedule: &KnownSchedule| {
            schedule.points.iter().any(|(_, shares)| {
                shares.iter().zip(&self.sizes).any(|(share, size)| *share == 0.0 && *size > 0)
            })
        };
        let once = Stopping::AllExhaustedWithoutReplacement;
        if self.stopping == once && mixture.varies() && schedules.iter().any(is_zero) {
            return Err(fail!(
                Parameter,
                "order mixture: a weight is 0 at some time, so that epochs in which each sample comes once would differ \
                 in length: give a small weight, or a number of samples"
            ));
        }
        Ok(schedules)
    }

    fn known_schedule(
        &self,
        schedule: &Schedule,
        from: u64,
        steps: Steps,
    ) -> Result<KnownSchedule, Error> {
        let mut points: Vec<(u64, Vec<f64>)> = vec![];
        for Point { time, weights } in &schedule.points {
            let row = self.row_of(*time, steps)?;
            if let Some((last, _)) = points.last().filter(|(last, _)| *last >= row) {
                return Err(fail!(
                    Parameter,
                    "order mixture: weights at row {row} of all epochs follow those at row {last}: name the points in \
                     the order of time, each at another row"
                ));
            }
            points.push((row, self.shares(weights)?));
        }
        Ok(KnownSchedule { from, points, is_linear: schedule.is_linear })
    }

    /// Returns a time as a row of all epochs.
    fn row_of(&self, time: Time, steps: Steps) -> Result<u64, Error> {
        match time {
            Time::Epoch(epoch) if (0.0..=f64::from(u32::MAX)).contains(&epoch) => {
                let whole = epoch.trunc();
                let part = ((epoch - whole) * self.len as f64).round() as u64;
                Ok(whole as u64 * self.len + part)
            }
            Time::Epoch(epoch) => Err(fail!(
                Parameter,
                "order mixture: weights at epoch {epoch}, it must be from 0 to {}",
                u32::MAX
            )),
            Time::Step(step) => {
                let of_epoch = match steps.drops_rest {
                    true => self.len / steps.samples,
                    false => self.len.div_ceil(steps.samples),
                };
                let (epoch, step) = (step / of_epoch.max(1), step % of_epoch.max(1));
                let row = epoch.saturating_mul(self.len);
                Ok(row.saturating_add(step.saturating_mul(steps.samples)))
            }
        }
    }

    /// Returns the weights of the components, with sum 1.
    fn shares(&self, weights: &Weights) -> Result<Vec<f64>, Error> {
        let found = match weights {
            Weights::Listed(weights) => self.checked(weights)?,
            Weights::Temperature(temperature) if temperature.is_nan() || *temperature <= 0.0 => {
                return Err(fail!(
                    Parameter,
                    "order mixture: the temperature is {temperature}, it must be above 0"
                ));
            }
            Weights::Temperature(1.0) => self.sizes.iter().map(|&size| size as f64).collect(),
            Weights::Temperature(temperature) => {
                let largest = ln(self.sizes.iter().copied().max().unwrap_or(1).max(1) as f64);
                let power = |&size: &u64| match size {
                    0 => 0.0,
                    size => exp((ln(size as f64) - largest) / temperature).max(f64::MIN_POSITIVE),
                };
                self.sizes.iter().map(power).collect()
            }
        };
        // Relative to the largest, so that the sum is finite.
        let largest = found.iter().copied().fold(0.0, f64::max);
        let sum: f64 = found.iter().map(|weight| weight / largest).sum();
        Ok(found.iter().map(|weight| weight / largest / sum).collect())
    }

    fn checked(&self, weights: &[f64]) -> Result<Vec<f64>, Error> {
        let (found, components) = (weights.len(), self.sizes.len());
        if found != components {
            let error = fail!(
                Parameter,
                "order mixture: {found} weights for a dataset of {components}",
                components = counted(components as u64, "component")
            );
            let help = "give one weight for each dataset that is joined, by `source::Concat` in Rust and \
                        `fuseloop.sources.concat` in Python; names of shards are joined to one dataset, unless each is \
                        opened before, by `fuseloop.sources.open`";
            return Err(error.help(help));
        }
        for (component, (&weight, size)) in weights.iter().zip(&self.sizes).enumerate() {
            if !weight.is_finite() || weight < 0.0 {
                return Err(fail!(
                    Parameter,
                    "order mixture: component {component} has the weight {weight}, it must be finite and at least 0"
                ));
            }
            if weight > 0.0 && *size == 0 {
                return Err(fail!(
                    Parameter,
                    "order mixture: component {component} has the weight {weight}, but no samples: give it the weight 0"
                ));
            }
        }
        if weights.iter().all(|&weight| weight == 0.0) {
            return Err(fail!(
                Parameter,
                "order mixture: all weights are 0: give a component more"
            ));
        }
        Ok(weights.to_vec())
    }

    /// Returns the number of rows of an epoch.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Returns true if a row may come twice.
    pub(super) fn may_repeat(&self) -> bool {
        use Stopping::{AllExhaustedWithoutReplacement, FirstExhausted};
        !matches!(self.stopping, AllExhaustedWithoutReplacement | FirstExhausted)
    }

    /// Returns the bytes held.
    pub(super) fn bytes(&self) -> usize {
        let points = self.schedules.iter().map(|schedule| schedule.points.len()).sum::<usize>();
        self.rows.bytes() + (points + 2) * self.sizes.len() * size_of::<f64>()
    }

    /// Returns true if passes of components continue from epoch to epoch.
    fn continues(&self) -> bool {
        matches!(self.stopping, Stopping::DatasetSize | Stopping::Samples(_))
    }

    /// Returns the rows of an epoch.
    pub(super) fn rows(&self, seed: u64, epoch: Epoch) -> Result<Vec<u32>, Error> {
        let mut rows = reserved(self.len)?;
        let mut passes = Passes::new(self, seed, epoch);
        let mut turns = self.taken_before(seed, epoch);
        for block in self.blocks(seed, epoch) {
            for component in block.components(seed, epoch) {
                rows.push(passes.row(component as usize, turns[component as usize])?);
                turns[component as usize] += 1;
            }
        }
        Ok(rows)
    }

    /// Returns the number of rows of each component before a position of an epoch.
    pub(super) fn drawn(&self, seed: u64, epoch: Epoch, position: u64) -> Vec<u64> {
        let mut drawn = vec![0; self.sizes.len()];
        for block in self.blocks(seed, epoch).take_while(|block| block.start < position) {
            if block.end() <= position {
                drawn.iter_mut().zip(&block.counts).for_each(|(drawn, count)| *drawn += count);
                continue;
            }
            let rows = (position - block.start) as usize;
            let components = block.components(seed, epoch);
            components.iter().take(rows).for_each(|&component| drawn[component as usize] += 1);
        }
        drawn
    }

    /// Returns the number of rows of each component in all epochs before one, if passes continue from epoch to epoch.
    fn taken_before(&self, seed: u64, epoch: Epoch) -> Vec<u64> {
        let mut taken = vec![0; self.sizes.len()];
        let (mut at, end) = (0, epoch.index());
        while self.continues() && at < end {
            let same = u64::from(self.same_until(at).clamp(at + 1, end) - at);
            for block in self.blocks(seed, Epoch(at)) {
                for (taken, count) in taken.iter_mut().zip(&block.counts) {
                    *taken += count.saturating_mul(same);
                }
            }
            at += same as u32;
        }
        taken
    }

    /// Returns the first epoch after `epoch` whose weights may differ from those of the ones before it.
    fn same_until(&self, epoch: u32) -> u32 {
        let row = u64::from(epoch) * self.len;
        let (schedule, until) = self.schedule_at(row);
        let next = schedule.points.iter().map(|(at, _)| *at).find(|&at| at > row);
        if schedule.is_linear && next.is_some() {
            return epoch + 1;
        }
        let next = next.unwrap_or(u64::MAX).min(until);
        u32::try_from(next / self.len.max(1)).unwrap_or(u32::MAX)
    }

    /// Returns the schedule that holds at a row of all epochs, and the row at which it ends.
    fn schedule_at(&self, row: u64) -> (&KnownSchedule, u64) {
        // The first schedule is from row 0 on.
        let after = self.schedules.partition_point(|schedule| schedule.from <= row).max(1);
        let until = self.schedules.get(after).map_or(u64::MAX, |next| next.from);
        (&self.schedules[after - 1], until)
    }

    /// Returns the blocks of an epoch.
    fn blocks(&self, seed: u64, epoch: Epoch) -> impl Iterator<Item = Block> {
        let first = u64::from(epoch.index()) * self.len;
        let mut taken = vec![0; self.sizes.len()];
        let mut owed = vec![0.0; self.sizes.len()];
        let mut start = 0;
        std::iter::from_fn(move || {
            if start >= self.len {
                return None;
            }
            let row = first + start;
            let (schedule, until) = self.schedule_at(row);
            let point = schedule.points.iter().map(|(at, _)| *at).find(|&at| at > row);
            let point = point.map_or(u64::MAX, |point| point - first);
            let end = (start - start % self.block + self.block).min(self.len).min(point);
            let weights = schedule.between(row, first + end);
            let counts = match self.stopping {
                Stopping::AllExhaustedWithoutReplacement => {
                    self.apportioned_once(weights, end - start, &taken, &mut owed)
                }
                _ => apportioned(&weights, end - start, &mut owed),
            };
            let mut block = Block { start, counts: counts.clone(), whole: counts };
            if until - first < end {
                // A change leaves the rows before it as they would be without it.
                let rows = (until - row) as usize;
                block.counts.fill(0);
                let components = block.components_of_whole(seed, epoch);
                components[..rows].iter().for_each(|&of| block.counts[of as usize] += 1);
                owed.fill(0.0);
            }
            taken.iter_mut().zip(&block.counts).for_each(|(taken, count)| *taken += count);
            start = block.end();
            Some(block)
        })
    }

    /// Like `apportioned`, with no more rows of a component than it has left.
    fn apportioned_once(
        &self,
        mut weights: Vec<f64>,
        len: u64,
        taken: &[u64],
        owed: &mut Vec<f64>,
    ) -> Vec<u64> {
        let left: Vec<u64> =
            self.sizes.iter().zip(taken).map(|(size, taken)| size - taken).collect();
        let mut all = vec![0; weights.len()];
        let mut rest = len;
        loop {
            weights.iter_mut().zip(&left).zip(&all).for_each(|((weight, left), taken)| {
                if left == taken {
                    *weight = 0.0;
                }
            });
            let mut still_owed = owed.clone();
            let counts = apportioned(&weights, rest, &mut still_owed);
            let ends: Vec<usize> = (0..counts.len())
                .filter(|&component| {
                    weights[component] > 0.0 && counts[component] >= left[component]
                })
                .collect();
            let is_over = ends.iter().any(|&component| counts[component] > left[component]);
            if !is_over {
                all.iter_mut().zip(counts).for_each(|(all, count)| *all += count);
                *owed = still_owed;
                return all;
            }
            for component in ends {
                all[component] = left[component];
                rest -= left[component];
                owed[component] = 0.0;
            }
        }
    }

    /// Returns the number that a random order adds to its fingerprint for the size of its steps.
    pub(super) fn fingerprint_of_steps(mixture: &DataMixture, steps: Steps) -> u64 {
        if !mixture.has_steps() {
            return 0;
        }
        let mut hash = Fingerprint::default();
        hash.text("steps");
        hash.number(steps.samples);
        hash.number(u64::from(steps.drops_rest));
        hash.value()
    }
}

impl KnownSchedule {
    /// Returns the weights in the middle of some rows, between which there is no point.
    fn between(&self, start: u64, end: u64) -> Vec<f64> {
        // The first point is at row 0, or in a change at a row that is already past.
        let after = self.points.partition_point(|(at, _)| *at <= start).max(1);
        let (at, shares) = &self.points[after - 1];
        let next = self.points.get(after).filter(|_| self.is_linear);
        let Some((next, others)) = next else { return shares.clone() };
        let part = ((start - at) as f64 + (end - start) as f64 / 2.0) / (next - at) as f64;
        let line = |(share, other): (&f64, &f64)| share * (1.0 - part) + other * part;
        shares.iter().zip(others).map(line).collect()
    }
}

/// Divides `len` rows by weights, which must not all be 0. `owed` is what each has got too little so far.
fn apportioned(weights: &[f64], len: u64, owed: &mut [f64]) -> Vec<u64> {
    let sum: f64 = weights.iter().sum();
    let wanted = |(&weight, owed): (&f64, &f64)| match weight {
        0.0 => 0.0,
        weight => owed + weight / sum * len as f64,
    };
    let wanted: Vec<f64> = weights.iter().zip(&*owed).map(wanted).collect();
    let mut counts: Vec<u64> = wanted.iter().map(|wanted| wanted.max(0.0) as u64).collect();
    let mut total: u64 = counts.iter().sum();
    if total != len {
        let mut order: Vec<usize> = (0..weights.len()).filter(|&k| weights[k] > 0.0).collect();
        let lacks = |k: usize| wanted[k] - counts[k] as f64;
        // Those that lack most come first; of equal ones, the first.
        order.sort_by(|&a, &b| lacks(b).total_cmp(&lacks(a)));
        for &k in order.iter().cycle() {
            if total >= len {
                break;
            }
            counts[k] += 1;
            total += 1;
        }
        // Components that got too much before leave others less than the whole rows that they want.
        for &k in order.iter().rev().cycle() {
            if total <= len {
                break;
            }
            let taken = counts[k].min(1);
            counts[k] -= taken;
            total -= taken;
        }
    }
    owed.iter_mut().zip(wanted).zip(&counts).for_each(|((owed, wanted), &count)| {
        *owed = wanted - count as f64;
    });
    counts
}

/// Rows of an epoch in which each component has its share.
struct Block {
    /// The position of the first row.
    start: u64,
    /// The number of rows of each component.
    counts: Vec<u64>,
    /// The same of the whole block, of which a change may cut the end off.
    whole: Vec<u64>,
}

impl Block {
    fn end(&self) -> u64 {
        self.start + self.counts.iter().sum::<u64>()
    }

    /// Returns the component of each row.
    fn components(&self, seed: u64, epoch: Epoch) -> Vec<u32> {
        let mut components = self.components_of_whole(seed, epoch);
        components.truncate((self.end() - self.start) as usize);
        components
    }

    fn components_of_whole(&self, seed: u64, epoch: Epoch) -> Vec<u32> {
        let each =
            |(component, &count): (u32, &u64)| std::iter::repeat_n(component, count as usize);
        let mut components: Vec<u32> = (0..).zip(&self.whole).flat_map(each).collect();
        let mut rng = generator(seed, epoch, &format!("{NAME}/block/{}", self.start));
        shuffle(&mut rng, &mut components);
        components
    }
}

/// The order of the rows in the current pass of each component.
struct Passes<'a> {
    of: &'a Mixed,
    seed: u64,
    /// The epoch that passes begin in; the first one if they continue from epoch to epoch.
    epoch: Epoch,
    current: Vec<Option<(u64, Permutation)>>,
}

impl<'a> Passes<'a> {
    fn new(of: &'a Mixed, seed: u64, epoch: Epoch) -> Self {
        let epoch = if of.continues() { Epoch(0) } else { epoch };
        Self { of, seed, epoch, current: of.sizes.iter().map(|_| None).collect() }
    }

    /// Returns the row of a component that comes at a turn, counted over all passes.
    fn row(&mut self, component: usize, turn: u64) -> Result<u32, Error> {
        let (size, first) = (self.of.sizes[component], self.of.firsts[component]);
        // A component without samples has no turns.
        let (pass, place) = (turn / size, turn % size);
        let current = &mut self.current[component];
        let permutation = match current {
            Some((of, permutation)) if *of == pass => permutation,
            _ => {
                let name = format!("{NAME}/{component}/{pass}");
                let mut rng = generator(self.seed, self.epoch, &name);
                &mut current.insert((pass, Permutation::drawn(&mut rng, size)?)).1
            }
        };
        Ok(self.of.rows.row((first + permutation.at(place)) as u32))
    }
}
