//! Samples of differing sizes: each one equals what the source stores, whatever form collates it;
//! earlier content of the memory never shows; samples that do not fit are refused by name.

use crate::common::dataset::{self, picture, varied};
use fuseloop::batch::{Batch, Element, TensorRows};
use fuseloop::internals::recorded_warnings;
use fuseloop::loader::Collate;
use fuseloop::ops::internals::SampleKey;
use fuseloop::source::{Facts, FieldKind, FieldSpec, ImageStats, InMemory, OwnedImage, OwnedValue};
use fuseloop::spec::Spec;
use fuseloop::write::{FieldValue, WriteMode, WriteOptions, write_iter};
use fuseloop::{ImageReadMode, Loader, LoaderBuilder, Order, ops::*};
use std::fmt::Debug;
use std::path::PathBuf;

/// A field of bytes, held in memory. The source may not know the longest value.
struct Texts {
    values: Vec<Vec<u8>>,
    knows_longest: bool,
}

impl Texts {
    fn new(values: Vec<Vec<u8>>) -> Self {
        Self { values, knows_longest: true }
    }

    fn loader(self) -> LoaderBuilder {
        let (values, knows_longest) = (self.values, self.knows_longest);
        let longest = values.iter().map(Vec::len).max().unwrap_or(0) as u64;
        let fields = [("text", FieldKind::Bytes), ("place", FieldKind::Int)];
        let facts = Facts::new(fields, values.len() as u64)
            .with_longest(move |_| knows_longest.then_some(longest));
        let source = InMemory::from_fn(facts, move |sample| {
            let text = values[sample.0 as usize].clone();
            Ok(vec![OwnedValue::Bytes(text), OwnedValue::Int(sample.0 as i64)])
        });
        Loader::from_source(source).batch_size(7).seed(5).order(Order::Random).drop_last(false)
    }
}

/// `count` samples of 0 to 9 items of `item` bytes each; at least one sample has 0 items and one has 9.
fn varied_texts(count: u64, item: usize) -> Vec<Vec<u8>> {
    let text = |sample| {
        let mut rng = SampleKey::new(3, 0, sample).op(0);
        let length = match sample % 5 {
            0 => 0,
            1 => 9,
            _ => rng.below(10) as usize,
        };
        (0..length * item).map(|_| rng.below(256) as u8).collect()
    };
    (0..count).map(text).collect()
}

fn written(values: &[Vec<u8>]) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("texts.beton");
    let fields = [("text", FieldKind::Bytes), ("place", FieldKind::Int)].map(FieldSpec::from);
    let row = |(index, text): (usize, &Vec<u8>)| {
        vec![FieldValue::Bytes(text.clone()), FieldValue::Int(index as i64)]
    };
    write_iter(values.iter().enumerate().map(row), &fields, &path, &WriteOptions::default())
        .unwrap();
    (dir, path)
}

/// The bytes of elements.
trait Plain: Element + Debug + PartialEq {
    fn bytes(self) -> Vec<u8>;
}

macro_rules! plain {
    ($($element:ty),*) => {$(
        impl Plain for $element {
            fn bytes(self) -> Vec<u8> {
                self.to_ne_bytes().to_vec()
            }
        }
    )*};
}

plain!(u8, u16, i16, i32, i64, half::f16, half::bf16, f32, f64);

fn bytes<T: Plain>(elements: &[T]) -> Vec<u8> {
    elements.iter().flat_map(|&element| element.bytes()).collect()
}

/// Asserts that the samples of a batch, as items of `T`, are those stored, by each accessor.
fn assert_as_stored<T: Plain>(batch: &Batch, values: &[Vec<u8>], form: &Collate, inner: usize) {
    let want: Vec<&Vec<u8>> = batch.ids().iter().map(|id| &values[id.0 as usize]).collect();
    let item = T::DTYPE.bytes() * inner;
    let lengths = batch.tensor::<i64>("text.length").unwrap();
    assert_eq!(lengths.shape(), [batch.len()]);
    assert!(lengths.as_slice().iter().eq(&lengths_of(&want, item)), "{form:?}");
    match batch.specs()[0].rows {
        TensorRows::Even | TensorRows::Padded { .. } | TensorRows::Device { .. } => {
            let rows = batch.tensor::<T>("text").unwrap();
            assert_eq!(rows.shape()[..2], [batch.len(), 9]);
            for (i, want) in want.iter().enumerate() {
                let row = bytes(rows.row(i).unwrap());
                assert_eq!(row.len(), 9 * item);
                assert!(row.starts_with(want), "{form:?}");
                assert!(row[want.len()..].iter().all(|&byte| byte == 0), "{form:?}");
            }
            return;
        }
        TensorRows::Ragged { .. } => {
            let ragged = batch.ragged::<T>("text").unwrap();
            let all: Vec<u8> = want.iter().copied().flatten().copied().collect();
            assert_eq!(bytes(ragged.values()), all);
            assert_eq!(batch.bytes("text").unwrap(), all);
            let ends = lengths.as_slice().iter().scan(0, |end, &n| {
                *end += n as u64;
                Some(*end)
            });
            assert!(ragged.offsets().iter().copied().eq([0].into_iter().chain(ends)));
            for (i, &want) in want.iter().enumerate() {
                assert_eq!(bytes(ragged.row(i).unwrap()), *want);
            }
            assert_eq!((ragged.row(want.len()), ragged.len()), (None, want.len()));
        }
        TensorRows::List { .. } => assert!(batch.bytes("text").is_err()),
    }
    let list = batch.list::<T>("text").unwrap();
    assert_eq!(list.len(), want.len());
    assert!(list.map(bytes).eq(want.into_iter().cloned()), "{form:?}");
}

