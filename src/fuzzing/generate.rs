//! Inputs for the checks: a valid file with up to three mutations.
//!
//! Files are generated from random numbers where that is simple (`.beton`, tar, TFRecord, tables,
//! pipelines, cursors), and are goldens where those cover all kinds (JPEG, PNG, WebP, TIFF, BMP, GIF, PNM, JPEG XL, HEIC). Goldens of the other
//! formats, which other programs wrote, are among the valid files too.

use crate::recut::{BitPlaneCodec, Recutter, Tile};
use crate::sample::Limits;
use crate::source::beton::{Allocation, Cell, Header, ImageCell, RowLayout};
use crate::source::example::{
    BytesList, Example, ExampleFeature, Features, FloatList, Int64List, Kind,
};
use crate::source::index_file::joined_of;
use crate::source::{FieldKind, FieldSpec, ImageMode, masked_crc32c};
use arbitrary::{Result, Unstructured};
use fuseloop_ops::internals::registry::{ParamDefault, registry};
use prost::Message as _;
use std::fmt::Write as _;
use std::path::Path;

/// Generates an input from random numbers.
pub(super) type InputGenerator = Box<dyn FnMut(&mut Unstructured<'_>) -> Result<Vec<u8>>>;

/// Reads the files of a folder of goldens.
pub(super) fn goldens(folder: &str, kind: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(folder);
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = paths.filter(|path| path.extension().is_some_and(|ext| ext == kind));
    let mut files: Vec<_> = files.map(|path| std::fs::read(path).unwrap()).collect();
    files.sort();
    assert!(!files.is_empty(), "no golden .{kind}");
    files
}

/// Returns a generator of one of `files`, or of a file that `make` generates, with up to three
/// mutations.
fn mutating(
    files: Vec<Vec<u8>>,
    make: fn(&mut Unstructured<'_>) -> Result<Vec<u8>>,
    head: usize,
) -> InputGenerator {
    Box::new(move |u| {
        let file =
            if files.is_empty() || u.ratio(1, 2)? { make(u)? } else { u.choose(&files)?.clone() };
        mutated(file, head, u)
    })
}

/// Applies up to three mutations, a third of them in the first `head` bytes, where headers are. Three in
/// five change bytes in place; the others move the bytes that follow.
fn mutated(mut bytes: Vec<u8>, head: usize, u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    for _ in 0..u.int_in_range(0..=3)? {
        if bytes.is_empty() {
            break;
        }
        let reach = if u.ratio(2, 3)? { bytes.len() } else { bytes.len().min(head) };
        let at = u.choose_index(reach)?;
        let piece = at..bytes.len().min(at + u.int_in_range(1..=300)?);
        match u.int_in_range(0..=9)? {
            // A digit stays a digit, so that numbers in text stay valid.
            0..=5 if bytes[at].is_ascii_digit() => bytes[at] = b'0' + u.int_in_range(0..=9)?,
            0..=1 => bytes[at] = u.arbitrary()?,
            2..=3 => bytes[at] ^= 1 << u.int_in_range(0..=7)?,
            4..=5 => {
                let any: u64 = u.arbitrary()?;
                let number = *u.choose(&[0, 1, 0xff, 0x7fff_ffff, u64::MAX, 1 << 63, any])?;
                let width = (*u.choose(&[2, 4, 8])?).min(bytes.len() - at);
                bytes[at..at + width].copy_from_slice(&number.to_le_bytes()[..width]);
            }
            6 => drop(bytes.drain(piece)),
            7 => {
                let (piece, to) = (bytes[piece].to_vec(), u.choose_index(bytes.len())?);
                bytes.splice(to..to, piece);
            }
            // Copies a block of 512 bytes, the block size of tar.
            8 => {
                let from = at / 512 * 512;
                let block = bytes[from..bytes.len().min(from + 512)].to_vec();
                let to = u.choose_index(bytes.len())? / 512 * 512;
                bytes.splice(to..to, block);
            }
            _ => bytes.truncate(at.max(1)),
        }
    }
    Ok(bytes)
}

pub(super) fn beton() -> InputGenerator {
    mutating(goldens("beton", "beton"), beton_file, 5000)
}

/// Generates a file of up to four fields and up to eight samples, with the layout that a writer uses.
fn beton_file(u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let mut fields = vec![];
    for index in 0..u.int_in_range(1..=4)? {
        let shape = vec![u.int_in_range(0..=3)?, u.int_in_range(1..=3)?];
        let kind = match u.int_in_range(0..=6)? {
            0 => FieldKind::Float,
            1 => FieldKind::Int,
            2 => FieldKind::RgbImage,
            3 => FieldKind::Bytes,
            4 => FieldKind::Json,
            5 => FieldKind::NdArray { dtype: "<f4".parse().unwrap(), shape },
            _ => FieldKind::TorchTensor { dtype: "<i8".parse().unwrap(), shape },
        };
        fields.push(FieldSpec { name: format!("field {index}"), kind });
    }
    let layout = RowLayout::new(fields.iter().map(|field| &field.kind)).unwrap();
    let mut header = Header {
        num_fields: fields.len() as u16,
        page_size: 1 << u.int_in_range(9..=13)?,
        num_samples: u.int_in_range(0..=8)?,
        alloc_table_ptr: 0,
    };
    let start = header.data_start(layout.size()).unwrap();
    let (mut rows, mut data, mut table) = (vec![], vec![], vec![]);
    for sample in 0..header.num_samples {
        let mut row = vec![0; layout.size()];
        for (index, field) in fields.iter().enumerate() {
            let ptr = start + data.len() as u64;
            let old = data.len();
            let cell = match &field.kind {
                FieldKind::Float => Cell::Float(u.arbitrary()?),
                FieldKind::Int => Cell::Int(u.arbitrary()?),
                FieldKind::RgbImage => {
                    let (width, height) = (u.int_in_range(1..=9)?, u.int_in_range(1..=9)?);
                    data.resize(old + usize::from(width) * usize::from(height) * 3, 90);
                    Cell::Image(ImageCell { mode: ImageMode::Raw, width, height, ptr })
                }
                kind => {
                    let size = match kind.array_bytes() {
                        Some(size) => size as usize,
                        None => u.int_in_range(0..=40)?,
                    };
                    data.resize(old + size, b' ');
                    match kind.array_bytes() {
                        Some(_) => Cell::Array { ptr },
                        None => Cell::Bytes { ptr, size: size as u64 },
                    }
                }
            };
            cell.put(layout.cell_mut(&mut row, index).unwrap());
            let size = (data.len() - old) as u64;
            if size > 0 {
                table.extend(Allocation { sample, ptr, size }.to_bytes());
            }
        }
        rows.extend(row);
    }
    data.resize(data.len().next_multiple_of(header.page_size as usize), 0);
    header.alloc_table_ptr = start + data.len() as u64;
    let mut bytes = header.to_bytes().to_vec();
    fields.iter().for_each(|field| bytes.extend(field.to_bytes().unwrap()));
    bytes.extend(rows);
    bytes.resize(start as usize, 0);
    Ok([bytes, data, table].concat())
}

pub(super) fn tar() -> InputGenerator {
    let gz = goldens("webdataset", "gz").into_iter();
    mutating(goldens("webdataset", "tar").into_iter().chain(gz).collect(), tar_file, 1024)
}

/// Generates up to five samples of up to three members, with names of all lengths, using another tar
/// writer.
fn tar_file(u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let mut builder = tar::Builder::new(vec![]);
    for sample in 0..u.int_in_range(1..=5)? {
        let folder = "d".repeat(*u.choose(&[0, 1, 120])?);
        for ext in &["txt", "cls", "json"][..u.int_in_range(1..=3)?] {
            let data: &[u8] = match *ext {
                "cls" => b"7",
                "json" => b"{\"a\": [1, 2.5]}",
                _ => &[b'x'; 700][..u.int_in_range(0..=700)?],
            };
            let mut header =
                if u.ratio(1, 2)? { tar::Header::new_gnu() } else { tar::Header::new_ustar() };
            header.set_size(data.len() as u64);
            header.set_mode(0o644);
            let name = format!("{folder}/s{sample}.{ext}");
            // A member whose name does not fit into the header is left out.
            let _ = builder.append_data(&mut header, name.trim_start_matches('/'), data);
        }
    }
    Ok(builder.into_inner().unwrap())
}

pub(super) fn tfrecord() -> InputGenerator {
    mutating(goldens("tfrecord", "tfrecord"), tfrecord_file, 300)
}

/// Generates up to five examples with features of all kinds.
fn tfrecord_file(u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let mut bytes = vec![];
    let count = u.int_in_range(0..=3)?;
    for _ in 0..u.int_in_range(1..=5)? {
        let mut features = Features::default();
        let kinds = [
            ("image", Kind::Bytes(BytesList { value: vec![u.arbitrary()?] })),
            ("floats", Kind::Floats(FloatList { value: vec![u.arbitrary()?; count] })),
            ("label", Kind::Ints(Int64List { value: vec![u.arbitrary()?] })),
        ];
        for (name, kind) in kinds {
            features.feature.insert(name.to_owned(), ExampleFeature { kind: Some(kind) });
        }
        let data = Example { context: Some(features), lists: None }.encode_to_vec();
        let length = (data.len() as u64).to_le_bytes();
        bytes.extend(length);
        bytes.extend(masked_crc32c(&length).to_le_bytes());
        bytes.extend(&data);
        bytes.extend(masked_crc32c(&data).to_le_bytes());
    }
    Ok(bytes)
}

/// Returns a generator of the golden `info.json` and table of episodes of LeRobot, one of which is mutated.
#[cfg(all(feature = "parquet", feature = "video"))]
pub(super) fn lerobot() -> InputGenerator {
    let info = goldens("lerobot/meta", "json").remove(0);
    let episodes = goldens("lerobot/meta/episodes/chunk-000", "parquet").remove(0);
    Box::new(move |u| {
        let (mut info, mut episodes) = (info.clone(), episodes.clone());
        if u.arbitrary()? {
            info = mutated(info, 64, u)?;
        } else {
            episodes = mutated(episodes, 64, u)?;
        }
        Ok([&info, &b"\0"[..], &episodes].concat())
    })
}

/// Returns a generator of rows of a clip store.
pub(super) fn clip_store() -> InputGenerator {
    mutating(
        vec![],
        |u| {
            let (mut video, mut seconds, mut rows) = (i8::MIN, 0.0, vec![]);
            for _ in 0..u.int_in_range(1..=40)? {
                if u.ratio(1, 4)? {
                    (video, seconds) = (video.saturating_add(u.int_in_range(1..=3)?), 0.0);
                }
                rows.push(video.cast_unsigned());
                rows.extend(f64::to_le_bytes(seconds));
                seconds += *u.choose(&[0.0, 0.04, 1e9, 1e300])?;
            }
            Ok(rows)
        },
        18,
    )
}

/// Returns a generator of a table of saved indexes of videos, and of indexes.
#[cfg(feature = "video")]
pub(super) fn saved_videos() -> InputGenerator {
    /// The index of one packet of 5 bytes with one frame in a file of 64 bytes, with its checksum.
    fn index() -> Vec<u8> {
        let body = b"FLVI\x01\x40\0MJPG\x10\x10\0\0\0\x02\x01\x19\0\0\x01\x17\x08\0\x01\0\0";
        [&body[..], &crc32c::crc32c(body).to_le_bytes()].concat()
    }
    mutating(
        vec![],
        |u| {
            let names = ["a.mp4", "b/c.mkv", "b/d.avi", "x"];
            let count = u.int_in_range(0..=names.len())?;
            let mut table = (count as u64).to_le_bytes().to_vec();
            let mut indexes = vec![];
            for name in &names[..count] {
                table.extend((name.len() as u32).to_le_bytes());
                table.extend(name.as_bytes());
                table.extend(64_u64.to_le_bytes());
                table.extend(u.arbitrary::<i64>()?.to_le_bytes());
                let index = index();
                table.extend((index.len() as u32).to_le_bytes());
                indexes.extend(index);
            }
            Ok([&(table.len() as u32).to_le_bytes()[..], &table, &indexes].concat())
        },
        40,
    )
}

/// Returns a generator of a joined index: the length of its directory, the directory, and its pages.
pub(super) fn joined_index() -> InputGenerator {
    mutating(
        vec![],
        |u| {
            let is_tar = u.arbitrary()?;
            let (count, is_counting): (u8, bool) = (u.int_in_range(0..=140)?, u.arbitrary()?);
            let mut samples = vec![];
            for n in 0..count {
                let key = if is_counting {
                    format!("a/{n:04}")
                } else {
                    format!("{:x}", u.arbitrary::<u32>()?)
                };
                let names = ["jpg", "cls", "x.npy"];
                let mut members = vec![];
                for name in &names[..if is_tar { names.len() } else { 1 }] {
                    if u.ratio(7, 8)? {
                        members.push((*name, u.int_in_range(0..=1000)?));
                    }
                }
                samples.push((key, members));
            }
            Ok(joined_of(is_tar, &samples))
        },
        60,
    )
}

#[cfg(feature = "mds")]
pub(super) fn mds() -> InputGenerator {
    let golden = |name: &str| {
        let files = goldens(&format!("mds/{name}"), "json").pop().unwrap_or_default();
        // An index of one shard.
        let mut index: serde_json::Value = serde_json::from_slice(&files).unwrap();
        index["shards"].as_array_mut().unwrap().truncate(1);
        let shard = match name {
            "plain" => goldens("mds/plain", "mds"),
            "gz" => goldens("mds/gz", "gz"),
            _ => goldens("mds/zstd", "zstd"),
        };
        [index.to_string().as_bytes(), b"\0", &shard[0]].concat()
    };
    // Changes of bytes in place of what follows the index: the texts of an index are refused by most changes.
    let files: Vec<Vec<u8>> = ["plain", "gz", "zstd"].map(golden).into();
    Box::new(move |u| {
        let file = if u.ratio(1, 2)? { mds_file(u)? } else { u.choose(&files)?.clone() };
        let end = file.iter().position(|&byte| byte == 0).unwrap_or_default();
        if u.ratio(1, 4)? {
            return mutated(file, end, u);
        }
        let shard = mutated(file[end + 1..].to_vec(), 40, u)?;
        let index = String::from_utf8_lossy(&file[..end]).into_owned();
        // The length that the index lists.
        let index = index.replace(
            &format!("\"bytes\":{}", file.len() - end - 1),
            &format!("\"bytes\":{}", shard.len()),
        );
        Ok([index.as_bytes(), b"\0", &shard].concat())
    })
}

/// Generates a shard of up to five samples with up to four columns of encodings, and its index.
#[cfg(feature = "mds")]
fn mds_file(u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let (mut names, mut encodings, mut sizes) = (vec![], vec![], vec![]);
    for number in 0..u.int_in_range(1..=4)? {
        let (encoding, size) = *u.choose(&[
            ("bytes", None),
            ("str", None),
            ("json", None),
            ("pil", None),
            ("ndarray", None),
            ("ndarray:int16", None),
            ("jpegarray", None),
            ("list[png]", None),
            ("str_int", None),
            ("int", Some(8)),
            ("float32", Some(4)),
            ("ndarray:uint8:2,3", Some(6)),
        ])?;
        names.push(format!("x{number}"));
        encodings.push(encoding);
        sizes.push(size);
    }
    let samples: u32 = u.int_in_range(1..=5)?;
    let (mut table, mut bodies) = (vec![samples, 4 * (samples + 2)], vec![]);
    for _ in 0..samples {
        let (mut head, mut values) = (vec![], vec![]);
        for (encoding, size) in encodings.iter().zip(&sizes) {
            let value: Vec<u8> = match (*encoding, *size) {
                (_, Some(size)) => (0..size).map(|_| u.arbitrary()).collect::<Result<_>>()?,
                ("str" | "json" | "str_int", _) => format!("{}", u.int_in_range(0..=99)?).into(),
                ("pil", _) => [&[1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0][..], b"L7"].concat(),
                ("ndarray", _) => vec![8, 1 << 2, 2, u.arbitrary()?, 0],
                ("ndarray:int16", _) => vec![1 << 2, 1, u.arbitrary()?, 0],
                ("jpegarray", _) => [&[1, 0, 0, 0, 3, 0, 0, 0][..], b"\xff\xd8\xff"].concat(),
                ("list[png]", _) => {
                    [&[0, 0, 0, 0, 1, 0, 0, 0, 8, 0, 0, 0][..], b"\x89PNG\r\n\x1a\n"].concat()
                }
                _ => u.arbitrary()?,
            };
            if size.is_none() {
                head.extend((value.len() as u32).to_le_bytes());
            }
            values.extend(value);
        }
        bodies.extend(head);
        bodies.extend(values);
        table.push(4 * (samples + 2) + bodies.len() as u32);
    }
    let mut shard: Vec<u8> = table.iter().flat_map(|word| word.to_le_bytes()).collect();
    shard.extend(bodies);
    let mut index = serde_json::json!({"version": 2, "shards": [{
        "format": "mds", "version": 2, "samples": samples, "compression": null,
        "column_names": names, "column_encodings": encodings, "column_sizes": sizes,
        "raw_data": {"basename": "shard.mds", "bytes": shard.len(), "hashes": {}}, "zip_data": null,
    }]});
    if u.arbitrary()? {
        index["fuseloop"] = serde_json::json!({
            "bytes": ["x0"],
            "classes": {"version": 1, "classes": [{"number": 3, "name": "cat"}]},
            "objects": {"version": 1, "fields": [{"as": "column", "dtype": "<i2", "name": "x1"}]},
        });
    }
    Ok([index.to_string().as_bytes(), b"\0", &shard].concat())
}

pub(super) fn fixed_length() -> InputGenerator {
    mutating(vec![], fixed_length_file, 16)
}

/// Generates an idx file of images, packed or not, or up to three records of CIFAR-10.
fn fixed_length_file(u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let kind = u.int_in_range(0..=2)?;
    if kind == 2 {
        let mut records = vec![];
        for _ in 0..u.int_in_range(1..=3)? {
            records.push(u.int_in_range(0..=11)?);
            records.extend((0..3072_u32).map(|at| (at % 251) as u8));
        }
        return Ok(records);
    }
    let sides: [u8; 3] = [u.int_in_range(0..=4)?, u.int_in_range(1..=9)?, u.int_in_range(1..=9)?];
    let mut file = vec![0, 0, 8, 3];
    sides.iter().for_each(|side| file.extend([0, 0, 0, *side]));
    let elements = sides.iter().map(|side| u32::from(*side)).product::<u32>();
    file.extend((0..elements).map(|at| at as u8));
    if kind == 1 {
        let mut packed = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
        std::io::Write::write_all(&mut packed, &file).unwrap();
        file = packed.finish().unwrap();
    }
    Ok(file)
}

pub(super) fn coco() -> InputGenerator {
    mutating(vec![], coco_file, 200)
}

/// Generates annotations of up to three images, with masks of all forms.
fn coco_file(u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let (images, categories) = (u.int_in_range(1..=3)?, u.int_in_range(1..=3)?);
    let mut objects = vec![];
    for id in 0..u.int_in_range(0..=6)? {
        let number = |u: &mut Unstructured<'_>| Ok(f64::from(u.int_in_range(-40..=120)?) / 4.0);
        let numbers = |count: usize, u: &mut Unstructured<'_>| -> Result<Vec<f64>> {
            (0..count).map(|_| number(u)).collect()
        };
        let mask = match u.int_in_range(0..=4)? {
            0 => "null".to_owned(),
            1 => r#"{"size": [7, 9], "counts": [5, 10, 48]}"#.to_owned(),
            2 => r#"{"counts": "5:6\\1`1", "size": [7, 9]}"#.to_owned(),
            _ => format!("[{:?}, {:?}]", numbers(8, u)?, numbers(6, u)?),
        };
        let (image, category) = (u.int_in_range(1..=images)?, u.int_in_range(1..=categories)?);
        let (bbox, keypoints) = (numbers(4, u)?, numbers(6, u)?);
        objects.push(format!(
            r#"{{"id": {id}, "image_id": {image}, "category_id": {category}, "bbox": {bbox:?}, "iscrowd": {},
            "segmentation": {mask}, "keypoints": {keypoints:?}}}"#,
            u.int_in_range(0..=1)?
        ));
    }
    let listed = |count: i32, key: &str| {
        let each = (1..=count).map(|id| format!(r#"{{"id": {id}, "{key}": "{id}.jpg"}}"#));
        each.collect::<Vec<_>>().join(", ")
    };
    let (images, categories) = (listed(images, "file_name"), listed(categories, "name"));
    let objects = objects.join(",\n");
    let text = format!(
        r#"{{"images": [{images}], "annotations": [{objects}], "categories": [{categories}]}}"#
    );
    Ok(text.into_bytes())
}

pub(super) fn voc() -> InputGenerator {
    mutating(vec![], voc_file, 60)
}

/// Generates annotations of one image in Pascal VOC's format, with elements of all kinds.
fn voc_file(u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let mut text = String::new();
    if u.ratio(1, 3)? {
        text += "<?xml version=\"1.0\"?><!DOCTYPE annotation [<!ENTITY a \"b\">]><!-- VOC -->\n";
    }
    text += "<annotation verified=\"yes\"><size><width>9</width><height>7</height></size>\n";
    for _ in 0..u.int_in_range(0..=5)? {
        let name = u.choose(&["dog", "a &amp; b", "<![CDATA[<x>]]>", "&#x1f436;"])?;
        let mut object = vec![format!("<name>{name}</name>")];
        if u.arbitrary()? {
            object.push(format!("<truncated>{}</truncated>", u.int_in_range(0..=1)?));
            object.push("<part><name>head</name><bndbox/></part>".to_owned());
        }
        let mut sides = vec![];
        for side in ["xmin", "ymin", "xmax", "ymax"] {
            let value = f64::from(u.int_in_range(-40..=120)?) / 4.0;
            sides.push(format!("<{side}>{value}</{side}>"));
        }
        let at = u.int_in_range(0..=object.len())?;
        object.insert(at, format!("<bndbox>{}</bndbox>", sides.concat()));
        let _ = writeln!(text, "<object>{}</object>", object.concat());
    }
    text += "</annotation>";
    Ok(text.into_bytes())
}

pub(super) fn yolo() -> InputGenerator {
    mutating(vec![], yolo_files, 60)
}

/// Generates the labels of an image in YOLO's format, and after a NUL the description of the dataset.
fn yolo_files(u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let points = *u.choose(&[0, 0, 2])?;
    let mut text = String::new();
    for _ in 0..u.int_in_range(0..=5)? {
        let count = match points {
            0 => *u.choose(&[4, 4, 6, 8])?,
            points => 4 + 3 * points,
        };
        let _ = write!(text, "{}", u.int_in_range(0..=1)?);
        for at in 0..count {
            let value = f64::from(u.int_in_range(0..=64)?) / 64.0;
            let _ = if points > 0 && at >= 4 && (at - 4) % 3 == 2 {
                write!(text, " {}", u.int_in_range(0..=2)?)
            } else {
                write!(text, " {value}")
            };
        }
        text.push('\n');
    }
    text.push('\0');
    if points > 0 {
        let _ = writeln!(text, "kpt_shape: [{points}, 3]");
    }
    text += *u.choose(&[
        "names: [cat, 'traffic light']\nnc: 2\n",
        "names:\n  0: cat\n  1: \"dog: small\"\n",
        "train: &a {x: [1, 2]}\nval: *a\nnames:\n- cat\n- dog # the second\n",
        "download: |\n  names: x\n",
    ])?;
    Ok(text.into_bytes())
}

pub(super) fn table() -> InputGenerator {
    mutating(vec![], table_file, 60)
}

/// Generates a table of up to six images, as text of one of the three kinds.
fn table_file(u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let kind = u.int_in_range(0..=2)?;
    let mut text = match kind {
        0 => "file_name,label,x\n".to_owned(),
        1 => "path\tlabel\tx\n".to_owned(),
        _ => String::new(),
    };
    for row in 0..u.int_in_range(1..=6)? {
        let (label, x) = (*u.choose(&["dog", "cat", "7"])?, u.arbitrary::<i32>()?);
        let _ = match kind {
            0 => writeln!(text, "\"a/{row}, b.png\",{label},{x}"),
            1 => writeln!(text, "a/{row}.jpg\t{label}\t{x}"),
            _ => {
                writeln!(text, "{{\"path\": \"{row}.jpg\", \"label\": \"{label}\", \"x\": [{x}]}}")
            }
        };
    }
    Ok(text.into_bytes())
}

/// Returns the JPEGs of other programs: in several scans, of unusual colours and samplings.
fn strange_jpegs() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/strangers/jpeg");
    let cases = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path().join("a"));
    let pictures = cases.filter_map(|folder| std::fs::read_dir(folder).ok()).flatten();
    let files = pictures.map(|picture| std::fs::read(picture.unwrap().path()).unwrap());
    let mut files: Vec<_> = files.filter(|file| file.starts_with(&[0xff, 0xd8])).collect();
    files.sort();
    assert!(files.len() > 10);
    files
}

