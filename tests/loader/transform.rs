//! A transform has the rows of a loader, bit for bit, from pixels that the caller holds and from image files.

use crate::common::lists::{List, noise};
use crate::counting::asked_for;
use fuseloop::internals::transform::{ImageExt as _, TransformExt as _};
use fuseloop::loader::{BoundingBoxes, Collate, KeyPoints, Targets};
use fuseloop::ops::author::{ImageType, Layout, Rng};
use fuseloop::prelude::*;
use fuseloop::source::{Column, ImageMode, InMemory, NdType, OwnedImage};
use fuseloop::transform::{Image, Key, TargetValue, Tensor};
use fuseloop::{ErrorKind, ImageReadMode, ObjectMask, Transform};
use jpeg_encoder::{ColorType, Encoder};

const SEED: u64 = 11;
const COUNT: u64 = 6;

/// The rows that a loader gives the first field of a dataset in an epoch.
fn rows(builder: LoaderBuilder, epoch: u32) -> Vec<Vec<u8>> {
    rows_of(&builder.batch_size(4).build().unwrap(), epoch)
}

fn rows_of(loader: &Loader, epoch: u32) -> Vec<Vec<u8>> {
    let mut rows = vec![];
    for batch in loader.epoch(epoch).unwrap() {
        let batch = batch.unwrap();
        let (bytes, len) = (batch.bytes("image").unwrap(), batch.len());
        rows.extend(bytes.chunks(bytes.len() / len).map(<[u8]>::to_vec));
    }
    rows
}

/// The shape of arrays that are images of a type and a size, with the axes that say how.
fn axes(input: &ImageType, size: Size) -> (Vec<u64>, &'static str) {
    let [height, width, channels] = [size.height, size.width, input.channels.into()].map(u64::from);
    match input.layout {
        Layout::ChannelsLast => (vec![height, width, channels], "HWC"),
        Layout::ChannelsFirst => (vec![channels, height, width], "CHW"),
        Layout::Plane => (vec![height, width], "HW"),
    }
}

#[test]
fn random_lists_have_the_rows_of_a_loader_for_arrays_of_all_types() {
    let mut rng = Rng::new(5);
    for number in 0..60 {
        let size = Size::new(1 + rng.below(40), 1 + rng.below(60));
        let (List { ops, input, rule, .. }, names) = List::random(&mut rng, size, 8);
        if input.dtype == DType::Bf16 {
            continue; // NumPy has no such type
        }
        let images: Vec<Vec<u8>> = (0..COUNT).map(|_| noise(&mut rng, size, &input)).collect();
        let (shape, axes) = axes(&input, size);
        let column = Column::arrays(nd_type(input.dtype), &shape, images.concat());
        let loader = Loader::from_source(InMemory::new([("image", column)]).unwrap());
        let loader = loader.seed(SEED).number_rule(rule).axes("image", axes);
        let Ok(loader) = loader.batch_size(4).pipeline("image", ops.clone()).build() else {
            continue; // ops on boxes, which there are none of
        };
        let want = rows_of(&loader, 2);
        let transform = Transform::new(ops).unwrap().number_rule(rule).device("cpu").unwrap();
        for (sample, (pixels, want)) in images.iter().zip(&want).enumerate() {
            let axes = (size.height as usize, size.width as usize, usize::from(input.channels));
            let image = Image::packed(input.dtype, pixels, axes, input.layout).unwrap();
            let tensor = transform.apply(&image, Key::new(SEED, 2, sample as u64)).unwrap();
            assert!(
                tensor.as_bytes() == want,
                "list {number}, sample {sample}: {names:?} {input:?}"
            );
        }
    }
}

fn nd_type(dtype: DType) -> NdType {
    let name = match dtype {
        DType::U8 => "|u1",
        DType::U16 => "<u2",
        DType::I16 => "<i2",
        DType::F16 => "<f2",
        _ => "<f4",
    };
    name.parse().unwrap()
}

/// A smooth RGB image whose size depends on the number of a sample.
fn picture(sample: u64) -> (Size, Vec<u8>) {
    let size = Size::new(90 + 13 * sample as u32, 140 - 7 * sample as u32);
    let level = |y: u32, x: u32, c: u32| {
        (120.0 + 60.0 * ((y + 30 * c) as f32 / 15.0).sin() + 50.0 * (x as f32 / 22.0).cos()) as u8
    };
    let pixels = (0..size.height).flat_map(|y| (0..size.width).map(move |x| (y, x)));
    (size, pixels.flat_map(|(y, x)| [0, 1, 2].map(|c| level(y, x, c))).collect())
}

fn jpeg(sample: u64) -> Vec<u8> {
    let (size, pixels) = picture(sample);
    let mut bytes = vec![];
    let encoder = Encoder::new(&mut bytes, 90);
    encoder.encode(&pixels, size.width as u16, size.height as u16, ColorType::Rgb).unwrap();
    bytes
}

