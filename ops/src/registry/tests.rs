//! Properties of every entry.

use super::*;
use crate::*;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// An op with the examples of its required parameters.
fn example(info: &OpInfo) -> SpecTable {
    let examples = info.params.iter().filter_map(|param| match param.need {
        ParamDefault::Required(example) => Some((param.name, example.value())),
        _ => None,
    });
    SpecTable::from_iter([("op", SpecValue::from(info.name))].into_iter().chain(examples))
}

fn build(table: SpecTable) -> Result<Ops, SpecError> {
    build_ops(&SpecValue::from(vec![SpecValue::from(table)]))
}

fn message(table: SpecTable) -> String {
    build(table).unwrap_err().to_string()
}

#[test]
fn every_op_is_made_of_its_example_by_each_of_its_names() {
    for info in registry() {
        for name in info.aliases.iter().chain([&info.name]) {
            assert_eq!(find(name).unwrap().name, info.name);
        }
        let ops = build(example(info)).unwrap_or_else(|error| panic!("{}: {error}", info.name));
        assert_eq!(ops[0].name(), info.name);
    }
}

/// Giving a default explicitly is the same as omitting it, so a default is of its parameter's kind.
#[test]
fn every_default_may_also_be_written() {
    for info in registry() {
        let without = build(example(info)).unwrap();
        for param in info.params {
            let ParamDefault::Default(default) = param.need else { continue };
            let mut table = example(info);
            table.0.extend(SpecTable::from_iter([(param.name, default.value())]).0);
            let with = build(table).unwrap();
            assert_eq!(format!("{with:?}"), format!("{without:?}"), "{} {}", info.name, param.name);
        }
    }
}

/// A constructor that is written by hand and an entry in a list without optional parameters build the same op, as do
/// constructors with other first values than the declared defaults. The others follow from the declared defaults.
#[test]
fn every_constructor_by_hand_has_the_defaults_of_its_entry() {
    let flip = || ops![RandomHorizontalFlip::new(0.5).unwrap()];
    let inverted = std::array::from_fn(|level| 255.0 - level as f32);
    let by_constructor = [
        ops![
            Resize::new(256).unwrap(),
            RandomCrop::new(224).unwrap(),
            Pad::new(4).unwrap(),
            RandomZoomOut::new(),
            RandomResize::new(256, 481).unwrap(),
            RandomShortestSize::new([480, 512, 544]).unwrap(),
            ScaleJitter::new((1024, 1024)).unwrap(),
            Letterbox::new(224).unwrap(),
            Rot90::new(1),
            RandomAffine::new(15.0).unwrap(),
            RandomRotation::new(15.0).unwrap(),
            ColorJitter::new(0.0, 0.0, 0.0).unwrap(),
            Lut::same(inverted).unwrap(),
            RandomPhotometricDistort::new(),
            RandomErasing::new(),
            ChannelDropout::new(),
            Poison::new((1, 2), &[255.0, 0.0, 0.0, 255.0, 0.0, 0.0], &[0.5; 2], [0, 7]).unwrap(),
            FrequencyMasking::new(27).unwrap(),
            TimeMasking::new(100).unwrap(),
            Gain::new(-12.0, 12.0).unwrap(),
        ],
        ops![
            AugMix::new(),
            AutoAugment::new(),
            RandAugment::new(),
            RandomApply::new(flip()),
            RandomChoice::new(vec![flip()]).unwrap(),
            RandomOrder::new(flip()).unwrap(),
            TrivialAugmentWide::new(),
            Normalize::imagenet(),
            Levels::of(-1000.0, 400.0).unwrap(),
            ScaleIntensityRange::new(0.0..=255.0, 0.0..=1.0).unwrap(),
            Clip::new(16.0, 235.0).unwrap(),
            Convert::to(DType::F16),
            SelectChannels::new([2, 1, 0]).unwrap(),
            ToDevice::new("auto").unwrap(),
            ReplaceLabel::new([0, 7], 1),
        ],
    ];
    for op in by_constructor.concat() {
        let entry = build(example(find(op.name()).unwrap())).unwrap();
        assert_eq!(format!("{op:?}"), format!("{:?}", entry[0]));
    }
}

