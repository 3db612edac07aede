//! Colour matrix: each channel becomes a weighted sum of the three channels and a constant.

use crate::author::{Emit, Eval, PixelOp, Pixels, Rng, Type};
use crate::default_floats::nearest_f32;
use crate::emit::{apply_rule, clamp};
use crate::op::{Op, class, on_rgb};
use crate::registry::recipe;
use crate::{ParamError, Size, TypeError};

/// Multiplies every pixel by a matrix: each channel becomes a weighted sum of the three channels
/// and a constant.
///
#[cfg_attr(doc, doc = include_str!("../pictures/ColorMatrix.md"))]
///
/// ```text
/// out[c] = clamp(m[c][0] R + m[c][1] G + m[c][2] B + m[c][3])
/// ```
///
/// | | |
/// |--------|---------------------------|
/// | input  | image of levels                  |
/// | output | as the input              |
/// | random | nothing                   |
/// | cost   | five operations per value |
///
/// The sum is computed in `f32`, from the constant and blue to red, each step an fma. The result is
/// truncated under the Exact rule.
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![ColorMatrix::new([
///     [0.393, 0.769, 0.189, 0.0], // sepia
///     [0.349, 0.686, 0.168, 0.0],
///     [0.272, 0.534, 0.131, 0.0],
/// ])?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq)]
#[op(COLOR, "multiplies every pixel by a matrix", golden = "the user's own numbers")]
pub struct ColorMatrix {
    /// Builds the op from one row for each of red, green and blue: the factors of red, green and blue,
    /// and a constant in units of 0..=255.
    #[param("for red, then green, then blue: its shares of red, green and blue, and a constant",
        example = [0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 0], given = [[f64; 4]; 3], check = rows_within_1e6,
        errors = "If a number is not in `-1e6..=1e6`", draw = random(rng))]
    rows: [[f32; 4]; 3],
}

/// Checks the numbers of a matrix.
fn rows_within_1e6(
    op: &'static str,
    param: &'static str,
    rows: [[f64; 4]; 3],
) -> Result<[[f32; 4]; 3], ParamError> {
    match rows.as_flattened().iter().find(|v| !(-1e6..=1e6).contains(*v)) {
        Some(bad) => Err(ParamError::new(op, param, bad, "numbers in -1e6..=1e6")),
        None => Ok(rows.map(|row| row.map(nearest_f32))),
    }
}

/// Draws a matrix.
fn random(rng: &mut Rng) -> [[f64; 4]; 3] {
    [0; 3].map(|_| {
        let [r, g, b] = [0; 3].map(|_| recipe::number(rng, -1.0, 1.5));
        [r, g, b, recipe::number(rng, -80.0, 80.0)]
    })
}

#[class(Pixel)]
impl Op for ColorMatrix {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_rgb(self.name(), input)
    }
}

/// Drawn parameters: the matrix, row by row. Since its numbers are not constants of the code, all
/// matrices share one compiled loop.
impl PixelOp for ColorMatrix {
    fn param_count(&self) -> usize {
        12
    }

    fn draw(&self, _: &mut Rng, _: Size, params: &mut [f32]) -> bool {
        params.copy_from_slice(self.rows.as_flattened());
        true
    }

    fn matrix(&self, _: &[f32]) -> Option<[[f32; 4]; 3]> {
        Some(self.rows)
    }

    fn eval(&self, cx: &Eval<'_>, pixel: &mut [f32]) {
        let [r, g, b] = *pixel else { return };
        for (v, row) in pixel.iter_mut().zip(cx.params.chunks_exact(4)) {
            let sum = r.mul_add(row[0], g.mul_add(row[1], b.mul_add(row[2], row[3])));
            *v = apply_rule(cx.rule, clamp(sum));
        }
    }

    fn emit(&self, e: &mut Emit, pixels: Pixels) -> Pixels {
        let Some([r, g, b]) = pixels.rgb() else { return pixels };
        e.each(pixels, |e, c, _| {
            let row = [0, 1, 2, 3].map(|column| e.param(4 * c + column));
            let sum = e.fma(b, row[2], row[3]);
            let sum = e.fma(g, row[1], sum);
            let sum = e.fma(r, row[0], sum);
            let sum = e.clamp(sum);
            e.apply_rule(sum)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NumberRule;
    use crate::op::evaluated;
    use crate::rng::SampleKey;

    #[test]
    fn rows_are_sums_and_are_clamped() {
        let rows = [[0.5, 0.25, 0.0, 1.0], [0.0, 0.0, 4.0, 0.0], [0.0, -1.0, 0.0, 50.0]];
        let op = ColorMatrix::new(rows).unwrap();
        let mut params = [0.0; 12];
        op.draw(&mut SampleKey::new(0, 0, 0).op(0), Size::new(1, 1), &mut params);
        let eval = |rule| evaluated(&op, &Eval::new(rule, &params), [11.0, 100.0, 70.0]);
        assert_eq!(eval(NumberRule::Fused), [31.5, 255.0, 0.0]);
        assert_eq!(eval(NumberRule::Exact), [31.0, 255.0, 0.0]);
    }

    #[test]
    fn bad_numbers_are_refused() {
        for bad in [f64::NAN, f64::INFINITY, 1e7] {
            let mut rows = [[0.0; 4]; 3];
            rows[1][3] = bad;
            assert!(ColorMatrix::new(rows).is_err(), "{bad}");
        }
    }
}
