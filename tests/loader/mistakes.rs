//! Mistakes that would train wrongly without an error: each is refused, and the message says what to do.

use crate::common::dataset;
use fuseloop::ImageReadMode;
use fuseloop::internals::assert_says;
use fuseloop::loader::{Collate, Targets};
use fuseloop::ops::author::{Op, OpClass, Type};
use fuseloop::prelude::*;
use fuseloop::source::{Annotated, ClassNames, CocoOptions, FieldKind, FieldSpec};
use fuseloop::spec::Spec;
use fuseloop::write::{FieldValue, ImageInput, ImageOptions, WriteMode, WriteOptions, write_iter};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const IMAGENET: ([f64; 3], [f64; 3]) = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]);

fn pictures() -> (tempfile::TempDir, PathBuf) {
    dataset::write(6, WriteMode::Raw, |_| Size::new(8, 8))
}

fn refusal(builder: LoaderBuilder) -> String {
    builder.build().unwrap_err().to_string()
}

/// Returns the builder of a loader by a pipeline file of this text.
fn by_file(path: &Path, text: &str) -> LoaderBuilder {
    text.parse::<Spec>().unwrap().apply(Loader::open(path).unwrap())
}

#[test]
fn a_second_normalize_is_refused_in_rust_and_toml() {
    let (_dir, path) = pictures();
    let want = "output image: op 2 of the list: Normalize takes the image's own values, but gets values that op 0 has \
                normalized (keep one of the two)";
    let flip = RandomHorizontalFlip::new(0.5).unwrap();
    let again = Normalize::new(IMAGENET.0, IMAGENET.1).unwrap();
    let twice = ops![Normalize::imagenet(), flip, again];
    assert_eq!(refusal(Loader::open(&path).unwrap().pipeline("image", twice)), want);
    let normalize = "{ op = 'Normalize', mean = [0.5, 0.5, 0.5], std = [0.5, 0.5, 0.5] }";
    let text = format!("[fields]\nimage = [{normalize}, 'RandomHorizontalFlip', {normalize}]");
    assert_eq!(refusal(by_file(&path, &text)), format!("pipeline:2:103: {want}"));
    // Ops that never run for the same sample may each normalize.
    let halves = Normalize::new([0.5; 3], [0.5; 3]).unwrap();
    let lists = vec![ops![Normalize::imagenet()], ops![halves]];
    let either = ops![RandomChoice::new(lists).unwrap()];
    Loader::open(&path).unwrap().pipeline("image", either).build().unwrap();
}

/// An op of a program that normalizes in its own way.
#[derive(Debug)]
struct OwnNormalize;

impl Op for OwnNormalize {
    fn name(&self) -> &'static str {
        "OwnNormalize"
    }

    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        Normalize::values([0.0], [1.0]).unwrap().output(input)
    }

    fn class(&self) -> OpClass<'_> {
        OpClass::Cast(DType::F32)
    }

    fn normalizes_values(&self) -> bool {
        true
    }
}

#[test]
fn whether_values_are_normalized_depends_on_the_ops_and_not_on_their_names() {
    let (_dir, path) = pictures();
    let open = |ops: Ops| Loader::open(&path).unwrap().pipeline("image", ops);
    let values = || Normalize::values([0.5], [2.0]).unwrap();
    let sometimes = |ops| RandomApply::new(ops);
    for twice in [
        ops![Normalize::imagenet(), values()],
        ops![Normalize::imagenet(), sometimes(ops![values()])],
        ops![Normalize::imagenet(), sometimes(ops![sometimes(ops![values()])])],
        ops![Normalize::imagenet(), RandomHorizontalFlip::new(0.5).unwrap(), OwnNormalize],
        ops![OwnNormalize, Convert::to(DType::F16), values()],
    ] {
        assert_says(refusal(open(twice)), ["op 0 has normalized (keep one of the two)"]);
    }
    // Values that are scaled, or are levels again, may be normalized.
    let scaled = ScaleIntensityRange::new(0.0..=255.0, 0.0..=1.0).unwrap();
    let levels = Levels::of(-3.0, 3.0).unwrap();
    open(ops![scaled, values()]).build().unwrap();
    open(ops![Normalize::imagenet(), levels, Normalize::imagenet()]).build().unwrap();
}

