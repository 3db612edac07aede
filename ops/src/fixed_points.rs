//! Fixed points: samples a fixed number of the rows of an array.

use crate::author::{
    Dim, GeometryOp, GeometryStep, ImageType, ObjectMotion, Rng, RowProducer, Type,
};
use crate::op::{Op, class, on_numbers};
use crate::rows::{RowFilter, RowPermutation};
use crate::{Size, TypeError};

/// Samples `num` rows, so that point clouds of any number of points become arrays of one size.
///
#[cfg_attr(doc, doc = include_str!("../pictures/FixedPoints.md"))]
///
/// ```text
/// out[y, x] = in[p_r(y mod N), x]        r = y / N, for N rows
/// ```
///
/// where each `p_r` is a random permutation of the rows.
///
/// | | |
/// |--------|---------------------------------------------------------------------------------------|
/// | input  | image of u8, u16, i16, f16, bf16 or f32: a point cloud `[points, coordinates]`, or any array |
/// | output | as the input, with `num` rows                                                         |
/// | random | two words per sample, from which the permutations are computed                        |
/// | cost   | a copy of each row, and about twenty hashes                                           |
///
/// Up to `num` = N, this samples without replacement, and the rows are in random order. Beyond, every row occurs
/// `num` / N times, rounded down or up: all rows come once, then all of them again in another order. This is
/// PyTorch Geometric's `FixedPoints(num, replace=False, allow_duplicates=True)`; its default, which samples with
/// replacement, and its draws, which are those of torch's generator, are not available.
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![FixedPoints::new(1024)?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq, Eq)]
#[op(
    POINTS,
    "samples a fixed number of the rows of an array",
    golden = "permutations of this crate's generator: their distribution is tested"
)]
pub struct FixedPoints {
    /// Builds the op for outputs of `num` rows.
    #[param("rows of the output", 1..=1_048_576, example = 1024, draw = 1..=120)]
    num: u32,
}

const NAME: &str = "FixedPoints";

#[class(Geometry)]
impl Op for FixedPoints {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_numbers(NAME, input, |image| ImageType { height: Dim::fixed(self.num), ..image })
    }
}

impl GeometryOp for FixedPoints {
    fn draw(&self, rng: &mut Rng, _: Size, out: &mut Vec<GeometryStep>) {
        let keys = [rng.word(), rng.word()];
        out.push(GeometryStep::Rows(RowFilter::Permute(RowPermutation { rows: self.num, keys })));
    }

    fn row_producer(&self) -> Option<RowProducer> {
        Some(RowProducer::Called)
    }

    fn blends(&self) -> bool {
        false
    }

    fn object_motion(&self) -> ObjectMotion {
        ObjectMotion::Copied
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;
    use crate::rng::SampleKey;
    use crate::shape::ImageView;

    fn step(op: FixedPoints, sample: u64) -> RowFilter {
        let mut steps = vec![];
        op.draw(&mut SampleKey::new(0, 0, sample).op(0), Size::new(5, 3), &mut steps);
        match &steps[..] {
            [GeometryStep::Rows(filter)] => filter.clone(),
            other => panic!("{other:?} is not one row filter"),
        }
    }

    /// How often each of five rows occurs among `num`.
    fn counts(num: u32, sample: u64) -> [u32; 5] {
        let points: Vec<u8> = (0..15).collect();
        let points = ImageView::packed_channels(&points, Size::new(5, 3), 1).unwrap();
        let filter = step(FixedPoints::new(num).unwrap(), sample);
        assert_eq!(filter.output(points.size()), Size::new(num, 3));
        let mut counts = [0; 5];
        for row in filter.eval(&points).as_chunks().0 {
            let [first, ..]: [u8; 3] = *row;
            assert_eq!(*row, [first, first + 1, first + 2], "a point has its own coordinates");
            counts[usize::from(first / 3)] += 1;
        }
        counts
    }

    #[test]
    fn no_row_occurs_twice_unless_more_are_wanted_than_there_are() {
        for sample in 0..200 {
            for num in 1..23 {
                let counts = counts(num, sample);
                let [least, most] = [num / 5, num.div_ceil(5)];
                assert!(counts.iter().all(|n| (least..=most).contains(n)), "{num}: {counts:?}");
            }
        }
    }

    #[test]
    fn every_set_of_rows_is_equally_likely() {
        let mut seen = std::collections::BTreeMap::new();
        for sample in 0..10_000 {
            *seen.entry(counts(2, sample)).or_insert(0u32) += 1;
        }
        assert_eq!(seen.len(), 10);
        // Five deviations: sqrt(10,000 * 0.1 * 0.9) is 30.
        assert!(seen.values().all(|n| n.abs_diff(1000) < 150), "{seen:?}");
    }

    #[test]
    fn the_number_of_rows_is_all_that_changes_of_the_type() {
        let op = FixedPoints::new(100).unwrap();
        let any = ImageType {
            height: Dim { min: 1, max: 9000 },
            ..ImageType::array(Size::new(1, 6), 1, DType::F32)
        };
        let want = ImageType { height: Dim::fixed(100), ..any };
        assert_eq!(op.output(&Type::Image(any)), Ok(Type::Image(want)));
        let i64s = Type::Image(ImageType { dtype: DType::I64, ..any });
        assert!(op.output(&i64s).is_err());
        assert!(!op.blends());
    }
}
