//! Indexes of segments that are wrong: the file is decoded as if it had none, or refused.

use super::whole;
use crate::common::jpegs::*;
use fuseloop::internals::decode::Decoder;
use fuseloop_ops::Size;
use fuseloop_ops::author::Window;

const SIZE: Size = Size::new(70, 150);

/// An image of 5 rows of 10 MCUs with tiles of 2 MCUs, and the lengths of its 25 segments.
fn tiles() -> (Vec<u8>, Vec<u16>) {
    let jpeg = with_markers(&drawn(SIZE, Colour::ALL[3]), 2);
    let indexed = with_index(&jpeg);
    let mut coded = &indexed[jpeg.len()..indexed.len() - 16];
    let mut lengths = vec![];
    while let Some((&length, rest)) = coded.split_first() {
        let (length, rest) = match (length, rest) {
            (0xff, [low, high, rest @ ..]) => (u16::from_le_bytes([*low, *high]), rest),
            _ => (length.into(), rest),
        };
        lengths.push(length);
        coded = rest;
    }
    (jpeg, lengths)
}

/// The file with an index of these lengths, which claims `count` segments.
fn with(jpeg: &[u8], lengths: &[u16], count: u32) -> Vec<u8> {
    let code = |&length: &u16| match length.to_le_bytes() {
        [short @ 0..=0xfe, 0] => vec![short],
        [low, high] => vec![0xff, low, high],
    };
    let coded: Vec<u8> = lengths.iter().flat_map(code).collect();
    let length = coded.len() as u32;
    [jpeg, &coded, &length.to_le_bytes(), &count.to_le_bytes(), b"FSEGIDX\x01"].concat()
}

/// Asserts that the outcome is an error or that of the file without an index, for all of the image and a
/// region of it.
fn assert_of_no_account(what: &str, jpeg: &[u8], indexed: &[u8]) {
    let (mut a, mut b) = (Decoder::default(), Decoder::default());
    let part = Window { top: 20, left: 40, height: 30, width: 50 };
    for window in [SIZE.full(), part] {
        let (without, with) = (pixels(&mut a, jpeg, window), pixels(&mut b, indexed, window));
        assert!(with.is_err() || with.ok() == without.ok(), "{what}: {window:?}");
    }
}

#[test]
fn a_right_index_is_one() {
    let (jpeg, lengths) = tiles();
    assert_eq!(lengths.len(), 25);
    assert_eq!(with(&jpeg, &lengths, 25), with_index(&jpeg));
    let found = whole(&mut Decoder::default(), &with_index(&jpeg)).unwrap();
    assert_eq!(found, Plain::loaded(&jpeg).rgb);
}

#[test]
fn wrong_lengths_do_not_change_a_pixel() {
    let (jpeg, lengths) = tiles();
    for index in 0..lengths.len() {
        for change in [1, 2, 3, 100, 0x7fff, 0x8000, 0xfffe, 0xffff_u16] {
            let mut wrong = lengths.clone();
            wrong[index] = wrong[index].wrapping_add(change);
            let what = format!("length {index} is {change} more");
            assert_of_no_account(&what, &jpeg, &with(&jpeg, &wrong, 25));
        }
        // The index points to markers of the right number, but eight segments further on.
        let mut skipping = lengths.clone();
        let skipped: u16 = lengths[index..].iter().take(9).map(|length| length + 2).sum();
        skipping[index] = skipped - 2;
        assert_of_no_account("eight skipped", &jpeg, &with(&jpeg, &skipping, 25));
    }
    for lengths in [vec![0xffff; 25], vec![0; 25], lengths.iter().rev().copied().collect()] {
        assert_of_no_account("all of them", &jpeg, &with(&jpeg, &lengths, 25));
    }
}