fn png(sample: u64) -> Vec<u8> {
    let (size, pixels) = picture(sample);
    let mut bytes = vec![];
    fuseloop::internals::preview::encode::png(&mut bytes, &pixels, size).unwrap();
    bytes
}

/// The list of a training.
fn augmented() -> Ops {
    ops![
        RandomResizedCrop::new(32).unwrap(),
        RandomHorizontalFlip::new(0.5).unwrap(),
        ColorJitter::new(0.4, 0.4, 0.4).unwrap(),
        Normalize::imagenet(),
        ToChannelsFirst,
    ]
}

fn of_files(files: impl IntoIterator<Item = Vec<u8>>) -> LoaderBuilder {
    let column = Column::images(files.into_iter().map(OwnedImage::file).collect());
    Loader::from_source(InMemory::new([("image", column)]).unwrap()).seed(SEED)
}

#[test]
fn image_files_have_the_rows_of_a_loader_by_all_settings() {
    let lists =
        [augmented(), ops![Resize::new((40, 30)).unwrap(), RandomInvert::new(0.5).unwrap()]];
    for list in lists {
        for file in [jpeg, png] {
            for mode in [ImageReadMode::Rgb, ImageReadMode::Gray, ImageReadMode::RgbAlpha] {
                for scaled in [false, true] {
                    let list = match mode {
                        ImageReadMode::Rgb => list.clone(),
                        _ => ops![
                            RandomResizedCrop::new(20).unwrap(),
                            RandomInvert::new(0.5).unwrap()
                        ],
                    };
                    let loader = of_files((0..COUNT).map(file)).read_mode("image", mode);
                    let loader = loader.pipeline("image", list.clone()).scaled_decode(scaled);
                    let want = rows(loader, 1);
                    let transform = Transform::new(list).unwrap();
                    let transform = transform.read_mode(mode).scaled_decode(scaled);
                    for (sample, want) in (0..COUNT).zip(want) {
                        let file = file(sample);
                        let key = Key::new(SEED, 1, sample);
                        let found = transform.apply(&Image::encoded(&file), key).unwrap();
                        assert!(found.as_bytes() == want, "sample {sample}, {mode:?}, {scaled}");
                    }
                }
            }
        }
    }
}

#[test]
fn keys_are_of_the_field_and_the_view_that_they_name() {
    let column = || Column::images((0..COUNT).map(jpeg).map(OwnedImage::file).collect());
    let source = InMemory::new([("label", Column::ints(0..COUNT as i64)), ("image", column())]);
    let loader = Loader::from_source(source.unwrap()).seed(SEED).batch_size(COUNT as usize);
    let loader = loader.pipeline("image", augmented()).view("other", "image", augmented());
    let loader = loader.build().unwrap();
    let batch = loader.epoch(0).unwrap().next().unwrap().unwrap();
    let transform = Transform::new(augmented()).unwrap();
    for (name, view) in [("image", 0), ("other", 1)] {
        let bytes = batch.bytes(name).unwrap();
        for (sample, want) in (0..COUNT).zip(bytes.chunks(bytes.len() / COUNT as usize)) {
            let file = jpeg(sample);
            let key = Key::new(SEED, 0, sample).field(1).view(view);
            let found = transform.apply(&Image::encoded(&file), key).unwrap();
            assert!(found.as_bytes() == want, "{name}, sample {sample}");
        }
    }
}

#[test]
fn threads_share_a_transform_and_rows_may_have_gaps() {
    let transform = Transform::new(augmented()).unwrap();
    let (size, pixels) = picture(0);
    let [height, width] = [size.height, size.width].map(|side| side as usize);
    let image = Image::rgb(&pixels, height, width).unwrap();
    let key = |sample| Key::new(1, 0, sample);
    let want: Vec<Tensor> =
        (0..20).map(|sample| transform.apply(&image, key(sample)).unwrap()).collect();
    let stride = 3 * width + 7;
    let mut apart = vec![0xaa; stride * (height - 1) + 3 * width];
    for (to, from) in apart.chunks_mut(stride).zip(pixels.chunks(3 * width)) {
        to[..3 * width].copy_from_slice(from);
    }
    let apart = Image::rows(&apart, [height, width, 3], stride).unwrap();
    std::thread::scope(|scope| {
        for image in [image, apart, image, apart] {
            let (transform, want) = (&transform, &want);
            scope.spawn(move || {
                for (sample, want) in (0..).zip(want) {
                    assert!(transform.apply(&image, key(sample)).unwrap() == *want, "{sample}");
                }
            });
        }
    });
}

