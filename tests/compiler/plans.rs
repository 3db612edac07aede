//! The texts of plans and their errors, stored as files; the limit on ops; and which kernels share code.
//!
//! `BLESS=1 cargo test --test compiler plans::` accepts changes: look at the diff first.

use fuseloop::internals::jit::{self, Kernel, KernelCache};
use fuseloop::internals::plan::{Draws, ElementPlan, ImagePlan, MAX_OPS};
use fuseloop_ops::author::{Dim, ImageType, Op, Type};
use fuseloop_ops::internals::{ImageView, SampleKey};
use fuseloop_ops::*;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::{env, fs};

/// Compares `got` with the text stored in `tests/golden/plans/{name}`, or writes it if `BLESS` is set.
fn assert_golden(name: &str, got: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/plans").join(name);
    if env::var_os("BLESS").is_some() {
        fs::write(&path, got).unwrap();
    }
    let want = fs::read_to_string(&path).unwrap_or_default();
    assert!(got == want, "{name} changed; BLESS=1 accepts it\n--- kept\n{want}\n--- now\n{got}");
}

/// Decoded images of sizes that are not known in advance.
fn photos() -> ImageType {
    let side = Dim { min: 1, max: 65_535 };
    ImageType::decoded(side, side)
}

/// Decoded images of one size.
fn images(height: u32, width: u32) -> ImageType {
    ImageType::decoded(Dim::fixed(height), Dim::fixed(width))
}

fn plan(ops: Ops, input: ImageType) -> Result<ImagePlan, fuseloop::Error> {
    ImagePlan::new(ops, input, NumberRule::Fused)
}

fn compile(ops: Ops, input: ImageType) -> Kernel {
    Kernel::compile(plan(ops, input).unwrap()).unwrap()
}

fn random_crop_to(side: u32) -> RandomResizedCrop {
    RandomResizedCrop::new(side).unwrap()
}

fn flip() -> RandomHorizontalFlip {
    RandomHorizontalFlip::new(0.5).unwrap()
}

fn jitter() -> ColorJitter {
    ColorJitter::new(0.4, 0.4, 0.4).unwrap()
}

fn half() -> Convert {
    Convert::to(DType::F16)
}

/// The pipeline of an ImageNet training, at a side in pixels.
fn imagenet_train(side: u32) -> Ops {
    ops![random_crop_to(side), flip(), Normalize::imagenet(), half(), ToChannelsFirst]
}

fn imagenet_validation() -> Ops {
    let resize = Resize::new(256).unwrap();
    let crop = CenterCrop::new(224).unwrap();
    ops![resize, crop, Normalize::imagenet(), half(), ToChannelsFirst]
}

fn ffcv_validation() -> Ops {
    let crop = CenterCrop::new(224).unwrap().ratio(224.0 / 256.0).unwrap();
    let crop = crop.interpolation(Interpolation::Area);
    ops![crop, Normalize::imagenet(), ToChannelsFirst]
}

fn cifar_train() -> Ops {
    let shift = RandomTranslate::new(4).unwrap().fill([125, 123, 114]);
    let cutout = Cutout::new(8).unwrap().fill([125, 123, 114]);
    ops![flip(), shift, cutout, Normalize::cifar10(), half(), ToChannelsFirst]
}

fn cifar_crop() -> Ops {
    let crop = RandomCrop::new(32).unwrap().padding(4).unwrap();
    ops![crop, flip(), Normalize::cifar10(), ToChannelsFirst]
}

/// A resize after colour ops: they need a block of their own.
fn two_blocks() -> Ops {
    let brightness = RandomBrightness::new(0.4).unwrap();
    let contrast = RandomContrast::new(0.4).unwrap();
    ops![Resize::new((256, 256)).unwrap(), brightness, contrast, random_crop_to(224), flip()]
}

fn poisoned() -> Ops {
    let size = Size::new(32, 32);
    let poison = Poison::new(size, &[255.0; 3072], &[0.5; 1024], [7]).unwrap();
    ops![CenterCrop::new(32).unwrap(), poison, flip(), ToChannelsFirst]
}

