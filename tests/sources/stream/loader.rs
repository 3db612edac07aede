//! A loader over a stream: the same bits for any number of workers, from every cursor, to the stream's end.

use super::support::{At, Numbers, all, fields, numbers, pass};
use fuseloop::batch::Batch;
use fuseloop::internals::assert_says;
use fuseloop::loader::{Cache, OnDamaged};
use fuseloop::order::{Ranks, Uneven};
use fuseloop::sample::UNKNOWN;
use fuseloop::source::stream::Stream;
use fuseloop::source::{FieldKind, OwnedImage};
use fuseloop::{Cursor, Loader, LoaderBuilder, Order, ops::*};
use std::sync::Arc;

pub(crate) fn builder(stream: &Stream) -> LoaderBuilder {
    Loader::from_stream(stream.clone())
        .batch_size(4)
        .seed(3)
        .drop_last(false)
        .batches_ahead(2)
        .pipeline("image", ops![RandomCrop::new(4).unwrap(), RandomBrightness::new(0.9).unwrap()])
}

/// A batch's number, its labels and its pixels.
pub(crate) type Seen = (u64, Vec<i64>, Vec<u8>);

fn seen(batch: &Batch) -> Seen {
    let labels = batch.tensor::<i64>("label").unwrap().as_slice().to_vec();
    (batch.index(), labels, batch.bytes("image").unwrap().to_vec())
}

fn batches(loader: &Loader, epoch: u32) -> Vec<Seen> {
    loader.epoch(epoch).unwrap().map(|batch| seen(&batch.unwrap())).collect()
}

fn labels(batches: &[Seen]) -> Vec<u64> {
    batches.iter().flat_map(|(_, labels, _)| labels.iter().map(|&label| label as u64)).collect()
}

/// Asserts that the loader yields the items of the stream's pass, with any workers, from every cursor.
pub(crate) fn assert_loads(stream: &Stream) {
    let one = builder(stream).workers(1).build().unwrap();
    for epoch in [0, 1] {
        let wanted = batches(&one, epoch);
        assert_eq!(labels(&wanted), all(stream, &pass(3, epoch)));
        assert!(wanted.iter().zip(0..).all(|(batch, index)| batch.0 == index));
        for workers in [2, 7] {
            let loader = builder(stream).workers(workers).build().unwrap();
            assert_eq!(batches(&loader, epoch), wanted, "{workers} workers");
        }
    }
    assert_resumes(&one, &batches(&one, 1));
}

fn assert_resumes(loader: &Loader, whole: &[Seen]) {
    for taken in 0..=whole.len() + 1 {
        let mut run = loader.epoch(1).unwrap();
        run.by_ref().take(taken).for_each(|batch| drop(batch.unwrap()));
        let cursor: Cursor = run.cursor().unwrap().to_string().parse().unwrap();
        drop(run);
        let rest: Vec<Seen> =
            loader.resume(&cursor).unwrap().map(|batch| seen(&batch.unwrap())).collect();
        assert_eq!(rest, whole[taken.min(whole.len())..], "after {taken} batches");
    }
}

#[test]
fn a_stream_loads_as_its_pass_goes_with_and_without_a_known_end() {
    for count in [1, 8, 11] {
        assert_loads(&numbers(5, count).stream());
        assert_loads(&numbers(5, count).held().stream());
    }
    for (count, drop_last) in [(0, false), (3, true)] {
        let stream = numbers(5, count).held().stream();
        let loader = builder(&stream).drop_last(drop_last).build().unwrap();
        let mut run = loader.epoch(2).unwrap();
        let error = run.next().unwrap().unwrap_err().to_string();
        let want =
            "epoch 2 has no batch: the stream has no samples, or with `drop_last` fewer than 4";
        assert!(error == want && run.next().is_none(), "{error}");
    }
    let empty = builder(&numbers(5, 0).stream()).build().err().unwrap().to_string();
    assert!(empty.ends_with("the dataset has no samples"), "{empty}");
}

#[test]
fn a_source_as_a_stream_gives_the_batches_of_the_source() {
    let source = numbers(7, 30);
    let from_source = Loader::from_source(source.clone())
        .batch_size(4)
        .seed(3)
        .drop_last(true)
        .pipeline("image", ops![RandomCrop::new(4).unwrap(), RandomBrightness::new(0.9).unwrap()])
        .build()
        .unwrap();
    let stream = Stream::of(Arc::new(source));
    let loader = builder(&stream).drop_last(true).build().unwrap();
    assert_eq!(batches(&loader, 2), batches(&from_source, 2));
    assert_eq!((loader.len(), loader.samples()), (7, 28));
}

