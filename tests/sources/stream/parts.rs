//! Lists of ops for single components of a mix: each component's rows are those of a loader with that
//! list alone.

use super::support::{At, numbers};
use fuseloop::batch::Batch;
use fuseloop::loader::{Cache, Cursor, OnDamaged, Pipeline};
use fuseloop::source::stream::{Interleave, MixEnd, Pass, Stream};
use fuseloop::source::{Concat, OwnedValue, Source};
use fuseloop::{Epoch, Loader, LoaderBuilder, Order, ops::*};
use std::sync::Arc;

/// The first number of component 1.
const SECOND: i64 = 100;

/// A label and the pixels of its row.
type Row = (i64, Vec<u8>);

fn crop() -> Ops {
    let brightness = RandomBrightness::new(0.9).unwrap();
    ops![RandomCrop::new(4).unwrap(), brightness]
}

fn inverted() -> Ops {
    let brightness = RandomBrightness::new(0.3).unwrap().p(0.9).unwrap();
    let (crop, invert) = (RandomCrop::new(4).unwrap(), RandomInvert::new(0.7).unwrap());
    ops![invert, crop, brightness]
}

fn setting(builder: LoaderBuilder) -> LoaderBuilder {
    builder.batch_size(4).seed(3).drop_last(false).batches_ahead(2)
}

fn rows_of(batch: &Batch) -> Vec<Row> {
    let labels = batch.tensor::<i64>("label").unwrap();
    let pixels = batch.bytes("image").unwrap();
    let rows = pixels.chunks(pixels.len() / batch.len());
    labels.as_slice().iter().copied().zip(rows.map(<[u8]>::to_vec)).collect()
}

fn rows(loader: &Loader, epoch: u32) -> Vec<Row> {
    loader.epoch(epoch).unwrap().flat_map(|batch| rows_of(&batch.unwrap())).collect()
}

/// The expected rows: each is the row of a loader that runs only the list of its component.
fn wanted(builder: &dyn Fn() -> LoaderBuilder, epoch: u32) -> Vec<Row> {
    let alone = |ops: fn() -> Ops| {
        let loader = setting(builder()).pipeline("image", ops());
        rows(&loader.build().unwrap(), epoch)
    };
    let each = alone(crop).into_iter().zip(alone(inverted));
    let rows: Vec<Row> =
        each.map(|(first, second)| if first.0 < SECOND { first } else { second }).collect();
    let seconds = rows.iter().filter(|row| row.0 >= SECOND).count();
    assert!(seconds > 2 && seconds + 2 < rows.len(), "too few to tell: {rows:?}");
    rows
}

fn with_parts(builder: LoaderBuilder) -> LoaderBuilder {
    setting(builder).pipeline("image", crop()).component_ops(1, "image", inverted())
}

/// Asserts that every row is the one its component's list produces, with any workers.
fn assert_parted(builder: &dyn Fn() -> LoaderBuilder) {
    for epoch in [0, 2] {
        let wanted = wanted(builder, epoch);
        for workers in [1, 2, 7] {
            let loader = with_parts(builder()).workers(workers).build().unwrap();
            assert_eq!(rows(&loader, epoch), wanted, "{workers} workers, epoch {epoch}");
        }
    }
}

/// Numbers from 0 and from `SECOND`, as streams.
fn two() -> [Stream; 2] {
    [numbers(0, 23).stream(), numbers(SECOND as u64, 17).held().stream()]
}

fn mix() -> Stream {
    Stream::mix(two().into_iter().zip([0.6, 0.4]), MixEnd::Last).unwrap()
}

