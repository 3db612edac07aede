//! The promises of pipeline files: the ready-made ones run, a schedule changes the sizes, a mistake
//! gives an error with position and name, and hostile text is refused.

use crate::common::dataset::{varied, write};
use fuseloop::internals::spec::{MAX_BYTES, ParseCause, ParseError, TextPosition};
use fuseloop::internals::workload::Workload;
use fuseloop::ops::internals::registry::{ParamDefault, SpecCause, registry};
use fuseloop::ops::{DType, NumberRule, RandomCrop, Size, ToChannelsFirst, ops};
use fuseloop::spec::Spec;
use fuseloop::write::WriteMode;
use fuseloop::{Epoch, Error, ErrorKind, Loader, Order};
use std::path::{Path, PathBuf};

fn ready(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/pipelines").join(name)
}

fn parse(text: &str) -> Result<Spec, Error> {
    Spec::parse(text, Path::new("x.toml"))
}

fn cause(error: &Error) -> &ParseCause {
    &error.cause::<ParseError>().unwrap().cause
}

fn position(error: &Error) -> Option<TextPosition> {
    error.cause::<ParseError>().unwrap().position
}

fn refused(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

/// A file whose field `image` has these ops.
fn image(ops: &str) -> String {
    format!("[fields]\nimage = [{ops}]\n")
}

#[test]
fn every_ready_pipeline_loads_a_file() {
    let (_dir, varied_sizes) = write(8, WriteMode::Jpg, varied);
    let (_dir, one_size) = write(8, WriteMode::Raw, |_| Size::new(32, 32));
    for (name, file, shape) in [
        ("imagenet.toml", &varied_sizes, [3, 160, 160]),
        ("imagenet-val.toml", &varied_sizes, [3, 224, 224]),
        ("cifar10.toml", &one_size, [3, 32, 32]),
    ] {
        let spec = Spec::open(&ready(name)).unwrap();
        let builder = spec.apply(Loader::open(file).unwrap());
        let loader = builder.batch_size(4).build().unwrap();
        let tensors = loader.tensors();
        assert_eq!((tensors[0].dtype, &*tensors[0].shape), (DType::F16, &shape[..]), "{name}");
        assert_eq!(loader.epoch(0).unwrap().map(Result::unwrap).count(), 2, "{name}");
    }
    let files = std::fs::read_dir(ready("")).unwrap().count();
    assert_eq!(files, 3, "a new one belongs into the list above");
}

/// The file has the same ops as the CIFAR workload in Rust, so it has the same plan.
#[test]
fn a_list_as_data_is_the_list_as_rust() {
    let spec = parse(&image(
        "{ op = 'RandomHorizontalFlip', p = 0.5 },
         { op = 'RandomTranslate', padding = 4, fill = [125, 122, 113] },
         { op = 'Cutout', crop_size = 8, fill = [125, 122, 113] },
         { op = 'Normalize', mean = [125.307, 122.961, 113.8575], std = [51.5865, 50.847, 51.255], scale = 'levels' },
         'ToChannelsFirst'",
    ));
    let ops = spec.unwrap().ops("image", Epoch(0)).unwrap();
    assert_eq!(format!("{ops:?}"), format!("{:?}", Workload::Cifar.ops().unwrap()));
}

#[test]
fn both_of_toml_s_ways_to_write_a_list_mean_the_same() {
    let inline = "[fields]\nimage = [{ op = 'Resize', size = 256 }, 'ToChannelsFirst']";
    let tables =
        "[[fields.image]]\nop = 'Resize'\nsize = 256\n[[fields.image]]\nop = 'ToChannelsFirst'";
    let ops = |text| format!("{:?}", parse(text).unwrap().ops("image", Epoch(0)).unwrap());
    assert_eq!(ops(inline), ops(tables));
}

/// The example that `fuseloop ops NAME` shows must work.
#[test]
fn every_op_is_understood_as_toml() {
    for info in registry() {
        let params = info.params.iter().filter_map(|param| match param.need {
            ParamDefault::Required(preset) => Some((param.name, preset.value())),
            ParamDefault::Default(preset) => Some((param.name, preset.value())),
            ParamDefault::Optional => None,
        });
        let params: Vec<String> = params
            .map(|(name, value)| {
                // The list is formatted in full, because `Display` shortens long lists.
                let fuseloop::ops::internals::registry::SpecData::List(values) = &value.datum
                else {
                    return format!(", {name} = {value}");
                };
                let values: Vec<String> = values.iter().map(ToString::to_string).collect();
                format!(", {name} = [{}]", values.join(", "))
            })
            .collect();
        let text = image(&format!("{{ op = '{}'{} }}", info.name, params.concat()));
        let ops = parse(&text).unwrap().ops("image", Epoch(0)).unwrap();
        assert_eq!(ops[0].name(), info.name);
    }
}

#[test]
fn settings_reach_the_loader_and_what_comes_after_holds() {
    let (_dir, file) = write(10, WriteMode::Raw, |_| Size::new(8, 8));
    let text = "batch_size = 3\nseed = 7\norder = 'random'\ndrop_last = false\nworkers = 1
                batches_ahead = 2\nnumber_rule = 'exact'\nexif_orientation = true\nscaled_decode = false\nwithout = ['label']";
    let spec = parse(text).unwrap();
    let settings = spec.settings();
    assert_eq!((settings.seed, settings.order.clone()), (Some(7), Some(Order::Random)));
    assert_eq!((settings.number_rule, settings.recompile), (Some(NumberRule::Exact), None));

    let loader = spec.apply(Loader::open(&file).unwrap()).build().unwrap();
    assert_eq!((loader.len(), loader.tensors().len()), (4, 1));
    let same = Loader::open(&file).unwrap().batch_size(3).seed(7).order(Order::Random);
    let same = same.without("label").build().unwrap();
    for (a, b) in loader.epoch(1).unwrap().zip(same.epoch(1).unwrap()) {
        assert_eq!(a.unwrap().bytes("image").unwrap(), b.unwrap().bytes("image").unwrap());
    }
    let after = spec.apply(Loader::open(&file).unwrap()).batch_size(5).build().unwrap();
    assert_eq!(after.len(), 2);
}

/// Each of these settings does what the method of its name does.
#[test]
fn views_shared_draws_indices_and_limits_are_settings() {
    let (_dir, file) = write(10, WriteMode::Raw, |_| Size::new(8, 8));
    let text = "indices = [7, 2, 5]\nbatch_size = 3\nmemory_limit = '1.5 MiB'\ntimeout = 60\nin_memory = true\n\
                [share_draws]\nsecond = 'image'\n\
                [views.second]\nof = 'image'\nops = [{ op = 'RandomCrop', size = 4 }]\n\
                [views.third]\nof = 'image'\nafter = 1\nops = ['ToChannelsFirst']\n\
                [fields]\nimage = [{ op = 'RandomCrop', size = 4 }]";
    let spec = parse(text).unwrap();
    let settings = spec.settings();
    assert_eq!(settings.memory_limit, Some(3 << 19));
    assert_eq!(settings.timeout, Some(std::time::Duration::from_secs(60)));
    assert_eq!((settings.in_memory, settings.pin_memory), (Some(true), None));
    let loader = spec.apply(Loader::open(&file).unwrap()).build().unwrap();
    let crop = || ops![RandomCrop::new(4).unwrap()];
    let same = Loader::open(&file).unwrap().batch_size(3).indices([7, 2, 5]);
    let same = same.pipeline("image", crop()).view("second", "image", crop());
    let same = same.branch("third", "image", 1, ops![ToChannelsFirst]);
    let same = same.share_draws("second", "image").build().unwrap();
    for (a, b) in loader.epoch(1).unwrap().zip(same.epoch(1).unwrap()) {
        let (a, b) = (a.unwrap(), b.unwrap());
        for name in ["image", "second", "third", "label"] {
            assert!(a.bytes(name).unwrap() == b.bytes(name).unwrap(), "{name}");
        }
        assert!(a.bytes("image").unwrap() == a.bytes("second").unwrap());
        assert_eq!(a.tensor::<u8>("third").unwrap().shape(), [3, 3, 4, 4]);
    }
    let by_epoch = "[views.second]\nof = 'image'\n\
                    ops = [{ op = 'Resize', size = { from = 4, to = 8, epochs = 3 } }]";
    assert!(parse(by_epoch).unwrap().changes());
    let wrong = "[views.second]\nof = 'image'\nops = ['Resise']";
    let want = "x.toml:3:8: no op named `Resise`, did you mean `Resize`?";
    assert_eq!(refused(wrong), want);
    assert!(
        refused("memory_limit = '2 rooms'")
            .contains("expected a number of bytes, such as \"2GiB\"")
    );
    assert!(refused("timeout = -1").contains("timeout is -1"));
    let not_in_its_place =
        "[views.second]\nof = 'image'\nops = ['Squeeze', { op = 'OneHot', classes = 2 }]";
    let error = parse(not_in_its_place)
        .unwrap()
        .apply(Loader::open(&file).unwrap())
        .build()
        .unwrap_err()
        .to_string();
    assert!(error.contains("x.toml:3:"), "{error}");
}

/// The words of other libraries are answered with ours, where the place has such a setting.
#[test]
fn settings_of_other_libraries_are_answered_with_ours() {
    for (text, meant) in [
        ("num_workers = 2", "workers"),
        ("shuffle = true", "order"),
        ("prefetch_factor = 2", "batches_ahead"),
        ("rule = 'exact'", "number_rule"),
        ("class_names = ['a']", "expect_classes"),
        ("[collate]\nimage = { as = 'pad', padding_value = 1 }", "fill"),
    ] {
        let error = refused(text);
        assert!(error.contains(&format!("did you mean `{meant}`?")), "{text}: {error}");
    }
}

#[test]
fn sizes_follow_the_epoch() {
    let (_dir, file) = write(4, WriteMode::Jpg, varied);
    let text = image(
        "{ op = 'RandomResizedCrop', size = { from = 32, to = 64, epochs = 5, step = 16 },
           scale = [{ from = 0.5, to = 0.25, epochs = [2, 4] }, 1.0] }",
    );
    let spec = parse(&text).unwrap();
    assert!(spec.changes());
    let loader = spec.apply(Loader::open(&file).unwrap()).batch_size(4).build().unwrap();
    let side = |epoch| {
        let batch = loader.epoch(epoch).unwrap().next().unwrap().unwrap();
        batch.tensor::<u8>("image").unwrap().shape()[1]
    };
    assert_eq!([0, 1, 2, 3, 4, 5].map(side), [32, 32, 48, 64, 64, 64]);
    let scale = |epoch| format!("{:?}", spec.ops("image", Epoch(epoch)).unwrap());
    assert!(scale(2).contains("(0.5, 1.0)") && scale(3).contains("(0.375, 1.0)"), "{}", scale(3));
    assert!(scale(9).contains("(0.25, 1.0)"), "{}", scale(9));
}

