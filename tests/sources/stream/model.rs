//! Random compositions of streams, and the items that plain lists predict for them.

use super::support::{fields, number, numbers, pass};
use fuseloop::source::stream::{Interleave, MixEnd, Pass, Stream};
use fuseloop::source::{FieldKind, FieldSpec, OwnedValue, Record};

/// A composition.
#[derive(Clone, Debug)]
pub(crate) enum Tree {
    Numbers { first: u64, count: u64, held: bool },
    Shuffle(Box<Tree>, usize),
    Repeat(Box<Tree>, u64),
    ShuffleAndRepeat(Box<Tree>, usize, u64),
    WithEpoch(Box<Tree>, u64),
    Take(Box<Tree>, u64),
    Skip(Box<Tree>, u64),
    Filter(Box<Tree>),
    Map(Box<Tree>),
    Cache(Box<Tree>),
    Prefetch(Box<Tree>, usize),
    Concat(Vec<Tree>),
    Zip(Box<Tree>, Box<Tree>),
    Interleave(Vec<Tree>, Interleave),
    Mix(Vec<Tree>, Vec<f64>, MixEnd),
}

/// Random numbers to build trees from.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    pub(crate) fn tree(&mut self, depth: u32) -> Tree {
        if depth == 0 {
            let (first, count) = (self.below(1000), self.below(9));
            return Tree::Numbers { first, count, held: self.below(3) == 0 };
        }
        let one = |dice: &mut Self| Box::new(dice.tree(depth - 1));
        match self.below(15) {
            0 | 1 => Tree::Shuffle(one(self), self.below(12) as usize),
            2 => Tree::Repeat(one(self), self.below(4)),
            3 => Tree::ShuffleAndRepeat(one(self), self.below(6) as usize, self.below(4)),
            4 => {
                // A stream that may be empty can't be repeated for ever.
                let first = self.below(1000);
                let one_more = Tree::Numbers { first, count: 1, held: false };
                let of = Tree::Concat(vec![self.tree(depth - 1), one_more]);
                Tree::WithEpoch(Box::new(of), self.below(30))
            }
            5 => Tree::Take(one(self), self.below(12)),
            6 => Tree::Skip(one(self), self.below(5)),
            7 => Tree::Filter(one(self)),
            8 => Tree::Map(one(self)),
            9 => Tree::Cache(one(self)),
            10 => Tree::Prefetch(one(self), self.below(4) as usize),
            11 => Tree::Concat(self.trees(depth)),
            12 => Tree::Zip(one(self), one(self)),
            13 => {
                let how = Interleave {
                    cycle_length: 1 + self.below(4) as usize,
                    block_length: 1 + self.below(3) as usize,
                    reads: if self.below(2) == 0 { 0 } else { self.below(4) as usize },
                    ..Interleave::default()
                };
                Tree::Interleave(self.trees(depth), how)
            }
            _ => {
                let parts = self.trees(depth);
                let mut weights: Vec<f64> = parts.iter().map(|_| self.below(4) as f64).collect();
                weights[0] += 0.5;
                let end = if self.below(2) == 0 { MixEnd::First } else { MixEnd::Last };
                Tree::Mix(parts, weights, end)
            }
        }
    }

    fn trees(&mut self, depth: u32) -> Vec<Tree> {
        (0..1 + self.below(4)).map(|_| self.tree(depth - 1)).collect()
    }
}

fn label(record: &[OwnedValue], index: usize) -> u64 {
    match record[index] {
        OwnedValue::Int(label) => label as u64,
        ref other => panic!("{other:?}"),
    }
}

fn relabelled(mut record: Record, label: u64) -> Record {
    record.truncate(2);
    record[1] = OwnedValue::Int(label as i64);
    record
}

fn is_kept(number: u64) -> bool {
    !number.is_multiple_of(3)
}

fn mapped(number: u64) -> u64 {
    number * 7 % 100_003
}

fn zipped(a: u64, b: u64) -> u64 {
    (a * 1009 + b) % 100_003
}

