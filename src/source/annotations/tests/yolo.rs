//! YOLO: layouts, numbers, names, options, damage and limits.

use super::super::yolo_data::{DataFile, KeypointShape};
use super::*;

/// A PNG file of an RGB image.
fn png(width: u32, height: u32) -> Vec<u8> {
    let mut bytes = vec![];
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(png::ColorType::Rgb);
    let mut writer = encoder.write_header().unwrap();
    writer.write_image_data(&vec![9; (width * height * 3) as usize]).unwrap();
    drop(writer);
    bytes
}

/// The headers of a JPEG file, with an EXIF segment that has `orientation` and `filler` more bytes.
fn jpeg(width: u16, height: u16, orientation: u8, filler: usize) -> Vec<u8> {
    let mut bytes = vec![0xff, 0xd8];
    let mut tiff = b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0".to_vec();
    tiff.extend([orientation, 0, 0, 0, 0, 0, 0, 0]);
    bytes.extend([0xff, 0xe1]);
    bytes.extend((tiff.len() as u16 + 2).to_be_bytes());
    bytes.extend(&tiff);
    for size in [filler.min(60_000), filler.saturating_sub(60_000)] {
        bytes.extend([0xff, 0xfe]);
        bytes.extend((size as u16 + 2).to_be_bytes());
        bytes.resize(bytes.len() + size, b' ');
    }
    bytes.extend([0xff, 0xdb, 0, 67, 0]);
    bytes.extend([1; 64]);
    bytes.extend([0xff, 0xc0, 0, 11, 8]);
    bytes.extend(height.to_be_bytes());
    bytes.extend(width.to_be_bytes());
    bytes.extend([1, 1, 0x11, 0]);
    for table in [0x00, 0x10] {
        bytes.extend([0xff, 0xc4, 0, 20, table, 1]);
        bytes.extend([0; 16]);
    }
    bytes.extend([0xff, 0xda, 0, 8, 1, 1, 0, 0, 63, 0, 0, 0xff, 0xd9]);
    bytes
}

/// Files of text, and images of 200 x 100 pixels.
fn yolo_folder(texts: &[(&str, &str)], images: &[&str]) -> tempfile::TempDir {
    let dir = folder(texts);
    for image in images {
        let path = dir.path().join(image);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, png(200, 100)).unwrap();
    }
    dir
}

const LINES: &str = "1 0.5 0.5 0.25 0.5\n\n 0  0.1 0.2 0.1 0.4 \n1 0.5 0.5 0.25 0.5\n";

fn yolo(dir: &tempfile::TempDir, root: &str) -> Result<Annotated, Error> {
    Annotated::yolo(dir.path().join(root), &YoloOptions::default())
}

#[test]
fn boxes_are_in_pixels_and_repeated_lines_count_once() {
    let dir = yolo_folder(
        &[("labels/a/1.txt", LINES), ("labels/3.txt", ""), ("labels/no_image.txt", "9 broken")],
        &["images/a/1.png", "images/2.png", "images/3.png"],
    );
    let source = yolo(&dir, "").unwrap();
    assert_eq!((source.facts().samples, source.objects()), (3, 2));
    let names: Vec<&str> = source.facts().fields.iter().map(|field| &*field.name).collect();
    assert_eq!(names, ["image", "bbox", "category_id"]);
    assert_eq!(floats(&source, 2, "bbox"), [75.0, 25.0, 125.0, 75.0, 10.0, 0.0, 30.0, 40.0]);
    assert_eq!(ints(&source, 2, "category_id"), [1, 0]);
    assert_eq!(floats(&source, 0, "bbox"), [0.0; 0]);
    assert_eq!(source.facts().class_names().unwrap(), None);
    let path = |sample, field| source.locate(SampleId(sample), field).unwrap().to_string();
    assert!(path(2, 1).contains("labels/a/1.txt"), "{}", path(2, 1));
    assert!(path(0, 1).contains("images/2.png"), "an image without labels: {}", path(0, 1));
    assert_eq!(source.facts().paths().count(), 5);
    let found = Dataset::open(dir.path()).unwrap().source().unwrap();
    assert_eq!(found.fingerprint(), source.facts().fingerprint);
}

