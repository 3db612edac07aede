//! Tests that each wrapper of a source answers as that source does: every wrapper, every method.
//!
//! Most methods of [`Source`] have defaults, so a wrapper that forgets one compiles and answers wrongly.
//! Two kinds of tests prevent this: some ask each wrapper for everything, over a source whose answers
//! differ from all defaults; one reads which methods each wrapper implements, so that a new method of
//! the trait, or a new wrapper, is not forgotten here either.

use super::stream::{Interleave, MixEnd, StreamSource};
use super::*;
use crate::sample::{Epoch, SampleId};
use fuseloop_ops::Size;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Types that wrap a source, or an item of one, and the methods that they leave to the default,
/// each with the reason.
const WRAPPERS: &[(&str, &[(&str, &str)])] = &[
    ("Concat", &[]),
    (
        "PagedBeton",
        &[
            ("components", ONE),
            ("component", ONE),
            ("annotated_size", "a `.beton` file has none"),
            ("stored_bytes", PAGES),
            ("hold_in_memory", PAGES),
            ("expect_read", PAGES),
            ("value_in_memory", PAGES),
            ("image_extent", PAGES),
            ("image_part", PAGES),
        ],
    ),
    ("StreamSource", STREAM),
    ("SequentialSource", COUNTED),
    ("Joined", ITEM),
    ("LazyItem", ITEM),
    (
        "GeneratedRun",
        &[
            ("path", "records of a function lie in no file"),
            ("paths", "records of a function lie in no file"),
            ("value", "the record serves all fields"),
            ("components", ONE),
            ("component", ONE),
            ("image_stats", UNKNOWN),
            ("class_names", UNKNOWN),
            ("object_fields", UNKNOWN),
            ("annotated_size", UNKNOWN),
            ("longest", UNKNOWN),
            ("is_cheap_to_read_again", "making a record again calls the function"),
            ("locate", "records of a function lie in no file"),
            ("locality_group", "records of a function lie in no file"),
            ("begin", "it is begun"),
            ("stored_bytes", "records of a function lie in no file"),
            ("hold_in_memory", "records of a function lie in no file"),
            ("expect_read", "records of a function lie in no file"),
            ("value_in_memory", "records of a function lie in no file"),
            ("image_extent", "records of a function lie in no file"),
            ("image_part", "records of a function lie in no file"),
        ],
    ),
];

const ONE: &str = "one dataset";
const PAGES: &str = "its pages are read ahead";
const SEQUENCE: &str = "it is read in sequence, ahead";
const PASSED: &str = "finding an item again begins the pass again";
const UNKNOWN: &str = "not known without making all records";
const STREAM: &[(&str, &str)] = &[
    ("path", "a stream is read in sequence, as no file is"),
    ("is_cheap_to_read_again", "a step back begins the pass again"),
    ("locality_group", "a stream has one order"),
    ("end", "a pass ends when it is dropped"),
    ("annotated_size", PASSED),
    ("stored_bytes", SEQUENCE),
    ("hold_in_memory", SEQUENCE),
    ("expect_read", SEQUENCE),
    ("value_in_memory", SEQUENCE),
    ("image_extent", SEQUENCE),
    ("image_part", SEQUENCE),
];
const COUNTED: &[(&str, &str)] = &[
    ("path", "a stream is read in sequence, as no file is"),
    ("value", "the record serves all fields"),
    ("is_cheap_to_read_again", "a step back begins the pass again"),
    ("locality_group", "a stream has one order"),
    ("begin", "it is read in its own order"),
    ("end", "it is not begun"),
    ("annotated_size", PASSED),
    ("stored_bytes", SEQUENCE),
    ("hold_in_memory", SEQUENCE),
    ("expect_read", SEQUENCE),
    ("value_in_memory", SEQUENCE),
    ("image_extent", SEQUENCE),
    ("image_part", SEQUENCE),
];
/// The methods of an item of a stream that the stream answers.
const ITEM: &[(&str, &str)] = &[
    ("path", "the stream answers"),
    ("paths", "the stream answers"),
    ("value", "the record serves all fields"),
    ("components", "the stream labels its items"),
    ("component", "the stream labels its items"),
    ("image_stats", "the stream answers"),
    ("class_names", "the stream answers"),
    ("object_fields", "the stream answers"),
    ("annotated_size", "the stream answers"),
    ("longest", "the stream answers"),
    ("is_cheap_to_read_again", "the stream answers"),
    ("locality_group", "the stream answers"),
    ("fingerprint", "the stream answers"),
    ("begin", "the stream is begun"),
    ("end", "the stream is begun"),
    ("stored_bytes", "the stream answers"),
    ("hold_in_memory", "the stream answers"),
    ("expect_read", "the record is there"),
    ("value_in_memory", "the record is there"),
    ("image_extent", "the record is there"),
    ("image_part", "the record is there"),
];

