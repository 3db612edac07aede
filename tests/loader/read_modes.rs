//! Images that are not RGB: gray, with alpha, masks with a palette, and arrays of bytes.

use fuseloop::internals::assert_says;
use fuseloop::loader::Cache;
use fuseloop::prelude::*;
use fuseloop::preview::PreviewOptions;
use fuseloop::source::{FieldKind, FieldSpec, NdType};
use fuseloop::spec::Spec;
use fuseloop::write::{FieldValue, ImageInput, ImageOptions, WriteMode, WriteOptions, write_iter};
use fuseloop::{Batches, ImageReadMode};
use std::fs;
use std::path::{Path, PathBuf};

/// A folder of `name` alone, in two classes.
fn folder(names: &[&str]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (n, name) in names.iter().enumerate() {
        let class = dir.path().join(["a", "b"][n % 2]);
        fs::create_dir_all(&class).unwrap();
        fs::copy(golden(name), class.join(format!("{n}-{name}"))).unwrap();
    }
    dir
}

fn golden(name: &str) -> PathBuf {
    let kind = if name.ends_with("png") { "png" } else { "jpeg" };
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(kind).join(name)
}

/// The bytes of an output in three epochs.
fn bytes(builder: LoaderBuilder, output: &str) -> Vec<u8> {
    let loader = builder.build().unwrap();
    let batches = (0..3).flat_map(|epoch: u32| -> Batches { loader.epoch(epoch).unwrap() });
    batches.flat_map(|batch| batch.unwrap().bytes(output).unwrap().to_vec()).collect()
}

/// Ops that treat each channel by itself, with one constant for all of them.
fn separate() -> Ops {
    ops![
        RandomResizedCrop::new(16).unwrap().scale(0.3..=1.0).unwrap(),
        RandomHorizontalFlip::new(0.5).unwrap(),
        RandomRotation::new(-20.0..=20.0).unwrap(),
        RandomBrightness::new(0.4).unwrap(),
        RandomEqualize::new(0.5).unwrap(),
        Cutout::new(4).unwrap(),
        Normalize::new([0.5], [0.25]).unwrap(),
        ToChannelsFirst,
    ]
}

#[test]
fn a_gray_picture_gives_in_one_channel_what_each_of_its_three_would_give() {
    let dir = folder(&["gray8.png", "gray4.png", "gray.jpg", "gray_2x2.jpg", "gray_alpha8.png"]);
    for cache in [None, Some(Cache::memory(1 << 20))] {
        let builder = || {
            let builder = Loader::open(dir.path()).unwrap().batch_size(1).seed(3);
            let builder = builder.pipeline("image", separate());
            match &cache {
                Some(cache) => builder.cache(cache.clone()),
                None => builder,
            }
        };
        let rgb = bytes(builder(), "image");
        let gray = bytes(builder().read_mode("image", ImageReadMode::Gray), "image");
        assert_eq!(3 * gray.len(), rgb.len());
        let plane = 4 * 16 * 16;
        for (rgb, gray) in rgb.chunks(3 * plane).zip(gray.chunks(plane)) {
            assert!(rgb.chunks(plane).all(|plane| plane == gray));
        }
    }
}

#[test]
fn a_pipeline_file_says_what_images_are_read_as() {
    let dir = folder(&["420.jpg", "rgb8.png"]);
    let text = |mode: &str| {
        format!(
            "[read_mode]\nimage = '{mode}'\n[fields]\nimage = [{{ op = 'Resize', size = [9, 12] }}]"
        )
    };
    let dir16 = folder(&["gray16.png"]);
    let whole = text("gray16").replace("Resize', size = [9, 12]", "CenterCrop', size = [7, 11]");
    let spec: Spec = whole.parse().unwrap();
    let loader = spec.apply(Loader::open(dir16.path()).unwrap()).build().unwrap();
    let batch = loader.epoch(0).unwrap().next().unwrap().unwrap();
    assert_eq!(batch.tensor::<u16>("image").unwrap().shape(), [1, 7, 11, 1]);
    for (mode, channels) in [("gray", 1), ("rgb_alpha", 4), ("rgb", 3)] {
        let spec: Spec = text(mode).parse().unwrap();
        let loader = spec.apply(Loader::open(dir.path()).unwrap()).build().unwrap();
        let batch = loader.epoch(0).unwrap().next().unwrap().unwrap();
        assert_eq!(batch.tensor::<u8>("image").unwrap().shape(), [2, 9, 12, channels], "{mode}");
    }
    assert_says(text("grey").parse::<Spec>().unwrap_err(), ["gray", "pipeline:2"]);
}

