//! Several outputs of one field, and fields with the same draws.

use crate::common::dataset::{self, varied};
use fuseloop::loader::Pipeline;
use fuseloop::source::{FieldKind, FieldSpec};
use fuseloop::write::{FieldValue, ImageInput, ImageOptions, WriteMode, WriteOptions, write_iter};
use fuseloop::{Epoch, Loader, LoaderBuilder, Order, SampleId, ops::*};
use std::path::{Path, PathBuf};

fn builder(path: &Path) -> LoaderBuilder {
    Loader::open(path).unwrap().batch_size(5).seed(7).order(Order::Random).drop_last(false)
}

fn crop(side: u32) -> Ops {
    ops![
        RandomResizedCrop::new(side).unwrap().scale(0.2..=1.0).unwrap().ratio(0.75..=1.33).unwrap(),
        RandomHorizontalFlip::new(0.5).unwrap(),
        ColorJitter::new(0.4, 0.4, 0.4).unwrap(),
    ]
}

/// The rows of an output, by sample.
fn by_sample(builder: LoaderBuilder, output: &str) -> Vec<(SampleId, Vec<u8>)> {
    let mut rows = vec![];
    for batch in builder.build().unwrap().epoch(1).unwrap() {
        let batch = batch.unwrap();
        let bytes = batch.bytes(output).unwrap();
        let row = bytes.len() / batch.len();
        rows.extend(batch.ids().iter().copied().zip(bytes.chunks(row).map(<[u8]>::to_vec)));
    }
    rows
}

#[test]
fn views_are_those_of_loaders_of_their_own_and_each_picture_is_decoded_once() {
    for mode in [WriteMode::Jpg, WriteMode::Raw] {
        let (_dir, path) = dataset::write(17, mode, varied);
        let first = |b: LoaderBuilder| b.pipeline("image", crop(32));
        let second = |b: LoaderBuilder| b.view("b", "image", crop(20));
        let both = || second(first(builder(&path)));
        let alone = || second(builder(&path).without("image"));
        assert!(by_sample(both(), "image") == by_sample(first(builder(&path)), "image"));
        assert!(by_sample(both(), "b") == by_sample(alone(), "b"));

        let loader = both().workers(2).build().unwrap();
        let names: Vec<String> = loader.tensors().into_iter().map(|tensor| tensor.name).collect();
        assert_eq!(names, ["image", "label", "b"]);
        for epoch in 0..2 {
            loader.epoch(epoch).unwrap().for_each(|batch| drop(batch.unwrap()));
            assert_eq!(loader.decoded(), 17 * u64::from(epoch + 1), "{mode:?}");
        }
    }
}

#[test]
fn views_of_one_list_differ_from_the_field_and_from_each_other() {
    let (_dir, path) = dataset::write(9, WriteMode::Raw, varied);
    let three = || {
        builder(&path).pipeline("image", crop(16)).view("b", "image", crop(16)).view(
            "c",
            "image",
            crop(16),
        )
    };
    let [a, b, c] = ["image", "b", "c"].map(|output| by_sample(three(), output));
    for ((a, b), c) in a.iter().zip(&b).zip(&c) {
        assert!(a.0 == b.0 && b.0 == c.0);
        assert!(a.1 != b.1 && b.1 != c.1 && a.1 != c.1, "sample {}", a.0);
    }
}

#[test]
fn the_bits_of_views_do_not_depend_on_the_workers() {
    let (_dir, path) = dataset::write(23, WriteMode::Jpg, varied);
    let views = |workers, size| {
        builder(&path).workers(workers).batch_size(size).pipeline("image", crop(32)).view(
            "b",
            "image",
            crop(24),
        )
    };
    let one = by_sample(views(1, 23), "b");
    for (workers, size) in [(2, 23), (4, 6), (8, 1)] {
        assert!(by_sample(views(workers, size), "b") == one, "{workers} {size}");
    }
}

