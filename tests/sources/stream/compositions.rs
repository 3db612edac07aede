//! Every composition yields the items that plain lists predict, for any sequence of steps, and a loader
//! yields the same.

use super::loader::assert_loads;
use super::model::{Dice, in_steps, model, stream};
use super::support::{all, numbers, pass, rest};
use fuseloop::source::stream::{ENDLESS, Stream};

#[test]
fn every_composition_gives_what_plain_lists_say() {
    let mut dice = Dice(1);
    let mut items = 0;
    for trial in 0..4000 {
        let tree = dice.tree((trial % 6) as u32);
        let made = stream(&tree);
        for pass in [pass(7, 0), pass(7, 3)] {
            let wanted = model(&tree, &pass);
            if wanted.len() > 3000 {
                continue;
            }
            assert_eq!(all(&made, &pass), wanted, "{tree:?}");
            if let Some(len) = made.known_len() {
                assert_eq!(len, wanted.len() as u64, "{tree:?}");
            }
            items += wanted.len();
        }
    }
    assert!(items > 50_000, "{items}: too few to tell");
}

#[test]
fn skipping_is_the_same_as_asking() {
    let mut dice = Dice(2);
    for trial in 0..3000 {
        let tree = dice.tree((trial % 6) as u32);
        let (made, pass) = (stream(&tree), pass(9, 1));
        let wanted = model(&tree, &pass);
        if wanted.len() > 300 {
            continue;
        }
        if trial % 10 == 0 {
            for skipped in 0..=wanted.len() + 1 {
                let left = &wanted[skipped.min(wanted.len())..];
                assert_eq!(rest(&made, &pass, skipped as u64), left, "{skipped} of {tree:?}");
            }
        }
        for (at, number) in in_steps(&made, &pass, &mut dice) {
            assert_eq!(Some(&number), wanted.get(at), "at {at} of {tree:?}");
        }
    }
}

#[test]
fn every_composition_loads_the_same_with_any_workers_and_from_every_cursor() {
    let mut dice = Dice(3);
    let mut loaded = 0;
    while loaded < 60 {
        let tree = dice.tree(1 + loaded % 5);
        let made = stream(&tree);
        let wanted = model(&tree, &pass(3, 0));
        if (1..200).contains(&wanted.len()) {
            assert_loads(&made);
            loaded += 1;
        }
    }
}

#[test]
fn epochs_and_turns_differ_where_they_are_shuffled_and_not_else() {
    let plain = numbers(0, 40).stream();
    assert_eq!(all(&plain, &pass(1, 0)), all(&plain, &pass(1, 1)));
    let shuffled = plain.shuffle(40);
    let first = all(&shuffled, &pass(1, 0));
    assert_eq!(all(&shuffled, &pass(1, 0)), first);
    assert_ne!(all(&shuffled, &pass(1, 1)), first);
    assert_ne!(all(&shuffled, &pass(2, 0)), first);
    let turns = all(&shuffled.clone().repeat(2), &pass(1, 0));
    assert_eq!(turns[..40], first);
    assert_ne!(turns[40..], first);
    let twice = Stream::concat([shuffled.clone(), shuffled]).unwrap();
    let both = all(&twice, &pass(1, 0));
    assert_ne!(both[..40], both[40..], "two of one kind draw each for itself");
}

#[test]
fn passing_over_a_million_places_takes_no_reading() {
    let million = numbers(0, 1_000_000).bad(super::support::At::Item(5));
    let of = |n: u64| {
        Stream::of(std::sync::Arc::new(super::support::Numbers { count: n, ..million.clone() }))
    };
    let made = Stream::concat([of(1_000_000), of(10)]).unwrap().shuffle(1000).repeat_forever();
    let mut items = made.open(&pass(1, 1)).unwrap();
    assert_eq!(items.skip(5_000_000_000).unwrap(), 5_000_000_000);
    assert!(items.next().unwrap().is_some());
    assert_eq!(made.known_len(), Some(ENDLESS));
}