/// Generates small JPEGs of all kinds, and the same files with restart markers and an index.
pub(super) fn jpeg() -> InputGenerator {
    let mut jpegs = goldens("jpeg", "jpg");
    jpegs.extend(strange_jpegs());
    let mut recutter = Recutter::new(Tile::Pixels(16), Limits::SMALL);
    let recut: Vec<_> = jpegs.iter().filter_map(|jpeg| recutter.recut(jpeg).ok()).collect();
    jpegs.extend(recut);
    spliced(jpegs, 700)
}

pub(super) fn bit_planes() -> InputGenerator {
    let mut codec = BitPlaneCodec::new(Limits::SMALL);
    let mut images = goldens("bit_planes", "fplanes");
    for jpeg in goldens("jpeg", "jpg") {
        let tiles = [Tile::Pixels(8), Tile::Pixels(16), Tile::Row].into_iter();
        images.extend(tiles.filter_map(|tile| codec.pack(&jpeg, tile).ok()));
    }
    spliced(images, 700)
}

pub(super) fn png() -> InputGenerator {
    spliced(goldens("png", "png"), 200)
}

#[cfg(feature = "webp")]
pub(super) fn webp() -> InputGenerator {
    spliced(goldens("webp", "webp"), 200)
}

pub(super) fn still() -> InputGenerator {
    let mut files = [goldens("bmp", "bmp"), goldens("gif", "gif")].concat();
    for ending in ["pbm", "pgm", "ppm", "pam"] {
        files.extend(goldens("pnm", ending));
    }
    #[cfg(feature = "jxl")]
    files.extend(goldens("jxl", "jxl"));
    #[cfg(feature = "heic")]
    files.extend(goldens("heic", "heic"));
    spliced(files, 200)
}