#[test]
fn a_wrong_count_does_not_change_a_pixel() {
    let (jpeg, lengths) = tiles();
    for count in [0, 1, 24, 26, 50, 1 << 15, 1 << 31, u32::MAX / 2, u32::MAX - 1, u32::MAX] {
        assert_of_no_account("a count", &jpeg, &with(&jpeg, &lengths, count));
    }
    let few = &lengths[..24];
    assert_of_no_account("one too few", &jpeg, &with(&jpeg, few, 25));
    let many = [&lengths[..], &[7]].concat();
    assert_of_no_account("one too many", &jpeg, &with(&jpeg, &many, 26));
    let twice = with_index(&with_index(&jpeg));
    assert_of_no_account("twice", &jpeg, &twice);
    for at in 1..=16 {
        let indexed = with_index(&jpeg);
        assert_of_no_account("cut", &jpeg, &indexed[..indexed.len() - at]);
    }
    for length in [0, 24, 26, 27, 1 << 20, u32::MAX] {
        let mut indexed = with_index(&jpeg);
        let at = indexed.len() - 16;
        indexed[at..at + 4].copy_from_slice(&length.to_le_bytes());
        assert_of_no_account("another length of the lengths", &jpeg, &indexed);
    }
    assert_of_no_account("nothing but an index", &[], &with(&[], &lengths, 25));
    assert_of_no_account("an index of nothing", &[], &with(&[], &[], u32::MAX));
}

/// The lengths are right and the markers are wrong: the decoder can't tell which to trust, and searches
/// for the markers.
#[test]
fn markers_of_a_wrong_number_are_as_without_an_index() {
    let (jpeg, lengths) = tiles();
    let scan = jpeg.windows(2).position(|pair| pair == [0xff, 0xda]).unwrap();
    let markers: Vec<usize> = (scan..jpeg.len() - 1)
        .filter(|&at| jpeg[at] == 0xff && (0xd0..=0xd7).contains(&jpeg[at + 1]))
        .collect();
    assert_eq!(markers.len(), 24);
    for &at in &markers {
        for code in [0, 1, 0xd0, 0xd7, 0xd9, 0xda, 0xfe, 0xff, jpeg[at + 1] ^ 1] {
            let mut changed = jpeg.clone();
            changed[at + 1] = code;
            let what = format!("marker at {at} is {code:02x}");
            assert_of_no_account(&what, &changed, &with(&changed, &lengths, 25));
        }
    }
}

#[test]
fn an_index_of_another_picture_does_not_change_a_pixel() {
    let (_, lengths) = tiles();
    let other = with_markers(&drawn(SIZE, Colour::ALL[1]), 2);
    assert_of_no_account("another picture's", &other, &with(&other, &lengths, 25));
}

/// An index may look like the marker that a truncated image lacks; the pixels must then be right.
#[test]
fn a_cut_picture_with_an_index_is_refused_or_right() {
    let (jpeg, lengths) = tiles();
    let plain = Plain::loaded(&jpeg);
    let (mut decoder, mut rng) = (Decoder::default(), random(5));
    for cut in 1..200 {
        let bytes = with(&jpeg[..jpeg.len() - cut], &lengths, 25);
        let window = random_window(SIZE, &mut rng);
        let found = pixels(&mut decoder, &bytes, window).ok();
        let is_right = found.is_none_or(|found| found == plain.crop(window));
        assert!(is_right, "{cut} bytes, {window:?}");
    }
}

/// An index may omit a marker inside a segment: decoding that segment detects it.
#[test]
fn a_marker_that_an_index_passes_over_is_found() {
    let (jpeg, lengths) = tiles();
    let third = jpeg.windows(2).position(|pair| pair == [0xff, 0xd2]).unwrap();
    let mut changed = jpeg.clone();
    changed[third + 8..third + 10].copy_from_slice(&[0xff, 0xd5]);
    let indexed = with(&changed, &lengths, 25);
    let refused = whole(&mut Decoder::default(), &indexed).unwrap_err();
    assert!(refused.to_string().ends_with("is RST5, expected RST3"), "{refused}");
    // Elsewhere the image is unchanged.
    let part = Window { top: 20, left: 40, height: 30, width: 50 };
    let found = pixels(&mut Decoder::default(), &indexed, part).unwrap();
    assert_eq!(found, Plain::loaded(&jpeg).crop(part));
}
