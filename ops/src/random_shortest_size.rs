//! Random shortest size: scales an image so that its short side has one of several lengths.

use crate::author::{GeometryOp, GeometryStep, Rng, RowProducer, Type};
use crate::error::{side, within_longest};
use crate::op::{Dim, ImageType, Op, class, on_numbers};
use crate::registry::{BuiltOp, OpArgs, ParamKind, SpecError, built, recipe};
use crate::{Interpolation, ParamError, Size, TypeError, geometry_step};

/// Scales an image so that its short side has one of several lengths, and its long side at most another.
///
#[cfg_attr(doc, doc = include_str!("../pictures/RandomShortestSize.md"))]
///
/// torchvision's `RandomShortestSize(min_size, max_size, interpolation, antialias)`, of multi-scale training:
///
/// ```text
/// m    = one of min_size
/// r    = min(m / min(height, width), max_size / max(height, width))
/// size = floor(height * r) x floor(width * r)
/// ```
///
/// Numbers are computed in f64. No side is shorter than 1 pixel, or longer than 65535.
///
/// | | |
/// |--------|-----------------------------------------------------------------------------|
/// | input  | image of u8, u16, i16, f16, bf16 or f32                                     |
/// | output | as the input, but the size differs from sample to sample: a crop or a resize must follow |
/// | random | the length                                                                  |
/// | cost   | the resize                                                                  |
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![
///     RandomShortestSize::new([480, 512, 544])?.max_size(1333)?,
///     FixedSizeCrop::new((544, 1333))?,
/// ];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Debug, PartialEq, Eq)]
#[op(GEOMETRY, "scales the short side to one of several lengths", constructor = new, build = |args| Ok(built(shortest_size(args)?)), draw = random, golden = "a Resize, which has goldens, to a size that is tested with torchvision's draws")]
pub struct RandomShortestSize {
    /// Not empty.
    #[param("lengths of the short side", example = [480, 512, 544], kind = ParamKind::Ids)]
    min_size: Vec<u32>,
    /// Limits the long side: the output is smaller where the long side would be longer.
    #[param("most pixels of the long side", optional, 1..=65_535)]
    max_size: Option<u32>,
    #[param(interpolation, antialias)]
    interpolation: Interpolation,
}

const OP: &str = "RandomShortestSize";

impl RandomShortestSize {
    /// Scales the short side to one of these lengths, all equally likely.
    ///
    /// # Errors
    ///
    /// If there is no length, or one is not in `1..=65535`.
    pub fn new(min_size: impl IntoIterator<Item = u32>) -> Result<Self, ParamError> {
        let sides = min_size.into_iter().map(|length| side(OP, "min_size", length));
        let min_size = sides.collect::<Result<Vec<_>, _>>()?;
        if min_size.is_empty() {
            return Err(ParamError::new(OP, "min_size", "no length", "one or more lengths"));
        }
        Ok(Self { min_size, max_size: None, interpolation: Interpolation::default() })
    }

    /// Returns the ratio that scales a short side to `length`, if the long side allows it.
    fn ratio(&self, length: u32, [short, long]: [u32; 2]) -> f64 {
        let ratio = f64::from(length) / f64::from(short);
        self.max_size.map_or(ratio, |most| ratio.min(f64::from(most) / f64::from(long)))
    }

    /// Returns the output's size for an image of `size`.
    fn size(&self, length: u32, size: Size) -> Size {
        let sides = [size.height.min(size.width), size.height.max(size.width)];
        let ratio = self.ratio(length, sides);
        let side = |side: u32| within_longest((f64::from(side) * ratio) as u32);
        Size::new(side(size.height), side(size.width))
    }
}

#[class(Geometry)]
impl Op for RandomShortestSize {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_numbers(self.name(), input, |image| {
            let (h, w) = (image.height, image.width);
            let lengths = self.min_size.iter().copied();
            let (shortest, longest) = (lengths.clone().min(), lengths.max());
            let most = [h.max.min(w.max), h.max.max(w.max)];
            let least = [h.min.min(w.min), h.min.max(w.min)];
            let low = self.ratio(shortest.unwrap_or(1), most);
            let high = self.ratio(longest.unwrap_or(1), least);
            let range = |side: Dim| Dim {
                min: within_longest((f64::from(side.min) * low) as u32),
                max: within_longest((f64::from(side.max) * high) as u32)
                    .min(self.max_size.unwrap_or(u32::MAX)),
            };
            ImageType { height: range(h), width: range(w), ..image }
        })
    }
}

impl GeometryOp for RandomShortestSize {
    fn draw(&self, rng: &mut Rng, size: Size, out: &mut Vec<GeometryStep>) {
        let length = self.min_size[rng.below(self.min_size.len() as u32) as usize];
        let size = self.size(length, size);
        out.push(GeometryStep::Resize { size, interpolation: self.interpolation });
    }

    fn row_producer(&self) -> Option<RowProducer> {
        Some(geometry_step::resize_producer(self.interpolation))
    }

    fn blends(&self) -> bool {
        self.interpolation.blends()
    }
}

fn shortest_size(args: &OpArgs<'_>) -> Result<RandomShortestSize, SpecError> {
    // A length beyond u32 is refused like any other that is too long.
    let lengths = args.ids("min_size")?.into_iter().map(|id| u32::try_from(id).unwrap_or(u32::MAX));
    let op = RandomShortestSize::new(lengths)?;
    let op = match args.if_given("max_size", OpArgs::u32)? {
        Some(most) => op.max_size(most)?,
        None => op,
    };
    Ok(op.interpolation(args.interpolation("interpolation")?))
}

fn random(rng: &mut Rng, _: &ImageType) -> Result<BuiltOp, ParamError> {
    let lengths: Vec<u32> = (0..=rng.below(3)).map(|_| recipe::size(rng).0).collect();
    let op = RandomShortestSize::new(lengths)?.interpolation(recipe::interpolation(rng));
    Ok(built(if rng.coin(0.7) { op.max_size(20 + rng.below(80))? } else { op }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `tests/golden/targets/vectors.json`: the cases `RandomShortestSize.0` to `.2`.
    #[test]
    fn sizes_are_torchvisions() {
        let op = RandomShortestSize::new([16, 25, 33]).unwrap().max_size(40).unwrap();
        for (length, height, width) in [(33, 26, 40), (25, 25, 37), (16, 16, 24)] {
            assert_eq!(op.size(length, Size::new(20, 30)), Size::new(height, width));
        }
        assert_eq!(op.size(16, Size::new(1000, 3)), Size::new(40, 1), "never empty");
    }

    #[test]
    fn the_type_says_what_sides_may_be() {
        let input = Type::Image(ImageType::from(Size::new(20, 30)));
        let op = RandomShortestSize::new([16, 25, 33]).unwrap();
        assert_eq!(op.output(&input).unwrap().to_string(), "a u8 image [16..=33, 24..=49, 3]");
        let op = op.max_size(40).unwrap();
        assert_eq!(op.output(&input).unwrap().to_string(), "a u8 image [16..=26, 24..=40, 3]");
    }

    #[test]
    fn bad_parameters_are_refused() {
        assert!(RandomShortestSize::new([]).is_err() && RandomShortestSize::new([9, 0]).is_err());
        assert!(RandomShortestSize::new([9]).unwrap().max_size(70_000).is_err());
    }
}
