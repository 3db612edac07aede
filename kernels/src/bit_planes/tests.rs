//! Blocks of random coefficients, and bytes that are no block, through every form.

use super::*;

fn random_blocks(u: &mut arbitrary::Unstructured<'_>) -> arbitrary::Result<Vec<[i16; 64]>> {
    let mut blocks = vec![];
    for _ in 0..u.int_in_range(0..=20)? {
        let mut block = [0; 64];
        let (share, largest) =
            (u.int_in_range(1..=64)?, *u.choose(&[1, 3, 15, 16, 31, 32, 300, 1023])?);
        block[0] = u.int_in_range(-2047..=2047)?;
        for value in &mut block[1..] {
            if u.ratio(share, 64)? {
                *value = u.int_in_range(-largest..=largest)?;
            }
        }
        blocks.push(block);
    }
    Ok(blocks)
}

fn encoded(blocks: &[[i16; 64]]) -> [Vec<u8>; 2] {
    let (mut main, mut side) = (BitWriter::default(), BitWriter::default());
    blocks.iter().for_each(|block| encode(block, &mut main, &mut side).unwrap());
    [main, side].map(|mut stream| {
        stream.align();
        stream.bytes
    })
}

fn decoded(
    form: Form,
    streams: &[Vec<u8>; 2],
    count: usize,
) -> Option<(Vec<[i16; 64]>, [usize; 2])> {
    let lengths = [streams[0].len(), streams[1].len()];
    let padded = streams.clone().map(|mut stream| {
        stream.resize(stream.len() + SLACK, 0);
        stream
    });
    let mut blocks = vec![[7; 64]; count];
    let ends = decode(form, [&padded[0], &padded[1]], lengths, &mut blocks)?;
    Some((blocks, ends))
}

#[test]
fn every_form_returns_the_blocks_that_were_encoded() {
    arbtest::arbtest(|u| {
        let blocks = random_blocks(u)?;
        let streams = encoded(&blocks);
        let lengths = [streams[0].len(), streams[1].len()];
        for form in Form::available() {
            let found = decoded(form, &streams, blocks.len());
            assert_eq!(found, Some((blocks.clone(), lengths)), "{form:?}");
        }
        Ok(())
    })
    .budget_ms(2000);
}

#[test]
fn every_form_refuses_the_same_bytes() {
    let mut refused = [0; 2];
    arbtest::arbtest(|u| {
        let blocks = random_blocks(u)?;
        let mut streams = encoded(&blocks);
        for stream in &mut streams {
            if u.ratio(1, 4)? {
                stream.truncate(u.int_in_range(0..=stream.len())?);
            }
            for _ in 0..u.int_in_range(0..=3)? {
                let Some(last) = stream.len().checked_sub(1) else { break };
                stream[u.int_in_range(0..=last)?] = u.arbitrary()?;
            }
        }
        let count = blocks.len() + usize::from(u.ratio(1, 8)?);
        let expected = decoded(Form(Kind::Portable), &streams, count);
        refused[usize::from(expected.is_none())] += 1;
        for form in Form::available() {
            assert_eq!(decoded(form, &streams, count), expected, "{form:?}");
        }
        Ok(())
    })
    .budget_ms(2000);
    assert!(refused.iter().all(|&cases| cases > 10), "{refused:?}");
}

/// Main: `last` is 2, the coefficient before it is 0, its size is 2 or more, but not 3. Side: a DC difference of -2
/// has 2 bits, the coefficient is negative, and its second bit is 1.
#[test]
fn the_bits_of_a_block_are_those_of_the_format() {
    let mut block = [0; 64];
    (block[0], block[usize::from(POSITIONS[2])]) = (-2, -3);
    assert_eq!(encoded(&[block]), [vec![0b1000_0010, 0], vec![0b1101_0010]]);
}

/// A record that was written must be read for ever, so the order of the planes must not change.
#[test]
fn the_order_of_the_planes_is_the_formats() {
    #[rustfmt::skip]
    let order = [
         0,  4, 32, 16, 36,  2, 12, 34, 20, 33,  1, 37, 18, 44,  8,  6,
        40, 28, 35,  5, 48, 17, 52,  3, 45, 24, 38, 10, 14, 42, 22, 41,
        13, 50, 21, 49, 53, 19, 60,  9, 39, 26, 46, 30, 43,  7, 56, 29,
        51, 61, 25, 54, 11, 47, 15, 58, 23, 57, 55, 27, 62, 31, 59, 63,
    ];
    assert_eq!(POSITIONS, order);
}

#[test]
fn coefficients_of_more_than_8_bit_samples_are_refused() {
    let (mut main, mut side) = (BitWriter::default(), BitWriter::default());
    for (index, value, ok) in
        [(0, 2047, true), (0, -2048, false), (9, -1023, true), (9, 1024, false)]
    {
        let mut block = [0; 64];
        block[index] = value;
        assert_eq!(encode(&block, &mut main, &mut side).is_some(), ok, "{value} at {index}");
    }
}
