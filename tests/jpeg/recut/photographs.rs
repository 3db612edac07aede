//! Real photographs: the same pixels, at about the same size.

use super::{assert_recut, index};
use crate::common::photographs::photographs;
use fuseloop::recut::{Recutter, Tile};
use fuseloop::sample::Limits;
use std::path::PathBuf;

/// The total bytes of all photographs: the originals, the re-cut files, and the indexes alone.
fn sizes(tile: Tile, photographs: &[PathBuf]) -> [usize; 3] {
    let mut recutter = Recutter::new(tile, Limits::DEFAULT);
    let mut sizes = [0; 3];
    for path in photographs {
        let jpeg = std::fs::read(path).unwrap();
        let recut = assert_recut(&mut recutter, &jpeg, &path.display().to_string());
        let added = [jpeg.len(), recut.len(), index(&recut).1];
        sizes.iter_mut().zip(added).for_each(|(sum, added)| *sum += added);
    }
    sizes
}

#[test]
fn photographs_keep_their_pixels_and_about_their_size() {
    let photographs = photographs();
    if photographs.is_empty() {
        return;
    }
    for tile in [Tile::Row, Tile::Pixels(64), Tile::default()] {
        let [before, after, index] = sizes(tile, &photographs);
        let more = |bytes: usize| 100. * (bytes as f64 / before as f64 - 1.);
        let (with, without) = (more(after), more(after - index));
        println!("tile {tile}: {with:+.2} % with the index, {without:+.2} % without");
        assert!(with <= 3.0 && without <= 1.5, "tile {tile}: {with:+.2} %, {without:+.2} %");
    }
}
