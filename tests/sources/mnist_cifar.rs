//! Files of MNIST and CIFAR that torchvision has read too: as sources, through a loader, and converted.

use fuseloop::source::{Dataset, OwnedValue, Source};
use fuseloop::{Loader, SampleId, ops::*};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/mnist_cifar").join(name)
}

/// The samples of each dataset and split, as torchvision reads them.
fn expected() -> Vec<(PathBuf, Vec<Value>)> {
    let json: Value = serde_json::from_slice(&fs::read(golden("images.json")).unwrap()).unwrap();
    let named = [
        ("mnist", "train", "mnist"),
        ("mnist", "test", "mnist/t10k-images-idx3-ubyte.gz"),
        ("cifar-10-batches-bin", "train", "cifar-10-batches-bin"),
        ("cifar-10-batches-bin", "test", "cifar-10-batches-bin/test_batch.bin"),
        ("cifar-100-binary", "train", "cifar-100-binary"),
        ("cifar-100-binary", "test", "cifar-100-binary/test.bin"),
    ];
    let samples = |dataset: &str, split: &str| json[dataset][split].as_array().unwrap().clone();
    named.iter().map(|(dataset, split, name)| (golden(name), samples(dataset, split))).collect()
}

fn open(path: &Path) -> Arc<dyn Source> {
    Dataset::open(path).unwrap().source().unwrap()
}

/// Describes a record as the goldens do.
fn described(source: &dyn Source, sample: u64) -> Value {
    let record = source.read(SampleId(sample)).unwrap();
    let mut found = serde_json::json!({});
    for (field, value) in source.fields().iter().zip(record) {
        match value {
            OwnedValue::Int(label) => found[&field.name] = label.into(),
            OwnedValue::NdArray(bytes) => found["sha256"] = hash(&bytes).into(),
            OwnedValue::Image(image) => found["sha256"] = hash(&image.bytes).into(),
            other => panic!("{other:?}"),
        }
    }
    found
}

fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn samples_are_those_that_torchvision_reads() {
    for (path, samples) in expected() {
        let source = open(&path);
        assert_eq!(source.len(), samples.len() as u64, "{path:?}");
        for (sample, expected) in (0..).zip(&samples) {
            assert_eq!(described(&*source, sample), *expected, "{path:?}, sample {sample}");
        }
    }
    let names = |name: &str, class| {
        let names = open(&golden(name)).class_names().unwrap().unwrap();
        (names.iter().len(), names.get(class).unwrap().to_owned())
    };
    assert_eq!(names("mnist", 3), (10, "3".to_owned()));
    assert_eq!(names("cifar-10-batches-bin/test_batch.bin", 3), (10, "cat".to_owned()));
    assert_eq!(names("cifar-100-binary", 99), (100, "fine 99".to_owned()));
}

#[test]
fn a_loader_takes_them_by_name() {
    let loader = Loader::open(golden("mnist")).unwrap().batch_size(4);
    let normalize = Normalize::new([0.1307], [0.3081]).unwrap();
    let loader = loader.pipeline("image", ops![normalize, ToChannelsFirst]);
    let loader = loader.build().unwrap();
    let batch = loader.epoch(0).unwrap().next().unwrap().unwrap();
    let pixels = batch.tensor::<f32>("image").unwrap();
    assert_eq!(pixels.shape(), [4, 1, 5, 7]);
    let OwnedValue::NdArray(first) = &loader.source().read(SampleId(0)).unwrap()[0] else {
        panic!()
    };
    for (found, &level) in pixels.as_slice().iter().zip(first) {
        let expected = (f64::from(level) / 255.0 - 0.1307) / 0.3081;
        assert!((f64::from(*found) - expected).abs() < 1e-5, "{found} for {level}");
    }
    assert_eq!(batch.tensor::<i64>("label").unwrap().as_slice(), [4, 8, 9, 8]);

    let loader = Loader::open(golden("cifar-10-batches-bin")).unwrap().batch_size(6);
    let loader = loader.pipeline("image", ops![RandomCrop::new(32).unwrap().padding(4).unwrap()]);
    let batch = loader.build().unwrap().epoch(0).unwrap().next().unwrap().unwrap();
    assert_eq!(batch.shape("image").unwrap(), [6, 32, 32, 3]);
}

#[cfg(feature = "write")]
#[test]
fn a_conversion_keeps_images_labels_and_names() {
    use fuseloop::write::{WriteOptions, convert};
    let dir = tempfile::tempdir().unwrap();
    for (path, samples) in expected() {
        let source = open(&path);
        let mut formats = vec!["x.beton", "x-{00000}.tfrecord"];
        if cfg!(feature = "tar") {
            formats.push("x-{000}.tar");
        }
        for format in formats {
            let out = tempfile::tempdir_in(dir.path()).unwrap();
            convert(&*source, out.path().join(format), &WriteOptions::default()).unwrap();
            let pattern = match format {
                "x.beton" => "x.beton",
                "x-{000}.tar" => "x-*.tar",
                _ => "x-*.tfrecord",
            };
            let again = open(&out.path().join(pattern));
            assert_eq!(again.class_names().unwrap(), source.class_names().unwrap(), "{format}");
            assert_eq!(again.len(), samples.len() as u64);
            let (found, expected) = (loaded(&again), loaded(&source));
            assert_eq!((&found.0, &found.2), (&expected.0, &expected.2), "{path:?} as {format}");
            assert!(found.1 == expected.1, "{path:?} as {format}: other pixels");
        }
    }
}

/// Loads all samples of a dataset: the shape of the images, their bytes, and the values of the fine and of the
/// coarse label.
#[cfg(feature = "write")]
fn loaded(source: &Arc<dyn Source>) -> (Vec<usize>, Vec<u8>, [Vec<i64>; 2]) {
    use fuseloop::source::FieldKind;
    let fields = source.fields().to_vec();
    let name_of = |is_it: &dyn Fn(&FieldKind, &str) -> bool| {
        let mut fields = fields.iter().enumerate();
        let found = fields.find(|(_, field)| is_it(&field.kind, &field.name));
        found.map(|(k, _)| source.field_name(k).to_owned())
    };
    // In tar shards the names of fields are those of files: image.npy, cls, coarse_label.cls.
    let image = name_of(&|kind, _| *kind != FieldKind::Int).unwrap();
    let fine = name_of(&|kind, name| *kind == FieldKind::Int && !name.contains("coarse"));
    let coarse = name_of(&|kind, name| *kind == FieldKind::Int && name.contains("coarse"));
    let mut loader = Loader::from_dataset(Dataset::Source(Arc::clone(source))).batch_size(10);
    if image == "image" && fields.iter().any(|field| field.kind == FieldKind::RgbImage) {
        // The sizes of images in shards are not known before they are read.
        loader = loader.pipeline("image", ops![CenterCrop::new(32).unwrap()]);
    }
    let batch = loader.build().unwrap().epoch(0).unwrap().next().unwrap().unwrap();
    let labels = [fine, coarse].map(|name| {
        name.map_or_else(Vec::new, |name| batch.tensor::<i64>(&name).unwrap().as_slice().to_vec())
    });
    assert!(!labels[0].is_empty());
    (batch.shape(&image).unwrap().to_vec(), batch.bytes(&image).unwrap().to_vec(), labels)
}