#[test]
fn layouts_are_those_of_ultralytics_and_roboflow() {
    let dir = yolo_folder(
        &[
            ("coco/labels/train2017/1.txt", LINES),
            ("coco/data.yaml", "names: [a, b]"),
            ("robo/train/labels/1.txt", LINES),
            ("robo/valid/labels/2.txt", LINES),
            ("robo/data.yaml", "names:\n- a\n- b\nnc: 2"),
            ("beside/1.txt", LINES),
            ("beside/classes.txt", "a\nb\n"),
            ("splits/labels/train/1.txt", LINES),
            ("splits/labels/val/2.txt", LINES),
        ],
        &[
            "coco/images/train2017/1.png",
            "robo/train/images/1.png",
            "robo/valid/images/2.png",
            "beside/1.png",
            "splits/images/train/1.png",
            "splits/images/val/2.png",
        ],
    );
    let named = [(0, "a".to_owned()), (1, "b".to_owned())];
    for root in ["coco/images/train2017", "coco", "robo/train", "robo/valid/images", "beside"] {
        let source = yolo(&dir, root).unwrap();
        assert_eq!(source.objects(), 2, "{root}");
        assert_eq!(classes(&source), named, "{root}");
        let found = Dataset::open(dir.path().join(root)).unwrap().source().unwrap();
        assert_eq!(found.fingerprint(), source.facts().fingerprint, "{root}");
    }
    for (root, split) in [("robo", "robo/train"), ("splits", "splits/images/train")] {
        for error in [
            yolo(&dir, root).unwrap_err(),
            Dataset::open(dir.path().join(root)).err().expect("there are two splits"),
        ] {
            let text = error.to_string();
            let expected = dir.path().join(split).display().to_string();
            assert!(text.contains("2 splits") && text.contains(&expected), "{text}");
        }
    }
}

#[test]
fn polygons_are_segmentations_in_pixels() {
    let lines = "0 0.1 0.1 0.5 0.1 0.5 0.5\n1 0.5 0.5 0.25 0.5\n";
    let dir = yolo_folder(&[("labels/1.txt", lines)], &["images/1.png"]);
    let source = yolo(&dir, "").unwrap();
    assert_eq!(floats(&source, 0, "bbox"), [20.0, 10.0, 100.0, 50.0, 75.0, 25.0, 125.0, 75.0]);
    let mut buffer = Buffer::default();
    let Value::Json(text) = field(&source, 0, "segmentation", &mut buffer) else { panic!("JSON") };
    assert_eq!(str::from_utf8(text).unwrap(), "[[[20,10,100,10,100,50]],null]\0");
}

#[test]
fn keypoints_follow_the_box() {
    let three = "0 0.5 0.5 0.5 0.5 0.25 0.5 2 0 0 0\n";
    let two = "0 0.5 0.5 0.5 0.5 0.25 0.5 -0.1 0.3\n";
    for (values, line) in [(3, three), (2, two)] {
        let yaml = format!("kpt_shape: [2, {values}] # points, values");
        let dir = yolo_folder(&[("labels/1.txt", line), ("data.yaml", &yaml)], &["images/1.png"]);
        let options = YoloOptions::default();
        for options in [options.clone(), options.keypoints(2, values)] {
            let source = Annotated::yolo(dir.path(), &options).unwrap();
            let expected = [50.0, 50.0, 2.0, 0.0, 0.0, 0.0];
            assert_eq!(floats(&source, 0, "keypoints"), expected, "{values}");
        }
        let options = YoloOptions::default().keypoints(3, values);
        assert_says(Annotated::yolo(dir.path(), &options).unwrap_err(), ["line 1", "of 3 points"]);
    }
}

#[test]
fn sizes_are_read_from_headers_and_are_those_of_upright_pictures() {
    let dir = folder(&[("labels/1.txt", "0 0.5 0.5 0.5 0.5"), ("images/2.jpg", "no label")]);
    let image = dir.path().join("images/1.jpg");
    let open = |upright| {
        let options = YoloOptions::default().exif_orientation(upright);
        Annotated::yolo(dir.path(), &options)
    };
    // The second header begins after the first 64 KiB.
    for filler in [0, 100_000] {
        for (orientation, upright, turned) in
            [(1, true, false), (3, true, false), (6, true, true), (6, false, false)]
        {
            fs::write(&image, jpeg(40, 20, orientation, filler)).unwrap();
            let source = open(upright).unwrap();
            let [w, h] = if turned { [20, 40] } else { [40, 20] };
            let [width, height] = [w, h].map(|side| side as f32);
            let expected = [width / 4.0, height / 4.0, width * 0.75, height * 0.75];
            assert_eq!(floats(&source, 0, "bbox"), expected, "orientation {orientation}");
            let sizes = [0, 1].map(|sample| source.columns.annotated_size(SampleId(sample)));
            assert_eq!(sizes, [Some(Size::new(h, w)), None], "orientation {orientation}");
        }
    }
    fs::write(&image, jpeg(40, 20, 6, 0)).unwrap();
    assert_eq!(floats(&yolo(&dir, "").unwrap(), 0, "bbox"), [5.0, 10.0, 15.0, 30.0]);
    for bytes in [&b""[..], b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n\0\0", b"GIF89a"] {
        fs::write(&image, bytes).unwrap();
        let error = open(true).unwrap().read(SampleId(0)).unwrap_err();
        assert_says(&error, ["1.jpg: the size of the image can't be read"]);
    }
    // An image without objects is not read.
    fs::write(dir.path().join("labels/1.txt"), "").unwrap();
    assert_eq!(floats(&open(false).unwrap(), 0, "bbox"), [0.0; 0]);
}

