//! Grid mask: squares in a regular grid set to 0.

use crate::author::{Emit, Eval, F32x4, I32x4, Mask, PixelOp, Pixels, Rng, Type};
use crate::op::{Op, class, on_image};
use crate::{Size, TypeError};
use std::ops::RangeInclusive;

/// Sets the squares of a regular grid to 0 in a share `p` of the images.
///
#[cfg_attr(doc, doc = include_str!("../pictures/GridMask.md"))]
///
/// Chen et al., arXiv:2001.04086.
///
/// ```text
/// d = U{period}; top = U{0..d}; left = U{0..d}; gap = clamp(floor(d * ratio + 1/2), 1, d - 1)
/// out[y, x, c] = 0                 if (y + top) mod d >= gap and (x + left) mod d >= gap
/// out[y, x, c] = in[y, x, c]       otherwise
/// ```
///
/// | | |
/// |--------|-------------------------------------------------------------------|
/// | input  | image of any element type                                         |
/// | output | as the input                                                      |
/// | random | a coin `p`, then the period, then the offsets of rows and columns |
/// | cost   | ten operations per pixel and one select per value                 |
///
/// The formula is from section 3.2 of the paper. `ratio` is its r, the width of an unmasked strip as a
/// share of the period, so that a share 1 - (1 - r)^2 of the image is unmasked. For ImageNet the paper
/// uses periods of 96..=224, a ratio of 0.6 and p = 0.8; for CIFAR-10 periods of 24..=32, 0.4 and 1.
/// The paper may also rotate the grid by a random angle; this op never does. The paper increases p from
/// 0 over the epochs; to do so, recompile with another `p`.
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![GridMask::new().ratio(0.5)?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Debug, PartialEq)]
#[op(
    OVERWRITE,
    "sets the squares of a grid to 0, in a share p of the images",
    new = "Builds a grid with the paper's numbers for ImageNet: a period of 96 to 224 pixels, strips of 0.6 of the period between the squares, in 0.8 of the images.",
    golden = "a formula of its paper, with numbers from this crate's generator"
)]
pub struct GridMask {
    /// Sets the range of the grid's period, in pixels.
    #[param("range of the grid's period in pixels; defaults are the paper's for ImageNet", 2..=65_535, default = 96..=224,
        draw = random_period(rng))]
    period: RangeInclusive<u32>,
    /// Sets the share of a period that is unmasked between the squares.
    #[param("share of a period that is kept between the squares", 0.0..=1.0, default = 0.6)]
    ratio: f64,
    #[param(share, default = 0.8)]
    p: f64,
}

impl GridMask {
    /// Returns the number of unmasked pixels of a period along each axis: at least one, and fewer than
    /// the period.
    fn gap(&self, period: u32) -> u32 {
        let gap = (f64::from(period) * self.ratio + 0.5) as u32;
        gap.clamp(1, period - 1)
    }
}

fn random_period(rng: &mut Rng) -> RangeInclusive<u32> {
    let low = 2 + rng.below(30);
    low..=low + rng.below(20)
}

#[class(Pixel)]
impl Op for GridMask {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_image(self.name(), input, |image| image)
    }

    fn does_nothing(&self, _: &Type) -> bool {
        self.p == 0.0
    }
}

/// Drawn parameters: the offsets of rows and columns, each plus one half; the period; 1 / period; the
/// number of unmasked pixels of a period.
const OFFSETS: [usize; 2] = [0, 1];
const PERIOD: usize = 2;
const SHARE: usize = 3;
const GAP: usize = 4;

/// The remainder of a coordinate after whole periods, minus the half, is an integer. The half keeps the
/// product with the rounded `1 / period` away from the integers, so that rounding the product down is
/// exact: with coordinates and offsets below 2^16 the error of the product is less than 2^17 * 2^-23 /
/// period, and its distance from an integer is at least 1 / (2 * period).
impl PixelOp for GridMask {
    fn param_count(&self) -> usize {
        5
    }

    fn param_names(&self) -> &'static [&'static str] {
        &["-", "-", "period", "-", "kept"]
    }

    fn draw(&self, rng: &mut Rng, _: Size, params: &mut [f32]) -> bool {
        let applies = rng.coin(self.p);
        let (low, high) = (*self.period.start(), *self.period.end());
        let period = low + rng.below(high - low + 1);
        for param in OFFSETS {
            params[param] = rng.below(period) as f32 + 0.5;
        }
        params[PERIOD] = period as f32;
        params[SHARE] = 1.0 / period as f32;
        params[GAP] = if applies { self.gap(period) } else { period } as f32;
        true
    }

    fn is_identity(&self, params: &[f32]) -> bool {
        params[GAP] == params[PERIOD]
    }

    fn uses_position(&self) -> bool {
        true
    }

    fn eval(&self, cx: &Eval<'_>, pixel: &mut [f32]) {
        let in_square = |axis: usize| {
            let coordinate = cx.at[axis] as f32 + cx.params[OFFSETS[axis]];
            let periods = (coordinate * cx.params[SHARE]).floor();
            cx.params[GAP] < coordinate - periods * cx.params[PERIOD]
        };
        if in_square(0) && in_square(1) {
            pixel.fill(0.0);
        }
    }

    fn emit(&self, e: &mut Emit, pixels: Pixels) -> Pixels {
        let [y, x] = e.position();
        let (in_row, in_column) = (emit_in_square(e, 0, y), emit_in_square(e, 1, x));
        let square = e.both(in_row, in_column);
        let zero: F32x4 = e.splat(0.0);
        e.select_pixels(square, pixels.filled(zero), pixels)
    }
}

