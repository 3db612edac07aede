//! CLAHE: the contrast of an image made equal everywhere.

use crate::author::{BoxError, HostOp, Type};
use crate::kernel_size::KernelSize;
use crate::memory;
use crate::op::{Op, class, on_colors, on_u8_image};
use crate::registry::{Checked, ParamLimits};
use crate::rows::{PadMode, byte};
use crate::{HostSample, NumberOrRange, ParamError, Size, TypeError};
use std::sync::LazyLock;

/// Makes the contrast of a share `p` of the images equal everywhere: contrast-limited adaptive histogram equalization.
///
#[cfg_attr(doc, doc = include_str!("../pictures/CLAHE.md"))]
///
/// Zuiderveld, Graphics Gems IV (1994), as OpenCV's `createCLAHE` computes it. The image, whose reflection makes its sides
/// multiples of the grid, is cut into tiles.
///
/// ```text
/// limit    = max(1, floor(clip_limit * pixels of a tile / 256))
/// counts   = the histogram of a tile, clipped at limit; what was above is spread over all 256 levels
/// table[v] = rint(255 / pixels of a tile * (counts[0] + .. + counts[v]))
/// out      = the tables of the four tiles whose middles are around the pixel, weighed by its distance from them
/// ```
///
/// Of an RGB image, this is done to the lightness L of CIE L*a*b*, whose three numbers are bytes.
///
/// | | |
/// |--------|------------------------------------------------------------------------------------|
/// | input  | u8 image with 3 channels, or 1                                                     |
/// | output | as the input                                                                       |
/// | random | a coin `p`, then `clip_limit`, uniform                                             |
/// | cost   | ends its block: the image is stored, changed in place and read again; for RGB nine look-ups, a division and three searches per pixel |
///
/// Albumentations' `CLAHE`. Gray images are OpenCV's to the bit, and so are L, a and b, but for 1 in a few colours of 10000;
/// on the way back to RGB values differ by at most 2, since OpenCV has tables there.
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![CLAHE::new().clip_limit(2.0)?.tile_grid_size(4)?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq)]
#[op(
    COLOR,
    "makes the contrast equal everywhere, in a share p of the images",
    new = "Builds the op with Albumentations' defaults: a limit of 1 to 4 and 8 x 8 tiles, for half of the images."
)]
pub struct CLAHE {
    /// Sets the range of the limit, in units of the mean of the counts. A number n is `1.0..=n`.
    #[param("range of the limit of counts, in units of their mean; a number n is 1..n", given = NumberOrRange,
        check = limits, default = 1.0..=4.0, draw = recipe::range(rng, 1.0, 3.0, 9.0),
        errors = "If the range is empty, not finite or begins below 1")]
    clip_limit: (f32, f32),
    /// Sets the number of tiles along a row and along a column.
    #[param("how many tiles", given = KernelSize, 1..=255, default = 8, draw = [0; 2].map(|_| 1 + rng.below(9)))]
    #[init([8; 2])]
    tile_grid_size: [u32; 2],
    #[param(share)]
    p: f64,
}

/// Checks a limit, one number or a range.
fn limits(
    op: &'static str,
    param: &'static str,
    limit: NumberOrRange,
) -> Result<(f32, f32), ParamError> {
    let range = match limit {
        NumberOrRange::Number(number) => 1.0..=number,
        NumberOrRange::Range(range) => range,
    };
    range.checked(op, param, ParamLimits::new(1.0, 1e6, "1 <= low <= high <= 1000000"))
}

#[class(Host)]
impl Op for CLAHE {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_u8_image(self.name(), &on_colors(self.name(), input)?, |image| image)
    }

    fn does_nothing(&self, _: &Type) -> bool {
        self.p == 0.0
    }
}

impl HostOp for CLAHE {
    fn apply(&self, host: HostSample<'_>, pixels: &mut [u8]) -> Result<(), BoxError> {
        let runs = host.rng.coin(self.p);
        let limit = host.rng.uniform(self.clip_limit.0, self.clip_limit.1);
        if runs {
            changed(pixels, host.channels, host.size, self.tile_grid_size, limit)?;
        }
        Ok(())
    }
}

/// Changes an image of 3 channels, or of 1.
fn changed(
    pixels: &mut [u8],
    channels: usize,
    size: Size,
    tiles: [u32; 2],
    limit: f32,
) -> Result<(), BoxError> {
    const WHAT: &str = "an image's lightness";
    if channels != 3 {
        return equalize(pixels, size, tiles, limit);
    }
    let mut lightness = vec![];
    memory::resize(&mut lightness, size.pixels() as usize, WHAT)?;
    let space = &*SPACE;
    for (pixel, lightness) in pixels.as_chunks_mut().0.iter_mut().zip(&mut lightness) {
        *pixel = space.lab(*pixel);
        *lightness = pixel[0];
    }
    equalize(&mut lightness, size, tiles, limit)?;
    for (pixel, lightness) in pixels.as_chunks_mut().0.iter_mut().zip(lightness) {
        *pixel = space.rgb([lightness, pixel[1], pixel[2]]);
    }
    Ok(())
}