#[test]
fn a_pipeline_file_names_the_scale_of_constants() {
    let text = |constants: &str| format!("[fields]\nimage = [{{ op = 'Normalize', {constants} }}]");
    let ops = |constants: &str| -> Result<String, String> {
        let spec: Spec = text(constants).parse().map_err(|error| format!("{error}"))?;
        Ok(format!("{:?}", spec.ops("image", Epoch(0)).unwrap()))
    };
    let unit = "mean = [0.485, 0.456, 0.406], std = [0.229, 0.224, 0.225]";
    let levels = "mean = [123.675, 116.28, 103.53], std = [58.395, 57.12, 57.375]";
    let imagenet = format!("{:?}", ops![Normalize::imagenet()]);
    assert_eq!(ops(unit), Ok(imagenet.clone()));
    assert_eq!(ops(&format!("{unit}, scale = 'unit'")), Ok(imagenet.clone()));
    assert_eq!(ops(&format!("{levels}, scale = 'levels'")), Ok(imagenet));
    for (constants, cure) in
        [(levels.to_owned(), "levels"), (format!("{unit}, scale = 'levels'"), "unit")]
    {
        assert_says(ops(&constants).unwrap_err(), [&*format!("scale = \"{cure}\"")]);
    }
}

#[test]
fn an_image_mixed_without_its_label_is_refused_in_rust_and_toml() {
    let (_dir, path) = pictures();
    let want = "output image: MixUp mixes the images, but no label has the same ops: put MixUp, with the same \
                parameters, last in the list of one of label, or leave these out (`without`)";
    let mixed = || {
        let mixup = || ops![MixUp::new(0.2).unwrap()];
        Loader::open(&path).unwrap().pipeline("image", mixup()).pipeline("label", mixup())
    };
    let other = ops![OneHot::new(10).unwrap(), MixUp::new(0.3).unwrap()];
    mixed().build().unwrap();
    assert_eq!(refusal(mixed().pipeline("label", ops![])), want);
    assert!(refusal(mixed().pipeline("label", other)).contains("with the same parameters"));
    mixed().pipeline("label", ops![]).without("label").build().unwrap();
    let file = |rest: &str| {
        by_file(&path, &format!("{rest}\n[fields]\nimage = [{{ op = 'MixUp', alpha = 0.2 }}]"))
    };
    assert_eq!(refusal(file("")), want);
    file("without = ['label']").build().unwrap();
    // A view of the label may be mixed in its place.
    let view = mixed().pipeline("label", ops![]);
    view.view("mixed", "label", ops![MixUp::new(0.2).unwrap()]).build().unwrap();
    // An array with the ops of images is an image, not a label of itself.
    let mnist = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/mnist_cifar/mnist");
    let mixup = || ops![MixUp::new(0.2).unwrap()];
    let gray = || Loader::open(&mnist).unwrap().pipeline("image", mixup());
    assert_eq!(refusal(gray()), want);
    let label = ops![OneHot::new(10).unwrap(), MixUp::new(0.2).unwrap()];
    gray().pipeline("label", label).build().unwrap();
}

/// A folder of two pictures in each of the classes.
fn folder(dir: &Path, name: &str, classes: &[&str]) -> PathBuf {
    let picture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/png/rgb8.png");
    for class in classes {
        let class = dir.join(name).join(class);
        fs::create_dir_all(&class).unwrap();
        for file in ["0.png", "1.png"] {
            fs::copy(&picture, class.join(file)).unwrap();
        }
    }
    dir.join(name)
}

