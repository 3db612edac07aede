//! MixUp: each sample becomes a weighted sum of itself and another one of its batch, and so does
//! its label (Zhang et al., arXiv:1710.09412).
//!
//! ```text
//! s ~ Beta(alpha, alpha)
//! float image:  out = f32(partner * f32(1 - s)) + f32(own * f32(s))
//! u8 image:     out = trunc(s * own + (1 - s) * partner)        in double precision
//! label floats: as a float image, but equal values stay as they are
//! label class:  out = [own, class of the partner, s]            as FFCV's LabelMixup
//! ```
//!
//! | | |
//! |--------|---------------------------------------------------------------------------|
//! | input  | an image of u8, f16, bf16, f32 or f64 in any layout; floats; one i64      |
//! | output | as the input; f32 `[3]` of one i64                                        |
//! | random | see [`Partner`]: a coin and a share for the batch, or for each sample     |
//! | where  | last in its list: a finished batch is mixed in place                      |
//! | cost   | two rows read and one written for each sample                             |
//!
//! 16-bit floats are mixed in f32 and rounded once. A sample that is its own partner stays as it
//! is. Floats are torchvision's `MixUp`, bytes FFCV's `ImageMixup`. The draws depend on the seed,
//! the epoch and the batch alone, so the same op in the label's list mixes in the same shares.

use crate::mixing::{Mixing, label_output, weights};
use crate::{
    BatchOp, Class, DType, ImageType, Mixed, Op, ParamError, Partner, Rng, Size, Type, TypeError,
};

/// Mixes each sample with another one of its batch, in shares drawn from Beta(alpha, alpha).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MixUp {
    mixing: Mixing,
}

/// FFCV's name for [`MixUp`] on an image; its `same_lambda=False` is [`MixUp::per_sample`].
pub type ImageMixup = MixUp;

/// FFCV's name for [`MixUp`] on a label; its `same_lambda=False` is [`MixUp::per_sample`].
pub type LabelMixup = MixUp;

impl MixUp {
    /// One share for a batch, the sample before as partner.
    ///
    /// # Errors
    ///
    /// If `alpha` is not above 0 and finite.
    pub fn new(alpha: f64) -> Result<Self, ParamError> {
        Ok(Self { mixing: Mixing::new("MixUp", alpha)? })
    }

    /// A share (and a coin) for each sample.
    #[must_use]
    pub fn per_sample(self) -> Self {
        Self { mixing: self.mixing.per_sample() }
    }

    /// Who is mixed with whom.
    #[must_use]
    pub fn partner(self, partner: Partner) -> Self {
        Self { mixing: self.mixing.partner(partner) }
    }

    /// Mixes a share `p` of the batches, or of the samples.
    ///
    /// # Errors
    ///
    /// If `p` is not in `0.0..=1.0`.
    pub fn probability(self, p: f64) -> Result<Self, ParamError> {
        Ok(Self { mixing: self.mixing.probability("MixUp", p)? })
    }

    /// The meaning: one value of an f32, f16 or bf16 image.
    #[must_use]
    pub fn eval(own: f32, partner: f32, share: f64) -> f32 {
        let [of_own, of_partner] = weights(share);
        partner * of_partner + own * of_own
    }

    /// The meaning: one value of an f64 image.
    #[must_use]
    pub fn eval_f64(own: f64, partner: f64, share: f64) -> f64 {
        partner * (1.0 - share) + own * share
    }

    /// The meaning: one value of a u8 image.
    #[must_use]
    pub fn eval_u8(own: u8, partner: u8, share: f64) -> u8 {
        (share * f64::from(own) + (1.0 - share) * f64::from(partner)) as u8
    }
}

impl Op for MixUp {
    fn name(&self) -> &'static str {
        "MixUp"
    }

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

    fn class(&self) -> Class<'_> {
        Class::Batch(self)
    }
}

impl BatchOp for MixUp {
    fn draw(&self, rng: &mut Rng, rows: usize, _size: Size) -> Vec<Mixed> {
        self.mixing.draw(rng, rows, |_, share| (share, None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BatchKey;

    #[test]
    fn floats_are_mixed_as_torchvision_mixes_them() {
        // The values 10, 20, 40 with the one before each: share 0.25 of its own.
        let mixed =
            [(10.0, 40.0), (20.0, 10.0), (40.0, 20.0)].map(|(a, b)| MixUp::eval(a, b, 0.25));
        assert_eq!(mixed, [32.5, 12.5, 25.0]);
        assert_eq!(MixUp::eval_f64(10.0, 40.0, 0.25), 32.5);
    }

    #[test]
    fn bytes_are_truncated_as_ffcv_truncates_them() {
        assert_eq!(MixUp::eval_u8(10, 41, 0.25), 33); // 33.25
        assert_eq!(MixUp::eval_u8(255, 254, 0.999), 254); // 254.999
        assert_eq!(MixUp::eval_u8(7, 200, 1.0), 7);
        assert_eq!(MixUp::eval_u8(7, 200, 0.0), 200);
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
    fn an_alpha_that_is_not_above_0_is_refused() {
        for alpha in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let error = MixUp::new(alpha).unwrap_err().to_string();
            assert!(error.starts_with("MixUp: alpha is "), "{error}");
        }
        assert!(MixUp::new(1.0).unwrap().probability(1.1).is_err());
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
            "MixUp takes an image, floats, or one i64 a sample, but gets a i64 tensor [4]"
        );
    }
}
