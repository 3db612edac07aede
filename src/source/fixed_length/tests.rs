//! Tests on files made here: the forms of the names, damage, limits, and files that change.

use super::*;
use crate::error::ErrorKind;
use crate::sample::SampleId;
use crate::source::file::tests::folder;
use crate::source::{Buffer, OwnedValue, Record, Source as _};
use crate::testing::assert_says;
use flate2::{Compression, write::GzEncoder};
use std::io::Write as _;

const IMAGES: &str = "train-images-idx3-ubyte";
const LABELS: &str = "train-labels-idx1-ubyte";

/// Three images of 2 x 4 pixels.
const SHAPE: [u32; 3] = [3, 2, 4];

fn idx(shape: &[u32], elements: impl IntoIterator<Item = u8>) -> Vec<u8> {
    let mut bytes = vec![0, 0, 8, shape.len() as u8];
    bytes.extend(shape.iter().flat_map(|size| size.to_be_bytes()));
    bytes.extend(elements);
    bytes
}

fn images() -> Vec<u8> {
    idx(&SHAPE, 100..124)
}

fn labels() -> Vec<u8> {
    idx(&[3], [7, 0, 9])
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut packer = GzEncoder::new(vec![], Compression::fast());
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap()
}

fn open(path: impl AsRef<Path>) -> Result<Columnar, Error> {
    super::open(path.as_ref(), &Limits::SMALL)
}

/// Reads everything that a source has.
fn read_all(source: &Columnar) -> Result<Vec<Record>, BoxError> {
    (0..source.facts().samples).map(|sample| source.read(SampleId(sample))).collect()
}

fn digits() -> Vec<Record> {
    let sample = |index: u8, label| {
        let first = 100 + 8 * index;
        vec![OwnedValue::NdArray((first..first + 8).collect()), OwnedValue::Int(label)]
    };
    vec![sample(0, 7), sample(1, 0), sample(2, 9)]
}

/// Opens a dataset that must be refused.
fn refusal(path: impl AsRef<Path>) -> Error {
    open(path).expect_err("it is refused")
}

fn classes(source: &Columnar) -> Vec<String> {
    let names = source.facts().class_names().unwrap().unwrap_or_default();
    names.iter().map(|(_, name)| name.to_owned()).collect()
}

/// Records of CIFAR whose planes begin with `first`, and whose heads are `heads`.
fn records(heads: &[&[u8]]) -> Vec<u8> {
    let planes = |n: usize| (0..PIXELS).map(move |at| ((at + n) / 3) as u8 ^ (at % 251) as u8);
    heads.iter().enumerate().flat_map(|(n, head)| head.iter().copied().chain(planes(n))).collect()
}

#[test]
fn every_form_of_the_names_is_the_same_dataset() {
    let (i, l) = (images(), labels());
    let (packed_i, packed_l) = (packed(&i), packed(&l));
    let forms: [&[(&str, &[u8])]; 7] = [
        &[(IMAGES, &i), (LABELS, &l)],
        &[("train-images.idx3-ubyte", &i), ("train-labels.idx1-ubyte", &l)],
        &[("train-images-idx3-ubyte.gz", &packed_i), ("train-labels-idx1-ubyte.gz", &packed_l)],
        &[("train-images.idx3-ubyte.gz", &packed_i), ("train-labels.idx1-ubyte.gz", &packed_l)],
        // torchvision leaves the compressed files beside the others; here they are damaged.
        &[(IMAGES, &i), (LABELS, &l), ("train-images-idx3-ubyte.gz", b"x")],
        &[
            (IMAGES, &i),
            ("train-labels.idx1-ubyte.gz", &packed_l),
            ("t10k-images-idx3-ubyte", b"x"),
        ],
        &[("MNIST/raw/train-images-idx3-ubyte", &i), ("MNIST/raw/train-labels-idx1-ubyte", &l)],
    ];
    let mut prints = vec![];
    for files in forms {
        let dir = folder(files);
        assert!(is_folder(dir.path()), "{files:?}");
        let source = open(dir.path()).unwrap();
        assert_eq!(read_all(&source).unwrap(), digits());
        let kind = FieldKind::NdArray { dtype: "|u1".parse().unwrap(), shape: vec![2, 4] };
        assert_eq!(
            *source.facts().fields,
            [("image", kind).into(), ("label", FieldKind::Int).into()]
        );
        assert_eq!(classes(&source).join(""), "0123456789");
        assert_eq!(source.facts().paths().filter(|path| path.is_file()).count(), 2);
        prints.push(source.facts().fingerprint);
    }
    prints.dedup();
    assert_eq!(prints.len(), 1);
}

