//! Targets follow their image: what is painted into an image and moved by the nearest pixel is where its mask, its
//! box and its keypoint say.

use fuseloop::internals::assert_says;
use fuseloop::loader::{BoundingBoxes, Cache, Collate, KeyPoints, Targets};
use fuseloop::ops::author::Rng;
use fuseloop::ops::internals::SampleKey;
use fuseloop::source::{
    Annotated, BoxError, CocoOptions, Facts, FieldKind, InMemory, OwnedImage, OwnedValue, Record,
};
use fuseloop::{Batch, ImageReadMode, Loader, LoaderBuilder, Order, SampleId, ops::*};
use fuseloop_counts::numbers;
use std::path::Path;
use std::sync::Arc;

/// Drawn scenes: up to four rectangles in the quarters of an image, each with a keypoint at its middle pixel.
pub(super) struct Scenes(pub(super) Vec<Scene>);

#[derive(Clone)]
pub(super) struct Scene {
    pub(super) size: Size,
    pixels: Vec<u8>,
    /// Left, top, right, bottom in whole pixels.
    pub(super) boxes: Vec<[u32; 4]>,
    /// What is stored instead of the boxes, the masks of the objects, and a mask of the image's size.
    pub(super) bbox: Option<Vec<u8>>,
    masks: Option<&'static str>,
    pub(super) mask: Option<Size>,
}

pub(super) const FIELDS: [(&str, FieldKind); 7] = [
    ("image", FieldKind::RgbImage),
    ("mask", FieldKind::RgbImage),
    ("bbox", FieldKind::Bytes),
    ("label", FieldKind::Bytes),
    ("points", FieldKind::Bytes),
    ("segmentation", FieldKind::Json),
    ("index", FieldKind::Int),
];

pub(super) fn rng(seed: u64) -> Rng {
    SampleKey::new(seed, 0, 0).op(1)
}

impl Scene {
    fn drawn(seed: u64) -> Self {
        let rng = &mut rng(seed);
        let size = Size::new(24 + rng.below(40), 24 + rng.below(40));
        Self::drawn_in(size, rng)
    }

    /// Draws a scene of a size.
    pub(super) fn drawn_in(size: Size, rng: &mut Rng) -> Self {
        let (half_height, half_width) = (size.height / 2, size.width / 2);
        let mut pixels = vec![7; size.pixels() as usize];
        let mut boxes = vec![];
        for quarter in 0..4 {
            if rng.below(4) == 0 {
                continue;
            }
            let (left, top) = (quarter % 2 * half_width, quarter / 2 * half_height);
            let (x, y) = (left + rng.below(half_width - 6), top + rng.below(half_height - 6));
            let width = 4 + rng.below(left + half_width - x - 4);
            let height = 4 + rng.below(top + half_height - y - 4);
            for row in y..y + height {
                let first = (row * size.width + x) as usize;
                pixels[first..first + width as usize].fill(value(boxes.len()));
            }
            boxes.push([x, y, x + width, y + height]);
        }
        Self { size, pixels, boxes, bbox: None, masks: None, mask: None }
    }

    fn image(&self) -> OwnedImage {
        let pixels = self.pixels.iter().flat_map(|&level| [level; 3]).collect();
        OwnedImage::rgb((self.size.height, self.size.width), pixels)
    }

    fn bbox(&self) -> Vec<u8> {
        if let Some(bytes) = &self.bbox {
            return bytes.clone();
        }
        floats(self.boxes.iter().flatten().map(|&edge| edge as f32))
    }

    fn points(&self) -> Vec<u8> {
        floats(
            self.boxes.iter().flat_map(|&[x1, y1, x2, y2]| {
                [((x1 + x2) / 2) as f32, ((y1 + y2) / 2) as f32, 2.0]
            }),
        )
    }

    pub(super) fn record(&self, index: u64) -> Record {
        let labels = (0..self.boxes.len()).flat_map(|label| (label as i64).to_le_bytes());
        vec![
            OwnedValue::Image(self.image()),
            OwnedValue::Image(match self.mask {
                Some(size) => {
                    OwnedImage::rgb((size.height, size.width), vec![0; size.pixels() as usize * 3])
                }
                None => self.image(),
            }),
            OwnedValue::Bytes(self.bbox()),
            OwnedValue::Bytes(labels.collect()),
            OwnedValue::Bytes(self.points()),
            OwnedValue::Json(self.segmentation().into_bytes()),
            OwnedValue::Int(index as i64),
        ]
    }

    fn segmentation(&self) -> String {
        if let Some(text) = self.masks {
            return text.to_owned();
        }
        let polygon =
            |&[x1, y1, x2, y2]: &[u32; 4]| format!("[[{x1},{y1},{x2},{y1},{x2},{y2},{x1},{y2}]]");
        format!("[{}]", self.boxes.iter().map(polygon).collect::<Vec<_>>().join(","))
    }
}

/// The level that object `index` is painted with.
pub(super) fn value(index: usize) -> u8 {
    40 * (index as u8 + 1)
}

pub(super) fn floats(values: impl Iterator<Item = f32>) -> Vec<u8> {
    values.flat_map(f32::to_le_bytes).collect()
}

impl Scenes {
    pub(super) fn new(count: u64) -> Self {
        Self((0..count).map(Scene::drawn).collect())
    }