/// A training run must not end in epoch 8 for a mistake that is detectable in epoch 0.
#[test]
fn every_turn_of_a_number_is_tried_at_once() {
    let text = image("{ op = 'RandomHorizontalFlip', p = { from = 0.0, to = 1.5, epochs = 9 } }");
    assert_eq!(refused(&text), "x.toml:2:45: RandomHorizontalFlip: p is 1.5, expected 0.0..=1.0");
}

#[test]
fn a_slip_is_answered_with_its_place_and_the_name_meant() {
    for (text, expected) in [
        (image("'Resise'"), "x.toml:2:10: no op named `Resise`, did you mean `Resize`?"),
        (image("{ op = 'Resise' }"), "x.toml:2:17: no op named `Resise`, did you mean `Resize`?"),
        (
            image("\n    { op = 'RandomResizedCrop', size = 224, scael = [0.1, 1] }"),
            "x.toml:3:45: RandomResizedCrop has no parameter `scael`, did you mean `scale`?",
        ),
        (
            image("\n {op = 'OneHot'}"),
            "x.toml:3:2: OneHot: `classes` is missing, expected a whole number, 0 or more",
        ),
        (image("7"), "x.toml:2:10: expected an op (a name, or a table with the key `op`), found 7"),
        (
            "[fields]\nimage = 'Resize'".into(),
            "x.toml:2:9: expected a list of ops, found \"Resize\"",
        ),
        ("fields = 3".into(), "x.toml:1:10: a pipeline file: fields is 3, expected a table"),
        (
            "batchsize = 3".into(),
            "x.toml:1:1: a pipeline file has no parameter `batchsize`, did you mean `batch_size`?",
        ),
        (
            "order = 'quasi'".into(),
            "x.toml:1:9: a pipeline file: order is \"quasi\", expected \"sequential\", \"random\", \"permuted\", \"bucketed\" or \"quasi_random\"",
        ),
        (
            "seed = -1".into(),
            "x.toml:1:8: a pipeline file: seed is -1, expected a whole number, 0 or more",
        ),
        (
            "device_batches = -1".into(),
            "x.toml:1:18: a pipeline file: device_batches is -1, expected a whole number, 1 or more",
        ),
        (
            "seed = 1\nsplit = 'train'".into(),
            "x.toml:2:1: `split` is no setting of a pipeline file, which names no dataset: remove it, and set `--split`, or \
             `split` where a program opens the dataset",
        ),
        (
            "seed = 2021-05-27".into(),
            "x.toml:1:8: 2021-05-27: dates are not supported; expected a number, text, list or table",
        ),
        (
            "seed = 99999999999999999999".into(),
            "x.toml:1:8: 99999999999999999999 is too large a number",
        ),
        (
            image("{ op = 'Resize', size = { from = 1, too = 2, epochs = 3 } }"),
            "x.toml:2:46: a number that follows the epoch has no parameter `too`, did you mean `to`?",
        ),
        (
            image("{ op = 'Resize', size = { from = 1, to = 2, epochs = 1 } }"),
            "x.toml:2:63: a number that follows the epoch: epochs is [0, 0], expected 2 or more, or [first, last] with first < last",
        ),
    ] {
        assert_eq!(refused(&text), expected);
    }
}