#[test]
fn the_mask_of_a_palette_is_its_indices() {
    let dir = folder(&["palette4.png"]);
    let builder = Loader::open(dir.path()).unwrap().masks("image");
    let whole = CenterCrop::new((7, 11)).unwrap();
    let builder = builder.pipeline("image", ops![whole, Squeeze, Convert::to(DType::I64)]);
    let batch = builder.build().unwrap().epoch(0).unwrap().next().unwrap().unwrap();
    let mask = batch.tensor::<i64>("image").unwrap();
    let stored = fs::read(golden("palette4.png").with_extension("index")).unwrap();
    assert_eq!(mask.shape(), [1, 7, 11]);
    assert!(mask.as_slice().iter().zip(&stored).all(|(a, b)| *a == i64::from(*b)));
}

/// The 16-bit levels of golden images of 7 rows of 11, as Pillow reads them.
fn levels(names: &[&str]) -> Vec<u16> {
    let levels = |name: &&str| fs::read(golden(name).with_extension("i16")).unwrap();
    let bytes = names.iter().flat_map(levels).collect::<Vec<u8>>();
    bytes.as_chunks().0.iter().map(|level| u16::from_le_bytes(*level)).collect()
}

const GRAY16: [&str; 3] = ["gray16.png", "gray16_interlaced.png", "gray16_transparent.png"];

#[test]
fn gray_of_16_bits_is_as_pillow_reads_it() {
    let (dir, want) = (folder(&GRAY16), levels(&GRAY16));
    let order = [0, 2, 1]; // a class after the other
    let want: Vec<u16> = order.iter().flat_map(|n| want[77 * n..77 * (n + 1)].to_vec()).collect();
    let cached = tempfile::tempdir().unwrap();
    for cache in [None, Some(Cache::memory(1 << 20)), Some(Cache::disk(cached.path(), 1 << 20))] {
        let whole = || CenterCrop::new((7, 11)).unwrap();
        let builder = Loader::open(dir.path()).unwrap().read_mode("image", ImageReadMode::Gray16);
        let builder = builder.pipeline("image", ops![whole()]);
        let plane = ops![whole(), Squeeze, Convert::to(DType::I64)];
        let flip = RandomHorizontalFlip::new(1.0).unwrap();
        let flipped = ops![whole(), flip, Convert::to(DType::F32)];
        let mut builder = builder.view("plane", "image", plane).view("flipped", "image", flipped);
        if let Some(cache) = cache {
            builder = builder.cache(cache);
        }
        let loader = builder.build().unwrap();
        for epoch in 0..2 {
            let batch = loader.epoch(epoch).unwrap().next().unwrap().unwrap();
            let image = batch.tensor::<u16>("image").unwrap();
            assert_eq!(image.shape(), [3, 7, 11, 1]);
            assert_eq!(image.as_slice(), want);
            let plane = batch.tensor::<i64>("plane").unwrap();
            assert_eq!(plane.shape(), [3, 7, 11]);
            assert!(plane.as_slice().iter().copied().eq(want.iter().copied().map(i64::from)));
            let flipped = batch.tensor::<f32>("flipped").unwrap();
            let rows = want.chunks(11).flat_map(|row| row.iter().rev().copied().map(f32::from));
            assert!(flipped.as_slice().iter().copied().eq(rows));
        }
    }
}

#[test]
fn a_mask_may_have_numbers_of_16_bits() {
    let dir = folder(&GRAY16[..1]);
    let builder = Loader::open(dir.path()).unwrap().masks("image");
    let builder = builder.read_mode("image", ImageReadMode::Gray16);
    let crop = CenterCrop::new(5).unwrap();
    let loader = builder.pipeline("image", ops![crop, Squeeze]).build().unwrap();
    let batch = loader.epoch(0).unwrap().next().unwrap().unwrap();
    let want = levels(&GRAY16[..1]);
    let want = want.chunks(11).skip(1).take(5).flat_map(|row| row[3..8].to_vec());
    assert!(batch.tensor::<u16>("image").unwrap().as_slice().iter().copied().eq(want));
}

