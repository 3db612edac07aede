//! Compares the area resize with OpenCV's own results, and its two implementations with each other.

use super::*;
use crate::shape::{MAX_CHANNELS, Window};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use sha2::{Digest as _, Sha256};

/// (source height, source width, seed, out height, out width, SHA-256 of the output), for the input
/// [`pattern`]. Computed by OpenCV 4.6.0's `cv::resize(INTER_AREA)` through FFCV's libffcv.
#[rustfmt::skip]
const OPENCV: &[(u32, u32, u32, u32, u32, &str)] = &[
    (64, 64, 0, 32, 32, "129685db4786b02713e7e73fe9155fc99630170d50ccd96b8ecd33520dd3707a"),
    (96, 96, 1, 32, 32, "a2544df4e4cbf20f3a962f8d09a269e96fb4d5886d2094ce96d806c964dc6ac7"),
    (64, 96, 2, 32, 32, "c4b277df02878eb3504ea733d516fad9a03a094dfbe44c03b1575f88a49ea4e2"),
    (100, 75, 3, 32, 32, "32c64c40d0a57daa861cd9f8c35de96a5d21547bec9e626806fed3d079bc4400"),
    (375, 500, 4, 224, 224, "64433edf08e4261b0496d92f8c6a3a6fe74b0a1cb017700d7f80cef5f48adeec"),
    (256, 341, 5, 224, 224, "d04d635a388fde5c6f8a451285ffe4c613971761b9683e71ac545c3d06da58b3"),
    (50, 60, 6, 224, 224, "5a23a6c394ba1c8fa9d532fdef774d01be92f865ccd4912c55b4130065b77e97"),
    (300, 100, 7, 224, 224, "0e852dd1a485e14605015cdfef35e261599e219d1d55f9cf5de8032e7353853c"),
    (100, 300, 8, 224, 224, "d75796f9c786e3b87105b6c881d88ec9d5ea57b04bf8869fd6fec720870040e0"),
    (224, 224, 9, 224, 224, "27cc07ead663e99dbf288f0712c4a1c0708f64353a5c5d819967a049e48c6c7c"),
    (17, 23, 10, 7, 5, "bddc2bf8515fff2a438abda5e667ef0514218fad896c964d356d42297eda4a09"),
    (7, 5, 11, 17, 23, "89b4291c0a1050f10ca6f27ab17c8012ecba2dd1d409e1ca10b35fa6513fb186"),
    (1, 1, 12, 8, 8, "56fc9a0e5c368e04ecc1c66f6819c03a7e11847f756310301eff2a78369dbc63"),
    (8, 1, 13, 4, 4, "08013e3f86800bbdd99e13f12cfd79543a6a47ec45c6ed1a1cc5f275a1a5f6fc"),
    (1, 8, 14, 4, 4, "3413f5df77c25678b6a30905b0f2ee32da12a31584360f4cfd0676f34bd8bb0c"),
    (2, 2, 15, 1, 1, "8d519a14c074d08ffd2d05ada80c1d84ea0d1551c9c16d1735d0b6c923593a3a"),
    (3, 3, 16, 2, 2, "6b6e16618794240985ccca33089022b21cf2c07e51e87ded312251b8957f960c"),
    (5, 4, 17, 4, 5, "8fe2f52c4adc0eae184fec61375d70c12f33a8e6045911d244b3af980f640879"),
    (448, 448, 18, 224, 224, "0cc5260f76a728eee2c073a8f23d7bd29ce9b980a9c34159f5910cb319ccb9af"),
    (672, 672, 19, 224, 224, "fcc1b08945e7b97587aa824d1294dc876cd9cb26b824f3cc0bd09ade07a36015"),
    (225, 225, 20, 224, 224, "78323646233c5b7b0e7bc16721521276963a91acf0c13cededea93ab2609f5fe"),
    (223, 223, 21, 224, 224, "0c4159fd0679d8a0d045ae6aefe86f287817bcea4beedee336db0f8e5547abb7"),
    (512, 10, 22, 33, 9, "99b1da1a24d8fc5aed500a9d712519c96c3baefacdd0bedbdc8dcc0e1fd692c0"),
    (199, 201, 23, 160, 160, "a492da4ec3b02c315b9423b3efdbe75c1546709ff2e9db7b2099d6dc80513906"),
];

