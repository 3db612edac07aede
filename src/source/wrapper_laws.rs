//! Tests that each wrapper of a source answers as that source does, over a source whose answers differ from all defaults.

use super::stream::{Interleave, MixEnd, StreamSource};
use super::*;
use crate::sample::{Epoch, SampleId};
use fuseloop_ops::Size;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A source whose answers differ from all defaults.
struct Probe {
    facts: Facts,
    first: u64,
}

fn probe(first: u64) -> Arc<dyn Source> {
    let size = Some(Size::new(1, 2));
    let stats = ImageStats { raw: 5, min: size, max: size, max_pixels: 2, ..<_>::default() };
    let fields = [("image", FieldKind::RgbImage), ("note", FieldKind::Bytes)];
    let facts = Facts {
        path: Some("probe.bin".into()),
        components: 3,
        rereads_cheaply: true,
        fingerprint: 77,
        ..Facts::new(fields, 5).named("the probe")
    };
    let facts = facts
        .with_image_stats(move |field| (field == 0).then(|| stats.clone()))
        .with_longest(|field| (field == 1).then_some(6))
        .with_audio([(1, Some("wav"))])
        .with_paths(|| Box::new(["folder", "probe.bin"].into_iter().map(PathBuf::from)))
        .with_object_fields(|| Ok(Some([("note", ObjectField::Classes)].into_iter().collect())));
    Arc::new(Probe { facts, first })
}

impl Source for Probe {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn read(&self, SampleId(sample): SampleId) -> Result<Record, BoxError> {
        let note = format!("note {}", self.first + sample).into_bytes();
        let image = OwnedImage::rgb((1, 2), vec![sample as u8; 6]);
        Ok(vec![OwnedValue::Image(image), OwnedValue::Bytes(note)])
    }

    fn component(&self, sample: SampleId, _: &mut Buffer) -> Result<usize, BoxError> {
        Ok(1 + sample.0 as usize % 2)
    }

    fn locate(&self, sample: SampleId, field: usize) -> Option<SampleLocation> {
        let start = 100 * sample.0 + 10 * field as u64;
        Some(SampleLocation {
            bytes: Some(start..start + 6),
            ..SampleLocation::in_file("probe.bin", Some(format!("key {sample}").into()))
        })
    }

    fn locality_group(&self, sample: SampleId) -> Option<u64> {
        Some(sample.0 / 2)
    }

    fn stored(&self) -> Option<&dyn StoredValues> {
        Some(self)
    }
}

impl StoredValues for Probe {
    fn annotated_size(&self, sample: SampleId) -> Option<Size> {
        Some(Size::new(3, 4 + sample.0 as u32))
    }

    fn value_file(&self, sample: SampleId, field: usize) -> Option<PathBuf> {
        Some(format!("{}-{field}.png", self.first + sample.0).into())
    }