fn lengths_of(values: &[&Vec<u8>], item: usize) -> Vec<i64> {
    values.iter().map(|value| (value.len() / item) as i64).collect()
}

/// Tests every form for each number of workers, from a file and from a custom source.
fn assert_every_form<T: Plain>(inner: &[usize]) {
    let count = inner.iter().product();
    let values = varied_texts(40, T::DTYPE.bytes() * count);
    let (_dir, path) = written(&values);
    for form in [Collate::pad(), Collate::ragged(), Collate::list()] {
        let form = form.of(T::DTYPE, inner);
        for workers in [1, 2, 8] {
            let file = || Loader::open(&path).unwrap().batch_size(7).drop_last(false);
            let records = || Texts::new(values.clone()).loader();
            for builder in [file(), records(), file().order(Order::Random)] {
                let builder = builder.collate("text", form.clone()).workers(workers);
                let loader = builder.batches_ahead(2).build().unwrap();
                let mut seen = 0;
                for batch in (0..2).flat_map(|epoch| loader.epoch(epoch).unwrap()) {
                    let batch = batch.unwrap();
                    assert_as_stored::<T>(&batch, &values, &form, count);
                    seen += batch.len();
                }
                assert_eq!(seen, 80);
            }
        }
    }
}

#[test]
fn samples_are_those_stored_in_every_form_and_type() {
    assert_every_form::<u8>(&[]);
    assert_every_form::<u16>(&[]);
    assert_every_form::<i16>(&[]);
    assert_every_form::<i32>(&[2, 2]);
    assert_every_form::<i64>(&[]);
    assert_every_form::<half::f16>(&[3]);
    assert_every_form::<half::bf16>(&[]);
    assert_every_form::<f32>(&[4]);
    assert_every_form::<f64>(&[1]);
}

#[test]
fn tensors_say_what_they_are() {
    let form = Collate::ragged().of(DType::F32, &[4]);
    let values = varied_texts(9, 16);
    let loader = Texts::new(values).loader().collate("text", form).build().unwrap();
    let tensors = loader.tensors();
    let names: Vec<&str> = tensors.iter().map(|tensor| &*tensor.name).collect();
    assert_eq!(names, ["text", "place", "text.length"]);
    assert_eq!((tensors[0].dtype, &*tensors[0].shape), (DType::F32, &[9, 4][..]));
    assert_eq!(tensors[0].rows, TensorRows::Ragged { sizes: 2 });
    assert_eq!((tensors[2].dtype, &*tensors[2].shape), (DType::I64, &[][..]));
    assert!(loader.explain().contains("ragged, each at most f32 [9, 4]"), "{}", loader.explain());
    let batch = loader.epoch(0).unwrap().next().unwrap().unwrap();
    assert_eq!(batch.ragged::<f32>("text").unwrap().inner(), [4]);
}

/// Long samples of 0xff come first, then short ones, which reuse the same memory, because there is only
/// one slot.
#[test]
fn rows_of_earlier_batches_never_shine_through() {
    let long = (0..4).map(|_| vec![0xff; 64]);
    let values: Vec<Vec<u8>> = long.chain((0..4).map(|length| vec![1; 8 * length])).collect();
    for (form, behind) in [
        (Collate::pad(), Some(0)),
        (Collate::pad().fill(-100.0), Some(-100)),
        (Collate::pad().fill(-1.0), Some(-1)),
        (Collate::ragged(), None),
        (Collate::list(), None),
    ] {
        let builder = Texts::new(values.clone()).loader().order(Order::Sequential).batch_size(4);
        let builder = builder.collate("text", form.of(DType::I64, &[]));
        let loader = builder.workers(1).batches_ahead(1).build().unwrap();
        for epoch in 0..3 {
            let mut batches = loader.epoch(epoch).unwrap();
            drop(batches.next().unwrap().unwrap());
            let batch = batches.next().unwrap().unwrap();
            let ones = |count| vec![0x0101_0101_0101_0101_i64; count];
            match behind {
                Some(behind) => {
                    let rows = batch.tensor::<i64>("text").unwrap();
                    for length in 0..4 {
                        let mut want = ones(length);
                        want.resize(8, behind);
                        assert_eq!(rows.row(length).unwrap(), want);
                    }
                }
                None => {
                    let samples = batch.list::<i64>("text").unwrap();
                    assert!(samples.eq((0..4).map(ones)));
                }
            }
            assert_eq!(batch.tensor::<i64>("text.length").unwrap().as_slice(), [0, 1, 2, 3]);
        }
    }
}