    pub(super) fn source(self) -> InMemory {
        let names = [(0, "cat"), (1, "dog"), (2, "a very long name of a class")];
        let names = names.map(|(number, name)| (number, name.to_owned()));
        let facts = Facts::new(FIELDS, self.0.len() as u64)
            .with_class_names(move || Ok(Some(names.iter().cloned().collect())))
            .with_longest(|field| [0, 0, 4 * 16, 4 * 8, 4 * 12, 1000, 0].get(field).copied());
        InMemory::from_fn(facts, move |SampleId(sample)| Ok(self.0[sample as usize].record(sample)))
    }

    pub(super) fn loader(self) -> LoaderBuilder {
        Loader::from_source(self.source()).batch_size(7).seed(3).order(Order::Random)
    }
}

pub(super) fn targets() -> Targets {
    Targets::new()
        .keypoints("points", KeyPoints::new(1))
        .column("label", DType::I64)
        .boxes("bbox", BoxFormat::Xyxy)
        .instance_masks("segmentation")
        .mask("mask", 0)
}

/// One to four geometry ops by the nearest pixel, and a crop or pad to one size.
pub(super) fn random_list(rng: &mut Rng, with_warps: bool) -> Result<Ops, ParamError> {
    let mut list = ops![];
    for _ in 0..1 + rng.below(4) {
        let kinds = if with_warps { 14 } else { 10 };
        list.push(match rng.below(kinds) {
            0 => Arc::new(RandomHorizontalFlip::new(0.5)?) as _,
            1 => Arc::new(RandomVerticalFlip::new(0.7)?) as _,
            2 => Arc::new(RandomResizedCrop::new((30, 20))?.interpolation(Interpolation::Nearest))
                as _,
            3 => Arc::new(RandomZoomOut::new()) as _,
            4 => Arc::new(CenterCrop::new(31)?) as _,
            5 => Arc::new(RandomCrop::new(16)?.padding(3)?.pad_if_needed()) as _,
            6 => Arc::new(Transpose::new(0.5)?) as _,
            7 => Arc::new(RandomRotate90::new(1.0)?) as _,
            8 => Arc::new(RandomChoice::new(vec![
                ops![Pad::new(5)?],
                ops![Pad::new(5)?, RandomHorizontalFlip::new(1.0)?],
            ])?) as _,
            9 => Arc::new(Resize::new((37, 41))?.interpolation(Interpolation::NearestExact)) as _,
            10 => Arc::new(RandomRotation::new(40.0)?.expand()) as _,
            11 => Arc::new(RandomAffine::new(20.0)?.translate(0.1, 0.2)?.scale(0.6..=1.4)?) as _,
            12 => Arc::new(RandomPerspective::new().interpolation(WarpInterpolation::Nearest)) as _,
            _ => Arc::new(RandomApply::new(ops![RandomRotation::new(9.0)?])) as _,
        });
    }
    list.push(Arc::new(CenterCrop::new((45, 60))?));
    Ok(list)
}

/// A sample of a batch: the first channel of its image, and its targets.
struct Moved<'a> {
    index: usize,
    image: Vec<u8>,
    mask: &'a [u8],
    boxes: &'a [f32],
    labels: &'a [i64],
    points: &'a [f32],
    instances: &'a [u8],
}

const HEIGHT: usize = 45;
const WIDTH: usize = 60;

