//! Files that are cut, changed, or different from the request.

use super::super::sequence::Sequence;
use super::plain::{Numbers, example, framed, plain_masked};
use super::*;

/// A file of a few records, some 1 KB.
fn small() -> Vec<u8> {
    let text = Numbers::Bytes(vec![vec![b'x'; 200]]);
    let record =
        |n| framed(&example(&[("n", &Numbers::Ints(vec![n])), ("text", &text), ("t", &text)]));
    [record(0), record(1)].concat()
}

/// For each record, whether it can be read, in any order and in sequence; `None` if the file can't be
/// opened.
fn both_ways(bytes: &[u8]) -> (Option<Vec<bool>>, Vec<bool>) {
    let options = TfOptions::default()
        .feature("n", Feature::Int)
        .feature("text", Feature::Bytes)
        .limits(Limits::SMALL);
    let source = of_bytes(bytes, &options).ok();
    let indexed = source.map(|source| {
        (0..source.facts().samples).map(|sample| source.read(SampleId(sample)).is_ok()).collect()
    });
    let mut sequence = vec![];
    if let Ok(mut records) = Sequence::open(&Shard::held("held in memory", bytes), Limits::SMALL) {
        while let Ok(Some((.., data))) = records.next() {
            sequence.push(data.is_ok());
        }
    }
    (indexed, sequence)
}

#[test]
fn a_file_cut_anywhere_is_refused_but_between_records() {
    let whole = small();
    let record = whole.len() / 2;
    for end in 0..=whole.len() {
        let (indexed, sequence) = both_ways(&whole[..end]);
        let is_between = end % record == 0;
        assert_eq!(indexed, is_between.then(|| vec![true; end / record]), "cut at {end}");
        assert_eq!(sequence, vec![true; end / record], "cut at {end}");
    }
}

#[test]
fn no_changed_bit_goes_unseen() {
    let whole = small();
    for bit in 0..whole.len() * 8 {
        let mut changed = whole.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        let (indexed, sequence) = both_ways(&changed);
        let damaged = bit / 8 >= whole.len() / 2;
        let one = vec![damaged, !damaged];
        match indexed {
            Some(indexed) => {
                assert_eq!(indexed, one, "bit {bit}");
                assert_eq!(sequence, one, "bit {bit}");
            }
            None => assert_eq!(sequence, vec![true; usize::from(damaged)], "bit {bit}"),
        }
    }
}

#[test]
fn errors_say_what_is_wrong_and_where() {
    let message = |bytes: &[u8]| {
        let source = of_bytes(bytes, &TfOptions::default().feature("n", Feature::Int));
        source
            .and_then(|source| source.read(SampleId(source.facts().samples - 1)))
            .unwrap_err()
            .to_string()
    };
    let first = small()[..small().len() / 2].to_vec();
    let at = first.len();
    let begun = |error: &str| format!("held in memory: record 1 at byte {at}: {error}");
    let with = |bytes: &[u8]| message(&[&first[..], bytes].concat());

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
    let message = |options: TfOptions| of_bytes(&[], &options).map(|_| ()).unwrap_err().to_string();
    let asked = |feature| TfOptions::default().feature("a", feature);
    assert!(message(asked(Feature::Int).feature("a", Feature::Int)).ends_with("declared twice"));
    assert!(message(asked(Feature::Ints { len: 0 })).ends_with("with 0 values"));
    assert!(message(asked(Feature::Ints { len: u64::MAX })).ends_with("0 or too many values"));
    assert!(
        message(TfOptions::default().steps("a", Feature::Image, 2)).contains("as an image: steps")
    );
    assert!(message(TfOptions::default()).contains("no records, so the fields are unknown"));
    assert_eq!(of_bytes(&[], &asked(Feature::Int)).unwrap().facts().samples, 0);
}

/// A record whose data is damaged is an error of its item; a compressed file that is cut ends the
/// stream.
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
    let stream = TfRecordStream::open(path.to_str().unwrap(), &options).unwrap();
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

/// A record of 512 MiB: accepted in a plain file, refused in a compressed one.
#[test]
fn a_compressed_record_over_the_limit_is_not_unpacked() {
    use std::io::Write as _;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.gz");
    let length = (512u64 << 20).to_le_bytes();
    let crc = crate::source::masked_crc32c(&length).to_le_bytes();
    let mut to = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
    to.write_all(&[small(), [&length[..], &crc].concat()].concat()).unwrap();
    fs::write(&path, to.finish().unwrap()).unwrap();
    let options = TfOptions::default().feature("n", Feature::Int);
    let stream = TfRecordStream::open(path.to_str().unwrap(), &options).unwrap();
    let mut items = Stream::from(stream).open(&PASS).unwrap();
    let error = loop {
        match items.next() {
            Ok(item) => assert!(item.is_some()),
            Err(error) => break error.to_string(),
        }
    };
    let want = "it unpacks to 536870912 bytes, and the limit is 268435456 (`Limits::max_unpacked_bytes`): \
                unpack the file, or raise the limit";
    assert!(error.ends_with(want), "{error}");
}

#[test]
fn an_index_of_another_file_is_found_out() {
    let shard = Shard::held("x", &small());
    for data in [0..4, 5..20, 13..20, 12..20, u64::MAX - 3..u64::MAX] {
        let read = frame::get(&shard, 0, &data, &Limits::SMALL, &mut vec![]).map(<[u8]>::len);
        assert!(read.is_err(), "{data:?}");
    }
}
