//! Arrays as images: signals, volumes, and arrays whose samples differ in length.

use fuseloop::internals::assert_says;
use fuseloop::loader::Collate;
use fuseloop::ops::{
    CenterCrop, Clip, Convert, DType, Gain, GaussianNoise, MixUp, Normalize, OneHot, Ops,
    PolarityInversion, RandomCrop, RandomHorizontalFlip, RandomResizedCrop, RandomVerticalFlip,
    Resize, Squeeze, ToChannelsFirst, ToChannelsLast, ops,
};
use fuseloop::preview::PreviewOptions;
use fuseloop::source::{Facts, FieldKind, InMemory, OwnedValue};
#[cfg(feature = "spec")]
use fuseloop::spec::Spec;
use fuseloop::{Loader, LoaderBuilder, SampleId};

/// Returns a loader of one field, `x`, whose samples are given.
fn builder(kind: FieldKind, samples: Vec<OwnedValue>) -> LoaderBuilder {
    let lengths = samples.iter().map(|value| match value {
        OwnedValue::Bytes(bytes) => bytes.len() as u64,
        _ => 0,
    });
    let (count, longest) = (samples.len(), lengths.max());
    let facts = Facts::new([("x", kind)], count as u64).with_longest(move |_| longest);
    let read = move |SampleId(sample): SampleId| Ok(vec![samples[sample as usize].clone()]);
    Loader::from_source(InMemory::from_fn(facts, read)).batch_size(count).workers(1)
}

/// Returns the elements of sample `sample`: no two are equal.
fn elements(sample: usize, count: usize) -> Vec<f32> {
    (0..count).map(|k| (1000 * sample) as f32 + k as f32 - 0.5).collect()
}

fn bytes(elements: &[f32]) -> Vec<u8> {
    elements.iter().flat_map(|element| element.to_le_bytes()).collect()
}

/// Returns a loader of three arrays of f32 of a shape.
fn arrays(shape: &[u64]) -> LoaderBuilder {
    let count = shape.iter().product::<u64>() as usize;
    let kind = FieldKind::NdArray { dtype: "<f4".parse().unwrap(), shape: shape.to_vec() };
    let samples = (0..3).map(|k| OwnedValue::NdArray(bytes(&elements(k, count))));
    builder(kind, samples.collect())
}

/// Returns a loader of arrays of f32 that are bytes to the source, of so many elements.
fn of_bytes(counts: &[usize]) -> LoaderBuilder {
    let samples = counts.iter().enumerate();
    let samples = samples.map(|(k, &count)| OwnedValue::Bytes(bytes(&elements(k, count))));
    builder(FieldKind::Bytes, samples.collect())
}

/// Returns the shape of a batch and its elements.
fn batch(builder: LoaderBuilder, ops: Ops) -> (Vec<usize>, Vec<f32>) {
    let loader = builder.pipeline("x", ops).build().unwrap();
    let batch = loader.epoch(0).unwrap().next().unwrap().unwrap();
    let tensor = batch.tensor::<f32>("x").unwrap();
    (tensor.shape().to_vec(), tensor.as_slice().to_vec())
}

fn refused(builder: LoaderBuilder, ops: Ops) -> String {
    builder.pipeline("x", ops).build().unwrap_err().to_string()
}

/// Returns whether `part` is a run of `whole`, forwards or backwards.
fn is_run(whole: &[f32], part: &[f32]) -> bool {
    let backwards: Vec<f32> = part.iter().rev().copied().collect();
    whole.windows(part.len()).any(|run| run == part || run == backwards)
}

