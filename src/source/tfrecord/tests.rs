//! TensorFlow's own files, files written by hand, and damaged ones.

use super::sequence::Sequence;
use super::*;
use crate::sample::Epoch;
use crate::source::stream::{Item, Pass, Stream};
use crate::source::{ImageMode, OwnedImage, OwnedValue};
use arbitrary::Unstructured;
use serde_json::Value as Json;
use std::fs;

fn golden(name: &str) -> String {
    format!("{}/tests/golden/tfrecord/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn told(name: &str) -> Vec<Json> {
    serde_json::from_slice(&fs::read(golden(name)).unwrap()).unwrap()
}

fn bytes(hex: &Json) -> Vec<u8> {
    let pairs = hex.as_str().unwrap().as_bytes().chunks(2);
    let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    pairs.map(byte).collect()
}

/// Numbers as they lie in an array.
fn packed(values: &Json) -> Vec<u8> {
    let values = values.as_array().unwrap().iter();
    let bytes = values.map(|value| match value.as_i64() {
        Some(int) => int.to_le_bytes().to_vec(),
        None => (value.as_f64().unwrap() as f32).to_le_bytes().to_vec(),
    });
    bytes.flatten().collect()
}

/// The records of `examples.tfrecord`, by the names of their features.
fn want(names: &[&str]) -> Vec<Record> {
    let value = |record: &Json, name: &str| {
        let values = &record["features"][name];
        match name {
            "image/encoded" => {
                let bytes = bytes(&values[0]);
                let mode = ImageMode::of_file(&bytes);
                OwnedValue::Image(OwnedImage { mode, width: 0, height: 0, bytes })
            }
            "image/class/text" => OwnedValue::Bytes(bytes(&values[0])),
            "image/class/label" => OwnedValue::Int(values[0].as_i64().unwrap()),
            "score" => OwnedValue::Float(values[0].as_f64().unwrap()),
            _ => OwnedValue::NdArray(packed(values)),
        }
    };
    let records = told("examples.json");
    records.iter().map(|record| names.iter().map(|name| value(record, name)).collect()).collect()
}

const ALL: [&str; 6] =
    ["box", "ids", "image/class/label", "image/class/text", "image/encoded", "score"];

fn of_bytes(bytes: &[u8], options: &TfOptions) -> Result<TfRecords, BoxError> {
    TfRecords::of_shards(Shards::new([Shard::held("x", bytes)]), options)
}

fn all(source: &TfRecords) -> Vec<Record> {
    (0..source.len()).map(|sample| source.read(SampleId(sample)).unwrap()).collect()
}

#[test]
fn tensorflows_examples_are_read() {
    let source = TfRecords::open(&golden("examples.tfrecord")).unwrap();
    let names: Vec<_> = source.fields().iter().map(|field| &field.name[..]).collect();
    assert_eq!(names, ALL);
    assert_eq!(all(&source), want(&ALL));
    let mut buffer = Buffer::default();
    for (sample, record) in (0..).map(SampleId).zip(want(&ALL)) {
        for (field, want) in record.iter().enumerate() {
            assert_eq!(source.value(sample, field, &mut buffer).unwrap(), want.borrowed());
            assert!(want.fits(&source.fields()[field].kind));
        }
        buffer.forget();
    }
    assert!(source.value(SampleId(7), 0, &mut buffer).is_err());
    assert!(source.value(SampleId(0), 6, &mut buffer).is_err());
    assert_eq!(source.key(SampleId(3)).unwrap(), "examples.tfrecord:3");

    let names = ["score", "image/encoded", "ids"];
    let options = TfOptions::default()
        .feature(names[0], Feature::Float)
        .feature(names[1], Feature::Image)
        .feature(names[2], Feature::Ints { len: 3 });
    let spec = golden("examples.tfrecord");
    let source = TfRecords::open_with(&format!("{spec}::{spec}"), &options).unwrap();
    let twice = [want(&names), want(&names)].concat();
    assert_eq!(all(&source), twice);
    assert_eq!((source.page(SampleId(6)), source.page(SampleId(7))), (Some(0), Some(1)));
}

#[test]
fn tensorflows_sequences_are_read() {
    let told = told("sequences.json");
    let options = TfOptions::default()
        .feature("id", Feature::Int)
        .feature("name", Feature::Bytes)
        .steps("fixed", Feature::Ints { len: 2 }, 3)
        .ragged_steps("steps", Feature::Float);
    let source = TfRecords::open_with(&golden("sequences.tfrecord"), &options).unwrap();
    assert_eq!(source.fields()[2].kind.array_bytes(), Some(3 * 2 * 8));
    let steps =
        |list: &Json| -> Vec<u8> { list.as_array().unwrap().iter().flat_map(packed).collect() };
    let want = |record: &Json| {
        vec![
            OwnedValue::Int(record["features"]["id"][0].as_i64().unwrap()),
            OwnedValue::Bytes(bytes(&record["features"]["name"][0])),
            OwnedValue::NdArray(steps(&record["lists"]["fixed"])),
            OwnedValue::Bytes(steps(&record["lists"]["steps"])),
        ]
    };
    assert_eq!(all(&source), told.iter().map(want).collect::<Vec<_>>());

    let guessed = TfRecords::open(&golden("sequences.tfrecord")).unwrap();
    let names: Vec<_> = guessed.fields().iter().map(|field| &field.name[..]).collect();
    assert_eq!(names, ["fixed", "id", "name"], "the first record has no step of \"steps\"");
    let short = TfOptions::default().steps("steps", Feature::Float, 1);
    let source = TfRecords::open_with(&golden("sequences.tfrecord"), &short).unwrap();
    assert!(source.read(SampleId(1)).is_ok());
    let error = source.read(SampleId(2)).unwrap_err().to_string();
    assert!(error.ends_with("feature list steps has 2 steps, expected 1"), "{error}");
}

const PASS: Pass = Pass { seed: 5, epoch: Epoch(0), turn: 0 };

fn streamed(stream: &Stream, skipped: u64) -> (u64, Vec<Record>) {
    let mut items = stream.open(&PASS).unwrap();
    let passed = items.skip(skipped).unwrap();
    let mut records = vec![];
    while let Some(item) = items.next().unwrap() {
        records.push(item.read().unwrap());
    }
    assert!(items.next().unwrap().is_none());
    (passed, records)
}

#[test]
fn compressed_and_plain_files_stream_the_same() {
    let names = ["examples", "examples_gzip", "examples_zlib"].map(|name| {
        let path = golden(&format!("{name}.tfrecord"));
        let is_place = name == "examples";
        let stream = Stream::from(TfRecordStream::open(&path).unwrap());
        let first = stream.open(&PASS).unwrap().next().unwrap();
        assert_eq!(matches!(first, Some(Item::At { .. })), is_place, "{name}");
        if !is_place {
            let error = TfRecords::open(&path).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains("compressed: it can only be read as a stream"), "{error}");
        }
        path
    });
    let stream = TfRecordStream::open(&names.join("::")).unwrap();
    let whole = [want(&ALL), want(&ALL), want(&ALL)].concat();
    for skipped in 0..25 {
        let (passed, left) = streamed(&stream.clone().into(), skipped);
        assert_eq!(passed, skipped.min(21));
        assert_eq!(left, whole[passed as usize..], "{skipped} skipped");
    }
    let apart: Vec<_> = stream.shards().iter().flat_map(|shard| streamed(shard, 0).1).collect();
    assert_eq!(apart, whole);
    let own = stream.clone().split_by_rank(1, 2).unwrap();
    assert_eq!(own.shards().len(), 1);
    assert_eq!(streamed(&own.into(), 0).1.len(), 7);
    let error = stream.clone().split_by_rank(0, 4).map(|_| ()).unwrap_err().to_string();
    assert!(error.starts_with("3 shards for 4 ranks"), "{error}");
    assert!(stream.split_by_rank(2, 2).is_err());
}

