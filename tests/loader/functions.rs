//! Functions of users in lists of ops: what they get, and what becomes of their errors.

use crate::common::dataset;
use fuseloop::internals::assert_says;
use fuseloop::loader::OnDamaged;
use fuseloop::ops::author::BoxError;
use fuseloop::write::WriteMode;
use fuseloop::{Batch, Error, ErrorKind, Loader, LoaderBuilder, Order, SampleId, ops::*};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

const EPOCH: u32 = 3;

#[derive(Debug, thiserror::Error)]
#[error("not today")]
struct NotToday(u64);

/// Fails at sample 6.
fn at_six(sample: u64) -> Result<(), BoxError> {
    if sample == 6 { Err(NotToday(sample).into()) } else { Ok(()) }
}

fn open(path: &Path) -> LoaderBuilder {
    Loader::open(path).unwrap().batch_size(4).seed(5)
}

/// The batches before the first error of the epoch, and the error.
fn failed(builder: LoaderBuilder) -> (usize, Error) {
    let mut batches = builder.build().unwrap().epoch(EPOCH).unwrap();
    let mut count = 0;
    let error = loop {
        match batches.next().unwrap() {
            Ok(_) => count += 1,
            Err(error) => break error,
        }
    };
    assert!(batches.next().is_none(), "the error ends the epoch");
    (count, error)
}

#[test]
fn an_error_of_a_function_on_samples_ends_the_epoch_whatever_becomes_of_damage() {
    for mode in [WriteMode::Raw, WriteMode::Jpg] {
        let (_dir, path) = dataset::write(11, mode, |_| Size::new(20, 20));
        let failing = |name: &str| match name {
            "image" => ops![Lambda::new("Fails", |cx, _| at_six(cx.sample)), ToChannelsFirst],
            "sized" => {
                ops![Lambda::sized("Fails", Size::new(2, 2), |cx, _, _| at_six(cx.sample)).unwrap()]
            }
            "narrow" => {
                // Too narrow for vectors: the definitions of the ops run.
                ops![CenterCrop::new(2).unwrap(), Lambda::new("Fails", |cx, _| at_six(cx.sample))]
            }
            "chosen" => {
                let fails = || Lambda::new("Fails", |cx, _| at_six(cx.sample));
                ops![RandomApply::new(ops![fails()]).p(1.0).unwrap(), Normalize::imagenet()]
            }
            "label" => ops![Lambda::label("Fails", |cx, label| at_six(cx.sample).map(|()| label))],
            "float" => ops![
                Convert::to(DType::F32),
                Lambda::float("Fails", |cx, value| at_six(cx.sample).map(|()| value)),
            ],
            _ => {
                ops![OneHot::new(10).unwrap(), Lambda::vector("Fails", |cx, _| at_six(cx.sample)),]
            }
        };
        let images = ["image", "sized", "narrow", "chosen"];
        for (name, what) in images
            .map(|name| (name, "image"))
            .into_iter()
            .chain(["label", "float", "vector"].map(|name| (name, "label")))
        {
            for on_damaged in [OnDamaged::Fail, OnDamaged::Skip, OnDamaged::Substitute] {
                let builder = open(&path).on_damaged(on_damaged).pipeline(what, failing(name));
                let (before, error) = failed(builder);
                let found = (before, error.kind(), error.sample(), error.field());
                assert_eq!(found, (1, ErrorKind::Custom, Some(SampleId(6)), Some(what)), "{error}");
                let own: &NotToday = error.get_ref().unwrap().downcast_ref().unwrap();
                assert_eq!(own.0, 6);
                let text = error.to_string();
                assert!(text.starts_with("batch 1: sample 6: "), "{text}");
                assert!(
                    text.ends_with(&format!("({what}): Fails failed in epoch 3: not today")),
                    "{text}"
                );
            }
        }
    }
}

#[test]
fn a_function_that_fails_once_on_images_is_not_called_again() {
    let (_dir, path) = dataset::write(8, WriteMode::Raw, |_| Size::new(8, 8));
    let calls = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&calls);
    let once = Lambda::new("Once", move |_, _| match counted.fetch_add(1, Ordering::Relaxed) {
        0 => Err(NotToday(0).into()),
        _ => Ok(()),
    });
    let builder =
        open(&path).batch_size(8).workers(1).batches_ahead(1).pipeline("image", ops![once]);
    let (before, error) = failed(builder);
    assert_eq!((before, error.sample()), (0, Some(SampleId(0))));
}

/// The arguments of a function on batches: the samples, the epoch, the type, the shape and a number that it drew.
type Seen = (Vec<u64>, u32, DType, Vec<usize>, u32);

