//! Ops that put several images of a batch into one, with their objects: they equal a plain definition, pixel by pixel
//! and object by object, on batches that are not mixed.

use crate::targets::{Scenes, build_error, targets, value};
use fuseloop::batch::Batch;
use fuseloop::internals::assert_says;
use fuseloop::loader::{BoundingBoxes, Cache, Collate, KeyPoints, Targets};
use fuseloop::ops::author::{BatchOp, ImageMix, MultiImageOp, Op};
use fuseloop::ops::internals::{BatchKey, mix_up};
use fuseloop::{LoaderBuilder, ops::*};

const HEIGHT: usize = 45;
const WIDTH: usize = 60;
const PIXELS: usize = HEIGHT * WIDTH;
const SEED: u64 = 3;

/// An object of a sample.
#[derive(Clone, Debug, PartialEq)]
struct Object {
    edges: [f32; 4],
    label: i64,
    point: [f32; 3],
    mask: Vec<u8>,
}

/// A sample: the elements of its image, its mask if there is one, and its objects.
#[derive(Clone, Debug, PartialEq)]
struct Sample {
    image: Vec<u8>,
    mask: Vec<u8>,
    objects: Vec<Object>,
}

fn size() -> CenterCrop {
    CenterCrop::new((HEIGHT as u32, WIDTH as u32)).unwrap()
}

/// A loader whose last batch has one sample.
fn loader(targets: Targets, list: Ops) -> LoaderBuilder {
    let loader = Scenes::new(22).loader().drop_last(false).targets("image", targets);
    let list: Ops = ops![size()].into_iter().chain(list).collect();
    loader.pipeline("image", list)
}

fn objects_only() -> Targets {
    Targets::new()
        .keypoints("points", KeyPoints::new(1))
        .column("label", DType::I64)
        .boxes("bbox", BoxFormat::Xyxy)
        .instance_masks("segmentation")
}

fn batches(loader: LoaderBuilder, epoch: u32) -> Vec<Batch> {
    loader.build().unwrap().epoch(epoch).unwrap().map(Result::unwrap).collect()
}

fn samples(batch: &Batch) -> Vec<Sample> {
    let image = batch.bytes("image").unwrap();
    let mask = batch.bytes("mask").unwrap_or_default();
    let boxes = batch.ragged::<f32>("bbox").unwrap();
    let labels = batch.ragged::<i64>("label").unwrap();
    let points = batch.ragged::<f32>("points").unwrap();
    let masks = batch.ragged::<u8>("segmentation").unwrap();
    let row = |bytes: &[u8], row: usize| {
        let len = bytes.len() / batch.len();
        bytes[row * len..][..len].to_vec()
    };
    let sample = |k: usize| {
        let objects = labels.row(k).unwrap().iter().enumerate().map(|(i, label)| Object {
            edges: boxes.row(k).unwrap()[4 * i..][..4].try_into().unwrap(),
            label: *label,
            point: points.row(k).unwrap()[3 * i..][..3].try_into().unwrap(),
            mask: masks.row(k).unwrap()[i * PIXELS..][..PIXELS].to_vec(),
        });
        let objects: Vec<_> = objects.collect();
        assert_eq!(boxes.row(k).unwrap().len(), 4 * objects.len());
        assert_eq!(points.row(k).unwrap().len(), 3 * objects.len());
        assert_eq!(masks.row(k).unwrap().len(), PIXELS * objects.len());
        Sample { image: row(image, k), mask: row(mask, k), objects }
    };
    (0..batch.len()).map(sample).collect()
}

/// How the elements of an image lie.
#[derive(Clone, Copy)]
struct Elements {
    bytes: usize,
    is_channels_first: bool,
}

const BYTES: Elements = Elements { bytes: 1, is_channels_first: false };