#[test]
fn a_signal_has_one_axis() {
    let flipped =
        || ops![RandomCrop::new((1, 20)).unwrap(), RandomHorizontalFlip::new(0.5).unwrap()];
    let (shape, values) = batch(arrays(&[90]), flipped());
    assert_eq!(shape, [3, 20]);
    for (k, row) in values.chunks_exact(20).enumerate() {
        assert!(is_run(&elements(k, 90), row), "{row:?}");
    }
    let with = |last: Ops| batch(arrays(&[90]), [flipped(), last].concat());
    assert_eq!(with(ops![ToChannelsFirst]), (vec![3, 1, 20], values.clone()));
    assert_eq!(with(ops![ToChannelsLast]), (vec![3, 20, 1], values.clone()));
    assert_eq!(with(ops![Squeeze]), (vec![3, 20], values));
    let (shape, values) = batch(
        arrays(&[90]),
        ops![Clip::new(10.0, 20.0).unwrap(), PolarityInversion::new().p(1.0).unwrap()],
    );
    assert_eq!((shape, values[0], values[89]), (vec![3, 90], -10.0, -20.0));
}

#[test]
fn ops_that_make_rows_of_a_signal_are_refused() {
    let error = refused(arrays(&[90]), ops![Resize::new(30).unwrap()]);
    assert_eq!(
        error,
        "output x: a signal has one row, but these ops make 30: give sizes of one row, such as \
         RandomCrop::new((1, length))"
    );
    let error = refused(arrays(&[90]), ops![OneHot::new(3).unwrap()]);
    assert_says(&error, ["OneHot takes one i64 per sample, but gets a f32 tensor [90]"]);
}

#[test]
fn the_slices_of_a_volume_move_together() {
    let ops = || {
        ops![
            RandomCrop::new((5, 6)).unwrap(),
            RandomHorizontalFlip::new(0.5).unwrap(),
            RandomVerticalFlip::new(0.5).unwrap(),
        ]
    };
    let (shape, values) = batch(arrays(&[20, 9, 8]).axes("x", "DHW"), ops());
    assert_eq!(shape, [3, 20, 5, 6]);
    let slices: Vec<&[f32]> = values.chunks_exact(30).collect();
    for (k, slices) in slices.chunks_exact(20).enumerate() {
        let whole = elements(k, 20 * 72);
        for (d, slice) in slices.iter().enumerate() {
            // Each slice is the first one, with the difference of the stored slices.
            let offset = whole[d * 72] - whole[0];
            assert!(slice.iter().zip(slices[0]).all(|(v, first)| v - first == offset), "{d}");
            assert!(is_run(&whole[d * 72..][..72], &slice[..6]));
        }
    }
    // The same elements with more axes: frames of several channels.
    let frames = batch(arrays(&[5, 4, 9, 8]).axes("x", "TCHW"), ops());
    assert_eq!(frames, (vec![3, 5, 4, 5, 6], values.clone()));
    assert_eq!(batch(arrays(&[5, 4, 9, 8]), ops()).0, [3, 5, 4, 5, 6]);
    let mixed = batch(arrays(&[5, 4, 9, 8]), [ops(), ops![MixUp::new(1.0).unwrap()]].concat());
    assert_eq!(mixed.0, [3, 5, 4, 5, 6]);
    let last = batch(arrays(&[5, 4, 9, 8]), [ops(), ops![ToChannelsLast]].concat());
    assert_eq!(last.0, [3, 5, 6, 20]);
    assert_eq!(last.1[1], values[30]);
}

#[test]
fn axes_that_are_not_clear_are_asked_for() {
    let flip = || ops![RandomHorizontalFlip::new(0.5).unwrap()];
    let error = refused(arrays(&[9, 9, 20]), flip());
    assert_eq!(
        error,
        "field x: it is not clear which axes of [9, 9, 20] are rows, columns and channels: declare \
         them with `axes`, for example \"HWC\""
    );
    assert_eq!(batch(arrays(&[9, 9, 20]).axes("x", "HWC"), flip()).0, [3, 9, 9, 20]);
    assert_eq!(batch(arrays(&[9, 9, 20]).axes("x", "CHW"), flip()).0, [3, 9, 9, 20]);
    let error = refused(arrays(&[9, 9, 20]).axes("x", "HCW"), flip());
    assert!(error.contains("axes \"HCW\": expected one letter for each axis"), "{error}");
    // Lists that work on elements do not ask.
    let (shape, _) = batch(arrays(&[9, 9, 20]), ops![Convert::to(DType::F32)]);
    assert_eq!(shape, [3, 9, 9, 20]);
    let error = arrays(&[9, 9]).axes("y", "HW").build().unwrap_err().to_string();
    assert!(error.contains("no field named y") || error.contains('y'), "{error}");
    let error = of_bytes(&[9]).axes("x", "HW").build().unwrap_err().to_string();
    assert_eq!(error, "field x: only arrays have axes; this is bytes");
    let error = arrays(&[9]).arrays("x", DType::F32, &[9]).build().unwrap_err().to_string();
    assert_eq!(
        error,
        "field x: only bytes can be declared to be arrays; this is array, whose type is known"
    );
}