#[test]
fn a_file_is_opened_by_its_own_path() {
    let emnist = idx(&[2], [61, 35]);
    let two = idx(&[2, 1, 1], [1, 2]);
    let dir = folder(&[
        (IMAGES, &images()),
        (LABELS, &labels()),
        ("t10k-images-idx3-ubyte", &two),
        ("t10k-labels-idx1-ubyte", &idx(&[2], [3, 4])),
        ("emnist-byclass-test-images-idx3-ubyte", &two),
        ("emnist-byclass-test-labels-idx1-ubyte", &emnist),
    ]);
    let test = open(dir.path().join("t10k-images-idx3-ubyte")).unwrap();
    assert_eq!(
        (test.facts().samples, test.read(SampleId(1)).unwrap()[1].clone()),
        (2, OwnedValue::Int(4))
    );
    let test = open(dir.path().join("emnist-byclass-test-images-idx3-ubyte")).unwrap();
    assert_eq!(test.read(SampleId(0)).unwrap()[1], OwnedValue::Int(61));
    assert!(classes(&test).is_empty());
    assert_says(refusal(dir.path().join(LABELS)), ["expected a file of images"]);
    let error = refusal("s3://bucket/train-images-idx3-ubyte");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

#[test]
fn fashion_has_its_own_names_where_a_folder_says_so() {
    for (name, first) in [
        ("fashion-mnist", "T-shirt/top"),
        ("FashionMNIST/raw", "T-shirt/top"),
        ("fashion_mnist.1", "T-shirt/top"),
        ("KMNIST/raw", "0"),
    ] {
        let (images_name, labels_name) = (format!("{name}/{IMAGES}"), format!("{name}/{LABELS}"));
        let dir = folder(&[(&images_name, &images()), (&labels_name, &labels())]);
        let source = open(dir.path().join(name)).unwrap();
        assert_eq!(classes(&source)[0], first, "{name}");
        assert_eq!(classes(&open(dir.path()).unwrap())[0], first, "{name}");
    }
}

#[test]
fn what_could_mean_two_datasets_is_refused() {
    let (i, l) = (images(), labels());
    let both = folder(&[
        ("emnist-letters-train-images-idx3-ubyte", &i),
        ("emnist-digits-train-images-idx3-ubyte", &i),
    ]);
    let error = refusal(both.path());
    let message = error.to_string();
    assert_eq!(error.kind(), ErrorKind::Parameter);
    assert_says(&message, ["(emnist-digits-train-images, emnist-letters-train-images)"]);
    for image in ["3.png", "three/1.JPG"] {
        let dir = folder(&[(IMAGES, &i), (LABELS, &l), (image, b"")]);
        assert_says(refusal(dir.path()), ["both files of MNIST and images: open"]);
        assert!(open(dir.path().join(IMAGES)).is_ok());
    }
    // A folder beside the files that has no images, as in a download from Kaggle.
    let dir = folder(&[(IMAGES, &i), (LABELS, &l), ("again/train-images-idx3-ubyte", &i)]);
    assert!(open(dir.path()).is_ok());
    // Not the only folder, and a folder with images: folders of classes.
    let dir = folder(&[("a/train-images-idx3-ubyte", &i), ("b/1.jpg", b"")]);
    assert!(!is_folder(dir.path()));
    let dir = folder(&[("a/train-images-idx3-ubyte", &i), ("1.jpg", b"")]);
    assert!(!is_folder(dir.path()));
}

#[test]
fn a_missing_file_is_named() {
    let (i, l) = (images(), labels());
    let dir = folder(&[(IMAGES, &i)]);
    let error = refusal(dir.path());
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(error.path(), Some(&*dir.path().join(LABELS)));
    let dir = folder(&[("t10k-images-idx3-ubyte", &i), ("t10k-labels-idx1-ubyte", &l)]);
    let message = refusal(dir.path()).to_string();
    let cure = format!("open {}", dir.path().join("t10k-images-idx3-ubyte").display());
    assert!(message.contains(&cure), "{message}");
    let dir =
        folder(&[("data_batch_1.bin", &records(&[&[1]])), ("data_batch_2.bin", &records(&[&[1]]))]);
    let error = refusal(dir.path());
    assert_eq!(error.path(), Some(&*dir.path().join("data_batch_3.bin")));
    assert_eq!(open(dir.path().join("data_batch_2.bin")).unwrap().facts().samples, 1);
}

#[test]
fn pickles_are_never_loaded() {
    for names in [["data_batch_1", "batches.meta"], ["train", "meta"]] {
        let dir = folder(&names.map(|name| (name, &b"\x80\x02}q\x00"[..])));
        assert!(is_folder(dir.path()));
        let error = refusal(dir.path());
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("binary version"), "{error}");
        let texts = folder(&names.map(|name| (name, &b"a text"[..])));
        assert!(!is_folder(texts.path()));
    }
}