#[test]
fn rows_have_room_for_what_is_asked_and_longer_ones_are_refused_or_cut() {
    let values = vec![vec![1; 4], vec![2; 12], vec![3; 8]];
    let to = |form: Collate| {
        let form = form.of(DType::I32, &[]).to(2);
        let builder = Texts::new(values.clone()).loader().order(Order::Sequential);
        let loader = builder.collate("text", form).build().unwrap();
        loader.epoch(0).unwrap().next().unwrap()
    };
    let (one, two, three) = (0x0101_0101, 0x0202_0202, 0x0303_0303);
    let batch = to(Collate::pad().truncate().fill(7.0)).unwrap();
    let text = batch.tensor::<i32>("text").unwrap();
    assert_eq!(
        (text.shape(), text.as_slice()),
        (&[3, 2][..], &[one, 7, two, two, three, three][..])
    );
    assert_eq!(batch.tensor::<i64>("text.length").unwrap().as_slice(), [1, 2, 2]);
    let batch = to(Collate::ragged().truncate()).unwrap();
    assert_eq!(batch.ragged::<i32>("text").unwrap().values(), [one, two, two, three, three]);
    for form in [Collate::pad(), Collate::ragged(), Collate::list()] {
        assert_eq!(
            to(form).unwrap_err().to_string(),
            "batch 0: sample 1: the source (text): a length of 3, rows have room for 2: raise \
             `to`, or use `truncate`"
        );
    }
    let long = Texts::new(values.clone()).loader().collate("text", Collate::pad().to(20));
    let batch = long.build().unwrap().epoch(0).unwrap().next().unwrap().unwrap();
    assert_eq!(batch.tensor::<u8>("text").unwrap().shape(), [3, 20]);
}

#[test]
fn bytes_that_are_no_whole_elements_are_refused() {
    for form in [Collate::pad(), Collate::ragged().truncate(), Collate::list().to(1)] {
        let builder = Texts::new(vec![vec![0; 16], vec![0; 24], vec![0; 15]]).loader();
        let builder = builder.collate("text", form.of(DType::F32, &[2]).to(3));
        let loader = builder.order(Order::Sequential).build().unwrap();
        assert_eq!(
            loader.epoch(0).unwrap().next().unwrap().unwrap_err().to_string(),
            "batch 0: sample 2: the source (text): 15 bytes are not a whole number of items of 8 bytes"
        );
    }
}

/// The error message of a builder that is refused.
fn refused(builder: LoaderBuilder) -> String {
    builder.build().err().unwrap().to_string()
}

#[test]
fn what_can_not_be_is_told_when_the_loader_is_made() {
    let texts = || Texts::new(vec![vec![0; 8]]).loader();
    let text = |form| refused(texts().collate("text", form));
    let pad = |dtype, inner: &[usize]| Collate::pad().of(dtype, inner);
    let most = usize::MAX;
    let inner = "give 1 or more along each dimension, or &[]";
    for (form, want) in [
        (pad(DType::U8, &[]).fill(256.0), "the padding value 256 does not fit u8"),
        (pad(DType::I16, &[]).fill(0.5), "the padding value 0.5 does not fit i16"),
        (pad(DType::U16, &[]).fill(-1.0), "the padding value -1 does not fit u16"),
        (pad(DType::F16, &[]).fill(1e6), "the padding value 1000000 does not fit f16"),
        (
            Collate::list().fill(1.0),
            "`fill` sets the padding value, but nothing is padded: use `pad`",
        ),
        (pad(DType::F32, &[2, 0]), &format!("an inner shape of [2, 0]: {inner}")),
        (pad(DType::F32, &[most, 4]), &format!("an inner shape of [{most}, 4]: {inner}")),
        (Collate::pad().to_size((2, 3)), "`to_size` is for images: use `to(max)`"),
        (Collate::pad().to(0), "a limit of 0 elements, expected at least 1"),
    ] {
        assert_eq!(text(form), format!("output text: {want}"));
    }
    assert_eq!(
        text(Collate::pad().to(most)),
        format!("field text: a value of {most} bytes is over the limit of 1073741824")
    );
    assert_eq!(
        refused(texts().collate("place", Collate::pad())),
        "output place: collate is for bytes, JSON and images; this field is int: its samples all \
         have one size"
    );
    assert_eq!(
        refused(texts().collate("txet", Collate::pad())),
        "no output named txet; available: text, place"
    );
    let view = texts().collate("text", Collate::pad()).view("text.length", "place", ops![]);
    assert_eq!(refused(view), "output text.length: a field or another output has this name");
    let unknown = || Texts { knows_longest: false, ..Texts::new(vec![vec![0; 8]]) }.loader();
    assert_eq!(
        refused(unknown().collate("text", Collate::ragged())),
        "output text: the length of its longest value is unknown: use `to(max)`"
    );
    let loader = unknown().collate("text", Collate::ragged().to(8)).build().unwrap();
    let batch = loader.epoch(0).unwrap().next().unwrap().unwrap();
    assert_eq!(batch.ragged::<u8>("text").unwrap().values(), [0; 8]);
}