/// Returns a mask of the coordinates along an axis that are in the masked part of a period.
fn emit_in_square(e: &mut Emit, axis: usize, coordinate: I32x4) -> Mask {
    let [offset, share, period, gap] =
        [OFFSETS[axis], SHARE, PERIOD, GAP].map(|param| e.param(param));
    let coordinate = e.to_f32(coordinate);
    let coordinate = e.add(coordinate, offset);
    let periods = e.mul(coordinate, share);
    let periods = e.floor(periods);
    let before = e.mul(periods, period);
    let rest = e.sub(coordinate, before);
    e.less(gap, rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NumberRule;
    use crate::op::evaluated;
    use crate::rng::SampleKey;

    /// Returns the mask of an image as rows of text, with `#` where it is 0.
    fn mask(op: &GridMask, params: &[f32], size: Size) -> Vec<String> {
        let at = |y, x| {
            let cx = Eval { rule: NumberRule::Fused, params, at: [y, x] };
            if evaluated(op, &cx, [7.0; 3]) == [0.0; 3] { '#' } else { '.' }
        };
        let (height, width) = (size.height as i32, size.width as i32);
        (0..height).map(|y| (0..width).map(|x| at(y, x)).collect()).collect()
    }

    fn always(period: RangeInclusive<u32>, ratio: f64) -> GridMask {
        GridMask::new().period(period).unwrap().ratio(ratio).unwrap().p(1.0).unwrap()
    }

    fn drawn(op: &GridMask, sample: u64) -> Vec<f32> {
        let mut params = vec![0.0; op.param_count()];
        op.draw(&mut SampleKey::new(0, 0, sample).op(0), Size::new(8, 8), &mut params);
        params
    }

    #[test]
    fn squares_stand_in_a_grid() {
        let op = always(4..=4, 0.5);
        let params = [0.5, 1.5, 4.0, 0.25, 2.0];
        let rows = mask(&op, &params, Size::new(8, 9));
        let (clear, dashed) = (".........", ".##..##..");
        let want = [clear, clear, dashed, dashed, clear, clear, dashed, dashed];
        assert_eq!(rows, want);
        assert_eq!(op.gap(4), 2);
    }

    #[test]
    fn the_rest_of_a_division_is_exact_for_every_place_and_period() {
        let op = always(2..=65_535, 0.5);
        for period in (2..65_536u32).step_by(61).chain([3, 7, 255, 65_535]) {
            let offset = period - 1;
            let gap = op.gap(period);
            let share = 1.0 / period as f32;
            let params = [gap as f32 + 0.5, offset as f32 + 0.5, period as f32, share, gap as f32];
            let multiples = (0..65_536u32).step_by(period as usize);
            let near = multiples.flat_map(|x| [x.saturating_sub(1), x, x + 1, x + gap]);
            for x in near.filter(|&x| x < 65_536) {
                let cx = Eval { rule: NumberRule::Fused, params: &params, at: [0, x as i32] };
                let dropped = evaluated(&op, &cx, [7.0; 3]) == [0.0; 3];
                assert_eq!(dropped, (x + offset) % period >= gap, "{x}, {period}");
            }
        }
    }

    #[test]
    fn the_share_that_is_kept_is_the_papers() {
        let op = always(10..=10, 0.6);
        for sample in 0..20 {
            let rows = mask(&op, &drawn(&op, sample), Size::new(50, 40));
            let dropped = rows.iter().flat_map(|row| row.chars()).filter(|&c| c == '#').count();
            assert_eq!(dropped, 50 * 40 * 16 / 100, "sample {sample}");
        }
    }

    #[test]
    fn a_share_p_of_the_samples_has_a_grid() {
        let op = always(4..=8, 0.5).p(0.3).unwrap();
        let masked = (0..2000).filter(|&sample| {
            let rows = mask(&op, &drawn(&op, sample), Size::new(8, 8));
            rows.iter().any(|row| row.contains('#'))
        });
        assert!((500..700).contains(&masked.count()));
    }
}
