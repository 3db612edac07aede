//! The inverse transforms of 4x4 blocks.
//!
//! ```text
//! pixel = clamp(prediction + (T c T' + 4) / 8)      T c: a column (c0, c1, c2, c3) becomes
//!     c0 + c2 + K c1 + S c3,  c0 - c2 + S c1 - K c3,  c0 - c2 - S c1 + K c3,  c0 + c2 - K c1 - S c3
//! ```
//!
//! with K = 1 + 20091 / 65536 and S = 35468 / 65536: sqrt 2 times the cosine and the sine of pi / 8. All values have 16 bits
//! and wrap around, which coefficients of an image never do.

/// The columns of a block.
type Column = [i16; 4];

/// Applies `f` to each pair of elements.
#[inline(always)]
fn both(a: Column, b: Column, f: impl Fn(i16, i16) -> i16) -> Column {
    std::array::from_fn(|i| f(a[i], b[i]))
}

/// Returns the upper 16 bits of the products with `factor`.
#[inline(always)]
fn times(a: Column, factor: i16) -> Column {
    a.map(|a| ((i32::from(a) * i32::from(factor)) >> 16) as i16)
}

/// Transforms columns: `rows[i]` has their element i.
#[inline(always)]
fn columns(rows: [Column; 4]) -> [Column; 4] {
    let [c0, c1, c2, c3] = rows;
    let (add, sub) = (i16::wrapping_add, i16::wrapping_sub);
    let cosine = |c| both(times(c, 20091), c, add);
    // 35468 is no i16: 65536 less, and the coefficient once more.
    let sine = |c| both(times(c, -30068), c, add);
    let (a, b) = (both(c0, c2, add), both(c0, c2, sub));
    let c = both(sine(c1), cosine(c3), sub);
    let d = both(cosine(c1), sine(c3), add);
    [both(a, d, add), both(b, c, add), both(b, c, sub), both(a, d, sub)]
}

#[inline(always)]
fn transposed(rows: [Column; 4]) -> [Column; 4] {
    std::array::from_fn(|x| std::array::from_fn(|y| rows[y][x]))
}

/// Adds the transform of a block's coefficients to 4 rows of 4 pixels, `stride` bytes apart.
///
/// # Panics
///
/// If `pixels` ends before the last of them.
#[inline(always)]
pub fn add_transform(coefficients: &[i16; 16], pixels: &mut [u8], stride: usize) {
    let rows = std::array::from_fn(|y| std::array::from_fn(|x| coefficients[4 * y + x]));
    let mut across = transposed(columns(rows));
    across[0] = across[0].map(|first| first.wrapping_add(4));
    let rows = transposed(columns(across));
    let pixels = &mut pixels[..3 * stride + 4];
    for (y, row) in rows.into_iter().enumerate() {
        let pixels: &mut [u8] = &mut pixels[y * stride..][..4];
        for (pixel, change) in pixels.iter_mut().zip(row) {
            *pixel = (i16::from(*pixel) + (change >> 3)).clamp(0, 255) as u8;
        }
    }
}

/// Adds the transform of a block of which only the first coefficient is not 0.
///
/// # Panics
///
/// In the same case as [`add_transform`].
#[inline(always)]
pub fn add_dc(first: i16, pixels: &mut [u8], stride: usize) {
    let change = first.wrapping_add(4) >> 3;
    let pixels = &mut pixels[..3 * stride + 4];
    for y in 0..4 {
        for pixel in &mut pixels[y * stride..][..4] {
            *pixel = (i16::from(*pixel) + change).clamp(0, 255) as u8;
        }
    }
}

/// Returns the first coefficients of the 16 blocks of luma, by the transform of their own coefficients (section 14.3).
#[inline(always)]
#[must_use]
pub fn walsh_hadamard(coefficients: &[i16; 16]) -> [i16; 16] {
    let four = |a: i32, b: i32, c: i32, d: i32| {
        let (outer, inner) = (a + d, b + c);
        let (outer_less, inner_less) = (a - d, b - c);
        [outer + inner, outer_less + inner_less, outer - inner, outer_less - inner_less]
    };
    let at = |y: usize, x: usize| i32::from(coefficients[4 * y + x]);
    let columns: [[i32; 4]; 4] =
        std::array::from_fn(|x| four(at(0, x), at(1, x), at(2, x), at(3, x)));
    let rows: [[i32; 4]; 4] = std::array::from_fn(|y| {
        let row = |x: usize| columns[x][y];
        four(row(0) + 3, row(1), row(2), row(3))
    });
    std::array::from_fn(|i| (rows[i / 4][i % 4] >> 3) as i16)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The formula in real numbers, with the factors of the standard.
    fn exact(coefficients: &[i16; 16]) -> [[f64; 4]; 4] {
        let (k, s) = (1.0 + 20091.0 / 65536.0, 35468.0 / 65536.0);
        let factors =
            [[1.0, k, 1.0, s], [1.0, s, -1.0, -k], [1.0, -s, -1.0, k], [1.0, -k, 1.0, -s]];
        let mut out = [[0.0; 4]; 4];
        for (y, row) in out.iter_mut().enumerate() {
            for (x, out) in row.iter_mut().enumerate() {
                for v in 0..4 {
                    for u in 0..4 {
                        let c = f64::from(coefficients[4 * v + u]);
                        *out += factors[y][v] * factors[x][u] * c / 8.0;
                    }
                }
            }
        }
        out
    }

    #[test]
    fn blocks_are_the_formulas() {
        let mut state = 1_u32;
        for _ in 0..2000 {
            let coefficients: [i16; 16] = std::array::from_fn(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as i16 - 128
            });
            let mut pixels = [128; 4 * 5];
            add_transform(&coefficients, &mut pixels, 5);
            for (y, row) in exact(&coefficients).iter().enumerate() {
                for (x, exact) in row.iter().enumerate() {
                    let (found, exact) =
                        (f64::from(pixels[5 * y + x]), (128.0 + exact).clamp(0.0, 255.0));
                    // Four products are rounded down before they are added, and again.
                    assert!((found - exact).abs() < 1.6, "{coefficients:?}: {found}, {exact}");
                }
            }
            assert!(pixels.iter().skip(4).step_by(5).all(|&pixel| pixel == 128));
            let (mut of_dc, mut whole) = ([200; 16], [200; 16]);
            let only_dc = std::array::from_fn(|i| if i == 0 { coefficients[0] } else { 0 });
            add_dc(coefficients[0], &mut of_dc, 4);
            add_transform(&only_dc, &mut whole, 4);
            assert_eq!(of_dc, whole);
        }
    }

    #[test]
    fn equal_blocks_have_one_coefficient_of_their_own() {
        let mut coefficients = [0; 16];
        coefficients[0] = 80;
        assert_eq!(walsh_hadamard(&coefficients), [10; 16]);
        coefficients[1] = 16;
        assert_eq!(walsh_hadamard(&coefficients)[..4], [12, 12, 8, 8]);
    }
}
