//! The pictures of all ops, and the pages on which they stand, are made from the registry.
//!
//! | made                     | contents                                                         |
//! |--------------------------|------------------------------------------------------------------|
//! | `docs/ops/NAME.jpg`      | an input, and what the op makes of it in four epochs              |
//! | `ops/pictures/NAME.md`   | the same as a data URI, which the page of the op in rustdoc shows |
//! | `docs/gallery.md`        | all pictures, each with the line of a pipeline file that made it |
//! | `docs/demo.jpg`          | the contact sheet of `fuseloop demo`, scaled down                 |
//!
//! `FUSELOOP_WRITE_DOCS=1 cargo test -p fuseloop-cli --test cli docs::` writes them.

#[path = "../../../../src/preview/font.rs"]
mod font;
#[path = "../../../src/demo/pictures.rs"]
#[allow(dead_code, reason = "the demo draws pictures of its own sizes")]
pub(super) mod pictures;

use super::{BEGIN, assert_written, is_writing};
use crate::command::stdout_of;
use font::LETTER;
use fuseloop::ops::internals::registry::{LABELS, MIXING, OpInfo, TARGETS, VALUES, registry};
use fuseloop::ops::internals::{ImageView, area};
use fuseloop::ops::{DType, Size};
use fuseloop::source::{FieldKind, FieldSpec};
use fuseloop::write::{FieldValue, ImageInput, ImageOptions, WriteMode, WriteOptions, write_iter};
use fuseloop::{Batch, Loader, Spec};
use jpeg_encoder::{ColorType, Encoder};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// The side of an input image, and of a panel.
const SIDE: u32 = 72;
/// The gap between two panels.
const GAP: u32 = 4;
/// The number of epochs shown.
const DRAWS: u32 = 4;
/// The drawn picture of each class that is in the dataset, and the one that is shown.
const NUMBERS: [u32; 4] = [3, 7, 2, 5];
const SHOWN: usize = 1;
const BACKGROUND: u8 = 255;
/// The width of the demo's sheet in the README.
const SHEET_WIDTH: u32 = 880;
/// Limits on the sizes of the files in bytes.
const MOST_OF_ONE: usize = 15_000;
const MOST_OF_ALL: usize = 900_000;

