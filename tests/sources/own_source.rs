//! Custom sources: their errors are reported with the sample, records that do not match the declared
//! fields are refused, and images of sizes that are not known in advance are loaded.

use crate::common::dataset::{self, picture, varied};
use fuseloop::source::{BoxError, Facts, FieldKind, InMemory, OwnedImage, OwnedValue, Record};
use fuseloop::write::WriteMode;
use fuseloop::{Loader, LoaderBuilder, Order, SampleId, ops::*};
use jpeg_encoder::{ColorType, Encoder};

const SAMPLES: u64 = 24;

/// Returns a source of images and labels, by a function of the sample.
fn own(read: impl Fn(u64) -> Result<Record, BoxError> + Send + Sync + 'static) -> InMemory {
    let fields = [("image", FieldKind::RgbImage), ("label", FieldKind::Int)];
    InMemory::from_fn(Facts::new(fields, SAMPLES).named("my store"), move |sample| read(sample.0))
}

fn raw(sample: u64) -> OwnedImage {
    let size = varied(sample);
    OwnedImage::rgb(size, picture(sample, size))
}

fn jpeg(sample: u64) -> OwnedImage {
    let size = varied(sample);
    let mut bytes = vec![];
    let (width, height) = (size.width as u16, size.height as u16);
    let encoder = Encoder::new(&mut bytes, 90);
    encoder.encode(&picture(sample, size), width, height, ColorType::Rgb).unwrap();
    OwnedImage::jpeg(bytes)
}

fn record(sample: u64, image: OwnedImage) -> Record {
    vec![OwnedValue::Image(image), OwnedValue::Int(sample as i64 % 10)]
}

fn set_up(builder: LoaderBuilder) -> LoaderBuilder {
    let builder = builder.batch_size(5).seed(1).order(Order::Random).drop_last(false);
    let crop = RandomResizedCrop::new(32).unwrap();
    builder.pipeline("image", ops![crop, RandomHorizontalFlip::new(0.5).unwrap()])
}

/// All bytes of two epochs.
fn bytes(loader: &Loader) -> Vec<(Vec<SampleId>, Vec<u8>, Vec<u8>)> {
    let epochs = (0..2).flat_map(|epoch| loader.epoch(epoch).unwrap());
    epochs
        .map(|batch| {
            let batch = batch.unwrap();
            let bytes = |name| batch.bytes(name).unwrap().to_vec();
            (batch.ids().to_vec(), bytes("image"), bytes("label"))
        })
        .collect()
}

#[test]
fn a_source_gives_what_a_file_of_the_same_pictures_gives() {
    let (_dir, path) = dataset::write(SAMPLES, WriteMode::Raw, varied);
    let file = set_up(Loader::open(&path).unwrap()).build().unwrap();
    for workers in [1, 2, 8] {
        let source = own(|sample| Ok(record(sample, raw(sample))));
        let loader = set_up(Loader::from_source(source)).workers(workers).build().unwrap();
        assert!(bytes(&loader) == bytes(&file), "{workers} workers");
    }
}

#[test]
fn jpegs_of_unknown_size_are_cropped_as_those_of_a_file() {
    let sized = |sample| {
        let size = varied(sample);
        OwnedImage { width: size.width, height: size.height, ..jpeg(sample) }
    };
    let counted = set_up(Loader::from_source(own(move |sample| Ok(record(sample, sized(sample))))));
    let uncounted = set_up(Loader::from_source(own(|sample| Ok(record(sample, jpeg(sample))))));
    let (counted, uncounted) = (counted.build().unwrap(), uncounted.build().unwrap());
    let rows = bytes(&uncounted);
    assert_eq!(rows.iter().map(|(ids, ..)| ids.len() as u64).sum::<u64>(), 2 * SAMPLES);
    assert!(rows == bytes(&counted), "the header says the same");
}

/// The error at sample 11, from a loader that reads in the order of the dataset.
fn error_at_11(read: fn() -> Result<Record, BoxError>) -> String {
    let source = own(move |sample| match sample {
        11 => read(),
        _ => Ok(record(sample, raw(sample))),
    });
    let builder = set_up(Loader::from_source(source)).order(Order::Sequential);
    let loader = builder.workers(2).build().unwrap();
    let mut batches = loader.epoch(0).unwrap();
    for _ in 0..2 {
        assert_eq!(batches.next().unwrap().unwrap().len(), 5);
    }
    let error = batches.next().unwrap().unwrap_err();
    assert_eq!(error.sample(), Some(SampleId(11)));
    assert!(batches.next().is_none(), "nothing after it");
    error.to_string()
}