#[test]
fn bytes_of_unknown_length_are_left_out_with_one_warning_unless_they_are_asked_for() {
    let unknown = || Texts { knows_longest: false, ..Texts::new(vec![vec![0; 8]]) }.loader();
    let (loader, warnings) = recorded_warnings(|| unknown().build().unwrap());
    let batch = loader.epoch(0).unwrap().next().unwrap().unwrap();
    assert_eq!(batch.names().collect::<Vec<_>>(), ["place"]);
    let of_text = |warning: &&String| warning.contains("the longest value of text is unknown");
    let warnings: Vec<&String> = warnings.iter().filter(of_text).collect();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("set its `collate`, such as `ragged`"), "{}", warnings[0]);
    for asked_for in [unknown().pipeline("text", ops![]), unknown().without("place")] {
        let (error, warnings) = recorded_warnings(|| refused(asked_for));
        assert!(
            error.starts_with("field text: the length of its longest value is unknown"),
            "{error}"
        );
        assert!(!warnings.iter().any(|warning| of_text(&warning)), "{warnings:?}");
    }
}

#[test]
fn a_view_may_be_collated_otherwise() {
    let values = varied_texts(11, 1);
    let builder = Texts::new(values.clone()).loader().view("ragged", "text", ops![]);
    let builder = builder.collate("text", Collate::pad()).collate("ragged", Collate::ragged());
    let loader = builder.without("place").workers(2).build().unwrap();
    for batch in loader.epoch(0).unwrap() {
        let batch = batch.unwrap();
        let names: Vec<&str> = batch.names().collect();
        assert_eq!(names, ["text", "ragged", "text.length", "ragged.length"]);
        let (rows, ragged) =
            (batch.tensor::<u8>("text").unwrap(), batch.ragged::<u8>("ragged").unwrap());
        for (i, id) in batch.ids().iter().enumerate() {
            let want = &values[id.0 as usize];
            assert_eq!(ragged.row(i).unwrap(), want);
            assert!(rows.row(i).unwrap().starts_with(want));
        }
    }
}

#[test]
fn json_comes_without_its_final_nul() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("json.beton");
    let values = ["[]", "{\"a\": 1}", "[1, 2, 3]"].map(|text| serde_json::from_str(text).unwrap());
    let rows = values.iter().map(|value: &serde_json::Value| vec![FieldValue::Json(value.clone())]);
    write_iter(rows, &[("meta", FieldKind::Json).into()], &path, &WriteOptions::default()).unwrap();
    for form in [Collate::ragged(), Collate::list()] {
        let builder = Loader::open(&path).unwrap().batch_size(3).collate("meta", form);
        let batch = builder.build().unwrap().epoch(0).unwrap().next().unwrap().unwrap();
        let texts = batch.list::<u8>("meta").unwrap();
        let parsed = texts.map(|text| serde_json::from_slice::<serde_json::Value>(text).unwrap());
        assert!(parsed.eq(values.iter().cloned()));
    }
    let form = Collate::pad().of(DType::I64, &[]);
    assert_eq!(
        refused(Loader::open(&path).unwrap().collate("meta", form)),
        "output meta: `of` is for bytes; this field is json: its elements have a type"
    );
}

/// Returns images held in memory. The source may not know their sizes.
fn pictures_of(pictures: Vec<OwnedImage>, stats: Option<ImageStats>) -> InMemory {
    let facts = Facts::new([("image", FieldKind::RgbImage)], pictures.len() as u64)
        .with_image_stats(move |_| stats.clone());
    InMemory::from_fn(facts, move |sample| {
        Ok(vec![OwnedValue::Image(pictures[sample.0 as usize].clone())])
    })
}

fn pictures(sizes: &[(u32, u32)]) -> LoaderBuilder {
    let picture = |(index, &(height, width)): (usize, &(u32, u32))| {
        let pixels = picture(index as u64, Size::new(height, width));
        OwnedImage::rgb((height, width), pixels)
    };
    let pictures = sizes.iter().enumerate().map(picture).collect();
    Loader::from_source(pictures_of(pictures, None)).drop_last(false)
}