/// Returns the bytes that 100 calls allocate, when as many have been before: the loop bodies of a jitter's orders are
/// compiled when a sample first needs them.
fn allocated<T: fuseloop::batch::Element>(
    list: Ops,
    image: &Image<'_>,
    zero: T,
    len: usize,
) -> u64 {
    let transform = Transform::new(list).unwrap();
    let mut out = vec![zero; len];
    let mut epoch = || {
        for sample in 0..100 {
            transform.apply_into(image, Key::new(0, 0, sample), &mut out).unwrap();
        }
    };
    epoch();
    let before = asked_for();
    epoch();
    asked_for() - before
}

#[test]
fn calls_after_the_first_ones_allocate_nothing() {
    let (size, pixels) = picture(1);
    let image = Image::rgb(&pixels, size.height as usize, size.width as usize).unwrap();
    let len = 3 * 32 * 32;
    assert_eq!(allocated(augmented(), &image, 0.0_f32, len), 0);
    let bytes = ops![
        RandomResizedCrop::new(32).unwrap(),
        ColorJitter::new(0.4, 0.4, 0.4).unwrap(),
        RandomEqualize::new(0.5).unwrap(),
        Cutout::new(8).unwrap(),
    ];
    assert_eq!(allocated(bytes, &image, 0_u8, len), 0);
    let moved = ops![
        RandomAffine::new(10.0).unwrap(),
        CenterCrop::new(32).unwrap(),
        RandomApply::new(ops![GaussianBlur::new(3).unwrap()]),
        RandomInvert::new(0.5).unwrap(),
    ];
    // Filters of rows and decoders allocate less than an image.
    for (what, bytes) in [
        ("a warp", allocated(moved, &image, 0_u8, len)),
        ("a JPEG", allocated(augmented(), &Image::encoded(&jpeg(1)), 0.0_f32, len)),
    ] {
        println!("{} bytes a call of {what}", bytes / 100);
        assert!(bytes / 100 < 1024, "{what}: {} bytes a call", bytes / 100);
    }
}

#[test]
fn outputs_may_have_the_size_of_their_image() {
    let transform = Transform::new(ops![RandomInvert::new(1.0).unwrap()]).unwrap();
    for sample in 0..COUNT {
        let (size, pixels) = picture(sample);
        let [height, width] = [size.height, size.width].map(|side| side as usize);
        let image = Image::rgb(&pixels, height, width).unwrap();
        let tensor = transform.apply(&image, transform.fresh_key()).unwrap();
        assert_eq!((tensor.shape(), tensor.dtype()), (&[height, width, 3][..], DType::U8));
        let inverted = tensor.as_slice::<u8>().unwrap().iter().map(|level| 255 - level);
        assert!(inverted.eq(pixels));
        let planes =
            Image::planes(&vec![0_u8; 3 * height * width], [3, height, width]).map(|planes| {
                transform.apply(&planes, transform.fresh_key()).unwrap().shape().to_vec()
            });
        assert_eq!(planes.unwrap(), [3, height, width]);
    }
}

#[test]
fn fresh_keys_differ_and_follow_the_seed() {
    let list = || Transform::new(augmented()).unwrap();
    let keys = |transform: &Transform| [0; 3].map(|_| transform.fresh_key());
    let (one, other) = (keys(&list()), keys(&list()));
    assert!(one[0] != one[1] && one[1] != one[2] && one[0] != other[0]);
    assert_eq!(keys(&list().seed(4)), [0, 1, 2].map(|call| Key::new(4, 0, call)));
}

#[test]
fn wrong_input_is_a_named_error() {
    let text = |error: fuseloop::Error| {
        assert_eq!(error.kind(), ErrorKind::Parameter);
        error.to_string()
    };
    let of = |pixels: &[u8], shape| text(Image::pixels(pixels, shape).unwrap_err());
    assert_eq!(
        of(&[0; 11], [2, 2, 3]),
        "an image of 2x2 with 3 channel(s) has 12 elements, but 11 are given"
    );
    assert_eq!(
        of(&[], [0, 2, 3]),
        "an image of 0 rows, 2 columns and 3 channels: each must be 1 to 65535"
    );
    let most = usize::MAX;
    for shape in
        [[most, 2, 3], [2, most, 3], [2, 2, most], [2, 2, 0], [65_536, 1, 1], [1, 1, 65_536]]
    {
        assert!(of(&[0; 12], shape).ends_with("each must be 1 to 65535"), "{shape:?}");
    }
    assert!(Image::pixels(&[0_u8; 12], [65_535, 65_535, 65_535]).is_err());
    assert_eq!(
        text(Image::pixels(&[0_i64; 12], [2, 2, 3]).unwrap_err()),
        "an image of i64: ops take u8, u16, i16, f16, bf16 and f32"
    );
    for (len, stride) in [(12, 5), (11, 6), (12, 7), (12, usize::MAX)] {
        assert!(
            text(Image::rows(&vec![0_u8; len], [2, 2, 3], stride).unwrap_err())
                .contains("hold no image of 2x2")
        );
    }
    assert!(Image::rows(&[0_u8; 13], [2, 2, 3], 7).is_ok());
}