/// Values of a parameter that its limits just accept, and values that they just refuse.
fn around(param: &ParamInfo, limits: ParamLimits) -> [Vec<SpecValue>; 2] {
    let ParamLimits { low, high, is_above, .. } = limits;
    let is_whole = match (param.kind, param.need) {
        (ParamKind::Whole | ParamKind::Size | ParamKind::Kernel | ParamKind::Sides, _) => true,
        (
            kind,
            ParamDefault::Default(ParamValue::Ints(_))
            | ParamDefault::Required(ParamValue::Ints(_)),
        ) => kind == ParamKind::Range,
        _ => false,
    };
    let number = |number: f64| match is_whole {
        true => SpecValue::from(number as i64),
        false => SpecValue::from(number),
    };
    let pair = |low, high| SpecValue::from(vec![number(low), number(high)]);
    let [below, above] = match is_whole {
        true => [low - 1.0, high + 1.0],
        false if is_above => [low, high.next_up()],
        false => [low.next_down(), high.next_up()],
    };
    let least = if is_above { low.next_up() } else { low };
    // A number of no kind is refused before an op sees it.
    let is_number = |number: &f64| {
        if is_whole { (0.0..=f64::from(u32::MAX)).contains(number) } else { true }
    };
    // A field may be an `f32`, which holds no larger number.
    let most = f64::from(f32::MAX);
    let inside = [least.max(-most), high.min(most)].into_iter().filter(is_number);
    let outside = [below, above, f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
    let outside = outside.into_iter().filter(is_number);
    match param.kind {
        ParamKind::Range => {
            let ends = outside.flat_map(|bad| [pair(bad, high), pair(least, bad)]);
            let reversed = (low < high).then(|| pair(high, least));
            [inside.map(|good| pair(good, good)).collect(), ends.chain(reversed).collect()]
        }
        ParamKind::Size | ParamKind::Kernel | ParamKind::Pair => {
            let sides = outside.flat_map(|bad| [pair(bad, high), pair(least, bad)]);
            [inside.map(|good| pair(good, good)).collect(), sides.collect()]
        }
        ParamKind::NumberOrRange => {
            let ends = outside.flat_map(|bad| [number(bad), pair(bad, high), pair(least, bad)]);
            let (good, bad): (Vec<_>, Vec<_>) =
                (inside.map(|good| pair(good, good)).collect(), ends.collect());
            [good, [bad, vec![pair(high, least)]].concat()]
        }
        _ => [inside.map(number).collect(), outside.map(number).collect()],
    }
}

/// Each end of the declared limits is accepted, and what is beyond it by the least step is refused, as are NaN and
/// infinity.
#[test]
fn every_limit_is_checked() {
    let mut checked = 0;
    for info in registry() {
        for param in info.params {
            let Some(limits) = param.limits else { continue };
            let of = |value: &SpecValue| {
                let mut table = example(info);
                table.0.retain(|entry| entry.name != param.name);
                table.0.extend(SpecTable::from_iter([(param.name, value.clone())]).0);
                match build(table).map_err(|error| error.cause) {
                    Err(SpecCause::Param(error)) => Some((error.op, error.expected)),
                    Err(cause) => panic!("{} {} = {value}: {cause}", info.name, param.name),
                    Ok(_) => None,
                }
            };
            let refused = Some((info.name, limits.expected));
            let [inside, outside] = around(param, limits);
            for value in &inside {
                assert_ne!(of(value), refused, "{} {} = {value}", info.name, param.name);
            }
            for value in &outside {
                assert_eq!(of(value), refused, "{} {} = {value}", info.name, param.name);
            }
            checked += 1;
        }
    }
    assert!(checked > 60, "only {checked} parameters have limits");
}

/// Every parameter of a wrong kind is refused by name, which shows that `build` reads all
/// parameters.
#[test]
fn every_parameter_is_read_and_its_kind_is_checked() {
    for info in registry() {
        for param in info.params {
            let mut table = example(info);
            table.0.retain(|entry| entry.name != param.name);
            table.0.extend(SpecTable::from_iter([(param.name, SpecTable::default().into())]).0);
            let error = build(table).expect_err(param.name);
            let message = error.to_string();
            assert!(message.contains("a table"), "{} {}: {message}", info.name, param.name);
        }
    }
}

#[test]
fn names_are_unique_and_a_class_stands_together() {
    let mut names = BTreeSet::new();
    for info in registry() {
        for name in info.aliases.iter().chain([&info.name]) {
            assert!(names.insert(name), "{name} stands twice");
        }
        let params: BTreeSet<&str> = info.params.iter().map(|param| param.name).collect();
        assert_eq!(params.len(), info.params.len(), "{}", info.name);
        assert!(!params.contains("op"), "{}: `op` is its name", info.name);
    }
    let mut classes: Vec<&str> = registry().iter().map(|info| info.class).collect();
    classes.dedup();
    assert_eq!(classes.len(), classes.iter().collect::<BTreeSet<_>>().len(), "{classes:?}");
}

/// Exported ops that can't be written in a list as data.
const NEEDS_CODE: &[(&str, &str)] = &[("Lambda", "it calls a closure")];

/// Every type with an `impl Op` that this crate exports has an entry.
#[test]
fn no_op_is_forgotten() {
    let sources = sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    let exported = exported(include_str!("../lib.rs"));
    let ops: Vec<&str> = sources
        .iter()
        .flat_map(|text| text.lines())
        .filter_map(|line| line.trim_start().strip_prefix("impl")?.split_once("Op for "))
        .filter(|(between, _)| between.trim_end().is_empty() || between.ends_with("::"))
        .map(|(_, rest)| rest.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default())
        .filter(|name| exported.contains(*name))
        .collect();
    assert!(ops.contains(&"Resize") && ops.contains(&"OneHot"), "the finder finds: {ops:?}");
    for name in ops {
        let needs_code = NEEDS_CODE.iter().find(|(known, _)| *known == name);
        match (find(name).is_ok(), needs_code) {
            (false, None) => panic!("{name} is not in ENTRIES of ops/src/lib.rs"),
            (true, Some((_, reason))) => panic!("{name} has an entry, though {reason}"),
            _ => {}
        }
    }
}

fn sources(dir: &Path) -> Vec<String> {
    let mut texts = vec![];
    for path in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            texts.extend(sources(&path));
        } else {
            texts.push(fs::read_to_string(path).unwrap());
        }
    }
    texts
}

