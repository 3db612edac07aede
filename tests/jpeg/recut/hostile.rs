//! Damaged and malicious files: each is refused quickly, or re-cut to a file with the same pixels.

use super::sources::{self, Kind};
use super::{golden, goldens, wide};
use fuseloop::recut::{Recutter, Tile, Unchanged};
use fuseloop::sample::Limits;
use jpeg_encoder::{ColorType, SamplingFactor};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::time::{Duration, Instant};

const COLOR: Kind = Kind { color: ColorType::Rgb, sampling: SamplingFactor::R_4_2_0 };

fn recutter() -> Recutter {
    Recutter::new(Tile::Pixels(16), Limits::SMALL)
}

/// Re-cuts a file that may be damaged: re-cutting the result gives the same bytes, and nothing panics.
fn tried(recutter: &mut Recutter, jpeg: &[u8], what: &str) -> bool {
    match recutter.recut(jpeg) {
        Ok(recut) => {
            assert!(recutter.recut(&recut).as_ref() == Ok(&recut), "{what}");
            true
        }
        Err(Unchanged::Panicked { message }) => panic!("{what}: {message}"),
        Err(_) => false,
    }
}

#[test]
fn a_file_cut_short_anywhere_is_kept() {
    let mut recutter = recutter();
    for (name, jpeg) in goldens() {
        for len in (0..jpeg.len() - 1).step_by(7) {
            assert!(recutter.recut(&jpeg[..len]).is_err(), "{name} cut to {len}");
        }
    }
}

#[test]
fn a_file_with_bytes_changed_is_kept_or_looks_as_it_did() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(3);
    let mut recutter = recutter();
    let (mut recut, mut kept) = (0, 0);
    for (name, jpeg) in goldens() {
        for _ in 0..20 {
            let mut jpeg = jpeg.clone();
            for _ in 0..1 + rng.next_u32() % 20 {
                let at = rng.next_u32() as usize % jpeg.len();
                jpeg[at] = rng.next_u32() as u8;
            }
            let done = tried(&mut recutter, &jpeg, &name);
            *(if done { &mut recut } else { &mut kept }) += 1;
        }
    }
    println!("{recut} re-cut, {kept} kept");
}

/// Changes in the coded data only: most of these files still decode, to other pixels.
#[test]
fn coded_data_with_bytes_changed_are_kept_or_look_as_they_did() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(4);
    let mut recutter = recutter();
    let (mut recut, mut kept) = (0, 0);
    for (name, jpeg) in goldens() {
        let data = jpeg.windows(2).position(|two| two == [0xff, 0xda]).unwrap() + 14;
        for _ in 0..20 {
            let mut jpeg = jpeg.clone();
            let at = data + rng.next_u32() as usize % (jpeg.len() - data - 2);
            jpeg[at] = rng.next_u32() as u8;
            let done = tried(&mut recutter, &jpeg, &name);
            *(if done { &mut recut } else { &mut kept }) += 1;
        }
    }
    println!("{recut} re-cut, {kept} kept");
    assert!(recut > 20, "{recut}: most inputs test nothing");
}

/// A photograph whose header claims `width` by `height`.
fn claiming(jpeg: &[u8], width: u16, height: u16) -> Vec<u8> {
    let mut jpeg = jpeg.to_vec();
    let frame = jpeg.windows(2).position(|two| matches!(two, [0xff, 0xc0..=0xc2])).unwrap();
    jpeg[frame + 5..frame + 7].copy_from_slice(&height.to_be_bytes());
    jpeg[frame + 7..frame + 9].copy_from_slice(&width.to_be_bytes());
    jpeg
}

/// Runs `job`, which must end before it allocates or reads anything large.
fn at_once<T>(job: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let done = job();
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    done
}