/// The parameters of ops whose defaults or examples show little in a small picture.
const PARAMETERS: &[(&str, &str)] = &[
    ("RandomResizedCrop", "size = 72"),
    ("Resize", "size = 36"),
    ("ResizeToBucket", "sizes = [[72, 72], [48, 84], [84, 48]]"),
    ("CenterCrop", "size = 48"),
    ("RandomCrop", "size = 48"),
    ("Crop", "size = 48, top = 12, left = 20"),
    ("RandomSizedCrop", "size = 72, min_max_height = [20, 60]"),
    ("PadIfNeeded", "size = [72, 96], position = \"random\", padding_mode = \"edge\""),
    ("Pad", "padding = 9, padding_mode = \"reflect\""),
    ("RandomZoomOut", "side_range = [1.0, 3.0], p = 1.0"),
    ("RandomResize", "min_size = 30, max_size = 72"),
    ("RandomShortestSize", "min_size = [24, 48, 72]"),
    ("ScaleJitter", "target_size = 72, scale_range = [0.3, 1.5]"),
    ("FixedSizeCrop", "size = [48, 84]"),
    ("Letterbox", "size = [60, 84]"),
    ("ConvertBoundingBoxFormat", "format = \"xyxy\""),
    ("RandomTranslate", "padding = 18"),
    ("RandomAffine", "degrees = 30, translate = [0.2, 0.2], scale = [0.7, 1.2], shear = 20"),
    ("RandomPerspective", "p = 1.0"),
    ("Perspective", "scale = [0.1, 0.2], p = 1.0"),
    ("RandomGridShuffle", "p = 1.0"),
    ("ElasticTransform", "alpha = [300.0, 300.0], sigma = [6.0, 6.0]"),
    ("GridDistortion", "distort_limit = 0.8, p = 1.0"),
    ("OpticalDistortion", "distort_limit = [-0.9, 1.5], p = 1.0"),
    ("RandomRotation", "degrees = 45, interpolation = \"bilinear\""),
    ("ColorJitter", "brightness = 0.4, contrast = 0.4, saturation = 0.4, hue = 0.1"),
    (
        "ColorMatrix",
        "rows = [0.393, 0.769, 0.189, 0, 0.349, 0.686, 0.168, 0, 0.272, 0.534, 0.131, 0]",
    ),
    ("Gamma", "gamma = 0.5"),
    ("Lighting", "alpha_std = 0.5"),
    ("RandomRotate90", "p = 1.0"),
    ("RandomBrightness", "magnitude = 0.6, p = 1.0"),
    ("RandomContrast", "magnitude = 0.8, p = 1.0"),
    ("RandomGamma", "gamma = [0.4, 2.5], p = 1.0"),
    ("RandomGrayscale", "p = 0.7"),
    ("RandomHue", "hue = 0.5, p = 1.0"),
    (
        "HueSaturationValue",
        "hue_shift_limit = 60, sat_shift_limit = 100, val_shift_limit = 60, p = 1.0",
    ),
    ("RandomHSV", "hgain = 0.3"),
    ("RandomBrightnessContrast", "brightness_limit = 0.4, contrast_limit = 0.5, p = 1.0"),
    ("RGBShift", "r_shift_limit = 80, g_shift_limit = 80, b_shift_limit = 80, p = 1.0"),
    ("RandomToneCurve", "scale = 0.5, p = 1.0"),
    ("CLAHE", "clip_limit = 8, tile_grid_size = 3, p = 1.0"),
    ("RandomPhotometricDistort", "p = 1.0"),
    ("RandomPosterize", "bits = 2"),
    ("RandomSaturation", "magnitude = 1.0, p = 1.0"),
    ("RandomSolarize", "threshold = 128"),
    ("SolarizeAdd", "add = 110"),
    ("GaussianBlur", "kernel_size = 9, sigma = [0.1, 4.0]"),
    ("BoxBlur", "kernel_size = 7"),
    ("MotionBlur", "blur_limit = [7, 15], p = 1.0"),
    ("MedianBlur", "blur_limit = [3, 11], p = 1.0"),
    ("Sharpen", "alpha = [0.3, 1.0], p = 1.0"),
    ("Emboss", "alpha = [0.5, 1.0], strength = [0.5, 2.0], p = 1.0"),
    ("Downscale", "scale_range = [0.1, 0.5], p = 1.0"),
    ("JPEG", "quality = [3, 30]"),
    ("RandomAdjustSharpness", "sharpness_factor = 6.0"),
    ("Cutout", "crop_size = 28"),
    ("CoarseDropout", "num_holes_range = [2, 8], p = 1.0"),
    ("RandomErasing", "p = 1.0"),
    ("GridMask", "period = [18, 36], p = 1.0"),
    ("ChannelDropout", "channel_drop_range = [1, 2], p = 1.0"),
    ("PixelDropout", "dropout_prob = 0.2, p = 1.0"),
    (
        "MultiplicativeNoise",
        "multiplier = [0.5, 1.5], per_channel = true, elementwise = true, p = 1.0",
    ),
    ("TimeMasking", "time_mask_param = 40"),
    ("Gain", "p = 1.0"),
    ("PolarityInversion", "p = 1.0"),
    ("AddGaussianSNR", "p = 1.0"),
    ("FixedPoints", "num = 72"),
    ("RandomJitter", "translate = 0.25"),
    ("ScaleIntensityRange", "a_min = 50, a_max = 200, clip = true"),
    ("Clip", "low = 80, high = 160"),
    (
        "RandomApply",
        "p = 0.5, ops = [{ op = \"GaussianBlur\", kernel_size = 9, sigma = [3.0, 3.0] }]",
    ),
    (
        "RandomChoice",
        "ops = [{ op = \"RandomInvert\", p = 1.0 }, { op = \"Cutout\", crop_size = 28 }, { op = \"BoxBlur\", kernel_size = 7 }]",
    ),
    (
        "RandomOrder",
        "ops = [{ op = \"Cutout\", crop_size = 28 }, { op = \"BoxBlur\", kernel_size = 9 }]",
    ),
    ("MixUp", "alpha = 1.0"),
    ("CutMix", "alpha = 1.0"),
    ("OneHot", "classes = 10"),
    ("ReplaceLabel", "indices = [1], new_label = 7"),
];

