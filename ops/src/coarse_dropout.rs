//! Coarse dropout: paints over several random rectangles.

use crate::author::{Emit, Eval, PixelOp, Pixels, Rng, Type};
use crate::op::{Op, check_fill, class, on_image};
use crate::{Size, TypeError};
use std::ops::RangeInclusive;

/// Paints over several random rectangles in a share `p` of the images.
///
#[cfg_attr(doc, doc = include_str!("../pictures/CoarseDropout.md"))]
///
/// ```text
/// out[y, x] = fill        for top <= y < top + height and left <= x < left + width of any hole
/// out[y, x] = in[y, x]    otherwise
/// ```
///
/// | | |
/// |--------|-------------------------------------------------------------------------------------------|
/// | input  | image of any element type                                                                 |
/// | output | as the input                                                                              |
/// | random | a coin `p`, the number of holes, then for each hole its height, width, top and left       |
/// | cost   | eight operations per pixel for each hole that `num_holes_range` allows                     |
///
/// Albumentations' `CoarseDropout`: if a range of a side ends at 1 or more, sides are whole numbers of pixels in it, both
/// ends included; otherwise they are a share of the image's side, rounded down. A hole lies inside the image. There the
/// height decides for both sides, and a hole may also be filled with random numbers or by inpainting; boxes below holes
/// stay here.
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![CoarseDropout::new().num_holes_range(1..=8)?.hole_height_range(8.0..=16.0)?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Debug, PartialEq)]
#[op(
    OVERWRITE,
    "paints random rectangles over, in a share p of the images",
    new = "Builds the op with Albumentations' defaults: one or two black holes of 0.1 to 0.2 of the sides of half of the images.",
    golden = "rectangles from this crate's generator: their number and sizes are tested"
)]
pub struct CoarseDropout {
    /// Sets the range of the number of holes.
    #[param("range of the number of holes", 1..=64, default = 1..=2, draw = random_count(rng))]
    num_holes_range: RangeInclusive<u32>,
    /// Sets the range of the height of a hole: shares of the image's height, or pixels if it ends at 1 or more.
    #[param("range of a hole's height: shares of the image's, or pixels if it ends at 1 or more", 0.0..=65_535.0,
        default = 0.1..=0.2, draw = random_side(rng))]
    hole_height_range: (f64, f64),
    /// Sets the range of the width of a hole: shares of the image's width, or pixels if it ends at 1 or more.
    #[param("range of a hole's width: shares of the image's, or pixels if it ends at 1 or more", 0.0..=65_535.0,
        default = 0.1..=0.2, draw = random_side(rng))]
    hole_width_range: (f64, f64),
    /// Sets the colour of the holes. Default black.
    #[param("their colour", fill)]
    fill: [u8; 3],
    #[param(share)]
    p: f64,
}

fn random_count(rng: &mut Rng) -> RangeInclusive<u32> {
    let low = 1 + rng.below(4);
    low..=low + rng.below(4)
}

fn random_side(rng: &mut Rng) -> RangeInclusive<f64> {
    let most = if rng.coin(0.5) { 0.9 } else { 20.0 };
    let low = f64::from(rng.uniform(0.0, most));
    low..=low + f64::from(rng.uniform(0.0, most - low as f32))
}

#[class(Pixel)]
impl Op for CoarseDropout {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        check_fill(self.name(), input, Some(self.fill))?;
        on_image(self.name(), input, |image| image)
    }

    fn does_nothing(&self, _: &Type) -> bool {
        self.p == 0.0
    }
}

/// Drawn parameters of each hole: the bounds of its rows and of its columns, each minus a half, so that no bound is a
/// coordinate.
const BOUNDS: usize = 4;

/// The bounds of a hole that is not there.
const NONE: [f32; BOUNDS] = [-1.0; BOUNDS];

impl CoarseDropout {
    /// Draws the side of a hole along a side of an image.
    fn side(rng: &mut Rng, (low, high): (f64, f64), side: u32) -> u32 {
        if high < 1.0 {
            let share = low + f64::from(rng.unit()) * (high - low);
            return (f64::from(side) * share) as u32;
        }
        let high = (high as u32).min(side);
        let low = (low as u32).min(high);
        low + rng.below(high - low + 1)
    }
}

impl PixelOp for CoarseDropout {
    fn param_count(&self) -> usize {
        *self.num_holes_range.end() as usize * BOUNDS
    }