fn pattern(size: Size, seed: u32) -> Vec<u8> {
    let mut pixels = Vec::new();
    for y in 0..size.height {
        for x in 0..size.width {
            for c in 0..3 {
                let value = (3 * y + 5 * x * (c + 1) + 17 * seed) ^ ((y / 7) * (x / 5) * (c + 3));
                pixels.push((value & 255) as u8);
            }
        }
    }
    pixels
}

fn noise(size: Size, channels: usize, rng: &mut impl Rng) -> Vec<u8> {
    let mut pixels = vec![0; size.pixels() as usize * channels];
    rng.fill_bytes(&mut pixels);
    pixels
}

fn by_rows(source: ImageView<'_>, out: Size, scratch: &mut AreaScratch) -> Vec<u8> {
    let tables = AreaTables::new(source.size(), out).unwrap();
    let mut rows = AreaRows::new(&tables, source, 0..out.width, scratch).unwrap();
    let mut pixels = vec![0; out.pixels() as usize * source.channels()];
    let len = out.width as usize * source.channels();
    for (y, row) in pixels.chunks_exact_mut(len).enumerate() {
        rows.row(y as u32, row);
    }
    pixels
}

#[test]
fn both_forms_give_opencvs_bytes() {
    let mut scratch = AreaScratch::default();
    for &(height, width, seed, out_height, out_width, expected) in OPENCV {
        let (size, out) = (Size::new(height, width), Size::new(out_height, out_width));
        let pixels = pattern(size, seed);
        let source = ImageView::packed(&pixels, size).unwrap();
        assert_eq!(sha256(&resize(source, out).unwrap()), expected, "{size} to {out}");
        assert_eq!(sha256(&by_rows(source, out, &mut scratch)), expected, "{size} to {out}, rows");
    }
}

/// Returns a pair of sizes: in one of five cases one is a multiple of the other, in another one they
/// are equal along one axis.
fn sizes(rng: &mut impl Rng) -> (Size, Size) {
    let mut side = |most: u32| 1 + rng.next_u32() % most;
    let (source, out) = (Size::new(side(90), side(90)), Size::new(side(70), side(70)));
    match side(5) {
        1 => (Size::new(out.height * side(4), out.width * side(4)), out),
        2 => (source, Size::new(out.height, source.width)),
        _ => (source, out),
    }
}

#[test]
fn rows_equal_the_meaning_in_any_window_and_order() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(5);
    let mut scratch = AreaScratch::default();
    let mut tables = AreaTables::new(Size::new(1, 1), Size::new(1, 1)).unwrap();
    for case in 0..800 {
        let (size, out) = sizes(&mut rng);
        let parent_size = Size::new(size.height + 3, size.width + 5);
        let channels = 1 + case % MAX_CHANNELS;
        let parent = noise(parent_size, channels, &mut rng);
        // In half of the cases, the image's last pixel is the last one of the buffer.
        let [top, left] = if (case / MAX_CHANNELS).is_multiple_of(2) { [2, 4] } else { [3, 5] };
        let window = Window { top, left, height: size.height, width: size.width };
        let parent = ImageView::packed_channels(&parent, parent_size, channels).unwrap();
        let source = parent.crop(window).unwrap();
        let expected = resize(source, out).unwrap();
        assert_eq!(by_rows(source, out, &mut scratch), expected, "case {case}: {size} to {out}");

        let start = rng.next_u32() % out.width;
        let end = start + 1 + rng.next_u32() % (out.width - start);
        tables.rebuild(size, out).unwrap();
        let mut rows = AreaRows::new(&tables, source, start..end, &mut scratch).unwrap();
        let mut row = vec![0; (end - start) as usize * channels];
        for visit in 0..2 * out.height {
            let y = match case / 16 % 2 {
                0 => (2 * out.height - 1 - visit) % out.height, // upwards, twice
                _ => rng.next_u32() % out.height,
            };
            rows.row(y, &mut row);
            let line = &expected[(y * out.width) as usize * channels..];
            let (start, end) = (start as usize * channels, end as usize * channels);
            assert_eq!(row, line[start..end], "case {case}: {size} to {out}, row {y}");
        }
    }
}

