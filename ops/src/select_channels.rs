//! Channel selection: the output has the channels of the input that a list of indices names.

use crate::author::Rng;
use crate::author::{Emit, Eval, PixelOp, Pixels, Type};
use crate::op::{ImageType, Op, class, on_numbers};
use crate::registry::{BuiltOp, OpArgs, SpecError};
use crate::registry::{ParamKind, built};
use crate::{ParamError, TypeError};

/// Takes channels by their indices, in the order given, for any values.
///
#[cfg_attr(doc, doc = include_str!("../pictures/SelectChannels.md"))]
///
/// ```text
/// out[c] = in[channels[c]]
/// ```
///
/// | | |
/// |--------|--------------------------------------------------------------------------------------|
/// | input  | image of u8, u16, i16, f16, bf16 or f32                                              |
/// | output | as the input, with as many channels as indices; at most 4 if the input has at most 4 |
/// | random | nothing                                                                              |
/// | cost   | nothing; of more than 4 channels, a copy of those that are selected                  |
///
/// NumPy's `x[..., [3, 2, 1]]`. An index may occur several times: `[0, 0, 0]` makes three equal channels of a gray
/// image. The values are copied and stay what they were: levels, classes of a mask, Hounsfield units or the bands of
/// a satellite. An index that the image does not have is an error when the list is planned.
///
/// Of an image of more than four channels, only those that the output needs are processed, wherever the op stands.
/// Ops before it treat all channels alike. Once four or fewer are selected, ops on colours may follow. It is fastest
/// as the first op, or after crops and flips.
///
/// [`PermuteChannels`](crate::PermuteChannels) is for photographs: it takes levels of three channels only, and is
/// part of a colour matrix under the relaxed rule. A draw can't decide the number of channels, so that the op stands
/// outside of containers unless it keeps their number.
///
/// ```
/// # use fuseloop_ops::*;
/// let sentinel = ops![SelectChannels::new([3, 2, 1])?]; // B04, B03 and B02 of the 13 bands: red, green and blue
/// let without_alpha = ops![SelectChannels::new([0, 1, 2])?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Debug, PartialEq, Eq)]
#[op(VALUES, "takes channels by their indices, in the order given: bands of a satellite image, RGB of RGBA", constructor = new, build = build, draw = random)]
pub struct SelectChannels {
    #[param("the input's channel for each channel of the output, from 0", example = [2, 1, 0], kind = ParamKind::Ids)]
    channels: Vec<u16>,
}

const NAME: &str = "SelectChannels";

impl SelectChannels {
    /// Builds the op from the index of the input's channel for each channel of the output, from 0.
    ///
    /// # Errors
    ///
    /// If there is no index, or more than 65535. A list is refused if the image lacks one of the channels.
    pub fn new(channels: impl AsRef<[u16]>) -> Result<Self, ParamError> {
        let channels = channels.as_ref().to_vec();
        match u16::try_from(channels.len()) {
            Ok(1..) => Ok(Self { channels }),
            _ => {
                let found = format!("{} indices", channels.len());
                Err(ParamError::new(NAME, "channels", found, "1 to 65535 indices"))
            }
        }
    }
}

fn build(args: &OpArgs<'_>) -> Result<BuiltOp, SpecError> {
    let indices = args.ids("channels")?.into_iter().map(|index| {
        let too_large = |_| ParamError::new(NAME, "channels", index, "indices below 65535");
        u16::try_from(index).map_err(too_large)
    });
    Ok(built(SelectChannels::new(indices.collect::<Result<Vec<_>, _>>()?)?))
}

fn random(rng: &mut Rng, before: &ImageType) -> Result<BuiltOp, ParamError> {
    let all = u32::from(before.channels);
    let count = match all {
        5.. if rng.coin(0.3) => 1 + rng.below(all + 1),
        _ => 1 + rng.below(4),
    };
    let indices = (0..count).map(|_| rng.below(all) as u16);
    Ok(built(SelectChannels::new(indices.collect::<Vec<_>>())?))
}

