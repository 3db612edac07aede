//! Pascal VOC: layouts, numbers, options, damage and limits.

use super::super::voc_xml;
use super::*;

/// An object of VOC2007's first image, with a part that is no object's own.
const DOG: &str = "<object><name>dog</name><pose>Left</pose><truncated>1</truncated><difficult>0</difficult>
    <bndbox><xmin>48</xmin><ymin>240</ymin><xmax>195</xmax><ymax>371</ymax></bndbox>
    <part><name>head</name><bndbox><xmin>9</xmin><ymin>9</ymin><xmax>9</xmax><ymax>9</ymax></bndbox></part></object>";

/// The order of a box's sides is the file's own, and numbers may have a fraction.
const PERSON: &str =
    "<object><bndbox><xmax>207.5</xmax><xmin> 8.25\n</xmin><ymax>498</ymax><ymin>12</ymin></bndbox>
    <name>R&amp;D &#x3c;<![CDATA[a&b]]></name></object>";

fn xml(objects: &str) -> String {
    format!("<annotation><size><width>353</width></size>{objects}<segmented/></annotation>")
}

/// Three images, one without objects, in VOC's folders.
fn voc_folder() -> tempfile::TempDir {
    folder(&[
        ("JPEGImages/2007_2.jpg", "two"),
        ("JPEGImages/2007_1.png", "one"),
        ("JPEGImages/2007_3.JPG", "three"),
        ("JPEGImages/2007_4.jpg", "not annotated"),
        ("Annotations/2007_1.xml", &xml(&[DOG, PERSON].concat())),
        ("Annotations/2007_2.xml", &xml("")),
        ("Annotations/2007_3.xml", &format!("\u{feff}<?xml version=\"1.0\"?>\n{}\n", xml(DOG))),
        ("ImageSets/Main/train.txt", "2007_3\n\n2007_1 \n"),
        ("ImageSets/Main/dog_train.txt", "2007_3  1\n2007_1 -1\n"),
        ("ImageSets/Main/other.txt", "2007_3\n../Annotations/2007_1\n"),
        ("ImageSets/Main/none.txt", "\n"),
    ])
}

fn voc(dir: &tempfile::TempDir, options: &VocOptions) -> Result<Annotated, Error> {
    Annotated::voc(dir.path(), options)
}

#[test]
fn objects_are_detectron2s() {
    let dir = voc_folder();
    let source = voc(&dir, &VocOptions::default()).unwrap();
    assert_eq!((source.facts().samples, source.objects()), (3, 3));
    let names: Vec<&str> = source.facts().fields.iter().map(|field| &*field.name).collect();
    assert_eq!(names, ["image", "bbox", "category_id", "difficult", "truncated"]);
    // Detectron2 subtracts 1 from xmin and ymin alone.
    assert_eq!(floats(&source, 0, "bbox"), [47.0, 239.0, 195.0, 371.0, 7.25, 11.0, 207.5, 498.0]);
    assert_eq!(floats(&source, 1, "bbox"), [0.0; 0]);
    assert_eq!(floats(&source, 2, "bbox"), [47.0, 239.0, 195.0, 371.0]);
    assert_eq!(ints(&source, 0, "category_id"), [1, 0]);
    assert_eq!(ints(&source, 0, "truncated"), [1, 0]);
    assert_eq!(ints(&source, 0, "difficult"), [0, 0]);
    let named = [(0, "R&D <a&b".to_owned()), (1, "dog".to_owned())];
    assert_eq!((classes(&source), source.category_ids()), (named.to_vec(), &[0, 1][..]));
    let mut buffer = Buffer::default();
    let Value::Image(image) = field(&source, 2, "image", &mut buffer) else { panic!("no image") };
    assert_eq!(image.bytes, b"three");
    let path = |sample, field| source.locate(SampleId(sample), field).unwrap().to_string();
    assert!(path(0, 0).ends_with("JPEGImages/2007_1.png"), "{}", path(0, 0));
    assert!(path(1, 1).ends_with("Annotations/2007_2.xml: sample 2007_2.jpg"), "{}", path(1, 1));
    assert!(
        source.facts().paths().count() == 6 && source.facts().paths().all(|path| path.is_file())
    );
    assert_eq!(source.facts().longest(1), Some(32));
}

