//! Targets that are looked at: where a sheet draws them, and what is said about the objects of a sample. The scenes are
//! smaller than a cell, so that a pixel of a sheet is one of the image.

use crate::preview::{CELL, cell};
use crate::targets::{Scene, Scenes, floats, targets, value};
use fuseloop::internals::assert_says;
use fuseloop::internals::preview::Canvas;
use fuseloop::loader::{BoundingBoxes, KeyPoints, Targets};
use fuseloop::preview::{PreviewOptions, Sheet};
use fuseloop::source::Stream;
use fuseloop::{ErrorKind, Loader, LoaderBuilder, ops::*};
use serde_json::Value;
use std::sync::Arc;

/// The side of the images after the ops: no scene is larger, so that none is cut.
const SIDE: u32 = 70;

type Pixels = Vec<[u8; 3]>;

/// A mirror, and a border around the scene.
fn flipped() -> Ops {
    ops![RandomHorizontalFlip::new(1.0).unwrap(), CenterCrop::new(SIDE).unwrap()]
}

fn loader(count: u64, targets: Targets, list: Ops) -> LoaderBuilder {
    Scenes::new(count).loader().targets("image", targets).pipeline("image", list)
}

/// Returns the sheet of one sample.
fn sheet(loader: &LoaderBuilder, sample: u64, each_op: bool) -> Sheet {
    let loader = loader.clone().indices([sample]).build().unwrap();
    loader.preview(&PreviewOptions { samples: 1, each_op, ..PreviewOptions::default() }).unwrap()
}

/// Returns the pixels of an image of a sheet.
fn picture(sheet: &Sheet, column: u32, Size { height, width }: Size) -> Pixels {
    let (top, left) = ((CELL - height) / 2, (CELL - width) / 2);
    let pixels = cell(sheet, column);
    let row = |y: u32| {
        let at = 3 * ((top + y) * CELL + left) as usize;
        pixels[at..at + 3 * width as usize].as_chunks().0.to_vec()
    };
    (0..height).flat_map(row).collect()
}

fn is_gray([r, g, b]: [u8; 3]) -> bool {
    r == g && g == b
}

/// Returns the left, top, right and bottom edge of the pixels of a level.
fn painted(plain: &Pixels, width: u32, level: u8) -> Option<[u32; 4]> {
    let at = plain.iter().zip(0..).filter(|(pixel, _)| pixel[0] == level);
    let at: Vec<[u32; 2]> = at.map(|(_, at)| [at % width, at / width]).collect();
    let ends = |axis: usize| {
        let places = || at.iter().map(|at| at[axis]);
        Some([places().min()?, places().max()? + 1])
    };
    let ([x1, x2], [y1, y2]) = (ends(0)?, ends(1)?);
    Some([x1, y1, x2, y2])
}

/// The outline of a box is two pixels at the edge of the pixels of its object, before the ops and after each of them,
/// and no other pixel changes.
#[test]
fn boxes_are_drawn_where_the_pixels_of_their_objects_are() {
    let boxes = Targets::new().boxes("bbox", BoxFormat::Xyxy);
    let (plain, drawn) = (loader(20, Targets::new(), flipped()), loader(20, boxes, flipped()));
    let (plain, drawn) = (plain.without("mask"), drawn.without("mask"));
    let mut count = 0;
    for (sample, Scene { size, boxes, .. }) in (0..).zip(Scenes::new(20).0) {
        let [plain, drawn] = [&plain, &drawn].map(|loader| sheet(loader, sample, true));
        for (column, size) in [(0, size), (1, size), (2, Size::new(SIDE, SIDE))] {
            let [plain, drawn] = [&plain, &drawn].map(|sheet| picture(sheet, column, size));
            let mut outline = vec![false; plain.len()];
            for index in 0..boxes.len() {
                let [x1, y1, x2, y2] = painted(&plain, size.width, value(index)).unwrap();
                for (y, x) in (y1..y2).flat_map(|y| (x1..x2).map(move |x| (y, x))) {
                    let is_edge = x < x1 + 2 || x + 2 >= x2 || y < y1 + 2 || y + 2 >= y2;
                    outline[(y * size.width + x) as usize] = is_edge;
                }
                count += 1;
            }
            for ((plain, drawn), is_outline) in plain.iter().zip(&drawn).zip(outline) {
                assert_eq!(is_outline, !is_gray(*drawn), "sample {sample}, column {column}");
                assert!(is_outline || plain == drawn, "sample {sample}, column {column}");
            }
        }
    }
    assert!(count > 60);
}

