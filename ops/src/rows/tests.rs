//! Compares the rows of every filter with its definition, and the channels of an image with images of one
//! channel.

use super::*;
use crate::shape::{MAX_CHANNELS, RGB, Window};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

type Dice = Xoshiro256PlusPlus;

fn below(rng: &mut Dice, end: u32) -> u32 {
    rng.next_u32() % end
}

fn between(rng: &mut Dice, low: f64, high: f64) -> f64 {
    low + (high - low) * f64::from(rng.next_u32()) / 2f64.powi(32)
}

/// In one of four cases the sides are short: 1x1, 1xN, Nx1, and sides below 8.
fn random_size(rng: &mut Dice) -> Size {
    let [height, width] = match below(rng, 16) {
        0 => [1, 1],
        1 => [1, 80],
        2 => [80, 1],
        3 => [7, 7],
        _ => [80, 80],
    };
    Size::new(1 + below(rng, height), 1 + below(rng, width))
}

/// Noise, or large areas of one colour, where ties are common.
fn noise(rng: &mut Dice, len: usize) -> Vec<u8> {
    let mut pixels = vec![0; len];
    rng.fill_bytes(&mut pixels);
    if below(rng, 3) == 0 {
        pixels.iter_mut().for_each(|value| *value = (*value >> 7) * 200);
    }
    pixels
}

/// Checks `filter` on images of each number of channels.
fn assert_rows_are_the_meaning(
    rng: &mut Dice,
    size: Size,
    filter: &RowFilter,
    scratch: &mut RowScratch,
) {
    for channels in 1..=MAX_CHANNELS {
        assert_rows_of_channels(rng, size, channels, filter, scratch);
    }
}

/// Checks `filter` on a part of a larger image: all rows upwards and downwards, then random rows,
/// with all columns and with some.
fn assert_rows_of_channels(
    rng: &mut Dice,
    size: Size,
    channels: usize,
    filter: &RowFilter,
    scratch: &mut RowScratch,
) {
    let parent_size = Size::new(size.height + below(rng, 3), size.width + below(rng, 3));
    // In many cases the image's last pixel is the last one of the buffer, and rows have gaps.
    let stride = parent_size.width as usize * channels + below(rng, 3) as usize * 5;
    let needed = (parent_size.height as usize - 1) * stride + parent_size.width as usize * channels;
    let parent = noise(rng, needed);
    let parent = ImageView::of_channels(&parent, parent_size, channels, stride).unwrap();
    let top = below(rng, parent_size.height - size.height + 1);
    let left = below(rng, parent_size.width - size.width + 1);
    let window = Window { top, left, height: size.height, width: size.width };
    let input = parent.crop(window).unwrap();
    let (out, expected) = (filter.output(size), filter.eval(&input));
    assert_eq!(expected.len(), out.pixels() as usize * channels);
    let mixes = channels == RGB && matches!(filter, RowFilter::Jpeg { .. });
    if below(rng, 4) == 0 && !mixes {
        assert_channels_are_images(&input, filter, &expected);
    }

    let start = below(rng, out.width);
    let some = start..start + 1 + below(rng, out.width - start);
    for columns in [0..out.width, some] {
        let mut row = vec![0; columns.len() * channels];
        let mut rows = filter.rows(input, columns.clone(), scratch).unwrap();
        let upwards = (0..out.height).rev();
        let any: Vec<u32> = (0..out.height).map(|_| below(rng, out.height)).collect();
        for y in (0..out.height).chain(upwards).chain(any) {
            rows.row(y, &mut row);
            let line = &expected[(y * out.width) as usize * channels..];
            let line = &line[columns.start as usize * channels..columns.end as usize * channels];
            assert_eq!(row, line, "{filter:?} of {size}x{channels}, row {y}, {columns:?}");
        }
    }
}

/// Checks that each channel of `out`, which is `filter` of `input`, is what the filter makes of an image of
/// this channel alone.
fn assert_channels_are_images(input: &ImageView<'_>, filter: &RowFilter, out: &[u8]) {
    let channels = input.channels();
    for channel in 0..channels {
        let rows = (0..input.size().height).map(|y| input.row(y));
        let plane: Vec<u8> =
            rows.flat_map(|row| row.iter().skip(channel).step_by(channels).copied()).collect();
        let plane = ImageView::packed_channels(&plane, input.size(), 1).unwrap();
        let filter = match filter.clone() {
            RowFilter::Warp(warp) => {
                let fill = warp.fill.map(|fill| [fill[channel % RGB]; 3]);
                RowFilter::Warp(Warp { fill, ..warp })
            }
            other => other,
        };
        let own = out.iter().skip(channel).step_by(channels);
        assert!(filter.eval(&plane).iter().eq(own), "{filter:?}, channel {channel} of {channels}");
    }
}

fn assert_on_many_sizes(cases: u32, filter: impl Fn(&mut Dice, Size) -> RowFilter) {
    let (mut rng, mut scratch) = (Dice::seed_from_u64(11), RowScratch::default());
    for _ in 0..cases {
        let size = random_size(&mut rng);
        let filter = filter(&mut rng, size);
        assert_rows_are_the_meaning(&mut rng, size, &filter, &mut scratch);
    }
}