#[cfg(feature = "audio")]
pub(super) fn audio() -> InputGenerator {
    let kinds = ["wav", "flac", "mp3", "ogg"];
    spliced(kinds.map(|kind| goldens("audio", kind)).concat(), 200)
}

/// The footer is at the end of a file, and the headers of pages are everywhere.
#[cfg(feature = "parquet")]
pub(super) fn parquet() -> InputGenerator {
    let files = goldens("parquet", "parquet");
    Box::new(move |u| {
        let file = u.choose(&files)?.clone();
        match u.ratio(1, 2)? {
            true => mutated(file, usize::MAX, u),
            false => {
                let mut file = file;
                let footer = file.len() - file.len() / 5;
                for _ in 0..u.int_in_range(1..=3)? {
                    let at = u.int_in_range(footer..=file.len() - 1)?;
                    file[at] = u.arbitrary()?;
                }
                Ok(file)
            }
        }
    })
}

/// Generates a header `Link` and a page of up to four files.
pub(super) fn hub() -> InputGenerator {
    mutating(vec![], hub_page, 100)
}

fn hub_page(u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let links =
        ["", "<?cursor=1>; rel=\"next\"", "<https://a.example/x>; rel=\"prev\", </y>; rel=next"];
    let mut text = format!("{}\0[", u.choose(&links)?);
    for number in 0..u.int_in_range(0..=4)? {
        let comma = if number == 0 { "" } else { "," };
        let of_type = u.choose(&["file", "directory"])?;
        let path =
            u.choose(&["README.md", "data/train-0.parquet", "a/\\u00e4.tar", "x", "a/..b"])?;
        text += &format!(
            "{comma}{{\"type\":\"{of_type}\",\"oid\":\"a\",\"size\":1,\"path\":\"{path}\"}}"
        );
    }
    Ok(text.into_bytes().into_iter().chain(*b"]").collect())
}