#[test]
fn what_can_not_be_read_in_a_mode_is_refused() {
    let refusal = |dir: &Path, mode| {
        let builder = Loader::open(dir).unwrap().read_mode("image", mode);
        let loader = builder.pipeline("image", ops![CenterCrop::new(4).unwrap()]).build().unwrap();
        loader.epoch(0).unwrap().next().unwrap().unwrap_err().to_string()
    };
    let error = refusal(folder(&["420.jpg"]).path(), ImageReadMode::Index);
    assert!(error.contains("store masks as PNG or raw pixels"), "{error}");
    let error = refusal(folder(&["rgb8.png"]).path(), ImageReadMode::Index);
    assert!(error.contains("red, green and blue must be equal"), "{error}");
    for (name, found) in [
        ("420.jpg", "a JPEG can't be read as 16-bit gray: use the read mode \"gray\""),
        (
            "rgb16.png",
            "a PNG of 16-bit RGB can't be read as 16-bit gray: use the read mode \"rgb\"",
        ),
    ] {
        let error = refusal(folder(&[name]).path(), ImageReadMode::Gray16);
        assert!(error.ends_with(found), "{error}");
    }
    let dir = folder(&["gray8.png"]);
    let builder = || Loader::open(dir.path()).unwrap();
    let error = builder().read_mode("label", ImageReadMode::Gray).build().unwrap_err();
    assert_eq!(error.to_string(), "field label: only a field of images has a read mode");
    let error = builder().read_mode("picture", ImageReadMode::Gray).build().unwrap_err();
    assert!(error.to_string().contains("no field named picture"), "{error}");
}

#[test]
fn ops_of_colours_leave_gray_as_it_is_and_refuse_two_or_four_channels() {
    let dir = folder(&["gray8.png"]);
    let of = |mode, ops: Ops| {
        let builder = Loader::open(dir.path()).unwrap().read_mode("image", mode);
        builder.pipeline(
            "image",
            ops![CenterCrop::new((7, 11)).unwrap()].into_iter().chain(ops).collect::<Ops>(),
        )
    };
    let colours = || {
        ops![
            RandomSaturation::new(0.9).unwrap().p(1.0).unwrap(),
            RandomHue::new(0.5).unwrap().p(1.0).unwrap(),
            Grayscale::new(),
            RandomChannelPermutation::new(),
        ]
    };
    let plain = bytes(of(ImageReadMode::Gray, ops![]), "image");
    assert!(bytes(of(ImageReadMode::Gray, colours()), "image") == plain);
    for op in colours() {
        let (name, list) = (op.name(), vec![op]);
        let error = of(ImageReadMode::RgbAlpha, list).build().unwrap_err().to_string();
        let want = format!(
            "output image: op 1 of the list: {name} takes an image of 3 channels, or of 1, but gets a u8 image \
             [7, 11, 4]"
        );
        assert_eq!(error, want);
    }
    let lists: [(Ops, &str); 4] = [
        (ops![Normalize::imagenet()], "as many channels as mean and std have numbers"),
        (ops![PermuteChannels::new([2, 1, 0]).unwrap()], "takes an image of 3 channels, but"),
        (ops![Pad::new(2).unwrap().fill([1, 2, 3])], "use one number for all channels"),
        (ops![ColorMatrix::new([[0.3; 4]; 3]).unwrap()], "takes an image of 3 channels, but"),
    ];
    for (list, want) in lists {
        assert_says(of(ImageReadMode::Gray, list).build().unwrap_err(), [want]);
    }
    let four =
        ops![Normalize::new([0.5, 0.4, 0.3, 0.0], [0.2, 0.2, 0.2, 1.0]).unwrap(), ToChannelsFirst];
    let loader = of(ImageReadMode::RgbAlpha, four).build().unwrap();
    let batch = loader.epoch(0).unwrap().next().unwrap().unwrap();
    assert_eq!(batch.tensor::<f32>("image").unwrap().shape(), [1, 4, 7, 11]);
}

