//! Chroma of half the columns or rows, at the last column and row of an image: as in libjpeg, the last
//! sample has no neighbour beyond. zune-jpeg uses the padding of the last block as a neighbour.
//!
//! `FUSELOOP_JPEG_EDGES` is the number of noise images generated; 300 by default.

use crate::common::jpegs::*;
use fuseloop::internals::decode::{DecodeOptions, Decoder, JpegBackend};
use fuseloop_counts::{is_raised, rounds};
use fuseloop_ops::Size;
use libjpeg_turbo_rs::{JpegCoefficients, Subsampling};
use std::path::Path;

/// The largest difference of the core's pixels from those of libjpeg's formulas for the same samples, in
/// levels. The core rounds chroma once more, by at most one level, of which blue takes 1.772.
const ROUNDING: u8 = 2;

/// The largest difference from libjpeg's pixels, in levels: [`ROUNDING`], and that of the inverse DCT, which
/// is zune-jpeg's in the core, too. In 4:4:4, where nothing is interpolated, it is 3 levels.
const TOTAL: u8 = 4;

/// Subsamplings: first those of which the core decodes windows, then those that it decodes whole.
const SUBSAMPLED: [Colour; 8] = [
    Colour::Rgb(Subsampling::S444),
    Colour::Rgb(Subsampling::S420),
    Colour::Rgb(Subsampling::S422),
    Colour::Rgb(Subsampling::S440),
    Colour::Rgb(Subsampling::S411),
    Colour::Rgb(Subsampling::S441),
    Colour::Rgb(Subsampling::S410),
    Colour::Rgb(Subsampling::S24),
];

/// The number of subsamplings of which the core decodes windows.
const IN_WINDOWS: usize = 4;

/// The largest difference at the edge, and elsewhere.
fn differences(found: &[u8], wanted: &[u8], edges: Edges, size: Size) -> [u8; 2] {
    assert_eq!(found.len(), wanted.len());
    let mut most = [0; 2];
    for (byte, (a, b)) in found.iter().zip(wanted).enumerate() {
        let pixel = byte as u32 / 3;
        let inside = !edges.has((pixel / size.width, pixel % size.width));
        let most = &mut most[usize::from(inside)];
        *most = (*most).max(a.abs_diff(*b));
    }
    most
}

fn golden(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/jpeg/edges");
    std::fs::read(folder.join(name)).unwrap()
}

fn core() -> Decoder {
    Decoder::with_backend(JpegBackend::Core, DecodeOptions::default())
}

#[test]
fn the_goldens_edges_are_libjpegs() {
    let size = Size::new(38, 52);
    for name in ["420", "422"] {
        let (jpeg, wanted) = (golden(&format!("{name}.jpg")), golden(&format!("{name}.rgb")));
        let edges = Edges::of(&jpeg, size);
        let found = pixels(&mut core(), &jpeg, size.full()).unwrap();
        let own = differences(&found, &wanted, edges, size);
        assert!(own.iter().all(|&most| most <= TOTAL), "{name}: edge, inside {own:?}");
        // The difference that this golden exists to show.
        let [edge, inside] = differences(&Plain::decode(&jpeg).rgb, &wanted, edges, size);
        assert!(edge > 4 * TOTAL && inside <= TOTAL, "{name}: zune-jpeg's edge {edge}, {inside}");
    }
}

/// The last column and row of a progressive image are libjpeg's, and those of the same image as a baseline file.
#[test]
fn a_progressive_pictures_edges_are_libjpegs() {
    let (size, jpeg) = (Size::new(38, 52), golden("420_progressive.jpg"));
    let found = pixels(&mut Decoder::default(), &jpeg, size.full()).unwrap();
    let edges = Edges::of(&jpeg, size);
    let most = differences(&found, &golden("420_progressive.rgb"), edges, size);
    assert!(most.iter().all(|&most| most <= TOTAL), "edge, inside {most:?}");
    assert!(found == pixels(&mut core(), &with_markers(&jpeg, 2), size.full()).unwrap());
    let [edge, inside] = differences(&found, &Plain::decode(&jpeg).rgb, edges, size);
    assert!(edge > 4 * TOTAL && inside == 0, "zune-jpeg's {edge}, {inside}");
}

/// The samples of a component, as many rows and columns as its blocks have. zune-jpeg decodes the
/// component as a gray image of its own.
fn plane(file: &JpegCoefficients, component: usize) -> (Vec<u8>, usize) {
    let mut component = file.components[component].clone();
    let table = file.quant_tables[usize::from(component.quant_table_index)];
    (component.h_sampling, component.v_sampling, component.quant_table_index) = (1, 1, 0);
    component.component_id = 1;
    let (columns, rows) = (8 * component.blocks_x, 8 * component.blocks_y);
    let gray = JpegCoefficients {
        width: columns as u16,
        height: rows as u16,
        components: vec![component],
        quant_tables: vec![table],
        restart_interval: 0,
        ..file.clone()
    };
    let gray = libjpeg_turbo_rs::write_coefficients_optimized(&gray).unwrap();
    (Plain::decode(&gray).rgb.into_iter().step_by(3).collect(), columns)
}

