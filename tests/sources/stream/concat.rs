//! Several sources as one, read in any order.

use super::support::{At, fields, numbers, record};
use fuseloop::batch::Batch;
use fuseloop::source::{BoxError, Buffer, Concat, Generator, Source, Value};
use fuseloop::{Loader, LoaderBuilder, Order, SampleId};
use std::sync::Arc;

fn parts(lengths: &[u64]) -> Vec<Arc<dyn Source>> {
    let mut first = 0;
    let part = |&count: &u64| {
        let part = Arc::new(numbers(first, count)) as Arc<dyn Source>;
        first += count;
        part
    };
    lengths.iter().map(part).collect()
}

fn labels(builder: LoaderBuilder) -> Vec<i64> {
    let loader = builder.without("image").batch_size(4).drop_last(false).build().unwrap();
    let labels = |batch: Batch| batch.tensor::<i64>("label").unwrap().as_slice().to_vec();
    loader.epoch(2).unwrap().flat_map(|batch| labels(batch.unwrap())).collect()
}

#[test]
fn several_sources_are_shuffled_as_one() {
    for lengths in [&[5, 0, 3, 9][..], &[0, 17], &[17]] {
        let both = Concat::new(parts(lengths)).unwrap();
        assert_eq!(both.facts().samples, 17);
        for order in [Order::Sequential, Order::Random] {
            let whole = labels(Loader::from_source(numbers(0, 17)).order(order.clone()));
            let joined = Concat::new(parts(lengths)).unwrap();
            assert_eq!(labels(Loader::from_source(joined).order(order)), whole);
        }
    }
}

#[test]
fn one_buffer_serves_samples_of_one_number_in_two_parts() {
    let both = Concat::new(parts(&[3, 3])).unwrap();
    let mut buffer = Buffer::default();
    for sample in [1, 4, 1] {
        let value = both.value(SampleId(sample), 1, &mut buffer).unwrap();
        assert_eq!(value, Value::Int(sample as i64));
    }
    assert!(both.value(SampleId(6), 1, &mut buffer).is_err());
}

#[test]
fn parts_that_read_ahead_are_told_what_is_upcoming_of_them() {
    let made = |first: u64, count: u64| {
        let source = Generator::new(2, 3).source(fields(), count, move |epoch, sample| {
            assert_eq!(epoch.0, 2, "outside of a run");
            Ok::<_, BoxError>(record(first + sample))
        });
        Arc::new(source.unwrap()) as Arc<dyn Source>
    };
    let both = Concat::new([made(0, 30), made(30, 1), made(31, 29)]).unwrap();
    let whole = labels(Loader::from_source(numbers(0, 60)).order(Order::Random));
    assert_eq!(labels(Loader::from_source(both).order(Order::Random)), whole);
}

#[test]
fn sources_of_other_fields_and_none_are_refused() {
    assert!(Concat::new([]).is_err());
    let mut other = numbers(0, 3).bad(At::Nowhere);
    other.facts.fields = fields()[..1].into();
    let error = Concat::new([parts(&[3]).remove(0), Arc::new(other)]).err().unwrap().to_string();
    assert!(error.starts_with("concat: stream 1 (numbers from 0) has [image: image]"), "{error}");
}