#[test]
fn sizes_that_the_bytes_cannot_hold_are_refused_at_once() {
    let mut recutter = Recutter::new(Tile::default(), Limits::DEFAULT);
    for name in ["420.jpg", "420_progressive.jpg", "gray.jpg", "420_separate.jpg", "411.jpg"] {
        let jpeg = golden(name);
        let huge = at_once(|| recutter.recut(&claiming(&jpeg, 65535, 65535))).unwrap_err();
        assert_eq!(huge.cause(), "too many pixels", "{name}");
        for (width, height) in [(13000, 13000), (65535, 2000), (1, 65535)] {
            let large = at_once(|| recutter.recut(&claiming(&jpeg, width, height))).unwrap_err();
            assert_eq!(large.cause(), "damaged", "{name} {width}x{height}");
        }
    }
}

/// The sampling factors of a narrow image can demand many times its pixels.
#[test]
fn padding_counts_as_pixels() {
    let mut jpeg = sources::baseline(COLOR, wide(1, 16));
    let frame = jpeg.windows(2).position(|two| two == [0xff, 0xc0]).unwrap();
    for at in [11, 14, 17] {
        jpeg[frame + at] = 0x31;
    }
    let limits = Limits { max_pixels: 100, ..Limits::SMALL };
    let kept = Recutter::new(Tile::default(), limits).recut(&jpeg);
    assert_eq!(kept, Err(Unchanged::Pixels { needed: 3 * 3 * 2 * 64, max: 400 }));
}

#[test]
fn a_bomb_of_scans_is_refused_at_once() {
    let mut recutter = recutter();
    let jpeg = golden("420_progressive.jpg");
    let scans: Vec<usize> =
        (0..jpeg.len()).filter(|&at| jpeg[at..].starts_with(&[0xff, 0xda])).collect();
    let last = &jpeg[scans[scans.len() - 1]..jpeg.len() - 2];
    for (more, cause) in [(91, "too many scans"), (10_000, "too many scans")] {
        let bomb = [&jpeg[..jpeg.len() - 2], &last.repeat(more), &[0xff, 0xd9]].concat();
        let kept = at_once(|| recutter.recut(&bomb)).unwrap_err();
        assert_eq!(kept.cause(), cause, "{more}: {kept}");
    }
    // The limit is lower for a large image.
    let jpeg = sources::progressive(COLOR, wide(1024, 1024));
    let scan = [0xff, 0xda, 0, 8, 1, 1, 0, 0, 0, 0x00, 0xff, 0];
    let bomb = [&jpeg[..jpeg.len() - 2], &scan.repeat(50), &[0xff, 0xd9]].concat();
    assert_eq!(at_once(|| recutter.recut(&bomb)).unwrap_err().cause(), "too many scans");
}

#[test]
fn metadata_of_any_size_costs_no_more_than_a_copy() {
    let jpeg = golden("420.jpg");
    let mut segment = vec![0xff, 0xe1, 0xff, 0xff];
    segment.extend(b"Exif\0\0MM\0*\xff\xff\xff\xff");
    segment.resize(2 + 65535, 0xff);
    let padded = [&jpeg[..2], &segment.repeat(40), &jpeg[2..]].concat();
    let recut = at_once(|| recutter().recut(&padded)).unwrap();
    assert_eq!(recut[2..2 + 40 * segment.len()], segment.repeat(40));
    let empty = [&jpeg[..2], &[0xff, 0xfe, 0, 2].repeat(100_000), &jpeg[2..]].concat();
    assert_eq!(at_once(|| recutter().recut(&empty)).unwrap().len() - 400_000, {
        recutter().recut(&jpeg).unwrap().len()
    });
}

/// Decoders accept coefficients that a baseline file must not contain.
#[test]
fn coefficients_out_of_range_are_a_reason_to_keep_the_file() {
    let mut coefficients =
        libjpeg_turbo_rs::read_coefficients(&sources::baseline(COLOR, wide(64, 64))).unwrap();
    for (index, value) in [(0, 1024), (0, -1025), (5, 1024), (63, -1024)] {
        let before = std::mem::replace(&mut coefficients.components[1].blocks[3][index], value);
        let jpeg = libjpeg_turbo_rs::write_coefficients_optimized(&coefficients).unwrap();
        assert_eq!(recutter().recut(&jpeg), Err(Unchanged::Coefficient), "{index}: {value}");
        coefficients.components[1].blocks[3][index] = before;
    }
}