#[test]
fn labels_and_views_of_labels_come_in_several_forms() {
    let (_dir, path) = dataset::write(4, WriteMode::Raw, varied);
    let loader = builder(&path)
        .order(Order::Sequential)
        .without("image")
        .view("vector", "label", ops![OneHot::new(10).unwrap(), LabelSmoothing::new(0.5).unwrap()])
        .branch("half", "vector", 1, ops![Convert::to(DType::F16)])
        .build()
        .unwrap();
    let batch = loader.epoch(0).unwrap().next().unwrap().unwrap();
    assert_eq!(batch.tensor::<i64>("label").unwrap().as_slice(), [0, 1, 2, 3]);
    let vector = batch.tensor::<f32>("vector").unwrap();
    assert_eq!(vector.row(1).unwrap()[..3], [0.05, 0.55, 0.05]);
    let half = batch.tensor::<half::f16>("half").unwrap();
    assert_eq!(half.row(1).unwrap()[..3], [0.0, 1.0, 0.0].map(half::f16::from_f32));
    assert_eq!(loader.decoded(), 0, "nothing was asked of the images");
}

#[test]
fn a_branch_goes_on_where_its_output_was() {
    let (_dir, path) = dataset::write(11, WriteMode::Jpg, varied);
    let branched = || {
        builder(&path).pipeline("image", crop(32)).branch("plain", "image", 2, ops![]).branch(
            "small",
            "image",
            1,
            ops![Resize::new((8, 8)).unwrap()],
        )
    };
    let uncoloured = |b: LoaderBuilder| b.pipeline("image", crop(32)[..2].to_vec());
    assert!(by_sample(branched(), "plain") == by_sample(uncoloured(builder(&path)), "image"));
    let small = |b: LoaderBuilder| {
        let first = crop(32).into_iter().take(1);
        b.pipeline("image", first.chain(ops![Resize::new((8, 8)).unwrap()]).collect::<Ops>())
    };
    assert!(by_sample(branched(), "small") == by_sample(small(builder(&path)), "image"));
    let text = branched().build().unwrap().explain();
    for title in ["field image:", "branch plain of image, after 2 op(s):", "field label:"] {
        assert!(text.contains(title), "{text}");
    }
}

#[test]
fn views_and_branches_are_made_anew_with_each_epoch() {
    let smaller = |epoch: Epoch| Ok::<_, ParamError>(crop(8 + 8 * epoch.index()));
    let (_dir, path) = dataset::write(5, WriteMode::Raw, varied);
    let loader = builder(&path)
        .pipeline_by_epoch("image", |epoch| Ok::<_, ParamError>(crop(16 + 8 * epoch.index())))
        .view("b", "image", Pipeline::by_epoch(smaller))
        .branch("c", "b", 1, ops![ToChannelsFirst])
        .build()
        .unwrap();
    for epoch in [0, 2, 1] {
        let batch = loader.epoch(epoch).unwrap().next().unwrap().unwrap();
        let side = |base: usize| base + 8 * epoch as usize;
        assert_eq!(batch.tensor::<u8>("image").unwrap().shape(), [5, side(16), side(16), 3]);
        assert_eq!(batch.tensor::<u8>("b").unwrap().shape(), [5, side(8), side(8), 3]);
        assert_eq!(batch.tensor::<u8>("c").unwrap().shape(), [5, 3, side(8), side(8)]);
    }
}

/// Images and masks of one size, whose first two channels hold each pixel's position.
fn masked(samples: u64) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("masked.beton");
    let field = |name: &str| FieldSpec { name: name.to_owned(), kind: FieldKind::RgbImage };
    let rows = (0..samples).map(|sample| {
        let size = varied(sample);
        let (width, height) = (size.width, size.height);
        let picture = |blue: u8| {
            let at = |y: u32| (0..width).flat_map(move |x| [x as u8, y as u8, blue]);
            let pixels = (0..height).flat_map(at).collect();
            FieldValue::Image(ImageInput::Rgb { pixels, width, height })
        };
        vec![picture(10), picture(200)]
    });
    let image = ImageOptions { write_mode: WriteMode::Raw, ..ImageOptions::default() };
    let options = WriteOptions { image, ..WriteOptions::default() };
    write_iter(rows, &[field("image"), field("mask")], &path, &options).unwrap();
    (dir, path)
}