#[test]
fn memory_that_does_not_fit_the_array_is_refused() {
    let transform = Transform::new(augmented()).unwrap();
    let (size, pixels) = picture(1);
    let image = Image::rgb(&pixels, size.height as usize, size.width as usize).unwrap();
    let key = Key::new(0, 0, 0);
    let error = transform.apply_into(&image, key, &mut [0.0_f32; 5]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the array of shape [3, 32, 32] has 3072 elements, but `out` has 5"
    );
    let error = transform.apply_into(&image, key, &mut [0_u8; 4 * 3072]).unwrap_err();
    assert_eq!(error.to_string(), "the array has elements of type f32, but `out` has u8");
    let mut bytes = vec![0_i64; 1 + 3072 / 2];
    let bytes: Vec<u8> = bytes.drain(..).flat_map(i64::to_ne_bytes).collect();
    let mut bytes = bytes;
    let away = 4 - bytes.as_ptr().addr() % 4;
    let error = transform.apply_to(&image, key, |_| Ok(&mut bytes[away % 4 + 1..][..4 * 3072]));
    assert!(error.unwrap_err().to_string().contains("no multiple of 4"));
    let tensor = transform.apply(&image, key).unwrap();
    assert_eq!(
        tensor.as_slice::<u8>().unwrap_err().to_string(),
        "the array holds f32, but was requested as u8"
    );
}

#[test]
fn lists_for_loaders_are_refused_and_lists_that_do_not_fit_when_they_are_called() {
    let error = |ops| Transform::new(ops).unwrap_err().to_string();
    let mixed = error(ops![CenterCrop::new(8).unwrap(), MixUp::new(0.2).unwrap()]);
    assert!(mixed.starts_with("op 1 of the list: MixUp works on batches"), "{mixed}");

    let transform = Transform::new(ops![OneHot::new(3).unwrap()]).unwrap();
    let (pixels, key) = ([0; 12], Key::new(0, 0, 0));
    let error = transform.apply(&Image::rgb(&pixels, 2, 2).unwrap(), key).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Pipeline);
    assert!(transform.explain().contains("OneHot"));

    let damaged = Transform::new(augmented()).unwrap().apply(&Image::encoded(b"no image"), key);
    assert_eq!(damaged.unwrap_err().kind(), ErrorKind::Damaged);
    let crop = Transform::new(ops![RandomCrop::new(2).unwrap()]).unwrap();
    let explained = Transform::new(augmented()).unwrap().explain();
    assert!(explained.contains("RandomResizedCrop"), "{explained}");
    assert!(crop.explain().contains("RandomCrop"));
}

/// The list of a training whose images a GPU finishes, or the CPU where there is none.
fn to_device(device: &str) -> Ops {
    ops![
        RandomResizedCrop::new(32).unwrap(),
        ToDevice::new(device).unwrap(),
        RandomHorizontalFlip::new(0.5).unwrap(),
        ColorJitter::new(0.4, 0.4, 0.4).unwrap(),
        Normalize::imagenet(),
        ToChannelsFirst,
    ]
}

#[test]
fn without_a_gpu_batches_of_a_device_have_the_rows_of_a_loader_in_host_memory() {
    let files: Vec<Vec<u8>> = (0..COUNT).map(jpeg).collect();
    let want = rows(of_files(files.clone()).pipeline("image", to_device("cpu")), 2);
    let images: Vec<Image<'_>> = files.iter().map(|file| Image::encoded(file)).collect();
    let keys: Vec<Key> = (0..COUNT).map(|sample| Key::new(SEED, 2, sample)).collect();
    for device in ["auto", "cpu"] {
        let transform = Transform::new(to_device(device)).unwrap();
        assert_eq!(transform.placement().to_string(), "cpu");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for count in [2, COUNT as usize, 3] {
                        let batch = transform.batch_on_device(&images[..count], &keys[..count]);
                        let batch = batch.unwrap();
                        assert!(batch.bytes("image").unwrap() == want[..count].concat());
                        let tensor = batch.tensor::<f32>("image").unwrap();
                        assert_eq!(tensor.shape(), [count, 3, 32, 32]);
                        assert_eq!((batch.ids().len(), batch.epoch().index()), (count, 2));
                        assert!(batch.device().is_none());
                    }
                });
            }
        });
        let placement = transform.placement().to_string();
        assert_eq!(placement.starts_with("cpu, since "), device == "auto", "{placement}");
        assert!(transform.explain().starts_with(&format!("device: {placement}\n")));
    }
    let here = Transform::new(to_device("cpu")).unwrap();
    assert!(here.apply(&images[1], keys[1]).unwrap().as_bytes() == want[1]);
    assert!(here.batch(&images, &keys).unwrap().as_bytes() == want.concat());
    // Batches of a list without ToDevice are in host memory, too.
    let host = Transform::new(augmented()).unwrap().batch_on_device(&images, &keys).unwrap();
    let host_rows = rows(of_files(files.clone()).pipeline("image", augmented()), 2);
    assert!(host.bytes("image").unwrap() == host_rows.concat());
}