#[test]
fn a_validation_folder_of_other_classes_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let train = folder(dir.path(), "train", &["ape", "bee", "cow", "dog"]);
    let same = folder(dir.path(), "same", &["ape", "bee", "cow", "dog"]);
    let less = folder(dir.path(), "less", &["ape", "cow", "dog", "eel"]);
    let train = Loader::open(train).unwrap().without("image").build().unwrap();
    let names = train.classes().unwrap();
    assert_eq!(names.iter().collect::<Vec<_>>(), [(0, "ape"), (1, "bee"), (2, "cow"), (3, "dog")]);
    let expecting = |path: &Path, names: &ClassNames| {
        Loader::open(path).unwrap().without("image").expect_classes(names.clone())
    };
    expecting(&same, &names).build().unwrap();
    let differences =
        "bee is missing, eel is not expected, cow is 1, expected 2, dog is 2, expected 3";
    let want = format!(
        "{}: its classes differ from the expected ones: {differences}; use the same classes in both, or number them in a `classes.json`",
        less.display()
    );
    assert_eq!(refusal(expecting(&less, &names)), want);
    let file = "expect_classes = ['ape', 'bee', 'cow', 'dog']\nwithout = ['image']";
    assert_eq!(refusal(by_file(&less, file)), want);
    by_file(&same, file).build().unwrap();
    let empty = by_file(&same, "expect_classes = []\nwithout = ['image']");
    assert!(refusal(empty).contains("`expect_classes` got no names"));

    let (_dir, nameless) = pictures();
    assert!(refusal(expecting(&nameless, &names)).contains("its classes are not known"));
    let none = Loader::open(&nameless).unwrap().build().unwrap().classes().unwrap();
    assert!(refusal(expecting(&same, &none)).contains("`expect_classes` got no names"));
}

/// Writes four images and their masks, of the classes 0 and 200 in turns.
fn segmentation(dir: &Path, mask: ImageOptions) -> Result<PathBuf, String> {
    let path = dir.join("segmentation.beton");
    let field = |name: &str| FieldSpec { name: name.to_owned(), kind: FieldKind::RgbImage };
    let rgb = |pixels| FieldValue::Image(ImageInput::Rgb { pixels, width: 8, height: 8 });
    let stripes = (0..64u8).flat_map(|pixel| [pixel % 2 * 200; 3]).collect::<Vec<u8>>();
    let rows = (0..4).map(|_| vec![rgb(vec![9; 192]), rgb(stripes.clone())]);
    let images = BTreeMap::from([("mask".to_owned(), mask)]);
    let options = WriteOptions { images, overwrite: true, ..WriteOptions::default() };
    let written = write_iter(rows, &[field("image"), field("mask")], &path, &options);
    written.map(|_| path).map_err(|error| error.to_string())
}

#[test]
fn a_mask_without_a_size_is_led_to_the_targets() {
    let dir = tempfile::tempdir().unwrap();
    let (images, masks) = (dir.path().join("set/images"), dir.path().join("set/masks"));
    for (folder, color) in [(&images, png::ColorType::Rgb), (&masks, png::ColorType::Grayscale)] {
        fs::create_dir_all(folder).unwrap();
        for side in [8, 12] {
            let file = fs::File::create(folder.join(format!("{side}.png"))).unwrap();
            let mut png = png::Encoder::new(file, side, side);
            png.set_color(color);
            let bytes = vec![1; (side * side) as usize * color.samples()];
            png.write_header().unwrap().write_image_data(&bytes).unwrap();
        }
    }
    let crop = || ops![RandomResizedCrop::new(4).unwrap()];
    let open = || Loader::open(dir.path().join("set")).unwrap();
    let error = refusal(open().pipeline("image", crop()));
    assert!(error.starts_with("output mask: images of "), "{error}");
    let want = "can't share a batch: a mask gets the size of its image, and follows its draws, as its target: set \
                `auto_targets()`, or `Targets::mask` in `targets`; in a pipeline file `targets = \"auto\"`";
    assert!(error.ends_with(want), "{error}");
    // A mask by itself has no image to follow.
    let error = refusal(open().without("image"));
    assert!(error.contains("add RandomResizedCrop, Resize or CenterCrop to the list"), "{error}");
    let short = ops![Resize::new(6).unwrap()];
    let error = refusal(open().without("mask").pipeline("image", short));
    assert!(error.contains("Resize with one number sets the length of one side"), "{error}");
    assert!(error.contains("give both sides, or add CenterCrop"), "{error}");
}