/// The pieces of three rows, with changed bytes.
#[cfg(feature = "parquet")]
pub(super) fn arrow() -> InputGenerator {
    let words = |words: &[i32]| -> Vec<u8> { words.iter().flat_map(|n| n.to_le_bytes()).collect() };
    let longs = |longs: &[i64]| -> Vec<u8> { longs.iter().flat_map(|n| n.to_le_bytes()).collect() };
    // The buffers of each array, and the rows of a child.
    let arrays: [(Option<u8>, Vec<Vec<u8>>); 11] = [
        (None, vec![vec![0b101]]),
        (Some(3), vec![vec![], words(&[0, 4, 4, 7]), b"\xff\xd8\xff\xe0GIF".to_vec()]),
        (Some(3), vec![vec![0b011], words(&[0, 1, 2, 2]), b"ab".to_vec()]),
        (None, vec![vec![0b110], longs(&[0, 1, 2])]),
        (None, vec![vec![], words(&[0, 2, 2, 3])]),
        (Some(3), vec![vec![0b111]]),
        (Some(3), vec![vec![]]),
        (Some(12), vec![vec![], longs(&[1; 12])]),
        (Some(3), vec![vec![], words(&[0, 1, 2])]),
        (None, vec![vec![], words(&[0, 1, 1, 2])]),
        (Some(2), vec![vec![], words(&[1, 97, 0, 0, 13, 0, 0, 1]), b"a text of 13..".to_vec()]),
    ];
    let mut bytes = vec![3];
    let text = (None, vec![vec![], longs(&[0, 0, 1, 2]), b"ab".to_vec()]);
    for (rows, buffers) in arrays.into_iter().chain([text]) {
        bytes.push(0);
        bytes.extend(rows);
        for buffer in buffers {
            bytes.push(buffer.len() as u8);
            bytes.extend(buffer);
        }
    }
    Box::new(move |u| mutated(bytes.clone(), usize::MAX, u))
}