impl Elements {
    /// Returns an image whose every pixel comes from the sample and the place that `from` returns.
    fn made<'a>(
        self,
        len: usize,
        from: impl Fn(usize, usize) -> (&'a [u8], usize, usize),
    ) -> Vec<u8> {
        let channels = len / PIXELS / self.bytes;
        let at = |y: usize, x: usize, channel: usize| {
            let element = if self.is_channels_first {
                channel * PIXELS + y * WIDTH + x
            } else {
                (y * WIDTH + x) * channels + channel
            };
            element * self.bytes
        };
        let mut image = vec![0; len];
        for (y, x) in (0..HEIGHT).flat_map(|y| (0..WIDTH).map(move |x| (y, x))) {
            let (source, from_y, from_x) = from(y, x);
            for channel in 0..channels {
                let (to, from) = (at(y, x, channel), at(from_y, from_x, channel));
                image[to..to + self.bytes].copy_from_slice(&source[from..from + self.bytes]);
            }
        }
        image
    }
}

/// Returns the edges of the pixels of a mask.
fn edges(mask: &[u8]) -> Option<[f32; 4]> {
    let at = || (0..PIXELS).filter(|at| mask[*at] != 0);
    let (x, y) = (|| at().map(|at| at % WIDTH), || at().map(|at| at / WIDTH));
    let edges = [x().min()?, y().min()?, x().max()? + 1, y().max()? + 1];
    Some(edges.map(|edge| edge as f32))
}

/// The definition of SimpleCopyPaste.
fn pasted(elements: Elements, own: &Sample, partner: &Sample, chosen: &[usize]) -> Sample {
    let alpha = |at: usize| chosen.iter().any(|object| partner.objects[*object].mask[at] != 0);
    let covered = |y: usize, x: usize| alpha(y * WIDTH + x);
    let own_objects = own.objects.iter().filter_map(|object| {
        let masked = (0..PIXELS).map(|at| if alpha(at) { 0 } else { object.mask[at] });
        let mask: Vec<u8> = masked.collect();
        let [x, y, visibility] = object.point;
        let is_inside = (0.0..WIDTH as f32).contains(&x) && (0.0..HEIGHT as f32).contains(&y);
        let is_hidden = is_inside && alpha(y as usize * WIDTH + x as usize);
        let point = [x, y, if is_hidden { 1.0 } else { visibility }];
        Some(Object { edges: edges(&mask)?, label: object.label, point, mask })
    });
    let of_partner = chosen.iter().map(|object| partner.objects[*object].clone());
    let of_partner = of_partner.filter(|object| edges(&object.mask).is_some());
    Sample {
        image: elements.made(own.image.len(), |y, x| {
            (if covered(y, x) { &partner.image } else { &own.image }, y, x)
        }),
        mask: BYTES.made(own.mask.len(), |y, x| {
            (if covered(y, x) { &partner.mask } else { &own.mask }, y, x)
        }),
        objects: own_objects.chain(of_partner).collect(),
    }
}

/// The least sides and the least area of an object that Mosaic keeps.
type Limits = [f32; 2];