/// A file that is cut anywhere is refused with its path; so is one with bytes too many.
#[test]
fn a_file_of_another_length_is_refused() {
    for (name, whole) in [(IMAGES, images()), (LABELS, labels())] {
        let dir = folder(&[(IMAGES, &images()), (LABELS, &labels())]);
        let path = dir.path().join(name);
        for end in 0..whole.len() {
            fs::write(&path, &whole[..end]).unwrap();
            let error = refusal(dir.path());
            assert_eq!((error.kind(), error.path()), (ErrorKind::Format, Some(&*path)), "{error}");
            assert_eq!(error.offset(), Some(end as u64), "{error}");
        }
        let more = [&whole[..], b"x"].concat();
        fs::write(&path, &more).unwrap();
        let error = refusal(dir.path());
        assert_eq!(error.offset(), Some(whole.len() as u64), "{error}");
        let end = more.len() - 1;
        fs::write(path.with_file_name(format!("{name}.gz")), packed(&more[..end])).unwrap();
        fs::remove_file(&path).unwrap();
        assert!(open(dir.path()).is_ok(), "whole again");
    }
}

#[test]
fn compressed_files_that_are_damaged_are_refused() {
    let (i, l) = (packed(&images()), packed(&labels()));
    let name = "train-images-idx3-ubyte.gz";
    let dir = folder(&[(name, &i), ("train-labels-idx1-ubyte.gz", &l)]);
    for end in 0..i.len() {
        fs::write(dir.path().join(name), &i[..end]).unwrap();
        let error = refusal(dir.path());
        assert_eq!(error.path(), Some(&*dir.path().join(name)), "{end}: {error}");
    }
    for bit in 0..8 * i.len() {
        let mut changed = i.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        fs::write(dir.path().join(name), &changed).unwrap();
        // Bits of the header that say nothing about the data, such as the time, may change.
        match open(dir.path()) {
            Ok(source) => assert_eq!(read_all(&source).unwrap(), digits(), "bit {bit}"),
            Err(error) => assert_eq!(error.path(), Some(&*dir.path().join(name)), "bit {bit}"),
        }
    }
}

/// Every changed bit of a header is noticed, and none leads to a read beyond the file or to an allocation of
/// the size that it says.
#[test]
fn a_changed_bit_in_a_header_is_refused() {
    for (name, whole, header) in [(IMAGES, images(), 16), (LABELS, labels(), 8)] {
        let dir = folder(&[(IMAGES, &images()), (LABELS, &labels())]);
        let path = dir.path().join(name);
        for bit in 0..8 * header {
            let mut changed = whole.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            fs::write(&path, &changed).unwrap();
            let error = refusal(dir.path());
            assert_eq!(error.path(), Some(&*path), "bit {bit}: {error}");
        }
    }
}