/// Returns the warnings about the draws of masks while a loader of this file is built.
fn warned_of(path: &Path, builder: LoaderBuilder) -> Vec<String> {
    let (built, mut warnings) =
        fuseloop::internals::recorded_warnings(|| builder.build().map(drop));
    built.unwrap();
    let start = format!("{}: mask is moved by its own draws", path.display());
    warnings.retain(|warning| warning.starts_with(&start));
    warnings
}

#[test]
fn a_mask_that_is_moved_by_other_draws_than_its_image_is_warned_of() {
    let dir = tempfile::tempdir().unwrap();
    let of = |mode| ImageOptions { write_mode: mode, ..ImageOptions::default() };
    let path = segmentation(dir.path(), of(WriteMode::Mask)).unwrap();
    let crop = |interpolation| RandomResizedCrop::new(4).unwrap().interpolation(interpolation);
    let (of_image, of_mask) = (|| crop(Interpolation::Bilinear), || crop(Interpolation::Nearest));
    let with = |image: Ops, mask: Ops| {
        let loader = Loader::open(&path).unwrap().masks("mask");
        loader.pipeline("image", image).pipeline("mask", mask)
    };
    let warned = |builder| warned_of(&path, builder);
    let warnings = warned(with(ops![of_image()], ops![of_mask()]));
    let [warning] = &warnings[..] else { panic!("{warnings:?}") };
    let want = format!(
        "{}: mask is moved by its own draws, so it does not fit image: let it follow image as its target (set \
         `auto_targets()`, or `Targets::mask` in `targets`",
        path.display()
    );
    assert!(warning.starts_with(&want), "{warning}");
    assert_says(warning, ["; a list of its own needs `share_draws` with the image"]);
    // The image alone is cropped by draws.
    let center = || CenterCrop::new(4).unwrap();
    assert_eq!(warned(with(ops![of_image()], ops![center()])).len(), 1);
    let coin = |op: RandomHorizontalFlip| ops![center(), op];
    let flip = |p| RandomHorizontalFlip::new(p).unwrap();
    assert_eq!(warned(with(ops![center()], coin(flip(0.1)))).len(), 1);

    let fine = [
        with(ops![of_image()], ops![of_mask()]).share_draws("mask", "image"),
        with(ops![of_image()], ops![]).targets("image", Targets::new().mask("mask", 0)),
        with(ops![center()], ops![center()]),
        with(coin(flip(1.0)), coin(flip(1.0))),
        with(ops![center(), RandomBrightness::new(0.4).unwrap()], ops![center()]),
        with(ops![of_image()], ops![of_mask()]).without("image"),
    ];
    for builder in fine {
        assert_eq!(warned(builder), Vec::<String>::new());
    }
}