#[test]
fn planes_reach_a_device_and_stay_planes() {
    let (size, pixels) = picture(2);
    let [height, width] = [size.height, size.width].map(|side| side as usize);
    let planes: Vec<u8> = (0..3).flat_map(|c| pixels[c..].iter().step_by(3).copied()).collect();
    let planes = [Image::planes(&planes, [3, height, width]).unwrap()];
    let images = [Image::rgb(&pixels, height, width).unwrap()];
    let list = || to_device("cpu");
    let without = || list()[..5].to_vec();
    let last = [&without()[..], &ops![ToChannelsLast]].concat();
    let run = |ops: Ops, images: &[Image<'_>]| {
        let transform = Transform::new(ops).unwrap();
        let batch = transform.batch_on_device(images, &[Key::new(SEED, 0, 0)]).unwrap();
        (batch.shape("image").unwrap(), batch.bytes("image").unwrap().to_vec())
    };
    let want = run(list(), &images);
    assert_eq!(want.0, [1, 3, 32, 32]);
    assert!(run(list(), &planes) == want && run(without(), &planes) == want);
    let turned = run(last, &planes);
    assert!(turned == run(without(), &images) && turned.0 == [1, 32, 32, 3]);
}

#[test]
fn calls_that_do_not_fit_a_device_are_named_errors() {
    let (size, pixels) = picture(1);
    let image = Image::rgb(&pixels, size.height as usize, size.width as usize).unwrap();
    let (images, keys) = ([image; 2], [Key::new(0, 0, 0); 2]);
    let text = |error: fuseloop::Error| error.to_string();
    let on_gpu = Transform::new(to_device("auto")).unwrap();
    let refused = [
        text(on_gpu.apply(&image, keys[0]).unwrap_err()),
        text(on_gpu.apply_into(&image, keys[0], &mut [0.0_f32; 3 * 32 * 32]).unwrap_err()),
        text(on_gpu.batch(&images, &keys).unwrap_err()),
        text(on_gpu.apply_with(&image, &[], keys[0]).unwrap_err()),
        text(on_gpu.shape_of(&image, keys[0]).unwrap_err()),
    ];
    for refused in refused {
        assert!(
            refused.starts_with("op 1 of the list: ToDevice finishes whole batches"),
            "{refused}"
        );
        assert!(refused.contains("`batch_on_device`"), "{refused}");
    }
    let missing = Transform::new(to_device("cuda:77")).unwrap();
    let error = missing.batch_on_device(&images, &keys).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Device);
    assert!(text(error).contains("was requested"));
    assert!(
        text(Transform::new(to_device("auto")).unwrap().device("gpu").unwrap_err()).contains("gpu")
    );
    let none = Transform::new(to_device("auto")).unwrap().device_batches(0).unwrap_err();
    assert!(text(none).starts_with("0 batches on the device"));
    let other = Transform::new(augmented()).unwrap().device("cuda:0").unwrap();
    assert!(
        text(other.apply(&image, keys[0]).unwrap_err()).contains("no list of ops has ToDevice")
    );

    let targets = Targets::new().boxes("boxes", BoxFormat::Xyxy);
    let annotated = Transform::new(to_device("cpu")).unwrap().targets(&targets).unwrap();
    let error = text(annotated.batch_on_device(&images, &keys).unwrap_err());
    assert!(error.contains("declares targets, such as boxes"), "{error}");
    assert!(text(on_gpu.batch_on_device(&[], &[]).unwrap_err()).starts_with("no image is given"));
    let error = text(on_gpu.batch_on_device(&images, &keys[1..]).unwrap_err());
    assert!(error.starts_with("2 image(s) and 1 key(s)"), "{error}");
    let damaged = [image, Image::encoded(b"no image")];
    assert!(text(on_gpu.batch_on_device(&damaged, &keys).unwrap_err()).starts_with("image 1: "));
    let mixed = Transform::new([&to_device("auto")[..], &ops![MixUp::new(0.2).unwrap()]].concat());
    assert!(text(mixed.unwrap_err()).starts_with("op 6 of the list: MixUp works on batches"));
}