const RESAMPLINGS: [Resampling; 6] = [
    Resampling::Nearest,
    Resampling::NearestExact,
    Resampling::Bilinear,
    Resampling::BilinearAntialias,
    Resampling::Bicubic,
    Resampling::BicubicAntialias,
];

#[test]
fn rows_of_a_resize() {
    assert_on_many_sizes(400, |rng, size| {
        let mut out = random_size(rng);
        match below(rng, 5) {
            0 => out.width = size.width,
            1 => out.height = size.height,
            _ => {}
        }
        RowFilter::Resample { size: out, interpolation: RESAMPLINGS[below(rng, 6) as usize] }
    });
}

#[test]
fn rows_of_a_resize_far_down_and_far_up() {
    let (mut rng, mut scratch) = (Dice::seed_from_u64(12), RowScratch::default());
    for (size, out) in [
        (Size::new(700, 1001), Size::new(3, 2)),
        (Size::new(1, 3000), Size::new(1, 7)),
        (Size::new(2500, 1), Size::new(3, 1)),
        (Size::new(1, 1), Size::new(9, 300)),
    ] {
        for interpolation in RESAMPLINGS {
            let filter = RowFilter::Resample { size: out, interpolation };
            assert_rows_are_the_meaning(&mut rng, size, &filter, &mut scratch);
        }
    }
}

fn random_warp(rng: &mut Dice, input: Size, map: impl FnOnce(&mut Dice, Size) -> Map) -> RowFilter {
    use WarpInterpolation::{Bicubic, Bilinear, Nearest};
    let size = if below(rng, 2) == 0 { input } else { random_size(rng) };
    let interpolation = [Nearest, Bilinear, Bicubic][below(rng, 3) as usize];
    let fill = [None, Some([0; 3]), Some([255, 128, 3])][below(rng, 3) as usize];
    RowFilter::Warp(Warp { size, map: map(rng, size), interpolation, fill })
}

#[test]
fn rows_of_an_elastic_warp() {
    assert_on_many_sizes(100, |rng, size| {
        let sigma = [between(rng, 0.0, 3.0) as f32, between(rng, -1.0, 2.0).max(0.0) as f32];
        let alpha = [between(rng, 0.0, 90.0) as f32; 2];
        let displacement = Displacement::new(u64::from(below(rng, 99)), alpha, sigma, size);
        match random_warp(rng, size, |_, _| Map::elastic(displacement, size)) {
            RowFilter::Warp(warp) => RowFilter::Warp(Warp { size, ..warp }),
            other => other,
        }
    });
}

#[test]
fn rows_of_an_affine_warp() {
    assert_on_many_sizes(400, |rng, input| {
        random_warp(rng, input, |rng, output| {
            // In half of the cases, a multiple of 45 degrees and half a pixel, where ties occur.
            let tidy = below(rng, 2) == 0;
            let mut draw = |low: f64, high: f64, step: f64| {
                let value = between(rng, low, high);
                if tidy { (value / step).round() * step } else { value }
            };
            let angle = draw(-200.0, 200.0, 45.0);
            let translate = [draw(-20.0, 20.0, 0.5), draw(-20.0, 20.0, 0.5)];
            let shear = [draw(-50.0, 50.0, 45.0), draw(-50.0, 50.0, 45.0)];
            let scale = draw(0.3, 2.5, 0.5).max(0.25);
            let matrix = affine_matrix(angle, translate, scale, shear, [draw(-5.0, 5.0, 1.0), 0.0]);
            Map::affine(matrix, input, output)
        })
    });
}

#[test]
fn rows_of_a_perspective() {
    assert_on_many_sizes(300, |rng, input| {
        random_warp(rng, input, |rng, output| {
            let (w, h) = (f64::from(output.width), f64::from(output.height));
            let corners = [[0.0, 0.0], [w, 0.0], [w, h], [0.0, h]];
            let moved = corners.map(|corner| corner.map(|v| (v + between(rng, -9.0, 9.0)).round()));
            // In many cases the horizon crosses the image.
            let wild = [(); 8].map(|()| between(rng, -1.0, 1.0) as f32);
            Map::perspective(
                perspective_coefficients(corners, moved).unwrap_or(wild),
                input,
                output,
            )
        })
    });
}

#[test]
fn numbers_that_are_none_take_every_pixel_outside() {
    let (mut rng, mut scratch) = (Dice::seed_from_u64(13), RowScratch::default());
    let size = Size::new(9, 40);
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300] {
        for interpolation in
            [WarpInterpolation::Nearest, WarpInterpolation::Bilinear, WarpInterpolation::Bicubic]
        {
            let map = Map::affine([bad; 6], size, size);
            let fill = Some([1, 2, 3]);
            let filter = RowFilter::Warp(Warp { size, map, interpolation, fill });
            assert_rows_are_the_meaning(&mut rng, size, &filter, &mut scratch);
            let pixels = vec![9; size.pixels() as usize * RGB];
            let out = filter.eval(&ImageView::packed(&pixels, size).unwrap());
            assert!(out.as_chunks::<RGB>().0.iter().all(|pixel| *pixel == [1, 2, 3]), "{bad}");
        }
    }
}

