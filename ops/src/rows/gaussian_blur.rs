//! Gaussian blur.
//!
//! ```text
//! k[i] = f32(exp(-d²/(2σ²)) / Σ)     d = i - (n-1)/2 pixels, a kernel for each axis
//! out  = rint(Σ_i ky[i] * (Σ_j kx[j] * in[y + i - floor(m/2), x + j - floor(n/2)]))
//! ```
//!
//! All is computed in f32, and the image is reflected at its edges. torchvision's `gaussian_blur` uses one
//! two-dimensional kernel and another order of sums: values differ by at most 1, fewer than one in
//! 10000. torchvision refuses a kernel that reaches farther than the image; this filter repeats the
//! reflection. A sigma of 0 leaves an axis unchanged.
//!
//! | | |
//! |--------|--------------------------------------------------------------------------|
//! | input  | u8 `[H, W, C]`, C in 1..=4, rows any stride apart                        |
//! | output | as the input                                                             |
//! | random | nothing                                                                  |
//! | cost   | a value: a multiplication and an addition for each weight of both kernels |

use super::separable::Separable;

/// Returns the filter for a kernel of `[columns, rows]`; a side of 0 is treated as 1.
pub(super) fn separable(kernel: [u32; 2], sigma: [f32; 2]) -> Separable {
    let mut filter = Separable::default();
    fill(&mut filter, kernel, sigma);
    filter
}

/// Sets `filter` to the filter that [`separable`] returns.
pub(super) fn fill(filter: &mut Separable, kernel: [u32; 2], sigma: [f32; 2]) {
    let Separable { x, y, offset, scale } = filter;
    weights(x, kernel[0].max(1), sigma[0]);
    weights(y, kernel[1].max(1), sigma[1]);
    (*offset, *scale) = (0.0, 1.0);
}

/// Sets the weights of a kernel of `count` pixels.
pub(super) fn weights(weights: &mut Vec<f32>, count: u32, sigma: f32) {
    let weight = |i: u32| {
        let distance = f64::from(i) - f64::from(count - 1) / 2.0;
        // The weight of the middle is 1 for any sigma; without this case, 0/0 would be NaN.
        let steps = if distance == 0.0 { 0.0 } else { distance / f64::from(sigma) };
        libm::exp(-0.5 * steps * steps)
    };
    let sum: f64 = (0..count).map(weight).sum();
    weights.clear();
    weights.extend((0..count).map(|i| (weight(i) / sum) as f32));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Size;
    use crate::shape::ImageView;

    #[test]
    fn three_weights_are_torchvisions() {
        assert_eq!(separable([3, 3], [1.0; 2]).x, [0.274_068_62, 0.451_862_75, 0.274_068_62]);
    }

    #[test]
    fn nine_pixels_are_blurred_as_torchvision_does() {
        let pixels = [1, 2, 3, 4, 100, 6, 7, 8, 9].map(|v| [v; 3]);
        let picture = ImageView::packed(pixels.as_flattened(), Size::new(3, 3)).unwrap();
        let expected = [32, 27, 33, 28, 24, 29, 34, 30, 35].map(|v| [v; 3]);
        assert_eq!(separable([3, 3], [1.0; 2]).eval(&picture), expected.as_flattened());
    }

    #[test]
    fn no_sigma_is_no_blur() {
        assert_eq!(separable([5, 1], [0.0, 0.0]).x, [0.0, 0.0, 1.0, 0.0, 0.0]);
    }
}