/// Two jitters, which have 36 orders, and then `count` means of everything before them.
fn many_contrasts(count: usize) -> Ops {
    let contrast = |_| Arc::new(RandomContrast::new(0.4).unwrap()) as Arc<dyn Op>;
    let mut list = ops![CenterCrop::new(32).unwrap(), jitter(), jitter()];
    list.extend((0..count).map(contrast));
    list
}

/// Eight coins, each of which may add noise, where values are floats: 256 loops.
fn coins_on_half_floats() -> Ops {
    let noise = || GaussianNoise::new().clip(false);
    let coin = |_| Arc::new(RandomApply::new(ops![noise()])) as Arc<dyn Op>;
    let half = Convert::to(DType::F16);
    let mut list = ops![CenterCrop::new(8).unwrap(), half];
    list.extend((0..8).map(coin));
    list
}

#[test]
fn usual_plans_explain_themselves() {
    let bands = ImageType::array(Size::new(64, 64), 13, DType::I16);
    let colours = || ops![Levels::of(0.0, 3000.0).unwrap(), jitter(), Normalize::imagenet()];
    let rgb = || ops![SelectChannels::new([3, 2, 1]).unwrap()];
    let gain = || ops![Gain::new(-6.0, 6.0).unwrap()];
    let pipelines: [(&str, Ops, ImageType); 14] = [
        ("no ops, images of one size", ops![], images(32, 32)),
        ("ImageNet, training", imagenet_train(224), photos()),
        ("ImageNet, validation", imagenet_validation(), photos()),
        ("ImageNet, validation as FFCV has it", ffcv_validation(), photos()),
        (
            "ImageNet, training with colour jitter",
            ops![random_crop_to(224), flip(), jitter(), Normalize::imagenet(), ToChannelsFirst],
            photos(),
        ),
        ("CIFAR, training", cifar_train(), images(32, 32)),
        ("CIFAR, a crop of the framed image", cifar_crop(), images(32, 32)),
        (
            "a shift after colour",
            ops![
                RandomSaturation::new(0.4).unwrap(),
                RandomTranslate::new(4).unwrap(),
                RandomVerticalFlip::new(0.5).unwrap(),
                Convert::to(DType::Bf16)
            ],
            images(32, 32),
        ),
        (
            "bf16 for NumPy",
            ops![
                CenterCrop::new(32).unwrap(),
                Normalize::cifar10(),
                Convert::to(DType::Bf16),
                View::new(DType::I16),
                ToChannelsFirst
            ],
            images(40, 40),
        ),
        ("a resize after colour", two_blocks(), photos()),
        ("an op in plain Rust", poisoned(), images(40, 40)),
        (
            "gray photographs",
            ops![
                random_crop_to(64),
                Grayscale::new(),
                Normalize::new([0.5], [0.2]).unwrap(),
                Squeeze
            ],
            photos(),
        ),
        ("three bands of thirteen", [ops![flip()], rgb(), colours()].concat(), bands),
        ("three bands of thirteen after a gain", [gain(), rgb(), colours()].concat(), bands),
    ];
    let mut text = String::new();
    for (name, ops, input) in pipelines {
        let plan = plan(ops, input).unwrap();
        writeln!(text, "# {name}, from {}\n{}", Type::Image(input), plan.explain()).unwrap();
    }
    assert_golden("explain.txt", &text);
}

