//! A second, plain writer of the format, which the reader is checked against.

use super::super::frame;

/// CRC-32C bit by bit: the polynomial 0x1edc6f41, reflected.
pub(super) fn plain_crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 }
        })
    })
}

/// The same with a table of bytes: a third implementation, fast enough for long texts.
fn table_crc(bytes: &[u8]) -> u32 {
    let table: [u32; 256] = std::array::from_fn(|byte| {
        (0..8).fold(
            byte as u32,
            |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 },
        )
    });
    !bytes.iter().fold(!0, |crc, byte| table[((crc ^ u32::from(*byte)) & 255) as usize] ^ crc >> 8)
}

#[expect(clippy::manual_rotate, reason = "as the guide has it")]
fn masked(crc: u32) -> u32 {
    ((crc >> 15) | (crc << 17)).wrapping_add(0xa282_ead8)
}

/// The formula of the TFRecord guide: `((crc >> 15) | (crc << 17)) + 0xa282ead8`.
pub(super) fn plain_masked(bytes: &[u8]) -> [u8; 4] {
    let crc = plain_crc(bytes);
    crc.rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes()
}

pub(super) fn framed(data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u64).to_le_bytes();
    [&length[..], &plain_masked(&length), data, &plain_masked(data)].concat()
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Numbers {
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
        // Not packed, as old writers stored them.
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

pub(super) fn example(features: &[(&str, &Numbers)]) -> Vec<u8> {
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
    // All vectors of RFC 3720, and the masked values of TensorFlow's own hash test.
    let ascending: Vec<u8> = (0..32).collect();
    let descending: Vec<u8> = (0..32).rev().collect();
    for (bytes, want) in [
        (&[0; 32][..], 0x8a91_36aa),
        (&[0xff; 32], 0x62a8_ab43),
        (&ascending, 0x46dd_794e),
        (&descending, 0x113f_db5c),
    ] {
        assert_eq!((plain_crc(bytes), crc32c::crc32c(bytes)), (want, want));
        assert_eq!(table_crc(bytes), want);
    }
    // Every length up to the largest single read, from every offset modulo a word.
    let bytes: Vec<u8> = (0..1100_u32).map(|i| ((i * i) >> 3) as u8).collect();
    for start in 0..8 {
        for end in start..bytes.len() {
            let part = &bytes[start..end];
            assert_eq!(frame::masked_crc32c(part), masked(table_crc(part)), "{start}..{end}");
        }
    }
    arbtest::arbtest(|u| {
        let bytes: Vec<u8> = u.arbitrary()?;
        assert_eq!(frame::masked_crc32c(&bytes).to_le_bytes(), plain_masked(&bytes));
        Ok(())
    })
    .budget_ms(100);
}