/// The definition of Mosaic.
fn mosaic(
    elements: Elements,
    four: [&Sample; 4],
    [yc, xc]: [usize; 2],
    [min_size, min_area]: Limits,
) -> Sample {
    let part = |y: usize, x: usize| {
        let index = 2 * usize::from(y >= yc) + usize::from(x >= xc);
        let y = if y < yc { y + HEIGHT - yc } else { y - yc };
        (index, y, if x < xc { x + WIDTH - xc } else { x - xc })
    };
    let mut objects = vec![];
    for (index, sample) in four.iter().enumerate() {
        let (top, bottom) = if index < 2 { (0, yc) } else { (yc, HEIGHT) };
        let (left, right) = if index % 2 == 0 { (0, xc) } else { (xc, WIDTH) };
        let dx = xc as f32 - if index % 2 == 0 { WIDTH as f32 } else { 0.0 };
        let dy = yc as f32 - if index < 2 { HEIGHT as f32 } else { 0.0 };
        let [left, top, right, bottom] = [left, top, right, bottom].map(|edge| edge as f32);
        for object in &sample.objects {
            let [x1, y1, x2, y2] = object.edges;
            let edges = [
                (x1 + dx).clamp(left, right),
                (y1 + dy).clamp(top, bottom),
                (x2 + dx).clamp(left, right),
                (y2 + dy).clamp(top, bottom),
            ];
            let [width, height] = [edges[2] - edges[0], edges[3] - edges[1]];
            if width < min_size || height < min_size || width * height < min_area {
                continue;
            }
            let (x, y) = (object.point[0] + dx, object.point[1] + dy);
            let is_shown = (left..right).contains(&(x + 0.5)) && (top..bottom).contains(&(y + 0.5));
            let mask = (0..PIXELS).map(|at| match part(at / WIDTH, at % WIDTH) {
                (of, y, x) if of == index => object.mask[y * WIDTH + x],
                _ => 0,
            });
            let mask: Vec<u8> = mask.collect();
            if mask.iter().all(|pixel| *pixel == 0) && object.mask.iter().any(|pixel| *pixel != 0) {
                continue;
            }
            let point = if is_shown { [x, y, object.point[2]] } else { [0.0; 3] };
            objects.push(Object { edges, label: object.label, point, mask });
        }
    }
    Sample {
        image: elements.made(four[0].image.len(), |y, x| {
            let (index, y, x) = part(y, x);
            (&four[index].image, y, x)
        }),
        mask: BYTES.made(four[0].mask.len(), |y, x| {
            let (index, y, x) = part(y, x);
            (&four[index].mask, y, x)
        }),
        objects,
    }
}

/// Asserts that mixed batches are what the definition makes of plain ones. Returns how many rows were mixed.
fn assert_defined<O: MultiImageOp + Op + Clone + 'static>(
    (tail, elements): (fn() -> Ops, Elements),
    op: &O,
    limits: Limits,
) -> usize {
    let list = |last: Ops| tail().into_iter().chain(last).collect::<Ops>();
    let plain = batches(loader(targets(), list(ops![])).workers(1), 1);
    let mixed = batches(loader(targets(), list(ops![op.clone()])).workers(2), 1);
    assert_eq!((plain.len(), plain.last().unwrap().len()), (4, 1));
    let mut count = 0;
    for (plain, mixed) in plain.iter().zip(&mixed) {
        assert_eq!(plain.ids(), mixed.ids());
        let (before, after) = (samples(plain), samples(mixed));
        let objects: Vec<usize> = before.iter().map(|sample| sample.objects.len()).collect();
        let mut rng = BatchKey::new(SEED, 1, plain.index()).op(op.name(), 0);
        let drawn = op.draw(&mut rng, &objects, Size::new(HEIGHT as u32, WIDTH as u32));
        for (row, mix) in drawn.iter().enumerate() {
            count += usize::from(*mix != ImageMix::Unchanged);
            let expected = match mix {
                ImageMix::Unchanged => before[row].clone(),
                ImageMix::Paste { partner, objects } => {
                    pasted(elements, &before[row], &before[*partner], objects)
                }
                ImageMix::Mosaic { rows, center } => {
                    let center = center.map(|c| c as usize);
                    mosaic(elements, rows.map(|row| &before[row]), center, limits)
                }
            };
            assert!(after[row] == expected, "{mix:?} of row {row}");
        }
    }
    count
}

fn floats(dtype: DType) -> Ops {
    ops![Normalize::imagenet(), Convert::to(dtype), ToChannelsFirst]
}

const FORMS: [(fn() -> Ops, Elements); 5] = [
    (|| ops![], BYTES),
    (|| ops![ToChannelsFirst], Elements { bytes: 1, is_channels_first: true }),
    (|| floats(DType::F16), Elements { bytes: 2, is_channels_first: true }),
    (|| floats(DType::F32), Elements { bytes: 4, is_channels_first: true }),
    (
        || ops![Normalize::imagenet(), Convert::to(DType::F64)],
        Elements { bytes: 8, is_channels_first: false },
    ),
];