/// The original position of each pixel of a u8 row.
fn positions(row: &[u8]) -> Vec<[u8; 2]> {
    row.as_chunks::<3>().0.iter().map(|&[x, y, _]| [x, y]).collect()
}

#[test]
fn a_mask_that_shares_draws_is_cut_and_flipped_as_its_image() {
    let (_dir, path) = masked(30);
    let geometry = || {
        ops![
            RandomCrop::new(40).unwrap(),
            RandomHorizontalFlip::new(0.5).unwrap(),
            RandomVerticalFlip::new(0.5).unwrap(),
        ]
    };
    let unshared = || builder(&path).pipeline("image", geometry()).pipeline("mask", geometry());
    let aligned = |builder: &dyn Fn() -> LoaderBuilder| {
        let (images, masks) = (by_sample(builder(), "image"), by_sample(builder(), "mask"));
        let pairs = images.iter().zip(&masks);
        pairs
            .filter(|((a, image), (b, mask))| a == b && positions(image) == positions(mask))
            .count()
    };
    assert!(aligned(&unshared) < 5, "fields draw apart");
    assert_eq!(aligned(&|| unshared().share_draws("mask", "image")), 30);
    let resized = || {
        builder(&path)
            .pipeline("image", crop(32))
            .pipeline("mask", crop(32)[..2].to_vec())
            .branch("uncoloured", "image", 2, ops![])
            .share_draws("mask", "image")
    };
    let (images, masks) = (by_sample(resized(), "uncoloured"), by_sample(resized(), "mask"));
    for ((_, image), (_, mask)) in images.iter().zip(&masks) {
        assert_eq!(positions(image), positions(mask), "the same rectangle, resized");
    }
}

#[test]
fn a_view_can_share_the_draws_of_a_view_of_another_field() {
    let (_dir, path) = masked(12);
    let both = || {
        builder(&path)
            .without("image")
            .without("mask")
            .view("a", "image", crop(32)[..2].to_vec())
            .view("b", "mask", crop(32)[..2].to_vec())
            .share_draws("b", "a")
    };
    for ((_, a), (_, b)) in by_sample(both(), "a").iter().zip(&by_sample(both(), "b")) {
        assert_eq!(positions(a), positions(b));
    }
}

#[test]
fn outputs_that_do_not_fit_are_refused_by_name() {
    let (_dir, path) = dataset::write(3, WriteMode::Raw, varied);
    let open = || builder(&path).pipeline("image", crop(16));
    let refused = |builder: LoaderBuilder| builder.build().expect_err("refused").to_string();
    let error = refused(open().view("label", "image", crop(16)));
    assert_eq!(error, "output label: a field or another output has this name");
    let error = refused(open().view("b", "imgae", ops![]));
    assert_eq!(error, "no output named imgae; available: image, label");
    let error = refused(open().view("b", "image", ops![]));
    assert!(error.starts_with("output b: images of 70..=128 x 60..=86 pixels "), "{error}");
    let zero = |_| RandomResizedCrop::new(0).map(|op| ops![op]);
    let error = refused(open().view("b", "image", Pipeline::by_epoch(zero)));
    let want = "RandomResizedCrop: height is 0, expected 1..=65535";
    assert_eq!(error, format!("output b: its list for epoch 0: {want}"));
    let error = refused(open().branch("b", "image", 4, ops![]));
    assert_eq!(error, "output b: it branches after 4 ops, but the list has 3");
    let error = refused(open().share_draws("image", "mask"));
    assert_eq!(error, "no output named mask; available: image, label");
    let view = || open().view("b", "image", crop(16));
    let error = refused(view().share_draws("b", "image").share_draws("image", "b"));
    assert_eq!(error, "output b can't share the draws of image: the sharing forms a cycle");
    let error = refused(view().branch("c", "image", 1, ops![]).share_draws("c", "b"));
    assert_eq!(
        error,
        "output c can't share the draws of b: it is a branch, which always draws as its output does"
    );
}