/// Pipeline files are cut at every byte: the result is accepted, or refused at a position within the text.
#[test]
fn a_file_cut_anywhere_is_refused_at_a_place_in_it() {
    let files = ["imagenet.toml", "imagenet-val.toml", "cifar10.toml"];
    let files = files.map(|name| std::fs::read_to_string(ready(name)).unwrap());
    let (mut understood, mut refused) = (0, 0);
    for whole in files {
        assert!(parse(&whole).is_ok());
        for end in (0..whole.len()).filter(|&end| whole.is_char_boundary(end)) {
            let Err(error) = parse(&whole[..end]) else {
                understood += 1;
                continue;
            };
            refused += 1;
            let Some(TextPosition { line, column, .. }) = position(&error) else { continue };
            let text = whole[..end].split('\n').nth(line as usize - 1);
            let text = text.unwrap_or_else(|| panic!("cut at {end}: no line {line}"));
            assert!(column as usize <= text.chars().count() + 1, "cut at {end}: {error}");
        }
    }
    assert!(understood > 20 && refused > 400, "{understood} understood, {refused} refused");
}

#[test]
fn what_is_not_toml_is_refused_at_its_place() {
    let error = parse("[fields]\nimage = [").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Format);
    assert!(error.to_string().starts_with("x.toml:2:10: not TOML: "), "{error}");
    assert_eq!(position(&error), Some(TextPosition { offset: 18, line: 2, column: 10 }), "{error}");
    assert!(refused("a = 1\na = 2").starts_with("x.toml:2:1: not TOML: duplicate key"));
}

