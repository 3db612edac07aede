use super::*;
use std::path::Path;

/// Returns a file of `tests/golden/yuv`, which `scripts/video_frame_goldens.py` writes.
fn golden(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/yuv");
    std::fs::read(folder.join(name)).unwrap()
}

/// Returns a picture of planes without padding, one after another.
fn picture(planes: &[u8], size: [usize; 2], chroma_shifts: Option<[u32; 2]>) -> YuvPicture<'_> {
    let [width, height] = size;
    let chroma = chroma_shifts
        .map(|[across, down]| [width.div_ceil(1 << across), height.div_ceil(1 << down)])
        .unwrap_or_default();
    let (luma, rest) = planes.split_at(width * height);
    let (blue, red) = rest.split_at(chroma[0] * chroma[1]);
    YuvPicture {
        planes: [luma, blue, red],
        strides: [width, chroma[0], chroma[0]],
        size,
        chroma_shifts,
    }
}

fn whole(picture: &YuvPicture<'_>, to: &YuvToRgb) -> Vec<u8> {
    let [width, height] = picture.size;
    let mut out = vec![7; 3 * width * height];
    yuv_window(picture, to, [0; 2], picture.size, &mut out, 3 * width, &mut YuvRows::default());
    out
}

const LAYOUTS: [(&str, [usize; 2], [u32; 2]); 3] =
    [("yuv420p", [38, 26], [1, 1]), ("yuv422p", [38, 10], [1, 0]), ("yuv444p", [38, 6], [0, 0])];

#[test]
fn pixels_are_swscales_within_one_level() {
    let matrices =
        [("bt601", YuvToRgb::BT601), ("bt709", YuvToRgb::BT709), ("bt2020", YuvToRgb::BT2020)];
    for (format, size, shifts) in LAYOUTS {
        let planes = golden(&format!("{format}.yuv"));
        for ((name, matrix), (range, is_full)) in matrices
            .into_iter()
            .flat_map(|matrix| [("tv", false), ("pc", true)].map(|range| (matrix, range)))
        {
            let expected = golden(&format!("{format}.{name}.{range}.rgb"));
            let found =
                whole(&picture(&planes, size, Some(shifts)), &YuvToRgb::new(matrix, is_full));
            assert_eq!(found.len(), expected.len());
            // swscale cuts its filter in the first rows of 4:2:0.
            let first = if shifts[1] == 1 { 3 * size[0] * 3 } else { 0 };
            let worst = found
                .iter()
                .zip(&expected)
                .skip(first)
                .map(|(found, expected)| found.abs_diff(*expected))
                .max();
            assert!(worst <= Some(1), "{format} {name} {range}: {worst:?}");
        }
    }
}

#[test]
fn every_colour_is_the_formulas_rounded() {
    for (matrix, is_full) in [YuvToRgb::BT601, YuvToRgb::BT709, YuvToRgb::BT2020]
        .into_iter()
        .flat_map(|m| [(m, false), (m, true)])
    {
        let [kr, kb] = matrix;
        let to = YuvToRgb::new(matrix, is_full);
        let (s, o, c) =
            if is_full { (1.0, 0.0, 1.0) } else { (255.0 / 219.0, 16.0, 255.0 / 224.0) };
        for (y, cb, cr) in (0..=255u8).step_by(5).flat_map(|y| {
            (0..=255u8)
                .step_by(3)
                .flat_map(move |cb| (0..=255u8).step_by(17).map(move |cr| (y, cb, cr)))
        }) {
            let (luma, b, r) =
                (s * (f64::from(y) - o), c * (f64::from(cb) - 128.0), c * (f64::from(cr) - 128.0));
            let (red, blue) = (2.0 * (1.0 - kr) * r, 2.0 * (1.0 - kb) * b);
            let green = -(red * kr + blue * kb) / (1.0 - kr - kb);
            for (found, exact) in to.pixel([y, cb, cr]).into_iter().zip([red, green, blue]) {
                let exact = (luma + exact).clamp(0.0, 255.0);
                assert!((f64::from(found) - exact).abs() < 0.53, "{y} {cb} {cr}: {found} {exact}");
            }
        }
    }
}

#[test]
fn vectors_have_the_bits_of_the_reference() {
    let to = YuvToRgb::new(YuvToRgb::BT2020, false);
    let chroma = |n: usize, seed: usize| -> Vec<i16> {
        (0..n).map(|i| ((i * seed * 2_654_435_761) % 26_000) as i16 - 13_000).collect()
    };
    for len in 0..70 {
        let y: Vec<u8> = (0..len).map(|i| (i * len * 37 % 256) as u8).collect();
        let (cb, cr) = (chroma(len, 3), chroma(len, 7));
        let (mut out, mut meant) = (vec![7; 3 * len], vec![7; 3 * len]);
        matrix_row(&to, &y, &cb, &cr, &mut out);
        plain(&to, &y, &cb, &cr, &mut meant);
        assert_eq!(out, meant, "{len}");
    }
}

#[test]
fn a_window_has_the_bits_of_the_whole_picture() {
    let to = YuvToRgb::new(YuvToRgb::BT709, false);
    let mut rows = YuvRows::default();
    let layouts = LAYOUTS.map(|(_, _, shifts)| Some(shifts)).into_iter().chain([None]);
    for (shifts, size) in layouts.flat_map(|shifts| {
        [(shifts, [21, 11]), (shifts, [20, 12]), (shifts, [1, 1]), (shifts, [2, 3])]
    }) {
        let planes: Vec<u8> =
            (0..size[0] * size[1] * 3 + 9).map(|i| ((i * 2_654_435_761) >> 7) as u8).collect();
        let picture = picture(&planes, size, shifts);
        let expected = whole(&picture, &to);
        for x in 0..size[0] {
            for y in 0..size[1] {
                for (width, height) in [(1, 1), (2, 3), (size[0] - x, size[1] - y)] {
                    let (width, height) = (width.min(size[0] - x), height.min(size[1] - y));
                    let stride = 3 * width + 2;
                    let mut out = vec![7; stride * height];
                    yuv_window(&picture, &to, [x, y], [width, height], &mut out, stride, &mut rows);
                    for row in 0..height {
                        let expected = &expected[3 * ((y + row) * size[0] + x)..][..3 * width];
                        assert_eq!(
                            &out[row * stride..][..3 * width],
                            expected,
                            "{shifts:?} {size:?} {x} {y}"
                        );
                        assert_eq!(out[row * stride + 3 * width..][..2], [7, 7]);
                    }
                }
            }
        }
    }
}

#[test]
fn gray_is_luma() {
    let picture = picture(&[16, 235, 100], [3, 1], None);
    assert_eq!(
        whole(&picture, &YuvToRgb::new(YuvToRgb::BT601, false)),
        [0, 0, 0, 255, 255, 255, 98, 98, 98]
    );
    assert_eq!(
        whole(&picture, &YuvToRgb::new(YuvToRgb::BT601, true)),
        [16, 16, 16, 235, 235, 235, 100, 100, 100]
    );
}