#[test]
fn a_photograph_becomes_gray_in_one_channel() {
    let dir = folder(&["420.jpg", "rgb8.png"]);
    let resize = || ops![Resize::new((9, 12)).unwrap()];
    let three = Grayscale::new().num_output_channels(3).unwrap();
    let builder = Loader::open(dir.path()).unwrap().batch_size(2);
    let builder = builder.pipeline("image", [resize(), ops![Grayscale::new()]].concat());
    let builder =
        builder.view("plane", "image", [resize(), ops![Grayscale::new(), Squeeze]].concat());
    let builder = builder.view("three", "image", [resize(), ops![three]].concat());
    let list = "[fields]\nimage = [{ op = 'Resize', size = [9, 12] }, 'Grayscale', { op = 'SelectChannels', \
                channels = [0, 0] }]";
    let spec: Spec = list.parse().unwrap();
    let two = spec.apply(Loader::open(dir.path()).unwrap().batch_size(2)).build().unwrap();
    let batch = builder.build().unwrap().epoch(0).unwrap().next().unwrap().unwrap();
    let [image, plane, three] =
        ["image", "plane", "three"].map(|name| batch.tensor::<u8>(name).unwrap());
    assert_eq!((image.shape(), plane.shape()), (&[2, 9, 12, 1][..], &[2, 9, 12][..]));
    assert_eq!(three.shape(), [2, 9, 12, 3]);
    assert_eq!(image.as_slice(), plane.as_slice());
    assert!(three.as_slice().chunks(3).zip(plane.as_slice()).all(|(three, v)| three == [*v; 3]));
    let batch = two.epoch(0).unwrap().next().unwrap().unwrap();
    let two = batch.tensor::<u8>("image").unwrap();
    assert_eq!(two.shape(), [2, 9, 12, 2]);
    assert!(two.as_slice().chunks(2).zip(plane.as_slice()).all(|(two, v)| two == [*v; 2]));
}

#[test]
fn batches_of_selected_channels_are_mixed_and_sent_to_devices() {
    let dir = folder(&["420.jpg", "rgb8.png"]);
    let open = |mode| Loader::open(dir.path()).unwrap().batch_size(2).read_mode("image", mode);
    let crop = || ops![CenterCrop::new(12).unwrap()];
    let mixed =
        |ops: Ops| [crop(), ops, ops![Convert::to(DType::F32), MixUp::new(1.0).unwrap()]].concat();
    let gray = open(ImageReadMode::Rgb).pipeline("image", mixed(ops![Grayscale::new()]));
    let batch = gray.without("label").build().unwrap().epoch(0).unwrap().next().unwrap().unwrap();
    assert_eq!(batch.tensor::<f32>("image").unwrap().shape(), [2, 12, 12, 1]);
    let device = || ops![ToDevice::new("auto").unwrap(), Normalize::imagenet(), ToChannelsFirst];
    let rgb = || SelectChannels::new([0, 1, 2]).unwrap();
    let of_alpha = [crop(), ops![rgb()], device()].concat();
    let of_alpha = bytes(open(ImageReadMode::RgbAlpha).pipeline("image", of_alpha), "image");
    let want = open(ImageReadMode::Rgb).pipeline("image", [crop(), device()].concat());
    assert!(of_alpha == bytes(want, "image"));
}

#[test]
fn channels_of_a_mask_are_selected() {
    let dir = folder(&["palette4.png"]);
    let of = |ops: Ops| {
        let list = [ops![CenterCrop::new((7, 11)).unwrap()], ops].concat();
        bytes(Loader::open(dir.path()).unwrap().masks("image").pipeline("image", list), "image")
    };
    let twice = of(ops![SelectChannels::new([0, 0]).unwrap()]);
    assert!(twice.chunks(2).eq(of(ops![Squeeze]).iter().map(|class| [*class; 2])));
}