/// The stream of a composition.
pub(crate) fn stream(tree: &Tree) -> Stream {
    let all = |parts: &[Tree]| parts.iter().map(stream).collect::<Vec<_>>();
    match tree {
        &Tree::Numbers { first, count, held } => {
            let numbers = numbers(first, count);
            if held { numbers.held().stream() } else { Stream::of(std::sync::Arc::new(numbers)) }
        }
        Tree::Shuffle(of, size) => stream(of).shuffle(*size),
        Tree::Repeat(of, times) => stream(of).repeat(*times),
        Tree::ShuffleAndRepeat(of, size, times) => stream(of).shuffle_and_repeat(*size, *times),
        Tree::WithEpoch(of, items) => stream(of).with_epoch(*items),
        Tree::Take(of, items) => stream(of).take(*items),
        Tree::Skip(of, items) => stream(of).skip(*items),
        Tree::Filter(of) => stream(of).filter(|record| is_kept(label(record, 1))),
        Tree::Map(of) => stream(of).map(fields(), |record| {
            let number = label(&record, 1);
            Ok(relabelled(record, mapped(number)))
        }),
        Tree::Cache(of) => stream(of).cache_in_memory(1 << 20),
        Tree::Prefetch(of, items) => stream(of).prefetch(*items),
        Tree::Concat(parts) => Stream::concat(all(parts)).unwrap(),
        Tree::Zip(a, b) => {
            let renamed: Vec<FieldSpec> =
                vec![FieldSpec { name: "other".into(), kind: FieldKind::Int }];
            let b = stream(b).map(renamed, |record| Ok(vec![record[1].clone()]));
            Stream::zip([stream(a), b]).unwrap().map(fields(), |record| {
                let number = zipped(label(&record, 1), label(&record, 2));
                Ok(relabelled(record, number))
            })
        }
        Tree::Interleave(parts, how) => Stream::interleave(all(parts), *how).unwrap(),
        Tree::Mix(parts, weights, end) => {
            Stream::mix(all(parts).into_iter().zip(weights.iter().copied()), *end).unwrap()
        }
    }
}

/// The items of its pass.
pub(crate) fn model(tree: &Tree, pass: &Pass) -> Vec<u64> {
    let part = |part: usize| Pass {
        seed: scrambled(pass.seed ^ (part as u64).wrapping_mul(STEP)),
        ..*pass
    };
    let turn = |turn: u64| Pass { turn: pass.turn.wrapping_mul(STEP).wrapping_add(turn), ..*pass };
    let parts = |trees: &[Tree]| -> Vec<Vec<u64>> {
        trees.iter().enumerate().map(|(index, tree)| model(tree, &part(index))).collect()
    };
    match tree {
        Tree::Numbers { first, count, .. } => (*first..first + count).collect(),
        Tree::Shuffle(of, size) => {
            shuffled(model(of, pass), *size, draws(pass, stream(tree).facts().fingerprint))
        }
        Tree::Repeat(of, times) => (0..*times).flat_map(|t| model(of, &turn(t))).collect(),
        Tree::ShuffleAndRepeat(of, size, times) => {
            model(&Tree::Repeat(Box::new(Tree::Shuffle(of.clone(), *size)), *times), pass)
        }
        Tree::WithEpoch(of, items) => {
            let mut all = vec![];
            for t in 0.. {
                let more = model(of, &turn(t));
                let is_over = more.is_empty() || all.len() as u64 >= *items;
                all.extend(more);
                if is_over {
                    break;
                }
            }
            all.truncate(*items as usize);
            all
        }
        Tree::Take(of, items) => model(of, pass).into_iter().take(*items as usize).collect(),
        Tree::Skip(of, items) => model(of, pass).into_iter().skip(*items as usize).collect(),
        Tree::Filter(of) => model(of, pass).into_iter().filter(|&n| is_kept(n)).collect(),
        Tree::Map(of) => model(of, pass).into_iter().map(mapped).collect(),
        Tree::Cache(of) => model(of, &self::pass(0, 0)),
        Tree::Prefetch(of, _) => model(of, pass),
        Tree::Concat(trees) => parts(trees).concat(),
        Tree::Zip(a, b) => {
            let (a, b) = (model(a, &part(0)), model(b, &part(1)));
            a.into_iter().zip(b).map(|(a, b)| zipped(a, b)).collect()
        }
        Tree::Interleave(trees, how) => interleaved(parts(trees), how),
        Tree::Mix(trees, weights, end) => mixed(
            parts(trees),
            weights.clone(),
            *end,
            draws(pass, stream(tree).facts().fingerprint),
        ),
    }
}

