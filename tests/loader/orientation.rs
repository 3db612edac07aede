//! Images whose EXIF orientation is not upright: their targets are of the upright picture or of the stored pixels, and
//! a loader that does not know of which refuses them.

use super::common::jpegs::oriented;
use fuseloop::loader::{BoundingBoxes, Clips, Collate, KeyPoints, Targets};
use fuseloop::source::{Annotated, BoxError, CocoOptions, Source as _, VocOptions, YoloOptions};
use fuseloop::{Error, ErrorKind, Loader, LoaderBuilder, OnDamaged, SampleId, ops::*};
use std::fs;
use std::path::{Path, PathBuf};

/// The width and height of the golden JPEG, and of its upright picture in the orientations 5 to 8.
const STORED: [u32; 2] = [45, 37];
const UPRIGHT: [u32; 2] = [37, 45];

/// A folder with an image of an orientation, the box that covers it in each format, and masks.
struct Dataset {
    dir: tempfile::TempDir,
}

impl Dataset {
    /// `size` is the width and height that the annotations have, if they have one.
    fn new(orientation: u8, size: Option<[u32; 2]>) -> Result<Self, BoxError> {
        let dir = tempfile::tempdir()?;
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/jpeg/420.jpg");
        for folder in ["images", "labels", "annotations", "masks"] {
            fs::create_dir(dir.path().join(folder))?;
        }
        let write = |name: &str, bytes: &[u8]| fs::write(dir.path().join(name), bytes);
        write("images/1.jpg", &oriented(&fs::read(golden)?, orientation))?;
        write("labels/1.txt", b"0 0.5 0.5 1 1")?;
        let coco_size = size.map_or(String::new(), |[width, height]| {
            format!(r#", "width": {width}, "height": {height}"#)
        });
        let json = format!(
            r#"{{"images": [{{"id": 1, "file_name": "1.jpg"{coco_size}}}], "categories": [{{"id": 1, "name": "dog"}}],
            "annotations": [{{"id": 7, "image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4]}}]}}"#
        );
        write("coco.json", json.as_bytes())?;
        write("frames.json", json.replace("1.jpg", "images/1.jpg").as_bytes())?;
        let voc_size = size.map_or(String::new(), |[width, height]| {
            format!("<size><width>{width}</width><height>{height}</height></size>")
        });
        let xml = format!(
            "<annotation>{voc_size}<object><name>dog</name><bndbox><xmin>1</xmin><ymin>2</ymin><xmax>3</xmax>
            <ymax>4</ymax></bndbox></object></annotation>"
        );
        write("annotations/1.xml", xml.as_bytes())?;
        let [width, height] = size.unwrap_or(STORED);
        let mut png =
            png::Encoder::new(fs::File::create(dir.path().join("masks/1.png"))?, width, height);
        png.set_color(png::ColorType::Grayscale);
        png.write_header()?.write_image_data(&vec![1; (width * height) as usize])?;
        Ok(Self { dir })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn coco(&self) -> Result<Annotated, Error> {
        Annotated::coco(self.path("images"), self.path("coco.json"), &CocoOptions::default())
    }

    /// The image as the only frame of a video.
    fn coco_of_frames(&self) -> Result<Annotated, Error> {
        Annotated::coco(self.dir.path(), self.path("frames.json"), &CocoOptions::default())
    }

    fn masks(&self) -> Result<Annotated, Error> {
        Annotated::masks(self.path("images"), self.path("masks"))
    }
}

/// Returns what the first batch is refused for; `None` if it is delivered.
fn refused(loader: LoaderBuilder, turn: Option<bool>) -> Option<Error> {
    let loader = match turn {
        Some(turn) => loader.exif_orientation(turn),
        None => loader,
    };
    let list = ops![Resize::new((8, 8)).unwrap()];
    let loader = loader.batch_size(1).pipeline("image", list).build().unwrap();
    loader.epoch(0).unwrap().next().unwrap().err()
}

/// Returns for a source with boxes whether an image is delivered without the setting, with false and with true.
fn delivered(source: impl Fn() -> Result<Annotated, Error>) -> [bool; 3] {
    [None, Some(false), Some(true)].map(|turn| {
        let loader = Loader::from_source(source().unwrap());
        let loader = loader.auto_targets();
        refused(loader, turn).is_none()
    })
}

#[test]
fn the_size_in_annotations_says_of_which_picture_they_are() -> Result<(), BoxError> {
    for (orientation, size, expected) in [
        (1, Some(STORED), [true, true, true]),
        (6, Some(STORED), [true, true, false]),
        (8, Some(UPRIGHT), [false, false, true]),
        (5, None, [false, true, true]),
        (3, Some(STORED), [false, true, true]),
    ] {
        let dataset = Dataset::new(orientation, size)?;
        let title = format!("orientation {orientation}, {size:?}");
        assert_eq!(delivered(|| dataset.coco()), expected, "COCO, {title}");
        // The frame of a clip is refused as the image is.
        let clips = [None, Some(false), Some(true)].map(|turn| {
            let loader = Loader::from_source(dataset.coco_of_frames().unwrap());
            let loader = loader.clips(Clips::segments(1)).auto_targets();
            let list = ops![Resize::new((8, 8)).unwrap()];
            let loader = loader.batch_size(1).pipeline("video", list);
            let loader = match turn {
                Some(turn) => loader.exif_orientation(turn),
                None => loader,
            };
            let loader = loader.build().unwrap();
            let mut shown = loader.inspect("video", 0).unwrap().unwrap();
            let strip = shown.strip(0, 1, &mut |_| Ok(())).is_ok();
            [loader.epoch(0).unwrap().next().unwrap().is_ok(), strip, shown.sample(0).is_ok()]
        });
        assert_eq!(clips, expected.map(|is_taken| [is_taken; 3]), "clips, {title}");
        let voc = || Annotated::voc(dataset.dir.path(), &VocOptions::default());
        assert_eq!(delivered(voc), expected, "VOC, {title}");
    }
    Ok(())
}

#[test]
fn labels_of_yolo_are_of_the_upright_picture_unless_the_options_say_otherwise()
-> Result<(), BoxError> {
    let dataset = Dataset::new(6, None)?;
    let yolo = |options: YoloOptions| {
        let root = dataset.dir.path();
        move || Annotated::yolo(root, &options)
    };
    assert_eq!(delivered(yolo(YoloOptions::default())), [false, false, true]);
    let of_stored = YoloOptions::default().exif_orientation(false);
    assert_eq!(delivered(yolo(of_stored)), [true, true, false]);
    Ok(())
}

#[test]
fn masks_and_boxes_that_follow_no_image_are_refused_alike() -> Result<(), BoxError> {
    let dataset = Dataset::new(3, Some(STORED))?;
    let masks = || Loader::from_source(dataset.masks().unwrap());
    let followed = |turn| refused(masks().targets("image", Targets::new().mask("mask", 0)), turn);
    let list = || ops![Resize::new((8, 8)).unwrap().interpolation(Interpolation::Nearest)];
    let beside = |turn| refused(masks().masks("mask").pipeline("mask", list()), turn);
    let collated = |turn| {
        let loader = Loader::from_source(dataset.coco().unwrap()).without("category_id");
        let loader = match turn {
            Some(turn) => loader.exif_orientation(turn),
            None => loader,
        };
        let boxes = Collate::ragged().of(DType::F32, &[4]);
        let loader = loader
            .collate("bbox", boxes)
            .collate("image", Collate::pad().to_size(50))
            .batch_size(1);
        loader.build().unwrap().epoch(0).unwrap().next().unwrap().err()
    };
    for turn in [None, Some(false), Some(true)] {
        let is_refused = turn.is_none();
        assert_eq!(followed(turn).is_some(), is_refused, "{turn:?}");
        assert_eq!(beside(turn).is_some(), is_refused, "{turn:?}");
        assert_eq!(collated(turn).is_some(), is_refused, "{turn:?}");
    }
    // Labels of images and images alone have no picture that they are of.
    assert!(refused(masks().without("mask"), None).is_none());
    assert!(refused(Loader::from_source(dataset.coco()?), None).is_none());
    Ok(())
}

#[test]
fn the_error_names_the_file_and_the_cures_and_is_no_damage() -> Result<(), BoxError> {
    let dataset = Dataset::new(3, Some(STORED))?;
    for on_damaged in [OnDamaged::Fail, OnDamaged::Skip, OnDamaged::Substitute] {
        let loader = Loader::from_source(dataset.coco()?).on_damaged(on_damaged);
        let loader = loader.targets("image", Targets::new().boxes("bbox", BoxFormat::Xywh));
        let error = refused(loader, None).ok_or("the image is delivered")?;
        assert_eq!(error.kind(), ErrorKind::Parameter);
        let text = error.to_string();
        for word in ["1.jpg", "orientation of the image is 3", "true if", "false if"] {
            assert!(text.contains(word), "{text}");
        }
    }
    // A preview and a replay show what a batch would have.
    let loader = Loader::from_source(dataset.coco()?);
    let loader = loader.targets("image", Targets::new().boxes("bbox", BoxFormat::Xywh));
    let loader = loader.pipeline("image", ops![Resize::new((8, 8))?]);
    let inspected = |loader: LoaderBuilder| {
        let inspector = loader.build().unwrap().inspect("image", 0).unwrap();
        inspector.unwrap().sample(0).map(drop).map_err(|error| error.to_string())
    };
    assert!(inspected(loader.clone()).unwrap_err().contains("orientation of the image is 3"));
    assert_eq!(inspected(loader.exif_orientation(true)), Ok(()));
    Ok(())
}

#[cfg(all(feature = "tar", feature = "write"))]
#[test]
fn a_conversion_keeps_the_orientation_or_is_refused() -> Result<(), BoxError> {
    use fuseloop::write::{ImageOptions, WriteMode, WriteOptions, convert};
    let dataset = Dataset::new(6, Some(STORED))?;
    let raw = ImageOptions { write_mode: WriteMode::Raw, ..ImageOptions::default() };
    let encoded = ImageOptions { jpeg_quality: Some(80), ..ImageOptions::default() };
    for name in ["a.beton", "a-{000000}.tar"] {
        let to = dataset.path(name);
        for image in [raw.clone(), encoded.clone()] {
            let options = WriteOptions { image, ..WriteOptions::default() };
            for source in [dataset.coco()?, dataset.masks()?] {
                let error = convert(&source, &to, &options).unwrap_err().to_string();
                assert!(
                    error.contains("the EXIF orientation is 6, which re-encoding would lose"),
                    "{error}"
                );
            }
        }
        convert(&dataset.coco()?, &to, &WriteOptions::default())?;
        let converted = |turn| {
            let loader = Loader::open(dataset.path(&name.replace("{000000}", "000000"))).unwrap();
            let loader = loader.targets("image", Targets::new().boxes("bbox", BoxFormat::Xywh));
            refused(loader, turn).is_some()
        };
        // The size in COCO's file is not converted.
        assert_eq!([None, Some(false), Some(true)].map(converted), [true, false, false], "{name}");
    }
    let upright = Dataset::new(1, Some(STORED))?;
    let options = WriteOptions { image: raw, ..WriteOptions::default() };
    convert(&upright.coco()?, upright.path("a.beton"), &options)?;
    Ok(())
}

/// The formats of the pictures that `tests/strangers/annotations/make.py` made with Pillow; the EXIF data of `late` are
/// after the pixels.
const FORMATS: [&str; 5] = ["jpg-N.jpg", "png-N.png", "late-N.png", "webp-N.webp", "tif-N.tif"];

/// A target that says where the white rectangle of a picture is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Boxes,
    Keypoints,
    Polygons,
    Masks,
}

fn strangers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/strangers/annotations/orientation")
}

/// Returns the left, top, right and bottom edge of the pixels of an image 48 pixels wide that are not dark.
fn edges(pixels: &[u8], channels: usize, dark: u8) -> [u64; 4] {
    let start = [u64::MAX, u64::MAX, 0, 0];
    pixels.iter().step_by(channels).enumerate().filter(|(_, level)| **level > dark).fold(
        start,
        |[left, top, right, bottom], (at, _)| {
            let (x, y) = (at as u64 % 48, at as u64 / 48);
            [left.min(x), top.min(y), right.max(x + 1), bottom.max(y + 1)]
        },
    )
}

/// Writes a dataset of one picture, whose targets are the rectangle `edges` and the mask in a file.
fn write_rectangle(
    dir: &Path,
    (picture, mask): (&Path, &Path),
    [left, top, right, bottom]: [u64; 4],
) -> Result<(), BoxError> {
    for folder in ["images", "masks"] {
        fs::create_dir(dir.join(folder))?;
    }
    let name = format!("1.{}", picture.extension().unwrap_or_default().to_string_lossy());
    fs::copy(picture, dir.join("images").join(&name))?;
    fs::copy(mask, dir.join("masks/1.png"))?;
    let json = serde_json::json!({
        "images": [{"id": 1, "file_name": name}],
        "categories": [{"id": 1, "name": "dog"}],
        "annotations": [{
            "id": 7, "image_id": 1, "category_id": 1, "bbox": [left, top, right - left, bottom - top],
            "keypoints": [left, top, 2, right - 1, bottom - 1, 2],
            "segmentation": [[left, top, right, top, right, bottom, left, bottom]],
        }],
    });
    fs::write(dir.join("coco.json"), json.to_string())?;
    Ok(())
}

/// Returns the rectangle in the picture of a batch, and the one that its target says.
fn rectangles(dir: &Path, kind: Kind, turn: Option<bool>) -> Result<[[u64; 4]; 2], Error> {
    let targets = match kind {
        Kind::Boxes => {
            let boxes = BoundingBoxes::new(BoxFormat::Xywh).to(BoxFormat::Xyxy);
            Targets::new().boxes("bbox", boxes)
        }
        Kind::Keypoints => Targets::new().keypoints("keypoints", KeyPoints::new(2)),
        Kind::Polygons => {
            Targets::new().boxes("bbox", BoxFormat::Xywh).instance_masks("segmentation")
        }
        Kind::Masks => Targets::new().mask("mask", 0),
    };
    let source = match kind {
        Kind::Masks => Annotated::masks(dir.join("images"), dir.join("masks"))?,
        _ => Annotated::coco(dir.join("images"), dir.join("coco.json"), &CocoOptions::default())?,
    };
    let loader = Loader::from_source(source).targets("image", targets).batch_size(1);
    let loader = loader.pipeline("image", ops![FixedSizeCrop::new((48, 48))?]);
    let loader = match turn {
        Some(turn) => loader.exif_orientation(turn),
        None => loader,
    };
    let loader = loader.build()?;
    let batch = loader.epoch(0)?.next().expect("there is a sample")?;
    let whole = |value: f32| value.round() as u64;
    let target = match kind {
        Kind::Boxes => {
            let boxes = batch.ragged::<f32>("bbox").unwrap();
            <[f32; 4]>::try_from(boxes.values()).unwrap().map(whole)
        }
        Kind::Keypoints => {
            let points = batch.ragged::<f32>("keypoints").unwrap();
            let [a, b, _, c, d, _] = <[f32; 6]>::try_from(points.values()).unwrap().map(whole);
            [a.min(c), b.min(d), a.max(c) + 1, b.max(d) + 1]
        }
        Kind::Polygons => edges(batch.ragged::<u8>("segmentation").unwrap().values(), 1, 0),
        Kind::Masks => edges(batch.tensor::<u8>("mask").unwrap().as_slice(), 1, 0),
    };
    Ok([edges(batch.tensor::<u8>("image").unwrap().as_slice(), 3, 127), target])
}

#[test]
fn the_orientation_of_every_format_turns_pictures_and_targets_alike() -> Result<(), BoxError> {
    let known: serde_json::Value =
        serde_json::from_slice(&fs::read(strangers().join("rectangles.json"))?)?;
    let edges = |value: &serde_json::Value| [0, 1, 2, 3].map(|side| value[side].as_u64().unwrap());
    for (format, orientation) in FORMATS.iter().flat_map(|format| (1..=8).map(move |n| (format, n)))
    {
        let picture = strangers().join(format.replace('N', &orientation.to_string()));
        let upright = strangers().join(format!("mask-{orientation}.png"));
        let of_upright = edges(&known["upright"][orientation.to_string()]);
        let (stored, of_stored) = (strangers().join("mask-1.png"), edges(&known["stored"]));
        for kind in [Kind::Boxes, Kind::Keypoints, Kind::Polygons, Kind::Masks] {
            let title = format!("{} {kind:?}", picture.display());
            for (turn, mask, expected) in
                [(false, &stored, of_stored), (true, &upright, of_upright)]
            {
                let dir = tempfile::tempdir()?;
                write_rectangle(dir.path(), (&picture, mask), expected)?;
                let found = rectangles(dir.path(), kind, Some(turn));
                let found = found.map_err(|error| format!("{title}, {turn}: {error}"))?;
                assert_eq!(found, [expected; 2], "{title}, {turn}");
                let unset = rectangles(dir.path(), kind, None);
                if orientation == 1 {
                    assert_eq!(unset?, [expected; 2], "{title}");
                    continue;
                }
                let error = unset.expect_err(&title).to_string();
                let name = format!("1.{}", picture.extension().unwrap().display());
                let cause = format!("the EXIF orientation of the image is {orientation}");
                for word in [&*name, &cause, "to true if", "to false if"] {
                    assert!(error.contains(word), "{title}: {error}");
                }
            }
        }
    }
    Ok(())
}

#[test]
fn a_mask_that_is_not_stored_upright_is_refused_or_turned() -> Result<(), BoxError> {
    let known: serde_json::Value =
        serde_json::from_slice(&fs::read(strangers().join("rectangles.json"))?)?;
    let edges = |value: &serde_json::Value| [0, 1, 2, 3].map(|side| value[side].as_u64().unwrap());
    let dir = tempfile::tempdir()?;
    let (upright, turned) = (strangers().join("upright-3.png"), strangers().join("turned-3.png"));
    write_rectangle(dir.path(), (&upright, &turned), edges(&known["stored"]))?;
    let error = rectangles(dir.path(), Kind::Masks, None).unwrap_err().to_string();
    assert!(error.contains("the EXIF orientation of the image is 3"), "{error}");
    let found = rectangles(dir.path(), Kind::Masks, Some(true))?;
    assert_eq!(found, [edges(&known["upright"]["3"]); 2]);
    Ok(())
}

#[test]
fn labels_of_yolo_are_of_the_upright_picture_of_every_format() -> Result<(), BoxError> {
    for format in FORMATS {
        let picture = strangers().join(format.replace('N', "6"));
        let dir = tempfile::tempdir()?;
        for folder in ["images", "labels"] {
            fs::create_dir(dir.path().join(folder))?;
        }
        let name = format!("images/1.{}", picture.extension().unwrap().display());
        fs::copy(&picture, dir.path().join(name))?;
        fs::write(dir.path().join("labels/1.txt"), "0 0.5 0.5 1 1")?;
        let yolo = Annotated::yolo(dir.path(), &YoloOptions::default())?;
        assert_eq!(
            yolo.stored().unwrap().annotated_size(SampleId(0)),
            Some(Size::new(48, 32)),
            "{format}"
        );
    }
    Ok(())
}

#[cfg(all(feature = "tar", feature = "write"))]
#[test]
fn a_conversion_keeps_the_orientation_of_every_format_or_is_refused() -> Result<(), BoxError> {
    use fuseloop::write::{ImageOptions, WriteMode, WriteOptions, convert};
    let lost = "the EXIF orientation is 6, which re-encoding would lose";
    for format in FORMATS {
        let picture = strangers().join(format.replace('N', "6"));
        let is_jpeg = format.ends_with("jpg");
        let dir = tempfile::tempdir()?;
        write_rectangle(dir.path(), (&picture, &strangers().join("mask-6.png")), [0, 0, 8, 8])?;
        let coco = Annotated::coco(
            dir.path().join("images"),
            dir.path().join("coco.json"),
            &CocoOptions::default(),
        )?;
        let raw = ImageOptions { write_mode: WriteMode::Raw, ..ImageOptions::default() };
        let jpg = ImageOptions {
            write_mode: WriteMode::Jpg,
            jpeg_quality: Some(90),
            ..ImageOptions::default()
        };
        for (name, image, is_kept) in [
            ("a.beton", ImageOptions::default(), is_jpeg),
            ("b.beton", raw.clone(), false),
            ("a-{000000}.tar", ImageOptions::default(), true),
            ("b-{000000}.tar", jpg, false),
            // Raw pixels are stored as a PNG, so that an existing PNG is unchanged.
            ("c-{000000}.tar", raw, format.ends_with("png")),
        ] {
            let options = WriteOptions { image, ..WriteOptions::default() };
            let done = convert(&coco, dir.path().join(name), &options);
            assert_eq!(done.is_ok(), is_kept, "{format} {name} {:?}", options.image.write_mode);
            if let Err(error) = done {
                assert!(error.to_string().contains(lost), "{error}");
            }
        }
    }
    Ok(())
}