/// An image in a corner, with `pad` in the rest of the frame.
fn padded(pixels: &[u8], size: Size, to: Size, pad: u8) -> Vec<u8> {
    let at = |y: u32, x: u32, c: usize| {
        let inside = y < size.height && x < size.width;
        if inside { pixels[(y * size.width + x) as usize * 3 + c] } else { pad }
    };
    let positions = (0..to.height).flat_map(|y| (0..to.width).map(move |x| (y, x)));
    positions.flat_map(|(y, x)| (0..3).map(move |c| at(y, x, c))).collect()
}

#[test]
fn pictures_of_any_size_are_padded_or_listed() {
    let small = |sample: u64| if sample == 4 { Size::new(1, 1) } else { varied(sample) };
    let (_dir, path) = dataset::write(23, WriteMode::Raw, small);
    for workers in [1, 2, 8] {
        for (form, pad) in [
            (Collate::pad(), Some(0)),
            (Collate::pad().fill(114.0), Some(114)),
            (Collate::list(), None),
        ] {
            let builder = Loader::open(&path).unwrap().batch_size(5).order(Order::Random);
            let builder = builder.collate("image", form).workers(workers).drop_last(false);
            let loader = builder.build().unwrap();
            for batch in (0..2).flat_map(|epoch| loader.epoch(epoch).unwrap()) {
                let batch = batch.unwrap();
                let ids = batch.ids().iter().map(|id| id.0);
                let sizes = batch.tensor::<i64>("image.size").unwrap();
                assert_eq!(sizes.shape(), [batch.len(), 2]);
                let want = ids.clone().map(small);
                let want = want.flat_map(|size| [i64::from(size.height), i64::from(size.width)]);
                assert!(sizes.as_slice().iter().copied().eq(want));
                let Some(pad) = pad else {
                    let list = batch.list::<u8>("image").unwrap();
                    assert!(list.eq(ids.map(|id| picture(id, small(id)))));
                    continue;
                };
                let images = batch.tensor::<u8>("image").unwrap();
                let most = ids.clone().map(small).fold(Size::new(0, 0), |most, size| {
                    Size::new(most.height.max(size.height), most.width.max(size.width))
                });
                let sides = [batch.len(), most.height as usize, most.width as usize, 3];
                assert_eq!(batch.bytes("image").unwrap(), images.as_slice());
                assert_eq!(images.shape(), sides);
                for (row, id) in ids.enumerate() {
                    let want = padded(&picture(id, small(id)), small(id), most, pad);
                    assert!(images.row(row).unwrap() == want, "sample {id}");
                }
            }
        }
    }
}

/// Returns a PNG of 16-bit gray.
fn png16(height: u32, width: u32, levels: impl Iterator<Item = u16>) -> OwnedImage {
    let mut bytes = vec![];
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(png::ColorType::Grayscale);
    encoder.set_depth(png::BitDepth::Sixteen);
    let levels: Vec<u8> = levels.flat_map(u16::to_be_bytes).collect();
    encoder.write_header().unwrap().write_image_data(&levels).unwrap();
    OwnedImage::png(bytes)
}

#[test]
fn levels_of_16_bits_are_padded_and_listed() {
    let sizes = [(2, 3), (4, 1)];
    let level = |n: usize, at: u32| (n as u32 * 20_000 + at * 300) as u16;
    let levels = |n: usize| (0..sizes[n].0 * sizes[n].1).map(move |at| level(n, at));
    let first = |form: Collate| {
        let picture = |n: usize| png16(sizes[n].0, sizes[n].1, levels(n));
        let (min, max) = (Some(Size::new(2, 1)), Some(Size::new(4, 3)));
        let stats = Some(ImageStats { min, max, ..ImageStats::default() });
        let source = pictures_of(vec![picture(0), picture(1)], stats);
        let builder = Loader::from_source(source).drop_last(false).collate("image", form);
        let loader = builder.read_mode("image", ImageReadMode::Gray16).build().unwrap();
        loader.epoch(0).unwrap().next().unwrap().unwrap()
    };
    let padded = |[rows, columns]: [u32; 2], pad: u16| -> Vec<u16> {
        let pixel = |n: usize, y: u32, x: u32| {
            let (height, width) = sizes[n];
            if y < height && x < width { level(n, y * width + x) } else { pad }
        };
        let row = |n, y| (0..columns).map(move |x| pixel(n, y, x));
        (0..2).flat_map(|n| (0..rows).flat_map(move |y| row(n, y))).collect()
    };
    for (form, want) in [
        (Collate::pad(), padded([4, 3], 0)),
        (Collate::pad().fill(1000.0), padded([4, 3], 1000)),
        (Collate::pad().to_size((5, 4)).fill(65_535.0), padded([5, 4], 65_535)),
    ] {
        let batch = first(form);
        assert_eq!(batch.tensor::<u16>("image").unwrap().as_slice(), want);
        assert_eq!(batch.tensor::<i64>("image.size").unwrap().as_slice(), [2, 3, 4, 1]);
    }
    let batch = first(Collate::list());
    let list = batch.list::<u16>("image").unwrap();
    assert!(list.eq((0..2).map(|n| levels(n).collect::<Vec<u16>>())));
    let refused = refused(
        pictures(&[(1, 1)])
            .read_mode("image", ImageReadMode::Gray16)
            .collate("image", Collate::pad().to_size(2).fill(65_536.0)),
    );
    assert_eq!(refused, "output image: the padding value 65536 does not fit u16");
}