/// How a weighted sum of samples is rounded to one.
#[derive(Clone, Copy)]
enum Rounding {
    /// By `jpeg/src/upsample.rs`: the sums of two rows are rounded before those of two columns.
    Core,
    /// By libjpeg: only the whole sum is rounded, and halves alternately up and down.
    Libjpeg,
}

/// The image as its samples are interpolated, one pixel at a time.
fn by_the_formulas(jpeg: &[u8], size: Size, rounding: Rounding) -> Vec<u8> {
    let file = libjpeg_turbo_rs::read_coefficients(jpeg).unwrap();
    let planes = [0, 1, 2].map(|component| plane(&file, component));
    let halved = [file.components[0].v_sampling == 2, file.components[0].h_sampling == 2];
    // The sample that contains a pixel, and the next one to its side, but never one beyond the image.
    let near_far = |at: u32, side: u32, halved: bool| {
        let (near, last) = (at / 2, side.div_ceil(2) - 1);
        let far = if at.is_multiple_of(2) { near.saturating_sub(1) } else { (near + 1).min(last) };
        if halved { [near, far] } else { [at; 2] }
    };
    let between = |near: u32, far: u32| (3 * near + far + 2) / 4;
    let mut out = vec![];
    for (y, x) in (0..size.height).flat_map(|y| (0..size.width).map(move |x| (y, x))) {
        let rows = near_far(y, size.height, halved[0]);
        let columns = near_far(x, size.width, halved[1]);
        let sample = |(plane, width): &(Vec<u8>, usize), row: u32, column: u32| {
            plane[row as usize * width + column as usize]
        };
        let [cb, cr] = [1, 2].map(|component| {
            let of_row = |row, column| u32::from(sample(&planes[component], row, column));
            let level = match (rounding, halved) {
                (Rounding::Core, _) => {
                    let [near, far] =
                        columns.map(|x| between(of_row(rows[0], x), of_row(rows[1], x)));
                    between(near, far)
                }
                (Rounding::Libjpeg, [true, true]) => {
                    let [near, far] = columns.map(|x| 3 * of_row(rows[0], x) + of_row(rows[1], x));
                    (3 * near + far + 8 - x % 2) / 16
                }
                (Rounding::Libjpeg, [false, true]) => {
                    let [near, far] = columns.map(|x| of_row(y, x));
                    (3 * near + far + 1 + x % 2) / 4
                }
                (Rounding::Libjpeg, [true, false]) => {
                    let [near, far] = rows.map(|y| of_row(y, x));
                    (3 * near + far + 1 + y % 2) / 4
                }
                (Rounding::Libjpeg, [false, false]) => of_row(y, x),
            };
            level as u8
        });
        let mut pixel = [0; 3];
        fuseloop_kernels::ycbcr_row(&[sample(&planes[0], y, x)], &[cb], &[cr], &mut pixel);
        out.extend(pixel);
    }
    out
}

/// A size of up to 40 rows and columns, or up to 80 where more images are tried.
fn random_size(n: usize) -> Size {
    let most = if is_raised("FUSELOOP_JPEG_EDGES") { 80 } else { 40 };
    let mut rng = random(n as u64);
    Size::new(1 + below(&mut rng, most) as u32, 1 + below(&mut rng, most) as u32)
}

#[test]
fn every_picture_is_the_formulas_and_near_libjpegs() {
    let mut with_edges = 0;
    for n in 0..rounds("FUSELOOP_JPEG_EDGES") {
        let (size, colour) = (random_size(n), SUBSAMPLED[n % SUBSAMPLED.len()]);
        let jpeg = drawn(size, colour);
        let edges = Edges::of(&jpeg, size);
        let near = |found: &[u8], wanted: &[u8], levels: u8, of: &str| {
            let most = differences(found, wanted, edges, size);
            assert!(most.iter().all(|&most| most <= levels), "{of}, {size} {colour:?}: {most:?}");
        };
        let wanted = libjpeg_turbo_rs::decompress(&jpeg).unwrap().data;
        if n % SUBSAMPLED.len() >= IN_WINDOWS {
            let found = pixels(&mut core(), &jpeg, size.full()).unwrap();
            near(&found, &wanted, TOTAL, "libjpeg's");
            continue;
        }
        with_edges += usize::from(edges.last_column || edges.last_row);
        let found = pixels(&mut core(), &jpeg, size.full()).unwrap();
        let formulas = by_the_formulas(&jpeg, size, Rounding::Core);
        assert_eq!(found, formulas, "{size} {colour:?}");
        // libjpeg does not interpolate the columns of an image with two columns of chroma or fewer.
        if size.width > 4 || colour.mcu().width == 8 {
            let libjpegs = by_the_formulas(&jpeg, size, Rounding::Libjpeg);
            near(&found, &libjpegs, ROUNDING, "libjpeg's formulas");
            near(&found, &wanted, TOTAL, "libjpeg's");
        }
    }
    assert!(with_edges > 0);
}