/// Types that read a dataset themselves.
const READERS: [&str; 12] = [
    "Annotated",
    "Beton",
    "Folder",
    "FixedLength",
    "Tar",
    "TfRecords",
    "Generated",
    "ItemFile",
    "FailedRecord",
    "DamagedRecord",
    // Sources of fuzz targets.
    "Numbers",
    "ImageInParts",
];

/// A source whose answers differ from all defaults.
struct Probe {
    fields: Vec<FieldSpec>,
    first: u64,
}

fn probe(first: u64) -> Arc<dyn Source> {
    let field = |name: &str, kind| FieldSpec { name: name.to_owned(), kind };
    let fields = vec![field("image", FieldKind::RgbImage), field("note", FieldKind::Bytes)];
    Arc::new(Probe { fields, first })
}

impl Source for Probe {
    fn fields(&self) -> &[FieldSpec] {
        &self.fields
    }

    fn len(&self) -> u64 {
        5
    }

    fn read(&self, SampleId(sample): SampleId) -> Result<Record, BoxError> {
        let note = format!("note {}", self.first + sample).into_bytes();
        let image = OwnedImage::rgb((1, 2), vec![sample as u8; 6]);
        Ok(vec![OwnedValue::Image(image), OwnedValue::Bytes(note)])
    }

    fn name(&self) -> String {
        "the probe".to_owned()
    }

    fn path(&self) -> Option<&Path> {
        Some(Path::new("probe.bin"))
    }

    fn paths(&self) -> Box<dyn Iterator<Item = PathBuf> + '_> {
        Box::new(["folder", "probe.bin"].into_iter().map(PathBuf::from))
    }

    fn components(&self) -> usize {
        3
    }

    fn component(&self, sample: SampleId, _: &mut Buffer) -> Result<usize, BoxError> {
        Ok(1 + sample.0 as usize % 2)
    }

    fn image_stats(&self, field: usize) -> Option<ImageStats> {
        let size = Some(Size::new(1, 2));
        let stats = ImageStats { raw: 5, min: size, max: size, max_pixels: 2, ..<_>::default() };
        (field == 0).then_some(stats)
    }

    fn longest(&self, field: usize) -> Option<u64> {
        (field == 1).then_some(6)
    }

    fn is_cheap_to_read_again(&self) -> bool {
        true
    }

    fn locate(&self, sample: SampleId, field: usize) -> Option<SampleLocation> {
        let start = 100 * sample.0 + 10 * field as u64;
        Some(SampleLocation {
            bytes: Some(start..start + 6),
            ..SampleLocation::in_file("probe.bin", Some(format!("key {sample}").into()))
        })
    }

    fn object_fields(&self) -> Result<Option<ObjectFields>, BoxError> {
        Ok(Some([("note", ObjectField::Classes)].into_iter().collect()))
    }

    fn annotated_size(&self, sample: SampleId) -> Option<Size> {
        Some(Size::new(3, 4 + sample.0 as u32))
    }

    fn locality_group(&self, sample: SampleId) -> Option<u64> {
        Some(sample.0 / 2)
    }

    fn fingerprint(&self) -> u64 {
        77
    }
}

/// Returns what a source answers for a sample and these fields, by method.
fn answers(
    source: &dyn Source,
    sample: SampleId,
    fields: Range<usize>,
) -> BTreeMap<&'static str, String> {
    let mut buffer = Buffer::default();
    let each =
        |of: &mut dyn FnMut(usize) -> String| fields.clone().map(of).collect::<Vec<_>>().join("; ");
    let mut all = BTreeMap::new();
    all.insert("fields", format!("{:?}", &source.fields()[fields.clone()]));
    all.insert("len", source.len().to_string());
    all.insert("name", source.name());
    all.insert("path", format!("{:?}", source.path()));
    all.insert("paths", format!("{:?}", source.paths().collect::<Vec<_>>()));
    all.insert("components", source.components().to_string());
    all.insert("component", format!("{:?}", source.component(sample, &mut buffer).ok()));
    all.insert("image_stats", each(&mut |field| format!("{:?}", source.image_stats(field))));
    all.insert("longest", each(&mut |field| format!("{:?}", source.longest(field))));
    all.insert("is_cheap_to_read_again", source.is_cheap_to_read_again().to_string());
    all.insert("locate", each(&mut |field| format!("{:?}", source.locate(sample, field))));
    all.insert("object_fields", format!("{:?}", source.object_fields().ok()));
    all.insert("annotated_size", format!("{:?}", source.annotated_size(sample)));
    all.insert("locality_group", format!("{:?}", source.locality_group(sample)));
    buffer.forget();
    all.insert(
        "value",
        each(&mut |field| format!("{:?}", source.value(sample, field, &mut buffer).ok())),
    );
    all.insert(
        "read",
        format!("{:?}", source.read(sample).ok().map(|record| record[fields.clone()].to_vec())),
    );
    all
}