/// The name of the class stands above the box, in its colour, or the number of a class without a name.
#[test]
fn boxes_have_the_names_of_their_classes() {
    let declared = Targets::new().boxes("bbox", BoxFormat::Xyxy).column("label", DType::I64);
    let loader = loader(40, declared, flipped()).without("mask");
    let mut seen = std::collections::BTreeMap::new();
    for (sample, Scene { size, boxes, .. }) in (0..).zip(Scenes::new(40).0) {
        // The label of the last box is over all others.
        let Some((class, [left, top, right, bottom])) = boxes.iter().enumerate().next_back() else {
            continue;
        };
        let text = ["cat", "dog", "a very long name of a class", "3"][class];
        let width = 6 * text.chars().count().min(20) as u32 + 1;
        if *top < 10 || left + width > size.width {
            continue;
        }
        let picture = picture(&sheet(&loader, sample, false), 0, size);
        // The label of another box may cover this one, if it is small.
        let colour = picture[((top - 10) * size.width + left) as usize];
        let corners =
            [[*left, *top], [right - 1, *top], [*left, bottom - 1], [right - 1, bottom - 1]];
        let mut corners = corners.map(|[x, y]| picture[(y * size.width + x) as usize]).into_iter();
        if corners.any(|corner| corner == colour) && !is_gray(colour) {
            seen.insert(text, colour);
        }
        let found: Vec<u8> = (top - 10..*top)
            .flat_map(|y| &picture[(y * size.width + left) as usize..][..width as usize])
            .flatten()
            .copied()
            .collect();
        let is_label = |ink: [u8; 3]| {
            let mut label = Canvas::new(Size::new(10, width), colour).unwrap();
            label.text(1, 1, text, ink);
            label.rgb() == found
        };
        assert!(is_label([0; 3]) != is_label([255; 3]), "{text}, sample {sample}");
    }
    assert!(seen.contains_key("dog") && seen["dog"] != seen["3"], "{seen:?}");
}

/// Masks change the colour of their own pixels, and of no other ones.
#[test]
fn masks_tint_only_what_is_inside() {
    let of_objects = Targets::new().instance_masks("segmentation").column("label", DType::I64);
    let of_image = Targets::new().mask("mask", 0);
    for (declared, is_inside) in [
        (of_objects, (|level| level > 7) as fn(u8) -> bool),
        // The ground of a scene is of class 7, and the border that is padded is outside.
        (of_image.clone(), |level| level > 0),
    ] {
        let has_mask = declared == of_image;
        let drawn = loader(20, declared, flipped());
        let drawn = if has_mask { drawn } else { drawn.without("mask") };
        let plain = loader(20, Targets::new(), flipped()).without("mask");
        let mut counts = [0; 2];
        for (sample, scene) in (0..).zip(Scenes::new(20).0) {
            let [plain, drawn] = [&plain, &drawn].map(|loader| sheet(loader, sample, false));
            for (column, size) in [(0, scene.size), (1, Size::new(SIDE, SIDE))] {
                let [plain, drawn] = [&plain, &drawn].map(|sheet| picture(sheet, column, size));
                for (plain, drawn) in plain.iter().zip(drawn) {
                    let tinted = is_inside(plain[0]);
                    counts[usize::from(tinted)] += 1;
                    assert_eq!(tinted, !is_gray(drawn), "{plain:?} became {drawn:?}");
                    let is_half =
                        |(old, new): (&u8, u8)| (old / 2..=old.midpoint(255)).contains(&new);
                    assert!(if tinted {
                        plain.iter().zip(drawn).all(is_half)
                    } else {
                        *plain == drawn
                    });
                }
            }
        }
        assert!(counts.iter().all(|count| *count > 1000), "{counts:?}");
    }
}

fn numbers(values: &Value) -> Vec<f32> {
    match values {
        Value::Array(list) => list.iter().flat_map(numbers).collect(),
        number => vec![number.as_f64().unwrap() as f32],
    }
}