#[test]
fn a_mosaic_is_its_definition_in_every_type_and_layout() {
    for form in FORMS {
        assert_eq!(assert_defined(form, &Mosaic::new(), [1.0; 2]), 22);
    }
    assert_defined(FORMS[0], &Mosaic::new().center(0.0..=1.0).unwrap(), [1.0; 2]);
    assert_defined(FORMS[0], &Mosaic::new().center(1.0..=1.0).unwrap(), [1.0; 2]);
    let large = Mosaic::new().min_size(4.0).unwrap().min_area(60.0).unwrap();
    assert_defined(FORMS[0], &large, [4.0, 60.0]);
    let some = assert_defined(FORMS[0], &Mosaic::new().p(0.5).unwrap(), [1.0; 2]);
    assert!((4..18).contains(&some), "{some}");
}

#[test]
fn pasted_objects_are_the_definition_in_every_type_and_layout() {
    for form in FORMS {
        let count = assert_defined(form, &SimpleCopyPaste::new(), [0.0; 2]);
        assert!(count > 15, "{count}");
    }
    let some = assert_defined(FORMS[0], &SimpleCopyPaste::new().p(0.5).unwrap(), [0.0; 2]);
    assert!((4..18).contains(&some), "{some}");
}

/// Every object is painted with the level of its label.
#[test]
fn objects_are_where_their_masks_and_boxes_are() {
    let list =
        || ops![RandomHorizontalFlip::new(0.5).unwrap(), SimpleCopyPaste::new(), Mosaic::new()];
    let mut count = 0;
    for batch in (0..4).flat_map(|epoch| batches(loader(targets(), list()), epoch)) {
        for Sample { image, mask, objects } in samples(&batch) {
            for Object { edges: found, label, mask: own, .. } in objects {
                count += 1;
                let mut pixels = (0..PIXELS).filter(|at| own[*at] != 0);
                assert!(pixels.all(|at| image[3 * at] == value(label as usize)));
                // A box that a later object covers in part may end where its paint does not.
                if let Some([x1, y1, x2, y2]) = edges(&own) {
                    assert!(found[0] <= x1 && found[1] <= y1 && found[2] >= x2 && found[3] >= y2);
                }
            }
            assert!((0..PIXELS).all(|at| image[3 * at] == mask[at]));
        }
    }
    assert!(count > 400, "{count}");
}

/// Slivers at the seams have less than a pixel, and masks of nothing.
#[test]
fn a_mosaic_leaves_no_sliver_and_no_empty_mask() {
    // Boxes begin at fractions of a pixel.
    let resized = || ops![Resize::new((51, 67)).unwrap(), CenterCrop::new((45, 60)).unwrap()];
    let objects = |list: Ops| {
        let list: Ops = resized().into_iter().chain(list).collect();
        let scenes = Scenes::new(22).loader().drop_last(false).without("mask");
        let loader = scenes.targets("image", objects_only()).pipeline("image", list);
        let batches = batches(loader, 0).into_iter().flat_map(|batch| samples(&batch));
        batches.flat_map(|sample| sample.objects).collect::<Vec<_>>()
    };
    let sides = |object: &Object| {
        let [x1, y1, x2, y2] = object.edges;
        (x2 - x1).min(y2 - y1)
    };
    let all = objects(ops![Mosaic::new().min_size(0.01).unwrap().min_area(1e-4).unwrap()]);
    let kept = objects(ops![Mosaic::new()]);
    assert!(all.len() > kept.len() && kept.len() > 20, "{} of {}", kept.len(), all.len());
    for object in &kept {
        assert!(sides(object) >= 0.999 && object.mask.iter().any(|pixel| *pixel != 0));
    }
}