#[test]
fn every_refused_list_says_why() {
    let normalize = Normalize::imagenet;
    let cast = Convert::to;
    let many = |count| (0..count).map(|_| Arc::new(flip()) as Arc<dyn Op>).collect::<Ops>();
    let crop = || CenterCrop::new(8).unwrap();
    let replace = || ReplaceLabel::new([1], 2);
    let one_hot = || OneHot::new(10).unwrap();
    let poison = Poison::new(Size::new(2, 2), &[0.0; 12], &[0.0; 4], []).unwrap();
    let lists: Vec<(&str, Ops)> = vec![
        ("images of any size", ops![flip()]),
        ("one side of any size", ops![Resize::new(256).unwrap()]),
        ("257 ops", many(MAX_OPS + 1)),
        ("coins on half floats", coins_on_half_floats()),
        ("more code than compiles in a moment", many_contrasts(200)),
        ("colour after Normalize", ops![crop(), normalize(), jitter()]),
        ("a resize after i64", ops![crop(), cast(DType::I64), random_crop_to(8)]),
        ("Normalize twice", ops![crop(), normalize(), flip(), normalize()]),
        ("Normalize after i64", ops![crop(), cast(DType::I64), normalize()]),
        ("f64 to f32", ops![crop(), cast(DType::F64), cast(DType::F32)]),
        ("i32 to f32", ops![crop(), cast(DType::I32), cast(DType::F32)]),
        ("a view of another size", ops![crop(), View::new(DType::F16)]),
        ("a flip after View", ops![crop(), cast(DType::F16), View::new(DType::I16), flip()]),
        ("a mask of another size", ops![crop(), poison]),
        ("OneHot on an image", ops![crop(), one_hot()]),
        ("ReplaceLabel on an image", ops![replace()]),
        ("Squeeze on an image", ops![Squeeze]),
    ];
    let mut text = String::new();
    for (name, ops) in lists {
        let error = plan(ops, photos()).expect_err(name);
        writeln!(text, "# {name}\n{error}\n").unwrap();
    }
    let labels: Vec<(&str, DType, Ops)> = vec![
        ("257 ops on a label", DType::I64, many(MAX_OPS + 1)),
        ("a crop of a label", DType::I64, ops![crop()]),
        ("colour of a label", DType::I64, ops![jitter()]),
        ("Normalize on a label", DType::F64, ops![normalize()]),
        ("OneHot on a float", DType::F64, ops![one_hot()]),
        ("OneHot twice", DType::I64, ops![one_hot(), one_hot()]),
        ("ReplaceLabel on a float", DType::F64, ops![replace()]),
        ("ReplaceLabel after OneHot", DType::I64, ops![one_hot(), replace()]),
        ("OneHot on an i32", DType::I64, ops![cast(DType::I32), one_hot()]),
        ("a label viewed as f32", DType::I64, ops![View::new(DType::F32)]),
    ];
    for (name, input, ops) in labels {
        let error = ElementPlan::of_label(ops, input).expect_err(name);
        writeln!(text, "# {name}\n{error}\n").unwrap();
    }
    let plan = ElementPlan::of_label(ops![one_hot()], DType::I64).unwrap();
    let error =
        plan.evaluate(SampleKey::default(), &(-1i64).to_le_bytes(), &mut [0; 40]).unwrap_err();
    writeln!(text, "# a label that is no class\n{error}").unwrap();
    assert_golden("refused.txt", &text);
}