fn shuffled(numbers: Vec<u64>, size: usize, mut word: impl FnMut() -> u64) -> Vec<u64> {
    let (mut ahead, mut buffer, mut out) = (numbers.into_iter(), vec![], vec![]);
    loop {
        let room = size.max(1) - buffer.len();
        buffer.extend(ahead.by_ref().take(room));
        if buffer.is_empty() {
            return out;
        }
        let drawn = (u128::from(word()) * buffer.len() as u128) >> 64;
        out.push(buffer.swap_remove(drawn as usize));
    }
}

fn interleaved(parts: Vec<Vec<u64>>, how: &Interleave) -> Vec<u64> {
    let width = how.cycle_length.min(parts.len());
    let mut parts = parts.into_iter().map(Vec::into_iter);
    let mut slots: Vec<Option<std::vec::IntoIter<u64>>> = (0..width).map(|_| None).collect();
    let (mut out, mut slot) = (vec![], 0);
    loop {
        if slots[slot].is_none() {
            slots[slot] = parts.next();
        }
        if slots.iter().all(Option::is_none) {
            return out;
        }
        if let Some(items) = &mut slots[slot] {
            let block: Vec<u64> = items.take(how.block_length).collect();
            if block.len() < how.block_length {
                slots[slot] = None;
            }
            out.extend(block);
        }
        slot = (slot + 1) % width;
    }
}

fn mixed(
    parts: Vec<Vec<u64>>,
    mut weights: Vec<f64>,
    end: MixEnd,
    mut word: impl FnMut() -> u64,
) -> Vec<u64> {
    let mut parts: Vec<_> = parts.into_iter().map(Vec::into_iter).collect();
    let mut out = vec![];
    while weights.iter().any(|&weight| weight > 0.0) {
        let sum: f64 = weights.iter().sum();
        let mut left = (word() >> 11) as f64 / 2f64.powi(53) * sum;
        let index = (0..parts.len()).find(|&index| {
            left -= weights[index];
            left < 0.0
        });
        let index = index.unwrap();
        match (parts[index].next(), end) {
            (Some(number), _) => out.push(number),
            (None, MixEnd::First) => return out,
            (None, MixEnd::Last) => weights[index] = 0.0,
        }
    }
    out
}

/// SplitMix64, started as the draws of a pass are.
fn draws(pass: &Pass, of: u64) -> impl FnMut() -> u64 + use<> {
    let mut state = 0u64;
    for word in [pass.seed, u64::from(pass.epoch.0), pass.turn, of] {
        state = scrambled(state ^ word).wrapping_add(STEP);
    }
    move || {
        state = state.wrapping_add(STEP);
        scrambled(state)
    }
}

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

fn scrambled(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// Alternates between skipping items and requesting some, up to the end. Returns the requested items
/// with their positions.
pub(crate) fn in_steps(stream: &Stream, pass: &Pass, dice: &mut Dice) -> Vec<(usize, u64)> {
    let mut items = stream.open(pass).unwrap();
    let (mut seen, mut at) = (vec![], 0);
    loop {
        let count = dice.below(5);
        let passed = items.skip(count).unwrap();
        at += passed as usize;
        assert!(passed <= count);
        for _ in 0..dice.below(4) {
            match items.next().unwrap() {
                Some(item) => seen.push((at, number(&item))),
                None => {
                    assert_eq!(items.skip(3).unwrap(), 0, "it goes on after its end");
                    return seen;
                }
            }
            at += 1;
        }
        if passed < count {
            assert!(items.next().unwrap().is_none(), "fewer were passed over than there are");
        }
    }
}