/// The pixels of a tile as their tables are made of them, `[columns, rows]`.
#[derive(Clone, Copy, Debug)]
struct Grid {
    size: Size,
    tiles: [usize; 2],
    /// The sides of a tile.
    sides: [usize; 2],
}

impl Grid {
    fn new(size: Size, tiles: [u32; 2]) -> Self {
        let [width, height] = [size.width, size.height].map(|side| side as usize);
        let tiles = tiles.map(|count| count.max(1) as usize);
        let [across, down] = tiles;
        let is_whole = width % across == 0 && height % down == 0;
        // As OpenCV: an axis that is a multiple gets a full set of pixels more if the other axis isn't.
        let side = |side: usize, count: usize| match is_whole {
            true => side / count,
            false => (side + count - side % count) / count,
        };
        Self { size, tiles, sides: [side(width, across), side(height, down)] }
    }

    /// Returns the table of a tile.
    fn table(&self, plane: &[u8], [across, down]: [usize; 2], limit: f32) -> [u8; 256] {
        let [columns, rows] = self.sides;
        let width = self.size.width as usize;
        let source = |at: usize, side| PadMode::Reflect.index(at as i64, side) as usize;
        let mut counts = [0u32; 256];
        for y in down * rows..(down + 1) * rows {
            let row = &plane[source(y, self.size.height) * width..][..width];
            for x in across * columns..(across + 1) * columns {
                counts[usize::from(row[source(x, self.size.width)])] += 1;
            }
        }
        let area = (columns * rows) as u32;
        clip(&mut counts, ((f64::from(limit) * f64::from(area) / 256.0) as u32).max(1));
        let (scale, mut sum) = (255.0 / area as f32, 0u32);
        counts.map(|count| {
            sum += count;
            byte(sum as f32 * scale)
        })
    }
}

/// Limits counts, and spreads what was above the limit evenly over all of them.
fn clip(counts: &mut [u32; 256], limit: u32) {
    let mut rest = 0;
    for count in &mut *counts {
        rest += count.saturating_sub(limit);
        *count = (*count).min(limit);
    }
    for count in &mut *counts {
        *count += rest / 256;
    }
    rest %= 256;
    if rest > 0 {
        let step = (256 / rest as usize).max(1);
        counts.iter_mut().step_by(step).take(rest as usize).for_each(|count| *count += 1);
    }
}

/// The two tiles around a pixel of an axis, and the share of the second one.
fn around(at: usize, side: usize, tiles: usize) -> (usize, usize, f32) {
    let place = at as f32 * (1.0 / side as f32) - 0.5;
    let first = place.floor();
    let second = (first + 1.0) as usize;
    ((first.max(0.0)) as usize, second.min(tiles - 1), place - first)
}

/// Equalizes a plane in place.
fn equalize(plane: &mut [u8], size: Size, tiles: [u32; 2], limit: f32) -> Result<(), BoxError> {
    if size.pixels() == 0 {
        return Ok(());
    }
    let grid = Grid::new(size, tiles);
    let [across, down] = grid.tiles;
    let mut tables = memory::with_capacity(across * down, "the tables of CLAHE")?;
    for row in 0..down {
        tables.extend((0..across).map(|column| grid.table(plane, [column, row], limit)));
    }
    let mut columns = memory::with_capacity(size.width as usize, "the columns of CLAHE")?;
    columns.extend((0..size.width as usize).map(|x| around(x, grid.sides[0], across)));
    for (y, row) in plane.chunks_exact_mut(size.width as usize).enumerate() {
        let (top, bottom, below) = around(y, grid.sides[1], down);
        let [top, bottom] = [top, bottom].map(|row| &tables[row * across..][..across]);
        for (value, &(left, right, after)) in row.iter_mut().zip(&columns) {
            let level = usize::from(*value);
            let mixed = |tables: &[[u8; 256]]| {
                f32::from(tables[left][level]) * (1.0 - after)
                    + f32::from(tables[right][level]) * after
            };
            *value = byte(mixed(top) * (1.0 - below) + mixed(bottom) * below);
        }
    }
    Ok(())
}

/// CIE L*a*b* of sRGB with the white of D65, in bytes: L times 2.55, and a and b plus 128. The way there is OpenCV's, in
/// whole numbers; the way back is computed in f32, and not with OpenCV's tables.
#[derive(Debug)]
struct Space {
    /// The linear value of each level, times `255 * 8`.
    linear: [i32; 256],
    /// The cubic root of each multiple of `1 / (255 * 8)`, times 2^15, below a limit a line.
    roots: Vec<i32>,
    /// The linear value above which the level after each one is nearer.
    ends: [f32; 255],
}