#[test]
fn headers_that_no_file_can_have_are_refused() {
    let message = |header: &[u8]| {
        let dir = folder(&[(IMAGES, header), (LABELS, &labels())]);
        refusal(dir.path()).to_string().replace(&format!("{}/", dir.path().display()), "")
    };
    let of = |shape: &[u32]| message(&idx(shape, []));
    let all = u32::MAX;
    assert!(of(&[all, all, all]).contains("items of [4294967295, 4294967295] bytes, the limit is"));
    assert!(of(&[all, 1, 1]).contains("4294967295 items, the limit is 65536"));
    assert!(of(&[3, 0, 4]).contains("byte 8: dimension 1 is 0"));
    assert!(of(&[0, 2, 4]).contains("byte 4: dimension 0 is 0"));
    assert!(of(&[3, 8]).contains("byte 12: the file ends here"));
    assert!(message(&idx(&[3, 8], 0..24)).contains("byte 3: 2 dimensions, expected 3"));
    assert!(message(&packed(&images())).contains("compressed with gzip: unpack it, or add .gz"));
    assert!(
        message(b"\xff\xd8\xff\xe0 a picture, perhaps").contains("byte 0: ff d8, expected 00 00")
    );
    for (code, name) in
        [(0x09, "signed byte"), (0x0c, "int32"), (0x0d, "float32"), (0xff, "unknown")]
    {
        let mut other = images();
        other[2] = code;
        assert!(
            message(&other).contains(&format!("byte 2: elements of type {code:#04x} ({name})"))
        );
    }
    // QMNIST's labels are rows of eight numbers of 32 bits.
    let dir = folder(&[
        ("qmnist-train-images-idx3-ubyte", &images()),
        ("qmnist-train-labels-idx2-int", &[0, 0, 0x0c, 2, 0, 0, 0, 3, 0, 0, 0, 8]),
    ]);
    assert_says(refusal(dir.path()), ["elements of type 0x0c (int32), expected 0x08"]);
}

#[test]
fn labels_that_do_not_fit_are_errors() {
    let dir = folder(&[(IMAGES, &images()), (LABELS, &idx(&[4], [1, 2, 3, 4]))]);
    let error = refusal(dir.path());
    assert_eq!(error.path(), Some(&*dir.path().join(LABELS)));
    assert!(error.to_string().contains("4 labels, expected 3"), "{error}");
    fs::write(dir.path().join(LABELS), idx(&[3], [7, 10, 9])).unwrap();
    let source = open(dir.path()).unwrap();
    let error = Error::from(source.read(SampleId(1)).unwrap_err());
    assert_eq!((error.kind(), error.offset()), (ErrorKind::Damaged, Some(9)));
    assert_says(&error, ["label 10, expected 0 to 9; for a dataset with more"]);
    assert!(source.read(SampleId(0)).is_ok() && source.read(SampleId(2)).is_ok());
    for (sample, field) in [(3, 0), (3, 1), (u64::MAX, 0), (0, 2)] {
        assert!(source.value(SampleId(sample), field, &mut Buffer::default()).is_err());
        assert_eq!(source.locate(SampleId(sample), field), None);
    }
}

#[test]
fn a_compressed_file_is_unpacked_up_to_the_limit() {
    let large = idx(&[1, 3000, 2000], vec![0; 6_000_000]);
    let dir = folder(&[
        ("train-images-idx3-ubyte.gz", &packed(&large)),
        ("train-labels-idx1-ubyte.gz", &packed(&idx(&[1], [0]))),
    ]);
    let error = refusal(dir.path());
    assert_eq!(error.kind(), ErrorKind::Memory);
    assert!(error.to_string().contains("gunzip), the limit is 4194304"), "{error}");
    assert!(super::open(dir.path(), &Limits::DEFAULT).is_ok());
}