    fn value_in_memory(&self, sample: SampleId, field: usize) -> Option<Value<'_>> {
        Some(Value::Int((100 * self.first + 10 * sample.0 + field as u64).cast_signed()))
    }

    fn image_extent(&self, sample: SampleId, field: usize) -> Option<ImageExtent> {
        let (start, bytes) = (self.first + sample.0, field as u64);
        Some(ImageExtent { mode: None, size: Size::new(1, 2), start, bytes })
    }

    fn image_part(
        &self,
        sample: SampleId,
        field: usize,
        (at, to): (u64, &mut [u8]),
        _: &mut Buffer,
    ) -> Result<(), BoxError> {
        to.fill((self.first + sample.0 + field as u64 + at) as u8);
        Ok(())
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
    all.insert("name", source.name().to_owned());
    all.insert("path", format!("{:?}", source.path()));
    all.insert("paths", format!("{:?}", source.paths().collect::<Vec<_>>()));
    all.insert("components", source.components().to_string());
    all.insert("component", format!("{:?}", source.component(sample, &mut buffer).ok()));
    all.insert("image_stats", each(&mut |field| format!("{:?}", source.image_stats(field))));
    all.insert("longest", each(&mut |field| format!("{:?}", source.longest(field))));
    all.insert("is_audio", each(&mut |field| source.facts().is_audio(field).to_string()));
    all.insert("is_video", each(&mut |field| source.facts().is_video(field).to_string()));
    all.insert("rereads_cheaply", source.facts().rereads_cheaply.to_string());
    all.insert("locate", each(&mut |field| format!("{:?}", source.locate(sample, field))));
    all.insert("object_fields", format!("{:?}", source.object_fields().ok()));
    let stored = source.stored();
    all.insert("annotated_size", format!("{:?}", source.annotated_size(sample)));
    all.insert(
        "value_file",
        each(&mut |field| format!("{:?}", stored.and_then(|s| s.value_file(sample, field)))),
    );
    all.insert(
        "value_in_memory",
        each(&mut |field| format!("{:?}", stored.and_then(|s| s.value_in_memory(sample, field)))),
    );
    all.insert(
        "image_extent",
        each(&mut |field| format!("{:?}", stored.and_then(|s| s.image_extent(sample, field)))),
    );
    let part = |field| {
        let mut bytes = [0; 2];
        let read = stored?.image_part(sample, field, (3, &mut bytes), &mut Buffer::default());
        read.ok().map(|()| bytes)
    };
    all.insert("image_part", each(&mut |field| format!("{:?}", part(field))));
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

fn begun(source: &Arc<dyn Source>) -> Run {
    let run = RunPlan {
        seed: 3,
        epoch: Epoch(0),
        upcoming: Arc::new(InOrder(source.len())),
        batch_size: 2,
        batches_ahead: 2,
        fields: (0..source.fields().len()).collect(),
    };
    let begun = Arc::clone(source).begin(&run).unwrap();
    begun.unwrap_or_else(|| Run::new(Arc::clone(source)))
}

#[test]
fn selected_samples_answer_as_in_their_source() {
    let plain = probe(0);
    let selected = Selected::new(probe(0), [3, 1, 3]).unwrap();
    // What is known of all samples is not known of some, and values are read and not borrowed.
    let except = [
        "len",
        "path",
        "image_stats",
        "longest",
        "value_in_memory",
        "image_extent",
        "image_part",
        "locality_group",
    ];
    for (number, sample) in [3, 1, 3].into_iter().enumerate() {
        assert_answers_as("Selected", (&selected, number as u64), (&*plain, sample), &except);
    }
}

#[test]
fn several_sources_as_one_answer_for_each() {
    let plain = probe(0);
    let one: Arc<dyn Source> = Arc::new(Concat::new([probe(0)]).unwrap());
    for source in [&one, &*begun(&one)] {
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
    for source in [&two, &*begun(&two)] {
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
    let of_streams = [
        "path",
        "rereads_cheaply",
        "locality_group",
        "locate",
        "annotated_size",
        "value_file",
        "value_in_memory",
        "image_extent",
        "image_part",
    ];
    for (title, stream, except) in all {
        let except = [&of_streams[..], except].concat();
        let played: Arc<dyn Source> = Arc::new(StreamSource::new(stream.clone()));
        let counted: Arc<dyn Source> = Arc::new(stream.clone().counted(|_| ()).unwrap());
        for (kind, source) in
            [("", &played), (", begun", &*begun(&played)), (", counted", &counted)]
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
    for source in [&paged, &*begun(&paged)] {
        for sample in 0..file.len() {
            // Its pages are read ahead.
            let except = ["image_extent", "image_part"];
            assert_answers_as("PagedBeton", (&**source, sample), (&*file, sample), &except);
            assert_eq!(source.fingerprint(), file.facts().fingerprint);
        }
    }
    assert!(Source::locate(&*file, SampleId(file.len()), 0).is_none(), "there is no such sample");
    for stream in [Stream::of(paged), Stream::of(file)] {
        let mapped = stream.clone().map(vec![], |_| Ok(vec![]));
        for stream in [stream.clone(), stream.take(1), mapped] {
            let source = StreamSource::new(stream);
            assert_eq!(source.facts().paths().collect::<Vec<_>>(), [&*path]);
            assert_eq!(source.facts().path, None, "it is read in sequence");
        }
    }
}

#[test]
fn a_run_of_made_records_answers_as_their_source() {
    let fields = vec![FieldSpec { name: "n".to_owned(), kind: FieldKind::Int }];
    let generated = |_, sample: u64| Ok::<_, BoxError>(vec![OwnedValue::Int(sample as i64)]);
    let source: Arc<dyn Source> =
        Arc::new(Generator::new(1, 4).source(fields, 5, generated).unwrap());
    let run = begun(&source);
    for sample in 0..5 {
        assert_answers_as("Generated", (&**run, sample), (&*source, sample), &[]);
    }
    assert_eq!(run.fingerprint(), source.fingerprint());
}
