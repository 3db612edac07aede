//! Several ranks share an epoch: at every step there are the same samples with the same draws, for any
//! number of ranks.

use super::{Rows, all, builder, pictures};
use fuseloop::order::{Ranks, Uneven};
use fuseloop::{LoaderBuilder, Order};

/// The rows of a step on all ranks together.
const GLOBAL: usize = 24;

fn on(builder: LoaderBuilder, rank: u32, world: u32, uneven: Uneven) -> LoaderBuilder {
    let ranks = Ranks::new(rank, world, uneven).unwrap();
    builder.batch_size(GLOBAL / world as usize).ranks(ranks)
}

fn orders() -> Vec<Order> {
    vec![Order::Sequential, Order::Random, Order::QuasiRandom { open_pages: 3 }]
}

/// Each step's rows on all ranks, sorted.
fn steps(make: impl Fn() -> LoaderBuilder, world: u32) -> Vec<Rows> {
    let ranks = (0..world).map(|rank| on(make(), rank, world, Uneven::Drop).build().unwrap());
    let runs: Vec<Vec<Rows>> = ranks.map(|loader| all(loader.epoch(1).unwrap())).collect();
    together(&runs)
}

fn together(runs: &[Vec<Rows>]) -> Vec<Rows> {
    let step = |step: usize| {
        let mut rows: Rows = runs.iter().flat_map(|run| run[step].clone()).collect();
        rows.sort();
        rows
    };
    (0..runs[0].len()).map(step).collect()
}

#[test]
fn every_world_has_the_same_samples_and_draws_at_each_step() {
    let (_dir, path) = pictures(100);
    for order in orders() {
        let make = || builder(&path).order(order.clone()).drop_last(true);
        let alone = steps(make, 1);
        assert_eq!(alone.len(), 100 / GLOBAL);
        for world in [2, 3, 4, 6, 8, 12, 24] {
            assert!(steps(make, world) == alone, "{order:?} on {world} ranks");
        }
    }
}

#[test]
fn the_world_may_change_at_any_step() {
    let (_dir, path) = pictures(100);
    let make = || builder(&path).drop_last(true);
    let alone = steps(make, 1);
    for (before, after) in [(1, 2), (2, 3), (3, 1), (4, 24)] {
        for taken in 0..=alone.len() {
            let first = on(make(), 0, before, Uneven::Drop).build().unwrap();
            let mut batches = first.epoch(1).unwrap();
            assert_eq!(batches.by_ref().take(taken).filter(|batch| batch.is_ok()).count(), taken);
            let cursor = first.cursor().unwrap();
            let rest = |rank| {
                let loader = on(make(), rank, after, Uneven::Drop).build().unwrap();
                all(loader.resume(&cursor).unwrap())
            };
            let rest: Vec<Vec<Rows>> = (0..after).map(rest).collect();
            assert!(together(&rest) == alone[taken..], "{before} to {after} at {taken}");
        }
    }
}

#[test]
fn an_exact_evaluation_has_every_sample_once_and_equal_steps() {
    let (_dir, path) = pictures(29);
    for world in [1, 2, 3, 4, 6, 8] {
        let mut counted = vec![0; 29];
        let mut shapes = vec![];
        for rank in 0..world {
            let loader = on(builder(&path), rank, world, Uneven::Exact).build().unwrap();
            let batches: Vec<_> = loader.epoch(0).unwrap().map(|batch| batch.unwrap()).collect();
            for batch in &batches {
                assert_eq!(batch.mask().count(), batch.len());
                for (visit, is_own) in batch.visits().iter().zip(batch.mask()) {
                    assert_eq!(is_own, !visit.is_padding);
                    counted[visit.sample.0 as usize] += usize::from(is_own);
                }
            }
            shapes.push(batches.iter().map(|batch| batch.len()).collect::<Vec<_>>());
        }
        assert_eq!(counted, [1; 29], "{world} ranks");
        assert!(shapes.iter().all(|shape| *shape == shapes[0]), "{shapes:?}");
    }
}

#[test]
fn what_ranks_can_not_do_is_told() {
    let (_dir, path) = pictures(10);
    // FFCV shuffles with torch if there are ranks, and with NumPy if there are none.
    for (order, is_another) in [(Order::Random, true), (Order::Sequential, false)] {
        let alone = builder(&path).order(order.clone()).batch_size(GLOBAL).build().unwrap();
        let cursor = alone.epoch(0).unwrap().cursor().unwrap();
        let ranked = on(builder(&path).order(order), 0, 1, Uneven::Pad).build().unwrap();
        assert_eq!(ranked.resume(&cursor).is_err(), is_another);
    }
    let skip = || builder(&path).on_damaged(fuseloop::OnDamaged::Skip);
    assert!(on(skip(), 0, 1, Uneven::Pad).build().is_ok());
    let message = on(skip(), 0, 2, Uneven::Pad).build().err().unwrap().to_string();
    assert!(message.contains("OnDamaged::Substitute"), "{message}");
}
