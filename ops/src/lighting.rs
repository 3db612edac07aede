//! Lighting: a random step along the principal components of ImageNet's colours.

use crate::author::{Emit, Eval, PixelOp, Pixels, Rng, Type};
use crate::emit::{apply_rule, clamp};
use crate::op::{Op, class, on_rgb};
use crate::{Size, TypeError};

/// The eigenvalues of the covariance of ImageNet's colours: 0.2175, 0.0188 and 0.0045 of 255.
const SPREAD: [f64; 3] = [55.46, 4.794, 1.148];

/// The eigenvectors, one per column; the rows are red, green and blue.
const DIRECTION: [[f64; 3]; 3] =
    [[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140], [-0.5836, -0.6948, 0.4203]];

/// Shifts the colours of every image by a random step along the principal components of ImageNet's
/// colours.
///
#[cfg_attr(doc, doc = include_str!("../pictures/Lighting.md"))]
///
/// ```text
/// out[c] = clamp(in[c] + sum over j of direction[c][j] * alpha[j] * spread[j])
/// ```
///
/// | | |
/// |--------|----------------------------------------------------------------------|
/// | input  | image of levels                                                             |
/// | output | as the input                                                         |
/// | random | three `alpha`, normal with mean 0 and standard deviation `alpha_std` |
/// | cost   | three operations per value                                           |
///
/// This is the "PCA colour augmentation" of AlexNet (Krizhevsky, Sutskever and Hinton, 2012, section
/// 4.1), with the constants of torch's `Lighting` and its successors, in units of 0..=255. The result
/// is truncated under the Exact rule.
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![Lighting::new(0.1)?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq)]
#[op(
    COLOR,
    "shifts the colours by a random step, as AlexNet did",
    golden = "one sum for each channel, with numbers from this crate's generator"
)]
pub struct Lighting {
    /// Builds the op with steps of standard deviation `alpha_std`. AlexNet uses 0.1.
    #[param("standard deviation of the step; the example is AlexNet's", 0.0..=1e6, example = 0.1,
        draw = recipe::number(rng, -0.1, 1.0).max(0.0))]
    alpha_std: f32,
}

#[class(Pixel)]
impl Op for Lighting {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_rgb(self.name(), input)
    }

    fn does_nothing(&self, _: &Type) -> bool {
        self.alpha_std == 0.0
    }
}

/// Drawn parameters: the numbers added to red, green and blue.
impl PixelOp for Lighting {
    fn param_count(&self) -> usize {
        3
    }

    fn param_names(&self) -> &'static [&'static str] {
        &["red", "green", "blue"]
    }

    fn draw(&self, rng: &mut Rng, _: Size, params: &mut [f32]) -> bool {
        let alpha = [0; 3].map(|_| f64::from(rng.normal() * self.alpha_std));
        params.copy_from_slice(&step(alpha));
        true
    }

    fn is_per_channel(&self) -> bool {
        true
    }

    fn matrix(&self, params: &[f32]) -> Option<[[f32; 4]; 3]> {
        let [r, g, b] = [params[0], params[1], params[2]];
        Some([[1.0, 0.0, 0.0, r], [0.0, 1.0, 0.0, g], [0.0, 0.0, 1.0, b]])
    }

    fn eval(&self, cx: &Eval<'_>, pixel: &mut [f32]) {
        for (v, step) in pixel.iter_mut().zip(cx.params) {
            *v = apply_rule(cx.rule, clamp(*v + step));
        }
    }

    fn emit(&self, e: &mut Emit, pixels: Pixels) -> Pixels {
        e.each(pixels, |e, c, v| {
            let step = e.param(c);
            let v = e.add(v, step);
            let v = e.clamp(v);
            e.apply_rule(v)
        })
    }
}

/// Returns the numbers that `alpha` adds to red, green and blue.
fn step(alpha: [f64; 3]) -> [f32; 3] {
    DIRECTION.map(|row| (0..3).map(|j| row[j] * alpha[j] * SPREAD[j]).sum::<f64>() as f32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NumberRule;
    use crate::op::evaluated;

    #[test]
    fn a_step_is_along_the_directions() {
        let want = [-0.5675 * 55.46 * 0.1, -0.5808 * 55.46 * 0.1, -0.5836 * 55.46 * 0.1];
        assert_eq!(step([0.1, 0.0, 0.0]), want.map(|v: f64| v as f32));
        let along_all = step([0.1, -0.2, 0.3]);
        assert!((along_all[0] - (-3.147_355 - 0.689_569 + 0.138_070)).abs() < 1e-4);
    }

    #[test]
    fn values_are_shifted_and_clamped() {
        let op = Lighting::new(0.1).unwrap();
        let eval =
            |rule| evaluated(&op, &Eval::new(rule, &[2.5, -20.0, 30.0]), [10.0, 10.0, 250.0]);
        assert_eq!(eval(NumberRule::Fused), [12.5, 0.0, 255.0]);
        assert_eq!(eval(NumberRule::Exact), [12.0, 0.0, 255.0]);
    }
}
