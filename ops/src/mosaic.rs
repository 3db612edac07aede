//! Mosaic: puts four images of the batch, and their objects, into one.

use crate::author::{BoundingBox, ImageMix, MultiImageOp, Rng, Type};
use crate::op::{Op, class, on_image};
use crate::{Size, TypeError};

/// Puts parts of four images of the batch into one, with their objects: YOLO's augmentation.
///
#[cfg_attr(doc, doc = include_str!("../pictures/Mosaic.md"))]
///
/// Bochkovskiy et al., arXiv:2004.10934. The image itself is on the top left; the others are three other samples of the
/// batch, without repetition. In a batch of fewer than four samples, the image itself takes their places.
///
/// ```text
/// yc = trunc(H * U(center)),  xc = trunc(W * U(center))
/// out[y, x] = image_0[y - yc + H, x - xc + W]   for y <  yc, x <  xc
///             image_1[y - yc + H, x - xc]       for y <  yc, x >= xc
///             image_2[y - yc,     x - xc + W]   for y >= yc, x <  xc
///             image_3[y - yc,     x - xc]       for y >= yc, x >= xc
/// ```
///
/// So the four images touch with their corners at the centre, and the output has their size. This is KerasCV's
/// `Mosaic` with its default `offset`, and the middle of the canvas of Ultralytics' `Mosaic`: a canvas of twice the size,
/// whose centre is `U(1/2, 3/2)` times the size, has that centre at `U(0, 1)` once a quarter of the canvas is cut off on
/// each side. Use `center(0.0..=1.0)` for it. Ultralytics then warps the canvas before it is cut: put
/// [`RandomAffine`](crate::RandomAffine) or [`RandomPerspective`](crate::RandomPerspective) after this op to warp the
/// mosaic, or before it to warp each of the images.
///
/// Boxes move with their images and are cut at the parts that are shown, and so are masks. An object of a mosaic stays if
///
/// ```text
/// width >= min_size, height >= min_size, width * height >= min_area
/// ```
///
/// holds for its box after the cut, as in [`SanitizeBoundingBoxes`](crate::SanitizeBoundingBoxes), with the same defaults
/// and a tolerance of a thousandth of a pixel for each side; without boxes, it is the smallest box around the pixels of its mask that are shown. An object is also removed if
/// its mask has pixels, but none that is shown. All its rows are removed with it. A keypoint that is
/// cut off becomes one that is not labelled (visibility 0); without a visibility it stays at its place outside.
///
/// | | |
/// |--------|-----------------------------------------------------------------------------|
/// | input  | image of any element type and layout, with targets                          |
/// | output | as the input, with the objects of four samples                              |
/// | random | for each sample: a coin, a centre and three other samples                   |
/// | where  | anywhere: it mixes a finished batch, which ops after it read once more      |
/// | cost   | the batch is copied twice                                                   |
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![Letterbox::new(640)?, RandomHorizontalFlip::new(0.5)?, Mosaic::new()];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq)]
#[op(
    MIXING,
    "puts parts of four images of a batch into one, with their objects",
    recipes = "it mixes a whole batch: tests/loader/multi_image.rs",
    golden = "its pixels are compared with the formula in tests/loader/multi_image.rs",
    new = "Builds the op for every sample, with a centre in the middle half of each side, for objects whose boxes after the cut have sides of 1 pixel or more, and an area of 1 or more."
)]
pub struct Mosaic {
    /// Sets the range of the centre, as shares of the height and of the width.
    #[param("where the four images meet, as a share of each side", 0.0..=1.0, default = 0.25..=0.75)]
    center: [f32; 2],
    /// Sets the share of the samples that become a mosaic.
    #[param("share of the samples", share, default = 1.0)]
    p: f64,
    /// Sets the least width and height of an object after the cut, in pixels. Objects with less are removed.
    #[param(
        "least width and height of an object after the cut, in pixels",
        positive,
        default = 1.0
    )]
    min_size: f64,
    /// Sets the least area of an object after the cut, in pixels. Objects with less are removed.
    #[param("least area of an object after the cut, in pixels", positive, default = 1.0)]
    min_area: f64,
}

/// The length that a side may miss of the least, in pixels: boxes are stored as f32.
const TOLERANCE: f64 = 1e-3;

const NAME: &str = "Mosaic";

/// Draws up to three rows other than `own`, without repetition; `own` takes the places of those that are missing.
fn others(rng: &mut Rng, rows: usize, own: usize) -> [usize; 3] {
    let mut left: Vec<usize> = (0..rows).filter(|row| *row != own).collect();
    [(); 3].map(|()| match left.len() {
        0 => own,
        // A batch never has more rows than a `u32` can count.
        count => left.swap_remove(rng.below(count as u32) as usize),
    })
}

#[class(MultiImage)]
impl Op for Mosaic {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_image(NAME, input, |image| image)
    }
}