#[test]
fn a_padded_picture_shares_its_decode_with_its_views() {
    let (_dir, path) = dataset::write(9, WriteMode::Jpg, varied);
    let crop = || ops![RandomCrop::new(32).unwrap()];
    let base = || Loader::open(&path).unwrap().batch_size(9).seed(2);
    let both = base().view("crop", "image", crop()).collate("image", Collate::list());
    let alone = base().view("crop", "image", crop()).without("image");
    let loader = both.build().unwrap();
    let first = |loader: &Loader| loader.epoch(0).unwrap().next().unwrap().unwrap();
    let (both, alone) = (first(&loader), first(&alone.build().unwrap()));
    assert!(both.bytes("crop").unwrap() == alone.bytes("crop").unwrap());
    assert_eq!(loader.decoded(), 9);
    let sizes = both.list::<u8>("image").unwrap().map(<[u8]>::len);
    assert!(sizes.eq((0..9).map(|sample| varied(sample).pixels() as usize * 3)));
}

#[test]
fn pictures_of_unknown_size_have_the_room_that_is_given() {
    let sizes = [(3, 5), (1, 1), (4, 2)];
    let first = |form: Collate| {
        let loader = pictures(&sizes).batch_size(3).collate("image", form).build().unwrap();
        loader.epoch(0).unwrap().next().unwrap()
    };
    let cut = |sample: usize, to: Size| {
        let (height, width) = sizes[sample];
        let size = Size::new(height, width);
        let kept = Size::new(height.min(to.height), width.min(to.width));
        let pixels = padded(&picture(sample as u64, size), size, kept, 0);
        (pixels, kept)
    };
    let to = Size::new(3, 3);
    let batch = first(Collate::list().to_size(3).truncate()).unwrap();
    assert!(batch.list::<u8>("image").unwrap().eq((0..3).map(|sample| cut(sample, to).0)));
    assert_eq!(batch.tensor::<i64>("image.size").unwrap().as_slice(), [3, 3, 1, 1, 3, 2]);
    let batch = first(Collate::pad().to_size(3).truncate().fill(9.0)).unwrap();
    for sample in 0..3 {
        let (pixels, kept) = cut(sample, to);
        let row = padded(&pixels, kept, to, 9);
        assert_eq!(batch.tensor::<u8>("image").unwrap().row(sample).unwrap(), row);
    }
    assert_eq!(
        first(Collate::pad().to_size((3, 5))).unwrap_err().to_string(),
        "batch 0: sample 2: the source (image): an image of 2x4, rows have room for 5x3: raise \
         `to_size`, or use `truncate`"
    );
    for (form, want) in [
        (
            Collate::pad(),
            "the source does not report the sizes of its images: use \
             `to_size((height, width))`, in a pipeline file `to_size = [height, width]`",
        ),
        (
            Collate::list().to(4),
            "`to` is a length, but this field has images: use `to_size((height, width))`",
        ),
        (
            Collate::ragged(),
            "images differ in height and width, ragged has one length: use `pad` or `list`",
        ),
        (Collate::pad().to_size((0, 5)), "a limit of 0 elements, expected at least 1"),
        (
            Collate::pad().of(DType::F32, &[]),
            "`of` is for bytes; this field is image: its elements have a type",
        ),
    ] {
        let found = refused(pictures(&sizes).collate("image", form));
        assert_eq!(found, format!("output image: {want}"));
    }
}

/// A builder with a file's `[collate]` table applied, or the error.
fn of_toml(text: &str) -> Result<LoaderBuilder, String> {
    let spec: Spec = text.parse().map_err(|error: fuseloop::Error| error.to_string())?;
    Ok(spec.apply(Texts::new(varied_texts(9, 8)).loader()))
}