#[test]
fn ranks_share_the_shuffled_shards() {
    let dir = tempfile::tempdir().unwrap();
    for shard in 0..9 {
        let record = framed(&example(&[("n", &Numbers::Ints(vec![shard]))]));
        fs::write(dir.path().join(format!("{shard}.tfrecord")), record).unwrap();
    }
    let spec = format!("{}/*.tfrecord", dir.path().display());
    let stream = TfRecordStream::open(&spec).unwrap();
    let numbers = |stream: TfRecordStream, pass: &Pass| {
        let (mut items, mut found) = (Stream::from(stream).open(pass).unwrap(), vec![]);
        while let Some(item) = items.next().unwrap() {
            match item.read().unwrap()[..] {
                [OwnedValue::Int(number)] => found.push(number),
                _ => panic!("one number"),
            }
        }
        found
    };
    assert_eq!(numbers(stream.clone(), &PASS), (0..9).collect::<Vec<_>>());
    let shuffled = stream.shuffle_shards();
    let whole = numbers(shuffled.clone(), &PASS);
    let other = numbers(shuffled.clone(), &Pass { epoch: Epoch(1), ..PASS });
    assert_ne!(whole, other);
    for rank in 0..2 {
        let own = numbers(shuffled.clone().split_by_rank(rank, 2).unwrap(), &PASS);
        assert_eq!(own, whole.iter().copied().skip(rank).step_by(2).collect::<Vec<_>>());
    }
}