#[test]
fn a_file_that_is_cut_while_it_is_open_is_an_error() {
    let dir = folder(&[(IMAGES, &images()), (LABELS, &labels())]);
    let source = open(dir.path()).unwrap();
    let file = fs::File::options().write(true).open(dir.path().join(IMAGES)).unwrap();
    file.set_len(39).unwrap();
    assert_eq!(source.read(SampleId(0)).unwrap(), digits()[0]);
    let error = Error::from(source.read(SampleId(2)).unwrap_err());
    assert_eq!(error.path(), Some(&*dir.path().join(IMAGES)));
    assert_eq!((error.kind(), error.offset()), (ErrorKind::Damaged, Some(32)));
}

#[test]
fn planes_of_cifar_become_pixels() {
    let bytes = records(&[&[3], &[9]]);
    let names = "a\nb\nc\nd\ne\r\nf\ng\nh\ni\nj\n\n";
    let mut files: Vec<(&str, &[u8])> =
        TRAIN_BATCHES.iter().map(|&name| (name, &bytes[..])).collect();
    files.push(("batches.meta.txt", names.as_bytes()));
    let dir = folder(&files);
    let source = open(dir.path()).unwrap();
    assert_eq!((source.facts().samples, classes(&source).join("")), (10, "abcdefghij".to_owned()));
    let OwnedValue::Image(image) = &source.read(SampleId(7)).unwrap()[0] else { panic!() };
    let planes = &bytes[3074..];
    for (at, pixel) in image.bytes.chunks_exact(3).enumerate() {
        assert_eq!(pixel, [planes[at], planes[1024 + at], planes[2048 + at]]);
    }
    let stats = source.facts().image_stats(0).unwrap();
    assert_eq!((stats.raw, stats.uniform()), (10, Some(Size::new(32, 32))));
    assert_eq!(source.facts().image_stats(1), None);
    let location = source.locate(SampleId(7), 0).unwrap();
    assert_eq!(location.bytes, Some(3074..6146));
    assert!(location.file.unwrap().ends_with("data_batch_4.bin"));
    for end in 0..bytes.len() {
        let last = dir.path().join("data_batch_5.bin");
        fs::write(&last, &bytes[..end]).unwrap();
        match open(dir.path()) {
            Ok(source) => assert_eq!((end, source.facts().samples), (3073, 9)),
            Err(error) => {
                assert_eq!((error.kind(), error.path()), (ErrorKind::Format, Some(&*last)));
            }
        }
    }
}

#[test]
fn labels_and_names_of_cifar_are_checked() {
    let dir = folder(&[
        (TRAIN, &records(&[&[19, 99], &[20, 0], &[0, 100]])),
        (FINE_NAMES, b"one\ntwo\n"),
    ]);
    let source = open(dir.path()).unwrap();
    let names: Vec<&str> = source.facts().fields.iter().map(|field| &*field.name).collect();
    assert_eq!(names, ["image", "label", "coarse_label"]);
    let record = source.read(SampleId(0)).unwrap();
    assert_eq!(record[1..], [OwnedValue::Int(99), OwnedValue::Int(19)]);
    for (sample, message, at) in [(1, "label 20, expected 0 to 19", 3074), (2, "label 100", 6149)] {
        let error = Error::from(source.read(SampleId(sample)).unwrap_err());
        assert!(error.to_string().contains(message), "{error}");
        assert_eq!((error.kind(), error.offset()), (ErrorKind::Damaged, Some(at)));
    }
    let refused = |text: &[u8]| {
        fs::write(dir.path().join(FINE_NAMES), text).unwrap();
        source.facts().class_names().unwrap_err().to_string()
    };
    assert!(refused(b"one\ntwo\n").contains("2 names of classes, expected 100"));
    assert!(refused("a\n".repeat(101).as_bytes()).contains("101 names of classes"));
    assert!(refused(format!("a\n\n{}", "b\n".repeat(98)).as_bytes()).contains("99 names"));
    assert!(refused(b"a\n\xff\n").contains("byte 2: the text is not UTF-8"));
    assert!(refused(&vec![b'a'; 70_000]).contains("more than 65536 bytes"));
    assert!(is_file(&dir.path().join(TRAIN)));
    fs::remove_file(dir.path().join(FINE_NAMES)).unwrap();
    assert!(!is_file(&dir.path().join(TRAIN)), "a file that others call train.bin");
}
