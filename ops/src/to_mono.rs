//! To mono: the mean of the channels of audio.

use crate::author::{
    Dim, GeometryOp, GeometryStep, ImageType, ObjectMotion, Rng, RowProducer, Type,
};
use crate::op::{Op, class};
use crate::rows::RowFilter;
use crate::signal::{self, on_signal};
use crate::{Size, TypeError};

/// Makes one channel of the channels of audio, `[channels, samples]`: their mean.
///
#[cfg_attr(doc, doc = include_str!("../pictures/ToMono.md"))]
///
/// ```text
/// out[0, t] = (in[0, t] + in[1, t] + .. + in[C - 1, t]) / C
/// ```
///
/// | | |
/// |--------|-----------------------------------------------------------------------|
/// | input  | image of i16, f16, bf16 or f32, whose rows are the channels           |
/// | output | as the input, with one row                                            |
/// | random | nothing                                                               |
/// | cost   | one addition per value                                                |
///
/// librosa's `to_mono`, with the values that NumPy's `mean` gives for f32: the rows are added in order, as f32, and the
/// sum is divided. Results of i16 are rounded half to even. Audio of one channel stays as it is.
///
/// ```
/// # use fuseloop_ops::*;
/// let signal = ScaleIntensityRange::new(0.0..=255.0, -1.0..=1.0)?;
/// let list = ops![signal, ToMono];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq, Eq)]
#[op(SIGNALS, "makes one channel of the channels of audio: their mean", placed = signal::on_any)]
pub struct ToMono;

const NAME: &str = "ToMono";

#[class(Geometry)]
impl Op for ToMono {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_signal(NAME, input).map(|signal| match signal {
            Type::Image(image) => Type::Image(ImageType { height: Dim::fixed(1), ..image }),
            tensor @ Type::Tensor { .. } => tensor,
        })
    }

    fn does_nothing(&self, input: &Type) -> bool {
        matches!(input, Type::Image(image) if image.height == Dim::fixed(1))
    }
}

impl GeometryOp for ToMono {
    fn draw(&self, _: &mut Rng, _: Size, out: &mut Vec<GeometryStep>) {
        out.push(GeometryStep::Rows(RowFilter::RowMean));
    }

    fn row_producer(&self) -> Option<RowProducer> {
        Some(RowProducer::Called)
    }

    fn object_motion(&self) -> ObjectMotion {
        ObjectMotion::Copied
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;
    use crate::signal::tests::image;

    fn of_height(height: Dim) -> Type {
        let Type::Image(any) = image(DType::F32) else { panic!("it is an image") };
        Type::Image(ImageType { height, ..any })
    }

    #[test]
    fn one_row_is_left() {
        let any = of_height(Dim { min: 1, max: 8 });
        assert_eq!(ToMono.output(&any), Ok(of_height(Dim::fixed(1))));
        assert!(!ToMono.does_nothing(&any));
        assert!(ToMono.does_nothing(&of_height(Dim::fixed(1))));
        let error = ToMono.output(&image(DType::U8)).unwrap_err().to_string();
        assert!(error.starts_with("ToMono takes ") && error.contains("silence"), "{error}");
        assert!(ToMono.blends(), "a mask would get classes that no pixel has");
    }
}