#[test]
fn a_pipeline_file_says_how_a_field_is_collated() {
    let tensor = |text: &str| of_toml(text).unwrap().build().unwrap().tensors().swap_remove(0);
    let ragged = tensor("[collate]\ntext = 'ragged'");
    assert_eq!((ragged.rows, &*ragged.shape), (TensorRows::Ragged { sizes: 2 }, &[72][..]));
    let padded = tensor("[collate]\ntext = { as = 'pad', dtype = 'i32', inner = [2], to = 12 }");
    assert_eq!(
        (padded.rows, padded.dtype, &*padded.shape),
        (TensorRows::Even, DType::I32, &[12, 2][..])
    );
    let cut = "text = { as = 'pad', dtype = 'i64', to = 2, truncate = true, fill = -100 }";
    let loader = of_toml(&format!("[collate]\n{cut}")).unwrap().build().unwrap();
    let batch = loader.epoch(0).unwrap().next().unwrap().unwrap();
    let (rows, lengths) =
        (batch.tensor::<i64>("text").unwrap(), batch.tensor::<i64>("text.length"));
    for (row, &length) in lengths.unwrap().as_slice().iter().enumerate() {
        let behind = &rows.row(row).unwrap()[length as usize..];
        assert!(length <= 2 && behind.iter().all(|&element| element == -100));
    }
    let refused = |text| of_toml(text).err().unwrap();
    assert_eq!(
        refused("[collate]\ntext = 'padded'"),
        "pipeline:2:8: collate: as is \"padded\", expected \"pad\", \"ragged\" or \"list\""
    );
    let multiple = of_toml("[collate]\ntext = { as = 'pad', to_multiple = 32 }").unwrap().build();
    let error = multiple.err().unwrap().to_string();
    assert!(error.starts_with("output text: `to_multiple` rounds up the size"), "{error}");
    assert!(refused("[collate]\ntext = { dtype = 'u8' }").contains("as"));
    assert!(refused("[collate]\ntext = { as = 'pad', inner = [-1] }").contains("inner"));
    assert!(refused("[collate]\ntext = { as = 'pad', size = 3 }").contains("`size`"));
}

/// Returns an image with its rows in reverse order, in planes of f32.
fn flipped_planes(pixels: &[u8], size: Size) -> Vec<f32> {
    let (height, width) = (size.height as usize, size.width as usize);
    let at =
        |c: usize, y: usize, x: usize| f32::from(pixels[((height - 1 - y) * width + x) * 3 + c]);
    let places = (0..3).flat_map(|c| (0..height).map(move |y| (c, y)));
    places.flat_map(|(c, y)| (0..width).map(move |x| at(c, y, x))).collect()
}

/// Images are collated in the size, type and layout that their ops leave them in.
#[test]
fn images_of_ops_are_padded_or_listed() {
    let ops =
        || ops![RandomVerticalFlip::new(1.0).unwrap(), Convert::to(DType::F32), ToChannelsFirst];
    let (_dir, path) = dataset::write(23, WriteMode::Raw, varied);
    let most = (0..23).map(varied).fold(Size::new(0, 0), |most, size| {
        Size::new(most.height.max(size.height), most.width.max(size.width))
    });
    let fixed = Size::new(most.height + 3, most.width + 1);
    for (form, pad) in [
        (Collate::pad(), Some((1, 0.0, None))),
        (Collate::pad().to_multiple(16).fill(-2.5), Some((16, -2.5, None))),
        (Collate::pad().to_size(fixed), Some((1, 0.0, Some(fixed)))),
        (Collate::list(), None),
    ] {
        for workers in [1, 4] {
            let builder = Loader::open(&path).unwrap().batch_size(5).order(Order::Random);
            let builder = builder.pipeline("image", ops()).collate("image", form.clone());
            let loader = builder.workers(workers).drop_last(false).build().unwrap();
            for batch in (0..2).flat_map(|epoch| loader.epoch(epoch).unwrap()) {
                let batch = batch.unwrap();
                let ids: Vec<u64> = batch.ids().iter().map(|id| id.0).collect();
                let sizes = batch.tensor::<i64>("image.size").unwrap();
                let want = ids.iter().map(|&id| varied(id));
                let want = want.flat_map(|size| [i64::from(size.height), i64::from(size.width)]);
                assert!(sizes.as_slice().iter().copied().eq(want));
                let own = |&id: &u64| flipped_planes(&picture(id, varied(id)), varied(id));
                let Some((multiple, pad, to)) = pad else {
                    assert!(batch.list::<f32>("image").unwrap().eq(ids.iter().map(own)));
                    continue;
                };
                let images = batch.tensor::<f32>("image").unwrap();
                let side = |of: fn(Size) -> u32| {
                    let largest = ids.iter().map(|&id| of(varied(id))).max().unwrap();
                    to.map_or(largest.next_multiple_of(multiple), of) as usize
                };
                let (height, width) = (side(|size| size.height), side(|size| size.width));
                assert_eq!(images.shape(), [batch.len(), 3, height, width]);
                for (row, id) in ids.iter().enumerate() {
                    let (size, own) = (varied(*id), own(id));
                    for (at, &found) in images.row(row).unwrap().iter().enumerate() {
                        let (c, y, x) = (at / (height * width), at / width % height, at % width);
                        let inside = y < size.height as usize && x < size.width as usize;
                        let index = (c * size.height as usize + y) * size.width as usize + x;
                        assert_eq!(
                            found,
                            if inside { own[index] } else { pad },
                            "{id} {c} {y} {x}"
                        );
                    }
                }
            }
        }
    }
}