/// The names after `pub use`.
fn exported(text: &str) -> BTreeSet<String> {
    let uses = text.split("pub use ").skip(1).filter_map(|rest| rest.split(';').next());
    let words = uses.flat_map(|list| list.split(|c: char| !c.is_alphanumeric() && c != '_'));
    words.filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

#[test]
fn a_slip_is_answered_with_the_name_meant() {
    let (size, scale) = (SpecValue::from(224), SpecValue::from(0.5));
    for (table, expected) in [
        (
            op_of("RandomResizeCrop", &[]),
            "no op named `RandomResizeCrop`, did you mean `RandomResizedCrop`?",
        ),
        (
            op_of("HorizontalFlip", &[]),
            "no op named `HorizontalFlip`, did you mean `RandomHorizontalFlip`?",
        ),
        (op_of("Transmogrify", &[]), "no op named `Transmogrify`"),
        (
            op_of("RandomResizedCrop", &[("size", size.clone()), ("scael", scale.clone())]),
            "RandomResizedCrop has no parameter `scael`, did you mean `scale`?",
        ),
        (
            op_of("Resize", &[("size", size.clone()), ("magic", scale.clone())]),
            "Resize has no parameter `magic`; its parameters: `size`, `interpolation`, `max_size`, `antialias`, `side`",
        ),
        (
            op_of("Squeeze", &[("axis", size.clone())]),
            "Squeeze has no parameter `axis`; it has no parameters",
        ),
        (op_of("Resize", &[]), "Resize: `size` is missing, expected pixels, or [height, width]"),
        (
            op_of("RandomResizedCrop", &[("size", size), ("scale", scale)]),
            "RandomResizedCrop: scale is 0.5, expected [low, high]",
        ),
        (
            op_of(
                "Resize",
                &[("size", SpecValue::from(256)), ("interpolation", SpecValue::from("cubic"))],
            ),
            "Resize: interpolation is \"cubic\", expected \"bilinear\", \"area\", \"nearest\", \"nearest-exact\", \"bicubic\", \"bilinear-aliased\" or \"bicubic-aliased\"",
        ),
        (
            op_of("RandomHorizontalFlip", &[("p", SpecValue::from(1.5))]),
            "RandomHorizontalFlip: p is 1.5, expected 0.0..=1.0",
        ),
        (
            op_of("OneHot", &[("classes", SpecValue::from(-1))]),
            "OneHot: classes is -1, expected a whole number, 0 or more",
        ),
        (
            SpecTable::default(),
            "expected an op (a name, or a table with the key `op`), found a table",
        ),
    ] {
        assert_eq!(message(table), expected);
    }
}

#[test]
fn an_error_stands_where_its_value_does() {
    let at = |datum: SpecValue, at| SpecValue { at: Some(at), ..datum };
    let entry = |name: &str, at, value| SpecEntry { name: name.to_owned(), at: Some(at), value };
    let op = |entries| {
        let table = at(SpecValue::from(SpecTable(entries)), 1);
        build_ops(&SpecValue::from(vec![table])).unwrap_err().at
    };
    let name = |text| entry("op", 2, at(SpecValue::from(text), 3));
    assert_eq!(op(vec![name("Nothing")]), Some(3), "the op's name");
    assert_eq!(op(vec![name("Resize")]), Some(1), "the op that lacks something");
    assert_eq!(
        op(vec![name("Squeeze"), entry("x", 4, at(SpecValue::from(1), 5))]),
        Some(4),
        "the name"
    );
    let p = |value| op(vec![name("RandomVerticalFlip"), entry("p", 4, at(value, 5))]);
    assert_eq!(p(SpecValue::from("x")), Some(5), "the value of a wrong kind");
    assert_eq!(p(SpecValue::from(7.0)), Some(5), "the value out of range");
}

#[test]
fn a_list_is_bounded() {
    let many = |n| SpecValue::from(vec![SpecValue::from("ToChannelsFirst"); n]);
    assert_eq!(build_ops(&many(MAX_OPS)).unwrap().len(), MAX_OPS);
    assert_eq!(build_ops(&many(MAX_OPS + 1)).unwrap_err().cause, SpecCause::TooMany);
    let deepest = Bounds { depth: MAX_DEPTH, left: &Cell::new(MAX_OPS) };
    assert_eq!(deepest.ops(&many(1)).unwrap_err().cause, SpecCause::TooDeep);
    let nested = |levels| {
        (1..levels).fold(many(1), |inner, _| {
            let op = [("op", SpecValue::from("RandomApply")), ("ops", inner)];
            SpecValue::from(vec![SpecValue::from(SpecTable::from_iter(op))])
        })
    };
    assert_eq!(build_ops(&nested(MAX_DEPTH)).unwrap().len(), 1);
    assert_eq!(build_ops(&nested(MAX_DEPTH + 1)).unwrap_err().cause, SpecCause::TooDeep);
}

#[test]
fn what_is_no_list_of_ops_is_refused() {
    assert_eq!(
        build_ops(&SpecValue::from("Resize")).unwrap_err().to_string(),
        "expected a list of ops, found \"Resize\""
    );
    let number = SpecValue::from(vec![SpecValue::from(5)]);
    assert!(build_ops(&number).unwrap_err().to_string().ends_with("found 5"));
}

/// One number and two numbers mean the same as in the Rust constructors and in torchvision.
#[test]
fn an_op_that_is_built_already_stands_anywhere_in_a_list() {
    let own = || SpecValue::from(SpecData::Op(SpecOp(built(Lambda::new("Mine", |_, _| ())))));
    let op = own();
    assert_eq!((op.clone(), op.to_string()), (op.clone(), "Mine".to_owned()));
    assert_ne!(op, own());
    let apply = op_of("RandomApply", &[("ops", vec![op.clone(), "Squeeze".into()].into())]);
    let ops = build_ops(&vec![apply.into(), op].into()).unwrap();
    assert!(format!("{ops:?}").matches("Lambda(Mine)").count() == 2, "{ops:?}");
    let size = message(op_of("Resize", &[("size", own())]));
    assert!(size.contains("size is Mine"), "{size}");
}

#[test]
fn sizes_are_read_as_torchvision_reads_them() {
    let op = |size: SpecValue| shown("Resize", &[("size", size)]);
    assert_eq!(op(256.into()), format!("[{:?}]", crate::Resize::new(256).unwrap()));
    let exact = op(numbers([100, 50]));
    assert_eq!(exact, format!("[{:?}]", crate::Resize::new((100, 50)).unwrap()));
    let most = shown("Resize", &[("size", 256.into()), ("max_size", 500.into())]);
    let expected = crate::Resize::new(256).unwrap().max_size(500).unwrap();
    assert_eq!(most, format!("[{expected:?}]"));
    let long = [("size", 256.into()), ("side", "long".into())];
    let expected = crate::Resize::long_side(256).unwrap();
    assert_eq!(shown("Resize", &long), format!("[{expected:?}]"));
    assert_eq!(
        message(op_of("Resize", &[("size", numbers([100, 50])), ("side", "long".into())])),
        "Resize: side is long, expected a size of one number with it"
    );
}

/// Returns the `Debug` text of an op built from data.
fn shown(name: &'static str, params: &[(&'static str, SpecValue)]) -> String {
    format!("{:?}", build(op_of(name, params)).unwrap())
}