#[test]
fn options_choose_images_classes_and_torchvisions_numbers() {
    let dir = voc_folder();
    let plain = VocOptions::default();
    let source = voc(&dir, &plain.clone().keep_coordinates(true)).unwrap();
    assert_eq!(floats(&source, 2, "bbox"), [48.0, 240.0, 195.0, 371.0]);
    let source = voc(&dir, &plain.clone().image_set("train")).unwrap();
    assert_eq!(source.facts().samples, 2);
    assert_eq!(ints(&source, 0, "category_id"), [1]);
    assert_eq!(ints(&source, 1, "category_id"), [1, 0]);
    let names = ["person", "dog", "R&D <a&b"];
    let source = voc(&dir, &plain.clone().class_names(names)).unwrap();
    assert_eq!(ints(&source, 0, "category_id"), [1, 2]);
    assert_eq!(source.category_ids(), [0, 1, 2]);
    let refused = |options: VocOptions| voc(&dir, &options).unwrap_err().to_string();
    let source = voc(&dir, &plain.clone().class_names(["dog"])).unwrap();
    let message = source.read(SampleId(0)).unwrap_err().to_string();
    let reason = "2007_1.xml: object 2 (R&D <a&b): the class is not among the 1 that were named";
    assert!(message.ends_with(reason), "{message}");
    // The first and the last image have this class only.
    assert_eq!(ints(&source, 2, "category_id"), [0]);
    let message = refused(plain.clone().class_names(["dog", "dog"]));
    assert!(message.contains("two classes have the same name"), "{message}");
    let source = voc(&dir, &plain.clone().image_set("other")).unwrap();
    let damaged = (0..source.facts().samples)
        .filter_map(|sample| source.columns.find(SampleId(sample), 0).err());
    let damaged: Vec<String> = damaged.map(|error| error.to_string()).collect();
    assert_eq!(damaged.len(), 1);
    assert!(damaged[0].contains("../Annotations/2007_1.xml is missing"), "{damaged:?}");
    for (set, reason) in [
        ("dog_train", "dog_train.txt: line 1: \"2007_3  1\", expected the name of one image"),
        ("none", "no image is listed"),
        ("nowhere", "nowhere.txt"),
    ] {
        let message = refused(plain.clone().image_set(set));
        assert!(message.contains(reason), "{reason}: {message}");
    }
}

#[test]
fn a_folder_of_voc_is_found_by_its_path() {
    let object = xml(DOG);
    let print = |path: &Path| match Dataset::open(path).unwrap() {
        Dataset::Source(source) => Some((source.fingerprint(), source.name().to_owned())),
        _ => None,
    };
    let dir = voc_folder();
    let source = voc(&dir, &VocOptions::default()).unwrap();
    assert_eq!(print(dir.path()), Some((source.facts().fingerprint, source.facts().name.clone())));
    for files in [["a/1.jpg", "a/1.xml"], ["a/images/x/1.png", "a/annotations/x/1.xml"]] {
        let dir = folder(&[(files[0], "pixels"), (files[1], &object)]);
        let source = Annotated::voc(dir.path().join("a"), &VocOptions::default()).unwrap();
        assert_eq!(
            print(&dir.path().join("a")),
            Some((source.facts().fingerprint, source.facts().name.clone()))
        );
        assert_eq!(ints(&source, 0, "truncated"), [1]);
    }
    // An XML file that is not of an image leaves a folder what it is.
    let dir =
        folder(&[("cat_1.jpg", "pixels"), ("dog_2.jpg", "pixels"), ("sitemap.xml", "<urlset/>")]);
    assert_eq!(print(dir.path()), None);
}

/// What a file of annotations makes of opening it.
fn refusal(text: &str) -> String {
    let dir = folder(&[("1.jpg", ""), ("1.xml", text)]);
    let error = voc(&dir, &VocOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Format, "{error}");
    assert!(error.path().unwrap().ends_with("1.xml"), "{error}");
    error.to_string()
}

#[test]
fn damage_is_named_by_its_element() {
    let changed =
        |from: &str, to: &str| refusal(&xml(&[PERSON, &DOG.replacen(from, to, 1)].concat()));
    let deep = "<a>".repeat(64);
    let refusals = [
        (changed("<xmin>48</xmin>", ""), "1.xml: object 2 (dog): `bndbox/xmin` is missing"),
        (changed("371", "x"), "object 2 (dog): `bndbox/ymax` is \"x\", expected a number"),
        (changed("371", "NaN"), "object 2 (dog): `bndbox/ymax` is NaN, the limit of a coordinate"),
        (
            changed("371", "1e9"),
            "`bndbox/ymax` is 1000000000, the limit of a coordinate is 1048576",
        ),
        (changed("371</ymax>", "3</ymax><ymax>4</ymax>"), "`bndbox/ymax` occurs twice"),
        (changed("<name>dog</name>", ""), "object 2: `name` is missing"),
        (changed("dog", " "), "object 2: `name` is empty"),
        (changed("dog", "&dog;"), "object 2: `name` has &dog;, which is unknown"),
        (changed("dog", "&#0;"), "object 2: `name` has &#0;, which is unknown"),
        (changed(">1<", ">no<"), "object 2 (dog): `truncated` is \"no\", expected 0 or 1"),
        (changed("</bndbox>", ""), "expected `</bndbox>`"),
        (refusal(&xml(&deep)), "more than 64 nested elements"),
        (refusal("<annotation><object>"), "the file ends within an element"),
        (refusal("<annotations/>"), "<annotations>, expected one <annotation> of Pascal VOC"),
        (refusal("<annotation/><annotation/>"), "expected one <annotation>"),
        (refusal(""), "no <annotation>"),
        (refusal("{}"), "no <annotation>"),
    ];
    for (found, expected) in refusals {
        assert!(found.contains(expected), "{expected}: {found}");
    }
}