#[test]
fn a_file_that_can_t_be_read_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let error = |name: &str| Spec::open(&dir.path().join(name)).unwrap_err();
    assert_eq!(error("none.toml").kind(), ErrorKind::NotFound);
    assert!(error("none.toml").to_string().contains("none.toml: "));
    std::fs::write(dir.path().join("bytes.toml"), [0xff, 0xfe]).unwrap();
    assert!(error("bytes.toml").to_string().ends_with("bytes.toml: not TOML: it is not UTF-8"));
    std::fs::write(dir.path().join("long.toml"), vec![b'#'; MAX_BYTES + 1]).unwrap();
    assert_eq!(error("long.toml").kind(), ErrorKind::Format);
    let expected = format!("long.toml: more than {MAX_BYTES} bytes");
    assert!(error("long.toml").to_string().ends_with(&expected));
}

#[test]
fn a_field_that_the_dataset_has_not_is_refused_when_the_loader_is_built() {
    let (_dir, file) = write(2, WriteMode::Raw, |_| Size::new(8, 8));
    let builder = Loader::open(&file).unwrap();
    let spec = parse("[fields]\npicture = ['ToChannelsFirst']").unwrap();
    let error = spec.apply(builder).build().err().unwrap().to_string();
    assert!(error.contains("picture") && error.contains("image"), "{error}");
    assert!(spec.ops("image", Epoch(0)).unwrap().is_empty());
}