fn op_of(name: &'static str, params: &[(&'static str, SpecValue)]) -> SpecTable {
    SpecTable::from_iter([("op", SpecValue::from(name))].into_iter().chain(params.iter().cloned()))
}

#[test]
fn a_frame_is_as_torchvision_gives_it() {
    use crate::{Pad, PaddingMode, RandomCrop};
    for (padding, sides) in [
        (SpecValue::from(4), [4, 4, 4, 4]),
        (numbers([1, 2]), [1, 2, 1, 2]),
        (numbers([1, 2, 3, 4]), [1, 2, 3, 4]),
    ] {
        let frame = [("padding", padding), ("padding_mode", "reflect".into())];
        let expected = Pad::new(sides).unwrap().padding_mode(PaddingMode::Reflect);
        assert_eq!(shown("Pad", &frame), format!("[{expected:?}]"));
        let crop = [frame.to_vec(), vec![("size", 32.into()), ("pad_if_needed", true.into())]];
        let expected =
            RandomCrop::new(32).unwrap().padding(sides).unwrap().padding_mode(PaddingMode::Reflect);
        let expected = expected.pad_if_needed();
        assert_eq!(shown("RandomCrop", &crop.concat()), format!("[{expected:?}]"));
    }
    let three = [("padding", numbers([1, 2, 3]))];
    assert!(message(op_of("Pad", &three)).starts_with("Pad: padding is [1, 2, 3], expected"));
}

