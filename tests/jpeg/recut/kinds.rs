//! Every kind of JPEG, and the files that are not re-cut.

use super::sources::{self, Kind, kinds};
use super::{assert_recut, golden, goldens, index, interval, pixels, turbo, wide, window};
use fuseloop::recut::{BitPlaneCodec, Recutter, Tile, Unchanged};
use fuseloop::sample::Limits;
use fuseloop_ops::author::Window;
use jpeg_encoder::{ColorType, SamplingFactor};

const COLOR: Kind = Kind { color: ColorType::Rgb, sampling: SamplingFactor::R_4_2_0 };

#[test]
fn goldens_are_recut_and_look_the_same() {
    let mut recutter = Recutter::new(Tile::Pixels(16), Limits::SMALL);
    for (name, jpeg) in goldens() {
        match &*name {
            "arithmetic.jpg" => assert_eq!(recutter.recut(&jpeg), Err(Unchanged::Arithmetic)),
            // The other decoder of these tests does not read it.
            "chroma_finer.jpg" => {
                let recut = recutter.recut(&jpeg).unwrap();
                assert!(pixels(&recut).unwrap() == pixels(&jpeg).unwrap());
            }
            _ => _ = assert_recut(&mut recutter, &jpeg, &name),
        }
    }
}

#[test]
fn every_sampling_in_every_arrangement_is_recut() {
    let mut recutter = Recutter::new(Tile::default(), Limits::SMALL);
    let sizes = [wide(1, 1), wide(7, 9), wide(64, 32), wide(101, 45), wide(17, 130)];
    let arrangements = [
        ("baseline", sources::baseline as fn(_, _) -> _),
        ("progressive", sources::progressive),
        ("progressive, restarting", sources::progressive_rows),
        ("restarting", sources::restarting),
    ];
    for kind in kinds() {
        for size in sizes {
            for (name, make) in arrangements {
                let jpeg = make(kind, size);
                assert_recut(&mut recutter, &jpeg, &format!("{name} {kind:?} {size}"));
            }
            let kept = recutter.recut(&sources::arithmetic(kind, size));
            assert_eq!(kept, Err(Unchanged::Arithmetic));
        }
    }
}

#[test]
fn a_large_picture_is_recut() {
    let mut recutter = Recutter::new(Tile::default(), Limits::DEFAULT);
    for make in [sources::baseline, sources::progressive] {
        let recut = assert_recut(&mut recutter, &make(COLOR, wide(3000, 2000)), "3000x2000");
        assert_eq!((interval(&recut), index(&recut).0), (2, 94 * 125));
    }
}

/// For a single component, the sampling factors have no effect, and its MCUs are blocks.
#[test]
fn a_gray_pictures_factors_are_kept_and_not_heeded() {
    let mut recutter = Recutter::new(Tile::default(), Limits::SMALL);
    let gray = Kind { color: ColorType::Luma, sampling: SamplingFactor::R_4_4_4 };
    for make in [sources::baseline, sources::progressive, sources::restarting] {
        let mut jpeg = make(gray, wide(101, 45));
        let plain = assert_recut(&mut recutter, &jpeg, "1x1");
        let frame = jpeg.windows(2).position(|two| matches!(two, [0xff, 0xc0..=0xc2])).unwrap();
        jpeg[frame + 11] = 0x22;
        let doubled = assert_recut(&mut recutter, &jpeg, "2x2");
        assert_eq!(interval(&doubled), 8); // of 13 MCUs per row: 4 to 8 are as requested, none divides 13
        assert_eq!(plain.len(), doubled.len());
    }
}