    fn param_names(&self) -> &'static [&'static str] {
        &["top", "bottom", "left", "right"]
    }

    fn draw(&self, rng: &mut Rng, size: Size, params: &mut [f32]) -> bool {
        let runs = rng.coin(self.p);
        let (low, high) = (*self.num_holes_range.start(), *self.num_holes_range.end());
        let count = low + rng.below(high - low + 1);
        for (number, hole) in params.as_chunks_mut::<BOUNDS>().0.iter_mut().enumerate() {
            *hole = NONE;
            if number < count as usize {
                let height = Self::side(rng, self.hole_height_range, size.height);
                let width = Self::side(rng, self.hole_width_range, size.width);
                let top = rng.below(size.height - height + 1);
                let left = rng.below(size.width - width + 1);
                *hole = [top, top + height, left, left + width].map(|bound| bound as f32 - 0.5);
            }
        }
        runs
    }

    fn may_skip(&self) -> bool {
        self.p < 1.0
    }

    fn uses_position(&self) -> bool {
        true
    }

    fn eval(&self, cx: &Eval<'_>, pixel: &mut [f32]) {
        let [y, x] = cx.at.map(|coordinate| coordinate as f32);
        let is_inside = |[top, bottom, left, right]: &[f32; BOUNDS]| {
            *top < y && y < *bottom && *left < x && x < *right
        };
        if cx.params.as_chunks().0.iter().any(is_inside) {
            for (c, v) in pixel.iter_mut().enumerate() {
                *v = f32::from(self.fill[c % 3]);
            }
        }
    }

    fn emit(&self, e: &mut Emit, pixels: Pixels) -> Pixels {
        let [y, x] = e.position().map(|coordinate| e.to_f32(coordinate));
        let mut inside = None;
        for hole in 0..self.param_count() / BOUNDS {
            let [top, bottom, left, right] =
                [0, 1, 2, 3].map(|bound| e.param(BOUNDS * hole + bound));
            let (below_top, above_bottom) = (e.less(top, y), e.less(y, bottom));
            let (after_left, before_right) = (e.less(left, x), e.less(x, right));
            let (in_rows, in_columns) =
                (e.both(below_top, above_bottom), e.both(after_left, before_right));
            let in_hole = e.both(in_rows, in_columns);
            inside = Some(inside.map_or(in_hole, |others| e.either(others, in_hole)));
        }
        let Some(inside) = inside else { return pixels };
        let filled = e.each(pixels, |e, c, _| e.splat(f32::from(self.fill[c % 3])));
        e.select_pixels(inside, filled, pixels)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::SampleKey;

    /// Returns the bounds of the holes of a sample: top, bottom, left, right.
    fn holes(op: &CoarseDropout, size: Size, sample: u64) -> Vec<[f32; 4]> {
        let mut params = vec![0.0; op.param_count()];
        op.draw(&mut SampleKey::new(0, 0, sample).op(0), size, &mut params);
        let holes = params.as_chunks::<4>().0.iter().filter(|hole| **hole != NONE);
        holes.map(|hole| hole.map(|bound| bound + 0.5)).collect()
    }

    #[test]
    fn holes_lie_inside_and_have_the_sizes_and_the_number_asked_for() {
        let op = CoarseDropout::new().num_holes_range(2..=4).unwrap();
        let shares = op.clone().hole_height_range(0.1..=0.5).unwrap();
        let pixels =
            op.hole_height_range(3.0..=7.0).unwrap().hole_width_range(2.0..=500.0).unwrap();
        let mut counts = [0; 5];
        for (height, width) in [(40, 60), (3, 100), (1, 1)] {
            for sample in 0..200 {
                for (op, [low, high]) in [(&shares, [0.1, 0.5]), (&pixels, [3.0, 7.0])] {
                    let size = Size::new(height, width);
                    let holes = holes(op, size, sample);
                    counts[holes.len()] += 1;
                    for [top, bottom, left, right] in holes {
                        assert!(0.0 <= top && bottom <= height as f32, "{top}..{bottom}");
                        assert!(0.0 <= left && right <= width as f32, "{left}..{right}");
                        let unit = if high < 1.0 { height as f32 } else { 1.0 };
                        let [low, high] =
                            [low, high].map(|side| (side * unit).floor().min(height as f32));
                        assert!((low..=high).contains(&(bottom - top)), "{top}..{bottom}");
                    }
                }
            }
        }
        assert_eq!(counts[..2], [0, 0]);
        assert!(counts[2..].iter().all(|count| *count > 300), "{counts:?}");
    }

    #[test]
    fn both_ends_of_a_hole_are_exact() {
        let op = CoarseDropout::new().num_holes_range(1..=1).unwrap().fill([1, 2, 3]);
        let params = [1.5, 3.5, 4.5, 6.5]; // rows 2 and 3, columns 5 and 6
        let mut found = vec![];
        for (y, x) in (0..8).flat_map(|y| (0..8).map(move |x| (y, x))) {
            let cx = Eval { rule: crate::NumberRule::Fused, params: &params, at: [y, x] };
            if crate::op::evaluated(&op, &cx, [9.0; 3]) == [1.0, 2.0, 3.0] {
                found.push((y, x));
            }
        }
        assert_eq!(found, [(2, 5), (2, 6), (3, 5), (3, 6)]);
    }
}