/// What stands before and after an op in its list.
fn around(name: &str) -> [&'static str; 2] {
    match name {
        "ToChannelsLast" => ["\"ToChannelsFirst\", ", ""],
        "View" => ["{ op = \"Convert\", to = \"f16\" }, ", ""],
        "Gain" | "PolarityInversion" | "AddGaussianSNR" | "ToMono" => {
            ["{ op = \"ScaleIntensityRange\", a_min = 0, a_max = 255, b_min = -1 }, ", ""]
        }
        "RandomJitter" => ["{ op = \"Convert\", to = \"f32\" }, ", ""],
        "LabelSmoothing" => ["{ op = \"OneHot\", classes = 4 }, ", ""],
        // The sizes of its images differ.
        "RandomZoomOut" | "RandomIoUCrop" | "RandomResize" | "RandomShortestSize"
        | "ScaleJitter" | "ResizeToBucket" => ["", ", { op = \"Resize\", size = [72, 72] }"],
        _ => ["", ""],
    }
}

/// An op as a pipeline file writes it.
fn entry(name: &str, examples: &BTreeMap<String, String>) -> String {
    match PARAMETERS.iter().find(|(op, _)| *op == name) {
        Some((_, params)) => format!("{{ op = \"{name}\", {params} }}"),
        None if name == "Poison" => poison(),
        None => examples[name].clone(),
    }
}

/// A trigger: a square in a corner.
fn poison() -> String {
    let in_square = |i: u32| i / SIDE >= SIDE - 18 && i % SIDE >= SIDE - 18;
    let (mut mask, mut alpha) = (vec![], vec![]);
    for pixel in 0..SIDE * SIDE {
        mask.push("255, 0, 255");
        alpha.push(if in_square(pixel) { "0.8" } else { "0" });
    }
    let [mask, alpha] = [mask, alpha].map(|list| list.join(", "));
    format!(
        "{{ op = \"Poison\", size = {SIDE}, mask = [{mask}], alpha = [{alpha}], indices = [{SHOWN}] }}"
    )
}

/// The same with long lists cut short.
fn shortened(entry: &str) -> String {
    entry.split_inclusive(']').fold(String::new(), |mut text, piece| {
        match piece.rsplit_once('[').filter(|(_, list)| list.len() > 200) {
            Some((before, list)) => {
                let first: Vec<&str> = list.split(", ").take(3).collect();
                let _ = write!(text, "{before}[{}, ...]", first.join(", "));
            }
            None => text += piece,
        }
        text
    })
}

/// Each op's example, by `fuseloop ops --json`.
fn examples() -> BTreeMap<String, String> {
    let listed = stdout_of(Path::new("."), &["ops", "--json"]);
    let listed: Vec<Value> = serde_json::from_str(&listed).unwrap();
    let text = |op: &Value, key: &str| op[key].as_str().unwrap().to_owned();
    listed.iter().map(|op| (text(op, "name"), text(op, "example"))).collect()
}

/// The boxes of each picture, as edges: one reaches beyond it, and one is smaller than a pixel.
const BOXES: [[f32; 4]; 4] = [
    [9.0, 12.0, 41.0, 46.0],
    [32.0, 30.0, 66.0, 68.0],
    [-8.0, 50.0, 14.0, 80.0],
    [58.0, 6.0, 58.5, 20.0],
];

/// The masks of the objects, as COCO's files have them: each fills its box.
fn masks() -> Value {
    BOXES.iter().map(|[x1, y1, x2, y2]| json!([[x1, y1, x2, y1, x2, y2, x1, y2]])).collect()
}

/// A keypoint of the object in each box.
const POINTS: [[f32; 2]; 4] = [[25.0, 29.0], [49.0, 49.0], [-6.0, 60.0], [58.0, 13.0]];

/// Writes one picture of each class, raw; a sample's label is its number.
fn dataset(path: &Path) {
    let field = |name: &str, kind| FieldSpec { name: name.to_owned(), kind };
    let fields = [
        field("image", FieldKind::RgbImage),
        field("label", FieldKind::Int),
        field("bbox", FieldKind::Bytes),
        field("points", FieldKind::Bytes),
        field("segmentation", FieldKind::Json),
    ];
    let bytes = |values: &[f32]| {
        FieldValue::Bytes(values.iter().flat_map(|value| value.to_le_bytes()).collect())
    };
    let rows = NUMBERS.iter().zip(0..).map(|(number, class)| {
        let pixels = pictures::draw_at(class, *number, SIDE, SIDE).pixels;
        let image = ImageInput::Rgb { pixels, width: SIDE, height: SIDE };
        let (boxes, points) = (bytes(BOXES.as_flattened()), bytes(POINTS.as_flattened()));
        let masks = FieldValue::Json(masks());
        vec![FieldValue::Image(image), FieldValue::Int(class as i64), boxes, points, masks]
    });
    let image = ImageOptions { write_mode: WriteMode::Raw, ..ImageOptions::default() };
    write_iter(rows, &fields, path, &WriteOptions { image, ..WriteOptions::default() }).unwrap();
}