/// Ops on objects after an op that mixes change the batch that it leaves: everything of an object together.
#[test]
fn ops_on_objects_follow_ops_that_mix() {
    let of = |list: Ops| {
        let batches = batches(loader(targets(), list), 2).into_iter();
        batches.flat_map(|batch| samples(&batch)).collect::<Vec<_>>()
    };
    let mixed = || of(ops![SimpleCopyPaste::new(), Mosaic::new()]);
    let with = |last: Ops| {
        let list: Ops = ops![SimpleCopyPaste::new(), Mosaic::new()];
        of(list.into_iter().chain(last).collect())
    };
    let expected = |keeps: fn(&Object) -> bool| {
        let mut samples = mixed();
        samples.iter_mut().for_each(|sample| sample.objects.retain(keeps));
        samples
    };
    let count =
        |samples: &[Sample]| samples.iter().map(|sample| sample.objects.len()).sum::<usize>();
    let sanitize = SanitizeBoundingBoxes::new().min_size(6.0).unwrap().min_area(70.0).unwrap();
    let large = expected(|object| {
        let [x1, y1, x2, y2] = object.edges;
        x2 - x1 >= 6.0 && y2 - y1 >= 6.0 && (x2 - x1) * (y2 - y1) >= 70.0
    });
    assert!(count(&large) > 30 && count(&large) + 20 < count(&mixed()), "{}", count(&large));
    assert!(with(ops![sanitize]) == large);
    assert!(with(ops![sanitize, sanitize]) == large);
    // All keypoints and boxes are inside, or not labelled.
    assert!(with(ops![ClampKeyPoints, ClampBoundingBoxes]) == mixed());
    // Boxes in another format come in it, whether the op is before or after.
    let convert = || ConvertBoundingBoxFormat::new(BoxFormat::Cxcywh);
    let after = with(ops![convert(), sanitize]);
    for (sample, edges) in after.iter().zip(&large) {
        for (found, Object { edges: [x1, y1, x2, y2], .. }) in
            sample.objects.iter().zip(&edges.objects)
        {
            let wanted = [(x1 + x2) / 2.0, (y1 + y2) / 2.0, x2 - x1, y2 - y1];
            assert_eq!(found.edges, wanted);
        }
        assert_eq!(sample.objects.len(), edges.objects.len());
    }
}

/// Also after an op that blends two images, and for boxes that an op moves.
#[test]
fn ops_on_objects_follow_mixup() {
    let boxes = |clamping: ClampingMode, list: Ops| {
        let targets = Targets::new()
            .boxes("bbox", BoundingBoxes::new(BoxFormat::Xyxy).clamping(clamping))
            .column("label", DType::I64);
        let batches = batches(loader(targets, list).without("mask"), 0);
        let rows = |batch: &Batch| {
            let boxes = batch.ragged::<f32>("bbox").unwrap();
            let labels = batch.ragged::<i64>("label").unwrap();
            let row = |row| (boxes.row(row).unwrap().to_vec(), labels.row(row).unwrap().to_vec());
            (0..batch.len()).map(row).collect::<Vec<_>>()
        };
        batches.iter().flat_map(rows).collect::<Vec<_>>()
    };
    let shift = || RandomCrop::new((30, 40)).unwrap();
    let mixup = || MixUp::new(32.0).unwrap();
    let outside = boxes(ClampingMode::None, ops![shift(), mixup()]);
    assert!(outside.iter().flat_map(|(boxes, _)| boxes).any(|edge| *edge < 0.0));
    let clamp = || ClampBoundingBoxes;
    let clamped = boxes(ClampingMode::None, ops![shift(), mixup(), clamp()]);
    let sanitized = boxes(ClampingMode::None, ops![shift(), mixup(), SanitizeBoundingBoxes::new()]);
    let mut removed = 0;
    for (((before, labels), (after, same)), (inside, left)) in
        outside.iter().zip(&clamped).zip(&sanitized)
    {
        assert_eq!(labels, same);
        let limits = [40.0_f32, 30.0, 40.0, 30.0];
        let ends = before.iter().zip(limits.iter().cycle());
        let wanted: Vec<f32> = ends.map(|(edge, limit)| edge.clamp(0.0, *limit)).collect();
        assert_eq!(*after, wanted);
        let kept = before.chunks(4).zip(labels).filter(|(edges, _)| {
            let is_inside = edges.iter().zip(&limits).all(|(e, limit)| (0.0..=*limit).contains(e));
            is_inside && edges[2] - edges[0] >= 1.0 && edges[3] - edges[1] >= 1.0
        });
        let (boxes, labels): (Vec<_>, Vec<_>) =
            kept.map(|(edges, label)| (edges.to_vec(), *label)).unzip();
        assert_eq!((&boxes.concat(), &labels), (inside, left));
        removed += before.len() / 4 - left.len();
    }
    assert!(removed > 5, "{removed}");
}