#[test]
fn ops_that_would_compute_values_of_a_mask_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let of = |mode| ImageOptions { write_mode: mode, ..ImageOptions::default() };
    let path = segmentation(dir.path(), of(WriteMode::Mask)).unwrap();
    let masked = |ops: fn() -> Result<Ops, ParamError>| {
        Loader::open(&path).unwrap().masks("mask").pipeline("mask", ops().unwrap())
    };
    let nearest = "class numbers of a mask: use Interpolation::Nearest or WarpInterpolation::Nearest \
                   (interpolation = \"nearest\"), or leave it out";
    let blended: [fn() -> Result<Ops, ParamError>; 5] = [
        || Ok(ops![Resize::new((4, 4))?]),
        || Ok(ops![RandomResizedCrop::new(4)?.scale(0.3..=1.0)?.ratio(1.0..=1.0)?]),
        || Ok(ops![GaussianBlur::new(3)?.sigma(0.5..=1.0)?]),
        || Ok(ops![RandomPerspective::new().p(0.1)?]),
        || Ok(ops![RandomApply::new(ops![BoxBlur::new(3)?])]),
    ];
    for ops in blended {
        let error = refusal(masked(ops));
        assert!(error.starts_with("output mask: op 0 of the list: "), "{error}");
        assert!(error.ends_with(&format!(" would blend the {nearest}")), "{error}");
    }
    let error = refusal(masked(|| Ok(ops![ColorJitter::new(0.4, 0.4, 0.4)?])));
    let want =
        "op 0 of the list: ColorJitter would change the class numbers of a mask: leave it out";
    assert_eq!(error, format!("output mask: {want}"));
    let colors: [fn() -> Result<Ops, ParamError>; 4] = [
        || Ok(ops![Normalize::new([0.5], [0.5])?]),
        || Ok(ops![RandomPosterize::new(3)?]),
        || Ok(ops![RandomEqualize::new(1.0)?]),
        || Ok(ops![AugMix::new()]),
    ];
    for ops in colors {
        assert_says(refusal(masked(ops)), ["would change the class numbers of a mask"]);
    }
    let file = "masks = ['mask']\n[fields]\nmask = [{ op = 'Resize', size = 4 }]";
    assert!(refusal(by_file(&path, file)).contains("would blend"));
    by_file(&path, &file.replace("size = 4", "size = 4, interpolation = 'nearest'"))
        .build()
        .unwrap();

    let fine = || {
        Ok(ops![
            RandomResizedCrop::new(6)?
                .scale(0.3..=1.0)?
                .ratio(1.0..=1.0)?
                .interpolation(Interpolation::Nearest),
            RandomHorizontalFlip::new(0.5)?,
            RandomRotation::new(-30.0..=30.0)?,
            D4,
            SelectChannels::new([0, 0])?,
            Lut::same(std::array::from_fn(|value| value as f32))?,
            Convert::to(DType::I64),
        ])
    };
    let loader = masked(fine).build().unwrap();
    for batch in loader.epoch(0).unwrap() {
        let batch = batch.unwrap();
        let values = batch.tensor::<i64>("mask").unwrap();
        assert!(values.as_slice().iter().all(|value| [0, 200].contains(value)));
    }
    let no_image = Loader::open(&path).unwrap().masks("image").masks("label");
    assert!(refusal(no_image).contains("no field named label"));
}

#[test]
fn a_mask_is_not_left_unmixed_beside_its_mixed_image() {
    let dir = tempfile::tempdir().unwrap();
    let mask = ImageOptions { write_mode: WriteMode::Mask, ..ImageOptions::default() };
    let path = segmentation(dir.path(), mask).unwrap();
    let masked = || Loader::open(&path).unwrap().masks("mask");
    let cutmix = || ops![CutMix::new(1.0).unwrap()];
    let want = "output image: CutMix mixes the images, but not the class numbers of the mask mask: leave out CutMix, or \
                the mask (`without`)";
    assert_eq!(refusal(masked().pipeline("image", cutmix())), want);
    let error = refusal(masked().pipeline("mask", cutmix()));
    assert!(error.contains("CutMix mixes samples, whose class numbers can't be mixed"), "{error}");
    masked().pipeline("image", cutmix()).without("mask").build().unwrap();
    // The mask belongs to an image that is not mixed.
    masked().view("mixed", "image", cutmix()).build().unwrap();
}

/// An index is a class number, whether the field is called a mask or not.
#[test]
fn indices_are_not_blended() {
    let dir = tempfile::tempdir().unwrap();
    let mask = ImageOptions { write_mode: WriteMode::Mask, ..ImageOptions::default() };
    let path = segmentation(dir.path(), mask).unwrap();
    let indices = || Loader::open(&path).unwrap().read_mode("mask", ImageReadMode::Index);
    let resize = |interpolation| ops![Resize::new(4).unwrap().interpolation(interpolation)];
    let bilinear = indices().pipeline("mask", resize(Interpolation::BilinearAliased));
    assert!(refusal(bilinear).contains("would blend the class numbers of a mask"));
    indices().pipeline("mask", resize(Interpolation::Nearest)).build().unwrap();
}