#[test]
fn every_row_is_made_as_its_part_says_whatever_stands_above() {
    let woven =
        |reads| Interleave { cycle_length: 2, block_length: 3, reads, ..Interleave::default() };
    let streams = [
        mix(),
        Stream::concat(two()).unwrap(),
        Stream::interleave(two(), woven(0)).unwrap(),
        Stream::interleave(two(), woven(2)).unwrap(),
        mix().shuffle(9).repeat(2).skip(5).take(50),
        mix().prefetch(3).shuffle(100).with_epoch(60),
        mix().filter(|_| true).cache_in_memory(1 << 20).shuffle(4),
        mix().map(super::support::fields(), Ok).shuffle(4),
        Stream::of(concat()).shuffle(30),
        Stream::of(concat()).map(super::support::fields(), Ok).prefetch(2),
        Stream::of(concat()).prefetch(2).shuffle(30),
        Stream::concat([mix().shuffle(3)]).unwrap(),
    ];
    for stream in streams {
        assert_eq!(stream.facts().components, 2);
        assert_parted(&|| Loader::from_stream(stream.clone()));
    }
}

#[test]
fn the_last_list_that_an_item_came_through_counts() {
    let third = numbers(SECOND as u64, 9).stream();
    let [a, b] = [numbers(0, 7).stream(), numbers(7, 8).stream()];
    let both = Stream::concat([Stream::concat([a, b]).unwrap().shuffle(9), third]).unwrap();
    assert_parted(&|| Loader::from_stream(both.clone()));
}

fn concat() -> Arc<dyn Source> {
    let [a, b] = [numbers(0, 23), numbers(SECOND as u64, 17)];
    Arc::new(Concat::new([Arc::new(a) as Arc<dyn Source>, Arc::new(b)]).unwrap())
}

fn from_concat() -> LoaderBuilder {
    Loader::from_source(Concat::new([concat()]).unwrap())
}

#[test]
fn samples_of_concat_in_any_order_and_from_a_cache() {
    assert_parted(&from_concat);
    assert_parted(&|| from_concat().order(Order::Random));
    let loader = with_parts(from_concat().order(Order::Random)).cache(Cache::memory(1 << 20));
    let loader = loader.build().unwrap();
    for epoch in [0, 1, 2] {
        assert_eq!(rows(&loader, epoch), wanted(&|| from_concat().order(Order::Random), epoch));
    }
}

#[test]
fn a_run_goes_on_from_every_cursor_of_the_same_lists_alone() {
    let build = |builder: LoaderBuilder| builder.build().unwrap();
    let loader = build(with_parts(Loader::from_stream(mix().shuffle(7))));
    let whole = rows(&loader, 1);
    for taken in 0..=whole.len().div_ceil(4) {
        let mut run = loader.epoch(1).unwrap();
        run.by_ref().take(taken).for_each(|batch| drop(batch.unwrap()));
        let cursor: Cursor = run.cursor().unwrap().to_string().parse().unwrap();
        let rest = loader.resume(&cursor).unwrap();
        let rest: Vec<Row> = rest.flat_map(|batch| rows_of(&batch.unwrap())).collect();
        assert_eq!(rest, whole[(taken * 4).min(whole.len())..], "after {taken} batches");
        for other in [
            setting(Loader::from_stream(mix().shuffle(7))).pipeline("image", crop()),
            with_parts(Loader::from_stream(mix().shuffle(7))).component_ops(0, "image", inverted()),
        ] {
            assert!(build(other).resume(&cursor).is_err());
        }
    }
}

#[test]
fn the_lists_are_made_anew_with_the_others() {
    let made = |epoch: Epoch| Ok::<_, ParamError>(if epoch.0 == 0 { crop() } else { inverted() });
    let loader = setting(Loader::from_stream(mix())).pipeline("image", crop()).component_ops(
        1,
        "image",
        Pipeline::by_epoch(made),
    );
    let loader = loader.build().unwrap();
    let from_mix = || Loader::from_stream(mix());
    let alone = setting(from_mix()).pipeline("image", crop()).build().unwrap();
    assert_eq!(rows(&loader, 0), rows(&alone, 0));
    assert_eq!(rows(&loader, 2), wanted(&from_mix, 2));
    // The output's own list is replaced, the component's list stays.
    loader.set_pipeline("image", inverted()).unwrap();
    let alone = setting(from_mix()).pipeline("image", inverted()).build().unwrap();
    assert_eq!(rows(&loader, 2), rows(&alone, 2));
    let smaller = ops![RandomCrop::new((3, 4)).unwrap()];
    let error = loader.set_pipeline("image", smaller).unwrap_err().to_string();
    assert!(error.contains("the rows are U8 [4, 4, 3] ChannelsLast"), "{error}");
    assert_eq!(rows(&loader, 2), rows(&alone, 2));
}

