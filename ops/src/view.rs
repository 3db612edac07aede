//! View: reads the same bits as another element type.

use crate::author::Type;
use crate::op::{ImageType, Op, class};
use crate::{DType, TypeError};

/// Reads the same bits as another element type of the same size.
///
#[cfg_attr(doc, doc = include_str!("../pictures/View.md"))]
///
/// ```text
/// bits(out[i]) = bits(in[i])       u16, i16, f16, bf16    i32, f32    i64, f64    u8
/// ```
///
/// | | |
/// |--------|---------------------------------------------------------------------------|
/// | input  | image or tensor                                                           |
/// | output | as the input, with elements of another type of the same size              |
/// | random | nothing                                                                   |
/// | cost   | nothing: the batch is stored as before, only its type changes             |
///
/// FFCV's `View` (NumPy's or PyTorch's `view`) for types of the same size. It is for consumers
/// without the stored type: NumPy has no bf16, so `Convert::to(DType::Bf16)` and
/// `View::new(DType::I16)` produce an array that NumPy can hold and PyTorch can view as bf16 again.
///
/// The values of a viewed image are meaningless for colours, masks and fills, so only its layout
/// can be changed after a view. The planner checks this.
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![Normalize::imagenet(), Convert::to(DType::Bf16), View::new(DType::I16)];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq, Eq)]
#[op(
    VALUES,
    "reads the elements, of images and labels, as another type of as many bytes",
    recipes = "every fifth random list has one near its end",
    golden = "the bytes stay unchanged"
)]
pub struct View {
    /// Views elements as `dtype`. The pipeline builder checks that the sizes are equal.
    #[param("the type", name = "to", example = "i16")]
    dtype: DType,
}

impl View {
    /// Returns the expected input, for messages.
    fn expected(self) -> &'static str {
        match self.dtype.bytes() {
            1 => "elements of 1 byte to view as this type (Convert changes the size)",
            2 => "elements of 2 bytes to view as this type (Convert changes the size)",
            4 => "elements of 4 bytes to view as this type (Convert changes the size)",
            _ => "elements of 8 bytes to view as this type (Convert changes the size)",
        }
    }
}

#[class(View(self.dtype))]
impl Op for View {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        let (from, output) = match input {
            Type::Image(image) => {
                (image.dtype, Type::Image(ImageType { dtype: self.dtype, ..*image }))
            }
            Type::Tensor { dtype, shape } => {
                (*dtype, Type::Tensor { dtype: self.dtype, shape: shape.clone() })
            }
        };
        if from.bytes() == self.dtype.bytes() {
            return Ok(output);
        }
        let (expected, found) = (self.expected(), input.to_string());
        Err(TypeError { op: self.name(), expected, found })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::DTYPES;

    fn tensor(dtype: DType) -> Type {
        Type::Tensor { dtype, shape: vec![3] }
    }

    #[test]
    fn types_of_one_size_are_viewed_as_each_other() {
        for from in DTYPES {
            for to in DTYPES {
                let viewed = View::new(to).output(&tensor(from));
                let expected = (from.bytes() == to.bytes()).then(|| tensor(to));
                assert_eq!(viewed.ok(), expected, "{from} as {to}");
            }
        }
    }

    #[test]
    fn another_size_is_refused_with_what_is_needed() {
        let error = View::new(DType::I16).output(&tensor(DType::F32)).unwrap_err().to_string();
        let expected = "View takes elements of 2 bytes to view as this type (Convert changes the \
                        size), but gets a f32 tensor [3]";
        assert_eq!(error, expected);
    }
}
