//! Convert: change the type of the elements.
//!
//! | from            | to       | each value                                              |
//! |-----------------|----------|---------------------------------------------------------|
//! | image u8        | f16, bf16, f32 | as it is (fractions left by colour ops are kept), nearest even |
//! | image f32       | f16, bf16 | to the nearest, ties to even                           |
//! | image f32       | u8       | clamped to 0..=255, to the nearest, ties to even        |
//! | label i64       | f16, bf16, f32, f64 | to the nearest                               |
//! | label f64       | f16, bf16, f32      | to the nearest                               |
//! | label f32       | f16, bf16           | to the nearest                               |
//!
//! Values are not scaled: 255 stays 255, as with FFCV's `Convert` (torchvision's
//! `ConvertImageDtype` divides by 255; put that into [`Normalize`](crate::Normalize)).
//!
//! | | |
//! |--------|----------------------------|
//! | random | nothing                    |
//! | cost   | part of the final store    |

use crate::{Class, DType, ImageType, Op, Type, TypeError};

/// Changes the type of the elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Convert {
    to: DType,
}

impl Convert {
    /// To elements of type `to`. Which types an image or a label may become is checked when the
    /// pipeline is built.
    #[must_use]
    pub const fn to(to: DType) -> Self {
        Self { to }
    }
}

impl Op for Convert {
    fn name(&self) -> &'static str {
        "Convert"
    }

    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        use DType::{Bf16, F16, F32, F64, I64, U8};
        let refused = |expected| TypeError { op: "Convert", expected, found: input.to_string() };
        match input {
            Type::Image(image) => match (image.dtype, self.to) {
                (U8 | F32, U8 | F16 | Bf16 | F32) => {
                    Ok(Type::Image(ImageType { dtype: self.to, ..*image }))
                }
                (from, to) if from == to => Ok(input.clone()),
                (F16 | Bf16, _) => Err(refused("an image that was not rounded to 16 bits before")),
                (_, I64) => Err(refused("a label to make i64 of; an image becomes u8 or a float")),
                _ => Err(refused("a label to make f64 of; an image becomes f32 at most")),
            },
            Type::Tensor { dtype, shape } => match (dtype, self.to) {
                (from, to) if *from == to => Ok(input.clone()),
                (I64, F16 | Bf16 | F32 | F64) | (F64, F16 | Bf16 | F32) | (F32, F16 | Bf16) => {
                    Ok(Type::Tensor { dtype: self.to, shape: shape.clone() })
                }
                (_, U8 | I64) => Err(refused("an image to make u8 of; a label becomes a float")),
                _ => Err(refused("a label of i64, or a wider float to make this one of")),
            },
        }
    }

    fn class(&self) -> Class<'_> {
        Class::Cast(self.to)
    }
}
