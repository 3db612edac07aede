//! Simple copy-paste: pastes objects of another sample of the batch into each sample.

use crate::author::{ImageMix, MultiImageOp, Rng, Type};
use crate::op::{Op, class, on_image};
use crate::{Size, TypeError};

/// Pastes some objects of another sample of the batch into each sample, where they are.
///
#[cfg_attr(doc, doc = include_str!("../pictures/SimpleCopyPaste.md"))]
///
/// Ghiasi et al., arXiv:2012.07177; `SimpleCopyPaste` of torchvision's detection references, without `blending`. The
/// partner of a sample is the sample before it, and that of the first sample is the last one:
///
/// ```text
/// chosen = the distinct values of N draws of U{0..N-1}, for a partner of N objects
/// alpha  = 1 where the mask of a chosen object is, else 0
/// image:  out[y, x] = partner[y, x] where alpha is 1, else own[y, x];  a mask of the image likewise
/// masks:  own * (1 - alpha), then those of the chosen objects
/// boxes:  for own objects, the smallest box around the pixels that are left; then those of the chosen objects
/// ```
///
/// An object without a pixel in the output is removed with all its rows, and so is a chosen object whose box is empty. A
/// keypoint of the image under a pasted object becomes a hidden one (visibility 1), if it was visible and keypoints have
/// a visibility. A sample stays as it is if its partner has no objects, or if it is its own partner, in a batch of one.
///
/// torchvision differs in three details: its boxes end at the last pixel and are one pixel short, and
/// an object that is one pixel wide is lost; its `blending` blurs a
/// mask of booleans, which only makes the mask larger by two pixels; and it keeps chosen objects without a pixel.
///
/// | | |
/// |--------|-----------------------------------------------------------------------------|
/// | input  | image of any element type and layout, with instance masks as targets        |
/// | output | as the input, with the objects of two samples                               |
/// | random | for each sample: a coin, and the chosen objects                             |
/// | where  | last in its list: it mixes a finished batch                                 |
/// | cost   | the batch and its masks are copied twice                                    |
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![ScaleJitter::new((640, 640))?, FixedSizeCrop::new(640)?, SimpleCopyPaste::new()];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq)]
#[op(
    MIXING,
    "pastes objects of another image of the batch, cut out by their masks",
    new = "Builds the op for every sample.",
    recipes = "it mixes a whole batch: tests/loader/multi_image.rs",
    golden = "torchvision's results for its draws are in src/loader/mixing/targets.rs"
)]
pub struct SimpleCopyPaste {
    /// Sets the share of the samples that get objects.
    #[param("share of the samples", share, default = 1.0)]
    p: f64,
}

const NAME: &str = "SimpleCopyPaste";

#[class(MultiImage)]
impl Op for SimpleCopyPaste {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_image(NAME, input, |image| image)
    }
}

impl MultiImageOp for SimpleCopyPaste {
    fn draw(&self, rng: &mut Rng, objects: &[usize], _: Size) -> Vec<ImageMix> {
        let one = |row: usize| {
            let applies = rng.coin(self.p);
            let partner = (row + objects.len() - 1) % objects.len();
            // A sample never has more objects than a `u32` can count.
            let count = objects[partner] as u32;
            let mut chosen: Vec<usize> = (0..count).map(|_| rng.below(count) as usize).collect();
            chosen.sort_unstable();
            chosen.dedup();
            if applies && partner != row && !chosen.is_empty() {
                ImageMix::Paste { partner, objects: chosen }
            } else {
                ImageMix::Unchanged
            }
        };
        (0..objects.len()).map(one).collect()
    }

    fn growth(&self) -> usize {
        2
    }

    fn needs_instance_masks(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::BatchKey;

    fn drawn(op: SimpleCopyPaste, objects: &[usize]) -> Vec<ImageMix> {
        op.draw(&mut BatchKey::new(5, 0, 1).op(NAME, 0), objects, Size::new(8, 8))
    }

    #[test]
    fn objects_of_the_sample_before_are_chosen() {
        let objects = [3, 0, 7, 1];
        let mixed = drawn(SimpleCopyPaste::new(), &objects);
        assert_eq!(mixed[2], ImageMix::Unchanged, "its partner has no objects");
        assert_eq!(mixed[0], ImageMix::Paste { partner: 3, objects: vec![0] });
        let ImageMix::Paste { partner: 2, objects: chosen } = &mixed[3] else {
            panic!("{mixed:?}")
        };
        assert!(chosen.is_sorted_by(|a, b| a < b) && chosen.iter().all(|object| *object < 7));
        assert_eq!(drawn(SimpleCopyPaste::new(), &[4]), [ImageMix::Unchanged]);
        assert!(drawn(SimpleCopyPaste::new(), &[]).is_empty());
    }

    /// The share of N objects that N draws with repetition reach is 1 - (1 - 1/N)^N.
    #[test]
    fn objects_are_drawn_with_repetition() {
        let chosen = drawn(SimpleCopyPaste::new(), &[10; 2000]).into_iter().map(|mix| match mix {
            ImageMix::Paste { objects, .. } => objects.len(),
            other => panic!("{other:?}"),
        });
        let mean = chosen.sum::<usize>() as f64 / 2000.0;
        assert!((mean - 10.0 * (1.0 - 0.9_f64.powi(10))).abs() < 0.1, "{mean}");
    }

    #[test]
    fn a_share_p_of_the_samples_is_mixed() {
        let mixed = drawn(SimpleCopyPaste::new().p(0.25).unwrap(), &[2; 1000]);
        let count = mixed.iter().filter(|mix| **mix != ImageMix::Unchanged).count();
        assert!((200..300).contains(&count), "{count}");
        assert!(SimpleCopyPaste::new().p(-0.1).is_err());
    }
}
