//! CutMix: replaces a rectangle of each sample by that of another sample of the batch, and mixes the labels by area.

use crate::author::{BatchOp, Rng, RowMix, Type};
use crate::mixing::Partner;
use crate::mixing::{Mixing, label_output};
use crate::op::{Op, class};
use crate::shape::Window;
use crate::{Size, TypeError};

/// Copies a rectangle of another sample of the batch into each sample, and mixes the labels by
/// area.
///
#[cfg_attr(doc, doc = include_str!("../pictures/CutMix.md"))]
///
/// Yun et al., arXiv:1905.04899.
///
/// ```text
/// s ~ Beta(alpha, alpha);  cx = U{0..W-1};  cy = U{0..H-1}
/// r = sqrt(1 - s) / 2;     hw = trunc(r * W);  hh = trunc(r * H)
/// x1 = max(cx - hw, 0);  x2 = min(cx + hw, W);  y1 = max(cy - hh, 0);  y2 = min(cy + hh, H)
/// image: out[y, x] = partner[y, x]  for y1 <= y < y2 and x1 <= x < x2,  else own[y, x]
/// label: its own with share 1 - (x2 - x1) * (y2 - y1) / (W * H), the partner's with the rest
/// ```
///
/// | | |
/// |--------|----------------------------------------------------------------------------|
/// | input  | an image of any element type and layout; floats; one i64                   |
/// | output | as the input; f32 `[3]` of one i64: class, class of the partner, share     |
/// | random | see [`Partner`]: a coin, a share and a centre for the batch or each sample |
/// | where  | last in its list: it mixes a finished batch in place                       |
/// | cost   | the rectangle is copied                                                    |
///
/// The formulas are those of torchvision's `CutMix`. The rectangle depends on the size of the image, so
/// the share of a label follows from the size of the images whose list contains the same op. An array of
/// several axes is a picture, in which `y` and `x` count its rows and columns; other floats are a label. Floats of
/// a label that are equal stay unchanged, so that a one-hot vector keeps its zeros.
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![Normalize::imagenet(), ToChannelsFirst, CutMix::new(1.0)?];
/// let labels = ops![OneHot::new(1000)?, CutMix::new(1.0)?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq)]
#[op(
    MIXING,
    "puts a rectangle of another sample of the batch into each, and mixes their labels",
    recipes = "it mixes a whole batch: tests/compiler/mix.rs"
)]
pub struct CutMix {
    /// Builds the op with one rectangle per batch; the partner of a sample is the sample before it.
    #[param("shares are drawn from Beta(alpha, alpha)", new, positive, default = 1.0)]
    alpha: f64,
    /// Sets which sample each sample is mixed with. Default [`Partner::Previous`].
    #[param("who is mixed with whom: the sample before, or one by a random permutation", default = Partner::Previous)]
    partner: Partner,
    /// Draws a rectangle (and a coin) for each sample.
    #[param(
        "draws for each sample in place of the batch: FFCV's same_lambda = false",
        flag,
        default = false
    )]
    per_sample: bool,
    /// Sets the share of the batches, or of the samples, that are mixed.
    #[param("share of the batches, or of the samples", share, default = 1.0)]
    p: f64,
}

/// Computes one value of a pixel. This is the reference implementation.
#[must_use]
pub fn eval<T>(own: T, partner: T, y: u32, x: u32, window: Window) -> T {
    let inside = |at: u32, first: u32, count: u32| at >= first && at - first < count;
    let inside = inside(y, window.top, window.height) && inside(x, window.left, window.width);
    if inside { partner } else { own }
}

/// Returns the rectangle around a centre for a drawn share, and the share of the image outside the
/// rectangle.
fn cut(size: Size, share: f64, centre: (u32, u32)) -> (f64, Window) {
    let half = (1.0 - share).sqrt() / 2.0;
    let span = |centre: u32, side: u32| {
        let reach = (half * f64::from(side)) as u32;
        (centre.saturating_sub(reach), centre.saturating_add(reach).min(side))
    };
    let (left, right) = span(centre.0, size.width);
    let (top, bottom) = span(centre.1, size.height);
    let window = Window { top, left, height: bottom - top, width: right - left };
    (1.0 - window.size().pixels() as f64 / size.pixels() as f64, window)
}

impl CutMix {
    fn mixing(&self) -> Mixing {
        let Self { alpha, partner, per_sample, p } = *self;
        Mixing { alpha, partner, per_sample, p }
    }
}

#[class(Batch)]
impl Op for CutMix {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        match input {
            Type::Image(_) => Ok(input.clone()),
            Type::Tensor { .. } => label_output(self.name(), input),
        }
    }
}

impl BatchOp for CutMix {
    fn draw(&self, rng: &mut Rng, rows: usize, size: Size) -> Vec<RowMix> {
        self.mixing().draw(rng, rows, |rng, share| {
            let centre = (rng.below(size.width.max(1)), rng.below(size.height.max(1)));
            let (share, window) = cut(size, share, centre);
            (share, Some(window))
        })
    }

    fn needs_size(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::BatchKey;
    use crate::shape::is_inside;

    #[test]
    fn the_rectangle_is_torchvisions() {
        // 8 columns, 10 rows; r = sqrt(0.1) / 2 = 0.158: half sides 1 and 1.
        let size = Size::new(10, 8);
        let (share, window) = cut(size, 0.9, (4, 4));
        assert_eq!(window, Window { top: 3, left: 3, height: 2, width: 2 });
        assert_eq!(share, 0.95);
        let (share, window) = cut(size, 0.9, (0, 9));
        assert_eq!(window, Window { top: 8, left: 0, height: 2, width: 1 });
        assert_eq!(share, 1.0 - 2.0 / 80.0);
        assert_eq!(cut(size, 1.0, (4, 4)).0, 1.0);
        let (share, window) = cut(size, 0.0, (4, 5));
        assert_eq!((share, window), (0.0, size.full()));
    }

    #[test]
    fn values_inside_the_rectangle_are_the_partners() {
        let window = Window { top: 1, left: 2, height: 2, width: 1 };
        let picture: Vec<Vec<char>> =
            (0..4).map(|y| (0..4).map(|x| eval('.', '#', y, x, window)).collect()).collect();
        let rows: Vec<String> = picture.into_iter().map(String::from_iter).collect();
        assert_eq!(rows, ["....", "..#.", "..#.", "...."]);
    }

    #[test]
    fn every_rectangle_fits_and_the_share_is_the_area_left() {
        let size = Size::new(33, 7);
        let op = CutMix::new(0.7).unwrap().per_sample().p(0.8).unwrap();
        let mut rng = BatchKey::new(1, 2, 3).op("CutMix", 0);
        let drawn = op.draw(&mut rng, 500, size);
        for mixed in &drawn {
            let window = mixed.window.unwrap();
            assert!(is_inside(window, size), "{window:?}");
            let rest = 1.0 - window.size().pixels() as f64 / size.pixels() as f64;
            assert_eq!(mixed.share, rest);
        }
        assert!(drawn.iter().any(|mixed| mixed.share == 1.0), "some are not mixed");
        assert!(drawn.iter().any(|mixed| mixed.share < 0.5), "some are mixed a lot");
    }
}