/// Asserts that a wrapper answers for `sample` as the wrapped source does for `plain_sample`, except for
/// the methods in `except`.
fn assert_answers_as(
    title: &str,
    (wrapper, sample): (&dyn Source, u64),
    (plain, plain_sample): (&dyn Source, u64),
    except: &[&str],
) {
    let found = answers(wrapper, SampleId(sample), 0..plain.fields().len());
    let expected = answers(plain, SampleId(plain_sample), 0..plain.fields().len());
    for (method, expected) in expected {
        if !except.contains(&method) {
            assert_eq!(found[method], expected, "{title}: {method} of sample {sample}");
        }
    }
}

/// All samples of a run, in the order of the source.
struct InOrder(u64);

impl Upcoming for InOrder {
    fn samples(&self) -> u64 {
        self.0
    }

    fn at(&self, positions: Range<u64>, samples: &mut Vec<SampleId>) {
        samples.extend(positions.map(SampleId));
    }
}

fn begun(source: &Arc<dyn Source>) -> Arc<dyn Source> {
    let run = RunPlan {
        seed: 3,
        epoch: Epoch(0),
        upcoming: Arc::new(InOrder(source.len())),
        batch_size: 2,
        batches_ahead: 2,
        fields: (0..source.fields().len()).collect(),
    };
    let begun = Arc::clone(source).begin(&run).unwrap();
    begun.unwrap_or_else(|| Arc::clone(source))
}

#[test]
fn several_sources_as_one_answer_for_each() {
    let plain = probe(0);
    let one: Arc<dyn Source> = Arc::new(Concat::new([probe(0)]).unwrap());
    for source in [&one, &begun(&one)] {
        for sample in 0..5 {
            assert_answers_as("Concat of one", (&**source, sample), (&*plain, sample), &[]);
        }
    }
    let two: Arc<dyn Source> = Arc::new(Concat::new([probe(0), probe(50)]).unwrap());
    // Together the sources have other counts, and each source is a component.
    let except = [
        "len",
        "name",
        "path",
        "paths",
        "components",
        "component",
        "image_stats",
        "locality_group",
    ];
    for source in [&two, &begun(&two)] {
        for sample in 0..10 {
            let (plain, first) = (probe(sample / 5 * 50), sample / 5 * 5);
            assert_answers_as("Concat", (&**source, sample), (&*plain, sample - first), &except);
        }
    }
}

#[test]
fn every_stream_answers_as_what_it_plays() {
    let dir = tempfile::tempdir().unwrap();
    let stream = || Stream::of(probe(0));
    let interleave = || Stream::interleave([stream()], Interleave::default()).unwrap();
    let all: [(&str, Stream, &[&str]); 13] = [
        ("of", stream(), &[]),
        ("filter", stream().filter(|_| true), &["len"]),
        ("shuffle", stream().shuffle(1), &[]),
        ("take", stream().take(5), &[]),
        ("skip", stream().skip(0), &[]),
        ("repeat", stream().repeat(1), &[]),
        ("prefetch", stream().prefetch(2), &[]),
        ("concat", Stream::concat([stream()]).unwrap(), &[]),
        ("interleave", interleave(), &[]),
        ("mix", Stream::mix([(stream(), 1.0)], MixEnd::First).unwrap(), &["len"]),
        ("zip", Stream::zip([stream()]).unwrap(), &["components", "component", "object_fields"]),
        ("cache_in_memory", stream().cache_in_memory(1 << 20), &[]),
        ("cache_file", stream().cache_file(dir.path().join("cache"), 1 << 20), &[]),
    ];
    let plain = probe(0);
    // A stream that reads an item ahead, looks at it or stores it has a record without bytes in a file,
    // and a file of cached items is a file of its own: where an item is from is compared below.
    let of_streams =
        ["path", "is_cheap_to_read_again", "locality_group", "locate", "annotated_size"];
    for (title, stream, except) in all {
        let except = [&of_streams[..], except].concat();
        let played: Arc<dyn Source> = Arc::new(StreamSource::new(stream.clone()));
        let counted: Arc<dyn Source> = Arc::new(stream.clone().counted(|_| ()).unwrap());
        for (kind, source) in [("", &played), (", begun", &begun(&played)), (", counted", &counted)]
        {
            for sample in 0..5 {
                let title = format!("{title}{kind}");
                assert_answers_as(&title, (&**source, sample), (&*plain, sample), &except);
            }
        }
        for source in [&played, &counted] {
            let [found, expected] = [source, &plain].map(|s| s.locate(SampleId(2), 1).unwrap());
            let key = found.key.as_deref().unwrap();
            match title {
                // The key is that of the item before it was stored, if the pass comes from the file.
                "cache_file" => assert!(key.contains("key 2"), "{key}"),
                "of" => assert_eq!(found, expected),
                _ => assert_eq!(found.of_sample(), expected.of_sample(), "{title}"),
            }
        }
    }
}