#[test]
fn rows_of_a_transpose() {
    assert_on_many_sizes(60, |_, _| RowFilter::Transpose);
}

#[test]
fn rows_of_a_padding() {
    assert_on_many_sizes(200, |rng, _| {
        let mode = [PadMode::Edge, PadMode::Reflect, PadMode::Symmetric][below(rng, 3) as usize];
        let [top, left, bottom, right] = [(); 4].map(|()| below(rng, 100));
        RowFilter::Pad(Padding { top, left, bottom, right, mode })
    });
}

#[test]
fn permuted_rows() {
    assert_on_many_sizes(100, |rng, size| {
        let rows = 1 + below(rng, 3 * size.height);
        RowFilter::Permute(RowPermutation { rows, keys: [(); 2].map(|()| rng.next_u32()) })
    });
}

#[test]
fn a_row_of_means() {
    assert_on_many_sizes(60, |_, _| RowFilter::RowMean);
}

#[test]
fn rows_of_a_sharpened_picture() {
    assert_on_many_sizes(200, |rng, _| {
        let tidy = f64::from(below(rng, 30)) / 10.0;
        let any = between(rng, 0.0, 3.0);
        let near_one = 1.0 + between(rng, -1e-4, 1e-4);
        let factors = [tidy, any, near_one, f64::NAN, f64::INFINITY, -40.0];
        RowFilter::Sharpen { factor: factors[below(rng, 6) as usize] }
    });
}

fn random_kernel(rng: &mut Dice) -> [u32; 2] {
    [(); 2].map(|()| if below(rng, 8) == 0 { below(rng, 40) } else { 1 + 2 * below(rng, 5) })
}

#[test]
fn rows_of_a_gaussian_blur() {
    assert_on_many_sizes(200, |rng, _| {
        let kernel = random_kernel(rng);
        let mut sigma = [(); 2].map(|()| between(rng, 0.1, 3.0) as f32);
        match below(rng, 10) {
            0 => sigma[0] = 0.0,
            1 => sigma[1] = f32::NAN,
            _ => {}
        }
        RowFilter::GaussianBlur { kernel, sigma }
    });
}

#[test]
fn rows_of_a_box_blur() {
    assert_on_many_sizes(150, |rng, _| RowFilter::BoxBlur { kernel: random_kernel(rng) });
}

#[test]
fn rows_of_a_convolution() {
    assert_on_many_sizes(200, |rng, _| {
        let kernel = if below(rng, 2) == 0 {
            let mut weights = [[0.0; 3]; 3];
            for weight in weights.as_flattened_mut() {
                *weight = if below(rng, 3) == 0 { 0.0 } else { between(rng, -2.0, 2.0) as f32 };
            }
            ConvolutionKernel::Square(weights)
        } else {
            let side = 1 + 2 * below(rng, 9);
            let mut number = |most: f64| between(rng, -most, most) as f32;
            let (angle, ends) = (number(360.0), [number(8.0), number(8.0)]);
            ConvolutionKernel::Line(MotionLine {
                side,
                angle,
                ends,
                shift: [number(4.0), number(4.0)],
            })
        };
        RowFilter::Convolve(kernel)
    });
}

#[test]
fn rows_of_a_median() {
    assert_on_many_sizes(100, |rng, _| RowFilter::Median { side: 1 + 2 * below(rng, 8) });
}

#[test]
fn rows_of_large_pixels() {
    let scales = [1.0, 0.5, 0.01, f32::NAN, 7.0];
    assert_on_many_sizes(100, |rng, _| {
        let number = below(rng, 9) as usize;
        let scale = scales.get(number).copied().unwrap_or(between(rng, 0.02, 1.0) as f32);
        RowFilter::Pixelate { scale }
    });
}

#[test]
fn rows_of_a_jpeg() {
    assert_on_many_sizes(100, |rng, _| RowFilter::Jpeg { quality: below(rng, 102) });
}

#[test]
fn a_picture_without_pixels_is_black() {
    let none = ImageView::packed(&[], Size::new(0, 4)).unwrap();
    let mut scratch = RowScratch::default();
    let size = Size::new(2, 3);
    let filter = RowFilter::Resample { size, interpolation: Resampling::BilinearAntialias };
    assert_eq!(filter.eval(&none), [0; 18]);
    let mut row = [1; 3];
    filter.rows(none, 1..2, &mut scratch).unwrap().row(1, &mut row);
    assert_eq!(row, [0; 3]);
}

#[test]
#[should_panic(expected = "row 2 is outside the output of 2 rows")]
fn a_row_outside_is_a_mistake() {
    let picture = ImageView::packed(&[0; 6], Size::new(1, 2)).unwrap();
    let mut scratch = RowScratch::default();
    let mut rows = RowFilter::Transpose.rows(picture, 0..1, &mut scratch).unwrap();
    rows.row(2, &mut [0; 3]);
}