/// The data about a sample has the bits of its batch, the stored bits, and the op that removed an object.
#[test]
fn what_is_said_of_objects_has_the_bits_of_the_batch() {
    let boxes = BoundingBoxes::new(BoxFormat::Xyxy).to(BoxFormat::Cxcywh).normalized();
    let declared = Targets::new()
        .boxes("bbox", boxes)
        .keypoints("points", KeyPoints::new(1))
        .column("label", DType::I64)
        .mask("mask", 9);
    let list = ops![
        RandomIoUCrop::new(),
        RandomAffine::new(20.0).unwrap().translate(0.1, 0.2).unwrap(),
        Resize::new((30, 40)).unwrap(),
        SanitizeBoundingBoxes::new().min_size(6.0).unwrap(),
    ];
    let loader = loader(60, declared, list).build().unwrap();
    let mut inspector = loader.inspect("image", 1).unwrap().unwrap();
    let mut removed = std::collections::BTreeMap::new();
    for (sample, scene) in (0..).zip(Scenes::new(60).0) {
        let inspected = inspector.sample(sample).unwrap();
        let found = inspector.targets(&inspected).unwrap().unwrap();
        let json: Value = serde_json::from_str(&found.to_json().to_string()).unwrap();
        let batch = loader.get(&[sample], 1).unwrap();
        let [before, after] = ["before", "after"].map(|side| &json[side]);
        assert_eq!(before["size"], serde_json::json!([scene.size.height, scene.size.width]));
        assert_eq!(after["size"], serde_json::json!([30, 40]));
        assert_eq!(after["normalized"], true);
        let objects = |side: &Value| side["objects"].as_array().unwrap().clone();
        let all = |objects: &[Value], key: &str| -> Vec<u32> {
            objects.iter().flat_map(|object| numbers(&object[key])).map(f32::to_bits).collect()
        };
        let stored = objects(before);
        let edges = scene.boxes.iter().flatten().map(|edge| (*edge as f32).to_bits());
        assert_eq!(all(&stored, "box"), edges.collect::<Vec<_>>());
        for (row, object) in stored.iter().enumerate() {
            assert_eq!((&object["format"], &object["class"]), (&"xyxy".into(), &row.into()));
            assert_eq!(object["name"].as_str() == Some("dog"), row == 1);
        }
        let after = objects(after);
        for (key, name) in [("box", "bbox"), ("keypoints", "points")] {
            let rows = batch.ragged::<f32>(name).unwrap();
            let bits: Vec<u32> = rows.values().iter().map(|value| value.to_bits()).collect();
            assert_eq!(all(&after, key), bits, "{key} of sample {sample}");
        }
        let rows: Vec<i64> =
            after.iter().map(|object| object["before"].as_i64().unwrap()).collect();
        assert_eq!(rows, batch.ragged::<i64>("label").unwrap().values());
        let lines = found.describe();
        assert_eq!(
            lines[0],
            format!("objects: {} stored, {} after the ops", stored.len(), rows.len())
        );
        for (row, (object, line)) in stored.iter().zip(&lines[1..]).enumerate() {
            let op = object["removed_by"].as_str();
            assert_eq!(op.is_none(), rows.contains(&(row as i64)), "object {row}: {object}");
            if let Some(op) = op {
                *removed.entry(op.to_owned()).or_insert(0) += 1;
                assert!(
                    line.ends_with(&format!("1 of 1 keypoints visible, removed by {op}")),
                    "{line}"
                );
            } else {
                assert!(line.contains(" -> cxcywh ["), "{line}");
            }
        }
        let (mask, _) = found.steps().last().unwrap().mask.clone().unwrap();
        assert_eq!(&*mask, batch.bytes("mask").unwrap(), "the mask that is drawn");
    }
    let ops: Vec<&str> = removed.keys().map(|op| &**op).collect();
    assert_eq!(ops, ["RandomIoUCrop", "SanitizeBoundingBoxes"]);
}

/// The class is that of the first column with a name for it, or else the first column of integers.
#[test]
fn the_column_of_classes_is_known_by_its_name() {
    let class = |declared: Targets| {
        let loader = loader(9, declared, flipped()).without("mask").build().unwrap();
        let mut inspector = loader.inspect("image", 0).unwrap().unwrap();
        let with_objects = Scenes::new(9).0.iter().position(|scene| scene.boxes.len() > 1);
        let inspected = inspector.sample(with_objects.unwrap() as u64).unwrap();
        inspector.targets(&inspected).unwrap().unwrap().to_json()["before"]["objects"][1]["class"]
            .clone()
    };
    let new = Targets::new;
    assert_eq!(class(new().column("label", DType::I64)), 1);
    // Eight bytes as a number that is no whole one are no class, whatever the column is called.
    assert_eq!(class(new().column("label", DType::F64)), Value::Null);
    assert_eq!(class(new().boxes("bbox", BoxFormat::Xyxy)), Value::Null);
}