/// A document type that defines entities by each other costs nothing: they have no value.
#[test]
fn entities_of_a_document_type_are_not_expanded() {
    let text = |name: &str| {
        let head = r#"<!DOCTYPE annotation [<!ENTITY a "dog"><!ENTITY b "&a;&a;"><!ENTITY c SYSTEM "file:///etc/passwd">]>"#;
        format!("{head}{}", xml(&DOG.replacen("dog", name, 1)))
    };
    for name in ["&a;", "&b;", "&c;"] {
        assert!(refusal(&text(name)).contains(&format!("`name` has {name}, which is unknown")));
    }
    let dir = folder(&[("1.jpg", ""), ("1.xml", &text("dog"))]);
    assert_eq!(voc(&dir, &VocOptions::default()).unwrap().objects(), 1);
}

#[test]
fn files_that_do_not_fit_are_named() {
    let opened = |files: &[(&str, &str)], options: &VocOptions| {
        let error = voc(&folder(files), options).unwrap_err();
        (error.kind(), error.to_string())
    };
    let (plain, object) = (VocOptions::default(), xml(DOG));
    let (kind, message) = opened(&[("1.jpg", ""), ("2.xml", &object)], &plain);
    assert!(
        kind == ErrorKind::Format && message.contains("2.xml: the image is missing: expected ")
    );
    let (_, message) = opened(&[("1.jpg", ""), ("1.png", ""), ("1.xml", &object)], &plain);
    assert!(message.contains("1.jpg and 1.png have the same name"), "{message}");
    let (_, message) = opened(&[("1.jpg", "")], &plain);
    assert!(message.contains("no .xml file found: expected JPEGImages"), "{message}");
    let many = [("1.jpg", ""), ("1.xml", &*object), ("2.jpg", ""), ("2.xml", &*object)];
    let limited = |limits| opened(&many, &VocOptions::default().limits(limits));
    let (kind, message) = limited(Limits { max_samples: 1, ..Limits::SMALL });
    assert!(kind == ErrorKind::Memory && message.contains("the limit is 1"), "{message}");
    let size = object.len() as u64;
    let (kind, message) = limited(Limits { max_table_bytes: 2 * size - 1, ..Limits::SMALL });
    assert!(
        kind == ErrorKind::Memory && message.contains("the annotations up to here"),
        "{message}"
    );
    let (_, message) = limited(Limits { max_sample_bytes: size - 1, ..Limits::SMALL });
    assert!(message.contains("1.xml: ") && message.contains("the limit is"), "{message}");
    let (_, message) = opened(&[("1.jpg", ""), ("1.xml", &xml(&DOG.repeat(10_001)))], &plain);
    assert!(message.contains("1.xml: more than 10000 objects, the limit"), "{message}");
    let dir = folder(&[("1.jpg", "")]);
    fs::write(dir.path().join("1.xml"), b"<annotation>\xff").unwrap();
    let message = voc(&dir, &plain).unwrap_err().to_string();
    assert!(message.contains("byte 12: the text is not UTF-8"), "{message}");
}

#[test]
fn sizes_are_those_of_the_files_that_have_one() {
    let size = |text: &str| {
        let file = voc_xml::parse(&format!("<annotation>{text}</annotation>")).unwrap();
        [file.size.height, file.size.width]
    };
    assert_eq!(
        size("<size><width>40</width><height> 20\n</height><depth>3</depth></size>"),
        [20, 40]
    );
    for text in ["", "<size/>", "<width>40</width><height>20</height>"] {
        assert_eq!(size(text), [0, 0], "{text}");
    }
    assert_eq!(size("<size><width>-4</width><height>2.5</height></size>"), [0, 0]);
    assert_eq!(size("<object><name>a</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>2</xmax><ymax>2</ymax></bndbox>
        <size><width>40</width></size></object>"), [0, 0]);
}

#[test]
fn one_bad_file_is_damage_of_its_image_alone() {
    let files = [
        ("1.jpg", "pixels"),
        ("1.xml", &*xml(DOG)),
        ("2.jpg", "pixels"),
        ("2.xml", "<annotation><object>"),
        ("3.xml", &*xml(DOG)),
    ];
    let dir = folder(&files);
    let source = voc(&dir, &VocOptions::default()).unwrap();
    assert_eq!(source.facts().samples, 3);
    assert!(source.read(SampleId(0)).is_ok());
    for (sample, words) in [(1, "2.xml: byte 20"), (2, "3.xml: the image is missing")] {
        for field in 0..source.facts().fields.len() {
            let error = source.value(SampleId(sample), field, &mut Buffer::default()).unwrap_err();
            assert!(error.to_string().contains(words), "{error}");
        }
    }
}