#[test]
fn labels_views_and_an_inspector_too() {
    let loader = with_parts(Loader::from_stream(mix()))
        .view("second", "image", crop())
        .component_ops(1, "second", inverted())
        .share_draws("second", "image")
        .component_ops(1, "label", ops![ReplaceLabel::new(0..1000, 5)])
        .build()
        .unwrap();
    let wanted = wanted(&|| Loader::from_stream(mix()), 1);
    let (mut inspector, mut index) = (loader.inspect("image", 1).unwrap().unwrap(), 0);
    for batch in loader.epoch(1).unwrap() {
        let batch = batch.unwrap();
        assert_eq!(batch.bytes("second").unwrap(), batch.bytes("image").unwrap());
        for (label, row) in rows_of(&batch) {
            let (own, pixels) = &wanted[index];
            assert_eq!(label, if *own >= SECOND { 5 } else { *own });
            assert_eq!(row, *pixels);
            assert_eq!(inspector.sample(index as u64).unwrap().row, row);
            index += 1;
        }
    }
    assert_eq!(index, wanted.len());
    assert!(
        loader.explain().contains("field image, samples of component 1:"),
        "{}",
        loader.explain()
    );
}

#[test]
fn mixing_stays_with_the_outputs_own_list() {
    let plain = || ops![RandomCrop::new(4).unwrap(), Convert::to(DType::F32)];
    let mixed = move || {
        let mut ops = plain();
        ops.extend(ops![MixUp::new(1.0).unwrap()]);
        ops
    };
    let builder = || {
        let builder = setting(Loader::from_stream(mix()));
        builder.pipeline("image", mixed()).without("label")
    };
    let images = |loader: Loader| -> Vec<Vec<u8>> {
        let batches = loader.epoch(0).unwrap();
        batches.map(|batch| batch.unwrap().bytes("image").unwrap().to_vec()).collect()
    };
    let alone = images(builder().build().unwrap());
    assert!(alone.len() > 2);
    let parted = builder().component_ops(1, "image", plain()).build().unwrap();
    assert_eq!(images(parted), alone);
    let error = builder().component_ops(1, "image", mixed()).build().err().unwrap();
    assert!(error.to_string().contains("MixUp mixes all samples of a batch"), "{error}");
}

#[test]
fn what_does_not_fit_is_refused_with_words() {
    let from_mix = || with_parts(Loader::from_stream(mix()));
    let message = |builder: LoaderBuilder| builder.build().err().unwrap().to_string();
    let of = |builder: LoaderBuilder, part, ops: fn() -> Ops| {
        message(builder.component_ops(part, "image", ops()))
    };
    assert_eq!(
        of(from_mix(), 1, || ops![RandomCrop::new((4, 5)).unwrap()]),
        "output image: ops of component 1: the rows are U8 [4, 5, 3] ChannelsLast, expected U8 \
         [4, 4, 3] ChannelsLast as in the output's own list"
    );
    let half = of(from_mix(), 0, || ops![RandomCrop::new(4).unwrap(), Convert::to(DType::F16)]);
    assert!(half.contains("component 0: the rows are F16 [4, 4, 3]"), "{half}");
    let beyond = of(from_mix(), 2, crop);
    assert_eq!(
        beyond,
        "output image: ops of component 2: the dataset has 2 components, numbered from 0"
    );
    for one in [Stream::concat([numbers(0, 3).stream()]).unwrap(), numbers(0, 3).stream()] {
        assert!(of(setting(Loader::from_stream(one)), 0, crop).contains("no components"));
    }
    let device = of(from_mix(), 1, || {
        let mut ops = crop();
        ops.extend(ops![ToDevice::new("auto").unwrap()]);
        ops
    });
    assert!(device.contains("component ops run on the CPU only: remove ToDevice"), "{device}");
    let branch = message(from_mix().branch("more", "image", 1, ops![]));
    assert!(branch.contains("a branch and the output it branches from"), "{branch}");
    let unknown = message(from_mix().component_ops(1, "picture", crop()));
    assert!(unknown.contains("no output named picture"), "{unknown}");
    let refused = |_| RandomInvert::new(2.0).map(|op| ops![op]);
    let param = message(from_mix().component_ops(1, "image", Pipeline::by_epoch(refused)));
    assert!(param.starts_with("output image of component 1: "), "{param}");
}