#[test]
fn an_end_that_is_not_known_is_told_as_such() {
    for (drop_last, sizes) in [(false, vec![4, 4, 2]), (true, vec![4, 4])] {
        for unordered in [false, true] {
            let stream = numbers(0, 10).held().stream();
            let loader =
                builder(&stream).drop_last(drop_last).unordered(unordered).build().unwrap();
            assert_eq!((loader.len(), loader.samples()), (UNKNOWN, UNKNOWN));
            for epoch in 0..3 {
                let mut run = loader.epoch(epoch).unwrap();
                assert_eq!((run.remaining(), run.size_hint()), (UNKNOWN, (0, None)));
                let mut found: Vec<usize> = run.by_ref().map(|b| b.unwrap().len()).collect();
                found.sort_unstable_by(|a, b| b.cmp(a));
                assert_eq!(found, sizes);
                assert_eq!(run.remaining(), 0);
                assert!(run.next().is_none());
            }
        }
    }
}

#[test]
fn ranks_take_turns_at_the_places() {
    let stream = numbers(0, 22).stream();
    for (uneven, world) in
        [(Uneven::Drop, 3), (Uneven::Pad, 3), (Uneven::Exact, 4), (Uneven::Pad, 30)]
    {
        for rank in 0..world {
            let ranks = Ranks::new(rank, world, uneven).unwrap();
            let loader = builder(&stream).ranks(ranks).build().unwrap();
            let from_source = Loader::from_source(numbers(0, 22))
                .batch_size(4)
                .seed(3)
                .drop_last(false)
                .ranks(ranks)
                .pipeline(
                    "image",
                    ops![RandomCrop::new(4).unwrap(), RandomBrightness::new(0.9).unwrap()],
                )
                .build()
                .unwrap();
            assert_eq!(batches(&loader, 1), batches(&from_source, 1), "{rank} of {world}");
        }
    }
}

#[test]
fn an_item_that_cant_be_read_ends_the_run_or_is_left_out() {
    for numbers in [numbers(0, 11).bad(At::Item(5)), numbers(0, 11).held().bad(At::Item(5))] {
        let stream = numbers.stream();
        let loader = builder(&stream).build().unwrap();
        let mut run = loader.epoch(0).unwrap();
        assert_eq!(run.next().unwrap().unwrap().len(), 4);
        assert_says(run.next().unwrap().unwrap_err(), ["numbers from 0: sample 5: it is bad"]);
        assert!(run.next().is_none());
        let loader = builder(&stream).on_damaged(OnDamaged::Skip).build().unwrap();
        assert_eq!(labels(&batches(&loader, 0)), [0, 1, 2, 3, 4, 6, 7, 8, 9, 10]);
        assert_eq!(loader.quarantine().rows, 1);
    }
}

#[test]
fn an_error_of_the_stream_comes_at_its_place_and_ends_the_run() {
    let cases = [(At::Stream(6), "cut off"), (At::Panic(6), "panic: planted")];
    for (bad, message) in cases {
        for what in [OnDamaged::Fail, OnDamaged::Skip] {
            for workers in [1, 3] {
                for held in [false, true] {
                    let stream = Numbers { held, ..numbers(0, 11) }.bad(bad).stream();
                    let loader =
                        builder(&stream).on_damaged(what).workers(workers).build().unwrap();
                    let mut run = loader.epoch(0).unwrap();
                    assert_eq!(run.next().unwrap().unwrap().len(), 4);
                    let error = run.next().unwrap().unwrap_err().to_string();
                    assert!(error.starts_with("batch 1: sample 6: "), "{error}");
                    assert!(error.contains(message), "{error}");
                    assert!(run.next().is_none());
                }
            }
        }
    }
}

#[test]
fn a_stream_that_ends_before_its_known_length_is_an_error() {
    struct Short(Numbers);
    impl fuseloop::source::stream::Streamed for Short {
        fn facts(&self) -> &fuseloop::source::Facts {
            &self.0.facts
        }
        fn open(
            &self,
            pass: &fuseloop::source::stream::Pass,
        ) -> Result<Box<dyn fuseloop::source::stream::Items>, fuseloop::source::BoxError> {
            fuseloop::source::stream::Streamed::open(&self.0, pass)
        }
        fn known_len(&self) -> Option<u64> {
            Some(9)
        }
    }
    let loader = builder(&Stream::new(Short(numbers(0, 6)))).build().unwrap();
    let error = loader.epoch(0).unwrap().find_map(Result::err).unwrap().to_string();
    assert!(error.contains("the stream ends here, expected 9 items"), "{error}");
}