/// A number stands for a range around 1, or around 0 for hues and angles.
#[test]
fn a_number_is_the_range_that_torchvision_makes_of_it() {
    use crate::{ColorJitter, RandomAffine, RandomBrightness, RandomHue};
    let range =
        |low: f64, high: f64| SpecValue::from(vec![SpecValue::from(low), SpecValue::from(high)]);
    let jitter = [("brightness", 1.5.into()), ("hue", 0.25.into())];
    let expected = ColorJitter::new(1.5, 0.0, 0.0).unwrap().hue(0.25).unwrap();
    assert_eq!(shown("ColorJitter", &jitter), format!("[{expected:?}]"));
    let jitter = [("contrast", range(0.5, 0.75)), ("hue", range(-0.125, 0.25))];
    let expected = ColorJitter::new(0.0, 0.5..=0.75, 0.0).unwrap().hue(-0.125..=0.25).unwrap();
    assert_eq!(shown("ColorJitter", &jitter), format!("[{expected:?}]"));

    let brightness = shown("RandomBrightness", &[("magnitude", range(0.5, 0.75))]);
    assert_eq!(brightness, format!("[{:?}]", RandomBrightness::new(0.5..=0.75).unwrap()));
    let hue = shown("RandomHue", &[("hue", 0.25.into())]);
    assert_eq!(hue, format!("[{:?}]", RandomHue::new(0.25).unwrap()));

    let affine = || RandomAffine::new(-30.0..=30.0).unwrap();
    for (shear, expected) in [
        (SpecValue::from(5), affine().shear(-5.0..=5.0)),
        (numbers([1, 2]), affine().shear(1.0..=2.0)),
        (numbers([1, 2, 3, 4]), affine().shear_both(1.0..=2.0, 3.0..=4.0)),
    ] {
        let given = shown("RandomAffine", &[("degrees", 30.into()), ("shear", shear)]);
        assert_eq!(given, format!("[{:?}]", expected.unwrap()));
    }
}