#[test]
fn an_item_that_cant_be_had_is_told_and_left_out_as_ever() {
    let bad = Stream::concat([
        numbers(0, 6).stream(),
        numbers(SECOND as u64, 6).bad(At::Item(1)).stream(),
    ]);
    let bad = bad.unwrap();
    let loader = with_parts(Loader::from_stream(bad.clone())).build().unwrap();
    let error = loader.epoch(0).unwrap().find_map(Result::err).unwrap().to_string();
    assert!(error.contains("numbers from 100: sample 1: it is bad"), "{error}");
    let skipping = with_parts(Loader::from_stream(bad)).on_damaged(OnDamaged::Skip);
    let labels: Vec<i64> = rows(&skipping.build().unwrap(), 0).iter().map(|row| row.0).collect();
    assert_eq!(labels, [0, 1, 2, 3, 4, 5, 100, 102, 103, 104, 105]);
}

/// Streams in a different order in each pass: each occurs once, identified by its label.
#[test]
fn interleaved_streams_come_in_another_order_each_pass() {
    let streams = || (0..6).map(|part| numbers(100 * part, 4).stream());
    let woven = |reads, cycle_length| {
        let how = Interleave {
            cycle_length,
            block_length: 4,
            reads,
            shuffle: true,
            ..Interleave::default()
        };
        Stream::interleave(streams(), how).unwrap()
    };
    let given = |stream: &Stream, pass: &Pass, skip: u64| {
        let mut items = stream.open(pass).unwrap();
        assert_eq!(items.skip(skip).unwrap(), skip);
        let items = std::iter::from_fn(|| items.next().unwrap());
        let number = |record: &[OwnedValue]| match record[1] {
            OwnedValue::Int(number) => number as usize,
            _ => panic!("no number"),
        };
        items
            .map(|item| (item.component().unwrap(), number(&item.read().unwrap())))
            .collect::<Vec<_>>()
    };
    let mut orders = std::collections::BTreeSet::new();
    for (epoch, turn) in [(0, 0), (1, 0), (2, 0), (0, 1), (0, 2)] {
        let pass = Pass { seed: 3, epoch: Epoch(epoch), turn };
        let all = given(&woven(0, 1), &pass, 0);
        assert!(all.iter().all(|&(part, number)| number / 100 == part), "{all:?}");
        let order: Vec<usize> = all.iter().step_by(4).map(|&(part, _)| part).collect();
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert_eq!((sorted, all.len()), ((0..6).collect(), 24));
        orders.insert(order);
        for reads in [0, 2] {
            let whole = given(&woven(reads, 3), &pass, 0);
            assert_eq!(whole, all, "blocks are as long as the streams");
            assert_eq!(given(&woven(reads, 3), &pass, 7), all[7..]);
        }
    }
    assert_eq!(orders.len(), 5, "{orders:?}");
    // The fingerprint differs from that of the same streams in their own order: a cursor of one is not
    // valid for the other.
    let plain = Interleave { cycle_length: 3, block_length: 4, ..Interleave::default() };
    let plain = Stream::interleave(streams(), plain).unwrap();
    assert_ne!(plain.facts().fingerprint, woven(0, 3).facts().fingerprint);
}
