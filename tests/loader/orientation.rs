//! Images whose EXIF orientation is not upright: their targets are of the upright picture or of the stored pixels, and
//! a loader that does not know of which refuses them.

use super::common::jpegs::oriented;
use fuseloop::internals::loader::LoaderExt as _;
use fuseloop::loader::{Collate, Targets};
use fuseloop::source::{Annotated, BoxError, CocoOptions, VocOptions, YoloOptions};
use fuseloop::{Error, ErrorKind, Loader, LoaderBuilder, OnDamaged, ops::*};
use std::fs;
use std::path::Path;

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

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join(name)
    }

    fn coco(&self) -> Result<Annotated, Error> {
        Annotated::coco(self.path("images"), self.path("coco.json"), &CocoOptions::default())
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
        let loader = loader.targets("image", Targets::new().boxes("bbox", BoxFormat::Xyxy));
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
    let beside = |turn| refused(masks().mask("mask").pipeline("mask", list()), turn);
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
    use fuseloop::write::{ConvertOptions, ImageOptions, WriteMode, convert};
    let dataset = Dataset::new(6, Some(STORED))?;
    let raw = ImageOptions { mode: WriteMode::Raw, ..ImageOptions::default() };
    let encoded = ImageOptions { quality: Some(80), ..ImageOptions::default() };
    for name in ["a.beton", "a-{000000}.tar"] {
        let to = dataset.path(name);
        for image in [raw.clone(), encoded.clone()] {
            let options = ConvertOptions { image, ..ConvertOptions::default() };
            for source in [dataset.coco()?, dataset.masks()?] {
                let error = convert(&source, &to, &options).unwrap_err().to_string();
                assert!(
                    error.contains("the EXIF orientation is 6, which would be lost"),
                    "{error}"
                );
            }
        }
        convert(&dataset.coco()?, &to, &ConvertOptions::default())?;
        let converted = |turn| {
            let loader = Loader::open(dataset.path(&name.replace("{000000}", "000000"))).unwrap();
            let loader = loader.targets("image", Targets::new().boxes("bbox", BoxFormat::Xywh));
            refused(loader, turn).is_some()
        };
        // The size in COCO's file is not converted.
        assert_eq!([None, Some(false), Some(true)].map(converted), [true, false, false], "{name}");
    }
    let upright = Dataset::new(1, Some(STORED))?;
    let options = ConvertOptions { image: raw, ..ConvertOptions::default() };
    convert(&upright.coco()?, upright.path("a.beton"), &options)?;
    Ok(())
}