#[test]
fn tiles_are_as_wide_as_asked() {
    let jpeg = sources::baseline(COLOR, wide(480, 64)); // 30 MCUs a row
    for (tile, expected, markers) in
        [("32", 2, 59), ("64", 5, 23), ("row", 30, 3), ("1024", 30, 3), ("8", 1, 119)]
    {
        let recut = Recutter::new(tile.parse().unwrap(), Limits::SMALL).recut(&jpeg).unwrap();
        assert_eq!(interval(&recut), expected, "{tile}");
        assert_eq!(index(&recut).0, markers + 1, "{tile}");
    }
}

#[test]
fn separate_scans_are_recut_to_what_the_same_picture_in_one_scan_is() {
    let mut recutter = Recutter::new(Tile::default(), Limits::SMALL);
    for kind in kinds() {
        for size in [wide(1, 1), wide(7, 9), wide(64, 32), wide(101, 45), wide(17, 130)] {
            let what = format!("{kind:?} {size}");
            let twin = assert_recut(&mut recutter, &sources::baseline(kind, size), &what);
            let recut = recutter.recut(&sources::separate(kind, size)).expect(&what);
            assert!(turbo(&recut) == turbo(&twin), "{what}");
        }
    }
}

#[test]
fn separate_scans_are_decoded_right() {
    let mut recutter = Recutter::new(Tile::default(), Limits::SMALL);
    for kind in kinds() {
        for size in [3, 8, 9, 16, 17, 24, 40].into_iter().flat_map(|w| [wide(w, 9), wide(w, 40)]) {
            let jpeg = sources::separate(kind, size);
            let (found, recut) = (pixels(&jpeg).unwrap(), recutter.recut(&jpeg).unwrap());
            assert!(found == pixels(&recut).unwrap(), "{kind:?} {size}");
        }
    }
}

/// The purpose of re-cutting.
#[test]
fn windows_of_a_recut_picture_are_those_of_the_original() {
    let mut recutter = Recutter::new(Tile::default(), Limits::SMALL);
    for make in [sources::baseline, sources::progressive] {
        let jpeg = make(COLOR, wide(203, 101));
        let recut = recutter.recut(&jpeg).unwrap();
        for (top, left) in [(0, 0), (17, 40), (90, 150), (50, 190)] {
            let wanted = Window { top, left, height: 11, width: 13 };
            assert!(window(&recut, Some(wanted)).unwrap() == window(&jpeg, Some(wanted)).unwrap());
        }
    }
}

#[test]
fn separate_scans_of_subsampled_rows_are_recut() {
    let jpeg = golden("420_separate.jpg");
    assert!(pixels(&jpeg).unwrap() == pixels(&golden("420.jpg")).unwrap());
    let recut = Recutter::new(Tile::default(), Limits::SMALL).recut(&jpeg).unwrap();
    assert!(pixels(&recut).unwrap() == pixels(&golden("420.jpg")).unwrap());
}

#[test]
fn two_components_in_one_scan_and_one_in_another_are_recut() {
    // The chroma components are encoded as one file, whose single scan follows the luma scan.
    let size = wide(45, 37);
    let whole = libjpeg_turbo_rs::read_coefficients(&sources::baseline(COLOR, size)).unwrap();
    let (luma, chroma) = (&whole.components[..1], &whole.components[1..]);
    let part = |components: &[libjpeg_turbo_rs::ComponentCoefficients], width, height| {
        let components = components.to_vec();
        let part =
            libjpeg_turbo_rs::JpegCoefficients { components, width, height, ..whole.clone() };
        libjpeg_turbo_rs::write_coefficients(&part).unwrap()
    };
    let (luma, chroma) = (part(luma, 45, 37), part(chroma, 23, 19));
    let tables_on = |jpeg: &[u8]| {
        let at = jpeg.windows(2).position(|two| two == [0xff, 0xc4]).unwrap();
        jpeg[at..jpeg.len() - 2].to_vec()
    };
    let mut jpeg = sources::baseline(COLOR, size);
    jpeg.truncate(jpeg.windows(2).position(|two| two == [0xff, 0xc4]).unwrap());
    jpeg.extend(tables_on(&luma));
    jpeg.extend(tables_on(&chroma));
    jpeg.extend([0xff, 0xd9]);
    let recut = Recutter::new(Tile::default(), Limits::SMALL).recut(&jpeg).unwrap();
    assert!(pixels(&recut).unwrap() == pixels(&sources::baseline(COLOR, size)).unwrap());
}