/// Linear red, green and blue to X, Y and Z of which white is 1, times 2^12: sRGB (IEC 61966-2-1), divided by the white.
const TO_XYZ: [[i32; 3]; 3] = [[1777, 1541, 778], [871, 2929, 296], [73, 448, 3575]];

/// X, Y and Z of which white is 1 to linear red, green and blue.
const TO_RGB: [[f32; 3]; 3] = [
    [3.240_479 * 0.950_456, -1.537_15, -0.498_535 * 1.088_754],
    [-0.969_256 * 0.950_456, 1.875_991, 0.041_556 * 1.088_754],
    [0.055_648 * 0.950_456, -0.204_043, 1.057_311 * 1.088_754],
];

/// The number below which the cubic root is a line, and the line: factor and offset.
const FOOT: f32 = 0.008_856;
const LINE: [f32; 2] = [7.787, 16.0 / 116.0];

static SPACE: LazyLock<Space> = LazyLock::new(Space::new);

impl Space {
    /// Computes the tables in double precision.
    fn new() -> Self {
        let linear = |level: f64| {
            let v = level / 255.0;
            if v <= 0.040_45 { v / 12.92 } else { libm::pow((v + 0.055) / 1.055, 2.4) }
        };
        let root = |i: u16| {
            let v = f64::from(i) / 2040.0;
            let [factor, offset] = LINE.map(f64::from);
            let root = if v < f64::from(FOOT) { factor * v + offset } else { libm::cbrt(v) };
            (root * 32_768.0).round_ties_even() as i32
        };
        Self {
            linear: std::array::from_fn(|v| (linear(v as f64) * 2040.0).round_ties_even() as i32),
            roots: (0..3072).map(root).collect(),
            ends: std::array::from_fn(|level| linear(level as f64 + 0.5) as f32),
        }
    }

    fn lab(&self, rgb: [u8; 3]) -> [u8; 3] {
        let scaled = |v: i32, bits: u32| (v + (1 << (bits - 1))) >> bits;
        let [r, g, b] = rgb.map(|level| self.linear[usize::from(level)]);
        let [x, y, z] = TO_XYZ.map(|row| {
            let v = scaled(row[0] * r + row[1] * g + row[2] * b, 12);
            self.roots[v as usize]
        });
        let middle = 128 << 15;
        let lab = [296 * y - 1_336_934, 500 * (x - y) + middle, 200 * (y - z) + middle];
        lab.map(|v| scaled(v, 15).clamp(0, 255) as u8)
    }

    fn rgb(&self, [l, a, b]: [u8; 3]) -> [u8; 3] {
        let y = (f32::from(l) / 2.55 + 16.0) / 116.0;
        let [a, b] = [a, b].map(|v| f32::from(v) - 128.0);
        let [x, y, z] = [y + a / 500.0, y, y - b / 200.0].map(|v| {
            let cube = v * v * v;
            if cube > FOOT { cube } else { (v - LINE[1]) / LINE[0] }
        });
        TO_RGB.map(|row| {
            let v = row[0] * x + row[1] * y + row[2] * z;
            self.ends.partition_point(|end| *end < v) as u8
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_colour_is_opencvs_in_lab_and_comes_back() {
        let space = &*SPACE;
        // OpenCV's bytes of red, of a dark green and of gray.
        for (rgb, lab) in [
            ([255, 0, 0], [136, 208, 195]),
            ([10, 60, 20], [54, 102, 148]),
            ([128; 3], [137, 128, 128]),
        ] {
            assert_eq!(space.lab(rgb), lab, "{rgb:?}");
            let back = space.rgb(lab);
            assert!(rgb.iter().zip(back).all(|(a, b)| a.abs_diff(b) <= 2), "{rgb:?}: {back:?}");
        }
    }

    #[test]
    fn clipped_counts_keep_their_sum() {
        let mut counts = [0; 256];
        (counts[3], counts[9]) = (1000, 7);
        clip(&mut counts, 40);
        assert_eq!(counts.iter().sum::<u32>(), 1007);
        // 960 are spread: 3 for each level, and one more for each of 192, which are one after the other.
        assert_eq!((counts[3], counts[9], counts[191], counts[192]), (44, 11, 4, 3));
    }

    #[test]
    fn a_gray_image_gets_contrast() {
        let mut plane: Vec<u8> = (0..64 * 64).map(|i| 100 + (i % 64 / 8) as u8).collect();
        equalize(&mut plane, Size::new(64, 64), [2, 2], 40.0).unwrap();
        let (low, high) = (plane.iter().min().unwrap(), plane.iter().max().unwrap());
        assert!(high - low > 100, "{low}..{high}");
    }

    #[test]
    fn bad_parameters_are_refused() {
        let op = CLAHE::new();
        assert!(op.clip_limit(0.5).is_err() && op.clip_limit(2.0..=1.5).is_err());
        assert!(op.tile_grid_size(0).is_err() && op.tile_grid_size([3, 256]).is_err());
    }
}
