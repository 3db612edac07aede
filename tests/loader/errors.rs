//! The one error of all calls: its kind, its chain of causes, and the errors of users in it.

use fuseloop::ops::{OneHot, RandomHorizontalFlip, Squeeze, ops};
use fuseloop::order::{Ranks, Uneven};
use fuseloop::source::{
    Beton, BoxError, Column, Dataset, Facts, FieldKind, Generator, InMemory, OpenOptions,
    OwnedValue, Stream,
};
use fuseloop::{Cursor, Error, ErrorKind, Loader, LoaderBuilder, OnDamaged, SampleId};
use std::error::Error as _;
use std::fs;
use std::io;
use std::num::ParseIntError;

/// Returns labels 0 to 3; reading one of them fails as `damage` says.
fn labels_with(damage: fn(SampleId) -> Result<(), BoxError>) -> InMemory {
    InMemory::from_fn(Facts::new([("label", FieldKind::Int)], 4).named("labels"), move |sample| {
        damage(sample)?;
        Ok(vec![OwnedValue::Int(sample.0 as i64)])
    })
}

/// An error of a user, with a cause that its message leaves out.
#[derive(Debug, thiserror::Error)]
#[error("no row")]
struct NoRow(#[from] ParseIntError);

fn refuse_the_third(sample: SampleId) -> Result<(), BoxError> {
    if sample.0 == 2 { Err(NoRow("x".parse::<i64>().unwrap_err()).into()) } else { Ok(()) }
}

fn first_error(damage: fn(SampleId) -> Result<(), BoxError>) -> Error {
    let loader = Loader::from_source(labels_with(damage)).batch_size(2).build().unwrap();
    loader.epoch(0).unwrap().find_map(Result::err).unwrap()
}

/// The messages of an error and of its sources.
fn chain(error: &Error) -> Vec<String> {
    let mut messages = vec![error.to_string()];
    let mut next = error.source();
    while let Some(error) = next {
        messages.push(error.to_string());
        next = error.source();
    }
    messages
}

fn labels() -> LoaderBuilder {
    Loader::from_source(labels_with(|_| Ok(())))
}

/// Errors of many calls, each with its kind.
fn errors() -> Vec<(ErrorKind, Error)> {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    fs::write(path("text.beton"), "hello, this is text and no dataset").unwrap();
    fs::create_dir(path("empty")).unwrap();
    let dataset = |name: &str| Dataset::open(path(name)).map(drop).unwrap_err();
    let generator = || Generator::new(1, 1);
    let failing = |ticket: u64| if ticket == 0 { Ok(Some(0)) } else { Err("no more") };
    let mut queue = generator().start(failing).unwrap();
    let gone = io::Error::from(io::ErrorKind::PermissionDenied);
    vec![
        (ErrorKind::NotFound, dataset("none.beton")),
        (ErrorKind::NotFound, dataset("none.tar")),
        (ErrorKind::NotFound, dataset("none-*.tar")),
        (ErrorKind::NotFound, dataset("none.tfrecord")),
        (ErrorKind::NotFound, dataset("none.csv")),
        (ErrorKind::Format, dataset("text.beton")),
        (ErrorKind::Format, dataset("empty")),
        (ErrorKind::Field, labels().without("x").build().err().unwrap()),
        (ErrorKind::Parameter, labels().batch_size(0).build().err().unwrap()),
        (ErrorKind::Parameter, Ranks::new(3, 2, Uneven::Pad).unwrap_err()),
        (ErrorKind::Cursor, "{}".parse::<Cursor>().unwrap_err()),
        (ErrorKind::Parameter, Stream::concat([]).map(drop).unwrap_err()),
        (ErrorKind::Parameter, RandomHorizontalFlip::new(2.0).unwrap_err().into()),
        (ErrorKind::Pipeline, {
            let image = ops![RandomHorizontalFlip::new(0.5).unwrap()];
            labels().pipeline("label", image).build().err().unwrap()
        }),
        (ErrorKind::Damaged, {
            let classes = ops![OneHot::new(3).unwrap()];
            let loader = labels().pipeline("label", classes).batch_size(2).build().unwrap();
            loader.epoch(0).unwrap().find_map(Result::err).unwrap()
        }),
        (ErrorKind::Custom, first_error(refuse_the_third)),
        (ErrorKind::Custom, queue.find_map(Result::err).unwrap()),
        (ErrorKind::Parameter, Generator::new(0, 1).start(failing).unwrap_err()),
        (ErrorKind::Io, gone.into()),
    ]
}

#[test]
fn a_chain_of_errors_says_each_thing_once() {
    for (kind, error) in errors() {
        let chain = chain(&error);
        assert_eq!(error.kind(), kind, "{error}");
        assert_eq!(format!("{error:?}"), chain[0]);
        for (k, later) in chain.iter().enumerate() {
            let said = chain[..k].iter().any(|earlier| earlier.contains(later));
            assert!(!said, "{later:?} is said twice: {chain:?}");
        }
    }
}

#[test]
fn the_error_of_a_user_is_in_the_message_and_its_cause_is_the_source() {
    let error = first_error(refuse_the_third);
    assert_eq!((error.sample(), error.field()), (Some(SampleId(2)), Some("label")));
    let cause = "invalid digit found in string";
    assert_eq!(chain(&error), ["batch 1: sample 2: labels (label): no row", cause]);
    assert!(error.get_ref().unwrap().is::<NoRow>());
}

#[test]
fn an_error_of_a_call_survives_a_source_that_returns_it() {
    let fails = |_| {
        Beton::open("none.beton", &OpenOptions::default())?;
        Ok(())
    };
    let error = first_error(fails);
    assert_eq!((error.kind(), error.sample()), (ErrorKind::NotFound, Some(SampleId(0))));
    assert_eq!(error.path(), Some("none.beton".as_ref()));
    let boxed: BoxError = error.into();
    assert_eq!(Error::from(boxed).kind(), ErrorKind::NotFound);
}

#[test]
fn ops_on_an_array_of_other_elements_name_the_types_that_they_take() {
    let dtype = "<u4".parse().unwrap();
    let source = InMemory::new([("mask", Column::arrays(dtype, &[2], vec![0; 32]))]).unwrap();
    let builder = Loader::from_source(source).pipeline("mask", ops![Squeeze]);
    let error = builder.build().err().unwrap();
    assert_eq!((error.kind(), error.field()), (ErrorKind::Pipeline, Some("mask")));
    let text = "field mask: its elements are <u4, but ops take |u1, |b1, <u2, <i2, ";
    assert!(error.to_string().starts_with(text), "{error}");
}

/// Nothing would be trained, without a word.
#[test]
fn an_epoch_whose_samples_are_all_skipped_is_an_error() {
    let of = |damage| {
        let loader = Loader::from_source(labels_with(damage)).batch_size(2);
        loader.on_damaged(OnDamaged::Skip).build().unwrap()
    };
    let loader = of(|sample| Err(format!("no label in row {}", sample.0).into()));
    for epoch in 0..2 {
        let mut batches = loader.epoch(epoch).unwrap();
        let error = batches.next().unwrap().unwrap_err().to_string();
        let wanted =
            format!("epoch {epoch}: all 4 samples that were read are damaged and were skipped");
        assert!(error.starts_with(&wanted) && error.contains("no label in row 0"), "{error}");
        assert!(batches.next().is_none());
    }
    let error = loader.get(&[3, 1], 0).unwrap_err().to_string();
    assert!(error.contains("all 2 samples that were read are damaged"), "{error}");
    // One whole sample is an epoch.
    let loader = of(|sample| if sample.0 == 3 { Ok(()) } else { Err("no label".into()) });
    assert_eq!(loader.epoch(0).unwrap().map(|batch| batch.unwrap().len()).collect::<Vec<_>>(), [1]);
}
