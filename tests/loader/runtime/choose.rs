//! The choice of samples: indices, filters, and orders that depend on a field.

use super::{all, builder, pictures};
use fuseloop::source::Value;
use fuseloop::{LoaderBuilder, Order};

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

#[test]
fn a_filter_that_keeps_nothing_is_an_empty_epoch() {
    let (_dir, path) = pictures(5);
    let none = builder(&path).filter("label", |_| false).build().unwrap();
    assert!(none.is_empty() && none.epoch(0).unwrap().next().is_none());
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