/// Writes the same pictures as arrays and as RGB images, with `channels` elements of a type a pixel in the arrays.
fn both(channels: usize, dtype: &str) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("both.beton");
    let (height, width) = (20u32, 24u32);
    let dtype: NdType = dtype.parse().unwrap();
    let element = |level: u8| match dtype.to_string().as_str() {
        "|u1" => vec![level],
        "<u2" | "<i2" => u16::from(level).to_le_bytes().to_vec(),
        "<f2" => half::f16::from(level).to_le_bytes().to_vec(),
        _ => f32::from(level).to_le_bytes().to_vec(),
    };
    let shape = match channels {
        1 => vec![height.into(), width.into()],
        _ => vec![height.into(), width.into(), channels as u64],
    };
    let field = |name: &str, kind| FieldSpec { name: name.to_owned(), kind };
    let fields =
        [field("array", FieldKind::NdArray { dtype, shape }), field("image", FieldKind::RgbImage)];
    let rows = (0..9u32).map(|n| {
        let level = |at: u32, c: u32| (at * 7 + n * 31 + c * 100) as u8;
        let pixels = |channels: u32| {
            (0..height * width).flat_map(move |at| (0..channels).map(move |c| level(at, c)))
        };
        let bytes = pixels(channels as u32).flat_map(element).collect();
        let rgb = ImageInput::Rgb { pixels: pixels(3).collect(), width, height };
        vec![FieldValue::NdArray { dtype, bytes }, FieldValue::Image(rgb)]
    });
    let image = ImageOptions { write_mode: WriteMode::Raw, ..ImageOptions::default() };
    let options = WriteOptions { image, ..WriteOptions::default() };
    write_iter(rows, &fields, &path, &options).unwrap();
    (dir, path)
}

#[test]
fn an_array_of_u16_is_a_tensor_of_u16() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("u16.beton");
    let dtype: NdType = "<u2".parse().unwrap();
    let kind = FieldKind::NdArray { dtype, shape: vec![2, 3] };
    let fields = [FieldSpec { name: "array".to_owned(), kind }];
    let values = |n: u16| [0, 1, 255, 256, 40_000 + n, u16::MAX];
    let rows = (0..4).map(|n| {
        let bytes = values(n).iter().flat_map(|value| value.to_le_bytes()).collect();
        vec![FieldValue::NdArray { dtype, bytes }]
    });
    write_iter(rows, &fields, &path, &WriteOptions::default()).unwrap();
    let loader = Loader::open(&path).unwrap().batch_size(4).drop_last(false);
    let loader = loader.view("floats", "array", ops![Convert::to(DType::F32)]);
    let loader = loader.view("short", "array", ops![View::new(DType::I16)]);
    let batch = loader.build().unwrap().epoch(0).unwrap().next().unwrap().unwrap();
    let array = batch.tensor::<u16>("array").unwrap();
    assert_eq!(array.shape(), [4, 2, 3]);
    let floats = batch.tensor::<f32>("floats").unwrap();
    let short = batch.tensor::<i16>("short").unwrap();
    for n in 0..4 {
        let row = usize::from(n);
        assert_eq!(array.row(row).unwrap(), values(n));
        assert_eq!(floats.row(row).unwrap(), values(n).map(f32::from));
        assert_eq!(short.row(row).unwrap(), values(n).map(|value| value as i16));
    }
}

#[test]
fn arrays_of_wider_elements_give_the_bits_of_bytes_with_the_same_values() {
    let moves = || {
        ops![
            RandomCrop::new(16).unwrap().padding(3).unwrap(),
            RandomHorizontalFlip::new(0.5).unwrap(),
            RandomVerticalFlip::new(0.5).unwrap(),
        ]
    };
    let colours = || {
        ops![
            RandomBrightness::new(0.4).unwrap(),
            RandomEqualize::new(0.5).unwrap(),
            Cutout::new(4).unwrap(),
            Normalize::new([0.5], [0.25]).unwrap(),
            ToChannelsFirst,
        ]
    };
    for (channels, dtype) in
        [1, 2, 3, 4].into_iter().flat_map(|c| ["<u2", "<i2", "<f2", "<f4"].map(|dtype| (c, dtype)))
    {
        let (_dir, path) = both(channels, dtype);
        let levels = ops![Levels::of(0.0, 255.0).unwrap()];
        let builder = Loader::open(&path).unwrap().batch_size(4).seed(5).order(Order::Random);
        let builder = builder.pipeline("array", [moves(), levels, colours()].concat());
        let builder = builder.pipeline("image", [moves(), colours()].concat());
        let loader = builder.share_draws("array", "image").build().unwrap();
        for batch in loader.epoch(1).unwrap() {
            let batch = batch.unwrap();
            let [array, image] = ["array", "image"].map(|name| batch.tensor::<f32>(name).unwrap());
            assert_eq!(array.shape()[1..], [channels, 16, 16]);
            for row in 0..batch.len() {
                let (array, image) = (array.row(row).unwrap(), image.row(row).unwrap());
                let shared = channels.min(3) * 256;
                assert!(array[..shared] == image[..shared], "row {row}: {channels} of {dtype}");
            }
        }
    }
}