/// A canvas of RGB pixels.
pub(super) struct Strip {
    pub(super) size: Size,
    pub(super) pixels: Vec<u8>,
}

impl Strip {
    fn new(panels: u32) -> Self {
        let size = Size::new(SIDE, panels * (SIDE + GAP) - GAP);
        Self { size, pixels: vec![BACKGROUND; 3 * size.pixels() as usize] }
    }

    fn set(&mut self, y: u32, x: u32, pixel: [u8; 3]) {
        if x < self.size.width && y < self.size.height {
            let at = 3 * (y * self.size.width + x) as usize;
            self.pixels[at..at + 3].copy_from_slice(&pixel);
        }
    }

    /// Draws an image in the middle of a panel, scaled down if it does not fit.
    fn put(&mut self, panel: u32, pixels: &[u8], size: Size) {
        let longest = size.height.max(size.width);
        if longest > SIDE {
            let scaled = |side: u32| (side * SIDE / longest).max(1);
            let smaller = Size::new(scaled(size.height), scaled(size.width));
            let view = ImageView::packed(pixels, size).unwrap();
            return self.put(panel, &area::resize(view, smaller).unwrap(), smaller);
        }
        let (top, left) = ((SIDE - size.height) / 2, (SIDE - size.width) / 2);
        for (pixel, i) in pixels.chunks_exact(3).zip(0..) {
            let (y, x) = (top + i / size.width, left + i % size.width);
            self.set(y, panel * (SIDE + GAP) + x, pixel.try_into().unwrap());
        }
    }

    /// Draws the edges of boxes, and keypoints, over the image of a panel.
    fn put_objects(&mut self, panel: u32, boxes: &[f32], points: &[f32]) {
        let mut dot = |x: f32, y: f32, color| {
            if (0.0..SIDE as f32).contains(&x) && (0.0..SIDE as f32).contains(&y) {
                self.set(y as u32, panel * (SIDE + GAP) + x as u32, color);
            }
        };
        for edges in boxes.chunks(4) {
            let [x1, y1, x2, y2] = [edges[0], edges[1], edges[2] - 2.0, edges[3] - 2.0];
            for step in 0..=SIDE * 2 {
                let share = step as f32 / (SIDE * 2) as f32;
                let (x, y) = (x1 + (x2 - x1) * share, y1 + (y2 - y1) * share);
                for (x, y) in [(x, y1), (x, y2), (x1, y), (x2, y)] {
                    // JPEGs have half of the dots' colours.
                    for (dx, dy) in [(0.0, 0.0), (1.0, 0.0), (0.0, 1.0)] {
                        dot(x + dx, y + dy, [0xff, 0x20, 0x20]);
                    }
                }
            }
        }
        for point in points.chunks(2) {
            for (dx, dy) in (-1..=1).flat_map(|dy| (-1..=1).map(move |dx| (dx as f32, dy as f32))) {
                dot(point[0] + dx, point[1] + dy, [0x20, 0x40, 0xff]);
            }
        }
    }

    /// Draws a line of text, each dot of a letter as two by two pixels.
    fn text(&mut self, top: u32, left: u32, text: &str) {
        for (letter, column) in text.chars().zip(0..) {
            for (y, x) in (0..2 * LETTER[1]).flat_map(|y| (0..2 * LETTER[0]).map(move |x| (y, x))) {
                if font::has_ink(letter, x / 2, y / 2) {
                    self.set(top + y, left + column * 2 * (LETTER[0] + 1) + x, [0x20, 0x24, 0x30]);
                }
            }
        }
    }

    pub(super) fn jpeg(&self) -> Vec<u8> {
        let mut jpeg = vec![];
        let (width, height) = (self.size.width as u16, self.size.height as u16);
        Encoder::new(&mut jpeg, 70).encode(&self.pixels, width, height, ColorType::Rgb).unwrap();
        jpeg
    }
}