#[test]
fn what_is_optional_reaches_the_op() {
    use crate::mixing::Partner;
    use crate::{CutMix, MixUp, RandomAffine, RandomErasing, RandomRotation};
    let erasing = RandomErasing::new;
    let value = |value: SpecValue| shown("RandomErasing", &[("value", value)]);
    assert_eq!(value("random".into()), format!("[{:?}]", erasing().random()));
    assert_eq!(value(7.into()), format!("[{:?}]", erasing().value(7.0).unwrap()));
    let colors = erasing().values([1.0, 2.0, 3.0]).unwrap();
    assert_eq!(value(numbers([1, 2, 3])), format!("[{colors:?}]"));

    let mixed =
        [("alpha", 0.5.into()), ("partner", "permuted".into()), ("per_sample", true.into())];
    let expected = MixUp::new(0.5).unwrap().partner(Partner::Permuted).per_sample();
    assert_eq!(shown("LabelMixup", &mixed), format!("[{expected:?}]"));
    let expected = CutMix::new(0.5).unwrap().partner(Partner::Permuted).per_sample();
    assert_eq!(shown("CutMix", &mixed), format!("[{expected:?}]"));

    let center = ("center", numbers([3, 4]));
    let turned = [("degrees", 30.into()), ("expand", true.into()), center.clone()];
    let expected = RandomRotation::new(-30.0..=30.0).unwrap().expand().center(3.0, 4.0).unwrap();
    assert_eq!(shown("RandomRotation", &turned), format!("[{expected:?}]"));
    let (shift, scale) = (("translate", numbers([0, 1])), ("scale", numbers([1, 2])));
    let expected = RandomAffine::new(-30.0..=30.0).and_then(|op| op.translate(0.0, 1.0));
    let expected = expected.and_then(|op| op.scale(1.0..=2.0)?.center(3.0, 4.0)).unwrap();
    let affine = shown("RandomAffine", &[("degrees", 30.into()), center, shift, scale]);
    assert_eq!(affine, format!("[{expected:?}]"));
}

/// A table is one for all channels, or three in sequence; `Debug` does not show the contents.
#[test]
fn a_table_has_256_levels_or_three_times_as_many() {
    let table = |n: usize| op_of("Lut", &[("table", vec![SpecValue::from(9); n].into())]);
    assert!(build(table(256)).is_ok() && build(table(768)).is_ok());
    assert_eq!(
        message(table(255)),
        "Lut: table is a list of 255 values, expected a list of 256 numbers, or of 768"
    );
}

/// Reads `value` as a parameter. This is a macro because a method of `OpArgs` is not a `fn` for
/// every lifetime.
macro_rules! read {
    ($value:expr, $method:ident $(, $more:expr)?) => {{
        let table = SpecTable::from_iter([("x", SpecValue::from($value))]);
        OpArgs::with("test", ANY, &table, None, |args| args.$method("x" $(, $more)?)).ok()
    }};
}

const ANY: &[ParamInfo] = &[optional("x", ParamKind::Table, "anything")];

fn numbers<const N: usize>(numbers: [i64; N]) -> SpecValue {
    numbers.map(SpecValue::from).to_vec().into()
}

