//! What holds for every entry.

use super::*;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// An op with what it needs: the examples of its required parameters.
fn example(info: &OpInfo) -> Table {
    let examples = info.params.iter().filter_map(|param| match param.need {
        Need::Required(example) => Some((param.name, example.value())),
        _ => None,
    });
    Table::from_iter([("op", Value::from(info.name))].into_iter().chain(examples))
}

fn build(table: Table) -> Result<Ops, SpecError> {
    build_ops(&Value::from(vec![Value::from(table)]))
}

fn message(table: Table) -> String {
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

/// A default says the same as nothing, so it is of its parameter's kind.
#[test]
fn every_default_may_also_be_written() {
    for info in registry() {
        let without = build(example(info)).unwrap();
        for param in info.params {
            let Need::Default(default) = param.need else { continue };
            let mut table = example(info);
            table.0.extend(Table::from_iter([(param.name, default.value())]).0);
            let with = build(table).unwrap();
            assert_eq!(format!("{with:?}"), format!("{without:?}"), "{} {}", info.name, param.name);
        }
    }
}

/// Of a wrong kind, every parameter is refused by name: so none is forgotten by `build`.
#[test]
fn every_parameter_is_read_and_its_kind_is_checked() {
    for info in registry() {
        for param in info.params {
            let mut table = example(info);
            table.0.retain(|entry| entry.name != param.name);
            table.0.extend(Table::from_iter([(param.name, Table::default().into())]).0);
            let error = build(table).expect_err(param.name);
            let told = error.to_string();
            assert!(told.contains("a table"), "{} {}: {told}", info.name, param.name);
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
        assert!(find(name).is_ok(), "{name} has no entry in ops/src/registry");
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
    let op = |name, params: &[(&'static str, Value)]| {
        Table::from_iter([("op", Value::from(name))].into_iter().chain(params.iter().cloned()))
    };
    let (size, scale) = (Value::from(224), Value::from(0.5));
    for (table, told) in [
        (
            op("RandomResizeCrop", &[]),
            "there is no op `RandomResizeCrop`, did you mean `RandomResizedCrop`?",
        ),
        (
            op("HorizontalFlip", &[]),
            "there is no op `HorizontalFlip`, did you mean `RandomHorizontalFlip`?",
        ),
        (op("Transmogrify", &[]), "there is no op `Transmogrify`"),
        (
            op("RandomResizedCrop", &[("size", size.clone()), ("scael", scale.clone())]),
            "RandomResizedCrop has no parameter `scael`, did you mean `scale`?",
        ),
        (
            op("Resize", &[("size", size.clone()), ("magic", scale.clone())]),
            "Resize has no parameter `magic`, it takes `size`, `interpolation`",
        ),
        (
            op("Squeeze", &[("axis", size.clone())]),
            "Squeeze has no parameter `axis`, it takes none",
        ),
        (op("Resize", &[]), "Resize needs `size`: pixels, or [height, width]"),
        (
            op("RandomResizedCrop", &[("size", size), ("scale", scale)]),
            "RandomResizedCrop: scale is 0.5, expected [low, high]",
        ),
        (
            op("Resize", &[("size", Value::from(256)), ("interpolation", Value::from("cubic"))]),
            "Resize: interpolation is \"cubic\", expected \"bilinear-antialias\", \"area\", \"nearest\", \"nearest-exact\", \"bilinear\", \"bicubic\" or \"bicubic-antialias\"",
        ),
        (
            op("RandomHorizontalFlip", &[("p", Value::from(1.5))]),
            "RandomHorizontalFlip: p is 1.5, expected 0.0..=1.0",
        ),
        (
            op("OneHot", &[("classes", Value::from(-1))]),
            "OneHot: classes is -1, expected a whole number, 0 or more",
        ),
        (Table::default(), "an op is a name, or a table with a name as its `op`, not a table"),
    ] {
        assert_eq!(message(table), told);
    }
}

#[test]
fn an_error_stands_where_its_value_does() {
    let at = |datum: Value, at| Value { at: Some(at), ..datum };
    let entry = |name: &str, at, value| Entry { name: name.to_owned(), at: Some(at), value };
    let op = |entries| {
        let table = at(Value::from(Table(entries)), 1);
        build_ops(&Value::from(vec![table])).unwrap_err().at
    };
    let name = |text| entry("op", 2, at(Value::from(text), 3));
    assert_eq!(op(vec![name("Nothing")]), Some(3), "the op's name");
    assert_eq!(op(vec![name("Resize")]), Some(1), "the op that lacks something");
    assert_eq!(
        op(vec![name("Squeeze"), entry("x", 4, at(Value::from(1), 5))]),
        Some(4),
        "the name"
    );
    let p = |value| op(vec![name("RandomVerticalFlip"), entry("p", 4, at(value, 5))]);
    assert_eq!(p(Value::from("x")), Some(5), "the value of a wrong kind");
    assert_eq!(p(Value::from(7.0)), Some(5), "the value out of range");
}

#[test]
fn a_list_is_bounded() {
    let many = |n| Value::from(vec![Value::from("ToChannelsFirst"); n]);
    assert_eq!(build_ops(&many(MAX_OPS)).unwrap().len(), MAX_OPS);
    assert_eq!(build_ops(&many(MAX_OPS + 1)).unwrap_err().cause, SpecCause::TooMany);
    let deepest = Bounds { depth: MAX_DEPTH, left: &Cell::new(MAX_OPS) };
    assert_eq!(deepest.ops(&many(1)).unwrap_err().cause, SpecCause::TooDeep);
}

#[test]
fn what_is_no_list_of_ops_is_refused() {
    assert_eq!(
        build_ops(&Value::from("Resize")).unwrap_err().to_string(),
        "ops are given as a list, not \"Resize\""
    );
    let number = Value::from(vec![Value::from(5)]);
    assert!(build_ops(&number).unwrap_err().to_string().ends_with("not 5"));
}

/// One number and two mean what the Rust constructors and torchvision mean by them.
#[test]
fn sizes_are_read_as_torchvision_reads_them() {
    let op = |size: Value| {
        let ops = build(Table::from_iter([("op", Value::from("Resize")), ("size", size)]));
        format!("{:?}", ops.unwrap())
    };
    assert_eq!(op(256.into()), format!("[{:?}]", crate::Resize::short_side(256).unwrap()));
    let exact = op(vec![Value::from(100), Value::from(50)].into());
    assert_eq!(exact, format!("[{:?}]", crate::Resize::new(100, 50).unwrap()));
}

/// Reads `value` as a parameter. A macro, as a method of `Args` is no `fn` for every lifetime.
macro_rules! read {
    ($value:expr, $method:ident $(, $more:expr)?) => {{
        let table = Table::from_iter([("x", Value::from($value))]);
        Args::with("test", ANY, &table, None, |args| args.$method("x" $(, $more)?)).ok()
    }};
}

const ANY: &[ParamInfo] = &[maybe("x", Kind::Table, "anything")];

fn numbers<const N: usize>(numbers: [i64; N]) -> Value {
    numbers.map(Value::from).to_vec().into()
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
    assert_eq!(read!("area", interpolation), Some(crate::Interpolation::Area));
    assert_eq!(read!("cubic", interpolation), None);
    assert_eq!(read!(numbers([3, 1]), ids), Some(vec![3, 1]));
    assert_eq!(read!("a", text), Some("a".to_owned()));
    assert_eq!(read!(vec![Value::from("a")], texts), Some(vec!["a".to_owned()]));
    assert_eq!(read!(30, range_or, |d| -d..=d), Some(-30.0..=30.0));
    assert_eq!(read!(numbers([-5, 9]), range_or, |d| -d..=d), Some(-5.0..=9.0));
    let ops = read!(vec![Value::from("ToChannelsFirst"); 2], ops);
    assert_eq!(ops.map(|ops| ops.len()), Some(2));
}