/// Removes the segments of Huffman tables before the first scan.
fn without_tables(jpeg: &[u8]) -> Vec<u8> {
    let (mut kept, mut at) = (jpeg[..2].to_vec(), 2);
    while jpeg[at + 1] != 0xda {
        let end = at + 2 + usize::from(u16::from_be_bytes([jpeg[at + 2], jpeg[at + 3]]));
        if jpeg[at + 1] != 0xc4 {
            kept.extend_from_slice(&jpeg[at..end]);
        }
        at = end;
    }
    kept.extend_from_slice(&jpeg[at..]);
    kept
}

/// Frames of Motion-JPEG leave out the tables of T.81, annex K, which this encoder writes.
#[test]
fn a_frame_without_huffman_tables_has_those_of_the_standard() {
    let mut recutter = Recutter::new(Tile::default(), Limits::SMALL);
    let mut codec = BitPlaneCodec::new(Limits::SMALL);
    for kind in kinds() {
        for make in [sources::baseline, sources::restarting] {
            let jpeg = encode_plainly(&make(kind, wide(101, 45)));
            let bare = without_tables(&jpeg);
            let what = format!("{kind:?}");
            assert!(bare.len() < jpeg.len(), "{what}");
            assert!(pixels(&bare).unwrap() == pixels(&jpeg).unwrap(), "{what}");
            assert!(recutter.recut(&bare).unwrap() == recutter.recut(&jpeg).unwrap(), "{what}");
            if let Ok(planes) = codec.pack(&bare, Tile::default()) {
                assert!(codec.unpack(&planes).unwrap() == bare, "{what}");
            }
        }
    }
}

/// Codes an image with the tables of the standard.
fn encode_plainly(jpeg: &[u8]) -> Vec<u8> {
    libjpeg_turbo_rs::write_coefficients(&libjpeg_turbo_rs::read_coefficients(jpeg).unwrap())
        .unwrap()
}

#[test]
fn what_is_not_recut_is_told_by_cause() {
    let mut recutter = Recutter::new(Tile::default(), Limits::SMALL);
    let gray = golden("gray.jpg");
    let frame = gray.windows(2).position(|two| two == [0xff, 0xc0]).unwrap();
    let patched = |at: usize, value: &[u8]| {
        let mut jpeg = gray.clone();
        jpeg[frame + at..frame + at + value.len()].copy_from_slice(value);
        jpeg
    };
    for (jpeg, expected) in [
        (b"GIF89a".to_vec(), Unchanged::NotJpeg),
        (patched(1, &[0xc9]), Unchanged::Arithmetic),
        (patched(1, &[0xc3]), Unchanged::Process { marker: 0xc3 }),
        (patched(1, &[0xc5]), Unchanged::Process { marker: 0xc5 }),
        (patched(4, &[12]), Unchanged::Depth { bits: 12 }),
        (patched(9, &[2]), Unchanged::Components { found: 2 }),
        (patched(5, &[0, 0]), Unchanged::OpenHeight),
        (patched(5, &[0xff; 4]), Unchanged::Pixels { needed: 1 << 32, max: 4 << 20 }),
    ] {
        let kept = recutter.recut(&jpeg).unwrap_err();
        println!("{}: {kept}", kept.cause());
        assert_eq!(kept, expected);
    }
    let few = Limits { max_sample_bytes: 100, ..Limits::SMALL };
    let (len, max) = (gray.len() as u64, 100);
    assert_eq!(
        Recutter::new(Tile::default(), few).recut(&gray),
        Err(Unchanged::Bytes { len, max })
    );
}