impl MultiImageOp for Mosaic {
    fn draw(&self, rng: &mut Rng, objects: &[usize], size: Size) -> Vec<ImageMix> {
        let one = |row| {
            let applies = rng.coin(self.p);
            let [low, high] = self.center;
            let mut place = |side: u32| (side as f32 * rng.uniform(low, high)) as u32;
            let center = [place(size.height), place(size.width)];
            let [right, below, opposite] = others(rng, objects.len(), row);
            let rows = [row, right, below, opposite];
            if applies { ImageMix::Mosaic { rows, center } } else { ImageMix::Unchanged }
        };
        (0..objects.len()).map(one).collect()
    }

    fn growth(&self) -> usize {
        4
    }

    fn keeps(&self, bounds: BoundingBox) -> bool {
        let [width, height] = [bounds.width(), bounds.height()].map(|side| side + TOLERANCE);
        let is_large = width >= self.min_size && height >= self.min_size;
        // A limit below the tolerance leaves out empty boxes all the same.
        is_large && width * height >= self.min_area && bounds.area() > 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::BatchKey;

    fn drawn(op: Mosaic, rows: usize) -> Vec<ImageMix> {
        let mut rng = BatchKey::new(5, 0, 1).op(NAME, 0);
        op.draw(&mut rng, &vec![0; rows], Size::new(40, 100))
    }

    #[test]
    fn the_three_others_are_other_samples() {
        for rows in 1..9 {
            for (own, mix) in drawn(Mosaic::new(), rows).into_iter().enumerate() {
                let ImageMix::Mosaic { rows: four, .. } = mix else { panic!("{mix:?}") };
                assert_eq!(four[0], own);
                let mut others: Vec<usize> = four.into_iter().filter(|row| *row != own).collect();
                others.sort_unstable();
                others.dedup();
                assert_eq!(others.len(), (rows - 1).min(3), "{four:?} of {rows}");
            }
        }
        assert!(drawn(Mosaic::new(), 0).is_empty());
    }

    #[test]
    fn centres_are_in_their_range() {
        let centers = |op: Mosaic| {
            let mixed = drawn(op, 2000).into_iter().map(|mix| match mix {
                ImageMix::Mosaic { center, .. } => center,
                other => panic!("{other:?}"),
            });
            mixed.collect::<Vec<_>>()
        };
        let found = centers(Mosaic::new());
        assert!(found.iter().all(|[y, x]| (10..30).contains(y) && (25..75).contains(x)));
        assert!(found.iter().any(|[y, x]| *y == 10 && *x > 50));
        let found = centers(Mosaic::new().center(0.0..=1.0).unwrap());
        assert!(found.iter().any(|[y, _]| *y == 0) && found.iter().any(|[y, _]| *y == 39));
        assert!(centers(Mosaic::new().center(1.0..=1.0).unwrap()).iter().all(|c| *c == [40, 100]));
    }

    #[test]
    fn a_share_p_of_the_samples_is_mixed_and_the_others_draw_the_same() {
        let (all, half) = (drawn(Mosaic::new(), 400), drawn(Mosaic::new().p(0.5).unwrap(), 400));
        let pairs = all.iter().zip(&half);
        let same = pairs.filter(|(all, half)| all == half).count();
        assert!((160..240).contains(&same), "{same}");
        assert!(half.iter().filter(|mix| **mix == ImageMix::Unchanged).count() == 400 - same);
    }

    #[test]
    fn an_object_stays_if_its_box_has_the_least_sides_and_area() {
        let keeps = |op: Mosaic, width: f64, height: f64| {
            op.keeps(BoundingBox::Edges([10.0, 20.0, 10.0 + width, 20.0 + height]))
        };
        let op = Mosaic::new();
        assert!(keeps(op, 1.0, 1.0) && keeps(op, 0.9995, 1.0) && keeps(op, 5.0, 1.0));
        assert!(!keeps(op, 0.99, 9.0) && !keeps(op, 9.0, 0.5) && !keeps(op, 0.0, 9.0));
        let op = Mosaic::new().min_size(4.0).unwrap().min_area(24.0).unwrap();
        assert!(keeps(op, 4.0, 6.0) && keeps(op, 12.0, 4.0));
        assert!(!keeps(op, 3.0, 50.0) && !keeps(op, 4.0, 5.0));
        let op = Mosaic::new().min_size(1e-6).unwrap().min_area(1e-6).unwrap();
        assert!(keeps(op, 0.1, 0.1) && !keeps(op, 0.0, 9.0) && !keeps(op, -1.0, -1.0));
    }

    #[test]
    fn labels_are_refused() {
        let label = Type::Tensor { dtype: crate::DType::I64, shape: vec![] };
        assert!(Mosaic::new().output(&label).is_err());
    }
}