#[test]
fn masks_are_never_jpegs() {
    let dir = tempfile::tempdir().unwrap();
    let of = |mode| ImageOptions {
        write_mode: mode,
        max_resolution: Some(4),
        ..ImageOptions::default()
    };
    let path = segmentation(dir.path(), of(WriteMode::Mask)).unwrap();
    let loader = Loader::open(path).unwrap().masks("mask").build().unwrap();
    let batch = loader.epoch(0).unwrap().next().unwrap().unwrap();
    // Every second column of a row, which is of class 0.
    assert_eq!(batch.tensor::<u8>("mask").unwrap().shape(), [4, 4, 4, 1]);
    assert!(batch.bytes("mask").unwrap().iter().all(|&value| value == 0));

    // Windows does not replace a file that is open.
    drop((batch, loader));
    let path = segmentation(dir.path(), of(WriteMode::Jpg)).unwrap();
    let error = refusal(Loader::open(path).unwrap().masks("mask"));
    assert_eq!(
        error,
        "field mask: 4 of its masks are JPEGs, which blend the class numbers of neighbours: write the \
         masks as PNG files, or with `WriteMode::Mask`"
    );
    let field = [FieldSpec { name: "mask".to_owned(), kind: FieldKind::RgbImage }];
    let options = WriteOptions { image: of(WriteMode::Mask), ..WriteOptions::default() };
    let jpeg = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/jpeg/422.jpg");
    let jpeg = fs::read(jpeg).unwrap();
    let row = vec![FieldValue::Image(ImageInput::JpegBytes(jpeg))];
    let error = write_iter([row], &field, dir.path().join("x.beton"), &options).unwrap_err();
    assert!(error.to_string().contains("a JPEG blends the class numbers of a mask"), "{error}");
}

#[test]
fn loaders_builders_and_batches_have_the_ordinary_traits() {
    let (_dir, path) = pictures();
    let builder = Loader::open(&path).unwrap().batch_size(4).seed(7).order(Order::Random);
    let name = path.display().to_string();
    assert_eq!(
        format!("{builder:?}"),
        format!("LoaderBuilder {{ dataset: {name:?}, batch_size: 4, order: Random, seed: 7, .. }}")
    );
    let (one, two) = (builder.clone().build().unwrap(), builder.build().unwrap());
    assert_eq!(
        format!("{one:?}"),
        format!(
            "Loader {{ dataset: {name:?}, samples: Some(6), batches: Some(2), batch_size: 4, \
             outputs: [\"image\", \"label\"], .. }}"
        )
    );
    let (mut batches, other) = (one.epoch(3).unwrap(), two.epoch(3).unwrap());
    assert_eq!(format!("{batches:?}"), "Batches { epoch: Epoch(3), remaining: Some(2), .. }");
    for other in other {
        let (batch, other) = (batches.next().unwrap().unwrap(), other.unwrap());
        assert_eq!(batch.bytes("image").unwrap(), other.bytes("image").unwrap());
    }
    assert!(batches.next().is_none() && batches.next().is_none());
}

/// Writes two images with objects in COCO's format, and returns a dataset that knows what its fields are.
fn objects(dir: &Path) -> Annotated {
    let jpeg = jpeg_encoder::Encoder::new_file(dir.join("0.jpg"), 90).unwrap();
    jpeg.encode(&[99; 16 * 12], 16, 12, jpeg_encoder::ColorType::Luma).unwrap();
    fs::copy(dir.join("0.jpg"), dir.join("1.jpg")).unwrap();
    let text = r#"{"images": [{"id": 0, "file_name": "0.jpg"}, {"id": 1, "file_name": "1.jpg"}],
        "categories": [{"id": 5, "name": "cat"}], "annotations": [
        {"id": 1, "image_id": 0, "category_id": 5, "bbox": [1, 2, 3, 4], "area": 12, "iscrowd": 0},
        {"id": 2, "image_id": 1, "category_id": 5, "bbox": [0, 0, 9, 9], "area": 80, "iscrowd": 0}]}"#;
    let path = dir.join("instances.json");
    fs::write(&path, text).unwrap();
    Annotated::coco(dir, &path, &CocoOptions::default()).unwrap()
}