/// The declaration of the boxes, keypoints and masks, in a pipeline file.
const DECLARED: &str = "[targets.image]
bbox = \"boxes\"
points = { as = \"keypoints\", each = 1, visibility = false }
segmentation = \"instance_masks\"
";

/// Returns true for an op that works on boxes, keypoints or instance masks.
fn has_targets(info: &OpInfo) -> bool {
    info.class == TARGETS || ["RandomIoUCrop", "Mosaic", "SimpleCopyPaste"].contains(&info.name)
}

/// A loader of one batch, in the order of the file. `mix` is an op that the labels have, too, and `targets` the
/// declaration of those of the image.
fn loader(data: &Path, field: &str, list: &str, mix: Option<&str>, targets: &str) -> Loader {
    let label = mix.map_or_else(String::new, |mix| {
        format!("label = [{{ op = \"OneHot\", classes = 4 }}, {mix}]\n")
    });
    let spec = format!(
        "batch_size = {}\norder = \"sequential\"\nseed = 7\n[fields]\n{field} = [{list}]\n{label}{targets}",
        NUMBERS.len()
    );
    let spec = Spec::parse(&spec, Path::new("gallery.toml")).unwrap_or_else(|e| panic!("{e}"));
    spec.apply(Loader::open(data).unwrap()).build().unwrap_or_else(|e| panic!("{e}"))
}

fn batch(loader: &Loader, epoch: u32) -> Batch {
    loader.epoch(epoch).unwrap().next().unwrap().unwrap()
}

/// The values of the shown sample of an output.
fn row<'a>(batch: &'a Batch, output: &str) -> (&'a [u8], DType, Vec<usize>) {
    let spec = batch.specs().iter().find(|spec| spec.name == output).unwrap();
    let bytes = batch.bytes(output).unwrap();
    let len = bytes.len() / batch.len();
    (&bytes[SHOWN * len..][..len], spec.dtype, spec.shape.to_vec())
}

/// The type, the shape and the first values of an output.
fn words(batch: &Batch, output: &str) -> [String; 2] {
    let (bytes, dtype, shape) = row(batch, output);
    let float = |value: f64| {
        let text = format!("{value:.3}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    let values = bytes.chunks(dtype.bytes()).take(10).map(|b| match dtype {
        DType::U8 => b[0].to_string(),
        DType::U16 => u16::from_le_bytes(b.try_into().unwrap()).to_string(),
        DType::I16 => i16::from_le_bytes(b.try_into().unwrap()).to_string(),
        DType::I64 => i64::from_le_bytes(b.try_into().unwrap()).to_string(),
        DType::F16 => float(half::f16::from_le_bytes(b.try_into().unwrap()).to_f64()),
        DType::F32 => float(f32::from_le_bytes(b.try_into().unwrap()).into()),
        other => panic!("{output}: {other} is not shown"),
    });
    let mut line = values.collect::<Vec<_>>().join(" ");
    let most = ((DRAWS * (SIDE + GAP)) / (2 * (LETTER[0] + 1))) as usize;
    if line.len() > most {
        line.truncate(line[..most - 3].rfind(' ').unwrap());
        line += " ..";
    }
    [format!("{dtype} {shape:?}"), line]
}