/// Boxes, labels, two keypoints and a polygon for each object of an image, and a mask of the image.
struct Annotated {
    boxes: Vec<u8>,
    labels: Vec<u8>,
    keypoints: Vec<u8>,
    polygons: String,
    mask: Vec<u8>,
}

impl Annotated {
    fn new(sample: u64, size: Size) -> Self {
        let mut rng = Rng::new(1000 + sample);
        let [height, width] = [size.height as f32, size.width as f32];
        let (mut boxes, mut keypoints, mut polygons) = (vec![], vec![], vec![]);
        let count = sample as i64 % 4;
        for _ in 0..count {
            let (left, top) = (rng.uniform(0.0, 0.7) * width, rng.uniform(0.0, 0.7) * height);
            let (right, bottom) = (rng.uniform(left + 2.0, width), rng.uniform(top + 2.0, height));
            boxes.extend([left, top, right, bottom].map(f32::to_le_bytes).concat());
            keypoints.extend([left, top, 2.0, right, bottom, 1.0].map(f32::to_le_bytes).concat());
            polygons.push(format!("[[{left},{top},{right},{top},{right},{bottom}]]"));
        }
        let labels = (0..count).flat_map(|label| (label * 3).to_le_bytes()).collect();
        let mask = (0..size.pixels()).map(|pixel| (pixel / 31 % 7) as u8).collect();
        Self { boxes, labels, keypoints, polygons: format!("[{}]", polygons.join(",")), mask }
    }
}

fn declared() -> Targets {
    Targets::new()
        .mask("mask", 255)
        .instance_masks("polygons")
        .column("labels", DType::I64)
        .keypoints("keypoints", KeyPoints::new(2).flip_pairs(&[[0, 1]]))
        .boxes("boxes", BoundingBoxes::new(BoxFormat::Xyxy).to(BoxFormat::Cxcywh))
}

/// A loader whose images are pixels or JPEGs, and have all targets.
fn annotated_loader(is_jpeg: bool, list: &Ops) -> Loader {
    let samples = || (0..COUNT).map(|sample| (picture(sample), sample));
    let all: Vec<_> = samples().map(|((size, _), sample)| Annotated::new(sample, size)).collect();
    let image = |((size, pixels), sample)| match is_jpeg {
        true => OwnedImage::file(jpeg(sample)),
        false => OwnedImage::rgb(size, pixels),
    };
    let mask = |((size, _), sample): ((Size, Vec<u8>), u64)| OwnedImage {
        mode: ImageMode::Raw,
        width: size.width,
        height: size.height,
        bytes: all[sample as usize].mask.clone(),
    };
    let bytes = |of: fn(&Annotated) -> Vec<u8>| Column::bytes(all.iter().map(of));
    let columns = [
        ("image", Column::images(samples().map(image).collect())),
        ("boxes", bytes(|of| of.boxes.clone())),
        ("labels", bytes(|of| of.labels.clone())),
        ("keypoints", bytes(|of| of.keypoints.clone())),
        ("polygons", bytes(|of| of.polygons.clone().into_bytes())),
        ("mask", Column::images(samples().map(mask).collect())),
    ];
    let loader = Loader::from_source(InMemory::new(columns).unwrap()).seed(SEED);
    let loader = loader.targets("image", declared()).pipeline("image", list.clone());
    let loader = ["boxes", "labels", "keypoints", "polygons"]
        .into_iter()
        .fold(loader, |loader, name| loader.collate(name, Collate::ragged().to(8)));
    loader.batch_size(COUNT as usize).build().unwrap()
}