#[test]
fn what_the_users_code_says_comes_with_batch_sample_and_field() {
    assert_eq!(
        error_at_11(|| Err("the server is down".into())),
        "batch 2: sample 11: my store (image): the server is down"
    );
    let message = error_at_11(|| Err(Box::new(std::io::Error::other("reset"))));
    assert_eq!(message, "batch 2: sample 11: my store (image): reset");
    assert_eq!(error_at_11(|| panic!("an index")), "batch 2: sample 11: panic: an index");
}

#[test]
fn a_record_that_is_not_as_the_fields_say_is_refused() {
    for (read, wanted) in [
        ((|| Ok(vec![])) as fn() -> Result<Record, BoxError>, "the record has 0 values"),
        (|| Ok([record(11, raw(11)), record(11, raw(11))].concat()), "the record has 4 values"),
        (|| Ok(vec![OwnedValue::Int(1), OwnedValue::Int(1)]), "the record has an int"),
        (
            || Ok(vec![OwnedValue::Image(raw(11)), OwnedValue::Float(1.0)]),
            "is of the kind int, the record has a float",
        ),
    ] {
        let message = error_at_11(read);
        assert!(message.starts_with("batch 2: sample 11: my store (image): "), "{message}");
        assert!(message.contains(wanted), "{message}");
    }
}

#[test]
fn a_raw_picture_of_another_number_of_bytes_is_refused() {
    for bytes in [0, 4 * 5 * 3 - 1, 4 * 5 * 3 + 1] {
        let image = move || OwnedImage::rgb((4, 5), vec![0; bytes]);
        let source = own(move |sample| Ok(record(sample, image())));
        let loader = set_up(Loader::from_source(source)).build().unwrap();
        let error = loader.epoch(0).unwrap().next().unwrap().unwrap_err().to_string();
        assert!(error.contains(&format!("an image of 5 x 4, {bytes} bytes")), "{error}");
    }
    let huge = || Ok(record(11, OwnedImage::rgb(u32::MAX, vec![0; 3])));
    assert!(error_at_11(huge).contains("3 bytes"));
}

#[test]
fn a_jpeg_that_is_none_is_an_error_of_its_sample() {
    for bytes in [vec![], vec![0xff, 0xd8], b"GIF89a".to_vec(), jpeg(3).bytes[..200].to_vec()] {
        let source = own(move |sample| {
            let image = if sample == 2 { OwnedImage::jpeg(bytes.clone()) } else { jpeg(sample) };
            Ok(record(sample, image))
        });
        let builder = set_up(Loader::from_source(source)).order(Order::Sequential);
        let error = builder.build().unwrap().epoch(0).unwrap().next().unwrap().unwrap_err();
        let message = error.to_string();
        assert!(message.starts_with("batch 0: sample 2: my store (image): "), "{message}");
    }
}

#[test]
fn pictures_of_unknown_size_need_an_op_that_gives_them_one() {
    let source = || own(|sample| Ok(record(sample, jpeg(sample))));
    assert!(Loader::from_source(source()).build().is_err());
    let loader = Loader::from_source(source()).without("image").build().unwrap();
    assert_eq!(loader.tensors().len(), 1);
    let index = Loader::from_source(source()).without("image").indices([SAMPLES]).build();
    let message = index.err().unwrap().to_string();
    assert_eq!(message, format!("index {SAMPLES}: the dataset has {SAMPLES} samples"));
}

/// A source may hold what it opened; it is dropped with the loader and its batches.
#[test]
fn a_source_is_dropped_with_its_loader() {
    let kept = std::sync::Arc::new(());
    let held = std::sync::Arc::clone(&kept);
    let source = own(move |sample| {
        let _ = &held;
        Ok(record(sample, raw(sample)))
    });
    let loader = set_up(Loader::from_source(source)).workers(2).build().unwrap();
    assert!(loader.epoch(0).unwrap().next().unwrap().is_ok());
    drop(loader);
    assert_eq!(std::sync::Arc::strong_count(&kept), 1);
}