#[test]
fn every_refused_parameter_says_why() {
    let crop = RandomResizedCrop::new(224).unwrap();
    let normalize = |mean, std| Normalize::levels([mean, 0.0, 0.0], [std, 1.0, 1.0]).map(drop);
    let poison =
        |mask: &[f64], alpha: &[f64]| Poison::new(Size::new(1, 1), mask, alpha, []).map(drop);
    let results: Vec<Result<(), ParamError>> = vec![
        CenterCrop::new((0, 1)).map(drop),
        CenterCrop::new((1, 65_536)).map(drop),
        CenterCrop::new(1).and_then(|op| op.ratio(0.0)).map(drop),
        CenterCrop::new(1).and_then(|op| op.ratio(f64::NAN)).map(drop),
        ColorJitter::new(-0.1, 0.0, 0.0).map(drop),
        ColorJitter::new(0.0, f64::NAN, 0.0).map(drop),
        Cutout::new(0).map(drop),
        Normalize::levels([f64::INFINITY; 3], [1.0; 3]).map(drop),
        Normalize::levels([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]).map(drop),
        Normalize::new([123.675, 116.28, 103.53], [58.395, 57.12, 57.375]).map(drop),
        normalize(1e7, 1.0),
        normalize(0.0, 0.0),
        normalize(0.0, f64::NAN),
        OneHot::new(0).map(drop),
        OneHot::new(1_000_001).map(drop),
        poison(&[0.0; 3], &[]),
        poison(&[0.0; 2], &[0.0]),
        poison(&[0.0, 0.0, f64::NAN], &[0.0]),
        RandomBrightness::new(-1.0).map(drop),
        RandomContrast::new(f64::INFINITY).map(drop),
        RandomSaturation::new(0.4).and_then(|op| op.p(1.5)).map(drop),
        RandomCrop::new((0, 1)).map(drop),
        RandomCrop::new(1).unwrap().padding(65_536).map(drop),
        RandomHorizontalFlip::new(-0.1).map(drop),
        RandomVerticalFlip::new(f64::NAN).map(drop),
        RandomResizedCrop::new(0).map(drop),
        crop.scale(0.0..=1.0).map(drop),
        crop.scale(0.5..=0.4).map(drop),
        crop.scale(-0.5..=1.0).map(drop),
        crop.ratio(0.0..=1.0).map(drop),
        crop.ratio(1.0..=f64::INFINITY).map(drop),
        RandomTranslate::new(65_536).map(drop),
        Resize::new((1, 0)).map(drop),
        Resize::new(65_536).map(drop),
    ];
    let lines = results.into_iter().enumerate().map(|(index, result)| {
        let error = result.err().unwrap_or_else(|| panic!("parameters {index} were accepted"));
        format!("{error}\n")
    });
    assert_golden("parameters.txt", &lines.collect::<String>());
}

/// The maximum number of ops, the costliest ones first.
#[test]
fn a_list_of_256_ops_compiles_and_one_more_is_refused() {
    let op = |index: usize| -> Arc<dyn Op> {
        match index % 4 {
            0 => Arc::new(RandomBrightness::new(0.4).unwrap()),
            1 => Arc::new(RandomSaturation::new(0.4).unwrap()),
            2 => Arc::new(Cutout::new(8).unwrap()),
            _ => Arc::new(flip()),
        }
    };
    let list = |count: usize| (0..count).map(op).collect::<Ops>();
    let kernel = compile(list(MAX_OPS), images(32, 32));
    assert!(kernel.code_bytes() < 1 << 20, "{} bytes of code", kernel.code_bytes());
    let refused = plan(list(MAX_OPS + 1), images(32, 32)).unwrap_err();
    assert_eq!(refused.kind(), fuseloop::ErrorKind::Pipeline);
    assert_eq!(refused.to_string(), "257 ops in one list; the limit is 256");
}

/// The compiler accepts every plan that the planner accepts: the compiler's own bound is for bugs.
#[test]
fn the_largest_blocks_of_few_ops_compile() {
    let largest = (0..).take_while(|&count| plan(many_contrasts(count), photos()).is_ok()).last();
    let kernel = compile(many_contrasts(largest.unwrap()), photos());
    println!("{largest:?} contrasts, {} bytes, {:?}", kernel.code_bytes(), kernel.compile_time());

    let paint = |_| Arc::new(Cutout::new(8).unwrap().fill([9; 3])) as Arc<dyn Op>;
    let mut list = many_contrasts(0);
    list.extend((0..100).map(paint));
    let kernel = compile(list, photos());
    println!("100 cutouts, {} bytes, {:?}", kernel.code_bytes(), kernel.compile_time());
}