#[test]
fn mixup_joins_the_objects_of_both() {
    let op = || MixUp::new(32.0).unwrap().per_sample().p(0.7).unwrap();
    let list = |op: Ops| loader(objects_only(), op).without("mask");
    let (plain, mixed) = (batches(list(ops![]), 2), batches(list(ops![op()]), 2));
    let mut joined = 0;
    for (plain, mixed) in plain.iter().zip(&mixed) {
        let (before, after) = (samples(plain), samples(mixed));
        let mut rng = BatchKey::new(SEED, 2, plain.index()).op("MixUp", 0);
        let drawn = op().draw(&mut rng, before.len(), Size::new(HEIGHT as u32, WIDTH as u32));
        for (row, mix) in drawn.iter().enumerate() {
            let (own, partner) = (&before[row], &before[mix.partner]);
            let is_mixed = mix.share != 1.0 && mix.partner != row;
            joined += usize::from(is_mixed);
            let expected = if is_mixed {
                let pixels = own.image.iter().zip(&partner.image);
                let image = pixels.map(|(own, other)| mix_up::eval_u8(*own, *other, mix.share));
                let objects = own.objects.iter().chain(&partner.objects).cloned().collect();
                Sample { image: image.collect(), objects, ..own.clone() }
            } else {
                own.clone()
            };
            assert!(after[row] == expected, "row {row}: {mix:?}");
        }
    }
    assert!((8..20).contains(&joined), "{joined}");
}

#[test]
fn mixed_targets_are_the_same_for_any_number_of_workers_and_from_a_cache() {
    let list = || {
        let crop = RandomResizedCrop::new((45, 60)).unwrap();
        ops![crop, SimpleCopyPaste::new(), Mosaic::new(), MixUp::new(32.0).unwrap()]
    };
    let bytes = |change: fn(LoaderBuilder) -> LoaderBuilder| {
        let loader = change(loader(objects_only(), list()).without("mask")).build().unwrap();
        let epoch = |epoch| loader.epoch(epoch).unwrap().map(|batch| samples(&batch.unwrap()));
        (epoch(0).collect::<Vec<_>>(), epoch(1).collect::<Vec<_>>())
    };
    let one = bytes(|loader| loader.workers(1));
    assert!(one.0.iter().flatten().any(|sample| sample.objects.len() > 8));
    assert!(bytes(|loader| loader.workers(4)) == one);
    assert!(bytes(|loader| loader.cache(Cache::memory(1 << 24))) == one);
    let resumed = loader(objects_only(), list()).without("mask").build().unwrap();
    let mut run = resumed.epoch(1).unwrap();
    drop(run.next().unwrap().unwrap());
    let cursor = run.cursor().unwrap();
    drop(run);
    let rest = resumed.resume(&cursor.to_string().parse().unwrap()).unwrap();
    assert!(rest.map(|batch| samples(&batch.unwrap())).eq(one.1.into_iter().skip(1)));
}

