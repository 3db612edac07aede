//! Shards in sequence: shuffled, divided among ranks, skipped, and damaged.

use super::build::Archive;
use super::*;
use crate::source::As;
use crate::source::stream::{Item, Stream};
use std::collections::BTreeSet;
use std::fs;

/// Ten shards of three samples each, with consecutive numbers.
fn folder() -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    for shard in 0..10 {
        let archive = (0..3).fold(Archive::default(), |archive, sample| {
            let number = shard * 3 + sample;
            archive
                .file(&format!("{number}.bin"), &vec![number as u8; 20_000])
                .file(&format!("{number}.cls"), number.to_string().as_bytes())
        });
        fs::write(dir.path().join(format!("{shard}.tar")), archive.end()).unwrap();
    }
    let spec = dir.path().join("{0..9}.tar").to_str().unwrap().to_owned();
    (dir, spec)
}

fn labels() -> TarOptions {
    small().field("label", "cls", As::Int)
}

fn keys(stream: &TarStream, pass: &Pass) -> Vec<u64> {
    let mut items = stream.open(pass).unwrap();
    let mut keys = vec![];
    while let Some(item) = items.next().unwrap() {
        let Item::Held { record, location } = item else { panic!("a damaged sample") };
        let key = location.key.as_deref().unwrap().parse().unwrap();
        assert_eq!(record[0], OwnedValue::Int(i64::try_from(key).unwrap()));
        keys.push(key);
    }
    assert!(items.next().unwrap().is_none());
    keys
}

#[test]
fn shards_are_shuffled_anew_for_each_epoch_and_turn_and_shared_out() {
    let (_dir, spec) = folder();
    let plain = TarStream::open_shards(&spec, &labels()).unwrap();
    assert_eq!(keys(&plain, &PASS), (0..30).collect::<Vec<_>>());
    let shuffled = plain.clone().shuffle_shards();
    let passes = [
        PASS,
        Pass { epoch: Epoch(1), ..PASS },
        Pass { turn: 1, ..PASS },
        Pass { seed: 8, ..PASS },
    ];
    let orders: BTreeSet<_> = passes.iter().map(|pass| keys(&shuffled, pass)).collect();
    assert_eq!(orders.len(), 4);
    for pass in &passes {
        assert_eq!(keys(&shuffled, pass), keys(&shuffled, pass));
        let ranks = (0..3).map(|rank| shuffled.clone().split_by_rank(rank, 3).unwrap());
        let shares: Vec<_> = ranks.map(|stream| keys(&stream, pass)).collect();
        assert_eq!(shares.iter().map(Vec::len).collect::<Vec<_>>(), [12, 9, 9]);
        let all: BTreeSet<_> = shares.concat().into_iter().collect();
        assert_eq!(all.len(), 30);
        // Shard k of the shuffled order belongs to rank k mod world.
        assert_eq!(shares[1][..3], keys(&shuffled, pass)[3..6]);
    }
    let prints = [&plain, &shuffled, &shuffled.clone().split_by_rank(1, 3).unwrap()];
    let prints: BTreeSet<_> = prints.iter().map(|stream| stream.facts().fingerprint).collect();
    assert_eq!(prints.len(), 3);
}

#[test]
fn ranks_without_a_shard_are_refused() {
    let (_dir, spec) = folder();
    let stream = TarStream::open_shards(&spec, &labels()).unwrap();
    let split = |rank, world| {
        stream.clone().split_by_rank(rank, world).map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(
        split(0, 11),
        Err("10 shards for 11 ranks: some would have no shard: write more shards".into())
    );
    assert_eq!(split(3, 3), Err("rank 3 of 3: ranks are 0 to world - 1".into()));
    assert_eq!(split(9, 10), Ok(()));
}

#[test]
fn skipping_is_the_same_as_asking() {
    let (_dir, spec) = folder();
    let stream = TarStream::open_shards(&spec, &labels()).unwrap().shuffle_shards();
    let all = keys(&stream, &PASS);
    for count in [0, 1, 2, 3, 4, 7, 29, 30, 31] {
        let mut items = stream.open(&PASS).unwrap();
        assert_eq!(items.skip(count).unwrap(), count.min(30));
        let next = items.next().unwrap().map(|item| match item {
            Item::Held { location, .. } => location.key.as_deref().unwrap().parse().unwrap(),
            Item::At { .. } | Item::Lazy(_) | Item::Of { .. } => unreachable!(),
        });
        assert_eq!(next, all.get(count as usize).copied());
    }
}

#[test]
fn a_stream_of_each_shard_has_its_samples() {
    let (_dir, spec) = folder();
    let stream = TarStream::open_shards(&spec, &labels()).unwrap();
    let counts = |streams: Vec<Stream>| {
        let count = |stream: &Stream| stream.open(&PASS).unwrap().skip(100).unwrap();
        streams.iter().map(count).collect::<Vec<_>>()
    };
    assert_eq!(counts(stream.shards()), [3; 10]);
    assert_eq!(counts(stream.split_by_rank(1, 4).unwrap().shards()), [3; 3]);
}

#[test]
fn a_damaged_shard_ends_there_and_the_next_one_follows() {
    let (dir, spec) = folder();
    let path = dir.path().join("0.tar");
    let mut bytes = fs::read(&path).unwrap();
    let at = 2 * (512 + 20_480 + 1024);
    bytes[at] ^= 1;
    fs::write(&path, bytes).unwrap();
    let stream = TarStream::open_shards(&spec, &labels()).unwrap();
    let mut items = stream.open(&PASS).unwrap();
    assert!(items.next().unwrap().is_some());
    let error = items.next().map(drop).unwrap_err().to_string();
    let expected = format!("0.tar: byte {at}: not a tar header: the checksum is wrong");
    assert!(error.ends_with(&expected), "{error}");
    assert_eq!(items.skip(100).unwrap(), 27);
    let error = Tar::open_shards(&spec, &labels()).map(drop).unwrap_err().to_string();
    assert!(error.ends_with(&expected), "{error}");
}

#[test]
fn a_damaged_sample_is_told_when_it_is_read() {
    let bytes = Archive::default()
        .file("a.cls", b"1")
        .file("b.cls", b"one\x1b")
        .file("c.txt", b"")
        .file("d.cls", b"4")
        .end();
    let options = labels().field("text", "txt;cls", As::Bytes);
    let read = both(&bytes, &options).unwrap();
    let errors: Vec<_> = read.iter().map(|(_, record)| record.as_ref().err().cloned()).collect();
    assert!(errors[0].is_none() && errors[3].is_none());
    assert_eq!(
        errors[1].as_deref(),
        Some("memory.tar: sample b, cls at byte 1536: \"one\\u{1b}\" is not a number of 64 bits")
    );
    assert_eq!(errors[2].as_deref(), Some("memory.tar: sample c: it has no cls"));
}

#[test]
fn fields_that_cannot_be_had_are_refused() {
    let bytes = Archive::default().file("a.cls", b"1").file("a.npy", b"no array").end();
    for options in
        [small(), small().field("x", "npz", As::NdArray), labels().field("label", "txt", As::Bytes)]
    {
        let placed = Tar::from_bytes(&bytes, &options).map(drop).unwrap_err().to_string();
        let streamed = TarStream::from_bytes(&bytes, &options).map(drop).unwrap_err().to_string();
        for error in [placed, streamed] {
            assert!(error.starts_with("field "), "{error}");
        }
    }
}