fn each_sample(loader: &LoaderBuilder, mut check: impl FnMut(Moved<'_>)) {
    let loader = loader.clone().build().unwrap();
    for batch in loader.epoch(0).unwrap() {
        let batch = batch.unwrap();
        let pixels = HEIGHT * WIDTH;
        let (images, masks) =
            (batch.tensor::<u8>("image").unwrap(), batch.tensor::<u8>("mask").unwrap());
        let (boxes, points) =
            (batch.ragged::<f32>("bbox").unwrap(), batch.ragged::<f32>("points").unwrap());
        let instances = batch.ragged::<u8>("segmentation").unwrap();
        let labels = batch.ragged::<i64>("label").unwrap();
        for (row, index) in batch.tensor::<i64>("index").unwrap().as_slice().iter().enumerate() {
            let image = &images.as_slice()[row * pixels * 3..][..pixels * 3];
            check(Moved {
                index: *index as usize,
                image: image.chunks(3).map(|pixel| pixel[0]).collect(),
                mask: &masks.as_slice()[row * pixels..][..pixels],
                boxes: boxes.row(row).unwrap(),
                labels: labels.row(row).unwrap(),
                points: points.row(row).unwrap(),
                instances: instances.row(row).unwrap(),
            });
        }
    }
}

/// Returns the left, top, right and bottom edge of the pixels of a level, in continuous coordinates.
fn painted(image: &[u8], level: u8) -> Option<[f32; 4]> {
    let at = image.iter().enumerate().filter(|(_, found)| **found == level);
    let at: Vec<_> = at.map(|(at, _)| ((at % WIDTH) as f32, (at / WIDTH) as f32)).collect();
    let x = || at.iter().map(|(x, _)| *x);
    let y = || at.iter().map(|(_, y)| *y);
    Some([
        x().reduce(f32::min)?,
        y().reduce(f32::min)?,
        x().reduce(f32::max)? + 1.0,
        y().reduce(f32::max)? + 1.0,
    ])
}

/// Checks the targets of a sample against what is painted in its image. Objects may have been removed.
fn check_follows(moved: &Moved<'_>, list: &str, is_upright: bool) {
    let Moved { index, image, mask, boxes, labels, points, instances } = moved;
    assert_eq!(image, mask, "the mask of sample {index} after {list}");
    let count = labels.len();
    assert_eq!((boxes.len(), points.len()), (4 * count, 3 * count), "{list}");
    assert_eq!(instances.len(), count * image.len(), "{list}");
    for (row, bounds) in boxes.chunks(4).enumerate() {
        let level = value(labels[row] as usize);
        let what = || format!("object {} of sample {index} after {list}: {bounds:?}", labels[row]);
        let own = &instances[row * image.len()..][..image.len()];
        let is_own = |(found, own): (&u8, &u8)| (*found == level) == (*own == 1);
        assert!(image.iter().zip(own).all(is_own), "the mask of {}", what());
        let Some(paint) = painted(image, level) else { continue };
        // The first two edges are at most, and the last two at least, where the paint is. Each op by the nearest pixel
        // is off by half a pixel, which later ops may enlarge.
        let [x1, y1, x2, y2] = paint;
        let beyond = [bounds[0] - x1, bounds[1] - y1, x2 - bounds[2], y2 - bounds[3]];
        assert!(beyond.iter().all(|by| *by <= 3.0), "paint {paint:?} of {}", what());
        if is_upright {
            assert!(beyond.iter().all(|by| *by >= -3.0), "paint {paint:?} of {}", what());
        }
        let [x, y] = [points[3 * row], points[3 * row + 1]].map(|place| place.round() as i64);
        // A point may be where a crop has cut its object away, and a pad has filled.
        let is_in_box = (bounds[0] + 1.0..bounds[2] - 1.0).contains(&(x as f32))
            && (bounds[1] + 1.0..bounds[3] - 1.0).contains(&(y as f32));
        let is_inside = (3..WIDTH as i64 - 3).contains(&x) && (3..HEIGHT as i64 - 3).contains(&y);
        if is_inside && is_in_box {
            let mut around = (-3..=3).flat_map(|dy| (-3..=3).map(move |dx| (x + dx, y + dy)));
            let has_paint = |(x, y): (i64, i64)| image[y as usize * WIDTH + x as usize] == level;
            assert!(around.any(has_paint), "the point ({x}, {y}) of {}", what());
        }
    }
}

fn loader(count: u64, list: Ops) -> LoaderBuilder {
    let loader = Scenes::new(count).loader().targets("image", targets());
    loader.pipeline("image", list).pipeline("mask", ops![Squeeze])
}

#[test]
fn targets_follow_random_geometry() {
    for seed in 0..60 {
        let is_upright = seed % 2 == 0;
        let list = random_list(&mut rng(1000 + seed), !is_upright).unwrap();
        let name = format!("list {seed}: {list:?}");
        let mut objects = 0;
        each_sample(&loader(20, list), |moved| {
            objects += moved.labels.len();
            check_follows(&moved, &name, is_upright);
        });
        assert!(objects > 40, "nothing removes an object, but {objects} came");
    }
}

#[test]
fn objects_that_are_removed_lose_all_their_rows() {
    let list = || {
        let crop = RandomIoUCrop::new();
        let resize = Resize::new((45, 60))?.interpolation(Interpolation::Nearest);
        Ok::<_, ParamError>(ops![
            crop,
            resize,
            RandomHorizontalFlip::new(0.5)?,
            SanitizeBoundingBoxes::new().min_size(12.0)?
        ])
    };
    let mut counts = [0; 5];
    each_sample(&loader(60, list().unwrap()), |moved| {
        counts[moved.labels.len()] += 1;
        check_follows(&moved, "a crop around boxes", true);
        for bounds in moved.boxes.chunks(4) {
            let [width, height] = [bounds[2] - bounds[0], bounds[3] - bounds[1]];
            assert!(width > 11.999 && height > 11.999, "{bounds:?}");
        }
    });
    assert!(counts.iter().filter(|count| **count > 2).count() >= 3, "{counts:?}");
}

/// Returns all bytes of an epoch, which another one came before.
fn epoch(loader: LoaderBuilder) -> Vec<(Vec<f32>, Vec<u8>, Vec<u8>)> {
    let loader = loader.build().unwrap();
    loader.epoch(0).unwrap().for_each(|batch| drop(batch.unwrap()));
    let batches = loader.epoch(2).unwrap().map(|batch| {
        let batch = batch.unwrap();
        let boxes = batch.ragged::<f32>("bbox").unwrap().values().to_vec();
        let masks = batch.tensor::<u8>("mask").unwrap().as_slice().to_vec();
        (boxes, masks, batch.ragged::<u8>("segmentation").unwrap().values().to_vec())
    });
    batches.collect()
}

/// Cityscapes maps its class numbers, `id`, to others, `trainId`, in this way.
#[test]
fn a_mask_that_follows_an_image_may_have_its_classes_mapped() {
    let list = || ops![RandomHorizontalFlip::new(0.5).unwrap(), CenterCrop::new(40).unwrap()];
    let map = |class: usize| (class * 7 + 3) as u8;
    let lut = Lut::same(std::array::from_fn(|class| f32::from(map(class)))).unwrap();
    let plain = epoch(loader(9, list()));
    let mapped = epoch(loader(9, list()).pipeline("mask", ops![lut, Squeeze]));
    for ((_, plain, _), (_, mapped, _)) in plain.iter().zip(&mapped) {
        assert!(plain.iter().map(|&class| map(class.into())).eq(mapped.iter().copied()));
    }
    assert!(plain.iter().any(|(_, mask, _)| mask.iter().any(|&class| class > 0)));
}

#[test]
fn targets_are_the_same_for_any_number_of_workers() {
    let list = || ops![RandomIoUCrop::new(), RandomResizedCrop::new(40).unwrap()];
    let one = epoch(loader(50, list()).workers(1));
    assert_eq!(one, epoch(loader(50, list()).workers(4)));
    assert!(one.iter().any(|(boxes, ..)| !boxes.is_empty()));
    assert_eq!(one, epoch(loader(50, list()).cache(Cache::memory(1 << 24))));
    // Without the classes, the boxes are the same.
    assert_eq!(one, epoch(loader(50, list()).without("label").workers(2)));
}

/// Returns the bytes of all outputs of a batch, with its samples.
fn all_bytes(batch: &Batch) -> (Vec<SampleId>, Vec<Vec<u8>>) {
    let names = ["image", "mask", "bbox", "label", "points", "segmentation", "bbox.length"];
    (batch.ids().to_vec(), names.map(|name| batch.bytes(name).unwrap().to_vec()).into())
}

/// A run that is stopped after any batch, and resumed by another loader, gives the same rest.
#[test]
fn a_resumed_run_has_the_same_targets() {
    let list = || {
        Ok::<_, ParamError>(ops![
            RandomIoUCrop::new(),
            RandomHorizontalFlip::new(0.5)?,
            RandomAffine::new(20.0)?.translate(0.1, 0.2)?,
            Resize::new((30, 40))?,
            SanitizeBoundingBoxes::new(),
        ])
    };
    let build = |workers, cached: bool| {
        let loader = loader(40, list().unwrap()).workers(workers);
        let loader = if cached { loader.cache(Cache::memory(1 << 24)) } else { loader };
        loader.build().unwrap()
    };
    let plain = build(1, false);
    let whole: Vec<_> = plain.epoch(1).unwrap().map(|batch| all_bytes(&batch.unwrap())).collect();
    assert!(whole.len() > 4 && whole.iter().any(|(_, bytes)| !bytes[2].is_empty()));
    for cached in [false, true] {
        let resumed = build(3, cached);
        // The first epoch fills the cache.
        resumed.epoch(0).unwrap().for_each(|batch| drop(batch.unwrap()));
        for stop in 0..=whole.len() {
            let stopped = build(3, cached);
            let mut run = stopped.epoch(1).unwrap();
            run.by_ref().take(stop).for_each(|batch| drop(batch.unwrap()));
            let cursor = run.cursor().unwrap();
            drop(run);
            let rest = resumed.resume(&cursor.to_string().parse().unwrap()).unwrap();
            let rest: Vec<_> = rest.map(|batch| all_bytes(&batch.unwrap())).collect();
            assert!(rest == whole[stop..], "stopped after {stop} batches, cached: {cached}");
        }
    }
}

/// Random lists move a mask and an image in compiled code as their ops define it, and give the same targets for any
/// number of workers.
#[test]
fn random_lists_give_the_same_targets_compiled_and_evaluated() {
    for seed in numbers("FUSELOOP_TARGET_LISTS") {
        let list = || {
            let mut list = random_list(&mut rng(5000 + seed), true).unwrap();
            let at = rng(6000 + seed).below(list.len() as u32) as usize;
            list.insert(at, Arc::new(RandomPhotometricDistort::new()));
            if rng(7000 + seed).coin(0.5) {
                list.insert(0, Arc::new(RandomIoUCrop::new()));
            }
            list.push(Arc::new(SanitizeBoundingBoxes::new().min_size(3.0).unwrap()));
            list
        };
        let build = |workers| loader(14, list()).workers(workers).build().unwrap();
        let batches = |workers| -> Vec<_> {
            build(workers).epoch(3).unwrap().map(|batch| all_bytes(&batch.unwrap())).collect()
        };
        let one = batches(1);
        assert!(one == batches(2) && one == batches(4), "list {seed}: {:?}", list());
        let inspected = build(1);
        for output in ["image", "mask"] {
            let mut inspector = inspected.inspect(output, 3).unwrap().unwrap();
            let names = usize::from(output == "mask");
            let rows = one.iter().flat_map(|(ids, bytes)| {
                let bytes = &bytes[names];
                ids.iter().zip(bytes.chunks(bytes.len() / ids.len()))
            });
            for (id, row) in rows {
                let sample = inspector.sample(id.0).unwrap();
                let what = || format!("{output} {id}, list {seed}: {:?}", list());
                assert!(inspector.agrees(&sample).unwrap(), "compiled and evaluated: {}", what());
                assert!(sample.row == row, "inspected and in the batch: {}", what());
            }
        }
    }
}

#[test]
fn the_plan_says_what_each_target_is() {
    let boxes = BoundingBoxes::new(BoxFormat::Xyxy).to(BoxFormat::Cxcywh).normalized();
    let targets = Targets::new().boxes("bbox", boxes).keypoints("points", KeyPoints::new(1));
    let targets =
        targets.column("label", DType::I64).instance_masks("segmentation").mask("mask", 9);
    let loader = Scenes::new(3).loader().targets("image", targets);
    let text =
        loader.pipeline("image", ops![CenterCrop::new(20).unwrap()]).build().unwrap().explain();
    for line in [
        "field bbox:\nboxes of image, xyxy -> cxcywh, divided by the size of the image, ragged, each at most f32 [4, 4]",
        "field points:\n1 keypoint(s) per object of image, ragged, each at most f32 [4, 1, 3]",
        "field label:\na number per object of image, ragged, each at most i64 [4]",
        "field segmentation:\na mask per object of image, moved by the nearest pixel, ragged, each at most u8 [4, 20, 20]",
        "field mask:\na mask of image, moved by the nearest pixel, 9 outside\n",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}

#[test]
fn boxes_come_in_another_format_padded_or_as_a_list() {
    let list = || ops![Resize::new((40, 80)).unwrap()];
    let boxes = BoundingBoxes::new(BoxFormat::Xyxy).to(BoxFormat::Cxcywh).normalized();
    let targets = Targets::new().boxes("bbox", boxes);
    let scenes = Scenes::new(9);
    let drawn = scenes.0.clone();
    let loader = scenes.loader().targets("image", targets).pipeline("image", list());
    let loader = loader.without("mask").collate("bbox", Collate::pad().to(5).fill(-1.0));
    let loader = loader.batch_size(9).build().unwrap();
    let batch = loader.epoch(0).unwrap().next().unwrap().unwrap();
    let (boxes, lengths) =
        (batch.tensor::<f32>("bbox").unwrap(), batch.tensor::<i64>("bbox.length").unwrap());
    assert_eq!(boxes.shape(), [9, 5, 4]);
    for (row, index) in batch.tensor::<i64>("index").unwrap().as_slice().iter().enumerate() {
        let scene = &drawn[*index as usize];
        assert_eq!(lengths.as_slice()[row], scene.boxes.len() as i64);
        let own = boxes.as_slice()[row * 20..][..20].chunks(4);
        let stored = scene.boxes.iter().map(|&[x1, y1, x2, y2]| {
            let [w, h] = [scene.size.width, scene.size.height].map(|side| side as f32);
            let [x1, y1, x2, y2] = [x1, y1, x2, y2].map(|edge| edge as f32);
            [(x1 + x2) / 2.0 / w, (y1 + y2) / 2.0 / h, (x2 - x1) / w, (y2 - y1) / h]
        });
        for (found, expected) in own.zip(stored.chain(std::iter::repeat([-1.0; 4]))) {
            let is_near = |(a, b): (&f32, f32)| (a - b).abs() < 1e-6;
            assert!(found.iter().zip(expected).all(is_near), "{found:?} {expected:?}");
        }
    }
}

pub(super) fn build_error(loader: LoaderBuilder) -> String {
    loader.build().unwrap_err().to_string()
}

#[test]
fn lists_that_targets_can_not_follow_are_refused() {
    let size = || CenterCrop::new(20).unwrap();
    let of = |list: Ops| build_error(loader(3, list));
    let reflect = Pad::new(2).unwrap().padding_mode(PaddingMode::Reflect);
    assert_says(of(ops![reflect, size()]), ["Pad repeats parts of the image"]);
    assert_says(of(ops![size(), AugMix::new()]), ["AugMix mixes copies"]);
    let no_boxes = Scenes::new(3).loader().pipeline("image", ops![RandomIoUCrop::new(), size()]);
    let error = build_error(no_boxes.without("mask"));
    assert!(error.contains("RandomIoUCrop has no effect without bounding boxes"), "{error}");
    let error = build_error(loader(3, ops![size()]).pipeline("mask", ops![size(), Squeeze]));
    assert!(error.contains("CenterCrop would move the mask"), "{error}");
    let no_keypoints = |list: Ops| {
        let targets = Targets::new().boxes("bbox", BoxFormat::Xyxy);
        let loader = Scenes::new(3).loader().targets("image", targets).without("mask");
        loader.pipeline("image", list)
    };
    for (list, name) in [
        (ops![ClampKeyPoints, size()], "ClampKeyPoints"),
        (ops![SanitizeKeyPoints, size()], "SanitizeKeyPoints"),
    ] {
        let error = build_error(no_keypoints(list.clone()));
        assert!(error.contains(&format!("{name} has no effect without keypoints")), "{error}");
        loader(3, list).build().unwrap();
    }
    // The index of an op of a mask counts within the mask's own list.
    let flip = || RandomHorizontalFlip::new(0.5).unwrap();
    let of_mask = |own: Ops| build_error(loader(3, ops![flip(), size()]).pipeline("mask", own));
    let error = of_mask(ops![Normalize::new([0.5], [0.5]).unwrap(), Squeeze]);
    assert!(error.contains("op 0 of the list: Normalize would change the class"), "{error}");
    let lut = Lut::same(std::array::from_fn(|value| value as f32)).unwrap();
    let error = of_mask(ops![lut, RandomApply::new(ops![])]);
    assert!(error.contains("op 1 of the list: RandomApply is a container"), "{error}");
    let of_component = loader(3, ops![flip(), size()]).component_ops(0, "mask", ops![Squeeze]);
    assert_says(build_error(of_component), ["a target has one list for all components"]);
    // A mirrored border is fine for masks alone.
    let masks = Scenes::new(3).loader().targets("image", Targets::new().mask("mask", 9));
    masks.pipeline("image", ops![reflect, size()]).build().unwrap();
}

#[test]
fn declarations_that_do_not_fit_are_refused() {
    let with = |targets: Targets| {
        let loader = Scenes::new(3).loader().targets("image", targets).without("mask");
        build_error(loader.pipeline("image", ops![CenterCrop::new(20).unwrap()]))
    };
    let new = Targets::new;
    for (targets, want) in [
        (new().boxes("index", BoxFormat::Xyxy), "bounding boxes are stored as bytes; this is int"),
        (new().mask("bbox", 0), "masks are stored as images; this is bytes"),
        (new().boxes("boxes", BoxFormat::Xyxy), "no field named boxes"),
        (
            new().boxes("bbox", BoxFormat::Xyxy).boxes("points", BoxFormat::Xyxy),
            "bounding boxes are declared twice",
        ),
        (
            new().boxes("bbox", BoundingBoxes::new(BoxFormat::Xyxy).to(BoxFormat::Xywhr)),
            "boxes of format xyxy can't become xywhr",
        ),
        (
            new().boxes("bbox", BoundingBoxes::new(BoxFormat::Cxcywhr).normalized()),
            "can't be normalized",
        ),
        (
            new().keypoints("points", KeyPoints::new(1).flip_pairs(&[[0, 1]])),
            "keypoints [0, 1] of 1",
        ),
    ] {
        assert_says(with(targets), [want]);
    }
    let twice = loader(3, ops![CenterCrop::new(20).unwrap()]).targets("image", targets());
    assert!(build_error(twice).contains("in one call"));
    let of_mask = Scenes::new(3).loader().targets("bbox", Targets::new());
    assert!(build_error(of_mask).contains("targets follow images; this is bytes"));
    let alone = loader(3, ops![CenterCrop::new(20).unwrap()]).without("image");
    assert!(build_error(alone).contains("its image is left out"));
    let collated = Scenes::new(3).loader().targets("image", targets());
    let collated = collated.collate("image", Collate::pad().to_size(64));
    assert!(build_error(collated).contains("its image is collated as it is stored"));
    let list = ops![CenterCrop::new(20).unwrap()];
    let read = |mode| loader(3, list.clone()).read_mode("mask", mode);
    for mode in [ImageReadMode::Gray16, ImageReadMode::Gray, ImageReadMode::Rgb] {
        assert!(build_error(read(mode)).contains("leave out its `read_mode`"), "{mode:?}");
    }
    assert!(read(ImageReadMode::Index).build().is_ok());
}

#[test]
fn damaged_targets_are_named() {
    let error_of = |break_it: fn(&mut Scene)| {
        let mut scenes = Scenes::new(2);
        scenes.0[1].boxes = vec![[1, 2, 5, 9], [3, 3, 9, 9]];
        break_it(&mut scenes.0[1]);
        let loader = scenes.loader().order(Order::Sequential).targets("image", targets());
        let loader = loader.pipeline("image", ops![CenterCrop::new(20).unwrap()]);
        let loader = loader.build().unwrap();
        let batch = loader.epoch(0).unwrap().next().unwrap();
        batch.err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert_eq!(error_of(|_| ()), "");
    for (break_it, want) in [
        (
            (|scene| scene.bbox = Some(floats([5.0, 1.0, 2.0, 3.0].into_iter()))) as fn(&mut Scene),
            "the box of object 0 is [5.0, 1.0, 2.0, 3.0], whose width is negative",
        ),
        (
            |scene| scene.bbox = Some(floats([0.0, 1.0, f32::NAN, 3.0].into_iter())),
            "object 0 has the coordinate NaN",
        ),
        (|scene| scene.bbox = Some(vec![0; 17]), "17 bytes are not whole objects of 16 bytes"),
        (|scene| scene.bbox = Some(vec![0; 48]), "2 for 3 objects: each object needs one"),
        (|scene| scene.mask = Some(Size::new(9, 9)), "a mask of 9x9 for an image of"),
        (|scene| scene.masks = Some("[[[1,2,3]]]"), "the masks of the objects"),
        (|scene| scene.masks = Some("[null]"), "1 for 2 objects"),
    ] {
        assert_says(error_of(break_it), [want, "sample 1"]);
    }
}

#[cfg(feature = "spec")]
#[test]
fn a_pipeline_file_declares_the_same_targets() {
    use fuseloop::spec::Spec;
    let text = r#"
        batch_size = 7
        seed = 3
        [targets.image]
        points = { as = "keypoints", each = 1 }
        label = "column"
        bbox = { as = "boxes", format = "xyxy" }
        segmentation = "instance_masks"
        mask = { as = "mask", fill = 0 }
        [fields]
        image = [{ op = "RandomIoUCrop" }, { op = "RandomResizedCrop", size = 40 }]
        mask = [{ op = "Squeeze" }]
    "#;
    let spec = |text: &str| Spec::parse(text, "pipeline.toml".as_ref());
    let list = ops![RandomIoUCrop::new(), RandomResizedCrop::new(40).unwrap()];
    let of_file = spec(text).unwrap().apply(Scenes::new(30).loader());
    assert_eq!(epoch(of_file), epoch(loader(30, list)));
    for (wrong, want) in [
        ("bbox = \"box\"", "\"boxes\""),
        ("mask = { as = \"mask\", fill = 256 }", "0..=255"),
        ("bbox = { as = \"boxes\", format = \"ltrb\" }", "cxcywh"),
        ("points = { as = \"keypoints\", pairs = [1] }", "flip_pairs"),
    ] {
        let error = spec(&format!("[targets.image]\n{wrong}\n")).unwrap_err().to_string();
        assert!(error.contains(want) && error.contains("pipeline.toml:2"), "{error}");
    }
}

/// Image, mask and instance masks of one sample have one size, which differs from sample to sample.
/// The padding of a batch is what the mask's own ops make of `fill`.
#[test]
fn a_table_of_a_mask_looks_its_padding_up() {
    let sizes = RandomShortestSize::new([20, 30, 44]).unwrap().max_size(60).unwrap();
    let list = ops![sizes.interpolation(Interpolation::Nearest)];
    let table = Lut::same(std::array::from_fn(|k| if k == 255 { 7.0 } else { 200.0 })).unwrap();
    for (ops, inside, outside) in [(ops![], None, 255), (ops![table], Some(200), 7)] {
        let loader = Scenes::new(12).loader().targets("image", Targets::new().mask("mask", 255));
        let loader = loader.without("points").without("bbox").without("label");
        let loader = loader.without("segmentation").pipeline("image", list.clone());
        let loader = loader.collate("image", Collate::pad()).pipeline("mask", ops).build().unwrap();
        let mut padded = 0;
        for batch in loader.epoch(0).unwrap() {
            let batch = batch.unwrap();
            let (masks, sizes) =
                (batch.tensor::<u8>("mask").unwrap(), batch.tensor::<i64>("mask.size").unwrap());
            let stride = masks.shape()[2];
            for row in 0..batch.len() {
                let &[height, width] = sizes.row(row).unwrap() else { panic!("two sides") };
                for (at, &class) in masks.row(row).unwrap().iter().enumerate() {
                    let is_inside = at / stride < height as usize && at % stride < width as usize;
                    padded += usize::from(!is_inside);
                    if is_inside {
                        assert!(
                            inside.is_none_or(|inside| class == inside),
                            "sample {row}: {class}"
                        );
                    } else {
                        assert_eq!(class, outside, "sample {row}");
                    }
                }
            }
        }
        assert!(padded > 100);
    }
}

#[test]
fn targets_follow_images_of_differing_sizes() {
    let sizes = RandomShortestSize::new([20, 30, 44]).unwrap().max_size(60).unwrap();
    let nearest = sizes.interpolation(Interpolation::Nearest);
    let list = || {
        ops![nearest.clone(), RandomHorizontalFlip::new(0.5).unwrap(), SanitizeBoundingBoxes::new()]
    };
    let declared = Targets::new()
        .column("label", DType::I64)
        .boxes("bbox", BoundingBoxes::new(BoxFormat::Xyxy).normalized())
        .instance_masks("segmentation")
        .mask("mask", 255);
    for form in [Collate::pad().to_multiple(16).fill(255.0), Collate::list()] {
        let is_padded = form != Collate::list();
        let loader = Scenes::new(30).loader().targets("image", declared.clone());
        let loader = loader.without("points").pipeline("image", list()).collate("image", form);
        let loader = loader.pipeline("mask", ops![Squeeze]).build().unwrap();
        let mut seen = std::collections::HashSet::new();
        for batch in loader.epoch(0).unwrap() {
            let batch = batch.unwrap();
            let sizes = batch.tensor::<i64>("image.size").unwrap();
            assert_eq!(sizes.as_slice(), batch.tensor::<i64>("mask.size").unwrap().as_slice());
            let own = |name: &str, row: usize| {
                if is_padded {
                    return batch.tensor::<u8>(name).unwrap().row(row).unwrap().to_vec();
                }
                batch.list::<u8>(name).unwrap().nth(row).unwrap().to_vec()
            };
            let counts = batch.tensor::<i64>("segmentation.size").unwrap();
            let labels = batch.ragged::<i64>("label").unwrap();
            let boxes = batch.ragged::<f32>("bbox").unwrap();
            for (row, masks) in batch.list::<u8>("segmentation").unwrap().enumerate() {
                let &[height, width] = sizes.row(row).unwrap() else { panic!("two sides") };
                seen.insert((height, width));
                let (image, mask, labels) =
                    (own("image", row), own("mask", row), labels.row(row).unwrap());
                let levels: Vec<u8> = image.chunks(3).map(|pixel| pixel[0]).collect();
                assert!(levels == mask, "sample {row}");
                assert_eq!(*counts.row(row).unwrap(), [labels.len() as i64, height, width]);
                let (width, area) = (width as usize, (height * width) as usize);
                assert_eq!(masks.len(), labels.len() * area);
                let stride = if is_padded { batch.shape("mask").unwrap()[2] } else { width };
                for (&label, (bounds, own)) in
                    labels.iter().zip(boxes.row(row).unwrap().chunks(4).zip(masks.chunks(area)))
                {
                    let is_own = |at: usize| {
                        (levels[at / width * stride + at % width] == value(label as usize))
                            == (own[at] == 1)
                    };
                    assert!((0..area).all(is_own), "object {label}");
                    assert!(bounds.iter().all(|edge| (0.0..=1.0).contains(edge)), "{bounds:?}");
                }
            }
        }
        assert!(seen.len() > 10, "{seen:?}");
    }
    let loader = Scenes::new(3).loader().targets("image", declared).pipeline("image", list());
    let loader = loader.without("points").collate("image", Collate::list());
    let refused = loader.collate("segmentation", Collate::ragged()).build().err().unwrap();
    assert_eq!(
        refused.to_string(),
        "output segmentation: instance masks differ in size like their images: use `list`, or leave out `collate`"
    );
}

/// Returns the keypoints of one object in an image of 40 x 20, after the ops of `list`.
fn keypoints_after(points: KeyPoints, list: Ops) -> Result<Vec<f32>, BoxError> {
    let dir = tempfile::tempdir()?;
    let file = std::fs::File::create(dir.path().join("1.png"))?;
    let mut png = png::Encoder::new(file, 40, 20);
    png.set_color(png::ColorType::Grayscale);
    png.write_header()?.write_image_data(&[0; 800])?;
    let json = r#"{"images": [{"id": 1, "file_name": "1.png"}], "categories": [{"id": 1, "name": "a"}], "annotations":
        [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [0, 0, 40, 20], "keypoints": [2, 3, 2, 30, 10, 1, 5, 6, 0]}]}"#;
    std::fs::write(dir.path().join("coco.json"), json)?;
    let coco = Annotated::coco(dir.path(), dir.path().join("coco.json"), &CocoOptions::default())?;
    let loader = Loader::from_source(coco)
        .targets("image", Targets::new().keypoints("keypoints", points))
        .batch_size(1)
        .pipeline("image", list)
        .build()?;
    let batch = loader.epoch(0)?.next().ok_or("no batch")??;
    Ok(batch.ragged::<f32>("keypoints")?.values().to_vec())
}

#[test]
fn a_keypoint_that_an_op_moves_out_of_the_image_is_not_visible() -> Result<(), BoxError> {
    let crop = || CenterCrop::new((20, 20)).unwrap();
    let points = || KeyPoints::new(3);
    // The window begins at column 10.
    let expected = [-8.0, 3.0, 0.0, 20.0, 10.0, 0.0, 0.0, 0.0, 0.0];
    assert_eq!(keypoints_after(points(), ops![crop()])?, expected);
    let kept = [-8.0, 3.0, 2.0, 20.0, 10.0, 1.0, 0.0, 0.0, 0.0];
    assert_eq!(keypoints_after(points().keep_visibility(), ops![crop()])?, kept);
    // A border does not bring its pixel back.
    let padded = [12.0, 23.0, 0.0, 40.0, 30.0, 0.0, 0.0, 0.0, 0.0];
    assert_eq!(keypoints_after(points(), ops![crop(), Pad::new(20)?])?, padded);
    let whole = [2.0, 3.0, 2.0, 30.0, 10.0, 1.0, 0.0, 0.0, 0.0];
    assert_eq!(keypoints_after(points(), ops![CenterCrop::new((20, 40))?])?, whole);
    Ok(())
}

#[test]
fn auto_targets_are_all_that_the_dataset_knows_of_its_objects() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/strangers/files/coco-export");
    let open = || {
        let loader = Loader::open(folder.join("annotations/export.json")).unwrap();
        loader.batch_size(2).pipeline("image", ops![Resize::new((12, 16)).unwrap()])
    };
    let rows = |loader: LoaderBuilder| {
        let loader = loader.build().unwrap();
        let batch = loader.epoch(0).unwrap().next().unwrap().unwrap();
        let columns = ["category_id", "annotation_id", "iscrowd"];
        let columns = columns.map(|name| batch.ragged::<i64>(name).unwrap().values().to_vec());
        (batch.ragged::<f32>("bbox").unwrap().values().to_vec(), columns)
    };
    let boxes = [2.0, 2.0, 6.0, 6.0, 2.0, 2.0, 6.0, 6.0];
    assert_eq!(rows(open().auto_targets()), (boxes.to_vec(), [vec![0; 2], vec![1, 2], vec![0; 2]]));
    // Declared targets take precedence.
    let declared =
        Targets::new().boxes("bbox", BoundingBoxes::new(BoxFormat::Xywh).to(BoxFormat::Xyxy));
    let xyxy = [2.0, 2.0, 8.0, 8.0, 2.0, 2.0, 8.0, 8.0];
    assert_eq!(rows(open().targets("image", declared).auto_targets()).0, xyxy);
    #[cfg(feature = "spec")]
    {
        let spec: fuseloop::Spec = "targets = 'auto'".parse().unwrap();
        assert_eq!(rows(spec.apply(open())).0, boxes);
        assert_says("targets = 'all'".parse::<fuseloop::Spec>().unwrap_err(), ["a table"]);
    }
    let error = build_error(open().targets("image", Targets::new().boxes("bbox", BoxFormat::Xyxy)));
    let expected = "boxes of format xyxy are declared, and the dataset says: boxes, xywh";
    assert!(error.contains(expected), "{error}");
    assert_says(build_error(Scenes::new(3).loader().auto_targets()), ["marks no field as"]);
}