#[test]
fn boxes_that_are_no_targets_do_not_stay_behind_when_their_image_moves() {
    let dir = tempfile::tempdir().unwrap();
    let boxes = || Collate::ragged().of(DType::F32, &[4]);
    let areas = || Collate::ragged().of(DType::F32, &[]);
    let flip = || ops![RandomHorizontalFlip::new(0.5).unwrap(), ToChannelsFirst];
    let colours = || ops![ColorJitter::new(0.4, 0.4, 0.4).unwrap(), Normalize::imagenet()];
    let any_size = || Collate::list().to_size((12, 16));
    let of = |list: Ops| {
        let loader = Loader::from_source(objects(dir.path())).pipeline("image", list);
        loader.collate("image", any_size())
    };
    let targets = |builder: LoaderBuilder| {
        builder.targets("image", Targets::new().boxes("bbox", BoxFormat::Xywh))
    };
    let refused = |content: &str, field: &str| {
        format!(
            "field {field}: it holds {content}, and does not follow the ops of image: declare it in `targets`, or leave \
             it out of the batches; a view of it has the stored values"
        )
    };
    let boxes_stay = refused("boxes, xywh, in pixels", "bbox");
    assert_eq!(refusal(of(flip()).collate("bbox", boxes())), boxes_stay);
    let shrink = Lambda::sized("shrink", Size::new(8, 8), |_, _, out| out.fill(0)).unwrap();
    for list in [ops![Resize::new((8, 8)).unwrap()], ops![shrink]] {
        let sized = Loader::from_source(objects(dir.path())).pipeline("image", list);
        assert_eq!(refusal(sized.collate("bbox", boxes())), boxes_stay);
    }
    assert_eq!(refusal(of(ops![AugMix::new()]).collate("bbox", boxes())), boxes_stay);
    let area = of(flip()).collate("area", areas());
    assert_eq!(refusal(targets(area)), refused("a number per object, <f4", "area"));
    // Nothing moves, the boxes move, or the values are wanted as they are stored.
    of(colours()).collate("bbox", boxes()).collate("area", areas()).build().unwrap();
    of(flip()).build().unwrap();
    of(flip()).collate("area", areas()).build().unwrap();
    targets(of(flip())).build().unwrap();
    let both = targets(of(flip())).view("stored", "bbox", ops![]).collate("stored", boxes());
    let stored = of(flip()).without("bbox").view("stored", "bbox", ops![]);
    stored.collate("stored", boxes()).build().unwrap();
    assert!(both.build().is_err(), "a target has no views");
    let whole = of(flip()).view("whole", "image", colours()).collate("whole", any_size());
    whole.collate("bbox", boxes()).build().unwrap();
}

#[test]
fn a_memory_limit_below_two_batches_is_refused_before_the_first_one() {
    let (_dir, path) = pictures();
    let limited = |bytes| Loader::open(&path).unwrap().batch_size(2).memory_limit(bytes);
    assert_says(refusal(limited(100)), ["2 batches of", "raise it"]);
    assert!(limited(1 << 20).build().is_ok());
}

#[test]
fn a_class_without_an_element_of_a_one_hot_vector_is_warned_of() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/strangers/basics/classes");
    let warned = |ops: Ops| {
        let builder = Loader::open(&folder).unwrap().without("image").pipeline("label", ops);
        let ((), warnings) = fuseloop::internals::recorded_warnings(|| drop(builder.build()));
        let ours = |text: &String| text.contains("basics/classes") && text.contains("OneHot");
        warnings.into_iter().filter(ours).collect::<Vec<_>>()
    };
    let of = |classes| OneHot::new(classes).unwrap();
    let found = warned(ops![of(1)]);
    let [warning] = &found[..] else { panic!("{found:?}") };
    let want = "output label: OneHot makes vectors of length 1, but the dataset has class 1 (\"bee\"): samples of this \
                class are damaged";
    assert!(warning.ends_with(want), "{warning}");
    assert_eq!(warned(ops![of(2)]), [""; 0]);
    // The labels are others then.
    assert_eq!(warned(ops![ReplaceLabel::new([1], 0), of(1)]), [""; 0]);
}