#[test]
fn values_become_arguments() {
    assert_eq!(read!(1, float), Some(1.0));
    assert_eq!(read!(1.0, u32), None, "a float is no count");
    assert_eq!(read!(1_i64 << 32, u32), None);
    assert_eq!(read!(-1, u64), None);
    assert_eq!(read!(true, bool), Some(true));
    assert_eq!(read!(7, color), Some([7; 3]));
    assert_eq!(read!(numbers([1, 2, 3]), color), Some([1, 2, 3]));
    assert_eq!(read!(256, color), None);
    assert_eq!(read!(numbers([1, 2]), color), None);
    assert_eq!(read!(5, size), Some(crate::Size::new(5, 5)));
    assert_eq!(read!(numbers([5, 6]), size), Some(crate::Size::new(5, 6)));
    assert_eq!(read!(numbers([5, 6, 7]), size), None);
    assert_eq!(read!("bf16", dtype), Some(crate::DType::Bf16));
    assert_eq!(read!("i16", dtype), Some(crate::DType::I16));
    assert_eq!(read!("area", interpolation), Some(crate::Interpolation::Area));
    assert_eq!(read!("cubic", interpolation), None);
    assert_eq!(read!("bicubic", warp_interpolation), Some(crate::WarpInterpolation::Bicubic));
    assert_eq!(read!("area", warp_interpolation), None);
    assert_eq!(read!(-3, i32), Some(-3));
    assert_eq!(read!(1_i64 << 31, i32), None);
    assert_eq!(read!(5, kernel), Some([5, 5]));
    assert_eq!(read!(numbers([5, 7]), kernel), Some([5, 7]), "columns, rows");
    assert_eq!(read!(numbers([2, 0, 1]), permutation), Some([2, 0, 1]));
    assert_eq!(read!(numbers([2, 0]), permutation), None);
    assert_eq!(read!("random", is_word, "random"), Some(true));
    assert_eq!(read!(0, is_word, "random"), Some(false));
    assert_eq!(read!(numbers([3, 1]), ids), Some(vec![3, 1]));
    assert_eq!(read!("a", text), Some("a".to_owned()));
    assert_eq!(read!(vec![SpecValue::from("a")], texts), Some(vec!["a".to_owned()]));
    assert_eq!(read!(30, number_or_range), Some(NumberOrRange::Number(30.0)));
    assert_eq!(read!(numbers([-5, 9]), number_or_range), Some(NumberOrRange::Range(-5.0..=9.0)));
    let ops = read!(vec![SpecValue::from("ToChannelsFirst"); 2], ops);
    assert_eq!(ops.map(|ops| ops.len()), Some(2));
}

#[test]
fn a_number_that_an_f32_does_not_hold_is_shown_as_it_was_given() {
    let erasing = op_of("RandomErasing", &[("value", SpecValue::from(1e39))]);
    let shown = message(erasing);
    assert!(shown.contains("value is 1") && shown.contains("an f32 can hold"), "{shown}");
    for (op, param) in [("RandomRotation", "degrees"), ("RandomAffine", "degrees")] {
        let range = SpecData::List(vec![SpecValue::from(-1e39), SpecValue::from(3.0)]);
        let shown = message(op_of(op, &[(param, range.into())]));
        assert!(shown.contains("both finite as f32"), "{op}: {shown}");
    }
    for op in ["AutoAugment", "TrivialAugmentWide", "AugMix"] {
        let info = registry().iter().find(|info| info.name == op).unwrap();
        assert!(info.params.iter().all(|param| !param.doc.contains("config")), "{op}");
    }
}

#[test]
fn interpolations_have_torchvisions_names_and_meanings() {
    let list = |given: &[(&'static str, SpecValue)]| {
        let required = [("op", SpecValue::from("Resize")), ("size", SpecValue::from(8))];
        let built = build(SpecTable::from_iter([&required[..], given].concat()));
        built.map(|ops| format!("{:?}", ops[0])).map_err(|error| error.to_string())
    };
    let of = |interpolation: crate::Interpolation| {
        Ok(format!("{:?}", crate::Resize::new(8).unwrap().interpolation(interpolation)))
    };
    let word = |word: &'static str| ("interpolation", SpecValue::from(word));
    let antialias = |yes: bool| ("antialias", SpecValue::from(yes));
    use crate::Interpolation::{Bicubic, BicubicAliased, Bilinear, BilinearAliased, Nearest};
    assert_eq!(list(&[]), of(Bilinear));
    assert_eq!(list(&[word("bilinear")]), of(Bilinear));
    assert_eq!(list(&[word("bicubic")]), of(Bicubic));
    assert_eq!(list(&[word("bilinear"), antialias(false)]), of(BilinearAliased));
    assert_eq!(list(&[word("bicubic"), antialias(false)]), of(BicubicAliased));
    assert_eq!(list(&[word("bicubic-aliased")]), of(BicubicAliased));
    assert_eq!(list(&[word("bilinear-antialias"), antialias(true)]), of(Bilinear));
    assert_eq!(list(&[word("nearest"), antialias(true)]), of(Nearest));
    for (number, meant) in [(0, Nearest), (2, Bilinear), (3, Bicubic)] {
        assert_eq!(list(&[("interpolation", SpecValue::from(number))]), of(meant));
    }
    let error = list(&[word("bicubic-aliased"), antialias(true)]).unwrap_err();
    assert!(error.contains("antialias is true, together with an aliased interpolation"), "{error}");
    assert!(list(&[("interpolation", SpecValue::from(1))]).is_err());
}
