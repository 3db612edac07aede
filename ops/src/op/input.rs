//! The inputs that ops take, and the errors for others.

use super::{ImageType, Type};
use crate::{DType, TypeError};

/// Returns the type of an image of levels, which is a u8 image or another one of 0..=255, and an error for any
/// other input.
pub(crate) fn on_levels(op: &'static str, input: &Type) -> Result<Type, TypeError> {
    match input {
        Type::Image(image) if image.is_levels && is_loaded(image.dtype) => Ok(input.clone()),
        found => Err(TypeError {
            op,
            expected: "an image of levels, where 0 is black and 255 is white (put it before Normalize and \
                Convert; for other values, put Levels::of(black, white) before it)",
            found: found.to_string(),
        }),
    }
}

/// Returns whether compiled loops read elements of this type: those whose values are all `f32`.
#[must_use]
pub const fn is_loaded(dtype: DType) -> bool {
    matches!(dtype, DType::U8 | DType::U16 | DType::I16 | DType::F16 | DType::Bf16 | DType::F32)
}

/// Returns the type of an image that compiled loops compute with after `change`, and an error for any other
/// input.
pub(crate) fn on_numbers(
    op: &'static str,
    input: &Type,
    change: impl FnOnce(ImageType) -> ImageType,
) -> Result<Type, TypeError> {
    match input {
        Type::Image(image) if is_loaded(image.dtype) => Ok(Type::Image(change(*image))),
        found => Err(TypeError {
            op,
            expected: "an image of u8, u16, i16, f16, bf16 or f32 (put it before Convert)",
            found: found.to_string(),
        }),
    }
}

/// Returns the type of a u8 image after `change`, and an error for any other input.
pub(crate) fn on_u8_image(
    op: &'static str,
    input: &Type,
    change: impl FnOnce(ImageType) -> ImageType,
) -> Result<Type, TypeError> {
    match input {
        Type::Image(image) if image.dtype == DType::U8 => Ok(Type::Image(change(*image))),
        found => Err(TypeError {
            op,
            expected: "a u8 image (put it before Normalize and Convert)",
            found: found.to_string(),
        }),
    }
}

/// Refuses an image that is not RGB, if an op fills with a colour whose three numbers differ.
pub(crate) fn check_fill(
    op: &'static str,
    input: &Type,
    fill: Option<[u8; 3]>,
) -> Result<(), TypeError> {
    match (input, fill) {
        (Type::Image(image), Some([r, g, b])) if image.channels != 3 && (r != g || g != b) => {
            let expected = "an image of 3 channels, or one number as its fill";
            Err(TypeError { op, expected, found: input.to_string() })
        }
        _ => Ok(()),
    }
}

/// Returns the type of an image of levels whose colours an op changes, and an error for any other input. An image of
/// one channel has no colours, and stays as it is.
pub(crate) fn on_colors(op: &'static str, input: &Type) -> Result<Type, TypeError> {
    match on_levels(op, input)? {
        Type::Image(ImageType { channels: 1 | 3, .. }) => Ok(input.clone()),
        found => Err(TypeError {
            op,
            expected: "an image of 3 channels, or of 1",
            found: found.to_string(),
        }),
    }
}

/// Returns true for an image without colours: one of one channel.
pub(crate) fn is_gray(input: &Type) -> bool {
    matches!(input, Type::Image(ImageType { channels: 1, .. }))
}

/// Returns the type of an RGB image of levels, and an error for any other input.
pub(crate) fn on_rgb(op: &'static str, input: &Type) -> Result<Type, TypeError> {
    match on_levels(op, input)? {
        Type::Image(ImageType { channels: 3, .. }) => Ok(input.clone()),
        found => {
            Err(TypeError { op, expected: "an image of 3 channels", found: found.to_string() })
        }
    }
}

/// Returns whether the values of an image are those of an integer type, so that results may have to be rounded.
pub(crate) fn is_whole(input: &Type) -> bool {
    matches!(input, Type::Image(image) if image.dtype.integer_range().is_some())
}

/// Returns the type of an image of any element type after `change`, and an error for a tensor.
pub(crate) fn on_image(
    op: &'static str,
    input: &Type,
    change: impl FnOnce(ImageType) -> ImageType,
) -> Result<Type, TypeError> {
    match input {
        Type::Image(image) => Ok(Type::Image(change(*image))),
        found @ Type::Tensor { .. } => {
            Err(TypeError { op, expected: "an image", found: found.to_string() })
        }
    }
}

/// Returns an error unless the input is one i64 per sample.
pub(crate) fn on_one_label(op: &'static str, input: &Type) -> Result<(), TypeError> {
    match input {
        Type::Tensor { dtype: DType::I64, shape } if shape.iter().product::<usize>() == 1 => Ok(()),
        found => Err(TypeError { op, expected: "one i64 per sample", found: found.to_string() }),
    }
}