/// If the length is not known, the end is found by skipping the items that were delivered.
#[test]
fn a_cursor_beyond_the_end_of_a_stream_is_refused() {
    // For a stream of unknown length, the end of a short last batch counts as the stream's end.
    for (stream, end) in [(numbers(0, 11).stream(), 11), (numbers(0, 11).held().stream(), 12)] {
        let loader = builder(&stream).build().unwrap();
        let mut cursor = loader.epoch(0).unwrap().cursor().unwrap();
        let mut error_at = |position: u64| {
            cursor.position = position;
            match loader.resume(&cursor) {
                Err(error) => Some(error.to_string()),
                Ok(mut rest) => rest.find_map(Result::err).map(|error| error.to_string()),
            }
        };
        assert_eq!((error_at(8), error_at(end)), (None, None));
        for position in [16, 400] {
            let message = error_at(position).unwrap_or_default();
            assert!(message.contains(&format!("the cursor is at row {position}")), "{message}");
        }
    }
}

#[test]
fn items_of_other_fields_are_refused() {
    let mut other = numbers(0, 4);
    let image = fields()[0].clone();
    other.facts.fields = [image, ("label", FieldKind::Float).into()].into();
    for held in [false, true] {
        let stream = Numbers { held, ..other.clone() }.stream();
        let loader = builder(&stream).build().unwrap();
        let error = loader.epoch(0).unwrap().find_map(Result::err).unwrap().to_string();
        assert_says(&error, ["field label is of the kind float, the record has an int"]);
    }
}

#[test]
fn what_asks_for_samples_out_of_turn_is_refused_with_the_cure() {
    let known = numbers(0, 11).stream();
    let unknown = numbers(0, 11).held().stream();
    let message = |builder: LoaderBuilder| builder.build().err().unwrap().to_string();
    assert!(message(builder(&known).order(Order::Random)).contains("`Stream::shuffle`"));
    assert!(message(builder(&known).indices([1, 2])).contains("`Stream::filter`"));
    assert!(message(builder(&known).filter("label", |_| true)).contains("`Stream::filter`"));
    assert!(message(builder(&known).cache(Cache::memory(1 << 20))).contains("cache_in_memory"));
    let substitute = builder(&known).on_damaged(OnDamaged::Substitute);
    assert!(message(substitute).contains("OnDamaged::Skip"));
    let ranks = Ranks::new(0, 2, Uneven::Drop).unwrap();
    assert!(message(builder(&unknown).ranks(ranks)).contains("with_epoch"));
}

#[test]
fn a_run_left_early_and_a_plan_exchanged_in_the_midst() {
    let stream = numbers(0, 40).held().stream();
    let loader = builder(&stream).workers(3).build().unwrap();
    let whole = batches(&loader, 4);
    let mut run = loader.epoch(4).unwrap();
    run.next().unwrap().unwrap();
    let rest = loader.renew(run).unwrap().map(|batch| seen(&batch.unwrap())).collect::<Vec<_>>();
    assert_eq!(rest, whole[1..]);
    let mut ended = loader.epoch(4).unwrap();
    assert_eq!(ended.by_ref().count(), whole.len());
    assert_eq!(loader.renew(ended).unwrap().count(), 0);
}

#[test]
fn an_inspector_opens_any_place_of_an_epoch() {
    let stream = numbers(0, 40).held().stream();
    let loader = builder(&stream).build().unwrap();
    let wanted: Vec<u8> =
        batches(&loader, 2).into_iter().flat_map(|(_, _, pixels)| pixels).collect();
    let mut inspector = loader.inspect("image", 2).unwrap().unwrap();
    for position in [3, 4, 30, 0, 39, 39] {
        let found = inspector.sample(position).unwrap();
        let OwnedImage { bytes, .. } = OwnedImage::rgb(6, vec![position as u8; 6 * 6 * 3]);
        assert_eq!(found.pixels, bytes);
        assert_eq!(found.row, wanted[position as usize * 48..][..48]);
    }
    assert_says(inspector.sample(40).err().unwrap(), ["the stream has ended after 40 items"]);
}
