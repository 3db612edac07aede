//! Chroma of half the columns or rows, at the last column and row of an image: as in libjpeg, the last
//! sample has no neighbour beyond. zune-jpeg uses the padding of the last block as a neighbour.
//!
//! `FUSELOOP_JPEG_EDGES` is the number of noise images generated; 300 by default.

use crate::common::jpegs::*;
use fuseloop::internals::decode::{DecodeOptions, Decoder, JpegBackend};
use fuseloop_counts::rounds;
use fuseloop_ops::Size;
use libjpeg_turbo_rs::{JpegCoefficients, Subsampling};
use std::path::Path;

/// The largest difference of the core's pixels from libjpeg's, in levels, for these images and for
/// photographs: the core rounds chroma once more.
const ROUNDING: u8 = 9;

const SUBSAMPLED: [Colour; 3] = [
    Colour::Rgb(Subsampling::S420),
    Colour::Rgb(Subsampling::S422),
    Colour::Rgb(Subsampling::S440),
];

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
        assert!(own.iter().all(|&most| most <= ROUNDING), "{name}: edge, inside {own:?}");
        // The difference that this golden exists to show.
        let [edge, inside] = differences(&Plain::decode(&jpeg).rgb, &wanted, edges, size);
        assert!(
            edge > 2 * ROUNDING && inside <= ROUNDING,
            "{name}: zune-jpeg's edge {edge}, {inside}"
        );
    }
}

/// Files that are left to zune-jpeg have its edges: the last column and row of a progressive image
/// differ from libjpeg's, and from those of the same image as a baseline file.
#[test]
fn a_progressive_pictures_edges_are_zune_jpegs() {
    let (size, jpeg) = (Size::new(38, 52), golden("420_progressive.jpg"));
    let found = pixels(&mut Decoder::default(), &jpeg, size.full()).unwrap();
    assert_eq!(found, Plain::decode(&jpeg).rgb);
    let edges = Edges::of(&jpeg, size);
    let [edge, inside] = differences(&found, &golden("420_progressive.rgb"), edges, size);
    assert!(edge > 2 * ROUNDING && inside <= ROUNDING, "{edge}, {inside}");
    let baseline = pixels(&mut core(), &with_markers(&jpeg, 2), size.full()).unwrap();
    let [edge, inside] = differences(&found, &baseline, edges, size);
    assert!(edge > 2 * ROUNDING && inside == 0, "{edge}, {inside}");
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

/// The image by the formulas of `decode/jpeg/core/upsample.rs`, one pixel at a time.
fn by_the_formulas(jpeg: &[u8], size: Size) -> Vec<u8> {
    let file = libjpeg_turbo_rs::read_coefficients(jpeg).unwrap();
    let planes = [0, 1, 2].map(|component| plane(&file, component));
    let halved = [file.components[0].v_sampling == 2, file.components[0].h_sampling == 2];
    // The sample that contains a pixel, and the next one to its side, but never one beyond the image.
    let near_far = |at: u32, side: u32, halved: bool| {
        let (near, last) = (at / 2, side.div_ceil(2) - 1);
        let far = if at.is_multiple_of(2) { near.saturating_sub(1) } else { (near + 1).min(last) };
        if halved { [near, far] } else { [at; 2] }
    };
    let between = |near: u8, far: u8| ((3 * u32::from(near) + u32::from(far) + 2) / 4) as u8;
    let mut out = vec![];
    for (y, x) in (0..size.height).flat_map(|y| (0..size.width).map(move |x| (y, x))) {
        let rows = near_far(y, size.height, halved[0]);
        let columns = near_far(x, size.width, halved[1]);
        let sample = |(plane, width): &(Vec<u8>, usize), row: u32, column: u32| {
            plane[row as usize * width + column as usize]
        };
        let [cb, cr] = [1, 2].map(|component| {
            let plane: &(Vec<u8>, usize) = &planes[component];
            let [near, far] =
                columns.map(|x| between(sample(plane, rows[0], x), sample(plane, rows[1], x)));
            between(near, far)
        });
        let mut pixel = [0; 3];
        fuseloop_kernels::ycbcr_row(&[sample(&planes[0], y, x)], &[cb], &[cr], &mut pixel);
        out.extend(pixel);
    }
    out
}

#[test]
fn every_picture_is_the_formulas_and_near_libjpegs() {
    let mut with_edges = 0;
    for n in 0..rounds("FUSELOOP_JPEG_EDGES") {
        let mut rng = random(n as u64);
        let size = Size::new(1 + below(&mut rng, 40) as u32, 1 + below(&mut rng, 40) as u32);
        let colour = SUBSAMPLED[n % 3];
        let jpeg = drawn(size, colour);
        let edges = Edges::of(&jpeg, size);
        with_edges += usize::from(edges.last_column || edges.last_row);
        let found = pixels(&mut core(), &jpeg, size.full()).unwrap();
        assert_eq!(found, by_the_formulas(&jpeg, size), "{size} {colour:?}");
        // libjpeg does not interpolate an image with two columns of chroma or fewer.
        if size.width <= 4 {
            continue;
        }
        let wanted = libjpeg_turbo_rs::decompress(&jpeg).unwrap();
        let most = differences(&found, &wanted.data, edges, size);
        assert!(most.iter().all(|&most| most <= ROUNDING), "{size} {colour:?}: {most:?}");
    }
    assert!(with_edges > 0);
}