#[test]
fn each_channel_is_an_image_of_its_own() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
    for case in 0..200 {
        let ((size, out), channels) = (sizes(&mut rng), 2 + case % 3);
        let pixels = noise(size, channels, &mut rng);
        let source = ImageView::packed_channels(&pixels, size, channels).unwrap();
        let resized = resize(source, out).unwrap();
        for channel in 0..channels {
            let plane: Vec<u8> = pixels.iter().skip(channel).step_by(channels).copied().collect();
            let plane = ImageView::packed_channels(&plane, size, 1).unwrap();
            let own = resized.iter().skip(channel).step_by(channels);
            assert!(resize(plane, out).unwrap().iter().eq(own), "case {case}: {size} to {out}");
        }
    }
}

#[test]
fn a_large_reduction_and_a_long_thin_picture_are_the_same_in_both_forms() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(6);
    for (height, width, out_height, out_width) in
        [(700, 1001, 3, 2), (1, 3000, 1, 7), (2500, 1, 3, 1), (600, 2, 7, 5), (513, 512, 256, 256)]
    {
        let (size, out) = (Size::new(height, width), Size::new(out_height, out_width));
        for channels in 1..=MAX_CHANNELS {
            let pixels = noise(size, channels, &mut rng);
            let source = ImageView::packed_channels(&pixels, size, channels).unwrap();
            let rows = by_rows(source, out, &mut AreaScratch::default());
            assert_eq!(rows, resize(source, out).unwrap(), "{size} to {out}");
        }
    }
}

#[test]
fn white_stays_white() {
    let mut scratch = AreaScratch::default();
    for side in 1..80 {
        let (size, out) = (Size::new(side, 97), Size::new(33, 41));
        for channels in 1..=MAX_CHANNELS {
            let pixels = vec![255; size.pixels() as usize * channels];
            let source = ImageView::packed_channels(&pixels, size, channels).unwrap();
            let out = by_rows(source, out, &mut scratch);
            assert!(out.iter().all(|&value| value == 255), "from {size}");
        }
    }
}

#[test]
fn sizes_without_pixels_and_windows_outside_are_refused() {
    let (some, none) = (Size::new(2, 3), Size::new(2, 0));
    let expected = AreaError::Empty { source_size: some, out: none };
    assert_eq!(AreaTables::new(some, none).unwrap_err(), expected);
    assert_eq!(expected.to_string(), "cannot resize 3x2 to 0x2: a side has no pixels");

    let tables = AreaTables::new(some, Size::new(4, 4)).unwrap();
    let (pixels, mut scratch) = ([0; 27], AreaScratch::default());
    let source = ImageView::packed(&pixels, some).unwrap();
    let other = ImageView::packed(&pixels, Size::new(3, 3)).unwrap();
    let refused = AreaRows::new(&tables, other, 0..4, &mut scratch).unwrap_err();
    assert_eq!(refused.to_string(), "the image is 3x3, but the tables were built for 3x2");
    let refused = AreaRows::new(&tables, source, 1..5, &mut scratch).unwrap_err();
    assert_eq!(refused.to_string(), "columns 1..5 are outside the output, which is 4 wide");
}

/// Returns the SHA-256 in hexadecimal. OpenCV's outputs are stored as digests only.
fn sha256(message: &[u8]) -> String {
    Sha256::digest(message).iter().map(|byte| format!("{byte:02x}")).collect()
}
