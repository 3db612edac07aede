//! The choice of samples: indices, filters, and orders that depend on a field.

use super::{all, builder, pictures};
use fuseloop::order::{Ranks, Uneven};
use fuseloop::source::Value;
use fuseloop::{Loader, LoaderBuilder, Order};

fn ids(builder: LoaderBuilder) -> Vec<u64> {
    let loader = builder.build().unwrap();
    all(loader.epoch(0).unwrap()).concat().iter().map(|(id, _)| id.0).collect()
}

/// Returns true for labels 0 to 2. A label is the sample's number modulo 10.
fn is_small(value: Value<'_>) -> bool {
    matches!(value, Value::Int(0..3))
}

#[test]
fn a_filter_holds_alone_and_over_indices() {
    let (_dir, path) = pictures(25);
    let sequential = || builder(&path).order(Order::Sequential);
    let small = [0, 1, 2, 10, 11, 12, 20, 21, 22];
    assert_eq!(ids(sequential().filter("label", is_small)), small);
    // FFCV's filter mistakes the positions within the indices for sample ids.
    let picked = sequential().indices([24, 22, 1, 3, 10]).filter("label", is_small);
    assert_eq!(ids(picked), [22, 1, 10]);
    let both = sequential()
        .filter("label", is_small)
        .filter("image", |value| matches!(value, Value::Image(image) if image.height % 2 == 0));
    let height = |id: u64| crate::common::dataset::varied(id).height;
    let even: Vec<u64> = small.into_iter().filter(|&id| height(id).is_multiple_of(2)).collect();
    assert_eq!(ids(both), even);
    let mut shuffled = ids(builder(&path).filter("label", is_small));
    assert_ne!(shuffled, small);
    shuffled.sort_unstable();
    assert_eq!(shuffled, small);
}

fn refusal(builder: LoaderBuilder) -> String {
    builder.build().err().unwrap().to_string()
}

#[test]
fn a_setup_without_samples_is_refused() {
    let (_dir, path) = pictures(5);
    let at = path.display();
    let left = format!("{at}: `indices` and `filter` leave none of 5 samples");
    assert_eq!(refusal(builder(&path).filter("label", |_| false)), left);
    assert_eq!(refusal(builder(&path).indices([])), left);
    let ranks = Ranks::new(0, 8, Uneven::Drop).unwrap();
    let ranks = refusal(builder(&path).ranks(ranks));
    let order = "the random order makes an epoch of 0 out of 5 samples on each of 8 ranks";
    assert_eq!(ranks, format!("{at}: {order}"));
}

#[test]
fn a_batch_that_the_set_can_not_fill_is_refused_only_if_it_would_be_dropped() {
    let (_dir, path) = pictures(5);
    assert_eq!(
        refusal(builder(&path).drop_last(true)),
        format!(
            "{}: an epoch of 5 samples has no batch of 6, and `drop_last` drops the short one: \
             take a smaller batch size, or `drop_last(false)`",
            path.display()
        )
    );
    let whole = builder(&path).build().unwrap();
    assert_eq!((whole.len(), whole.samples()), (1, 5));
    let ranks = Ranks::new(1, 2, Uneven::Pad).unwrap();
    let share = refusal(builder(&path).batch_size(4).ranks(ranks).drop_last(true));
    assert!(share.contains("an epoch of 3 samples has no batch of 4"), "{share}");
}

/// `samples` is the number of rows that come, and `len` that of the batches.
#[test]
fn samples_and_len_count_what_comes() {
    let (_dir, path) = pictures(20);
    for (drop, want) in [(false, (4, 20)), (true, (3, 18))] {
        let loader = builder(&path).drop_last(drop).build().unwrap();
        assert_eq!((loader.len(), loader.samples()), want);
        let lens = loader.epoch(0).unwrap().map(|batch| batch.unwrap().len() as u64);
        assert_eq!(lens.fold((0, 0), |(n, sum), len| (n + 1, sum + len)), want);
    }
    let default = Loader::open(&path).unwrap().without("image").batch_size(6).build().unwrap();
    assert_eq!((default.len(), default.samples()), (4, 20), "a short batch comes unless dropped");
}

#[test]
fn what_can_not_be_filtered_is_told() {
    let (_dir, path) = pictures(5);
    let message = |builder: LoaderBuilder| builder.build().err().unwrap().to_string();
    let no_field = message(builder(&path).filter("lable", is_small));
    assert_eq!(no_field, "no field named lable; available: image, label");
    let at = super::damaged::mode_of(&path, 3);
    crate::common::dataset::damage(&path, |bytes| bytes[at] = 9);
    let unreadable = message(builder(&path).filter("image", |_| true));
    assert!(unreadable.starts_with("filter: sample 3: "), "{unreadable}");
    assert!(unreadable.contains("pictures.beton (image): image mode 9, "), "{unreadable}");
}

#[test]
fn classes_come_as_often_as_each_other() {
    let (_dir, path) = pictures(34);
    let order = Order::ClassBalanced { field: "label".to_owned(), replacement: false };
    let mut classes = [0; 10];
    ids(builder(&path).order(order)).iter().for_each(|id| classes[*id as usize % 10] += 1);
    assert_eq!(classes, [3; 10]);
    let order = Order::ClassBalanced { field: "image".to_owned(), replacement: true };
    let message = builder(&path).order(order).build().err().unwrap().to_string();
    assert!(message.contains("image"), "{message}");
}