#[cfg(feature = "tiff")]
pub(super) fn tiff() -> InputGenerator {
    spliced(goldens("tiff", "tif"), 400)
}

/// Returns one of `files` with up to three mutations, or the beginning of one joined with the end of
/// another.
fn spliced(files: Vec<Vec<u8>>, head: usize) -> InputGenerator {
    Box::new(move |u| {
        let (first, second) = (u.choose(&files)?, u.choose(&files)?);
        if u.ratio(7, 8)? {
            return mutated(first.clone(), head, u);
        }
        let (end, from) = (u.choose_index(first.len())?, u.choose_index(second.len())?);
        Ok([&first[..end], &second[from..]].concat())
    })
}

pub(super) fn spec() -> InputGenerator {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/pipelines");
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files: Vec<_> = paths.map(|path| std::fs::read(path).unwrap()).collect();
    mutating(files, spec_file, 400)
}

/// Generates settings, and up to six ops of any kind with the values that `fuseloop ops` shows.
fn spec_file(u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let mut text = String::new();
    for setting in ["batch_size = 8", "order = 'random'", "seed = 42", "drop_last = false"] {
        if u.ratio(1, 3)? {
            let _ = writeln!(text, "{setting}");
        }
    }
    text.push_str("[fields]\nimage = [\n");
    for _ in 0..u.int_in_range(1..=6)? {
        let op = u.choose(registry())?;
        let _ = write!(text, "    {{ op = '{}'", op.name);
        for param in op.params {
            let preset = match param.need {
                ParamDefault::Required(preset) => preset,
                ParamDefault::Default(preset) if u.ratio(1, 3)? => preset,
                ParamDefault::Default(_) | ParamDefault::Optional => continue,
            };
            let value = preset.value().to_string();
            // Long lists are shown abbreviated, which is not valid TOML.
            if !value.contains("..") {
                let _ = write!(text, ", {} = {value}", param.name);
            }
        }
        text.push_str(" },\n");
    }
    text.push_str("]\n");
    Ok(text.into_bytes())
}

