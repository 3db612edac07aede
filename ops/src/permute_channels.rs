//! Channel order: red, green and blue are permuted.

use crate::author::{Emit, Eval, PixelOp, Pixels, Rng, Type};
use crate::op::{Op, class, is_gray, on_colors, on_rgb};
use crate::{ParamError, Size, TypeError};

/// Puts the channels in another order: `[2, 1, 0]` converts RGB to BGR.
///
#[cfg_attr(doc, doc = include_str!("../pictures/PermuteChannels.md"))]
///
/// ```text
/// out[c] = in[permutation[c]]
/// ```
///
/// | | |
/// |--------|--------------|
/// | input  | image of levels     |
/// | output | as the input |
/// | random | nothing      |
/// | cost   | nothing      |
///
/// torchvision's functional `permute_channels`.
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![PermuteChannels::new([2, 1, 0])?]; // RGB to BGR
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq, Eq)]
#[op(COLOR, "puts the channels in another order")]
pub struct PermuteChannels {
    /// An op whose output channel `c` is input channel `permutation[c]`.
    #[param("which channel each becomes; the example makes BGR of RGB", example = [2, 1, 0], check = in_some_order,
        errors = "If `permutation` is not a permutation of 0, 1 and 2", draw = recipe::pick(rng, PERMUTATIONS))]
    permutation: [usize; 3],
}

const PERMUTATIONS: [[usize; 3]; 6] =
    [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];

/// Checks a permutation.
fn in_some_order(
    op: &'static str,
    param: &'static str,
    permutation: [usize; 3],
) -> Result<[usize; 3], ParamError> {
    if PERMUTATIONS.contains(&permutation) {
        return Ok(permutation);
    }
    Err(ParamError::new(op, param, format!("{permutation:?}"), "0, 1 and 2 in some order"))
}

#[class(Pixel)]
impl Op for PermuteChannels {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_rgb(self.name(), input)
    }

    fn does_nothing(&self, _: &Type) -> bool {
        self.permutation == [0, 1, 2]
    }
}

impl PixelOp for PermuteChannels {
    fn matrix(&self, _: &[f32]) -> Option<[[f32; 4]; 3]> {
        Some(self.permutation.map(unit_row))
    }

    fn eval(&self, _: &Eval<'_>, pixel: &mut [f32]) {
        let old: [f32; 3] = [pixel[0], pixel[1], pixel[2]];
        pixel.copy_from_slice(&self.permutation.map(|from| old[from]));
    }

    fn emit(&self, _: &mut Emit, pixels: Pixels) -> Pixels {
        let Some(old) = pixels.rgb() else { return pixels };
        Pixels::from(self.permutation.map(|from| old[from]))
    }
}

/// Puts the channels of a share `p` of the images in a random order.
///
#[cfg_attr(doc, doc = include_str!("../pictures/RandomChannelPermutation.md"))]
///
/// ```text
/// out[c] = in[permutation[c]]
/// ```
///
/// | | |
/// |--------|----------------------------------------------------|
/// | input  | image of levels                                           |
/// | output | as the input                                       |
/// | random | a coin `p`, then one of the six permutations       |
/// | cost   | three operations per value                         |
///
/// torchvision's `RandomChannelPermutation`, which has no `p`: it always runs. The op multiplies by a
/// matrix of zeros and ones, because compiled code can't select a channel per sample. The product is
/// exact.
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![RandomChannelPermutation::new().p(0.5)?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq)]
#[op(COLOR, "puts the channels of a share p of the images in a random order", new = "The op gives every image one of the six orders, RGB included.", aliases = ["ChannelShuffle"], golden = "a PermuteChannels, which has goldens, with a drawn order")]
pub struct RandomChannelPermutation {
    #[param(share, default = 1.0)]
    p: f64,
}

