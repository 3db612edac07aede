//! Tar shards as a whole: archives by real writers and hostile ones, a second reader, and a comparison
//! of the two ways to read a shard.

mod build;
mod damaged;
mod golden;
mod hostile;
mod joined;
mod kept;
mod second;
mod streams;

use super::{Tar, TarOptions, TarStream};
use crate::sample::{Epoch, Limits, SampleId};
use crate::source::stream::{Pass, Streamed};
use crate::source::{Buffer, OwnedValue, Record, Source};

const PASS: Pass = Pass { seed: 7, epoch: Epoch(0), turn: 0 };

fn small() -> TarOptions {
    TarOptions::default().limits(Limits::SMALL)
}

/// The keys and records of all samples, or the error.
type Read = Result<Vec<(String, Result<Record, String>)>, String>;

/// All samples by number; each value is read by both methods.
fn in_order(tar: &Tar) -> Vec<(String, Result<Record, String>)> {
    let mut buffer = Buffer::default();
    let mut one = |sample| {
        let record = tar.read(sample).map_err(|error| error.to_string());
        let fields = 0..tar.facts().fields.len();
        let mut values = fields.map(|field| {
            let value = tar.value(sample, field, &mut buffer);
            value.map(OwnedValue::from).map_err(|error| error.to_string())
        });
        let borrowed: Result<Record, String> = values.by_ref().collect();
        assert_eq!(record, borrowed, "sample {sample}");
        (tar.locate(sample, 0).unwrap().key.unwrap().to_string(), record)
    };
    (0..tar.facts().samples).map(|sample| one(SampleId(sample))).collect()
}

/// All samples in the order of a pass.
fn in_sequence(stream: &TarStream) -> Read {
    use crate::source::stream::Item;
    let mut items = stream.open(&PASS).map_err(|error| error.to_string())?;
    let mut found = vec![];
    while let Some(item) = items.next().map_err(|error| error.to_string())? {
        let key = match &item {
            Item::At { source, sample } => {
                source.locate(*sample, 0).unwrap().key.unwrap().to_string()
            }
            Item::Held { location, .. } => location.key.as_deref().unwrap().to_owned(),
            Item::Lazy(record) => record.locate(0).unwrap().key.unwrap().to_string(),
            Item::Of { .. } => unreachable!("shards of one stream are no parts"),
        };
        found.push((key, item.read().map_err(|error| error.to_string())));
    }
    Ok(found)
}

/// Reads an archive by index and in sequence, and compares the results.
fn both(bytes: &[u8], options: &TarOptions) -> Read {
    let placed = Tar::from_bytes(bytes, options);
    let placed = placed.map(|tar| in_order(&tar)).map_err(|error| error.to_string());
    let streamed = TarStream::from_bytes(bytes, options).map_err(|error| error.to_string());
    let streamed = streamed.and_then(|stream| in_sequence(&stream));
    // A stream finds damage when it reaches it, so the error of an unreadable field may come first.
    match (&placed, &streamed) {
        (Ok(_), _) | (_, Ok(_)) => assert_eq!(placed, streamed),
        (Err(_), Err(_)) => {}
    }
    placed
}
