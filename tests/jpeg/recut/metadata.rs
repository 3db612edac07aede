//! The re-cut file has the same metadata as the original.

use super::sources::{self, Kind};
use super::{assert_recut, golden, segments, wide};
use fuseloop::recut::{Recutter, Tile, Unchanged};
use fuseloop::sample::Limits;
use jpeg_encoder::{ColorType, PixelDensity, PixelDensityUnit, SamplingFactor};

const COLOR: Kind = Kind { color: ColorType::Rgb, sampling: SamplingFactor::R_4_2_0 };

fn recutter() -> Recutter {
    Recutter::new(Tile::default(), Limits::SMALL)
}

/// A file with segments inserted behind its start marker.
fn with_segments(jpeg: &[u8], segments: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = vec![0xff, 0xd8];
    for (marker, payload) in segments {
        let length = u16::try_from(payload.len() + 2).unwrap().to_be_bytes();
        bytes.extend([0xff, *marker, length[0], length[1]]);
        bytes.extend(payload);
    }
    bytes.extend(&jpeg[2..]);
    bytes
}

/// EXIF data with only an orientation.
fn exif(orientation: u8) -> Vec<u8> {
    let tiff = [b'I', b'I', 42, 0, 8, 0, 0, 0, 1, 0, 0x12, 1, 3, 0, 1, 0, 0, 0, orientation, 0];
    [b"Exif\0\0", &tiff[..], &[0; 6]].concat()
}

#[test]
fn orientation_profile_comments_and_density_stay_in_place() {
    let profile: Vec<u8> = (0..150_000_u32).map(|i| (i / 7) as u8).collect();
    let mut jpeg = sources::encode(COLOR, wide(101, 45), |encoder| {
        let density = PixelDensity { density: (300, 301), unit: PixelDensityUnit::Inches };
        encoder.set_density(density);
        encoder.add_icc_profile(&profile).unwrap();
    });
    let comments = [(0xfe, b"first".to_vec()), (0xe1, exif(6)), (0xfe, vec![]), (0xeb, vec![7; 9])];
    jpeg = with_segments(&jpeg, &comments);
    let recut = assert_recut(&mut recutter(), &jpeg, "segments of many kinds");
    let markers: Vec<u8> = segments(&recut).iter().map(|found| found.marker).collect();
    assert!(markers.starts_with(&[0xfe, 0xe1, 0xfe, 0xeb]));
    assert_eq!(markers.iter().filter(|&&marker| marker == 0xe2).count(), 3, "the profile");
    assert_eq!(segments(&recut)[1].bytes[4..], exif(6));
    let jfif = segments(&recut).into_iter().find(|found| found.marker == 0xe0).unwrap();
    assert_eq!(jfif.bytes[11..16], [1, 1, 44, 1, 45]);
}

#[test]
fn a_file_without_jfif_or_adobe_gets_none() {
    let bare: Vec<u8> = {
        let jpeg = golden("444.jpg");
        let first = segments(&jpeg).remove(0);
        assert_eq!(first.marker, 0xe0);
        [&jpeg[..2], &jpeg[2 + first.bytes.len()..]].concat()
    };
    let recut = assert_recut(&mut recutter(), &bare, "no JFIF");
    assert_eq!(segments(&recut)[0].marker, 0xdb);
    let adobe = assert_recut(&mut recutter(), &golden("ycck.jpg"), "Adobe");
    assert_eq!(segments(&adobe).iter().filter(|found| found.marker == 0xee).count(), 1);
}

/// The baseline process has tables of 8 bits only: with wider tables it is extended (T.81, B.2.4.1).
#[test]
fn tables_of_16_bits_stay_and_are_told_in_the_frame_header() {
    let jpeg = golden("gray.jpg");
    let all = segments(&jpeg);
    let table = all.iter().find(|found| found.marker == 0xdb).unwrap();
    let wide: Vec<u8> = table.bytes[5..].iter().flat_map(|&entry| [0, entry]).collect();
    let mut bytes = jpeg[..2].to_vec();
    bytes.extend([0xff, 0xdb, 0, 131, 0x10]);
    bytes.extend(&wide[..128]);
    for found in all.iter().filter(|found| found.marker != 0xdb) {
        bytes.extend(&found.bytes);
    }
    bytes.extend(&jpeg[2 + all.iter().map(|found| found.bytes.len()).sum::<usize>()..]);
    let recut = assert_recut(&mut recutter(), &bytes, "16 bits");
    assert!(segments(&recut).iter().any(|found| found.marker == 0xc1));
}

#[test]
fn ids_of_any_numbers_are_kept() {
    for (name, ids) in [("rgb.jpg", b"RGB"), ("444.jpg", &[7, 0, 255])] {
        let mut jpeg = golden(name);
        for marker in [0xc0, 0xda] {
            let at = jpeg.windows(2).position(|two| two == [0xff, marker]).unwrap();
            let (first, step) = if marker == 0xc0 { (at + 10, 3) } else { (at + 5, 2) };
            ids.iter().enumerate().for_each(|(i, id)| jpeg[first + i * step] = *id);
        }
        assert_recut(&mut recutter(), &jpeg, name);
    }
}

#[test]
fn what_lies_behind_the_end_is_dropped_an_old_index_too() {
    let jpeg = golden("420.jpg");
    let recut = recutter().recut(&jpeg).unwrap();
    assert_eq!(recutter().recut(&[&jpeg[..], b"\xff\xd8 a preview"].concat()).unwrap(), recut);
    let other = Recutter::new(Tile::Pixels(16), Limits::SMALL).recut(&recut).unwrap();
    assert_ne!(other, recut);
    assert_eq!(recutter().recut(&other).unwrap(), recut);
}

/// Metadata moved before the scan might have another meaning.
#[test]
fn metadata_between_scans_is_a_reason_to_keep_the_file() {
    let jpeg = golden("420_progressive.jpg");
    let scans: Vec<usize> =
        (0..jpeg.len()).filter(|&at| jpeg[at..].starts_with(&[0xff, 0xda])).collect();
    for marker in [0xfe, 0xe1, 0xdb, 0xdc] {
        let (head, tail) = jpeg.split_at(scans[1]);
        let bytes = [head, &[0xff, marker, 0, 3, 1], tail].concat();
        assert_eq!(recutter().recut(&bytes), Err(Unchanged::Misplaced { marker }));
    }
}