/// Albumentations' name for [`RandomChannelPermutation`].
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![ChannelShuffle::new().p(0.5)?];
/// # Ok::<(), fuseloop_ops::ParamError>(())
/// ```
pub type ChannelShuffle = RandomChannelPermutation;

impl RandomChannelPermutation {
    /// Builds the op as a step of another, with a share that was checked before.
    pub(crate) const fn with_share(p: f64) -> Self {
        Self { p }
    }
}

#[class(Pixel)]
impl Op for RandomChannelPermutation {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_colors(self.name(), input)
    }

    fn does_nothing(&self, input: &Type) -> bool {
        self.p == 0.0 || is_gray(input)
    }
}

/// Parameters: a 3x3 matrix, row by row; each row has the factors of red, green and blue.
impl PixelOp for RandomChannelPermutation {
    fn param_count(&self) -> usize {
        9
    }

    fn draw(&self, rng: &mut Rng, _: Size, params: &mut [f32]) -> bool {
        let runs = rng.coin(self.p);
        let order = rng.below(6) as usize;
        let permutation = PERMUTATIONS[if runs { order } else { 0 }];
        for (row, from) in params.chunks_exact_mut(3).zip(permutation) {
            row.copy_from_slice(&unit_row(from)[..3]);
        }
        true
    }

    fn matrix(&self, params: &[f32]) -> Option<[[f32; 4]; 3]> {
        Some(std::array::from_fn(|c| [params[3 * c], params[3 * c + 1], params[3 * c + 2], 0.0]))
    }

    fn eval(&self, cx: &Eval<'_>, pixel: &mut [f32]) {
        let [r, g, b] = *pixel else { return };
        for (v, row) in pixel.iter_mut().zip(cx.params.chunks_exact(3)) {
            *v = b.mul_add(row[2], g.mul_add(row[1], r * row[0]));
        }
    }

    fn emit(&self, e: &mut Emit, pixels: Pixels) -> Pixels {
        let Some([r, g, b]) = pixels.rgb() else { return pixels };
        e.each(pixels, |e, c, _| {
            let row = [3 * c, 3 * c + 1, 3 * c + 2].map(|param| e.param(param));
            let sum = e.mul(r, row[0]);
            let sum = e.fma(g, row[1], sum);
            e.fma(b, row[2], sum)
        })
    }
}

/// Returns the matrix row that selects channel `from`.
fn unit_row(from: usize) -> [f32; 4] {
    std::array::from_fn(|column| if column == from { 1.0 } else { 0.0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NumberRule;
    use crate::op::evaluated;
    use crate::rng::SampleKey;

    const PIXEL: [f32; 3] = [10.25, 200.0, 77.0];

    #[test]
    fn as_torchvision_permutes() {
        let op = PermuteChannels::new([2, 0, 1]).unwrap();
        let cx = Eval::new(NumberRule::Exact, &[]);
        assert_eq!(evaluated(&op, &cx, [10.0, 200.0, 77.0]), [77.0, 10.0, 200.0]);
        for bad in [[0, 0, 1], [1, 2, 3]] {
            assert!(PermuteChannels::new(bad).is_err());
        }
    }

    fn permuted(p: f64, sample: u64) -> [f32; 3] {
        let op = RandomChannelPermutation::new().p(p).unwrap();
        let mut params = [9.0; 9];
        op.draw(&mut SampleKey::new(0, 0, sample).op(0), Size::new(1, 1), &mut params);
        evaluated(&op, &Eval::new(NumberRule::Fused, &params), PIXEL)
    }

    #[test]
    fn all_six_orders_are_drawn() {
        let drawn: Vec<_> = (0..200).map(|sample| permuted(1.0, sample)).collect();
        for permutation in PERMUTATIONS {
            let want = permutation.map(|from| PIXEL[from]);
            assert!(drawn.contains(&want), "{permutation:?}");
        }
        assert!((0..200).all(|sample| permuted(0.0, sample) == PIXEL));
    }
}