#[test]
fn samples_of_bytes_may_differ_in_length() {
    let counts = [300, 61, 1000, 64];
    let wave = || of_bytes(&counts).arrays("x", DType::F32, &[-1]);
    let crop = || ops![RandomCrop::new((1, 60)).unwrap()];
    let (shape, values) = batch(wave(), crop());
    assert_eq!(shape, [4, 60]);
    for (k, row) in values.chunks_exact(60).enumerate() {
        assert!(is_run(&elements(k, counts[k]), row), "{row:?}");
    }
    let padded = ops![RandomCrop::new((1, 70)).unwrap().pad_if_needed()];
    let (shape, values) = batch(wave(), padded);
    assert_eq!(shape, [4, 70]);
    assert_eq!(values.chunks_exact(70).nth(1).unwrap().iter().filter(|v| **v == 0.0).count(), 9);

    // Points: rows of three.
    let points = || of_bytes(&[30, 300, 33]).arrays("x", DType::F32, &[-1, 3]);
    let (shape, values) = batch(points(), ops![RandomCrop::new((10, 3)).unwrap()]);
    assert_eq!(shape, [3, 10, 3]);
    for (k, rows) in values.chunks_exact(30).enumerate() {
        let first = rows[0] - elements(k, 1)[0];
        assert_eq!(first % 3.0, 0.0, "a row begins with its first column");
        assert!(is_run(&elements(k, [30, 300, 33][k]), rows));
    }
    // Spectrograms of 10 bands, whose columns are time steps.
    let bands = of_bytes(&[300, 200, 90]).arrays("x", DType::F32, &[10, -1]);
    let (shape, values) = batch(bands, ops![RandomCrop::new((10, 8)).unwrap()]);
    assert_eq!(shape, [3, 10, 8]);
    assert_eq!(values[8] - values[0], 30.0);
    assert_eq!(values[2 * 80 + 8] - values[2 * 80], 9.0);
}

#[test]
fn bytes_that_are_not_whole_rows_are_damaged_samples() {
    let builder = of_bytes(&[30, 31]).arrays("x", DType::F32, &[-1, 3]);
    let loader = builder.pipeline("x", ops![RandomCrop::new((9, 3)).unwrap()]).build().unwrap();
    assert_says(
        loader.epoch(0).unwrap().find_map(Result::err).unwrap(),
        ["an array of 124 bytes: its shape needs a multiple of 12 bytes", "sample 1"],
    );
    let builder = of_bytes(&[30, 0]).arrays("x", DType::F32, &[-1, 3]);
    let loader = builder.pipeline("x", ops![RandomCrop::new((9, 3)).unwrap()]).build().unwrap();
    assert_says(loader.epoch(0).unwrap().find_map(Result::err).unwrap(), ["3x0: it has no pixels"]);
    // All bytes are one shape.
    let fixed = of_bytes(&[12, 12]).arrays("x", DType::F32, &[4, 3]);
    assert_eq!(batch(fixed, ops![RandomHorizontalFlip::new(1.0).unwrap()]).1[0], 1.5);
    let fixed = of_bytes(&[12, 11]).arrays("x", DType::F32, &[4, 3]).build().unwrap();
    assert_says(fixed.epoch(0).unwrap().find_map(Result::err).unwrap(), ["48 bytes"]);
}