// The format, written plainly once more.

/// CRC-32C bit by bit: the polynomial 0x1edc6f41, reflected.
fn plain_crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 }
        })
    })
}

/// As the TFRecord guide has it: `((crc >> 15) | (crc << 17)) + 0xa282ead8`.
fn plain_masked(bytes: &[u8]) -> [u8; 4] {
    let crc = plain_crc(bytes);
    ((crc >> 15) | (crc << 17)).wrapping_add(0xa282_ead8).to_le_bytes()
}

fn framed(data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u64).to_le_bytes();
    [&length[..], &plain_masked(&length), data, &plain_masked(data)].concat()
}

#[derive(Clone, Debug, PartialEq)]
enum Numbers {
    Bytes(Vec<Vec<u8>>),
    Floats(Vec<f32>),
    Ints(Vec<i64>),
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut out = vec![];
    while value > 127 {
        out.push(value as u8 | 128);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

/// A field of bytes: its tag, its length, its bytes.
fn tagged(tag: u8, bytes: &[u8]) -> Vec<u8> {
    [vec![tag << 3 | 2], varint(bytes.len() as u64), bytes.to_vec()].concat()
}

fn feature(values: &Numbers) -> Vec<u8> {
    match values {
        Numbers::Bytes(all) => {
            tagged(1, &all.iter().flat_map(|bytes| tagged(1, bytes)).collect::<Vec<_>>())
        }
        Numbers::Floats(all) => {
            let bytes: Vec<u8> = all.iter().flat_map(|value| value.to_le_bytes()).collect();
            tagged(2, &tagged(1, &bytes))
        }
        // Not packed, as old writers wrote them.
        Numbers::Ints(all) if all.len() == 2 => {
            let one = |value: &i64| [vec![8], varint(*value as u64)].concat();
            tagged(3, &all.iter().flat_map(one).collect::<Vec<_>>())
        }
        Numbers::Ints(all) => {
            let bytes: Vec<u8> = all.iter().flat_map(|value| varint(*value as u64)).collect();
            tagged(3, &tagged(1, &bytes))
        }
    }
}

fn example(features: &[(&str, &Numbers)]) -> Vec<u8> {
    let entry = |(name, values): &(&str, &Numbers)| {
        tagged(1, &[tagged(1, name.as_bytes()), tagged(2, &feature(values))].concat())
    };
    tagged(1, &features.iter().flat_map(entry).collect::<Vec<_>>())
}

#[test]
fn the_crc_is_castagnolis() {
    // RFC 3720, B.4; and the check value of the catalogue of CRCs.
    assert_eq!(plain_crc(&[0; 32]), 0x8a91_36aa);
    assert_eq!(plain_crc(b"123456789"), 0xe306_9283);
    assert_eq!(crc32c::crc32c(b"123456789"), 0xe306_9283);
    arbtest::arbtest(|u| {
        let bytes: Vec<u8> = u.arbitrary()?;
        assert_eq!(frame::masked(&bytes).to_le_bytes(), plain_masked(&bytes));
        Ok(())
    })
    .budget_ms(100);
}

fn numbers(u: &mut Unstructured<'_>) -> arbitrary::Result<Numbers> {
    Ok(match u.int_in_range(0..=2)? {
        0 => Numbers::Bytes(u.arbitrary()?),
        1 => Numbers::Floats(u.arbitrary()?),
        _ => Numbers::Ints(u.arbitrary()?),
    })
}

/// What a feature must be read as, by the table at the top of `features.rs`.
fn expected(values: &Numbers) -> Option<(Feature, OwnedValue)> {
    let floats = |all: &[f32]| all.iter().flat_map(|value| value.to_le_bytes()).collect();
    let ints = |all: &[i64]| all.iter().flat_map(|value| value.to_le_bytes()).collect();
    Some(match values {
        Numbers::Bytes(all) if all.len() == 1 => {
            (Feature::Bytes, OwnedValue::Bytes(all[0].clone()))
        }
        Numbers::Bytes(_) => return None,
        Numbers::Floats(all) if all.len() == 1 => {
            (Feature::Float, OwnedValue::Float(all[0].into()))
        }
        Numbers::Ints(all) if all.len() == 1 => (Feature::Int, OwnedValue::Int(all[0])),
        Numbers::Floats(all) if all.is_empty() => {
            (Feature::RaggedFloats, OwnedValue::Bytes(vec![]))
        }
        Numbers::Ints(all) if all.is_empty() => (Feature::RaggedInts, OwnedValue::Bytes(vec![])),
        Numbers::Floats(all) => {
            (Feature::Floats { len: all.len() as u64 }, OwnedValue::NdArray(floats(all)))
        }
        Numbers::Ints(all) => {
            (Feature::Ints { len: all.len() as u64 }, OwnedValue::NdArray(ints(all)))
        }
    })
}

#[test]
fn what_another_encoder_wrote_is_read() {
    let mut read = 0;
    arbtest::arbtest(|u| {
        let (mut features, mut options) = (vec![], TfOptions::default());
        let (mut record, mut names) = (vec![], vec![]);
        for place in 0..u.int_in_range(1..=6)? {
            names.push(format!("{}{place}", u.arbitrary::<String>()?));
            features.push(numbers(u)?);
        }
        for (name, values) in names.iter().zip(&features) {
            if let Some((feature, value)) = expected(values) {
                options = options.feature(name, feature);
                record.push(value);
            }
        }
        let pairs: Vec<_> = names.iter().map(String::as_str).zip(&features).collect();
        let file = [framed(&example(&pairs)), framed(&example(&pairs))].concat();
        if record.is_empty() {
            return Ok(());
        }
        let shown = |record: &Record| format!("{record:?}"); // NaN is itself
        let source = of_bytes(&file, &options).unwrap();
        assert_eq!(all(&source).iter().map(shown).collect::<Vec<_>>(), vec![shown(&record); 2]);
        read += 1;
        Ok(())
    })
    .budget_ms(500);
    assert!(read > 50, "{read} files tested anything");
}

/// A file of a few records, some 1 KB.
fn small() -> Vec<u8> {
    let text = Numbers::Bytes(vec![vec![b'x'; 200]]);
    let record =
        |n| framed(&example(&[("n", &Numbers::Ints(vec![n])), ("text", &text), ("t", &text)]));
    [record(0), record(1)].concat()
}

/// What every record of a file is, read in any order and in sequence; `None` where it can't be opened.
fn both_ways(bytes: &[u8]) -> (Option<Vec<bool>>, Vec<bool>) {
    let options = TfOptions::default()
        .feature("n", Feature::Int)
        .feature("text", Feature::Bytes)
        .limits(Limits::SMALL);
    let source = of_bytes(bytes, &options).ok();
    let places = source.map(|source| {
        (0..source.len()).map(|sample| source.read(SampleId(sample)).is_ok()).collect()
    });
    let mut sequence = vec![];
    if let Ok(mut records) = Sequence::open(&Shard::held("x", bytes), Limits::SMALL) {
        while let Ok(Some((.., data))) = records.next() {
            sequence.push(data.is_ok());
        }
    }
    (places, sequence)
}

#[test]
fn a_file_cut_anywhere_is_refused_but_between_records() {
    let whole = small();
    let record = whole.len() / 2;
    for end in 0..=whole.len() {
        let (places, sequence) = both_ways(&whole[..end]);
        let is_between = end % record == 0;
        assert_eq!(places, is_between.then(|| vec![true; end / record]), "cut at {end}");
        assert_eq!(sequence, vec![true; end / record], "cut at {end}");
    }
}

#[test]
fn no_changed_bit_goes_unseen() {
    let whole = small();
    for bit in 0..whole.len() * 8 {
        let mut changed = whole.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        let (places, sequence) = both_ways(&changed);
        let damaged = bit / 8 >= whole.len() / 2;
        let one = vec![damaged, !damaged];
        match places {
            Some(places) => {
                assert_eq!(places, one, "bit {bit}");
                assert_eq!(sequence, one, "bit {bit}");
            }
            None => assert_eq!(sequence, vec![true; usize::from(damaged)], "bit {bit}"),
        }
    }
}

#[test]
fn errors_say_what_is_wrong_and_where() {
    let told = |bytes: &[u8]| {
        let source = of_bytes(bytes, &TfOptions::default().feature("n", Feature::Int));
        source.and_then(|source| source.read(SampleId(source.len() - 1))).unwrap_err().to_string()
    };
    let first = small()[..small().len() / 2].to_vec();
    let at = first.len();
    let begun = |error: &str| format!("x: record 1 at byte {at}: {error}");
    let with = |bytes: &[u8]| told(&[&first[..], bytes].concat());

    let length = (1u64 << 63).to_le_bytes();
    let huge = [&length[..], &plain_masked(&length), b"tail"].concat();
    let limit = "its length is 9223372036854775808 bytes, the limit is 1073741824";
    assert_eq!(with(&huge), begun(limit));
    let length = 1000u64.to_le_bytes();
    let long = [&length[..], &plain_masked(&length), b"tail"].concat();
    assert_eq!(with(&long), begun("its length is 1004 bytes, the file has 4 more"));
    let cut = "the file ends inside its header, which has 5 of 12 bytes";
    assert_eq!(with(&framed(b"abc")[..5]), begun(cut));
    let mut wrong = framed(b"abc");
    wrong[9] ^= 1;
    assert!(with(&wrong).starts_with(&begun("the CRC of its length is 0x")));
    let mut wrong = framed(b"abc");
    wrong[13] ^= 1;
    assert!(with(&wrong).starts_with(&begun("the CRC of its data is 0x")));
    assert!(with(&framed(b"abc")).starts_with(&begun("neither a tf.train.Example nor")));
    assert_eq!(with(&framed(b"")), begun("it has no feature n"));
    let ints = |ints| with(&framed(&example(&[("n", &Numbers::Ints(ints))])));
    assert_eq!(ints(vec![1, 2, 3]), begun("feature n has 3 values, expected 1"));
    let floats = with(&framed(&example(&[("n", &Numbers::Floats(vec![1.0]))])));
    assert_eq!(floats, begun("feature n is floats, expected ints"));
}

#[test]
fn what_is_asked_for_must_make_fields() {
    let told = |options: TfOptions| of_bytes(&[], &options).map(|_| ()).unwrap_err().to_string();
    let asked = |feature| TfOptions::default().feature("a", feature);
    assert!(told(asked(Feature::Int).feature("a", Feature::Int)).ends_with("asked for twice"));
    assert!(told(asked(Feature::Ints { len: 0 })).ends_with("with no values"));
    assert!(told(asked(Feature::Ints { len: u64::MAX })).ends_with("no or too many values"));
    assert!(told(TfOptions::default().steps("a", Feature::Image, 2)).contains("as Image: steps"));
    assert!(told(TfOptions::default()).contains("there is no record to tell the fields by"));
    assert_eq!(of_bytes(&[], &asked(Feature::Int)).unwrap().len(), 0);
}

/// A record whose data is damaged is its item's error; a compressed file that is cut ends the stream.
#[test]
fn a_stream_goes_on_behind_a_damaged_record() {
    use std::io::Write as _;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.gz");
    let mut bytes = small();
    bytes[40] ^= 1;
    let packed = |bytes: &[u8]| {
        let mut to = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
        to.write_all(bytes).unwrap();
        to.finish().unwrap()
    };
    let whole = packed(&bytes);
    fs::write(&path, &whole).unwrap();
    let options = TfOptions::default().feature("n", Feature::Int);
    let stream = TfRecordStream::open_with(path.to_str().unwrap(), &options).unwrap();
    let mut items = Stream::from(stream.clone()).open(&PASS).unwrap();
    let error = items.next().unwrap().unwrap().read().unwrap_err().to_string();
    assert!(error.contains("x.gz: record 0 at byte 0: the CRC of its data"), "{error}");
    assert_eq!(items.next().unwrap().unwrap().read().unwrap(), [OwnedValue::Int(1)]);
    assert!(items.next().unwrap().is_none());

    for end in 1..whole.len() {
        fs::write(&path, &whole[..end]).unwrap();
        let mut items = Stream::from(stream.clone()).open(&PASS).unwrap();
        let error = loop {
            match items.next() {
                Ok(Some(_)) => {}
                Ok(None) => panic!("cut at {end} of {}", whole.len()),
                Err(error) => break error.to_string(),
            }
        };
        assert!(error.contains("x.gz: record "), "{error}");
        assert!(items.next().unwrap().is_none());
    }
}