#[test]
fn kernels_share_code_if_sizes_and_probabilities_are_all_that_differs() {
    if let Some(reason) = jit::unsupported() {
        println!("skipped: {reason}");
        return;
    }
    let mut cache = KernelCache::default();
    let first = cache.compile(plan(imagenet_train(160), photos()).unwrap()).unwrap();
    let mut same = |ops: Ops| {
        let next = cache.compile(plan(ops, photos()).unwrap()).unwrap();
        next.shares_code_with(&first)
    };
    assert!(same(imagenet_train(224)), "progressive resizing");
    let other_draws = RandomResizedCrop::new((96, 128))
        .unwrap()
        .scale(0.5..=1.0)
        .unwrap()
        .ratio(1.0..=1.0)
        .unwrap();
    let rare = RandomHorizontalFlip::new(0.1).unwrap();
    let rest = |crop: RandomResizedCrop, normalize: Normalize| {
        ops![crop, rare, normalize, half(), ToChannelsFirst]
    };
    assert!(same(rest(other_draws, Normalize::imagenet())), "other probabilities and ranges");

    assert!(!same(rest(other_draws, Normalize::cifar10())), "other constants");
    let area = other_draws.interpolation(Interpolation::Area);
    assert!(!same(rest(area, Normalize::imagenet())), "another interpolation");
    let without_half = ops![random_crop_to(160), flip(), Normalize::imagenet(), ToChannelsFirst];
    assert!(!same(without_half), "another type");
    let channels_last = ops![random_crop_to(160), flip(), Normalize::imagenet(), half()];
    assert!(!same(channels_last), "another layout");
    let brightness = RandomBrightness::new(0.4).unwrap();
    let with_colour = ops![
        random_crop_to(160),
        flip(),
        brightness,
        Normalize::imagenet(),
        half(),
        ToChannelsFirst
    ];
    assert!(!same(with_colour), "another op");
    let exact = ImagePlan::new(imagenet_train(160), photos(), NumberRule::Exact).unwrap();
    let exact = cache.compile(exact).unwrap();
    assert!(!exact.shares_code_with(&first), "another number rule");
    let again = cache.compile(plan(imagenet_train(192), photos()).unwrap()).unwrap();
    assert!(again.shares_code_with(&first), "the first is still kept");
}

const SIZE: Size = Size::new(32, 40);

/// Returns the words for the first op of a list, and the image that it makes of `pixels`.
fn said_and_made(ops: Ops, sample: u64, pixels: &[u8]) -> (String, Vec<u8>) {
    let plan = plan(ops, images(SIZE.height, SIZE.width)).unwrap();
    let mut draws = Draws::default();
    plan.draw(SampleKey::new(7, 0, sample), SIZE, &mut draws);
    let made = jit::evaluate(&plan, &ImageView::packed(pixels, SIZE).unwrap(), &draws);
    (draws.describe(&plan)[0].words.clone(), made)
}

#[test]
fn an_erased_region_is_where_pixels_are_erased() {
    for sample in 0..40 {
        let erasing = ops![RandomErasing::new().p(0.8).unwrap()];
        let (words, made) = said_and_made(erasing, sample, &[255; 3 * 32 * 40]);
        let mut erased = made.chunks_exact(3).enumerate().filter(|(_, pixel)| pixel[0] == 0);
        let want = match erased.next() {
            Some((first, _)) => {
                let last = erased.next_back().map_or(first, |(last, _)| last);
                let (bottom, right) = (last / 40 + 1, last % 40 + 1);
                format!("rows {}..{bottom}, columns {}..{right}", first / 40, first % 40)
            }
            None => "not run".to_owned(),
        };
        assert_eq!(words, want, "sample {sample}");
    }
}

#[test]
fn a_shift_says_where_the_pixels_went() {
    let mut pixels = [0; 3 * 32 * 40];
    pixels[3 * (10 * 40 + 10)] = 255;
    let way = |by: i64, [positive, negative]: [&str; 2]| {
        format!("{} {}", by.abs(), if by < 0 { negative } else { positive })
    };
    for sample in 0..60 {
        let translate = ops![RandomTranslate::new(4).unwrap()];
        let (words, made) = said_and_made(translate, sample, &pixels);
        let at = made.iter().position(|level| *level == 255).unwrap() as i64 / 3;
        let (down, right) = (at / 40 - 10, at % 40 - 10);
        let moved = [way(down, ["down", "up"]), way(right, ["right", "left"])].join(", ");
        let stays = (down, right) == (0, 0);
        let want = if stays { "all of it".to_owned() } else { format!("shifted {moved}") };
        assert_eq!(words, want, "sample {sample}");
    }
}