#[test]
fn boxes_are_read_back_in_every_format() {
    let boxes = |boxes: BoundingBoxes| {
        let targets = Targets::new().boxes("bbox", boxes);
        let mosaic = Mosaic::new().center(0.3..=0.9).unwrap();
        batches(loader(targets, ops![mosaic]).without("mask"), 0)
    };
    let plain = boxes(BoundingBoxes::new(BoxFormat::Xyxy));
    let (width, height) = (WIDTH as f32, HEIGHT as f32);
    for format in [BoxFormat::Xyxy, BoxFormat::Xywh, BoxFormat::Cxcywh] {
        let declared = BoundingBoxes::new(BoxFormat::Xyxy).to(format);
        for (scale, found) in
            [([1.0; 2], boxes(declared)), ([width, height], boxes(declared.normalized()))]
        {
            for (plain, found) in plain.iter().zip(&found) {
                let (plain, found) =
                    (plain.ragged::<f32>("bbox").unwrap(), found.ragged::<f32>("bbox").unwrap());
                assert_eq!(plain.offsets(), found.offsets());
                assert!(!plain.values().is_empty());
                for (edges, found) in plain.values().chunks(4).zip(found.values().chunks(4)) {
                    let &[x1, y1, x2, y2] = edges else { panic!("four edges") };
                    let wanted = match format {
                        BoxFormat::Xywh => [x1, y1, x2 - x1, y2 - y1],
                        BoxFormat::Cxcywh => [(x1 + x2) / 2.0, (y1 + y2) / 2.0, x2 - x1, y2 - y1],
                        _ => [x1, y1, x2, y2],
                    };
                    for (i, (wanted, found)) in wanted.iter().zip(found).enumerate() {
                        assert!((wanted - found * scale[i % 2]).abs() < 1e-4, "{edges:?} {found}");
                    }
                }
            }
        }
    }
}

#[test]
fn rows_have_room_for_the_objects_or_the_cure_is_named() {
    let names = ["bbox", "label", "points", "segmentation"];
    let with = |collate: Collate| {
        let loader = loader(objects_only(), ops![MixUp::new(32.0).unwrap()]).without("mask");
        names.into_iter().fold(loader, |loader, name| loader.collate(name, collate.clone()))
    };
    let whole = batches(loader(objects_only(), ops![MixUp::new(32.0).unwrap()]).without("mask"), 0);
    assert!(whole.iter().flat_map(samples).any(|sample| sample.objects.len() > 5));
    let mut epoch = with(Collate::ragged().to(5)).build().unwrap().epoch(0).unwrap();
    let error = epoch.find_map(Result::err).unwrap().to_string();
    let cure =
        "rows of its targets have room for 5: raise `to` in their `collate`, or use `truncate`";
    assert!(error.contains("image: a mixed image has") && error.contains(cure), "{error}");
    let cut = batches(with(Collate::ragged().to(5).truncate()), 0);
    for (whole, cut) in whole.iter().zip(&cut) {
        for (whole, cut) in samples(whole).iter().zip(samples(cut)) {
            assert_eq!(cut.objects, whole.objects[..whole.objects.len().min(5)]);
        }
    }
    let padded = batches(with(Collate::pad().to(17).fill(7.0)), 0);
    for (whole, padded) in whole.iter().zip(&padded) {
        let (boxes, lengths) =
            (padded.tensor::<f32>("bbox").unwrap(), padded.tensor::<i64>("bbox.length").unwrap());
        assert_eq!(boxes.shape(), [whole.len(), 17, 4]);
        let ragged = whole.ragged::<f32>("bbox").unwrap();
        for (row, values) in boxes.as_slice().chunks(17 * 4).enumerate() {
            let own = ragged.row(row).unwrap();
            assert_eq!(own.len(), 4 * lengths.as_slice()[row] as usize);
            assert!(values.starts_with(own) && values[own.len()..].iter().all(|v| *v == 7.0));
        }
    }
    let one = loader(objects_only(), ops![MixUp::new(32.0).unwrap()]).without("mask");
    let error = build_error(one.collate("label", Collate::ragged().to(9)));
    assert!(error.contains("room for the same number of objects"), "{error}");
}