#[test]
fn images_of_many_bands_run_plane_by_plane_in_either_layout() {
    let (bands, height, width) = (13u32, 26u32, 28u32);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bands.beton");
    let dtype: NdType = "<u2".parse().unwrap();
    let field = |name: &str, shape: [u32; 3]| {
        let shape = shape.map(u64::from).to_vec();
        FieldSpec { name: name.to_owned(), kind: FieldKind::NdArray { dtype, shape } }
    };
    let fields = [field("last", [height, width, bands]), field("first", [bands, height, width])];
    let value = |n: u32, c: u32, at: u32| (at * 70 + n * 310 + c * 4000) as u16;
    let rows = (0..5u32).map(|n| {
        let last = (0..height * width).flat_map(|at| (0..bands).map(move |c| value(n, c, at)));
        let first = (0..bands).flat_map(|c| (0..height * width).map(move |at| value(n, c, at)));
        let bytes = |values: Vec<u16>| values.iter().flat_map(|v| v.to_le_bytes()).collect();
        [bytes(last.collect()), bytes(first.collect())]
            .map(|bytes| FieldValue::NdArray { dtype, bytes })
            .to_vec()
    });
    write_iter(rows, &fields, &path, &WriteOptions::default()).unwrap();
    let mean: Vec<f64> = (0..bands).map(|c| f64::from(c) * 4000.0).collect();
    let list = |layout: Ops| {
        let list = ops![
            RandomResizedCrop::new(16).unwrap(),
            RandomHorizontalFlip::new(0.5).unwrap(),
            Normalize::values(&mean, vec![100.0; 13]).unwrap(),
        ];
        [list, layout].concat()
    };
    let builder = Loader::open(&path).unwrap().batch_size(5).seed(3);
    let builder = builder.pipeline("last", list(ops![ToChannelsFirst]));
    let builder = builder.pipeline("first", list(ops![]));
    let builder = builder.view("again", "first", list(ops![ToChannelsLast]));
    let builder = builder.share_draws("first", "last").share_draws("again", "last");
    let loader = builder.build().unwrap();
    assert_says(loader.explain(), ["; once for each of the 13 planes"]);
    let batch = loader.epoch(0).unwrap().next().unwrap().unwrap();
    let [last, first, again] =
        ["last", "first", "again"].map(|name| batch.tensor::<f32>(name).unwrap());
    assert_eq!((last.shape(), again.shape()), (&[5, 13, 16, 16][..], &[5, 16, 16, 13][..]));
    for row in 0..5 {
        let (last, first, again) =
            (last.row(row).unwrap(), first.row(row).unwrap(), again.row(row).unwrap());
        assert!(last == first, "row {row}");
        let of_pixels = |at: usize| again[at % 256 * 13 + at / 256];
        assert!((0..13 * 256).all(|at| of_pixels(at) == last[at]), "row {row}");
    }
    let sheet = |output: &str, bands: &[usize]| {
        let (output, bands) = (Some(output.to_owned()), bands.to_vec());
        let options =
            PreviewOptions { samples: 2, epochs: 2, output, bands, ..PreviewOptions::default() };
        loader.preview(&options)
    };
    let (first, last) = (sheet("first", &[]).unwrap(), sheet("last", &[0, 1, 2]).unwrap());
    assert!(first.rgb() == last.rgb(), "the first three bands, in false colour");
    let others = sheet("first", &[12, 3, 3]).unwrap();
    assert!(others.rgb() != first.rgb());
    let one = sheet("first", &[12]).unwrap();
    assert!(one.rgb() != others.rgb(), "one band is in the colours of a map");
    let error = sheet("first", &[13]).unwrap_err().to_string();
    assert_eq!(error, "there is no band 13: the images have 13 channels, numbered from 0");
    assert!(sheet("first", &[1, 2]).unwrap_err().to_string().contains("2 bands: give one"));
    let levels: std::collections::BTreeSet<&u8> = first.rgb().iter().collect();
    assert!(levels.len() > 100, "a picture of {} levels", levels.len());
    let rgb = || {
        let window = ops![RandomCrop::new(16).unwrap(), SelectChannels::new([3, 2, 1]).unwrap()];
        let levels = Levels::of(0.0, 60_000.0).unwrap();
        [window, ops![levels, RandomHue::new(0.3).unwrap(), Convert::to(DType::F16)]].concat()
    };
    let builder = Loader::open(&path).unwrap().batch_size(5).pipeline("last", rgb());
    let builder = builder.pipeline("first", rgb()).share_draws("first", "last");
    let loader = builder.build().unwrap();
    let batch = loader.epoch(0).unwrap().next().unwrap().unwrap();
    assert_eq!(batch.tensor::<half::f16>("last").unwrap().shape(), [5, 16, 16, 3]);
    let planar_in_planar_out = batch.tensor::<half::f16>("first").unwrap();
    assert_eq!(planar_in_planar_out.shape(), [5, 3, 16, 16]);
    let (last, first) = (batch.bytes("last").unwrap(), batch.bytes("first").unwrap());
    for (last, first) in last.chunks(1536).zip(first.chunks(1536)) {
        let of_pixels = |at: usize| &last[2 * (at % 256 * 3 + at / 256)..][..2];
        assert!((0..768).all(|at| of_pixels(at) == &first[2 * at..][..2]));
    }
    let noise = Loader::open(&path).unwrap().pipeline("last", list(ops![GaussianNoise::new()]));
    assert_says(noise.build().unwrap_err(), ["takes images of 1 to 4 channels; this image has 13"]);
}