#[test]
fn a_damaged_line_is_named() {
    let refusal = |line: &str| {
        let text = format!("0 0.5 0.5 0.5 0.5\n{line}");
        let texts = [("labels/1.txt", &*text), ("labels/classes.txt", "a\nb\n")];
        let error = yolo(&yolo_folder(&texts, &["images/1.png"]), "").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Format, "{error}");
        let error = error.to_string();
        assert!(error.contains("labels/1.txt: line 2: "), "{error}");
        error
    };
    for (line, expected) in [
        (
            "2 0.5 0.5 0.5 0.5",
            "class 2, expected a whole number: the classes that are named are 0 to 1",
        ),
        ("-1 0.5 0.5 0.5 0.5", "class -1"),
        ("0.5 0.5 0.5 0.5 0.5", "class 0.5"),
        ("0 12 0.5 0.5 0.5", "coordinate 12, expected 0 to 1"),
        ("0 0.5 0.5 -0.005 0.5", "expected a size that is not negative"),
        ("0 nan 0.5 0.5 0.5", "\"nan\" is not a number"),
        ("0 inf 0.5 0.5 0.5", "\"inf\" is not a number"),
        ("dog 0.5 0.5 0.5 0.5", "\"dog\" is not a number"),
        ("0 0.5 0.5 0.5", "4 numbers, expected `class cx cy w h`"),
        ("0 0.5 0.5 0.5 0.5 0.9", "6 numbers, expected `class cx cy w h`"),
        ("0 0.5 0.5 0.5 0.5 0.9 0.5 0.5", "8 numbers"),
        ("0 0.5 0.5 0.5 0.5 0.9 1.5", "coordinate 1.5"),
    ] {
        let error = refusal(line);
        assert!(error.contains(expected), "{line}: {error}");
    }
    let many: String = (0..=MOST_OBJECTS).map(|k| format!("0 0.5 0.5 0.5 0.{k:05}1\n")).collect();
    assert!(many.len() < 1 << 20);
    let error = yolo(&yolo_folder(&[("labels/1.txt", &many)], &["images/1.png"]), "").unwrap_err();
    assert!(error.to_string().contains("more than 10000 objects"), "{error}");
}

#[test]
fn folders_that_are_not_of_this_format_are_refused() {
    let refusal = |texts: &[(&str, &str)], images: &[&str]| {
        yolo(&yolo_folder(texts, images), "").unwrap_err().to_string()
    };
    let error = refusal(&[("labels/2.txt", LINES)], &["images/1.png"]);
    assert!(error.contains("none of 1 images has a file of labels"), "{error}");
    assert!(error.contains("labels/1.txt"), "{error}");
    assert_says(refusal(&[("labels/2.txt", LINES), ("images/a.jp2", "")], &[]), ["no .jpg, .jpeg"]);
    let error = refusal(&[("labels/1.txt", LINES)], &["images/1.png", "images/1.jpg"]);
    assert!(error.contains("the same name"), "{error}");
    let error = refusal(&[("labels/1.txt", LINES), ("classes.txt", "a\na")], &["images/1.png"]);
    assert!(error.contains("two classes have the same name"), "{error}");
    let error = refusal(&[("labels/1.txt", LINES), ("data.yaml", "names: 3")], &["images/1.png"]);
    assert!(error.contains("data.yaml: line 1: `names` is not a list or a map"), "{error}");
    // Text beside pictures, or folders of texts, are not labels.
    let dir = yolo_folder(&[("1.txt", "a caption")], &["1.png"]);
    assert!(!is_folder(dir.path()));
}