#[test]
fn lists_that_can_not_be_mixed_are_refused() {
    let of = |targets: Targets, list: Ops| build_error(loader(targets, list).without("mask"));
    let mixup = || MixUp::new(1.0).unwrap();
    for (list, wanted) in [
        (ops![CutMix::new(1.0).unwrap()], "cuts other images into an image"),
        (ops![ToDevice::to(Device::Auto), Mosaic::new()], "leave ToDevice out of the list"),
        (ops![ToDevice::to(Device::Auto), mixup()], "leave ToDevice out of the list"),
        (
            ops![Mosaic::new(), ToDevice::to(Device::Auto)],
            "takes one sample at a time (put it before the ops",
        ),
        (
            ops![ToDevice::to(Device::Auto), mixup(), RandomHorizontalFlip::new(0.5).unwrap()],
            "leave ToDevice out of the list",
        ),
        (
            ops![RandomApply::new(ops![Mosaic::new()])],
            "a finished batch (put it last, outside of containers)",
        ),
    ] {
        assert_says(of(objects_only(), list), [wanted]);
    }
    let error = of(Targets::new().boxes("bbox", BoxFormat::Xyxy), ops![SimpleCopyPaste::new()]);
    assert!(error.contains("declare `instance_masks` in `targets`"), "{error}");
    assert_says(build_error(loader(targets(), ops![mixup()])), ["values of no class"]);
    let error = build_error(Scenes::new(3).loader().pipeline("image", ops![size(), Mosaic::new()]));
    assert!(error.contains("declare them in `targets`"), "{error}");
    let label = Scenes::new(3).loader().without("image").without("mask");
    let error = build_error(label.pipeline("index", ops![Mosaic::new()]));
    assert!(error.contains("Mosaic takes an image"), "{error}");
    let left_out = loader(objects_only(), ops![Mosaic::new()]).without("mask").without("bbox");
    assert_says(build_error(left_out), ["don't leave this field out"]);
    let sanitized = loader(objects_only(), ops![mixup(), SanitizeBoundingBoxes::new()]);
    let error = build_error(sanitized.without("mask").without("bbox"));
    assert!(error.contains("don't leave this field out"), "{error}");
    let points = Targets::new().keypoints("points", KeyPoints::new(1));
    let error = build_error(loader(points, ops![Mosaic::new(), SanitizeBoundingBoxes::new()]));
    assert!(error.contains("has no effect without bounding boxes"), "{error}");
    // Lists that do not end with one size.
    let padded = loader(objects_only(), ops![Mosaic::new()]).without("mask");
    assert_says(build_error(padded.collate("image", Collate::pad())), ["Mosaic"]);
    let sizes = Scenes::new(3).loader().targets("image", objects_only()).without("mask");
    assert_says(build_error(sizes.pipeline("image", ops![Mosaic::new()])), ["can't share a batch"]);
}

#[cfg(feature = "spec")]
#[test]
fn a_pipeline_file_names_the_same_ops() {
    use fuseloop::spec::Spec;
    let text = r#"
        batch_size = 7
        seed = 3
        drop_last = false
        [fields]
        image = [
            { op = "CenterCrop", size = [45, 60] },
            { op = "SimpleCopyPaste", p = 0.8 },
            { op = "Mosaic", center = [0.1, 0.9], min_size = 3.0, min_area = 20.0, p = 0.9 },
            { op = "SanitizeBoundingBoxes", min_size = 5.0 },
            { op = "MixUp", alpha = 32.0 },
        ]
    "#;
    let spec = Spec::parse(text, "pipeline.toml".as_ref()).unwrap();
    let scenes = Scenes::new(22).loader().targets("image", objects_only()).without("mask");
    let mosaic = Mosaic::new().center(0.1..=0.9).unwrap().p(0.9).unwrap();
    let mosaic = mosaic.min_size(3.0).unwrap().min_area(20.0).unwrap();
    let sanitize = SanitizeBoundingBoxes::new().min_size(5.0).unwrap();
    let paste = SimpleCopyPaste::new().p(0.8).unwrap();
    let list = ops![paste, mosaic, sanitize, MixUp::new(32.0).unwrap()];
    let code = batches(loader(objects_only(), list).without("mask"), 0);
    let file = batches(spec.apply(scenes), 0);
    assert!(code.iter().map(samples).eq(file.iter().map(samples)));
}