pub(super) fn transform() -> InputGenerator {
    mutating(vec![], transform_call, 16)
}

/// Generates an image of up to 40 x 40 pixels with boxes, mostly of three channels and bytes.
fn transform_call(u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let mut head: [u8; 16] = u.arbitrary()?;
    let [height, width] = [u.int_in_range(1..=39)?, u.int_in_range(1..=39)?];
    let channels = *u.choose(&[3, 3, 3, 1, 2, 4, 5])?;
    let gap = u.int_in_range(0..=99)?;
    let boxes = u.int_in_range(0..=3)?;
    head[2] = *u.choose(&[0, 0, 0, 1, 2, 3, 4, 5])?;
    head[3] = 255;
    for (at, number) in [(4, height), (6, width), (8, channels), (10, gap), (12, 16 * boxes)] {
        (head[at], head[at + 1]) = (number, 0);
    }
    let mut bytes = head.to_vec();
    for _ in 0..boxes {
        let [left, top] = [width, height].map(f32::from).map(|side| side / 4.0);
        bytes.extend([left, top, left + 3.0, top + 2.5].map(f32::to_le_bytes).concat());
    }
    bytes.extend(u.arbitrary::<[u8; 24]>()?);
    if u.ratio(1, 4)? {
        bytes.extend(b"[[[1,2,9,2,9,8]]]");
    }
    Ok(bytes)
}

pub(super) fn cursor() -> InputGenerator {
    mutating(vec![], cursor_file, 300)
}

/// Generates a cursor of any position, near or far.
fn cursor_file(u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let [dataset, order, plan]: [u64; 3] = u.arbitrary()?;
    let position = if u.ratio(1, 2)? { u.int_in_range(0..=12)? } else { u.arbitrary::<u64>()? };
    let (seed, epoch): (u64, u32) = u.arbitrary()?;
    let text = format!(
        "{{\"fuseloop\":1,\"dataset\":\"{dataset:016x}\",\"order\":\"{order:016x}\",\"plan\":\"{plan:016x}\",\
         \"seed\":{seed},\"epoch\":{epoch},\"position\":{position}}}"
    );
    Ok(text.into_bytes())
}