/// An output without targets has the sheet that it had, also beside one that has some.
#[test]
fn an_output_without_targets_has_the_same_bytes() {
    let without = Scenes::new(6).loader().pipeline("image", flipped()).without("mask");
    let with = loader(6, targets(), flipped());
    let of_view = |loader: LoaderBuilder| {
        let loader = loader.view("other", "image", ops![CenterCrop::new(20).unwrap()]);
        let output = Some("other".to_owned());
        let options = PreviewOptions { output, epochs: 2, ..PreviewOptions::default() };
        loader.build().unwrap().preview(&options).unwrap().rgb().to_vec()
    };
    assert!(of_view(without.clone()) == of_view(with.clone()));
    assert!(sheet(&without, 0, false).rgb() != sheet(&with, 0, false).rgb());
}

/// A stream that is read in sequence has the sheet of its samples, with their targets.
#[test]
fn a_stream_shows_its_targets() {
    let stream = Stream::of(Arc::new(Scenes::new(6).source())).filter(|_| true);
    let of = |loader: LoaderBuilder| {
        let loader = loader.seed(3).targets("image", targets()).pipeline("image", flipped());
        let unbounded = ["bbox", "label", "points", "segmentation"];
        let loader = unbounded.into_iter().fold(loader, |loader, name| loader.without(name));
        let options = PreviewOptions { samples: 6, epochs: 2, ..PreviewOptions::default() };
        loader.build().unwrap().preview(&options).unwrap().rgb().to_vec()
    };
    let streamed = of(Loader::from_stream(stream));
    assert!(streamed == of(Scenes::new(6).loader()));
}

/// Boxes far outside and empty ones change no pixel outside the images; a number that is none is a damaged sample.
#[test]
fn hostile_boxes_stay_in_their_image() {
    let with_boxes = |boxes: Vec<[f32; 4]>| {
        let mut scenes = Scenes::new(2);
        scenes.0[1].bbox = Some(floats(boxes.into_iter().flatten()));
        let loader = scenes.loader().without("mask").pipeline("image", flipped());
        let size = Scenes::new(2).0[1].size;
        (
            loader.clone().targets("image", Targets::new().boxes("bbox", BoxFormat::Xyxy)),
            loader,
            size,
        )
    };
    let far = 1_048_576.0;
    let (drawn, plain, size) = with_boxes(vec![
        [-far, -far, far, far],
        [far - 1.0, 3.0, far, 9.0],
        [4.0, 4.0, 4.0, 4.0],
        [-far, 5.0, 3.5, 5.0],
    ]);
    let [plain, drawn] = [&plain, &drawn].map(|loader| sheet(loader, 1, false));
    for (column, size) in [(0, size), (1, Size::new(SIDE, SIDE))] {
        let inside = |at: u32| {
            let (y, x) = (at / CELL, at % CELL);
            let is_within = |at: u32, side: u32| at.wrapping_sub((CELL - side) / 2) < side;
            is_within(y, size.height) && is_within(x, size.width)
        };
        let pixels = [&plain, &drawn].map(|sheet| cell(sheet, column));
        let pairs = pixels[0].chunks(3).zip(pixels[1].chunks(3)).zip(0..);
        let changed: Vec<u32> = pairs.filter(|((a, b), _)| a != b).map(|(_, at)| at).collect();
        assert!(!changed.is_empty() && changed.iter().all(|at| inside(*at)), "column {column}");
    }
    let (drawn, ..) = with_boxes(vec![[1.0, f32::NAN, 3.0, 4.0]]);
    let loader = drawn.build().unwrap();
    assert_eq!(loader.preview(&PreviewOptions::default()).unwrap().damaged(), [1]);
    let (drawn, ..) = with_boxes(vec![[1.0, f32::NAN, 3.0, 4.0]]);
    let loader = drawn.indices([1]).build().unwrap();
    let error = loader.preview(&PreviewOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged);
    assert_says(error, ["sample 1", "object 0 has the coordinate NaN"]);
}