#[test]
fn targets_follow_an_image_as_in_a_loader() {
    let lists = [
        ops![RandomResizedCrop::new(40).unwrap(), RandomHorizontalFlip::new(0.5).unwrap()],
        ops![
            RandomIoUCrop::new(),
            RandomRotation::new(20.0).unwrap(),
            Resize::new((30, 50)).unwrap(),
            SanitizeBoundingBoxes::new(),
            ToChannelsFirst,
        ],
        ops![
            RandomVerticalFlip::new(0.5).unwrap(),
            CenterCrop::new(60).unwrap(),
            Normalize::imagenet()
        ],
    ];
    for (number, list) in lists.iter().enumerate() {
        for is_jpeg in [false, true] {
            let loader = annotated_loader(is_jpeg, list);
            let batch = loader.epoch(1).unwrap().next().unwrap().unwrap();
            let boxes = batch.ragged::<f32>("boxes").unwrap();
            let labels = batch.ragged::<i64>("labels").unwrap();
            let keypoints = batch.ragged::<f32>("keypoints").unwrap();
            let polygons = batch.ragged::<u8>("polygons").unwrap();
            let transform = Transform::new(list.clone()).unwrap().targets(&declared()).unwrap();
            let mut kept = 0;
            for sample in 0..COUNT {
                let ((size, pixels), file) = (picture(sample), jpeg(sample));
                let [height, width] = [size.height, size.width].map(|side| side as usize);
                let image = match is_jpeg {
                    true => Image::encoded(&file),
                    false => Image::rgb(&pixels, height, width).unwrap(),
                };
                let of = Annotated::new(sample, size);
                let mut values = vec![
                    ("labels", TargetValue::Bytes(&of.labels)),
                    ("polygons", TargetValue::Json(&of.polygons)),
                    ("mask", TargetValue::Mask(Image::plane(&of.mask, [height, width]).unwrap())),
                    ("boxes", TargetValue::Bytes(&of.boxes)),
                    ("keypoints", TargetValue::Bytes(&of.keypoints)),
                ];
                let key = Key::new(SEED, 1, sample);
                let out = transform.apply_with(&image, &values, key).unwrap();
                let row = sample as usize;
                let here = format!("list {number}, sample {sample}, {is_jpeg}");
                let same = |name: &str, found: &[u8]| {
                    let all = batch.bytes(name).unwrap();
                    let len = all.len() / COUNT as usize;
                    assert!(found == &all[row * len..][..len], "{name}, {here}");
                };
                let target = |name| out.target(name).unwrap();
                same("image", out.image().as_bytes());
                same("mask", target("mask").as_bytes());
                assert_eq!(
                    target("boxes").as_slice::<f32>().unwrap(),
                    boxes.row(row).unwrap(),
                    "{here}"
                );
                assert_eq!(target("labels").as_slice::<i64>().unwrap(), labels.row(row).unwrap());
                assert_eq!(
                    target("keypoints").as_slice::<f32>().unwrap(),
                    keypoints.row(row).unwrap()
                );
                assert!(target("polygons").as_slice::<u8>().unwrap() == polygons.row(row).unwrap());
                let labels = out.objects().iter().map(|object| 3 * *object as i64);
                assert!(labels.eq(target("labels").as_slice::<i64>().unwrap().iter().copied()));
                kept += out.objects().len();
                // Masks of pixels are those of their polygons.
                let mut drawn = vec![];
                for polygon in ObjectMask::parse_list(of.polygons.as_bytes()).unwrap() {
                    let mut mask = vec![0; height * width];
                    polygon.unwrap().fill(size, &mut mask).unwrap();
                    drawn.extend(mask);
                }
                values[1].1 = TargetValue::Masks(&drawn);
                let again = transform.apply_with(&image, &values, key).unwrap();
                assert!(again.target("polygons") == out.target("polygons"), "{here}");
                // The image is the same without targets, unless an op draws around boxes.
                if number != 1 {
                    assert!(transform.apply(&image, key).unwrap() == *out.image(), "{here}");
                }
                values.retain(|(name, _)| *name == "labels");
                match transform.apply_with(&image, &values, key) {
                    Ok(some) => assert!(some.target("boxes").is_none() && number != 1),
                    Err(error) => assert!(
                        number == 1 && error.to_string().contains("without bounding boxes"),
                        "{error}"
                    ),
                }
            }
            assert!(kept > 3, "{kept} objects are left");
        }
    }
}