#[test]
fn items_side_by_side_are_where_each_was() {
    let renamed = |name: &str| {
        let fields = vec![FieldSpec { name: name.to_owned(), kind: FieldKind::Bytes }];
        Stream::of(probe(0)).map(fields, |record| Ok(record[1..].to_vec()))
    };
    let zip = StreamSource::new(Stream::zip([Stream::of(probe(0)), renamed("other")]).unwrap());
    let plain = probe(0);
    assert_eq!(zip.locate(SampleId(3), 1), plain.locate(SampleId(3), 1));
    let found = zip.locate(SampleId(3), 2).unwrap();
    assert_eq!(found, plain.locate(SampleId(3), 0).unwrap().of_sample());
}

#[test]
fn pages_answer_as_their_file() {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/beton/all_fields_p16k.beton");
    let file = Arc::new(Beton::open(&path, &OpenOptions::default()).unwrap());
    let paged: Arc<dyn Source> =
        Arc::new(PagedBeton::new(Arc::clone(&file), ProcessCache::default()));
    for source in [&paged, &begun(&paged)] {
        for sample in 0..file.len() {
            assert_answers_as("PagedBeton", (&**source, sample), (&*file, sample), &[]);
            assert_eq!(source.fingerprint(), Source::fingerprint(&*file));
        }
    }
    assert!(Source::locate(&*file, SampleId(file.len()), 0).is_none(), "there is no such sample");
}

#[test]
fn a_run_of_made_records_answers_as_their_source() {
    let fields = vec![FieldSpec { name: "n".to_owned(), kind: FieldKind::Int }];
    let generated = |_, sample: u64| Ok::<_, BoxError>(vec![OwnedValue::Int(sample as i64)]);
    let source: Arc<dyn Source> =
        Arc::new(Generator::new(1, 4).source(fields, 5, generated).unwrap());
    let run = begun(&source);
    for sample in 0..5 {
        assert_answers_as("Generated", (&*run, sample), (&*source, sample), &[]);
    }
    assert_eq!(run.fingerprint(), source.fingerprint());
}

/// Returns the methods that a block of code implements, by the beginnings of their lines.
fn methods(block: &str) -> BTreeSet<&str> {
    let heads = block.lines().filter_map(|line| line.strip_prefix("    fn "));
    heads.map(|head| head.split(['(', '<']).next().unwrap_or(head)).collect()
}

fn rust_files(dir: PathBuf, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

#[test]
fn every_wrapper_has_decided_on_every_method() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let text = fs::read_to_string(root.join("source/samples/mod.rs")).unwrap();
    let of_trait = text.split("pub trait Source").nth(1).unwrap().split("\n}\n").next().unwrap();
    let of_trait = methods(of_trait);
    assert!(of_trait.contains("locate") && of_trait.len() > 10, "{of_trait:?}");
    let mut files = vec![];
    rust_files(root, &mut files);
    let mut met = BTreeSet::new();
    for file in files.iter().filter(|file| !file.ends_with("wrapper_laws.rs")) {
        let text = fs::read_to_string(file).unwrap();
        let is_test = file.components().any(|part| part.as_os_str() == "tests")
            || file.file_name().is_some_and(|name| name == "tests.rs");
        let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        for block in text.split("\nimpl Source for ").skip(1).filter(|_| !is_test) {
            let name = block.split_whitespace().next().unwrap();
            let own = methods(block.split("\n}\n").next().unwrap());
            met.insert(name.to_owned());
            let Some((_, left)) = WRAPPERS.iter().find(|(wrapper, _)| *wrapper == name) else {
                assert!(READERS.contains(&name), "{file:?}: is {name} a wrapper or a reader?");
                continue;
            };
            let left: BTreeSet<&str> = left.iter().map(|(method, _)| *method).collect();
            let found: BTreeSet<&str> = of_trait.difference(&own).copied().collect();
            assert_eq!(found, left, "{name}: methods that are left to the default");
        }
    }
    assert_eq!(met.len(), WRAPPERS.len() + READERS.len(), "{met:?}");
}
