//! The orders that tf.data produces: `scripts/tfdata_goldens.py`.

use super::support::{all, numbers, pass};
use fuseloop::source::stream::{Interleave, Stream};
use fuseloop::source::{FieldKind, FieldSpec, OwnedValue};
use serde_json::Value;

const GOLDEN: &str = include_str!("../../golden/tfdata/orders.json");

fn ints(value: &Value) -> Vec<u64> {
    value.as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect()
}

/// Numbers with a label field named after their first number, so that streams can be zipped.
fn named(first: u64, count: u64) -> Stream {
    let name = format!("label {first}");
    let fields = vec![FieldSpec { name, kind: FieldKind::Int }];
    numbers(first, count).stream().map(fields, |record| Ok(record[1..].to_vec()))
}

fn zipped(lengths: &[u64]) -> Vec<Vec<u64>> {
    let streams = lengths.iter().zip(0..).map(|(&count, i)| named(100 * i, count));
    let mut items = Stream::zip(streams).unwrap().open(&pass(0, 0)).unwrap();
    let mut rows = vec![];
    while let Some(item) = items.next().unwrap() {
        let row = item.read().unwrap().into_iter().map(|value| match value {
            OwnedValue::Int(n) => n as u64,
            other => panic!("{other:?}"),
        });
        rows.push(row.collect());
    }
    rows
}

#[test]
fn orders_are_those_of_tf_data() {
    let golden: Value = serde_json::from_str(GOLDEN).unwrap();
    let cases = golden["cases"].as_array().unwrap();
    assert!(cases.len() > 100);
    for case in cases {
        let lengths = ints(&case["lengths"]);
        let parts = || lengths.iter().zip(0..).map(|(&count, i)| numbers(100 * i, count).stream());
        let n = case["n"].as_u64().unwrap_or_default();
        let whole = || Stream::concat(parts()).unwrap();
        let made = match case["op"].as_str().unwrap() {
            "zip" => {
                let rows: Vec<Vec<u64>> =
                    case["gives"].as_array().unwrap().iter().map(ints_or_one).collect();
                assert_eq!(zipped(&lengths), rows, "{case}");
                continue;
            }
            "interleave" => {
                let length = |name: &str| case[name].as_u64().unwrap() as usize;
                let (cycle_length, block_length) = (length("cycle_length"), length("block_length"));
                for reads in [0, 3] {
                    let how =
                        Interleave { cycle_length, block_length, reads, ..Interleave::default() };
                    let made = Stream::interleave(parts(), how).unwrap();
                    assert_eq!(all(&made, &pass(0, 0)), ints(&case["gives"]), "{case}");
                }
                continue;
            }
            "concat" => whole(),
            "take" => whole().take(n),
            "skip" => whole().skip(n),
            "repeat" => whole().repeat(n),
            other => panic!("{other}"),
        };
        assert_eq!(all(&made, &pass(0, 0)), ints(&case["gives"]), "{case}");
    }
}

/// TensorFlow returns a single number if one stream is zipped.
fn ints_or_one(value: &Value) -> Vec<u64> {
    value.as_u64().map_or_else(|| ints(value), |one| vec![one])
}