/// The list of torchvision's `multiscale`: the same pixels in all forms, for any number of workers.
#[test]
fn random_sizes_are_the_same_in_every_form() {
    let sizes = RandomShortestSize::new([16, 20, 31]).unwrap().max_size(50).unwrap();
    let flip = RandomHorizontalFlip::new(0.5).unwrap();
    let ops = ops![sizes, flip, Normalize::imagenet(), ToChannelsFirst];
    let loader = |form, workers| {
        let builder = pictures(&[(40, 30), (10, 80), (33, 33), (64, 20), (21, 47), (8, 9)]);
        let builder = builder.batch_size(4).seed(9).order(Order::Random).workers(workers);
        builder.pipeline("image", ops.clone()).collate("image", form).build().unwrap()
    };
    let listed = |workers| {
        let loader = loader(Collate::list(), workers);
        let mut all = vec![];
        for batch in (0..3).flat_map(|epoch| loader.epoch(epoch).unwrap()) {
            let batch = batch.unwrap();
            let sizes = batch.tensor::<i64>("image.size").unwrap();
            for (row, image) in batch.list::<f32>("image").unwrap().enumerate() {
                let size = sizes.row(row).unwrap();
                assert!([16, 20, 31].contains(size.iter().min().unwrap()) || size.contains(&50));
                all.push((size.to_vec(), image.to_vec()));
            }
        }
        all
    };
    let one = listed(1);
    assert_eq!(one.len(), 18);
    assert!(one.iter().map(|(size, _)| size).collect::<std::collections::HashSet<_>>().len() > 6);
    assert!(one == listed(3));
    let loader = loader(Collate::pad(), 2);
    let batches = (0..3).flat_map(|epoch| loader.epoch(epoch).unwrap());
    let mut one = one.iter();
    for batch in batches {
        let batch = batch.unwrap();
        let images = batch.tensor::<f32>("image").unwrap();
        let [_, _, _, width] = *images.shape() else { panic!("{:?}", images.shape()) };
        for (row, (size, image)) in (0..batch.len()).zip(&mut one) {
            let plane = images.row(row).unwrap();
            let line = size[1] as usize;
            assert!(plane[..line] == image[..line] && plane[line..width].iter().all(|v| *v == 0.0));
        }
    }
    let explained = loader.explain();
    let words = "padded to the largest of each batch, at most f32 [3, 50, 50]\n";
    assert!(explained.contains(words), "{explained}");
    // The inspector runs the same plan, and agrees with the ops one by one.
    let mut inspector = loader.inspect("image", 1).unwrap().unwrap();
    for sample in 0..6 {
        let inspected = inspector.sample(sample).unwrap();
        assert!(inspector.agrees(&inspected).unwrap());
    }
}

#[test]
fn what_ops_and_forms_can_not_be_together_is_told() {
    let flip = || ops![RandomHorizontalFlip::new(0.5).unwrap()];
    let refused_with = |ops: Ops, form| {
        let loader = pictures(&[(3, 5), (4, 2)]).pipeline("image", ops).collate("image", form);
        refused(loader)
    };
    let room = Collate::pad().to_size(9);
    assert_eq!(
        refused_with(flip(), Collate::pad()),
        "output image: the largest image may have 65535x65535 pixels (the source does not report the sizes of its images), which is a row of 12884508675 bytes; the limit is 1073741824: set the largest with `to_size((height, width))`, or raise `max_row_bytes` (LoaderBuilder::limits)"
    );
    assert_eq!(
        refused_with(flip(), room.clone().truncate()),
        "output image: `truncate` is for images without ops: add CenterCrop or FixedSizeCrop to the list"
    );
    assert_eq!(
        refused_with(ops![MixUp::new(0.2).unwrap()], room.clone()),
        "output image: MixUp works on batches of one size, but the images differ: remove it, or end the list with one size"
    );
    let multiple = "output image: `to_multiple` rounds up the size of the largest image of a batch: use it with `pad`, for images, and without `to_size`";
    assert_eq!(refused_with(flip(), room.to_multiple(32)), multiple);
    assert_eq!(refused_with(flip(), Collate::list().to_multiple(32)), multiple);
    assert_eq!(
        refused_with(flip(), Collate::pad().to_multiple(0)),
        "output image: a multiple of 0 pixels, expected 1 to 65535"
    );
    let loader = pictures(&[(3, 5), (4, 2)]).pipeline("image", flip());
    let loader = loader.batch_size(2).collate("image", Collate::pad().to_size((3, 5))).build();
    let error = loader.unwrap().epoch(0).unwrap().next().unwrap().unwrap_err().to_string();
    let cause = "an image of 2x4, rows have room for 5x3: raise `to_size`, or use `truncate`";
    assert!(error.contains(cause), "{error}");
}