#[test]
fn data_yaml_has_names_in_every_form_that_is_used() {
    let names = |text: &str| DataFile::parse(text).unwrap().names.unwrap();
    let two = ["traffic light", "dog, big"];
    for text in [
        "path: ../x # root\nnames: [traffic light, 'dog, big']\nnc: 2",
        "names: ['traffic light', \"dog, big\",]",
        "names: [\n  'traffic light', # first\n  'dog, big'\n]\nnc: 2",
        "names: {0: traffic light, 1: 'dog, big'}",
        "names:\n  0: traffic light\n\n  1: dog, big # the second\nroboflow:\n  names: [x]",
        "names:\n- traffic light\n- dog, big\ntrain: a",
        "\"names\":\n  - 'traffic light'\n  - \"dog, big\"\n",
        "names:\n  1: dog, big\n  0: traffic light\r\n",
    ] {
        assert_eq!(names(text), two, "{text:?}");
    }
    assert_eq!(names("names: [man's, a#5]"), ["man's", "a#5"]);
    for text in
        ["names: 5", "names: [a, b", "names:\n  a: b", "names: {0: a, 2: b}", "names: {0: a, 0: b}"]
    {
        assert!(DataFile::parse(text).is_err(), "{text:?}");
    }
    let shape = |text: &str| DataFile::parse(text).map(|data| data.keypoints);
    assert_eq!(shape("kpt_shape: [17, 3]"), Ok(Some(KeypointShape { points: 17, values: 3 })));
    for text in ["kpt_shape: [17]", "kpt_shape: 17", "kpt_shape: [0, 3]", "kpt_shape: [17, 4]"] {
        assert!(shape(text).is_err(), "{text}");
    }
    let counted = DataFile { class_count: Some(3), ..DataFile::default() };
    assert_eq!(DataFile::parse("nc: 3\ntrain: [a, {b: c}]"), Ok(counted));
    assert_eq!(DataFile::parse("# nothing"), Ok(DataFile::default()));
    // Ultralytics' own descriptions end with a script.
    let script = "download: |\n  names: no\n  for name in names:\n    pass\nnames: [a]";
    assert_eq!(names(script), ["a"]);
    let nested = format!("a: {}", "[".repeat(100_000));
    for (text, place) in [
        ("nc: 3\ntrain: a: b", "line 2: "),
        ("- a", "line 1: expected `names: ...`"),
        ("nc: 1\nnames: [a, [b]]", "line 2: `names` is not a list or a map of words"),
        ("names: &x [a]\nkpt_shape: *x", "line 2: `kpt_shape` is not a list or a map of words"),
        (&nested, "line 1: "),
    ] {
        let error = DataFile::parse(text).unwrap_err();
        assert!(error.starts_with(place), "{text:.20}: {error}");
    }
}

#[test]
fn bad_lines_are_damage_of_their_image_alone() {
    let texts = [
        ("labels/1.txt", "0 0.5 0.5 0.5 0.5"),
        ("labels/2.txt", "0 0.5 0.5 0.5\n0 0.5 0.5 0.5 0.5\n7 0.5 0.5 0.5 0.5"),
        ("labels/classes.txt", "a\nb\n"),
    ];
    let source = yolo(&yolo_folder(&texts, &["images/1.png", "images/2.png"]), "").unwrap();
    assert_eq!((source.facts().samples, source.objects()), (2, 1));
    assert!(source.value(SampleId(0), 1, &mut Buffer::default()).is_ok());
    for field in 0..source.facts().fields.len() {
        let error = source.value(SampleId(1), field, &mut Buffer::default()).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("2.txt: line 1: 4 numbers, expected"), "{error}");
        assert!(error.contains("; line 3: class 7, expected"), "{error}");
    }
}

#[test]
fn keypoints_of_a_pose_are_continuous_and_change_places_in_a_mirror() {
    let label = format!("0 0.5 0.5 0.5 0.5{}", " 0.5 0.5 2".repeat(3));
    let data = "kpt_shape: [3, 3]\nflip_idx: [0, 2, 1]\nnames: [a]\n";
    let texts = [("labels/1.txt", &*label), ("data.yaml", data)];
    let source = yolo(&yolo_folder(&texts, &["images/1.png"]), "").unwrap();
    let fields = source.facts().object_fields().unwrap().unwrap();
    let layout = fields.keypoints("keypoints").unwrap();
    assert_eq!(*layout, KeypointLayout { flip_pairs: vec![[1, 2]], is_continuous: true });
    assert_eq!(ObjectFields::parse(fields.to_json("\n").as_bytes()), Ok(fields.clone()));
    for wrong in ["[0, 2, 2]", "[1, 2, 0]", "[0, x, 1]", "{0: 1}", "[0, 1, 2, 4, 3]"] {
        let data = data.replace("[0, 2, 1]", wrong);
        let texts = [("labels/1.txt", &*label), ("data.yaml", &*data)];
        assert_says(yolo(&yolo_folder(&texts, &["images/1.png"]), "").unwrap_err(), ["`flip_idx`"]);
    }
}
