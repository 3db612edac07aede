//! Convert: changes the type of the elements.

use crate::author::Type;
use crate::op::{ImageType, Op, class, is_loaded};
use crate::shape::DTYPES;
use crate::{DType, TypeError};

/// Changes the type of the elements.
///
#[cfg_attr(doc, doc = include_str!("../pictures/Convert.md"))]
///
/// | from              | to                     | each value                                       |
/// |-------------------|------------------------|--------------------------------------------------|
/// | image u8, f32     | f16, bf16, f32, f64    | to the nearest, ties to even                     |
/// | image u8, f32     | u8, u16, i16, i32, i64 | the same, clamped to the type's range            |
/// | label of any type | any                    | to the nearest, ties to even; clamped to the range of an integer type |
///
/// Colour ops may have left fractions in a u8 image ([`NumberRule::Fused`](crate::NumberRule)): a
/// conversion to a float type keeps them, a conversion to an integer type rounds them. torchvision's
/// `ToDtype` and NumPy's `astype` truncate fractions and wrap around instead; for integers in range all
/// three agree.
///
/// Values are not scaled: 255 stays 255, as with FFCV's `Convert`. (torchvision's `ConvertImageDtype`
/// divides by 255; use [`Normalize`](crate::Normalize) for that.)
///
/// ```text
/// out = to(in)
/// ```
///
/// | | |
/// |--------|----------------------------|
/// | input  | image or label             |
/// | output | the same of the other type |
/// | random | nothing                    |
/// | cost   | part of the final store    |
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![Normalize::imagenet(), Convert::to(DType::F16)];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq, Eq)]
#[op(VALUES, "changes the type of the elements, of images and labels; values are not scaled", constructor = to)]
pub struct Convert {
    #[param("the type", example = "f16", draw = recipe::pick(rng, DTYPES))]
    to: DType,
}

impl Convert {
    /// Builds the op with the element type `to`. An image can be converted only once to a type other
    /// than u8 and f32; this is checked when the pipeline is built.
    #[must_use]
    pub const fn to(to: DType) -> Self {
        Self { to }
    }
}

#[class(Cast(self.to))]
impl Op for Convert {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        match input {
            Type::Image(image) if self.takes_image_of(image.dtype) => {
                let is_levels = image.is_levels || self.to == DType::U8;
                Ok(Type::Image(ImageType { dtype: self.to, is_levels, ..*image }))
            }
            image @ Type::Image(_) => Err(TypeError {
                op: self.name(),
                expected: "an image of u8, u16, i16, f16, bf16 or f32 (convert it directly to the final type)",
                found: image.to_string(),
            }),
            Type::Tensor { shape, .. } => Ok(Type::Tensor { dtype: self.to, shape: shape.clone() }),
        }
    }
}

impl Convert {
    /// Returns whether the op accepts images of `from`. The compiled loop computes in f32, which does not hold
    /// all values of i32, i64 and f64.
    fn takes_image_of(self, from: DType) -> bool {
        from == self.to || is_loaded(from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::Dim;

    #[test]
    fn an_image_becomes_any_type_and_goes_on_if_loops_read_it() {
        let decoded = Type::Image(ImageType::decoded(Dim::fixed(2), Dim::fixed(3)));
        for to in DTYPES {
            let converted = Convert::to(to).output(&decoded).unwrap();
            assert!(Convert::to(to).output(&converted).is_ok(), "{to} to itself");
            let again = Convert::to(DType::F16).output(&converted);
            let goes_on = !matches!(to, DType::I32 | DType::I64 | DType::F64);
            assert_eq!(again.is_ok(), goes_on, "{to} to f16");
        }
    }

    #[test]
    fn a_label_becomes_any_type_from_any() {
        for from in DTYPES {
            for to in DTYPES {
                let tensor = |dtype| Type::Tensor { dtype, shape: vec![2] };
                assert_eq!(Convert::to(to).output(&tensor(from)), Ok(tensor(to)));
            }
        }
    }
}
