//! The lists of ops by which torchvision's references train detectors.
//!
//! | function | torchvision's `--data-augmentation` |
//! |---|---|
//! | [`ssd`] | `ssd`: colours, a larger canvas, a crop around boxes |
//! | [`lsj`] | `lsj`: large scale jittering |
//! | [`multiscale`] | `multiscale`: one of eleven sizes |
//!
//! The lists end with [`SanitizeBoundingBoxes`], and with images of u8: append [`Normalize`](crate::Normalize) and
//! [`ToChannelsFirst`](crate::ToChannelsFirst), and ops on batches such as [`SimpleCopyPaste`](crate::SimpleCopyPaste).
//! They need bounding boxes, which are declared as targets of the image.
//!
//! ```
//! # use fuseloop_ops::*;
//! let mut list = detection::lsj(1024)?;
//! list.extend(ops![Normalize::imagenet(), ToChannelsFirst, SimpleCopyPaste::new()]);
//! # Ok::<(), ParamError>(())
//! ```

use crate::{
    FixedSizeCrop, Ops, ParamError, RandomHorizontalFlip, RandomIoUCrop, RandomPhotometricDistort,
    RandomShortestSize, RandomZoomOut, Resize, SanitizeBoundingBoxes, ScaleJitter, Size, ops,
};

/// The mean colour of the references, which fills areas outside the image.
const MEAN: [u8; 3] = [123, 117, 104];

/// The longest side of an image of [`multiscale`].
const LONGEST: u32 = 1333;

/// Returns the training list of SSD, which ends with images of `size` (one number of pixels for a square, or height and
/// width): [`RandomPhotometricDistort`], [`RandomZoomOut`], [`RandomIoUCrop`], [`Resize`], a flip.
///
/// In torchvision, the model resizes, after the flip: to 300 for `ssd300_vgg16`.
///
/// # Errors
///
/// If a side is not in `1..=65535`.
pub fn ssd(size: impl Into<Size>) -> Result<Ops, ParamError> {
    Ok(ops![
        RandomPhotometricDistort::new(),
        RandomZoomOut::new().fill(MEAN),
        RandomIoUCrop::new(),
        Resize::new(size.into())?,
        RandomHorizontalFlip::new(0.5)?,
        SanitizeBoundingBoxes::new(),
    ])
}

/// Returns the list of large scale jittering (Ghiasi et al., arXiv:2012.07177) for squares of `side` pixels, 1024 in
/// torchvision: [`ScaleJitter`], [`FixedSizeCrop`], a flip.
///
/// # Errors
///
/// If `side` is not in `1..=65535`.
pub fn lsj(side: u32) -> Result<Ops, ParamError> {
    Ok(ops![
        ScaleJitter::new((side, side))?,
        FixedSizeCrop::new(side)?.fill(MEAN),
        RandomHorizontalFlip::new(0.5)?,
        SanitizeBoundingBoxes::new(),
    ])
}

/// Returns the list of multi-scale training: [`RandomShortestSize`] of 480, 512, ..., 800 pixels, and at most 1333 for the
/// long side, and a flip. The images have different sizes.
///
/// # Errors
///
/// Never: all parameters are constants.
pub fn multiscale() -> Result<Ops, ParamError> {
    Ok(ops![
        RandomShortestSize::new((480..=800).step_by(32))?.max_size(LONGEST)?,
        RandomHorizontalFlip::new(0.5)?,
        SanitizeBoundingBoxes::new(),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(list: &Ops) -> String {
        format!("{list:?}")
    }

    #[test]
    fn lists_are_those_of_the_references() {
        let sizes: Vec<u32> = vec![480, 512, 544, 576, 608, 640, 672, 704, 736, 768, 800];
        let expected = ops![
            RandomShortestSize::new(sizes).unwrap().max_size(1333).unwrap(),
            RandomHorizontalFlip::new(0.5).unwrap(),
            SanitizeBoundingBoxes::new(),
        ];
        assert_eq!(shown(&multiscale().unwrap()), shown(&expected));
        let names = |list: Ops| list.iter().map(|op| op.name()).collect::<Vec<_>>();
        assert_eq!(
            names(ssd(300).unwrap()),
            [
                "RandomPhotometricDistort",
                "RandomZoomOut",
                "RandomIoUCrop",
                "Resize",
                "RandomHorizontalFlip",
                "SanitizeBoundingBoxes"
            ]
        );
        assert_eq!(
            names(lsj(1024).unwrap()),
            ["ScaleJitter", "FixedSizeCrop", "RandomHorizontalFlip", "SanitizeBoundingBoxes"]
        );
        assert!(ssd(0).is_err() && lsj(70_000).is_err());
    }
}