#[class(Pixel)]
impl Op for SelectChannels {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        if let Type::Image(ImageType { channels, .. }) = input
            && let Some(index) = self.channels.iter().find(|index| *index >= channels)
        {
            let last = channels - 1;
            return Err(TypeError {
                op: NAME,
                expected: "indices of the channels of its image",
                found: format!(
                    "index {index} for {input}, whose {channels} channel(s) are 0..={last}"
                ),
            });
        }
        let channels = self.channels.len() as u16;
        on_numbers(NAME, input, |image| image.with_channels(channels))
    }

    fn does_nothing(&self, input: &Type) -> bool {
        matches!(input, Type::Image(image) if self.channels.iter().copied().eq(0..image.channels))
    }
}

impl PixelOp for SelectChannels {
    fn selected_channels(&self) -> Option<&[u16]> {
        Some(&self.channels)
    }

    fn eval(&self, _: &Eval<'_>, pixel: &mut [f32]) {
        let old = pixel.to_vec();
        pixel.iter_mut().zip(&self.channels).for_each(|(v, from)| *v = old[usize::from(*from)]);
    }

    fn emit(&self, _: &mut Emit, pixels: Pixels) -> Pixels {
        pixels.selected(&self.channels)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::{Dim, evaluated};
    use crate::shape::Layout;
    use crate::{DType, NumberRule};

    fn image(channels: u16, dtype: DType) -> ImageType {
        let image = ImageType::decoded(Dim::fixed(2), Dim::fixed(3));
        ImageType { dtype, ..image.with_channels(channels) }
    }

    fn select(channels: &[u16]) -> SelectChannels {
        SelectChannels::new(channels).unwrap()
    }

    #[test]
    fn values_are_copied_in_the_order_of_the_indices() {
        let cx = Eval::new(NumberRule::Exact, &[]);
        let found = evaluated(&select(&[2, 0]), &cx, [1.0, 2.0, f32::INFINITY]);
        assert_eq!(found[..2], [f32::INFINITY, 1.0]);
        let found = evaluated(&select(&[1, 1, 0]), &cx, [-0.5, 7.25, 0.0]);
        assert_eq!(found, [7.25, 7.25, -0.5]);
    }

    #[test]
    fn the_output_has_a_channel_for_each_index_and_keeps_the_type() {
        for (found, want) in [(13, 3), (4, 3), (3, 3), (2, 3)] {
            let input = ImageType { is_levels: false, ..image(found, DType::I16) };
            let output = select(&[1, 0, 1]).output(&Type::Image(input)).unwrap();
            assert_eq!(output, Type::Image(input.with_channels(want)));
        }
        let plane = ImageType { layout: Layout::Plane, ..image(1, DType::U8) };
        let output = select(&[0, 0]).output(&Type::Image(plane)).unwrap();
        assert_eq!(output.to_string(), "a u8 image [2, 3, 2]");
    }

    #[test]
    fn an_index_that_the_image_lacks_is_refused() {
        let error = select(&[3, 13]).output(&Type::Image(image(13, DType::U16))).unwrap_err();
        assert_eq!(
            error.to_string(),
            "SelectChannels takes indices of the channels of its image, but gets index 13 for a u16 image \
             [2, 3, 13], whose 13 channel(s) are 0..=12"
        );
        assert!(select(&[0]).output(&Type::Image(image(3, DType::I64))).is_err());
    }

    #[test]
    fn all_channels_in_order_are_the_image() {
        let input = Type::Image(image(3, DType::U8));
        assert!(select(&[0, 1, 2]).does_nothing(&input));
        assert!(!select(&[0, 1]).does_nothing(&input) && !select(&[0, 2, 1]).does_nothing(&input));
    }

    #[test]
    fn a_selection_of_no_channel_or_of_too_many_is_refused() {
        let error = SelectChannels::new([]).unwrap_err().to_string();
        assert_eq!(error, "SelectChannels: channels is 0 indices, expected 1 to 65535 indices");
        assert!(SelectChannels::new(vec![0; 65_536]).is_err());
    }
}
