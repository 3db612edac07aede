//! The value that an op writes in place of others.

use crate::author::Type;
use crate::shape::DType;
use crate::{ParamError, TypeError};

/// A finite value, in the units of the values that it replaces.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct FillValue(f32);

impl FillValue {
    pub(crate) const ZERO: Self = Self(0.0);

    /// Checks that a value is finite.
    pub(crate) fn new(
        op: &'static str,
        param: &'static str,
        value: f32,
    ) -> Result<Self, ParamError> {
        if value.is_finite() {
            Ok(Self(value))
        } else {
            Err(ParamError::new(op, param, value, "a finite number"))
        }
    }

    /// Refuses an image of an integer type whose range does not contain the value.
    pub(crate) fn check(self, op: &'static str, input: &Type) -> Result<(), TypeError> {
        let range = match input {
            Type::Image(image) => image.dtype.integer_range(),
            Type::Tensor { .. } => None,
        };
        match range {
            Some([low, high]) if !(low..=high).contains(&self.0.trunc()) => Err(TypeError {
                op,
                expected: "an image whose type can hold its fill (u8: 0..=255), or a float image",
                found: input.to_string(),
            }),
            _ => Ok(()),
        }
    }

    /// Returns the value as an image of `dtype` gets it: truncated for an integer type.
    pub(crate) fn stored_as(self, dtype: DType) -> Self {
        if dtype.integer_range().is_some() { Self(self.0.trunc()) } else { self }
    }

    pub(crate) const fn number(self) -> f32 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::{Dim, ImageType};

    #[test]
    fn integers_take_the_whole_part_of_a_fill_that_is_in_their_range() {
        let image = ImageType::decoded(Dim::fixed(2), Dim::fixed(2));
        for (fill, fits) in [
            (0.0, [true, true, true]),
            (255.9, [true, true, true]),
            (-0.5, [true, true, true]),
            (256.0, [false, true, true]),
            (-1.0, [false, true, true]),
            (32_768.0, [false, false, true]),
        ] {
            let fill = FillValue::new("Op", "fill", fill).unwrap();
            let types = [DType::U8, DType::I16, DType::F32];
            let found = types.map(|dtype| {
                let image = Type::Image(ImageType { dtype, ..image });
                fill.check("Op", &image).is_ok()
            });
            assert_eq!(found, fits, "{fill:?}");
        }
        let fill = FillValue::new("Op", "fill", -7.75).unwrap();
        assert_eq!(fill.stored_as(DType::I16).number(), -7.0);
        assert_eq!(fill.stored_as(DType::F16).number(), -7.75);
        for bad in [f32::NAN, f32::INFINITY] {
            assert!(FillValue::new("Op", "fill", bad).is_err());
        }
    }
}