#[test]
fn arrays_of_differing_lengths_need_ops_that_make_one() {
    let error =
        refused(of_bytes(&[30, 60]).arrays("x", DType::F32, &[-1, 3]), ops![GaussianNoise::new()]);
    let want = "arrays of shape [1..=20, 3] can't share a batch: add RandomCrop, CenterCrop, Resize or FixedPoints to";
    assert!(error.contains(want), "{error}");
    let error = refused(of_bytes(&[30, 60]).arrays("x", DType::F32, &[-1]), ops![]);
    assert_says(&error, ["signals of 1..=60 elements can't share a batch: add RandomCrop or"]);
    let error = of_bytes(&[8]).arrays("x", DType::I64, &[-1]).build().unwrap_err().to_string();
    assert!(error.contains("read it with `Collate::of`"), "{error}");
}

#[test]
fn a_view_may_be_compiled_beside_collated_bytes() {
    let builder = of_bytes(&[300, 66, 90]).arrays("x", DType::F32, &[-1]);
    let builder = builder.collate("x", Collate::ragged().of(DType::F32, &[])).view(
        "crop",
        "x",
        ops![RandomCrop::new((1, 60)).unwrap(), Gain::new(-6.0, 6.0).unwrap()],
    );
    let loader = builder.build().unwrap();
    let batch = loader.epoch(0).unwrap().next().unwrap().unwrap();
    assert_eq!(batch.shape("crop").unwrap(), [3, 60]);
    assert_eq!(batch.tensor::<i64>("x.length").unwrap().as_slice(), [300, 66, 90]);
}

#[cfg(feature = "spec")]
#[test]
fn a_pipeline_file_declares_arrays() {
    let shape = |text: &str, builder| {
        let loader = text.parse::<Spec>().unwrap().apply(builder).build().unwrap();
        loader.epoch(0).unwrap().next().unwrap().unwrap().shape("x").unwrap()
    };
    let text = "[axes]\nx = 'DHW'\n[fields]\nx = [{ op = 'RandomCrop', size = [5, 6] }]";
    assert_eq!(shape(text, arrays(&[20, 9, 8])), [3, 20, 5, 6]);
    let text = "[arrays]\nx = { dtype = 'f32', shape = [-1, 3] }\n\
        [fields]\nx = [{ op = 'RandomCrop', size = [5, 3] }]";
    assert_eq!(shape(text, of_bytes(&[30, 60])), [2, 5, 3]);
    for (text, want) in [
        ("[arrays]\nx = { dtype = 'f32', shape = [-1, 1.5] }", "shape"),
        ("[arrays]\nx = { shape = [-1, 3] }", "dtype"),
        ("[axes]\nx = 3", "axes"),
    ] {
        assert_says(text.parse::<Spec>().unwrap_err(), [want]);
    }
}

#[test]
fn a_resize_of_a_signal_interpolates_along_its_axis() {
    let (shape, values) = batch(arrays(&[90]), ops![Resize::new((1, 45)).unwrap()]);
    assert_eq!(shape, [3, 45]);
    // The middle of two neighbours at half the length, as far from the ends as the filter reaches.
    assert!((1..44).all(|k| (values[k] - (2.0 * k as f32)).abs() < 1e-3), "{values:?}");
    let part = RandomResizedCrop::new((1, 32)).unwrap();
    let normalized = ops![part, Normalize::values([45.0], [26.0]).unwrap()];
    assert_eq!(batch(arrays(&[90]), normalized).0, [3, 32]);
}

#[test]
fn a_signal_is_shown_as_a_waveform() {
    let loader = arrays(&[900]).pipeline("x", ops![RandomCrop::new((1, 300)).unwrap()]).build();
    let options = PreviewOptions { samples: 2, epochs: 2, ..PreviewOptions::default() };
    let sheet = loader.unwrap().preview(&options).unwrap();
    // A line from the lower left to the upper right corner of each cell, in the colour of waveforms.
    let ink = sheet.rgb().chunks_exact(3).filter(|pixel| **pixel == [0x6c, 0xb6, 0xff]).count();
    assert!((6 * 224..6 * 3 * 224).contains(&ink), "{ink} pixels of lines in six cells");
}