#[test]
fn targets_that_do_not_fit_are_named_errors() {
    let list = || ops![CenterCrop::new(8).unwrap()];
    let transform = Transform::new(list()).unwrap().targets(&declared()).unwrap();
    let pixels = [0; 8 * 8 * 3];
    let image = Image::rgb(&pixels, 8, 8).unwrap();
    let error = |values: &[(&str, TargetValue<'_>)]| {
        transform.apply_with(&image, values, Key::new(0, 0, 0)).unwrap_err().to_string()
    };
    let (boxes, labels) = ([0; 32], [0; 24]);
    assert!(
        error(&[("box", TargetValue::Bytes(&boxes))])
            .starts_with("no target named box; declared: ")
    );
    let twice = ("boxes", TargetValue::Bytes(&boxes[..]));
    assert_eq!(error(&[twice, twice]), "target boxes has two values");
    assert!(error(&[("boxes", TargetValue::Json("[]"))]).contains("a value of another kind"));
    let counts = error(&[twice, ("labels", TargetValue::Bytes(&labels))]);
    assert!(counts.starts_with("target labels: "), "{counts}");
    assert!(error(&[("boxes", TargetValue::Bytes(&boxes[..15]))]).starts_with("target boxes: "));
    assert_eq!(
        error(&[("boxes", TargetValue::elements(&[1.0_f64, 2.0, 3.0, 4.0]))]),
        "target boxes: its elements are of type f64, expected f32"
    );
    assert_eq!(
        error(&[("labels", TargetValue::elements(&[1_i32]))]),
        "target labels: its elements are of type i32, expected i64"
    );
    assert!(error(&[("polygons", TargetValue::Masks(&[0; 65]))]).contains("each must have 64"));
    let small = Image::plane(&pixels[..49], [7, 7]).unwrap();
    assert!(error(&[("mask", TargetValue::Mask(small))]).contains("both must have one size"));
    assert!(error(&[("mask", TargetValue::Mask(image))]).contains("u8 pixels of one channel"));

    let declare = |targets: Targets| {
        Transform::new(list()).unwrap().targets(&targets).unwrap_err().to_string()
    };
    let twice = Targets::new().boxes("a", BoxFormat::Xyxy).boxes("b", BoxFormat::Xyxy);
    assert!(declare(twice).contains("declared twice"));
    let same = Targets::new().column("a", DType::I64).column("a", DType::I64);
    assert!(declare(same).contains("declared twice"));
}

#[test]
fn a_batch_has_the_arrays_of_its_images() {
    let pictures: Vec<_> = (0..COUNT).map(picture).collect();
    let files: Vec<_> = (0..COUNT).map(jpeg).collect();
    let keys: Vec<_> = (0..2 * COUNT).map(|sample| Key::new(3, 0, sample)).collect();
    let mut images = vec![];
    for ((size, pixels), file) in pictures.iter().zip(&files) {
        images.push(Image::rgb(pixels, size.height as usize, size.width as usize).unwrap());
        images.push(Image::encoded(file));
    }
    for workers in [1, 3] {
        let transform = Transform::new(augmented()).unwrap().workers(workers);
        let batch = transform.batch(&images, &keys).unwrap();
        assert_eq!(batch.shape(), [2 * COUNT as usize, 3, 32, 32]);
        for ((image, key), row) in images.iter().zip(&keys).zip(batch.as_bytes().chunks(4 * 3072)) {
            assert!(transform.apply(image, *key).unwrap().as_bytes() == row);
        }
        let mut out = vec![0.0_f32; batch.as_slice::<f32>().unwrap().len()];
        transform.batch_into(&images, &keys, &mut out).unwrap();
        assert!(out == batch.as_slice::<f32>().unwrap());

        let text = |error: fuseloop::Error| error.to_string();
        let short = text(transform.batch_into(&images, &keys, &mut out[1..]).unwrap_err());
        assert_eq!(
            short,
            "the array of shape [12, 3, 32, 32] has 36864 elements, but `out` has 36863"
        );
        assert!(
            text(transform.batch(&images, &keys[1..]).unwrap_err())
                .contains("each image needs a key")
        );
        assert!(text(transform.batch(&[], &[]).unwrap_err()).starts_with("no image is given"));
        images[3] = Image::encoded(b"no image");
        images[5] = Image::encoded(b"no image");
        let damaged = transform.batch(&images, &keys).unwrap_err();
        assert!(text(damaged).starts_with("image 3: "));
        images[3] = Image::encoded(&files[1]);
        images[5] = Image::encoded(&files[2]);
        let sizes = Transform::new(ops![RandomInvert::new(0.5).unwrap()]).unwrap().workers(workers);
        let varying = text(sizes.batch(&images, &keys).unwrap_err());
        assert!(varying.starts_with("image 2: its array is [103, 133, 3] of u8"), "{varying}");
    }
}

#[cfg(feature = "spec")]
#[test]
fn a_pipeline_file_is_a_transform() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("train.toml");
    let of = |text: &str| {
        std::fs::write(&path, text).unwrap();
        Transform::from_spec(&path)
    };
    let ops = "[{ op = 'Resize', size = [20, 20] }, { op = 'RandomInvert', p = 0.5 }]";
    let text = format!(
        "seed = 5\nnumber_rule = 'exact'\n[read_mode]\nimage = 'gray'\n[fields]\nimage = {ops}\n"
    );
    let transform = of(&text).unwrap();
    assert_eq!(transform.fresh_key(), Key::new(5, 0, 0));
    let loader = of_files((0..COUNT).map(png));
    let loader = fuseloop::Spec::open(&path).unwrap().apply(loader);
    for (sample, want) in (0..COUNT).zip(rows(loader, 0)) {
        let file = png(sample);
        let found = transform.apply(&Image::encoded(&file), Key::new(5, 0, sample)).unwrap();
        assert!(found.as_bytes() == want, "sample {sample}");
    }
    assert_eq!(of(&format!("[fields]\nphoto = {ops}")).unwrap().ops().len(), 2);
    let error = |text: &str| of(text).unwrap_err().to_string();
    assert!(
        error(&format!("[fields]\none = {ops}\ntwo = {ops}"))
            .contains("none of the fields with ops is called image: one, two")
    );
    let by_epoch =
        "[fields]\nimage = [{ op = 'Resize', size = { from = 10, to = 20, epochs = [0, 3] } }]";
    assert!(error(by_epoch).contains("change with the epoch"), "{}", error(by_epoch));
}