/// Draws the picture of an op.
fn picture(info: &OpInfo, entry: &str, data: &Path) -> Strip {
    let [before, after] = around(info.name);
    let list = [before, entry, after].concat();
    let size = Size::new(SIDE, SIDE);
    let stored = pictures::draw_at(SHOWN, NUMBERS[SHOWN], SIDE, SIDE).pixels;
    if [VALUES, LABELS].contains(&info.class) || takes_signals(info.name) {
        let field = if info.class == LABELS { "label" } else { "image" };
        let input = batch(&loader(data, field, before.trim_end_matches(", "), None, ""), 0);
        let output = batch(&loader(data, field, &list, None, ""), 0);
        let mut strip = Strip::new(1 + DRAWS);
        let left = if field == "image" { SIDE + 3 * GAP } else { 2 * GAP };
        if field == "image" {
            strip.put(0, &stored, size);
        }
        let lines = [words(&input, field), words(&output, field)].concat();
        for (line, at) in lines.iter().zip([0, 17, 39, 56]) {
            strip.text(at, left, line);
        }
        return strip;
    }
    let mix = (info.class == MIXING && !has_targets(info)).then_some(entry);
    let targets = if has_targets(info) { DECLARED } else { "" };
    let loader = loader(data, "image", &list, mix, targets);
    let mut draws: Vec<(Vec<u8>, Size, [Vec<f32>; 2])> = (0..DRAWS)
        .map(|epoch| {
            let batch = batch(&loader, epoch);
            let (pixels, _, shape) = row(&batch, "image");
            let objects = if targets.is_empty() {
                [vec![], vec![]]
            } else {
                ["bbox", "points"].map(|name| {
                    let rows = batch.ragged::<f32>(name).unwrap();
                    rows.row(SHOWN).unwrap().to_vec()
                })
            };
            (pixels.to_vec(), Size::new(shape[0] as u32, shape[1] as u32), objects)
        })
        .collect();
    // One is enough of an op that draws nothing.
    draws.dedup_by(|a, b| a == b && draws_nothing(info.name));
    let mut strip = Strip::new(1 + draws.len() as u32);
    strip.put(0, &stored, size);
    if has_targets(info) {
        strip.put_objects(0, BOXES.as_flattened(), POINTS.as_flattened());
    }
    for ((pixels, size, [boxes, points]), panel) in draws.iter().zip(1..) {
        strip.put(panel, pixels, *size);
        strip.put_objects(panel, boxes, points);
    }
    strip
}

/// Returns true for an op whose values are no image.
fn takes_signals(name: &str) -> bool {
    ["Gain", "PolarityInversion", "AddGaussianSNR", "ToMono", "RandomJitter"].contains(&name)
}

/// Returns true if the page of an op says that nothing is drawn for a sample.
fn draws_nothing(name: &str) -> bool {
    let page = page(name);
    page.lines().any(|line| line.starts_with("| random | nothing"))
}

/// Returns the documentation of an op's type, without the marks of a comment.
fn page(name: &str) -> String {
    let sources = root().join("ops/src");
    for file in fs::read_dir(&sources).unwrap() {
        let path = file.unwrap().path();
        if path.is_dir() {
            continue;
        }
        let text = fs::read_to_string(path).unwrap();
        let Some(end) = text
            .find(&format!("\npub struct {name} "))
            .or_else(|| text.find(&format!("\npub struct {name};")))
        else {
            continue;
        };
        // An item begins after an empty line; some attributes have several lines.
        let mut lines: Vec<&str> =
            text[..end].lines().rev().take_while(|line| !line.is_empty()).collect();
        lines.reverse();
        let line = |line: &&str| line.strip_prefix("///").map_or(*line, str::trim_start).to_owned();
        return lines.iter().map(line).collect::<Vec<_>>().join("\n");
    }
    panic!("ops/src has no type {name}");
}

pub(super) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let word = (0..3).fold(0u32, |word, i| word << 8 | u32::from(*three.get(i).unwrap_or(&0)));
        for i in 0..4 {
            let digit = DIGITS[(word >> (18 - 6 * i)) as usize % 64];
            text.push(if i > three.len() { '=' } else { digit.into() });
        }
    }
    text
}

/// The text that the page of an op includes.
fn embedded(jpeg: &[u8]) -> String {
    format!("![An input, and what the op makes of it](data:image/jpeg;base64,{})\n", base64(jpeg))
}

/// All pictures, by the names of their ops.
fn all_pictures() -> BTreeMap<&'static str, (String, Strip)> {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("pictures.beton");
    dataset(&data);
    let examples = examples();
    let drawn = registry().iter().map(|info| {
        let entry = entry(info.name, &examples);
        let strip = picture(info, &entry, &data);
        (info.name, (shortened(&entry), strip))
    });
    drawn.collect()
}

fn gallery(pictures: &BTreeMap<&str, (String, Strip)>) -> String {
    let mut text = String::new();
    for family in registry().chunk_by(|a, b| a.class == b.class) {
        let _ = write!(text, "\n## {}\n", family[0].class);
        for op in family {
            let (name, (entry, _)) = (op.name, &pictures[op.name]);
            let _ = write!(
                text,
                "\n### {name}\n\n`{entry}` {}.\n\n![{name}](ops/{name}.jpg)\n",
                op.summary
            );
        }
    }
    text.push('\n');
    text
}