#[test]
fn what_is_too_much_is_refused() {
    let many = |n| image(&"'ToChannelsFirst', ".repeat(n));
    assert_eq!(parse(&many(256)).unwrap().ops("image", Epoch(0)).unwrap().len(), 256);
    let error = parse(&many(257)).unwrap_err();
    assert!(matches!(cause(&error), ParseCause::Spec(SpecCause::TooMany)), "{error}");
    for text in [
        format!("a = {}", "[".repeat(100_000)),
        format!("a = {}1{}", "[".repeat(500), "]".repeat(500)),
        format!("a{} = 1", ".a".repeat(100_000)),
        "[fields]\n".repeat(50_000),
        image(&"{ op = { op = ".repeat(70)),
        image(&format!("{{ op = '{}' }}", "x".repeat(500_000))),
        " ".repeat(MAX_BYTES + 1),
    ] {
        let message = refused(&text);
        assert!(message.len() < 1000, "{message}");
    }
    let turns: Vec<String> = (1..200)
        .map(|n| format!("{{ op = 'Resize', size = {{ from = 1, to = 2, epochs = [0, {n}] }} }}"))
        .collect();
    assert!(refused(&image(&turns.join(", "))).contains("at most 128 different epochs"));
}

/// No text causes a panic: the test generates TOML from the words of pipeline files.
#[test]
fn hostile_text_is_refused_or_understood() {
    const WORDS: [&str; 40] = [
        "[fields]",
        "[[fields.image]]",
        "image",
        "label",
        "=",
        "=",
        "=",
        "[",
        "]",
        "{",
        "}",
        ",",
        ",",
        "\n",
        "\n",
        "op",
        "'Resize'",
        "'RandomResizedCrop'",
        "'Normalize'",
        "'OneHot'",
        "size",
        "scale",
        "mean",
        "std",
        "fill",
        "from",
        "to",
        "epochs",
        "step",
        "seed",
        "without",
        "order",
        "0",
        "-1",
        "224",
        "1e308",
        "nan",
        "9223372036854775807",
        "true",
        "'\u{1b}[2J'",
    ];
    arbtest::arbtest(|u| {
        let count = u.int_in_range(0..=60)?;
        let words = (0..count).map(|_| Ok(*u.choose(&WORDS)?));
        let text = words.collect::<arbitrary::Result<Vec<_>>>()?.join(" ");
        fuseloop::fuzzing::spec_toml(text.as_bytes());
        Ok(())
    })
    .budget_ms(1_000);
    let number = ["inf", "nan", "-1", "0", "1e308", "9223372036854775807", "'x'", "[]", "{}"];
    for a in number {
        for b in number {
            let schedule = format!("{{ from = {a}, to = {b}, epochs = {a}, step = {b} }}");
            for value in [a.to_owned(), format!("[{a}, {b}]"), format!("[{a}, {b}, 1]"), schedule] {
                every_param_as(&value);
            }
        }
    }
}

/// Sets every parameter of every op to this value. An error has its line and column.
fn every_param_as(value: &str) {
    for info in registry() {
        let params: Vec<String> =
            info.params.iter().map(|param| format!(", {} = {value}", param.name)).collect();
        let text = image(&format!("{{ op = '{}'{} }}", info.name, params.concat()));
        if let Err(error) = parse(&text) {
            assert!(position(&error).is_some_and(|at| at.line == 2), "{error}");
        }
        fuseloop::fuzzing::spec_toml(text.as_bytes());
    }
}

/// Four times as many fields take about four times as long, on lines of their own and all on one.
#[test]
fn a_pipeline_of_many_fields_is_read_and_applied_in_linear_time() {
    let time = |count: usize| {
        let all = |between: &str| {
            let field = |k| format!("f{k} = [\"RandomInvert\"]");
            (0..count).map(field).collect::<Vec<_>>().join(between)
        };
        let start = std::time::Instant::now();
        for text in [format!("[fields]\n{}", all("\n")), format!("fields = {{ {} }}", all(", "))] {
            let spec = Spec::parse(&text, "many.toml".as_ref()).unwrap();
            assert_eq!(spec.fields().count(), count);
            let loader = spec.apply(crate::targets::Scenes::new(1).loader());
            let error = loader.build().err().unwrap().to_string();
            assert!(error.contains("f0"), "{error}");
        }
        start.elapsed()
    };
    // Reading the text once for each op, or comparing each name with all others, takes 16 times as long. A machine that is
    // busy with something else for a while is given more chances.
    let ratio = || time(24_000).as_secs_f64() / time(6_000).as_secs_f64();
    assert!((0..5).any(|_| ratio() < 8.0), "4 times as many fields take more than 8 times as long");
}
