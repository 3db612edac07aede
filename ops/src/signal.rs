//! Signals: values around 0, such as those of audio, with no black and white.

use crate::author::{ImageType, Op, Type};
use crate::op::on_image;
use crate::registry::{BuiltOp, built};
use crate::{DType, ParamError, RandomChoice, ScaleIntensityRange, TypeError, ops};

/// Returns the type of an image whose values are those of a signal, and an error for any other input: in unsigned
/// types silence is not 0, and i32, i64 and f64 have more digits than the arithmetic of ops.
pub(crate) fn on_signal(op: &'static str, input: &Type) -> Result<Type, TypeError> {
    match input {
        Type::Image(image) => match image.dtype {
            DType::I16 | DType::F16 | DType::Bf16 | DType::F32 => {
                on_image(op, input, |image| ImageType { is_levels: false, ..image })
            }
            DType::U8 | DType::U16 => Err(TypeError {
                op,
                expected: "an image of i16, f16, bf16 or f32, in which 0 is silence: in unsigned values it is not \
                    (put it after Normalize or ScaleIntensityRange)",
                found: input.to_string(),
            }),
            DType::I32 | DType::I64 | DType::F64 => Err(TypeError {
                op,
                expected: "an image of i16, f16, bf16 or f32 (put it before Convert)",
                found: input.to_string(),
            }),
        },
        Type::Tensor { .. } => on_image(op, input, |image| image),
    }
}

/// Returns an op on signals for a random list in which the image is of type `before`: after an op that makes a signal,
/// if the image is none.
pub(crate) fn on_any(op: impl Op + 'static, before: &ImageType) -> Result<BuiltOp, ParamError> {
    if before.dtype != DType::U8 {
        return Ok(built(op));
    }
    let scale = ScaleIntensityRange::new(0.0..=255.0, -1.0..=1.0)?;
    Ok(built(RandomChoice::new(vec![ops![scale, op]])?))
}

/// Inputs for the tests of ops on signals.
#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::Size;

    pub(crate) fn image(dtype: DType) -> Type {
        Type::Image(ImageType::array(Size::new(1, 9), 3, dtype))
    }

    #[test]
    fn unsigned_values_are_refused_with_the_reason() {
        for dtype in [DType::I16, DType::F16, DType::Bf16, DType::F32] {
            assert_eq!(on_signal("Gain", &image(dtype)), Ok(image(dtype)));
        }
        for (dtype, reason) in
            [(DType::U8, "silence"), (DType::U16, "silence"), (DType::F64, "before Convert")]
        {
            let error = on_signal("Gain", &image(dtype)).unwrap_err().to_string();
            assert!(error.contains(reason) && error.starts_with("Gain takes "), "{error}");
        }
    }
}