#[test]
fn colour_ops_ask_which_values_of_an_array_are_black_and_white() {
    let (_dir, path) = both(1, "<i2");
    let refused = |op: Ops| {
        let builder = Loader::open(&path).unwrap().pipeline("array", op);
        builder.build().unwrap_err().to_string()
    };
    let error = refused(ops![RandomBrightness::new(0.4).unwrap()]);
    assert!(error.contains("put Levels::of(black, white) before it"), "{error}");
    let error = refused(ops![Normalize::new([0.5], [0.5]).unwrap()]);
    assert!(error.contains("Normalize::values, or scale = \"values\""), "{error}");
}

#[test]
fn an_array_of_bytes_takes_the_ops_of_images() {
    for channels in [1, 2, 3, 4] {
        let (_dir, path) = both(channels, "|u1");
        for cache in [None, Some(Cache::memory(1 << 20))] {
            let builder = Loader::open(&path).unwrap().batch_size(4).seed(5).order(Order::Random);
            let builder = builder.drop_last(false).pipeline("array", separate());
            let mut builder = builder.pipeline("image", separate()).share_draws("array", "image");
            if let Some(cache) = cache {
                builder = builder.cache(cache);
            }
            let loader = builder.build().unwrap();
            for batch in loader.epoch(1).unwrap() {
                let batch = batch.unwrap();
                let (array, image) = (batch.tensor::<f32>("array"), batch.tensor::<f32>("image"));
                let (array, image) = (array.unwrap(), image.unwrap());
                assert_eq!(array.shape()[1..], [channels, 16, 16]);
                for row in 0..batch.len() {
                    let (array, image) = (array.row(row).unwrap(), image.row(row).unwrap());
                    let shared = channels.min(3) * 256;
                    assert!(array[..shared] == image[..shared], "row {row} of {channels} channels");
                }
            }
        }
    }
    // An array keeps its axes, with and without ops of images.
    let (_dir, path) = both(1, "|u1");
    let flipped = ops![RandomHorizontalFlip::new(0.5).unwrap(), Convert::to(DType::F32)];
    let loader = Loader::open(&path).unwrap().pipeline("array", flipped).build().unwrap();
    let batch = loader.epoch(0).unwrap().next().unwrap().unwrap();
    assert_eq!(batch.tensor::<f32>("array").unwrap().shape(), [9, 20, 24]);
    let (_dir, path) = both(1, "|u1");
    let plain = Loader::open(&path).unwrap().pipeline("array", ops![Convert::to(DType::F32)]);
    let batch = plain.build().unwrap().epoch(0).unwrap().next().unwrap().unwrap();
    assert_eq!(batch.tensor::<f32>("array").unwrap().shape(), [9, 20, 24]);
}