#[test]
fn a_function_on_batches_gets_each_batch_once_in_the_type_of_the_batch() {
    let (_dir, path) = dataset::write(10, WriteMode::Raw, |_| Size::new(6, 8));
    let run = |workers| {
        let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let spy = |name| {
            let seen = Arc::clone(&seen);
            Lambda::batch(name, move |host, rows| {
                let bytes = host.shape.iter().product::<usize>() * host.dtype.bytes();
                assert_eq!(rows.len(), host.samples.len() * bytes);
                rows[..bytes].fill(0);
                let (samples, shape) = (host.samples.to_vec(), host.shape.to_vec());
                let draw = host.rng.below(1 << 30);
                seen.lock().unwrap().push((samples, host.epoch, host.dtype, shape, draw));
            })
        };
        let builder = open(&path).workers(workers).order(Order::Random).drop_last(false);
        let builder = builder
            .pipeline("image", ops![Convert::to(DType::F32), ToChannelsFirst, spy("OnImages")])
            .pipeline("label", ops![Lambda::label("Up", |_, label| label + 1), spy("OnLabels")]);
        let loader = builder.build().unwrap();
        let plan = loader.explain();
        assert!(plan.contains("on the finished batch"), "{plan}");
        assert!(
            plan.contains("loops over samples: Up (not compiled), OnLabels on the finished batch"),
            "{plan}"
        );
        let batches: Vec<Batch> = loader.epoch(EPOCH).unwrap().map(Result::unwrap).collect();
        let mut want = vec![];
        for batch in &batches {
            let ids: Vec<u64> = batch.ids().iter().map(|id| id.0).collect();
            let images = batch.tensor::<f32>("image").unwrap().as_slice().to_vec();
            assert!(images[..144].iter().all(|&v| v == 0.0), "the first is black");
            assert!(images[144..].iter().any(|&v| v != 0.0));
            let labels = batch.tensor::<i64>("label").unwrap().as_slice().to_vec();
            let own = ids.iter().map(|id| *id as i64 % 10 + 1);
            assert_eq!(labels, std::iter::once(0).chain(own.skip(1)).collect::<Vec<_>>());
            want.push((ids.clone(), EPOCH, DType::F32, vec![3, 6, 8]));
            want.push((ids, EPOCH, DType::I64, vec![]));
        }
        let mut seen = std::mem::take(&mut *seen.lock().unwrap());
        seen.sort_by_key(|(ids, _, _, shape, _)| (ids.clone(), shape.len()));
        want.sort_by_key(|(ids, _, _, shape)| (ids.clone(), shape.len()));
        let found = seen
            .iter()
            .map(|(ids, epoch, dtype, shape, _)| (ids.clone(), *epoch, *dtype, shape.clone()));
        assert_eq!(found.collect::<Vec<_>>(), want);
        seen.into_iter().map(|(.., draw)| draw).collect::<Vec<u32>>()
    };
    let draws = run(1);
    assert_eq!(run(3), draws, "whatever the number of threads");
    let mut distinct = draws.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), draws.len(), "each batch and each op draws its own");
}

#[test]
fn functions_on_batches_and_mixing_run_in_the_order_of_the_list() {
    let (_dir, path) = dataset::write(8, WriteMode::Raw, |_| Size::new(4, 4));
    let fill = |name, value| Lambda::batch(name, move |_, rows| rows.fill(value));
    let mixup = || MixUp::new(1.0).unwrap();
    let first = |ops: Ops| {
        let loader = open(&path).pipeline("image", ops).without("label").build().unwrap();
        let batch = loader.epoch(0).unwrap().next().unwrap().unwrap();
        batch.bytes("image").unwrap().to_vec()
    };
    assert!(first(ops![mixup(), fill("Seven", 7)]).iter().all(|&v| v == 7));
    assert!(first(ops![fill("Nine", 9), mixup()]).iter().all(|&v| v == 9));
    assert!(first(ops![fill("Nine", 9), fill("Seven", 7)]).iter().all(|&v| v == 7));
    let count = |host: HostRows<'_>, rows: &mut [u8]| {
        assert_eq!((host.dtype, host.shape), (DType::F32, &[3][..]), "class, partner, share");
        rows.as_chunks_mut::<4>().0.iter_mut().for_each(|value| *value = 2f32.to_ne_bytes());
    };
    let loader = open(&path)
        .pipeline("image", ops![mixup()])
        .pipeline("label", ops![mixup(), Lambda::batch("Twos", count)])
        .build()
        .unwrap();
    let batch = loader.epoch(0).unwrap().next().unwrap().unwrap();
    assert_eq!(batch.tensor::<f32>("label").unwrap().as_slice(), [2.0; 12]);
}

#[test]
fn an_error_of_a_function_on_batches_has_its_output_and_batch() {
    let (_dir, path) = dataset::write(12, WriteMode::Raw, |_| Size::new(4, 4));
    for output in ["image", "label"] {
        let fails = Lambda::batch("Fails", |host, _| at_six(host.samples[2]));
        let (before, error) = failed(open(&path).pipeline(output, ops![fails]));
        let found = (before, error.kind(), error.sample(), error.field());
        assert_eq!(found, (1, ErrorKind::Custom, None, Some(output)));
        assert!(error.get_ref().unwrap().is::<NotToday>());
        let text = error.to_string();
        assert_eq!(text, format!("batch 1: {output}: Fails failed in epoch 3: not today"));
    }
}

#[test]
fn a_function_on_batches_is_last_and_on_the_host() {
    let (_dir, path) = dataset::write(4, WriteMode::Raw, |_| Size::new(8, 8));
    let mine = || Lambda::batch("Mine", |_, _| ());
    let refused = |output: &str, ops: Ops| {
        open(&path).pipeline(output, ops).build().map(drop).unwrap_err().to_string()
    };
    let error = refused("image", ops![mine(), Normalize::imagenet()]);
    let cure = "put it before the function on batches, which must be last, or let that function change samples";
    assert!(error.contains("op 1 of the list: Normalize") && error.contains(cure), "{error}");
    assert_says(refused("label", ops![mine(), OneHot::new(10).unwrap()]), ["OneHot", cure]);
    let error = refused("image", ops![RandomApply::new(ops![mine()])]);
    assert_says(&error, ["Mine takes a finished batch (put it last, outside of containers)"]);
    let device = ToDevice::new("cuda:0").unwrap();
    let on_device = open(&path).device("cpu").pipeline("image", ops![device, mine()]);
    assert_says(on_device.build().map(drop).unwrap_err(), ["leave ToDevice out of its list"]);
    let error = refused("label", ops![mine(), MixUp::new(1.0).unwrap()]);
    assert!(error.contains("put it before the function on batches"), "{error}");
}
