//! JPEGs of other programs have libjpeg's pixels, and re-cut ones can be read by libjpeg.

use crate::common::jpegs::{pixels, unmeasured};
use fuseloop::internals::decode::Decoder;
use fuseloop::source::{EncodedImage, ImageMode};
use std::path::Path;

/// The largest difference from libjpeg's pixels, in levels.
const WITHIN: u8 = 5;

/// The JPEGs with their names, and the PNGs of their pixels.
fn cases() -> Vec<(String, Vec<u8>, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/strangers/jpeg");
    let paths = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let png = |path: &Path| path.extension().is_some_and(|extension| extension == "png");
    let mut names: Vec<String> = paths
        .filter(|path| png(path))
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    names.sort();
    let read = |path: String| std::fs::read(folder.join(path)).unwrap();
    let case = |name: String| {
        let jpeg = read(format!("{name}/a/{name}.jpg"));
        let png = read(format!("{name}.png"));
        (name, jpeg, png)
    };
    names.into_iter().map(case).collect()
}

/// The largest difference of two images.
fn difference(some: &[u8], others: &[u8]) -> u8 {
    assert_eq!(some.len(), others.len());
    some.iter().zip(others).map(|(a, b)| a.abs_diff(*b)).max().unwrap_or(0)
}

#[test]
fn strange_jpegs_have_libjpegs_pixels() {
    let (mut decoder, cases) = (Decoder::default(), cases());
    assert_eq!(cases.len(), 15);
    for (name, jpeg, png) in cases {
        let size = decoder.size(&unmeasured(&jpeg)).unwrap();
        let found = pixels(&mut decoder, &jpeg, size.full()).unwrap();
        let png = EncodedImage { mode: ImageMode::Png, ..unmeasured(&png) };
        let view = decoder.decode(&png, size.full()).unwrap();
        let view = view.window(size.full()).unwrap();
        let expected: Vec<u8> = (0..size.height).flat_map(|y| view.row(y).to_vec()).collect();
        let most = difference(&found, &expected);
        println!("{name}: {most}");
        assert!(most <= WITHIN, "{name}: {most}");
    }
}

#[cfg(feature = "write")]
#[test]
fn strange_jpegs_are_recut_to_what_libjpeg_reads_or_left_unchanged() {
    use fuseloop::Limits;
    use fuseloop::recut::{Recutter, Tile, Unchanged};
    let (mut decoder, mut recutter) =
        (Decoder::default(), Recutter::new(Tile::default(), Limits::DEFAULT));
    for (name, jpeg, _) in cases() {
        let recut = match recutter.recut(&jpeg) {
            Ok(recut) => recut,
            Err(unchanged) => {
                let expected = Unchanged::Blocks { blocks: 12, max: 10 };
                assert_eq!((&*name, unchanged), ("recut-12-blocks", expected));
                continue;
            }
        };
        let size = decoder.size(&unmeasured(&jpeg)).unwrap();
        let [before, after] =
            [&jpeg, &recut].map(|file| pixels(&mut decoder, file, size.full()).unwrap());
        assert!(before == after, "{name}");
        // Pillow reads them all; the port of libjpeg-turbo refuses finer chroma.
        if let Err(error) = libjpeg_turbo_rs::decompress(&recut) {
            assert!(error.to_string().contains("out-samples luma"), "{name}: {error}");
        }
    }
}
