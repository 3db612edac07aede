//! MixUp: each sample becomes a weighted sum of itself and another sample of the batch, and so does its label.

use crate::author::{BatchOp, Rng, RowMix, Type};
use crate::mixing::Partner;
use crate::mixing::{Mixing, label_output, weights};
use crate::op::{ImageType, Op, class};
use crate::{DType, Size, TypeError};

/// Makes each sample, and its label, a weighted sum of itself and another sample of the batch.
///
#[cfg_attr(doc, doc = include_str!("../pictures/MixUp.md"))]
///
/// Zhang et al., arXiv:1710.09412.
///
/// ```text
/// s ~ Beta(alpha, alpha)
/// float image:  out = f32(partner * f32(1 - s)) + f32(own * f32(s))
/// u8 image:     out = trunc(s * own + (1 - s) * partner)        in double precision
/// label floats: as a float image, but equal values stay unchanged
/// label class:  out = [own, class of the partner, s]            as FFCV's LabelMixup
/// ```
///
/// | | |
/// |--------|-----------------------------------------------------------------------|
/// | input  | an image of u8, f16, bf16, f32 or f64 in any layout; floats; one i64  |
/// | output | as the input; f32 `[3]` of one i64                                    |
/// | random | see [`Partner`]: a coin and a share for the batch, or for each sample |
/// | where  | last in its list: it mixes a finished batch in place                  |
/// | cost   | per sample two rows are read and one is written                       |
///
/// 16-bit floats are mixed in f32 and rounded once. A sample that is its own partner stays unchanged.
/// Float images follow torchvision's `MixUp`, u8 images FFCV's `ImageMixup`. The draws depend only on
/// the seed, the epoch and the batch, so the same op in the label's list mixes with the same shares. Without an
/// image, features are mixed: an array or a float of a sample, with the same op in the label's list.
///
/// An image with bounding boxes and other targets gets the objects of its partner after its own, each with its full
/// weight, as in YOLO's training: `MixUp::new(32.0)?.per_sample().p(0.1)?`. A mask of the whole image can't be mixed.
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![Normalize::imagenet(), ToChannelsFirst, MixUp::new(0.2)?];
/// let labels = ops![OneHot::new(1000)?, MixUp::new(0.2)?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq)]
#[op(MIXING, "mixes each sample with another one of its batch, and their labels alike", aliases = ["ImageMixup", "LabelMixup"], recipes = "it mixes a whole batch: tests/compiler/mix.rs")]
pub struct MixUp {
    /// Builds the op with one share per batch; the partner of a sample is the sample before it.
    #[param("shares are drawn from Beta(alpha, alpha)", new, positive, default = 1.0)]
    alpha: f64,
    /// Sets which sample each sample is mixed with. Default [`Partner::Previous`].
    #[param("who is mixed with whom: the sample before, or one by a random permutation", default = Partner::Previous)]
    partner: Partner,
    /// Draws a share (and a coin) for each sample.
    #[param(
        "draws for each sample in place of the batch: FFCV's same_lambda = false",
        flag,
        default = false
    )]
    per_sample: bool,
    /// Sets the share of the batches, or of the samples, that are mixed.
    #[param("share of the batches, or of the samples", share, default = 1.0)]
    p: f64,
}

/// FFCV's name for [`MixUp`] on an image; its `same_lambda=False` is [`MixUp::per_sample`].
///
/// ```
/// # use fuseloop_ops::*;
/// // FFCV's names: the same op for images and labels.
/// let (images, labels) = (ImageMixup::new(0.2)?, LabelMixup::new(0.2)?);
/// assert_eq!(images, labels);
/// # Ok::<(), fuseloop_ops::ParamError>(())
/// ```
pub type ImageMixup = MixUp;

/// FFCV's name for [`MixUp`] on a label; its `same_lambda=False` is [`MixUp::per_sample`].
///
/// ```
/// # use fuseloop_ops::*;
/// let label = ops![OneHot::new(10)?, LabelMixup::new(0.2)?];
/// # Ok::<(), fuseloop_ops::ParamError>(())
/// ```
pub type LabelMixup = MixUp;

/// Computes one value of an f32, f16 or bf16 image. This is the reference implementation.
#[must_use]
pub fn eval(own: f32, partner: f32, share: f64) -> f32 {
    let [of_own, of_partner] = weights(share);
    partner * of_partner + own * of_own
}

/// Computes one value of an f64 image. This is the reference implementation.
#[must_use]
pub fn eval_f64(own: f64, partner: f64, share: f64) -> f64 {
    partner * (1.0 - share) + own * share
}

/// Computes one value of a u8 image. This is the reference implementation.
#[must_use]
pub fn eval_u8(own: u8, partner: u8, share: f64) -> u8 {
    (share * f64::from(own) + (1.0 - share) * f64::from(partner)) as u8
}

impl MixUp {
    fn mixing(&self) -> Mixing {
        let Self { alpha, partner, per_sample, p } = *self;
        Mixing { alpha, partner, per_sample, p }
    }
}

#[class(Batch)]
impl Op for MixUp {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        match input {
            Type::Image(ImageType {
                dtype: DType::U8 | DType::F16 | DType::Bf16 | DType::F32 | DType::F64,
                ..
            }) => Ok(input.clone()),
            Type::Image(_) => Err(TypeError {
                op: self.name(),
                expected: "an image of u8 or floats",
                found: input.to_string(),
            }),
            Type::Tensor { .. } => label_output(self.name(), input),
        }
    }
}

impl BatchOp for MixUp {
    fn draw(&self, rng: &mut Rng, rows: usize, _size: Size) -> Vec<RowMix> {
        self.mixing().draw(rng, rows, |_, share| (share, None))
    }

    fn joins_objects(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::BatchKey;

    #[test]
    fn floats_are_mixed_as_torchvision_mixes_them() {
        // The values are 10, 20 and 40, each mixed with the one before it; its own share is 0.25.
        let mixed = [(10.0, 40.0), (20.0, 10.0), (40.0, 20.0)].map(|(a, b)| eval(a, b, 0.25));
        assert_eq!(mixed, [32.5, 12.5, 25.0]);
        assert_eq!(eval_f64(10.0, 40.0, 0.25), 32.5);
    }

    #[test]
    fn bytes_are_truncated_as_ffcv_truncates_them() {
        assert_eq!(eval_u8(10, 41, 0.25), 33); // 33.25
        assert_eq!(eval_u8(255, 254, 0.999), 254); // 254.999
        assert_eq!(eval_u8(7, 200, 1.0), 7);
        assert_eq!(eval_u8(7, 200, 0.0), 200);
    }

    #[test]
    fn two_ops_of_equal_parameters_draw_the_same() {
        let draw = || {
            let mut rng = BatchKey::new(3, 1, 4).op("MixUp", 0);
            MixUp::new(0.2).unwrap().per_sample().draw(&mut rng, 9, Size::default())
        };
        assert_eq!(draw(), draw());
    }

    #[test]
    fn a_class_becomes_two_classes_and_a_share() {
        let label = Type::Tensor { dtype: DType::I64, shape: vec![1] };
        let mixed = MixUp::new(1.0).unwrap().output(&label).unwrap();
        assert_eq!(mixed, Type::Tensor { dtype: DType::F32, shape: vec![3] });
        let classes = Type::Tensor { dtype: DType::I64, shape: vec![4] };
        let error = MixUp::new(1.0).unwrap().output(&classes).unwrap_err().to_string();
        assert_eq!(
            error,
            "MixUp takes an image, floats (put Convert before it), or one i64 per sample, but gets a i64 tensor [4]"
        );
    }
}