/// Returns the pixels of a JPEG of this size.
fn decoded(path: &Path, size: Size) -> Vec<u8> {
    let crop = format!(
        "batch_size = 1\nfields.image = [{{ op = \"CenterCrop\", size = [{}, {}] }}]",
        size.height, size.width
    );
    let spec = Spec::parse(&crop, Path::new("gallery.toml")).unwrap_or_else(|e| panic!("{e}"));
    let files = Loader::open(path).unwrap();
    let batch = batch(&spec.apply(files).build().unwrap(), 0);
    batch.bytes("image").unwrap().to_vec()
}

/// Checks that a JPEG shows the same as a picture. Another build of the C library may round the drawing
/// differently.
pub(super) fn assert_current(stored: &Path, picture: &Strip) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("now.jpg");
    fs::write(&path, picture.jpeg()).unwrap();
    let (stored_pixels, now) = (decoded(stored, picture.size), decoded(&path, picture.size));
    let differing = stored_pixels.iter().zip(&now).filter(|(a, b)| a.abs_diff(**b) > 16).count();
    let is_current = differing * 200 < now.len();
    assert!(is_current, "{} is not up to date. Write it with {BEGIN}", stored.display());
}

#[test]
fn each_op_has_its_picture() {
    let (shown, embeds) = (root().join("docs/ops"), root().join("ops/pictures"));
    let pictures = all_pictures();
    assert_written("docs/gallery.md", &gallery(&pictures));
    if is_writing() {
        for (name, (_, strip)) in &pictures {
            let jpeg = strip.jpeg();
            fs::write(embeds.join(format!("{name}.md")), embedded(&jpeg)).unwrap();
            fs::write(shown.join(format!("{name}.jpg")), jpeg).unwrap();
        }
        return;
    }

    let mut total = 0;
    for (name, (_, now)) in &pictures {
        let path = shown.join(format!("{name}.jpg"));
        assert_current(&path, now);
        let jpeg = fs::read(path).unwrap();
        let embed = fs::read_to_string(embeds.join(format!("{name}.md"))).unwrap();
        assert!(embed == embedded(&jpeg), "ops/pictures/{name}.md is not docs/ops/{name}.jpg");
        assert!(jpeg.len() < MOST_OF_ONE, "docs/ops/{name}.jpg has {} bytes", jpeg.len());
        total += jpeg.len();
    }
    assert!(total < MOST_OF_ALL, "the pictures have {total} bytes in all");
    for dir in [&shown, &embeds] {
        let count = fs::read_dir(dir).unwrap().count();
        assert_eq!(count, pictures.len(), "{} has a file for each op and no other", dir.display());
    }
}

#[test]
fn the_readme_shows_the_sheet_of_the_demo() {
    let dir = tempfile::tempdir().unwrap();
    stdout_of(dir.path(), &["demo", "--out", "sheet.png"]);
    let sheet = fs::File::open(dir.path().join("sheet.png")).unwrap();
    let mut sheet = png::Decoder::new(BufReader::new(sheet)).read_info().unwrap();
    let mut pixels = vec![0; sheet.output_buffer_size().unwrap()];
    let frame = sheet.next_frame(&mut pixels).unwrap();
    let size = Size::new(frame.height, frame.width);
    let smaller = Size::new(size.height * SHEET_WIDTH / size.width, SHEET_WIDTH);
    let pixels = area::resize(ImageView::packed(&pixels, size).unwrap(), smaller).unwrap();
    let now = Strip { size: smaller, pixels };
    let path = root().join("docs/demo.jpg");
    if is_writing() {
        return fs::write(path, now.jpeg()).unwrap();
    }
    assert_current(&path, &now);
}

#[test]
fn the_page_of_each_op_is_complete() {
    for info in registry() {
        let name = info.name;
        let page = page(name);
        let picture = format!("include_str!(\"../pictures/{name}.md\")");
        for what in ["```text", "| input ", "| output ", "| random ", "| cost ", "ops![", &picture]
        {
            assert!(page.contains(what), "the documentation of {name} has no {what}:\n{page}");
        }
    }
}

#[test]
fn base64_is_that_of_rfc_4648() {
    let cases = [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")];
    for (bytes, text) in cases {
        assert_eq!(base64(bytes.as_bytes()), text);
    }
}