/// Returns a `.npy` file.
fn npy(descr: &str, shape: &str, elements: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n");
    let len = (header.len() as u16).to_le_bytes();
    [b"\x93NUMPY\x01\x00", &len[..], header.as_bytes(), elements].concat()
}

#[test]
fn bytes_may_be_npy_files_of_differing_lengths() {
    let files = |descr: &str| {
        let file =
            |(k, n): (usize, &usize)| npy(descr, &format!("({n}, 3)"), &bytes(&elements(k, 3 * n)));
        [10, 40].iter().enumerate().map(file).map(OwnedValue::Bytes).collect::<Vec<_>>()
    };
    let crop = || ops![CenterCrop::new((10, 3)).unwrap()];
    let points = |descr| builder(FieldKind::Bytes, files(descr)).arrays("x", DType::F32, &[-1, 3]);
    let (shape, values) = batch(points("<f4"), crop());
    assert_eq!((shape, values[0], values[30]), (vec![2, 10, 3], -0.5, 1044.5));
    let failed = |builder: LoaderBuilder| {
        let loader = builder.pipeline("x", crop()).build().unwrap();
        loader.epoch(0).unwrap().find_map(Result::err).unwrap().to_string()
    };
    let error = failed(points("<i4"));
    assert_says(&error, ["a .npy file of shape [10, 3] and dtype <i4, expected a f32 image ["]);
    let columns = builder(FieldKind::Bytes, files("<f4")).arrays("x", DType::F32, &[10, -1]);
    assert!(failed(columns).contains("a .npy file of shape [40, 3]"));
    let cut = npy("<f4", "(10, 3)", &bytes(&elements(0, 29)));
    let cut = builder(FieldKind::Bytes, vec![OwnedValue::Bytes(cut)]);
    let error = failed(cut.arrays("x", DType::F32, &[-1, 3]));
    assert!(error.contains("an array of [10, 3] of <f4 with 116 bytes"), "{error}");
}

/// Elements of types that tensors lack come as their values, never as raw bytes of another shape.
#[test]
fn arrays_of_any_type_of_numbers_are_their_values() {
    let one = |dtype: &str, shape: &[u64], stored: Vec<u8>| {
        let kind = FieldKind::NdArray { dtype: dtype.parse().unwrap(), shape: shape.to_vec() };
        let loader = builder(kind, vec![OwnedValue::NdArray(stored)]).build()?;
        loader.epoch(0)?.next().unwrap()
    };
    let floats = [1.5f32, -2.0].map(f32::to_be_bytes).concat();
    let batch = one(">f4", &[2], floats.clone()).unwrap();
    let tensor = batch.tensor::<f32>("x").unwrap();
    assert_eq!((tensor.shape(), tensor.as_slice()), (&[1, 2][..], &[1.5, -2.0][..]));
    let batch = one(">c8", &[1], floats).unwrap();
    let tensor = batch.tensor::<f32>("x").unwrap();
    assert_eq!((tensor.shape(), tensor.as_slice()), (&[1, 1, 2][..], &[1.5, -2.0][..]));
    let batch = one("|i1", &[2], vec![0xff, 0x80]).unwrap();
    assert_eq!(batch.tensor::<i16>("x").unwrap().as_slice(), [-1, -128]);
    let batch = one("<u4", &[1], u32::MAX.to_le_bytes().to_vec()).unwrap();
    assert_eq!(batch.tensor::<i64>("x").unwrap().as_slice(), [4_294_967_295]);
    let error = one("<u8", &[1], vec![0xff; 8]).err().unwrap();
    let text = "field x: its elements are <u8, which no tensor can hold";
    assert!(error.to_string().starts_with(text), "{error}");
    assert_eq!(error.field(), Some("x"));
}
